/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders that are what devices do in slots of time when each takes what is ready.
 */
#include "fixed.h"

#define NOT_YET UINT64_MAX

/* Slots as they are filled: each device takes what is ready as soon as it is free. */
struct table {
    const struct fixed_slots *slots;
    uint32_t p, n_stages, m;
    uint32_t group;                       /* micro-batches that are one of the m */
    uint32_t n_chain;                     /* stages of a copy, which follow each other */
    uint64_t *free_at;                    /* [p] */
    uint64_t *end_forward, *end_backward; /* [n_stages][m]; NOT_YET: not begun */
    uint32_t *n_forward, *n_backward;     /* [n_stages]: begun, in order of micro-batches */
};

static uint64_t *end_at(const struct table *table, uint64_t *ends, uint32_t stage, uint32_t j)
{
    return &ends[(size_t)stage * table->m + j];
}

static void table_init(struct table *table, const struct fixed_question *question,
                       const struct fixed_slots *slots)
{
    const uint32_t n_stages = question->in->n_stages, group = slots->group > 1 ? slots->group : 1;
    const uint32_t m = (question->m - 1) / group + 1;
    const size_t n = (size_t)n_stages * m;

    *table = (struct table){.slots = slots,
                            .p = question->p,
                            .n_stages = n_stages,
                            .m = m,
                            .group = group,
                            .n_chain = question->self->rules->two_way ? n_stages / 2 : n_stages};
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
           ((stage + 1) % table->n_chain == 0 ||
            *end_at(table, table->end_backward, stage + 1, j) <= now);
}

/* Micro-batch j begins when so many before it have ended that the window holds it. */
static bool forward_is_ready(const struct table *table, uint32_t stage, uint64_t now)
{
    const uint32_t j = table->n_forward[stage];

    if (j == table->m) {
        return false;
    }
    return stage % table->n_chain > 0
               ? *end_at(table, table->end_forward, stage - 1, j) <= now
               : j < table->slots->window ||
                     *end_at(table, table->end_backward, stage, j - table->slots->window) <= now;
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
    const uint64_t end = now + (back ? table->slots->backward : table->slots->forward);

    table->free_at[d] = end;
    *end_at(table, back ? table->end_backward : table->end_forward, op->stage, op->microbatch) =
        end;
    (back ? table->n_backward : table->n_forward)[op->stage]++;
}

/* The micro-batches that `op` stands for. */
static void add_group(const struct fixed_question *question, const struct table *table,
                      const struct order_op *op, struct order *order)
{
    const uint32_t device = pst_schedule_stage_at(question->in, op->stage)->device;

    for (uint32_t i = 0; i < table->group; i++) {
        const uint32_t j = op->microbatch * table->group + i;

        if (j < question->m) {
            order_add(order, device, op->pass, op->stage, j);
        }
    }
}

void fixed_build_slots(const struct fixed_question *question, const struct fixed_slots *slots,
                       struct order *order)
{
    struct table table;
    uint64_t left;

    table_init(&table, question, slots);
    left = 2 * (uint64_t)table.n_stages * table.m;
    for (uint64_t now = 0; left > 0; now++) {
        for (uint32_t d = 0; d < table.p; d++) {
            struct order_op op = {.pass = 0};

            if (table.free_at[d] <= now) {
                op = choose(question, &table, d, now);
            }
            if (op.pass != 0) {
                begin(&table, d, now, &op);
                add_group(question, &table, &op, order);
                left--;
            }
        }
        call_go_on(question->self->host);
    }
}
