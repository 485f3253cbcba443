/* SPDX-License-Identifier: Apache-2.0
 *
 * Equal numbers of nodes per stage, in topological order. It looks at neither cost nor memory: the
 * yardstick for every other partitioner.
 */
#include <string.h>

#include <penstock/penstock.h>

struct uniform {
    const struct pst_host *host;
};

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    struct uniform *self = host->alloc(host, sizeof *self, _Alignof(struct uniform));

    (void)config;
    if (self == NULL) {
        return PST_ERR_NOMEM;
    }
    self->host = host;
    *ret_self = self;
    return PST_OK;
}

static void destroy(void *self)
{
    (void)self; /* lives in the instance's memory */
}

static pst_status partition(void *self_, const struct pst_partition_in *in,
                            struct pst_partition_out *out)
{
    const struct uniform *self = self_;
    uint32_t n = in->graph->n_nodes;
    uint32_t n_stages = in->n_stages != 0 ? in->n_stages : in->n_devices;
    uint32_t s, i, first = 0;
    uint32_t *nodes;

    if (n_stages > n) {
        return pst_failf(self->host, PST_ERR_INFEASIBLE,
                         "%u stages are wanted but the graph has only %u nodes; use fewer "
                         "devices, fewer stages on each, or a deeper model",
                         n_stages, n);
    }
    nodes = self->host->alloc(self->host, (size_t)n * sizeof *nodes, _Alignof(uint32_t));
    if (nodes == NULL) {
        return PST_ERR_NOMEM;
    }
    for (i = 0; i < n; i++) {
        nodes[i] = i;
    }
    for (s = 0; s < n_stages; s++) {
        uint32_t rest = n % n_stages;
        struct pst_stage_decl stage = {
            .size = sizeof stage,
            .nodes = nodes + first,
            .n_nodes = n / n_stages + (s >= n_stages - rest ? 1 : 0),
            .ranks = &s,
            .n_ranks = 1,
            .microbatch_size = in->micro_batches[0],
            .k = 1,
        };
        pst_status st = out->stage(out, &stage);

        if (st != PST_OK) {
            return st;
        }
        first += stage.n_nodes;
    }
    return PST_OK;
}

static const struct pst_partitioner partitioner = {
    .size = sizeof partitioner,
    .partition = partition,
};

static const void *get_interface(const char *id)
{
    return strcmp(id, PST_PARTITIONER) == 0 ? &partitioner : NULL;
}

static const char *const provides[] = {"chain", NULL};
static const char *const needs[] = {"chain", NULL};

static const struct pst_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = PST_ABI_MAJOR,
    .abi_minor = PST_ABI_MINOR,
    .kind = "partitioner",
    .id = "uniform",
    .version = "1.0",
    .summary = "Equal numbers of nodes per stage, whatever they cost.",
    .reference = "none",
    .license = "Apache-2.0",
    .provides = provides,
    .needs = needs,
    .params = NULL,
    .n_params = 0,
    .param_size = sizeof(struct pst_param),
    .config_size = 0,
    .create = create,
    .destroy = destroy,
    .get_interface = get_interface,
};

PST_PLUGIN(plugin)
