/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock export FORMAT CONFIG|PLAN -o FILE`: a plan for other programs and for people.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/number.h"
#include "base/util.h"
#include "commands/commands.h"
#include "figures/figure.h"
#include "exchange/torch_csv.h"
#include "exchange/trace.h"
#include "sim/sim.h"
#include "train/session.h"

struct request {
    const char *format, *file, *flavour, *width, *height; /* as written */
    bool no_memory, no_title;
    enum pst_torch_flavour torch;
    struct pst_figure_options figure;
};

/* What was written, for the answer. */
struct outcome {
    uint32_t n_dropped;
};

struct format {
    const char *name, *what;
    pst_status (*write)(const struct pst_session *session, const struct request *request,
                        struct outcome *outcome, struct pst_error *err);
};

static pst_status simulate(const struct pst_session *session, struct pst_timeline **ret_timeline,
                           struct pst_error *err)
{
    struct pst_sim_result result;

    return pst_sim_timeline(session->planned.plan, session->graph, &session->cost, 1,
                            (const struct pst_program *const *)session->planned.programs,
                            ret_timeline, &result, err);
}

static pst_status write_figure(const struct pst_session *session, const struct request *request,
                               struct outcome *outcome, struct pst_error *err)
{
    enum pst_figure_format format = strcmp(request->format, "svg") == 0   ? PST_FIGURE_SVG
                                    : strcmp(request->format, "png") == 0 ? PST_FIGURE_PNG
                                                                          : PST_FIGURE_PDF;
    struct pst_timeline *timeline = NULL;
    pst_status st = simulate(session, &timeline, err);

    (void)outcome;
    if (st == PST_OK) {
        st = pst_figure_write(timeline, request->file, format, &request->figure, err);
    }
    pst_timeline_destroy(timeline);
    return st;
}

static pst_status write_trace(const struct pst_session *session, const struct request *request,
                              struct outcome *outcome, struct pst_error *err)
{
    char *text = pst_plan_to_json(session->planned.plan, session->graph), digest[24];
    const struct pst_trace_meta meta = {.plan_digest = digest};
    struct pst_timeline *timeline = NULL;
    pst_status st;

    (void)outcome;
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)XXH3_64bits(text, strlen(text)));
    free(text);
    st = simulate(session, &timeline, err);
    if (st == PST_OK) {
        st = pst_trace_write(timeline, request->file, &meta, err);
    }
    pst_timeline_destroy(timeline);
    return st;
}

static pst_status write_torch(const struct pst_session *session, const struct request *request,
                              struct outcome *outcome, struct pst_error *err)
{
    char *text = NULL;
    pst_status st = pst_torch_csv_of_plan(session->planned.plan, request->torch, &text,
                                          &outcome->n_dropped, err);

    if (st == PST_OK) {
        st = pst_file_write(request->file, text, strlen(text), err);
        free(text);
    }
    return st;
}

static const struct format formats[] = {
    {"pytorch-csv", "schedule for torch.distributed.pipelining", write_torch},
    {"chrome-trace", "simulated step as Chrome trace events", write_trace},
    {"svg", "figure of a simulated step", write_figure},
    {"png", "figure of a simulated step", write_figure},
    {"pdf", "figure of a simulated step", write_figure},
};
#define N_FORMATS (sizeof formats / sizeof formats[0])

static pst_status find_format(const struct pst_cli *cli, const char *name,
                              const struct format **ret_format, struct pst_error *err)
{
    const char *names[N_FORMATS + 1] = {NULL};
    uint32_t index = 0;
    pst_status st;

    for (size_t i = 0; i < N_FORMATS; i++) {
        names[i] = formats[i].name;
    }
    if (strcmp(name, "html") == 0) {
        return pst_cli_usage(cli, err,
                             "this version writes no html; svg, png and pdf are figures of the "
                             "same step");
    }
    st = pst_cli_choose(cli, "format", name, names, &index, err);
    *ret_format = &formats[index];
    return st;
}

static pst_status read_flavour(const struct pst_cli *cli, struct request *request,
                               struct pst_error *err)
{
    uint32_t flavour = PST_TORCH_COMPUTE;
    pst_status st = PST_OK;

    if (request->flavour != NULL && strcmp(request->format, "pytorch-csv") != 0) {
        return pst_cli_usage(cli, err, "only pytorch-csv has flavours");
    }
    if (request->flavour != NULL) {
        st = pst_cli_choose(cli, "flavour", request->flavour, pst_torch_flavours, &flavour, err);
    }
    request->torch = (enum pst_torch_flavour)flavour;
    return st;
}

static pst_status read_points(const struct pst_cli *cli, const char *option, const char *text,
                              double *ret_points, struct pst_error *err)
{
    const char *end;

    if (text == NULL) {
        return PST_OK;
    }
    if (!pst_number_parse(text, &end, ret_points) || *end != '\0' || !(*ret_points > 0)) {
        return pst_cli_usage(cli, err, "%s must be a number of points, not \"%s\"", option, text);
    }
    return PST_OK;
}

static pst_status read_request(const struct pst_cli *cli, struct request *request,
                               const struct format **ret_format, struct pst_error *err)
{
    pst_status st;

    request->format = cli->arguments[0];
    request->figure = pst_figure_defaults();
    request->figure.show_memory = !request->no_memory;
    request->figure.show_title = !request->no_title;
    st = find_format(cli, request->format, ret_format, err);
    if (st == PST_OK) {
        st = read_flavour(cli, request, err);
    }
    if (st == PST_OK) {
        st = read_points(cli, "--width", request->width, &request->figure.width_pt, err);
    }
    if (st == PST_OK) {
        st = read_points(cli, "--height", request->height, &request->figure.height_pt, err);
    }
    if (st == PST_OK && request->file == NULL) {
        st = pst_cli_usage(cli, err, "-o FILE is missing");
    }
    return st;
}

static void answer(struct pst_cli *cli, const struct request *request, const struct format *format,
                   const struct outcome *outcome)
{
    if (!cli->json) {
        printf("%s: %s\n", request->file, format->what);
        if (outcome->n_dropped > 0) {
            printf("left out: what becomes of the results of %u operators (recompute, offload); "
                   "who loads the file decides that\n",
                   outcome->n_dropped);
        }
        return;
    }
    pst_json_string(&cli->answer, "format", request->format);
    pst_json_string(&cli->answer, "file", request->file);
    if (strcmp(request->format, "pytorch-csv") == 0) {
        pst_json_string(&cli->answer, "flavour", pst_torch_flavours[request->torch]);
        pst_json_uint(&cli->answer, "dropped", outcome->n_dropped);
    }
}

static pst_status export(struct pst_cli *cli, void *asked, struct pst_error *err)
{
    struct request *request = asked;
    const struct format *format = NULL;
    struct pst_cli_job job = {0};
    struct outcome outcome = {0};
    pst_status st = read_request(cli, request, &format, err);

    if (st == PST_OK) {
        st = pst_cli_job_planned(cli, cli->arguments[1], &job, err);
    }
    if (st == PST_OK) {
        st = format->write(job.session, request, &outcome, err);
    }
    if (st == PST_OK) {
        answer(cli, request, format, &outcome);
    }
    pst_cli_job_close(&job);
    return st;
}

static const struct pst_option options[] = {
    {"output", 'o', "FILE", "write there", PST_AT(file), 0},
    {"flavour", 0, "WHAT", "pytorch-csv: compute (default), comms or comms-waits", PST_AT(flavour),
     0},
    {"width", 0, "POINTS", "svg, png, pdf: of the figure", PST_AT(width), 0},
    {"height", 0, "POINTS", "svg, png, pdf: of the figure", PST_AT(height), 0},
    {"no-memory", 0, NULL, "svg, png, pdf: the rows alone", PST_AT(no_memory), 0},
    {"no-title", 0, NULL, "svg, png, pdf: for a caption of your own", PST_AT(no_title), 0},
};

const struct pst_command pst_cmd_export = {
    .name = "export",
    .arguments = "FORMAT CONFIG|PLAN",
    .summary = "Writes a plan for other programs, or draws it",
    .text = "FORMAT is pytorch-csv (a schedule for torch.distributed.pipelining), chrome-trace "
            "(opens in\n"
            "Perfetto; a name that ends in .gz is compressed), svg, png or pdf (a figure of a "
            "simulated\n"
            "step). A config is planned first.",
    .words = {2, 2},
    PST_CLI_OPTIONS(options, struct request),
    .heeds_signals = true,
    .run = export,
};
