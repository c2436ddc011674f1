"""Functions and classes of arrays in `fgrad.scipy` take SciPy's parameters, in the same order."""

import inspect

import pytest
from scipy import fft, interpolate, linalg, ndimage, signal

from fgrad import scipy

METHODS = ("__call__", "derivative", "antiderivative", "integrate")


def names(module):
    return [n for n, f in vars(module).items() if callable(f) and n != "LinAlgError" and n[0] != "_"]


@pytest.mark.parametrize("module", [linalg, signal, ndimage, interpolate, fft], ids=lambda m: m.__name__)
def test_parameters(module):
    ours = getattr(scipy, module.__name__.split(".")[-1])
    assert len(names(ours)) > 8
    for name in names(ours):
        pairs = [(getattr(ours, name), getattr(module, name))]
        if isinstance(pairs[0][0], type):
            pairs += [tuple(getattr(c, m) for c in pairs[0]) for m in METHODS if hasattr(pairs[0][0], m)]
        for f, g in pairs:
            found, expected = (
                [(p.name, p.kind) for p in inspect.signature(h).parameters.values()] for h in (f, g)
            )
            # releases of SciPy add and drop some: those that both have, the first among them, are the same
            assert found[:1] == expected[:1], name
            assert [p for p in found if p in expected] == [p for p in expected if p in found], name
            assert len(set(expected) - set(found)) <= 2, name
