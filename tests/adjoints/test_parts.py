"""Loops that are equal but for names: they become one function, where that gives the same values."""

import ast

import numba
import numpy as np
import pytest

import fgrad
from fgrad.adjoints.compact import compact
from fgrad.adjoints.parts import in_parts

LOOP = """
    for i in range({n}):
        t = {x}[i] * 2.0
        u = t + {y}[i]
        u = 0.1 * u * u
        for j in range({n}):
            v = u * j
            {total} = {total} + v
            {x}[j] = {x}[j] + 0.5 * v
"""


def text_of(*loops, before="", behind="    return a, b\n"):
    return f"def f(x, y, n, m):\n    a = 0.0\n    b = 1.0\n{before}{''.join(loops)}{behind}"


def loop(x="x", y="y", n="n", total="a"):
    return LOOP.format(x=x, y=y, n=n, total=total)


EQUAL = {
    "other arrays": (text_of(loop(), loop("y", "x", "m", "b")), 1),
    "the same sums": (text_of(loop(), loop("y", "x")), 1),
    "what a loop leaves is read": (
        text_of(loop(), loop("y", "x", "m", "b"), before="    u = 0.5\n", behind="    return a, b, u\n"), 1
    ),
    "inside of others": (
        text_of("    for k in range(2):" + loop().replace("\n", "\n    "), loop(total="b")), 1
    ),
    "three": (text_of(loop(), loop("y", "x", "m", "b"), loop("y", "y", "n", "a")), 1),
    "what comes from the turn before": (
        text_of(*["    for k in range(2):\n" + "\n".join("    " + s for s in LOOP.format(
            x=x, y=y, n="n", total="a").replace("t = ", "t = w + ").replace("v = u * j",
            "v = u * j\n            w = 0.01 * v").splitlines()) + "\n" for x, y in ("xy", "yx")],
            before="    w = 0.25\n"), 1,
    ),
}  # fmt: skip
APART = {
    "another constant": text_of(loop(), loop().replace("0.5", "0.25")),
    "another operation": text_of(loop(), loop().replace("u * j", "u + j")),
    "another function": text_of(loop(), loop().replace("x[i] * 2.0", "abs(x[i])")),
    "other names in one place": text_of(loop(), loop("y", "y").replace("y[j] + 0.5", "x[j] + 0.5")),
    "an array that grows": text_of(
        *[loop(n=n).replace("v = u * j", "sf = grown(sf, j)\n            v = u * j") for n in "nm"],
        before="    sf = np.empty(1)\n", behind="    return a, b, sf\n",
    ),
    "what is not yet assigned": text_of(
        *[loop(x).replace("t = ", "late = j\n        t = ") for x in "xy"], "    late = 1\n",
        behind="    return a, b, late\n", before="    j = 0\n",
    ),
    "short": text_of(*["    for i in range(n):\n        a = a + x[i]\n"] * 2),
}  # fmt: skip


def parted(text):
    function = compact(ast.parse(text).body[0], {"x", "y"})  # names that are assigned anew are others
    made = in_parts(function, {})
    return "\n".join(ast.unparse(ast.fix_missing_locations(f)) for f in made), len(made) - 1


def run(text):
    space = {
        "np": np,
        "part": lambda f: f,
        "inline_part": lambda f: f,
        "grown": lambda s, k: np.resize(s, k + 1),
    }
    exec(text, space)
    x, y = np.array([0.5, -0.3, 0.7]), np.array([0.2, 0.4, -0.1])
    return [*space["f"](x, y, 3, 2), x, y]


@pytest.mark.parametrize("name", EQUAL)
def test_equal_loops_are_one_function(name):
    text, count = EQUAL[name]
    found, made = parted(text)
    assert made == count
    for x, y in zip(run(found), run(text), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("name", APART)
def test_other_loops_stay(name):
    found, made = parted(APART[name])
    assert made == 0
    assert "part" not in found


@numba.njit
def spread(x, y):
    for i in range(x.shape[0]):
        t = 0.0
        for j in range(x.shape[0]):
            d = x[j] - x[i]
            t += 0.1 * d * np.sqrt(1.0 + d * d)
        y[i] = np.sin(t)


@numba.njit
def often(x):
    y, z = np.zeros_like(x), np.zeros_like(x)
    spread(x, y)
    spread(y, z)
    spread(z, y)
    return y.sum()


@numba.njit
def in_time(x, steps):
    y = np.zeros_like(x)
    for _ in range(steps):
        spread(x, y)
        for i in range(x.shape[0]):
            x[i] += 0.1 * y[i]
        spread(x, y)
        for i in range(x.shape[0]):
            x[i] -= 0.2 * y[i]


def test_kernels_that_call_one_several_times():
    x = np.array([0.3, -0.2, 0.9, 1.4])
    slope = fgrad.grad(fgrad.differentiate(often))(x)
    for i in range(4):
        h = np.zeros(4)
        h[i] = 1e-5
        np.testing.assert_allclose(slope[i], (often(x + h) - often(x - h)) / 2e-5, rtol=1e-5)


@pytest.mark.parametrize("checkpoint", [True, 1, 3, 50])
def test_segments_that_run_twice_are_one_part(checkpoint):
    def slope(**options):
        run = fgrad.differentiate(in_time, **options)

        def loss(x):
            held = fgrad.tensor(x)
            run(held, 17)
            return (held**2).sum()

        return fgrad.grad(loss)(np.array([0.3, -0.2, 0.9]))

    np.testing.assert_array_equal(slope(checkpoint=checkpoint), slope())
