"""Import hooks: libraries that must know Tensors are told when they are imported; none is imported here."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from fgrad.compat import scipy

if TYPE_CHECKING:
    from importlib.abc import Loader

DECLARED_BY = {  # a library -> what declares Tensors to it
    "einops": "fgrad.einops",
    "numba.core.typing.typeof": "fgrad.dispatchers",
    "scipy.fft": "fgrad.scipy.fft.backend",
    "scipy.sparse": "fgrad.scipy.products",
}
UFUNCS = {"scipy.special": "fgrad.scipy.special"}  # ... when one of its ufuncs first meets a Tensor


class _TellingLoader:
    """Loads a library as `loader` does, then declares Tensors to it."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        module.__loader__ = self.loader
        self.loader.exec_module(module)
        _tell(module.__name__)


class _Finder:
    """Finds the libraries of `DECLARED_BY` where the other finders do."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in DECLARED_BY:
            return None
        for finder in sys.meta_path:
            spec = None if isinstance(finder, _Finder) else finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = cast("Loader", _TellingLoader(spec.loader))
                return spec
        return None


def _tell(library: str) -> None:
    with contextlib.suppress(ImportError):  # of a version that has changed: it says that it knows no Tensors
        import_module(DECLARED_BY[library])


def tell_owner(ufunc: Any) -> bool:
    """Load what declares the rules of a ufunc that has none yet; return whether something was loaded."""
    declares = UFUNCS.get(scipy.owner(ufunc))
    if declares is None or declares in sys.modules:
        return False
    import_module(declares)
    return True


def install_import_hooks() -> None:
    """Declare Tensors to the libraries that are imported already, and to the others when they will be."""
    for library in DECLARED_BY:
        if library in sys.modules:
            _tell(library)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
