"""Programs from what a header says: every equation is checked by the rules of its primitive first."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad.archive.container import checked_shape, checked_text, demanded, named_dtype, shortened, too_large
from fgrad.archive.rules import Unstored
from fgrad.archive.schema import check, has_code, work
from fgrad.archive.writing import FIELDS
from fgrad.core.aval import Aval, aval_of
from fgrad.core.control_flow import Back, Branches, Code, Grown, Mapped, Scan, While, avals_out
from fgrad.core.nonfinite import quiet
from fgrad.core.program import Equation, Program, Region, Var
from fgrad.core.rewriting.substitution import replaced
from fgrad.core.trace import running
from fgrad.extend.engine import HOLE
from fgrad.transforms.custom import CUSTOM

PARTS = ("inputs", "equations", "outputs", "regions")
FORMER = {"both": "multiply_no_nan", "unslice": "slice_backward"}  # names of primitives in older files
KINDS = {kind.__name__: kind for kind in FIELDS}
DEEPEST = 64  # words of a value inside of one another; loops and branches inside of one another are programs
_FLOAT = re.compile(r"-?(\d+(\.\d+)?(e[+-]?\d+)?|inf|nan)")


class Need(NamedTuple):
    """Bytes of memory that values take: at one time, and if all of them are kept for a derivative."""

    peak: int
    kept: int


NOTHING = Need(0, 0)


class Reader:
    """Reads programs and values of a header, in time and memory that are linear in it.

    Args:
        arrays: those of the file.
        version: that of the format.
        max_bytes: what the values of a program may take while it runs.

    Raises:
        ValueError: there is something that the format does not say.
    """

    arrays: Sequence[np.ndarray[Any, Any]]
    version: int
    max_bytes: float

    def __init__(
        self, arrays: Sequence[np.ndarray[Any, Any]], version: int, max_bytes: float = math.inf
    ) -> None:
        self.arrays, self.version, self.max_bytes = arrays, version, max_bytes
        self._depth = 0
        self._needs: dict[Program, Need] = {}

    def program(self, said: Any) -> Program:
        """Return a program."""
        inputs, stated, outs, regions = _fields(said, *PARTS)
        env = [Var(self.aval(a), f"v{i}") for i, a in enumerate(inputs)]
        equations: list[Equation] = []
        made = [len(env)]  # variables before each equation
        for said_name, operands, given, results in stated:
            name = FORMER.get(demanded(said_name, str), said_name)
            args = tuple([self.operand(a, env) for a in demanded(operands, list)])
            params = {k: self.value(v) for k, v in demanded(given, dict).items()}
            avals = [self.aval(a) for a in demanded(results, list)]
            _demand_equal(avals, self.infer(name, args, params, len(avals)), f"the results of {name}")
            vs = tuple([Var(a, f"v{len(env) + i}") for i, a in enumerate(avals)])
            env += vs
            made.append(len(env))
            equations.append(Equation(name, args, params, vs, "a stored program"))
        outputs = [self.operand(y, env) for y in outs]
        nested = [self.region(r, equations, env, made) for r in regions]
        demand_closed(equations, outputs, nested)
        program = Program(env[: made[0]], equations, outputs, (None, None), nested)
        self._needs[program] = need = self._need(program)
        if need.peak > self.max_bytes:
            raise too_large("the program", need.peak, self.max_bytes)
        return program

    def region(self, said: Any, equations: list[Equation], env: Sequence[Var], made: Sequence[int]) -> Region:
        """Return equations that have a derivative of their own, which is not known."""
        name, start, stop, args, outs = demanded(said, list)
        if not _number(start, len(equations)) < _number(stop, len(equations) + 1):
            raise ValueError("a region is empty")
        given = tuple([self.operand(a, env, made[start]) for a in demanded(args, list)])
        found = [self.operand(y, env, made[stop]) for y in demanded(outs, list)]
        rule = Unstored(checked_text(name), lambda: body_of(given, equations[start:stop], found))
        return Region(CUSTOM, given, {"rule": rule}, found, start, stop)

    def infer(self, name: str, args: Sequence[Any], params: dict[str, Any], count: int) -> Sequence[Aval]:
        """Return the avals of an equation by the rules of its primitive, `count` of them."""
        avals = [a.aval if isinstance(a, Var) else aval_of(a) for a in args]
        primitive = check(name, avals, params, self.version)
        if has_code(primitive):
            code = params.get("code")
            if set(params) != {"code"} or not isinstance(code, Code):
                raise ValueError(f"{name} needs a code")
            if not isinstance(code, Mapped) and code.primitive != name:
                raise ValueError(f"{name} does not run a {type(code).__name__}")
            _demand_equal(avals, _ins(code), f"the operands of {name}")
            return code.outs
        if name == "unstack" and avals[0].shape[params["axis"]] != count:
            raise ValueError(f"the results of {name} are {count}, which is not the length of the axis")
        operands = [a.aval if isinstance(a, Var) else a for a in args]
        if primitive.shape is None:
            raise ValueError(f"{name} has no rule for shapes, so it cannot be part of a stored program")
        with quiet(), running(()), np.errstate(all="ignore"):
            found = primitive.shape(*operands, **params)
        outs = [a if isinstance(a, Aval) else aval_of(a) for a in (found if primitive.many else (found,))]
        converts = (
            primitive.body is not None
            and not isinstance(primitive.run, np.ufunc)
            and outs[0].dtype.kind in "fc"
        )
        if converts and np.result_type(*(a.dtype for a in avals)).kind not in "fc":
            raise ValueError(
                f"{name} takes floats or complex numbers"
            )  # functions convert before they say it
        return outs

    def _need(self, program: Program) -> Need:
        """Return the memory of a program whose equations run one after the other."""
        last: dict[Var, int] = {}
        for i, e in enumerate(program.equations):
            last.update((a, i) for a in e.args if isinstance(a, Var))
        last.update((y, len(program.equations)) for y in program.outputs if isinstance(y, Var))
        constants = {id(a): _bytes(aval_of(a)) for e in program.equations for a in e.args
                     if isinstance(a, np.ndarray)}  # fmt: skip
        live = kept = sum(constants.values()) + sum(_bytes(v.aval) for v in program.inputs)
        peak = live
        for i, e in enumerate(program.equations):
            avals = [a.aval if isinstance(a, Var) else aval_of(a) for a in e.args]
            outs = sum(_bytes(v.aval) for v in e.outs)
            code = e.params.get("code")
            inside = self._need_of(code) if isinstance(code, Code) else NOTHING
            peak = max(peak, live + outs + work(e.name, avals, e.params) + inside.peak)
            kept += outs + inside.kept
            live += sum(_bytes(v.aval) for v in e.outs if v in last)
            live -= sum(_bytes(a.aval) for a in set(filter(_is_var, e.args)) if last[a] == i)
        return Need(peak, max(kept, peak))

    def _need_of(self, code: Code) -> Need:
        """Return the memory of a loop or branch, beside its operands and results."""
        if isinstance(code, Mapped):
            each = self._need_of(code.code)
            return Need(each.peak * code.size, each.kept * code.size)
        if isinstance(code, Back):
            kept = self._need_of(code.code).kept
            return Need(2 * kept, 2 * kept)
        if isinstance(code, While):
            steps = [self._needs[code.condition], self._needs[code.body]]
        else:
            steps = [self._needs[p] for p in code.inner()]
        peak, kept = (max([n[i] for n in steps], default=0) for i in range(2))
        recorded = isinstance(code, Scan) and code.checkpoint in (None, False)
        return Need(peak, kept * max(1, code.length or 0) if recorded else kept)  # type: ignore[attr-defined]

    def operand(self, said: Any, env: Sequence[Var], count: int | None = None) -> Any:
        """Return one of the first `count` variables, which have been assigned, or a constant."""
        if isinstance(said, dict) and said.keys() == {"var"}:
            return env[_number(said["var"], len(env) if count is None else count)]
        x = self.value(said)
        if type(x) not in {bool, int, float, complex} and not isinstance(x, np.ndarray | np.generic):
            raise ValueError(f"an operand is a {type(x).__name__}")
        return x

    def aval(self, said: Any) -> Aval:
        """Return a shape and dtype."""
        name, shape, *more = demanded(said, list)
        dtype = _dtype(name)
        if more not in ([], ["grown"]):
            raise ValueError(f"{shortened(said)} is no aval")
        sizes = checked_shape(shape, dtype)
        return Grown(sizes, dtype) if more else Aval(sizes, dtype)

    def value(self, said: Any) -> Any:
        """Return a value of one of the types that the format knows."""
        if type(said) is str:
            return checked_text(said)
        if said is None or type(said) in {bool, int}:
            return said
        ((word, content),) = demanded(said, dict).items()
        if word not in WORDS:
            raise ValueError(f"the format has no {shortened(word)}")
        if self._depth >= DEEPEST:
            raise ValueError(f"values of a program stand more than {DEEPEST} deep in one another")
        self._depth += 1
        try:
            return WORDS[word](self, content)
        finally:
            self._depth -= 1

    def values(self, said: Any) -> list[Any]:
        """Return several values."""
        return [self.value(x) for x in demanded(said, list)]

    def array(self, said: Any) -> np.ndarray[Any, Any]:
        """Return an array."""
        return self.arrays[_number(said, len(self.arrays))]

    def scalar(self, said: Any) -> Any:
        """Return a number of NumPy's."""
        x = self.array(said)
        if x.ndim:
            raise ValueError("a number has axes")
        return x[()]

    def code(self, said: Any) -> Code:
        """Return a loop, a branch, or what derivatives and batching make of them."""
        name, content = demanded(said, list)
        if demanded(name, str) not in KINDS:
            raise ValueError(f"the format has no control flow {shortened(name)}")
        fields = self.values(content)
        kind = KINDS[name]
        if len(fields) != len(FIELDS[kind]):
            raise ValueError(f"{name} has {len(FIELDS[kind])} fields, not {len(fields)}")
        return MAKERS[kind](*fields)

    def tree(self, said: Any) -> Any:
        """Return a pytree whose leaves are numbers."""
        if said is None or type(said) is int:
            return said
        ((word, content),) = demanded(said, dict).items()
        if word == "dict":
            if not all(type(k) in {str, int} for k, _ in content) or len({k for k, _ in content}) != len(
                content
            ):
                raise ValueError("a dict has wrong keys")
            return {k: self.tree(part) for k, part in content}
        return {"tuple": tuple, "list": list}[word](map(self.tree, demanded(content, list)))


def body_of(args: Sequence[Any], inside: Sequence[Equation], outs: Sequence[Any]) -> Program:
    """Return the equations of a region as a program of its arguments."""
    fresh = [Var(a.aval if isinstance(a, Var) else aval_of(a), f"a{i}") for i, a in enumerate(args)]
    env = {a: v for a, v in reversed(list(zip(args, fresh, strict=True))) if isinstance(a, Var)}
    body = replaced(Program((), inside, outs, (None, None)), env)
    return Program(fresh, body.equations, body.outputs, (None, None))


def demand_closed(equations: Sequence[Equation], outputs: Sequence[Any], regions: Sequence[Region]) -> None:
    """Demand that regions are nested, use what they are given, and are used by what they return."""
    if not regions:
        return
    above: dict[Region, Region | None] = {}
    depth: dict[Region | None, int] = {None: 0}
    around: list[Region | None] = [None] * len(equations)  # the innermost region of each equation
    stack: list[Region] = []
    starts = {r.start: r for r in regions}
    if len(starts) != len(regions):
        raise ValueError("two regions start at the same equation")
    for i in range(len(equations)):
        while stack and stack[-1].stop <= i:
            stack.pop()
        if i in starts:
            r = starts[i]
            above[r] = stack[-1] if stack else None
            if stack and r.stop > stack[-1].stop:
                raise ValueError("two regions overlap, and none is part of the other")
            depth[r] = len(stack) + 1
            stack.append(r)
        around[i] = stack[-1] if stack else None
    at = {v: i for i, e in enumerate(equations) for v in e.outs}
    seen = {
        v: depth[around[i]] for v, i in at.items()
    }  # how deep the outermost region is that knows a variable
    for r in sorted(regions, key=lambda r: -r.start):  # those within others first
        given = set(filter(_is_var, r.args))
        for y in filter(_is_var, r.outs):
            if r.start <= at.get(y, -1) < r.stop:
                seen[y] = min(seen[y], depth[r] - 1)
            elif y not in given:
                raise ValueError("a region returns values that it neither computes nor takes")
    known: dict[Region | None, set[Any]] = {r: set(filter(_is_var, r.args)) for r in regions}

    def demand(values: Sequence[Any], r: Region | None) -> None:
        for v in filter(_is_var, values):
            i = at.get(v, -1)
            if r is not None and not r.start <= i < r.stop:
                if v not in known[r]:
                    raise ValueError("a region uses values that are not passed to it")
            elif i >= 0 and seen[v] > depth[r]:
                raise ValueError("values of a region are used outside of it, and it does not return them")

    for e, here in zip(equations, around, strict=True):
        demand(e.args, here)
    for r in regions:
        demand(r.args, above[r])
        demand(r.outs, r)
    demand(outputs, None)


def _is_var(a: Any) -> bool:
    return isinstance(a, Var)


def _bytes(aval: Aval) -> int:
    return math.prod(aval.shape) * aval.dtype.itemsize


def _dtype(name: Any) -> np.dtype[Any]:
    return named_dtype(name).newbyteorder("=")


def _number(x: Any, count: int) -> int:
    if type(x) is not int or not 0 <= x < count:
        raise ValueError(f"{shortened(x)} refers to nothing")
    return x


def _float(x: Any) -> float:
    if not _FLOAT.fullmatch(demanded(x, str)):
        raise ValueError(f"{shortened(x)} is no number")
    return float(x)


def _fields(said: Any, *names: str) -> list[Any]:
    if demanded(said, dict).keys() != set(names):
        raise ValueError(f"there have to be {', '.join(names)}, not {shortened([*said])}")
    return [demanded(said[name], list) for name in names]


def _mark(value: Any) -> Callable[[Reader, Any], Any]:
    """Return what reads a word without content."""

    def read(_: Reader, said: Any) -> Any:
        if said is not None:
            raise ValueError("a word without content has some")
        return value

    return read


def _complex(_: Reader, said: Any) -> complex:
    real, imaginary = map(_float, said)
    return complex(real, imaginary)


def _slice(reader: Reader, said: Any) -> slice:
    start, stop, step = reader.values(said)
    return slice(start, stop, step)


def _dict(reader: Reader, said: Any) -> dict[str, Any]:
    return {demanded(k, str): reader.value(v) for k, v in said}


WORDS: dict[str, Callable[[Reader, Any], Any]] = {
    "float": lambda _, said: _float(said),
    "complex": _complex,
    "tuple": lambda reader, said: tuple(reader.values(said)),
    "list": Reader.values,
    "dict": _dict,
    "slice": _slice,
    "ellipsis": _mark(Ellipsis),
    "hole": _mark(HOLE),
    "dtype": lambda _, said: _dtype(said),
    "array": Reader.array,
    "scalar": Reader.scalar,
    "aval": Reader.aval,
    "program": Reader.program,
    "code": Reader.code,
}


# ---- what equations give ----------------------------------------------------------------------------------


def _demand_equal(given: Sequence[Aval], wanted: Sequence[Aval], what: str, casting: Any = "no") -> None:
    """Demand the same shapes, and dtypes that are the same or may be cast so."""
    if [a.shape for a in given] != [a.shape for a in wanted] or not all(
        np.can_cast(a.dtype, b.dtype, casting) for a, b in zip(given, wanted, strict=True)
    ):
        raise ValueError(
            f"{what} are {', '.join(map(str, given))}, but have to be {', '.join(map(str, wanted))}"
        )


def _ins(code: Code) -> list[Aval]:
    """Return the avals of the operands of a code."""
    if isinstance(code, Branches):
        return [Aval((), np.dtype(int)), *(v.aval for v in code.branches[0].inputs)]
    if isinstance(code, While):
        return [v.aval for v in code.body.inputs]
    if isinstance(code, Scan):
        n = code.consts + code.carry
        avals = [v.aval for v in code.body.inputs]
        return [*avals[:n], *(Aval((code.length or 0, *a.shape), a.dtype) for a in avals[n:])]
    if isinstance(code, Back):
        return [*_ins(code.code), *(a for a in code.code.outs if a.dtype.kind in "fc")]
    assert isinstance(code, Mapped)  # noqa: S101 -- there are no others
    return [
        Aval((code.size, *a.shape), a.dtype) if m else a
        for a, m in zip(_ins(code.code), code.mapped, strict=True)
    ]


def _branches(branches: Any, outs: Any) -> Branches:
    programs = [demanded(p, Program) for p in demanded(branches, tuple)]
    avals = [_plain_aval(a) for a in demanded(outs, tuple)]
    first, *others = programs
    for p in others:
        _demand_equal([v.aval for v in p.inputs], [v.aval for v in first.inputs], "the inputs of a branch")
    for p in programs:
        _demand_equal(avals_out(p), avals, "the results of a branch", "same_kind")
    return Branches(programs, avals)


def _while(condition: Any, body: Any, consts: Any) -> While:
    inputs = [v.aval for v in demanded(body, Program).inputs]
    _demand_equal([v.aval for v in demanded(condition, Program).inputs], inputs, "the inputs of a condition")
    carry = inputs[_number(consts, len(inputs) + 1) :]
    (go,) = avals_out(condition)
    if go.shape:
        raise ValueError("the condition of a loop has axes")
    _demand_equal(avals_out(body)[: len(carry)], carry, "the results of a step")
    return While(condition, body, consts)


def _scan(body: Any, consts: Any, carry: Any, length: Any, reverse: Any, checkpoint: Any) -> Scan:
    inputs = [v.aval for v in demanded(body, Program).inputs]
    n = _number(consts, len(inputs) + 1)
    m = _number(carry, len(inputs) + 1 - n)
    _number(length, 2**48)
    if (
        checkpoint is not None
        and type(checkpoint) is not bool
        and not (type(checkpoint) is int and checkpoint > 0)
    ):
        raise ValueError(f"{shortened(checkpoint)} is no number of states to keep")
    _demand_equal(avals_out(body)[:m], inputs[n : n + m], "the results of a step", "same_kind")
    return Scan(body, n, m, length, reverse=demanded(reverse, bool), checkpoint=checkpoint)


def _back(code: Any, wanted: Any, outs: Any) -> Back:
    avals = _ins(_of_code(code))
    flags, given = _flags(wanted, len(avals)), [_plain_aval(a) for a in demanded(outs, tuple)]
    _demand_equal(given, [a for a, w in zip(avals, flags, strict=True) if w], "cotangents")
    return Back(code, flags, given)


def _mapped(code: Any, mapped: Any, size: Any) -> Mapped:
    return Mapped(code, _flags(mapped, len(_ins(_of_code(code)))), _number(size, 2**48))


def _of_code(code: Any) -> Code:
    if not isinstance(code, Code):
        raise ValueError(  # noqa: TRY004 -- whatever is wrong with a file
            f"a {type(code).__name__} stands where a code is expected"
        )
    return code


def _flags(x: Any, count: int) -> tuple[bool, ...]:
    if len(demanded(x, tuple)) != count:
        raise ValueError("there is not one flag for each operand")
    return tuple(demanded(f, bool) for f in x)


def _plain_aval(x: Any) -> Aval:
    if type(x) is not Aval:
        raise ValueError(f"a {type(x).__name__} stands where an aval is expected")
    return x


MAKERS: dict[type[Code], Callable[..., Code]] = {
    Branches: _branches,
    While: _while,
    Scan: _scan,
    Back: _back,
    Mapped: _mapped,
}
