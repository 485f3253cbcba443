/* SPDX-License-Identifier: Apache-2.0
 *
 * Recomputes chosen kinds of operators wherever they occur: those that leave much behind for the
 * time that they take, in a transformer the core of attention.
 * Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022.
 */
#include <string.h>

#include "mem_plugin.h"
#include "optimizer.h"

struct config {
    const char *classes;
    bool choose;
};

struct selective {
    struct mem_opt opt;
    /* Kinds of the stage, of the call. */
    uint32_t n_kinds;
    const char **names;
    uint64_t *bytes, *ns;
    uint32_t *kind; /* of a node */
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, classes, PST_PARAM_STRING,
              "attention,scores,softmax,attn_dropout,context", NULL,
              "Kinds of operators to recompute, separated by commas; \"*\" means all of them."),
    {"auto", "false", NULL,
     "Recompute as few of these kinds as fit, those with most bytes per second of replay first.",
     PST_PARAM_BOOL, (uint32_t)offsetof(struct config, choose)},
};

/* Is `kind` a word of the list, or the list a star? */
static bool is_listed(const char *list, const char *kind)
{
    size_t n = strlen(kind);

    for (const char *at = list; *at != '\0'; at += *at == ',') {
        size_t length;

        at += strspn(at, " ");
        length = strcspn(at, ",");
        while (length > 0 && at[length - 1] == ' ') {
            length--;
        }
        if ((length == 1 && *at == '*') || (length == n && strncmp(at, kind, n) == 0)) {
            return true;
        }
        at += strcspn(at, ",");
    }
    return false;
}

static uint32_t kind_of(struct selective *self, const char *name)
{
    uint32_t k = 0;

    while (k < self->n_kinds && strcmp(self->names[k], name) != 0) {
        k++;
    }
    if (k == self->n_kinds) {
        self->names[self->n_kinds++] = name;
    }
    return k;
}

/* The kinds that are listed and may be dropped, with what they leave behind and take. */
static void find_kinds(struct selective *self, const struct pst_stage_view *view)
{
    const struct config *config = self->opt.config;

    CALL_TAKE(self->names, view->n_nodes);
    CALL_TAKE(self->bytes, view->n_nodes);
    CALL_TAKE(self->ns, view->n_nodes);
    CALL_TAKE(self->kind, view->n_nodes);
    self->n_kinds = 0;
    for (uint32_t v = 0; v < view->n_nodes; v++) {
        const struct pst_stage_node *node = pst_stage_node_at(view, v);
        const char *name = pst_stage_node_op(view, v);

        self->kind[v] = PST_NONE;
        if (mem_may_recompute(node) && is_listed(config->classes, name == NULL ? "" : name)) {
            uint32_t k = kind_of(self, name == NULL ? "" : name);

            self->kind[v] = k;
            self->bytes[k] += node->saved_bytes;
            self->ns[k] += node->forward_ns;
        }
    }
}

/* Most bytes for a second of replay first; ties as they occur in the stage. */
static void rank_kinds(struct selective *self, uint32_t *order)
{
    for (uint32_t i = 0; i < self->n_kinds; i++) {
        uint32_t k = i;

        while (k > 0 && (double)self->bytes[i] * (double)self->ns[order[k - 1]] >
                            (double)self->bytes[order[k - 1]] * (double)self->ns[i]) {
            order[k] = order[k - 1];
            k--;
        }
        order[k] = i;
    }
}

static void drop(struct selective *self, const struct pst_stage_view *view, const uint32_t *order,
                 uint32_t n)
{
    struct mem_opt *opt = &self->opt;

    mem_reset(opt, view);
    for (uint32_t v = 0; v < view->n_nodes; v++) {
        for (uint32_t i = 0; i < n && self->kind[v] != PST_NONE; i++) {
            opt->trial[v] = order[i] == self->kind[v] ? PST_ACTION_RECOMPUTE : opt->trial[v];
        }
    }
    mem_make_legal(view, opt->trial, opt->run);
    mem_consider(opt, view);
}

static void decide(struct mem_opt *opt, const struct pst_stage_view *view)
{
    struct selective *self = (struct selective *)opt;
    const struct config *config = opt->config;

    find_kinds(self, view);
    rank_kinds(self, opt->order);
    for (uint32_t n = config->choose ? 0 : self->n_kinds; n <= self->n_kinds; n++) {
        drop(self, view, opt->order, n);
        if (mem_is_done(opt, view)) {
            break;
        }
    }
}

MEM_OPTIMIZER(struct selective, decide, !((const struct config *)config)->choose)

MEM_PLUGIN(
    "selective", "1.0", MEM_WORDS("chain", "dag", "alike", "recompute"), MEM_WORDS("recompute"),
    .summary = "Recomputes chosen kinds of operators, by default the core of attention.",
    .reference = "Korthikanti et al., Reducing Activation Recomputation in Large Transformer "
                 "Models, 2022",
    PST_PLUGIN_PARAMS(params, struct config))
