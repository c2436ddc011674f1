"""Decomposition: composite primitives become those that kernels know, constant arrays become inputs."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad.compiler.concatenation import is_joined
from fgrad.compiler.elements import SMALL, loop_dtypes
from fgrad.compiler.fuse import holds, is_fusable
from fgrad.compiler.library import INDEXED, ON_PAIRS, applied_by, is_harmless, is_native
from fgrad.compiler.products import arranged, is_inline
from fgrad.compiler.simplify.constants import cast
from fgrad.core.aval import Aval, aval_of
from fgrad.core.primitive import ASSEMBLES, PRIMITIVES, TRANSPOSES
from fgrad.core.program import Equation, Program, Var, applied, aval_out
from fgrad.core.rewriting.operations import Operations
from fgrad.core.tensor import Tensor
from fgrad.kernels import native, ufuncs, vm
from fgrad.ops.indexing import HOLE, filled


class Plain(NamedTuple):
    """A program without composite primitives and constant arrays."""

    program: Program
    constants: dict[Var, np.ndarray[Any, Any]]  # inputs besides those of the program
    checks: tuple[Var, ...]  # reductions, zero unless an index or a number is out of bounds, or one of `vm`


LITTLE = 2**18  # multiplications of a product of matrices that kernels on a device compute themselves
DOUBLE = np.dtype(np.float64)
MANY = 6  # axes of a product of arrays: those of more are short, and some may be taken as one
Rules = Mapping[str, Callable[..., Any]]
RULES: dict[str, Callable[..., Any]] = {}  # (writer, *operands, **params) -> the result, None: as it is
ON_DEVICE: dict[str, Callable[..., Any]] = {}  # the same for what the CPU has kernels for


def _rule(name: str, *tables: dict[str, Callable[..., Any]]) -> Callable[[Callable[..., Any]], Any]:
    """Return the decorator that adds the rule of a primitive to tables, or to both."""

    def add(rule: Callable[..., Any]) -> Callable[..., Any]:
        for table in tables or (RULES, ON_DEVICE):
            table[name] = rule
        return rule

    return add


def decompose(program: Program, rules: Rules | None = None) -> Plain:
    """Return the program with its composite primitives written out: those of `RULES`, or others."""
    return Writer(RULES if rules is None else rules).run(program)


class Writer(Operations):
    """Writes a program by the rules of a table."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.equations: list[Equation] = []
        self.constants: dict[int, tuple[Var, Any]] = {}
        self.held: list[Any] = []
        self.makers: dict[Var, Equation] = {}
        self.numbers: dict[Any, Var] = {}
        self.checks: dict[Var, None] = {}
        self.checked: dict[tuple[Var, int], None] = {}
        self.factors: dict[Var, tuple[Var, ...]] = {}  # by matrices, of those that LAPACK factors
        self.count = 0
        self.line = ""

    def run(self, program: Program) -> Plain:
        """Return the program written out."""
        known: dict[Var, Any] = {}
        for e in program.equations:
            self.line, wanted = e.line, e.outs
            args = tuple(self.operand(known.get(a, a) if isinstance(a, Var) else a) for a in e.args)
            if bool in map(type, e.params.get("template", ())) and self.rules is RULES:
                e, args = self.without_truths(e, args)  # noqa: PLW2901 -- the same without True
            rule = None if bool in map(type, e.params.get("template", ())) else self.rules.get(e.name)
            made = rule(self, *args, **e.params) if rule and e.outs[0].aval.size else None
            if made is None:
                made = self.of_nothing(e, args)
            if made is None:
                self.append(self.called(e.with_args(args)))
                made = e.outs
            if made is not wanted:
                found = made if isinstance(made, tuple) else (made,)
                known.update((v, self.like(y, v.aval)) for v, y in zip(wanted, found, strict=True))
        outputs = [self.operand(known.get(y, y) if isinstance(y, Var) else y) for y in program.outputs]
        trees = (program.in_tree, program.out_tree)
        constants = dict(self.constants.values())
        made = Program([*program.inputs, *constants], self.equations, outputs, trees)
        return Plain(made, constants, tuple(self.checks))

    def operand(self, x: Any) -> Any:
        """Return a variable for an array, the number itself for a number."""
        if isinstance(x, Tensor):
            x = x._value
        if isinstance(x, Var) or not np.ndim(x):
            return x
        return self.array(x)

    def array(self, x: Any) -> Var:
        """Return the variable of a constant array."""
        if id(x) not in self.constants:
            self.constants[id(x)] = (Var(aval_of(x), f"k{len(self.constants)}"), np.asarray(x, order="C"))
            self.held.append(x)  # no other array gets its id
        return self.constants[id(x)][0]

    def typed(self, x: Any, dtype: np.dtype[Any]) -> Var:
        """Return an operand, or a number, as a variable of this dtype."""
        if not isinstance(x, Var):
            return self.array(np.asarray(x, dtype))
        return x if x.aval.dtype == dtype else self.convert(x, dtype=dtype)

    def number(self, x: Any, dtype: np.dtype[Any]) -> Any:
        """Return the variable of a number, in the dtype in which it is used."""
        if dtype.kind != "f":
            return x
        key = (float(x), dtype)
        if key not in self.numbers:
            with np.errstate(over="ignore"):  # of compiled code nobody is warned
                array = np.array(x, dtype)
            self.numbers[key] = Var(aval_of(array), f"c{len(self.numbers)}")
            self.constants[id(array)] = (self.numbers[key], array)
        return self.numbers[key]

    def shape_of(self, name: str, *args: Var, **params: Any) -> tuple[int, ...]:
        """Return the shape of what a primitive gives of variables."""
        found: Aval = PRIMITIVES[name].shape(*(a.aval for a in args), **params)  # type: ignore[misc]
        return found.shape

    def make(self, name: str, *args: Any, **params: Any) -> Var:
        """Return the result of a primitive, as a new variable."""
        return self.write_all(name, *args, **params)[0]

    def write_all(self, name: str, *args: Any, **params: Any) -> tuple[Var, ...]:
        """Return the results of a primitive, as new variables."""
        avals = [a.aval if isinstance(a, Var) else a for a in args]
        found = PRIMITIVES[name].shape(*avals, **params)  # type: ignore[misc]
        made = found if PRIMITIVES[name].many else (found,)
        outs = tuple([Var(aval, f"d{self.count + k}") for k, aval in enumerate(made)])
        self.count += len(outs)
        self.append(Equation(name, args, params, outs, self.line))
        return outs

    def append(self, e: Equation) -> None:
        """Add an equation, with its numbers as inputs unless they are such that a text may hold."""
        if PRIMITIVES[e.name].scalar is not None and any(_is_odd(a) for a in e.args):
            dtypes = loop_dtypes(e)
            args = [self.number(a, d) if _is_odd(a) else a for a, d in zip(e.args, dtypes, strict=True)]
            e = Equation(e.name, tuple(args), e.params, e.outs, e.line)
        self.equations.append(e)
        self.makers.update((v, e) for v in e.outs)

    def pairs(self, re: Any, im: Any) -> Var:
        """Return complex numbers, from their parts."""
        return self.make("complex.pairs", re, im)

    def like(self, x: Any, aval: Aval) -> Any:
        """Return a result in the shape that it is to have."""
        return self.reshape(x, aval.shape) if isinstance(x, Var) and x.aval.shape != aval.shape else x

    def without_truths(self, e: Equation, args: tuple[Any, ...]) -> tuple[Equation, tuple[Any, ...]]:
        """Return an equation whose index has no True: it stands for an axis of which there is one element."""
        template, count = e.params["template"], INDEXED.get(e.name, 0)
        lead, arrays = args[:count], iter(args[count:])
        if any(p is False for p in template) or not all(isinstance(a, Var) for a in args[count:]):
            return e, args
        shape = e.params["shape"] if "shape" in e.params else aval_out(lead[0]).shape
        taken = sum(p is not None and p is not Ellipsis and p is not True for p in template)
        wide: list[int] = []
        given: list[Any] = []
        at = 0
        for p in template:
            if p is True:
                wide.append(1)
                given.append(self.array(np.zeros(1, np.intp)))
            elif p is not None:
                step = len(shape) - taken if p is Ellipsis else 1
                wide += shape[at : at + step]
                at += step
                given += [next(arrays)] if p is HOLE else []
        wide += shape[at:]
        params = {**e.params, "template": tuple([HOLE if p is True else p for p in template])}
        if "shape" in params:
            params["shape"] = tuple(wide)
        if e.name in {"gather", "put"}:
            lead = (self.reshape(lead[0], tuple(wide)), *lead[1:])
        outs = e.outs
        if e.name in {"scatter_add", "put"}:
            outs = (Var(Aval(tuple(wide), outs[0].aval.dtype), outs[0].name),)
        return Equation(e.name, (*lead, *given), params, outs, e.line), (*lead, *given)

    def of_nothing(self, e: Equation, args: Sequence[Any]) -> tuple[Var, ...] | None:
        """Return as constants what is computed of arrays without elements; None if there are others."""
        if any(p is False for p in e.params.get("template", ())) and isinstance(args[0], Var):
            if e.name == "scatter_add":
                return (self.array(np.zeros(e.outs[0].aval.shape, e.outs[0].aval.dtype)),)
            return (args[0],) if e.name == "put" else None
        if not is_harmless(e) or is_fusable(e) or is_native(e):
            return None
        known = dict(self.constants.values())
        given = [known.get(a, a) if isinstance(a, Var) else a for a in args]
        variables = [a for a in given if isinstance(a, Var)]
        if not variables or any(v.aval.size for v in variables):
            return None
        nothing = [np.empty(a.aval.shape, a.aval.dtype) if isinstance(a, Var) else a for a in given]
        try:
            found = applied(PRIMITIVES[e.name], nothing, e.params)
        except Exception:  # noqa: BLE001 -- which the program has to raise when it runs
            return None
        made = []
        for y, v in zip(found if PRIMITIVES[e.name].many else (found,), e.outs, strict=True):
            x = np.asarray(getattr(y, "_value", y), v.aval.dtype)
            if e.name == ON_PAIRS and x.shape[-1:] == (2,):  # outputs would take constants for real ones
                made.append(self.pairs(*(self.array(x[..., k].copy()) for k in range(2))))
            else:
                made.append(self.array(x.copy()))
        return tuple(made)

    def called(self, e: Equation) -> Equation:
        """Return an equation with its operands as the loop of a universal function takes them."""
        if len(e.outs) != 1 or self.rules is not RULES or native.interpreted() or not e.outs[0].aval.size:
            return e
        name, avals, result, params = applied_by(e)
        universal = PRIMITIVES[name].universal
        if universal is None or params or is_fusable(e) or is_native(e):
            return e
        ufunc, args = universal.ufunc, [*e.args, *universal.constants]
        avals = (*avals, *map(aval_out, universal.constants))
        kinds: list[Any] = [
            aval.dtype if isinstance(a, Var) else getattr(a, "dtype", type(a))
            for a, aval in zip(args, avals, strict=True)
        ]
        if universal.whole:
            if not self.is_whole(args[0]):
                return e
            kinds[0] = np.dtype(np.int64)
        try:
            dtypes = ufunc.resolve_dtypes((*kinds, *[None] * ufunc.nout))
        except TypeError:
            return e
        if ufuncs.loop(universal, dtypes[: ufunc.nin], result.dtype) is None:
            return e
        if not all(map(holds, dtypes, args)):
            return e
        taken = list(zip(args, avals, dtypes, strict=False))
        if any(
            isinstance(a, Var) and "c" in aval.dtype.kind + d.kind and aval.dtype != d for a, aval, d in taken
        ):
            return e  # pairs are converted as pairs alone
        operands, given = [], []
        for a, aval, d in taken:
            x = a if isinstance(a, Var) and aval.dtype == d else self.typed(a, d)
            is_spread = aval.size != 1 and aval.shape != result.shape
            if is_spread:
                pair = x.aval.shape[len(aval.shape) :]
                x = self.broadcast_to(x, (*result.shape, *pair))
            operands.append(x)
            given.append(Aval(result.shape if is_spread else aval.shape, d))
        if e.name == ON_PAIRS:
            params = e.params | {"avals": (tuple(given), e.params["avals"][1])}
        return Equation(e.name, tuple(operands), params, e.outs, e.line)

    def is_whole(self, x: Any) -> bool:
        """Return whether a number or array is known to hold integers."""
        if isinstance(x, Var):
            x = dict(self.constants.values()).get(x, x)
            if isinstance(x, Var):
                return x.aval.dtype.kind in "iu"
        x = np.asarray(x)
        return x.dtype.kind in "biu" or bool(x.dtype.kind == "f" and np.all(x.astype(np.int64) == x))

    def spread(self, x: Var, like: Var, axes: tuple[int, ...]) -> Any:
        """Return a reduced array with axes of length one where it was reduced."""
        shape = tuple(1 if i in axes else n for i, n in enumerate(like.aval.shape))
        return self.reshape(x, shape)


def _is_odd(x: Any) -> bool:
    """Return whether a number may come from sizes or settings: a kernel that holds it serves no other."""
    if isinstance(x, Var) or not isinstance(x, float | np.floating):
        return False
    number = float(x)
    return abs(number) > SMALL or 2 * number % 1 != 0


def _is_real(x: Any) -> bool:
    return isinstance(x, Var) and x.aval.dtype.char in "fd" and x.aval.size > 0


@_rule("mean")
def _mean(w: Writer, x: Any, *, axes: tuple[int, ...]) -> Any:
    if not _is_real(x):
        return None
    count = math.prod(x.aval.shape[i] for i in axes)
    return w.divide(w.sum(x, axes=axes), float(count))


def _finite_top(w: Writer, x: Var, axes: tuple[int, ...]) -> Any:
    top = w.max(x, axes=axes)
    return w.spread(w.where(w.make("isfinite", top), top, 0.0), x, axes)


@_rule("logsumexp")
def _logsumexp(w: Writer, x: Any, *, axes: tuple[int, ...]) -> Any:
    if not _is_real(x):
        return None
    top = _finite_top(w, x, axes)
    total = w.sum(w.make("exp", w.subtract(x, top)), axes=axes)
    return w.add(w.make("log", total), w.reshape(top, total.aval.shape))


@_rule("softmax")
def _softmax(w: Writer, x: Any, *, axes: tuple[int, ...]) -> Any:
    if not _is_real(x):
        return None
    y = w.make("exp", w.subtract(x, w.spread(w.max(x, axes=axes), x, axes)))
    return w.multiply(y, w.spread(w.divide(1.0, w.sum(y, axes=axes)), x, axes))


@_rule("log_softmax")
def _log_softmax(w: Writer, x: Any, *, axes: tuple[int, ...]) -> Any:
    if not _is_real(x):
        return None
    top = w.spread(w.max(x, axes=axes), x, axes)
    total = w.make("log", w.sum(w.make("exp", w.subtract(x, top)), axes=axes))
    # the difference again, which takes less time than to write and read a row of them
    return w.subtract(w.subtract(x, top), w.spread(total, x, axes))


@_rule("layer_norm")
def _layer_norm(w: Writer, x: Any, weight: Any, bias: Any, *, rank: int, eps: float) -> Any:
    if not all(map(_is_real, (x, weight, bias))) or not x.aval.dtype == weight.aval.dtype == bias.aval.dtype:
        return None
    n = len(x.aval.shape)
    axes = tuple(range(n - rank, n))
    count = float(math.prod(x.aval.shape[i] for i in axes))
    gap = w.subtract(x, w.spread(w.divide(w.sum(x, axes=axes), count), x, axes))
    variance = w.divide(w.sum(w.multiply(gap, gap), axes=axes), count)
    scale = w.divide(1.0, w.make("sqrt", w.add(variance, eps)))
    y = w.multiply(gap, w.spread(scale, x, axes))
    return w.add(w.multiply(y, weight), bias)


@_rule("contract", RULES)
def _contract(w: Writer, x: Any, y: Any, *, a: str, b: str, out: str) -> Any:
    """Let transposes be other subscripts, and products of equal axes sums of products."""
    if not isinstance(x, Var) or not isinstance(y, Var):
        return None
    if {x.aval.dtype.kind, y.aval.dtype.kind} - {"f", "c"}:
        return None  # sums widen integers, products do not
    x, a = _untransposed(w, x, a)
    y, b = _untransposed(w, y, b)
    if len(set(a + b)) > MANY and (runs := _runs(a, b, out)):
        return _merged(w, x, y, (a, b, out), runs)
    if set(a) != set(b):
        return _multiplied(w, x, y, a, b, out)
    if a != b:
        y = w.transpose(y, axes=tuple(b.index(c) for c in a))
    z = w.multiply(x, y)
    axes = tuple(i for i, c in enumerate(a) if c not in out)
    z = w.sum(z, axes=axes) if axes else z
    kept = "".join(c for c in a if c in out)
    return z if kept == out else w.transpose(z, axes=tuple(kept.index(c) for c in out))


def _runs(*places: str) -> list[str]:
    """Return the letters that follow one another wherever one of them is."""
    after = {
        c: d
        for p in places
        for c, d in itertools.pairwise(p)
        if all((c + d in q) if c in q else d not in q for q in places)
    }
    runs = []
    for c in after:
        if c not in after.values():
            run = c
            while run[-1] in after:
                run += after[run[-1]]
            runs.append(run)
    return runs


def _merged(w: Writer, x: Var, y: Var, places: tuple[str, str, str], runs: Sequence[str]) -> Any:
    """Write a contraction of short axes as one of fewer: kernels would write out loops over them."""
    a, b, out = places
    lengths = dict(zip(a + b, x.aval.shape + y.aval.shape, strict=True))
    shape = tuple([lengths[c] for c in out])
    for run in runs:
        lengths[run[0]] = math.prod(lengths[c] for c in run)
        a, b, out = (p.replace(run, run[0]) for p in (a, b, out))
    x, y = (w.reshape(v, tuple([lengths[c] for c in p])) for v, p in ((x, a), (y, b)))
    z = _contract(w, x, y, a=a, b=b, out=out)
    if z is None:
        z = w.contract(x, y, a=a, b=b, out=out)
    return w.reshape(z, shape)


@_rule("contract", ON_DEVICE)
def _contract_there(w: Writer, x: Any, y: Any, *, a: str, b: str, out: str) -> Any:
    """Let small products of matrices be sums of products: CuPy does not let a CUDA graph record cuBLAS."""
    if isinstance(x, Var) and isinstance(y, Var) and x.aval.dtype.kind == y.aval.dtype.kind == "f":
        lengths = dict(zip(a + b, x.aval.shape + y.aval.shape, strict=True))
        if math.prod(lengths.values()) <= LITTLE:
            letters = out + "".join(c for c in a if c not in out)
            z = w.multiply(*(_spread(w, v, own, letters) for v, own in ((x, a), (y, b))))
            axes = tuple(range(len(out), len(letters)))
            return w.sum(z, axes=axes) if axes else z
    return _contract(w, x, y, a=a, b=b, out=out)


def _spread(w: Writer, x: Var, own: str, letters: str) -> Any:
    """Return an array of the axes `own` with those of `letters`, of length one where it lacks them."""
    x = _reordered(w, x, own, "".join(c for c in letters if c in own))
    lengths = dict(zip((c for c in letters if c in own), x.aval.shape, strict=True))
    shape = tuple([lengths.get(c, 1) for c in letters])
    return w.reshape(x, shape)


def _multiplied(w: Writer, x: Var, y: Var, a: str, b: str, out: str) -> Var:
    """Write a contraction, with as little transposed as BLAS needs where that can compute it."""
    lengths = dict(zip(a + b, x.aval.shape + y.aval.shape, strict=True))
    given = (a, b, out)

    def moved(order: tuple[str, ...]) -> int:
        return sum(math.prod(lengths[c] for c in o) for o, g in zip(order, given, strict=True) if o != g)

    orders = itertools.product(*zip(given, arranged(a, b, out), strict=True))
    for order in sorted(orders, key=moved):
        shapes = [tuple(lengths[c] for c in letters) for letters in order]
        args = [Var(Aval(s, v.aval.dtype), "") for s, v in zip(shapes, (x, y), strict=False)]
        params = dict(zip(("a", "b", "out"), order, strict=True))
        z = Var(Aval(shapes[2], x.aval.dtype), "")
        made = Equation("contract", tuple(args), params, (z,), "")
        if is_inline(made) or is_native(made):
            x, y = _reordered(w, x, a, order[0]), _reordered(w, y, b, order[1])
            return _reordered(w, w.contract(x, y, **params), order[2], out)
    product: Var = w.contract(x, y, a=a, b=b, out=out)
    return product


def _reordered(w: Writer, x: Var, letters: str, order: str) -> Var:
    """Return an array whose axes are `letters` with these in another order."""
    return x if letters == order else w.transpose(x, axes=tuple(map(letters.index, order)))


def _untransposed(w: Writer, x: Var, letters: str) -> tuple[Var, str]:
    """Return what `x` is the transpose of, and the letters of its axes."""
    e = w.makers.get(x)
    if e is None or TRANSPOSES not in e.traits or not isinstance(e.args[0], Var):
        return x, letters
    place = dict(zip(e.params["axes"], letters, strict=True))
    return e.args[0], "".join(place[i] for i in range(len(letters)))


@_rule("solve_triangular", RULES)
def _solve_triangular(w: Writer, a: Any, b: Any, **params: Any) -> Any:
    return _solved(w, "solve_triangular", a, b, b.aval.shape, params)


@_rule("solve", RULES)
def _solve(w: Writer, a: Any, b: Any, *, check: str) -> Any:
    lead = np.broadcast_shapes(a.aval.shape[:-2], b.aval.shape[:-2])
    if math.prod(a.aval.shape[:-2]) not in (1, math.prod(lead)):
        a = w.broadcast_to(a, (*lead, *a.aval.shape[-2:]))
    if math.prod(b.aval.shape[:-2]) not in (1, math.prod(lead)):
        b = w.broadcast_to(b, (*lead, *b.aval.shape[-2:]))
    shape = (*lead, *b.aval.shape[-2:])
    found = _solved(w, "solve", a, b, shape, {"check": "" if check == "qr" and _is_real(a) else check})
    if found is not None and check:
        eps = 8 * a.aval.shape[-1] * float(np.finfo(a.aval.dtype).eps)
        rows = (len(a.aval.shape) - 2,)
        eye = w.array(np.eye(a.aval.shape[-1], dtype=bool))
        own = w.sum(w.where(eye, w.make("absolute", a), 0.0), axes=rows)
        size = w.make("sqrt", w.sum(w.multiply(a, a), axes=rows))
        fine = w.make("greater", own, w.multiply(size, eps))
        _refuse(w, w.logical_not(fine))
    return found


def _refuse(w: Writer, wrong: Var) -> None:
    """Let the program end where something is wrong; the primitives, asked again, say what that is."""
    fault = w.where(wrong, vm.REFUSED, 0)
    w.checks[w.min(fault, axes=tuple(range(len(wrong.aval.shape))))] = None


def _solved(w: Writer, name: str, a: Var, b: Var, shape: Any, params: dict[str, Any]) -> Any:
    """Let the matrices of systems be read as they lie, if they are transposes of others."""
    e = w.makers.get(a)
    if e is not None and TRANSPOSES in e.traits and e.params["axes"] == _swapping(a):
        a, params = e.args[0], params | {"turned": True}
    out = Var(Aval(shape, b.aval.dtype), f"d{w.count}")
    made = Equation(name, (a, b), params, (out,), w.line)
    if not isinstance(a, Var):
        return None
    if not is_native(made):
        return None if name != "solve" or params["check"] else _by_lapack(w, a, b, turned="turned" in params)
    w.count += 1
    w.append(made)
    return out


def _by_lapack(w: Writer, a: Var, b: Var, *, turned: bool) -> Var | None:
    """Solve systems by LAPACK, which factors a matrix once for all systems with it, or with its transpose."""
    if a.aval.dtype != b.aval.dtype:
        return None
    if a not in w.factors:
        made = _factored(w, "lapack.getrf", a)
        if made is None:
            return None
        w.factors[a] = made
    x = w.make("lapack.getrs", *w.factors[a], _swapped(w, w.typed(b, DOUBLE)), turned=turned)
    return w.typed(_swapped(w, x), b.aval.dtype)


def _factored(w: Writer, name: str, a: Any, **params: Any) -> tuple[Var, ...] | None:
    """Return what a function of LAPACK computes, in double as NumPy does; None if it is not at hand."""
    if not _is_real(a):
        return None
    *lead, m, n = a.aval.shape
    given = Var(Aval((*lead, n, m), DOUBLE), "")
    avals = PRIMITIVES[name].shape(given.aval, **params)  # type: ignore[misc]
    if not is_native(Equation(name, (given,), params, tuple([Var(v, "") for v in avals]), "")):
        return None
    return w.write_all(name, _swapped(w, w.typed(a, DOUBLE)), **params)


@_rule("cholesky", RULES)
def _cholesky(w: Writer, a: Any) -> Any:
    """Let LAPACK factor matrices of float32 as NumPy does, in double."""
    wide = Var(Aval(a.aval.shape, DOUBLE), "")
    if not _is_real(a) or a.aval.dtype == DOUBLE or is_native(Equation("cholesky", (a,), {}, (a,), "")):
        return None
    if not is_native(Equation("cholesky", (wide,), {}, (wide,), "")):
        return None
    return w.typed(w.make("cholesky", w.typed(a, DOUBLE)), a.aval.dtype)


@_rule("qr", RULES)
def _qr(w: Writer, a: Any, *, mode: str) -> Any:
    m, n = a.aval.shape[-2:]
    k = min(m, n)
    found = _factored(w, "lapack.geqrf", a) if mode == "reduced" or m == k else None
    if found is None:
        return None
    r = _swapped(w, w.slice(found[0], index=(..., slice(0, k))))
    r = w.where(w.array(np.tri(n, k, dtype=bool).T), r, 0.0)
    q = _swapped(w, w.make("lapack.orgqr", *found))
    return tuple([w.typed(x, a.aval.dtype) for x in (q, r)])


@_rule("eigh", RULES)
def _eigh(w: Writer, a: Any, *, uplo: str) -> Any:
    found = _factored(w, "lapack.syevd", a, uplo=uplo)
    return found and tuple([w.typed(x, a.aval.dtype) for x in (found[0], _swapped(w, found[1]))])


@_rule("svd", RULES)
def _svd(w: Writer, a: Any, *, full_matrices: bool) -> Any:
    found = _factored(w, "lapack.gesdd", a, full_matrices=full_matrices)
    if found is None:
        return None
    u, s, v, _ = found
    return tuple([w.typed(x, a.aval.dtype) for x in (_swapped(w, u), s, _swapped(w, v))])


def _swapped(w: Writer, x: Var) -> Any:
    """Return transposed matrices."""
    *lead, n, k = x.aval.shape
    if 1 in (n, k):
        return w.reshape(x, (*lead, k, n))
    return w.transpose(x, axes=_swapping(x))


def _swapping(x: Var) -> tuple[int, ...]:
    n = len(x.aval.shape)
    return (*range(n - 2), n - 1, n - 2)


@_rule("search", RULES)
def _search(w: Writer, a: Any, v: Any, *, side: str) -> Any:
    """Search among elements of one dtype, as NumPy does."""
    if not aval_out(a).size:
        return w.array(np.zeros(aval_out(v).shape, np.intp))
    own, dtype = aval_out(a).dtype, np.result_type(aval_out(a).dtype, aval_out(v).dtype)
    dtype = np.dtype(np.int64) if dtype.kind == "i" or (dtype.kind == "u" and dtype.itemsize < 8) else dtype
    if (own == dtype and aval_out(v).dtype == dtype and isinstance(v, Var)) or dtype.char not in "fdlq":
        return None
    return w.make("search", w.typed(a, dtype), w.typed(v, dtype), side=side)


@_rule("guard", RULES)
def _guard(w: Writer, x: Any, bad: Any, _: Any, *likes: Any, look: bool, strict: bool, **__: Any) -> Any:
    """Look for what is not negligible where it is bad; the primitive, asked again, says what that is."""
    if not all(map(_is_real, (x, *likes))) or not isinstance(bad, Var):
        return None
    kept = w.where(bad, 0.0, x)
    if kept.aval != x.aval:
        return None
    wrong = bad
    if look and not strict:
        eps = float(np.finfo(x.aval.dtype).eps)
        scale: Any = eps**0.25
        for like in likes:
            axes = (len(like.aval.shape) - 2, len(like.aval.shape) - 1)
            top = w.spread(w.max(w.make("absolute", like), axes=axes), like, axes)
            scale = w.maximum(top, scale)
        limit = w.multiply(scale, math.sqrt(eps)) if likes else scale * math.sqrt(eps)
        wrong = w.make("logical_and", bad, w.make("greater", w.make("absolute", x), limit))
    if look:
        _refuse(w, wrong)
    return kept


@_rule("gather")
def _gather(w: Writer, x: Any, *arrays: Any, template: Any, unique: bool = False) -> Any:
    """Check the indices; the rest is said of each element."""
    if not isinstance(x, Var) or not all(isinstance(j, Var) for j in arrays):
        return None
    arrays = tuple([_signed(w, j) for j in arrays])
    _check(w, arrays, indexed_lengths(x.aval.shape, template))
    return w.gather(x, *arrays, template=template, unique=unique)


def _check(w: Writer, arrays: Sequence[Var], lengths: Sequence[int]) -> None:
    """Count the indices that are out of bounds."""
    known = dict(w.constants.values())
    for j, n in zip(arrays, lengths, strict=True):
        if not j.aval.size:
            continue
        if j in known and (not known[j].size or -n <= known[j].min() <= known[j].max() < n):
            continue
        if (j, n) not in w.checked:
            w.checked[j, n] = None
            j = _wide(w, j)  # noqa: PLW2901 -- lengths need not fit its dtype
            bad = w.make("greater_equal", j, n)
            if j.aval.dtype.kind == "i":
                bad = w.make("logical_or", bad, w.make("less", j, -n))
            w.checks[w.sum(bad, axes=tuple(range(len(j.aval.shape))))] = None


def _signed(w: Writer, j: Var) -> Var:
    """Return an index array as NumPy takes it: large unsigned numbers are negative ones, but not alone."""
    if j.aval.dtype != np.uint64 or not j.aval.shape:
        return j
    known = dict(w.constants.values()).get(j)
    dtype = np.dtype(np.int64)
    return w.array(known.astype(dtype, order="C")) if known is not None else w.convert(j, dtype=dtype)


_DOUBLE = np.dtype(np.float64)


@_rule("fitted", RULES)  # on a device the primitive looks at its numbers: nobody looks at checks there
def _fitted(w: Writer, n: Any, *, dtype: np.dtype[Any]) -> Any:
    """Check that numbers are in the range of a dtype of integers."""
    if not isinstance(n, Var) or n.aval.dtype.char == "g":
        return None
    limits = np.iinfo(dtype)
    if n.aval.dtype.kind == "f":
        whole = w.make("trunc", n if n.aval.dtype.itemsize == 8 else w.convert(n, dtype=_DOUBLE))
        found = [
            w.make("less", whole, float(limits.min)),
            w.make("greater_equal", whole, float(limits.max) + (limits.bits < 64)),
            w.make("isnan", whole),
        ]
    else:
        own = np.iinfo(n.aval.dtype)
        found = [w.make("greater", n, limits.max)] if limits.max < own.max else []
        found += [w.make("less", n, limits.min)] if limits.min > own.min else []
    for bad in found:
        w.checks[w.sum(bad, axes=tuple(range(len(n.aval.shape))))] = None
    return w.convert(n, dtype=dtype)


@_rule("require", RULES)
def _require(w: Writer, good: Any, **_: Any) -> Any:
    """Count what is not good."""
    if not isinstance(good, Var):
        return None
    w.checks[w.sum(w.logical_not(good), axes=tuple(range(len(good.aval.shape))))] = None
    return good


@_rule("kernel.trust", RULES)
def _trust(w: Writer, x: Any, good: Any) -> Any:
    """Let the program end where something is not good."""
    if not isinstance(good, Var):
        if np.all(good):
            return x
        good = w.array(np.asarray(good))
    _refuse(w, w.logical_not(good))
    return x


def _wide(w: Writer, j: Var) -> Var:
    """Return integers as those of 64 bits, which every length fits into."""
    dtype = j.aval.dtype
    return j if dtype.itemsize == 8 else w.convert(j, dtype=np.dtype(np.int64))


def indexed_lengths(shape: tuple[int, ...], template: tuple[Any, ...]) -> list[int]:
    """Return the lengths of the axes that index arrays look into."""
    consumed = sum(p is not None and p is not Ellipsis for p in template)
    axis, found = 0, []
    for p in template:
        if p is HOLE:
            found.append(shape[axis])
        if p is Ellipsis:
            axis += len(shape) - consumed
        elif p is not None:
            axis += 1
    return found


def _places(w: Writer, arrays: Sequence[Any], template: Any, shape: Any, given: Any) -> Any:
    """Return for each element of `shape` which of those written it is, -1 for none; None if not known.

    Of several that are written to one place the last one stays; where `given` is "one", None if that happens.
    """
    known = dict(w.constants.values())
    if not all(j in known for j in arrays):
        return None
    order = np.full(shape, -1, np.int64)
    index = filled(template, [known[j] for j in arrays])
    try:
        count = order[index].size
        order[index] = np.arange(count).reshape(order[index].shape)
    except IndexError:
        return None  # NumPy says so when it runs
    return None if given == "one" and np.count_nonzero(order >= 0) != count else order


@_rule("put")
def _put(w: Writer, x: Any, value: Any, *arrays: Any, template: Any) -> Any:
    """Let each element choose between what was there and what is written, where it is known which."""
    if not isinstance(x, Var) or (isinstance(value, Var) and value.aval.dtype != x.aval.dtype):
        return None
    order = _places(w, arrays, template, x.aval.shape, "any")
    if order is None:
        return _written_one_by_one(w, x, value, arrays, template)
    if isinstance(value, Var):
        shape = np.empty(x.aval.shape, np.int8)[filled(template, [_constant(w, j) for j in arrays])].shape
        if len(value.aval.shape) > len(shape):
            return None
        value = w.broadcast_to(value, shape)
        value = _chosen(w, value, order)
    elif np.ndim(value):
        return None
    else:
        value = cast(value, x.aval.dtype)
    return w.where(w.operand(order >= 0), value, x)


def _written_one_by_one(w: Writer, x: Var, value: Any, arrays: Sequence[Any], template: Any) -> Any:
    """Write elements in order to places that nobody knows before the program runs."""
    if w.rules is not RULES or not all(isinstance(j, Var) for j in arrays):
        return None
    places = _flat_places(w, arrays, template, x.aval.shape)
    if places is not None and not places.aval.size:
        return x
    if places is None or len(np.shape(value) if not isinstance(value, Var) else value.aval.shape) > len(
        places.aval.shape
    ):
        return None
    value = w.typed(value, x.aval.dtype)
    flat = [w.reshape(v, (v.aval.size,)) for v in (x, w.broadcast_to(value, places.aval.shape), places)]
    return w.reshape(w.make("kernel.put", *flat), x.aval.shape)


def _flat_places(w: Writer, arrays: Sequence[Any], template: Any, shape: Any) -> Any:
    """Return where in a flat array those elements lie that an index chooses."""
    places = w.array(np.arange(math.prod(shape)).reshape(shape))
    return _gather(w, places, *arrays, template=template)


@_rule("pivot_order", RULES)
def _pivot_order(w: Writer, piv: Any) -> Any:
    """Exchange rows one after the other."""
    if not isinstance(piv, Var) or not piv.aval.size:
        return None
    order = w.make("kernel.order", w.typed(piv, np.dtype(np.int64)), m=piv.aval.shape[-1])
    return w.typed(order, np.dtype(np.int32))


@_rule("winners", RULES)
def _winners(w: Writer, *arrays: Any, template: Any, shape: Any) -> Any:
    """Number what is written, and see which numbers stay."""
    if not all(isinstance(j, Var) for j in arrays):
        return None
    places = _flat_places(w, arrays, template, shape)
    if places is None:
        return None
    numbers = w.array(np.arange(places.aval.size))
    flat = w.reshape(places, (places.aval.size,))
    order = w.make("kernel.put", w.array(np.zeros(math.prod(shape), np.intp)), numbers, flat)
    stays = w.gather(order, flat, template=(HOLE,), unique=False)
    return w.reshape(w.make("equal", stays, numbers), places.aval.shape)


@_rule("real", RULES)
def _real(_: Writer, x: Any) -> Any:
    return x if isinstance(x, Var) else None


@_rule("imag", RULES)
def _imag(w: Writer, x: Any) -> Any:
    return w.array(np.zeros(x.aval.shape, x.aval.dtype)) if isinstance(x, Var) else None


def _constant(w: Writer, j: Var) -> Any:
    return next(a for v, a in w.constants.values() if v is j)


def _chosen(w: Writer, value: Var, order: Any) -> Any:
    """Return the elements of `value` by their places."""
    if not value.aval.size:  # none is written anywhere
        return w.operand(np.zeros(order.shape, value.aval.dtype))
    flat = w.reshape(value, (value.aval.size,))
    return w.gather(flat, w.operand(np.maximum(order, 0)), template=(HOLE,), unique=False)


@_rule("scatter_add")
def _scatter_add(w: Writer, ct: Any, *arrays: Any, template: Any, shape: Any, unique: bool = False) -> Any:
    """Let each element choose what is added to it, where at most one is."""
    if not isinstance(ct, Var) or not all(isinstance(j, Var) for j in arrays):
        return None
    arrays = tuple([_signed(w, j) for j in arrays])
    if not ct.aval.size and not any(j.aval.size for j in arrays):
        return w.array(np.zeros(shape, ct.aval.dtype))
    order = _places(w, arrays, template, shape, "one")
    if order is not None:
        return w.where(w.operand(order >= 0), _chosen(w, ct, order), _nothing(w, ct))
    _check(w, arrays, indexed_lengths(shape, template))
    chosen = _by_rows(w, ct, arrays, template, shape)
    if chosen is None:
        chosen = _at_one(w, ct, arrays, template, shape)
    if chosen is None:
        return w.make("scatter_add", ct, *arrays, template=template, shape=shape, unique=unique)
    return chosen


def _by_rows(w: Writer, ct: Var, arrays: Sequence[Any], template: Any, shape: Any) -> Any:
    """Let each row choose its element, where the first index array counts the rows."""
    if template != (HOLE, HOLE) or len(shape) != 2 or ct.aval.shape != shape[:1]:
        return None
    known = dict(w.constants.values())
    rows, j = arrays
    if rows not in known or not np.array_equal(known[rows], np.arange(shape[0])) or j.aval.shape != shape[:1]:
        return None
    n = shape[1]
    j = _wide(w, j)
    j = w.where(w.make("less", j, 0), w.add(j, n), j)
    j = w.convert(j, dtype=np.dtype(np.int32))  # as wide as the elements beside it
    places = w.operand(np.arange(n, dtype=np.int32))
    here = w.make("equal", w.reshape(j, (shape[0], 1)), places)
    return w.where(here, w.reshape(ct, (shape[0], 1)), _nothing(w, ct))


def _nothing(w: Writer, ct: Var) -> Any:
    """Return a zero beside which the dtype of `ct` stays what it is."""
    return 0.0 if ct.aval.dtype.kind in "fc" else w.typed(0, ct.aval.dtype)


def _at_one(w: Writer, ct: Var, arrays: Sequence[Any], template: Any, shape: Any) -> Any:
    """Let each element be what is added to it, if it is at the only index."""
    alone = all(part is HOLE for part in template) and all(j.aval.size == 1 for j in arrays)
    if not alone or ct.aval.dtype.kind != "f":
        return None
    here = None
    for axis, j in enumerate(arrays):
        n, ones = shape[axis], [1] * len(shape)
        k = w.reshape(_wide(w, j), tuple(ones))
        k = w.where(w.make("less", k, 0), w.add(k, n), k)
        ones[axis] = n
        equal = w.make("equal", w.operand(np.arange(n).reshape(ones)), k)
        here = equal if here is None else w.make("logical_and", here, equal)
    ct = w.reshape(ct, (*[1] * len(arrays), *shape[len(arrays) :]))
    return w.where(here, ct, 0.0)


def _joined(name: str, w: Writer, *arrays: Any, **params: Any) -> Any:
    """Let many arrays that are put side by side have one dtype, so that they can be copied."""
    avals = [a.aval if isinstance(a, Var) else a for a in arrays]
    out = Var(PRIMITIVES[name].shape(*avals, **params), "")  # type: ignore[misc]
    if not is_joined(Equation(name, arrays, params, (out,), "")):
        return None
    return w.make(name, *(w.typed(a, out.aval.dtype) for a in arrays), **params)


for _name in [name for name, p in PRIMITIVES.items() if ASSEMBLES in p.traits]:
    _rule(_name)(functools.partial(_joined, _name))
