"""Values of special functions as formulas of elementary ones, which compiled loops compute in place of SciPy.

They have no branches, so that loops become vector code. Numbers in brackets are sections of the Digital
Library of Mathematical Functions. Polynomials interpolate at Chebyshev points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fgrad.extend.engine import CENTER, ERFC, Expr, equal, fn, where

Formula = Callable[..., Expr]  # of expressions
ROOT_HALF = math.sqrt(0.5)
HALF_LOG_2PI, LOG_PI = 0.9189385332046728, 1.1447298858494002
FAR = 8.0  # from here on asymptotic series hold
# log(gamma(1 + u)) / (u (u - 1)) for 0 <= u <= 1, in 2 u - 1
LOG_GAMMA = (
    *(0.4831289505409809, -0.07297994795715304, 0.015727850268641097, -0.003913560937626331),
    *(0.001049818664454635, -0.0002945507015164312, 8.510090373634476e-05, -2.5094328700900636e-05),
    *(7.511391846837954e-06, -2.2742472358027586e-06, 6.948428393704062e-07, -2.138638060528023e-07),
    *(6.623870571642316e-08, -2.0619851263731666e-08, 6.430366506216791e-09, -2.0184741279133343e-09),
    *(6.5655031582108e-10, -2.075322954216366e-10, 5.030067090605482e-11, -1.5936042537298723e-11),
    *(1.1577613910649688e-11, -3.700571132904742e-12),
)
# psi(1 + u) / (u - ROOT) for 0 <= u <= 1, in 2 u - 1; the root in two parts
DIGAMMA = (
    *(0.9510558760318328, -0.21181371064073024, 0.06013562106019684, -0.018550615381739702),
    *(0.005936795278301875, -0.0019350666647392832, 0.0006368880303847901, -0.00021074841284590126),
    *(6.99501882655044e-05, -2.325823275895313e-05, 7.741234441368395e-06, -2.578133701610713e-06),
    *(8.589062683365892e-07, -2.8621216825577647e-07, 9.543261570760428e-08, -3.1807298477301726e-08),
    *(1.0528133851878114e-08, -3.509235492410718e-09, 1.2466690231864029e-09, -4.1555064115551965e-10),
    *(8.748420037436287e-11, -2.9161179626023815e-11, 2.916093601085364e-11, -9.720300404202244e-12),
)
ROOT, ROOT_LOW = 0.4616321325302124, 1.2438149938918909e-08
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)
LOG_GAMMA_FAR = tuple(b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI, 1))
DIGAMMA_FAR = tuple(b / (2 * k) for k, b in enumerate(BERNOULLI, 1))
I0_NEAR = tuple(1 / math.factorial(k) ** 2 for k in range(24))
I1_NEAR = tuple(0.5 / (math.factorial(k) * math.factorial(k + 1)) for k in range(24))
# exp(-x) sqrt(x) I(x) for x >= 8, in 16 / x - 1
I0_FAR = (
    *(0.4021765094450081, 0.0033605519836678957, 0.00013621607439240872, 1.1143033787196146e-05),
    *(1.4838475383761931e-06, 2.9735998175147926e-07, 8.872281878606972e-08, 3.932394407460104e-08),
    *(2.1541036552074703e-08, 7.571399219317429e-09, -6.695744407208808e-09, -1.3501703812071884e-08),
    *(-5.642169286320236e-09, 7.898656214080068e-09, 8.165235824562946e-09, -4.4063155597117096e-09),
    *(-7.532021950057556e-09, 3.1898620177031253e-09, 6.013743186934174e-09, -2.7986569376875016e-09),
    *(-4.110513591942586e-09, 2.2802324364681015e-09, 2.235704690753009e-09, -1.4463373480099953e-09),
    *(-8.805359476876055e-10, 6.400120686666289e-10, 2.1909867876335013e-10, -1.735485743477279e-10),
    *(-2.5578118097827297e-11, 2.1599958553218455e-11),
)
I1_FAR = (
    *(0.38939845902587233, -0.009749577193235728, -0.00021923576383430274, -1.5038547201176271e-05),
    *(-1.8349101134666435e-06, -3.483855609009937e-07, -1.0001323461066435e-07, -4.312935369971356e-08),
    *(-2.337059627111857e-08, -8.426622829598154e-09, 6.715795128085017e-09, 1.4029693589852716e-08),
    *(6.040877342160988e-09, -7.630751970065577e-09, -8.044231276166508e-09, 3.406636130196794e-09),
    *(6.4870195719816896e-09, -1.4171698018664596e-09, -4.047785403711858e-09, 5.146498826087142e-10),
    *(1.8513716745511988e-09, -1.342266320082222e-10, -5.388285995923524e-10, 1.7502497778701306e-11),
    *(7.347992441734663e-11,),
)
# K_0(x) + log(x / 2) I_0(x), and K_1(x) - log(x / 2) I_1(x) - 1 / x over x, in x^2 / 4 (10.31.1)
K0_NEAR = (
    *(-0.5772156649015329, 0.42278433509846713, 0.23069608377461678, 0.0348921574564389),
    *(0.0026147876188052093, 0.00011848039364109726, 3.6126241031992037e-06, 7.935096521304209e-08),
    *(1.3167486730385647e-09, 1.709994072705808e-11, 1.785934656987074e-13, 1.5330343403208473e-15),
    *(1.1009270959725744e-17, 6.712740659979047e-20),
)
K1_NEAR = (
    *(0.03860783245076643, -0.16819608377461678, -0.04539379174021391, -0.0047955474598326405),
    *(-0.000278839872991632, -1.0355619223177857e-05, -2.6788647852279523e-07, -5.113215008984695e-09),
    *(-7.50512186647297e-11, -8.739821824232205e-13, -8.27478683812568e-15, -6.496602830252822e-17),
    *(-4.2988082067481413e-19, -2.4303018797059044e-21),
)
# exp(x) sqrt(x) K(x) for x >= 2, in 4 / x - 1
K0_FAR = (
    *(1.2185953385133905, -0.031071461824889554, 0.0030328918102751935, -0.0004797690567629981),
    *(9.956054742546008e-05, -2.473520464665274e-05, 7.002245564109627e-06, -2.1911767539401716e-06),
    *(7.427807838466459e-07, -2.689135887009184e-07, 1.0295120376495239e-07, -4.131061283701578e-08),
    *(1.7056674605334674e-08, -7.3618275080282515e-09, 3.791192703615846e-09, -1.8006773523392004e-09),
    *(6.837018659348517e-11, 3.233433692180319e-11, 7.977983533091815e-10, -4.506683106759898e-10),
    *(-3.0539020868001565e-10, 1.7977981899954878e-10, 1.0806290149518295e-10, -6.183509185741941e-11),
)
K1_FAR = (
    *(1.363151890371342, 0.10334973775386527, -0.005566729880074451, 0.0007357241549046456),
    *(-0.00013959021956830856, 3.284386565057862e-05, -8.961207299463647e-06, 2.730040312895642e-06),
    *(-9.067094776630646e-07, 3.2298873862640425e-07, -1.220284967173793e-07, 4.843094038201199e-08),
    *(-1.9827457966367164e-08, 8.49114322410236e-09, -4.313336112817399e-09, 2.0346220468711174e-09),
    *(-1.0584430289297026e-10, -2.104015257574649e-11, -8.740019154894709e-10, 4.921710202548386e-10),
    *(3.3153918291421876e-10, -1.948680720152238e-10, -1.1801191034535537e-10, 6.73716173849808e-11),
)
# E_1(x) + log(x) in x (6.6.2), and x exp(x) E_1(x) for x >= 1, in (x - 4) / (x + 2)
E1_NEAR = (
    *(-0.5772156649015329, 1.0, -0.25, 0.05555555555555555),
    *(-0.010416666666666666, 0.0016666666666666668, -0.0002314814814814815, 2.834467120181406e-05),
    *(-3.1001984126984127e-06, 3.0619243582206544e-07, -2.755731922398589e-08, 2.27746439867652e-09),
    *(-1.7397297489890083e-10, 1.2353110643708935e-11, -8.193389712664089e-13, 5.0981091545465446e-14),
    *(-2.9871733327421158e-15, 1.6537983849091297e-16, -8.677337204770125e-18),
)
E1_FAR = (
    *(0.8253825996042233, 0.190369497031675, -0.02430031365429492, 0.010133650725804962),
    *(-0.0025078525719148767, 0.0011289560044493911, -0.0003379858129704204, 0.0001617676046847692),
    *(-5.2193986862470885e-05, 2.653624176599646e-05, -8.721585104003837e-06, 4.758524452929523e-06),
    *(-1.524725042475804e-06, 9.132287290861108e-07, -2.6910877016276854e-07, 1.8753466272464202e-07),
    *(-5.348697155473794e-08, 3.6056243728993066e-08, 7.211326220347334e-09, 1.9622090133243495e-08),
    *(-2.6485994239058474e-08, -1.5431969906317103e-08, 3.1965046455892346e-08, 2.2786339847912914e-08),
    *(-2.784756452485897e-08, -1.9196984299929964e-08, 1.6498378324075915e-08, 1.1463612050252254e-08),
    *(-5.854361348075136e-09, -4.052116630638729e-09, 1.0024737006772207e-09, 6.949631860835052e-10),
)
# quotients of polynomials, each the numerator and the denominator: Wichura (1988), Algorithm AS 241, Applied
# Statistics 37, 477
MIDDLE = (
    (
        *(3.3871328727963666080, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125),
        *(45921.953931549871457, 67265.770927008700853, 33430.575583588128105, 2509.0809287301226727),
    ),
    (
        *(1.0, 42.313330701600911252, 687.18700749205790830, 5394.1960214247511077),
        *(21213.794301586595867, 39307.895800092710610, 28729.085735721942674, 5226.4952788528545610),
    ),
)
TAIL = (
    (
        *(1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504),
        *(
            1.27045825245236838258,
            0.241780725177450611770,
            0.0227238449892691845833,
            7.74545014278341407640e-4,
        ),
    ),
    (
        *(1.0, 2.05319162663775882187, 1.67638483018380384940, 0.689767334985100004550),
        *(0.148103976427480074590, 0.0151986665636164571966, 5.47593808499534494600e-4),
        1.05075007164441684324e-9,
    ),
)
END = (
    (
        *(6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580, 0.296560571828504891230),
        *(0.0265321895265761230930, 1.24266094738807843860e-3, 2.71155556874348757815e-5),
        2.01033439929228813265e-7,
    ),
    (
        *(1.0, 0.599832206555887937690, 0.136929880922735805310, 0.0148753612908506148525),
        *(7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7),
        2.04426310338993978564e-15,
    ),
)


def polynomial(coefficients: Sequence[float], x: Expr) -> Expr:
    """Return the sum of `coefficients[k] x**k`, by Horner's rule."""
    total: Any = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        total = total * x + c
    return total  # type: ignore[no-any-return]


def _quotient(parts: tuple[Sequence[float], Sequence[float]], x: Expr) -> Expr:
    return polynomial(parts[0], x) / polynomial(parts[1], x)


# ---- the gamma function


def _from_whole(x: Expr) -> Expr:
    """Return the signed distance from the nearest integer, which is exact."""
    return x - fn.rint(x)


def _reflected(x: Expr) -> Expr:
    return where(x < 0, 1 - x, x)


def betaln(a: Expr, b: Expr) -> Expr:
    """Return log(abs(beta(a, b))) (5.12.1, 5.11.13)."""
    a, b = _without_poles(a, b)
    b, a = _without_poles(b, a)
    first = fn.fabs(a) >= fn.fabs(b)
    large, small = where(first, a, b), where(first, b, a)
    far = fn.logical_and(large > 1e6, large > 1e6 * fn.fabs(small))
    rest = small * (1 - small) / (2 * large)  # of the series by which gammaln(large + small) differs
    series = rest * (1 + (1 - 2 * small) / (6 * large) - rest / (3 * large)) - small * fn.log(large)
    difference = gammaln(where(far, 2, large)) - gammaln(where(far, 2, large + small))
    value = gammaln(small) + where(far, series, difference)
    return where(fn.logical_or(_is_pole(a), _is_pole(b)), math.inf, value)


def _is_pole(a: Expr) -> Expr:
    return fn.logical_and(a <= 0, equal(a, fn.floor(a)))


def _without_poles(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Return arguments of the same beta function, but for its sign, without poles of gamma that cancel."""
    poles = fn.logical_and(fn.logical_and(_is_pole(a), equal(b, fn.floor(b))), a + b < 1)
    return where(poles, 1 - a - b, a), b


def _to_unit(x: Expr) -> tuple[Expr, list[tuple[Expr, Expr]]]:
    """Return how far from 1, which is exact, recurrences lead from 0 <= x < 8, and the steps in between.

    A step is a condition on `x` and a factor: gamma(x) is gamma(1 + u) times the factors whose conditions
    hold, and over x where x < 1.
    """
    u = x - fn.floor(x)
    return u, [(x >= k + 2, u + (k + 1)) for k in range(6)]


def gammaln(x: Expr) -> Expr:
    """Return log(abs(gamma(x))) (5.5.1, 5.5.3, 5.11.1)."""
    z = _reflected(x)
    far = z >= FAR
    low = z < 1
    u, steps = _to_unit(where(far, 1, z))
    product = where(low, z, 1)
    for needed, factor in steps:
        product = where(needed, product * factor, product)
    log = fn.log(where(far, z, product))
    near = u * (u - 1) * polynomial(LOG_GAMMA, 2 * u - 1) + where(low, -log, log)
    inverse = 1 / where(far, z, FAR)
    beyond = ((z - 0.5) * (log - 1) - 0.5 + HALF_LOG_2PI) + inverse * polynomial(
        LOG_GAMMA_FAR, inverse * inverse
    )
    value = where(far, where(equal(z, math.inf), math.inf, beyond), near)
    sine = fn.sin(math.pi * fn.fabs(_from_whole(x)))
    value = where(x < 0, LOG_PI - fn.log(sine) - value, value)
    return where(equal(x, -math.inf), x, value)


def psi(x: Expr) -> Expr:
    """Return the digamma function (5.5.2, 5.5.4, 5.11.2)."""
    z = _reflected(x)
    far = z >= FAR
    low = z < 1
    u, steps = _to_unit(where(far, 1, z))
    top, bottom = where(low, -1, 0), where(low, z, 1)  # of the sum of reciprocals
    for needed, factor in steps:
        top = where(needed, top * factor + bottom, top)
        bottom = where(needed, bottom * factor, bottom)
    near = ((u - ROOT) - ROOT_LOW) * polynomial(DIGAMMA, 2 * u - 1) + top / bottom
    inverse = 1 / where(far, z, FAR)
    square = inverse * inverse
    beyond = fn.log(where(far, z, FAR)) - 0.5 * inverse - square * polynomial(DIGAMMA_FAR, square)
    value = where(far, beyond, near)
    rest = _from_whole(x)
    cotangent = math.pi / fn.tan(math.pi * rest)
    return where(x < 0, where(equal(rest, 0), math.nan, value - cotangent), value)


def trigamma(x: Expr) -> Expr:
    """Return the derivative of the digamma function (5.15.1, 5.15.5, 5.15.6, 5.15.8)."""
    z = _reflected(x)
    far = z >= FAR
    start = where(far, 1, z)
    total: Any = 0.0
    for k in range(0, int(FAR), 2):
        a, b = start + k, start + (k + 1)
        product = a * b  # one division for two squares of reciprocals
        total = total + (a * a + b * b) / (product * product)
    inverse = 1 / where(far, z, start + FAR)
    square = inverse * inverse
    beyond = inverse + 0.5 * square + inverse * square * polynomial(BERNOULLI, square)
    value = where(far, beyond, beyond + total)
    sine = fn.sin(math.pi * _from_whole(x))
    root = math.pi / sine
    return where(x < 0, root * root - value, value)


# ---- the normal distribution


def _scaled_tail(z: Expr) -> Expr:
    """Return exp(z^2) erfc(z) for z >= 0."""
    q = CENTER / (z + CENTER)
    return q * polynomial(ERFC["float64"], 1 - 2 * q)


def erfcx(x: Expr) -> Expr:
    """Return exp(x^2) erfc(x)."""
    low = x < 0
    tail = _scaled_tail(fn.fabs(x))
    return where(low, 2 * fn.exp(where(low, x * x, 0)) - tail, tail)


def ndtr(x: Expr) -> Expr:
    """Return the distribution function of a standard normal variable (7.2.2)."""
    return 0.5 * fn.erfc(-x * ROOT_HALF)


def log_ndtr(x: Expr) -> Expr:
    """Return its logarithm."""
    t = x * ROOT_HALF
    low = x < -1
    tail = fn.log(0.5 * _scaled_tail(where(low, -t, 1))) - where(low, t * t, 0)
    return where(low, tail, fn.log1p(-0.5 * fn.erfc(where(low, 0, t))))


def _quantile(q: Expr, p: Expr) -> Expr:
    """Return the normal quantile of q + 1/2, where `p` is the smaller of the probabilities on both sides."""
    middle = fn.fabs(q) <= 0.425
    r = fn.sqrt(-fn.log(p))
    near = r <= 5
    tail = where(near, _quotient(TAIL, r - 1.6), _quotient(END, where(near, 0, r - 5)))
    tail = where(equal(p, 0), math.inf, tail)
    return where(middle, q * _quotient(MIDDLE, 0.180625 - q * q), fn.copysign(tail, q))


def ndtri(p: Expr) -> Expr:
    """Return the quantile of a standard normal variable."""
    return _quantile(p - 0.5, where(p < 0.5, p, 1 - p))


def erfcinv(y: Expr) -> Expr:
    """Return the inverse of 1 - erf."""
    return ROOT_HALF * _quantile(0.5 * (1 - y), 0.5 * where(y < 1, y, 2 - y))


def erfinv(y: Expr) -> Expr:
    """Return the inverse of the error function."""
    return ROOT_HALF * _quantile(0.5 * y, 0.5 * (1 - fn.fabs(y)))


# ---- modified Bessel functions


def _bessel(
    near: Sequence[float], far: Sequence[float], order: int, *, scaled: bool
) -> Callable[[Expr], Expr]:
    def formula(x: Expr) -> Expr:
        """Return I(x), or exp(-abs(x)) I(x) where `scaled`, in powers of x (10.25.2) or of 1 / x."""
        size = fn.fabs(x)
        beyond = size >= FAR
        inside, outside = where(beyond, 0, size), where(beyond, size, FAR)
        series = polynomial(near, 0.25 * inside * inside)
        series = series * inside if order else series
        tail = polynomial(far, 16 / outside - 1) / fn.sqrt(outside)
        if scaled:
            value = where(beyond, tail, series * fn.exp(-inside))
        else:
            half = fn.exp(0.5 * outside)  # exp(x) may overflow before the result does
            value = where(beyond, tail * half * half, series)
        return where(x < 0, -value, value) if order else value

    return formula


i0, i0e = (_bessel(I0_NEAR, I0_FAR, 0, scaled=s) for s in (False, True))
i1, i1e = (_bessel(I1_NEAR, I1_FAR, 1, scaled=s) for s in (False, True))


def i0e_signed(x: Expr) -> Expr:
    """Return i0e(x) times the sign of x."""
    return fn.sign(x) * i0e(x)


def i1e_signed(x: Expr) -> Expr:
    """Return i1e(x) times the sign of x."""
    return i1e(fn.fabs(x))


def _second(order: int, *, scaled: bool) -> Formula:
    near, far = ((K0_NEAR, K0_FAR), (K1_NEAR, K1_FAR))[order]

    def formula(x: Expr) -> Expr:
        """Return K(x), or exp(x) K(x) where `scaled`."""
        beyond = x >= 2
        inside, outside = where(beyond, 1, x), where(beyond, x, 2)
        square = 0.25 * inside * inside
        series = polynomial(near, square)
        if order:
            log = fn.log(where(equal(inside, 0), 1, 0.5 * inside))
            series = 1 / fn.fabs(inside) + inside * (series + log * polynomial(I1_NEAR[:12], square))
        else:
            series = series - fn.log(0.5 * inside) * polynomial(I0_NEAR[:12], square)
        tail = polynomial(far, 4 / outside - 1) / fn.sqrt(outside)
        if scaled:
            return where(beyond, tail, series * fn.exp(inside))
        return where(beyond, tail * fn.exp(-outside), series)

    return formula


k0, k0e = (_second(0, scaled=s) for s in (False, True))
k1, k1e = (_second(1, scaled=s) for s in (False, True))


def exp1(x: Expr) -> Expr:
    """Return the exponential integral E_1(x) (6.6.2)."""
    near = x <= 1
    inside, outside = where(near, x, 1), where(near, 1, x)
    series = polynomial(E1_NEAR, inside) - fn.log(inside)
    fraction = where(equal(outside, math.inf), 1, (outside - 4) / (outside + 2))
    return where(near, series, fn.exp(-outside) / outside * polynomial(E1_FAR, fraction))


# ---- angles in degrees


def _degrees(quarter: float) -> Formula:
    def formula(x: Expr) -> Expr:
        """Return the sine of `x` and some quarters of a turn: exact multiples of them are taken off first."""
        size = fn.fabs(x)
        near = size <= 1e14  # SciPy gives zero elsewhere
        size = where(near, size, 0)
        turns = fn.rint(size / 90)
        rest = (size - 90 * turns) * (math.pi / 180)
        turns = turns + quarter
        quadrant = turns - 4 * fn.floor(0.25 * turns)
        value = where(fn.logical_or(equal(quadrant, 0), equal(quadrant, 2)), fn.sin(rest), fn.cos(rest))
        value = where(quadrant >= 2, -value, value)
        value = value if quarter else where(x < 0, -value, value)  # zeros have SciPy's signs
        return where(equal(x, x), where(near, value, 0), x)

    return formula


sindg, cosdg = _degrees(0.0), _degrees(1.0)


# ---- entropies and transformations


def xlogy(x: Expr, y: Expr) -> Expr:
    """Return x log(y), zero where x is, unless y is NaN."""
    zero = fn.logical_and(equal(x, 0), equal(y, y))
    return where(zero, 0, x * fn.log(y))


def xlog1py(x: Expr, y: Expr) -> Expr:
    """Return x log(1 + y), zero where x is, unless y is NaN."""
    zero = fn.logical_and(equal(x, 0), equal(y, y))
    return where(zero, 0, x * fn.log1p(y))


def entr(x: Expr) -> Expr:
    """Return -x log(x), zero at zero and -inf below."""
    return where(x < 0, -math.inf, where(equal(x, 0), 0, -x * fn.log(x)))


def rel_entr(x: Expr, y: Expr) -> Expr:
    """Return x log(x / y), zero where x is, inf outside of the domain."""
    return _relative(x, y, lambda log: x * log)


def kl_div(x: Expr, y: Expr) -> Expr:
    """Return x log(x / y) - x + y, inf outside of the domain."""
    return _relative(x, y, lambda log: x * log - x + y)


def _relative(x: Expr, y: Expr, value: Formula) -> Expr:
    """Return value(log(x / y)), also where the quotient overflows or vanishes."""
    ratio = x / y
    far = fn.logical_or(ratio < 1e-30, ratio > 1e30)
    inside = fn.logical_and(x > 0, y > 0)
    origin = fn.logical_and(equal(x, 0), y >= 0)
    log = where(inside, where(far, fn.log(x) - fn.log(y), fn.log(ratio)), 0)
    outside = fn.logical_not(fn.logical_or(inside, origin))
    known = fn.logical_and(equal(x, x), equal(y, y))
    return where(known, where(outside, math.inf, value(log)), math.nan)


def logit(x: Expr) -> Expr:
    """Return log(x / (1 - x)), without cancellation around one half."""
    s = 2 * (x - 0.5)
    middle = fn.logical_and(x >= 0.3, x <= 0.65)
    return where(middle, fn.log1p(where(middle, s, 0)) - fn.log1p(where(middle, -s, 0)), fn.log(x / (1 - x)))


def log_expit(x: Expr) -> Expr:
    """Return the logarithm of the logistic function."""
    return -fn.softplus(-x)


def huber(delta: Expr, r: Expr) -> Expr:
    """Return r^2 / 2 where abs(r) <= delta, else delta (abs(r) - delta / 2); inf where delta < 0."""
    size = fn.fabs(r)
    return where(delta < 0, math.inf, where(size <= delta, 0.5 * r * r, delta * (size - 0.5 * delta)))


def pseudo_huber(delta: Expr, r: Expr) -> Expr:
    """Return delta^2 (sqrt(1 + (r / delta)^2) - 1); inf where delta < 0."""
    flat = fn.logical_or(equal(delta, 0), equal(r, 0))
    u = where(flat, 1, r / delta)
    value = delta * delta * fn.expm1(0.5 * fn.log1p(u * u))
    return where(delta < 0, math.inf, where(flat, 0, value))


def exprel(x: Expr) -> Expr:
    """Return (exp(x) - 1) / x, one at zero."""
    return where(fn.fabs(x) < 2.0**-53, 1, where(x > 717, math.inf, fn.expm1(x) / x))


CANCELLING = frozenset({"betaln", "kl_div", "pseudo_huber", "rel_entr"})  # not computed in float32

FORMULAS: dict[str, Formula] = {  # name of a primitive -> what compiled loops compute
    f.__name__: f
    for f in (
        *(
            betaln,
            entr,
            erfcinv,
            erfcx,
            erfinv,
            exp1,
            exprel,
            gammaln,
            huber,
            kl_div,
            log_expit,
            log_ndtr,
            logit,
        ),
        *(ndtr, ndtri, pseudo_huber, psi, rel_entr, trigamma, xlog1py, xlogy),
    )
} | {
    "cosdg": cosdg,
    "sindg": sindg,
    "i0": i0,
    "i0e": i0e,
    "i0e_signed": i0e_signed,
    "i1": i1,
    "i1e": i1e,
    "i1e_signed": i1e_signed,
    "k0": k0,
    "k0e": k0e,
    "k1": k1,
    "k1e": k1e,
}
