/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock compare CONFIG...`: every combination that [compare] lists, side by side.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"
#include "commands/combinations.h"
#include "commands/outputs.h"
#include "page/page.h"

#define STEPS_MOST 1000000u
#define TOP        4u /* plans on timelines */

struct request {
    bool run;
    uint32_t n_steps; /* of a run; 0: not given */
    const char *csv, *plans;
    const char *report, *timelines, *width, *height;
    const char *figures[3]; /* by enum pst_figure_format */
    uint32_t top;           /* plans on timelines; 0: not given */
    struct pst_figure_options figure;
    struct pst_gallery gallery;
};

/* Of a name that ends in .svg, .pdf or .png. */
static enum pst_figure_format format_of(struct pst_cli *cli, const char *file)
{
    static const char *const ends[] = {".svg", ".png", ".pdf"};
    size_t n = strlen(file);

    for (uint32_t f = PST_FIGURE_SVG; f <= PST_FIGURE_PDF; f++) {
        if (n > 4 && strcmp(file + n - 4, ends[f]) == 0) {
            return (enum pst_figure_format)f;
        }
    }
    pst_cli_usage(cli, "--timelines %s: the name must end in .svg, .png or .pdf", file);
}

/* What cannot be written is said before anything is tried. */
static void read_figures(struct pst_cli *cli, struct request *request)
{
    const char *const files[] = {request->csv,        request->report,     request->timelines,
                                 request->figures[0], request->figures[1], request->figures[2]};

    request->figure = (struct pst_figure_options){
        .width_pt = pst_cli_points(cli, "--width", request->width),
        .height_pt = pst_cli_points(cli, "--height", request->height),
        .show_memory = true,
        .show_title = true,
    };
    if (request->timelines != NULL) {
        format_of(cli, request->timelines);
    } else if (request->top > 0) {
        pst_cli_usage(cli, "--top is of the timelines: add --timelines FILE");
    }
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (files[i] != NULL) {
            pst_cli_must(cli, pst_file_write_check(files[i], &cli->err));
        }
    }
    pst_cli_must(cli, pst_figure_check_size(&request->figure, &cli->err));
}

static void read_request(struct pst_cli *cli, struct request *request)
{
    if (request->n_steps > 0 && !request->run) {
        pst_cli_usage(cli, "--steps is of a run: add --run");
    }
    if (request->plans != NULL && mkdir(request->plans, 0777) != 0 && errno != EEXIST) {
        pst_cli_must(cli,
                     pst_fail(&cli->err, PST_ERR_IO, "output.write",
                              "cannot make the folder %s: %s", request->plans, strerror(errno)));
    }
    read_figures(cli, request);
}

static bool shows_plans(const struct request *request)
{
    return request->report != NULL || request->timelines != NULL;
}

/* FOLDER/0007.json for record 7. */
static pst_status keep_plan(void *context, const struct pst_compare_result *result, uint32_t i,
                            struct pst_error *err)
{
    struct request *request = context;
    struct pst_trial *trial = &result->records[i].trial;
    struct pst_arena arena = {0};
    pst_status st;

    if (shows_plans(request)) {
        pst_gallery_keep(&request->gallery, result, i);
    }
    if (trial->plan == NULL) {
        return PST_OK;
    }
    st = pst_file_write(pst_arena_printf(&arena, "%s/%04u.json", request->plans, i), trial->plan,
                        strlen(trial->plan), err);
    pst_arena_finish(&arena);
    free(trial->plan);
    trial->plan = NULL;
    return st;
}

static void write_csv(struct pst_cli *cli, const char *file,
                      const struct pst_compare_result *result)
{
    char *text = pst_compare_report_csv(result);

    pst_cli_must(cli, pst_file_write(file, text, strlen(text), &cli->err));
    free(text);
}

static void write_figures(struct pst_cli *cli, const struct request *request,
                          const struct pst_compare_result *result)
{
    const struct pst_page page = {"compare", cli->n_arguments == 1 ? cli->arguments[0] : "Configs",
                                  result, &request->gallery};

    if (request->report != NULL) {
        pst_cli_must(cli, pst_page_write(&page, request->report, &cli->err));
    }
    for (uint32_t f = PST_FIGURE_SVG; f <= PST_FIGURE_PDF; f++) {
        if (request->figures[f] != NULL) {
            pst_cli_must(cli, pst_page_write_scatter(&page, request->figures[f],
                                                     (enum pst_figure_format)f, &request->figure,
                                                     &cli->err));
        }
    }
    if (request->timelines != NULL) {
        pst_cli_must(cli, pst_page_write_timelines(
                              &page, request->top == 0 ? TOP : request->top, request->timelines,
                              format_of(cli, request->timelines), &request->figure, &cli->err));
    }
}

static void compare(struct pst_cli *cli, void *asked)
{
    struct request *request = asked;
    struct pst_compare_result result = {.run = request->run};
    struct pst_cli_trials trials = {
        .options = {.run_steps = !request->run           ? 0
                                 : request->n_steps == 0 ? 20
                                                         : request->n_steps,
                    .keep_plan = request->plans != NULL},
        .each = keep_plan,
        .context = request,
    };
    struct pst_cli_sets sets;

    read_request(cli, request);
    pst_gallery_begin(&request->gallery,
                      request->top > PST_PAGE_TIMELINES ? request->top : PST_PAGE_TIMELINES);
    if (shows_plans(request)) {
        trials.options.show = pst_gallery_show;
        trials.options.show_context = &request->gallery;
    }
    pst_cli_sets_open(cli, &sets);
    pst_cli_try_all(cli, &sets, &trials, &result);
    if (request->csv != NULL) {
        write_csv(cli, request->csv, &result);
    }
    write_figures(cli, request, &result);
    pst_cli_answer_records(cli, &result);
    pst_gallery_finish(&request->gallery);
    pst_cli_sets_close(&sets);
}

static const struct pst_option options[] = {
    {"run", 'r', NULL, "run each combination for some steps, too", PST_AT(run), 0},
    {"steps", 'n', "N", "steps of a run; 20 where it is not given", PST_AT(n_steps), STEPS_MOST},
    {"output", 'o', "FILE", "write the table as comma-separated values", PST_AT(csv), 0},
    {"plans", 0, "FOLDER", "write the plan of each combination there", PST_AT(plans), 0},
    {"report", 0, "FILE", "write a page there (HTML): tables, figures, timelines", PST_AT(report),
     0},
    {"svg", 0, "FILE", "draw throughput against memory there", PST_AT(figures[PST_FIGURE_SVG]), 0},
    {"png", 0, "FILE", "the same as pixels", PST_AT(figures[PST_FIGURE_PNG]), 0},
    {"pdf", 0, "FILE", "the same as a page", PST_AT(figures[PST_FIGURE_PDF]), 0},
    {"timelines", 0, "FILE", "draw the fastest plans below each other there (.svg, .png, .pdf)",
     PST_AT(timelines), 0},
    {"top", 0, "N", "plans on --timelines; 4 where it is not given", PST_AT(top), 1000},
    {"width", 0, "POINTS", "of figures; 241 is a column of a paper", PST_AT(width), 0},
    {"height", 0, "POINTS", "of throughput against memory", PST_AT(height), 0},
};

const struct pst_command pst_cmd_compare = {
    .name = "compare",
    .arguments = "CONFIG...",
    .summary = "Puts combinations of strategies side by side",
    .text = "Every partitioner, scheduler, memory optimizer, number of devices and size of "
            "micro-batches\n"
            "that [compare] lists, each with each: planned, simulated, with --run also run. The "
            "fastest\n"
            "comes first; what does not fit or go together is listed with its reason. Ctrl-C keeps "
            "what "
            "is\ndone. Exit code 1 if nothing can be compared.",
    .words = {1, UINT32_MAX},
    PST_CLI_OPTIONS(options, struct request),
    .heeds_signals = true,
    .run = compare,
};
