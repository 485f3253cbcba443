/* SPDX-License-Identifier: Apache-2.0
 *
 * Legal plans for tests of checker, simulator and plan file: a model cut at random places, stages
 * dealt round robin to logical devices, of one or of several ranks each, passes in a random order
 * that respects all needs, then lowered.
 */
#ifndef TESTS_CHECK_RIG_H
#define TESTS_CHECK_RIG_H

#include <setjmp.h>

#include "base/philox.h"
#include "prove/check.h"
#include "plan/program.h"

#include "unit/graph/model_support.h"

#define RIG_MAX 16

struct rig {
    struct pst_graph *graph;
    struct pst_cluster cluster;
    struct pst_cost_model cost;
    struct pst_plan *plan;
    struct pst_program *programs[RIG_MAX];
    struct pst_check_limits limits;
    uint64_t seed, draws;
    jmp_buf nothing; /* to change: where rig_need goes */
};

struct rig_shape {
    uint32_t devices, chunks; /* logical ones; stages = devices x chunks */
    uint32_t batch;
    uint32_t microbatch; /* samples; 0: drawn for each stage */
    bool recompute;      /* every third stage */
    bool split;          /* B and W apart at random */
    uint32_t slots;
    bool no_barrier; /* the step needs no norm */
    bool replicas;   /* one to three ranks a logical device */
    bool offload;    /* nodes at random, and one run recomputed */
    bool guests;     /* nodes and micro-batches at random, on devices at random */
    bool two_way;    /* two copies, the second on the devices in the other order; one size */
    uint32_t zero;   /* 1: the ranks of a stage share the optimizer's state; 2: gradients, too */
    uint32_t prefetch;
    const uint32_t *ends; /* [stage] the operator behind its last; NULL: drawn */
};

static inline uint32_t rig_draw(struct rig *rig, uint32_t n)
{
    uint64_t block = rig->draws++;
    return pst_philox(rig->seed, (uint32_t)block, (uint32_t)(block >> 32)).v[0] % n;
}

/* A mutation cannot do without. */
static inline void rig_need(struct rig *rig, bool there)
{
    if (!there) {
        longjmp(rig->nothing, 1);
    }
}

static inline uint64_t rig_workspace(void *context, uint32_t op, uint32_t pass, uint32_t samples)
{
    return op % 3 == pass ? 64 + 4 * (uint64_t)samples + op : 0;
}

static inline void rig_open(struct rig *rig, const char *model, const char *settings, uint64_t seed)
{
    *rig = (struct rig){.cluster = {.devices = RIG_MAX,
                                    .flops = 1e9,
                                    .bf16_flops = 1e9,
                                    .memory_bandwidth = 1000000000,
                                    .launch_overhead = 1000,
                                    .link_bandwidth = 1000000000,
                                    .link_latency = 1000,
                                    .host_bandwidth = 100000000,
                                    .link_directions = 1},
                        .seed = seed};
    rig->graph = make_model(model, settings, PST_F32);
    rig->cost = (struct pst_cost_model){
        .graph = rig->graph, .cluster = &rig->cluster, .workspace = rig_workspace};
}

static inline void rig_drop_plan(struct rig *rig)
{
    for (uint32_t d = 0; d < RIG_MAX; d++) {
        pst_program_destroy(rig->programs[d]);
        rig->programs[d] = NULL;
    }
    pst_plan_destroy(rig->plan);
    rig->plan = NULL;
}

static inline void rig_close(struct rig *rig)
{
    rig_drop_plan(rig);
    pst_graph_destroy(rig->graph);
}

/* PENSTOCK_RIG_SHARE=n: of random plans an n-th, for tools that look for other faults than rules
 * do. */
static inline uint32_t rig_share(uint32_t n_plans)
{
    const char *share = getenv("PENSTOCK_RIG_SHARE");
    return share != NULL ? 1 + n_plans / (uint32_t)strtoul(share, NULL, 10) : n_plans;
}

/* Random plans of a model: `check` makes and checks each. PENSTOCK_SEED: another seed. */
static inline void rig_each(const char *model, const char *settings, uint32_t dtype, uint64_t seed,
                            uint32_t n_plans,
                            void (*check)(struct rig *rig, uint32_t i, const char *name))
{
    const char *other = getenv("PENSTOCK_SEED");
    FINISHED_BY(rig_close) struct rig rig;
    rig_open(&rig, model, settings, other != NULL ? strtoull(other, NULL, 10) : seed);
    if (dtype != PST_F32) {
        pst_graph_destroy(rig.graph);
        rig.graph = make_model(model, settings, dtype);
        rig.cost.graph = rig.graph;
    }
    print_message("%s: seed %llu\n", model, (unsigned long long)rig.seed);
    n_plans = rig_share(n_plans);
    for (uint32_t i = 0; i < n_plans; i++) {
        char name[32];
        snprintf(name, sizeof name, "plan %u", i);
        check(&rig, i, name);
        rig_drop_plan(&rig);
    }
}

/* --- a random order ------------------------------------------------------------------------- */

struct rig_order {
    struct rig *rig;
    bool *f, *b, *w; /* [stage * batch + micro-batch] done */
};

/* Every micro-batch of `other` that shares samples with micro-batch j of stage s is done. */
static inline bool rig_overlap_done(const struct rig_order *order, const bool *done, uint32_t s,
                                    uint32_t j, uint32_t other)
{
    const struct pst_plan *plan = order->rig->plan;
    uint32_t size = plan->stages[s].microbatch_size,
             size_other = plan->stages[other].microbatch_size;
    for (uint32_t i = j * size / size_other; i * size_other < (j + 1) * size; i++) {
        if (!done[other * plan->batch + i]) {
            return false;
        }
    }
    return true;
}

/* Slices of a sequence go forward from the first to the last, and back. */
static inline bool rig_slice_ready(const struct rig_order *order, uint32_t op, size_t at,
                                   uint32_t j)
{
    const uint32_t n = order->rig->graph->slices, slice = n > 1 ? j % n : 0;
    return op == PST_PASS_F   ? slice == 0 || order->f[at - 1]
           : op == PST_PASS_B ? n <= 1 || slice + 1 == n || order->b[at + 1]
                              : true;
}

static inline bool rig_ready(const struct rig_order *order, uint32_t op, uint32_t s, uint32_t j)
{
    const struct pst_plan *plan = order->rig->plan;
    size_t at = (size_t)s * plan->batch + j;
    bool *self = op == PST_PASS_F ? order->f : op == PST_PASS_W ? order->w : order->b;
    if (self[at] || (op != PST_PASS_F && !(op == PST_PASS_W ? order->b : order->f)[at]) ||
        !rig_slice_ready(order, op, at, j)) {
        return false;
    }
    for (uint32_t e = 0; e < plan->n_edges && op != PST_PASS_W; e++) {
        const struct pst_plan_edge *edge = &plan->edges[e];
        if (op == PST_PASS_F ? edge->to == s : edge->from == s) {
            if (!rig_overlap_done(order, op == PST_PASS_F ? order->f : order->b, s, j,
                                  op == PST_PASS_F ? edge->from : edge->to)) {
                return false;
            }
        }
    }
    return true;
}

/* One pass of the device, drawn among those of a copy that are ready; false if none is. */
static inline bool rig_pick(struct rig_order *order, uint32_t copy, uint32_t d, bool split,
                            struct pst_pass *ret_pass)
{
    const struct pst_plan *plan = order->rig->plan;
    uint32_t n = 0;
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        bool here = pst_plan_copy_ranks(plan, &plan->stages[s], copy)[0] == d;
        for (uint32_t j = 0; here && j < plan->stages[s].n_microbatches; j++) {
            for (uint32_t op = PST_PASS_F; op <= PST_PASS_W; op++) {
                if (rig_ready(order, op, s, j) && rig_draw(order->rig, ++n) == 0) {
                    *ret_pass = (struct pst_pass){(uint8_t)op, s, j};
                }
            }
        }
    }
    if (n == 0) {
        return false;
    }
    size_t at = (size_t)ret_pass->stage * plan->batch + ret_pass->microbatch;
    bool *done = ret_pass->op == PST_PASS_F   ? order->f
                 : ret_pass->op == PST_PASS_W ? order->w
                                              : order->b;
    done[at] = true;
    if (ret_pass->op == PST_PASS_B && !(split && rig_draw(order->rig, 2) == 0)) {
        ret_pass->op = PST_PASS_BW;
        order->w[at] = true;
    }
    return true;
}

static inline void rig_random_orders(struct rig *rig, bool split, struct pst_pass **orders,
                                     uint32_t *n_passes)
{
    size_t room = (size_t)rig->plan->n_stages * rig->plan->batch;
    struct rig_order copies[2];
    uint32_t n = rig->plan->copies;
    bool moved = true;
    for (uint32_t c = 0; c < n; c++) {
        copies[c] = (struct rig_order){rig, calloc(room, 1), calloc(room, 1), calloc(room, 1)};
    }
    while (moved) {
        moved = false;
        for (uint32_t d = 0; d < rig->plan->n_devices; d++) {
            uint32_t first = n > 1 ? rig_draw(rig, n) : 0;
            for (uint32_t c = 0; c < n; c++) {
                moved |= rig_pick(&copies[(first + c) % n], (first + c) % n, d, split,
                                  &orders[d][n_passes[d]]) &&
                         ++n_passes[d] > 0;
            }
        }
    }
    for (uint32_t c = 0; c < n; c++) {
        free(copies[c].f);
        free(copies[c].b);
        free(copies[c].w);
    }
}

/* --- plans ----------------------------------------------------------------------------------- */

/* The program of a rank, made anew, and what the plan says of its size. */
static inline void rig_program(struct rig *rig, uint32_t d)
{
    struct pst_error err = {0};
    pst_program_destroy(rig->programs[d]);
    rig->programs[d] = NULL;
    if (pst_program_create(rig->plan, rig->graph, &rig->cost, d, &rig->programs[d], &err) !=
        PST_OK) {
        fail_msg("program: %s\n%s", err.message, err.details);
    }
    rig->plan->devices[d].peak_bytes = rig->programs[d]->peak_bytes;
    rig->plan->devices[d].arena_bytes = rig->programs[d]->arena_bytes;
    rig->plan->devices[d].host_bytes = rig->programs[d]->host_bytes;
}

static inline void rig_programs(struct rig *rig)
{
    for (uint32_t d = 0; d < rig->plan->n_devices; d++) {
        rig_program(rig, d);
    }
}

/* Which ranks each logical device has: all of them, shuffled, are dealt out. */
struct rig_groups {
    uint32_t n_ranks, width[RIG_MAX], ranks[RIG_MAX][3];
};

static inline struct rig_groups rig_draw_groups(struct rig *rig, const struct rig_shape *shape)
{
    struct rig_groups groups = {0};
    uint32_t order[RIG_MAX], at = 0;
    for (uint32_t d = 0; d < shape->devices; d++) {
        do {
            groups.width[d] = shape->replicas ? 1 + rig_draw(rig, 3) : 1;
        } while ((shape->microbatch > 0 ? shape->microbatch : shape->batch) % groups.width[d] != 0);
        groups.n_ranks += groups.width[d];
    }
    assert_true(groups.n_ranks <= RIG_MAX);
    for (uint32_t i = 0; i < groups.n_ranks; i++) {
        uint32_t other = shape->replicas ? rig_draw(rig, i + 1) : i;
        order[i] = order[other];
        order[other] = i;
    }
    for (uint32_t d = 0; d < shape->devices; d++) {
        for (uint32_t r = 0; r < groups.width[d]; r++) {
            groups.ranks[d][r] = order[at++];
        }
    }
    return groups;
}

/* Half of the nodes go to the host; some in a row are recomputed. */
static inline void rig_draw_actions(struct rig *rig, struct pst_plan_stage *stage)
{
    uint8_t *actions = (uint8_t *)stage->actions;
    uint32_t first = rig_draw(rig, stage->n_nodes), n = rig_draw(rig, stage->n_nodes - first + 1);
    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        actions[i] = rig_draw(rig, 2) == 0 ? PST_ACTION_OFFLOAD : PST_ACTION_KEEP;
    }
    if (rig_draw(rig, 2) == 0) {
        memset(actions + first, PST_ACTION_RECOMPUTE, n);
    }
}

static inline void rig_cut(struct rig *rig, const struct rig_shape *shape)
{
    struct pst_error err = {0};
    struct rig_groups groups = rig_draw_groups(rig, shape);
    uint32_t n = rig->graph->n_ops, n_stages = shape->devices * shape->chunks, at = 0;
    uint32_t *nodes = calloc(n, sizeof *nodes);
    for (uint32_t v = 0; v < n; v++) {
        nodes[v] = v;
    }
    assert_true(n_stages <= n && shape->devices <= RIG_MAX);
    pst_plan_create(rig->graph, shape->batch, groups.n_ranks, &rig->plan);
    rig->plan->copies = shape->two_way ? 2 : 1;
    rig->plan->zero = shape->zero;
    rig->plan->prefetch = shape->prefetch;
    for (uint32_t s = 0; s < n_stages; s++) {
        uint32_t left = n - at - (n_stages - s - 1), d = s % shape->devices;
        uint32_t take =
            s + 1 == n_stages ? n - at : 1 + rig_draw(rig, 1 + 2 * left / (n_stages - s));
        uint32_t size = shape->microbatch, n_ranks = groups.width[d];
        take = shape->ends != NULL ? shape->ends[s] - at : take > left ? left : take;
        while (size == 0 || shape->batch % size != 0 || size % groups.width[d] != 0) {
            size = 1 + rig_draw(rig, shape->batch);
        }
        if (shape->two_way) {
            groups.ranks[d][n_ranks++] = groups.ranks[shape->devices - 1 - d][0];
        }
        pst_plan_add_stage(rig->plan, nodes + at, take, groups.ranks[d], n_ranks, size, 1);
        if (shape->recompute && s % 3 == 0) {
            memset((uint8_t *)rig->plan->stages[s].actions, PST_ACTION_RECOMPUTE, take);
        }
        if (shape->offload) {
            rig_draw_actions(rig, &rig->plan->stages[s]);
        }
        at += take;
    }
    rig->plan->optimizer_slots = shape->slots;
    rig->plan->barrier = !shape->no_barrier;
    rig->plan->spread_sends = shape->offload && rig_draw(rig, 2) == 0;
    assert_int_equal(pst_plan_connect(rig->plan, rig->graph, &err), PST_OK);
    free(nodes);
}

/* Where a pass stands in an order. */
static inline uint32_t rig_find(const struct pst_pass *order, uint32_t n, uint32_t s, uint32_t j,
                                bool forward)
{
    uint32_t at = 0;
    while (at < n && (order[at].stage != s || order[at].microbatch != j ||
                      order[at].op == PST_PASS_W || (order[at].op == PST_PASS_F) != forward)) {
        at++;
    }
    return at;
}

/* Some of what a stage makes goes to another device for a while: half of the micro-batches for
   which there is time, each to a device of its own choice. */
static inline void rig_draw_guests(struct rig *rig, uint32_t s, const struct pst_pass *order,
                                   uint32_t n_passes)
{
    struct pst_plan *plan = rig->plan;
    struct pst_plan_stage *stage = &plan->stages[s];
    struct pst_plan_guest *guests =
        pst_arena_array(&plan->arena, stage->n_microbatches, sizeof *guests);
    uint8_t *actions = (uint8_t *)stage->actions;
    uint32_t *tensors, n_tensors, n = 0;
    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        if (actions[i] == PST_ACTION_KEEP && rig_draw(rig, 3) > 0) {
            actions[i] = PST_ACTION_PEER;
        }
    }
    pst_plan_guest_tensors(stage, rig->graph, &plan->arena, &tensors, &n_tensors);
    for (uint32_t j = 0; n_tensors > 0 && j < stage->n_microbatches; j++) {
        const struct pst_plan_stage *host = &plan->stages[rig_draw(rig, plan->n_stages)];
        if (host->n_ranks == stage->n_ranks && host->ranks[0] != stage->ranks[0] &&
            rig_find(order, n_passes, s, j, true) + 3 <= rig_find(order, n_passes, s, j, false) &&
            rig_draw(rig, 2) == 0) {
            guests[n++] = (struct pst_plan_guest){j, host->ranks[0]};
        }
    }
    for (uint32_t i = 0; n == 0 && i < stage->n_nodes; i++) {
        actions[i] = actions[i] == PST_ACTION_PEER ? PST_ACTION_KEEP : actions[i];
    }
    stage->guests = guests;
    stage->n_guests = n;
}

/* Lists, programs and peaks of a plan that was cut. */
static inline void rig_lower(struct rig *rig, const struct rig_shape *shape)
{
    struct pst_error err = {0};
    struct pst_pass *orders[RIG_MAX] = {NULL};
    uint32_t n_passes[RIG_MAX] = {0};
    const struct pst_pass *lists[RIG_MAX];
    for (uint32_t d = 0; d < rig->plan->n_devices; d++) {
        lists[d] = orders[d] =
            calloc(6 * (size_t)shape->chunks * shape->batch + 1, sizeof **orders);
    }
    rig_random_orders(rig, shape->split, orders, n_passes);
    for (uint32_t s = 0; s < rig->plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &rig->plan->stages[s];
        for (uint32_t r = 1; r < pst_plan_width(rig->plan, stage); r++) {
            lists[stage->ranks[r]] = orders[stage->ranks[0]];
            n_passes[stage->ranks[r]] = n_passes[stage->ranks[0]];
        }
        if (shape->guests) {
            rig_draw_guests(rig, s, lists[stage->ranks[0]], n_passes[stage->ranks[0]]);
        }
    }
    if (pst_plan_lower(rig->plan, rig->graph, &rig->cost, lists, n_passes, true, &err) != PST_OK) {
        fail_msg("lowering: %s\n%s", err.message, err.details);
    }
    for (uint32_t d = 0; d < rig->plan->n_devices; d++) {
        free(orders[d]);
    }
    rig_programs(rig);
}

/* A lowered plan with programs and peaks. */
static inline void rig_plan(struct rig *rig, const struct rig_shape *shape)
{
    rig_cut(rig, shape);
    rig_lower(rig, shape);
}

static inline pst_status rig_check(struct rig *rig, bool with_programs,
                                   struct pst_check_report *report, struct pst_error *err)
{
    return pst_plan_check(rig->plan, rig->graph, &rig->limits,
                          with_programs ? (const struct pst_program *const *)rig->programs : NULL,
                          report, err);
}

/* One of these. */
static inline bool rig_has_rule(const struct pst_check_report *report, const char *rules)
{
    for (uint32_t i = 0; i < report->n_violations && i < PST_CHECK_MAX; i++) {
        if (strstr(rules, report->violations[i].rule) != NULL) {
            return true;
        }
    }
    return false;
}

/* A shape drawn from the rig's numbers; one size for all where a device holds several stages. */
static inline struct rig_shape rig_draw_shape(struct rig *rig)
{
    struct rig_shape shape = {.devices = 1 + rig_draw(rig, 4),
                              .chunks = 1 + rig_draw(rig, 2),
                              .batch = rig_draw(rig, 2) == 0 ? 6 : 4,
                              .recompute = rig_draw(rig, 2) == 0,
                              .split = rig_draw(rig, 2) == 0,
                              .slots = rig_draw(rig, 3)};
    if (shape.chunks > 1 || rig_draw(rig, 2) == 0) {
        shape.microbatch = 1 + rig_draw(rig, 2);
    }
    shape.replicas = rig_draw(rig, 2) == 0;
    if (shape.replicas && shape.microbatch > 0 && shape.batch == 6) {
        shape.microbatch *= 3; /* 3 or 6 */
    }
    shape.two_way = !shape.replicas && shape.devices % 2 == 0 && rig_draw(rig, 2) == 0;
    shape.microbatch = shape.two_way ? 2 : shape.microbatch;
    return shape;
}

#endif
