"""as_njit: a compiled program as a function for other compiled code.

The text takes tuples apart, checks every leaf, starts the program (see `kernels.embedding`) and builds the
result. Where nothing is compiled (NUMBA_DISABLE_JIT=1) the same text runs with twins in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from fgrad import tree
from fgrad.compiler import Executable
from fgrad.compiler.executable import NO_MEMORY, OUTSIDE, RAISED, REFUSED, lowered
from fgrad.compiler.pairs import as_staged
from fgrad.compiler.plan import Plan, Python
from fgrad.core.aval import Aval
from fgrad.core.program import Program
from fgrad.kernels import native, vm
from fgrad.kernels.embedding import Embedding
from fgrad.transforms.guard import Mark, Static, Writer

LEAVES = (np.ndarray, np.generic, bool, int, float, complex)


class Staged(NamedTuple):
    """A staged function: what `embedded` has to know of it."""

    name: str
    program: Program
    names: Sequence[str]  # of the leaves, which are the inputs
    args: Sequence[Any]  # examples
    out_structure: Any
    template: Sequence[Static | None]  # for every leaf of the result None or what is no array
    limits: Sequence[tuple[int, np.dtype[Any]]]  # dtypes that Python integers among the inputs have to fit


def embedded(staged: Staged) -> Callable[..., Any]:
    """Return the function for compiled code.

    Raises:
        TypeError: arguments or results have a structure or dtype that Numba does not know.
        NotImplementedError: only Python computes one of the operations.
    """
    writer = _Writer(staged)
    params = [f"a{i}" for i in range(len(staged.args))]
    leaves = list(writer.unpacked(zip(params, staged.args, strict=True)))
    for v, name in zip(staged.program.inputs, staged.names, strict=True):
        writer.check_dtype(v.aval, f"the argument {name}")
    for x, v, name in zip(leaves, staged.program.inputs, staged.names, strict=True):
        described = f"{staged.name}.as_njit: the argument {name}"
        writer.lines.append(f"{x} = {writer.name(_reader(described, v.aval, compiled=writer.compiled))}({x})")
    for i, dtype in staged.limits:
        writer.demand_range(leaves[i], dtype)
    body = writer.compiled_body if writer.compiled else writer.python_body
    outs = iter(body(lowered(staged.program), leaves))
    shown = [next(outs) if t is None else writer.constant(t.value) for t in staged.template]
    writer.lines.append(
        f"return {writer.result(tree.unflatten(staged.out_structure, list(map(Mark, shown))))}"
    )
    return writer.function(params)


class _Writer(Writer):
    def __init__(self, staged: Staged) -> None:
        super().__init__(empty=np.empty, int64=np.int64, float64=np.float64)
        self.staged, self.compiled = staged, not native.interpreted()

    def refuse(self, what: str) -> TypeError:
        """Return the error for what Numba does not know."""
        return TypeError(
            f"as_njit of {self.staged.name}: {what}. A function for compiled code takes and returns arrays, "
            "numbers, and (named) tuples of them: wrap yours in one that takes and returns those"
        )

    def check_dtype(self, aval: Aval, what: str) -> None:
        """Refuse what Numba does not compute with."""
        if aval.dtype.char == "e":
            raise self.refuse(f"{what} is {aval}, for which Numba has no type")

    # ---- arguments --------------------------------------------------------------------------------

    def unpacked(self, items: Any) -> Iterator[str]:
        """Take arguments apart; return the names of leaves."""
        for name, value in items:
            if isinstance(value, tuple):
                check = self.name(
                    _tuple_reader(f"{self.staged.name}.as_njit", len(value), compiled=self.compiled)
                )
                parts = [self.name() for _ in value]
                self.lines.append(f"{name} = {check}({name})")
                self.lines += [f"{p} = {name}[{i}]" for i, p in enumerate(parts)]
                yield from self.unpacked(zip(parts, value, strict=True))
            elif isinstance(value, LEAVES) or (hasattr(value, "shape") and hasattr(value, "dtype")):
                yield name
            else:
                raise self.refuse(f"an argument is or holds a {type(value).__name__}")

    def demand_range(self, x: str, dtype: np.dtype[Any]) -> None:
        """Refuse integers that do not fit."""
        kinds = np.iinfo(dtype), np.iinfo(np.int64)
        low, high = max(k.min for k in kinds), min(k.max for k in kinds)
        self.lines += [
            f"if not {low} <= {x} <= {high}:",
            f"    raise OverflowError('Python integer out of bounds for {dtype}')",
        ]

    # ---- computing --------------------------------------------------------------------------------

    def python_body(self, program: Program, leaves: Sequence[str]) -> list[str]:
        """Run the program where nothing is compiled; return the text of each output."""
        self.plan(program)
        run = self.name(Executable(program).run)
        self.lines.append(f"outs = {run}(({''.join(f'{x}, ' for x in leaves)}))")
        return [f"outs[{i}][()]" for i in range(len(program.outputs))]

    def compiled_body(self, program: Program, leaves: Sequence[str]) -> list[str]:
        """Start the program; return the text of each output."""
        plan = self.plan(program)
        arguments = [*plan.inputs, *plan.outputs]
        scalars = [k for k, v in enumerate(arguments) if not v.aval.shape]
        made = Embedding(plan.table, plan.places(), len(arguments), scratch=plan.size, spare=2 * len(scalars))
        places = {k: made.place + 2 * i for i, k in enumerate(scalars)}
        self.lines.append(f"memory = empty({made.words}, int64)")
        self.lines.append("start = memory.ctypes.data")
        names = list(leaves)
        for k, v in enumerate(arguments):
            kind = self.name(v.aval.dtype.type)
            if k >= len(leaves):
                names.append(f"o{k}" if v.aval.shape else self.element(v.aval, places[k]))
            if v.aval.shape:
                if k >= len(leaves):
                    self.lines.append(f"o{k} = empty({v.aval.shape}, {kind})")
                self.lines.append(f"memory[{k}] = {names[k]}.ctypes.data")
            else:
                self.lines.append(f"memory[{k}] = start + {8 * places[k]}")
                if k < len(leaves):
                    self.lines.append(f"{self.element(v.aval, places[k])} = {names[k]}")
        arrays = [n for n, v in zip(names, arguments, strict=True) if v.aval.shape]
        self.lines.append(f"{self.name(made.runner())}(memory, ({''.join(f'{a}, ' for a in arrays)}))")
        if plan.has_faults:
            for failed, error, text in (
                (f"== {vm.EXHAUSTED}", MemoryError, NO_MEMORY),
                (f"== {vm.REFUSED}", LinAlgError, REFUSED),
                (f"== {vm.RAISED}", RuntimeError, RAISED),
                ("!= 0", IndexError, OUTSIDE),
            ):
                self.lines += [f"if {names[-1]} {failed}:", f"    raise {self.name(error)}({text!r})"]
        return [self.output(plan, i, names, len(leaves)) for i in range(len(plan.results))]

    def output(self, plan: Plan, i: int, names: Sequence[str], inputs: int) -> str:
        """Return the text of an output, an array of its own."""
        k = plan.results[i]
        if k is None:
            return self.constant(plan.program.outputs[i])
        if k >= len(names):
            buffer = plan.slots[k]
            return self.constant(buffer and buffer.array)
        shape = (*plan.inputs, *plan.outputs)[k].aval.shape
        return f"{names[k]}.copy()" if shape and (k < inputs or k in plan.results[:i]) else names[k]

    def element(self, aval: Aval, place: int) -> str:
        """Return the text of a scalar in the memory of the call."""
        kind = self.name(aval.dtype.type)
        return f"memory.view({kind})[{8 * place // aval.dtype.itemsize}]"

    def constant(self, x: Any) -> str:
        """Return the text of a constant."""
        if isinstance(x, np.ndarray) and x.ndim:
            return f"{self.name(np.ascontiguousarray(x))}.copy()"
        if not isinstance(x, LEAVES):
            raise self.refuse(f"the result is or holds a {type(x).__name__}")
        return self.name(x[()] if isinstance(x, np.ndarray) else x)

    def plan(self, program: Program) -> Plan:
        """Return the plan of a program that is nothing but its table."""
        plan = Plan(program, self.staged.name, alone=False)
        for v in plan.outputs:
            self.check_dtype(v.aval, "a result")
        equations = [s.equation for s in plan.steps if isinstance(s, Python)]
        shown = [(e.name, [v.aval for v in e.outs]) for e in map(as_staged, equations)]
        rows = dict.fromkeys(f"{name} (giving {', '.join(map(str, outs))})" for name, outs in shown)
        if rows:
            raise NotImplementedError(
                f"as_njit of {self.staged.name}: Python computes {' and '.join(rows)}, which compiled code "
                "cannot call. Leave it out of the function, or call the jitted function from Python"
            )
        return plan

    # ---- the result -------------------------------------------------------------------------------

    def result(self, x: Any) -> str:
        """Return the text of a tree of tuples."""
        if isinstance(x, Mark):
            return x.text
        if not isinstance(x, tuple):
            raise self.refuse(f"the result is or holds a {type(x).__name__}")
        inside = "".join(f"{self.result(part)}, " for part in x)
        return f"({inside})" if type(x) is tuple else f"{self.name(type(x))}({inside})"

    def function(self, params: Sequence[str]) -> Callable[..., Any]:
        """Return the function of the text."""
        made = self.executed([f"def embedded({', '.join(params)}):"], f"<{self.staged.name}.as_njit>")
        if not self.compiled:
            return made
        from numba import njit  # noqa: PLC0415 -- late: it takes longer to import than the rest of fgrad

        return njit(nogil=True)(made)


# ---- checks of arguments ----------------------------------------------------------------------------------


def _reader(described: str, aval: Aval, *, compiled: bool) -> Callable[..., Any]:
    """Return the function that checks a leaf, and makes it a contiguous array, or a number."""
    shape, kind = aval.shape, aval.dtype.type
    wrong = f"{described} must have shape {shape}: the program was compiled for {aval}"

    def read(x: Any) -> Any:
        if np.ndim(x) != len(shape) or not _fits(np.result_type(x), aval):
            raise TypeError(f"{described} must be {aval}, not {Aval(np.shape(x), np.result_type(x))}")
        if np.shape(x) != shape:
            raise ValueError(wrong)
        return np.ascontiguousarray(x) if shape else kind(x)

    if not compiled:
        return read
    from numba import types  # noqa: PLC0415 -- late, as above
    from numba.extending import overload  # noqa: PLC0415
    from numba.np.numpy_support import as_dtype  # noqa: PLC0415

    def typed(x: Any) -> Any:
        array = isinstance(x, types.Array)
        number = x.dtype if array else types.unliteral(x)
        known = isinstance(number, types.Number | types.Boolean)
        if not known or (x.ndim if array else 0) != len(shape) or not _fits(as_dtype(number), aval):
            given = f"{number}[{','.join(':' * x.ndim)}]" if array else x
            raise _typing_error(f"{described} must be {aval}, not {given}")
        if not shape:
            return element if array else converted
        if not x.aligned:
            return aligned
        return as_it_is if x.layout == "C" else contiguous

    def converted(x: Any) -> Any:
        return kind(x)

    def element(x: Any) -> Any:
        return kind(x[()])

    def as_it_is(x: Any) -> Any:
        if x.shape != shape:
            raise ValueError(wrong)
        return x

    def contiguous(x: Any) -> Any:
        if x.shape != shape:
            raise ValueError(wrong)
        return np.ascontiguousarray(x)

    def aligned(x: Any) -> Any:
        if x.shape != shape:
            raise ValueError(wrong)
        return np.ascontiguousarray(x.copy())

    overload(read)(typed)
    return read


def _fits(dtype: np.dtype[Any], aval: Aval) -> bool:
    """Return whether an argument of `dtype` is one: arrays of that dtype, numbers that convert safely."""
    return dtype == aval.dtype if aval.shape else np.can_cast(dtype, aval.dtype)


def _tuple_reader(described: str, count: int, *, compiled: bool) -> Callable[..., Any]:
    """Return the function that checks the length of a tuple."""
    wrong = f"{described} takes a tuple of {count} here, not"

    def read(x: Any) -> Any:
        if not isinstance(x, tuple) or len(x) != count:
            raise TypeError(f"{wrong} {x!r}")
        return x

    if not compiled:
        return read
    from numba import types  # noqa: PLC0415 -- late, as above
    from numba.extending import overload  # noqa: PLC0415

    def typed(x: Any) -> Any:
        if not isinstance(x, types.BaseTuple) or len(x) != count:
            raise _typing_error(f"{wrong} {x}")
        return same

    def same(x: Any) -> Any:
        return x

    overload(read)(typed)
    return read


def _typing_error(text: str) -> Exception:
    from numba import TypingError  # noqa: PLC0415 -- late, as above

    made: Exception = TypingError(text)
    return made
