/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutations of what stands around the lists: stages, edges, ties, digests, modes. Some only apply
 * to synchronous plans, some only to asynchronous ones.
 */
#ifndef TESTS_CHECK_PLAN_MUTATIONS_H
#define TESTS_CHECK_PLAN_MUTATIONS_H

#include "unit/prove/mutant.h"

static inline struct pst_plan_stage *mu_stage(struct mutant *m)
{
    return &m->stages[mu_pick(m, m->made.n_stages)];
}

/* ranks[i] = i */
static inline const uint32_t *mu_all_ranks(void)
{
    static const uint32_t ranks[RIG_MAX] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return ranks;
}

static inline const char *mu_stage_elsewhere(struct mutant *m)
{
    static uint32_t ranks[RIG_MAX];
    struct pst_plan_stage *stage = mu_stage(m);
    rig_need(m->rig, m->made.n_devices != stage->n_ranks);
    for (uint32_t r = 0; r < stage->n_ranks; r++) {
        ranks[r] = (stage->ranks[r] + 1) % m->made.n_devices;
    }
    stage->ranks = ranks;
    return "PASS1 PART3 PART5"; /* it may come to a neighbour of another size */
}

/* Two replicas change places: each has the other's samples. */
static inline const char *mu_swap_replicas(struct mutant *m)
{
    static uint32_t ranks[RIG_MAX];
    struct pst_plan_stage *stage = mu_stage(m);
    rig_need(m->rig, stage->n_ranks >= 2);
    memcpy(ranks, stage->ranks, stage->n_ranks * sizeof *ranks);
    ranks[0] = stage->ranks[1];
    ranks[1] = stage->ranks[0];
    stage->ranks = ranks;
    m->open = true; /* where nobody else is there it does not matter who has which */
    return "PART3 COMM1";
}

/* A replica less than there are lists. */
static inline const char *mu_lose_replica(struct mutant *m)
{
    struct pst_plan_stage *stage = mu_stage(m);
    rig_need(m->rig, stage->n_ranks >= 2);
    stage->n_ranks--;
    return "PASS1 PASS4 PART3 PART6";
}

static inline const char *mu_no_device(struct mutant *m)
{
    mu_stage(m)->n_ranks = 0;
    return "PART3";
}

static inline const char *mu_one_replica_twice(struct mutant *m)
{
    static uint32_t ranks[2];
    struct pst_plan_stage *stage = mu_stage(m);
    ranks[0] = ranks[1] = stage->ranks[0];
    stage->ranks = ranks;
    stage->n_ranks = 2;
    return "PART3";
}

static inline const char *mu_uneven_replicas(struct mutant *m)
{
    struct pst_plan_stage *stage = mu_stage(m);
    rig_need(m->rig, m->made.n_devices > stage->microbatch_size);
    stage->ranks = mu_all_ranks();
    stage->n_ranks = stage->microbatch_size + 1;
    return "PART6";
}

static inline const char *mu_break_tie(struct mutant *m)
{
    rig_need(m->rig, m->made.n_ties > 0);
    struct pst_plan_tie *tie = &m->ties[mu_pick(m, m->made.n_ties)];
    switch (rig_draw(m->rig, 3)) {
    case 0:
        tie->parameter = (tie->parameter + 1) % m->rig->graph->n_params;
        return "PART4";
    case 1:
        tie->n_stages--;
        return tie->n_stages == 0 ? "FORM1" : "PART4";
    default:
        m->rig->plan->n_ties--;
        return "PART4 FORM1"; /* TIE instructions name what is not there */
    }
}

static inline const char *mu_lose_node(struct mutant *m)
{
    struct pst_plan_stage *stage = mu_stage(m);
    stage->n_nodes--;
    return stage->n_nodes == 0 ? "FORM1" : "PART1";
}

static inline const char *mu_move_node(struct mutant *m)
{
    struct pst_plan_stage *from = mu_stage(m), *to = from + 1;
    uint32_t s = (uint32_t)(from - m->stages);
    rig_need(m->rig, s + 1 != m->made.n_stages && from->n_nodes >= 2);
    uint32_t n = to->n_nodes;
    m->nodes = calloc(n + 1, sizeof *m->nodes);
    m->actions = calloc(n + 1, sizeof *m->actions);
    m->nodes[0] = from->nodes[--from->n_nodes];
    memcpy(m->nodes + 1, to->nodes, n * sizeof *m->nodes);
    to->nodes = m->nodes;
    to->actions = m->actions;
    to->n_nodes++;
    return m->nodes[0] < m->nodes[1] ? "PART2 PART4" : "FORM1";
}

static inline const char *mu_swap_stages(struct mutant *m)
{
    rig_need(m->rig, m->made.n_stages >= 2);
    struct pst_plan_stage *a = &m->stages[mu_pick(m, m->made.n_stages - 1)], *b = a + 1;
    struct pst_plan_stage kept = *a;
    a->nodes = b->nodes;
    a->n_nodes = b->n_nodes;
    a->actions = b->actions;
    b->nodes = kept.nodes;
    b->n_nodes = kept.n_nodes;
    b->actions = kept.actions;
    return "PART2";
}

static inline const char *mu_wrong_size(struct mutant *m)
{
    struct pst_plan_stage *stage = mu_stage(m);
    (*(rig_draw(m->rig, 2) == 0 ? &stage->microbatch_size : &stage->n_microbatches))++;
    return "PART5";
}

/* A neighbour on the same device gets half the size, and twice as many micro-batches. */
static inline const char *mu_unlike_neighbours(struct mutant *m)
{
    for (uint32_t e = 0; e < m->made.n_edges; e++) {
        struct pst_plan_stage *from = &m->stages[m->edges[e].from];
        struct pst_plan_stage *to = &m->stages[m->edges[e].to];
        if (from->ranks[0] == to->ranks[0] && to->microbatch_size % 2 == 0) {
            to->microbatch_size /= 2;
            to->n_microbatches *= 2;
            return "PART5";
        }
    }
    return NULL;
}

static inline const char *mu_wrong_edge_bytes(struct mutant *m)
{
    rig_need(m->rig, m->made.n_edges > 0);
    m->edges[mu_pick(m, m->made.n_edges)].bytes_per_sample ^= 1024;
    return "PART2";
}

static inline const char *mu_wrong_digest(struct mutant *m)
{
    m->rig->plan->graph_digest ^= 1ull << rig_draw(m->rig, 64);
    return "FORM2";
}

static inline const char *mu_wrong_action(struct mutant *m)
{
    struct pst_plan_stage *stage = mu_stage(m);
    m->actions = mu_copy(stage->actions, stage->n_nodes, 0);
    m->actions[rig_draw(m->rig, stage->n_nodes)] = PST_ACTION_PEER;
    stage->actions = m->actions;
    return "FORM1";
}

static inline const char *mu_other_barrier(struct mutant *m)
{
    m->rig->plan->barrier ^= true;
    return "COMM3 PASS4 WVER2";
}

/* One copy of two: those that share a rank have the others in another order; or two of one, where
   replicas may as well be called so. */
static inline const char *mu_other_copies(struct mutant *m)
{
    m->rig->plan->copies = 3 - m->rig->plan->copies;
    m->open = !m->made.asynchronous;
    for (uint32_t s = 0; s < m->made.n_stages; s++) {
        const struct pst_plan_stage *stage = &m->made.stages[s];
        m->open &= m->made.copies == 1 && stage->n_ranks % 2 == 0;
    }
    return "PART3 FORM1";
}

static inline const char *mu_wrong_versions(struct mutant *m)
{
    bool more = rig_draw(m->rig, 2) == 0;
    if (m->made.version_rule == PST_VERSION_STASHED) {
        struct pst_plan_stage *stage = mu_stage(m);
        stage->weight_versions = more ? stage->n_microbatches + 2 : 0;
        return "WVER2";
    }
    if (m->made.asynchronous) {
        mu_stage(m)->weight_versions = more ? 3 : 1;
        return "WVER2";
    }
    if (more) {
        mu_stage(m)->weight_versions = 2;
    } else {
        m->rig->plan->version_rule = PST_VERSION_DELAYED;
    }
    return "WVER1";
}

/* Something of asynchronous plans in a synchronous one. */
static inline const char *mu_foreign_mode(struct mutant *m)
{
    rig_need(m->rig, !m->made.asynchronous);
    switch (rig_draw(m->rig, 3)) {
    case 0:
        m->rig->plan->drain_every = 1;
        break;
    case 1:
        m->rig->plan->deferred_step = true;
        break;
    default: {
        uint32_t d = rig_draw(m->rig, m->made.n_devices);
        struct pst_instr pass = m->lists[PST_BODY][d][0];
        pass.waits = mu_copy(NULL, 0, 0);
        pass.n_waits = 0;
        mu_put_in(m, (struct place){PST_DRAIN, d, 0}, pass);
        break;
    }
    }
    return "FORM1";
}

static struct mutation plan_mutations[] = {
    MU(stage_elsewhere),  MU(no_device),      MU(one_replica_twice), MU(uneven_replicas),
    MU(swap_replicas),    MU(lose_replica),   MU(break_tie),         MU(lose_node),
    MU(move_node),        MU(swap_stages),    MU(wrong_size),        MU(unlike_neighbours),
    MU(wrong_edge_bytes), MU(wrong_digest),   MU(wrong_action),      MU(other_barrier),
    MU(other_copies),     MU(wrong_versions), MU(foreign_mode),
};
#define N_PLAN_MUTATIONS (sizeof plan_mutations / sizeof plan_mutations[0])

#endif
