// Energies and gradients of many configurations of one molecule: bonds, angles, torsions, Lennard-Jones, Coulomb and
// generalised Born solvent.
//
// A vector holds one quantity of LANES configurations, so that every operation is the same for all of them whatever the
// molecule, and no configuration sees another: results do not depend on the batch or the number of threads. Positions of
// a block of LANES configurations, and all that is computed from them, stay in the processor's cache.

#include "lanes.h"

namespace {

// A sum of many terms that cancel: the rounding errors are kept beside it (Knuth's two-sum).
template <class V> struct Sum {
    V high = V{}, low = V{};
    INLINE_MEMBER void operator+=(V v) {
        const V sum = high + v, part = sum - high;
        low += (high - (sum - part)) + (v - part), high = sum;
    }
    V total() const { return high - high == 0 ? high + low : high; }  // an infinite sum has no rounding error
};

template <class V> struct Vec3 {
    V x, y, z;
    Vec3 operator+(const Vec3 &o) const { return {x + o.x, y + o.y, z + o.z}; }
    Vec3 operator-(const Vec3 &o) const { return {x - o.x, y - o.y, z - o.z}; }
    Vec3 operator*(V s) const { return {x * s, y * s, z * s}; }
};
template <class V> INLINE V dot(const Vec3<V> &a, const Vec3<V> &b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
template <class V> INLINE Vec3<V> cross(const Vec3<V> &a, const Vec3<V> &b) {
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

}  // namespace

// Parameters of a molecule, as native.py lays them out. T is float or double.
struct Tables {
    int64_t atoms, bonds, angles, torsions, orders;
    const int32_t *bond_atoms, *angle_atoms, *torsion_atoms;
    const void *bond;     // (bonds, 2): r0, k
    const void *angle;    // (angles, 2): theta0, k
    const void *torsion;  // (torsions, orders, 2): a_n, b_n of a_n cos n phi + b_n sin n phi, from n = 0
    const void *pair;     // (pairs, 3): sigma^2, 4 epsilon, k q_i q_j; null without nonbonded forces
    const void *polar;    // (pairs,): prefactor q_i q_j; null without solvent
    const void *born;     // (atoms, 5): prefactor q^2, radius, reduced radius, scaled radius, surface coefficient
    double shape[3];      // psi (shape0 - psi (shape1 - psi shape2)) enters the tanh; without tanh if all are zero
    int64_t nested;       // whether one atom inside another gets its own integral
};

namespace {

const double CLOSEST = 1e-12;  // nm^2: closer atoms count as 10^-6 nm apart, so that 1/r stays finite
const double TINY = 1e-30;

template <class T> class Block {
    typedef typename Vector<T>::type V;
    typedef Vec3<V> P;

  public:
    static constexpr int LANES = sizeof(V) / sizeof(T);

    Block(const Tables &tables, bool slopes)
        : t(tables), n(tables.atoms), slopes(slopes), x(n), gradient(slopes ? n : 0),
          born(tables.polar ? n : 0), per_pair(slopes && tables.polar ? n * (n - 1) / 2 : 0) {}

    // Evaluate `count` configurations (atoms, 3) that lie one after the other; write count energies and gradients.
    void run(const T *positions, int count, T *energies, T *gradients) {
        load(positions, count);
        energy = Sum<V>();
        std::fill(gradient.begin(), gradient.end(), P{});
        bonds();
        angles();
        torsions();
        if (t.polar) {
            born_radii();
            slopes ? solvated_pairs<true>() : solvated_pairs<false>();
            if (slopes) descreening_slopes();
        } else if (t.pair) {
            vacuum_pairs();
        }
        const V total = energy.total();
        for (int k = 0; k < count; ++k) energies[k] = total[k];
        if (slopes) store(gradients, count);
    }

  private:
    struct Born {
        V sum, inverse, radius, slope;  // of T_ij over j; 1/B; B; dE/d(1/B), then dE/d(sum)
    };
    struct Pair {
        V to_first, to_second, force;  // dT_ij/dr / r, dT_ji/dr / r, dE/dr / r without descreening
    };

    const Tables &t;
    const int64_t n;
    const bool slopes;
    std::vector<P> x, gradient;
    std::vector<Born> born;
    std::vector<Pair> per_pair;
    Sum<V> energy;

    void load(const T *positions, int count) {
        for (int64_t a = 0; a < n; ++a)
            for (int k = 0; k < LANES; ++k) {
                const T *row = positions + (std::min(k, count - 1) * n + a) * 3;
                x[a].x[k] = row[0], x[a].y[k] = row[1], x[a].z[k] = row[2];
            }
    }

    void store(T *gradients, int count) const {
        for (int k = 0; k < count; ++k)
            for (int64_t a = 0; a < n; ++a) {
                T *row = gradients + (k * n + a) * 3;
                row[0] = gradient[a].x[k], row[1] = gradient[a].y[k], row[2] = gradient[a].z[k];
            }
    }

    void push(int64_t atom, const P &slope) { gradient[atom] = gradient[atom] + slope; }
    INLINE_MEMBER void attract(P &own, int64_t other, const P &slope) {
        own = own + slope, gradient[other] = gradient[other] - slope;
    }

    void bonds() {
        const T *p = (const T *)t.bond;
        for (int64_t b = 0; b < t.bonds; ++b) {
            const int32_t *a = t.bond_atoms + 2 * b;
            const P d = x[a[0]] - x[a[1]];
            const V squared = dot(d, d) + T(TINY), inverse = inverse_root(squared);
            const V stretch = squared * inverse - p[2 * b];
            energy += T(0.5) * p[2 * b + 1] * stretch * stretch;
            if (slopes) {
                const P f = d * (p[2 * b + 1] * stretch * inverse);
                push(a[0], f), push(a[1], P{} - f);
            }
        }
    }

    // With n = a x b: d theta/da = a x n / (|a|^2 |n|), d theta/db = n x b / (|b|^2 |n|).
    void angles() {
        const T *p = (const T *)t.angle;
        for (int64_t i = 0; i < t.angles; ++i) {
            const int32_t *atom = t.angle_atoms + 3 * i;
            const P a = x[atom[0]] - x[atom[1]], b = x[atom[2]] - x[atom[1]], normal = cross(a, b);
            const V squared = dot(normal, normal) + T(TINY), inverse = inverse_root(squared);
            const V bend = angle_of(squared * inverse, dot(a, b)) - p[2 * i];
            energy += T(0.5) * p[2 * i + 1] * bend * bend;
            if (slopes) {
                const V torque = p[2 * i + 1] * bend * inverse;
                const P first = cross(a, normal) * (torque * reciprocal(dot(a, a) + T(TINY)));
                const P last = cross(normal, b) * (torque * reciprocal(dot(b, b) + T(TINY)));
                push(atom[0], first), push(atom[2], last), push(atom[1], P{} - first - last);
            }
        }
    }

    void torsions() {
        const T *p = (const T *)t.torsion;
        for (int64_t i = 0; i < t.torsions; ++i, p += 2 * t.orders) {
            const int32_t *a = t.torsion_atoms + 4 * i;
            const P b1 = x[a[1]] - x[a[0]], b2 = x[a[2]] - x[a[1]], b3 = x[a[3]] - x[a[2]];
            const P n1 = cross(b1, b2), n2 = cross(b2, b3);
            const V s1 = dot(n1, n1), s2 = dot(n2, n2), squared = dot(b2, b2) + T(TINY);
            const V scale = inverse_root(s1 * s2 + T(TINY)), short_b2 = inverse_root(squared);
            const V cosine = dot(n1, n2) * scale, sine = squared * short_b2 * dot(b1, n2) * scale;
            V c = cosine, s = sine, sum = V{} + p[0], torque = V{};
            for (int64_t k = 1; k < t.orders; ++k) {
                sum += p[2 * k] * c + p[2 * k + 1] * s;
                torque += T(k) * (p[2 * k + 1] * c - p[2 * k] * s);
                const V next = c * cosine - s * sine;
                s = s * cosine + c * sine, c = next;
            }
            energy += sum;
            if (slopes) push_torsion(a, torque, b1, b2, b3, n1, n2, s1, s2, squared, short_b2);
        }
    }

    // Blondel and Karplus (1996): no singularity where sin phi = 0.
    void push_torsion(const int32_t *a, V torque, const P &b1, const P &b2, const P &b3, const P &n1, const P &n2,
                      V s1, V s2, V squared, V short_b2) {
        const P u1 = n1 * (torque * reciprocal(s1 + T(TINY))), u2 = n2 * (torque * reciprocal(s2 + T(TINY)));
        const P first = u1 * (squared * short_b2), last = u2 * (squared * short_b2);
        const P twist = u1 * (dot(b1, b2) * short_b2) + u2 * (dot(b3, b2) * short_b2);
        push(a[0], P{} - first), push(a[3], last);
        push(a[1], first + twist), push(a[2], P{} - twist - last);
    }

    // Add Lennard-Jones and Coulomb of a pair; return dE/dr / r.
    INLINE_MEMBER V nonbonded(const T *p, V inverse, V &sum) {
        const V inverse2 = inverse * inverse, s2 = p[0] * inverse2, s6 = s2 * s2 * s2;
        const V attraction = p[1] * s6, repulsion = attraction * s6, coulomb = p[2] * inverse;
        sum += repulsion - attraction + coulomb;
        return inverse2 * (6 * attraction - 12 * repulsion - coulomb);
    }

    void vacuum_pairs() {
        const T *p = (const T *)t.pair;
        for (int64_t i = 0; i < n; ++i) {
            P own = P{};
            V sum = V{};
            for (int64_t j = i + 1; j < n; ++j, p += 3) {
                const P d = x[i] - x[j];
                const V force = nonbonded(p, inverse_root(larger<V>(dot(d, d), V{} + T(CLOSEST))), sum);
                if (slopes) attract(own, j, d * force);
            }
            if (slopes) push(i, own);
            energy += sum;
        }
    }

    // The integral T over the part of one atom's sphere (reduced radius `own`) that another (scaled radius `other`)
    // takes from the solvent, and dT/dr / r. With U = r + other and L = max(own, |r - other|), dT/dU = 0, and dT/dL
    // vanishes too but for one atom inside another, where the nested integral cancels it.
    INLINE_MEMBER V descreening(V r, V inverse, T own, T other, bool nested, V &slope) {
        const V outer = r + other, inner = larger<V>(magnitude(r - other), V{} + own);
        const V both = reciprocal(inner * outer), lower = outer * both, upper = inner * both;
        const V squares = T(0.25) * (upper * upper - lower * lower), ratio = other * inverse;
        const V log = T(0.5) * inverse * logarithm(inner * upper);
        V value = lower - upper + (r - other * ratio) * squares + log;
        slope = inverse * ((1 + ratio * ratio) * squares - log * inverse);
        const auto inside = r < V{} + (other - own);
        if (nested)
            value += inside ? 2 * (1 / own - lower) : V{};
        else
            slope += inside ? 2 * inverse * lower * lower : V{};
        const auto reached = outer > V{} + own;
        slope = reached ? slope : V{};
        return reached ? value : V{};
    }

    void born_radii() {
        const T *atom = (const T *)t.born;
        const T *p = (const T *)t.pair;
        Pair *pair = per_pair.data();
        const bool nested = t.nested;
        for (Born &b : born) b.sum = V{};
        for (int64_t i = 0; i < n; ++i) {
            V own = V{}, sum = V{};
            const T *a = atom + 5 * i;
            for (int64_t j = i + 1; j < n; ++j) {
                const T *b = atom + 5 * j;
                const P d = x[i] - x[j];
                const V squared = larger<V>(dot(d, d), V{} + T(CLOSEST));
                const V inverse = inverse_root(squared), r = squared * inverse;
                V first, second, force = V{};
                own += descreening(r, inverse, a[2], b[3], nested, first);
                born[j].sum += descreening(r, inverse, b[2], a[3], nested, second);
                if (p) force = nonbonded(p, inverse, sum), p += 3;
                if (slopes) *pair++ = {first, second, force};
            }
            born[i].sum += own;
            energy += sum;
        }
        for (int64_t i = 0; i < n; ++i) self_terms(atom + 5 * i, born[i]);
    }

    // 1/B from the sum, the polar energy of an atom with itself and its surface; leaves dE/d(1/B) in slope.
    void self_terms(const T *a, Born &b) {
        const V psi = T(0.5) * a[2] * b.sum;
        b.inverse = 1 / a[2] - (tanh() ? hyperbolic_tangent(polynomial(psi)) / a[1] : psi / a[2]);
        b.radius = reciprocal(b.inverse);
        const V ratio = a[1] * b.inverse, cube = ratio * ratio * ratio;
        energy += a[0] * b.inverse + a[4] * cube * cube;
        b.slope = a[0] + 6 * a[4] * a[1] * cube * ratio * ratio;
    }

    bool tanh() const { return t.shape[0] != 0; }
    V polynomial(V psi) const { return psi * (T(t.shape[0]) - psi * (T(t.shape[1]) - psi * T(t.shape[2]))); }

    template <bool WITH_SLOPES> void solvated_pairs() {
        const T *polar = (const T *)t.polar;
        Pair *pair = per_pair.data();
        for (int64_t i = 0; i < n; ++i) {
            V slope = V{}, sum = V{};
            const P at = x[i];
            const V inverse_i = born[i].inverse, radius_i = born[i].radius;
            for (int64_t j = i + 1; j < n; ++j, ++polar) {
                const P d = at - x[j];
                const V squared = larger<V>(dot(d, d), V{} + T(CLOSEST));
                const V product = radius_i * born[j].radius;
                const V quarter = T(0.25) * squared, decay = exponential(-quarter * (inverse_i * born[j].inverse));
                const V inverse_f = inverse_root(squared + product * decay);
                const V value = *polar * inverse_f;
                sum += value;
                if (WITH_SLOPES) {
                    const V steep = value * inverse_f * inverse_f;  // -2 dE/d(f^2)
                    pair->force += steep * (T(0.25) * decay - 1);
                    ++pair;
                    const V change = T(0.5) * steep * decay * product * (product + quarter);
                    slope += change * born[j].inverse, born[j].slope += change * inverse_i;
                }
            }
            born[i].slope += slope;
            energy += sum;
        }
    }

    void descreening_slopes() {
        const T *atom = (const T *)t.born;
        for (int64_t i = 0; i < n; ++i) {
            const T *a = atom + 5 * i;
            const V psi = T(0.5) * a[2] * born[i].sum;
            V bend = V{} + 1 / a[2];
            if (tanh()) {
                const V h = hyperbolic_tangent(polynomial(psi));
                bend = (1 - h * h) * (T(t.shape[0]) - psi * (2 * T(t.shape[1]) - 3 * T(t.shape[2]) * psi)) / a[1];
            }
            born[i].slope *= -T(0.5) * a[2] * bend;
        }
        const Pair *pair = per_pair.data();
        for (int64_t i = 0; i < n; ++i) {
            P own = P{};
            const P at = x[i];
            for (int64_t j = i + 1; j < n; ++j, ++pair) {
                const V force = pair->force + born[i].slope * pair->to_first + born[j].slope * pair->to_second;
                attract(own, j, (at - x[j]) * force);
            }
            push(i, own);
        }
    }
};

template <class T> void evaluate(const Tables &tables, const T *x, int64_t count, T *energy, T *gradient) {
    Block<T> block(tables, gradient != nullptr);
    const int64_t size = tables.atoms * 3;
    for (int64_t at = 0; at < count; at += Block<T>::LANES)
        block.run(x + at * size, int(std::min<int64_t>(Block<T>::LANES, count - at)), energy + at,
                  gradient ? gradient + at * size : nullptr);
}

template <class T>
int in_threads(const Tables &tables, const T *x, int64_t count, T *energy, T *gradient, int64_t threads) {
    const int64_t size = tables.atoms * 3, lanes = Block<T>::LANES;
    const int64_t blocks = (count + lanes - 1) / lanes, share = (blocks + threads - 1) / threads * lanes;
    return in_parallel(threads, [&](int64_t index) {
        const int64_t from = index * share, to = std::min(count, from + share);
        if (from < to)
            evaluate(tables, x + from * size, to - from, energy + from, gradient ? gradient + from * size : nullptr);
    });
}

}  // namespace

extern "C" int energies_float(const Tables *t, const float *x, int64_t n, float *e, float *g, int64_t threads) {
    return in_threads<float>(*t, x, n, e, g, threads);
}
extern "C" int energies_double(const Tables *t, const double *x, int64_t n, double *e, double *g, int64_t threads) {
    return in_threads<double>(*t, x, n, e, g, threads);
}
