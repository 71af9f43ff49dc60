// Rational-quadratic splines on [0, 1] with hand-derived gradients: the same mathematics as spline_kernel.py, which
// explains it, for floats on a CPU.
//
// A vector holds LANES neighbours of the batch. Arrays are laid out (rows, dims, batch): K rows of widths, K of heights,
// K of slopes, and the last slope of the dims on the interval, which come first; a circular dim's last slope is its
// first. Values lie in a larger array of rows, dim by dim at given places; a bias is added to the rows of parameters as
// they are read. Threads share the batch, so that the sum of log-slopes over dims belongs to one of them.

#include "lanes.h"

struct Splines {
    int64_t bins, dims, linear, batch;
    const float *seam;     // (dims,)
    const int64_t *place;  // (dims,): which row of the values belongs to a dim
    const float *bias;     // (parameters,)
};

namespace {

const float MINIMUM = 1e-3f;
constexpr int64_t LANES = sizeof(floats) / sizeof(float);

// A stretch of the batch at one dim: all lanes, or the few that are left at the end.
struct Stretch {
    const Splines &s;
    int64_t dim, at, count;
    floats load(const float *row) const {
        floats v;
        if (count == LANES) {
            std::memcpy(&v, row + at, sizeof v);
        } else {
            for (int64_t k = 0; k < LANES; ++k) v[k] = row[at + std::min(k, count - 1)];
        }
        return v;
    }
    void store(float *row, floats v) const {
        if (count == LANES)
            std::memcpy(row + at, &v, sizeof v);
        else
            for (int64_t k = 0; k < count; ++k) row[at + k] = v[k];
    }
    template <class T> T *value(T *values) const { return values + s.place[dim] * s.batch; }
    template <class T> T *row(T *raw, int64_t index) const { return raw + (index * s.dims + dim) * s.batch; }
    // A parameter with its bias.
    floats parameter(const float *raw, int64_t index) const {
        return load(row(raw, index)) + s.bias[index * s.dims + dim];
    }
};

// log(1 + e^-|v|) with log1p's accuracy for small e^-|v|: series 2 atanh(t/(2 + t)).
INLINE floats softplus(floats v) {
    const floats t = exponential(-magnitude(v)), s = t * reciprocal(2.0f + t), z = s * s;
    const floats series = 2.0f + z * (0.66666667f + z * (0.4f + z * (0.28571429f + z * (0.22222222f + z * 0.18181818f))));
    return larger(v, floats{}) + s * series;
}
INLINE floats sigmoid(floats v) {
    const floats t = exponential(-magnitude(v)), whole = reciprocal(1.0f + t);
    return v < 0 ? t * whole : whole;
}
INLINE floats square_root(floats v) {
    const floats safe = larger(v, floats{} + 1e-30f);
    return v > 1e-30f ? v * inverse_root(safe) : floats{};
}
// A quotient of positive numbers, one more Newton step from correct rounding.
INLINE floats quotient(floats a, floats b) {
    const floats r = reciprocal(b), q = a * r;
    return q + r * (a - q * b);
}
INLINE floats clamped(floats v) { return v > 1.0f ? floats{} + 1.0f : larger(v, floats{}); }

template <int K> struct Bin {
    floats left, low, width, height, raw0, raw1;
    ints index;
    floats width_share[K], height_share[K];

    INLINE_MEMBER Bin(const Stretch &p, const float *raw, floats at, bool by_height) {
        shares(p, raw, 0, width_share);
        shares(p, raw, K, height_share);
        floats x_knot = floats{}, y_knot = floats{};
        left = low = floats{}, index = ints{};
        width = size(width_share[0]), height = size(height_share[0]);
        floats slope = p.parameter(raw, 2 * K), next = slope_at(p, raw, 1), w = width, h = height;
        raw0 = slope, raw1 = next;
        for (int k = 1; k < K; ++k) {
            x_knot += w, y_knot += h, slope = next;
            w = size(width_share[k]), h = size(height_share[k]), next = slope_at(p, raw, k + 1);
            const auto past = at >= (by_height ? y_knot : x_knot);
            left = past ? x_knot : left, low = past ? y_knot : low, width = past ? w : width, height = past ? h : height;
            raw0 = past ? slope : raw0, raw1 = past ? next : raw1, index = past ? ints{} + k : index;
        }
    }

    static INLINE_MEMBER floats size(floats share) { return MINIMUM + (1 - K * MINIMUM) * share; }

    static INLINE_MEMBER floats slope_at(const Stretch &p, const float *raw, int k) {
        if (k < K) return p.parameter(raw, 2 * K + k);
        return p.parameter(raw, p.dim < p.s.linear ? 3 * K : 2 * K);
    }

    static INLINE_MEMBER void shares(const Stretch &p, const float *raw, int from, floats *share) {
        floats largest = p.parameter(raw, from), total = floats{};
        share[0] = largest;
        for (int k = 1; k < K; ++k) share[k] = p.parameter(raw, from + k), largest = larger(largest, share[k]);
        for (int k = 0; k < K; ++k) share[k] = exponential(share[k] - largest), total += share[k];
        const floats scale = reciprocal(total);
        for (int k = 0; k < K; ++k) share[k] *= scale;
    }
};

struct Curve {
    floats theta, rest, s, d0, d1, denominator, quadratic;
    INLINE_MEMBER Curve(floats theta, floats rest, floats s, floats d0, floats d1)
        : theta(theta), rest(rest), s(s), d0(d0), d1(d1) {
        const floats across = theta * rest, first = theta * theta, second = rest * rest;
        denominator = s * (first + second) + (d0 + d1) * across;
        quadratic = d1 * first + 2 * s * across + d0 * second;
    }
    template <int K> static INLINE_MEMBER Curve at(const Bin<K> &bin, floats x) {
        const floats theta = clamped(quotient(x - bin.left, bin.width));
        return Curve(theta, 1 - theta, quotient(bin.height, bin.width), MINIMUM + softplus(bin.raw0),
                     MINIMUM + softplus(bin.raw1));
    }
    INLINE_MEMBER floats log_slope() const { return logarithm(quadratic) + 2 * logarithm(quotient(s, denominator)); }
    INLINE_MEMBER floats log_slope_by_theta() const {
        const floats tilt = rest - theta;
        return 2 * (d1 * theta + s * tilt - d0 * rest) * reciprocal(quadratic) -
               2 * (d0 + d1 - 2 * s) * tilt * reciprocal(denominator);
    }
};

INLINE floats turned(floats x, float seam) {
    const floats moved = x - seam;
    return moved < 0 ? moved + 1.0f : moved;
}
INLINE floats turned_back(floats x, float seam) {
    const floats moved = x + seam;
    return moved > 1 ? moved - 1.0f : moved;
}

// Outside the interval the map is the identity; what is no number stays none.
INLINE floats no_slope(floats x) { return x == x ? floats{} : x; }

// Return the value and log-slope of the map (or of its inverse) at x.
template <int K> INLINE floats evaluate(const Stretch &p, const float *raw, floats x, floats &log_slope) {
    const float seam = p.s.seam[p.dim];
    const floats at = turned(x, seam);
    const Bin<K> bin(p, raw, at, false);
    const Curve c = Curve::at(bin, at);
    const floats share = quotient(c.theta * (c.s * c.theta + c.d0 * c.rest), c.denominator);
    const auto inside = (x >= 0) & (x <= 1);
    log_slope = inside ? c.log_slope() : no_slope(x);
    return inside ? turned_back(clamped(bin.low + bin.height * share), seam) : x;
}

template <int K> INLINE floats solve(const Stretch &p, const float *raw, floats y, floats &log_slope) {
    const float seam = p.s.seam[p.dim];
    const floats at = turned(y, seam);
    const Bin<K> bin(p, raw, at, true);
    const floats s = quotient(bin.height, bin.width);
    const floats d0 = MINIMUM + softplus(bin.raw0), d1 = MINIMUM + softplus(bin.raw1);
    const floats part = clamped(quotient(at - bin.low, bin.height));
    const floats q = d0 * (1 - part) - d1 * part;
    const floats root = square_root(q * q + 4 * s * s * part * (1 - part)) + magnitude(q);
    const floats ahead = q >= 0 ? 2 * s * part : root, behind = q >= 0 ? root : 2 * s * (1 - part);
    const floats sum = ahead + behind, theta = quotient(ahead, sum), rest = quotient(behind, sum);
    const auto inside = (y >= 0) & (y <= 1);
    log_slope = inside ? -Curve(theta, rest, s, d0, d1).log_slope() : no_slope(y);
    return inside ? turned_back(clamped(bin.left + bin.width * theta), seam) : y;
}

// Carry gradients of a bin's start and size to the rows before the softmax.
template <int K>
INLINE void through_softmax(const Stretch &p, float *out, int from, const floats *share, ints index, floats by_start,
                            floats by_size) {
    floats by[K], mean = floats{};
    for (int k = 0; k < K; ++k) {
        by[k] = index > k ? by_start : (index == k ? by_size : floats{});
        mean += share[k] * by[k];
    }
    for (int k = 0; k < K; ++k) p.store(p.row(out, from + k), (1 - K * MINIMUM) * share[k] * (by[k] - mean));
}

// Write the gradient in the rows, which may be the rows themselves, and return that in x, of to_value y + to_log log dy/dx (or of the inverse) at x.
template <int K>
INLINE floats gradient(const Stretch &p, const float *raw, floats x, floats grad, floats grad_log, bool inverse,
                       float *out) {
    const auto inside = (x >= 0) & (x <= 1);
    // Outside, all is multiplied by zero; at infinity, that would give NaN.
    const floats at = turned(inside ? x : floats{}, p.s.seam[p.dim]);
    const Bin<K> bin(p, raw, at, false);
    const Curve c = Curve::at(bin, at);
    floats to_value = inside ? grad : floats{}, to_log = inside ? grad_log : floats{}, outgoing = floats{};
    const floats log_by_theta = c.log_slope_by_theta(), per_width = reciprocal(bin.width);
    if (inverse) {
        to_log = -to_log;
        outgoing = (grad + to_log * log_by_theta * per_width) * exponential(-c.log_slope());
        to_value = inside ? -outgoing : floats{};
    }
    const floats across = c.theta * c.rest, first = c.theta * c.theta, second = c.rest * c.rest, squares = first + second;
    const floats per_denominator = reciprocal(c.denominator), per_quadratic = reciprocal(c.quadratic);
    const floats share = c.theta * (c.s * c.theta + c.d0 * c.rest) * per_denominator;
    const floats stretched = to_value * bin.height * per_denominator, both = 2 * across * per_denominator;
    const floats by_theta = stretched * c.s * c.quadratic * per_denominator + to_log * log_by_theta;
    const floats by_s = stretched * (first - share * squares) +
                        to_log * (2 * reciprocal(c.s) + 2 * across * per_quadratic - 2 * squares * per_denominator);
    const floats by_d0 = stretched * across * (1 - share) + to_log * (second * per_quadratic - both);
    const floats by_d1 = to_log * (first * per_quadratic - both) - stretched * across * share;
    const floats by_x = by_theta * per_width;
    through_softmax<K>(p, out, 0, bin.width_share, bin.index, -by_x, -(by_theta * c.theta + by_s * c.s) * per_width);
    through_softmax<K>(p, out, K, bin.height_share, bin.index, to_value, to_value * share + by_s * per_width);
    const floats slope0 = by_d0 * sigmoid(bin.raw0), slope1 = by_d1 * sigmoid(bin.raw1);
    const floats last = bin.index == K - 1 ? slope1 : floats{};
    const bool circular = p.dim >= p.s.linear;
    p.store(p.row(out, 2 * K), (bin.index == 0 ? slope0 : floats{}) + (circular ? last : floats{}));
    for (int k = 1; k < K; ++k)
        p.store(p.row(out, 2 * K + k), (bin.index == k ? slope0 : floats{}) + (bin.index == k - 1 ? slope1 : floats{}));
    if (!circular) p.store(p.row(out, 3 * K), last);
    if (inverse) return inside ? outgoing : grad;
    return inside ? by_x : grad;
}

// A thread's share of the batch, in whole vectors.
struct Share {
    int64_t begin, end;
    Share(const Splines &s, int64_t index, int64_t threads) {
        const int64_t blocks = (s.batch + LANES - 1) / LANES, size = (blocks + threads - 1) / threads * LANES;
        begin = std::min(s.batch, index * size), end = std::min(s.batch, begin + size);
    }
    // Call work(stretch) along it at one dim. The batch is innermost: each row is read and written from end to end.
    template <class F> void at(const Splines &s, int64_t dim, F work) const {
        for (int64_t k = begin; k < end; k += LANES) work(Stretch{s, dim, k, std::min(LANES, end - k)});
    }
    float sum(const float *row) const {
        floats total = floats{};
        int64_t k = begin;
        for (; k + LANES <= end; k += LANES) {
            floats v;
            std::memcpy(&v, row + k, sizeof v);
            total += v;
        }
        float rest = 0;
        for (; k < end; ++k) rest += row[k];
        for (int64_t lane = 0; lane < LANES; ++lane) rest += total[lane];
        return rest;
    }
};

template <int K>
int forward(const Splines &s, bool inverse, const float *x, const float *raw, float *y, float *log_slope, int64_t threads) {
    return in_parallel(threads, [&](int64_t index) {
        const Share share(s, index, threads);
        for (int64_t dim = 0; dim < s.dims; ++dim)
            share.at(s, dim, [&](const Stretch &p) {
                floats log;
                const floats in = p.load(p.value(x));
                p.store(p.value(y), inverse ? solve<K>(p, raw, in, log) : evaluate<K>(p, raw, in, log));
                p.store(log_slope, dim == 0 ? log : p.load(log_slope) + log);
            });
    });
}

template <int K>
int backward(const Splines &s, bool inverse, const float *x, const float *raw, const float *grad, const float *grad_log,
             float *grad_x, float *grad_raw, float *grad_bias, int64_t threads) {
    const int64_t parameters = 3 * K * s.dims + s.linear;
    std::vector<float> sums(threads * parameters);
    const int failed = in_parallel(threads, [&](int64_t index) {
        const Share share(s, index, threads);
        float *own = sums.data() + index * parameters;
        for (int64_t dim = 0; dim < s.dims; ++dim) {
            share.at(s, dim, [&](const Stretch &p) {
                const floats in = p.load(p.value(x)), to_value = p.load(p.value(grad)), to_log = p.load(grad_log);
                p.store(p.value(grad_x), gradient<K>(p, raw, in, to_value, to_log, inverse, grad_raw));
            });
            for (int row = 0; row < 3 * K + (dim < s.linear); ++row)
                own[row * s.dims + dim] = share.sum(grad_raw + (row * s.dims + dim) * s.batch);
        }
    });
    for (int64_t k = 0; k < parameters; ++k) {
        grad_bias[k] = 0;
        for (int64_t index = 0; index < threads; ++index) grad_bias[k] += sums[index * parameters + k];
    }
    return failed;
}

}  // namespace

// Bins that are compiled: 4, 8 and 16. The caller takes care of the others.
#define FOR_BINS(call, ...)                                              \
    switch (s->bins) {                                                   \
        case 4: return call<4>(*s, __VA_ARGS__);                         \
        case 8: return call<8>(*s, __VA_ARGS__);                         \
        case 16: return call<16>(*s, __VA_ARGS__);                       \
        default: return 2;                                               \
    }

extern "C" int spline_forward(const Splines *s, int64_t inverse, const float *x, const float *raw, float *y,
                              float *log_slope, int64_t threads) {
    FOR_BINS(forward, inverse != 0, x, raw, y, log_slope, threads)
}
extern "C" int spline_backward(const Splines *s, int64_t inverse, const float *x, const float *raw, const float *grad,
                               const float *grad_log, float *grad_x, float *grad_raw, float *grad_bias,
                               int64_t threads) {
    FOR_BINS(backward, inverse != 0, x, raw, grad, grad_log, grad_x, grad_raw, grad_bias, threads)
}
