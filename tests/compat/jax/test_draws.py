"""Keys with a dtype of their own in the stand-in for JAX: values are what JAX 0.10.2 gives."""

import pickle
import sys

import numpy as np
import pytest

from fgrad.compat.jax import installed

# the library itself may be installed beside; another test may have loaded it
if "jax" in sys.modules:
    pytest.skip("JAX itself is loaded", allow_module_level=True)
with installed():
    import jax
    import jax.extend
    import jax.numpy as jnp
    from jax import lax
    from jax.experimental import checkify
    from jax.flatten_util import ravel_pytree

KEY = jax.random.key(3)
KEYS = jax.random.split(KEY, 4)
FIRST, SECOND = [3716834203, 3481239269], [1946498123, 2217676430]


def words(keys):
    assert keys.dtype == KEY.dtype
    return np.asarray(jax.random.key_data(keys)).tolist()


def again(function):
    return jax.extend.core.jaxpr_as_fun(jax.make_jaxpr(function)())()


def test_what_keys_are():
    assert jnp.issubdtype(KEY.dtype, jax.dtypes.prng_key)
    assert jax.dtypes.issubdtype(KEY.dtype, jax.dtypes.extended)
    assert not jnp.issubdtype(KEY.dtype, np.integer)
    assert not jnp.issubdtype(jnp.uint32, jax.dtypes.prng_key)
    assert KEY.dtype != jnp.uint32
    assert jnp.result_type(KEY) == jnp.result_type(KEY.dtype) == KEY.dtype
    assert (KEYS.shape, KEYS.size, KEYS.nbytes, KEY.shape) == ((4,), 4, 32, ())
    assert repr(KEY) == f"{KEY}" == "Array((), dtype=key<fry>) overlaying:\n[0 3]"
    assert str(jax.typeof(KEY)) == "key<fry>[]"
    assert (str(jax.typeof(KEYS[0])), repr(jax.typeof(KEY))) == ("key<fry>[]", "ShapedArray(key<fry>[])")
    assert str(jax.core.ShapedArray((3,), float)) == "float32[3]"
    assert jax.eval_shape(jax.random.split, KEY).dtype == KEY.dtype
    assert pickle.loads(pickle.dumps(KEY.dtype)) is KEY.dtype
    assert words(pickle.loads(pickle.dumps(KEYS))) == words(KEYS)
    assert words(jax.device_get(KEY)) == [0, 3]
    assert np.asarray(KEYS[0] == KEYS).tolist() == [True, False, False, False]
    with jax.enable_custom_prng():
        assert jax.random.PRNGKey(0).dtype == KEY.dtype
    assert jax.random.PRNGKey(0).dtype == jnp.uint32


def test_numbers_that_keys_draw():
    assert words(KEYS[:2]) == [FIRST, SECOND]
    assert words(jax.random.fold_in(KEY, 1)) == SECOND
    drawn = [-2.3783398, -1.9432216, -0.58778137, -0.6020292]
    np.testing.assert_allclose(np.asarray(jax.vmap(jax.random.normal)(KEYS)), drawn, rtol=1e-6)
    raw = jax.random.PRNGKey(3)
    assert (jax.random.uniform(KEY, (5,)) == jax.random.uniform(raw, (5,))).all()
    assert words(jax.random.wrap_key_data(jax.random.key_data(KEYS))) == words(KEYS)
    assert words(jax.jit(jax.random.key)(3)) == [0, 3]


@pytest.mark.parametrize(
    ("moved", "found"),
    [
        (lambda: jnp.stack([KEY, KEYS[0]], -1), [[0, 3], FIRST]),
        (lambda: jnp.where(jnp.arange(2) > 0, KEYS[:2], KEY), [[0, 3], SECOND]),
        (lambda: KEYS.at[1].set(KEY)[:2], [FIRST, [0, 3]]),
        (lambda: jnp.take(KEYS, jnp.array([1, 9])), [SECOND, [2**32 - 1] * 2]),
        (lambda: jnp.zeros_like(KEYS, shape=1), [[0, 0]]),
        (lambda: jnp.full_like(KEYS, KEY, shape=1), [[0, 3]]),
        (lambda: jnp.broadcast_to(KEY, (1, 2)), [[[0, 3], [0, 3]]]),
        (lambda: KEYS.reshape(2, 2).T[0], words(KEYS[::2])),
        (lambda: lax.cond(True, lambda k: jax.random.split(k)[1], lambda k: k, KEY), SECOND),
        (lambda: lax.fori_loop(0, 1, lambda _, k: jax.random.fold_in(k, 1), KEY), SECOND),
        (lambda: lax.scan(lambda k, _: (jax.random.split(k)[1], k), KEY, length=1)[0], SECOND),
        (lambda: lax.scan(lambda k, _: (jax.random.split(k)[1], k), KEY, length=1)[1], [[0, 3]]),
        (lambda: jax.vmap(lambda k: lax.all_gather(k, "i"), axis_name="i")(KEYS[:1]), [[FIRST]]),
        (lambda: jax.vmap(lambda k: k, in_axes=-1, out_axes=-1)(KEYS[:2]), [FIRST, SECOND]),
        (lambda: jax.jit(lambda i: KEYS[i])(1), SECOND),
        (lambda: again(lambda: jax.random.split(KEY)[1])[0], SECOND),
    ],
)  # fmt: skip
def test_keys_are_moved(moved, found):
    assert words(moved()) == found


@pytest.mark.parametrize(
    "refused",
    [
        lambda: KEYS + 1,
        lambda: KEYS < KEY,
        lambda: -KEY,
        lambda: KEY**2,
        lambda: bool(KEY),
        lambda: int(KEY),
        lambda: np.asarray(KEY),
        lambda: KEY.astype(jnp.uint32),
        lambda: jnp.zeros(2).astype(KEY.dtype),
        lambda: jnp.ones(2, KEY.dtype),
        lambda: KEYS.sum(),
        lambda: jnp.argmax(KEYS),
        lambda: jnp.sort(KEYS),
        lambda: jnp.argsort(KEYS),
        lambda: lax.top_k(KEYS, 1),
        lambda: lax.cumsum(KEYS),
        lambda: KEYS.at[0].set(1),
        lambda: KEYS.at[0].add(KEY),
        lambda: jnp.where(True, KEY, 1),
        lambda: jnp.concatenate([KEYS, jnp.zeros(2)]),
        lambda: jnp.append(KEYS, KEY),
        lambda: jnp.linalg.inv(KEYS.reshape(2, 2)),
        lambda: jnp.arange(KEY),
        lambda: jax.nn.one_hot(KEYS, 3),
        lambda: jax.vmap(lambda k: lax.psum(k, "i"), axis_name="i")(KEYS),
        lambda: jax.grad(lambda k: 1.0)(KEY),
        lambda: jax.random.normal(KEYS),
        lambda: jax.random.fold_in(KEYS, 1),
        lambda: jax.random.wrap_key_data(jnp.zeros(3, jnp.uint32)),
        jax.jit(lambda: lax.cond(jnp.array(True), lambda: KEY, lambda: jnp.uint32(1))),
    ],
)
def test_keys_are_not_computed_with(refused):
    with pytest.raises((TypeError, ValueError), match=r"key|promotion|types"):
        refused()


def test_derivatives_beside_keys():
    def f(x, key):
        return jnp.sin(x * jax.random.normal(key))

    a = float(jax.random.normal(KEY))
    for run in (
        f,
        jax.jit(f),
        jax.checkpoint(f),
        lambda x, k: jax.closure_convert(lambda y: f(y, k), x)[0](x),
    ):
        assert float(jax.grad(run)(0.5, KEY)) == pytest.approx(a * np.cos(0.5 * a), rel=1e-5)
    assert jax.vjp(f, 0.5, KEY)[1](1.0)[1].dtype == jax.dtypes.float0
    converted, outside = jax.closure_convert(lambda x: f(x, KEY), 1.0)
    assert float(converted(2.0, *outside)) == pytest.approx(float(f(2.0, KEY)))
    assert ravel_pytree(KEY)[0].shape == (1,)


def test_checks_tell_of_keys():
    @checkify.checkify
    @jax.jit
    def f(holds, key):
        checkify.check(holds, "{} and {named}", key, named=key)

    assert f(True, KEY)[0].get() is None
    assert f(False, KEY)[0].get() == f"{KEY} and {KEY} (`check` failed)"


def test_keys_where_64_bits_are_enabled():
    with jax.enable_x64():
        key = jax.random.key(3)
        assert words(jax.jit(jax.random.split)(key)) == [FIRST, SECOND]
        assert float(jax.random.normal(key)) == pytest.approx(1.1048739767803086)
        assert float(again(lambda: jax.random.normal(key))[0]) == pytest.approx(1.1048739767803086)


@pytest.mark.parametrize("name", ["binomial", "ball", "double_sided_maxwell", "multinomial"])
def test_what_is_not_drawn(name):
    with pytest.raises(NotImplementedError, match=name):
        getattr(jax.random, name)(KEY)


def test_numbers_are_drawn_of_one_key():
    for draw in (jax.random.uniform, jax.random.split):
        with pytest.raises(ValueError, match=r"a single key, not an array of keys \(4,\)"):
            draw(KEYS)
