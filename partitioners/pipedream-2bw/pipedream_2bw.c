/* SPDX-License-Identifier: Apache-2.0
 *
 * Pipelines of equal width: which number of replicas w, depth d, micro-batch size and recomputation
 * give the most samples per second within memory, as PipeDream-2BW's planner chooses them.
 */

#include "twobw.h"

PST_INSTANCE(self, struct config)

static const struct pst_param params[] = {
    PST_PARAM(struct config, node_size, PST_PARAM_INT, "0", "0..1048576",
              "Devices per server; 0: the problem's number, or else all devices in one server."),
    PST_PARAM(struct config, bandwidth_high, PST_PARAM_RATE, "0", NULL,
              "Bytes per second inside a server; 0: the problem's p2p_bandwidth."),
    PST_PARAM(struct config, bandwidth_low, PST_PARAM_RATE, "0", NULL,
              "Bytes per second between servers; 0: the problem's p2p_bandwidth."),
    PST_PARAM(struct config, allreduce_coefficient, PST_PARAM_FLOAT, "4", "0..64",
              "An all-reduce moves this times (w - 1) / w times the parameter bytes; 2: a ring."),
    PST_PARAM(struct config, c_extra, PST_PARAM_FLOAT, "1.3333333333333333", "1..4",
              "Factor by which recomputation lengthens a stage."),
    PST_PARAM(struct config, allow_idle, PST_PARAM_BOOL, "false", NULL,
              "Also consider plans that leave devices idle."),
    PST_PARAM(struct config, strict_width, PST_PARAM_BOOL, "false", NULL,
              "Replicas that exactly fill a server pay the slow bandwidth, as in the paper."),
    PST_PARAM(struct config, transfers, PST_PARAM_ENUM, "paper", "paper|per-boundary",
              "One bandwidth for all boundaries by depth, or each boundary's own, by ranks."),
    PST_PARAM(struct config, placement, PST_PARAM_ENUM, "stage-major", "stage-major|pipeline-major",
              "Which ranks are neighbours: replicas of a stage, or stages of a pipeline."),
    PST_PARAM(struct config, even, PST_PARAM_BOOL, "true", NULL,
              "If all blocks are alike, divide them evenly and charge each stage as the worst one, "
              "as in the paper; false: cut by every stage's own memory."),
    PST_PARAM(struct config, schedule, PST_PARAM_ENUM, "2bw", "2bw|flush|gpipe|best",
              "Model of time and memory for a problem file; a job uses its scheduler."),
    PST_PARAM(struct config, places, PST_PARAM_INT, "2000", "1..10000",
              "Approximate maximum of places where a stage may end, for a problem file; in longer "
              "models of unequal blocks they are spread evenly by time, where few bytes cross."),
};

static void find_cuts(struct twobw *search, struct candidate *c, uint32_t *ret_cuts)
{
    bool found, planned = search->problem->figures.reference == 0;
    uint32_t s;

    if (!planned && search->equal) {
        for (s = 0; s <= c->d; s++) {
            ret_cuts[s] = search->ranges.n / c->d * s;
        }
        return;
    }
    twobw_times(search, c->b);
    if (planned) {
        twobw_cut_planned(search, c, ret_cuts, &found);
    } else {
        twobw_cut(search, c, ret_cuts, &found);
    }
}

static void remark(const struct twobw *search, const struct candidate *c)
{
    static const char *const schedules[] = {"2bw", "flush", "gpipe"};
    const struct part_problem *problem = search->problem;

    part_remark_text(problem, "mode", c->pipeline && c->d > 1 ? "pipeline" : "no-pipeline");
    part_remark_flag(problem, "recompute", c->recompute);
    part_remark_text(problem, "schedule", schedules[c->schedule]);
    part_remark_number(problem, "bottleneck_us_per_sample", c->t_ns / ((double)c->w * c->b) / 1000);
    part_remark_number(problem, "throughput_per_second", c->throughput * 1e9);
    if (problem->figures.reference == 0) {
        part_remark_number(problem, "worst_stage_bytes", c->bytes);
    }
    part_remark_number(problem, "width", c->w);
    part_remark_number(problem, "depth", c->d);
    part_remark_number(problem, "samples_per_device", c->b);
    part_remark_number(problem, "accumulation", (double)c->m / c->d);
    part_remark_number(problem, "configurations", search->n_seen);
}

static void remark_bytes(struct twobw *search, const struct candidate *c, const uint32_t *cuts)
{
    double *bytes = call_alloc((size_t)c->d + 1, sizeof *bytes);

    twobw_stage_bytes(search, c, cuts, bytes);
    part_remark_stage_bytes(search->problem, bytes, c->d);
}

/* Cuts between places become cuts between nodes. */
static void name_nodes(const struct twobw *search, uint32_t d, uint32_t *cuts)
{
    uint32_t s;

    if (search->crossing == NULL) {
        return;
    }
    part_remark_number(search->problem, "places", search->n_places - 1);
    for (s = 0; s <= d; s++) {
        cuts[s] = search->place[cuts[s]];
    }
}

static pst_status refuse(const struct twobw *search)
{
    const struct part_problem *problem = search->problem;
    const struct candidate *c = &search->smallest;

    if (search->n_seen == 0) {
        return pst_failf(problem->host, PST_ERR_INFEASIBLE,
                         "no width and depth with %u devices suit %u nodes, the micro-batch sizes "
                         "and the allowed degrees; allow_idle = true considers fewer devices",
                         problem->n_devices, problem->n);
    }
    if (c->d != 0) {
        return pst_failf(
            problem->host, PST_ERR_INFEASIBLE,
            "none of %u configurations fits: with %u stages on %u replicas, "
            "micro-batches of %u and %s, stage 0 is charged %.0f bytes, a device has %.0f",
            search->n_seen, c->d, c->w, c->b, c->pipeline ? "recomputation" : "no pipelining",
            c->bytes, problem->capacity_bytes);
    }
    return pst_failf(problem->host, PST_ERR_INFEASIBLE,
                     "none of %u configurations (replicas, stages, micro-batch size) has a cut of "
                     "which every stage fits the %.0f bytes of a device",
                     search->n_seen, problem->capacity_bytes);
}

static pst_status partition(void *self_, const struct pst_partition_in *in,
                            struct pst_partition_out *out)
{
    const struct self *self = self_;
    struct part_problem problem;
    struct twobw search;
    struct candidate best = {0};
    uint32_t *cuts;
    bool any;

    part_problem_read(self->host, in, &problem);
    twobw_init(&problem, self->config, &search);
    twobw_search(&search, &any, &best);
    if (!any) {
        return refuse(&search);
    }
    CALL_TAKE(cuts, (size_t)best.d + 1);
    find_cuts(&search, &best, cuts);
    if (problem.figures.reference != 0) {
        part_remark_flag(&problem, "own_width", true);
        remark_bytes(&search, &best, cuts);
    }
    name_nodes(&search, best.d, cuts);
    remark(&search, &best);
    part_chain_answer(&problem,
                      &(struct part_chain_shape){.n_stages = best.d,
                                                 .size = best.w * best.b,
                                                 .replicas = best.w,
                                                 .pipeline_major = self->config->placement ==
                                                                   PLACE_PIPELINE_MAJOR},
                      cuts, out);
    return PST_OK;
}

PART_PARTITIONER(partition)

static const char *const provides[] = {"chain", "replicas", NULL};
static const char *const needs[] = {"chain", NULL};

static const struct pst_plugin plugin = {
    PST_PLUGIN_HEAD("partitioner", "pipedream-2bw", "1.0"),
    .summary = "Replicas, depth, micro-batch size and recomputation of parallel pipelines.",
    .reference = "Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021",
    .license = "Apache-2.0",
    .provides = provides,
    .needs = needs,
    PST_PLUGIN_PARAMS(params, struct config),
    PST_PLUGIN_FUNCTIONS,
};

PST_PLUGIN(plugin)
