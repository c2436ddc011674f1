"""Functions that a solver defines: roots, and solutions of linear systems, differentiated by what they solve.

The solver may be any code that takes and returns arrays. By the implicit function theorem the derivative of
x with f(x, p) = 0 is -(df/dx)^-1 df/dp, a linear solution, whose derivative is a linear solution again. So
no operation of a solver is ever recorded. What f and the matrix take from closures, staging finds out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fgrad import tree
from fgrad.backend.devices import as_array, copied
from fgrad.core.aval import Aval, aval_of, with_dtype
from fgrad.core.control_flow import avals_out
from fgrad.core.dispatch import linear_tapes, node_on, refuse_followed
from fgrad.core.placement import near, with_zeros
from fgrad.core.program import Program
from fgrad.core.tensor import Tensor
from fgrad.core.trace import running
from fgrad.lax.opaque import OpaqueRule, apply_opaque, plain_value
from fgrad.lax.trees import as_tensors
from fgrad.transforms.calling import name_of
from fgrad.transforms.reverse import vjp
from fgrad.transforms.stage import staged, staging

Fun = Callable[..., Any]


class _Equation:
    """A function of an unknown, as a program of the values it takes from outside and of the unknown."""

    __slots__ = ("avals", "count", "program", "structure")

    def __init__(self, program: Program, count: int, avals: Sequence[Aval], structure: Any) -> None:
        self.program, self.count, self.avals, self.structure = program, count, avals, structure

    def at(self, captured: Sequence[Any]) -> Fun:
        """Return the function of the unknown alone: arrays give arrays, Tensors give Tensors."""

        def call(x: Any) -> Any:
            leaves = list(map(with_dtype, tree.leaves(x)))
            return tree.unflatten(self.structure, self.program.run([*captured, *leaves]))

        return call

    def leaves(self, captured: Sequence[Any], x: Sequence[Any]) -> list[Any]:
        """Return the values at `x`, as leaves."""
        return self.program.run([*captured, *x])


def _equation(f: Fun, unknown: Any, what: str) -> tuple[_Equation, list[Tensor]]:
    leaves, structure = tree.flatten(unknown)
    avals = [aval_of(x) for x in leaves]
    for a in avals:
        if a.dtype.kind not in "fc":
            raise TypeError(f"{what} solves for floating-point numbers, not for {a}; give floats")

    def flat(*xs: Any) -> list[Any]:
        out, given = tree.flatten(f(tree.unflatten(structure, xs)))
        if given != structure:
            raise TypeError(
                f"{what}: {name_of(f)} must return what it takes, but takes the structure {structure} and "
                f"returns {given}"
            )
        return out

    program, captured = staged(flat, avals)
    for i, (out, a) in enumerate(zip(avals_out(program), avals, strict=True)):
        if out.shape != a.shape:
            raise ValueError(
                f"{what}: {name_of(f)} must return what it takes, but leaf {i} is {a} and becomes {out}"
            )
    return _Equation(program, len(captured), avals, structure), captured


class _Solved(OpaqueRule):
    """A solver, of what the equation captured and of other values: a right-hand side, or a guess."""

    def __init__(self, equation: _Equation, solvers: tuple[Any, Any], *, has_aux: bool) -> None:
        self.equation, self.solvers, self.has_aux = equation, solvers, has_aux
        self.outs = tuple(equation.avals)

    def solve(self, values: Sequence[Any]) -> list[Any]:
        """Return the solution for arrays."""
        eq, size = self.equation, len(self.equation.avals)
        leaves = list(map(plain_value, values[eq.count :]))
        given = [tree.unflatten(eq.structure, leaves[i : i + size]) for i in range(0, len(leaves), size)]
        with running(()):
            x = self.solvers[0](eq.at(values[: eq.count]), *given)
        return self.checked(x)

    def cotangents(self, cts: Sequence[Any]) -> Any:
        """Return the cotangents of the solution as Tensors in its structure, with zeros for None."""
        return tree.unflatten(self.equation.structure, as_tensors(with_zeros(cts, self.equation.avals)))

    def _each(self, values: Sequence[Any], trace: Any) -> list[Any]:
        """Return the solutions of all examples."""
        outs = super()._each(values, trace)
        if self.aux is not None:
            raise TypeError(
                f"{self.name} with has_aux=True cannot be mapped: its solver is called per example"
            )
        return outs

    def checked(self, x: Any) -> list[Any]:
        """Return the leaves of what a solver returned, as arrays like the unknown."""
        structure, avals = self.equation.structure, self.equation.avals
        if self.has_aux:
            if not isinstance(x, tuple) or len(x) != 2:
                raise TypeError(f"{self.name} with has_aux=True: the solver must return a pair (x, aux)")
            x, self.aux = x
        leaves, given = tree.flatten(x)
        if given != structure:
            raise TypeError(f"{self.name}: the solver must return the structure {structure}, not {given}")
        out = []
        for leaf, aval in zip(leaves, avals, strict=True):
            value = leaf._value if isinstance(leaf, Tensor) else as_array(leaf)
            if value.shape != aval.shape:
                raise ValueError(f"{self.name}: the solver must return shape {aval.shape}, not {value.shape}")
            out.append(copied(as_array(value, aval.dtype)))
        return out


# ---- linear systems -----------------------------------------------------------------------------


class _LinearSolve(_Solved):
    name = "custom_linear_solve"

    def __init__(
        self, equation: _Equation, solvers: tuple[Any, Any], *, symmetric: bool, has_aux: bool
    ) -> None:
        super().__init__(equation, solvers, has_aux=has_aux)
        self.symmetric = symmetric

    def backward(self, *cts: Any) -> Sequence[Any]:
        """Return the cotangents of the matrix's values and of the right-hand side."""
        eq = self.equation
        captured, x = self.values[: eq.count], self.x
        forward, backward = map(_without_aux, self.solvers) if self.has_aux else self.solvers
        if self.symmetric:
            transposed, backward = eq.at(captured), forward
        else:
            transposed = _transposed(eq, captured)
        found = _solved(
            transposed, self.cotangents(cts), backward, forward, symmetric=self.symmetric, has_aux=False
        )
        ct_b = tree.leaves(found)
        guess = self.values[eq.count + len(ct_b) :]
        return [*_minus_vjp(eq, captured, x, ct_b), *ct_b, *(None for _ in guess)]


def _without_aux(solver: Any) -> Any:
    return solver and (lambda matvec, b: solver(matvec, b)[0])


def _transposed(eq: _Equation, captured: Sequence[Any]) -> Fun:
    def vecmat(u: Any) -> Any:
        make = near(tree.leaves(u)[0])
        zeros = [make.zeros(a.shape, a.dtype) for a in eq.avals]
        _, pullback = vjp(lambda *v: eq.leaves(captured, v), *as_tensors(zeros))
        return tree.unflatten(eq.structure, pullback(tree.leaves(u)))

    return vecmat


def _minus_vjp(eq: _Equation, captured: Sequence[Any], x: Sequence[Any], u: Sequence[Any]) -> list[Any]:
    """Return minus the cotangents of what the equation captured, at `x`, for that of its value, `u`."""
    found: list[Any] = [None] * eq.count
    places = [i for i, c in enumerate(captured) if c.dtype.kind in "fc"]
    if not places:
        return found

    def value(*parts: Any) -> list[Any]:
        full = list(captured)
        for i, p in zip(places, parts, strict=True):
            full[i] = p
        return eq.leaves(full, x)

    _, pullback = vjp(value, *as_tensors([captured[i] for i in places]))
    for i, ct in zip(places, pullback(list(u)), strict=True):
        found[i] = -ct
    return found


def custom_linear_solve(
    matvec: Fun,
    b: Any,
    solve: Fun,
    transpose_solve: Fun | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
    guess: Any = None,
) -> Any:
    """Return x with `matvec(x) = b`, found by `solve` and differentiated by what it solves.

    Args:
        matvec: linear, from the structure and shapes of `b` to the same; may use Tensors from a closure. It
            is traced with abstract arrays, so it chooses by `where` and `lax.cond`.
        b: pytree of floating-point arrays.
        solve: `solve(matvec, b)` returns x, in any way; it gets and gives arrays.
        transpose_solve: `transpose_solve(vecmat, b)` does so for the transposed system; needed in reverse
            mode unless `symmetric`.
        symmetric: whether the system equals its transpose; then `solve` serves both.
        has_aux: whether the solvers return `(x, aux)`.
        guess: like `b`, where the solution is sought: `solve(matvec, b, guess)`; it has no gradient, whose
            own solutions are found without one.

    Returns:
        x, or `(x, aux)`.

    Raises:
        TypeError: `b` is not floating, `matvec` or a solver returns another structure, or
            `transpose_solve` is missing in reverse mode.
        ValueError: shapes differ.

    Derivative:
        dx = A^-1 (db - dA x); in reverse, b_ct = A^-T x_ct.

    Source:
        Giles (2008), An extended collection of matrix derivative results, section 2.3.1.

    Example:
        >>> import fgrad
        >>> diagonal = np.array([2.0, 4.0])
        >>> def solution(b):
        ...     solve = lambda matvec, b: b / diagonal
        ...     return custom_linear_solve(lambda x: diagonal * x, b, solve, symmetric=True)
        >>> fgrad.jacrev(solution)(np.ones(2))
        array([[0.5 , 0.  ],
               [0.  , 0.25]])
    """
    return _solved(matvec, b, solve, transpose_solve, symmetric=symmetric, has_aux=has_aux, guess=guess)


def _missing(matvec: Fun, b: Any) -> Any:
    raise TypeError(
        "custom_linear_solve needs transpose_solve for its gradient: give a solver of the transposed system, "
        "or symmetric=True if that is the same"
    )


def _solved(
    matvec: Fun,
    b: Any,
    solve: Any,
    transpose_solve: Any,
    *,
    symmetric: bool,
    has_aux: bool,
    guess: Any = None,
) -> Any:
    eq, captured = _equation(matvec, b, "custom_linear_solve")
    leaves = list(map(with_dtype, tree.leaves(b)))
    refuse_followed("custom_linear_solve", captured)
    if solve is _missing and any(any(node_on(t, x) for x in leaves) for t in linear_tapes()):
        solve = _unsolved  # forward mode, to which the value is of no consequence
    rule = _LinearSolve(eq, (solve, transpose_solve or _missing), symmetric=symmetric, has_aux=has_aux)
    started = [] if guess is None else _guessed(guess, eq)
    return _applied(rule, eq, [*captured, *leaves, *started], "lax.custom_linear_solve", has_aux=has_aux)


def _guessed(guess: Any, eq: _Equation) -> list[Any]:
    """Return the values of a guess, which are like those of the right-hand side."""
    leaves, structure = tree.flatten(guess)
    found = list(map(with_dtype, leaves))
    if structure != eq.structure or any(x.shape != a.shape for x, a in zip(found, eq.avals, strict=True)):
        raise ValueError(f"custom_linear_solve: the guess is to be like the right-hand side, {eq.avals}")
    return found


def _unsolved(matvec: Fun, b: Any) -> Any:
    return b


def _applied(rule: _Solved, eq: _Equation, values: list[Any], primitive: str, *, has_aux: bool) -> Any:
    if has_aux and staging():
        raise TypeError(f"{rule.name} with has_aux=True cannot be traced: the structure of aux is not known")
    x = tree.unflatten(eq.structure, apply_opaque(rule, values, primitive))
    return (x, rule.aux) if has_aux else x


# ---- roots --------------------------------------------------------------------------------------


class _Root(_Solved):
    name = "custom_root"

    def backward(self, *cts: Any) -> Sequence[Any]:
        """Return the cotangents of what the equation captured; the guess has none."""
        eq = self.equation
        captured, x = self.values[: eq.count], self.x

        def vecmat(u: Any) -> Any:
            _, pullback = vjp(lambda *v: eq.leaves(captured, v), *as_tensors(x))
            return tree.unflatten(eq.structure, pullback(tree.leaves(u)))

        tangent = self.solvers[1]
        u = _solved(vecmat, self.cotangents(cts), tangent, tangent, symmetric=False, has_aux=False)
        return [*_minus_vjp(eq, captured, x, tree.leaves(u)), *(None for _ in eq.avals)]


def custom_root(f: Fun, initial_guess: Any, solve: Fun, tangent_solve: Fun, has_aux: bool = False) -> Any:
    """Return x with `f(x) = 0`, found by `solve` and differentiated by what it solves.

    Args:
        f: from the structure and shapes of `initial_guess` to the same; may use Tensors from a closure, which
            get their gradients. It is traced with abstract arrays, so it chooses by `where` and `lax.cond`.
        initial_guess: pytree of floating-point arrays; it has no gradient.
        solve: `solve(f, initial_guess)` returns the root, in any way; it gets and gives arrays, and may
            differentiate f.
        tangent_solve: `tangent_solve(g, y)` returns z with g(z) = y for any linear g, likewise.
        has_aux: whether `solve` returns `(x, aux)`.

    Returns:
        x, or `(x, aux)`.

    Raises:
        TypeError: the guess is not floating, or `f` or a solver returns another structure.
        ValueError: shapes differ.

    Derivative:
        dx = -(df/dx)^-1 df, by the implicit function theorem.

    Source:
        Christianson (1994), Reverse accumulation and attractive fixed points, Optim. Methods Softw. 3.

    Example:
        >>> import fgrad
        >>> def root(a):  # x**3 = a
        ...     newton = lambda f, x: np.cbrt(8.0)
        ...     return custom_root(lambda x: x**3 - a, 1.0, newton, lambda g, y: y / g(1.0))
        >>> fgrad.grad(root)(8.0)  # 1 / (3 x**2)
        np.float64(0.08333333333333333)
    """
    eq, captured = _equation(f, initial_guess, "custom_root")
    refuse_followed("custom_root", captured)
    guess = list(map(with_dtype, tree.leaves(initial_guess)))
    rule = _Root(eq, (solve, tangent_solve), has_aux=has_aux)
    return _applied(rule, eq, [*captured, *guess], "lax.custom_root", has_aux=has_aux)
