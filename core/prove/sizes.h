/* SPDX-License-Identifier: Apache-2.0
 *
 * What buffers must hold, from shapes and dtypes. Private to prove.
 */
#ifndef PST_PROVE_SIZES_H
#define PST_PROVE_SIZES_H

#include "prove/internal.h"

/* Bytes of a tensor for some samples; saturates. */
static inline uint64_t pst_check_tensor_bytes(const struct pst_tensor *tensor, uint64_t samples)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(tensor->bytes, tensor->batched ? samples : 1, &bytes)) {
        return UINT64_MAX;
    }
    return bytes;
}

/* Ticks of an instruction: one for each call, and one more where it waits for copies. */
static inline uint32_t pst_check_ticks(const struct pst_program *program, uint32_t instr)
{
    const struct pst_program_instr *list = &program->lists[instr];
    uint32_t ticks = list->n_calls > 0 ? 0 : 1;
    for (uint32_t c = 0; c < list->n_calls; c++) {
        ticks += pst_call_ticks(&program->calls[list->first_call + c]);
    }
    return ticks;
}

#endif
