"""Every shortcut of the eager path gives, bit for bit, what the obvious path gives."""

import gc
import sys
import threading
import weakref

import numpy as np
import pytest
from tests.helpers import close

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.core import dispatch
from fgrad.core import tape as tape_module
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.snapshot import compact, is_private, private_copy
from fgrad.core.trace import NOTHING, State
from fgrad.ops.linear import unbroadcast

RNG = np.random.default_rng(5)
UNARY = ("sin", "cos", "tanh", "exp", "square", "arctan", "negative", "absolute")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "arctan2", "logaddexp", "hypot")


def random_program(seed, dtype):
    """Return a function of an array of shape (3, 4) made of some thirty random operations."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(3, 4)).astype(dtype)

    def constant():
        return [w, w[0], w[:, :1], 1.5, 2, np.float64(0.7) if dtype == "float64" else np.float32(0.7)][
            rng.integers(6)
        ]

    def program(x):
        nonlocal rng
        rng = np.random.default_rng(seed + 1)
        known = [x, x[0], x[:, 1:2]]
        for _ in range(30):
            a = known[rng.integers(len(known))]
            kind = rng.integers(5)
            if kind == 0:
                known.append(getattr(fnp, UNARY[rng.integers(len(UNARY))])(a) * 0.5)
            elif kind == 1:
                b = known[rng.integers(len(known))]
                known.append(fnp.tanh(getattr(fnp, BINARY[rng.integers(len(BINARY))])(a, b)))
            elif kind == 2:
                known.append(fnp.tanh(getattr(fnp, BINARY[rng.integers(len(BINARY))])(a, constant())))
            elif kind == 3:
                known.append(fnp.tanh(getattr(fnp, BINARY[rng.integers(len(BINARY))])(constant(), a)))
            else:
                known.append(a.sum() if rng.integers(2) else fnp.broadcast_to(a, (3, 4)))
        total = 0.0
        for k in known:
            total = total + fnp.sum(k)
        return total

    return program, rng.normal(size=(3, 4)).astype(dtype)


@pytest.fixture(
    params=["no shortcut for an operation", "no shortcut for a recording", "no shortcut for the sweep"]
)
def obvious(request, monkeypatch):
    """Turn one of the shortcuts off."""

    def apply():
        if "operation" in request.param:
            slow = State((), 0, None)
            slow.has_tracers, slow.sole = True, NOTHING
            monkeypatch.setattr(dispatch, "inherited_state", lambda: slow)
        elif "recording" in request.param:
            slow = State((), 0, None)
            slow.has_tracers, slow.sole = True, NOTHING
            monkeypatch.setattr(dispatch, "inherited_state", lambda: slow)
            monkeypatch.setattr(dispatch, "apply_primitive", dispatch._general)
        else:
            sweep = tape_module.Tape.sweep

            def watched(self, *args, **kw):
                return sweep(self, *args, **{**kw, "complete": kw["complete"] or (lambda leaf, ct: None)})

            monkeypatch.setattr(tape_module.Tape, "sweep", watched)

    return apply


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("seed", range(12))
def test_shortcuts_change_no_bit(seed, dtype, obvious):
    program, x = random_program(seed, dtype)
    value, gradient = fg.value_and_grad(program)(x)
    _, tangent = fg.jvp(program, (x,), (np.cos(x),))
    obvious()
    slow_value, slow_gradient = fg.value_and_grad(program)(x)
    np.testing.assert_array_equal(value, slow_value)
    np.testing.assert_array_equal(gradient, slow_gradient)
    assert gradient.dtype == slow_gradient.dtype == dtype
    np.testing.assert_array_equal(tangent, fg.jvp(program, (x,), (np.cos(x),))[1])
    close(np.sum(gradient * np.cos(x)), tangent, rtol=1e-3 if dtype == "float32" else 1e-9)


def test_the_cached_number_keeps_its_sign_and_is_never_written_to():
    x = np.array([1.0, 2.0])
    for c in (0.0, -0.0, 0.25, float("nan"), float("inf")):
        for _ in range(3):
            y = fg.tensor(x) * c
            close(y, x * c)
            np.testing.assert_array_equal(np.signbit(np.asarray(y)), np.signbit(x * c))
            y += 1.0
    for c in range(1000):
        close(fg.grad(lambda x, c=c: fnp.sum(x * (c + 0.5)))(x), [c + 0.5] * 2)


# ---- snapshots in reused memory -------------------------------------------------------------------


def test_a_snapshot_is_not_reused_while_anything_refers_to_it():
    a, b = np.full((200, 200), 1.0), np.full((200, 200), 2.0)
    first = private_copy(a)
    part = first[3:5].T
    second = private_copy(b)
    assert is_private(first)
    assert is_private(part)
    assert not np.shares_memory(first, second)
    del first
    third = private_copy(b * 2)
    assert not np.shares_memory(part, third)
    assert np.all(part == 1.0)
    assert np.all(second == 2.0)
    address = part.__array_interface__["data"][0]
    del part
    gc.collect()
    copies = [private_copy(a) for _ in range(3)]
    assert any(
        c.__array_interface__["data"][0] <= address < c.__array_interface__["data"][0] + c.nbytes
        for c in copies
    )


@pytest.mark.parametrize("count", [0, 1, 2, 10**9])
def test_no_count_of_references_decides_whose_memory_it_is(count, monkeypatch):
    monkeypatch.setattr(sys, "getrefcount", lambda _: count)
    a = np.ones((200, 200))
    for reference in (
        lambda x: x[3:][1:, ::2].T,
        lambda x: memoryview(x),
        lambda x: x.ravel().view(np.complex128),
        lambda x: x[0],
        lambda x: weakref.ref(x),
    ):
        kept = reference(private_copy(a))
        others = [private_copy(a * k) for k in range(2, 12)]
        for k, x in enumerate(others):
            assert np.all(x == k + 2)
        if kept.__class__ is not weakref.ref:
            assert np.all(np.asarray(kept).real == 1.0)
            assert not any(np.shares_memory(np.asarray(kept), x) for x in others)


def test_a_snapshot_in_the_middle_of_another_has_memory_of_its_own(monkeypatch):
    a, inner = np.ones((200, 200)), []
    private_copy(a)  # there is a free block
    made = weakref.ref

    def interrupted(*args):
        if not inner:
            inner.append(None)
            inner.append(private_copy(a * 2))
        return made(*args)

    monkeypatch.setattr(weakref, "ref", interrupted)
    outer = private_copy(a)
    assert np.all(inner[1] == 2.0)
    assert np.all(outer == 1.0)


@pytest.mark.parametrize("order", ["C", "F", "strided", "broadcast"])
def test_snapshots_of_any_layout_are_read_only_and_private(order):
    a = RNG.normal(size=(300, 200))
    a = {
        "C": a,
        "F": np.asfortranarray(a),
        "strided": a[::2, ::-1],
        "broadcast": np.broadcast_to(a[0], (300, 200)),
    }[order]
    kept, expected = compact(a), a.copy()
    assert not kept.flags.writeable
    assert not np.shares_memory(kept, a)
    np.testing.assert_array_equal(kept, expected)


def test_threads_do_not_share_snapshots():
    x, results = np.linspace(0, 1, 40_000), {}

    def work(i):
        for k in range(20):
            _, pullback = fg.vjp(lambda x, k=k: x * x * (i + k), x)
            results[i, k] = pullback(np.ones_like(x))[0]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for (i, k), g in results.items():
        close(g, 2 * x * (i + k))


def test_results_never_live_in_the_memory_of_snapshots():
    x = RNG.normal(size=(200, 200))
    kept = [fg.value_and_grad(lambda x: fnp.sum(x * x))(x)[1] for _ in range(4)]
    kept += [fg.vjp(lambda x: x, x)[0], *fg.vjp(lambda x: x, x)[1](x), *fg.jvp(lambda x: x, (x,), (x,))]
    for _ in range(20):
        private_copy(x * 0)
    for g in kept[:4]:
        close(g, 2 * x)
    for y in kept[4:]:
        close(y, x)
        assert y.flags.writeable


# ---- products of a linear recording ---------------------------------------------------------------


def test_forward_mode_does_not_compute_products_it_does_not_need(monkeypatch):
    primitive, shapes = PRIMITIVES["contract"], []
    run = primitive.run

    def counted(x, y, **params):
        shapes.append((x.shape, y.shape))
        return run(x, y, **params)

    monkeypatch.setattr(primitive, "run", counted)
    a, b, t = RNG.normal(size=(80, 70)), RNG.normal(size=(70, 60)), RNG.normal(size=(70, 60))
    out, tangent = fg.jvp(lambda b: fnp.sin(a @ b), (b,), (t,))
    close(out, np.sin(a @ b))
    close(tangent, np.cos(a @ b) * (a @ t))
    assert len(shapes) == 2, "the product and its tangent; not the cotangent"


def test_linearize_and_jacfwd_of_large_products():
    a, x = RNG.normal(size=(90, 90)), RNG.normal(size=90)
    close(fg.jacfwd(lambda x: a @ fnp.tanh(a @ x))(x), a @ np.diag(1 - np.tanh(a @ x) ** 2) @ a, rtol=1e-8)
    m = RNG.normal(size=(70, 70))
    close(fg.linearize(lambda m: m @ m, m)[1](m), 2 * m @ m, rtol=1e-8)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(64, 10), (1, 3), (0, 3), (3, 0), (700, 100)])
def test_cotangents_summed_over_rows(shape, dtype):
    ct = RNG.normal(size=shape).astype(dtype)
    for given in (ct, np.asfortranarray(ct), ct[::-1]):
        summed = unbroadcast(given, (shape[1:], np.dtype(dtype)))
        assert summed.dtype == dtype
        close(summed, np.add.reduce(given, axis=0), atol=1e-5 if dtype == "float32" else 1e-13)
    if ct.size:
        ct[0, 0], ct[-1, -1] = np.inf, np.nan
        np.testing.assert_array_equal(np.isnan(unbroadcast(ct, (shape[1:], ct.dtype))), np.isnan(ct.sum(0)))
