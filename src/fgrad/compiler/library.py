"""Equations that a fixed kernel computes, the same in every program.

`LIBRARY` is filled by the modules that know them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fgrad.core.aval import Aval
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.program import Equation, Var, aval_out
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
NumPy transforms these lengths or dtypes: rfft irfft
LAPACK computes it of larger matrices, and of complex ones: cholesky cofactor det slogdet solve_triangular
NumPy computes it of complex numbers: float_power put_part max min nanmax nanmin prod
eager mode's kernel computes it: convolve conv conv_input conv_kernel max_pool window_sum window_spread
NumPy sorts, and searches in what is empty: argsort argpartition rank search
of several writes to a place the last one counts: put winners representative
it draws random numbers: threefry draw
SciPy warns or raises whatever errstate says: pbdv_d pbdv_dp pbvv_v pbvv_vp bdtr bdtrc bdtri
SciPy warns or raises whatever errstate says: nbdtr nbdtrc nbdtri pdtri expn yn kn
NumPy raises where integers have negative exponents: power
it is a running ufunc: accumulate
SciPy's function is computed by reflection: spherical_jn spherical_yn spherical_in spherical_kn ive_signed
it is a loop or branch with operations that Python computes: lax.scan lax.while_loop lax.cond
it calls a function of Python: pure_callback effect
it is a kernel of the user's, which Python calls: kernel.call kernel.vjp
"""
REASONS = {
    name: reason
    for reason, _, names in (line.partition(": ") for line in _REASONS.strip().splitlines())
    for name in names.split()
}
ON_PAIRS = "complex.call"  # what Python, or a library, computes of complex numbers, as pairs
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
    rule = LIBRARY.get(equation.name)
    made = (rule and rule(equation, slots)) or _universal(equation, slots)
    if made is not None and made.kernel.contract is not None and not isinstance(slots, _Anywhere):
        sizes: dict[int, tuple[int, int]] = {}
        for v in (*equation.args, *equation.outs, *([FAULTS] if made.fails else [])):
            if isinstance(v, Var):
                size = v.aval.size
                sizes[slots[v]] = max(sizes.get(slots[v], (0, 0)), (size, size * v.aval.dtype.itemsize))
        made.kernel.contract.launched(made.numbers, made.turns, sizes)
    return made


class Applied(NamedTuple):
    """What an equation does with complex numbers, whose arrays may be pairs of real ones there."""

    name: str
    operands: tuple[Aval, ...]
    result: Aval
    params: dict[str, Any]


def applied_by(equation: Equation) -> Applied:
    """Return which primitive an equation applies, to what."""
    params = dict(equation.params)
    if equation.name != ON_PAIRS:
        return Applied(equation.name, tuple(map(aval_out, equation.args)), equation.outs[0].aval, params)
    operands, results = params.pop("avals")
    return Applied(params.pop("of"), operands, results[0], params)


def _universal(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    """Return the call of the loop of a universal function; numbers have to be variables then."""
    if len(equation.outs) != 1 or native.interpreted():
        return None
    name, operands, result, params = applied_by(equation)
    universal, args = PRIMITIVES[name].universal, [a for a in equation.args if isinstance(a, Var)]
    if universal is None or params or not len(args) == len(operands) == universal.ufunc.nin:
        return None
    if not result.size or any(a.size != 1 and a.shape != result.shape for a in operands):
        return None
    found = ufuncs.loop(universal, [a.dtype for a in operands], result.dtype)
    if found is None:
        return None
    sizes = [a.dtype.itemsize for a in (*operands, result)]
    steps = [0 if a.size < result.size else a.dtype.itemsize for a in (*operands, result)]
    numbers = ufuncs.numbers_of(found, [slots[v] for v in (*args, *equation.outs)], steps, sizes)
    kernel = ufuncs.kernel(universal.ufunc, universal.output)
    return Launch(kernel, numbers, result.size, WORK * result.size)


def is_native(equation: Equation) -> bool:
    """Return whether a kernel computes an equation."""
    return launch(equation, _Anywhere()) is not None


def pending(equation: Equation) -> native.Key | None:
    """Return which kernel of an equation is still to be compiled, as of `native.compiled_all`."""
    made = launch(equation, _Anywhere())
    return made.kernel.key if made is not None and isinstance(made.kernel, native.Deferred) else None


def reason(equation: Equation) -> str:
    """Return why Python computes an equation; "" if a kernel does."""
    if is_native(equation):
        return ""
    name = applied_by(equation).name if equation.outs else equation.name
    return f"{name}: {REASONS.get(name.split(' ')[0], 'no kernel knows these operands')}"


def fails(equation: Equation) -> bool:
    """Return whether a kernel computes an equation that may end the program."""
    made = launch(equation, _Anywhere())
    return made is not None and made.fails


class _Anywhere(dict[Var, int]):
    """Slots where it does not matter which."""

    def __missing__(self, _: Var) -> int:
        return 0
