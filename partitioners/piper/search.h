/* SPDX-License-Identifier: Apache-2.0
 *
 * Piper's dynamic program (Tarnawski, Narayanan, Phanishayee: Piper: Multidimensional Planner for
 * DNN Parallelization, NeurIPS 2021). Numbers in, stages out; knows no host.
 */
#ifndef PIPER_SEARCH_H
#define PIPER_SEARCH_H

#include "downsets.h"

/* A way to run a node: its time for one unit of work (a micro-batch) on `tensor` devices. */
struct piper_way {
    uint32_t tensor;
    double time, weight, in_flight, fixed; /* bytes on each device; in_flight per unit held */
};

/*
 * dp[R][k][s] places the remaining nodes, R, on at most k devices with degrees that add up to at
 * most s; a batch has N units of work:
 *
 *   dp[R][k][s] = min over stages Q that may start R, tensor degrees t, degrees d that divide N of
 *                 max(dp[R - Q][k - t d][s - d], STAGE(Q, t, d, s))
 *   STAGE(Q, t, d, s) = least sum over Q of time / d + 4 (d - 1) weight / (d N sync_rate)
 *                       + 2 (cut edges) / (d transfer_rate)
 *                       with sum over Q of in_flight * ceil(s / d) + fixed <= capacity
 */
struct piper_question {
    const struct part_downsets *sets;
    const struct part_dag *dag;
    const uint32_t *first_way; /* [dag->n + 1] */
    const struct piper_way *ways;
    const double *edge_bytes;        /* [dag->n_edges] of one unit */
    double sync_rate, transfer_rate; /* bytes per unit of time; 0: free */
    const double *workspace;         /* [dag->n] the largest of a stage is set aside, or NULL */
    const uint32_t *degrees;         /* allowed, ascending */
    uint32_t n_degrees, n_devices, n_units;
    double capacity;
    const struct pst_host *host;
};

struct piper_stage {
    uint32_t from, to;             /* nodes of set `to` that are not in set `from` */
    uint32_t tensor, degree, held; /* held: units in flight on a replica */
    double bytes;                  /* on a device */
};

struct piper_answer {
    struct piper_stage *stages; /* in order */
    uint32_t n_stages;
    uint32_t *way;     /* [dag->n] index into ways */
    double bottleneck; /* per unit; INFINITY: none, and no stage */
    bool exact;        /* no knapsack had to be greedy */
};

/* PST_ERR_UNSUPPORTED: sets, devices and degrees make a table of
   more than PIPER_MOST_CELLS. */
enum { PIPER_MOST_CELLS = 1 << 28 };
pst_status piper_solve(const struct piper_question *question, struct piper_answer *ret_answer);

#endif
