"""Elementwise primitives: a scalar expression is the whole declaration, and every rule follows from it."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import Any

import numpy as np

from fgrad import config
from fgrad.backend.devices import as_array
from fgrad.core.aval import Aval
from fgrad.core.dispatch import binary, bind, unary
from fgrad.core.primitive import (
    ADDS,
    BILINEAR,
    CHEAP,
    CHOOSES,
    COMMUTATIVE,
    INTEGRAL,
    ITSELF,
    KEEPS_C_ORDER,
    LARGE,
    MEDIUM,
    MOVES,
    NEVER_NEGATIVE_ZERO,
    SELECTS,
    SPREADS,
    SPREADS_FIRST,
    TOTAL,
    TOTAL_OF_FLOATS,
    VJP,
    Pattern,
    Primitive,
    Rule,
    Universal,
    Written,
    by_argument,
    declare,
    flat,
)
from fgrad.core.stored import PLAIN, REAL, Stored
from fgrad.expr.atoms import ATOMS, products
from fgrad.expr.complex_numbers import expressions
from fgrad.expr.derive import chain, gradient
from fgrad.expr.emit import emit_calls, emit_in_place
from fgrad.expr.node import ZERO, Expr, Operand, apply, const, postorder, rewritten, var, variables
from fgrad.locks import lazy
from fgrad.ops.compiled import (
    COMPLEX,
    FLOATS,
    FastComplex,
    FastPower,
    FastUfunc,
    Fused,
    FusedVJP,
    by_rows,
    chosen,
    late,
)
from fgrad.ops.contraction import outer_adjoint
from fgrad.ops.linear import convert, with_rank

_TRAITS = {  # by the flags of atoms
    "m": MOVES, "c": CHEAP, "k": COMMUTATIVE, "z": BILINEAR, "n": NEVER_NEGATIVE_ZERO,
    "a": SPREADS, "f": SPREADS_FIRST, "p": SELECTS, "+": ADDS,
}  # fmt: skip
PARAMS = tuple(map(var, ("x", "y", "z")))
CT, OUT = var("ct"), var("out")


def caller(name: str) -> Rule:
    """Return the function that applies the primitive of an atom to arrays or Tensors."""
    arity = ATOMS[name].arity
    if arity == 1:
        return functools.partial(unary, name)
    return functools.partial(binary if arity == 2 else bind, name)


def of_arrays(name: str) -> Rule:
    """Return the function that computes an atom of plain arrays: NumPy or a compiled loop."""
    rule: Rule = _RAW[name]
    return rule


def declare_atom(name: str) -> Primitive:
    """Add the primitive of one atom."""
    atom = ATOMS[name]
    params = PARAMS[: atom.arity]
    slopes = [s if isinstance(s, Expr) else const(s) for s in atom.slopes(OUT, *params)]
    vjp = _vjp_maker(
        slopes, params, atom.products, fused=atom.fused, large=atom.slope_loops, usual=atom.usual
    )
    body = apply_unshared(name, params)
    run = Fused(params, (body,), atom.reference) if atom.fused else atom.reference
    large: Rule | None = None
    if atom.loops or atom.shared:
        fast = functools.partial(FastUfunc, silent=atom.silent, large_kinds="fd" if atom.shared else "")
        kind = FastPower if name == "power" else fast
        loops = atom.loops.strip("FD")
        large = kind(params, body, run, loops) if loops or atom.shared else run
        if loops != atom.loops:  # complex numbers too
            large = FastComplex(functools.partial(expressions, name), large)
        _RAW[name] = large
    elif atom.broadcasts:  # not in slopes: small ones would wait for the question
        large = by_rows(params, body, run)
    traits = [
        TOTAL_OF_FLOATS if "w" in atom.flags else TOTAL,
        *(trait for flag, trait in _TRAITS.items() if flag in atom.flags),
    ]
    columns: dict[str, Any] = {
        "integers": atom.integers,
        "truths": atom.truths,
        "python": atom.python,
        "large": large,
        "by_rows": atom.broadcasts,
        "written": _INTEGER_POWER if name == "power" else None,
    }
    return _declare(name, params, body, run, vjp, real=not atom.holomorphic, traits=traits, **columns)


def declare_call(
    name: str,
    arguments: Sequence[str],
    run: Rule,
    slopes: Callable[..., Sequence[Operand | None]] | None,
    *,
    title: str,
    real: bool,
    shape: Rule | None = None,
    formula: Callable[..., Expr] | None = None,
    large: Rule | None = None,
    silent: Callable[[], bool] | None = None,
    traits: Iterable[str] = (),
    **columns: Any,
) -> Primitive:
    """Add the primitive of a function that another library computes.

    Args:
        name: the name of the primitive, an identifier.
        arguments: what messages call the operands.
        run: computes it for arrays; where it is no ufunc, `shape` has to be given.
        slopes: (f, *operands) -> df/doperand for every operand, by atoms, such primitives and `declare_word`;
            None where it is not known. Zero cotangents win over infinite slopes. None: zero everywhere.
        title: what messages call the function.
        real: whether the slopes hold for real arguments only.
        shape: (*avals) -> aval; None asks the ufunc `run`.
        formula: (*operands) -> its value by atoms, for compiled loops of real numbers.
        large: what eager mode calls in place of `run` for large arrays.
        silent: whether nobody asks to hear of errors, of which formulas do not tell.
        traits: what else is asked of it.
        **columns: others of `Primitive`.
    """
    params = tuple(var(f"x{i}") for i in range(len(arguments)))
    called = (unary, binary)[len(params) - 1] if len(params) < 3 else bind
    _RAW[name], _ON_NUMBERS[name], _LIFTED[name] = large or run, run, functools.partial(called, name)
    if formula is not None:
        _FORMULAS[name] = formula

    @functools.cache
    def made() -> tuple[Sequence[Operand | None], Callable[[Pattern], VJP | None]]:
        given = slopes(OUT, *params) if slopes else ()
        known = [s if isinstance(s, Expr) else const(s or 0) for s in given]
        products = ("scale",) * len(params)
        return given, _vjp_maker(known, params, products, large="fd", silent=silent, name=name)

    def vjp(pattern: Pattern) -> VJP | None:
        given, make_vjp = made()
        for argument, slope, tracked in zip(arguments, given, pattern, strict=True):
            if tracked and slope is None:
                raise TypeError(
                    f"the derivative of {title} in its argument {argument} is not known. Make {argument} a "
                    f"constant: fgrad.stop_gradient({argument}), or declare a derivative: fgrad.custom_vjp"
                )
        return make_vjp(pattern)

    scalar = None if formula is None else Body(params, formula)
    columns |= {"formula": scalar, "large": large, "mixes": True, "traits": traits}
    return _declare(name, params, None, run, vjp if slopes else flat, real=real, shape=shape, **columns)


def declare_word(name: str, f: Rule, formula: Callable[..., Operand] | None = None) -> None:
    """Let the slopes of `declare_call` call `f`, a function of arrays and Tensors made of primitives.

    Args:
        name: what they call it.
        f: the function.
        formula: the same of real numbers by atoms, for compiled loops.
    """
    if name in _RAW:
        raise ValueError(f"the word {name!r} is already declared")
    _RAW[name] = _ON_NUMBERS[name] = _LIFTED[name] = f
    if formula is not None:
        _FORMULAS[name] = formula


def declare_body(
    name: str, params: tuple[Expr, ...], body: Expr, run: Rule, *, fused: bool = False
) -> Primitive:
    """Add the primitive of a scalar `body`; its slopes are again expressions, so every order exists.

    Args:
        name: the name of the primitive.
        params: the variables, one an operand.
        body: what one element computes.
        run: computes it for arrays.
        fused: whether large arrays are computed by one compiled loop, here and in the reverse step.
    """
    inside = [ATOMS[e.head] for e in postorder(body) if e.args]
    product = "scale" if any("scale" in atom.products for atom in inside) else "multiply"
    real = any(not atom.holomorphic for atom in inside)

    def vjp(pattern: Pattern) -> VJP | None:
        return made()(pattern)

    @functools.cache
    def made() -> Callable[[Pattern], VJP | None]:
        slopes = list(gradient(body, params))
        return _vjp_maker(slopes, params, (product,) * len(params), built=_built_by_dtype, fused=fused)

    if fused:  # fgrad's own, of which a program uses few: their slopes wait until then
        return _declare(name, params, body, Fused(params, (body,), run), vjp, real=real)
    return _declare(name, params, body, run, made(), real=real)


def composed(params: tuple[Expr, ...], body: Expr) -> Rule:
    """Return the kernel that computes `body` by one NumPy call an atom, in the dtype of its operands."""

    @functools.cache
    def typed(dtype: np.dtype[Any]) -> Callable[..., Any]:
        text, constants = emit_calls("run", params, (body,))
        namespace: dict[str, Any] = {name: atom.reference for name, atom in ATOMS.items()}
        namespace |= {name: dtype.type(value) for name, value in constants.items()}
        exec(compile(text, "<fgrad body>", "exec"), namespace)  # noqa: S102 -- our own emitted code
        run: Callable[..., Any] = namespace["run"]
        return run

    def run(*operands: Any) -> Any:
        dtype = floating(operands)
        (y,) = typed(dtype)(*(as_array(x, dtype) for x in operands))
        return y if y.dtype == dtype else y.astype(dtype)

    return run


def floating(operands: Sequence[Any]) -> np.dtype[Any]:
    """Return the dtype of a floating-point result of `operands`."""
    dtype = np.result_type(*(x.dtype if hasattr(x, "dtype") else x for x in operands))
    return dtype if dtype.kind in "fc" else np.dtype(np.float64)


def apply_unshared(name: str, params: Sequence[Expr]) -> Expr:
    """Return the atom `name` of `params`, not simplified away."""
    e = apply(name, *params)
    return e if e.head == name else Expr(name, tuple(params), "")


def _declare(
    name: str,
    params: tuple[Expr, ...],
    body: Expr | None,
    run: Rule,
    vjp: Callable[[Pattern], VJP | None],
    *,
    real: bool,
    shape: Rule | None = None,
    stored: Stored = PLAIN,
    **columns: Any,
) -> Primitive:
    return declare(
        name,
        run=run,
        vjp=vjp,
        shape=shape or functools.partial(_shape, run),
        batch=functools.partial(batch_elementwise, name),
        body=None if body is None else Body(params, body),
        real=real,
        stored=stored,
        **columns,
    )


class Body:
    """What an element-wise primitive computes at one element."""

    def __init__(self, params: tuple[Expr, ...], result: Expr | Callable[..., Expr]) -> None:
        """Take the operands, and the result or what makes it of them when it is first asked for."""
        self.params = params
        self._given = result

    @lazy
    def result(self) -> Expr:
        """The scalar expression of the result."""
        return self._given if isinstance(self._given, Expr) else self._given(*self.params)


@functools.lru_cache(config.cache_entries())
def _compiled(text: str) -> CodeType:
    return compile(text, "<fgrad vjp>", "exec")


def _built(text: str, namespace: dict[str, Any], constants: dict[str, float]) -> Rule:
    namespace = {**namespace, **constants}
    exec(_compiled(text), namespace)  # noqa: S102 -- our own emitted code
    made: Rule = namespace["vjp"]
    return made


def _like(x: Any, ct: Any) -> Any:
    """Return numbers of another kind in the dtype of a cotangent."""
    return convert(x, ct.dtype)


def _whole(x: Any, ct: Any) -> Any:
    """Return integers as such that do not wrap, but stay whole as some orders have to be."""
    return convert(x, np.dtype(np.int64)) if x.dtype.kind in "iub" else x


def _built_by_dtype(text: str, namespace: dict[str, Any], constants: dict[str, float]) -> Rule:
    """Return what `_built` does, with constants of the dtype of the cotangent.

    Python's numbers adopt the dtype of an array beside them, but a body may choose between two of them.
    """

    @functools.cache
    def typed(dtype: np.dtype[Any]) -> Rule:
        return _built(text, namespace, {name: dtype.type(value) for name, value in constants.items()})

    return lambda ct, *saved: typed(ct.dtype)(ct, *saved)


# slopes of these, but not of the value, are as exact in single precision as the arguments are
STEADY = {
    *("var", "const", "scale", "multiply", "multiply_no_nan", "divide", "negative", "exp", "log", "sigmoid"),
    *("real_part", "where", "less", "erfcx", "ndtr"),
}
_WIDER = {np.dtype(narrow): np.dtype(wide) for narrow, wide in ("ed", "fd", "FD")}


def _built_for_calls(
    name: str,
    text: str,
    namespace: dict[str, Any],
    constants: dict[str, float],
    *,
    wide: bool,
    again: bool,
) -> Rule:
    """Return what `_built` does, in the dtype of the cotangent.

    `wide`: of single precision in double, as slopes are often differences of large terms, or products that
    overflow or vanish on the way. `again`: whether they are made of the value, which is then computed in
    double too.
    """
    made = _built(text, {**namespace, "widened": _whole}, constants)
    call = namespace[name]

    def narrowed(x: Any, dtype: np.dtype[Any]) -> Any:
        return convert(x, dtype) if x is not None and x.dtype.kind == dtype.kind and x.dtype != dtype else x

    def rule(ct: Any, *saved: Any) -> tuple[Any, ...]:
        dtype = ct.dtype
        if wide and dtype in _WIDER:
            ct = convert(ct, _WIDER[dtype])
            saved = tuple(
                [convert(x, _WIDER[x.dtype]) if getattr(x, "dtype", None) in _WIDER else x for x in saved]
            )
            if again:
                saved = (call(*saved[1:]), *saved[1:])
        found: tuple[Any, ...] = made(ct, *saved)
        for x in found:
            if x is not None and x.dtype is not dtype:
                return tuple([narrowed(x, dtype) for x in found])
        return found

    return rule


def _is_call(e: Expr) -> bool:
    return bool(e.args)


def _is_factor(p: Expr, e: Expr) -> bool:
    """Return whether `e` is `p` times the cotangent, or without `p`."""
    return e.args in {(CT, p), (p, CT)} or p not in variables(e)


def _vjp_maker(
    slopes: Sequence[Expr],
    params: tuple[Expr, ...],
    products: Sequence[str],
    built: Callable[..., Rule] = _built,
    *,
    fused: bool = False,
    large: str = "",
    silent: Callable[[], bool] | None = None,
    usual: Rule | None = None,
    name: str = "",
) -> Callable[[Pattern], VJP | None]:
    """Return the `vjp` of a primitive with these slopes: a function per pattern of tracked arguments.

    One compiled loop computes it for large arrays, from MEDIUM on where they are of the dtypes in `large`.
    Of smaller ones `usual` computes the slopes in fewer calls, where it can. `name`: of what
    another library computes.
    """
    if all(s is ZERO for s in slopes):
        return flat

    def vjp(pattern: Pattern) -> VJP | None:
        terms = [chain(CT, s, p) for s, p, tracked in zip(slopes, products, pattern, strict=True) if tracked]
        results = [None if t is ZERO else t for t in terms]
        if results.count(None) == len(results):
            return None
        needed = variables(*(r for r in results if r is not None))
        inside = {e.head for e in postorder(*(r for r in results if r is not None))}
        wide = bool(name) and (OUT in needed or not inside <= STEADY)
        again = wide and OUT in needed
        kept = [v for v in (OUT, *params) if again or v in needed]
        build = functools.partial(_built_for_calls, name, wide=wide, again=again) if name else built
        keep = tuple(0 if v is OUT else params.index(v) + 1 for v in kept)
        # integers wrap in their own products, and quotients of them are double whatever is beside them;
        # real numbers have no logarithm where they are negative, beside complex ones they do
        logs = "log" in inside
        beside = [
            p for p, tracked in zip(params, pattern, strict=True) if p in kept and (logs or not tracked)
        ]
        mixed = [p for p in beside if any(r is not None and not _is_factor(p, r) for r in results)]
        mixed = mixed if len(params) > 1 else []
        text, constants = emit_calls("vjp", (CT, *kept), results, mixed)
        lifted, raw = (build(text, space, constants) for space in (_LIFTED, _RAW))
        number = build(text, _ON_NUMBERS, constants)
        loop = None if fused else _as_loop(results)
        least = MEDIUM if large else LARGE
        space = {**_RAW, "number": number, "generic": np.generic, "LEAST": least}
        if len(params) == 1 and build is _built:  # no broadcasting: intermediate results may share memory
            for limited in (False, True) if loop else (False,):
                other = FusedVJP((CT, *kept), results, raw, large or "fd", least) if limited else number
                text, constants = emit_in_place(
                    "vjp", (CT, *kept), results, "other", number="number" if limited else ""
                )
                raw = built(text, {**space, "other": other}, constants)
        elif loop:
            other = FusedVJP((CT, *kept), loop, raw, large or "fd", least, silent)
            if results == [CT * p for p in reversed(params)]:
                other = _of_factors(other)
            text, constants = emit_calls("vjp", (CT, *kept), results, mixed, number="number", large="other")
            raw = build(text, {**space, "other": other}, constants)
        elif sum(map(_is_call, postorder(*(r for r in results if r is not None)))) > 1:
            text, constants = emit_calls("vjp", (CT, *kept), results, mixed, number="number")
            raw = build(text, space, constants)
        if fused:
            raw = FusedVJP((CT, *kept), results, raw, large or "fd", MEDIUM if large else LARGE)
        if usual is not None and kept == [OUT, *params]:
            raw = _unless_usual(usual, pattern, raw, least)
        return VJP(lifted, raw=raw, keep=keep, transpose=ITSELF, makes=True)

    return vjp


def _unless_usual(usual: Rule, pattern: Pattern, vjp: Rule, least: int) -> Rule:
    """Return the reverse step that multiplies by the slopes that `usual` gives; `vjp` where it gives none."""

    def call(ct: Any, *saved: Any) -> Any:
        if ct.__class__ is np.ndarray and 1 < ct.size < least and (slopes := usual(*saved)) is not None:
            return [np.multiply(ct, s) for s, tracked in zip(slopes, pattern) if tracked]  # noqa: B905
        return vjp(ct, *saved)

    return call


def _of_factors(vjp: Rule) -> Rule:
    """Return the reverse step of a product, which makes no array of the shape of one that spreads vectors."""

    def call(ct: Any, x: Any, y: Any) -> Any:
        spreads = x.__class__ is y.__class__ is ct.__class__ is np.ndarray and x.size * y.size == ct.size
        if spreads and x.dtype == y.dtype == ct.dtype and (ct.dtype in FLOATS or ct.dtype in COMPLEX):
            return outer_adjoint(ct, x, y)
        return vjp(ct, x, y)

    return call


def _as_loop(results: Sequence[Expr | None]) -> list[Expr | None] | None:
    """Return what a compiled loop computes in the place of a reverse step.

    None where it gains nothing, or where something in it is known to libraries alone.
    """
    given = [r for r in results if r is not None]
    inside = [e for e in postorder(*given) if e.args]
    if len(inside) < 2 and not any(e.head in {"scale", "multiply_no_nan"} for e in inside):
        return None  # NumPy has one loop for it
    if not all(e.head in ATOMS or e.head in _FORMULAS for e in inside):
        return None
    made = iter(rewritten(given, _FORMULAS))
    known = [None if r is None else next(made) for r in results]
    return [const(e) if isinstance(e, float) else e for e in known]


def _shape(run: Rule, *operands: Any) -> Aval:
    shape = np.broadcast_shapes(*(getattr(a, "shape", ()) for a in operands))
    kinds = tuple(
        a.dtype if hasattr(a, "dtype") else np.dtype(bool) if a is True or a is False else type(a)
        for a in operands
    )
    if isinstance(run, np.ufunc):
        return Aval(shape, run.resolve_dtypes((*kinds, None))[-1])
    return Aval(shape, _dtype_of(run, kinds))


@functools.cache
def _dtype_of(run: Rule, kinds: tuple[Any, ...]) -> np.dtype[Any]:
    """Return the dtype that a function gives for dtypes, or types of Python's numbers: only it knows."""
    with np.errstate(all="ignore"):
        dtype: np.dtype[Any] = np.asarray(
            run(*(np.ones((), k) if isinstance(k, np.dtype) else k(1) for k in kinds))
        ).dtype
    return dtype


def batch_elementwise(name: str, mapped: tuple[bool, ...], *values: Any, **params: Any) -> Any:
    """Apply a primitive whose operands broadcast to examples along a first axis."""
    if len(values) == 1:
        return bind(name, *values, **params)
    ranks = [
        len(v.shape) if m else len(getattr(v, "shape", ())) + 1 for m, v in zip(mapped, values, strict=True)
    ]
    rank, full = max(ranks), list(values)
    for i, m in enumerate(mapped):
        if m and ranks[i] != rank:
            full[i] = with_rank(values[i], rank)
    return bind(name, *full, **params)


def _shape_where(c: Any, x: Any, y: Any) -> Aval:
    chosen = _shape(lambda x, y: np.where(True, x, y), x, y)  # whatever the dtype of the condition is
    return Aval(np.broadcast_shapes(getattr(c, "shape", ()), chosen.shape), chosen.dtype)


def _complex_absolute_slope(out: Any, x: Any) -> Any:
    limits = np.finfo(out.dtype)  # the reciprocal of a subnormal number overflows
    up = bind("where", bind("less", out, limits.tiny), 1 / limits.eps, limits.dtype.type(1))
    return bind("conjugate", x) * up / bind("where", bind("equal", out, 0), 1, out * up)


def _absolute(ct: Any, out: Any, x: Any) -> Any:
    if x.dtype.kind == "c":
        return ct * _complex_absolute_slope(out, x)
    return ct * unary("sign", x)


def _declare_table() -> None:
    for name in ATOMS:
        if name != "where":
            declare_atom(name)
    _declare(
        "where",
        PARAMS,
        apply("where", *PARAMS),
        np.where,
        by_argument(
            None,
            lambda ct, x: bind("where", x, ct, 0),
            lambda ct, x: bind("where", x, 0, ct),
            transpose=ITSELF,
        ),
        real=False,
        shape=_shape_where,
        integers=ATOMS["where"].integers,
        truths=ATOMS["where"].truths,
        traits={CHEAP, TOTAL, KEEPS_C_ORDER, SELECTS, CHOOSES},
        large=chosen,
    )
    x = PARAMS[:1]
    _declare(
        "absolute",
        x,
        apply("fabs", *x),
        np.absolute,
        by_argument(_absolute, transpose=ITSELF),
        real=False,
        integers=ATOMS["fabs"].integers,
        python=int,
        traits={CHEAP, TOTAL, NEVER_NEGATIVE_ZERO},
    )
    pair = PARAMS[:2]
    for params, ufunc, integers, truths, python in (
        (pair, np.bitwise_and, "({} & {})", "({} and {})", bool),
        (pair, np.bitwise_or, "({} | {})", "({} or {})", bool),
        (pair, np.bitwise_xor, "({} ^ {})", "({} != {})", bool),
        (x, np.invert, "~{}", "(not {})", int),
        (pair, np.left_shift, "", "", int),
        (pair, np.right_shift, "", "", int),
        (pair, np.gcd, "", "", None),
        (pair, np.lcm, "", "", None),
    ):
        columns: dict[str, Any] = {
            "integers": integers,
            "truths": truths,
            "python": python,
            "traits": {INTEGRAL},
        }
        _declare(ufunc.__name__, params, None, ufunc, flat, real=False, **columns)
    _declare("bitwise_count", x, None, np.bitwise_count, flat, real=False)
    _declare("spacing", x, None, np.spacing, flat, real=True)
    _declare("ldexp", pair, None, np.ldexp, by_argument(_ldexp, None), real=True)
    part = apply("where", apply("isinf", *x), const(0), x[0] - apply("trunc", *x))
    _declare(
        "fraction",
        x,
        apply("copysign", part, *x),
        lambda x: np.modf(x)[0],
        by_argument(lambda ct: ct),
        real=True,
        shape=lambda x: Aval(x.shape, np.modf.resolve_dtypes((x.dtype, None, None))[1]),
    )
    _declare(
        "exponent",
        x,
        None,
        lambda x: np.frexp(x)[1],
        flat,
        real=True,
        shape=lambda x: Aval(x.shape, np.dtype(np.intc)),
        stored=Stored(dtypes=REAL),
        universal=Universal(np.frexp, 1),
    )


def _ldexp(ct: Any, y: Any) -> Any:
    return bind("ldexp", ct, convert(y, np.dtype(np.intc)))


_RAW: dict[str, Any] = {"widened": _like, **{name: atom.reference for name, atom in ATOMS.items()}}
_RAW["where"], (_RAW["scale"], _RAW["multiply_no_nan"]) = chosen, products(chosen)
_ON_NUMBERS: dict[str, Any] = {  # operators take a tenth of the time of ufuncs there
    **_RAW,
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
    "divide": operator.truediv, "negative": operator.neg,
}  # fmt: skip
_FORMULAS: dict[str, Callable[..., Operand]] = {}  # of calls and words, by atoms
_LIFTED: dict[str, Any] = {"widened": _like, **{name: caller(name) for name in ATOMS}}
_INTEGER_POWER = Written(
    late("fgrad.lax.running", "integer_power"),
    lambda x, y: x.dtype.kind in "biu" and y.dtype.kind in "biu",
)
_declare_table()
