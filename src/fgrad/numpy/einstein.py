"""Einstein sums: contractions of two operands after another, by the letters of their axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from string import ascii_letters
from typing import Any

import numpy as np

from fgrad.core.tensor import Tensor
from fgrad.core.views import unordered
from fgrad.numpy.arrays import together
from fgrad.numpy.diagonals import diagonal
from fgrad.numpy.registry import cast, implements, stored
from fgrad.numpy.views import diagonal as diagonal_view
from fgrad.numpy.views import transposed
from fgrad.ops import linear
from fgrad.ops.contraction import contract

_NUMBERED = "".join(sorted(ascii_letters))  # an implicit result is in the order of letters, or of numbers


@implements(np.einsum)
def einsum(
    *operands: Any,
    out: Any = None,
    optimize: Any = True,
    dtype: Any = None,
    order: Any = "K",
    casting: Any = "safe",
) -> Any:
    """Return the Einstein sum of operands: `einsum("ij,jk", a, b)`, or with lists of axes behind operands.

    Repeated letters in one operand take its diagonal, letters missing in the result are summed; `...`
    broadcasts. Products are contracted in the order of `numpy.einsum_path`.

    Returns:
        Array of the axes that the output names, of the promoted dtype.

    Raises:
        ValueError: subscripts do not fit the operands, or a length differs.

    Derivative:
        Linear in each operand: the sum with the cotangent in its place.

    Differences from NumPy:
        A product of several operands is computed in the cheapest order by default.

    Example:
        >>> fnp.einsum("ij,j->i", np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 1.0]))
        array([3., 7.])
    """
    terms, result, xs = _parsed(operands)
    if dtype is not None:
        xs = [cast(x, np.dtype(dtype), casting) for x in xs]
    kind = np.result_type(*(x.dtype for x in xs))
    if len(xs) > 2:  # products of two of them are rounded as the whole is
        exact = kind if kind.kind in "biu" else np.empty(0, kind).real.dtype
        xs = [linear.convert(x, kind if x.dtype.kind == "c" else exact) for x in xs]
    sizes = _sizes(terms, xs)
    if len(xs) == 1 and out is None and dtype is None and result and set(result) == set(terms[0]):
        return _rearranged(xs[0], terms[0], result)
    pairs = [_normal(x, t, sizes) for x, t in zip(xs, terms, strict=True)]
    path = _path(pairs, result, optimize) if len(pairs) > 2 else [tuple(range(len(pairs)))]
    for group in path:
        picked = [pairs[i] for i in sorted(group, reverse=True)]
        for i in sorted(group, reverse=True):
            del pairs[i]
        needed = set(result).union(*(t for _, t in pairs))
        picked.reverse()
        acc = picked[0]
        for k, other in enumerate(picked[1:]):
            rest = needed.union(*(t for _, t in picked[k + 2 :]))
            acc = _pair(acc, other, rest)
        pairs.append(_summed(*acc, needed))
    ((x, letters),) = pairs
    x = linear.convert(x, kind)
    x = linear.transpose(x, tuple(letters.index(c) for c in result if c in letters))
    shape = tuple(sizes[c] for c in result)
    if tuple(x.shape) != shape:
        x = linear.reshape(x, tuple(sizes[c] if c in letters else 1 for c in result))
        x = linear.broadcast_to(x, shape)
    return stored(unordered(x, *xs), out)


@implements(np.einsum_path)
def einsum_path(*operands: Any, optimize: Any = "greedy", einsum_call: bool = False) -> Any:
    """Return the order in which `einsum` contracts its operands, and a table of what it costs.

    Returns:
        The order as a list, and a text about its costs.

    Derivative:
        None: only shapes are looked at.

    Example:
        >>> fnp.einsum_path("ij,jk->ik", np.ones((2, 3)), np.ones((3, 4)))[0]
        ['einsum_path', (0, 1)]
    """
    shapes = [
        np.broadcast_to(np.empty((), x.dtype), x.shape) if isinstance(x, Tensor) else x for x in operands
    ]
    find: Callable[..., Any] = np.einsum_path
    return find(*shapes, optimize=optimize, einsum_call=einsum_call)


def _parsed(operands: tuple[Any, ...]) -> tuple[list[str], str, list[Any]]:
    if isinstance(operands[0], str):
        text, xs = operands[0].replace(" ", ""), together(*operands[1:])
    else:
        text, xs = _from_lists(operands)
    left, arrow, result = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(xs):
        raise ValueError(f"einsum: {text!r} has {len(terms)} terms, but there are {len(xs)} operands")
    free = [c for c in ascii_letters[::-1] if c not in text]
    ranks = [len(x.shape) - len(t.replace("...", "")) for x, t in zip(xs, terms, strict=True)]
    for t, rank, x in zip(terms, ranks, xs, strict=True):
        axes = set(t.replace("...", ""))
        if rank < 0 or (rank > 0 and "..." not in t) or not axes.issubset(ascii_letters):
            raise ValueError(f"einsum: the term {t!r} does not match an operand of shape {x.shape}")
    rest = max([r for r, t in zip(ranks, terms, strict=True) if "..." in t], default=0)
    dots = "".join(free[:rest])
    named = [t.replace("...", dots[rest - r :]) for t, r in zip(terms, ranks, strict=True)]
    if not arrow:
        letters = "".join(named)
        result = dots + "".join(sorted(c for c in set(letters) - set(dots) if letters.count(c) == 1))
    elif dots and "..." not in result:
        raise ValueError(
            f"einsum: the result {result!r} has no '...' for the axes that it stands for in the terms"
        )
    else:
        result = result.replace("...", dots)
    if len(set(result)) != len(result) or not set(result) <= set("".join(named)):
        raise ValueError(f"einsum: the result {result!r} repeats a letter or has one that no operand has")
    return named, result, xs


def _from_lists(operands: tuple[Any, ...]) -> tuple[str, list[Any]]:
    def term(axes: Any) -> str:
        if not all(a is Ellipsis or 0 <= a < len(_NUMBERED) for a in axes):
            raise ValueError(f"einsum: the axes {list(axes)} are not all between 0 and {len(_NUMBERED) - 1}")
        return "".join("..." if a is Ellipsis else _NUMBERED[a] for a in axes)

    n = len(operands) // 2
    xs = together(*operands[: 2 * n : 2])
    text = ",".join(term(axes) for axes in operands[1 : 2 * n : 2])
    return text + ("->" + term(operands[-1]) if len(operands) % 2 else ""), xs


def _sizes(terms: Sequence[str], xs: Sequence[Any]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for t, x in zip(terms, xs, strict=True):
        for c, n in zip(t, x.shape, strict=True):
            if sizes.get(c, 1) != 1 and n not in {1, sizes[c]}:
                raise ValueError(f"einsum: the axis {c!r} has lengths {sizes[c]} and {n}")
            if sizes.get(c, 1) == 1:
                sizes[c] = n
    return sizes


def _rearranged(x: Any, letters: str, result: str) -> Any:
    """Return a view of an operand: its diagonals where letters repeat, its axes in another order."""
    for c in result:
        while letters.count(c) > 1:
            i, j = letters.index(c), letters.rindex(c)
            if x.shape[i] != x.shape[j]:
                raise ValueError(
                    f"einsum: the axes {c!r} of one operand have lengths {x.shape[i]} and {x.shape[j]}"
                )
            others = [k for k in range(len(letters)) if k not in (i, j)]
            x = diagonal_view(transposed(x, (*others, i, j)), writable=True)
            letters = "".join(letters[k] for k in others) + c
    return transposed(x, tuple(letters.index(c) for c in result))


def _normal(x: Any, letters: str, sizes: dict[str, int]) -> tuple[Any, str]:
    """Return an operand whose letters differ, without axes of length one that broadcast."""
    i = 0
    while i < len(letters):
        j = letters.find(letters[i], i + 1)
        if j < 0:
            i += 1
            continue
        if x.shape[i] != x.shape[j]:
            raise ValueError(
                f"einsum: the axes {letters[i]!r} of one operand have lengths {x.shape[i]} and {x.shape[j]}"
            )
        letters = letters[:i] + letters[i + 1 : j] + letters[j + 1 :] + letters[i]
        x = diagonal(x, 0, i, j)
    gone = [i for i, c in enumerate(letters) if x.shape[i] == 1 and sizes[c] != 1]
    if gone:
        x = linear.reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in gone))
        letters = "".join(c for i, c in enumerate(letters) if i not in gone)
    return x, letters


def _path(pairs: Sequence[tuple[Any, str]], result: str, optimize: Any) -> list[tuple[int, ...]]:
    letters = set("".join(t for _, t in pairs))
    text = ",".join(t for _, t in pairs) + "->" + "".join(c for c in result if c in letters)
    shapes = [np.broadcast_to(np.empty(()), x.shape) for x, _ in pairs]
    return list(np.einsum_path(text, *shapes, optimize=optimize or "greedy")[0][1:])


def _summed(x: Any, letters: str, needed: set[str]) -> tuple[Any, str]:
    axes = tuple(i for i, c in enumerate(letters) if c not in needed)
    return (linear.sum_axes(x, axes), "".join(c for c in letters if c in needed)) if axes else (x, letters)


def _pair(first: tuple[Any, str], second: tuple[Any, str], needed: set[str]) -> tuple[Any, str]:
    (x, a), (y, b) = first, second
    x, a = _summed(x, a, needed | set(b))
    y, b = _summed(y, b, needed | set(a))
    out = "".join(c for c in a + "".join(c for c in b if c not in a) if c in needed)
    return contract(x, y, a, b, out), out
