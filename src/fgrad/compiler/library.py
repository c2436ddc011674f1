"""Equations that a fixed kernel computes, the same in every program.

`LIBRARY` is filled by the modules that know them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fgrad.core.aval import Aval
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.program import Equation, Var
from fgrad.kernels import native, ufuncs

# why Python computes what it does: reasons, and the primitives that are never native, or not for all operands
_REASONS = """
no kernel knows these dtypes: broadcast_to cumprod cumsum gather imag real scatter_add slice
it copies between devices: to_device staged_to_device to_device_of
a routine of LAPACK or SciPy computes it: second_minors minors eigh solve qr pinv svd sylvester riccati polar
a routine of LAPACK or SciPy computes it: ldl solve_banded lu_factor pivot_order roots simple_roots eig
it is an iteration over whole arrays: matrix_function frechet log_frechet regular regularized recursion recur
it is an iteration over whole arrays: spline_filter log_gamma_ratio logit_beta_ratio normal_between carlson
it is an iteration over whole arrays: elliptic_moment polygamma spherical modified
NumPy transforms these lengths or dtypes: fft ifft rfft irfft
eager mode's kernel computes it: convolve conv max_pool window_sum window_spread
NumPy sorts and searches: argsort argpartition rank search
of several writes to a place the last one counts: put winners representative
it draws random numbers: threefry draw
SciPy warns or raises whatever errstate says: pbdv_d pbdv_dp pbvv_v pbvv_vp bdtr bdtrc bdtri
SciPy warns or raises whatever errstate says: nbdtr nbdtrc nbdtri pdtri expn yn kn
NumPy raises where integers have negative exponents: power
it is a running ufunc: accumulate
SciPy's function is computed by reflection: spherical_jn spherical_yn spherical_in spherical_kn ive_signed
it is a loop or branch with operations that Python computes: lax.scan lax.while_loop lax.cond
it calls a function of Python: pure_callback effect
"""
REASONS = {
    name: reason
    for reason, _, names in (line.partition(": ") for line in _REASONS.strip().splitlines())
    for name in names.split()
}
WORK = 64  # operations of a function that a library computes, or so


class Launch(NamedTuple):
    """A kernel, its numbers, how many turns its loop has, and how many operations that takes.

    `shared` says whether threads may share the turns, which BLAS has its own for; `fails` whether one of the
    numbers is the slot of `FAULTS`, where the kernel writes why the program cannot go on.
    """

    kernel: native.Kernel
    numbers: list[int]
    turns: int
    work: int
    shared: bool = True
    fails: bool = False


FAULTS = Var(Aval((), np.dtype(np.int64)), "faults")  # 0, how many indices are out of bounds, or one of `vm`
LIBRARY: dict[str, Callable[[Equation, dict[Var, int]], Launch | None]] = {}


def launch(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    """Return the call of a kernel that an equation is, given the slots of variables, if it is one.

    Raises:
        BrokenContractError: it would read or write outside of what is in the slots.
    """
    made = LIBRARY.get(equation.name, _universal)(equation, slots)
    if made is not None and made.kernel.contract is not None and not isinstance(slots, _Anywhere):
        sizes: dict[int, tuple[int, int]] = {}
        for v in (*equation.args, *equation.outs, *([FAULTS] if made.fails else [])):
            if isinstance(v, Var):
                size = v.aval.size
                sizes[slots[v]] = max(sizes.get(slots[v], (0, 0)), (size, size * v.aval.dtype.itemsize))
        made.kernel.contract.launched(made.numbers, made.turns, sizes)
    return made


def _universal(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    """Return the call of the loop of a universal function; numbers have to be variables then."""
    primitive, args, outs = PRIMITIVES[equation.name], equation.args, equation.outs
    if primitive.universal is None or equation.params or len(outs) != 1 or native.interpreted():
        return None
    ufunc, output, *_ = primitive.universal
    operands = [a for a in args if isinstance(a, Var)]
    if len(operands) != len(args) or len(args) != ufunc.nin or not outs[0].aval.size:
        return None
    if any(a.aval.size != 1 and a.aval.shape != outs[0].aval.shape for a in operands):
        return None
    dtypes = [v.aval.dtype for v in (*operands, outs[0])]
    found = ufuncs.loop(primitive.universal, dtypes[:-1], dtypes[-1])
    if found is None:
        return None
    sizes = [d.itemsize for d in dtypes]
    count = outs[0].aval.size
    steps = [0 if a.aval.size < count else size for a, size in zip((*operands, outs[0]), sizes, strict=True)]
    numbers = ufuncs.numbers_of(found, [slots[v] for v in (*operands, outs[0])], steps, sizes)
    return Launch(ufuncs.kernel(ufunc, output), numbers, count, WORK * count)


def is_native(equation: Equation) -> bool:
    """Return whether a kernel computes an equation."""
    return launch(equation, _Anywhere()) is not None


def reason(equation: Equation) -> str:
    """Return why Python computes an equation; "" if a kernel does."""
    if is_native(equation):
        return ""
    name = equation.params["of"] if equation.name == "complex.call" else equation.name
    return f"{name}: {REASONS.get(name, 'no kernel knows these operands')}"


def fails(equation: Equation) -> bool:
    """Return whether a kernel computes an equation that may end the program."""
    made = launch(equation, _Anywhere())
    return made is not None and made.fails


class _Anywhere(dict[Var, int]):
    """Slots where it does not matter which."""

    def __missing__(self, _: Var) -> int:
        return 0
