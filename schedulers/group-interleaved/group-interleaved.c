/* SPDX-License-Identifier: Apache-2.0
 *
 * Interleaving by groups of micro-batches: one forward, input gradient and weight gradient in turn,
 * at fixed slots of a repeated period. Smaller groups hold less. Wan et al., "PipeOffload:
 * Improving Scalability of Pipeline Parallelism with Memory Optimization", ICML 2025.
 */
#include <stdlib.h>

#include "fixed.h"

struct config {
    struct fixed_chunks chunks;
    int64_t group, min_group;
};

static const struct pst_param params[] = {
    FIXED_CHUNKS_ROW,
    PST_PARAM(struct config, group, PST_PARAM_INT, "0", "0..1000000",
              "Micro-batches of a group, at most the number of devices; 0: the number of devices."),
    PST_PARAM(struct config, min_group, PST_PARAM_INT, "0", "0..1000000",
              "Micro-batches after which a device may switch to its next stage; 0: half the number "
              "of devices, more if passes differ in time."),
};

/* Numbers of the pattern: groups of g micro-batches; a chunk follows `turn` groups after the one
   before, and `skip` chunks come round before the slots would repeat. */
struct pattern {
    uint64_t g, turn, skip;
};

struct slot {
    uint64_t at;
    uint32_t pass, chunk, microbatch;
};

/* Sum over the devices of one pass of a chunk, of the chunk where it is largest. */
static uint64_t longest_flow(const struct fixed_question *q, uint32_t pass)
{
    uint64_t most = 0;
    uint32_t d, c;

    for (c = 0; c < q->v; c++) {
        uint64_t sum = 0;

        for (d = 0; d < q->p; d++) {
            const struct pst_schedule_stage *stage =
                pst_schedule_stage_at(q->in, fixed_stage(q, d, c));

            sum += pass == PST_PASS_F ? stage->forward_ns : stage->backward_input_ns;
        }
        most = sum > most ? sum : most;
    }
    return most;
}

/* Until a chunk is through all devices they must have work with the chunk before. */
static uint32_t default_min_group(const struct fixed_question *q)
{
    uint64_t forward = longest_flow(q, PST_PASS_F), backward = longest_flow(q, PST_PASS_B);
    uint64_t flow = forward > backward ? forward : backward, longest = 0;
    uint32_t least = (q->p + 1) / 2, s;

    for (s = 0; s < q->in->n_stages; s++) {
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(q->in, s);
        uint64_t work = stage->forward_ns + stage->backward_input_ns + stage->backward_weight_ns;

        longest = work > longest ? work : longest;
    }
    while (least < q->p && least * longest < flow) {
        least++;
    }
    return least;
}

static struct pattern find_pattern(const struct fixed_question *q)
{
    const struct config *config = q->self->config;
    uint32_t g = config->group == 0 ? q->p : (uint32_t)config->group;
    uint32_t least = config->min_group == 0 ? default_min_group(q) : (uint32_t)config->min_group;
    uint32_t turn = (least + g - 1) / g;

    if (g > q->p) {
        call_end(pst_failf(q->self->host, PST_ERR_CONFIG,
                           "group = %u on %u devices; a group has 1 to %u micro-batches", g, q->p,
                           q->p));
    }
    return (struct pattern){g, turn, q->v / (uint32_t)order_gcd(q->v, turn)};
}

static int by_slot(const void *a_, const void *b_)
{
    const struct slot *a = a_, *b = b_;

    return a->at < b->at ? -1 : a->at > b->at;
}

/* Slots of micro-batch a of group `round` on device d: F, B and W of each chunk. */
static void fill(const struct fixed_question *q, const struct pattern *pattern, uint32_t d,
                 uint64_t round, uint64_t a, struct slot *slots)
{
    const uint64_t begin = 3 * pattern->g * q->v * round + 3 * a + d;
    const uint64_t step = 3 * pattern->turn * pattern->g, lap = 3 * pattern->g;
    const uint32_t j = (uint32_t)(round * pattern->g + a), last = q->v - 1;
    const uint64_t back =
        begin + step * last + lap * (last / pattern->skip) + 1 + 3 * (uint64_t)(q->p - 1 - d);
    uint32_t c;

    for (c = 0; c < q->v; c++) {
        uint64_t after = step * c + lap * (c / pattern->skip);

        slots[3 * c] = (struct slot){begin + after, PST_PASS_F, c, j};
        slots[3 * c + 1] = (struct slot){back + after, PST_PASS_B, last - c, j};
        slots[3 * c + 2] = (struct slot){back + after + 1, PST_PASS_W, last - c, j};
    }
}

static void build_device(const struct fixed_question *q, const struct pattern *pattern, uint32_t d,
                         struct slot *slots, struct order *order)
{
    const size_t n = (size_t)3 * q->v * q->m;
    struct fixed_hand hand;
    size_t i;

    for (i = 0; i < q->m; i++) {
        fill(q, pattern, d, i / pattern->g, i % pattern->g, &slots[3 * q->v * i]);
    }
    qsort(slots, n, sizeof *slots, by_slot);
    fixed_hand_init(&hand, q, order, d);
    for (i = 0; i < n; i++) {
        fixed_deal(&hand, slots[i].pass, slots[i].chunk);
    }
}

/* With groups that are too small a device would wait for what only its own next passes make. */
static void build(const struct fixed_question *q, struct order *order)
{
    struct slot *slots = call_alloc((size_t)3 * q->v * q->m, sizeof *slots);
    struct pattern pattern = find_pattern(q);
    struct order_times times;

    for (uint32_t d = 0; d < q->p; d++) {
        build_device(q, &pattern, d, slots, order);
    }
    if (!order_evaluate(order, &times)) {
        call_end(pst_failf(q->self->host, PST_ERR_CONFIG,
                           "a device would switch to its next stage after %u micro-batches, before "
                           "the first has passed through all %u devices; min_group = %u would do",
                           (unsigned)(pattern.g * pattern.turn), q->p, (q->p + 1) / 2));
    }
}

static const struct fixed_rules rules = {
    .id = "group-interleaved",
    .placement = FIXED_LOOPED,
    .chunks = fixed_chunks_of,
    .build = build,
};

FIXED_PLUGIN("group-interleaved", "1.0",
             SCHEDULER_WORDS("chain", "chunks", "placement=looped", "split-backward"),
             .summary = "Interleaving by groups: a smaller bubble; the group size sets the memory.",
             .reference =
                 "Wan et al., PipeOffload: Improving Scalability of Pipeline Parallelism with "
                 "Memory Optimization, ICML 2025",
             PST_PLUGIN_PARAMS(params, struct config))
