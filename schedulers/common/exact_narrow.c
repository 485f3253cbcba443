/* SPDX-License-Identifier: Apache-2.0
 *
 * From decisions to an optimum: T is bisected between the proven bound and the best order known,
 * at first with few steps for each decision, then with four times as many each time. So what is
 * easy to find or to refute is settled before much is spent on what is not.
 */
#include "exact.h"

enum { FIRST_BUDGET = 4096, GROWTH = 4 };

uint64_t exact_quantum(const struct instance *inst)
{
    uint64_t g = 0;

    for (uint32_t s = 0; s < inst->n_stages; s++) {
        for (int k = 0; k < KINDS; k++) {
            g = order_gcd(g, inst->time[k][s]);
        }
        for (uint32_t i = 0; i < inst->n_before[s]; i++) {
            g = order_gcd(g, inst->before[s][i].latency);
        }
        for (uint32_t i = 0; i < inst->n_behind[s]; i++) {
            g = order_gcd(g, inst->behind[s][i].latency);
        }
    }
    return g == 0 ? 1 : g;
}

bool exact_can_search(const struct instance *inst)
{
    for (uint32_t d = 0; d < inst->n_devices; d++) {
        if (inst->n_on[d] > MAX_CHUNKS) {
            return false;
        }
    }
    return inst->m < 65536 && (uint64_t)inst->n_stages * inst->m * KINDS <= MAX_PASSES;
}

struct narrowing {
    const struct instance *inst;
    const struct pst_host *host;
    uint64_t nodes; /* that are left */
    struct exact_answer *answer;
};

/* One decision, of which the answer takes what it tells: is there an order? */
static bool decide(struct narrowing *x, uint64_t limit, uint64_t budget)
{
    uint64_t allowed = budget < x->nodes ? budget : x->nodes, left = allowed;
    struct exact_answer *answer = x->answer;
    struct verdict verdict = search_decide(x->inst, x->host, limit, &left);

    x->nodes -= allowed - left;
    if (verdict.found) {
        order_finish(&answer->order);
        answer->order = verdict.order;
        answer->cost = verdict.cost;
    } else if (verdict.exhausted && limit >= answer->bound) {
        answer->bound = limit + 1;
    }
    return verdict.found;
}

/* One round of decisions. `least`: what is below it takes more than this round gives. Bisecting
   raises the bound and finds what a tight limit leads to; from above, all that is spent goes into
   the next better order and, in the end, into the one refusal that proves. */
static void narrow_once(struct narrowing *x, uint64_t quantum, uint64_t budget, bool from_above)
{
    struct exact_answer *answer = x->answer;
    uint64_t stride = quantum, least = answer->bound;

    while (least < answer->cost && x->nodes > 0) {
        uint64_t half = (answer->cost - 1 - least) / quantum / 2 * quantum;
        uint64_t whole = (answer->cost - least) / quantum * quantum;
        uint64_t limit =
            from_above ? answer->cost - (stride < whole ? stride : whole) : least + half;
        bool found = decide(x, limit, budget);

        stride = found ? 2 * stride : quantum;
        least = found ? least : limit + quantum;
    }
}

/* Costs are whole quanta (differences of them where the span counts). */
static void round_up(struct exact_answer *answer, uint64_t quantum)
{
    uint64_t rest = answer->bound % quantum;

    answer->bound += rest == 0 ? 0 : quantum - rest;
    answer->bound = answer->bound < answer->cost ? answer->bound : answer->cost;
}

void exact_narrow(const struct instance *inst, const struct pst_host *host, uint64_t nodes,
                  struct exact_answer *answer)
{
    struct narrowing x = {inst, host, nodes, answer};
    uint64_t quantum = exact_quantum(inst);
    bool from_above = false;

    round_up(answer, quantum);
    for (uint64_t budget = FIRST_BUDGET; answer->bound < answer->cost && x.nodes > 0;
         budget *= GROWTH) {
        narrow_once(&x, quantum, budget, from_above);
        from_above = !from_above;
        round_up(answer, quantum);
    }
}
