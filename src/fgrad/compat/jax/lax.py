"""`jax.lax`: control flow on `fgrad.lax`, and JAX's own names of functions of elements."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import numpy as np

import fgrad
import fgrad.lax
import fgrad.nn
from fgrad import numpy as fnp
from fgrad.compat.jax.arrays import (
    OWN,
    Array,
    as_array,
    elementwise,
    made,
    named,
    of_elements,
    opened,
    special,
)
from fgrad.compat.jax.jaxprs import own_primitive
from fgrad.compat.jax.numpy import NAMES as NUMPY
from fgrad.compat.jax.numpy import kept, moved, of_one, product, result_type
from fgrad.compat.jax.transformations import Flat, inside
from fgrad.compat.jax.trees import flatten, tree_map, unflatten
from fgrad.compat.jax.types import CONFIG, promoted
from fgrad.compat.standins import by_name, renamed, with_names, words
from fgrad.errors import EscapedTensorError

Function = Callable[..., Any]
_REST: Any = object()


def cond(pred: Any, *args: Any, **kwargs: Any) -> Any:
    """Return `true_fun(*operands)` or `false_fun(*operands)`.

    Each function may have an operand of its own: `cond(pred, x, true_fun, y, false_fun)`.
    """
    if len(args) == 4 and callable(args[1]) and callable(args[3]) and not callable(args[0]):
        x, on_true, y, on_false = args
        args = (lambda x, _: on_true(x)), (lambda _, y: on_false(y)), x, y
    true_fun, false_fun, *operands = (
        *args,
        *(kwargs.pop(k) for k in ("true_fun", "false_fun") if k in kwargs),
    )
    return switch(as_array(pred).astype(bool).astype(int), (false_fun, true_fun), *operands, **kwargs)


def switch(index: Any, branches: Sequence[Function], *operands: Any, operand: Any = _REST) -> Any:
    """Return `branches[index](*operands)`, the first or the last one where there is none."""
    operands = operands if operand is _REST else (operand,)
    flats = [Flat(lambda xs, f=f: f(*xs), list(operands)) for f in branches]
    (i,) = (elementwise(lambda k: fnp.clip(k, 0, len(flats) - 1), index)._tensor,)
    outs = fgrad.lax.switch(i, flats, *flats[0].tensors)
    ran = next(f for f in flats if f.out is not None)
    if any(f.out is not None and f.out != ran.out for f in flats):
        raise TypeError("the branches return different containers")
    if len({tuple(x in OWN and x for x in f.forms) for f in flats if f.out is not None}) > 1:
        raise TypeError("the branches return different dtypes, of which one is bfloat16 or that of keys")
    return ran.results(outs)


def scan(
    f: Function, init: Any, xs: Any = None, length: int | None = None, reverse: bool = False,
    unroll: Any = 1, _split_transpose: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """Return the last carry, and the stacked outputs of `carry, y = f(carry, x)` along `xs`."""
    over, out = _Carry(xs), _Carry(None)
    count = length if length is not None else over.arrays[0].shape[0] if over.arrays else 0

    def run(start: _Carry) -> tuple[Any, Any]:
        out.out = None

        @inside
        def step(carry: Any, x: Any) -> Any:
            new, y = f(start.filled(carry), over.filled(x))
            return start.kept(new, "scan"), out.taken(y)

        def steps(carry: Any, values: Any) -> Any:
            return fgrad.lax.scan(step, carry, values, length=length, reverse=reverse)

        last, ys = _compiled_if_long(steps, count)(start.tensors, over.tensors)
        if out.out is None:
            raise NotImplementedError(
                "fgrad's jax.lax.scan of nothing does not know what the function returns"
            )
        return start.last(last), out.results(ys)

    return _settled(init, run)  # type: ignore[no-any-return]


def _settled(init: Any, run: Callable[[_Carry], Any]) -> Any:
    """Return what a loop gives whose weak values begin with the dtype that comes back to them."""
    start = _Carry(init)
    try:
        return run(start)
    except _StrongerError as found:
        stronger = unflatten(start.structure, found.arrays)
    return _settled(stronger, run)


class _StrongerError(Exception):
    """A loop began with weak values, to which others came back: the values to begin with instead."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        self.arrays = arrays


def _carried(x: Array, old: Array) -> Any:
    if x.dtype != old.dtype and not (
        x.weak_type and promoted(((x.dtype, True), (old.dtype, False)))[0] == old.dtype
    ):
        raise TypeError(f"a carry of dtype {old.dtype} becomes {x.dtype}: give it this dtype from the start")
    return x.astype(old.dtype)._tensor


LONG = 200  # steps of a loop that take longer than to compile it


def _compiled_if_long(run: Function, steps: int) -> Function:
    """Return what runs a loop; JAX reads bodies once, so that a compiled one is no other."""
    if steps < LONG or CONFIG.jax_disable_jit:
        return run

    def compiled(*args: Any) -> Any:
        try:
            return fgrad.jit(run)(*args)
        except EscapedTensorError:  # by custom rules, whose closures only eager mode knows
            return run(*args)

    return compiled


def _begun(old: Array, new: Array) -> Array:
    """Return a weak value as what comes back to it."""
    if not old.weak_type or new.dtype == old.dtype:
        return old
    dtype, _ = promoted(((old.dtype, True), (new.dtype, new.weak_type)))
    return old.astype(dtype)


class _Carry(Flat):
    """The state of a loop, whose results are weak only as long as nothing strong came to it."""

    steps = 0  # of all loops

    def __init__(self, tree: Any) -> None:
        super().__init__(lambda x: x, tree)
        self.forms = [a.form for a in self.arrays]

    def kept(self, tree: Any, what: str) -> list[Any]:
        """Return the Tensors of what a body returned."""
        _Carry.steps += 1
        leaves, structure = flatten(tree)
        if structure != self.structure:
            raise TypeError(f"{what}: the state is {self.structure}, and the function returned {structure}")
        new = [as_array(x) for x in leaves]
        begun = [_begun(a, x) for a, x in zip(self.arrays, new, strict=True)]
        if any(b.dtype != a.dtype for a, b in zip(self.arrays, begun, strict=True)):
            raise _StrongerError(begun)
        self.forms = [w if w in OWN else w and x.weak_type for w, x in zip(self.forms, new, strict=True)]
        return [_carried(x, a) for x, a in zip(new, self.arrays, strict=True)]

    def last(self, tensors: Any) -> Any:
        """Return the state after the loop."""
        self.out = self.structure
        return self.results(tensors)


def while_loop(cond_fun: Function, body_fun: Function, init_val: Any) -> Any:
    """Return the value after `val = body_fun(val)` as long as `cond_fun(val)`."""

    def run(start: _Carry) -> Any:
        goes = inside(lambda v: as_array(cond_fun(start.filled(v)))._tensor)
        body = inside(lambda v: start.kept(body_fun(start.filled(v)), "while_loop"))
        end = _Carry.steps + LONG
        first = fgrad.lax.while_loop(lambda v: _Carry.steps < end and goes(v), body, start.tensors)
        if _Carry.steps < end:
            return start.last(first)
        return start.last(_compiled_if_long(lambda v: fgrad.lax.while_loop(goes, body, v), LONG)(first))

    return _settled(init_val, run)


def _implicit(
    found: Function, f: Function, start: Any, solvers: Sequence[Any], aux: Sequence[bool], **how: Any
) -> Any:
    """Return what is found of a function of trees by solvers, some of which return more beside it."""
    x, more = _Carry(start), _Carry(None)

    def kept(tree: Any) -> Any:
        return x.kept(tree, found.__name__)

    def solver(solve: Function, *, has_aux: bool) -> Function:
        def run(g: Function, tensors: Any) -> Any:
            out = solve(lambda tree: x.filled(g(_Carry(tree).tensors)), x.filled(tensors))
            return (kept(out[0]), more.taken(out[1])) if has_aux else kept(out)

        return inside(run)

    own = [s and solver(s, has_aux=a) for s, a in zip(solvers, aux, strict=True)]
    of_tensors = inside(lambda tensors: kept(f(x.filled(tensors))))
    out = found(of_tensors, x.tensors, *own, has_aux=aux[0], **how)
    return (x.last(out[0]), more.results(out[1])) if aux[0] else x.last(out)


def custom_root(
    f: Function, initial_guess: Any, solve: Function, tangent_solve: Function, has_aux: bool = False
) -> Any:
    """Return x with `f(x) = 0`, found by `solve` and differentiated by what it solves."""
    return _implicit(fgrad.lax.custom_root, f, initial_guess, (solve, tangent_solve), (has_aux, False))


def custom_linear_solve(
    matvec: Function, b: Any, solve: Function, transpose_solve: Function | None = None,
    symmetric: bool = False, has_aux: bool = False,
) -> Any:  # fmt: skip
    """Return x with `matvec(x) = b`, found by `solve` and differentiated by what it solves."""
    solvers, found = (solve, transpose_solve), fgrad.lax.custom_linear_solve
    return _implicit(found, matvec, b, solvers, (has_aux, has_aux), symmetric=symmetric)


def fori_loop(lower: Any, upper: Any, body_fun: Function, init_val: Any, *, unroll: Any = None) -> Any:
    """Return the value after `val = body_fun(i, val)` for i from `lower` to `upper`."""
    first, end = (as_array(v)._tensor if v.__class__ is Array else v for v in (lower, upper))
    count = end - first if isinstance(end, int) and isinstance(first, int) else 0
    kind = result_type(lower, upper)

    def run(start: _Carry) -> Any:
        @inside
        def body(i: Any, values: Any) -> Any:
            return start.kept(body_fun(as_array(i).astype(kind), start.filled(values)), "fori_loop")

        def steps(values: Any) -> Any:
            return fgrad.lax.fori_loop(first, end, body, values)

        return start.last(_compiled_if_long(steps, count)(start.tensors))

    return _settled(init_val, run)


def stop_gradient(x: Any) -> Any:
    """Return arrays through which no derivative passes."""
    return tree_map(lambda v: made(fgrad.stop_gradient(v._tensor), v.form) if v.__class__ is Array else v, x)


def scatter_add(
    operand: Any, scatter_indices: Any, updates: Any, dimension_numbers: Any, *,
    indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
) -> Array:  # fmt: skip
    """Return a copy with updates added at places, of which every other axis is whole."""
    x, indices = as_array(operand), opened(as_array(scatter_indices))
    new, how = opened(as_array(updates).astype(x.dtype)), "clip" if mode == "clip" else "drop"
    return made(fgrad.lax.scatter_add(opened(x), indices, new, dimension_numbers, how), x.form)


def associative_scan(fn: Function, elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Return all partial results of an associative `fn` along an axis."""
    flat = Flat(lambda x: x, elems)

    def combine(a: Any, b: Any) -> Any:
        found = flatten(fn(flat.filled(a), flat.filled(b)))[0]
        return [as_array(x).astype(old.dtype)._tensor for x, old in zip(found, flat.arrays, strict=True)]

    return flat.filled(fgrad.lax.associative_scan(combine, flat.tensors, reverse, axis))


# ---- of one array, and products


def _reshape(t: Any, new_sizes: Any, dimensions: Any = None) -> Any:
    return fnp.reshape(t if dimensions is None else fnp.transpose(t, dimensions), tuple(new_sizes))


def _slice(t: Any, start_indices: Any, limit_indices: Any, strides: Any = None) -> Any:
    return t[tuple(map(slice, start_indices, limit_indices, strides or [None] * len(start_indices)))]


MOVING: dict[str, tuple[Function, str]] = {  # what moves elements, and the names of its arguments
    "broadcast": (lambda t, sizes: fnp.broadcast_to(t, (*sizes, *t.shape)), "operand sizes"),
    "broadcast_in_dim": (fgrad.lax.broadcast_in_dim, "operand"),
    "dynamic_index_in_dim": (fgrad.lax.dynamic_index_in_dim, "operand"),
    "dynamic_slice": (fgrad.lax.dynamic_slice, "operand start_indices slice_sizes"),
    "dynamic_slice_in_dim": (fgrad.lax.dynamic_slice_in_dim, "operand start_index slice_size"),
    "dynamic_update_index_in_dim": (fgrad.lax.dynamic_update_index_in_dim, "operand"),
    "dynamic_update_slice": (fgrad.lax.dynamic_update_slice, "operand update start_indices"),
    "dynamic_update_slice_in_dim": (fgrad.lax.dynamic_update_slice_in_dim, "operand update start_index"),
    "index_in_dim": (fgrad.lax.dynamic_index_in_dim, "operand"),
    "pad": (fgrad.lax.pad, "operand padding_value padding_config"),
    "reduce_precision": (fgrad.lax.reduce_precision, "operand"),
    "reshape": (_reshape, "operand"),
    "rev": (lambda t, dimensions: fnp.flip(t, tuple(dimensions)), "operand"),
    "slice": (_slice, "operand"),
    "slice_in_dim": (fgrad.lax.slice_in_dim, "operand"),
    "transpose": (lambda t, permutation: fnp.transpose(t, tuple(permutation)), "operand"),
}
RUNNING = words("cumlogsumexp cummax cummin cumprod cumsum")
CONVOLUTIONS = {  # how many arrays each takes
    "conv_general_dilated": 2,
    "conv_general_dilated_local": 2,
    "conv_general_dilated_patches": 1,
    "conv_transpose": 2,
}


def reduce_window(operand: Any, init_value: Any, computation: Function, *args: Any, **kwargs: Any) -> Array:
    """Return what `computation`, which is associative, makes of the elements of every window."""
    x, init = as_array(operand), as_array(init_value)

    def combine(a: Any, b: Any) -> Any:
        return opened(computation(made(a, x.strong), made(b, x.strong)))

    return made(fgrad.lax.reduce_window(x._tensor, opened(init), combine, *args, **kwargs), x.strong)


class RoundingMethod(Enum):
    """Where halves are rounded to."""

    AWAY_FROM_ZERO, TO_NEAREST_EVEN = range(2)


def round_(x: Any, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """Return elements rounded to integers, halves away from zero unless the method says to even."""
    is_away = rounding_method is RoundingMethod.AWAY_FROM_ZERO
    return elementwise(fgrad.lax.round_half_away if is_away else fnp.rint, x)


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Return an array in order along an axis, or several in the order of the first ones."""
    several = isinstance(operand, tuple | list)
    arrays = [as_array(x) for x in (operand if several else (operand,))]
    tensors = [*map(opened, arrays[:num_keys]), *(x._tensor for x in arrays[num_keys:])]
    found = fgrad.lax.sort(tensors, dimension, num_keys)
    out = [made(t, x.strong) for t, x in zip(found, arrays, strict=True)]
    return tuple(out) if several else out[0]


def select_n(which: Any, *cases: Any) -> Array:
    """Return elements of the case that a truth value or an integer names."""
    number = opened(as_array(which))
    return elementwise(lambda *tensors: fgrad.lax.select_n(number, *tensors), *cases, keys=True)


class Precision(Enum):
    """How exactly products are computed: always in the dtype of their operands."""

    DEFAULT, HIGH, HIGHEST = range(3)


def _reduced(name: str) -> Function:
    return lambda operand, axes, **kwargs: NUMPY[name](operand, tuple(axes), **kwargs).astype(
        as_array(operand).dtype
    )


def _bits(name: str) -> Function:
    """Return the reduction of truth values, or of the bits of integers."""
    found = getattr(fnp, f"bitwise_{name}").reduce
    return lambda operand, axes, *, out_sharding=None: elementwise(
        lambda t: found(t, axis=tuple(axes)), operand
    )


def population_count(x: Any) -> Array:
    """Return how many bits are set, of negative integers in two's complement."""
    a = as_array(x)
    bits = a.astype(a.dtype.str.replace("i", "u"))
    counted: Array = NUMPY["bitwise_count"](bits).astype(a.dtype)
    return counted


def _placed(name: str) -> Function:
    return lambda operand, axis, index_dtype: NUMPY[name](operand, axis).astype(index_dtype)


def _collective(name: str) -> Function:
    found = getattr(fgrad.lax, name)

    def function(x: Any, axis_name: Any, **kwargs: Any) -> Any:
        kwargs = {k: v for k, v in kwargs.items() if v is not None}

        def one(v: Any) -> Array:
            a = as_array(v)
            out = found(a._tensor if name in ("all_gather", "ppermute") else opened(a), axis_name, **kwargs)
            if name in ("psum", "psum_scatter") and a.dtype.kind in "iu":
                out = out.astype(a.dtype)  # fgrad sums short integers as NumPy does
            return made(out, a.form)

        return tree_map(one, x)

    return named(function, f"fgrad.lax.{name}", ", for each array")


def _approximate(descending: bool) -> Function:
    return lambda operand, k, reduction_dimension=-1, recall_target=0.95: NAMES["top_k"](
        operand, k, axis=reduction_dimension, descending=descending
    )


REDUCTIONS = words("max min prod sum")
PRIMITIVES = words(  # by fgrad's names
    "absolute add arccosh arcsinh arctanh bitwise_and bitwise_or broadcast_to ceil conjugate contract "
    "convert cos cosh cumsum divide erf erfinv exp exp2 expm1 floor integer_pow log log1p maximum minimum "
    "multiply negative power reshape rsqrt sign sin sinh slice sqrt square stop_gradient subtract sum tan "
    "tanh transpose where"
)
SPECIAL = words(
    "digamma erf erf_inv:erfinv erfc igamma:gammainc igammac:gammaincc lgamma:gammaln bessel_i0e:i0e "
    "bessel_i1e:i1e regularized_incomplete_beta:betainc betainc polygamma"
)
NAMES: dict[str, Any] = {
    **renamed(
        "abs acos acosh asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor cbrt ceil "
        "cos cosh exp exp2 expm1 floor log log1p real imag conj sign sin sinh sqrt square tan tanh squeeze "
        "expand_dims nextafter reciprocal add sub:subtract mul:multiply neg:negative pow:power max:maximum "
        "min:minimum eq:equal ne:not_equal lt:less le:less_equal gt:greater ge:greater_equal "
        "is_finite:isfinite broadcast_shapes dot dtype:result_type full full_like concatenate rem:fmod "
        "shift_left:left_shift shift_right_arithmetic:right_shift",
        NUMPY,
    ),
    **{name: _collective(name) for name in words("psum pmean pmax pmin all_gather ppermute psum_scatter")},
    **{f"{p.name}_p": p for p in map(own_primitive, PRIMITIVES)},
    **{f"approx_{end}_k": _approximate(end == "max") for end in ("max", "min")},
    "clamp": lambda min, x, max: NUMPY["clip"](x, min, max),
    "axis_index": lambda axis_name: made(fgrad.lax.axis_index(axis_name)),
    "select": lambda pred, on_true, on_false: NUMPY["where"](pred, on_true, on_false),  # noqa: PLW0108 -- names
    "broadcast_to_rank": lambda x, rank: as_array(x).reshape((1,) * (rank - np.ndim(x)) + np.shape(x)),
    "convert_element_type": lambda operand, new_dtype: as_array(operand).astype(new_dtype),
    "integer_pow": lambda x, y: operator.pow(as_array(x), int(y)),
    "iota": lambda dtype, size: NUMPY["arange"](size, dtype=dtype),
    **{name: of_elements(special(found or name)) for name, _, found in (n.partition(":") for n in SPECIAL)},
    "map": lambda f, xs, *, batch_size=None: scan(lambda _, x: (None, f(x)), None, xs)[1],
    "rsqrt": lambda x: elementwise(lambda t: 1 / fnp.sqrt(t), x, inexact=True),
    **{name: of_one(with_names(*found), moved) for name, found in MOVING.items()},
    "top_k": of_one(with_names(fgrad.lax.top_k, "operand"), kept),
    **{name: of_one(getattr(fgrad.lax, name), kept) for name in RUNNING},
    **{f"arg{end}": _placed(f"arg{end}") for end in ("max", "min")},
    **{name: product(getattr(fgrad.lax, name), count, inexact=True) for name, count in CONVOLUTIONS.items()},
    **{f"reduce_{name}": _reduced(name) for name in REDUCTIONS},
    **{f"reduce_{name}": _bits(name) for name in words("and or xor")},
    "batch_matmul": lambda lhs, rhs, precision=None: NUMPY["matmul"](lhs, rhs),
    "broadcasted_iota": lambda dtype, shape, dimension: made(
        fgrad.lax.broadcast_in_dim(np.arange(shape[dimension]), shape, (dimension,))
    ).astype(dtype),
    "complex": of_elements(lambda x, y: x + 1j * y),
    "div": of_elements(fgrad.lax.div),
    "dot_general": product(fgrad.lax.dot_general),
    "logistic": of_elements(fgrad.nn.sigmoid),
    "population_count": population_count,
    "round": round_,
    **by_name(
        *(Precision, RoundingMethod, associative_scan, cond, custom_linear_solve, custom_root, fori_loop),
        *(reduce_window, scan, scatter_add, select_n, sort, stop_gradient, switch, while_loop),
    ),
    **renamed(
        "ConvDimensionNumbers ScatterDimensionNumbers conv_dimension_numbers padtype_to_pads", fgrad.lax
    ),
}
NAMES["conv"] = NAMES["conv_general_dilated"]
