"""Attention: weighted means of values, with weights from products of queries and keys."""

from __future__ import annotations

from typing import Any

from fgrad.core.dispatch import bind
from fgrad.core.placement import near
from fgrad.nn.exponentials import softmax
from fgrad.numpy.einstein import einsum
from fgrad.numpy.permutations import repeat
from fgrad.numpy.reductions import inexact
from fgrad.ops import functions
from fgrad.ops.linear import broadcast_to


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
) -> Any:
    """Return softmax(scale query key^T + bias) value, for every head.

    Args:
        query: array (..., T, heads, H).
        key: array (..., S, heads, H); of fewer heads, each of which several of `query` share.
        value: array (..., S, heads, V), with as many heads as `key`.
        bias: array that broadcasts to (..., heads, T, S), added to the scores.
        mask: booleans that broadcast to (..., heads, T, S): which keys a query sees.
        scale: of the products; None: 1 / sqrt(H).
        is_causal: whether query t sees the keys 0 to t alone.

    Returns:
        Array (..., T, heads, V); zero for a query that sees nothing.

    Raises:
        ValueError: incompatible shapes.

    Source:
        Vaswani et al. (2017), Attention is all you need; Ainslie et al. (2023) for heads that are shared.

    Example:
        >>> q, k, v = (np.ones((1, 2, 1, 4)) for _ in range(3))
        >>> fg.nn.dot_product_attention(q, k, v).shape
        (1, 2, 1, 4)
    """
    q, k, v = inexact(query), inexact(key), inexact(value)
    shared, rest = divmod(q.shape[-2], max(k.shape[-2], 1))
    if rest:
        raise ValueError(
            f"dot_product_attention: the number of query heads must be a multiple of that of the key, but "
            f"there are {q.shape[-2]} and {k.shape[-2]}"
        )
    if shared > 1:
        k, v = repeat(k, shared, -2), repeat(v, shared, -2)
    scores = einsum("...tnh,...snh->...nts", q * (q.shape[-1] ** -0.5 if scale is None else scale), k)
    if bias is not None:
        scores = scores + inexact(bias)
    seen: Any = None if mask is None else bind("not_equal", mask, False)
    if is_causal:
        rows, columns = map(near(scores).arange, scores.shape[-2:])
        causal = columns <= rows.reshape(-1, 1)
        seen = causal if seen is None else functions.logical_and(seen, causal)
    if seen is not None:
        seen = broadcast_to(seen, tuple(scores.shape))
    return einsum("...nts,...snv->...tnv", softmax(scores, where=seen), v)
