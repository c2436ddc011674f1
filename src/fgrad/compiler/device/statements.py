"""The statements of CUDA kernels: scalars as on the CPU, counters from an index, reductions in a block."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad.compiler.elements import SMALL
from fgrad.compiler.fuse import Root
from fgrad.compiler.index import Index
from fgrad.compiler.loop_nests import Bound, Line, Loop, Place, module, without
from fgrad.compiler.writer import Writer, dtype_of_helpers, hold, joined
from fgrad.core.program import Var
from fgrad.kernels import launching
from fgrad.kernels.body import helpers

AHEAD = 16  # bytes that a thread asks for before it waits
FULL = 2**18  # threads that a device has at a time: before there are so many, each has one turn
COPIES, BRIEF = 4, 24  # turns of a loop of so many lines that are written out, at most


def split(index: str, counters: Sequence[str], sizes: Sequence[str]) -> list[str]:
    """Return the lines that split an index into counters, the last one fastest.

    Args:
        index: its name.
        counters: their names.
        sizes: the lengths of all axes but the first.
    """
    lines, rest = [], index
    for counter, size in zip(counters[:0:-1], reversed(sizes), strict=True):
        lines += [f"{counter} = {rest} % {size}", f"{rest}_ = {rest} // {size}"]
        rest += "_"
    return [*lines, *(f"{counter} = {rest}" for counter in counters[:1])]


def inside(lines: Sequence[str]) -> list[str]:
    """Return lines that stand inside of a loop."""
    return [f"    {line}" for line in lines]


def striding(
    index: str, stop: str, lines: Sequence[str], *, blocks: bool = False, copies: int = 1
) -> list[str]:
    """Return the loop of a thread, or a block, over what the grid does not cover at once."""
    start, step = ("cuda.blockIdx.x", "cuda.gridDim.x") if blocks else ("cuda.grid(1)", "cuda.gridsize(1)")
    return [
        f"{index} = np.int64({start})",
        f"stride = np.int64({step})",
        *looped(index, stop, "stride", lines, copies),
    ]


def looped(index: str, stop: str, step: str, lines: Sequence[str], copies: int) -> list[str]:
    """Return the loop of lines, several turns at a time: all load what they need before any of them stores.

    A compiler that does not know whether what is stored is loaded next keeps the order, so a thread would
    wait for memory in each turn.

    Args:
        index: its counter.
        stop: where it ends.
        step: the name of what is added to the counter.
        lines: assignments, and stores after them.
        copies: how many turns at a time.
    """
    one = [f"while {index} < {stop}:", *inside([*lines, f"{index} += {step}"])]
    stores = [line for line in lines if re.match(r"\w+\[", line)]
    sums = [line for line in lines if _is_carried(line)]
    rest = [line for line in lines if line not in stores and line not in sums]
    names = [line.partition(" = ")[0] for line in rest]
    if copies == 1 or not all(map(str.isidentifier, names)):
        return one
    own = re.compile(rf"\b({'|'.join([index, *names])})\b")

    def copy(line: str, k: int) -> str:
        return own.sub(rf"\g<0>_{k}", line) if k else line

    several = [f"{index}_{k} = {index} + {k} * {step}" for k in range(1, copies)]
    several += [copy(line, k) for line in rest for k in range(copies)]
    several += [copy(line, k) for part in (sums, stores) for k in range(copies) for line in part]
    last = f"{index} + {copies - 1} * {step}"
    return [f"while {last} < {stop}:", *inside([*several, f"{index} += {copies} * {step}"]), *one]


def _is_carried(line: str) -> bool:
    """Return whether a line adds to what an earlier turn left."""
    name, _, value = line.partition(" = ")
    return re.search(rf"\b{re.escape(name)}\b", value) is not None


class Partial(NamedTuple):
    """What the blocks or chunks of a reduction leave: `parts` numbers for each that is wanted."""

    root: Root
    parts: int

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return self.root.var.aval.size * self.parts

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the reduction."""
        dtype: np.dtype[Any] = self.root.var.aval.dtype
        return dtype


class Scratch(NamedTuple):
    """What the kernels of one root hand on to one another."""

    root: Root
    name: str
    size: int
    dtype: np.dtype[Any]


def dtype_of(x: Any) -> np.dtype[Any]:
    """Return the dtype of what a buffer of a kernel is."""
    dtype: np.dtype[Any] = x.aval.dtype if isinstance(x, Var) else x.dtype
    return dtype


class Grid(NamedTuple):
    """A kernel: its text, and what its arguments and its grid are."""

    kind: str
    text: str
    buffers: tuple[Any, ...]  # variables, or what has a root, a size and a dtype
    numbers: tuple[int, ...]
    tasks: int  # threads that have something to do, or blocks where `whole_blocks`
    whole_blocks: bool
    threads: int  # in a block
    loads: frozenset[Var]
    stores: frozenset[Any]

    def blocks(self) -> int:
        """Return how many blocks to launch: those that it has tasks for, as far as the device suits them."""
        chip = launching.device()
        blocks = self.tasks if self.whole_blocks else -(-self.tasks // self.threads)
        return max(1, min(blocks, chip.blocks * max(1, chip.threads // self.threads)))


class GridWriter(Writer):
    """Writes the lines of elements, and names for what they read.

    Args:
        loops: their lengths.
        threads: in a block.
        heirs: values -> those computed from them that lie in their memory.
        context: makers and what follows, as of `Writer`.
    """

    saturates = True
    literal: int = SMALL  # the largest integer that stands in the text

    def __init__(self, loops: Sequence[int], threads: int, heirs: Mapping[Var, Var], *context: Any) -> None:
        super().__init__(loops, *context)
        self.threads, self.heirs = threads, heirs
        self.buffers: dict[Any, int] = {}
        self.numbers: dict[int, str] = {}
        self.shared: dict[str, str] = {}  # dtype -> the name of an array that threads of a block share
        self.merged: dict[int, int] = {}  # lengths of loops that stand for others too

    def codes(self, dtype: np.dtype[Any]) -> Mapping[str, str]:
        """Return the code of atoms that a device has functions of its own for."""
        return launching.codes(dtype)

    # ---- lines ----------------------------------------------------------------------------------

    def enter(self, first: int, stop: int) -> None:
        """Let elements depend on the counters of these loops."""
        for k in range(first, stop):
            self.builder.enter(k)

    def taken(self, first: int, stop: int) -> list[str]:
        """Return the lines of these scopes as text, and take them away."""
        return self.text(self.items(first, stop))

    def items(self, first: int, stop: int) -> list[Line]:
        """Return the lines of these scopes, and take them away."""
        found: list[Line] = []
        for scope in self.builder.chain[first:stop]:
            for item in scope.body:
                assert not isinstance(item, Loop)  # noqa: S101 -- no scope was left
                found.append(item)
            scope.body = []
        return found

    def text(self, items: Sequence[Line]) -> list[str]:
        """Return lines as text.

        Raises:
            BrokenContractError: one reads or writes outside of a buffer.
        """
        sizes = self.builder.sizes | self.merged
        for item in items:
            hold(item, sizes)
        return ["".join(map(self.part, item)) for item in items]

    def flattened(self, index: str, loops: Sequence[int], items: list[Line]) -> list[str]:
        """Return lines as text, after those that split an index into the counters of loops.

        Neighbours are one loop where the elements that they reach lie in one line: dividing takes longer
        than most of what is computed.
        """
        left = list(loops)
        k = len(left) - 1
        while k > 0:
            outer, inner = left[k - 1], left[k]
            places = [p for item in items for p in item if isinstance(p, Place)]
            if not self.builder.merge(outer, inner, self.size(inner), places):
                k -= 1
                continue
            self.merged[inner] = self.size(inner) * self.size(outer)
            items = [without(item, outer) for item in items]
            del left[k - 1]
            k = len(left) - 1
        return [*self.counters(index, left), *self.text(items)]

    def size(self, loop: int) -> int:
        """Return the length of a loop, together with those that it stands for."""
        return self.merged.get(loop, self.builder.sizes[loop])

    def computing(self, roots: Sequence[Root]) -> Sequence[Root]:
        """Note in which floats roots are computed, and return them."""
        self.elements.mixed = len({dtype for root in roots for dtype in root.floats}) > 1
        return roots

    def part(self, part: Any) -> str:
        """Return a part of a line as text."""
        if isinstance(part, str):
            return part
        if isinstance(part, Place):
            return f"{self.buffer(part.buffer)}[{self.index(part.at)}]"
        if isinstance(part, Bound):
            return self.number(part.number)
        return self.index(part)

    def index(self, at: Index) -> str:
        """Return a place as text; counters are signed."""
        terms = []
        for loop, c in at.terms:
            symbol = self.builder.symbols.get(loop)
            name = f"np.int64({symbol.name})" if symbol else f"i{loop}"
            terms.append(name if c == 1 else f"{name} * {self.number(c)}")
        if at.const or not terms:
            terms.append(self.number(at.const))
        return " + ".join(terms)

    def number(self, n: int) -> str:
        """Return an integer as text: a literal where it is small, else an argument."""
        if abs(n) <= self.literal:
            return str(n) if n >= 0 else f"({n})"
        return self.numbers.setdefault(n, f"n{len(self.numbers)}")

    def buffer(self, x: Any) -> str:
        """Return the name of a buffer; what lies where another value will has one name with it."""
        x = self.heirs.get(x, x)
        return f"b{self.buffers.setdefault(x, len(self.buffers))}"

    def flat(self, loops: Sequence[int]) -> Grid:
        """Return the kernel of a thread for each turn of all loops."""
        count = math.prod(self.builder.sizes[k] for k in loops)
        body = self.flattened("i", loops, self.items(0, len(self.builder.chain)))
        copies = self.copies(body)
        lines = striding("i", self.number(count), body, copies=copies)
        return self.grid("flat", lines, -(-count // copies) if count >= copies * FULL else count)

    def copies(self, lines: Sequence[str]) -> int:
        """Return how many turns of a loop load at a time, so that memory is busy."""
        sizes = [dtype_of(b).itemsize for b in self.buffers]
        loads = {x for line in lines for x in re.findall(r"\bb(\d+)(\[[^\]]*\])(?! = )", line)}
        total = sum(sizes[int(k)] for k, _ in loads)
        return min(COPIES, max(1, AHEAD // total)) if loads and len(lines) <= BRIEF else 1

    def counters(self, index: str, loops: Sequence[int]) -> list[str]:
        """Return the lines that split an index into the counters of loops, the last one fastest."""
        # numbers are named in the order of the text
        sizes = [self.number(self.size(k)) for k in loops[:0:-1]]
        return split(index, [f"i{k}" for k in loops], sizes[::-1])

    def tree(self, root: Root, total: str) -> list[str]:
        """Return the lines after which `total` is what all threads of the block have.

        Few threads join what the others have, then all join what the few have: which is two barriers, where
        joining in pairs would be one for each power of two.
        """
        name = self.shared.setdefault(root.var.aval.dtype.name, f"shared{len(self.shared)}")
        return [
            f"{name}[lane] = {total}",
            "cuda.syncthreads()",
            "if lane < FEW:",
            "    q = lane + FEW",
            "    while q < THREADS:",
            f"        {total} = {joined(root, total, f'{name}[q]')}",
            "        q += FEW",
            f"    {name}_few[lane] = {total}",
            "cuda.syncthreads()",
            f"{total} = {name}_few[0]",
            "q = 1",
            "while q < FEW:",
            f"    {total} = {joined(root, total, f'{name}_few[q]')}",
            "    q += 1",
        ]

    # ---- the module -----------------------------------------------------------------------------

    def grid(self, kind: str, lines: Sequence[str], tasks: int, *, whole_blocks: bool = False) -> Grid:
        """Return the kernel with these lines."""
        head = []
        for d, name in self.shared.items():
            head.append(f"{name} = cuda.shared.array(THREADS, {d})")
            head.append(f"{name}_few = cuda.shared.array(FEW, {d})")
        if whole_blocks:
            head.append("lane = cuda.threadIdx.x")
        names = [*(f"b{k}" for k in range(len(self.buffers))), *self.numbers.values()]
        body = "\n".join(f"    {line}" for line in [*head, *lines])
        kernel = f"def kernel({', '.join(names)}):\n{body}\n"
        dtype = dtype_of_helpers(self.elements.floats)
        functions = helpers(kernel, dtype, replaced=launching.library(dtype))
        few = 1 << self.threads.bit_length() // 2
        sizes = [f"THREADS = {self.threads}", *([f"FEW = {few}"] if self.shared else [])]
        text = module(kernel, self.builder.constants, sizes, [functions])
        loads = frozenset(v for v, _ in self.builder.loads)
        stores, numbers = frozenset(self.stores), tuple(self.numbers)
        return Grid(
            kind, text, tuple(self.buffers), numbers, tasks, whole_blocks, self.threads, loads, stores
        )
