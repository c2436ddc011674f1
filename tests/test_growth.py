"""Memory stays flat, however many shapes and kernels a process sees; `python -m tests.growth` does more."""

import gc
import os
import subprocess
import sys
import weakref

import numpy as np
import pytest
from tests import growth

import fgrad as fg
from fgrad.compiler import elementwise
from fgrad.kernels import checks, native, vm
from fgrad.transforms import procedure

LIMIT = 6
compiled_only = pytest.mark.skipif(native.interpreted(), reason="nothing is compiled")


@pytest.fixture
def small(monkeypatch):
    """Let caches hold little, and have what was in them before back in the end."""
    monkeypatch.setenv("FGRAD_CACHE_ENTRIES", str(LIMIT))
    for module, name in [(native, "_kernels"), (elementwise, "_nests")]:
        monkeypatch.setattr(module, name, type(getattr(module, name))())


def alive(references):
    gc.collect()
    return sum(r() is not None for r in references)


def text(number):
    return f"def kernel(slots, args, lo, hi):\n    float64_at(slots, args, 0)[0] = {number}.5\n"


def call(kernel):
    out = np.zeros(1)
    vm.call(kernel, np.zeros(1, np.int64), checks.addresses([out]), 0, 1)
    return out[0]


@compiled_only
def test_kernels_that_nobody_uses_are_freed_with_their_machine_code(small):
    used = native.compiled(text(1000))
    kernels, engines = [], []
    for k in range(20):
        kernel = native.compiled(text(k))
        kernels.append(weakref.ref(kernel))
        engines.append(weakref.ref(kernel._owner))
    del kernel
    assert 1 <= alive(kernels) <= LIMIT
    assert alive(engines) == alive(kernels)
    assert call(used) == 1000.5  # though the cache has forgotten it
    assert [call(native.compiled(text(k))) for k in range(20)] == [k + 0.5 for k in range(20)]


def test_programs_of_a_jitted_function_are_freed(small, monkeypatch):
    made, known = [], procedure.Procedure.__init__

    def noted(self, *args):
        made.append(weakref.ref(self))
        known(self, *args)

    monkeypatch.setattr(procedure.Procedure, "__init__", noted)
    f = fg.jit(lambda x: np.sum(x * 2.0))
    for n in range(1, 31):
        assert f(np.ones(n)) == 2.0 * n
        assert f(np.ones(n)) == 2.0 * n
    assert len(made) >= 30
    # a short way into a program keeps it, and there are few of them
    assert alive(made) <= LIMIT + len(f._guards)
    assert len(f._specialisations) <= LIMIT


def test_a_program_that_is_called_by_its_short_way_is_not_staged_again(small, monkeypatch):
    monkeypatch.setenv("FGRAD_CACHE_ENTRIES", "20")
    staged = []

    def f(x):
        staged.append(x.shape)
        return np.sum(x)

    jitted, x = fg.jit(f), np.ones(3)
    for _ in range(5):
        jitted(x)
    for n in range(10, 48):
        jitted(np.ones(n))
        jitted(x)
    assert staged.count((3,)) == 1


def test_the_short_way_of_a_program_that_was_forgotten_leads_to_it_still_or_to_the_new_one(
    small, monkeypatch
):
    monkeypatch.setenv("FGRAD_CACHE_ENTRIES", "2")
    factor = np.array([2.0])
    f = fg.jit(lambda x: x * factor)
    for n in (*range(1, 9), *range(1, 9)):
        for _ in range(3):
            assert np.array_equal(f(np.ones(n)), np.full(n, 2.0))
    factor[0] = 3.0
    for n in (*range(1, 9), *range(1, 9)):
        for _ in range(3):
            assert np.array_equal(f(np.ones(n)), np.full(n, 3.0))
    assert len(f._guards) <= 4


def test_programs_for_numbers_of_examples_are_freed(small):
    f = fg.jit(lambda x: np.sum(x**2))
    for n in range(1, 21):
        assert np.array_equal(fg.vmap(f)(np.ones((n, 2))), np.full(n, 2.0))
    (found,) = (f._specialisations.get(key) for key in f._specialisations)
    assert len(found.procedure._mapped) <= LIMIT


@compiled_only
def test_loops_for_layouts_are_bounded(small):
    from fgrad.expr.node import var

    x, y = var("x"), var("y")
    kernel = elementwise.elementwise((x, y), (x * y + x,))
    for k in range(8):
        which = tuple(2 if k >> i & 1 else 1 for i in range(3))
        left, right = np.arange(8.0).reshape(2, 2, 2), np.ones(which)
        assert np.array_equal(kernel(left[::-1], right), left[::-1] * right + left[::-1])
    assert len(elementwise._nests) <= LIMIT


def test_vjp_rules_of_primitives_of_any_number_of_arguments_are_bounded(monkeypatch):
    from fgrad.core.primitive import PRIMITIVES

    monkeypatch.setenv("FGRAD_CACHE_ENTRIES", "10")
    primitive = PRIMITIVES["concatenate"]
    for n in range(1, 40):
        gradient = fg.grad(lambda x, n=n: np.sum(np.concatenate([x] * n)))(np.ones(2))
        assert np.array_equal(gradient, np.full(2, float(n)))
    assert len(primitive._vjps) <= 10
    assert len(primitive.plans) <= 10


COMPILING = """
from tests.growth import resident
from fgrad.kernels import native
text = "def kernel(slots, args, lo, hi):\\n    float64_at(slots, args, 0)[0] = {}.5\\n"
for k in range(30):
    native.compiled(text.format(k))
before = resident()
for k in range(30, 80):
    native.compiled(text.format(k))
print((resident() - before) // 50)
"""


@compiled_only
@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux reports it")
def test_compiling_leaves_nothing_behind():
    env = {**os.environ, "FGRAD_CACHE_SIZE": "0", "FGRAD_CACHE_ENTRIES": "8"}
    found = subprocess.run([sys.executable, "-c", COMPILING], env=env, check=True, stdout=subprocess.PIPE)
    assert int(found.stdout) < 20_000  # bytes a kernel; LLVM's passes alone take 78,000


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux reports it")
def test_shapes_and_subscripts_leave_nothing_behind(capfd):
    assert growth.main(["eager", "contractions", "--count", "300", "--allowed", "10000"]) == 0
    assert capfd.readouterr().out.count("bytes a turn") == 2
