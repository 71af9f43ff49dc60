// Passes over arrays (rows, batch) of floats, row by row, many lanes at a time.

#pragma once

#include "lanes.h"

namespace {

constexpr int64_t LANES = sizeof(floats) / sizeof(float);

// Call work(row) for every row, an equal share on each thread.
template <class F> int for_rows(int64_t rows, int64_t threads, F work) {
    const int64_t share = (rows + threads - 1) / threads;
    return in_parallel(threads, [&](int64_t index) {
        for (int64_t row = index * share; row < std::min(rows, (index + 1) * share); ++row) work(row);
    });
}

// Call work(k, count) along the batch, where count is LANES, known to the compiler, or fewer at the end.
template <class F> INLINE void for_lanes(int64_t batch, F work) {
    int64_t k = 0;
    for (; k + LANES <= batch; k += LANES) work(k, std::integral_constant<int64_t, LANES>{});
    if (k < batch) work(k, batch - k);
}

// The first numbers at an address, zeros after them.
INLINE floats load(const float *at, int64_t count) {
    floats v{};
    std::memcpy(&v, at, count * sizeof(float));
    return v;
}
INLINE void store(float *at, floats v, int64_t count) { std::memcpy(at, &v, count * sizeof(float)); }

// The first numbers of v, zeros after them.
INLINE floats first(floats v, int64_t count) {
    for (int64_t k = count; k < LANES; ++k) v[k] = 0;
    return v;
}

INLINE float sum(floats v) {
    float total = 0;
    for (int64_t k = 0; k < LANES; ++k) total += v[k];
    return total;
}

}  // namespace
