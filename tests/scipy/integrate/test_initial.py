"""Initial value problems: SciPy's trajectories, with the derivatives of closed forms in every mode."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate
from tests.helpers import close, differences

import fgrad as fg
from fgrad.scipy.integrate import odeint, solve_ivp

TIMES = np.array([0.5, 1.0, 1.2])
ARGS = (np.array([0.7, -0.2]), 2.0, 0.2, TIMES)
FINE = {"rtol": 1e-9, "atol": 1e-11}


def slope(t, y, k):
    return -k[0] * y * t + k[1] * y


def exact(k, y0, t0, times):
    """Return the solution of y' = slope(t, y, k)."""
    return y0 * np.exp(-k[0] * (times**2 - t0**2) / 2 + k[1] * (times - t0))


def solved(k, y0, t0, times, method="RK45", sensitivity=None, **options):
    return solve_ivp(
        slope, (t0, 1.5), y0, method, times, args=(k,), sensitivity=sensitivity, **(FINE | options)
    ).y


def by_odeint(k, y0, t0, times, sensitivity=None):
    both = np.concatenate([np.reshape(t0, (1,)), times])
    return odeint(slope, y0, both, (k,), tfirst=True, rtol=1e-10, atol=1e-12, sensitivity=sensitivity)[1:]


def jacobians(f, args):
    return [differences(lambda x: f(*args[:i], x, *args[i + 1 :]), x) for i, x in enumerate(args)]


# how exact the gradients of a method are at the tolerances used
METHODS = {"RK45": 1e-7, "RK23": 1e-6, "DOP853": 1e-6, "Radau": 1e-6, "BDF": 1e-5, "LSODA": 1e-5}


@pytest.mark.parametrize("sensitivity", ["forward", "adjoint"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_the_derivatives_of_the_closed_form(method, sensitivity):
    tolerance = METHODS[method]
    options = {"rtol": 1e-7, "atol": 1e-9} if method == "RK23" else FINE
    f = lambda *args: solved(*args, method=method, sensitivity=sensitivity, **options)
    expected = jacobians(exact, ARGS)
    value, pullback = fg.vjp(f, *ARGS)
    close(value, exact(*ARGS), tolerance)
    for found, jacobian in zip(pullback(np.array([1.0, -2.0, 0.5])), expected, strict=True):
        close(found, np.tensordot([1.0, -2.0, 0.5], jacobian, 1), 10 * tolerance)
    tangents = (np.array([1.0, 0.5]), -1.0, 0.3, np.array([0.1, 0.2, -1.0]))
    total = sum(np.tensordot(j, t, np.ndim(t)) for j, t in zip(expected, tangents, strict=True))
    close(fg.jvp(f, ARGS, tangents)[1], total, 10 * tolerance)


@pytest.mark.parametrize("sensitivity", ["forward", "adjoint"])
def test_odeint(sensitivity):
    f = lambda *args: by_odeint(*args, sensitivity=sensitivity)
    close(f(*ARGS), exact(*ARGS), 1e-8)
    for found, expected in zip(fg.jacrev(f, (0, 1, 2, 3))(*ARGS), jacobians(exact, ARGS), strict=True):
        close(found, expected, 1e-6)
    for found, expected in zip(fg.jacfwd(f, (0, 1, 2, 3))(*ARGS), jacobians(exact, ARGS), strict=True):
        close(found, expected, 1e-6)


@pytest.mark.parametrize("sensitivity", ["forward", "adjoint"])
def test_second_order_in_everything(sensitivity):
    weigh = np.array([1.0, -2.0, 0.5])
    loss = lambda f: lambda *args: np.sum(weigh * f(*args) ** 2)
    mine = loss(lambda *args: solved(*args, sensitivity=sensitivity))
    for i, x in enumerate(ARGS):
        part = lambda f: lambda x: f(*ARGS[:i], x, *ARGS[i + 1 :])
        expected = differences(lambda x: differences(part(loss(exact)), x, 1e-4), x, 1e-4)
        close(fg.hessian(part(mine))(x), expected, 1e-5)
        close(fg.jacrev(fg.grad(part(mine)))(x), expected, 1e-5)
    mixed = fg.jacrev(fg.grad(mine, 1), 0)(*ARGS)
    expected = differences(
        lambda k: differences(lambda y: loss(exact)(k, y, *ARGS[2:]), 2.0, 1e-4), ARGS[0], 1e-4
    )
    close(mixed, expected, 1e-5)


def test_third_order():
    f = lambda k: solved(np.stack([k, -0.2]), *ARGS[1:], sensitivity="adjoint")[1]
    third = exact(*ARGS)[1] * (-(1.0 - 0.2**2) / 2) ** 3
    close(fg.grad(fg.grad(fg.grad(f)))(0.7), third, 1e-6)
    close(fg.jacfwd(fg.grad(fg.grad(f)))(0.7), third, 1e-6)


def test_nothing_grows_backward_where_the_solution_decays_forward():
    """Integrating y itself back would multiply its errors by exp(1000)."""
    forced = lambda t, y, k: -k * (y - np.cos(t))
    final = lambda k, y0, s: solve_ivp(
        forced, (0.0, 1.0), y0, "BDF", [1.0], args=(k,), sensitivity=s, rtol=1e-8, atol=1e-11
    ).y[0]
    k = 1000.0  # y -> (k^2 cos t + k sin t) / (1 + k^2)
    expected = (2 * k * np.cos(1.0) + np.sin(1.0)) / (1 + k**2) - 2 * k * (
        k**2 * np.cos(1.0) + k * np.sin(1.0)
    ) / (1 + k**2) ** 2
    for sensitivity in ("forward", "adjoint"):
        close(fg.grad(lambda k: final(k, 0.0, sensitivity))(k), expected, 1e-5, 1e-12)
        close(fg.jvp(lambda k: final(k, 0.0, sensitivity), (k,), (1.0,))[1], expected, 1e-5, 1e-12)


def test_derivatives_of_small_and_large_parameters_are_as_exact():
    """The absolute tolerance of a derivative is that of y, per parameter."""
    for scale in (1e6, 1e-6):
        f = lambda k, s: solve_ivp(
            lambda t, y: -k / scale * y, (0.0, 1.0), 2.0, t_eval=[1.0], sensitivity=s, rtol=1e-6, atol=1e-8
        ).y[0]
        for sensitivity in ("forward", "adjoint"):
            close(fg.grad(lambda k: f(k, sensitivity))(0.7 * scale) * scale, -2 * np.exp(-0.7), 1e-5)


def test_a_network_is_integrated_back_by_default():
    rng = np.random.default_rng(1)
    w = rng.standard_normal((6, 6)) * 0.4
    field = lambda t, y, w: np.tanh(w @ y) - 0.1 * y
    y0, target = rng.standard_normal(6), rng.standard_normal(6)

    def loss(w, **options):
        y = solve_ivp(field, (0.0, 2.0), y0, t_eval=[1.0, 2.0], args=(w,), rtol=1e-8, atol=1e-10, **options).y
        return np.sum((y[:, 1] - target) ** 2) + np.sum(y[:, 0])

    def reference(w):
        done = scipy.integrate.solve_ivp(
            field, (0.0, 2.0), y0, "DOP853", [1.0, 2.0], args=(w,), rtol=1e-11, atol=1e-12
        )
        return np.sum((done.y[:, 1] - target) ** 2) + np.sum(done.y[:, 0])

    expected = differences(reference, w, 1e-5)
    close(fg.grad(loss)(w), expected, 1e-6)
    close(fg.grad(lambda w: loss(w, sensitivity="forward"))(w), expected, 1e-6)


def test_mapped_and_jitted():
    ks = np.array([[0.7, -0.2], [0.3, 0.1]])
    f = lambda k: solved(k, *ARGS[1:])
    each = np.stack([exact(k, *ARGS[1:]) for k in ks])
    slopes = np.stack([jacobians(exact, (k, *ARGS[1:]))[0] for k in ks])
    close(fg.vmap(f)(ks), each, 1e-7)
    close(fg.vmap(fg.jacrev(f))(ks), slopes, 1e-6)
    close(fg.jit(fg.jacfwd(f))(ks[0]), slopes[0], 1e-6)
    close(fg.jit(fg.vmap(fg.jacrev(lambda k: solved(k, *ARGS[1:], sensitivity="adjoint"))))(ks), slopes, 1e-6)
    result = fg.jit(lambda k: solve_ivp(slope, (0.2, 1.5), 2.0, t_eval=TIMES, args=(k,)))(ks[0])
    assert result["success"]
    assert result["nfev"] > 1


def test_the_steps_of_scipy_and_the_ends_of_the_span():
    plain = solve_ivp(slope, (0.2, 1.5), 2.0, args=(ARGS[0],))
    theirs = scipy.integrate.solve_ivp(slope, (0.2, 1.5), [2.0], args=(ARGS[0],))
    assert set(plain) == set(theirs)
    assert plain.nfev == theirs.nfev
    assert plain.message == theirs.message
    close(plain.t, theirs.t)
    close(plain.y, theirs.y[0])

    def last(k, start, stop):
        result = solve_ivp(slope, (start, stop), 2.0, args=(k,), **FINE)
        assert result.message == theirs.message
        return result.y[-1] + 0.0 * result.t[-1]

    args = (ARGS[0], 0.2, 1.5)
    closed = lambda k, start, stop: exact(k, 2.0, start, stop)
    for found, expected in zip(fg.jacrev(last, (0, 1, 2))(*args), jacobians(closed, args), strict=True):
        close(found, expected, 1e-6)
    close(fg.grad(lambda t: solve_ivp(slope, (0.2, t), 2.0, args=(ARGS[0],)).t[-1])(1.5), 1.0)
    for transformed, k in ((fg.jit, ARGS[0]), (fg.vmap, np.ones((2, 2)))):
        with pytest.raises(ValueError, match="needs t_eval where it is mapped or traced"):
            transformed(lambda k: solve_ivp(slope, (0.2, 1.5), 2.0, args=(k,)).y)(k)


def test_backward_in_time_and_at_the_start_itself():
    f = lambda k, s: (
        solve_ivp(lambda t, y: -k * y, (1.0, 0.0), 2.0, t_eval=[1.0, 0.5, 0.0], sensitivity=s, **FINE).y
    )
    close(f(0.7, None), 2 * np.exp(0.7 * np.array([0.0, 0.5, 1.0])), 1e-8)
    for sensitivity in ("forward", "adjoint"):
        expected = np.array([0.0, 0.5, 1.0]) * 2 * np.exp(0.7 * np.array([0.0, 0.5, 1.0]))
        close(fg.jacrev(f)(0.7, sensitivity), expected, 1e-7)
        start = lambda t: (
            solve_ivp(slope, (t, 1.0), 2.0, t_eval=np.stack([t, 1.0]), args=(ARGS[0],), **FINE).y
        )
        close(fg.jacrev(start)(0.2), [0.0, jacobians(exact, (ARGS[0], 2.0, 0.2, 1.0))[2]], 1e-6)
    close(odeint(lambda y, t: -y, 2.0, [1.0]), [2.0])
    close(fg.grad(lambda y: odeint(lambda y, t: -y, y, [1.0])[0])(2.0), 1.0)


def test_pytrees_and_complex_numbers():
    def turn(t, y, w):
        return {"z": 1j * w * y["z"], "more": [-y["more"][0], w * t]}

    start = {"z": np.array([1.0 + 0j, 2.0j]), "more": [np.ones((2, 1)), np.float32(0.0)]}
    times = np.array([0.5, 1.0])
    f = lambda start, w: solve_ivp(turn, (0.0, 1.0), start, t_eval=times, args=(w,), **FINE).y
    y = f(start, 0.5)
    close(y["z"], start["z"][:, None] * np.exp(0.5j * times), 1e-8)
    close(y["more"][0], np.ones((2, 1, 1)) * np.exp(-times), 1e-8)
    close(y["more"][1], (0.25 * times**2).astype(np.float32))
    final = lambda w: f(start, w)["z"][0, 1]
    close(fg.grad(lambda w: np.real(final(w)))(0.5), -np.sin(0.5), 1e-7)
    w = 0.5 + 0.3j
    close(
        fg.grad(lambda w: np.real(f({**start, "more": [0.0, 0.0j]}, w)["z"][0, 1]))(w),
        1j * np.exp(1j * w),
        1e-7,
    )
    by_start = fg.grad(lambda s: np.real(f(s, 0.5)["z"][0, 1]))(start)
    close(by_start["z"], np.array([np.exp(0.5j), 0.0]), 1e-7)
    rows = odeint(lambda y, t: turn(t, y, 0.5), start, [0.0, 1.0])
    close(rows["z"], np.stack([start["z"], start["z"] * np.exp(0.5j)]), 1e-6)
    assert rows["more"][0].shape == (2, 2, 1)


def test_lists_of_numbers_are_arrays_and_band_widths_are_scipys():
    k = np.array([0.5, 1.0])
    for options in ({}, {"method": "LSODA", "lband": 0, "uband": 0}):
        f = lambda k: solve_ivp(lambda t, y: -k * y, (0, 1), [1, 2], t_eval=[1], **(FINE | options)).y[:, 0]
        close(f(k), np.array([1.0, 2.0]) * np.exp(-k), 1e-7)
        close(fg.jacrev(f)(k), np.diag(np.array([-1.0, -2.0]) * np.exp(-k)), 1e-6)
    close(odeint(lambda y, t: -k * y, [1, 2], [0, 1])[1], np.array([1.0, 2.0]) * np.exp(-k), 1e-6)


def test_closures_over_tensors_that_are_followed_get_their_gradients():
    k, manager = fg.tensor([0.7, -0.2]), fg.GradManager()
    with manager.attach(k):
        y = solve_ivp(lambda t, y: slope(t, y, k), (0.2, 1.5), 2.0, t_eval=TIMES, **FINE).y
        manager.backward(np.sum(y))
    close(k.grad, np.sum(jacobians(exact, ARGS)[0], axis=0), 1e-6)


def test_python_may_choose_where_nothing_is_differentiated():
    switched = lambda t, y, k: [-k * y[0] if t < 1.0 else 0.0 * y[0]]
    f = lambda k: solve_ivp(switched, (0.0, 2.0), [2.0], t_eval=[2.0], args=(k,), max_step=0.01).y[0][0]
    close(f(0.5), 2 * np.exp(-0.5), 1e-2)
    with pytest.raises(TypeError, match=r"bool\(\) at .* needs the value of a Tensor"):
        fg.grad(f)(0.5)


def test_implicit_methods_get_the_exact_jacobian():
    calls = []

    def robertson(t, y):
        calls.append(1)
        a, b, c = y
        return [-0.04 * a + 1e4 * b * c, 0.04 * a - 1e4 * b * c - 3e7 * b**2, 3e7 * b**2]

    y0 = np.array([1.0, 0.0, 0.0])
    for method in ("BDF", "Radau", "LSODA"):
        mine = solve_ivp(robertson, (0.0, 100.0), y0, method)
        calls.clear()
        theirs = scipy.integrate.solve_ivp(robertson, (0.0, 100.0), y0, method)
        close(mine.y[:, -1], theirs.y[:, -1], 1e-2)
        assert mine.njev > 0
        assert mine.nfev <= len(calls)


def test_an_integration_that_fails_says_so():
    burst = lambda t, y, k: k * y**2  # infinite at t = 1 / (k y0)
    f = lambda k: solve_ivp(burst, (0.0, 3.0), 1.0, t_eval=[0.5, 2.0], args=(k,))
    with np.errstate(all="ignore"):
        assert not f(1.0).success
        assert f(1.0).y.shape == (1,)
        with pytest.warns(fg.UnsolvedWarning, match=r"solve_ivp did not find a solution \(status -1\)"):
            fg.grad(lambda k: f(k).y[0])(1.0)
        with pytest.warns(scipy.integrate.ODEintWarning):
            odeint(lambda y, t: y**2, 1.0, [0.0, 0.5, 2.0])


def test_what_is_refused():
    decay = lambda t, y: -y
    with pytest.raises(NotImplementedError, match=r"solve_ivp has no events: .*brentq"):
        solve_ivp(decay, (0.0, 1.0), 1.0, events=decay)
    with pytest.raises(NotImplementedError, match=r"solve_ivp has no dense_output: .*t_eval"):
        solve_ivp(decay, (0.0, 1.0), 1.0, dense_output=True)
    with pytest.raises(ValueError, match="must return as many numbers as y has, 1, not 2"):
        solve_ivp(lambda t, y: [1.0, 2.0], (0.0, 1.0), 1.0)
    with pytest.raises(ValueError, match="sensitivity must be 'forward', 'adjoint' or None, not 'both'"):
        solve_ivp(decay, (0.0, 1.0), 1.0, sensitivity="both")
    with pytest.raises(ValueError, match="sensitivity must be"):
        odeint(decay, 1.0, [0.0], sensitivity="both")
    with pytest.raises(TypeError, match="odeint has no option full_output"):
        odeint(decay, 1.0, [0.0, 1.0], full_output=True)
