"""solve_ivp and odeint: SciPy's integrators, differentiable in everything that the trajectory depends on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import numpy as fnp
from fgrad import tree
from fgrad.compat.scipy import ode_result
from fgrad.core.aval import Aval
from fgrad.core.tensor import Tensor
from fgrad.core.trace import Tracer, current, running
from fgrad.extend.engine import plain_value
from fgrad.numpy.indexing import stop_gradient
from fgrad.scipy.closures import Closed, Parametrised
from fgrad.scipy.integrate.fields import Field
from fgrad.scipy.integrate.steps import Data, Settings, shifted, trajectory
from fgrad.scipy.integrate.trajectories import COUNTS, integrated
from fgrad.scipy.results import checked, is_plain, register_result
from fgrad.scipy.vectors import Vector, array, as_float, flat_values, listed
from fgrad.transforms.calling import name_of, plain
from fgrad.transforms.stage import staging

SENSITIVITIES = (None, "forward", "adjoint")


class OdeResult(ode_result()):  # type: ignore[misc]
    """What SciPy's result of `solve_ivp` is, as a pytree.

    Example:
        >>> from fgrad.scipy.integrate import solve_ivp
        >>> result = solve_ivp(lambda t, y: -y, (0.0, 1.0), np.ones(1), t_eval=[0.0, 1.0])
        >>> result.t, result.y.shape, result.success
        (array([0., 1.]), (1, 2), True)
    """


register_result(OdeResult)


def solve_ivp(
    fun: Callable[..., Any],
    t_span: Sequence[Any],
    y0: Any,
    method: Any = "RK45",
    t_eval: Any = None,
    dense_output: bool = False,
    events: Any = None,
    vectorized: bool = False,
    args: Any = None,
    *,
    rtol: float = 1e-3,
    atol: Any = 1e-6,
    sensitivity: str | None = None,
    **options: Any,
) -> OdeResult:
    """Return the solution of dy/dt = fun(t, y) from y0, as `scipy.integrate.solve_ivp` finds it.

    Args:
        fun: `fun(t, y, *args)` returns a pytree like y; may use Tensors from a closure. Where the result is
            differentiated, mapped or jitted, `fun` is traced with abstract arrays: it chooses by `where` and
            `lax.cond`.
        t_span: `(t0, t1)`.
        y0: pytree of numbers and arrays. Complex numbers are integrated as pairs of real ones.
        method: any of SciPy's; implicit ones get the exact Jacobian.
        t_eval: times, ordered; None: those of SciPy's steps, whose number is not known to `vmap` and `jit`.
        dense_output: not available.
        events: not available.
        vectorized: accepted; SciPy uses it for Jacobians by differences only.
        args: further arguments, pytrees.
        rtol: relative tolerance, of derivatives too.
        atol: absolute tolerance; one for each element of y in one vector, or one for all.
        sensitivity: how derivatives in y0 and parameters are found: "forward", integrated along with y;
            "adjoint", by the adjoint equation, integrated back; None: forward for a few numbers.
        options: what else SciPy takes.

    Returns:
        A pytree with SciPy's fields: `t`; `y`, like y0 with the times on a last axis; `success`, ....

    Raises:
        NotImplementedError: `dense_output` or `events` is asked for.
        ValueError: `fun` returns another number of values, or `t_eval` is missing where it is needed.

    Derivative:
        Of `y` in y0, t_span, t_eval and all Tensors that `fun` uses, of every order: the continuous
        sensitivities or adjoint, as exact as the tolerances. The times of SciPy's steps are constants. If
        the integration failed, differentiating warns (`UnsolvedWarning`).

    Differences from SciPy:
        No `events` and `dense_output`; `rtol` and `atol` have names here.

    Source:
        Cao, Li, Petzold & Serban (2003), SIAM J. Sci. Comput. 24(3), 1076-1089.

    Example:
        >>> import fgrad
        >>> def final(k):
        ...     decay = lambda t, y: -k * y
        ...     return solve_ivp(decay, (0.0, 1.0), np.array([2.0]), t_eval=[1.0], rtol=1e-9).y[0, 0]
        >>> fgrad.grad(final)(0.5)  # -2 exp(-k)
        np.float64(-1.2131)
    """
    for given, name in ((events, "events"), (dense_output or None, "dense_output")):
        if given is not None:
            raise NotImplementedError(
                f"fgrad's solve_ivp has no {name}: when and whether they happen has no derivative here. "
                + _INSTEAD[name]
            )
    if sensitivity not in SENSITIVITIES:
        raise ValueError(f"sensitivity must be 'forward', 'adjoint' or None, not {sensitivity!r}")
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    start, stop = (_number(t) for t in t_span)
    span, times = fnp.stack([start, stop]), None if t_eval is None else _times(t_eval)
    asked = np.zeros(0) if times is None else times
    vector, field, data = _problem("solve_ivp", lambda t, y: fun(t, y, *args), fun, span, asked, y0)
    settings = Settings(method, rtol, atol, options)

    if is_plain(data.flat):
        plainly = _arrays(data)
        if t_eval is None:
            plainly = plainly._replace(times=None)
        result = OdeResult(trajectory(field, plainly, settings)[1])
        result["y"] = vector.restore(result["y"])
        return result
    if t_eval is None:
        inner, shift = _steps(field, data, settings), 0.0 if is_plain([span]) else start
        times = fnp.concatenate([span[:1], inner + shift, span[1:]])
        data = data._replace(times=times - shift)
    ys, counts, raw = integrated(field, settings, data, sensitivity)
    known = dict(zip(COUNTS, map(plain, counts), strict=True))
    success = known["status"] >= 0
    ys = checked("solve_ivp")(ys, success, known["status"])
    if raw is not None:
        known["message"] = raw.message
    return OdeResult(t=times, y=vector.restore(ys.T), success=success, **known)


_INSTEAD = {
    "events": "Find them by a root of the solution (optimize.brentq), or call SciPy's own on arrays",
    "dense_output": "Ask for the times that you need with t_eval, or call SciPy's own on arrays",
}


def _number(t: Any) -> Any:
    return as_float(t) if isinstance(t, Tensor) else np.float64(t)


def _times(t: Any) -> Any:
    if isinstance(t, list | tuple):
        return fnp.stack([_number(x) for x in t]) if len(t) else np.zeros(0)
    return as_float(t if isinstance(t, Tensor) else np.asarray(t))


def _problem(
    name: str, f: Callable[..., Any], fun: Callable[..., Any], span: Any, times: Any, y0: Any
) -> tuple[Vector, Field, Data]:
    """Return the initial value problem of the vector of y."""
    y0 = listed(y0)
    vector = Vector(y0, "y0")

    def flat(t: Any, v: Any) -> list[Any]:
        out = flat_values(f(t, vector.unravel(v)), f"the value of {name_of(fun)}")
        if out.shape != (vector.size,):
            raise ValueError(
                f"{name}: {name_of(fun)} must return as many numbers as y has, {vector.size}, not {out.size}"
            )
        return [out]

    slope: Any = Parametrised(Closed(flat, [Aval((), np.dtype(float)), vector.aval]))
    data = Data(span, times, vector.ravel(y0), slope.parameters, slope.others)
    if not is_plain([span]):
        slope, data = shifted(slope, data)
    data = data._replace(span=stop_gradient(data.span))
    field = Field(slope, vector.size, data.parameters.shape[0], programs=bool(current().traces))
    return vector, field, data


def _arrays(data: Data) -> Data:
    """Return the data of a problem without tracers as SciPy takes them."""
    return Data.of([*map(array, data[:4]), *map(plain_value, data.others)])


def _steps(field: Field, data: Data, settings: Settings) -> Any:
    """Return the times of SciPy's steps between the ends."""
    values = data.flat
    if staging() or any(v.__class__ is Tensor and isinstance(v._value, Tracer) for v in values):
        raise ValueError(
            "solve_ivp needs t_eval where it is mapped or traced, because the number of SciPy's steps is "
            "not known there"
        )
    held = [v._value if v.__class__ is Tensor else v for v in values]
    with running(()):
        _, result = trajectory(field, Data.of(held)._replace(times=None), settings)
    return result.t[1:-1]


def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    args: Any = (),
    tfirst: bool = False,
    *,
    rtol: float | None = None,
    atol: Any = None,
    sensitivity: str | None = None,
    **options: Any,
) -> Any:
    """Return the solution of dy/dt = func(y, t) at the times `t`, as `scipy.integrate.odeint` finds it.

    Args:
        func: `func(y, t, *args)`, or `func(t, y, *args)` with `tfirst`; as in `solve_ivp`.
        y0: pytree, the value at `t[0]`.
        t: times, increasing or decreasing.
        args: further arguments, pytrees.
        tfirst: whether the time is the first argument of `func`.
        rtol: relative tolerance, of derivatives too; None: 1.49e-8.
        atol: absolute tolerance; None: 1.49e-8.
        sensitivity: as in `solve_ivp`.
        options: `h0`, `hmax`, `hmin`, `mxstep`, `mxordn`, `mxords` and `tcrit`, as in SciPy.

    Returns:
        y, like y0 with the times on a first axis.

    Raises:
        TypeError: an option that is none of these.

    Derivative:
        In y0, t and all Tensors that `func` uses, as in `solve_ivp`.

    Differences from SciPy:
        No `Dfun` (the Jacobian is exact), `ml`, `mu`, `col_deriv`, `full_output` and messages.

    Example:
        >>> import fgrad
        >>> final = lambda k: odeint(lambda y, t: -k * y, 2.0, [0.0, 1.0])[-1]
        >>> fgrad.grad(final)(0.5)  # -2 exp(-k)
        np.float64(-1.2131)
    """
    unknown = set(options) - ODEINT_OPTIONS
    if unknown:
        raise TypeError(f"fgrad's odeint has no option {', '.join(sorted(unknown))}")
    if sensitivity not in SENSITIVITIES:
        raise ValueError(f"sensitivity must be 'forward', 'adjoint' or None, not {sensitivity!r}")
    args = args if isinstance(args, tuple) else (args,)
    ordered = (lambda t, y: func(t, y, *args)) if tfirst else (lambda t, y: func(y, t, *args))
    times = _times(t)
    span = fnp.concatenate([times[:1], times[-1:]])
    vector, field, data = _problem("odeint", ordered, func, span, times, y0)
    usual = 1.49012e-8
    rtol, atol = usual if rtol is None else rtol, usual if atol is None else atol
    settings = Settings("odeint", rtol, atol, options)
    if is_plain(data.flat):
        ys, _ = trajectory(field, _arrays(data), settings)
    else:
        ys, counts, _ = integrated(field, settings, data, sensitivity)
        status = plain(counts[-1])
        ys = checked("odeint")(ys, status >= 0, status)
    return tree.map(lambda y: fnp.moveaxis(y, -1, 0), vector.restore(ys.T))


ODEINT_OPTIONS = {"h0", "hmax", "hmin", "mxstep", "mxordn", "mxords", "tcrit"}
