"""debug_nans names the first operation that gives NaN or infinity, and the line that called it."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading

import numpy as np
import pytest
from tests.helpers import close

import fgrad as fg
from fgrad.core.nonfinite import line_of as line_kept_of
from fgrad.core.notes import Noted
from fgrad.core.primitive import PRIMITIVES

HERE = r"test_nonfinite\.py"


def line_of(text):
    """Return the number of the one line of this file that ends with the comment `text`."""
    lines = inspect.getsource(inspect.getmodule(line_of)).splitlines()
    (found,) = [i for i, line in enumerate(lines, 1) if line.endswith("# " + text)]
    return f":{found}"


def log_of_negative(x):
    y = x - 2.0
    return np.log(y) * 2.0  # log


def root(x):
    y = np.sqrt(x)  # root
    return np.sum(3.0 * y)


FORWARD = {
    "eager": lambda: log_of_negative(fg.tensor([3.0, 1.0])),
    "grad": lambda: fg.grad(lambda x: np.sum(log_of_negative(x)))(np.array([3.0, 1.0])),
    "jvp": lambda: fg.jvp(log_of_negative, (1.0,), (1.0,)),
    "vmap": lambda: fg.vmap(log_of_negative)(np.array([3.0, 1.0])),
    "vmap of grad": lambda: fg.vmap(fg.grad(log_of_negative))(np.array([3.0, 1.0])),
    "hessian": lambda: fg.hessian(log_of_negative)(1.0),
    "replay": lambda: fg.make_graph(log_of_negative)(3.0)(1.0),
}


@pytest.mark.parametrize("name", FORWARD)
def test_a_value(name):
    with fg.debug_nans(), pytest.raises(fg.NonFiniteError, match=f"log at .*{HERE}.* gave nan") as caught:
        FORWARD[name]()
    assert isinstance(caught.value, FloatingPointError)
    assert caught.value.operation == "log"
    assert caught.value.line.endswith(line_of("log"))
    assert re.search(r"operand 0 = .*-1\.", str(caught.value))


def manager(f):
    def run(x):
        t = fg.tensor(x)
        with fg.GradManager().attach(t) as gm:
            gm.backward(f(t))

    return run


def manager_with_callback(f):
    def run(x):
        t = fg.tensor(x)
        with fg.GradManager().attach(t, callback=lambda *_: None) as gm:
            gm.backward(f(t))

    return run


BACKWARD = {
    "grad": fg.grad,
    "vjp": lambda f: lambda x: fg.vjp(f, x)[1](1.0),
    "jacrev": fg.jacrev,
    "hessian": fg.hessian,
    "vmap": lambda f: lambda x: fg.vmap(fg.grad(f))(x),
    "gm": manager,
    "gm with a callback": manager_with_callback,
    "grad of grad": lambda f: fg.grad(lambda x: np.sum(fg.grad(f)(x))),
    "gm around grad": lambda f: manager(lambda x: np.sum(fg.grad(f)(x))),
}


@pytest.mark.parametrize("name", BACKWARD)
def test_a_cotangent(name):
    words = f"the cotangent of operand 0 of sqrt .recorded at .*{HERE}.* became inf"
    with fg.debug_nans(), pytest.raises(fg.NonFiniteError, match=words) as caught:
        BACKWARD[name](root)(np.array([1.0, 0.0]))
    assert caught.value.operation == "sqrt"
    assert caught.value.line.endswith(line_of("root"))
    assert re.search(r"what came in = .*3", str(caught.value))
    assert fg.grad(lambda x: x * x)(1.0) == 2.0


@pytest.mark.parametrize("forward", [lambda f: lambda x: fg.jvp(f, (x,), (np.ones(2),)), fg.jacfwd])
def test_a_tangent(forward):
    words = "the tangent of the result of sqrt .* became inf"
    with fg.debug_nans(), pytest.raises(fg.NonFiniteError, match=words) as caught:
        forward(root)(np.array([1.0, 0.0]))
    assert caught.value.line.endswith(line_of("root"))


def test_cotangents_that_add_up_to_nan():
    # 1e200 * 1e200 overflows on both ways, and inf - inf is NaN; each way alone counts as infinite
    def f(x):
        y = x * 1.0
        return y * 1e200 * 1e200 - y * 1e200 * 1e200

    x = 0.0
    with fg.debug_nans(infs=False), pytest.raises(fg.NonFiniteError, match="add up to nan"):
        fg.grad(f)(x)
    with fg.debug_nans(), pytest.raises(fg.NonFiniteError, match=r"operand 0 of multiply .* became inf"):
        fg.grad(f)(x)


def test_a_cotangent_that_the_user_gives():
    with fg.debug_nans(), pytest.raises(fg.NonFiniteError, match=f"cotangent.*sin.*nan.*{HERE}"):
        fg.vjp(np.sin, 1.0)[1](np.nan)
    with fg.debug_nans():
        assert fg.vjp(lambda x: x * 2, 1.0)[1](np.inf)[0] == np.inf  # it was infinite before


def test_a_rule_of_the_user():
    class Bad(fg.Function):
        def forward(self, x):
            return x * 1.0

        def backward(self, ct):
            return ct * np.nan

    bad = fg.custom_vjp(lambda x: x * 1.0)
    bad.defvjp(lambda x: (x * 1.0, None), lambda _, ct: (ct * np.inf,))
    with fg.debug_nans(), pytest.raises(fg.NonFiniteError, match=f"Bad .recorded at .*{HERE}.* nan"):
        fg.grad(lambda x: Bad()(x))(1.0)
    with fg.debug_nans(), pytest.raises(fg.NonFiniteError, match=r"lambda.* became inf"):
        fg.grad(bad)(1.0)


def test_infinite_slopes_that_meet_zero_are_fine():
    x = np.array([0.0, 4.0])
    with fg.debug_nans():
        close(fg.grad(lambda x: np.sum(fg.numpy.where(x > 0, np.sqrt(x), 0.0)))(x), [0.0, 0.25])
        close(fg.jacfwd(lambda x: fg.numpy.where(x > 0, np.sqrt(x), 0.0))(x), np.diag([0.0, 0.25]))
        close(fg.grad(lambda x: np.linalg.norm(x))(np.zeros(2)), [0.0, 0.0])


def test_what_is_looked_for():
    x = fg.tensor([0.0, 1.0])
    with fg.debug_nans(infs=False), np.errstate(divide="ignore"):
        assert np.log(x)[0].item() == -np.inf
        with pytest.raises(fg.NonFiniteError, match="nan"):
            np.log(x) - np.log(x)
    with fg.debug_nans(nans=False), np.errstate(invalid="ignore"):
        assert np.isnan(np.log(x - 1.0 - 0.5)[0].item())
        with pytest.raises(fg.NonFiniteError, match=r"log .*gave inf, first at \[0\]"):
            np.log(x)


def test_infinity_among_the_operands_may_pass_and_nan_may_not():
    mask = np.array([0.0, -np.inf])
    with fg.debug_nans():
        close(np.exp(fg.tensor([1.0, 1.0]) + mask), [np.e, 0.0])
        with pytest.raises(fg.NonFiniteError, match="operand 0 has it already"):
            fg.tensor([np.nan]) * 2.0


def test_warnings_of_numpy_give_way_to_the_report():
    with fg.debug_nans(), np.errstate(all="raise"), pytest.raises(fg.NonFiniteError):
        np.log(fg.tensor(-1.0))


def test_on_and_off():
    runs = {name: primitive.run for name, primitive in PRIMITIVES.items()}
    bad = lambda: np.log(fg.tensor(-1.0))
    with np.errstate(invalid="ignore"):
        with fg.debug_nans():
            assert PRIMITIVES["log"].run is not runs["log"]
            with fg.debug_nans(False):
                bad()
                with fg.debug_nans(True), pytest.raises(fg.NonFiniteError):
                    bad()
                bad()
            with pytest.raises(fg.NonFiniteError):
                bad()
        bad()
        assert {name: primitive.run for name, primitive in PRIMITIVES.items()} == runs
        fg.debug_nans(True)
        try:
            with pytest.raises(fg.NonFiniteError):
                bad()
            fg.debug_nans(True, nans=False)
            bad()
        finally:
            fg.debug_nans(False)
        bad()
        with fg.debug_nans(True):
            pass
        bad()
    assert {name: primitive.run for name, primitive in PRIMITIVES.items()} == runs


def test_a_recording_that_began_before():
    x = fg.tensor([1.0, 0.0])
    with fg.GradManager().attach(x) as gm:
        early = np.sqrt(x)
        with fg.debug_nans():
            late = np.sqrt(x)  # late
            with pytest.raises(fg.NonFiniteError) as caught:
                gm.backward(late.sum())
        assert caught.value.line.endswith(line_of("late"))
    with fg.GradManager().attach(x) as gm:
        early = np.sqrt(x)
        with fg.debug_nans(), pytest.raises(fg.NonFiniteError, match="before debug_nans was on"):
            gm.backward(early.sum())
    assert x.grad is None


def test_lines_are_kept_only_while_somebody_watches():
    x = fg.tensor([1.0, 0.0])
    gm = fg.GradManager().attach(x)
    with gm:
        with fg.debug_nans():
            early = x * 2  # early
            assert isinstance(gm._recording.tape.refs, Noted)
            assert line_kept_of(early._nodes[0]).endswith(line_of("early"))
        assert type(gm._recording.tape.refs) is list
        y = x * 3
        gm.backward(y)
    close(x.grad, [3.0, 3.0])


def test_results_are_the_same_under_it():
    f = lambda x: np.sum(np.sin(x) ** 2 * np.exp(x)) + np.prod(x[1:]) / x[0]
    x = np.array([0.3, 0.5, 1.5])
    calls = [fg.grad(f), fg.hessian(f), fg.vmap(fg.jacfwd(np.cumsum)), lambda x: fg.jvp(f, (x,), (x,))[1]]
    for call, arg in zip(calls, (x, x, np.stack([x, x]), x), strict=True):
        expected = call(arg)
        with fg.debug_nans():
            close(call(arg), expected)


def test_what_runs_again_for_the_gradient():
    powers = lambda x: fg.checkpointed(lambda s, i: s * x, 1.0, range(5))
    with fg.debug_nans():
        close(fg.grad(fg.checkpoint(lambda x: np.sin(x)))(1.0), np.cos(1.0))
        close(fg.grad(powers)(2.0), 5 * 2.0**4)
        with pytest.raises(fg.errors.NonFiniteError, match=rf"became inf in .*{HERE}"):
            fg.grad(fg.checkpoint(lambda x: np.sqrt(x)))(0.0)


def test_methods_of_ufuncs():
    x = np.array([0.3, 0.5, 1.5])
    for ufunc in (np.add, np.multiply, np.maximum):
        for f in (ufunc.accumulate, ufunc.reduce, lambda x: ufunc.outer(x, x)):
            expected = fg.jacrev(f)(x)
            with fg.debug_nans():
                close(fg.jacrev(f)(x), expected)


def test_staging_looks_at_nothing():
    with fg.debug_nans():
        program = fg.make_graph(fg.grad(lambda x: np.sum(np.arctanh(x)[::-1])))(np.ones(2))
        close(program(np.zeros(2)), np.ones(2))
        assert fg.eval_shape(np.log, -1.0).shape == ()
        huge = np.broadcast_to(1.0, (10**9,))
        assert fg.eval_shape(np.greater.outer, huge, huge).shape == (10**9, 10**9)


def test_callbacks_are_operations_too():
    with fg.debug_nans(), pytest.raises(fg.NonFiniteError, match="pure_callback"):
        fg.pure_callback(lambda x: x * np.nan, 0.0, fg.tensor(1.0))


def test_other_threads_do_not_notice():
    results = []

    def work():
        with np.errstate(invalid="ignore"):
            results.append(np.log(fg.tensor(-1.0)).item())

    with fg.debug_nans():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert np.isnan(results).all()
    fg.debug_nans(True)
    try:
        raised = []

        def careful():
            try:
                np.log(fg.tensor(-1.0))
            except fg.NonFiniteError:
                raised.append(True)

        thread = threading.Thread(target=careful)
        thread.start()
        thread.join()
        assert raised == [True]
    finally:
        fg.debug_nans(False)


def test_tasks_do_not_notice():
    async def careful(go, done):
        with fg.debug_nans():
            go.set()
            await done.wait()
            with pytest.raises(fg.NonFiniteError):
                np.log(fg.tensor(-1.0))

    async def careless(go, done):
        await go.wait()
        with np.errstate(invalid="ignore"):
            assert np.isnan(np.log(fg.tensor(-1.0)).item())
        done.set()

    async def both():
        go, done = asyncio.Event(), asyncio.Event()
        await asyncio.gather(careful(go, done), careless(go, done))

    asyncio.run(both())


def test_the_error_pickles():
    import pickle

    with fg.debug_nans(), pytest.raises(fg.NonFiniteError) as caught:
        np.log(fg.tensor(-1.0))
    twin = pickle.loads(pickle.dumps(caught.value))
    assert (str(twin), twin.operation, twin.line) == (
        str(caught.value), "log", caught.value.line,
    )  # fmt: skip


# ---- on_unused ----------------------------------------------------------------------------------------

PARAMETERS = {"w": np.ones(3), "b": [np.ones(2), np.ones(())]}


def loss(params, scale, *rest):
    return np.sum(params["w"] * 2.0) + 0.0 * params["b"][1]


@pytest.mark.parametrize("make", [fg.grad, fg.value_and_grad])
def test_arguments_without_a_gradient_are_named(make):
    argnums = (0, 1, 3)
    args = (PARAMETERS, np.ones((2, 2)), 1.0, 2.0)
    words = (
        r"params\['b'\]\[0\] of shape \(2,\), scale of shape \(2, 2\), \*rest\[1\] of shape \(\) from loss"
    )
    with pytest.raises(fg.UnusedArgumentError, match=words):
        make(loss, argnums, on_unused="error")(*args)
    with pytest.warns(fg.NoGradientWarning, match=words) as caught:
        make(loss, argnums, on_unused="warn")(*args)
    assert caught[0].filename == __file__
    make(loss, argnums)(*args)
    make(lambda x: x * 0.0, on_unused="error")(1.0)  # zero is a gradient


def test_pullbacks_name_what_they_do_not_reach():
    _, pullback = fg.vjp(lambda x, y: (x, x * y), 1.0, 2.0, on_unused="error")
    pullback((1.0, 1.0))
    _, pullback = fg.vjp(lambda x, y: (x, 2.0), 1.0, 2.0, on_unused="error")
    with pytest.raises(fg.UnusedArgumentError, match="y of shape"):
        pullback((1.0, 1.0))


def test_backward_names_attached_tensors():
    x, y, z = fg.tensor([1.0]), fg.tensor([[2.0]]), fg.tensor(3.0)
    called = []
    gm = fg.GradManager().attach({"x": x, "y": [y]}).attach(z).after_backward(lambda: called.append(1))
    words = r"attached tensor 1 \['y'\]\[0\] of shape \(1, 1\), attached tensor 2 of shape \(\)"
    with gm, pytest.raises(fg.UnusedArgumentError, match=words):
        gm.backward(x * 2, on_unused="error")
    assert x.grad is None
    assert called == []
    with gm, pytest.warns(fg.NoGradientWarning, match=words) as caught:
        gm.backward(x * 2, on_unused="warn")
    assert caught[0].filename == __file__
    close(x.grad, [2.0])
    with gm:
        gm.backward(x.sum() * y.sum() * z, on_unused="error")


def test_an_unknown_choice():
    for call in (
        lambda: fg.grad(np.sin, on_unused="raise"),
        lambda: fg.vjp(np.sin, 1.0, on_unused="raise"),
        lambda: fg.GradManager().backward(on_unused="raise"),
    ):
        with pytest.raises(ValueError, match='"warn", "error" or "ignore"'):
            call()
