"""Checkpoints: the state of a training run in one file, without code, written atomically."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.archive import MAX_BYTES
from fgrad.archive.container import DTYPES, packed, shortened, too_large, unpacked
from fgrad.core.aval import aval_of
from fgrad.core.tensor import Tensor, tensor
from fgrad.distributed import operations
from fgrad.distributed.world import World, world
from fgrad.files import write

_FLOAT = re.compile(r"-?(\d+(\.\d+)?(e[+-]?\d+)?|inf|nan)")  # as `repr` writes it
_PLAIN = (bool, int, float, str)
VERSION = 1  # of the format of stored programs: that of their containers


def save(path: str | os.PathLike[str], state: Any, comm: World | None = None) -> None:
    """Write a pytree to a file that is never half-written; rank 0 writes, all ranks return when it has.

    The new file replaces the old one atomically, after all of it is on disk.

    Args:
        path: the file.
        state: pytree of arrays, Tensors, numbers and strings in dicts (with strings or integers as keys),
            lists and tuples; other containers can be read with `like=` only. That of rank 0 is written.
        comm: the ranks; None is `world()`.

    Raises:
        TypeError: a leaf is something else.

    Example:
        >>> import tempfile, os
        >>> from fgrad.distributed import restore, save, simulate
        >>> def there_and_back(file):
        ...     save(file, {"w": np.ones(2), "step": 3})
        ...     return restore(file)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     print(simulate(1, there_and_back, os.path.join(folder, "state")))
        [{'step': 3, 'w': array([1., 1.])}]
    """
    here = comm or world()
    arrays: list[np.ndarray[Any, Any]] = []
    content = {"checkpoint": _described(state, "", arrays)}
    if here.rank == 0:
        write(Path(path), packed(content, arrays, VERSION), lasting=True)
    here.barrier()


def restore(
    path: str | os.PathLike[str],
    like: Any = None,
    comm: World | None = None,
    *,
    max_bytes: int | None = MAX_BYTES,
) -> Any:
    """Return what `save` wrote; rank 0 reads, and sends it to the others.

    Args:
        path: the file.
        like: a pytree of the structure, shapes and dtypes that the file should have; needed only where there
            are other containers than dicts, lists and tuples.
        comm: the ranks; None is `world()`.
        max_bytes: how much memory the file, reading it, and its arrays may take, each; None for any number.
            It is 4 GiB, unless you say otherwise.

    Returns:
        The pytree, of the same shapes and dtypes: arrays, Tensors on the CPU, numbers, strings.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not a checkpoint, was altered, does not match `like`, or needs more memory
            than `max_bytes`.
        TypeError: it has a container that only `like` can build.

    Example:
        >>> import tempfile, os
        >>> from fgrad.distributed import restore, save, simulate
        >>> def there_and_back(file):
        ...     save(file, (np.ones(2), {"step": 3}))
        ...     return restore(file, like=(np.zeros(2), {"step": 0}))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     simulate(1, there_and_back, os.path.join(folder, "state"))[0]
        (array([1., 1.]), {'step': 3})
    """
    here = comm or world()
    limit = math.inf if max_bytes is None else max_bytes
    data = b""
    if here.rank == 0:
        try:
            length = Path(path).stat().st_size
            if length > limit:
                raise too_large(f"the file {path}", length, limit)
            data = Path(path).read_bytes()
        except (OSError, ValueError) as error:
            here.hub.fail(error)
    size = np.array([len(data)])
    here.run(operations.broadcast(here.hub, size, f"restore {Path(path).name}", 0))
    flat = np.frombuffer(data, np.uint8) if data else np.empty(int(size[0]), np.uint8)
    data = here.run(operations.broadcast(here.hub, flat, "the bytes of a checkpoint", 0)).tobytes()
    try:
        header, arrays, _ = unpacked(data, limit)
        described: Any = header.get("checkpoint") if len(header) == 1 else None
        needed = _demand(described, arrays)
        if needed > limit:
            raise too_large("building its arrays", needed, limit)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a checkpoint that fgrad.distributed.save wrote: {error}") from error
    if like is None:
        return _built(described, arrays)
    leaves: list[Any] = []
    _collect(described, arrays, leaves)
    wanted, structure = tree.flatten(like)
    avals = [None if isinstance(x, str) else aval_of(x) for x in wanted]
    found = [None if isinstance(x, str) else aval_of(x) for x in leaves]
    if avals != found or _shape_of(_described(like, "", [])) != _shape_of(described):
        raise ValueError(
            f"the checkpoint {path} does not match `like`: it has leaves {_listed(found)}, but `like` has "
            f"{_listed(avals)}, or they stand in other containers"
        )
    return tree.unflatten(structure, leaves)


def _described(x: Any, path: str, arrays: list[np.ndarray[Any, Any]]) -> list[Any]:
    """Return a tree as lists, of which each begins with a word; arrays are numbered."""
    if x is None:
        return ["none"]
    if isinstance(x, Tensor | np.ndarray | np.generic):
        value = x.numpy() if isinstance(x, Tensor) else np.asarray(x)
        if value.dtype.name not in DTYPES:
            raise TypeError(f"save: the leaf{path} has dtype {value.dtype}, which a checkpoint cannot hold")
        arrays.append(value)
        return ["tensor" if isinstance(x, Tensor) else "array", len(arrays) - 1]
    if type(x) in _PLAIN:
        return [type(x).__name__, repr(x) if isinstance(x, float) else x]
    inner = tree.children(x)
    if inner is None:
        raise TypeError(
            f"save: the leaf{path} is of type {type(x).__name__}; a checkpoint holds arrays, Tensors, "
            "numbers and strings, and no Python objects"
        )
    keys = [k for k, _ in inner]
    if isinstance(x, dict):
        if not all(type(k) in (str, int) for k in keys):
            raise TypeError(f"save: the dict{path} has keys that are neither strings nor integers")
        inner = sorted(inner, key=lambda pair: (type(pair[0]).__name__, pair[0]))
        keys = [k for k, _ in inner]
    parts = [_described(child, f"{path}[{k!r}]", arrays) for k, child in inner]
    kind = type(x)
    if kind is dict:
        return ["dict", keys, parts]
    return [
        kind.__name__ if kind in (list, tuple) else "other",
        *([] if kind in (list, tuple) else [kind.__name__]),
        parts,
    ]


def _demand(described: Any, arrays: list[np.ndarray[Any, Any]]) -> int:
    """Refuse what `save` does not write: any program can write a file with a right digest.

    Returns:
        How many bytes the arrays take: a file may repeat an element, or name an array, any number of times.

    Raises:
        ValueError: this is no tree.
    """
    match described:
        case ["none"] | ["bool", bool()] | ["str", str()]:
            return 0
        case ["int", int(x)] if x.__class__ is int:
            return 0
        case ["float", str(text)] if _FLOAT.fullmatch(text):
            return 0
        case ["array" | "tensor", int(k)] if k.__class__ is int and 0 <= k < len(arrays):
            return arrays[k].nbytes
        case ["dict", list(keys), list(parts)] if (
            len(keys) == len(parts) == len({(k.__class__, k) for k in keys if k.__class__ in (str, int)})
        ):
            pass
        case (["list" | "tuple", list(parts)]) | (["other", str(), list(parts)]):
            pass
        case _:
            raise ValueError(f"a checkpoint cannot hold {shortened(described)}")
    return sum(_demand(part, arrays) for part in parts)


def _built(described: list[Any], arrays: list[np.ndarray[Any, Any]]) -> Any:
    match described:
        case ["none"]:
            return None
        case ["array", int(k)]:
            return arrays[k].copy()
        case ["tensor", int(k)]:
            return tensor(arrays[k].copy())
        case ["float", str(text)]:
            return float(text)
        case ["bool" | "int" | "str", value]:
            return value
        case ["dict", keys, parts]:
            return {k: _built(p, arrays) for k, p in zip(keys, parts, strict=True)}
        case ["list", parts]:
            return [_built(p, arrays) for p in parts]
        case ["tuple", parts]:
            return tuple(_built(p, arrays) for p in parts)
    raise TypeError(
        f"the checkpoint holds a {described[1]}, which only you can build: give restore(path, like=...) a "
        "tree of the same structure"
    )


def _collect(described: list[Any], arrays: list[np.ndarray[Any, Any]], leaves: list[Any]) -> None:
    """Append the leaves of a tree, in the order of `tree.flatten`."""
    if described[0] in ("dict", "list", "tuple", "other"):
        for part in described[-1]:
            _collect(part, arrays, leaves)
    elif described[0] != "none":
        leaves.append(_built(described, arrays))


def _shape_of(described: list[Any]) -> Any:
    """Return the containers of a tree."""
    if described[0] in ("dict", "list", "tuple", "other"):
        return [*described[:-1], [_shape_of(p) for p in described[-1]]]
    return None if described[0] == "none" else "leaf"


def _listed(avals: list[Any]) -> str:
    shown = [str(a) for a in avals[:6]]
    return ", ".join([*shown, "..."] if len(avals) > len(shown) else shown) or "none"
