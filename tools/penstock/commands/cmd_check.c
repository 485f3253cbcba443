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
#include "reports/rows.h"
#include "session/session.h"

/* A plan that was judged. */
struct judged {
    const char *file;
    bool legal;
    const struct pst_violation *violations;
    uint32_t n_violations; /* that are kept */
};

#define OF_VIOLATION(kind, member) PST_ROW_AT(kind, PST_ROW_ENTRY, struct pst_violation, member)
static const struct pst_row violation_rows[] = {
    {"rule", NULL, OF_VIOLATION(NAME, rule)},
    {"device", "absent if it does not apply", OF_VIOLATION(COUNT, device),
     .absent = PST_ROW_IF_NONE},
    {"instruction", "absent if it does not apply", OF_VIOLATION(COUNT, instr),
     .absent = PST_ROW_IF_NONE},
    {"text", "found and expected value", OF_VIOLATION(NAME, text)},
    PST_ROWS_END,
};

#define OF_JUDGED(kind, member) PST_ROW_AT(kind, 0, struct judged, member)
const struct pst_row pst_check_rows[] = {
    {"file", NULL, OF_JUDGED(TEXT, file)},
    {"legal", NULL, OF_JUDGED(FLAG, legal)},
    {"stages", "their number", PST_ROW_AT(COUNT, 1, struct pst_plan, n_stages)},
    {"devices", "their number", PST_ROW_AT(COUNT, 1, struct pst_plan, n_devices)},
    {"violations", NULL, PST_ROW_OBJECT, .rows = violation_rows,
     PST_ROW_EACH(0, struct judged, violations, n_violations)},
    PST_ROWS_END,
};

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

struct defect {
    const char *file, *text;
};

struct checked {
    struct pst_cli *cli;
    struct pst_arena arena;
    const char *folder;
    struct defect *defects;
    uint32_t n_defects, n_tensors;
    uint64_t step, bytes;
};

static const struct pst_row defect_rows[] = {
    {"file", NULL, PST_ROW_AT(TEXT, PST_ROW_ENTRY, struct defect, file)},
    {"text", "what is wrong", PST_ROW_AT(TEXT, PST_ROW_ENTRY, struct defect, text)},
    PST_ROWS_END,
};

#define OF_CHECKED(kind, member) PST_ROW_AT(kind, 0, struct checked, member)
#define IF_SOUND                 PST_ROW_UNLESS(IF_NOT_ZERO, 0, struct checked, n_defects)
static const struct pst_row checkpoint_rows[] = {
    {"folder", NULL, OF_CHECKED(TEXT, folder)},
    {"defects", "empty if it is undamaged", PST_ROW_OBJECT, .rows = defect_rows,
     PST_ROW_EACH(0, struct checked, defects, n_defects)},
    {"step", "of an undamaged checkpoint", OF_CHECKED(NUMBER, step), IF_SOUND},
    {"tensors", "their number; likewise", OF_CHECKED(COUNT, n_tensors), IF_SOUND},
    {"bytes", "of all files; likewise", OF_CHECKED(BYTES, bytes), IF_SOUND},
    PST_ROWS_END,
};
const struct pst_row pst_check_folder_rows[] = {
    {"checkpoints", "in the order of their steps", PST_ROW_OBJECT, PST_ROW_LIST,
     .rows = checkpoint_rows},
    PST_ROWS_END,
};

static void keep_defect(void *context, const struct pst_error *defect)
{
    struct checked *it = context;

    it->defects = pst_resize(it->defects, (size_t)it->n_defects + 1, sizeof *it->defects);
    it->defects[it->n_defects++] = (struct defect){pst_arena_strdup(&it->arena, defect->file),
                                                   pst_arena_strdup(&it->arena, defect->message)};
    if (!it->cli->json) {
        pst_text_printf(stdout, "%s: %s\n", defect->file, defect->message);
    }
}

static void print_checked(const struct checked *it, const struct pst_checkpoint *checkpoint)
{
    char text[32];

    if (it->n_defects > 0) {
        pst_text_printf(stdout, "%s: damaged: %u defect%s\n", it->folder, it->n_defects,
                        it->n_defects == 1 ? "" : "s");
    } else {
        pst_text_printf(stdout, "%s: sound: step %llu of %s, %u tensors, %s\n", it->folder,
                        (unsigned long long)it->step, checkpoint->manifest.model, it->n_tensors,
                        pst_format_bytes(text, it->bytes));
    }
}

static void check_one(struct pst_cli *cli, const char *path)
{
    struct pst_checkpoint *checkpoint = NULL;
    struct checked it = {.cli = cli, .folder = path};
    struct pst_error err = {0};

    if (pst_checkpoint_check(path, keep_defect, &it) == 0) {
        if (pst_checkpoint_open(path, &checkpoint, &err) != PST_OK) {
            keep_defect(&it, &err);
        } else {
            it.step = checkpoint->manifest.step;
            it.n_tensors = checkpoint->manifest.n_tensors;
            for (uint32_t i = 0; i < checkpoint->manifest.n_files; i++) {
                it.bytes += checkpoint->manifest.files[i].bytes;
            }
        }
    }
    if (cli->json) {
        pst_rows_object(&cli->answer, NULL, checkpoint_rows, PST_ROW_OF(&it));
    } else {
        print_checked(&it, checkpoint);
    }
    cli->code = it.n_defects > 0 ? 1 : cli->code;
    pst_checkpoint_close(checkpoint);
    free(it.defects);
    pst_arena_finish(&it.arena);
}

static void check_folder(struct pst_cli *cli, const char *path)
{
    uint64_t *steps = NULL;
    uint32_t n = 0;

    if (cli->json) {
        pst_json_array(&cli->answer, pst_check_folder_rows[0].key);
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
    setenv("PENSTOCK_NO_PROFILE", "1", 1); /* the answer is the same on machines that measured */
    report = pst_alloc(1, sizeof *report);
    pst_cli_job_embedded(cli, file, &job);
    job.job.slim = true;
    pst_cli_must(cli, pst_session_create_for_planning(&job.job, &job.session, &cli->err));
    pst_cli_must(cli, pst_session_read(job.session, file, &cli->err));
    pst_searching_begin(cli, "proving");
    status = pst_session_judge(job.session, &job.session->planned, report, &cli->err);
    PST_TRY(status, pst_session_compare_stated(job.session, report, &cli->err));
    pst_searching_end();
    pst_cli_must(cli, report->n_violations == 0 ? status : PST_OK);
    cli->code = report->n_violations == 0 ? 0 : 1;
    if (cli->json) {
        const struct judged judged = {file, report->n_violations == 0, report->violations,
                                      report->n_violations < PST_CHECK_MAX ? report->n_violations
                                                                           : PST_CHECK_MAX};

        pst_rows_json(&cli->answer, pst_check_rows, PST_ROW_OF(&judged, job.session->planned.plan));
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
