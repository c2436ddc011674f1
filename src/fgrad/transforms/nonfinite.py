"""`debug_nans`: the switch for watching, as a call and as a block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fgrad.core.nonfinite import Watch, looking, switch

if TYPE_CHECKING:
    from typing_extensions import Self


class debug_nans(looking):  # noqa: N801 -- JAX's name, which reads as a function
    """Raise at the first operation that gives NaN or infinity, in values, cotangents and tangents.

    `with debug_nans():` holds for the block, in this thread and task; `debug_nans(True)` holds for every
    thread until `debug_nans(False)`; `with debug_nans(False):` excepts a block. The error names the
    operation, the file and line that called it and its operands; for a cotangent or tangent it names the
    operation whose derivative it is and the line where that was recorded. Nothing runs twice. Outside
    of a block nothing is slower.

    NaN is reported wherever it appears; infinity where an operation makes it from finite operands, so masks
    of -inf may pass. In the reverse and forward pass only the values that arrive at recorded operations are
    checked, because inside a rule an infinite slope may meet a zero cotangent. (A program cannot distinguish
    the two: when it runs, every equation is checked.)

    Args:
        on: True or False switches at once; None waits for the block.
        nans: whether NaN is reported.
        infs: whether infinity is reported.

    Raises:
        NonFiniteError: (in the block) a `FloatingPointError` with attributes `operation` and `line`.

    Example:
        >>> import fgrad
        >>> import numpy as np
        >>> with fgrad.debug_nans():
        ...     fgrad.grad(lambda x: np.sqrt(x) * 2)(0.0)
        Traceback (most recent call last):
        ...
        fgrad.errors.NonFiniteError: the cotangent of operand 0 of sqrt (recorded at ...) became inf ...
    """

    def __init__(self, on: bool | None = None, *, nans: bool = True, infs: bool = True) -> None:
        watch = None if on is False else Watch(nans=nans, infs=infs)
        super().__init__(watch)
        self._switched = on is not None
        self._before = switch(watch) if self._switched else None

    def __enter__(self) -> Self:
        if self._switched:  # it was meant for the block alone
            switch(self._before)
            self._switched = False
        super().__enter__()
        return self
