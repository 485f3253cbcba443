/* SPDX-License-Identifier: Apache-2.0
 *
 * The time of one step: every stage runs its passes in the order given as soon as their inputs are
 * there, then sums its gradients.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/order_eval.h"
#include "planner/solo_partition_state.h"

/* One micro-batch's way to the next stage; the end with fewer ranks sets the pace. */
static double transfer_ns(const struct pst_partition_run *run,
                          const struct pst_partition_edge *edge)
{
    const struct pst_partition_line *from = &run->lines[edge->from], *to = &run->lines[edge->to];
    uint32_t ranks = from->n_ranks < to->n_ranks ? from->n_ranks : to->n_ranks;

    return run->problem->comm_model == PST_COMM_NONE || from->device == to->device
               ? 0
               : pst_rcm_transfer_ns(run->problem, edge->bytes) * from->microbatch_size / ranks;
}

/* The last one may be smaller; it is counted as a whole one. */
static uint32_t microbatches(const struct pst_partition_run *run, uint32_t s)
{
    uint32_t size = run->lines[s].microbatch_size;

    return (run->problem->mini_batch - 1) / size + 1;
}

/* No order that leaves no device idle for nothing takes longer than everything in a row. */
double pst_partition_run_scale(const struct pst_partition_run *run, uint32_t n_steps)
{
    double all_ns = 0;
    int exponent;

    for (uint32_t s = 0; s < run->n_stages; s++) {
        const double *ns = run->lines[s].ns;

        all_ns += (ns[0] + ns[1] + ns[2]) * microbatches(run, s);
    }
    for (uint32_t e = 0; e < run->n_edges; e++) {
        uint32_t from = microbatches(run, run->edges[e].from);
        uint32_t to = microbatches(run, run->edges[e].to);

        all_ns += 2.0 * transfer_ns(run, &run->edges[e]) * (from > to ? from : to);
    }
    frexp(all_ns * n_steps, &exponent);
    return all_ns > 0 ? ldexp(1.0, 61 - exponent) : 1.0;
}

pst_status pst_partition_run_state(const struct pst_partition_run *run, double scale,
                                   struct pst_solo *solo, struct pst_error *err)
{
    pst_status st = pst_solo_alloc(solo, run->n_devices, run->n_stages, run->n_edges, err);

    for (uint32_t s = 0; st == PST_OK && s < run->n_stages; s++) {
        const struct pst_partition_line *line = &run->lines[s];

        solo->stages[s] = (struct pst_schedule_stage){
            .device = line->device,
            .microbatch_size = line->microbatch_size,
            .n_microbatches = microbatches(run, s),
            .k = line->k,
            .forward_ns = (uint64_t)llround(line->ns[0] * scale),
            .backward_input_ns = (uint64_t)llround(line->ns[1] * scale),
            .backward_weight_ns = (uint64_t)llround(line->ns[2] * scale),
            .saved_bytes = line->kept_bytes,
            .saved_weight_bytes = line->kept_bytes,
            .input_bytes = line->input_bytes,
        };
    }
    for (uint32_t e = 0; st == PST_OK && e < run->n_edges; e++) {
        solo->links[e] = (struct pst_schedule_link){
            .from = run->edges[e].from,
            .to = run->edges[e].to,
            .transfer_ns = (uint64_t)llround(transfer_ns(run, &run->edges[e]) * scale),
        };
    }
    if (st == PST_OK) {
        pst_solo_connect(solo);
    }
    return st;
}

/* As many forwards as it may hold, then k backwards and k forwards in turn, then what is left. */
static uint32_t order_stage(const struct pst_partition_run *run, uint32_t s, struct pst_pass *list)
{
    const struct pst_partition_line *line = &run->lines[s];
    uint32_t m = microbatches(run, s), f = 0, b = 0, n = 0;

    while (f < m && f < line->in_flight) {
        list[n++] = (struct pst_pass){.op = PST_PASS_F, .stage = s, .microbatch = f++};
    }
    while (b < m) {
        for (uint32_t i = 0; i < line->k && b < f; i++) {
            list[n++] = (struct pst_pass){.op = PST_PASS_BW, .stage = s, .microbatch = b++};
        }
        for (uint32_t i = 0; i < line->k && f < m; i++) {
            list[n++] = (struct pst_pass){.op = PST_PASS_F, .stage = s, .microbatch = f++};
        }
    }
    return n;
}

/* Every stage has a device of its own here. */
pst_status pst_partition_run_order(const struct pst_partition_run *run, struct pst_solo *solo,
                                   struct pst_pass ***ret_passes, uint32_t **ret_n_passes,
                                   struct pst_error *err)
{
    struct pst_pass **passes = pst_arena_array(&solo->arena, run->n_devices, sizeof *passes);
    uint32_t *n_passes = pst_arena_array(&solo->arena, run->n_devices, sizeof *n_passes);

    if (passes == NULL || n_passes == NULL) {
        return pst_fail_nomem(err);
    }
    for (uint32_t s = 0; s < run->n_stages; s++) {
        size_t n = 2 * (size_t)microbatches(run, s);
        uint32_t d = run->lines[s].device;

        passes[d] = pst_arena_array(&solo->arena, n, sizeof **passes);
        if (passes[d] == NULL) {
            return pst_fail_nomem(err);
        }
        n_passes[d] = order_stage(run, s, passes[d]);
    }
    *ret_passes = passes;
    *ret_n_passes = n_passes;
    return PST_OK;
}

pst_status pst_partition_run_time(const struct pst_partition_run *run,
                                  const struct pst_schedule_in *in, double scale,
                                  struct pst_pass *const *passes, const uint32_t *n_passes,
                                  double *ret_ns, struct pst_error *err)
{
    struct pst_order_eval eval;
    double latest = 0;
    pst_status st =
        pst_order_evaluate(in, (const struct pst_pass *const *)passes, n_passes, &eval, err);

    if (st != PST_OK) {
        return st;
    }
    for (uint32_t s = 0; s < run->n_stages; s++) {
        uint32_t d = run->lines[s].device;
        double end = n_passes[d] == 0 ? 0 : (double)eval.end_ns[d][n_passes[d] - 1] / scale;

        latest = fmax(latest, end + run->lines[s].reduce_ns);
    }
    pst_order_eval_finish(&eval);
    *ret_ns = latest;
    return PST_OK;
}
