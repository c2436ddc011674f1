"""Products, quotients, orders and running results, against NumPy and loops."""

import numpy as np
import pytest

import fgrad as fg
from fgrad import lax
from fgrad.testing import check_grads

RNG = np.random.default_rng(0)
RUNS = {"eager": lambda f: f, "compiled": fg.jit}
RUNNING = {
    "cumsum": np.add,
    "cumprod": np.multiply,
    "cummax": np.maximum,
    "cummin": np.minimum,
    "cumlogsumexp": np.logaddexp,
}


def close(x, y):
    np.testing.assert_allclose(np.asarray(x), y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", RUNNING)
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_running_results(name, run, axis):
    x = RNG.standard_normal((4, 7))
    function = getattr(lax, name)
    close(RUNS[run](lambda x: function(x, axis))(x), RUNNING[name].accumulate(x, axis))
    expected = np.flip(RUNNING[name].accumulate(np.flip(x, axis), axis), axis)
    close(RUNS[run](lambda x: function(x, axis, reverse=True))(x), expected)
    check_grads(lambda x: function(x, axis), (x,))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64])
def test_quotients_of_integers_are_rounded_to_zero(dtype):
    x, y = np.array([7, 100, 3, 0, 5], dtype), np.array([2, 3, 5, 4, 5], dtype)
    if np.dtype(dtype).kind == "i":
        x, y = np.concatenate([x, -x, x, -x]), np.concatenate([y, y, -y, -y])
    found = np.asarray(lax.div(x, y))
    np.testing.assert_array_equal(found, [int(int(a) / int(b)) for a, b in zip(x, y, strict=True)])
    assert found.dtype == dtype


def test_quotients_of_floats():
    x, y = RNG.standard_normal(3), RNG.standard_normal(3)
    close(lax.div(x, y), x / y)
    close(lax.div(x, 2), x / 2)
    check_grads(lax.div, (x, y))


@pytest.mark.parametrize(
    ("numbers", "subscripts"),
    [
        ((((1,), (1,)), ((0,), (2,))), "abc,dba->acd"),
        ((((0, 2), (2, 0)), ((), ())), "abc,cda->bd"),
        ((((), ()), ((0, 1), (2, 1))), "abc,dba->abcd"),
        ((((), ()), ((), ())), "abc,def->abcdef"),
        ((((2, 0, 1), (1, 2, 0)), ((), ())), "abc,bca->"),
    ],
)
@pytest.mark.parametrize("run", RUNS)
def test_products_over_pairs_of_axes(numbers, subscripts, run):
    lengths = dict(zip("abcdef", (2, 3, 4, 5, 2, 3), strict=True))
    x, y = (RNG.standard_normal([lengths[c] for c in part]) for part in subscripts.split("->")[0].split(","))
    found = RUNS[run](lambda x, y: lax.dot_general(x, y, numbers))(x, y)
    close(found, np.einsum(subscripts, x, y))


def test_orders_by_several_keys():
    first, second, third = (
        RNG.integers(0, 3, (3, 20)),
        RNG.integers(0, 2, (3, 20)),
        RNG.standard_normal((3, 20)),
    )
    for run in RUNS.values():
        for keys in (1, 2):
            found = run(lambda *xs, keys=keys: lax.sort(xs, num_keys=keys))(first, second, third)
            for i in range(3):
                order = np.lexsort((second[i], first[i]) if keys == 2 else (np.arange(20), first[i]))
                for x, y in zip(found, (first, second, third), strict=True):
                    np.testing.assert_array_equal(np.asarray(x)[i], y[i][order])
    (column,) = lax.sort([third], 0)
    np.testing.assert_array_equal(np.asarray(column), np.sort(third, 0))
    check_grads(lambda x: lax.sort([first, x])[1], (third,))
