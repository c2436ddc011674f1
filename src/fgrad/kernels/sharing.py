"""How a loop that Numba compiled is given to the thread pool, for the entries of `loops`.

Its arguments go on the stack of the caller, with a function that takes them from there and calls the loop for
a piece; `pool` knows no more of it. Generated modules alone import this one, and it needs Numba.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from fgrad.compat import numba
from fgrad.kernels import pool

_WORD = ir.IntType(64)
_WORDS = _WORD.as_pointer()
_KERNEL = ir.FunctionType(ir.VoidType(), [_WORDS, _WORDS, _WORD, _WORD])  # as in `native`


@intrinsic
def share(typing: Any, loop: Any, args: Any, count: Any, queue: Any) -> Any:
    """Run the loop at an address for `range(count)`; return whether it failed, for want of memory."""

    def code(context: Any, builder: Any, _: Any, values: Any) -> Any:
        loop, given, count, queue = values
        packed = cgutils.alloca_once_value(builder, given)
        notes = cgutils.alloca_once(builder, ir.ArrayType(_WORD, 2))
        task = cgutils.alloca_once(builder, ir.ArrayType(_WORD, 3))
        piece = _piece(context, builder.module, (*args, types.uintp, types.uintp), given.type)
        address = (builder.ptrtoint(p, _WORD) for p in (piece, packed, notes))
        _fill(builder, notes, (_WORD(0), loop))
        _fill(builder, task, address)
        words = builder.inttoptr(queue, _WORDS)
        run = builder.load(builder.gep(words, [_WORD(pool.SHARE)]))
        run = builder.inttoptr(run, _KERNEL.as_pointer())
        builder.call(run, [words, builder.bitcast(task, _WORDS), _WORD(0), count])
        failed = builder.load(cgutils.gep_inbounds(builder, notes, 0, 0))
        return builder.icmp_unsigned("!=", failed, _WORD(0))

    return types.boolean(types.uintp, args, types.uintp, types.uintp), code


def _fill(builder: Any, words: Any, values: Iterable[Any]) -> None:
    for k, value in enumerate(values):
        builder.store(value, cgutils.gep_inbounds(builder, words, 0, k))


def _piece(context: Any, module: Any, kinds: tuple[Any, ...], packed: Any) -> Any:
    """Return the kernel, as in `native`, that calls a loop with the arguments that its slots are.

    Its args are a word to set if the loop fails, and the address of the loop, which has Numba's convention.
    """
    function = ir.Function(module, _KERNEL, module.get_unique_name("piece"))
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block())
    slots, notes, lo, hi = function.args
    whole = builder.load(builder.bitcast(slots, packed.as_pointer()))
    given = [builder.extract_value(whole, k) for k in range(len(kinds) - 2)]
    address = builder.load(builder.gep(notes, [_WORD(1)]))
    fine = numba.call_loop(context, builder, address, kinds, [*given, lo, hi])
    with builder.if_then(builder.not_(fine), likely=False):
        builder.store(_WORD(1), notes)
    builder.ret_void()
    return function
