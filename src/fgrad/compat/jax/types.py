"""Dtypes as JAX's programs see them: 32 bits unless asked for more, weak types, and their promotion."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from fgrad.compat.jax.errors import TypePromotionError
from fgrad.random import threefry

DType = np.dtype[Any]


def _bfloat16() -> DType:
    """Return the dtype, where the package that has it is installed, or one that no array has."""
    try:
        found: DType = np.dtype(import_module("ml_dtypes").bfloat16)
    except ImportError:
        return np.dtype([("bfloat16", np.void, 2)])
    return found


BFLOAT16 = _bfloat16()


class KeyType:
    """The dtype of keys, which NumPy has not: they promote to nothing, and nothing to them."""

    name, kind, itemsize = "key<fry>", "V", 8
    type = type("prng_key", (type("extended", (np.generic,), {}),), {})

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        return "KEY"


KEY = KeyType()


class Config:
    """`jax.config`: the settings that mean something here."""

    jax_enable_x64 = False
    jax_disable_jit = False
    jax_debug_nans = False
    jax_log_compiles = False
    jax_check_tracer_leaks = False
    jax_default_matmul_precision = None
    jax_default_prng_impl = "threefry2x32"
    jax_enable_custom_prng = False
    jax_numpy_dtype_promotion = "standard"
    jax_numpy_rank_promotion = "allow"
    jax_traceback_filtering = "auto"
    x64_enabled: Any = property(lambda self: self.jax_enable_x64)

    def update(self, name: str, value: Any) -> None:
        """Set one."""
        if name in ("jax_enable_x64", "jax_disable_jit", "jax_threefry_partitionable"):
            setattr(self, name, bool(value))
        elif name in _FREE or value in _CHOICES.get(name, ()):
            setattr(self, name, value)
        elif value != getattr(type(self), name, None):
            raise NotImplementedError(
                f"fgrad has no jax.config.{name}={value!r}; for NaN, there is `with fgrad.debug_nans():`"
            )

    def read(self, name: str) -> Any:
        return getattr(self, name)

    def parse_flags_with_absl(self) -> None:
        """Leave the flags of the command line alone: settings are none of them."""

    jax_threefry_partitionable: Any = property(  # how random bits are counted, as since JAX 0.5 or as before
        lambda _: threefry.COUNTING.partitionable,
        lambda _, value: setattr(threefry.COUNTING, "partitionable", value),
    )

    def signature(self) -> tuple[Any, ...]:
        """Return the settings that compiled programs depend on."""
        return self.jax_enable_x64, self.jax_threefry_partitionable


_FREE = (  # products are as exact as their dtype anyway, and what needs a second device raises
    "jax_default_matmul_precision",
    "jax_log_compiles",
    "jax_num_cpu_devices",
    "jax_traceback_filtering",
)
_CHOICES: dict[str, tuple[Any, ...]] = {
    "jax_numpy_dtype_promotion": ("standard", "strict"),
    "jax_numpy_rank_promotion": ("allow", "warn", "raise"),
    **dict.fromkeys(("jax_platform_name", "jax_platforms"), ("cpu", None, "")),  # which is where it runs
}
CONFIG = Config()
_NARROW = {np.dtype(f"{kind}8"): np.dtype(f"{kind}4") for kind in "fiu"} | {np.dtype("c16"): np.dtype("c8")}
_KINDS: dict[type, str] = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}


def canonical(dtype: Any) -> Any:
    """Return a dtype, with 32 bits in the place of 64 unless these are enabled.

    Raises:
        ModuleNotFoundError: bfloat16 is asked for by name, and ml_dtypes is not there.
    """
    if dtype is KEY:
        return KEY
    if isinstance(dtype, str) and dtype == "bfloat16" and BFLOAT16.names:
        raise ModuleNotFoundError("bfloat16 comes with ml_dtypes: pip install ml_dtypes", name="ml_dtypes")
    found: DType = np.dtype(_KINDS.get(dtype, dtype))
    return found if CONFIG.jax_enable_x64 else _NARROW.get(found, found)


def kind_of(dtype: DType) -> str:
    """Return the letter for the kind of a dtype, of which NumPy knows none for bfloat16."""
    return "f" if dtype == BFLOAT16 else dtype.kind


def default(kind: type) -> DType:
    """Return the dtype of a Python number."""
    found: DType = canonical(_KINDS[kind])
    return found


# ---- promotion: the least upper bound in JAX's lattice, where numbers of Python are weak

_ABOVE: dict[str, tuple[str, ...]] = {
    "bool": ("weak int",),
    "weak int": ("uint8", "int8"),
    **{f"uint{n}": (f"int{2 * n}", f"uint{2 * n}") for n in (8, 16, 32)},
    "uint64": ("weak float",),
    **{f"int{n}": (f"int{2 * n}",) for n in (8, 16, 32)},
    "int64": ("weak float",),
    "weak float": ("bfloat16", "float16", "weak complex"),
    "bfloat16": ("float32",),
    "float16": ("float32",),
    "float32": ("float64", "complex64"),
    "float64": ("complex128",),
    "weak complex": ("complex64",),
    "complex64": ("complex128",),
    "complex128": (),
}
_WEAK = {"weak int": int, "weak float": float, "weak complex": complex}


@cache
def _upper(node: str) -> frozenset[str]:
    return frozenset({node}).union(*map(_upper, _ABOVE[node]))


@cache
def _least(nodes: frozenset[str]) -> str:
    common = frozenset.intersection(*map(_upper, nodes))
    (least,) = (n for n in common if common <= _upper(n))
    return least


def _node(dtype: DType, weak: bool) -> str:
    if not weak:
        if dtype.name not in _ABOVE:
            raise TypeError(f"arrays of dtype {dtype} are not computed with")
        return dtype.name
    return {"i": "weak int", "f": "weak float", "c": "weak complex", "b": "bool"}[dtype.kind]


_RANK = "ifc"


def promoted(kinds: Iterable[tuple[Any, bool]]) -> tuple[Any, bool]:
    """Return the dtype of a result of values of these dtypes, and whether it is weak."""
    given = set(kinds)
    if len(given) == 1:
        return given.pop()
    if any(dtype is KEY for dtype, _ in given):
        raise ValueError(f"dtype={KEY} is not a valid dtype for JAX type promotion.")
    if CONFIG.jax_numpy_dtype_promotion == "strict":
        strong = [dtype for dtype, weak in given if not weak]
        least = min([_RANK.find(kind_of(dtype).replace("u", "i")) for dtype in strong], default=2)
        if len(strong) > 1 or any(weak and _RANK.find(dtype.kind) > least for dtype, weak in given):
            raise TypePromotionError(f"strict promotion has no common dtype of {sorted(map(str, given))}")
    node = _least(frozenset(_node(*kind) for kind in given))
    if node in _WEAK:
        return default(_WEAK[node]), True
    return canonical(node), False


def promote_types(a: Any, b: Any) -> DType:
    """Return the dtype that two dtypes promote to; Python's types are weak."""
    found: DType = promoted((canonical(t), t in (int, float, complex)) for t in (a, b))[0]
    return found


def to_inexact(dtype: DType) -> DType:
    """Return the dtype in which functions of real numbers compute what integers are given."""
    return dtype if kind_of(dtype) in "fc" else default(float)


def issubdtype(a: Any, b: Any) -> bool:
    """Return whether a dtype is of a kind."""
    given, kind = (t.dtype if isinstance(getattr(t, "dtype", None), np.dtype) else t for t in (a, b))
    given = KEY.type if given is KEY else given
    if given in (BFLOAT16, BFLOAT16.type, "bfloat16") and kind in _FLOATING:
        return True
    return bool(np.issubdtype(given, kind))


_FLOATING = (np.floating, np.inexact, np.number)
