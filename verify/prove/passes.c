/* SPDX-License-Identifier: Apache-2.0
 *
 * PASS1, PASS2: every micro-batch passes every stage once and in order. PASS5: an asynchronous plan
 * is drained as often as its config says. PASS8: replays make what passes read. PASS9: slices of a
 * sequence come in their order. WVER1, WVER2: which weights a micro-batch reads there.
 */
#include "prove/internal.h"

#include <jansson.h>
#include <string.h>

#include "plan/sequence.h"

static bool make_rows(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    check->pass_base = pst_check_array(check, (uint64_t)plan->n_stages + 1, sizeof(uint64_t));
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        check->pass_base[s + 1] = check->pass_base[s] + (uint64_t)plan->stages[s].n_ranks *
                                                            plan->stages[s].n_microbatches;
    }
    uint64_t rows = check->pass_base[plan->n_stages];
    if (rows > check->list_base[plan->n_devices]) {
        /* Also keeps the tables below linear in what the plan really holds. */
        pst_check_add(check, "PASS1", PST_NONE, PST_NONE,
                      "the stages need %llu forward passes, the lists hold %llu instructions",
                      (unsigned long long)rows,
                      (unsigned long long)check->list_base[plan->n_devices]);
        return false;
    }
    check->passes = pst_check_array(check, rows + 1, sizeof *check->passes);
    memset(check->passes, 0xFF, rows * sizeof *check->passes);
    return true;
}

/* Notes where the pass is in the list; returns false if that is known already. */
static bool note_pass(struct pst_pass_row *row, uint32_t op, uint32_t at)
{
    uint32_t *place = op == PST_I_F   ? &row->f
                      : op == PST_I_W ? &row->w
                      : op == PST_I_R ? &row->r
                                      : &row->b;
    uint32_t *other = op == PST_I_BW ? &row->w : place;
    bool first = *place == PST_NONE && *other == PST_NONE;
    *place = *place == PST_NONE ? at : *place;
    *other = *other == PST_NONE ? at : *other;
    return first;
}

/* The weights that the passes of a list read: version v of a stage exists after its v-th STEP. */
struct reading {
    uint32_t *n_steps;   /* [stage] STEPs so far */
    uint32_t *last_step; /* [stage] where the last one is */
};

static const char *unit_name(const struct pst_check *check)
{
    return check->plan->version_rule == PST_VERSION_STASHED ? "update" : "batch";
}

/*
 * Synchronous: no pass of a stage comes after its STEP. Otherwise the passes for the gradient of
 * update u read version max(u - (V - 1), 0), of V that are kept. That version must exist and be
 * one of the V newest, as older ones are overwritten. Delayed: an update is a batch, and V is 2.
 * Stashed: it is a micro-batch.
 */
static void check_version(struct pst_check *check, uint32_t rank, uint32_t at,
                          const struct reading *reading)
{
    const struct pst_instr *instr = &check->plan->devices[rank].body[at];
    uint32_t made = reading->n_steps[instr->stage], last = reading->last_step[instr->stage];
    if (check->source == NULL) {
        if (made > 0) {
            pst_check_instr(check, "WVER1", rank, at,
                            " after STEP at %u; all passes of a step read one version", last);
        }
        return;
    }
    uint32_t update = instr->microbatch / pst_check_unit(check, instr->stage);
    uint32_t older = pst_plan_slots(check->plan, instr->stage) - 1;
    uint32_t version = update > older ? update - older : 0;
    if (made < version) {
        pst_check_instr(check, "WVER2", rank, at,
                        " of %s %u reads version %u of the weights, but only %u STEP of the "
                        "stage come before",
                        unit_name(check), update, version, made);
    } else if (made > version + older) {
        pst_check_instr(check, "WVER2", rank, at,
                        " of %s %u reads version %u of the weights, which STEP at %u has "
                        "overwritten",
                        unit_name(check), update, version, last);
    }
}

/* The executor counts the updates of a batch in the part that closes it. */
static void check_update(struct pst_check *check, uint32_t rank, uint32_t at)
{
    const struct pst_instr *instr = &check->plan->devices[rank].body[at];
    if (check->plan->version_rule != PST_VERSION_STASHED ||
        (instr->op != PST_I_W && instr->op != PST_I_BW)) {
        return;
    }
    struct pst_origin origin = pst_plan_origin(check->source, rank, at, check->n_batches, 0);
    uint32_t batch = instr->microbatch / pst_check_per_batch(check, instr->stage);
    if (origin.part == PST_FILL || batch != origin.batch) {
        pst_check_instr(
            check, "PASS1", rank, at,
            ": if every micro-batch makes an update, the part that closes its batch makes it");
    }
}

static void read_list(struct pst_check *check, uint32_t rank, struct reading *reading)
{
    const struct pst_plan_device *device = &check->plan->devices[rank];
    for (uint32_t i = 0; i < device->n_instrs; i++) {
        const struct pst_instr *instr = &device->body[i];
        if (instr->op == PST_I_STEP && pst_check_place(check, rank, instr->stage) != PST_NONE) {
            reading->n_steps[instr->stage]++;
            reading->last_step[instr->stage] = i;
        }
        if (!pst_check_is_pass(instr->op)) {
            continue;
        }
        uint32_t place = pst_check_place(check, rank, instr->stage);
        if (place == PST_NONE) {
            pst_check_instr(check, "PASS1", rank, i, ": the stage is not on this device");
            continue;
        }
        if (instr->microbatch >= check->plan->stages[instr->stage].n_microbatches) {
            pst_check_instr(check, "PASS1", rank, i, ": of a batch that is never closed");
            continue;
        }
        if (!note_pass(pst_check_row(check, instr->stage, instr->microbatch, place), instr->op,
                       i)) {
            pst_check_instr(check, "PASS1", rank, i, " is there twice, expected once");
        }
        check_version(check, rank, i, reading);
        if (check->source != NULL) {
            check_update(check, rank, i);
        }
    }
    for (uint32_t i = check->rank_first[rank]; i < check->rank_first[rank + 1]; i++) {
        reading->n_steps[check->rank_stages[i]] = 0; /* its other ranks count anew */
    }
}

/* A list of replays and the actions go together; R is for stages without a list. */
static void check_sequence(struct pst_check *check, uint32_t s)
{
    const struct pst_plan_stage *stage = &check->plan->stages[s];
    const char *what = NULL;
    uint32_t node = PST_NONE;
    if (stage->n_replays > 0) {
        pst_sequence_check(stage, check->graph, &node, &what);
    }
    if (node != PST_NONE) {
        pst_check_add(check, "PASS8", PST_NONE, PST_NONE, "stage %u: operator %s %s", s,
                      check->graph->ops[stage->nodes[node]].name, what);
    }
}

static void check_backward(struct pst_check *check, uint32_t rank, uint32_t s, uint32_t mb,
                           const struct pst_pass_row *row)
{
    if (row->b == PST_NONE || row->w == PST_NONE) {
        pst_check_add(check, "PASS1", rank, PST_NONE,
                      "stage %u, micro-batch %u: no %s; expected one BW, or one B and one W", s, mb,
                      row->b == PST_NONE ? "B" : "W");
    }
    if (row->f != PST_NONE && row->b != PST_NONE && row->b < row->f) {
        pst_check_add(check, "PASS2", rank, row->b,
                      "stage %u, micro-batch %u: B before its F at %u", s, mb, row->f);
    }
    if (row->b != PST_NONE && row->w != PST_NONE && row->w < row->b) {
        pst_check_add(check, "PASS2", rank, row->w,
                      "stage %u, micro-batch %u: W before its B at %u", s, mb, row->b);
    }
    if (row->f != PST_NONE && row->w != PST_NONE && row->w < row->f) {
        pst_check_add(check, "PASS2", rank, row->w,
                      "stage %u, micro-batch %u: W before its F at %u", s, mb, row->f);
    }
}

static void check_row(struct pst_check *check, uint32_t s, uint32_t mb, uint32_t place,
                      bool recomputes)
{
    const struct pst_pass_row *row = pst_check_row(check, s, mb, place);
    uint32_t rank = check->plan->stages[s].ranks[place];
    if (row->f == PST_NONE) {
        pst_check_add(check, "PASS1", rank, PST_NONE,
                      "stage %u, micro-batch %u: no F, expected one", s, mb);
    }
    if (check->limits->forward_only) {
        if (row->b != PST_NONE || row->w != PST_NONE || row->r != PST_NONE) {
            pst_check_add(check, "PASS1", rank, PST_NONE,
                          "stage %u, micro-batch %u: a backward pass in a forward-only plan", s,
                          mb);
        }
        return;
    }
    check_backward(check, rank, s, mb, row);
    if (row->r != PST_NONE && (!recomputes || row->f == PST_NONE || row->r < row->f ||
                               (row->b != PST_NONE && row->r > row->b))) {
        pst_check_add(check, "PASS2", rank, row->r,
                      "stage %u, micro-batch %u: R belongs between F and B of a stage that "
                      "recomputes",
                      s, mb);
    }
}

/* PASS9: of a sequence forward passes go from its first slice to its last, whose keys and values
   each reads; backward passes go back, as each adds to the gradients of those before it. */
static void check_slices(struct pst_check *check, uint32_t s, uint32_t mb, uint32_t place)
{
    const struct pst_pass_row *row = pst_check_row(check, s, mb, place), *before;
    uint32_t n = check->graph->slices, rank = check->plan->stages[s].ranks[place];
    if (mb % n == 0) {
        return;
    }
    before = pst_check_row(check, s, mb - 1, place);
    if (row->f < before->f) {
        pst_check_add(check, "PASS9", rank, row->f,
                      "stage %u: F of micro-batch %u, slice %u of its sequences, before F of "
                      "micro-batch %u, slice %u, at %u",
                      s, mb, mb % n, mb - 1, mb % n - 1, before->f);
    }
    if (before->b < row->b) {
        pst_check_add(check, "PASS9", rank, before->b,
                      "stage %u: B of micro-batch %u, slice %u of its sequences, before B of "
                      "micro-batch %u, slice %u, at %u",
                      s, mb - 1, mb % n - 1, mb, mb % n, row->b);
    }
}

/* Checks that sequences are whole, and that keys and values which attention reads are kept. */
static void check_sequences(struct pst_check *check, uint32_t s)
{
    const struct pst_plan_stage *stage = &check->plan->stages[s];
    const struct pst_graph *graph = check->graph;
    if (stage->n_microbatches % graph->slices != 0 ||
        stage->microbatch_size != check->plan->stages[0].microbatch_size) {
        pst_check_add(check, "PASS9", PST_NONE, PST_NONE,
                      "stage %u: %u micro-batches of %u; slices of sequences need a multiple of %u "
                      "of one size",
                      s, stage->n_microbatches, stage->microbatch_size, graph->slices);
    }
    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        if (stage->actions[i] != PST_ACTION_KEEP && pst_op_stays(graph, stage->nodes[i])) {
            pst_check_add(check, "PASS9", PST_NONE, PST_NONE,
                          "stage %u: operator %s makes keys and values that later slices read; "
                          "they are kept",
                          s, graph->ops[stage->nodes[i]].name);
        }
    }
}

void pst_check_passes(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    struct reading reading = {pst_check_array(check, plan->n_stages, sizeof(uint32_t)),
                              pst_check_array(check, plan->n_stages, sizeof(uint32_t))};
    if (!make_rows(check)) {
        return;
    }
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        read_list(check, d, &reading);
    }
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        bool recomputes = plan->stages[s].n_replays == 0 &&
                          pst_plan_stage_has(&plan->stages[s], PST_ACTION_RECOMPUTE);
        check_sequence(check, s);
        if (check->graph->slices > 1) {
            check_sequences(check, s);
        }
        for (uint32_t mb = 0; mb < plan->stages[s].n_microbatches; mb++) {
            for (uint32_t r = 0; r < plan->stages[s].n_ranks; r++) {
                check_row(check, s, mb, r, recomputes);
                check_slices(check, s, mb, r);
            }
        }
    }
}

void pst_check_drains(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    if (plan->config_json == NULL) {
        return;
    }
    json_t *config = json_loads(plan->config_json, 0, NULL);
    json_t *train = json_object_get(config, "train");
    json_t *every = json_object_get(train, "drain_every");
    json_int_t wanted = json_integer_value(every); /* 0, the default, where there is none */
    if (wanted != (json_int_t)plan->drain_every) {
        pst_check_add(check, "PASS5", PST_NONE, PST_NONE,
                      "drained every %u batches (0: at the end), but train.drain_every is %lld",
                      plan->drain_every, (long long)wanted);
    }
    json_decref(config);
}
