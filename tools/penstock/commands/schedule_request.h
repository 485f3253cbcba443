/* SPDX-License-Identifier: Apache-2.0
 *
 * What the command line of `penstock schedule` asks for.
 */
#ifndef PST_COMMANDS_SCHEDULE_REQUEST_H
#define PST_COMMANDS_SCHEDULE_REQUEST_H

#include "commands/outputs.h"
#include "commands/schedule_problem.h"
#include "planner/solo_job.h"
#include "reports/schedule_figures.h"

struct pst_schedule_request {
    /* As written; NULL or 0: not given. */
    uint32_t n_devices, n_microbatches, n_steps;
    const char *cost, *comm, *aw, *memory_limit, *options, *problem_file, *time_limit;
    struct pst_cli_outputs outputs;
    const char *csv;
    bool barrier;
    /* As read. */
    struct pst_solo_job job;
    uint64_t time_limit_ns;
    struct pst_schedule_problem problem;
};

/* Errors: PST_ERR_CONFIG, kind usage or config.value; those of a problem file. */
pst_status pst_schedule_request_read(struct pst_schedule_request *request,
                                     const struct pst_cli *cli, struct pst_error *err);
void pst_schedule_request_finish(struct pst_schedule_request *request);

/* How the answer's figures are to be shown; `title` is where the units' title stands then. */
void pst_schedule_request_units(const struct pst_schedule_request *request,
                                const struct pst_solo_result *result,
                                struct pst_schedule_units *ret_units, char *title, size_t size);

#endif
