/* SPDX-License-Identifier: Apache-2.0
 *
 * MEM2 on what outlives the step: each parameter that a rank uses has its weights, their versions,
 * accumulators, sums and optimizer state in buffers of its own; reductions and steps find them by
 * this table, not by operands. SHARD1: it updates the piece that is its, and has no state of
 * others. SHARD4: the norm gets the squares of every element from one rank.
 */
#include "graph/split.h"
#include "prove/internal.h"

struct holder {
    struct pst_check *check;
    const struct pst_program *program;
    uint32_t parameter;
    struct pst_shard piece; /* what the rank updates of it */
};

static void rule_fault(const struct holder *h, const char *rule, const char *what)
{
    pst_check_add(h->check, rule, h->program->rank, PST_NONE, "parameter %s: %s",
                  h->check->graph->params[h->parameter].name, what);
}

static void fault(const struct holder *h, const char *what)
{
    rule_fault(h, "MEM2", what);
}

/* Value v is the buffer of this kind for `what`. */
static bool is(const struct holder *h, uint32_t v, uint8_t kind, uint32_t what, uint32_t slot)
{
    if (v >= h->program->n_values) {
        return false;
    }
    const struct pst_value *value = &h->program->values[v];
    return value->kind == kind && value->is_static && value->what == what && value->slot == slot;
}

static bool is_local(const struct holder *h, uint32_t op)
{
    const struct pst_plan_stage *stage = &h->check->plan->stages[h->check->stage_of[op]];
    return pst_plan_replica(stage, h->program->rank) != PST_NONE;
}

/* The replicas of the first user count their pieces in the norm, or the first of them all of it:
   each part what it alone has, and the first part what all of them have. */
static bool is_owner(const struct holder *h)
{
    const struct pst_parameter *parameter = &h->check->graph->params[h->parameter];
    uint32_t stage = h->check->stage_of[parameter->users[0]];
    uint32_t replica = pst_check_replica(h->check, h->program->rank, stage);
    return (h->check->pieces[h->parameter] != NULL ? replica != PST_NONE : replica == 0) &&
           (pst_is_split(parameter) || pst_check_part(h->check, h->program->rank) == 0);
}

static bool holds_elems(const struct holder *h, uint32_t v, uint64_t elems)
{
    return v >= h->program->n_values || h->program->values[v].bytes == elems * sizeof(float);
}

/* SHARD1. Buffers of a whole parameter have room for it by MEM3. */
static void check_piece(const struct holder *h, const struct pst_program_param *row)
{
    const struct pst_parameter *parameter = &h->check->graph->params[h->parameter];
    if (row->shard.elems != h->piece.elems ||
        (h->piece.elems > 0 && row->shard.first != h->piece.first)) {
        pst_check_add(h->check, "SHARD1", h->program->rank, PST_NONE,
                      "parameter %s: updates %llu elements from %llu on, expected %llu from %llu",
                      parameter->name, (unsigned long long)row->shard.elems,
                      (unsigned long long)row->shard.first, (unsigned long long)h->piece.elems,
                      (unsigned long long)h->piece.first);
    }
    if (h->check->pieces[h->parameter] == NULL) {
        return;
    }
    if (!holds_elems(h, row->weight,
                     parameter->dtype == PST_F32 && !pst_check_gathers(h->check, h->parameter)
                         ? parameter->elems
                         : h->piece.elems) ||
        !holds_elems(h, row->tie, h->piece.elems) ||
        !holds_elems(h, row->optimizer[0], h->piece.elems) ||
        !holds_elems(h, row->optimizer[1], h->piece.elems)) {
        rule_fault(h, "SHARD1", "its state is not that of the piece which this device updates");
    }
    for (uint32_t g = 0; pst_check_scatters(h->check, h->parameter) && g < row->n_grads; g++) {
        if (!holds_elems(h, row->grads[g], h->piece.elems)) {
            rule_fault(h, "SHARD1",
                       "an accumulator is not that of the piece which this device updates");
            return;
        }
    }
}

/* A version has the elements that the rank keeps; of an empty piece there is none. */
static bool is_version(const struct holder *h, uint32_t v, uint8_t kind, uint32_t number)
{
    const struct pst_parameter *parameter = &h->check->graph->params[h->parameter];
    if (!pst_check_gathers(h->check, h->parameter)) {
        return is(h, v, kind, h->parameter, number);
    }
    return h->piece.elems == 0 ? v == PST_NONE
                               : is(h, v, kind, h->parameter, number) &&
                                     h->program->values[v].bytes ==
                                         h->piece.elems * pst_dtype_bytes(parameter->dtype);
}

static void check_kept(const struct holder *h, const struct pst_program_param *row)
{
    struct pst_shard kept = {0, h->check->graph->params[h->parameter].elems};
    if (pst_check_gathers(h->check, h->parameter)) {
        kept = h->piece.elems > 0 ? h->piece : row->shard;
    }
    if (row->kept.first != kept.first || row->kept.elems != kept.elems) {
        rule_fault(h, "SHARD1", "it keeps other elements of the weights than it should");
    }
}

static void check_weights(const struct holder *h, const struct pst_program_param *row)
{
    bool whole = !pst_check_gathers(h->check, h->parameter);
    bool f32 = h->check->graph->params[h->parameter].dtype == PST_F32;
    uint8_t kind = f32 ? PST_V_WEIGHT : PST_V_WORKING;
    const struct pst_plan *plan = h->check->plan;
    uint32_t n = row->stage < plan->n_stages ? pst_plan_slots(plan, row->stage) : 0;
    if (((f32 && whole) || h->piece.elems > 0 ? !is(h, row->weight, PST_V_WEIGHT, h->parameter, 0)
                                              : row->weight != PST_NONE) ||
        !is_version(h, row->working, kind, 0) || (f32 && row->working != row->weight)) {
        fault(h, "its weights are not where they should be");
    }
    bool right = row->n_versions == n && n > 0 && row->versions[0] == row->working;
    for (uint32_t v = 1; right && v < n; v++) {
        right = is_version(h, row->versions[v], kind, v);
    }
    if (!right) {
        fault(h, n > 1 ? "its rule needs several versions in buffers of their own"
                       : "passes of a step read one version of the weights");
    }
}

/* A rank that accumulates no more than its piece has none of an empty one. */
static bool is_accumulator(const struct holder *h, uint32_t v, uint32_t use, uint32_t parity)
{
    if (pst_check_scatters(h->check, h->parameter) && h->piece.elems == 0) {
        return v == PST_NONE;
    }
    return is(h, v, PST_V_GRAD, h->parameter, use) && h->program->values[v].microbatch == parity;
}

/* One accumulator for each use on this rank, and one more for every other batch where steps are
   deferred. */
static void check_accumulators(const struct holder *h, const struct pst_program_param *row)
{
    const struct pst_parameter *parameter = &h->check->graph->params[h->parameter];
    uint32_t n = 0;
    for (uint32_t u = 0; u < parameter->n_users; u++) {
        if (!is_local(h, parameter->users[u])) {
            continue;
        }
        for (uint32_t parity = 0; parity <= h->check->plan->deferred_step; parity++) {
            if (n >= row->n_grads || row->grad_users[n] != u ||
                !is_accumulator(h, row->grads[parity * row->n_grads + n], u, parity)) {
                fault(h, "an accumulator of its gradients is not where it should be");
                return;
            }
        }
        n++;
    }
    if (n != row->n_grads) {
        fault(h, "it has more accumulators than uses");
    }
    if (row->grad_first !=
        pst_check_grad_first(h->check, h->parameter, h->piece.elems > 0 ? h->piece : row->shard)) {
        rule_fault(h, "SHARD1", "its accumulators begin with another element");
    }
}

/* Room for its update, of its own stage, whose updates take turns in it. */
static bool has_room(const struct holder *h, const struct pst_program_param *row)
{
    const uint64_t wanted = pst_parameter_room(&h->check->graph->params[h->parameter]);
    const struct pst_value *value;
    if (wanted == 0) {
        return row->room == PST_NONE;
    }
    if (h->piece.elems == 0) {
        return true; /* no update */
    }
    if (row->room >= h->program->n_values) {
        return false;
    }
    value = &h->program->values[row->room];
    return value->kind == PST_V_OPTIMIZER && value->is_static && value->slot == PST_ROOM &&
           value->stage == row->stage && value->bytes >= wanted;
}

static void check_row(const struct holder *h, const struct pst_program_param *row)
{
    const struct pst_parameter *parameter = &h->check->graph->params[h->parameter];
    bool updated = false, lowest = true;
    for (uint32_t u = 0; u < parameter->n_users; u++) {
        uint32_t stage = h->check->stage_of[parameter->users[u]];
        updated |= is_local(h, parameter->users[u]) && stage == row->stage;
        lowest &= !is_local(h, parameter->users[u]) || stage >= row->stage;
    }
    check_piece(h, row);
    check_kept(h, row);
    check_weights(h, row);
    check_accumulators(h, row);
    if (parameter->n_users > 1 && h->piece.elems > 0 ? !is(h, row->tie, PST_V_TIE, h->parameter, 0)
                                                     : row->tie != PST_NONE) {
        fault(h, "the sum of its tied gradients is not where it should be");
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (i < pst_parameter_slots(parameter, h->check->plan->optimizer_slots) &&
                    h->piece.elems > 0
                ? !is(h, row->optimizer[i], PST_V_OPTIMIZER, h->parameter, i)
                : row->optimizer[i] != PST_NONE) {
            fault(h, "its optimizer state is not where it should be");
        }
    }
    if (!has_room(h, row)) {
        fault(h, "its update has no room in its stage");
    }
    if (!updated || (h->check->pieces[h->parameter] != NULL && !lowest)) {
        fault(h, "the STEP of another stage updates it");
    }
    if (row->owner != is_owner(h)) {
        rule_fault(h, "SHARD4", "the norm counts it elsewhere");
    }
}

static void check_statistics(struct holder *h)
{
    const struct pst_graph *graph = h->check->graph;
    for (uint32_t op = 0; op < graph->n_ops; op++) {
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t v = h->program->state_values[2 * (size_t)op + i];
            if (i < graph->ops[op].n_state && is_local(h, op) ? !is(h, v, PST_V_STATE, op, i)
                                                              : v != PST_NONE) {
                pst_check_add(h->check, "MEM2", h->program->rank, PST_NONE,
                              "operator %s: its running statistics are not where they should be",
                              graph->ops[op].name);
            }
        }
    }
}

/* Replicas of all its stages here are the same. */
static uint32_t member_of(const struct holder *h, const struct pst_program_param *row)
{
    const uint32_t *users = h->check->graph->params[row->parameter].users;
    uint32_t u = 0;
    while (!is_local(h, users[u])) {
        u++;
    }
    return pst_check_replica(h->check, h->program->rank, h->check->stage_of[users[u]]);
}

void pst_check_params(struct pst_check *check, const struct pst_program *program)
{
    struct holder h = {.check = check, .program = program};
    uint32_t at = 0;
    for (h.parameter = 0; h.parameter < check->graph->n_params; h.parameter++) {
        const struct pst_parameter *parameter = &check->graph->params[h.parameter];
        bool used = false;
        for (uint32_t u = 0; u < parameter->n_users; u++) {
            used |= is_local(&h, parameter->users[u]);
        }
        bool there = at < program->n_params && program->params[at].parameter == h.parameter;
        if (used != there) {
            fault(&h, used ? "it is used here, but has no place" : "it is not used here");
        } else if (there) {
            h.piece = pst_check_piece(check, h.parameter, member_of(&h, &program->params[at]));
            check_row(&h, &program->params[at]);
        }
        at += there;
    }
    if (at != program->n_params) {
        pst_check_add(check, "MEM2", program->rank, PST_NONE,
                      "parameters that do not exist, or not in ascending order");
    }
    check_statistics(&h);
}
