"""Every program of `programs`, in both namespaces: right in plain and derivatives, or refused."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
import pytest
from tests.helpers import plain
from tests.numpy.programs import GROUPS, ONLY_FGRAD, PROGRAMS

import fgrad as fg
import fgrad.numpy as fnp

NAMESPACES = {"fgrad.numpy": fnp, "numpy": np}
LEAST = {"fgrad.numpy": 473, "numpy": 467}  # programs that must be right
STEP, BEND = 6e-6, 2e-4  # of first and second differences


def parts(out: Any) -> list[Any]:
    """Return the arrays or Tensors of an output."""
    return [p for o in out for p in parts(o)] if isinstance(out, list | tuple) else [out]


def total(out: Any) -> Any:
    """Return a weighted sum of real and imaginary parts, which is what is differentiated."""
    result: Any = 0.0
    for k, y in enumerate(parts(out)):
        weights = np.cos(np.arange(np.size(plain(fg.stop_gradient(y)))) + k).reshape(y.shape)
        result = result + (y.real * weights).sum()
        if y.dtype.kind == "c":
            result = result + (y.imag * weights[..., ::-1]).sum()
    return result


class WrongError(AssertionError):
    """A program ran, and gave something that is not right."""


def compare(what: str, actual: Any, expected: Any, tolerance: float) -> None:
    actual, expected = plain(actual), np.asarray(expected)
    if actual.shape != expected.shape or actual.dtype.kind != expected.dtype.kind:
        raise WrongError(f"{what}: {actual.dtype}{actual.shape}, expected {expected.dtype}{expected.shape}")
    if not np.allclose(
        actual, expected, rtol=tolerance, atol=tolerance * (1 + np.max(np.abs(expected), initial=0))
    ):
        raise WrongError(f"{what}: {actual}, expected {expected}")


@functools.cache
def run(name: str, namespace: str) -> str:
    """Return "right", why the program is refused, or what is "wrong: ..."."""
    try:
        return answer(name, namespace)
    except WrongError as error:
        return f"wrong: {error}"


def answer(name: str, namespace: str) -> str:
    """Return "right", or why the program is refused.

    Raises:
        WrongError: the value or a derivative is not that of NumPy or of differences.
    """
    program = PROGRAMS[name]
    f, xs = program.f, program.inputs
    ns = NAMESPACES[namespace]
    rng = np.random.default_rng(5)
    ts = [rng.standard_normal(x.shape) for x in xs]
    shifted = lambda step: float(total(f(np, *(x + step * t for x, t in zip(xs, ts, strict=True)))))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        expected = parts(f(np, *xs))
        slope = (shifted(STEP) - shifted(-STEP)) / (2 * STEP)
        curvature = (shifted(BEND) - 2 * shifted(0) + shifted(-BEND)) / BEND**2
        where = tuple(range(len(xs)))
        objective = lambda *x: total(f(ns, *x))
        try:
            out = parts(f(ns, *map(fg.tensor, xs)))
            gradient = fg.grad(objective, where)(*xs)
            pushed = fg.jvp(objective, tuple(xs), tuple(ts))[1]
            along = lambda *x: sum(
                (g * t).sum() for g, t in zip(fg.grad(objective, where)(*x), ts, strict=True)
            )
            second = fg.grad(along, where)(*xs)
        except (TypeError, AttributeError, NotImplementedError, ValueError) as error:
            return f"{type(error).__name__}: {error}"
    if len(out) != len(expected):
        raise WrongError(f"{len(out)} outputs, expected {len(expected)}")
    for y, e in zip(out, expected, strict=True):
        compare("value", y, e, 1e-10)
    pairing = sum(float(np.sum(g * t)) for g, t in zip(gradient, ts, strict=True))
    compare("reverse mode", pairing, slope, 1e-6)
    compare("forward mode", float(pushed), slope, 1e-6)
    bend = sum(float(np.sum(g * t)) for g, t in zip(second, ts, strict=True))
    compare("second order", bend, curvature, 2e-4)
    return "right"


@pytest.mark.parametrize("namespace", NAMESPACES)
@pytest.mark.parametrize("group", GROUPS)
def test_no_program_is_silently_wrong(group, namespace):
    answers = {name: run(name, namespace) for name in GROUPS[group]}
    wrong = {name: said for name, said in answers.items() if said.startswith("wrong")}
    assert not wrong


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_enough_programs_are_right(namespace):
    answers = {name: run(name, namespace) for name in PROGRAMS}
    refused = {name: why for name, why in answers.items() if why != "right" and name not in ONLY_FGRAD}
    assert list(answers.values()).count("right") >= LEAST[namespace], refused


@pytest.mark.parametrize("name", ONLY_FGRAD)
def test_what_plain_numpy_cannot_do_is_refused(name):
    assert run(name, "numpy") != "right"


def test_there_are_enough_programs():
    assert len(PROGRAMS) >= 286
    assert set(ONLY_FGRAD) <= set(PROGRAMS)
