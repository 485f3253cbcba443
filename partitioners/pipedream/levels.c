/* SPDX-License-Identifier: Apache-2.0 */
#include "levels.h"

#include <math.h>

struct solver {
    const struct pd_question *q;
    double *below; /* [n_sets * n_sets] level 0 with all its machines; two levels only */
    uint32_t *active, n_active; /* of the outermost level: sets that good answers may pass */
    uint32_t *least, *most;     /* [n_active] machines in front of them */
    uint64_t polls;
};

/* A(., .) of one level from one first set: a[j * (machines + 1) + u]. */
struct rows {
    uint32_t level, first, machines;
    double *a;
};

/* Appends. */
static void add_stage(struct pd_answer *answer, uint32_t from, uint32_t to, uint32_t degree)
{
    answer->stages =
        call_resize(answer->stages, (size_t)answer->n_stages + 1, sizeof *answer->stages);
    answer->stages[answer->n_stages++] = (struct part_sets_stage){from, to, degree};
}

static void poll(struct solver *s, uint64_t work)
{
    s->polls += work;
    if (s->polls >= 500000) {
        s->polls = 0;
        call_go_on(s->q->host);
    }
}

/* Time of what lies between two sets on one machine of this level. */
static double between(const struct solver *s, uint32_t level, uint32_t i, uint32_t j)
{
    const struct pd_question *q = s->q;

    return level == 0 ? q->time[j] - q->time[i] : s->below[(size_t)i * q->sets->n_sets + j];
}

static double sync_time(const struct pd_question *q, uint32_t level, double weight)
{
    double rate = q->levels[level].sync_rate;

    return rate > 0 ? weight / rate : 0;
}

/* One stage on u machines; `share` divides what is exchanged. */
static double stage_time(const struct pd_question *q, uint32_t level, double time, double weight,
                         uint32_t u, double share)
{
    double sync = sync_time(q, level, weight);

    if (q->objective == PD_PAPER) {
        return fmax(time, 2.0 * (u - 1) * sync) / u;
    }
    return (time + 4.0 * (u - 1) * sync / u / share) / u;
}

/* Least number of machines used up to and with this stage at which it may have u of them. */
static uint32_t least_used(const struct pd_question *q, uint32_t machines, uint32_t i, uint32_t j,
                           uint32_t u)
{
    double saved = q->saved[j] - q->saved[i], weight = q->weight[j] - q->weight[i];
    double limit = q->capacity * (1 + 1e-12), room, copies;

    if (isinf(q->capacity)) {
        return u;
    }
    if (q->memory == PD_MEMORY_RELEASED) {
        copies = floor(limit / (saved + weight));
    } else {
        room = limit - q->weight_multiplier * weight;
        copies = room < 0 ? -1 : floor(room / saved) - 1;
    }
    if (copies < 0) {
        return machines + 1;
    }
    return copies * u >= machines - u ? u : machines - (uint32_t)copies * u;
}

/* A(j, .) where everything from the first set on is one stage. */
static void alone(const struct solver *s, const struct rows *rows, uint32_t j)
{
    const struct pd_question *q = s->q;
    double *a = rows->a + (size_t)j * (rows->machines + 1);
    double time = between(s, rows->level, rows->first, j);
    double weight = q->weight[j] - q->weight[rows->first];
    double share = rows->level == 0 ? 1 : q->levels[rows->level - 1].machines;
    uint32_t k;

    for (k = 0; k < q->n_degrees && q->degrees[k] <= rows->machines; k++) {
        uint32_t u = q->degrees[k];

        /* All machines used are this stage's. */
        if (least_used(q, rows->machines, rows->first, j, u) == u) {
            a[u] = stage_time(q, rows->level, time, weight, u, share);
        }
    }
}

/* A(j, .) where the last stage is what lies between sets i and j. */
static void split(const struct solver *s, const struct rows *rows, uint32_t i, uint32_t j)
{
    const struct pd_question *q = s->q;
    uint32_t machines = rows->machines, k, used;
    const double *head = rows->a + (size_t)i * (machines + 1);
    double *a = rows->a + (size_t)j * (machines + 1);
    double time = between(s, rows->level, i, j), weight = q->weight[j] - q->weight[i];
    double rate = q->levels[rows->level].transfer_rate, least = 0;

    if (q->objective == PD_PAPER && rate > 0) {
        least = 2 * q->out[i] / rate;
    }
    for (k = 0; k < q->n_degrees && q->degrees[k] < machines; k++) {
        uint32_t u = q->degrees[k];
        double cost = fmax(least, stage_time(q, rows->level, time, weight, u, 1));

        used = least_used(q, machines, i, j, u);
        for (used = used > u + 1 ? used : u + 1; used <= machines; used++) {
            double value = head[used - u] > cost ? head[used - u] : cost;

            a[used] = value < a[used] ? value : a[used];
        }
    }
}

/*
 * Machines make up for at least the time of what they run. So an answer no worse than the bound
 * that cuts after set j, u machines before it, has t_j <= u * bound, and the rest of the time
 * within what the other machines can do.
 */
static void list_active(struct solver *s)
{
    const struct pd_question *q = s->q;
    uint32_t outer = q->n_levels - 1, m = q->levels[outer].machines, n = q->sets->n_sets, j, u;
    double each = q->bound * (1 + 1e-9) * (outer > 0 ? q->levels[0].machines : 1);
    double all = q->time[n - 1];

    CALL_TAKE(s->active, n);
    CALL_TAKE(s->least, n);
    CALL_TAKE(s->most, n);
    for (j = 1; j < n; j++) {
        uint32_t least = m, most = j + 1 == n || isinf(q->bound) ? m : 0;

        for (u = 1; u < m; u++) {
            if (isinf(q->bound) || (q->time[j] <= u * each && all - q->time[j] <= (m - u) * each)) {
                least = u < least ? u : least;
                most = u > most ? u : most;
            }
        }
        if (most > 0) {
            s->least[s->n_active] = least;
            s->most[s->n_active] = most;
            s->active[s->n_active++] = j;
        }
    }
}

/* May what lies between the active sets x and y be a stage of an answer within the bound? */
static bool may_help(const struct solver *s, uint32_t x, uint32_t y)
{
    const struct pd_question *q = s->q;
    uint32_t outer = q->n_levels - 1, i = s->active[x], j = s->active[y], k;
    double time = between(s, outer, i, j), weight = q->weight[j] - q->weight[i];

    if (isinf(q->bound)) {
        return true;
    }
    for (k = 0; k < q->n_degrees && q->degrees[k] + s->least[x] <= s->most[y]; k++) {
        if (stage_time(q, outer, time, weight, q->degrees[k], 1) <= q->bound * (1 + 1e-9)) {
            return true;
        }
    }
    return false;
}

/* A(j, .) for the sets of `list` (NULL: all from the first one on) up to `last`, as far as the
   first set is a part of them. */
static void fill(struct solver *s, struct rows *rows, uint32_t last, const uint32_t *list,
                 uint32_t n_list)
{
    const struct part_downsets *sets = s->q->sets;
    size_t width = (size_t)rows->machines + 1, cell;
    uint32_t x, y, u;

    for (cell = 0; cell < ((size_t)last + 1) * width; cell++) {
        rows->a[cell] = INFINITY;
    }
    n_list = list == NULL ? last - rows->first : n_list;
    for (x = 0; x < n_list; x++) {
        uint32_t j = list == NULL ? rows->first + 1 + x : list[x];
        double *a = rows->a + j * width;

        if (!part_downsets_nested(sets, rows->first, j)) {
            continue;
        }
        alone(s, rows, j);
        for (y = 0; y < x; y++) {
            uint32_t i = list == NULL ? rows->first + 1 + y : list[y];

            if ((list == NULL || may_help(s, y, x)) &&
                (rows->first == 0 || part_downsets_nested(sets, rows->first, i)) &&
                part_downsets_nested(sets, i, j)) {
                split(s, rows, i, j);
            }
            poll(s, width);
        }
        for (u = 2; s->q->use_fewer_machines && u <= rows->machines; u++) {
            a[u] = a[u - 1] < a[u] ? a[u - 1] : a[u];
        }
    }
}

static void rows_init(struct rows *rows, const struct solver *s, uint32_t level, uint32_t first)
{
    rows->level = level;
    rows->first = first;
    rows->machines = s->q->levels[level].machines;
    CALL_TAKE(rows->a, (size_t)s->q->sets->n_sets * ((size_t)rows->machines + 1));
}

/* The last stage of the best pipeline from the first set to j on u machines. */
static bool last_stage(const struct solver *s, const struct rows *rows, uint32_t j, uint32_t u,
                       uint32_t *ret_from, uint32_t *ret_degree)
{
    const struct pd_question *q = s->q;
    size_t width = (size_t)rows->machines + 1;
    double *a = rows->a + j * width, value = a[u];
    uint32_t i, k;
    struct rows probe = *rows;
    double share = rows->level == 0 ? 1 : q->levels[rows->level - 1].machines;

    if (least_used(q, rows->machines, rows->first, j, u) == u &&
        stage_time(q, rows->level, between(s, rows->level, rows->first, j),
                   q->weight[j] - q->weight[rows->first], u, share) <= value) {
        for (k = 0; k < q->n_degrees; k++) {
            if (q->degrees[k] == u) {
                *ret_from = rows->first;
                *ret_degree = u;
                return true;
            }
        }
    }
    for (i = j; i-- > rows->first + 1;) {
        if ((rows->first != 0 && !part_downsets_nested(q->sets, rows->first, i)) ||
            !part_downsets_nested(q->sets, i, j)) {
            continue;
        }
        for (k = 0; k < q->n_degrees && q->degrees[k] < u; k++) {
            struct pd_question one = *q;
            struct solver alike = *s;
            bool same;

            if (stage_time(q, rows->level, between(s, rows->level, i, j),
                           q->weight[j] - q->weight[i], q->degrees[k], 1) > value) {
                continue;
            }
            /* The very arithmetic of split, with this degree alone, on a blank row. */
            one.degrees = &q->degrees[k];
            one.n_degrees = 1;
            alike.q = &one;
            a[u] = INFINITY;
            split(&alike, &probe, i, j);
            same = a[u] <= value;
            a[u] = value;
            if (same) {
                *ret_from = i;
                *ret_degree = q->degrees[k];
                return true;
            }
        }
    }
    return false;
}

/* Appends the stages between two sets, on all machines of a level, each `times` over. */
static void unroll(struct solver *s, uint32_t level, uint32_t first, uint32_t last, uint32_t times,
                   struct pd_answer *answer)
{
    struct rows rows = {0};
    struct pd_answer parts = {0};
    uint32_t j = last, u = s->q->levels[level].machines, k;

    rows_init(&rows, s, level, first);
    if (level + 1 == s->q->n_levels) {
        fill(s, &rows, last, s->active, s->n_active);
    } else {
        fill(s, &rows, last, NULL, 0);
    }
    if (answer->n_stages == 0 && level + 1 == s->q->n_levels) {
        answer->bottleneck = rows.a[(size_t)last * ((size_t)u + 1) + u];
        if (isinf(answer->bottleneck)) {
            return;
        }
    }
    while (j != first) {
        double *a = rows.a + (size_t)j * ((size_t)rows.machines + 1);
        uint32_t from, degree;

        while (s->q->use_fewer_machines && u > 1 && a[u - 1] <= a[u]) {
            u--;
        }
        if (!last_stage(s, &rows, j, u, &from, &degree)) {
            call_end(PST_ERR_BUG);
        } else {
            add_stage(&parts, from, j, degree);
            j = from;
            u -= degree;
        }
    }
    for (k = parts.n_stages; k-- > 0;) {
        const struct part_sets_stage *part = &parts.stages[k];

        if (level > 0) {
            unroll(s, level - 1, part->from, part->to, times * part->degree, answer);
        } else {
            add_stage(answer, part->from, part->to, times * part->degree);
        }
    }
}

/* Solves the first level, on all its machines, between any two sets. */
static void fill_below(struct solver *s)
{
    uint32_t n = s->q->sets->n_sets, m = s->q->levels[0].machines, i, j;
    struct rows rows = {0};

    CALL_TAKE(s->below, (size_t)n * n);
    rows_init(&rows, s, 0, 0);
    for (i = 0; i + 1 < n; i++) {
        rows.first = i;
        fill(s, &rows, n - 1, NULL, 0);
        for (j = 0; j < n; j++) {
            s->below[(size_t)i * n + j] = rows.a[(size_t)j * ((size_t)m + 1) + m];
        }
    }
}

/* Bytes of the fullest stage, by the rule of least_used. */
static double fullest(const struct pd_question *q, const struct pd_answer *answer)
{
    uint32_t behind = 0;
    double most = 0;

    for (uint32_t s = answer->n_stages; s-- > 0;) {
        const struct part_sets_stage *stage = &answer->stages[s];
        double saved = q->saved[stage->to] - q->saved[stage->from];
        double weight = q->weight[stage->to] - q->weight[stage->from];
        double copies = ceil(behind / (double)stage->degree);

        most = fmax(most, q->memory == PD_MEMORY_RELEASED
                              ? copies * (saved + weight)
                              : (copies + 1) * saved + q->weight_multiplier * weight);
        behind += stage->degree;
    }
    return most;
}

pst_status pd_levels_solve(const struct pd_question *q, struct pd_answer *ret_answer)
{
    struct solver s = {.q = q};
    struct pd_answer answer = {.bottleneck = INFINITY};

    if (q->n_levels > 1 && q->sets->n_sets > PD_MOST_SETS_IN_LEVELS) {
        return PST_ERR_UNSUPPORTED;
    }
    if (q->n_levels > 1) {
        fill_below(&s);
    }
    list_active(&s);
    unroll(&s, q->n_levels - 1, 0, q->sets->n_sets - 1, 1, &answer);
    answer.bytes = fullest(q, &answer);
    *ret_answer = answer;
    return PST_OK;
}
