/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock compare CONFIG...`: every combination that [compare] lists, side by side.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/util.h"
#include "commands/combinations.h"
#include "commands/fill_gallery.h"
#include "commands/outputs.h"
#include "page/page.h"
#include "reports/compare_columns.h"
#include "tune/baseline.h"

#define STEPS       20
#define STEPS_MOST  1000000u
#define ROUNDS      3
#define ROUNDS_MOST 1000u
#define JOBS_MOST   1024u
#define TOP         4u /* plans on timelines */

/* Files that the result goes to. */
enum output { CSV = 0, MARKDOWN, LATEX, PIVOT, OUTPUTS };

struct request {
    bool run;
    uint32_t n_steps, n_rounds; /* of a run; 0: not given */
    uint32_t n_jobs;            /* 0: not given */
    const char *baseline, *files[OUTPUTS], *plans;
    const char *report, *timelines, *width, *height;
    const char *figures[3]; /* by enum pst_figure_format */
    uint32_t top;           /* plans on timelines; 0: not given */
    struct pst_figure_options figure;
    uint32_t n_kept; /* plans, for figures */
};

static bool shows_plans(const struct request *request)
{
    return request->report != NULL || request->timelines != NULL;
}

/* Returns the format by the end of the name: .svg, .pdf or .png. */
static enum pst_figure_format format_of(struct pst_cli *cli, const char *file)
{
    static const char *const ends[] = {".svg", ".png", ".pdf"};

    for (uint32_t f = PST_FIGURE_SVG; f <= PST_FIGURE_PDF; f++) {
        if (strlen(file) > 4 && pst_text_ends(file, ends[f])) {
            return (enum pst_figure_format)f;
        }
    }
    pst_cli_usage(cli, "--timelines %s: the name must end in .svg, .png or .pdf", file);
}

/* Checks the options and files of figures before anything is tried. */
static void read_figures(struct pst_cli *cli, struct request *request)
{
    const char *const files[] = {request->report, request->timelines, request->figures[0],
                                 request->figures[1], request->figures[2]};

    request->figure = (struct pst_figure_options){
        .width_pt = pst_cli_points(cli, "--width", request->width),
        .height_pt = pst_cli_points(cli, "--height", request->height),
        .show_memory = true,
        .show_title = true,
    };
    pst_cli_must(cli, pst_figure_check_size(&request->figure, &cli->err));
    if (request->timelines != NULL) {
        format_of(cli, request->timelines);
    } else if (request->top > 0) {
        pst_cli_usage(cli, "--top needs --timelines FILE");
    }
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (files[i] != NULL) {
            pst_cli_must(cli, pst_file_write_check(files[i], &cli->err));
        }
    }
}

static void read_request(struct pst_cli *cli, struct request *request)
{
    if (request->run) {
        pst_cli_must_be_alone(cli, "runs every combination");
    }
    if (request->n_steps > 0 && !request->run) {
        pst_cli_usage(cli, "--steps needs --run");
    }
    if (request->n_rounds > 0 && !request->run) {
        pst_cli_usage(cli, "--repeat needs --run");
    }
    if (request->files[PIVOT] != NULL && cli->n_arguments < 2) {
        pst_cli_usage(cli, "--pivot needs several configs");
    }
    if (request->plans != NULL) {
        pst_cli_must(cli, pst_folder_make(request->plans, "the folder", &cli->err));
    }
    for (uint32_t f = 0; f < OUTPUTS; f++) {
        if (request->files[f] != NULL) {
            pst_cli_must(cli, pst_file_write_check(request->files[f], &cli->err));
        }
    }
    read_figures(cli, request);
}

/* Frees the plans that figures will not show, if there are very many, during the search. */
static void drop_slow_plans(struct request *request, const struct pst_compare_result *result)
{
    uint32_t *order, n;

    if (request->run || ++request->n_kept < 2 * PST_PAGE_LOOKS) {
        return;
    }
    order = pst_alloc((size_t)result->n + 1, sizeof *order);
    n = pst_compare_order(result, order);
    for (uint32_t place = PST_PAGE_LOOKS; place < n; place++) {
        struct pst_trial *trial = &result->records[order[place]].trial;

        free(trial->plan);
        trial->plan = NULL;
    }
    request->n_kept = PST_PAGE_LOOKS;
    free(order);
}

/* FOLDER/0007.json for record 7. */
static pst_status keep_plan(void *context, const struct pst_compare_result *result, uint32_t i,
                            struct pst_error *err)
{
    struct request *request = context;
    struct pst_trial *trial = &result->records[i].trial;
    struct pst_arena arena = {0};
    pst_status status = PST_OK;

    if (trial->plan == NULL) {
        return PST_OK;
    }
    if (request->plans == NULL) {
        drop_slow_plans(request, result);
        return PST_OK;
    }
    status = pst_file_write(pst_arena_printf(&arena, "%s/%04u.json", request->plans, i),
                            trial->plan, strlen(trial->plan), err);
    pst_arena_finish(&arena);
    if (!request->run && !shows_plans(request)) {
        free(trial->plan);
        trial->plan = NULL;
    }
    drop_slow_plans(request, result);
    return status;
}

static char *text_of(const struct pst_compare_result *result, uint32_t output)
{
    switch (output) {
    case CSV:
        return pst_compare_report_csv(result);
    case PIVOT:
        return pst_compare_report_pivot_csv(result);
    default:
        return pst_compare_report_table(result,
                                        output == LATEX ? PST_COMPARE_LATEX : PST_COMPARE_MARKDOWN);
    }
}

static void write_files(struct pst_cli *cli, const struct request *request,
                        const struct pst_compare_result *result)
{
    for (uint32_t f = 0; f < OUTPUTS; f++) {
        char *text = request->files[f] == NULL ? NULL : text_of(result, f);

        if (text != NULL) {
            pst_cli_must(cli, pst_file_write(request->files[f], text, strlen(text), &cli->err));
        }
        free(text);
    }
}

/* --- figures -----------------------------------------------------------------------------------*/

static void write_figures(struct pst_cli *cli, const struct request *request,
                          const struct pst_cli_sets *sets, const struct pst_compare_result *result)
{
    uint32_t top = request->top == 0 ? TOP : request->top;
    char title[32];
    struct pst_gallery gallery;
    const struct pst_page page = {"compare", cli->n_arguments == 1 ? cli->arguments[0] : title,
                                  result, &gallery};

    snprintf(title, sizeof title, "%u configs", cli->n_arguments);
    pst_gallery_begin(&gallery, result->n, top > PST_PAGE_TIMELINES ? top : PST_PAGE_TIMELINES);
    if (shows_plans(request)) {
        pst_cli_fill_gallery(cli, sets, result, &gallery);
    }
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
        pst_cli_must(cli, pst_page_write_timelines(&page, top, request->timelines,
                                                   format_of(cli, request->timelines),
                                                   &request->figure, &cli->err));
    }
    pst_gallery_finish(&gallery);
}

static void compare(struct pst_cli *cli, void *asked)
{
    struct request *request = asked;
    struct pst_compare_result result = {.run = request->run, .wide = cli->wide};
    struct pst_cli_trials trials = {
        .options = {.keep_plan = request->plans != NULL || shows_plans(request)},
        .n_jobs = request->n_jobs,
        .n_rounds = !request->run           ? 0
                    : request->n_rounds > 0 ? request->n_rounds
                                            : ROUNDS,
        .n_steps = request->n_steps > 0 ? request->n_steps : STEPS,
        .baseline = request->baseline,
        .each = keep_plan,
        .context = request,
    };
    struct pst_cli_sets sets;

    read_request(cli, request);
    pst_cli_sets_open(cli, pst_combinations_read, &sets);
    pst_cli_records(&sets, &result);
    if (request->baseline != NULL) {
        pst_cli_must(cli, pst_versus_check(result.records, result.n, request->baseline, &cli->err));
    }
    pst_provenance_begin(&result.provenance);
    for (uint32_t s = 0; s < sets.n; s++) {
        pst_provenance_add(&result.provenance, &sets.sets[s].job.job, &sets.sets[s].combinations);
    }
    pst_cli_try_all(cli, &sets, &trials, &result);
    write_files(cli, request, &result);
    write_figures(cli, request, &sets, &result);
    pst_cli_answer_records(cli, &result);
    pst_provenance_finish(&result.provenance);
    pst_cli_sets_close(&sets);
}

static const struct pst_option options[] = {
    {"run", 'r', NULL, "also run each combination for some steps", PST_AT(run), 0},
    {"steps", 'n', "N", "measured steps of a round; 20", PST_AT(n_steps), STEPS_MOST},
    {"repeat", 0, "N", "rounds of a run, interleaved over the combinations; 3", PST_AT(n_rounds),
     ROUNDS_MOST},
    {"baseline", 0, "NAME", "also show the speed-up over this method, strategies (a/b/c) or row",
     PST_AT(baseline), 0},
    {"jobs", 'j', "N", "processes that plan; one per core", PST_AT(n_jobs), JOBS_MOST},
    {"output", 'o', "FILE", "write the table as comma-separated values", PST_AT(files[CSV]), 0},
    {"markdown", 0, "FILE", "write the table as Markdown", PST_AT(files[MARKDOWN]), 0},
    {"latex", 0, "FILE", "write the table as LaTeX, for the package booktabs", PST_AT(files[LATEX]),
     0},
    {"pivot", 0, "FILE", "write methods by configs as comma-separated values", PST_AT(files[PIVOT]),
     0},
    {"plans", 0, "FOLDER", "write the plan of each combination to this folder", PST_AT(plans), 0},
    {"report", 0, "FILE", "write an HTML page: tables, figures, timelines", PST_AT(report), 0},
    {"svg", 0, "FILE", "draw throughput against memory as SVG", PST_AT(figures[PST_FIGURE_SVG]), 0},
    {"png", 0, "FILE", "the same as PNG", PST_AT(figures[PST_FIGURE_PNG]), 0},
    {"pdf", 0, "FILE", "the same as PDF", PST_AT(figures[PST_FIGURE_PDF]), 0},
    {"timelines", 0, "FILE", "draw the timelines of the fastest plans (.svg, .png, .pdf)",
     PST_AT(timelines), 0},
    {"top", 0, "N", "plans on --timelines; 4", PST_AT(top), 1000},
    {"width", 0, "POINTS", "width of figures; 241 fits a column of a paper", PST_AT(width), 0},
    {"height", 0, "POINTS", "height of throughput against memory", PST_AT(height), 0},
};

const struct pst_command pst_cmd_compare = {
    .name = "compare",
    .arguments = "CONFIG...",
    .summary = "Compares combinations of strategies",
    .text = "Plans and simulates every combination of the partitioners, schedulers, memory "
            "optimizers,\nnumbers of devices and micro-batch sizes that [compare] lists; --run "
            "also runs them, in\ninterleaved rounds. The fastest comes first. Combinations that do "
            "not fit or are\nincompatible are listed with the reason. Ctrl-C keeps the results so "
            "far. Exit code 1 if\nnothing can be compared.",
    .words = {1, UINT32_MAX},
    PST_CLI_OPTIONS(options, struct request),
    .handles_signals = true,
    .run = compare,
};
