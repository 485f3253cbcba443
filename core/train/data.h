/* SPDX-License-Identifier: Apache-2.0
 *
 * Training data. Every sample is a function of (config, its index in the run) and of nothing else,
 * so all plans see the same samples. What the model's input tensors look like is read off the
 * graph: x is tokens (i32) or features (f32), targets are classes (i32), one per row of the loss.
 */
#ifndef PST_TRAIN_DATA_H
#define PST_TRAIN_DATA_H

#include "config/job.h"
#include "model/graph.h"

enum pst_split {
    PST_SPLIT_TRAIN = 0,
    PST_SPLIT_VALID = 1 /* held out: never seen in training */
};

/* What a sample of this graph is made of. */
struct pst_sample_shape {
    const struct pst_tensor *x, *target;
    uint64_t rows;    /* targets of one sample: what "tokens per second" counts */
    uint64_t vocab;   /* token values allowed in x; 0 where x is features */
    uint64_t classes; /* target values allowed */
};

struct pst_data; /* read-only once created: any thread may read */

/* PST_ERR_UNSUPPORTED, kind config.value: the graph wants something that no reader gives. */
pst_status pst_sample_shape_of(const struct pst_graph *graph, struct pst_sample_shape *ret_shape,
                               struct pst_error *err);

/*
 * Opens what [data] names. Errors (exit 2): config.value for a pattern without a file, a text too
 * short for one sample, a model that such data or train.sample is not for; input.syntax for an
 * empty file, input.limit for more than 1 GiB of text. The graph must outlive the data.
 */
pst_status pst_data_create(const struct pst_job *job, const struct pst_graph *graph,
                           struct pst_data **ret_data, struct pst_error *err);
void pst_data_destroy(struct pst_data *data);

const struct pst_sample_shape *pst_data_shape(const struct pst_data *data);

/* Different samples of a split before they repeat: UINT64_MAX for synthetic data; 0: nothing is
   held out. */
uint64_t pst_data_samples(const struct pst_data *data, uint32_t split);

/* Samples first ... first + n - 1 of the split, row-major: x as the tensor's dtype and elems say,
   targets i32, `rows` per sample. */
void pst_data_read(const struct pst_data *data, uint32_t split, uint64_t first, uint32_t n,
                   void *ret_x, int32_t *ret_targets);

#endif
