"""Creation from Tensors, grids and index arrays, joining by slices, windows, and questions about arrays."""

from __future__ import annotations

import io
import itertools

import numpy as np
import pytest
from tests.helpers import grouped
from tests.numpy.cases import values

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.testing import check_grads

M, V, S = values((2, 3)), values((3,)), values(())
NAMES = {
    *("asanyarray", "asarray_chkfinite", "ascontiguousarray", "asfortranarray", "from_dlpack", "frombuffer"),
    *("fromfunction", "fromiter", "geomspace", "logspace", "require"),
    *("broadcast_shapes", "diag_indices", "diag_indices_from", "indices", "ix_", "mask_indices"),
    *("ravel_multi_index", "tril_indices", "tril_indices_from", "triu_indices", "triu_indices_from"),
    *("unravel_index", "bartlett", "blackman", "hamming", "hanning", "kaiser"),
    *("array_equiv", "array_repr", "array_str", "can_cast", "common_type", "format_float_positional"),
    *("format_float_scientific", "isdtype", "isscalar", "issubdtype", "iterable", "may_share_memory"),
    *("min_scalar_type", "promote_types", "save", "savetxt", "savez", "savez_compressed", "shares_memory"),
    "typename",
}


def alike(actual, expected, tolerance=1e-14):
    if isinstance(expected, tuple):
        assert type(actual) is tuple
        for a, e in zip(actual, expected, strict=True):
            alike(a, e, tolerance)
        return
    expected = np.asarray(expected)
    assert isinstance(actual, fg.Tensor)
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    tolerance = max(tolerance, 1e-6 if expected.dtype.itemsize < 8 or expected.dtype == "c8" else 0)
    np.testing.assert_allclose(actual.numpy(), expected, rtol=tolerance, atol=tolerance)


# ---- evenly spaced numbers ------------------------------------------------------------------------

LINES = {
    "numbers": (0.5, 3.0), "integers": (2, 9), "backwards": (3.0, -1.0), "equal": (2.0, 2.0),
    "vectors": (V, V * 2 + 1), "vector and number": (V, 4.0), "broadcast": (M, V), "complex": (1j, 2 - 1j),
    "float32": (np.float32(1), np.float32(3)), "float32 vectors": (V.astype("f"), V.astype("f") * 2),
    "arrays of integers": (np.array([1, 2]), np.array([10, 20])), "tiny": (0.0, 5e-324),
}  # fmt: skip
SETTINGS = [
    {}, {"num": 1}, {"num": 0}, {"num": 2}, {"num": 7, "endpoint": False}, {"num": 5, "axis": -1},
    {"num": 5, "dtype": np.float32}, {"num": 1, "endpoint": False}, {"num": 11, "dtype": int},
]  # fmt: skip


@grouped("name, options", itertools.product(LINES, SETTINGS))
def test_lines(name, options):
    a, b = LINES[name]
    if np.iscomplexobj(a) and options.get("dtype") is not None:
        return
    for retstep in (False, True):
        expected = np.linspace(a, b, **options, retstep=retstep)
        for args in ((fg.tensor(a), fg.tensor(b)), (a, fg.tensor(b)), (fg.tensor(a), b)):
            for module in (fnp, np):
                made = module.linspace(*args, **options, retstep=retstep)
                alike(made, expected)
                if not retstep:
                    np.testing.assert_array_equal(made.numpy(), expected)  # bit by bit, also floors
        alike(fnp.linspace(a, b, **options, retstep=retstep), expected)


def test_slopes_of_lines():
    check_grads(lambda a, b: fnp.linspace(a, b, 5), (V, V[::-1]), 2)
    check_grads(lambda a, b: fnp.linspace(a, b, 5, endpoint=False, retstep=True), (V, 2.0), 2)
    check_grads(lambda a, b: np.linspace(a, b, 4, axis=1), (M, V), 2)
    check_grads(lambda a: fnp.linspace(a, a, 4), (0.5,), 2)
    check_grads(lambda a, b: fnp.linspace(a, b, 3), (1 + 1j, 2 - 0.5j), 2)
    np.testing.assert_array_equal(fg.jacrev(lambda b: fnp.linspace(0.0, b, 3))(1.0), [0, 0.5, 1])
    np.testing.assert_array_equal(fg.grad(lambda b: fnp.linspace(b, b, 3).sum())(1.0), 3)
    np.testing.assert_array_equal(
        fg.vmap(lambda b: fnp.linspace(0.0, b, 3))(V), np.linspace(0.0, V, 3, axis=1)
    )
    with pytest.raises(ValueError, match="non-negative"):
        fnp.linspace(fg.tensor(1.0), 2.0, -1)


POWERS = {
    "numbers": (0.5, 2.0), "integers": (0, 3), "vectors": (V, V + 1), "float32": (np.float32(0),
        np.float32(1)),
}  # fmt: skip


@pytest.mark.parametrize("name", POWERS)
@pytest.mark.parametrize(
    "options",
    [{}, {"num": 5, "base": 2.0}, {"num": 4, "endpoint": False}, {"num": 3, "dtype": "f4", "axis": -1},
     {"num": 0}, {"num": 5, "dtype": int, "base": 3}], ids=str)  # fmt: skip
def test_powers(name, options):
    a, b = POWERS[name]
    expected = np.logspace(a, b, **options)
    alike(fnp.logspace(a, b, **options), expected)
    for args in ((fg.tensor(a), fg.tensor(b)), (a, fg.tensor(b))):
        for module in (fnp, np):
            alike(module.logspace(*args, **options), expected)


def test_bases_of_powers():
    bases = np.array([2.0, 3.0, 10.0])
    for axis in (0, 1, -1):
        expected = np.logspace(V, 2.0, 4, base=bases, axis=axis)
        alike(fnp.logspace(V, 2.0, 4, base=fg.tensor(bases), axis=axis), expected)
        alike(fnp.logspace(fg.tensor(V), 2.0, 4, base=bases, axis=axis), expected)
        check_grads(lambda a, r, axis=axis: fnp.logspace(a, 2.0, 4, base=r, axis=axis), (V, bases), 2)
    check_grads(lambda a, b, r: fnp.logspace(a, b, 4, base=r), (0.5, 1.5, 2.0), 2)


SEQUENCES = {
    "numbers": (1.0, 100.0), "integers": (1, 256), "down": (8.0, 0.5), "negative": (-1.0, -50.0),
    "complex": (1 + 1j, -3 + 2j), "imaginary": (1j, 100j), "vectors": (np.abs(V), np.abs(V) * 3),
    "negative vectors": (-np.abs(V), -2.0), "complex and negative": (-1 + 0j, -10.0),
        "float32": (np.float32(1), np.float32(4)),
    "mixed signs": (V, V * 2),
}  # fmt: skip


COUNTS = [{}, {"num": 5, "endpoint": False}, {"num": 1}, {"num": 0}, {"num": 3, "axis": -1}, {"num": 2}]


@grouped("name, options", itertools.product(SEQUENCES, COUNTS))
def test_geometric_sequences(name, options):
    a, b = SEQUENCES[name]
    expected = np.geomspace(a, b, **options)
    alike(fnp.geomspace(a, b, **options), expected)
    for args in ((fg.tensor(a), fg.tensor(b)), (a, fg.tensor(b)), (fg.tensor(a), b)):
        for module in (fnp, np):
            alike(module.geomspace(*args, **options), expected, 1e-13)
    if options.get("num", 9) > 2 and name not in ("integers", "float32"):
        check_grads(
            lambda a, b: fnp.geomspace(a, b, 4, **{k: v for k, v in options.items() if k != "num"}), (a, b), 2
        )


def test_geometric_sequences_of_integers_and_nothing():
    alike(fnp.geomspace(fg.tensor(1), 1000, 4, dtype=int), np.geomspace(1, 1000, 4, dtype=int))
    alike(fnp.geomspace(fg.tensor(1.0), 9.0, 3, dtype="f4"), np.geomspace(1.0, 9.0, 3, dtype="f4"))
    for a, b in [(0.0, 1.0), (fg.tensor(1.0), 0.0), (fg.tensor([1.0, 0.0]), 2.0)]:
        with pytest.raises(ValueError, match="zero"):
            fnp.geomspace(a, b)


def test_ranges_of_tensors():
    t = fg.tensor
    for made, expected in [
        (fnp.arange(t(3)), np.arange(3)), (fnp.arange(t(1.5), 4), np.arange(1.5, 4)),
        (fnp.arange(1, t(4.0), 0.5), np.arange(1, 4.0, 0.5)), (fnp.arange(0, 5, t(2)), np.arange(0, 5, 2)),
        (fnp.arange(start=t(1), stop=4), np.arange(1, 4)), (fnp.arange(t(1.0), 3, 1, np.float32),
            np.arange(1.0, 3, 1, np.float32)),
        (fnp.arange(t(1.0), 3, dtype=int), np.arange(1.0, 3, dtype=int)), (fnp.arange(t(3.0), t(1.0)),
            np.arange(3.0, 1.0)),
        (fnp.arange(t(np.float32(1)), np.float32(3)), np.arange(np.float32(1), np.float32(3))),
        (fnp.arange(stop=t(2.5)), np.arange(2.5)), (fnp.arange(5.0, t(1.0), -1.5), np.arange(5.0, 1.0, -1.5)),
    ]:  # fmt: skip
        alike(made, expected)
    check_grads(lambda a, d: fnp.arange(a, 3.0, d), (0.25, 0.45), 2)
    assert fg.grad(lambda b: fnp.arange(0.0, b, 1.0).sum())(2.5) == 0
    with pytest.raises(TypeError, match="vmap"):
        fg.vmap(lambda b: fnp.arange(b))(V)


# ---- arrays of Tensors ------------------------------------------------------------------------------


def test_arrays_of_nested_parts():
    t = fg.tensor(V)
    alike(fnp.array([[t, V], [[1, 2, 3], (4.0, t[0], 5)]]), np.array([[V, V], [[1, 2, 3], (4.0, V[0], 5)]]))
    alike(fnp.array((t[0], 1j)), np.array((V[0], 1j)))
    alike(fnp.array([fg.tensor([1, 2]), [True, False]]), np.array([[1, 2], [True, False]]))
    alike(fnp.array([t], ndmin=4), np.array([V], ndmin=4))
    for bad in ([t, 1.0], [t, V[:2]], [[t], [t, t]]):
        with pytest.raises(ValueError, match="one shape"):
            fnp.array(bad)
    check_grads(lambda x, y: fnp.array([[x, [y, 1.0, y * y]], [V, x * x]]), (V, 0.5), 2)
    check_grads(lambda x: fnp.asarray([x, x * 2], dtype=complex), (V,), 2)


def test_what_is_an_array_already():
    t = fg.tensor(V)
    for same in (fnp.asarray, fnp.asanyarray, fnp.ascontiguousarray, fnp.asfortranarray,
        fnp.asarray_chkfinite,
                 fnp.from_dlpack, fnp.require):  # fmt: skip
        assert same(t) is t
        alike(same(V), V)
    for copied in (fnp.array(t), fnp.asarray(t, copy=True), fnp.asanyarray(t, copy=True)):
        assert copied is not t
        alike(copied, V)
    assert fnp.array(t, copy=None) is t
    assert fnp.array(t, copy=False) is t
    for impossible in (lambda: fnp.array(V, copy=False), lambda: fnp.asarray(V, copy=False),
                       lambda: fnp.asarray(t, "f4", copy=False)):  # fmt: skip
        with pytest.raises(ValueError, match="copy"):
            impossible()
    for one_axis in (fnp.ascontiguousarray, fnp.asfortranarray):
        alike(one_axis(2.5), np.ascontiguousarray(2.5))
        alike(one_axis(fg.tensor(2.5), "f4"), np.ascontiguousarray(2.5, "f4"))
        check_grads(one_axis, (S,), 2)
    for bad in (np.nan, np.inf):
        for x in ([1.0, bad], fg.tensor([1.0, bad])):
            with pytest.raises(ValueError, match="infs or NaNs"):
                fnp.asarray_chkfinite(x)
    alike(fnp.require(M, "f4", ["C", "W"]), M.astype("f4"))
    alike(fnp.require(fg.tensor(M), "f4", "F"), M.astype("f4"))
    with pytest.raises(KeyError):
        fnp.require(t, None, ["nonsense"])
    alike(fnp.array([[1, 2], [3, 4]],
        ndmax=2) if np.lib.NumpyVersion(np.__version__) >= "2.4.0" else fg.tensor([[1, 2], [3, 4]]),
          [[1, 2], [3, 4]])  # fmt: skip


def test_only_numpys_keywords_are_taken():
    for make in (fnp.zeros, fnp.ones, fnp.empty, lambda *a, **k: fnp.full(*a, 1.0, **k), fnp.zeros_like,
                 fnp.asarray, fnp.eye, fnp.array, fnp.linspace):  # fmt: skip
        with pytest.raises(TypeError):
            make(3, nonsense=1)
    for make in (fnp.zeros, fnp.asarray, fnp.eye, lambda n, **k: fnp.linspace(0, 1, n, **k), fnp.arange):
        assert make(3, device="cpu").dtype in (float, int)
        with pytest.raises(ValueError, match="there is no device"):
            make(3, device="moon")


@pytest.mark.parametrize("name, args", [
    ("zeros", (3,)), ("ones", ((2, 3), "f4")), ("empty", (3,)), ("full", (3, 2.5)), ("eye", (3,)),
    ("identity", (2,)), ("tri", (3,)), ("arange", (3,)), ("array", ([1, 2],)), ("asarray", ([1.0],)),
    ("asanyarray", ([1.0],)), ("ascontiguousarray", (2.0,)), ("fromfunction", (np.add, (2, 2))),
    ("require", ([1.0],)),
])  # fmt: skip
def test_creation_like_a_tensor(name, args):
    expected = getattr(np, name)(*args)
    if name == "empty":
        expected = np.zeros(3)
    alike(getattr(np, name)(*args, like=fg.tensor(1.0)), expected)
    alike(getattr(fnp, name)(*args), expected)
    if name not in ("asarray", "asanyarray", "ascontiguousarray"):
        return
    alike(getattr(np, name)(fg.tensor(V), like=fg.tensor(1.0)), V)


def test_from_iterables_buffers_and_functions():
    alike(fnp.fromiter((x * x for x in V), float), np.fromiter((x * x for x in V), float))
    alike(fnp.fromiter(iter(fg.tensor(V)), "f4", 2), np.fromiter(iter(V), "f4", 2))
    check_grads(lambda x: fnp.fromiter((x * i for i in range(3)), float), (2.0,), 2)
    for source in ([1.0], [fg.tensor(1.0)]):
        with pytest.raises(ValueError, match="too short"):
            fnp.fromiter(source, float, 2)
    alike(fnp.frombuffer(V.tobytes(), count=2, offset=8), V[1:])
    alike(fnp.frombuffer(b"\x01\x02", np.uint8), np.frombuffer(b"\x01\x02", np.uint8))
    x = V.copy()
    made = fnp.from_dlpack(x)
    x[:] = 0
    alike(made, V)
    assert fnp.from_dlpack(fg.tensor(V), copy=True).dtype == float
    alike(fnp.fromfunction(lambda i, j: i + 10 * j, (2, 3)), np.fromfunction(lambda i, j: i + 10 * j, (2, 3)))
    alike(fnp.fromfunction(lambda i: i, (3,), dtype=int), np.arange(3))
    assert fnp.fromfunction(lambda i: "text", (3,)) == "text"
    check_grads(lambda t: fnp.fromfunction(lambda i, j: t * i + t * t * j, (2, 3)), (2.0,), 2)
    check_grads(lambda t: np.fromfunction(lambda i, k: t * i * k, (3, 1)), (2.0,), 2)


# ---- grids, places and joining ------------------------------------------------------------------------


def test_index_arrays_are_numpys_own():
    for name in ("diag_indices", "tril_indices", "triu_indices", "mask_indices", "ndindex",
        "s_", "index_exp",
                 "broadcast_shapes"):  # fmt: skip
        assert getattr(fnp, name) is getattr(np, name)
    q = values((3, 3))
    for name, args in [("diag_indices_from", (q,)), ("tril_indices_from", (M, 1)), ("triu_indices_from",
        (M, -1)),
                       ("ix_", (np.array([0, 1]), np.array([True, False]))), ("ix_", ([0, 2],)),
                       ("unravel_index", (np.array([5, 1]), (2, 3))), ("unravel_index", (4, (2, 3), "F")),
                       ("ravel_multi_index", ((np.array([1, 0]), np.array([2, 1])), (2, 3))),
                       ("ravel_multi_index", (np.array([[1, 3], [2, 1]]), (2, 3), "wrap")),
                       ("ravel_multi_index", ([1, 2], (2, 3)))]:  # fmt: skip
        expected = getattr(np, name)(*args)
        given = [fg.tensor(x) if isinstance(x, np.ndarray) else x for x in args]
        if isinstance(args[0], tuple):
            given[0] = tuple(map(fg.tensor, args[0]))
        for made in (getattr(fnp, name)(*args), getattr(fnp, name)(*given), getattr(np, name)(*given)):
            assert type(made) is type(expected)
            for m, e in zip(made, expected, strict=True) if type(made) is tuple else [(made, expected)]:
                np.testing.assert_array_equal(m, e)
    t = fg.tensor(q)
    t[np.tril_indices_from(t)] = 0.0
    np.testing.assert_array_equal(t.numpy(), np.triu(q, 1))
    for name in ("diag_indices_from", "tril_indices_from"):
        with pytest.raises(ValueError):
            getattr(fnp, name)(fg.tensor(V))
    with pytest.raises(ValueError, match=r"out of bounds|invalid"):
        fnp.unravel_index(fg.tensor(9), (2, 3))
    check_grads(lambda x, y: np.ix_(x, [0, 1], y)[2] * np.ix_(x, y)[0], (V, M[0, :2]), 2)
    with pytest.raises(TypeError, match="vmap"):
        fg.vmap(lambda i: fnp.ix_(i)[0])(np.array([[1, 2]]))


GRIDS = [np.s_[0:3], np.s_[0:1:5j], np.s_[0:3, 0:1:0.25], np.s_[1:2:3j, 0:2], np.s_[0:3,], np.s_[2:0:-1,
    :4:2j],
         np.s_[0:2, 0:2, 0:3]]  # fmt: skip


@pytest.mark.parametrize("key", GRIDS, ids=str)
def test_grids_by_slices(key):
    for name in ("mgrid", "ogrid"):
        expected = getattr(np, name)[key]
        alike(getattr(fnp, name)[key], expected)
        several = isinstance(key, tuple)
        keys = tuple(slice(k.start, fg.tensor(k.stop), k.step) for k in (key if several else (key,)))
        made = getattr(fnp, name)[keys if several else keys[0]]
        if np.asarray(expected[0]).dtype == float or not several:
            alike(made, expected)
        else:
            np.testing.assert_array_equal(np.asarray(made[0]), expected[0])


def test_slopes_of_grids():
    check_grads(lambda a, b: fnp.mgrid[a:b:4j, 0:3], (0.5, 2.0), 2)
    check_grads(lambda a, d: fnp.ogrid[a:2.0:d, a:3.0:2j], (0.25, 0.45), 2)
    check_grads(lambda b: fnp.mgrid[0:b:3j], (2.0,), 2)


JOINS = [
    np.s_[V, 1.0, V], np.s_[0:3, V], np.s_[V, 0:1:3j], np.s_["0,2", V, V], np.s_["-1", M, M], np.s_["1", M,
        M],
    np.s_["0,2,0", V, V], np.s_["1,2,0", V, V], np.s_["0,3", M, M], np.s_[V],
    np.s_[M, M], np.s_[2, V.astype("f")], np.s_[np.int64(2), V.astype("f")], np.s_["0,3,1", V, V],
        np.s_[[1, 2], V],
    np.s_["0,2", 0:3, V], np.s_["1,2,0", 0:3, V], np.s_[True, V], np.s_[V, 1j], np.s_["0,4,1", M, M],
]  # fmt: skip


@pytest.mark.parametrize("i", range(len(JOINS)))
def test_joining_by_slices(i):
    key = JOINS[i] if isinstance(JOINS[i], tuple) else (JOINS[i],)
    given = tuple(fg.tensor(k) if isinstance(k, np.ndarray) else k for k in key)
    for name in ("r_", "c_"):
        try:
            expected = getattr(np, name)[key]
        except ValueError:
            with pytest.raises(ValueError):
                getattr(fnp, name)[given]
            continue
        alike(getattr(fnp, name)[given], expected)
        np.testing.assert_array_equal(getattr(fnp, name)[key], expected)
        assert type(getattr(fnp, name)[key]) is np.ndarray


def test_slopes_and_errors_of_joining():
    check_grads(lambda x, y: fnp.r_[x, 1.0, 0:y:3j, y], (V, 2.0), 2)
    check_grads(lambda x, y: fnp.c_[x, y * 2, [1, 2, 3]], (V, V), 2)
    check_grads(lambda x: fnp.r_["1,2,0", x, x * x], (V,), 2)
    assert type(fnp.r_[0:3]) is np.ndarray
    for bad in ("nonsense", "1,2,3,4", "r"):
        with pytest.raises(ValueError, match="directive"):
            fnp.r_[bad, fg.tensor(V)]
    with pytest.raises(TypeError, match="gradient"):
        fg.grad(lambda x: np.r_[x, 1.0].sum())(V)


def test_windows():
    for name in ("bartlett", "blackman", "hamming", "hanning"):
        for n in (0, 1, 2, 7):
            alike(getattr(fnp, name)(n), getattr(np, name)(n))
    for n in (1, 5):
        alike(fnp.kaiser(n, 8.6), np.kaiser(n, 8.6))
        alike(fnp.kaiser(n, fg.tensor(8.6)), np.kaiser(n, 8.6))
    with pytest.raises(TypeError, match="gradient"):
        fg.grad(lambda b: fnp.kaiser(5, b).sum())(8.6)


# ---- questions, text and files --------------------------------------------------------------------------


def test_questions():
    t, u = fg.tensor(M), fg.tensor(M)
    for module in (fnp, np):
        assert module.array_equiv(t, u) is True
        assert module.array_equiv(t, M[0]) is False
        assert module.array_equiv(fg.tensor([1.0, 1.0]), 1.0) is True
        for shares in (module.shares_memory, module.may_share_memory):
            assert shares(t, t) is True
            assert shares(t, u) is False
            assert shares(t, M) is False
            assert shares(fg.tensor([]), V) is False
            assert shares(M, M[0]) is True
        assert module.common_type(t, np.float32(1)) is np.float64
        assert module.min_scalar_type(t) == np.float64
        assert module.min_scalar_type(fg.tensor(10)) == np.uint8
        assert module.can_cast(t, np.complex64) is np.can_cast(M, np.complex64)
        assert module.can_cast(fg.tensor(np.float32(1)), float) is True
        assert module.array_repr(t) == np.array_repr(M)
        assert module.array_str(t, precision=2) == np.array_str(M, precision=2)
        assert module.isscalar(t) is False
        assert module.iterable(t) is True
        assert module.iterable(fg.tensor(1.0)) is False
        assert module.format_float_positional(fg.tensor(1.25), 1) == "1.2"
        assert module.format_float_scientific(fg.tensor(1.25), precision=2) == "1.25e+00"
        assert module.size(t, 1) == 3
    text = lambda x: fnp.format_float_positional(x) + fnp.format_float_scientific(x) + fnp.array_str(x)
    assert fg.grad(lambda x: x * len(text(x)))(1.5) == len(text(1.5))
    for name in ("isdtype", "isscalar", "issubdtype", "iterable", "promote_types", "typename"):
        assert getattr(fnp, name) is getattr(np, name)


def test_files_hold_values():
    t = fg.tensor(M)
    for module in (fnp, np):
        for write in (module.save, lambda f, x, module=module: module.savez(f, x=x),
                      lambda f, x, module=module: module.savez_compressed(f, x=x)):  # fmt: skip
            file = io.BytesIO()
            write(file, t)
            file.seek(0)
            found = np.load(file)
            np.testing.assert_array_equal(found if isinstance(found, np.ndarray) else found["x"], M)
            with pytest.raises(TypeError, match="gradient"):
                fg.grad(lambda x, write=write: write(io.BytesIO(), x) or x.sum())(M)
        text = io.StringIO()
        module.savetxt(text, t, fmt="%.17g")
        np.testing.assert_array_equal(np.loadtxt(io.StringIO(text.getvalue())), M)
        with pytest.raises(TypeError, match="gradient"):
            fg.grad(lambda x, module=module: module.savetxt(io.StringIO(), x) or x.sum())(M)


def test_dtypes_are_those_of_numpy():
    for name in ("bool", "intp", "longdouble", "clongdouble", "generic", "number", "floating", "integer",
        "inexact",
                 "complexfloating", "errstate", "single", "double", "half"):  # fmt: skip
        assert getattr(fnp, name) is getattr(np, name)
