"""A slow stand-in for fgrad's managers, exact in every order: numbers are polynomials in nilpotent variables.

Each recording of a manager gives every element that it follows a variable, and the product of any two
variables of one recording is zero. The cotangent of an element is then the coefficient of its variable, which
is a polynomial in the variables of the other recordings, so higher derivatives follow without any rule. With
integers nothing is ever rounded. NumPy computes with arrays of such objects, in-place writes and views
included. This generalises dual numbers: the algebras are those of jets, which André Weil introduced.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

Variable = tuple[int, int, tuple[int, ...]]  # its recording, the number of a leaf, and the place in that
Monomial = frozenset[Variable]
ONE: Monomial = frozenset()


class Polynomial:
    """A sum of integers times products of variables; compared by its constant term."""

    __slots__ = ("terms",)
    __hash__ = None
    shape = ()
    ndim = 0

    def __init__(self, terms: dict[Monomial, int]) -> None:
        self.terms = terms

    @staticmethod
    def of(x: Any) -> Polynomial:
        x = x[()] if isinstance(x, np.ndarray) else x
        if isinstance(x, Polynomial):
            return x
        if int(x) != x:
            raise ValueError("integers only, which are not rounded")
        return Polynomial({ONE: int(x)})

    @staticmethod
    def variable(v: Variable) -> Polynomial:
        return Polynomial({frozenset([v]): 1})

    def __add__(self, other: Any) -> Polynomial:
        if isinstance(other, np.ndarray):
            return NotImplemented
        terms = dict(self.terms)
        for monomial, c in Polynomial.of(other).terms.items():
            terms[monomial] = terms.get(monomial, 0) + c
        return Polynomial(terms)

    def __mul__(self, other: Any) -> Polynomial:
        if isinstance(other, np.ndarray):
            return NotImplemented
        terms: dict[Monomial, int] = {}
        factors = Polynomial.of(other).terms.items()
        for a, c in self.terms.items():
            recordings = {v[0] for v in a}
            for b, d in factors:
                if not any(v[0] in recordings for v in b):
                    terms[a | b] = terms.get(a | b, 0) + c * d
        return Polynomial(terms)

    def __neg__(self) -> Polynomial:
        return self * -1

    def __pos__(self) -> Polynomial:
        return self

    def __sub__(self, other: Any) -> Polynomial:
        return NotImplemented if isinstance(other, np.ndarray) else self + -Polynomial.of(other)

    def __rsub__(self, other: Any) -> Polynomial:
        return Polynomial.of(other) - self

    def __pow__(self, n: int) -> Polynomial:
        power = Polynomial.of(1)
        for _ in range(n):
            power = power * self
        return power

    __radd__ = __add__
    __rmul__ = __mul__

    def sum(self, **_: Any) -> Polynomial:
        """Return itself: `np.sum` asks for it."""
        return self

    def reshape(self, *shape: Any) -> Array:
        return array(self).reshape(*shape)

    def value(self) -> int:
        return self.terms.get(ONE, 0)

    def has(self, v: Variable) -> bool:
        return any(v in monomial for monomial in self.terms)

    def depends_on(self, recording: int) -> bool:
        return any(v[0] == recording for monomial in self.terms for v in monomial)

    def coefficient(self, v: Variable) -> Polynomial:
        return Polynomial({monomial - {v}: c for monomial, c in self.terms.items() if v in monomial})

    def without(self, is_hidden: Callable[[Variable], bool]) -> Polynomial:
        """Return the terms in which no variable is hidden."""
        return Polynomial({m: c for m, c in self.terms.items() if not any(map(is_hidden, m))})

    def __eq__(self, other: object) -> bool:
        return self.value() == Polynomial.of(other).value()

    def __bool__(self) -> bool:
        return self.value() != 0


class Array(np.ndarray[Any, Any]):
    """An array of polynomials, with a gradient as a Tensor has it."""

    grad: Array | None = None

    def __setitem__(self, index: Any, x: Any) -> None:
        is_number = isinstance(x, np.ndarray) and x.ndim == 0  # NumPy would store the 0-d array itself
        super().__setitem__(index, x.view(np.ndarray)[()] if is_number else x)

    def detach(self) -> Array:
        return mapped(lambda p: Polynomial.of(p.value()), self)

    def __deepcopy__(self, _: Any) -> Array:
        copy = self.detach()
        copy.grad = None if self.grad is None else self.grad.detach()
        return copy


def array(x: Any) -> Array:
    """Return a new array of polynomials."""
    return mapped(lambda p: p, x)


def mapped(f: Callable[[Polynomial], Polynomial], x: Any) -> Array:
    """Return `f` of each element."""
    elements = np.asarray(x, object)
    out = np.empty(elements.shape, object)
    for i in np.ndindex(elements.shape):
        out[i] = f(Polynomial.of(elements[i]))
    return out.view(Array)


def values(x: Any) -> np.ndarray[Any, Any]:
    """Return the constant terms."""
    return np.array([Polynomial.of(p).value() for p in np.asarray(x, object).flat], float).reshape(
        np.shape(x)
    )


def variables(recording: int, leaf: int, shape: tuple[int, ...]) -> Array:
    """Return an array of as many variables."""
    out = np.empty(shape, object)
    for i in np.ndindex(shape):
        out[i] = Polynomial.variable((recording, leaf, i))
    return out.view(Array)


def memory(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array that owns the elements of a view."""
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x


class Oracle:
    """What a program knows as `fg`.

    Args:
        names: what the names of the program stand for; what they hold forgets the variables of a recording
            that ends.
    """

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self.level = 0
        self.numbers = itertools.count(1)
        self.open: dict[int, int] = {}  # recordings, with their levels

    def start(self, level: int | None = None) -> int:
        """Return a new recording, above all others or at a level."""
        if level is None:
            self.level += 1
        recording = next(self.numbers)
        self.open[recording] = self.level if level is None else level
        return recording

    def end(self, recording: int) -> None:
        """Let all arrays forget a recording, so that polynomials stay small."""
        del self.open[recording]
        arrays = [x for x in self.names.values() if isinstance(x, Array)]
        arrays += [x.grad for x in arrays if x.grad is not None]
        for owner in {id(m): m for m in map(memory, arrays)}.values():
            for i in np.ndindex(owner.shape):
                owner[i] = Polynomial.of(owner[i]).without(lambda v: v[0] == recording)
        for name, x in self.names.items():
            if isinstance(x, Polynomial):
                self.names[name] = x.without(lambda v: v[0] == recording)

    def is_hidden(self, recording: int) -> Callable[[Variable], bool]:
        """Return which variables a cotangent does not see: of its level, of higher ones, of the past."""
        level = self.open[recording]
        return lambda v: self.open.get(v[0], level) >= level

    def GradManager(self) -> Manager:
        return Manager(self)

    def tensor(self, x: Any) -> Array:
        return array(x)

    def stop_gradient(self, x: Any) -> Array:
        return array(x).detach()

    def jit(self, f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: f(*map(array, args))

    checkpoint = jit

    def vmap(self, f: Callable[..., Any]) -> Callable[..., Any]:
        def mapped_over_rows(*args: Any) -> Array:
            rows = [array(f(*map(array, row))) for row in zip(*args, strict=True)]
            return array(np.stack(rows))

        return mapped_over_rows

    def grad(self, f: Callable[[Any], Any]) -> Callable[[Any], Array]:
        def gradient(x: Any) -> Array:
            recording = self.start()
            is_hidden = self.is_hidden(recording)
            places = variables(recording, 0, np.shape(x))
            y = Polynomial.of(f(array(array(x) + places)))
            out = np.empty(places.shape, object)
            for i in np.ndindex(out.shape):
                out[i] = y.coefficient((recording, 0, i)).without(is_hidden)
            self.end(recording)
            return out.view(Array)

        return gradient

    def jvp(self, f: Callable[..., Any], primals: Iterable[Any], tangents: Iterable[Any]) -> tuple[Any, Any]:
        recording = self.start()
        v = recording, 0, ()
        step = Polynomial.variable(v)
        args = [array(x + array(t) * step) for x, t in zip(primals, tangents, strict=True)]
        y = array(f(*args))
        self.end(recording)
        return mapped(lambda p: p.without(lambda w: w == v), y), mapped(lambda p: p.coefficient(v), y)


class Manager:
    """What a program knows as a GradManager."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.recording: int | None = None
        self.attached: list[tuple[Array, list[Callable[..., Any]]]] = []
        self.leaves: list[tuple[Array, int]] = []  # with their numbers

    def callbacks(self, x: Array) -> list[Callable[..., Any]] | None:
        return next((callbacks for t, callbacks in self.attached if t is x), None)

    def attach(self, tensors: Any, callback: Callable[..., Any] | None = None) -> Manager:
        for x in [tensors] if isinstance(tensors, Array) else tensors:
            if self.callbacks(x) is None:
                self.attached.append((x, []))
            self.callbacks(x).extend([callback] if callback else [])
            if self.recording is not None and not any(t is x for t, _ in self.leaves):
                self.follow(x)
        return self

    def detach(self, x: Array) -> Manager:
        self.attached = [(t, callbacks) for t, callbacks in self.attached if t is not x]
        self.leaves = [(t, leaf) for t, leaf in self.leaves if t is not x]
        return self

    def follow(self, x: Array) -> None:
        leaf = next(self.oracle.numbers)
        x[...] = x + variables(self.recording, leaf, x.shape)
        self.leaves.append((x, leaf))

    def record(self, level: int | None = None) -> None:
        if self.recording is not None:
            raise RuntimeError("it records already")
        self.recording = self.oracle.start(level)
        for x, _ in self.attached:
            self.follow(x)

    def release(self) -> None:
        if self.recording is not None:
            self.oracle.end(self.recording)
        self.recording, self.leaves = None, []

    def backward(self, ys: Any = (), dys: Any = None) -> None:
        is_hidden = self.oracle.is_hidden(self.recording)
        is_one = not isinstance(ys, list | tuple)
        ys = [ys] if is_one else ys
        dys = [None] * len(ys) if dys is None else [dys] if is_one else dys
        seeds = [
            (Polynomial.of(y), Polynomial.of(dy).without(is_hidden))
            for pair in zip(ys, dys, strict=True)
            for y, dy in seeded(*pair)
        ]
        found = []
        for x, leaf in self.leaves:
            of = variables(self.recording, leaf, x.shape)
            places = [next(iter(monomial)) for p in of.ravel() for monomial in p.terms]
            if not any(y.has(v) for v in places for y, _ in seeds):
                continue  # nothing depends on it, and no callback is asked
            g = np.empty(x.size, object)
            for i, v in enumerate(places):
                g[i] = sum((y.coefficient(v).without(is_hidden) * dy for y, dy in seeds), Polynomial({}))
            g = g.reshape(x.shape).view(Array)
            for callback in self.callbacks(x) or []:
                new = callback(x, g)
                g = g if new is None else new
            found.append((x, g))
        sums = [(x, g if x.grad is None else x.grad + g) for x, g in found]
        sums = [(x, mapped(lambda p: p.without(is_hidden), g)) for x, g in sums]
        self.release()
        for x, g in sums:
            x.grad = g

    def __or__(self, other: Manager) -> Group:
        return Group([self]) | other


def seeded(y: Any, dy: Any) -> Iterable[tuple[Any, Any]]:
    """Return each element of an output with its cotangent, which is one where none is given."""
    y = np.asarray(y, object)
    dy = np.broadcast_to(np.asarray(1 if dy is None else dy, object), y.shape)
    return [(y[i], dy[i]) for i in np.ndindex(y.shape)]


class Group:
    """Managers that record at one level: the gradients of none see the variables of another."""

    def __init__(self, managers: Sequence[Manager]) -> None:
        self.managers = list(managers)

    def __or__(self, other: Manager) -> Group:
        return Group([*self.managers, other])

    def record(self) -> None:
        if any(manager.recording is not None for manager in self.managers):
            raise RuntimeError("one of them records already")
        self.managers[0].record()
        for manager in self.managers[1:]:
            manager.record(self.managers[0].oracle.level)

    def release(self) -> None:
        for manager in self.managers:
            manager.release()
