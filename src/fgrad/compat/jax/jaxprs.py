"""JAX's jaxprs and primitives: views of fgrad's programs, and operations with rules of the user's own."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

import fgrad
from fgrad import numpy as fnp
from fgrad.compat.jax.arrays import Array, Form, as_array, form_of, from_program, made
from fgrad.compat.jax.avals import (
    ShapedArray,
    ShapeDtypeStruct,
    SymbolicZero,
    asked,
    example,
    filled_in,
    shaped,
    typeof,
)
from fgrad.compat.jax.transformations import Flat, Function, several, without_static
from fgrad.compat.jax.trees import TREE_UTIL, flatten, register_pytree_node, unflatten
from fgrad.compat.jax.types import CONFIG, KEY
from fgrad.compat.standins import by_name, words
from fgrad.core import program as programs
from fgrad.core.aval import Aval
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.tensor import Tensor, is_traced, is_tracked
from fgrad.core.trace import Tracer, current
from fgrad.extend import jaxprs
from fgrad.extend.jaxprs import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var
from fgrad.transforms.operations import Operation

JVPS: dict[Primitive, Function] = {}
TRANSPOSES: dict[Primitive, Function] = {}
BATCHERS: dict[Primitive, Function] = {}
AXIS_BATCHERS: dict[Primitive, Function] = {}


# ---- primitives


class Zero(SymbolicZero):
    """A tangent or cotangent that is known to be zero."""


@dataclasses.dataclass
class UndefinedPrimal:
    """An operand in which a primitive is to be transposed."""

    aval: Any


for _class in (Zero, UndefinedPrimal):
    register_pytree_node(_class, lambda z: ((), z.aval), lambda aval, _, cls=_class: cls(aval))


def instantiate_zeros(x: Any) -> Any:
    """Return a tangent, zeros in the place of what only says so."""
    return filled_in(x) if isinstance(x, SymbolicZero) else x


def _opened(x: Any) -> Any:
    return None if x is None or isinstance(x, SymbolicZero) else as_array(x)._tensor


def _shaped(aval: Aval) -> ShapedArray:
    are_keys = aval.dtype == np.uint64 and not CONFIG.jax_enable_x64  # nothing else has such integers then
    return ShapedArray(aval.shape, KEY if are_keys else aval.dtype)


class Primitive:
    """An operation, whose rules are in `interpreters.ad` and `interpreters.batching`."""

    multiple_results = call_primitive = map_primitive = False
    impl: Function | None = None
    abstract_eval: Function | None = None
    lowering: Function | None = None  # what compiled programs hold in its place
    _operation: Operation | None = None

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def def_impl(self, impl: Function) -> Function:
        self.impl = impl
        return impl

    def def_abstract_eval(self, rule: Function) -> Function:
        """Declare the rule for shapes: from abstract arrays to such."""
        self.abstract_eval = rule
        return rule

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters that `bind` takes for those of an equation."""
        return params

    def bind(self, /, *args: Any, **params: Any) -> Any:
        if self._operation is None:
            rules = {rule: getattr(self, f"_{rule}") for rule in words("run shape jvp transpose batch")}
            self._operation = Operation(self.name, many=True, traced=self.lowering is not None, **rules)
            OWN[self._operation.primitive] = self
        outs = [from_program(o) for o in self._operation(*(as_array(a)._tensor for a in args), **params)]
        return outs if self.multiple_results else outs[0]

    def _several(self, out: Any) -> list[Any]:
        return list(out) if self.multiple_results else [out]

    def _needed(self, rule: Function | None, what: str) -> Function:
        if rule is None:
            raise NotImplementedError(f"{what} rule for '{self.name}' not implemented")
        return rule

    def _run(self, /, *args: Any, **params: Any) -> list[Any]:
        found = self._needed(self.lowering or self.impl, "Evaluation")(*map(from_program, args), **params)
        return [_opened(o) for o in self._several(found)]

    def _shape(self, /, *avals: Aval, **params: Any) -> list[Any]:
        rule = self._needed(self.abstract_eval, "Abstract evaluation")
        return self._several(rule(*map(_shaped, avals), **params))

    def _jvp(self, primals: Any, tangents: Any, /, **params: Any) -> Any:
        rule = self._needed(JVPS.get(self), "Differentiation")
        values = tuple(map(from_program, primals))
        given = [Zero(typeof(p)) if t is None else made(t) for p, t in zip(values, tangents, strict=True)]
        _, out = rule(values, given, **params)
        return None, [None if t is None else _opened(t) for t in self._several(out)]

    def _transpose(self, cts: Any, /, *args: Any, **params: Any) -> list[Any]:
        rule = self._needed(TRANSPOSES.get(self), "Transpose")
        avals = [a if isinstance(a, Aval) else Aval(a.shape, a.dtype) for a in args]
        if any(c is None for c in cts):
            outs = self._shape(*avals, **params)
            given = [Zero(o) if c is None else made(c) for c, o in zip(cts, outs, strict=True)]
        else:
            given = [made(c) for c in cts]
        values = [UndefinedPrimal(_shaped(a)) if isinstance(a, Aval) else from_program(a) for a in args]
        found = rule(given if self.multiple_results else given[0], *values, **params)
        return [_opened(c) for c in found]

    def _batch(self, mapped: Sequence[bool], /, *values: Any, **params: Any) -> tuple[list[Any], list[bool]]:
        args, dims = [from_program(v) for v in values], tuple(0 if m else None for m in mapped)
        if self in BATCHERS:
            found, axes = BATCHERS[self](args, dims, **params)
        else:
            rule = self._needed(AXIS_BATCHERS.get(self), "Batching")
            size = next(v.shape[0] for v, m in zip(values, mapped, strict=True) if m)
            found, axes = rule(size, None, None, args, dims, **params)
        pairs = list(zip(self._several(found), self._several(axes), strict=True))
        moved = [_opened(o) if a in (None, 0) else fnp.moveaxis(_opened(o), a, 0) for o, a in pairs]
        return moved, [a is not None for _, a in pairs]


class OwnPrimitive(Primitive):
    """An operation of fgrad's, in a program."""

    def __init__(self, name: str, own: str) -> None:
        super().__init__(name)
        self.own, self.multiple_results = own, own in PRIMITIVES and PRIMITIVES[own].many

    def bind(self, /, *args: Any, **params: Any) -> Any:
        if self.own not in PRIMITIVES:
            raise NotImplementedError(f"fgrad has no jax.lax.{self.name}_p: call jax.lax.{self.name}")
        values = [a._tensor if a.__class__ is Array else a for a in args]
        out = programs.applied(PRIMITIVES[self.own], values, params)
        return [from_program(o) for o in out] if self.multiple_results else from_program(out)

    impl = bind


class CustomCall(Primitive):
    """A function with a derivative of its own, in a program."""

    multiple_results = True

    def bind(self, /, *args: Any, region: programs.Region, **_: Any) -> Any:
        values = [a._tensor if a.__class__ is Array else a for a in args[: len(region.args)]]
        return [from_program(o) for o in region.primitive.apply(*values, **region.params)]  # type: ignore[misc]

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters that `bind` takes, with the function itself."""
        return params | {"subfuns": [Wrapped(jaxpr_as_fun(params["call_jaxpr"]))]}


@dataclasses.dataclass(frozen=True)
class Wrapped:
    """A function, as `jax.extend.linear_util` hands it on."""

    call_wrapped: Function


CUSTOM_JVP, CUSTOM_VJP = CustomCall("custom_jvp_call"), CustomCall("custom_vjp_call")
_NAMES = {
    "multiply": "mul", "subtract": "sub", "negative": "neg", "divide": "div", "true_divide": "div",
    "power": "pow", "maximum": "max", "minimum": "min", "greater": "gt", "less": "lt", "greater_equal": "ge",
    "less_equal": "le", "equal": "eq", "not_equal": "ne", "convert": "convert_element_type",
    "broadcast_to": "broadcast_in_dim", "contract": "dot_general", "where": "select_n", "bitwise_and": "and",
    "bitwise_or": "or", "absolute": "abs", "sum": "reduce_sum", "erfinv": "erf_inv", "conjugate": "conj",
    "arctan2": "atan2", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh",
    "arccosh": "acosh", "arctanh": "atanh", "max": "reduce_max", "min": "reduce_min", "prod": "reduce_prod",
}  # fmt: skip
OWN: dict[str, Primitive] = {}  # by fgrad's name


def own_primitive(name: str) -> Primitive:
    """Return what stands for the primitive that fgrad calls `name`."""
    if name not in OWN:
        OWN[name] = OwnPrimitive(_NAMES.get(name, name.rpartition(".")[2]), name)
    return OWN[name]


# ---- jaxprs


class Reader(jaxprs.Reader):
    """Reads programs as jaxprs of arrays and of JAX's primitives."""

    def aval(self, aval: Aval) -> ShapedArray:
        return _shaped(aval)

    def value(self, x: Any) -> Array:
        return from_program(x) if isinstance(x, Tensor | np.ndarray | np.generic) else as_array(x)

    def number(self, x: Any, aval: ShapedArray) -> Any:
        return from_program(x) if aval.dtype is KEY else super().number(x, aval)

    def primitive(self, name: str) -> Primitive:
        return own_primitive(name)

    def call(self, region: programs.Region) -> Primitive:
        return CUSTOM_JVP if "Jvp" in type(region.params.get("rule")).__name__ else CUSTOM_VJP


def _viewed(
    program: programs.Program, outside: Sequence[Tensor], in_forms: Sequence[Form], out_forms: Sequence[Form]
) -> ClosedJaxpr:
    closed = Reader(program).closed(outside)
    variables = [*closed.jaxpr.invars, *closed.jaxpr.outvars]
    for v, form in zip(variables, [*in_forms, *out_forms], strict=True):
        known = shaped(v.aval, form)
        v.aval = v.aval.update(dtype=known.dtype, weak_type=known.weak_type)
    return closed


def make_jaxpr(
    fun: Function, static_argnums: Any = (), axis_env: Any = None, return_shape: bool = False
) -> Function:
    """Return the function that returns `fun` as a jaxpr, for arguments like those that it gets."""
    if axis_env:
        raise NotImplementedError(
            "fgrad's jax.make_jaxpr has no axis_env: call jax.vmap with axis_name in fun"
        )

    def make(*args: Any, **kwargs: Any) -> Any:
        flat = without_static(fun, several(static_argnums), args, kwargs, example)
        program, outside = flat.staged()
        closed = _viewed(program, outside, [a.form for a in flat.arrays], flat.forms)
        if not return_shape:
            return closed
        shapes = [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in closed.out_avals]
        return closed, unflatten(flat.out, shapes)

    return make


def wrap_init(fun: Function, params: Any = None, *, debug_info: Any = None) -> Wrapped:
    """Return a function with parameters that it is called with."""
    return Wrapped(functools.partial(fun, **params) if params else fun)


def flatten_fun(fun: Wrapped, in_tree: Any) -> tuple[Wrapped, Function]:
    """Return a function of leaves and to leaves, and what returns the structure of its last results."""
    out: list[Any] = []

    def flat(*leaves: Any) -> list[Any]:
        args, kwargs = unflatten(in_tree, leaves)
        found, structure = flatten(fun.call_wrapped(*args, **kwargs))
        out[:] = [structure]
        return found

    return Wrapped(flat), lambda: out[0]


def flatten_fun_nokwargs(fun: Wrapped, in_tree: Any) -> tuple[Wrapped, Function]:
    """Return the same as `flatten_fun` for a function without named arguments."""
    return flatten_fun(fun, TREE_UTIL["treedef_tuple"]((in_tree, flatten({})[1])))


def trace_to_jaxpr(fun: Wrapped, avals: Sequence[Any]) -> tuple[Jaxpr, list[Any], list[Any]]:
    """Return a function of leaves as a jaxpr, what is known of its results, and its constants."""
    closed = make_jaxpr(fun.call_wrapped)(*avals)
    return closed.jaxpr, closed.out_avals, closed.consts


class PartialVal(NamedTuple):
    """What is known of a value: its shape and dtype in the place of None, or the value."""

    pval: Any
    const: Any

    @classmethod
    def known(cls, const: Any) -> PartialVal:
        return cls(None, const)

    @classmethod
    def unknown(cls, aval: Any) -> PartialVal:
        return cls(aval, None)

    def is_known(self) -> bool:
        return self.pval is None


def trace_to_jaxpr_nounits(
    fun: Wrapped, pvals: Sequence[PartialVal], instantiate: bool = False
) -> tuple[Jaxpr, list[PartialVal], list[Any]]:
    """Return the part of a function of leaves that depends on what is unknown, as a jaxpr, with constants.

    Between these stands what is known of the results: what is computed of known values alone is computed now.
    """
    if instantiate:
        raise NotImplementedError("fgrad's trace_to_jaxpr_nounits leaves what is known out of the jaxpr")

    def call(values: Sequence[Any]) -> Any:
        given = iter(values)
        return fun.call_wrapped(*(p.const if p.is_known() else next(given) for p in pvals))

    flat = Flat(call, example([p.pval for p in pvals if not p.is_known()]))
    program, outside = flat.staged(greedy=False)
    known = dict(zip(program.inputs, outside, strict=False))
    out = []
    for y, form in zip(program.outputs, flat.forms, strict=True):
        value = known.get(y) if isinstance(y, programs.Var) else y
        if value is None:
            out.append(PartialVal.unknown(typeof(shaped(y.aval, form))))
        else:
            out.append(PartialVal.known(made(value, form)))
    closed = _viewed(program, outside, [a.form for a in flat.arrays], flat.forms)
    outvars = [v for v, found in zip(closed.jaxpr.outvars, out, strict=True) if not found.is_known()]
    return closed.jaxpr.replace(outvars=outvars), out, closed.consts


def eval_jaxpr(
    jaxpr: Jaxpr, consts: Sequence[Any], *args: Any, propagate_source_info: bool = True
) -> list[Any]:
    """Return the results of a jaxpr; every equation is applied anew, so that it differentiates."""
    found = jaxprs.eval_jaxpr(jaxpr, list(map(as_array, consts)), *map(as_array, args))
    pairs = zip(map(as_array, found), jaxpr.outvars, strict=True)
    return [made(y._tensor, form_of(v.aval.dtype, v.aval.weak_type)) for y, v in pairs]


def jaxpr_as_fun(closed: ClosedJaxpr) -> Function:
    """Return the function of a jaxpr: of its arguments, in a list of results."""
    return lambda *args: eval_jaxpr(closed.jaxpr, closed.consts, *args)


def closure_convert(fun: Function, *args: Any) -> tuple[Function, list[Any]]:
    """Return `fun` as a function of what it takes from outside too, and that: what is traced there."""
    closed, shape = make_jaxpr(fun, return_shape=True)(*args)
    traced = [is_traced(c._tensor) for c in closed.consts]  # now: later their trace may have ended
    hoisted = [c for c, t in zip(closed.consts, traced, strict=True) if t]
    structure, n = flatten(shape)[1], len(args)

    def converted(*given: Any) -> Any:
        outside = iter(given[n:])
        consts = [next(outside) if t else c for c, t in zip(closed.consts, traced, strict=True)]
        return unflatten(structure, eval_jaxpr(closed.jaxpr, consts, *flatten((list(given[:n]), {}))[0]))

    return converted, hoisted


def linear_transpose(fun: Function, *primals: Any, reduce_axes: Any = ()) -> Function:
    """Return the transpose of a function that is linear in its arguments, of which only shapes are needed."""
    flat = Flat(lambda xs: fun(*xs), example(list(primals)))
    transposed = fgrad.linear_transpose(flat, *flat.tensors)

    def pulled(ct: Any) -> tuple[Any, ...]:
        return tuple(flat.filled(transposed([as_array(c)._tensor for c in flatten(ct)[0]])))

    return pulled


# ---- traces


class _Top:
    """The innermost transformation that follows a value."""

    def __init__(self, traces: Iterable[Any]) -> None:
        self.main = max(traces, key=lambda t: t.level, default=None)


def _traces(x: Any) -> list[Any]:
    t = as_array(x)._tensor
    live = current().traces  # a value remembers tapes whose transformation has ended too
    found = [n.tape for n in t._nodes if n.tape in live]
    return [*found, t._value.trace] if isinstance(t._value, Tracer) else found


def find_top_trace(xs: Iterable[Any]) -> _Top:
    """Return the innermost transformation that follows one of the values."""
    return _Top(t for x in xs for t in _traces(x))


Array._trace = property(lambda self: _Top(_traces(self)))  # type: ignore[attr-defined]


def _mapped_aval(size: int, axis: int | None, aval: Any) -> Any:
    return aval if axis is None else aval.update(shape=aval.shape[:axis] + aval.shape[axis + 1 :])


def _unmapped_aval(size: int, axis: int | None, aval: Any) -> Any:
    return aval if axis is None else aval.update(shape=(*aval.shape[:axis], size, *aval.shape[axis:]))


def _ignored(*_: Any, **__: Any) -> None:
    return None


def register_lowering(prim: Primitive, rule: Any, platform: str | None = None, **_: Any) -> None:
    """Declare what `lower_fun` returned for a primitive; for programs of XLA there is no compiler."""
    if isinstance(rule, Wrapped):
        prim.lowering = rule.call_wrapped


CORE: dict[str, Any] = {
    "AbstractValue": ShapedArray,
    "Atom": Var | Literal,
    "get_aval": typeof,
    "mapped_aval": _mapped_aval,
    "unmapped_aval": _unmapped_aval,
    **by_name(
        *(ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Primitive, ShapedArray, Var),
        *(eval_jaxpr, find_top_trace, jaxpr_as_fun),
    ),
}
API: dict[str, Any] = {
    "debug_info": _ignored,
    "shaped_abstractify": typeof,
    **by_name(flatten_fun, flatten_fun_nokwargs),
}
PARTIAL_EVAL: dict[str, Any] = {
    "trace_to_jaxpr_dynamic": trace_to_jaxpr,
    **by_name(PartialVal, trace_to_jaxpr_nounits),
}
AD: dict[str, Any] = {
    "is_undefined_primal": lambda x: type(x) is UndefinedPrimal,
    "primitive_jvps": JVPS,
    "primitive_transposes": TRANSPOSES,
    "JVPTracer": asked("JVPTracer", is_tracked),
    **by_name(UndefinedPrimal, Zero, instantiate_zeros),
}
BATCHING: dict[str, Any] = {
    "axis_primitive_batchers": AXIS_BATCHERS,
    "not_mapped": None,
    "primitive_batchers": BATCHERS,
}
MLIR: dict[str, Any] = {
    "lower_fun": lambda fun, multiple_results=True: Wrapped(fun),
    "register_lowering": register_lowering,
}
