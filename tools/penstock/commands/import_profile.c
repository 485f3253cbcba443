/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/import_profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/util.h"
#include "commands/commands.h"
#include "exchange/pipedream_profile.h"

struct totals {
    double forward_ns, backward_ns, param_bytes, saved_bytes;
};

static pst_status read_options(const struct pst_cli *cli, const struct pst_import_profile *request,
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

static void answer_json(const struct pst_import_profile *request, const struct pst_costed *graph,
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

static void print_answer(const struct pst_import_profile *request, const struct pst_costed *graph,
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

pst_status pst_import_profile(struct pst_cli *cli, const struct pst_import_profile *request,
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
        answer_json(request, graph, &summary, options.drop_inputs, &cli->answer);
    } else if (st == PST_OK) {
        print_answer(request, graph, &summary, options.drop_inputs);
    }
    free(text);
    pst_costed_destroy(graph);
    return st;
}
