/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers of guests. At home a micro-batch has two sets: what its F leaves, which dies when EVICT
 * is known to have ended, and what LOAD fills, which its backward passes read. The device that
 * keeps it has one, from when EVICT is posted there until LOAD is known to have ended.
 */
#include <string.h>

#include "plan/program_build.h"

pst_status pst_build_guest_tables(struct pst_builder *b, struct pst_error *err)
{
    b->guests = pst_arena_array(&b->arena, (size_t)b->plan->n_stages + 1, sizeof *b->guests);
    if (b->guests == NULL) {
        return pst_fail_nomem(err);
    }
    for (uint32_t s = 0; s < b->plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &b->plan->stages[s];
        struct pst_build_guests *guests = &b->guests[s];

        if (stage->n_guests == 0) {
            continue;
        }
        guests->values =
            pst_arena_array(&b->arena, (size_t)stage->n_microbatches + 1, sizeof *guests->values);
        if (guests->values == NULL ||
            !pst_plan_guest_tensors(stage, b->graph, &b->arena, &guests->tensors,
                                    &guests->n_tensors)) {
            return pst_fail_nomem(err);
        }
        memset(guests->values, 0xFF, stage->n_microbatches * sizeof *guests->values);
    }
    return PST_OK;
}

/* A buffer for each tensor, one behind the other. */
static void make_values(struct pst_builder *b, uint32_t s, uint32_t j, uint8_t kind)
{
    struct pst_build_guests *guests = &b->guests[s];

    for (uint32_t i = 0; i < guests->n_tensors && !b->failed; i++) {
        const struct pst_tensor *tensor = &b->graph->tensors[guests->tensors[i]];
        uint32_t value = pst_build_value(b, kind, s, j, guests->tensors[i], i,
                                         pst_build_bytes(tensor, pst_build_samples(b, s)));

        guests->values[j] = i == 0 ? value : guests->values[j];
    }
}

void pst_build_guest(struct pst_builder *b, const struct pst_instr *instr)
{
    uint32_t s = instr->stage, j = instr->first_sample / b->plan->stages[s].microbatch_size;
    const struct pst_build_guests *guests = &b->guests[s];
    bool evict = instr->payload == PST_PAYLOAD_EVICT, send = instr->op == PST_I_SEND;
    bool home = evict == send; /* this end of it */

    if (guests->values == NULL || j >= b->plan->stages[s].n_microbatches ||
        home != b->stages[s].local) {
        b->failed = true;
        return;
    }
    if (!send) {
        make_values(b, s, j, home ? PST_V_RETURNED : PST_V_GUEST);
    }
    for (uint32_t i = 0; i < guests->n_tensors && !b->failed; i++) {
        uint32_t value = home && send ? b->stages[s].micros[j].act[guests->tensors[i]]
                         : guests->values[j] == PST_NONE ? PST_NONE
                                                         : guests->values[j] + i;

        pst_build_part(b, value, 0, value == PST_NONE ? 0 : b->program->values[value].bytes);
    }
}

void pst_build_returned(struct pst_builder *b, uint32_t s, uint32_t j)
{
    const struct pst_build_guests *guests = &b->guests[s];

    for (uint32_t i = 0;
         guests->values != NULL && guests->values[j] != PST_NONE && i < guests->n_tensors; i++) {
        b->stages[s].micros[j].act[guests->tensors[i]] = guests->values[j] + i;
    }
}
