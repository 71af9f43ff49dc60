// What stands before and between the matrix products of a coupling's network, each in one pass over rows (rows, batch).

#include "rows.h"

namespace {

// Which rows of the coordinates the network sees: circular ones by cosine and sine, then the others as they are.
struct Given {
    int64_t circular, linear, batch;
    const int64_t *circular_rows, *linear_rows;
};

}  // namespace

// Copy the given rows to out, and write cos 2 pi x, sin 2 pi x of the circular ones and x of the others, each clamped to
// [0, 1] first: what is far outside still gives finite gradients.
extern "C" int features(const Given *g, const float *rows, float *out, float *features, int64_t threads) {
    return for_rows(g->circular + g->linear, threads, [&](int64_t index) {
        const bool turns = index < g->circular;
        const int64_t place = turns ? g->circular_rows[index] : g->linear_rows[index - g->circular];
        const float *from = rows + place * g->batch;
        float *copy = out + place * g->batch;
        float *first = features + (turns ? index : index + g->circular) * g->batch;
        float *second = first + g->circular * g->batch;
        for_lanes(g->batch, [&](int64_t k, auto count) {
            const floats x = load(from + k, count);
            store(copy + k, x, count);
            const floats inside = x > 1.0f ? floats{} + 1.0f : larger(x, floats{});
            if (!turns) return store(first + k, inside, count);
            floats cosine, sine;
            cosine_and_sine_of_turns(inside, cosine, sine);
            store(first + k, cosine, count), store(second + k, sine, count);
        });
    });
}

// Add the gradient that came through the features to that of the given rows, and write it to out.
extern "C" int features_backward(const Given *g, const float *features, const float *by_features, const float *by_rows,
                                 float *out, int64_t threads) {
    return for_rows(g->circular + g->linear, threads, [&](int64_t index) {
        const bool turns = index < g->circular;
        const int64_t place = turns ? g->circular_rows[index] : g->linear_rows[index - g->circular];
        const int64_t first = (turns ? index : index + g->circular) * g->batch, second = first + g->circular * g->batch;
        for_lanes(g->batch, [&](int64_t k, auto count) {
            floats slope = load(by_features + first + k, count);
            if (turns) {
                const floats cosine = load(features + first + k, count), sine = load(features + second + k, count);
                slope = 6.2831853072f * (cosine * load(by_features + second + k, count) - sine * slope);
            }
            store(out + place * g->batch + k, load(by_rows + place * g->batch + k, count) + slope, count);
        });
    });
}

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
extern "C" int mask_and_sum(float *grad, const float *seen, float *total, int64_t rows, int64_t batch, int64_t threads) {
    return for_rows(rows, threads, [&](int64_t row) {
        float *at = grad + row * batch;
        const float *active = seen ? seen + row * batch : nullptr;
        floats own{};
        for_lanes(batch, [&](int64_t k, auto count) {
            floats g = load(at + k, count);
            if (active) store(at + k, g = load(active + k, count) > 0 ? g : floats{}, count);
            own += g;
        });
        total[row] = sum(own);
    });
}
