"""Every way out of a Tensor that is being differentiated: refused, reported or allowed, and never silent."""

from __future__ import annotations

import array
import cmath
import copy
import ctypes
import decimal
import fractions
import io
import json
import math
import operator
import pickle
import statistics
import struct
import warnings

import numpy as np
import pytest

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.core.tensor import is_tracked
from fgrad.errors import NoValueError

V = np.array([1.0, 2.0, 3.0])


def written(write):
    """Return a function that writes a Tensor into an array of zeros."""

    def call(t):
        z = np.zeros(3)
        write(z, t)
        return z

    return call


def add_in_place(z, t):
    z += t


# what a user may do with a number without axes, of which nothing may come back without gradient
NUMBER = {
    "float": float, "int": int, "complex": complex, "index": operator.index, "range": range, "hex": hex,
    "list[t]": lambda t: [1, 2, 3][t], "array[t]": lambda t: V[t], "slice": lambda t: [1, 2, 3][:t],
    "%f": "%f".__mod__, "math.sin": math.sin, "math.floor": math.floor, "math.ceil": math.ceil,
    "math.trunc": math.trunc, "math.fsum": lambda t: math.fsum([t, t]), "math.isnan": math.isnan,
    "cmath.exp": cmath.exp, "statistics.mean": lambda t: statistics.mean([t, t]), "Decimal": decimal.Decimal,
    "Fraction": fractions.Fraction, "json": json.dumps, "struct": lambda t: struct.pack("d", t),
    "array.array": lambda t: array.array("d", [t]), "ctypes": ctypes.c_double,
    "np.float64": np.float64, "np.float32": np.float32, "np.int64": np.int64, "np.bool_": np.bool_,
    "array of one": lambda t: np.array([t]), "array of two": lambda t: np.array([t, t]),
    "nested": lambda t: np.array([[t, 1.0]]), "objects": lambda t: np.array([t, None], object),
    "fromiter": lambda t: np.fromiter([t, t], float), "full": lambda t: np.full(3, t), "arange": np.arange,
    "z[0] = t": written(lambda z, t: operator.setitem(z, 0, t)), "z[:] = t": written(lambda z,
        t: operator.setitem(z, slice(None), t)),
    "z.flat": written(lambda z, t: operator.setitem(z.flat, 0, t)), "fill": written(lambda z, t: z.fill(t)),
    "put": written(lambda z, t: z.put([0], t)), "rng.normal": lambda t: np.random.default_rng(0).normal(t),
    "np.random": np.random.normal, "kaiser": lambda t: np.kaiser(3, t), "poly1d": lambda t: np.poly1d([t,
        1.0]),
    "format_float": np.format_float_positional, "mgrid": lambda t: np.mgrid[0:t:1.0],
        "repeat": lambda t: V.repeat(t),
    "datetime": lambda t: np.datetime64(t, "s"), "broadcast": lambda t: np.broadcast(t, 1),
}  # fmt: skip

# the same for arrays
ARRAY = {
    "asarray": np.asarray, "array": np.array, "asarray of dtype": lambda t: np.asarray(t, "f4"),
    "asanyarray": np.asanyarray, "ascontiguousarray": np.ascontiguousarray,
        "asfortranarray": np.asfortranarray,
    "asarray_chkfinite": np.asarray_chkfinite, "require": lambda t: np.require(t, float, "C"),
    "matrix": np.matrix, "recarray": lambda t: np.rec.array(t), "masked": np.ma.array,
        "ma.add": lambda t: np.ma.add(t, 1),
    "dlpack": np.from_dlpack, "frombuffer": np.frombuffer, "memoryview": memoryview, "bytes": bytes,
    "bytearray": bytearray, "array.array": lambda t: array.array("d", t),
    "z[...] = t": written(lambda z, t: operator.setitem(z, ..., t)), "z += t": written(add_in_place),
    "out": written(lambda z, t: np.sin(t, out=z)), "out of a reduction": lambda t: np.sum(t,
        out=np.zeros(())),
    "copyto": written(np.copyto), "place": written(lambda z, t: np.place(z, z == 0, t)),
    "putmask": written(lambda z, t: np.putmask(z, z == 0, t)), "np.put": written(lambda z, t: np.put(z, [0,
        1, 2], t)),
    "put_along_axis": written(lambda z, t: np.put_along_axis(z, np.array([0, 1, 2]), t, 0)),
    "add.at": written(lambda z, t: np.add.at(z, [0, 1, 2], t)), "nditer": lambda t: list(np.nditer(t)),
    "ndenumerate": lambda t: list(np.ndenumerate(t)), "r_": lambda t: np.r_[t, 1.0],
        "c_": lambda t: np.c_[t, t],
    "frompyfunc": lambda t: np.frompyfunc(lambda x: x, 1, 1)(t),
        "vectorize": lambda t: np.vectorize(lambda x: 2 * x)(t),
    "pickle": pickle.dumps,
        "save": lambda t: np.save(io.BytesIO(), t), "savez": lambda t: np.savez(io.BytesIO(), t),
    "savetxt": lambda t: np.savetxt(io.StringIO(), t), "array.dot": lambda t: V.dot(t),
        "array.clip": lambda t: V.clip(0, t),
    "array.choose": lambda t: np.array([0, 1, 0]).choose([t, V]),
        "array.searchsorted": lambda t: V.searchsorted(t),
    "Polynomial": lambda t: np.polynomial.Polynomial(t)(2.0), "as_strided": np.lib.stride_tricks.as_strided,
    "objects times t": lambda t: V.astype(object) * t, "astype(object)": lambda t: t.astype(object),
    "astype(str)": lambda t: t.astype(str), "array of arrays": lambda t: np.array([t, V]),
    "full_like": lambda t: np.full_like(V, t[0]), "pad": lambda t: np.pad(V, 1, constant_values=t[0]),
    "packbits": np.packbits, "buffer": lambda t: io.BytesIO().write(t),
        "len of bytes": lambda t: struct.unpack("d", t),
    "view": lambda t: t.view(np.int64), "data": lambda t: t.data, "ctypes": lambda t: t.ctypes,
        "strides": lambda t: t.strides,
}  # fmt: skip

SOLVED = {  # plain NumPy or Python that keeps the gradient
    "list + t": lambda t: operator.add([1.0, 1.0, 1.0], t), "array + t": lambda t: V + t,
        "t in a ufunc": np.sin,
        "sum": lambda t: sum([t, t]),
    "abs": abs, "pow": lambda t: pow(t, 2), "copy.copy": copy.copy, "copy.deepcopy": copy.deepcopy,
        "stack": lambda t: np.stack([t, t]),
    "max": lambda t: max(t.sum(), t[0]), "fromfunction": lambda t: np.fromfunction(lambda i: i * t, (3,)),
    "apply_along_axis": lambda t: np.apply_along_axis(lambda v: v * v, 0, t),
        "piecewise": lambda t: np.piecewise(t, [t > 1], [lambda v: v * v]),
    "block": lambda t: np.block([[t], [t]]), "linspace": lambda t: np.linspace(0, t, 3),
    "insert": lambda t: np.insert(V, 1, t), "where": lambda t: np.where(V > 1, t, 0),
    "divmod": lambda t: divmod(t, 2.0)[1],
}  # fmt: skip

EXPLICIT = {  # what says that it gives a value
    "item": lambda t: t[0].item(), "tolist": lambda t: t.tolist(), "numpy": lambda t: t.numpy(),
        "tobytes": lambda t: t.tobytes(),
    "detach": lambda t: np.asarray(t.detach()), "str": str, "repr": repr,
        "format": lambda t: f"{t[0]:.2f}", "bool": lambda t: bool(t[0]),
    "dumps": lambda t: t.dumps(),
    "comparison": lambda t: t > 1, "argmax": lambda t: t.argmax(), "in": lambda t: t in V, "hash": hash,
        "len": len,
    "array_str": np.array_str, "isscalar": np.isscalar, "shape": np.shape,
        "shares_memory": lambda t: np.shares_memory(t, t),
}  # fmt: skip


def differentiating(f, x):
    """Return what `f` returns for a tracked Tensor of `x`."""
    results = []
    fg.grad(lambda t: results.append(f(t)) or t.sum())(x)
    return results[0]


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.filterwarnings("ignore:.*will be removed", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name, f, x", [(n, f, 2.0) for n, f in NUMBER.items()] + [(n, f, V) for n,
    f in ARRAY.items()],
                         ids=lambda p: p if isinstance(p, str) else "")  # fmt: skip
def test_an_escape_raises(name, f, x):
    with pytest.raises((TypeError, ValueError, AttributeError, struct.error)):
        differentiating(f, x)


@pytest.mark.parametrize(
    "name", ["float", "math.sin", "array of two", "full", "rng.normal", "%f", "np.float64"]
)
def test_the_error_says_where_and_what_instead(name):
    with pytest.raises(
        TypeError, match=r"(?s)gradient.*test_escapes\.py:\d+.*detach\(\).*item\(\).*numpy\(\)"
    ):
        differentiating(NUMBER[name], 2.0)


@pytest.mark.parametrize("name", ["z[0] = t", "fill"])
def test_where_numpy_replaces_the_error_it_says_the_same(name):
    with pytest.raises(ValueError, match=r"(?s)gradient.*plain_numpy.*detach\(\)") as caught:
        differentiating(NUMBER[name], 2.0)
    assert str(caught.value) == str(caught.value.__cause__)


@pytest.mark.parametrize("name", SOLVED)
def test_what_keeps_the_gradient(name):
    tracked = []
    fg.grad(lambda t: tracked.append(is_tracked(SOLVED[name](t))) or t.sum())(V)
    assert tracked == [True]


@pytest.mark.parametrize("name", EXPLICIT)
def test_what_says_that_it_gives_a_value(name):
    made = differentiating(EXPLICIT[name], V)
    assert not isinstance(made, fg.Tensor) or not made._nodes


@pytest.mark.parametrize("name", ["float", "math.sin", "full", "array of two", "rng.normal", "np.float32"])
def test_a_constant_may_leave(name):
    assert isinstance(NUMBER[name](fg.tensor(2.0)), float | np.generic | np.ndarray)
    outside = fg.grad(
        lambda t: t * NUMBER[name](fg.tensor(2.0)).sum() if name in ("full", "array of two") else t
    )(1.0)
    assert outside in (1.0, 4.0, 6.0)


def test_mapped_and_staged_values_never_leave():
    for policy in ("error", "warn", "ignore"):
        with fg.config.on_escape(policy):
            for f in (float, np.asarray, lambda t: np.packbits(t > 0)):
                with pytest.raises(TypeError):
                    fg.vmap(f)(V)
                with pytest.raises(TypeError):
                    fg.make_graph(f)(2.0)


def test_dlpack_and_constants():
    np.testing.assert_array_equal(np.from_dlpack(fg.tensor(V)), V)
    x = np.from_dlpack(fg.tensor(V))
    t = fg.tensor(V)
    np.from_dlpack(t)
    np.testing.assert_array_equal(t.numpy(), x)
    assert t.__dlpack_device__() == V.__dlpack_device__()


# ---- saying that it is meant ------------------------------------------------------------------------


def test_escapes_may_be_ignored():
    with fg.config.on_escape("ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fg.grad(lambda x: x * float(x))(3.0) == 3.0
        assert fg.grad(lambda x: x * math.exp(x))(0.0) == 1.0
        assert fg.grad(lambda x: x * np.full(2, x).sum())(3.0) == 6.0
        np.testing.assert_array_equal(fg.grad(lambda x: (x * np.asarray(x)).sum())(V), V)
        np.testing.assert_array_equal(fg.grad(lambda x: (x * np.packbits(x > 9)[0]).sum())(V), [0, 0, 0])
        np.testing.assert_array_equal(
            fg.grad(lambda x: (x * np.frompyfunc(abs, 1, 1)(x).astype(float)).sum())(V), V
        )

        def fill(x):
            z = np.zeros(3)
            z[:2] = x[:2]
            np.add(z, x, out=z)
            z += x
            np.put(z, [2], x[2])
            return (x * z).sum()

        np.testing.assert_array_equal(fg.grad(fill)(V), [3.0, 6.0, 3.0])
    with pytest.raises(TypeError, match="detach"):
        fg.grad(lambda x: x * float(x))(3.0)


def test_escapes_may_warn():
    with fg.config.on_escape("warn"):
        for f, x in [(lambda x: x * float(x), 3.0), (lambda x: (x * np.asarray(x)).sum(), V),
                     (lambda x: (x * np.frompyfunc(abs, 1, 1)(x).astype(float)).sum(), V),
                     (lambda x: x.sum() + np.add(np.zeros(3), x, out=np.zeros(3)).sum(), V)]:  # fmt: skip
            with pytest.warns(fg.EscapeWarning, match=r"test_escapes\.py:\d+") as caught:
                fg.grad(f)(x)
            assert len(caught) == 1
            assert caught[0].filename == __file__
            assert caught[0].lineno in range(f.__code__.co_firstlineno, f.__code__.co_firstlineno + 2)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert float(fg.tensor(2.0)) == 2.0
            assert fg.grad(lambda x: x * x.item())(2.0) == 2.0
            assert np.packbits(fg.tensor([True]) > 0)[0] == 128


def test_what_warns_may_be_made_an_error():
    with fg.config.on_escape("warn"), warnings.catch_warnings():
        warnings.simplefilter("error", fg.EscapeWarning)
        with pytest.raises(fg.EscapeWarning):
            fg.grad(lambda x: x * float(x))(3.0)


def test_policies_nest_and_belong_to_a_block(monkeypatch):
    f = fg.grad(lambda x: x * float(x))
    with fg.config.on_escape("ignore"):
        with fg.config.on_escape("error"), pytest.raises(TypeError):
            f(3.0)
        assert f(3.0) == 3.0
        with pytest.raises(RuntimeError), fg.config.on_escape("error"):
            raise RuntimeError
        assert f(3.0) == 3.0
    monkeypatch.setenv("FGRAD_ON_ESCAPE", "ignore")
    assert f(3.0) == 3.0
    with fg.config.on_escape("error"), pytest.raises(TypeError):
        f(3.0)
    monkeypatch.setenv("FGRAD_ON_ESCAPE", "nonsense")
    with pytest.raises(ValueError, match=r"FGRAD_ON_ESCAPE.*'error', 'warn', 'ignore'.*nonsense"):
        f(3.0)
    with pytest.raises(ValueError, match="'sometimes'"), fg.config.on_escape("sometimes"):
        pass


def test_ignored_escapes_under_a_manager():
    x = fg.tensor(3.0)
    gm = fg.GradManager().attach(x)
    with fg.config.on_escape("ignore"), gm:
        gm.backward(x * float(x) + x * x)
    assert float(x.grad) == 9.0


def test_numpys_vectorize_refuses_and_ours_does_not():
    f = lambda x: 2 * x
    with pytest.raises(TypeError, match="gradient"):
        fg.grad(lambda x: np.vectorize(f)(x).sum())(V)
    np.testing.assert_array_equal(fg.grad(lambda x: fnp.vectorize(f)(x).sum())(V), [2, 2, 2])


# ---- what plotting libraries ask for -----------------------------------------------------------------


def test_arrays_of_objects_and_text_are_broadcast_beside_tensors():
    heights, colour, none = fg.tensor(V), np.array(["red"]), np.array([None])
    found = np.broadcast_arrays(heights, 0.8, colour, none, "solid")
    assert [type(x) for x in found] == [fg.Tensor, fg.Tensor, np.ndarray, np.ndarray, np.ndarray]
    for x, e in zip(found, np.broadcast_arrays(V, 0.8, colour, none, "solid"), strict=True):
        np.testing.assert_array_equal(np.asarray(x), e)
    once, twice = np.atleast_1d(heights[0], None), np.atleast_2d("a", heights)
    assert [x.shape for x in (*once, *twice)] == [(1,), (1,), (1, 1), (1, 3)]
    slope = fg.grad(lambda t: np.sum(np.broadcast_arrays(t, np.array([None, "x", 3])[:, None])[0] ** 2))
    np.testing.assert_allclose(slope(V), 6 * V)


def test_strides_are_those_of_the_array_of_a_constant():
    t = fg.tensor(np.arange(6.0).reshape(2, 3))
    for x in (t, t.T, t[:, ::2], fg.tensor(np.float32(1.0))):
        assert x.strides == np.asarray(x).strides
    windows = np.lib.stride_tricks.as_strided(t, (2, 2, 2), (*t.strides, t.strides[-1]), writeable=False)
    np.testing.assert_array_equal(windows, np.lib.stride_tricks.sliding_window_view(np.asarray(t), 2, axis=1))
    for transform in (fg.grad, fg.jit, fg.vmap):
        with pytest.raises(AttributeError, match="has no strides"):
            transform(lambda x: x.sum() * len(x.strides))(V if transform is not fg.vmap else V[None])


def test_an_array_takes_constants_in_place_and_says_what_to_do_for_others():
    def added(x):
        total = np.ones(3)
        total += x
        np.multiply(total, x, out=total)
        total[0] = 2.0
        return total

    np.testing.assert_array_equal(added(fg.tensor(V)), added(V))
    for transform, error in ((fg.grad, TypeError), (fg.jit, NoValueError), (fg.vmap, NoValueError)):
        for f in (added, lambda x: np.copyto(np.ones(3), x), lambda x: np.ones(3).__isub__(x)):
            with pytest.raises(
                error, match=r"NumPy array cannot hold.*make the target a Tensor.*out = out \+ x"
            ):
                transform(f)(V if transform is not fg.vmap else V[None])
