// What the headers of xsf, which CuPy brings along, need of the standard library, and what starts a kernel.
//
// On a device std is cuda::std, and xsf is read as it is on a CPU: its own branch for CUDA knows a part of std only.
// Compiled by a host's compiler, where tests compare it with SciPy, a kernel is a loop over all elements.
#pragma once

#ifdef __CUDACC__

#include <cuda/std/array>
#include <cuda/std/cmath>
#include <cuda/std/complex>
#include <cuda/std/cstddef>
#include <cuda/std/cstdint>
#include <cuda/std/iterator>
#include <cuda/std/limits>
#include <cuda/std/tuple>
#include <cuda/std/type_traits>
#include <cuda/std/utility>

#undef __CUDACC__
#define FGRAD_SEPARATE __noinline__

// The heap of a device is small, and other threads give back what they took: who finds none waits for them.
inline void *fgrad_memory(size_t bytes) {
    void *found = malloc(bytes);
    while (found == nullptr && bytes < (size_t(1) << 20)) {
        found = malloc(bytes);
    }
    return found;
}
#define malloc fgrad_memory

namespace std {

using namespace cuda::std;

template <typename T>
constexpr const T &min(const T &x, const T &y) {
    return y < x ? y : x;
}

template <typename T>
constexpr const T &max(const T &x, const T &y) {
    return x < y ? y : x;
}

template <typename T>
constexpr const T &clamp(const T &x, const T &low, const T &high) {
    return x < low ? low : (high < x ? high : x);
}

struct nothrow_t {};
static constexpr nothrow_t nothrow{};

template <typename T>
class unique_ptr;

template <typename T>
class unique_ptr<T[]> {
    T *data;

  public:
    unique_ptr(T *found) : data(found) {}
    unique_ptr(const unique_ptr &) = delete;
    ~unique_ptr() { free(data); }
    T &operator[](size_t i) const { return data[i]; }
    T *get() const { return data; }
    bool operator==(decltype(nullptr)) const { return data == nullptr; }
    explicit operator bool() const { return data != nullptr; }
};

} // namespace std

inline void *operator new[](size_t bytes, const std::nothrow_t &) { return malloc(bytes); }

// A power of two numbers of unlike types, which C++ computes in double precision.
template <typename X, typename Y,
          typename = std::enable_if_t<std::is_arithmetic_v<X> && std::is_arithmetic_v<Y> &&
                                      !(std::is_same_v<X, Y> && std::is_floating_point_v<X>)>>
inline double pow(X x, Y y) {
    return ::pow(double(x), double(y));
}

// Long code that stands once: functions of complex numbers, and products and quotients, which look at infinities.
#define FGRAD_ONCE(name)                                                                                       \
    using cuda::std::name;                                                                                     \
    __noinline__ inline complex<double> name(const complex<double> &z) { return cuda::std::name(z); }
namespace std {
FGRAD_ONCE(exp)
FGRAD_ONCE(log)
FGRAD_ONCE(sqrt)
FGRAD_ONCE(sin)
FGRAD_ONCE(cos)
} // namespace std
#undef FGRAD_ONCE

namespace xsf {

__noinline__ inline std::complex<double> operator*(const std::complex<double> &x, const std::complex<double> &y) {
    return cuda::std::operator*(x, y);
}

__noinline__ inline std::complex<double> operator/(const std::complex<double> &x, const std::complex<double> &y) {
    return cuda::std::operator/(x, y);
}

} // namespace xsf

#define FGRAD_EACH(i, n)                                                                                       \
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (long long)blockDim.x)

#else

#include <array>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>

#define __global__
#define FGRAD_SEPARATE
#define FGRAD_EACH(i, n) for (long long i = 0; i < n; ++i)

#endif

#include <cupy/xsf/cephes/cbrt.h> // has variables that are inline

// What is called from many places stays a call: code is a tenth as long and compiles as much faster.
#define inline inline FGRAD_SEPARATE
