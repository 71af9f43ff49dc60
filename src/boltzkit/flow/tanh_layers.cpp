// Normalisation and tanh between the matrix products of a network, in one pass over each row of (rows, batch).

#include "rows.h"

// out = tanh(slope h + offset), with a slope and an offset for each row; without slopes they are one.
extern "C" int tanh_of_rows(const float *h, const float *slope, const float *offset, float *out, int64_t rows, int64_t batch,
                            int64_t threads) {
    return for_rows(rows, threads, [&](int64_t row) {
        const float *from = h + row * batch;
        float *to = out + row * batch;
        const float a = slope ? slope[row] : 1.0f, b = offset[row];
        for_lanes(batch, [&](int64_t k, auto count) {
            store(to + k, hyperbolic_tangent(a * load(from + k, count) + b), count);
        });
    });
}

// The gradients of that: in h, in the slopes and in the offsets.
extern "C" int tanh_of_rows_backward(const float *h, const float *slope, const float *out, const float *grad, float *by_h,
                                     float *by_slope, float *by_offset, int64_t rows, int64_t batch, int64_t threads) {
    return for_rows(rows, threads, [&](int64_t row) {
        const int64_t start = row * batch;
        const float a = slope ? slope[row] : 1.0f;
        floats steep{}, level{};
        for_lanes(batch, [&](int64_t k, auto count) {
            const floats y = load(out + start + k, count), g = load(grad + start + k, count) * (1.0f - y * y);
            if (slope) steep += g * load(h + start + k, count);
            level += g;
            store(by_h + start + k, a * g, count);
        });
        if (slope) by_slope[row] = sum(steep);
        by_offset[row] = sum(level);
    });
}

// out = tanh(scale (h - mean) / sqrt(variance + epsilon) + shift) with mean and variance of each row, which are kept.
extern "C" int normalised_tanh(const float *h, const float *scale, const float *shift, float epsilon, float *out, float *mean,
                               float *variance, int64_t rows, int64_t batch, int64_t threads) {
    return for_rows(rows, threads, [&](int64_t row) {
        const float *from = h + row * batch;
        float *to = out + row * batch;
        floats total{}, spread{};
        for_lanes(batch, [&](int64_t k, auto count) { total += load(from + k, count); });
        const float centre = sum(total) / batch;
        for_lanes(batch, [&](int64_t k, auto count) {
            const floats away = load(from + k, count) - centre;
            spread += first(away * away, count);
        });
        mean[row] = centre, variance[row] = sum(spread) / batch;
        const float a = scale[row] / std::sqrt(variance[row] + epsilon), b = shift[row];
        for_lanes(batch, [&](int64_t k, auto count) {
            store(to + k, hyperbolic_tangent(a * (load(from + k, count) - centre) + b), count);
        });
    });
}

// The gradients of that, the statistics' own dependence on h included.
extern "C" int normalised_tanh_backward(const float *h, const float *scale, float epsilon, const float *mean,
                                        const float *variance, const float *out, const float *grad, float *by_h,
                                        float *by_scale, float *by_shift, int64_t rows, int64_t batch, int64_t threads) {
    return for_rows(rows, threads, [&](int64_t row) {
        const int64_t start = row * batch;
        const float centre = mean[row], inverse = 1.0f / std::sqrt(variance[row] + epsilon);
        floats along{}, level{};
        for_lanes(batch, [&](int64_t k, auto count) {
            const floats y = load(out + start + k, count), g = load(grad + start + k, count) * (1.0f - y * y);
            along += g * (load(h + start + k, count) - centre);
            level += g;
            store(by_h + start + k, g, count);
        });
        by_scale[row] = sum(along) * inverse, by_shift[row] = sum(level);
        const float a = scale[row] * inverse, b = by_scale[row] * inverse / batch, c = by_shift[row] / batch;
        for_lanes(batch, [&](int64_t k, auto count) {
            const floats away = load(h + start + k, count) - centre;
            store(by_h + start + k, a * (load(by_h + start + k, count) - c - b * away), count);
        });
    });
}
