/* SPDX-License-Identifier: Apache-2.0
 *
 * The file that a model is read from (ONNX): checkpoints keep where it is and its checksum, so that
 * they can be exported from any folder, and never with another file.
 */
#ifndef PST_MODELS_MODEL_FILE_H
#define PST_MODELS_MODEL_FILE_H

#include "base/arena.h"
#include "base/error.h"
#include "config/job.h"

/* Its absolute path and its checksum (32 digits) in the arena; NULL where the model has none.
   Errors: input.path. */
pst_status pst_model_file_describe(const struct pst_job *job, struct pst_arena *arena,
                                   const char **ret_path, const char **ret_hash,
                                   struct pst_error *err);

/* The job's model is read from the file at `path`, or where that is gone from the one that [model]
   names. Errors: input.path where both are gone; weights.mismatch where it has another checksum. */
pst_status pst_model_file_use(const struct pst_job *job, const char *path, const char *hash,
                              struct pst_error *err);

#endif
