"""Keys: a key names a stream of random bits; what is drawn from it is a pure function of the key.

The bits are those of Threefry-2x32, a block cipher of counters (Salmon, Moraes, Dror & Shaw 2011). It needs
only additions, shifts and xor of 32-bit words, which NumPy vectorises; Philox needs products of 64 bits,
which cost twice the memory. A key is an array of two uint32 words, so it can be mapped, traced, stacked and
indexed like any array.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from fgrad.backend.devices import maker
from fgrad.core.aval import Shape
from fgrad.core.dispatch import bind
from fgrad.core.placement import near
from fgrad.core.tensor import Tensor, wrap
from fgrad.numpy.arrays import as_value
from fgrad.numpy.joining import stack
from fgrad.ops.linear import convert, reshape

WORD = np.dtype(np.uint32)
BITS, SPLIT, FOLD = 0, 1 << 31, (1 << 31) + 1  # first words of counters: no two uses of a key share a block


def key(seed: Any) -> Any:
    """Return the key of a seed.

    Args:
        seed: integer from 0 to 2**64 - 1, or an array or Tensor of one.

    Returns:
        uint32 array of shape (2,); a Tensor where the default device is not the CPU.

    Raises:
        TypeError: the seed is no integer.
        ValueError: it is negative, too large, or has axes.

    Derivative:
        None: keys are integers.

    Example:
        >>> key(7)
        array([0, 7], dtype=uint32)
    """
    if not isinstance(seed, Tensor):
        if np.ndim(seed):
            raise ValueError(f"the seed of a key is one integer, not an array of shape {np.shape(seed)}")
        value = operator.index(seed)
        if not 0 <= value < 1 << 64:
            raise ValueError(f"the seed of a key is between 0 and 2**64 - 1, not {value}")
        words = np.array([value >> 32, value & 0xFFFFFFFF], WORD)
        make = maker()
        return words if make is np else wrap(make.array(words))
    if seed.dtype.kind not in "iu" or seed.shape:
        raise TypeError(f"the seed of a key is one integer, not {seed.dtype} of shape {seed.shape}")
    wide = convert(seed, np.dtype(np.uint64))
    low = bind("bitwise_and", wide, np.uint64(0xFFFFFFFF))
    return convert(stack([bind("right_shift", wide, np.uint64(32)), low]), WORD)


def wrap_key_data(data: Any) -> Any:
    """Return the key whose words are `data`, an array or Tensor of two unsigned integers.

    Args:
        data: two unsigned integers that fit 32 bits.

    Returns:
        A key: an array of two uint32; a Tensor if `data` is one.

    Raises:
        TypeError: the words are no integers.
        ValueError: there are not two of them.

    Derivative:
        None: keys are integers.

    Example:
        >>> key = fg.random.key(7)
        >>> again = fg.random.wrap_key_data(fg.random.key_data(key))
        >>> bool(fg.random.uniform(again) == fg.random.uniform(key))
        True
    """
    data = as_value(data)
    if data.dtype.kind not in "iu":
        raise TypeError(f"the words of a key are integers, not {data.dtype}")
    if tuple(data.shape) != (2,):
        raise ValueError(
            f"a key has two words, shape (2,), not {tuple(data.shape)}; map over more of them with vmap"
        )
    return convert(data, WORD)


def key_data(key: Any) -> Any:
    """Return the words of a key, an array or Tensor of two uint32.

    Args:
        key: of this module.

    Returns:
        Two uint32; a Tensor if `key` is one.

    Derivative:
        None: they are integers.

    Example:
        >>> fg.random.key_data(fg.random.key(0))
        array([0, 0], dtype=uint32)
    """
    return checked(key)


def is_key(x: Any) -> bool:
    """Return whether `x` is a key."""
    return isinstance(x, np.ndarray | Tensor) and x.dtype == WORD and tuple(x.shape) == (2,)


def checked(key: Any, maker: str = "fgrad.random.key(seed)") -> Any:
    """Return `key`; a message says that `maker` makes one.

    Raises:
        TypeError: it is none.
    """
    if not is_key(key):
        given = f"{key.dtype} of shape {tuple(key.shape)}" if hasattr(key, "dtype") else repr(key)
        raise TypeError(
            f"a key is two words of uint32, as {maker} makes it, not {given}; use vmap for an array of keys"
        )
    return key


def lengths(size: Any) -> Shape:
    """Return a size as tuple."""
    if size is None:
        return ()
    return tuple(map(operator.index, size)) if isinstance(size, tuple | list) else (operator.index(size),)


def _cipher(key: Any, n: int, use: int) -> Any:
    """Return `n` blocks of two words; those of a smaller `n` are a prefix of those of a larger one."""
    count = np.empty((n, 2), WORD)
    count[:, 1] = np.arange(n, dtype=np.uint64).astype(WORD)
    count[:, 0] = use if n <= 1 << 32 else use + (np.arange(n, dtype=np.uint64) >> np.uint64(32))
    make = near(key)
    return bind("threefry", key, count if make is np else make.array(count))


def split(key: Any, num: Any = 2) -> Any:
    """Return `num` new keys, whose streams are independent of each other and of that of `key`.

    Args:
        key: a key; do not draw from it any more, so that nothing is used twice.
        num: number of keys, or the shape of the array of keys.

    Returns:
        uint32 array of shape (num, 2).

    Derivative:
        None: keys are integers.

    Example:
        >>> first, second = split(key(0))
    """
    shape = lengths(num)
    keys = _cipher(checked(key), int(np.prod(shape, dtype=np.int64)), SPLIT)
    return reshape(keys, (*shape, 2))


def fold_in(key: Any, data: Any) -> Any:
    """Return the key that belongs to `key` and an integer, such as the number of a step.

    Args:
        key: a key.
        data: integer from 0 to 2**32 - 1; of larger or negative ones in arrays and Tensors the low 32 bits
            count.

    Returns:
        A key: an array of two uint32; a Tensor if `key` is one.

    Raises:
        TypeError: `data` is no integer.
        ValueError: a number out of range, or an array with axes.

    Derivative:
        None: keys are integers.

    Example:
        >>> key = fg.random.key(0)
        >>> bool(fg.random.uniform(fg.random.fold_in(key, 1)) == fg.random.uniform(fg.random.fold_in(key, 2)))
        False
    """
    if isinstance(data, int) and not 0 <= data < 1 << 32:
        raise ValueError(f"fold_in takes an integer between 0 and 2**32 - 1, not {data}")
    word = as_value(data)
    if word.dtype.kind not in "iu":
        raise TypeError(f"fold_in takes an integer, not {word.dtype}")
    if word.shape:
        raise ValueError(
            f"fold_in takes one integer, not an array of shape {tuple(word.shape)}; map over it with vmap"
        )
    return bind("threefry", checked(key), stack([near(word).full((), FOLD, WORD), convert(word, WORD)]))


def bits(key: Any, size: Any = None, dtype: Any = np.uint32) -> Any:
    """Return random bits as unsigned integers; those of a smaller size are a prefix of those of a larger one.

    Args:
        key: a key.
        size: shape of the result.
        dtype: np.uint8, np.uint16, np.uint32 or np.uint64.

    Returns:
        Unsigned integers of `dtype` and of shape `size`.

    Raises:
        TypeError: any other dtype.

    Derivative:
        None: the results are integers.

    Example:
        >>> fg.random.bits(fg.random.key(0), (2,)).dtype
        dtype('uint32')
    """
    kind, shape = np.dtype(dtype), lengths(size)
    n = int(np.prod(shape, dtype=np.int64))
    if kind == np.uint64:
        pairs = convert(_cipher(checked(key), n, BITS), kind)
        high = bind("left_shift", pairs[:, 0], np.uint64(32))
        return reshape(bind("bitwise_or", high, pairs[:, 1]), shape)
    if kind.kind != "u":
        raise TypeError(f"bits are unsigned integers, of dtype uint8, uint16, uint32 or uint64, not {kind}")
    words = reshape(_cipher(checked(key), (n + 1) // 2, BITS), (n + n % 2,))[:n]
    return reshape(convert(words, kind), shape)


def fractions(key: Any, size: Shape, dtype: np.dtype[Any], *, open: bool) -> Any:
    """Return numbers of [0, 1), or of the open interval if `open`, as fine as `dtype` has them."""
    single = dtype.itemsize <= 4
    digits = np.finfo(np.float32 if single else np.float64).nmant + (not open)
    width = np.dtype(np.uint32 if single else np.uint64)
    word = bits(key, size, width)
    kept = bind("right_shift", word, width.type(width.itemsize * 8 - digits))
    value = convert(kept, np.dtype(np.float32 if single else np.float64))
    return ((value + 0.5) if open else value) * 2.0**-digits
