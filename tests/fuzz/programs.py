"""Programs as plain data: arrays that go in, steps of Python text, names that come out.

A step is one line of NumPy, or a short block; the names in it say what it reads and what it binds, so a
program is printed, cut and pasted as it stands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

NAME = re.compile(r"\b[xv]\d+\b")
BINDS = re.compile(r"^([xv]\d+(?:, [xv]\d+)*) = ")

# How an array that goes in lies in memory: text around an array that lies as C wants it
LAYOUTS = {
    "C": "{}",
    "F": "np.asfortranarray({})",
    "strided": "np.repeat({}, 2, -1)[..., ::2]",
    "reversed": "{}[..., ::-1]",
    "rows reversed": "{}[::-1]",
    "transposed": "np.ascontiguousarray({}.T).T",
    "broadcast": "np.broadcast_to({0}[:1], {0}.shape)",
    "read-only": "frozen({})",
    "swapped": "swapped({})",
    "offset": "np.concatenate([{0}, {0}])[len({0}):]",
}
LAYOUTS_OF_NUMBERS = {"C", "F", "read-only", "swapped"}


def frozen(a: Any) -> Any:
    """Return an array that cannot be written to."""
    a = np.array(a)
    a.flags.writeable = False
    return a


def swapped(a: Any) -> Any:
    """Return an array with the other order of bytes."""
    return a.astype(a.dtype.newbyteorder())


def number(x: Any) -> str:
    """Return a Python number as text."""
    if isinstance(x, complex) and not np.isfinite(x):
        return f"complex({number(x.real)}, {number(x.imag)})"
    return repr(x).replace("nan", "np.nan").replace("inf", "np.inf")


@dataclass(frozen=True)
class Input:
    """An array: its values, or the seed of many of them."""

    dtype: str
    shape: tuple[int, ...]
    values: tuple[Any, ...] | int
    layout: str = "C"

    def text(self) -> str:
        """Return the expression that makes it."""
        if isinstance(self.values, int):
            made = (
                f"np.random.default_rng({self.values}).integers(-8, 9, {self.shape}).astype({self.dtype!r})"
            )
            made = f"{made} * np.array(0.5, {self.dtype!r})" if np.dtype(self.dtype).kind in "fc" else made
        else:
            flat = ", ".join(map(number, self.values))
            made = f"np.array([{flat}], {self.dtype!r})"
            made = f"{made}.reshape({self.shape})" if len(self.shape) != 1 else made
        return made if self.layout == "C" else LAYOUTS[self.layout].format(f"({made})")

    def array(self) -> Any:
        """Return the array, made anew."""
        with np.errstate(all="ignore"):
            return np.asarray(eval(self.text(), {"np": np, "frozen": frozen, "swapped": swapped}))


@dataclass(frozen=True)
class Program:
    """A function of arrays."""

    inputs: tuple[Input, ...]
    steps: tuple[str, ...]
    results: tuple[str, ...]
    static: frozenset[str] = field(default=frozenset())  # inputs that are constants of the function

    def source(self, name: str = "f") -> str:
        """Return the text of the function."""
        names = [f"x{i}" for i in range(len(self.inputs))]
        body = "\n".join(self.steps).splitlines()
        lines = [f"def {name}({', '.join(names)}):", *body, f"return {', '.join(self.results)},"]
        return "\n    ".join(lines)

    def function(self, **names: Any) -> Any:
        """Return the function, for what `np`, `fg` and `lax` shall mean in it."""
        scope = dict(names)
        exec(compile(self.source(), "<program>", "exec"), scope)
        return scope["f"]

    def arrays(self) -> list[Any]:
        """Return the arrays that go in, made anew."""
        return [x.array() for x in self.inputs]


def binds(step: str) -> list[str]:
    """Return the names that a step gives a value."""
    found = BINDS.match(step)
    return found.group(1).split(", ") if found else []


def reads(step: str) -> set[str]:
    """Return the names whose values a step needs, or writes to."""
    found = BINDS.match(step)
    return set(NAME.findall(step[found.end() :] if found else step))


def tidied(program: Program) -> Program:
    """Return a program without what nothing reads: steps whose results are dead, arrays that are not used."""
    steps = list(program.steps)
    while True:
        needed = set(program.results).union(*map(reads, steps)) if steps else set(program.results)
        kept = [s for s in steps if not binds(s) or needed & set(binds(s))]
        if kept == steps:
            break
        steps = kept
    keep = [i for i in range(len(program.inputs)) if f"x{i}" in needed]
    new = {f"x{old}": f"x{i}" for i, old in enumerate(keep)}
    rename = lambda text: NAME.sub(lambda m: new.get(m.group(), m.group()), text)
    return replace(
        program,
        inputs=tuple(program.inputs[i] for i in keep),
        steps=tuple(map(rename, steps)),
        results=tuple(map(rename, program.results)),
    )


def is_aliased(program: Program) -> bool:
    """Return whether a step writes to what another name sees too, as far as NumPy's memory tells."""
    scope: dict[str, Any] = {"np": np, **{f"x{i}": x for i, x in enumerate(program.arrays())}}
    for step in program.steps:
        lines = [line.strip() for line in step.splitlines()]
        written = [found.group() for line in lines if not BINDS.match(line) and (found := NAME.search(line))]
        arrays = {k: v for k, v in scope.items() if NAME.fullmatch(k) and isinstance(v, np.ndarray)}
        for name in written:
            for other, v in arrays.items():
                if other != name and name in arrays and np.may_share_memory(arrays[name], v):
                    return True
        try:
            exec(step, scope)
        except Exception:  # one that is meant to fail, or needs more than NumPy
            return False
    return False


def live(program: Program) -> Program:
    """Return a program without what its results do not depend on, as far as names tell.

    What writes to an array counts where that is needed, or may share memory with what is.
    """
    families: list[set[str]] = []
    for step in program.steps:
        names = set(binds(step))
        names |= reads(step) if names else set()
        joined = [f for f in families if f & names]
        families = [f for f in families if not f & names] + [names.union(*joined)]
    needed, kept = set(program.results), []
    for step in reversed(program.steps):
        made = set(binds(step))
        if not made:
            (target,) = NAME.findall(step)[:1] or ("",)
            made = {target}.union(*(f for f in families if target in f))
        if needed & made:
            kept.append(step)
            needed |= reads(step)
    return replace(program, steps=tuple(reversed(kept)))
