"""How kernels are called: inside compiled programs, for batches, from other compiled code, from disk."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba import njit
from numba.core import compiler
from tests.adjoints.kernels import cholesky, gauss_seidel, heat, kalman, lu, newton, thomas, three_bodies
from tests.helpers import unchecked

import fgrad
from fgrad.adjoints import entries, shapes, stored
from fgrad.adjoints.lowering import lowered
from fgrad.kernels import native

RNG = np.random.default_rng(11)
SERIES = RNG.normal(size=9)


def banded(n, rng=RNG):
    return rng.normal(size=n), 4.0 + rng.normal(size=n), rng.normal(size=n), rng.normal(size=n)


def slope(f, x, direction, h=1e-6):
    """Return the derivative along a direction by central differences."""
    return (f(x + h * direction) - f(x - h * direction)) / (2 * h)


def python_steps(f, *args):
    """Return what Python computes in a compiled program."""
    return fgrad.jit(f).lower(*args).cost().python


# ---- shapes ------------------------------------------------------------------------------------------------


@njit
def upsampled(x, factor):
    n = len(x)
    out = np.zeros((factor * n, x.size + 1))
    for i in range(n):
        for k in range(factor):
            out[i * factor + k, 0] = x[i] * (k + 1.0)
    return out[1::2].T


@njit
def halved(x):
    m = x.shape[0] // 2 if x.shape[0] > 3 else 1
    y = np.empty(m)
    z = x[:m].copy()
    for i in range(m):
        y[i] = x[i] * x[m + i]
    return y, z, y[0] + z[0]


@njit
def chosen(x, twice):
    n = len(x)
    if twice:
        n = 2 * n
    return np.ones(n) * x[0]


@njit
def compacted(x):
    count = 0
    for v in x:
        if v > 0:
            count += 1
    out = np.empty(count)
    k = 0
    for v in x:
        if v > 0:
            out[k] = v * v
            k += 1
    return out


@njit
def by_value(x):
    return np.ones(int(x[0])) * x[1]


@njit
def by_branch(x):
    n = 2
    if x[0] > 0:
        n = 3
    return np.ones(n) * x[0]


@pytest.mark.parametrize(
    ("kernel", "args"),
    [
        (upsampled, (SERIES, 3)),
        (halved, (SERIES,)),
        (halved, (SERIES[:3],)),
        (chosen, (SERIES, True)),
        (chosen, (SERIES, False)),
        (heat, (np.ones(8), 3)),
        (thomas, banded(6)),
        (cholesky, (np.eye(4),)),
        (three_bodies, (RNG.normal(size=(3, 2)), RNG.normal(size=(3, 2)), np.ones(3), 0.01, 4)),
    ],
)
def test_shapes_of_results_follow_from_shapes_and_integers(kernel, args):
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    rest = args[len(arrays) :]
    found = fgrad.eval_shape(lambda *a: fgrad.differentiate(kernel)(*a, *rest), *arrays)
    expected = kernel(*[np.array(a) if isinstance(a, np.ndarray) else a for a in args])
    single = not isinstance(expected, tuple)
    for s, x in zip([found] if single else found, [expected] if single else expected, strict=True):
        assert s.shape == np.shape(x)
        assert s.dtype == np.result_type(x)


@pytest.mark.parametrize("kernel", [compacted, by_value, by_branch])
def test_shapes_that_depend_on_values_are_refused(kernel):
    f = fgrad.differentiate(kernel)
    x = np.array([2.0, 3.0, -1.0])
    for run in (fgrad.jit(f), lambda x: fgrad.eval_shape(f, x)):
        with pytest.raises(NotImplementedError, match=r"under jit, vmap or eval_shape pass .* result_shape="):
            run(x)
    np.testing.assert_array_equal(fgrad.vjp(f, x)[0], kernel(x))


def test_the_user_says_which_shape_a_result_has():
    x = np.array([2.0, 3.0, -1.0])
    f = fgrad.differentiate(compacted, result_shape=lambda x: (x.shape[0] - 1,))
    compiled = fgrad.jit(fgrad.grad(lambda x: f(x).sum()))
    np.testing.assert_allclose(compiled(x), [4.0, 6.0, 0.0])
    assert not python_steps(fgrad.grad(lambda x: f(x).sum()), x)
    with pytest.raises(ValueError, match="returns an array of another shape"):
        compiled(abs(x))  # of which the kernel itself does not run
    with pytest.raises(ValueError, match=r"shape \(3,\), where result_shape says \(2,\)"):
        fgrad.jit(f)(abs(x))
    with pytest.raises(ValueError, match=r"shape \(3,\), where result_shape says \(2,\)"):
        fgrad.vjp(f, abs(x))

    @fgrad.kernel(result_shape=lambda x, n: ((n, 2), ()))
    def pair(x, n):
        m = int(x[0] * 0) + n
        return np.ones((m, 2)) * x[0], x[1]

    first, second = fgrad.jit(lambda x: pair(x, 3))(x)
    np.testing.assert_array_equal(first, np.full((3, 2), 2.0))
    assert second == 3.0
    wrong = fgrad.kernel(pair.__wrapped__, result_shape=lambda x, n: ((n,), ()))
    with pytest.raises(ValueError, match="has 2, 0 axes"):
        fgrad.jit(lambda x: wrong(x, 3))(x)


def test_what_is_read_of_an_array_is_not_known():
    def tail(n, x):
        y = x[n[0] :]
        return y * 2.0

    function, _ = lowered(tail, [numba.types.int64[:], numba.types.float64[:]])
    (name,) = function.returns
    assert name not in shapes.array_shapes(function, {"n": (1,), "x": (4,)}, {})


# ---- inside of compiled programs ---------------------------------------------------------------------------


def test_compiled_programs_call_kernels_without_python():
    f = fgrad.differentiate(kalman)
    for g in (f, fgrad.value_and_grad(f, argnums=(0, 1, 2)), fgrad.hessian(f)):
        assert not python_steps(g, SERIES, 0.1, 0.5)
    value, slopes = fgrad.jit(fgrad.value_and_grad(f, argnums=(0, 1, 2)))(SERIES, 0.1, 0.5)
    assert value == kalman(SERIES, 0.1, 0.5)
    expected = [
        slope(lambda z: kalman(z, 0.1, 0.5), SERIES, np.eye(9)[4]),
        slope(lambda q: kalman(SERIES, q, 0.5), 0.1, 1.0),
        slope(lambda r: kalman(SERIES, 0.1, r), 0.5, 1.0),
    ]
    np.testing.assert_allclose([slopes[0][4], slopes[1], slopes[2]], expected, rtol=1e-6)
    np.testing.assert_allclose(
        fgrad.jit(fgrad.hessian(f))(SERIES, 0.1, 0.5), fgrad.hessian(f)(SERIES, 0.1, 0.5), rtol=1e-12
    )


def test_kernels_that_return_arrays_and_tuples():
    def loss(a, b, c, d):
        x = fgrad.differentiate(thomas)(a, b, c, d)
        end, u = fgrad.differentiate(heat)(x, 3)
        return (u**3).sum() + end

    def plain(a, b, c, d):
        end, u = heat(thomas(a, b, c, d), 3)
        return (u**3).sum() + end

    args = banded(7)
    assert not python_steps(fgrad.grad(loss), *args)
    found = fgrad.jit(fgrad.grad(loss, argnums=(0, 1, 2, 3)))(*args)
    for k, slopes in enumerate(found):
        direction = RNG.normal(size=7)
        moved = slope(lambda x, k=k: plain(*args[:k], x, *args[k + 1 :]), args[k], direction)
        assert slopes @ direction == pytest.approx(moved, rel=1e-5, abs=1e-7)


def test_written_arguments_and_constants():
    kernel = fgrad.differentiate(gauss_seidel)
    f, start = RNG.normal(size=(6, 6)), RNG.normal(size=(6, 6))

    def loss(f):
        u = fgrad.tensor(start)
        kernel(u, f * 2.0, 3)
        kernel(u, start, 1)  # a constant
        return (u**2).sum()

    def plain(f):
        u = start.copy()
        gauss_seidel(u, f * 2.0, 3)
        gauss_seidel(u, start, 1)
        return (u**2).sum()

    assert not python_steps(fgrad.grad(loss), f)
    value, slopes = fgrad.jit(fgrad.value_and_grad(loss))(f)
    direction = RNG.normal(size=f.shape)
    assert value == pytest.approx(plain(f), rel=1e-14)
    assert (slopes * direction).sum() == pytest.approx(slope(plain, f, direction), rel=1e-6)


class Pair(NamedTuple):
    x: Any
    scale: Any


def test_arguments_of_all_kinds():
    @njit
    def mixed(pair, z, k, flag, small, order):
        total = 0.0 + 0.0j
        for i in range(len(pair.x)):
            total += pair.x[i] * pair.scale * z[i, k] * np.conj(order[i, 1])
        return (total if flag else 2 * total), small * np.float32(2) + order.real.sum() * 0

    f = fgrad.differentiate(mixed)
    x, z = RNG.normal(size=3), RNG.normal(size=(3, 2)) + 1j * RNG.normal(size=(3, 2))
    order = np.asfortranarray(RNG.normal(size=(3, 2)) + 1j * RNG.normal(size=(3, 2)))

    def both(x, s, z, small):
        total, other = f(Pair(x, s), z, 1, True, small, order)
        return abs(total) ** 2 + other

    def plain(x, s, z, small):
        total, other = mixed(Pair(x, s), z, 1, True, small, order)
        return abs(total) ** 2 + other

    args = x, 0.7, z, np.float32(1.5)
    assert not python_steps(both, *args)
    assert fgrad.jit(both)(*args) == pytest.approx(plain(*args), rel=1e-13)
    by_x, by_s = fgrad.jit(fgrad.grad(both, argnums=(0, 1)))(*args)
    assert by_x[1] == pytest.approx(slope(lambda y: plain(y, *args[1:]), x, np.eye(3)[1]), rel=1e-6)
    assert by_s == pytest.approx(slope(lambda s: plain(x, s, z, args[3]), 0.7, 1.0), rel=1e-6)


def test_kernels_inside_of_loops():
    f = fgrad.differentiate(kalman)

    def descended(z):
        return fgrad.lax.fori_loop(0, 5, lambda _, z: z - 0.1 * fgrad.grad(f)(z, 0.1, 0.5), z)

    z = SERIES.copy()
    for _ in range(5):
        z = z - 0.1 * fgrad.grad(f)(z, 0.1, 0.5)
    assert not python_steps(descended, SERIES)
    np.testing.assert_allclose(fgrad.jit(descended)(SERIES), z, rtol=1e-12)


def picky(x):
    if x[0] < 0:
        raise ValueError("negative")
    return x[0] * x[1]


def test_exceptions_of_kernels_come_out_of_compiled_programs():
    f = fgrad.kernel(picky)
    compiled = fgrad.jit(fgrad.value_and_grad(f))
    with pytest.raises(ValueError, match="negative"):
        fgrad.jit(fgrad.grad(f))(np.array([-1.0, 2.0]))  # which needs no value
    for _ in range(2):
        with pytest.raises(ValueError, match="negative"):
            compiled(np.array([-1.0, 2.0]))
        value, slopes = compiled(np.array([1.0, 2.0]))
        assert value == 2.0
        np.testing.assert_array_equal(slopes, [2.0, 1.0])
    with pytest.raises(ValueError, match="negative"):
        fgrad.vmap(f)(np.array([[1.0, 2.0], [-1.0, 2.0]]))
    with pytest.raises(ValueError, match="negative"):
        fgrad.jit(fgrad.vmap(f))(np.array([[1.0, 2.0], [-1.0, 2.0]]))


@unchecked("as_njit is refused")
def test_other_compiled_code_calls_kernels():
    f = fgrad.differentiate(kalman)
    gradient = fgrad.jit(fgrad.grad(f)).as_njit(SERIES, 0.1, 0.5)

    @njit
    def descended(z, turns):
        for _ in range(turns):
            z = z - 0.1 * gradient(z, 0.1, 0.5)
        return z

    z = SERIES.copy()
    for _ in range(5):
        z = z - 0.1 * fgrad.grad(f)(z, 0.1, 0.5)
    np.testing.assert_allclose(descended(SERIES, 5), z, rtol=1e-12)
    checked = fgrad.jit(fgrad.kernel(picky)).as_njit(np.ones(2))
    assert checked(np.array([3.0, 2.0])) == 6.0
    with pytest.raises(RuntimeError, match="a kernel that a compiled function calls raised"):
        checked(np.array([-3.0, 2.0]))


def test_kernels_run_in_threads_at_a_time():
    compiled = fgrad.jit(fgrad.grad(fgrad.differentiate(kalman)))
    many = RNG.normal(size=(8, 9))
    expected = [fgrad.grad(fgrad.differentiate(kalman))(z, 0.1, 0.5) for z in many]
    found = [None] * 8

    def work(k):
        for _ in range(20):
            found[k] = compiled(many[k], 0.1, 0.5)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_python_calls_kernels_that_numba_cannot_put_behind_an_address(monkeypatch):
    monkeypatch.setattr(entries, "_made", lambda *_: None)
    f = fgrad.differentiate(njit(kalman.py_func))
    assert any("kernel of the user's" in row for row in python_steps(f, SERIES, 0.1, 0.5))
    assert fgrad.jit(f)(SERIES, 0.1, 0.5) == kalman(SERIES, 0.1, 0.5)
    many = RNG.normal(size=(3, 9))
    np.testing.assert_array_equal(
        fgrad.vmap(f, (0, None, None))(many, 0.1, 0.5), [kalman(z, 0.1, 0.5) for z in many]
    )


@njit
def whole(x, out):
    out += x * x
    return 2 * x


@njit
def transposed(x, out):
    out += x * x
    return (2 * x).T


@njit
def turned(x, out):
    out += x * x
    return (2 * x)[::-1]


@njit
def strided(x, out):
    out += x * x
    return (2 * x)[:, ::2]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
@pytest.mark.parametrize("k", [whole, transposed, turned, strided], ids=lambda k: k.__name__)
def test_arrays_of_any_layout_come_out_as_they_are(k, dtype):
    f = fgrad.differentiate(k)

    def both(x):
        out = fgrad.tensor(x + 1)
        return f(x, out), out

    many = RNG.normal(size=(3, 4, 5)).astype(dtype)
    expected = []
    for x in many:
        out = x + 1
        expected.append((k(x, out), out))
    for x, (returned, out) in zip(many, expected, strict=True):
        for found in (both(x), fgrad.jit(both)(x)):
            np.testing.assert_array_equal(found[0], returned, strict=True)
            np.testing.assert_array_equal(found[1], out)
    for found in (fgrad.vmap(both)(many), fgrad.jit(fgrad.vmap(both))(many)):
        for one, each in zip(found, zip(*expected, strict=True), strict=True):
            np.testing.assert_array_equal(one, np.stack(each))


@pytest.mark.skipif(native.interpreted(), reason="nothing is compiled")
def test_a_compiled_gradient_has_numba_compile_few_functions(monkeypatch):
    """A slice that is assigned takes Numba thirty functions of its own, and two seconds."""
    monkeypatch.setattr(stored.Kept, "load", lambda *_: b"")
    monkeypatch.setattr(native, "found_elsewhere", lambda *_: None)

    @njit
    def kernel(c, x, out):
        for i in range(len(x)):
            total = 0.0
            for k in range(len(c)):
                total = total * x[i] + c[k]
            out[i] = total
        return 2 * x

    def loss(c, x, out):
        held = fgrad.tensor(out)
        return fgrad.differentiate(kernel)(c, x, held).sum() + held.sum()

    values = np.ones(3), np.ones(4), np.zeros(4)
    kernel(*values)
    compiled = []
    compiles = compiler.CompilerBase._compile_bytecode
    monkeypatch.setattr(
        compiler.CompilerBase,
        "_compile_bytecode",
        lambda self: compiled.append(self.state.func_id.func_name) or compiles(self),
    )
    fgrad.jit(fgrad.grad(loss, argnums=(0, 1)))(*values)
    assert "entry" in compiled
    assert len(compiled) <= 6, compiled


# ---- batches -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda f: f, fgrad.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("count", [0, 1, 3, 40])
def test_a_batch_has_the_bits_of_a_loop(wrap, count):
    f = fgrad.differentiate(kalman)
    many = RNG.normal(size=(count, 9))
    values = wrap(fgrad.vmap(f, in_axes=(0, None, None)))(many, 0.1, 0.5)
    np.testing.assert_array_equal(values, [kalman(z, 0.1, 0.5) for z in many])
    gradient = fgrad.grad(f, argnums=(0, 1))
    by_z, by_q = wrap(fgrad.vmap(gradient, in_axes=(0, None, None)))(many, 0.1, 0.5)
    assert by_z.shape == (count, 9)
    for k, z in enumerate(many):
        np.testing.assert_array_equal(by_z[k], gradient(z, 0.1, 0.5)[0])
        assert by_q[k] == gradient(z, 0.1, 0.5)[1]


def test_batches_of_batches():
    f = fgrad.differentiate(kalman)
    many, noise = RNG.normal(size=(3, 9)), np.array([0.1, 0.2, 0.3, 0.4])
    table = fgrad.vmap(fgrad.vmap(f, in_axes=(0, None, None)), in_axes=(None, 0, None))
    expected = [[kalman(z, q, 0.5) for z in many] for q in noise]
    for run in (table, fgrad.jit(table)):
        np.testing.assert_array_equal(run(many, noise, 0.5), expected)
    total = fgrad.grad(lambda z, q: (table(z, q, 0.5) ** 2).sum(), argnums=(0, 1))

    def plain(z, q):
        return sum(kalman(row, s, 0.5) ** 2 for row in z for s in q)

    for run in (total, fgrad.jit(total)):
        by_z, by_q = run(many, noise)
        direction = RNG.normal(size=many.shape)
        assert (by_z * direction).sum() == pytest.approx(
            slope(lambda z: plain(z, noise), many, direction), rel=1e-6
        )
        assert by_q[2] == pytest.approx(slope(lambda q: plain(many, q), noise, np.eye(4)[2]), rel=1e-6)


@pytest.mark.parametrize("rows", [10**6, 0])  # of the cotangents of examples, to be summed; or one by one
def test_what_all_examples_share_has_the_sum_of_their_cotangents(monkeypatch, rows):
    monkeypatch.setattr(fgrad.adjoints.operation, "ROWS", rows)
    f = fgrad.kernel(neurons)
    w, many = RNG.normal(size=(4, 3)), RNG.normal(size=(50, 3))

    def loss(w):
        return (fgrad.vmap(f, in_axes=(None, 0))(w, many) ** 2).sum()

    def plain(w):
        return ((np.tanh(many @ w.T).sum(1)) ** 2).sum()

    direction = RNG.normal(size=w.shape)
    for run in (fgrad.grad(loss), fgrad.jit(fgrad.grad(loss))):
        assert (run(w) * direction).sum() == pytest.approx(slope(plain, w, direction), rel=1e-6)
    twice = fgrad.jvp(fgrad.grad(loss), (w,), (direction,))[1]
    h = 1e-5
    moved = (fgrad.grad(loss)(w + h * direction) - fgrad.grad(loss)(w - h * direction)) / (2 * h)
    np.testing.assert_allclose(twice, moved, rtol=1e-5, atol=1e-6)


def neurons(w, x):
    total = 0.0
    for i in range(w.shape[0]):
        dot = 0.0
        for j in range(w.shape[1]):
            dot += w[i, j] * x[j]
        total += np.tanh(dot)
    return total


def test_written_arguments_have_examples():
    kernel = fgrad.differentiate(lu)
    many = RNG.normal(size=(20, 4, 4)) + 4 * np.eye(4)

    def factored(a):
        a = fgrad.tensor(a)
        kernel(a)
        return a

    expected = many.copy()
    for a in expected:
        lu(a)
    for run in (fgrad.vmap(factored), fgrad.jit(fgrad.vmap(factored))):
        np.testing.assert_array_equal(run(many), expected)
    turned = np.ascontiguousarray(many.transpose(1, 2, 0))
    np.testing.assert_array_equal(fgrad.vmap(factored, in_axes=2)(turned), expected)
    roots = fgrad.differentiate(newton)

    def shared(a):
        out = fgrad.tensor(np.zeros(3))
        roots(a, out)
        return out

    positive = abs(RNG.normal(size=(6, 3))) + 0.5
    np.testing.assert_allclose(fgrad.vmap(shared)(positive), np.sqrt(positive), rtol=1e-9)


def test_shared_arguments_are_not_copied(monkeypatch):
    f = fgrad.kernel(neurons)
    w, many = RNG.normal(size=(4, 3)), RNG.normal(size=(50, 3))
    laid = fgrad.adjoints.launches._laid
    kept = []

    def watched(a, item, step):
        found = laid(a, item, step)
        kept.append(np.shares_memory(found[0], a))
        return found

    monkeypatch.setattr(fgrad.adjoints.launches, "_laid", watched)
    fgrad.vmap(f, in_axes=(None, 0))(w, many)
    fgrad.vmap(fgrad.grad(f), in_axes=(None, 0))(w, many)
    assert kept
    assert all(kept)


# ---- on disk -----------------------------------------------------------------------------------------------

SCRIPT = """
import sys
import numpy as np
from numba import njit
from numba.core import compiler
import fgrad
from fgrad.adjoints import entries
from fgrad.compat import numba as used

SCALE = {scale}

@njit
def inner(x):
    return {inner}

@fgrad.differentiate
@njit
def outer(x):
    total = 0.0
    for i in range(len(x)):
        total += inner(x[i]) * SCALE
    return total

compiled = []
loads = used._Cache.load_overload

def load(self, signature, context):
    found = loads(self, signature, context)
    compiled.append(found is None)
    return found

used._Cache.load_overload = load
makes = entries.c_function

def make(*args, **options):
    compiled.append(True)
    return makes(*args, **options)

entries.c_function = make
x = np.array([1.0, 2.0])
print(*fgrad.grad(outer)(x), *fgrad.jit(fgrad.grad(outer))(x), sum(compiled), len(compiled))
"""


def ran(tmp_path, **parts):
    file = tmp_path / "program.py"
    file.write_text(SCRIPT.format(**{"scale": "2.0", "inner": "x * x", **parts}))
    root = Path(fgrad.__file__).parents[1]
    found = subprocess.run(
        [sys.executable, str(file)],
        env={"FGRAD_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(root), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return [float(w) for w in found.stdout.split()]


@pytest.mark.skipif(native.interpreted(), reason="nothing is compiled")
def test_derivatives_are_kept_on_disk_and_never_stale(tmp_path):
    *slopes, made, asked = ran(tmp_path)
    assert slopes == [4.0, 8.0] * 2
    assert made == asked == 2  # the adjoint, and what compiled programs call
    *slopes, made, asked = ran(tmp_path)
    assert slopes == [4.0, 8.0] * 2
    assert made == 0 < asked
    *slopes, made, _ = ran(tmp_path, inner="x * x * x")
    assert slopes == [6.0, 24.0] * 2
    assert made == 2
    *slopes, made, _ = ran(tmp_path, scale="3.0")
    assert slopes == [6.0, 12.0] * 2
    assert made == 2


def test_keys_name_all_that_code_depends_on():
    from fgrad.adjoints.stored import UnknownError, digest, key, stamped

    def made(scale, table, step=1.0):
        @njit
        def inner(x):
            return x * scale + step

        @njit
        def outer(x):
            return inner(x) * table[0]

        return outer

    table = np.arange(3.0)
    first = digest(made(2.0, table))
    assert digest(made(2.0, table.copy())) == first
    others = [made(3.0, table), made(2.0, table + 1), made(2.0, table, 2.0)]
    assert len({first, *map(digest, others)}) == 4
    called = made(2.0, table)
    stamp = stamped(called)
    assert stamp == first
    called(1.0)
    assert stamped(called) == ""  # what it was compiled with nobody knows
    assert key("text", {"called": called}) == ""
    assert key("text", {"called": called}, stamp=stamp)
    assert key("text", {"called": called}, stamp="another") == ""
    assert key("text", {"n": 1}) != key("text", {"n": 2})
    assert key("text", {"n": 1}) != key("text", {"n": 1.0})
    with pytest.raises(UnknownError):
        digest(object())


# ---- Tensors that meet Numba's functions -------------------------------------------------------------------


def used(x):
    return kalman(x, 0.1, 0.5)


def followed(x):
    manager = fgrad.GradManager()
    tensor = fgrad.tensor(x)
    manager.attach(tensor)
    with manager:
        used(tensor)


@njit
def scaled(x, weights):
    return x * weights


def test_random_numbers_that_are_the_same_at_each_call():
    def f(x):
        return fgrad.differentiate(scaled)(x, np.random.default_rng(3).uniform(size=6)).sum()

    xs = RNG.uniform(size=(3, 6))
    expected = [fgrad.grad(f)(x) for x in xs]
    np.testing.assert_allclose(fgrad.jit(fgrad.vmap(fgrad.grad(f)))(xs), expected, rtol=1e-14)


@pytest.mark.parametrize(
    "run",
    [
        fgrad.grad(used),
        fgrad.jit(used),
        fgrad.jit(fgrad.grad(used)),
        lambda x: fgrad.vmap(used)(np.stack([x, x])),
        lambda x: fgrad.jvp(used, (x,), (x,)),
        followed,
    ],
    ids=["grad", "jit", "jit of grad", "vmap", "jvp", "manager"],
)
def test_numbas_functions_say_what_to_do(run):
    with pytest.raises(TypeError, match=r"call fgrad.differentiate\(function\), or decorate it") as caught:
        run(SERIES)
    assert str(caught.value).count("\n") <= 12  # Numba's own words are around
