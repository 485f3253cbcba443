/* SPDX-License-Identifier: Apache-2.0 */
#include "search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "map.h"

enum { MOST_STEPS = 2048, NO_PREFIX = 0 };

/* First stages up to a position: a stage more than its parent. */
struct prefix {
    uint32_t parent, next; /* next: of the same state; 0 ends the list */
    uint32_t from, to, degree, n_stages, machine;
    uint32_t occupancy;                 /* row of used devices */
    struct dapple_step stage, transfer; /* transfer: in front of the stage */
    double slowest;                     /* F + B of a step so far */
    double latency;                     /* with the rest as one stage */
};

/* Prefixes of one position and occupancy. */
struct state {
    uint32_t position, occupancy, head, count;
    uint32_t chain; /* next state of the same position + 1; 0 ends */
};

struct search {
    const struct dapple_question *q;
    struct prefix *prefixes; /* from 1 on */
    struct state *states;
    uint16_t *rows; /* occupancies */
    size_t n_prefixes, room_prefixes, n_states, room_states, n_rows, room_rows;
    uint32_t *table, *first_state; /* open addressing: state + 1; [n + 1] states by position */
    size_t table_size;
    struct dapple_step steps[MOST_STEPS];
    uint32_t best; /* prefix whose completion is best; only `best_alone`: none */
    bool best_alone;
    double best_latency;
    uint64_t polls;
};

void dapple_answer_finish(struct dapple_answer *answer)
{
    free(answer->stages);
    free(answer->ranks);
    memset(answer, 0, sizeof *answer);
}

double dapple_transfer(const struct dapple_question *q, double bytes, uint32_t d, uint32_t next_d,
                       uint32_t machine, uint32_t next_machine)
{
    double rate = machine != UINT32_MAX && machine == next_machine ? q->inside : q->between;
    uint32_t least = d < next_d ? d : next_d;

    return rate > 0 ? bytes / (rate * least) : 0;
}

double dapple_allreduce(const struct dapple_question *q, double bytes, uint32_t d, uint32_t machine)
{
    double rate = machine != UINT32_MAX ? q->sync_inside : q->sync_between;

    return rate > 0 ? 2.0 * (d - 1) / d * bytes / rate : 0;
}

static bool stopped(struct search *s)
{
    const struct part_stop *stop = s->q->stop;

    return (++s->polls & 0x3FF) == 0 && stop != NULL && stop->cancelled != NULL &&
           stop->cancelled(stop->context);
}

static const uint16_t *row(const struct search *s, uint32_t occupancy)
{
    return s->rows + (size_t)occupancy * s->q->machines.n_machines;
}

/* Bytes of a stage that holds `held` micro-batches. */
static bool fits(const struct dapple_question *q, uint32_t from, uint32_t to, uint32_t d,
                 uint32_t held)
{
    double work = 0, bytes;
    uint32_t i;

    if (isinf(q->capacity)) {
        return true;
    }
    for (i = from; i < to; i++) {
        work = fmax(work, q->workspace[i]);
    }
    held = held < q->m ? held : q->m;
    bytes = q->weight_multiplier * (q->weight[to] - q->weight[from]) +
            (q->saved[to] - q->saved[from]) * ((double)q->b * held) / d + work;
    return bytes <= q->capacity * (1 + 1e-12);
}

/* A stage behind prefix p (0: the first one), not yet kept. */
static struct prefix make(const struct search *s, uint32_t p, uint32_t to, uint32_t k,
                          uint32_t machine)
{
    const struct dapple_question *q = s->q;
    const struct prefix *before = &s->prefixes[p];
    uint32_t from = before->to, d = q->degrees[k];
    struct prefix made = {.parent = p,
                          .from = from,
                          .to = to,
                          .degree = d,
                          .machine = machine,
                          .n_stages = before->n_stages + 1};

    made.stage = (struct dapple_step){
        q->forward[k][to] - q->forward[k][from], q->backward[k][to] - q->backward[k][from],
        dapple_allreduce(q, q->weight[to] - q->weight[from], d, machine)};
    if (p != NO_PREFIX) {
        double time = dapple_transfer(q, q->cut[from], before->degree, d, before->machine, machine);

        made.transfer = (struct dapple_step){time, time, 0};
    }
    made.slowest = fmax(fmax(before->slowest, made.stage.forward + made.stage.backward),
                        made.transfer.forward + made.transfer.backward);
    return made;
}

/* Latency of everything up to and with `last`, which ends the model. */
static double whole_latency(struct search *s, const struct prefix *last, bool *ret_fits)
{
    const struct dapple_question *q = s->q;
    const struct prefix *at = last;
    uint32_t n = 2 * last->n_stages - 1, i = n, held = 1;

    *ret_fits = true;
    if (n > MOST_STEPS) {
        return INFINITY;
    }
    for (;;) {
        *ret_fits = *ret_fits && fits(q, at->from, at->to, at->degree, held++);
        s->steps[--i] = at->stage;
        if (i == 0) {
            break;
        }
        s->steps[--i] = at->transfer;
        at = &s->prefixes[at->parent];
    }
    return dapple_latency(s->steps, n, q->m, NULL);
}

/* The rest behind prefix p as one stage, on as many devices as there are. */
static double complete(struct search *s, uint32_t p, struct prefix *ret_last, uint16_t *room)
{
    const struct dapple_question *q = s->q;
    const uint16_t *used = row(s, s->prefixes[p].occupancy);
    double best = INFINITY;
    uint32_t i, taken = 0, policy, k = q->n_degrees;

    for (i = 0; i < q->machines.n_machines; i++) {
        taken += used[i];
    }
    while (k > 0 && q->degrees[k - 1] > q->machines.n_devices - taken) {
        k--;
    }
    for (policy = 0; k > 0 && policy < DAPPLE_POLICIES; policy++) {
        uint32_t machine;
        struct prefix last;
        double latency;
        bool all_fit;

        dapple_place(&q->machines, used, q->degrees[k - 1], policy, room, &machine);
        last = make(s, p, q->n, k - 1, machine);
        latency = whole_latency(s, &last, &all_fit);
        if (latency < best * (1 - DAPPLE_SAME)) {
            best = latency;
            *ret_last = last;
            ret_last->occupancy = policy;
        }
        if (all_fit && latency < s->best_latency * (1 - DAPPLE_SAME)) {
            s->best_latency = latency;
            s->best = p;
            s->best_alone = true;
        }
    }
    return best;
}

static uint64_t hash(uint32_t position, const uint16_t *used, uint32_t n)
{
    uint64_t h = position * 0x9E3779B97F4A7C15;
    uint32_t i;

    for (i = 0; i < n; i++) {
        h = (h ^ used[i]) * 0xBF58476D1CE4E5B9;
        h ^= h >> 29;
    }
    return h;
}

static bool rehash(struct search *s)
{
    uint32_t *old = s->table, n = s->q->machines.n_machines;
    size_t i, h;

    s->table_size = s->table_size == 0 ? 1024 : s->table_size * 2;
    s->table = calloc(s->table_size, sizeof *s->table);
    free(old);
    if (s->table == NULL) {
        return false;
    }
    for (i = 0; i < s->n_states; i++) {
        h = hash(s->states[i].position, row(s, s->states[i].occupancy), n) & (s->table_size - 1);
        while (s->table[h] != 0) {
            h = (h + 1) & (s->table_size - 1);
        }
        s->table[h] = (uint32_t)i + 1;
    }
    return true;
}

/* The state of a position and occupancy; UINT32_MAX: no memory. */
static uint32_t state_of(struct search *s, uint32_t position, const uint16_t *used)
{
    uint32_t n = s->q->machines.n_machines;
    struct state *made;
    size_t h;

    if (2 * s->n_states >= s->table_size && !rehash(s)) {
        return UINT32_MAX;
    }
    h = hash(position, used, n) & (s->table_size - 1);
    for (; s->table[h] != 0; h = (h + 1) & (s->table_size - 1)) {
        const struct state *found = &s->states[s->table[h] - 1];

        if (found->position == position &&
            memcmp(row(s, found->occupancy), used, n * sizeof *used) == 0) {
            return s->table[h] - 1;
        }
    }
    if (!part_grow(&s->states, sizeof *s->states, s->n_states + 1, &s->room_states) ||
        !part_grow(&s->rows, n * sizeof *s->rows, s->n_rows + 1, &s->room_rows)) {
        return UINT32_MAX;
    }
    memcpy(s->rows + s->n_rows * n, used, n * sizeof *used);
    made = &s->states[s->n_states];
    *made = (struct state){position, (uint32_t)s->n_rows++, 0, 0, s->first_state[position]};
    s->table[h] = (uint32_t)++s->n_states;
    s->first_state[position] = (uint32_t)s->n_states;
    return (uint32_t)s->n_states - 1;
}

/* Into its state's list, ascending by latency; the last one leaves where the beam is full. */
static void insert(struct search *s, uint32_t state, uint32_t p)
{
    uint32_t *at = &s->states[state].head, i;

    while (*at != 0 && s->prefixes[*at].latency <= s->prefixes[p].latency * (1 + DAPPLE_SAME)) {
        at = &s->prefixes[*at].next;
    }
    s->prefixes[p].next = *at;
    *at = p;
    if (s->q->beam != 0 && ++s->states[state].count > s->q->beam) {
        at = &s->states[state].head;
        for (i = 0; i < s->q->beam; i++) {
            at = &s->prefixes[*at].next;
        }
        *at = 0;
        s->states[state].count = s->q->beam;
    }
}

/*
 * No plan that goes on from this stage takes less. The latency is at least m (F + B) of any of its
 * steps: of the pivot by its form, of others since the pivot waits for none. And some stage of the
 * rest takes its share of what is left, at the degree that shares best.
 */
static double least_latency(const struct dapple_question *q, const struct prefix *made,
                            const uint16_t *used)
{
    uint32_t i, k, left = q->machines.n_devices;
    double rest = INFINITY;

    for (i = 0; i < q->machines.n_machines; i++) {
        left -= used[i];
    }
    for (k = 0; k < q->n_degrees; k++) {
        rest = fmin(rest, q->degrees[k] * (q->forward[k][q->n] - q->forward[k][made->to] +
                                           q->backward[k][q->n] - q->backward[k][made->to]));
    }
    return left == 0 ? INFINITY : q->m * fmax(made->slowest, rest / left) * (1 - 1e-12);
}

/* One more stage behind prefix p. */
static pst_status add(struct search *s, uint32_t p, uint32_t to, uint32_t k, uint32_t policy,
                      uint16_t *room)
{
    const struct dapple_question *q = s->q;
    struct prefix made, last;
    uint32_t machine, state;

    if (!dapple_place(&q->machines, row(s, s->prefixes[p].occupancy), q->degrees[k], policy, room,
                      &machine)) {
        return PST_OK;
    }
    made = make(s, p, to, k, machine);
    if (least_latency(q, &made, room) >= s->best_latency * (1 - DAPPLE_SAME) ||
        !fits(q, made.from, to, made.degree, 2)) {
        return PST_OK; /* never better; never fits with a stage behind it */
    }
    state = state_of(s, to, room);
    if (state == UINT32_MAX ||
        !part_grow(&s->prefixes, sizeof *s->prefixes, s->n_prefixes + 1, &s->room_prefixes)) {
        return PST_ERR_NOMEM;
    }
    made.occupancy = s->states[state].occupancy;
    s->prefixes[s->n_prefixes] = made;
    made.latency = complete(s, (uint32_t)s->n_prefixes, &last, room);
    s->prefixes[s->n_prefixes].latency = made.latency;
    if (!isinf(made.latency)) {
        insert(s, state, (uint32_t)s->n_prefixes++);
    }
    return PST_OK;
}

static pst_status extend(struct search *s, uint32_t p, uint16_t *room)
{
    const struct dapple_question *q = s->q;
    uint32_t to, k, policy;

    for (to = s->prefixes[p].to + 1; to < q->n; to++) {
        for (k = 0; k < q->n_degrees; k++) {
            for (policy = 0; policy < DAPPLE_POLICIES; policy++) {
                pst_status st = add(s, p, to, k, policy, room);

                if (st != PST_OK) {
                    return st;
                }
                if (q->machines.n_machines == 1) {
                    break; /* all policies are one */
                }
            }
        }
        if (stopped(s)) {
            return PST_ERR_CANCELLED;
        }
    }
    return PST_OK;
}

static pst_status run(struct search *s, uint16_t *room)
{
    uint32_t position, state, p;
    struct prefix last;
    pst_status st = PST_OK;

    complete(s, NO_PREFIX, &last, room);
    st = extend(s, NO_PREFIX, room);
    for (position = 1; st == PST_OK && position < s->q->n; position++) {
        for (state = s->first_state[position]; state != 0; state = s->states[state - 1].chain) {
            for (p = s->states[state - 1].head; st == PST_OK && p != 0; p = s->prefixes[p].next) {
                st = extend(s, p, room);
            }
        }
    }
    return st;
}

/* Stages of the best completion, and their ranks. */
static pst_status unroll(struct search *s, struct dapple_answer *answer, uint16_t *room)
{
    const struct dapple_machines *m = &s->q->machines;
    uint32_t p, i, n = s->prefixes[s->best].n_stages + 1, rank = m->n_devices;
    struct prefix last;
    uint16_t *after;

    answer->stages = calloc(n, sizeof *answer->stages);
    answer->ranks = calloc((size_t)m->n_devices + 1, sizeof *answer->ranks);
    after = calloc((size_t)m->n_machines + 1, sizeof *after);
    if (answer->stages == NULL || answer->ranks == NULL || after == NULL) {
        free(after);
        return PST_ERR_NOMEM;
    }
    answer->n_stages = n;
    answer->latency = s->best_latency;
    /* Again, with the placement that gave this latency. */
    for (i = 0; i < DAPPLE_POLICIES; i++) {
        uint32_t machine, k;
        bool all_fit;

        complete(s, s->best, &last, room);
        for (k = 0; s->q->degrees[k] != last.degree; k++) {
        }
        dapple_place(m, row(s, s->prefixes[s->best].occupancy), last.degree, i, after, &machine);
        last = make(s, s->best, s->q->n, k, machine);
        if (whole_latency(s, &last, &all_fit) <= s->best_latency && all_fit) {
            break;
        }
    }
    rank -= dapple_ranks(m, row(s, s->prefixes[s->best].occupancy), after, answer->ranks);
    memmove(answer->ranks + rank, answer->ranks, last.degree * sizeof *answer->ranks);
    answer->stages[n - 1] = (struct dapple_stage){last.from, last.to, last.degree, rank};
    for (p = s->best, i = n - 1; p != NO_PREFIX; p = s->prefixes[p].parent) {
        const struct prefix *at = &s->prefixes[p];
        uint32_t ranks = at->degree;

        rank -= ranks;
        dapple_ranks(m, row(s, s->prefixes[at->parent].occupancy), row(s, at->occupancy),
                     answer->ranks + rank);
        answer->stages[--i] = (struct dapple_stage){at->from, at->to, ranks, rank};
    }
    free(after);
    return PST_OK;
}

pst_status dapple_solve(const struct dapple_question *q, struct dapple_answer *ret_answer)
{
    struct search *s = calloc(1, sizeof *s);
    uint16_t *room = calloc((size_t)q->machines.n_machines + 1, sizeof *room);
    struct dapple_answer answer = {.latency = INFINITY};
    pst_status st = PST_ERR_NOMEM;

    if (s == NULL || room == NULL) {
        goto out;
    }
    s->q = q;
    s->best_latency = INFINITY;
    s->first_state = calloc((size_t)q->n + 1, sizeof *s->first_state);
    if (s->first_state == NULL ||
        !part_grow(&s->prefixes, sizeof *s->prefixes, 1, &s->room_prefixes) ||
        !part_grow(&s->rows, q->machines.n_machines * sizeof *s->rows, 1, &s->room_rows)) {
        goto out;
    }
    /* Prefix 0 is empty, row 0 all free. */
    memset(s->prefixes, 0, sizeof *s->prefixes);
    memset(s->rows, 0, q->machines.n_machines * sizeof *s->rows);
    s->prefixes[0].machine = UINT32_MAX;
    s->n_prefixes = s->n_rows = 1;
    st = run(s, room);
    if (st == PST_OK && s->best_alone) {
        st = unroll(s, &answer, room);
    }
    answer.states = s->n_states;
out:
    if (s != NULL) {
        free(s->prefixes);
        free(s->states);
        free(s->rows);
        free(s->table);
        free(s->first_state);
    }
    free(s);
    free(room);
    if (st != PST_OK) {
        dapple_answer_finish(&answer);
        return st;
    }
    *ret_answer = answer;
    return PST_OK;
}
