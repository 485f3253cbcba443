/* SPDX-License-Identifier: Apache-2.0
 *
 * The published form of a model that was read from a file: which tensors the file has, under which
 * names and in which memory layout. Families of models are in models/published.h.
 */
#ifndef PST_GRAPH_PUBLISHED_H
#define PST_GRAPH_PUBLISHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/ops.h>

enum pst_published_layout {
    PST_LAYOUT_SAME = 0,
    PST_LAYOUT_TORCH, /* matrices [out, in] where the model has [in, out], images [out, in, height,
                         width] where it has [height, width, in, out]; vectors are the same */
    PST_LAYOUT_ROWS,  /* the same; a file may have more rows, of which the first are taken */
    PST_LAYOUT_TURNED /* [in, out, height, width], height and width backwards, where the model has
                         [height, width, in, out] */
};

/* --- of a file that a model was read from ----------------------------------------------------- */

enum pst_tensor_kind { PST_TENSOR_REAL, PST_TENSOR_INTEGER, PST_TENSOR_TRUTH };
enum pst_tensor_remark {
    PST_TENSOR_NAMED,
    PST_TENSOR_GUESSED, /* the name follows from the nodes that read it */
    PST_TENSOR_NAMELESS /* nothing says what the module calls it */
};

/* A tensor of the module that was exported. */
struct pst_initial_tensor {
    const char *name;
    const char *of_file; /* its name in the file */
    const char *own;     /* parameter, or operator, whose values it has; NULL: a constant */
    uint32_t state;      /* of the operator; PST_NONE: it is a parameter */
    uint32_t value;      /* in the file */
    uint32_t kind, remark;
    bool needed;     /* a constant: results depend on it */
    uint32_t layout; /* enum pst_published_layout */
    uint32_t rank;
    uint64_t dims[PST_MAX_RANK];
    uint64_t first; /* elements before those of the parameter, which may be fewer */
};

struct pst_published_file {
    const char *path;
    struct pst_initial_tensor *tensors; /* those of one value: the first is its name in the file */
    uint32_t n_tensors, n_absent;
    const char **absent; /* names of the module that the file does not have */
};

#endif
