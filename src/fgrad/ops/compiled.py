"""Where primitives use compiled kernels: large arrays only, so that small gradients wait for no compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from fgrad.backend.array import DeviceArray
from fgrad.core.primitive import FEW, LARGE, MEDIUM, ROWS, VECTORS, Rule
from fgrad.expr.atoms import is_finite
from fgrad.expr.node import Expr
from fgrad.locks import lazy

FLOATS = frozenset(map(np.dtype, "fd"))  # dtypes that kernels compute in: those of this machine's byte order
COMPLEX = frozenset(map(np.dtype, "FD"))  # those of pairs of them


@cache
def backend(name: str) -> Any:
    """Return a module of `fgrad.kernels`, loaded late: few programs that differentiate need it."""
    return import_module(f"fgrad.kernels.{name}")


class Launcher(NamedTuple):
    """What compiles for large arrays, and for arrays on a device."""

    rule: Callable[..., Any]  # (rule, arrays, params) -> what the rule gives
    elementwise: Callable[..., Rule]  # (params, results) -> the function that computes scalar expressions
    elementwise_on_device: Callable[..., Rule]  # the same
    pairs: Callable[..., Rule]  # the same of the parts of complex numbers
    staged: Callable[..., Any]  # (function of arrays, avals) -> its program


LAUNCH: list[Launcher] = []  # one, once that is loaded


def late(module: str, name: str) -> Rule:
    """Return a rule that a module above has, which is imported when a program needs it."""

    def rule(*args: Any, **params: Any) -> Any:
        return getattr(import_module(module), name)(*args, **params)

    return rule


def looks(x: Any) -> bool:
    """Return whether one may look at the values of an operand: not on a device, nor while it is traced."""
    return x.__class__ is np.ndarray or isinstance(x, np.generic)


def launches(x: Any, *others: Any) -> bool:
    """Return whether a rule of these arrays is compiled as a whole: on a device, of one real dtype."""
    if x.__class__ is not DeviceArray or not LAUNCH or x.dtype not in FLOATS or not x.size:
        return False
    return all(o.__class__ is DeviceArray and o.dtype == x.dtype and o.place is x.place for o in others)


def launches_rows(x: Any, axes: tuple[int, ...], *others: Any) -> bool:
    """Return whether a rule along `axes` is compiled: on a device, or of large arrays along the last ones."""
    if x.__class__ is not np.ndarray:
        return launches(x, *others)
    if x.size < VECTORS or x.dtype not in FLOATS or not LAUNCH:
        return False
    n = x.ndim
    return axes == tuple(range(n - len(axes), n)) and all(
        o.__class__ is np.ndarray and o.dtype == x.dtype for o in others
    )


def launched(rule: Rule, *arrays: Any, **params: Any) -> Any:
    """Return what a rule of primitives and Tensors gives, compiled: for large arrays, or what `launches`."""
    return LAUNCH[0].rule(rule, arrays, params)


def _for_kernels(operands: tuple[Any, ...], kinds: str, least: int) -> list[Any] | None:
    """Return what a kernel takes for operands: an array, and more of its dtype or floats.

    None where there are others, where no array has `least` elements, or not one of the dtypes in `kinds`.
    """
    for a in operands:
        if a.__class__ is np.ndarray and a.size >= least:
            dtype = a.dtype
            break
    else:
        return None
    if dtype not in FLOATS or dtype.char not in kinds:
        return None
    given: list[Any] = []
    for a in operands:
        if getattr(a, "dtype", bool) == dtype:  # to NumPy, None would be float64
            given.append(a)
        elif (a.__class__ is float or a.__class__ is int) and abs(a) < 1e30:  # as float32 can hold
            given.append(float(a) if given else np.array(a, dtype))
        else:
            return None
    return given


class Fused:
    """Scalar expressions of whole arrays: by one compiled loop where arrays are large or on a device.

    Elsewhere by `slow`.

    It returns what `slow` does, which is a tuple where there are several results or a None among them.
    """

    slow: Rule

    def __init__(
        self,
        params: Sequence[Expr],
        results: Sequence[Expr | None],
        slow: Rule,
        kinds: str = "fd",
        least: int = LARGE,
    ) -> None:
        self._params, self._results, self.slow = tuple(params), tuple(results), slow
        self._kinds, self._least = kinds, least
        self._kernel: Rule | None = None

    def __call__(self, *operands: Any) -> Any:
        """Return the results for `operands`."""
        first = operands[0]
        if first.__class__ is DeviceArray and LAUNCH and one_dtype(first.dtype, operands):
            return self._on_device(*operands)
        if first.__class__ is np.ndarray and first.size < self._least:
            return self.slow(*operands)
        given = _for_kernels(operands, self._kinds, self._least)
        if given is None:
            return self.slow(*operands)
        if self._kernel is None:
            self._kernel = LAUNCH[0].elementwise(self._params, self._numbers())
        return self._kernel(*given)

    def _numbers(self) -> tuple[Expr, ...]:
        return tuple(r for r in self._results if r is not None)

    @lazy
    def _on_device(self) -> Any:
        return LAUNCH[0].elementwise_on_device(self._params, self._numbers())


class FastUfunc:
    """A ufunc of NumPy, in whose place one compiled loop computes large arrays of some dtypes.

    NumPy's warnings and errors are kept: where a result is infinite or NaN, of which it may have something to
    say, and where it is to speak of underflow, it computes the results itself.
    """

    def __init__(
        self,
        params: Sequence[Expr],
        result: Expr | Callable[..., Expr],
        ufunc: Any,
        kinds: str,
        *,
        silent: bool = False,
        least: int = MEDIUM,
        large_kinds: str = "",
    ) -> None:
        """Take what `Fused` does.

        Args:
            params: the operands.
            result: the result, or what makes it of them when it is first needed.
            ufunc: NumPy's function.
            kinds: the dtypes of arrays of `least` elements that the loop is for.
            silent: NumPy never says anything of this function.
            least: how many elements are worth the loop.
            large_kinds: more dtypes, of arrays of `VECTORS` elements.
        """
        self._params, self._result, self._ufunc = tuple(params), result, ufunc
        self._kinds, self._silent, self._least = kinds, silent, least if kinds else VECTORS
        self._large_kinds = large_kinds

    def __call__(self, *operands: Any) -> Any:
        """Return the result for `operands`, of which one more is memory that it may be written to."""
        first = operands[0]
        if first.__class__ is np.ndarray and first.size < self._least:
            return self._ufunc(*operands)
        arrays = operands[: len(self._params)]
        given = _for_kernels(arrays, self._kinds, self._least)
        if given is None and self._large_kinds:
            given = _for_kernels(arrays, self._large_kinds, VECTORS)
        if given is None or np.geterr()["under"] != "ignore":
            return self._ufunc(*operands)
        out = self._kernel(*given)
        if self._silent or is_finite(out):
            return out
        return self._ufunc(*operands)

    @lazy
    def _kernel(self) -> Any:
        given = self._result
        result = given if isinstance(given, Expr) else given(*self._params)
        return LAUNCH[0].elementwise(self._params, (result,))


COSTLY = 8  # of a library's function: how many of the fastest operations take as long


class Shared:
    """A universal function of a library, of whose large arrays threads take pieces: the bits are the same.

    Where NumPy has something to say of a piece, one thread computes all of it again.
    """

    def __init__(self, ufunc: np.ufunc) -> None:
        """Take a function with one result, which takes as long as `COSTLY` operations for an element."""
        self._ufunc = ufunc

    def __call__(self, *operands: Any) -> Any:
        """Return the result for `operands`."""
        arrays = [x for x in operands if x.__class__ is np.ndarray and x.ndim]
        if not arrays or arrays[0].size < MANY:
            return self._ufunc(*operands)
        shape = arrays[0].shape
        numbers = all(isinstance(x, np.ndarray | np.generic | int | float) for x in operands)
        if not numbers or not all(x.shape == shape and x.flags.c_contiguous for x in arrays):
            return self._ufunc(*operands)
        kinds = [x.dtype if hasattr(x, "dtype") else type(x) for x in operands]
        out = np.empty(shape, self._ufunc.resolve_dtypes((*kinds, None))[-1])
        pieces = [x.reshape(-1) if x.__class__ is np.ndarray and x.ndim else x for x in (*operands, out)]
        said: list[str] = []
        backend("threads").share(_Pieces(self._ufunc, said), tuple(pieces), out.size, COSTLY * out.size)
        return self._ufunc(*operands) if said else out


class _Pieces:
    """Computes a part of arrays, and notes whether NumPy has something to say of it."""

    is_native = False  # Python runs it, and other threads meanwhile

    def __init__(self, ufunc: np.ufunc, said: list[str]) -> None:
        self._ufunc, self._said = ufunc, said

    def __call__(self, *args: Any) -> None:
        *arrays, lo, hi = args
        *operands, out = [x[lo:hi] if x.__class__ is np.ndarray and x.ndim else x for x in arrays]
        with np.errstate(all="call", call=lambda error, _: self._said.append(error)):
            self._ufunc(*operands, out=out)

    def share(self, *_: Any) -> None:
        """Be called by `threads.share` alone."""
        raise NotImplementedError


class FastComplex:
    """A function of which one compiled loop computes large arrays of complex numbers.

    NumPy's warnings and errors are kept as by `FastUfunc`.
    """

    def __init__(self, expressions: Callable[..., Any], real: Rule) -> None:
        """Take what gives expressions of parts, for the dtype of a part, and what computes all else."""
        self._expressions, self._real = expressions, real
        self._loops: dict[Any, Any] = {}

    def __call__(self, x: Any, *out: Any) -> Any:
        """Return the result, which may be written to `out`."""
        if x.__class__ is not np.ndarray or x.dtype not in COMPLEX or x.size < MEDIUM or not LAUNCH:
            return self._real(x, *out)
        turned = not x.flags.c_contiguous
        if (turned and not x.flags.f_contiguous) or np.geterr()["under"] != "ignore":
            return self._real(x, *out)
        loop = self._loops.get(x.dtype)
        if loop is None:
            loop = self._loops[x.dtype] = LAUNCH[0].pairs(*self._expressions(x.real.dtype))
        found = loop(x.T).T if turned else loop(x)
        return found if is_finite(found) else self._real(x, *out)


class FastPower(FastUfunc):
    """Powers, for which NumPy takes thirty times as long where a base is negative, but for few exponents."""

    def __init__(self, params: Sequence[Expr], result: Expr, ufunc: Any, kinds: str) -> None:
        """Take what `FastUfunc` does."""
        super().__init__(params, result, ufunc, kinds)
        x = params[0]
        self._cube = FastUfunc((x,), x * x * x, lambda x: ufunc(x, 3), kinds)

    def __call__(self, x: Any, y: Any, *out: Any) -> Any:
        """Return `x ** y`, which may be written to `out`."""
        if x.__class__ is not np.ndarray or x.size < FEW or x.dtype not in FLOATS:
            return self._ufunc(x, y, *out)
        if y.__class__ is int or y.__class__ is float:
            exponent = y
        elif np.ndim(y) == 0 and hasattr(y, "dtype") and y.dtype == x.dtype:
            exponent = y.item()
        else:
            return super().__call__(x, y, *out)
        if x.size < MEDIUM:
            product = _product(x, int(exponent)) if exponent in {3, 4} else None
            return self._ufunc(x, y, *out) if product is None else product
        if exponent in {-1, 0, 1, 2} or abs(exponent) > 1e9:
            return self._ufunc(x, y, *out)
        return self._cube(x) if exponent == 3 else super().__call__(x, exponent)


def _product(x: np.ndarray[Any, Any], n: int) -> Any | None:
    """Return `x ** n` for n = 3 or 4, multiplied; None where NumPy may have something to say of it."""
    if np.geterr()["under"] != "ignore":
        return None
    with np.errstate(all="ignore"):
        square = np.multiply(x, x)
        out = np.multiply(square, x if n == 3 else square, square)
        return out if np.isfinite(np.add.reduce(out, axis=None)) else None


MANY, SHORT = 8192, 16  # rows of a result, and numbers of one, of which NumPy starts a loop for each
SPREAD = 8  # of how many elements of a result operands have one, at most, where these are looked at first


def by_rows(params: Sequence[Expr], result: Expr, ufunc: Any) -> Rule:
    """Return a binary ufunc that computes many short rows, or large ones of vectors, by a compiled loop.

    NumPy takes eight nanoseconds for each row of `x[:, None] - x`, whose points have three coordinates, and
    one thread for `x[:, None] * y`.
    """
    fast = FastUfunc(params, result, ufunc, "fd", least=0)
    loop = Fused(params, (result,), ufunc, least=0)

    def run(x: Any, y: Any) -> Any:
        if x.__class__ is not np.ndarray or y.__class__ is not np.ndarray or x.shape == y.shape:
            return ufunc(x, y)
        if x.size * y.size < ROWS:
            return ufunc(x, y)
        size, row = _size_and_row(x, y)
        if size >= MANY * row:
            return fast(x, y)
        if size >= ROWS and (x.size + y.size) * SPREAD <= size and _is_bounded(ufunc, x, y):
            return loop(x, y)
        return ufunc(x, y)

    return run


def _size_and_row(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> tuple[int, int]:
    """Return the size of a result, and the length of a row that NumPy goes through; zeros where it refuses.

    Of longer rows than `SHORT`, what it says of them is the size.
    """
    size = row = 1
    for n, m in zip_longest(reversed(x.shape), reversed(y.shape), fillvalue=1):
        if n != m and 1 not in (n, m):
            return 0, 1  # NumPy says so
        size *= m if n == 1 else n
        if row == 1:
            row = size
    return size, row if row <= SHORT else size


# what is finite of the largest magnitudes of operands where the result is: quotients have no such function
_OF_LARGEST = {np.add: np.add, np.subtract: np.add, np.multiply: np.multiply}


def _is_bounded(ufunc: Any, x: Any, y: Any) -> bool:
    """Return whether NumPy has nothing to say of a result: that of the largest magnitudes is finite."""
    joined = _OF_LARGEST.get(ufunc)
    if joined is None or x.dtype != y.dtype or x.dtype not in FLOATS or np.geterr()["under"] != "ignore":
        return False
    with np.errstate(all="ignore"):
        return bool(np.isfinite(joined(*[np.maximum(np.max(v), -np.min(v)) for v in (x, y)])))


_NUMBERS = (np.float64, float)  # of which a choice has the dtype of NumPy's


def chosen(c: Any, x: Any, y: Any) -> Any:
    """Return `np.where(c, x, y)`, of large arrays by a compiled loop."""
    if c.__class__ is np.bool_ and x.__class__ in _NUMBERS and y.__class__ in _NUMBERS:
        return np.float64(x if c else y)
    if c.__class__ is not np.ndarray or c.size < MEDIUM or c.dtype.char != "?" or not c.flags.c_contiguous:
        return np.where(c, x, y)
    dtype = getattr(y if np.ndim(x) == 0 else x, "dtype", bool)
    if dtype not in FLOATS:
        return np.where(c, x, y)
    operands = [_operand(a, c.shape, dtype) for a in (x, y)]
    if any(a is None for a in operands):
        return np.where(c, x, y)
    return backend("selection").chosen(c, *operands)


def _operand(a: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return one number, or numbers of `shape` that lie row by row; None where `a` is neither."""
    if a.__class__ is int or a.__class__ is float:
        return np.array(a, dtype) if abs(a) < 1e30 else None
    if getattr(a, "dtype", bool) != dtype:
        return None
    if a.ndim == 0:
        return np.asarray(a)
    if a.__class__ is not np.ndarray or a.shape != shape:
        return None
    if not any(a.strides):  # as cotangents of sums are
        return a[(0,) * a.ndim]
    return a if a.flags.c_contiguous else None


class FusedVJP(Fused):
    """The same as reverse step: a tuple with one cotangent per tracked argument."""

    def __init__(
        self,
        params: Sequence[Expr],
        results: Sequence[Expr | None],
        slow: Rule,
        kinds: str = "fd",
        least: int = LARGE,
        silent: Callable[[], bool] | None = None,
    ) -> None:
        """Take what `Fused` does; `silent`: whether nobody asks to hear of errors, which `slow` tells."""
        super().__init__(params, results, slow, kinds, least)
        self._silent = silent

    def __call__(self, *operands: Any) -> Any:
        """Return the cotangents."""
        if self._silent is not None and not self._silent():
            return self.slow(*operands)
        found = super().__call__(*operands)
        if found.__class__ is tuple and None not in self._results:
            return found
        several = iter(found if found.__class__ is tuple else (found,))
        return tuple([None if r is None else next(several) for r in self._results])


def one_dtype(dtype: np.dtype[Any], operands: Sequence[Any]) -> bool:
    """Return whether kernels compute in `dtype`, and `operands` are such arrays and Python's numbers."""
    if dtype not in FLOATS:
        return False
    return all(a.__class__ is float or getattr(a, "dtype", bool) == dtype for a in operands)
