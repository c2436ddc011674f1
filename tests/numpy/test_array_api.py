"""fgrad.numpy as a namespace of the array API standard; tests/array_api/run.sh runs the public suite."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from tests.helpers import exactly

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.testing import check_grads

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
)


@pytest.mark.parametrize("version", [None, "2021.12", "2022.12", "2023.12", "2024.12"])
def test_a_tensor_names_its_namespace(version):
    assert fg.tensor([1.0]).__array_namespace__(api_version=version) is fnp
    assert fnp.__array_api_version__ == "2024.12"


@pytest.mark.parametrize("version", ["2025.12", "1.0", ""])
def test_other_versions_are_refused(version):
    with pytest.raises(ValueError, match=r"not supported; supported are: 2021\.12, .*2024\.12"):
        fg.tensor([1.0]).__array_namespace__(api_version=version)


def test_a_tensor_that_is_followed_names_its_namespace():
    def f(x):
        xp = x.__array_namespace__()
        return xp.sum(xp.astype(xp.exp(x), xp.float64))

    check_grads(f, (np.array([0.5, -1.0]),), order=2)
    exactly(fg.vmap(f)(fg.tensor([[0.0], [0.0]])), np.ones(2))


def test_namespace_info():
    info = fnp.__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": True,
        "data-dependent shapes": True,
        "max dimensions": 64,
    }
    assert info.default_device() == "cpu"
    assert list(info.devices()) == ["cpu"]
    assert info.default_dtypes(device="cpu") == {
        "real floating": np.float64,
        "complex floating": np.complex128,
        "integral": np.intp,
        "indexing": np.intp,
    }
    assert set(info.dtypes()) == set(DTYPES)
    assert set(info.dtypes(kind=("bool", "real floating"))) == {"bool", "float32", "float64"}
    with pytest.raises(ValueError, match="kind"):
        info.dtypes(kind="character")


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_and_their_arrays(name):
    dtype = getattr(fnp, name)
    made = fnp.ones(3, dtype=dtype, device="cpu")
    assert isinstance(made, fg.Tensor)
    assert made.dtype == np.dtype(name) == fnp.__array_namespace_info__().dtypes()[name]
    assert fnp.isdtype(made.dtype, dtype)
    copy = fnp.from_dlpack(made)
    exactly(copy, np.ones(3, name))


@pytest.mark.parametrize("name", ["e", "inf", "nan", "newaxis", "pi"])
def test_constants(name):
    assert getattr(fnp, name) is getattr(np, name)


def test_device():
    t = fg.tensor([1.0])
    assert t.device == "cpu"
    assert t.to_device("cpu") is t
    for make in (fnp.zeros, fnp.ones, fnp.empty, fnp.eye, fnp.arange, fnp.asarray):
        assert make(2, device="cpu").device == "cpu"
        with pytest.raises(ValueError, match="cpu"):
            make(2, device="gpu")
    with pytest.raises(ValueError, match="cpu"):
        t.to_device("gpu")
    with pytest.raises(ValueError, match="cpu"):
        fnp.astype(t, fnp.float32, device="gpu")


def test_dlpack_leaves_the_value_to_the_tensor():
    t = fg.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert t.__dlpack_device__() == (1, 0)
    taken = np.from_dlpack(t)
    exactly(taken, t.numpy())
    with pytest.raises(ValueError, match="read-only"):
        taken[0, 0] = 9.0
    copied = np.from_dlpack(t, copy=True)
    copied[0, 0] = 9.0
    exactly(t, [[1.0, 2.0], [3.0, 4.0]])
    exactly(np.from_dlpack(fg.tensor(2.5)), 2.5)


def test_dlpack_shares_memory_with_those_who_heed_its_flag_only():
    t = fg.tensor([1.0, 2.0])
    again = np.from_dlpack(t)
    assert np.shares_memory(np.asarray(t), again)
    with pytest.raises(BufferError, match="readonly"):
        t.__dlpack__(copy=False)
    assert t.__dlpack__() is not None  # a copy


def test_dlpack_of_a_followed_tensor_is_an_escape():
    with pytest.raises(TypeError, match=r"export with DLPack .* would lose its gradient"):
        fg.grad(lambda x: np.from_dlpack(x).sum())(np.ones(2))
    exactly(fg.grad(lambda x: fnp.from_dlpack(x * 2).sum())(np.ones(2)), np.full(2, 2.0))


def test_from_dlpack_copies():
    a = np.array([1.0, 2.0])
    t = fnp.from_dlpack(a)
    a[0] = 9.0
    exactly(t, [1.0, 2.0])
    with pytest.raises(ValueError, match="share the memory"):
        fnp.from_dlpack(a, copy=False)


SIGNATURES = {  # of the standard: those arguments that are called by name or by place
    "arange": "start, /, stop, step, *, dtype, device",
    "argsort": "x, /, *, axis, descending, stable",
    "asarray": "obj, /, *, dtype, device, copy",
    "astype": "x, dtype, /, *, copy, device",
    "concat": "arrays, /, *, axis",
    "cumulative_sum": "x, /, *, axis, dtype, include_initial",
    "expand_dims": "x, /, *, axis",
    "fft.fftfreq": "n, /, *, d, dtype, device",
    "fft.rfftfreq": "n, /, *, d, dtype, device",
    "from_dlpack": "x, /, *, device, copy",
    "linalg.matrix_norm": "x, /, *, keepdims, ord",
    "linalg.vector_norm": "x, /, *, axis, keepdims, ord",
    "linspace": "start, stop, /, num, *, dtype, device, endpoint",
    "permute_dims": "x, /, axes",
    "searchsorted": "x1, x2, /, *, side, sorter",
    "sort": "x, /, *, axis, descending, stable",
    "std": "x, /, *, axis, correction, keepdims",
    "sum": "x, /, *, axis, dtype, keepdims",
    "tril": "x, /, *, k",
    "vecdot": "x1, x2, /, *, axis",
    "where": "condition, x1, x2, /",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name):
    f = fnp
    for part in name.split("."):
        f = getattr(f, part)
    ours = list(inspect.signature(f).parameters.values())
    before, _, after = SIGNATURES[name].partition("/")
    positional = [n for n in before.split(", ") if n]
    assert all(p.kind != p.KEYWORD_ONLY for p in ours[: len(positional)])
    either, _, keywords = after.partition("*")
    for i, n in enumerate(n for n in either.split(", ") if n):
        assert ours[len(positional) + i].name == n
    keyword_names = {p.name for p in ours if p.kind in {p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD}}
    assert {n for n in keywords.split(", ") if n} <= keyword_names


def test_results_without_axes_are_tensors():
    t = fg.tensor([3.0, 1.0])
    for result in (t[0], fnp.sum(t), fnp.max(t), fnp.argmax(t), fnp.linalg.vector_norm(t), t[0] + 1):
        assert isinstance(result, fg.Tensor)
        assert result.shape == ()
    assert (int(fg.tensor(2)), float(t[0]), complex(t[0]), bool(t[0])) == (2, 3.0, 3 + 0j, True)
    assert [10, 20, 30][fg.tensor(1)] == 20


LINE = np.array([2.0, 5.0, 2.0, -1.0, 5.0, 0.0])


@pytest.mark.parametrize("make", [np.asarray, fg.tensor], ids=["array", "Tensor"])
def test_descending(make):
    exactly(fnp.sort(make(LINE), descending=True), np.sort(LINE)[::-1])
    places = fnp.argsort(make(LINE), descending=True, stable=True)
    exactly(places, np.array([1, 4, 0, 2, 5, 3]))  # equal elements in the order in which they stand
    table = np.random.default_rng(0).integers(0, 3, (4, 50))
    for axis in (0, 1, -1, None):
        exactly(fnp.sort(make(table), axis, descending=True), -np.sort(-table, axis))
        exactly(
            fnp.argsort(make(table), axis, descending=True, stable=True),
            np.argsort(-table, axis, stable=True),
        )
    first = fnp.sort(make(np.array([1.0, np.nan, 2.0])), descending=True)
    np.testing.assert_array_equal(np.asarray(first), [np.nan, 2.0, 1.0])
    exactly(fnp.sort(make(np.zeros((0, 3))), axis=0, descending=True), np.zeros((0, 3)))


def test_descending_differentiates():
    weights = np.arange(6.0)
    check_grads(lambda x: fnp.sort(x, descending=True) * weights, (LINE + 0.1 * weights,), order=2)
    # ties: the first of two equal elements gets the first gradient
    exactly(
        fg.grad(lambda x: fnp.sum(fnp.sort(x, descending=True) * weights))(LINE),
        np.array([2.0, 0.0, 3.0, 5.0, 1.0, 4.0]),
    )


INTEGERS = np.array([[1, 0, 200], [100, 5, 1]])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "float16", "complex64"])
@pytest.mark.parametrize("make", [np.asarray, fg.tensor], ids=["array", "Tensor"])
@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod", "mean", "nansum", "cumulative_sum"])
def test_the_dtype_of_a_reduction_is_the_one_asked_for(name, make, dtype):
    f, expected = getattr(fnp, name), getattr(np, name)
    for kind in ("int64", "uint8", "float64"):
        x = INTEGERS.astype(kind)
        if name == "mean" and dtype == "int8":
            x = x // 16  # within its range, or the two round on different sides of the wrap
        with np.errstate(all="ignore"):
            want = expected(x, axis=0, dtype=dtype)
            got = f(make(x), axis=0, dtype=dtype)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(np.asarray(got), want)


def test_spread_as_complex():
    x = np.array([1.0, 2.0, 4.0])
    assert fnp.var(fg.tensor(x), dtype=np.complex64).dtype == np.var(x, dtype=np.complex64).dtype
    assert fnp.std(fg.tensor(x), dtype=np.float32, correction=1).dtype == np.float32
    with pytest.raises(TypeError, match="corection"):
        fnp.std(fg.tensor(x), corection=1)


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies_as_a_dtype(name):
    f = getattr(fnp.fft, name)
    exactly(f(5, d=0.5, dtype=np.float32), getattr(np.fft, name)(5, 0.5).astype(np.float32))
    check_grads(lambda d: f(5, d), (0.5,), order=2)
