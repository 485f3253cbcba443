/* SPDX-License-Identifier: Apache-2.0 */
#include "ranges.h"

#include <string.h>

static void set_messages(struct part_ranges *ranges)
{
    const struct part_problem *problem = ranges->problem;
    uint32_t v, e;

    for (v = 0; v < ranges->n; v++) {
        ranges->last[v] = v;
    }
    for (e = 0; e < problem->n_edges; e++) {
        uint32_t from = problem->from[e];

        if (problem->edge_bytes[e] > ranges->message[from]) {
            ranges->message[from] = problem->edge_bytes[e];
        }
        if (problem->to[e] > ranges->last[from]) {
            ranges->last[from] = problem->to[e];
        }
    }
}

/* From cut to cut: the output of the node before joins, what was read there for the last time
   leaves. Whole numbers stay exact; where nothing crosses there are no bytes. */
static void sweep_cuts(struct part_ranges *r)
{
    uint32_t v, c;

    for (v = 0; v < r->n; v++) { /* first as changes from one cut to the next */
        if (r->last[v] > v) {
            r->cut_bytes[v + 1] += r->message[v];
            r->cut_tensors[v + 1]++;
            r->cut_bytes[r->last[v] + 1] -= r->message[v];
            r->cut_tensors[r->last[v] + 1]--; /* sums come out right modulo 2^32 */
        }
    }
    for (c = 1; c <= r->n; c++) {
        r->cut_tensors[c] += r->cut_tensors[c - 1];
        r->cut_bytes[c] += r->cut_tensors[c] == 0 ? -r->cut_bytes[c] : r->cut_bytes[c - 1];
    }
}

void part_ranges_init(const struct part_problem *problem, struct part_ranges *ret_ranges)
{
    struct part_ranges *r = ret_ranges;
    uint32_t n = problem->n, v;

    memset(r, 0, sizeof *r);
    r->problem = problem;
    r->n = n;
    CALL_TAKE(r->weight, (size_t)n + 1);
    CALL_TAKE(r->saved, (size_t)n + 1);
    CALL_TAKE(r->cut_bytes, (size_t)n + 2);
    CALL_TAKE(r->cut_tensors, (size_t)n + 2);
    CALL_TAKE(r->message, (size_t)n + 1);
    CALL_TAKE(r->last, (size_t)n + 1);
    set_messages(r);
    for (v = 0; v < n; v++) {
        r->weight[v + 1] = r->weight[v] + problem->weight_bytes[v];
        r->saved[v + 1] = r->saved[v] + problem->saved_bytes[v];
    }
    sweep_cuts(r);
}

/* Times of a size that the problem has no row for. */
static void ask_ns(const struct part_problem *problem, uint32_t v, uint32_t samples,
                   double ret_ns[2])
{
    const struct pst_profile *profile = problem->host->get_extension(problem->host, PST_PROFILE);
    double ns[3];

    if (profile == NULL) {
        call_end(pst_failf(problem->host, PST_ERR_UNSUPPORTED, "the host lacks %s", PST_PROFILE));
    }
    call_check(profile->node_ns(problem->host, v, samples, ns));
    ret_ns[0] = ns[0];
    ret_ns[1] = ns[1] + ns[2];
}

void part_ranges_times(const struct part_problem *problem, uint32_t samples, double *ret_sum_ns,
                       double *ret_forward_ns)
{
    uint32_t v, row = part_samples_row(problem, samples);

    ret_sum_ns[0] = 0;
    if (ret_forward_ns != NULL) {
        ret_forward_ns[0] = 0;
    }
    for (v = 0; v < problem->n; v++) {
        double ns[2] = {0, 0};

        if (row != UINT32_MAX) {
            ns[0] = problem->forward_ns[(size_t)row * problem->n + v];
            ns[1] = problem->backward_ns[(size_t)row * problem->n + v];
        } else {

            ask_ns(problem, v, samples, ns);
        }
        ret_sum_ns[v + 1] = ret_sum_ns[v] + (ns[0] + ns[1]);
        if (ret_forward_ns != NULL) {
            ret_forward_ns[v + 1] = ret_forward_ns[v] + ns[0];
        }
    }
}

/* --- answers -----------------------------------------------------------------------------------*/

uint32_t part_chain_rank(const struct part_chain_shape *shape, uint32_t stage, uint32_t replica)
{
    return shape->pipeline_major ? replica * shape->n_stages + stage
                                 : stage * shape->replicas + replica;
}

struct pst_stage_decl *part_chain_decls(uint32_t n, const struct part_chain_shape *shape,
                                        const uint32_t *cuts)
{
    struct pst_stage_decl *decls = call_alloc(shape->n_stages, sizeof *decls);
    uint32_t *nodes = call_alloc(n, sizeof *nodes);
    uint32_t *ranks = call_alloc((size_t)shape->n_stages * shape->replicas, sizeof *ranks), s, i;

    for (i = 0; i < n; i++) {
        nodes[i] = i;
    }
    for (s = 0; s < shape->n_stages; s++, ranks += shape->replicas) {
        for (i = 0; i < shape->replicas; i++) {
            ranks[i] = part_chain_rank(shape, s, i);
        }
        decls[s] = (struct pst_stage_decl){.size = sizeof *decls,
                                           .nodes = nodes + cuts[s],
                                           .n_nodes = cuts[s + 1] - cuts[s],
                                           .ranks = ranks,
                                           .n_ranks = shape->replicas,
                                           .microbatch_size = shape->size,
                                           .k = 1};
    }
    return decls;
}

void part_chain_answer(const struct part_problem *problem, const struct part_chain_shape *shape,
                       const uint32_t *cuts, struct pst_partition_out *out)
{
    const struct pst_stage_decl *decls = part_chain_decls(problem->n, shape, cuts);
    uint32_t s;

    for (s = 0; s < shape->n_stages; s++) {
        call_check(out->stage(out, &decls[s]));
    }
}

/* --- spans -------------------------------------------------------------------------------------*/

void part_span_init(const struct part_ranges *ranges, struct part_span *ret_span)
{
    memset(ret_span, 0, sizeof *ret_span);
    ret_span->ranges = ranges;
    CALL_TAKE(ret_span->stamps, (size_t)ranges->n + 1);
}

void part_span_begin(struct part_span *span, uint32_t end)
{
    span->first = span->end = end;
    span->in_bytes = span->out_bytes = 0;
    if (++span->stamp == 0) {
        memset(span->stamps, 0, (size_t)span->ranges->n * sizeof *span->stamps);
        span->stamp = 1;
    }
}

void part_span_grow(struct part_span *span)
{
    const struct part_ranges *ranges = span->ranges;
    const struct part_problem *problem = ranges->problem;
    uint32_t v = --span->first, i;

    if (span->stamps[v] == span->stamp) { /* what came from it is inside now */
        span->in_bytes -= ranges->message[v];
    }
    if (ranges->last[v] >= span->end) {
        span->out_bytes += ranges->message[v];
    }
    for (i = problem->first_in[v]; i < problem->first_in[v + 1]; i++) {
        uint32_t from = problem->from[problem->in_edges[i]];

        if (span->stamps[from] != span->stamp) {
            span->stamps[from] = span->stamp;
            span->in_bytes += ranges->message[from];
        }
    }
}
