"""A trajectory as an operation: opaque steps, with derivatives by sensitivities forward or by the adjoint.

Few derivatives are integrated along with y (`sensitivity_field`), a trajectory again. For many, four
operations are each other's derivatives, with D the derivative of the trajectory in y0 and the parameters:

    y                trajectory
    ct -> ct D       adjoint       integrated back
    w -> D w         tangent       integrated along with y
    w, ct -> (ct D w)'  mixed      integrated back along y and its tangent

So there are derivatives to every order, and those that are linear in w or ct are so in what is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import numpy as fnp
from fgrad.core.aval import Aval
from fgrad.core.trace import running
from fgrad.extend.engine import OpaqueRule, apply_opaque, as_tensors
from fgrad.scipy.integrate.fields import Field, sensitivity_field, tangent_field
from fgrad.scipy.integrate.steps import Data, Settings, adjoint, trajectory
from fgrad.transforms.forward import jvp
from fgrad.transforms.reverse import vjp
from fgrad.transforms.vmap import vmap

FEW = 128  # numbers that are integrated along with y rather than by the adjoint
FLOAT, INT = np.dtype(np.float64), np.dtype(np.int64)
COUNTS = ("nfev", "njev", "nlu", "status")


class _Rule(OpaqueRule):
    """An operation on the data of a trajectory, after `lead` other arguments, in which it is linear."""

    lead = 0

    def __init__(self, field: Field, settings: Settings, outs: Sequence[Aval]) -> None:
        self.field, self.settings, self.outs = field, settings, tuple(outs)

    @property
    def given(self) -> tuple[Sequence[Any], Data]:
        """The arguments, as they came: those in which it is linear, and the data."""
        return self.values[: self.lead], Data.of(self.values[self.lead :])

    def asked(self, start: int, stop: int) -> bool:
        """Return whether a cotangent of one of these arguments is asked for."""
        return self.wanted is None or any(self.wanted[start:stop])

    def cotangents(self, *found: Any) -> list[Any]:
        """Return the cotangents of all arguments, of which `found` are the first."""
        return [*found, *[None] * (len(self.values) - len(found))]


class _Trajectory(_Rule):
    name = "solve_ivp"
    sensitivity: str | None = None

    def solve(self, values: Sequence[Any]) -> list[Any]:
        """Return y at the times, and SciPy's counts."""
        with running(()):
            ys, self.aux = trajectory(self.field, Data.of(values), self.settings)
        return [ys, *(np.array(self.aux.get(k, 0)) for k in COUNTS)]

    def backward(self, *cts: Any) -> Sequence[Any]:
        """Return the cotangents of times, y0 and parameters."""
        ct, (_, data) = cts[0], self.given
        field, settings = self.field, self.settings.inner
        if ct is None:
            return self.cotangents()
        by_times = by_start = by_parameters = None
        if self.asked(1, 2):
            slope = _at_each(lambda t, y: field.fun(data.parameters, data.others, t, y))
            by_times = fnp.sum(ct * slope(data.times, self.x[0]), axis=1)
        if self.asked(2, 4):
            start = self.asked(2, 3)
            few = field.size * ((field.size if start else 0) + field.count) <= FEW
            if (self.sensitivity or ("forward" if few else "adjoint")) == "forward":
                by_start, by_parameters = _by_sensitivities(field, settings, data, ct, start=start)
            else:
                by_start, by_parameters = _adjoint(field, settings, data, ct)
        return self.cotangents(None, by_times, by_start, by_parameters)


def _at_each(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return `f` for each time; none of them may be there."""
    return lambda t, *ys: vmap(f)(t, *ys) if t.shape[0] else ys[0]


def _by_sensitivities(
    field: Field, settings: Settings, data: Data, ct: Any, *, start: bool
) -> tuple[Any, Any]:
    n = field.size
    full, columns = sensitivity_field(field, start=start)
    first = np.concatenate([np.eye(n), np.zeros((n, field.count))], axis=1)[:, 0 if start else n :]
    z0 = fnp.concatenate([data.y0, first.ravel()])
    zs = integrated(full, settings, data.shortened._replace(y0=z0))[0]
    matrices = fnp.reshape(zs[:, n:], (zs.shape[0], n, columns))
    found = fnp.einsum("tn,tnc->c", ct, matrices)
    return (found[:n], found[n:]) if start else (None, found)


class _Adjoint(_Rule):
    """The cotangents of y0 and parameters, from those of y at the times."""

    name, lead = "adjoint of solve_ivp", 1

    def solve(self, values: Sequence[Any]) -> list[Any]:
        """Return the cotangents for arrays."""
        with running(()):
            return list(adjoint(self.field, Data.of(values[1:]), values[0], self.settings))

    def backward(self, *cts: Any) -> Sequence[Any]:
        """Return the tangent of y along `cts`, and the cotangents of that for the data."""
        (ct,), data = self.given
        along = _full(cts, self.outs)
        moved = _tangent(self.field, self.settings, data, along)
        return self.cotangents(moved, *_by_data(self, data, along, ct, moved))


class _Tangent(_Rule):
    """The tangent of y at the times, from those of y0 and parameters."""

    name, lead = "tangent of solve_ivp", 2

    def solve(self, values: Sequence[Any]) -> list[Any]:
        """Return the tangent for arrays."""
        with running(()):
            data = _doubled(Data.of(values[2:]), values[:2])
            ys, _ = trajectory(tangent_field(self.field), data, self.settings)
        return [ys[:, self.field.size :]]

    def backward(self, *cts: Any) -> Sequence[Any]:
        """Return the adjoint of the cotangent, and the cotangents of the data."""
        (ct,), (along, data) = cts, self.given
        if ct is None:
            return self.cotangents()
        back = _adjoint(self.field, self.settings, data, ct)
        return self.cotangents(*back, *_by_data(self, data, along, ct, self.x[0]))


class _Mixed(_Rule):
    """The derivative in y0 and parameters of the product of a cotangent and the tangent along others."""

    name, lead = "second derivative of solve_ivp", 3

    def solve(self, values: Sequence[Any]) -> list[Any]:
        """Return the derivatives for arrays."""
        data = Data.of(values[3:])
        with running(()):
            return list(_mixed_by(adjoint, self.field, self.settings, data, values[:2], values[2]))

    def backward(self, *cts: Any) -> Sequence[Any]:
        """Return the cotangents of all."""
        field, settings, (lead, data) = self.field, self.settings, self.given

        def parts(one: Any, two: Any, ct: Any, times: Any, y0: Any, parameters: Any) -> Any:
            varied = data._replace(times=times, y0=y0, parameters=parameters)
            apply = lambda field, data, ct, settings: _adjoint(field, settings, data, ct)  # noqa: E731
            return _mixed_by(apply, field, settings, varied, (one, two), ct)

        _, pullback = vjp(parts, *as_tensors([*lead, *data[1:4]]))
        found = pullback(tuple(_full(cts, self.outs)))
        return self.cotangents(*found[:3], None, *found[3:])


def _mixed_by(
    adjoint: Callable[..., Any], field: Field, settings: Settings, data: Data, along: Sequence[Any], ct: Any
) -> tuple[Any, Any]:
    first, second = adjoint(
        tangent_field(field),
        _doubled(data, along),
        fnp.concatenate([np.zeros(ct.shape), ct], axis=1),
        settings,
    )
    return first[: field.size], second[: field.count]


def _doubled(data: Data, along: Sequence[Any]) -> Data:
    """Return the data of a trajectory with its tangent."""
    y0, parameters = (fnp.concatenate([x, w]) for x, w in zip(data[2:4], along, strict=True))
    return data._replace(y0=y0, parameters=parameters)


def _full(cts: Sequence[Any], avals: Sequence[Aval]) -> list[Any]:
    return [np.zeros(a.shape, a.dtype) if ct is None else ct for ct, a in zip(cts, avals, strict=True)]


def _by_data(rule: _Rule, data: Data, along: Sequence[Any], ct: Any, moved: Any) -> list[Any]:
    """Return the cotangents of span, times, y0 and parameters for that of the tangent `moved` of y."""
    field, settings, i = rule.field, rule.settings, rule.lead
    by_times = by_start = by_parameters = None
    if rule.asked(i + 1, i + 2):
        ys = integrated(field, settings, data)[0]

        def slope(t: Any, y: Any, v: Any) -> Any:
            f = lambda y, p: field.fun(p, data.others, t, y)  # noqa: E731
            return jvp(f, (y, data.parameters), (v, along[1]))[1]

        by_times = fnp.sum(ct * _at_each(slope)(data.times, ys, moved), axis=1)
    if rule.asked(i + 2, i + 4):
        outs = [Aval((field.size,), FLOAT), Aval((field.count,), FLOAT)]
        mixed = _Mixed(field, settings, outs)
        by_start, by_parameters = apply_opaque(mixed, [*along, ct, *data.flat])
    return [None, by_times, by_start, by_parameters]


def _adjoint(field: Field, settings: Settings, data: Data, ct: Any) -> tuple[Any, Any]:
    outs = [Aval((field.size,), FLOAT), Aval((field.count,), FLOAT)]
    short = data.shortened
    first, second = apply_opaque(_Adjoint(field, settings, outs), [ct, *short[:4], *short.others])
    return first, second


def _tangent(field: Field, settings: Settings, data: Data, along: Sequence[Any]) -> Any:
    outs = [Aval((data.times.shape[0], field.size), FLOAT)]
    (moved,) = apply_opaque(_Tangent(field, settings, outs), [*along, *data.flat])
    return moved


def integrated(
    field: Field, settings: Settings, data: Data, sensitivity: str | None = None
) -> tuple[Any, list[Any], Any]:
    """Return y at the times, one row each, SciPy's counts, and its result where it ran at once."""
    outs = [Aval((data.times.shape[0], field.size), FLOAT), *[Aval((), INT)] * len(COUNTS)]
    rule = _Trajectory(field, settings, outs)
    rule.sensitivity = sensitivity
    ys, *counts = apply_opaque(rule, data.flat)
    return ys, counts, rule.aux
