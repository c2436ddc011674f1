"""Choosing and writing: choose, put and its relatives, functions along axes and by pieces,
boolean indices."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import grouped
from tests.numpy.cases import Case, Fixed, check, integers, named, truths, values

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.testing import check_grads

M, V, S, E, C = values((2, 3)), values((4,)), values(()), values((0, 3)), values((2, 3, 4))
MASK, PLACES = truths(), np.array([[0, 1, 2], [2, 0, 1]])
THREE = [M, M * 2 + 1, -M]

CASES = [
    *named("choose", {"arrays": (PLACES, THREE), "numbers": (PLACES, [1.0, M, 3.0]),
        "broadcast": (PLACES[:, :1], [M, M[0], S]), "tuple": (PLACES, tuple(THREE)),
        "array of choices": (np.array([0, 1, 0]), M), "number": (Fixed(np.int64(1)), THREE),
        "beyond": (PLACES + 1, THREE), "negative": (PLACES - 1, THREE), "bool": (MASK, THREE),
        "floats": (M, THREE), "integers": (PLACES, [integers(), integers(seed=1), integers(seed=2)]),
        "mixed": (PLACES, [integers(), M, M.astype("f")]), "do not fit": (PLACES, [M, V, M]),
        "nothing": (PLACES, []), "empty": (PLACES[:0], [E, E, E]), "one": (PLACES * 0, [M])}),
    *(c for mode in ("wrap", "clip") for c in named("choose", {mode: (PLACES * 3 - 2, THREE)}, mode=mode)),
    *named("choose", {"unknown mode": (PLACES, THREE)}, mode="other"),
    *named("apply_along_axis", {"number": (lambda v: v.sum() * v[0], 0, M),
        "vector": (lambda v: v * v[::-1], 1, M), "longer": (lambda v: np.concatenate([v, v * 2]), 0, M),
        "matrix": (lambda v: v[:, None] * v, 1, C), "matrix first": (lambda v: v[:, None] * v[:2], 0, C),
        "negative": (lambda v: v.max() * v, -2, C), "vector alone": (lambda v: v.sum(), 0, V),
        "absent": (lambda v: v, 2, M), "nothing": (lambda v: v, 1, E), "empty vectors": (lambda v: v, 0, E),
        "further arguments": (lambda v, k: v * k, 0, M, 3.0), "0-d": (lambda v: v, 0, S)}),
    *named("apply_along_axis", {"keyword": (lambda v, k: (v * k).sum(), 0, M)}, k=2.0),
    *named("apply_over_axes", {"sums": (np.sum, C, (0, 2)), "one": (np.max, C, 1), "negative": (np.sum, C,
        [-1]),
        "kept": (lambda a, axis: a - a.mean(axis, keepdims=True), C, (0, 1)),
        "too much": (lambda a, axis: a.sum(), C, (0, 1)), "array": (np.sum, C, Fixed(np.array([0, 1])))}),
    *named("piecewise", {"functions": (M, [M < 0, M >= 0], [lambda x: x * x, lambda x: -x]),
        "numbers": (M, [M < 0], [1.5, lambda x: x**3]), "default zero": (M, [M > 1], [lambda x: x**2]),
        "overlap": (M, [M < 1, M > -1], [lambda x: x**2, lambda x: x**3]), "one condition": (M, M < 0,
        [lambda x: -x, lambda x: x**2]), "arguments": (M, [M < 0], [lambda x, k: x * k, 0], 3.0),
        "too many": (M, [M < 0], [1, 2, 3]), "too few": (M, [M < 0, M > 1, M > 0], [1]),
        "integers": (integers(), [integers() < 0], [0.7, lambda x: x * 2]), "empty": (E, [E > 0],
            [lambda x: x]),
        "float32": (M.astype("f"), [M > 0], [lambda x: x * x]), "nowhere": (M, [M > 9], [lambda x: 1 / 0,
            2.0]),
        "a vector": (V, V > 0, [lambda x: x**2, 1.0]), "a list of truths": (V, [True, False, True, False],
        [lambda x: x**2, 1.0]), "0-d": (S, [S > 0, S <= 0], [lambda x: x * 3, lambda x: x * x]),
        "0-d and one condition": (S, S > 5, [lambda x: x * 3, lambda x: x * x])}),
]  # fmt: skip

NAMES = {c.name for c in CASES} | {"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"}


@grouped("case", CASES, "name", quick=4)
def test_as_numpy(case: Case):
    check(case)


# ---- writing in place -----------------------------------------------------------------------------

WIDE, HIGH, CUBE = values((3, 4)), values((7, 3)), values((2, 2, 2))
WRITES = {
    "put": [(M, [0, 5], V[:2]), (M, [1, 1, -1], V[:3]), (M, 2, 5.0), (M, [0, 1, 2, 3], V[:2]), (M, PLACES, M),
        (M, [0], []), (M, [], []), (M, [6], 1.0), (M, [True, False], [1.0, 2.0]), (V, [0, 1], V),
        (V, [0, 9, -7], V[:3], "wrap"), (V, [0, 9, -7], V[:3], "clip"), (V, [0], 1.0, "other"),
        (integers(), [1, 2], [2.5, -3.5]), (M.astype("f"), [1], V[:1]), (S, 0, 3.0), (C, [[0, 7], [23, 7]],
            V)],
    "put_along_axis": [(M, np.argsort(M, 1), M * 2, 1), (M, np.argmax(M, 0)[None], 9.0, 0),
        (C, np.argsort(C, -1)[..., :2], C[..., :2], -1), (M, np.array([5, 0]), V[:2], None),
        (M, np.array([[0.0]]), 1.0, 0), (M, np.array([0]), 1.0, 0), (M, np.array([[9], [0]]), 1.0, 1),
        (M, np.array([[1, 1], [0, 0]]), np.array([[1.0, 2.0], [3.0, 4.0]]), 1), (M, PLACES, 1.0, 2)],
    "place": [(M, MASK, V), (M, MASK, 5.0), (M, MASK, V[:2]), (M, MASK.ravel(), V), (M, MASK[0], 1.0),
        (M, MASK, []), (M, MASK & False, []), (integers(), MASK, [1, 2]), (M, integers(), V)],
    "putmask": [(M, MASK, M * 2), (M, MASK, 5.0), (M, MASK, V), (M, MASK, V[:2]), (M, MASK.ravel(), M[::-1]),
        (M, MASK[0], 1.0), (M, MASK, []), (integers(), MASK, [1, 2]), (E, E > 0, 1.0)],
    "copyto": [(M, M * 2), (M, 3.0), (M, V[:3]), (M, M * 2, "same_kind", MASK), (M, 3.0, "safe", MASK[:1]),
        (M, V), (integers(), M), (integers(), M, "unsafe"), (integers(), 2), (integers(), 2.5),
        (M.astype("f"), M), (M, M, "no"), (M, integers()), (M, integers(), "equiv"), (M, S, "same_kind",
            MASK[0]),
        (M, M[:, :1], "same_kind", False), (M, 1.0, "same_kind", MASK.T)],
    "fill_diagonal": [(WIDE, 5.0), (WIDE, V), (HIGH, V), (HIGH, V, True), (HIGH, 2.0, True), (CUBE, V[:2]),
        (values((4, 4)), V), (V, 1.0), (C, 1.0), (integers((3, 3)), [1, 2]), (E, 1.0), (WIDE, [])],
}  # fmt: skip
CALLS = [(name, i) for name, calls in WRITES.items() for i in range(len(calls))]


@pytest.mark.parametrize("name, i", CALLS)
def test_writing_as_numpy(name, i):
    target, *rest = WRITES[name][i]
    target = np.asarray(target)
    expected, error = target.copy(), None
    with np.errstate(all="ignore"):
        try:
            getattr(np, name)(expected, *rest)
        except Exception as e:
            error = e
        for module in (fnp, np):
            for args in (rest, [fg.tensor(x) if isinstance(x, np.ndarray) else x for x in rest]):
                t, before = fg.tensor(target), target.copy()
                if error is not None:
                    with pytest.raises(
                        (type(error), IndexError) if name == "put_along_axis" else type(error)
                    ):
                        getattr(module, name)(t, *args)
                    continue
                assert getattr(module, name)(t, *args) is None
                assert t.dtype == expected.dtype
                np.testing.assert_array_equal(t.numpy(), expected)
                np.testing.assert_array_equal(target, before)
        if error is None:  # an array may hold what is not being differentiated
            array = target.copy()
            getattr(fnp, name)(array, *[fg.tensor(x) if isinstance(x, np.ndarray) else x for x in rest])
            np.testing.assert_array_equal(array, expected)
    if error is None and target.dtype == float and target.size:
        floats = [
            k for k, x in enumerate(rest) if type(x) is float or getattr(x, "dtype", None) == np.float64
        ]

        def f(x, *new):
            y, args = x * 1.0, list(rest)
            for k, v in zip(floats, new, strict=True):
                args[k] = v
            getattr(np, name)(y, *args)
            return y * y

        check_grads(f, (target, *(rest[k] for k in floats)), 2)


@pytest.mark.parametrize("name", list(WRITES))
def test_an_array_cannot_hold_what_is_being_differentiated(name):
    target, *rest = WRITES[name][0]
    place = {"put": 1, "put_along_axis": 1, "place": 1, "putmask": 1}.get(name, 0)
    for module in (fnp, np):

        def f(x, module=module):
            getattr(module, name)(target.copy(), *rest[:place], x, *rest[place + 1 :])
            return x.sum()

        with pytest.raises(TypeError, match=r"NumPy array.*gradient|gradient.*detach\(\)"):
            fg.grad(f)(np.asarray(rest[place], float) if np.ndim(rest[place]) else V)


def test_complex_values_do_not_fit_into_real_tensors():
    for write in (lambda t: np.put(t, 0, 1j), lambda t: np.place(t, [True] * 4, [1j]), lambda t: t.put(0, 1j),
                  lambda t: np.putmask(t, [True] * 4, 1j), lambda t: np.copyto(t, np.array(1j))):  # fmt: skip
        with pytest.raises(TypeError):
            write(fg.tensor(V))


def test_of_repeated_places_the_last_one_is_differentiated():
    def f(x, v):
        y = x * 1.0
        np.put(y, [1, 1, 0], v)
        return y

    x_grad, v_grad = fg.vjp(f, V, V[:3])[1](np.arange(1.0, 5.0))
    np.testing.assert_array_equal(x_grad, [0, 0, 3, 4])
    np.testing.assert_array_equal(v_grad, [0, 2, 1])


def test_masks_of_a_mapped_function_may_write():
    def f(x):
        y = x * 2
        np.putmask(y, x > 0, x * x)
        np.copyto(y, -1.0, where=x > 1)
        return y

    np.testing.assert_array_equal(fg.vmap(f)(M), np.stack([f(fg.tensor(r)).numpy() for r in M]))


@pytest.mark.parametrize("count", [1, 2, 20])
@pytest.mark.parametrize("shape", [(5,), (3, 4), (0,), ()])
@pytest.mark.parametrize("kind", [bool, int, float])
def test_places_of_a_mask_that_nobody_knows_yet(kind, shape, count):
    def f(x, mask, v):
        y = fnp.array(x) * 1
        np.place(y, mask, v)
        return y

    x, v = values(shape), values((count,), seed=1)
    mask = np.asarray(values(shape, seed=2) > 0).astype(kind) * kind(2)
    expected = np.array(x)
    np.place(expected, mask, v)
    np.testing.assert_array_equal(fg.jit(f)(x, mask, v), expected)
    np.testing.assert_array_equal(fg.vmap(f)(x[None], mask[None], v[None])[0], expected)
    weights = values(shape, seed=3)
    slopes = fg.jit(lambda mask: fg.vjp(lambda x, v: f(x, mask, v), x, v)[1](weights))(mask)
    known = fg.vjp(lambda x, v: f(x, mask, v), x, v)[1](weights)
    for found, wanted in zip(slopes, known, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-15)


def test_places_of_a_mask_that_nobody_knows_need_values():
    f = fg.jit(lambda x: np.place(x * 1, x > 0, []))
    with pytest.raises(TypeError, match="place"):
        f(M)
    with pytest.raises(ValueError, match="same size"):
        fg.jit(lambda x: np.place(x * 1, x[0] > 0, 1.0))(M)


@given(data=st.data())
@settings(max_examples=30)
def test_writing_to_any_places(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 3), max_size=3)))
    x = values(shape)
    places = data.draw(st.lists(st.integers(-x.size, x.size - 1), max_size=5))
    v = values((data.draw(st.integers(1, 4)),), seed=1)
    expected, t = x.copy(), fg.tensor(x)
    np.put(expected, places, v)
    t.put(places, fg.tensor(v))
    np.testing.assert_array_equal(t.numpy(), expected)


# ---- the elements in a row --------------------------------------------------------------------------


def test_flat_reads_and_writes():
    t = fg.tensor(M)
    assert len(t.flat) == 6
    assert [float(x) for x in t.flat] == list(M.flat)
    for index in (2, -1, slice(1, 4), [0, 3], np.array([[1, 2]]), M.ravel() > 0):
        np.testing.assert_array_equal(t.flat[index].numpy(), M.flat[index])
        for v in (5.0, V[:2]):
            if np.ndim(v) and np.ndim(index) == 0 and not isinstance(index, slice):
                continue
            changed, expected = fg.tensor(M), M.copy()
            changed.flat[index] = v
            expected.flat[index] = v
            np.testing.assert_array_equal(changed.numpy(), expected)
    t.flat = V[:3]
    np.testing.assert_array_equal(t.numpy(), [V[:3], V[:3]])
    np.testing.assert_array_equal(np.asarray(t.flat), t.numpy().ravel())
    np.testing.assert_array_equal(t.flat.copy().numpy(), t.numpy().ravel())

    def f(x, v):
        y = x * x
        y.flat[::2] = v
        return sum(e * i for i, e in enumerate(y.flat)) + y.flat[1]

    check_grads(f, (M, V[:3]), 2)


def test_elements_with_their_places():
    pairs = list(fnp.ndenumerate(fg.tensor(M)))
    assert [i for i, _ in pairs] == [i for i, _ in np.ndenumerate(M)]
    assert all(isinstance(x, fg.Tensor) for _, x in pairs)
    assert [float(x) for _, x in pairs] == list(M.flat)
    assert list(fnp.ndenumerate(M)) == list(np.ndenumerate(M))
    assert list(fnp.ndenumerate([[1, 2]])) == list(np.ndenumerate([[1, 2]]))
    assert list(fnp.ndenumerate(fg.tensor(E))) == []
    assert next(fnp.ndenumerate(fg.tensor(S)))[0] == ()
    check_grads(lambda x: sum((i + 2 * j) * v * v for (i, j), v in fnp.ndenumerate(x)), (M,), 2)
    check_grads(lambda x: sum(i * v for (i,), v in fnp.ndenumerate([x, 2.0, x * x])), (0.5,), 2)


# ---- functions of numbers made functions of arrays ----------------------------------------------------


def clamp(x, limit):
    return x * x if x < limit else limit * x


def test_a_vectorized_function_as_in_numpy():
    ours, theirs = fnp.vectorize(clamp), np.vectorize(clamp)
    for args in [(M, 0.5), (M, V[:3]), (S, 1.0), (M, integers((3,)))]:
        expected = theirs(*args)
        made = ours(fg.tensor(args[0]), *args[1:])
        assert (made.shape, made.dtype) == (np.shape(expected), expected.dtype)
        np.testing.assert_allclose(made.numpy(), expected, rtol=1e-15)
        np.testing.assert_array_equal(ours(*args), expected)
    check_grads(ours, (M, 0.4), 2)
    check_grads(lambda x, y: ours(x, limit=y), (M, values((2, 1), seed=5)), 2)


def test_options_of_vectorize():
    assert fnp.vectorize(clamp, otypes="f")(fg.tensor(M), 1.0).dtype == np.float32
    assert fnp.vectorize(clamp, otypes=[int])(fg.tensor(E), 1.0).shape == (0, 3)
    assert fnp.vectorize(clamp, doc="Say so.").__doc__ == "Say so."
    assert fnp.vectorize(clamp).__name__ == "clamp"
    with pytest.raises(ValueError, match="size 0"):
        fnp.vectorize(clamp)(fg.tensor(E), 1.0)
    two = fnp.vectorize(lambda x: (x, x * x))(fg.tensor(M))
    assert type(two) is tuple
    np.testing.assert_array_equal(two[1].numpy(), M * M)
    check_grads(fnp.vectorize(lambda x: (x, x * x)), (M,), 2)
    polynomial = lambda p, x: p[0] * x + p[1]
    for excluded, call in [({0}, lambda f, p, x: f(p, x)), ({"p"}, lambda f, p, x: f(p=p, x=x))]:
        f = fnp.vectorize(polynomial, excluded=excluded)
        np.testing.assert_array_equal(call(f, fg.tensor(V), fg.tensor(M)).numpy(), polynomial(V, M))
        check_grads(lambda p, x, f=f, call=call: call(f, p, x), (V, M), 2)

    @fnp.vectorize
    def double(x):
        """Return twice the number."""
        return x + x

    @fnp.vectorize(otypes=[float])
    def half(x):
        return x / 2

    np.testing.assert_array_equal(double(fg.tensor(M)).numpy(), 2 * M)
    np.testing.assert_array_equal(half(fg.tensor(M)).numpy(), M / 2)
    assert double.__doc__ == "Return twice the number."


def test_a_vectorized_function_of_vectors():
    f = lambda a, b: (a @ b) * b
    ours, theirs = fnp.vectorize(f, signature="(n),(n)->(n)"), np.vectorize(f, signature="(n),(n)->(n)")
    for a, b in [(C, V), (V, V), (C, C[0])]:
        expected = theirs(a, b)
        np.testing.assert_allclose(ours(fg.tensor(a), b).numpy(), expected, rtol=1e-14)
        np.testing.assert_array_equal(ours(a, b), expected)
    check_grads(ours, (C[0], V), 2)
    norms = fnp.vectorize(lambda a: ((a * a).sum(), a[0]), signature="(n)->(),()")
    for made, expected in zip(norms(fg.tensor(C)), ((C * C).sum(-1), C[..., 0]), strict=True):
        np.testing.assert_allclose(made.numpy(), expected, rtol=1e-14)
    empty = fnp.vectorize(f, otypes="d", signature="(n),(n)->(n)")(fg.tensor(values((0, 4))), V)
    assert empty.shape == (0, 4)
    with pytest.raises(ValueError, match="core dimension"):
        ours(fg.tensor(V), V[:3])
    with pytest.raises(ValueError, match="does not have enough dimensions"):  # NumPy's words
        ours(fg.tensor(S), V)
    with pytest.raises(ValueError, match="too few axes"):
        fg.grad(lambda s: ours(s, V).sum())(S)
    with pytest.raises(TypeError, match="expected 2, got 1"):
        ours(fg.tensor(V))
    with pytest.raises(ValueError, match="wrong number of outputs"):
        fnp.vectorize(f, signature="(n),(n)->(n),()")(fg.tensor(C), V)
    with pytest.raises(ValueError, match="signature"):
        fnp.vectorize(f, signature="n->n")


def test_functions_may_close_over_tensors():
    check_grads(lambda k: fnp.apply_along_axis(lambda v: v * k, 0, M), (2.0,), 2)
    check_grads(lambda k: fnp.piecewise(M, [M > 0], [lambda v: v * k, k]), (2.0,), 2)
    check_grads(lambda k: np.piecewise(fg.tensor(M), [M > 0], [k * k, 1.0]), (2.0,), 2)
    check_grads(lambda k: fnp.apply_over_axes(lambda a, axis: a.sum(axis) * k, M, (0, 1)), (2.0,), 2)
    assert type(fnp.piecewise(M, [M > 0], [1.0])) is np.ndarray
    assert type(fnp.apply_along_axis(np.sum, 0, M)) is np.ndarray


# ---- boolean indices without axes ---------------------------------------------------------------------

TRUTHS = {
    "true": True, "false": False, "NumPy's": np.True_, "array": np.array(True), "with ellipsis": (np.True_,
        ...),
    "last": (..., True), "after a new axis": (None, True), "beside an integer": (True, 0),
    "apart from an integer": (0, slice(None), True), "beside places": (True, np.array([1, 0])),
    "false beside places": (False, np.array([0])), "twice": (True, True), "both": (True, False),
    "between slices": (slice(None), True, slice(1, 3)), "beside a mask": (True, np.array([True, False])),
}  # fmt: skip


@pytest.mark.parametrize("name", TRUTHS)
def test_a_truth_value_is_an_index(name):
    index = TRUTHS[name]
    expected, t = M[index], fg.tensor(M)
    assert t[index].shape == expected.shape
    np.testing.assert_array_equal(t[index].numpy(), expected)
    stack = np.stack([M, M * 2])
    np.testing.assert_array_equal(fg.vmap(lambda x: x[index])(stack), np.stack([x[index] for x in stack]))
    np.testing.assert_array_equal(fg.make_graph(lambda x: x[index])(M)(M), expected)
    changed = M.copy()
    changed[index] = 7.0
    t[index] = 7.0
    np.testing.assert_array_equal(t.numpy(), changed)

    def write(x, v):
        y = x * x
        y[index] = v
        return y * x

    if expected.size:
        check_grads(lambda x: x[index] ** 2, (M,), 2)
        check_grads(write, (M, expected * 0.5), 2)
        check_grads(write, (M, 2.0), 2)
    mapped = fg.vmap(write, in_axes=(0, None))(stack, 3.0)
    np.testing.assert_array_equal(mapped, np.stack([write(fg.tensor(x), 3.0).numpy() for x in stack]))


def test_truth_values_of_a_number():
    for index in (True, False, ..., (..., True), fg.tensor(True)):
        plain = True if isinstance(index, fg.Tensor) else index
        np.testing.assert_array_equal(fg.tensor(S)[index].numpy(), S[plain])
    check_grads(lambda x: x[True] * x[x > -9], (2.0,), 2)
    with pytest.raises(IndexError):
        fg.tensor(M)[False, np.array([0, 1])]
    with pytest.raises(TypeError, match="vmap"):
        fg.vmap(lambda x: fg.tensor(M)[x > 0])(V)


# ---- the methods of an array ----------------------------------------------------------------------------

UNAVAILABLE = {"base", "byteswap", "ctypes", "data", "flags", "getfield", "setfield", "setflags"}
NOT_YET = {"argpartition", "partition"}


def test_a_tensor_has_the_methods_of_an_array():
    absent = {name for name in dir(np.ndarray) if not name.startswith("_") and not hasattr(fg.Tensor, name)}
    assert absent <= NOT_YET
    for name in UNAVAILABLE:
        assert not hasattr(fg.tensor(V), name)
        with pytest.raises(AttributeError, match=rf"no {name}: .*t\.numpy\(\)"):
            getattr(fg.tensor(V), name)


def test_methods_that_choose_and_write(tmp_path):
    t = fg.tensor(PLACES)
    np.testing.assert_array_equal(t.choose(THREE).numpy(), PLACES.choose(THREE))
    t = fg.tensor(V)
    assert t.put([0, 1], [5.0, 6.0]) is None
    assert t.tolist()[:2] == [5.0, 6.0]
    t.fill(2.0)
    assert t.tolist() == [2.0] * 4
    np.testing.assert_array_equal(fg.tensor(M).flatten("F").numpy(), M.flatten("F"))
    np.testing.assert_array_equal(fg.tensor(M).ravel("F").numpy(), M.ravel("F"))
    np.testing.assert_array_equal(fg.tensor(M).copy("F").numpy(), M)
    np.testing.assert_array_equal(fg.tensor(M).view().numpy(), M)
    assert fg.tensor(M).device == "cpu"
    same = fg.tensor(M)
    assert same.to_device("cpu") is same
    with pytest.raises(ValueError, match="cpu"):
        same.to_device("moon")
    with pytest.raises(TypeError, match="astype"):
        same.view(np.int64)
    with pytest.raises(ValueError, match="delete"):
        del same[0]
    same.tofile(tmp_path / "x.bin")
    np.testing.assert_array_equal(np.fromfile(tmp_path / "x.bin").reshape(M.shape), M)
    same.dump(tmp_path / "x.pkl")
    np.testing.assert_array_equal(np.load(tmp_path / "x.pkl", allow_pickle=True), M)
    assert same.dumps() == M.dumps()


def test_copies_keep_the_gradient():
    for copied in (copy.copy, np.copy, lambda t: t.copy(), lambda t: t.view(), lambda t: t.flatten()):
        assert fg.grad(lambda x, copied=copied: (copied(x) * x).sum())(np.array([3.0])) == [6.0]
    t = fg.tensor(V)
    u = copy.copy(t)
    u[0] = 9.0
    np.testing.assert_array_equal(t.numpy(), V)


@pytest.mark.parametrize("limits", [(0, 0), (255, 255), (1, 300), (-5, 2), (None, 0), (255, None)])
def test_clip_at_the_ends_of_an_integer_dtype(limits):
    x = np.array([1, 2, 3], np.uint8)
    np.testing.assert_array_equal(fnp.clip(fg.tensor(x), *limits).numpy(), np.clip(x, *limits))


def test_assignment_by_a_mask_whose_values_are_not_known():
    def f(x, v):
        y = x * 1.0
        y[y < 0] = v[0]
        y[y[:, 0] > 1] = v
        return y

    x, v = values((4, 3)), np.array([0.25, 0.5, 0.75])
    expected = np.where(x < 0, 0.25, x)
    expected[expected[:, 0] > 1] = v
    program = fg.make_graph(f)(x, v)
    np.testing.assert_array_equal(program(x, v), expected)
    np.testing.assert_array_equal(f(fg.tensor(x), fg.tensor(v)).numpy(), expected)
    weights = values((4, 3), seed=3)
    for a, b in zip(
        *(fg.grad(lambda x, v: (g(x, v) * weights).sum(), (0, 1))(x, v) for g in (f, program)), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-14)
    mapped = fg.vmap(lambda x, v: f(x, v), in_axes=(0, None))(np.stack([x, -x]), v)
    np.testing.assert_array_equal(mapped[0], expected)
    with pytest.raises(TypeError, match="boolean array"):  # one value for each place is another thing
        fg.make_graph(lambda x: x.__setitem__(x > 0, np.ones(3)))(V)


def test_a_vectorized_function_of_tensors_that_nothing_follows_gets_numbers():
    seen = []

    def double(x, y):
        seen.append(type(x))
        return 2 * x + y

    t = fg.tensor(M)
    out = fnp.vectorize(double)(t, y=fg.tensor(1.0))
    assert isinstance(out, fg.Tensor)
    np.testing.assert_array_equal(out.numpy(), 2 * M + 1)
    assert fg.Tensor not in seen
    c = fg.tensor(3.0)  # from outside, where it stays a Tensor
    np.testing.assert_array_equal(fnp.vectorize(lambda x: c * x)(t).numpy(), 3 * M)
    first, second = fnp.vectorize(lambda x: (x, c * x), otypes="df")(t)
    assert (first.dtype, second.dtype) == (np.float64, np.float32)
    np.testing.assert_allclose(fg.grad(lambda s: fnp.vectorize(lambda x: s * x)(t).sum())(2.0), M.sum())
