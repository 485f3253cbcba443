/* SPDX-License-Identifier: Apache-2.0
 *
 * A partitioner that asks the host everything, remarks what it heard, and puts all nodes into one
 * stage; or crashes, never returns, or says no.
 */

#include "gallery.h"

struct config {
    uint32_t way;
    bool objective;
};

enum { WAY_ASK, WAY_CRASH, WAY_HANG, WAY_REFUSE, WAY_WRONG, WAY_LARGE, WAY_MANY, WAY_FAR };

PST_INSTANCE(asker, struct config)

static const struct pst_param params[] = {
    PST_PARAM(struct config, way, PST_PARAM_ENUM, "ask",
              "ask|crash|hang|refuse|wrong|large|many|far", "What to do."),
    PST_PARAM(struct config, objective, PST_PARAM_BOOL, "false", NULL,
              "Remark a bottleneck of its own."),
};

static pst_status ask_profile(const struct pst_host *host, const struct pst_partition_in *in,
                              const struct pst_remark *remark)
{
    const struct pst_profile *profile = host->get_extension(host, PST_PROFILE);
    const struct pst_figures *figures = profile->figures(host);
    struct pst_node_config config = {.size = sizeof config};
    uint32_t last = in->graph->n_nodes - 1;
    double ns[3] = {0, 0, 0};
    pst_status st = profile->node_ns(host, 0, 3, ns);

    remark->number(host, "f_ns", ns[0]);
    remark->number(host, "b_ns", ns[1]);
    remark->number(host, "w_ns", ns[2]);
    remark->number(host, "comm_model", figures->comm_model);
    remark->flag(host, "reference", figures->reference == 1);
    remark->number(host, "node_size", figures->node_size);
    remark->number(host, "weight_multiplier", figures->weight_multiplier);
    remark->number(host, "p2p", figures->p2p_bytes_per_s);
    remark->number(host, "allreduce", figures->allreduce_bytes_per_s);
    remark->number(host, "saved", figures->saved_bytes[0]);
    remark->number(host, "edge", figures->edge_bytes[0]);
    remark->number(host, "n_configs", profile->n_configs(host, last));
    if (st == PST_OK && profile->n_configs(host, last) > 0) {
        st = profile->config(host, last, 0, &config);
        remark->text(host, "config_name", config.name);
        remark->number(host, "config_ns", config.ns_per_sample);
        remark->number(host, "config_in_flight", config.in_flight_bytes);
        remark->number(host, "config_fixed", config.fixed_bytes);
    }
    return st;
}

static pst_status ask_others(const struct pst_host *host, const struct pst_partition_in *in,
                             const struct pst_remark *remark)
{
    const struct pst_ask *ask = host->get_extension(host, PST_ASK);
    const struct pst_cost *cost = host->get_extension(host, PST_COST);
    const struct pst_successor next[] = {{4, 1, 2}, {2, 1, 3}};
    const uint32_t node = 0;
    const struct pst_place place = {.size = sizeof place,
                                    .n_stages = 3,
                                    .n_devices = in->n_devices,
                                    .n_microbatches = in->batch / 2,
                                    .microbatch_size = 2,
                                    .k = 1,
                                    .n_successors = 2,
                                    .successor_size = sizeof next[0],
                                    .successors = next};
    struct pst_stage_question question = {.size = sizeof question,
                                          .nodes = &node,
                                          .n_nodes = 1,
                                          .n_stages = 1,
                                          .microbatch_size = 4,
                                          .n_ranks = 2,
                                          .in_flight = 3,
                                          .weight_versions = 1,
                                          .capacity_bytes = in->capacity_bytes};
    struct pst_topology topology = {.size = sizeof topology, .n_stages = 7};
    struct pst_stage_price price = {.size = sizeof price};
    struct pst_held held = {.size = sizeof held};
    struct pst_times times;
    uint64_t bound = 0;
    pst_status st = ask->topology(host, in->n_devices, &topology);

    st = st == PST_OK ? ask->in_flight(host, &place, &held) : st;
    st = st == PST_OK ? ask->price(host, &question, &price) : st;
    st = st == PST_OK ? ask->bound(host, &question, &bound) : st;
    st = st == PST_OK ? cost->compute(host, &node, 1, 4, &times) : st;
    if (st != PST_OK) {
        return st;
    }
    remark->number(host, "topology", topology.n_stages);
    remark->number(host, "held", held.microbatches);
    remark->number(host, "price_peak", (double)price.peak_bytes);
    remark->number(host, "price_period", (double)price.period_ns);
    remark->flag(host, "price_fits", price.fits != 0);
    remark->number(host, "bound", (double)bound);
    remark->number(host, "compute_f", (double)times.forward_ns);
    remark->number(host, "transfer", (double)cost->transfer_ns(host, 1000, 0, 1));
    remark->number(host, "sum_up", (double)cost->allreduce_ns(host, 1000, 4));
    return PST_OK;
}

/* What no stage of this job can be: micro-batches above the batch, a stage more than there are. */
static pst_status ask_wrongly(const struct pst_host *host, const struct pst_partition_in *in,
                              uint32_t way)
{
    const struct pst_ask *ask = host->get_extension(host, PST_ASK);
    const uint32_t node = 0, n_stages = way == WAY_LARGE ? 1 : in->n_devices + 1;
    const struct pst_place place = {.size = sizeof place,
                                    .stage = n_stages - 1,
                                    .n_stages = n_stages,
                                    .n_devices = in->n_devices,
                                    .n_microbatches = 2,
                                    .microbatch_size = in->batch / 2,
                                    .k = 1};
    struct pst_stage_question question = {.size = sizeof question,
                                          .nodes = &node,
                                          .n_nodes = 1,
                                          .stage = n_stages - 1,
                                          .n_stages = n_stages,
                                          .microbatch_size =
                                              way == WAY_LARGE ? 2 * in->batch : in->batch,
                                          .n_ranks = 1,
                                          .in_flight = 1,
                                          .weight_versions = 1,
                                          .capacity_bytes = UINT64_MAX};
    struct pst_stage_price price = {.size = sizeof price};
    struct pst_held held = {.size = sizeof held};

    return way == WAY_FAR ? ask->in_flight(host, &place, &held)
                          : ask->price(host, &question, &price);
}

static void remark_oddly(const struct pst_host *host, const struct asker *self,
                         const struct pst_remark *remark)
{
    remark->number(host, "twice", 1);
    remark->text(host, "twice", "last");
    remark->number(host, "step_us", -1);
    remark->number(host, "No Key", 1);
    remark->number(host, "", 1);
    if (self->config->objective) {
        remark->number(host, "bottleneck_us_per_sample", 12.5);
    }
}

static pst_status partition(void *self_, const struct pst_partition_in *in,
                            struct pst_partition_out *out)
{
    const struct asker *self = self_;
    const struct pst_host *host = self->host;
    const struct pst_remark *remark = host->get_extension(host, PST_REMARK);
    uint32_t *nodes = host->alloc(host, in->graph->n_nodes * sizeof *nodes, 0);
    struct pst_stage_decl stage = {.size = sizeof stage,
                                   .nodes = nodes,
                                   .n_nodes = in->graph->n_nodes,
                                   .n_ranks = 1,
                                   .microbatch_size = in->micro_batches[in->n_micro_batches - 1],
                                   .k = 1};
    volatile int *nowhere = NULL;
    volatile uint32_t turns = 1;
    uint32_t rank = 0;
    pst_status st;

    switch (self->config->way) {
    case WAY_CRASH:
        *nowhere = 1;
        break;
    case WAY_HANG:
        while (turns != 0) {
            turns = 1;
        }
        break;
    case WAY_REFUSE:
        host->cancelled(host); /* a caller can count */
        return pst_failf(host, PST_ERR_INFEASIBLE, "node \"%s\" is not to my liking",
                         pst_graph_node(in->graph, 0)->name);
    case WAY_WRONG:
        return ((const struct pst_profile *)host->get_extension(host, PST_PROFILE))
            ->node_ns(host, in->graph->n_nodes, 1, (double[3]){0});
    case WAY_LARGE:
    case WAY_MANY:
    case WAY_FAR:
        return ask_wrongly(host, in, self->config->way);
    default:
        break;
    }
    if (nodes == NULL) {
        return PST_ERR_NOMEM;
    }
    for (uint32_t v = 0; v < in->graph->n_nodes; v++) {
        nodes[v] = v;
    }
    stage.ranks = &rank;
    st = ask_profile(host, in, remark);
    st = st == PST_OK ? ask_others(host, in, remark) : st;
    remark_oddly(host, self, remark);
    return st == PST_OK ? out->stage(out, &stage) : st;
}

PST_INTERFACE(PST_PARTITIONER, struct pst_partitioner, .partition = partition)

GALLERY_PLUGIN("partitioner", "asker", "1.5", "Asks.", PST_PLUGIN_PARAMS(params, struct config),
               "chain")
