"""NumPy and SciPy are the oracles of dtypes: calls at every combination of the kinds of their arguments.

A kind is a dtype of an array, of an array without axes, of a scalar of NumPy, or a type of Python's numbers.
`tests/numpy/dtypes.py` and `tests/scipy/dtypes.py` list the calls; each is a command that runs all.
"""

from __future__ import annotations

import argparse
import builtins
import itertools
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

import fgrad as fg
from fgrad.core.program import aval_out

# fmt: off
DTYPES = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
)
# fmt: on
PYTHON = ("python bool", "python int", "python float", "python complex")
SCALARS = tuple(f"scalar {d}" for d in DTYPES)
ZERO_D = tuple(f"0-d {d}" for d in DTYPES)
NUMBERS = (*PYTHON, *SCALARS, *ZERO_D)
_TYPES: dict[str, Callable[[Any], Any]] = {"bool": bool, "int": int, "float": float, "complex": complex}
EVERY = ("eager", "theirs", "beside", "staged", "mapped", "compiled", "gradients")


class Difference(AssertionError):  # noqa: N818 -- what is found, not what went wrong
    """A result is not the oracle's."""


class Call(NamedTuple):
    """A call, which is given a namespace and arguments made of `inputs`, in kinds taken from `kinds`."""

    name: str
    f: Callable[..., Any]
    inputs: tuple[Any, ...]  # numbers of float64, or functions from a dtype to an array
    kinds: tuple[Sequence[str], ...]
    ulps: float = 32
    narrow: bool = False  # whether it is rounded as the narrowest of its inputs
    modes: tuple[str, ...] = EVERY


def like(x: Any, kind: str) -> Any:
    """Return the numbers `x` in a kind; integers are their doubles, so that halves stay apart."""
    place, _, name = kind.rpartition(" ")
    if callable(x):
        return x(name)
    if place in {"scalar", "0-d", "python"}:
        x = np.asarray(x, np.float64).ravel()[0]
    dtype = np.dtype({"float": "float64", "complex": "complex128", "int": "int64"}.get(name, name))
    if dtype.kind == "b":
        made = np.asarray(np.asarray(x) > 0)
    elif dtype.kind in "iu":
        whole = np.rint(2 * np.asarray(x))
        made = np.asarray(np.abs(whole) if dtype.kind == "u" else whole, dtype)
    elif dtype.kind == "c":
        made = np.asarray(x + 1j * np.cos(3 * np.asarray(x)), dtype)
    else:
        made = np.asarray(x, dtype)
    return _TYPES[name](made[()]) if place == "python" else made[()] if place == "scalar" else made


def edges(name: str) -> Any:
    """Return numbers of a dtype at which functions turn, overflow or are not defined."""
    dtype = np.dtype(name)
    if dtype.kind == "b":
        return np.array([False, True, True, False, True])
    if dtype.kind in "iu":
        top = np.iinfo(dtype)
        small = [0, 1, 2, 3, 4, 7, 8, 64, 100, 127]
        return np.array([*small, top.max, top.max - 1, top.min, top.min + (dtype.kind == "i")], dtype)
    real = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 1.5, -2.5, 3.0, 1e-3, 1e3, np.inf, -np.inf, np.nan]
    if dtype.kind == "f":
        return np.array(real, dtype)
    return np.array([complex(a, b) for a in (0.0, 1.0, -0.5, 2.5) for b in (0.0, -1.0, 0.5)], dtype)


def empty(*shape: int) -> Callable[[str], Any]:
    return lambda name: np.zeros(shape, name)


def tensors(args: Iterable[Any]) -> list[Any]:
    return [fg.tensor(x) if isinstance(x, np.ndarray | np.generic) else x for x in args]


def attempt(f: Callable[..., Any], *args: Any) -> Any:
    """Return the result of a call, or the error that it raised."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return f(*args)
        except Exception as error:
            return error


def public(error: Exception) -> type[BaseException]:
    """Return the class of an error that one can name."""
    named = (builtins.__name__, np.exceptions.__name__, "numpy.linalg")
    return next(c for c in type(error).__mro__ if c.__module__ in named)


def leaves(x: Any) -> list[Any]:
    """Return the arrays of a result."""
    return [y for part in x for y in leaves(part)] if isinstance(x, list | tuple) else [x]


def plain(x: Any) -> Any:
    """Return a result with arrays in the place of Tensors."""
    if isinstance(x, list | tuple):
        return [plain(y) for y in x]
    return x.numpy() if isinstance(x, fg.Tensor) else x


def compare(actual: Any, expected: Any, ulps: float) -> None:
    """Compare a result with the oracle's: dtypes, shapes and values, or classes of errors.

    Raises:
        Difference: they are not alike.
    """
    if isinstance(expected, Exception) or isinstance(actual, Exception):
        if not isinstance(expected, Exception):
            raise Difference(f"raises {type(actual).__name__}: {str(actual)[:150]}; not {expected!r:.80}")
        due = public(expected)
        if not isinstance(actual, Exception):
            raise Difference(f"{plain(actual)!r:.80} and no {due.__name__}: {str(expected)[:90]}")
        if not isinstance(actual, due):
            raise Difference(f"raises {actual!r:.150}, not {due.__name__}: {str(expected)[:90]}")
        return
    found, right = leaves(plain(actual)), leaves(plain(expected))
    if len(found) != len(right):
        raise Difference(f"{len(found)} results, not {len(right)}")
    for a, e in zip(found, right, strict=True):
        compare_arrays(np.asarray(a), np.asarray(e), ulps)


def compare_arrays(a: Any, e: Any, ulps: float) -> None:
    """Compare one array with another.

    Raises:
        Difference: they are not alike.
    """
    if (a.dtype, a.shape) != (e.dtype, e.shape):
        raise Difference(f"{a.dtype}{list(a.shape)}, not {e.dtype}{list(e.shape)}")
    if e.dtype.kind in "fc":
        room = ulps * float(np.finfo(e.dtype).eps)
        parts = ((a, e),) if e.dtype.kind == "f" else ((a.real, e.real), (a.imag, e.imag))
        with np.errstate(all="ignore"):
            largest = min(float(np.max(np.abs(e[np.isfinite(e)]), initial=0.0)), 1e300)
            right = all(np.allclose(x, y, rtol=room, atol=room * largest, equal_nan=True) for x, y in parts)
    else:
        right = np.array_equal(a, e)
    if not right:
        raise Difference(f"values of {e.dtype}: {np.ravel(a)[:8]}, not {np.ravel(e)[:8]}")


NEEDS_VALUES = ("NoValueError",)


def needs_values(error: Any) -> bool:
    """Return whether an error says that values are needed, which stand not in a program."""
    return any(c.__name__ in NEEDS_VALUES for c in type(error).__mro__)


class Run:
    """One call with arguments of certain kinds, in every mode."""

    def __init__(
        self, call: Call, kinds: Sequence[str], theirs: Any, ours: Any, deviations: dict[str, str]
    ) -> None:
        self.call, self.kinds, self.library, self.ours = call, kinds, theirs, ours
        self.deviations = deviations
        self.args = [like(x, kind) for x, kind in zip(call.inputs, kinds, strict=True)]
        self.expected = attempt(call.f, theirs, *self.args)
        self.own: Any = None

    @property
    def ulps(self) -> float:
        """How far apart values may be, in units of rounding of the result."""
        if not self.call.narrow:
            return self.call.ulps
        given = [np.asarray(x).dtype for x in self.args]
        widest = max([float(np.finfo(d).eps) for d in given if d.kind in "fc"], default=2.0**-52)
        return self.call.ulps * widest / 2.0**-52

    def check(self, mode: str) -> str | None:
        """Return what differs in a mode, None if nothing does or is meant to."""
        try:
            getattr(self, mode)()
        except Difference as e:
            if self.is_refused() or self.is_of_array(mode):
                return None
            said = f"{self.call.name} ({', '.join(self.kinds)}): {e}"
            return None if any(re.search(p, said) for p in self.deviations) else f"{mode}: {said}"
        return None

    def is_of_array(self, mode: str) -> bool:
        """Return whether it is right for arrays without axes, which Tensors of NumPy's scalars are."""
        if not any(k.startswith("scalar") for k in self.kinds):
            return False
        kinds = [k.replace("scalar", "0-d") for k in self.kinds]
        return Run(self.call, kinds, self.library, self.ours, self.deviations).check(mode) is None

    def is_refused(self) -> bool:
        """Return whether fgrad refuses what NumPy loses the imaginary part of with a warning."""
        if not isinstance(self.result(), TypeError) or "complex" not in str(self.result()):
            return False
        return self.loses_imaginary()

    def loses_imaginary(self) -> bool:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            try:
                self.call.f(self.library, *self.args)
            except np.exceptions.ComplexWarning:
                return True
            except Exception:
                return False
        return False

    def result(self) -> Any:
        if self.own is None:
            self.own = attempt(self.call.f, self.ours, *tensors(self.args))
        return self.own

    def eager(self) -> None:
        compare(self.result(), self.expected, self.ulps)

    def theirs(self) -> None:
        compare(attempt(self.call.f, self.library, *tensors(self.args)), self.expected, self.ulps)

    def beside(self) -> None:
        """Compare with one Tensor beside arrays."""
        arrays = [i for i, x in enumerate(self.args) if isinstance(x, np.ndarray | np.generic)]
        for i in arrays if len(arrays) > 1 else ():
            args = [*self.args[:i], fg.tensor(self.args[i]), *self.args[i + 1 :]]
            compare(attempt(self.call.f, self.ours, *args), self.expected, self.ulps)

    def staged(self) -> None:
        """Compare what is known without values with what they are."""
        own = self.result()
        made = attempt(fg.make_graph(lambda *xs: self.call.f(self.ours, *xs)), *self.args)
        if needs_values(made):
            return
        if isinstance(made, Exception):
            compare(made, own, 0)
            return
        if isinstance(own, Exception):
            if isinstance(own, TypeError):
                raise Difference(f"is staged, but raises {own!r:.150}")
            return
        avals = [(tuple(y.shape), y.dtype) for y in map(aval_out, made.outputs)]
        found = [(np.shape(y), np.asarray(plain(y)).dtype) for y in leaves(own)]
        if avals != found:
            raise Difference(f"staged {avals}, eager {found}")

    def mapped(self) -> None:
        own = self.result()
        stacks = [np.stack([x, x]) if isinstance(x, np.ndarray | np.generic) else x for x in self.args]
        axes = tuple(0 if isinstance(x, np.ndarray | np.generic) else None for x in self.args)
        made = attempt(fg.vmap(lambda *xs: self.call.f(self.ours, *xs), axes), *stacks)
        if needs_values(made):
            return
        if not isinstance(own, Exception):
            own = [np.stack([y, y]) for y in map(np.asarray, leaves(plain(own)))]
        elif isinstance(own, np.linalg.LinAlgError | ValueError | ZeroDivisionError):
            return
        compare(made, own, self.ulps)

    def compiled(self) -> None:
        own = self.result()
        made = attempt(fg.jit(lambda *xs: self.call.f(self.ours, *xs)), *self.args)
        if needs_values(made) or (isinstance(own, Exception) and not isinstance(own, TypeError)):
            return
        compare(made, own, self.ulps)

    def gradients(self) -> None:
        """Compare dtypes and shapes of gradients with those of arguments."""
        places = [i for i, x in enumerate(self.args) if isinstance(x, np.ndarray) and x.dtype.kind in "fc"]
        if not places or isinstance(self.result(), Exception):
            return
        if not any(getattr(y, "dtype", np.dtype(bool)).kind in "fc" for y in leaves(self.result())):
            return

        def smooth(*xs: Any) -> Any:
            args = list(self.args)
            for i, x in zip(places, xs, strict=True):
                args[i] = x
            return [
                y
                for y in leaves(self.call.f(self.ours, *args))
                if getattr(y, "dtype", None) is not None and y.dtype.kind in "fc"
            ]

        chosen = [self.args[i] for i in places]
        made = attempt(lambda: fg.vjp(smooth, *chosen))
        if isinstance(made, Exception):
            return  # it has no derivative, and says so
        out, pullback = made
        found = attempt(pullback, [np.ones_like(y) for y in out])
        if isinstance(found, Exception):
            if isinstance(found, np.linalg.LinAlgError | TypeError):
                return
            raise Difference(f"its gradient raises {found!r:.150}")
        kinds = [(np.shape(g), np.asarray(g).dtype) for g in found]
        if kinds != [(x.shape, x.dtype) for x in chosen]:
            raise Difference(f"gradients {kinds}")


def combinations(call: Call, *, every: bool) -> Iterator[tuple[str, ...]]:
    """Yield the kinds of the arguments: the product of at most two of them, else every pair of neighbours."""
    if len(call.kinds) <= 2 or every:
        yield from itertools.product(*call.kinds)
        return
    first, *rest = call.kinds
    for i, kind in enumerate(first):
        for step in range(max(map(len, rest))):
            yield kind, *(own[(i + step * (j + 1)) % len(own)] for j, own in enumerate(rest))


def differences(
    calls: Iterable[Call],
    theirs: Any,
    ours: Any,
    modes: Sequence[str],
    deviations: dict[str, str],
    *,
    every: bool = False,
    step: Callable[[Call], int] = lambda call: 1,
) -> Iterator[tuple[str, tuple[str, ...], str | None]]:
    """Yield name, kinds and what differs (or None) of every call, in every combination and mode.

    Of the combinations of a call every `step(call)`-th is taken, the first one by its name.
    """
    for call in calls:
        stride = step(call)
        for i, kinds in enumerate(combinations(call, every=every)):
            if stride > 1 and (i + crc32(call.name.encode())) % stride:
                continue
            if all(k.startswith("python") for k in kinds):
                continue
            run = Run(call, kinds, theirs, ours, deviations)
            for mode in modes:
                if mode in call.modes:
                    yield call.name, kinds, run.check(mode)


def command(calls: Sequence[Call], theirs: Any, ours: Any, deviations: dict[str, str]) -> int:
    """Run the whole product, or a part of it, and print what differs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--modes", default=",".join(EVERY), help="of " + ", ".join(EVERY))
    parser.add_argument("--only", default="", help="parts of names, with commas between")
    parser.add_argument("--sample", action="store_true", help="not every combination of three arguments")
    parser.add_argument("--limit", type=int, default=3, help="lines for each call")
    options = parser.parse_args()
    chosen = [c for c in calls if not options.only or any(p in c.name for p in options.only.split(","))]
    total: Counter[str] = Counter()
    count = 0
    for name, _, line in differences(
        chosen, theirs, ours, options.modes.split(","), deviations, every=not options.sample
    ):
        count += 1
        if line is not None:
            total[name] += 1
            if total[name] <= options.limit:
                print(line, flush=True)  # noqa: T201
    for name, n in total.items():
        print(f"{n:6} {name}")  # noqa: T201
    print(count, "runs,", sum(total.values()), "differences in", len(total), "calls")  # noqa: T201
    return bool(total)
