/* SPDX-License-Identifier: Apache-2.0
 *
 * The instance as the exact search takes it, and its orders as sequences of kinds.
 */
#include "prove.h"

enum { MOST_PASSES = 400 }; /* beyond, depth-first search is lost */

void va_prover_init(struct va_prover *prover, const struct pst_schedule_in *in,
                    struct va_problem *q, uint64_t unit_ns, const struct pst_host *host)
{
    struct instance *inst = &prover->instance;

    *prover = (struct va_prover){.host = host, .unit_ns = unit_ns};
    CALL_TAKE(prover->room, q->p);
    va_work_init(&prover->work, q);
    instance_init(inst, in, q->m, q->goal == VA_SPAN ? EXACT_SPAN : EXACT_MAKESPAN);
    q->bound = instance_bound(inst) / unit_ns;
    inst->room = prover->room;
    prover->quantum_ns = exact_quantum(inst);
    prover->usable = va_order_length(q) <= MOST_PASSES && exact_can_search(inst);
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

void va_read_order(const struct va_problem *q, struct order *order, uint8_t *ret_order)
{
    for (uint32_t d = 0; d < q->p; d++) {
        for (uint32_t i = 0; i < order->lists[d].n; i++) {
            *ret_order++ = kind_of(q, &order->lists[d].ops[i]);
        }
    }
    order_finish(order);
}

/* Replaces order and cost by what the exact search found; an order of it is never illegal. */
static void take(struct va_prover *prover, const struct va_problem *q, struct order *found,
                 uint8_t *order, struct va_cost *cost)
{
    va_read_order(q, found, order);
    if (!va_evaluate(q, order, &prover->work, cost)) {
        call_end(PST_ERR_BUG);
    }
}

uint64_t va_prove(struct va_prover *prover, const struct va_problem *q, uint64_t nodes,
                  uint8_t *order, struct va_cost *cost)
{
    struct exact_answer answer = {.bound = instance_bound(&prover->instance)};

    set_room(prover, q);
    greedy_best(&prover->instance, &answer.order, &answer.cost);
    if (cost->first <= answer.cost / prover->unit_ns) {
        order_finish(&answer.order);
        answer.cost = cost->first * prover->unit_ns;
    }
    exact_narrow(&prover->instance, prover->host, nodes, &answer);
    if (answer.order.lists != NULL) {
        take(prover, q, &answer.order, order, cost);
    }
    return answer.bound / prover->unit_ns;
}

enum va_verdict va_decide(struct va_prover *prover, const struct va_problem *q, uint64_t nodes,
                          uint64_t below, uint8_t *order, struct va_cost *cost)
{
    struct verdict verdict;

    set_room(prover, q);
    verdict = search_decide(&prover->instance, prover->host,
                            below * prover->unit_ns - prover->quantum_ns, &nodes);
    if (verdict.found) {
        take(prover, q, &verdict.order, order, cost);
        return VA_FOUND;
    }
    return verdict.exhausted ? VA_REFUTED : VA_OPEN;
}
