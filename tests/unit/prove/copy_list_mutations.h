/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutations of lists with copies to the host and back.
 */
#ifndef TESTS_CHECK_COPY_LIST_MUTATIONS_H
#define TESTS_CHECK_COPY_LIST_MUTATIONS_H

#include "unit/prove/mutant.h"

static inline bool is_out(const struct pst_instr *instr)
{
    return instr->op == PST_I_OFFLOAD;
}

static inline bool is_in(const struct pst_instr *instr)
{
    return instr->op == PST_I_FETCH;
}

static inline bool is_copy(const struct pst_instr *instr)
{
    return is_out(instr) || is_in(instr);
}

static inline void drop_wait(struct pst_instr *instr, uint32_t wait)
{
    uint32_t *waits = (uint32_t *)instr->waits, kept = 0;
    for (uint32_t w = 0; w < instr->n_waits; w++) {
        if (waits[w] != wait) {
            waits[kept++] = waits[w];
        }
    }
    assert_true(kept < instr->n_waits);
    instr->n_waits = kept;
}

static inline void add_wait(struct pst_instr *instr, uint32_t wait)
{
    uint32_t *waits = mu_copy(instr->waits, instr->n_waits * sizeof *waits, sizeof *waits);
    uint32_t at = instr->n_waits++;
    for (; at > 0 && waits[at - 1] > wait; at--) {
        waits[at] = waits[at - 1];
    }
    waits[at] = wait;
    free((void *)instr->waits);
    instr->waits = waits;
}

/* The OFFLOAD of a FETCH, which it waits for. */
static inline uint32_t out_of(struct mutant *m, struct place p)
{
    const struct pst_instr *in = mu_at(m, p), *list = m->lists[p.part][p.d];
    for (uint32_t w = 0; w < in->n_waits; w++) {
        if (is_out(&list[in->waits[w]])) {
            return in->waits[w];
        }
    }
    fail_msg("a FETCH without OFFLOAD");
    return 0;
}

/* The first instruction from `from` on that waits for `wait`, or PST_NONE. */
static inline uint32_t waiter_of(const struct mutant *m, struct place p, uint32_t from,
                                 uint32_t wait)
{
    for (uint32_t i = from; i < m->n[p.part][p.d]; i++) {
        const struct pst_instr *instr = &m->lists[p.part][p.d][i];
        for (uint32_t w = 0; w < instr->n_waits; w++) {
            if (instr->waits[w] == wait) {
                return i;
            }
        }
    }
    return PST_NONE;
}

static inline const char *without(struct mutant *m, struct place p)
{
    free((void *)mu_take_out(m, p).waits);
    return "PASS6";
}

static inline const char *twice(struct mutant *m, struct place p)
{
    struct pst_instr twin = *mu_at(m, p);
    twin.waits = mu_copy(twin.waits, twin.n_waits * sizeof(uint32_t), 0);
    p.i++;
    mu_put_in(m, p, twin);
    return "PASS6";
}

/* FETCH stands where its OFFLOAD stood, which comes right behind. */
static inline const char *too_early(struct mutant *m, struct place p)
{
    uint32_t out = out_of(m, p);
    drop_wait(mu_at(m, p), out);
    while (mu_at(m, p)->n_waits > 0) {
        drop_wait(mu_at(m, p), mu_at(m, p)->waits[0]);
    }
    assert_true(mu_relocate(m, p, out));
    return "PASS6";
}

static inline const char *in_before_out_ends(struct mutant *m, struct place p)
{
    drop_wait(mu_at(m, p), out_of(m, p));
    return "PASS6";
}

static inline const char *reader_does_not_wait(struct mutant *m, struct place p)
{
    drop_wait(&m->lists[p.part][p.d][waiter_of(m, p, p.i + 1, p.i)], p.i);
    return "PASS6";
}

/* Another pass waits for it first. */
static inline const char *other_reader(struct mutant *m, struct place p)
{
    uint32_t reader = waiter_of(m, p, p.i + 1, p.i), next = reader + 1;
    while (next < m->n[p.part][p.d] && !mu_is_pass(&m->lists[p.part][p.d][next])) {
        next++;
    }
    rig_need(m->rig, next != m->n[p.part][p.d]);
    const struct pst_instr *list = m->lists[p.part][p.d];
    if (list[next].stage == list[reader].stage &&
        list[next].microbatch == list[reader].microbatch) {
        return NULL; /* its W: MEM2 tells */
    }
    drop_wait(&m->lists[p.part][p.d][reader], p.i);
    add_wait(&m->lists[p.part][p.d][next], p.i);
    return "PASS6";
}

static inline const char *out_before_forward(struct mutant *m, struct place p)
{
    drop_wait(mu_at(m, p), mu_at(m, p)->waits[0]);
    return "PASS6";
}

/* OFFLOAD behind a later pass. */
static inline const char *behind_another(struct mutant *m, struct place p)
{
    uint32_t to = p.i + 1;
    while (to < m->n[p.part][p.d] && !mu_is_pass(&m->lists[p.part][p.d][to])) {
        to++;
    }
    return to == m->n[p.part][p.d] ? NULL : mu_relocate(m, p, to) ? "PASS6" : "FORM1";
}

static inline const char *kept(struct mutant *m, struct place p)
{
    struct pst_plan_stage *stage = &m->stages[mu_at(m, p)->stage];
    m->actions = mu_copy(stage->actions, stage->n_nodes, 0);
    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        if (stage->nodes[i] == mu_at(m, p)->node) {
            m->actions[i] = PST_ACTION_KEEP;
        }
    }
    stage->actions = m->actions;
    return "PASS6";
}

static inline const char *other_node(struct mutant *m, struct place p)
{
    struct pst_instr *copy = mu_at(m, p);
    copy->node += rig_draw(m->rig, 2) == 0 ? 1 : m->rig->graph->n_ops;
    return copy->node < m->rig->graph->n_ops ? "PASS6" : "FORM1";
}

static inline const char *other_microbatch(struct mutant *m, struct place p)
{
    struct pst_instr *copy = mu_at(m, p);
    copy->microbatch++;
    return copy->microbatch < m->stages[copy->stage].n_microbatches ? "PASS6" : "FORM1";
}

static inline bool waits_not_for_copies(const struct pst_instr *instr)
{
    return instr->op > PST_I_R && !is_copy(instr);
}

static inline const char *transfer_waits_for_copy(struct mutant *m, struct place p)
{
    struct place q = mu_draw(m, waits_not_for_copies);
    rig_need(m->rig, q.d == p.d && q.i >= p.i);
    add_wait(mu_at(m, q), p.i);
    return "FORM1";
}

static inline const char *copy_waits_for_transfer(struct mutant *m, struct place p)
{
    struct place q = mu_draw(m, mu_is_transfer);
    rig_need(m->rig, q.d == p.d && q.i <= p.i);
    add_wait(mu_at(m, p), q.i);
    return "FORM1";
}

static inline const char *behind_no_pass(struct mutant *m, struct place p)
{
    struct place q = mu_draw(m, waits_not_for_copies);
    rig_need(m->rig, q.d == p.d);
    struct pst_instr twin = *mu_at(m, p);
    twin.n_waits = 0;
    twin.waits = NULL;
    q.i++;
    mu_put_in(m, q, twin);
    return "FORM1";
}

static struct mutation list_mutations[] = {
    {"no FETCH", .fits = is_in, .at = without},
    {"no OFFLOAD", .fits = is_out, .at = without},
    {"twice", .fits = is_copy, .at = twice},
    {"FETCH too early", .fits = is_in, .at = too_early},
    {"FETCH alone", .fits = is_in, .at = in_before_out_ends},
    {"reader goes on", .fits = is_in, .at = reader_does_not_wait},
    {"other reader", .fits = is_in, .at = other_reader},
    {"OFFLOAD alone", .fits = is_out, .at = out_before_forward},
    {"behind another", .fits = is_out, .at = behind_another},
    {"kept", .fits = is_copy, .at = kept},
    {"other node", .fits = is_copy, .at = other_node},
    {"other micro-batch", .fits = is_copy, .at = other_microbatch},
    {"waits for a copy", .fits = is_copy, .at = transfer_waits_for_copy},
    {"copy waits", .fits = is_copy, .at = copy_waits_for_transfer},
    {"behind no pass", .fits = is_copy, .at = behind_no_pass},
};

#endif
