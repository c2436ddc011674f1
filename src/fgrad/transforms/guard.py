"""The fast path into a compiled function: a guard, generated as Python text for one signature.

It takes the arguments apart by name, without walking trees, and hands the arrays to the compiled program,
whose native entry checks their dtypes and shapes. Whatever is not as expected gives `MISS`, and then the long
way, which makes every check and is what this is tested against, decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fgrad import config, tree
from fgrad.backend.array import DeviceArray
from fgrad.compat.cpython import environment
from fgrad.core import trace
from fgrad.core.aval import Aval
from fgrad.core.tensor import Tensor, wrap
from fgrad.transforms.captures import Captures

MISS = object()
_SCALARS = (float, np.float64, int, np.int64)
_STATICS = (int, float, bool, str, bytes, type(None))


class Static(NamedTuple):
    """A result that is no array, and what copies it where the caller may write to it."""

    value: Any
    copy: Callable[[], Any] | None = None


def guard(
    executable: Any,
    args: Sequence[Any],
    leaves: Sequence[Any],
    statics: dict[Any, Any],
    out_structure: Any,
    template: Sequence[Static | None],
    around: Captures | None = None,
) -> Callable[..., Any] | None:
    """Return `f(args, kwargs)`, which gives the result or `MISS`; None where there is no short way.

    Args:
        executable: of the leaves, in order, to the outputs of `template` that are None; on a device, all
            leaves are Tensors there.
        args: positional arguments as they were given, of which the guard takes others alike.
        leaves: the leaves among them, in the order of the inputs.
        statics: static arguments by position.
        out_structure: of the results.
        template: for every leaf of the results None or what is no array.
        around: what the function takes from outside, which has to be as it was.
    """
    if not executable.is_direct or any(isinstance(k, str) for k in statics):
        return None
    writer = _Writer(leaves)
    names = [f"a{i}" for i in range(len(args))]
    for i, (name, value) in enumerate(zip(names, args, strict=True)):
        if i in statics:
            if value.__class__ not in _STATICS:
                return None
            writer.static(name, value)
        elif not writer.unpack(name, value):
            return None
    if len(writer.found) != len(leaves):
        return None
    return writer.function(names, executable, out_structure, template, around)


class Writer:
    """The lines of a Python function, and the values that it names."""

    def __init__(self, **namespace: Any) -> None:
        self.lines: list[str] = []
        self.namespace = namespace
        self._count = 0

    def name(self, value: Any = MISS) -> str:
        """Return a new name, for a value if one is given."""
        self._count += 1
        name = f"v{self._count}"
        if value is not MISS:
            self.namespace[name] = value
        return name

    def executed(self, head: Sequence[str], file: str) -> Callable[..., Any]:
        """Return the function of which `head` are the first lines, which tracebacks know by `file`."""
        text = "\n".join([*head, *(f"    {line}" for line in self.lines)])
        exec(compile(text, file, "exec"), self.namespace)  # noqa: S102 -- the text is fgrad's own
        made: Callable[..., Any] = self.namespace[head[0].partition("(")[0].removeprefix("def ")]
        return made


class _Writer(Writer):
    def __init__(self, leaves: Sequence[Any]) -> None:
        super().__init__(
            MISS=MISS,
            FLOOR=trace.FLOOR,
            state=trace.inherited_state,
            chosen=config.chosen_jit,
            occasions=config.occasions,
            **dict(zip(("DISABLED", "environment"), environment("FGRAD_DISABLE_JIT"), strict=True)),
            empty=np.empty,
        )
        self.leaves = leaves
        self.found: list[str] = []  # the names of leaves
        self.spare: list[tuple[str, str]] = []  # arrays that the next call takes, and where they go

    def demand(self, condition: str) -> None:
        """Give up where `condition` does not hold."""
        self.lines += [f"if not ({condition}):", "    return MISS"]

    def static(self, name: str, value: Any) -> None:
        """Expect a static value."""
        self.demand(f"{name}.__class__ is {self.name(value.__class__)} and {name} == {self.name(value)}")
        if value.__class__ is float and not value:
            self.demand(f"{self.name(math.copysign)}(1.0, {name}) == {math.copysign(1.0, value)}")

    def unpack(self, name: str, value: Any) -> bool:
        """Expect a tree like `value`; return False where that cannot be said."""
        kind = value.__class__
        if value is None:
            self.demand(f"{name} is None")
            return True
        if kind in (tuple, list):
            self.demand(f"{name}.__class__ is {kind.__name__} and len({name}) == {len(value)}")
            parts = [self.name() for _ in value]
            if parts:
                self.lines.append(f"{', '.join(parts)}, = {name}")
            return all(map(self.unpack, parts, value))
        if kind is dict and all(k.__class__ is str for k in value):
            self.demand(f"{name}.__class__ is dict and len({name}) == {len(value)}")
            for k in sorted(value):
                part = self.name()
                self.lines.append(f"{part} = {name}.get({k!r}, MISS)")
                if not self.unpack(part, value[k]):
                    return False
            return True
        if len(self.found) == len(self.leaves) or self.leaves[len(self.found)] is not value:
            return False
        if kind is Tensor:
            self.demand(f"{name}.__class__ is {self.name(Tensor)}")
            part = self.name()
            self.lines.append(f"{part} = {name}._value")
            held = value._value
            if not value.shape or held.__class__ is DeviceArray:  # or an array, or a scalar
                self.demand(f"{part}.__class__ is {self.name(held.__class__)}")
            if held.__class__ is DeviceArray:
                self.demand(f"{part}.place is {self.name(held.place)}")
            self.found.append(part)
            return True
        if kind is not np.ndarray and kind not in _SCALARS:
            return False
        self.demand(f"{name}.__class__ is {self.name(kind)}")
        self.found.append(name)
        return True

    def function(
        self,
        names: Sequence[str],
        executable: Any,
        out_structure: Any,
        template: Sequence[Static | None],
        around: Captures | None,
    ) -> Callable[..., Any]:
        """Return the guard."""
        outs = [f"o{i}" for i in range(len(executable.outs))]
        wraps = any(leaf.__class__ is Tensor for leaf in self.leaves)
        self.namespace["NotImplemented"] = NotImplemented
        if executable.entry is not None:
            for o, aval in zip(outs, executable.outs, strict=True):
                self.lines += self.memory(o, aval, again=not (aval.shape or wraps))
            entry = self.name(executable.entry.entry)
            given = ", ".join([*self.found, *outs])
            self.lines += [
                f"ran = {entry}({given})",
                "if ran is not None:",
                f"    if ran is NotImplemented or {self.name(executable.entry.call)}({given}) is not None:",
                "        return MISS",
            ]
        else:
            for name, aval in zip(self.found, executable.ins, strict=True):
                kind = self.name(aval.dtype)
                leaf = self.leaves[self.found.index(name)]
                if leaf.__class__ is int:
                    self.demand(f"{-(2**63)} <= {name} < {2**63}")
                if leaf.__class__ is Tensor:
                    self.demand(f"{name}.__class__ is {self.name(leaf._value.__class__)}")
                if aval.shape or leaf.__class__ not in _SCALARS:
                    self.demand(f"{name}.dtype is {kind} and {name}.shape == {aval.shape}")
            run = self.name(executable.run)
            given = "".join(f"{f}, " for f in self.found)
            self.lines.append(f"found = {run}(({given}))")
            places = {k: i for i, k in enumerate(executable.results)}
            outs = [f"found[{places[k]}]" if k in places else "0" for k in range(len(outs))]
        for k in executable.checks if executable.entry is not None else ():
            self.lines += [f"if {outs[k]}:", "    return MISS"]
        if wraps:
            wrapped = self.name(wrap)
            shown = [f"{wrapped}({o})" for o in outs]
        else:
            shown = [f"{o}[()]" if not a.shape else o for o, a in zip(outs, executable.outs, strict=True)]
        constants = executable.constants
        order = iter(
            [
                shown[k] if k is not None else self.constant(constants[i], wraps=wraps)
                for i, k in enumerate(executable.results)
            ]
        )
        leaves = [next(order) if t is None else self.name(t.value) for t in template]
        result = self.result(out_structure, leaves)
        if self.spare:
            self.lines += [f"found = {result}", *(f"{put}({o})" for o, put in self.spare), "return found"]
        else:
            self.lines.append(f"return {result}")
        head = [
            "def guarded(args, kwargs):",
            f"    if kwargs or len(args) != {len(names)}:",
            "        return MISS",
            "    if state() is not FLOOR or chosen() is not None or occasions or DISABLED in environment:",
            "        return MISS",
        ]
        if around:
            condition, values = around.inline()
            self.namespace |= values
            head += [
                "    try:",
                f"        if not ({condition}):",
                "            return MISS",
                "    except Exception as error:",
                "        if is_of_handler(error):",
                "            raise",
                "        return MISS",
            ]
        if names:
            head.append(f"    {', '.join(names)}, = args")
        return self.executed(head, "<fgrad guard>")

    def constant(self, value: np.ndarray[Any, Any], *, wraps: bool) -> str:
        """Return the expression of a number that is always the same."""
        return f"{self.name(wrap)}({self.name(value)}.copy())" if wraps else self.name(value[()])

    def memory(self, name: str, aval: Aval, *, again: bool) -> list[str]:
        """Return the lines that allocate an array; of which the next call takes what this one had if `again`.

        Threads take turns between two lines, so that it is taken, or found to be missing, by one of them.
        """
        dtype = "" if aval.dtype == np.float64 else f", {self.name(aval.dtype)}"
        made = f"{name} = empty({aval.shape}{dtype})"
        if not again:
            return [made]
        spare = [np.empty((), aval.dtype)]
        self.spare.append((name, self.name(spare.append)))
        return ["try:", f"    {name} = {self.name(spare.pop)}()", "except IndexError:", f"    {made}"]

    def result(self, structure: Any, leaves: Sequence[str]) -> str:
        """Return the expression that builds the results."""
        marks = [Mark(text) for text in leaves]
        shown = _display(tree.unflatten(structure, marks))
        if shown is not None:
            return shown
        return f"{self.name(tree.unflatten)}({self.name(structure)}, [{', '.join(leaves)}])"


@dataclass(eq=False, repr=False, slots=True)
class Mark:
    """Stands for a leaf of the results."""

    text: str


def _display(x: Any) -> str | None:
    """Return the expression that builds a tree of plain containers."""
    kind = x.__class__
    if kind is Mark:
        return str(x.text)
    if x is None:
        return "None"
    if kind in (tuple, list):
        parts = list(map(_display, x))
        if None in parts:
            return None
        inside = "".join(f"{p}, " for p in parts)
        return f"({inside})" if kind is tuple else f"[{inside}]"
    if kind is dict and all(k.__class__ is str for k in x):
        parts = [_display(v) for v in x.values()]
        if None in parts:
            return None
        return "{" + ", ".join(f"{k!r}: {p}" for k, p in zip(x, parts, strict=True)) + "}"
    return None
