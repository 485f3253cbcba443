/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/solo.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "commands/commands.h"
#include "commands/terminal.h"
#include "exchange/torch_csv.h"
#include "train/isolate.h"
#include "train/stop.h"

pst_status pst_cli_read_solo(const struct pst_cli *cli, const char *who, const char *text,
                             uint64_t *ret_time_ns, const char **ret_id, const char **ret_path,
                             struct pst_error *err)
{
    const char *name = cli->arguments[0];
    size_t n = strlen(name);
    bool is_path = strchr(name, '/') != NULL || (n > 3 && strcmp(name + n - 3, ".so") == 0);

    *ret_id = is_path ? NULL : name;
    *ret_path = is_path ? name : NULL;
    *ret_time_ns = (uint64_t)600 * 1000000000u;
    if (cli->n_sets > 0) {
        return pst_cli_usage(cli, err,
                             "there is no config to --set; --options gives %s its parameters", who);
    }
    if (text != NULL && !pst_parse_time(text, ret_time_ns)) {
        return pst_cli_usage(cli, err, "--time-limit is a time such as \"30 s\", not \"%s\"", text);
    }
    return PST_OK;
}

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
    return st;
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
