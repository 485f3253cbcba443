/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel.h"

/* Elements of the window of result pixel i of the micro-batch that are no padding. */
static uint64_t window_counted(const struct window_shape *shape, uint64_t i)
{
    const struct pst_window *w = &shape->w;

    return pst_window_inside(w, 0, i / w->out[1] % w->out[0]) *
           pst_window_inside(w, 1, i % w->out[1]);
}

/* B: sums of one sample. */
static uint64_t pool_workspace(const struct pst_op_request *request)
{
    return request->pass == PST_KERNEL_B ? request_in(request, 0)->elems : 0;
}

#define FAMILY "pool.inc"
#include "instantiate.h"

const struct pst_reference_family pst_reference_maxpool2d = {PST_REFERENCE_F_B(maxpool2d),
                                                             pool_workspace};
const struct pst_reference_family pst_reference_avgpool = {PST_REFERENCE_F_B(avgpool), NULL};
const struct pst_reference_family pst_reference_avgpool2d = {PST_REFERENCE_F_B(avgpool2d),
                                                             pool_workspace};
const struct pst_reference_family pst_reference_shift2d = {PST_REFERENCE_F_B(shift2d), NULL};
