"""The modules of JAX: which names are in each, and what is not there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

import fgrad
import fgrad.scipy.special
import fgrad.scipy.stats
from fgrad.compat.jax import errors, lax, nn, numpy, random, transformations, trees, types
from fgrad.compat.jax.arrays import Array, as_array, elementwise, made, opened
from fgrad.compat.standins import Source, absent, together
from fgrad.core.tensor import Tensor
from fgrad.transforms.calling import is_traced

__all__ = ["MODULES"]


def _loaded(*names: str) -> Callable[[], Mapping[str, Any]]:
    return lambda: {name.rpartition(".")[2]: import_module(name) for name in names}


def _public(found: Any) -> dict[str, Any]:
    return {name: getattr(found, name) for name in found.__all__}


class _Traced(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return x.__class__ is Array and is_traced(x._tensor)


class Tracer(metaclass=_Traced):
    """What `isinstance(x, jax.core.Tracer)` asks: whether a value is traced."""


class Device:
    """Where arrays are."""

    id, platform, device_kind, process_index = 0, "cpu", "cpu", 0

    def __repr__(self) -> str:
        return "CpuDevice(id=0)"


_DEVICE = Device()


def _put(x: Any, device: Any = None, **_: Any) -> Any:
    return trees.tree_map(as_array, x)


def _got(x: Any) -> Any:
    return trees.tree_map(np.asarray, x)


def _drawn(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of `fgrad.compat.jax.random`, of arrays."""

    def draw(*args: Any, **kwargs: Any) -> Any:
        out = function(*map(opened, args), **{k: _plain(v) for k, v in kwargs.items()})
        return made(out) if isinstance(out, Tensor | np.ndarray | np.generic) else out

    draw.__name__ = function.__name__
    draw.__doc__ = function.__doc__
    return draw


def _plain(x: Any) -> Any:
    return x.dtype if isinstance(x, numpy.Scalar) else opened(x)


def _random() -> dict[str, Any]:
    return {name: _drawn(getattr(random, name)) for name in random.__all__}


def _printed(fmt: str, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    fgrad.debug.print(fmt, *map(opened, args), **{k: opened(v) for k, v in kwargs.items()})


@contextmanager
def _x64(value: bool = True) -> Any:
    before = types.CONFIG.jax_enable_x64
    types.CONFIG.jax_enable_x64 = value
    try:
        yield
    finally:
        types.CONFIG.jax_enable_x64 = before


@contextmanager
def _no_jit() -> Any:
    before = types.CONFIG.jax_disable_jit
    types.CONFIG.jax_disable_jit = True
    try:
        yield
    finally:
        types.CONFIG.jax_disable_jit = before


def _elements(function: Callable[..., Any]) -> Callable[..., Array]:
    def of_elements(*args: Any, **kwargs: Any) -> Array:
        n, names = len(args), list(kwargs)

        def call(*xs: Any) -> Any:
            return function(*xs[:n], **dict(zip(names, xs[n:], strict=True)))

        return elementwise(call, *args, *kwargs.values(), inexact=True)

    return of_elements


def _no_class(name: str) -> type:
    """Return a class of which there are no instances."""

    def refuse(cls: type, *_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"fgrad has no jax.sharding.{name}: {_ONE}")

    return type(name, (), {"__new__": refuse, "__doc__": "There is none: arrays are on one device."})


_ONE = "fgrad computes on one device; fgrad.distributed has several processes"
_GRAPH = "fgrad.make_graph(fun)(*args) shows a function as a program"
_MAIN: dict[str, Any] = {
    **_public(transformations),
    "Array": Array,
    "Device": Device,
    "__version__": "0.10.0",
    "__version_info__": (0, 10, 0),
    "block_until_ready": lambda x: x,
    "config": types.CONFIG,
    "default_backend": lambda: "cpu",
    "device_count": lambda *_: 1,
    "device_get": _got,
    "device_put": _put,
    "devices": lambda *_: [_DEVICE],
    "disable_jit": _no_jit,
    "enable_x64": _x64,
    "ensure_compile_time_eval": _no_jit,
    "local_device_count": lambda *_: 1,
    "local_devices": lambda *_: [_DEVICE],
    "process_count": lambda *_: 1,
    "process_index": lambda *_: 0,
    "remat": transformations.checkpoint,
    "typeof": lambda x: transformations.ShapeDtypeStruct(x.shape, x.dtype, weak_type=x.weak_type),
}
_SPECIAL = (
    *("bessel_jn", "betainc", "betaln", "digamma", "entr", "erf", "erfc", "erfinv", "expit", "gammainc"),
    *(
        "gammaincc",
        "gammaln",
        "i0",
        "i0e",
        "i1",
        "i1e",
        "log_ndtr",
        "logit",
        "ndtr",
        "ndtri",
        "xlog1py",
        "xlogy",
    ),
)

MODULES: dict[str, Source] = {
    "jax": together(
        _MAIN,
        _loaded(
            "jax.numpy",
            "jax.lax",
            "jax.nn",
            "jax.random",
            "jax.tree",
            "jax.tree_util",
            "jax.typing",
            "jax.dtypes",
        ),
        _loaded("jax.errors", "jax.core", "jax.debug", "jax.scipy", "jax.sharding"),
        absent(
            "jax",
            dict.fromkeys(
                ("NamedSharding", "P", "pmap", "shard_map", "make_mesh", "make_array_from_callback"), _ONE
            )
            | dict.fromkeys(("make_jaxpr", "export"), _GRAPH)
            | {
                "linear_transpose": "fgrad.linear_transpose has it for Tensors",
                "pure_callback": "fgrad.pure_callback has it for Tensors",
                "named_call": "fgrad.named_scope has it",
                "named_scope": "fgrad.named_scope has it",
                "closure_convert": _GRAPH,
            },
        ),
    ),
    "jax.core": lambda: {"Tracer": Tracer, "get_aval": as_array},
    "jax.debug": lambda: {"print": _printed},
    "jax.dtypes": lambda: {
        "canonicalize_dtype": types.canonical,
        "float0": transformations.FLOAT0,
        "issubdtype": types.issubdtype,
        "prng_key": type("prng_key", (np.generic,), {}),
        "result_type": numpy.result_type,
    },
    "jax.errors": lambda: _public(errors),
    "jax.flatten_util": lambda: {"ravel_pytree": trees.ravel_pytree},
    "jax.lax": lambda: lax.NAMES,
    "jax.nn": lambda: nn.NAMES,
    "jax.numpy": together(numpy.NAMES, _loaded("jax.numpy.linalg")),
    "jax.numpy.linalg": lambda: numpy.LINALG,
    "jax.random": _random,
    "jax.scipy": _loaded("jax.scipy.special", "jax.scipy.stats"),
    "jax.scipy.stats": _loaded("jax.scipy.stats.norm"),
    "jax.scipy.stats.norm": lambda: {
        name: _elements(getattr(fgrad.scipy.stats.norm, name))
        for name in ("cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf")
    },
    "jax.scipy.special": lambda: (
        {"logsumexp": nn.logsumexp}
        | {n: _elements(getattr(fgrad.scipy.special, n)) for n in _SPECIAL if hasattr(fgrad.scipy.special, n)}
    ),
    "jax.sharding": lambda: {
        name: _no_class(name)
        for name in ("Mesh", "NamedSharding", "PartitionSpec", "Sharding", "SingleDeviceSharding")
    },
    "jax.tree": lambda: trees.TREE,
    "jax.tree_util": lambda: trees.TREE_UTIL,
    "jax.typing": lambda: {"ArrayLike": Any, "DTypeLike": Any},
}
