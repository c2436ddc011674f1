"""Sparse Jacobians and Hessians: a product for each colour, of whose numbers each entry is one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from fgrad.core.caches import LRU
from fgrad.core.program import aval_out
from fgrad.core.tensor import Tensor, is_traced
from fgrad.docstrings import completes
from fgrad.sparse.arguments import Arguments
from fgrad.sparse.colouring import Colouring, Forest, along_trees, chosen, of_stars, of_trees, places
from fgrad.sparse.operators import joined, parted, plain
from fgrad.sparse.patterns import gradient
from fgrad.sparse.plans import FORMATS, Plan
from fgrad.transforms.calling import Transformed
from fgrad.transforms.forward import jvp
from fgrad.transforms.reverse import vjp

_SAVED, _STEPS = 2, 4  # products for which trees are gone along, at most so far: 2 ** _STEPS edges


class SparseDerivative(Transformed):
    """A function that computes the entries of a sparse matrix of derivatives."""

    order = 1
    title = "sparse.jacobian"

    def __init__(self, fun: Callable[..., Any], **options: Any) -> None:
        super().__init__(fun, **options)
        if options["format"] not in {*FORMATS, "coo", "operator"}:
            raise ValueError(
                f"{self.title}: format must be 'csr', 'csc', 'coo' or 'operator', not {options['format']!r}"
            )
        self._plans: LRU[Any, Plan] = LRU()
        self._last: Plan | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (type(self), self.fun, self.options)

    def _planned(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Plan, Arguments]:
        short = None
        if not kwargs and all(a.__class__ is np.ndarray and a.dtype.kind == "f" for a in args):
            short = tuple([(a.shape, a.dtype) for a in args])  # which then says as much as the key
            plan = self._plans.get(short)
            if plan is not None and plan.fresh():
                self._last = plan
                return plan, plan.given.holding(args)
        given = Arguments(self.fun, args, kwargs, self.options["argnums"], self.title)
        plan = self._plans.get(given.key)
        if plan is None or not plan.fresh():
            plan = Plan(self, given.emptied())
            self._plans[given.key] = plan
        if short is not None:
            self._plans[short] = plan
        self._last = plan
        return plan, given

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        """Return the matrix, and what the function returns before it, if that is asked for."""
        plan, given = self._planned(args, kwargs)
        if self.options["value"]:
            value, data = plan.both(given.leaves)
        else:
            value, data = None, plan.values(given.leaves)
        made = plan.filled(data)
        if self.options["check"]:
            self._compare(plan, given, data)
        return (value, made) if self.options["value"] else made

    def pattern(self, *args: Any, **kwargs: Any) -> Any:
        """Return the pattern for arguments like these, as csr_array of truths."""
        return self._planned(args, kwargs)[0].pattern.copy()

    def colouring(self, *args: Any, **kwargs: Any) -> Colouring:
        """Return the colouring for arguments like these."""
        return self._planned(args, kwargs)[0].colouring

    def values(self, *args: Any, **kwargs: Any) -> Any:
        """Return the entries alone, in the order of the format: an ordinary function, differentiable too."""
        plan, given = self._planned(args, kwargs)
        return plan.values(given.leaves)

    def fill(self, data: Any, *args: Any, **kwargs: Any) -> None:
        """Write the entries into an array of as many numbers, in the order of the format.

        `data` of a matrix that a call returned is taken as it is: nothing is allocated, and all that changes
        is this.

        Raises:
            TypeError: an argument is being transformed.
            ValueError: it is not an array of as many floats, or cannot be written to.

        Example:
            >>> from fgrad import sparse
            >>> hess = sparse.hessian(lambda x: np.sum(x[1:] * x[:-1] ** 2))
            >>> matrix = hess(np.ones(3))
            >>> hess.fill(matrix.data, np.array([1.0, 2.0, 3.0]))
            >>> matrix.toarray()
            array([[4., 2., 0.],
                   [2., 6., 4.],
                   [0., 4., 0.]])
        """
        plan, given = self._planned(args, kwargs)
        if given.traced:
            raise TypeError(
                f"{given.title}: fill writes numbers into an array, so it is not part of another "
                "transformation; use values there"
            )
        count = plan.pattern.nnz
        if not isinstance(data, np.ndarray) or data.shape != (count,) or data.dtype.kind != "f":
            shown = f"{data.dtype}{list(data.shape)}" if isinstance(data, np.ndarray) else repr(data)
            raise ValueError(f"{given.title}: fill takes an array of {count} floats, not {shown}")
        if not data.flags.writeable:
            raise ValueError(
                f"{given.title}: fill writes into an array, and this one is read-only, as an operator's is; "
                "leave it, and call for a new one"
            )
        plan.fill(data, given.leaves)

    @property
    def colours(self) -> int:
        """How many products the last call took.

        Raises:
            AttributeError: there was no call yet.
        """
        if self._last is None:
            raise AttributeError(f"{self.title} knows its colours when it has been called")
        return self._last.colouring.colours

    def coloured(self, pattern: Any) -> Colouring:
        """Return the colouring of a pattern."""
        raise NotImplementedError

    def placed(self, pattern: Any, colouring: Colouring) -> tuple[Any, Forest]:
        """Return where each entry is among all products, and after these what has to be summed."""
        return places(pattern, colouring), Forest(None, [])

    def given_pattern(self, given: Arguments) -> Any:
        """Return the pattern that the user gave, as csr_array of truths."""
        pattern = self.options["pattern"]
        made = sparse.csr_array(pattern)
        rows = given.count if self.order == 2 else self._rows(given)
        if made.shape != (rows, given.count):
            raise ValueError(
                f"{given.title}: the pattern has shape {made.shape}, but the matrix has shape "
                f"{(rows, given.count)}: a row for each element of the results, a column for each of the "
                "arguments"
            )
        made = made.astype(bool)
        made.sum_duplicates()
        made.eliminate_zeros()
        if self.order == 2:
            made = sparse.csr_array(made + made.T)
        made.sort_indices()
        return made

    @staticmethod
    def _rows(given: Arguments) -> int:
        program = given.staged(given.outputs, given.abstract())
        return sum(math.prod(aval_out(y).shape) for y in program.outputs)

    def _compare(self, plan: Plan, given: Arguments, data: Any) -> None:
        """Compare a product with what the entries make of it; say which one the pattern lacks."""
        if given.traced or is_traced(data):
            raise TypeError(
                f"{given.title}: check=True looks at values, so it is not part of another transformation"
            )
        leaves = [plain(x) if isinstance(x, Tensor) else x for x in given.leaves]
        xs = [np.asarray(leaves[k]) for k in given.places]
        fun = given.partial(leaves, given.outputs) if self.order == 1 else gradient(given, leaves)
        direction = np.random.default_rng(0).uniform(0.5, 1.0, given.count)
        matrix = sparse.coo_array((plain(data), plan.coordinates), shape=plan.shape).tocsr()
        is_right = plain(joined(jvp(fun, xs, parted(direction, xs))[1]))
        claimed = matrix @ direction
        scale = abs(matrix) @ direction + abs(is_right)
        loose = np.sqrt(np.finfo(is_right.dtype).eps)
        wrong = ~(abs(is_right - claimed) <= loose * scale) & np.isfinite(is_right)
        if not wrong.any():
            return
        outs, back = vjp(fun, *xs)
        for i in np.nonzero(wrong)[0]:
            unit = np.zeros(plan.shape[0])
            unit[i] = 1.0
            row = plain(joined(back(type(outs)(parted(unit, outs)))))
            missing = np.setdiff1d(np.nonzero(row)[0], plan.pattern[[i]].indices)
            if missing.size:
                j = int(missing[0])
                raise ValueError(
                    f"{given.title}: the pattern lacks the entry ({i}, {j}), which is {row[j]:.6g} here, so "
                    "that others are wrong too; leave pattern out to have it found"
                )
        first = int(np.argmax(wrong))
        raise ValueError(
            f"{given.title}: row {first} times a direction is {is_right[first]:.6g}, but its entries make "
            f"{claimed[first]:.6g} of it: forward and reverse mode disagree, as derivatives that a function "
            "brings along may"
        )


def _made(cls: type[SparseDerivative], fun: Callable[..., Any], options: dict[str, Any]) -> SparseDerivative:
    return cls(fun, **options)


class Jacobian(SparseDerivative):
    """The function that computes a sparse Jacobian."""

    def __init__(self, fun: Callable[..., Any], **options: Any) -> None:
        super().__init__(fun, **options)
        if options["mode"] not in {"auto", "forward", "reverse", "bidirectional"}:
            raise ValueError(
                f"{self.title}: mode must be 'auto', 'forward', 'reverse' or 'bidirectional', not "
                f"{options['mode']!r}"
            )

    def coloured(self, pattern: Any) -> Colouring:
        """Return the colouring of a pattern."""
        given, mode = self.options["colouring"], self.options["mode"]
        if given is None:
            return chosen(pattern, mode)
        if isinstance(given, Colouring):
            return _checked(given, pattern, self.title)
        if mode == "bidirectional":
            raise TypeError(f"{self.title}: a colouring for both sides is a fgrad.sparse.Colouring")
        one = np.asarray(given)
        return _checked(Colouring(None, one) if mode == "reverse" else Colouring(one), pattern, self.title)


class Hessian(SparseDerivative):
    """The function that computes a sparse Hessian."""

    order = 2
    title = "sparse.hessian"

    def __init__(self, fun: Callable[..., Any], **options: Any) -> None:
        super().__init__(fun, **options)
        if options["recovery"] not in {"auto", "direct", "substitution"}:
            raise ValueError(
                f"{self.title}: recovery must be 'auto', 'direct' or 'substitution', not "
                f"{options['recovery']!r}"
            )

    def coloured(self, pattern: Any) -> Colouring:
        """Return the colouring of a pattern."""
        given, recovery = self.options["colouring"], self.options["recovery"]
        if given is not None:
            given = given.columns if isinstance(given, Colouring) else given
            return _checked(Colouring(np.asarray(given)), pattern, self.title)
        stars = Colouring(of_stars(pattern)) if recovery != "substitution" else None
        if stars is not None and (recovery == "direct" or stars.colours < 2 + _SAVED):
            return stars
        trees = Colouring(of_trees(pattern))
        if stars is None:
            return trees
        is_short = len(along_trees(pattern, trees)[1].steps) <= _STEPS
        return trees if is_short and trees.colours <= stars.colours - _SAVED else stars

    def placed(self, pattern: Any, colouring: Colouring) -> tuple[Any, Forest]:
        """Return where each entry is among all products, and after these what has to be summed."""
        if self.options["recovery"] == "direct":
            return places(pattern, colouring, symmetric=True), Forest(None, [])
        return along_trees(pattern, colouring)


def _checked(colouring: Colouring, pattern: Any, title: str) -> Colouring:
    """Return a colouring that the user gave, if it is one of this pattern."""
    sides = (colouring.columns, "columns", pattern.shape[1]), (colouring.rows, "rows", pattern.shape[0])
    made = []
    for given, name, n in sides:
        colour = None if given is None else np.asarray(given)
        if colour is not None and (
            colour.shape != (n,) or colour.dtype.kind not in "iu" or (n and colour.min() < -1)
        ):
            raise ValueError(
                f"{title}: a colouring of the {name} is an array of {n} integers, from 0 on (-1: not "
                f"computed), not {colour.dtype} of shape {colour.shape}"
            )
        made.append(None if colour is None else colour.astype(np.int64))
    return Colouring(*made)


_derivative = completes(
    {
        "argnums": "which positional argument, or arguments.",
        "pattern": "a sparse or dense array, other than zero where there may be entries; None: it is found.",
        "format": '"csr", "csc" or "coo"; "operator" for a `MatrixOperator`, whose products are quicker.',
        "check": "whether to compare the entries with a product in each call, which finds a wrong pattern.",
    }
)


@_derivative
def jacobian(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    mode: str = "auto",
    *,
    pattern: Any = None,
    colouring: Any = None,
    format: str = "csr",
    check: bool = False,
) -> Jacobian:
    """Return the function that computes the Jacobian of `fun` as sparse array.

    Its pattern is found from the program of `fun`, its columns or rows are coloured, and one compiled program
    computes a product for each colour and takes the entries out of them. All of this is kept for calls with
    arguments of the same structure (shapes, dtypes, and integers, which name elements).

    Args:
        fun: takes and returns pytrees of arrays; what is returned are real floats.
        mode: "forward" colours columns, "reverse" rows, "bidirectional" both; "auto" takes what needs fewer
            products.
        colouring: of the columns (of the rows with mode "reverse"), an integer for each, or a `Colouring`;
            None: one is made, by several orders of which the best is taken.

    Returns:
        A function of the same arguments that returns a `scipy.sparse` array, or an operator: a row for each
        element of the results, a column for each of the arguments, leaf by leaf, each in C order. Where
        arguments are Tensors, or it is called inside of another transformation, it is a
        `fgrad.scipy.sparse.SparseArray`, whose entries have derivatives again. `values` returns the entries
        alone, `colours` is how many products the last call took, `pattern` and `colouring` take arguments
        too.

    Raises:
        TypeError: there is nothing to differentiate, or what is differentiated is not a real float.
        ValueError: a pattern of another shape, a colouring that does not give each entry, or with `check`
            a pattern that lacks an entry.

    Derivative:
        Of the entries, of every order, where they are a `SparseArray`.

    Example:
        >>> from fgrad import sparse
        >>> jac = sparse.jacobian(lambda x: x[1:] * x[:-1])
        >>> jac(np.array([1.0, 2.0, 3.0])).toarray()
        array([[2., 1., 0.],
               [0., 3., 2.]])
        >>> jac.colours
        2

    Source:
        Curtis, Powell & Reid (1974), On the estimation of sparse Jacobian matrices, IMA J. Appl. Math. 13.
    """
    return Jacobian(
        fun,
        argnums=argnums,
        mode=mode,
        pattern=pattern,
        colouring=colouring,
        format=format,
        check=check,
        value=False,
    )


@_derivative
def value_and_jacobian(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    mode: str = "auto",
    *,
    pattern: Any = None,
    colouring: Any = None,
    format: str = "csr",
    check: bool = False,
) -> Jacobian:
    """Return the function that computes what `fun` returns and its Jacobian, as `jacobian` does.

    Args:
        fun: takes and returns pytrees of arrays; what is returned are real floats.
        mode: as in `jacobian`.
        colouring: likewise.

    Returns:
        A function of the same arguments that returns `(value, matrix)`, the matrix as `jacobian` returns it.

    Raises:
        TypeError: as in `jacobian`.
        ValueError: likewise.

    Derivative:
        Of both, of every order.

    Example:
        >>> from fgrad import sparse
        >>> value, jac = sparse.value_and_jacobian(lambda x: x * x)(np.array([1.0, 2.0]))
        >>> value, jac.toarray()
        (array([1., 4.]), array([[2., 0.],
           [0., 4.]]))
    """
    made = jacobian(fun, argnums, mode, pattern=pattern, colouring=colouring, format=format, check=check)
    return Jacobian(fun, **made.options | {"value": True})


@_derivative
def hessian(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    pattern: Any = None,
    colouring: Any = None,
    recovery: str = "auto",
    format: str = "csr",
    check: bool = False,
) -> Hessian:
    """Return the function that computes the second derivatives of a scalar as sparse array.

    The columns are coloured so that any two colours meet in stars, and each entry stands in the product of
    its column's or of its row's colour: a matrix with a full row and column takes few products still.

    Args:
        fun: takes pytrees of arrays and returns one real number.
        pattern: as in `jacobian`; what one side of the diagonal has, the other one has too.
        colouring: of the columns.
        recovery: "direct" reads each entry off a product; "substitution" needs fewer products, of which
            entries follow by subtracting others along trees, with rounding errors of these; "auto" does so
            where it saves products and trees are short.

    Returns:
        A function of the same arguments that returns the matrix, as `jacobian` does.

    Raises:
        TypeError: `fun` does not return one real number, or there is nothing to differentiate.
        ValueError: as in `jacobian`.

    Derivative:
        Of the entries, of every order, where they are a `SparseArray`.

    Example:
        >>> from fgrad import sparse
        >>> hess = sparse.hessian(lambda x: np.sum(x[1:] * x[:-1] ** 2))
        >>> hess(np.array([1.0, 2.0, 3.0])).toarray()
        array([[4., 2., 0.],
               [2., 6., 4.],
               [0., 4., 0.]])

    Source:
        Coleman & Moré (1984), Estimation of sparse Hessian matrices and graph coloring problems, Math.
        Program. 28; Coleman & Cai (1986), The cyclic coloring problem and estimation of sparse Hessian
        matrices, SIAM J. Algebraic Discrete Methods 7, of substitution.
    """
    return Hessian(
        fun,
        argnums=argnums,
        recovery=recovery,
        pattern=pattern,
        colouring=colouring,
        format=format,
        check=check,
        value=False,
    )


@_derivative
def value_and_hessian(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    pattern: Any = None,
    colouring: Any = None,
    recovery: str = "auto",
    format: str = "csr",
    check: bool = False,
) -> Hessian:
    """Return the function that computes what `fun` returns and its Hessian, as `hessian` does.

    Args:
        fun: takes pytrees of arrays and returns one real number.
        pattern: as in `hessian`.
        colouring: likewise.
        recovery: likewise.

    Returns:
        A function of the same arguments that returns `(value, matrix)`, the matrix as `hessian` returns it.

    Raises:
        TypeError: as in `hessian`.
        ValueError: likewise.

    Derivative:
        Of both, of every order.

    Example:
        >>> from fgrad import sparse
        >>> value, hess = sparse.value_and_hessian(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
        >>> float(value), hess.toarray()
        (9.0, array([[ 6.,  0.],
               [ 0., 12.]]))
    """
    made = hessian(
        fun, argnums, pattern=pattern, colouring=colouring, recovery=recovery, format=format, check=check
    )
    return Hessian(fun, **made.options | {"value": True})
