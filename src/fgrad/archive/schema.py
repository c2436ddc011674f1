"""The schema of stored programs: the parameters of every primitive, and the values they may have.

Compiled code trusts a program, so a program from a file is held to this table; the rules for shapes, which
trust who wrote the parameters, then say what each equation gives.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from fgrad.archive.container import LARGEST
from fgrad.core.aval import Aval, Shape
from fgrad.core.primitive import PRIMITIVES, Primitive
from fgrad.extend.engine import HOLE, MESSAGES, gathered, places, spread

Avals = Sequence[Aval]
Check = Callable[[Any, Avals], bool]

# What is drawn: the parameters that are operands, those that may be, and the types of others.
DRAWS: dict[str, tuple[set[str], set[str], dict[str, type]]] = {
    "binomial": ({"n", "p"}, set(), {"size": tuple}),
    "choice": (set(), {"p"}, {"a": int, "size": tuple, "replace": bool, "shuffle": bool}),
    "permutation": (set(), set(), {"x": int}),
    "poisson": ({"lam"}, set(), {"size": tuple}),
    "standard_gamma": ({"shape"}, set(), {"size": tuple}),
}


def _one_of(*words: str | None) -> Check:
    return lambda v, _: (v is None or type(v) is str) and v in words


def _typed(*kinds: type) -> Check:
    return lambda v, _: type(v) in kinds


def _is_int(v: Any, least: float = -math.inf, below: float = math.inf) -> bool:
    return type(v) is int and least <= v < below


def _from(least: float) -> Check:
    """Return whether a parameter is a tuple of integers that are not smaller, and no length is larger."""
    return lambda v, _: type(v) is tuple and len(v) <= 64 and all(_is_int(n, least, LARGEST) for n in v)


SIZES, STEPS, PLACES = _from(0), _from(1), _from(-LARGEST)


def _axis(v: Any, avals: Avals) -> bool:
    return _is_int(v, 0, avals[0].ndim)


def _axes(v: Any, avals: Avals) -> bool:
    return type(v) is tuple and all(_axis(i, avals) for i in v) and len(set(v)) == len(v)


def _count(v: Any, _: Avals) -> bool:
    return _is_int(v, 0, LARGEST)


def _up_to(most: int) -> Check:
    return lambda v, _: _is_int(v, 0, most + 1)


def _pads(v: Any, _: Avals) -> bool:
    return type(v) is tuple and all(PLACES(p, _) and len(p) == 2 for p in v)


def _no_cuts(v: Any, _: Avals) -> bool:
    return _pads(v, _) and all(n >= 0 for p in v for n in p)


def _is_entry(p: Any) -> bool:
    if isinstance(p, slice):
        return all(n is None or _is_int(n, -(2**63), 2**63) for n in (p.start, p.stop, p.step))
    return p is None or p is Ellipsis or _is_int(p, -LARGEST, LARGEST)


def _index(v: Any, _: Avals) -> bool:
    return type(v) is tuple and all(map(_is_entry, v))


def _template(v: Any, _: Avals) -> bool:
    return type(v) is tuple and all(p is HOLE or type(p) is bool or _is_entry(p) for p in v)


def _dtype(v: Any, _: Avals) -> bool:
    return isinstance(v, np.dtype)


def _number(v: Any, _: Avals) -> bool:
    return type(v) in {float, np.float64} or _is_int(v, -LARGEST, LARGEST)


def _tolerance(v: Any, avals: Avals) -> bool:
    numbers = isinstance(v, np.ndarray | np.generic) and v.dtype.kind == "f"
    return v is None or _number(v, avals) or (numbers and _spreads(v.shape, avals[0].shape[:-2]))


def _powers(v: Any, avals: Avals) -> bool:
    return type(v) is tuple and len(v) == len(avals) and all(type(p) is float and 0 < p < 50 for p in v)


def _orders(parameters: int) -> Check:
    """Return whether a parameter says by which parameters of a distribution something is differentiated."""
    return lambda v, _: PLACES(v, _) and 0 < len(v) <= 8 and all(0 <= i < parameters for i in v)


def _kth(v: Any, avals: Avals) -> bool:
    numbers = isinstance(v, np.ndarray | np.generic) and v.dtype.kind in "iu"
    if not numbers and type(v) not in {tuple, list, int}:
        return False
    found = v.ravel().tolist() if numbers else _listed(v)
    return bool(found) and all(_is_int(k, -LARGEST, LARGEST) for k in found)


def _listed(v: Any) -> Sequence[Any]:
    return v if type(v) in {tuple, list} else [v]


def _ufunc(v: Any, _: Avals) -> bool:
    run = PRIMITIVES[v].run if type(v) is str and v in PRIMITIVES else None
    return isinstance(run, np.ufunc) and run.nin == 2 and run.nout == 1 and run.signature is None


def _names(v: Any, _: Avals) -> bool:
    return type(v) is tuple and all(type(s) is str for s in v)


TEXT, FLAG, OPTIONS = _typed(str), _typed(bool), _typed(dict)
NORM = _one_of(None, "backward", "ortho", "forward")
METHODS = _one_of(*DRAWS)

WINDOWS: dict[str, Check] = {"window": STEPS, "stride": STEPS, "padding": _no_cuts}
CONV: dict[str, Check] = {
    "stride": STEPS,
    "padding": _pads,
    "dilation": STEPS,
    "input_dilation": STEPS,
    "groups": _count,
}
GATHERS: dict[str, Check] = {"template": _template, "unique": FLAG}

PARAMS: dict[str, dict[str, Check]] = {
    **{primitive: {"shape": SIZES} for primitive in ("reshape", "broadcast_to")},
    **{
        primitive: {"axes": _axes}
        for primitive in (
            *("transpose", "sum", "mean", "prod", "max", "min", "nanmax", "nanmin"),
            *("softmax", "log_softmax", "logsumexp"),
        )
    },
    **{
        primitive: {"axis": _axis}
        for primitive in (*("cumsum", "cumprod", "recur", "concatenate", "unstack", "argmax", "argmin"),)
    },
    "convert": {"dtype": _dtype},
    "fitted": {"dtype": lambda v, _: isinstance(v, np.dtype) and v.kind in "iu"},
    "contract": {"a": TEXT, "b": TEXT, "out": TEXT},
    "slice": {"index": _index},
    "unslice": {"shape": SIZES, "index": _index},
    "update": {"index": _index},
    "put_part": {"imaginary": FLAG},
    "gather": GATHERS,
    "scatter_add": {"shape": SIZES, **GATHERS},
    "put": {"template": _template},
    "winners": {"template": _template, "shape": SIZES},
    "accumulate": {"ufunc": _ufunc, "axis": _axis},
    "argsort": {"axis": _axis, "kind": _one_of(None, "quicksort", "mergesort", "heapsort", "stable")},
    "argpartition": {"axis": _axis, "kth": _kth},
    "rank": {"propagate": FLAG},
    "search": {"side": _one_of("left", "right")},
    "layer_norm": {"rank": _count, "eps": _number},
    "conv": CONV,
    "max_pool": WINDOWS,
    "window_sum": WINDOWS,
    "window_spread": {**WINDOWS, "space": SIZES},
    "convolve": {"mode": _one_of("full", "valid")},
    **{primitive: {"axis": _axis, "norm": NORM} for primitive in ("fft", "ifft", "rfft")},
    "irfft": {"axis": _axis, "norm": NORM, "n": _count},
    "solve": {"check": _one_of("", "qr", "eig", "det")},
    "cholesky": {"upper": FLAG},
    "qr": {"mode": _one_of("reduced", "complete")},
    "eigh": {"uplo": _one_of("L", "U")},
    "svd": {"full_matrices": FLAG},
    "pinv": {"rcond": _tolerance, "hermitian": FLAG},
    "guard": {
        "kind": _one_of(*MESSAGES),
        "what": TEXT,
        "both": FLAG,
        "strict": FLAG,
        "second": FLAG,
        "look": FLAG,
    },
    "roots": {"lead": _count},
    "matrix_function": {
        "function": _one_of("expm", "logm", "sqrtm", "power"),
        "exponent": _typed(float),
        "to_complex": FLAG,
    },
    **{
        primitive: {"function": _one_of("logm", "sqrtm", "power")} for primitive in ("regular", "regularized")
    },
    "solve_triangular": {"lower": FLAG, "unit": FLAG},
    "solve_banded": {"below": _count, "above": _count},
    "ldl": {"lower": FLAG, "hermitian": FLAG},
    "riccati": {"discrete": FLAG},
    "spline_filter": {"degree": _up_to(5), "mode": _one_of("mirror", "reflect", "grid-wrap")},
    **{primitive: {"n": _up_to(100)} for primitive in ("spherical", "modified", "polygamma")},
    "log_gamma_ratio": {"index": _orders(1)},
    "logit_beta_ratio": {"index": _orders(2)},
    "draw": {"method": METHODS, "names": _names, "options": OPTIONS, "shape": SIZES, "dtype": _dtype},
    "name": {"label": TEXT},
    "carlson": {"powers": _powers},
    "elliptic_moment": {"powers": _powers},
}


# ---- what parameters and operands have to be together ------------------------------------------------------


def _item(shape: Shape, index: Any) -> Shape:
    """Return the shape of `x[index]`, as NumPy has it; nothing is read."""
    item: np.ndarray = np.broadcast_to(np.zeros((), bool), shape)[index]
    return item.shape


def _spreads(small: Shape, shape: Shape) -> bool:
    """Return whether an array can be broadcast to a shape."""
    return len(small) <= len(shape) and all(
        m in (1, n) for m, n in zip(reversed(small), reversed(shape), strict=False)
    )


def _fits(value: Shape, target: Shape) -> bool:
    """Return whether a value can be assigned."""
    extra = max(0, len(value) - len(target))
    return math.prod(value[:extra]) == 1 and _spreads(value[extra:], target)


def _assigns(value: Aval, place: Shape) -> bool:
    """Return whether a value can be written: NumPy makes no complex number of an array with axes."""
    return _fits(value.shape, place) and not (place == () and value.ndim and value.dtype.kind == "c")


def _gathered(shape: Shape, arrays: Avals, template: Any) -> Shape:
    """Return the shape that index arrays give."""
    if sum(p is HOLE for p in template) != len(arrays) or any(a.dtype.kind not in "iu" for a in arrays):
        raise ValueError("index arrays are missing or not integers")
    return gathered(shape, arrays, template)


def _contracts(x: Aval, y: Aval, *, a: str, b: str, out: str) -> bool:
    lengths = dict(zip(a + b, (*x.shape, *y.shape), strict=True))
    return (
        all(len(set(s)) == len(s) and s.isalpha() and s.isascii() for s in (a, b, out) if s)
        and tuple(lengths[c] for c in a) == x.shape
        and tuple(lengths[c] for c in b) == y.shape
        and set(out) <= {*a, *b}
        and set(a) ^ set(b) <= set(out)
    )


def _convolves(x: Aval, w: Aval, **p: Any) -> bool:
    rank = x.ndim - 2
    return (
        rank == w.ndim - 2 > 0
        and all(len(p[k]) == rank for k in ("stride", "padding", "dilation", "input_dilation"))
        and p["groups"] > 0
        and x.shape[1] == w.shape[1] * p["groups"]
        and w.shape[0] % p["groups"] == 0
    )


def _slides(x: Aval, *, window: Shape, stride: Shape, padding: Any, space: Shape | None = None) -> bool:
    rank = len(window)
    ones = (1,) * rank
    return (
        0 < rank <= x.ndim
        and len(stride) == len(padding) == rank
        and (space is None or places(space, window, stride, padding, ones, ones) == x.shape[-rank:])
    )


def _normalizes(x: Aval, *others: Aval, rank: int, eps: float) -> bool:
    return 0 < rank <= x.ndim and all(a.shape == x.shape[x.ndim - rank :] for a in others)


def _draws(
    key: Aval, *operands: Aval, method: str, names: Any, options: Any, shape: Shape, dtype: Any
) -> bool:
    needed, possible, types = DRAWS[method]
    lead = key.shape[:-1]
    rest = [a.shape[len(lead) :] for a in operands]
    return (
        key.shape[-1:] == (2,)
        and key.dtype == np.uint32
        and needed <= {*names} <= needed | possible
        and len({*names}) == len(names) == len(operands)
        and all(a.dtype.kind in "biuf" and a.shape[: len(lead)] == lead for a in operands)
        and types.keys() - {"size"} <= options.keys() <= types.keys()
        and all(type(v) is types[k] for k, v in options.items())
        and options.get("size", np.broadcast_shapes(*rest) if "size" in types else shape) == shape
        and (method != "permutation" or shape == (options["x"],))
        and (
            all(r == (options["a"],) for r in rest) and 0 <= options["a"] < LARGEST
            if method == "choice"
            else all(_spreads(r, shape) for r in rest)
        )
    )


def _guards(x: Aval, bad: Aval, w: Aval, *likes: Aval, **_: Any) -> bool:
    return (
        x.ndim > 1
        and w.ndim > 0
        and bad.dtype.kind == "b"
        and _spreads(bad.shape, x.shape)
        and _spreads(w.shape[:-1], x.shape[:-2])
        and all(a.ndim > 1 and _spreads(a.shape[:-2], x.shape[:-2]) for a in likes)
    )


def _ranks(x: Aval, ranks: Aval, **_: Any) -> bool:
    alone = ranks.ndim == 1 or ranks.shape[:-1] == x.shape[:-1]
    integers = ranks.dtype.kind in "iu" and np.can_cast(ranks.dtype, np.intp)
    return x.ndim > 0 and ranks.ndim > 0 and integers and alone


def _represents(x: Aval, first: Aval, group: Aval) -> bool:
    integers = all(a.ndim == 1 and a.dtype.kind in "iu" for a in (first, group))
    return x.ndim > 0 and integers and group.shape == x.shape[:1]


def _riccati(a: Aval, b: Aval, q: Aval, r: Aval, *, discrete: bool) -> bool:
    n, m = b.shape[-2:]
    lead = a.shape[:-2]
    wanted = ((*lead, n, n), (*lead, n, m), (*lead, n, n), (*lead, m, m))
    return tuple(v.shape for v in (a, b, q, r)) == wanted


def _divided(a: Aval, b: Aval, *, check: str) -> bool:
    """Return whether two stacks of matrices broadcast, and the second has a row for each of the first."""
    np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a.shape[-1] == b.shape[-2]


# Rows of matrices: of which operands the last two axes are a matrix, and which of those are square.
MATRICES: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("det", "cofactor", "slogdet", "cholesky", "eigh", "eig", "ldl"), ("0", "0")),
    **dict.fromkeys(("qr", "svd", "pinv", "lu_factor", "polar"), ("0", "")),
    **dict.fromkeys(("minors", "frechet", "log_frechet", "regular", "regularized"), ("01", "01")),
    "matrix_function": ("0", "0"),
    "second_minors": ("012", "012"),
    **dict.fromkeys(("solve", "solve_triangular"), ("01", "0")),
    "solve_banded": ("01", ""),
    "sylvester": ("012", "01"),
    "riccati": ("0123", "023"),
}
# The dtypes that operands have: those of LAPACK and SciPy, and those to which functions convert theirs.
LAPACK, REAL, NUMBERS, INTEGERS = "fdFD", "efd", "efdFD", "bBhHiIlLqQ"
DTYPES_OF: dict[str, str] = {
    **dict.fromkeys((*MATRICES, "roots", "simple_roots", "recursion", "spline_filter"), LAPACK),
    **dict.fromkeys(("softmax", "log_softmax", "logsumexp", "layer_norm", "modified", "carlson"), REAL),
    **dict.fromkeys(("elliptic_moment", "polygamma", "log_gamma", "logit_beta"), REAL),
    **dict.fromkeys(("log_gamma_ratio", "logit_beta_ratio"), REAL),
    **dict.fromkeys(("mean", "spherical"), NUMBERS),
    "exponent": REAL,
    **dict.fromkeys(("fitted", "pivot_order"), INTEGERS),
    "guard": LAPACK + "?",
}
OPERANDS = {"log_gamma": 2, "logit_beta": 3, "log_gamma_ratio": 2, "logit_beta_ratio": 3, "normal_between": 3}

FITS: dict[str, Callable[..., bool]] = {
    "reshape": lambda x, *, shape: math.prod(shape) == x.size,
    "transpose": lambda x, *, axes: len(axes) == x.ndim,
    "broadcast_to": lambda x, *, shape: np.broadcast_shapes(x.shape, shape) == shape,
    "concatenate": lambda *xs, axis: len({(*x.shape[:axis], -1, *x.shape[axis + 1 :]) for x in xs}) == 1,
    "stack": lambda *xs: len({x.shape for x in xs}) == 1,
    "contract": _contracts,
    "unslice": lambda x, *, shape, index: x.shape == _item(shape, index),
    "update": lambda x, y, *, index: _assigns(y, _item(x.shape, index)),
    "put_part": lambda z, x, *, imaginary: z.dtype.kind == "c" and _fits(x.shape, z.shape),
    "gather": lambda x, *arrays, template, **_: _gathered(x.shape, arrays, template) is not None,
    "scatter_add": lambda x, *arrays, template, shape, **_: x.shape == _gathered(shape, arrays, template),
    "put": lambda x, y, *arrays, template: _assigns(y, _gathered(x.shape, arrays, template)),
    "winners": lambda *arrays, template, shape: _gathered(shape, arrays, template) is not None,
    "recur": lambda a, b, *, axis: a == b,
    "conv": _convolves,
    "convolve": lambda x, y, *, mode: (
        x.shape[:-1] == y.shape[:-1]
        and x.shape[-1] > 0 < y.shape[-1]
        and (mode == "full" or x.shape[-1] >= y.shape[-1])
    ),
    "argpartition": lambda x, *, axis, kth: all(
        -x.shape[axis] <= k < x.shape[axis] for k in np.asarray(kth, np.int64).ravel().tolist()
    ),
    "rank": _ranks,
    "search": lambda a, v, *, side: a.ndim == 1 or (a.ndim > 1 and v.shape[: a.ndim - 1] == a.shape[:-1]),
    "representative": _represents,
    "guard": _guards,
    "roots": lambda p, *, lead: p.ndim == 1 and lead < p.shape[0],
    "simple_roots": lambda ct, r, p: (
        ct.ndim == r.ndim == p.ndim == 1 and ct.shape == r.shape and p.shape[0] == r.shape[0] + 1
    ),
    "irfft": lambda x, *, axis, norm, n: n > 0 and x.shape[axis] > 0,
    **dict.fromkeys(("fft", "ifft", "rfft"), lambda x, *, axis, norm: x.shape[axis] > 0),
    "solve": _divided,
    "solve_triangular": lambda a, b, **_: a.shape[:-1] == b.shape[:-1] and a.shape[-1] == b.shape[-2],
    "solve_banded": lambda ab, b, *, below, above: (
        ab.shape == (*b.shape[:-2], below + above + 1, b.shape[-2])
    ),
    "sylvester": lambda a, b, q: q.shape == (*a.shape[:-1], b.shape[-1]) and a.shape[:-2] == b.shape[:-2],
    **dict.fromkeys(
        ("frechet", "log_frechet", "regular", "regularized", "minors", "second_minors"),
        lambda *avals, **_: len({a.shape for a in avals}) == 1,
    ),
    "polar": lambda a: a.shape[-2] >= a.shape[-1],
    "riccati": _riccati,
    "recursion": lambda a, u: a.ndim == 1 and u.ndim > 0,
    "spline_filter": lambda x, *, degree, mode: x.ndim > 0,
    "pivot_order": lambda piv: piv.ndim > 0,
    **dict.fromkeys(
        ("max", "min", "nanmax", "nanmin"), lambda x, *, axes: 0 not in (x.shape[i] for i in axes)
    ),
    **dict.fromkeys(("argmax", "argmin"), lambda x, *, axis: x.shape[axis] > 0),
    "threefry": lambda key, count: (
        key.shape[-1:] == count.shape[-1:] == (2,) and key.dtype == count.dtype == np.uint32
    ),
    "max_pool": _slides,
    "window_sum": _slides,
    "window_spread": _slides,
    "layer_norm": _normalizes,
    "draw": _draws,
}


def _demand_kinds(name: str, avals: Avals) -> None:
    """Refuse operands of other dtypes than a primitive takes, or that are no matrices where it takes such."""
    allowed = DTYPES_OF.get(name)
    for a in avals:
        if allowed and a.dtype.char not in allowed:
            raise ValueError(f"{name} takes no operand of dtype {a.dtype}")
    matrices, square = MATRICES.get(name, ("", ""))
    if any(avals[int(i)].ndim < 2 for i in matrices):
        raise ValueError(f"{name} takes matrices, in the last two axes")
    if any(avals[int(i)].shape[-1] != avals[int(i)].shape[-2] for i in square):
        raise ValueError(f"{name} takes square matrices")


# ---- memory ------------------------------------------------------------------------------------------------


def _padded_size(x: Aval, padding: Any, dilation: Any = None) -> int:
    rank = len(padding)
    steps = dilation or (1,) * rank
    extents = (
        max(0, spread(n, u) + low + high)
        for n, u, (low, high) in zip(x.shape[-rank:], steps, padding, strict=True)
    )
    size: int = math.prod(x.shape[:-rank]) * math.prod(extents)
    return size


def _conv_work(x: Aval, w: Aval, *, padding: Any, input_dilation: Any, **p: Any) -> int:
    wide = _padded_size(x, padding, input_dilation)
    count = places(x.shape[2:], w.shape[2:], p["stride"], padding, p["dilation"], input_dilation)
    columns: int = math.prod(x.shape[:2]) * math.prod(w.shape[2:]) * math.prod(count)
    return wide + columns


# Elements, of 16 bytes, that an operation needs beside its operands and results, where they may be many more.
WORK: dict[str, Callable[..., int]] = {
    "conv": _conv_work,
    "max_pool": lambda x, *, padding, **_: _padded_size(x, padding),
    "window_sum": lambda x, *, padding, **_: _padded_size(x, padding),
    "window_spread": lambda x, *, padding, space, **_: _padded_size(
        Aval((*x.shape[: -len(space)], *space), x.dtype), padding
    ),
    "roots": lambda p, **_: p.size**2,
    "winners": lambda *_, shape, **__: math.prod(shape),
    "draw": lambda *_, options, **__: 2 * options.get("a", 0),
}


def work(name: str, avals: Avals, params: Mapping[str, Any]) -> int:
    """Return the bytes that an operation may need beside its operands and results."""
    elements: int = WORK[name](*avals, **params) if name in WORK else 0
    return 16 * elements


def reason(name: str, params: Mapping[str, Any]) -> str:
    """Return why an equation cannot be stored; "" if it can."""
    primitive = PRIMITIVES[name]
    if primitive.unstored:
        return primitive.unstored
    unknown = set() if has_code(primitive) else set(params) - set(PARAMS.get(name, ()))
    return f"the format has no parameter {' and '.join(sorted(unknown))} of it" if unknown else ""


def has_code(primitive: Primitive) -> bool:
    """Return whether the parameter of a primitive is a code: a loop, a branch, or a way back through one."""
    return primitive.lower is not None


def check(name: str, avals: Avals, params: Mapping[str, Any], version: int) -> Primitive:
    """Return the primitive of an equation for operands like `avals`, in a program of a version of the format.

    Raises:
        ValueError: the equation is none.
    """
    if name not in PRIMITIVES:
        with contextlib.suppress(ImportError):  # SciPy's functions are declared when they are first met
            import_module("fgrad.scipy.special")
    if name not in PRIMITIVES:
        raise ValueError(
            f"the operation {name} is not declared here; declare it as where the program was exported "
            "(fgrad.extend) before the program is loaded"
        )
    primitive = PRIMITIVES[name]
    if version < primitive.since:
        raise ValueError(
            f"the program is stored in version {version} of the format, and {name} means another thing since "
            f"version {primitive.since}: export the function again"
        )
    wrong = reason(name, params)
    if wrong:
        raise ValueError(f"{name} cannot be part of a stored program: {wrong}")
    count, optional = signature(primitive)
    count = OPERANDS.get(name, count)
    if count is not None and count != len(avals):
        raise ValueError(f"{name} takes {count} operands, not {len(avals)}")
    if has_code(primitive):
        return primitive
    for k, predicate in PARAMS.get(name, {}).items():
        if k not in params and k in optional:
            continue
        if k not in params or not predicate(params[k], avals):
            raise ValueError(f"{name} has a wrong parameter {k}")
    _demand_kinds(name, avals)
    if name in FITS and not FITS[name](*avals, **params):
        raise ValueError(f"{name}: operands and parameters do not match")
    return primitive


@functools.cache
def signature(primitive: Primitive) -> tuple[int | None, set[str]]:
    """Return how many operands a primitive takes, None for any number, and which parameters are optional."""
    if primitive.body is not None:
        return len(primitive.body.params), set()
    if isinstance(primitive.run, np.ufunc):
        return primitive.run.nin, set()
    parameters = inspect.signature(primitive.run).parameters.values()
    kinds = [p.kind for p in parameters]
    count = sum(
        k in {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD} for k in kinds
    )
    several = inspect.Parameter.VAR_POSITIONAL in kinds
    return None if several else count, {p.name for p in parameters if p.default is not p.empty}
