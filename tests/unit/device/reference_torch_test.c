/* SPDX-License-Identifier: Apache-2.0
 *
 * Results and gradients of every operator against what PyTorch computes from the same operands
 * (recorded in double by scripts/record_torch.py).
 */
#include "reference_fixture.h"

/*
 * Relative to the largest value of a tensor. f64: half a unit of the ninth digit that is recorded,
 * and a little. f32: 24 roundings that all go the same way.
 */
static const double bounds[] = {[PST_F32] = 24.0 / 16777216, [PST_F64] = 5.1e-9};

static uint32_t kind_of(const json_t *json)
{
    const char *name = json_string_value(fixture_get(json, "kind"));
    uint32_t kind = 0;

    while (kind < PST_OP_KINDS && strcmp(pst_op_kind_name(kind), name) != 0) {
        kind++;
    }
    assert_int_not_equal(kind, PST_OP_KINDS);
    return kind;
}

static struct pst_rope read_rope(const json_t *json)
{
    const char *scaling = json_string_value(json_object_get(json, "scaling"));

    return (struct pst_rope){
        .scaling = scaling == NULL                  ? PST_ROPE_NONE
                   : strcmp(scaling, "linear") == 0 ? PST_ROPE_LINEAR
                                                    : PST_ROPE_LLAMA3,
        .theta = (float)json_number_value(json_object_get(json, "theta")),
        .factor = (float)json_number_value(json_object_get(json, "factor")),
        .low_freq_factor = (float)json_number_value(json_object_get(json, "low")),
        .high_freq_factor = (float)json_number_value(json_object_get(json, "high")),
        .context = (uint32_t)json_integer_value(json_object_get(json, "context")),
    };
}

static uint64_t integer_at(const json_t *array, uint32_t i)
{
    return (uint64_t)json_integer_value(json_array_get(array, i));
}

/* Which of the names; those of maps stand in their rows. */
static uint32_t read_map(const json_t *attributes)
{
    const char *name = json_string_value(json_object_get(attributes, "map"));
    uint32_t map = 0;

    while (name != NULL && strcmp(pst_map_row(map)->name, name) != 0) {
        map++;
        assert_non_null(pst_map_row(map));
    }
    return map;
}

/* Valid until the next. */
static const struct pst_form *read_form(const json_t *json)
{
    static struct pst_form form;

    form = (struct pst_form){.rank = (uint32_t)json_array_size(json_object_get(json, "dims"))};
    for (uint32_t i = 0; i < form.rank; i++) {
        form.dims[i] = integer_at(json_object_get(json, "dims"), i);
        form.from[i] = (uint32_t)integer_at(json_object_get(json, "from"), i);
        form.start[i] = (int64_t)integer_at(json_object_get(json, "start"), i);
        form.step[i] = (int64_t)integer_at(json_object_get(json, "step"), i);
    }
    form.fill = (float)json_number_value(json_object_get(json, "fill"));
    return json == NULL ? NULL : &form;
}

static void read_general(const json_t *attributes, struct pst_op *op)
{
    static const char *const reductions[] = {"sum", "mean", "max"};
    const char *reduce = json_string_value(json_object_get(attributes, "reduce"));

    op->map = read_map(attributes);
    for (uint32_t i = 0; reduce != NULL && i < PST_REDUCES; i++) {
        op->reduce = strcmp(reduce, reductions[i]) == 0 ? i : op->reduce;
    }
    op->axis = (uint32_t)json_integer_value(json_object_get(attributes, "axis"));
    op->axes = (uint32_t)json_integer_value(json_object_get(attributes, "axes"));
    op->groups = (uint32_t)json_integer_value(json_object_get(attributes, "groups"));
    op->logarithm = json_is_true(json_object_get(attributes, "logarithm"));
    op->whole = json_is_true(json_object_get(attributes, "whole"));
    op->form = read_form(json_object_get(attributes, "form"));
    for (uint32_t i = 0; i < 2; i++) {
        const json_t *constants = json_object_get(attributes, "constants");

        op->constants[i] = (float)json_number_value(json_array_get(constants, i));
        op->swapped[i] = json_is_true(json_array_get(json_object_get(attributes, "swapped"), i));
        op->dilation[i] = (uint32_t)integer_at(json_object_get(attributes, "dilation"), i);
        op->pad_more[i] = (int32_t)integer_at(json_object_get(attributes, "pad_more"), i);
    }
}

/* Absent attributes are zero. */
static struct pst_op read_op(const json_t *json)
{
    static const char *const acts[] = {"none", "relu", "gelu", "silu"};
    const json_t *attributes = fixture_get(json, "attributes");
    const char *act = json_string_value(json_object_get(attributes, "act"));
    struct pst_op op = {.kind = kind_of(json)};

    op.transposed = json_is_true(json_object_get(attributes, "transposed"));
    op.causal = json_is_true(json_object_get(attributes, "causal"));
    op.heads = (uint32_t)json_integer_value(json_object_get(attributes, "heads"));
    op.kv_heads = (uint32_t)json_integer_value(json_object_get(attributes, "kv_heads"));
    op.window = (uint32_t)json_integer_value(json_object_get(attributes, "window"));
    op.head_dim = (uint32_t)json_integer_value(json_object_get(attributes, "head_dim"));
    op.experts_per_token =
        (uint32_t)json_integer_value(json_object_get(attributes, "experts_per_token"));
    op.normalize = json_is_true(json_object_get(attributes, "normalize"));
    op.capacity = (float)json_number_value(json_object_get(attributes, "capacity"));
    op.aux_loss = (float)json_number_value(json_object_get(attributes, "aux_loss"));
    op.rope = read_rope(json_object_get(attributes, "rope"));
    op.eps = (float)json_number_value(json_object_get(attributes, "eps"));
    op.smoothing = (float)json_number_value(json_object_get(attributes, "smoothing"));
    op.z_loss = (float)json_number_value(json_object_get(attributes, "z_loss"));
    op.momentum = (float)json_number_value(json_object_get(attributes, "momentum"));
    for (uint32_t i = 0; act != NULL && i < 4; i++) {
        op.act = strcmp(act, acts[i]) == 0 ? i : op.act;
    }
    for (uint32_t i = 0; i < 2; i++) {
        const json_t *kernel = json_object_get(attributes, "kernel");
        const json_t *stride = json_object_get(attributes, "stride");
        const json_t *pad = json_object_get(attributes, "pad");

        op.kernel[i] = (uint32_t)json_integer_value(json_array_get(kernel, i));
        op.stride[i] = (uint32_t)json_integer_value(json_array_get(stride, i));
        op.pad[i] = (uint32_t)json_integer_value(json_array_get(pad, i));
    }
    read_general(attributes, &op);
    return op;
}

/* As rig_shapes() reads them. */
static void read_shapes(const json_t *array, char *text, size_t size)
{
    text[0] = '\0';
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *shape = fixture_get(json_array_get(array, i), "shape"), *dim;
        size_t axis;

        snprintf(text + strlen(text), size - strlen(text), "%s", i > 0 ? ", " : "");
        json_array_foreach(shape, axis, dim)
        {
            snprintf(text + strlen(text), size - strlen(text), "%s%lld", axis > 0 ? "x" : "",
                     (long long)json_integer_value(dim));
        }
        if (json_array_size(shape) == 0) {
            snprintf(text + strlen(text), size - strlen(text), "-");
        }
    }
}

static struct rig_case read_case(const json_t *json)
{
    static char in[96], param[96];
    struct rig_case test = {.op = read_op(json), .in = in, .param = param};

    test.name = json_string_value(fixture_get(json, "name"));
    test.samples = (uint32_t)fixture_integer(json, "samples");
    test.integers =
        (uint32_t)json_integer_value(json_object_get(fixture_get(json, "attributes"), "integers"));
    read_shapes(fixture_get(json, "x"), in, sizeof in);
    read_shapes(fixture_get(json, "p"), param, sizeof param);
    test.flags = json_is_false(json_object_get(json, "training")) ? 0 : PST_CALL_TRAINING;
    return test;
}

static void read_operands(struct rig *rig, const json_t *json)
{
    const json_t *state = json_object_get(json, "state_before");

    for (uint32_t i = 0; i < rig->op->n_in; i++) {
        const json_t *x = json_array_get(fixture_get(json, "x"), i);

        fixture_numbers(fixture_get(x, "values"), rig->x[i], rig->n_x[i]);
    }
    for (uint32_t i = 0; i < RIG_PARAMS && rig->p[i] != NULL; i++) {
        const json_t *p = json_array_get(fixture_get(json, "p"), i);

        fixture_numbers(fixture_get(p, "values"), rig->p[i], rig->n_p[i]);
    }
    for (uint32_t i = 0; i < rig->op->n_state; i++) {
        fixture_numbers(json_array_get(state, i), rig->state[i], rig->n_state);
    }
    if (pst_op_is_loss(rig->op->kind)) {
        rig->scale = 1.0f / (float)rig->samples;
    } else {
        rig->scale = (float)json_number_value(json_object_get(json, "scale"));
        fixture_numbers(fixture_get(json, "dy"), rig->dy, rig->n_y[0]);
    }
}

static void compare_results(const struct rig *rig, const json_t *json)
{
    /* A loss's scale is f32 in every graph. */
    const double bound = pst_op_is_loss(rig->op->kind) && rig->dtype == PST_F64
                             ? 1.0 / 16777216
                             : bounds[rig->dtype];

    fixture_compare("y", fixture_get(json, "y"), rig->y[0], rig->n_y[0], bound);
    for (uint32_t i = 0; i < rig->op->n_in; i++) {
        const json_t *dx = json_array_get(fixture_get(json, "dx"), i);

        if (!json_is_null(dx)) {
            fixture_compare("dx", dx, rig->dx[i], rig->n_x[i], bound);
        }
    }
    for (uint32_t i = 0; i < RIG_PARAMS && rig->p[i] != NULL; i++) {
        fixture_compare("dp", json_array_get(fixture_get(json, "dp"), i), rig->dp[i], rig->n_p[i],
                        bound);
    }
    for (uint32_t i = 0; i < rig->op->n_state; i++) {
        fixture_compare("state", json_array_get(fixture_get(json, "state_after"), i), rig->state[i],
                        rig->n_state, bound);
    }
}

static void test_file(void **state)
{
    static const uint32_t dtypes[] = {PST_F32, PST_F64};
    json_t *root = fixture_load(*state);
    const json_t *cases = fixture_get(root, "cases");
    size_t n = json_array_size(cases), c;

    assert_true(n > 0);
    for (c = 0; c < n; c++) {
        const json_t *json = json_array_get(cases, c);
        const struct rig_case test = read_case(json);

        for (uint32_t i = 0; i < 2; i++) {
            struct rig rig;

            print_message("  %s, %s\n", test.name, dtypes[i] == PST_F32 ? "f32" : "f64");
            rig_init(&rig, &test, dtypes[i]);
            read_operands(&rig, json);
            rig_round(&rig, PST_F32); /* nine digits name an f32 */
            rig_run(&rig);
            compare_results(&rig, json);
            rig_finish(&rig);
        }
    }
    json_decref(root);
}

#define FILE_TEST(name)                                                                            \
    {                                                                                              \
        name, test_file, NULL, NULL, (void *)(uintptr_t)name                                       \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILE_TEST("linear"),  FILE_TEST("norm"),    FILE_TEST("attention"),
        FILE_TEST("image"),   FILE_TEST("other"),   FILE_TEST("maps"),
        FILE_TEST("general"), FILE_TEST("decoder"), FILE_TEST("loss"),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
