"""Stored programs to be damaged: each primitive alone, and functions that use what programs know."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from tests.ops.test_primitives import SAMPLES

import fgrad as fg
from fgrad.archive.schema import has_code
from fgrad.core.dispatch import bind
from fgrad.core.primitive import PRIMITIVES

LARGE = 400  # elements of operands of samples, of which smaller ones say the same


class Entry(NamedTuple):
    """A function that was exported."""

    name: str
    data: bytes


@fg.custom_vjp
def limited(x: Any) -> Any:
    """Return a function with a derivative of its own, which uses another one."""
    return 2 * halved(x) * x


@fg.custom_vjp
def halved(x: Any) -> Any:
    """Return a function with a derivative of its own."""
    return x / 2


limited.defvjp(lambda x: (limited(x), None), lambda _, ct: (ct,))
halved.defvjp(lambda x: (halved(x), None), lambda _, ct: (ct,))


def loops(x: Any, n: Any) -> Any:
    """Return what needs branches and loops."""
    y, ys = fg.lax.scan(lambda c, a: (np.sin(c) * a, c + a), x[0], x, reverse=True)
    z = fg.lax.while_loop(lambda z: z < 9.0, lambda z: z * 1.5, y**2 + 1.0)
    return fg.lax.switch(n, [np.sin, np.cos, lambda z: z], z) + np.sum(ys)


def places(x: Any, i: Any) -> Any:
    """Return what needs index arrays and views."""
    y = x.copy()
    y[i] = x[i] * 2
    y[1:3] += x[::2][:2]
    return {"a": (np.sort(y)[::-1], np.cumsum(y).reshape(2, 3).T), "b": [y[None, i], np.argmax(y), None]}


def layers(params: Any, x: Any, *, scale: float) -> Any:
    """Return what needs matrices, and arrays from outside."""
    h = np.tanh(x @ params["w"] + params["b"][0]) * np.arange(4.0)
    return fg.nn.softmax(h * scale), np.linalg.solve(params["w"].T @ params["w"] + 3 * np.eye(4), h.T)


def windows(x: Any, w: Any) -> Any:
    """Return what slides over an image."""
    return fg.nn.max_pool(fg.nn.conv(x, w, padding=1), 2), np.fft.rfft(x, axis=-1)


def noise(key: Any) -> Any:
    """Return random numbers."""
    counts = fg.random.poisson(key, 2.0, (2,)), fg.random.integers(key, -3, 4, (2,), np.int8, endpoint=True)
    return fg.random.normal(key, size=(3,)), fg.random.permutation(key, 5), counts


@cache
def programs() -> list[Entry]:
    """Return functions that use what programs know."""
    rng = np.random.default_rng(4)
    x, i = np.linspace(-1.0, 1.0, 6), np.array([0, 3])
    params = {"w": rng.normal(size=(3, 4)), "b": [rng.normal(size=4)]}
    image, kernel = rng.normal(size=(1, 2, 4, 4)), rng.normal(size=(2, 2, 3, 3))
    found = {
        "loops": (loops, (x[:3], 1)),
        "gradient of loops": (fg.grad(loops), (x[:3], 1)),
        "mapped gradient of loops": (fg.vmap(fg.grad(loops), in_axes=(0, None)), (np.stack([x[:3]] * 2), 1)),
        "places": (places, (x, i)),
        "gradient of places": (fg.grad(lambda x, i: np.sum(places(x, i)["a"][0])), (x, i)),
        "windows": (windows, (image, kernel)),
        "gradient of windows": (fg.grad(lambda x, w: np.sum(windows(x, w)[0])), (image, kernel)),
        "noise": (noise, (fg.random.key(1),)),
        "regions": (lambda x: limited(x) + halved(limited(np.sin(x))), (x,)),
        "constants": (
            lambda x: (x + np.ones((3, 6)), np.float32(2), np.broadcast_to(1.0, (50, 6)) * x),
            (x,),
        ),
        "numbers": (lambda x, n: x + n, (np.ones(2, np.int8), 1)),
    }
    entries = [Entry(name, fg.export(f, *args)) for name, (f, args) in found.items()]
    return [*entries, Entry("layers", fg.export(layers, params, rng.normal(size=(5, 3)), scale=3.0))]


def rows(each: int) -> Iterator[Entry]:
    """Yield up to so many programs of one equation for every primitive that can be stored."""
    counts: dict[str, int] = {}
    for s in SAMPLES:
        small = sum(np.size(a) for a in s.args) < LARGE
        if (
            isinstance(PRIMITIVES[s.primitive].stored, str)
            or has_code(PRIMITIVES[s.primitive])
            or s.stops
            or not small
            or counts.get(s.primitive, 0) >= each
        ):
            continue

        def apply(*xs: Any, s: Any = s) -> Any:
            out = bind(s.primitive, *xs, **s.params)
            return tuple(out) if PRIMITIVES[s.primitive].many else out

        try:
            data = fg.export(apply, *map(np.asarray, s.args))
        except TypeError:
            continue  # refused for this dtype
        counts[s.primitive] = counts.get(s.primitive, 0) + 1
        yield Entry(str(s), data)
