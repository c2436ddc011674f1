"""SciPy's integrators at work on arrays: trajectories, and the adjoint equation along one of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.integrate

from fgrad import numpy as fnp
from fgrad.numpy.indexing import stop_gradient
from fgrad.scipy.integrate.fields import Field

IMPLICIT = {"Radau", "BDF", "LSODA"}
JACOBIAN = {"jac", "jac_sparsity", "lband", "uband"}  # options by which the user has a say in it


class Settings(NamedTuple):
    """How to integrate."""

    method: Any  # of solve_ivp; "odeint" for the function of this name
    rtol: float
    atol: Any
    options: dict[str, Any]  # of the trajectory itself only, but for max_step

    @property
    def inner(self) -> Settings:
        """How to integrate equations of derivatives."""
        kept = {k: v for k, v in self.options.items() if k in {"max_step", "mxstep", "hmax"}}
        return self._replace(options=kept)


class Data(NamedTuple):
    """What a trajectory is made of, in arrays or Tensors."""

    span: Any  # where it starts and ends; without derivative, see `shifted`
    times: Any  # where it is asked for
    y0: Any
    parameters: Any
    others: Sequence[Any]

    @classmethod
    def of(cls, values: Sequence[Any]) -> Data:
        """Return flat values with their names."""
        span, times, y0, parameters, *others = values
        return cls(span, times, y0, parameters, others)

    @property
    def flat(self) -> list[Any]:
        """The values, as `of` takes them."""
        return [*self[:4], *self.others]

    @property
    def shortened(self) -> Data:
        """The data of the trajectory up to the last time: what comes after it has no derivative."""
        if not self.times.shape[0]:
            return self
        return self._replace(span=stop_gradient(fnp.concatenate([self.span[:1], self.times[-1:]])))


def shifted(fun: Any, data: Data) -> tuple[Any, Data]:
    """Return the problem with the time counted from its start, which becomes the last parameter."""
    start = data.span[:1]

    def moved(parameters: Any, others: Sequence[Any], t: Any, y: Any) -> Any:
        return fun(parameters[:-1], others, parameters[-1] + t, y)

    return moved, data._replace(
        span=data.span - start,
        times=data.times - start,
        parameters=fnp.concatenate([data.parameters, start]),
    )


def trajectory(field: Field, data: Data, settings: Settings) -> tuple[Any, Any]:
    """Return y at the times, one row each, and what SciPy says; NaN where it did not arrive.

    Where `times` is None, they are those of the steps.
    """
    span, times, y0, parameters, others = data
    value, weights = field.value(parameters, others), field.weights(y0, parameters)
    atol = _tolerance(settings.atol, weights)
    if settings.method == "odeint":
        jac = field.jacobian(parameters, others)
        return _by_odeint(value, jac, data, {"rtol": settings.rtol, "atol": atol, **settings.options})
    known = dict(settings.options)
    if settings.method in IMPLICIT and not JACOBIAN & set(known):
        known["jac"] = field.jacobian(parameters, others)
    result = scipy.integrate.solve_ivp(
        value, tuple(span), y0, settings.method, times, rtol=settings.rtol, atol=atol, **known
    )
    if times is None:
        return result.y.T, result
    ys = np.full((len(times), y0.size), np.nan)
    ys[: result.y.shape[1]] = result.y.T
    return ys, result


def _by_odeint(value: Any, jac: Any, data: Data, options: dict[str, Any]) -> tuple[Any, Any]:
    """Return what `trajectory` does, by SciPy's older function."""
    if len(data.times) < 2:
        return np.repeat(data.y0[None], len(data.times), axis=0), {"status": 0, "message": ""}
    ys, info = scipy.integrate.odeint(
        value, data.y0, data.times, Dfun=jac, tfirst=True, full_output=True, **options
    )
    failed = info["message"] != "Integration successful."
    if failed:
        warnings.warn(info["message"], scipy.integrate.ODEintWarning, stacklevel=2)
    known = {"status": -1 if failed else 0, "message": info["message"]}
    return ys, known | {"nfev": info["nfe"][-1], "njev": info["nje"][-1]}


def _tolerance(atol: Any, weights: Any) -> Any:
    """Return the absolute tolerance of each element of a vector that repeats that of `atol`."""
    return np.resize(np.asarray(atol, float), weights.shape) * weights


def adjoint(field: Field, data: Data, cts: Any, settings: Settings) -> tuple[Any, Any]:
    """Return the cotangents of y0 and of the parameters for those of y at the times.

    l' = -l df/dy from the last time back to the first one, with a jump by the cotangent at each time, and
    along with it the integral of l df/dp. y is SciPy's dense output of a run forward, so that nothing grows
    backward that decays forward.

    Source:
        Cao, Li, Petzold & Serban (2003), SIAM J. Sci. Comput. 24(3), 1076-1089.
    """
    span, times, y0, parameters, others = data
    n, k = field.size, field.count
    scale = np.abs(cts).max(initial=0.0)
    state = np.zeros(n + k)
    if not len(times) or not scale or not np.isfinite(scale):
        return np.full(n, scale), np.full(k, scale)
    method = "LSODA" if settings.method == "odeint" else settings.method
    known = {"method": method, "rtol": settings.rtol}
    most = settings.options.get("max_step", settings.options.get("hmax")) or np.inf
    start, stop = float(span[0]), float(times[-1])
    back, slopes = field.adjoint(parameters, others), None
    if method in IMPLICIT:
        slopes = field.slopes(parameters, others)
    if start != stop:
        jac = {"jac": field.jacobian(parameters, others)} if method in IMPLICIT else {}
        forward = scipy.integrate.solve_ivp(
            field.value(parameters, others),
            (start, stop),
            y0,
            dense_output=True,
            atol=_tolerance(settings.atol, field.weights(y0, parameters)),
            max_step=most,
            **known,
            **jac,
        )
        if not forward.success:
            return np.full(n, np.nan), np.full(k, np.nan)
        path = forward.sol
    marks = [*np.asarray(times, float)[::-1], start]
    for now, following, ct in zip(marks, marks[1:], cts[::-1] / scale, strict=False):
        state[:n] += ct
        if now == following:
            continue
        jac = {}
        if slopes is not None:

            def by_state(t: Any, s: Any) -> Any:
                matrix = np.zeros((n + k, n + k))
                matrix[:, :n] = -slopes(t, path(t)).T
                return matrix

            jac = {"jac": by_state}
        part = scipy.integrate.solve_ivp(
            lambda t, s: -back(t, path(t), s[:n]),
            (now, following),
            state,
            atol=float(np.min(settings.atol)),
            max_step=most,
            **known,
            **jac,
        )
        if not part.success:
            return np.full(n, np.nan), np.full(k, np.nan)
        state = part.y[:, -1]
    return scale * state[:n], scale * state[n:]
