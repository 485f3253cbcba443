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
    const char *lie;
};

struct extreme {
    const struct pst_host *host;
    const struct config *config;
};

static bool lies(const struct extreme *self, const char *how)
{
    return strcmp(self->config->lie, how) == 0;
}

#ifndef EXTREME_MEMOPT
/* What is honest, unless it lies so. */
static uint32_t none_or_most(const struct extreme *self, const char *none, const char *most,
                             uint32_t honest)
{
    return lies(self, none) ? 0 : lies(self, most) ? PST_NONE : honest;
}
#endif

/* What is const is so by a promise alone. */
#define WRITE(type, at) ((type *)(uintptr_t)(at))

#if defined(EXTREME_PARTITIONER)
#define KIND  "partitioner"
#define WORDS "chain"

static pst_status ask_most(const struct extreme *self)
{
    const struct pst_ask *ask = self->host->get_extension(self->host, PST_ASK);
    const struct pst_place place = {
        .size = sizeof place,
        .n_stages = lies(self, "ask-stages") ? PST_NONE : 2,
        .n_devices = 2,
        .n_microbatches = lies(self, "ask-microbatches") ? PST_NONE : 4,
        .microbatch_size = 2,
        .k = 1,
    };
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
    uint32_t devices = none_or_most(self, "ask-no-devices", "ask-devices", 2);

    if (lies(self, "ask-null")) {
        return ask->price(self->host, &question, &price);
    }
    if (place.n_stages == PST_NONE || place.n_microbatches == PST_NONE) {
        return ask->in_flight(self->host, &place, &held);
    }
    return devices != 2 || lies(self, "ask-early") ? ask->topology(self->host, devices, &topology)
                                                   : PST_OK;
}

static void write_view(const struct extreme *self, const struct pst_partition_in *in)
{
    const struct pst_profile *profile = self->host->get_extension(self->host, PST_PROFILE);

    if (lies(self, "name")) {
        WRITE(char, pst_graph_node(in->graph, 0)->name)[0] = 'X';
    } else if (lies(self, "op")) {
        WRITE(char, pst_graph_node(in->graph, 0)->op)[0] = 'X';
    } else if (lies(self, "edge")) {
        WRITE(struct pst_edge, pst_graph_edge(in->graph, 0))->bytes /= 2;
    } else if (lies(self, "batch")) {
        WRITE(struct pst_partition_in, in)->batch *= 2;
    } else if (lies(self, "memory")) {
        WRITE(struct pst_cluster_device, pst_cluster_device_at(in->cluster, 0))->memory_bytes = 1;
    } else if (lies(self, "degree")) {
        WRITE(uint32_t, in->degrees)[0]++;
    } else if (lies(self, "tensors")) {
        WRITE(uint32_t, in->tensors)[0]++;
    } else if (lies(self, "figures")) {
        WRITE(double, profile->figures(self->host)->edge_bytes)[0] = 0;
    }
}

static void change_stage(const struct extreme *self, struct pst_stage_decl *stage)
{
    static const uint32_t far[] = {PST_NONE}, first[] = {0};

    stage->k = none_or_most(self, "k-none", "k-most", stage->k);
    stage->microbatch_size = none_or_most(self, "size-none", "size-most", stage->microbatch_size);
    stage->size = lies(self, "no-size") ? 0 : stage->size;
    stage->n_ranks = lies(self, "many-ranks") ? PST_NONE : stage->n_ranks;
    stage->tensor = none_or_most(self, "tensor-none", "tensor-most", 1);
    stage->ranks = lies(self, "rank-most")    ? far
                   : lies(self, "rank-twice") ? first
                   : lies(self, "null-ranks") ? NULL
                                              : stage->ranks;
    stage->n_nodes = lies(self, "many-nodes")  ? PST_NONE
                     : lies(self, "node-most") ? 1
                                               : stage->n_nodes;
    stage->nodes = lies(self, "node-most") ? far : lies(self, "null-nodes") ? NULL : stage->nodes;
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
    for (uint32_t s = 0; st == PST_OK && s < 2 && !lies(self, "silent"); s++) {
        struct pst_stage_decl stage = {.size = sizeof stage,
                                       .nodes = nodes + (s == 0 ? 0 : half),
                                       .n_nodes = s == 0 ? half : n - half,
                                       .ranks = &ranks[s],
                                       .n_ranks = 1,
                                       .microbatch_size = in->micro_batches[0],
                                       .k = 1};

        if (s == 1) {
            change_stage(self, &stage);
        }
        st = out->stage(out, &stage);
    }
    return st;
}

PST_INTERFACE(PST_PARTITIONER, struct pst_partitioner, .partition = partition)

#elif defined(EXTREME_SCHEDULER)
#define KIND  "scheduler"
#define WORDS "chain", "split-backward"
static pst_status topology(void *self, uint32_t n_devices, struct pst_topology *ret_topology)
{
    ret_topology->n_stages = lies(self, "stages-most")     ? PST_NONE
                             : lies(self, "copies-unsaid") ? 2 * n_devices
                                                           : 0;
    ret_topology->n_copies = lies(self, "copies-most")     ? PST_NONE
                             : lies(self, "copies-unsaid") ? 2
                                                           : 1;
    ret_topology->version_rule = lies(self, "rule-most") ? PST_NONE : PST_VERSION_SYNC;
    ret_topology->min_microbatches = none_or_most(self, "least-none", "least-most", 1);
    ret_topology->microbatch_multiple = none_or_most(self, "multiple-none", "multiple-most", 1);
    return PST_OK;
}

static uint32_t device_of(void *self, uint32_t n_devices, uint32_t n_stages, uint32_t stage)
{
    return lies(self, "device-other")  ? n_devices - 1 - stage
           : lies(self, "device-most") ? PST_NONE
                                       : stage;
}

static pst_status in_flight(void *self, const struct pst_place *place, struct pst_held *ret_held)
{
    if (lies(self, "place")) {
        WRITE(struct pst_place, place)->n_microbatches++;
    }
    ret_held->microbatches = none_or_most(self, "held-none", "held-most", place->n_microbatches);
    ret_held->weight_versions = lies(self, "versions-most") ? PST_NONE : 1;
    return PST_OK;
}

static void write_view(const struct extreme *self, const struct pst_schedule_in *in)
{
    for (uint32_t s = 0; lies(self, "times") && s < in->n_stages; s++) {
        struct pst_schedule_stage *stage =
            WRITE(struct pst_schedule_stage, pst_schedule_stage_at(in, s));

        stage->forward_ns /= 2;
        stage->backward_input_ns /= 2;
        stage->backward_weight_ns /= 2;
    }
    if (lies(self, "link") && in->n_links > 0) {
        WRITE(struct pst_schedule_link, pst_schedule_link_at(in, 0))->transfer_ns++;
    }
    if (lies(self, "room")) {
        WRITE(uint64_t, in->activation_bytes)[0] = 0;
    }
}

static pst_status emit_most(const struct extreme *self, struct pst_schedule_out *out)
{
    return lies(self, "pass-most")         ? out->emit(out, 0, PST_NONE, 0, 0)
           : lies(self, "stage-most")      ? out->emit(out, 0, PST_PASS_F, PST_NONE, 0)
           : lies(self, "microbatch-most") ? out->emit(out, 0, PST_PASS_F, 0, PST_NONE)
           : lies(self, "emit-most")       ? out->emit(out, PST_NONE, PST_PASS_F, 0, 0)
           : lies(self, "part-most")       ? out->part(out, PST_NONE)
           : lies(self, "pair-most")       ? out->pair(out, 0, 0, 0, PST_NONE, 0, 0)
                                           : PST_OK;
}

/* All forwards, then all backwards from the last stage on. */
static pst_status schedule(void *self_, const struct pst_schedule_in *in,
                           struct pst_schedule_out *out)
{
    const struct extreme *self = self_;
    pst_status st = emit_most(self, out);

    write_view(self, in);
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
    pst_status st;

    if (lies(self, "price")) {
        write_view(view);
    } else if (lies(self, "kind")) {
        WRITE(char, pst_stage_node_op(view, 0))[0] = 'X';
    } else if (lies(self, "producer") && view->n_nodes > 1) {
        WRITE(uint32_t, view->producers)[0] = PST_NONE;
        return PST_OK;
    }
    st = eval->evaluate(self->host, view, NULL, &value);
    ret_price->fits = 1;
    ret_price->period_ns = lies(self, "period-none")   ? 0
                           : lies(self, "period-most") ? UINT64_MAX
                                                       : value.period_ns;
    ret_price->peak_bytes = lies(self, "peak-most") ? UINT64_MAX : value.peak_bytes;
    return st;
}

static pst_status plan(void *self, const struct pst_stage_view *view, struct pst_action_out *out)
{
    static const struct pst_replay far = {PST_NONE, PST_NONE, PST_NONE};

    if (lies(self, "plan")) {
        write_view(view);
    }
    return lies(self, "position-most")  ? out->set(out, PST_NONE, PST_ACTION_RECOMPUTE)
           : lies(self, "action-most")  ? out->set(out, 0, PST_NONE)
           : lies(self, "null-replays") ? out->sequence(out, NULL, 1)
           : lies(self, "replays-most") ? out->sequence(out, &far, 1)
                                        : PST_OK;
}

static pst_status plan_all(void *self_, const struct pst_global_in *in, struct pst_global_out *out)
{
    const struct extreme *self = self_;
    const struct pst_global_move move = {
        .size = lies(self, "move-size") ? 0 : sizeof move,
        .stage = lies(self, "move-stage") ? PST_NONE : 0,
        .microbatch = lies(self, "move-microbatch") ? PST_NONE : 0,
        .device = lies(self, "move-device") ? PST_NONE : 1,
        .n_positions = lies(self, "move-null") ? PST_NONE : 0,
    };

    if (lies(self, "passes")) {
        WRITE(struct pst_global_pass, pst_global_pass_at(in, 0))->end_ns = 0;
    }
    return strncmp(self->config->lie, "move-", 5) == 0 ? out->move(out, &move) : PST_OK;
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
    if (lies(self, "ask-early")) {
        *ret_self = NULL;
        return ask_most(self);
    }
#endif
    return PST_OK;
}

PST_DESTROY_NOTHING

static const struct pst_param params[] = {
    PST_PARAM(struct config, lie, PST_PARAM_STRING, "none", NULL, "How the answer is wrong."),
};

GALLERY_PLUGIN(KIND, "extreme", "0", "Answers at the ends of ranges.",
               PST_PLUGIN_PARAMS(params, struct config), WORDS)
