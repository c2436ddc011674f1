"""Kernels compiled by Numba, which defines what their texts mean."""

import inspect
import math
from functools import cache

import numpy as np
from numba import cfunc, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from fgrad.kernels import instructions, native, source
from fgrad.kernels.compilation import SIGNATURES
from fgrad.kernels.vector import libm


def compiled(text, signature="kernel"):
    """Return the kernel of a text, as `native.compiled` does."""
    function = source.execute(text, **names()).kernel
    params, result = SIGNATURES[signature]
    kind = numba_type(result)(*map(numba_type, params))
    made = cfunc(kind, error_model="numpy", fastmath={"contract"})(function)
    return native.Kernel(made.address, made)


@cache
def names():
    """Return what kernels can call, for Numba."""
    helper = njit(error_model="numpy", fastmath={"contract"}, forceinline=True)
    found = {"np": np, "math": math, "types": types, "helper": helper}
    declared = instructions.declared()
    return found | {name: known(declared[name]) for name in declared.keys() - libm.FUNCTIONS.keys()}


def numba_type(name):
    return types.CPointer(getattr(types, name[:-1])) if name[-1] == "*" else getattr(types, name)


def kind_of(given):
    if isinstance(given, types.CPointer):
        return f"{given.dtype}*"
    return "int64" if isinstance(given, types.Integer) and given.name.startswith("Literal") else str(given)


def known(made):
    """Return an intrinsic as Numba has it."""
    *fixed, last = signature = list(inspect.signature(made.emit).parameters.values())
    several = last.kind is inspect.Parameter.VAR_POSITIONAL

    def typed(_, *given):
        kinds = made.kinds(*map(kind_of, given))
        if kinds is None:
            return None
        params, result = [numba_type(k) for k in kinds[0]], numba_type(kinds[1])
        if several:
            first = len(fixed) - 1
            params[first:] = [types.StarArgTuple.from_types(tuple(params[first:]))]

        def emit(context, builder, _, values):
            if several:
                values = [*values[:-1], *cgutils.unpack_tuple(builder, values[-1])]
            value = made.emit(builder, *values)
            return context.get_dummy_value() if value is None else value

        return result(*params), emit

    typed.__signature__ = inspect.Signature(signature)
    return intrinsic(typed)
