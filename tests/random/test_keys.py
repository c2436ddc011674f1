"""Keys: known answers of the cipher, reproducibility in every shape, independence, mapping and staging."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fgrad as fg
from fgrad import random
from fgrad.core.dispatch import bind

# the known answers that Random123 publishes for threefry2x32, 20 rounds: counter, key, block
KNOWN = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize(("count", "key", "expected"), KNOWN)
def test_known_answers(count, key, expected):
    key, count = np.array(key, np.uint32), np.array(count, np.uint32)
    np.testing.assert_array_equal(bind("threefry", key, count), expected)
    many = bind("threefry", np.stack([key, key + np.uint32(1)]), count)  # the path of many keys
    np.testing.assert_array_equal(many[0], expected)


def test_blocks_beyond_the_size_of_the_cache_are_the_same():
    key = random.key(3)
    count = np.zeros((40_000, 2), np.uint32)
    count[:, 1] = np.arange(40_000)
    several = bind("threefry", np.broadcast_to(key, (40_000, 2)), count)
    np.testing.assert_array_equal(bind("threefry", key, count), several)


def test_seeds():
    np.testing.assert_array_equal(random.key(1), [0, 1])
    np.testing.assert_array_equal(random.key(2**63 + 5), [1 << 31, 5])
    assert isinstance(random.key(1), np.ndarray)
    seeds = np.array([0, 1, 2**40 + 3])
    mapped = fg.vmap(random.key)(seeds)
    np.testing.assert_array_equal(mapped, np.stack([random.key(int(s)) for s in seeds]))
    np.testing.assert_array_equal(random.key(fg.tensor(7)).numpy(), random.key(7))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: random.key(-1), ValueError, "between 0 and"),
        (lambda: random.key(1 << 64), ValueError, "between 0 and"),
        (lambda: random.key(1.5), TypeError, "float"),
        (lambda: random.key([1, 2]), ValueError, "one integer"),
        (lambda: random.key(fg.tensor(1.5)), TypeError, "one integer"),
        (lambda: random.wrap_key_data(np.arange(3)), ValueError, "two words"),
        (lambda: random.wrap_key_data(np.ones(2)), TypeError, "integers"),
        (lambda: random.split(7), TypeError, "fgrad.random.key"),
        (lambda: random.bits(random.split(random.key(0))), TypeError, "vmap"),
        (lambda: random.bits(random.key(0), 3, np.int32), TypeError, "unsigned"),
        (lambda: random.fold_in(random.key(0), -1), ValueError, "between 0"),
        (lambda: random.fold_in(random.key(0), 1.0), TypeError, "integer"),
        (lambda: random.fold_in(random.key(0), np.arange(2)), ValueError, "vmap"),
        (lambda: random.normal(7), TypeError, "numpy.random.default_rng"),
        (lambda: random.normal(np.random.RandomState(0)), TypeError, "RandomState"),
        (lambda: random.normal(np.arange(2)), TypeError, "int64"),
    ],
)
def test_what_is_no_key_or_seed_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_key_data_and_back():
    key = random.key(12345678901)
    np.testing.assert_array_equal(random.wrap_key_data(random.key_data(key).astype(np.int64)), key)
    assert random.wrap_key_data([1, 2]).dtype == np.uint32


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_bits_do_not_depend_on_the_shape(dtype):
    key = random.key(4)
    line = random.bits(key, 24, dtype)
    assert line.dtype == dtype
    np.testing.assert_array_equal(random.bits(key, (2, 3, 4), dtype).ravel(), line)
    np.testing.assert_array_equal(random.bits(key, 7, dtype), line[:7])
    assert random.bits(key, None, dtype) == line[0]
    assert random.bits(key, (0, 3), dtype).shape == (0, 3)


def test_every_bit_is_set_half_of_the_time():
    words = random.bits(random.key(0), 20_000, np.uint64)
    ones = [np.count_nonzero(words >> np.uint64(i) & np.uint64(1)) for i in range(64)]
    assert np.max(np.abs(np.array(ones) - 10_000)) < 5 * np.sqrt(5000)


def test_split_and_fold_in_give_new_streams():
    key = random.key(0)
    keys = random.split(key, 100)
    np.testing.assert_array_equal(random.split(key, 3), keys[:3])
    np.testing.assert_array_equal(random.split(key, (2, 5)).reshape(10, 2), keys[:10])
    folded = np.stack([random.fold_in(key, i) for i in range(100)])
    everything = np.concatenate([keys, folded, random.bits(key, 200).reshape(100, 2), key[None]])
    assert len(np.unique(everything, axis=0)) == 301
    np.testing.assert_array_equal(fg.vmap(lambda i: random.fold_in(key, i))(np.arange(100)), folded)
    streams = fg.vmap(lambda k: random.normal(k, size=1000))(keys[:30])
    apart = np.corrcoef(streams) - np.eye(30)
    assert np.max(np.abs(apart)) < 5 / np.sqrt(1000)
    assert stats.kstest(streams.ravel(), "norm").pvalue > 1e-3


SAMPLERS = {
    "normal": lambda k: random.normal(k, 1.0, 2.0, (3, 5)),
    "uniform": lambda k: random.uniform(k, -1.0, 2.0, (3, 5)),
    "float32": lambda k: random.normal(k, size=(3,), dtype=np.float32),
    "gamma": lambda k: random.gamma(k, np.array([0.3, 2.0])),
    "beta": lambda k: random.beta(k, 0.3, 2.0, 4),
    "dirichlet": lambda k: random.dirichlet(k, np.array([0.01, 0.02, 3.0]), 2),
    "truncated_normal": lambda k: random.truncated_normal(k, 1.0, np.inf, size=3),
    "student_t": lambda k: random.student_t(k, 3.0, size=3),
    "bernoulli": lambda k: random.bernoulli(k, 0.3, (2, 3)),
    "categorical": lambda k: random.categorical(k, np.log([0.1, 0.2, 0.7]), size=4),
    "integers": lambda k: random.randint(k, 3, 9, (2, 3)),
    "poisson": lambda k: random.poisson(k, np.array([1.0, 40.0])),
    "binomial": lambda k: random.binomial(k, 10, np.array([0.1, 0.5])),
    "permutation": lambda k: random.permutation(k, np.arange(12.0).reshape(6, 2)),
    "choice": lambda k: random.choice(k, np.arange(5.0), (2,), False, np.array([0.1, 0.2, 0.3, 0.2, 0.2])),
    "split": lambda k: random.split(k, 3),
    "chain": lambda k: random.normal(random.fold_in(random.split(k)[1], 3)),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_mapped_over_keys_as_a_loop_and_staged_as_eager(name):
    f, keys = SAMPLERS[name], random.split(random.key(9), 4)
    loop = np.stack([f(k) for k in keys])
    np.testing.assert_array_equal(np.stack([f(k) for k in keys]), loop)
    np.testing.assert_array_equal(fg.vmap(f)(keys), loop)
    np.testing.assert_array_equal(fg.make_graph(f)(keys[0])(keys[1]), loop[1])
    np.testing.assert_array_equal(fg.vmap(fg.vmap(f))(keys.reshape(2, 2, 2)).reshape(loop.shape), loop)
    from_tensor = f(fg.tensor(keys[2]))
    assert isinstance(from_tensor, fg.Tensor)
    np.testing.assert_array_equal(from_tensor.numpy(), loop[2])
    assert len(np.unique(loop.astype(float).reshape(4, -1), axis=0)) == 4 or name == "choice"


def test_samples_do_not_depend_on_the_shape():
    key = random.key(5)
    for f in (random.normal, random.uniform, random.exponential, random.gumbel):
        line = f(key, size=12)
        np.testing.assert_array_equal(f(key, size=(3, 4)).ravel(), line)
        np.testing.assert_array_equal(f(key, size=5), line[:5])


def test_a_mapped_parameter_gives_the_samples_of_a_loop():
    key, shapes = random.key(6), np.array([0.5, 1.0, 20.0])
    loop = np.array([random.gamma(key, a) for a in shapes])
    np.testing.assert_array_equal(fg.vmap(lambda a: random.gamma(key, a))(shapes), loop)
