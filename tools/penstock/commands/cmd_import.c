/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock import FORMAT FILE`: a schedule or a profile that was made elsewhere. Reading a
 * schedule is the work of a scheduler that says that it can: capability import=FORMAT, parameter
 * `file`.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/util.h"
#include "commands/ask_plugin.h"
#include "commands/commands.h"
#include "exchange/pipedream_profile.h"
#include "host/caps.h"
#include "host/describe.h"
#include "models/costed/costed_file.h"
#include "session/session.h"

/* --- profiles: somebody else's measurements as a graph to plan for -----------------------------*/

/* As on the command line; NULL or 0 where it says nothing. */
struct profile {
    const char *file, *output, *inputs;
    uint32_t batch;
    bool keep_empty;
};

struct totals {
    double forward_ns, backward_ns, param_bytes, saved_bytes;
};

static struct pst_pipedream_options read_options(struct pst_cli *cli, const struct profile *request)
{
    bool drop = request->inputs != NULL && strcmp(request->inputs, "drop") == 0;

    if (request->batch == 0) {
        pst_cli_usage(cli, "--batch is missing: the number of samples that were profiled at a "
                           "time, which the file does not have");
    }
    if (request->inputs != NULL && !drop && strcmp(request->inputs, "keep") != 0) {
        pst_cli_usage(cli, "--inputs must be keep or drop, not \"%s\"", request->inputs);
    }
    return (struct pst_pipedream_options){
        .batch = request->batch, .drop_inputs = drop, .keep_empty = request->keep_empty};
}

static struct totals add_up(const struct pst_costed *graph)
{
    struct totals t = {0, 0, 0, 0};

    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct pst_costed_node *node = &graph->nodes[i];

        t.forward_ns += node->ns[0];
        t.backward_ns += node->ns[1] + node->ns[2];
        t.param_bytes += node->param_bytes;
        t.saved_bytes += node->saved_bytes;
    }
    return t;
}

static void profile_json(const struct profile *request, const struct pst_costed *graph,
                         const struct pst_pipedream_summary *summary, bool dropped,
                         struct pst_json *json)
{
    struct totals t = add_up(graph);

    pst_json_string(json, "format", "pipedream-profile");
    pst_json_string(json, "input", request->file);
    if (request->output != NULL) {
        pst_json_string(json, "file", request->output);
    }
    pst_json_string(json, "name", graph->name);
    pst_json_uint(json, "batch", graph->batch);
    pst_json_uint(json, "nodes", graph->n_nodes);
    pst_json_uint(json, "edges", graph->n_edges);
    pst_json_uint(json, "profile_nodes", summary->n_nodes);
    pst_json_uint(json, "profile_edges", summary->n_edges);
    pst_json_uint(json, "inputs_dropped", dropped ? summary->n_inputs : 0);
    pst_json_uint(json, "collapsed", summary->n_collapsed);
    pst_json_us(json, "forward_us", t.forward_ns);
    pst_json_us(json, "backward_us", t.backward_ns);
    pst_json_number(json, "param_bytes", t.param_bytes);
    pst_json_number(json, "saved_bytes", t.saved_bytes);
}

static void print_profile(const struct profile *request, const struct pst_costed *graph,
                          const struct pst_pipedream_summary *summary, bool dropped)
{
    struct totals t = add_up(graph);
    char forward[32], backward[32], params[32], saved[32];

    pst_text_print(stdout, graph->name);
    printf(": %u nodes, %u edges, %u samples\n", graph->n_nodes, graph->n_edges, graph->batch);
    printf("  forward %s, backward %s\n", pst_format_ns(forward, (uint64_t)t.forward_ns),
           pst_format_ns(backward, (uint64_t)t.backward_ns));
    printf("  parameters %s, kept for the backward pass %s\n",
           pst_format_bytes(params, (uint64_t)t.param_bytes),
           pst_format_bytes(saved, (uint64_t)t.saved_bytes));
    printf("  from %u nodes and %u edges", summary->n_nodes, summary->n_edges);
    if (dropped) {
        printf("; Input nodes left out: %u", summary->n_inputs);
    }
    if (summary->n_collapsed > 0) {
        printf("; without time and parameters, so part of their consumer: %u",
               summary->n_collapsed);
    }
    if (summary->n_staged > 0) {
        printf("; stages named by %u of them are ignored", summary->n_staged);
    }
    printf("\n");
    if (request->output != NULL) {
        printf("  written to ");
        pst_text_print(stdout, request->output);
        printf("\n");
    }
}

/* Writes the graph to `output`, unless that is NULL, and tells about it. */
static void import_profile(struct pst_cli *cli, const struct profile *request)
{
    const struct pst_pipedream_options options = read_options(cli, request);
    struct pst_pipedream_summary summary;
    struct pst_costed *graph = NULL;

    pst_cli_must(cli, pst_pipedream_read(request->file, &options, &graph, &summary, &cli->err));
    if (request->output != NULL) {
        size_t length = 0;
        char *text = pst_costed_write(graph, &length);

        pst_cli_must(cli, pst_file_write(request->output, text, length, &cli->err));
        free(text);
    }
    if (cli->json) {
        profile_json(request, graph, &summary, options.drop_inputs, &cli->answer);
    } else {
        print_profile(request, graph, &summary, options.drop_inputs);
    }
    pst_costed_destroy(graph);
}

/* --- schedules ---------------------------------------------------------------------------------*/

#define TIME_LIMIT_NS ((uint64_t)600 * 1000000000u)

static const char *const formats[] = {"pytorch-csv", "pipedream-profile", NULL};

struct request {
    const char *format, *file, *config;
    struct profile profile; /* its output is a schedule's as well */
    struct pst_arena arena;
    const char *quoted; /* the file's absolute path as a TOML string with its quotes */
    const char *id;     /* of the scheduler */
    const char *plugin; /* its file */
};

/* Takes the first scheduler that has the word: penstock's own, or the others. */
static void find_among(struct request *request, struct pst_plugin_list *list, const char *word,
                       bool own)
{
    struct pst_shipped shipped;

    for (uint32_t i = 0; i < list->n_files && request->id == NULL; i++) {
        struct pst_plugin_file *file = &list->files[i];

        if (file->shadowed_by != NULL || strcmp(file->kind, "scheduler") != 0) {
            continue;
        }
        pst_shipped_find(file->path, &shipped);
        if (shipped.is != own) {
            continue;
        }
        pst_plugin_file_describe(list, file);
        if (file->plugin != NULL && pst_caps_has(file->plugin->provides, word)) {
            request->id = pst_arena_strdup(&request->arena, file->id);
            request->plugin = pst_arena_strdup(&request->arena, file->path);
        }
    }
}

/* The others are opened only if they must. */
static void find_reader(struct pst_cli *cli, struct request *request)
{
    struct pst_plugin_list *list = NULL;
    char word[64];

    pst_cli_must(cli, pst_plugin_list_create(NULL, &list, &cli->err));
    snprintf(word, sizeof word, "import=%s", request->format);
    for (int own = 1; own >= 0 && request->id == NULL; own--) {
        find_among(request, list, word, own == 1);
    }
    pst_plugin_list_destroy(list);
    if (request->id == NULL) {
        pst_cli_must(cli, pst_fail(&cli->err, PST_ERR_CONFIG, "plugin.not-found",
                                   "no scheduler reads %s; \"penstock plugins\" lists the "
                                   "schedulers, and one that does has the capability %s",
                                   request->format, word));
    }
}

/* JSON escapes are those of a TOML string. */
static const char *quote(struct pst_arena *arena, const char *text)
{
    struct pst_json json;
    char *quoted;
    const char *copy;

    pst_json_init(&json);
    pst_json_string(&json, NULL, text);
    quoted = pst_json_take(&json);
    copy = pst_arena_strdup(arena, quoted);
    free(quoted);
    return copy;
}

/* Plugins may work in another folder, and a path in a config is meant from the config's. */
static void find_file(struct pst_cli *cli, struct request *request)
{
    char *path = realpath(request->file, NULL);

    if (path == NULL) {
        pst_heed_no_memory();
        pst_cli_must(cli, pst_fail_at(&cli->err, PST_ERR_IO, "input.path", request->file, 0, 0,
                                      "cannot open the schedule: %m"));
    }
    request->quoted = quote(&request->arena, path);
    free(path);
}

static void schedule_json(const struct request *request, const struct pst_schedule_figures *figures,
                          struct pst_json *json)
{
    pst_json_string(json, "format", request->format);
    pst_json_string(json, "input", request->file);
    if (request->profile.output != NULL) {
        pst_json_string(json, "file", request->profile.output);
    }
    pst_json_object(json, "schedule");
    pst_schedule_report_json(figures, false, json);
    pst_json_end(json, '}');
}

static void tell(struct pst_cli *cli, const struct request *request,
                 const struct pst_schedule_result *result)
{
    struct pst_schedule_page page = pst_cli_schedule_page(cli);
    struct pst_schedule_figures figures;
    struct pst_schedule_units units = {.ns = (double)result->scale, .bytes = (double)result->scale};
    const char *slash = strrchr(request->file, '/'), *output = request->profile.output;
    char title[160];

    snprintf(title, sizeof title, "%.80s: %u devices, %u stages, %u micro-batches",
             slash == NULL ? request->file : slash + 1, result->asked.in.n_devices,
             result->asked.in.n_stages, result->asked.stages[0].n_microbatches);
    units.title = title;
    pst_cli_must(cli, pst_schedule_figures_init(result, 1, &units, &figures, &cli->err));
    if (output != NULL) {
        pst_cli_write_order(cli, output, result);
    }
    if (cli->json) {
        schedule_json(request, &figures, &cli->answer);
    } else {
        pst_schedule_report_print(&figures, &page, stdout);
        if (output != NULL) {
            pst_text_printf(stdout, "\n%s: the same order, passes only, in the current notation\n",
                            output);
        }
    }
    pst_schedule_figures_finish(&figures);
}

static void show(struct pst_cli *cli, struct request *request)
{
    struct pst_schedule_job job = {
        .path = request->plugin,
        .options = pst_arena_printf(&request->arena, "file=%s", request->quoted),
        .costs = pst_cli_unit_costs()};
    struct pst_schedule_result result = {.scale = 1};

    if (cli->n_sets > 0) {
        pst_cli_usage(cli, "--set changes a config, but there is no --config");
    }
    pst_cli_must(cli, pst_cli_schedule_run(&job, TIME_LIMIT_NS, &result, &cli->err));
    tell(cli, request, &result);
    pst_schedule_result_finish(&result);
}

/* The config with its scheduler exchanged. */
static void plan(struct pst_cli *cli, struct request *request)
{
    struct pst_cli_job job;

    if (cli->n_sets == PST_CLI_SETS) {
        pst_cli_usage(cli, "too many --set");
    }
    cli->sets[cli->n_sets++] = pst_arena_printf(&request->arena, "scheduler={use=\"%s\", file=%s}",
                                                request->id, request->quoted);
    pst_cli_job_open(cli, request->config, &job);
    pst_cli_must(cli, pst_session_create_for_planning(&job.job, &job.session, &cli->err));
    pst_cli_plan(cli, job.session, NULL);
    pst_cli_answer_plan(cli, job.session, request->profile.output);
    pst_cli_job_close(&job);
}

static void import_schedule(struct pst_cli *cli, struct request *request)
{
    const struct profile *profile = &request->profile;

    if (profile->batch != 0 || profile->inputs != NULL || profile->keep_empty) {
        pst_cli_usage(cli,
                      "--batch, --inputs and --keep-empty are for profiles, but %s is a schedule",
                      request->format);
    }
    find_file(cli, request);
    find_reader(cli, request);
    (request->config == NULL ? show : plan)(cli, request);
}

static void import(struct pst_cli *cli, void *asked)
{
    struct request *request = asked;

    request->format = cli->arguments[0];
    request->file = request->profile.file = cli->arguments[1];
    if (pst_cli_choose(cli, "format", request->format, formats) == 0) {
        import_schedule(cli, request);
    } else if (request->config != NULL || cli->n_sets > 0) {
        pst_cli_usage(cli,
                      "a profile becomes a graph file without a config: remove --config and --set");
    } else {
        import_profile(cli, &request->profile);
    }
    pst_arena_finish(&request->arena);
}

static const struct pst_option options[] = {
    {"output", 'o', "FILE", "write the schedule or graph; with --config the plan",
     PST_AT(profile.output), 0},
    {"config", 0, "CONFIG", "plan this job with the schedule", PST_AT(config), 0},
    {"batch", 'b', "N", "samples that were profiled at a time", PST_AT(profile.batch), 1000000000},
    {"inputs", 0, "keep|drop", "Input nodes of a profile: keep them with their time, or drop them",
     PST_AT(profile.inputs), 0},
    {"keep-empty", 0, NULL, "keep a profile's nodes that take no time", PST_AT(profile.keep_empty),
     0},
};

const struct pst_command pst_cmd_import = {
    .name = "import",
    .arguments = "FORMAT FILE",
    .summary = "Reads a schedule or a profile from elsewhere",
    .text = "FORMAT pytorch-csv, in the old or the current notation: the schedule is verified, "
            "timed with\nequal costs and shown; -o writes it in the current notation. With "
            "--config it becomes part\nof a plan, and -o writes the plan. FORMAT pipedream-profile "
            "(graph.txt): -o writes the\nprofile as a penstock-graph.",
    .offers = "pytorch-csv pipedream-profile",
    .words = {2, 2},
    PST_CLI_OPTIONS(options, struct request),
    .handles_signals = true,
    .run = import,
};
