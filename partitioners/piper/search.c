/* SPDX-License-Identifier: Apache-2.0 */
#include "search.h"

#include <math.h>

#include "stage.h"

struct search {
    const struct piper_question *q;
    struct piper_costs costs;
    uint32_t n_sets, n_devices, most_degrees; /* s <= most_degrees */
    double *best; /* [n_sets][n_devices + 1][most_degrees + 1], of what is not in a set */
    double *time; /* [most_degrees + 1] of the stage at hand by units held; NAN: not asked yet */
    uint64_t polls;
};

static double *cell(const struct search *s, uint32_t i, uint32_t k)
{
    return s->best + ((size_t)i * (s->n_devices + 1) + k) * (s->most_degrees + 1);
}

static void poll(struct search *s, uint64_t work)
{
    s->polls += work;
    if (s->polls >= 1000000) {
        s->polls = 0;
        call_go_on(s->q->host);
    }
}

/* The stage with s degrees from it on; remembered by units held. */
static void stage_time(struct search *s, const struct piper_pair *pair, uint32_t i, uint32_t j,
                       uint32_t held, double *ret_time)
{
    if (isnan(s->time[held])) {
        piper_stage_time(&s->costs, pair, i, j, held, &s->time[held], NULL, NULL);
        s->polls += 20 * s->q->dag->n; /* a knapsack, perhaps */
    }
    *ret_time = s->time[held];
}

/*
 * Stage j - i before all that is known for j, on k devices. The later stages get faster in
 * steps as s grows, while the stage itself only gets slower: so only the steps matter.
 */
static void put(struct search *s, const struct piper_pair *pair, uint32_t i, uint32_t j, uint32_t k,
                double least)
{
    const double *rest = cell(s, j, k - pair->tensor * pair->degree);
    double *best = cell(s, i, k);
    uint32_t d = pair->degree, behind;

    for (behind = 0; behind + d <= s->most_degrees; behind++) {
        double time, value;

        if (isinf(rest[behind]) || (behind > 0 && rest[behind] == rest[behind - 1])) {
            continue;
        }
        value = fmax(rest[behind], least);
        if (value >= best[behind + d]) {
            continue;
        }
        stage_time(s, pair, i, j, 1 + (behind + d - 1) / d, &time);
        if (isinf(time)) {
            break; /* and so with more in flight */
        }
        value = fmax(value, time);
        best[behind + d] = fmin(best[behind + d], value);
    }
}

static void run_minima(struct search *s, uint32_t i)
{
    uint32_t k, t;

    for (k = 0; k <= s->n_devices; k++) {
        double *best = cell(s, i, k);

        for (t = 0; t <= s->most_degrees; t++) {
            if (t > 0) {
                best[t] = fmin(best[t], best[t - 1]);
            }
            if (k > 0) {
                best[t] = fmin(best[t], cell(s, i, k - 1)[t]);
            }
        }
    }
}

/* Everything that starts with stage j - i. */
static void put_all(struct search *s, uint32_t i, uint32_t j)
{
    uint32_t p, k, h;

    for (p = 0; p < s->costs.n_pairs; p++) {
        const struct piper_pair *pair = &s->costs.pairs[p];
        double least = piper_least_time(&s->costs, pair, i, j);

        if (isinf(least)) {
            continue;
        }
        for (h = 0; h <= s->most_degrees; h++) {
            s->time[h] = NAN;
        }
        for (k = pair->tensor * pair->degree; k <= s->n_devices; k++) {
            put(s, pair, i, j, k, least);
        }
        poll(s, (uint64_t)s->n_devices * 4);
    }
}

static void fill(struct search *s)
{
    uint32_t i, j, last = s->n_sets - 1;
    size_t c, width = (size_t)(s->n_devices + 1) * (s->most_degrees + 1);

    for (i = s->n_sets; i-- > 0;) {
        for (c = 0; c < width; c++) {
            cell(s, i, 0)[c] = i == last ? 0 : INFINITY;
        }
        if (i == last) {
            continue;
        }
        piper_look_from(&s->costs, i);
        for (j = i + 1; j <= last; j++) {
            if (part_downsets_nested(s->q->sets, i, j)) {
                put_all(s, i, j);
            }
        }
        run_minima(s, i);
    }
}

/* The first stage of the best of (i, k, t): of equals the one with most nodes, the least degrees.
 */
static void first_stage(struct search *s, uint32_t i, uint32_t k, uint32_t t,
                        struct piper_stage *ret_stage)
{
    double value = cell(s, i, k)[t], time;
    uint32_t j, p;

    piper_look_from(&s->costs, i);
    for (j = s->n_sets; j-- > i + 1;) {
        if (!part_downsets_nested(s->q->sets, i, j)) {
            continue;
        }
        for (p = 0; p < s->costs.n_pairs; p++) {
            const struct piper_pair *pair = &s->costs.pairs[p];
            uint32_t d = pair->degree, held;

            if ((uint64_t)pair->tensor * d > k || d > t ||
                cell(s, j, k - pair->tensor * d)[t - d] > value ||
                piper_least_time(&s->costs, pair, i, j) > value) {
                continue;
            }
            held = (t + d - 1) / d;
            piper_stage_time(&s->costs, pair, i, j, held, &time, NULL, NULL);
            if (time <= value) {
                *ret_stage = (struct piper_stage){i, j, pair->tensor, d, held, 0};
                return;
            }
        }
    }
    call_end(PST_ERR_BUG);
}

/* Ways of a stage's nodes, and its bytes. */
static void settle(struct search *s, struct piper_stage *stage, struct piper_answer *answer)
{
    uint32_t p;
    double time;

    for (p = 0; p < s->costs.n_pairs; p++) {
        const struct piper_pair *pair = &s->costs.pairs[p];

        if (pair->tensor == stage->tensor && pair->degree == stage->degree) {
            piper_look_from(&s->costs, stage->from);
            piper_stage_time(&s->costs, pair, stage->from, stage->to, stage->held, &time,
                             answer->way, &stage->bytes);
        }
    }
}

static void unroll(struct search *s, struct piper_answer *answer)
{
    uint32_t i = 0, k = s->n_devices, t = s->most_degrees;

    answer->bottleneck = cell(s, 0, k)[t];
    while (!isinf(answer->bottleneck) && i + 1 < s->n_sets) {
        double value = cell(s, i, k)[t];
        struct piper_stage stage = {0};
        struct piper_stage *grown;

        /* The value comes from the least k and s that have it. */
        while (k > 0 && cell(s, i, k - 1)[t] <= value) {
            k--;
        }
        while (t > 0 && cell(s, i, k)[t - 1] <= value) {
            t--;
        }
        first_stage(s, i, k, t, &stage);
        grown = call_resize(answer->stages, (size_t)answer->n_stages + 1, sizeof *grown);
        answer->stages = grown;
        settle(s, &stage, answer);
        grown[answer->n_stages++] = stage;
        i = stage.to;
        k -= stage.tensor * stage.degree;
        t -= stage.degree;
    }
}

pst_status piper_solve(const struct piper_question *q, struct piper_answer *ret_answer)
{
    struct search s = {.q = q, .n_sets = q->sets->n_sets, .n_devices = q->n_devices};
    struct piper_answer answer = {.bottleneck = INFINITY};
    uint64_t cells;

    s.most_degrees = q->n_devices < q->n_units ? q->n_devices : q->n_units;
    cells = (uint64_t)s.n_sets * (s.n_devices + 1);
    if (cells > PIPER_MOST_CELLS / (s.most_degrees + 1)) {
        return PST_ERR_UNSUPPORTED;
    }
    cells *= s.most_degrees + 1;
    piper_costs_init(&s.costs, q);
    CALL_TAKE(s.best, cells);
    CALL_TAKE(s.time, (size_t)s.most_degrees + 2);
    CALL_TAKE(answer.way, (size_t)q->dag->n + 1);
    fill(&s);
    unroll(&s, &answer);
    answer.exact = s.costs.exact;
    *ret_answer = answer;
    return PST_OK;
}
