"""`jax.errors`: JAX's names for what is raised where a value is asked for that is not known yet."""

from __future__ import annotations

from fgrad.compat.standins import by_name


class JAXTypeError(TypeError):
    """What the others are."""


class ConcretizationTypeError(JAXTypeError):
    """A value was needed that is only traced."""


class TracerArrayConversionError(ConcretizationTypeError):
    """An array of NumPy was needed of a traced value."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} needs the value of an array that is being traced; use jax.numpy, or pass what is "
            "constant as an argument of its own"
        )


class TracerBoolConversionError(ConcretizationTypeError):
    """A truth value was needed of a traced value."""


class TracerIntegerConversionError(ConcretizationTypeError):
    """An integer was needed of a traced value."""


class UnexpectedTracerError(JAXTypeError):
    """A traced value outlived its transformation."""


class TypePromotionError(ValueError):
    """Dtypes have no common one."""


class JaxRuntimeError(RuntimeError):
    """A compiled program failed."""


NAMES = by_name(
    *(ConcretizationTypeError, JAXTypeError, JaxRuntimeError, TracerArrayConversionError),
    *(TracerBoolConversionError, TracerIntegerConversionError, TypePromotionError, UnexpectedTracerError),
)
