/* SPDX-License-Identifier: Apache-2.0
 *
 * A scheduler's answer to a question of numbers, taken in and copied.
 */
#include <string.h>

#include "host/call.h"
#include "planner/emission.h"
#include "planner/solo.h"
#include "planner/state.h"

/* One part's lists. */
static pst_status copy_part(struct pst_arena *arena, uint32_t n_devices,
                            struct pst_pass *const *passes, const uint32_t *n_passes,
                            struct pst_pass ***ret_passes, uint32_t **ret_n)
{
    struct pst_pass **lists = pst_arena_array(arena, n_devices, sizeof *lists);
    uint32_t *n = pst_arena_array(arena, n_devices, sizeof *n);

    if (lists == NULL || n == NULL) {
        return PST_ERR_NOMEM;
    }
    for (uint32_t d = 0; d < n_devices; d++) {
        n[d] = n_passes[d];
        lists[d] = pst_arena_array(arena, n[d], sizeof **lists);
        if (lists[d] == NULL) {
            return PST_ERR_NOMEM;
        }
        if (n[d] > 0) {
            memcpy(lists[d], passes[d], n[d] * sizeof **lists);
        }
    }
    *ret_passes = lists;
    *ret_n = n;
    return PST_OK;
}

pst_status pst_solo_answer_take(const struct pst_emission *emission,
                                const struct pst_claimed *claim, struct pst_solo_answer *ret_answer,
                                struct pst_error *err)
{
    struct pst_solo_answer *answer = ret_answer;

    answer->n_devices = emission->in->n_devices;
    answer->split = emission->split;
    answer->claimed = claim->size != 0;
    answer->claim = *claim;
    answer->asynchronous = emission->asynchronous;
    for (uint32_t part = 0; part < PST_PARTS; part++) {
        if ((emission->asynchronous || part == PST_BODY) &&
            copy_part(&answer->arena, answer->n_devices, emission->parts[part],
                      emission->n_parts[part], &answer->passes[part],
                      &answer->n_passes[part]) != PST_OK) {
            return pst_fail_nomem(err);
        }
    }
    return PST_OK;
}

pst_status pst_emission_ask(struct pst_emission *emission, struct pst_instance *scheduler,
                            const struct pst_schedule_in *in, struct pst_error *err)
{
    pst_status st = pst_emission_init(emission, in);

    if (st != PST_OK) {
        return pst_fail_nomem(err);
    }
    memset(&scheduler->claim, 0, sizeof scheduler->claim);
    st = pst_call_schedule(scheduler, in, &emission->out);
    if (emission->no_memory) {
        return pst_fail_nomem(err);
    }
    if (emission->fault[0] == '\0' && st == PST_OK && !pst_emission_complete(emission) &&
        emission->no_memory) {
        return pst_fail_nomem(err);
    }
    if (emission->fault[0] != '\0') {
        return pst_planner_illegal(err, scheduler, "%s", emission->fault);
    }
    return st == PST_OK ? st : pst_instance_fail(scheduler, st, "schedule", err);
}

pst_status pst_solo_schedule(struct pst_instance *scheduler, const struct pst_schedule_in *in,
                             struct pst_solo_answer *ret_answer, struct pst_error *err)
{
    struct pst_solo_answer answer = {.n_devices = 0};
    struct pst_emission emission = {.in = NULL};
    pst_status st = pst_emission_ask(&emission, scheduler, in, err);

    if (st == PST_OK) {
        st = pst_solo_answer_take(&emission, &scheduler->claim, &answer, err);
    }
    if (st == PST_OK) {
        *ret_answer = answer;
        memset(&answer, 0, sizeof answer);
    }
    pst_solo_answer_finish(&answer);
    pst_emission_finish(&emission);
    return st;
}

void pst_solo_answer_finish(struct pst_solo_answer *answer)
{
    pst_arena_finish(&answer->arena);
    memset(answer, 0, sizeof *answer);
}
