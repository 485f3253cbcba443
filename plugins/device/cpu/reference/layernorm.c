/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel.h"

#define FAMILY "layernorm.inc"
#include "instantiate.h"

const struct pst_reference_family pst_reference_layernorm = {PST_REFERENCE_F_B_W(layernorm), NULL};
