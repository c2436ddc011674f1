"""The schema of stored programs: an equation may be what its primitive declares (`fgrad.core.stored`)."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from fgrad.core.primitive import PRIMITIVES, Primitive
from fgrad.core.stored import Avals, Stored


def stored_as(name: str) -> Stored:
    """Return how files hold a primitive.

    Raises:
        ValueError: they do not.
    """
    stored = PRIMITIVES[name].stored
    if isinstance(stored, str):
        raise ValueError(f"{name} cannot be part of a stored program: {stored}")  # noqa: TRY004 -- a file is wrong
    return stored


def _demand_kinds(name: str, stored: Stored, avals: Avals) -> None:
    """Refuse operands of other dtypes than a primitive takes, or that are no matrices where it takes such."""
    for a in avals:
        if stored.dtypes and a.dtype.char not in stored.dtypes:
            raise ValueError(f"{name} takes no operand of dtype {a.dtype}")
    if any(avals[int(i)].ndim < 2 for i in stored.matrices):
        raise ValueError(f"{name} takes matrices, in the last two axes")
    if any(avals[int(i)].shape[-1] != avals[int(i)].shape[-2] for i in stored.square):
        raise ValueError(f"{name} takes square matrices")


def work(name: str, avals: Avals, params: Mapping[str, Any]) -> int:
    """Return the bytes that an operation may need beside its operands and results."""
    needs = stored_as(name).work
    return 16 * needs(*avals, **params) if needs else 0


def reason(name: str, params: Mapping[str, Any]) -> str:
    """Return why an equation cannot be stored; "" if it can."""
    primitive = PRIMITIVES[name]
    if isinstance(primitive.stored, str):
        return primitive.stored
    unknown = set() if has_code(primitive) else set(params) - primitive.stored.params.keys()
    return f"the format has no parameter {' and '.join(sorted(unknown))} of it" if unknown else ""


def has_code(primitive: Primitive) -> bool:
    """Return whether the parameter of a primitive is a code: a loop, a branch, or a way back through one."""
    return primitive.lower is not None


def check(name: str, avals: Avals, params: Mapping[str, Any], version: int) -> Primitive:
    """Return the primitive of an equation for operands like `avals`, in a program of a version of the format.

    Raises:
        ValueError: the equation is none.
    """
    if name not in PRIMITIVES:
        with contextlib.suppress(ImportError):  # SciPy's functions are declared when they are first met
            import_module("fgrad.scipy.special")
    if name not in PRIMITIVES:
        raise ValueError(
            f"the operation {name} is not declared here; declare it as where the program was exported "
            "(fgrad.extend) before the program is loaded"
        )
    primitive, stored = PRIMITIVES[name], stored_as(name)
    if version < stored.since:
        raise ValueError(
            f"the program is stored in version {version} of the format, and {name} means another thing since "
            f"version {stored.since}: export the function again"
        )
    wrong = reason(name, params)
    if wrong:
        raise ValueError(f"{name} cannot be part of a stored program: {wrong}")
    count, optional = signature(primitive)
    count = count if stored.operands is None else stored.operands
    if count is not None and count != len(avals):
        raise ValueError(f"{name} takes {count} operands, not {len(avals)}")
    if has_code(primitive):
        return primitive
    for k, predicate in stored.params.items():
        if k not in params and k in optional:
            continue
        if k not in params or not predicate(params[k], avals):
            raise ValueError(f"{name} has a wrong parameter {k}")
    _demand_kinds(name, stored, avals)
    if stored.verify is not None and not stored.verify(*avals, **params):
        raise ValueError(f"{name}: operands and parameters do not match")
    return primitive


@functools.cache
def signature(primitive: Primitive) -> tuple[int | None, set[str]]:
    """Return how many operands a primitive takes, None for any number, and which parameters are optional."""
    if primitive.body is not None:
        return len(primitive.body.params), set()
    if isinstance(primitive.run, np.ufunc):
        return primitive.run.nin, set()
    parameters = inspect.signature(primitive.run).parameters.values()
    kinds = [p.kind for p in parameters]
    count = sum(
        k in {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD} for k in kinds
    )
    several = inspect.Parameter.VAR_POSITIONAL in kinds
    return None if several else count, {p.name for p in parameters if p.default is not p.empty}
