"""What solvers return: pytrees, which warn when they are differentiated though nothing was solved."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, TypeVar

from fgrad.core.tensor import is_traced
from fgrad.core.trace import current
from fgrad.errors import UnsolvedWarning
from fgrad.transforms.callbacks import look
from fgrad.transforms.calling import has_tensor
from fgrad.transforms.custom import custom_vjp
from fgrad.tree import register_pytree_node

Result = TypeVar("Result", bound="dict[str, Any]")


def register_result(cls: type[Result]) -> None:
    """Make a class of dictionaries a pytree whose children are its values."""
    register_pytree_node(
        cls,
        lambda r: ([r[k] for k in sorted(r)], tuple(sorted(r))),
        lambda keys, values: cls(zip(keys, values, strict=True)),
    )


def is_plain(values: Sequence[Any]) -> bool:
    """Return whether no transformation concerns any of the values."""
    return not current().traces or not any(has_tensor([v]) and is_traced(v) for v in values)


def checked(name: str) -> Any:
    """Return the function `(x, solved, status) -> x` whose derivative warns unless `solved`."""

    def warn(solved: Any, status: Any) -> None:
        if not solved:
            warnings.warn(
                f"{name} did not find a solution (status {int(status)}), so the derivative of its result is "
                "not that of a solution; look at result.success and result.message, and change the start, "
                "the method or the tolerances",
                UnsolvedWarning,
                stacklevel=2,
            )

    def backward(residuals: tuple[Any, Any], ct: Any) -> tuple[Any, None, None]:
        look(warn, residuals, {})
        return ct, None, None

    checked = custom_vjp(lambda x, solved, status: x)
    return checked.defvjp(lambda x, solved, status: (x, (solved, status)), backward)
