/* SPDX-License-Identifier: Apache-2.0
 *
 * From parameters to options: sizes, degrees and limits of a search.
 */
#include <stdlib.h>
#include <string.h>

#include "graph_plugin.h"
#include "solver.h"

struct gp_job {
    const struct pst_host *host;
    const struct gp_config *config;
};

/* "1,2,4" */
static pst_status parse_list(const struct pst_host *host, const char *key, const char *text,
                             uint32_t *list, uint32_t room, uint32_t *ret_n)
{
    const char *at = text;
    uint32_t n = 0;

    for (;;) {
        char *end;
        unsigned long value = strtoul(at, &end, 10);

        if (end == at || *at == '-' || value == 0 || value > 1000000 || n == room) {
            break;
        }
        list[n++] = (uint32_t)value;
        end += strspn(end, " ");
        if (*end == '\0') {
            *ret_n = n;
            return PST_OK;
        }
        if (*end != ',') {
            break;
        }
        at = end + 1 + strspn(end + 1, " ");
    }
    return pst_failf(host, PST_ERR_CONFIG,
                     "%s = \"%s\": must be whole numbers from 1 on, separated by commas", key,
                     text);
}

static bool is_in(const uint32_t *list, uint32_t n, uint32_t value)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        if (list[i] == value) {
            return true;
        }
    }
    return false;
}

static pst_status limit_degrees(const struct gp_job *self, struct part_problem *p)
{
    uint32_t list[64], n = 0, kept = 0, i;
    bool all = strcmp(self->config->degrees, "auto") == 0;
    pst_status status =
        all ? PST_OK : parse_list(self->host, "degrees", self->config->degrees, list, 64, &n);

    if (status != PST_OK) {
        return status;
    }
    for (i = 0; i < n; i++) {
        if (list[i] <= p->n_devices && !is_in(p->degrees, p->n_degrees, list[i])) {
            return pst_failf(self->host, PST_ERR_CONFIG,
                             "degrees: the job does not allow %u replicas", list[i]);
        }
    }
    for (i = 0; i < p->n_degrees; i++) {
        uint32_t d = p->degrees[i];

        if ((all || is_in(list, n, d)) &&
            (self->config->max_degree == 0 || d <= (uint64_t)self->config->max_degree)) {
            p->degrees[kept++] = d;
        }
    }
    p->n_degrees = kept;
    return kept > 0 ? PST_OK
                    : pst_failf(self->host, PST_ERR_CONFIG,
                                "degrees and max_degree leave no number of replicas");
}

static bool is_size(const char *text)
{
    return strcmp(text, "all") != 0 && strcmp(text, "auto") != 0;
}

/* A job's own size stays unless it is asked for another: losses depend on it. */
static pst_status limit_sizes(const struct gp_job *self, struct part_problem *p)
{
    const char *text = self->config->microbatch;
    bool automatic = strcmp(text, "auto") == 0;
    uint32_t size = p->in->micro_batches[0], n;
    pst_status status;

    if (strcmp(text, "all") == 0 ||
        (automatic && (part_is_problem(p) || self->config->per_stage))) {
        return PST_OK;
    }
    status = automatic ? PST_OK : parse_list(self->host, "microbatch", text, &size, 1, &n);
    if (status != PST_OK) {
        return status;
    }
    if (!is_in(p->sizes, p->n_sizes, size)) {
        return pst_failf(self->host, PST_ERR_CONFIG,
                         "microbatch = %u is not one of the job's micro-batch sizes", size);
    }
    p->sizes[0] = size;
    p->n_sizes = 1;
    return PST_OK;
}

enum { REFINE_AUTO = 0, REFINE = 1 };
enum { OBJECTIVE_STEP = 1 };
enum { REFINED_NODES = 256 }; /* a second or two of one core at the most */

static struct gp_options options_of(const struct gp_config *c, const struct part_problem *p,
                                    const uint32_t *ks, uint32_t n_ks)
{
    return (struct gp_options){
        .grouping = c->grouping,
        .sp = c->sp,
        .per_stage = c->per_stage,
        .refine = c->refine == REFINE || (c->refine == REFINE_AUTO && !c->per_stage &&
                                          (p->figures.reference == 0 || p->n <= REFINED_NODES)),
        .by_step = p->figures.reference == 0 || c->objective == OBJECTIVE_STEP,
        .exact = c->exact,
        .force_chain = c->force_chain,
        .tolerance = c->tolerance,
        .ks = ks,
        .n_ks = n_ks,
        .max_states = (uint64_t)c->max_states,
        .refine_steps = (uint64_t)c->refine_steps,
        .time_limit_s = c->time_limit_s,
    };
}

pst_status gp_partition(const struct pst_host *host, const struct gp_config *config,
                        const struct pst_partition_in *in, struct pst_partition_out *out)
{
    const struct gp_job job = {host, config}, *self = &job;
    struct part_problem problem = {0};
    uint32_t ks[32], n_ks = 0;
    pst_status status = parse_list(self->host, "k", self->config->k, ks, 32, &n_ks);

    if (status == PST_OK) {
        part_problem_read(self->host, in, &problem);
    }
    if (status != PST_OK) {
        return status;
    }
    problem.in_row = self->config->force_chain;
    if (problem.in_row) {
        part_remark_flag(&problem, "in_row", true);
    }
    status = limit_degrees(self, &problem);
    if (status == PST_OK) {
        status = limit_sizes(self, &problem);
    }
    if (status == PST_OK) {
        struct gp_options options = options_of(self->config, &problem, ks, n_ks);

        /* A size that was asked for stays. */
        if (options.refine && !is_size(self->config->microbatch)) {
            part_problem_enlarge(&problem);
        }
        status = gp_plan_for(&problem, &options, out);
    }
    return status;
}
