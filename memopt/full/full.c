/* SPDX-License-Identifier: Apache-2.0
 *
 * Full recomputation: drops all that the forward pass leaves behind, except at the borders of units
 * (the whole stage, or a number of layers), and replays a unit just before its backward.
 * Huang et al., "GPipe", NeurIPS 2019 (unit = stage); Chen et al., "Training Deep Nets with
 * Sublinear Memory Cost", 2016.
 */
#include <penstock/penstock.h>

enum { UNIT_STAGE = 0, UNIT_LAYER = 1 };

struct config {
    uint32_t unit;
    int64_t every;
    bool skip_last;
};

struct full {
    const struct pst_host *host;
    const struct pst_eval *eval;
    const struct config *config;
    uint8_t *actions; /* [room] */
    uint32_t *run;    /* [room] begin of the run that a recomputed node belongs to */
    uint32_t room;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, unit, PST_PARAM_ENUM, "stage", "stage|layer",
              "What is replayed in one go: the stage, or a number of layers."),
    PST_PARAM(struct config, every, PST_PARAM_INT, "1", "1..",
              "Layers per unit; for unit = \"layer\"."),
    PST_PARAM(struct config, skip_last, PST_PARAM_BOOL, "true", NULL,
              "Keep the last unit of the last stage, whose backward follows at once."),
};

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    struct full *self = host->alloc(host, sizeof *self, _Alignof(struct full));

    if (self == NULL) {
        return PST_ERR_NOMEM;
    }
    self->host = host;
    self->config = config;
    self->eval = host->get_extension(host, PST_EVAL);
    if (self->eval == NULL) {
        return pst_failf(host, PST_ERR_UNSUPPORTED, "the host lacks %s", PST_EVAL);
    }
    *ret_self = self;
    return PST_OK;
}

PST_DESTROY_NOTHING

static pst_status reserve(struct full *self, uint32_t n)
{
    uint32_t room = 2 * self->room > n ? 2 * self->room : n;

    if (n <= self->room) {
        return PST_OK;
    }
    self->actions = self->host->alloc(self->host, room, 1);
    self->run = self->host->alloc(self->host, (size_t)room * sizeof *self->run, _Alignof(uint32_t));
    self->room = self->actions != NULL && self->run != NULL ? room : 0;
    return self->room != 0 ? PST_OK : PST_ERR_NOMEM;
}

/* Position behind the unit that begins at `first`. */
static uint32_t unit_end(const struct full *self, const struct pst_stage_view *view, uint32_t first)
{
    int64_t layers = 1;
    uint32_t i;

    if (self->config->unit == UNIT_STAGE) {
        return view->n_nodes;
    }
    for (i = first + 1; i < view->n_nodes; i++) {
        if (pst_stage_node_at(view, i)->layer != pst_stage_node_at(view, i - 1)->layer &&
            ++layers > self->config->every) {
            break;
        }
    }
    return i;
}

/* What the units ask for, before anything is said about legality. */
static void choose(const struct full *self, const struct pst_stage_view *view)
{
    bool last_stage = view->stage + 1 == view->n_stages && view->in_flight == 1;
    uint32_t first, end, i;

    for (first = 0; first < view->n_nodes; first = end) {
        bool kept;

        end = unit_end(self, view, first);
        kept = self->config->skip_last && last_stage && end == view->n_nodes;
        for (i = first; i < end; i++) {
            const struct pst_stage_node *node = pst_stage_node_at(view, i);
            bool border = self->config->unit == UNIT_LAYER && i + 1 == end;

            self->actions[i] = (uint8_t)node->action;
            if (node->action == PST_ACTION_KEEP && !kept && !border &&
                (node->flags & PST_NODE_NO_RECOMPUTE) == 0) {
                self->actions[i] = PST_ACTION_RECOMPUTE;
            }
        }
    }
}

/*
 * A replay may read only its own run and what is resident. Keeps every dropped producer outside the
 * run of its reader (or the reader, where an earlier optimizer dropped the producer for good),
 * until nothing changes: keeping a node may split a run in two.
 */
static void make_legal(const struct full *self, const struct pst_stage_view *view)
{
    bool changed = true;
    uint32_t i, j;

    while (changed) {
        changed = false;
        for (i = 0; i < view->n_nodes; i++) {
            const struct pst_stage_node *node = pst_stage_node_at(view, i);

            if (self->actions[i] != PST_ACTION_RECOMPUTE) {
                continue;
            }
            self->run[i] =
                i > 0 && self->actions[i - 1] == PST_ACTION_RECOMPUTE ? self->run[i - 1] : i;
            for (j = 0; j < node->n_producers; j++) {
                uint32_t u = view->producers[node->first_producer + j];

                if (self->actions[u] == PST_ACTION_RECOMPUTE && u < self->run[i]) {
                    bool fixed = pst_stage_node_at(view, u)->action != PST_ACTION_KEEP;

                    if (fixed && node->action != PST_ACTION_KEEP) {
                        continue; /* both fixed: not ours to judge */
                    }
                    self->actions[fixed ? i : u] = PST_ACTION_KEEP;
                    changed = true;
                }
            }
        }
    }
}

static pst_status decide(struct full *self, const struct pst_stage_view *view)
{
    pst_status st = reserve(self, view->n_nodes);

    if (st != PST_OK) {
        return st;
    }
    choose(self, view);
    make_legal(self, view);
    return PST_OK;
}

static pst_status price(void *self_, const struct pst_stage_view *view,
                        struct pst_stage_price *ret_price)
{
    struct full *self = self_;
    struct pst_stage_value value = {.size = sizeof value};
    pst_status st = decide(self, view);

    if (st != PST_OK) {
        return st;
    }
    st = self->eval->evaluate(self->host, view, self->actions, &value);
    if (st != PST_OK) {
        return st;
    }
    ret_price->fits = value.legal && value.peak_bytes <= view->capacity_bytes;
    ret_price->period_ns = value.period_ns;
    ret_price->peak_bytes = value.peak_bytes;
    return PST_OK;
}

/* Whether it fits is the host's to say: the rule leaves nothing to choose. */
static pst_status plan(void *self_, const struct pst_stage_view *view, struct pst_action_out *out)
{
    struct full *self = self_;
    pst_status st = decide(self, view);
    uint32_t i;

    for (i = 0; st == PST_OK && i < view->n_nodes; i++) {
        if (self->actions[i] != pst_stage_node_at(view, i)->action) {
            st = out->set(out, i, self->actions[i]);
        }
    }
    return st;
}

PST_INTERFACE(PST_MEMOPT, struct pst_memopt, .price = price, .plan = plan)

static const char *const provides[] = {"chain", "dag", "recompute", NULL};
static const char *const needs[] = {"recompute", NULL};

static const struct pst_plugin plugin = {
    PST_PLUGIN_HEAD("memopt", "full", "1.0"),
    .summary = "Recomputes everything but the borders of stages or layers.",
    .reference = "Huang et al., GPipe: Efficient Training of Giant Neural Networks using Pipeline "
                 "Parallelism, NeurIPS 2019",
    .license = "Apache-2.0",
    .provides = provides,
    .needs = needs,
    PST_PLUGIN_PARAMS(params, struct config),
    PST_PLUGIN_FUNCTIONS,
};

PST_PLUGIN(plugin)
