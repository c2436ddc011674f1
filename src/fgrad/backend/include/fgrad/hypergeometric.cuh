// Hypergeometric functions, the orthogonal polynomials that they are, and Wright's omega function, by those of xsf.
//
// Numbers in brackets are sections of the Digital Library of Mathematical Functions (dlmf.nist.gov).
#pragma once

#include <cupy/xsf/bessel.h>
#include <cupy/xsf/binom.h>
#include <cupy/xsf/gamma.h>
#include <cupy/xsf/hyp2f1.h>
#include <cupy/xsf/lambertw.h>
#include <cupy/xsf/specfun.h>

namespace fgrad {

using complex = std::complex<double>;

inline double not_a_number(double) { return std::numeric_limits<double>::quiet_NaN(); }
inline complex not_a_number(complex) { return {not_a_number(0.0), not_a_number(0.0)}; }

inline bool is_whole(double n) { return n == std::floor(n); }

// ---- the confluent limit, and Bessel functions of it

inline double kn(double n, double x) { return xsf::cyl_bessel_k(n, x); }

template <typename T>
T hyp0f1_series(double b, T z) { // (16.2.1)
    T term = 1, sum = 1;
    for (int k = 1; k < 2000; ++k) {
        term *= z / ((b + k - 1) * k);
        sum += term;
        if (std::abs(term) <= 1e-17 * std::abs(sum) && std::abs(z) < (b + k) * (k + 1)) {
            break;
        }
    }
    return sum;
}

inline double hyp0f1(double b, double z) {
    if (std::isnan(b + z) || (b <= 0 && is_whole(b))) {
        return not_a_number(z);
    }
    if ((z > 0 && z < 1e4 && b > 0) || std::abs(z) < 1 + std::abs(b) / 2) {
        return hyp0f1_series(b, z);
    }
    double root = std::sqrt(std::abs(z)), log_scale = (1 - b) * std::log(root) + std::lgamma(b);
    if (z > 0) { // (10.39.9)
        return xsf::gammasgn(b) * std::exp(log_scale + 2 * root) * xsf::cyl_bessel_ie(b - 1, 2 * root);
    }
    return xsf::gammasgn(b) * std::exp(log_scale) * xsf::cyl_bessel_j(b - 1, 2 * root); // (10.16.9)
}

inline complex hyp0f1(double b, complex z) {
    if (std::isnan(b) || (b <= 0 && is_whole(b))) {
        return not_a_number(z);
    }
    if (std::abs(z) < 1 + std::abs(b) / 2) {
        return hyp0f1_series(b, z);
    }
    bool is_right = z.real() > 0;
    complex root = std::sqrt(is_right ? z : -z);
    complex bessel = is_right ? xsf::cyl_bessel_i(b - 1, 2.0 * root) : xsf::cyl_bessel_j(b - 1, 2.0 * root);
    return xsf::gammasgn(b) * std::exp(std::lgamma(b) + (1 - b) * std::log(root)) * bessel;
}

// The series (13.2.2), as it stands or as exp(z) times that of -z (13.2.39), or the expansion (13.7.2): whichever
// loses fewer digits. `loss` is how much larger the largest term is than the sum.
inline double hyp1f1_series(double a, double b, double z, double &loss) {
    double term = 1, sum = 1, most = 1;
    for (double k = 0; k < 5000; ++k) {
        term *= (a + k) / (b + k) * (z / (k + 1));
        sum += term;
        most = std::max(most, std::abs(term));
        if (term == 0 || (std::abs(term) < 1e-17 * std::abs(sum) && std::abs((a + k) * z) < std::abs((b + k) * k))) {
            loss = most / std::abs(sum);
            return sum;
        }
    }
    loss = INFINITY;
    return sum;
}

inline double hyp1f1_far(double a, double b, double z, double &loss) { // for z > 0
    double term = 1, sum = 1;
    loss = INFINITY;
    for (double k = 0; k < 200; ++k) {
        double next = term * (1 - a + k) * (b - a + k) / ((k + 1) * z);
        if (std::abs(next) > std::abs(term) && k > 2) {
            loss = 1e16 * std::abs(term / sum);
            break;
        }
        term = next;
        sum += term;
        if (std::abs(term) < 1e-17 * std::abs(sum)) {
            loss = 1;
            break;
        }
    }
    double sign = xsf::gammasgn(b) * xsf::gammasgn(a), log_scale = std::lgamma(b) - std::lgamma(a);
    return sign * std::exp(z + (a - b) * std::log(z) + log_scale) * sum;
}

inline double hyp1f1(double a, double b, double z) {
    if (std::isnan(a + b + z) || (b <= 0 && is_whole(b) && !(is_whole(a) && a <= 0 && a >= b))) {
        return b <= 0 && is_whole(b) && !std::isnan(a + z) ? INFINITY : not_a_number(z);
    }
    if (a == 0 || z == 0) {
        return 1;
    }
    if (a == b) {
        return std::exp(z);
    }
    double loss, other_loss, found = hyp1f1_series(a, b, z, loss);
    if (loss < 100 || (is_whole(a) && a <= 0)) {
        return found;
    }
    double other = std::exp(z) * hyp1f1_series(b - a, b, -z, other_loss);
    if (other_loss < loss) {
        found = other;
        loss = other_loss;
    }
    if (loss < 100) {
        return found;
    }
    bool is_right = z > 0, is_pole = is_whole(is_right ? a : b - a) && (is_right ? a : b - a) <= 0;
    if (!is_pole) {
        double far = is_right ? hyp1f1_far(a, b, z, other_loss) : std::exp(z) * hyp1f1_far(b - a, b, -z, other_loss);
        if (other_loss < loss) {
            return far;
        }
    }
    return found;
}

inline complex hyp1f1(double a, double b, complex z) { return xsf::hyp1f1(a, b, z); }

// ---- orthogonal polynomials: recurrences (18.9.1) where the degree is whole, else (18.5.7), (18.5.12), (18.12)

constexpr double MOST_STEPS = 1e5;

inline bool is_degree(double n) { return n >= 0 && n < MOST_STEPS && is_whole(n); }

template <typename T>
T series(double n, double b, double c, T x) { // 2F1(-n, b; c; (1 - x) / 2)
    return xsf::hyp2f1(-n, b, c, (1.0 - x) / 2.0);
}

template <typename T>
T chebyt(double n, T x) {
    n = std::abs(n);
    if (!is_degree(n)) {
        return series(n, n, 0.5, x);
    }
    T before = 1.0, now = x;
    for (double k = 1; k < n; ++k) {
        T next = 2.0 * x * now - before;
        before = now;
        now = next;
    }
    return n == 0 ? before : now;
}

template <typename T>
T chebyu(double n, T x) {
    if (is_whole(n) && n < 0) { // (4.19): the sine of (n + 1) t over that of t
        return n == -1 ? T(0) : -chebyu(-n - 2, x);
    }
    if (!is_degree(n)) {
        return (n + 1) * series(n, n + 2, 1.5, x);
    }
    T before = 0.0, now = 1.0;
    for (double k = 0; k < n; ++k) {
        T next = 2.0 * x * now - before;
        before = now;
        now = next;
    }
    return now;
}

template <typename T>
T legendre(double n, T x) {
    if (is_whole(n) && n < 0) {
        return legendre(-n - 1, x);
    }
    if (!is_degree(n)) {
        return series(n, n + 1, 1, x);
    }
    T before = 0.0, now = 1.0;
    for (double k = 0; k < n; ++k) {
        T next = ((2 * k + 1) * x * now - k * before) / (k + 1);
        before = now;
        now = next;
    }
    return now;
}

template <typename T>
T jacobi(double n, double a, double b, T x) {
    if (!is_degree(n)) {
        return xsf::binom(n + a, n) * xsf::hyp2f1(-n, n + a + b + 1, a + 1, (1.0 - x) / 2.0);
    }
    T before = 0.0, now = 1.0;
    for (double k = 0; k < n; ++k) {
        T next;
        if (k == 0) {
            next = a + 1 + (a + b + 2) * (x - 1.0) / 2.0;
        } else {
            double m = k + 1, s = 2 * m + a + b;
            next = ((s - 1) * (s * (s - 2) * x + a * a - b * b) * now - 2 * (m + a - 1) * (m + b - 1) * s * before) /
                   (2 * m * (m + a + b) * (s - 2));
        }
        before = now;
        now = next;
    }
    return now;
}

template <typename T>
T gegenbauer(double n, double a, T x) {
    if (!is_degree(n)) {
        double scale = xsf::gamma(n + 2 * a) / xsf::gamma(1 + n) / xsf::gamma(2 * a);
        return scale * xsf::hyp2f1(-n, n + 2 * a, a + 0.5, (1.0 - x) / 2.0);
    }
    T before = 0.0, now = 1.0;
    for (double k = 0; k < n; ++k) {
        T next = (2 * (k + a) * x * now - (k + 2 * a - 1) * before) / (k + 1);
        before = now;
        now = next;
    }
    return now;
}

template <typename T>
T genlaguerre(double n, double a, T x) {
    if (!(a > -1)) {
        return not_a_number(x);
    }
    if (!is_degree(n)) {
        return xsf::binom(n + a, n) * hyp1f1(-n, a + 1, x);
    }
    T before = 0.0, now = 1.0;
    for (double k = 0; k < n; ++k) {
        T next = ((2 * k + 1 + a - x) * now - (k + a) * before) / (k + 1);
        before = now;
        now = next;
    }
    return now;
}

template <typename T>
T laguerre(double n, T x) {
    return genlaguerre(n, 0, x);
}

template <typename T>
T chebyc(double n, T x) {
    return 2.0 * chebyt(n, x / 2.0);
}

template <typename T>
T chebys(double n, T x) {
    return chebyu(n, x / 2.0);
}

template <typename T>
T sh_chebyt(double n, T x) {
    return chebyt(n, 2.0 * x - 1.0);
}

template <typename T>
T sh_chebyu(double n, T x) {
    return chebyu(n, 2.0 * x - 1.0);
}

template <typename T>
T sh_legendre(double n, T x) {
    return legendre(n, 2.0 * x - 1.0);
}

template <typename T>
T sh_jacobi(double n, double p, double q, T x) {
    return jacobi(n, p - q, q - 1, 2.0 * x - 1.0) / xsf::binom(2 * n + p - 1, n);
}

inline double hermitenorm(double n, double x) {
    if (!(n >= 0)) {
        return not_a_number(x);
    }
    double before = 0, now = 1;
    for (double k = 0; k < n; ++k) {
        double next = x * now - k * before;
        before = now;
        now = next;
    }
    return now;
}

inline double hermite(double n, double x) {
    return std::pow(2.0, n / 2) * hermitenorm(n, std::sqrt(2.0) * x);
}

// ---- the omega function: w + log w = z, continued where it is whole, W of exp(z) on a branch

inline complex omega_improved(complex z, complex w) { // the iteration of Fritsch, Shafer and Crowley (1973)
    for (int k = 0; k < 3; ++k) {
        complex r = z - w - std::log(w), v = 1.0 + w, t = 2.0 * v * (v + 2.0 / 3.0 * r);
        complex step = w * r / v * (t - r) / (t - 2.0 * r);
        if (!(std::abs(step) < 0.1 * std::abs(w))) {
            break;
        }
        w += step;
    }
    return w;
}

inline double wrightomega(double x) {
    if (std::isnan(x) || x > 1e20) {
        return x;
    }
    if (x < -50) {
        return std::exp(x);
    }
    double w = x < -2 ? std::exp(x) : x < 1 ? std::exp(2 * (x - 1) / 3) : x - std::log(x) + std::log(x) / x;
    for (int k = 0; k < 4; ++k) {
        double r = x - w - std::log(w), v = 1 + w, t = 2 * v * (v + 2.0 / 3 * r);
        w *= 1 + r / v * (t - r) / (t - 2 * r);
    }
    return w;
}

inline complex wrightomega(complex z) {
    double x = z.real(), y = z.imag();
    if (std::isnan(x) || std::isnan(y)) {
        return not_a_number(z);
    }
    if (std::isinf(x)) {
        if (x > 0) {
            return z;
        }
        return std::abs(y) <= M_PI ? complex(std::copysign(0.0, std::cos(y)), std::copysign(0.0, std::sin(y))) : z;
    }
    if (std::isinf(y)) {
        return z;
    }
    if (y == 0) {
        return wrightomega(x);
    }
    if (std::abs(z) > 1e20) {
        return z;
    }
    bool is_near = std::abs(y) <= M_PI;
    if (x < -50 && is_near) {
        return std::exp(z);
    }
    if (std::abs(x) < 700 && std::abs(y) < 1e6) {
        complex w = xsf::lambertw(std::exp(z), (long)std::ceil((y - M_PI) / (2 * M_PI)), 1e-8);
        if (std::abs(y) != M_PI && std::abs(1.0 + w) > 0.1 && w != complex(0.0)) {
            w = omega_improved(z, w);
        }
        return w;
    }
    return omega_improved(z, z - std::log(z));
}

} // namespace fgrad
