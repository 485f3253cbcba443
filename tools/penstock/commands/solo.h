/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands that ask a strategy on its own share.
 */
#ifndef PST_COMMANDS_SOLO_H
#define PST_COMMANDS_SOLO_H

#include "commands/options.h"
#include "planner/solo_job.h"
#include "reports/schedule_report.h"

/* What asks for a plugin on its own: its name (id) or file (path), how long it may take ("10 min"
   where text is NULL). `who` ("the scheduler") is for messages. Errors: usage. */
pst_status pst_cli_read_solo(const struct pst_cli *cli, const char *who, const char *text,
                             uint64_t *ret_time_ns, const char **ret_id, const char **ret_path,
                             struct pst_error *err);

/* Of the process apart that a plugin from elsewhere is asked in; 0: any time. */
struct pst_worker_task pst_cli_limits(uint64_t time_ns);

/* Asks a scheduler; one that is not penstock's own in a process apart, for at most time_ns there
   (0: no limit). */
pst_status pst_cli_solo_run(const struct pst_solo_job *job, uint64_t time_ns,
                            struct pst_solo_result *ret_result, struct pst_error *err);

/* One step of the answer as a file that PyTorch loads, passes alone. output.form, exit code 1,
   where there is no form for it; output.write. */
pst_status pst_cli_write_order(const char *file, const struct pst_solo_result *result,
                               struct pst_error *err);

/* How wide and how colourful the answer may be on standard output. */
struct pst_schedule_page pst_cli_schedule_page(const struct pst_cli *cli);

/* 1 for every pass and for what is saved, in millionths; no latency. */
struct pst_solo_costs pst_cli_unit_costs(void);

#endif
