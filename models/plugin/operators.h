/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators of plugins (<penstock/operator.h>): those that a job names, and what graphs get of
 * them.
 */
#ifndef PST_PLUGIN_OPERATORS_H
#define PST_PLUGIN_OPERATORS_H

#include "config/job.h"
#include "graph/custom.h"
#include "host/plugin_host.h"

/* Bytes by which structs of a newer host are longer, at most (pst_instance.wider). */
#define PST_OPERATOR_WIDER 64

/* Plugins of this process, by id. All zero: none. */
struct pst_operators {
    struct pst_arena arena;
    uint32_t n;
    const struct pst_plugin **plugins;
    uint64_t *builds; /* digests of their files */
};

/* Opens those of model.operators: ids, or files. Errors: config.value at its place; those of
   pst_plugin_find. Finish it in any case. */
pst_status pst_operators_open(const struct pst_job *job, struct pst_operators *ret_operators,
                              struct pst_error *err);
void pst_operators_finish(struct pst_operators *operators);

/* One operator of a graph. attributes: "key=value,...", or NULL. Errors: config.value where the job
   does not name it (*ret_unnamed is set then); config.* of its parameters; those of create(). */
pst_status pst_operators_make(const struct pst_operators *operators, const char *id,
                              const char *attributes, struct pst_custom **ret_custom,
                              bool *ret_unnamed, struct pst_error *err);

/* Makes the operator of an instance, which is destroyed with it if `destroys`. */
struct pst_custom *pst_custom_of(struct pst_instance *instance, const char *attributes,
                                 bool destroys);

#endif
