/* SPDX-License-Identifier: Apache-2.0
 *
 * What buffers must hold, from shapes and dtypes. Private to plan/check.
 */
#ifndef PST_PLAN_CHECK_SIZES_H
#define PST_PLAN_CHECK_SIZES_H

#include "plan/check/internal.h"

/* Bytes of a tensor for some samples; saturates. */
static inline uint64_t pst_check_tensor_bytes(const struct pst_tensor *tensor, uint64_t samples)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(tensor->bytes, tensor->batched ? samples : 1, &bytes)) {
        return UINT64_MAX;
    }
    return bytes;
}

/* The least that a value must hold by its kind. */
uint64_t pst_check_value_bytes(const struct pst_check *check, const struct pst_value *value);

#endif
