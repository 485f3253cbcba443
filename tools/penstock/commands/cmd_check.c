/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock check PLAN`: the graph is rebuilt from the config that the plan carries, so the file is
 * all it takes.
 */
#include "commands/commands.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"
#include "train/session.h"

static void report_json(const char *file, const struct pst_plan *plan,
                        const struct pst_check_report *report, struct pst_json *json)
{
    pst_json_string(json, "file", file);
    pst_json_bool(json, "legal", report->n_violations == 0);
    pst_json_uint(json, "stages", plan->n_stages);
    pst_json_uint(json, "devices", plan->n_devices);
    pst_json_array(json, "violations");
    for (uint32_t i = 0; i < report->n_violations && i < PST_CHECK_MAX; i++) {
        const struct pst_violation *v = &report->violations[i];

        pst_json_object(json, NULL);
        pst_json_string(json, "rule", v->rule);
        if (v->device != PST_NONE) {
            pst_json_uint(json, "device", v->device);
        }
        if (v->instr != PST_NONE) {
            pst_json_uint(json, "instruction", v->instr);
        }
        pst_json_string(json, "text", v->text);
        pst_json_end(json, '}');
    }
    pst_json_end(json, ']');
}

static void print_report(const char *file, const struct pst_plan *plan,
                         const struct pst_check_report *report)
{
    char peak[32];
    uint64_t most = 0, instrs = 0;

    for (uint32_t i = 0; i < plan->n_devices; i++) {
        most = plan->devices[i].arena_bytes > most ? plan->devices[i].arena_bytes : most;
        instrs += plan->devices[i].n_instrs;
    }
    if (report->n_violations == 0) {
        printf("%s: legal: %u stages on %u devices, %llu instructions, peak %s\n", file,
               plan->n_stages, plan->n_devices, (unsigned long long)instrs,
               pst_format_bytes(peak, most));
        return;
    }
    for (uint32_t i = 0; i < report->n_violations && i < PST_CHECK_MAX; i++) {
        const struct pst_violation *v = &report->violations[i];

        printf("%-6s", v->rule);
        if (v->device != PST_NONE) {
            printf(" device %u", v->device);
        }
        if (v->instr != PST_NONE) {
            printf(" instruction %u", v->instr);
        }
        printf(": %s\n", v->text);
    }
    printf("%s: illegal: %u violation%s\n", file, report->n_violations,
           report->n_violations == 1 ? "" : "s");
}

/* Exit code 0: legal, 1: not. An error is a file that could not be judged. */
static void check(struct pst_cli *cli, void *request)
{
    const char *file = cli->arguments[0];
    struct pst_check_report *report = pst_alloc(1, sizeof *report);
    struct pst_cli_job job;
    pst_status st;

    (void)request;
    pst_cli_job_embedded(cli, file, &job);
    pst_cli_must(cli, pst_session_create_for_planning(&job.job, &job.session, &cli->err));
    pst_cli_must(cli, pst_session_read_plan(job.session, file, &cli->err));
    st = pst_session_judge(job.session, report, &cli->err);
    pst_cli_must(cli, report->n_violations == 0 ? st : PST_OK);
    cli->code = report->n_violations == 0 ? 0 : 1;
    if (cli->json) {
        report_json(file, job.session->planned.plan, report, &cli->answer);
    } else {
        print_report(file, job.session->planned.plan, report);
    }
    free(report);
    pst_cli_job_close(&job);
}

const struct pst_command pst_cmd_check = {
    .name = "check",
    .arguments = "PLAN",
    .summary = "Proves a plan file legal",
    .text = "Exit code 1 and one line per violation if it is not.",
    .words = {1, 1},
    .run = check,
};
