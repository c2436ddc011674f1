"""Predicates, text and files of arrays: nothing here has a derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.backend.devices import on_host
from fgrad.core.tensor import Tensor
from fgrad.core.views import root_of
from fgrad.numpy.arrays import concrete
from fgrad.numpy.registry import implements, named


def _shares(theirs: Callable[..., bool], word: str, limit: int, example: str) -> Callable[..., bool]:
    given, result = example.split(" -> ")

    @implements(theirs)
    @named(
        theirs.__name__,
        f"""Return whether writing to one {word} the other: Tensors share with their views.

        Returns:
            One truth value.

        Derivative:
            None: the result is a truth value.

        Differences from NumPy:
            Of Tensors only a view and its base share: writing to other Tensors changes nothing, whatever
            memory they lie in.

        Example:
            >>> x = fg.tensor([1.0, 2.0])
            >>> fnp.{theirs.__name__}({given})
            {result}
        """,
    )
    def share(a: Any, b: Any, /, max_work: int = limit) -> bool:
        if not (isinstance(a, Tensor) or isinstance(b, Tensor)):
            return theirs(a, b, max_work)
        if not (isinstance(a, Tensor) and isinstance(b, Tensor)) or root_of(a) is not root_of(b):
            return False
        x, y = a._value, b._value
        return theirs(x, y) if x.__class__ is y.__class__ is np.ndarray else a.size > 0 and b.size > 0

    return share


shares_memory = _shares(np.shares_memory, "changes", -1, "x[:1], x[1:] -> False")
may_share_memory = _shares(np.may_share_memory, "may change", 0, "x, x[1:] -> True")


def _dtype_or_array(x: Any) -> Any:
    return np.broadcast_to(np.empty((), x.dtype), x.shape) if isinstance(x, Tensor) else x


@implements(np.can_cast)
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Return whether a dtype, or that of an array, can be cast to another under a rule.

    Returns:
        One truth value.

    Derivative:
        None: the result is a truth value.

    Example:
        >>> fnp.can_cast(fg.tensor([1.0]), np.float32)
        False
    """
    return bool(np.can_cast(from_.dtype if isinstance(from_, Tensor) else from_, to, casting))


@implements(np.min_scalar_type)
def min_scalar_type(a: Any, /) -> np.dtype[Any]:
    """Return the smallest dtype that holds a number; of an array with axes its own.

    Returns:
        The dtype.

    Raises:
        TypeError: the value is not known, under `vmap` or while staged.

    Derivative:
        None: the result is a dtype.

    Example:
        >>> fnp.min_scalar_type(fg.tensor(10))
        dtype('uint8')
    """
    return np.min_scalar_type(
        a if not isinstance(a, Tensor) else _dtype_or_array(a) if a.shape else concrete(a, "min_scalar_type")
    )


@implements(np.common_type)
def common_type(*arrays: Any) -> Any:
    """Return the floating-point scalar type that holds every array without loss.

    Returns:
        A scalar type of NumPy, float64 for integers.

    Raises:
        TypeError: an array of neither numbers nor truth values.

    Derivative:
        None: the result is a type.

    Example:
        >>> fnp.common_type(fg.tensor([1]), np.ones(2, np.float32))
        <class 'numpy.float64'>
    """
    return np.common_type(*map(_dtype_or_array, arrays))


@implements(np.array_repr)
def array_repr(
    arr: Any, max_line_width: Any = None, precision: Any = None, suppress_small: Any = None
) -> str:
    """Return the text that `repr` gives for an array with these elements.

    Returns:
        Text.

    Raises:
        TypeError: values are not known, under `vmap` or while staged.

    Derivative:
        None: the result is text.

    Example:
        >>> fnp.array_repr(fg.tensor([1.0, 2.0]))
        'array([1., 2.])'
    """
    return np.array_repr(on_host(concrete(arr, "array_repr")), max_line_width, precision, suppress_small)


@implements(np.array_str)
def array_str(a: Any, max_line_width: Any = None, precision: Any = None, suppress_small: Any = None) -> str:
    """Return the elements as text, without the name of the class.

    Returns:
        Text.

    Raises:
        TypeError: values are not known, under `vmap` or while staged.

    Derivative:
        None: the result is text.

    Example:
        >>> fnp.array_str(fg.tensor([1.0, 2.0]))
        '[1. 2.]'
    """
    return np.array_str(on_host(concrete(a, "array_str")), max_line_width, precision, suppress_small)


def _formats(theirs: Callable[..., str], how: str, given: str, text: str) -> Callable[..., str]:
    @named(
        theirs.__name__,
        f"""Return a number as text {how}; arguments as in NumPy.

        Returns:
            Text.

        Raises:
            TypeError: the value is not known, under `vmap` or while staged.

        Derivative:
            None: the result is text.

        Example:
            >>> fnp.{theirs.__name__}(fg.tensor({given}))
            '{text}'
        """,
    )
    def written(x: Any, *args: Any, **kwargs: Any) -> str:
        return theirs(on_host(concrete(x, "text"))[()] if isinstance(x, Tensor) else x, *args, **kwargs)

    return written


format_float_positional = _formats(np.format_float_positional, "in decimals", "0.25", "0.25")
format_float_scientific = _formats(np.format_float_scientific, "with an exponent", "1234.5", "1.2345e+03")


def _saves(function: Callable[..., Any], example: str) -> Callable[..., None]:
    """Return a function of NumPy that writes to a file, for constant Tensors too."""

    @implements(function)
    @named(
        function.__name__,
        f"""Write arrays and constant Tensors to a file, as `numpy.{function.__name__}` does.

        Returns:
            None. Shapes and dtypes are read again as they were; NumPy reads Tensors as arrays.

        Raises:
            TypeError: values are not known, under `vmap` or while staged.

        Derivative:
            None: a file holds numbers.

        Example:
            >>> import io
            >>> file = io.BytesIO()
            {example}
        """,
    )
    def save(*args: Any, **kwargs: Any) -> None:
        plain = tree.map(lambda x: np.asarray(x) if isinstance(x, Tensor) else x, (args, kwargs))
        function(*plain[0], **plain[1])

    return save


save: Callable[..., None] = _saves(
    np.save,
    """>>> fnp.save(file, fg.tensor([1.0, 2.0]))
            >>> _ = file.seek(0)
            >>> np.load(file)
            array([1., 2.])""",
)
savetxt: Callable[..., None] = _saves(
    np.savetxt,
    """>>> fnp.savetxt(file, fg.tensor([1.0, 2.0]), fmt="%g")
            >>> file.getvalue().split()
            [b'1', b'2']""",
)
savez: Callable[..., None] = _saves(
    np.savez,
    """>>> fnp.savez(file, x=fg.tensor([1.0, 2.0]))
            >>> _ = file.seek(0)
            >>> np.load(file)["x"]
            array([1., 2.])""",
)
savez_compressed: Callable[..., None] = _saves(
    np.savez_compressed,
    """>>> fnp.savez_compressed(file, x=fg.tensor([1.0, 2.0]))
            >>> _ = file.seek(0)
            >>> np.load(file)["x"]
            array([1., 2.])""",
)
