/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock check PLAN`: the graph is rebuilt from the config that the plan carries, so the file is
 * all it takes.
 */
#include "commands/commands.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/util.h"
#include "train/session.h"

static char *report_json(const char *file, const struct pst_plan *plan,
                         const struct pst_check_report *report)
{
    struct pst_json json;

    pst_json_init(&json);
    pst_json_object(&json, NULL);
    pst_json_string(&json, "file", file);
    pst_json_bool(&json, "legal", report->n_violations == 0);
    pst_json_uint(&json, "stages", plan->n_stages);
    pst_json_uint(&json, "devices", plan->n_devices);
    pst_json_array(&json, "violations");
    for (uint32_t i = 0; i < report->n_violations && i < PST_CHECK_MAX; i++) {
        const struct pst_violation *v = &report->violations[i];

        pst_json_object(&json, NULL);
        pst_json_string(&json, "rule", v->rule);
        if (v->device != PST_NONE) {
            pst_json_uint(&json, "device", v->device);
        }
        if (v->instr != PST_NONE) {
            pst_json_uint(&json, "instruction", v->instr);
        }
        pst_json_string(&json, "text", v->text);
        pst_json_end(&json, '}');
    }
    pst_json_end(&json, ']');
    pst_json_end(&json, '}');
    return pst_json_take(&json);
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

/* ret_code: 0 legal, 1 not. An error is a file that could not be judged. */
static pst_status check(const struct pst_cli *cli, struct pst_session *session,
                        struct pst_check_report *report, int *ret_code, struct pst_error *err)
{
    const char *file = cli->arguments[0];
    const struct pst_plan *plan;
    pst_status st = pst_session_read_plan(session, file, err);

    if (st != PST_OK) {
        return st;
    }
    plan = session->planned.plan;
    st = pst_session_judge(session, report, err);
    if (st != PST_OK && report->n_violations == 0) {
        return st;
    }
    *ret_code = report->n_violations == 0 ? 0 : 1;
    if (cli->json) {
        return pst_cli_print_json(report_json(file, plan, report), err);
    }
    print_report(file, plan, report);
    return PST_OK;
}

int pst_cmd_check(const struct pst_command *command, int argc, char **argv)
{
    bool json = pst_options_want_json(argc, argv);
    struct pst_check_report *report = NULL;
    struct pst_session *session = NULL;
    struct pst_cli_job job = {0};
    struct pst_error err = {0};
    struct pst_cli cli;
    int code = 0, end;
    pst_status st = pst_options_parse(command, NULL, 0, argc, argv, &cli, &err);

    if (st != PST_OK || cli.help) {
        return pst_cli_end(st, json, &err);
    }
    st = pst_options_arguments(command, &cli, 1, 1, &err);
    if (st == PST_OK) {
        st = pst_cli_job_embedded(cli.arguments[0], &job, &err);
    }
    if (st == PST_OK) {
        st = pst_session_create_for_planning(&job.job, &session, &err);
    }
    if (st == PST_OK) {
        report = pst_alloc(1, sizeof *report);
        st = check(&cli, session, report, &code, &err);
    }
    free(report);
    pst_session_destroy(session);
    pst_cli_job_close(&job);
    end = pst_cli_end(st, cli.json, &err);
    return end != 0 ? end : code;
}
