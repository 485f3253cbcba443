/* SPDX-License-Identifier: Apache-2.0
 *
 * From [model] to a graph: a builder of models.c, or a plugin's.
 */
#ifndef PST_MODELS_JOB_GRAPH_H
#define PST_MODELS_JOB_GRAPH_H

#include "config/job.h"
#include "graph/graph.h"

/* The graph that [model] of the job describes, of whole sequences, with the loss as [train] wants
   it; pst_graph_destroy it. Errors: config.* with their place; those of pst_model_plugin_graph. */
pst_status pst_job_graph(const struct pst_job *job, struct pst_graph **ret_graph,
                         struct pst_error *err);

#endif
