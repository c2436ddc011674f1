"""bfloat16 in the stand-in for JAX: what JAX gives, to the last bit where an operation is rounded once."""

import pickle
import sys

import numpy as np
import pytest

from fgrad.compat.jax import installed

ml_dtypes = pytest.importorskip("ml_dtypes")
# the library itself may be installed beside; another test may have loaded it
if "jax" in sys.modules:
    pytest.skip("JAX itself is loaded", allow_module_level=True)
with installed():
    import jax
    from jax import lax
    from jax import numpy as jnp

X = jnp.array([0.1, 0.2, 3.3], dtype=jnp.bfloat16)
VALUES = [0.10009765625, 0.2001953125, 3.296875]


def is_short(x, values):
    """Check that an array is of bfloat16 and has these values."""
    for leaf in jax.tree.leaves(x):
        assert leaf.dtype == jnp.bfloat16
        assert np.asarray(leaf).dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(np.asarray(leaf).astype(np.float32), np.asarray(values, np.float32))


def test_files_hold_arrays(tmp_path):
    jnp.save(tmp_path / "x.npy", X)
    is_short(jnp.load(tmp_path / "x.npy"), VALUES)
    np.savez(tmp_path / "x.npz", x=np.ones(2))
    assert jnp.load(tmp_path / "x.npz")["x"].tolist() == [1, 1]


def test_arrays_hold_rounded_numbers():
    is_short(X, VALUES)
    is_short(jnp.asarray(np.asarray(X)), VALUES)
    is_short(jnp.float32(X[0]).astype("bfloat16"), VALUES[0])
    is_short(pickle.loads(pickle.dumps(X)), VALUES)
    is_short(jnp.full(2, 0.1, jnp.bfloat16), [VALUES[0]] * 2)
    is_short(jnp.ones_like(X), [1, 1, 1])
    is_short(jnp.arange(3, dtype=jnp.bfloat16), [0, 1, 2])
    assert jnp.finfo(jnp.bfloat16).eps == 2**-7
    assert jnp.issubdtype(X.dtype, jnp.floating)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("function", "values"),
    [
        (lambda x: x * 0.3, [0.0301513671875, 0.060302734375, 0.9921875]),
        (lambda x: x * x, [0.010009765625, 0.0400390625, 10.875]),
        (lambda x: 2**x, [1.0703125, 1.1484375, 9.8125]),
        (lambda x: x.at[0].add(0.7), [0.80078125, 0.2001953125, 3.296875]),
        (jnp.cumsum, [0.10009765625, 0.30078125, 3.59375]),
        (jnp.mean, 1.1953125),
        (lambda x: jnp.stack([x[0], x[2] / 7]), [0.10009765625, 0.470703125]),
        (lambda x: jnp.where(x > 0.15, x, 0), [0, 0.2001953125, 3.296875]),
        (lambda x: lax.scan(lambda c, a: (c * a, c), x[2], x)[1], [3.296875, 0.330078125, 0.06591796875]),
        (lambda x: lax.cond(x[0] > 0, lambda: x, lambda: x * 2), VALUES),
        (jax.vmap(jnp.square), [0.010009765625, 0.0400390625, 10.875]),
        (jax.grad(lambda x: jnp.sum(x * x)), [0.2001953125, 0.400390625, 6.59375]),
        (lambda x: jax.jvp(lambda x: x * x, (x,), (x,))[1], [0.02001953125, 0.080078125, 21.75]),
        (lambda x: jax.vjp(lambda x: x / 3, x)[1](x)[0], [0.033447265625, 0.06689453125, 1.1015625]),
    ],
)  # fmt: skip
def test_functions(function, values, compiled):
    is_short((jax.jit(function) if compiled else function)(X), values)


def test_promotion():
    for other, dtype in (
        *((1.0, "bfloat16"), (np.int32(1), "bfloat16"), (np.float16(1), "float32")),
        *((np.float32(1), "float32"), (np.complex64(1), "complex64")),
    ):
        assert (X + other).dtype == dtype
    assert (X > 0.15).tolist() == [False, True, True]
    assert jnp.argmax(X).dtype == np.int32
    assert jnp.sum(X, dtype=jnp.float32).dtype == np.float32


def test_shapes_and_rules_of_the_user_s_own():
    known = jax.eval_shape(lambda x: x * 2, X)
    assert known == jax.ShapeDtypeStruct((3,), jnp.bfloat16)

    @jax.custom_vjp
    def twice(x):
        return x * 2

    twice.defvjp(lambda x: (x * 2, None), lambda _, ct: (ct * 3,))
    is_short(jax.grad(lambda x: jnp.sum(twice(x)))(X), [3, 3, 3])

    @jax.custom_jvp
    def thrice(x):
        return x * 3

    thrice.defjvp(lambda primals, tangents: (thrice(*primals), tangents[0] * 5))
    is_short(jax.grad(lambda x: jnp.sum(thrice(x)))(X), [5, 5, 5])
    closed = jax.make_jaxpr(lambda x: x + x)(X)
    assert closed.out_avals[0].str_short() == "bf16[3]"
    is_short(jax.core.eval_jaxpr(closed.jaxpr, closed.consts, X), 2 * np.float32(VALUES))


def test_refusals():
    with pytest.raises(NotImplementedError, match="bfloat16"):
        jnp.linalg.inv(jnp.ones((2, 2), jnp.bfloat16))
    with pytest.raises(TypeError, match="bfloat16"):
        jax.jit(lambda p: lax.cond(p, lambda: X, lambda: X.astype(jnp.float32)))(True)
    with pytest.raises(TypeError, match="bfloat16"):
        lax.scan(lambda c, _: (c * jnp.float32(2), None), X, None, length=2)


def test_random_numbers_are_those_of_jax():
    key = jax.random.key(3)
    is_short(jax.random.uniform(key, (4,), jnp.bfloat16), [0.4921875, 0.765625, 0.8671875, 0.1875])
    is_short(
        jax.random.uniform(key, (4,), "bfloat16", minval=-2.0, maxval=3.0),
        [0.46875, 1.828125, 2.34375, -1.0625],
    )
    is_short(jax.random.normal(key, (4,), jnp.bfloat16), [-0.0146484375, 0.73046875, 1.125, -0.87890625])
    drawn = jax.random.truncated_normal(key, -2.0, 2.0, (4,), jnp.bfloat16)
    is_short(drawn, [-0.01953125, 0.6875, 1.046875, -0.828125])
    weights = jax.nn.initializers.lecun_normal()(key, (2, 3), jnp.bfloat16)
    is_short(weights[1], [-0.66796875, 0.357421875, -0.2109375])
    is_short(jax.nn.initializers.he_uniform()(key, (2, 3), jnp.bfloat16)[1], [-1.0859375, 0.625, -0.37890625])
    with pytest.raises(NotImplementedError, match="bfloat16"):
        jax.random.exponential(key, (4,), jnp.bfloat16)


def test_products_with_integers_are_short():
    for x in (jnp.arange(4), jnp.arange(4, dtype="uint8"), jnp.arange(4) > 1):
        for f in (jnp.convolve, jnp.correlate, jnp.polymul):
            assert jax.jit(f)(x, jnp.ones(4, jnp.bfloat16)).dtype == jnp.bfloat16
