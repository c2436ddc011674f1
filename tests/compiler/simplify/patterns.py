"""Random programs around the pattern of each rewrite rule: what the rule looks for, and what is nearly that.

A pattern draws arguments and returns the function that is staged. It bears the name of its rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from tests.compiler.drawing import DTYPES, FULL, INTEGERS, PYTHON, REALS, Drawing

import fgrad as fg
from fgrad.core.dispatch import bind
from fgrad.ops.indices import HOLE


class Pattern(NamedTuple):
    """How programs around a rule are drawn, and what the rule promises."""

    draw: Callable[[Drawing], Any]
    ulp: float  # 0: no bit changes; else units in the last place of the largest number on the way
    modes: tuple[str, ...]  # of numbers
    mixed: bool  # whether an infinity may become NaN, as where a factor is taken out of a sum
    signed: bool  # whether zeros keep their signs


PATTERNS: dict[str, Pattern] = {}
EXACT = ("plain", "special", "extreme")
ROUNDED = ("plain", "special")


def pattern(
    *names: str, ulp: float = 0.0, modes: tuple[str, ...] = (), mixed: bool = False, signed: bool = True
) -> Any:
    """Return the decorator that adds a pattern of some rules."""

    def add(draw: Any) -> Any:
        for name in names:
            PATTERNS[name] = Pattern(draw, ulp, modes or (ROUNDED if ulp else EXACT), mixed, signed)
        return draw

    return add


# ---- elements ---------------------------------------------------------------------------------------


def factor(d: Drawing, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return a constant as rules look for it: mostly of the dtype beside it, or of Python."""
    kind = np.dtype(dtype).kind
    own = "python " + {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "complex"}[kind]
    some = d.pick(((np.dtype(dtype).name,), (own,), (own, "python int"), (*DTYPES, *PYTHON)))
    return d.constant(shape, some)


def operand(d: Drawing, xs: Any, x: Any) -> Any:
    """Return a value, or what rules look for around it."""
    if not isinstance(x, fg.Tensor):
        return x
    kind = d.pick(
        ("x", "negative", "multiply", "multiply", "divide", "even", "where", "constant", "broadcast")
    )
    if kind == "negative":
        return bind("negative", x)
    if kind == "multiply":
        pair = [x, factor(d, x.shape, x.dtype)]
        return bind("multiply", *(pair if d.chance() else pair[::-1]))
    if kind == "divide":
        return bind("divide", x, factor(d, x.shape, x.dtype))
    if kind == "even":
        return bind(d.pick(("absolute", "square", "exp", "fabs")), x)
    if kind == "where":
        pair = [x, d.pick((0, 0.0, factor(d, x.shape, x.dtype)))]
        return bind("where", bind("equal", x, xs[0]), *(pair if d.chance() else pair[::-1]))
    if kind == "constant":
        return factor(d, x.shape, x.dtype)
    return bind("broadcast_to", x, shape=(2, *x.shape)) if kind == "broadcast" else x


def pair(d: Drawing, *, alike: float = 0.8) -> tuple[int, int]:
    """Draw two arguments that broadcast, often of one shape and dtype."""
    shape, dtype = d.shape(), d.dtype()
    first = d.given(shape, dtype)
    if d.integer(0, 9) < 10 * alike:
        return first, d.given(shape, dtype)
    own = shape[d.integer(0, len(shape)) :]
    return first, d.given(own, d.dtype())


def of_elements(*roots: str) -> Callable[[Drawing], Any]:
    """Return the pattern of element-wise rows of operands that rules look for."""

    def draw(d: Drawing) -> Any:
        first, second = pair(d)

        def f(*xs: Any) -> Any:
            name = d.pick(roots)
            x = xs[first]
            y = d.pick((xs[first], xs[second]))
            a, b = operand(d, xs, x), operand(d, xs, y)
            found = [a, bind("negative", a)] if d.chance() else [a, b]
            if d.chance():
                found = [a, a if d.chance() else x]
            if d.chance():
                found.reverse()
            if d.chance():
                found = [a, factor(d, x.shape, x.dtype)] if d.chance() else [factor(d, x.shape, x.dtype), a]
            return bind(name, *found)

        return f

    return draw


pattern("algebra.addition")(of_elements("add"))
pattern("algebra.subtraction")(of_elements("subtract"))
pattern("algebra.product")(of_elements("multiply"))
pattern("algebra.quotient")(of_elements("divide"))
pattern("algebra.product_where_zero_wins", signed=False)(of_elements("scale", "multiply_no_nan"))
pattern("algebra.extremum", signed=False)(  # NumPy's fmax has zeros of either sign
    of_elements("maximum", "minimum", "fmax", "fmin")
)


def of_one(*roots: str) -> Callable[[Drawing], Any]:
    """Return the pattern of element-wise rows of one operand that rules look for."""

    def draw(d: Drawing) -> Any:
        first, _ = pair(d)

        def f(*xs: Any) -> Any:
            x = xs[first]
            for _ in range(2):
                x = operand(d, xs, x)
            return bind(d.pick(roots), x)

        return f

    return draw


pattern("algebra.negation")(of_one("negative"))
pattern("algebra.nothing")(of_one("positive", "stop_gradient", "conjugate", "real"))
pattern("algebra.finiteness")(of_one("isfinite", "isnan", "isinf"))


@pattern("algebra.even")
def evens(d: Drawing) -> Any:
    x = d.given(d.shape(), d.dtype((*REALS, *DTYPES)))

    def f(*xs: Any) -> Any:
        roots = ("square", "absolute", "fabs")
        return bind(d.pick(roots), bind(d.pick(("negative", "negative", *roots)), xs[x]))

    return f


@pattern("algebra.inversion")
def inversions(d: Drawing) -> Any:
    x = d.given(d.shape(), d.dtype(("bool", "bool", *INTEGERS)))

    def f(*xs: Any) -> Any:
        return bind("invert", bind(d.pick(("invert", "positive", "logical_not")), xs[x]))

    return f


@pattern("algebra.power", ulp=4.0)
def powers(d: Drawing) -> Any:
    x = d.given(d.shape(), d.dtype())

    def f(*xs: Any) -> Any:
        shape, dtype = xs[x].shape, xs[x].dtype
        own = d.pick(((dtype.name,), ("python int",), ("python float",), (*DTYPES, *PYTHON)))
        c = d.constant(shape, own)
        whole = d.pick((0, 1, 2, 3, -1))
        if d.chance():
            c = dtype.type(whole) if d.chance() else whole
        return bind("power", xs[x], c)

    return f


def truth(d: Drawing, x: Any) -> Any:
    """Return a condition, known or not, of any dtype."""
    kind = d.pick(("x", "not", "not not", "equal", "constant"))
    if kind == "constant":
        return d.constant(x.shape, d.pick((("bool", "python bool"), (*DTYPES, *PYTHON))))
    if kind == "equal":
        return bind("equal", x, 1)
    for _ in kind.split() if kind != "x" else ():
        x = bind("logical_not", x)
    return x


def of_truths(*roots: str) -> Callable[[Drawing], Any]:
    """Return the pattern of rows of truths, or of numbers taken as such."""

    def draw(d: Drawing) -> Any:
        first, second = pair(d)

        def f(*xs: Any) -> Any:
            a, b = truth(d, xs[first]), truth(d, d.pick((xs[first], xs[second])))
            name = d.pick(roots)
            return bind(name, a) if name == "logical_not" else bind(name, a, a if d.chance() else b)

        return f

    return draw


pattern("algebra.connection")(of_truths("logical_and", "logical_or"))
pattern("algebra.denial")(of_truths("logical_not"))


@pattern("algebra.choice")
def choices(d: Drawing) -> Any:
    first, second = pair(d, alike=0.7)

    def f(*xs: Any) -> Any:
        x, y = xs[first], xs[second]
        condition = truth(d, x)

        def arm(v: Any) -> Any:
            return d.pick((v, v, x, factor(d, v.shape, v.dtype), d.number("python float"), 2))

        a, b = arm(x), arm(y)
        if d.chance():
            inner = bind("where", condition, arm(x), arm(y))
            a, b = (inner, b) if d.chance() else (a, inner)
        if d.chance():
            condition = bind("logical_not", condition)
        return bind("where", condition, a, b)

    return f


# ---- operands ---------------------------------------------------------------------------------------


def reduction(d: Drawing, x: Any, *names: str) -> Any:
    floats = x.dtype.kind in "fc"
    return bind(d.pick([n for n in names if floats or n != "mean"]), x, axes=d.axes(x.ndim))


@pattern("operands.known", ulp=4.0, mixed=True)
def known(d: Drawing) -> Any:
    x = d.given((), "float64")
    first, second = (d.fixed(d.shape(), d.dtype()) for _ in range(2))

    def f(*xs: Any) -> Any:
        c = xs[first]
        kind = d.pick(("unary", "binary", "view", "convert", "reduce"))
        if kind == "unary":
            made = bind(
                d.pick(("negative", "square", "sqrt", "absolute", "logical_not", "isnan", "reciprocal")), c
            )
        elif kind == "binary":
            name = d.pick(
                ("add", "subtract", "multiply", "divide", "power", "maximum", "equal", "floor_divide")
            )
            made = bind(name, c, d.pick((xs[second], d.constant(c.shape))))
        elif kind == "view":
            name, params = d.pick(
                (
                    ("reshape", {"shape": (int(np.prod(c.shape, dtype=int)),)}),
                    ("transpose", {"axes": d.permutation(c.ndim)}),
                    ("broadcast_to", {"shape": (d.pick((0, 2, 2000)), *c.shape)}),
                    ("slice", {"index": d.index(c.shape)}),
                )
            )
            made = bind(name, c, **params)
        elif kind == "convert":
            made = bind("convert", c, dtype=d.dtype())
        else:
            made = reduction(d, c, "sum", "mean", "max", "prod")
        return [xs[x], made]

    return f


def spread(d: Drawing, x: Any, shape: tuple[int, ...]) -> Any:
    """Return a value, or a view of it that broadcasts with `shape`."""
    kind = d.pick(("x", "broadcast", "leading", "ones", "flat"))
    if kind == "broadcast":
        return bind("broadcast_to", x, shape=(d.pick((1, 2)), *x.shape) if d.chance() else shape)
    if kind == "leading":
        return bind("reshape", x, shape=(1, *x.shape))
    if kind == "ones":
        at = d.integer(0, x.ndim)
        return bind("reshape", x, shape=(*x.shape[:at], 1, *x.shape[at:]))
    if kind == "flat":
        return bind("reshape", x, shape=(int(np.prod(x.shape, dtype=int)),))
    return x


@pattern("operands.spread_operands", "operands.reshape_later")
def spread_operands(d: Drawing) -> Any:
    first, second = pair(d, alike=0.5)
    third = d.fixed(d.shape(), d.dtype())

    def f(*xs: Any) -> Any:
        name = d.pick(("add", "multiply", "maximum", "where", "divide", "equal", "sqrt", "negative"))
        x, y = xs[first], xs[second]
        a = spread(d, x, x.shape)
        b = d.pick((spread(d, y, x.shape), xs[third], d.constant(x.shape)))
        if name in {"sqrt", "negative"}:
            return bind(name, a)
        return bind(name, *((bind("equal", a, 0), a, b) if name == "where" else (a, b)))

    return f


# ---- views ------------------------------------------------------------------------------------------


def shapes_of(size: int) -> list[tuple[int, ...]]:
    """Return shapes of as many elements."""
    found: list[tuple[int, ...]] = [(size,), (1, size), (size, 1), (1, size, 1)]
    found += [(2, size // 2)] * (size % 2 == 0) + [()] * (size == 1) + [(3, size // 3, 1)] * (size % 3 == 0)
    return found


def viewed(d: Drawing, x: Any, *names: str) -> Any:
    """Return a view of a value."""
    kind = d.pick(names or ("reshape", "transpose", "broadcast_to", "slice"))
    if kind == "reshape":
        return bind("reshape", x, shape=d.pick(shapes_of(int(np.prod(x.shape, dtype=int)))))
    if kind == "transpose":
        return bind("transpose", x, axes=d.permutation(x.ndim))
    if kind == "slice":
        return bind("slice", x, index=d.index(x.shape))
    lead = d.pick(((), (1,), (2,), (0,)))
    return bind("broadcast_to", x, shape=(*lead, *(d.pick((1, 3, 0)) if n == 1 else n for n in x.shape)))


VIEWED = ((3,), (1,), (), (2, 3), (1, 3), (2, 1, 3), (0, 2), (4, 2))


@pattern(
    "shapes.reshape", "shapes.transpose", "shapes.broadcast", "shapes.sliced",
)  # fmt: skip
def views(d: Drawing) -> Any:
    x = d.given(d.shape(VIEWED), d.dtype(("float32", "int8")))

    def f(*xs: Any) -> Any:
        y = viewed(d, xs[x], "reshape", "broadcast_to", "transpose")
        for _ in range(d.pick((2, 3, 1))):
            y = viewed(d, y)
        return y

    return f


def slices_of(*names: str) -> Callable[[Drawing], Any]:
    """Return the pattern of slices of a view."""

    def draw(d: Drawing) -> Any:
        shape = d.shape(((3,), (1,), (2, 3), (1, 3), (2, 1, 3), (4, 2)))
        x = d.given(shape, d.dtype(("float32", "int8")))

        def f(*xs: Any) -> Any:
            y = viewed(d, xs[x], *names)
            return bind("slice", y, index=d.index(y.shape))

        return f

    return draw


pattern("through slice")(slices_of("slice"))
pattern("through broadcast_to")(slices_of("broadcast_to"))
pattern("through transpose")(slices_of("transpose"))


@pattern("through contract", ulp=20.0, modes=("plain",), mixed=True)
def slices_of_products(d: Drawing) -> Any:
    (a, b, out), _, x, y = factors(d)

    def f(*xs: Any) -> Any:
        z = bind("contract", xs[x], xs[y], a=a, b=b, out=out)
        return bind("slice", z, index=d.index(z.shape))

    return f


@pattern("shapes.convert")
def conversions(d: Drawing) -> Any:
    x = d.given(d.shape(), d.dtype())

    def f(*xs: Any) -> Any:
        y = xs[x]
        for _ in range(d.integer(1, 3)):
            y = bind("convert", y, dtype=d.dtype())
        return y

    return f


def slots(d: Drawing, shape: tuple[int, ...]) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """Return a basic index, and the shape of what it takes."""
    index = d.index(shape)
    return index, np.empty(shape, np.int8)[index].shape


def written(d: Drawing, xs: list[Any], shape: tuple[int, ...], dtype: Any) -> Any:
    """Return an array that is zero but for a part."""
    index, inner = slots(d, shape)
    value = xs[d.integer(0, len(xs) - 1)]
    size = int(np.prod(inner, dtype=int))
    count = int(np.prod(value.shape, dtype=int))
    if count < size or value.dtype != dtype:
        value = d.array(inner, dtype)
    else:
        value = bind(
            "reshape",
            bind("slice", bind("reshape", value, shape=(count,)), index=(slice(size),)),
            shape=inner,
        )
    return bind("slice_backward", value, shape=shape, index=index)


@pattern("shapes.sliced_backward", "through slice_backward")
def slices_backward(d: Drawing) -> Any:
    shape, dtype = d.shape(((3,), (2, 3), (4, 2), (1, 3))), d.dtype(("float32", "int8", "complex64"))
    given = [d.given((12,), dtype), d.fixed((12,), dtype)]

    def f(*xs: Any) -> Any:
        y = written(d, [xs[i] for i in given], shape, dtype)
        if d.chance():
            inner = y.shape
            wide = tuple(n + d.integer(0, 2) for n in inner)
            starts = [d.integer(0, w - n) for w, n in zip(wide, inner, strict=True)]
            y = bind(
                "slice_backward",
                y,
                shape=wide,
                index=tuple(slice(s, s + n) for s, n in zip(starts, inner, strict=True)),
            )
        return bind("slice", y, index=d.index(y.shape)) if d.chance() else y

    return f


@pattern("through update")
def reads_of_writes(d: Drawing) -> Any:
    shape = d.shape(((3,), (2, 3), (4, 2), (1, 3)))
    x = d.given(shape, d.dtype(("float32", "int8", "uint8", "complex64", "float64")))
    value = d.given((12,), d.dtype(("float32", "int8", "float64")))

    def f(*xs: Any) -> Any:
        index, inner = slots(d, shape)
        size = int(np.prod(inner, dtype=int))
        v = bind("reshape", bind("slice", xs[value], index=(slice(size),)), shape=inner)
        if d.chance() and inner:
            v = bind("slice", v, index=(slice(0, 1),)) if inner[0] else v
        v = d.pick((v, d.number(d.pick((*PYTHON[:3], "int8", "float32")), "plain")))
        y = bind("update", xs[x], v, index=index)
        other = index if d.chance() else d.index(shape)
        return bind("slice", y, index=other)

    return f


@pattern("shapes.concatenation", "through concatenate")
def joins(d: Drawing) -> Any:
    shape = d.shape(((3,), (2, 3), (4, 2), (0, 2)))
    dtypes = d.pick((("float32",), ("float32", "float64", "int8"), ("int8", "uint8")))
    given = [d.given(shape, d.dtype(dtypes)) for _ in range(2)] + [d.fixed(shape, d.dtype(dtypes))]
    axis = d.integer(0, len(shape) - 1)

    def f(*xs: Any) -> Any:
        def piece() -> Any:
            x = xs[d.pick(given)]
            if d.chance():
                ends = slice(d.integer(0, 3), d.integer(0, 3))
                x = bind("slice", x, index=(*(slice(None),) * axis, ends))
            return x

        def whole(depth: int) -> Any:
            parts = [whole(depth - 1) if depth and d.chance() else piece() for _ in range(d.integer(1, 3))]
            return bind("concatenate", *parts, axis=axis)

        y = whole(2)
        return bind("slice", y, index=d.index(y.shape)) if d.chance() else y

    return f


@pattern("shapes.stacked", "shapes.unstacked", "through stack")
def stacks(d: Drawing) -> Any:
    shape = d.shape(((), (2,), (2, 3)))
    dtypes = d.pick((("float32",), ("float32", "float64", "int8"), ("int8", "uint8")))
    given = [d.given(shape, d.dtype(dtypes)) for _ in range(3)]
    whole = d.given((3, *shape), d.dtype(dtypes))

    def f(*xs: Any) -> Any:
        parts = list(bind("unstack", xs[whole], axis=0)) if d.chance() else [xs[i] for i in given]
        count = d.integer(1, 3)
        y = bind("stack", *(parts[:count] if d.chance() else d.pick((parts, parts[::-1]))))
        if d.chance():
            return list(bind("unstack", y, axis=d.integer(0, y.ndim - 1)))
        return bind("slice", y, index=d.index(y.shape)) if d.chance() else y

    return f


@pattern("through add", signed=False)
def sums_of_written(d: Drawing) -> Any:
    shape, dtype = d.shape(((3,), (2, 3), (4, 2))), d.dtype(("float32", "int8", "bool", "complex64"))
    given = [d.given((12,), dtype)]
    other = d.given(shape, dtype)

    def f(*xs: Any) -> Any:
        first = written(d, [xs[i] for i in given], shape, dtype)
        second = d.pick((xs[other], written(d, [xs[i] for i in given], shape, dtype)))
        return bind("slice", bind("add", first, second), index=d.index(shape))

    return f


@pattern("shapes.gathered_repetitions")
def gathers_what_repeats(d: Drawing) -> Any:
    shape = d.shape(((4, 3), (2, 3), (3, 2, 4), (300, 5)))
    axis = d.pick((0, len(shape) - 1))
    i, places = d.fixed(shape, d.dtype(("float64", "int8"))), d.places(shape[axis])
    template = (*[slice(None)] * axis, HOLE)

    def f(*xs: Any) -> Any:
        return bind("gather", xs[i], places, template=template)

    return f


@pattern("shapes.gathered")
def gathers(d: Drawing) -> Any:
    shape = d.shape(((4,), (3, 2), (2, 3), (1, 2), (0, 2), (300,)))
    x = d.given(shape, d.dtype(("float64", "int8")))
    kind = d.pick(("one", "two", "second"))

    def f(*xs: Any) -> Any:
        j = d.places(shape[0]) if shape[0] < 300 else wide_places(d)
        if len(shape) == 1 or kind == "one":
            return bind("gather", xs[x], j, template=(HOLE,))
        k = d.places(shape[1])
        if kind == "second":
            return bind("gather", xs[x], k, template=(slice(None), HOLE))
        return bind("gather", xs[x], j, k, template=(HOLE, HOLE))

    return f


def wide_places(d: Drawing) -> Any:
    """Return places far from each other, which differ by more than small integers hold."""
    dtype = d.dtype(INTEGERS)
    last = min(299, int(np.iinfo(dtype).max))
    found = d.pick(
        ([0, last], [last, 0], [last, last - 100, last - 200], [0, 100, 200], [last // 2, 0], [1, 0])
    )
    return np.array([i for i in found if 0 <= i <= last], dtype)


# ---- parts of arrays --------------------------------------------------------------------------------


@pattern("updates.added", ulp=8.0)
def added_parts(d: Drawing) -> Any:
    shape, dtype = (
        d.shape(((3,), (2, 3), (4, 2))),
        d.dtype(("float32", "int8", "bool", "complex64", "float16")),
    )
    given = [d.given((12,), dtype)]
    other = d.given(shape, dtype)

    def f(*xs: Any) -> Any:
        total = xs[other] if d.chance() else written(d, [xs[i] for i in given], shape, dtype)
        for _ in range(d.integer(1, 4)):
            if d.chance():
                part = written(d, [xs[i] for i in given], shape, dtype)
            else:
                k = d.integer(0, shape[0] - 1)
                value = bind(
                    "reshape",
                    bind("slice", xs[given[0]], index=(slice(0, int(np.prod(shape[1:], dtype=int))),)),
                    shape=shape[1:],
                )
                part = bind("slice_backward", value, shape=shape, index=(k,))
            total = bind("add", total, part) if d.chance() else bind("add", part, total)
        return total

    return f


@pattern("updates.assigned", signed=False)
def assigned_parts(d: Drawing) -> Any:
    shape = d.shape(((3,), (2, 3), (4, 2)))
    dtype = d.dtype(("float32", "int8", "uint8", "bool", "complex64", "float16"))
    x = d.given(shape, dtype)
    value = d.given((12,), dtype)
    known = d.fixed(shape, dtype)

    def f(*xs: Any) -> Any:
        y = d.pick((xs[x], xs[known]))
        number = d.number(d.pick((dtype.name, "python int", "python float", "float64")), "plain")
        if d.chance():
            y = bind("add", y, written(d, [xs[value]], shape, dtype))
        order = d.permutation(shape[0]) if d.chance() else range(shape[0])
        for k in order:
            index = (k,) if d.chance() else d.pick(((slice(k, k + 1),), (slice(k, k + 2),), d.index(shape)))
            inner = np.empty(shape, np.int8)[index].shape
            v = bind(
                "reshape",
                bind("slice", xs[value], index=(slice(0, int(np.prod(inner, dtype=int))),)),
                shape=inner,
            )
            y = bind("update", y, d.pick((v, number)), index=index)
        return y

    return f


# ---- sums and contractions --------------------------------------------------------------------------


@pattern("reductions.repeated", ulp=40.0, mixed=True)
def repeated(d: Drawing) -> Any:
    x = d.given(d.shape(((3,), (1,), (), (2, 3), (1, 3), (2, 1))), d.dtype())
    known = d.fixed(d.shape(), d.dtype())

    def f(*xs: Any) -> Any:
        v = xs[d.pick((x, known))]
        wide = tuple(d.pick((1, 3)) if n == 1 else n for n in v.shape)
        y = bind("broadcast_to", v, shape=(*d.pick(((), (2,), (1,), (300,))), *wide))
        return reduction(d, y, "sum", "sum", "mean", "max", "min")

    return f


@pattern("reductions.summed", ulp=40.0)
def sums(d: Drawing) -> Any:
    shape, dtype = d.shape(VIEWED), d.dtype()
    x, y = d.given(shape, dtype), d.given(shape, dtype)
    part = d.given((12,), dtype)

    def f(*xs: Any) -> Any:
        kind = d.pick(("sum", "transpose", "reshape", "slice_backward", "concatenate", "x"))
        v = xs[x]
        if kind == "sum":
            v = bind("sum", v, axes=d.axes(v.ndim))
        elif kind == "transpose":
            v = bind("transpose", v, axes=d.permutation(v.ndim))
        elif kind == "reshape":
            v = bind("reshape", v, shape=d.pick(shapes_of(int(np.prod(shape, dtype=int)))))
        elif kind == "slice_backward":
            v = written(d, [xs[part]], d.pick(((3,), (2, 3), (4, 2))), dtype)
        elif kind == "concatenate" and shape:
            v = bind("concatenate", v, xs[y], v, axis=d.integer(0, len(shape) - 1))
        return bind("sum", v, axes=d.axes(v.ndim))

    return f


HUGE = ("plain", "special", "huge")


@pattern("reductions.scaled", ulp=40.0, modes=HUGE)
def scaled(d: Drawing) -> Any:
    shape, dtype = d.shape(FULL), d.dtype((*REALS, *REALS, *DTYPES))
    x = d.given(shape, dtype)

    def f(*xs: Any) -> Any:
        v = xs[x]
        if d.integer(0, 3) == 0:
            v = bind("negative", v)
        else:
            c = factor(d, shape, dtype)
            name = d.pick(("multiply", "divide"))
            v = bind(name, v, c) if d.chance() else bind(name, c, v)
        return reduction(d, v, "sum", "mean")

    return f


def letters(d: Drawing) -> tuple[str, str, str]:
    """Return subscripts of a contraction."""
    shared, summed, rows, columns = (
        c[: d.integer(0, n)] for c, n in (("ab", 1), ("ij", 2), ("pq", 2), ("uv", 2))
    )
    return tuple(
        "".join(v[i] for i in d.permutation(len(v)))
        for v in (shared + rows + summed, shared + summed + columns, shared + rows + columns)
    )  # type: ignore[return-value]


def factors(
    d: Drawing, sizes: tuple[int, ...] = (1, 2, 3, 3)
) -> tuple[tuple[str, str, str], dict[str, int], int, int]:
    """Draw a contraction and its operands."""
    a, b, out = letters(d)
    lengths = {c: d.pick(sizes) for c in a + b}
    if d.integer(0, 9) == 0 and lengths:
        lengths[d.pick(sorted(lengths))] = 0
    dtype = d.dtype()
    same = d.integer(0, 3) > 0
    x = d.given(tuple(lengths[c] for c in a), dtype)
    y = d.given(tuple(lengths[c] for c in b), dtype if same else d.dtype())
    return (a, b, out), lengths, x, y


def repeats(d: Drawing, x: Any) -> Any:
    """Return a value of the same shape that repeats elements, or a view or a multiple of another one."""
    kind = d.pick(("x", "broadcast", "transpose", "negative", "multiply", "divide", "constant"))
    if kind == "broadcast" and d.mode != "huge":  # sums of what is not known may overflow
        kept = d.axes(x.ndim)
        small = bind(
            "slice", x, index=tuple(slice(None) if i in kept else slice(0, 1) for i in range(x.ndim))
        )
        return bind("broadcast_to", small, shape=x.shape) if 0 not in x.shape else x
    if kind == "transpose":
        axes = d.permutation(x.ndim)
        moved = bind("reshape", x, shape=tuple(x.shape[i] for i in axes))
        return bind("transpose", moved, axes=tuple(int(i) for i in np.argsort(axes)))
    if kind == "negative":
        return bind("negative", x)
    if kind == "constant":
        made = d.constant(x.shape)
        return np.broadcast_to(np.asarray(made), x.shape)
    return bind(kind, x, factor(d, x.shape, x.dtype)) if kind in {"multiply", "divide"} else x


@pattern("reductions.contracted", ulp=100.0, modes=("plain", "huge"), mixed=True)
def contractions(d: Drawing) -> Any:
    (a, b, out), _, x, y = factors(d)

    def f(*xs: Any) -> Any:
        first, second = repeats(d, xs[x]), repeats(d, xs[y])
        z = bind("contract", first, second, a=a, b=b, out=out)
        return bind("transpose", z, axes=d.permutation(z.ndim)) if d.chance() else z

    return f


@pattern("reductions.weighted", ulp=200.0, modes=("plain",), mixed=True)
def weighted(d: Drawing) -> Any:
    a, b, out = d.pick(
        (("ij", "jk", "ik"), ("ij", "kj", "ki"), ("aij", "jk", "aik"), ("i", "j", "ij"), ("ai", "aj", "aij"))
    )
    lengths = {c: d.pick((1, 3, 5)) for c in a + b}
    dtype = d.dtype((*REALS, *REALS, "int8", "complex64"))
    x, y = (d.given(tuple(lengths[c] for c in v), dtype) for v in (a, b))
    shape = tuple(lengths[c] for c in out)
    own = tuple(n if d.chance() else 1 for n in shape[d.integer(0, len(shape)) :])
    w = d.given(own, dtype if d.integer(0, 3) else d.dtype())

    def f(*xs: Any) -> Any:
        z = bind("contract", xs[x], xs[y], a=a, b=b, out=out)
        pair = (z, xs[w]) if d.chance() else (xs[w], z)
        return bind("sum", bind("multiply", *pair), axes=d.axes(len(shape)))

    return f


# ---- equal equations, equations that nobody needs ---------------------------------------------------

EQUAL = (
    0,
    0.0,
    -0.0,
    False,
    1,
    1.0,
    True,
    np.float32(1),
    np.int8(1),
    np.float64(-0.0),
    np.nan,
    np.float32(np.nan),
)


@pattern("sharing")
def repetitions(d: Drawing) -> Any:
    """Draw equations that differ by little: the dtype of a constant, the sign of a zero, a parameter."""
    shape = d.shape(((3,), (2, 3), (3, 3)))
    x, y = d.given(shape, d.dtype(("float32", "float64", "int8"))), d.given(shape, d.dtype(DTYPES))

    def one(xs: Any) -> Any:
        kind = d.pick(("number", "both", "array", "sum", "slice", "reshape", "convert"))
        v = d.pick((xs[x], xs[y]))
        if kind == "number":
            pair = (v, d.pick(EQUAL))
            name = d.pick(("add", "multiply", "subtract", "power"))
            return bind(name, *(pair if d.chance() else pair[::-1]))
        if kind == "both":
            name = d.pick(("add", "multiply", "subtract", "divide", "maximum"))
            return bind(name, *d.pick(((xs[x], xs[y]), (xs[y], xs[x]), (v, v))))
        if kind == "array":
            c = np.full(shape, d.pick(EQUAL))
            return bind("add", v, d.pick((c, c.copy(), c.T.copy().T, np.broadcast_to(c[:1], shape), c[:1])))
        if kind == "sum":
            return bind("sum", v, axes=d.pick(((0,), (), tuple(range(len(shape))))))
        if kind == "slice":
            return bind("slice", v, index=d.pick(((0,), (slice(0, 1),), (slice(None),), (-1,), (None, 0))))
        if kind == "reshape":
            return bind("reshape", v, shape=d.pick(shapes_of(int(np.prod(shape)))))
        return bind("convert", v, dtype=d.dtype(("float32", "int8", "uint8", "complex64")))

    def f(*xs: Any) -> Any:
        made = [one(xs) for _ in range(d.integer(2, 8))]
        return [v for v in made if d.integer(0, 2)]

    return f
