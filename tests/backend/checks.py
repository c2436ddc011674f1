"""What has to hold on a device, simulated or not: the CPU's results, and no transfer unasked for."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import fgrad as fg
from fgrad import tree
from fgrad.backend import devices
from fgrad.core.dispatch import bind
from fgrad.core.primitive import PRIMITIVES

DEVICE = "cuda:0"
LOOSE = {"e": 2e-3, "f": 1e-4, "F": 1e-4}  # relative; other dtypes: 1e-8

WAITS = {  # primitives that look at values, and refuse some of them: a truth value is read from the device
    *("fitted", "require", "guard", "solve", "second_minors", "slogdet", "qr", "eig", "eigh", "svd", "pinv"),
    *(
        "cholesky",
        "cholesky_or_nan",
        "solve_triangular",
        "solve_banded",
        "lu_factor",
        "polar",
        "schur",
        "sylvester",
        "riccati",
        "matrix_function",
    ),
    *("frechet", "log_frechet", "regular", "regularized", "roots", "simple_roots", "lambertw"),
    # or at how far an integral goes, or a recurrence
    *("carlson", "agm", "ellipe", "ellipeinc", "ellipj_cn", "ellipj_dn", "ellipj_ph", "ellipj_sn", "ellipk"),
    "elliptic_moment",
    *("ellipkinc", "ellipkm1", "elliprc", "elliprd", "elliprf", "elliprg", "elliprj"),
}


def _turned(x: Any) -> Any:
    return np.conjugate(x).swapaxes(-1, -2)


DETERMINED = {  # what libraries agree on of results of which they choose signs, phases, or an order
    "eigh": lambda _, w, v: (w, v * w[..., None, :] @ _turned(v), v * np.tanh(w)[..., None, :] @ _turned(v)),
    "svd": lambda _, u, s, vh: (s, u * s[..., None, :] @ vh, u @ vh, u * (s * s)[..., None, :] @ _turned(u)),
    "qr": lambda _, q, r: (q @ r, _turned(r) @ r, q @ _turned(q), np.absolute(r.diagonal(0, -2, -1))),
    "schur": lambda _, t, z: (z @ t @ _turned(z), z @ _turned(z), (t @ t @ t).trace(0, -2, -1)),
    "roots": lambda _, r: (r.sum(), (r * r).sum(), (r * r * r).sum()),
    "argpartition": lambda sample, i: (
        np.sort(i, sample.params["axis"]),
        i.swapaxes(0, sample.params["axis"])[np.asarray(sample.params["kth"])],
    ),
}


def determined(sample: Any, outs: Any) -> Any:
    """Return what there is to compare of the result, or results, of a primitive."""
    outs = outs if isinstance(outs, tuple | list) else (outs,)
    return DETERMINED.get(sample.primitive, lambda _, *outs: tuple(outs))(sample, *outs)


def on_device(x: Any) -> Any:
    """Return an array as Tensor on the device, anything else as it is."""
    return fg.tensor(x, device=DEVICE) if isinstance(x, np.ndarray) else x


@contextmanager
def no_transfers(*, reads: bool = False) -> Iterator[None]:
    """Fail if an array travels in the block, or unless `reads`, a number is read."""
    before = devices.transfers()
    yield
    after = devices.transfers()
    if reads:
        before["reads"] = after["reads"]
    assert after == before


def same(actual: Any, expected: Any, scale: float = 1.0) -> None:
    """Compare results that are on the device with those of the CPU."""
    actual, expected = tree.leaves(actual), tree.leaves(expected)
    for a, e in zip(actual, expected, strict=True):
        e = e.numpy() if isinstance(e, fg.Tensor) else np.asarray(e)
        assert a.device == DEVICE
        assert (a.dtype, a.shape) == (e.dtype, e.shape)
        tol = scale * LOOSE.get(e.dtype.char, 1e-8)
        size = float(np.max(np.abs(e[np.isfinite(e)]), initial=0.0))
        np.testing.assert_allclose(a.numpy(), e, rtol=tol, atol=0.01 * tol * (1 + size))


def check_primitive(sample: Any) -> None:
    """Check the values of a primitive and its reverse step."""
    primitive, args = PRIMITIVES[sample.primitive], sample.args
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        expected = primitive.run(*args, **sample.params)
        given = [on_device(a) for a in args]
        bind(sample.primitive, *given, **sample.params)  # sends the tables of a kernel, which stay there
        with no_transfers(reads=sample.primitive in WAITS):
            out = bind(sample.primitive, *given, **sample.params)
        same(determined(sample, out), determined(sample, expected))
        check_reverse(sample, given)


def check_reverse(sample: Any, given: list[Any]) -> None:
    """Check the cotangents that a primitive hands back, where the CPU has some."""
    args = sample.args
    where = [i for i, a in enumerate(args) if isinstance(a, np.ndarray) and a.dtype.kind in "fc"]
    rng = np.random.default_rng(1)

    def pulled(operands: list[Any], place: Callable[[Any], Any]) -> Any:
        def f(*xs: Any) -> Any:
            full = list(operands)
            for i, x in zip(where, xs, strict=True):
                full[i] = x
            return determined(sample, bind(sample.primitive, *full, **sample.params))

        outs, back = fg.vjp(f, *(place(args[i]) for i in where))
        return outs, back

    if not where:
        return
    try:
        outs, back = pulled(list(args), fg.tensor)
        cts = tuple(_cotangent(o, rng) for o in outs)
        expected = back(tuple(map(fg.tensor, cts)))
    except (TypeError, np.linalg.LinAlgError):  # no derivative, or none of a generic cotangent
        return
    _, back = pulled(given, on_device)
    there = tuple(map(on_device, cts))
    back(there)  # tables of places are sent once
    with no_transfers(reads=sample.primitive in WAITS):
        found = back(there)
    same(found, expected, 10)


def _cotangent(y: Any, rng: np.random.Generator) -> Any:
    ct = rng.uniform(-1, 1, y.shape)
    if y.dtype.kind == "c":
        ct = ct + 1j * rng.uniform(-1, 1, y.shape)
    return np.asarray(ct, y.dtype)


def check(f: Callable[..., Any], *args: Any, reads: bool = False, sent: bool = False) -> None:
    """Check that a function of Tensors gives on the device what it gives on the CPU.

    Args:
        f: takes and returns pytrees of Tensors.
        args: arrays.
        reads: whether a number may be read on the way.
        sent: whether constants may be sent the first time.
    """
    expected = f(*map(fg.tensor, args))
    given = [on_device(a) for a in args]
    if sent:
        f(*given)
    with no_transfers(reads=reads):
        found = f(*given)
    same(found, expected)
