"""Derivatives of kernels as plain Python, and what they are compared with: differences, and one another."""

from __future__ import annotations

import math
import types as python_types
from typing import Any

import numba
import numpy as np

from fgrad.adjoints import emission, memory, slopes, syntax
from fgrad.adjoints.adjoint import Adjoint
from fgrad.adjoints.lowering import lowered
from fgrad.adjoints.programs import tangent_places
from fgrad.adjoints.tangent import tangent

HELPERS = {"np": np, "math": math, **memory.PLAIN, "plus": lambda a, b: a + b}
HELPERS |= {n: f.py_func for n, f in slopes.HELPERS.items() if n != "plus"}


def function_of(source, name, function):
    space: dict[str, Any] = {**HELPERS, **function.constants}
    exec(compile(source, f"<{name}>", "exec"), space)
    return space[name]


def value_of(function, args):
    """Return the outputs of a kernel in the language of `syntax`."""
    held = [np.array(a) if np.ndim(a) else a for a in args]
    returned = function_of(emission.written_function(function, "value"), "value", function)(*held)
    return [*map(np.asarray, returned), *(held[i] for i, p in enumerate(function.params) if p.written)]


def adjoint_call(function, args, cts, stack=1, **options):
    """Return what the adjoint of all floating parameters returns."""
    names = [p.name for p in function.params if p.floating]
    call = function_of(Adjoint(function, names).source("vjp", **options), "vjp", function)
    stacks = np.empty(stack), np.empty(stack, np.int64), np.empty(stack, complex)
    held = [np.array(a) if np.ndim(a) else a for a in args]
    found = call(*held, *[np.array(c) if np.ndim(c) else c[()] for c in cts], *stacks)
    for a, b in zip(held, args, strict=True):
        np.testing.assert_array_equal(a, b)  # the adjoint writes to nothing that it is given
    return found


def vjp_of(function, args, cts, stack=1):
    return adjoint_call(function, args, cts, stack)[:-3]


def recorded(function, args):
    """Return how many floats, integers and complex numbers the adjoint records at a time, and array bytes."""
    outs = value_of(function, args)
    floating = [i for i, n in enumerate(function.outputs) if syntax.is_floating(function.types[n])]
    return adjoint_call(function, args, [np.ones_like(outs[i]) for i in floating], counts=True)


def random_like(rng, x):
    x = np.asarray(x)
    made = rng.normal(size=x.shape)
    return np.asarray(made + 1j * rng.normal(size=x.shape) if x.dtype.kind == "c" else made)[()]


def paired(xs, ys):
    return sum(float(np.sum((x * y).real)) for x, y in zip(xs, ys, strict=True))


def check_function(function, args, seed=0, tolerance=1e-5, stack=1):
    """Compare vjp, tangent and differences of a kernel; return False where differences mean nothing."""
    rng = np.random.default_rng(seed)
    places = [i for i, p in enumerate(function.params) if p.floating]
    us = [random_like(rng, args[i]) for i in places]
    outs = value_of(function, args)
    floating = [i for i, n in enumerate(function.outputs) if syntax.is_floating(function.types[n])]
    if not all(np.all(np.abs(outs[i]) < 1e6) for i in floating):
        return False
    cts = [random_like(rng, outs[i]) for i in floating]

    def moved(h):
        args_there = list(args)
        for i, u in zip(places, us, strict=True):
            args_there[i] = args[i] + h * u
        there = value_of(function, args_there)
        return paired(cts, [there[i] for i in floating])

    differences = [(moved(h) - moved(-h)) / (2 * h) for h in (1e-6, 3e-6)]
    along = tangent(function)
    outs_there = value_of(along, [*args, *us])
    forward = paired(cts, [outs_there[i] for i in tangent_places(function)])
    reverse = paired(us, vjp_of(function, args, cts, stack))
    scale = max(1.0, abs(forward))
    assert abs(reverse - forward) < 1e-8 * scale, (reverse, forward, differences)
    close = [abs(d - forward) < tolerance * scale for d in differences]
    assert any(close), (forward, differences)
    return True


def check(kernel, *args, orders=1, **options):
    """Check the derivatives of a kernel up to an order."""
    plain = kernel.py_func if hasattr(kernel, "py_func") else kernel
    kinds = [numba.typeof(a) for a in args]
    function, _ = lowered(plain, kinds)
    whole, args = own(args), flat(args)
    if isinstance(plain, python_types.FunctionType):
        expected = leaves(plain(*whole))
        held = flat(whole)
        found = value_of(function, args)
        for x, y in zip(found, expected, strict=False):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)
        written = [h for h, p in zip(held, function.params, strict=True) if p.written]
        for x, y in zip(found[len(expected) :], written, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)
    seen = True
    for _ in range(orders):
        seen = check_function(function, args, **options) and seen
        places = [i for i, p in enumerate(function.params) if p.floating]
        rng = np.random.default_rng(7)
        args = (*args, *(random_like(rng, args[i]) for i in places))
        function = tangent(function)
    return seen


def own(x):
    """Return nested tuples with copies of their arrays."""
    if isinstance(x, tuple):
        items = [own(i) for i in x]
        return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
    return x.copy() if isinstance(x, np.ndarray) else x


def flat(args):
    return [p for a in args for p in (flat(a) if isinstance(a, tuple) else [a])]


def leaves(x):
    if x is None:
        return []
    return [leaf for part in x for leaf in leaves(part)] if isinstance(x, tuple) else [x]
