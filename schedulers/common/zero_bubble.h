/* SPDX-License-Identifier: Apache-2.0
 *
 * The hand-made zero-bubble orders of one stage per device, H1 and H2, which differ in how far
 * forwards run ahead. Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024.
 */
#ifndef SCHEDULERS_COMMON_ZERO_BUBBLE_H
#define SCHEDULERS_COMMON_ZERO_BUBBLE_H

#include "fixed.h"

/* fixed_rules.deal: device d runs min(ahead * (p - 1 - d), m) forwards first, .ahead of the rules.
 */
void zero_bubble_deal(struct fixed_hand *hand);
/* With in_flight besides what fixed_scheduler has. */
const void *zero_bubble_get_interface(const char *id);

#endif
