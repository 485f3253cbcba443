/* SPDX-License-Identifier: Apache-2.0
 *
 * The batches of a run, read ahead by a thread of its own, so that a slow disk or a tokenizer's
 * file costs no step. What is read follows from the sample numbers alone.
 */
#ifndef PST_DATA_PREFETCH_H
#define PST_DATA_PREFETCH_H

#include "data/data.h"

struct pst_prefetch;

/*
 * Training samples `first`, first + 1, ... in batches of `batch`, n_batches of them; n_slots
 * batches have room. data and shape must outlive it. machine.threads: the thread cannot be started.
 */
pst_status pst_prefetch_create(const struct pst_data *data, const struct pst_sample_shape *shape,
                               uint64_t first, uint32_t batch, uint64_t n_batches, uint32_t n_slots,
                               struct pst_prefetch **ret_prefetch, struct pst_error *err);
/* Waits for the batch that is being read; accepts NULL. */
void pst_prefetch_destroy(struct pst_prefetch *prefetch);

/* The next batch, when it is there: the inputs as pst_data_read gives them, until released. At most
   n_slots - 1 may be held. Errors: those of pst_data_read, at their batch. One thread takes and
   releases. */
pst_status pst_prefetch_take(struct pst_prefetch *prefetch, void *const **ret_inputs,
                             struct pst_error *err);
/* The oldest batch that is held. */
void pst_prefetch_release(struct pst_prefetch *prefetch);

#endif
