/* SPDX-License-Identifier: Apache-2.0
 *
 * Times of operators: the roofline of Williams, Waterman and Patterson (2009). A pass takes the
 * longer of its arithmetic at peak speed and its memory traffic at full bandwidth, plus one launch.
 * Passes of a stage take no less than the host needs to issue their kernels.
 */
#include "graph/cost.h"

#include <math.h>
#include <pthread.h>

#include "base/saturate.h"
#include "graph/split.h"

/* Beyond this (292 years / 2) a time is only "very long"; sums of many of them still fit. */
#define LONGEST_NS 4e18

/* Reduced precision has its own peak where anything that the operator touches is stored so. */
static bool op_is_bf16(const struct pst_graph *graph, const struct pst_op *op)
{
    if (op->n_out > 0 && graph->tensors[op->out[0]].dtype == PST_BF16) {
        return true;
    }
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (graph->tensors[op->in[i]].dtype == PST_BF16) {
            return true;
        }
    }
    return false;
}

static uint64_t pass_ns(const struct pst_cost_model *cost, const struct pst_cluster *cluster,
                        uint32_t op, uint32_t pass, uint32_t samples)
{
    double flops = 0, bytes = 0;
    pst_op_slice_work(cost->graph, op, cost->slice - 1, pass, samples, &flops, &bytes);
    const double traffic_of_softmax = pst_op_is_loss(cost->graph->ops[op].kind)
                                          ? cluster->loss_traffic
                                          : cluster->softmax_traffic;
    if (traffic_of_softmax > 0) {
        bytes += traffic_of_softmax *
                 pst_op_softmax_bytes(cost->graph, op, cost->slice - 1, pass, samples);
    }
    double peak =
        op_is_bf16(cost->graph, &cost->graph->ops[op]) ? cluster->bf16_flops : cluster->flops;
    double reached = peak * (cluster->efficiency > 0 ? cluster->efficiency : 1);
    double arithmetic = reached > 0 ? flops / reached * 1e9 : 0;
    double traffic =
        cluster->memory_bandwidth > 0 ? bytes / (double)cluster->memory_bandwidth * 1e9 : 0;
    double ns =
        ceil(arithmetic > traffic ? arithmetic : traffic) + (double)cluster->launch_overhead;

    return ns < LONGEST_NS ? (uint64_t)ns : (uint64_t)LONGEST_NS;
}

/* Moves the time of a backward pass that a node of a costed graph does not have (B: nothing before
   it is trained, W: nothing in it is) to the other backward pass. */
static void move_backward(const struct pst_cost_model *cost, uint32_t op, double ns[3])
{
    struct pst_op_grad grad;

    pst_op_grad_info(cost->graph, op, &grad);
    if (!grad.has_b) {
        ns[2] += ns[1];
        ns[1] = 0;
    }
    if (!grad.has_w) {
        ns[1] += grad.has_b ? ns[2] : 0;
        ns[2] = 0;
    }
}

/* Returns the ratio of an operator's time on this device to its time on the profiled one, which
   [cluster] describes. It is the ratio of peaks for a costed graph, whose bound is unknown. */
static double time_ratio(const struct pst_cost_model *cost, uint32_t op, uint32_t pass,
                         uint32_t samples)
{
    const struct pst_cluster *on = cost->cluster, *was = on->stated;
    double ns;

    if (was == NULL || pst_cluster_equal(on, was)) {
        return 1;
    }
    if (cost->graph->costed != NULL) {
        return was->flops * was->efficiency / (on->flops * on->efficiency);
    }
    ns = (double)pass_ns(cost, was, op, pass, samples);
    return ns > 0 ? (double)pass_ns(cost, on, op, pass, samples) / ns : 1;
}

/* Returns how far a slice is from the mean, by its FLOPs, as a fraction of the difference between
   the last slice and the first. */
static double beyond_mean(const struct pst_cost_model *cost, uint32_t op, uint32_t pass)
{
    const uint32_t slices[] = {0, cost->graph->slices - 1, PST_NONE, cost->slice - 1};
    double flops[4], bytes;

    for (uint32_t i = 0; i < 4; i++) {
        pst_op_slice_work(cost->graph, op, slices[i], pass, 1, &flops[i], &bytes);
    }
    return flops[1] > flops[0] ? (flops[3] - flops[2]) / (flops[1] - flops[0]) : 0;
}

static void profiled(const struct pst_cost_model *cost, uint32_t op, uint32_t samples,
                     struct pst_times *ret_times)
{
    double ns[3], growth[3];

    if (cost->profile_nodes[op] == PST_NONE) {
        *ret_times = (struct pst_times){0};
        return;
    }
    pst_costed_node_ns(cost->profile, cost->profile_nodes[op], samples, ns);
    if (cost->slice > 0 && cost->graph->ops[op].slices > 1) {
        pst_costed_node_growth(cost->profile, cost->profile_nodes[op], samples, growth);
        for (uint32_t pass = 0; pass < 2; pass++) {
            ns[pass] += growth[pass] * beyond_mean(cost, op, pass);
        }
        ns[1] +=
            growth[2] / cost->graph->slices - (cost->slice == cost->graph->slices ? growth[2] : 0);
        ns[0] = fmax(0, ns[0]);
        ns[1] = fmax(0, ns[1]);
    }
    if (cost->graph->costed != NULL) {
        move_backward(cost, op, ns);
    }
    for (uint32_t pass = 0; pass < 3; pass++) {
        ns[pass] *= time_ratio(cost, op, pass, samples);
        ns[pass] = ns[pass] < LONGEST_NS ? round(ns[pass]) : LONGEST_NS;
    }
    *ret_times = (struct pst_times){(uint64_t)ns[0], (uint64_t)ns[1], (uint64_t)ns[2]};
}

const struct pst_cost_model *pst_cost_on(const struct pst_cost_model *cost, const uint32_t *ranks,
                                         uint32_t n_ranks, struct pst_cost_at *room)
{
    if (cost->cluster->n_kinds == 0 || n_ranks == 0) {
        return cost;
    }
    room->cost = *cost;
    room->cost.cluster = pst_cluster_on(cost->cluster, ranks, n_ranks, &room->cluster);
    return &room->cost;
}

static void add_times(const struct pst_times *times, struct pst_times *sum)
{
    sum->forward_ns = pst_sat_add(sum->forward_ns, times->forward_ns);
    sum->backward_input_ns = pst_sat_add(sum->backward_input_ns, times->backward_input_ns);
    sum->backward_weight_ns = pst_sat_add(sum->backward_weight_ns, times->backward_weight_ns);
}

/* A meeting takes what the links of a node do: the parts of a replica are in one. Profiles have no
   conversions. */
static uint64_t convert_ns(const struct pst_cost_model *cost, uint32_t op, uint32_t pass,
                           uint32_t samples)
{
    const struct pst_op *of = &cost->graph->ops[op];
    const enum pst_convert_work work = pst_convert_work(of, pass);
    const struct pst_tensor *tensors = cost->graph->tensors;
    const uint64_t x = pst_tensor_bytes(&tensors[of->in[0]], samples);
    const uint64_t y = pst_tensor_bytes(&tensors[of->out[0]], samples);
    const uint64_t all = x > y ? x : y; /* of an exchange: what one part has */
    const bool added = work == PST_WORK_SUM || work == PST_WORK_SCATTER;

    return work == PST_WORK_NONE ? 0
           : pst_op_meets(of, pass)
               ? pst_cost_ring_ns(
                     cost,
                     (struct pst_meet_bytes){added ? all : 0, work != PST_WORK_SCATTER ? all : 0},
                     of->parts, 1)
               : pass_ns(cost, cost->cluster, op, pass, samples);
}

static void cost_once(const struct pst_cost_model *cost, uint32_t op, uint32_t samples,
                      struct pst_times *ret_times)
{
    struct pst_op_grad grad;

    pst_op_grad_info(cost->graph, op, &grad);
    if (pst_op_is_convert(cost->graph->ops[op].kind)) {
        *ret_times = (struct pst_times){.forward_ns = convert_ns(cost, op, 0, samples),
                                        .backward_input_ns =
                                            grad.has_b ? convert_ns(cost, op, 1, samples) : 0};
        return;
    }
    if (cost->profile != NULL) {
        profiled(cost, op, samples, ret_times);
        return;
    }
    *ret_times = (struct pst_times){
        .forward_ns = pass_ns(cost, cost->cluster, op, 0, samples),
        .backward_input_ns = grad.has_b ? pass_ns(cost, cost->cluster, op, 1, samples) : 0,
        .backward_weight_ns = grad.has_w ? pass_ns(cost, cost->cluster, op, 2, samples) : 0,
    };
}

/* A pass takes the longer of two things, in an early slice another one than in a late slice: so the
   mean is that of the times, not the time of the mean. */
static void cost_mean(const struct pst_cost_model *cost, uint32_t op, uint32_t samples,
                      struct pst_times *ret_times)
{
    const uint64_t n = cost->graph->slices;
    struct pst_times sum = {0}, one;

    for (uint32_t slice = 0; slice < n; slice++) {
        const struct pst_cost_model of = pst_cost_of_slice(cost, slice);

        cost_once(&of, op, samples, &one);
        add_times(&one, &sum);
    }
    *ret_times = (struct pst_times){pst_sat_add(sum.forward_ns, n / 2) / n,
                                    pst_sat_add(sum.backward_input_ns, n / 2) / n,
                                    pst_sat_add(sum.backward_weight_ns, n / 2) / n};
}

void pst_cost_op(const struct pst_cost_model *cost, uint32_t op, uint32_t samples,
                 struct pst_times *ret_times)
{
    const bool mean = cost->slice == 0 && cost->graph->ops[op].slices > 1;

    (mean ? cost_mean : cost_once)(cost, op, samples, ret_times);
}

/* Sums over operators: of all, and of the kernels that a described host issues. What parts of a
   replica do together comes on top of these. */
struct pass_sums {
    struct pst_times all, kernels;
    uint64_t host_ns[3];
};

static void sum_ops(const struct pst_cost_model *cost, const uint32_t *ops, uint32_t n_ops,
                    uint32_t samples, struct pass_sums *ret_sums)
{
    const uint64_t each = cost->profile == NULL ? cost->cluster->host_overhead : 0;
    const uint32_t *op_of = cost->graph->op_of; /* what divides an operator counts as one */

    *ret_sums = (struct pass_sums){0};
    for (uint32_t i = 0; i < n_ops; i++) {
        struct pst_times one;

        pst_cost_op(cost, ops[i], samples, &one);
        add_times(&one, &ret_sums->all);
        if (each == 0 || pst_op_is_convert(cost->graph->ops[ops[i]].kind)) {
            continue;
        }
        add_times(&one, &ret_sums->kernels);
        if (op_of == NULL || i == 0 || op_of[ops[i]] != op_of[ops[i - 1]]) {
            ret_sums->host_ns[0] += one.forward_ns > 0 ? each : 0;
            ret_sums->host_ns[1] += one.backward_input_ns > 0 ? each : 0;
            ret_sums->host_ns[2] += one.backward_weight_ns > 0 ? each : 0;
        }
    }
}

/* Returns by how much the host takes longer than the device. */
static uint64_t find_lag(uint64_t host_ns, uint64_t device_ns)
{
    return host_ns > device_ns ? host_ns - device_ns : 0;
}

void pst_cost_ops(const struct pst_cost_model *cost, const uint32_t *ops, uint32_t n_ops,
                  uint32_t samples, struct pst_times *ret_times)
{
    struct pass_sums sums;

    sum_ops(cost, ops, n_ops, samples, &sums);
    *ret_times = sums.all;
}

void pst_cost_stage(const struct pst_cost_model *cost, const uint32_t *ops, uint32_t n_ops,
                    uint32_t samples, struct pst_times *ret_times)
{
    struct pass_sums sums;

    sum_ops(cost, ops, n_ops, samples, &sums);
    const struct pst_times lag = {find_lag(sums.host_ns[0], sums.kernels.forward_ns),
                                  find_lag(sums.host_ns[1], sums.kernels.backward_input_ns),
                                  find_lag(sums.host_ns[2], sums.kernels.backward_weight_ns)};

    *ret_times = sums.all;
    add_times(&lag, ret_times);
}

static double scale_of(uint64_t host_ns, uint64_t device_ns)
{
    return host_ns > device_ns && device_ns > 0 ? (double)host_ns / (double)device_ns : 1;
}

struct pst_pass_scale pst_cost_host_scale(const struct pst_cost_model *cost, const uint32_t *ops,
                                          uint32_t n_ops, uint32_t samples)
{
    struct pass_sums sums;

    if (cost->profile != NULL || cost->cluster->host_overhead == 0) {
        return (struct pst_pass_scale){{1, 1, 1}};
    }
    sum_ops(cost, ops, n_ops, samples, &sums);
    return (struct pst_pass_scale){{scale_of(sums.host_ns[0], sums.kernels.forward_ns),
                                    scale_of(sums.host_ns[1], sums.kernels.backward_input_ns),
                                    scale_of(sums.host_ns[2], sums.kernels.backward_weight_ns)}};
}

static uint64_t scale_ns(uint64_t ns, double scale)
{
    return scale > 1 ? (uint64_t)fmin(round((double)ns * scale), LONGEST_NS) : ns;
}

void pst_cost_share(const struct pst_cost_model *cost, const struct pst_pass_scale *scale,
                    uint32_t op, uint32_t samples, struct pst_times *ret_times)
{
    pst_cost_op(cost, op, samples, ret_times);
    if (pst_op_is_convert(cost->graph->ops[op].kind)) {
        return;
    }
    ret_times->forward_ns = scale_ns(ret_times->forward_ns, scale->of[0]);
    ret_times->backward_input_ns = scale_ns(ret_times->backward_input_ns, scale->of[1]);
    ret_times->backward_weight_ns = scale_ns(ret_times->backward_weight_ns, scale->of[2]);
}

uint64_t pst_cost_workspace(const struct pst_cost_model *cost, uint32_t op, uint32_t pass,
                            uint32_t samples)
{
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    uint64_t bytes;

    if (cost->workspace == NULL) {
        return 0;
    }
    pthread_mutex_lock(&one_at_a_time);
    bytes = cost->workspace(cost->workspace_context, op, pass, samples);
    pthread_mutex_unlock(&one_at_a_time);
    return bytes;
}
