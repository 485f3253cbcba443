/* SPDX-License-Identifier: Apache-2.0
 *
 * An operator of a plugin (<penstock/operator.h>) as a graph has it: its instance, and its row.
 * Each belongs to one operator of one graph.
 *
 *   models/plugin/operators.c --makes--> pst_custom --pst_graph_add--> graph, which destroys it
 *   core/graph/ops/custom.c --describe--> question, row; gradients, work, outputs follow from these
 *   a device --functions->kernels("its id")--> kernels that get self, question, row
 */
#ifndef PST_GRAPH_CUSTOM_H
#define PST_GRAPH_CUSTOM_H

#include <penstock/operator.h>

#include "graph/draft.h"

#define PST_CUSTOM_MAX_WORKSPACE ((uint64_t)1 << 48)

struct pst_custom {
    struct pst_arena arena; /* of everything below; the maker's */
    const char *id, *version;
    const char *attributes; /* "key=value,...", as the model gave them */
    uint64_t build;         /* digest of the plugin's file; 0: nobody looked */
    const struct pst_operator *functions;
    void *self;
    void *context; /* the maker's */
    /* Asks the plugin for the row of the question. Errors name the plugin. */
    pst_status (*describe)(struct pst_custom *custom, struct pst_error *err);
    void (*destroy)(struct pst_custom *custom);
    /* Filled by shape inference: */
    struct pst_operand x[PST_MAX_IN], p[PST_MAX_PARAM];
    struct pst_operator_question question;
    struct pst_operator_row row;
    bool is_to_blame; /* describe() failed by no fault of the operands, or its row is wrong */
    struct pst_custom *next; /* of the same graph */
};

void pst_customs_destroy(struct pst_custom *first);

/* Returns the kernels for devices of that id and graphs of that dtype; NULL: there are none. */
static inline const struct pst_operator_kernels *pst_custom_kernels(const struct pst_custom *custom,
                                                                    const char *device,
                                                                    uint32_t dtype)
{
    const struct pst_operator_kernels *kernels = custom->functions->kernels(custom->self, device);

    return kernels != NULL && PST_CAN(kernels, run) && (kernels->dtypes >> dtype & 1) != 0 ? kernels
                                                                                           : NULL;
}

#endif
