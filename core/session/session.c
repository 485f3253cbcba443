/* SPDX-License-Identifier: Apache-2.0
 *
 * What a config describes, opened: model, cluster, device, transport.
 */
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "exec/exec.h"
#include "exec/kernels_early.h"
#include "graph/custom.h"
#include "host/plugin_host.h"
#include "planner/state.h"
#include "session/degrees.h"
#include "session/groups.h"

/* --- a GPU for each rank? ---------------------------------------------------------------------*/

/* Some transports have one rank on each GPU and say so late, when they are attached. Here it is
   found out before a plan is searched. Others copy within a GPU and are asked for nothing. */
struct gpu {
    char name[32];
};

/* Only devices of a machine have names. */
static bool wants_one_each(const struct pst_session *session)
{
    return pst_module_has("transport", session->job->run.transport, PST_MODULE_IN_STREAMS) &&
           session->device_ops->identity != NULL;
}

static struct gpu find_gpu(const struct pst_session *session, uint32_t rank, uint32_t n_ranks)
{
    struct pst_device_config config = session->device_config;
    struct gpu gpu = {""};

    config.index = rank;
    config.first_rank = n_ranks == 1 ? rank : 0;
    config.n_ranks = n_ranks;
    session->device_ops->identity(&config, gpu.name, sizeof gpu.name);
    return gpu;
}

static bool same_gpu(const struct gpu *a, const struct gpu *b)
{
    return a->name[0] != '\0' && strcmp(a->name, b->name) == 0;
}

/* The first two of n ranks on one host that have the same GPU; false: there are none. */
static bool find_meeting(const struct pst_team *team, const struct gpu *gpus, uint32_t n,
                         uint32_t *ret_rank, uint32_t *ret_other)
{
    for (uint32_t rank = 1; rank < n; rank++) {
        for (uint32_t other = 0; other < rank; other++) {
            if (same_gpu(&gpus[other], &gpus[rank]) && pst_team_are_near(team, other, rank)) {
                *ret_rank = rank;
                *ret_other = other;
                return true;
            }
        }
    }
    return false;
}

/* In a run of one process only the first `rank` ranks have a GPU each. */
static pst_status fail_shared(const struct pst_session *session, const char *gpu, uint32_t n,
                              uint32_t rank, uint32_t other, struct pst_error *err)
{
    const struct pst_team *team = &session->team;
    const char *transport = session->job->run.transport;

    if (team->ops == NULL) {
        pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                 "transport %s needs a GPU for each rank, and ranks %u and %u would both have GPU "
                 "%s; set run.transport = \"threads\" with run.share = %u, or use %u device%s",
                 transport, other, rank, gpu, (n + rank - 1) / rank, rank, rank == 1 ? "" : "s");
    } else {
        pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                 "transport %s needs a GPU for each rank, and ranks %u and %u (host %s) would both "
                 "have GPU %s; start as many processes on a host as it has GPUs, or set "
                 "run.transport = \"mpi\"",
                 transport, other, rank, team->ops->host(rank), gpu);
    }
    return pst_config_place(session->job->config, "run", "transport", PST_ERR_UNSUPPORTED, err);
}

/* Collective. */
static pst_status check_gpus(const struct pst_session *session, struct pst_error *err)
{
    const struct pst_team *team = &session->team;
    const uint32_t n = team->ops != NULL ? team->n : (uint32_t)session->cluster.devices;
    pst_status status = PST_OK;
    uint32_t rank, other;
    struct gpu *gpus;

    if (!wants_one_each(session) ||
        (team->ops == NULL && session->transport_ops->processes != NULL)) {
        return PST_OK;
    }
    gpus = pst_alloc(n, sizeof *gpus);
    if (team->ops != NULL) {
        struct gpu mine = find_gpu(session, team->rank, 1);

        status = team->ops->exchange(&mine, gpus, sizeof mine, err);
    }
    for (rank = 0; team->ops == NULL && rank < n; rank++) {
        gpus[rank] = find_gpu(session, rank, n);
    }
    if (status == PST_OK && find_meeting(team, gpus, n, &rank, &other)) {
        status = fail_shared(session, gpus[rank].name, n, rank, other, err);
    }
    free(gpus);
    return status;
}

/* --- graph and modules ------------------------------------------------------------------------*/

static const struct pst_session_parts *parts; /* of the program */

void pst_session_set_parts(const struct pst_session_parts *of_program)
{
    parts = of_program;
    pst_judge_set(parts->judge);
}

/* The graph of a slice, where the scheduler orders slices of sequences. */
static pst_status slice_graph(const struct pst_job *job, struct pst_graph *graph,
                              struct pst_error *err)
{
    uint32_t slices;
    pst_status status = pst_job_read_slices(job, &slices, err);

    return status != PST_OK ? status
                            : pst_config_place(job->config, "scheduler", PST_SLICES_PARAM,
                                               pst_graph_slice(graph, slices, err), err);
}

pst_status pst_session_graph(const struct pst_job *job, struct pst_graph **ret_graph,
                             struct pst_error *err)
{
    pst_status status;

    pst_doing("building", "the model");
    status = parts->graph(job, ret_graph, err);
    PST_TRY(status, pst_groups_split(job, NULL, ret_graph, err));
    return status == PST_OK ? slice_graph(job, *ret_graph, err) : status;
}

static uint64_t whole_workspace(void *context, uint32_t op, uint32_t pass, uint32_t samples)
{
    struct pst_session *session = context;

    return session->device_ops->workspace(session->device, session->whole, op, pass, samples);
}

/* Measured times are of slices, so whole sequences are costed without a profile. */
pst_status pst_session_make_whole(struct pst_session *session, struct pst_cost_model *ret_cost,
                                  struct pst_error *err)
{
    *ret_cost = session->cost;
    ret_cost->profile = NULL;
    ret_cost->workspace = whole_workspace;
    return parts->graph(session->job, &session->whole, err);
}

static uint64_t workspace(void *context, uint32_t op, uint32_t pass, uint32_t samples)
{
    struct pst_session *session = context;
    const struct pst_costed *costed = session->graph->costed;

    if (costed != NULL) {
        return op >= costed->n_nodes ? 0
               : pass == 0           ? pst_graph_node(&costed->view, op)->forward_work_bytes
                                     : pst_graph_node(&costed->view, op)->backward_work_bytes;
    }
    return session->device_ops->workspace(session->device, session->graph, op, pass, samples);
}

/* Traits that the job wants of its device; one that stands in for another need not have them. */
static pst_status check_traits(const struct pst_session *session, struct pst_error *err)
{
    const struct pst_job *job = session->job;
    const struct {
        bool wanted;
        uint32_t flag;
        const char *section, *key, *lack;
    } traits[] = {
        {job->run.dtype == PST_RUN_TF32, PST_DEVICE_TF32, "run", "dtype",
         "has no TF32 products; set run.dtype = \"f32\", or run.device = \"cuda\""},
        {job->train.optimizer == PST_MUON, PST_DEVICE_MUON, "train", "optimizer",
         "has no Muon; set train.optimizer = \"adamw\", or run.device = \"cpu\""},
        {session->graph->slices > 1, PST_DEVICE_SLICES, "run", "device",
         "cannot run slices of sequences; set scheduler.slices = 1, or run.device = \"cpu\""},
        {session->graph->parts > 1, PST_DEVICE_PARTS, "run", "device",
         "cannot share operators with other devices; set parallel.tensor = 1, or run.device = "
         "\"cpu\""},
        {job->parallel.zero > 1, PST_DEVICE_PARTS, "run", "device",
         "cannot exchange gradients and weights with other devices inside passes; set "
         "parallel.zero = 1, or "
         "run.device = \"cpu\""},
    };

    for (size_t i = 0; i < sizeof traits / sizeof *traits && !pst_session_has_no_data(session);
         i++) {
        if (traits[i].wanted && (session->device_ops->flags & traits[i].flag) == 0) {
            return pst_config_place(job->config, traits[i].section, traits[i].key,
                                    pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                                             "device %s %s", job->run.device, traits[i].lack),
                                    err);
        }
    }
    return PST_OK;
}

/* Refuses a workspace() whose bytes sums could not hold. */
static pst_status check_workspace(const struct pst_custom *custom,
                                  const struct pst_operator_kernels *kernels, uint32_t samples,
                                  struct pst_error *err)
{
    const uint32_t n_passes = custom->question.n_p > 0 ? 3 : 2;

    for (uint32_t pass = 0; PST_CAN(kernels, workspace) && pass < n_passes; pass++) {
        if (kernels->workspace(custom->self, &custom->question, &custom->row, pass, samples) >
            PST_CUSTOM_MAX_WORKSPACE) {
            return pst_fail(err, PST_ERR_BUG, "plugin.contract",
                            "operator \"%s\" broke its contract: workspace() returned more than "
                            "2^48 bytes",
                            custom->id);
        }
    }
    return PST_OK;
}

/* A device that makes values needs kernels of the operator, and calls them. */
static pst_status check_custom(const struct pst_session *session, const struct pst_op *op,
                               struct pst_error *err)
{
    static const char *const dtypes[] = {"f32", "bf16", "f64"};
    const struct pst_custom *custom = op->custom;
    const struct pst_device_ops *device = session->device_ops;
    const struct pst_operator_kernels *kernels =
        pst_custom_kernels(custom, device->id, custom->question.dtype);

    if ((device->flags & PST_DEVICE_CUSTOM) == 0) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                        "operator %s is of plugin %s, and device %s runs no operators of "
                        "plugins; set run.device = \"cpu\"",
                        op->name, custom->id, device->id);
    }
    if (kernels != NULL) {
        return check_workspace(custom, kernels, (uint32_t)session->job->train.microbatch, err);
    }
    if (custom->functions->kernels(custom->self, device->id) == NULL) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                        "operator %s of plugin %s has no kernels for device %s; set "
                        "run.device = \"cpu\", or use another operator",
                        op->name, custom->id, device->id);
    }
    return pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                    "operator %s of plugin %s has no kernels for device %s in %s; choose another "
                    "type in [run]",
                    op->name, custom->id, device->id, dtypes[custom->question.dtype]);
}

static pst_status check_customs(const struct pst_session *session, struct pst_error *err)
{
    pst_status status = PST_OK;

    for (uint32_t i = 0; i < session->graph->n_ops && !pst_session_has_no_data(session); i++) {
        if (session->graph->ops[i].custom != NULL) {
            PST_TRY(status, check_custom(session, &session->graph->ops[i], err));
        }
    }
    return status;
}

/* A rehearsal captures no graphs, whatever device and transport it rehearses. */
static pst_status check_graphs(const struct pst_session *session, struct pst_error *err)
{
    const struct pst_job_run *run = &session->job->run;

    if (run->graphs != PST_RUN_GRAPHS_ON || pst_session_has_no_data(session)) {
        return PST_OK;
    }
    if (pst_module_has("transport", run->transport, PST_MODULE_IN_STREAMS)) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                        "transport %s runs without graphs: making one may wait for the whole GPU, "
                        "and so for a transfer that waits for its peer; set run.graphs = "
                        "\"auto\"",
                        run->transport);
    }
    if (session->device_ops->capture_begin != NULL) {
        return PST_OK;
    }
    return pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                    "device %s has no graphs; set run.graphs = \"auto\", or run.device = \"cuda\"",
                    run->device);
}

const char *pst_session_sharing(const struct pst_session *session, char *text, size_t size)
{
    text[0] = '\0';
    if (session->device != NULL && session->device_ops->sharing != NULL) {
        session->device_ops->sharing(session->device, text, size);
    }
    return text[0] == '\0' ? NULL : text;
}

/* Ranks that share a GPU have a transport that copies within it. NCCL does not, and needs a GPU for
   each rank. */
static pst_status share_device(struct pst_session *session, struct pst_error *err)
{
    const struct pst_job_run *run = &session->job->run;
    const bool shares = pst_module_has("transport", run->transport, PST_MODULE_SHARES);

    session->device_config.share = (uint32_t)run->share;
    if (session->device_ops->fits == NULL) {
        return PST_OK; /* nothing to share */
    }
    if (run->share > 1 && !shares) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                        "transport %s cannot have %u ranks on one GPU; set run.transport = "
                        "\"threads\"",
                        run->transport, session->device_config.share);
    }
    return PST_OK;
}

/* With one process: is there a GPU for each rank? Before a plan is searched for them. */
static pst_status count_devices(const struct pst_session *session, struct pst_error *err)
{
    struct pst_device_config config = session->device_config;

    config.n_ranks = (uint32_t)session->cluster.devices;
    if (session->device_ops->fits == NULL || config.share == 0 ||
        session->transport_ops->processes != NULL ||
        session->device_ops->fits(&config, NULL, err) == PST_OK) {
        return PST_OK;
    }
    return pst_config_place(session->job->config, "run", "share", PST_ERR_UNSUPPORTED, err);
}

/* Every device of a run meets the same. */
static void log_note(const char *text)
{
    pst_log_once(PST_LOG_WARN, "device", text);
}

/* A word that no device knows is wrong for those, too, that take no notice of it: a config that is
   rehearsed or timed for another device is to run there. */
static pst_status check_kernels(const struct pst_job *job, struct pst_error *err)
{
    static const char *const words[] = {"auto",       "onednn", "reference", "simple", "unordered",
                                        "fused_sums", "timed",  "unpaired",  NULL};
    const uint32_t n = sizeof words / sizeof *words - 1;
    const char *at = job->run.kernels;
    pst_status status = PST_OK;

    do {
        const size_t length = strcspn(at, "+");
        char hint[96], *word = pst_strndup(at, length);

        if (!pst_text_is_one_of(words, word)) {
            status = pst_fail(err, PST_ERR_CONFIG, "config.value", "unknown kernels \"%s\"%s", word,
                              pst_nearest_hint(hint, word, words, n));
        }
        free(word);
        at += length;
    } while (status == PST_OK && *at++ == '+');
    if (status != PST_OK) {
        pst_error_hint(err, "known are auto; for device cpu onednn and reference; for device cuda "
                            "simple, unordered, fused_sums, timed and unpaired, joined by +");
    }
    return pst_config_place(job->config, "run", "kernels", status, err);
}

/* The table of the device's module, its probe passed. */
static pst_status find_device(struct pst_session *session, struct pst_error *err)
{
    const struct pst_job_run *run = &session->job->run;
    pst_device_module_fn *entry = NULL;
    void *function = NULL;
    char why[256] = "";
    pst_status status =
        pst_module_load("device", run->device, PST_DEVICE_MODULE_SYMBOL, &function, err);

    if (status != PST_OK) {
        return status;
    }
    *(void **)&entry = function;
    session->device_ops = entry();
    if (session->device_ops->probe(why, sizeof why) != PST_OK) {
        status = pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing", "run.device = \"%s\": %s",
                          run->device, why);
        pst_error_hint(err, "run.device = \"cpu\" trains the same plan here; \"penstock doctor\" "
                            "lists what this machine has");
    }
    return status;
}

static pst_status open_device(struct pst_session *session, struct pst_error *err)
{
    return session->device_ops->open(&session->device_config, &session->device, err);
}

static pst_status check_dtype(const struct pst_session *session, struct pst_error *err)
{
    return session->device_ops->supports(
        session->device, session->job->run.dtype == PST_RUN_BF16 ? PST_BF16 : PST_F32, err);
}

/* In this order; each with the key of [run] that it is about. */
static pst_status load_device(struct pst_session *session, struct pst_error *err)
{
    const struct pst_job_run *run = &session->job->run;
    struct pst_config *config = session->job->config;
    pst_status status = check_kernels(session->job, err);

    if (status == PST_OK && pst_module_has("transport", run->transport, PST_MODULE_IN_STREAMS)) {
        pst_load_kernels_early();
    }
    PST_TRY(status, pst_config_place(config, "run", "device", find_device(session, err), err));
    if (status == PST_OK) {
        session->device_config.threads = (uint32_t)run->threads_per_device;
        session->device_config.kernels = run->kernels;
        session->device_config.tf32 = run->dtype == PST_RUN_TF32;
        session->device_config.note = log_note;
        status = check_traits(session, err);
    }
    PST_TRY(status, pst_config_place(config, "run", "device", check_customs(session, err), err));
    PST_TRY(status, pst_config_place(config, "run", "graphs", check_graphs(session, err), err));
    PST_TRY(status, pst_config_place(config, "run", "share", share_device(session, err), err));
    PST_TRY(status, pst_config_place(config, "run", "kernels", open_device(session, err), err));
    return status == PST_OK
               ? pst_config_place(config, "run", "dtype", check_dtype(session, err), err)
               : status;
}

pst_status pst_session_load_transport(const struct pst_job *job,
                                      const struct pst_transport_ops **ret_ops,
                                      struct pst_error *err)
{
    pst_transport_module_fn *entry = NULL;
    void *function = NULL;
    char why[256] = "";
    pst_status status = pst_module_load("transport", job->run.transport,
                                        PST_TRANSPORT_MODULE_SYMBOL, &function, err);

    if (status == PST_OK) {
        *(void **)&entry = function;
        *ret_ops = entry();
        if ((*ret_ops)->probe != NULL && (*ret_ops)->probe(why, sizeof why) != PST_OK) {
            status = pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                              "run.transport = \"%s\": %s", job->run.transport, why);
            pst_error_hint(err, "run.transport = \"threads\" runs the same plan in one process");
        }
    }
    return pst_config_place(job->config, "run", "transport", status, err);
}

static pst_status find_transport(struct pst_session *session, bool load, struct pst_error *err)
{
    const struct pst_job *job = session->job;

    return load ? pst_session_load_transport(job, &session->transport_ops, err)
                : pst_config_place(job->config, "run", "transport",
                                   pst_module_check("transport", job->run.transport, err), err);
}

/* The times of a costed graph are its own. */
static pst_status take_costed(struct pst_session *session, bool profile, struct pst_error *err)
{
    const struct pst_graph *graph = session->graph;
    uint32_t *nodes = pst_arena_array(&session->arena, graph->n_ops, sizeof *nodes);

    for (uint32_t o = 0; o < graph->n_ops; o++) {
        nodes[o] = o < graph->costed->n_nodes ? o : PST_NONE;
    }
    session->cost.profile = graph->costed;
    session->cost.profile_nodes = nodes;
    return profile ? pst_config_place(session->job->config, "profile", "file",
                                      pst_fail(err, PST_ERR_CONFIG, "config.value",
                                               "\"file\" in [profile]: a costed graph has its own "
                                               "times; leave the key out"),
                                      err)
                   : PST_OK;
}

/* A costed graph has its own times; others come from [profile] file, if there is one. */
static pst_status load_profile(struct pst_session *session, struct pst_error *err)
{
    const char *file = session->job->profile.file;
    const bool given = file != NULL && file[0] != '\0';

    if (session->graph->costed != NULL) {
        return take_costed(session, given, err);
    }
    if (given && session->chooses) {
        return pst_config_place(
            session->job->config, "profile", "file",
            pst_fail(err, PST_ERR_CONFIG, "config.value",
                     "\"file\" in [profile] has times of one tensor degree, and "
                     "parallel.tensor = [%s] lets the partitioner choose; set "
                     "it to one number, or leave the file out",
                     session->job->parallel.tensor),
            err);
    }
    return given ? parts->profile(session, err) : PST_OK;
}

/* Keys that [cluster] leaves out get the figures of the device, if it has any. */
static void take_figures(struct pst_session *session)
{
    struct pst_cluster known = session->cluster;

    if (session->device_ops->figures == NULL) {
        return;
    }
    session->device_ops->figures(session->device, &known);
    for (uint32_t i = 0; i < pst_cluster_n_params; i++) {
        const struct pst_param *row = &pst_cluster_params[i];

        if (pst_config_get(session->job->cluster, row->key) == NULL) {
            memcpy((char *)&session->cluster + row->offset, (const char *)&known + row->offset,
                   sizeof(uint64_t)); /* as large as all of its fields */
        }
    }
}

uint32_t pst_session_side_by_side(const struct pst_session *session)
{
    const uint32_t threads = session->device_config.threads, cores = pst_usable_cores();

    if (!pst_device_is_host(session->device_ops) || session->graph->costed != NULL) {
        return 0;
    }
    return cores > threads ? cores / threads : 1;
}

bool pst_session_meets_in_waits(const struct pst_session *session)
{
    return pst_session_side_by_side(session) > 0 &&
           pst_module_has("transport", session->job->run.transport, PST_MODULE_MEETS_IN_WAITS);
}

static pst_status create_session(const struct pst_job *job, const struct pst_team *team,
                                 bool with_transport, struct pst_session **ret_session,
                                 struct pst_error *err)
{
    struct pst_session *session = pst_alloc(1, sizeof *session);
    struct pst_arena arena = {0};
    pst_status status;

    session->job = job;
    session->chooses = pst_degrees_are_chosen(job);
    if (team != NULL) { /* each of its processes asks the device that it has */
        session->team = *team;
        session->device_config.index = team->rank;
    }
    status = pst_params_fill(pst_cluster_params, pst_cluster_n_params, sizeof(struct pst_param),
                             job->cluster, "[cluster]", pst_cluster_tables, &arena,
                             &session->cluster, err);
    pst_arena_finish(&arena);
    PST_TRY(status, pst_session_graph(job, &session->graph, err));
    PST_TRY(status, parts->model_file(job, &session->arena, &session->model_file,
                                      &session->model_file_hash, err));
    PST_TRY(status, pst_rules_make(job, session->graph, &session->rules, err));
    PST_TRY(status, load_profile(session, err));
    PST_TRY(status, load_device(session, err));
    if (status == PST_OK) {
        take_figures(session);
        parts->calibrate(session);
        status = pst_config_place(job->config, "cluster", "reserve",
                                  pst_cluster_check(&session->cluster, err), err);
    }
    PST_TRY(status, pst_cluster_mix(job->cluster, &session->cluster, &session->arena, err));
    PST_TRY(status, pst_groups_check(session, err));
    /* Processes ask each other if the config says so, whichever partitioners they have. */
    if (status == PST_OK && (job->parallel.n_tensors > 1 || session->graph->parts > 1)) {
        status = pst_groups_check_processors(session, err);
    }
    PST_TRY(status, find_transport(session, with_transport, err));
    if (status == PST_OK && with_transport) {
        status = count_devices(session, err);
        PST_TRY(status, check_gpus(session, err));
    }
    if (status != PST_OK) {
        pst_session_destroy(session);
        return status;
    }
    session->cost.graph = session->graph;
    session->cost.cluster = &session->cluster;
    session->cost.workspace = workspace;
    session->cost.workspace_context = session;
    pst_session_times_taken(session);
    *ret_session = session;
    return PST_OK;
}

pst_status pst_session_create(const struct pst_job *job, const struct pst_team *team,
                              struct pst_session **ret_session, struct pst_error *err)
{
    return create_session(job, team, true, ret_session, err);
}

pst_status pst_session_create_for_planning(const struct pst_job *job,
                                           struct pst_session **ret_session, struct pst_error *err)
{
    return create_session(job, NULL, false, ret_session, err);
}

void pst_session_times_taken(struct pst_session *session)
{
    /* [cluster] describes links that need no core of a device */
    session->cost.meets_in_waits = session->profile != NULL && pst_session_meets_in_waits(session);
}

pst_status pst_session_divide(struct pst_session *session, const uint16_t *degree_of,
                              struct pst_error *err)
{
    pst_status status;

    PST_ASSERT(session->planned.plan == NULL && session->eval_plan == NULL &&
               session->graph->parts == 1);
    status = pst_groups_split(session->job, degree_of, &session->graph, err);
    if (status == PST_OK && session->graph->parts == 1) {
        return PST_OK;
    }
    session->cost.graph = session->graph;
    PST_TRY(status, pst_rules_make(session->job, session->graph, &session->rules, err));
    PST_TRY(status, pst_config_place(session->job->config, "run", "device",
                                     check_traits(session, err), err));
    PST_TRY(status, pst_groups_check(session, err));
    return status;
}

static void destroy_programs(struct pst_program **programs, uint32_t n)
{
    for (uint32_t i = 0; programs != NULL && i < n; i++) {
        pst_program_destroy(programs[i]);
    }
    free(programs);
}

pst_status pst_session_check_runs(const struct pst_session *session, struct pst_error *err)
{
    if (session->graph->costed == NULL) {
        return PST_OK;
    }
    pst_fail(err, PST_ERR_CONFIG, "config.value",
             "a costed graph has times and sizes, and no operators to run");
    pst_error_hint(err, "plan, check, simulate, compare and export accept it; to train a PyTorch "
                        "module, export it to ONNX and set model.use = \"onnx\"");
    return pst_config_place(session->job->config, "model", "use", PST_ERR_CONFIG, err);
}

void pst_session_destroy(struct pst_session *session)
{
    if (session == NULL) {
        return;
    }
    if (session->eval_plan != NULL) {
        destroy_programs(session->eval_programs, session->eval_plan->n_devices);
        pst_plan_destroy(session->eval_plan);
    }
    pst_planned_finish(&session->planned);
    if (session->device != NULL && !pst_exec_is_stuck()) {
        session->device_ops->close(session->device);
    }
    pst_costed_destroy(session->profile);
    pst_graph_destroy(session->whole);
    pst_graph_destroy(session->graph);
    pst_arena_finish(&session->arena);
    free(session);
}
