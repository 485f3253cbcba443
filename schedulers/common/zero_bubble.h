/* SPDX-License-Identifier: Apache-2.0
 *
 * The hand-made zero-bubble orders of one stage per device, H1 and H2, which differ in how far
 * forwards run ahead. Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024.
 */
#ifndef SCHEDULERS_COMMON_ZERO_BUBBLE_H
#define SCHEDULERS_COMMON_ZERO_BUBBLE_H

#include "fixed.h"

/* Device d runs min(ahead * (p - 1 - d), m) forwards first. */
pst_status zero_bubble_build(const struct fixed_question *question, uint32_t ahead,
                             struct order *order);
/* What every device holds at most: min(m, ahead * (p - 1) + 1). */
uint32_t zero_bubble_held(const struct pst_place *place, uint32_t ahead);

#endif
