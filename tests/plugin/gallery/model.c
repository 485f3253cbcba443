/* SPDX-License-Identifier: Apache-2.0
 *
 * A model that does one thing wrong, on request.
 */
#include <stdlib.h>

#include "gallery.h"

/* In the order of the words in its row. */
enum fault {
    NONE,
    SHAPE,
    KIND,
    HUGE_DIMS,
    RANK,
    NO_DIMS,
    USED_TWICE,
    NO_TENSOR,
    NO_LOSS,
    TWO_LOSSES,
    READS_LOSS,
    NO_TARGET,
    TWO_TARGETS,
    FIELD,
    DTYPE,
    OP_TWICE,
    PARAMETER_TWICE,
    LONG_NAME,
    CONTROL_NAME,
    EMPTY_NAME,
    NO_NAME,
    NO_OP,
    UNREAD,
    UNUSED,
    NO_PARAMETERS,
    NOT_FINITE,
    INIT,
    MANY_INPUTS,
    NULL_INPUTS,
    AXIS,
    CONSTANT,
    STRIDED,
    FORM,
    STATUS,
    REFUSES,
    MUTE,
    HEEDLESS,
    CRASH,
    EXIT,
    LOOP,
};

struct config {
    uint32_t fault;
    int64_t width;
};

static const struct pst_param params[] = {
    PST_PARAM(
        struct config, fault, PST_PARAM_ENUM, "none",
        "none|shape|kind|huge|rank|no-dims|used-twice|no-tensor|no-loss|two-losses|"
        "reads-loss|no-target|two-targets|field|dtype|op-twice|parameter-twice|long-name|"
        "control-name|empty-name|no-name|no-op|unread|unused|no-parameters|not-finite|init|"
        "many-inputs|null-inputs|axis|constant|strided|form|status|refuses|mute|heedless|crash|"
        "exit|loop",
        "What it does wrong."),
    PST_PARAM(struct config, width, PST_PARAM_INT, "6", "1..64", "Numbers between the layers."),
};

PST_INSTANCE(rude, struct config)

static uint32_t parameter(struct pst_builder *b, const char *name, uint32_t rank,
                          const uint64_t *dims)
{
    return pst_nn_parameter(b, name, "weight", rank, dims, PST_INIT_NORMAL, 0.1f);
}

static void do_name(struct pst_builder *b, uint32_t fault, uint32_t x)
{
    char name[10001];

    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    pst_nn_act(b,
               fault == LONG_NAME      ? name
               : fault == CONTROL_NAME ? "a\033[2Jb"
               : fault == EMPTY_NAME   ? ""
                                       : NULL,
               x, PST_ACT_RELU);
}

static void do_op(struct pst_builder *b, uint32_t fault, uint32_t x)
{
    static const uint64_t nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, wrong[2] = {5, 6};
    static const uint64_t huge[2] = {(uint64_t)1 << 63, 6};
    static const int64_t far[1] = {INT64_MIN};
    static const uint32_t from[1] = {7};
    struct pst_op_decl op = pst_nn_decl(PST_OP_LINEAR, "odd", 1, &x, 0, NULL);
    uint32_t p[2] = {PST_NONE, PST_NONE}, many[65];

    for (uint32_t i = 0; i < 65; i++) {
        many[i] = x;
    }
    op.param = p;
    op.n_param = 1;
    if (fault == SHAPE) {
        p[0] = parameter(b, "odd", 2, wrong);
    } else if (fault == HUGE_DIMS || fault == RANK || fault == NO_DIMS) {
        p[0] = parameter(b, "odd", fault == RANK ? 9 : 2,
                         fault == RANK        ? nine
                         : fault == HUGE_DIMS ? huge
                                              : NULL);
    } else if (fault == USED_TWICE) {
        op.kind = PST_OP_LAYERNORM;
        op.eps = 1e-5f;
        op.n_param = 2;
        p[0] = p[1] = parameter(b, "odd", 1, (const uint64_t[]){pst_nn_dim(b, x, 0)});
    } else {
        op.n_param = 0;
        op.kind = fault == KIND         ? 4000000000u
                  : fault == NOT_FINITE ? (uint32_t)PST_OP_ADD
                  : fault == CONSTANT   ? (uint32_t)PST_OP_CONSTANT
                  : fault == STRIDED    ? (uint32_t)PST_OP_STRIDED
                                        : (uint32_t)PST_OP_CONCAT;
        op.p = fault == NOT_FINITE ? (float)(0.0 * strtod("inf", NULL)) : 0;
        op.axis = fault == AXIS ? UINT32_MAX : 0;
        op.n_in = fault == MANY_INPUTS ? 65 : fault == CONSTANT ? 0 : 1;
        op.in = fault == NULL_INPUTS ? NULL : fault == NO_TENSOR ? &from[0] : many;
    }
    if (fault == CONSTANT || fault == STRIDED || fault == FORM) {
        op.rank = fault == CONSTANT ? 2 : 1;
        op.dims = fault == CONSTANT ? huge : nine;
    }
    op.data = fault == CONSTANT ? nine : NULL;
    op.from = fault == STRIDED ? from : NULL;
    op.start = op.step = fault == STRIDED ? far : NULL;
    b->op(b, &op);
}

/* Beside a whole model. */
static void do_more(struct pst_builder *b, uint32_t fault, uint32_t x, uint32_t targets,
                    uint32_t loss)
{
    static const uint64_t four[1] = {4};
    struct pst_parameter_decl p = {.size = sizeof p, .init = 77, .name = "p", .value = 1};

    switch (fault) {
    case TWO_LOSSES:
        pst_nn_loss(b, PST_OP_CROSS_ENTROPY, x, targets);
        return;
    case READS_LOSS:
        pst_nn_map(b, "odd", PST_MAP_AFFINE, loss, 2, 0);
        return;
    case TWO_TARGETS:
        pst_nn_input(b, "more", PST_FIELD_TARGET, PST_I32, 1, four);
        return;
    case FIELD:
        pst_nn_input(b, "more", 77, PST_I32, 1, four);
        return;
    case DTYPE:
        pst_nn_input(b, "more", PST_FIELD_X, PST_F64, 1, four);
        return;
    case UNUSED:
        parameter(b, "odd", 1, four);
        return;
    case NO_OP:
        b->op(b, NULL);
        return;
    case UNREAD:
        pst_nn_act(b, "odd", x, PST_ACT_RELU);
        return;
    case INIT:
        b->parameter(b, &p);
        return;
    case LONG_NAME:
    case CONTROL_NAME:
    case EMPTY_NAME:
    case NO_NAME:
        do_name(b, fault, x);
        return;
    default:
        do_op(b, fault, x);
    }
}

/* fc2, with a weight that is called like fc1's. */
static uint32_t last_of(struct pst_builder *b, uint32_t x)
{
    const uint64_t dims[2] = {pst_nn_dim(b, x, 0), 8};
    uint32_t p = parameter(b, "fc1", 2, dims);
    struct pst_op_decl op = pst_nn_decl(PST_OP_LINEAR, "fc2", 1, &x, 1, &p);

    return b->op(b, &op);
}

static pst_status build(void *self_, struct pst_builder *b)
{
    static const uint64_t eight[1] = {8};
    const struct rude *self = self_;
    const uint32_t fault = self->config->fault;
    uint32_t x, y, targets, loss;
    volatile bool forever = fault == LOOP;

    if (fault == CRASH) {
        *(volatile int *)(uintptr_t)(self->config->width) = 1;
    }
    if (fault == EXIT) {
        exit(0);
    }
    while (forever) {
    }
    if (fault == STATUS || fault == MUTE) {
        return fault == STATUS ? 77 : PST_ERR_CONFIG;
    }
    if (fault == REFUSES) {
        return pst_failf(self->host, PST_ERR_CONFIG, "a width of %d is for others",
                         (int)self->config->width);
    }
    x = pst_nn_input(b, "x", PST_FIELD_X, b->dtype, 1, eight);
    targets = fault == NO_TARGET ? PST_NONE
                                 : pst_nn_input(b, "targets", PST_FIELD_TARGET, b->dtype, 1, eight);
    if (fault == NO_PARAMETERS) {
        y = pst_nn_map(b, "odd", PST_MAP_AFFINE, x, 2, 0);
    } else {
        y = pst_nn_linear(b, "fc1", x, (uint64_t)self->config->width, 0.1f, true);
        y = pst_nn_act(b, "act", y, PST_ACT_RELU);
        b->layer(b);
        y = fault == PARAMETER_TWICE
                ? last_of(b, y)
                : pst_nn_linear(b, fault == OP_TWICE ? "fc1" : "fc2", y, 8, 0.1f, false);
    }
    loss = fault == NO_LOSS ? PST_NONE : pst_nn_loss(b, PST_OP_MSE, y, targets);
    if (fault == NO_TARGET) {
        return PST_OK;
    }
    if (fault != NONE && fault != NO_LOSS && fault != NO_PARAMETERS && fault != OP_TWICE &&
        fault != PARAMETER_TWICE) {
        do_more(b, fault == HEEDLESS ? SHAPE : fault, y, targets, loss);
    }
    /* What it returns does not matter any more. */
    return fault == HEEDLESS ? PST_ERR_NOMEM : PST_OK;
}

PST_INTERFACE(PST_MODEL, struct pst_model_interface, .build = build)

GALLERY_PLUGIN("model", "rude", "1.0", "Does one thing wrong.",
               PST_PLUGIN_PARAMS(params, struct config), NULL)
