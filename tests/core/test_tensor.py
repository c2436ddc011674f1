"""Tensor: NumPy's array as far as the eye can see, a mutable handle on an immutable value underneath."""

from __future__ import annotations

import copy
import gc
import operator
import pickle
import weakref
from functools import partial

import numpy as np
import pytest
from tests.helpers import close, exactly

import fgrad as fg
import fgrad.numpy as fnp

DTYPES = ["float64", "float32", "complex128", "complex64", "int64", "int32", "uint8", "bool"]


def tracked(x):
    """Return a Tensor and a live manager that follows it."""
    t, gm = fg.tensor(x), fg.GradManager()
    gm.attach(t).record()
    return t, gm


# ---- making one -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,), (2, 0, 3)])
def test_attributes_are_those_of_the_array(shape, dtype):
    a = np.ones(shape, dtype)
    t = fg.tensor(a)
    for name in ("shape", "dtype", "ndim", "size", "itemsize", "nbytes"):
        assert getattr(t, name) == getattr(a, name), name
    exactly(t, a)
    exactly(t.T, a.T)
    exactly(t.real, a.real)
    exactly(t.imag, a.imag)
    assert t.grad is None


@pytest.mark.parametrize(
    "data", [1, 2.5, 1j, True, [1, 2], [[1.0], [2.0]], (1, 2.0), np.float32(3), range(3), []], ids=repr
)
def test_data_and_dtype_are_numpys(data):
    exactly(fg.tensor(data), np.array(data))
    exactly(fg.tensor(data, dtype="complex64"), np.array(data, "complex64"))
    exactly(fg.tensor(data, np.complex128), np.array(data, np.complex128))


def test_data_is_copied():
    a = np.arange(3.0)
    t = fg.tensor(a)
    a[:] = 9.0
    exactly(t, np.arange(3.0))
    other = fg.tensor(t)
    other += 1
    exactly(t, np.arange(3.0))


def test_numpy_is_a_fresh_writable_array():
    t = fg.tensor([1.0, 2.0])
    a, b = t.numpy(), t.numpy()
    assert type(a) is np.ndarray
    assert a.flags.writeable
    assert not np.shares_memory(a, b)
    a[:] = 9.0
    exactly(t, np.array([1.0, 2.0]))
    assert fg.tensor(2.0).numpy().shape == ()


def test_asarray_of_an_untracked_tensor_cannot_write_into_it():
    t = fg.tensor([1.0, 2.0])
    a = np.asarray(t)
    exactly(a, np.array([1.0, 2.0]))
    if a.flags.writeable:
        a[:] = 9.0
    exactly(t, np.array([1.0, 2.0]))
    exactly(np.array(t, dtype=np.float32), np.array([1.0, 2.0], np.float32))


def test_item_and_tolist():
    assert type(fg.tensor(2.0).item()) is float
    assert type(fg.tensor([3]).item()) is int
    assert fg.tensor([[1.0, 2.0]]).item(1) == 2.0
    assert fg.tensor([[1.0, 2.0]]).item(0, 1) == 2.0
    assert fg.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(ValueError, match=r"size|one|scalar"):
        fg.tensor([1.0, 2.0]).item()


def test_conversions_of_untracked_tensors():
    assert float(fg.tensor(2.5)) == 2.5
    assert int(fg.tensor(2.5)) == 2
    assert complex(fg.tensor(1j)) == 1j
    assert [10, 20, 30][fg.tensor(1)] == 20
    assert list(range(fg.tensor(3))) == [0, 1, 2]
    assert bool(fg.tensor(0.0)) is False
    assert bool(fg.tensor([2.0])) is True
    with pytest.raises(ValueError, match="ambiguous"):
        bool(fg.tensor([1.0, 2.0]))
    with pytest.raises(TypeError):
        operator.index(fg.tensor(1.5))


# ---- operators --------------------------------------------------------------------------------------

BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
]  # fmt: skip
BITWISE = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]
UNARY = [operator.neg, operator.pos, operator.abs, np.sin, np.exp, round]

X, Y = np.array([[1.5, -2.0, 3.0], [0.5, 4.0, -1.0]]), np.array([2.0, 3.0, -2.0])


@pytest.mark.parametrize(
    "other", [Y, 2.0, 3, np.float64(2.0), np.float32(2.0), np.arange(1, 4), [2.0, 3.0, 1.0]], ids=repr
)
@pytest.mark.parametrize("op", BINARY)
def test_binary_operators_and_their_reflections(op, other):
    positive = np.abs(X)
    expected = op(positive, np.asarray(other) if isinstance(other, list) else other)
    reflected = op(np.asarray(other) if isinstance(other, list) else other, positive)
    for result in (op(fg.tensor(positive), other), op(fg.tensor(positive), fg.tensor(other))):
        assert type(result) is fg.Tensor
        exactly(result, expected)
    for result in (op(other, fg.tensor(positive)), op(fg.tensor(other), fg.tensor(positive))):
        assert type(result) is fg.Tensor
        exactly(result, reflected)


@pytest.mark.parametrize("op", BITWISE)
def test_bitwise_operators(op):
    a, b = np.array([5, 6, 7]), np.array([1, 2, 0])
    exactly(op(fg.tensor(a), b), op(a, b))
    exactly(op(a, fg.tensor(b)), op(a, b))
    exactly(op(fg.tensor(a), 1), op(a, 1))
    exactly(op(1, fg.tensor(b)), op(1, b))
    if op not in (operator.lshift, operator.rshift):
        exactly(
            op(fg.tensor([True, False]), np.array([True, True])),
            op(np.array([True, False]), np.array([True, True])),
        )
    exactly(~fg.tensor(a), ~a)


@pytest.mark.parametrize("op", UNARY)
def test_unary_operators(op):
    exactly(op(fg.tensor(X)), op(X) if op is not round else np.round(X))


def test_divmod_and_matmul():
    for result, expected in zip(divmod(fg.tensor(X), Y), divmod(X, Y), strict=True):
        exactly(result, expected)
    for result, expected in zip(divmod(7.0, fg.tensor(Y)), divmod(7.0, Y), strict=True):
        exactly(result, expected)
    exactly(fg.tensor(X) @ Y, X @ Y)
    exactly(X @ fg.tensor(Y), X @ Y)
    exactly(fg.tensor(X) @ fg.tensor(X.T), X @ X.T)
    with pytest.raises(ValueError, match=r"match|shape|dimension|align"):
        fg.tensor(X) @ X


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "other", [1, 2.0, 1j, True, np.float32(1), np.int8(1), np.ones(3, "f4"), np.ones(3, int)], ids=repr
)
def test_dtypes_follow_nep_50(dtype, other):
    a = np.ones(3, dtype)
    exactly(fg.tensor(a) + other, a + other)
    exactly(other * fg.tensor(a), other * a)
    assert (fg.tensor(a) / other).dtype == (a / other).dtype
    assert np.sqrt(fg.tensor(a)).dtype == np.sqrt(a).dtype
    assert fg.tensor(a).sum().dtype == a.sum().dtype
    assert fg.tensor(a).mean().dtype == a.mean().dtype


def test_equality_is_elementwise_and_hash_is_identity():
    a, b = fg.tensor([1.0, 2.0]), fg.tensor([1.0, 2.0])
    exactly(a == b, np.array([True, True]))
    exactly(a != [1.0, 3.0], np.array([False, True]))
    assert hash(a) != hash(b)
    assert hash(a) == hash(a)
    assert {a: 1, b: 2}[a] == 1
    assert len({a, b, a}) == 2
    before = hash(a)
    a += 1
    assert hash(a) == before


def test_in_operator_length_and_iteration():
    t = fg.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert 3.0 in t
    assert 5.0 not in t
    assert len(t) == 2
    assert [type(row) for row in t] == [fg.Tensor, fg.Tensor]
    exactly(np.stack(list(t)), t.numpy())
    x, y = fg.tensor([1.0, 2.0])
    assert (x.item(), y.item()) == (1.0, 2.0)
    with pytest.raises(TypeError):
        len(fg.tensor(1.0))
    with pytest.raises(TypeError):
        iter(fg.tensor(1.0))


# ---- methods ----------------------------------------------------------------------------------------

CUBE = np.random.default_rng(0).uniform(-2, 2, (2, 3, 4))
Z = CUBE + 1j * CUBE[::-1]


def called(name, *args, **kwargs):
    """Return the call of a method, of an array of NumPy's function where it has no such method."""
    return lambda x: getattr(x, name, partial(getattr(np, name), x))(*args, **kwargs)


def ordered(x, axis):
    y = x.copy()
    y.sort(axis)
    return y


REDUCTIONS = (
    "all", "any", "argmax", "argmin", "cumprod", "cumsum", "max", "mean", "min", "prod", "ptp", "std", "sum",
    "var",
)  # fmt: skip
METHODS = {
    **{name: called(name) for name in REDUCTIONS},
    **{f"{name} axis": called(name, 1) for name in REDUCTIONS},
    **{f"{name} axis by name": called(name, axis=0) for name in REDUCTIONS},
    "all of truth values": lambda x: (x > 0).all(),
    "any of truth values": lambda x: (x > 1.5).any(axis=0),
    "argsort": lambda x: x.argsort(),
    "argsort axis": lambda x: x.argsort(0),
    "astype": lambda x: x.astype(np.float32),
    "astype without a copy": lambda x: x.astype("f4", copy=False),
    "clip": lambda x: x.clip(-1, 1),
    "clip max": lambda x: x.clip(max=0),
    "compress": lambda x: x.compress([True, False], 0),
    "conj": lambda x: x.conj(),
    "copy": lambda x: x.copy(),
    "diagonal": lambda x: x.diagonal(),
    "diagonal above": lambda x: x.diagonal(1),
    "dot": lambda x: x.dot(CUBE[0].T),
    "flatten": lambda x: x.flatten(),
    "imag": lambda x: x.imag,
    "max keepdims": lambda x: x.max(axis=-1, keepdims=True),
    "mean axes": lambda x: x.mean(axis=(0, 1)),
    "mT": lambda x: x.mT,
    "nonzero": lambda x: (x * (x > 0)).nonzero()[1],
    "ravel": lambda x: x.ravel(),
    "real": lambda x: x.real,
    "repeat": lambda x: x.repeat(2, 1),
    "repeat axis by name": lambda x: x.repeat(2, axis=1),
    "reshape": lambda x: x.reshape(4, 6),
    "reshape -1": lambda x: x.reshape(-1),
    "reshape list": lambda x: x.reshape([6, -1]),
    "reshape order": lambda x: x.reshape(4, 6, order="F"),
    "reshape tuple": lambda x: x.reshape((4, 6)),
    "round": lambda x: x.round(1),
    "round by Python's function": lambda x: round(x, 1) if type(x) is fg.Tensor else x.round(1),
    "searchsorted": lambda x: ordered(x.ravel(), 0).searchsorted(0.3),
    "sort": lambda x: ordered(x, 1),
    "squeeze": lambda x: x[:1].squeeze(),
    "squeeze axis": lambda x: x[:1].squeeze(0),
    "std ddof": lambda x: x.std(axis=0, ddof=1),
    "sum axes": lambda x: x.sum(axis=(0, -1)),
    "sum axes keepdims": lambda x: x.sum(axis=(0, 2), keepdims=True),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "T": lambda x: x.T,
    "take": lambda x: x.take([2, 0], 1),
    "take axis by name": lambda x: x.take([2, 0], axis=1),
    "trace": lambda x: x.trace(),
    "trace axes": lambda x: x.trace(0, 1, 2),
    "transpose": lambda x: x.transpose(),
    "transpose None": lambda x: x.transpose(None),
    "transpose axes": lambda x: x.transpose(1, 0, 2),
    "transpose tuple": lambda x: x.transpose((1, 0, 2)),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_agree_with_numpy(name):
    f = METHODS[name]
    for x in (CUBE, Z) if name in ("conj", "imag", "real") else (CUBE,):
        result = f(fg.tensor(x))
        assert type(result) is fg.Tensor
        close(result, f(x), rtol=1e-14)
        assert result.dtype == f(x).dtype


def test_fill_and_sort_change_the_handle():
    t = fg.tensor([3.0, 1.0, 2.0])
    t.sort()
    exactly(t, np.array([1.0, 2.0, 3.0]))
    t.fill(7.0)
    exactly(t, np.full(3, 7.0))


# ---- NumPy's functions --------------------------------------------------------------------------------


def test_numpy_functions_give_tensors():
    t = fg.tensor(X)
    for f in (
        np.sin, np.sum, np.transpose, np.ravel, np.zeros_like, np.ones_like, np.cumsum, np.abs, np.mean,
        lambda x: np.concatenate([x, X]), lambda x: np.stack([X, x]), lambda x: np.where(x > 0, x, 0),
        lambda x: np.einsum("ij,ij->i", x, X), lambda x: np.dot(X.T, x), lambda x: np.reshape(x, (3, 2)),
        lambda x: np.maximum(X, x), lambda x: np.broadcast_to(x, (2, 2, 3)), lambda x: np.multiply(2.0, x),
        lambda x: np.linalg.norm(x), lambda x: np.tensordot(x, X, axes=2), lambda x: np.add.reduce(x, axis=1),
    ):  # fmt: skip
        result = f(t)
        assert type(result) is fg.Tensor
        close(result, f(X), rtol=1e-14)
    assert np.shape(t) == (2, 3)
    assert np.ndim(t) == 2
    assert np.size(t) == 6


def test_fgrad_numpy_functions_keep_the_kind_of_their_arguments():
    assert type(fnp.sin(X)) is np.ndarray
    assert type(fnp.sum(X)) is np.float64
    assert type(fnp.sin(fg.tensor(X))) is fg.Tensor
    assert type(fnp.zeros(3)) is fg.Tensor
    exactly(fnp.sin(X), np.sin(X))


def test_a_function_without_a_rule_raises_and_names_itself():
    t, gm = tracked([1.0, 2.0])
    for f, args in ((np.busday_count, (t, t)), (np.packbits, (t,)), (np.is_busday, (t,))):
        with pytest.raises(TypeError, match=f.__name__):
            f(*args)
    doubled = np.frompyfunc(lambda x: 2 * x, 1, 1)
    with pytest.raises(TypeError, match=r"the ufunc .*lambda.*"):
        doubled(t)
    with pytest.raises(TypeError, match=r"lambda.*\.outer"):
        np.frompyfunc(lambda x, y: x, 2, 1).outer(t, t)
    gm.release()


def test_writing_into_an_array_never_loses_the_gradient():
    t, gm = tracked([1.0, 2.0])
    a = np.zeros(2)
    for write in (
        lambda: operator.setitem(a, slice(None), t),
        lambda: operator.setitem(a, 0, t[0]),
        lambda: operator.iadd(a, t),
        lambda: np.add(t, 1.0, out=a),
        lambda: np.array([t[0], t[1]]),
        lambda: np.array(t),
        lambda: np.copyto(a, t),
    ):
        try:
            result = write()
        except (TypeError, ValueError):  # NumPy makes a ValueError of what __float__ raises
            continue
        assert type(result) is fg.Tensor  # `a += t` may rebind `a` to a Tensor
    exactly(a, np.zeros(2))
    gm.release()


@pytest.mark.parametrize("convert", [float, int, complex, operator.index, np.asarray, np.array, np.float64])
def test_silent_conversions_of_tracked_tensors_raise(convert):
    t, gm = tracked(2.0)
    for x in (t, t * 2):
        with pytest.raises(TypeError, match=r"(?s)detach.*item|item.*detach"):
            convert(x)
    assert t.item() == 2.0
    assert t.numpy() == 2.0
    assert bool(t) is True
    assert float((t * 2).detach()) == 4.0
    gm.release()
    if convert is not operator.index:
        assert convert(t) == 2.0


# ---- in-place operators -------------------------------------------------------------------------------

IN_PLACE = [
    operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.imod,
    operator.ipow,
]  # fmt: skip


@pytest.mark.parametrize("other", [Y, 2.0, 3, np.float32(2.0), [2.0, 3.0, 1.0]], ids=repr)
@pytest.mark.parametrize("op", IN_PLACE)
def test_in_place_operators_keep_the_handle(op, other):
    a = np.abs(X)
    t = same = fg.tensor(a)
    alias = t[0]
    t = op(t, other)
    assert t is same
    a = op(a.copy(), other)
    exactly(t, a)
    exactly(alias, a[0])


def test_in_place_operators_never_change_dtype_or_shape():
    t = fg.tensor([1.0, 2.0], "float32")
    t += np.float64(1.0)
    t *= np.ones(2)
    assert t.dtype == np.float32
    n = fg.tensor([1, 2])
    for bad in (0.5, np.ones(2)):
        with pytest.raises(TypeError, match=r"int64.*float64|float64.*int64"):
            n += bad
    with pytest.raises(TypeError):
        n /= 2
    with pytest.raises(ValueError, match=r"shape|broadcast"):
        n += np.ones((2, 2), int)
    exactly(n, np.array([1, 2]))


def test_in_place_on_an_array_with_a_tensor():
    a = np.ones(2)
    b = a
    a += fg.tensor([1.0, 2.0])
    close(a, [2.0, 3.0])
    assert type(a) is fg.Tensor or a is b


def test_in_place_matmul_and_bitwise():
    t = fg.tensor(np.eye(2))
    t @= np.array([[1.0, 2.0], [3.0, 4.0]])
    exactly(t, np.array([[1.0, 2.0], [3.0, 4.0]]))
    n = fg.tensor([5, 6])
    n &= 4
    n |= 1
    n ^= 2
    n <<= 1
    n >>= 1
    exactly(n, np.array([7, 7]))


# ---- objects --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "spec"),
    [
        (3.14159, ".3f"),
        (3.14159, "10.2e"),
        (1234567.0, ",.0f"),
        (42, "d"),
        (42, "05d"),
        (0.25, ".0%"),
        (1 + 2j, ".1f"),
    ],
)
def test_formatting(value, spec):
    assert format(fg.tensor(value), spec) == format(value, spec)
    t, gm = tracked(2.5)
    assert f"{t:.3f} {t * 2:.1f}" == "2.500 5.0"
    gm.release()


def test_formatting_an_array_needs_no_spec():
    assert f"{fg.tensor([1.0, 2.0])}" == "[1. 2.]"
    with pytest.raises(TypeError, match="format"):
        format(fg.tensor([1.0, 2.0]), ".3f")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (1.5, "Tensor(1.5)"),
        ([1.0, 2.0], "Tensor([1., 2.])"),
        ([1, 2], "Tensor([1, 2])"),
        ([True, False], "Tensor([ True, False])"),
        ([1j, 2.0], "Tensor([0.+1.j, 2.+0.j])"),
        (np.array([1.0, 2.5], "f4"), "Tensor([1. , 2.5], dtype=float32)"),
        (np.array([[1.0, 2.0], [3.0, 4.0]]), "Tensor([[1., 2.],\n        [3., 4.]])"),
    ],
)
def test_repr_in_numpys_style(data, text):
    assert repr(fg.tensor(data)) == text
    assert str(fg.tensor(data)) == str(np.asarray(data))


def test_repr_of_large_and_tracked_tensors():
    assert "..." in repr(fg.tensor(np.zeros(10_000)))
    assert len(repr(fg.tensor(np.zeros((1000, 1000))))) < 1000
    assert repr(fg.tensor(np.zeros((0, 3)))).startswith("Tensor([], shape=(0, 3)")
    t, gm = tracked([1.0, 2.0])
    assert repr(t * 2).startswith("Tensor([2., 4.]")
    gm.release()


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
@pytest.mark.parametrize("dtype", DTYPES)
def test_deepcopy_and_pickle(duplicate, dtype):
    t = fg.tensor(np.ones((2, 3), dtype))
    u = duplicate(t)
    assert type(u) is fg.Tensor
    assert u is not t
    exactly(u, t.numpy())
    u[0] = 0
    exactly(t, np.ones((2, 3), dtype))
    both = duplicate([t, t])
    assert both[0] is both[1]


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t)), lambda t: t.detach()]
)
def test_duplicates_of_recorded_tensors_are_constants(duplicate):
    t, gm = tracked([1.0, 2.0])
    y = t * 3
    gm.backward(np.sum(duplicate(y) * t))
    exactly(t.grad, np.array([3.0, 6.0]))


def test_a_copy_keeps_the_gradient_flowing():
    t, gm = tracked([1.0, 2.0])
    gm.backward(np.sum(t.copy() * 3 + fg.tensor(t) + np.copy(t)))
    exactly(t.grad, np.full(2, 5.0))


@pytest.mark.parametrize("transformed", [fg.grad, lambda f: fg.jit(fg.grad(f)), lambda f: fg.grad(fg.jit(f))])
def test_what_a_function_copies_deeply_is_differentiated(transformed):
    def f(x):
        state = {"speed": x**2, "places": [x, x]}
        moved = copy.deepcopy(state)
        moved["places"][0][0] = 7.0
        assert moved["places"][0] is moved["places"][1]
        return np.sum(state["places"][0] * moved["speed"]) + moved["places"][1][0]

    close(transformed(f)(np.array([1.0, 2.0])), [3.0, 12.0])
    close(fg.vmap(transformed(f))(np.array([[1.0, 2.0]])), [[3.0, 12.0]])


@pytest.mark.parametrize("functional", [fg.grad, lambda f: lambda x: fg.jvp(f, (x,), (x,))])
def test_what_a_function_pickles_loses_no_gradient(functional):
    with pytest.raises(TypeError, match="pickling of a Tensor that is being differentiated"):
        functional(lambda x: np.sum(x * pickle.loads(pickle.dumps([x]))[0]))(np.ones(2))
    g = fg.grad(lambda x: np.sum(x * pickle.loads(pickle.dumps(x.detach()))))(np.array([1.0, 2.0]))
    exactly(g, np.array([1.0, 2.0]))


def test_detached_values_live_apart():
    t = fg.tensor([1.0, 2.0])
    d = t.detach()
    d += 1
    exactly(t, np.array([1.0, 2.0]))


def test_weak_references():
    t = fg.tensor([1.0, 2.0])
    r = weakref.ref(t)
    assert r() is t
    cache = weakref.WeakValueDictionary(kept=t)
    gc.disable()
    try:
        del t
        assert r() is None
        assert len(cache) == 0
    finally:
        gc.enable()


def test_grad_attribute():
    t = fg.tensor([1.0, 2.0])
    t.grad = fg.tensor([3.0, 4.0])
    exactly(t.grad, np.array([3.0, 4.0]))
    t.grad = None
    assert t.grad is None
    with pytest.raises((TypeError, ValueError)):
        t.grad = fg.tensor([3.0])


@pytest.mark.parametrize(
    "use",
    [
        lambda x, m: x * m,
        lambda x, m: np.add(m, x),
        lambda x, m: fg.tensor(m),
        lambda x, m: fg.grad(np.sum)(m),
    ],
)
def test_masked_arrays_are_refused(use):
    m = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
    with pytest.raises(TypeError, match="mask"):
        use(fg.tensor(np.ones(3)), m)


class Noted(np.ndarray):
    """An array that knows more, and computes as others do."""

    note = "of a user"


class Scaled(np.ndarray):
    """An array that computes in its own way."""

    def __mul__(self, other):
        return "scaled"


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize(
    "kind", [np.matrix, np.ma.array, lambda x: x.view(Scaled)], ids=["matrix", "masked", "own"]
)
def test_arrays_that_compute_in_their_own_way_are_refused(kind):
    a, x = kind(np.ones((2, 2))), np.ones((2, 2))
    uses = [
        lambda: fg.tensor(a),
        lambda: fg.grad(lambda x: np.sum(x * x))(a),
        lambda: fg.jit(lambda x: x * x)(a),
        lambda: fg.vmap(lambda x: x)(a),
        lambda: fg.grad(lambda x: np.sum(x * a))(x),
        lambda: fg.jit(lambda x: x * a)(x),
        lambda: fg.grad(lambda x: np.sum(np.matmul(x, a)))(x),
        lambda: fg.grad(lambda x: np.sum(np.where(x > 0, x, a)))(x),
    ]
    for use in uses:
        with pytest.raises(TypeError, match=r"arithmetic of its own|its mask"):
            use()


def test_other_subclasses_are_read_as_the_arrays_that_they_are(tmp_path):
    mapped = np.memmap(tmp_path / "numbers", dtype=float, shape=(2, 2), mode="w+")
    mapped[:] = 3.0
    for a in (mapped, np.full((2, 2), 3.0).view(Noted), np.rec.array(np.full((2, 2), 3.0))):
        np.testing.assert_array_equal(fg.grad(lambda x: np.sum(x * x))(a), np.full((2, 2), 6.0))
        np.testing.assert_array_equal(fg.jit(lambda x, a=a: x * a)(np.ones((2, 2))), np.full((2, 2), 3.0))
        np.testing.assert_array_equal(fg.tensor(a).numpy(), np.full((2, 2), 3.0))
