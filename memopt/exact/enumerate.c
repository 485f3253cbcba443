/* SPDX-License-Identifier: Apache-2.0 */
#include "methods.h"

/* Returns true if the plan with all undecided nodes kept is too long: no plan that continues it is
   shorter. */
static bool is_too_long(const struct mem_oracle *oracle)
{
    return mem_tally_period(oracle->tally) > oracle->score.period_ns;
}

static void letters_from(struct mem_oracle *oracle, uint32_t v)
{
    uint8_t action;

    if (!mem_oracle_step(oracle) || is_too_long(oracle)) {
        return;
    }
    if (v == oracle->costs->n) {
        mem_oracle_note(oracle);
        return;
    }
    for (action = 0; action <= PST_ACTION_OFFLOAD; action++) {
        if ((oracle->costs->may[v] >> action & 1) != 0) {
            mem_tally_set(oracle->tally, v, action);
            letters_from(oracle, v + 1);
        }
    }
    mem_tally_set(oracle->tally, v, oracle->costs->first[v]);
}

void oracle_enumerate(struct mem_oracle *oracle)
{
    letters_from(oracle, 0);
}
