"""Random programs around what kernels compute: each primitive that is emitted, fused or left to a library.

A pattern draws arguments and returns the function that is staged. It bears the name of the primitive.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from tests.compiler.drawing import COMPLEX, DTYPES, INTEGERS, PYTHON, REALS, Drawing
from tests.compiler.simplify.patterns import Pattern, factors, reduction, viewed

from fgrad import checkpoint_name
from fgrad.core.dispatch import bind
from fgrad.core.primitive import PRIMITIVES
from fgrad.ops.indices import HOLE, filled

LOWERED: dict[str, Pattern] = {}
WHOLE = [name for name, primitive in PRIMITIVES.items() if primitive.integers]
TRUTHS = [name for name, primitive in PRIMITIVES.items() if primitive.truths]
NATIVE = ("bool", *INTEGERS, "float32", "float64")
LONG = ((3,), (2, 3), (20,), (5, 18), (18, 2), (1, 3), (3, 1, 2))


def lowered(*names: str, ulp: float = 8.0, modes: tuple[str, ...] = ("plain", "special")) -> Any:
    """Return the decorator that adds a pattern of some primitives."""

    def add(draw: Any) -> Any:
        for name in names:
            LOWERED[name] = Pattern(functools.partial(draw, name), ulp, modes, mixed=False, signed=False)
        return draw

    return add


BINARY = {
    "add", "subtract", "multiply", "bitwise_and", "bitwise_or", "bitwise_xor", "maximum", "minimum", "equal",
    "not_equal", "less", "less_equal", "greater", "greater_equal", "scale", "multiply_no_nan", "floor_divide",
    "remainder", "logical_and", "logical_or", "logical_xor",
}  # fmt: skip


@lowered(*WHOLE, *TRUTHS)
def whole_numbers(name: str, d: Drawing) -> Any:
    """Draw an element-wise primitive of integers or truths, with numbers of every kind beside them."""
    shape = d.shape(LONG)
    dtype = d.dtype(("bool", "bool", *INTEGERS) if name in TRUTHS else INTEGERS)
    x, y = d.given(shape, dtype, "extreme"), d.given(shape, d.pick((dtype, d.dtype(INTEGERS))), "extreme")

    def f(*xs: Any) -> Any:
        beside = d.pick(((dtype.name,), ("python int",), ("python bool",), INTEGERS))
        second = d.pick((xs[y], d.constant(shape, beside, "extreme")))
        if name in {"floor_divide", "remainder"} and d.chance():
            return bind(name, xs[x], d.pick((1, 2, 3, 7, 2**31, True)))
        if name == "where":
            return bind("where", bind("less", xs[x], xs[y]) if d.chance() else xs[x], xs[y], second)
        if name not in BINARY:
            return bind(name, xs[x])
        return bind(name, xs[x], second) if d.chance() else bind(name, second, xs[x])

    return f


@lowered("sum", "prod", "max", "min", "nanmax", "nanmin", "mean", ulp=40.0)
def reductions(name: str, d: Drawing) -> Any:
    x = d.given(d.shape(LONG), d.dtype(NATIVE))

    def f(*xs: Any) -> Any:
        return reduction(d, xs[x], name) if xs[x].dtype.kind == "f" or name != "mean" else xs[x]

    return f


@lowered("logsumexp", "softmax", "log_softmax", ulp=40.0, modes=("plain",))
def exponentials(name: str, d: Drawing) -> Any:
    x = d.given(d.shape(LONG), d.dtype(REALS))

    def f(*xs: Any) -> Any:
        return bind(name, xs[x], axes=d.axes(xs[x].ndim) or (0,))

    return f


@lowered("layer_norm", ulp=100.0, modes=("plain",))
def norms(_: str, d: Drawing) -> Any:
    shape, dtype = d.shape(((2, 3), (5, 18), (20,), (3, 1, 2))), d.dtype(("float32", "float64"))
    rank = d.integer(1, len(shape))
    x = d.given(shape, dtype)
    weight, bias = (d.given(shape[-rank:], dtype if d.integer(0, 3) else d.dtype(REALS)) for _ in range(2))
    eps = d.pick((1e-5, 0.5, 1))

    def f(*xs: Any) -> Any:
        return bind("layer_norm", xs[x], xs[weight], xs[bias], rank=rank, eps=eps)

    return f


def template_of(d: Drawing, shape: tuple[int, ...]) -> tuple[tuple[Any, ...], list[Any]]:
    """Return an index with index arrays inside the bounds, some of which are constants."""
    template: list[Any] = []
    arrays = []
    for n in shape[: d.integer(1, len(shape))]:
        if arrays and d.chance():
            template.append(slice(None, None, d.pick((1, -1))))
        else:
            template.append(HOLE)
            arrays.append(d.places(n, inside=True))
    if len({a.shape for a in arrays}) > 1:
        count = min(a.size for a in arrays)
        arrays = [a[:count] for a in arrays]
    return tuple(template), arrays


def known_or_not(d: Drawing, array: Any) -> int:
    """Return the number of an argument that is an index array, often a constant."""
    d.inputs.append(array)
    if d.chance():
        d.known[len(d.inputs) - 1] = array
    return len(d.inputs) - 1


@lowered("gather", "scatter_add", "put", ulp=40.0)
def places(name: str, d: Drawing) -> Any:
    shape, dtype = d.shape(LONG), d.dtype(NATIVE)
    template, arrays = template_of(d, shape)
    inner = np.empty(shape, np.int8)[filled(template, arrays)].shape
    where = [known_or_not(d, a) for a in arrays]
    x, value = d.given(shape, dtype), d.given(inner, dtype)

    def f(*xs: Any) -> Any:
        js = [xs[i] for i in where]
        if name == "gather":
            return bind("gather", xs[x], *js, template=template)
        if name == "put":
            number = d.number(d.pick((dtype.name, "python int", "python float", "float64")), "plain")
            return bind("put", xs[x], d.pick((xs[value], number)), *js, template=template)
        return bind("scatter_add", xs[value], *js, template=template, shape=shape)

    return f


@lowered(
    "concatenate", "stack", "unstack", "update", "slice", "slice_backward", "reshape", "transpose",
    "broadcast_to",
)  # fmt: skip
def pieces(name: str, d: Drawing) -> Any:
    shape = d.shape(((3,), (2, 3), (18, 2), (5, 18)))
    dtypes = d.pick((("float32",), ("float64", "float32"), ("int8", "uint8"), NATIVE, (*COMPLEX, "float16")))
    given = [d.given(shape, d.dtype(dtypes)) for _ in range(3)]

    def f(*xs: Any) -> Any:
        chosen = [xs[d.pick(given)] for _ in range(d.pick((2, 3, 6, 18)))]
        if name == "concatenate":
            return bind("concatenate", *chosen, axis=d.integer(0, len(shape) - 1))
        if name == "stack":
            return bind("stack", *chosen)
        if name == "unstack":
            return list(bind("unstack", bind("negative", chosen[0]), axis=d.integer(0, len(shape) - 1)))
        index = d.index(shape)
        part = bind("slice", chosen[1], index=index)
        if name == "update":
            number = d.number(d.pick((*PYTHON[:3], *DTYPES[:10])), "plain")
            return bind("update", chosen[0], d.pick((part, number)), index=index)
        if name == "slice_backward":
            return bind("slice_backward", part, shape=shape, index=index)
        ways = (("slice", "transpose", "reshape"), ("reshape", "broadcast_to"), ("slice", "slice"))
        for kind in d.pick(ways):
            part = viewed(d, part, kind)
        return viewed(d, part, name)

    return f


@lowered("positive", "stop_gradient", "name")
def unchanged(name: str, d: Drawing) -> Any:
    x = d.given(d.shape(LONG), d.dtype(NATIVE))

    def f(*xs: Any) -> Any:
        y = bind("add", xs[x], xs[x])
        return checkpoint_name(y, "some") if name == "name" else bind(name, y)

    return f


@lowered("cumsum", "cumprod", "argmax", "argmin", ulp=40.0)
def walks(name: str, d: Drawing) -> Any:
    x = d.given(d.shape(LONG), d.dtype(NATIVE))

    def f(*xs: Any) -> Any:
        axis = d.pick((*range(xs[x].ndim), *((None,) if name.startswith("arg") else ())))
        return bind(name, xs[x], axis=axis)

    return f


@lowered("accumulate", ulp=40.0)
def runs(name: str, d: Drawing) -> Any:
    x = d.given(d.shape(LONG), d.dtype(NATIVE))
    ufunc = d.pick(("add", "multiply", "maximum", "minimum"))
    return lambda *xs: bind(name, xs[x], axis=d.pick(tuple(range(xs[x].ndim))), ufunc=ufunc)


@lowered("imag")
def nothing_imaginary(name: str, d: Drawing) -> Any:
    x = d.given(d.shape(LONG), d.dtype(NATIVE))
    return lambda *xs: bind(name, xs[x])


@lowered("winners")
def winning(name: str, d: Drawing) -> Any:
    shape = d.shape(LONG)
    template, arrays = template_of(d, shape)
    where = [known_or_not(d, a) for a in arrays]
    return lambda *xs: bind(name, *[xs[i] for i in where], template=template, shape=shape)


@lowered("argsort")
def sorts(name: str, d: Drawing) -> Any:
    x = d.given(d.shape(LONG), d.dtype(NATIVE))
    return lambda *xs: bind(name, xs[x], axis=d.pick(tuple(range(xs[x].ndim))))


@lowered("search", modes=("plain",))
def searches(name: str, d: Drawing) -> Any:
    kind = d.dtype(NATIVE)
    a, v = d.given(d.shape(LONG), kind), d.given(d.shape(), kind)
    side = d.pick(("left", "right"))
    return lambda *xs: bind(name, np.sort(xs[a].reshape(-1)), xs[v], side=side)


@lowered("contract", ulp=100.0, modes=("plain",))
def products(_: str, d: Drawing) -> Any:
    (a, b, out), _, x, y = factors(d, d.pick(((1, 2, 3, 3), (1, 3, 18))))

    def f(*xs: Any) -> Any:
        return bind("contract", xs[x], xs[y], a=a, b=b, out=out)

    return f


@lowered("cholesky", "solve_triangular", "solve", "det", "slogdet", "cofactor", ulp=200.0, modes=("plain",))
def matrices(name: str, d: Drawing) -> Any:
    """Draw factors of definite matrices, and systems of regular ones as they lie, or transposed."""
    n, dtype = d.pick((1, 2, 3, 5)), d.pick(("float32", "float64"))
    x, y = d.given((2, n, n), dtype), d.given((2, n, d.pick((1, 3))), dtype)

    def f(*xs: Any) -> Any:
        a = np.tanh(xs[x]) / (2 * n) + np.eye(n, dtype=dtype)
        turned = bind("transpose", a, axes=(0, 2, 1))
        if name == "cholesky":
            return bind("cholesky", bind("add", a, turned))
        if name == "solve":
            return bind("solve", d.pick((a, turned)), xs[y], check="")
        if name != "solve_triangular":
            found = bind(name, a)
            return found[1] if name == "slogdet" else found
        return bind("solve_triangular", d.pick((a, turned)), xs[y], lower=d.chance(), unit=d.chance())

    return f
