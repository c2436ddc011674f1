"""Writes the stubs of `fgrad.numpy`, by which type checkers know its functions: `python -m tests.stubs`.

The functions themselves take `Any`, as they make arrays of what they are given. What a user may give follows
from the name of the parameter, which NumPy uses alike everywhere; `PARAMETERS` says it once. A result is a
Tensor where an argument is one, so each function gets an overload for a Tensor in the place of each array.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np

import fgrad
from fgrad.compat.numpy import NO_VALUE
from fgrad.numpy.registry import Binary, Paired, Ufunc, Unary

MODULES = ("fgrad.numpy", "fgrad.numpy.linalg", "fgrad.numpy.fft")
HEADER = '''"""Types of what this module offers: written by `python -m tests.stubs`."""

from builtins import bool as _bool
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Literal, NamedTuple, SupportsIndex, TypeVar, overload

import numpy as np

from fgrad.core.tensor import Tensor
from fgrad.numpy.registry import Binary, Paired, Unary
from fgrad.numpy.typing import Array, ArrayLike, Axis, Casting, DType, Norm, Order, Shape

_A = TypeVar("_A")
'''
OPTIONAL = "ArrayLike | None"
NUMBERS = "Sequence[SupportsIndex] | None"

# type -> parameters, as `name` everywhere or `function.name` for one; what is not here keeps its annotation
TYPES = {
    "ArrayLike": """
        A a a1 a2 ar ar1 ar2 arr array ary arys b base beta bins choices condition condlist d default
        digitize.bins dx element f filt fill_value fp ind indices initial keys m mask multi_index obj object p
        period prototype q repeats roll.shift sample seq_of_zeros shift start stop test_elements u v val vals
        values varargs where x x1 x2 xi xp y z src ix_.args broadcast_arrays.args pad_width
    """,
    OPTIONAL: """
        a_max a_min append aweights clip.max clip.min cov.y corrcoef.y discont fweights interp.period k
        arange.stop left lstsq.rcond mean polyfit.w polyint.k prepend right rtol sorter std.mean to_begin
        to_end tol trapezoid.x var.mean weights where.x where.y pinv.rcond
    """,
    "Sequence[ArrayLike]": """
        arrays choicelist tup choose.choices lexsort.keys condlist ravel_multi_index.multi_index
    """,
    "ArrayLike | Sequence[ArrayLike]": "block.arrays piecewise.condlist poly.seq_of_zeros",
    "ArrayLike | slice": "obj",
    "ArrayLike | str": "bins",
    "ArrayLike | Sequence[ArrayLike] | int": "histogramdd.bins histogram2d.bins",
    "Axis": "axis fftshift.axes ifftshift.axes",
    "SupportsIndex": """
        linspace.num logspace.num geomspace.num matrix_power.n
    """,
    "SupportsIndex | None": """
        append.axis argmax.axis argmin.axis argpartition.axis argsort.axis compress.axis concatenate.axis
        cumprod.axis cumsum.axis cumulative_prod.axis cumulative_sum.axis delete.axis insert.axis
        nanargmax.axis nanargmin.axis nancumprod.axis nancumsum.axis partition.axis
        put_along_axis.axis repeat.axis sort.axis take.axis take_along_axis.axis unique.axis cross.axis
    """,
    "Shape": "shape new_shape dims reps dimensions source destination expand_dims.axis apply_over_axes.axes",
    "Shape | None": "empty_like.shape zeros_like.shape ones_like.shape full_like.shape transpose.axes",
    NUMBERS: "s axes",
    "Sequence[SupportsIndex]": "rot90.axes",
    "SupportsIndex | Sequence[Shape]": "tensordot.axes",
    "Sequence[Shape] | None": "matmul.axes",
    "Sequence[SupportsIndex | Shape] | None": "vecdot.axes matvec.axes vecmat.axes",
    "SupportsIndex | ArrayLike": "indices_or_sections kth",
    "DType": "dtype",
    "Order": "order",
    "None": "sort.order argsort.order partition.order argpartition.order",
    "Casting": "casting",
    "Norm": "norm",
    "Array | None": "out",
    "Array": "dst place.arr put.a putmask.a put_along_axis.arr fill_diagonal.a",
    "bool": "keepdims",
    "bool | None": "copy stable suppress_small",
    "str | None": "device sort.kind argsort.kind isin.kind",
    "str": "method kind array2string.separator",
    "float | None": "polyfit.rcond",
    "int | None": "max_line_width precision",
    'Literal["left", "right"]': "side",
    'Literal["raise", "wrap", "clip"]': "take.mode choose.mode put.mode",
    'Literal["full", "valid", "same"]': "convolve.mode correlate.mode",
    'Literal["reduced", "complete", "r", "raw"]': "qr.mode",
    'Literal["L", "U"]': "UPLO",
    'Literal["xy", "ij"]': "indexing",
    "Literal[1, 2]": "edge_order",
    'bool | Literal["unscaled"]': "polyfit.cov",
    "str | Callable[..., Any]": "pad.mode",
    "str | tuple[str, ...]": "ravel_multi_index.mode",
    "str | Sequence[str] | None": "requirements",
    "tuple[float, float] | None": "range",
    "Sequence[tuple[float, float] | None] | None": "histogramdd.range histogram2d.range",
    "float | str | None": "cond.p norm.ord",
    "float | str": "matrix_norm.ord",
    "float": "ddof correction vector_norm.ord",
}
PARAMETERS = {name: kind for kind, names in TYPES.items() for name in names.split()}
RECORDS = {  # named tuples of several results
    "EigResult": "eigenvalues eigenvectors",
    "EighResult": "eigenvalues eigenvectors",
    "QRResult": "Q R",
    "SVDResult": "U S Vh",
    "SlogdetResult": "sign logabsdet",
    "UniqueAll": "values indices inverse_indices counts",
    "UniqueCounts": "values counts",
    "UniqueInverse": "values inverse_indices",
}
ARRAYS = {"ArrayLike", "Sequence[ArrayLike]"}
AS_TENSOR = {"ArrayLike": "Tensor", "Sequence[ArrayLike]": "Tensor | Sequence[Tensor]"}
# what tells NumPy's results and Tensors apart by more than one array, and what has no one result
BY_HAND = {
    "where": """
@overload
def where(condition: ArrayLike, /) -> tuple[Array, ...]: ...
@overload
def where(condition: ArrayLike, x: Tensor, y: ArrayLike, /) -> Tensor: ...
@overload
def where(condition: ArrayLike, x: ArrayLike, y: Tensor, /) -> Tensor: ...
@overload
def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike, /) -> Array: ...
""",
    "arange": """
@overload
def arange(
    stop: ArrayLike, /, *, dtype: DType = None, device: str | None = None, like: Any = None
) -> Tensor: ...
@overload
def arange(
    start: ArrayLike,
    stop: ArrayLike | None,
    step: ArrayLike | None = 1,
    dtype: DType = None,
    *,
    device: str | None = None,
    like: Any = None,
) -> Tensor: ...
""",
    "einsum": """
@overload
def einsum(
    subscripts: str,
    operand: Tensor,
    /,
    *operands: ArrayLike,
    out: Array | None = None,
    optimize: Any = True,
    dtype: DType = None,
    order: Order = "K",
    casting: Casting = "safe",
) -> Tensor: ...
@overload
def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: Array | None = None,
    optimize: Any = True,
    dtype: DType = None,
    order: Order = "K",
    casting: Casting = "safe",
) -> Array: ...
""",
}
BY_HAND |= {
    "array2string": "def array2string(a: ArrayLike, *args: Any, **kw: Any) -> str: ...",
    "save": "def save(file: Any, arr: ArrayLike, allow_pickle: _bool = True) -> None: ...",
    "savetxt": """
def savetxt(
    fname: Any,
    X: ArrayLike,
    fmt: str | Sequence[str] = "%.18e",
    delimiter: str = " ",
    newline: str = "\\n",
    header: str = "",
    footer: str = "",
    comments: str = "# ",
    encoding: str | None = None,
) -> None: ...
""",
}
for _name in ("savez", "savez_compressed"):
    BY_HAND[_name] = f"""
def {_name}(file: Any, *args: ArrayLike, allow_pickle: _bool = True, **kwds: ArrayLike) -> None: ...
"""
for _name in ("atleast_1d", "atleast_2d", "atleast_3d"):
    BY_HAND[_name] = f"""
@overload
def {_name}(ary: Tensor, /) -> Tensor: ...
@overload
def {_name}(ary: ArrayLike, /) -> Array: ...
@overload
def {_name}(*arys: ArrayLike) -> Any: ...
"""
SEVERAL = {
    "eig": "EigResult",
    "eigh": "EighResult",
    "qr": "QRResult",
    "slogdet": "SlogdetResult",
    "svd": "SVDResult",
    "unique_all": "UniqueAll",
    "unique_counts": "UniqueCounts",
    "unique_inverse": "UniqueInverse",
}
RESULTS = {  # where `Any` is no array
    "apply_along_axis": "Any",
    "apply_over_axes": "Any",
    "common_type": "type[np.inexact[Any]]",
    "einsum_path": "tuple[list[Any], str]",
    "gradient": "Any",
    "min_scalar_type": "np.dtype[Any]",
    "result_type": "np.dtype[Any]",
    "lstsq": "tuple[Array, Array, Any, Array]",
    "piecewise": "Any",
}
FLAGS = {  # with these arguments, which are the defaults, results are as said above, else anything
    "average": {"returned": "Literal[False]"},
    "indices": {"sparse": "Literal[False]"},
    "intersect1d": {"return_indices": "Literal[False]"},
    "linspace": {"retstep": "Literal[False]"},
    "polyfit": {"full": "Literal[False]", "cov": "Literal[False]"},
    "qr": {"mode": 'Literal["reduced", "complete"]'},
    "svd": {"compute_uv": "Literal[True]"},
    "unique": {f"return_{what}": "Literal[False]" for what in ("index", "inverse", "counts")},
}


def stub(module: ModuleType) -> str:
    """Return the text of the stub of a module."""
    ufuncs = Unary, Binary, Paired
    body, records = [], set()
    theirs = import_module(module.__name__.removeprefix("fgrad."))
    imports = [
        f"from {theirs.__name__} import {name} as {name}"
        for name in dir(module)
        if not name.startswith("_") and getattr(theirs, name, module) is getattr(module, name)
    ]
    written: dict[int, str] = {}
    here = {i.rpartition(" ")[2] for i in imports}
    for name in [n for n in dir(module) if n not in here and not n.startswith("_")]:
        thing = getattr(module, name)
        if isinstance(thing, Ufunc):
            kind = next(c.__name__ for c in ufuncs if isinstance(thing, c))
            body.append(f"{name}: {kind}")
        elif isinstance(thing, ModuleType):
            imports.append(f"from {module.__name__} import {name} as {name}")
        elif inspect.isfunction(thing):
            if id(thing) in written:
                body.append(f"{name} = {written[id(thing)]}")
                continue
            own = written[id(thing)] = thing.__name__ if hasattr(module, thing.__name__) else name
            text = function(own, inspect.signature(thing))
            records |= {SEVERAL[own]} if own in SEVERAL else set()
            body.append(text)
            if own != name:
                body.append(f"{name} = {own}")
        elif inspect.isclass(thing):
            imports.append(f"from {thing.__module__} import {thing.__name__} as {name}")
        else:
            imports.append(f"from {origin(thing, name)} import {name} as {name}")
    shown = []
    for name in sorted(records):
        fields = [f"    {field}: _A" for field in RECORDS[name].split()]
        shown.append("\n".join([f"class _{name}(NamedTuple, Generic[_A]):", *fields, ""]))
    return "\n".join([HEADER, *sorted(imports), "", *shown, *body, ""])


def origin(thing: object, name: str) -> str:
    """Return the module that defines a thing, which may be an object made there."""
    return type(thing).__module__ if type(thing).__module__.startswith("fgrad") else "numpy"


def function(name: str, signature: inspect.Signature) -> str:
    """Return the declaration of a function, in as many overloads as it has."""
    if name in BY_HAND:
        return BY_HAND[name].strip()
    parameters = list(signature.parameters.values())
    kinds = {p.name: kind_of(name, p) for p in parameters}
    result = f"_{SEVERAL[name]}[Any]" if name in SEVERAL else RESULTS.get(name)
    result = result or str(signature.return_annotation)
    flags = FLAGS.get(name, {})
    first = []
    if re.search(r"\bAny\b", result) and name not in RESULTS:
        leading = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
        for p in leading:
            if kinds[p.name] not in ARRAYS or (p.default is not p.empty and first):
                break
            first.append((p.name, AS_TENSOR[kinds[p.name]]))
    forms = [(kinds | flags | {k: t}, re.sub(r"\bAny\b", "Tensor", result)) for k, t in first]
    plain = result if name in RESULTS else re.sub(r"\bAny\b", "Array", result)
    forms.append((kinds | flags, plain))
    if flags:
        forms.append((kinds, "Any"))
    head = "@overload\n" if len(forms) > 1 else ""
    return "\n".join(head + declared(name, parameters, given, out) for given, out in forms)


def kind_of(name: str, p: inspect.Parameter) -> str:
    """Return the type of a parameter."""
    annotation = "Any" if p.annotation is p.empty else str(p.annotation)
    known = PARAMETERS.get(f"{name}.{p.name}") or PARAMETERS.get(p.name)
    return (
        known
        if known and (annotation in {"Any", "Sequence[Any]", "str"} or f"{name}.{p.name}" in PARAMETERS)
        else annotation
    )


def declared(name: str, parameters: list[inspect.Parameter], kinds: dict[str, str], result: str) -> str:
    """Return one overload."""
    parts, before = [], None
    for p in parameters:
        if before is p.POSITIONAL_ONLY and p.kind is not before:
            parts.append("/")
        if p.kind is p.KEYWORD_ONLY and before not in {p.KEYWORD_ONLY, p.VAR_POSITIONAL}:
            parts.append("*")
        before = p.kind
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        default = "" if p.default is p.empty else f" = {default_of(p.default)}"
        parts.append(f"{star}{p.name}: {kinds[p.name]}{default}")
    if before is inspect.Parameter.POSITIONAL_ONLY:
        parts.append("/")
    text = f"def {name}({', '.join(parts).replace('Sequence[ArrayLike]', 'ArrayLike')}) -> {result}: ..."
    return re.sub(r"(?<!\.)\bbool\b", "_bool", text)  # `bool` is NumPy's there


def default_of(value: object) -> str:
    """Return a default as the stub shows it."""
    if value is NO_VALUE or (isinstance(value, float) and value == 2 * np.pi):
        return "..."
    return value.__name__ if isinstance(value, type) else repr(value).replace("'", '"')


def stubs() -> dict[Path, str]:
    """Return the files and their texts."""
    root = Path(fgrad.__file__).parent.parent
    found = {}
    for path in MODULES:
        found[root.joinpath(*path.split("."), "__init__.pyi")] = stub(import_module(path))
    return found


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text, encoding="utf-8")
