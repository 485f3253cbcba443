/* SPDX-License-Identifier: Apache-2.0
 *
 * Published weights: safetensors files, alone or in shards with an index, under the names and in
 * the layout of the model's family (models/published.h). A run begins with them, or writes what it
 * has in their form.
 */
#ifndef PST_WEIGHTS_WEIGHTS_H
#define PST_WEIGHTS_WEIGHTS_H

#include "job/training.h"
#include "exec/exec.h"
#include "graph/graph.h"
#include "weights/safetensors.h"

struct pst_weights;

/*
 * Opens `path`: a folder with model.safetensors, or with model.safetensors.index.json and its
 * shards, or one of these files. Every parameter of the graph is found and its shape compared; what
 * is read into memory later is no more than that. What a config.json beside them says otherwise
 * than the job is told, too. tell: warn of tensors that the model does not have (one process of
 * several does). Job and graph must outlive the weights. Errors (exit 2): those of pst_st_open and
 * pst_json_load; input.path where there are no such files; weights.mismatch with the first ten
 * parameters that differ; config.value for a config.json of another model.
 */
pst_status pst_weights_open(const char *path, const struct pst_job *job,
                            const struct pst_graph *graph, bool tell,
                            struct pst_weights **ret_weights, struct pst_error *err);
void pst_weights_close(struct pst_weights *weights); /* accepts NULL */

/* Parameters and running statistics; as long as the weights are open. */
const struct pst_exec_source *pst_weights_source(const struct pst_weights *weights);

/*
 * Writes what the source has, which must be all parameters and running statistics: `folder`, made
 * where it is missing, gets model.safetensors of f32 or bf16, or shards of at most shard_bytes with
 * an index, and config.json where the family has one. Of older weights there nothing stays that
 * would be read. Errors (exit 2): output.write; those of the source.
 */
pst_status pst_weights_write(const struct pst_job *job, const struct pst_graph *graph,
                             const struct pst_exec_source *source, const char *folder,
                             enum pst_st_dtype dtype, uint64_t shard_bytes, struct pst_error *err);

#endif
