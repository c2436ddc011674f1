"""Where derivatives of universal functions may go wrong, and what they tend to beside it.

A slope is an expression. Wherever one of its conditions changes, or one of the conditions in its own slopes,
the derivative is computed by another formula, so these points are found from the expressions; edges of
domains, integers, halves, ties, zeros, subnormal and large numbers are added.
"""

from __future__ import annotations

import functools
import itertools
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from tests.scipy.special_cases import CASES, is_constant

import fgrad as fg
from fgrad.core.dispatch import bind
from fgrad.expr.atoms import ATOMS
from fgrad.expr.derive import chain
from fgrad.expr.node import ONE, ZERO, Expr, apply, const, postorder, var
from fgrad.ops import elementwise
from fgrad.scipy.special.primitives import TABLE

COMPARISONS = frozenset(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"))
TIES = frozenset(("maximum", "minimum", "fmax", "fmin"))
SIGNS = frozenset(("sign", "fabs", "signbit", "heaviside", "root"))
# functions of which no condition speaks, with arguments that lie in their domains
NUMPY_CASES: dict[str, tuple[tuple[float, ...], ...]] = {
    name: ((0.7, 1.3)[: atom.arity], (0.3, 0.8)[: atom.arity], (2.0, -1.5)[: atom.arity])
    for name, atom in ATOMS.items()
    if name not in {"where", "scale", "multiply_no_nan", "root"}
    and any(s != 0 for s in atom.slopes(*map(var, "fxyz"[: atom.arity + 1])))
}
SPECIAL = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.0, -2.0, 3.0, -3.0, -4.0, 5.0, 10.0)
SMALL = (5e-324, -5e-324, 1e-310, 1e-160, -1e-30, 1e-8, -1e-8)
LARGE = (30.0, -30.0, 1e3, -1e3)
HUGE = (1e10, -1e10, 1e150)
# integrals by quadrature and inverses by searches, which are looked at in fewer points
COSTLY = {
    *("agm", "elliprc", "elliprd", "elliprf", "elliprg", "elliprj", "ellipj_sn", "ellipj_cn", "ellipj_dn"),
    *("ellipj_ph", "ellipkinc", "ellipeinc", "btdtria", "btdtrib", "betaincinv", "betainccinv", "betainc"),
    *("betaincc", "gdtrib", "ellipkm1"),
}
FEW = (0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0)
GRID = np.unique(
    np.concatenate([np.linspace(-12, 12, 193), *(s * 10 ** np.linspace(-9, 9, 73) for s in (-1, 1))])
)


def slopes_of(head: str) -> Callable[..., Sequence[Any]] | None:
    """Return the slopes of an atom or a special function; None where there are none to see."""
    if head in ATOMS:
        return ATOMS[head].slopes
    return TABLE[head].slopes if head in TABLE else None


def gradient(e: Expr) -> dict[Expr, Expr]:
    """Return the derivatives of an expression by its variables, as the library makes them."""
    adjoint = {e: ONE}
    for node in reversed(list(postorder(e))):
        ct, slopes = adjoint.get(node, ZERO), slopes_of(node.head) if node.args else None
        if slopes is None or ct is ZERO:
            continue
        for arg, slope in zip(node.args, slopes(node, *node.args), strict=True):
            if slope is not None:
                slope = slope if isinstance(slope, Expr) else const(slope)
                adjoint[arg] = adjoint.get(arg, ZERO) + chain(ct, slope, "scale")
    return {v: d for v, d in adjoint.items() if v.head == "var"}


@functools.cache
def variables_of(primitive: str) -> tuple[Expr, ...]:
    n = ATOMS[primitive].arity if primitive in ATOMS else len(TABLE[primitive].arguments.split())
    return tuple(var(f"x{i}") for i in range(n))


def surfaces(primitive: str, order: int = 2) -> list[Expr]:
    """Return expressions that are zero where a condition in a slope changes, up to slopes of an `order`."""
    level: list[Expr] = (
        [elementwise.apply_unshared(primitive, variables_of(primitive))]
        if primitive in ATOMS
        else [Expr(primitive, variables_of(primitive), "")]
    )
    found: dict[Expr, None] = {}
    for _ in range(order):
        level = [d for e in level for d in gradient(e).values()]
        for e in postorder(*level):
            if e.head in COMPARISONS or e.head in TIES:
                found[e.args[0] - e.args[1]] = None
            elif e.head in SIGNS:
                found[e.args[0]] = None
            elif e.head == "copysign":
                found[e.args[1]] = None
            elif e.head == "rint":
                found[apply("cos", np.pi * e.args[0])] = None
            elif e.head in {"floor", "trunc", "ceil"}:
                found[apply("sin", np.pi * e.args[0])] = None
    return [e for e in found if e.head != "const"]


def evaluate(e: Expr, values: dict[Expr, Any]) -> Any:
    """Return an expression at arrays, by the functions that define its nodes."""
    done: dict[Expr, Any] = dict(values)
    with np.errstate(all="ignore"):
        for node in postorder(e):
            if node.head == "const":
                done[node] = float(node.leaf)
            elif node.args:
                f = ATOMS[node.head].reference if node.head in ATOMS else None
                f = f or (lambda *xs, primitive=node.head: _value(primitive, xs))
                done[node] = f(*(done[a] for a in node.args))
    return done[e]


def _value(primitive: str, xs: Any) -> Any:
    y = (
        bind(primitive, *map(np.asarray, xs))
        if primitive in TABLE
        else elementwise._RAW[primitive](*map(np.asarray, xs))
    )
    return y.numpy() if isinstance(y, fg.Tensor) else y


def zeros(e: Expr, base: Sequence[float], i: int) -> Iterator[float]:
    """Yield where an expression is zero, or changes its sign, along argument `i`, next to both sides."""
    params = [var(f"x{k}") for k in range(len(base))]

    def at(x: Any) -> Any:
        values = {
            p: x if k == i else np.full_like(x, b) for k, (p, b) in enumerate(zip(params, base, strict=True))
        }
        return np.broadcast_to(np.sign(evaluate(e, values)), x.shape)

    with np.errstate(all="ignore"):
        y = at(GRID)
        yield from GRID[y == 0][:8]
        places = np.flatnonzero(y[1:] * y[:-1] < 0)[:8]
        low, high = GRID[places], GRID[places + 1]
        side = y[places]
        for _ in range(80):
            middle = (low + high) / 2
            same = at(middle) == side
            low, high = np.where(same, middle, low), np.where(same, high, middle)
    yield from low
    yield from high


# where derivatives are left alone: a factor zero meets an infinite one at the end of a domain, or there is no
# such function
ENDS = {
    "gammaincinv": lambda a, y: y == 0,
    "gammainccinv": lambda a, y: y == 1,
    "betainccinv": lambda a, b, y: y == 1,
    "betaincinv": lambda a, b, y: y == 0,
    "btdtria": lambda p, b, x: (p == 1) | (b < 1e-300),
    "gdtria": lambda p, b, x: p == 0,
    "chdtri": lambda v, p: p == 1,
    "inv_boxcox": lambda y, p: p * y == -1,
    "voigt_profile": lambda x, sigma, gamma: (sigma < 0) | (gamma < 0),
}


def bases(primitive: str) -> list[tuple[Any, ...]]:
    return [
        tuple(p) for p in (NUMPY_CASES[primitive] if primitive in NUMPY_CASES else CASES[primitive].points)
    ]


def tracked(primitive: str) -> list[int]:
    base = bases(primitive)[0]
    if primitive in ATOMS:
        return list(range(len(base)))
    return [i for i in range(len(base)) if not is_constant(primitive, i, [float(x) for x in base])]


def points(primitive: str, order: int = 2) -> Any:
    """Return where a function is looked at, an array a point: (points, arguments)."""
    given = bases(primitive)
    wrt = tracked(primitive)
    found: dict[tuple[float, ...], None] = {tuple(map(float, p)): None for p in given}

    def add(base: Sequence[Any], changes: dict[int, float]) -> None:
        p = tuple(float(changes.get(k, x)) for k, x in enumerate(base))
        if all(np.isfinite(p)):
            found[p] = None

    for e in surfaces(primitive, order):
        for base in given[:3]:
            for i in wrt:
                for x in zeros(e, base, i):
                    add(base, {i: x})
    for base in given[:4]:
        for i in wrt:
            for x in (
                (*SPECIAL, *SMALL, *LARGE, *(HUGE if primitive in ATOMS else ()))
                if base is given[0]
                else SPECIAL
            ):
                add(base, {i: x})
        for i, k in itertools.combinations(wrt, 2):
            for x, y in itertools.product(FEW, FEW) if base is given[0] else ():
                add(base, {i: x, k: y})
            for x in (base[i], base[k]):
                add(base, {i: x, k: x})
                add(base, {i: x, k: -x})
    ps = np.array(list(found))
    if primitive in COSTLY:
        size = np.abs(ps)
        ps = ps[np.all((ps == 0) | ((size > 1e-6) & (size < 50)), axis=1)]
    return ps[~ENDS[primitive](*ps.T)] if primitive in ENDS else ps


def rows() -> list[str]:
    """Return the primitives of universal functions that have derivatives."""
    return [*NUMPY_CASES, *(primitive for primitive, case in CASES.items() if case.points)]


def sequences(primitive: str, order: int) -> list[tuple[int, ...]]:
    """Return by which arguments to differentiate, one after the other."""
    wrt = tracked(primitive)
    return [
        s
        for n in range(1, order + 1)
        for s in itertools.product(wrt, repeat=n)
        if len(wrt) < 3 or tuple(sorted(s)) == s
    ]


def derivative(primitive: str, by: Sequence[int], holomorphic: bool = False) -> Callable[..., Any]:
    """Return the elements' derivatives of a primitive, as a function of arrays."""

    def f(*xs: Any) -> Any:
        return bind(primitive, *xs)

    for i in by:
        f = _of(f, i, holomorphic)
    return f


def _of(f: Callable[..., Any], i: int, holomorphic: bool) -> Callable[..., Any]:
    return lambda *xs: fg.grad(lambda *ys: np.sum(f(*ys)), i, holomorphic=holomorphic)(*xs)


DIRECTIONS = ((1.0, -0.618, 0.8312, -0.37), (0.71, 1.0, 0.434, 0.83))
STEPS = np.array([-4, -3, -2, -1, 1, 2, 3, 4])
CUBIC, QUADRATIC = np.array([4.0, -6.0, 4.0, -1.0]), np.array([3.0, -3.0, 1.0, 0.0])


def lines(wrt: Sequence[int], n: int) -> list[Any]:
    """Return directions: one along each axis, and general ones, which leave every surface."""
    axes = [np.eye(n)[i] for i in wrt]
    general = [sum(c * e for c, e in zip(d, axes, strict=False)) for d in DIRECTIONS]
    return [*axes, *(general if len(axes) > 1 else ())]


def around(ps: Any, line: Any) -> Any:
    """Return the points on a line through each, (steps, points, arguments)."""
    width = np.where(np.abs(ps) > 1e-6, np.abs(ps), 1.0) * 2.0**-10
    return ps + STEPS[:, None, None] * (width * line)


class Comparison(NamedTuple):
    """One derivative at points, and what it tends to: NaN where that differs, or where there is no limit."""

    primitive: str
    by: tuple[int, ...]
    points: Any
    found: Any
    expected: Any
    size: Any  # of the derivative around the points
    inside: Any  # whether the limits are from both sides

    @property
    def judged(self) -> Any:
        return np.isfinite(self.expected)

    @property
    def wrong(self) -> list[str]:
        """What is found at points where it differs from its limit."""
        with np.errstate(invalid="ignore"):
            off = self.judged & ~(np.abs(self.found - self.expected) <= 2e-5 * self.size + 1e-13)
        return [
            f"{self.primitive}{tuple(p)} by {self.by}: {h!r}, beside it {x!r}"
            for p, h, x in zip(
                self.points[off].tolist(), self.found[off].tolist(), self.expected[off].tolist(), strict=True
            )
        ]


def compare(primitive: str, order: int, ps: Any, *, holomorphic: bool = False) -> Iterator[Comparison]:
    """Yield every derivative with what it tends to on every line on which it tends to something.

    The function has to be continuous there, at least on the axes by which it is differentiated.
    """
    wrt = tracked(primitive)
    ways = lines(wrt, ps.shape[1])
    turn = np.exp(0.6j) if holomorphic else 1.0
    every = [ps[None], *(around(ps, turn * way) for way in ways)]
    xs = list(np.concatenate(every).reshape(-1, ps.shape[1]).T)
    xs = [x if i in wrt else x.real for i, x in enumerate(xs)]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = np.asarray(_value(primitive, xs)).reshape(-1, len(ps))
        sides = [value[k : k + 8] for k in range(1, len(value), 8)]
        tends = [limit(v, v) for v in sides]
        continuous = [np.abs(value[0] - x) <= 2e-5 * size for x, size, _ in tends]
        for by in sequences(primitive, order):
            try:
                d = np.asarray(derivative(primitive, by, holomorphic)(*xs)).reshape(-1, len(ps))
            except TypeError:
                if holomorphic and len(by) > 1:
                    continue  # SciPy has it for real numbers only
                raise
            # a line along another axis may stay where the condition holds
            seen = [k for k in range(len(sides)) if k >= len(wrt) or set(by) == {wrt[k]}]
            limits = [limit(d[1 + 8 * k : 9 + 8 * k], sides[k]) for k in seen]
            usual = np.logical_and.reduce([continuous[wrt.index(i)] for i in by])
            found = [np.where(continuous[k] & usual, x[0], np.nan) for k, x in zip(seen, limits, strict=True)]
            size = np.nanmax(
                [np.where(np.isnan(f), 0, x[1]) for f, x in zip(found, limits, strict=True)], axis=0
            )
            mean = np.nanmean(found, axis=0)
            spread = np.nanmax(np.abs(np.array(found) - mean), axis=0)
            inside = np.logical_or.reduce([x[2] & ~np.isnan(f) for f, x in zip(found, limits, strict=True)])
            expected = np.where(spread <= 1e-5 * size + 1e-13, mean, np.nan)
            yield Comparison(primitive, by, ps, d[0], expected, size, inside)


def limit(beside: Any, value: Any) -> tuple[Any, Any, Any]:
    """Return what is tended to from both sides, or the only one, or NaN; how large it is; if from both."""
    defined = np.isfinite(value)
    sides = [(beside[3::-1], defined[3::-1]), (beside[4:], defined[4:])]
    left, right = (CUBIC @ s for s, _ in sides)
    scale = [np.max(np.abs(s), axis=0) for s, _ in sides]
    steady = [np.abs(CUBIC @ s - QUADRATIC @ s) <= 1e-5 * m for (s, _), m in zip(sides, scale, strict=True)]
    agree = steady[0] & steady[1] & (np.abs(left - right) <= 1e-6 * np.maximum(*scale))
    alone = [steady[i] & sides[i][1].all(0) & ~sides[1 - i][1].any(0) for i in (0, 1)]
    found = np.select([agree, alone[0], alone[1]], [(left + right) / 2, left, right], np.nan)
    return found, np.select([agree, alone[0], alone[1]], [np.maximum(*scale), *scale], np.nan), agree


def main() -> None:
    """Compare every derivative to third order at every point, of these primitives or of all: minutes."""
    for primitive in sys.argv[1:] or rows():
        found = [line for c in compare(primitive, 3, points(primitive)) for line in c.wrong]
        sys.stdout.write("".join(f"{line}\n" for line in found or [f"{primitive}: as beside"]))


if __name__ == "__main__":
    main()
