/* SPDX-License-Identifier: Apache-2.0 */
#include "session/parameter_groups.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "graph/split.h"
#include "session/patterns.h"

/* --- Muon ------------------------------------------------------------------------------------- */

/* The weight of a linear operator in the middle of the model: not of the one that makes the logits,
   and not the table of an embedding. */
static bool is_inner_matrix(const struct pst_graph *graph, const struct pst_parameter *parameter)
{
    const struct pst_op *op = &graph->ops[parameter->users[0]];

    return parameter->rank == 2 && parameter->n_users == 1 && op->kind == PST_OP_LINEAR &&
           parameter->user_slots[0] == 0 && op->out[0] != graph->logits;
}

/*
 * What lr is multiplied by. original: sqrt(max(1, outputs / inputs)), Jordan's. match-adamw: 0.2
 * sqrt(max(outputs, inputs)), so that an update is as large as AdamW's (Liu et al., "Muon is
 * scalable for LLM training", 2025).
 */
static float muon_factor(const struct pst_job *job, const struct pst_graph *graph,
                         const struct pst_parameter *parameter)
{
    const bool turned = graph->ops[parameter->users[0]].transposed;
    const double in = (double)parameter->dims[turned], out = (double)parameter->dims[!turned];

    return (float)(job->train.muon_factor == 0 ? 0.2 * sqrt(fmax(in, out))
                                               : sqrt(fmax(1, out / in)));
}

static pst_status mark_muon(const struct pst_job *job, struct pst_graph *graph,
                            const struct pst_job_group *const *groups, struct pst_error *err)
{
    float *factors = pst_alloc(graph->n_params, sizeof *factors);
    pst_status status = PST_OK;

    for (uint32_t i = 0; i < graph->n_params && status == PST_OK; i++) {
        const struct pst_parameter *parameter = &graph->params[i];

        if ((groups[i] != NULL && groups[i]->optimizer != 0) ||
            !is_inner_matrix(graph, parameter)) {
            continue;
        }
        factors[i] = muon_factor(job, graph, parameter);
        if (pst_is_split(parameter)) {
            status = pst_fail(err, PST_ERR_CONFIG, "config.value",
                              "muon needs whole matrices, but \"%s\" is split over %u devices; set "
                              "parallel.tensor = 1 or train.optimizer = \"adamw\"",
                              parameter->name, parameter->box.parts);
        }
    }
    if (status == PST_OK) {
        pst_graph_set_muon(graph, factors);
    }
    free(factors);
    return pst_config_place(job->config, "train", "optimizer", status, err);
}

/* --- rules ------------------------------------------------------------------------------------ */

static const struct pst_job_group *group_of(const struct pst_job *job, const char *name)
{
    for (uint32_t i = 0; i < job->n_groups; i++) {
        if (pst_list_matches(job->groups[i].match, name)) {
            return &job->groups[i];
        }
    }
    return NULL;
}

static struct pst_exec_rule rule_of(const struct pst_job *job,
                                    const struct pst_parameter *parameter,
                                    const struct pst_job_group *group)
{
    const struct pst_job_train *train = &job->train;
    const bool decays = strcmp(train->no_decay, "auto") == 0
                            ? parameter->decay
                            : !pst_list_matches(train->no_decay, parameter->name);
    struct pst_exec_rule rule = {
        .optimizer =
            train->optimizer == PST_MUON && parameter->muon == 0 ? PST_ADAMW : train->optimizer,
        .lr_scale = 1,
        .weight_decay = decays ? (float)train->weight_decay : 0,
    };

    if (group != NULL) {
        rule.lr_scale = (float)group->lr_scale;
        rule.weight_decay =
            group->weight_decay >= 0 ? (float)group->weight_decay : rule.weight_decay;
    }
    return rule;
}

static bool add_rule(struct pst_rules *rules, const struct pst_exec_rule *rule, uint32_t *ret_index)
{
    uint32_t i = 0;

    while (i < rules->n && (rules->rules[i].optimizer != rule->optimizer ||
                            rules->rules[i].lr_scale != rule->lr_scale ||
                            rules->rules[i].weight_decay != rule->weight_decay)) {
        i++;
    }
    if (i == PST_UPDATE_KINDS) {
        return false;
    }
    rules->rules[i] = *rule;
    rules->n = i == rules->n ? i + 1 : rules->n;
    *ret_index = i;
    return true;
}

static pst_status check_names(const struct pst_job *job, const struct pst_graph *graph,
                              struct pst_error *err)
{
    pst_status status =
        strcmp(job->train.no_decay, "auto") == 0
            ? PST_OK
            : pst_patterns_check(job->train.no_decay, graph, false, "train.no_decay", err);

    status = pst_config_place(job->config, "train", "no_decay", status, err);
    for (uint32_t i = 0; i < job->n_groups && status == PST_OK; i++) {
        status = pst_patterns_check(job->groups[i].match, graph, false, "[[train.group]]", err);
        status = pst_config_place_item(job->config, "train", "group", i, status, err);
    }
    return status;
}

static pst_status make_rules(const struct pst_job *job, struct pst_graph *graph,
                             struct pst_rules *ret_rules, struct pst_error *err)
{
    const struct pst_job_group **groups;
    pst_status status = check_names(job, graph, err);

    if (status != PST_OK) {
        return status;
    }
    *ret_rules = (struct pst_rules){.n = 0};
    groups = pst_alloc(graph->n_params + 1, sizeof *groups);
    for (uint32_t i = 0; i < graph->n_params; i++) {
        groups[i] = group_of(job, graph->params[i].name);
    }
    if (job->train.optimizer == PST_MUON) {
        status = mark_muon(job, graph, groups, err);
    }
    for (uint32_t i = 0; i < graph->n_params && status == PST_OK; i++) {
        const struct pst_exec_rule rule = rule_of(job, &graph->params[i], groups[i]);

        if (!add_rule(ret_rules, &rule, &graph->params[i].rule)) {
            status = pst_fail(err, PST_ERR_CONFIG, "config.value",
                              "[[train.group]]: more than %d kinds of updates", PST_UPDATE_KINDS);
        }
    }
    free(groups);
    return pst_config_place(job->config, "train", "group", status, err);
}

/* The graph of a part and the whole one get the same rules; both digests contain Muon's marks. */
pst_status pst_rules_make(const struct pst_job *job, struct pst_graph *graph,
                          struct pst_rules *ret_rules, struct pst_error *err)
{
    pst_status status =
        graph->whole == NULL ? PST_OK : make_rules(job, graph->whole, ret_rules, err);

    return status == PST_OK ? make_rules(job, graph, ret_rules, err) : status;
}

/* --- words ------------------------------------------------------------------------------------ */

const char *pst_rules_text(const struct pst_rules *rules, const struct pst_graph *graph, char *text,
                           size_t size)
{
    static const char *const names[] = {"sgd", "momentum", "adam", "adamw", "muon"};
    uint32_t by[sizeof names / sizeof *names] = {0}, still = 0, scaled = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < graph->n_params; i++) {
        const struct pst_exec_rule *rule = &rules->rules[graph->params[i].rule];

        by[rule->optimizer]++;
        still += rule->weight_decay == 0 || rule->optimizer == PST_ADAM;
        scaled += rule->lr_scale != 1;
    }
    for (uint32_t i = sizeof names / sizeof *names; i-- > 0;) {
        if (by[i] > 0) {
            pst_text_append(text, size, "%s%s on %u parameters", text[0] != '\0' ? ", " : "",
                            names[i], by[i]);
        }
    }
    pst_text_append(text, size, "; %u without weight decay", still);
    if (scaled > 0) {
        pst_text_append(text, size, ", %u with an lr of their own", scaled);
    }
    return text;
}
