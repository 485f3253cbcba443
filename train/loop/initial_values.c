/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/initial_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "weights/weights.h"

#define SHOWN 10u /* differences that a message names */

struct pst_begin {
    struct pst_graph *const *graph;    /* that runs; what follows is of the whole */
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
    const struct pst_graph *graph = *begin->graph;
    struct pst_state_key whole = *key;

    if (key->kind == PST_STATE_OPERATOR && graph->whole != NULL) {
        whole.index = graph->op_of[key->index];
    }
    *ret_found = key->kind == PST_STATE_PARAMETER || key->kind == PST_STATE_OPERATOR;
    return *ret_found
               ? begin->all.load(begin->all.context, &whole, elems, ret_values, ret_found, err)
               : PST_OK;
}

pst_status pst_begin_find_checkpoint(const char *path, bool falls_back,
                                     struct pst_checkpoint **ret_checkpoint, struct pst_error *err)
{
    uint64_t *steps = NULL;
    uint32_t n = 0;
    bool again = true;
    pst_status status;

    *ret_checkpoint = NULL;
    if (pst_checkpoint_is_one(path)) {
        return pst_checkpoint_open(path, ret_checkpoint, err);
    }
    status = pst_checkpoint_list(path, &steps, &n, err);
    if (status != PST_OK) {
        return PST_OK; /* no folder: whoever reads files says what is wrong */
    }
    for (uint32_t i = n; i > 0 && *ret_checkpoint == NULL && again; i--) {
        char *one = pst_checkpoint_path(path, steps[i - 1]);

        status = pst_checkpoint_open(one, ret_checkpoint, err);
        again = falls_back && pst_checkpoint_is_unfit(status, err);
        if (status != PST_OK && i > 1 && !again) {
            pst_error_hint(err, "to take an older one, name it: %s/step-%012llu", path,
                           (unsigned long long)steps[i - 2]);
        } else if (status != PST_OK && i > 1) {
            pst_log(PST_LOG_WARN, "checkpoint", "%s: %s; an older one is used", one, err->message);
        }
        free(one);
    }
    free(steps);
    return status;
}

static void compare(const struct pst_checkpoint *checkpoint, const struct pst_graph *graph,
                    const struct pst_state_key *key, uint64_t elems, uint32_t *n_wrong,
                    struct pst_error *err)
{
    char difference[PST_CHECKPOINT_DIFFERENCE];
    const struct pst_checkpoint_tensor *unused;

    if (!pst_checkpoint_has(checkpoint, graph, key, elems, &unused, difference) &&
        ++*n_wrong <= SHOWN) {
        pst_error_detail(err, "%s\n", difference);
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
    pst_fail_at(
        err, PST_ERR_CONFIG, "weights.mismatch", checkpoint->path, 0, 0,
        "a checkpoint of another model: %u values of this model are missing or have another shape",
        n_wrong);
    pst_error_detail(err, "%s", found.details);
    return PST_ERR_CONFIG;
}

static void warn_of_setting(void *context, const struct pst_checkpoint_setting *setting)
{
    const struct pst_checkpoint *checkpoint = context;

    pst_log(PST_LOG_WARN, "checkpoint",
            "%s: \"%s\" in [model] is %.64s, but was %.64s in the run that wrote the checkpoint: "
            "its weights may mean something else",
            checkpoint->path, setting->key, setting->now, setting->was);
}

/* Warns of settings that shapes do not show, such as the number of heads, if the graphs differ. */
static void warn_of_settings(struct pst_checkpoint *checkpoint, const struct pst_job *job,
                             const struct pst_graph *graph)
{
    char digest[32];

    snprintf(digest, sizeof digest, "xxh3:%016llx", (unsigned long long)graph->digest);
    if (strcmp(digest, checkpoint->manifest.model_digest) != 0) {
        pst_checkpoint_compare(checkpoint, job->config, "model", warn_of_setting, checkpoint);
    }
}

pst_status pst_begin_open(const char *path, const struct pst_job *job,
                          struct pst_graph *const *graph, bool tell, struct pst_begin **ret_begin,
                          struct pst_error *err)
{
    const struct pst_graph *whole = pst_graph_model(*graph);
    struct pst_begin *begin = pst_alloc(1, sizeof *begin);
    pst_status status = pst_begin_find_checkpoint(path, true, &begin->checkpoint, err);

    begin->graph = graph;
    begin->source = (struct pst_exec_source){begin, load};
    if (status == PST_OK && begin->checkpoint != NULL) {
        status = check_fits(begin->checkpoint, whole, err);
        begin->values =
            (struct pst_checkpoint_source){.checkpoint = begin->checkpoint, .graph = whole};
        begin->all = pst_checkpoint_source(&begin->values);
        if (status == PST_OK && tell) {
            warn_of_settings(begin->checkpoint, job, whole);
        }
    } else if (status == PST_OK) {
        status = pst_weights_open(path, job, whole, tell, &begin->weights, err);
        if (status == PST_OK) {
            begin->all = *pst_weights_source(begin->weights);
        }
    }
    if (status != PST_OK) {
        pst_begin_close(begin);
        return status;
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

pst_status pst_begin_session(const char *path, struct pst_session *session,
                             struct pst_begin **ret_begin, struct pst_error *err)
{
    pst_status status = pst_begin_open(path, session->job, &session->graph,
                                       pst_team_is_first(&session->team), ret_begin, err);

    session->init = status == PST_OK ? pst_begin_source(*ret_begin) : NULL;
    return status;
}
