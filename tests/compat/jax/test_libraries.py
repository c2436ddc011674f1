"""What libraries on JAX import and call, compared with formulas and with NumPy."""

import sys

import numba
import numpy as np
import pytest

from fgrad.compat.jax import installed

# the library itself may be installed beside; another test may have loaded it
if "jax" in sys.modules:
    pytest.skip("JAX itself is loaded", allow_module_level=True)
with installed():
    import jax
    import jax.api_util
    import jax.extend.core
    import jax.scipy.sparse.linalg
    import jax.test_util
    from jax import lax, monitoring
    from jax import numpy as jnp
    from jax._src import core, public_test_util
    from jax._src import dtypes as core_dtypes
    from jax.example_libraries import optimizers, stax
    from jax.experimental import checkify, layout, mesh_utils, multihost_utils, sparse

X = np.array([0.5, -1.0, 2.0], np.float32)


def close(x, y):
    np.testing.assert_allclose(np.asarray(x), y, rtol=1e-5, atol=1e-6)


# ---- checks that depend on values


@pytest.mark.parametrize("compiled", [False, True])
def test_checkify_returns_the_first_error(compiled):
    def root(x):
        checkify.check(jnp.all(x >= 0), "negative: {least}, {at}", least=jnp.min(x), at={"x": x[0]})
        checkify.check(jnp.all(x < 9), "too great")
        return x / 2

    checked = checkify.checkify(jax.jit(root) if compiled else root)
    error, out = checked(jnp.array([4.0, 1.0]))
    assert error.get() is None
    checkify.check_error(error)
    close(out, [2, 0.5])
    error, _ = checked(jnp.array([-4.0, 99.0]))
    assert error.get().startswith("negative: -4.0, {'x': Array(-4., dtype=float32)}")
    with pytest.raises(ValueError, match=r"negative: -4\.0"):
        error.throw()


def test_checks_without_checkify():
    checkify.check(True, "holds")
    with pytest.raises(checkify.JaxRuntimeError, match="is 3"):
        checkify.check(False, "is {}", 3)
    with pytest.raises(ValueError, match="needs"):
        jax.jit(lambda x: checkify.check(x > 0, "no"))(1.0)
    with pytest.raises(NotImplementedError, match="nan"):
        checkify.checkify(jnp.sin, errors=checkify.nan_checks)


# ---- derivatives


def test_complex_gradients():
    z = jnp.array([1 + 2j, -0.5j])
    close(jax.grad(lambda z: jnp.sum(jnp.abs(z) ** 2))(z), 2 * np.conj(np.asarray(z)))
    out, pullback = jax.vjp(lambda z: z * z, z)
    close(out, np.asarray(z) ** 2)
    close(pullback(1j * jnp.ones_like(z))[0], 2j * np.asarray(z))  # the transpose: no conjugate


def test_custom_gradient_clips():
    @jax.custom_gradient
    def clipped(x, limit):
        return x, lambda g: (jnp.clip(g, -limit, limit), jnp.zeros(()))

    close(jax.grad(lambda x: jnp.sum(clipped(x, 0.5) * jnp.array([3.0, -0.25, -7.0])))(X), [0.5, -0.25, -0.5])


def test_check_grads_finds_a_wrong_rule():
    jax.test_util.check_grads(lambda x: jnp.sin(x) * x, (X,), order=2)

    @jax.custom_jvp
    def wrong(x):
        return x * x

    wrong.defjvp(lambda primals, tangents: (wrong(*primals), primals[0] * tangents[0]))
    with pytest.raises(AssertionError, match="forward mode"):
        jax.test_util.check_grads(wrong, (X,), order=1)
    with pytest.raises(AssertionError, match="reverse mode"):
        jax.test_util.check_grads(wrong, (X,), order=1, modes=["rev"], atol={np.float32: 1e-2})
    jax.test_util.check_grads(wrong, (X,), order=1, modes=["lin"], rtol=1)


def test_values_are_close_within_the_tolerance_of_their_dtype():
    check = public_test_util.check_close
    check({"x": X}, {"x": X + np.float32(1e-6)})
    check(X, X + 0.1, atol=0.1)
    for y in (X + np.float32(1e-4), X[:2], X.astype(int)):
        with pytest.raises(AssertionError):
            check(X, y)


# ---- functions that solve


@pytest.mark.parametrize("name", ["bicgstab", "cg", "gmres"])
def test_iterations_solve_for_trees(name):
    a, b = np.array([[4, 1], [1, 3]], np.float32), np.array([1, 2], np.float32)

    def solve(b, start):
        solver = getattr(jax.scipy.sparse.linalg, name)
        return solver(lambda x: {"x": a @ x["x"]}, {"x": b}, {"x": start}, tol=1e-7)[0]["x"]

    close(jax.jit(solve)(b, b), np.linalg.solve(a, b))
    close(jax.jacrev(solve)(b, b), np.linalg.inv(a))
    close(getattr(jax.scipy.sparse.linalg, name)(a, jnp.asarray(b))[0], np.linalg.solve(a, b))
    with pytest.raises(NotImplementedError, match="M as a matrix"):
        jax.scipy.sparse.linalg.gmres(a, b, M=lambda x: x)


def test_conjugate_gradients_take_what_is_only_traced():
    a, b = np.array([[4, 1], [1, 3]], np.float32), np.array([1, 2], np.float32)

    def solve(a, b, d):
        return jax.scipy.sparse.linalg.cg(lambda x: a @ x, b, b, atol=1e-7 * d[0], M=lambda x: d * x)[0]

    def along(t):
        return jnp.sum(solve(a + t * np.ones((2, 2), np.float32), b, jnp.ones(2)) ** 2)

    def exact(t):
        return jnp.sum(jnp.linalg.solve(a + t * np.ones((2, 2), np.float32), b) ** 2)

    d = 1 / a.diagonal()
    close(jax.jit(solve)(a, b, d), np.linalg.solve(a, b))
    close(jax.vmap(solve, (None, 0, None))(a, np.stack([b, 2 * b]), d)[1], 2 * np.linalg.solve(a, b))
    close(jax.jit(jax.jacfwd(solve, 1))(a, b, d), np.linalg.inv(a))
    for transformation in (jax.grad, lambda f: jax.jit(jax.grad(f)), jax.hessian):
        close(transformation(along)(0.5), np.asarray(transformation(exact)(0.5)))
    c = np.array([[4, 1j], [-1j, 3]], np.complex64)
    close(jax.scipy.sparse.linalg.cg(c, jnp.asarray(b * 1j), tol=1e-7)[0], np.linalg.solve(c, b * 1j))


def test_converted_closures_keep_what_they_were_given():
    kept = []

    def f(a):
        function, outside = jax.closure_convert(lambda x: a * x, X)
        kept.append(function)
        return jnp.sum(function(X, *outside))

    close(jax.grad(f)(2.0), X.sum())
    close(kept[0](X, jnp.float32(5.0)), 5 * X)  # also where the trace of `a` has ended


def test_loops_that_begin_with_weaker_numbers():
    close(lax.fori_loop(0, 3, lambda i, c: c + 1.5 * i, 0), 4.5)
    close(jax.jit(lambda: lax.while_loop(lambda c: c < 2, lambda c: c + 0.75, 0))(), 2.25)
    last, seen = lax.scan(lambda c, x: (c + x, c), 0, X)
    close(last, X.sum())
    close(seen, np.cumsum(X) - X)
    with pytest.raises(TypeError, match="becomes float32"):
        lax.fori_loop(0, 3, lambda i, c: c + 1.5, jnp.zeros((), int))


def test_branches_take_none():
    assert lax.cond(True, lambda _: 1.0, lambda _: 2.0, operand=None) == 1
    assert lax.switch(1, [lambda: 1.0, lambda: 2.0]) == 2


def test_branches_may_have_operands_of_their_own():
    take = lambda given: lax.cond(given, (1.0, 2.0), lambda x: x[0], (), lambda _: 3.0)
    assert [float(take(True)), float(take(False)), float(jax.jit(take)(False))] == [1, 3, 3]


def test_updates_are_added_along_whole_axes():
    numbers = lax.ScatterDimensionNumbers((0,), (1,), (1,))
    places = jnp.array([[1], [3], [1]])
    found = lax.scatter_add(jnp.zeros((2, 5)), places, jnp.arange(6.0).reshape(2, 3), numbers)
    close(found, [[0, 2, 0, 1, 0], [0, 8, 0, 4, 0]])
    with pytest.raises(NotImplementedError, match="whole axes"):
        lax.scatter_add(jnp.zeros(5), places, jnp.ones((3, 2)), lax.ScatterDimensionNumbers((1,), (), (0,)))


def test_equal_elements_stay_in_order():
    x = jnp.array([-0.8, 0.6, 1.2, -1.0, -0.7, 0.6, 1.1, -1.0, 0.4] * 3)
    found = np.argsort(np.asarray(x), kind="stable")
    assert jnp.argsort(x).tolist() == jax.jit(jnp.argsort)(x).tolist() == found.tolist()
    assert x.argsort(descending=True)[:3].tolist() == [2, 11, 20]
    assert lax.approx_max_k(x, 3)[1].tolist() == [2, 11, 20]
    assert lax.top_k(jnp.array([1, 3, 3]), 2)[1].tolist() == [1, 2]
    assert lax.approx_min_k(jnp.array([[2, 1]]), 1, 1)[0].tolist() == [[1]]


def test_what_jax_says_of_shapes_and_scalars():
    assert jnp.isscalar(1.0)
    assert jnp.isscalar(np.ones(()))
    assert not jnp.isscalar({})
    for product in (jnp.dot, jnp.matmul, jnp.inner, lambda x, y: x @ y):
        with pytest.raises(TypeError, match="shapes"):
            product(jnp.ones((2, 3)), jnp.ones(2))


def test_roots_and_transforms_are_complex():
    found = jnp.roots(jnp.array([1, -3, 2]), strip_zeros=False)
    assert found.dtype == jnp.complex64
    close(jnp.sort(found.real), [1, 2])
    with pytest.raises(NotImplementedError, match="leading zeros"):
        jnp.roots(jnp.array([0.0, 1.0]), strip_zeros=False)
    close(jnp.fft.rfft(jnp.arange(4)), [6, -2 + 2j, -2])
    close(jnp.fft.fftshift(jnp.fft.fftfreq(4)), [-0.5, -0.25, 0, 0.25])
    assert jnp.fft.rfftfreq(4).dtype == jnp.float32


def test_ellipses_that_the_result_leaves_out_are_summed():
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    close(jnp.einsum("j..., ... -> j", x, x[0]), np.einsum("jab,ab->j", x, x[0]))
    close(jnp.einsum("...a->a", x), x.sum((0, 1)))
    close(jnp.einsum("j...,j->...", x, x[:, 0, 0]), np.einsum("j...,j->...", x, x[:, 0, 0]))


def test_cotangents_may_be_for_whole_parts_of_arguments():
    @jax.custom_vjp
    def f(x, y):
        return x["a"] * x["b"] + y[0][0]

    f.defvjp(lambda x, y: (f(x, y), x), lambda x, ct: (3 * ct, [None, 2 * ct]))
    x, y = {"a": 2.0, "b": 3.0}, [(1.0, None), 4.0]
    found = jax.grad(f, (0, 1))(x, y)
    close(found[0]["a"], 3)
    close(found[0]["b"], 3)
    close(found[1][0][0], 0)
    assert found[1][0][1] is None
    close(found[1][1], 2)


def test_labels_may_be_digits():
    x = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    close(jnp.einsum("...A1, ...2A -> ...1", x, x), np.einsum("bai,bja->bi", x, x))


def test_errors_of_callbacks_are_those_of_compiled_programs_in_one():
    def check(x):
        jax.debug.callback(lambda _: divmod(1, 0), x)
        return x

    with pytest.raises(ZeroDivisionError):
        check(jnp.ones(()))
    with pytest.raises(jax.errors.JaxRuntimeError, match="ZeroDivisionError"):
        jax.jit(check)(jnp.ones(()))


def test_functions_of_numba_get_arrays_of_numpy():
    @numba.njit
    def doubled(x):
        return 2 * x

    shape = jax.ShapeDtypeStruct((3,), jnp.float32)
    close(jax.pure_callback(doubled, shape, jnp.asarray(X)), 2 * X)
    close(jax.jit(lambda x: jax.pure_callback(doubled, shape, x))(X), 2 * X)


def test_the_first_argument_may_be_static():
    double = jax.jit(lambda n, x: [x] * n, static_argnums=0)
    assert len(double(2, X)) == 2
    assert len(double(3, X)) == 3


def test_factors_say_which_triangle_by_a_truth_value():
    factor, lower = jax.scipy.linalg.cho_factor(jnp.array([[4.0, 2.0], [2.0, 5.0]]), lower=True)
    assert lower is True
    close(np.tril(factor), [[2, 0], [1, 2]])


# ---- optimizers and first weights, as JAX computes them

ONE, MASS = (0.1,), (0.1, 0.9)
STEPS = {  # parameters after four steps
    "sgd": (ONE, [0.05366000160574913, -0.10733000189065933], 2.3946800231933594),
    "momentum": (MASS, [-1.1005699634552002, 2.201129913330078], 0.5736500024795532),
    "nesterov": (MASS, [-0.5803800225257874, 1.160770058631897], 0.2277899980545044),
    "adagrad": (ONE, [0.9309899806976318, -1.930799961090088], 2.9309399127960205),
    "rmsprop": (ONE, [0.30827000737190247, -1.2127900123596191], 2.2710800170898438),
    "rmsprop_momentum": (ONE, [-0.6048499941825867, -0.11275999993085861], 1.2362600564956665),
    "adam": ((lambda i: 0.1 / (i + 1),), [0.7927600145339966, -1.792240023612976], 2.7925899028778076),
    "adamax": (ONE, [0.6392999887466431, -1.6247700452804565], 2.6349799633026123),
}


@pytest.mark.parametrize("name", STEPS)
def test_optimizers_of_the_examples(name):
    args, a, b = STEPS[name]
    start, update, params = getattr(optimizers, name)(*args)
    state = start({"a": jnp.array([1.0, -2.0]), "b": jnp.float32(3)})
    gradient = jax.grad(lambda p: (p["a"] ** 2).sum() * p["b"])
    step = jax.jit(lambda i, state: update(i, gradient(params(state)), state))
    for i in range(4):
        state = step(i, state)
    np.testing.assert_allclose(params(state)["a"], a, atol=2e-5)
    np.testing.assert_allclose(params(state)["b"], b, atol=2e-5)
    assert params(update(0, {}, start({}))) == {}
    assert getattr(optimizers, name).__name__ == name
    with pytest.raises(TypeError, match="the gradients are"):
        update(0, [1.0], state)


def test_layers_of_the_examples():
    two = stax.parallel(stax.serial(stax.Dense(2), stax.Tanh), stax.Dense(2))
    init, apply = stax.serial(stax.Dense(3), stax.Relu, stax.FanOut(2), two, stax.FanInSum, stax.Softmax)
    shape, params = init(jax.random.PRNGKey(3), (-1, 4))
    assert shape == (-1, 2)
    x = jnp.arange(8.0).reshape(2, 4) / 8
    recorded = [[0.50123, 0.49877], [0.52182, 0.47818]]  # of JAX
    np.testing.assert_allclose(apply(params, x), recorded, atol=2e-5)
    several = stax.parallel(stax.Identity, stax.Elu)
    init, apply = stax.serial(stax.FanOut(2), several, stax.FanInConcat(-1), stax.Flatten)
    shape, params = init(jax.random.PRNGKey(3), (2, 4))
    assert shape == apply(params, x, rng=jax.random.PRNGKey(0)).shape == (2, 8)


def test_more_first_weights():
    key, find = jax.random.PRNGKey(3), jax.nn.initializers
    q = np.asarray(find.orthogonal(2.0, 0)(key, (2, 3, 2)))
    close(q.reshape(2, 6) @ q.reshape(2, 6).T, 4 * np.eye(2))
    assert q[0, 0, 0] == pytest.approx(-1.270756, rel=1e-4)
    close(find.truncated_normal(1.0, None, -0.5)(key, (3,)), [-0.363656, 1.521129, 0.651082])
    close(find.kaiming_normal()(key, (2, 2))[0], [-1.500531, 1.583768])
    close(find.xavier_uniform()(key, (2, 2))[0], [-1.043354, 1.07323])
    for initializer in (
        find.normal(1.0, jnp.float16),
        find.variance_scaling(1, "fan_in", "normal", dtype="f2"),
    ):
        assert initializer(key, (2, 2)).dtype == jnp.float16
    for name, first, last in (  # of JAX
        ("normal", -1.681740 - 1.374065j, 0.787647 - 0.764536j),
        ("truncated_normal", 0.095851 + 0.015796j, 0.924915 + 1.115177j),
        ("uniform", 0.130119 + 0.021443j, 0.840807 + 1.013767j),
    ):
        weights = find.variance_scaling(2.0, "fan_in", name)(key, (2, 3), jnp.complex64)
        assert weights.dtype == jnp.complex64
        close(weights.reshape(-1)[jnp.array([0, 5])], [first, last])
    assert find.constant(2, jnp.int32)(key, (2,)).dtype == jnp.int32
    assert find.ones(key, (2,), jnp.float16).dtype == jnp.float16


def test_layers_of_nn():
    x = jnp.arange(6.0).reshape(2, 3) ** 2
    close(jax.nn.glu(jnp.arange(4.0)), np.arange(2) / (1 + np.exp(-np.arange(2.0, 4))))
    rest = np.asarray(x) - np.asarray(x).mean(1, keepdims=True)
    scale = np.sqrt(np.square(rest).mean(1, keepdims=True) + 1e-5)
    for algorithm in ("fast", "stable"):
        close(jax.nn.standardize(x, algorithm=algorithm), rest / scale)
    close(jax.nn.standardize(x, mean=jnp.ones((2, 1)))[0], [-0.462909, 0, 1.388729])
    close(jax.nn.standardize(x, axis=None, where=x > 1)[0], [-1.711055, -1.58431, -1.204076])
    with pytest.raises(ValueError, match="algorithm"):
        jax.nn.standardize(x, algorithm="slow")


def test_first_weights():
    key, find = jax.random.PRNGKey(1), jax.nn.initializers
    np.testing.assert_allclose(
        find.glorot_normal()(key, (2, 3)),
        [
            [-0.1059499979019165, 0.05812999978661537, -0.093299999833107],
            [-0.10636000335216522, 0.8422499895095825, 0.10174000263214111],
        ],
        atol=2e-5,
    )
    np.testing.assert_allclose(
        find.he_uniform()(key, (2, 3)),
        [
            [-0.21257999539375305, 0.11692000180482864, -0.18734000623226166],
            [-0.2134000062942505, 1.3765100240707397, 0.20419000089168549],
        ],
        atol=2e-5,
    )
    np.testing.assert_allclose(
        find.lecun_normal()(key, (2, 3)),
        [
            [-0.11845999956130981, 0.06498999893665314, -0.10430999845266342],
            [-0.11891999840736389, 0.9416599869728088, 0.11375000327825546],
        ],
        atol=2e-5,
    )
    tensor = find.variance_scaling(2.0, "fan_out", "normal", in_axis=0, out_axis=2)(key, (2, 2, 2))
    close(tensor, np.asarray(jax.random.normal(key, (2, 2, 2))) * 2**-0.5)
    close(find.normal(0.5)(key, (2,)), np.asarray(jax.random.normal(key, (2,))) / 2)
    close(find.uniform(2.0)(key, (2,)), np.asarray(jax.random.uniform(key, (2,))) * 2)
    close(find.constant(3.0)(key, (2,)), [3, 3])
    assert find.ones(key, (1,), int).dtype == jnp.int32
    with pytest.raises(ValueError, match="no mode"):
        find.variance_scaling(1.0, "fan", "normal")
    with pytest.raises(ValueError, match="at least two axes"):
        find.lecun_normal()(key, (2,))


def test_distributions_are_of_elements():
    stats = jax.scipy.stats
    close(stats.norm.logpdf(X), -0.5 * X**2 - 0.5 * np.log(2 * np.pi))
    close(stats.poisson.pmf(2, jnp.array([1.0, 2.0])), [np.exp(-1) / 2, 2 * np.exp(-2)])
    close(jax.scipy.special.multigammaln(jnp.array([3.0]), jnp.array(2)), [1.5501950])
    assert stats.truncnorm.cdf(0.5, -1.0, 2.0).dtype == jnp.float32
    close(stats.expon.sf(X, scale=2.0), np.exp(-np.maximum(X, 0) / 2))
    with pytest.raises(NotImplementedError, match="gaussian_kde"):
        stats.gaussian_kde(X)


def test_functions_have_names():
    modules = jnp, lax, jax.nn, jnp.linalg, jax.random, jax.tree, jax.scipy.linalg
    found = [getattr(m, n) for m in modules for n in vars(m) if not n.startswith("_")]
    found = [f for f in found if callable(f) and not isinstance(f, jax.extend.core.Primitive)]
    assert not [f for f in found if not hasattr(f, "__name__")]


def test_kinds_that_are_not_there_have_no_instances():
    assert not isinstance(jnp.ones(2), sparse.BCOO)
    with pytest.raises(NotImplementedError, match=r"no jax\.experimental\.sparse\.BCOO"):
        sparse.BCOO(jnp.ones(2))


def test_averages_come_with_their_weights():
    found, weights = jnp.average(np.stack([X, 2 * X]), axis=0, weights=jnp.array([1.0, 3.0]), returned=True)
    close(found, 1.75 * X)
    close(weights, [4, 4, 4])


def test_more_names_of_arrays():
    close(jnp.float_power(jnp.array([2, 3]), 2), [4, 9])
    assert (jnp.array([True, False]) ** 2).dtype == jnp.int32
    assert not (jnp.array([True]) ** jnp.array([2])).weak_type
    values, _, _, counts = jnp.unique_all(jnp.array([3, 1, 3]))
    assert (values.tolist(), counts.tolist()) == ([1, 3], [1, 2])
    assert int(jnp.linalg.matrix_rank(jnp.ones((3, 3)))) == 1
    close(jnp.hanning(5), np.hanning(5))
    close(jax.scipy.special.beta(2.0, jnp.array([3.0])), [1 / 12])
    close(jnp.eye(3)[jnp.s_[0, 1:]], [0, 0])


def test_indices_stay_integers_beside_floats():
    at = jnp.array([1, 1])
    close(jnp.bincount(at, jnp.array([0.5, 0.25])), [0, 0.75])
    found = jnp.bincount(at, jnp.array([2, 3]))
    assert (found.dtype, found.tolist()) == (jnp.int32, [0, 5])
    close(jnp.ldexp(X, jnp.array([1, 2, 3])), X * [2, 4, 8])
    close(jnp.insert(X, jnp.array([1]), 5.0), [0.5, 5, -1, 2])
    close(jnp.delete(X, jnp.array([1])), [0.5, 2])


# ---- one device


def test_shard_map_is_of_one_device():
    mesh = jax.sharding.Mesh(jax.devices(), "i")
    with jax.set_mesh(mesh):
        assert jax.sharding.get_abstract_mesh().axis_names == ("i",)

        @jax.shard_map(in_specs=jax.P("i"), out_specs=jax.P())
        def total(x):
            return jnp.sum(lax.psum(jnp.sin(x), "i")) + lax.axis_index("i")

        x = jnp.arange(3.0)
        for run in (total, jax.jit(total)):
            close(run(x), jnp.sum(jnp.sin(x)))
            close(jax.grad(run)(x), jnp.cos(x))
    assert jax.sharding.get_abstract_mesh().empty


def test_pmap_is_of_one_device():
    double = jax.pmap(lambda x, y: lax.psum(x, "i") * y, axis_name="i", in_axes=(0, None))
    close(double(X[None], 2.0), 2 * X[None])
    with pytest.raises(ValueError, match="requires 3 logical devices"):
        double(X, 2.0)
    with pytest.raises(ValueError, match="axis 0"):
        double(2.0, 2.0)
    raised = jax.pmap(lambda x, how: x**2 if how == "square" else x, static_broadcasted_argnums=1)
    close(raised(X[None], "square"), X[None] ** 2)
    close(raised(X[None], "as it is"), X[None])


def test_device_get_takes_what_is_not_traced():
    assert type(jax.device_get({"a": jnp.ones(2)})["a"]) is np.ndarray
    close(jax.grad(lambda x: jnp.sum(jax.device_get([x])[0] ** 2))(jnp.asarray(X)), 2 * X)


def test_shardings_hold_whole_arrays():
    mesh = jax.make_mesh((1,), ("x",))
    assert mesh.are_all_axes_explicit
    assert jax.sharding.AbstractMesh((1,), ("x",)).are_all_axes_auto
    sharding = jax.NamedSharding(mesh, jax.P("x"))
    assert sharding.shard_shape((4, 2)) == (4, 2)
    assert sharding.is_equivalent_to(jax.NamedSharding(mesh), 2)
    close(jax.sharding.reshard(X, sharding), X)
    x = jax.device_put(X, jax.NamedSharding(mesh, jax.P("x")))
    close(x, X)
    assert x.sharding.is_fully_replicated
    assert x.devices() == set(jax.devices())
    assert jax.P("x", None) == ("x", None)
    jax.config.update("jax_num_cpu_devices", 2)  # there is one all the same
    assert jax.device_count() == 1
    with pytest.raises(NotImplementedError, match="one device"):
        jax.make_mesh((2,), ("x",))
    close(jax.jit(lambda x: x * 2, in_shardings=x.sharding, out_shardings=None)(x), 2 * X)


def test_shards_are_whole_arrays():
    x = jnp.asarray(X)
    (shard,) = x.addressable_shards
    assert shard.data is x
    assert shard.index == (slice(None),)
    assert (shard.device, shard.replica_id) == (jax.devices()[0], 0)
    made = jax.make_array_from_single_device_arrays((3,), x.sharding, [shard.data])
    np.testing.assert_array_equal(made, X)
    made = jax.make_array_from_callback((3,), x.sharding, lambda index: np.stack([X, X], 1)[(*index, 0)])
    np.testing.assert_array_equal(made, X)
    assert not jax.make_array_from_callback((), x.sharding, lambda index: 3.0).weak_type
    for shape, dtype in [((2,), None), ((3,), np.float16)]:
        with pytest.raises(ValueError, match=r"was asked for.*f32\[3\]"):
            jax.make_array_from_callback(shape, x.sharding, lambda index: x, dtype=dtype)


def test_what_checkpoints_ask():
    (device,) = jax.devices()
    assert str(device) == "cpu:0"
    assert (device.id, device.process_index, device.platform, device.device_kind) == (0, 0, "cpu", "cpu")
    assert (device.client.platform, device.addressable_memories()) == ("cpu", [])
    multihost_utils.sync_global_devices("saved")
    monitoring.record_event_duration_secs("saved", 1.0)
    x = jnp.ones(2)
    x.copy_to_host_async()
    close(jax.device_put(X, layout.Format(None, x.sharding)), X)
    with pytest.raises(NotImplementedError, match="one device"):
        multihost_utils.process_allgather(x)
    children, _ = jax.tree_util.flatten_one_level({"a": (1, 2)})
    assert list(children) == [(1, 2)]
    with pytest.raises(ValueError, match="leaf"):
        jax.tree_util.flatten_one_level(3)


def test_meshes_of_the_only_device():
    found = mesh_utils.create_device_mesh((1, 1))
    mesh = jax.sharding.Mesh(found, ["x", "y"])
    assert mesh.devices.shape == mesh.axis_sizes == (1, 1)
    assert not mesh.empty
    assert jax.sharding.get_abstract_mesh().empty
    assert mesh == jax.make_mesh((1, 1), ("x", "y"))
    assert mesh != jax.sharding.AbstractMesh((1, 1), ("x", "y"))
    assert len({mesh, jax.make_mesh((1, 1), ("x", "y"))}) == 1
    sharding = jnp.ones((2, 3)).aval.sharding
    assert sharding.spec == (None, None)
    assert sharding.update(spec=jax.P("x")).spec == ("x",)
    assert [kind.name for kind in jax.sharding.AxisType] == ["Auto", "Explicit", "Manual"]


def test_what_libraries_ask_of_settings():
    jax.config.parse_flags_with_absl()
    assert jax.version.__version_info__ > (0, 4, 25)
    lowered = jax.jit(lambda x: x @ x).lower(jax.ShapeDtypeStruct((64, 64), float))
    assert lowered.cost_analysis()["flops"] == lowered.compile().cost_analysis()["flops"] == 2 * 64**3
    assert jax.jit(lambda x: {"a": x + 1.0}).lower(jnp.arange(3)).out_info["a"].dtype == jnp.float32
    assert jax.nn.initializers.ones(None, 3).shape == (3,)
    assert jax.nn.initializers.zeros.__name__ == "zeros"
    assert jax.nn.initializers.he_normal().__name__ == "init"
    assert jnp.finfo(jnp.float32).max == np.finfo(np.float32).max


def test_limits_of_small_floats():
    pytest.importorskip("ml_dtypes")
    assert core_dtypes.finfo(jnp.float8_e4m3fn).max == 448


# ---- parts and tests of arrays


def test_dynamic_slices_stay_inside():
    x = jnp.arange(12.0).reshape(3, 4)
    close(jax.jit(lambda i: lax.dynamic_slice(x, (i, -1), (2, 2)))(9), [[6, 7], [10, 11]])
    close(lax.dynamic_index_in_dim(x, 1, 1, keepdims=False), [1, 5, 9])
    close(lax.dynamic_update_slice(jnp.zeros(4), jnp.ones(2), (3,)), [0, 0, 1, 1])
    close(lax.dynamic_update_index_in_dim(jnp.zeros((2, 2)), jnp.ones(2), 1, 0), [[0, 0], [1, 1]])
    close(lax.associative_scan(jnp.multiply, jnp.arange(1.0, 5.0)), [1, 2, 6, 24])


def test_comparisons_of_arrays_are_compiled():
    same = jax.jit(lambda x, y: (jnp.array_equal(x, y), jnp.allclose(x, y)))
    assert [bool(v) for v in same(X, X)] == [True, True]
    assert [bool(v) for v in same(X, X + 1e-6)] == [False, True]
    assert not jnp.array_equal(X, X[:2])
    assert jax.jit(jnp.array_equiv)(jnp.ones(2), jnp.ones((3, 1)))
    assert not jnp.array_equiv(jnp.ones(2), jnp.ones(3))
    assert jnp.array_equal(jnp.array([jnp.nan, 1]), jnp.array([jnp.nan, 1]), equal_nan=True)


def test_truth_of_a_compiled_value_is_refused_by_jax_s_error():
    with pytest.raises(jax.errors.ConcretizationTypeError):
        jax.jit(lambda x: 1.0 if x > 0 else 0.0)(1.0)


def test_masked_and_moved():
    keep = np.array([True, False, True])
    e = np.exp([0.5, 2.0])
    for found in (jax.nn.softmax(X, where=keep), jnp.exp(jax.nn.log_softmax(X, -1, keep))):
        close(found, [e[0] / e.sum(), 0, e[1] / e.sum()])
    close(jax.nn.logsumexp(X, b=jnp.array([1.0, 0.0, 2.0])), np.log(e[0] + 2 * e[1]))
    found, sign = jax.nn.logsumexp(X, b=jnp.array([1.0, 9.0, -2.0]), where=keep, return_sign=True)
    close(found, np.log(2 * e[1] - e[0]))
    assert (sign, sign.dtype) == (-1, np.float32)
    assert jnp.c_[jnp.ones(2), jnp.zeros((2, 2), int), np.arange(2)].tolist() == [[1, 0, 0, 0], [1, 0, 0, 1]]
    assert jnp.c_[jnp.arange(2), 3.0 * jnp.ones(2)].dtype == np.float32
    with pytest.raises(TypeError):
        jnp.c_[0:2, jnp.ones(2)]
    assert jax.nn.one_hot(jnp.array([2, 0]), 3, axis=0).tolist() == [[0, 1], [0, 0], [1, 0]]
    with jax.disable_jit(False), jax.named_scope("part"):
        assert round(jnp.array(1.26), 1).item() == pytest.approx(1.3)


def test_whether_a_transformation_is_under_way():
    seen = []
    jax.jit(lambda x: seen.append(core.trace_state_clean()) or x)(1.0)
    jax.grad(lambda x: seen.append(core.trace_state_clean()) or x)(1.0)
    assert seen == [False, False]
    assert core.trace_state_clean()


def test_arrays_that_live_are_found():
    x = jnp.ones(3)
    assert any(x is y for y in jax.live_arrays())


def test_values_and_kinds():
    assert jax.extend.core.valid_jaxtype(X)
    assert jax.api_util.safe_map(divmod, [7, 9], (2, 4)) == [(3, 1), (2, 1)]
    with pytest.raises(ValueError, match="shorter"):
        jax.api_util.safe_map(divmod, [7, 9], (2,))
    assert lax.integer_pow(jnp.array(-3.0), 3) == -27
    assert not jax.extend.core.valid_jaxtype("x")
    with pytest.raises(NotImplementedError, match=r"no jax\.extend\.core\.TraceTag"):
        jax.extend.core.TraceTag()
    close(lax.tanh_p.bind(X), np.tanh(X))
    assert jnp.unique(jnp.array([3, 1, 3])).tolist() == [1, 3]
    assert jnp.unique(jnp.array([3, 1])).dtype == jnp.int32


def test_states_of_transformations_are_compared():
    """Haiku asks whether a function runs inside a transformation that began after it did."""
    state = jax.core.get_opaque_trace_state
    outer = state(convention="haiku")
    assert outer == state(convention="haiku")
    found = []
    for transformed in (jax.grad, jax.jit, jax.vmap):
        x = X if transformed is jax.vmap else 1.0
        transformed(lambda x: found.append(state(convention="haiku")) or x)(x)
    for loop in (
        lambda: lax.fori_loop(0, 1, lambda i, c: found.append(state()) or c, 0),
        lambda: lax.scan(lambda c, x: (found.append(state()) or c, x), 0, X),
        lambda: lax.while_loop(lambda c: found.append(state()) or c < 0, lambda c: c, 0),
        lambda: lax.cond(True, lambda: found.append(state()) or 1, lambda: 2),
    ):
        loop()
    assert len(found) >= 7
    assert all(inner != outer for inner in found)
    assert outer == state()


def test_containers_that_tell_arrays_from_other_things_are_mapped():
    class Pair:
        def __init__(self, x):
            self.x = x

    def divided(p):
        return ((p.x,), None) if jax.core.valid_jaxtype(p.x) else ((), p.x)

    jax.tree_util.register_pytree_node(Pair, divided, lambda aux, xs: Pair(*xs) if xs else Pair(aux))
    mapped = jax.vmap(lambda x: (Pair(x.sum()), x), out_axes=(0, 1))(jnp.ones((2, 3)))
    close(mapped[0].x, [3, 3])
    assert mapped[1].shape == (3, 2)
