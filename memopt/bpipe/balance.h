/* SPDX-License-Identifier: Apache-2.0
 *
 * Which micro-batches leave which device for which, in bytes: private to bpipe.
 */
#ifndef MEMOPT_BPIPE_BALANCE_H
#define MEMOPT_BPIPE_BALANCE_H

#include <penstock/penstock.h>

/* A micro-batch of a stage. */
struct bp_row {
    uint32_t stage, microbatch;
    uint32_t forward, backward; /* positions in the order of its device */
    uint32_t keeper;            /* device that has it meanwhile, or PST_NONE */
    bool fixed;                 /* by an earlier optimizer */
};

struct bp_work {
    const struct pst_global_in *in;
    uint32_t n_rows;
    struct bp_row *rows;   /* stage by stage */
    uint32_t *first_row;   /* [stage]; [n_stages]: n_rows */
    uint64_t *move_bytes;  /* [stage] that a micro-batch takes with it */
    uint64_t *base, *held; /* [pass] bytes before, and with the moves so far */
    uint64_t *kept_held;   /* [pass] of before an attempt */
    uint32_t *kept_keeper; /* [row] the same */
    uint64_t *capacity;    /* [device] that is planned for */
    uint32_t *order;       /* [device] for sorting */
    bool *paired;          /* [device] */
};

/* All arrays of `work`, read from the question. */
void bp_begin(struct bp_work *work, const struct pst_global_in *in);

/* Everything as it was. */
void bp_reset(struct bp_work *work);

/* The most that a device holds. */
uint64_t bp_peak(const struct bp_work *work, uint32_t device);

/*
 * Moves until every device holds at most its capacity: the one that is most over it gives to the
 * one that is most under it, and so on. Of what a device holds when it is full that goes which is
 * wanted back last. False: nothing more can go, or nobody takes it.
 */
bool bp_fit(struct bp_work *work);

/* Moves within pairs, the device with most and that with least, the next two, ..., until their
   larger peak is as small as it gets. Capacities are not looked at. */
void bp_level(struct bp_work *work);

#endif
