"""Errors that depend on values are NumPy's under every transformation: no result is made up instead."""

import numpy as np
import pytest

import fgrad as fg
from fgrad import lax

NAN = np.nan

ARGUMENTS = {
    # name: (function, good, bad, error and words of NumPy's)
    **{
        f"{name}, {np.dtype(c)}": (
            lambda x, name=name: getattr(np, name)(x, axis=-1, keepdims=True) * 1.0,
            np.array([[1.0, 2.0], [NAN, 2.0]]).astype(c),
            np.array([[1.0, 2.0], [NAN, complex(NAN, 1)]]).astype(c) if c in "FD" else
            np.array([[1.0, 2.0], [NAN, NAN]]).astype(c),
            ValueError,
            "All-NaN slice",
        )
        for name in ("nanargmax", "nanargmin")
        for c in "edF"
    },
    "average": (
        lambda w: np.average(np.ones((2, 2)), axis=-1, weights=w),
        np.array([[1.0, 2.0], [1.0, 3.0]]),
        np.array([[1.0, 2.0], [1.0, -1.0]]),
        ZeroDivisionError,
        "Weights sum to zero",
    ),
    "scale of a sample": (
        lambda s: fg.random.normal(fg.random.key(0), 0.0, s, size=s.shape),
        np.array([[1.0, 2.0], [1.0, 3.0]]),
        np.array([[1.0, 2.0], [1.0, -1.0]]),
        ValueError,
        "scale < 0",
    ),
}  # fmt: skip

WAYS = {
    "eager": lambda f, x: f(fg.tensor(x)),
    "recorded": lambda f, x: fg.vjp(f, x)[0],
    "jit": lambda f, x: fg.jit(f)(x),
    "unused": lambda f, x: fg.jit(lambda x: (f(x), x)[1])(x),
    "vmap": lambda f, x: fg.vmap(f)(x),
    "jit(vmap)": lambda f, x: fg.jit(fg.vmap(f))(x),
    "vmap(jit)": lambda f, x: fg.vmap(fg.jit(f))(x),
    "jit(jvp)": lambda f, x: fg.jit(lambda x: fg.jvp(f, (x,), (x,))[0])(x),
    "jit(grad)": lambda f, x: fg.jit(fg.grad(lambda x: np.sum(f(x)).real))(x),
    "jit(scan)": lambda f, x: fg.jit(lambda x: lax.scan(lambda c, row: (c, f(row)), 0, x)[1])(x),
    "jit(cond)": lambda f, x: fg.jit(lambda x: lax.cond(x.shape[0] > 1, f, f, x))(x),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ARGUMENTS)
def test_errors_of_values(name, way):
    f, good, bad, error, words = ARGUMENTS[name]
    if way == "jit(grad)" and good.dtype.kind == "c":
        f = lambda x, f=f: f(x) + np.sum(x.real)
    run = WAYS[way]
    run(f, good)
    with pytest.raises(error, match=words):
        run(f, bad)
    run(f, good)


def test_a_compiled_program_goes_on_after_an_error():
    calls = []
    f = fg.jit(lambda x: (calls.append(0), np.nanargmax(x, axis=1))[1])
    good, bad = np.array([[1.0, NAN]]), np.array([[NAN, NAN]])
    for _ in range(3):
        np.testing.assert_array_equal(f(good), [0])
        with pytest.raises(ValueError, match="All-NaN"):
            f(bad)
    assert len(calls) == 1


def test_a_branch_that_is_not_taken_requires_nothing():
    f = fg.jit(lambda x: lax.cond(np.sum(x) > 0, np.nanargmax, lambda x: np.int64(7), x))
    np.testing.assert_array_equal(f(np.array([NAN, NAN])), 7)
    with pytest.raises(ValueError, match="All-NaN"):
        fg.jit(lambda x: lax.cond(np.sum(np.isnan(x)) > 0, np.nanargmax, lambda x: np.int64(7), x))(
            np.array([NAN, NAN])
        )
