/* SPDX-License-Identifier: Apache-2.0
 *
 * A partitioner to start from: cuts the model, in its order, into parts of equal size. It is
 * complete and legal.
 *
 * To make it yours, in five steps:
 *
 *   1. Copy this folder, or have it copied and renamed:  penstock plugins new partitioner my-plugin
 *   2. Rename: my-plugin, the name that users write, in CMakeLists.txt and in PST_PLUGIN_HEAD;
 *      my_plugin, the name in C. The shared object must be called partitioner-<id>.so.
 *   3. Build it unchanged:  cmake -B build && cmake --build build
 *      or, with nothing but a compiler:
 *              cc -std=c11 -O2 -fPIC -shared -fvisibility=hidden $(pkg-config --cflags penstock) \
 *                 -o partitioner-my-plugin.so partitioner.c
 *   4. Check it:  penstock plugins check build/partitioner-my-plugin.so   (everything passes)
 *   5. Edit, and go on checking. Try it:
 *              PENSTOCK_PLUGIN_PATH=$PWD/build penstock plan CONFIG --set partitioner.use=my-plugin
 *
 * The headers in <penstock/> say what every function is promised and must promise.
 */
#include <stdalign.h>

#include <penstock/penstock.h>

enum { MEASURE_NODES = 0, MEASURE_PARAMETERS = 1 };

/*
 * Parameters: the keys of [partitioner] in a user's TOML file. The host reads the file, checks
 * types and ranges, fills this struct before create(), and prints the help from the rows below. A
 * row's name, C field and TOML key are one word.
 */
struct config {
    uint32_t measure; /* an enum row fills a uint32_t with the index of the word */
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, measure, PST_PARAM_ENUM, "nodes", "nodes|parameters",
              "Quantity of which every stage gets an equal share."),
};

/*
 * An instance, struct my_plugin: `host`, what the host offers, and `config`, filled and checked.
 * There may be two at once, so no globals. A plugin that keeps more of its own writes the struct,
 * create() and destroy() itself, as <penstock/simple.h> has them; memory comes from host->alloc and
 * lives as long as the instance, and the checker makes every allocation fail once.
 *
 * Extensions tell more than the graph does; each may be NULL: do without, or refuse with
 * pst_failf(host, PST_ERR_UNSUPPORTED, "...").
 *     cost = self->host->get_extension(self->host, PST_COST);   times of nodes and transfers
 *     ask = self->host->get_extension(self->host, PST_ASK);     what the other strategies would do
 */
PST_INSTANCE(my_plugin, struct config)

static uint64_t weight(const struct my_plugin *self, const struct pst_graph_view *graph, uint32_t i)
{
    /* Always through the accessor: elements may be larger than this header knows. */
    const struct pst_node *node = pst_graph_node(graph, i);

    return self->config->measure == MEASURE_NODES ? 1 : node->param_bytes;
}

/*
 * How many nodes from `first` on make stage s: until the stages so far have their share of the
 * total, but one at the least, and one is left for each stage behind.
 */
static uint32_t stage_length(const struct my_plugin *self, const struct pst_graph_view *graph,
                             uint32_t first, uint32_t s, uint32_t n_stages, double total,
                             double *used)
{
    uint32_t most = graph->n_nodes - first - (n_stages - 1 - s), n = 0;

    while (n < most && (n == 0 || s + 1 == n_stages || *used < total * (s + 1) / n_stages)) {
        *used += (double)weight(self, graph, first + n);
        n++;
    }
    return n;
}

/*
 * The cut: one out->stage() per stage, in topological order. Every node belongs to one stage; no
 * path leaves a stage and comes back to it. Nodes are numbered topologically, so runs of
 * consecutive numbers are always legal.
 *
 * A search that takes long asks host->cancelled() every 10 ms and returns PST_ERR_CANCELLED.
 */
static pst_status partition(void *self_, const struct pst_partition_in *in,
                            struct pst_partition_out *out)
{
    const struct my_plugin *self = (const struct my_plugin *)self_;
    uint32_t n = in->graph->n_nodes;
    uint32_t n_stages = in->n_stages; /* 0: the scheduler leaves the number to us */
    uint32_t s, i, first = 0;
    double total = 0, used = 0;
    uint32_t *nodes;

    if (n_stages == 0) {
        n_stages = in->n_devices < n ? in->n_devices : n;
    }
    if (n_stages > n) {
        /* A refusal says what is wrong and what would do. */
        return pst_failf(self->host, PST_ERR_INFEASIBLE,
                         "%u stages are wanted but the graph has only %u nodes; use fewer "
                         "devices, fewer stages on each, or a deeper model",
                         n_stages, n);
    }
    nodes = (uint32_t *)self->host->alloc(self->host, (size_t)n * sizeof *nodes, alignof(uint32_t));
    if (nodes == NULL) {
        return PST_ERR_NOMEM;
    }
    for (i = 0; i < n; i++) {
        nodes[i] = i;
        total += (double)weight(self, in->graph, i);
    }
    for (s = 0; s < n_stages; s++) {
        uint32_t length = stage_length(self, in->graph, first, s, n_stages, total, &used);
        struct pst_stage_decl stage = {
            .size = sizeof stage,
            .nodes = nodes + first, /* ascending; the host copies them */
            .n_nodes = length,
            .ranks = &s, /* stage s on device s, one replica */
            .n_ranks = 1,
            .microbatch_size = in->micro_batches[0], /* one of the candidates */
            .k = 1,
        };
        pst_status status = out->stage(out, &stage);

        if (status != PST_OK) {
            return status; /* the host knows what was wrong; pass it on */
        }
        first += length;
    }
    return PST_OK;
}

/* The interface: functions by name. Those left out are NULL: not offered. */
PST_INTERFACE(PST_PARTITIONER, struct pst_partitioner, .partition = partition)

/* Capability words: what the answer may contain, and what it asks of the other strategies. */
static const char *const provides[] = {"chain", NULL};
static const char *const needs[] = {"chain", NULL};

/* The description. Static and constant; the host reads it before it runs anything else. */
static const struct pst_plugin plugin = {
    PST_PLUGIN_HEAD("partitioner", "my-plugin", "0.1"),
    .summary = "Parts of equal size, in the model's order.", /* for "penstock plugins" */
    .reference = "none",                                     /* the paper, if there is one */
    .license = "Apache-2.0",
    .provides = provides,
    .needs = needs,
    PST_PLUGIN_PARAMS(params, struct config),
    PST_PLUGIN_FUNCTIONS,
};

/* The one symbol that the shared object exports. */
PST_PLUGIN(plugin)
