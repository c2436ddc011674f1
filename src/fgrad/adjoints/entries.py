"""Kernels behind addresses, for one example after the other: what compiled programs and threads call.

An entry is a kernel as of `kernels.native`: `entry(slots, args, lo, hi)` takes the addresses of buffers and
the numbers of a call, and does the examples from `lo` to `hi`. It calls what Numba has made of the user's
kernel, or of a derivative, and no Python; where that raises, it says so by a number in a buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic
from numba.np.numpy_support import carray

from fgrad import locks
from fgrad.adjoints import emission, memory, stored, syntax
from fgrad.adjoints.programs import Program, Users, dtype_of
from fgrad.adjoints.stacks import FIRST, STACKS
from fgrad.compat.numba import c_function, empty, is_refusal, runtime_is_there
from fgrad.compat.numba_pipeline import short_c
from fgrad.kernels import checks, native, vm
from fgrad.kernels.compilation import Code, calling_llvm

DTYPES = "?bhilqBHILQfdFD"


class Task(NamedTuple):
    """What an entry computes: values, or cotangents of the operands `wrt` from those of the outputs `given`.

    Attributes:
        wrt: None for values.
        given: as of `Program.pullback`.
        masks: for each axis of examples, the outermost first, which operands have it.
    """

    wrt: tuple[int, ...] | None = None
    given: tuple[int, ...] = ()
    masks: tuple[tuple[bool, ...], ...] = ()


class Item(NamedTuple):
    """An array that an entry is given: its name, type, and which axes of examples it has."""

    name: str
    type: Any
    mask: tuple[bool, ...]

    @property
    def rank(self) -> int:
        """The number of axes of an example."""
        return self.type.ndim if syntax.is_array(self.type) else 0


class Entry:
    """An entry of a program.

    Attributes:
        kernel: the machine code.
        items: the arrays that it is given, operands, cotangents and results, in this order.
        is_sum: whether examples add to one result, so that they have to come one after the other.
    """

    def __init__(self, program: Program, task: Task) -> None:
        text = _Text(program, task)
        self.items: list[Item] = text.items
        self.is_sum: bool = text.is_sum
        self.levels: int = len(task.masks)
        self.fixed: list[int] = [i for i, _ in program.fixed]
        self.kernel: native.Kernel = _kernel(text, f"<{program.function.name}: entry>")
        options = getattr(text.called, "targetoptions", {})
        self.shared: bool = not self.is_sum and not options.get("parallel")

    def numbers(
        self,
        slots: Sequence[int],
        faults: int,
        sizes: Sequence[int],
        shapes: Sequence[Sequence[int]],
        steps: Sequence[Sequence[int]],
        fixed: Sequence[Any],
    ) -> list[int]:
        """Return the numbers of a call.

        Args:
            slots: of the items; `-1 - k` is the k-th number of the call itself.
            faults: the slot of an int64, which is not zero after a failure.
            sizes: of the axes of examples.
            shapes: of one example of each item.
            steps: bytes from one example to the next, along each axis of examples.
            fixed: values of parameters that are no operands.
        """
        found = [faults, *sizes]
        for slot, shape, step in zip(slots, shapes, steps, strict=True):
            found += [slot, *step, *shape]
        return found + [int(np.int64(np.uint64(int(x) % 2**64))) for x in fixed]

    @property
    def length(self) -> int:
        """How many numbers there are."""
        return 1 + self.levels + sum(1 + self.levels + i.rank for i in self.items) + len(self.fixed)


def _kernel(text: _Text, file: str) -> native.Kernel:
    """Return the machine code of an entry, from disk if it is there.

    It is linked apart from all that Numba compiles, since symbols of other functions may have the same names.
    """
    source = str(text)
    key = stored.key(source, {"called": text.called, **text.classes}, stamp=text.stamp)
    parallel = getattr(text.called, "targetoptions", {}).get("parallel")  # which needs more than its code
    if parallel:
        key = ""
    found = native.found_elsewhere(key) if key and runtime_is_there() else None
    if found is not None:
        return found
    names = {**_NAMES, "np__empty": empty(), **memory.quick(), "called": text.called, **text.classes}
    word = types.CPointer(types.int64)
    function = stored.executed(source, "entry", names, file)
    made = c_function(function, types.void(word, word, types.uint64, types.uint64), **short_c())
    if key and made.machine:
        native.keep_elsewhere(key, Code(made.symbol, made.externals, made.machine))
    return native.Kernel(made.address, made.owner)


def entry(program: Program, task: Task) -> Entry | None:
    """Return an entry of a program; None where Numba cannot compile it, or compiles nothing."""
    if native.interpreted():
        return None
    key = ("entry", task, tuple([i for i, _ in program.fixed]))
    if key not in program.family:
        with locks.making:
            if key not in program.family:
                program.family[key] = _made(program, task)
    found: Entry | None = program.family[key]
    return found


@calling_llvm
def _made(program: Program, task: Task) -> Entry | None:
    kinds = [program.function.types[n] for n in program.function.outputs] + [p.type for p in program.operands]
    if any(dtype_of(t).char not in DTYPES for t in kinds):
        return None
    try:
        return Entry(program, task)
    except Exception as error:
        if not is_refusal(error):
            raise
        return None  # what Numba cannot put behind an address, Python calls


# ---- its text ---------------------------------------------------------------------------------------------


class _Text:
    """The source of an entry."""

    def __init__(self, program: Program, task: Task) -> None:
        self.program, self.task = program, task
        function = program.function
        self.classes: dict[str, Any] = {}  # of named tuples
        operands, outputs = program.operands, function.outputs
        masks = list(zip(*task.masks, strict=True)) if task.masks else [()] * len(operands)
        every = (True,) * len(task.masks)
        self.operands = [
            Item(f"x{k}", p.type, m) for k, (p, m) in enumerate(zip(operands, masks, strict=True))
        ]
        if task.wrt is None:
            self.cts: list[Item] = []
            self.results = [Item(f"o{k}", function.types[n], every) for k, n in enumerate(outputs)]
        else:
            self.cts = [Item(f"c{k}", function.types[outputs[i]], every) for k, i in enumerate(task.given)]
            self.results = [Item(f"o{k}", operands[i].type, masks[i]) for k, i in enumerate(task.wrt)]
        self.items = [*self.operands, *self.cts, *self.results]
        self.is_sum = any(not all(r.mask) for r in self.results)
        self.called, self.stamp = self._called()

    def _called(self) -> tuple[Any, str | None]:
        """Return the compiled function that an entry calls; of a user's, what it was when it was new."""
        program, task = self.program, self.task
        if task.wrt is not None:
            self.reverse = program.adjoint(task.wrt, task.given)
            return self.reverse.code, None
        if isinstance(program, Users):
            return program.kernel, program.form.stamp
        return program.primal, None

    def __str__(self) -> str:
        stacks = self.reverse.stacks if self.task.wrt is not None else ""
        levels = len(self.task.masks)
        lines = ["def entry(slots, args, lo, hi):", "    here, failed = place(args), 0"]
        lines += [f"    s{k} = {_MADE[k]}" for k in stacks]
        lines += ["    for turn in range(np.int64(lo), np.int64(hi)):", "        left = turn"]
        for k in range(levels - 1, -1, -1):
            lines += [f"        e{k} = left % args[{1 + k}]", f"        left = left // args[{1 + k}]"]
        at = 1 + levels
        for item in self.items:
            lines += [f"        {line}" for line in self.taken(item, at, levels)]
            at += 1 + levels + item.rank
        for i, _ in self.program.fixed:
            ty = self.program.function.params[i].type
            number = f"args[{at}]"
            is_truth = isinstance(ty, types.Boolean)
            value = f"{number} != 0" if is_truth else f"{emission.dtype_text(ty)}({number})"
            lines.append(f"        f{i} = {value}")
            at += 1
        lines += ["        try:", *[f"            {line}" for line in self.call()]]
        lines += ["        except Exception:", f"            failed = {vm.RAISED}"]
        lines += ["        if failed == 0:", *[f"            {line}" for line in self.kept() or ["pass"]]]
        lines += ["        if failed != 0:", "            break"]
        lines += ["    if failed != 0:"]
        lines.append(f"        carray(pointer(slots[{checks.WORDS} * args[0]]), (1,), np.int64)[0] = failed")
        return "\n".join(lines) + "\n"

    def taken(self, item: Item, at: int, levels: int) -> list[str]:
        """Return the lines that give an array, or number, of one example its name."""
        n, width = item.name, checks.WORDS
        lines = [f"s = args[{at}]", f"{n}_at = slots[{width} * s] if s >= 0 else here + 8 * (-1 - s)"]
        moves = [f"e{k} * args[{at + 1 + k}]" for k, m in enumerate(item.mask) if m]
        start = " + ".join([f"{n}_at", *moves])
        dims = [f"args[{at + 1 + levels + k}]" for k in range(item.rank)] or ["1"]
        kind = emission.dtype_text(item.type)
        lines.append(f"{n} = carray(pointer({start}), {emission.tuple_text(dims)}, {kind})")
        if item in self.operands:
            if not syntax.is_array(item.type):
                lines.append(f"{n} = {n}[0]")
            elif item.type.layout == "F" and item.rank > 1:
                lines.append(f"{n} = np.asfortranarray({n})")
        elif item in self.cts and not syntax.is_array(item.type):
            lines.append(f"{n} = {n}[0]")
        return lines

    def values(self) -> list[str]:
        """Return the text of the value of every parameter of the kernel."""
        known = {i: f"f{i}" for i, _ in self.program.fixed}
        known |= {place: item.name for place, item in zip(self.program.places, self.operands, strict=True)}
        return [known[i] for i in range(len(self.program.function.params))]

    def call(self) -> list[str]:
        """Return the call; arrays that are written to are copied to where the results are first."""
        program, task = self.program, self.task
        values = self.values()
        if task.wrt is not None:
            arrays, stacks = self.reverse.arrays, [f"s{k}" for k in self.reverse.stacks]
            lines = [f"g{k} = np.empty({r.name}.shape, {emission.dtype_text(r.type)})"
                     for k, r in enumerate(self.results) if k in arrays and not all(r.mask)]  # fmt: skip
            handed = [r.name if all(r.mask) else f"g{k}" for k, r in enumerate(self.results) if k in arrays]
            args = [*values, *[c.name for c in self.cts], *handed, *stacks]
            found = [f"g{k}" for k in range(len(task.wrt)) if k not in arrays]
            to = f"{', '.join([*found, *stacks])}, = " if found or stacks else ""
            return [*lines, f"{to}called({', '.join(args)})"]
        lines = []
        names = [p.name for p in program.function.params]
        for r, n in self.written():
            i = names.index(n)
            source = values[i]
            if program.function.params[i].type.layout == "F" and r.rank > 1:
                lines.append(f"{r.name}_f = np.asfortranarray({source}.copy())")
                values[i] = f"{r.name}_f"
            else:
                if not program.function.params[i].fresh:
                    lines.append(f"copy_into({r.name}, {source})")
                values[i] = r.name
        args = list(program.form.texts(values, self.classes)) if isinstance(program, Users) else values
        return [*lines, f"found = called({', '.join(args)})"]

    def written(self) -> list[tuple[Item, str]]:
        """Return the results that are arrays which the kernel writes to, with the names of parameters."""
        names = self.program.function.outputs
        start = len(self.program.function.returns)
        return list(zip(self.results[start:], names[start:], strict=True))

    def kept(self) -> list[str]:
        """Return the lines that store what was found."""
        program = self.program
        if self.task.wrt is not None:
            lines = []
            for k, r in enumerate(self.results):
                is_array = syntax.is_array(r.type)
                stored = f"copy_into({r.name}, g{k})" if is_array else f"{r.name}[0] = g{k}"
                if all(r.mask):
                    if k not in self.reverse.arrays:
                        lines.append(stored)
                    continue
                turns = " and ".join(f"e{j} == 0" for j, m in enumerate(r.mask) if not m)
                lines += [f"if {turns}:", f"    {stored}", "else:"]
                lines.append(f"    {r.name}{'' if is_array else '[0]'} += g{k}")
            return lines
        lines = []
        returned = program.function.returns
        structure = program.structure if isinstance(program, Users) else tuple(range(len(returned)))
        for k, path in _paths(structure):
            r = self.results[k]
            if syntax.is_array(r.type):
                lines += [f"if found{path}.shape == {r.name}.shape:"]
                lines += [f"    copy_into({r.name}, found{path})"]
                lines += ["else:", f"    failed = {vm.RAISED}"]
            else:
                lines.append(f"{r.name}[0] = found{path}")
        kinds = {p.name: p.type for p in program.function.params}
        for r, n in self.written():
            if kinds[n].layout == "F" and r.rank > 1:
                lines.append(f"copy_into({r.name}, {r.name}_f)")
        return lines


def _paths(structure: Any, path: str = "") -> list[tuple[int, str]]:
    """Return for every place in a structure how it is taken from a result."""
    if structure is None:
        return []
    if not isinstance(structure, tuple):
        return [(structure, path)]
    return [p for k, part in enumerate(structure) for p in _paths(part, f"{path}[{k}]")]


def _cast(signature: Any, emit: Callable[[Any, Any, Any], Any]) -> Any:
    """Return what an intrinsic gives of its one argument: the signature, and what emits its code."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        from llvmlite import ir  # noqa: PLC0415 -- late: eager programs need no machine code

        del context, signature
        return emit(builder, values[0], ir)

    return signature, generate


@intrinsic
def pointer(context: Any, word: Any) -> Any:
    """Return the pointer that an integer is."""
    del context
    return _cast(types.voidptr(word), lambda b, x, ir: b.inttoptr(x, ir.IntType(8).as_pointer()))


@intrinsic
def place(context: Any, words: Any) -> Any:
    """Return the address of the words that a pointer points to."""
    del context
    return _cast(types.int64(words), lambda b, x, ir: b.ptrtoint(x, ir.IntType(64)))


# Numba compiles numpy.empty anew for each form that it meets; the quick one makes double precision
_SIZES = {k: f"{FIRST}{emission.dtype_argument(ty)}" for k, ty in STACKS.items()}
_MADE = {k: f"np.empty({n})" if "," in n else f"np__empty({n})" for k, n in _SIZES.items()}
_NAMES = {"np": np, "pointer": pointer, "place": place, "carray": carray}
