// Vectors of LANES numbers with the operations that kernels need: one quantity of many configurations or elements.
//
// They are GCC's and Clang's own vector types, so that plain arithmetic works on them and one source serves every
// instruction set. Functions of floats are approximations to a few units in the last place without a branch; functions
// of doubles take the library's, for accuracy.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>
#include <thread>
#include <type_traits>
#include <vector>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace {

// As wide as the processor's registers: of wider vectors, compilers compute every comparison number by number.
#if defined(__AVX512F__)
constexpr int WIDTH = 64;
#elif defined(__AVX__)
constexpr int WIDTH = 32;
#else
constexpr int WIDTH = 16;
#endif

template <class T> struct Vector;
template <> struct Vector<float> {
    typedef float type __attribute__((vector_size(WIDTH)));
    typedef int32_t bits __attribute__((vector_size(WIDTH)));
};
template <> struct Vector<double> {
    typedef double type __attribute__((vector_size(WIDTH)));
    typedef int64_t bits __attribute__((vector_size(WIDTH)));
};
typedef Vector<float>::type floats;
typedef Vector<float>::bits ints;
typedef Vector<double>::type doubles;

#define INLINE_MEMBER inline __attribute__((always_inline))
#define INLINE static INLINE_MEMBER

template <class V> INLINE V larger(V a, V b) { return a < b ? b : a; }  // NaN in a stays
template <class V> INLINE V magnitude(V a) { return a < 0 ? -a : a; }

template <class V, class F> INLINE V each(V v, F f) {
    for (size_t k = 0; k < sizeof(V) / sizeof(v[0]); ++k) v[k] = f(v[k]);
    return v;
}

// Doubles take the library's functions: they are for accuracy.
INLINE doubles reciprocal(doubles v) { return 1.0 / v; }
INLINE doubles inverse_root(doubles v) { return 1.0 / each(v, [](double a) { return std::sqrt(a); }); }
INLINE doubles logarithm(doubles v) { return each(v, [](double a) { return std::log(a); }); }
INLINE doubles exponential(doubles v) { return each(v, [](double a) { return std::exp(a); }); }

// Floats: approximations to a few units in the last place, without a branch.
#if defined(__AVX512F__)
INLINE floats inverse_root(floats v) {
    floats y = (floats)_mm512_rsqrt14_ps((__m512)v);
    return y * (1.5f - 0.5f * v * y * y);
}
INLINE floats reciprocal(floats v) {
    floats y = (floats)_mm512_rcp14_ps((__m512)v);
    return y * (2.0f - v * y);
}
#else
INLINE floats inverse_root(floats v) { return 1.0f / each(v, [](float a) { return std::sqrt(a); }); }
INLINE floats reciprocal(floats v) { return 1.0f / v; }
#endif

// log v for positive normal v = 2^e m, 1/sqrt 2 <= m < sqrt 2: odd series in s = (m - 1)/(m + 1), |s| < 0.172.
INLINE floats logarithm(floats v) {
    const ints bits = (ints)v - 0x3f3504f3;  // the bits of 1/sqrt 2
    const ints power = bits >> 23;
    const floats m = (floats)((bits & 0x007fffff) + 0x3f3504f3);
    const floats s = (m - 1.0f) * reciprocal(m + 1.0f), z = s * s;
    const floats series = 2.0f + z * (0.66666667f + z * (0.4f + z * (0.28571429f + z * 0.22222222f)));
    return __builtin_convertvector(power, floats) * 0.69314718f + s * series;
}

// exp v = 2^n e^r with |r| <= log(2)/2, for v within the range of float; beyond, 0 or 2^127.
INLINE floats exponential(floats v) {
    v = larger(v, floats{} - 87.0f);
    v = v > 88.0f ? floats{} + 88.0f : v;
    const floats shifted = v * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;
    const floats r = (v - n * 0.693145752f) - n * 1.42860677e-6f;
    const floats series =
        1.0f + r * (1.0f + r * (0.5f + r * (0.16666667f + r * (0.041666667f + r * (0.0083333333f + r * 0.0013888889f)))));
    return series * (floats)(((ints)shifted + (127 - 0x4b400000)) << 23);
}

// atan v for 0 <= v <= 1: about pi/8 by the addition theorem, then the odd series to order 13.
INLINE floats arctangent(floats v) {
    const auto upper = v > 0.41421356f;
    const floats w = upper ? (v - 1.0f) * reciprocal(v + 1.0f) : v, z = w * w;
    const floats series = 8.05374449538e-2f * z - 1.38776856032e-1f;
    return (upper ? floats{} + 0.78539816f : floats{}) +
           (((series * z + 1.99777106478e-1f) * z - 3.33329491539e-1f) * z * w + w);
}

// tanh v = v P(v^2)/Q(v^2), fitted to 1e-8 within |v| < 8.2; beyond, it is one in single precision.
INLINE floats hyperbolic_tangent(floats v) {
    v = larger(v, floats{} - 8.2f);
    v = v > 8.2f ? floats{} + 8.2f : v;
    const floats z = v * v;
    const floats over = 1.0f + z * (0.134321238f + z * (3.556687349e-3f + z * (2.163729161e-5f + z * 1.484058102e-8f)));
    const floats under = 1.0f + z * (0.467654496f + z * (2.610830245e-2f + z * (3.386442781e-4f + z * 8.370613495e-7f)));
    return v * over * reciprocal(under);
}
INLINE doubles hyperbolic_tangent(doubles v) { return each(v, [](double a) { return std::tanh(a); }); }

// Cosine and sine of 2 pi v, for v within [0, 1]: about the nearest quarter of a turn, |r| <= pi/4, by Taylor series.
INLINE void cosine_and_sine_of_turns(floats v, floats &cosine, floats &sine) {
    const floats shifted = 4.0f * v + 12582912.0f, quarters = shifted - 12582912.0f;
    const floats r = (4.0f * v - quarters) * 1.5707963268f, z = r * r;
    const floats s = r * (1.0f + z * (-0.16666667f + z * (0.0083333333f + z * (-1.9841270e-4f + z * 2.7557319e-6f))));
    const floats c = 1.0f + z * (-0.5f + z * (0.041666667f + z * (-0.0013888889f + z * (2.4801587e-5f - z * 2.7557319e-7f))));
    const ints quarter = (ints)shifted;
    const auto crossed = (quarter & 1) != 0;
    const floats along = crossed ? s : c, across = crossed ? c : s;
    cosine = ((quarter + 1) & 2) != 0 ? -along : along;
    sine = (quarter & 2) != 0 ? -across : across;
}

// The angle in [0, pi] of a point with y >= 0.
INLINE floats angle_of(floats y, floats x) {
    const floats ax = magnitude(x);
    const auto steep = y > ax;
    const floats t = arctangent((steep ? ax : y) * reciprocal(larger(steep ? y : ax, floats{} + 1e-30f)));
    const floats acute = steep ? 1.5707963268f - t : t;
    return x < 0 ? 3.1415926536f - acute : acute;
}
INLINE doubles angle_of(doubles y, doubles x) {
    for (size_t k = 0; k < sizeof(doubles) / sizeof(double); ++k) y[k] = std::atan2(y[k], x[k]);
    return y;
}

// Numbers below the normal range count as zero while this lives: the processor takes a hundred times longer for them,
// and e^(-x^2) makes many.
struct WithoutSubnormals {
#if defined(__SSE2__)
    const unsigned before = _mm_getcsr();
    WithoutSubnormals() { _mm_setcsr(before | 0x8040); }
    ~WithoutSubnormals() { _mm_setcsr(before); }
#endif
};

// Call part(0) ... part(count - 1), each on its own thread. Returns 0, or 1 when memory or threads ran out.
//
// With OpenMP these are the threads that torch computes with, if it is the same library: threads of our own would wait
// for a core on which one of torch's is still looking for work.
template <class F> int in_parallel(int64_t count, F part) {
    std::vector<char> failed(count, 0);
    auto guarded = [&](int64_t index) {
        const WithoutSubnormals mode;
        try {
            part(index);
        } catch (...) {
            failed[index] = 1;
        }
    };
#if defined(_OPENMP)
#pragma omp parallel for num_threads(int(count)) schedule(static, 1)
    for (int64_t index = 0; index < count; ++index) guarded(index);
#else
    std::vector<std::thread> others;
    try {
        for (int64_t index = 1; index < count; ++index) others.emplace_back(guarded, index);
    } catch (...) {
        failed[0] = 1;
    }
    guarded(0);
    for (std::thread &other : others) other.join();
#endif
    return std::any_of(failed.begin(), failed.end(), [](char f) { return f != 0; });
}

}  // namespace
