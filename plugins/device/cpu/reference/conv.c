/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel.h"

/* F: sums of one pixel. B: sums of one sample. */
static uint64_t conv_workspace(const struct pst_op_request *request)
{
    switch (request->pass) {
    case PST_KERNEL_F:
        return request_columns(request_out(request));
    case PST_KERNEL_B:
        return request_in(request, 0)->elems;
    default:
        return 0;
    }
}

#define FAMILY "conv.inc"
#include "instantiate.h"

const struct pst_reference_family pst_reference_conv2d = {PST_REFERENCE_F_B_W(conv2d),
                                                          conv_workspace};
