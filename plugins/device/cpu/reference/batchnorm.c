/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel.h"

#define FAMILY "batchnorm.inc"
#include "instantiate.h"

const struct pst_reference_family pst_reference_batchnorm = {PST_REFERENCE_F_B_W(batchnorm), NULL};
