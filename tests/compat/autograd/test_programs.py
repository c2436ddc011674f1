"""Programs of autograd, compared with what they compute by hand, by NumPy or by differences."""

import sys

import numpy  # noqa: ICN001 -- np is autograd.numpy here
import pytest
import scipy.signal
import scipy.special
import scipy.stats

from fgrad.compat.autograd import installed

# the library itself may be installed beside; another test may have loaded it
if "autograd" in sys.modules:
    pytest.skip("autograd itself is loaded", allow_module_level=True)
with installed():
    import autograd
    import autograd.core
    import autograd.extend
    import autograd.numpy as np
    import autograd.numpy.numpy_boxes
    import autograd.numpy.numpy_vjps
    import autograd.scipy.linalg
    import autograd.scipy.signal
    import autograd.scipy.stats
    import autograd.scipy.stats.norm
    import autograd.tracer
    from autograd import builtins, elementwise_grad, grad, hessian, jacobian, value_and_grad
    from autograd.differential_operators import make_jvp, make_jvp_reversemode, make_vjp
    from autograd.extend import defjvp, defvjp, defvjp_argnum, notrace_primitive, primitive, vspace
    from autograd.misc import flatten
    from autograd.misc.fixed_points import fixed_point
    from autograd.misc.optimizers import adam, rmsprop, sgd
    from autograd.scipy import special
    from autograd.scipy.integrate import odeint
    from autograd.test_util import check_grads


def close(x, y, tolerance=1e-6):
    numpy.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def differences(f, x, h=1e-6):
    x = numpy.asarray(x, float)
    out = numpy.zeros((*numpy.shape(f(x)), *x.shape))
    for place in numpy.ndindex(*x.shape):
        e = numpy.zeros(x.shape)
        e[place] = h
        out[(..., *place)] = (f(x + e) - f(x - e)) / (2 * h)
    return out


X = numpy.array([0.3, -0.7, 1.9])


def test_plain_arguments_give_what_numpy_gives():
    assert type(np.zeros(3)) is numpy.ndarray
    assert type(np.sum(X)) is numpy.float64
    assert np.where([True, False], [1, 2], [3, 4]) == [1, 4]
    assert np.array([X, X]).shape == (2, 3)
    assert np.float64 is numpy.float64
    assert np.pi == numpy.pi
    assert np.linalg.norm(X) == numpy.linalg.norm(X)


def test_gradients():
    f = lambda x: np.sum(np.tanh(np.outer(x, x)) * np.stack([x, np.sin(x), x[::-1]]))
    close(grad(f)(X), differences(f, X))
    value, gradient = value_and_grad(f)(X)
    assert value == f(X)
    close(gradient, grad(f)(X))
    close(grad(lambda y, x: f(x), 1)(2.0, X), grad(f)(X))
    both = grad(lambda x, y: f(x) * np.sum(y**2), [0, 1])(X, X)
    assert type(both) is tuple
    close(both[1], 2 * X * f(X))
    assert grad(lambda x: np.sum(x, keepdims=True))(X).shape == (3,)
    assert grad(f).__name__ == "grad_of_<lambda>_wrt_argnum_0"


def test_functions_of_lists_that_hold_what_is_differentiated():
    f = lambda x: np.concatenate([x, [x[0] * x[1]], np.array([x[2], 1.0])])
    close(jacobian(f)(X), differences(f, X))
    g = lambda x: np.sum([x[0] ** 2, x[1] * 3.0]) + np.mean([x[0], x[2]]) + np.r_[x, x[0]][3]
    close(grad(g)(X), differences(g, X))


def test_jacobians_and_hessians():
    f = lambda x: np.array([[x[0] * x[1], x[2]], [np.exp(x[0]), 1.0]])
    close(jacobian(f)(X), differences(f, X))
    g = lambda x: np.sum(np.sin(x) * x[0] * x)
    close(hessian(g)(X), differences(grad(g), X))
    v = numpy.array([1.0, 2.0, -1.0])
    close(autograd.hessian_vector_product(g)(X, v), hessian(g)(X) @ v)
    close(autograd.make_hvp(g)(X)[0](v), hessian(g)(X) @ v)
    close(autograd.tensor_jacobian_product(np.sin)(X, v), v * numpy.cos(X))
    close(autograd.make_ggnvp(np.sin)(X)(v), numpy.cos(X) ** 2 * v)
    close(elementwise_grad(np.tanh)(X), 1 - numpy.tanh(X) ** 2)


def test_arrays_of_integers_are_real_numbers():
    close(grad(lambda x: np.sum(x**3))(numpy.array([1, 2])), [3.0, 12.0])
    close(make_jvp(np.square)(numpy.array([3]))(numpy.ones(1))[1], [6.0])
    with pytest.raises(TypeError, match="floating-point"):
        grad(lambda x: x**2)(3)


def test_both_modes():
    pull, out = make_vjp(np.sin)(X)
    close(out, numpy.sin(X))
    close(pull(numpy.ones(3)), numpy.cos(X))
    out, tangent = make_jvp(np.sin)(X)(2 * numpy.ones(3))
    close(out, numpy.sin(X))
    close(tangent, 2 * numpy.cos(X))
    close(make_jvp_reversemode(np.sin)(X)(numpy.ones(3)), numpy.cos(X))
    close(autograd.deriv(np.sin)(0.5), numpy.cos(0.5))


def test_complex_numbers():
    f = lambda x: x * (1.0 + 0.2j) + x**2
    close(autograd.holomorphic_grad(f)(1.0 + 2.0j), 1.0 + 0.2j + 2 * (1.0 + 2.0j))
    with pytest.raises(TypeError, match="real scalar output"):
        grad(f)(1.0)


def test_containers():
    f = lambda p: np.sum(p["w"][0] * p["b"]) + p["w"][1] ** 2
    found = grad(f)({"w": [X, 3.0], "b": X})
    close(found["b"], X)
    close(found["w"][0], X)
    assert found["w"][1] == 6.0
    seen = []

    def g(p):
        seen.extend(
            [
                isinstance(p["w"][0], autograd.numpy.numpy_boxes.ArrayBox),
                isinstance(p, autograd.builtins.DictBox),
                builtins.isinstance(p["w"][0], numpy.ndarray),
                builtins.type(p["w"]) is list,
                autograd.tracer.isbox(p["w"][0]),
                not isinstance(X, autograd.numpy.numpy_boxes.ArrayBox),
                type(autograd.tracer.getval(p["w"][0])) is numpy.ndarray,
            ]
        )
        return f(p)

    grad(g)({"w": [X, 3.0], "b": X})
    assert all(seen)
    assert len(seen) == 7
    _, aux = autograd.grad_and_aux(lambda x: (np.sum(x**2), x * 2))(X)
    close(aux, 2 * X)
    named = autograd.multigrad_dict(lambda a, b=2.0: a * b**2)(3.0)
    assert dict(named) == {"a": 4.0, "b": 12.0}


def test_an_output_that_does_not_depend_warns():
    with pytest.warns(UserWarning, match="Output seems independent of input"):
        assert grad(lambda x: 1.0)(2.0) == 0.0
    with pytest.warns(UserWarning, match="independent"):
        close(make_jvp(lambda x: 3.0)(X)(X)[1], 0.0)


# ---- rules of users


@primitive
def doubled_log(x, scale=1.0):
    assert not isinstance(x, autograd.numpy.numpy_boxes.ArrayBox)  # the function itself sees values
    return numpy.log(x) * 2 * scale


defvjp(doubled_log, lambda ans, x, scale=1.0: lambda g: g * 2 * scale / x)


def test_reverse_rules():
    close(grad(doubled_log)(0.5), 4.0)
    close(grad(lambda x: doubled_log(x, scale=3.0))(0.5), 12.0)
    close(grad(grad(doubled_log))(0.5), -8.0)
    close(grad(grad(grad(doubled_log)))(0.5), 32.0)
    close(
        jacobian(lambda x: doubled_log(x) * x[0])(X**2), differences(lambda x: numpy.log(x) * 2 * x[0], X**2)
    )
    close(
        hessian(lambda x: np.sum(doubled_log(x) ** 2))(X**2),
        differences(lambda x: 8 * numpy.log(x) / x, X**2),
    )
    close(autograd.deriv(doubled_log)(0.5), 4.0)  # by the transpose


def test_rules_of_several_arguments():
    product = primitive(lambda x, y, power: x**power * y)
    defvjp(product, None, lambda ans, x, y, power: lambda g: g * x**power, argnums=[0, 1])
    assert grad(product, (0, 1))(3.0, 4.0, 2) == (0.0, 9.0)
    with pytest.raises(NotImplementedError, match=r"argnums \[2\] is not declared"):
        grad(product, 2)(3.0, 4.0, 2.0)
    swapped = primitive(lambda *xs: sum(xs))
    defvjp_argnum(swapped, lambda argnum, ans, args, kwargs: lambda g: g * (argnum + 1.0))
    assert grad(swapped, (1, 0))(1.0, 1.0) == (2.0, 1.0)


def test_forward_rules_serve_both_modes():
    cube = primitive(lambda x: x**3)
    defjvp(cube, lambda g, ans, x: g * 3 * x**2)
    assert autograd.deriv(cube)(2.0) == 12.0
    assert grad(cube)(2.0) == 12.0
    half = primitive(lambda x: x / 2)
    autograd.extend.def_linear(half)
    assert grad(half)(2.0) == 0.5


@pytest.mark.parametrize("rule", [lambda g, ans, x: g**2, lambda g, ans, x: 3 * x**2])
def test_reverse_mode_refuses_forward_rules_that_are_not_linear(rule):
    cube = primitive(lambda x: x**3)
    defjvp(cube, rule)
    with pytest.raises(TypeError, match="the jvp rule of"):
        grad(cube)(2.0)


def test_primitives_without_rule_and_without_trace():
    bare = primitive(lambda x: 2.0 * x)
    assert bare(3.0) == 6.0
    for derivative in (grad, autograd.deriv):
        with pytest.raises(NotImplementedError, match="declare one by defvjp"):
            derivative(bare)(1.0)
    sign = notrace_primitive(lambda x: 1.0 if x > 0 else -1.0)
    assert grad(lambda x: x * sign(x))(-2.0) == -1.0
    with pytest.raises(NotImplementedError, match="stay as they are"):
        defvjp(np.sum, lambda ans, x: lambda g: g)


def test_checkpoint_and_unbroadcast():
    f = lambda x: np.sum(np.sin(x) ** 2)
    close(grad(autograd.checkpoint(f))(X), grad(f)(X))
    scaled = primitive(lambda x, y: x * y)
    unbroadcast_f = autograd.numpy.numpy_vjps.unbroadcast_f
    defvjp(scaled, lambda ans, x, y: unbroadcast_f(x, lambda g: g * y))
    close(grad(lambda x: np.sum(scaled(x, numpy.ones((2, 3)))))(X[:1]), 6.0)


def test_vector_spaces():
    space = vspace({"a": 1.0, "b": [numpy.zeros((2, 1)), 1j]})
    assert space.size == 5
    assert space == vspace(space.ones())
    assert space != vspace({"a": 1.0})
    basis = list(space.standard_basis())
    assert [[space.inner_prod(x, y) for y in basis] for x in basis] == numpy.eye(5).tolist()
    with pytest.raises(TypeError, match="no vector space"):
        vspace("text")


def test_checks_find_wrong_rules():
    check_grads(lambda x: np.sum(np.sin(x) * x[0]))(X)
    wrong = primitive(lambda x: x * 2.0)
    defvjp(wrong, lambda ans, x: lambda g: g * 3.0)  # whatever directions are drawn
    with pytest.raises(AssertionError, match=r"\(VJP\) check of <lambda> failed"):
        check_grads(wrong, modes=["rev"])(X)


# ---- what comes with it


def test_flat_containers():
    value = {"b": [X, 2.0], "a": (numpy.ones((2, 2)),)}
    flat, back = flatten(value)
    close(flat, [1, 1, 1, 1, *X, 2.0])
    again = back(flat * 2)
    close(again["b"][0], 2 * X)
    assert list(again) == ["b", "a"]
    assert again["b"][1] == 4.0
    close(grad(lambda v: np.sum(back(v)["b"][0] ** 2))(flat), [0, 0, 0, 0, *(2 * X), 0])
    close(grad(lambda x: np.sum(flatten([x, x])[0] ** 2))(X), 4 * X)


@pytest.mark.parametrize(("optimizer", "steps"), [(sgd, 300), (adam, 3000), (rmsprop, 800)])
def test_optimizers_find_the_minimum(optimizer, steps):
    goal = {"x": X, "y": 2.0}
    loss = lambda p, i: np.sum((p["x"] - goal["x"]) ** 2) + (p["y"] - goal["y"]) ** 2
    seen = []
    size = {"step_size": 0.01} if optimizer is not sgd else {}
    found = optimizer(
        grad(loss), {"x": numpy.zeros(3), "y": 0.0}, lambda x, i, g: seen.append(i), steps, **size
    )
    assert seen == list(range(steps))
    close(found["x"], X, 2e-2)


def test_fixed_points():
    root = lambda a: fixed_point(
        lambda a: lambda x: 0.5 * (x + a / x), a, 1.0, lambda x, y: abs(x - y), 1e-12
    )
    close(root(2.0), numpy.sqrt(2.0))
    close(grad(root)(2.0), 0.5 / numpy.sqrt(2.0))


def test_scipy():
    close(grad(special.gammaln)(2.5), scipy.special.digamma(2.5))
    close(grad(lambda x: special.logsumexp(x))(X), scipy.special.softmax(X))
    close(grad(autograd.scipy.stats.norm.logpdf)(0.5), -0.5)
    assert autograd.scipy.stats.norm.cdf(0.5) == scipy.stats.norm.cdf(0.5)
    a = numpy.array([[2.0, 0.0], [1.0, 3.0]])
    f = lambda b: autograd.scipy.linalg.solve_triangular(a, b, lower=True)
    close(jacobian(f)(X[:2]), numpy.linalg.inv(a))
    end = lambda k: odeint(lambda y, t, k: -k * y, numpy.array([2.0]), numpy.array([0.0, 1.0]), (k,))[-1, 0]
    close(grad(end)(0.5), -2 * numpy.exp(-0.5))


@pytest.mark.parametrize("mode", ["full", "valid", "same"])
def test_convolution(mode):
    rng = numpy.random.default_rng(0)
    convolve = autograd.scipy.signal.convolve
    a, b = rng.normal(size=(3, 6)), rng.normal(size=(3, 4, 2))
    if mode == "same":
        close(convolve(a[0], b[0, :, 0], mode=mode), scipy.signal.convolve(a[0], b[0, :, 0], mode))
    out = convolve(a, b, axes=([1], [2]), dot_axes=([0], [0]), mode=mode)
    for k in range(4):
        close(out[k], sum(scipy.signal.convolve(a[i], b[i, k], mode) for i in range(3)))
    close(convolve(a, b[:, :, 0], mode=mode), scipy.signal.convolve(a, b[:, :, 0], mode))
    check_grads(lambda a: convolve(a, b[:, :, 0], mode=mode), modes=["rev"])(a)


def test_what_is_missing_says_so():
    for name in ("VJPNode", "SparseObject"):
        with pytest.raises(NotImplementedError, match=rf"fgrad has no autograd\.core\.{name}: .*defvjp"):
            getattr(autograd.core, name)()
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = np.nonsense
    with pytest.raises(NotImplementedError, match="register_pytree_node"):
        autograd.tracer.Box.register(set)


def test_rules_for_plain_functions_are_never_asked_and_those_of_the_library_stay():
    def twice(x):
        return 2 * x

    defvjp(twice, lambda ans, x: lambda g: 100 * g)
    assert grad(twice)(1.0) == 2.0
    for own in (np.sin, np.dot, np.linalg.inv, special.gammaln):
        with pytest.raises(NotImplementedError, match="own rules stay as they are"):
            defvjp(own, lambda ans, x: lambda g: g)


def test_forward_mode_takes_the_forward_rule_where_both_are_declared():
    @primitive
    def product(x, y):
        return numpy.asarray(x) * y  # no function of fgrad's: rules alone know the derivative

    def unasked(ans, x, y):
        def vjp(g):
            raise AssertionError("forward mode asked for the reverse rule")

        return vjp

    defvjp(product, unasked, unasked)
    defjvp(product, lambda g, ans, x, y: numpy.asarray(g) * y, lambda g, ans, x, y: x * numpy.asarray(g))
    x, y, v, w = X, X + 1, numpy.array([1.0, -2.0, 0.5]), numpy.ones(3)
    value, tangent = make_jvp(lambda xy: np.sin(product(xy[0], xy[1])))((x, y))((v, w))
    close(value, numpy.sin(x * y))
    close(tangent, numpy.cos(x * y) * (v * y + x * w))
    value, tangent = make_jvp(lambda y: product(x, 2.0 * y))(y)(w)
    close(tangent, 2 * x)


def test_cotangents_of_real_arguments_are_real():
    @primitive
    def turned(x):
        return numpy.asarray(x) * 1j

    defvjp(turned, lambda ans, x: lambda g: g * 1j)
    close(grad(lambda x: np.sum(np.imag(turned(x)) ** 2))(X), 2 * X)


def test_what_joins_takes_iterators():
    def joined(x):
        rows = np.stack(map(np.sin, x)), np.concatenate(np.ones(1) * v for v in x), np.hstack(v for v in x)
        return np.sum(np.vstack(r * x for r in rows))

    close(grad(joined)(X), differences(joined, X))
