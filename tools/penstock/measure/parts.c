/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/parts.h"

#include "graph/cluster.h"
#include "job/training.h"
#include "measure/calibration.h"
#include "models/builder.h"
#include "models/job_graph.h"
#include "models/model_file.h"
#include "sim/judge.h"

/* Checkpoints alone name the file, the checksum of which takes a reading of it. */
static pst_status describe_file(const struct pst_job *job, struct pst_arena *arena,
                                const char **ret_path, const char **ret_hash, struct pst_error *err)
{
    return job->training->checkpoint.folder[0] != '\0'
               ? pst_model_file_describe(job, arena, ret_path, ret_hash, err)
               : PST_OK;
}

const struct pst_session_parts pst_program_parts = {
    .judge = &pst_judge,
    .graph = pst_job_graph,
    .model_file = describe_file,
    .profile = pst_calibration_read,
    .calibrate = pst_calibration_load,
};

__attribute__((constructor)) static void tell_parts(void)
{
    pst_session_set_parts(&pst_program_parts);
    pst_job_set_training(&pst_training_rows);
    pst_job_tell_rows("cluster", pst_cluster_params, pst_cluster_n_params);
    for (uint32_t i = 0; pst_model_builders[i] != NULL; i++) {
        pst_job_tell_rows("model", pst_model_builders[i]->params, pst_model_builders[i]->n_params);
    }
}
