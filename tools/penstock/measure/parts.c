/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/parts.h"

#include "measure/calibration.h"
#include "models/job_graph.h"
#include "models/model_file.h"
#include "sim/judge.h"

const struct pst_session_parts pst_program_parts = {
    .judge = &pst_judge,
    .graph = pst_job_graph,
    .model_file = pst_model_file_describe,
    .profile = pst_calibration_read,
    .calibrate = pst_calibration_load,
};

__attribute__((constructor)) static void tell_parts(void)
{
    pst_session_tell(&pst_program_parts);
}
