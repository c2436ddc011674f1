"""What the random programs found, each by its name: NumPy's values and errors, eager, compiled and mapped."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.interpreting import kernels_in_python
from tests.fuzz.programs import swapped
from tests.helpers import close, exactly

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import lax


def both(f, *xs):
    """Return what NumPy, eager and compiled code give: each a value, or the class of an error."""
    answers = []
    for run in (f, lambda *ts: f(*map(fg.tensor, ts)), fg.jit(f)):
        try:
            out = run(*(x.copy() for x in xs))
            answers.append(out.numpy() if isinstance(out, fg.Tensor) else out)
        except (TypeError, ValueError, OverflowError, IndexError) as error:  # noqa: PERF203
            answers.append(type(error))
    return answers


@pytest.mark.parametrize("constant", [2.0, np.array([3.0, -1.0])])
def test_an_array_that_was_replaced_as_a_whole_is_mapped(constant):
    def f(x):
        y = x * 1
        x[...] = constant
        return y * x[np.array([1, -1, 0])].sum() + np.negative(x, where=x > 0, out=x * 1.0)

    xs = np.arange(6.0).reshape(3, 2)
    exactly(fg.vmap(f)(xs), np.stack([f(x.copy()) for x in xs]))


def test_a_tensor_of_a_finished_recording_is_a_constant_of_vmap():
    kept = []

    def remember(x):
        kept.append(x * 2)
        return np.sum(kept[0])

    fg.grad(remember)(np.ones(2))
    exactly(
        fg.vmap(lambda x: kept[0][np.array([1, 0])] * x)(np.arange(3.0)),
        2 * np.outer(np.arange(3.0), np.ones(2)),
    )


@pytest.mark.parametrize("run", [lambda f: f, fg.jit, fg.vmap, lambda f: fg.vmap(fg.jit(f))])
def test_loops_carry_arrays_of_the_other_order_of_bytes(run):
    x = np.arange(6.0).reshape(2, 3)

    def f(x):
        start = x * 1 if x.dtype.isnative else x
        a = lax.fori_loop(0, 2, lambda i, c: c * 2, start)
        b = lax.while_loop(lambda c: np.sum(c) < 50, lambda c: c + 1, start)
        c, ys = lax.scan(lambda c, t: (c + t, c), start, x)
        return a, b, c, ys

    for y, e in zip(run(f)(swapped(x)), run(f)(x), strict=True):
        close(y, e)


WRITES = {
    "x[0] = v": lambda x, v: x.__setitem__(0, v),
    "x[...] = v": lambda x, v: x.__setitem__(..., v),
    "x[[0]] = v": lambda x, v: x.__setitem__([0], v),
    "x[x > 0] = v": lambda x, v: x.__setitem__(x > 0, v),
    "fill": lambda x, v: x.fill(v),
    "put": lambda x, v: np.put(x, [0], v),
    "putmask": lambda x, v: np.putmask(x, np.eye(2, dtype=bool), v),
    "place": lambda x, v: np.place(x, np.eye(2, dtype=bool), v),
    "copyto": lambda x, v: np.copyto(x, v),
    "fill_diagonal": lambda x, v: np.fill_diagonal(x, v),
    "put_along_axis": lambda x, v: np.put_along_axis(x, np.zeros((1, 2), int), v, 0),
    "insert": lambda x, v: np.insert(x, 0, v),
}


@pytest.mark.parametrize(
    "value", [300, -1, 255, [300, -1], [7, 200], True, np.int64(300), np.array([300, 1])], ids=repr
)
@pytest.mark.parametrize("name", WRITES)
def test_python_integers_fit_where_they_are_written(name, value):
    def f(x):
        new = WRITES[name](x, value)
        return x if new is None else new

    expected, eager, compiled = both(f, np.ones((2, 2), np.uint8))
    for out in (eager, compiled):
        if isinstance(expected, type):
            assert isinstance(out, type)
        else:
            exactly(out, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.bool_])
@pytest.mark.parametrize(
    "value", [np.array([1.5]), np.array([2**40]), np.float32([1.5]), np.uint8([3]), [1.5], 1.5, 2], ids=repr
)
@pytest.mark.parametrize("name", ["putmask", "place"])
def test_masked_writes_lose_nothing_of_an_array(name, value, dtype):
    def f(x):
        WRITES[name](x, value)
        return x

    expected, eager, compiled = both(f, np.ones((2, 2), dtype))
    for out in (eager, compiled):
        if isinstance(expected, type):
            assert out is TypeError
        else:
            exactly(out, expected)


@pytest.mark.parametrize("value", [[1.0, 2.0], np.array([1.0, 2.0]), [[1.0]]], ids=repr)
def test_one_element_takes_one_number(value):
    for write in (lambda x: x.fill(value), lambda x: x.flat.__setitem__(0, value)):
        assert both(lambda x, write=write: write(x), np.ones(2)) == [ValueError] * 3


@pytest.mark.parametrize(
    "value", [2.109, -3, 300, np.float32(1.5), [2.5, 1.0, 2.0, 3.0], np.array([2, 1, 3, 2])], ids=repr
)
@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int8, np.bool_, np.float32])
@pytest.mark.parametrize(
    "ufunc", [np.add, np.multiply, np.subtract, np.maximum, np.power, np.divide, np.logaddexp]
)
def test_steps_of_at_are_cast_back_one_by_one_or_refused(ufunc, dtype, value):
    def f(x):
        ufunc.at(x, np.array([0, 0, 1, -1]), value)
        return x

    with np.errstate(all="ignore"):
        expected, eager, compiled = both(f, np.array([2, 1], dtype))
    for out in (eager, compiled):
        if isinstance(expected, type) or isinstance(out, type):
            assert isinstance(out, type)
            assert isinstance(expected, type) or (out is not eager and (np.dtype(dtype).kind != "f"))
        else:
            assert out.dtype == expected.dtype
            close(out, expected, rtol=1e-6)


@pytest.mark.parametrize("shift, axis", [(1, 0), (3, 0), (-3, -1), ((1, 2), (0, 0)), (1, None)])
def test_a_roll_that_moves_nothing_is_a_copy(shift, axis):
    def f(x):
        y = np.roll(x, shift, axis)
        x[0] = 5.0
        return y

    x = np.array([2.0]) if shift == 1 else np.arange(3.0)
    for run in (lambda x: f(fg.tensor(x)), fg.jit(f), lambda x: fg.vmap(f)(x[None])[0]):
        exactly(run(x), np.roll(x, shift, axis))
    y = fnp.roll(x, shift, axis)
    assert not np.may_share_memory(x, y)


@pytest.mark.parametrize("value", [-1.381, 300.5, float("nan"), [1.0, -2.0], 7.9])
def test_python_floats_fit_where_integers_are_written(value):
    expected, eager, compiled = both(lambda x: x.__setitem__(..., value) or x, np.ones(2, np.uint8))
    for out in (eager, compiled):
        assert out is expected if isinstance(expected, type) else np.array_equal(out, expected)


AXES_OF_NUMBERS = {
    "squeeze": np.squeeze,
    "repeat": lambda x, axis: np.repeat(x, 2, axis=axis),
    "repeat by a list": lambda x, axis: np.repeat(x, [3], axis),
    "take": lambda x, axis: np.take(x, [0, 0], axis),
    "take one": lambda x, axis: np.take(x, 0, axis),
    "compress": lambda x, axis: np.compress([True], x, axis),
    "cumsum": np.cumsum,
    "sum": np.sum,
}


@pytest.mark.parametrize("axis", [0, -1, 1])
@pytest.mark.parametrize("name", AXES_OF_NUMBERS)
def test_numbers_have_one_axis_where_numpy_lets_them(name, axis):
    f = lambda x: AXES_OF_NUMBERS[name](x, axis)
    expected, eager, compiled = both(f, np.array(1.5))
    if isinstance(expected, type):
        assert eager is compiled is expected
        return
    close(eager, expected)
    close(compiled, expected)
    close(fg.vmap(f)(np.array([1.5, 2.0]))[0], expected)
    close(fg.grad(lambda x: np.sum(f(x)))(np.array(1.5)), np.sum(f(np.array(1.0))))


def test_an_empty_list_repeats_nothing():
    for x in (np.zeros(0), np.zeros((0, 3), np.complex64)):
        f = lambda x: np.repeat(x, [], axis=0)
        exactly(f(fg.tensor(x)), f(x))


@pytest.mark.parametrize("index", [0, 1, 5, -2])
def test_a_switch_by_a_number_has_a_compiled_derivative(index):
    f = lambda x: lax.switch(index, [lambda t: t * 2, np.sin, lambda t: t**3], x)
    slope = [2.0, np.cos(1.5), 3 * 1.5**2][min(max(index, 0), 2)]
    for run in (
        fg.jit(fg.grad(f)),
        fg.grad(fg.jit(f)),
        lambda x: fg.jit(lambda x: fg.jvp(f, (x,), (1.0,))[1])(x),
    ):
        close(run(1.5), slope)


def test_rules_and_callbacks_of_arrays_of_the_other_order_of_bytes():
    rule = fg.custom_vjp(lambda x: np.sin(x))
    rule.defvjp(lambda x: (np.sin(x), x), lambda x, ct: (ct * np.cos(x),))
    x = np.array([0.5, 1.0])
    close(fg.grad(lambda x: np.sum(rule(x)))(swapped(x)), np.cos(x))
    close(fg.pure_callback(lambda v: v * 2, swapped(x), swapped(x)), 2 * x)


@pytest.mark.parametrize("n", [0, 3])
def test_numbers_among_the_choices_of_select_give_way(n):
    f = lambda x: np.select([x >= 1, x > 0], [x * 2, -2])
    x = np.full(n, 0.5, np.float32)
    for run in (f, fg.jit(f), lambda x: f(fg.tensor(x)), lambda x: fg.vmap(f)(x[None])[0]):
        exactly(run(x), f(x))


def test_who_asks_for_the_class_of_what_nobody_may_read_loses_no_error():
    def f(x):
        w = x * 1.0
        v = np.reshape(w, (3, 2))
        v[0, 0] = 1
        return np.where(np.ones((2, 1, 3)) > 0, 1.0, w)

    with pytest.raises(TypeError, match="depends on the memory layout"):
        fg.jit(f)(np.ones((2, 1, 3)))


PLACES = {
    "put": lambda x, i: np.put(x, i, 9.0),
    "put, wrapped": lambda x, i: np.put(x, i, 9.0, mode="wrap"),
    "split": lambda x, i: np.split(x, i)[0],
    "array_split": lambda x, i: np.array_split(x, i)[1],
    "tile": lambda x, i: np.tile(x, i),
    "vander": lambda x, i: np.vander(x, i[1]),
    "fft": lambda x, i: np.fft.fft(x, i[0] + 1),
}


@pytest.mark.parametrize("dtype", ["?", "i1", "u4", "i8", "u8", ">u8", "f4", "f8"])
@pytest.mark.parametrize("name", PLACES)
def test_places_and_counts_have_the_dtypes_that_numpy_takes(name, dtype):
    def f(x):
        new = PLACES[name](x, np.array([1, 0], dtype))
        return x if new is None else new

    expected, eager, compiled = both(f, np.arange(1.0, 5.0))
    for out in (eager, compiled):
        if isinstance(expected, type):
            assert out is expected
        else:
            close(out, expected)


@pytest.mark.parametrize("places", [0.5, [0.5, 1.0], np.uint64(1), np.float64(1.5), [], (1j,), np.zeros(0)])
def test_sequences_and_numbers_are_converted_to_places(places):
    expected, *outs = both(lambda x: np.put(x, places, 9.0) or x, np.arange(3.0))
    for out in outs:
        assert out is expected if isinstance(expected, type) else np.array_equal(out, expected)


WITHOUT_ELEMENTS = {
    "read": lambda x: x[x > 0],
    "sum": lambda x: x[x > 0].sum(),
    "write": lambda x: x.__setitem__(x > 0, np.zeros(0)),
    "write one": lambda x: x.__setitem__(x > 0, np.zeros(1)),
    "add": lambda x: x.__setitem__(x > 0, x[x > 0] + x.reshape(-1)),
    "place": lambda x: np.place(x, x > 0, [1.0]),
    "putmask": lambda x: np.putmask(x, x > 0, np.zeros(0)),
    "nonzero": lambda x: np.nonzero(x)[0],
    "extract": lambda x: np.extract(x > 0, x),
    "unique": np.unique,
}


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
@pytest.mark.parametrize("name", WITHOUT_ELEMENTS)
def test_nothing_is_missing_of_what_has_no_elements(name, shape):
    def f(x):
        y = x * 1.0
        new = WITHOUT_ELEMENTS[name](y)
        return y if new is None else new

    x = np.zeros(shape)
    for run in (lambda x: f(fg.tensor(x)), fg.jit(f), lambda x: fg.vmap(f)(x[None])[0]):
        exactly(run(x), f(x))


@pytest.mark.parametrize("value", [np.array([2.0]), np.array([[7.0, 8.0, 9.0]]), [5.0], np.float32(3)])
@pytest.mark.parametrize("axes", [1, 2])
def test_all_elements_that_a_staged_mask_chooses_get_one_value(value, axes):
    def f(x):
        y = x * 1.0
        y[x[:, 0] > 0 if axes == 1 else x > 0] = value
        return y

    x = np.array([[1.0, -1.0, 2.0], [-1.0, 0.5, 3.0]])
    expected, eager, compiled = both(f, x)
    for out in (eager, compiled, fg.vmap(f)(x[None])[0] if not isinstance(expected, type) else eager):
        if not isinstance(expected, type):
            exactly(out, expected)
        else:
            assert isinstance(out, type)


BROADCAST = {
    "new axes": (lambda u: np.broadcast_arrays(u, np.zeros((1, 3)))[0], True),
    "as it is": (lambda u: np.broadcast_arrays(u, 1.0)[0], True),
    "rows": (lambda u: np.broadcast_arrays(u, np.zeros((2, 3)))[0], False),
    "a number": (lambda u: np.broadcast_arrays(u, 1.0)[1], False),
    "an array": (lambda u: np.broadcast_arrays(u[None] * np.ones((2, 1)), np.zeros(3))[1], False),
}


@pytest.mark.filterwarnings("ignore:Numpy has detected:DeprecationWarning")
@pytest.mark.parametrize("name", BROADCAST)
def test_what_broadcast_arrays_returns_is_written_to_as_in_numpy_or_refused(name):
    make, is_view = BROADCAST[name]

    def f(x):
        u = x * 1.0
        y = make(u)
        y[..., 0] = 5.0
        return u, y

    x = np.arange(3.0)
    for run in (lambda x: f(fg.tensor(x)), fg.jit(f), lambda x: [y[0] for y in fg.vmap(f)(x[None])]):
        if is_view:
            for y, e in zip(run(x), f(x), strict=True):
                exactly(y, e)
        else:
            with pytest.raises(ValueError, match="assignment destination is read-only"):
                run(x)


def test_flat_of_what_is_read_only_is_refused_before_places_are_looked_at():
    for run in (lambda f: f(fg.tensor(np.zeros((2, 0)))), lambda f: fg.jit(f)(np.zeros((2, 0)))):
        with pytest.raises(ValueError, match="read-only"):
            run(lambda x: np.broadcast_to(x, (3, 2, 0)).flat.__setitem__(0, 1.0))


REDUCING = [
    *("sum", "prod", "mean", "std", "var", "max", "min", "ptp", "any", "all", "argmax", "argmin", "median"),
    *("nansum", "nanprod", "nanmean", "nanstd", "nanvar", "nanmax", "nanmin", "nanmedian", "count_nonzero"),
    *("average", "nanargmax"),
]
UNIVERSAL = [name for name in dir(np) if isinstance(getattr(np, name), np.ufunc)]
WITHOUT_AXES = [
    *(f"np.{name}({x})" for name in REDUCING for x in ("x", "x, axis=0", "x[0]", "zero")),
    *(f"np.{name}(x, where=x > 0)" for name in ("sum", "mean", "std", "var", "nanstd", "nanvar", "nanmean")),
    *(f"np.{name}({x})" for name in UNIVERSAL for x in ("x[0]", "zero", "x[0], x[1]", "zero, 2")),
    *(f"np.{name}.reduce(x)" for name in UNIVERSAL),
    *(f"np.{name}(x[:0])" for name in REDUCING),
    *(f"np.{name}(x[:0], initial=1.0)" for name in ("max", "min", "sum", "prod")),
    *(f"np.{name}(x[0], x[1], dtype=float)" for name in ("add", "power", "hypot")),
    *(f"np.{name}(x, 0.3)" for name in ("quantile", "percentile", "nanquantile")),
    *(f"np.{name}(x, x)" for name in ("dot", "inner", "vdot", "vecdot", "matmul", "convolve")),
    *("np.einsum('i,i->', x, x)", "np.tensordot(x, x, 1)", "np.linalg.multi_dot([x, np.outer(x, x), x])"),
    *(f"np.linalg.{name}(np.outer(x, x))" for name in ("det", "norm", "cond", "matrix_rank")),
    *("np.trace(np.outer(x, x))", "np.linalg.norm(x, axis=0)", "np.trapezoid(x)", "np.polyval(x, x[0])"),
    *(
        "x[0]",
        "x[0, ...]",
        "zero[...]",
        "zero[()]",
        "x[np.array(1)]",
        "np.take(x, 1)",
        "x.flat[1]",
        "x.take(1)",
    ),
    *("np.where(x[0] > 0, x[0], 2.0)", "np.choose(0, [x[0], x[1]])", "np.select([x[0] > 0], [x[1]], 0.0)"),
    *(f"np.{f}({x})" for f in ("nan_to_num", "angle", "i0", "sinc", "fix", "real") for x in ("x[0]", "zero")),
    *(f"np.interp({x}, np.arange(3.0), x)" for x in ("x[0]", "zero")),
    *(
        f"np.{f}, keepdims=True)"
        for x in ("x[0]", "zero")
        for f in (f"median({x}", f"nanmedian({x}", f"quantile({x}, 0.5", f"nanpercentile({x}, 50", f"var({x}")
    ),
    *(f"np.clip({x}, 0, 1)" for x in ("x[0]", "zero")),
    *(
        f"{x}{f}"
        for f in (".astype(float)", ".round(1)", ".copy()", " ** 2", " > 0")
        for x in ("x[0]", "zero")
    ),
    *(
        f"np.{f}({x})"
        for f in ("squeeze", "transpose", "copy", "ravel", "flip")
        for x in ("x[0]", "zero", "x[:1]")
    ),
]


@pytest.mark.filterwarnings("ignore")
def test_results_are_scalars_where_those_of_numpy_are():
    x = np.array([1.0, -2.0, 3.0])
    wrong, seen = [], 0
    for text in WITHOUT_AXES:
        f = eval(f"lambda x, zero: {text}", {"np": np})
        try:
            e, y = f(x, x[:1].reshape(())), f(fg.tensor(x), fg.tensor(x[0].reshape(())))
        except Exception:
            continue
        if np.shape(e) == () and isinstance(y, fg.Tensor):
            seen += 1
            if isinstance(y._value, np.ndarray) != isinstance(e, np.ndarray):
                wrong.append(text)
    assert not wrong
    assert seen > 200


@pytest.mark.parametrize("initial", [-0.452, 0.3, 0, 2, np.float32(0.5), True])
@pytest.mark.parametrize("name", ["sum", "prod"])
def test_the_first_term_of_truth_values_is_one(name, initial):
    for x in (np.array([1.0, 2.0]), np.zeros(2), np.array([0, 3])):
        f = lambda x: getattr(np, name)(x, dtype=bool, initial=initial)
        expected, eager, compiled = both(f, x)
        assert eager == compiled == expected


def test_scalars_are_cast_where_a_mask_lets_them_be_written():
    def f(x):
        places = np.argwhere(x)
        np.putmask(places, places >= 0, np.sum(x) * 2)
        return x * places[0, 0]

    x = np.array([1.0])
    exactly(f(fg.tensor(x)), f(x))
    assert fg.grad(lambda x: np.sum(f(x)))(x) == 2


@pytest.mark.parametrize("shape", [(3, 1), (0, 1), (2, 3), (2, 2, 1), (1, 1, 2, 2), (2, 2), ()])
def test_a_value_that_does_not_fit_its_places_is_refused_though_nobody_reads_them(shape):
    def f(x, value):
        y = x * 1
        y[np.array([[0, 0], [0, 1]], np.uint8)] = value
        return x

    first, eager, compiled = both(f, np.ones(3), np.ones(shape))
    if isinstance(first, type):
        assert first is eager is compiled is ValueError
    else:
        exactly(eager, first)
        exactly(compiled, first)


@pytest.mark.parametrize("places", [np.array([0, 7], np.int32), 3, [[1, 2]], []], ids=repr)
@pytest.mark.parametrize("shape, axis", [((0, 0), 1), ((0, 3), -1), ((0, 3, 2), 1), ((3, 0), 0), ((0, 3), 0)])
def test_nothing_is_taken_of_nothing_wherever_it_would_be_taken(shape, axis, places):
    expected, *outs = both(lambda x: np.take(x, places, axis), np.zeros(shape))
    for out in outs:
        assert out is expected if isinstance(expected, type) else np.shape(out) == np.shape(expected)


@pytest.mark.parametrize("dtype", ["f4", "i1", "?", "c8", "f8"])
@pytest.mark.parametrize("nothing", [[], (), [[]]], ids=repr)
@pytest.mark.parametrize("name", ["dot", "inner", "vdot", "matmul", "outer", "vecdot"])
def test_a_list_without_elements_has_the_dtype_that_numpy_takes(name, nothing, dtype):
    for f in (lambda x: getattr(np, name)(x, nothing), lambda x: getattr(np, name)(nothing, x)):
        expected, *outs = both(f, np.zeros(0, dtype))
        for out in outs:
            if isinstance(expected, type):
                assert isinstance(out, type)
            else:
                assert (out.dtype, np.shape(out)) == (expected.dtype, np.shape(expected))


@pytest.mark.parametrize("dtype", ["u1", "u4", "u8", "i1", "i4", "i8", "f4", "?"])
@pytest.mark.parametrize("choice, default", [(5, 0), (5.0, 0), (True, 0), (-1, 2), ([5], 0)], ids=repr)
def test_numbers_among_the_choices_are_cast_as_arrays_are(choice, default, dtype):
    expected, *outs = both(
        lambda x: np.select([x == 1, x > 0], [x * 2, choice], default), np.array([0, 1, 2], dtype)
    )
    for out in outs:
        if isinstance(expected, type):
            assert out is expected
        else:
            exactly(out, expected)


POWERS_OF_TRUTH = {
    "a sum": lambda x: np.sum(x, dtype=bool) ** 2,
    "an element": lambda x: (x[0] > 0) ** 2,
    "an array": lambda x: (x > 0) ** 2,
    "any": lambda x: np.any(x) ** 3,
    "square": lambda x: np.square(np.any(x)),
}


@pytest.mark.parametrize("name", POWERS_OF_TRUTH)
def test_powers_of_truth_values_have_the_dtype_of_scalars_or_of_arrays(name):
    f, x = POWERS_OF_TRUTH[name], np.array([1.0, -2.0])
    expected, *outs = both(f, x)
    for out in (*outs, fg.vmap(f)(x[None])[0]):
        exactly(np.asarray(out), np.asarray(expected))


@pytest.mark.parametrize("make", [np.zeros_like, np.ones_like, np.empty_like, lambda x: np.full_like(x, 2.0)])
def test_whether_a_ravel_of_what_is_like_an_argument_is_a_copy_is_not_known_in_programs(make):
    def f(x):
        z = make(x)
        z.ravel()[0] = 5.0
        return z

    with pytest.raises(TypeError, match="depends on the memory layout"):
        fg.jit(f)(np.ones((2, 2)))
    exactly(f(fg.tensor(np.ones((2, 2))))[0, 0], 5.0)
    exactly(fg.jit(f)(np.ones(2))[0], 5.0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["c16", "f4", "f8", "i8"])
@pytest.mark.parametrize("shape, rowvar", [((0, 3), True), ((3, 0), False), ((0, 0), True), ((2, 0), True)])
def test_covariances_of_nothing_have_the_dtype_of_numpys(shape, rowvar, dtype):
    f = lambda x: np.cov(x, rowvar=rowvar)
    expected, *outs = both(f, np.zeros(shape, dtype))
    for out in (*outs, fg.vmap(f)(np.zeros((2, *shape), dtype))[0]):
        assert (out.dtype, out.shape) == (expected.dtype, expected.shape)


@pytest.mark.parametrize("name", ["putmask", "place", "copyto", "put", "x[0] = v", "fill"])
@pytest.mark.parametrize("value", [np.sum, np.copy, lambda x: x[:1], lambda x: np.where(x[0] > 0, x[0], 1.0)])
def test_scalars_that_were_computed_are_cast_where_arrays_are_not(name, value):
    def f(x):
        y = (x * 2).astype(np.float16)
        WRITES[name](y, value(x))
        return y

    x = np.ones((2, 2))
    expected, *outs = both(f, x)
    try:
        outs.append(fg.vmap(f)(x[None])[0])
    except (TypeError, ValueError) as error:
        outs.append(type(error))
    for out in outs:
        if isinstance(expected, type):
            assert isinstance(out, type)
        else:
            exactly(out, expected)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 2)])
def test_diagonals_of_what_is_read_only_are_not_filled_though_they_have_no_elements(shape):
    expected, *outs = both(lambda x: np.fill_diagonal(x.imag, 1.0), np.zeros(shape))
    assert expected is ValueError
    assert outs == [ValueError] * 2


@pytest.mark.parametrize("shape, axis", [((0, 0), -1), ((0, 0), 0), ((0, 3), 0), ((3, 0), 1), ((0, 2), 1)])
@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_weights_without_a_sum_average_nothing(shape, axis, weight):
    weights = np.full(shape[axis], weight)
    f = lambda x: np.average(x, axis=axis, weights=weights)
    ways = (f, lambda x: f(fg.tensor(x)), fg.jit(f), fg.grad(lambda x: np.sum(f(x))))
    if np.sum(weights) == 0:
        for way in ways:
            with pytest.raises(ZeroDivisionError):
                way(np.zeros(shape))
    else:
        for way in ways:
            assert np.size(way(np.zeros(shape))) == 0


def test_slopes_that_may_be_infinite_are_written_into_constants():
    def f(x):
        first = fg.hessian(lambda t: np.sum(np.exp(-t * t)))(x)
        return fg.hessian(lambda t: np.sum(t**3) * np.sum(first))(first)

    x = np.array([1.0, 0.5])
    with kernels_in_python():
        close(fg.jit(f)(x), f(x))


def test_what_raises_for_some_values_raises_for_an_example_of_a_batch():
    rows = np.array([[1.0, np.nan], [np.nan, np.nan]])
    for name in ("nanargmax", "nanargmin"):
        with pytest.raises(ValueError, match="All-NaN"):
            fg.vmap(getattr(np, name))(rows)
        exactly(fg.vmap(getattr(np, name))(rows[:1]), [0])
    with pytest.raises(ZeroDivisionError):
        fg.vmap(lambda w: np.average(np.ones(2), weights=w))(np.array([[1.0, 1.0], [1.0, -1.0]]))
    with pytest.raises(ZeroDivisionError):
        fg.vmap(fg.vmap(lambda w: np.average(np.ones(2), weights=w)))(np.array([[[1.0, 1.0], [1.0, -1.0]]]))
    with pytest.raises(ValueError, match="< 0"):
        rng = np.random.default_rng(0)
        fg.vmap(lambda s: fg.random.normal(rng, scale=s))(np.array([1.0, -1.0]))


@pytest.mark.parametrize(
    "convert", [np.asarray, np.ascontiguousarray, fnp.ascontiguousarray, fnp.asfortranarray]
)
def test_an_array_made_of_a_scalar_can_be_written_to(convert):
    made = convert(np.min(fg.tensor(np.ones(2))))
    made += 1
    made.fill(3.0)
    exactly(made, np.full(made.shape, 3.0))


ELEMENTS = {
    "x[0] = v": lambda x, v: x.__setitem__(0, v),
    "x[...] = v": lambda x, v: x.__setitem__(..., v),
    "x[:0] = v": lambda x, v: x.__setitem__(slice(0), v),
    "x[argmax] = v": lambda x, v: x.__setitem__(np.argmax(x), v),
    "x[:] = [v, 1]": lambda x, v: x.__setitem__(slice(None), [v, 1]),
    "x[True] = v": lambda x, v: x.__setitem__(True, v),
    "x[[0]] = v": lambda x, v: x.__setitem__([0], v),
    "x[:1][0] = v": lambda x, v: x[:1].__setitem__(0, v),
    "fill": lambda x, v: x.fill(v),
    "put": lambda x, v: np.put(x, [0], v),
    "flat[0] = v": lambda x, v: x.flat.__setitem__(0, v),
    "flat[:] = v": lambda x, v: x.flat.__setitem__(slice(None), v),
    "pad": lambda x, v: np.pad(x, 1, constant_values=v),
    "max": lambda x, v: np.max(x, initial=v),
    "sum": lambda x, v: np.sum(x, initial=v),
    "an array without axes": lambda x, v: x.__setitem__(0, np.reshape(v, ())),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ELEMENTS)
@pytest.mark.parametrize("dtype", ["i1", "u1"])
def test_scalars_become_integers_with_the_errors_of_numpy(name, dtype):
    def f(x, s):
        new = ELEMENTS[name](x, np.sum(s))
        return x if new is None else new

    x = np.array([1, 0], dtype)
    compiled, mapped = fg.jit(f), fg.jit(fg.vmap(f))
    with kernels_in_python():
        for v in (2.5, -128.9, np.nan, np.inf, 1e30, 300.0, 300):
            s = np.array([v])
            try:
                expected = f(x.copy(), s)
            except (ValueError, OverflowError) as error:
                expected = type(error)
            ways = [
                lambda s=s: f(fg.tensor(x), fg.tensor(s)),
                lambda s=s: compiled(x, s),
                lambda s=s: fg.vmap(f)(x[None], s[None])[0],
                lambda s=s: mapped(x[None], s[None])[0],
            ]
            if s.dtype.kind == "f":
                total = lambda t: (np.sum(t), f(fg.tensor(x), t))
                ways.append(lambda s=s, total=total: fg.value_and_grad(total, has_aux=True)(s)[0][1])
            for way in ways:
                if isinstance(expected, type):
                    with pytest.raises((ValueError, OverflowError)) as found:
                        way()
                    assert name.startswith("flat") or found.type is expected
                elif abs(v) < 1e3 and (v > 0 or dtype[0] == "i"):
                    exactly(np.asarray(way()), np.asarray(expected))
                else:  # what C makes of it
                    way()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["jit", "vmap", "jit(vmap)"])
def test_scalars_that_do_not_fit_raise_where_a_branch_runs(name):
    def write(c, i, v):
        c[i] = v * 100
        return c

    def f(x, s):
        y = np.zeros_like(x)
        steps = lambda: lax.fori_loop(0, 2, lambda i, c: write(c, i, s[0]), y)
        return lax.cond(np.sum(s) > 0, steps, lambda: y)

    run = {"jit": fg.jit(f), "vmap": fg.vmap(f), "jit(vmap)": fg.jit(fg.vmap(f))}[name]
    x, batch = np.zeros(2, np.int8), (None,) * ("vmap" in name)
    for v, y in ((1.0, 100), (-2.0, 0), (-np.inf, 0), (2.0, None), (np.inf, None)):
        args = x[(*batch, ...)], np.array([v])[(*batch, ...)]
        if y is None:
            with pytest.raises(OverflowError):
                run(*args)
        else:
            exactly(np.asarray(run(*args)), np.full_like(args[0], y))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)])
def test_an_array_is_not_indexed_by_a_tensor_without_elements_that_it_takes_for_integers(shape):
    mask, y = np.zeros(shape, bool), np.ones(shape)
    with pytest.raises(IndexError, match=r"mask\.numpy\(\)"):
        y[fg.tensor(mask)]
    assert y[fg.tensor(mask).numpy()].shape == fg.tensor(y)[fg.tensor(mask)].shape == y[mask].shape
    assert np.asarray(fg.tensor(mask)).shape == shape
    exactly(np.ones((2, 2))[fg.tensor(np.eye(2, dtype=bool))], np.ones(2))


@pytest.mark.parametrize("write", [lambda v: v.put([0], -1.0), lambda v: np.fill_diagonal(v, -1.0)])
def test_what_was_written_to_by_flat_places_lies_in_memory_as_before(write):
    def f(x):
        turned = x.T
        write(turned)
        flat = turned.reshape(-1)
        x[...] = -3.0
        return flat

    with pytest.raises(TypeError, match="depends on the memory layout"):
        np.asarray(fg.jit(f)(np.ones((2, 2))))
    exactly(np.asarray(f(fg.tensor(np.ones((2, 2))))), f(np.ones((2, 2))))


@pytest.mark.parametrize("shape", [(0,), (2,), (0, 3)])
@pytest.mark.parametrize(
    "f", [lambda x: x + -4, lambda x: np.maximum(x, 300), lambda x: x > -1], ids=["add", "maximum", "greater"]
)
def test_integers_beyond_a_dtype_are_refused_beside_arrays_without_elements_too(f, shape):
    expected, *outs = both(f, np.zeros(shape, np.uint8))
    for out in outs:
        assert out is expected if isinstance(expected, type) else np.shape(out) == np.shape(expected)


@pytest.mark.parametrize("index", [(Ellipsis, True), (True,), (np.array([], np.int32), True)], ids=repr)
@pytest.mark.parametrize("shape", [(0,), (0, 3), (2,)])
def test_true_in_an_index_of_a_write_keeps_the_shape(index, shape):
    def f(x):
        y = x * 1
        y[index] /= 1.5
        return y

    expected, *outs = both(f, np.ones(shape))
    for out in outs:
        exactly(out, expected)
