/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel.h"

static bool norm_is_rms(const struct pst_op_request *request)
{
    return request->op->kind == PST_OP_RMSNORM;
}

#define FAMILY "layernorm.inc"
#include "instantiate.h"

const struct pst_reference_family pst_reference_layernorm = {PST_REFERENCE_F_B_W(norm), NULL};
