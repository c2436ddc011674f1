"""Arguments of special functions, far and near, of which kernels and formulas are compared with SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np

N = 400
_RNG = np.random.default_rng(0)


def _uniform(low: float, high: float) -> Any:
    return _RNG.uniform(low, high, N)


def _power(low: float, high: float) -> Any:
    return 10 ** _uniform(low, high)


def _mixed(near: Any, far: Any) -> Any:
    return np.where(np.arange(N) % 2, near, far)


WIDE = _mixed(_uniform(0, 3), _power(-6, 2.5))
OTHER, THIRD = _RNG.permutation(WIDE), _RNG.permutation(WIDE)
PROBABLE = _mixed(_uniform(0, 1), _power(-12, -1))
SHAPES = _power(-1.5, 2), _power(-1.5, 2), _power(-1.5, 2)
SIGNS, TURNS = _RNG.choice([-1.0, 1.0], N), _RNG.choice([-1.0, 1.0], N)
DEGREES = _RNG.integers(0, 12, N)
WITHIN, INSIDE = _uniform(-1, 1), _uniform(0.01, 0.99)
ABOVE = (WITHIN + 1) / 2
ORDERS, INDICES = _uniform(-4, 8), _uniform(-3, 8)
PLANE = SIGNS * np.minimum(WIDE, 30) + 1j * TURNS * np.minimum(OTHER, 30)
DISC = WITHIN + 1j * _RNG.permutation(WITHIN)
SIGNED = SIGNS * WIDE
NEAR = SIGNS * np.minimum(WIDE, 50)

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "agm": (WIDE, OTHER),
    "besselpoly": (_uniform(0, 3), _uniform(0, 3), _uniform(0, 3)),
    "betaincc": (SHAPES[0], SHAPES[1], PROBABLE),
    "betainccinv": (SHAPES[0], SHAPES[1], PROBABLE),
    "btdtria": (PROBABLE, SHAPES[0], INSIDE),
    "btdtrib": (SHAPES[0], PROBABLE, INSIDE),
    "chdtriv": (PROBABLE, WIDE),
    "chndtr": (WIDE, SHAPES[0], OTHER),
    "chndtrinc": (WIDE, SHAPES[0], PROBABLE),  # of what is possible
    "chndtrix": (np.maximum(PROBABLE, 1e-6), SHAPES[0] + 0.1, SHAPES[1]),
    "ellipe": (SIGNS * WITHIN,),
    "gdtria": (PROBABLE, SHAPES[0], WIDE),
    "gdtrib": (SHAPES[0], PROBABLE, WIDE),
    "gdtrix": (WIDE, SHAPES[0], PROBABLE),
    "hyp0f1": (ORDERS, SIGNED),
    "hyp1f1": (ORDERS, SHAPES[0], SIGNED),
    "hyp2f1": (ORDERS, INDICES, SHAPES[0], WITHIN),
    "hyperu": (SHAPES[0], ORDERS, WIDE),
    "kolmogi": (PROBABLE,),
    "kolmogorov": (np.minimum(WIDE, 6),),
    "log_wright_bessel": (SHAPES[0] / 10, SHAPES[1] / 10, np.minimum(WIDE, 5)),
    "modstruve": (ORDERS, np.minimum(WIDE, 50)),
    "ndtri_exp": (-_power(-10, 5),),
    "nrdtrimn": (PROBABLE, WIDE, OTHER),
    "nrdtrisd": (WIDE, PROBABLE, OTHER),
    "owens_t": (SIGNED, TURNS * OTHER),
    "pbdv": (ORDERS, SIGNS * np.minimum(WIDE, 6)),
    "pbvv": (ORDERS, SIGNS * np.minimum(WIDE, 6)),
    "pbwa": (SIGNS * np.minimum(WIDE, 4.9), 5 * WITHIN),
    "pdtrik": (PROBABLE, WIDE),
    "powm1": (WIDE, SIGNS * np.minimum(OTHER, 20)),
    "round": (SIGNED,),
    "spence": (WIDE,),
    "stdtr": (SHAPES[0], SIGNED),
    "stdtrit": (SHAPES[0] + 1, PROBABLE),
    "struve": (ORDERS, WIDE),
    "tklmbda": (2 * WITHIN, ORDERS),
    "voigt_profile": (SIGNED, SHAPES[0], SHAPES[1]),
    "wrightomega": (SIGNED,),
    **{f"{k}v{e}": (ORDERS, WIDE) for k in "jyik" for e in ("", "e")},
    **{f"hankel{k}": (ORDERS, PLANE) for k in ("1", "1e", "2", "2e")},
    **{f"spherical_{k}n": (DEGREES, WIDE) for k in "jyik"},
    "kn": (DEGREES, WIDE),
    **{name: (np.minimum(WIDE, 50),) for name in ("ker", "kei", "kerp", "keip")},
    "eval_gegenbauer": (DEGREES, SHAPES[0] / 10 + 0.1, WITHIN),
    "eval_genlaguerre": (DEGREES, SHAPES[0], WIDE / 10),
    "eval_jacobi": (DEGREES, SHAPES[0] / 10, SHAPES[1] / 10, WITHIN),
    "eval_sh_jacobi": (DEGREES, _uniform(2, 5), _uniform(0.1, 1), ABOVE),
}


def arguments(name: str, kinds: str) -> list[Any]:
    """Return arrays for a loop of a universal function of SciPy: `kinds` are the dtypes of its operands."""
    polynomial = name.startswith("eval_")
    given = ARGUMENTS.get(name) or ((DEGREES, ABOVE if "_sh_" in name else WITHIN) if polynomial else (NEAR,))
    made = []
    for x, kind in zip(given, kinds, strict=True):
        if x is DEGREES and kind != "l" and polynomial:
            x = INDICES
        if kind in "FD" and np.isrealobj(x):
            x = DISC if polynomial or name == "hyp2f1" else PLANE / 3 if name == "hyp1f1" else PLANE
        made.append(np.ascontiguousarray(x, kind))
    return made
