"""SciPy's special functions on a device, where CuPy has none: kernels of xsf, the library under SciPy's.

CuPy brings the headers of xsf along. What SciPy takes from elsewhere stands in `include/fgrad`. A kernel is
compiled when it is first called, and CuPy keeps it on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad.compat.cupy import headers, struve

if TYPE_CHECKING:
    from pathlib import Path

THREADS, BLOCKS = 128, 256

_TYPES = {  # of a loop: in memory, and what is computed with
    "f": ("float", "double"),
    "d": ("double", "double"),
    "F": ("std::complex<float>", "std::complex<double>"),
    "D": ("std::complex<double>", "std::complex<double>"),
    "l": ("long long", "long"),
}
_POLYNOMIALS = (
    *(
        "chebyt",
        "chebyu",
        "chebyc",
        "chebys",
        "sh_chebyt",
        "sh_chebyu",
        "legendre",
        "sh_legendre",
        "gegenbauer",
    ),
    *("jacobi", "sh_jacobi", "laguerre", "genlaguerre", "hermite", "hermitenorm"),
)
_DISTRIBUTIONS = (
    *(
        "betaincc",
        "betainccinv",
        "btdtria",
        "btdtrib",
        "chdtriv",
        "chndtr",
        "chndtrinc",
        "chndtrix",
        "gdtrib",
    ),
    *("kolmogi", "kolmogorov", "pdtrik", "powm1", "stdtr", "stdtrit"),
)
SOURCES: dict[str, tuple[str, str]] = {  # name -> (headers of xsf, or one of `include`, function)
    **{name: ("kelvin", name) for name in ("ber", "bei", "berp", "beip", "ker", "kei", "kerp", "keip")},
    **{name: ("airy", name) for name in ("airy", "airye", "itairy")},
    **{f"{k}v": ("bessel", f"cyl_bessel_{k}") for k in "jyik"},
    **{f"{k}ve": ("bessel", f"cyl_bessel_{k}e") for k in "jyik"},
    **{f"hankel{k}": ("bessel", f"cyl_hankel_{k}") for k in ("1", "1e", "2", "2e")},
    **{f"it{k}": ("bessel", f"it1{k}") for k in ("i0k0", "j0y0")},
    **{name: ("bessel", name) for name in ("it2i0k0", "it2j0y0", "besselpoly")},
    **{f"spherical_{k}n": ("bessel sph_bessel", f"sph_bessel_{k}") for k in "jyik"},
    **{name: ("struve", name) for name in ("itstruve0", "itmodstruve0", "it2struve0")},
    "struve": ("struve", "struve_h"),
    "modstruve": ("struve", "struve_l"),
    **{name: ("par_cyl", name) for name in ("pbdv", "pbvv", "pbwa")},
    **{name: ("erf", name) for name in ("dawsn", "erf", "erfc", "erfcx", "erfi", "voigt_profile", "wofz")},
    **{name: ("expint", name) for name in ("exp1", "expi")},
    **{name: ("stats", name) for name in ("log_ndtr", "ndtr", "nrdtrimn", "nrdtrisd", "owens_t")},
    **{name: ("cdflib", name) for name in ("gdtria", "gdtrix")},
    **{name: (name, name) for name in ("agm", "fresnel", "hyp2f1", "hyperu", "ndtri_exp", "spence")},
    "ellipe": ("ellip", "ellipe"),
    "log_wright_bessel": ("wright_bessel", "log_wright_bessel"),
    "round": ("cephes/round", "cephes::round"),
    "shichi": ("sici", "shichi"),
    "tklmbda": ("stats", "tukeylambdacdf"),
    **{f"eval_{name}": ("fgrad/hypergeometric.cuh", f"fgrad::{name}") for name in _POLYNOMIALS},
    **{
        name: ("fgrad/hypergeometric.cuh", f"fgrad::{name}")
        for name in ("hyp0f1", "hyp1f1", "kn", "wrightomega")
    },
    **{name: ("fgrad/distributions.cuh", f"fgrad::{name}") for name in _DISTRIBUTIONS},
}


def include() -> Path:
    """Return the folder of headers of our own."""
    from pathlib import Path  # noqa: PLC0415 -- late: few programs compile kernels of C++

    return Path(__file__).parent / "include"


def options() -> tuple[str, ...]:
    """Return the compiler's options."""
    return f"-I{include()}", f"-I{include() / 'std'}"


def text(names: dict[str, str], folder: Path) -> str:
    """Return the source of kernels.

    Args:
        names: of a kernel -> what it computes, "airy d->dddd": a function and its loop as SciPy writes it,
            where "l" is an integer.
        folder: that of xsf.
    """
    lines = dict.fromkeys(["#include <fgrad/standard.cuh>"])  # each once
    for what in names.values():
        lines |= dict.fromkeys(_includes(SOURCES[what.split()[0]][0], folder))
    return "\n".join([*lines, *(_kernel(name, what) for name, what in names.items())])


def _includes(names: str, folder: Path) -> Iterator[str]:
    for name in names.split():
        if name == "struve":
            yield struve(folder)
        else:
            yield f"#include <{name}>" if name.endswith(".cuh") else f"#include <cupy/xsf/{name}.h>"


def _kernel(kernel: str, what: str) -> str:
    """Return the kernel of a function: arrays as their first elements and how far the next ones are."""
    name, loop = what.split()
    ins, outs = loop.split("->")
    function = SOURCES[name][1]
    function = function if function.startswith("fgrad::") else f"xsf::{function}"
    params = [f"const {_TYPES[c][0]} *x{i}, long long s{i}" for i, c in enumerate(ins)]
    params += [f"{_TYPES[c][0]} *y{i}" for i, c in enumerate(outs)]
    body = [f"{_TYPES[c][1]} a{i}(x{i}[t * s{i}]);" for i, c in enumerate(ins)]
    body += [f"{_TYPES[c][1]} b{i};" for i, c in enumerate(outs)]
    given = ", ".join(f"a{i}" for i in range(len(ins)))
    results = ", ".join(f"b{i}" for i in range(len(outs)))
    body.append(f"{function}({given}, {results});" if len(outs) > 1 else f"b0 = {function}({given});")
    body += [f"y{i}[t] = {_TYPES[c][0]}(b{i});" for i, c in enumerate(outs)]
    head = f'extern "C" __global__ void {kernel}({", ".join(params)}, long long n)'
    return f"{head} {{\nFGRAD_EACH(t, n) {{\n{' '.join(body)}\n}}\n}}"


def kernel(cupy: Any, what: str) -> Callable[..., None]:
    """Return the kernel of a function and loop: (operands with their steps, results, size=...) -> None."""
    # CuPy knows what it has compiled by its source, and not by what that includes
    source = f"// {_digest()}\n{text({'kernel': what}, headers(cupy))}"
    compiled = cupy.RawKernel(source, "kernel", options=options())

    def launch(*args: Any, size: int) -> None:
        steps = [np.int64(a) if a.__class__ is int else a for a in (*args, size)]
        compiled((min(-(-size // THREADS), BLOCKS),), (THREADS,), tuple(steps))

    return launch


@cache
def _digest() -> str:
    import hashlib  # noqa: PLC0415 -- late: as in `include`

    found = hashlib.sha256()
    for path in sorted(include().rglob("*.*")):
        found.update(path.read_bytes())
    return found.hexdigest()
