"""What an index says: its static parts as a template, its arrays as operands."""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy as np

from fgrad.backend.array import DeviceArray
from fgrad.core.aval import Aval, Shape
from fgrad.core.placement import near
from fgrad.core.snapshot import compact
from fgrad.core.stored import is_part
from fgrad.core.tensor import Tensor
from fgrad.core.trace import Tracer
from fgrad.ops.linear import reshape, sum_to, with_rank

Index = tuple[Any, ...]


class Hole:
    """The place of an index array in a template."""

    def __repr__(self) -> str:
        return "*"


HOLE = Hole()


HOLES = tuple((HOLE,) * n for n in range(65))  # as many as an array has axes


def split_index(x: Any, index: Any) -> tuple[Index, list[Any]]:
    """Return `index` as a template of slices, None, Ellipsis, integers and truths, and arrays for its holes.

    A truth value is an index array of its own, of a new axis: of length one if it is true, else zero.

    Raises:
        IndexError: `index` is not a valid index of `x`.
    """
    parts = index if isinstance(index, tuple) else (index,)
    for p in parts:
        if p.__class__ is not np.ndarray or p.dtype.kind != "i":
            break
    else:  # the usual case
        return HOLES[len(parts)], list(parts)
    if any(isinstance(p, list) or (hasattr(p, "dtype") and p.dtype.kind == "b") for p in parts):
        _check_masks(x.shape, parts)
    template: list[Any] = []
    arrays: list[Any] = []
    for part in parts:
        if part is None or part is Ellipsis:
            template.append(part)
        elif isinstance(part, slice):
            template.append(slice(*(_static(p) for p in (part.start, part.stop, part.step))))
        elif isinstance(part, int | np.integer) and not isinstance(part, bool):
            template.append(int(part))
        elif (truth := _truth(part)) is not None:
            template.append(truth)
        elif isinstance(part, SupportsIndex) and not hasattr(part, "dtype"):  # an integer of the user's
            template.append(part.__index__())
        else:
            for array in _index_arrays(x, part):
                template.append(HOLE)
                arrays.append(array)
    return tuple(template), arrays


def _check_masks(shape: Shape, parts: Index) -> None:
    """Raise what NumPy raises for masks that do not fit."""
    values = [p._value if isinstance(p, Tensor) else p for p in parts]
    if not any(isinstance(v, Tracer) for v in values):
        seen = [np.zeros(v.shape, v.dtype) if v.__class__ is DeviceArray else v for v in values]
        indexed_shape(shape, tuple(seen))


def _truth(part: Any) -> bool | None:
    """Return a boolean without axes as such; None where `part` is anything else."""
    if isinstance(part, bool):
        return part
    if getattr(part, "shape", None) != () or part.dtype.kind != "b":
        return None
    value = part._value if isinstance(part, Tensor) else part
    if isinstance(value, Tracer):
        value.refuse("indexing with a boolean")
    return bool(value)


def _static(p: Any) -> Any:
    return p.__index__() if isinstance(p, Tensor) else p


def _index_arrays(x: Any, part: Any) -> list[Any]:
    if isinstance(part, list | tuple) and (make := near(x)) is not np:
        part = make.constant(np.asarray(part) if len(part) else np.zeros(0, int))
    if not isinstance(part, Tensor | DeviceArray):
        given, part = part, np.asarray(part)
        if part.size == 0 and part.dtype.kind == "f" and not isinstance(given, np.ndarray):
            part = part.astype(int)  # an empty list
    if part.dtype.kind == "b":
        value = part._value if isinstance(part, Tensor) else part
        if isinstance(value, Tracer):
            value = value.known("indexing with a boolean array")
        return list(np.nonzero(value))
    if part.dtype.kind not in "iu":
        raise IndexError(f"arrays used as indices must be of integer (or boolean) type, not {part.dtype}")
    if isinstance(part, Tensor) and not isinstance(part._value, Tracer):
        return [part._value]
    return [part if isinstance(part, Tensor | DeviceArray) else compact(part)]


def filled(template: Index, arrays: Any) -> Index:
    """Return the index that NumPy takes."""
    if len(arrays) == len(template):
        return tuple(arrays)
    it = iter(arrays)
    return tuple(next(it) if part is HOLE else part for part in template)


def has_truth(template: Index) -> bool:
    """Return whether an index has a truth value among its parts."""
    return bool in [part.__class__ for part in template]


def indexed_shape(shape: Shape, index: Index) -> Shape:
    """Return the shape of what an index takes."""
    result: Shape = np.broadcast_to(np.empty((), np.int8), shape)[index].shape
    return result


def filling(x: Any, shape: Shape, place: Shape) -> Aval:
    """Return what the elements of `x` make of zeros of `shape`; they have to fill their place there.

    Raises:
        ValueError: there are more or fewer.
    """
    if x.shape != place:
        raise ValueError(f"elements of shape {x.shape} do not fill a place of shape {place} in {shape}")
    return Aval(shape, x.dtype)


def run_update(x: Any, value: Any, *, index: Index) -> Any:
    """Return `x` with other elements at a place of basic indices."""
    out = x.copy() if x.__class__ is DeviceArray else np.array(x)
    out[index] = value
    return out


def refuse_sequence(given: Shape, place: Shape, template: Index) -> None:
    """Refuse to write an array with axes to a single element, as NumPy does: `x[0] = [1]`."""
    if given and not place and Ellipsis not in template:
        raise ValueError(
            f"setting an array element with a sequence: a value of shape {given} is written to one element; "
            "write its element, or to a slice"
        )


def whole_index(index: Index) -> Index:
    """Return the index behind an axis that is taken whole."""
    return (slice(None), *index)


def is_index(v: Any, _: Any) -> bool:
    """Return whether a value is an index of slices and integers."""
    return type(v) is tuple and all(map(is_part, v))


def is_template(v: Any, _: Any) -> bool:
    """Return whether a value is a template of an index."""
    return type(v) is tuple and all(p is HOLE or type(p) is bool or is_part(p) for p in v)


def without_lead(values: Any, place: Shape) -> Any:
    """Return values for examples with the axes of the place of one; NumPy drops leading ones."""
    lead = max(0, len(values.shape) - 1 - len(place))
    return with_rank(reshape(values, (values.shape[0], *values.shape[1 + lead :])), 1 + len(place))


def summed_to_fit(ct: Any, shape: Shape) -> Any:
    """Return the cotangent of a value that was broadcast into a slice; NumPy drops leading ones there."""
    lead = max(0, len(shape) - len(ct.shape))
    return reshape(sum_to(ct, shape[lead:]), shape)


def gathered(shape: Shape, arrays: Any, template: Index) -> Shape:
    """Return the shape of what index arrays choose, of which nothing is made, however large it is.

    Raises:
        IndexError: the index is none of an array of this shape.
    """
    # an axis of length zero admits no index of an array, yet the shape of the result is known
    admitting, axis = list(shape), 0
    for place, part in enumerate(template):
        if part is Ellipsis:
            axis = len(shape) - sum(_consumes(p) for p in template[place + 1 :])
        elif _consumes(part) and axis < len(shape):
            if isinstance(part, int) and not -shape[axis] <= part < shape[axis]:
                raise IndexError(f"index {part} is out of bounds for axis {axis} with size {shape[axis]}")
            admitting[axis] = admitting[axis] or int(part is HOLE)
            axis += 1
    # NumPy looks at every index and makes every element: so there is one of each, and one more axis in
    # front, of length zero, by which there is no element
    ones = filled(template, [np.zeros((1,) * len(a.shape), np.intp) for a in arrays])
    empty = np.broadcast_to(np.empty((), np.int8), (0, *admitting))
    found: Shape = empty[(slice(None), *ones)].shape
    if not any(part is HOLE or isinstance(part, int) for part in template):
        return found[1:]
    before, rank = layout(shape, arrays, template)
    at = rank if _are_apart(template) else 0
    found = (*found[:at], *found[at + 1 :])
    truths = ((int(part),) for part in template if part.__class__ is bool)
    own = np.broadcast_shapes(*(a.shape for a in arrays), *truths)
    return (*found[:before], *own, *found[before + rank :])


def _are_apart(template: Index) -> bool:
    """Return whether other parts stand between those that are arrays or integers."""
    advanced = [i for i, part in enumerate(template) if part is HOLE or isinstance(part, int)]
    return advanced[-1] - advanced[0] + 1 != len(advanced)


def _consumes(part: Any) -> bool:
    """Return whether a part of an index stands for an axis of what is indexed."""
    return part is not None and part is not Ellipsis and part.__class__ is not bool


def layout(shape: Shape, arrays: Any, template: Index) -> tuple[int, int]:
    """Return the number of result axes before the index arrays' own axes, and the number of the latter."""
    advanced = [i for i, part in enumerate(template) if part is HOLE or isinstance(part, int)]
    rank = max([len(a.shape) for a in arrays] + [int(has_truth(template))])
    if _are_apart(template):
        return 0, rank
    consumed = sum(map(_consumes, template))
    before = template[: advanced[0]]
    hidden = len(shape) - consumed if Ellipsis in before else 0
    return sum(part is not Ellipsis for part in before) + hidden, rank
