"""Small kernels, one for each phrase of the language that kernels may be written in, with arguments."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit, prange, vectorize

RNG = np.random.default_rng(11)
X = RNG.uniform(0.5, 1.5, 6)
Y = RNG.uniform(0.5, 1.5, 6)
A = RNG.uniform(0.5, 1.5, (4, 4)) + 3 * np.eye(4)
B = RNG.uniform(0.5, 1.5, (4, 3))
V = RNG.uniform(0.5, 1.5, 4)
Z = RNG.normal(size=5) + 1j * RNG.normal(size=5)
WHOLE = np.array([3, 0, 2, 2, 5, 1])
TABLE = np.array([0.5, 1.5, 2.5])
SCALE = 3.0


class State(NamedTuple):
    place: float
    speed: float


class Body(NamedTuple):
    place: np.ndarray
    mass: float


CASES = []


def case(*args):
    def keep(function):
        CASES.append((function, args))
        return function

    return keep


# ---- results ----------------------------------------------------------------------------------------------


@case(X)
def a_number(x):
    return x[0] * x[1]


@case(X)
def a_tuple_in_a_tuple(x):
    return x[0] ** 2, (x[1] * x[2], x * 2.0), np.sin(x[3])


@case(X, Y)
def nothing_but_writes(x, out):
    for i in range(len(x)):
        out[i] = x[i] * out[i]


@case(X, Y)
def writes_and_a_result(x, out):
    total = 0.0
    for i in range(len(x)):
        out[i] += x[i] ** 2
        total += out[i]
    return total


@case(X)
def an_argument_given_back(x):
    x[0] = x[1] * x[2]
    return x


# ---- arrays: in place, aliased, views ---------------------------------------------------------------------


@case(X)
def shifted_in_place(x):
    x[1:] = x[:-1] * 2.0
    return x[5]


@case(X)
def copied_onto_an_overlap(x):
    x[1:] = x[:-1]
    x[:-1] = x[1:]
    return np.sum(x**2)


@case(X)
def added_to_an_overlap(x):
    x[1:] += x[:-1] * 1.0
    return np.sum(x**2)


@case(X)
def a_view_of_what_is_written(x):
    tail = x[2:]
    back = x[::-1]
    x[3] = x[0] * tail[0]
    tail[1] *= back[0]
    return tail[1] * back[2]


@case(A)
def rows_and_columns(a):
    a[1] = a[0] * a[:, 1]
    a[:, 2] += a[3]
    column = a[:, 0]
    column[1:] = column[:-1] * a[0, 1:]
    return a[2, 2] * a[1, 0] * column[3]


@case(A)
def a_transposed_view(a):
    b = a.T
    b[0, 1] = b[1, 0] * b[2, 3]
    return a[1, 0] * a[0, 1]


@case(X)
def another_shape(x):
    m = x.reshape((2, 3))
    m[1, 0] = m[0, 2] * m[1, 1]
    n = np.reshape(x, (3, 2))
    return np.ravel(m)[3] * n[1, 1] + x[3]


@case(X)
def an_array_as_it_is(x):
    y = np.asarray(x)
    z = np.ascontiguousarray(y)
    z[0] = z[1] * z[2]
    return x[0] * y[0]


@case(X)
def the_real_part_of_a_real_array(x):
    y = x.real
    y[0] = y[1] * y[2]
    return x[0] * x[3]


@case(Z)
def parts_seen_through(z):
    real = z.real
    tail = z.imag[1:]
    before = real[0] * tail[0]
    z[0] = z[1] * z[2]
    z[1] = z[0] * z[3]
    return real[0] * tail[0] + before


@case(Z)
def loops_over_parts_that_they_change(z):
    total, k = 0.0, 0
    for v in z.real:
        total += v * v
        k += 1  # noqa: SIM113 -- as users do
        if k < 5:
            z[k] = z[k - 1] * 0.5 + z[k] ** 2
    for i, (a, b) in enumerate(zip(z.real, z.imag)):  # noqa: B905 -- Numba knows no `strict`
        total += a * b
        if i < 4:
            z[i + 1] *= a
    for at, v in np.ndenumerate(z.imag):
        total += v
        if at[0] < 4:
            z[at[0] + 1] = z[at[0]] * 2.0
    return total


@case(X)
def a_new_axis_seen_through(x):
    row = x[None, :]
    x[0] = x[1] * x[2]
    return np.sum(row * x[:, None])


@case(X)
def local_arrays(x):
    a = np.empty(3)
    b = np.zeros((2, 3))
    c = np.ones(3) * x[0]
    d = np.full(3, x[1])
    e = np.zeros_like(c)
    f = np.full_like(c, 2.0)
    for k in range(3):
        a[k] = x[k] * c[k]
        b[1, k] = a[k] * d[k]
        e[k] = b[1, k] + f[k]
    return np.sum(e * b[1])


@case(X)
def arrays_from_formulas(x):
    grid = np.linspace(x[0], x[1], 5)
    whole = np.arange(5)
    eye = np.eye(3)
    return np.sum(grid**2 * whole) + eye[1, 1] * x[2] + grid[4]


@case(X, Y)
def array_expressions(x, y):
    z = np.sin(x) * y + np.where(x > y, x, y * y)
    w = np.minimum(z, 2.0) / (1.0 + np.exp(-y))
    return w, np.sum(np.clip(x, 0.7, 1.2) * w)


@case(A)
def reductions(a):
    return (
        a.sum(), np.mean(a), np.max(a), a.min(), np.var(a[0]), a[1].std(), np.prod(a[2]),
        np.sum(a, axis=0), a.sum(axis=1), np.cumsum(a[3]), np.sum(a.T),
    )  # fmt: skip


@case(X)
def masks(x):
    x[x > 1.0] = x[0] * x[1]
    large = x[x < 1.2]
    x[x < 0.8] *= 2.0
    y = np.zeros_like(x)
    mask = x > 0.9
    y[mask] = x[mask] ** 2
    return np.sum(large**2) + np.sum(y * x)


@case(X, WHOLE)
def selections(x, at):
    y = x[at]
    x[at] = y * 2.0
    x[at[:2]] += y[0]
    return np.sum(y * x)


@case(X)
def lists_of_numbers(x):
    kept = [x[0], x[1] * x[2], 3]
    total = 0.0
    for v in kept:
        total += v * v
    for k in range(len(kept)):
        total *= kept[k]
    m = np.array([[x[0], x[1]], [x[2], 1.0]])
    return total + sum(kept) * min(kept) + m[0, 1] * m[1, 0] + np.array([x[3], 2.0])[0]


# ---- linear algebra ---------------------------------------------------------------------------------------


@case(A, B, V)
def products(a, b, v):
    c = a @ b
    return np.dot(v, a @ v) + np.sum(np.dot(c.T, v)) + np.sum(v @ a) + np.sum(np.outer(v, v) * a)


@case(A, V)
def systems(a, v):
    return np.linalg.solve(a, v), np.linalg.inv(a), np.linalg.det(a)


@case(A, B)
def many_right_sides(a, b):
    return np.sum(np.linalg.solve(a, b) ** 2)


@case(A)
def factors_and_norms(a):
    low = np.linalg.cholesky(a @ a.T)
    return low, np.linalg.norm(a), np.linalg.norm(a[0]), np.trace(a)


@case(A, V)
def powers_of_a_matrix(a, v):
    for _ in range(3):
        v = np.tanh(a @ v * 0.1)
    return np.sum(v**2)


@case(A, V)
def products_in_a_loop_with_a_branch(a, v):
    total = 0.0
    for k in range(3):
        w = np.dot(a, v)
        if w[k] > np.dot(v, v):  # noqa: SIM108 -- as users do
            v = w / np.linalg.norm(w)
        else:
            v = v + 0.1 * w
        total += v[k]
    return total


@case(X)
def an_array_and_the_one_before(x):
    y = x * 1.0
    gap = 1.0
    for _ in range(4):
        before = y
        y = np.cos(y) * x
        gap += np.max(np.abs(y - before)) * before[1]
    return gap * y[0]


@case(X)
def arrays_bound_in_branches(x):
    y = x * 1.0
    for k in range(4):
        if y[k] > 1.0:  # noqa: SIM108 -- Numba wants it so
            y = y * 0.5 + x
        else:
            y = y * x
        z = y
        if z[k] < 0.7:
            z = z + 1.0
        y = z * 1.1
    return np.sum(y)


@case(X, Y)
def what_overlaps_is_read_as_it_is_written(x, y):
    x += y[0] * x
    x *= x[2]
    y[:] -= x[1] * 0.5
    return np.sum(x * y)


# ---- loops ------------------------------------------------------------------------------------------------


@case(X)
def loops_over_what_they_change(x):
    total = 0.0
    for v in (x[0], x[1], x[2]):
        total += v * v
        x[1] = total * 5.0
        x[2] = 0.3 * v
    a, b = x[0], x[1]
    for v in [a, b, a * b]:
        b = b + v
        a = v * 2.0
        total *= v
    return total * a * b


@case(X, Y)
def loops_over_several_things(x, y):
    total = 0.0
    for i, (a, b) in enumerate(zip(x, y)):  # noqa: B905 -- Numba knows no `strict`
        total += a * b * i
    for (i, a), b in zip(enumerate(x, 2), y[::-1]):  # noqa: B905
        total += a * b * i
    for i, a in zip(range(5, 0, -2), x):  # noqa: B905
        total *= 1.0 + a * i
    for i, j in enumerate(range(2, 6)):
        total += x[i] * x[j]
    for i, a in enumerate((x[0], x[1])):
        total += a * a * i
        x[1] = 3.0 * a
    for a, b in zip((x[0], x[1]), (1.0, x[2])):  # noqa: B905
        total *= a + b
    return total


@case(X)
def loops_that_end_or_are_left(x):
    total = 0.0
    for i in range(len(x)):
        total += x[i] ** 2
        if total > 100.0:
            break
    else:
        total *= x[0]
    for i in range(3):
        for j in range(3):
            if x[j] > 1.2:
                break
            total += x[j]
        else:
            if x[i] < 0.7:
                continue
            total *= x[i]
            break
        total += 1.0
    else:
        return total * 2.0
    k = 0
    while k < 3:
        k += 1
        if x[k] > 5.0:
            return total
    else:
        total *= x[k]
    return total


@case(X)
def lists_that_become_arrays(x):
    i = 3
    y = np.array([x[i] ** 2 for i in range(len(x))])
    z = np.array([[x[i] * x[j] for j in range(3)] for i in range(2)])
    whole = np.array([2 * i for i in range(3)])
    largest = max([x[k] for k in range(3)])
    return y.sum() * y[0] + z.sum() * z[1, 2] * x[i] + sum([v * v for v in x]) * largest + x[whole].sum()


@case(X)
def loops_over_arrays(x):
    total = 0.0
    for v in x:
        total += v * v
    for k, v in enumerate(x):
        total *= 1.0 + k * v
    for v, w in zip(x[1:], x):  # noqa: B905 -- Numba knows no `strict`
        total += v * w
    return total


@case(A)
def loops_over_indices(a):
    total = 0.0
    for i, j in np.ndindex(a.shape):
        if i > j:
            continue
        total += a[i, j] ** 2
    for (i, j), v in np.ndenumerate(a):
        total += v * a[j, i]
        if total > 90.0:
            break
    return total


@case(A)
def loops_over_rows(a):
    total = 0.0
    for row in a:
        total += row[0] * row[1]
    return total


@case(X)
def a_while(x):
    v, k = x[0], 0
    while v < 10.0 and k < 50:
        v = v * x[1] + x[2]
        k += 1
    return v * k


@case(X)
def jumps(x):
    total = 0.0
    for i in range(len(x)):
        if x[i] > 1.4:
            break
        if x[i] < 0.6:
            continue
        j = 0
        while True:
            total += x[i] * x[j]
            j += 1
            if j > i:
                break
        if total > 100.0:
            return total * x[0]
    return total


@case(X)
def an_early_return(x):
    for i in range(len(x)):
        if x[i] * x[0] > 0.6:
            return x[i] ** 3
    return x[0]


@case(X, WHOLE)
def bounds_from_data(x, counts):
    total = 0.0
    for i in range(len(x)):
        for j in range(counts[i]):
            for k in range(j, counts[j]):
                total += x[i] * x[j] * x[k]
    return total


@case(X)
def steps(x):
    total = 0.0
    for i in range(5, -1, -2):
        x[i] = x[i] * x[0]
        total += x[i] ** 2
    for i in range(0, 6, 3):
        total *= x[i]
    return total


@case(X, 3)
def a_step_that_is_given(x, step):
    total = 0.0
    for i in range(0, len(x), step):
        total += x[i] ** 3
    return total


@case(X)
def a_variable_of_a_loop_behind_it(x):
    total = 0.0
    for i in range(3):
        total += x[i] ** 2
    return total * x[i]


@case(X)
def branches(x):
    a = x[0]
    if a > x[1]:
        b = a * a
    elif a > x[2]:
        b = x[1] * a
    else:
        b = x[2] ** 3
    c = b if b > 1.0 else x[3] * b
    if not (c > 0.2 and b < 5.0) or x[4] > 1.0:
        c *= b
    return c


# ---- numbers ----------------------------------------------------------------------------------------------


@case(X, 2, True)
def numbers_of_all_kinds(x, n, flag):
    k = n * 3 // 2 - (7 % n)
    bits = (k << 1) & 7 | 1
    total = x[k] * bits
    if flag and k != 0:
        total /= float(k)
    y = np.float32(0.5) * x[1] + int(x[2] * 2)
    return total * y + np.abs(-x[3]) ** n


@case(Z, 0.3 + 0.4j)
def complex_numbers(z, w):
    s = w
    for i in range(len(z)):
        s = s * z[i] + np.conj(w) / (1.0 + abs(z[i]) ** 2)
        if s.real > 4.0:
            s = complex(s.real * 0.5, s.imag)
    return s, abs(s), s.real * s.imag


@case(Z)
def complex_arrays(z):
    w = np.zeros(5, np.complex128)
    w[:] = z * np.exp(1j * z.real)
    w[1:] *= z[:-1]
    return np.sum(w), np.var(z), np.sum(np.abs(z) ** 2)


@case(X.astype(np.float32))
def single_precision(x):
    total = np.float32(0)
    for v in x:
        total += v * v
    return total


# ---- tuples -----------------------------------------------------------------------------------------------


@case((X, (2.0, Y)), Body(V, 1.5))
def tuples_and_named_ones(pair, body):
    x, (c, y) = pair
    t = (x[0] * c, y[1])
    a, b = t
    a, b = b, a * b
    total = 0.0
    for v in t:
        total += v
    for k in range(len(body.place)):
        total += body.place[k] * body.mass * pair[1][0]
    return total * a * b * t[0]


@case(X, State(0.5, 1.5))
def tuples_bound_anew(x, state):
    pair = (0, 1.0)
    whole = ((x[0], 0.0), 1.0)
    k = 0
    while k < 5:
        k += 1
        if x[k] > 1.3:
            continue
        pair = (pair[1] * 0.5, pair[0] + x[k])
        before = pair
        for v in pair:
            pair = (pair[1], v * pair[0] * 0.3)
        (a, b), c = whole
        whole = ((b + x[k], a * c), c * 1.1)
        state = State(state.speed * 0.5 + x[k], state.place * state.speed)
        if state.place > 1.2:
            state = State(speed=state.speed, place=state.place * 0.5)
        if pair[0] > 3.0:
            break
    return pair[0] * pair[1] * before[0], whole, state


@case(X)
def named_tuples_that_are_made(x):
    body = Body(x * 2.0, x[0])
    body.place[0] = body.mass * 3.0
    other = Body(mass=body.place.sum(), place=body.place)
    return other.mass * other.place[0], other


@case(X)
def sums_that_start_somewhere(x):
    return sum(x, 10.0) * x[0] * sum([x[1], x[2]], x[3])


@case(X, 7)
def quotients_with_remainders(x, n):
    q, r = divmod(n, 3)
    a, b = divmod(x[0] * 5.0, 0.7)
    return x[q] * r + b * a * x[1]


@case(A)
def elements_in_the_order_of_rows(a):
    return np.prod(a[:3, :3]) * np.cumsum(a.T)[5] * max(a[0]) * min(a[1, 1:])


# ---- other functions --------------------------------------------------------------------------------------


@njit
def halved(x, k):
    x[k] = x[k] * 0.5
    return x[k]


@njit
def polynomial(t, a=2.0, b=1.0):
    if t < 1.0:
        return a * t
    return a * t**2 + b


@njit
def applied(function, x, k):
    return x[k] + function(x, k)


@vectorize
def squashed(x, s):
    if x > 1.0:
        return s * math.log(x)
    return x - 1.0


@case(X)
def calls_that_write(x):
    total = x[0] + halved(x, 0)
    x[1] += halved(x, 1)
    return total + polynomial(b=halved(x, 2), t=x[2]) + applied(halved, x, 3) + x[3]


@case(X, Y)
def ufuncs(x, y):
    return np.sum(squashed(x, y)) * squashed(x[0], 2.0)


@case(X)
def constants_from_outside(x):
    return x[0] * SCALE + x[1] * TABLE[2] + math.pi * x[2] + np.sum(TABLE * x[:3])


@case(X, Y)
def loops_side_by_side(x, y):
    total = 0.0
    least = 10.0
    for i in prange(len(x)):
        y[i] = x[i] * x[(i + 1) % 6]
        total += y[i] ** 2
        least = min(least, x[i])
    return total * least


@case(X)
def asserts_and_prints(x):
    assert x[0] > 0
    if x[0] > 1e9:
        print("large", x[0])  # noqa: T201 -- as users do
    return x[0] ** 2


@case(A, X[:3])
def differences_and_arrays_side_by_side(a, x):
    d = np.diff(a)
    c = np.concatenate((d, a[:, :2] * 2.0, a), axis=1)
    x[0] = 3.0 * x[1]
    y = np.concatenate((x, np.diff(c[1], 2), x[::-1]))
    x[1] = 0.0
    return np.sum(c * c) * np.sum(y * y)


@case(X)
def a_loop_variable_that_is_bound_anew(x):
    table = np.zeros((5, 5))
    for i in range(4):
        for j in range(4):
            table[i + 1, j + 1] = max(table[i, j] + x[i], table[i, j + 1])
    i = j = 4
    total = 0.0
    while i > 0 and j > 0:
        if table[i - 1, j] > table[i, j - 1]:
            i -= 1
        else:
            j -= 1
        total += table[i, j] * x[i]
    return total + table[4, 4]


# ---- recursion --------------------------------------------------------------------------------------------


@njit
def factorial(x, n):
    if n == 0:
        return 1.0
    return x * factorial(x, n - 1)


@njit
def fibonacci(x, n):
    if n < 2:
        return x[n]
    return fibonacci(x, n - 1) * 0.7 + x[n] * fibonacci(x, n - 2)


@njit
def visited(tree, node, x, out):
    """Return the product over a tree of the values at its nodes, and note each on the way."""
    total = x[node]
    for k in range(2):
        child = tree[node, k]
        if child < 0:
            continue
        total *= visited(tree, child, x, out)
        if total > 50.0:
            return total
    out[node] += total * x[node]
    return total


@njit
def halves(x, first, last):
    if last - first == 1:
        return x[first], x[first] ** 2
    middle = (first + last) // 2
    a, b = halves(x, first, middle)
    c, d = halves(x, middle, last)
    return a * c, b + d


@njit
def simpson(a, b, c, depth):
    m = 0.5 * (a + b)
    whole = (b - a) / 6.0 * (math.sin(c * a) + 4.0 * math.sin(c * m) + math.sin(c * b))
    if depth == 0 or abs(b - a) < 0.3:
        return whole
    return simpson(a, m, c, depth - 1) + simpson(m, b, c, depth=depth - 1)


@njit
def countdown(x, n):
    if n == 0:
        return
    x[n] *= x[n - 1]
    countdown(x, n - 1)
    x[n - 1] += x[n] * 0.5


TREE = np.array([[1, 2], [3, -1], [-1, 4], [-1, -1], [5, -1], [-1, -1]])


@case(X[0], 5)
def a_tail_of_products(x, n):
    return factorial(x, n)


@case(X)
def two_calls(x):
    return fibonacci(x, 5) ** 2


@case(TREE, X, Y)
def a_walk_over_a_tree(tree, x, out):
    return visited(tree, 0, x, out) * out[3]


@case(X)
def tuples_from_calls(x):
    product, squares = halves(x, 0, len(x))
    return product * squares


@case(0.3, 2.0, 1.7)
def adaptive_quadrature(a, b, c):
    return simpson(a, b, c, 4)


@case(X)
def a_recursion_that_writes(x):
    countdown(x, 5)
    return np.sum(x * x)


# ---- names, and the order of what is evaluated ------------------------------------------------------------


@case(X, 4)
def a_bound_that_the_loop_changes(x, n):
    total = 1.0
    for i in range(n):
        n = 2
        total = total * x[i] + n
    return total * n


@njit
def with_a_bound_that_changes(x, n):
    total = 1.0
    for i in range(n):
        n = i
        total = total * x[i] + n
    return total * n


@case(X, 4)
def a_call_whose_argument_is_assigned(x, n):
    return with_a_bound_that_changes(x, n) * with_a_bound_that_changes(x, 3)


@case(X, 5)
def lengths_of_parameters_that_are_assigned(x, n):
    y = np.zeros(n)
    view = x[1:n]
    n = 3
    view[0] = x[n] * n
    for i in range(len(y)):
        y[i] = x[i] * n
    return y * view.sum()


@case(A, 1)
def a_row_whose_number_is_assigned(a, i):
    row = a[i]
    i = 0
    row[0] = a[i, 1] * 3.0
    return a[1, 0] * row[1]


@case(X)
def names_of_flags(x):
    left_1, skipped_1, returned_, result_ = x[0] * 2.0, x[1], x[2] ** 2, 1.0
    for i in range(len(x)):
        if x[i] > 50.0:
            return x[i]
        if x[i] < 0.8:
            if x[i] > 0.5:
                continue
            result_ += 1.0
        if result_ > 30.0:
            break
        result_ += x[i] * left_1 * skipped_1
        skipped_1 *= x[i]
    return result_ * returned_ + left_1


@njit
def with_names_of_a_recursion(x, at_, depth_, stack_x):
    if depth_ <= 0:
        return x * at_
    value_ = x * stack_x
    at = with_names_of_a_recursion(value_, at_ + x, depth_ - 1, stack_x)
    k_1_ = at * 2.0
    return k_1_ * value_ + at * at


@case(0.7, 1.1, 3, 0.9)
def names_of_a_recursion(x, a, n, scale):
    return with_names_of_a_recursion(x, a, n, scale)


@njit
def doubled_at(x, i):
    x[i] *= 2.0
    return i


@case(X, A)
def a_value_before_the_index_that_changes_it(x, a):
    x[doubled_at(x, 0)] = x[0]
    y = np.zeros(2)
    y[doubled_at(x, 1)] = x[1]
    a[int(x[2] * 0.0), doubled_at(x, 2)] = x[2]
    return x[0] * x[1] * y[1] + a[0, 2] * x[2]


@case(X, np.array([1, 0, 2]))
def places_from_the_end_of_a_tuple(x, places):
    numbers, counts = (x[0], x[1] * 2.0, x[2]), (1, 2, 3)
    total = 0.0
    for i in places:
        total += numbers[i] * counts[-1 - i] + numbers[~i]
    return total


@case(X, 0)
def numbers_that_and_and_or_choose(x, n):
    total = (n or 3) * x[0] + (n and 5) * x[1] + (x[2] or x[3]) + (x[0] and x[1])
    for i in range(3):
        if (i or n) and not (i and x[i] > 0.5):
            total += x[i] ** 2
        total *= (x[i] > 5.0 or x[i]) + ((i and x[0]) or x[1])
    return total


@case(A, 1)
def a_new_axis_on_one_element(a, i):
    one, other = a[i, i, None], a[0, i, None]
    i = 2
    a[1, 1] = 5.0 * a[0, 0]
    return one * a[i, i] + other
