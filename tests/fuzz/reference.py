"""What the names of `fgrad` mean for arrays: loops for `vmap`, differences for derivatives, Python for loops.

Derivatives are differences of the fourth order, in extended precision where the function allows it. Where the
slopes on both sides differ, or the differences do not settle, the result is NaN: nothing can be said.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

STEP = 1e-3
WIDER = {"f": np.longdouble, "c": np.clongdouble}


class Extended:
    """NumPy's namespace in which every float is a longdouble."""

    NAMES: ClassVar[dict[str, Any]] = {
        **dict.fromkeys(("float16", "float32", "float64"), np.longdouble),
        **dict.fromkeys(("complex64", "complex128"), np.clongdouble),
    }

    def __getattr__(self, name: str) -> Any:
        if name in {"zeros", "ones", "empty", "eye", "identity"}:
            made = getattr(np, name)
            return lambda *args, **kwargs: made(*args, **{"dtype": np.longdouble, **kwargs})
        return self.NAMES.get(name) or getattr(np, name)


def leaves(out: Any) -> list[Any]:
    """Return the arrays of an output."""
    return [p for o in out for p in leaves(o)] if isinstance(out, list | tuple) else [out]


def like(out: Any, flat: Any) -> Any:
    """Return new leaves in the structure of an output."""
    if isinstance(out, list | tuple):
        return type(out)([like(o, flat) for o in out])
    return next(flat)


def ordered(x: Any) -> Any:
    """Return an array without repetitions, in memory in the order of what is computed of it."""
    return x * x.dtype.type(1) if 0 in x.strides else x


def lift(x: Any) -> Any:
    """Return an array in extended precision."""
    x = ordered(np.asarray(x))
    return x.astype(WIDER[x.dtype.kind]) if x.dtype.kind in WIDER else x


_steps = [
    (1.0, 0.0)
]  # by which they are longer, and what is done to slopes beside the numbers they come from


@contextlib.contextmanager
def other_steps(turn: float = 0.7, noise: float = 0.0) -> Iterator[None]:
    """Take differences of other steps; slopes that are lost in the noise are other numbers, or zero."""
    _steps.append((turn, noise))
    try:
        yield
    finally:
        _steps.pop()


LARGEST = 1e300  # beside which no slope shows, and float64 may hold no number


def slope(f: Any, h: float = STEP) -> Any:
    """Return the derivative at 0 of a function of a number; NaN where it has none, or none that is found."""
    turn, lost = _steps[-1]
    h *= turn
    at = {}
    for k in (0.0, 0.5, 1.0, 2.0):
        for s in (k, -k):
            at[s] = np.asarray(f(h * s))
    if at[0.0].dtype.kind not in "fc":
        return np.zeros(at[0.0].shape)
    d = lambda k: (8 * (at[k] - at[-k]) - (at[2 * k] - at[-2 * k])) / (12 * k * h)
    side = lambda s: (-3 * at[0.0] + 4 * at[s / 2] - at[s]) / (s * h)
    fine, rough = d(0.5), d(1.0)
    size, noise = 1 + np.abs(fine), 1e-12 * np.abs(at[0.0])
    good = np.abs(fine - rough) < 1e-7 * size + noise
    good &= (
        np.abs(side(1.0) - side(-1.0)) < 1e-3 * (size if h > 1.5 * STEP else 0.1 * size) + noise
    )  # no kink
    good &= ~(np.abs(at[0.0]) > LARGEST)
    if lost > 0:
        fine = fine + lost * np.abs(at[0.0])
    elif lost < 0:
        fine = np.where(np.abs(fine) < -lost * (1 + np.abs(at[0.0])), 0, fine)
    return np.where(good, fine, np.nan)


def directions(x: Any) -> Any:
    """Return the unit vectors of a space of arrays, with i of each for complex ones."""
    for i in np.ndindex(x.shape):
        e = np.zeros_like(x)
        e[i] = 1
        yield i, e


def along(f: Any, xs: Any, k: int, e: Any) -> Any:
    """Return the derivative of each output of `f`, moving argument `k` along `e`."""
    given, xs = xs, list(map(lift, xs))

    def moved(t: float) -> Any:
        return leaves(f(*xs[:k], xs[k] + np.longdouble(t) * e, *xs[k + 1 :]))

    cache: dict[float, Any] = {}

    def part(j: int, t: float) -> Any:
        if t not in cache:
            cache[t] = moved(t)
        return cache[t][j]

    out = f(*given)
    slopes = [slope(lambda t, j=j: part(j, t)) for j in range(len(leaves(out)))]
    return like(out, iter([s.astype(np.asarray(o).dtype) for s, o in zip(slopes, leaves(out), strict=True)]))


def numbers(argnums: Any) -> tuple[int, ...]:
    return (argnums,) if isinstance(argnums, int) else tuple(argnums)


def grad(f: Any, argnums: Any = 0) -> Any:
    def gradient(*xs: Any) -> Any:
        found = []
        for k in numbers(argnums):
            x = lift(xs[k])
            g = np.zeros(x.shape, x.dtype)
            for i, e in directions(x):
                g[i] = along(f, xs, k, e)
                if x.dtype.kind == "c":
                    g[i] -= 1j * along(f, xs, k, 1j * e)
            found.append(g.astype(np.asarray(xs[k]).dtype.newbyteorder("=")))
        return found[0] if isinstance(argnums, int) else tuple(found)

    return gradient


def value_and_grad(f: Any, argnums: Any = 0) -> Any:
    return lambda *xs: (f(*xs), grad(f, argnums)(*xs))


def jacfwd(f: Any, argnums: int = 0) -> Any:
    def jacobian(*xs: Any) -> Any:
        x = lift(xs[argnums])
        columns = [along(f, xs, argnums, e) for _, e in directions(x)]
        shape = np.shape(f(*xs))
        return np.stack(columns, -1).reshape(shape + x.shape) if columns else np.zeros(shape + x.shape)

    return jacobian


jacrev = jacobian = jacfwd


def hessian(f: Any, argnums: int = 0) -> Any:
    return jacfwd(jacfwd(f, argnums), argnums)


def jvp(f: Any, primals: Any, tangents: Any) -> Any:
    line = lambda t: f(*(lift(x) + t * lift(v) for x, v in zip(primals, tangents, strict=True)))
    out = f(*primals)
    slopes = leaves(along(line, (np.longdouble(0.0),), 0, np.longdouble(1.0)))
    return out, like(
        out, iter([s.astype(np.asarray(o).dtype) for s, o in zip(slopes, leaves(out), strict=True)])
    )


def vjp(f: Any, *primals: Any) -> Any:
    def pullback(ct: Any) -> Any:
        if any(np.shape(y) != np.shape(c) for y, c in zip(leaves(f(*primals)), leaves(ct), strict=True)):
            raise ValueError("the cotangent has another shape than the output")

        def pairing(*xs: Any) -> Any:
            pairs = zip(leaves(f(*xs)), leaves(ct), strict=True)
            return sum(np.sum(y * c) for y, c in pairs)

        return grad(pairing, tuple(range(len(primals))))(*primals)

    return f(*primals), pullback


def vmap(f: Any, in_axes: Any = 0, out_axes: Any = 0) -> Any:
    def mapped(*xs: Any) -> Any:
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(xs)
        n = next(np.shape(x)[a] for x, a in zip(xs, axes, strict=True) if a is not None)
        take = lambda x, a, i: x if a is None else np.moveaxis(np.asarray(x), a, 0)[i, ...].copy()
        outs = [f(*(take(x, a, i) for x, a in zip(xs, axes, strict=True))) for i in range(n)]
        stacked = [np.stack(column, out_axes) for column in zip(*map(leaves, outs), strict=True)]
        return like(outs[0], iter(stacked))

    return mapped


def jit(f: Any, **options: Any) -> Any:
    return f


checkpoint = jit


def stop_gradient(x: Any) -> Any:
    raise NotImplementedError  # its derivative is not that of its value


def tensor(x: Any) -> Any:
    return np.array(x)


class custom_vjp:  # noqa: N801 -- fgrad's name
    """The function without its rule."""

    def __init__(self, f: Any) -> None:
        self.f = f

    def __call__(self, *args: Any) -> Any:
        return self.f(*args)

    def defvjp(self, forward: Any, backward: Any) -> None:
        pass


class lax:  # noqa: N801 -- a namespace
    """Control flow in Python."""

    @staticmethod
    def cond(p: Any, yes: Any, no: Any, *operands: Any) -> Any:
        return yes(*operands) if p else no(*operands)

    @staticmethod
    def switch(i: Any, branches: Any, *operands: Any) -> Any:
        return branches[min(max(int(i), 0), len(branches) - 1)](*operands)

    @staticmethod
    def while_loop(test: Any, body: Any, carry: Any) -> Any:
        while test(carry):
            carry = body(carry)
        return carry

    @staticmethod
    def fori_loop(low: int, high: int, body: Any, carry: Any) -> Any:
        for i in range(low, high):
            carry = body(i, carry)
        return carry

    @staticmethod
    def scan(body: Any, carry: Any, xs: Any, reverse: bool = False) -> Any:
        ys = []
        for x in xs[::-1] if reverse else xs:
            carry, y = body(carry, x)
            ys.append(y)
        return carry, np.stack(ys[::-1] if reverse else ys)

    @staticmethod
    def map(f: Any, xs: Any) -> Any:
        return np.stack([f(x) for x in xs])
