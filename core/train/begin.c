/* SPDX-License-Identifier: Apache-2.0 */
#include "train/begin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/number.h"
#include "graph/draft.h"
#include "train/checkpoint.h"
#include "train/weights.h"

#define SHOWN 10u /* differences that a message names */

struct pst_begin {
    struct pst_weights *weights;       /* published ones, or */
    struct pst_checkpoint *checkpoint; /* that */
    struct pst_checkpoint_source values;
    struct pst_exec_source all, source;
};

/* Weights and statistics alone: what else a checkpoint has belongs to the run that wrote it. */
static pst_status load(void *context, const struct pst_state_key *key, uint64_t elems,
                       float *ret_values, bool *ret_found, struct pst_error *err)
{
    const struct pst_begin *begin = context;

    *ret_found = key->kind == PST_STATE_PARAMETER || key->kind == PST_STATE_OPERATOR;
    return *ret_found ? begin->all.load(begin->all.context, key, elems, ret_values, ret_found, err)
                      : PST_OK;
}

pst_status pst_begin_find_checkpoint(const char *path, struct pst_checkpoint **ret_checkpoint,
                                     struct pst_error *err)
{
    uint64_t *steps = NULL;
    uint32_t n = 0;
    pst_status st;

    *ret_checkpoint = NULL;
    if (pst_checkpoint_is_one(path)) {
        return pst_checkpoint_open(path, ret_checkpoint, err);
    }
    st = pst_checkpoint_list(path, &steps, &n, err);
    if (st != PST_OK) {
        return PST_OK; /* no folder: whoever reads files says what is wrong */
    }
    for (uint32_t i = n; i > 0 && *ret_checkpoint == NULL; i--) {
        char *one = pst_checkpoint_path(path, steps[i - 1]);

        st = pst_checkpoint_open(one, ret_checkpoint, err);
        if (st != PST_OK && i > 1) {
            pst_log(PST_LOG_WARN, "checkpoint", "%s: %s; an older one is taken", one, err->message);
        }
        free(one);
    }
    free(steps);
    return st;
}

/* One value of the graph against the checkpoint. */
static void compare(const struct pst_checkpoint *checkpoint, const struct pst_graph *graph,
                    const struct pst_state_key *key, uint64_t elems, uint32_t *n_wrong,
                    struct pst_error *err)
{
    char name[PST_CHECKPOINT_NAME], here[200], there[200];
    uint64_t shape[PST_ST_RANK];
    const struct pst_checkpoint_tensor *tensor;
    uint32_t rank = pst_state_shape(graph, key, elems, shape);

    pst_state_name(graph, key, name);
    tensor = pst_checkpoint_find(checkpoint, name);
    if (tensor != NULL && tensor->rank == rank &&
        memcmp(tensor->shape, shape, rank * sizeof *shape) == 0) {
        return;
    }
    if (++*n_wrong > SHOWN) {
        return;
    }
    if (tensor == NULL) {
        pst_error_detail(err, "%s is not in the checkpoint\n", name);
    } else {
        pst_error_detail(err, "%s is %s, in the checkpoint %s\n", name,
                         pst_shape_text(here, sizeof here, rank, shape),
                         pst_shape_text(there, sizeof there, tensor->rank, tensor->shape));
    }
}

static pst_status check_fits(const struct pst_checkpoint *checkpoint, const struct pst_graph *graph,
                             struct pst_error *err)
{
    struct pst_error found = {.details = ""};
    uint32_t n_wrong = 0;

    for (uint32_t i = 0; i < graph->n_params; i++) {
        compare(checkpoint, graph, &(struct pst_state_key){PST_STATE_PARAMETER, i, 0},
                graph->params[i].elems, &n_wrong, &found);
    }
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        for (uint32_t s = 0; s < graph->ops[i].n_state; s++) {
            compare(checkpoint, graph, &(struct pst_state_key){PST_STATE_OPERATOR, i, s},
                    graph->ops[i].state_elems[s], &n_wrong, &found);
        }
    }
    if (n_wrong == 0) {
        return PST_OK;
    }
    pst_fail_at(err, PST_ERR_CONFIG, "weights.mismatch", checkpoint->path, 0, 0,
                "a checkpoint of another model: %u of the values of this one are not there, or "
                "have another shape",
                n_wrong);
    pst_error_detail(err, "%s", found.details);
    return PST_ERR_CONFIG;
}

/* --- what shapes do not tell ------------------------------------------------------------------ */

static const char *value_text(const struct pst_config_node *node, char text[64])
{
    if (node == NULL) {
        return "not set";
    }
    switch (node->kind) {
    case PST_CONFIG_INT:
        snprintf(text, 64, "%lld", (long long)node->value.integer);
        return text;
    case PST_CONFIG_FLOAT:
        return pst_number_format(text, node->value.number);
    case PST_CONFIG_BOOL:
        return node->value.boolean ? "true" : "false";
    case PST_CONFIG_STRING:
        snprintf(text, 64, "\"%.60s\"", node->value.string);
        return text;
    default:
        return "a list";
    }
}

static void warn_of_key(const char *path, const char *key, struct pst_config_node *here,
                        struct pst_config_node *there)
{
    char text[2][64];
    const char *own = value_text(pst_config_get(here, key), text[0]);
    const char *theirs = value_text(pst_config_get(there, key), text[1]);

    if (strcmp(own, theirs) != 0) {
        pst_log(PST_LOG_WARN, "checkpoint",
                "%s: \"%s\" in [model] is %s, and was %s in the run that wrote it: its weights may "
                "mean something else",
                path, key, own, theirs);
    }
}

/* The number of heads, for one: keys of [model] that differ where the graphs do. */
static void warn_of_settings(const struct pst_checkpoint *checkpoint, const struct pst_job *job,
                             const struct pst_graph *graph)
{
    const struct pst_manifest *manifest = &checkpoint->manifest;
    struct pst_config_node *here, *there;
    struct pst_config *config = NULL;
    struct pst_error unused = {0};
    char digest[32];

    snprintf(digest, sizeof digest, "xxh3:%016llx", (unsigned long long)graph->digest);
    if (strcmp(digest, manifest->model_digest) == 0 || job->config == NULL ||
        pst_config_from_json(manifest->config, &config, &unused) != PST_OK) {
        return;
    }
    here = pst_config_get(job->config->root, "model");
    there = pst_config_get(config->root, "model");
    for (uint32_t i = 0; here != NULL && there != NULL && i < here->n_children; i++) {
        warn_of_key(checkpoint->path, here->children[i]->key, here, there);
    }
    for (uint32_t i = 0; here != NULL && there != NULL && i < there->n_children; i++) {
        if (pst_config_get(here, there->children[i]->key) == NULL) {
            warn_of_key(checkpoint->path, there->children[i]->key, here, there);
        }
    }
    pst_config_destroy(config);
}

pst_status pst_begin_open(const char *path, const struct pst_job *job,
                          const struct pst_graph *graph, bool tell, struct pst_begin **ret_begin,
                          struct pst_error *err)
{
    struct pst_begin *begin = pst_alloc(1, sizeof *begin);
    pst_status st = pst_begin_find_checkpoint(path, &begin->checkpoint, err);

    begin->source = (struct pst_exec_source){begin, load};
    if (st == PST_OK && begin->checkpoint != NULL) {
        st = check_fits(begin->checkpoint, graph, err);
        begin->values =
            (struct pst_checkpoint_source){.checkpoint = begin->checkpoint, .graph = graph};
        begin->all = pst_checkpoint_source(&begin->values);
        if (st == PST_OK && tell) {
            warn_of_settings(begin->checkpoint, job, graph);
        }
    } else if (st == PST_OK) {
        st = pst_weights_open(path, job, graph, tell, &begin->weights, err);
        if (st == PST_OK) {
            begin->all = *pst_weights_source(begin->weights);
        }
    }
    if (st != PST_OK) {
        pst_begin_close(begin);
        return st;
    }
    *ret_begin = begin;
    return PST_OK;
}

void pst_begin_close(struct pst_begin *begin)
{
    if (begin != NULL) {
        pst_weights_close(begin->weights);
        pst_checkpoint_close(begin->checkpoint);
        free(begin);
    }
}

const struct pst_exec_source *pst_begin_source(const struct pst_begin *begin)
{
    return &begin->source;
}
