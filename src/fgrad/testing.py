"""Checks for authors: derivatives against differences, and a primitive in all its rules."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad import tree
from fgrad.core.aval import Aval, aval_of
from fgrad.core.dispatch import bind
from fgrad.core.primitive import PRIMITIVES, Primitive
from fgrad.core.tensor import Tensor, tensor
from fgrad.names import offered as _offered
from fgrad.transforms.forward import jvp, linearize
from fgrad.transforms.reverse import vjp
from fgrad.transforms.stage import make_graph
from fgrad.transforms.vmap import vmap

__all__ = ["check_grads", "check_primitive"]

MODES = {"fwd": "forward mode", "lin": "linearize", "rev": "reverse mode"}
EXAMPLES = 3  # along the axis that vmap adds

# Central differences with a step h lose h^2 to curvature and eps / h to rounding:
# h = cbrt(eps) balances them.
# fmt: off
STEPS = {
    # dtype    step   tolerance
    "float16": (1e-1, 1e-1),
    "float32": (5e-3, 5e-3),
    "float64": (6e-6, 1e-6),
}
# fmt: on

Leaves = list[Any]
Flat = Callable[..., Leaves]


class Tolerance(NamedTuple):
    """How long the steps of the differences are, and how far a derivative may be off."""

    eps: float
    atol: float
    rtol: float

    def allowed(self, size: Any) -> Any:
        """Return the error that is allowed in a value of absolute `size`."""
        return self.atol + self.rtol * size


class Flattened:
    """A function of pytrees as one from floating-point leaves to floating-point leaves, all with names."""

    leaves: list[Any]
    structure: Any
    places: list[int]
    xs: list[Any]
    title: Any | str
    inputs: list[str]
    kept: list[int]
    outputs: list[str]
    ys: list[Any]

    def __init__(self, f: Callable[..., Any], args: Sequence[Any]) -> None:
        self.f = f
        self.leaves, self.structure = tree.flatten(tuple(args))
        self.places = [i for i, x in enumerate(self.leaves) if _kind(x) in "fc"]
        self.xs = [_value(self.leaves[i]) for i in self.places]
        self.title = getattr(f, "__name__", None) or repr(f)
        if not self.places:
            raise TypeError(
                f"check_grads of {self.title}: none of the arguments holds floating-point numbers; "
                "give floats (1.0 instead of 1, x.astype(float))"
            )
        names = _names(self.structure, "args")
        self.inputs = [names[i] for i in self.places]
        out, structure = tree.flatten(self.call(*map(tensor, self.xs)))
        names = _names(structure, "out")
        self.kept = [i for i, y in enumerate(out) if _kind(y) in "fc"]
        self.outputs = [names[i] for i in self.kept]
        self.ys = [_value(out[i]) for i in self.kept]
        if not self.kept:
            raise TypeError(
                f"check_grads of {self.title}: no output holds floating-point numbers, there is no derivative"
            )

    def call(self, *xs: Any) -> Any:
        """Return `f` with `xs` in place of the floating-point leaves."""
        filled = list(self.leaves)
        for i, x in zip(self.places, xs, strict=True):
            filled[i] = x
        return self.f(*tree.unflatten(self.structure, filled))

    def flat(self, *xs: Any) -> Leaves:
        """Return the floating-point leaves of the output."""
        out = tree.leaves(self.call(*xs))
        return [out[i] if isinstance(out[i], Tensor) else tensor(out[i]) for i in self.kept]


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 1,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """Check the derivatives of `f` at `args` against central differences, up to `order`.

    Forward mode, and the linear map of `linearize`, are compared element by element along one random
    direction per argument leaf, reverse mode through the pairing Re sum(ct * tangent) with a random
    cotangent. Orders above the first check the derivative functions themselves, in their tangents and
    cotangents too.

    Args:
        f: takes and returns pytrees of real or complex arrays; leaves of other dtypes are held fixed.
        args: tuple or list of arguments; `f` must be smooth within `eps` of them.
        order: the highest derivative to check.
        modes: some of "fwd", "rev" and "lin".
        atol: absolute tolerance; None chooses by the narrowest dtype (1e-6 for float64).
        rtol: relative tolerance, likewise.
        eps: length of the difference steps, likewise (6e-6 for float64).

    Raises:
        AssertionError: a derivative is off; names the mode, order, worst leaf and index, and both values.
        TypeError: no argument or no output holds floating-point numbers.
        ValueError: an unknown mode, or an order below one.

    Convention:
        Complex derivatives are JAX's: the cotangent of z = a + bj is d/da - j d/db.

    Example:
        >>> check_grads(lambda x, y: np.sin(x) * y, (0.5, 2.0), order=2)
        >>> check_grads(lambda x: np.sin(x.detach()), (0.5,), modes=["rev"])
        Traceback (most recent call last):
        ...
        AssertionError: check_grads: reverse mode of <lambda> is wrong (order 1), worst at args[0]: ...
    """
    unknown = [m for m in ([modes] if isinstance(modes, str) else modes) if m not in MODES]
    if unknown or isinstance(modes, str):
        raise ValueError(f"modes is a sequence of 'fwd', 'rev' and 'lin', not {modes!r}")
    if order < 1:
        raise ValueError(f"order must be at least 1, not {order!r}")
    flattened = Flattened(f, args)
    step, tol = STEPS[_narrowest(flattened.xs + flattened.ys)]
    tolerance = Tolerance(
        step if eps is None else eps, tol if atol is None else atol, tol if rtol is None else rtol
    )
    task = _Task(flattened.flat, flattened.xs, flattened.inputs, flattened.outputs, flattened.title, 1)
    _check(task, flattened.ys, order, modes, tolerance, np.random.default_rng(20))


class _Task(NamedTuple):
    """A flat function at a point, and what messages call its parts."""

    f: Flat
    xs: Leaves
    inputs: Sequence[str]
    outputs: Sequence[str]
    title: str
    order: int

    def push(self, mode: str, values: Sequence[Any], tangents: Sequence[Any]) -> Leaves:
        """Return the tangents of the outputs at other primals, in one of the two modes that go forward."""
        if mode == "fwd":
            return list(jvp(self.f, tuple(values), tuple(tangents))[1])
        return list(linearize(self.f, *values)[1](*tangents))

    def pushed(self, mode: str, tangents: Leaves) -> _Task:
        """Return the map from primals and tangents to the tangents of the outputs."""
        n = len(self.xs)

        def push(*values: Any) -> Leaves:
            return self.push(mode, values[:n], values[n:])

        inputs = [*self.inputs, *(f"the tangent of {name}" for name in self.inputs)]
        outputs = [f"the tangent of {name}" for name in self.outputs]
        title = f"{'jvp' if mode == 'fwd' else 'linearize'} of {self.title}"
        return _Task(push, [*self.xs, *tangents], inputs, outputs, title, self.order + 1)

    def transposed(self, cts: Leaves) -> _Task:
        """Return the map from primals and cotangents to the cotangents of the inputs."""
        n = len(self.xs)

        def vjp_at(*values: Any) -> Leaves:
            _, pullback = vjp(self.f, *values[:n])
            return list(pullback(list(values[n:])))

        inputs = [*self.inputs, *(f"the cotangent of {name}" for name in self.outputs)]
        outputs = [f"the cotangent of {name}" for name in self.inputs]
        return _Task(vjp_at, [*self.xs, *cts], inputs, outputs, f"vjp of {self.title}", self.order + 1)

    def fails(self, mode: str, found: _Error, tolerance: Tolerance, along: str = "") -> AssertionError:
        """Return what to raise."""
        return AssertionError(
            f"check_grads: {MODES[mode]} of {self.title} is wrong (order {self.order}), worst at "
            f"{found.place}{along}: the rules give {found.actual}, differences give {found.expected} "
            f"(eps={tolerance.eps:.1e}, atol={tolerance.atol:.1e}, rtol={tolerance.rtol:.1e})"
        )


class _Error(NamedTuple):
    place: str
    actual: Any
    expected: Any


def _check(
    task: _Task, ys: Leaves, order: int, modes: Sequence[str], tolerance: Tolerance, rng: np.random.Generator
) -> None:
    tangents, cts = [_random(rng, x) for x in task.xs], [_random(rng, y) for y in ys]
    slopes = [_difference(task.f, task.xs, i, t, tolerance.eps) for i, t in enumerate(tangents)]
    for mode in ("fwd", "lin"):
        if mode in modes:
            _check_forward(task, mode, tangents, slopes, tolerance)
    if "rev" in modes:
        _check_reverse(task, tangents, slopes, cts, tolerance)
    if order == 1:
        return
    for mode in modes:
        derivative = task.transposed(cts) if mode == "rev" else task.pushed(mode, tangents)
        _check(derivative, _values(derivative.f, derivative.xs), order - 1, modes, tolerance, rng)


def _check_forward(
    task: _Task, mode: str, tangents: Leaves, slopes: list[Leaves], tolerance: Tolerance
) -> None:
    for i, (t, slope) in enumerate(zip(tangents, slopes, strict=True)):
        along = [t if k == i else np.zeros_like(x) for k, x in enumerate(task.xs)]
        pushed = task.push(mode, list(map(tensor, task.xs)), list(map(tensor, along)))
        found = _worst(list(map(_value, pushed)), slope, task.outputs, tolerance)
        if found:
            raise task.fails(mode, found, tolerance, f" along {task.inputs[i]}")


def _check_reverse(
    task: _Task, tangents: Leaves, slopes: list[Leaves], cts: Leaves, tolerance: Tolerance
) -> None:
    _, pullback = vjp(task.f, *map(tensor, task.xs))
    back = list(map(_value, pullback(list(map(tensor, cts)))))
    for i, (g, t, slope) in enumerate(zip(back, tangents, slopes, strict=True)):
        error = abs(_pairing([g], [t]) - _pairing(cts, slope))
        if not error <= tolerance.allowed(_size([g], [t]) + _size(cts, slope)):
            raise task.fails("rev", _located(task, i, g, cts, tolerance), tolerance)


def _values(f: Flat, xs: Leaves) -> Leaves:
    return [_value(y) for y in f(*map(tensor, xs))]


def _difference(f: Flat, xs: Leaves, i: int, t: Any, eps: float) -> Leaves:
    """Return the central difference of each output along the tangent `t` of the argument `i`."""
    ahead, behind = (_values(f, [*xs[:i], xs[i] + step * t, *xs[i + 1 :]]) for step in (eps, -eps))
    return [(a - b) / (2 * eps) for a, b in zip(ahead, behind, strict=True)]


def _located(task: _Task, i: int, g: Any, cts: Leaves, tolerance: Tolerance) -> _Error:
    """Return the element of the argument `i` where its cotangent `g` is furthest from differences."""
    worst, found = -1.0, _Error(task.inputs[i], "a wrong cotangent", "another one")
    units = [1, 1j] if g.dtype.kind == "c" else [1]
    for index in itertools.islice(np.ndindex(g.shape), 1000):
        expected: Any = 0
        for unit in units:
            t = np.zeros_like(g)
            t[index] = unit
            part = _pairing(cts, _difference(task.f, task.xs, i, t, tolerance.eps))
            expected += part if unit == 1 else -1j * part
        error = np.nan_to_num(abs(g[index] - expected), nan=np.inf)
        if error > worst:
            worst, found = error, _Error(_at(task.inputs[i], index), g[index], expected)
    return found


def _worst(actual: Leaves, expected: Leaves, names: Sequence[str], tolerance: Tolerance) -> _Error | None:
    """Return the element that is furthest beyond its tolerance."""
    worst, found = 1.0, None
    for a, e, name in zip(actual, expected, names, strict=True):
        with np.errstate(divide="ignore", invalid="ignore"):
            excess = np.where(a == e, 0, abs(a - e) / tolerance.allowed(abs(e)))
        excess = np.nan_to_num(excess, nan=np.inf)
        if excess.size and excess.max() > worst:
            worst = excess.max()
            index = np.unravel_index(excess.argmax(), excess.shape)
            found = _Error(_at(name, index), a[index], e[index])
    return found


def _pairing(cts: Sequence[Any], tangents: Sequence[Any]) -> float:
    return float(sum(np.real(np.sum(c * t)) for c, t in zip(cts, tangents, strict=True)))


def _size(cts: Sequence[Any], tangents: Sequence[Any]) -> float:
    return float(sum(np.sum(abs(c * t)) for c, t in zip(cts, tangents, strict=True)))


def _random(rng: np.random.Generator, like: Any) -> Any:
    values = rng.standard_normal(like.shape)
    if like.dtype.kind == "c":
        values = values + 1j * rng.standard_normal(like.shape)
    return np.asarray(values, like.dtype)


def _kind(x: Any) -> str:
    if isinstance(x, Tensor | np.ndarray | np.generic):
        return x.dtype.kind
    return "f" if isinstance(x, float) else "c" if isinstance(x, complex) else "O"


def _value(x: Any) -> Any:
    return x.numpy() if isinstance(x, Tensor) else np.array(x)


def _narrowest(values: Leaves) -> str:
    names = [np.empty(0, v.dtype).real.dtype.name for v in values]
    return next((name for name in STEPS if name in names), "float64")


def _names(structure: Any, root: str) -> list[str]:
    if isinstance(structure, tree.Plain):
        return [root + path for path in tree.paths(structure)]
    return [a.codify(root) for a in structure.accessors()]


def _at(name: str, index: Any) -> str:
    return f"{name}[{', '.join(map(str, map(int, index)))}]" if len(index) else name


# ---- one primitive of the table, column by column


def check_kernel(kernel: Any, *args: Any, order: int = 2) -> None:
    """Check the derivatives of a kernel of Numba at arguments, as `check_grads` does.

    Args:
        kernel: what `numba.njit` returns, or `fgrad.differentiate` of it.
        args: arrays and numbers; floating ones are moved a little, others held fixed. None is written to.
        order: the highest derivative to check.

    Raises:
        AssertionError: a derivative is off.
        UnsupportedKernelError: the kernel holds what has no derivative.

    Example:
        >>> import numba
        >>> @numba.njit
        ... def scaled(x, factor, out):
        ...     for i in range(len(x)):
        ...         out[i] = factor * x[i] ** 2
        >>> check_kernel(scaled, np.array([1.0, 2.0]), 3.0, np.zeros(2))
    """
    from fgrad.adjoints import differentiate  # noqa: PLC0415 -- late: it imports Numba

    function = differentiate(kernel)

    def outputs(*given: Any) -> Any:
        held = tuple([tensor(x) if np.ndim(x) else x for x in given])
        returned = function(*held)
        return returned, [x for x in held if x.__class__ is Tensor]

    check_grads(outputs, args, order=order)


def check_primitive(
    name: str,
    /,
    *args: Any,
    reference: Callable[..., Any] | None = None,
    order: int = 2,
    stops: bool = False,
    **params: Any,
) -> None:
    """Check all rules of one primitive at `args`.

    - `run`: what `reference` gives, in value, shape and dtype; narrow dtypes agree with float64 to rounding;
    - `vjp`: differences and Re sum(ct * J t) = Re sum(J^T ct * t), for every set of tracked arguments; a
      derivative that is declared to be zero is zero;
    - `batch`: vmap equals a loop, for every set of mapped arguments;
    - `shape`: the shapes and dtypes of `run`;
    - the traced primitive equals the eager one, and so does its traced derivative.

    Args:
        name: the name that `bind` takes.
        args: arrays, or Python numbers, which stay constants.
        reference: the function of NumPy that takes `args` and must agree.
        order: the highest derivative to check.
        stops: whether the primitive passes no gradient on although its value varies.
        params: the parameters of the primitive.

    Raises:
        AssertionError: a rule is wrong; the message names the primitive and the rule.

    Example:
        >>> check_primitive("sin", np.array([0.0, 1.0]), reference=np.sin, order=3)
        >>> check_primitive("sum", np.ones((2, 3)), axes=(1,), reference=lambda x: np.sum(x, 1))
    """
    check = _PrimitiveCheck(PRIMITIVES[name], args, params)
    check.run(reference)
    check.shape()
    check.vjp(order, stops=stops)
    check.batch()
    check.staged()


class _PrimitiveCheck:
    """The columns of one primitive at one point."""

    def __init__(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> None:
        self.primitive, self.args, self.params = primitive, args, params
        self.arrays = [i for i, a in enumerate(args) if isinstance(a, np.ndarray | np.generic)]
        self.floating = [i for i in self.arrays if args[i].dtype.kind in "fc"]
        self.outs = self._run(args)
        narrow = _narrowest([*(args[i] for i in self.floating), *self.outs])
        self.rounding = {"float16": 2e-2, "float32": 5e-5, "float64": 1e-11}[narrow]

    def fail(self, column: str, what: str) -> AssertionError:
        params = "".join(f", {k}={v}" for k, v in self.params.items())
        args = ", ".join(str(aval_of(a)) if i in self.arrays else repr(a) for i, a in enumerate(self.args))
        return AssertionError(
            f"check_primitive: {self.primitive.name}({args}{params}): {column} is wrong: {what}"
        )

    def _run(self, args: Sequence[Any]) -> Leaves:
        out = self.primitive.run(*args, **self.params)
        return [np.asarray(y) for y in (out if self.primitive.many else (out,))]

    def applied(self, where: Sequence[int]) -> Callable[..., Any]:
        """Return the primitive as a function of the arguments at `where`."""

        def call(*xs: Any) -> Any:
            filled = list(self.args)
            for i, x in zip(where, xs, strict=True):
                filled[i] = x
            return bind(self.primitive.name, *filled, **self.params)

        call.__name__ = self.primitive.name
        return call

    def same(self, column: str, actual: Any, expected: Any, rounding: float | None = None) -> None:
        """Demand equal shapes and dtypes, and equal values to rounding."""
        rounding = self.rounding if rounding is None else rounding
        if len(actual) != len(expected):
            raise self.fail(column, f"it gives {len(actual)} values, expected {len(expected)}")
        for a, e in zip(map(_value, actual), map(_value, expected), strict=True):
            if (a.shape, a.dtype) != (e.shape, e.dtype):
                raise self.fail(column, f"it gives {aval_of(a)}, expected {aval_of(e)}")
            largest = np.abs(e[np.isfinite(e)]).max(initial=1.0) if e.dtype.kind in "fc" else 0.0
            try:
                np.testing.assert_allclose(a, e, rtol=rounding, atol=rounding * largest)
            except AssertionError as error:
                raise self.fail(column, str(error)) from None

    def run(self, reference: Callable[..., Any] | None) -> None:
        """Compare with the reference, and narrow floating-point arguments with wide ones."""
        if reference is not None:
            expected = reference(*self.args)
            self.same("run", self.outs, expected if self.primitive.many else (expected,))
        wide = self.widened()
        if any(w is not a for w, a in zip(wide, self.args, strict=True)):
            for a, w in zip(self.outs, self._run(wide), strict=True):
                self.same("run", [a], [w.astype(a.dtype)])

    def widened(self) -> list[Any]:
        """Return the arguments with every float32 as float64 and every complex64 as complex128."""
        return [
            a.astype(np.result_type(a.dtype, np.float64), copy=False) if i in self.floating else a
            for i, a in enumerate(self.args)
        ]

    def shape(self) -> None:
        """Compare the `shape` column with `run`."""
        if self.primitive.shape is None:
            return
        avals = [aval_of(a) if i in self.arrays else a for i, a in enumerate(self.args)]
        found = self.primitive.shape(*avals, **self.params)
        for a, y in zip(found if self.primitive.many else (found,), self.outs, strict=True):
            if not isinstance(a, Aval) or a != aval_of(y):
                raise self.fail("shape", f"it says {a}, but run gives {aval_of(y)}")

    def vjp(self, order: int, *, stops: bool) -> None:
        """Check the derivative for every set of tracked arguments."""
        if not any(y.dtype.kind in "fc" for y in self.outs):
            return
        for where in _subsets(self.floating):
            xs = [self.args[i] for i in where]
            if self.primitive.real and any(x.dtype.kind == "c" for x in xs):
                self.refuses(where, xs)
            elif stops:
                self.is_zero(where, xs)
            else:
                self.differentiates(where, xs, order)

    def refuses(self, where: Sequence[int], xs: Leaves) -> None:
        """Demand that complex arguments of a primitive with real slopes raise."""
        try:
            vjp(self.applied(where), *xs)
        except TypeError:
            return
        raise self.fail("vjp", "the primitive is declared `real`, but complex arguments are differentiated")

    def is_zero(self, where: Sequence[int], xs: Leaves) -> None:
        """Demand that nothing flows back."""
        if any(np.any(g) for g in self.vjp_function(where)(*xs)):
            raise self.fail("vjp", "the primitive is to stop gradients, but passes one on")

    def differentiates(self, where: Sequence[int], xs: Leaves, order: int) -> None:
        """Compare with differences, pair forward with reverse mode, and narrow dtypes with wide ones."""
        wide = _PrimitiveCheck(self.primitive, tuple(self.widened()), self.params)
        wide_xs = [wide.args[i] for i in where]
        try:
            check_grads(wide.applied(where), wide_xs, order)
        except AssertionError as error:
            raise self.fail("vjp", str(error)) from None
        back = self.vjp_function(where)(*xs)
        expected = [g.astype(x.dtype) for g, x in zip(wide.vjp_function(where)(*wide_xs), xs, strict=True)]
        self.same("vjp", back, expected)
        rng = np.random.default_rng(20)
        ts = [_random(rng, x) for x in xs]
        out, pushed = jvp(self.applied(where), tuple(xs), tuple(ts))
        self.same("vjp", self.several(out), self.outs, 0)
        ahead = [t for t in map(np.asarray, self.several(pushed)) if t.dtype.kind in "fc"]
        cts = [c for c in self.cts() if c.dtype.kind in "fc"]
        sides = _pairing(cts, ahead), _pairing(back, ts)
        if not abs(sides[0] - sides[1]) <= self.rounding * (1 + _size(cts, ahead) + _size(back, ts)):
            raise self.fail("vjp", f"Re<ct, J t> = {sides[0]}, but Re<J^T ct, t> = {sides[1]}")

    def several(self, out: Any) -> Sequence[Any]:
        """Return the outputs as a sequence."""
        return out if self.primitive.many else (out,)

    def cts(self) -> Leaves:
        """Return a cotangent of each output."""
        rng = np.random.default_rng(7)
        return [_random(rng, y) if y.dtype.kind in "fc" else np.zeros_like(y) for y in self.outs]

    def vjp_function(self, where: Sequence[int]) -> Callable[..., tuple[Any, ...]]:
        """Return the map from the arguments at `where` to their cotangents."""
        cts = self.cts()

        def back(*xs: Any) -> tuple[Any, ...]:
            _, pullback = vjp(self.applied(where), *xs)
            return tuple(pullback(tuple(cts) if self.primitive.many else cts[0]))

        return back

    def batch(self) -> None:
        """Compare vmap with a loop, for every set of mapped arguments, and vmap of the derivative."""
        for where in _subsets(self.arrays):
            self.maps("batch", lambda *xs, where=where: self.several(self.applied(where)(*xs)), where)
        if self.differentiable():
            self.maps("batch of the vjp", self.vjp_function(self.floating), self.floating)

    def maps(self, column: str, f: Callable[..., Sequence[Any]], where: Sequence[int]) -> None:
        """Compare vmap of `f` with a loop."""
        stacks = [_examples(self.args[i]) for i in where]
        loop = [f(*(s[k] for s in stacks)) for k in range(EXAMPLES)]
        self.same(column, vmap(f)(*stacks), [np.stack(ys) for ys in zip(*loop, strict=True)])

    def differentiable(self) -> bool:
        """Return whether any cotangent flows at all at this point."""
        complex_too = any(self.args[i].dtype.kind == "c" for i in self.floating)
        floating = any(y.dtype.kind in "fc" for y in self.outs)
        return bool(self.floating) and floating and not (self.primitive.real and complex_too)

    def staged(self) -> None:
        """Compare the program with the primitive, and the program of the derivative with the derivative."""
        xs = [self.args[i] for i in self.arrays]
        self.same("staged run", self.several(make_graph(self.applied(self.arrays))(*xs)(*xs)), self.outs, 0)
        if self.differentiable():
            xs, back = [self.args[i] for i in self.floating], self.vjp_function(self.floating)
            self.same("staged vjp", make_graph(back)(*xs)(*xs), back(*xs))


def _subsets(items: Sequence[int]) -> Iterator[tuple[int, ...]]:
    for n in range(1, len(items) + 1):
        yield from itertools.combinations(items, n)


def _examples(x: Any) -> Any:
    """Return arrays like `x`, whose elements stay in its domain, stacked along a new first axis."""
    x = np.asarray(x)
    if x.dtype.kind in "fc":
        new = [x * x.dtype.type(1 - 0.01 * k) for k in range(EXAMPLES)]
    elif x.dtype.kind == "b":
        new = [x ^ bool(k % 2) for k in range(EXAMPLES)]
    else:
        new = [np.where(x > k, x - x.dtype.type(k), x) for k in range(EXAMPLES)]
    return np.stack(new)


def __dir__() -> list[str]:
    return _offered(globals())
