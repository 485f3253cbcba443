/* SPDX-License-Identifier: Apache-2.0
 *
 * PASS4, PART4 (one reduction), COMM3: gradients are reduced once, after the last pass that adds to
 * them, the norm sees all of them, and the update follows the norm. Reductions of a rank run in
 * list order, so order in the list is enough among them.
 */
#include "plan/check/internal.h"

#include <string.h>

/* What one list does about the end of a step. */
struct ending {
    uint32_t *reduce, *step; /* [stage] instruction, PST_NONE */
    uint32_t *last_w;        /* [stage] last pass that adds to its gradients */
    uint32_t *tie;           /* [tie] */
    uint32_t *member;        /* [tie] rank + 1 where the entered rank is a member */
    bool *has_params;        /* [stage] the same for all lists */
    uint32_t norm;
};

static void find_params(const struct pst_check *check, bool *has_params)
{
    for (uint32_t p = 0; p < check->graph->n_params; p++) {
        const struct pst_parameter *parameter = &check->graph->params[p];
        for (uint32_t u = 0; u < parameter->n_users; u++) {
            has_params[check->stage_of[parameter->users[u]]] = true;
        }
    }
}

static void note_once(struct pst_check *check, const char *rule, uint32_t rank, uint32_t at,
                      uint32_t *place)
{
    char text[64];
    if (*place != PST_NONE) {
        pst_check_add(check, rule, rank, at, "%s is there twice, first at %u",
                      pst_check_describe(&check->plan->devices[rank].body[at], text), *place);
        return;
    }
    *place = at;
}

static void read_list(struct pst_check *check, uint32_t rank, struct ending *ending)
{
    const struct pst_plan_device *device = &check->plan->devices[rank];
    char text[64];
    ending->norm = PST_NONE;
    for (uint32_t i = 0; i < device->n_instrs; i++) {
        const struct pst_instr *instr = &device->body[i];
        bool of_stage = instr->op == PST_I_REDUCE || instr->op == PST_I_STEP;
        if (of_stage && check->place[instr->stage] == PST_NONE) {
            pst_check_add(check, "PASS4", rank, i, "%s: the stage does not sit on this device",
                          pst_check_describe(instr, text));
        } else if (of_stage) {
            uint32_t *places = instr->op == PST_I_REDUCE ? ending->reduce : ending->step;
            note_once(check, "PASS4", rank, i, &places[instr->stage]);
        } else if (instr->op == PST_I_TIE) {
            note_once(check, "PART4", rank, i, &ending->tie[instr->stage]);
        } else if (instr->op == PST_I_NORM) {
            note_once(check, "COMM3", rank, i, &ending->norm);
        } else if (instr->op == PST_I_W || instr->op == PST_I_BW) {
            ending->last_w[instr->stage] = i;
        }
    }
}

static void check_norm(struct pst_check *check, uint32_t rank, const struct ending *ending)
{
    const struct pst_plan_device *device = &check->plan->devices[rank];
    char text[64];
    if (ending->norm == PST_NONE) {
        pst_check_add(check, "COMM3", rank, PST_NONE,
                      "no NORM; every device takes part in it once a step");
        return;
    }
    for (uint32_t i = ending->norm + 1; i < device->n_instrs; i++) {
        const struct pst_instr *instr = &device->body[i];
        if (instr->op == PST_I_REDUCE || instr->op == PST_I_TIE) {
            pst_check_add(check, "COMM3", rank, i, "%s after NORM at %u, which must see it",
                          pst_check_describe(instr, text), ending->norm);
        }
    }
}

static void check_stage(struct pst_check *check, uint32_t rank, uint32_t stage,
                        const struct ending *ending)
{
    uint32_t reduce = ending->reduce[stage], step = ending->step[stage];
    uint32_t last_w = ending->last_w[stage];
    bool params = ending->has_params[stage];
    if (params && reduce == PST_NONE) {
        pst_check_add(check, "PASS4", rank, PST_NONE, "stage %u: no REDUCE, expected one", stage);
    }
    if (params && step == PST_NONE) {
        pst_check_add(check, "PASS4", rank, PST_NONE, "stage %u: no STEP, expected one", stage);
    }
    if (reduce != PST_NONE && last_w != PST_NONE && reduce < last_w) {
        pst_check_add(check, "PASS4", rank, reduce,
                      "REDUCE %u before the pass at %u that adds to its gradients", stage, last_w);
    }
    if (step != PST_NONE && ending->norm != PST_NONE) {
        uint32_t known = check->known[check->list_base[rank] + ending->norm];
        if (step < ending->norm || known == PST_NONE || known > step) {
            pst_check_add(check, "PASS4", rank, step, "STEP %u does not wait for NORM at %u", stage,
                          ending->norm);
        }
    }
}

/* PART4: each member rank takes part once, after the REDUCE of its member stages. */
static void check_ties(struct pst_check *check, uint32_t rank, const struct ending *ending,
                       const uint32_t *tie_first, const uint32_t *stage_ties)
{
    for (uint32_t i = check->rank_first[rank]; i < check->rank_first[rank + 1]; i++) {
        uint32_t stage = check->rank_stages[i];
        for (uint32_t k = tie_first[stage]; k < tie_first[stage + 1]; k++) {
            uint32_t tie = stage_ties[k], at = ending->tie[tie];
            ending->member[tie] = rank + 1;
            if (at == PST_NONE) {
                pst_check_add(check, "PART4", rank, PST_NONE,
                              "no TIE %u, though stage %u is a member", tie, stage);
            } else if (ending->reduce[stage] != PST_NONE && at < ending->reduce[stage]) {
                pst_check_add(check, "PART4", rank, at, "TIE %u before REDUCE %u at %u", tie, stage,
                              ending->reduce[stage]);
            }
        }
    }
}

/* A TIE on a rank without a member. */
static void check_strangers(struct pst_check *check, uint32_t rank, const struct ending *ending)
{
    const struct pst_plan_device *device = &check->plan->devices[rank];
    for (uint32_t i = 0; i < device->n_instrs; i++) {
        uint32_t tie = device->body[i].stage;
        if (device->body[i].op == PST_I_TIE && ending->member[tie] != rank + 1) {
            pst_check_add(check, "PART4", rank, i, "TIE %u: no member stage sits on this device",
                          tie);
        }
    }
}

static void reset(const struct pst_check *check, uint32_t rank, struct ending *ending)
{
    for (uint32_t i = check->rank_first[rank]; i < check->rank_first[rank + 1]; i++) {
        uint32_t stage = check->rank_stages[i];
        ending->reduce[stage] = ending->step[stage] = ending->last_w[stage] = PST_NONE;
    }
    const struct pst_plan_device *device = &check->plan->devices[rank];
    for (uint32_t i = 0; i < device->n_instrs; i++) {
        if (device->body[i].op == PST_I_TIE) {
            ending->tie[device->body[i].stage] = PST_NONE;
        }
    }
}

/* Ties by member stage: rows [ret_first[s], ret_first[s + 1]) of *ret_ties. */
static bool index_ties(struct pst_check *check, uint32_t **ret_first, uint32_t **ret_ties)
{
    const struct pst_plan *plan = check->plan;
    uint32_t *first = pst_check_array(check, (uint64_t)plan->n_stages + 2, sizeof *first);
    uint64_t total = 0;
    for (uint32_t t = 0; t < plan->n_ties; t++) {
        total += plan->ties[t].n_stages;
    }
    uint32_t *ties = pst_check_array(check, total + 1, sizeof *ties);
    if (first == NULL || ties == NULL) {
        return false;
    }
    for (uint32_t t = 0; t < plan->n_ties; t++) {
        for (uint32_t s = 0; s < plan->ties[t].n_stages; s++) {
            first[plan->ties[t].stages[s] + 2]++;
        }
    }
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        first[s + 2] += first[s + 1];
    }
    for (uint32_t t = 0; t < plan->n_ties; t++) {
        for (uint32_t s = 0; s < plan->ties[t].n_stages; s++) {
            ties[first[plan->ties[t].stages[s] + 1]++] = t;
        }
    }
    *ret_first = first;
    *ret_ties = ties;
    return true;
}

/* Forward-only lists have nothing to reduce. */
static void check_nothing(struct pst_check *check, uint32_t rank)
{
    const struct pst_plan_device *device = &check->plan->devices[rank];
    char text[64];
    for (uint32_t i = 0; i < device->n_instrs; i++) {
        if (pst_check_is_reduction(device->body[i].op) || device->body[i].op == PST_I_STEP) {
            pst_check_add(check, "PASS4", rank, i, "%s in a forward-only plan",
                          pst_check_describe(&device->body[i], text));
        }
    }
}

bool pst_check_reductions(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    uint32_t before = check->report->n_violations, *tie_first, *stage_ties;
    struct ending ending = {
        .reduce = pst_check_array(check, plan->n_stages, sizeof(uint32_t)),
        .step = pst_check_array(check, plan->n_stages, sizeof(uint32_t)),
        .last_w = pst_check_array(check, plan->n_stages, sizeof(uint32_t)),
        .tie = pst_check_array(check, (uint64_t)plan->n_ties + 1, sizeof(uint32_t)),
        .member = pst_check_array(check, (uint64_t)plan->n_ties + 1, sizeof(uint32_t)),
        .has_params = pst_check_array(check, plan->n_stages, sizeof(bool)),
    };
    if (check->status != PST_OK || !index_ties(check, &tie_first, &stage_ties)) {
        return false;
    }
    find_params(check, ending.has_params);
    memset(ending.tie, 0xFF, ((size_t)plan->n_ties + 1) * sizeof(uint32_t));
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        if (check->limits->forward_only) {
            check_nothing(check, d);
            continue;
        }
        pst_check_enter(check, d);
        reset(check, d, &ending);
        read_list(check, d, &ending);
        check_norm(check, d, &ending);
        for (uint32_t i = check->rank_first[d]; i < check->rank_first[d + 1]; i++) {
            check_stage(check, d, check->rank_stages[i], &ending);
        }
        check_ties(check, d, &ending, tie_first, stage_ties);
        check_strangers(check, d, &ending);
        reset(check, d, &ending);
        pst_check_leave(check, d);
    }
    return check->report->n_violations == before;
}
