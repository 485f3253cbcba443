/* SPDX-License-Identifier: Apache-2.0
 *
 * kFkB over a DAG of stages, each with a micro-batch size of its own: stages on parallel branches
 * run side by side, and a stage holds as many samples as its distance to the loss asks for, not as
 * its number in a chain. Jeon et al., "GraphPipe", ASPLOS 2025; the in-flight rule is ours, since
 * the paper's appendix leaves it open.
 */
#include "order.h"

struct config {
    int64_t k;
    bool force_chain, eager, split, refine;
};

PST_INSTANCE(per_stage, struct config)

static const struct pst_param params[] = {
    PST_PARAM(struct config, k, PST_PARAM_INT, "0", "0..65536",
              "Forwards and backwards that a stage runs in a row; 0: enough for the largest "
              "micro-batch of the stages after it."),
    PST_PARAM(struct config, force_chain, PST_PARAM_BOOL, "false", NULL,
              "Count samples in flight as though the stages were one chain."),
    PST_PARAM(struct config, eager, PST_PARAM_BOOL, "false", NULL,
              "Hold nearly twice as much: hides transfers as long as passes."),
    PST_PARAM(struct config, split, PST_PARAM_BOOL, "false", NULL,
              "Send the input gradient before the weight gradient is computed."),
    PST_PARAM(struct config, refine, PST_PARAM_BOOL, "false", NULL,
              "If micro-batch sizes differ, try one more micro-batch in flight, stage by stage, "
              "and keep the faster order."),
};

/* The sizes from which the in-flight samples of a stage are counted. */
struct size {
    uint64_t b, k, held; /* samples; group; samples in flight */
};

static uint64_t round_up(uint64_t n, uint64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

static uint64_t max_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* k of a stage: at least one whole micro-batch of each successor. */
static uint64_t group_of(const struct per_stage *self, uint64_t given, uint64_t b,
                         uint64_t largest_behind)
{
    if (self->config->k > 0) {
        return (uint64_t)self->config->k;
    }
    return max_of(max_of(given, 1), largest_behind / b);
}

/*
 * Samples that a stage must hold so that it never waits for this successor: those the successor
 * holds, one group more, and what the coarser of the two leaves over.
 */
static uint64_t held_for(const struct size *stage, const struct size *successor)
{
    uint64_t group = successor->k * successor->b;
    uint64_t over = stage->b > group ? stage->b - group : 0;

    return round_up(successor->held + max_of(stage->k * stage->b, successor->b) + over, stage->b);
}

/* DAPPLE's count for slow links: (2 depth - 1) micro-batches where a plain stage holds depth. */
static uint64_t finish_count(const struct per_stage *self, const struct size *stage, uint64_t held,
                             uint64_t samples)
{
    if (self->config->eager && held > stage->k * stage->b) {
        held = 2 * held - stage->k * stage->b;
    }
    held = max_of(held, stage->k * stage->b);
    return held < samples ? held : samples;
}

static pst_status in_flight(void *self_, const struct pst_place *place, struct pst_held *ret_held)
{
    const struct per_stage *self = self_;
    uint64_t samples = (uint64_t)place->n_microbatches * place->microbatch_size, largest = 0;
    struct size stage = {.b = place->microbatch_size};
    uint64_t held = 0;
    bool mixed = false; /* then refine() may hold one more */

    for (uint32_t i = 0; i < place->n_successors; i++) {
        largest = max_of(largest, pst_place_successor(place, i)->microbatch_size);
        mixed |= pst_place_successor(place, i)->microbatch_size != stage.b;
    }
    stage.k = group_of(self, place->k, stage.b, largest);
    for (uint32_t i = 0; i < place->n_successors; i++) {
        const struct pst_successor *next = pst_place_successor(place, i);
        struct size successor = {
            .b = next->microbatch_size,
            .k = max_of(next->k, 1),
            .held = (uint64_t)next->in_flight * next->microbatch_size,
        };

        if (self->config->eager) { /* it told 2 held - k b */
            successor.held = (successor.held + successor.k * successor.b) / 2;
        }

        held = max_of(held, held_for(&stage, &successor));
    }
    if (self->config->force_chain) {
        held = max_of(held, (uint64_t)(place->n_stages - place->stage) * stage.b);
    }
    held = finish_count(self, &stage, held, samples);
    held = mixed && self->config->refine && held < samples ? held + stage.b : held;
    ret_held->microbatches = (uint32_t)(held / stage.b);
    ret_held->weight_versions = 1;
    return PST_OK;
}

/* From the sinks backwards; sizes[s].held in samples. */
static void count_in_flight(const struct per_stage *self, const struct pst_schedule_in *in,
                            struct size *sizes)
{
    for (uint32_t s = in->n_stages; s-- > 0;) {
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, s);
        bool chain = self->config->force_chain;
        uint32_t n = chain ? s + 1 < in->n_stages : stage->n_succ;
        uint64_t held = 0, largest = 0;
        struct size *own = &sizes[s];

        own->b = stage->microbatch_size;
        for (int pass = 0; pass < 2; pass++) {
            for (uint32_t i = 0; i < n; i++) {
                uint32_t link = chain ? 0 : in->out_links[stage->first_succ + i];
                uint32_t to = chain ? s + 1 : pst_schedule_link_at(in, link)->to;

                largest = max_of(largest, sizes[to].b);
                held = pass == 0 ? 0 : max_of(held, held_for(own, &sizes[to]));
            }
            own->k = group_of(self, stage->k, own->b, largest);
        }
        own->held = max_of(held, own->k * own->b);
    }
    for (uint32_t s = 0; s < in->n_stages; s++) {
        uint64_t samples = sizes[s].b * pst_schedule_stage_at(in, s)->n_microbatches;

        sizes[s].held = finish_count(self, &sizes[s], sizes[s].held, samples);
    }
}

/* Warm-up forwards; then k forwards and k backwards in turn; then the backwards that are left. */
static void order_stage(const struct per_stage *self, struct order *order, uint32_t s,
                        const struct size *size)
{
    const struct pst_schedule_stage *stage = pst_schedule_stage_at(order->in, s);
    uint64_t m = stage->n_microbatches, f = 0, b = 0;
    uint64_t k = size->k < m ? size->k : m;
    uint64_t ahead = size->held / size->b;

    ahead = ahead > k ? ahead - k : 0;
    while (b < m) {
        uint64_t target = f == 0 ? ahead + k : f + k;

        for (; f < target && f < m; f++) {
            order_add(order, stage->device, PST_PASS_F, s, (uint32_t)f);
        }
        target = f < m ? b + k : m;
        for (; b < target && b < m; b++) {
            order_add_backward(order, self->config->split, stage->device, s, (uint32_t)b);
        }
    }
}

static void build(const struct per_stage *self, const struct pst_schedule_in *in,
                  const struct size *sizes, struct order *ret_order)
{
    order_init(ret_order, in);
    for (uint32_t s = 0; s < in->n_stages; s++) {
        order_stage(self, ret_order, s, &sizes[s]);
    }
}

static bool fits(const struct order *order)
{
    for (uint32_t d = 0; d < order->in->n_devices; d++) {
        if (order_peak_bytes(order, d) > order->in->activation_bytes[d]) {
            return false;
        }
    }
    return true;
}

/* Tries each stage with one micro-batch more; keeps what ends earlier. */
static void refine(const struct per_stage *self, const struct pst_schedule_in *in,
                   struct size *sizes, struct order *order)
{
    struct order_times times;
    uint64_t best;

    order_evaluate(order, &times);
    best = times.makespan_ns;
    for (uint32_t s = 0; s < in->n_stages; s++) {
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, s);
        struct order trial;

        if (sizes[s].held + sizes[s].b > sizes[s].b * stage->n_microbatches) {
            continue;
        }
        sizes[s].held += sizes[s].b;
        build(self, in, sizes, &trial);
        if (order_evaluate(&trial, &times) && times.makespan_ns < best && fits(&trial)) {
            struct order worse = *order;

            best = times.makespan_ns;
            *order = trial;
            trial = worse;
        } else {
            sizes[s].held -= sizes[s].b;
        }
        order_finish(&trial);
    }
}

/* Checks the stages. Returns true if their micro-batch sizes differ. */
static bool check_stages(const struct per_stage *self, const struct pst_schedule_in *in)
{
    const struct pst_schedule_stage *first = pst_schedule_stage_at(in, 0);
    uint64_t samples = (uint64_t)first->microbatch_size * first->n_microbatches;
    bool mixed = false;

    for (uint32_t s = 0; s < in->n_stages; s++) {
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, s);

        for (uint32_t t = 0; t < s; t++) {
            if (pst_schedule_stage_at(in, t)->device == stage->device) {
                call_end(pst_failf(self->host, PST_ERR_UNSUPPORTED,
                                   "stages %u and %u are on device %u: per-stage runs one stage "
                                   "per device",
                                   t, s, stage->device));
            }
        }
        if ((uint64_t)stage->microbatch_size * stage->n_microbatches != samples) {
            call_end(pst_failf(self->host, PST_ERR_UNSUPPORTED,
                               "stage %u has %u micro-batches of %u samples, stage 0 has %llu "
                               "samples in all",
                               s, stage->n_microbatches, stage->microbatch_size,
                               (unsigned long long)samples));
        }
        mixed |= stage->microbatch_size != first->microbatch_size;
    }
    return mixed;
}

static pst_status schedule(void *self_, const struct pst_schedule_in *in,
                           struct pst_schedule_out *out)
{
    const struct per_stage *self = self_;
    bool mixed = check_stages(self, in);
    struct size *sizes = call_alloc(in->n_stages, sizeof *sizes);
    struct order order;

    count_in_flight(self, in, sizes);
    build(self, in, sizes, &order);
    if (mixed && self->config->refine) {
        refine(self, in, sizes, &order);
    }
    order_require_room(self->host, "per-stage", &order);
    return order_emit(&order, out);
}

SCHEDULER_INTERFACE(.topology = order_topology, .in_flight = in_flight)

SCHEDULER_PLUGIN(
    "per-stage", "1.0", SCHEDULER_WORDS("chain", "dag", "per-stage-microbatch", "split-backward"),
    .summary = "kFkB over a DAG of stages, each with its own micro-batch size.",
    .reference = "Jeon et al., GraphPipe: Improving Performance and Scalability of DNN Training "
                 "with Graph Pipeline Parallelism, ASPLOS 2025",
    PST_PLUGIN_PARAMS(params, struct config))
