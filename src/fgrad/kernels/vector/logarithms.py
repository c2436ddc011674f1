"""Logarithms, powers and roots as branch-free text: see the package."""

from __future__ import annotations

COEFFICIENTS: dict[tuple[str, ...], dict[str, tuple[float, ...]]] = {
    # (atanh(s) / s - 1) / s^2 for |s| <= 0.172, in s^2
    ("atanh", "w"): {
        "float32": (0.33333333275615173, 0.20000062176817815, 0.1427527332446269, 0.11668860824318344),
        "float64": (
            *(0.3333333333333335, 0.19999999999947776, 0.14285714313866574, 0.11111105426222011),
            *(0.09091454710332601, 0.07665527400213447, 0.07312303868710124),
        ),
    },
    # float64: 3 (atanh(s) / s - 1 - s^2 / 3) / s^4, likewise; float32: log2((1 + s) / (1 - s)) / s
    ("power_log", "w", "D"): {
        "float32": (
            *(2.885390081790048, 0.9617966733682309, 0.5770835830070087, 0.41167268734376855),
            *(0.3407329932424559,),
        ),
        "float64": (
            *(0.6, 0.4285714285714406, 0.3333333333247915, 0.2727272750414977),
            *(0.2307689233051077, 0.20002213198218508, 0.17559189696845096, 0.1758649059127012),
        ),
    },
    # 2^r for |r| <= 1/2, for float32 alone
    ("power_exp", "r", "D"): {
        "float32": (
            *(1.0, 0.6931472067028326, 0.24022650922288757, 0.05550327226670302),
            *(0.009618056678524637, 0.0013400428177615838, 0.0001546144469856913),
        ),
        "float64": (0.0,),
    },
    # a guess at cbrt(m) for 0.35 <= m <= 2.83
    ("root", "m"): {
        "float32": (
            0.46236228432877796,
            0.823605972140909,
            -0.3829453286685525,
            0.11086511935111089,
            -0.012861363516195937,
        ),
        "float64": (
            0.46236228432877796,
            0.823605972140909,
            -0.3829453286685525,
            0.11086511935111089,
            -0.012861363516195937,
        ),
    },
}
_WIDE = {
    "wide_root_half": 4604544271217802189,
    "wide_mantissa": 2**52 - 1,
    "wide_rounding": 1.5 * 2.0**52,
    "wide_rounding_bits": 4843621399236968448,
    "third": 1 / 3,
}
NUMBERS: dict[str, dict[str, float]] = {
    # 1 / log(2), 1 / log(10) and log10(2) in two parts, the first half as long as the dtype or less
    "float32": _WIDE
    | {
        "root_largest": 2.0**60,
        "hypot_large": 2.0**60,
        "hypot_tiny": 2.0**-40,
        "hypot_scale": 2.0**80,
        "log2e_high": 1.4423828125,
        "log2e_low": 0.00031222838896340733,
        "log10e_high": 0.4342041015625,
        "log10e_low": 9.038034075182765e-05,
        "log10_2_high": 0.301025390625,
        "log10_2_low": 4.605038981195214e-06,
    },
    "float64": _WIDE
    | {
        "root_largest": 2.0**500,
        "hypot_large": 2.0**500,
        "hypot_tiny": 2.0**-400,
        "hypot_scale": 2.0**600,
        "log2e_high": 1.4426950216293335,
        "log2e_low": 1.9259629911266175e-08,
        "log10e_high": 0.4342944771051407,
        "log10e_low": 4.798111141615973e-09,
        "log10_2_high": 0.30102999566395283,
        "log10_2_low": 2.8363394551044964e-14,
        # 2 / (3 log(2)), and a bound of exponents: every power but those of 1 is 0 or inf from there on
        "cp": 0.9617966939259756,
        "cp_high": 0.9617966860532761,
        "cp_low": 7.872699542894897e-09,
        "huge": 2.0**66,
    },
}
TEXT = """
@helper
def fast_head(x):
    return F(I(F(x).view(I) & I({mask})).view(F))  # half of the bits: the product of two heads is exact


@helper
def fast_number(k):
    return F(I(k + ROUNDING_BITS).view(F)) - ROUNDING  # F(k), which not every machine has in vectors


@helper
def fast_log(x):
    tiny = x < F({smallest!r})
    u = x * F({lift!r}) if tiny else x
    bits = I(F(u).view(I) - I({root_half}))
    n = fast_number(I(bits >> FRACTION)) - (F({fraction}) if tiny else F(0.0))
    f = F(I((bits & I({mantissa})) + I({root_half})).view(F)) - F(1.0)
    s = f / (F(2.0) + f)
    w = s * s
    y = n * LOG2_HIGH + (f - (s * (f - F(2.0) * w * ({atanh})) - n * LOG2_LOW))
    y = y if x < F(np.inf) else x
    return y if x > F(0.0) else F(-np.inf) if x == F(0.0) else F(np.nan)


@helper
def fast_log_to(x, high, low, whole, rest):
    # log(x) * (high + low), where log(2) * (high + low) is whole + rest: the method of FreeBSD's e_log2.c
    tiny = x < F({smallest!r})
    u = x * F({lift!r}) if tiny else x
    bits = I(F(u).view(I) - I({root_half}))
    n = fast_number(I(bits >> FRACTION)) - (F({fraction}) if tiny else F(0.0))
    f = F(I((bits & I({mantissa})) + I({root_half})).view(F)) - F(1.0)
    s = f / (F(2.0) + f)
    w = s * s
    half = F(0.5) * f * f
    a = fast_head(f - half)
    b = ((f - a) - half) + s * (half + F(2.0) * w * ({atanh}))
    p, q = n * whole, a * high
    y = p + q
    y = y + ((((p - y) + q) + n * rest) + (a * low + b * (high + low)))
    y = y if x < F(np.inf) else x
    return y if x > F(0.0) else F(-np.inf) if x == F(0.0) else F(np.nan)


@helper
def fast_log2(x):
    return fast_log_to(x, F({log2e_high!r}), F({log2e_low!r}), F(1.0), F(0.0))


@helper
def fast_log10(x):
    return fast_log_to(x, F({log10e_high!r}), F({log10e_low!r}), F({log10_2_high!r}), F({log10_2_low!r}))


@helper
def fast_log1p(x):
    return fast_log1p_of(x, F(0.0))


@helper
def fast_log1p_of(x, rest):
    # log(1 + x + rest): Tang (1990), ACM Trans. Math. Softw. 16, 378: the mantissa, and what 1 + x lost
    u = F(x + F(1.0))
    bits = I(F(u).view(I) - I({root_half}))
    f = F(I((bits & I({mantissa})) + I({root_half})).view(F)) - F(1.0)
    s = f / (F(2.0) + f)
    w = s * s
    n = fast_number(I(bits >> FRACTION))
    c = ((x - (u - F(1.0))) + rest) / u
    y = n * LOG2_HIGH + (f - (s * (f - F(2.0) * w * ({atanh})) - (n * LOG2_LOW + c)))
    y = math.copysign(y, x) if F(-1.0) < x < F(np.inf) else x
    return y if x > F(-1.0) else F(-np.inf) if x == F(-1.0) else F(np.nan)


@helper
def fast_asinh(x):
    # log(z + sqrt(z^2 + 1)) = log1p(z + z^2 / (1 + sqrt(z^2 + 1)))
    z = abs(x)
    w = z * z
    far = z > F({root_largest!r})  # whose square is too large; then it is log(2 z)
    a = w / (F(1.0) + math.sqrt(w + F(1.0)))
    b = z if far else z + a
    y = fast_log1p_of(b, F(0.0) if far else (z - b) + a)
    y = y + F({ln2!r}) if far else y
    return x if z < TINY else math.copysign(y, x)


@helper
def fast_acosh(x):
    far = x > F({root_largest!r})
    u = x - F(1.0)
    a = math.sqrt(u * (u + F(2.0)))
    b = x if far else u + a
    y = fast_log1p_of(b, F(-1.0) if far else (a - b) + u if a > u else (u - b) + a)
    y = y + F({ln2!r}) if far else y
    return y if x >= F(1.0) else F(np.nan)


@helper
def fast_atanh(x):
    z = abs(x)
    d = F(1.0) - z
    a = F(2.0) * z
    b = a / d
    y = F(0.5) * fast_log1p(b)
    return x if z < TINY else math.copysign(y, x) if z <= F(1.0) else F(np.nan)


@helper
def fast_cbrt(x):
    z = abs(x)
    tiny = z < F({smallest!r})
    u = z * F({lift!r}) if tiny else z
    bits = I(F(u).view(I) - I({root_half}))
    n = fast_number(I(bits >> FRACTION)) - (F({fraction}) if tiny else F(0.0))
    t = F(n * F({third!r}) + ROUNDING)
    k = I(F(t).view(I) - ROUNDING_BITS)
    over = I(F(n + ROUNDING).view(I) - ROUNDING_BITS) - k - k - k  # -1, 0 or 1
    m = F(I((bits & I({mantissa})) + I({root_half}) + (I(over) << FRACTION)).view(F))
    y = {root}
    a = y * y * y
    y = y + y * ((m - a) / (F(2.0) * a + m))  # Halley's method, twice
    a = y * y * y
    y = y + y * ((m - a) / (F(2.0) * a + m))
    y = y * F(I((k + BIAS) << FRACTION).view(F))
    return math.copysign(y, x) if F(0.0) < z < F(np.inf) else x


@helper
def fast_hypot(x, y):
    # by the root of squares, of numbers of which no square that matters overflows or is subnormal
    p, q = abs(x), abs(y)
    a = p if p > q else q
    b = q if p > q else p
    large, tiny = a > F({hypot_large!r}), a < F({hypot_tiny!r})
    up = F(1.0 / {hypot_scale!r}) if large else F({hypot_scale!r}) if tiny else F(1.0)
    down = F({hypot_scale!r}) if large else F(1.0 / {hypot_scale!r}) if tiny else F(1.0)
    a, b = a * up, b * up
    y = math.sqrt(a * a + b * b) * down
    return F(np.inf) if p == F(np.inf) or q == F(np.inf) else y
"""
POWER = {
    "float32": """
@helper
def fast_pow(x, y):
    # by way of float64
    z = D(abs(x))
    bits = L(D(z).view(L) - L({wide_root_half}))
    n = D(L((bits >> L(52)) + L({wide_rounding_bits})).view(D)) - D({wide_rounding!r})
    m = D(L((bits & L({wide_mantissa})) + L({wide_root_half})).view(D))
    s = (m - D(1.0)) / (m + D(1.0))
    w = s * s
    e = D(1e12) if y > F(1e12) else D(-1e12) if y < F(-1e12) else D(y)
    t = e * (n + s * ({power_log}))
    t = D(200.0) if t > D(200.0) else D(-200.0) if t < D(-200.0) else t
    k = D(t + D({wide_rounding!r}))
    r = t - (k - D({wide_rounding!r}))
    scale = D(L((D(k).view(L) - L({wide_rounding_bits}) + L(1023)) << L(52)).view(D))
    return fast_power_edges(x, y, F(scale * ({power_exp})))
""",
    "float64": """
@helper
def fast_pow(x, y):
    # the logarithm to base 2 in two parts, the method of FreeBSD's e_pow.c
    z = abs(x)
    tiny = z < F({smallest!r})
    u = z * F({lift!r}) if tiny else z
    bits = I(F(u).view(I) - I({root_half}))
    n = fast_number(I(bits >> FRACTION)) - (F({fraction}) if tiny else F(0.0))
    m = F(I((bits & I({mantissa})) + I({root_half})).view(F))
    f, g = m - F(1.0), m + F(1.0)
    v = F(1.0) / g
    s = f * v
    a = fast_head(s)
    b = fast_head(g)
    c = v * ((f - a * b) - a * (m - (b - F(1.0))))  # s is a + c
    w = s * s
    square = a * a
    r = w * w * ({power_log}) + c * (a + s)
    b = fast_head(F(3.0) + square + r)
    d = r - ((b - F(3.0)) - square)
    p = a * b  # 3 / 2 log(m) is p + q
    q = c * b + d * s
    high = fast_head(p + q)
    low = q - (high - p)
    p = F({cp_high!r}) * high
    q = F({cp_low!r}) * high + low * F({cp!r})
    high = fast_head((p + q) + n)
    low = q - ((high - n) - p)
    e = F({huge!r}) if y > F({huge!r}) else F(-{huge!r}) if y < F(-{huge!r}) else y
    a = fast_head(e)
    p = a * high
    q = (e - a) * high + e * low
    over, under = p + q > F(1100.0), p + q < F(-1100.0)
    p = F(1100.0) if over else F(-1100.0) if under else p
    q = F(0.0) if over or under else q
    t = F(p + ROUNDING)
    r = ((p - (t - ROUNDING)) + q) * F({ln2!r})
    k = I(F(t).view(I) - ROUNDING_BITS)
    return fast_power_edges(x, y, fast_scaled(F(1.0) + (r + r * r * ({exp})), k))
""",
}
POWER_EDGES = """
@helper
def fast_power_edges(x, y, power):
    # C's: what abs(x)**y, found to be `power`, is for zeros, infinities, NaN and negative x
    z, e = abs(x), abs(y)
    grows = (z > F(1.0)) == (y > F(0.0))
    edge = z == F(0.0) or z == F(np.inf)
    power = (F(np.inf) if grows else F(0.0)) if edge else power
    power = power if z == z and y == y else F(np.nan)
    half = F(0.5) * e
    whole = e >= WHOLE or (e + WHOLE) - WHOLE == e
    even = half >= WHOLE or (half + WHOLE) - WHOLE == half
    sign = math.copysign(F(1.0), x)
    power = -power if sign < F(0.0) and whole and not even else power
    power = power if whole or edge or not x < F(0.0) else F(np.nan)
    return F(1.0) if x == F(1.0) or y == F(0.0) else power
"""
