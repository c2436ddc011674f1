"""Every primitive of the operations table, in every column: a primitive without a sample fails the suite."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import linalg, signal, special
from tests.helpers import grouped
from tests.numpy.cases import strided, values
from tests.scipy.special_cases import CASES, operands

import fgrad as fg
from fgrad.core.dispatch import binary, bind, unary
from fgrad.core.primitive import ITSELF, LARGE, PRIMITIVES
from fgrad.expr.atoms import ATOMS
from fgrad.ops.indices import HOLE
from fgrad.testing import check_primitive
from fgrad.transforms.custom import Rule

for late in dir(fg):
    getattr(fg, late)  # what is loaded when it is first asked for declares primitives too


class Sample(NamedTuple):
    """One point at which a primitive is checked."""

    primitive: str
    label: str
    args: tuple[Any, ...]
    params: Mapping[str, Any] = MappingProxyType({})
    reference: Callable[..., Any] | None = None
    order: int = 2
    stops: bool = False

    def __str__(self) -> str:
        return f"{self.primitive}-{self.label}"


FLOATS = {"float64": np.float64, "float32": np.float32}
COMPLEX = {"complex128": np.complex128, "complex64": np.complex64}


def integers(shape: Any = (2, 3), low: int = 0, high: int = 6, dtype: Any = np.int64, seed: int = 0) -> Any:
    """Return random integers below `high`."""
    return np.asarray(np.random.default_rng(seed).integers(low, high, shape), dtype)


# ---- element-wise primitives, by the domain of each argument -------------------------------------------

REAL, POSITIVE, UNIT, ABOVE, SMALL = (-2.0, 2.0), (0.5, 2.0), (-0.8, 0.8), (1.3, 3.0), (0.2, 0.8)
QUOTIENT, DIVISOR, NEGATIVE = (5.0, 5.4), (2.05, 2.25), (-5.4, -5.0)  # quotients stay away from integers

DOMAINS: dict[str, tuple[tuple[float, float], ...]] = {
    **dict.fromkeys(("positive", "negative", "square", "sin", "cos", "sinh", "cosh", "tanh", "arcsinh",
        "arctan", "erf", "erfc", "sigmoid", "softplus"), (REAL,)),
    **dict.fromkeys(("exp", "exp2", "expm1", "fabs", "absolute", "degrees", "radians", "sign", "signbit"),
        (REAL,)),
    **dict.fromkeys(("isnan", "isinf", "isfinite", "logical_not"), (REAL,)),
    **dict.fromkeys(("sqrt", "root", "cbrt", "log", "log2", "log10", "log1p", "reciprocal"), (POSITIVE,)),
    **dict.fromkeys(("arcsin", "arccos", "arctanh", "tan"), (UNIT,)),
    **dict.fromkeys(("floor", "ceil", "trunc", "rint"), ((0.6, 0.9),)),
    **dict.fromkeys(("fraction", "exponent"), ((1.2, 1.8),)),
    "arccosh": (ABOVE,),
    "spacing": ((1.2, 1.8),),
    **dict.fromkeys(("add", "subtract", "multiply", "scale", "multiply_no_nan", "arctan2", "hypot"),
        (REAL, REAL)),
    **dict.fromkeys(("maximum", "minimum", "fmax", "fmin", "logaddexp", "logaddexp2", "copysign"),
        (REAL, REAL)),
    **dict.fromkeys(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
        (REAL, REAL)),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor", "heaviside", "nextafter"), (REAL, REAL)),
    "divide": (REAL, POSITIVE),
    **dict.fromkeys(("power", "float_power"), (POSITIVE, REAL)),
    **dict.fromkeys(("remainder", "fmod", "floor_divide"), (QUOTIENT, DIVISOR)),
}  # fmt: skip

REFERENCES = {
    "root": np.sqrt,
    "scale": np.multiply,
    "multiply_no_nan": np.multiply,
    "fraction": lambda x: np.modf(x)[0],
    "exponent": lambda x: np.frexp(x)[1],
    "erf": lambda x: np.vectorize(math.erf, [x.dtype])(x),
    "erfc": lambda x: np.vectorize(math.erfc, [x.dtype])(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "softplus": lambda x: np.log1p(np.exp(x)),
}


def elementwise(name: str) -> list[Sample]:
    """Return samples of an element-wise primitive: dtypes, ranks, layouts, broadcasting, numbers."""
    domains = DOMAINS[name]
    reference = REFERENCES.get(name) or getattr(np, name)

    def point(
        shapes: Sequence[Any], dtype: Any = np.float64, change: Callable[[Any], Any] = lambda x: x
    ) -> Any:
        return tuple(
            change(values(s, *d, dtype, seed=i)) for i, (s, d) in enumerate(zip(shapes, domains, strict=True))
        )

    n = len(domains)
    points = {
        "float64": (point([(2, 3)] * n), 3),
        "float32": (point([(2, 3)] * n, np.float32), 2),
        "0-d": (point([()] * n), 2),
        "empty": (point([(0, 3)] * n), 2),
        "strided": (point([(2, 3)] * n, change=strided), 1),
        "transposed": (point([(2, 3)] * n, change=np.transpose), 1),
    }
    if n == 2:
        (x, y) = point([(2, 3), (2, 3)])
        points |= {
            "broadcast": (point([(2, 1), (3,)]), 2),
            "broadcast 0-d": (point([(), (2, 3)]), 2),
            "number on the right": ((x, float(y[0, 0])), 2),
            "number on the left": ((float(x[0, 0]), y), 2),
            "mixed dtypes": ((x, y.astype(np.float32)), 1),
        }
    holomorphic = name == "absolute" or (name in ATOMS and ATOMS[name].holomorphic)
    if holomorphic and accepts_complex(reference, n):
        points |= {label: (point([(2, 3)] * n, dtype), 2) for label, dtype in COMPLEX.items()}
    return [Sample(name, label, args, {}, reference, order) for label, (args, order) in points.items()]


def accepts_complex(reference: Any, n: int) -> bool:
    """Return whether NumPy's function has a loop for complex numbers."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reference(*[1 + 1j] * n)
    except TypeError:
        return False
    return True


def real_only(name: str) -> list[Sample]:
    """Return a complex sample of a primitive that is not holomorphic."""
    domains = DOMAINS[name]
    args = tuple(values((3,), *d, np.complex128, seed=i) for i, d in enumerate(domains))
    return [Sample(name, "complex refused", args, {}, getattr(np, name))]


BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "gcd", "lcm")


def bits(name: str) -> list[Sample]:
    """Return the samples of a primitive of integers."""
    reference = getattr(np, name)
    points = {
        "int64": (integers(seed=1), integers(seed=2)),
        "uint8": (integers(dtype=np.uint8, seed=1), integers(dtype=np.uint8, seed=2)),
        "0-d": (integers(()), integers(())),
        "empty": (integers((0,)), integers((0,))),
        "broadcast": (integers((2, 1)), integers((3,))),
        "number": (integers(), 2),
    }
    if name.startswith("bitwise"):
        points["bool"] = (values() > 0, values(seed=1) > 0)
    return [Sample(name, label, args, {}, reference) for label, args in points.items()]


def where_samples() -> list[Sample]:
    """Return the samples of `where`."""
    c, x, y = values() > 0, values(seed=1), values(seed=2)
    points = {
        "float64": (c, x, y),
        "float32": (c, x.astype(np.float32), y.astype(np.float32)),
        "complex": (c, x + 1j, y - 2j),
        "broadcast": (c[:, :1], x[0], np.array(2.0)),
        "number": (c, x, 0),
        "0-d": (np.array(True), np.array(1.0), np.array(2.0)),
        "empty": (c[:0], x[:0], y[:0]),
        "condition of floats": (x, x, y),
    }
    return [Sample("where", k, args, {}, np.where, 3 if k == "float64" else 2) for k, args in points.items()]


# ---- the other families: (primitive, arguments, parameters, what NumPy does) ---------------------------


def with_dtypes(
    primitive: str,
    reference: Callable[..., Any] | None,
    *shapes: Any,
    low: float = -2.0,
    high: float = 2.0,
    complex_too: bool = True,
    label: str = "",
    **params: Any,
) -> list[Sample]:
    """Return samples of a primitive at random arrays of `shapes`, one per dtype."""
    dtypes = FLOATS | (COMPLEX if complex_too else {})
    return [
        Sample(primitive, f"{label or shapes} {name}",
            tuple(values(s, low, high, dtype, seed=i) for i, s in enumerate(shapes)), params, reference)
        for name, dtype in dtypes.items()
    ]  # fmt: skip


def linear() -> list[Sample]:
    """Return the samples of linear primitives."""
    f64, f32, c128, i64 = map(np.dtype, ("d", "f", "D", "l"))
    found = []
    for shape, new in [((2, 3), (3, 2)), ((2, 3), (6,)), ((), (1, 1)), ((0, 3), (3, 0, 2)), ((1,), ())]:
        label = f"{shape} to {new}"
        found += with_dtypes("reshape", lambda x, new=new: np.reshape(x, new), shape, shape=new, label=label)
    for shape, axes in [((2, 3), (1, 0)), ((2, 3, 4), (2, 0, 1)), ((), ()), ((0, 3), (1, 0)), ((2,), (0,))]:
        found += with_dtypes("transpose", lambda x, axes=axes: np.transpose(x, axes), shape, axes=axes)
    for shape, shifts, axes in [((5,), (2,), (0,)), ((2, 3), (1, 2), (0, 1)), ((2, 0, 3), (1,), (2,))]:
        found += with_dtypes(
            "roll", lambda x, k=shifts, i=axes: np.roll(x, k, i), shape, shifts=shifts, axes=axes
        )
    for shape, new in [((3,), (2, 3)), ((2, 1), (2, 3)), ((), (2,)), ((1, 3), (0, 3)), ((2, 3), (2, 3))]:
        found += with_dtypes(
            "broadcast_to",
            lambda x, new=new: np.broadcast_to(x, new),
            shape,
            shape=new,
            label=f"{shape} to {new}",
        )
    for shape, axes in [
        ((2, 3), (0,)),
        ((2, 3), (0, 1)),
        ((2, 3), ()),
        ((), ()),
        ((0, 3), (0,)),
        ((2, 3, 4), (0, 2)),
    ]:
        found += with_dtypes(
            "sum", lambda x, axes=axes: np.sum(x, axes), shape, axes=axes, label=f"{shape} over {axes}"
        )
        if shape != (0, 3):
            found += with_dtypes(
                "mean", lambda x, axes=axes: np.mean(x, axes), shape, axes=axes, label=f"{shape} over {axes}"
            )
            found += with_dtypes(
                "centered",
                lambda x, axes=axes: x - np.mean(x, axes, keepdims=True),
                shape,
                axes=axes,
                label=f"{shape} over {axes}",
            )
    found += [
        Sample("sum", "int", (integers(),), {"axes": (0,)}, lambda x: np.sum(x, 0)),
        Sample("sum", "int8", (integers(dtype=np.int8),), {"axes": (0,)}, lambda x: np.sum(x, 0)),
        Sample("sum", "uint8", (integers(dtype=np.uint8),), {"axes": (0,)}, lambda x: np.sum(x, 0)),
        Sample("sum", "bool", (values() > 0,), {"axes": (1,)}, lambda x: np.sum(x, 1)),
        Sample("sum", "strided", (strided(values()),), {"axes": (1,)}, lambda x: np.sum(x, 1)),
    ]
    for x in (values(), values(dtype=f32), integers(), values() > 0, values(()), values((0, 2))):
        for dtype in (f64, f32, c128, i64, np.dtype(bool)):
            found.append(
                Sample(
                    "convert",
                    f"{x.dtype}{x.shape} to {dtype}",
                    (x,),
                    {"dtype": dtype},
                    lambda x, d=dtype: x.astype(d),
                )
            )
    for dtype in (f64, f32, c128, np.dtype(np.complex64)):
        reference = lambda x, d=dtype: (x if d.kind == "c" else x.real).astype(d)
        found.append(
            Sample("convert", f"complex to {dtype}", (values(dtype=c128),), {"dtype": dtype}, reference)
        )
    for shape in [(2, 3), (), (0, 3)]:
        found += with_dtypes("real", np.real, shape) + with_dtypes("imag", np.imag, shape)
        found += with_dtypes("conjugate", np.conjugate, shape)
    for shape, axis in [((2, 3), 0), ((2, 3), 1), ((0, 3), 0), ((4,), 0)]:
        found += with_dtypes(
            "cumsum", lambda x, axis=axis: np.cumsum(x, axis), shape, axis=axis, label=f"{shape} along {axis}"
        )
    found += [
        Sample("cumsum", "int8", (integers(dtype=np.int8),), {"axis": 0}, lambda x: np.cumsum(x, 0)),
        Sample("cumsum", "uint8", (integers(dtype=np.uint8),), {"axis": 0}, lambda x: np.cumsum(x, 0)),
        Sample("cumsum", "bool", (values() > 0,), {"axis": 0}, lambda x: np.cumsum(x, 0)),
    ]
    for shapes, axis in [
        ([(2, 3), (1, 3)], 0),
        ([(2, 3), (2, 1), (2, 2)], 1),
        ([(0,), (2,)], 0),
        ([(3,)], 0),
    ]:
        found += with_dtypes(
            "concatenate", lambda *xs, axis=axis: np.concatenate(xs, axis), *shapes, axis=axis
        )
    mixed = (values((2,)), values((3,), dtype=f32), integers((1,)))
    found.append(Sample("concatenate", "mixed dtypes", mixed, {"axis": 0}, lambda *xs: np.concatenate(xs)))
    for shape in [(), (3,), (2, 0)]:
        found += with_dtypes("stack", lambda *xs: np.stack(xs), shape, shape, shape, label=str(shape))
    found.append(Sample("name", "matrix", (values((2, 3)),), {"label": "mine"}, lambda x: x))
    stays = {"device": "cpu", "source": "cpu"}  # devices have tests of their own: tests/backend
    # formats of more bits than the dtypes have, for which the operation is linear
    wide = {"exponent_bits": 11, "mantissa_bits": 52}
    found += with_dtypes("reduce_precision", lambda x: x, (2, 3), complex_too=False, **wide)
    found += with_dtypes("to_device", lambda x: x, (2, 3), label="stays", **stays)
    found += with_dtypes("staged_to_device", lambda x: x, (2, 3), label="stays", device="cpu")
    found += with_dtypes("to_device_of", lambda x, like: x, (2, 3), (4,), label="stays")
    return found


def indexing() -> list[Sample]:
    """Return the samples of slices, gathers and their adjoints."""
    found = []
    everything = slice(None)
    for shape, index in [
        ((3, 4), (1,)),
        ((3, 4), (slice(1, None), slice(None, None, -2))),
        ((3, 4), (..., -1)),
        ((3, 4), (None, slice(0, 2), None)),
        ((3, 4), (2, 1)),
        ((3,), (slice(3, 3),)),
        ((), (None,)),
        ((0, 4), (everything, 1)),
    ]:
        found += with_dtypes(
            "slice", lambda x, index=index: x[index], shape, index=index, label=f"{shape} {index}"
        )

        def slice_backward(x, shape=shape, index=index):
            out = np.zeros(shape, x.dtype)
            out[index] = x
            return out

        inner = np.zeros(shape)[index].shape
        found += with_dtypes(
            "slice_backward", slice_backward, inner, shape=shape, index=index, label=f"{shape} {index}"
        )

        def update(x, value, index=index):
            out = x.copy()
            out[index] = value
            return out

        found += with_dtypes("update", update, shape, inner, index=index, label=f"{shape} {index}")
        found += with_dtypes("update", update, shape, (), index=index, label=f"{shape} {index} by one number")
    for dtype in (np.complex128, np.complex64):
        for imaginary in (False, True):
            for shape in ((2, 3), (), (0,)):
                z, part = values(shape, dtype=dtype), values(shape, dtype=dtype, seed=1).real

                def put_part(z, part, imaginary=imaginary):
                    out = z.copy()
                    setattr(out, "imag" if imaginary else "real", part)
                    return out

                label = f"{np.dtype(dtype)} {shape} {imaginary}"
                found.append(Sample("put_part", label, (z, part), {"imaginary": imaginary}, put_part))
    found.append(Sample("update", "integers", (integers(), np.array(7)), {"index": (0,)}))
    found.append(
        Sample("update", "leading ones", (values((3, 2)), values((1, 1, 2))), {"index": (slice(0, 2),)})
    )
    found += [
        Sample("unstack", f"axis {axis}", (values((2, 3)),), {"axis": axis},
            lambda x, axis=axis: tuple(np.moveaxis(x, axis, 0)))
        for axis in (0, 1)
    ]  # fmt: skip
    i, j = np.array([0, 2, 2, 1]), np.array([[1], [0]])
    for label, shape, template, arrays in [
        ("vector", (4,), (HOLE,), [i]),
        ("first axis", (4, 3), (HOLE,), [i]),
        ("last axis", (2, 4), (slice(None), HOLE), [i]),
        ("two arrays", (4, 3), (HOLE, HOLE), [i, np.array([0, 1, 1, 2])]),
        ("broadcast arrays", (4, 3), (HOLE, HOLE), [i, j]),
        ("apart", (4, 2, 3), (HOLE, slice(None), HOLE), [i, np.array([0, 1, 1, 2])]),
        ("with an integer", (4, 2, 3), (HOLE, 1), [i]),
        ("integer apart", (4, 2, 3), (1, slice(None), HOLE), [i[:1]]),
        ("behind a slice and None", (2, 4, 3), (slice(1, None), None, HOLE), [i]),
        ("ellipsis", (2, 4, 3), (..., HOLE), [np.array([0, 2])]),
        ("ellipsis first", (2, 4, 3), (HOLE, ..., HOLE), [np.array([0, 1]), np.array([0, 2])]),
        ("matrix of places", (4,), (HOLE,), [j]),
        ("no places", (4,), (HOLE,), [np.zeros(0, int)]),
        ("0-d places", (4, 2), (HOLE,), [np.array(2)]),
        ("negative places", (4,), (HOLE,), [np.array([-1, 0])]),
        ("broadcast arrays of distinct places", (4, 3), (HOLE, HOLE), [np.array([[1], [3]]), i[:2]]),
        ("a truth", (4, 2), (True, HOLE), [i]),
        ("a truth alone", (4, 2), (slice(None), True), []),
        ("a truth apart", (4, 2, 3), (True, slice(None), HOLE), [np.array([1, 0])]),
        ("a falsehood", (4, 2), (False, 1), []),
    ]:

        def filled(arrays, template=template):
            it = iter(arrays)
            return tuple(next(it) if part is HOLE else part for part in template)

        inner = np.zeros(shape)[filled(arrays)].shape

        def scatter_add(ct, *arrays, shape=shape, filled=filled):
            out = np.zeros(shape, ct.dtype)
            np.add.at(out, filled(arrays), ct)
            return out

        def put(x, value, *arrays, filled=filled):
            out = x.copy()
            out[filled(arrays)] = value
            return out

        for name, dtype in (FLOATS | COMPLEX).items():
            x, ct = values(shape, dtype=dtype), values(inner, dtype=dtype, seed=1)
            gather = lambda x, *arrays, filled=filled: x[filled(arrays)]
            found += [
                Sample("gather", f"{label} {name}", (x, *arrays), {"template": template}, gather),
                Sample(
                    "scatter_add",
                    f"{label} {name}",
                    (ct, *arrays),
                    {"template": template, "shape": shape},
                    scatter_add,
                ),
                *(
                    Sample(
                        primitive,
                        f"{label} unique {name}",
                        (y, *arrays),
                        {"template": template, "unique": True, **shaped},
                        once,
                    )
                    for primitive, y, shaped, once in (
                        ("gather", x, {}, gather),
                        ("scatter_add", ct, {"shape": shape}, scatter_add),
                    )
                    if label in DISTINCT
                ),
                Sample("put", f"{label} {name}", (x, ct, *arrays), {"template": template}, put),
                *(
                    [Sample("winners", label, tuple(arrays), {"template": template, "shape": shape})]
                    if name == "float64" and arrays
                    else []
                ),
                Sample(
                    "put",
                    f"{label} number {name}",
                    (x, ct.ravel()[:1].sum(), *arrays),
                    {"template": template},
                    put,
                ),
            ]
    return found


DISTINCT = {
    "broadcast arrays of distinct places",
    "integer apart",
    "ellipsis",
    "negative places",
    "no places",
}


def contraction() -> list[Sample]:
    """Return the samples of contractions."""
    found = []
    lengths = dict(zip("abcd", (2, 3, 4, 1), strict=True))
    for a, b, out in [
        ("a", "a", ""), ("a", "b", "ab"), ("a", "b", "ba"), ("ab", "b", "a"), ("a", "ab", "b"),
            ("ab", "bc", "ac"),
        ("ab", "bc", "ca"), ("ba", "bc", "ac"), ("ab", "cb", "ac"), ("ba", "cb", "ca"), ("abc", "acd", "abd"),
        ("abc", "abc", "a"), ("abc", "bc", "a"), ("abc", "cb", "a"), ("abc", "abc", "abc"),
            ("abc", "b", "cab"),
        ("abc", "bd", "dac"), ("", "", ""), ("", "ab", "ba"), ("abc", "dcb", "ad"), ("ab", "ab", ""),
        ("", "ab", "ab"), ("ab", "", "ab"), ("ab", "ab", "ba"),
    ]:  # fmt: skip
        reference = lambda x, y, text=f"{a},{b}->{out}": np.einsum(text, x, y)
        shapes = [tuple(lengths[c] for c in letters) for letters in (a, b)]
        found += with_dtypes("contract", reference, *shapes, a=a, b=b, out=out, label=f"{a},{b}->{out}")
        if "a" in a and "b" in b:
            empty = [tuple(0 if c == "b" else lengths[c] for c in letters) for letters in (a, b)]
            found += with_dtypes(
                "contract", reference, *empty, a=a, b=b, out=out, label=f"{a},{b}->{out} empty"
            )[:1]
    x, y = strided(values()), np.asfortranarray(values((3, 4)))
    found.append(Sample("contract", "strided", (x, y), {"a": "ab", "b": "bc", "out": "ac"}, np.matmul))
    x, y = integers(), values((3, 4), dtype=np.float32)
    found.append(Sample("contract", "mixed dtypes", (x, y), {"a": "ab", "b": "bc", "out": "ac"}, np.matmul))
    return found


def product_of_others(x: Any, axes: tuple[int, ...]) -> Any:
    """Return at each element the product of those that lie with it along axes, but for itself."""
    out = np.ones_like(x)
    for i in np.ndindex(*x.shape):
        for j in np.ndindex(*x.shape):
            if i != j and all(a == b for k, (a, b) in enumerate(zip(i, j, strict=True)) if k not in axes):
                out[i] *= x[j]
    return out


def reductions() -> list[Sample]:
    """Return the samples of reductions and scans."""
    found = []
    places = [((2, 3), (0,)), ((2, 3), (0, 1)), ((2, 3), ()), ((), ()), ((2, 3, 4), (0, 2)), ((0, 3), (1,))]
    for shape, axes in places:
        label = f"{shape} over {axes}"
        for name in ("max", "min", "nanmax", "nanmin"):
            reference = lambda x, name=name, axes=axes: getattr(np, name)(x, axes)
            found += with_dtypes(name, reference, shape, axes=axes, label=label)
        found += with_dtypes("prod", lambda x, axes=axes: np.prod(x, axes), shape, axes=axes, label=label)
        reference = lambda x, axes=axes: product_of_others(x, axes)
        found += with_dtypes("products_of_others", reference, shape, axes=axes, label=label)
        reference = lambda x, axes=axes: np.log(np.sum(np.exp(x), axes))
        found += with_dtypes("logsumexp", reference, shape, axes=axes, label=label, complex_too=False)
    x = values()
    x[0, 1] = x[1, 1] = x[1, 0] = 0.0
    found += [
        Sample("prod", "zeros", (x,), {"axes": (1,)}, lambda x: np.prod(x, 1)),
        Sample("prod", "zeros over all", (x,), {"axes": (0, 1)}, np.prod),
        Sample("products_of_others", "zeros", (x,), {"axes": (1,)}, lambda x: product_of_others(x, (1,))),
        Sample("prod", "over nothing", (values((0, 3)),), {"axes": (0,)}, lambda x: np.prod(x, 0)),
        Sample("prod", "int8", (integers(dtype=np.int8),), {"axes": (0,)}, lambda x: np.prod(x, 0)),
        Sample("prod", "bool", (values() > 0,), {"axes": (0,)}, lambda x: np.prod(x, 0)),
        Sample("max", "int", (integers(),), {"axes": (0,)}, lambda x: np.max(x, 0)),
        Sample("min", "uint8", (integers(dtype=np.uint8),), {"axes": (0,)}, lambda x: np.min(x, 0)),
        *(
            Sample(
                name,
                "not a number",
                (np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, -1.0]]),),
                {"axes": (1,)},
                lambda x, name=name: getattr(np, name)(x, 1),
                1,
            )
            for name in ("nanmax", "nanmin")
        ),
        Sample("max", "strided", (strided(values()),), {"axes": (1,)}, lambda x: np.max(x, 1)),
        Sample("logsumexp", "large", (values(low=800, high=801),), {"axes": (1,)}),
        Sample("cumprod", "zeros", (x,), {"axis": 1}, lambda x: np.cumprod(x, 1)),
        Sample("cumprod", "int8", (integers(dtype=np.int8),), {"axis": 1}, lambda x: np.cumprod(x, 1)),
    ]
    for shape, axis in [((2, 3), 0), ((2, 3), 1), ((0, 3), 0), ((4,), 0), ((1, 3), 0)]:
        label = f"{shape} along {axis}"
        found += with_dtypes(
            "cumprod", lambda x, axis=axis: np.cumprod(x, axis), shape, axis=axis, label=label
        )
        found += with_dtypes(
            "recur", lambda a, b, axis=axis: recurrence(a, b, axis), shape, shape, axis=axis, label=label
        )
    return found


def accumulations() -> list[Sample]:
    """Return the samples of accumulations by functions of two operands."""
    found = []
    for name in ("add", "subtract", "multiply", "divide", "power", "arctan2", "hypot", "logaddexp", "maximum",
        "fmin", "copysign", "remainder"):  # fmt: skip
        complex_too = name in {"add", "subtract", "multiply", "divide", "power"}
        for shape, axis in [((4,), 0), ((2, 3), 0), ((3, 2), 1)]:
            reference = lambda x, name=name, axis=axis: getattr(np, name).accumulate(x, axis)
            found += with_dtypes("accumulate", reference, shape, low=0.6, ufunc=name, axis=axis,
                label=f"{name} {shape} along {axis}", complex_too=complex_too)  # fmt: skip
    for shape in [(1,), (0, 3), (1, 2)]:
        found += with_dtypes("accumulate", lambda x: x, shape, ufunc="hypot", axis=0, complex_too=False)
    for name, x in [("bitwise_or", integers()), ("divide", integers(low=1)), ("logical_xor", values() > 0)]:
        reference = lambda x, name=name: getattr(np, name).accumulate(x, 1)
        found.append(Sample("accumulate", name, (x,), {"ufunc": name, "axis": 1}, reference))
    steps = (values(low=0.5),), {"ufunc": "floor_divide", "axis": 0}
    return [*found, Sample("accumulate", "floor_divide", *steps)]


def recurrence(a: Any, b: Any, axis: int) -> Any:
    """Return y with y_i = a_i y_(i-1) + b_i."""
    a, b = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)
    y, rows = np.zeros(a.shape[1:], a.dtype), []
    for ai, bi in zip(a, b, strict=True):
        y = ai * y + bi
        rows.append(y)
    return np.moveaxis(np.array(rows, a.dtype).reshape(a.shape), 0, axis)


def ordering() -> list[Sample]:
    """Return the samples of primitives that give places."""
    found = []
    for name in ("argsort", "argmax", "argmin"):
        for shape, axis in [((2, 3), 0), ((2, 3), 1), ((4,), 0), ((0, 3), 1)]:
            reference = lambda x, name=name, axis=axis: getattr(np, name)(x, axis)
            found += with_dtypes(
                name, reference, shape, axis=axis, label=f"{shape} along {axis}", complex_too=False
            )
        stable = {"kind": "stable"} if name == "argsort" else {}
        ties = lambda x, name=name, stable=stable: getattr(np, name)(x, 0, **stable)
        found.append(Sample(name, "ties", (np.array([1.0, 0.0, 1.0, 0.0]),), {"axis": 0}, ties))
        rows = lambda x, name=name, stable=stable: getattr(np, name)(x, 1, **stable)
        found.append(Sample(name, "int", (integers(),), {"axis": 1}, rows))
    ties = np.round(values((3, 40)))
    ties[0, ::7], ties[1, 3], ties[2, :2] = np.nan, np.nan, [0.0, -0.0]
    for axis in (0, 1):
        stable = lambda x, axis=axis: np.argsort(x, axis, kind="stable")
        for x in (ties, ties.astype(np.float32), ties.astype(np.float16), ties[:, ::2], ties[:, :0]):
            label = f"many ties {x.dtype}{x.shape} along {axis}"
            found.append(Sample("argsort", label, (x,), {"axis": axis}, stable))
        for kind in (None, "quicksort", "heapsort"):
            found.append(
                Sample(
                    "argsort",
                    f"{kind} along {axis}",
                    (values(),),
                    {"axis": axis, "kind": kind},
                    lambda x, axis=axis: np.argsort(x, axis),
                )
            )
        for kth in (0, (0, 1), -1):
            found.append(
                Sample(
                    "argpartition",
                    f"{kth} along {axis}",
                    (values((2, 3)),),
                    {"axis": axis, "kth": kth},
                    lambda x, axis=axis, kth=kth: np.argpartition(x, kth, axis),
                )
            )
    return found


def ranked(x: Any, ranks: Any, propagate: bool = True) -> Any:
    """Return the places of elements by their rank, lane by lane."""
    order = np.argsort(x, -1, kind="stable")
    ranks = np.broadcast_to(ranks, (*x.shape[:-1], ranks.shape[-1]))
    if propagate and x.dtype.kind == "f":
        ranks = np.where(np.isnan(x).any(-1, keepdims=True), x.shape[-1] - 1, ranks)
    return np.take_along_axis(order, ranks, -1)


def searching() -> list[Sample]:
    """Return the samples of ranks, of searching in sorted lanes and of representatives."""
    found = []
    ties, few, many = np.round(values((3, 20))), np.array([3, 0, 3]), np.arange(15)
    nans = ties.copy()
    nans[1, 4] = nans[1, 7] = np.nan
    each = np.array([[0, 1], [2, 3], [19, 0]])
    for label, x, ranks in [
        ("few", ties, few), ("many", ties, many), ("few, NaN", nans, few), ("many, NaN", nans, many),
        ("vector", ties[0], few), ("vector with NaN", nans[1], few), ("float32", ties.astype("f"), few),
        ("integers", integers((3, 20)), few), ("each lane its own", nans, each), ("one element", ties[:, :1],
        np.array([0])), ("cube", values((2, 3, 4)), np.array([1, 2])), ("no lanes", ties[:0], few),
    ]:  # fmt: skip
        for propagate in (True, False):
            reference = lambda x, r, propagate=propagate: ranked(x, r, propagate)
            found.append(
                Sample("rank", f"{label} {propagate}", (x, ranks), {"propagate": propagate}, reference)
            )
    lanes, v = np.sort(values((2, 5)), 1), values((2, 3), seed=1)
    for side in ("left", "right"):
        lane = lambda a, v, side=side: np.stack([np.searchsorted(*av, side) for av in zip(a, v, strict=True)])
        line = lambda a, v, side=side: np.searchsorted(a, v, side)
        found += [
            Sample("search", f"lanes {side}", (lanes, v), {"side": side}, lane),
            Sample("search", f"vector {side}", (lanes[0], v), {"side": side}, line),
            Sample("search", f"number {side}", (lanes[0], lanes[0, 2]), {"side": side}, line),
            Sample("search", f"integers {side}", (np.arange(4), integers((2, 3))), {"side": side}, line),
            Sample("search", f"nothing {side}", (lanes[0, :0], v), {"side": side}, line),
        ]
    return found


def representatives() -> list[Sample]:
    """Return the samples of elements that stand for groups of one: what equal ones share is a convention."""
    first, group = np.array([1, 0, 2]), np.array([1, 0, 2])
    found = []
    for shape in [(3,), (3, 2)]:
        samples = with_dtypes("representative", lambda x, first, _: x[first], shape)
        found += [s._replace(args=(*s.args, first, group)) for s in samples]
    found.append(
        Sample("representative", "integers", (integers((3,)), first, group), {}, lambda x, first, _: x[first])
    )
    return found


def randomness() -> list[Sample]:
    """Return the samples of primitives that make and transform random numbers."""
    key, count = np.array([3, 2**32 - 5], np.uint32), integers((4, 2), dtype=np.uint32)
    poisson = {"method": "poisson", "names": ("lam",), "options": {}, "shape": (3,), "dtype": np.dtype("l")}
    found = [
        Sample("threefry", "one key", (key, count)),
        Sample("threefry", "many keys", (np.stack([key, key[::-1]])[:, None], count)),
        Sample("threefry", "no counter", (key, count[:0])),
        Sample("draw", "poisson", (key, integers((3,), 1, 9)), poisson),
        Sample("fitted", "int8", (integers((3,), -9, 9),), {"dtype": np.dtype(np.int8)}),
        Sample("fitted", "a number", (integers((), 1, 9),), {"dtype": np.dtype(np.uint64)}),
        Sample("require", "of nothing", (np.ones(0, bool),), {"error": "ValueError", "message": "bad"}),
    ]
    positive, shapes = values(low=0.3, high=4.0), values(low=0.4, high=5.0, seed=1)
    for name, dtype in FLOATS.items():
        x, a, b = positive.astype(dtype), shapes.astype(dtype), shapes[::-1].astype(dtype)
        found += [
            Sample("polygamma", name, (x,), {"n": 0}, lambda x: special.digamma(x)),
            Sample(
                "polygamma",
                f"second {name}",
                (x,),
                {"n": 2},
                lambda x: special.polygamma(2, x).astype(x.dtype),
            ),
            Sample("log_gamma_ratio", name, (np.log(x), a), {"index": (0,)}),
            Sample("log_gamma_ratio", f"broadcast {name}", (np.log(x), a[0]), {"index": (0,)}),
            Sample("logit_beta_ratio", name, (np.log(x), a, b), {"index": (1,)}),
            Sample("normal_between", name, (integers(high=2**52, seed=5), x - 3, x), {}),
            Sample("normal_between", f"broadcast {name}", (integers(high=2**52, seed=5), x[0] - 3, x), {}),
        ]
    return found


def factorizations() -> list[Sample]:
    """Return the samples of linear algebra; complex factors whose phase is free are tested by functions."""
    found = []

    def add(
        primitive: str, label: str, args: Any, reference: Any = None, order: int = 2, **params: Any
    ) -> None:
        found.append(Sample(primitive, label, args, params, reference, order))

    for name, dtype in (FLOATS | COMPLEX).items():
        a = values((3, 3), dtype=dtype) + 2 * np.eye(3, dtype=dtype)
        stack = values((2, 3, 3), dtype=dtype, seed=1) + 2 * np.eye(3, dtype=dtype)
        b, empty = values((3, 2), dtype=dtype, seed=2), np.zeros((0, 0), dtype)
        points = {"one": a, "stack": stack, "empty": empty, "stack of none": stack[:0]}
        if np.dtype(dtype).char in "dD":  # products of four inverses are noise in single precision
            wide = values((2, 5, 5), dtype=dtype) + 2 * np.eye(5, dtype=dtype)
            for label, x in {
                "one": wide[0],
                "stack": wide,
                "empty": empty,
                "stack of none": wide[:0],
            }.items():
                along = x[..., ::-1, :].copy(), x[..., ::-1].copy()
                add("second_minors", f"{label} {name}", (x, *along), order=1)
        for label, x in points.items():
            label = f"{label} {name}"
            hermitian = x @ np.swapaxes(x.conj(), -1, -2) + np.eye(x.shape[-1], dtype=dtype)
            add("det", label, (x,), np.linalg.det, 3 if label == "one float64" else 2)
            add("slogdet", label, (x,), lambda x: tuple(np.linalg.slogdet(x)))
            for primitive in ("cholesky", "cholesky_or_nan"):
                add(primitive, label, (hermitian,), np.linalg.cholesky)
            cofactor = lambda x: np.linalg.det(x)[..., None, None] * np.swapaxes(np.linalg.inv(x), -1, -2)
            add("cofactor", label, (x,), cofactor, 1)
            add("minors", label, (x, x[..., ::-1, :].copy()), order=1)
            if np.dtype(dtype).kind == "f":
                for uplo in "LU":
                    reference = lambda x, uplo=uplo: tuple(np.linalg.eigh(x, uplo))
                    add("eigh", f"{label} {uplo}", (hermitian,), reference, uplo=uplo)
        for label, args in {
            "one": (a, b),
            "stack": (stack, values((2, 3, 2), dtype=dtype)),
            "one matrix": (a, values((2, 3, 2), dtype=dtype)),
            "one side": (stack, b),
            "broadcast": (stack[:, None], values((1, 3, 3, 1), dtype=dtype)),
            "empty": (empty, b[:0]),
            "no columns": (a, b[:, :0]),
        }.items():
            for check in ("", "nan"):
                add("solve", f"{check} {label} {name}", args, np.linalg.solve, check=check)
        for check in ("qr", "eig"):
            add("solve", f"checked {check} {name}", (a, b), np.linalg.solve, check=check)
        for shape in [(3, 3), (4, 3), (3, 4), (2, 4, 2), (0, 2), (2, 0)]:
            x, label = values(shape, dtype=dtype, seed=3), f"{shape} {name}"
            for mode in ("reduced", "complete") if shape[-2] <= shape[-1] else ("reduced",):
                reference = lambda x, mode=mode: tuple(np.linalg.qr(x, mode))
                add("qr", f"{mode} {label}", (x,), reference, mode=mode)
            params = {"rcond": np.asarray(1e-15), "hermitian": False}
            add("pinv", label, (x,), lambda x: np.linalg.pinv(x), **params)
            if np.dtype(dtype).kind == "f":
                reference = lambda x: tuple(np.linalg.svd(x, full_matrices=False))
                add("svd", label, (x,), reference, full_matrices=False)
        for primitive in ("eig", "schur"):  # every other complex result has phases
            add(primitive, f"empty {name}", (empty,))
    mask = np.array([[True, False, False], [False, True, True]])
    params = {
        "kind": "phase",
        "what": "eigenvalues",
        "both": False,
        "strict": False,
        "second": False,
        "look": True,
    }
    add(
        "guard",
        "float64",
        (values() * mask + values() * ~mask, mask, values((3,)), np.full((2, 3), 1e9)),
        **params,
    )
    return found


def scipys() -> list[Sample]:
    """Return the samples of what SciPy computes: functions of matrices, triangular systems, filters."""
    found = []

    def add(
        primitive: str, label: str, args: Any, reference: Any = None, order: int = 2, **params: Any
    ) -> None:
        found.append(Sample(primitive, label, args, params, reference, order))

    inner = (slice(None, 2),) * 2
    for name, dtype in (FLOATS | COMPLEX).items():
        order = 2 if np.dtype(dtype).char in "dD" else 1
        one, a = np.eye(3, dtype=dtype), values((3, 3), -1, 1, dtype=dtype)
        regular, b = (a / 2 + 3 * one).astype(dtype), values((3, 2), dtype=dtype, seed=2)
        for function in ("expm", "logm", "sqrtm", "power"):
            params = {
                "function": function,
                "exponent": 0.3 if function == "power" else 0.0,
                "to_complex": False,
            }
            call = partial(linalg.fractional_matrix_power, t=0.3) if function == "power" else None
            call = call or getattr(linalg, function)
            x = regular[inner]
            reference = lambda x, call=call: call(x.astype(np.result_type(x, "d"))).astype(x.dtype)
            add("matrix_function", f"{function} {name}", (x,), reference, order, **params)
            if name == "float64":
                add("matrix_function", f"{function} stack", (np.stack([x, x.T]),), order=1, **params)
                add("matrix_function", f"{function} empty", (x[None, :0, :0],), order=1, **params)
                wide = params | {"to_complex": True}
                reference = lambda x, call=call: call(x.astype(complex))
                add("matrix_function", f"{function} {name} complex", (x,), reference, **wide)
        along = a[inner].copy()
        wide = np.result_type(dtype, "d")
        reference = lambda a, e, wide=wide: linalg.expm_frechet(a.astype(wide), e, compute_expm=False).astype(
            a.dtype
        )
        add("frechet", name, (x, along), reference, order)
        add("log_frechet", name, (along, x), None, order)
        for primitive in ("regular", "regularized"):
            add(primitive, name, (along, x), lambda x, a: x, 1, function="logm")
        sides = (regular, (one + a / 4)[inner].astype(dtype), b)
        add("sylvester", name, sides, linalg.solve_sylvester, order)
        for discrete in (False, True):
            sides = [v.astype(dtype) for v in ((a / 2)[inner], b[:2, :1], one[inner] * 2, one[:1, :1])]
            call = linalg.solve_discrete_are if discrete else linalg.solve_continuous_are
            reference = lambda *xs, call=call: call(*xs).astype(xs[0].dtype)
            add("riccati", f"{discrete} {name}", tuple(sides), reference, order, discrete=discrete)
        add("polar", name, (regular,), linalg.polar, order)
        add("polar", f"tall {name}", (b,), linalg.polar, order)
        if np.dtype(dtype).kind == "f":
            apart = (a[::-1] / 8 + np.diag([4, 2, 1])).astype(dtype)  # of which signs are those of float64
            add("schur", name, (apart,), linalg.schur, order)
            add("schur", f"stack {name}", (np.stack([apart, apart / 2]),), None, order)
        for lower in (False, True):
            for unit in (False, True):
                reference = partial(linalg.solve_triangular, lower=lower, unit_diagonal=unit)
                add("solve_triangular", f"{lower} {unit} {name}", (regular, b), reference, order, lower=lower,
                    unit=unit)  # fmt: skip
            hermitian = (a + a.conj().T).astype(dtype)
            hermitian[0, 0] = hermitian[1, 1] = 0.01  # so that there is a block of two
            reference = lambda a, lower=lower: linalg.ldl(a, lower)
            add("ldl", f"{lower} {name}", (hermitian,), reference, order, lower=lower, hermitian=True)
        bands = values((4, 3), dtype=dtype, seed=5)
        bands[2] += 4
        reference = lambda ab, b: linalg.solve_banded((1, 2), ab, b)
        add("solve_banded", name, (bands, b), reference, order, below=1, above=2)
        for shape in [(3, 3), (4, 2), (2, 4), (2, 2, 2), (0, 2)]:
            add("lu_factor", f"{shape} {name}", (values(shape, dtype=dtype, seed=4),), None, order)
        recursion = lambda a, u: signal.lfilter(np.ones(1, a.dtype), np.r_[np.ones(1, a.dtype), a], u)
        factors = values((2,), -0.5, 0.5, dtype=dtype, seed=6)
        add("recursion", name, (factors, values((2, 5), dtype=dtype)), recursion, order)
        add("recursion", f"short {name}", (factors, values((1,), dtype=dtype)), recursion, order)
        for mode in ("mirror", "reflect", "grid-wrap"):
            for degree in (2, 3) if name == "float64" else (5,):
                params = {"degree": degree, "mode": mode}
                for n in (1, 6, 30) if name == "float64" else (6,):
                    label, lines = f"{degree} {mode} {n} {name}", values((2, n), dtype=dtype)
                    add("spline_filter", label, (lines,), None, 1, **params)
    symmetric = values((3, 3), dtype=np.complex128)
    add("ldl", "symmetric", (symmetric + symmetric.T,), lower=True, hermitian=False)
    nothing = np.zeros((0, 2))
    add("solve_triangular", "empty", (nothing[:, :0], nothing), lower=True, unit=False)
    add("solve_banded", "empty", (np.zeros((3, 0)), nothing), below=1, above=1)
    add("sylvester", "empty", (nothing[:, :0], np.eye(2), nothing))
    add("frechet", "empty", (nothing[:, :0],) * 2)
    add("log_frechet", "empty", (nothing[:, :0],) * 2)
    for primitive in ("regular", "regularized"):
        add(primitive, "empty", (nothing[:, :0],) * 2, function="sqrtm")
    add("recursion", "no factors", (np.zeros(0), values((3,))), lambda a, u: u)
    add("pivot_order", "stack", (np.array([[2, 2, 2], [0, 1, 2]]),))
    return found


def transforms() -> list[Sample]:
    """Return the samples of Fourier transforms."""
    found = []
    for norm in ("backward", "ortho", "forward"):
        for shape, axis in [((4,), 0), ((5,), 0), ((1,), 0), ((3, 2), 0), ((2, 6), 1), ((0, 3), 1)]:
            n, m = shape[axis], shape[axis] // 2 + 1
            half = (*shape[:axis], m, *shape[axis + 1 :])
            given: dict[str, Any] = {"axis": axis, "norm": norm}
            label = f"{shape} along {axis} {norm}"
            for name in ("fft", "ifft", "rfft"):
                reference = partial(getattr(np.fft, name), **given)
                found += with_dtypes(name, reference, shape, complex_too=name != "rfft", label=label, **given)
            reference = partial(np.fft.irfft, n=n, **given)
            found += with_dtypes("irfft", reference, half, label=label, n=n, **given)
    found.append(Sample("rfft", "int", (integers(),), {"axis": 1, "norm": "ortho"}))
    return found


def series() -> list[Sample]:
    """Return the samples of Bessel functions, convolutions and roots."""
    found = []
    for n in range(4):
        for label, low, high in [("near zero", -0.5, 0.5), ("middle", 1.0, 6.0), ("far", 25.0, 40.0)]:
            if label == "far":
                found.append(Sample("spherical", f"{n} {label}", (values((3,), low, high),), {"n": n}))
                continue
            found += with_dtypes("spherical", None, (2, 3), low=low, high=high, label=f"{n} {label}", n=n)
            found += with_dtypes("modified", None, (2, 3), low=low, high=high, label=f"{n} {label}", n=n,
                complex_too=False)  # fmt: skip
    found += [
        Sample("spherical", "zero", (np.zeros(2),), {"n": 0}, lambda x: np.ones(2), 3),
        Sample("modified", "zero", (np.zeros(2),), {"n": 0}, lambda x: np.ones(2), 3),
        Sample("modified", "empty", (np.zeros((0, 2)),), {"n": 1}),
        Sample("modified", "both series", (np.array([29.0, 31.0]),), {"n": 1}, order=1),
        Sample("spherical", "0-d", (values(()),), {"n": 1}),
        Sample("modified", "0-d", (values(()),), {"n": 1}),
    ]
    for shape, axis in [((3,), 0), ((2, 3), 1), ((3, 4), 0), ((2, 3, 2), 1), ((0, 3), 1)]:
        found += with_dtypes("cross", partial(np.cross, axis=axis), shape, shape, axis=axis)
    found += [
        Sample("cross", "int", (integers((2, 3)), integers((2, 3), seed=1)), {"axis": 1}, np.cross),
        Sample("cross", "large", (values((1400, 3)), values((1400, 3), seed=1)), {"axis": 1}, np.cross, 1),
        Sample("cross", "mixed", (integers((2, 3)), values((2, 3))), {"axis": 1}, np.cross),
    ]
    for n, m in [(5, 3), (3, 3), (4, 1), (1, 1)]:
        for mode in ("full", "valid"):
            reference = partial(np.convolve, mode=mode)
            label = f"{n} and {m} {mode}"
            found += with_dtypes("convolve", reference, (n,), (m,), mode=mode, label=label)
    p, c = np.array([2.0, -3.0, -7.0, 1.0]), np.array([1.0, -1 - 1j, 2.0, 3 - 0.5j])
    roots = lambda p: np.roots(p).astype(np.result_type(p, np.complex64))
    for label, x in {
        "real": p,
        "float32": p.astype("f"),
        "complex": c,
        "complex64": c.astype("F"),
        "pair": np.array([1.0, 2.0, 5.0]),
    }.items():
        found.append(Sample("roots", label, (x,), {"lead": 0}, roots))
    found.append(Sample("roots", "a root zero", (np.array([1.0, -3.0, 2.0, 0.0]),), {"lead": 0}, roots))
    found.append(Sample("roots", "none", (np.array([2.0]),), {"lead": 0}, roots))
    real = np.array([1.0, 2.0]), np.array([2.0, 3.0]), np.array([1.0, -5.0, 6.0])
    found.append(Sample("simple_roots", "real", real, {}, lambda ct, r, p: ct))
    r = np.roots(p).astype(complex)
    found.append(Sample("simple_roots", "ct", (r + 1, r, p + 0j), {}, lambda ct, r, p: ct))
    return found


@pytest.mark.parametrize("shape", [(256,), (1000,), (601, 2)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_long_recurrences_run_in_blocks(shape, dtype):
    a, b = values(shape, -1.1, 1.1, dtype), values(shape, dtype=dtype, seed=1)
    a[5:20], a[300:], a[555:] = 0, a[300:] * 0.9, 1
    y = PRIMITIVES["recur"].run(a, b, axis=0)
    assert y.dtype == dtype
    np.testing.assert_allclose(y, recurrence(a, b, 0), rtol=1e-5 if dtype is np.float32 else 1e-11, atol=1e-5)


def test_long_recurrences_of_large_factors():
    a, b = np.full(300, 1e200), np.zeros(300)
    b[-3] = 1e-300
    np.testing.assert_allclose(PRIMITIVES["recur"].run(a, b, axis=0), recurrence(a, b, 0))
    a[7] = np.nan
    np.testing.assert_allclose(PRIMITIVES["recur"].run(a, b, axis=0), recurrence(a, b, 0))


class SineAndCosine(Rule):
    """A rule of a user's own with two outputs."""

    name = "sine and cosine"

    def forward(self, x):
        return [np.sin(x), np.cos(x)]

    def clone(self):
        return SineAndCosine()


def by_hand() -> list[Sample]:
    """Return the samples of primitives that no family makes."""
    rule = {"rule": SineAndCosine()}
    both = lambda x: (np.sin(x), np.cos(x))
    return [
        *(s._replace(stops=True) for s in with_dtypes("stop_gradient", lambda x: x, (2, 3))),
        Sample("stop_gradient", "int", (integers(),), {}, lambda x: x),
        *(Sample("custom", str(s), (values(s),), rule, both, stops=True) for s in [(2, 3), ()]),
    ]


ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "leaky_relu": lambda x, a: np.where(x > 0, x, a * x),
    "elu": lambda x, a: np.where(x > 0, x, a * np.expm1(x)),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "celu": lambda x, a: np.where(x > 0, x, a * np.expm1(x / a)),
    "gelu": lambda x: x * np.vectorize(math.erfc, [float])(-x / math.sqrt(2)) / 2,
    "gelu_cubic": lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "silu": lambda x: x / (1 + np.exp(-x)),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "log_sigmoid": lambda x: -np.log1p(np.exp(-x)),
    "soft_sign": lambda x: x / (1 + np.abs(x)),
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "hard_sigmoid": lambda x: np.clip((x + 3) / 6, 0, 1),
}


def activations() -> list[Sample]:
    """Return the samples of activation functions, away from their kinks."""
    found = []
    for name, f in ACTIVATIONS.items():
        reference = lambda *xs, f=f: np.asarray(f(*xs), np.result_type(*xs))
        arity = f.__code__.co_argcount
        for label, x in {
            "float64": values() * 4.1,
            "float32": values(dtype=np.float32),
            "0-d": values(()),
            "empty": values((0, 3)),
            "transposed": values().T,
        }.items():
            args = (x, values((), 0.5, 1.5, x.dtype))[:arity]
            found.append(Sample(name, label, args, {}, reference, 3 if label == "float64" else 2))
        if arity == 2:
            found.append(Sample(name, "number", (values(), 0.3), {}, reference))
            found.append(Sample(name, "one slope each", (values(), values((3,), 0.5, 1.5)), {}, reference))
    return found


def normalizations() -> list[Sample]:
    """Return the samples of softmax and layers."""
    found = []
    for shape, axes in [
        ((2, 3), (1,)),
        ((2, 3), (0,)),
        ((2, 3, 2), (0, 2)),
        ((), ()),
        ((3,), ()),
        ((0, 3), (1,)),
    ]:
        for name, change in (("softmax", lambda y: y), ("log_softmax", np.log)):

            def reference(x, axes=axes, change=change):
                y = np.exp(x)
                return np.asarray(change(y / y.sum(axes, keepdims=True)))

            label = f"{shape} over {axes}"
            found += with_dtypes(name, reference, shape, axes=axes, label=label, complex_too=False)
    for shape, rank in [((3, 4), 1), ((2, 3, 4), 2), ((4,), 1), ((0, 4), 1)]:

        def layer(x, w, b, rank=rank):
            axes = tuple(range(x.ndim - rank, x.ndim))
            return (x - x.mean(axes, keepdims=True)) / np.sqrt(
                x.var(axes, keepdims=True) + x.dtype.type(0.1)
            ) * w + b

        shapes = (shape, shape[-rank:], shape[-rank:])
        label = f"{shape} rank {rank}"
        found += with_dtypes("layer_norm", layer, *shapes, rank=rank, eps=0.1, label=label, complex_too=False)
    return found


def slow_convolve(x, w, *, stride, padding, dilation, input_dilation, groups):
    """Return the convolution of the primitive `conv`, by loops over places and windows."""
    wide = np.zeros(
        (*x.shape[:2], *((n - 1) * u + 1 + 99 * 2 for n, u in zip(x.shape[2:], input_dilation, strict=True))),
        x.dtype,
    )
    wide[
        (..., *(slice(99, 99 + (n - 1) * u + 1, u) for n, u in zip(x.shape[2:], input_dilation, strict=True)))
    ] = x
    count = [
        max(0, ((n - 1) * u + 1 + low + high - ((k - 1) * d + 1)) // s + 1)
        for n, u, (low, high), k, d, s in zip(
            x.shape[2:], input_dilation, padding, w.shape[2:], dilation, stride, strict=True
        )
    ]
    out = np.zeros((x.shape[0], w.shape[0], *count), np.result_type(x, w))
    size = w.shape[0] // groups
    for o in range(w.shape[0]):
        for c in range(w.shape[1]):
            for p in np.ndindex(*count):
                for k in np.ndindex(*w.shape[2:]):
                    at = tuple(
                        99 - low + i * s + j * d
                        for (low, _), i, s, j, d in zip(padding, p, stride, k, dilation, strict=True)
                    )
                    out[(slice(None), o, *p)] += (
                        w[(o, c, *k)] * wide[(slice(None), o // size * w.shape[1] + c, *at)]
                    )
    return out


def slow_pool(f, x, window, stride, padding, empty):
    """Return `f` of the elements of every window."""
    rank = len(window)
    space = x.shape[x.ndim - rank :]
    count = [
        (n + low + high - k) // s + 1
        for n, (low, high), k, s in zip(space, padding, window, stride, strict=True)
    ]
    out = np.zeros((*x.shape[: x.ndim - rank], *count), x.dtype)
    for p in np.ndindex(*count):
        starts = [i * s - low for i, s, (low, _) in zip(p, stride, padding, strict=True)]
        part = x[(..., *(slice(max(0, a), max(0, a + k)) for a, k in zip(starts, window, strict=True)))]
        out[(..., *p)] = f(part, axis=tuple(range(x.ndim - rank, x.ndim)), initial=empty)
    return out


def slow_adjoint(ct, other, *, shape, place, **params):
    """Return the cotangent of the operand at `place` of a convolution, an element at a time."""
    found = np.zeros(shape, np.result_type(ct, other))
    for i in np.ndindex(shape):
        one = np.zeros(shape, found.dtype)
        one[i] = 1
        operands = (other, one) if place else (one, other)
        found[i] = np.sum(ct * slow_convolve(*operands, **params))
    return found


def windows() -> list[Sample]:
    """Return the samples of convolutions and pooling."""
    found = []
    for label, shapes, params in [
        ("1-d", ((2, 1, 5), (2, 1, 3)), {}),
        ("strides", ((1, 2, 5, 4), (2, 2, 2, 3)), {"stride": (2, 3), "padding": ((1, 0), (2, 1))}),
        ("dilation", ((1, 1, 6, 5), (1, 1, 2, 2)), {"dilation": (3, 2), "padding": ((0, 1), (1, 0))}),
        (
            "input dilation",
            ((1, 2, 3), (1, 2, 2)),
            {"input_dilation": (3,), "padding": ((-2, 2),), "stride": (2,)},
        ),
        ("groups", ((2, 4, 3), (6, 2, 2)), {"groups": 2}),
        ("depthwise", ((1, 3, 2, 2), (3, 1, 2, 1)), {"groups": 3, "padding": ((1, 1), (0, 0))}),
        ("3-d", ((1, 1, 2, 3, 2), (2, 1, 2, 2, 1)), {"padding": ((1, 0), (0, 0), (0, 0))}),
        ("no examples", ((0, 1, 4), (2, 1, 2)), {}),
        ("1x1", ((1, 2, 2, 2), (3, 2, 1, 1)), {}),
    ]:
        rank = len(shapes[0]) - 2
        full = {
            "stride": (1,) * rank,
            "padding": ((0, 0),) * rank,
            "dilation": (1,) * rank,
            "input_dilation": (1,) * rank,
            "groups": 1,
            **params,
        }
        reference = partial(slow_convolve, **full)
        found += with_dtypes("conv", reference, *shapes, label=label, **full)
        outs = reference(*map(np.zeros, shapes)).shape
        for place, name in enumerate(("conv_input", "conv_kernel")):
            own, other = shapes[place], shapes[1 - place]
            slow = partial(slow_adjoint, place=place, shape=own, **full)
            found += with_dtypes(name, slow, outs, other, label=label, shape=own, **full)
    for label, shape, params in [
        ("1-d", (2, 7), {"window": (3,), "stride": (2,), "padding": ((0, 0),)}),
        ("overlapping", (1, 2, 4, 5), {"window": (3, 2), "stride": (1, 2), "padding": ((1, 2), (0, 1))}),
        ("3-d", (2, 3, 2), {"window": (1, 2, 2), "stride": (1, 1, 1), "padding": ((0, 0),) * 3}),
        ("gaps", (5,), {"window": (1,), "stride": (3,), "padding": ((0, 0),)}),
        ("empty", (0, 4), {"window": (2,), "stride": (2,), "padding": ((0, 0),)}),
    ]:
        largest = lambda x, p=params: slow_pool(np.max, x, **p, empty=-np.inf)
        total = lambda x, p=params: slow_pool(np.sum, x, **p, empty=0)
        found += with_dtypes("max_pool", largest, shape, label=label, complex_too=False, **params)
        found += with_dtypes("window_sum", total, shape, label=label, **params)
        rank = len(params["window"])
        space = shape[len(shape) - rank :]

        def spread(ct, shape=shape, total=total):
            out = np.zeros(shape, ct.dtype)
            for i in np.ndindex(shape):
                unit = np.zeros(shape)
                unit[i] = 1
                out[i] = np.sum(ct * total(unit))
            return out

        inner = total(np.zeros(shape)).shape
        found += with_dtypes("window_spread", spread, inner, label=label, space=space, **params)
    return found


COSTLY = {  # of which second derivatives and narrow dtypes are left to tests/scipy/test_special.py
    *(
        "betaincinv",
        "betainccinv",
        "btdtria",
        "btdtrib",
        "elliprj",
        "fdtr",
        "fdtrc",
        "fdtri",
        "stdtr",
        "stdtrit",
    ),
    *("gammaincinv", "gammainccinv", "chdtr", "chdtrc", "chdtri", "chdtriv", "gdtr", "gdtrc", "gdtria"),
    *("gdtrib", "gdtrix", "pdtrik", "chndtrix", "chndtrinc", "elliprg", "ellipj_cn", "ellipj_dn"),
    *("bdtr", "bdtrc", "bdtri"),  # SciPy takes no integers beside float32
}


def special_functions() -> list[Sample]:
    """Return the samples of SciPy's special functions, at the first points where mpmath checks them."""
    found = []
    for primitive, case in CASES.items():
        points = {"complex128": (case.complex, 1)} if case.complex else {}
        if case.points:
            points |= {"float64": (case.points[0], 1 if primitive in COSTLY else case.order)}
            points |= {} if primitive in COSTLY else {"float32": (case.points[0], 1)}
        for dtype, (point, order) in points.items():
            found.append(Sample(primitive, dtype, operands(primitive, point, dtype), order=order))
    for n, order in ((3, 2), (4, 1)):
        args = tuple(values((2,), 0.5, 2.0, seed=i) for i in range(n))
        params = {"powers": (0.5, 1.5, 0.5, 1.0)[:n]}
        found.append(Sample("carlson", f"{n} float64", args, params, order=order))
        found.append(Sample("carlson", f"{n} float32", tuple(x.astype("f4") for x in args), params, order=1))
    for dtype, order in (("f8", 2), ("f4", 1)):
        args = (np.array([0.7, 1.5, -2.0, 5.0], dtype), np.array([0.5, 0.3, 0.1, -2.0], dtype))
        found.append(Sample("elliptic_moment", dtype, args, {"powers": (1.0, 1.5)}, order=order))
    return found


SAMPLES = [
    *(sample for name in DOMAINS for sample in elementwise(name)),
    *(sample for name in ("sign", "rint") for sample in real_only(name)),
    *(sample for name in BITS for sample in bits(name)),
    *(Sample(name, f"integers {dtype}", (integers(low=4, dtype=dtype),
        integers(low=1, high=3, dtype=dtype)), {}, getattr(np, name))
        for name in ("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power",
        "maximum", "equal", "less") for dtype in ("i8", "i2", "u1")),
    *(Sample(name, "truth values", (values() > 0, values(seed=1) > 0), {}, getattr(np, name))
        for name in ("add", "multiply", "logical_and", "logical_or", "logical_xor", "equal", "less",
        "maximum")),
    *(Sample(name, "negative", (values((3,), *NEGATIVE), values((3,), *DIVISOR)), {}, getattr(np, name))
        for name in ("remainder", "fmod", "floor_divide")),
    Sample("power", "negative base", (values((3,), *NEGATIVE), 3.0), {}, np.power, 3),
    Sample("power", "integer exponents", (values((3,)), integers((3,), low=1)), {}, np.power),
    *(Sample("invert", str(x.dtype), (x,), {}, np.invert) for x in (integers(), integers(dtype=np.uint8),
        values() > 0)),
    *(Sample("bitwise_count", str(x.dtype), (x,), {}, np.bitwise_count) for x in (integers(low=-5),
        integers(dtype=np.uint8))),
    *(Sample("ldexp", k, args, {}, np.ldexp) for k, args in {"float64": (values(), integers()),
        "float32": (values(dtype=np.float32), integers()), "number": (values(), 2),
        "broadcast": (values((2, 1)), integers((3,))), "0-d": (values(()), integers(())),
        "empty": (values((0,)), integers((0,)))}.items()),
    *(Sample(name, "truth values and one", (values() > 0, True), {}, getattr(np, name))
        for name in ("maximum", "minimum", "logical_or", "equal", "bitwise_and")),
    *where_samples(),
    *linear(),
    *indexing(),
    *contraction(),
    *reductions(),
    *accumulations(),
    *ordering(),
    *randomness(),
    *searching(),
    *representatives(),
    *factorizations(),
    *scipys(),
    *transforms(),
    *series(),
    *activations(),
    *normalizations(),
    *windows(),
    *by_hand(),
    *special_functions(),
]  # fmt: skip

UNCHECKED = {  # not checked here, each for its reason: tests/random and tests/transforms have them
    *("log_gamma", "logit_beta"),  # a sample follows its parameters along the quantile function
    # refuse to be differentiated; see also tests/transforms, and tests/compiler/test_matrices.py
    *("discrete", "pure_callback", "qr_raw"),
    "jit",  # is any program: tests/transforms/test_jit_composition.py
    "effect",  # has no output: tests/transforms/test_callbacks.py
    *("psum", "all_gather", "psum_scatter", "ppermute"),  # in a vmap: tests/transforms/test_collectives.py
    *("transfer", "reduce", "replicate"),  # between processes: tests/distributed/
}

FLAT = {
    *("sign", "floor", "ceil", "trunc", "rint", "floor_divide", "spacing", "exponent"),
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    *("isnan", "isinf", "isfinite", "signbit", "logical_not", "logical_and", "logical_or", "logical_xor"),
    *("invert", "bitwise_count", *BITS),
    *("threefry", "draw", "winners", "fitted", "require"),
    *("argsort", "argpartition", "argmax", "argmin", "rank", "search", "pivot_order"),
    *("stop_gradient", "custom"),
    *("gammasgn", "round"),
}
UNKNOWN = {"riemann_zeta"}  # none is known, which is no zero: who asks is told so


def test_every_primitive_has_a_sample_and_every_sample_a_primitive():
    declared = {
        name for name in PRIMITIVES if "@" not in name and "." not in name
    }  # not those of tests and users
    assert declared - UNCHECKED == {s.primitive for s in SAMPLES}


def test_names_of_samples_differ():
    names = list(map(str, SAMPLES))
    assert len(set(names)) == len(names), sorted(n for n in set(names) if names.count(n) > 1)


@grouped("sample", SAMPLES, "primitive", quick=2)
def test_primitive(sample):
    """Check values, derivatives and rules of a primitive at one point."""
    check_primitive(
        sample.primitive,
        *sample.args,
        reference=sample.reference,
        order=sample.order,
        stops=sample.stops,
        **sample.params,
    )


@grouped("name", sorted({s.primitive for s in SAMPLES}), itemgetter(0))
def test_primitives_that_are_flat_are_declared_to_be(name):
    primitive = PRIMITIVES[name]
    patterns = {
        tuple(isinstance(a, np.ndarray) and a.dtype.kind in "fc" for a in s.args)
        for s in SAMPLES
        if s.primitive == name
    }
    vjps = [primitive.vjp(p) for p in patterns if any(p)]
    assert all(p is None for p in vjps) == (name in FLAT | UNKNOWN)


@pytest.mark.parametrize("name", sorted({s.primitive for s in SAMPLES} & FLAT - {"custom"}))
def test_flat_primitives_give_zero_gradients(name):
    sample = next(s for s in SAMPLES if s.primitive == name)
    where = tuple(i for i, a in enumerate(sample.args) if isinstance(a, np.ndarray) and a.dtype.kind == "f")
    if not where:
        return

    def f(*xs):
        return np.sum(bind(name, *xs, **sample.params)) * 1.0

    for i, g in zip(where, fg.grad(f, argnums=where)(*sample.args), strict=True):
        np.testing.assert_array_equal(g, np.zeros_like(sample.args[i]))


@pytest.mark.parametrize("name", DOMAINS)
def test_the_fast_path_of_eager_operators_agrees_with_bind(name):
    args = next(s.args for s in SAMPLES if s.primitive == name)
    fast, slow = partial(unary if len(args) == 1 else binary, name), partial(bind, name)
    expected = PRIMITIVES[name].run(*args)
    for f in (fast, slow):
        np.testing.assert_array_equal(f(*map(fg.tensor, args)).numpy(), expected)
    if expected.dtype.kind != "f":
        return
    where = tuple(range(len(args)))
    for a, b in zip(*(fg.grad(lambda *xs: np.sum(f(*xs)), where)(*args) for f in (fast, slow)), strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype


def works_by_element(sample: Sample) -> bool:
    """Return whether the primitive says so of the step to its first argument, and the sample can show it."""
    x = sample.args[0] if sample.args else None
    if not isinstance(x, np.ndarray) or x.dtype != np.float64 or not 2 <= x.size <= 12:
        return False
    vjp = PRIMITIVES[sample.primitive].vjp((True, *(False for _ in sample.args[1:])))
    return vjp is not None and vjp.transpose is ITSELF


@grouped("sample", [s for s in SAMPLES if works_by_element(s)], "primitive")
def test_steps_that_work_element_by_element(sample):
    """Forward mode and vmap rely on it."""
    x, *rest = sample.args
    f = lambda x: bind(sample.primitive, x, *rest, **sample.params)
    if np.shape(f(x)) == x.shape:
        jacobian = fg.jacrev(f)(x).reshape(x.size, x.size)
        assert not np.any(jacobian[~np.eye(x.size, dtype=bool)])
        loss = fg.grad(lambda x: np.sum(f(x) ** 2))
        np.testing.assert_allclose(fg.vmap(loss)(np.stack([x, x]))[1], loss(x), rtol=1e-12)


def floats(sample):
    """Return which operands are arrays of floats that have elements."""
    return [
        i for i, a in enumerate(sample.args) if isinstance(a, np.ndarray) and a.dtype.kind in "fc" and a.size
    ]


def floats_of(sample: Sample, places: Sequence[int]) -> Callable[..., list[Any]]:
    """Return the floating and complex outputs as a function of the arguments at some places."""

    def f(*xs: Any) -> list[Any]:
        filled = list(sample.args)
        for i, x in zip(places, xs, strict=True):
            filled[i] = x
        out = bind(sample.primitive, *filled, **sample.params)
        kept = out if isinstance(out, tuple) else (out,)
        return [y for y in kept if y.dtype.kind in "fc"]

    return f


ONE_BY_ONE = {"matrix_function", "frechet", "log_frechet", "riccati", "roots"}  # Python goes through a stack


def many(sample: Sample) -> int:
    """Return how many examples it takes for the largest argument to be worth compiled loops."""
    return 9 if sample.primitive in ONE_BY_ONE else LARGE // max(1, *map(np.size, sample.args)) + 1


@grouped("sample", [s for s in SAMPLES if s.primitive not in FLAT], "primitive", quick=2)
def test_large_arrays_have_the_values_and_derivatives_of_small_ones(sample):
    """Many examples at once, of large arrays, are the example: loops for large arrays are other code."""
    floats = [i for i, a in enumerate(sample.args) if isinstance(a, np.ndarray) and a.dtype.kind in "fc"]
    if not any(sample.args[i].size for i in floats):
        return

    f = floats_of(sample, floats)
    count, xs = many(sample), [sample.args[i] for i in floats]
    stacked = lambda x: np.repeat(np.asarray(x)[None], count, 0)
    with np.errstate(all="ignore"):
        values, pullback = fg.vjp(f, *xs)
        cts = [np.cos(1.0 + np.arange(y.size)).reshape(y.shape).astype(y.dtype) for y in values]
        slopes = pullback(cts)
        large_values, pullback = fg.vjp(fg.vmap(f), *map(stacked, xs))
        large_slopes = pullback(list(map(stacked, cts)))
    for large, small in zip([*large_values, *large_slopes], [*values, *slopes], strict=True):
        assert large.shape == (count, *small.shape)
        assert large.dtype == small.dtype
        room = 5e-5 if small.dtype.char in "fF" else 1e-11 if small.dtype.char in "dD" else 2e-2
        size = np.abs(small[np.isfinite(small)]).max(initial=1.0)
        np.testing.assert_allclose(large, stacked(small), rtol=room, atol=room * size)
