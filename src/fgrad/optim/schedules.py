"""Schedules of learning rates: functions of the number of steps that are done, also of a traced one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fgrad.docstrings import completes
from fgrad.optim.transformations import Schedule

_schedule = completes(
    {},
    Returns="""A function of the number of steps done, an integer or an array of them, which returns
    floats of its shape.""",
)


@_schedule
def linear_schedule(init_value: float, end_value: float, transition_steps: int) -> Schedule:
    """Return the schedule that goes from one value to another on a straight line, and stays there.

    Args:
        init_value: before the first step.
        end_value: after `transition_steps`.
        transition_steps: positive.

    Raises:
        ValueError: `transition_steps` is not positive.

    Example:
        >>> [float(linear_schedule(1.0, 0.0, 4)(t)) for t in (0, 1, 4, 9)]
        [1.0, 0.75, 0.0, 0.0]
    """
    _check("linear_schedule", transition_steps)
    return lambda count: init_value + (end_value - init_value) * np.clip(count / transition_steps, 0.0, 1.0)


@_schedule
def exponential_decay(
    init_value: float, transition_steps: int, decay_rate: float, *, staircase: bool = False
) -> Schedule:
    """Return init_value decay_rate^(count / transition_steps).

    Args:
        init_value: the first value.
        transition_steps: after how many steps the value is multiplied by `decay_rate` once.
        decay_rate: positive.
        staircase: whether it is multiplied all at once then.

    Raises:
        ValueError: `transition_steps` is not positive.

    Example:
        >>> float(exponential_decay(1.0, 10, 0.5)(20))
        0.25
    """
    _check("exponential_decay", transition_steps)

    def schedule(count: Any) -> Any:
        p = count / transition_steps
        return init_value * decay_rate ** (np.floor(p) if staircase else p)

    return schedule


@_schedule
def cosine_decay_schedule(init_value: float, decay_steps: int, alpha: float = 0.0) -> Schedule:
    """Return the schedule that falls to alpha init_value along half a wave of a cosine.

    Args:
        init_value: before the first step.
        decay_steps: positive; the value stays from there on.
        alpha: which part of `init_value` is left at the end.

    Raises:
        ValueError: `decay_steps` is not positive.

    Source:
        Loshchilov & Hutter (2017), SGDR: Stochastic gradient descent with warm restarts.

    Example:
        >>> float(cosine_decay_schedule(1.0, 10)(5))
        0.5
    """
    _check("cosine_decay_schedule", decay_steps)

    def schedule(count: Any) -> Any:
        fall = (1 + np.cos(np.pi * np.minimum(count / decay_steps, 1.0))) / 2
        return init_value * ((1 - alpha) * fall + alpha)

    return schedule


@_schedule
def piecewise_constant_schedule(init_value: float, boundaries_and_scales: Mapping[int, float]) -> Schedule:
    """Return the schedule that is multiplied by a scale at each boundary.

    Args:
        init_value: before the first boundary.
        boundaries_and_scales: the number of a step, from which on the value is multiplied by this scale.

    Example:
        >>> steps = piecewise_constant_schedule(1.0, {10: 0.1, 20: 0.1})
        >>> [round(float(steps(t)), 4) for t in (9, 10, 25)]
        [1.0, 0.1, 0.01]
    """

    def schedule(count: Any) -> Any:
        value: Any = init_value
        for boundary, scale in boundaries_and_scales.items():
            value = value * np.where(np.asarray(boundary) <= count, scale, 1.0)
        return value

    return schedule


@_schedule
def join_schedules(schedules: Sequence[Schedule], boundaries: Sequence[int]) -> Schedule:
    """Return one schedule of several: at each boundary the next one begins, and counts from there.

    Args:
        schedules: one after the other.
        boundaries: numbers of steps, increasing, at which the next schedule takes over.

    Raises:
        ValueError: there is not one boundary less than schedules.

    Example:
        >>> rate = join_schedules([lambda t: 0.1 * t, lambda t: 1.0 - 0.5 * t], [10])
        >>> [round(float(rate(t)), 3) for t in (0, 5, 10, 11)]
        [0.0, 0.5, 1.0, 0.5]
    """
    if len(boundaries) != len(schedules) - 1:
        raise ValueError(f"{len(schedules)} schedules meet at one boundary less, not {len(boundaries)}")

    def schedule(count: Any) -> Any:
        value = schedules[0](count)
        for following, boundary in zip(schedules[1:], boundaries, strict=True):
            value = np.where(count < np.asarray(boundary), value, following(count - boundary))
        return value

    return schedule


@_schedule
def warmup_cosine_decay_schedule(
    init_value: float, peak_value: float, warmup_steps: int, decay_steps: int, end_value: float = 0.0
) -> Schedule:
    """Return the schedule that climbs on a straight line, then falls along a cosine.

    Args:
        init_value: where it begins.
        peak_value: what it reaches after `warmup_steps`.
        warmup_steps: positive.
        decay_steps: of the whole schedule, with the warm-up.
        end_value: where it ends.

    Raises:
        ValueError: `decay_steps` is not more than `warmup_steps`.

    Example:
        >>> rate = warmup_cosine_decay_schedule(0.0, 1.0, 10, 110)
        >>> [round(float(rate(t)), 3) for t in (0, 5, 10, 60, 110)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    falling = cosine_decay_schedule(peak_value, decay_steps - warmup_steps, end_value / peak_value)
    return join_schedules([linear_schedule(init_value, peak_value, warmup_steps), falling], [warmup_steps])


def _check(name: str, steps: int) -> None:
    if not steps > 0:
        raise ValueError(f"{name} takes a positive number of steps, not {steps}")
