/* SPDX-License-Identifier: Apache-2.0 */
#include "window.h"

/* F: sums of one pixel. B: sums of one sample. */
static uint64_t conv_workspace(const struct pst_reference *reference)
{
    switch (reference->pass) {
    case PST_KERNEL_F:
        return reference_columns(reference_out(reference));
    case PST_KERNEL_B:
        return reference_in(reference, 0)->elems;
    default:
        return 0;
    }
}

#define FAMILY "conv.inc"
#include "instantiate.h"

const struct pst_reference_family pst_reference_conv2d = {PST_REFERENCE_F_B_W(conv2d),
                                                          conv_workspace};
