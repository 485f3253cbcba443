/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the times of operators on a device: F, B and W of each, one after the other as in a
 * step, so that caches hold what they would hold then. Operators that are alike (same kind,
 * attributes and shapes) share one time, over rounds of up to PST_MEASURE_TWINS of them: equal
 * operators get equal times, whatever the noise. W includes adding the gradient to its accumulator,
 * as in each micro-batch of a step but the first. Updates run after as many rounds as a step has
 * micro-batches. Conversions between the parts of a replica are not measured.
 *
 * If sequences have slices, the first, the last and the one before it are measured, in turn: the
 * time of attention grows with its work from the first on, but B of the last writes gradients of
 * earlier keys and values while B of the others adds to them.
 */
#ifndef PST_MEASURE_MEASURE_H
#define PST_MEASURE_MEASURE_H

#include "exec/device.h"

#define PST_MEASURE_TWINS 4

struct pst_measure_config {
    const struct pst_graph *graph;
    const struct pst_device_ops *device;
    struct pst_device_config device_config;
    uint32_t samples;                /* of a micro-batch; >= 1 */
    uint32_t microbatches;           /* of a step; 0 counts as 1 */
    uint32_t warmups, rounds;        /* not measured; measured, at least 1 */
    const struct pst_update *update; /* NULL: updates are not measured */
    uint32_t optimizer_slots;        /* values of state per parameter */
    uint64_t least_ns;     /* a group that takes less gets more rounds, up to 50 times as many; 0:
                              none */
    uint64_t group_ns;     /* a group of operators that takes longer than this gets fewer rounds, at
                              least 3 and one warm-up; 0: no limit */
    uint64_t memory_bytes; /* of operands at a time: operators are measured in consecutive groups
                              that fit, at least one operator each */
    void (*progress)(void *context, uint64_t done, uint64_t all); /* rounds; may be NULL */
    void *context;
    bool (*cancelled)(void); /* may be NULL */
};

struct pst_measured {
    double ns[3];     /* F, B, W: means of the middle four fifths; 0 where the pass does nothing */
    double spread[3]; /* quartile distance over that */
    double growth[3]; /* of slices of sequences, whose mean the above is: as of a costed graph */
    uint32_t rounds;  /* timed runs of each pass */
};

/* Updates, the norm's square sums included, of the parameters of what was measured. */
struct pst_measured_update {
    uint64_t bytes; /* of the parameters, as f32; 0 where there are none */
    double ns;
};

/*
 * Opens the device on the calling thread. ret_measured: [n_ops]. *ret_update: zero without
 * config->update. Errors: of open and compile;
 * machine.memory where operands of one operator find no room; PST_ERR_CANCELLED.
 */
pst_status pst_measure_ops(const struct pst_measure_config *config,
                           struct pst_measured *ret_measured,
                           struct pst_measured_update *ret_update, struct pst_error *err);

/* Do two operators run the same kernels on the same shapes? */
bool pst_measure_alike(const struct pst_graph *graph, uint32_t a, uint32_t b);

#endif
