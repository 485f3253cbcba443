/* SPDX-License-Identifier: Apache-2.0
 *
 * PASS4, PART4 (one reduction), COMM3: gradients are reduced once a batch, after the last pass that
 * adds to them, the norm sees all of them where there is one, and the update follows. The k-th
 * REDUCE, TIE, NORM, STEP and GATHER of a list belong to its k-th update: a batch, as a rule.
 * Reductions of a rank run in list order, so order in the list is enough among them. Where each
 * rank of a stage updates a piece, PASS10 (a GATHER for each STEP), SHARD3 (it waits for that STEP,
 * and passes that read these weights wait for it), COMM4 (the ranks of a stage meet in one order).
 */
#include "prove/internal.h"

#include <string.h>

#include "base/util.h"

/* The instructions of one list that end each update; rows [stage or tie][update]. */
struct ending {
    uint32_t n;                  /* updates */
    uint32_t *reduce, *step;     /* [stage] instruction, PST_NONE */
    uint32_t *gather, *merge;    /* [stage] */
    uint32_t *first_w, *last_w;  /* [stage] first and last pass that adds to its gradients */
    uint32_t *tie;               /* [tie] */
    uint32_t *norm;              /* [update] */
    uint32_t *n_reduce, *n_step; /* [stage] how many there are */
    uint32_t *n_gather, *n_merge;
    uint32_t *n_tie, n_norm; /* [tie] */
    bool *has_params;        /* [stage] the same for all lists */
    bool *merges;            /* [stage] parts make parts of gradients of whole parameters */
};

static void find_params(const struct pst_check *check, bool *has_params, bool *merges)
{
    for (uint32_t v = 0; v < check->graph->n_ops; v++) {
        merges[check->stage_of[v]] |= check->graph->ops[v].partial != 0;
    }
    for (uint32_t p = 0; p < check->graph->n_params; p++) {
        const struct pst_parameter *parameter = &check->graph->params[p];
        for (uint32_t u = 0; u < parameter->n_users; u++) {
            has_params[check->stage_of[parameter->users[u]]] = true;
        }
    }
}

/* Adds an instruction to a row of at most n; one more is a violation. */
static void note(struct pst_check *check, const char *rule, uint32_t rank, uint32_t at, uint32_t n,
                 uint32_t *row, uint32_t *count)
{
    if (*count == n) {
        if (check->n_batches == 1) {
            pst_check_instr(check, rule, rank, at, " is there twice, first at %u", row[0]);
        } else {
            pst_check_instr(check, rule, rank, at, " is there once too often in %u batches",
                            check->n_batches);
        }
        return;
    }
    row[(*count)++] = at;
}

static void note_gradient(const struct pst_check *check, const struct pst_instr *instr, uint32_t at,
                          struct ending *ending)
{
    uint32_t update = instr->microbatch / pst_check_unit(check, instr->stage);
    uint64_t row = (uint64_t)instr->stage * ending->n + update;
    if (update < ending->n) {
        ending->first_w[row] = ending->first_w[row] == PST_NONE ? at : ending->first_w[row];
        ending->last_w[row] = at;
    }
}

/* Does each replica of the stage update a piece of what all of them keep? */
static bool is_gathered(const struct pst_check *check, uint32_t stage)
{
    return (check->plan->zero == 1 || check->plan->zero == 2) &&
           pst_plan_replicas(&check->plan->stages[stage]) > 1;
}

static void note_gather(struct pst_check *check, uint32_t rank, uint32_t at, struct ending *ending)
{
    uint32_t s = check->plan->devices[rank].body[at].stage;
    if (!is_gathered(check, s) || pst_check_place(check, rank, s) == PST_NONE) {
        pst_check_instr(check, "PASS10", rank, at, ", though %s",
                        check->plan->zero == 0 ? "every device updates whole parameters (zero = 0)"
                        : check->plan->zero == 3
                            ? "passes gather what they read (zero = 3)"
                            : "this is no stage here that several devices update");
    } else {
        note(check, "PASS10", rank, at, ending->n, &ending->gather[(uint64_t)s * ending->n],
             &ending->n_gather[s]);
    }
}

static void read_list(struct pst_check *check, uint32_t rank, struct ending *ending)
{
    const struct pst_plan_device *device = &check->plan->devices[rank];
    uint32_t n = ending->n;
    ending->n_norm = 0;
    for (uint32_t i = 0; i < device->n_instrs; i++) {
        const struct pst_instr *instr = &device->body[i];
        uint32_t s = instr->stage;
        bool of_stage =
            instr->op == PST_I_REDUCE || instr->op == PST_I_MERGE || instr->op == PST_I_STEP;
        if (of_stage && pst_check_place(check, rank, s) == PST_NONE) {
            pst_check_instr(check, "PASS4", rank, i, ": the stage is not on this device");
        } else if (instr->op == PST_I_REDUCE) {
            note(check, "PASS4", rank, i, n, &ending->reduce[(uint64_t)s * n],
                 &ending->n_reduce[s]);
        } else if (instr->op == PST_I_MERGE) {
            note(check, "PASS4", rank, i, n, &ending->merge[(uint64_t)s * n], &ending->n_merge[s]);
        } else if (instr->op == PST_I_STEP) {
            note(check, "PASS4", rank, i, n, &ending->step[(uint64_t)s * n], &ending->n_step[s]);
        } else if (instr->op == PST_I_GATHER) {
            note_gather(check, rank, i, ending);
        } else if (instr->op == PST_I_TIE) {
            note(check, "PART4", rank, i, n, &ending->tie[(uint64_t)s * n], &ending->n_tie[s]);
        } else if (instr->op == PST_I_NORM && !check->plan->barrier) {
            pst_check_add(check, "COMM3", rank, i,
                          "NORM, though the optimizer step needs no norm of the whole model");
        } else if (instr->op == PST_I_NORM) {
            note(check, "COMM3", rank, i, n, ending->norm, &ending->n_norm);
        } else if (instr->op == PST_I_W || instr->op == PST_I_BW) {
            note_gradient(check, instr, i, ending);
        }
    }
    if (check->plan->barrier && ending->n_norm < n) {
        pst_check_add(check, "COMM3", rank, PST_NONE,
                      "%s; every device takes part in it once a step",
                      ending->n_norm == 0 ? "no NORM" : "NORM is missing in some batch");
    }
}

/* The NORM of a batch must see it. */
static void check_seen(struct pst_check *check, uint32_t rank, uint32_t at, uint32_t norm)
{
    if (norm != PST_NONE && at != PST_NONE && at > norm) {
        pst_check_instr(check, "COMM3", rank, at, " after NORM at %u, which must see it", norm);
    }
}

/* Returns true if the list has waited for `what` before it reaches `at`. */
static bool is_known(const struct pst_check *check, uint32_t rank, uint32_t what, uint32_t at)
{
    uint32_t known = check->known[check->list_base[rank] + what];
    return what < at && known != PST_NONE && known <= at;
}

static bool is_member(const struct pst_check *check, uint32_t tie, uint32_t stage)
{
    const struct pst_plan_tie *t = &check->plan->ties[tie];
    uint32_t at = pst_first_from(t->stages, t->n_stages, stage);
    return at < t->n_stages && t->stages[at] == stage;
}

static void check_step(struct pst_check *check, uint32_t rank, uint32_t stage, uint32_t batch,
                       const struct ending *ending)
{
    uint64_t row = (uint64_t)stage * ending->n + batch;
    uint32_t step = ending->step[row], reduce = ending->reduce[row], norm = ending->norm[batch];
    if (norm != PST_NONE && !is_known(check, rank, norm, step)) {
        pst_check_add(check, "PASS4", rank, step, "STEP %u does not wait for NORM at %u", stage,
                      norm);
    }
    if (check->plan->barrier) {
        return;
    }
    if (reduce != PST_NONE && !is_known(check, rank, reduce, step)) {
        pst_check_add(check, "PASS4", rank, step, "STEP %u does not wait for REDUCE at %u", stage,
                      reduce);
    }
    for (uint32_t tie = 0; tie < check->plan->n_ties; tie++) {
        uint32_t at = ending->tie[(uint64_t)tie * ending->n + batch];
        if (is_member(check, tie, stage) && at != PST_NONE && !is_known(check, rank, at, step)) {
            pst_check_add(check, "PASS4", rank, step, "STEP %u does not wait for TIE %u at %u",
                          stage, tie, at);
        }
    }
}

/* Gradients of the batch whose accumulator this one uses again come after its STEP. */
static void check_accumulator(struct pst_check *check, uint32_t rank, uint32_t stage,
                              uint32_t batch, const struct ending *ending)
{
    uint32_t apart = check->plan->deferred_step ? 2 : 1;
    uint64_t row = (uint64_t)stage * ending->n + batch;
    if (batch + apart < ending->n && ending->step[row] != PST_NONE &&
        ending->first_w[row + apart] < ending->step[row]) {
        pst_check_add(check, "PASS4", rank, ending->step[row],
                      "STEP %u of batch %u after the pass at %u that adds to the same gradients "
                      "for batch %u",
                      stage, batch, ending->first_w[row + apart], batch + apart);
    }
}

static void check_gather(struct pst_check *check, uint32_t rank, uint32_t stage, uint32_t batch,
                         const struct ending *ending)
{
    uint64_t row = (uint64_t)stage * ending->n + batch;
    uint32_t step = ending->step[row], gather = ending->gather[row];
    if (gather == PST_NONE && step != PST_NONE && is_gathered(check, stage)) {
        pst_check_instr(check, "PASS10", rank, step,
                        ": no GATHER %u after it, though each of the %u replicas updates a piece",
                        stage, pst_plan_replicas(&check->plan->stages[stage]));
    } else if (gather != PST_NONE && step == PST_NONE) {
        pst_check_instr(check, "PASS10", rank, gather, ", though the stage has no STEP for it");
    } else if (gather != PST_NONE && !is_known(check, rank, step, gather)) {
        pst_check_instr(check, "SHARD3", rank, gather,
                        step < gather ? " does not wait for STEP at %u, whose weights it gathers"
                                      : " before STEP at %u, whose weights it gathers",
                        step);
    }
}

/* The lowest stage of the rank that uses a parameter updates it. */
static uint32_t updated_by(const struct pst_check *check, uint32_t rank, uint32_t parameter)
{
    const struct pst_parameter *of = &check->graph->params[parameter];
    uint32_t lowest = PST_NONE;
    for (uint32_t u = 0; u < of->n_users; u++) {
        uint32_t s = check->stage_of[of->users[u]];
        lowest = pst_check_place(check, rank, s) != PST_NONE && s < lowest ? s : lowest;
    }
    return lowest;
}

/* A pass that reads version v of the weights waits for the GATHERs of v - 1: that of its stage, and
   those of stages here that update what it ties. */
static void check_reader(struct pst_check *check, uint32_t rank, uint32_t at,
                         const struct ending *ending)
{
    const struct pst_instr *instr = &check->plan->devices[rank].body[at];
    const struct pst_plan_stage *stage = &check->plan->stages[instr->stage];
    uint32_t update = instr->microbatch / pst_check_unit(check, instr->stage);
    uint32_t older = pst_plan_slots(check->plan, instr->stage) - 1;
    for (uint32_t v = 0; update > older && update < ending->n && v < stage->n_nodes; v++) {
        const struct pst_op *op = &check->graph->ops[stage->nodes[v]];
        for (uint32_t i = 0; i < op->n_param; i++) {
            uint32_t p = op->param[i];
            if (p == PST_NONE || check->pieces[p] == NULL) {
                continue;
            }
            uint32_t by = updated_by(check, rank, p);
            uint32_t gather = ending->gather[(uint64_t)by * ending->n + update - older - 1];
            if (gather != PST_NONE && !is_known(check, rank, gather, at)) {
                pst_check_instr(check, "SHARD3", rank, at,
                                " reads version %u of parameter %s, but does not wait for GATHER "
                                "%u at %u, which brings its pieces together",
                                update - older, check->graph->params[p].name, by, gather);
                return;
            }
        }
    }
}

/* The next one from here; n_instrs: none. */
static uint32_t next_meeting(const struct pst_plan_device *device, uint32_t at)
{
    while (at < device->n_instrs && !pst_check_is_reduction(device->body[at].op)) {
        at++;
    }
    return at;
}

/* Stages that share a rank share all, so these ranks have the same meetings. */
static void check_order(struct pst_check *check, uint32_t rank)
{
    uint32_t stage = check->rank_stages[check->rank_first[rank]];
    uint32_t first = check->plan->stages[stage].ranks[0], i = 0, j = 0;
    const struct pst_plan_device *a = &check->plan->devices[first];
    const struct pst_plan_device *b = &check->plan->devices[rank];
    for (;; i++, j++) {
        i = next_meeting(a, i);
        j = next_meeting(b, j);
        if (i == a->n_instrs || j == b->n_instrs || a->body[i].op != b->body[j].op ||
            a->body[i].stage != b->body[j].stage) {
            break;
        }
    }
    if (i < a->n_instrs || j < b->n_instrs) {
        char text[64];
        pst_check_add(check, "COMM4", rank, j < b->n_instrs ? j : PST_NONE,
                      "meets in another order than device %u, which has %s at %u", first,
                      i < a->n_instrs ? pst_check_describe(&a->body[i], text) : "nothing more", i);
    }
}

static void check_gathers(struct pst_check *check, uint32_t rank, const struct ending *ending)
{
    const struct pst_plan_device *device = &check->plan->devices[rank];
    for (uint32_t i = 0; check->source != NULL && i < device->n_instrs; i++) {
        if (pst_check_is_pass(device->body[i].op) &&
            pst_check_place(check, rank, device->body[i].stage) != PST_NONE) {
            check_reader(check, rank, i, ending);
        }
    }
    if (check->rank_first[rank] < check->rank_first[rank + 1]) {
        check_order(check, rank);
    }
}

/* SHARD2: partial gradients of parts are added once, when they are complete, and before TIE, NORM
   or STEP reads them. */
static void check_merge(struct pst_check *check, uint32_t rank, uint32_t stage, uint32_t batch,
                        const struct ending *ending)
{
    uint64_t row = (uint64_t)stage * ending->n + batch;
    uint32_t merge = ending->merge[row], reduce = ending->reduce[row], step = ending->step[row];
    if ((merge != PST_NONE) != ending->merges[stage]) {
        pst_check_add(check, "SHARD2", rank, merge,
                      merge == PST_NONE
                          ? "stage %u has no MERGE, but its parts compute partial gradients of "
                            "whole parameters"
                          : "stage %u has a MERGE, but none of its gradients is partial",
                      stage);
    } else if (merge != PST_NONE && reduce != PST_NONE && !is_known(check, rank, reduce, merge)) {
        pst_check_add(check, "SHARD2", rank, merge, "MERGE %u does not wait for REDUCE at %u",
                      stage, reduce);
    }
    check_seen(check, rank, merge, ending->norm[batch]);
    if (!check->plan->barrier && merge != PST_NONE && step != PST_NONE &&
        !is_known(check, rank, merge, step)) {
        pst_check_add(check, "PASS4", rank, step, "STEP %u does not wait for MERGE at %u", stage,
                      merge);
    }
}

static void check_batch(struct pst_check *check, uint32_t rank, uint32_t stage, uint32_t batch,
                        const struct ending *ending)
{
    uint64_t row = (uint64_t)stage * ending->n + batch;
    uint32_t reduce = ending->reduce[row], step = ending->step[row], last_w = ending->last_w[row];
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
    check_seen(check, rank, reduce, ending->norm[batch]);
    check_merge(check, rank, stage, batch, ending);
    if (step != PST_NONE) {
        check_step(check, rank, stage, batch, ending);
    }
    check_accumulator(check, rank, stage, batch, ending);
    check_gather(check, rank, stage, batch, ending);
}

/* PART4: each member rank takes part once, after the REDUCE of its member stages. */
static void check_ties(struct pst_check *check, uint32_t rank, uint32_t stage, uint32_t batch,
                       const struct ending *ending)
{
    uint32_t reduce = ending->reduce[(uint64_t)stage * ending->n + batch];
    uint32_t merge = ending->merge[(uint64_t)stage * ending->n + batch];
    for (uint32_t tie = 0; tie < check->plan->n_ties; tie++) {
        uint32_t at = ending->tie[(uint64_t)tie * ending->n + batch];
        if (!is_member(check, tie, stage)) {
            continue;
        }
        if (at == PST_NONE) {
            pst_check_add(check, "PART4", rank, PST_NONE, "no TIE %u, though stage %u is a member",
                          tie, stage);
        } else if (merge != PST_NONE && at < merge) {
            pst_check_add(check, "PART4", rank, at, "TIE %u before MERGE %u at %u", tie, stage,
                          merge);
        } else if (reduce != PST_NONE && at < reduce) {
            pst_check_add(check, "PART4", rank, at, "TIE %u before REDUCE %u at %u", tie, stage,
                          reduce);
        }
        check_seen(check, rank, at, ending->norm[batch]);
    }
}

static bool has_member(const struct pst_check *check, uint32_t rank, uint32_t tie)
{
    for (uint32_t i = check->rank_first[rank]; i < check->rank_first[rank + 1]; i++) {
        if (is_member(check, tie, check->rank_stages[i])) {
            return true;
        }
    }
    return false;
}

/* A TIE on a rank without a member. */
static void check_strangers(struct pst_check *check, uint32_t rank)
{
    const struct pst_plan_device *device = &check->plan->devices[rank];
    for (uint32_t i = 0; i < device->n_instrs; i++) {
        if (device->body[i].op == PST_I_TIE && !has_member(check, rank, device->body[i].stage)) {
            pst_check_add(check, "PART4", rank, i, "TIE %u: no member stage is on this device",
                          device->body[i].stage);
        }
    }
}

static void reset_ending(const struct pst_check *check, uint32_t rank, struct ending *ending)
{
    uint64_t n = ending->n;
    for (uint32_t i = check->rank_first[rank]; i < check->rank_first[rank + 1]; i++) {
        uint32_t stage = check->rank_stages[i];
        uint32_t *const rows[] = {ending->reduce, ending->step,    ending->gather,
                                  ending->merge,  ending->first_w, ending->last_w};
        for (uint32_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
            memset(&rows[k][stage * n], 0xFF, n * sizeof(uint32_t));
        }
        ending->n_reduce[stage] = ending->n_step[stage] = 0;
        ending->n_gather[stage] = ending->n_merge[stage] = 0;
    }
    const struct pst_plan_device *device = &check->plan->devices[rank];
    for (uint32_t i = 0; check->plan->n_ties > 0 && i < device->n_instrs; i++) {
        if (device->body[i].op == PST_I_TIE) {
            memset(&ending->tie[device->body[i].stage * n], 0xFF, n * sizeof(uint32_t));
            ending->n_tie[device->body[i].stage] = 0;
        }
    }
    memset(ending->norm, 0xFF, n * sizeof(uint32_t));
}

static void make_tables(struct pst_check *check, struct ending *ending)
{
    const struct pst_plan *plan = check->plan;
    uint64_t stages = plan->n_stages, ties = (uint64_t)plan->n_ties + 1;
    uint64_t n = (uint64_t)check->n_batches * pst_check_updates(check);
    *ending = (struct ending){
        .n = (uint32_t)n,
        .reduce = pst_check_array(check, stages * n, sizeof(uint32_t)),
        .step = pst_check_array(check, stages * n, sizeof(uint32_t)),
        .gather = pst_check_array(check, stages * n, sizeof(uint32_t)),
        .merge = pst_check_array(check, stages * n, sizeof(uint32_t)),
        .first_w = pst_check_array(check, stages * n, sizeof(uint32_t)),
        .last_w = pst_check_array(check, stages * n, sizeof(uint32_t)),
        .tie = pst_arena_none(&check->arena, ties * n),
        .norm = pst_check_array(check, n, sizeof(uint32_t)),
        .n_reduce = pst_check_array(check, stages, sizeof(uint32_t)),
        .n_step = pst_check_array(check, stages, sizeof(uint32_t)),
        .n_gather = pst_check_array(check, stages, sizeof(uint32_t)),
        .n_merge = pst_check_array(check, stages, sizeof(uint32_t)),
        .n_tie = pst_check_array(check, ties, sizeof(uint32_t)),
        .has_params = pst_check_array(check, stages, sizeof(bool)),
        .merges = pst_check_array(check, stages, sizeof(bool)),
    };
    find_params(check, ending->has_params, ending->merges);
}

/* Forward-only lists have nothing to reduce. */
static void check_nothing(struct pst_check *check, uint32_t rank)
{
    const struct pst_plan_device *device = &check->plan->devices[rank];
    for (uint32_t i = 0; i < device->n_instrs; i++) {
        if (pst_check_is_reduction(device->body[i].op) || device->body[i].op == PST_I_STEP) {
            pst_check_instr(check, device->body[i].op == PST_I_GATHER ? "PASS10" : "PASS4", rank, i,
                            " in a forward-only plan");
        }
    }
}

void pst_check_reductions(struct pst_check *check)
{
    struct ending ending;
    make_tables(check, &ending);
    for (uint32_t d = 0; d < check->plan->n_devices; d++) {
        if (check->limits->forward_only) {
            check_nothing(check, d);
            continue;
        }
        reset_ending(check, d, &ending);
        read_list(check, d, &ending);
        for (uint32_t i = check->rank_first[d]; i < check->rank_first[d + 1]; i++) {
            for (uint32_t k = 0; k < ending.n; k++) {
                check_batch(check, d, check->rank_stages[i], k, &ending);
                check_ties(check, d, check->rank_stages[i], k, &ending);
            }
        }
        check_strangers(check, d);
        if (check->plan->zero > 0) {
            check_gathers(check, d, &ending);
        }
        reset_ending(check, d, &ending);
    }
}
