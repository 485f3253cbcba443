/* SPDX-License-Identifier: Apache-2.0
 *
 * Hanayo: stages laid out in waves, down and up the devices `waves` times, so that the pipeline
 * turns round at its ends instead of jumping back, and needs no second copy of the weights. Liu,
 * Cheng, Zhou, You, "Hanayo: Harnessing Wave-like Pipeline Parallelism for Enhanced Large Model
 * Training Efficiency", SC 2023.
 */
#include "fixed.h"

struct config {
    int64_t waves, window;
};

static const struct pst_param params[] = {
    PST_PARAM(
        struct config, waves, PST_PARAM_INT, "1", "1..32",
        "Times that stages go down and up the devices; each device has twice as many stages."),
    PST_PARAM(struct config, window, PST_PARAM_INT, "0", "0..65536",
              "Micro-batches that have begun and not ended; 0: as many as devices."),
};

/* A forward takes one slot, a backward two. */
enum { F_SLOTS = 1, BW_SLOTS = 2 };
#define NOT_YET UINT64_MAX

/* Slots as they are filled: each device takes what is ready as soon as it is free. */
struct table {
    uint32_t p, n_stages, m, window;
    uint64_t *free_at;                    /* [p] */
    uint64_t *end_forward, *end_backward; /* [n_stages][m]; NOT_YET: not begun */
    uint32_t *n_forward, *n_backward;     /* [n_stages]: begun, in order of micro-batches */
};

static uint64_t *end_at(const struct table *table, uint64_t *ends, uint32_t stage, uint32_t j)
{
    return &ends[(size_t)stage * table->m + j];
}

static void table_init(struct table *table, const struct fixed_question *question)
{
    const struct config *config = question->self->config;
    const size_t n = (size_t)question->in->n_stages * question->m;

    *table = (struct table){.p = question->p, .n_stages = question->in->n_stages, .m = question->m};
    table->window = config->window == 0 ? question->p : (uint32_t)config->window;
    CALL_TAKE(table->free_at, table->p);
    CALL_TAKE(table->end_forward, n);
    CALL_TAKE(table->end_backward, n);
    CALL_TAKE(table->n_forward, table->n_stages);
    CALL_TAKE(table->n_backward, table->n_stages);
    for (size_t i = 0; i < n; i++) {
        table->end_forward[i] = table->end_backward[i] = NOT_YET;
    }
}

static bool backward_is_ready(const struct table *table, uint32_t stage, uint64_t now)
{
    const uint32_t j = table->n_backward[stage];

    return j < table->n_forward[stage] && *end_at(table, table->end_forward, stage, j) <= now &&
           (stage == table->n_stages - 1 ||
            *end_at(table, table->end_backward, stage + 1, j) <= now);
}

/* Micro-batch j begins when so many before it have ended that the window holds it. */
static bool forward_is_ready(const struct table *table, uint32_t stage, uint64_t now)
{
    const uint32_t j = table->n_forward[stage];

    if (j == table->m) {
        return false;
    }
    return stage > 0 ? *end_at(table, table->end_forward, stage - 1, j) <= now
                     : j < table->window ||
                           *end_at(table, table->end_backward, 0, j - table->window) <= now;
}

/* Backwards first, of the oldest micro-batch; else the forward of the oldest. pass 0: none. */
static struct order_op choose(const struct fixed_question *question, const struct table *table,
                              uint32_t d, uint64_t now)
{
    struct order_op best = {.pass = 0};

    for (uint32_t c = question->v; c-- > 0;) {
        const uint32_t s = fixed_stage(question, d, c);
        const bool back = backward_is_ready(table, s, now);
        const uint32_t j = back ? table->n_backward[s] : table->n_forward[s];
        const uint8_t pass = back ? PST_PASS_BW : PST_PASS_F;

        if ((back || forward_is_ready(table, s, now)) &&
            (best.pass == 0 || (pass == best.pass ? j < best.microbatch : back))) {
            best = (struct order_op){.stage = s, .microbatch = j, .pass = pass};
        }
    }
    return best;
}

static void begin(struct table *table, uint32_t d, uint64_t now, const struct order_op *op)
{
    const bool back = op->pass == PST_PASS_BW;
    const uint64_t end = now + (back ? BW_SLOTS : F_SLOTS);

    table->free_at[d] = end;
    *end_at(table, back ? table->end_backward : table->end_forward, op->stage, op->microbatch) =
        end;
    (back ? table->n_backward : table->n_forward)[op->stage]++;
}

static void build(const struct fixed_question *question, struct order *order)
{
    struct table table;
    uint64_t left;

    table_init(&table, question);
    left = 2 * (uint64_t)table.n_stages * table.m;
    for (uint64_t now = 0; left > 0; now++) {
        for (uint32_t d = 0; d < table.p; d++) {
            struct order_op op = {.pass = 0};

            if (table.free_at[d] <= now) {
                op = choose(question, &table, d, now);
            }
            if (op.pass != 0) {
                begin(&table, d, now, &op);
                order_add(order, pst_schedule_stage_at(question->in, op.stage)->device, op.pass,
                          op.stage, op.microbatch);
                left--;
            }
        }
        call_go_on(question->self->host);
    }
}

static uint32_t chunks(const void *config)
{
    return 2 * (uint32_t)((const struct config *)config)->waves;
}

static const struct fixed_rules rules = {
    .id = "hanayo",
    .placement = FIXED_VSHAPE,
    .chunks = chunks,
    .build = build,
};

FIXED_PLUGIN("hanayo", "1.0", SCHEDULER_WORDS("chain", "chunks", "placement=wave"),
             .summary = "1F1B on stages that go down and up the devices in waves.",
             .reference = "Liu, Cheng, Zhou, You, Hanayo: Harnessing Wave-like Pipeline "
                          "Parallelism for Enhanced Large Model Training Efficiency, SC 2023",
             PST_PLUGIN_PARAMS(params, struct config))
