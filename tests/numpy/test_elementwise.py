"""NumPy's element-wise functions: values, dtypes, keywords, operators and derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers import grouped
from tests.numpy.cases import Case, as_tensors, check, integers, kinds, strided, truths, values, writes

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.testing import check_grads

REAL, POSITIVE, UNIT, ABOVE = (-2.0, 2.0), (0.5, 2.0), (-0.8, 0.8), (1.3, 3.0)

UNARY = {
    **dict.fromkeys(("positive", "negative", "absolute", "abs", "fabs", "square", "conjugate", "conj"), REAL),
    **dict.fromkeys(("exp", "exp2", "expm1", "sin", "cos", "sinh", "cosh", "tanh", "arctan", "atan"), REAL),
    **dict.fromkeys(("arcsinh", "asinh", "degrees", "rad2deg", "radians", "deg2rad"), REAL),
    **dict.fromkeys(("sqrt", "cbrt", "reciprocal", "log", "log2", "log10", "log1p"), POSITIVE),
    **dict.fromkeys(("tan", "arcsin", "asin", "arccos", "acos", "arctanh", "atanh"), UNIT),
    **dict.fromkeys(("arccosh", "acosh"), ABOVE),
    **dict.fromkeys(("sign", "floor", "ceil", "trunc", "rint", "spacing"), (0.6, 0.9)),
    **dict.fromkeys(("isnan", "isinf", "isfinite", "signbit", "logical_not", "invert", "bitwise_not"), REAL),
    **dict.fromkeys(("bitwise_count", "bitwise_invert"), REAL),
}
BINARY = {
    **dict.fromkeys(
        ("add", "subtract", "multiply", "arctan2", "atan2", "hypot", "copysign", "nextafter"), (REAL, REAL)
    ),
    **dict.fromkeys(
        ("maximum", "minimum", "fmax", "fmin", "logaddexp", "logaddexp2", "heaviside"), (REAL, REAL)
    ),
    **dict.fromkeys(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"), (REAL, REAL)),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), (REAL, REAL)),
    **dict.fromkeys(
        ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "gcd", "lcm"), (REAL, REAL)
    ),
    **dict.fromkeys(("bitwise_left_shift", "bitwise_right_shift"), (REAL, REAL)),
    **dict.fromkeys(("divide", "true_divide"), (REAL, POSITIVE)),
    **dict.fromkeys(("power", "pow", "float_power"), (POSITIVE, REAL)),
    **dict.fromkeys(("floor_divide", "remainder", "mod", "fmod"), ((5.0, 5.4), (2.05, 2.25))),
}
ALIASES = {
    "abs": "absolute",
    "pow": "power",
    "acos": "arccos",
    "asin": "arcsin",
    "atan": "arctan",
    "atan2": "arctan2",
    "acosh": "arccosh",
    "asinh": "arcsinh",
    "atanh": "arctanh",
    "conj": "conjugate",
    "mod": "remainder",
    "true_divide": "divide",
    "bitwise_not": "invert",
    "bitwise_invert": "invert",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
}  # fmt: skip
REFUSED = {"sign", "rint"}  # NumPy computes them for complex numbers, but their slopes are those of real ones


def unary_cases(name: str) -> list[Case]:
    low, high = UNARY[name]
    found = [Case(name, label, (x,), (), 1) for label, x in kinds((2, 3), low, high).items()]
    for label, x in {"0-d": values((), low, high), "empty": values((0, 2), low, high), "number": 0.7}.items():
        found.append(Case(name, label, (x,)))
    found.append(Case(name, "second order", (values((2, 3), low, high),), (), 2))
    found.append(Case(name, "list", ([[0.7, 0.6]],)))
    edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, 5e-324])
    found.append(Case(name, "edges", (edges,)))
    return [c._replace(order=0) if name in REFUSED and c.label.startswith("complex") else c for c in found]


def binary_cases(name: str) -> list[Case]:
    first, second = BINARY[name]
    xs, ys = kinds((2, 3), *first), kinds((2, 3), *second, seed=1)
    xs["int8"], ys["int8"] = np.abs(xs["int8"]), np.abs(ys["int8"]) + np.int8(1)
    xs["int64"], ys["int64"] = np.abs(xs["int64"]), np.abs(ys["int64"]) + 1
    real = name in {"maximum", "minimum", "fmax", "fmin"}
    found = [Case(name, k, (xs[k], ys[k]), (), 0 if real and k.startswith("complex") else 1) for k in xs]
    x, y = xs["float64"], ys["float64"]
    return [
        *found,
        Case(name, "second order", (x, y), (), 2),
        Case(name, "broadcast", (x[:, :1], y[0]), (), 2),
        Case(name, "0-d", (x[0, 0], y[0, 0])),
        Case(name, "0-d and matrix", (np.array(x[0, 0]), y), (), 1),
        Case(name, "empty", (x[:0], y[:0])),
        Case(name, "empty by broadcasting", (x[:0], y[0])),
        Case(name, "strided", (strided(x), y.T.copy().T), (), 1),
        Case(name, "number on the right", (x, 1.5), (), 1),
        Case(name, "number on the left", (1.5, y), (), 1),
        Case(name, "integer on the right", (xs["float32"], 2)),
        Case(name, "integers and number", (xs["int64"], 3)),
        Case(name, "float32 and float64", (xs["float32"], y), (), 1),
        Case(name, "int and float32", (xs["int64"], ys["float32"])),
        Case(name, "bool and int", (truths(), ys["int64"])),
        Case(name, "list", ([[1, 2, 3]], ys["int64"])),
        Case(name, "shapes that do not fit", (x, y.T)),
    ]


def several_cases() -> list[Case]:
    """Return the cases of functions that are no plain ufuncs of floats to floats."""
    x, y, n = values(), values(seed=1), integers((2, 3), -3, 4)
    found = [Case(name, label, (v,), (), 1) for name in ("modf", "frexp") for label, v in kinds().items()]
    found += [
        Case("divmod", k, (v, np.abs(v) + v.dtype.type(1)), (), 1)
        for k, v in kinds(low=5, high=5.4).items()
        if v.dtype.kind != "b"
    ]
    for name, args in {
        "modf": (x,),
        "frexp": (x,),
        "divmod": (values((2, 3), 5.0, 5.4), values((3,), 2.05, 2.25)),
        "ldexp": (x, n),
    }.items():
        found.append(Case(name, "second order", args, (), 2))
        found.append(Case(name, "0-d", tuple(a.ravel()[0] for a in args)))
        found.append(Case(name, "empty", tuple(a[:0] for a in args)))
        found.append(Case(name, "list", tuple(a.tolist() for a in args)))
    edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, 5e-324, -2.5])
    return [
        *found,
        *(Case(name, "edges", (edges,)) for name in ("modf", "frexp")),
        Case("ldexp", "float32", (x.astype("f"), n), (), 1), Case("ldexp", "number", (x, 3), (), 1),
        Case("ldexp", "broadcast", (x[:, :1], n[0]), (), 2),
        Case("ldexp", "floats", (x, y)), Case("ldexp", "integers", (n, n)),
        Case("ldexp", "shapes that do not fit", (x, n.T)),
        Case("divmod", "number on the right", (x, 1.5), (), 1),
        Case("divmod", "number on the left", (5.2, np.abs(y) + 2.0)),
        Case("divmod", "integers", (n, np.abs(n) + 1)),
    ]  # fmt: skip


CASES = [
    *(c for name in UNARY for c in unary_cases(name)),
    *(c for name in BINARY for c in binary_cases(name)),
    *several_cases(),
]

NAMES = {c.name for c in CASES}


@grouped("case", CASES, "name", quick=4)
def test_as_numpy(case):
    check(case)


@pytest.mark.parametrize("name", ALIASES)
def test_aliases(name):
    assert getattr(fnp, name) is getattr(fnp, ALIASES[name])


def is_float(name: str) -> bool:
    """Return whether a function gives floats for floats."""
    return {"d->d", "dd->d"} & set(getattr(np, name).types) != set()


# ---- keywords of ufuncs --------------------------------------------------------------------------


def sample(name: str, dtype: Any = np.float64) -> tuple[Any, ...]:
    if name in UNARY:
        return (values((2, 3), *UNARY[name], dtype),)
    return tuple(values((2, 3), *d, dtype, seed=i) for i, d in enumerate(BINARY[name]))


DIFFERENTIABLE = [n for n in {**UNARY, **BINARY} if n not in ALIASES and is_float(n)]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_dtype_keyword(name):
    args = sample(name, np.float32)
    expected = getattr(np, name)(*args, dtype=np.float64)
    for f, inputs in [(fnp, args), (fnp, as_tensors(args)), (np, as_tensors(args))]:
        y = getattr(f, name)(*inputs, dtype=np.float64)
        assert y.dtype == np.float64
        np.testing.assert_allclose(fg.tensor(y).numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_out_keyword(name):
    args, out = sample(name), fg.tensor(np.zeros((2, 3)))
    writes(name, *args)
    for module in (fnp, np):
        assert getattr(module, name)(*as_tensors(args), out=(out,)) is out
        np.testing.assert_array_equal(out.numpy(), getattr(np, name)(*args))


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_where_keyword(name):
    args, mask = sample(name), truths()
    start = np.full((2, 3), 7.0)
    expected = getattr(np, name)(*args, where=mask, out=start.copy())
    for module in (fnp, np):
        out = fg.tensor(start)
        y = getattr(module, name)(*as_tensors(args), where=mask, out=out)
        np.testing.assert_array_equal(y.numpy(), expected)
        y = getattr(module, name)(*as_tensors(args), where=as_tensors(mask), out=fg.tensor(start))
        np.testing.assert_array_equal(y.numpy(), expected)
        without = getattr(module, name)(*as_tensors(args), where=mask)
        np.testing.assert_array_equal(without.numpy()[mask], expected[mask])


@pytest.mark.parametrize("name", ["sin", "multiply", "square", "divide"])
def test_keywords_differentiate(name):
    mask = truths()
    f = getattr(fnp, name)
    check_grads(lambda *xs: f(*xs, where=mask, out=fg.tensor(np.ones((2, 3)))), sample(name), 2)
    check_grads(lambda out, *xs: f(*xs, where=mask, out=out * 1.0), (np.ones((2, 3)), *sample(name)), 2)
    check_grads(lambda *xs: f(*xs, dtype=np.float64), sample(name), 2)
    check_grads(lambda *xs: getattr(np, name)(*xs, out=fg.tensor(np.zeros((2, 3)))), sample(name), 2)


def test_an_array_as_target_of_a_differentiated_value_is_refused():
    with pytest.raises(TypeError, match="gradient would be lost"):
        fg.grad(lambda x: np.sum(np.sin(x, out=np.zeros(3))))(np.ones(3))


@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: m.sin(x, out=fg.tensor(np.zeros(4)) if m is fnp else np.zeros(4)),
        lambda m, x: m.sin(x, out=fg.tensor(np.zeros(3, int)) if m is fnp else np.zeros(3, int)),
        lambda m, x: m.sin(x, dtype=int),
        lambda m, x: m.add(x, x, casting="no", dtype=np.float32),
        lambda m, x: m.sin(x, where=np.array([True, False]), out=m.zeros(3)),
        lambda m, x: m.sin(x, unknown=1),
    ],
)
def test_wrong_keywords_raise_what_numpy_raises(call):
    x = np.ones(3)
    with pytest.raises((TypeError, ValueError)) as theirs:
        call(np, x)
    base = TypeError if isinstance(theirs.value, TypeError) else ValueError
    with pytest.raises(base):
        call(fnp, fg.tensor(x))


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum", "logical_and", "logical_or"])
def test_reduce_of_a_ufunc(name):
    x = values() > 0 if name.startswith("logical") else values()
    for axis in (0, 1, None, (0, 1)):
        expected = getattr(np, name).reduce(x, axis=axis)
        np.testing.assert_allclose(getattr(np, name).reduce(fg.tensor(x), axis=axis).numpy(), expected)
    np.testing.assert_allclose(
        getattr(np, name).reduce(fg.tensor(x), axis=1, keepdims=True).numpy(),
        getattr(np, name).reduce(x, axis=1, keepdims=True),
    )


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum", "logical_and", "logical_or"])
def test_reduce_of_a_ufunc_takes_the_first_axis(name):
    x = values() > 0 if name.startswith("logical") else values()
    np.testing.assert_allclose(getattr(np, name).reduce(fg.tensor(x)).numpy(), getattr(np, name).reduce(x))


@pytest.mark.parametrize("name", ["add", "multiply"])
def test_accumulate_of_a_ufunc(name):
    x = values()
    for axis in (0, 1):
        y = getattr(np, name).accumulate(fg.tensor(x), axis=axis)
        np.testing.assert_allclose(y.numpy(), getattr(np, name).accumulate(x, axis=axis))
    np.testing.assert_allclose(
        getattr(np, name).accumulate(fg.tensor(x)).numpy(), getattr(np, name).accumulate(x)
    )


# ---- Tensor's operators --------------------------------------------------------------------------

OPERATORS = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "//": "floor_divide",
    "%": "remainder",
    "**": "power",
    "==": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
    "&": "bitwise_and",
    "|": "bitwise_or",
    "^": "bitwise_xor",
    "<<": "left_shift",
    ">>": "right_shift",
}  # fmt: skip
INTEGERS = {"&", "|", "^", "<<", ">>"}


@pytest.mark.parametrize("symbol", OPERATORS)
def test_operators_are_the_functions(symbol):
    name = OPERATORS[symbol]
    apply = lambda x, y: eval(f"x {symbol} y", {}, {"x": x, "y": y})
    x, y = (integers(low=0), integers(low=1, seed=1)) if symbol in INTEGERS else sample(name)
    expected = apply(x, y)
    for a, b in [(fg.tensor(x), fg.tensor(y)), (fg.tensor(x), y), (x, fg.tensor(y))]:
        z = apply(a, b)
        assert type(z) is fg.Tensor
        assert z.dtype == expected.dtype
        np.testing.assert_array_equal(z.numpy(), expected)
    z = x if symbol == "**" else y
    for number in (2, True) if symbol in INTEGERS else (2, 2.5, True):
        np.testing.assert_array_equal(apply(fg.tensor(z), number).numpy(), apply(z, number))
        np.testing.assert_array_equal(apply(number, fg.tensor(z)).numpy(), apply(number, z))
        assert apply(fg.tensor(z), number).dtype == apply(z, number).dtype
    if getattr(np, name)(x, y).dtype.kind == "f":
        check_grads(apply, (x, y), 2)
        check_grads(lambda x: apply(x, 2.5), (x,), 2)
        check_grads(lambda y: apply(5.2, y), (y,), 2)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
@pytest.mark.parametrize("exponent", [-2, -1, -0.5, 0, 0.5, 1, 2, 3, 2.5, np.float64(2), np.array(3)])
def test_powers_by_numbers(exponent, dtype):
    x = values((3,), 0.5, 2.0, dtype)
    expected = np.power(x, exponent)  # the operator of an old NumPy keeps float32 for np.float64(2)
    y = fg.tensor(x) ** exponent
    assert y.dtype == expected.dtype
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)
    check_grads(lambda x: x**exponent, (x.astype(np.result_type(dtype, float)),), 2)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.5, 2.0])
def test_powers_of_integers(exponent):
    x = integers(low=0)
    y = fg.tensor(x) ** exponent
    assert y.dtype == (x**exponent).dtype
    np.testing.assert_allclose(y.numpy(), x**exponent)


def test_negative_powers_of_integers_raise_as_in_numpy():
    with pytest.raises(ValueError, match="negative integer powers"):
        fg.tensor([1, 2]) ** -1


@pytest.mark.parametrize("name", ["__neg__", "__pos__", "__abs__"])
def test_operators_of_one_operand(name):
    for x in kinds().values():
        if name != "__abs__" and x.dtype.kind == "b":
            continue
        expected = getattr(x, name)()
        y = getattr(fg.tensor(x), name)()
        assert y.dtype == expected.dtype
        np.testing.assert_array_equal(y.numpy(), expected)


def test_inverted_bits():
    for x in (integers(), truths()):
        np.testing.assert_array_equal((~fg.tensor(x)).numpy(), ~x)
