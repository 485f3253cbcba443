/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock schedule NAME`: a scheduler on its own, on numbers instead of a model.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "cli/commands.h"
#include "cli/schedule_request.h"
#include "cli/terminal.h"
#include "plugin/search.h"
#include "report/figure.h"
#include "report/schedule_report.h"
#include "report/torch_csv.h"
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

/* One step, as PyTorch loads it. */
static pst_status write_csv(const char *path, const struct pst_schedule_figures *figures,
                            struct pst_error *err)
{
    const struct pst_solo *solo = &figures->result->solo;
    const struct pst_solo_answer *answer = &figures->result->answer;
    uint32_t n = solo->in.n_stages, s;
    struct pst_torch_order order = {
        .n_ranks = solo->in.n_devices,
        .n_stages = n,
        .n_microbatches = solo->stages[0].n_microbatches,
        .passes = (const struct pst_pass *const *)answer->passes[1],
        .n_passes = answer->n_passes[1],
    };
    struct pst_arena arena = {0};
    uint32_t *rank_of = pst_arena_array(&arena, n, sizeof *rank_of);
    char *text = NULL;
    pst_status st = rank_of == NULL ? pst_fail_nomem(err) : PST_OK;
    bool chain = solo->in.n_links == n - 1 && !answer->asynchronous;

    for (s = 0; st == PST_OK && s < n; s++) {
        rank_of[s] = solo->stages[s].device;
        chain = chain && solo->stages[s].microbatch_size == solo->stages[0].microbatch_size &&
                (s == 0 || (solo->stages[s].n_pred == 1 &&
                            solo->links[solo->stages[s].first_pred].from == s - 1));
    }
    if (st == PST_OK && !chain) {
        st = pst_fail(err, PST_ERR_UNSUPPORTED, "output.form",
                      "PyTorch's CSV has no form for what is no synchronous chain of stages with "
                      "micro-batches of one size");
        err->exit_code = 1;
    }
    order.rank_of = rank_of;
    if (st == PST_OK) {
        st = pst_torch_csv(&order, PST_TORCH_COMPUTE, &text, err);
    }
    if (st == PST_OK) {
        st = pst_file_write(path, text, strlen(text), err);
    }
    free(text);
    pst_arena_finish(&arena);
    return st;
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
    if (st == PST_OK && request->csv != NULL) {
        st = write_csv(request->csv, figures, err);
    }
    return st;
}

/* The scheduler may not heed the limit, or not be able to keep it. */
static pst_status check_room(const struct pst_schedule_figures *f, struct pst_error *err)
{
    double unit = f->bytes_per_unit > 0 ? f->bytes_per_unit : 1;
    uint64_t most = 0, room = UINT64_MAX;
    uint32_t device = PST_NONE, d;

    for (d = 0; d < f->eval.n_devices; d++) {
        uint64_t peak = f->eval.peak_bytes[d];

        if (peak > f->stream.in.activation_bytes[d] && peak > most) {
            most = peak;
            room = f->stream.in.activation_bytes[d];
            device = d;
        }
    }
    if (device == PST_NONE) {
        return PST_OK;
    }
    return pst_fail(err, PST_ERR_INFEASIBLE, "plan.infeasible",
                    "scheduler \"%s\" holds %.15g on device %u, and the limit there is %.15g; "
                    "another scheduler may need less",
                    f->result->id, (double)most / unit, device, (double)room / unit);
}

static pst_status tell(const struct pst_schedule_request *request,
                       const struct pst_solo_result *result, const struct pst_cli *cli,
                       struct pst_error *err)
{
    const struct pst_schedule_page page = {.width = pst_terminal_width(),
                                           .color = cli->color,
                                           .utf8 = pst_terminal_utf8(),
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
    st = check_room(&figures, err);
    if (st == PST_OK) {
        st = write_files(request, &figures, err);
    }
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
        {"csv" /* the form */, 0, "FILE", "write the order as PyTorch's schedule CSV", NULL,
         &request.csv},
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
