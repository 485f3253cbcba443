/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel.h"

#define FAMILY "rmsnorm.inc"
#include "instantiate.h"

const struct pst_reference_family pst_reference_rmsnorm = {PST_REFERENCE_F_B_W(rmsnorm), NULL};
