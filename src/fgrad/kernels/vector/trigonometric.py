"""Trigonometric functions and their inverses as branch-free text: see the package."""

from __future__ import annotations

COEFFICIENTS: dict[tuple[str, ...], dict[str, tuple[float, ...]]] = {
    # of r^2: (sin(r) / r - 1) / r^2 for |r| <= pi / 4
    ("sin", "w"): {
        "float32": (
            *(-0.16666666663854168, 0.008333331874273714, -0.000198400864995936, 2.724989523061168e-06),
        ),
        "float64": (
            *(-0.16666666666666666, 0.008333333333333331, -0.00019841269841265063, 2.7557319219337312e-06),
            *(-2.5052106231802837e-08, 1.6058531516797758e-10, -7.586691094197958e-13),
        ),
    },
    # of r^2: (cos(r) - 1 + r^2 / 2) / r^4, likewise
    ("cos", "w"): {
        "float32": (0.041666664658901405, -0.0013888302919113633, 2.4547916853691016e-05),
        "float64": (
            *(0.041666666666666664, -0.0013888888888888887, 2.4801587301584645e-05, -2.755731922140179e-07),
            *(2.0876755790721963e-09, -1.1470460830795304e-11, 4.7458685530816656e-14),
        ),
    },
    # of z^2: (atan(z) / z - 1) / z^2 for |z| <= tan(pi / 8)
    ("atan", "w"): {
        "float32": (
            *(-0.33333331760434554, 0.1999954031495797, -0.14263949753605723),
            *(0.10743668324830098, -0.06451718869358958),
        ),
        "float64": (
            *(-0.3333333333333333, 0.19999999999999804, -0.14285714285659779, 0.11111111105150588),
            *(-0.09090908753259112, 0.07692296368042296, -0.0666642476020052, 0.05878927554473807),
            *(-0.05230443640686948, 0.045515447340221615, -0.03456931506332609, 0.016284375050043393),
        ),
    },
    # of z^2: (asin(z) / z - 1) / z^2 for |z| <= 1 / 2
    ("asin", "w"): {
        "float32": (
            *(0.16666666337430908, 0.07500094543497424, 0.04459940152851218),
            *(0.03110066273549457, 0.017149238357677253, 0.03369084720283012),
        ),
        "float64": (
            *(0.16666666666666666, 0.07500000000000118, 0.044642857142551895, 0.03038194447553234),
            *(0.02237215744350722, 0.017352816540325496, 0.01396378001220357, 0.011566459612121669),
            *(0.009621842970100282, 0.009319560794767446, 0.0030448799094556773, 0.019554513336123378),
            *(-0.01924167174674304, 0.02961201126495512),
        ),
    },
}
_COMMON: dict[str, float | tuple[float, ...]] = {
    "far": 2.0**22,
    "two_over_pi": 0.6366197723675814,
    "half_pi": (1.570796325802803, 9.920935791635221e-10, 5.17018297889025e-19),
    "tan_steep": 2.414213562373095,
    "tan_flat": 0.41421356237309503,
}
NUMBERS: dict[str, dict[str, float | tuple[float, ...]]] = {
    "float32": _COMMON
    | {
        "quarter": 2.0**126,
        "half_pi_rest": 9.920935796805405e-10,
        "half_pi_high": 1.5707963705062866,
        "half_pi_low": -4.3711390001862426e-08,
        "quarter_pi_high": 0.7853981852531433,
        "quarter_pi_low": -2.1855695000931213e-08,
    },
    "float64": _COMMON
    | {
        "quarter": 2.0**1022,
        "half_pi_rest": 2.9038559739793605e-28,
        "half_pi_high": 1.5707963267948966,
        "half_pi_low": 6.123233995736766e-17,
        "quarter_pi_high": 0.7853981633974483,
        "quarter_pi_low": 3.061616997868383e-17,
    },
}
REDUCTION = {
    # Cody & Waite (1980): pi / 2 in parts with so few bits that their products with n < 2^22 are exact
    "float32": """
    # in float64, where the rest of the first product is far below the last bit
    z = D(x)
    t = D(z * D({two_over_pi!r}) + D({wide_rounding!r}))
    n = t - D({wide_rounding!r})
    turn = (z - n * D({half_pi[0]!r})) - n * D({half_pi_rest!r})
    r = F(turn)
    rest = F(turn - D(r))
    k = I(D(t).view(L) - L({wide_rounding_bits}))
""",
    "float64": """
    t = F(x * F({two_over_pi!r}) + ROUNDING)
    n = t - ROUNDING
    a = x - n * F({half_pi[0]!r})
    b = n * F({half_pi[1]!r})
    c = a - b
    d = c - a
    e = (a - (c - d)) - (b + d)  # a - b is c + e
    b = n * F({half_pi[2]!r})
    r = c - b
    d = r - c
    e = e + ((c - (r - d)) - (b + d)) - n * F({half_pi_rest!r})
    rest = r
    r = r + e
    rest = (rest - r) + e
    k = I(F(t).view(I) - ROUNDING_BITS)
""",
}
SINE = """
    w = r * r
    half = F(0.5) * w
    u = r * w * ({sin}) + rest * (F(1.0) - half)
    s = x if abs(x) < TINY else r + u
    near = F(1.0) - half
    v = ((F(1.0) - near) - half) + (w * w * ({cos}) - r * rest)
    c = near + v
"""
TEXT = """
@helper
def fast_sin(x):
{sine}
    y = c if k & I(1) else s
    y = -y if k & I(2) else y
    far = libm_sin(x)
    return y if abs(x) <= F({far!r}) else far


@helper
def fast_cos(x):
{sine}
    y = s if k & I(1) else c
    y = -y if (k + I(1)) & I(2) else y
    far = libm_cos(x)
    return y if abs(x) <= F({far!r}) else far


@helper
def fast_tan(x):
{sine}
    u = (r - s) + u  # what the last bits of s and c leave
    v = (near - c) + v
    p, q = (c, -s) if k & I(1) else (s, c)
    d, e = (v, -u) if k & I(1) else (u, v)
    y = p / q
    y = y + (d - y * e) / q
    y = y if abs(x) > TINY else x
    far = libm_tan(x)
    return y if abs(x) <= F({far!r}) else far


@helper
def fast_atan_of(p, q):
    # atan(p / q) for p and q that are not negative, nor both zero or infinite, in two parts
    steep, flat = p > q * F({tan_steep!r}), p <= q * F({tan_flat!r})
    r = (-q if steep else p if flat else p - q) / (p if steep else q if flat else q + p)
    base = F({half_pi_high!r}) if steep else F(0.0) if flat else F({quarter_pi_high!r})
    rest = F({half_pi_low!r}) if steep else F(0.0) if flat else F({quarter_pi_low!r})
    w = r * r
    return base + (r + (r * w * ({atan}) + rest))


@helper
def fast_atan(x):
    return math.copysign(fast_atan_of(abs(x), F(1.0)), x)


@helper
def fast_atan2(y, x):
    p, q = abs(y), abs(x)
    large = p > F({quarter!r}) or q > F({quarter!r})
    scale = F(0.125) if large else F(1.0)
    both = (p == F(0.0) and q == F(0.0)) or (p == F(np.inf) and q == F(np.inf))
    p = (F(0.0) if p == F(0.0) else F(1.0)) if both else p * scale
    q = F(1.0) if both else q * scale
    z = fast_atan_of(p, q)
    far = F(2.0) * F({half_pi_high!r}) - (z - F(2.0) * F({half_pi_low!r}))
    z = far if math.copysign(F(1.0), x) < F(0.0) else z
    return math.copysign(z, y)


@helper
def fast_asin(x):
    z = abs(x)
    near = z <= F(0.5)
    w = z * z if near else F(0.5) * (F(1.0) - z)
    s = z if near else math.sqrt(w)
    p = s * w * ({asin})
    a = fast_head(s)
    b = (w - a * a) / (s + a)  # the square root is a + b
    b = b if s > F(0.0) else F(0.0)
    far = F({quarter_pi_high!r}) - F(2.0) * a
    far = F({quarter_pi_high!r}) - ((F(2.0) * p - (F({half_pi_low!r}) - F(2.0) * b)) - far)
    return math.copysign(s + p if near else far, x)


@helper
def fast_acos(x):
    z = abs(x)
    near = z <= F(0.5)
    w = z * z if near else F(0.5) * (F(1.0) - z)
    s = z if near else math.sqrt(w)
    p = s * w * ({asin})
    a = fast_head(s)
    b = (w - a * a) / (s + a)
    b = b if s > F(0.0) else F(0.0)
    up = F(2.0) * (a + (b + p))
    down = F({half_pi_high!r}) * F(2.0) - (up - F(2.0) * F({half_pi_low!r}))
    p = math.copysign(p, x)
    mid = F({half_pi_high!r}) - (x - (F({half_pi_low!r}) - p))
    return mid if near else up if x > F(0.0) else down
"""
