"""Every function of fgrad.numpy that takes several arrays takes lists beside a Tensor on a device."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from tests.backend.checks import LOOSE, on_device
from tests.helpers import grouped
from tests.numpy.cases import Case, Fixed, has_array, has_slope, numpy_function
from tests.numpy.test_names import MODULES

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import tree

CASES = [case for m in MODULES for case in getattr(m, "CASES", ()) if any(map(has_array, case.args))]
OF_TYPES = {"result_type", "common_type", "can_cast", "min_scalar_type"}
RULES = {"histogram", "histogram_bin_edges"}  # NumPy's for the number of bins look at all elements
UNASKED = {  # functions with arguments that NumPy does not look at, so that it does not ask a Tensor there
    *("interp", "lexsort", "linalg.matrix_rank", "piecewise", "polyint", "select", "take"),
}


def replaced(x: Any, f: Any) -> Any:
    """Return `x` with `f` of the arrays in it, also in lists and tuples."""
    if isinstance(x, Fixed):
        x = x.value
    if isinstance(x, np.ndarray | np.generic):
        return f(x)
    return type(x)(replaced(y, f) for y in x) if type(x) in (list, tuple) else x


def as_lists(x: Any) -> Any:
    """Return `x` with nested lists in the place of arrays."""
    return replaced(x, lambda a: a.tolist() if a.ndim else a)


def sent(x: Any) -> Any:
    """Return `x` with Tensors on the device in the place of arrays."""
    return replaced(x, lambda a: on_device(np.asarray(a)))


def first_sent(x: Any) -> Any:
    """Return `x` with a Tensor on the device in the place of the first array, lists for the others."""
    arrays = iter([sent])
    return replaced(x, lambda a: next(arrays, as_lists)(a))


def mixtures(case: Case) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield arguments of which one is on the device and the others are lists, and the same for NumPy."""
    lists = list(map(as_lists, case.args))
    for i, x in enumerate(case.args):
        if not has_array(x):
            continue
        whole = [*lists[:i], replaced(x, lambda a: a), *lists[i + 1 :]]
        yield [*lists[:i], sent(x), *lists[i + 1 :]], whole
        if isinstance(x, list | tuple):
            rest = iter([lambda a: a])
            yield (
                [*lists[:i], first_sent(x), *lists[i + 1 :]],
                [*lists[:i], replaced(x, lambda a, rest=rest: next(rest, as_lists)(a)), *lists[i + 1 :]],
            )


def agrees(found: Any, expected: Any) -> None:
    """Compare results with those of NumPy, and where they are."""
    found, expected = tree.leaves(found), tree.leaves(expected)
    for a, e in zip(found, expected, strict=True):
        if isinstance(a, fg.Tensor):
            assert a.device == "cuda:0"
            a = a.numpy()
        if isinstance(e, str):
            assert a == e
            continue
        a, e = np.asarray(a), np.asarray(e)
        assert (a.dtype, a.shape) == (e.dtype, e.shape)
        tol = LOOSE.get(e.dtype.char, 1e-8)
        np.testing.assert_allclose(a, e, rtol=10 * tol, atol=10 * tol)


def has_values(case: Case) -> bool:
    """Return whether a case is of a function of values, not of dtypes or of all elements together."""
    return case.name not in OF_TYPES and not (case.name in RULES and case.label.startswith("rule"))


@pytest.mark.filterwarnings("ignore")
@grouped("case", filter(has_values, CASES), "name", quick=2)
def test_values(case):
    options = {k: as_lists(v) for k, v in case.options.items()}
    plain, ours = numpy_function(case.name), attrgetter(case.name)(fnp)
    for given, arrays in mixtures(case):
        with np.errstate(all="ignore"):
            try:
                expected = plain(*arrays, **options)
            except Exception:
                continue
            agrees(ours(*given, **options), expected)
            if case.name not in UNASKED:
                agrees(plain(*given, **options), expected)


def floats(x: Any) -> list[Any]:
    """Return the results that have slopes."""
    return [y for y in tree.leaves(x) if isinstance(y, fg.Tensor) and y.dtype.kind in "fc"]


def has_slopes_beside(case: Case) -> bool:
    """Return whether a case has several arrays, and derivatives with respect to some."""
    several = sum(map(has_array, (*case.args, *case.options.values()))) > 1
    return several and case.order > 0 and any(isinstance(x, np.ndarray) and has_slope(x) for x in case.args)


@pytest.mark.filterwarnings("ignore")
@grouped("case", filter(has_slopes_beside, CASES), "name", quick=2)
def test_derivatives(case):
    options = {k: as_lists(v) for k, v in case.options.items()}
    lists = list(map(as_lists, case.args))
    for i, x in enumerate(case.args):
        if not (isinstance(x, np.ndarray) and has_slope(x)):
            continue

        def f(x, i=i):
            return floats(attrgetter(case.name)(fnp)(*lists[:i], x, *lists[i + 1 :], **options))

        with np.errstate(all="ignore"):
            try:
                outs, back = fg.vjp(f, fg.tensor(x))
            except Exception:
                continue
            if not outs:
                continue
            rng = np.random.default_rng(0)
            cts = [rng.uniform(0.5, 1.5, y.shape).astype(y.dtype) for y in outs]
            expected = back(list(map(fg.tensor, cts)))
            found = fg.vjp(f, on_device(x))[1](list(map(on_device, cts)))
        agrees(found, tree.map(lambda t: t.numpy(), expected))
