"""What kernels may hold, phrase by phrase, to the second order; and what they may not."""

from __future__ import annotations

import linecache
import math

import mpmath
import numba
import numpy as np
import pytest
from numba import types
from tests.adjoints import phrases
from tests.adjoints.interpreted import check, check_function, flat, leaves, own, value_of

import fgrad
from fgrad.adjoints import UnsupportedKernelError
from fgrad.adjoints.lowering import lowered
from fgrad.adjoints.slopes import RESERVED
from fgrad.adjoints.values import result_type


def ids(cases):
    return [f.__name__ for f, _ in cases]


@pytest.mark.parametrize(("function", "args"), phrases.CASES, ids=ids(phrases.CASES))
def test_a_phrase(function, args):
    single = function is phrases.single_precision
    assert check(function, *args, orders=1 if single else 2, tolerance=2e-2 if single else 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("function", "args"), phrases.CASES, ids=ids(phrases.CASES))
def test_what_derivatives_repeat_is_what_numba_computes(function, args):
    held = own(args)
    returned = leaves(numba.njit(function)(*held))
    made, _ = lowered(function, [numba.typeof(a) for a in args])
    found = value_of(made, flat(args))
    written = [a for a, p in zip(flat(held), made.params, strict=True) if p.written]
    for x, y in zip(found, [*returned, *written], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-13, atol=1e-15)


def updated_in_place(x):
    x[1:] += x[:-1]
    x *= x[::-1]
    x[:-1] -= x[1:] * 0.5
    return np.sum(x * x)


NAMES = sorted(RESERVED - {"np", "range"})  # these two the kernel needs itself
WITH_NAMES = """
def kernel({0}, {1}, n):
    {2} = {0}
    {3} = np.ones(3)
    for {4} in range(n):
        {2} = {2} * np.sqrt({0} + {4}) / (1.0 + {2})
        for j in range(3):
            {3}[j] = {3}[j] * np.sqrt({2} + {1}[j] * {3}[j])
    return {2} * {3}[0] + {3}[2]
"""


def with_names(names):
    text = WITH_NAMES.format(*names)
    file = f"<names {' '.join(names)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space = {"np": np}
    exec(compile(text, file, "exec"), space)
    return space["kernel"]


@pytest.mark.parametrize("start", range(len(NAMES)), ids=NAMES)
def test_names_that_derivatives_have_for_their_own_ends(start):
    function = with_names([*NAMES, *NAMES][start : start + 5])
    assert check(function, 0.7, np.array([0.3, 0.5, 1.2]), 3)


@pytest.mark.parametrize("start", range(0, len(NAMES), 5))
def test_such_names_in_machine_code(start):
    args = 0.7, np.array([0.3, 0.5, 1.2]), 3
    found, expected = (
        fgrad.grad(fgrad.kernel(with_names(names)), argnums=(0, 1))(*args)
        for names in ([*NAMES, *NAMES][start : start + 5], "abcde")
    )
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-13)


def test_updates_in_place_read_what_they_have_written_as_under_numba():
    x, expected = np.arange(1.0, 6.0), np.arange(1.0, 6.0)
    returned = numba.njit(updated_in_place)(expected)
    assert returned != updated_in_place(x.copy())  # Python does otherwise
    made, _ = lowered(updated_in_place, [numba.typeof(x)])
    total, written = value_of(made, [x])
    assert total == pytest.approx(returned)
    np.testing.assert_allclose(written, expected)
    assert check_function(made, [x / 5.0])


# ---- functions of numbers ---------------------------------------------------------------------------------

# of one number, and of two
FUNCTIONS = {
    1: """
    math.acos math.acosh math.asin math.asinh math.atan math.atanh math.cos math.cosh math.degrees
    math.erf math.erfc math.exp math.exp2 math.expm1 math.fabs math.gamma math.lgamma math.log
    math.log10 math.log1p math.log2 math.radians math.sin math.sinh math.sqrt math.tan math.tanh
    np.abs np.absolute np.acos np.acosh np.arccos np.arccosh np.arcsin np.arcsinh np.arctan
    np.arctanh np.asin np.asinh np.atan np.atanh np.cbrt np.ceil np.conj np.conjugate np.cos np.cosh
    np.deg2rad np.degrees np.exp np.exp2 np.expm1 np.fabs np.floor np.log np.log10 np.log1p np.log2
    np.negative np.positive np.rad2deg np.radians np.reciprocal np.rint np.sign np.sin np.sinh
    np.spacing np.sqrt np.square np.tan np.tanh np.trunc
    """,
    2: """
    math.atan2 math.copysign math.hypot math.ldexp math.nextafter math.pow np.add np.arctan2
    np.atan2 np.copysign np.divide np.float_power np.floor_divide np.fmax np.fmin np.fmod np.hypot
    np.logaddexp np.logaddexp2 np.maximum np.minimum np.mod np.multiply np.nextafter np.pow np.power
    np.remainder np.subtract np.true_divide
    """,
}
WITHOUT = {"math.ldexp", "np.spacing"}  # no atoms


def known(module):
    """Return the functions of `math`, or ufuncs of NumPy, that Numba knows of one float, or two."""
    found = {}
    for n, f in vars(module).items():
        if callable(f) and (module is math or isinstance(f, np.ufunc)) and not n.startswith("_"):
            found[n] = next((count for count in (1, 2) if takes(f, count)), None)
    return {f"{'math' if module is math else 'np'}.{n}": count for n, count in found.items() if count}


def takes(f, count):
    """Return whether Numba knows a function of so many floats that is one."""
    try:
        return isinstance(result_type(f, *[types.float64] * count), types.Float)
    except (TypeError, ValueError, numba.errors.NumbaError):
        return False


def test_all_functions_of_numbers_are_listed():
    listed = {(name, count) for count, names in FUNCTIONS.items() for name in names.split()}
    assert listed >= {*known(math).items(), *known(np).items()}


@pytest.mark.parametrize(("count", "name"), [(c, n) for c, names in FUNCTIONS.items() for n in names.split()])
def test_a_function_of_numbers(count, name):
    text = f"def f(x, y):\n    return {name}({'x, y' if count == 2 else 'x'}) * y\n"
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space = {"math": math, "np": np}
    if not takes(getattr(space[name.partition(".")[0]], name.partition(".")[2], None), count):
        pytest.skip(f"this Python, NumPy or Numba has no {name}")
    exec(compile(text, file, "exec"), space)
    x = 1.3 if "cosh" in name else 0.4
    if name in WITHOUT:
        with pytest.raises((UnsupportedKernelError, TypeError)):
            check(space["f"], x, 0.7)
    else:
        assert check(space["f"], x, 0.7, orders=2)


@fgrad.kernel
def gamma(x):
    return math.gamma(x)


@fgrad.kernel
def lgamma(x):
    return math.lgamma(x)


def mpmath_lgamma(x):
    return mpmath.log(abs(mpmath.gamma(x)))


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("function", "reference"), [(gamma, mpmath.gamma), (lgamma, mpmath_lgamma)])
def test_derivatives_of_gamma_functions(function, reference, order):
    x = np.array([-3.4, -2.5, -0.7, 0.1, 0.49999, 0.5, 1.0, 1.4616, 2.0, 9.9999, 10.0, 10.5, 45.0, 150.0])
    derivative = fgrad.grad(function) if order == 1 else fgrad.grad(fgrad.grad(function))
    with mpmath.workdps(30):
        expected = [float(mpmath.diff(reference, v, order)) for v in x]
    np.testing.assert_allclose([derivative(v) for v in x], expected, rtol=2e-13, atol=1e-13)


# ---- what has no derivative -------------------------------------------------------------------------------


@numba.njit
def even(x, n):
    return x if n == 0 else odd(x, n - 1)


@numba.njit
def odd(x, n):
    return x if n == 0 else even(x, n - 1)


@numba.njit
def sliced(x):
    if len(x) == 1:
        return x[0]
    return x[0] * sliced(x[1:])


@numba.njit
def perhaps(x, n):
    return x * (perhaps(x, n - 1) if n > 0 else 1.0)


@numba.guvectorize("(n)->()")
def summed(x, out):
    out[0] = x.sum()


def a_dictionary(x):
    d = {0: x[0]}
    return d[0]


def a_comprehension(x):
    y = [v * v for v in x]
    return y[0]


def a_comprehension_with_a_condition(x):
    return np.array([v * v for v in x if v > 1.0])[0]


def rows_that_may_differ(x):
    return np.array([[x[i] for j in range(i)] for i in range(3)])[0, 0]


def a_growing_list(x):
    found = []
    found.append(x[0])
    return found[0]


def a_written_list(x):
    found = [x[0], x[1]]
    found[0] = x[1]
    return found[0]


def a_returned_list(x):
    return [x[0], x[1]]


def a_string(x):
    name = f"{len(x)}"
    return x[0] * len(name)


def a_generator(x):
    for v in x:  # noqa: UP028 -- as users do
        yield v


def caught(x):
    try:
        return x[0]
    except Exception:
        return x[1]


def a_function_inside(x):
    def inner(v):
        return v * v

    return inner(x[0])


def object_mode(x):
    with numba.objmode(y="float64"):
        y = x[0]
    return y  # noqa: RET504 -- as Numba demands


def a_walrus(x):
    return (y := x[0]) * y


def unpacked(x):
    first, *rest = (x[0], x[1], x[2])
    return first * rest[0]


def rows_with_a_new_axis(x):
    total = 0.0
    for row in x[:, None]:
        total += row[0]
        x[1] = total
    return total


def a_new_axis_raveled(x):
    y = x[None, :].ravel()
    y[0] = 5.0 * x[1]
    return x[0] * y[2]


def a_new_axis_transposed(x):
    y = x[None, :].T
    x[0] = 5.0 * x[1]
    return y[0, 0]


def the_array_itself(x):
    y = np.ascontiguousarray(x[None, :])
    x[0] = 5.0 * x[1]
    return y[0, 0]


@numba.njit
def with_a_new_axis(x):
    return x[None, :]


def a_returned_view(x):
    y = with_a_new_axis(x)
    x[0] = 5.0 * x[1]
    return y[0, 0]


def a_tuple_beside_an_array(x):
    total = 0.0
    for v, w in zip((1.0, 2.0), x):  # noqa: B905 -- Numba knows no `strict`
        total += v * w
    return total


def a_sum_in_another_type(x):
    return np.sum(x, dtype=np.float32)


def several_arrays_as_an_index(x):
    m = x.reshape((2, 2))
    at = np.array([0, 1])
    return m[at, at].sum()


def a_sort(x):
    return np.sort(x)[0]


def an_array_from_two_places(x):
    if x[0] > 1:
        return x * 2.0
    return x * 3.0


def a_constant_written_to(x):
    phrases.TABLE[0] = x[0]
    return phrases.TABLE[0]


def a_name_of_two_arrays(x):
    y = x
    for _ in range(3):
        y[0] = 2.0 * y[1]
        y = y * 2.0
    return y[0]


def arrays_that_change_places(x):
    y = np.zeros_like(x)
    for _ in range(3):
        for i in range(1, len(x)):
            y[i] = x[i - 1] * x[i]
        x, y = y, x
    return x[0]


def two_names_in_a_loop(x):
    y = x.copy()
    z = x * 2.0
    total = 0.0
    for _ in range(3):
        y[0] += 1.0
        total += z[0]
        z = y
    return total


def a_tuple_with_an_array_of_before(x):
    y = x * 2.0
    for _ in range(3):
        held = (y, 1.0)
        y = y * 2.0
        total = held[0][0] * y[1]
    return total


def a_view_that_is_filled(x):
    x[:, None].fill(0.0)
    return x[0]


def an_array_for_the_result(x):
    y = np.zeros_like(x)
    np.add(x, x, y)
    return y[0]


def calls_that_call_back(x):
    return even(x[0], 3)


def recursion_on_slices(x):
    return sliced(x)


def recursion_in_a_condition(x):
    return perhaps(x[0], 3)


def a_gufunc(x):
    return summed(x)


REFUSED = [
    (a_dictionary, 1, "makes a dictionary. Keep its values in an array"),
    (a_comprehension, 1, "makes a list. Make an array of it, by np.array"),
    (a_comprehension_with_a_condition, 1, "makes a list. Make an array of it, by np.array"),
    (rows_that_may_differ, 1, "makes rows that may differ in length. Write the loop"),
    (a_growing_list, 1, "a list grows. Make an array of its final length"),
    (a_written_list, 2, "an element of a list or tuple is written. Make an array"),
    (a_returned_list, 1, "a list, or a record, is returned. Return a tuple or arrays"),
    (a_string, 1, "makes a string. Leave strings out of kernels"),
    (a_generator, 2, "makes a generator. Write what it yields into an array"),
    (caught, 1, "catches exceptions. Test for the case with `if`"),
    (a_function_inside, 1, "is a function inside of one. Define it outside, under numba.njit"),
    (object_mode, 1, "leaves compiled code. Compute it before the kernel"),
    (a_walrus, 1, "assigns inside of an expression. Assign on a line before"),
    (unpacked, 1, "is assigned no tuple of its length. Name the parts"),
    (rows_with_a_new_axis, 3, "two names of one array are used, and line"),
    (a_new_axis_raveled, 3, "two names of one array are used, and line"),
    (a_new_axis_transposed, 3, "two names of one array are used, and line"),
    (the_array_itself, 3, "two names of one array are used, and line"),
    (a_returned_view, 3, "two names of one array are used, and line"),
    (a_tuple_beside_an_array, 2, "a loop runs over a tuple beside an array or range. Make an array of the"),
    (a_sum_in_another_type, 1, "`np.sum(x, dtype=np.float32)` has other arguments. Leave them out"),
    (several_arrays_as_an_index, 3, "is indexed by several arrays"),
    (a_sort, 1, "`np.sort` has no derivative here. Write it as a loop"),
    (an_array_from_two_places, 2, "an array is returned from inside a loop or branch. Return it at the end"),
    (a_constant_written_to, 1, "is written to. Pass it as an argument"),
    (a_name_of_two_arrays, 3, "y is one array with another before the block at line"),
    (arrays_that_change_places, 5, "x is one array with another before the block at line"),
    (two_names_in_a_loop, 6, "two names of one array are used, and line"),
    (a_tuple_with_an_array_of_before, 5, "held holds the array that y was before line"),
    (a_view_that_is_filled, 1, "writes to a view. Write to the array itself"),
    (an_array_for_the_result, 2, "`np.add(x, x, y)` writes to an array"),
    (calls_that_call_back, 0, "calls itself by way of others. Let it call itself directly"),
    (recursion_on_slices, 0, "x is no number, and differs from call to call of a recursion"),
    (recursion_in_a_condition, 0, "may call itself or not. Write it with `if`"),
    (a_gufunc, 1, "a generalized ufunc is called. Compile its function with numba.njit"),
]


@pytest.mark.parametrize(("function", "line", "words"), REFUSED, ids=[f.__name__ for f, *_ in REFUSED])
def test_what_has_no_derivative_is_named_with_its_line_and_a_remedy(function, line, words):
    with pytest.raises(UnsupportedKernelError) as caught:
        lowered(function, [numba.typeof(np.arange(1.0, 5.0))])
    assert words in str(caught.value)
    file, number = str(caught.value).split(": ")[0].rsplit(":", 1)
    assert file == __file__
    if line > 0:
        assert int(number) == function.__code__.co_firstlineno + line
