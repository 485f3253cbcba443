/* SPDX-License-Identifier: Apache-2.0 */
#include "search.h"

#include <math.h>
#include <string.h>

#include "front.h"
#include "seats.h"

enum { SKETCH = 4, PLACES = 128 }; /* ways and places of a first plan to hold others against */
/* Ways looked at, after which no wider beam is tried, and after which a beam is given up. */
enum { ENOUGH = 500000, MOST = 4 * ENOUGH };
enum { ALL = UINT32_MAX }; /* degrees */

/* Before a place, with the last stage in a seat. */
struct state {
    uint32_t position, seat, chain;  /* chain: next state of the position + 1; 0 ends */
    double slowest, passes, forward; /* the least that F + B of a step, those of all steps, and F of
                                        all can be up to here */
    size_t first, n;                 /* of s->ways: how it goes on */
};

/* The stages that begin at the current position, by seat. */
struct start {
    uint32_t position;
    size_t first, n; /* of s->starting */
};

struct search {
    const struct dapple_question *q;
    /* Options of this pass. only: degrees[only] but for the last stage, or ALL; stages end at
       multiples of stride. */
    uint32_t only, beam, stride;
    struct dapple_seats seats;
    struct state *states;
    struct part_map known; /* state, by position and seat */
    uint32_t *first_state; /* [n + 1] state + 1 by position */
    struct start *starts;  /* [seats] */
    struct dapple_front scratch, ways, starting;
    double *rest; /* [n + 1] work after a position, at the degree that shares best */
    size_t n_states, room_states, room_starts;
    double limit; /* nothing that takes as long is of use */
    struct dapple_answer best;
    uint64_t polls;
    bool enough; /* the beam was given up */
};

static double transfer(const struct dapple_question *q, double bytes, uint32_t d, uint32_t next_d,
                       uint32_t machine, uint32_t next_machine)
{
    double rate = machine != UINT32_MAX && machine == next_machine ? q->inside : q->between;
    uint32_t least = d < next_d ? d : next_d;

    return rate > 0 ? bytes / (rate * least) : 0;
}

static double allreduce(const struct dapple_question *q, double bytes, uint32_t d, uint32_t machine)
{
    double rate = machine != UINT32_MAX ? q->sync_inside : q->sync_between;

    return rate > 0 ? 2.0 * (d - 1) / d * bytes / rate : 0;
}

/* Ends the passes over all degrees once they have looked long enough. */
static void poll(struct search *s)
{
    s->enough = s->q->beam > 0 && s->best.stages != NULL && s->only == ALL && s->polls > MOST;
    if (s->enough) {
        call_end(PST_ERR_CANCELLED);
    }
    if ((++s->polls & 0x3FF) == 0) {
        call_go_on(s->q->host);
    }
}

/* --- stages and transfers ----------------------------------------------------------------------*/

static struct dapple_step stage_of(const struct search *s, uint32_t from, uint32_t to,
                                   const struct dapple_seat *seat)
{
    const struct dapple_question *q = s->q;
    const double *f = q->forward[seat->k], *b = q->backward[seat->k];

    return (struct dapple_step){
        f[to] - f[from], b[to] - b[from],
        allreduce(q, q->weight[to] - q->weight[from], q->degrees[seat->k], seat->machine)};
}

/* None in front of the first stage. */
static struct dapple_step transfer_of(const struct search *s, const struct state *from,
                                      uint32_t next)
{
    const struct dapple_seat *a = &s->seats.seats[from->seat], *b = &s->seats.seats[next];
    double time = from->seat == DAPPLE_NO_SEAT
                      ? 0
                      : transfer(s->q, s->q->cut[from->position], s->q->degrees[a->k],
                                 s->q->degrees[b->k], a->machine, b->machine);

    return (struct dapple_step){time, time, 0};
}

static double own(const struct dapple_step *step)
{
    return step->forward + step->backward;
}

/* Bytes of a stage that holds `held` micro-batches. */
static bool fits(const struct dapple_question *q, uint32_t from, uint32_t to, uint32_t d,
                 uint32_t held, double work)
{
    double bytes;

    held = held < q->m ? held : q->m;
    bytes = q->weight_multiplier * (q->weight[to] - q->weight[from]) +
            (q->saved[to] - q->saved[from]) * ((double)q->b * held) / d + work;
    return bytes <= q->capacity * (1 + 1e-12);
}

static bool limited(const struct search *s)
{
    return !isinf(s->q->capacity);
}

/* --- forth: which states are worth it ----------------------------------------------------------*/

static uint64_t number_of(const struct search *s, uint32_t position, uint32_t seat)
{
    return (uint64_t)seat * (s->q->n + 1) + position + 1;
}

static uint32_t state_of(struct search *s, uint32_t position, uint32_t seat)
{
    uint64_t number = number_of(s, position, seat);
    uint32_t *at = part_map_find(&s->known, number);

    if (at != NULL) {
        return *at;
    }
    part_grow(&s->states, sizeof *s->states, s->n_states + 1, &s->room_states);
    at = part_map_put(&s->known, number);
    *at = (uint32_t)s->n_states;
    s->states[s->n_states] = (struct state){
        position, seat, s->first_state[position], INFINITY, INFINITY, INFINITY, 0, 0};
    s->first_state[position] = (uint32_t)s->n_states + 1;
    return (uint32_t)s->n_states++;
}

/* A stage in `seat` after a state, ended at every place where that can be of use. */
static void reach_from(struct search *s, uint32_t from, uint32_t seat_)
{
    const struct dapple_question *q = s->q;
    const struct dapple_seat seat = s->seats.seats[seat_];
    const struct state before = s->states[from];
    struct dapple_step link = transfer_of(s, &before, seat_);
    double work = 0;
    uint32_t to;

    for (to = before.position + 1; to < q->n; to++) {
        struct dapple_step stage = stage_of(s, before.position, to, &seat);
        double slowest = fmax(fmax(before.slowest, own(&link)), own(&stage));
        struct state *state;
        uint32_t found;

        work = fmax(work, q->workspace[to - 1]);
        if (q->m * slowest >= s->limit ||
            !fits(q, before.position, to, q->degrees[seat.k], 2, work)) {
            break; /* longer ones neither */
        }
        if (to % s->stride != 0 || q->m * (s->rest[to] / seat.left) >= s->limit) {
            continue;
        }
        found = state_of(s, to, seat_);
        state = &s->states[found];
        state->slowest = fmin(state->slowest, slowest);
        state->passes = fmin(state->passes, before.passes + own(&link) + own(&stage));
        state->forward = fmin(state->forward, before.forward + link.forward + stage.forward);
        poll(s);
    }
}

static void reach(struct search *s)
{
    uint32_t position, at, i;

    s->n_states = 0;
    part_map_clear(&s->known);
    memset(s->first_state, 0, ((size_t)s->q->n + 1) * sizeof *s->first_state);
    state_of(s, 0, DAPPLE_NO_SEAT);
    s->states[0].slowest = s->states[0].passes = s->states[0].forward = 0;
    for (position = 0; position < s->q->n; position++) {
        for (at = s->first_state[position]; at != 0; at = s->states[at - 1].chain) {
            uint32_t seat = s->states[at - 1].seat;

            if (!dapple_seats_list(&s->seats, seat)) {
                call_end(PST_ERR_NOMEM);
            }
            for (i = 0; i < s->seats.seats[seat].n; i++) {
                uint32_t next = s->seats.next[s->seats.seats[seat].first + i];
                const struct dapple_seat *sits = &s->seats.seats[next];

                if (sits->left >= s->q->degrees[0] && (s->only == ALL || sits->k == s->only)) {
                    reach_from(s, at - 1, next);
                }
            }
        }
    }
}

/* --- back: how it goes on from them ------------------------------------------------------------*/

/* No plan with these last steps takes less: either none in front of them takes over the pivot, or
   one does, and then waits for nobody. */
static double least_latency(const struct search *s, const struct state *at,
                            const struct dapple_tail *tail)
{
    double alone = tail->passes + fmax(at->passes, tail->sync + at->forward);

    if (at->position == 0) {
        return alone;
    }
    return fmax(s->q->m * at->slowest, fmin(alone, tail->hold * s->q->m / (s->q->m - 1)));
}

/* Adds a way to go on from a state, if it may be of use. */
static void offer(struct search *s, const struct state *at, struct dapple_way *way)
{
    way->value = least_latency(s, at, &way->tail);
    if (way->value < s->limit) {
        dapple_front_add(&s->scratch, way, limited(s));
    }
    poll(s);
}

/* Narrows the ways that were added, and appends them to the list. */
static void put_down(struct search *s, struct dapple_front *list)
{
    dapple_front_narrow(&s->scratch, s->beam, limited(s));
    part_grow(&list->ways, sizeof *list->ways, list->n + s->scratch.n + 1, &list->room);
    if (s->scratch.n > 0) {
        memcpy(list->ways + list->n, s->scratch.ways, s->scratch.n * sizeof *list->ways);
    }
    list->n += s->scratch.n;
    s->scratch.n = 0;
}

/* A stage up to there, with every way to go on after it. at: least of all states of the position
   that it begins at. */
static void try_stage(struct search *s, const struct state *at, const struct dapple_step *stage,
                      uint32_t seat, uint32_t to, double work)
{
    const struct dapple_question *q = s->q;
    const uint32_t *found = part_map_find(&s->known, number_of(s, to, seat));
    uint32_t degree = q->degrees[s->seats.seats[seat].k];
    size_t i, first, n;

    if (to == q->n) {
        struct dapple_way last = {
            .tail = dapple_tail_last(stage, q->m),
            .n_stages = 1,
            .seat = seat,
            .to = to,
            .next = DAPPLE_END,
        };

        if (s->seats.seats[seat].ends && fits(q, at->position, to, degree, 1, work)) {
            offer(s, at, &last);
            return;
        }
        return;
    }
    n = found == NULL ? 0 : s->states[*found].n;
    first = found == NULL ? 0 : s->states[*found].first;
    for (i = first; i < first + n; i++) {
        struct dapple_way way = s->ways.ways[i];

        dapple_tail_before(&way.tail, stage, q->m);
        way.n_stages++;
        way.seat = seat;
        way.to = to;
        way.next = (uint32_t)i;
        if (fits(q, at->position, to, degree, way.n_stages, work)) {
            offer(s, at, &way);
        }
    }
}

/* All stages in a seat from a position on. */
static void begin_in(struct search *s, const struct state *at, uint32_t seat)
{
    struct start *start;
    double work = 0;
    uint32_t to;

    if (seat >= s->room_starts) {
        size_t before = s->room_starts;

        part_grow(&s->starts, sizeof *s->starts, s->seats.n_seats, &s->room_starts);
        memset(s->starts + before, 0xFF, (s->room_starts - before) * sizeof *s->starts);
    }
    start = &s->starts[seat];
    if (start->position == at->position) {
        return;
    }
    for (to = at->position + 1; to <= s->q->n; to++) {
        struct dapple_step stage = stage_of(s, at->position, to, &s->seats.seats[seat]);

        if (s->q->m * own(&stage) >= s->limit) {
            break; /* longer ones, too */
        }
        work = fmax(work, s->q->workspace[to - 1]);
        try_stage(s, at, &stage, seat, to, work);
    }
    *start = (struct start){at->position, s->starting.n, s->scratch.n};
    put_down(s, &s->starting);
    start->n = s->starting.n - start->first;
}

/* All stages after a state, in every seat. */
static void go_on(struct search *s, struct state *state, const struct state *least)
{
    const struct dapple_seat *seat = &s->seats.seats[state->seat];
    const uint32_t *next = &s->seats.next[seat->first];
    uint32_t i;
    size_t k;

    for (i = 0; i < seat->n; i++) {
        begin_in(s, least, next[i]);
    }
    for (i = 0; i < seat->n; i++) {
        const struct start *start = &s->starts[next[i]];
        struct dapple_step link = transfer_of(s, state, next[i]);

        for (k = 0; k < start->n; k++) {
            struct dapple_way way = s->starting.ways[start->first + k];

            if (state->seat != DAPPLE_NO_SEAT) {
                dapple_tail_before(&way.tail, &link, s->q->m);
            }
            offer(s, state, &way);
        }
    }
    state->first = s->ways.n;
    put_down(s, &s->ways);
    state->n = s->ways.n - state->first;
}

static void come_back(struct search *s)
{
    uint32_t position, at;

    s->ways.n = s->scratch.n = 0;
    if (s->room_starts > 0) {
        memset(s->starts, 0xFF, s->room_starts * sizeof *s->starts);
    }
    for (position = s->q->n; position-- > 0;) {
        struct state least = {position, 0, 0, INFINITY, INFINITY, INFINITY, 0, 0};

        s->starting.n = 0;
        for (at = s->first_state[position]; at != 0; at = s->states[at - 1].chain) {
            least.slowest = fmin(least.slowest, s->states[at - 1].slowest);
            least.passes = fmin(least.passes, s->states[at - 1].passes);
            least.forward = fmin(least.forward, s->states[at - 1].forward);
        }
        for (at = s->first_state[position]; at != 0; at = s->states[at - 1].chain) {
            go_on(s, &s->states[at - 1], &least);
        }
    }
}

/* --- the answer --------------------------------------------------------------------------------*/

/* Keeps the best way from the beginning on, where there is one. */
static void keep(struct search *s)
{
    const struct dapple_machines *machines = &s->q->machines;
    const struct dapple_way *way, *best = NULL;
    struct dapple_answer answer = {.states = s->n_states};
    uint32_t from = 0, seat = DAPPLE_NO_SEAT, rank = 0;
    size_t i;

    for (i = 0; i < s->states[0].n; i++) {
        way = &s->ways.ways[s->states[0].first + i];
        if (best == NULL || way->value < best->value * (1 - DAPPLE_SAME) ||
            (way->value <= best->value * (1 + DAPPLE_SAME) && way->n_stages < best->n_stages)) {
            best = way;
        }
    }
    if (best == NULL) {
        s->best.states = s->n_states;
        return;
    }
    CALL_TAKE(answer.stages, best->n_stages);
    CALL_TAKE(answer.ranks, machines->n_devices);
    answer.latency = best->value;
    for (way = best;; way = &s->ways.ways[way->next]) {
        uint32_t degree =
            dapple_ranks(machines, dapple_seats_taken(&s->seats, seat),
                         dapple_seats_taken(&s->seats, way->seat), answer.ranks + rank);

        answer.stages[answer.n_stages++] = (struct dapple_stage){from, way->to, degree, rank};
        rank += degree;
        from = way->to;
        seat = way->seat;
        if (way->next == DAPPLE_END) {
            break;
        }
    }
    s->best = answer;
    s->limit = answer.latency * (1 - DAPPLE_SAME);
}

static void pass(struct search *s, uint32_t only, uint32_t beam, uint32_t stride)
{
    s->only = only;
    s->beam = beam;
    s->stride = stride;
    reach(s);
    come_back(s);
    keep(s);
}

/* Tries all degrees, up to the beam that was asked for or as wide as the problem is small. 0:
   without a beam, at once. A search that is given up leaves the best plan so far. */
static void widen(struct search *s)
{
    uint32_t beam = s->q->beam > 0 ? 1 : 0;

    pass(s, ALL, beam, 1);
    while (beam < s->q->beam && s->polls < ENOUGH) {
        beam = beam > s->q->beam / 4 ? s->q->beam : 4 * beam;
        pass(s, ALL, beam, 1);
    }
}

static pst_status all_degrees(void *search)
{
    struct search *s = search;

    if (s->stride == 1) {
        widen(s);
    } else {
        pass(s, ALL, SKETCH, s->stride);
    }
    return PST_OK;
}

/* Every pass leaves out what cannot be better than the best plan of those before, so cheap ones
   come first: fewer places, one degree for all stages but the last. */
static void try_passes(struct search *s)
{
    uint32_t k, stride = 1 + s->q->n / PLACES;
    pst_status status;

    for (;; stride = 1) {
        for (k = s->q->n_degrees; k-- > 0;) {
            pass(s, k, SKETCH, stride);
        }
        s->stride = stride;
        status = call_try(all_degrees, s);
        if (!s->enough) {
            call_check(status);
        }
        if (stride == 1) {
            return;
        }
    }
}

static void prepare(struct search *s, const struct dapple_question *q)
{
    uint32_t i, k;

    memset(s, 0, sizeof *s);
    s->q = q;
    s->limit = s->best.latency = INFINITY;
    s->known.value_size = sizeof(uint32_t);
    CALL_TAKE(s->first_state, (size_t)q->n + 1);
    CALL_TAKE(s->rest, (size_t)q->n + 1);
    dapple_seats_init(&s->seats, &q->machines, q->degrees, q->n_degrees);
    for (i = 0; i <= q->n; i++) {
        s->rest[i] = INFINITY;
        for (k = 0; k < q->n_degrees; k++) {
            s->rest[i] =
                fmin(s->rest[i], q->degrees[k] * (q->forward[k][q->n] - q->forward[k][i] +
                                                  q->backward[k][q->n] - q->backward[k][i]));
        }
    }
}

void dapple_solve(const struct dapple_question *q, struct dapple_answer *ret_answer)
{
    struct search s;

    prepare(&s, q);
    try_passes(&s);
    part_map_finish(&s.known);
    *ret_answer = s.best;
}
