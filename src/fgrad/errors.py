"""fgrad's own exceptions and warnings; all others are NumPy's or Python's."""

from __future__ import annotations

from fgrad.names import offered as _offered

__all__ = [
    "BrokenContractError",
    "CacheWarning",
    "EscapeWarning",
    "EscapedTensorError",
    "NoGradientWarning",
    "NoValueError",
    "NonFiniteError",
    "NotLinearError",
    "RankError",
    "RankMismatchError",
    "RankTimeoutError",
    "RetraceWarning",
    "UnsolvedWarning",
    "UnusedArgumentError",
]


class EscapedTensorError(RuntimeError):
    """A tensor of a `vmap`, `make_graph` or other transformation was used after the transformation ended."""


class NoValueError(TypeError):
    """The value of a tensor was asked for where it stands for many, or is not computed yet."""


class NotLinearError(TypeError):
    """A backward rule is not linear in its cotangent, so it has no transpose and forward mode no meaning."""

    def __init__(self, primitive: str) -> None:
        super().__init__(
            f"a backward rule applies {primitive} to its cotangent, which is not linear, so forward mode "
            "(jvp, jacfwd, hessian, linearize) cannot transpose the rule. Make the rule linear in the "
            "cotangent, or give a forward rule with fgrad.custom_jvp"
        )


class BrokenContractError(ValueError):
    """A kernel was to be called with arguments outside of which it would read or write."""


class EscapeWarning(UserWarning):
    """A Tensor that is being differentiated was turned into a plain value, so its gradient is lost."""


class RetraceWarning(UserWarning):
    """A jitted function was staged so many times that its arguments seem to be of the wrong kind."""


class CacheWarning(UserWarning):
    """Compiled code on disk is not used, because somebody else may have written it."""


class NonFiniteError(FloatingPointError):
    """Under `debug_nans`, an operation gave NaN or infinity.

    Attributes:
        operation: the name of the operation.
        line: `file:line` of the user's program, where the operation was called.
    """

    operation: str
    line: str

    def __init__(self, message: str, operation: str, line: str) -> None:
        super().__init__(message)
        self.operation, self.line = operation, line

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        return NonFiniteError, (str(self), self.operation, self.line)


class NoGradientWarning(UserWarning):
    """A derivative was asked for that is missing: nothing leads from the value to a differentiated tensor."""


class UnusedArgumentError(ValueError):
    """Under `on_unused="error"`, no gradient reaches an argument or attached tensor."""


class UnsolvedWarning(RuntimeWarning):
    """The result of a solver that did not converge is differentiated as if it were a solution."""


class RankError(RuntimeError):
    """Another rank of a distributed program has failed or ended, so an operation of all ranks cannot end."""


class RankMismatchError(RankError):
    """The ranks of a distributed program do different operations, or on values of other shapes or dtypes."""


class RankTimeoutError(RankError, TimeoutError):
    """Some ranks of a distributed program did not arrive in time."""


def __dir__() -> list[str]:
    return _offered(globals())
