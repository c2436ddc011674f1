"""Derivatives of kernels, to the second order: the adjoint against the tangent, both against differences."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from tests.adjoints import kernels
from tests.adjoints.interpreted import check, leaves, vjp_of
from tests.adjoints.kernels import cases

import fgrad
from fgrad.adjoints import syntax
from fgrad.adjoints.lowering import lowered

CASES = cases()


@pytest.mark.parametrize("k", range(len(CASES)), ids=[k.__name__ for k, _ in CASES])
def test_a_kernel(k):
    kernel, args = CASES[k]
    assert check(kernel, *args, orders=2)


@pytest.mark.parametrize("k", [0, 3, 11, 13])
def test_stacks_that_grow(k):
    kernel, args = CASES[k]
    assert check(kernel, *args, stack=10_000)


def whole(x):
    return int(fgrad.stop_gradient(x)) if isinstance(x, fgrad.Tensor) else int(x)


class Functions:
    """What `math` is where arguments are Tensors."""

    sqrt, log, sin, floor = fgrad.numpy.sqrt, fgrad.numpy.log, fgrad.numpy.sin, whole


@pytest.mark.parametrize("k", range(len(CASES)), ids=[k.__name__ for k, _ in CASES])
def test_a_kernel_against_the_same_operations_on_tensors(k, monkeypatch):
    kernel, args = CASES[k]
    function, _ = lowered(kernel, [numba.typeof(a) for a in args])
    for name in ("pair", "force"):
        monkeypatch.setattr(kernels, name, fgrad.plain_numpy(getattr(kernels, name).py_func))
    monkeypatch.setattr(kernels, "math", Functions)
    monkeypatch.setattr(kernels, "int", whole, raising=False)
    places = [i for i, p in enumerate(function.params) if p.floating]
    rng = np.random.default_rng(2)
    cts = []

    def loss(*moved):
        held = list(args)
        for i, x in zip(places, moved, strict=True):
            held[i] = fgrad.numpy.array(x) if np.ndim(x) else x
        found = leaves(fgrad.plain_numpy(kernel.py_func)(*held))
        found += [h for h, p in zip(held, function.params, strict=True) if p.written]
        if not cts:
            cts.extend(
                rng.normal(size=np.shape(x)) + (1j * rng.normal() if x.dtype.kind == "c" else 0)
                for x in found
            )
        return sum(((x * c).sum()).real for x, c in zip(found, cts, strict=True))

    expected = fgrad.grad(loss, argnums=tuple(range(len(places))))(*[args[i] for i in places])
    floats = [c for c, n in zip(cts, function.outputs, strict=True) if syntax.is_floating(function.types[n])]
    found = vjp_of(function, args, [np.asarray(c)[()] for c in floats])
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)
