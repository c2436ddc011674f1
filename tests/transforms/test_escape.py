"""A value that stands for something inside a transformation is refused outside it, however it got there."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import threading

import numpy as np
import pytest
from tests.helpers import close

import fgrad as fg

V = np.array([1.0, 2.0, 3.0])


class CarrierError(Exception):
    """An exception that carries a value."""


def by_list(transform):
    kept = []
    transform(lambda x: kept.append(x * 2.0) or x)  # made here
    return kept[0]


def by_closure(transform):
    cell = None

    def f(x):
        nonlocal cell
        cell = x * 2.0  # made here
        return x

    transform(f)
    return cell


def by_attribute(transform):
    f = lambda x: setattr(by_attribute, "kept", x * 2.0) or x  # made here
    transform(f)
    return by_attribute.kept


def by_exception(transform):
    def f(x):
        raise CarrierError(x * 2.0)  # made here

    with pytest.raises(CarrierError) as caught:
        transform(f)
    return caught.value.args[0]


def by_generator(transform):
    generators = []

    def values(x):
        y = x * 2.0  # made here
        yield y
        yield y

    def f(x):
        generators.append(values(x))
        next(generators[0])
        return x

    transform(f)
    return next(generators[0])


def by_thread(transform):
    found = []

    def f(x):
        y = x * 2.0  # made here
        thread = threading.Thread(target=lambda: found.append(y))
        thread.start()
        thread.join()
        return x

    transform(f)
    return found[0]


def by_global_tensor(transform):
    buffer = fg.tensor(0.0)

    def f(x):
        buffer[...] = np.sum(x * 2.0)  # made here
        return x

    transform(f)
    return buffer


def by_rule(transform):
    kept = []

    class Leaky(fg.Function):
        def forward(self, x):
            kept.append(x * 2.0)  # made here
            return x * 1.0

        def backward(self, ct):
            return ct

    transform(lambda x: Leaky()(x))
    return kept[0]


LEAKS = [by_list, by_closure, by_attribute, by_exception, by_generator, by_thread, by_global_tensor, by_rule]

TRANSFORMS = {
    "vmap": lambda f: fg.vmap(f)(V[:, None]),
    "vmap of vmap": lambda f: fg.vmap(fg.vmap(f))(V[:, None, None]),
    "make_graph": lambda f: fg.make_graph(f)(V),
    "jit-like grad": lambda f: fg.make_graph(fg.grad(lambda x: np.sum(f(x))))(V),
    "vmap of grad": lambda f: fg.vmap(fg.grad(lambda x: np.sum(f(x))))(V[:, None]),
    "grad of vmap": lambda f: fg.grad(lambda x: np.sum(fg.vmap(f)(x)))(V[:, None]),
    "gm in vmap": lambda f: fg.vmap(lambda x: in_block(f, x))(V[:, None]),
}

USES = {
    "operator": lambda t: t + 1.0,
    "from the right": lambda t: 1.0 + t,
    "ufunc": np.sin,
    "function": np.sum,
    "method": lambda t: t.sum(),
    "comparison": lambda t: t > 0,
    "in place": lambda t: t.__iadd__(1.0),
    "into another": lambda t: fg.tensor(np.zeros(t.shape)).__setitem__(..., t),
    "bool": bool,
    "float": float,
    "item": lambda t: t.item(),
    "numpy": lambda t: t.numpy(),
    "asarray": np.asarray,
    "detach": lambda t: t.detach(),
    "pickle": pickle.dumps,
    "copy": copy.deepcopy,
    "grad": lambda t: fg.grad(np.sum)(t),
    "closed over": lambda t: fg.grad(lambda x: np.sum(x * t))(1.0),
    "returned": lambda t: fg.value_and_grad(lambda x: np.sum(t))(1.0),
    "returned as it is": lambda t: fg.vjp(lambda x: t, 1.0),
    "mapped": lambda t: fg.vmap(lambda x: x * t)(V),
    "returned by vmap": lambda t: fg.vmap(lambda x: t)(V),
    "staged": lambda t: fg.make_graph(lambda x: x * t)(1.0),
    "returned by make_graph": lambda t: fg.make_graph(lambda x: t)(1.0),
    "cotangent": lambda t: fg.vjp(lambda x: x * 1.0, np.zeros(t.shape))[1](t),
    "tangent": lambda t: fg.jvp(lambda x: x * 1.0, (np.zeros(t.shape),), (t,)),
    "attached": lambda t: fg.GradManager().attach(t),
    "recorded": lambda t: in_block(lambda x: x * t, 1.0),
    "printed": lambda t: fg.debug.print("{}", t),
    "callback": lambda t: fg.pure_callback(np.sum, 1.0, t),
}


def in_block(f, x):
    leaf = x * 1.0 if isinstance(x, fg.Tensor) else fg.tensor(x)
    with fg.GradManager().attach(leaf) as gm:
        y = f(leaf)
        gm.backward(y)
    return leaf.grad


def made_here(leak):
    """Return `file:line` of the line of `leak` that makes the value."""
    lines, first = inspect.getsourcelines(leak)
    (k,) = [i for i, line in enumerate(lines) if line.endswith("# made here\n")]
    return f"{re.escape(__file__)}:{first + k}"


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("leak", LEAKS, ids=lambda f: f.__name__)
def test_every_leak_is_noticed_and_says_where_it_was_made(leak, name):
    t = leak(TRANSFORMS[name])
    with pytest.raises(fg.EscapedTensorError, match=f"made at {made_here(leak)} .*return it") as caught:
        t * 1.0
    assert f"used outside it (at {__file__}:" in str(caught.value)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("transform", ["vmap", "make_graph"])
def test_every_use_of_an_escaped_value_is_refused(use, transform):
    t = by_list({"vmap": lambda f: fg.vmap(f)(V), "make_graph": lambda f: fg.make_graph(f)(1.0)}[transform])
    with pytest.raises(fg.EscapedTensorError, match=r"test_escape\.py"):
        USES[use](t)
    assert fg.grad(lambda x: x * x)(3.0) == 6.0  # and nothing is left behind


def test_a_second_run_of_the_same_function_is_another_transformation():
    kept = []

    def f(x):
        if kept:
            return x + kept[0]
        kept.append(x)
        return x

    mapped = fg.vmap(f)
    mapped(V)
    with pytest.raises(fg.EscapedTensorError, match=r"test_escape\.py"):
        mapped(V)


def test_another_thread_is_outside():
    caught = []

    def f(x):
        def use():
            try:
                x * 2.0
            except fg.EscapedTensorError as error:
                caught.append(error)

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        return x

    fg.vmap(f)(V)
    assert len(caught) == 1


def test_what_a_finished_recording_leaves_is_a_constant():
    kept = []
    fg.grad(lambda x: kept.append(x * 2.0) or x * x)(3.0)
    close(fg.grad(lambda x: x * kept[0])(5.0), 6.0)
    with fg.GradManager().attach(fg.tensor(1.0)) as gm, pytest.warns(fg.NoGradientWarning, match="finished"):
        gm.backward(kept[0])


def test_shapes_and_words_remain():
    t = by_list(lambda f: fg.vmap(f)(V))
    assert (t.shape, t.dtype) == ((), np.float64)
    assert "vmap" in repr(t)


def test_what_a_reverse_pass_makes_was_made_where_that_was_asked_for():
    kept = []

    @fg.custom_vjp
    def f(x):
        return 2.0 * x

    f.defvjp(lambda x: (2.0 * x, None), lambda _, ct: (kept.append(ct * 3.0), 2.0 * ct)[1:])
    gradient = fg.grad(lambda x: np.sin(f(x)))
    fg.vmap(lambda x: gradient(x))(np.ones(3))
    with pytest.raises(fg.EscapedTensorError, match=re.escape(__file__)):
        kept[0] + 1.0
    kept.clear()
    fg.jacrev(f)(np.ones(3))
    with pytest.raises(fg.EscapedTensorError, match=re.escape(__file__)):
        kept[0] + 1.0
