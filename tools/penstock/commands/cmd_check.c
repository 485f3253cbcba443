/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock check PLAN`: the graph is rebuilt from the config that the plan carries, so the file is
 * all it takes. `penstock check FOLDER`: every byte of a checkpoint, or of all in a folder.
 */
#include "commands/commands.h"
#include "commands/searching.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/text.h"
#include "base/util.h"
#include "checkpoint/checkpoint.h"
#include "session/session.h"

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
        pst_text_printf(stdout, "%s: legal: %u stages on %u devices, %llu instructions, peak %s\n",
                        file, plan->n_stages, plan->n_devices, (unsigned long long)instrs,
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
        pst_text_printf(stdout, ": %s\n", v->text);
    }
    pst_text_printf(stdout, "%s: illegal: %u violation%s\n", file, report->n_violations,
                    report->n_violations == 1 ? "" : "s");
}

/* --- checkpoints ------------------------------------------------------------------------------ */

static void tell_defect(void *context, const struct pst_error *defect)
{
    struct pst_cli *cli = context;

    if (!cli->json) {
        pst_text_printf(stdout, "%s: %s\n", defect->file, defect->message);
        return;
    }
    pst_json_object(&cli->answer, NULL);
    pst_json_string(&cli->answer, "file", defect->file);
    pst_json_string(&cli->answer, "text", defect->message);
    pst_json_end(&cli->answer, '}');
}

static void describe(struct pst_cli *cli, const char *path, const struct pst_checkpoint *checkpoint)
{
    uint64_t bytes = 0;
    char text[32];

    for (uint32_t i = 0; i < checkpoint->manifest.n_files; i++) {
        bytes += checkpoint->manifest.files[i].bytes;
    }
    if (cli->json) {
        pst_json_uint(&cli->answer, "step", checkpoint->manifest.step);
        pst_json_uint(&cli->answer, "tensors", checkpoint->manifest.n_tensors);
        pst_json_uint(&cli->answer, "bytes", bytes);
    } else {
        pst_text_printf(stdout, "%s: sound: step %llu of %s, %u tensors, %s\n", path,
                        (unsigned long long)checkpoint->manifest.step, checkpoint->manifest.model,
                        checkpoint->manifest.n_tensors, pst_format_bytes(text, bytes));
    }
}

static void check_one(struct pst_cli *cli, const char *path)
{
    struct pst_checkpoint *checkpoint = NULL;
    struct pst_error err = {0};
    uint32_t n;

    if (cli->json) {
        pst_json_object(&cli->answer, NULL);
        pst_json_string(&cli->answer, "folder", path);
        pst_json_array(&cli->answer, "defects");
    }
    n = pst_checkpoint_check(path, tell_defect, cli);
    if (n == 0 && pst_checkpoint_open(path, &checkpoint, &err) != PST_OK) {
        tell_defect(cli, &err);
        n = 1;
    }
    if (cli->json) {
        pst_json_end(&cli->answer, ']');
    }
    if (n == 0) {
        describe(cli, path, checkpoint);
    } else {
        cli->code = 1;
    }
    if (cli->json) {
        pst_json_end(&cli->answer, '}');
    } else if (n > 0) {
        pst_text_printf(stdout, "%s: damaged: %u defect%s\n", path, n, n == 1 ? "" : "s");
    }
    pst_checkpoint_close(checkpoint);
}

static void check_folder(struct pst_cli *cli, const char *path)
{
    uint64_t *steps = NULL;
    uint32_t n = 0;

    if (cli->json) {
        pst_json_array(&cli->answer, "checkpoints");
    }
    if (pst_checkpoint_is_one(path)) {
        check_one(cli, path);
    } else {
        pst_cli_must(cli, pst_checkpoint_list(path, &steps, &n, &cli->err));
        if (n == 0) {
            pst_cli_must(cli, pst_fail_at(&cli->err, PST_ERR_CONFIG, "checkpoint.none", path, 0, 0,
                                          "no checkpoint there"));
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        char *one = pst_checkpoint_path(path, steps[i]);

        check_one(cli, one);
        free(one);
    }
    if (cli->json) {
        pst_json_end(&cli->answer, ']');
    }
    free(steps);
}

static bool is_folder(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Exit code 0: legal, 1: not. An error is a file that could not be judged. */
static void check(struct pst_cli *cli, void *request)
{
    const char *file = cli->arguments[0];
    struct pst_check_report *report;
    struct pst_cli_job job;
    pst_status status;

    (void)request;
    if (is_folder(file)) {
        check_folder(cli, file);
        return;
    }
    report = pst_alloc(1, sizeof *report);
    pst_cli_job_embedded(cli, file, &job);
    job.job.slim = true;
    pst_cli_must(cli, pst_session_create_for_planning(&job.job, &job.session, &cli->err));
    pst_cli_must(cli,
                 pst_plan_read(file, job.session->graph, &job.session->planned.plan, &cli->err));
    pst_searching_begin(cli, "proving");
    status = pst_session_judge(job.session, report, &cli->err);
    PST_TRY(status, pst_session_compare_stated(job.session, report, &cli->err));
    pst_searching_end();
    pst_cli_must(cli, report->n_violations == 0 ? status : PST_OK);
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
    .arguments = "PLAN|FOLDER",
    .summary = "Proves a plan file legal, or checkpoints undamaged",
    .text = "Prints one line per violation or defect; the exit code is then 1.",
    .words = {1, 1},
    .run = check,
};
