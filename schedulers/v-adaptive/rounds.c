/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of v-zb at the caps of each rung. The last rung gets its whole search.
 */
#include "rounds.h"

#include <string.h>

#include "vrounds.h"

static void offer(struct va_rung *rung, struct order *order, struct va_work *work)
{
    uint8_t *kinds = va_order(&rung->problem);
    struct va_cost cost;

    va_read_order(&rung->problem, order, kinds);
    if (va_evaluate(&rung->problem, kinds, work, &cost) &&
        va_cost_compare(&cost, &rung->cost) < 0) {
        rung->cost = cost;
        memcpy(rung->order, kinds, va_order_length(&rung->problem));
    }
    call_free(kinds);
}

/* Runs v-zb on all rungs but the last; each rung passes its order to the rungs above. */
static void offer_below(struct va_pool *pool, const struct fixed_question *question,
                        struct va_work *work)
{
    struct greedy g;

    greedy_init(&g, question, pool->q->goal == VA_MAKESPAN);
    for (uint32_t r = 0; r + 1 < pool->n_rungs && g.placed < pool->work; r++) {
        const int64_t last = g.best_cost;
        struct order order;

        call_go_on(pool->host);
        for (uint32_t d = 0; d < g.p; d++) {
            g.dev[d].cap = pool->rungs[r].problem.cap[d];
        }
        greedy_try_caps(&g, vrounds_runs, true);
        if (g.best_cost < last) {
            order_init(&order, question->in);
            greedy_order(&g, &order);
            offer(&pool->rungs[r], &order, work);
        }
        va_pool_inherit(pool, r);
    }
}

void va_rounds_offer(struct va_pool *pool, struct va_prover *prover)
{
    const struct va_problem *q = pool->q;
    const struct greedy_config config = {.objective = q->goal == VA_MAKESPAN ? GREEDY_MAKESPAN
                                                                             : GREEDY_SPAN};
    const struct fixed self = {.host = pool->host, .config = &config};
    uint64_t *room = call_alloc(q->p, sizeof *room);
    struct pst_schedule_in own = *prover->instance.in;
    const struct fixed_question question = {
        .self = &self, .in = &own, .p = q->p, .v = 2, .m = q->m};
    struct order order;

    for (uint32_t d = 0; d < q->p; d++) {
        const struct va_pass *pass = &q->passes[va_pass_index(d, 0)];
        const int64_t all = q->m * (pass[VA_F0].at_start + pass[VA_F1].at_start);

        room[d] = (uint64_t)(q->cap[d] < all ? q->cap[d] : all);
    }
    own.activation_bytes = room;
    offer_below(pool, &question, &prover->work);
    order_init(&order, &own);
    if (greedy_find(&question, vrounds_runs, &order)) {
        offer(&pool->rungs[pool->n_rungs - 1], &order, &prover->work);
    }
    va_pool_inherit(pool, pool->n_rungs - 1);
}
