"""Compiled programs inside code that users compile with Numba: the bytecode starts without Python.

The caller, which `transforms.embedding` writes, allocates the memory of a call, stores the addresses of
arguments in its first words, and `run`s it; a native kernel does the rest, so calls at the same time do not
meet. What a program keeps in memory is never freed: code that was compiled with its addresses may outlive
every object that knows of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.kernels import checks, native, stacks, vm

ALIGNMENT = 64  # of the scratch buffer, in bytes

# A context is an array of words: these, where each slot starts, and -1 if that is in the scratch buffer, or 0
FIELDS = ("interpreter", "table", "length", "copied", "first", "count", "scratch", "stacks", "free")
_TEXT = (
    f"{', '.join(FIELDS).upper()} = range({len(FIELDS)})"
    f"\nSTARTS, ROUND, STACK = {len(FIELDS)}, np.int64({-ALIGNMENT}), {stacks.WORDS}\n"
    """

def kernel(slots, args, lo, hi):
    count, length = args[COUNT], args[LENGTH]
    starts, inside = part(args, STARTS), part(args, STARTS + count)
    scratch = address(slots) + args[SCRATCH] & ROUND
    for k in range(args[FIRST], count):
        slots[k] = starts[k] + (scratch & inside[k])
    table = int64_from(args[TABLE])
    if args[COPIED] != 0:
        own = part(slots, count)
        for k in range(length):
            own[k] = table[k]
        table = own
    grown = int64_from(scratch)
    for k in range(STACK * args[STACKS]):
        grown[k] = 0
    call(args[INTERPRETER], slots, table, np.uintp(0), np.uintp(length))
    for k in range(args[STACKS]):
        invoke(args[FREE], grown[STACK * k + 1])
"""
)

_kept: list[Any] = []


class Embedding:
    """A program that compiled code starts.

    Attributes:
        words: how many int64 the memory of a call has.
        place: the first of those that are left to the caller.
    """

    def __init__(
        self,
        program: vm.Assembler,
        slots: Sequence[np.ndarray[Any, Any] | slice | stacks.Stack | None],
        arguments: int,
        *,
        scratch: int,
        spare: int,
    ) -> None:
        """Lay the memory of a call out.

        Args:
            program: the table.
            slots: for each an array, or where it lies in the scratch buffer, or `stacks.STACK`, whose memory
                is free after each call, or None if the caller (the first `arguments` of them) or the table
                fills it.
            arguments: how many slots the caller fills.
            scratch: the size of that buffer, in bytes.
            spare: how many words are left to the caller.
        """
        if checks.ON:
            raise NotImplementedError(
                "as_njit does not know where arrays end, so it is not available with FGRAD_CHECK=1"
            )
        table, interpreter, start = program.deaf_words, vm.interpreter(program), native.compiled(_TEXT)
        count = len(slots)
        grown = [k for k, s in enumerate(slots) if s is stacks.STACK]
        begin = -(-8 * stacks.WORDS * len(grown) // ALIGNMENT) * ALIGNMENT  # of the scratch buffer proper
        inside = [isinstance(s, slice) or s is stacks.STACK for s in slots]
        starts: list[Any] = [s.start + begin if isinstance(s, slice) else s for s in slots]
        for i, k in enumerate(grown):
            starts[k] = 8 * stacks.WORDS * i
        copied = program.has_loops  # which count in the table
        self.place: int = -(-(count + copied * len(table)) // 2) * 2  # 16 bytes are those of a complex number
        first = 8 * (self.place + spare)
        self.words: int = -(-(first + begin + scratch + ALIGNMENT) // 16) * 2
        context = np.zeros(len(FIELDS) + 2 * count, np.int64)
        context[: len(FIELDS)] = [
            interpreter.address,
            table.ctypes.data,
            len(table),
            copied,
            arguments,
            count,
            first + ALIGNMENT - 1,
            len(grown),
            stacks.release(),
        ]
        for k, s in enumerate(starts):
            context[len(FIELDS) + k] = s.ctypes.data if isinstance(s, np.ndarray) else s or 0
            context[len(FIELDS) + count + k] = -inside[k]
        _kept.append((context, table, interpreter, start, program, slots))
        self._addresses = start.address, int(context.ctypes.data)

    def runner(self) -> Callable[..., Any]:
        """Return `run(memory, arrays)` for compiled code: `arrays`, a tuple, live until it has run."""
        from llvmlite import ir  # noqa: PLC0415 -- late: eager programs need no machine code
        from numba import types  # noqa: PLC0415
        from numba.extending import intrinsic  # noqa: PLC0415

        addresses = self._addresses

        def run(typing: Any, memory: Any, arrays: Any) -> Any:
            def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
                word = ir.IntType(64)
                pointer = word.as_pointer()
                data = context.make_array(memory)(context, builder, values[0]).data
                # as globals that are dynamic, they keep Numba from caching code that holds them
                start, own = (context.add_dynamic_addr(builder, a, info="fgrad") for a in addresses)
                kind = ir.FunctionType(ir.VoidType(), [pointer, pointer, word, word])
                none = ir.Constant(word, 0)
                given = [builder.bitcast(data, pointer), builder.bitcast(own, pointer), none, none]
                builder.call(builder.bitcast(start, kind.as_pointer()), given)
                return context.get_dummy_value()

            return types.void(memory, arrays), emit

        made: Callable[..., Any] = intrinsic(run)
        return made
