"""What several test files share: comparisons, layouts and differences, none of which uses a rule of fgrad."""

from __future__ import annotations

import doctest
import functools
import inspect
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
import pytest
from _pytest.doctest import _get_checker, get_optionflags
from tests.slow import OTHERS

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import config
from fgrad.kernels import compilation

ROUNDING = {"float32": 2e-5, "complex64": 2e-5, "float64": 1e-10, "complex128": 1e-10}


def drawn(count: int) -> int:
    """Return how many of `count` random programs to draw: a tenth, or the part `RANDOM_PROGRAMS` says."""
    return max(10, round(count * float(os.environ.get("RANDOM_PROGRAMS", "0.1"))))


def optimised(written: str) -> str:
    """Return what LLVM makes of a text in its language, in the same."""
    module = compilation._parsed(written)
    compilation._improve(module, compilation.passes_for(written))
    return str(module)


def unchecked(reason: str) -> pytest.MarkDecorator:
    """Return the mark of a test of what is otherwise by design where kernels check all that they touch."""
    return pytest.mark.skipif(config.checked(), reason=f"with FGRAD_CHECK=1, {reason}")


def by_numpy_and_kernels(limit: Callable[[int], None]) -> Callable[[Callable[[], Any], float], list[Any]]:
    """Return the function that runs something by NumPy and by kernels, and compares.

    Args:
        limit: sets from how many elements on kernels compute.
    """

    def compare(f, rtol):
        results = []
        for n in (2**62, 0):
            limit(n)
            with np.errstate(all="ignore"):
                found = f()
            results.append(found if isinstance(found, list | tuple) else [found])
        for slow, fast in zip(*results, strict=True):
            assert (slow.shape, slow.dtype) == (fast.shape, fast.dtype)
            largest = np.abs(slow[np.isfinite(slow)]).max(initial=0)
            np.testing.assert_allclose(fast, slow, rtol=rtol, atol=rtol * largest)
        return results[0]

    return compare


@contextmanager
def switching_every(seconds: float) -> Iterator[None]:
    """Let threads take turns so often, which Python lets them do every 5 ms."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    yield
    sys.setswitchinterval(before)


def simulate_devices() -> None:
    """Let fgrad find simulated GPUs, unless NUMBA_ENABLE_CUDASIM=0 asks for those of the machine."""
    os.environ.setdefault("NUMBA_ENABLE_CUDASIM", "1")
    if "numba" in sys.modules and os.environ["NUMBA_ENABLE_CUDASIM"] == "1":
        sys.modules["numba"].config.ENABLE_CUDASIM = 1  # read as `numba.cuda` is imported


def outcome(test: Callable[..., None], **arguments: Any) -> BaseException | None:
    """Return what ended a test early, if anything did."""
    try:
        test(**arguments)
    except (Exception, pytest.skip.Exception, pytest.fail.Exception) as error:
        return error
    return None


def spread(members: list[Any], count: int) -> tuple[list[Any], list[Any]]:
    """Return at most so many of a list, spread over it, and all others."""
    step = -(-len(members) // count)
    return members[::step], [x for i, x in enumerate(members) if i % step]


def grouped(
    parameters: str,
    cases: Iterable[Any],
    by: str | Callable[[Any], Any] = itemgetter(0),
    quick: int | None = None,
) -> Callable[[Callable[..., None]], Any]:
    """Parametrize a test by groups of cases: one item runs every case of a group, and names those that fail.

    Items cost more than most cases of a large table take. A test takes no fixture that a case could leave
    changed.

    Args:
        parameters: name of the parameter that takes a case; several, with commas, take its parts.
        cases: what the test runs with.
        by: returns the group of a case, or names the attribute that holds it; by default, its first part.
        quick: so many of a group, spread over it, are all that a quick run tries; its others are a slow item.
    """
    names = parameters.split(", ")
    key = by if callable(by) else attrgetter(by)
    groups: dict[str, list[Any]] = {}
    for case in cases:
        groups.setdefault(str(key(case)), []).append(case)
    others = {}
    if quick is not None:
        for group, members in groups.items():
            groups[group], others[group + OTHERS] = spread(members, quick)
    others = {group: members for group, members in others.items() if members}
    groups |= others

    def arguments(case: Any) -> dict[str, Any]:
        return dict(zip(names, case if len(names) > 1 else [case], strict=True))

    def decorate(test: Callable[..., None]) -> Any:
        @functools.wraps(test)
        def run(group: str, **fixtures: Any) -> None:
            members = groups[group]
            outcomes = [(case, outcome(test, **arguments(case), **fixtures)) for case in members]
            skipped = [error for _, error in outcomes if isinstance(error, pytest.skip.Exception)]
            failed = [(case, error) for case, error in outcomes if error is not None and error not in skipped]
            if failed:
                told = [
                    f"{parameters} {case}\n{''.join(traceback.format_exception(error))}"
                    for case, error in failed
                ]
                pytest.fail("\n\n".join([f"{len(failed)} of {len(members)} cases", *told]), pytrace=False)
            if len(skipped) == len(members):
                raise skipped[0]

        taken = inspect.signature(test).parameters
        rest = [p.replace(kind=p.KEYWORD_ONLY) for name, p in taken.items() if name not in names]
        first = inspect.Parameter("group", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        run.__signature__ = inspect.Signature([first, *rest])
        marked = [pytest.param(g, marks=pytest.mark.slow) if g in others else g for g in groups]
        return pytest.mark.parametrize("group", marked)(run)

    return decorate


def plain(x: Any) -> Any:
    """Return the NumPy value of `x`, which may be a Tensor, an array or a number."""
    return x.numpy() if isinstance(x, fg.Tensor) else np.asarray(x)


def close(actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None) -> None:
    """Assert that two values agree in shape and, to rounding of the narrower dtype, in value."""
    a, e = plain(actual), plain(expected)
    assert a.shape == e.shape, f"shape {a.shape}, expected {e.shape}"
    tol = max(ROUNDING.get(a.dtype.name, 0.0), ROUNDING.get(e.dtype.name, 0.0))
    rtol = tol if rtol is None else rtol
    np.testing.assert_allclose(a, e, rtol=rtol, atol=rtol if atol is None else atol)


def check_grad(x, expected):
    """Assert that `x.grad` is a Tensor of the shape and dtype of `x` with the expected value."""
    assert type(x.grad) is fg.Tensor
    assert x.grad.dtype == x.dtype
    close(x.grad, np.broadcast_to(expected, x.shape))


def take_grad(x):
    """Return `x.grad` and clear it."""
    g, x.grad = x.grad, None
    return g


def assign(t, index, v):
    """The statement `t[index] = v` where an expression is needed."""
    t[index] = v


def exactly(actual: Any, expected: Any) -> None:
    """Assert equal values (inf included), shapes and dtypes; a NaN is never right."""
    a, e = plain(actual), plain(expected)
    assert a.shape == e.shape, f"shape {a.shape}, expected {e.shape}"
    assert a.dtype == e.dtype, f"dtype {a.dtype}, expected {e.dtype}"
    np.testing.assert_array_equal(a, e)
    assert not np.any(np.isnan(a)), f"NaN in {a}"


def is_numpy(x: Any) -> bool:
    """Return whether `x` is an array with dimensions or a NumPy scalar, as results for NumPy callers are."""
    return (type(x) is np.ndarray and x.ndim > 0) or isinstance(x, np.generic)


def differences(f: Callable[[Any], Any], x: Any, step: float = 1e-6) -> Any:
    """Return the Jacobian of `f` at real `x` by central differences, of shape out.shape + x.shape."""
    x = np.array(x, dtype=np.float64)
    columns = []
    for i in np.ndindex(x.shape):
        e = np.zeros_like(x)
        e[i] = step
        columns.append((plain(f(x + e)) - plain(f(x - e))) / (2 * step))
    out_shape = np.shape(plain(f(x)))
    if not columns:
        return np.zeros(out_shape + x.shape)
    return np.stack(columns, axis=-1).reshape(out_shape + x.shape)


def layouts(shape: tuple[int, ...], dtype: Any = np.float64, seed: int = 0) -> dict[str, Any]:
    """Return arrays of one shape in every memory layout a caller may hand over."""
    rng = np.random.default_rng(seed)
    base = rng.uniform(0.5, 1.5, shape).astype(dtype)
    wide = np.zeros((*shape[:-1], 2 * shape[-1]), dtype)
    wide[..., ::2] = base
    frozen = base.copy()
    frozen.flags.writeable = False
    return {
        "contiguous": base,
        "fortran": np.asfortranarray(base),
        "strided": wide[..., ::2],
        "reversed": np.ascontiguousarray(base[..., ::-1])[..., ::-1],
        "transposed": np.ascontiguousarray(base.T).T,
        "broadcast": np.broadcast_to(base[..., :1], shape),
        "read-only": frozen,
    }


def together(function, count=8):
    """Return what a function gives in threads that call it at once."""
    barrier, found = threading.Barrier(count), []

    def work():
        barrier.wait()
        found.append(function())

    started = [threading.Thread(target=work) for _ in range(count)]
    for t in started:
        t.start()
    for t in started:
        t.join(60)
    assert len(found) == count
    return found


def wrong_examples(text: str, name: str) -> str:
    """Return what doctest says against the examples of a docstring, by the settings of the suite.

    Raises:
        AssertionError: there is no example.
    """

    class Settings:
        def getini(self, name: str) -> list[str]:
            return ["ELLIPSIS", "NORMALIZE_WHITESPACE", "NUMBER"]

    test = doctest.DocTestParser().get_doctest(text, {"fg": fg, "fnp": fnp, "np": np}, name, None, None)
    assert test.examples
    said: list[str] = []
    flags = get_optionflags(Settings())  # type: ignore[arg-type]
    doctest.DocTestRunner(checker=_get_checker(), optionflags=flags).run(test, out=said.append)
    return "".join(said)
