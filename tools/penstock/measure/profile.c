/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/profile.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "loop/emulate.h"
#include "loop/schedule.h"
#include "measure/others.h"
#include "measure/watch.h"
#include "models/costed/costed_file.h"

#define NOTEWORTHY 0.01 /* part of a step */

void pst_profile_sizes(const struct pst_job *job, struct pst_profile_request *request)
{
    uint32_t batch = (uint32_t)job->train.batch, microbatch = (uint32_t)job->train.microbatch;

    request->n_sizes = 0;
    for (uint32_t size = 1; request->n_sizes < PST_PROFILE_SIZES && size <= batch; size *= 2) {
        request->sizes[request->n_sizes++] = size;
        if (size >= microbatch) {
            break;
        }
    }
}

/* --- measuring --------------------------------------------------------------------------------*/

struct ticking {
    const struct pst_profile_request *request;
    uint32_t index; /* of the size */
};

static void tick(void *context, uint64_t done, uint64_t all)
{
    const struct ticking *ticking = context;

    ticking->request->progress(ticking->request->context, ticking->index * all + done,
                               ticking->request->n_sizes * all,
                               ticking->request->sizes[ticking->index]);
}

static void describe_growth(const struct pst_cost_model *cost, uint32_t op, uint32_t samples,
                            double ret_growth[2])
{
    struct pst_times times[2];

    for (uint32_t i = 0; i < 2; i++) {
        const struct pst_cost_model of =
            pst_cost_of_slice(cost, i == 0 ? 0 : cost->graph->slices - 1);

        pst_cost_op(&of, op, samples, &times[i]);
    }
    ret_growth[0] = (double)times[1].forward_ns - (double)times[0].forward_ns;
    ret_growth[1] = (double)times[1].backward_input_ns - (double)times[0].backward_input_ns;
}

/* Computes times from [cluster]: of all operators, for a device that is not on this machine, or of
   those that are never measured. */
static void describe(const struct pst_session *session, uint32_t samples, bool all,
                     struct pst_measured *ret_measured)
{
    struct pst_cost_model cost = session->cost;

    cost.profile = NULL;
    for (uint32_t o = 0; o < session->graph->n_ops; o++) {
        struct pst_times times;

        if (!all && !pst_op_is_convert(session->graph->ops[o].kind)) {
            continue;
        }
        pst_cost_op(&cost, o, samples, &times);
        ret_measured[o].ns[0] = (double)times.forward_ns;
        ret_measured[o].ns[1] = (double)times.backward_input_ns;
        ret_measured[o].ns[2] = (double)times.backward_weight_ns;
        describe_growth(&cost, o, samples, ret_measured[o].growth);
    }
}

/* Others hold up the clock on the wall: what it timed beside them is measured again. */
static pst_status measure_ops(const struct pst_measure_config *config, struct pst_profiled *profile,
                              struct pst_measured *ret_measured, struct pst_error *err)
{
    double share = 1;
    pst_status status = PST_OK;

    profile->held_up = pst_device_is_host(config->device) &&
                       !pst_watch_of(config->device, &config->device_config).own;
    for (uint32_t i = 0; status == PST_OK && share > PST_OTHERS_MANY &&
                         i < (profile->held_up ? PST_PROFILE_TRIES : 1);
         i++) {
        struct pst_others others;

        if (i > 0) {
            pst_log(PST_LOG_INFO, "profile",
                    "measuring again: others used %.0f %% of the processors", 100 * share);
        }
        pst_others_begin(&others);
        status = pst_measure_ops(config, ret_measured, &profile->update, err);
        share = pst_others_share(&others);
    }
    profile->others = fmax(profile->others, share);
    return status;
}

static pst_status measure_size(const struct pst_session *session,
                               const struct pst_profile_request *request, uint32_t i,
                               struct pst_profiled *profile, struct pst_error *err)
{
    struct pst_update update = pst_update_at(session->job, 0);
    struct ticking ticking = {request, i};
    const struct pst_measure_config config = {
        .graph = session->graph,
        .device = session->device_ops,
        .device_config = session->device_config,
        .samples = request->sizes[i],
        .microbatches = (uint32_t)session->job->train.batch / request->sizes[i],
        .warmups = request->warmups,
        .rounds = request->rounds,
        .update = &update,
        .optimizer_slots = pst_job_optimizer_slots(session->job),
        .least_ns = request->least_ns,
        .group_ns = request->group_ns,
        .memory_bytes = pst_host_available_bytes() / 2,
        .progress = request->progress == NULL ? NULL : tick,
        .context = &ticking,
        .cancelled = request->cancelled,
    };
    pst_status status = PST_OK;

    if (update.optimizer == PST_MUON) { /* what is measured is bytes a second */
        update.optimizer = PST_ADAMW;
    }
    if (!pst_session_has_no_data(session)) {
        status = measure_ops(&config, profile, profile->measured[i], err);
    }
    describe(session, request->sizes[i], pst_session_has_no_data(session), profile->measured[i]);
    return status;
}

static pst_status measure(const struct pst_session *session,
                          const struct pst_profile_request *request, struct pst_profiled *profile,
                          struct pst_error *err)
{
    pst_status status = PST_OK;

    for (uint32_t i = 0; i < request->n_sizes && status == PST_OK; i++) {
        profile->sizes[i] = request->sizes[i];
        profile->measured[i] =
            pst_arena_array(&profile->arena, session->graph->n_ops, sizeof **profile->measured);
        status = measure_size(session, request, i, profile, err);
    }
    return status;
}

/* --- the graph --------------------------------------------------------------------------------*/

static double workspace(const struct pst_session *session, uint32_t op, uint32_t pass,
                        uint32_t samples)
{
    return (double)pst_cost_workspace(&session->cost, op, pass, samples);
}

static void add_times(const struct pst_profiled *profile, struct pst_arena *arena, uint32_t op,
                      struct pst_costed_node *node)
{
    struct pst_costed_times *times = pst_arena_array(arena, profile->n_sizes, sizeof *times);

    for (uint32_t i = 0; i < profile->n_sizes; i++) {
        times[i].samples = profile->sizes[i];
        for (uint32_t pass = 0; pass < 3; pass++) {
            times[i].ns[pass] = round(profile->measured[i][op].ns[pass]); /* as files say them */
        }
        memcpy(times[i].growth, profile->measured[i][op].growth, sizeof times[i].growth);
    }
    node->times = times;
    node->n_times = profile->n_sizes;
}

static void add_nodes(const struct pst_session *session, const struct pst_profiled *profile,
                      const struct pst_graph_view *view, struct pst_costed *draft)
{
    draft->n_nodes = view->n_nodes;
    draft->nodes = pst_arena_array(&draft->arena, view->n_nodes, sizeof *draft->nodes);
    for (uint32_t v = 0; v < view->n_nodes; v++) {
        const struct pst_node *from = pst_graph_node(view, v);
        struct pst_costed_node *node = &draft->nodes[v];
        double weight = workspace(session, v, 2, draft->batch);

        node->name = from->name;
        node->op = from->op;
        node->param_bytes = (double)from->param_bytes;
        node->saved_bytes = (double)from->saved_bytes * draft->batch;
        node->output_bytes = (double)from->output_bytes * draft->batch;
        node->workspace_bytes = workspace(session, v, 0, draft->batch);
        node->backward_workspace_bytes = workspace(session, v, 1, draft->batch);
        if (weight > node->backward_workspace_bytes) {
            node->backward_workspace_bytes = weight;
        }
        add_times(profile, &draft->arena, v, node);
    }
}

static void add_edges(const struct pst_graph_view *view, struct pst_costed *draft)
{
    draft->n_edges = view->n_edges;
    draft->edges = pst_arena_array(&draft->arena, view->n_edges + 1, sizeof *draft->edges);
    for (uint32_t e = 0; e < view->n_edges; e++) {
        const struct pst_edge *edge = pst_graph_edge(view, e);

        draft->edges[e] = (struct pst_costed_edge){
            edge->from, edge->to, (double)edge->bytes * (edge->batched ? draft->batch : 1)};
    }
}

static const char *about_device(const struct pst_session *session,
                                const struct pst_profile_request *request, struct pst_arena *arena)
{
    static const char *const dtypes[] = {
        [PST_RUN_F32] = "f32", [PST_RUN_BF16] = "bf16", [PST_RUN_TF32] = "tf32"};
    const struct pst_job_run *run = &session->job->run;
    char about[512] = "", text[256];
    const char *sharing = pst_session_sharing(session, text, sizeof text);

    session->device_ops->describe(about, sizeof about);
    return pst_arena_printf(
        arena,
        "measured on %s (%s%s%s), %u thread%s per device, %s; mean of the middle "
        "four fifths of %u runs or more; W includes adding up gradients%s",
        run->device, about, sharing == NULL ? "" : "; ", sharing == NULL ? "" : sharing,
        session->device_config.threads, session->device_config.threads == 1 ? "" : "s",
        dtypes[run->dtype], request->rounds,
        session->graph->parts > 1 ? "; conversions between parts by [cluster]" : "");
}

static const char *about_description(const struct pst_session *session, struct pst_arena *arena)
{
    const struct pst_cluster *cluster = &session->cluster;
    bool bf16 = session->job->run.dtype == PST_RUN_BF16;

    return pst_arena_printf(arena,
                            "described, not measured: %.4g %s FLOP/s at %.4g of it, memory at %.4g "
                            "bytes/s, %.4g us per kernel, of the host %.4g; softmax moves %.4g "
                            "times more",
                            bf16 ? cluster->bf16_flops : cluster->flops, bf16 ? "bf16" : "f32",
                            cluster->efficiency, (double)cluster->memory_bandwidth,
                            (double)cluster->launch_overhead / 1e3,
                            (double)cluster->host_overhead / 1e3, cluster->softmax_traffic);
}

/* Data that cannot be read are no matter of a plan: what the host does is not known then. */
static void measure_host(const struct pst_session *session,
                         const struct pst_profile_request *request, struct pst_profiled *profile)
{
    struct pst_error err = {.status = PST_OK};

    if (request->reads_data && !pst_session_has_no_data(session) &&
        pst_device_is_host(session->device_ops) &&
        pst_measure_host(session, &profile->host, &err) != PST_OK) {
        pst_log(PST_LOG_INFO, "profile", "the host's time for a step is not measured: %s",
                err.message);
    }
}

static pst_status make_graph(const struct pst_session *session,
                             const struct pst_profile_request *request,
                             struct pst_profiled *profile, struct pst_error *err)
{
    struct pst_costed draft = {.name = session->graph->name,
                               .batch = profile->sizes[profile->n_sizes - 1]};
    struct pst_graph_view *view;
    pst_status status;

    pst_graph_make_view(session->graph, draft.batch, &view);
    draft.notes = pst_session_has_no_data(session) ? about_description(session, &draft.arena)
                                                   : about_device(session, request, &draft.arena);
    add_nodes(session, profile, view, &draft);
    if (profile->update.ns > 0) {
        draft.update_bytes_per_second =
            round((double)profile->update.bytes / profile->update.ns * 1e9);
    }
    draft.host_step_ns = round(profile->host.step_ns);
    draft.host_sample_ns = round(profile->host.sample_ns);
    draft.host_devices = profile->host.devices;
    add_edges(view, &draft);
    status = pst_costed_create(&draft, &profile->graph, err);
    pst_arena_finish(&draft.arena);
    return status;
}

static void judge(struct pst_profiled *profile)
{
    const struct pst_measured *last = profile->measured[profile->n_sizes - 1];
    double all = 0;

    for (uint32_t o = 0; o < profile->n_ops; o++) {
        all += last[o].ns[0] + last[o].ns[1] + last[o].ns[2];
    }
    for (uint32_t o = 0; o < profile->n_ops; o++) {
        for (uint32_t pass = 0; pass < 3; pass++) {
            if (last[o].ns[pass] >= NOTEWORTHY * all &&
                last[o].spread[pass] > profile->worst_spread) {
                profile->worst_spread = last[o].spread[pass];
                profile->worst_op = o;
            }
        }
    }
}

pst_status pst_profile_run(const struct pst_session *session,
                           const struct pst_profile_request *request,
                           struct pst_profiled *ret_profile, struct pst_error *err)
{
    struct pst_profiled profile = {.n_ops = session->graph->n_ops, .n_sizes = request->n_sizes};
    pst_status status;

    status = measure(session, request, &profile, err);
    if (status == PST_OK) {
        judge(&profile);
        measure_host(session, request, &profile);
        status = make_graph(session, request, &profile, err);
    }
    if (status != PST_OK) {
        pst_profile_finish(&profile);
        return status;
    }
    *ret_profile = profile;
    return PST_OK;
}

void pst_profile_finish(struct pst_profiled *profile)
{
    pst_costed_destroy(profile->graph);
    pst_arena_finish(&profile->arena);
    memset(profile, 0, sizeof *profile);
}
