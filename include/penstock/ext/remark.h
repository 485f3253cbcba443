/* SPDX-License-Identifier: Apache-2.0
 *
 * pst.remark/1: what a plugin says about its answer beyond the answer itself: statistics of its
 * search, the value of its own objective, a proven bound. `penstock partition` prints remarks below
 * its table and puts them at the top level of its --json. Since ABI 1.2.
 */
#ifndef PENSTOCK_EXT_REMARK_H
#define PENSTOCK_EXT_REMARK_H

#include "../host.h"

#define PST_REMARK "pst.remark/1"

/*
 * Keys are words of a-z, 0-9 and _ ("states", "gap"), units in the name; of a key the last value
 * counts; a key that the report has itself is ignored, but for one: a partitioner that minimises
 * an objective of its own says its value, in microseconds per sample, as
 * "bottleneck_us_per_sample". The host reports its own figure as "reference_us_per_sample" then.
 * Likewise one whose stages hold what the host's model does not know of (recomputation, several
 * versions of the weights) says the bytes of the fullest device as "worst_stage_bytes", which are
 * held against the capacity then, and may say those of a device of each stage as the text
 * "stage_bytes", numbers with commas in the order of its stages; one that chooses the number of
 * replicas itself says the flag "own_width" before its first stage: candidate sizes are those of
 * one device then, and a problem whose degrees are 1 alone sets it no limit; and one whose stages
 * are a row, as chain schedulers run them, says the flag "in_row": each holds what its place before
 * the end makes it hold, not its depth in the graph of stages.
 * Copies. At most 64 keys. [plan]
 */
struct pst_remark {
    uint32_t size;
    void (*number)(const struct pst_host *host, const char *key, double value);
    void (*text)(const struct pst_host *host, const char *key, const char *value);
    void (*flag)(const struct pst_host *host, const char *key, bool value);
};

#endif
