"""Steps of programs by family: each function looks at what there is, and returns one step as text, or None.

A new one is a function of a `Growth` with the decorator of its family; NumPy says whether its step makes
sense, so it need not be careful.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.fuzz.growing import CODES, EVERY, Growth

FAMILIES: dict[str, list[Callable[[Growth], str | None]]] = {}


def arrays(kinds: str = "biufc", *, mostly: str = "", low: int = 0) -> Callable[[Growth], str | None]:
    """Return what picks an array of some kinds of dtypes with at least `low` axes, `mostly` of some of them."""
    return lambda g: g.array(mostly if mostly and g.chance(0.75) else kinds, low=low)


def step(
    family: str, weight: int = 1, *, of: Callable[[Growth], str | None], assigns: bool = True
) -> Callable[[Any], Any]:
    """Declare a function that draws a step of a family.

    It gets the program so far, the name of an array and what NumPy has there, and returns text, several of
    which one is taken, or None.

    Args:
        family: which one.
        weight: how often it is drawn, beside the others.
        of: picks the array; where there is none, there is no step.
        assigns: whether the text is the value of a new name, and no statement.
    """

    def declare(f: Any) -> Any:
        def drawn(g: Growth) -> str | None:
            a = of(g)
            if a is None:
                return None
            made = f(g, a, g.env[a])
            text = g.one(made) if isinstance(made, list) else made
            return f"{g.fresh()} = {text}" if text and assigns else text

        FAMILIES.setdefault(family, []).extend([drawn] * weight)
        return f

    return declare


UNARY = [
    "negative",
    "positive",
    "absolute",
    "fabs",
    "square",
    "sign",
    "conjugate",
    "exp",
    "expm1",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "arctan",
    "arcsinh",
    "exp2",
    "cbrt",
    "deg2rad",
    "rad2deg",
    "floor",
    "ceil",
    "trunc",
    "rint",
    "sinc",
    "i0",
    "reciprocal",
    "sqrt",
    "log",
    "log1p",
    "log2",
    "log10",
    "arcsin",
    "arccos",
    "arctanh",
    "arccosh",
    "isnan",
    "isfinite",
    "isinf",
    "signbit",
    "logical_not",
    "real",
    "imag",
    "angle",
    "nan_to_num",
    "fix",
    "spacing",
    "invert",
    "bitwise_count",
    "iscomplex",
    "isreal",
    "isposinf",
    "isneginf",
]
SAFE = {  # of any real number
    "sqrt": "np.sqrt(np.abs({}) + 0.5)",
    "log": "np.log(np.abs({}) + 0.5)",
    "log1p": "np.log1p({} * {})",
    "log2": "np.log2({} ** 2 + 1)",
    "log10": "np.log10(np.exp({}))",
    "arcsin": "np.arcsin(np.tanh({}) / 2)",
    "arccos": "np.arccos(np.sin({}) / 2)",
    "arctanh": "np.arctanh(np.cos({}) / 2)",
    "arccosh": "np.arccosh({} ** 2 + 1.5)",
    "reciprocal": "np.reciprocal({} ** 2 + 1.0)",
}
BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "floor_divide",
    "remainder",
    "fmod",
    "power",
    "float_power",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "arctan2",
    "hypot",
    "copysign",
    "heaviside",
    "logaddexp",
    "logaddexp2",
    "nextafter",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "left_shift",
    "right_shift",
    "gcd",
    "lcm",
    "ldexp",
    "isclose",
]
SMOOTH = ["add", "subtract", "multiply", "maximum", "minimum", "arctan2", "hypot", "logaddexp", "copysign"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "&", "|", "^", "<<", ">>"]
FREQUENT = ["+", "-", "*", "*", "/"]


def partner(g: Growth, name: str) -> str:
    """Return text of something to combine with an array: another one, a number, a list, a constant."""
    v = g.env[name]
    if g.chance(0.5):
        fits = lambda w: _broadcasts(v.shape, w.shape)
        found = g.pick(fits)
        if found is not None:
            return found
    if g.chance(0.6):
        return g.literal("iifffbn" if g.chance(0.3) else "iff")
    shape = v.shape[g.integer(0, v.ndim) :]
    return constant(g, shape)


def _broadcasts(a: Any, b: Any) -> bool:
    return all(m == n or 1 in {m, n} for m, n in zip(a[::-1], b[::-1], strict=False))


def constant(g: Growth, shape: tuple[int, ...], kinds: str = "fffic") -> str:
    """Return an array or a list as text."""
    kind = (
        g.one(kinds) if g.env and any(v.dtype.kind == "c" for v in map(np.asarray, g.env.values())) else "f"
    )
    kind = "i" if g.chance(0.2) else kind
    n = int(np.prod(shape))
    if n > 40:
        return f"np.linspace(-1.0, 1.0, {n}).reshape({shape})"
    values = np.array(g.values(kind, n), {"f": "f8", "i": "i8", "c": "c16"}[kind]).reshape(shape)
    text = repr(values.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
    if g.chance(0.2) and shape:
        return text
    wanted = (
        f", np.{CODES[g.one(EVERY[1:])]}"
        if g.chance(0.15) and kind != "c" and values.min(initial=0) >= 0
        else ""
    )
    return f"np.array({text}{wanted})" if n else f"np.zeros({shape})"


@step("elementwise", 4, of=arrays("biufc", mostly="f"))
def unary(g: Growth, a: str, v: Any) -> Any:
    name = g.one(UNARY)
    if name in SAFE and g.chance(0.7):
        return SAFE[name].format(a, a)
    return f"np.{name}({a})"


@step("elementwise", 6, of=arrays())
def operator(g: Growth, a: str, v: Any) -> Any:
    b = partner(g, a)
    symbol = g.one(FREQUENT if g.chance(0.6) else OPERATORS)
    a, b = (a, b) if g.chance(0.7) else (b, a)
    if g.chance(0.1):
        return f"np.divmod({a}, {b})[{g.integer(0, 1)}]"
    return f"{a} {symbol} {b}"


@step("elementwise", 4, of=arrays())
def binary(g: Growth, a: str, v: Any) -> Any:
    name = g.one(SMOOTH if g.chance(0.5) else BINARY)
    b = partner(g, a)
    extra = ""
    if g.chance(0.1):
        extra = f", dtype=np.{CODES[g.one(EVERY)]}"
    return f"np.{name}({a}, {b}{extra})"


@step("elementwise", of=arrays())
def operator_unary(g: Growth, a: str, v: Any) -> Any:
    return [
        text.format(a)
        for text in [
            "-{}",
            "+{}",
            "abs({})",
            "~{}",
            "{}.real",
            "{}.imag",
            "np.conj({})",
            "np.round({} * 1.0, 1)",
        ]
    ]


@step("elementwise", 2, of=arrays("biufc", mostly="fc"))
def power(g: Growth, a: str, v: Any) -> Any:
    return [f"{a} ** {n}" for n in ["2", "3", "0", "1", "-1", "0.5", "2.0", "-2", "1.5", "4", "-0.5"]]


@step("elementwise", 2, of=arrays("biuf"))
def choice(g: Growth, a: str, v: Any) -> Any:
    b = partner(g, a)
    test = f"{a} {g.one(['<', '<=', '>', '>=', '==', '!='])} {g.literal('iff')}"
    return [
        f"np.where({test}, {a}, {b})",
        f"np.where({test}, {b}, np.sin({a}))",
        f"np.select([{test}], [{a}], {b})",
        f"np.select([{test}, {a} > 0], [{a} * 2, {b}])",
        f"np.clip({a}, -1, 1)",
        f"np.clip({a}, None, 0.5)",
        f"np.clip({a}, {b}, 2.0)",
        f"{a}.clip(0, 1)",
        f"np.where({a}, {a}, 1)",
        f"np.piecewise({a}, [{test}], [lambda t: t * t, lambda t: 1 - t])",
        f"np.choose(np.array(1), [{a}, {b}])",
    ]


@step("elementwise", of=arrays("f", low=1))
def ufunc_options(g: Growth, a: str, v: Any) -> Any:
    b = partner(g, a)
    mask = f"{a} > {g.literal('f')}"
    zeros = g.one([f"np.zeros_like({a})", f"{a} * 1.0"])
    return [
        f"np.add({a}, {b}, where={mask}, out={zeros})",
        f"np.multiply({a}, {b}, out={zeros})",
        f"np.sin({a}, where={mask}, out={zeros})",
        f"np.sqrt(np.abs({a}), out={zeros})",
        f"np.multiply({a}, {b}, {zeros})",
        f"np.divide({a}, {b}, out={zeros}, where={mask})",
        f"np.sin({a}, dtype=np.float64)",
        f"np.subtract({a}, {b}, dtype=np.float64, casting='unsafe')",
        f"np.modf({a})[{g.integer(0, 1)}]",
        f"np.frexp({a})[0]",
        f"np.square({a}, out={zeros})",
    ]


@step("dtypes", 3, of=arrays())
def convert(g: Growth, a: str, v: Any) -> Any:
    code = CODES[g.one(EVERY)]
    return [
        text.format(a=a, c=code)
        for text in [
            "{a}.astype(np.{c})",
            "np.asarray({a}, np.{c})",
            "np.array({a}, dtype=np.{c})",
            "np.astype({a}, np.{c})",
            "np.zeros_like({a}, dtype=np.{c})",
            "np.full_like({a}, 2, dtype=np.{c})",
            "np.{c}(2) * {a}",
            "{a} + np.{c}(1)",
            "np.result_type({a}, np.{c}).type(1) * {a}",
            "np.ones({a}.shape, np.{c}) * {a}",
        ]
    ]


@step("dtypes", 3, of=arrays())
def mixed(g: Growth, a: str, v: Any) -> Any:
    b = g.pick(lambda w: _broadcasts(v.shape, w.shape))
    name = g.one(
        [
            "add",
            "multiply",
            "true_divide",
            "floor_divide",
            "power",
            "maximum",
            "equal",
            "less",
            "hypot",
            "arctan2",
            "where",
            "stack",
            "remainder",
            "copysign",
            "logaddexp",
            "bitwise_and",
            "subtract",
            "left_shift",
            "float_power",
        ]
    )
    if name == "where":
        return f"np.where({a} != 0, {a}, {b})"
    if name == "stack":
        return f"np.concatenate([np.ravel({a}), np.ravel({b})])"
    return f"np.{name}({a}, {b})"


REDUCTIONS = [
    "sum",
    "prod",
    "mean",
    "std",
    "var",
    "max",
    "min",
    "ptp",
    "any",
    "all",
    "argmax",
    "argmin",
    "median",
    "nansum",
    "nanprod",
    "nanmean",
    "nanstd",
    "nanvar",
    "nanmax",
    "nanmin",
    "nanmedian",
    "count_nonzero",
    "average",
    "nanargmax",
]


@step("reductions", 6, of=arrays("biufc", mostly="f"))
def reduction(g: Growth, a: str, v: Any) -> Any:
    name = g.one(REDUCTIONS if g.chance(0.6) else ["sum", "mean", "max", "prod", "var"])
    axes = g.axes(v)
    if name in {"argmax", "argmin", "nanargmax"} and axes[0] == "(":
        axes = "0"
    keep = ", keepdims=True" if g.chance(0.3) else ""
    extra = ""
    if name in {"std", "var", "nanvar"} and g.chance(0.3):
        extra = ", ddof=1"
    if name in {"sum", "prod", "mean", "std", "var"} and g.chance(0.1):
        extra += f", dtype=np.{CODES[g.one(EVERY)]}"
    if name in {"sum", "max", "min", "mean", "var"} and g.chance(0.15):
        extra += f", where={a} {g.one(['>', '!='])} {g.literal('f')}" + (
            ", initial=0.5" if name[0] == "m" and name != "mean" else ""
        )
    elif name in {"sum", "prod", "max", "min"} and g.chance(0.1):
        extra += f", initial={g.one(['300', '-1', g.literal('f')])}"
    if name in {
        "sum",
        "prod",
        "mean",
        "std",
        "var",
        "max",
        "min",
        "any",
        "all",
        "argmax",
        "argmin",
    } and g.chance(0.3):
        return f"{a}.{name}(axis={axes}{keep}{extra})"
    return f"np.{name}({a}, axis={axes}{keep}{extra})"


@step("reductions", 3, of=arrays("biufc", mostly="f", low=1))
def scan(g: Growth, a: str, v: Any) -> Any:
    k = g.axis(v)
    n = v.shape[k]
    return [
        f"np.cumsum({a}, axis={k})",
        f"np.cumprod({a}, {k})",
        f"np.cumsum({a})",
        f"np.nancumsum({a}, {k})",
        f"np.diff({a}, axis={k})",
        f"np.add.accumulate({a}, {k})",
        f"np.maximum.accumulate({a}, axis={k})",
        f"np.multiply.reduce({a}, axis={k})",
        f"np.minimum.accumulate({a}, {k})",
        f"np.maximum.reduce({a}, axis={k}, keepdims=True)",
        f"np.logaddexp.reduce({a}, axis={k})",
        f"np.quantile({a}, {g.one(['0.0', '0.3', '0.5', '1.0', '[0.25, 0.75]'])}, axis={k})",
        f"np.percentile({a}, 40)",
        f"np.average({a}, axis={k}, weights=np.arange(1.0, {n + 1}))",
        f"np.trapezoid({a}, axis={k})",
        f"np.gradient({a}, axis={k})",
        f"np.linalg.norm({a})",
        f"np.linalg.norm({a}, axis={k})",
        f"np.linalg.norm({a}, {g.one(['1', 'np.inf', '3', '0'])}, {k})",
        f"np.add.reduceat({a}, [0, {max(n - 1, 0)}], axis={k})",
        f"np.subtract.outer({a}, {a})",
        f"np.cumulative_sum({a}, axis={k})",
        f"np.subtract.reduce({a}, axis={k})",
        f"np.diff({a}, n=2, axis={k})",
        f"np.ediff1d({a})",
        f"np.divide.accumulate({a} ** 2 + 1.0, {k})",
        f"np.cumulative_sum({a}, axis={k}, include_initial=True)",
        f"np.hypot.reduce({a}, axis={k})",
        f"np.maximum.outer({a}, {a})",
    ]


@step("reductions", 2, of=arrays("biufc", mostly="f", low=1))
def ordering(g: Growth, a: str, v: Any) -> Any:
    k = g.axis(v)
    n = max(v.shape[k], 1)
    return [
        f"np.sort({a}, axis={k})",
        f"np.argsort({a}, axis={k}, kind='stable')",
        f"np.sort({a}, axis=None)",
        f"np.flip(np.sort({a}, {k}), {k})",
        f"np.sort(np.take(np.partition({a}, {n // 2}, axis={k}), range({n // 2 + 1}), {k}), {k})",
        f"np.unique({a})",
        f"np.searchsorted(np.sort(np.ravel({a})), {a})",
        f"np.argmax({a}, {k})",
        f"np.count_nonzero({a}, axis={k})",
        f"np.take_along_axis({a}, np.argsort({a}, {k}, kind='stable'), {k})",
        f"np.unique({a}, return_inverse=True)[1]",
        f"np.bincount(np.arange(3), weights=np.ravel({a})[:3], minlength=5)",
        f"np.histogram({a}, bins=3, range=(-2, 2))[0]",
        f"np.digitize({a}, np.array([-1.0, 0.0, 1.0]))",
        f"np.interp({a}, np.arange(-2.0, 3.0), np.array([0.0, 1.0, -1.0, 2.0, 0.5]))",
        f"np.lexsort((np.ravel({a}),))",
        f"np.isin({a}, [0.0, 1.0])",
        f"np.any({a}, axis={k})",
        f"np.sort_complex({a})",
        f"np.unique_counts({a})[1]",
    ]


@step("shapes", 5, of=arrays())
def reshaped(g: Growth, a: str, v: Any) -> Any:
    k, m = (g.axis(v), g.axis(v)) if v.ndim else (0, 0)
    n = v.size
    divisors = [d for d in range(1, n + 1) if n % d == 0] or [1]
    d = g.one(divisors)
    order = g.one(["", "", "", ", order='F'", ", order='A'"])
    return [
        f"{a}.reshape({d}, -1)",
        f"np.reshape({a}, (-1, {d}){order})",
        f"{a}.ravel()",
        f"np.ravel({a}{order})",
        f"{a}.T",
        f"np.transpose({a})",
        f"np.swapaxes({a}, {k}, {m})",
        f"np.moveaxis({a}, {k}, {m})",
        f"np.expand_dims({a}, {g.integer(-v.ndim - 1, v.ndim)})",
        f"np.squeeze({a})",
        f"np.flip({a}, {k})",
        f"np.flip({a})",
        f"np.roll({a}, {g.integer(-3, 3)}, {k})",
        f"np.roll({a}, {g.integer(-9, 9)})",
        f"np.rot90({a})",
        f"np.broadcast_to({a}, (2, *{v.shape}))",
        f"{a}.flatten({order[8:]})",
        f"np.atleast_2d({a})",
        f"np.atleast_1d({a})",
        f"np.atleast_3d({a})",
        f"{a}.transpose({tuple(g.rng.sample(range(v.ndim), v.ndim))})" if v.ndim else f"{a}.T",
        f"{a}.copy()",
        f"np.rollaxis({a}, {k})",
        f"np.fliplr({a})",
        f"np.flipud({a})",
        f"{a}[None]",
        f"{a}[..., np.newaxis]",
        f"np.asarray({a})",
        f"{a}.squeeze({k})",
        f"{a}.swapaxes({k}, {m})",
        f"np.matrix_transpose({a})",
        f"np.ascontiguousarray({a})",
        f"{a}.mT",
        f"np.array({a}, ndmin=2)",
        f"np.reshape({a}, {v.shape[::-1]})",
        f"np.copy({a})",
        f"np.resize({a}, (2, 3))",
        f"np.permute_dims({a}, {tuple(reversed(range(v.ndim)))})",
    ]


@step("shapes", 4, of=arrays())
def joined(g: Growth, a: str, v: Any) -> Any:
    same = g.pick(lambda w: w.shape == v.shape) or a
    k = g.axis(v) if v.ndim else 0
    b = same if g.chance(0.7) else constant(g, v.shape)
    return [
        f"np.concatenate([{a}, {b}], {k})",
        f"np.stack([{a}, {b}], {g.integer(-1, v.ndim)})",
        f"np.hstack([{a}, {b}])",
        f"np.vstack(({a}, {b}))",
        f"np.dstack([{a}, {b}])",
        f"np.column_stack([{a}, {b}])",
        f"np.concatenate([{a}, {b}, {a}], axis=None)",
        f"np.append({a}, {b})",
        f"np.append({a}, {b}, axis={k})",
        f"np.tile({a}, {g.one(['2', '(2, 1)', '0', '(1, 2)'])})",
        f"np.repeat({a}, 2, axis={k})",
        f"np.repeat({a}, 3)",
        f"np.pad({a}, 1)",
        f"np.pad({a}, (1, 2), mode={g.one(['edge', 'reflect', 'wrap', 'symmetric', 'constant', 'linear_ramp'])!r})",
        f"np.insert({a}, 0, {g.literal('f')}, axis={k})",
        f"np.delete({a}, 0, {k})",
        f"np.block([[{a}, {b}]])",
        f"np.array([{a}, {b}])",
        f"np.kron({a}, {b})",
        f"np.stack([{a}] * 3)",
        f"np.concatenate([np.ravel({a})[:2], np.ravel({b})])",
        f"np.trim_zeros(np.ravel({a}))",
        f"np.pad({a}, 1, constant_values={g.literal('f')})",
        f"np.insert({a}, [0, 1], {g.literal('f')})",
        f"np.delete({a}, [0, -1])",
        f"np.repeat({a}, [{', '.join(str(g.integer(0, 2)) for _ in range(v.shape[k] if v.ndim else 1))}], axis={k})",
        f"np.asarray([{a}, {b}])",
    ]


@step("shapes", 2, of=arrays("biufc", low=1))
def parts(g: Growth, a: str, v: Any) -> Any:
    k = g.axis(v)
    n = v.shape[k]
    return [
        f"np.array_split({a}, 2, {k})[{g.integer(0, 1)}]",
        f"np.split({a}, [1], axis={k})[{g.integer(0, 1)}]",
        f"np.split({a}, {n or 1}, {k})[-1]",
        f"np.tril({a}, {g.integer(-1, 1)})",
        f"np.triu({a}, {g.integer(-1, 1)})",
        f"np.diag({a})",
        f"np.diagonal({a}, {g.integer(-1, 1)})",
        f"np.trace({a})",
        f"np.unstack({a}, axis={k})[0]",
        f"np.diagflat({a})",
        f"np.vander(np.ravel({a})[:3], 3)",
        f"np.meshgrid(np.ravel({a}), np.arange(2.0))[0]",
        f"np.lib.stride_tricks.sliding_window_view({a}, {min(2, n or 1)}, axis={k})",
        f"np.broadcast_arrays({a}, np.zeros((2, *{v.shape})))[0]",
        f"np.apply_along_axis(lambda t: t * t[0], {k}, {a})",
        f"np.einsum('...i->...', {a})",
        f"np.fill_diagonal({a} * 1.0, 0) or {a}",
        f"np.cov({a})",
        f"np.convolve(np.ravel({a}), [1.0, -1.0, 0.5])",
        f"np.correlate(np.ravel({a}), [1.0, 2.0], 'full')",
        f"np.corrcoef({a})",
        f"np.ix_(np.arange(2), np.arange({n}))[1] + np.moveaxis({a}, {k}, -1)[..., None, :]",
        f"np.unwrap({a}, axis={k})",
        f"np.polyval(np.ravel({a})[:3], 0.5)",
        f"np.linspace({a}, 1.0, 3)",
        f"np.ptp({a}, {k})",
        f"np.vectorize(lambda t: t * 2.0)({a})",
        f"np.fft.rfft({a}, axis={k})",
        f"np.fft.fft({a}, axis={k}).real",
        f"np.fft.ifft({a}, axis={k})",
        f"np.fft.irfft({a}, axis={k})",
        f"np.fft.fftshift({a}, {k})",
        f"np.fft.fft2({a})",
        f"np.fft.rfftn({a})",
    ]


INTEGERS = ["np.uint8", "np.uint16", "np.uint32", "np.uint64", "np.int8", "np.int16", "np.int32", "np.int64"]


def slice_text(g: Growth, n: int) -> str:
    low, high = g.one(["", str(g.integer(-n - 1, n + 1))]), g.one(["", str(g.integer(-n - 1, n + 1))])
    step = g.one(["", "", "", ":2", ":-1", ":-2", ":3", ":1"])
    return f"{low}:{high}{step}"


def places_text(g: Growth, n: int, *, unsigned: bool | None = None) -> str:
    """Return an array of indices of an axis as text."""
    fit = [t for t in INTEGERS if n <= np.iinfo(t[3:]).max]
    dtype = g.one(fit)
    low = 0 if dtype.startswith("np.u") else -n
    shape = g.one([(2,), (3,), (1,), (2, 2), (0,), (4,)])
    flat = [g.integer(low, n - 1) if n else 0 for _ in range(int(np.prod(shape)))]
    if g.chance(0.3):
        flat = sorted(flat, reverse=g.chance(0.5))
    if g.chance(0.15):  # consecutive ones, rising or falling
        flat = list(range(n))[: len(flat)][:: g.one([1, -1])]
        shape = (len(flat),)
    nested = np.array(flat, int).reshape(shape).tolist()
    if g.chance(0.25) and flat and len(shape) == 1:
        return repr(nested)
    return f"np.array({nested}, {dtype})" + (f".reshape({shape})" if not flat else "")


def index_text(g: Growth, v: Any, *, basic: bool | None = None) -> str:
    """Return an index of an array as text, of every kind that NumPy takes."""
    basic = g.chance(0.5) if basic is None else basic
    if v.ndim and not basic and g.chance(0.15):
        lead = g.integer(1, v.ndim)
        if int(np.prod(v.shape[:lead])) < 30:
            return f"np.array({np.array(g.values('b', int(np.prod(v.shape[:lead]))), bool).reshape(v.shape[:lead]).tolist()}, bool).reshape({v.shape[:lead]})"
    parts = []
    for n in v.shape[: g.integer(0 if g.chance(0.2) else min(1, v.ndim), v.ndim)]:
        if g.chance(0.1):
            parts.append(g.one(["None", "np.newaxis"]))
        if not basic and g.chance(0.6):
            if g.chance(0.15):
                parts.append(f"np.array({[bool(b) for b in g.values('b', n)]}, bool)")
            else:
                parts.append(places_text(g, n))
        elif g.chance(0.45) and n:
            i = g.integer(-n, n - 1)
            parts.append(str(i) if g.chance(0.8) or n > 127 else f"{g.one(INTEGERS)}({i % n})")
        else:
            parts.append(slice_text(g, n))
    if g.chance(0.2):
        parts.insert(g.integer(0, len(parts)), "...")
    if g.chance(0.02):
        parts.append(g.one(["True", "False"]))
    return ", ".join(parts) or "..."


@step("indexing", 6, of=arrays("biufc", mostly="f", low=1))
def read(g: Growth, a: str, v: Any) -> Any:
    return f"{a}[{index_text(g, v)}]"


@step("indexing", 2, of=arrays("biufc", mostly="f", low=1))
def read_function(g: Growth, a: str, v: Any) -> Any:
    k = g.axis(v)
    n = v.shape[k]
    places = places_text(g, n)
    mode = g.one(["", "", ", mode='wrap'", ", mode='clip'"])
    mode = mode if n else ""  # NumPy itself goes round an empty axis for ever
    index = g.array("iu")
    if index is not None and g.chance(0.3) and n:
        places = f"{index} % {n}"
    return [
        f"np.take({a}, {places}, axis={k}{mode})",
        f"{a}.take({places})",
        f"np.compress([True, False, True][:{n}], {a}, axis={k})",
        f"np.extract({a} > 0, {a})",
        f"{a}[{a} > {g.literal('f')}]",
        f"np.take_along_axis({a}, np.argmax({a}, {k}, keepdims=True), {k})",
        f"{a}[np.nonzero({a})]",
        f"{a}[np.argsort({a}[..., 0], axis=0, kind='stable')]"
        if v.ndim > 1
        else f"{a}[np.argsort({a}, kind='stable')]",
        f"np.moveaxis({a}, {k}, 0)[{places}]",
        f"{a}[np.ix_([0], [0])]",
        f"{a}[tuple(np.argwhere({a} > 0).T)]",
        f"np.argwhere({a})",
        f"np.flatnonzero({a})",
        f"{a}.flat[{g.integer(0, max(v.size - 1, 0))}]",
        f"{a}[np.arange({v.shape[0]}), ..., {places if v.ndim > 1 else '...'}]",
        f"np.moveaxis({a}, {k}, 0)[np.argmax({a}, {k}).min()]",
        f"np.place({a} * 1.0, {a} > 0, [1.0, 2.0]) or {a}",
        f"np.tril_indices(2)[0] + {a}[..., :1]",
        f"{a}[np.unravel_index(1, {v.shape})]",
    ]


@step("products", 4, of=arrays(mostly="f", low=1))
def product(g: Growth, a: str, v: Any) -> Any:
    n, k = v.shape[-1], g.axis(v)
    kinds = "f" if v.dtype.kind == "f" else "biufc"
    b = g.pick(lambda w: w.dtype.kind in kinds and w.ndim >= 1 and w.shape[-2 if w.ndim > 1 else -1] == n)
    b = b if b is not None and g.chance(0.6) else constant(g, g.one([(n,), (n, 2), (n, n)]), "ff")
    return [
        f"{a} @ {b}",
        f"np.matmul({a}, {b})",
        f"np.dot({a}, {b})",
        f"np.inner({a}, {a})",
        f"np.outer({a}, {a})",
        f"np.tensordot({a}, {a}, axes=([-1], [-1]))",
        f"np.einsum('...i,...i->...', {a}, {a})",
        f"np.einsum('...i->i', {a})",
        f"np.vdot({a}, {a})",
        f"np.vecdot({a}, {a})",
        f"np.vecdot({a}, {a}, axis={k}, keepdims=True)",
        f"np.vecdot({a}, {a}, axes=[{k}, {k}])",
        f"np.matmul({a}, {a}, axes=[(0, -1), (-1, 0), (-1, 0)])",
        f"np.matmul({a}, np.swapaxes({a}, -1, -2))",
        f"np.einsum('i,j->ij', np.ravel({a}), np.ravel({a}))",
        f"np.linalg.multi_dot([{a}, {b}])",
        f"np.tensordot({a}, {a}, 0)",
        f"np.dot({g.literal('f')}, {a})",
        f"np.einsum('ij,jk->ik', {a}, {b})",
        f"np.einsum('ii', {a})",
        f"np.einsum('ij->ji', {a})",
        f"np.cross({a}[..., :3], np.arange(3.0))",
        f"np.matvec({a}, {b})",
        f"np.linalg.outer(np.ravel({a}), np.ravel({a}))",
        f"{a}.dot({b})",
        f"np.einsum('ij,ij->j', {a}, {a})",
        f"np.inner({a}, {b})",
    ]


def is_square(v: Any) -> bool:
    return v.dtype.kind in "fc" and v.ndim >= 2 and v.shape[-1] == v.shape[-2] and 0 < v.shape[-1] < 5


@step("linalg", 4, of=lambda g: g.pick(is_square) or g.array("f", low=1))
def matrix(g: Growth, a: str, v: Any) -> Any:
    if not is_square(v):
        return f"np.outer({a}.ravel()[:3], np.arange(1.0, 4.0)[:np.size({a})])"
    n = v.shape[-1]
    well = f"({a} + {3 * n} * np.eye({n}))" if g.chance(0.8) else a
    symmetric = f"({a} + np.swapaxes({a}, -1, -2) + np.diag(4.0 * np.arange({n})))"
    definite = f"({a} @ np.swapaxes({a}, -1, -2) + np.eye({n}))"
    right = g.pick(lambda w: w.dtype.kind == "f" and w.shape == (n,)) or f"np.arange(1.0, {n + 1})"
    return [
        f"np.linalg.solve({well}, {right})",
        f"np.linalg.inv({well})",
        f"np.linalg.det({a})",
        f"np.linalg.slogdet({well})[1]",
        f"np.linalg.cholesky({definite})",
        f"np.linalg.eigvalsh({symmetric})",
        f"np.linalg.eigh({symmetric})[0]",
        f"np.linalg.eigh({symmetric})[1] ** 2",
        f"np.linalg.svd({well}, compute_uv=False)",
        f"np.abs(np.linalg.qr({well})[1])",
        f"np.linalg.pinv({well})",
        f"np.linalg.matrix_power({a}, {g.integer(-1, 3)})",
        f"np.linalg.norm({a}, {g.one(['2', 'None', 1, '-1'])!s}, axis=(-2, -1))",
        f"np.linalg.norm({a}, 'nuc', axis=(-2, -1))",
        f"np.linalg.lstsq({well}, {right})[0]",
        f"np.linalg.svdvals({a})",
        f"np.linalg.matrix_norm({a})",
        f"np.linalg.cond({well})",
        f"np.linalg.matrix_rank({a})",
        f"np.linalg.tensorsolve({well}, {right})",
        f"np.linalg.eigvals({definite}).real.sum()",
        f"np.trace({a}, axis1=-2, axis2=-1)",
        f"np.linalg.slogdet({well})[0]",
        f"np.linalg.cholesky({a})",
        f"np.linalg.inv({a})",
        f"np.linalg.solve({well}, np.eye({n})[:, :2])",
    ]


@step("shapes", of=arrays("f"))
def created(g: Growth, a: str, v: Any) -> Any:
    return [
        f"np.zeros_like({a})",
        f"np.full_like({a}, {g.literal('f')})",
        f"np.full({v.shape}, {a})",
        f"np.ones_like({a}) * {a}",
        f"np.zeros({v.shape}) + {a}",
        f"np.eye(3) * np.sum({a})",
        f"np.arange({v.size}.0).reshape({v.shape}) * {a}",
        f"np.linspace(0.0, np.sum({a} * np.float64(1)), 4)",
        f"np.tri(3) * np.mean({a})",
        f"np.empty_like({a}) * 0 + {a}" if v.size == 0 else f"np.indices({v.shape}).sum(0) + {a}",
        f"np.logspace(0.0, np.tanh(np.sum({a} * np.float64(1))), 3)",
        f"np.array([np.sum({a}), 2.0, np.max({a}, initial=0.0)])",
        f"np.fromfunction(lambda i, j: i * j, (2, 2)) * np.sum({a})",
    ]


# -- writes -----------------------------------------------------------------------------------------------


@step("writes", 3, of=arrays("biufc", mostly="f", low=1))
def buffer(g: Growth, a: str, v: Any) -> Any:
    return [
        f"{a}.copy()",
        f"{a} * 1.0",
        f"np.zeros_like({a})",
        f"np.array({a})",
        f"{a} + 0",
        f"np.copy({a})",
        f"np.ones_like({a})",
        f"{a}.astype(np.float64)",
    ]


def value_text(g: Growth, shape: tuple[int, ...]) -> str:
    """Return something that can be written to a place of a shape."""
    fits = g.pick(lambda w: w.dtype.kind in "biuf" and len(w.shape) <= len(shape) and _fits(w.shape, shape))
    if fits is not None and g.chance(0.5):
        return g.one([fits, fits, f"{fits} * 2", f"np.sin({fits})"])
    if g.chance(0.6):
        return g.literal("iff")
    return constant(g, shape[g.integer(0, len(shape)) :], "ff")


def _fits(a: Any, b: Any) -> bool:
    return all(m in {1, n} for m, n in zip(a[::-1], b[::-1], strict=False))


def target(g: Growth) -> str | None:
    found = g.targets()
    return (found[-1] if g.chance(0.4) else g.one(found)) if found else None


@step("writes", 5, of=target, assigns=False)
def write(g: Growth, a: str, v: Any) -> Any:
    index = index_text(g, v)
    try:
        shape = eval(f"v[{index}]", {"np": np, "v": v}).shape
    except IndexError:
        shape = ()
    symbol = g.one(["=", "=", "=", "+=", "*=", "-=", "/="])
    return f"{a}[{index}] {symbol} {_apart(index, value_text(g, shape))}"


def _apart(index: str, value: str) -> str:
    """Return a value that shares no memory with what a mask chooses: NumPy would read what it has written."""
    return f"{value} * 1" if "bool" in index else value


@step("writes", 2, of=target, assigns=False)
def write_all(g: Growth, a: str, v: Any) -> Any:
    value = value_text(g, v.shape)
    k = g.axis(v)
    mask = f"{a} > {g.literal('f')}"
    n = v.shape[0]
    places = places_text(g, n)
    return g.one(
        [
            f"{a} += {value}",
            f"{a} *= {value}",
            f"{a} -= {value}",
            f"{a} /= {value}",
            f"{a} **= 2",
            f"{a}[...] = {value}",
            f"np.copyto({a}, {value})",
            f"np.copyto({a}, {value}, where={mask})",
            f"np.add({a}, {value}, out={a})",
            f"np.multiply({a}, {a}, {a})",
            f"np.sin({a}, out={a})",
            f"{a}.fill({g.literal('f')})",
            f"np.add.at({a}, {places}, {g.literal('f')})",
            f"np.maximum.at({a}, {places}, {g.literal('f')})",
            f"np.multiply.at({a}, {places}, {g.literal('f')})",
            f"np.put({a}, {places}, {g.literal('f')})",
            f"np.putmask({a}, {mask}, {value})",
            f"np.place({a}, {mask}, [1.0, 2.5])",
            f"np.fill_diagonal({a}, {g.literal('f')})",
            f"np.put_along_axis({a}, np.argmax({a}, {k}, keepdims=True), {g.literal('f')}, {k})",
            f"{a}.sort()",
            f"{a}.sort({k})",
            f"np.cumsum({a}, {k}, out={a})",
            f"{a}[{mask}] = {g.literal('f')}",
            f"{a}[{mask}] *= {g.literal('f')}",
            f"np.negative({a}, out={a}, where={mask})",
            f"np.clip({a}, -1, 1, out={a})",
            f"np.subtract({a}, {value}, out={a}, where={mask})",
            f"np.divide({a}, 2, out={a})",
            f"{a}.put([0], {g.literal('f')})",
            f"{a} //= 2",
            f"{a} %= 2",
            f"np.exp(np.tanh({a}), out={a})",
            f"{a}[{n - 1}], {a}[0] = {a}[0] * 2, {a}[{n - 1}] * 3" if n else f"{a} += 1",
            f"np.put({a}, [0, -1], [1.0, 2.0])",
            f"for i in range({n}):\n    {a}[i] = {a}[i] * i + {g.literal('f')}",
            f"for i in range(1, {n}):\n    {a}[i] += {a}[i - 1]",
            f"np.copyto({a}, {value}, casting='unsafe')",
            f"{a}[::2] = {a}[::-1][::2]",
            f"{a}[1:] = {a}[:-1]",
            f"{a}[1:] += {a}[:-1]",
            f"{a}[:] = {a}[::-1]",
            f"{a} @= np.eye({v.shape[-1]})",
        ]
    )


# -- views ------------------------------------------------------------------------------------------------


def view_text(g: Growth, a: str) -> str:
    """Return a view of an array as text, or what is sometimes a view."""
    v = g.env[a]
    k, m = (g.axis(v), g.axis(v)) if v.ndim else (0, 0)
    d = g.one([d for d in range(1, v.size + 1) if v.size % d == 0] or [1])
    return g.one(
        [
            f"{a}[{index_text(g, v, basic=True)}]",
            f"{a}[{index_text(g, v, basic=True)}]",
            f"{a}[0]",
            f"{a}[1:]",
            f"{a}[:-1]",
            f"{a}[::-1]",
            f"{a}.T",
            f"{a}[...]",
            f"{a}[None]",
            f"{a}.reshape(-1)",
            f"{a}.ravel()",
            f"{a}.reshape({d}, -1)",
            f"np.transpose({a})",
            f"np.swapaxes({a}, {k}, {m})",
            f"np.moveaxis({a}, {k}, {m})",
            f"np.squeeze({a})",
            f"np.expand_dims({a}, 0)",
            f"np.flip({a}, {k})",
            f"np.rot90({a})",
            f"np.split({a}, [1])[{g.integer(0, 1)}]",
            f"np.atleast_2d({a})",
            f"np.atleast_1d({a})",
            f"{a}.flatten()",
            f"{a}[[0]]",
            f"{a}.astype({a}.dtype, copy=False)",
            f"{a}.copy()",
            f"np.array_split({a}, 2, {k})[0]",
            f"{a}[:, 0]",
            f"{a}[..., 0]",
            f"{a}.real",
            f"np.ravel({a}, order='F')",
            f"np.diagonal({a})",
            f"np.broadcast_to({a}, (2, *{v.shape}))",
            f"np.lib.stride_tricks.sliding_window_view({a}, 1, axis={k})",
            f"{a}.view()",
            f"np.diag({a})",
            f"np.unstack({a})[-1]",
            f"np.fliplr({a})",
            f"list({a})[-1]",
            f"np.broadcast_arrays({a}, {a})[0]",
            f"{a}.swapaxes({k}, {m})",
            f"np.reshape({a}, {v.shape[::-1]})",
            f"np.vsplit({a}, [1])[0]",
            f"{a}.squeeze()",
            f"np.rollaxis({a}, {k})",
            f"{a}.mT",
            f"np.atleast_3d({a})",
            f"np.matrix_transpose({a})",
            f"{a}.imag",
            f"np.real({a})",
            f"{a}.reshape({v.shape}, order='F')",
        ]
    )


@step("views", 6, of=lambda g: g.pick(lambda v: isinstance(v, np.ndarray) and v.ndim > 0))
def view(g: Growth, a: str, v: Any) -> Any:
    return None if a[0] == "x" else view_text(g, a)


@step("views", 3, of=target, assigns=False)
def write_view(g: Growth, a: str, v: Any) -> Any:
    """Write through a view that has no name."""
    place = view_text(g, a)
    try:
        w = eval(place, {"np": np, a: v})
    except Exception:
        return None
    if w.ndim == 0:
        return None
    index = index_text(g, w)
    try:
        shape = w[eval(f"np.s_[{index}]", {"np": np})].shape
    except IndexError:
        return None
    value = _apart(index, value_text(g, shape))
    whole = value_text(g, w.shape)
    r = g.one(["r", "row"])
    return g.one(
        [
            f"{place}[{index}] = {value}",
            f"{place}[{index}] {g.one(['+=', '*=', '-='])} {value}",
            f"np.copyto({place}, {whole})",
            f"np.add.at({place}, 0, {g.literal('f')})",
            f"np.multiply({place}, 2, out={place})",
            f"for {r} in {place}:\n    {r} -= {r}.mean()" if w.ndim > 1 else f"{place}[{index}] = {value}",
            f"for {r} in {place}:\n    {r}[...] = {r} * 2" if w.ndim > 1 else f"{place}[0] += 1",
            f"{place}.fill({g.literal('f')})",
            f"{place}.sort()",
            f"np.putmask({place}, {place} > 0, 0.5)",
            f"{place}[...] += {whole}",
            f"np.fill_diagonal({place}, {g.literal('f')})",
            f"np.put({place}, [0], {g.literal('f')})",
            f"{place}.flat[0] = {g.literal('f')}",
            f"{a}[0], {a}[-1] = {a}[-1], {a}[0]",
        ]
    )


# -- control flow -----------------------------------------------------------------------------------------

BODIES = [
    "np.sin({})",
    "{} * 0.5 + 0.1",
    "np.tanh({} * 2)",
    "{} * {}",
    "np.where({} > 0, {}, 0.5 * {})",
    "{} - 0.3",
    "np.maximum({}, 0.5)",
    "{} / (1 + {} * {})",
]


def body(g: Growth, name: str) -> str:
    text = g.one(BODIES)
    return text.replace("{}", name)


@step("control", 3, of=arrays("f"), assigns=False)
def python_flow(g: Growth, a: str, v: Any) -> Any:
    new, level = g.fresh(), g.literal("f")
    return g.one(
        [
            f"{new} = {a} * 1.0\nif np.sum({a}) > {level}:\n    {new} = {body(g, new)}",
            f"{new} = {a} * 1.0\nif {a}.mean() <= {level}:\n    {new} = {body(g, new)}\nelse:\n    {new} = {body(g, new)}",
            f"{new} = {a} * 1.0\nwhile 0.7 < np.max(np.abs({new}), initial=0.0) < 1e6:\n    {new} = {new} * 0.5",
            f"{new} = {a} * 1.0\nfor i in range({g.integer(0, 4)}):\n    {new} = {body(g, new)} + i",
            f"{new} = sum([r * r for r in {a}])" if v.ndim else f"{new} = {a} * 2",
            f"{new} = {a} * 1.0\nfor r in {a}:\n    {new} = {new} + np.sum(r)"
            if v.ndim
            else f"{new} = {a} + 1",
            f"{new} = np.stack([t * i for i, t in enumerate({a})])" if v.ndim else f"{new} = {a} - 1",
            f"{new} = {a} if {a}.size > 2 and np.any({a} > {level}) else -{a}",
            f"{new} = {a} * len({a})" if v.ndim else f"{new} = {a} * 3",
            f"{new} = np.array([float(np.shape({a}) == ()), 2.0]) * np.sum({a})",
            f"{new} = max(np.sum({a}), {level}) * 1.0",
        ]
    )


@step("control", 4, of=arrays("f"))
def lax_flow(g: Growth, a: str, v: Any) -> Any:
    level = g.literal("f")
    once, twice = body(g, "t"), body(g, "t")
    zero = f"{v.dtype.type.__name__}"
    number = f"np.{zero}(0.5)"
    choices = [
        f"lax.cond(np.sum({a}) > {level}, lambda t: {once}, lambda t: {twice}, {a})",
        f"lax.fori_loop(0, {g.integer(0, 4)}, lambda i, t: {once}, {a} * {number})",
        f"lax.fori_loop({g.integer(-1, 1)}, 3, lambda i, t: {once} + i * {number}, {a} * {number})",
        f"lax.while_loop(lambda t: np.abs(np.sum(np.abs(t)) - 5e5) < 4e5, lambda t: t * {number}, {a} * {number})",
        f"lax.switch({g.integer(-1, 3)}, [lambda t: {once}, lambda t: {twice}, lambda t: -t], {a})",
        f"lax.switch(np.argmax({a}), [lambda t: {once}, lambda t: {twice}, lambda t: -t], {a})",
    ]
    if v.ndim and v.shape[0]:
        choices += [
            f"lax.scan(lambda c, t: (c * {number} + np.sum(t), c + t), np.sum({a}), {a})[{g.integer(0, 1)}]",
            f"lax.scan(lambda c, t: (c + t, c * t), {a}[0], {a}, reverse={g.chance(0.5)})[{g.integer(0, 1)}]",
            f"lax.map(lambda t: {once}, {a})",
            f"lax.map(lambda t: lax.cond(np.sum(t) > 0, lambda s: s * 2, lambda s: np.sin(s), t), {a})",
            f"lax.scan(lambda c, t: (lax.fori_loop(0, 2, lambda i, s: s * {number} + t, c), t * c), {a}[-1], {a})[{g.integer(0, 1)}]",
            f"lax.scan(lambda c, t: (np.where(t > {level}, c, t), np.maximum(c, t)), {a}[0], {a})[{g.integer(0, 1)}]",
        ]
    return choices


# -- transformations inside -------------------------------------------------------------------------------

LOSSES = [
    "np.sum(np.sin(t) * t)",
    "np.sum(t ** 3)",
    "np.sum(np.tanh(t)) ** 2",
    "np.prod(np.cos(t))",
    "np.max(t * t, initial=0.0)",
    "np.sum(np.exp(-t * t))",
    "np.mean(t * t) * np.sum(t)",
    "np.sum(np.sort(t) * t)",
]
MAPS = [
    "np.sin(t) * 2",
    "t * t",
    "np.sum(t) * t",
    "t / (1 + t * t)",
    "np.cumsum(t)",
    "t - np.max(t, initial=0.0)",
    "np.where(t > 0, t, -t)",
    "np.exp(-np.abs(t))",
]


@step("nested", 5, of=lambda g: g.pick(lambda v: v.dtype.kind == "f" and v.size <= 8))
def transformed(g: Growth, a: str, v: Any) -> Any:
    loss, other = g.one(LOSSES), g.one(MAPS)
    b = g.pick(lambda w: w.dtype.kind == "f" and w.size == 1)
    if b is not None and g.chance(0.3):
        other = f"({other}) * np.sum({b})"
        loss = f"{loss} * np.sum({b})"
    choices = [
        f"fg.grad(lambda t: {loss})({a})",
        f"fg.value_and_grad(lambda t: {loss})({a})[{g.integer(0, 1)}]",
        f"fg.jvp(lambda t: {other}, ({a},), (np.ones_like({a}),))[{g.integer(0, 1)}]",
        f"fg.vjp(lambda t: {other}, {a})[1](np.ones_like({a}))[0]",
        f"fg.jit(lambda t: {other})({a})",
        f"fg.checkpoint(lambda t: {other})({a})",
        f"fg.jit(fg.grad(lambda t: {loss}))({a})",
        f"fg.grad(fg.jit(lambda t: {loss}))({a})",
        f"fg.grad(fg.checkpoint(lambda t: {loss}))({a})",
        f"fg.jacrev(lambda t: {other})({a})",
        f"fg.jacfwd(lambda t: {other})({a})",
        f"fg.grad(lambda t: np.sum(fg.grad(lambda t: {loss})(t) ** 2))({a})",
    ]
    if v.size <= 4:
        choices += [f"fg.hessian(lambda t: {loss})({a})"]
    if v.ndim and v.shape[0]:
        k = g.axis(v)
        choices += [
            f"fg.vmap(lambda t: {other})({a})",
            f"fg.vmap(fg.grad(lambda t: {loss}))({a})",
            f"fg.vmap(lambda t: {other}, in_axes={k}, out_axes=0)({a})",
            f"fg.vmap(lambda t: {other}, in_axes={k})({a})",
            f"fg.jit(fg.vmap(lambda t: {other}))({a})",
            f"fg.grad(lambda t: np.sum(fg.vmap(lambda t: {other})(t) ** 2))({a})",
            f"fg.vmap(lambda t, s: t * np.sum(s), in_axes=(0, None))({a}, {a})",
        ]
    return choices


@step("nested", of=arrays("f"), assigns=False)
def custom(g: Growth, a: str, v: Any) -> Any:
    new = g.fresh()
    return (
        f"rule = fg.custom_vjp(lambda t: np.sin(t) * 2)\nrule.defvjp(lambda t: (np.sin(t) * 2, t), lambda t, ct: (ct * np.cos(t) * 2,))\n"
        f"{new} = rule({a})"
    )
