"""The modules of autograd: which names of fgrad's are in each, and what is not there."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from fgrad.compat.autograd import arrays, boxes, checks, operators, primitives, spaces
from fgrad.compat.standins import Source, absent, module, together

_HERE = "fgrad.compat.autograd"
_GRAPH = "fgrad.make_graph(fun)(*args) shows a function as a program, fgrad.viz.draw as a picture"
_NODES = "fgrad's tapes are its own; write rules with primitive, defvjp and defjvp, or fgrad.custom_vjp"


def _some(found: Any, *names: str, **renamed: str) -> Source:
    """Return the source of some names of a module: `name`, or `new="old"`."""
    return lambda: {
        **{n: getattr(found, n) for n in names},
        **{new: getattr(found, n) for new, n in renamed.items()},
    }


def _scipy(part: str, *of: str) -> Source:
    """Return the source of what a function of `scientific` returns, which needs SciPy."""

    def names() -> Mapping[str, Any]:
        found: Mapping[str, Any] = getattr(import_module(f"{_HERE}.scientific"), part)(*of)
        return found

    return names


_OPERATORS = (
    *("checkpoint", "deriv", "elementwise_grad", "grad", "grad_and_aux", "grad_named", "hessian"),
    *("hessian_tensor_product", "hessian_vector_product", "holomorphic_grad", "jacobian", "make_ggnvp"),
    *("make_hvp", "make_jvp", "make_vjp", "multigrad_dict", "tensor_jacobian_product", "value_and_grad"),
    "vector_jacobian_product",
)
_RULES = (
    *("def_linear", "defjvp", "defjvp_argnum", "defjvp_argnums", "defvjp", "defvjp_argnum", "defvjp_argnums"),
)
_BUILTINS = ("dict", "isinstance", "list", "tuple", "type")
_TRACER = ("Box", "getval", "isbox", "notrace_primitive", "register_notrace", "toposort")
_SPACES = ("VSpace", "vspace")

MODULES: dict[str, Source] = {
    "autograd": together(
        _some(operators, *_OPERATORS),
        _some(boxes, *_BUILTINS),
        _some(primitives, primitive="deprecated_primitive"),
    ),
    "autograd.builtins": _some(boxes, *_BUILTINS, "SequenceBox", "DictBox"),
    "autograd.core": together(
        _some(operators, make_vjp="core_make_vjp", make_jvp="core_make_jvp"),
        _some(
            primitives,
            *_RULES,
            "primitive_vjps",
            "primitive_jvps",
            "sum_outgrads",
            primitive="deprecated_primitive",
        ),
        _some(spaces, *_SPACES),
        _some(boxes, "Box", "getval", "isbox"),
        absent(
            "autograd.core",
            dict.fromkeys(("JVPNode", "SparseObject", "VJPNode", "add_outgrads", "backward_pass"), _NODES),
        ),
    ),
    "autograd.differential_operators": _some(operators, *_OPERATORS, "make_jvp_reversemode"),
    "autograd.extend": together(
        _some(primitives, *_RULES, "primitive"),
        _some(boxes, "Box", "notrace_primitive", "register_notrace"),
        _some(spaces, *_SPACES),
        absent("autograd.extend", dict.fromkeys(("JVPNode", "SparseObject", "VJPNode"), _NODES)),
    ),
    "autograd.misc": module(f"{_HERE}.misc"),  # `flatten` is the function, and not the module of that name
    "autograd.misc.fixed_points": module(f"{_HERE}.misc"),
    "autograd.misc.flatten": module(f"{_HERE}.misc"),
    "autograd.misc.optimizers": module(f"{_HERE}.misc"),
    "autograd.misc.tracers": together(
        module(f"{_HERE}.misc"), absent("autograd.misc.tracers", {"full_graph": _GRAPH})
    ),
    "autograd.numpy": lambda: arrays.NUMPY,
    "autograd.numpy.fft": lambda: arrays.FFT,
    "autograd.numpy.linalg": lambda: arrays.LINALG,
    "autograd.numpy.numpy_boxes": _some(boxes, "ArrayBox", "Box"),
    "autograd.numpy.numpy_jvps": dict,
    "autograd.numpy.numpy_vjps": _some(
        arrays, "match_complex", "repeat_to_match_shape", "unbroadcast", "unbroadcast_f", "metadata"
    ),
    "autograd.numpy.numpy_vspaces": _some(spaces, "ArrayVSpace", "ComplexArrayVSpace"),
    "autograd.numpy.numpy_wrapper": together(arrays.NUMPY, _some(arrays, "wrap_namespace")),
    "autograd.numpy.random": lambda: arrays.RANDOM,
    "autograd.scipy": dict,
    "autograd.scipy.integrate": _scipy("integrate"),
    "autograd.scipy.linalg": _scipy("linalg"),
    "autograd.scipy.signal": _scipy("signal"),
    "autograd.scipy.special": _scipy("special"),
    "autograd.scipy.stats": dict,
    "autograd.test_util": module(f"{_HERE}.checks"),
    "autograd.tracer": together(
        _some(boxes, *_TRACER),
        _some(primitives, "primitive", "trace_primitives_map"),
        absent("autograd.tracer", dict.fromkeys(("Node", "new_box", "trace"), _NODES)),
    ),
    "autograd.util": together(
        _some(operators, "subval", "subvals"), _some(checks, "quick_grad_check"), _some(boxes, "toposort")
    ),
    "autograd.wrap_util": _some(operators, "get_doc", "get_name", "unary_to_nary", "wraps"),
}
for _name in ("beta", "chi2", "dirichlet", "gamma", "multivariate_normal", "norm", "poisson", "t"):
    MODULES[f"autograd.scipy.stats.{_name}"] = _scipy("stats", _name)
