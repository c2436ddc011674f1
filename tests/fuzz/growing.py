"""A program as it grows: NumPy runs every step at once, so what each name holds is known to the next.

A step that NumPy refuses is dropped, or, now and then, kept as the last one: then fgrad has to refuse it too.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tests.fuzz import reference
from tests.fuzz.programs import LAYOUTS, LAYOUTS_OF_NUMBERS, NAME, Input, Program, binds, number, reads

SPECIAL = 0.3  # how often a value, or a whole array, is one of those at which something changes
LIMIT = 300  # elements of a value, where it was not large from the start
FLOATS = ("f8", "f8", "f8", "f4")
INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
EVERY = ("?", *INTEGERS, "f2", "f4", "f8", "f8", "c8", "c16")
PAIRS = (  # of steps that are slow, or large, where there are many elements
    *(
        "outer",
        "kron",
        "diag",
        "einsum",
        "tensordot",
        "cov",
        "corrcoef",
        "meshgrid",
        "eye",
        "inner",
        "vander",
    ),
    *(
        "dot",
        "ix_",
        "@",
        "broadcast",
        "tile",
        "None, :",
        "matmul",
        "indices",
        "matvec",
        "vec",
        "isin",
        "convolve",
    ),
    *(
        "correlate",
        "svd",
        "qr",
        "tolist",
        "apply_along",
        "vectorize",
        "for ",
        "lax",
        "split",
        "stack",
        "sliding",
    ),
    *("unique", "list(", "atleast_3d", "block", "sum(["),
)
SHAPES = (
    (),
    (1,),
    (2,),
    (3,),
    (4,),
    (5,),
    (2, 3),
    (3, 3),
    (3, 2),
    (1, 3),
    (4, 1),
    (2, 1, 3),
    (2, 3, 4),
    (0,),
    (0, 3),
    (2, 2, 2),
)
NAMES = {"float16": "f2", "float32": "f4", "float64": "f8", "complex64": "c8", "complex128": "c16"}
CODES = {code: name for name, code in NAMES.items()} | {
    "?": "bool_",
    "i1": "int8",
    "i2": "int16",
    "i4": "int32",
    "i8": "int64",
    "u1": "uint8",
    "u2": "uint16",
    "u4": "uint32",
    "u8": "uint64",
}


class Growth:
    """A program that grows by steps, and what NumPy makes of each."""

    def __init__(self, seed: int, dtypes: Sequence[str] = FLOATS, *, errors: float = 0.0) -> None:
        self.rng = random.Random(seed)
        self.dtypes, self.errors = dtypes, errors
        self.inputs: list[Input] = []
        self.steps: list[str] = []
        self.env: dict[str, Any] = {}
        self.count = 0
        self.ended = False
        self.views = False  # whether a write may be seen through other names
        self.nonfinite = False
        self.limit = LIMIT

    # -- choices ------------------------------------------------------------------------------------------

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def one(self, xs: Sequence[Any]) -> Any:
        return self.rng.choice(xs)

    def integer(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def element(self, kind: str, special: float = SPECIAL) -> Any:
        """Return a number of a kind of dtypes."""
        if kind == "b":
            return self.chance(0.5)
        if kind == "u":
            return self.one([0, 1, 2]) if self.chance(special) else self.integer(0, 9)
        if kind == "i":
            return self.one([0, 1, -1, 2]) if self.chance(special) else self.integer(-6, 6)
        if kind == "c":
            return complex(self.element("f", special), self.element("f", special))
        if self.nonfinite and self.chance(0.05):
            return self.one([float("inf"), float("-inf"), float("nan")])
        if self.chance(special):
            return self.one([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.0, -2.0, 3.0])
        return round(self.rng.uniform(-2.5, 2.5), 3)

    def values(self, kind: str, n: int) -> tuple[Any, ...]:
        """Return numbers, some of them special, some of them equal."""
        special = SPECIAL if self.chance(SPECIAL) else 0.0
        made = [self.element(kind, special) for _ in range(n)]
        if n > 1 and self.chance(SPECIAL):  # ties
            for _ in range(self.integer(1, n)):
                made[self.integer(0, n - 1)] = self.one(made)
        return tuple(made)

    def add_input(self, shape: Any = None, dtype: Any = None, layout: Any = None) -> str:
        shape = self.one(SHAPES) if shape is None else shape
        dtype = self.one(self.dtypes) if dtype is None else dtype
        kind = np.dtype(dtype).kind
        if layout is None:
            layout = "C" if self.chance(0.6) else self.one(sorted(LAYOUTS))
        if not shape and layout not in LAYOUTS_OF_NUMBERS:
            layout = "C"
        n = int(np.prod(shape))
        values = self.values(kind, n) if n <= self.limit and n < 1000 else self.integer(0, 10**6)
        name = f"x{len(self.inputs)}"
        self.inputs.append(Input(dtype, tuple(shape), values, layout))
        self.env[name] = self.inputs[-1].array()
        return name

    def literal(self, kinds: str = "") -> str:
        """Return a number as text: Python's or NumPy's, weak or not."""
        kind = self.one(kinds or "iifff")
        if kind == "b":
            return self.one(["True", "False"])
        if kind == "n":
            code = self.one([d for d in EVERY if d != "?"])
            return f"np.{CODES[code]}({self.element('u' if code[0] == 'u' else 'i')})"
        return number(self.element(kind))

    # -- what there is ------------------------------------------------------------------------------------

    def names(self, test: Callable[[Any], bool] = lambda v: True) -> list[str]:
        return [k for k, v in self.env.items() if isinstance(v, np.ndarray | np.generic) and test(v)]

    def pick(self, test: Callable[[Any], bool] = lambda v: True) -> str | None:
        """Return a name of an array with a property, a late one by preference."""
        found = self.names(test)
        if not found:
            return None
        return found[-1] if self.chance(0.4) else self.one(found)

    def array(self, kinds: str = "fc", **wanted: int) -> str | None:
        """Return a name of an array by kind and least number of axes."""
        low, high = wanted.get("low", 0), wanted.get("high", 9)
        return self.pick(lambda v: v.dtype.kind in kinds and low <= v.ndim <= high)

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count - 1}"

    def axis(self, v: Any) -> int:
        return self.integer(-v.ndim, v.ndim - 1)

    def axes(self, v: Any, *, none: bool = True) -> str:
        """Return an axis, axes or None as text."""
        if v.ndim == 0 or (none and self.chance(0.25)):
            return "None"
        if v.ndim > 1 and self.chance(0.25):
            chosen = self.rng.sample(range(v.ndim), self.integer(1, v.ndim))
            return repr(tuple(a - v.ndim if self.chance(0.3) else a for a in chosen))
        return repr(self.axis(v))

    def shares(self, name: str) -> bool:
        """Return whether another name sees what is written here."""
        v = self.env[name]
        others = [w for k, w in self.env.items() if k != name and isinstance(w, np.ndarray)]
        return any(np.may_share_memory(v, w) for w in others)

    def targets(self, kinds: str = "biufc") -> list[str]:
        """Return names that may be written to."""
        names = self.names(
            lambda v: isinstance(v, np.ndarray) and v.flags.writeable and v.dtype.kind in kinds
        )
        names = [n for n in names if n[0] == "v" and self.env[n].ndim > 0]
        return names if self.views else [n for n in names if not self.shares(n)]

    # -- growing ------------------------------------------------------------------------------------------

    def run(self, step: str) -> dict[str, Any]:
        """Return what the names hold after a step."""
        scope = {"np": np, "fg": reference, "lax": reference.lax, **self.env}
        exec(step, scope)
        return {name: v for name, v in scope.items() if NAME.fullmatch(name)}

    def add(self, step: str | None) -> bool:
        """Run a step and keep it, where NumPy takes it and its values are tame."""
        if step is None or self.ended or self.is_greedy(step):
            return False
        before = dict(self.env)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                self.env = self.run(step)
            except Exception:  # whatever it is, fgrad has to refuse as well
                self.env = before
                if self.chance(self.errors):
                    self.steps.append(step)
                    self.ended = True
                else:
                    self.replay()
                return False
        if all(self.is_tame(self.env[n]) for n in (binds(step) or self.env)):
            self.steps.append(step)
            return True
        self.env = before
        self.replay()
        return False

    def is_greedy(self, step: str) -> bool:
        """Return whether a step may ask for the memory of pairs of many elements."""
        sizes = [np.size(self.env[n]) for n in reads(step) if n in self.env]
        return max(sizes, default=0) > 1000 and any(word in step for word in PAIRS)

    def replay(self) -> None:
        """Make every value anew: a step that was dropped may have written to some."""
        self.env = {f"x{i}": x.array() for i, x in enumerate(self.inputs)}
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for step in self.steps:
                self.env = self.run(step)

    def is_tame(self, v: Any) -> bool:
        if not isinstance(v, np.ndarray | np.generic):
            return isinstance(v, bool | int | float | complex)
        if v.dtype.kind not in "biufc" or v.size > self.limit:
            return False
        if v.dtype.kind in "fc" and v.size:
            if not self.nonfinite and not np.all(np.isfinite(v)):
                return self.chance(0.05)
            with np.errstate(all="ignore"):
                return bool(np.nanmax(np.abs(np.nan_to_num(v)), initial=0) < 1e5)
        return True

    def program(self) -> Program:
        """Return the program, with the last value and some others as results."""
        made = [n for n in self.env if n[0] == "v"]
        made = [n for n in made if self.is_tame(self.env[n])] or list(self.env)[:1]
        if self.ended:  # the values of the last step would be among the results
            made = [n for n in made if n not in reads(self.steps[-1])] + sorted(
                reads(self.steps[-1]) & set(self.env)
            )
            if binds(self.steps[-1]):
                return Program(tuple(self.inputs), tuple(self.steps), tuple(binds(self.steps[-1])))
        results = {made[-1], *self.rng.sample(made, min(len(made), self.integer(0, 3)))}
        return Program(tuple(self.inputs), tuple(self.steps), tuple(sorted(results, key=made.index)))
