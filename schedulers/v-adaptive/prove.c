/* SPDX-License-Identifier: Apache-2.0
 *
 * The instance as the exact search takes it, and its orders as sequences of kinds.
 */
#include "prove.h"

enum { MOST_PASSES = 400 }; /* beyond, depth-first search is lost */

pst_status va_prover_init(struct va_prover *prover, const struct pst_schedule_in *in,
                          struct va_problem *q, uint64_t unit_ns, const struct pst_host *host,
                          struct scratch *scratch)
{
    pst_status st;

    *prover = (struct va_prover){.host = host, .unit_ns = unit_ns};
    SCRATCH_TAKE(scratch, prover->room, q->p);
    va_work_init(&prover->work, q, scratch);
    st = instance_init(&prover->instance, in, q->m,
                       q->goal == VA_SPAN ? EXACT_SPAN : EXACT_MAKESPAN, scratch);
    if (st == PST_OK) {
        q->bound = instance_bound(&prover->instance) / unit_ns;
        prover->instance.room = prover->room;
        prover->quantum_ns = exact_quantum(&prover->instance);
        prover->usable = va_order_length(q) <= MOST_PASSES && exact_can_search(&prover->instance);
    }
    return st;
}

static void set_room(struct va_prover *prover, const struct va_problem *q)
{
    for (uint32_t d = 0; d < q->p; d++) {
        prover->room[d] = q->cap[d] == INT64_MAX ? NEVER : (uint64_t)q->cap[d];
    }
}

static uint8_t kind_of(const struct va_problem *q, const struct order_op *op)
{
    bool first = op->stage < q->p;

    return op->pass == PST_PASS_F   ? first ? VA_F0 : VA_F1
           : op->pass == PST_PASS_B ? first ? VA_B0 : VA_B1
           : first                  ? VA_W0
                                    : VA_W1;
}

/* Replaces order and cost by what the exact search found; an order of it is never illegal. */
static pst_status take(struct va_prover *prover, const struct va_problem *q,
                       const struct order *found, uint8_t *order, struct va_cost *cost)
{
    for (uint32_t d = 0; d < q->p; d++) {
        for (uint32_t i = 0; i < found->lists[d].n; i++) {
            *order++ = kind_of(q, &found->lists[d].ops[i]);
        }
    }
    order -= va_order_length(q);
    return va_evaluate(q, order, &prover->work, cost) ? PST_OK : PST_ERR_BUG;
}

pst_status va_prove(struct va_prover *prover, const struct va_problem *q, uint64_t nodes,
                    uint8_t *order, struct va_cost *cost, uint64_t *ret_bound)
{
    struct exact_answer answer = {.bound = instance_bound(&prover->instance)};
    pst_status st;

    set_room(prover, q);
    st = greedy_best(&prover->instance, &answer.order, &answer.cost);
    if (st == PST_OK && cost->first <= answer.cost / prover->unit_ns) {
        order_finish(&answer.order);
        answer.order = (struct order){0};
        answer.cost = cost->first * prover->unit_ns;
    }
    if (st == PST_OK) {
        st = exact_narrow(&prover->instance, prover->host, &nodes, &answer);
    }
    if (st == PST_ERR_CANCELLED) {
        prover->stopped = true;
        st = PST_OK;
    }
    if (st == PST_OK && answer.order.lists != NULL) {
        st = take(prover, q, &answer.order, order, cost);
    }
    *ret_bound = answer.bound / prover->unit_ns;
    order_finish(&answer.order);
    return st;
}

pst_status va_decide(struct va_prover *prover, const struct va_problem *q, uint64_t nodes,
                     uint64_t below, uint8_t *order, struct va_cost *cost,
                     enum va_verdict *ret_verdict)
{
    struct verdict verdict;
    pst_status st;

    set_room(prover, q);
    st = search_decide(&prover->instance, prover->host,
                       below * prover->unit_ns - prover->quantum_ns, &nodes, &verdict);
    if (st == PST_ERR_CANCELLED) {
        prover->stopped = true;
        st = PST_OK;
    }
    *ret_verdict = VA_OPEN;
    if (st == PST_OK && verdict.found) {
        *ret_verdict = VA_FOUND;
        st = take(prover, q, &verdict.order, order, cost);
        order_finish(&verdict.order);
    } else if (verdict.exhausted && !prover->stopped) {
        *ret_verdict = VA_REFUTED;
    }
    return st;
}
