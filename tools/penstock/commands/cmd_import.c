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

#include "base/text.h"
#include "base/util.h"
#include "commands/commands.h"
#include "commands/solo.h"
#include "exchange/pipedream_profile.h"
#include "host/caps.h"
#include "host/describe.h"
#include "train/session.h"

/* --- profiles: somebody else's measurements as a graph to plan for
 * --------------------------------*/

/* As on the command line; NULL or 0 where it says nothing. */
struct profile {
    const char *file, *output, *inputs;
    uint32_t batch;
    bool keep_empty;
};

struct totals {
    double forward_ns, backward_ns, param_bytes, saved_bytes;
};

static pst_status read_options(const struct pst_cli *cli, const struct profile *request,
                               struct pst_pipedream_options *ret_options, struct pst_error *err)
{
    if (request->batch == 0) {
        return pst_cli_usage(cli, err,
                             "--batch is missing: how many samples were profiled at a time; the "
                             "file does not say");
    }
    if (request->inputs != NULL && strcmp(request->inputs, "keep") != 0 &&
        strcmp(request->inputs, "drop") != 0) {
        return pst_cli_usage(cli, err, "--inputs must be keep or drop, not \"%s\"",
                             request->inputs);
    }
    *ret_options = (struct pst_pipedream_options){
        .batch = request->batch,
        .drop_inputs = request->inputs != NULL && strcmp(request->inputs, "drop") == 0,
        .keep_empty = request->keep_empty,
    };
    return PST_OK;
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
    pst_json_number(json, "forward_us", t.forward_ns / 1000);
    pst_json_number(json, "backward_us", t.backward_ns / 1000);
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
        printf("; stages named by %u of them are not read", summary->n_staged);
    }
    printf("\n");
    if (request->output != NULL) {
        printf("  written to ");
        pst_text_print(stdout, request->output);
        printf("\n");
    }
}

/* Writes the graph to `output`, unless that is NULL, and tells about it. */
static pst_status import_profile(struct pst_cli *cli, const struct profile *request,
                                 struct pst_error *err)
{
    struct pst_pipedream_options options;
    struct pst_pipedream_summary summary;
    struct pst_costed *graph = NULL;
    size_t length = 0;
    char *text = NULL;
    pst_status st = read_options(cli, request, &options, err);

    if (st == PST_OK) {
        st = pst_pipedream_read(request->file, &options, &graph, &summary, err);
    }
    if (st == PST_OK && request->output != NULL) {
        text = pst_costed_write(graph, &length);
        st = pst_file_write(request->output, text, length, err);
    }
    if (st == PST_OK && cli->json) {
        profile_json(request, graph, &summary, options.drop_inputs, &cli->answer);
    } else if (st == PST_OK) {
        print_profile(request, graph, &summary, options.drop_inputs);
    }
    free(text);
    pst_costed_destroy(graph);
    return st;
}

/* --- schedules ---------------------------------------------------------------------------------*/

#define TIME_LIMIT_NS ((uint64_t)600 * 1000000000u)

static const char *const formats[] = {"pytorch-csv", "pipedream-profile", NULL};

struct request {
    const char *format, *file, *config;
    struct profile profile; /* its output is a schedule's as well */
    struct pst_arena arena;
    const char *path;   /* of the file, absolute */
    const char *quoted; /* the same as a TOML string with its quotes */
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
static pst_status find_reader(struct request *request, struct pst_error *err)
{
    struct pst_plugin_list *list = NULL;
    char word[64];
    pst_status st = pst_plugin_list_create(&list, err);

    snprintf(word, sizeof word, "import=%s", request->format);
    for (int own = 1; st == PST_OK && own >= 0 && request->id == NULL; own--) {
        find_among(request, list, word, own == 1);
    }
    pst_plugin_list_destroy(list);
    if (st != PST_OK) {
        return st;
    }
    if (request->id == NULL) {
        return pst_fail(err, PST_ERR_CONFIG, "plugin.not-found",
                        "no scheduler here reads %s; \"penstock plugins\" lists them, and one "
                        "that does has the capability %s",
                        request->format, word);
    }
    return PST_OK;
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
static pst_status find_file(struct request *request, struct pst_error *err)
{
    char *path = realpath(request->file, NULL);

    if (path == NULL) {
        return pst_fail_at(err, PST_ERR_IO, "input.path", request->file, 0, 0,
                           "cannot open the schedule: %m");
    }
    request->path = pst_arena_strdup(&request->arena, path);
    request->quoted = quote(&request->arena, path);
    free(path);
    return PST_OK;
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

static pst_status tell(struct pst_cli *cli, const struct request *request,
                       const struct pst_solo_result *result, struct pst_error *err)
{
    struct pst_schedule_page page = pst_cli_schedule_page(cli);
    struct pst_schedule_figures figures;
    struct pst_schedule_units units = {.ns = (double)result->scale, .bytes = (double)result->scale};
    const char *slash = strrchr(request->file, '/'), *output = request->profile.output;
    char title[160];
    pst_status st;

    snprintf(title, sizeof title, "%.80s: %u devices, %u stages, %u micro-batches",
             slash == NULL ? request->file : slash + 1, result->solo.in.n_devices,
             result->solo.in.n_stages, result->solo.stages[0].n_microbatches);
    units.title = title;
    st = pst_schedule_figures_init(result, 1, &units, &figures, err);
    if (st != PST_OK) {
        return st;
    }
    if (output != NULL) {
        st = pst_cli_write_order(output, result, err);
    }
    if (st == PST_OK && cli->json) {
        schedule_json(request, &figures, &cli->answer);
    } else if (st == PST_OK) {
        pst_schedule_report_print(&figures, &page, stdout);
        if (output != NULL) {
            printf("\n%s: the same order, passes alone, in today's letters\n", output);
        }
    }
    pst_schedule_figures_finish(&figures);
    return st;
}

static pst_status show(struct pst_cli *cli, struct request *request, struct pst_error *err)
{
    struct pst_solo_job job = {.path = request->plugin,
                               .options =
                                   pst_arena_printf(&request->arena, "file=%s", request->quoted),
                               .costs = pst_cli_unit_costs()};
    struct pst_solo_result result = {.scale = 1};
    pst_status st;

    if (cli->n_sets > 0) {
        return pst_cli_usage(cli, err, "--set changes a config, and there is no --config");
    }
    st = pst_cli_solo_run(&job, TIME_LIMIT_NS, &result, err);
    if (st == PST_OK) {
        st = tell(cli, request, &result, err);
    }
    pst_solo_result_finish(&result);
    return st;
}

/* The config with its scheduler exchanged. */
static pst_status plan(struct pst_cli *cli, struct request *request, struct pst_error *err)
{
    struct pst_cli_job job = {0};
    pst_status st;

    if (cli->n_sets == PST_CLI_SETS) {
        return pst_cli_usage(cli, err, "too many --set");
    }
    cli->sets[cli->n_sets++] = pst_arena_printf(&request->arena, "scheduler={use=\"%s\", file=%s}",
                                                request->id, request->quoted);
    st = pst_cli_job_open(request->config, cli, &job, err);
    if (st == PST_OK) {
        st = pst_session_create_for_planning(&job.job, &job.session, err);
    }
    if (st == PST_OK) {
        st = pst_cli_plan(cli, job.session, NULL, err);
    }
    if (st == PST_OK) {
        st = pst_cli_answer_plan(cli, job.session, request->profile.output, err);
    }
    pst_cli_job_close(&job);
    return st;
}

static pst_status import_schedule(struct pst_cli *cli, struct request *request,
                                  struct pst_error *err)
{
    const struct profile *profile = &request->profile;
    pst_status st = PST_OK;

    if (profile->batch != 0 || profile->inputs != NULL || profile->keep_empty) {
        st = pst_cli_usage(cli, err,
                           "--batch, --inputs and --keep-empty are about profiles, and %s is a "
                           "schedule",
                           request->format);
    }
    if (st == PST_OK) {
        st = find_file(request, err);
    }
    if (st == PST_OK) {
        st = find_reader(request, err);
    }
    if (st == PST_OK) {
        st = request->config == NULL ? show(cli, request, err) : plan(cli, request, err);
    }
    return st;
}

static pst_status import(struct pst_cli *cli, void *asked, struct pst_error *err)
{
    struct request *request = asked;
    uint32_t format = 0;
    pst_status st;

    request->format = cli->arguments[0];
    request->file = request->profile.file = cli->arguments[1];
    st = pst_cli_choose(cli, "format", request->format, formats, &format, err);
    if (st != PST_OK) {
        return st;
    }
    if (format == 0) {
        st = import_schedule(cli, request, err);
    } else if (request->config != NULL || cli->n_sets > 0) {
        st = pst_cli_usage(cli, err, "a profile becomes a graph file, for which no config is read");
    } else {
        st = import_profile(cli, &request->profile, err);
    }
    pst_arena_finish(&request->arena);
    return st;
}

static const struct pst_option options[] = {
    {"output", 'o', "FILE", "write the schedule or graph there; with --config the plan",
     PST_AT(profile.output), 0},
    {"config", 0, "CONFIG", "plan this job with the schedule", PST_AT(config), 0},
    {"batch", 'b', "N", "a profile's samples", PST_AT(profile.batch), 1000000000},
    {"inputs", 0, "keep|drop", "a profile's Input nodes: with their time, or not at all",
     PST_AT(profile.inputs), 0},
    {"keep-empty", 0, NULL, "keep a profile's nodes that take no time", PST_AT(profile.keep_empty),
     0},
};

const struct pst_command pst_cmd_import = {
    .name = "import",
    .arguments = "FORMAT FILE",
    .summary = "Reads a schedule or a profile from elsewhere",
    .text = "FORMAT is pytorch-csv, of either convention of letters. The schedule is proven, timed "
            "with "
            "equal\ncosts and shown; -o writes it in today's letters. With --config a plan is made "
            "with "
            "it, and "
            "-o\nwrites that. Or FORMAT is pipedream-profile (graph.txt): -o writes it as a "
            "penstock-graph.",
    .words = {2, 2},
    PST_CLI_OPTIONS(options, struct request),
    .heeds_signals = true,
    .run = import,
};
