"""The exponential function and its kin as branch-free text: see the package."""

from __future__ import annotations

LN2 = 0.6931471805599453
COEFFICIENTS: dict[tuple[str, ...], dict[str, tuple[float, ...]]] = {
    # of r: (exp(r) - 1 - r) / r^2 for |r| <= log(2) / 2
    ("exp", "r"): {
        "float32": (
            *(0.5000000014291086, 0.16666666722230095, 0.041666456777923716),
            *(0.008333297063820803, 0.0013934544520014336, 0.00019900443821049257),
        ),
        "float64": (
            *(0.5000000000000001, 0.1666666666666667, 0.04166666666662063, 0.008333333333325544),
            *(0.0013888888918941191, 0.00019841269876866175, 2.4801518638753758e-05, 2.7557252831535417e-06),
            *(2.762133974738188e-07, 2.5106275452329115e-08),
        ),
    },
    # of r^2: (sinh(r) / r - 1) / r^2, likewise
    ("sinh", "w"): {
        "float32": (0.16666666681659167, 0.008333310889593297, 0.0001989103064192727),
        "float64": (
            *(0.16666666666666666, 0.008333333333333333, 0.0001984126984126328),
            *(2.7557319247274547e-06, 2.5052071034583784e-08, 1.608665003767784e-10),
        ),
    },
    # of r^2: (cosh(r) - 1) / r^2, likewise
    ("cosh", "w"): {
        "float32": (0.5000000013498168, 0.04166646460212757, 0.00139336858514123),
        "float64": (
            *(0.5, 0.04166666666666668, 0.0013888888888879043),
            *(2.4801587336525977e-05, 2.755726318950421e-07, 2.091817086630594e-09),
        ),
    },
    # of r^2: (r coth(r) - 1) / r^2 for |r| <= 0.55, with the least error relative to r coth(r)
    ("coth", "w"): {
        "float32": (0.33333234958800295, -0.022202089979345117, 0.0019990300624933353),
        "float64": (
            *(0.3333333333333216, -0.022222222221220025, 0.002116402087501292, -0.0002116398165627961),
            *(2.1374907039509696e-05, -2.1527229901989654e-06, 1.9452787281271143e-07),
        ),
    },
}
NUMBERS: dict[str, dict[str, float | tuple[float, ...]]] = {
    # where exp overflows, and where it is zero; the same of exp2; where sinh overflows; where tanh is 1,
    # and ROUNDING with BIAS in its last bits
    "float32": {
        "exp_largest": 88.9,
        "exp_smallest": -106.0,
        "exp2_largest": 128.1,
        "exp2_smallest": -152.0,
        "sinh_largest": 89.5,
        "tanh_largest": 10.0,
        "tanh_rounding": 1.5 * 2.0**23 + 127,
        "ln2": LN2,
        "half_ln2": LN2 / 2,
        "two_log2e": 2 / LN2,
    },
    "float64": {
        "exp_largest": 709.9,
        "exp_smallest": -747.0,
        "exp2_largest": 1024.1,
        "exp2_smallest": -1077.0,
        "sinh_largest": 710.5,
        "tanh_largest": 20.0,
        "tanh_rounding": 1.5 * 2.0**52 + 1023,
        "ln2": LN2,
        "half_ln2": LN2 / 2,
        "two_log2e": 2 / LN2,
    },
}
TEXT = """
@helper
def fast_scaled(y, k):
    half = I(k >> I(1))  # two factors, so that subnormal results are right
    rest = I(k - half)
    return y * F(I((half + BIAS) << FRACTION).view(F)) * F(I((rest + BIAS) << FRACTION).view(F))


@helper
def fast_exp(x):
    x = F({exp_largest!r}) if x > F({exp_largest!r}) else x
    x = F({exp_smallest!r}) if x < F({exp_smallest!r}) else x
    t = F(x * LOG2E + ROUNDING)
    n = t - ROUNDING
    r = (x - n * LOG2_HIGH) - n * LOG2_LOW
    return fast_scaled(F(1.0) + (r + r * r * ({exp})), I(F(t).view(I) - ROUNDING_BITS))


@helper
def fast_exp2(x):
    x = F({exp2_largest!r}) if x > F({exp2_largest!r}) else x
    x = F({exp2_smallest!r}) if x < F({exp2_smallest!r}) else x
    t = F(x + ROUNDING)
    r = (x - (t - ROUNDING)) * F({ln2!r})
    return fast_scaled(F(1.0) + (r + r * r * ({exp})), I(F(t).view(I) - ROUNDING_BITS))


@helper
def fast_expm1(x):
    y = F({exp_largest!r}) if x > F({exp_largest!r}) else F(-60.0) if x < F(-60.0) else x
    t = F(y * LOG2E + ROUNDING)
    n = t - ROUNDING
    a = y - n * LOG2_HIGH
    b = n * LOG2_LOW
    r = a - b
    rest = (a - r) - b
    k = I(F(t).view(I) - ROUNDING_BITS)
    power = F(I((k + BIAS - I(1)) << FRACTION).view(F))  # half of it, which cannot overflow
    y = (power - F(0.5)) + power * r
    y = F(2.0) * (y + power * (r * r * ({exp}) + rest))
    return x if abs(x) < TINY else y


@helper
def fast_sinh(x):
    # with x = k log(2) + r: (2^k - 2^-k) / 2 cosh(r) + (2^k + 2^-k) / 2 sinh(r)
    z = abs(x)
    z = F({sinh_largest!r}) if z > F({sinh_largest!r}) else z
    t = F(z * LOG2E + ROUNDING)
    n = t - ROUNDING
    a = z - n * LOG2_HIGH
    b = n * LOG2_LOW
    r = a - b
    rest = (a - r) - b
    w = r * r
    k = I(F(t).view(I) - ROUNDING_BITS)
    up = F(I((k + BIAS - I(3)) << FRACTION).view(F))  # an eighth of it, which cannot overflow
    down = F(I((BIAS - I(3) - k) << FRACTION).view(F))
    down = down if n < F(64.0) else F(0.0)
    odd = r + (r * w * ({sinh}) + rest)
    gap = up - down
    y = F(4.0) * (gap + (gap * (w * ({cosh})) + (up + down) * odd))
    return x if abs(x) < TINY else math.copysign(y, x)


@helper
def fast_cosh(x):
    z = abs(x)
    z = F({sinh_largest!r}) if z > F({sinh_largest!r}) else z
    t = F(z * LOG2E + ROUNDING)
    n = t - ROUNDING
    r = (z - n * LOG2_HIGH) - n * LOG2_LOW
    w = r * r
    k = I(F(t).view(I) - ROUNDING_BITS)
    up = F(I((k + BIAS - I(3)) << FRACTION).view(F))
    down = F(I((BIAS - I(3) - k) << FRACTION).view(F))
    down = down if n < F(64.0) else F(0.0)
    odd = r + r * w * ({sinh})
    both = up + down
    return F(4.0) * (both + (both * (w * ({cosh})) + (up - down) * odd))


@helper
def fast_tanh(x):
    # with |x| = n log(2) / 2 + r and p = r coth(r): exp(2 |x|) = 2^n (p + r) / (p - r), so that tanh is
    # 1 - 2 (p - r) / (2^n (p + r) + (p - r)), or r / p for n = 0, which loses no bits near zero: one division
    z = abs(x)
    near = z < F(0.55)
    z = F({tanh_largest!r}) if z > F({tanh_largest!r}) else z
    t = F({tanh_rounding!r}) if near else F(z * F({two_log2e!r}) + F({tanh_rounding!r}))
    r = z - (t - F({tanh_rounding!r})) * F({half_ln2!r})
    w = r * r
    p = F(1.0) + w * ({coth})
    d = r - p
    s = F(I(F(t).view(I) << FRACTION).view(F))
    y = (r if near else d + d) / (p if near else s * (p + r) - d)
    return math.copysign(y if near else F(1.0) + y, x)


@helper
def fast_sigmoid(x):
    y = -abs(x)
    y = F({exp_smallest!r}) if y < F({exp_smallest!r}) else y
    t = F(y * LOG2E + ROUNDING)
    n = t - ROUNDING
    a = y - n * LOG2_HIGH
    b = n * LOG2_LOW
    r = a - b
    rest = (a - r) - b
    y = fast_scaled(F(1.0) + (r + (r * r * ({exp}) + rest)), I(F(t).view(I) - ROUNDING_BITS))
    d = F(1.0) + y
    rest = (F(1.0) - d) + y
    z = (y if x < F(0.0) else F(1.0)) / d
    return z - z * (rest * (F(1.0) - F(0.5) * y))  # 1 / d but for an eighth of it
"""
