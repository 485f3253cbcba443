/* SPDX-License-Identifier: Apache-2.0
 *
 * Ways to go on from a place to the end of the model, of which none is worse than another in all
 * that steps in front of them can tell.
 */
#ifndef DAPPLE_FRONT_H
#define DAPPLE_FRONT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "latency.h"

#define DAPPLE_END UINT32_MAX

/* A stage with all that follows it. */
struct dapple_way {
    struct dapple_tail tail;
    double value;            /* no plan with it takes less */
    uint32_t n_stages;       /* of them */
    uint32_t seat, to, next; /* of the stage: where it is, where it ends; the way from there on or
                                DAPPLE_END */
};

struct dapple_front {
    struct dapple_way *ways;
    size_t n, room;
};

/*
 * Adds a way unless one that is there is as good, and drops what it makes superfluous. Of ways that
 * are equal the one of fewer stages stays; with `stages` having fewer is part of being as good:
 * what is in front of them holds less then.
 */
void dapple_front_add(struct dapple_front *front, const struct dapple_way *way, bool stages);

/* Keeps the `most` ways of least value; with `stages` of each number of stages. */
void dapple_front_narrow(struct dapple_front *front, uint32_t most, bool stages);

#endif
