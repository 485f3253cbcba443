/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel.h"

struct linear_shape {
    uint64_t n_rows, n_in, n_out;
};

static struct linear_shape linear_shape(const struct pst_op_request *request)
{
    const struct pst_tensor *x = request_in(request, 0), *y = request_out(request);
    struct linear_shape shape;

    shape.n_rows = request_rows(request, x);
    shape.n_in = request_columns(x);
    shape.n_out = request_columns(y);
    return shape;
}

/* One row of sums. */
static uint64_t linear_workspace(const struct pst_op_request *request)
{
    const struct linear_shape shape = linear_shape(request);

    switch (request->pass) {
    case PST_KERNEL_F:
        return shape.n_out;
    case PST_KERNEL_B:
        return shape.n_in;
    default:
        return 0;
    }
}

#define FAMILY "linear.inc"
#include "instantiate.h"

const struct pst_reference_family pst_reference_linear = {PST_REFERENCE_F_B_W(linear),
                                                          linear_workspace};
