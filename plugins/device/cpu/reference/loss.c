/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel.h"

struct loss_shape {
    uint64_t n_rows, n_classes; /* per sample */
};

static struct loss_shape loss_shape(const struct pst_op_request *request)
{
    const struct pst_tensor *logits = request_in(request, 0);
    struct loss_shape shape;

    shape.n_classes = request_columns(logits);
    shape.n_rows = logits->elems / shape.n_classes;
    return shape;
}

/* Rows of a sample that are not ignored. */
static uint64_t loss_counted(const struct loss_shape *shape, const int32_t *targets)
{
    uint64_t counted = 0, r;

    for (r = 0; r < shape->n_rows; r++) {
        counted += targets[r] >= 0;
    }
    return counted;
}

/* Numbers of a sample. */
static uint64_t mse_elems(const struct pst_op_request *request)
{
    return request_in(request, 0)->elems;
}

#define FAMILY "loss.inc"
#include "instantiate.h"

const struct pst_reference_family pst_reference_cross_entropy = {PST_REFERENCE_F_B(cross_entropy),
                                                                 NULL};
const struct pst_reference_family pst_reference_mse = {PST_REFERENCE_F_B(mse), NULL};
