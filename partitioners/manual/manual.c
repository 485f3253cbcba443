/* SPDX-License-Identifier: Apache-2.0
 *
 * The cut that the user writes down: one list of name patterns per stage, and, where the scheduler
 * takes them, a micro-batch size, a number of replicas and a tensor degree per stage. For a cut
 * that is known to be good, for a paper's partition as printed, and for stage graphs with branches.
 */
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/penstock.h>

struct config {
    const char *stages, *microbatch_sizes, *replicas, *tensor;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, stages, PST_PARAM_STRING, NULL, NULL,
              "Stages separated by ';', each a list of operator names separated by ',', with * and "
              "?; an operator goes to the first stage that names it."),
    PST_PARAM(struct config, microbatch_sizes, PST_PARAM_STRING, "", NULL,
              "Samples of a micro-batch, one number per stage separated by ','; empty: "
              "train.microbatch for all."),
    PST_PARAM(struct config, replicas, PST_PARAM_STRING, "", NULL,
              "Replicas of a stage, one number per stage separated by ','; stages take devices in "
              "their order; empty: the first of train.degrees for all."),
    PST_PARAM(struct config, tensor, PST_PARAM_STRING, "", NULL,
              "Devices that share each operator of a stage, one number per stage separated by ',', "
              "of those that parallel.tensor lists; empty: the first of parallel.tensor for all."),
};

struct manual {
    const struct pst_host *host;
    char **patterns; /* of all stages in a row */
    uint32_t *first; /* [n_stages + 1] */
    uint32_t n_stages, n_sizes, n_replicas, n_tensors;
    uint32_t *sizes, *replicas, *tensors;
};

static char *trim(char *text)
{
    char *end;

    text += strspn(text, " \t\n");
    end = text + strlen(text);
    while (end > text && strchr(" \t\n", end[-1]) != NULL) {
        *--end = '\0';
    }
    return text;
}

static uint32_t count(const char *text, const char *separators)
{
    uint32_t n = 1;

    for (; *text != '\0'; text++) {
        n += strchr(separators, *text) != NULL;
    }
    return n;
}

static char *copy(const struct pst_host *host, const char *text)
{
    char *own = host->alloc(host, strlen(text) + 1, 1);

    return own == NULL ? NULL : strcpy(own, text);
}

static pst_status read_stages(struct manual *self, const char *given)
{
    const struct pst_host *host = self->host;
    char *text = copy(host, given), *stage_save = NULL, *stage;
    uint32_t n = 0;

    self->patterns = host->alloc(host, count(given, ",;") * sizeof *self->patterns, sizeof(void *));
    self->first = host->alloc(host, (count(given, ";") + 1) * sizeof *self->first, 4);
    if (text == NULL || self->patterns == NULL || self->first == NULL) {
        return PST_ERR_NOMEM;
    }
    for (stage = strtok_r(text, ";", &stage_save); stage != NULL;
         stage = strtok_r(NULL, ";", &stage_save)) {
        char *save = NULL, *pattern;

        self->first[self->n_stages] = n;
        for (pattern = strtok_r(stage, ",", &save); pattern != NULL;
             pattern = strtok_r(NULL, ",", &save)) {
            pattern = trim(pattern);
            if (*pattern != '\0') {
                self->patterns[n++] = pattern;
            }
        }
        if (n == self->first[self->n_stages]) {
            continue; /* a ';' at the end, or two in a row */
        }
        self->first[++self->n_stages] = n;
    }
    return self->n_stages > 0 ? PST_OK
                              : (host->fail)(host, PST_ERR_CONFIG,
                                             "\"stages\" names no stage; as in \"embed*, "
                                             "block0.*; *\"");
}

/* One number per stage, or none at all. */
static pst_status read_numbers(struct manual *self, const char *key, const char *given,
                               uint32_t **ret_numbers, uint32_t *ret_n)
{
    const struct pst_host *host = self->host;
    const char *at = given;
    uint32_t *numbers, n = 0;

    if (given[strspn(given, " ")] == '\0') {
        return PST_OK;
    }
    numbers = host->alloc(host, count(given, ",") * sizeof *numbers, 4);
    if (numbers == NULL) {
        return PST_ERR_NOMEM;
    }
    for (;;) {
        char *end;
        unsigned long size;

        errno = 0;
        at += strspn(at, " ");
        size = strtoul(at, &end, 10);
        end += strspn(end, " ");
        if (*at < '0' || *at > '9' || errno != 0 || size == 0 || size > UINT32_MAX ||
            (*end != ',' && *end != '\0')) {
            return pst_failf(host, PST_ERR_CONFIG,
                             "\"%s\" must be numbers separated by commas, not \"%s\"", key, given);
        }
        numbers[n++] = (uint32_t)size;
        if (*end == '\0') {
            break;
        }
        at = end + 1;
    }
    if (n != self->n_stages) {
        return pst_failf(host, PST_ERR_CONFIG, "%u \"%s\" for %u \"stages\"", n, key,
                         self->n_stages);
    }
    *ret_numbers = numbers;
    *ret_n = n;
    return PST_OK;
}

static pst_status create(const struct pst_host *host, const void *config_, void **ret_self)
{
    const struct config *config = config_;
    struct manual *self = host->alloc(host, sizeof *self, _Alignof(struct manual));
    pst_status status;

    if (self == NULL) {
        return PST_ERR_NOMEM;
    }
    self->host = host;
    status = read_stages(self, config->stages);
    status = status != PST_OK ? status
                              : read_numbers(self, "microbatch_sizes", config->microbatch_sizes,
                                             &self->sizes, &self->n_sizes);
    status = status != PST_OK ? status
                              : read_numbers(self, "replicas", config->replicas, &self->replicas,
                                             &self->n_replicas);
    status = status != PST_OK
                 ? status
                 : read_numbers(self, "tensor", config->tensor, &self->tensors, &self->n_tensors);
    if (status == PST_OK) {
        *ret_self = self;
    }
    return status;
}

PST_DESTROY_NOTHING

static uint32_t stage_of(const struct manual *self, const char *name)
{
    for (uint32_t s = 0; s < self->n_stages; s++) {
        for (uint32_t i = self->first[s]; i < self->first[s + 1]; i++) {
            if (fnmatch(self->patterns[i], name, 0) == 0) {
                return s;
            }
        }
    }
    return PST_NONE;
}

static uint32_t replicas_of(const struct manual *self, const struct pst_partition_in *in,
                            uint32_t s)
{
    return self->n_replicas > 0 ? self->replicas[s] : in->degrees[0];
}

static uint32_t size_of(const struct manual *self, const struct pst_partition_in *in, uint32_t s)
{
    return self->n_sizes > 0 ? self->sizes[s] : in->micro_batches[0];
}

/* Hosts before 1.7 offer no degrees. */
static uint32_t tensor_of(const struct manual *self, const struct pst_partition_in *in, uint32_t s)
{
    return self->n_tensors > 0                           ? self->tensors[s]
           : PST_HAS(in, n_tensors) && in->n_tensors > 0 ? in->tensors[0]
                                                         : 1;
}

static uint32_t ranks_of(const struct manual *self, const struct pst_partition_in *in, uint32_t s)
{
    return replicas_of(self, in, s) * tensor_of(self, in, s);
}

static pst_status check_tensor(const struct manual *self, const struct pst_partition_in *in)
{
    const uint32_t n = PST_HAS(in, n_tensors) ? in->n_tensors : 0;
    const bool is_list = n > 1 || (n == 1 && in->tensors[0] > 1);

    for (uint32_t s = 0; s < self->n_tensors; s++) {
        uint32_t i = 0;

        while (i < n && in->tensors[i] != self->tensors[s]) {
            i++;
        }
        if (i == n && is_list) {
            return pst_failf(self->host, PST_ERR_CONFIG,
                             "\"tensor\" has %u for stage %u, which parallel.tensor does not list",
                             self->tensors[s], s);
        }
        if (!is_list) {
            return pst_failf(self->host, PST_ERR_CONFIG,
                             "\"tensor\" has %u for stage %u, but parallel.tensor is one number, "
                             "which all stages have; list those that a stage may have, such as "
                             "[1, %u], or remove \"tensor\"",
                             self->tensors[s], s, self->tensors[s]);
        }
    }
    return PST_OK;
}

static pst_status check_replicas(const struct manual *self, const struct pst_partition_in *in)
{
    uint64_t n_ranks = 0;
    bool shared = false;

    for (uint32_t s = 0; s < self->n_stages; s++) {
        uint32_t n = replicas_of(self, in, s), i = 0;

        while (i < in->n_degrees && in->degrees[i] != n) {
            i++;
        }
        if (i == in->n_degrees) {
            return pst_failf(self->host, PST_ERR_CONFIG,
                             "%u replicas of stage %u are not possible: %s", n, s,
                             in->n_degrees == 1 && in->degrees[0] == 1
                                 ? "train.degrees allows one, or the scheduler places stages itself"
                                 : "train.degrees does not list that number");
        }
        if (size_of(self, in, s) % n != 0) {
            return pst_failf(self->host, PST_ERR_CONFIG,
                             "%u replicas cannot share the micro-batches of stage %u, %u samples",
                             n, s, size_of(self, in, s));
        }
        n_ranks += ranks_of(self, in, s);
        shared |= tensor_of(self, in, s) > 1;
    }
    if (n_ranks > in->n_devices) {
        return pst_failf(self->host, PST_ERR_CONFIG,
                         "\"stages\" names %u stages with %llu %s in all for %u devices",
                         self->n_stages, (unsigned long long)n_ranks,
                         shared ? "replicas and parts of these" : "replicas", in->n_devices);
    }
    return PST_OK;
}

static pst_status check_counts(const struct manual *self, const struct pst_partition_in *in)
{
    if (in->n_stages != 0 && in->n_stages != self->n_stages) {
        return pst_failf(self->host, PST_ERR_CONFIG,
                         "\"stages\" names %u stages, but the scheduler needs %u", self->n_stages,
                         in->n_stages);
    }
    if (self->n_stages > in->n_devices) {
        return pst_failf(self->host, PST_ERR_CONFIG, "\"stages\" names %u stages for %u devices",
                         self->n_stages, in->n_devices);
    }
    for (uint32_t s = 0; s < self->n_sizes; s++) {
        uint32_t i = 0;

        while (i < in->n_micro_batches && in->micro_batches[i] != self->sizes[s]) {
            i++;
        }
        if (i == in->n_micro_batches) {
            return pst_failf(self->host, PST_ERR_CONFIG,
                             "micro-batches of %u samples for stage %u are not possible: %s",
                             self->sizes[s], s,
                             in->n_micro_batches == 1
                                 ? "the scheduler needs one size for all stages, train.microbatch"
                                 : "a size must divide train.batch");
        }
    }
    return check_tensor(self, in) == PST_OK ? check_replicas(self, in) : PST_ERR_CONFIG;
}

/* ranks: those that are left, from the next one on. */
static pst_status emit_stage(const struct manual *self, const struct pst_partition_in *in,
                             const uint32_t *owner, uint32_t s, uint32_t *nodes,
                             const uint32_t *ranks, struct pst_partition_out *out)
{
    struct pst_stage_decl stage = {
        .size = sizeof stage,
        .nodes = nodes,
        .ranks = ranks,
        .n_ranks = ranks_of(self, in, s),
        .microbatch_size = size_of(self, in, s),
        .k = 1,
        .tensor = tensor_of(self, in, s),
    };

    for (uint32_t v = 0; v < in->graph->n_nodes; v++) {
        if (owner[v] == s) {
            nodes[stage.n_nodes++] = v;
        }
    }
    if (stage.n_nodes == 0) {
        return pst_failf(self->host, PST_ERR_CONFIG,
                         "stage %u of \"stages\" is left without operators: \"%s\" matches nothing "
                         "that an earlier stage does not name; \"penstock plan\" prints names",
                         s, self->patterns[self->first[s]]);
    }
    return out->stage(out, &stage);
}

/* An edge that goes backwards would be refused by the host; here the two names can be told. */
static pst_status check_edges(const struct manual *self, const struct pst_graph_view *graph,
                              const uint32_t *owner)
{
    for (uint32_t e = 0; e < graph->n_edges; e++) {
        const struct pst_edge *edge = pst_graph_edge(graph, e);

        if (owner[edge->from] > owner[edge->to]) {
            return pst_failf(
                self->host, PST_ERR_CONFIG,
                "\"%s\" in stage %u reads \"%s\" in stage %u; list stages so that each "
                "reads only itself and those before it",
                pst_graph_node(graph, edge->to)->name, owner[edge->to],
                pst_graph_node(graph, edge->from)->name, owner[edge->from]);
        }
    }
    return PST_OK;
}

static pst_status partition(void *self_, const struct pst_partition_in *in,
                            struct pst_partition_out *out)
{
    const struct manual *self = self_;
    const struct pst_graph_view *graph = in->graph;
    uint32_t *owner = malloc(((size_t)graph->n_nodes + 1) * sizeof *owner);
    uint32_t *nodes = malloc(((size_t)graph->n_nodes + 1) * sizeof *nodes);
    uint32_t *ranks = malloc(((size_t)in->n_devices + 1) * sizeof *ranks), next = 0;
    pst_status status =
        owner == NULL || nodes == NULL || ranks == NULL ? PST_ERR_NOMEM : check_counts(self, in);

    for (uint32_t v = 0; status == PST_OK && v < graph->n_nodes; v++) {
        owner[v] = stage_of(self, pst_graph_node(graph, v)->name);
        if (owner[v] == PST_NONE) {
            status =
                pst_failf(self->host, PST_ERR_CONFIG,
                          "operator \"%s\" is in none of \"stages\"; a last stage \"*\" takes the "
                          "rest",
                          pst_graph_node(graph, v)->name);
        }
    }
    status = status != PST_OK ? status : check_edges(self, graph, owner);
    for (uint32_t r = 0; status == PST_OK && r < in->n_devices; r++) {
        ranks[r] = r;
    }
    for (uint32_t s = 0; status == PST_OK && s < self->n_stages; s++) {
        status = emit_stage(self, in, owner, s, nodes, ranks + next, out);
        next += ranks_of(self, in, s);
    }
    free(ranks);
    free(owner);
    free(nodes);
    return status;
}

PST_INTERFACE(PST_PARTITIONER, struct pst_partitioner, .partition = partition)

static const char *const provides[] = {"chain",    "dag",        "per-stage-microbatch",
                                       "replicas", "ways=given", NULL};
static const char *const needs[] = {NULL};

static const struct pst_plugin plugin = {
    PST_PLUGIN_HEAD("partitioner", "manual", "1.0"),
    .summary = "The stages that the config lists by names of operators.",
    .reference = "none",
    .license = "Apache-2.0",
    .provides = provides,
    .needs = needs,
    PST_PLUGIN_PARAMS(params, struct config),
    PST_PLUGIN_FUNCTIONS,
};

PST_PLUGIN(plugin)
