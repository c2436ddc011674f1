"""Programs from what a header says: every equation is held to the rules of its row before anything runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.archive.container import DTYPES, checked_shape, demanded
from fgrad.archive.rows import CODES, check
from fgrad.archive.rules import Unstored
from fgrad.archive.writing import FIELDS
from fgrad.core.aval import Aval, aval_of
from fgrad.core.program import Equation, Program, Region, Var
from fgrad.core.trace import running
from fgrad.core.watch import quiet
from fgrad.lax.branches import Branches
from fgrad.lax.loops import While
from fgrad.lax.scans import Scan
from fgrad.lax.staged import Back, Code, Grown, Mapped, avals_out
from fgrad.ops.indexing import HOLE
from fgrad.transforms.custom import CUSTOM

PARTS = ("inputs", "equations", "outputs", "regions")
KINDS = {kind.__name__: kind for kind in FIELDS}
ROWS_OF = {"Branches": "lax.cond", "While": "lax.while_loop", "Scan": "lax.scan", "Back": "lax.pullback"}
_FLOAT = re.compile(r"-?(\d+(\.\d+)?(e[+-]?\d+)?|inf|nan)")


class Reader:
    """Reads programs and values of a header.

    Raises:
        ValueError: there is something that the format does not say.
    """

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        self.arrays = arrays

    def program(self, said: Any) -> Program:
        """Return a program."""
        env = [Var(self.aval(a), f"v{i}") for i, a in enumerate(_fields(said, *PARTS)[0])]
        count, equations = len(env), []
        for name, operands, given, outs in said["equations"]:
            args = tuple(self.operand(a, env) for a in operands)
            params = {demanded(k, str): self.value(v) for k, v in given.items()}
            avals = [self.aval(a) for a in outs]
            _infer(demanded(name, str), args, params, avals)
            made = tuple(Var(a, f"v{len(env) + i}") for i, a in enumerate(avals))
            env += made
            equations.append(Equation(name, args, params, made, "a stored program"))
        outputs = [self.operand(y, env) for y in said["outputs"]]
        regions = [self.region(r, equations, env, count) for r in said["regions"]]
        if len({r.start for r in regions}) != len(regions):
            raise ValueError("two regions start at the same equation")
        return Program(env[:count], equations, outputs, (None, None), regions)

    def region(self, said: Any, equations: Sequence[Equation], env: Sequence[Var], count: int) -> Region:
        """Return equations that have a derivative of their own, which is not known."""
        name, start, stop, args, outs = said
        if not _number(start, len(equations)) < _number(stop, len(equations) + 1):
            raise ValueError("a region is empty")
        first = count + sum(len(e.outs) for e in equations[:start])  # the variables that it assigns
        last = first + sum(len(e.outs) for e in equations[start:stop])
        given = [self.operand(a, env[:first]) for a in demanded(args, list)]
        made = [self.operand(y, env[:last]) for y in demanded(outs, list)]
        inside = equations[start:stop]
        known = {*(a for a in given if isinstance(a, Var)), *env[first:last]}
        if any(isinstance(a, Var) and a not in known for a in (*made, *(a for e in inside for a in e.args))):
            raise ValueError("a region uses values that are not passed to it")
        fresh = [Var(a.aval if isinstance(a, Var) else aval_of(a), f"a{i}") for i, a in enumerate(given)]
        env_inside = {a: v for a, v in reversed(list(zip(given, fresh, strict=True))) if isinstance(a, Var)}

        def moved(xs: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(env_inside.get(a, a) if isinstance(a, Var) else a for a in xs)

        body = [Equation(e.name, moved(e.args), e.params, e.outs, e.line) for e in inside]
        rule = Unstored(demanded(name, str), Program(fresh, body, moved(made), (None, None)))
        region = Region(CUSTOM, tuple(given), {"rule": rule}, made, start)
        region.stop = stop
        return region

    def operand(self, said: Any, env: Sequence[Var]) -> Any:
        """Return a variable that has been assigned, or a constant."""
        if isinstance(said, dict) and set(said) == {"var"}:
            return env[_number(said["var"], len(env))]
        x = self.value(said)
        if type(x) not in {bool, int, float, complex} and not isinstance(x, np.ndarray | np.generic):
            raise ValueError(f"an operand is a {type(x).__name__}")
        return x

    def aval(self, said: Any) -> Aval:
        """Return a shape and dtype."""
        name, shape, *more = said
        dtype = _dtype(name)
        if more not in ([], ["grown"]):
            raise ValueError(f"{said!r} is no aval")
        sizes = checked_shape(shape, dtype)
        return Grown(sizes, dtype) if more else Aval(sizes, dtype)

    def value(self, said: Any) -> Any:
        """Return a value of one of the types that the format knows."""
        if said is None or type(said) in {bool, int, str}:
            return said
        ((word, content),) = demanded(said, dict).items()
        if word not in WORDS:
            raise ValueError(f"the format has no {word!r}")
        return WORDS[word](self, content)

    def values(self, said: Any) -> list[Any]:
        """Return several values."""
        return [self.value(x) for x in demanded(said, list)]

    def array(self, said: Any) -> np.ndarray:
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
        name, content = said
        if name not in KINDS:
            raise ValueError(f"the format has no control flow {name!r}")
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


def _dtype(name: Any) -> np.dtype[Any]:
    return DTYPES[demanded(name, str)].newbyteorder("=")


def _number(x: Any, count: int) -> int:
    if type(x) is not int or not 0 <= x < count:
        raise ValueError(f"{x!r} refers to nothing")
    return x


def _float(x: Any) -> float:
    if not _FLOAT.fullmatch(demanded(x, str)):
        raise ValueError(f"{x!r} is no number")
    return float(x)


def _fields(said: Any, *names: str) -> list[Any]:
    if demanded(said, dict).keys() != set(names):
        raise ValueError(f"there have to be {', '.join(names)}, not {', '.join(said)}")
    return [demanded(said[name], list) for name in names]


def _none(said: Any) -> None:
    if said is not None:
        raise ValueError("a word without content has some")


def _hole(_: Reader, said: Any) -> Any:
    _none(said)
    return HOLE


def _ellipsis(_: Reader, said: Any) -> Any:
    _none(said)
    return Ellipsis


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
    "ellipsis": _ellipsis,
    "hole": _hole,
    "dtype": lambda _, said: _dtype(said),
    "array": Reader.array,
    "scalar": Reader.scalar,
    "aval": Reader.aval,
    "program": Reader.program,
    "code": Reader.code,
}


# ---- what equations give ----------------------------------------------------------------------------------


def _infer(name: str, args: Sequence[Any], params: dict[str, Any], said: Sequence[Aval]) -> None:
    """Hold an equation to the rules of its row."""
    avals = [a.aval if isinstance(a, Var) else aval_of(a) for a in args]
    row = check(name, avals, params)
    if name in CODES:
        code = params.get("code")
        if set(params) != {"code"} or not isinstance(code, Code):
            raise ValueError(f"{name} needs a code")
        if not isinstance(code, Mapped) and ROWS_OF[type(code).__name__] != name:
            raise ValueError(f"{name} does not run a {type(code).__name__}")
        _demand_equal(avals, _ins(code), f"the operands of {name}")
        found: Sequence[Aval] = code.outs
    else:
        operands = [a.aval if isinstance(a, Var) else a for a in args]
        if row.shape is None:
            raise ValueError(f"{name} has no rule for shapes, so it cannot be part of a stored program")
        with quiet(), running(()), np.errstate(all="ignore"):
            made = row.shape(*operands, **params)
        found = [a if isinstance(a, Aval) else aval_of(a) for a in (made if row.many else (made,))]
    _demand_equal(said, found, f"the results of {name}")


def _demand_equal(given: Sequence[Aval], wanted: Sequence[Aval], what: str) -> None:
    if [(a.shape, a.dtype) for a in given] != [(a.shape, a.dtype) for a in wanted]:
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
        _demand_like(avals_out(p), avals, "the results of a branch")
    return Branches(programs, avals)


def _while(condition: Any, body: Any, consts: Any) -> While:
    inputs = [v.aval for v in demanded(body, Program).inputs]
    _demand_equal([v.aval for v in demanded(condition, Program).inputs], inputs, "the inputs of a condition")
    carry = inputs[_number(consts, len(inputs) + 1) :]
    (go,) = avals_out(condition)
    if go.shape:
        raise ValueError("the condition of a loop has axes")
    _demand_like(avals_out(body)[: len(carry)], carry, "the results of a step")
    return While(condition, body, consts)


def _scan(body: Any, consts: Any, carry: Any, length: Any, reverse: Any, checkpoint: Any) -> Scan:
    inputs = [v.aval for v in demanded(body, Program).inputs]
    n = _number(consts, len(inputs) + 1)
    m = _number(carry, len(inputs) + 1 - n)
    _number(length, 2**48)
    if checkpoint not in (None, False, True) and not (
        type(checkpoint) in {int, str} or checkpoint is Ellipsis
    ):
        raise ValueError("checkpoint is none")
    _demand_like(avals_out(body)[:m], inputs[n : n + m], "the results of a step")
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


def _demand_like(given: Sequence[Aval], wanted: Sequence[Aval], what: str) -> None:
    """Demand that shapes are equal, and dtypes such that they become those wanted without loss."""
    if [a.shape for a in given] != [a.shape for a in wanted] or not all(
        np.can_cast(a.dtype, b.dtype, "same_kind") for a, b in zip(given, wanted, strict=True)
    ):
        raise ValueError(
            f"{what} are {', '.join(map(str, given))}, but have to be {', '.join(map(str, wanted))}"
        )


MAKERS: dict[type[Code], Callable[..., Code]] = {
    Branches: _branches,
    While: _while,
    Scan: _scan,
    Back: _back,
    Mapped: _mapped,
}
