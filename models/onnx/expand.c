/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that are made of others: their nodes become nodes of the operators that are read, as
 * ONNX's specification of each defines it. Nothing is known of shapes here; where they matter
 * they are nodes, too (Shape), which are computed when the model is read.
 */
#include "onnx.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

#define MOST_NODES 32 /* that one becomes */

struct expand {
    struct onnx_model *model;
    const Onnx__NodeProto *node;
    Onnx__NodeProto *made[MOST_NODES];
    uint32_t n;
};

/* --- making nodes ----------------------------------------------------------------------------- */

/* One more node, of up to three inputs; what it makes. The node's metadata stay. */
static char *add(struct expand *e, const char *op, char *a, char *b, char *c)
{
    struct pst_arena *arena = &e->model->arena;
    Onnx__NodeProto *node = pst_arena_alloc(arena, sizeof *node, 0);
    char *const in[3] = {a, b, c};

    PST_ASSERT(e->n < MOST_NODES);
    *node = *e->node;
    node->n_attribute = node->n_input = 0;
    node->attribute = NULL;
    node->op_type = pst_arena_strdup(arena, op);
    node->input = pst_arena_array(arena, 3, sizeof *node->input);
    for (uint32_t i = 0; i < 3 && in[i] != NULL; i++) {
        node->input[node->n_input++] = in[i];
    }
    node->n_output = 1;
    node->output = pst_arena_array(arena, 1, sizeof *node->output);
    node->output[0] = pst_arena_printf(arena, "%s.%s.%u", e->node->output[0], op, e->n);
    e->made[e->n++] = node;
    return node->output[0];
}

/* An attribute of the node that came last. */
static Onnx__AttributeProto *attribute(struct expand *e, const char *name)
{
    struct pst_arena *arena = &e->model->arena;
    Onnx__NodeProto *node = e->made[e->n - 1];
    Onnx__AttributeProto **all =
        pst_arena_array(arena, node->n_attribute + 1, sizeof *node->attribute);
    Onnx__AttributeProto *new = pst_arena_alloc(arena, sizeof *new, 0);

    *new = (Onnx__AttributeProto)ONNX__ATTRIBUTE_PROTO__INIT;
    new->name = pst_arena_strdup(arena, name);
    for (size_t i = 0; i < node->n_attribute; i++) {
        all[i] = node->attribute[i];
    }
    all[node->n_attribute++] = new;
    node->attribute = all;
    return new;
}

static void with_int(struct expand *e, const char *name, int64_t value)
{
    Onnx__AttributeProto *new = attribute(e, name);

    new->has_i = true;
    new->i = value;
}

static void with_ints(struct expand *e, const char *name, uint32_t n, const int64_t *values)
{
    Onnx__AttributeProto *new = attribute(e, name);

    new->n_ints = n;
    new->ints = pst_arena_array(&e->model->arena, n, sizeof *values);
    memcpy(new->ints, values, n * sizeof *values);
}

/* The attributes of the node that is replaced, those that are lists of integers only if so said. */
static void with_same(struct expand *e, bool lists)
{
    for (size_t i = 0; i < e->node->n_attribute; i++) {
        const Onnx__AttributeProto *old = e->node->attribute[i];

        if (old->name != NULL && (lists || old->n_ints == 0)) {
            *attribute(e, old->name) = *old;
        }
    }
}

static char *real(struct expand *e, float value)
{
    char *result = add(e, "Constant", NULL, NULL, NULL);
    Onnx__AttributeProto *new = attribute(e, "value_float");

    new->has_f = true;
    new->f = value;
    return result;
}

static char *integers(struct expand *e, uint32_t n, const int64_t *values)
{
    char *result = add(e, "Constant", NULL, NULL, NULL);

    with_ints(e, "value_ints", n, values);
    return result;
}

#define INTEGERS(e, ...)                                                                           \
    integers(e, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

static char *one(struct expand *e, const char *op, char *x)
{
    return add(e, op, x, NULL, NULL);
}

static char *two(struct expand *e, const char *op, char *a, char *b)
{
    return add(e, op, a, b, NULL);
}

static char *in(const struct expand *e, uint32_t i)
{
    return i < e->node->n_input && e->node->input[i][0] != '\0' ? e->node->input[i] : NULL;
}

static float float_of(const struct expand *e, const char *name, float otherwise)
{
    return onnx_float(&(struct onnx_node){.proto = e->node}, name, otherwise);
}

static int64_t int_of(const struct expand *e, const char *name, int64_t otherwise)
{
    return onnx_int(&(struct onnx_node){.proto = e->node}, name, otherwise);
}

static char *joined(struct expand *e, char *a, char *b)
{
    char *y = two(e, "Concat", a, b);

    with_int(e, "axis", 0);
    return y;
}

/* --- by element ------------------------------------------------------------------------------- */

static char *scaled_elu(struct expand *e, char *x, float alpha, float scale)
{
    Onnx__AttributeProto *new;
    char *y = one(e, "Elu", x);

    new = attribute(e, "alpha");
    new->has_f = true;
    new->f = alpha;
    return two(e, "Mul", y, real(e, scale));
}

static void expand_selu(struct expand *e)
{
    scaled_elu(e, in(e, 0), float_of(e, "alpha", 1.67326319217681884765625f),
               float_of(e, "gamma", 1.05070102214813232421875f));
}

static void expand_celu(struct expand *e)
{
    const float alpha = float_of(e, "alpha", 1);

    scaled_elu(e, two(e, "Div", in(e, 0), real(e, alpha)), 1, alpha);
}

static void expand_mish(struct expand *e)
{
    two(e, "Mul", in(e, 0), one(e, "Tanh", one(e, "Softplus", in(e, 0))));
}

static void expand_swish(struct expand *e)
{
    char *x = two(e, "Mul", in(e, 0), real(e, float_of(e, "alpha", 1)));

    two(e, "Mul", in(e, 0), one(e, "Sigmoid", x));
}

static void expand_softsign(struct expand *e)
{
    char *x = two(e, "Add", one(e, "Abs", in(e, 0)), real(e, 1));

    two(e, "Div", in(e, 0), x);
}

static void expand_prelu(struct expand *e)
{
    char *above = two(e, "Greater", in(e, 0), real(e, 0)); /* at 0 the gradient is the slope */

    add(e, "Where", above, in(e, 0), two(e, "Mul", in(e, 1), in(e, 0)));
}

static void expand_thresholded(struct expand *e)
{
    char *above = two(e, "Greater", in(e, 0), real(e, float_of(e, "alpha", 1)));

    add(e, "Where", above, in(e, 0), real(e, 0));
}

/* --- sums and norms --------------------------------------------------------------------------- */

static char *reduced(struct expand *e, const char *op, char *x)
{
    char *y = two(e, op, x, in(e, 1));

    with_same(e, true);
    return y;
}

static void expand_l1(struct expand *e)
{
    reduced(e, "ReduceSum", one(e, "Abs", in(e, 0)));
}

static void expand_l2(struct expand *e)
{
    one(e, "Sqrt", reduced(e, "ReduceSum", two(e, "Mul", in(e, 0), in(e, 0))));
}

static void expand_square(struct expand *e)
{
    reduced(e, "ReduceSum", two(e, "Mul", in(e, 0), in(e, 0)));
}

static void expand_min(struct expand *e)
{
    one(e, "Neg", reduced(e, "ReduceMax", one(e, "Neg", in(e, 0))));
}

/* (x - mean) / sqrt(variance + epsilon) over the axes. */
static char *normalised(struct expand *e, char *x, char *axes)
{
    char *apart = two(e, "Sub", x, two(e, "ReduceMean", x, axes));
    char *variance = two(e, "ReduceMean", two(e, "Mul", apart, apart), axes);
    char *root = one(e, "Sqrt", two(e, "Add", variance, real(e, float_of(e, "epsilon", 1e-5f))));

    return two(e, "Div", apart, root);
}

/* y [batch, channels, ...] of x [batch, channels, the rest], with a gain and a bias a channel. */
static void per_channel(struct expand *e, char *x)
{
    char *last = INTEGERS(e, 1);
    char *y = two(e, "Mul", x, two(e, "Unsqueeze", in(e, 1), last));

    y = two(e, "Add", y, two(e, "Unsqueeze", in(e, 2), last));
    two(e, "Reshape", y, one(e, "Shape", in(e, 0)));
}

static void expand_instance_norm(struct expand *e)
{
    per_channel(e,
                normalised(e, two(e, "Reshape", in(e, 0), INTEGERS(e, 0, 0, -1)), INTEGERS(e, -1)));
}

/* Before set 21 gains and biases were those of groups. */
static void expand_group_norm(struct expand *e)
{
    const int64_t groups = int_of(e, "num_groups", 1);
    char *x = two(e, "Reshape", in(e, 0), INTEGERS(e, 0, groups, -1));

    x = normalised(e, x, INTEGERS(e, -1));
    if (e->model->opset >= 21) {
        char *channels = one(e, "Shape", in(e, 1)),
             *shape = two(e, "Concat", INTEGERS(e, 0), channels);

        with_int(e, "axis", 0);
        shape = two(e, "Concat", shape, INTEGERS(e, -1));
        with_int(e, "axis", 0);
        x = two(e, "Reshape", x, shape);
    }
    per_channel(e, x);
}

/* Set 14 has an attribute for it, sets before have more results. PyTorch's newer exporter sets no
   attribute; its program says it. */
static bool trains_statistics(struct expand *e)
{
    const char *text = onnx_program_text(e->model, &(struct onnx_node){.proto = e->node});

    return int_of(e, "training_mode", 0) != 0 || e->node->n_output > 1 ||
           (text != NULL && strstr(text, "_batch_norm_legit_functional") != NULL);
}

/* An initializer that only batch norms read, as a running statistic, is no parameter. */
static void freeze(struct expand *e, const char *name)
{
    const Onnx__GraphProto *graph = e->model->proto->graph;
    const uint32_t value = pst_names_find(&e->model->names, name);
    bool only = value != PST_NONE;

    for (size_t i = 0; i < graph->n_node; i++) {
        const char *op = graph->node[i]->op_type;
        const bool norm = op != NULL && strcmp(op, "BatchNormalization") == 0;

        for (size_t k = 0; k < graph->node[i]->n_input; k++) {
            only = only && ((norm && k > 2) || strcmp(graph->node[i]->input[k], name) != 0);
        }
    }
    if (only) {
        e->model->values[value].buffer = true;
    }
}

/* By running statistics, which are constants. By those of the micro-batch it is an operator. */
static void expand_batch_norm(struct expand *e)
{
    char *last, *part[5], *y;

    if (trains_statistics(e)) {
        return;
    }
    for (uint32_t i = 3; i < 5 && e->model->n_told == 0; i++) {
        freeze(e, in(e, i));
    }
    pst_log_once(PST_LOG_WARN, "onnx",
                 pst_arena_printf(&e->model->arena,
                                  "%s: batch norms use the running statistics, as the file says; "
                                  "to train with those of the micro-batch, export after "
                                  "model.train()",
                                  e->model->path));
    last = INTEGERS(e, 1);
    for (uint32_t i = 1; i < 5; i++) { /* read in this order, as onnx_part_joined expects */
        part[i] = two(e, "Unsqueeze", in(e, i), last);
    }
    y = two(e, "Sub", two(e, "Reshape", in(e, 0), INTEGERS(e, 0, 0, -1)), part[3]);
    y = two(e, "Div", y,
            one(e, "Sqrt", two(e, "Add", part[4], real(e, float_of(e, "epsilon", 1e-5f)))));
    y = two(e, "Add", two(e, "Mul", y, part[1]), part[2]);
    two(e, "Reshape", y, one(e, "Shape", in(e, 0)));
}

/* Over several axes at the end; over one it is an operator. */
static void expand_layer_norm(struct expand *e)
{
    const int64_t axis = int_of(e, "axis", -1);
    int64_t axes[ONNX_RANK];
    char *y;

    if (axis >= -1 || axis < -ONNX_RANK || e->node->n_output != 1) {
        return;
    }
    for (int64_t i = axis; i < 0; i++) {
        axes[i - axis] = i;
    }
    y = two(e, "Mul", normalised(e, in(e, 0), integers(e, (uint32_t)-axis, axes)), in(e, 1));
    if (in(e, 2) != NULL) {
        two(e, "Add", y, in(e, 2));
    }
}

/* --- images ----------------------------------------------------------------------------------- */

static void expand_global_max(struct expand *e)
{
    char *rank = one(e, "Size", one(e, "Shape", in(e, 0)));
    char *axes = INTEGERS(e, 2);

    axes = add(e, "Range", axes, rank, INTEGERS(e, 1));
    two(e, "ReduceMax", in(e, 0), axes);
}

/* Height and width of x, each divided or multiplied by the block. */
static char *sides(struct expand *e, const char *op, int64_t block)
{
    char *size = one(e, "Shape", in(e, 0));

    with_int(e, "start", 2);
    return two(e, op, size, INTEGERS(e, block, block));
}

static char *moved(struct expand *e, char *x, const int64_t *order)
{
    char *y = one(e, "Transpose", x);

    with_ints(e, "perm", 6, order);
    return y;
}

static void expand_depth_to_space(struct expand *e)
{
    const int64_t block = int_of(e, "blocksize", 1);
    const bool crd = onnx_word_is(&(struct onnx_node){.proto = e->node}, "mode", "CRD", false);
    const int64_t dcr_order[] = {0, 3, 4, 1, 5, 2}, crd_order[] = {0, 1, 4, 2, 5, 3};
    char *sizes = sides(e, "Mul", 1);
    char *x =
        joined(e, crd ? INTEGERS(e, 0, -1, block, block) : INTEGERS(e, 0, block, block, -1), sizes);

    x = moved(e, two(e, "Reshape", in(e, 0), x), crd ? crd_order : dcr_order);
    two(e, "Reshape", x, joined(e, INTEGERS(e, 0, -1), sides(e, "Mul", block)));
}

/* Windows over rows: over images of height 1. */
static void expand_rows(struct expand *e)
{
    static const char *const names[5] = {"kernel_shape", "strides", "dilations", "output_padding",
                                         "pads"};
    const struct onnx_node old = {.proto = e->node};
    const bool weights = strncmp(e->node->op_type, "Conv", 4) == 0;
    char *at, *x, *w = NULL;
    uint32_t n;

    if (onnx_ints(&old, "kernel_shape", &n) == NULL || n != 1 || e->node->n_output != 1) {
        return;
    }
    at = INTEGERS(e, 2);
    x = two(e, "Unsqueeze", in(e, 0), at);
    if (weights) {
        w = two(e, "Unsqueeze", in(e, 1), at);
    }
    x = add(e, e->node->op_type, x, w, weights ? in(e, 2) : NULL);
    for (uint32_t i = 0; i < 5; i++) {
        const int64_t *list = onnx_ints(&old, names[i], &n);

        if (list != NULL && n == (i == 4 ? 2u : 1u)) {
            with_ints(e, names[i], 2 * n,
                      i == 4 ? (int64_t[]){0, list[0], 0, list[1]} : (int64_t[]){i < 3, list[0]});
        }
    }
    with_same(e, false);
    two(e, "Squeeze", x, at);
}

/* --- sums of products ------------------------------------------------------------------------- */

/* An operand of Einsum, or what becomes of it: a letter for each axis. */
struct term {
    char *value;
    char axes[ONNX_RANK + 1];
};

static bool has(const char *axes, char axis)
{
    return strchr(axes, axis) != NULL;
}

/* Appends those axes of `from` that are, or are not, in both lists. */
static void append(char *axes, const char *from, const char *a, bool in_a, const char *b, bool in_b)
{
    for (; *from != '\0'; from++) {
        if (has(a, *from) == in_a && has(b, *from) == in_b && !has(axes, *from)) {
            const char one_more[2] = {*from, '\0'};

            strncat(axes, one_more, ONNX_RANK - strlen(axes));
        }
    }
}

/* The operands and the result of an equation of one or two operands, each letter once in each. */
static bool read_equation(const struct expand *e, struct term terms[3])
{
    const Onnx__AttributeProto *equation =
        onnx_attribute(&(struct onnx_node){.proto = e->node}, "equation");
    uint32_t term = 0, n;

    if (equation == NULL || !equation->has_s) {
        return false;
    }
    for (size_t i = 0; i < equation->s.len; i++) {
        const char c = (char)equation->s.data[i];
        struct term *to = &terms[term];

        if (c == '-' && i + 1 < equation->s.len && equation->s.data[i + 1] == '>') {
            if (term + 1 != e->node->n_input) {
                return false;
            }
            term = 2;
            i++;
        } else if (c == ',' && term == 0) {
            term = 1;
        } else if (((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) && !has(to->axes, c) &&
                   (n = (uint32_t)strlen(to->axes)) < ONNX_RANK) {
            to->axes[n] = c;
        } else if (c != ' ') {
            return false;
        }
    }
    for (const char *c = terms[2].axes; *c != '\0'; c++) {
        if (!has(terms[0].axes, *c) && !has(terms[1].axes, *c)) {
            return false;
        }
    }
    return term == 2 && terms[2].axes[0] != '\0';
}

/* In the order of `axes`, summed over those that are not among them. */
static void arrange(struct expand *e, struct term *term, const char *axes)
{
    int64_t summed[ONNX_RANK], order[ONNX_RANK];
    char left[ONNX_RANK + 1] = "";
    uint32_t n = 0;

    for (uint32_t i = 0; term->axes[i] != '\0'; i++) {
        if (!has(axes, term->axes[i])) {
            summed[n++] = i;
        }
    }
    append(left, term->axes, axes, true, axes, true);
    if (n > 0) {
        term->value = two(e, "ReduceSum", term->value, integers(e, n, summed));
        with_int(e, "keepdims", 0);
    }
    n = (uint32_t)strlen(left);
    for (uint32_t i = 0; i < n; i++) {
        order[i] = strchr(left, axes[i]) - left;
    }
    if (strcmp(left, axes) != 0) {
        term->value = one(e, "Transpose", term->value);
        with_ints(e, "perm", n, order);
    }
    strcpy(term->axes, axes);
}

/* Lengths of axes begin ... end - 1 of a value after other lengths; NULL: none of either. */
static char *lengths(struct expand *e, char *before, char *value, size_t begin, size_t end)
{
    char *more;

    if (begin == end) {
        return before;
    }
    more = one(e, "Shape", value);
    with_int(e, "start", (int64_t)begin);
    with_int(e, "end", (int64_t)end);
    return before == NULL ? more : joined(e, before, more);
}

/* Axes begin ... end - 1 of n become one. */
static char *merged(struct expand *e, char *value, size_t begin, size_t end, size_t n)
{
    char *shape;

    if (end - begin == 1) {
        return value;
    }
    if (end == begin) {
        return two(e, "Unsqueeze", value, INTEGERS(e, (int64_t)begin));
    }
    shape = lengths(e, NULL, value, 0, begin);
    shape = shape == NULL ? INTEGERS(e, -1) : joined(e, shape, INTEGERS(e, -1));
    return two(e, "Reshape", value, lengths(e, shape, value, end, n));
}

/* A product of matrices [both..., first, summed] and [both..., summed, second]. Without axes that
   both and the result have, the first matrix keeps its own: one of them may be that of samples. */
static void expand_einsum(struct expand *e)
{
    struct term terms[3] = {{.value = in(e, 0)}, {.value = in(e, 1)}};
    char both[ONNX_RANK + 1] = "", first[ONNX_RANK + 1] = "", second[ONNX_RANK + 1] = "";
    char summed[ONNX_RANK + 1] = "", axes[3 * ONNX_RANK + 1], *a, *b, *shape;
    char y[ONNX_RANK + 1];
    size_t n, m, k, l;

    if (!read_equation(e, terms)) {
        return;
    }
    memcpy(y, terms[2].axes, sizeof y);
    if (e->node->n_input == 1) {
        arrange(e, &terms[0], y);
        if (e->n == 0) {
            one(e, "Identity", terms[0].value);
        }
        return;
    }
    if (!has(terms[0].axes, y[0])) { /* samples come first */
        const struct term other = terms[0];

        terms[0] = terms[1];
        terms[1] = other;
    }
    append(both, y, terms[0].axes, true, terms[1].axes, true);
    append(first, y, terms[0].axes, true, terms[1].axes, false);
    append(second, y, terms[0].axes, false, terms[1].axes, true);
    append(summed, terms[0].axes, terms[1].axes, true, y, false);
    n = strlen(both);
    m = n + strlen(first);
    k = strlen(summed);
    l = strlen(second);
    snprintf(axes, sizeof axes, "%s%s%s", both, first, summed);
    arrange(e, &terms[0], axes);
    snprintf(axes, sizeof axes, "%s%s%s", both, summed, second);
    arrange(e, &terms[1], axes);
    a = merged(e, terms[0].value, m, m + k, m + k);
    a = n > 0 || m == 0 ? merged(e, a, n, m, m + 1) : a;
    b = merged(e, terms[1].value, n + k, n + k + l, n + k + l);
    b = merged(e, b, n, n + k, n + k + 1);
    terms[2].value = two(e, "MatMul", a, b);
    if (l != 1 || ((n > 0 || m == 0) && m - n != 1)) {
        shape = lengths(e, NULL, terms[0].value, 0, m);
        shape = lengths(e, shape, terms[1].value, n + k, n + k + l);
        terms[2].value = two(e, "Reshape", terms[2].value, shape);
    }
    snprintf(axes, sizeof axes, "%s%s%s", both, first, second);
    memcpy(terms[2].axes, axes, sizeof terms[2].axes); /* as many as y has */
    arrange(e, &terms[2], y);
}

/* --- all -------------------------------------------------------------------------------------- */

/* Operator, the oldest version that is read, inputs at least and at most. An expansion that makes
   nothing leaves the node as it is. */
static const struct {
    const char *op;
    uint32_t since, least, most;
    void (*expand)(struct expand *e);
} rows[] = {
    {"AveragePool", 1, 1, 1, expand_rows},
    {"BatchNormalization", 7, 5, 5, expand_batch_norm},
    {"Celu", 12, 1, 1, expand_celu},
    {"Conv", 1, 2, 3, expand_rows},
    {"ConvTranspose", 1, 2, 3, expand_rows},
    {"DepthToSpace", 11, 1, 1, expand_depth_to_space},
    {"Einsum", 12, 1, 2, expand_einsum},
    {"GlobalMaxPool", 1, 1, 1, expand_global_max},
    {"GroupNormalization", 18, 3, 3, expand_group_norm},
    {"InstanceNormalization", 6, 3, 3, expand_instance_norm},
    {"LayerNormalization", 17, 2, 3, expand_layer_norm},
    {"MaxPool", 1, 1, 1, expand_rows},
    {"Mish", 18, 1, 1, expand_mish},
    {"PRelu", 7, 2, 2, expand_prelu},
    {"ReduceL1", 1, 1, 2, expand_l1},
    {"ReduceL2", 1, 1, 2, expand_l2},
    {"ReduceMin", 1, 1, 2, expand_min},
    {"ReduceSumSquare", 1, 1, 2, expand_square},
    {"Selu", 6, 1, 1, expand_selu},
    {"Softsign", 1, 1, 1, expand_softsign},
    {"Swish", 24, 1, 1, expand_swish},
    {"ThresholdedRelu", 10, 1, 1, expand_thresholded},
};

/* Returns true if inputs and output are those of the row; else the node stays, and is refused. */
static bool is_whole(const struct onnx_model *model, const Onnx__NodeProto *node, size_t row)
{
    bool ok = model->opset >= rows[row].since && node->n_input >= rows[row].least &&
              node->n_input <= rows[row].most && node->n_output >= 1 && node->output[0][0] != '\0';

    for (uint32_t i = 0; i < rows[row].least && ok; i++) {
        ok = node->input[i][0] != '\0';
    }
    return ok;
}

void onnx_expand(struct onnx_model *model, Onnx__NodeProto *node, Onnx__NodeProto ***ret_nodes,
                 uint32_t *ret_n)
{
    struct expand e = {.model = model, .node = node};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (node->op_type != NULL && strcmp(node->op_type, rows[i].op) == 0 &&
            (node->domain == NULL || node->domain[0] == '\0' ||
             strcmp(node->domain, "ai.onnx") == 0) &&
            is_whole(model, node, i)) {
            rows[i].expand(&e);
        }
    }
    if (e.n == 0) {
        e.made[e.n++] = node;
    } else { /* the last one makes what the node made */
        e.made[e.n - 1]->output[0] = node->output[0];
    }
    *ret_n = e.n;
    *ret_nodes = pst_arena_array(&model->arena, e.n, sizeof **ret_nodes);
    memcpy(*ret_nodes, e.made, e.n * sizeof *e.made);
}
