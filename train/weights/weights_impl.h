/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that reading and writing of published weights share: which tensors a parameter is
 * made of, and their layout in it.
 */
#ifndef PST_WEIGHTS_WEIGHTS_IMPL_H
#define PST_WEIGHTS_WEIGHTS_IMPL_H

#include "job/training.h"
#include "graph/graph.h"
#include "models/published.h"
#include "weights/safetensors.h"

/* The file of weights in a folder, or its index if there are several files. */
#define PST_WEIGHTS_FILE  "model.safetensors"
#define PST_WEIGHTS_INDEX "model.safetensors.index.json"

/* A tensor of a file within a parameter, or running statistics: columns [column, column + width) of
   a matrix [rows][columns], columns being the last axis. The matrix is the whole parameter, or one
   place on its first axis. */
struct pst_weights_piece {
    char *name;       /* with the family's prefix */
    const char *bare; /* without it: within name */
    bool transposed;  /* theirs is [width][rows] */
    uint64_t taps;    /* of a transposed one: their rows are [in][taps], ours [taps][in]; else 1 */
    bool turned;      /* theirs is [in][width][taps], taps backwards; ours [taps][in][width] */
    const struct pst_initial_tensor *of_file; /* whose name and shape it has; NULL: of a family */
    bool more_rows;                           /* theirs may have more */
    uint32_t lead;   /* axes of the parameter that are none of the tensor's: 0, or the first */
    uint64_t origin; /* where the matrix begins, in elements */
    uint64_t rows, columns, column, width;
    double factor; /* ours is theirs times that */
};

/* The shape of a piece in a file. */
struct pst_weights_shape {
    uint32_t rank;
    uint64_t dims[PST_MAX_RANK];
};

/* A value that outlives steps: parameter `index`, or state `number` of operator `index`. */
struct pst_weights_value {
    uint32_t kind, index, number; /* as struct pst_state_key */
    const char *name;             /* ours */
    uint32_t rank;
    const uint64_t *dims;
    uint64_t elems;
};

/* All of a graph, parameters first, in the arena. */
struct pst_weights_value *pst_weights_values(const struct pst_graph *graph, struct pst_arena *arena,
                                             uint32_t *ret_n);

/* The tensors of the file that the graph was read from; NULL: it was built. */
const struct pst_published_file *pst_weights_file(const struct pst_graph *graph);

/* With a user's own file of the family: each row of tensors that is for this model must fit one of
   its n values, else the name in it is wrong. Shipped families need no `when` for that. Errors:
   config.value. */
pst_status pst_weights_check_rows(const struct pst_graph *graph, const struct pst_job *job,
                                  const struct pst_published *family,
                                  const struct pst_weights_value *values, uint32_t n,
                                  struct pst_error *err);

/* The pieces of a value, in the arena. Of a graph that was read from a file each of them is the
   whole value, under one of its names. weights.mismatch if the family's row does not divide it. */
pst_status pst_weights_pieces(const struct pst_graph *graph, const struct pst_job *job,
                              const struct pst_published *family,
                              const struct pst_weights_value *value, struct pst_arena *arena,
                              struct pst_weights_piece **ret_pieces, uint32_t *ret_n,
                              struct pst_error *err);

/* The shape of a piece in a file. */
struct pst_weights_shape pst_weights_shape_of(const struct pst_weights_value *value,
                                              const struct pst_weights_piece *piece);

#define PST_WEIGHTS_BLOCK ((uint64_t)1 << 18) /* elements that are converted at a time */

/* Reads elements [first, first + n) of a tensor into a block, or writes them from it. */
typedef pst_status pst_weights_block(void *context, uint64_t first, uint64_t n, float *block,
                                     struct pst_error *err);
/* Passes a piece block by block between all values of its parameter and its tensor: `pass` fills
   each block, which goes into the values, or with `out` gets each block of them. */
pst_status pst_weights_pass(const struct pst_weights_piece *piece, float *values, bool out,
                            pst_weights_block *pass, void *context, struct pst_error *err);

/* weights_config.c. The number that [model] has at that key, written or by default; 0 where it has
   none. Booleans are 0 or 1. */
double pst_weights_model_number(const struct pst_job *job, const char *key);
/* The condition `when` of a table's row: does it hold? */
bool pst_weights_when(const char *when, const struct pst_job *job);
/* Compares a config.json with the job. Every key of it must be one of the family's tables, or known
   to be harmless; config.value names all that are not, or have another value than [model]. */
pst_status pst_weights_check_config(const char *folder, const struct pst_job *job,
                                    const struct pst_published *family, bool *ret_there,
                                    struct pst_error *err);
/* The text of config.json; free() it. Errors: config.value if its rows make none for this model. */
pst_status pst_weights_config(const struct pst_job *job, const struct pst_published *family,
                              char **ret_text, struct pst_error *err);

#endif
