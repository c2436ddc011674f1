// Distributions and their inverses that SciPy takes from Boost, by the functions of xsf.
//
// Numbers in brackets are sections of the Digital Library of Mathematical Functions (dlmf.nist.gov).
#pragma once

#include <cupy/xsf/beta.h>
#include <cupy/xsf/gamma.h>
#include <cupy/xsf/stats.h>

namespace fgrad {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

// The least number in (0, inf] where f holds, which is false before and true behind; bisects the bits.
template <typename F>
double first_where(F f) {
    long long low = 0, high = 0x7ff0000000000000;
    while (high - low > 1) {
        long long middle = low + (high - low) / 2;
        double x;
        memcpy(&x, &middle, sizeof x);
        if (f(x)) {
            high = middle;
        } else {
            low = middle;
        }
    }
    double found;
    memcpy(&found, &high, sizeof found);
    return found;
}

inline bool is_probability(double p) { return p >= 0 && p <= 1; }

// The incomplete beta function of x = 1 - y, by its continued fraction (8.17.22): on the side where
// that is short, unless the rest to one is small.
inline double beta_fraction(double a, double b, double x, double y) {
    double scale = std::exp(a * std::log(x) + b * std::log(y) - xsf::betaln(a, b)) / a;
    double c = 1, d = 1 / (1 - (a + b) * x / (a + 1)), f = d;
    for (int m = 1; m < 20000; ++m) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 / (1 + even * d);
        c = 1 + even / c;
        f *= c * d;
        d = 1 / (1 + odd * d);
        c = 1 + odd / c;
        f *= c * d;
        if (std::abs(c * d - 1) < 1e-16) {
            break;
        }
    }
    return scale * f;
}

inline double betainc(double a, double b, double x, double y) {
    if (!(a > 0 && b > 0 && x >= 0 && y >= 0)) {
        return nan;
    }
    if (x == 0 || y == 0) {
        return y == 0;
    }
    double above = x * (a + b + 2) < a + 1 ? 1 : beta_fraction(b, a, y, x);
    return above < 0.99 ? 1 - above : beta_fraction(a, b, x, y);
}

inline double betaincc(double a, double b, double x) { return betainc(b, a, 1 - x, x); }

inline double betainccinv(double a, double b, double p) {
    if (!is_probability(p) || !(a > 0 && b > 0)) {
        return nan;
    }
    double x = first_where([=](double x) {
        return x >= 1 || (p < 0.5 ? betaincc(a, b, x) <= p : betainc(a, b, x, 1 - x) >= 1 - p);
    });
    return p == 1 ? 0 : x;
}

// The distribution falls as a grows and rises with b; it is searched from the side where it has more digits.
inline double btdtria(double p, double b, double x) {
    if (!is_probability(p) || !(b > 0) || !(x > 0 && x < 1)) {
        return nan;
    }
    return first_where([=](double a) {
        return a > 1e9 || (p < 0.5 ? betainc(a, b, x, 1 - x) <= p : betaincc(a, b, x) >= 1 - p);
    });
}

inline double btdtrib(double a, double p, double x) {
    if (!is_probability(p) || !(a > 0) || !(x > 0 && x < 1)) {
        return nan;
    }
    return first_where([=](double b) {
        return b > 1e9 || (p < 0.5 ? betainc(a, b, x, 1 - x) >= p : betaincc(a, b, x) <= 1 - p);
    });
}

inline double chdtriv(double p, double x) {
    if (!is_probability(p) || !(x >= 0)) {
        return nan;
    }
    return first_where([=](double v) {
        return p < 0.5 ? xsf::gammainc(v / 2, x / 2) <= p : xsf::gammaincc(v / 2, x / 2) >= 1 - p;
    });
}

inline double gdtrib(double a, double p, double x) { return chdtriv(p, 2 * a * x) / 2; }

// The number of events below which a Poisson distribution of mean m has p, between whole ones too.
inline double pdtrik(double p, double m) {
    if (!is_probability(p) || !(m >= 0)) {
        return nan;
    }
    if (xsf::gammaincc(1, m) >= p) {
        return 0;
    }
    return first_where([=](double k) {
        return p < 0.5 ? xsf::gammaincc(k + 1, m) >= p : xsf::gammainc(k + 1, m) <= 1 - p;
    });
}

// The noncentral chi-square distribution: gamma distributions of shape v/2 + j, weighted with Poisson's of mean half
// the noncentrality. Sums from the heaviest weight both ways.
inline double chndtr(double x, double v, double noncentrality) {
    double mean = noncentrality / 2, half = v / 2, y = x / 2;
    if (std::isnan(x + v + noncentrality) || !(v > 0) || !(noncentrality >= 0) || std::isinf(noncentrality)) {
        return nan;
    }
    if (!(x > 0)) {
        return 0;
    }
    if (std::isinf(x)) {
        return 1;
    }
    double start = std::floor(mean), log_weight = start * std::log(mean) - mean - std::lgamma(start + 1);
    double weight = start == 0 ? std::exp(-mean) : std::exp(log_weight), total = 0, last = 0, w = weight;
    for (double j = start; j >= 0; --j) {
        double term = w * xsf::gammainc(half + j, y);
        total += term;
        if (term <= last && term < 1e-18 * total) {
            break;
        }
        last = term;
        w *= j / mean;
    }
    w = weight;
    for (double j = start + 1;; ++j) {
        w *= mean / j;
        double term = w * xsf::gammainc(half + j, y);
        total += term;
        if (!(term > 1e-18 * total)) {
            break;
        }
    }
    return total;
}

inline double chndtrix(double p, double v, double noncentrality) {
    if (!(p >= 0 && p < 1) || std::isnan(chndtr(1, v, noncentrality))) {
        return p == 1 ? inf : nan;
    }
    return p == 0 ? 0 : first_where([=](double x) { return chndtr(x, v, noncentrality) >= p; });
}

inline double chndtrinc(double x, double v, double p) {
    double most = xsf::gammainc(v / 2, x / 2);
    if (!(p > 0 && p <= most)) {
        return nan;
    }
    return first_where([=](double nc) { return nc > 1e5 || chndtr(x, v, nc) <= p; });
}

// Student's distribution; the tail is an incomplete beta function.
inline double student_tail(double v, double t) {
    double square = t * t;
    if (std::isinf(square)) {
        double root = std::sqrt(v) / t;
        return betainc(v / 2, 0.5, root * root, 1) / 2;
    }
    return betainc(v / 2, 0.5, v / (v + square), square / (v + square)) / 2;
}

inline double stdtr(double v, double t) {
    if (std::isnan(v + t) || v <= 0) {
        return nan;
    }
    if (std::isinf(v)) {
        return xsf::ndtr(t);
    }
    double tail = student_tail(v, std::abs(t));
    return t < 0 ? tail : 1 - tail;
}

inline double stdtrit(double v, double p) {
    if (!is_probability(p) || !(v > 0)) {
        return nan;
    }
    if (std::isinf(v)) {
        return xsf::ndtri(p);
    }
    if (p == 0.5) {
        return 0;
    }
    double tail = std::min(p, 1 - p), size = first_where([=](double t) { return student_tail(v, t) <= tail; });
    return p < 0.5 ? -size : size;
}

// The probability that a deviation is smaller, for y < 1, and that it is larger, for y > 0.5, by one of two theta
// series each (20.7.32).
inline double kolmogorov_below(double y) {
    double sum = 0, c = M_PI * M_PI / (8 * y * y);
    for (int k = 1; k < 12; k += 2) {
        sum += std::exp(-k * k * c);
    }
    return std::sqrt(2 * M_PI) / y * sum;
}

inline double kolmogorov_above(double y) {
    double sum = 0;
    for (int k = 1; k < 9; ++k) {
        sum += (k % 2 ? 2 : -2) * std::exp(-2 * k * k * y * y);
    }
    return sum;
}

inline double kolmogorov(double y) {
    return y <= 0 ? 1 : y < 0.8 ? 1 - kolmogorov_below(y) : kolmogorov_above(y);
}

inline double kolmogi(double p) {
    if (!is_probability(p)) {
        return nan;
    }
    if (p == 0 || p == 1) {
        return p == 0 ? inf : 0;
    }
    bool is_small = p > kolmogorov_above(0.8);
    return first_where([=](double y) {
        return is_small ? y >= 1 || kolmogorov_below(y) >= 1 - p : y > 0.5 && kolmogorov_above(y) <= p;
    });
}

inline double powm1(double x, double y) {
    bool is_positive = x > 0 || (x < 0 && std::fmod(y, 2.0) == 0);
    double size = y * std::log(std::abs(x));
    return is_positive && std::abs(size) < 0.5 ? std::expm1(size) : std::pow(x, y) - 1;
}

} // namespace fgrad
