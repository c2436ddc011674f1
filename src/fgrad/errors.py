"""fgrad's own exceptions and warnings; all others are NumPy's or Python's."""

from __future__ import annotations

from fgrad.names import offered as _offered


class EscapedTensorError(RuntimeError):
    """A tensor of a `vmap`, `make_graph` or other transformation was used after that, or in another thread.

    Example:
        >>> kept = []
        >>> _ = fg.make_graph(lambda x: kept.append(x) or x)(1.0)
        >>> kept[0] + 1.0
        Traceback (most recent call last):
        ...
        fgrad.errors.EscapedTensorError: ...
    """


class NoValueError(TypeError):
    """The value of a tensor was asked for where it stands for many, or is not computed yet."""


class NotLinearError(TypeError):
    """A backward rule is not linear in its cotangent, so it has no transpose and forward mode no meaning."""

    def __init__(self, primitive: str) -> None:
        self.primitive: str = primitive
        super().__init__(
            f"a backward rule applies {primitive} to its cotangent, which is not linear, so forward mode "
            "(jvp, jacfwd, hessian, linearize) cannot transpose the rule. Make the rule linear in the "
            "cotangent, or give a forward rule with fgrad.custom_jvp"
        )


class BrokenContractError(ValueError):
    """A kernel was to be called with arguments outside of which it would read or write."""


class EscapeWarning(UserWarning):
    """A Tensor that is being differentiated was turned into a plain value, so its gradient is lost.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as caught, fg.config.on_escape("warn"):
        ...     warnings.simplefilter("always")
        ...     _ = fg.grad(lambda x: x * float(x))(2.0)
        >>> [w.category.__name__ for w in caught]
        ['EscapeWarning']
    """


class RetraceWarning(UserWarning):
    """A jitted function was staged so many times that its arguments seem to be of the wrong kind.

    Example:
        >>> import warnings
        >>> f = fg.jit(lambda x, n: x, static_argnums=1)
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     _ = [f(1.0, n) for n in range(51)]
        >>> {w.category.__name__ for w in caught}
        {'RetraceWarning'}
    """


class CacheWarning(UserWarning):
    """Compiled code on disk is not used, because somebody else may have written it."""


class NonFiniteError(FloatingPointError):
    """Under `debug_nans`, an operation gave NaN or infinity.

    Attributes:
        operation: the name of the operation.
        line: `file:line` of the user's program, where the operation was called.

    Example:
        >>> try:
        ...     with fg.debug_nans():
        ...         np.log(fg.tensor(0.0))
        ... except fg.NonFiniteError as error:
        ...     print(error.operation)
        log
    """

    def __init__(self, message: str, operation: str, line: str) -> None:
        super().__init__(message)
        self.operation: str = operation
        self.line: str = line

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        return NonFiniteError, (str(self), self.operation, self.line)


class NoGradientWarning(UserWarning):
    """A derivative was asked for that is missing: nothing leads from the value to a differentiated tensor.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     _ = fg.grad(lambda x, y: x, argnums=(0, 1), on_unused="warn")(1.0, 2.0)
        >>> [w.category.__name__ for w in caught]
        ['NoGradientWarning']
    """


class UnusedArgumentError(ValueError):
    """Under `on_unused="error"`, no gradient reaches an argument or attached tensor.

    Example:
        >>> fg.grad(lambda x, y: x, argnums=(0, 1), on_unused="error")(1.0, 2.0)
        Traceback (most recent call last):
        ...
        fgrad.errors.UnusedArgumentError: ...
    """


class UnsolvedWarning(RuntimeWarning):
    """The result of a solver that did not converge is differentiated as if it were a solution.

    Example:
        >>> import warnings
        >>> from fgrad.scipy.optimize import root
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     _ = fg.grad(lambda a: root(lambda x: x**2 - a, 10.0, options={"maxfev": 2}).x)(2.0)
        >>> [w.category.__name__ for w in caught]
        ['UnsolvedWarning']
    """


class RankError(RuntimeError):
    """Another rank of a distributed program has failed or ended, so an operation of all ranks cannot end.

    Example:
        >>> from fgrad.distributed import psum, simulate, world
        >>> def work():
        ...     try:
        ...         return psum(1.0 / world().rank)
        ...     except fg.RankError:
        ...         return "the other one failed"
        >>> simulate(2, work)
        Traceback (most recent call last):
        ...
        ZeroDivisionError: float division by zero
    """


class RankMismatchError(RankError):
    """The ranks of a distributed program do different operations, or on values of other shapes or dtypes.

    Example:
        >>> from fgrad.distributed import psum, simulate, world
        >>> simulate(2, lambda: psum(np.ones(1 + world().rank)))
        Traceback (most recent call last):
        ...
        fgrad.errors.RankMismatchError: ...
    """


class RankTimeoutError(RankError, TimeoutError):
    """Some ranks of a distributed program did not arrive in time."""


def __dir__() -> list[str]:
    return _offered(globals())
