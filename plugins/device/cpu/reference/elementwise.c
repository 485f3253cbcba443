/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel.h"

#define FAMILY "elementwise.inc"
#include "instantiate.h"

const struct pst_reference_family pst_reference_add = {PST_REFERENCE_F_B(add), NULL};
const struct pst_reference_family pst_reference_dropout = {PST_REFERENCE_F_B(dropout), NULL};
const struct pst_reference_family pst_reference_act = {PST_REFERENCE_F_B(act), NULL};
const struct pst_reference_family pst_reference_concat = {PST_REFERENCE_F_B(concat), NULL};
