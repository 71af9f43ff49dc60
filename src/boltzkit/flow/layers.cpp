// What stands between the matrix products of a ReLU network, each in one pass over its activations (rows, batch).

#include "lanes.h"

namespace {

constexpr int64_t LANES = sizeof(floats) / sizeof(float);

template <class F> int for_rows(int64_t rows, int64_t threads, F work) {
    const int64_t share = (rows + threads - 1) / threads;
    return in_parallel(threads, [&](int64_t index) {
        for (int64_t row = index * share; row < std::min(rows, (index + 1) * share); ++row) work(row);
    });
}

}  // namespace

// h = max(h + bias, 0), or h + bias without the ReLU.
extern "C" int add_bias(float *h, const float *bias, int64_t rows, int64_t batch, int64_t relu, int64_t threads) {
    return for_rows(rows, threads, [&](int64_t row) {
        float *at = h + row * batch;
        const float own = bias[row], least = relu ? 0.0f : -__builtin_inff();
        for (int64_t k = 0; k < batch; ++k) {
            const float value = at[k] + own;
            at[k] = value < least ? least : value;
        }
    });
}

// grad = grad where the activation is positive, else 0; and its sum over the batch. Without activations, the sum alone.
extern "C" int mask_and_sum(float *grad, const float *seen, float *sum, int64_t rows, int64_t batch, int64_t threads) {
    return for_rows(rows, threads, [&](int64_t row) {
        float *at = grad + row * batch;
        const float *active = seen ? seen + row * batch : nullptr;
        floats total = floats{};
        int64_t k = 0;
        for (; k + LANES <= batch; k += LANES) {
            floats g;
            std::memcpy(&g, at + k, sizeof g);
            if (active) {
                floats a;
                std::memcpy(&a, active + k, sizeof a);
                g = a > 0 ? g : floats{};
                std::memcpy(at + k, &g, sizeof g);
            }
            total += g;
        }
        float rest = 0;
        for (; k < batch; ++k) {
            if (active && !(active[k] > 0)) at[k] = 0;
            rest += at[k];
        }
        for (int64_t lane = 0; lane < LANES; ++lane) rest += total[lane];
        sum[row] = rest;
    });
}
