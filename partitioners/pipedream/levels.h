/* SPDX-License-Identifier: Apache-2.0
 *
 * The dynamic program of PipeDream's optimizer over nested downsets (Narayanan et al., SOSP 2019,
 * and the program released with the paper). Numbers in, stages out; knows no host.
 */
#ifndef PIPEDREAM_LEVELS_H
#define PIPEDREAM_LEVELS_H

#include "sets.h"

enum { PD_RELEASED = 0, PD_PAPER = 1, PD_REFERENCE = 2 };
enum { PD_MEMORY_RELEASED = 0, PD_MEMORY_CORRECTED = 1 };

/* Machines that one level joins: devices of a node first, then nodes. */
struct pd_level {
    uint32_t machines;
    double sync_rate, transfer_rate; /* bytes per unit of time; 0: free */
};

/*
 * One level with m machines and bandwidth r, t, W and A the time, weights and activations of what
 * lies between two downsets, for one unit of work (a mini-batch of PipeDream):
 *
 *   alone(i, j, u)  (t + 4 (u - 1) W / (r u q)) / u      q: machines of the level below, or 1
 *   A(j, u) = min(alone(first, j, u),
 *                 min over i in j, u' < u of max(A(i, u - u'), (t + 4 (u' - 1) W / (r u')) / u'))
 *
 * PD_PAPER: max(t, 2 (u' - 1) W / r) / u' in place of both, and 2 out(i) / transfer_rate counts as
 * a stage of its own. A stage is allowed where ceil(after / u') (A + W) <= capacity, `after` the
 * machines of the level after it; PD_MEMORY_CORRECTED: ceil((after + u') / u') A + mu W.
 * On the second level t is the best that all machines of the first can do.
 */
struct pd_question {
    const struct part_downsets *sets;
    const double *time, *weight, *saved; /* [n_sets] of everything in a set */
    const double *out;                   /* [n_sets] bytes that leave a set */
    uint32_t n_levels;                   /* 1 or 2 */
    struct pd_level levels[2];
    const uint32_t *degrees; /* machines of a stage that are allowed, on each level; ascending */
    uint32_t n_degrees;
    uint32_t objective, memory; /* PD_RELEASED or PD_PAPER; PD_MEMORY_* */
    double capacity, weight_multiplier;
    bool use_fewer_machines; /* A(j, u) looks at A(j, u - 1), too */
    /* Some answer over these sets has this bottleneck; INFINITY: none is known. States that no
       answer as good as that can pass are left out, which changes no answer. */
    double bound;
    const struct pst_host *host;
};

struct pd_answer {
    struct part_sets_stage *stages; /* in order */
    uint32_t n_stages;
    double bottleneck; /* time per unit of work; INFINITY: there is no answer, and no stage */
    double bytes;      /* that the fullest stage takes by the question's memory */
};

/*
 * PST_ERR_UNSUPPORTED: two levels and more sets than
 * PD_MOST_SETS_IN_LEVELS.
 */
enum { PD_MOST_SETS_IN_LEVELS = 10000 };
pst_status pd_levels_solve(const struct pd_question *question, struct pd_answer *ret_answer);

#endif
