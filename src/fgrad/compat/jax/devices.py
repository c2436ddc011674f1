"""Devices and shardings: there is one device, on which every array is as a whole."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import Enum
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad.compat.jax.arrays import Array, as_array, made
from fgrad.compat.jax.avals import ShapedArray
from fgrad.compat.jax.transformations import axes_of, jit, several, vmap
from fgrad.compat.jax.trees import flatten, tree_map
from fgrad.compat.standins import by_name

if TYPE_CHECKING:
    from typing_extensions import Self

ONE = "fgrad computes on one device; fgrad.distributed has several processes"


class Device:
    """Where arrays are."""

    id = process_index = 0
    platform = device_kind = "cpu"
    client = SimpleNamespace(platform="cpu", runtime_type="fgrad")
    addressable_memories = list

    def __repr__(self) -> str:
        return "CpuDevice(id=0)"

    def __str__(self) -> str:
        return "cpu:0"


DEVICE = Device()


class Sharding:
    """How an array is divided: not at all."""

    device_set: Any = frozenset({DEVICE})
    _addressable_device_assignment = (DEVICE,)
    num_devices = 1
    is_fully_addressable = is_fully_replicated = True

    def shard_shape(self, global_shape: Any) -> tuple[int, ...]:
        """Return the shape of what a device has of an array: its own."""
        return tuple(global_shape)

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, tuple[slice, ...]]:
        """Return what each device has of an array of a shape: all of it."""
        return {DEVICE: (slice(None),) * len(global_shape)}

    addressable_devices_indices_map = devices_indices_map

    def is_equivalent_to(self, other: Any, ndim: int) -> bool:
        """Return whether arrays are divided in the same way: there is one."""
        return isinstance(other, Sharding)


class PartitionSpec(tuple[Any, ...]):
    """The names of the axes of a mesh, for each axis of an array."""

    __slots__ = ()
    UNCONSTRAINED = type("UNCONSTRAINED", (), {})()  # in the place of a name: as the compiler likes

    def __new__(cls, *axes: Any) -> Self:
        return super().__new__(cls, axes)

    def __repr__(self) -> str:
        return f"PartitionSpec{super().__repr__()}"


@dataclass(frozen=True)
class SingleDeviceSharding(Sharding):
    """All of an array on one device."""

    device: Device = DEVICE
    memory_kind: Any = None


@dataclass(frozen=True)
class Format:
    """Where arrays are, and in which order their elements."""

    layout: Any = None
    sharding: Any = None


class AxisType(Enum):
    """Who divides an axis of a mesh: nobody has to."""

    Auto, Explicit, Manual = range(3)


class AbstractMesh:
    """Names for axes of length one."""

    def __init__(self, axis_sizes: Any = (), axis_names: Any = (), axis_types: Any = None) -> None:
        self.size: int = math.prod(axis_sizes)
        if self.size != 1:
            raise NotImplementedError(f"a mesh of {self.size} devices: {ONE}")
        self.axis_sizes: tuple[Any, ...] = tuple(axis_sizes)
        self.axis_names: tuple[Any, ...] = several(axis_names)
        self.axis_types: tuple[Any, ...] = tuple(axis_types or [AxisType.Auto] * len(self.axis_names))
        self.shape: dict[str, Any] = dict(zip(self.axis_names, self.axis_sizes, strict=True))
        self.empty: bool = not self.axis_names
        for kind in AxisType:
            setattr(self, f"are_all_axes_{kind.name.lower()}", all(t is kind for t in self.axis_types))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.shape == other.shape

    def __hash__(self) -> int:
        return hash(self.axis_names)


class Mesh(AbstractMesh):
    """The only device, with names for axes of length one."""

    def __init__(self, devices: Any, axis_names: Any, *, axis_types: Any = None) -> None:
        self.devices: Any = np.asarray(devices, object)
        super().__init__(self.devices.shape, axis_names, axis_types)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@dataclass(frozen=True)
class NamedSharding(Sharding):
    """Axes of an array along the axes of a mesh."""

    mesh: AbstractMesh
    spec: PartitionSpec = field(default_factory=PartitionSpec)
    memory_kind: Any = None
    update = replace


def devices(backend: str | None = None) -> list[Device]:
    """Return the only device."""
    if backend not in (None, "cpu"):
        raise RuntimeError(f"Unknown backend {backend}: {ONE}, which is the processor")
    return [DEVICE]


def create_device_mesh(mesh_shape: Any, devices: Any = None, **_: Any) -> Any:
    """Return an array of the devices of a mesh."""
    return np.full(mesh_shape, DEVICE)


def make_mesh(axis_shapes: Any, axis_names: Any, axis_types: Any = None, *, devices: Any = None) -> Mesh:
    """Return the mesh of the only device."""
    explicit = [AxisType.Explicit] * len(axis_shapes)
    return Mesh(create_device_mesh(axis_shapes), axis_names, axis_types=axis_types or explicit)


MESH: ContextVar[AbstractMesh] = ContextVar("MESH", default=AbstractMesh())  # noqa: B039 -- nobody changes it


class set_mesh:  # noqa: N801 -- JAX's name
    """Declare the mesh of the program from now on, or in this context."""

    def __init__(self, mesh: AbstractMesh) -> None:
        self.mesh, self.before = mesh, MESH.set(mesh)

    def __enter__(self) -> AbstractMesh:
        return self.mesh

    def __exit__(self, *_: object) -> None:
        MESH.reset(self.before)


def shard_map(
    f: Callable[..., Any] | None = None, /, *, mesh: Any = None, axis_names: Any = None, **options: Any
) -> Any:
    """Return `f` applied to the parts of its arguments on each device: to all of them, on the only one.

    The names of the axes of the mesh are those of axes of length one, for `psum` and the like.
    """
    if f is None:
        return functools.partial(shard_map, mesh=mesh, axis_names=axis_names, **options)

    def along(run: Callable[[], Any], name: str) -> Callable[[], Any]:
        return lambda: tree_map(lambda x: x[0], vmap(run, axis_name=name, axis_size=1)())

    @functools.wraps(f)
    def mapped(*args: Any) -> Any:
        names = axis_names or (mesh or MESH.get()).axis_names
        return functools.reduce(along, names, lambda: f(*args))()

    return mapped


def device_put(x: Any, device: Any = None, **_: Any) -> Any:
    """Return arrays, which are on the device already."""
    return tree_map(as_array, x)


def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Sharding, arrays: Sequence[Array], *, dtype: Any = None
) -> Array:
    """Return the array that the parts on all devices make: the only part."""
    (x,) = map(as_array, arrays)
    wanted, found = ShapedArray(shape, x.dtype if dtype is None else dtype), ShapedArray(x.shape, x.dtype)
    if found != wanted:
        raise ValueError(f"{wanted!r} was asked for, and the only device has {found!r} of it")
    return made(x._tensor, x.strong)


def make_array_from_callback(
    shape: Sequence[int], sharding: Sharding, data_callback: Callable[[Any], Any], dtype: Any = None
) -> Array:
    """Return the array of which a function gives the part at an index, and is asked for all of it."""
    x = data_callback(sharding.devices_indices_map(shape)[DEVICE])
    return make_array_from_single_device_arrays(shape, sharding, [x], dtype=dtype)


def pmap(
    fun: Callable[..., Any], axis_name: Any = None, *, in_axes: Any = 0, out_axes: Any = 0,
    static_broadcasted_argnums: Any = (), **_: Any,
) -> Callable[..., Any]:  # fmt: skip
    """Return `fun` mapped over as many devices as there are, which is one."""
    static = several(static_broadcasted_argnums)

    @functools.cache
    def compiled(count: int) -> tuple[Any, Any]:
        given = in_axes if isinstance(in_axes, tuple | list) else [in_axes] * count
        places = tuple(None if i in static else axis for i, axis in enumerate(given))
        return places, jit(vmap(fun, places, out_axes, axis_name), static_argnums=static)

    @functools.wraps(fun)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        places, run = compiled(len(args))
        for axis, x in zip(axes_of(places, args), flatten(args)[0], strict=True):
            shape = np.shape(x)
            if axis is not None and not -len(shape) <= axis < len(shape):
                raise ValueError(f"pmap over axis {axis} of an array of shape {shape}")
            if axis is not None and shape[axis] != 1:
                raise ValueError(
                    f"compiling computation that requires {shape[axis]} logical devices, but "
                    "only 1 XLA devices are available: jax.vmap maps without devices"
                )
        return run(*args, **kwargs)

    return mapped


SHARDING: dict[str, Any] = by_name(
    *(AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding)
) | {"get_abstract_mesh": MESH.get, "reshard": device_put, "set_mesh": set_mesh}
NAMES: dict[str, Any] = {
    "P": PartitionSpec,
    **dict.fromkeys(("device_count", "local_device_count"), lambda backend=None: len(devices(backend))),
    "local_devices": lambda process_index=None, backend=None, host_id=None: devices(backend),
    **by_name(Device, NamedSharding, device_put, devices, make_array_from_callback),
    **by_name(make_array_from_single_device_arrays, make_mesh, pmap, set_mesh, shard_map),
}
ShapedArray.sharding = property(  # type: ignore[assignment]
    lambda self: NamedSharding(AbstractMesh(), PartitionSpec(*[None] * self.ndim))
)
_WHOLE = SingleDeviceSharding()
_OF_ARRAYS: dict[str, Callable[[Any], Any]] = {
    "addressable_shards": lambda self: [
        SimpleNamespace(data=self, device=DEVICE, index=(slice(None),) * self.ndim, replica_id=0)
    ],
    "committed": lambda self: False,
    "device": lambda self: DEVICE,
    "is_fully_addressable": lambda self: True,
    "is_fully_replicated": lambda self: True,
    "sharding": lambda self: _WHOLE,
}
for _name, _found in _OF_ARRAYS.items():
    setattr(Array, _name, property(_found))
Array.devices = lambda _: {DEVICE}  # type: ignore[attr-defined]
Array.copy_to_host_async = lambda _: None  # type: ignore[attr-defined]
