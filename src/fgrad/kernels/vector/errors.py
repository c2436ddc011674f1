"""The error functions as branch-free text: see the package."""

from __future__ import annotations

from fgrad.expr.special import ERF

COEFFICIENTS: dict[tuple[str, ...], dict[str, tuple[float, ...]]] = {
    # erf(x) / x - 1 for |x| <= 1, in x^2
    ("erf", "w"): {
        "float32": (  # the second was rounded to float32, the others are for it
            *(0.1283791657844928, -0.3761262893676758, 0.11283643535969101, -0.026857001260064902),
            *(0.0051955170100599956, -0.0008081437484905396, 8.111258731341176e-05),
        ),
        "float64": (0.12837916709551257, *ERF["float64"][1:]),
    },
    # exp(z^2) erfc(z) for 1 <= z <= 6.1 (4.1 in float32), in t = RISE / (z + 3) - SHIFT
    ("erf_far", "t"): {
        "float32": (
            *(0.24343751557663537, 0.1394916409311174, 0.0361817212696786, 0.007277537913660467),
            *(0.001086171224125414, 0.00010616554868797147, 3.4387872465523427e-06, -6.145500903479753e-07),
        ),
        "float64": (
            *(0.20663010235987478, 0.15483966160895124, 0.05023605992483873, 0.012962154244083727),
            *(0.0025525840640843334, 0.0003453552784061931, 2.0774505171006746e-05, -2.5373709430026688e-06),
            *(-5.946611777092124e-07, 3.820343907436436e-09, 1.2347242132098415e-08, 3.2037508925283906e-10),
            *(-2.8460478068318447e-10, -7.675457336116287e-12, 6.8169365854635515e-12, 1.987927238209855e-14),
        ),
    },
    # with q = C / (z + C), C = 3.5, z >= 1, and P = exp(z^2) erfc(z) / q, which is TAIL at infinity:
    # ((P - TAIL) / q - FIRST) / t, in t = 2 (C + 1) / C q - 1; after Shepherd & Laframboise (1981),
    # Math. Comp. 36, 249
    ("erfc", "t"): {
        "float32": (
            *(0.1383028859163114, 0.06686494090018574, 0.028083484740798307, 0.009936200356646325),
            *(0.002788449139477516, 0.0005284498187353062, 1.8181239360332466e-05, -2.71038571266527e-05),
            *(-7.257284586688811e-06,),
        ),
        "float64": (
            *(0.13830288475562708, 0.06686495660199217, 0.028083542841900656, 0.009936083257460258),
            *(0.002787981518678346, 0.0005287237866443648, 1.950809702894346e-05, -2.7272896296619588e-05),
            *(-8.818965406081184e-06, -1.2969189473806e-07, 6.829399174840576e-07, 1.4453418190466992e-07),
            *(
                -3.772839142080007e-08,
                -1.9542362519802067e-08,
                1.3750775569907164e-09,
                2.1897704953286205e-09,
            ),
            *(2.0582289060083852e-11, -2.2522285149908076e-10, -7.135613470973054e-12, 1.626208339484531e-11),
        ),
    },
}
_COMMON = {"center_inverse": 1 / 3.5, "erfc_scale": 9 / 3.5, "two_by_root_pi": 1.1283791670955126}
NUMBERS: dict[str, dict[str, float]] = {
    # where erf is 1, where erfc is 0, where 1 - erf has lost too many bits, what rounding took from the
    # first coefficient of erf; TAIL and FIRST in two parts
    "float32": _COMMON
    | {
        "erf_last": 4.1,
        "rise": 18.322580645161292,
        "shift": 3.580645161290323,
        "erfc_last": 11.0,
        "erfc_near": 0.9,
        "erf_low": -3.4175842428278274e-10,
        "tail": 0.1611970216035843,
        "tail_low": 2.267203221005813e-09,
        "first": 0.253080278635025,
        "first_low": 2.3711843494462636e-09,
    },
    "float64": _COMMON
    | {
        "erf_last": 6.1,
        "rise": 14.27450980392157,
        "shift": 2.5686274509803924,
        "erfc_last": 30.0,
        "erfc_near": 1.0,
        "erf_low": 0.0,
        "tail": 0.16119702387078752,
        "tail_low": -9.704466747674409e-18,
        "first": 0.2530802806881322,
        "first_low": 6.551806326728158e-19,
    },
}
TEXT = """
@helper
def fast_erf(x):
    z = abs(x)
    w = z * z
    near = x + x * ({erf})
    y = F({erf_last!r}) if z > F({erf_last!r}) else z
    t = F({rise!r}) / (y + F(3.0)) - F({shift!r})
    far = F(1.0) - ({erf_far}) * fast_exp(-(y * y))
    return near if z < F(1.0) else math.copysign(far, x)


@helper
def fast_erfc(x):
    z = abs(x)
    w = z * z
    g = F(1.0) - x
    near = g + (((F(1.0) - g) - x) - (x * ({erf}) + x * F({erf_low!r})))
    z = F({erfc_last!r}) if z > F({erfc_last!r}) else z
    g = z + F(3.5)
    d = g - z
    over = (z - (g - d)) + (F(3.5) - d)  # z + C is g + over
    q = F(3.5) / g
    a, b = fast_head(q), fast_head(g)
    c = q - a
    off = (((F(3.5) - a * b) - a * (g - b)) - c * g) - q * over  # q belongs to z + off g / C
    t = q * F({erfc_scale!r}) - F(1.0)
    u = t * ({erfc})
    v = F({first!r}) + u
    d = v - u
    rest = ((u - (v - d)) + (F({first!r}) - d)) + F({first_low!r})
    b = fast_head(v)
    u = fast_head(F(q * v))
    rest = ((a * b - u) + c * b) + (q * (v - b) + q * rest)  # (P - TAIL) is u + rest
    v = F({tail!r}) + u
    d = v - u
    rest = ((u - (v - d)) + (F({tail!r}) - d)) + (F({tail_low!r}) + rest)
    b = fast_head(v)
    high = fast_head(F(q * v))
    rest = ((a * b - high) + c * b) + (q * (v - b) + q * rest)  # P q is high + rest
    rest = rest + (F({two_by_root_pi!r}) - F(2.0) * z * high) * (off * g * F({center_inverse!r}))
    # exp(-z^2), with z^2 in two parts, is 2^k (1 + p)
    a = fast_head(z)
    w = F(z * z)
    low = (w - a * a) - (z - a) * (z + a)
    t = F(w * -LOG2E + ROUNDING)
    n = t - ROUNDING
    r = ((-w - n * LOG2_HIGH) - n * LOG2_LOW) + low
    p = r + r * r * ({exp})
    far = fast_scaled(high + (high * p + (rest + rest * p)), I(F(t).view(I) - ROUNDING_BITS))
    far = F(2.0) - far if x < F(0.0) else far
    return near if abs(x) < F({erfc_near!r}) else far
"""
