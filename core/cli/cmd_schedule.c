/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock schedule NAME`: a scheduler on its own, on numbers instead of a model.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/schedule_request.h"
#include "plugin/search.h"
#include "report/figure.h"
#include "report/schedule_report.h"
#include "report/trace.h"
#include "train/isolate.h"
#include "train/stop.h"

/* Does the scheduler come from elsewhere than the program itself? */
static pst_status is_foreign(const struct pst_solo_job *job, bool *ret_foreign,
                             struct pst_error *err)
{
    struct pst_arena arena = {0};
    const char *file = NULL;
    bool at_home = true;
    pst_status st = pst_plugin_locate(&arena, "scheduler", job->id, job->path, &file, err);

    if (st == PST_OK && file != NULL) {
        st = pst_search_at_home(file, &at_home, err);
    }
    *ret_foreign = !at_home;
    pst_arena_finish(&arena);
    return st;
}

static pst_status ask(const struct pst_schedule_request *request,
                      struct pst_solo_result *ret_result, struct pst_error *err)
{
    const struct pst_solo_limits limits = {.time_ns = request->time_limit_ns,
                                           .memory_bytes = pst_isolate_default_memory(),
                                           .cancelled = pst_stop_requested};
    bool foreign;
    pst_status st = is_foreign(&request->job, &foreign, err);

    if (st == PST_OK) {
        st = foreign ? pst_solo_job_run_apart(&request->job, &limits, ret_result, err)
                     : pst_solo_job_run(&request->job, pst_stop_requested, ret_result, err);
    }
    return st == PST_ERR_CANCELLED && pst_stop_requested() ? pst_stop_fail(err) : st;
}

static uint32_t terminal_width(void)
{
    struct winsize size;

    if (isatty(STDOUT_FILENO) == 1 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
        size.ws_col > 0) {
        return size.ws_col;
    }
    return 80;
}

/* By the variables that decide; nothing here calls setlocale. */
static bool locale_is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *value = NULL, *charset;

    for (size_t i = 0; i < 3 && (value == NULL || value[0] == '\0'); i++) {
        value = getenv(names[i]);
    }
    charset = value == NULL ? NULL : strchr(value, '.');
    return charset != NULL &&
           (strncasecmp(charset, ".utf-8", 6) == 0 || strncasecmp(charset, ".utf8", 5) == 0);
}

static pst_status write_files(const struct pst_schedule_request *request,
                              const struct pst_schedule_figures *figures, struct pst_error *err)
{
    pst_status st = PST_OK;

    for (uint32_t f = PST_FIGURE_SVG; f <= PST_FIGURE_PDF && st == PST_OK; f++) {
        if (request->figures[f] != NULL) {
            st = pst_figure_write(figures->timeline, request->figures[f], (enum pst_figure_format)f,
                                  NULL, err);
        }
    }
    if (st == PST_OK && request->trace != NULL) {
        st = pst_trace_write(figures->timeline, request->trace, NULL, err);
    }
    return st;
}

static pst_status tell(const struct pst_schedule_request *request,
                       const struct pst_solo_result *result, const struct pst_cli *cli,
                       struct pst_error *err)
{
    const struct pst_schedule_page page = {.width = terminal_width(),
                                           .color = cli->color,
                                           .utf8 = locale_is_utf8(),
                                           .in_samples = request->problem_file != NULL};
    struct pst_schedule_figures figures;
    struct pst_schedule_units units;
    char title[160];
    pst_status st;

    pst_schedule_request_units(request, result, &units, title, sizeof title);
    st = pst_schedule_figures_init(result, request->n_steps, &units, &figures, err);
    if (st != PST_OK) {
        return st;
    }
    st = write_files(request, &figures, err);
    if (st == PST_OK && cli->json) {
        st = pst_cli_print_json(pst_schedule_report_json(&figures, page.in_samples), err);
    } else if (st == PST_OK) {
        st = pst_schedule_report_print(&figures, &page, stdout, err);
    }
    pst_schedule_figures_finish(&figures);
    return st;
}

int pst_cmd_schedule(const struct pst_command *command, int argc, char **argv)
{
    struct pst_schedule_request request = {.n_steps = 1};
    const struct pst_option options[] = {
        {"devices", 'd', "P", "devices", NULL, &request.devices},
        {"microbatches", 'm', "M", "micro-batches of a step", NULL, &request.microbatches},
        {"cost", 0, "LIST", "of one device's share of the model: f=1,b=1,w=1", NULL, &request.cost},
        {"comm", 0, "C", "latency between two devices; 0", NULL, &request.comm},
        {"aw", 0, "X", "part of a saved activation that W alone needs; 1", NULL, &request.aw},
        {"memory-limit", 0, "X", "micro-batches of a device's share that it may hold", NULL,
         &request.memory_limit},
        {"options", 'o', "LIST", "parameters of the scheduler: key=value,...", NULL,
         &request.options},
        {"steps", 'n', "N", "so many steps, or batches of an asynchronous schedule; 1", NULL,
         &request.steps},
        {"barrier", 0, NULL, "tell the scheduler that a step costs its makespan", &request.barrier,
         NULL},
        {"problem", 0, "FILE", "stages and links of their own instead of equal shares", NULL,
         &request.problem_file},
        {"time-limit", 0, "TIME", "for a scheduler that is not penstock's own; 10 min", NULL,
         &request.time_limit},
        {"svg", 0, "FILE", "draw the timeline there", NULL, &request.figures[PST_FIGURE_SVG]},
        {"png", 0, "FILE", "the same as pixels", NULL, &request.figures[PST_FIGURE_PNG]},
        {"pdf", 0, "FILE", "the same as a page", NULL, &request.figures[PST_FIGURE_PDF]},
        {"trace", 0, "FILE", "write the timeline as Chrome trace events", NULL, &request.trace},
    };
    bool json = pst_options_want_json(argc, argv);
    struct pst_solo_result result = {.scale = 1};
    struct pst_error err = {0};
    struct pst_cli cli;
    pst_status st = pst_options_parse(command, options, sizeof options / sizeof *options, argc,
                                      argv, &cli, &err);

    if (st != PST_OK || cli.help) {
        return pst_cli_end(st, json, &err);
    }
    pst_stop_install();
    st = pst_options_arguments(command, &cli, 1, 1, &err);
    if (st == PST_OK) {
        st = pst_schedule_request_read(&request, &cli, &err);
    }
    if (st == PST_OK) {
        st = ask(&request, &result, &err);
    }
    if (st == PST_OK) {
        st = tell(&request, &result, &cli, &err);
    }
    pst_solo_result_finish(&result);
    pst_schedule_request_finish(&request);
    return pst_cli_end(st, cli.json, &err);
}
