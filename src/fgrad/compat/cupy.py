"""CuPy: the headers of xsf, the library under SciPy's special functions, which it brings along for itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_CONSTRUCTOR = re.compile(r"^( *)((?:explicit )?double_double\(double )", re.MULTILINE)
_UNKNOWN = (
    "this version of CuPy has other headers of special functions than fgrad knows, so it cannot run on "
    "a GPU; use an older one, or move the array to the CPU: x.to('cpu')"
)


def headers(cupy: Any) -> Path:
    """Return the folder of the headers, which kernels include as `cupy/xsf/...`.

    Raises:
        NotImplementedError: it is not where it was.
    """
    from pathlib import Path  # noqa: PLC0415 -- late: few programs compile kernels of C++

    found = Path(cupy.__file__).parent / "_core" / "include" / "cupy" / "xsf"
    if not (found / "config.h").is_file():
        raise NotImplementedError(_UNKNOWN)
    return found


def struve(folder: Path) -> str:
    """Return the header of Struve's functions, and in it those that lead to double-double numbers.

    No device compiles them as they are: tables of these numbers have to be constants, so their constructors
    have to be constant expressions.

    Raises:
        NotImplementedError: there are no such constructors.
    """
    text = _spelled_out(folder.resolve() / "struve.h", folder.resolve())
    made, count = _CONSTRUCTOR.subn(r"\1constexpr \2", text)
    if not count:
        raise NotImplementedError(_UNKNOWN)
    return made


def _spelled_out(path: Path, folder: Path) -> str:
    def included(match: re.Match[str]) -> str:
        other = (path.parent / match[1]).resolve()
        if other.name in {"struve.h", "dd_real.h"}:
            return _spelled_out(other, folder)
        return f"#include <cupy/xsf/{other.relative_to(folder).as_posix()}>"

    if not path.is_file():
        raise NotImplementedError(_UNKNOWN)
    text = path.read_text().replace("#pragma once", "")
    return re.sub(r'^#include "(.*)"$', included, text, flags=re.MULTILINE)
