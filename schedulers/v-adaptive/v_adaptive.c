/* SPDX-License-Identifier: Apache-2.0
 *
 * v-adaptive: the best order of a V placement that a given memory allows. Building blocks of Qi,
 * Wan, Amar, Lin, "Pipeline Parallelism with Controllable Memory", NeurIPS 2024, and on top of them
 * dispatching and local search with the real costs, latencies and bytes of each stage.
 */
#include <penstock/ext/claim.h>

#include "ladder.h"
#include "fixed.h"

struct config {
    double memory_limit, robust;
    int64_t effort, exact;
    uint32_t objective;
};

enum { OBJECTIVE_AUTO, OBJECTIVE_SPAN, OBJECTIVE_MAKESPAN };

PST_INSTANCE(v_adaptive, struct config)

static const struct pst_param params[] = {
    PST_PARAM(struct config, memory_limit, PST_PARAM_FLOAT, "0", "0..",
              "Activations that a device may hold, in micro-batches of its share of the model; 0: "
              "as much as it has room for."),
    PST_PARAM(struct config, objective, PST_PARAM_ENUM, "auto", "auto|span|makespan",
              "What to minimise; auto: makespan if steps end at a barrier, else span."),
    PST_PARAM(struct config, effort, PST_PARAM_INT, "1", "0..3",
              "Effort of the search; 0: building blocks and rounds only; each further level "
              "searches ten times as long."),
    PST_PARAM(struct config, exact, PST_PARAM_INT, "6000000", "0..1000000000000",
              "Maximum steps of the exact search that follows for a small instance; it makes about "
              "a million in a second. With effort = 0 there is no exact search."),
    PST_PARAM(struct config, robust, PST_PARAM_FLOAT, "0", "0..1",
              "Choose by the 0.9 quantile of the cost under this relative noise of times and "
              "links; 0: by the times given."),
};

static pst_status topology(void *self, uint32_t n_devices, struct pst_topology *ret_topology)
{
    pst_status status = order_topology(self, n_devices, ret_topology);

    ret_topology->n_stages = 2 * n_devices;
    return status;
}

static uint32_t device_of(void *self, uint32_t n_devices, uint32_t n_stages, uint32_t stage)
{
    (void)self;
    (void)n_stages;
    return fixed_place(FIXED_VSHAPE, n_devices, stage);
}

static uint32_t pass_of(uint32_t kind)
{
    static const uint8_t passes[VA_KINDS] = {PST_PASS_F, PST_PASS_F, PST_PASS_B,
                                             PST_PASS_B, PST_PASS_W, PST_PASS_W};

    return passes[kind];
}

/* Bytes as a signed number that sums of many cannot overflow. */
static int64_t bounded(uint64_t bytes)
{
    const uint64_t most = (uint64_t)INT64_MAX >> 24;

    return (int64_t)(bytes < most ? bytes : most);
}

/* Passes and needs of the question's stages. */
static void init_problem(struct va_problem *q, const struct pst_schedule_in *in, uint32_t m)
{
    struct va_link *links = call_alloc(in->n_links, sizeof *links);

    for (uint32_t i = 0; i < in->n_links; i++) {
        const struct pst_schedule_link *link = pst_schedule_link_at(in, i);
        bool local = pst_schedule_stage_at(in, link->from)->device ==
                     pst_schedule_stage_at(in, link->to)->device;

        links[i] = (struct va_link){link->from, link->to, local ? 0 : link->transfer_ns};
    }
    va_problem_init(q, in->n_devices, m, links, in->n_links);
}

static void fill_device(struct va_problem *q, const struct pst_schedule_in *in, uint32_t d)
{
    for (uint32_t kind = 0; kind < VA_KINDS; kind++) {
        struct va_pass *pass = &q->passes[va_pass_index(d, kind)];
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, va_stage(q->p, d, kind));
        int64_t saved = bounded(stage->saved_bytes);
        int64_t weight = bounded(stage->saved_weight_bytes);

        weight = weight < saved ? weight : saved;
        switch (pass_of(kind)) {
        case PST_PASS_F:
            pass->cost_ns = stage->forward_ns;
            pass->at_start = saved;
            break;
        case PST_PASS_B:
            pass->cost_ns = stage->backward_input_ns;
            pass->at_end = weight - saved;
            break;
        default:
            pass->cost_ns = stage->backward_weight_ns;
            pass->at_end = -weight;
            break;
        }
    }
}

/* Counts time in the largest unit that all times are multiples of, so that an instance stated in
   other units is the same instance. Returns that unit in ns. */
static uint64_t reduce_times(struct va_problem *q)
{
    uint64_t unit = 0;

    for (uint32_t i = 0; i < q->p * VA_KINDS; i++) {
        unit = order_gcd(unit, q->passes[i].cost_ns);
    }
    for (uint32_t i = 0; i < q->n_needs; i++) {
        unit = order_gcd(unit, q->needs[i].delay_ns);
    }
    unit = unit == 0 ? 1 : unit;
    for (uint32_t i = 0; i < q->p * VA_KINDS; i++) {
        q->passes[i].cost_ns /= unit;
    }
    for (uint32_t i = 0; i < q->n_needs; i++) {
        q->needs[i].delay_ns /= unit;
    }
    return unit;
}

/* Caps from the room of the device and the limit, which is in micro-batches of both chunks; what
   holds all micro-batches is none. */
static int64_t cap_of(const struct v_adaptive *self, const struct va_problem *q,
                      const struct pst_schedule_in *in, uint32_t d)
{
    const struct va_pass *pass = &q->passes[va_pass_index(d, 0)];
    int64_t both = pass[VA_F0].at_start + pass[VA_F1].at_start;
    uint64_t room = in->activation_bytes[d];
    int64_t cap = room < (uint64_t)INT64_MAX ? (int64_t)room : INT64_MAX;

    if (self->config->memory_limit > 0.0) {
        double limit = self->config->memory_limit * (double)both + 1e-6;

        cap = limit < (double)cap ? (int64_t)limit : cap;
    }
    return cap < (int64_t)q->m * both ? cap : INT64_MAX;
}

static void require_room(const struct v_adaptive *self, const struct va_problem *q,
                         const struct pst_schedule_in *in)
{
    for (uint32_t d = 0; d < q->p; d++) {
        const struct va_pass *pass = &q->passes[va_pass_index(d, 0)];
        int64_t both = pass[VA_F0].at_start + pass[VA_F1].at_start;

        if (both > q->cap[d] && (uint64_t)both <= in->activation_bytes[d]) {
            call_end(pst_failf(self->host, PST_ERR_INFEASIBLE,
                               "memory_limit = %g is too little for v-adaptive; the smallest that "
                               "works is 1, one micro-batch of the two stages of a device",
                               self->config->memory_limit));
        }
        if (both > q->cap[d]) {
            call_end(
                pst_failf(self->host, PST_ERR_INFEASIBLE,
                          "device %u may hold %lld bytes of activations: v-adaptive needs room "
                          "for one micro-batch of its two stages, %lld bytes (memory_limit 1)",
                          d, (long long)q->cap[d], (long long)both));
        }
    }
}

/* The V that topology() and device_of() ask for. */
static void require_v(const struct v_adaptive *self, const struct pst_schedule_in *in)
{
    for (uint32_t s = 0; s < in->n_stages; s++) {
        uint32_t device = pst_schedule_stage_at(in, s)->device;

        if (device != device_of(NULL, in->n_devices, in->n_stages, s)) {
            call_end(
                pst_failf(self->host, PST_ERR_UNSUPPORTED,
                          "stage %u is on device %u: v-adaptive needs the stages in a V, stage s "
                          "and stage %u - s on device s",
                          s, device, in->n_stages - 1));
        }
    }
}

static pst_status emit(const struct va_problem *q, const uint8_t *order,
                       struct pst_schedule_out *out)
{
    size_t n = va_sequence_length(q);
    pst_status status = PST_OK;

    for (uint32_t d = 0; d < q->p; d++) {
        uint32_t seen[VA_KINDS] = {0};

        for (size_t i = 0; i < n && status == PST_OK; i++) {
            uint32_t kind = order[d * n + i];

            status = out->emit(out, d, pass_of(kind), va_stage(q->p, d, kind), seen[kind]++);
        }
    }
    return status;
}

static void claim(const struct v_adaptive *self, const struct va_problem *q, uint64_t unit_ns,
                  const struct va_answer *answer)
{
    const struct va_cost *cost = &answer->cost;
    const struct pst_claim *f = self->host->get_extension(self->host, PST_CLAIM);
    bool span = q->goal == VA_SPAN;
    const struct pst_claimed claimed = {
        .size = sizeof claimed,
        .minimised = span ? 2 : 1,
        .makespan_ns = unit_ns * (span ? cost->second : cost->first),
        .span_ns = unit_ns * (span ? cost->first : cost->second),
        .lower_bound_ns = unit_ns * (answer->bound < cost->first ? answer->bound : cost->first),
    };

    if (f != NULL) {
        f->claim(self->host, &claimed);
    }
}

static pst_status schedule(void *self_, const struct pst_schedule_in *in,
                           struct pst_schedule_out *out)
{
    const struct v_adaptive *self = self_;
    const struct va_options options = {(uint32_t)self->config->effort,
                                       (uint64_t)self->config->exact, self->config->robust};
    uint32_t objective = self->config->objective;
    uint32_t m = order_require_chain(self->host, "v-adaptive", in, 2);
    struct va_problem q;
    struct va_prover prover;
    struct va_answer answer;
    uint64_t unit_ns;

    require_v(self, in);
    init_problem(&q, in, m);
    if (objective == OBJECTIVE_AUTO) {
        objective = in->barrier != 0 ? OBJECTIVE_MAKESPAN : OBJECTIVE_SPAN;
    }
    q.goal = objective == OBJECTIVE_MAKESPAN ? VA_MAKESPAN : VA_SPAN;
    for (uint32_t d = 0; d < q.p; d++) {
        fill_device(&q, in, d);
        q.cap[d] = cap_of(self, &q, in, d);
    }
    require_room(self, &q, in);
    unit_ns = reduce_times(&q);
    va_prover_init(&prover, in, &q, unit_ns, self->host);
    answer = va_solve(&q, &options, &prover);
    claim(self, &q, unit_ns, &answer);
    return emit(&q, answer.order, out);
}

SCHEDULER_INTERFACE(.topology = topology, .device_of = device_of)

SCHEDULER_PLUGIN(
    "v-adaptive", "1.0",
    SCHEDULER_WORDS("chain", "chunks=2", "placement=vshape", "split-backward", "within-memory",
                    "exhaustive", "haste=exact:0"),
    .summary = "Controllable memory: the best order of a V of stages that a given memory allows.",
    .reference = "Qi, Wan, Amar, Lin, Pipeline Parallelism with Controllable Memory, NeurIPS 2024",
    PST_PLUGIN_PARAMS(params, struct config))
