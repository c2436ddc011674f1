"""What programs that are stored may say: the parameters of every row, and what they have to be.

Compiled code trusts a program, so a program from a file is held to this table; the rules for shapes, which
trust who wrote the parameters, then say what each equation gives.
"""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from fgrad.core.aval import Aval, Shape
from fgrad.core.primitive import ROWS, Primitive
from fgrad.ops.indexing import HOLE
from fgrad.ops.windows import places

Avals = Sequence[Aval]
Check = Callable[[Any, Avals], bool]

SOLVER = "a solver is Python, and Python is not stored"
REFUSED = {
    "custom": "a derivative of your own is Python, and Python is not stored",
    "effect": "what it calls is Python, and Python is not stored",
    "pure_callback": "what it calls is Python, and Python is not stored",
    "jit": "it belongs to one process",
    **dict.fromkeys(
        ("to_device", "staged_to_device", "to_device_of"),
        "devices belong to a machine, and a stored program to none",
    ),
    "lax.custom_root": SOLVER,
    "lax.custom_linear_solve": SOLVER,
    "lax.opaque": SOLVER,
    **dict.fromkeys(
        ("psum", "all_gather", "psum_scatter", "ppermute"),
        "it belongs to the vmap or the processes around it",
    ),
    **dict.fromkeys(("transfer", "reduce", "replicate"), "it belongs to the processes of one run"),
}
CODES = frozenset({"lax.cond", "lax.scan", "lax.while_loop", "lax.pullback"})  # whose parameter is a code


def _one_of(*words: str | None) -> Check:
    return lambda v, _: (v is None or type(v) is str) and v in words


def _typed(*kinds: type) -> Check:
    return lambda v, _: type(v) in kinds


def _is_int(v: Any, least: float = -math.inf, below: float = math.inf) -> bool:
    return type(v) is int and least <= v < below


def _from(least: float) -> Check:
    """Return whether a parameter is a tuple of integers that are not smaller."""
    return lambda v, _: type(v) is tuple and all(_is_int(n, least) for n in v)


SIZES, STEPS, PLACES = _from(0), _from(1), _from(-math.inf)


def _axis(v: Any, avals: Avals) -> bool:
    return _is_int(v, 0, avals[0].ndim)


def _axes(v: Any, avals: Avals) -> bool:
    return type(v) is tuple and all(_axis(i, avals) for i in v) and len(set(v)) == len(v)


def _count(v: Any, _: Avals) -> bool:
    return _is_int(v, 0)


def _pads(v: Any, _: Avals) -> bool:
    return type(v) is tuple and all(PLACES(p, _) and len(p) == 2 for p in v)


def _is_entry(p: Any) -> bool:
    if isinstance(p, slice):
        return all(n is None or _is_int(n) for n in (p.start, p.stop, p.step))
    return p is None or p is Ellipsis or _is_int(p)


def _index(v: Any, _: Avals) -> bool:
    return type(v) is tuple and all(map(_is_entry, v))


def _template(v: Any, _: Avals) -> bool:
    return type(v) is tuple and all(p is HOLE or type(p) is bool or _is_entry(p) for p in v)


def _dtype(v: Any, _: Avals) -> bool:
    return isinstance(v, np.dtype)


def _tolerance(v: Any, _: Avals) -> bool:
    numbers = isinstance(v, np.ndarray | np.generic) and v.dtype.kind == "f"
    return v is None or type(v) in {int, float} or numbers


def _powers(v: Any, avals: Avals) -> bool:
    return type(v) is tuple and len(v) == len(avals) and all(type(p) is float and 0 < p < 50 for p in v)


def _kth(v: Any, _: Avals) -> bool:
    numbers = isinstance(v, np.ndarray | np.generic) and v.dtype.kind in "iu"
    return numbers or _is_int(v) or (type(v) in {tuple, list} and all(map(_is_int, v)))


def _ufunc(v: Any, _: Avals) -> bool:
    run = ROWS[v].run if type(v) is str and v in ROWS else None
    return isinstance(run, np.ufunc) and run.nin == 2


def _names(v: Any, _: Avals) -> bool:
    return type(v) is tuple and all(type(s) is str for s in v)


TEXT, FLAG, NUMBER, OPTIONS = _typed(str), _typed(bool), _typed(int, float, np.float64), _typed(dict)
NORM = _one_of(None, "backward", "ortho", "forward")
METHODS = _one_of("binomial", "choice", "multinomial", "permutation", "poisson", "standard_gamma")

WINDOWS: dict[str, Check] = {"window": STEPS, "stride": STEPS, "padding": _pads}
CONV: dict[str, Check] = {
    "stride": STEPS,
    "padding": _pads,
    "dilation": STEPS,
    "input_dilation": STEPS,
    "groups": _count,
}
GATHERS: dict[str, Check] = {"template": _template, "unique": FLAG}

PARAMS: dict[str, dict[str, Check]] = {
    **{row: {"shape": SIZES} for row in ("reshape", "broadcast_to")},
    **{
        row: {"axes": _axes}
        for row in (
            *("transpose", "sum", "mean", "prod", "max", "min", "nanmax", "nanmin"),
            *("softmax", "log_softmax", "logsumexp"),
        )
    },
    **{
        row: {"axis": _axis}
        for row in (*("cumsum", "cumprod", "recur", "concatenate", "unstack", "argmax", "argmin"),)
    },
    "convert": {"dtype": _dtype},
    "fitted": {"dtype": _dtype},
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
    "layer_norm": {"rank": _count, "eps": NUMBER},
    "conv": CONV,
    "max_pool": WINDOWS,
    "window_sum": WINDOWS,
    "window_spread": {**WINDOWS, "space": SIZES},
    "convolve": {"mode": _one_of("full", "same", "valid")},
    **{row: {"axis": _axis, "norm": NORM} for row in ("fft", "ifft", "rfft")},
    "irfft": {"axis": _axis, "norm": NORM, "n": _count},
    "solve": {"check": _one_of("", "qr", "eig", "det")},
    "cholesky": {"upper": FLAG},
    "qr": {"mode": _one_of("reduced", "complete", "r")},
    "eigh": {"uplo": _one_of("L", "U")},
    "svd": {"full_matrices": FLAG},
    "pinv": {"rcond": _tolerance, "hermitian": FLAG},
    "guard": {"kind": TEXT, "what": TEXT, "both": FLAG, "strict": FLAG, "second": FLAG, "look": FLAG},
    "roots": {"lead": _count},
    "matrix_function": {
        "function": _one_of("expm", "logm", "sqrtm", "power"),
        "exponent": _typed(float),
        "to_complex": FLAG,
    },
    **{row: {"function": _one_of("logm", "sqrtm", "power")} for row in ("regular", "regularized")},
    "solve_triangular": {"lower": FLAG, "unit": FLAG},
    "solve_banded": {"below": _count, "above": _count},
    "ldl": {"lower": FLAG, "hermitian": FLAG},
    "riccati": {"discrete": FLAG},
    "spline_filter": {"degree": _count, "mode": _one_of("mirror", "reflect", "grid-wrap")},
    **{row: {"n": _count} for row in ("spherical", "modified", "polygamma")},
    **{row: {"index": PLACES} for row in ("log_gamma_ratio", "logit_beta_ratio")},
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


def _fits(value: Shape, target: Shape) -> bool:
    """Return whether a value can be assigned."""
    extra = max(0, len(value) - len(target))
    return math.prod(value[:extra]) == 1 and np.broadcast_shapes(value[extra:], target) == target


def _gathered(shape: Shape, arrays: Avals, template: Any) -> Shape:
    """Return the shape that index arrays give."""
    if sum(p is HOLE for p in template) != len(arrays) or any(a.dtype.kind not in "iu" for a in arrays):
        raise ValueError("index arrays are missing or not integers")
    holes = iter([np.broadcast_to(np.zeros((), np.intp), a.shape) for a in arrays])
    index = tuple(next(holes) if p is HOLE else p for p in template)
    return _item(tuple(n or 1 for n in shape), index)


def _contracts(x: Aval, y: Aval, *, a: str, b: str, out: str) -> bool:
    lengths = dict(zip(a + b, (*x.shape, *y.shape), strict=True))
    return (
        all(len(set(s)) == len(s) and s.isalpha() for s in (a, b, out) if s)
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


FITS: dict[str, Callable[..., bool]] = {
    "reshape": lambda x, *, shape: math.prod(shape) == x.size,
    "transpose": lambda x, *, axes: len(axes) == x.ndim,
    "broadcast_to": lambda x, *, shape: np.broadcast_shapes(x.shape, shape) == shape,
    "concatenate": lambda *xs, axis: len({(*x.shape[:axis], -1, *x.shape[axis + 1 :]) for x in xs}) == 1,
    "stack": lambda *xs: len({x.shape for x in xs}) == 1,
    "contract": _contracts,
    "unslice": lambda x, *, shape, index: _fits(x.shape, _item(shape, index)),
    "update": lambda x, y, *, index: _fits(y.shape, _item(x.shape, index)),
    "put_part": lambda z, x, *, imaginary: z.dtype.kind == "c" and _fits(x.shape, z.shape),
    "gather": lambda x, *arrays, template, **_: _gathered(x.shape, arrays, template) is not None,
    "scatter_add": lambda x, *arrays, template, shape, **_: _fits(
        x.shape, _gathered(shape, arrays, template)
    ),
    "put": lambda x, y, *arrays, template: _fits(y.shape, _gathered(x.shape, arrays, template)),
    "winners": lambda *arrays, template, shape: _gathered(shape, arrays, template) is not None,
    "recur": lambda a, b, *, axis: a == b,
    "conv": _convolves,
    "solve_triangular": lambda a, b, **_: a.shape[:-1] == b.shape[:-1] and a.shape[-1] == b.shape[-2],
    "solve_banded": lambda ab, b, *, below, above: ab.shape[-2:] == (below + above + 1, b.shape[-2]),
    "sylvester": lambda a, b, q: q.shape == (*a.shape[:-1], b.shape[-1]) and a.shape[:-2] == b.shape[:-2],
    **dict.fromkeys(
        ("frechet", "log_frechet", "regular", "regularized"), lambda a, e, **_: a.shape == e.shape
    ),
    "recursion": lambda a, u: a.ndim == 1 and u.ndim > 0,
    "max_pool": _slides,
    "window_sum": _slides,
    "window_spread": _slides,
    "layer_norm": _normalizes,
    "draw": lambda key, *operands, names, **_: len(names) == len(operands) and key.shape[-1:] == (2,),
}


def reason(row: str, params: Mapping[str, Any]) -> str:
    """Return why an equation cannot be stored; "" if it can."""
    if row in REFUSED:
        return REFUSED[row]
    unknown = set() if row in CODES else set(params) - set(PARAMS.get(row, ()))
    return f"the format has no parameter {' and '.join(sorted(unknown))} of it" if unknown else ""


def check(name: str, avals: Avals, params: Mapping[str, Any]) -> Primitive:
    """Return the row of an equation for operands like `avals`.

    Raises:
        ValueError: the equation is none.
    """
    if name not in ROWS:
        with contextlib.suppress(ImportError):  # SciPy's functions are declared when they are first met
            import_module("fgrad.scipy.special")
    if name not in ROWS:
        raise ValueError(
            f"the operation {name} is not declared here; declare it as where the program was exported "
            "(fgrad.extend) before the program is loaded"
        )
    row = ROWS[name]
    wrong = reason(name, params)
    if wrong:
        raise ValueError(f"{name} cannot be part of a stored program: {wrong}")
    count, optional = signature(row)
    if count is not None and count != len(avals):
        raise ValueError(f"{name} takes {count} operands, not {len(avals)}")
    if name in CODES:
        return row
    for k, predicate in PARAMS.get(name, {}).items():
        if k not in params and k in optional:
            continue
        if k not in params or not predicate(params[k], avals):
            raise ValueError(f"{name} has a wrong parameter {k}")
    if name in FITS and not FITS[name](*avals, **params):
        raise ValueError(f"{name}: operands and parameters do not match")
    return row


def signature(row: Primitive) -> tuple[int | None, set[str]]:
    """Return how many operands a row takes, None if any number, and which parameters may be left out."""
    if row.body is not None:
        return len(row.body.params), set()
    if isinstance(row.run, np.ufunc):
        return row.run.nin, set()
    parameters = inspect.signature(row.run).parameters.values()
    kinds = [p.kind for p in parameters]
    count = sum(
        k in {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD} for k in kinds
    )
    several = inspect.Parameter.VAR_POSITIONAL in kinds
    return None if several else count, {p.name for p in parameters if p.default is not p.empty}
