/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over rows of tokens, and the rotation of its queries and keys. Its work counts the
 * products that a kernel makes which keeps no score matrix: two forward, five backward (Dao et al.:
 * "FlashAttention", NeurIPS 2022).
 */
#include "graph/ops/operands.h"

#include <float.h>

/* Buckets of relative positions (distance.h), one column per head. */
static bool check_buckets(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_op *op = c->op;
    uint64_t dims[2], n;

    if (!pst_op_has_param(op, 0)) {
        return true;
    }
    if (!check_param_rank(c, 2, "[buckets, heads]", err)) {
        return false;
    }
    dims[0] = param0(c)->dims[0];
    dims[1] = op->heads;
    n = op->causal ? dims[0] : dims[0] / 2;
    if (n < 2 || (!op->causal && dims[0] % 2 != 0) || op->max_distance <= n / 2) {
        return BAD("%s: %llu buckets up to a distance of %u; there must be 2 or more a direction, "
                   "and the distance above half of them",
                   op->name, (unsigned long long)dims[0], op->max_distance);
    }
    return check_param(c, 0, 2, dims, err);
}

/* Keys and values of another sequence; width: of the keys. */
static bool check_keys(const struct pst_op_case *c, uint64_t width, struct pst_error *err)
{
    const struct pst_tensor *keys = input(c, 1);
    char text[256];

    return ((keys->rank == 2 && keys->dims[1] == 2 * width && !c->op->causal) ||
            BAD("%s: keys and values have shape %s, expected [S, %llu] and no causal mask",
                c->op->name, text_of(text, keys), (unsigned long long)(2 * width))) &&
           check_dtype(c, 1, c->dtype, err);
}

/* Heads, their columns, the mask. x0 has `columns`. */
static bool check_heads(const struct pst_op_case *c, bool packed, uint64_t columns,
                        uint64_t *ret_depth, struct pst_error *err)
{
    const struct pst_op *op = c->op;
    const uint32_t kv_heads = pst_op_kv_heads(op);
    const uint64_t heads = op->heads + (packed ? 2 * (uint64_t)kv_heads : 0);
    const bool grouped = packed && kv_heads != op->heads;

    if (packed && !grouped && columns % 3 != 0) {
        return BAD("%s: input has last axis %llu, which is not three parts of equal width",
                   op->name, (unsigned long long)columns);
    }
    if (op->heads == 0 || (!grouped && columns % heads != 0)) {
        return BAD("%s: input has last axis %llu (%u x %llu), heads %u do not divide it", op->name,
                   (unsigned long long)columns, packed ? 3u : 1u,
                   (unsigned long long)(columns / (packed ? 3 : 1)), op->heads);
    }
    if (op->heads % kv_heads != 0) {
        return BAD("%s: %u key heads do not divide %u heads, which share them evenly", op->name,
                   kv_heads, op->heads);
    }
    if (columns % heads != 0) {
        return BAD("%s: input has last axis %llu, which is not %u heads of queries, %u of keys and "
                   "as many of values, all of equal width",
                   op->name, (unsigned long long)columns, op->heads, kv_heads);
    }
    if (op->window != 0 && !op->causal) {
        return BAD("%s: a window of %u keys takes a causal mask", op->name, op->window);
    }
    *ret_depth = columns / heads;
    return true;
}

static bool infer_attention(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_op *op = c->op;
    const bool packed = op->n_in == 1;
    uint64_t lse[2] = {op->heads, input(c, 0)->dims[0]}, depth = 0;

    if (!check_rank(c, 2, 2, packed ? "[T, 3C] (queries, keys, values)" : "[T, C]", err) ||
        !check_heads(c, packed, input(c, 0)->dims[1], &depth, err) ||
        !(packed || check_keys(c, depth * pst_op_kv_heads(op), err)) || !check_buckets(c, err)) {
        return false;
    }
    result_like(c)->dims[1] = depth * op->heads;
    output(c, PST_ROLE_AUX, statistics_dtype(c), 2, lse);
    return true;
}

static void grad_attention(const struct pst_op_case *c, struct pst_op_grad *info)
{
    if (pst_op_has_param(c->op, 0)) {
        leave_scratch(info, param0(c)->elems, aux_of(c)->dtype, false);
    }
}

/* Keys that rows 0 ... n - 1 of a sequence see together: a triangle, then a band. */
static double keys_seen(const struct pst_op *op, double n)
{
    const double window = (double)op->window;

    return window == 0 || n <= window ? n * n / 2 : window * window / 2 + window * (n - window);
}

/* Mean number of keys that a row of attention sees. */
static double mean_keys(const struct pst_op_case *c)
{
    const struct pst_op *op = c->op;
    const double rows = (double)result_of(c)->dims[0], slices = op->slices > 1 ? op->slices : 1;
    const double first = c->slice == PST_NONE ? 0 : rows * c->slice;
    const double end = c->slice == PST_NONE ? rows * slices : first + rows;

    return op->n_in == 2 ? (double)input(c, 1)->dims[0] * (op->causal ? 0.5 : 1)
           : !op->causal ? rows
                         : (keys_seen(op, end) - keys_seen(op, first)) / (end - first);
}

/* W copies what B found. */
static double attention_products(const struct pst_op_case *c)
{
    static const double products[] = {2.0, 5.0, 0.0};

    return 2.0 * (double)result_of(c)->elems * mean_keys(c) * products[c->pass];
}

/* Queries times keys of each head. */
static double attention_softmax(const struct pst_op_case *c)
{
    const struct pst_tensor *y = result_of(c), *keys = c->op->n_in == 2 ? input(c, 1) : y;

    return (double)c->op->heads * (double)y->dims[0] * (double)keys->dims[0] *
           (c->op->slices > 1 ? pst_op_slices_before(c->op, c->slice) + 1 : 1) *
           (double)pst_dtype_bytes(y->dtype);
}

static const char *attention_mixes(const struct pst_op_case *c, bool decode)
{
    (void)decode;
    return c->op->n_in > 1              ? "reads another sequence"
           : !c->op->causal             ? "looks ahead"
           : pst_op_has_param(c->op, 0) ? "has a bias by distance"
                                        : NULL;
}

static uint64_t attention_past(const struct pst_op_case *c)
{
    return result_of(c)->elems / c->op->heads * 2 * pst_op_kv_heads(c->op);
}

/* y1 log-sum-exp [H,T]; z0 the gradient of p0. */
const struct pst_op_rules pst_op_attention = {
    .kind = {"attention", 1, 2, 1, 0},
    .attributes = PST_ATTR_CAUSAL | PST_ATTR_HEADS | PST_ATTR_KV_HEADS | PST_ATTR_WINDOW |
                  PST_ATTR_MAX_DISTANCE | PST_ATTR_SCALE,
    .aux = {"lse"},
    .aux_row_axis = 1,
    .costly = true,
    .infer = infer_attention,
    .passes = {.b_reads_x = 1 | 2, .b_reads_p = 1, .b_reads_y = 1 | 2},
    .grad = grad_attention,
    .z_needs_params = true,
    .products = attention_products,
    .softmax = attention_softmax,
    .by_row = true,
    .mixes = attention_mixes,
    .past = attention_past,
    .positions = true,
};

static bool check_rope(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_rope *rope = &c->op->rope;
    const bool llama3 = rope->scaling == PST_ROPE_LLAMA3;

    if (rope->scaling > PST_ROPE_LLAMA3 || !(rope->theta > 1.0f && rope->theta <= FLT_MAX)) {
        return BAD("%s: theta %g is not above 1, or scaling %u does not exist", c->op->name,
                   (double)rope->theta, rope->scaling);
    }
    if (rope->scaling != PST_ROPE_NONE && !(rope->factor >= 1.0f && rope->factor <= FLT_MAX)) {
        return BAD("%s: positions cannot be scaled by %g; the factor is 1 or more", c->op->name,
                   (double)rope->factor);
    }
    if (llama3 &&
        !(rope->context > 0 && rope->low_freq_factor > 0.0f &&
          rope->high_freq_factor > rope->low_freq_factor && rope->high_freq_factor <= FLT_MAX)) {
        return BAD("%s: scaling llama3 takes 0 < low_freq_factor (%g) < high_freq_factor (%g) and "
                   "the context of the first training (%u)",
                   c->op->name, (double)rope->low_freq_factor, (double)rope->high_freq_factor,
                   rope->context);
    }
    return true;
}

static bool infer_rotary(const struct pst_op_case *c, struct pst_error *err)
{
    result_like(c);
    return check_rank(c, 2, 2, "[T, C]", err) &&
           check_leading(c, c->op->heads, c->op->head_dim, err) &&
           (c->op->head_dim % 2 == 0 ||
            BAD("%s: heads of %u columns are not made of pairs; their number must be even",
                c->op->name, c->op->head_dim)) &&
           check_rope(c, err);
}

/* Two products and a sum of each column that turns. */
static double rotary_flops(const struct pst_op_case *c)
{
    const struct pst_tensor *y = result_of(c);

    return 3.0 * ((double)y->elems *
                  ((double)c->op->heads * (double)c->op->head_dim / (double)y->dims[1]));
}

const struct pst_op_rules pst_op_rotary = {
    .kind = {"rotary", 1, 1, 0, 0},
    .attributes = PST_ATTR_HEADS | PST_ATTR_HEAD_DIM | PST_ATTR_ROPE,
    .infer = infer_rotary,
    .elementwise = rotary_flops,
    .by_row = true,
    .positions = true,
};
