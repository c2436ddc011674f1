"""SciPy's universal functions by their primitives: what answers for them when they meet Tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.dispatch import bind
from fgrad.core.primitive import LARGE, NUMPY, PRIMITIVES, UFUNCS, Rule
from fgrad.extend.engine import FLOATS, Ufunc, as_value, convert, holds_tensor, operand, with_keywords
from fgrad.scipy.special.descriptions import described
from fgrad.scipy.special.primitives import PRIMITIVES_OF, universal

REUSED = {  # those that fgrad computes itself
    "expit": "sigmoid",
    **{name: name for name in ("cbrt", "erf", "erfc", "exp2", "expm1", "log1p")},
}
# their primitives for complex arguments
COMPLEX_OF = {name: f"complex_{name}" for name in ("erf", "erfc", "log1p")}


_REUSED_PRIMITIVES = set(REUSED.values())


class Special(Ufunc):
    """One of SciPy's universal functions, by its primitives: for plain arrays by what these run."""

    def __init__(self, name: str, primitives: tuple[str, ...]) -> None:
        ufunc = universal(name)
        assert ufunc is not None  # noqa: S101 -- whoever declares it has looked
        self._take(ufunc, name, lambda: described(self), primitives[0], "fgrad.scipy.special")
        self.primitives = primitives
        NUMPY[ufunc] = UFUNCS[ufunc] = self

    def __call__(self, *args: Any, **kw: Any) -> Any:
        """Apply the function to each element."""
        if not holds_tensor(args) and not (kw and holds_tensor((*kw.values(),))):
            fast = None if kw or len(args) != self.nin else self._for_arrays(args[0])
            return self.ufunc(*args, **kw) if fast is None else fast(*args)
        if len(self.primitives) == 1 and (kw or len(args) > self.nin):
            return with_keywords(self, args[: self.nin], *args[self.nin :], **kw)
        if kw or len(args) != self.nin:
            raise TypeError(
                f"{self.__name__} takes {self.nin} operands and no keywords where one of them is a Tensor"
            )
        if self.primitives[0] in _REUSED_PRIMITIVES:  # NumPy's functions know other dtypes than SciPy's do
            x = as_value(args[0])
            (kind, _) = self.ufunc.resolve_dtypes((x.dtype, None))
            args = (convert(x, kind),)
        operands = [operand(x) for x in args]
        primitives = self.primitives
        if self.__name__ in COMPLEX_OF and operands[0].dtype.kind == "c":
            primitives = (COMPLEX_OF[self.__name__],)
        if len(primitives) == 1:
            return bind(primitives[0], *operands)
        return tuple([bind(primitive, *operands) for primitive in primitives])

    def _for_arrays(self, x: Any) -> Rule | None:
        """Return what takes the place of SciPy's loop for plain arrays such as `x`, as for Tensors."""
        row = PRIMITIVES[self.primitives[0]]
        if row.run is self.ufunc:
            return row.large
        if row.name not in _REUSED_PRIMITIVES or x.__class__ is not np.ndarray:
            return None
        return row.large or row.run if x.size >= LARGE and x.dtype in FLOATS else None


class Kelvin(Special):
    """The Kelvin functions and their slopes as complex numbers, of eight primitives."""

    def __call__(self, *args: Any, **kw: Any) -> Any:
        """Return Be, Ke, Be', Ke' of each element."""
        if not holds_tensor((args, *kw.values())):
            return self.ufunc(*args, **kw)
        (x,) = args
        pairs = zip(self.primitives[::2], self.primitives[1::2], strict=True)
        return tuple(bind(re, operand(x)) + bind(im, operand(x)) * 1j for re, im in pairs)


def declare_ufuncs() -> dict[str, Special]:
    """Let SciPy's universal functions find their primitives; return what answers for them."""
    parts = ("ber", "bei", "ker", "kei", "berp", "beip", "kerp", "keip")
    found: dict[str, Special] = {"kelvin": Kelvin("kelvin", parts)}
    for name, primitives in ({name: (own,) for name, own in REUSED.items()} | PRIMITIVES_OF).items():
        if universal(name) is not None:
            found[name] = Special(name, primitives)
    return found | {"digamma": found["psi"], "jn": found["jv"]}
