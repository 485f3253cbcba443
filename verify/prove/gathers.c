/* SPDX-License-Identifier: Apache-2.0
 *
 * Where each rank updates a piece of its parameters, GATHER brings the pieces together. PASS10: one
 * after each STEP of a stage with several ranks. SHARD3: it waits for that STEP, and passes that
 * read these weights wait for it. COMM4: the ranks of a stage meet in one order.
 */
#include "prove/internal.h"

/* What a list has had so far. */
struct walk {
    struct pst_check *check;
    uint32_t rank, n;
    uint32_t *n_steps, *last_step; /* [stage] */
    uint32_t *n_gathers;
    uint32_t *gathers; /* [stage * n + update] instruction */
};

static bool is_gathered(const struct walk *w, uint32_t stage)
{
    return w->check->plan->zero > 0 && w->check->plan->stages[stage].n_ranks > 1 &&
           pst_check_place(w->check, w->rank, stage) != PST_NONE;
}

static bool is_known(const struct walk *w, uint32_t what, uint32_t at)
{
    return w->check->known[w->check->list_base[w->rank] + what] <= at;
}

/* Every STEP so far has its GATHER. */
static void check_last(const struct walk *w, uint32_t stage)
{
    if (is_gathered(w, stage) && w->n_gathers[stage] < w->n_steps[stage]) {
        pst_check_instr(w->check, "PASS10", w->rank, w->last_step[stage],
                        ": no GATHER %u after it, though each of the %u devices has updated a "
                        "piece",
                        stage, w->check->plan->stages[stage].n_ranks);
    }
}

static void check_gather(const struct walk *w, uint32_t at)
{
    const uint32_t s = w->check->plan->devices[w->rank].body[at].stage;
    if (w->check->limits->forward_only || !is_gathered(w, s)) {
        pst_check_instr(w->check, "PASS10", w->rank, at, ", though %s",
                        w->check->limits->forward_only ? "the plan is forward-only"
                        : w->check->plan->zero == 0
                            ? "every device updates whole parameters (zero = 0)"
                            : "no stage of several devices here has this number");
    } else if (w->n_steps[s] == 0) {
        pst_check_instr(w->check, "SHARD3", w->rank, at,
                        " before the STEP that makes what it gathers");
    } else if (w->n_gathers[s] == w->n_steps[s] || w->n_gathers[s] == w->n) {
        pst_check_instr(w->check, "PASS10", w->rank, at,
                        " is there twice after STEP at %u, expected once", w->last_step[s]);
    } else {
        if (!is_known(w, w->last_step[s], at)) {
            pst_check_instr(w->check, "SHARD3", w->rank, at,
                            " does not wait for STEP at %u, whose weights it gathers",
                            w->last_step[s]);
        }
        w->gathers[(uint64_t)s * w->n + w->n_gathers[s]++] = at;
    }
}

/* The lowest stage of the rank that uses a parameter updates it. */
static uint32_t updated_by(const struct walk *w, const struct pst_parameter *parameter)
{
    uint32_t lowest = PST_NONE;
    for (uint32_t u = 0; u < parameter->n_users; u++) {
        uint32_t s = w->check->stage_of[parameter->users[u]];
        lowest = pst_check_place(w->check, w->rank, s) != PST_NONE && s < lowest ? s : lowest;
    }
    return lowest;
}

/* Update `version` of stage `by` makes what a pass reads. */
static void check_made(const struct walk *w, uint32_t at, uint32_t by, uint32_t version)
{
    const uint32_t *gathers = &w->gathers[(uint64_t)by * w->n];
    if (w->n_gathers[by] < version || !is_known(w, gathers[version - 1], at)) {
        pst_check_instr(w->check, "SHARD3", w->rank, at,
                        " reads version %u of the weights, but does not wait for the GATHER %u "
                        "that brings its pieces together",
                        version, by);
    }
}

/* Weights of the stage, and those tied ones that another stage here updates. */
static void check_pass(const struct walk *w, uint32_t at)
{
    const struct pst_check *check = w->check;
    const struct pst_instr *instr = &check->plan->devices[w->rank].body[at];
    const struct pst_plan_stage *stage = &check->plan->stages[instr->stage];
    const uint32_t update = instr->microbatch / pst_check_unit(check, instr->stage);
    const uint32_t older = pst_plan_slots(check->plan, instr->stage) - 1;
    if (!is_gathered(w, instr->stage) || update <= older) {
        return;
    }
    check_made(w, at, instr->stage, update - older);
    for (uint32_t v = 0;
         v < stage->n_nodes && check->rank_first[w->rank + 1] - check->rank_first[w->rank] > 1;
         v++) {
        const struct pst_op *op = &check->graph->ops[stage->nodes[v]];
        for (uint32_t i = 0; i < op->n_param; i++) {
            uint32_t p = op->param[i];
            uint32_t by = p != PST_NONE && check->pieces[p] != NULL
                              ? updated_by(w, &check->graph->params[p])
                              : instr->stage;
            if (by != instr->stage) {
                check_made(w, at, by, update - older);
            }
        }
    }
}

static void check_list(struct walk *w)
{
    const struct pst_check *check = w->check;
    const struct pst_plan_device *device = &check->plan->devices[w->rank];
    for (uint32_t i = 0; i < device->n_instrs; i++) {
        const struct pst_instr *instr = &device->body[i];
        if (instr->op == PST_I_STEP && is_gathered(w, instr->stage)) {
            check_last(w, instr->stage);
            w->n_steps[instr->stage]++;
            w->last_step[instr->stage] = i;
        } else if (instr->op == PST_I_GATHER) {
            check_gather(w, i);
        } else if (pst_check_is_pass(instr->op) && check->source != NULL) {
            check_pass(w, i);
        }
    }
    for (uint32_t i = check->rank_first[w->rank]; i < check->rank_first[w->rank + 1]; i++) {
        check_last(w, check->rank_stages[i]);
        w->n_steps[check->rank_stages[i]] = w->n_gathers[check->rank_stages[i]] = 0;
    }
}

/* The next reduction from here; n_instrs: none. */
static uint32_t next_meeting(const struct pst_plan_device *device, uint32_t at)
{
    while (at < device->n_instrs && !pst_check_is_reduction(device->body[at].op)) {
        at++;
    }
    return at;
}

/* Stages that share a rank share all, so these ranks have the same meetings. */
static void check_order(struct pst_check *check, uint32_t rank, uint32_t first)
{
    const struct pst_plan_device *a = &check->plan->devices[first];
    const struct pst_plan_device *b = &check->plan->devices[rank];
    uint32_t i = next_meeting(a, 0), j = next_meeting(b, 0);
    while (i < a->n_instrs && j < b->n_instrs && a->body[i].op == b->body[j].op &&
           a->body[i].stage == b->body[j].stage) {
        i = next_meeting(a, i + 1);
        j = next_meeting(b, j + 1);
    }
    if (i < a->n_instrs || j < b->n_instrs) {
        char text[64];
        pst_check_add(check, "COMM4", rank, j < b->n_instrs ? j : PST_NONE,
                      "meets in another order than device %u, which has %s at %u", first,
                      i < a->n_instrs ? pst_check_describe(&a->body[i], text) : "nothing more", i);
    }
}

void pst_check_gathers(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    struct walk w = {.check = check,
                     .n = check->n_batches * pst_check_updates(check),
                     .n_steps = pst_check_array(check, plan->n_stages, sizeof(uint32_t)),
                     .last_step = pst_check_array(check, plan->n_stages, sizeof(uint32_t)),
                     .n_gathers = pst_check_array(check, plan->n_stages, sizeof(uint32_t))};
    w.gathers = pst_check_array(check, (uint64_t)plan->n_stages * w.n, sizeof(uint32_t));
    for (w.rank = 0; w.rank < plan->n_devices; w.rank++) {
        check_list(&w);
        if (plan->zero > 0 && check->rank_first[w.rank] < check->rank_first[w.rank + 1]) {
            check_order(check, w.rank,
                        plan->stages[check->rank_stages[check->rank_first[w.rank]]].ranks[0]);
        }
    }
}
