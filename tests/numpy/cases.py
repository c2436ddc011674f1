"""What the tests of NumPy's names share: a call, and everything that has to hold for it."""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Iterator
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import pytest

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.core.program import aval_out
from fgrad.testing import check_grads

LATEST = np.lib.NumpyVersion(np.__version__) >= "2.4.0"
UNMAPPED = {  # functions whose results depend in shape on the values, or are nested: no vmap, no staging here
    *("unique", "unique_all", "unique_counts", "unique_inverse", "unique_values"),
    *("union1d", "intersect1d", "setdiff1d", "setxor1d", "histogramdd"),
}
BY_VALUE = {  # functions that look at values for the dtype or shape of their results, or to refuse them
    *("linalg.eig", "linalg.eigvals", "linalg.lstsq", "roots", "average", "nanargmax", "nanargmin"),
    *("quantile", "percentile", "nanquantile", "nanpercentile"),
    *("histogram", "histogram_bin_edges", "histogramdd", "histogram2d"),
}
ROUNDING = {"float16": 2e-3, "float32": 1e-6, "complex64": 1e-6}  # of other dtypes: 1e-13


class Fixed(NamedTuple):
    """An array that is a parameter, and never becomes a Tensor."""

    value: Any


class Case(NamedTuple):
    """A call of a function by its name; derivatives are checked up to `order` (0: not at all).

    From second order on, vmap and staging are checked too.
    """

    name: str
    label: str
    args: tuple[Any, ...]
    kwargs: Any = ()
    order: int = 0

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments."""
        return dict(self.kwargs)

    def __str__(self) -> str:
        return f"{self.name}-{self.label}"


def values(
    shape: Any = (2, 3), low: float = -2.0, high: float = 2.0, dtype: Any = np.float64, seed: int = 0
) -> Any:
    """Return distinct random numbers of an interval; complex ones have positive imaginary parts."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(low, high, shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.uniform(0.2, 0.8, shape)
    return np.asarray(x, dtype)


def integers(shape: Any = (2, 3), low: int = -4, high: int = 5, dtype: Any = np.int64, seed: int = 0) -> Any:
    """Return random integers of an interval."""
    return np.asarray(np.random.default_rng(seed).integers(low, high, shape), dtype)


def truths(shape: Any = (2, 3), seed: int = 3) -> Any:
    """Return random truth values."""
    return np.asarray(np.random.default_rng(seed).integers(0, 2, shape), bool)


def strided(x: Any) -> Any:
    """Return the elements of `x` in a layout that is neither C nor Fortran contiguous."""
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    wide[..., ::2] = x
    return wide[..., ::2]


def kinds(shape: Any = (2, 3), low: float = -2.0, high: float = 2.0, seed: int = 0) -> dict[str, Any]:
    """Return an array of `shape` in every kind of dtype and layout."""
    x = values(shape, low, high, seed=seed)
    return {
        "float64": x,
        "float32": x.astype(np.float32),
        "float16": x.astype(np.float16),
        "complex128": values(shape, low, high, np.complex128, seed),
        "complex64": values(shape, low, high, np.complex64, seed),
        "int64": integers(shape, seed=seed),
        "int8": integers(shape, dtype=np.int8, seed=seed),
        "uint8": integers(shape, 1, 9, dtype=np.uint8, seed=seed),
        "bool": truths(shape, seed=seed + 3),
        **({"strided": strided(x), "fortran": np.asfortranarray(x)} if len(shape) > 1 else {}),
    }


def numpy_function(name: str) -> Any:
    """Return NumPy's function of this name, which may have a module in front."""
    try:
        return attrgetter(name)(np)
    except AttributeError:
        if LATEST:
            raise
        pytest.skip("a later NumPy has this function")


def as_tensors(x: Any) -> Any:
    """Return `x` with every array in it, also in lists and tuples, as Tensor."""
    if isinstance(x, Fixed):
        return x.value
    if isinstance(x, np.ndarray | np.generic):
        return fg.tensor(x)
    return type(x)(map(as_tensors, x)) if type(x) in (list, tuple) else x


def has_array(x: Any) -> bool:
    """Return whether there is an array in `x`, which may be a list or tuple."""
    return isinstance(x, np.ndarray | np.generic) or (type(x) in (list, tuple) and any(map(has_array, x)))


def has_slope(x: Any) -> bool:
    """Return whether `x` holds an array or number that derivatives flow through (half precision aside)."""
    if isinstance(x, list | tuple):
        return any(map(has_slope, x))
    return isinstance(x, float) or getattr(x, "dtype", np.dtype(int)).char in "fdFD"


def check(case: Case) -> None:
    """Compare with NumPy for arrays and Tensors, by fgrad's name and by NumPy's, and check derivatives."""
    plain, ours = numpy_function(case.name), attrgetter(case.name)(fnp)
    tensors = tuple(map(as_tensors, case.args))
    varying = [i for i, x in enumerate(case.args) if has_array(x)]
    case = case._replace(args=tuple(x.value if isinstance(x, Fixed) else x for x in case.args))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            expected = plain(*case.args, **case.options)
            if case.name == "count_nonzero":
                expected = np.intp(expected) if type(expected) is int else expected  # an int before NumPy 2.3
        except Exception as error:
            if not LATEST:
                pytest.skip("this NumPy may refuse what a later one takes")
            for args in (case.args, tensors):
                refuses(ours, args, case.options, error)
            if varying and case.name not in BY_VALUE:
                with pytest.raises(Exception):  # noqa: B017 -- which one is tested above
                    fg.jit(of_arrays(ours, case, varying))(*(case.args[i] for i in varying))
            return
        same(ours(*case.args, **case.options), expected, np.ndarray | np.generic)
        if not varying:
            return
        if case.name == "linalg.cond" and np.iscomplexobj(expected):
            assert not LATEST
            pytest.skip("this NumPy gives complex condition numbers")
        same(ours(*tensors, **case.options), expected, fg.Tensor)
        same(plain(*tensors, **case.options), expected, fg.Tensor)
        for i in varying if len(varying) > 1 else ():
            args = (*case.args[:i], tensors[i], *case.args[i + 1 :])
            same(ours(*args, **case.options), expected, fg.Tensor)
        if case.name not in BY_VALUE:
            avals_agree(ours, case, varying, expected)
    inputs = [i for i in varying if has_slope(case.args[i])]
    if case.order and inputs and has_slope(expected):

        def f(*xs: Any) -> Any:
            args = list(case.args)
            for i, x in zip(inputs, xs, strict=True):
                args[i] = x
            return ours(*args, **case.options)

        xs = [case.args[i] for i in inputs]
        check_grads(f, xs, case.order)
        if case.order > 1 and case.name not in UNMAPPED and all(isinstance(x, np.ndarray) for x in xs):
            maps_and_stages(f, xs)


def of_arrays(ours: Any, case: Case, varying: list[int]) -> Any:
    """Return a case as a function of its arguments that hold arrays."""

    def f(*xs: Any) -> Any:
        args = list(case.args)
        for i, x in zip(varying, xs, strict=True):
            args[i] = x
        return ours(*args, **case.options)

    return f


def avals_agree(ours: Any, case: Case, varying: list[int], expected: Any) -> None:
    """Assert that shapes and dtypes of results are known without their values, where a case can be staged."""
    try:
        program = fg.make_graph(of_arrays(ours, case, varying))(*(case.args[i] for i in varying))
    except (TypeError, ValueError, IndexError):  # it needs values
        return
    avals = [(tuple(y.shape), y.dtype) for y in map(aval_out, program.outputs)]
    leaves = [np.asarray(y) for y in fg.tree.leaves(expected)]
    assert avals == [(y.shape, y.dtype) for y in leaves]


def maps_and_stages(f: Any, xs: list[Any]) -> None:
    """Compare vmap of `f` with a loop, and its program with `f`."""
    same(fg.make_graph(f)(*xs)(*xs), f(*xs), np.ndarray | np.generic)
    stacks = [np.stack([x, x * 0.99]) for x in xs]
    first, second = f(*xs), f(*(s[1] for s in stacks))
    several = isinstance(first, list | tuple)
    loop = [np.stack(p) for p in zip(first, second, strict=True)] if several else np.stack([first, second])
    if several:
        loop = getattr(first, "_make", type(first))(loop)
    same(fg.vmap(f)(*stacks), loop, np.ndarray)


def same(actual: Any, expected: Any, kind: Any) -> None:
    """Assert that results are alike: in structure, and each array in kind, dtype, shape and value."""
    if isinstance(expected, list | tuple):
        if hasattr(expected, "_fields"):
            assert actual._fields == expected._fields
        else:
            assert type(actual) is type(expected)
        assert len(actual) == len(expected)
        for a, e in zip(actual, expected, strict=True):
            same(a, e, kind)
        return
    if not isinstance(expected, np.ndarray | np.generic):
        assert type(actual) is type(expected)
        assert actual == expected
        return
    assert isinstance(actual, kind), f"{type(actual)}, expected {kind}"
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    a = actual.numpy() if isinstance(actual, fg.Tensor) else actual
    tol = ROUNDING.get(expected.dtype.name, 1e-13)
    np.testing.assert_allclose(a, expected, rtol=tol, atol=tol * 10)


def writes(name: str, *args: Any, at: int = 0, **options: Any) -> None:
    """Assert that results are written to `out`, a Tensor or an array, of which argument `at` is a Tensor."""
    expected = np.asarray(numpy_function(name)(*args, **options))
    mixed = tuple(as_tensors(x) if i == at else x for i, x in enumerate(args))
    for f, given, kind in [
        *((attrgetter(name)(module), mixed, fg.tensor) for module in (fnp, np)),
        *((attrgetter(name)(fnp), xs, np.array) for xs in (args, mixed)),
    ]:
        out = kind(np.zeros_like(expected))
        assert f(*given, out=out, **options) is out
        np.testing.assert_allclose(fg.tensor(out).numpy(), expected, rtol=1e-13)


def refuses(f: Any, args: Any, kwargs: Any, error: Exception) -> None:
    """Assert that a call raises what NumPy raises."""
    public = next(
        c for c in type(error).__mro__ if c.__module__ in (builtins.__name__, np.exceptions.__name__)
    )
    with pytest.raises(public):
        f(*args, **kwargs)


def named(name: str, calls: dict[str, Any], order: int = 2, **kwargs: Any) -> Iterator[Case]:
    """Yield a case per call; a call is a tuple of arguments, or one array."""
    for label, args in calls.items():
        yield Case(name, label, args if isinstance(args, tuple) else (args,), tuple(kwargs.items()), order)
