/* SPDX-License-Identifier: Apache-2.0
 *
 * For partitioners of jobs: which of several cuts of one order makes the shortest step, as the host
 * simulates it (pst.trial/1). Slow links, copies and schedulers that put W apart hide more or less
 * than a bottleneck tells. Counts limit the trials, so answers repeat.
 */
#ifndef PARTITIONERS_COMMON_STEPS_H
#define PARTITIONERS_COMMON_STEPS_H

#include <penstock/ext/trial.h>

#include "borders.h"

struct part_steps {
    /* of the caller */
    const struct pst_host *host;
    uint32_t n, n_stages, batch, size; /* nodes; samples of a step and of a micro-batch */
    uint32_t most;                     /* trials; 0: as many as take some tenths of a second */
    void *impl;
    part_cut_fn *guess; /* quick: says what to look at first */
    /* of part_steps_init */
    const struct pst_trial *trial;
    uint64_t work, left;   /* of one trial; of all that remain */
    const double *best_ns; /* of part_steps_move */
};

/* False: this host does not simulate. */
bool part_steps_init(struct part_steps *steps);
/* As many trials as at first. */
void part_steps_refill(struct part_steps *steps);
/* INFINITY: it does not fit, or there have been enough trials. */
void part_steps_value(struct part_steps *steps, const uint32_t *cuts, double *ret_ns);
/* part_borders_move by these steps. */
void part_steps_move(struct part_steps *steps, uint32_t *cuts, double *step_ns);

#endif
