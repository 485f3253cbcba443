/* SPDX-License-Identifier: Apache-2.0
 *
 * The model of a job that a plugin builds: found, run by the rules of plugins.isolate, taken.
 */
#ifndef PST_PLUGIN_MODEL_PLUGIN_H
#define PST_PLUGIN_MODEL_PLUGIN_H

#include "config/job.h"
#include "graph/graph.h"
#include "host/apart.h"

/* [model] names it. Errors: those of pst_job_plugin, pst_apart_ask, pst_model_ask and
   pst_model_graph; config.value, naming all models, where there is none of that name. */
pst_status pst_model_plugin_graph(const struct pst_job *job, struct pst_graph **ret_graph,
                                  struct pst_error *err);

/* The question; the answer is struct pst_model_calls. */
struct pst_model_job {
    struct pst_config *config;
    const struct pst_job *job; /* of that config */
};
extern const struct pst_apart_kind pst_model_kind;

#endif
