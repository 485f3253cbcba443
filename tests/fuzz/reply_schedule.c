/* SPDX-License-Identifier: Apache-2.0
 *
 * What comes back from a scheduler's process: read, timed and told. The first byte says to which
 * question.
 */
#include <stdio.h>
#include <stdlib.h>

#include "commands/schedule_problem.h"
#include "commands/ask_plugin.h"
#include "fuzz.h"
#include "reports/schedule_report.h"
#include "exchange/torch_csv.h"

static const char graph[] =
    "{\"format\":\"penstock-schedule-problem\",\"version\":1,\"samples\":8,\"devices\":3,"
    "\"memory_bytes\":[100,null,7],\"transfer_us\":1,\"links\":[{\"from\":0,\"to\":2},"
    "{\"from\":1,\"to\":2,\"transfer_us\":3}],\"stages\":["
    "{\"forward_us\":1,\"backward_input_us\":1,\"backward_weight_us\":1,\"microbatch_size\":2},"
    "{\"forward_us\":2,\"backward_input_us\":1,\"backward_weight_us\":0,\"microbatch_size\":4},"
    "{\"forward_us\":1,\"backward_input_us\":2,\"backward_weight_us\":0,\"saved_bytes\":3}]}";

static struct pst_schedule_problem problem;
static struct pst_schedule_job jobs[] = {
    {.id = "1f1b", .n_devices = 2, .n_microbatches = 4, .again = true},
    {.id = "interleaved", .n_devices = 2, .n_microbatches = 4, .options = "chunks=2"},
    {.id = "zb-h1", .n_devices = 3, .n_microbatches = 4},
    {.id = "pipedream", .n_devices = 2, .n_microbatches = 3},
    {.id = "csv", .options = "file='" PENSTOCK_SOURCE_DIR "/schedulers/csv/example.csv'"},
    {.id = "per-stage", .problem = &problem.asked},
};

enum { N = sizeof jobs / sizeof *jobs };

static FILE *nowhere;

void fuzz_begin(void)
{
    struct pst_error err = {0};

    nowhere = fopen("/dev/null", "w");
    if (pst_schedule_problem_read(fuzz_file(graph, sizeof graph - 1), &problem, &err) != PST_OK) {
        fuzz_fail("%s", err.message);
    }
    for (uint32_t i = 0; i < N; i++) {
        jobs[i].costs = pst_cli_unit_costs();
        fuzz_keep_answer(i, &pst_schedule_kind, &jobs[i]);
    }
}

static void tell(const struct pst_schedule_result *result)
{
    static const struct pst_schedule_units units = {
        .ns = PST_SCHEDULE_SCALE, .bytes = PST_SCHEDULE_SCALE, .title = "what came back"};
    static const struct pst_schedule_page page = {.width = 80};
    struct pst_schedule_figures figures;
    struct pst_error err = {0};
    struct pst_json json = {0};
    char *csv = NULL;

    if (fuzz_judge(pst_schedule_figures_init(result, 2, &units, &figures, &err), &err)) {
        pst_schedule_report_print(&figures, &page, nowhere);
        pst_schedule_report_json(&figures, false, &json);
        pst_json_finish(&json);
        pst_schedule_figures_finish(&figures);
    }
    fuzz_judge(
        pst_torch_csv_of_answer(&result->asked, &result->answer, PST_TORCH_COMPUTE, &csv, &err),
        &err);
    free(csv);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct pst_schedule_job *job = &jobs[size == 0 ? 0 : data[0] % N];
    struct pst_schedule_result result;

    if (fuzz_take_answer(data, size, &pst_schedule_kind, job, &result)) {
        tell(&result);
        pst_schedule_result_finish(&result);
    }
    return 0;
}
