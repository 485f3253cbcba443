/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock export FORMAT CONFIG|PLAN -o FILE`: a plan for other programs and for people. Weights:
 * export_weights.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/signals.h"
#include "base/text.h"
#include "base/util.h"
#include "commands/commands.h"
#include "commands/export_weights.h"
#include "commands/outputs.h"
#include "commands/searching.h"
#include "exchange/torch_csv.h"
#include "exchange/torch_split.h"
#include "figures/figure.h"
#include "session/session.h"
#include "sim/sim.h"

struct request {
    const char *format, *file, *flavour, *dtype, *width, *height; /* as written */
    const char *source;                                           /* config or plan */
    bool no_memory, no_title;
    enum pst_torch_flavour torch;
    struct pst_figure_options figure;
    uint32_t n_dropped; /* actions that the format has no room for */
};

struct format {
    const char *name, *what;
    pst_status (*write)(const struct pst_session *session, struct request *request,
                        struct pst_error *err);
};

static pst_status simulate(const struct pst_session *session, struct pst_timeline **ret_timeline,
                           struct pst_error *err)
{
    struct pst_sim_result result;

    return pst_sim_timeline(
        session->planned.plan, session->graph, session->shown, 1, session->simulated.period_ns,
        (const struct pst_program *const *)session->planned.programs, ret_timeline, &result, err);
}

static pst_status write_figure(const struct pst_session *session, struct request *request,
                               struct pst_error *err)
{
    enum pst_figure_format format = strcmp(request->format, "svg") == 0   ? PST_FIGURE_SVG
                                    : strcmp(request->format, "png") == 0 ? PST_FIGURE_PNG
                                                                          : PST_FIGURE_PDF;
    struct pst_timeline *timeline = NULL;
    pst_status status = simulate(session, &timeline, err);

    PST_TRY(status, pst_figure_write(timeline, request->file, format, &request->figure, err));
    pst_timeline_destroy(timeline);
    return status;
}

static pst_status write_trace(const struct pst_session *session, struct request *request,
                              struct pst_error *err)
{
    char digest[PST_CLI_DIGEST];
    struct pst_trace_meta meta;
    struct pst_timeline *timeline = NULL;
    pst_status status;

    meta = pst_cli_trace_meta(session, request->source, digest);
    status = simulate(session, &timeline, err);
    PST_TRY(status, pst_trace_write(timeline, request->file, &meta, err));
    pst_timeline_destroy(timeline);
    return status;
}

static pst_status write_torch(const struct pst_session *session, struct request *request,
                              struct pst_error *err)
{
    char *text = NULL;
    pst_status status = pst_torch_csv_of_plan(session->planned.plan, request->torch, &text,
                                              &request->n_dropped, err);

    if (status == PST_OK) {
        status = pst_file_write(request->file, text, strlen(text), err);
        free(text);
    }
    return status;
}

static pst_status write_split(const struct pst_session *session, struct request *request,
                              struct pst_error *err)
{
    char *text = NULL;
    pst_status status = pst_torch_split_of_plan(session->planned.plan, session->graph, &text, err);

    if (status == PST_OK) {
        status = pst_file_write(request->file, text, strlen(text), err);
        free(text);
    }
    return status;
}

static const struct format formats[] = {
    {"pytorch-csv", "schedule for torch.distributed.pipelining", write_torch},
    {"pytorch-split", "split points for torch.distributed.pipelining", write_split},
    {"chrome-trace", "simulated step as Chrome trace events", write_trace},
    {"svg", "figure of a simulated step", write_figure},
    {"png", "figure of a simulated step", write_figure},
    {"pdf", "figure of a simulated step", write_figure},
    {"weights", "weights of a checkpoint", NULL},
};
#define N_FORMATS (sizeof formats / sizeof formats[0])

static const struct format *find_format(struct pst_cli *cli, const char *name)
{
    const char *names[N_FORMATS + 1] = {NULL};

    for (size_t i = 0; i < N_FORMATS; i++) {
        names[i] = formats[i].name;
    }
    if (strcmp(name, "html") == 0) {
        pst_cli_usage(cli,
                      "pages are written by \"penstock simulate --report FILE.html\"; svg, png "
                      "and pdf are figures of the same step");
    }
    return &formats[pst_cli_choose(cli, "format", name, names)];
}

/* A figure in the name of another format would be opened as that. */
static void check_ending(struct pst_cli *cli, const struct request *request,
                         const struct format *format)
{
    const char *dot = strrchr(request->file, '.');

    for (size_t i = 0; dot != NULL && format->write != NULL && i < N_FORMATS; i++) {
        if (formats[i].write == write_figure && strcmp(dot + 1, formats[i].name) == 0 &&
            format != &formats[i]) {
            pst_cli_usage(cli, "%s is not a format of \"%s\", which ends in %s; did you mean %s?",
                          format->name, request->file, dot, formats[i].name);
        }
    }
}

static const struct format *read_request(struct pst_cli *cli, struct request *request)
{
    const struct format *format = find_format(cli, cli->arguments[0]);

    request->format = format->name;
    request->source = cli->arguments[1];
    if (request->flavour != NULL && format->write != write_torch) {
        pst_cli_usage(cli, "only pytorch-csv has flavours");
    }
    if (request->dtype != NULL && format->write != NULL) {
        pst_cli_usage(cli, "only weights have a --dtype");
    }
    if (request->flavour != NULL) {
        request->torch = pst_cli_choose(cli, "flavour", request->flavour, pst_torch_flavours);
    }
    request->figure = (struct pst_figure_options){
        .width_pt = pst_cli_points(cli, "--width", request->width),
        .height_pt = pst_cli_points(cli, "--height", request->height),
        .show_memory = !request->no_memory,
        .show_title = !request->no_title,
    };
    if (request->file == NULL) {
        pst_cli_usage(cli, "-o %s is missing", format->write == NULL ? "FOLDER" : "FILE");
    }
    check_ending(cli, request, format);
    return format;
}

static void answer(struct pst_cli *cli, const struct request *request, const struct format *format)
{
    if (!cli->json) {
        pst_text_printf(stdout, "%s: %s\n", request->file, format->what);
        if (request->n_dropped > 0) {
            printf("omitted: recomputation and offload of the results of %u operators; the program "
                   "that loads the file decides about them\n",
                   request->n_dropped);
        }
        return;
    }
    pst_json_string(&cli->answer, "format", request->format);
    pst_json_string(&cli->answer, "file", request->file);
    if (format->write == write_torch) {
        pst_json_string(&cli->answer, "flavour", pst_torch_flavours[request->torch]);
        pst_json_uint(&cli->answer, "dropped", request->n_dropped);
    }
}

static void export(struct pst_cli *cli, void *asked)
{
    struct request *request = asked;
    const struct format *format = read_request(cli, request);
    struct pst_cli_job job;

    if (format->write == NULL) {
        pst_searching_begin(cli, "writing weights");
        pst_export_weights(cli, cli->arguments[1], request->file, request->dtype);
        return;
    }
    pst_cli_job_planned(cli, cli->arguments[1], true, &job);
    pst_stop_grace(0);
    pst_searching_begin(cli, "writing");
    pst_cli_must(cli, format->write(job.session, request, &cli->err));
    pst_searching_end();
    answer(cli, request, format);
    pst_cli_job_close(&job);
}

static const struct pst_option options[] = {
    {"output", 'o', "FILE", "file to write", PST_AT(file), 0},
    {"flavour", 0, "WHAT", "pytorch-csv: compute (default), comms or comms-waits", PST_AT(flavour),
     0},
    {"dtype", 0, "TYPE", "weights: f32 (default) or bf16", PST_AT(dtype), 0},
    {"width", 0, "POINTS", "svg, png, pdf: width of the figure", PST_AT(width), 0},
    {"height", 0, "POINTS", "svg, png, pdf: height of the figure", PST_AT(height), 0},
    {"no-memory", 0, NULL, "svg, png, pdf: omit the memory curves", PST_AT(no_memory), 0},
    {"no-title", 0, NULL, "svg, png, pdf: omit the title", PST_AT(no_title), 0},
};

const struct pst_command pst_cmd_export = {
    .name = "export",
    .arguments = "FORMAT CONFIG|PLAN|CHECKPOINT",
    .summary = "Writes a plan or weights for other programs, or draws a plan",
    .text = "FORMAT is pytorch-csv (a schedule for torch.distributed.pipelining), pytorch-split "
            "(points\nwhere its pipeline() splits the module that a costed graph was traced from), "
            "chrome-trace\n(for Perfetto; a file with the ending .gz is compressed), or svg, png "
            "or pdf (a figure of\na simulated step). A config is planned first. FORMAT weights "
            "writes a checkpoint as a\nfolder that transformers loads.",
    .offers = "pytorch-csv pytorch-split chrome-trace svg png pdf weights",
    .words = {2, 2},
    PST_CLI_OPTIONS(options, struct request),
    .handles_signals = true,
    .run = export,
};
