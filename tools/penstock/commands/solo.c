/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/solo.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "commands/terminal.h"
#include "exchange/torch_csv.h"
#include "train/isolate.h"
#include "train/stop.h"

struct pst_worker_task pst_cli_limits(uint64_t time_ns)
{
    return (struct pst_worker_task){.time_limit_ns = time_ns,
                                    .memory_limit_bytes = pst_isolate_default_memory(),
                                    .cancelled = pst_stop_requested,
                                    .time_limit_name = "--time-limit"};
}

pst_status pst_cli_solo_run(const struct pst_solo_job *job, uint64_t time_ns,
                            struct pst_solo_result *ret_result, struct pst_error *err)
{
    const struct pst_worker_task limits = pst_cli_limits(time_ns);
    bool foreign = false;
    pst_status st = pst_plugin_is_foreign("scheduler", job->id, job->path, &foreign, err);

    if (st == PST_OK) {
        st = pst_solo_job_run(job, foreign ? &limits : NULL, pst_stop_requested, ret_result, err);
    }
    return st == PST_ERR_CANCELLED && pst_stop_requested() ? pst_stop_fail(err) : st;
}

struct pst_schedule_page pst_cli_schedule_page(const struct pst_cli *cli)
{
    return (struct pst_schedule_page){
        .width = pst_terminal_width(), .color = cli->color, .utf8 = pst_terminal_utf8()};
}

struct pst_solo_costs pst_cli_unit_costs(void)
{
    return (struct pst_solo_costs){
        .forward_ns = PST_SOLO_SCALE,
        .backward_input_ns = PST_SOLO_SCALE,
        .backward_weight_ns = PST_SOLO_SCALE,
        .saved_bytes = PST_SOLO_SCALE,
        .saved_weight_bytes = PST_SOLO_SCALE,
        .limit_bytes = UINT64_MAX,
    };
}

pst_status pst_cli_write_order(const char *file, const struct pst_solo_result *result,
                               struct pst_error *err)
{
    char *text = NULL;
    pst_status st =
        pst_torch_csv_of_answer(&result->solo, &result->answer, PST_TORCH_COMPUTE, &text, err);

    if (st == PST_OK) {
        st = pst_file_write(file, text, strlen(text), err);
        free(text);
    }
    return st;
}
