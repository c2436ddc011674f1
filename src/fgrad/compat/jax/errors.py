"""`jax.errors`: JAX's names for fgrad's errors, and two of its own."""

from __future__ import annotations

from typing import Any

from fgrad.compat.standins import by_name, words
from fgrad.errors import EscapedTensorError, NoValueError


class TypePromotionError(ValueError):
    """Dtypes have no common one."""


class JaxRuntimeError(RuntimeError):
    """A compiled program failed."""


NAMES: dict[str, Any] = {
    **dict.fromkeys(
        words(
            "ConcretizationTypeError TracerArrayConversionError TracerBoolConversionError "
            "TracerIntegerConversionError"
        ),
        NoValueError,
    ),
    "JAXTypeError": TypeError,
    "UnexpectedTracerError": EscapedTensorError,
    **by_name(JaxRuntimeError, TypePromotionError),
}
