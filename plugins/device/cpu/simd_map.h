/* SPDX-License-Identifier: Apache-2.0
 *
 * Element by element; part of simd_impl.h.
 */

typedef uint16_t vh __attribute__((vector_size(PST_W * 2)));

/* Defines name(dst, a, n) with dst[i] = EXPRESSION(a[i]), a vector at a time. */
#define PST_MAP1(name, expression)                                                                 \
    static void name(float *dst, const float *a, uint64_t n)                                       \
    {                                                                                              \
        PST_EACH_VECTOR(n, put(dst, at, left, expression(get(a, at, left))));                      \
    }
#define PST_MAP2(name, expression)                                                                 \
    static void name(float *dst, const float *a, const float *b, uint64_t n)                       \
    {                                                                                              \
        PST_EACH_VECTOR(n, put(dst, at, left, expression(get(a, at, left), get(b, at, left))));    \
    }

INLINE vf vadd(vf a, vf b)
{
    return a + b;
}

/* NaN is not greater than zero, yet must not get lost. */
INLINE vf vrelu(vf h)
{
    return vselect(h <= vset(0), vset(0), h);
}

INLINE vf vgelu(vf h)
{
    return h / (vset(1) + gelu_exp(h, h * h));
}

INLINE vf vrelu_back(vf dy, vf y)
{
    return (vf)((vi)dy & (vi)(y > vset(0)));
}

/* An activation function and its slope. */
struct act {
    vf y, slope;
};

/* With s = 1 / (1 + e): s + h s (1 - s) (2u)', and s (1 - s) = e s^2 without cancellation. */
INLINE struct act gelu_of(vf h)
{
    const vf square = h * h;
    const vf e = gelu_exp(h, square);
    const vf s = vset(1) / (vset(1) + e);
    const vf inner = vset(1.59576912160573071f) + vset(0.21406444881780f) * square;

    return (struct act){h * s, s + h * inner * (e * s * s)};
}

INLINE vf vgelu_back(vf dy, vf h)
{
    return dy * gelu_of(h).slope;
}

INLINE vf vsilu(vf h)
{
    return h / (vset(1) + vexp(-h));
}

/* The formula of gelu_of with 2u = h. */
INLINE struct act silu_of(vf h)
{
    const vf e = vexp(-h);
    const vf s = vset(1) / (vset(1) + e);

    return (struct act){h * s, s + h * (e * s * s)};
}

INLINE vf vsilu_back(vf dy, vf h)
{
    return dy * silu_of(h).slope;
}

INLINE vf vgelu_gate(vf gate, vf up)
{
    return vgelu(gate) * up;
}

INLINE vf vsilu_gate(vf gate, vf up)
{
    return vsilu(gate) * up;
}

PST_MAP2(map_add, vadd)
PST_MAP1(map_relu, vrelu)
PST_MAP1(map_gelu, vgelu)
PST_MAP2(map_relu_back, vrelu_back)
PST_MAP2(map_gelu_back, vgelu_back)
PST_MAP1(map_silu, vsilu)
PST_MAP2(map_silu_back, vsilu_back)
PST_MAP2(map_gelu_gate, vgelu_gate)
PST_MAP2(map_silu_gate, vsilu_gate)

INLINE void gate_back_at(float *dgate, float *dup, vf dy, struct act act, vf up, uint64_t at,
                         uint64_t left)
{
    put(dgate, at, left, dy * up * act.slope);
    put(dup, at, left, dy * act.y);
}

static void map_gelu_gate_back(float *dgate, float *dup, const float *dy, const float *gate,
                               const float *up, uint64_t n)
{
    PST_EACH_VECTOR(n, gate_back_at(dgate, dup, get(dy, at, left), gelu_of(get(gate, at, left)),
                                    get(up, at, left), at, left));
}

static void map_silu_gate_back(float *dgate, float *dup, const float *dy, const float *gate,
                               const float *up, uint64_t n)
{
    PST_EACH_VECTOR(n, gate_back_at(dgate, dup, get(dy, at, left), silu_of(get(gate, at, left)),
                                    get(up, at, left), at, left));
}

static void map_rotate(float *y, const float *x, const float *cosines, const float *sines,
                       float way, uint64_t n)
{
    PST_EACH_VECTOR(n, const vf a = get(x, at, left); const vf b = get(x + n, at, left);
                    const vf c = get(cosines, at, left);
                    const vf s = vset(way) * get(sines, at, left); put(y, at, left, a * c - b * s);
                    put(y + n, at, left, b * c + a * s));
}

/* Four rows and columns. */
INLINE void turn_square(float *dst, uint64_t to, const float *src, uint64_t from)
{
    vq row[4], a, b, c, d;

    for (uint32_t i = 0; i < 4; i++) {
        memcpy(&row[i], src + i * from, sizeof row[i]);
    }
    a = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5);
    b = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
    c = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
    d = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
    row[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    row[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    row[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    row[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
    for (uint32_t i = 0; i < 4; i++) {
        memcpy(dst + i * to, &row[i], sizeof row[i]);
    }
}

static void map_turn(float *dst, uint64_t to, const float *src, uint64_t from, uint64_t rows,
                     uint64_t columns)
{
    for (uint64_t r = 0; r < rows; r += 4) {
        uint64_t c = 0;

        for (; r + 4 <= rows && c + 4 <= columns; c += 4) {
            for (uint64_t i = r + 8; c % 16 == 0 && i < r + 12; i++) {
                __builtin_prefetch(src + i * from + c);
            }
            turn_square(dst + c * to + r, to, src + r * from + c, from);
        }
        for (; c < columns; c++) {
            for (uint64_t i = r; i < r + 4 && i < rows; i++) {
                dst[c * to + i] = src[i * from + c];
            }
        }
    }
}

static void map_scale(float *dst, const float *a, float factor, uint64_t n)
{
    PST_EACH_VECTOR(n, put(dst, at, left, get(a, at, left) * vset(factor)));
}

static void map_widen(float *dst, const uint16_t *bf16, uint64_t n)
{
    PST_EACH_VECTOR(n, vh h = {0}; memcpy(&h, bf16 + at, left * sizeof *bf16);
                    put(dst, at, left, (vf)(__builtin_convertvector(h, vu) << 16)));
}

/* To nearest, ties to even; a NaN stays one. */
INLINE vh vnarrow(vf value)
{
    const vu bits = (vu)value;
    const vu rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    const vu nan = (vu)(value != value);

    return __builtin_convertvector((rounded & ~nan) | (((bits >> 16) | 0x40u) & nan), vh);
}

static void map_narrow(uint16_t *bf16, const float *src, uint64_t n)
{
    PST_EACH_VECTOR(n, const vh h = vnarrow(get(src, at, left));
                    memcpy(bf16 + at, &h, left * sizeof *bf16));
}
