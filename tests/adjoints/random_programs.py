"""Random kernels as source text."""

from __future__ import annotations

import random


class Program:
    """A random kernel: loops, branches, jumps, overwrites, views."""

    def __init__(self, seed):
        self.r = seed if isinstance(seed, random.Random) else random.Random(seed)
        self.lines = []
        self.nv = 0
        self.budget = self.r.randint(4, 12)
        self.scal = ["p", "q"]
        self.loops = []
        self.ints = []
        self.views = []

    def idx(self):
        r = self.r
        opts = [str(r.randrange(N))]
        for v in self.loops:
            opts += [v, f"({v} + {r.randint(1, 2)}) % {N}", f"{v} - {r.randint(0, 1)}", f"{N - 1} - {v}"]
        for v in self.ints:
            opts.append(f"{v} % {N}")
        return r.choice(opts)

    def leaf(self):
        r = self.r
        k = r.random()
        if k < 0.4:
            return r.choice(self.scal)
        if k < 0.85:
            return f"{r.choice(['x', 'y', 'z', *self.views])}[{self.idx()}]"
        return f"{r.uniform(-1, 1):.2f}"

    def expr(self, d=0):
        r = self.r
        if d > 2 or r.random() < 0.3:
            return self.leaf()
        k = r.random()
        if k < 0.3:
            return f"({self.expr(d + 1)} {r.choice('+-')} {self.expr(d + 1)})"
        if k < 0.6:
            return f"0.7 * {self.expr(d + 1)} * {self.expr(d + 1)}"
        if k < 0.7:
            return f"math.sin({self.expr(d + 1)})"
        if k < 0.76:
            return f"np.tanh({self.expr(d + 1)})"
        if k < 0.82:
            return f"{self.expr(d + 1)} / (1.5 + {self.leaf()} ** 2)"
        if k < 0.88:
            return f"np.exp(-({self.leaf()}) ** 2)"
        if k < 0.92:
            return f"max({self.expr(d + 1)}, {self.leaf()})"
        if k < 0.96:
            return f"({self.expr(d + 1)} if {self.cond()} else {self.leaf()})"
        return f"helper({self.expr(d + 1)}, {self.leaf()})"

    def cond(self):
        r = self.r
        if self.loops and r.random() < 0.4:
            return f"{r.choice(self.loops)} {r.choice(['<', '>', '!='])} {r.randrange(N)}"
        return f"{self.leaf()} {r.choice('<>')} {self.leaf()}"

    def emit(self, s, ind):
        self.lines.append("    " * ind + s)

    def block(self, ind, depth, inloop, n=None):
        r = self.r
        save = (list(self.scal), list(self.ints), list(self.views))
        for _ in range(n or r.randint(1, 4)):
            self.stmt(ind, depth, inloop)
        if depth > 0:
            self.scal, self.ints, self.views = save

    def stmt(self, ind, depth, inloop):
        r = self.r
        k = r.random()
        self.budget -= 1
        if self.budget < 0:
            k = k * 0.55
        if k < 0.17:
            if r.random() < 0.5:
                self.nv += 1
                v = f"s{self.nv}"
                self.emit(f"{v} = {self.expr()}", ind)
                self.scal.append(v)
            else:
                self.emit(f"{r.choice(self.scal)} = {self.expr()}", ind)
        elif k < 0.27:
            self.emit(f"{r.choice(self.scal)} {r.choice(['+=', '-=', '*='])} {self.expr(2)}", ind)
        elif k < 0.42:
            self.emit(f"{r.choice(['x', 'y', 'z', *self.views])}[{self.idx()}] = {self.expr()}", ind)
        elif k < 0.52:
            self.emit(
                f"{r.choice(['x', 'y', 'z', *self.views])}[{self.idx()}] "
                f"{r.choice(['+=', '-=', '*='])} {self.expr(1)}",
                ind,
            )
        elif k < 0.55:
            c = r.random()
            if c < 0.3:
                self.emit(
                    f"{r.choice('xyz')}[1:] = {r.choice('xyz')}[:-1] * {self.leaf()} + {r.choice('xyz')}[1:]",
                    ind,
                )
            elif c < 0.5:
                self.emit(f"{r.choice('xyz')}[:] {r.choice(['+=', '*='])} {self.leaf()}", ind)
            elif c < 0.75:
                self.emit(f"{r.choice(self.scal)} = np.sum({r.choice('xyz')} * {r.choice('xyz')}) * 0.3", ind)
            else:
                self.emit(f"{r.choice('xyz')}[2:5] = np.sin({r.choice('xyz')}[0:3])", ind)
        elif k < 0.70 and depth < 3:
            self.nv += 1
            v = f"i{self.nv}"
            rng = r.choice(
                [
                    f"range({r.randint(1, 4)})",
                    f"range({r.randint(0, 2)}, {r.randint(2, 5)})",
                    f"range({r.randint(2, 4)}, -1, -1)",
                    f"range(0, {N}, 2)",
                ]
                + [f"range({u}, {r.randint(2, 5)})" for u in self.loops]
            )
            self.emit(f"for {v} in {rng}:", ind)
            self.loops.append(v)
            self.block(ind + 1, depth + 1, True)
            self.loops.pop()
        elif k < 0.76 and depth < 3:
            self.nv += 1
            v = f"w{self.nv}"
            self.emit(f"{v} = 0", ind)
            self.emit(f"while {v} < {r.randint(1, 4)} and {self.cond()}:", ind)
            self.emit(f"    {v} += 1", ind)
            self.ints.append(v)
            self.block(ind + 1, depth + 1, True)
        elif k < 0.90:
            self.emit(f"if {self.cond()}:", ind)
            self.block(ind + 1, depth + 1, inloop)
            if r.random() < 0.5:
                self.emit("else:", ind)
                self.block(ind + 1, depth + 1, inloop)
        elif k < 0.93 and inloop:
            self.emit(f"if {self.cond()}:", ind)
            self.emit("    " + r.choice(["break", "continue", "break", "return p * " + self.leaf()]), ind)
        elif k < 0.96:
            self.nv += 1
            v = f"v{self.nv}"
            self.emit(f"{v} = {r.choice('xyz')}[{r.choice(['::-1', ':', ':'])}]", ind)
            self.views.append(v)
        else:
            self.nv += 1
            v = f"a{self.nv}"
            self.emit(f"{v} = {r.choice([f'np.zeros({N})', 'x.copy()', 'y * 0.5', 'np.cos(z)'])}", ind)
            self.views.append(v)

    def text(self):
        self.block(1, 0, False, self.r.randint(3, 7))
        return "def prog(x, y, z, p, q):\n" + "\n".join(self.lines) + f"\n    return {self.expr(1)}\n"


N = 6
HEAD = """import math
import numpy as np
from numba import njit


@njit
def helper(a, b):
    if a > b:
        return a * b
    c = a - b
    return math.cos(c) * a


"""
