"""Programs stored as bytes, and loaded again; docs/export.md specifies the format.

What is stored is the program, not code: reading it runs no Python but fgrad's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.archive.container import checked_text, demanded, packed, too_large, unpacked
from fgrad.archive.reading import Reader
from fgrad.archive.rules import fingerprint
from fgrad.archive.writing import Writer
from fgrad.blocks import is_of_handler
from fgrad.core.aval import Aval, aval_of, with_dtype
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.program import Program, aval_out
from fgrad.core.tensor import Tensor, wrap
from fgrad.transforms.calling import name_of
from fgrad.transforms.jit import Call, Jit, Specialisation, jit
from fgrad.transforms.stage import StagedTracer, demand_fits

INTEGER = Aval((), np.dtype(int))
PARTS = ("name", "declared", "program", "inputs", "limits", "outputs", "leaves")


def export(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> bytes:
    """Return `fun` as a program for arguments like these, to be kept, sent, and loaded by `fgrad.load`.

    Args:
        fun: a jitted function, or any other, which is staged likewise. Static arguments are fixed.
        args: arrays (or anything with shape and dtype), numbers, and tuples, lists, dicts of them.
        kwargs: likewise.

    Returns:
        Bytes of a documented, versioned format (docs/export.md). They hold the program and its constant
        arrays, and no code; lines and file names of `fun` are left out.

    Raises:
        TypeError: the program holds what only Python can say: callbacks, solvers of `lax.custom_root`,
            Tensors that are being differentiated, containers of other classes. The message names it.

    Functions with derivatives of their own (`custom_vjp`, ...) give their values; what differentiates the
    loaded function gets a TypeError, so export `value_and_grad(f)` where gradients are wanted.

    Derivative:
        The program is that of the value; `load` gives a function that is differentiated as any other.

    Example:
        >>> import fgrad
        >>> stored = fgrad.export(lambda x: np.sum(np.sin(x) ** 2), np.zeros(2))
        >>> energy = fgrad.load(stored)
        >>> fgrad.grad(energy)(np.array([0.0, 1.0]))
        array([0.        , 0.9092...])
    """
    function = fun if isinstance(fun, Jit) else jit(fun)
    call = Call(function, args, kwargs, abstract=True)
    made = Specialisation(function.fun, call)
    writer = Writer(name_of(function.fun))
    if made.handles:
        raise writer.refuse(
            "the function reads a Tensor from outside that is being differentiated; make it an argument"
        )
    count = len(call.leaves)
    program = writer.program(made.procedure.program)
    content = {
        "name": writer.name,
        "declared": writer.declared,
        "program": program,
        "inputs": writer.tree(tree.unflatten(call.structure, range(count)), "an argument"),
        "limits": [[i, dtype.name] for i, dtype in made.limits],
        "outputs": writer.tree(tree.unflatten(made.out_structure, range(len(made.template))), "the result"),
        "leaves": [None if t is None else [writer.value(t[0], "a result")] for t in made.template],
    }
    data = packed(content, writer.arrays.found)
    try:
        _Stored(data)
    except ValueError as error:
        raise writer.refuse(f"{error}, so the program could not be loaded") from error
    return data


MAX_BYTES = 2**32


def load(data: bytes, *, max_bytes: int | None = MAX_BYTES) -> Loaded:
    """Return the function whose program `fgrad.export` returned as bytes.

    Everything is checked first, whoever wrote the bytes: the digest, that every primitive exists, that
    operands have been assigned, all parameters, and what shapes and dtypes the rules of the primitives give.
    Nothing in them is ever run as Python; docs/export.md says what is promised of files of strangers.

    Args:
        data: from `fgrad.export`. Arrays are views of it.
        max_bytes: how much memory reading the file, and the values of the program, may take; None for any
            number. It is 4 GiB, unless you say otherwise.

    Returns:
        A function like a jitted one, for arguments of the structure, shapes and dtypes of export: it
        differentiates, maps, stages, has `lower` and `as_njit`, and `.program`. It is compiled when it first
        runs (or loaded from the cache of kernels), and pickles.

    Raises:
        TypeError: `data` is no bytes.
        ValueError: the bytes are no stored program, of another version, truncated, altered, or say what no
            program says; the program needs more memory than `max_bytes`, or has an operation of
            `fgrad.extend` that is not declared here.

    Derivative:
        Of every order, by the rules of the operations of the program.

    Example:
        >>> stored = fg.export(lambda x: 2 * x, np.ones(2))
        >>> fg.load(stored)(np.array([1.0, 2.0]))
        array([2., 4.])
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"load takes the bytes that fgrad.export returned, not {type(data).__name__}")
    limit = math.inf if max_bytes is None else max_bytes
    if len(data) > limit:
        raise too_large("the file itself", len(data), limit)
    return Loaded(_Stored(bytes(data), limit))


class _Stored:
    """What the bytes say.

    Raises:
        ValueError: it is not what a program may say.
    """

    structure: Any
    out_structure: Any
    leaves: list[tuple[Any, ...] | None]
    limits: list[tuple[Any, np.dtype[Any]]]

    data: bytes
    max_bytes: float
    name: str

    def __init__(self, data: bytes, max_bytes: float = math.inf) -> None:
        self.data, self.max_bytes = data, max_bytes
        header, arrays, version = unpacked(data, max_bytes)
        try:
            self._read(header, Reader(arrays, version, max_bytes))
        except ValueError:
            raise
        except Exception as error:  # of a rule, by what it got from the file
            if is_of_handler(error):
                raise
            raise ValueError(f"the stored program is invalid: {type(error).__name__}: {error}") from error

    def _read(self, header: dict[str, Any], reader: Reader) -> None:
        if header.keys() != set(PARTS):
            raise ValueError("the header does not have the parts of the format")
        for primitive, body in demanded(header["declared"], dict).items():
            if primitive in PRIMITIVES and fingerprint(primitive) != body:
                raise ValueError(
                    f"the operation {primitive} is declared here with a different body than in the program"
                )
        self.name = checked_text(header["name"])
        self.program: Program = reader.program(header["program"])
        self.structure = self._structure(reader, header["inputs"], len(self.program.inputs))
        self.out_structure = self._structure(reader, header["outputs"], len(header["leaves"]))
        self.leaves = [None if x is None else tuple(reader.values(x)) for x in header["leaves"]]
        self.limits = [(demanded(i, int), reader.aval([dtype, []]).dtype) for i, dtype in header["limits"]]
        avals = [v.aval for v in self.program.inputs]
        args, kwargs = tree.unflatten(self.structure, range(len(avals)))
        if (
            any(d.kind not in "iu" or i < 0 or avals[i] != INTEGER for i, d in self.limits)
            or any(x is not None and len(x) != 1 for x in self.leaves)
            or self.leaves.count(None) != len(self.program.outputs)
            or type(args) is not tuple
            or type(kwargs) is not dict
            or not all(type(k) is str for k in kwargs)
        ):
            raise ValueError("arguments, results and program do not match")
        list(map(aval_out, self.program.outputs))

    @staticmethod
    def _structure(reader: Reader, said: Any, count: int) -> Any:
        leaves, structure = tree.flatten(reader.tree(said))
        if leaves != list(range(count)):
            raise ValueError("the leaves of a structure are not numbered in order")
        return structure

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program."""
        leaves, structure = tree.flatten((args, kwargs))
        if structure != self.structure:
            raise TypeError(
                f"{self.name} was exported for the structure {self.structure}, but got {structure}"
            )
        for i, dtype in self.limits:
            self._demand_fits(i, leaves[i], dtype)
        found = self.program.run([self._leaf(i, x) for i, x in enumerate(leaves)])
        for y, out in zip(self.program.outputs, found, strict=True):
            if aval_of(out) != aval_out(y):
                raise RuntimeError(f"{self.name} gives {aval_of(out)}, but the program says {aval_out(y)}")
        outs = iter(found)
        return tree.unflatten(self.out_structure, [next(outs) if x is None else x[0] for x in self.leaves])

    def _leaf(self, i: int, x: Any) -> Any:
        """Return a leaf as the program takes it: of a dtype that is fixed."""
        x = with_dtype(x)
        wanted, given = self.program.inputs[i].aval, Aval(x.shape, x.dtype)
        if given != wanted:
            raise self._wrong(i, str(wanted), str(given))
        return wrap(x._value.strong()) if x.__class__ is Tensor and isinstance(x._value, StagedTracer) else x

    def _demand_fits(self, i: int, x: Any, dtype: np.dtype[Any]) -> None:
        """Refuse a Python integer that does not fit, now or when it is known."""
        is_staged = x.__class__ is Tensor and isinstance(x._value, StagedTracer)
        if (x._value.weak if is_staged else type(x)) is not int:
            raise self._wrong(i, "a Python int (it meets integers of another dtype)", type(x).__name__)
        demand_fits(x, dtype)

    def _wrong(self, i: int, wanted: str, given: str) -> TypeError:
        return TypeError(
            f"{self.name} was exported for {wanted}, but the leaf {tree.paths(self.structure)[i]} of "
            f"(args, kwargs) is {given}; convert it, or export the function for such arguments"
        )


class Loaded(Jit[..., Any]):
    """A function that was exported: jitted, and without its Python.

    Attributes:
        program: what it does, as typed assignments.
    """

    program: Program

    def __init__(self, stored: _Stored) -> None:
        def run(*args: Any, **kwargs: Any) -> Any:
            return stored(*args, **kwargs)

        run.__name__ = run.__qualname__ = stored.name
        super().__init__(run, static_argnums=(), static_argnames=(), device=None, donate_argnums=())
        self._stored, self.program = stored, stored.program

    def __reduce__(self) -> tuple[Any, ...]:
        limit = None if self._stored.max_bytes == math.inf else int(self._stored.max_bytes)
        return partial(load, max_bytes=limit), (self._stored.data,)

    def __repr__(self) -> str:
        return f"<exported {self.__name__}>"  # type: ignore[attr-defined]
