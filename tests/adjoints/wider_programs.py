"""Random kernels with more of the language: matrices, complex numbers, integers, calls that write, masks."""

from __future__ import annotations

from tests.adjoints.random_programs import HEAD, N, Program

ROWS = 4
WIDER_HEAD = (
    HEAD
    + """@njit
def write(a, k, v):
    a[k] = 0.6 * a[k] * v + 0.1
    return a[k] - v


@njit
def descend(v, depth, a):
    if depth == 0:
        return v * a[0]
    left = descend(0.7 * v + 0.1, depth - 1, a)
    if v > 0.2:
        return left * 0.5 + a[depth]
    total = 0.0
    for k in range(2):
        total += 0.4 * descend(v - 0.3 * k, max(depth - 2, 0), a) * left
    return total


"""
)


class WiderProgram(Program):
    """A random kernel of x, y, z, a matrix m, complex w, integers n, and the numbers p and q."""

    def row(self):
        r = self.r
        return r.choice([str(r.randrange(ROWS)), *(f"{v} % {ROWS}" for v in (*self.loops, *self.ints))])

    def array(self):
        return self.r.choice(["x", "y", "z", *self.views])

    def idx(self):
        if self.r.random() < 0.1:
            return f"n[{super().idx()}] % {N}"
        return super().idx()

    def leaf(self):
        r = self.r
        k = r.random()
        if k < 0.12:
            return f"m[{self.row()}, {self.idx()}]"
        if k < 0.17:
            return r.choice([f"w[{self.idx()}].real", f"(w[{self.idx()}] * np.conj(w[{self.idx()}])).imag"])
        if k < 0.2 and self.ints:
            return f"(0.1 * {r.choice(self.ints)})"
        return super().leaf()

    def cond(self):
        r = self.r
        if r.random() < 0.15:
            return f"n[{self.idx()}] {r.choice(['<', '>', '=='])} {r.randrange(4)}"
        if r.random() < 0.1:
            return f"({super().cond()} {r.choice(['and', 'or'])} not {super().cond()})"
        return super().cond()

    def stmt(self, ind, depth, inloop):
        if self.r.random() < 0.5:
            super().stmt(ind, depth, inloop)
            return
        self.budget -= 1
        r = self.r
        self.nv += 1
        new = f"t{self.nv}"
        leaf, a, b = self.leaf(), self.array(), self.array()
        scalar = r.choice(self.scal)
        row, i, j = self.row(), self.idx(), self.idx()
        kinds = [
            f"m[{row}, {i}] = {self.expr(1)}",
            f"m[{row}, {i}] {r.choice(['+=', '*=', '-='])} {self.expr(2)}",
            f"m[{row}] = 0.5 * m[{self.row()}] * {leaf} + {a}",
            f"m[1:, {i}] += m[:-1, {j}] * {leaf}",
            f"{r.choice('xyz')} += m[{row}] * {leaf}",
            f"m *= {leaf}",
            f"m[:, 2:5] = np.sin(m[:, 0:3] + {leaf})",
            f"{scalar} = np.sum(m[{row}] * {a}) * 0.2 + np.max({b})",
            f"{scalar} = m.mean() + np.sum(m, axis=0)[{i}] * 0.1",
            f"x[0:4] = 0.2 * (m[:, 0:4] @ {a}[0:4])",
            f"{scalar} = np.linalg.norm({a}) * 0.3",
            f"w[{i}] = w[{j}] * complex({leaf}, {self.leaf()}) * 0.5",
            f"w[1:] += w[:-1] * {leaf}",
            f"w *= np.exp(1j * {leaf})",
            f"{scalar} = 0.3 * abs(w[{i}] + 2.0) + w[{j}].imag",
            f"{scalar} = {leaf} + write({a}, {i}, {self.leaf()})",
            f"{a}[{i}] += write({b}, {j}, {self.leaf()})",
            f"{scalar} = {a}[{i}] * write({a}, {i}, {leaf}) + {a}[{i}]",
            f"{scalar} = descend({leaf}, {r.randint(1, 3)}, {r.choice('xyz')})",
            f"n[{i}] = (n[{j}] * {r.randint(1, 3)} + 1) % 5 - n[{i}] // 2",
            f"{a}[{b} > {leaf}] = {self.leaf()}",
            f"{a}[{b} < {leaf}] *= 0.5 + {self.leaf()} ** 2",
            f"{scalar} = np.sum({a}[{b} > {leaf}]) * 0.3",
            f"{a}[n % {N}] = {b} * 0.5 + {leaf}",
            f"p, q = q, p * 0.9 + {leaf}",
            f"{scalar} = np.sum(np.where({a} > {leaf}, {a} * {b}, {b})) * 0.2",
            f"{scalar} = np.array([{leaf}, {self.leaf()}, {scalar}])[n[{i}] % 3]",
        ]
        k = r.random()
        if k < 0.1:
            self.emit(f"{new} = (n[{i}] * 3 + {r.randrange(5)}) // 2 % {N}", ind)
            self.ints.append(new)
        elif k < 0.2:
            self.emit(f"{new} = {r.choice([f'm[{row}]', f'm[:, ::-1][{row}]', f'm.T[:, {row}]'])}", ind)
            self.views.append(new)
        else:
            self.emit(r.choice(kinds), ind)

    def text(self):
        self.block(1, 0, False, self.r.randint(3, 7))
        body = "\n".join(self.lines)
        tail = f"    return {self.expr(1)} + np.sum(w).real + np.sum(m * m) + n[0]\n"
        return f"def prog(x, y, z, m, w, n, p, q):\n{body}\n{tail}"
