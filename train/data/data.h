/* SPDX-License-Identifier: Apache-2.0
 *
 * Training data. Every sample is a function of (config, its index in the run) and of nothing else,
 * so all plans see the same samples. What the model's input tensors look like is read off the
 * graph: any number of tokens (i32) and features to learn from, and targets, one per row of the
 * loss: classes (i32), tokens that were hidden, or numbers.
 */
#ifndef PST_DATA_DATA_H
#define PST_DATA_DATA_H

#include <penstock/data.h>

#include "job/training.h"
#include "graph/graph.h"

/* The inputs and targets of a sample of a graph. */
struct pst_sample_shape {
    uint32_t n_inputs;
    const struct pst_tensor *inputs;  /* n_inputs: the graph's first tensors */
    uint64_t vocabs[PST_MAX_INPUTS];  /* values below which an i32 input stays; 0: features */
    const struct pst_tensor *x;       /* the first tensor of X */
    const struct pst_tensor *target;  /* classes, hidden tokens or numbers */
    const struct pst_tensor *shifted; /* NULL: the model has none */
    uint64_t rows;                    /* targets of one sample: what "tokens per second" counts */
    uint64_t vocab;                   /* of x */
    uint64_t classes;                 /* target values allowed; 0 where targets are numbers */
};

struct pst_data; /* read-only once created: any thread may read */
struct pst_tokenizer;

/* PST_ERR_UNSUPPORTED, kind config.value: the graph wants something that no reader gives. */
pst_status pst_sample_shape_of(const struct pst_graph *graph, struct pst_sample_shape *ret_shape,
                               struct pst_error *err);

/* The unit of printed training rates, and its number in one sample, or whole sequence: tokens if it
   is a row of them with a class each, else samples. */
struct pst_sample_unit {
    const char *name; /* "tok", "samples" */
    uint64_t n;
};
struct pst_sample_unit pst_sample_unit_of(const struct pst_graph *graph);

/* The place of a tensor of *shape among the inputs. */
static inline uint32_t pst_sample_input(const struct pst_sample_shape *shape,
                                        const struct pst_tensor *tensor)
{
    return (uint32_t)(tensor - shape->inputs);
}

/*
 * Opens what [data] names. Errors (exit 2): config.value for a pattern without a file, data too
 * short for one sample, a model that such data or train.sample is not for; input.syntax for a file
 * that is empty or not of its format, input.limit for more than 1 GiB of text. The graph must
 * outlive the data.
 */
pst_status pst_data_create(const struct pst_job *job, const struct pst_graph *graph,
                           struct pst_data **ret_data, struct pst_error *err);
void pst_data_destroy(struct pst_data *data);

/* Different samples of a split before they repeat: UINT64_MAX for synthetic data; 0: nothing is
   held out. Sequences: the same where the graph's samples are slices of these. */
uint64_t pst_data_samples(const struct pst_data *data, uint32_t split);
uint64_t pst_data_sequences(const struct pst_data *data, uint32_t split);

/* By which tokens are text; NULL: each is a byte, or data.tokenizer is not set. */
const struct pst_tokenizer *pst_data_tokenizer(const struct pst_data *data);

/* Samples first ... first + n - 1 of the split into ret_inputs[i], row-major as input tensor i has
   them; of slices n is whole micro-batches of sequences, in the order of pst_graph_slice; n_inputs
   pointers. Where the loss is a mean over tokens, that of these samples: they are a step. Errors:
   input.path; input.syntax (exit 2) for a file that got shorter and for a token or class that the
   model does not have, with file and position. */
pst_status pst_data_read(const struct pst_data *data, uint32_t split, uint64_t first, uint32_t n,
                         void *const *ret_inputs, struct pst_error *err);

/* Like pst_data_read, but first and n count whole sequences, however they are cut. */
pst_status pst_data_read_whole(const struct pst_data *data, uint32_t split, uint64_t first,
                               uint32_t n, void *const *ret_inputs, struct pst_error *err);

/* The digest is of the amount of data, of the first n training samples, read into `inputs`, and of
   the id, version and parameters of a data plugin that is not penstock's own. */
pst_status pst_data_digest(const struct pst_data *data, const struct pst_sample_shape *shape,
                           uint32_t n, void *const *inputs, uint64_t *ret_digest,
                           struct pst_error *err);

#endif
