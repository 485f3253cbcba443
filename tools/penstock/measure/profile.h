/* SPDX-License-Identifier: Apache-2.0
 *
 * A model's operators, measured: the costed graph that `penstock profile` writes. [profile] file
 * takes it in the place of [cluster]'s roofline, `penstock partition` as the graph of a problem.
 */
#ifndef PST_MEASURE_PROFILE_H
#define PST_MEASURE_PROFILE_H

#include "graph/costed.h"
#include "measure/measure.h"
#include "measure/measure_host.h"
#include "session/session.h"

#define PST_PROFILE_SIZES 16
#define PST_PROFILE_TRIES 3 /* of a size, where several threads compute beside others */

struct pst_profile_request {
    uint32_t n_sizes, sizes[PST_PROFILE_SIZES]; /* samples of a micro-batch, ascending */
    uint32_t rounds, warmups;
    uint64_t least_ns, group_ns; /* as pst_measure_config */
    bool reads_data;             /* the host's part is measured, for which data is read */
    void (*progress)(void *context, uint64_t done, uint64_t all, uint32_t size);
    void *context;
    bool (*cancelled)(void);
};

struct pst_profiled {
    struct pst_arena arena;
    uint32_t n_ops, n_sizes, sizes[PST_PROFILE_SIZES];
    struct pst_measured *measured[PST_PROFILE_SIZES]; /* [n_ops] */
    struct pst_measured_update update; /* at the largest size; zero on a device that is not here */
    struct pst_measured_host host; /* zero where it does not compute, or its data are not there */
    struct pst_costed *graph;      /* bytes exact for the largest size, from the model */
    double worst_spread; /* of what takes a hundredth of a step or more, at the largest size */
    uint32_t worst_op;
    double others; /* the part of this machine that others had in the last try of a size, the most
                      of all sizes */
    bool held_up;  /* their time counts */
};

/* Powers of two up to the first that is not below train.microbatch, at most the batch. */
void pst_profile_sizes(const struct pst_job *job, struct pst_profile_request *request);

/*
 * Measures on the session's device, on this thread, in at most half of the memory that this machine
 * has left. A device that only stands in for another has the times that [cluster] describes.
 * Errors: those of pst_measure_ops. Finish *ret_profile in any case of PST_OK.
 */
pst_status pst_profile_run(const struct pst_session *session,
                           const struct pst_profile_request *request,
                           struct pst_profiled *ret_profile, struct pst_error *err);
void pst_profile_finish(struct pst_profiled *profile);

#endif
