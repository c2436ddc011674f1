"""New operations: elementwise ones from a scalar body, linear ones from their adjoint, or custom rules.

A body says what one element computes; derivatives of every order, batching, shapes and tracing follow.
`fgrad.testing.check_primitive` checks a declared primitive in every column, `fgrad.testing.check_grads` any
function.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from fgrad.backend.array import DeviceArray
from fgrad.core.aval import Aval
from fgrad.core.dispatch import bind
from fgrad.core.placement import device_of
from fgrad.core.primitive import PRIMITIVES, Rule
from fgrad.core.stored import PLAIN
from fgrad.core.tensor import Tensor
from fgrad.expr.atoms import ATOMS
from fgrad.expr.node import Expr, Operand, apply, postorder, var, variables
from fgrad.extend.jaxprs import eval_jaxpr, make_jaxpr
from fgrad.names import offered as _offered
from fgrad.numpy.arrays import as_value
from fgrad.ops.elementwise import composed, declare_body, floating
from fgrad.ops.linear import convert
from fgrad.ops.linear import linear as declare_linear
from fgrad.transforms.custom import Function, custom_jvp, custom_vjp
from fgrad.transforms.operations import Operation as _Operation
from fgrad.transforms.operations import free_name

__all__ = [
    "Function",
    "absolute",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "cbrt",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "custom_jvp",
    "custom_vjp",
    "degrees",
    "device_memory",
    "elementwise",
    "equal",
    "eval_jaxpr",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "fmod",
    "greater",
    "greater_equal",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "linear",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_not",
    "logical_or",
    "make_jaxpr",
    "maximum",
    "minimum",
    "not_equal",
    "operation",
    "power",
    "radians",
    "reciprocal",
    "remainder",
    "rint",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
    "where",
]

Operation = Callable[..., Any]
Word = Callable[..., Expr]


# ---- the words of a body


def _word(name: str, atom: str | None = None) -> Word:
    """Return the function that applies an atom to scalar expressions and numbers."""
    head = atom or name
    arity = ATOMS[head].arity

    def word(*operands: Operand) -> Expr:
        if len(operands) != arity:
            raise TypeError(
                f"{name} takes {arity} operand{'s' * (arity > 1)} in a scalar body, not {len(operands)}"
            )
        for x in operands:
            if isinstance(x, bool) or not isinstance(x, Expr | int | float):
                raise TypeError(
                    f"{name} in a scalar body takes expressions and numbers, not {x!r}; "
                    "x == y is decided while the body is read, so compare by equal(x, y) or not_equal(x, y)"
                )
        return apply(head, *operands)

    word.__name__ = word.__qualname__ = name
    word.__doc__ = _described(name, arity, gives_truth=ATOMS[head].gives_truth)
    return word


_WORD = """Return `{name}` of scalar expressions, for the body of an elementwise operation.

Args:
    operands: {operands}.

Returns:
    A scalar expression{what}.

Raises:
    TypeError: another number of operands, or one that is neither an expression nor a number.

Derivative:
    {slope}.

Example:
    >>> from fgrad.extend import {words}
    >>> f = elementwise(lambda {params}: {body})
    >>> np.allclose(f({points}), np.{name}({given}))
    True
"""
_CONDITIONS = {"logical_and", "logical_or", "logical_not", "where"}  # the words that take truths


def _described(name: str, arity: int, *, gives_truth: bool) -> str:
    """Return the docstring of a word."""
    params = ["x", "y"][:arity]
    given = ["x > 1", "x", "y"] if name == "where" else params
    if name in _CONDITIONS - {"where"}:
        given = [f"{p} > 1" for p in params]
    body = f"{name}({', '.join(given)})"
    points = dict(zip(params, ("1.5", "0.5") if name == "arccosh" else ("0.5", "1.5"), strict=False))
    return _WORD.format(
        name=name,
        operands="a truth and two numbers"
        if name == "where"
        else "truths"
        if name in _CONDITIONS
        else "numbers",
        what=", a truth: a condition of `where`" if gives_truth else "",
        slope="None: a truth is constant" if gives_truth else f"As of `fgrad.numpy.{name}`",
        words=", ".join(
            ["elementwise", *([name] if name == "where" or not gives_truth else [name, "where"])]
        ),
        params=", ".join(params),
        body=f"where({body}, 1, 0)" if gives_truth else body,
        points=", ".join(points.values()),
        given=", ".join([" ".join(points.get(part, part) for part in g.split()) for g in given]),
    )


absolute: Word = _word("absolute", "fabs")
arccos: Word = _word("arccos")
arccosh: Word = _word("arccosh")
arcsin: Word = _word("arcsin")
arcsinh: Word = _word("arcsinh")
arctan: Word = _word("arctan")
arctan2: Word = _word("arctan2")
arctanh: Word = _word("arctanh")
cbrt: Word = _word("cbrt")
ceil: Word = _word("ceil")
copysign: Word = _word("copysign")
cos: Word = _word("cos")
cosh: Word = _word("cosh")
degrees: Word = _word("degrees")
equal: Word = _word("equal")
exp: Word = _word("exp")
exp2: Word = _word("exp2")
expm1: Word = _word("expm1")
floor: Word = _word("floor")
floor_divide: Word = _word("floor_divide")
fmod: Word = _word("fmod")
greater: Word = _word("greater")
greater_equal: Word = _word("greater_equal")
hypot: Word = _word("hypot")
isfinite: Word = _word("isfinite")
isinf: Word = _word("isinf")
isnan: Word = _word("isnan")
less: Word = _word("less")
less_equal: Word = _word("less_equal")
log: Word = _word("log")
log10: Word = _word("log10")
log1p: Word = _word("log1p")
log2: Word = _word("log2")
logaddexp: Word = _word("logaddexp")
logaddexp2: Word = _word("logaddexp2")
logical_and: Word = _word("logical_and")
logical_not: Word = _word("logical_not")
logical_or: Word = _word("logical_or")
maximum: Word = _word("maximum")
minimum: Word = _word("minimum")
not_equal: Word = _word("not_equal")
power: Word = _word("power")
radians: Word = _word("radians")
reciprocal: Word = _word("reciprocal")
remainder: Word = _word("remainder")
rint: Word = _word("rint")
sign: Word = _word("sign")
sin: Word = _word("sin")
sinh: Word = _word("sinh")
sqrt: Word = _word("sqrt")
square: Word = _word("square")
tan: Word = _word("tan")
tanh: Word = _word("tanh")
trunc: Word = _word("trunc")
where: Word = _word("where")


# ---- element-wise operations


@overload
def elementwise(body: Callable[..., Any]) -> Operation: ...
@overload
def elementwise(*, name: str) -> Callable[[Callable[..., Any]], Operation]: ...
def elementwise(body: Callable[..., Any] | None = None, *, name: str | None = None) -> Any:
    """Return the elementwise operation whose scalar code is `body`; usable as a decorator.

    Args:
        body: takes one scalar expression per operand and returns an expression made of them by numbers,
            `+ - * / ** < <= > >=`, `abs` and the words of this module (`exp`, `where`, `equal`, ...). It runs
            once, when it is declared. Numeric defaults become operands.
        name: what programs and messages call the operation; that of `body` by default.

    Returns:
        A function of arrays, Tensors and numbers that broadcasts like NumPy's ufuncs. Integers promote to the
        default float. Complex operands are computed; they have derivatives where every word is holomorphic.

    Raises:
        TypeError: `body` is not a function of positional parameters, does not use one of them, or does not
            return an expression of them.

    Derivative:
        Of every order, by the slopes of the words; a zero cotangent wins over an infinite slope.

    Example:
        >>> import fgrad
        >>> @elementwise
        ... def softplus(x):
        ...     return maximum(x, 0) + log1p(exp(-absolute(x)))
        >>> float(fgrad.grad(softplus)(0.0))
        0.5
    """
    if body is None:
        return functools.partial(_elementwise, name=name)
    return _elementwise(body, name=name)


def _elementwise(body: Callable[..., Any], *, name: str | None) -> Operation:
    names, signature = _parameters(body, name)
    title = name or names[0]
    params = tuple(var(f"x{i}") for i in range(len(names) - 1))
    result = _traced(body, title, params, names[1:])
    primitive = _declared(f"{body.__module__}.{title}", params, result)

    @functools.wraps(body)
    def operation(*operands: Any, **keywords: Any) -> Any:
        if keywords or len(operands) != len(params):
            given = signature.bind(*operands, **keywords)
            given.apply_defaults()
            operands = given.args
        return bind(primitive, *_promoted(operands))

    operation.primitive = primitive  # type: ignore[attr-defined]
    return operation


def _parameters(body: Any, name: str | None) -> tuple[list[str], inspect.Signature]:
    """Return the name of a body and of its parameters, and its signature."""
    if not inspect.isroutine(body) or isinstance(body, np.ufunc):
        raise TypeError(
            f"elementwise declares an operation by a function of scalar expressions, not by {body!r}"
        )
    title = body.__name__ if body.__name__.isidentifier() else "body"
    signature = inspect.signature(body)
    for p in signature.parameters.values():
        if p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            raise TypeError(
                f"elementwise: the parameters of {name or title} are its operands, so they are named one by "
                f"one and positional; {str(p)!r} is not"
            )
        if p.default is not p.empty and not isinstance(p.default, int | float):
            raise TypeError(
                f"elementwise: the default of {p.name!r} in {name or title} must be a number, "
                f"not {p.default!r}"
            )
    if not signature.parameters:
        raise TypeError(f"elementwise: {name or title} has no parameters, so it has no operands")
    return [title, *signature.parameters], signature


def _traced(body: Callable[..., Any], title: str, params: Sequence[Expr], names: Sequence[str]) -> Expr:
    """Return the expression that a body makes of its parameters, checked."""
    try:
        result = body(*params)
    except TypeError as error:
        raise TypeError(
            f"elementwise: the body of {title} does not work on scalar expressions: {error}. It may use "
            "numbers, operators and the functions of fgrad.extend (exp, where, ...), not of numpy or math"
        ) from error
    if not isinstance(result, Expr):
        raise TypeError(
            f"elementwise: the body of {title} must return one expression of its parameters, not {result!r}"
        )
    for p, name in zip(params, names, strict=True):
        if p not in variables(result):
            raise TypeError(
                f"elementwise: the body of {title} does not use its parameter {name!r}; leave it out"
            )
    for e in postorder(result):
        conditions = ATOMS[e.head].conditions if e.args else ()
        numbers = [a for i, a in enumerate(e.args) if i not in conditions]
        for a in numbers if e is not result else [*numbers, result]:
            if a.args and ATOMS[a.head].gives_truth:
                raise TypeError(
                    f"elementwise: the body of {title} uses the truth value of {a.head} as a number; "
                    "write where(condition, 1, 0)"
                )
    return result


def _declared(name: str, params: tuple[Expr, ...], body: Expr) -> str:
    """Return the name of the primitive of `body`; one that is taken by another body gets a number."""
    free = free_name(
        name,
        lambda primitive: (
            primitive.body is not None and primitive.body.result is body and primitive.body.params == params
        ),
    )
    if free not in PRIMITIVES:
        declare_body(free, params, body, composed(params, body))
    return free


def _promoted(operands: Sequence[Any]) -> list[Any]:
    """Return operands as arrays, Tensors and numbers; integers as floats."""
    values = [
        x if isinstance(x, float | complex) else float(x) if isinstance(x, int) else as_value(x)
        for x in operands
    ]
    dtype = floating(values)
    return [convert(x, dtype) if hasattr(x, "dtype") and x.dtype.kind in "biu" else x for x in values]


# ---- linear operations


def device_memory(x: Any) -> Any:
    """Return the memory of a Tensor on a CUDA device, for kernels of your own (`numba.cuda.jit`, CuPy).

    Args:
        x: a Tensor on a device. Kernels may write to it only if it is new (`fgrad.numpy.empty`) and not
            yet used elsewhere.

    Returns:
        CuPy's array, which shares the memory; in the simulator an array of NumPy.

    Raises:
        TypeError: `x` is not on a CUDA device.
        NoValueError: `x` has no value here, as in a function that is mapped or traced.

    Derivative:
        None: what a kernel does is not recorded; `custom_vjp` gives it a rule.

    Example:
        docs/cuda.md
    """
    value = x._concrete("device_memory") if isinstance(x, Tensor) else x
    if not isinstance(value, DeviceArray):
        raise TypeError(
            f"device_memory takes a Tensor on a CUDA device, but this {type(x).__name__} is on "
            f'{device_of(x)!r}; move it there first: t.to("cuda")'
        )
    return value.place.library.native(value.buffer)


def linear(
    name: str, *, run: Rule, adjoint: Rule, shape: Rule | None = None, batch: Rule | None = None
) -> Operation:
    """Return a linear operation of one operand; its derivative is itself, its transpose the adjoint.

    Args:
        name: what programs and messages call it.
        run: (array, **params) -> array; linear in the array, which it leaves alone.
        adjoint: (cotangent, aval of the operand, **params) -> cotangent of the operand, by functions that
            take arrays and Tensors.
        shape: (aval, **params) -> aval; None runs the operation on ones where the shape is asked for.
        batch: (array with a batch axis first, **params) -> the same map of every example; None loops.

    Returns:
        A function of an array, Tensor or number, and of the parameters as keywords.

    Raises:
        TypeError: the name is not an identifier, or a rule is not a function.

    Derivative:
        Of every order: forward mode applies the operation to tangents, reverse mode the adjoint to
        cotangents.

    Example:
        >>> import fgrad
        >>> mirror = linear("mirror", run=lambda x: x[::-1], adjoint=lambda ct, x: ct[::-1])
        >>> fgrad.grad(lambda x: (mirror(x) * np.array([1.0, 2.0])).sum())(np.ones(2))
        array([2., 1.])
    """
    _check("linear", name, {"run": run, "adjoint": adjoint}, {"shape": shape, "batch": batch})

    def fitted(ct: Any, aval: Aval, **params: Any) -> Any:
        back = as_value(adjoint(ct, aval, **params))
        if tuple(back.shape) != tuple(aval.shape):
            raise ValueError(
                f"the adjoint of {name} returned a cotangent of shape {tuple(back.shape)} "
                f"for an operand of shape {tuple(aval.shape)}"
            )
        return convert(back, aval.dtype)

    primitive = free_name(f"{adjoint.__module__}.{name}")
    declare_linear(primitive, run=run, adjoint=fitted, shape=shape, batch=batch, stored=PLAIN)  # type: ignore[arg-type]

    def operation(x: Any, **params: Any) -> Any:
        return bind(primitive, as_value(x), **params)

    operation.__name__ = operation.__qualname__ = name
    operation.__module__ = adjoint.__module__
    operation.__doc__ = f"Return the linear operation `{name}` of an array, Tensor or number."
    operation.primitive = primitive  # type: ignore[attr-defined]
    return operation


# ---- operations with a rule for each transformation


def operation(
    name: str,
    *,
    run: Rule,
    shape: Rule | None = None,
    jvp: Rule | None = None,
    transpose: Rule | None = None,
    batch: Rule | None = None,
    many: bool = False,
) -> Operation:
    """Return an operation of your own, with one rule for each transformation.

    Rules other than `run` get arrays or Tensors, and compute by functions that take both, and by the
    operation itself. Where one is missing, the transformation that needs it says so.

    Args:
        name: what programs and messages call it.
        run: (*arrays, **params) -> array, by any code; it leaves its operands alone.
        shape: (*avals, **params) -> something with `shape` and `dtype`; None runs the operation on ones where
            the shape is asked for.
        jvp: (primals, tangents, **params) -> (out, tangent), linear in the tangents, of which those that are
            zero are None; so may be the one of the result. Reverse mode transposes it.
        transpose: (cotangent, *operands, **params) -> one cotangent per operand. In the place of operands
            in which the operation is linear, and whose cotangents are asked for, stand their avals. It is
            needed where rules `jvp` apply the operation to tangents, and by `linear_transpose`.
        batch: (mapped, *operands, **params) -> (out, out_mapped): operands that are mapped, and results that
            are, have an axis of examples first. None computes one example after the other.
        many: whether it returns a tuple: what is said of results above is then said of tuples.

    Returns:
        A function of arrays, Tensors and numbers, and of parameters as keywords.

    Raises:
        TypeError: the name is not an identifier, or a rule is not a function.

    Derivative:
        Of every order that the rules have.

    Example:
        >>> import fgrad
        >>> def push(primals, tangents):
        ...     (x,), (t,) = primals, tangents
        ...     return cube(x), 3 * x * x * t
        >>> cube = operation("cube", run=lambda x: x**3, jvp=push)
        >>> fgrad.grad(fgrad.grad(cube))(2.0)
        np.float64(12.0)
    """
    rules: dict[str, Any] = {"shape": shape, "jvp": jvp, "transpose": transpose, "batch": batch}
    _check("operation", name, {"run": run}, rules)
    return _Operation(name, many=many, run=run, **rules)


def _check(what: str, name: Any, needed: Mapping[str, Any], optional: Mapping[str, Any]) -> None:
    """Refuse a name that is no identifier, and rules that are no functions."""
    if not isinstance(name, str) or not name.isidentifier():
        raise TypeError(f"{what}: the name of an operation is an identifier, not {name!r}")
    for column, rule in {**needed, **optional}.items():
        if not callable(rule) and (rule is not None or column in needed):
            raise TypeError(f"{what}: {column} of {name} must be a function, not {rule!r}")


def __dir__() -> list[str]:
    return _offered(globals())
