"""The short way into compiled functions: it takes what it was written for, and leaves the rest alone."""

from __future__ import annotations

import collections
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pytest

import fgrad as fg
from fgrad import tree
from fgrad.kernels import entry
from fgrad.transforms.guard import MISS

X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


class Array(np.ndarray):
    """A class of arrays."""


class Pair(NamedTuple):
    """A tuple with names."""

    a: Any
    b: Any


def ready(f: Any, *args: Any) -> Any:
    """Return a compiled function that has a short way for arguments like these, and takes it."""
    jitted = f if hasattr(f, "_guards") else fg.jit(f)
    for _ in range(3):
        jitted(*args)
    (short,) = jitted._guards
    same(short(args, {}), jitted._call_slow(args, {}))
    return jitted


def same(actual: Any, expected: Any) -> None:
    """Assert equal structures, classes, dtypes and bits."""
    a, e = tree.flatten(actual), tree.flatten(expected)
    assert a[1] == e[1]
    for x, y in zip(a[0], e[0], strict=True):
        assert type(x) is type(y)
        if isinstance(x, np.ndarray | np.generic | fg.Tensor):
            x, y = np.asarray(getattr(x, "_value", x)), np.asarray(getattr(y, "_value", y))
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            assert x.tobytes() == y.tobytes()
        else:
            assert x == y


def outcome(f: Any) -> Any:
    try:
        return f()
    except Exception as error:
        return type(error).__name__, str(error)


def missed(jitted: Any, *args: Any, **kwargs: Any) -> None:
    """Assert that the short way refuses, and that the call is what the long way makes of it.

    Without an entry in machine code, the short way may take arrays of any layout.
    """
    expected = outcome(
        lambda: jitted.__class__(jitted.__wrapped__, **jitted.options)._call_slow(args, kwargs)
    )
    for short in jitted._guards:
        found = outcome(lambda short=short: short(args, kwargs))
        if found is not MISS:
            assert not entry.is_available()
            same(found, expected)
    same(outcome(lambda: jitted(*args, **kwargs)), expected)


def total(x: Any) -> Any:
    return (np.tanh(x) * 2).sum(axis=0), x.sum()


MISMATCHES = {
    "dtype": X.astype(np.float32),
    "integers": X.astype(np.int64),
    "shape": X[:1].copy(),
    "rank": X.ravel(),
    "no axis": np.array(2.0),
    "Fortran order": np.asfortranarray(X),
    "strides": np.repeat(X, 2, axis=1)[:, ::2],
    "byte order": X.astype(">f8"),
    "unaligned": np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float64).reshape(X.shape),
    "class": X.view(Array),
    "number": 2.0,
    "number of NumPy": np.float64(2.0),
    "Tensor": fg.tensor(X),
    "list": [1.0, 2.0],
    "None": None,
    "string": "x",
    "complex": X * 1j,
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_arrays_of_another_kind(name):
    jitted = ready(total, X)
    if name == "None":
        missed(fg.jit(lambda x: 1.0 if x is None else x), None)
    missed(jitted, MISMATCHES[name])
    same(jitted(X), jitted._call_slow((X,), {}))


def test_an_array_that_may_not_be_written_to_is_taken():
    locked = X.copy()
    locked.flags.writeable = False
    jitted = ready(total, X)
    same(jitted._guards[0]((locked,), {}), jitted._call_slow((X,), {}))


def test_structures():
    def f(tree: Any) -> Any:
        return {"b": tree["a"][0] * 2, "a": (tree["a"][1] * 2, None, [tree["c"] + 1])}

    given = {"c": X, "a": [X[0].copy(), 3.0]}
    jitted = ready(f, given)
    same(jitted({"a": given["a"], "c": X}), jitted._call_slow((given,), {}))
    assert list(jitted(given)) == list(jitted._call_slow((given,), {}))
    first = jitted(given)
    first["a"][2].append(0)  # results are new each time
    same(jitted(given), jitted._call_slow((given,), {}))
    missed(jitted, {**given, "d": X})
    missed(jitted, {"c": X})
    missed(jitted, {"c": X, "a": (X[0].copy(), 3.0)})
    missed(jitted, {"c": X, "a": [X[0].copy()]})
    missed(jitted, {"c": X, "a": [X[0].copy(), 3.0, X]})
    missed(jitted, {"c": X, "a": [X[0].copy(), None]})
    missed(jitted, collections.OrderedDict(given))
    missed(jitted, [given])
    second = ready(lambda p: p[0] * p[1], (X, X))
    missed(second, Pair(X, X))
    missed(second, [X, X])
    missed(second, (X,))


def test_numbers():
    jitted = ready(lambda x, n: (x * n, n + 1), X.astype(np.float32), 2.5)
    single = X.astype(np.float32)
    for n in (2.5, -0.0, np.nan, np.inf, 1e300):
        same(jitted(single, n), jitted._call_slow((single, n), {}))
    for n in (2, True, np.float64(2.5), np.float32(2.5), np.array(2.5), 2j, np.int64(2)):
        missed(jitted, single, n)
    whole = ready(lambda x, n: x * n, X, 2)
    for n in (2, -(2**63), 2**63 - 1):
        same(whole(X, n), whole._call_slow((X, n), {}))
    for n in (2**63, 2**70, -(2**64), 2.0, True, np.int64(2), np.int32(2), np.uint64(2)):
        missed(whole, X, n)
    python = ready(lambda x, n: np.median(x) * n, X, 2)  # which has no native entry
    for n in (2**63, 2**70, -(2**64), 2.0, True, np.int64(2), np.int32(2)):
        missed(python, X, n)


def test_integers_of_python_have_to_fit():
    for f in (lambda x, n: x * n, lambda x, n: np.median(x) * n):
        for n in (2**63, -(2**63) - 1, 2**70):
            with pytest.raises(
                OverflowError, match=rf"the argument n is {n}, .* int64, which it does not fit"
            ):
                fg.jit(f)(X, n)


def test_static_values():
    f = fg.jit(lambda x, how: x * 2 if how else x * 3, static_argnums=1)
    jitted = ready(f, X, 1)
    same(jitted(X, 1), X * 2)
    for how in (0, True, 1.0, None, "", "x", 2, (1,)):
        missed(jitted, X, how)
    missed(jitted, X, how=1)
    named = fg.jit(lambda x, how="a": x * len(how), static_argnames="how")
    same(named(X), X)
    same(named(X, how="bc"), X * 2)
    same(named(X, "bcd"), X * 3)
    for _ in range(3):
        same(named(X), X)
        same(named(X, how="bc"), X * 2)
        same(named(X, "bcd"), X * 3)


def test_arguments_by_name_and_by_default():
    jitted = ready(lambda x, y=X: x * y, X, X)
    missed(jitted, X)
    missed(jitted, X, y=X + 1)
    missed(jitted, x=X, y=X)
    missed(jitted, X, X, X)
    missed(jitted)


def test_inside_of_transformations():
    jitted = ready(lambda x: np.sum(np.tanh(x) ** 2), X)
    plain = jitted.__wrapped__
    close = np.testing.assert_allclose
    for _ in range(2):
        close(fg.grad(jitted)(X), fg.grad(plain)(X))
        close(fg.vmap(jitted)(X), fg.vmap(plain)(X))
        close(fg.vmap(lambda w: jitted(X) * w)(X[0]), plain(X) * X[0])
        close(fg.grad(lambda w: jitted(X) * w)(2.0), plain(X))
        close(fg.jit(lambda w: jitted(X) * w)(2.0), 2 * plain(X))
        t = fg.tensor(X)
        with fg.GradManager().attach(t) as gm:
            out = jitted(t)
            gm.backward(out)
        close(t.grad, fg.grad(plain)(X))
        same(jitted(X), jitted._call_slow((X,), {}))


def test_settings():
    calls = []
    jitted = ready(lambda x: (calls.append(1), np.log(x))[1], X)
    count = len(calls)
    with fg.disable_jit():
        np.testing.assert_array_equal(jitted(X), np.log(X))
    assert len(calls) == count + 1
    with fg.debug_nans(), pytest.raises(FloatingPointError):
        jitted(-X)
    with np.errstate(all="ignore"):
        assert np.isnan(jitted(-X)).all()
    assert len(calls) <= count + 2


def test_wrong_indices_raise_at_every_call():
    jitted = ready(lambda x, j: x[j], X, np.array([0, 1]))
    for _ in range(3):
        missed(jitted, X, np.array([0, 2]))
        same(jitted(X, np.array([-1, 0])), X[::-1])


def test_many_kinds_of_arguments():
    jitted = fg.jit(lambda x: x * 2)
    kinds = [np.ones(n, d) for n in (1, 2, 3) for d in (np.float32, np.float64, np.int64)]
    for _ in range(4):
        for x in kinds:
            same(jitted(x), x * 2)
    assert 1 < len(jitted._guards) < len(kinds)
    jitted.clear_cache()
    assert not jitted._guards


def test_numbers_of_one_call_are_not_those_of_another():
    f = ready(fg.value_and_grad(lambda x: np.sum(x**2) + np.sum(x)), np.ones(3))
    given = [np.full(3, float(i)) for i in range(64)]
    results = [f(x)[0] for x in given]
    assert results == [3.0 * i**2 + 3 * i for i in range(64)]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(50):
            assert [value for value, _ in pool.map(f, given)] == results


@pytest.mark.parametrize("x", [X, fg.tensor(X)], ids=["array", "Tensor"])
def test_results_that_are_constants_go_the_short_way(x: Any) -> None:
    f = ready(lambda x: (np.array(3.0), x * 2, {"flag": np.array(True), "n": np.float32(2)}, "text"), x)
    first, *_ = f(x)
    first += 1
    found, _, named, text = f(x)
    assert (found, first, named["flag"], named["n"], text) == (3.0, 4.0, True, 2.0, "text")
