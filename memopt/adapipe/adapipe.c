/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses what a stage saves as a knapsack: the units of most replay time that fit the memory left
 * over for the micro-batches in flight, less a buffer for what a replay restores. Sun et al.,
 * "AdaPipe: Optimizing Pipeline Parallelism with Adaptive Recomputation and Partitioning", ASPLOS
 * 2024. Here the evaluator checks every answer: the buffer grows until it fits, and units that turn
 * out to fit as well are saved after all.
 */
#include <string.h>

#include "mem_plugin.h"
#include "optimizer.h"

enum { UNIT_NODE, UNIT_LAYER };
enum {
    TRIES = 12,      /* of buffers */
    ASKS = 4,        /* of what a refusal names, where there are more units than */
    MAX_UNITS = 128, /* up to which the least peak is looked for */
    ALL_UNITS = 10   /* and up to which every choice is looked at for that */
};

struct config {
    uint32_t unit;
    int64_t quanta;
};

/* A unit of nodes that is saved or replayed as a whole. */
struct unit {
    uint32_t first, end; /* positions */
    uint64_t bytes, ns;  /* freed per micro-batch, and replayed, if it is dropped */
    bool saved;
};

struct adapipe {
    struct mem_opt opt; /* first */
    struct unit *units; /* of the call */
    uint32_t n_units;
    uint64_t always; /* bytes that stay whatever is chosen */
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, unit, PST_PARAM_ENUM, "node", "node|layer",
              "Unit that is saved or replayed as a whole."),
    PST_PARAM(struct config, quanta, PST_PARAM_INT, "4096", "1..65536",
              "Steps into which the knapsack divides the remaining memory."),
};

/* --- the knapsack ------------------------------------------------------------------------------*/

static uint64_t unit_bytes(const struct unit *units, uint32_t n, uint64_t budget, uint32_t quanta)
{
    uint64_t common = 0, least = budget / quanta + 1;
    uint32_t i;

    for (i = 0; i < n; i++) {
        common = mem_divisor(common, units[i].bytes);
    }
    return common > 0 && budget / common <= quanta ? common : least;
}

/* most[w]: most time in w quanta; taken: rows of one bit per quantum, for the way back. */
static void fill_rows(const struct pst_host *host, const struct unit *units, uint32_t n,
                      uint64_t quantum, uint64_t room, uint64_t *most, uint8_t *taken)
{
    uint64_t w, rest = 0;
    uint32_t i;

    for (i = 0; i < n; i++) {
        rest += units[i].bytes / quantum + (units[i].bytes % quantum != 0);
    }
    for (i = 0; i < n; i++) {
        uint64_t size = units[i].bytes / quantum + (units[i].bytes % quantum != 0), least;
        uint8_t *row = taken + (size_t)i * (room / 8 + 1);

        rest -= size; /* the way back takes no more than that before it comes here */
        least = room > rest && room - rest > size ? room - rest : size;
        call_go_on(host);
        for (w = room + 1; w-- > least;) {
            uint64_t with = most[w - size] + units[i].ns;

            if (with > most[w]) {
                most[w] = with;
                row[w / 8] |= (uint8_t)(1u << w % 8);
            }
        }
    }
}

/*
 * Saves units of most replay time within `budget` bytes; ties: earlier units. Bytes are counted in
 * units of the larger of their greatest common divisor and budget / quanta, rounded up.
 */
static void knapsack(const struct pst_host *host, struct unit *units, uint32_t n, uint64_t budget,
                     uint32_t quanta)
{
    uint64_t quantum = unit_bytes(units, n, budget, quanta), room = budget / quantum, w = room;
    uint64_t *most = call_alloc(room + 1, sizeof *most);
    uint8_t *taken = call_alloc((size_t)n + 1, (size_t)room / 8 + 1);

    fill_rows(host, units, n, quantum, room, most, taken);
    for (uint32_t i = n; i-- > 0;) {
        units[i].saved =
            units[i].bytes == 0 || (taken[(size_t)i * (room / 8 + 1) + w / 8] >> w % 8 & 1) != 0;
        if (units[i].saved) {
            w -= units[i].bytes / quantum + (units[i].bytes % quantum != 0);
        }
    }
    call_free(most);
    call_free(taken);
}

/* --- stages ------------------------------------------------------------------------------------*/

static void make_units(struct adapipe *self, const struct pst_stage_view *view)
{
    const struct config *config = self->opt.config;
    struct unit *unit = NULL;
    uint32_t v;

    CALL_TAKE(self->units, view->n_nodes);
    self->n_units = 0;
    self->always = 0;
    for (v = 0; v < view->n_nodes; v++) {
        const struct pst_stage_node *node = pst_stage_node_at(view, v);

        if (unit == NULL || config->unit == UNIT_NODE ||
            node->layer != pst_stage_node_at(view, v - 1)->layer) {
            unit = &self->units[self->n_units++];
            *unit = (struct unit){.first = v};
        }
        unit->end = v + 1;
        if (mem_may_recompute(node)) {
            unit->bytes += node->saved_bytes;
            unit->ns += node->forward_ns;
        } else if (node->action != PST_ACTION_RECOMPUTE) {
            self->always += node->saved_bytes;
        }
    }
}

/* The units' choice as a legal plan in trial. */
static void write_trial(struct adapipe *self, const struct pst_stage_view *view)
{
    uint32_t i, v;

    mem_reset(&self->opt, view);
    for (i = 0; i < self->n_units; i++) {
        for (v = self->units[i].first; v < self->units[i].end; v++) {
            if (!self->units[i].saved && mem_may_recompute(pst_stage_node_at(view, v))) {
                self->opt.trial[v] = PST_ACTION_RECOMPUTE;
            }
        }
    }
    mem_make_legal(view, self->opt.trial, self->opt.run);
}

/* Bytes per micro-batch for what may be saved; 0 where the buffer takes everything. */
static uint64_t budget_of(const struct adapipe *self, const struct pst_stage_view *view,
                          uint64_t buffer)
{
    uint64_t k = view->in_flight > 0 ? view->in_flight : 1, left = view->capacity_bytes;

    left = left > view->static_bytes ? left - view->static_bytes : 0;
    left = left > buffer ? (left - buffer) / k : 0;
    left = left > view->input_bytes ? left - view->input_bytes : 0;
    return left > self->always ? left - self->always : 0;
}

/* Saves dropped nodes, dearest first, as long as it fits. */
static void save_what_fits(struct adapipe *self, const struct pst_stage_view *view)
{
    struct mem_opt *opt = &self->opt;
    uint32_t i, j, n = 0;

    memcpy(opt->trial, opt->actions, view->n_nodes);
    for (i = 0; i < self->n_units; i++) { /* by falling time; stable */
        if ((i & 0x3f) == 0) {
            call_go_on(opt->host);
        }
        if (opt->trial[self->units[i].first] == PST_ACTION_RECOMPUTE) {
            for (j = n++; j > 0 && self->units[opt->order[j - 1]].ns < self->units[i].ns; j--) {
                opt->order[j] = opt->order[j - 1];
            }
            opt->order[j] = i;
        }
    }
    for (i = 0; i < n; i++) {
        const struct unit *unit = &self->units[opt->order[i]];
        struct pst_stage_value value;

        for (j = unit->first; j < unit->end; j++) {
            opt->trial[j] = (uint8_t)pst_stage_node_at(view, j)->action;
        }
        value = mem_try(opt, view);
        if (!mem_fits(view, &value)) {
            memcpy(opt->trial, opt->actions, view->n_nodes);
        }
    }
}

/* Knapsacks with growing buffers, until one fits. */
static void fill_knapsacks(struct adapipe *self, const struct pst_stage_view *view)
{
    const struct config *config = self->opt.config;
    uint64_t buffer = 0, budget = UINT64_MAX;

    for (uint32_t i = 0; i < TRIES && budget > 0; i++) {
        struct pst_stage_value value;

        budget = i + 1 < TRIES ? budget_of(self, view, buffer) : 0;
        knapsack(self->opt.host, self->units, self->n_units, budget, (uint32_t)config->quanta);
        write_trial(self, view);
        value = mem_try(&self->opt, view);
        if (mem_fits(view, &value)) {
            return;
        }
        buffer += value.peak_bytes - (value.legal ? view->capacity_bytes : 0);
    }
}

/* Everything and nothing, which are tried whatever the capacity. */
static void save_all_or_nothing(struct adapipe *self, const struct pst_stage_view *view)
{
    self->opt.has_plan = false;
    mem_reset(&self->opt, view);
    mem_consider(&self->opt, view);
    for (uint32_t i = 0; i < self->n_units; i++) {
        self->units[i].saved = self->units[i].bytes == 0;
    }
    write_trial(self, view);
    mem_consider(&self->opt, view);
}

/* Nothing fits. What is named as the least has to do when it is there: the least capacity of those
   looked at with which a plan is found. */
static void find_least(struct adapipe *self, const struct pst_stage_view *view)
{
    struct mem_opt *opt = &self->opt;
    struct pst_stage_view with = *view;
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 0; opt->has_plan && i < ASKS; i++) {
        with.capacity_bytes = opt->value.peak_bytes;
        opt->has_plan = false;
        fill_knapsacks(self, &with);
        if (mem_is_done(opt, view)) {
            save_what_fits(self, view); /* a smaller knapsack may hold what peaks lower */
            return;
        }
        if (mem_is_done(opt, &with) && with.capacity_bytes < least) {
            least = with.capacity_bytes;
        }
    }
    save_all_or_nothing(self, view);
    if (opt->has_plan && least < opt->value.peak_bytes) {
        opt->value.peak_bytes = least;
    }
}

static uint64_t try_units(struct adapipe *self, const struct pst_stage_view *view)
{
    struct pst_stage_value value;

    write_trial(self, view);
    value = mem_try(&self->opt, view);
    return value.legal ? value.peak_bytes : UINT64_MAX;
}

/* Saves or drops single units as long as that lowers the peak, from all dropped on. */
static void lower_by_steps(struct adapipe *self, const struct pst_stage_view *view)
{
    uint64_t least;
    bool lower;

    for (uint32_t i = 0; i < self->n_units; i++) {
        self->units[i].saved = false;
    }
    least = try_units(self, view);
    do {
        lower = false;
        for (uint32_t i = 0; i < self->n_units; i++) {
            uint64_t peak;

            self->units[i].saved = !self->units[i].saved;
            peak = try_units(self, view);
            if (peak < least) {
                least = peak;
                lower = true;
            } else {
                self->units[i].saved = !self->units[i].saved;
            }
        }
    } while (lower);
}

/* Used if knapsacks do not fit, because they ignore runs: looks for the least peak, in the same way
   for every capacity, among all choices if they are few. */
static void lower_peak(struct adapipe *self, const struct pst_stage_view *view)
{
    if (self->n_units > ALL_UNITS) {
        lower_by_steps(self, view);
        return;
    }
    for (uint32_t choice = 0; choice < 1u << self->n_units; choice++) {
        for (uint32_t i = 0; i < self->n_units; i++) {
            self->units[i].saved = (choice >> i & 1) != 0;
        }
        try_units(self, view);
    }
}

static void decide(struct mem_opt *opt, const struct pst_stage_view *view)
{
    struct adapipe *self = (struct adapipe *)opt;
    struct pst_stage_value value = mem_try(opt, view);

    if (view->n_nodes == 0 || mem_fits(view, &value)) {
        return;
    }
    make_units(self, view);
    fill_knapsacks(self, view);
    if (!opt->has_plan) {
        return;
    }
    if (!mem_fits(view, &opt->value)) {
        if (self->n_units > MAX_UNITS) {
            find_least(self, view);
            return;
        }
        lower_peak(self, view);
    }
    if (mem_fits(view, &opt->value)) {
        save_what_fits(self, view);
    }
}

MEM_OPTIMIZER(struct adapipe, decide, false)

MEM_PLUGIN(
    "adapipe", "1.1", MEM_WORDS("chain", "dag", "alike", "recompute"), MEM_WORDS("recompute"),
    .summary = "Saves the tensors that cost most to replay, by a knapsack per stage.",
    .reference = "Sun et al., AdaPipe: Optimizing Pipeline Parallelism with Adaptive Recomputation "
                 "and Partitioning, ASPLOS 2024",
    PST_PLUGIN_PARAMS(params, struct config))
