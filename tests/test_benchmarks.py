"""Programs of benchmarks.jit have the derivatives they are timed for, and wrong results are no figures."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks import cuda
from benchmarks.jit import libraries, programs
from benchmarks.jit.__main__ import agree
from benchmarks.jit.lines import LINES
from benchmarks.wide import page

import fgrad as fg

STEP = 1e-4
SMALLER = {  # where the inputs of the table would take long
    programs.mlp: lambda: programs.mlp_inputs(6, 5, 4, 3),
    programs.affine_tanh: programs.numbers(3, np.float64, 50),
    programs.gelu: programs.numbers(1, np.float64, 50),
    programs.cross_entropy: lambda: programs.cross_entropy_inputs(7, 5),
    programs.cross_entropy_by_logsumexp: lambda: programs.cross_entropy_inputs(7, 5),
}


def direction(x, i=0):
    return np.random.default_rng(i).normal(size=np.shape(x))


def several(argnums):
    return (argnums,) if isinstance(argnums, int) else argnums


class Differences(libraries.Library):
    """Derivatives along a fixed direction in each argument, from values that NumPy alone computes."""

    def slope(self, f, args, i):
        ends = []
        for h in (STEP, -STEP):
            moved = list(args)
            moved[i] = args[i] + h * direction(args[i], i)
            ends.append(f(*moved))
        return (ends[0] - ends[1]) / (2 * STEP)

    def value_and_grad(self, f, argnums=0):
        return lambda *args: (f(*args), [self.slope(f, args, i) for i in several(argnums)])

    def jacfwd(self, f, argnums=0):
        return lambda *args: [self.slope(f, args, i) for i in several(argnums)]

    jacrev = jacfwd

    def hessian(self, f):
        inner = lambda *args: self.slope(f, args, 0)
        return lambda *args: self.slope(inner, args, 0)

    def vmap(self, f):
        def run(*args):
            found = [f(*example) for example in zip(*args, strict=True)]
            return [np.stack(xs) for xs in zip(*found, strict=True)]

        return run

    def scan(self, step, carry, xs):
        outs = []
        for x in zip(*xs, strict=True) if isinstance(xs, tuple) else xs:
            carry, out = step(carry, x)
            outs.append(out)
        return carry, np.array(outs)

    def logsumexp(self, x, axis):
        return np.logaddexp.reduce(x, axis)

    def log_softmax(self, x, axis):
        return x - np.logaddexp.reduce(x, axis, keepdims=True)

    def placed(self, values, where, shape):
        out = np.zeros(shape)
        out[where] = values
        return out


class Contracted(libraries.Fgrad):
    """The derivatives of fgrad along the same directions."""

    def __init__(self):
        super().__init__()
        del self.value_and_grad, self.jacfwd, self.jacrev, self.hessian  # those below take their place

    def along(self, found, args, argnums):
        found = (found,) if isinstance(argnums, int) else found
        pairs = zip(found, several(argnums), strict=True)
        return [np.tensordot(d, direction(args[i], i), np.ndim(args[i])) for d, i in pairs]

    def value_and_grad(self, f, argnums=0):
        def run(*args):
            value, found = self.module.value_and_grad(f, argnums)(*args)
            return value, self.along(found, args, argnums)

        return run

    def jacfwd(self, f, argnums=0):
        return lambda *args: self.along(self.module.jacfwd(f, argnums)(*args), args, argnums)

    def jacrev(self, f, argnums=0):
        return lambda *args: self.along(self.module.jacrev(f, argnums)(*args), args, argnums)

    def hessian(self, f):
        def run(x, *others):
            v = direction(x)
            return v @ self.module.hessian(f)(x, *others) @ v

        return run


@pytest.mark.parametrize("name", [n for n in LINES if not n.endswith(("f32", "large"))])
def test_program_has_the_derivatives_that_differences_give(name):
    line = LINES[name]
    inputs = [
        np.asarray(x, float) if x.dtype.kind == "f" else x for x in SMALLER.get(line.program, line.inputs)()
    ]
    if name == "bundle":
        inputs = [x[:40] if len(x) > 10_000 else x for x in inputs]
    expected = libraries.flat(line.program(Differences())(*inputs))
    found = libraries.flat(line.program(Contracted())(*inputs))
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5 * np.abs(y).max())


@pytest.mark.parametrize(
    "wrong", [np.array([1.0, 2.001]), np.array([1.0, np.nan]), np.float32([1.0, 2.0]), np.ones(3)]
)
def test_a_wrong_result_is_an_error(wrong):
    right = np.array([1.0, 2.0])
    agree({"fgrad": lambda: (0.0, [right]), "jax": lambda: (0.0, [right + 1e-12])})
    with pytest.raises(AssertionError, match="result 1 of fgrad"):
        agree({"fgrad": lambda: (0.0, [wrong]), "jax": lambda: (0.0, [right])})


def test_without_a_gpu_the_benchmarks_of_cuda_say_so(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["benchmarks.cuda"])
    monkeypatch.setattr(cuda, "missing", lambda: "there is no device")
    assert cuda.main() == 0
    assert capsys.readouterr().out == "nothing was measured: there is no device\n"


class OnTheCpu(cuda.Fgrad):
    def placed(self, x):
        return x


@pytest.mark.parametrize("name", cuda.CASES)
def test_programs_of_cuda_have_the_derivatives_they_are_timed_for(monkeypatch, name):
    for size in ("LARGE", "EXAMPLES", "CLASSES", "BATCH", "WIDTH"):
        monkeypatch.setattr(cuda, size, 11)
    case, lib = cuda.CASES[name], OnTheCpu()
    args = case.inputs()
    args = tuple(a.astype(float) if a.dtype.kind == "f" else a for a in args)
    total, gradient = case.make(lib)(*args)
    value, by_hand = case.by_hand(np)(*args)
    np.testing.assert_allclose(value, total, rtol=1e-12)
    for g, e in zip(fg.tree.leaves(gradient), fg.tree.leaves(by_hand), strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-10, atol=1e-12)
    gradient = gradient[0] if isinstance(gradient, tuple) else gradient
    ends = []
    for h in (STEP, -STEP):
        value, _ = case.make(lib)(args[0] + h * direction(args[0]), *args[1:])
        ends.append(float(value))
    slope = (ends[0] - ends[1]) / (2 * STEP)
    np.testing.assert_allclose(np.sum(gradient * direction(args[0])), slope, rtol=1e-5, atol=1e-6)


def test_a_page_shows_what_was_found_and_keeps_the_rest():
    limits = dict.fromkeys(page.QUOTIENTS, 1.0)
    found = {
        "fast": {"seconds": {"compiled": 1e-3, "jax": 4e-3}, "ratios": {"compiled / jax": 0.25}},
        "slow": {"seconds": {"compiled": 4e-3, "jax": 1e-3}, "ratios": {"compiled / jax": 4.0}},
    }
    text = f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n"
    once = page.renewed(text, found, limits)
    assert once.startswith(
        f"before\n{page.BEGIN}\n\n- compiled / JAX: geometric mean 1.00 of 2 programs; above 1: slow 4.00."
    )
    assert "| slow | 4 | 1 |  |  | 4.00 |" in once
    assert "old" not in once
    assert once.endswith(f"{page.END}\nafter\n")
    assert page.renewed(once, found, limits) == once
    with pytest.raises(ValueError, match="needs the lines"):
        page.renewed("no marks", found, limits)
