/* SPDX-License-Identifier: Apache-2.0
 *
 * An operator with a kink and kernels for f32 alone: y = |x|. Its examples have values near 0 at
 * other elements each. On request dx is wrong.
 */
#include "gallery.h"

#ifndef GALLERY_ID
#define GALLERY_ID "kink"
#endif

struct config {
    double factor;
    const char *file;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, factor, PST_PARAM_FLOAT, "1", NULL, "Of dx, where 1 is right."),
#ifdef GALLERY_PATH
    PST_PARAM(struct config, file, PST_PARAM_PATH, "", NULL, "What no operator can have."),
#endif
};

PST_INSTANCE(kink, struct config)

static pst_status describe(void *self_, const struct pst_operator_question *q,
                           struct pst_operator_row *ret_row)
{
    const struct kink *self = self_;

    if (q->n_x != 1 || q->n_p != 0 || q->dtype != PST_F32 || q->x[0].dtype != PST_F32 ||
        q->x[0].rank != 1) {
        return pst_failf(self->host, PST_ERR_UNSUPPORTED, "it takes one axis of f32");
    }
    ret_row->n_y = 1;
    ret_row->y[0] = q->x[0];
    ret_row->b_reads_x = 1;
    return PST_OK;
}

static void run(const void *self_, const struct pst_operator_call *call)
{
    const struct kink *self = self_;
    const float *x = call->x[0], *dy = call->dy;
    const float factor = (float)self->config->factor;
    float *to = call->pass == PST_OPERATOR_F ? call->y[0] : call->dx[0];

    for (uint64_t i = 0; i < call->samples * call->question->x[0].dims[0]; i++) {
        const float sign = x[i] < 0 ? -1 : 1;

        to[i] = call->pass == PST_OPERATOR_F ? sign * x[i] : sign * factor * dy[i];
    }
}

static const struct pst_operator_kernels cpu = {
    .size = sizeof cpu, .dtypes = 1u << PST_F32, .run = run};

static const struct pst_operator_kernels *kernels(void *self, const char *device)
{
    (void)self;
    return strcmp(device, "cpu") == 0 ? &cpu : NULL;
}

static pst_status example(void *self, uint32_t i, uint32_t dtype,
                          struct pst_operator_example *ret_example)
{
    (void)self;
    if (i >= 40) {
        return PST_ERR_UNSUPPORTED;
    }
    ret_example->n_x = 1;
    ret_example->x[0] = (struct pst_operand){.dtype = dtype, .rank = 1, .dims = {16}};
    ret_example->low = -1 + 0.01 * i;
    ret_example->high = 1 + 0.01 * i;
    return PST_OK;
}

PST_INTERFACE(PST_OPERATOR, struct pst_operator, .describe = describe, .kernels = kernels,
              .example = example)

GALLERY_PLUGIN("operator", GALLERY_ID, "1.0", "Magnitudes.",
               PST_PLUGIN_PARAMS(params, struct config), NULL)
