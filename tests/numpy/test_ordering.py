"""Sorting and searching: values, ties, NaN and the derivative of a permutation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import grouped
from tests.numpy.cases import Case, Fixed, check, integers, kinds, named, strided, values

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.testing import check_grads

M, V, S, E, C = values((2, 3)), values((5,)), values(()), values((0, 3)), values((2, 3, 4))
NAN = np.array([[1.0, np.nan, 0.5], [np.nan, -1.0, 2.0]])
EDGES = np.array([-1.0, 0.0, 0.5, 1.5])

CASES = [
    # argsort, argmax, argmin and sort along every axis and in every dtype: tests/numpy/test_reductions.py
    *(Case("sort", f"{k} axis {a}", (C, a, k), (), 2 if a is None else 1)
        for k in (None, "quicksort", "heapsort", "mergesort", "stable") for a in (None, 0, -1)),
    *(Case(n, f"unknown kind {k}", (V, -1, k)) for n in ("sort", "argsort") for k in ("unknown", 3)),
    *(Case(n, f"order of fields {o}", (V,), (("order", o),)) for n in ("sort", "argsort") for o in ("f", [])),
    *(Case(n, "kind and stable", (V, -1, "heapsort"), (("stable", True),)) for n in ("sort", "argsort")),
    *(Case(n, "not stable", (V,), (("stable", False),), 1) for n in ("sort", "argsort")),
    *(Case("argsort", f"{k}", (M, 1, k)) for k in (None, "quicksort", "heapsort")),
    *named("sort_complex", kinds(), order=1),
    *named("sort_complex", {"vector": V, "complex": values((4,), dtype=complex), "0-d": S, "empty": E,
        "list": [3.0, 1.0, 2.0], "longdouble": V.astype("g")}),
    Case("sort_complex", "ties", (np.array([1 + 2j, 1 + 1j, 0j]),)),
    *named("lexsort", {"two": (([2, 1, 1], [0, 0, -1]),), "tensors": ((V, np.array([0.0, 1, 0, 1, 0])),),
        "matrix": (M,), "axis": (M, 0), "wrong axis": (M, 2), "unlike": ((V, V[:2]),), "vector": (V,)},
        order=0),
    *(Case("argpartition", f"{kth} axis {a}", (C, kth, a)) for kth in (0, 1, -1, (0, 1)) for a in (0, 1)),
    *(Case(n, f"{label}", args) for n in ("partition", "argpartition") for label, args in {
        "too far": (V, 5), "wrong axis": (V, 1, 1), "0-d": (S, 0), "a fraction": (V, 1.5),
        "unknown kind": (V, 1, -1, "quicksort")}.items()),
    *(Case("partition", f"one {k}", (x[:1, :1], 0), (), 1) for k, x in kinds().items()),
    *(Case("partition", f"in the middle {k}", (x, 1, 1), (), 2) for k, x in {"float64": M,
        "float32": M.astype("f"), "complex": values((2, 3), dtype=complex)}.items()),
    Case("partition", "flat", (np.array([2.0, 1.0]), 0, None), (), 2),
    *named("searchsorted", {"number": (np.sort(V), 0.5), "array": (np.sort(V), M), "ties": (np.array([1.0,
        1, 2]), np.array([1.0, 2.0])), "integers": (np.arange(4), integers()), "mixed": (np.arange(4), M),
        "empty": (V[:0], M), "nothing": (np.sort(V), E), "right": (np.array([1.0, 1, 2]), 1.0, "right"),
        "wrong side": (np.sort(V), 0.5, "middle"), "matrix": (M, 0.5), "list": ([1, 2, 3], [2.5, 0.0]),
        "sorter": (V, M, "left", np.argsort(V)), "complex": (np.sort(values((3,), dtype=complex)), 0.5),
        "not a number": (np.array([0.0, 1.0, np.nan]), np.array([0.5, np.nan])),
        "wrong sorter": (V, 0.5, "left", np.array([0, 1])),
        "fractional sorter": (V, 0.5, "left", V)}, order=0),
    *named("digitize", {"increasing": (M, EDGES), "decreasing": (M, EDGES[::-1].copy()), "number": (0.2,
        EDGES),
        "right": (EDGES, EDGES, True), "left": (EDGES, EDGES), "right, decreasing": (EDGES, -EDGES, True),
        "not monotonic": (M, V), "matrix of edges": (M, M), "complex": (M + 1j, EDGES), "empty": (E, EDGES),
        "no edges": (M, EDGES[:0]), "constant": (M, np.zeros(3)), "integers": (integers(), [0, 2]),
        "not a number": (NAN, EDGES)}, order=0),
    *(Case(n, f"axis {a}", (C, a)) for n in ("nanargmax", "nanargmin") for a in (None, 0, -1, 3)),
    *(Case(n, f"{k}", (x, 0)) for n in ("nanargmax", "nanargmin") for k, x in kinds().items()
        if not k.startswith("complex")),
    *(Case(n, f"NaN {a}", (NAN, a), (("keepdims", k),)) for n in ("nanargmax", "nanargmin")
        for a in (None, 0, 1) for k in (False, True)),
    *(Case(n, "all NaN", (np.full((2, 2), np.nan), 1)) for n in ("nanargmax", "nanargmin")),
    *(Case(n, "nothing", (E,)) for n in ("nanargmax", "nanargmin")),
]  # fmt: skip

NAMES = {c.name for c in CASES} | {"argmax", "argmin"}


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@grouped("case", CASES, "name", quick=4)
def test_as_numpy(case):
    check(case)


@settings(max_examples=25, deadline=None)
@given(
    shape=st.lists(st.integers(0, 5), min_size=1, max_size=3),
    seed=st.integers(0, 99),
    dtype=st.sampled_from(["f8", "f4", "f2", "c16", "i8", "u1"]),
    data=st.data(),
)
def test_sorting_anything(shape, seed, dtype, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = np.random.default_rng(seed).integers(0, 4, shape).astype(dtype)
    t = fg.tensor(x)
    np.testing.assert_array_equal(fnp.sort(t, axis).numpy(), np.sort(x, axis))
    stable = fnp.argsort(t, axis, "stable").numpy()
    np.testing.assert_array_equal(stable, np.argsort(x, axis, kind="stable"))
    if x.dtype.kind in "fc" and x.size:
        ct = np.random.default_rng(seed + 1).normal(size=shape).astype(x.dtype)
        (back,) = fg.vjp(lambda x: np.sort(x, axis), x)[1](ct)
        expected = np.empty_like(ct)
        np.put_along_axis(expected, stable, ct, axis)
        np.testing.assert_array_equal(back, expected)


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 30), seed=st.integers(0, 99), data=st.data())
def test_partitions_are_partitions(n, seed, data):
    kth = data.draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=3))
    x = np.random.default_rng(seed).integers(0, 6, n).astype(float)
    line = np.sort(x)
    for t in (fnp.partition(fg.tensor(x), kth), fg.tensor(x)[fnp.argpartition(fg.tensor(x), kth)]):
        y = t.numpy()
        np.testing.assert_array_equal(np.sort(y), line)
        for k in kth:
            assert y[k] == line[k]
            assert np.all(y[: k % n] <= y[k])
            assert np.all(y[k % n :] >= y[k])
    (back,) = fg.vjp(lambda x: np.partition(x, kth), x)[1](np.arange(1.0, n + 1))
    np.testing.assert_array_equal(np.sort(back), np.arange(1.0, n + 1))


def test_equal_elements_keep_their_order():
    x = np.array([2.0, 1.0, 2.0, 1.0, np.nan, 0.0, -0.0, np.nan])
    w = np.arange(8.0)
    for kind in (None, "quicksort", "heapsort", "stable"):
        g = fg.grad(lambda x: np.sum(np.nan_to_num(np.sort(x, kind=kind)) * w))(x)
        np.testing.assert_array_equal(g, [4, 2, 5, 3, 0, 0, 1, 0])
    check_grads(lambda x: np.sort(x) * w, (V[[0, 1, 2, 3, 4, 0, 1, 2]] + w / 10,), 2)


@pytest.mark.parametrize(
    "places, value", [([], 0.0), ([7, 39999], 3.5), ([0, 1], np.nan), ([2**14, 2**14 + 1], 2.0**14)]
)
def test_the_order_of_many_elements_is_stable(places, value):
    line = np.arange(40000.0)
    line[places] = value
    x = np.random.default_rng(0).permutation(line)
    for y, axis in ((x, 0), (x.reshape(8, 5000), 1), (x.reshape(20000, 2), 0), (x.reshape(4, 10, 1000), 1)):
        found = fnp.argsort(fg.tensor(y), axis, "stable").numpy()
        np.testing.assert_array_equal(found, np.argsort(y, axis, kind="stable"))


def test_sorted_values_of_recorded_tensors_are_numpys():
    x = np.array([2.0, -0.0, np.inf, np.nan, 0.0, -np.inf, 1.0])
    y, _ = fg.vjp(np.sort, x)
    np.testing.assert_array_equal(y, np.sort(x))


def test_mapped_searches():
    a, v = np.sort(values((3, 5)), 1), values((3, 2), seed=1)
    expected = np.stack([np.searchsorted(*av) for av in zip(a, v, strict=True)])
    np.testing.assert_array_equal(fg.vmap(np.searchsorted)(a, v), expected)
    np.testing.assert_array_equal(fg.vmap(np.searchsorted, (None, 0))(a[0], v), np.searchsorted(a[0], v))
    expected = np.stack([np.searchsorted(row, v) for row in a])
    np.testing.assert_array_equal(fg.vmap(np.searchsorted, (0, None))(a, v), expected)
    np.testing.assert_array_equal(fg.vmap(lambda x: np.digitize(x, a[0]))(v), np.digitize(v, a[0]))
    np.testing.assert_array_equal(fg.vmap(np.nanargmax)(NAN), np.nanargmax(NAN, 1))


@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 5), (2, 3, 4)])
def test_sorting_by_several_keys_where_no_value_is_known(shape):
    rng = np.random.default_rng(0)
    keys = [rng.integers(0, 3, shape).astype(d) for d in ("f8", "i4", "u1")]
    keys[0] = np.where(keys[0] == 2, np.nan, keys[0])
    for axis in (-1, 0):
        for some in (keys[:1], keys[1:], keys):
            sort = lambda *k, axis=axis: np.lexsort(k, axis)
            expected = sort(*some)
            mapped = fg.vmap(sort)(*(np.asarray(k)[None] for k in some))[0]
            for found in (fg.jit(sort)(*some), mapped):
                assert found.dtype == expected.dtype
                np.testing.assert_array_equal(found, expected)
    if len(shape) == 2:
        np.testing.assert_array_equal(fg.jit(np.lexsort)(keys[1]), np.lexsort(keys[1]))
        with pytest.raises(ValueError, match="same shape"):
            fg.jit(lambda a, b: np.lexsort((a, b)))(keys[1], keys[2][:1])


def test_places_have_no_slope():
    f = lambda x: x[np.argsort(x)][0] + x[np.argmax(x)] * np.searchsorted(np.sort(x), x).sum()
    np.testing.assert_array_equal(fg.grad(f)(np.array([3.0, 1.0, 2.0])), [3, 1, 0])


def test_methods_in_place():
    for x in (V, M):
        t, y = fg.tensor(x), x.copy()
        assert t.partition(1) is None
        y.partition(1)
        np.testing.assert_array_equal(t.numpy()[..., 1], y[..., 1])
        np.testing.assert_array_equal(np.sort(t.numpy()), np.sort(y))
        np.testing.assert_array_equal(fg.tensor(x).argpartition(1).numpy()[..., 1], x.argpartition(1)[..., 1])
        assert t.sort(0) is None
        y.sort(0)
        np.testing.assert_array_equal(np.sort(t.numpy(), None), np.sort(y, None))

    def smallest(x):
        y = x * 1
        y.sort(stable=True)
        z = x * 2
        z.partition(0)
        return y[1] ** 2 + z[0] ** 2

    x = np.array([3.0, 1.0, 2.0])
    np.testing.assert_allclose(fg.grad(smallest)(x), [0, 8, 4])
    check_grads(smallest, (x,), 2)


def test_strided_and_mapped_sorts():
    x = strided(values((4, 6)))
    for axis in (0, 1):
        np.testing.assert_array_equal(fnp.sort(fg.tensor(x), axis).numpy(), np.sort(x, axis))
        back = fg.vmap(lambda r: fg.grad(lambda r: np.sum(np.sort(r) * np.arange(1.0, r.size + 1)))(r))(x)
        np.testing.assert_array_equal(back, np.argsort(np.argsort(x, 1), 1) + 1.0)


def test_places_of_tensors_are_tensors():
    for found in (fnp.searchsorted(fg.tensor(V), Fixed(0.5).value), fnp.digitize(0.5, fg.tensor(EDGES))):
        assert isinstance(found, fg.Tensor)


SELECTIONS = {
    "max": np.max,
    "max along an axis": lambda z: np.max(z.reshape(2, 3), axis=1, keepdims=True),
    "max with initial": lambda z: np.max(z, initial=0.1, where=np.arange(6) % 2 == 0),
    "min": lambda z: z.min(),
    "ptp": np.ptp,
    "nanmax": np.nanmax,
    "nanmin": np.nanmin,
    "sort": lambda z: np.sort(z.reshape(3, 2), axis=0),
    "partition": lambda z: np.partition(z, 2)[2],
    "median": np.median,
    "nanmedian": np.nanmedian,
    "take_along_axis": lambda z: np.take_along_axis(z, np.argsort(z), 0),
    "maximum": lambda z: np.maximum(z, z[::-1] * 2),
    "minimum": lambda z: np.minimum(z[:, None], z),
    "fmax": lambda z: np.fmax(z, 0.25),
    "fmin": lambda z: np.fmin(0.5j, z),
    "clip": lambda z: np.clip(z, -0.5 - 1j, 0.5 + 1j),
    "maximum.reduce": np.maximum.reduce,
    "maximum.accumulate": np.maximum.accumulate,
    "minimum.reduceat": lambda z: np.minimum.reduceat(z, [0, 2]),
}


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("name", SELECTIONS)
def test_complex_numbers_are_selected(name, dtype):
    rng = np.random.default_rng(2)
    z, e = (rng.normal(size=(2, 6)) + 1j * rng.normal(size=(2, 6))).astype(dtype)
    f = SELECTIONS[name]
    np.testing.assert_array_equal(f(fg.tensor(z)), f(z))
    w = (1 + 2j) / (1 + np.arange(np.size(f(z))).reshape(np.shape(f(z))))
    loss = lambda z: np.sum(np.real(w * f(z)))
    wide, along = z.astype("D"), 1e-6 * e.astype("D")
    expected = (loss(wide + along) - loss(wide - along)) / 2e-6
    tolerance = 1e-7 if dtype is np.complex128 else 1e-4
    gradient = fg.grad(loss)(z)
    assert gradient.dtype == dtype
    for g in (gradient, fg.jit(fg.grad(loss))(z), fg.vmap(fg.grad(loss))(z[None])[0]):
        np.testing.assert_allclose(np.sum(g * e).real, expected, tolerance, tolerance)
    np.testing.assert_allclose(fg.jvp(loss, (z,), (e,))[1], expected, tolerance, tolerance)
    assert not fg.hessian(lambda x: loss(x + 1j))(z.real.astype(float)).any()


def test_complex_numbers_that_tie_share_the_gradient():
    z = np.array([1 + 2j, 1 + 2j, 1 - 5j, np.nan])
    np.testing.assert_array_equal(fg.grad(lambda z: np.real(np.max(z[:3])))(z), [0.5, 0.5, 0, 0])
    np.testing.assert_array_equal(fg.grad(lambda z: np.imag(np.nanmax(z)))(z), [-0.5j, -0.5j, 0, 0])
    np.testing.assert_array_equal(fg.grad(lambda z: np.real(np.max(z)))(z), np.zeros(4))
    np.testing.assert_array_equal(
        fg.grad(lambda z: np.real(np.maximum(z, 1 + 2j)).sum())(z), [0.5, 0.5, 0, 0]
    )
