"""How a function of SciPy becomes a primitive: a line of a table says its slopes, SciPy computes its values.

Slopes are formulas over other primitives, so derivatives of every order exist where a family is closed.
Sources are sections of the Digital Library of Mathematical Functions (dlmf.nist.gov) where nothing else is
said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from fgrad.compat.scipy import hidden_ufunc, hidden_ufuncs_are_found
from fgrad.core.aval import Aval
from fgrad.core.dispatch import bind
from fgrad.core.primitive import CANCELS, MEDIUM, Primitive, Rule, Universal, Written, flat, register
from fgrad.extend.engine import (
    Expr,
    FastUfunc,
    Operand,
    Shared,
    as_array,
    as_value,
    declare_call,
    declare_word,
    fn,
    trusted,
    var,
    where,
)
from fgrad.scipy.special.formulas import CANCELLING, FORMULAS

Slopes = Callable[..., Any]  # a sequence of expressions, numbers and None


class Row(NamedTuple):
    """A line of a table."""

    arguments: str  # their names, as SciPy has them
    slopes: Slopes | None  # (f, *arguments) -> df/dargument, None where not known; None: zero everywhere
    source: str  # of the slopes
    complex: bool = False  # whether the slopes hold for complex arguments
    output: tuple[str, int] | None = None  # (ufunc, which of its outputs), where it has several
    run: Rule | None = None  # what computes it, where it is no ufunc
    whole: bool = False  # whether the first argument has to be an integer
    loops: Universal | None = None  # what computes it in compiled programs, where `run` does elsewhere
    written: Written | None = None  # how they write it in other primitives
    title: str = ""  # SciPy's name, where it is another


# whose loops of floats warn where these operands are not whole, or raise, whatever `errstate` says
SPEAKING = {
    **dict.fromkeys(("yn", "kn", "expn", "pdtri"), (0,)),
    **dict.fromkeys(("nbdtr", "nbdtrc", "nbdtri"), (0, 1)),
    **dict.fromkeys(("bdtr", "bdtrc", "bdtri"), (1,)),
}
FINITE = {"pbdv", "pbvv"}  # which run out of memory where orders are infinite
LARGEST = 1e6  # of their orders that are computed without asking
PRIMITIVES_OF: dict[str, tuple[str, ...]] = {}  # name of a function -> its primitives, one for each output
TABLE: dict[str, Row] = {}  # the lines of all tables


# what conditions of slopes that hold for complex arguments are made of
declare_word("modulus", lambda z: bind("absolute", z), fn.fabs)
declare_word("real_part", lambda z: bind("real", z) if z.dtype.kind == "c" else z, lambda z: z)
declare_word(
    "imag_part",
    lambda z: bind("imag", z) if z.dtype.kind == "c" else bind("where", True, 0.0, z),
    lambda _: 0.0,
)


def either(
    c: Expr, x: Operand, yes: Callable[[Any], Any], no: Callable[[Any], Any], *, inside: float, outside: float
) -> Expr:
    """Return yes(x) where `c` holds, else no(x), each computed where it is meant or at a harmless point.

    Args:
        c: the condition.
        x: the point.
        yes: of points where `c` holds.
        no: of the others.
        inside: where `yes` is harmless, to every order.
        outside: where `no` is.
    """
    return where(c, yes(where(c, x, inside)), no(where(c, outside, x)))


def zero_where(c: Expr, formula: Callable[..., Any], *xs: Expr, at: float) -> Expr:
    """Return zero where `c` holds, else formula(*xs); where it is not meant it is computed at `at`."""
    return where(c, 0, formula(*(where(c, at, x) for x in xs)))


def zero_unless(c: Expr, formula: Callable[..., Any], *xs: tuple[Expr, float]) -> Expr:
    """Return formula(*xs) where `c` holds, else zero: each of `xs` comes with a harmless value."""
    return where(c, formula(*(where(c, x, harmless) for x, harmless in xs)), 0)


def universal(name: str) -> np.ufunc | None:
    """Return SciPy's universal function called `name`, which functions of other namespaces may hide."""
    found = getattr(special, name, None)
    found = getattr(found, "__wrapped__", found)
    return found if isinstance(found, np.ufunc) else None


def declare(table: Mapping[str, Row]) -> None:
    """Declare the primitives of a table whose functions this SciPy has, and those that only slopes need."""
    for name, row in table.items():
        function = row.output[0] if row.output else name
        ufunc = universal(function) or getattr(special, function, None)
        if ufunc is None and row.run is None:
            continue
        run, shape = _computed(ufunc, row)
        arguments = row.arguments.split()
        declare_call(
            name,
            arguments,
            run,
            row.slopes,
            title=f"scipy.special.{row.title or function}",
            real=not row.complex,
            shape=shape,
            formula=FORMULAS.get(name),
            large=_large(name, run, len(arguments)),
            silent=_is_silent,
            traits={CANCELS} if name in CANCELLING else (),
            universal=_loops(ufunc, row),
            written=row.written or _written(name, function, ufunc, row),
        )
        if function in vars(special):
            PRIMITIVES_OF[function] = (*PRIMITIVES_OF.get(function, ()), name)
        TABLE[name] = row


def _loops(ufunc: Any, row: Row) -> Universal | None:
    """Return the universal function that computes a primitive."""
    if row.loops is not None:
        return row.loops
    if row.run is not None or not isinstance(ufunc, np.ufunc):
        return None
    known = row.whole or ufunc.__name__ in SPEAKING or ufunc.__name__ in FINITE
    return Universal(ufunc, row.output[1] if row.output else 0, known)


def loops_alone(name: str, ufunc: np.ufunc, output: int = 0) -> Callable[..., Any]:
    """Return what binds a primitive of compiled programs, for operands that its loops take without a word."""
    place = f"{name}.loop"

    def shape(*operands: Any) -> Aval:
        dtypes = ufunc.resolve_dtypes((*(x.dtype for x in operands), *(None,) * ufunc.nout))
        return Aval(np.broadcast_shapes(*(x.shape for x in operands)), dtypes[ufunc.nin + output])

    register(
        Primitive(
            place,
            run=lambda *xs: ufunc(*xs)[output] if ufunc.nout > 1 else ufunc(*xs),
            vjp=flat,
            shape=shape,
            universal=Universal(ufunc, output),
            stored="compilers write it",
        )
    )
    return lambda *xs: bind(place, *xs)


def whole(x: Any) -> tuple[Any, Any]:
    """Return numbers cut to integers, as SciPy cuts them, and where they are not numbers."""
    x = as_value(x)
    if x.dtype.kind in "iu":
        return x, None
    lost = np.isnan(x)
    return np.where(lost, 0, np.trunc(x)).astype(np.int64), lost


def _written(name: str, function: str, ufunc: Any, row: Row) -> Written | None:
    """Return how a compiled program calls loops that would speak: with integers, or with what is finite."""
    if not isinstance(ufunc, np.ufunc) or not (function in SPEAKING or function in FINITE):
        return None
    loop = loops_alone(name, ufunc, row.output[1] if row.output else 0)

    def cut(*xs: Any) -> Any:
        given, nan = list(xs), []
        for i in SPEAKING[function]:
            given[i], lost = whole(xs[i])
            nan += [] if lost is None else [(lost, xs[i])]
        found = loop(*map(as_value, given))
        for lost, x in nan:
            found = np.where(lost, x, found)
        return found

    def finite(v: Any, x: Any) -> Any:
        v = as_value(v) * 1.0
        large = np.abs(v) > LARGEST
        return trusted(loop(np.where(large, 0.0, v), as_value(x)), np.logical_not(large))

    return Written(finite if function in FINITE else cut)


def hidden(name: str, **options: Any) -> Universal | None:
    """Return the universal function behind a function of SciPy, if it is found."""
    return Universal(hidden_ufunc(name), **options) if hidden_ufuncs_are_found() else None


def constants(function: str) -> set[int]:
    """Return which arguments of a function have no known derivative."""
    found = set()
    for row in (TABLE[name] for name in PRIMITIVES_OF.get(function, ())):
        count = len(row.arguments.split())
        slopes = row.slopes(*map(var, ("f", *"abcdefgh"[:count]))) if row.slopes else (0,) * count
        found |= {i for i, slope in enumerate(slopes) if slope is None}
    return found


_NUMBERS = (np.generic, float, int, complex)


def _large(name: str, run: Rule, count: int) -> Rule | None:
    """Return what computes large arrays, unless SciPy is to speak of errors: the formula, or all threads."""
    formula = FORMULAS.get(name)
    fast: Rule
    if formula is not None:
        params = tuple(var(f"x{i}") for i in range(count))
        fast = FastUfunc(params, formula, run, "d" if name in CANCELLING else "fd", silent=True)
    elif isinstance(run, np.ufunc) and run.nout == 1:
        fast = Shared(run)
    else:
        return None

    def large(*operands: Any) -> Any:
        for x in operands:
            is_small = x.size < MEDIUM if x.__class__ is np.ndarray else isinstance(x, _NUMBERS)
            if not is_small:
                return (fast if _is_silent() else run)(*operands)
        return run(*operands)

    return large


def _is_silent() -> bool:
    """Return whether SciPy is to say nothing of errors."""
    ways = special.geterr()
    return all(ways[error] == "ignore" for error in ways if error != "memory")  # which it raises


def _computed(ufunc: Any, row: Row) -> tuple[Rule, Rule | None]:
    """Return what computes a primitive, and what says the shape and dtype of it."""
    if row.run is not None:
        return row.run, _probe(row.run)
    if row.output is not None:
        place = row.output[1]
        return lambda *xs: ufunc(*xs)[place], _shape(ufunc, place, row)
    if row.whole:
        return lambda n, *xs: ufunc(integers(n), *xs), _shape(ufunc, 0, row)
    return ufunc, None


def integers(n: Any) -> Any:
    """Return numbers of integral value as integers, which is what SciPy takes there.

    Raises:
        TypeError: they are complex.
        ValueError: one is not integral.
    """
    n = as_array(n)
    if n.dtype.kind == "c":
        raise TypeError("the order must be an integer, not complex")
    whole = n.astype("l")
    if not np.all(whole == n):
        raise ValueError(f"the order must be an integer, not {n}")
    return whole


def _probe(run: Rule) -> Rule:
    """Return what says the shape and dtype of a function that is no ufunc: it looks at one element."""

    def shape(*operands: Any) -> Aval:
        ones = [np.ones((), x.dtype) if hasattr(x, "dtype") else x for x in operands]
        return Aval(
            np.broadcast_shapes(*(getattr(x, "shape", ()) for x in operands)), np.asarray(run(*ones)).dtype
        )

    return shape


def _shape(ufunc: Any, place: int, row: Row) -> Rule:
    def shape(*operands: Any) -> Aval:
        kinds = [x.dtype if hasattr(x, "dtype") else type(x) for x in operands]
        if row.whole:
            if getattr(kinds[0], "kind", "") == "c" or kinds[0] is complex:
                raise TypeError(
                    f"scipy.special.{ufunc.__name__} takes integers as orders, not complex numbers"
                )
            kinds[0] = np.dtype("l")
        dtypes = ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout))
        return Aval(
            np.broadcast_shapes(*(getattr(x, "shape", ()) for x in operands)), dtypes[ufunc.nin + place]
        )

    return shape
