"""The bytecode of compiled programs, and its interpreter, which is itself a kernel.

A program is an array of int64 numbers, which an `Assembler` writes, over *slots*, each of which holds the
address of a buffer. Most instructions call a kernel (see `native`), so a new batch size, or the fiftieth
equal step of a Python loop, compiles nothing: it is another table. The others are loops and branches, which
cost a few nanoseconds each; a loop looks for signals every second, and ends where a handler of one raises
(Ctrl-C). With NUMBA_DISABLE_JIT=1 the same text is run by Python, on `intrinsics.Slots`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from fgrad import locks
from fgrad.compat.numpy import address
from fgrad.kernels import checks, intrinsics, native, pool, signals, stacks

INTEGERS = intrinsics.INTEGERS
# their next two words are the slot of an integer and its type
LOOKING_UP = ("LOOP", "LEAVE", "BRANCH", "PUSH", "VIEW")
OPERATIONS = ("CALL", "NEXT", "COPY", "ZERO", "SWAP", "FOLLOW", "HALT", *LOOKING_UP)
CALL, NEXT, COPY, ZERO, SWAP, FOLLOW, HALT, LOOP, LEAVE, BRANCH, PUSH, VIEW = range(len(OPERATIONS))
# faults; others are counts
EXHAUSTED = -1  # of a stack for which there is no memory
REFUSED = -2  # of a matrix that NumPy may refuse
RAISED = -3  # by a kernel of the user's

_TEXT = (
    f"{', '.join(OPERATIONS)} = range({len(OPERATIONS)})\nEXHAUSTED = {EXHAUSTED}\n"
    f"{', '.join(signals.FIELDS).upper()} = range({len(signals.FIELDS)})\n"
    """
NONE, ONE, MOST, LOW = np.int64(0), np.int64(1), np.int64(15), np.int64(0xFFFFFFFF)


@helper
def interrupted(loop):
    # once in a second; the steps of every loop are counted down
    stop = NONE
    if loop[7] != 0:
        watch = int64_from(loop[7])
        now = invoke(watch[CLOCK], NONE)
        if now != loop[8]:
            loop[8] = now
            held = invoke(watch[ENSURE])
            thread = invoke(watch[SAVE])  # other threads have waited if this one kept the interpreter
            invoke(watch[RESTORE], thread)
            stop = invoke(watch[CHECK]) & LOW
            invoke(watch[RELEASE], held)
    return stop != 0


def kernel(slots, args, lo, hi):
    at, end = np.int64(lo), np.int64(hi)
    while at < end:
        words = part(args, at)
        operation = words[0]
        given = operation >= LOOP and words[1] >= 0  # whether there is an integer to look up
        found = integer_at(slots, words, 1, words[2]) if given else NONE
        if operation == CALL:  # address, lo, hi, count of numbers, numbers...
            call(words[1], slots, part(words, 5), np.uintp(words[2]), np.uintp(words[3]))
            at += 5 + words[4]
        elif operation == LOOP:  # slot or -1, type, count, to go, end, moves, signals, time, (slot, bytes)...
            if given:
                words[3] = found
            words[4] = words[3]
            at = at + 9 + 2 * words[6] if words[3] > 0 else words[5]
        elif operation == NEXT or operation == LEAVE:  # place of the loop; of LEAVE behind slot and type
            start = words[1] if operation == NEXT else words[3]
            loop = part(args, start)
            stays = loop[4] > 1 if operation == NEXT else found != 0
            if operation == LEAVE and stays:
                at += 4
            else:
                steps = 1 if stays else loop[4] - loop[3]  # all moves are taken back
                for k in range(loop[6]):
                    pair = part(loop, 9 + 2 * k)
                    move(slots, pair[0], steps * pair[1])
                loop[4] -= 1
                at = start + 9 + 2 * loop[6] if stays else loop[5]
                if stays and loop[4] & MOST == 0 and interrupted(loop):
                    at = end  # with an exception of Python's
        elif operation == BRANCH:  # slot or -1, type, count, places...
            at = part(words, 4)[clipped(found, words[3])]
        elif operation == COPY:  # target, source, bytes
            copy(slots, words[1], words[2], words[3])
            at += 4
        elif operation == ZERO:  # target, bytes
            zero(slots, words[1], words[2])
            at += 3
        elif operation == SWAP:  # slot, slot
            swap(slots, words[1], words[2])
            at += 3
        elif operation == PUSH:  # slot of a factor or -1, type, target, stack, bytes, C function, faults
            times = found if given else ONE
            if push(slots, words[3], words[4], words[5] * times, words[6]) != 0:
                at += 8
            else:
                int64_at(slots, words, 7)[0] = EXHAUSTED
                at = end
        elif operation == FOLLOW:  # target, stack
            follow(slots, words[1], words[2])
            at += 3
        elif operation == HALT:  # slot of faults, slot of a count
            count = int64_at(slots, words, 2)[0]
            at += 3
            if count != 0:
                int64_at(slots, words, 1)[0] = count
                at = end
        else:  # VIEW: slot of an index or -1, type, target, source, bytes, count, bytes of one
            assign(slots, words[3], words[4])
            move(slots, words[3], words[5] + words[7] * clipped(found, words[6]))
            at += 8
"""
)


KEY: native.Key = (_TEXT, "interpreter")


class Label:
    """A place in a table, known or yet to come."""

    __slots__ = ("at", "uses")

    def __init__(self) -> None:
        self.at: int = -1
        self.uses: list[int] = []


class Assembler:
    """Writes the table of a program; `str` shows it.

    Slots are numbers; the types of integers in buffers are names of `INTEGERS`.
    """

    def __init__(self) -> None:
        self._words: list[int] = []
        self._starts: list[int] = []
        self._loops: list[int] = []
        self._names: dict[int, str] = {}
        self.kernels: list[native.Kernel] = []  # their code is in use as long as the table is

    def call(self, kernel: native.Kernel, args: Sequence[int], lo: int, hi: int, name: str = "") -> None:
        """Run `kernel(slots, args, lo, hi)`; `name` is for readers."""
        self.kernels.append(kernel)
        self._names.setdefault(kernel.address, name or f"kernel{len(self._names)}")
        self._add(CALL, kernel.address, lo, hi, len(args), *args)

    @contextmanager
    def loop(
        self,
        count: int,
        moves: Sequence[tuple[int, int]] = (),
        *,
        count_slot: int | None = None,
        dtype: str = "int64",
    ) -> Iterator[None]:
        """Repeat what the block writes.

        Args:
            count: how often.
            moves: slots, and by how many bytes each moves on after a step; they return when the loop ends.
            count_slot: the slot of the integer that says how often, in place of `count`.
            dtype: of that integer.
        """
        at = len(self._words)
        source = -1 if count_slot is None else count_slot
        flat = [number for pair in moves for number in pair]
        watch = 0 if native.interpreted() else signals.watch()
        self._add(LOOP, source, INTEGERS.index(dtype), count, 0, -1, len(moves), watch, 0, *flat)
        self._loops.append(at)
        yield
        self._loops.pop()
        self._add(NEXT, at)
        self._words[at + 5] = len(self._words)

    def leave_if_not(self, slot: int) -> None:
        """Leave the innermost loop unless the bool in a buffer holds."""
        self._add(LEAVE, slot, INTEGERS.index("bool"), self._loops[-1])

    def jump(self, label: Label) -> None:
        """Go on at `label`, which is not outside of a loop that this is in."""
        self._add(BRANCH, -1, 0, 1, label)

    def branch(self, slot: int, labels: Sequence[Label], dtype: str = "int64") -> None:
        """Go on at the label whose number is in a buffer; numbers out of range mean the first or the last."""
        self._add(BRANCH, slot, INTEGERS.index(dtype), len(labels), *labels)

    def copy(self, target: int, source: int, count: int) -> None:
        """Copy `count` bytes."""
        self._add(COPY, target, source, count)

    def zero(self, target: int, count: int) -> None:
        """Fill `count` bytes with zeros."""
        self._add(ZERO, target, count)

    def swap(self, a: int, b: int) -> None:
        """Let two slots hold one another's address."""
        self._add(SWAP, a, b)

    def view(self, target: int, source: int, offset: int = 0) -> None:
        """Let a slot hold the address that is `offset` bytes into the buffer of another."""
        self._add(VIEW, -1, 0, target, source, offset, 1, 0)

    def index(
        self, target: int, source: int, at: int, count: int, size: int, dtype: str = "int64", offset: int = 0
    ) -> None:
        """Let a slot hold the address of one of the `count` items of `size` bytes in the buffer of another.

        The number of the item is in slot `at`; numbers out of range mean the first or the last. The first
        item is `offset` bytes into the buffer.
        """
        self._add(VIEW, at, INTEGERS.index(dtype), target, source, offset, count, size)

    def push(
        self,
        target: int,
        stack: int,
        count: int,
        faults: int,
        *,
        times_slot: int | None = None,
        dtype: str = "int64",
    ) -> None:
        """Let a slot hold the address of `count` more bytes at the end of a stack, which may move for it.

        `zero(stack, 8)` lets the stack be empty.

        Args:
            target: the slot.
            stack: the slot of its words, as of `stacks.empty`.
            count: of bytes.
            faults: the slot of an int64; where there is no memory, it gets `EXHAUSTED`, and the program ends.
            times_slot: the slot of an integer by which to multiply `count`.
            dtype: of that integer.
        """
        times = -1 if times_slot is None else times_slot
        self._add(PUSH, times, INTEGERS.index(dtype), target, stack, count, stacks.grow(), faults)

    def follow(self, target: int, stack: int) -> None:
        """Let a slot hold the address of the first byte of a stack, until more is pushed."""
        self._add(FOLLOW, target, stack)

    def halt_if(self, slot: int, faults: int) -> None:
        """End the program if the int64 in a buffer is not zero, after a copy of it to that of `faults`."""
        self._add(HALT, faults, slot)

    def place(self, label: Label) -> None:
        """Let `label` be here."""
        label.at = len(self._words)
        for use in label.uses:
            self._words[use] = label.at

    @property
    def words(self) -> np.ndarray[Any, Any]:
        """The table."""
        return np.array(self._words, np.int64)

    @property
    def deaf_words(self) -> np.ndarray[Any, Any]:
        """The table, whose loops do not look for signals: for who cannot raise exceptions of Python's."""
        words = self.words
        words[[at + 7 for at in self._starts if self._words[at] == LOOP]] = 0
        return words

    @property
    def has_loops(self) -> bool:
        """Whether the table is written to when it runs, so that two runs at a time need one each."""
        return any(self._words[at] == LOOP for at in self._starts)

    def __len__(self) -> int:
        return len(self._words)

    def __str__(self) -> str:
        return "\n".join(self._line(at, self._words[at:]) for at in self._starts)

    def _add(self, *words: int | Label) -> None:
        self._starts.append(len(self._words))
        for word in words:
            if isinstance(word, Label):
                word.uses.append(len(self._words))
                word = word.at  # noqa: PLW2901 -- a label is a number yet to come
            self._words.append(int(word))

    def _line(self, at: int, words: list[int]) -> str:
        operation, *w = words
        if operation == CALL:
            text = f"{self._names[w[0]]}({', '.join(map(str, w[4 : 4 + w[3]]))}) for {w[1]}:{w[2]}"
        elif operation == LOOP:
            count = f"{INTEGERS[w[1]]} in {w[0]}" if w[0] >= 0 else str(w[2])
            pairs = zip(w[8 : 8 + 2 * w[5] : 2], w[9 : 9 + 2 * w[5] : 2], strict=True)
            moves = "".join(f", {slot} by {step}" for slot, step in pairs)
            text = f"loop {count}{moves} until {w[4]}"
        elif operation == BRANCH:
            chosen = f"branch {INTEGERS[w[1]]} in {w[0]}" if w[0] >= 0 else "jump"
            text = f"{chosen} to {', '.join(map(str, w[3 : 3 + w[2]]))}"
        elif operation == PUSH:
            times = f" * {INTEGERS[w[1]]} in {w[0]}" if w[0] >= 0 else ""
            text = f"push {w[2]} = {w[4]} bytes{times} on {w[3]}"
        elif operation in _LINES:
            text = _LINES[operation].format(*w)
        else:
            index = f"{w[6]} bytes * {INTEGERS[w[1]]} in {w[0]} below {w[5]}" if w[0] >= 0 else str(w[4])
            shift = f" + {w[4]}" if w[0] >= 0 and w[4] else ""
            text = f"view {w[2]} = {w[3]} + {index}{shift}"
        return f"{at:5}  {text}"


_LINES = {
    NEXT: "next of {0}",
    LEAVE: "leave {2} if not {0}",
    COPY: "copy {0} = {1}, {2} bytes",
    ZERO: "zero {0}, {1} bytes",
    SWAP: "swap {0}, {1}",
    FOLLOW: "follow {0} = start of {1}",
    HALT: "halt if {1}",
}


def interpreter(program: Assembler) -> native.Kernel:
    """Return the kernel that runs tables: its `args` are that of a program, `lo` and `hi` the part to run.

    Its `function` raises what handlers of signals raise, such as KeyboardInterrupt, where there are loops;
    nothing is known of the buffers then.
    """
    kernel = native.compiled(*KEY)
    if program.has_loops and not native.interpreted() and kernel.function.__class__ is not _Started:
        kernel.function = _Started(kernel.address)
    return kernel


# words: a kernel, functions of C that let other threads run and wait for them, and the numbers of the kernel
_START = """
def kernel(slots, words, lo, hi):
    thread = invoke(words[1])
    call(words[0], slots, int64_from(words[3]), lo, hi)
    invoke(words[2], thread)
"""


class _Started:
    """Calls a kernel that may leave an exception: who is called from C has to say so."""

    def __init__(self, address: int) -> None:
        self._words = [address, *map(signals.address, signals.AROUND)]

    def __call__(self, slots: int, args: int, lo: int, hi: int) -> None:
        words = np.array([*self._words, args], np.int64)
        _start()[0](slots, words.ctypes.data, lo, hi)


@locks.once  # programs that machine code starts have no use for it
def _start() -> tuple[Callable[..., None], native.Kernel]:
    """Return what starts a kernel, and what keeps its code."""
    code = native.compiled(_START)
    # unlike CFUNCTYPE, this asks for exceptions, and lets no other threads run
    return ctypes.PYFUNCTYPE(None, *[ctypes.c_size_t] * 4)(code.address), code


def call(kernel: native.Kernel, args: Any, slots: Any, lo: int, hi: int) -> None:
    """Run a kernel from Python, without holding the interpreter.

    Args:
        kernel: what to run.
        args: its numbers, as an int64 array.
        slots: the addresses of buffers, as of `checks.addresses`; where kernels are interpreted,
            `intrinsics.Slots`.
        lo: the start of its loop.
        hi: the end of its loop.
    """
    if isinstance(slots, intrinsics.Slots):
        kernel.function(slots, args, lo, hi)
    else:
        kernel.function(address(slots), address(args), lo, hi)
        if checks.ON:
            checks.look()


class Loop:
    """A kernel with its numbers and slots, to be shared by threads.

    Attributes:
        is_native: whether it is machine code.
    """

    __slots__ = ("_held", "_run", "_words", "is_native")

    def __init__(self, kernel: native.Kernel, args: Any, slots: Any) -> None:
        """Take what `call` takes."""
        self._run = partial(call, kernel, args, slots)
        self.is_native: bool = not isinstance(slots, intrinsics.Slots)
        if self.is_native:
            self._words, self._held = (kernel.address, address(slots), address(args)), (kernel, slots, args)

    def __call__(self, lo: int, hi: int) -> None:
        """Run a piece."""
        self._run(lo, hi)

    def share(self, _: tuple[Any, ...], count: int, queue: int, strip: int = 1) -> None:
        """Run the loop for `range(count)` with the threads at a work queue; see `pool`."""
        pool.share(queue, self._words, count, strip)
        if checks.ON:
            checks.look()
