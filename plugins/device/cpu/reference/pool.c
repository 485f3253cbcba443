/* SPDX-License-Identifier: Apache-2.0 */
#include "window.h"

/* B: sums of one sample. */
static uint64_t pool_workspace(const struct pst_reference *reference)
{
    return reference->pass == PST_KERNEL_B ? reference_in(reference, 0)->elems : 0;
}

#define FAMILY "pool.inc"
#include "instantiate.h"

const struct pst_reference_family pst_reference_maxpool2d = {PST_REFERENCE_F_B(maxpool2d),
                                                             pool_workspace};
const struct pst_reference_family pst_reference_avgpool = {PST_REFERENCE_F_B(avgpool), NULL};
const struct pst_reference_family pst_reference_avgpool2d = {PST_REFERENCE_F_B(avgpool2d),
                                                             pool_workspace};
const struct pst_reference_family pst_reference_shift2d = {PST_REFERENCE_F_B(shift2d), NULL};
