"""`Function`: a rule of the user's own for all managers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_grad, close, take_grad
from tests.transforms.lifetimes import tracked

import fgrad as fg
from fgrad import Function, GradManager, NoGradientWarning, tensor

X = np.array([0.5, 1.0, 2.0])


class Cube(Function):
    """x**3, with its true derivative."""

    def forward(self, x):
        self.x = x
        return x * x * x

    def backward(self, ct):
        return ct * self.x * self.x * 3.0


class Straight(Function):
    """Rounds, and pretends to be the identity: a rule that no differentiation of `forward` gives."""

    def forward(self, x):
        return np.floor(x) + x * 0.0

    def backward(self, ct):
        return ct * 10.0


class MulAdd(Function):
    """a * b + c."""

    def forward(self, a, b, c):
        self.a, self.b = a, b
        return a * b + c

    def backward(self, ct):
        return ct * self.b, ct * self.a, ct


class Polar(Function):
    """The length and the direction of a vector; keeps the cotangents it saw."""

    def forward(self, x, y):
        self.x, self.y = x, y
        return np.sqrt(x * x + y * y), np.arctan2(y, x)

    def backward(self, length, angle):
        self.seen = length, angle
        x, y = self.x, self.y
        r = np.sqrt(x * x + y * y)
        gx, gy = 0.0 * x, 0.0 * y
        if length is not None:
            gx, gy = gx + length * x / r, gy + length * y / r
        if angle is not None:
            gx, gy = gx - angle * y / r**2, gy + angle * x / r**2
        return gx, gy


# ---- 45: the rule holds, for everyone ---------------------------------------------------------------


def test_call_an_instance():
    x = tensor(X)
    gm = GradManager().attach(x)
    with gm:
        y = Cube()(x)
        assert type(y) is fg.Tensor
        assert tracked(y)
        close(y, X**3)
        gm.backward(y * 2.0)
    check_grad(x, 6 * X**2)


def test_outside_any_recording_it_just_computes():
    y = Cube()(tensor(X))
    assert type(y) is fg.Tensor
    assert not tracked(y)
    close(y, X**3)


@pytest.mark.parametrize("value", [np.array(2.0), np.zeros((0, 2)), X.astype(np.float32), X * 1j])
def test_any_shape_and_floating_dtype(value):
    x = tensor(value)
    gm = GradManager().attach(x)
    with gm:
        y = Cube()(x)
        assert y.dtype == value.dtype
        gm.backward(y)
    check_grad(x, 3 * value**2)


def test_several_inputs_of_several_shapes():
    a, b, c = tensor(2.0), tensor(3.0), tensor(5.0)
    gm = GradManager().attach([a, b, c])
    with gm:
        gm.backward(MulAdd()(a, b, c))
    check_grad(a, 3.0)
    check_grad(b, 2.0)
    check_grad(c, 1.0)


def test_the_same_tensor_as_several_inputs():
    x = tensor(X)
    gm = GradManager().attach(x)
    with gm:
        gm.backward(MulAdd()(x, x, x))
    check_grad(x, 2 * X + 1)


def test_results_for_untracked_inputs_are_ignored():
    a, b, c = tensor(2.0), tensor(3.0), tensor(5.0)
    gm = GradManager().attach(b)
    with gm:
        gm.backward(MulAdd()(a, b, c))
    check_grad(b, 2.0)
    assert a.grad is None
    assert c.grad is None


def test_an_init_of_its_own_needs_no_ceremony():
    class Power(Function):
        def __init__(self, n):
            self.n = n

        def forward(self, x):
            self.x = x
            return x**self.n

        def backward(self, ct):
            return ct * self.n * self.x ** (self.n - 1)

    x = tensor(X)
    gm = GradManager().attach(x)
    with gm:
        gm.backward(Power(4)(x))
    check_grad(x, 4 * X**3)


def tenfold(w):
    """Return a Function with an impossible rule, which also uses a tensor that is not its argument."""

    class Tenfold(Function):
        def forward(self, a):
            self.inside = a * w, w * w
            return a * w

        def backward(self, ct):
            return ct * 10.0

    return Tenfold()


def test_operations_inside_forward_are_hidden():
    x, w = tensor(X), tensor(X + 1)
    a, b = (GradManager().attach([x, w]) for _ in range(2))
    with a | b:
        f = tenfold(w)
        y = f(x)
        assert [tracked(t) for t in (*f.inside, y)] == [False, False, True]


def test_and_they_are_hidden_when_no_argument_is_tracked():
    x, w = tensor(X), tensor(X + 1)
    with GradManager().attach(w):
        y = tenfold(w)(x)
        assert not tracked(y), "the rule says nothing about w, with or without a gradient for x"
        close(y, X * (X + 1))


def test_the_rule_holds_for_every_manager():
    x, w = tensor(X), tensor(X + 1)
    outer, inner, peer = (GradManager().attach([x, w]) for _ in range(3))
    with outer, inner | peer:
        y = tenfold(w)(x)
        assert tracked(y)
        for gm in (peer, inner, outer):
            gm.backward(y)
            check_grad(x, 10.0)
            assert w.grad is None
            x.grad = None


def test_recording_goes_on_after_it():
    x = tensor(X)
    gm = GradManager().attach(x)
    with gm:
        y = Straight()(x * 2.0)
        z = x * x
        gm.backward(y * 3.0 + z)
    check_grad(x, 2 * 10.0 * 3.0 + 2 * X)


def test_a_manager_of_its_own_records_inside_forward():
    """As an implicit layer does, which solves an equation by Newton's method."""

    class Root(Function):
        def forward(self, a):
            x = tensor(np.ones(a.shape))
            for _ in range(8):
                with GradManager().attach(x) as gm:
                    y = x * x - a
                    gm.backward(y)
                x = (x - y / x.grad).detach()
            self.x = x
            return x

        def backward(self, ct):
            return ct / (2.0 * self.x)

    a = tensor([2.0, 3.0])
    gm = GradManager().attach(a)
    with gm:
        y = Root()(a)
        close(y, np.sqrt([2.0, 3.0]))
        gm.backward(y)
    check_grad(a, 0.5 / np.sqrt([2.0, 3.0]))


def test_operations_inside_backward_are_recorded_by_outer_managers():
    x = tensor(X)
    gms = [GradManager().attach(x) for _ in range(3)]
    with gms[0], gms[1], gms[2]:
        y = Cube()(x)
        for gm, expected in zip(reversed(gms), (3 * X**2, 6 * X, np.full(3, 6.0)), strict=True):
            gm.backward(y)
            y = take_grad(x)
            close(y, expected)


def test_higher_order_works_with_a_saved_output_too():
    class Exp(Function):
        def forward(self, a):
            self.y = np.exp(a)
            return self.y

        def backward(self, ct):
            return ct * self.y

    x = tensor(X)
    gms = [GradManager().attach(x) for _ in range(3)]
    with gms[0], gms[1], gms[2]:
        y = Exp()(x)
        for gm in reversed(gms):
            gm.backward(y)
            y = take_grad(x)
            close(y, np.exp(X))


def test_and_by_no_inner_or_equal_one():
    x = tensor(X)
    made = []

    class Leak(Function):
        def forward(self, a):
            self.a = a
            return a * 1.0

        def backward(self, ct):
            made.append(self.a * 5.0)
            return ct

    gm, peer, inner = GradManager().attach(x), GradManager().attach(x), GradManager().attach(x)
    with gm | peer, inner:
        gm.backward(Leak()(x))
        x.grad = None
        for other in (peer, inner):
            with pytest.warns(NoGradientWarning):
                other.backward(made[0])
    assert x.grad is None


def test_higher_order_through_the_functional_layer():
    close(fg.grad(lambda x: np.sum(Cube()(x)))(X), 3 * X**2)
    close(fg.hessian(lambda x: np.sum(Cube()(x)))(X), np.diag(6 * X))
    close(fg.jvp(lambda x: Cube()(x), (X,), (np.ones(3),))[1], 3 * X**2)
    inner = fg.grad(lambda x: np.sum(Straight()(x) * x))  # 10 x + floor(x)
    close(inner(X), 10 * X + np.floor(X))
    close(fg.grad(lambda x: np.sum(inner(x) * x))(X), 30 * X + np.floor(X))


def test_an_argument_changed_after_the_call_changes_no_gradient():
    x = tensor(X)
    gm = GradManager().attach(x)
    with gm:
        h = x * 1.0
        y = Cube()(x) + Cube()(h)
        x *= 100.0
        h[...] = 7.0
        gm.backward(y)
    check_grad(x, 6 * X**2)


def test_an_argument_changed_inside_forward_is_the_callers_no_more():
    class Doubled(Function):
        def forward(self, a):
            a *= 2.0
            return a

        def backward(self, ct):
            return ct * 2.0

    x = tensor(X)
    gm = GradManager().attach(x)
    with gm:
        y = Doubled()(x)
        close(x, X)
        close(y, 2 * X)
        gm.backward(y * x)
    check_grad(x, 4 * X)


def test_forward_may_return_its_argument():
    class Same(Function):
        def forward(self, a):
            return a

        def backward(self, ct):
            return ct * 10.0

    x = tensor(X)
    gm = GradManager().attach(x)
    with gm:
        y = Same()(x)
        assert y is not x
        gm.backward([y, x])
    check_grad(x, 11.0)


def test_forward_may_return_something_made_elsewhere():
    c = tensor(X)

    class Constant(Function):
        def forward(self, a):
            return c

        def backward(self, ct):
            return ct * 10.0

    x = tensor(X)
    gm = GradManager().attach(x)
    with gm:
        y = Constant()(x)
        assert y is not c
        assert not tracked(c)
        gm.backward(y)
    check_grad(x, 10.0)


def test_functions_inside_functions():
    class Outer(Function):
        def forward(self, a):
            self.a = a
            return Straight()(Cube()(a))

        def backward(self, ct):
            return Cube()(self.a) * ct

    x = tensor(X)
    outer, inner = GradManager().attach(x), GradManager().attach(x)
    with outer, inner:
        inner.backward(Outer()(x))
        g = take_grad(x)
        close(g, X**3)
        outer.backward(g)
    check_grad(x, 3 * X**2)


def test_backward_gets_cotangents_that_are_tensors_of_the_outputs_dtype():
    seen = []

    class Look(Function):
        def forward(self, a):
            return a * 1

        def backward(self, ct):
            seen.append(ct)
            return ct

    x = tensor(X.astype(np.float32))
    gm = GradManager().attach(x)
    with gm:
        gm.backward(Look()(x) * np.float64(3.0), X)
    (ct,) = seen
    assert type(ct) is fg.Tensor
    assert ct.dtype == np.float32
    close(ct, (3 * X).astype(np.float32))


# ---- 46: several outputs, and results that are wrong -------------------------------------------------

P, Q = np.array([3.0, 1.0]), np.array([4.0, 2.0])


@pytest.mark.parametrize("attach", [False, True])
def test_several_outputs_come_back_as_a_tuple(attach):
    x, y = tensor(P), tensor(Q)
    gm = GradManager()
    with gm.attach([x, y]) if attach else gm:
        out = Polar()(x, y)
        assert type(out) is tuple
        assert len(out) == 2
        assert [type(t) for t in out] == [fg.Tensor] * 2
        assert [tracked(t) for t in out] == [attach] * 2
        close(out[0], np.hypot(P, Q))
        close(out[1], np.arctan2(Q, P))
    assert type(Polar()(x, y)) is tuple


def polar_grads(dr, da):
    """Return the gradients of sum(dr * r + da * angle) in closed form."""
    r = np.hypot(P, Q)
    return dr * P / r - da * Q / r**2, dr * Q / r + da * P / r**2


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("used", [(0,), (1,), (0, 1)])
def test_unused_outputs_get_none(used, keep):
    x, y = tensor(P), tensor(Q)
    gm, weights = GradManager().attach([x, y]), (2.0, 5.0)
    with gm:
        polar = Polar()
        out = polar(x, y)
        seeds = [out[i] * weights[i] for i in used]
        if not keep:
            del out
        gm.backward(seeds)
    assert [ct is not None for ct in polar.seen] == [i in used for i in range(2)]
    gx, gy = polar_grads(*(weights[i] if i in used else 0.0 for i in range(2)))
    check_grad(x, gx)
    check_grad(y, gy)


def test_an_output_used_with_a_zero_cotangent_is_used():
    x, y = tensor(P), tensor(Q)
    gm = GradManager().attach([x, y])
    with gm:
        polar = Polar()
        r, angle = polar(x, y)
        gm.backward([r, angle * 0.0])
    close(polar.seen[1], np.zeros(2))


def test_when_no_output_is_used_backward_is_not_called():
    x, y = tensor(P), tensor(Q)
    gm = GradManager().attach([x, y])
    with gm:
        polar = Polar()
        out = polar(x, y)
        gm.backward(x * 2.0)
        assert out is not None
    assert not hasattr(polar, "seen")
    check_grad(x, 2.0)
    assert y.grad is None


def test_several_outputs_have_higher_orders_too():
    x, y = tensor(P), tensor(Q)
    outer, inner = GradManager().attach(x), GradManager().attach(x)
    with outer, inner:
        _, angle = Polar()(x, y)
        inner.backward(angle)
        outer.backward(take_grad(x))  # -y / (x**2 + y**2)
    check_grad(x, 2 * P * Q / (P**2 + Q**2) ** 2)


def test_one_tensor_as_two_outputs_is_two_outputs():
    class Twice(Function):
        def forward(self, a):
            b = a * 1.0
            return b, b

        def backward(self, first, second):
            return first * 10.0 + second * 100.0

    x = tensor(X)
    gm = GradManager().attach(x)
    with gm:
        first, second = Twice()(x)
        assert first is not second
        gm.backward([first, second * 2.0])
    check_grad(x, 210.0)


def test_outputs_of_different_shapes_and_dtypes():
    class Parts(Function):
        def forward(self, a):
            return np.sum(a), a.astype(np.float32), a[:, None]

        def backward(self, total, single, column):
            assert (total.dtype, single.dtype) == (np.float64, np.float32)
            return single.astype(np.float64) + total + column[:, 0]

    x = tensor(X)
    gm = GradManager().attach(x)
    with gm:
        total, single, column = Parts()(x)
        gm.backward([total * 2.0, single * 3.0, column])
    check_grad(x, 2.0 + 3.0 + 1.0)


class Choose(Function):
    """a + b, with the results that a test wants."""

    results = None

    def forward(self, a, b):
        return a + b

    def backward(self, ct):
        return type(self).results(ct)


class Single(Function):
    """a * 1.0, with the result that a test wants."""

    result = None

    def forward(self, a):
        return a * 1.0

    def backward(self, ct):
        return type(self).result(ct)


def test_none_stops_that_gradient():
    class Stop(Choose):
        results = staticmethod(lambda ct: (None, ct * 7.0))

    x, y, calls = tensor(X), tensor(X), []
    gm = GradManager().attach(x, lambda t, g: calls.append(t)).attach(y)
    with gm:
        gm.backward(Stop()(x, y))
    assert x.grad is None
    assert calls == []
    check_grad(y, 7.0)
    with gm:  # the other ways to x stay open
        gm.backward(Stop()(x * x, y) + x)
    check_grad(x, 1.0)
    with gm:
        gm.backward(Stop()(y, x))
    check_grad(x, 8.0)
    check_grad(y, 14.0)


def test_none_from_a_rule_with_one_input():
    class Wall(Single):
        result = staticmethod(lambda ct: None)

    x = tensor(X)
    gm = GradManager().attach(x)
    with gm:
        gm.backward(Wall()(x))
    assert x.grad is None


WRONG_PAIRS = {
    "one of two": lambda ct: (ct,),
    "a single tensor": lambda ct: ct,
    "three": lambda ct: (ct, ct, ct),
    "none at all": lambda ct: (),
    "a number": lambda ct: (ct, 1.0),
    "a string": lambda ct: (ct, "ct"),
    "a list": lambda ct: (ct, [ct]),
    "a shape": lambda ct: (ct, ct[:2]),
    "a shape that broadcasts": lambda ct: (ct, ct[:1]),
    "no axes": lambda ct: (ct, np.sum(ct)),
    "a wider shape": lambda ct: (ct, ct[None]),
    "a narrower dtype": lambda ct: (ct, ct.astype(np.float32)),
    "a complex dtype": lambda ct: (ct, ct * 1j),
    "an integer dtype": lambda ct: (ct, ct.astype(np.int64)),
}


@pytest.mark.parametrize("results", WRONG_PAIRS.values(), ids=WRONG_PAIRS)
def test_wrong_results_raise_and_name_the_class(results):
    class MyBrokenRule(Choose):
        pass

    MyBrokenRule.results = staticmethod(results)
    x, y = tensor(X), tensor(X)
    gm = GradManager().attach([x, y])
    with gm:
        with pytest.raises((TypeError, ValueError), match="MyBrokenRule"):
            gm.backward(MyBrokenRule()(x, y))
        assert x.grad is None
        assert y.grad is None
        assert not gm.is_recording
    with gm:
        gm.backward(x * 3.0)
    check_grad(x, 3.0)


WRONG_SINGLES = [lambda ct: (ct, ct), lambda ct: ct[0], lambda ct: 1.0]


@pytest.mark.parametrize("result", WRONG_SINGLES, ids=["two", "shape", "number"])
def test_wrong_results_of_a_rule_with_one_input(result):
    class MyBrokenRule(Single):
        pass

    MyBrokenRule.result = staticmethod(result)
    x = tensor(X)
    gm = GradManager().attach(x)
    with gm, pytest.raises((TypeError, ValueError), match="MyBrokenRule"):
        gm.backward(MyBrokenRule()(x))
    assert x.grad is None


# ---- 47: exceptions -----------------------------------------------------------------------------------


class BaseBoomError(BaseException):
    """Like KeyboardInterrupt, not an Exception."""


@pytest.mark.parametrize("kind", [ZeroDivisionError, BaseBoomError])
def test_an_exception_in_forward_leaves_every_manager_as_it_was(kind):
    error = kind("mine")

    class Broken(Function):
        def forward(self, a):
            a * a
            raise error

        def backward(self, ct):
            return ct

    x = tensor(X)
    outer, inner, peer = (GradManager().attach(x) for _ in range(3))
    with outer, inner | peer:
        y = x * x
        with pytest.raises(kind) as e:
            Broken()(y)
        assert e.value is error
        assert all(gm.is_recording for gm in (outer, inner, peer))
        z = y * x  # still recorded, and no longer hidden
        assert tracked(z)
        for gm in (inner, peer, outer):
            gm.backward(z)
            check_grad(x, 3 * X**2)
            x.grad = None


@pytest.mark.parametrize("kind", [ZeroDivisionError, BaseBoomError])
def test_an_exception_in_backward_leaves_the_others_as_they_were(kind):
    """The manager whose backward it was is released, by item 30."""
    error = kind("mine")
    armed = [True]

    class Broken(Function):
        def forward(self, a):
            self.a = a
            return a * a

        def backward(self, ct):
            g = self.a * 2.0
            if armed:
                armed.pop()
                raise error
            return g * ct

    x = tensor(X)
    outer, inner, peer = (GradManager().attach(x) for _ in range(3))
    with outer, inner | peer:
        y = Broken()(x)
        with pytest.raises(kind) as e:
            inner.backward(y)
        assert e.value is error
        assert x.grad is None
        assert [gm.is_recording for gm in (outer, inner, peer)] == [True, False, True]
        z = y * x
        peer.backward(z)
        g = take_grad(x)
        close(g, 3 * X**2)
        inner.record()
        inner.backward(y * x)
        close(take_grad(x), X**2)
        outer.backward([z, g])
    check_grad(x, 3 * X**2 + 6 * X)


@pytest.mark.parametrize("bad", [None, "abc", (None,), object()], ids=lambda b: type(b).__name__)
def test_a_forward_that_returns_no_tensor_is_such_an_exception(bad):
    class MyBrokenForward(Function):
        def forward(self, a):
            return bad

        def backward(self, ct):
            return ct

    x = tensor(X)
    gm = GradManager().attach(x)
    with gm:
        with pytest.raises(TypeError, match="MyBrokenForward"):
            MyBrokenForward()(x)
        gm.backward(x * 3.0)
    check_grad(x, 3.0)


def test_a_wrong_call_is_such_an_exception_too():
    x = tensor(X)
    gm = GradManager().attach(x)
    with gm:
        with pytest.raises(TypeError):
            Cube()(x, x)
        gm.backward(Cube()(x))
    check_grad(x, 3 * X**2)


class Power(Function):
    """x**n, where n is found in `forward`."""

    calls = 0

    def forward(self, x):
        self.x, self.n = x, 3 if x.size == 3 else 2
        return x**self.n

    def backward(self, ct):
        self.calls += 1
        return ct * self.n * self.x ** (self.n - 1)


@pytest.mark.parametrize("wrap", [lambda f: f, fg.jit, fg.checkpoint], ids=["eager", "jit", "checkpoint"])
def test_an_instance_may_be_called_more_than_once(wrap):
    power = Power()
    total = wrap(lambda x: np.sum(power(x)) + np.sum(power(x[:2] * 5.0)) + np.sum(power(2.0 * x)))
    slope = 27.0 * X**2
    slope[:2] += 50.0 * X[:2]
    close(fg.grad(total)(X), slope)
    close(fg.hessian(total)(X), np.diag(54.0 * X + [50.0, 50.0, 0.0]))


def test_what_backward_keeps_on_an_instance_stays_there():
    power = Power()
    _, pullback = fg.vjp(lambda x: power(power(x)), X)
    close(pullback(np.ones(3))[0], 9.0 * X**8)
    close(pullback(np.ones(3))[0], 9.0 * X**8)
    assert power.calls == 4
