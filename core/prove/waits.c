/* SPDX-License-Identifier: Apache-2.0
 *
 * When a rank knows that a transfer or reduction has ended: at the first instruction that waits for
 * it, because the list stays there until it has. Nothing is inferred from the order of a queue,
 * because transfers to different peers may overtake each other.
 */
#include "prove/internal.h"

#include <string.h>

void pst_check_waits(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    uint64_t total = check->list_base[plan->n_devices];
    check->known = pst_check_array(check, total + 1, sizeof(uint32_t));
    memset(check->known, 0xFF, total * sizeof(uint32_t));
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        uint32_t *known = &check->known[check->list_base[d]];
        for (uint32_t i = 0; i < plan->devices[d].n_instrs; i++) {
            const struct pst_instr *instr = &plan->devices[d].body[i];
            for (uint32_t w = 0; w < instr->n_waits; w++) {
                if (known[instr->waits[w]] == PST_NONE) {
                    known[instr->waits[w]] = i;
                }
            }
        }
    }
}
