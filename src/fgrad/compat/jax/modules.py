"""The modules of JAX: which names are in each, and what is not there."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from contextlib import contextmanager, nullcontext
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Union

import numpy as np

import fgrad
from fgrad.compat.jax import (
    avals,
    callbacks,
    custom,
    devices,
    draws,
    errors,
    jaxprs,
    lax,
    nn,
    numpy,
    transformations,
    trees,
    types,
)
from fgrad.compat.jax.arrays import Array, as_array, of_elements
from fgrad.compat.standins import Source, absent, module, together, words
from fgrad.core.tensor import is_traced
from fgrad.core.trace import Trace, current

# libraries ask for its origin, which is `Union`
ArrayLike = Union[Array, np.ndarray, np.bool_, np.number, bool, int, float, complex]  # noqa: UP007


def _late(part: str, names: str) -> Source:
    """Return the source of a table of names in a module that many programs do without."""
    return lambda: getattr(import_module(f"fgrad.compat.jax.{part}"), names)


def _public(found: Any) -> dict[str, Any]:
    return {name: getattr(found, name) for name in found.__all__}


TRACER = avals.asked("Tracer", is_traced)


def _trace_state(convention: Any = None) -> Any:
    """Return which transformations are under way; it is equal to that of another time if these are."""
    return current().traces, transformations.LEVELS.get()


def _got(x: Any) -> Any:
    """Return arrays as NumPy's; what is traced stays as it is."""
    return trees.tree_map(
        lambda v: v if isinstance(v, TRACER) or getattr(v, "dtype", None) is types.KEY else np.asarray(v), x
    )


def _setting(name: str, default: bool = True) -> Callable[..., Any]:
    """Return the context in which a setting is as it is given."""

    @contextmanager
    def context(value: Any = default, **named: Any) -> Any:
        before = getattr(types.CONFIG, name)
        (new,) = named.values() if named else (value,)
        setattr(types.CONFIG, name, new)
        try:
            yield
        finally:
            setattr(types.CONFIG, name, before)

    return context


def _elements(function: Callable[..., Any]) -> Callable[..., Array]:
    return of_elements(function, inexact=True)


def _kind(name: str, instead: str, refused: str = "__new__") -> type:
    """Return a class of which nothing is an instance, for annotations and `isinstance`.

    Or, where `bind` is refused, one of which programs make instances and subclasses.
    """
    _, _, own = name.rpartition(".")
    refuse = {refused: absent(name.removesuffix(f".{own}"), {own: instead})[own]}
    return type(own, (), {"__init__": _nothing, "__doc__": "There is none here.", **refuse})


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _is_value(x: Any) -> bool:
    return isinstance(x, Array | bool | int | float | complex) or (
        isinstance(x, np.ndarray | np.generic) and types.kind_of(x.dtype) in "biufc"
    )


_REFS = "return new values instead of changing arrays that are arguments"
_HIJAX = "jax.experimental.hijax"
_GRAPH = "fgrad.make_graph(fun)(*args) shows a function as a program"
_VERSION: dict[str, Any] = {"__version__": "0.10.0", "__version_info__": (0, 10, 0)}
_REF = _kind("jax.Ref", _REFS)
_MAIN: dict[str, Any] = {
    **_public(avals),
    **_public(custom),
    **transformations.NAMES,
    **devices.NAMES,
    "Array": Array,
    "Ref": _REF,
    **_VERSION,
    "block_until_ready": lambda x: x,
    "checkpoint_policies": fgrad.checkpoint_policies,
    "config": types.CONFIG,
    "default_backend": lambda: "cpu",
    "device_get": _got,
    **{
        name: _setting(f"jax_{name}")
        for name in words(
            "disable_jit enable_custom_prng enable_x64 log_compiles numpy_dtype_promotion "
            "numpy_rank_promotion threefry_partitionable"
        )
    },
    "ensure_compile_time_eval": _setting("jax_disable_jit"),
    "pure_callback": callbacks.pure_callback,
    "process_count": lambda *_: 1,
    "process_index": lambda *_: 0,
    **dict.fromkeys(("clear_caches", "effects_barrier"), _nothing),
    **dict.fromkeys(("check_tracer_leaks", "checking_leaks"), nullcontext),
    "live_arrays": lambda platform=None: [
        x for x in gc.get_objects() if type(x) is Array
    ],  # a proxy has the class of what it stands for
    "named_call": lambda fun, **_: fun,
    "named_scope": fgrad.named_scope,
    "closure_convert": jaxprs.closure_convert,
    "linear_transpose": jaxprs.linear_transpose,
    "make_jaxpr": jaxprs.make_jaxpr,
}
_SPECIAL = words(
    "bessel_jn betainc betaln digamma entr erf erfc erfinv expit gammainc gammaincc gammaln i0 i0e i1 i1e "
    "logit expi ndtr ndtri xlog1py xlogy beta boxcox boxcox1p erfcx exp1 gamma hyp1f1 hyp2f1 kl_div "
    "loggamma poch polygamma rel_entr spence zeta"
)

_DISTRIBUTIONS = words(
    "bernoulli beta betabinom binom cauchy chi2 expon gamma geom gumbel_l gumbel_r laplace logistic nbinom "
    "multivariate_normal norm pareto poisson t truncnorm uniform vonmises"
)


def _distribution(name: str) -> Source:
    """Return the source of the functions of a distribution, which are of elements."""

    def names() -> dict[str, Any]:
        found = getattr(import_module("fgrad.scipy.stats"), name)
        functions = words("cdf isf logcdf logpdf logpmf logsf pdf pmf ppf sf")
        return {f: _elements(getattr(found, f)) for f in functions if hasattr(found, f)}

    return names


def _special() -> dict[str, Any]:
    found = import_module("fgrad.scipy.special")
    return {
        "logsumexp": nn.NAMES["logsumexp"],
        "log_ndtr": lambda x, series_order=3: _elements(found.log_ndtr)(x),
        "multigammaln": lambda a, d: _elements(lambda a: found.multigammaln(a, int(d)))(a),
        **{name: _elements(getattr(found, name)) for name in _SPECIAL if hasattr(found, name)},
    }


# what only holds other modules, or what libraries import of which they use nothing on one device
_PACKAGES = words(
    "jax._src jax._src.state jax.example_libraries jax.extend jax.interpreters jax.interpreters.pxla "
    "jax.experimental.array_serialization jax.experimental.array_serialization.serialization "
    "jax.experimental.colocated_python jax.experimental.colocated_python.func jax.experimental.pjit "
    "jax.scipy jax.scipy.sparse"
)


_NAMES: dict[str, Mapping[str, Any] | Source] = {
    "jax": _MAIN,
    "jax._src.ad_util": jaxprs.AD | {"stop_gradient_p": lax.NAMES["stop_gradient_p"]},
    "jax._src.api_util": jaxprs.API,
    "jax._src.checkify": _late("checkify", "NAMES"),
    "jax._src.state.types": {"AbstractRef": _kind("jax._src.state.types.AbstractRef", _REFS)},
    "jax._src.tree_util": trees.TREE_UTIL | {"_registry": trees.CONTAINERS},
    "jax._src.core": {
        "ShapedArray": avals.ShapedArray,
        "trace_state_clean": lambda: not current().traces and not transformations.LEVELS.get(),
    },
    "jax._src.dispatch": {"wait_for_tokens": lambda: None},
    "jax._src.dtypes": {
        "TypePromotionError": errors.TypePromotionError,
        "DType": np.dtype,
        "finfo": numpy.finfo,
        "ExtendedDType": types.KeyType,
        "extended": types.KEY.type.__base__,
        "to_complex_dtype": lambda dtype: types.canonical(np.result_type(dtype, np.complex64)),
    },
    "jax._src.flatten_util": {"ravel_pytree": trees.ravel_pytree},
    "jax._src.distributed": {"global_state": SimpleNamespace(client=None)},
    "jax._src.public_test_util": module("fgrad.compat.jax.test_util"),
    "jax._src.traceback_util": {
        "include_frame": lambda frame: "fgrad" not in frame.f_code.co_filename,
        "register_exclusion": lambda _: None,
        "_exclude_paths": [],
        "api_boundary": lambda fun=None, **_: fun,
    },
    "jax._src.xla_bridge": {"_backends": {}},
    "jax.api_util": {"safe_map": lambda f, *xs: [f(*v) for v in zip(*xs, strict=True)], **jaxprs.API},
    "jax.core": {
        "Tracer": TRACER,
        "Trace": Trace,
        "valid_jaxtype": _is_value,
        "get_opaque_trace_state": _trace_state,
        **jaxprs.CORE,
        "pytype_aval_mappings": {np.ndarray: as_array},
    },
    "jax.custom_derivatives": {
        **_public(custom),
        "CustomVJPPrimal": avals.CustomVJPPrimal,
        "SymbolicZero": avals.SymbolicZero,
        "closure_convert": jaxprs.closure_convert,
        "custom_jvp_call_p": jaxprs.CUSTOM_JVP,
        "custom_vjp_call_p": jaxprs.CUSTOM_VJP,
        "zero_from_primal": lambda x, **_: trees.tree_map(lambda v: avals.SymbolicZero(avals.typeof(v)), x),
    },
    "jax.debug": callbacks.DEBUG,
    "jax.dtypes": {
        **{name: scalar.dtype.type for name, scalar in numpy.short_dtypes().items()},
        "canonicalize_dtype": types.canonical,
        "float0": avals.FLOAT0,
        "issubdtype": types.issubdtype,
        "extended": types.KEY.type.__base__,
        "prng_key": types.KEY.type,
        "result_type": numpy.result_type,
    },
    "jax.errors": errors.NAMES,
    "jax.experimental": {
        "io_callback": callbacks.io_callback,
        "enable_x64": _setting("jax_enable_x64"),
        "disable_x64": _setting("jax_enable_x64", default=False),
    },
    "jax.example_libraries.optimizers": _late("examples", "OPTIMIZERS"),
    "jax.example_libraries.stax": _late("examples", "STAX"),
    "jax.experimental.colocated_python.serialization": {
        "DeviceList": _kind("jax.experimental.colocated_python.serialization.DeviceList", devices.ONE)
    },
    "jax.experimental.layout": {
        "Format": devices.Format,
        "Layout": _kind("jax.experimental.layout.Layout", devices.ONE),
    },
    "jax.experimental.mesh_utils": {"create_device_mesh": devices.create_device_mesh},
    "jax.experimental.multihost_utils": {"sync_global_devices": _nothing},
    "jax.experimental.sparse": {
        name: _kind(f"jax.experimental.sparse.{name}", "fgrad.sparse has sparse matrices")
        for name in ("BCOO", "BCSR", "JAXSparse")
    },
    "jax.experimental.checkify": _late("checkify", "NAMES"),
    _HIJAX: {
        **{
            name: _kind(f"{_HIJAX}.{name}", _REFS, "bind")
            for name in words("AvalMutableQDD AvalQDD HiPrimitive MutableHiType")
        },
        **{name: lambda *args, **_: args for name in ("aval_method", "aval_property", "register_hitype")},
        "AbstractValue": avals.ShapedArray,
        "control_flow_allowed_effects": SimpleNamespace(add_type=lambda _: None),
        **{name: jaxprs.AD[name] for name in words("Zero instantiate_zeros is_undefined_primal")},
    },
    "jax.extend.core": {
        "Effect": type("Effect", (), {}),
        "valid_jaxtype": _is_value,
        "get_opaque_trace_state": _trace_state,
        **jaxprs.CORE,
    },
    "jax.extend.core.primitives": {
        **{k: v for k, v in lax.NAMES.items() if k.endswith("_p")},
        **{f"{name}_p": jaxprs.own_primitive(name) for name in ("call", "closed_call", "jit")},
    },
    "jax.extend.linear_util": {
        "transformation": lambda f: f,
        "wrap_init": jaxprs.wrap_init,
    },
    "jax.extend.source_info_util": {"register_exclusion": lambda _: None},
    "jax.flatten_util": {"ravel_pytree": trees.ravel_pytree},
    "jax.interpreters.ad": jaxprs.AD,
    "jax.interpreters.batching": jaxprs.BATCHING,
    "jax.interpreters.mlir": jaxprs.MLIR,
    "jax.interpreters.partial_eval": jaxprs.PARTIAL_EVAL,
    "jax.interpreters.xla": {"canonicalize_dtype_handlers": {np.ndarray: as_array}},
    "jax.lax": lax.NAMES | {"with_sharding_constraint": devices.device_put},
    "jax.lax.linalg": _late("linalg", "LAX"),
    "jax.lib": {"__version__": "0.10.0"},
    "jax.monitoring": dict.fromkeys(  # nobody listens
        words("record_event record_event_duration_secs record_event_time_span record_scalar"), _nothing
    ),
    "jax.nn": nn.NAMES,
    "jax.nn.initializers": nn.INITIALIZERS,
    "jax.numpy": numpy.NAMES,
    "jax.numpy.fft": numpy.FFT,
    "jax.numpy.linalg": _late("linalg", "NUMPY"),
    "jax.random": draws.NAMES,
    "jax.scipy.sparse.linalg": _late("scipy", "SPARSE_LINALG"),
    "jax.scipy.linalg": _late("linalg", "SCIPY"),
    **{f"jax.scipy.stats.{name}": _distribution(name) for name in _DISTRIBUTIONS},
    "jax.scipy.special": _special,
    "jax.sharding": devices.SHARDING,
    "jax.stages": dict.fromkeys(("Compiled", "Lowered"), transformations.Compiled),
    "jax.test_util": module("fgrad.compat.jax.test_util"),
    "jax.tree": trees.TREE,
    "jax.tree_util": trees.TREE_UTIL,
    "jax.version": _VERSION,
    "jax.typing": {"ArrayLike": ArrayLike, "DTypeLike": Any},
}
_ABSENT: dict[str, dict[str, str]] = {  # module: name: what to do instead
    "jax": {"export": _GRAPH, "new_ref": _REFS, "freeze": _REFS},
    "jax._src.compiler": {"backend_compile_and_load": _GRAPH},
    "jax.example_libraries.optimizers": {"sm3": "adagrad is near it"},
    "jax.experimental.jax2tf": {"convert": _GRAPH},
    "jax.experimental.multihost_utils": {
        "broadcast_one_to_all": devices.ONE,
        "process_allgather": devices.ONE,
    },
    "jax.extend.core": dict.fromkeys(words("TraceTag set_current_trace take_current_trace"), _GRAPH),
    "jax.extend.ifrt_programs": {"ifrt_programs": devices.ONE},
    "jax.lax": dict.fromkeys(("all_to_all", "pswapaxes"), "all_gather has every part"),
    "jax.nn.initializers": {"delta_orthogonal": "orthogonal draws the part in the middle"},
    "jax.scipy.optimize": {"minimize": "fgrad.scipy.optimize.minimize has it for Tensors"},
    "jax.scipy.stats": {"gaussian_kde": "sum fgrad.scipy.stats.norm.pdf at the samples"},
    "jax.test_util": dict.fromkeys(("check_jvp", "check_vjp"), "check_grads checks rules in both directions"),
}


def _source(name: str) -> Source:
    return together(absent(name, _ABSENT.get(name, {})), _NAMES.get(name, {}))


MODULES: dict[str, Source] = {name: _source(name) for name in (*_PACKAGES, *_NAMES, *_ABSENT)}
