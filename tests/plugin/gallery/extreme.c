/* SPDX-License-Identifier: Apache-2.0
 *
 * A strategy that writes where it may only read, or answers with a number at the end of its range,
 * as `lie` says; "none" is honest. Built once a kind: EXTREME_PARTITIONER, EXTREME_SCHEDULER,
 * EXTREME_MEMOPT.
 */
#include <string.h>

#include <penstock/memopt_global.h>

#include "gallery.h"

struct config {
    uint32_t lie;
};

struct extreme {
    const struct pst_host *host;
    const struct config *config;
};

/* What is const is so by a promise alone. */
#define WRITE(type, at) ((type *)(uintptr_t)(at))

#if defined(EXTREME_PARTITIONER)
#define KIND  "partitioner"
#define WORDS "chain"
#define LIES                                                                                       \
    "none|name|op|edge|batch|memory|degree|figures|k-most|k-none|size-most|size-none|node-most|"   \
    "rank-most|rank-twice|null-nodes|null-ranks|no-size|many-ranks|many-nodes|silent|ask-stages|"  \
    "ask-microbatches|ask-devices|ask-no-devices|ask-null|ask-early"
enum {
    NONE,
    NAME,
    OP,
    EDGE,
    BATCH,
    MEMORY,
    DEGREE,
    FIGURES,
    K_MOST,
    K_NONE,
    SIZE_MOST,
    SIZE_NONE,
    NODE_MOST,
    RANK_MOST,
    RANK_TWICE,
    NULL_NODES,
    NULL_RANKS,
    NO_SIZE,
    MANY_RANKS,
    MANY_NODES,
    SILENT,
    ASK_STAGES,
    ASK_MICROBATCHES,
    ASK_DEVICES,
    ASK_NO_DEVICES,
    ASK_NULL,
    ASK_EARLY
};

static pst_status ask_most(const struct extreme *self)
{
    const struct pst_ask *ask = self->host->get_extension(self->host, PST_ASK);
    struct pst_place place = {.size = sizeof place,
                              .n_stages = 2,
                              .n_devices = 2,
                              .n_microbatches = 4,
                              .microbatch_size = 2,
                              .k = 1};
    struct pst_stage_question question = {.size = sizeof question,
                                          .n_nodes = 1,
                                          .n_stages = 2,
                                          .microbatch_size = 2,
                                          .n_ranks = 1,
                                          .in_flight = 1,
                                          .weight_versions = 1};
    struct pst_stage_price price = {.size = sizeof price};
    struct pst_topology topology = {.size = sizeof topology};
    struct pst_held held = {.size = sizeof held};

    switch (self->config->lie) {
    case ASK_STAGES:
        place.n_stages = PST_NONE;
        return ask->in_flight(self->host, &place, &held);
    case ASK_MICROBATCHES:
        place.n_microbatches = PST_NONE;
        return ask->in_flight(self->host, &place, &held);
    case ASK_DEVICES:
        return ask->topology(self->host, PST_NONE, &topology);
    case ASK_NO_DEVICES:
        return ask->topology(self->host, 0, &topology);
    case ASK_EARLY:
        return ask->topology(self->host, 2, &topology);
    case ASK_NULL:
        return ask->price(self->host, &question, &price);
    default:
        return PST_OK;
    }
}

static void write_view(const struct extreme *self, const struct pst_partition_in *in)
{
    const struct pst_profile *profile = self->host->get_extension(self->host, PST_PROFILE);

    switch (self->config->lie) {
    case NAME:
        WRITE(char, pst_graph_node(in->graph, 0)->name)[0] = 'X';
        return;
    case OP:
        WRITE(char, pst_graph_node(in->graph, 0)->op)[0] = 'X';
        return;
    case EDGE:
        WRITE(struct pst_edge, pst_graph_edge(in->graph, 0))->bytes /= 2;
        return;
    case BATCH:
        WRITE(struct pst_partition_in, in)->batch *= 2;
        return;
    case MEMORY:
        WRITE(struct pst_cluster_device, pst_cluster_device_at(in->cluster, 0))->memory_bytes = 1;
        return;
    case DEGREE:
        WRITE(uint32_t, in->degrees)[0]++;
        return;
    case FIGURES:
        WRITE(double, profile->figures(self->host)->edge_bytes)[0] = 0;
        return;
    default:
        return;
    }
}

static void change_stage(uint32_t lie, struct pst_stage_decl *stage)
{
    static uint32_t far[] = {PST_NONE}, first[] = {0};

    switch (lie) {
    case K_MOST:
        stage->k = PST_NONE;
        return;
    case K_NONE:
        stage->k = 0;
        return;
    case SIZE_MOST:
        stage->microbatch_size = PST_NONE;
        return;
    case SIZE_NONE:
        stage->microbatch_size = 0;
        return;
    case NODE_MOST:
        stage->nodes = far;
        stage->n_nodes = 1;
        return;
    case RANK_MOST:
        stage->ranks = far;
        return;
    case RANK_TWICE:
        stage->ranks = first;
        return;
    case NULL_NODES:
        stage->nodes = NULL;
        return;
    case NULL_RANKS:
        stage->ranks = NULL;
        return;
    case NO_SIZE:
        stage->size = 0;
        return;
    case MANY_RANKS:
        stage->n_ranks = PST_NONE;
        return;
    case MANY_NODES:
        stage->n_nodes = PST_NONE;
        return;
    default:
        return;
    }
}

/* Two stages, the second of which is changed. */
static pst_status partition(void *self_, const struct pst_partition_in *in,
                            struct pst_partition_out *out)
{
    static const uint32_t ranks[] = {0, 1};
    const struct extreme *self = self_;
    uint32_t n = in->graph->n_nodes, half = n / 2;
    uint32_t *nodes = self->host->alloc(self->host, (n + 1) * sizeof *nodes, 4);
    pst_status st = nodes == NULL ? PST_ERR_NOMEM : PST_OK;

    for (uint32_t v = 0; st == PST_OK && v < n; v++) {
        nodes[v] = v;
    }
    if (st == PST_OK) {
        write_view(self, in);
        st = ask_most(self);
    }
    for (uint32_t s = 0; st == PST_OK && s < 2 && self->config->lie != SILENT; s++) {
        struct pst_stage_decl stage = {.size = sizeof stage,
                                       .nodes = nodes + (s == 0 ? 0 : half),
                                       .n_nodes = s == 0 ? half : n - half,
                                       .ranks = &ranks[s],
                                       .n_ranks = 1,
                                       .microbatch_size = in->micro_batches[0],
                                       .k = 1};

        if (s == 1) {
            change_stage(self->config->lie, &stage);
        }
        st = out->stage(out, &stage);
    }
    return st;
}

PST_INTERFACE(PST_PARTITIONER, struct pst_partitioner, .partition = partition)

#elif defined(EXTREME_SCHEDULER)
#define KIND  "scheduler"
#define WORDS "chain", "split-backward"
#define LIES                                                                                       \
    "none|times|link|room|place|stages-most|rule-most|least-none|least-most|multiple-none|"        \
    "multiple-most|device-other|device-most|held-none|held-most|versions-most|pass-most|"          \
    "stage-most|microbatch-most|emit-most|part-most|pair-most"
enum {
    NONE,
    TIMES,
    LINK,
    ROOM,
    PLACE,
    STAGES_MOST,
    RULE_MOST,
    LEAST_NONE,
    LEAST_MOST,
    MULTIPLE_NONE,
    MULTIPLE_MOST,
    DEVICE_OTHER,
    DEVICE_MOST,
    HELD_NONE,
    HELD_MOST,
    VERSIONS_MOST,
    PASS_MOST,
    STAGE_MOST,
    MICROBATCH_MOST,
    EMIT_MOST,
    PART_MOST,
    PAIR_MOST
};

static pst_status topology(void *self_, uint32_t n_devices, struct pst_topology *ret_topology)
{
    const struct extreme *self = self_;
    uint32_t lie = self->config->lie;

    ret_topology->n_stages = lie == STAGES_MOST ? PST_NONE : 0;
    ret_topology->version_rule = lie == RULE_MOST ? PST_NONE : PST_VERSION_SYNC;
    ret_topology->min_microbatches = lie == LEAST_NONE ? 0 : lie == LEAST_MOST ? PST_NONE : 1;
    ret_topology->microbatch_multiple = lie == MULTIPLE_NONE   ? 0
                                        : lie == MULTIPLE_MOST ? PST_NONE
                                                               : 1;
    return PST_OK;
}

static uint32_t device_of(void *self_, uint32_t n_devices, uint32_t n_stages, uint32_t stage)
{
    const struct extreme *self = self_;

    return self->config->lie == DEVICE_OTHER  ? n_devices - 1 - stage
           : self->config->lie == DEVICE_MOST ? PST_NONE
                                              : stage;
}

static pst_status in_flight(void *self_, const struct pst_place *place, struct pst_held *ret_held)
{
    const struct extreme *self = self_;

    if (self->config->lie == PLACE) {
        WRITE(struct pst_place, place)->n_microbatches++;
    }
    ret_held->microbatches = self->config->lie == HELD_NONE   ? 0
                             : self->config->lie == HELD_MOST ? PST_NONE
                                                              : place->n_microbatches;
    ret_held->weight_versions = self->config->lie == VERSIONS_MOST ? PST_NONE : 1;
    return PST_OK;
}

static void write_view(uint32_t lie, const struct pst_schedule_in *in)
{
    for (uint32_t s = 0; lie == TIMES && s < in->n_stages; s++) {
        struct pst_schedule_stage *stage =
            WRITE(struct pst_schedule_stage, pst_schedule_stage_at(in, s));

        stage->forward_ns /= 2;
        stage->backward_input_ns /= 2;
        stage->backward_weight_ns /= 2;
    }
    if (lie == LINK && in->n_links > 0) {
        WRITE(struct pst_schedule_link, pst_schedule_link_at(in, 0))->transfer_ns++;
    }
    if (lie == ROOM) {
        WRITE(uint64_t, in->activation_bytes)[0] = 0;
    }
}

static pst_status emit_most(uint32_t lie, struct pst_schedule_out *out)
{
    switch (lie) {
    case PASS_MOST:
        return out->emit(out, 0, PST_NONE, 0, 0);
    case STAGE_MOST:
        return out->emit(out, 0, PST_PASS_F, PST_NONE, 0);
    case MICROBATCH_MOST:
        return out->emit(out, 0, PST_PASS_F, 0, PST_NONE);
    case EMIT_MOST:
        return out->emit(out, PST_NONE, PST_PASS_F, 0, 0);
    case PART_MOST:
        return out->part(out, PST_NONE);
    case PAIR_MOST:
        return out->pair(out, 0, 0, 0, PST_NONE, 0, 0);
    default:
        return PST_OK;
    }
}

/* All forwards, then all backwards from the last stage on. */
static pst_status schedule(void *self_, const struct pst_schedule_in *in,
                           struct pst_schedule_out *out)
{
    const struct extreme *self = self_;
    pst_status st = emit_most(self->config->lie, out);

    write_view(self->config->lie, in);
    for (uint32_t i = 0; st == PST_OK && i < 2 * in->n_stages; i++) {
        uint32_t s = i < in->n_stages ? i : 2 * in->n_stages - 1 - i;
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, s);

        for (uint32_t j = 0; st == PST_OK && j < stage->n_microbatches; j++) {
            st = out->emit(out, stage->device, i < in->n_stages ? PST_PASS_F : PST_PASS_BW, s, j);
        }
    }
    return st;
}

PST_INTERFACE(PST_SCHEDULER, struct pst_scheduler, .topology = topology, .device_of = device_of,
              .in_flight = in_flight, .schedule = schedule)

#else
#define KIND  "memopt"
#define WORDS "chain", "recompute", "nested", "peer"
#define LIES                                                                                       \
    "none|price|plan|kind|producer|period-none|period-most|peak-most|position-most|action-most|"   \
    "null-replays|replays-most|passes|move-stage|move-microbatch|move-device|move-null|move-size"
enum {
    NONE,
    PRICE,
    PLAN,
    WORD,
    PRODUCER,
    PERIOD_NONE,
    PERIOD_MOST,
    PEAK_MOST,
    POSITION_MOST,
    ACTION_MOST,
    NULL_REPLAYS,
    REPLAYS_MOST,
    PASSES,
    MOVE_STAGE,
    MOVE_MICROBATCH,
    MOVE_DEVICE,
    MOVE_NULL,
    MOVE_SIZE
};

static void write_view(const struct pst_stage_view *view)
{
    WRITE(struct pst_stage_node, pst_stage_node_at(view, 0))->saved_bytes /= 2;
}

static pst_status price(void *self_, const struct pst_stage_view *view,
                        struct pst_stage_price *ret_price)
{
    const struct extreme *self = self_;
    const struct pst_eval *eval = self->host->get_extension(self->host, PST_EVAL);
    struct pst_stage_value value = {.size = sizeof value};
    uint32_t lie = self->config->lie;
    pst_status st;

    if (lie == PRICE) {
        write_view(view);
    } else if (lie == WORD) {
        WRITE(char, pst_stage_node_op(view, 0))[0] = 'X';
    } else if (lie == PRODUCER && view->n_nodes > 1) {
        WRITE(uint32_t, view->producers)[0] = PST_NONE;
        return PST_OK;
    }
    st = eval->evaluate(self->host, view, NULL, &value);
    ret_price->fits = 1;
    ret_price->period_ns = lie == PERIOD_NONE   ? 0
                           : lie == PERIOD_MOST ? UINT64_MAX
                                                : value.period_ns;
    ret_price->peak_bytes = lie == PEAK_MOST ? UINT64_MAX : value.peak_bytes;
    return st;
}

static pst_status plan(void *self_, const struct pst_stage_view *view, struct pst_action_out *out)
{
    static const struct pst_replay far = {PST_NONE, PST_NONE, PST_NONE};
    const struct extreme *self = self_;

    switch (self->config->lie) {
    case PLAN:
        write_view(view);
        return PST_OK;
    case POSITION_MOST:
        return out->set(out, PST_NONE, PST_ACTION_RECOMPUTE);
    case ACTION_MOST:
        return out->set(out, 0, PST_NONE);
    case NULL_REPLAYS:
        return out->sequence(out, NULL, 1);
    case REPLAYS_MOST:
        return out->sequence(out, &far, 1);
    default:
        return PST_OK;
    }
}

static pst_status plan_all(void *self_, const struct pst_global_in *in, struct pst_global_out *out)
{
    const struct extreme *self = self_;
    uint32_t lie = self->config->lie;
    const struct pst_global_move move = {
        .size = lie == MOVE_SIZE ? 0 : sizeof move,
        .stage = lie == MOVE_STAGE ? PST_NONE : 0,
        .microbatch = lie == MOVE_MICROBATCH ? PST_NONE : 0,
        .device = lie == MOVE_DEVICE ? PST_NONE : 1,
        .n_positions = lie == MOVE_NULL ? PST_NONE : 0,
    };

    if (lie == PASSES) {
        WRITE(struct pst_global_pass, pst_global_pass_at(in, 0))->end_ns = 0;
    }
    return lie >= MOVE_STAGE ? out->move(out, &move) : PST_OK;
}

static const struct pst_memopt memopt = {.size = sizeof memopt, .price = price, .plan = plan};
static const struct pst_memopt_global global = {.size = sizeof global, .plan = plan_all};

static const void *get_interface(const char *id)
{
    return strcmp(id, PST_MEMOPT) == 0          ? (const void *)&memopt
           : strcmp(id, PST_MEMOPT_GLOBAL) == 0 ? (const void *)&global
                                                : NULL;
}
#endif

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    struct extreme *self = host->alloc(host, sizeof *self, _Alignof(struct extreme));

    if (self == NULL) {
        return PST_ERR_NOMEM;
    }
    *self = (struct extreme){host, config};
    *ret_self = self;
#ifdef EXTREME_PARTITIONER
    if (self->config->lie == ASK_EARLY) {
        *ret_self = NULL;
        return ask_most(self);
    }
#endif
    return PST_OK;
}

PST_DESTROY_NOTHING

static const struct pst_param params[] = {
    PST_PARAM(struct config, lie, PST_PARAM_ENUM, "none", LIES, "How the answer is wrong."),
};

GALLERY_PLUGIN(KIND, "extreme", "0", "Answers at the ends of ranges.",
               PST_PLUGIN_PARAMS(params, struct config), WORDS)
