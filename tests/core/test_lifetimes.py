"""What a recording saved is gone once it ended, although outputs live: no node leads to an array."""

from __future__ import annotations

import gc
import types

import numpy as np
import pytest
from tests.helpers import grouped
from tests.ops.test_primitives import SAMPLES
from tests.transforms.lifetimes import Square

import fgrad as fg
from fgrad import GradManager, tensor
from fgrad.core.dispatch import bind
from fgrad.core.primitive import Primitive
from fgrad.core.tensor import Tensor

_NO_OWNERS = (type, types.ModuleType, Primitive, str, int, float, np.dtype)


def reached(start):
    """Return the shapes of the arrays that an object keeps alive, not those of modules and primitives."""
    seen, found, to_see = {id(start)}, [], [start]
    while to_see:
        x = to_see.pop()
        if isinstance(x, np.ndarray):
            found.append(x.shape)
        elif not isinstance(x, _NO_OWNERS) and not getattr(x, "primitive", None):
            owned = gc.get_referents(x)
            if isinstance(x, types.FunctionType):
                owned = [r for r in owned if r is not x.__globals__]
            to_see += [r for r in owned if id(r) not in seen]
            seen.update(map(id, owned))
    return [shape for shape in found if np.prod(shape)]


def outputs(function, args, end):
    """Return what `function` computes of Tensors under a manager whose recording came to its `end`."""
    xs = [tensor(a) if isinstance(a, np.ndarray) and a.dtype.kind in "fc" else a for a in args]
    attached = [x for x in xs if isinstance(x, Tensor)]
    gm = GradManager().attach(attached)
    with np.errstate(all="ignore"), gm:
        out = function(*xs)
        ys = [y for y in (out if isinstance(out, tuple | list) else [out]) if isinstance(y, Tensor)]
        ys = [y for y in ys if y._nodes]
        if end == "backward" and ys and attached:
            gm.backward(ys, [np.ones(y.shape, y.dtype) for y in ys])
    return ys


def check(function, args, end):
    for y in outputs(function, args, end):
        for node in y._nodes:
            assert not reached(node)


@grouped("sample", SAMPLES, "primitive", quick=2)
def test_of_a_primitive(sample):
    if sample.stops or any(np.iscomplexobj(a) for a in sample.args):
        return
    for end in ("backward", "release"):
        check(lambda *xs: bind(sample.primitive, *xs, **sample.params), sample.args, end)


@fg.custom_vjp
def squared(x):
    return x * x


squared.defvjp(lambda x: (x * x, x), lambda x, ct: (ct * x * 2.0,))


@fg.custom_jvp
def pushed(x):
    return x * x


pushed.defjvp(lambda primals, tangents: (primals[0] * primals[0], 2.0 * primals[0] * tangents[0]))


def written(x):
    y = x * 1.0
    y[1:] *= x[:-1]
    y[::2] = np.sin(y[::2])
    return y


FUNCTIONS = {
    "Function": lambda x: Square()(x),
    "custom_vjp": squared,
    "custom_jvp": pushed,
    "several outputs": fg.custom_jvp(lambda x: (x * x, x + 1.0)),
    "checkpoint": fg.checkpoint(lambda x: np.sin(x) * x),
    "jit": fg.jit(lambda x: np.sin(x) * x),
    "jit of custom_vjp": fg.jit(lambda x: squared(x) + 1.0),
    "vmap": fg.vmap(lambda x: np.sin(x) * x),
    "vmap of custom_vjp": fg.vmap(squared),
    "scan": lambda x: fg.lax.scan(lambda c, v: (c + v * c, c * v), x[0] * 1.0, x),
    "while_loop": fg.jit(lambda x: fg.lax.fori_loop(0, 3, lambda i, c: c * x, x)),
    "cond": fg.jit(lambda x: fg.lax.cond(x[0] > 0, np.sin, np.cos, x)),
    "writes": written,
}
FUNCTIONS["several outputs"].defjvp(
    lambda primals, tangents: (
        (primals[0] * primals[0], primals[0] + 1.0),
        (2.0 * primals[0] * tangents[0], tangents[0]),
    )
)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("end", ["backward", "release"])
@pytest.mark.parametrize("nested", [False, True])
def test_of_a_function(name, end, nested):
    x = np.linspace(0.5, 1.5, 4)
    if not nested:
        check(FUNCTIONS[name], [x], end)
        return
    with GradManager().attach(seen := tensor(x)):
        ys = outputs(lambda y: FUNCTIONS[name](y * seen), [x], end)
    for y in ys:
        for node in y._nodes:
            assert not reached(node)
