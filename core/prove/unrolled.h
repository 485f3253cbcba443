/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to prove.
 */
#ifndef PST_PROVE_UNROLLED_H
#define PST_PROVE_UNROLLED_H

#include "prove/internal.h"

/*
 * The program of check->source, which is of good form, for the batches that check->plan has
 * unrolled, the first of them in this phase. False: a violation was added.
 * free() its values; everything else is in the arena of the check.
 */
bool pst_check_unroll_program(struct pst_check *check, const struct pst_program *program,
                              uint32_t phase, struct pst_program *ret_program);

#endif
