/* SPDX-License-Identifier: Apache-2.0
 *
 * A strategy that gives a wrong answer in a chosen way; "none" is an honest and simple one. Built
 * three times: LIAR_PARTITIONER, LIAR_SCHEDULER, LIAR_MEMOPT.
 */
#include <string.h>

#include <penstock/memopt_global.h>

#include "gallery.h"

struct config {
    uint32_t lie;
};

PST_INSTANCE(liar, struct config)

#if defined(LIAR_PARTITIONER)
#define KIND "partitioner"
#define LIES "none|missing|twice|order|far|rank|size|empty|deaf|replicas|wait|few|shy"
enum { NONE, MISSING, TWICE, ORDER, FAR, RANK, SIZE, EMPTY, DEAF, REPLICAS, WAIT, FEW, SHY };

static pst_status declare(struct pst_partition_out *out, const uint32_t *nodes, uint32_t n,
                          const uint32_t *ranks, uint32_t n_ranks, uint32_t size)
{
    const struct pst_stage_decl stage = {.size = sizeof stage,
                                         .nodes = nodes,
                                         .n_nodes = n,
                                         .ranks = ranks,
                                         .n_ranks = n_ranks,
                                         .microbatch_size = size,
                                         .k = 1};

    return out->stage(out, &stage);
}

/* Two stages: the first half and the rest, changed by the lie. */
static pst_status partition(void *self_, const struct pst_partition_in *in,
                            struct pst_partition_out *out)
{
    const struct liar *self = self_;
    uint32_t lie = self->config->lie, n = in->graph->n_nodes, half = n / 2, v, first = half;
    uint32_t *nodes = self->host->alloc(self->host, (n + 1) * sizeof *nodes, 4);
    const uint32_t ranks[] = {0, lie == RANK ? 0 : 1};
    pst_status st;

    if (nodes == NULL) {
        return PST_ERR_NOMEM;
    }
    for (v = 0; v < n; v++) {
        nodes[v] = v;
    }
    if (lie == WAIT) {
        while (!self->host->cancelled(self->host)) {
        }
        return PST_ERR_CANCELLED;
    }
    if (lie == SHY) {
        return PST_ERR_INFEASIBLE;
    }
    if (lie == ORDER) { /* the second half first */
        return declare(out, nodes + half, n - half, ranks, 1, in->micro_batches[0]);
    }
    if (lie == FEW) {
        return declare(out, nodes, n, ranks, 1, in->micro_batches[0]);
    }
    st = declare(out, nodes, half, ranks, lie == REPLICAS ? 2 : 1,
                 in->micro_batches[0] + (lie == SIZE ? 1 : 0));
    if (st != PST_OK) {
        return st;
    }
    first += lie == MISSING ? 1 : 0;
    first -= lie == TWICE ? 1 : 0;
    nodes[n - 1] += lie == FAR || lie == DEAF ? 1 : 0;
    st = declare(out, nodes + first, lie == EMPTY ? 0 : n - first, &ranks[1], 1,
                 in->micro_batches[0]);
    return lie == DEAF ? PST_OK : st;
}

static const struct pst_partitioner functions = {.size = sizeof functions, .partition = partition};

#ifdef LIAR_RIVAL
#define WORDS "chain", "rival=lie:" LIAR_RIVAL
#else
#define WORDS "chain"
#endif
#define INTERFACE PST_PARTITIONER

#elif defined(LIAR_SCHEDULER)
#define KIND "scheduler"
#define LIES "none|missing|twice|early|device|deadlock|part|many|mute|async|held|leak|hoard|branch"
#ifndef CHUNKS
#define CHUNKS 0 /* stages per device; 0: as many as the partitioner makes */
#endif
enum {
    NONE,
    MISSING,
    TWICE,
    EARLY,
    DEVICE,
    DEADLOCK,
    PART,
    MANY,
    MUTE,
    ASYNC,
    HELD,
    LEAK,
    HOARD,
    BRANCH
};

static pst_status topology(void *self_, uint32_t n_devices, struct pst_topology *ret_topology)
{
    const struct liar *self = self_;

    ret_topology->n_stages = CHUNKS * n_devices;
    ret_topology->version_rule = self->config->lie == ASYNC || self->config->lie == LEAK
                                     ? PST_VERSION_DELAYED
                                     : PST_VERSION_SYNC;
    ret_topology->min_microbatches = self->config->lie == MANY ? 1000 : 1;
    ret_topology->microbatch_multiple = 1;
    return PST_OK;
}

#if CHUNKS > 0
static uint32_t device_of(void *self, uint32_t n_devices, uint32_t n_stages, uint32_t stage)
{
    return stage % n_devices;
}
#endif

#ifdef LIAR_IN_FLIGHT
static pst_status in_flight(void *self_, const struct pst_place *place, struct pst_held *ret_held)
{
    const struct liar *self = self_;

    ret_held->microbatches = self->config->lie == HELD ? 0 : 1;
    if (self->config->lie == BRANCH && place->n_successors <= 1) {
        ret_held->microbatches = 2; /* the truth */
    }
    return PST_OK;
}
#endif

#if CHUNKS > 0
/* All forwards stage by stage, then all backwards. */
static pst_status schedule_chunks(const struct pst_schedule_in *in, struct pst_schedule_out *out)
{
    uint32_t i, j;
    pst_status st = PST_OK;

    for (i = 0; i < 2 * in->n_stages; i++) {
        uint32_t s = i < in->n_stages ? i : 2 * in->n_stages - 1 - i;
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, s);

        for (j = 0; st == PST_OK && j < stage->n_microbatches; j++) {
            st = out->emit(out, stage->device, i < in->n_stages ? PST_PASS_F : PST_PASS_BW, s, j);
        }
    }
    return st;
}
#endif

/* Each batch in its body, and the last one in drain, where the last backward is missing. */
static pst_status schedule_parts(const struct pst_schedule_in *in, struct pst_schedule_out *out)
{
    uint32_t part, s, j;
    pst_status st = PST_OK;

    for (part = PST_PART_BODY; st == PST_OK && part <= PST_PART_DRAIN; part++) {
        st = out->part(out, part);
        for (s = 0; s < in->n_stages; s++) {
            const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, s);

            for (j = 0; st == PST_OK && j < stage->n_microbatches; j++) {
                bool leaks = part == PST_PART_DRAIN && j + 1 == stage->n_microbatches;

                st = out->emit(out, stage->device, PST_PASS_F, s, j);
                if (st == PST_OK && !leaks) {
                    st = out->emit(out, stage->device, PST_PASS_BW, s, j);
                }
            }
        }
    }
    return st;
}

/* One micro-batch after the other, forward and backward. */
static pst_status schedule(void *self_, const struct pst_schedule_in *in,
                           struct pst_schedule_out *out)
{
    const struct liar *self = self_;
    uint32_t lie = self->config->lie, s, j;

#if CHUNKS > 0
    if (lie == NONE) {
        return schedule_chunks(in, out);
    }
#endif
    if (lie == PART) {
        return out->part(out, PST_PART_FILL);
    }
    if (lie == LEAK) {
        return schedule_parts(in, out);
    }
    for (s = 0; s < in->n_stages && lie != MUTE; s++) {
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, s);
        uint32_t m = stage->n_microbatches;

        for (j = 0; j < m; j++) {
            uint32_t mb = lie == DEADLOCK && s == 1 ? m - 1 - j : j;
            pst_status st = PST_OK;

            if (lie == EARLY) {
                st = out->emit(out, stage->device, PST_PASS_BW, s, mb);
            }
            if ((lie == HOARD || lie == BRANCH) && j == 0 && m > 1) { /* one more than it says */
                st = out->emit(out, stage->device, PST_PASS_F, s, 1);
            }
            if (st == PST_OK && !((lie == HOARD || lie == BRANCH) && j == 1)) {
                st = out->emit(out, lie == DEVICE ? stage->device + 1 : stage->device, PST_PASS_F,
                               s, mb);
            }
            if (st == PST_OK && !(lie == MISSING && j + 1 == m)) {
                st = out->emit(out, stage->device, PST_PASS_BW, s, mb);
            }
            if (st == PST_OK && lie == TWICE) {
                st = out->emit(out, stage->device, PST_PASS_BW, s, mb);
            }
            if (st != PST_OK) {
                return st;
            }
        }
    }
    return PST_OK;
}

static const struct pst_scheduler functions = {.size = sizeof functions,
                                               .topology = topology,
#if CHUNKS > 0
                                               .device_of = device_of,
#endif
#ifdef LIAR_IN_FLIGHT
                                               .in_flight = in_flight,
#endif
                                               .schedule = schedule};
#define WORDS     "chain", "chunks"
#define INTERFACE PST_SCHEDULER

#else
#define KIND "memopt"
#define LIES "none|far|action|peer|promise|nested|broken|haste"
enum { NONE, FAR, ACTION, PEER, PROMISE, NESTED, BROKEN, HASTE };

static pst_status price(void *self_, const struct pst_stage_view *view,
                        struct pst_stage_price *ret_price)
{
    const struct liar *self = self_;
    const struct pst_eval *eval = self->host->get_extension(self->host, PST_EVAL);
    struct pst_stage_value value = {.size = sizeof value};
    pst_status st = eval->evaluate(self->host, view, NULL, &value);

    ret_price->fits = 1;
    ret_price->period_ns = self->config->lie == HASTE ? 1 : value.period_ns;
    ret_price->peak_bytes = self->config->lie == PROMISE ? 1 : value.peak_bytes;
    return self->config->lie == BROKEN ? 4711 : st;
}

static pst_status plan(void *self_, const struct pst_stage_view *view, struct pst_action_out *out)
{
    const struct liar *self = self_;

    switch (self->config->lie) {
    case FAR:
        return out->set(out, view->n_nodes, PST_ACTION_RECOMPUTE);
    case ACTION:
        return out->set(out, 0, 77);
    case PEER:
        return out->set(out, 0, PST_ACTION_PEER);
    default:
        return PST_OK;
    }
}

static const struct pst_memopt functions = {.size = sizeof functions, .price = price, .plan = plan};
#ifdef LIAR_NESTED
#define WORDS "chain", "recompute", "nested"
#else
#define WORDS "chain", "recompute", "peer"
#endif
#ifdef LIAR_GLOBAL
static pst_status plan_all(void *self, const struct pst_global_in *in, struct pst_global_out *out)
{
    return PST_OK;
}

static const struct pst_memopt_global global_functions = {.size = sizeof global_functions,
                                                          .plan = plan_all};
#endif
#define INTERFACE PST_MEMOPT
#endif

static const struct pst_param params[] = {
    PST_PARAM(struct config, lie, PST_PARAM_ENUM, "none", LIES, "How the answer is wrong."),
};

static const void *get_interface(const char *id)
{
#ifdef LIAR_GLOBAL
    if (strcmp(id, PST_MEMOPT_GLOBAL) == 0) {
        return &global_functions;
    }
#endif
    return strcmp(id, INTERFACE) == 0 ? &functions : NULL;
}

GALLERY_PLUGIN(KIND, LIAR_ID, "0", "Gives wrong answers on request.",
               PST_PLUGIN_PARAMS(params, struct config), WORDS)
