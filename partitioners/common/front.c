/* SPDX-License-Identifier: Apache-2.0
 *
 * Is there a cut at T? In 1F1B a stage holds as many micro-batches as there are stages from it to
 * the end, so the line is cut from its end: for every number of devices (and of stages, where
 * memory or their number is limited), how far to the left can they reach? With transfers free the
 * furthest position is the best; otherwise a few that trade reach against transfers are kept.
 */

#include "chain_line.h"

#define NONE       UINT32_MAX
#define SLOT_MAX   8u  /* positions kept of one number of devices */
#define LOOK_AHEAD 64u /* positions tried after the furthest */

struct state {
    uint32_t at, used, parent, k;
};

struct slot {
    uint32_t n, states[SLOT_MAX];
};

struct front {
    struct state *states;
    uint32_t n_states, room;
    struct slot *now, *next; /* [D + 1] by devices used */
    uint32_t *furthest;      /* [D + 1] state of fewer stages and at most that many devices */
    uint32_t slot_max;
    uint64_t looks;      /* starts offered */
    int64_t ticks;       /* T of this probe */
    int64_t *most_cross; /* [degrees] over all positions; NULL: transfers free */
    bool *inexact;
};

/* Transfers beside compute that fit T whatever the other end of a stage has. */
static bool is_free(const struct line *l, const struct front *f, uint32_t at, uint32_t k)
{
    return l->cross[k][at] + f->most_cross[k] <= f->ticks;
}

/* Can whatever is done from b be done from a? */
static bool dominates(const struct line *l, const struct front *f, uint32_t a, uint32_t b)
{
    uint32_t k;

    if (a > b) {
        return false;
    }
    for (k = 0; l->cross != NULL && k < l->n_degrees; k++) {
        if (l->sync != NULL ? l->cross[k][a] > l->cross[k][b] && !is_free(l, f, a, k)
                            : l->work[k][a] + l->cross[k][a] > l->work[k][b] + l->cross[k][b]) {
            return false;
        }
    }
    return true;
}

static void add_state(struct front *f, struct state state, uint32_t *ret_index)
{
    CALL_MAKE_ROOM(f->states, f->n_states, f->room);
    f->states[f->n_states] = state;
    *ret_index = f->n_states++;
}

/* Into the slot of its number of devices, unless one there is as good. */
static void offer(const struct line *l, struct front *f, struct state state)
{
    struct slot *slot = &f->next[state.used];
    uint32_t i, kept = 0, last = 0;

    for (i = 0; i < slot->n; i++) {
        if (dominates(l, f, f->states[slot->states[i]].at, state.at)) {
            return;
        }
    }
    for (i = 0; i < slot->n; i++) {
        if (!dominates(l, f, state.at, f->states[slot->states[i]].at)) {
            slot->states[kept++] = slot->states[i];
        }
    }
    slot->n = kept;
    if (slot->n == f->slot_max) {
        *f->inexact = true;
        for (i = 1; i < slot->n; i++) {
            if (f->states[slot->states[i]].at > f->states[slot->states[last]].at) {
                last = i;
            }
        }
        if (f->states[slot->states[last]].at <= state.at) {
            return;
        }
        slot->states[last] = slot->states[--slot->n];
    }
    add_state(f, state, &slot->states[slot->n++]);
}

/* The leftmost i from which [i, j) fits but for transfers; j: none. Both conditions grow with the
   range, so halving finds it. */
static uint32_t leftmost(const struct line *l, uint32_t j, uint32_t k, uint32_t depth,
                         int64_t ticks)
{
    uint32_t low = 0, high = j;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (line_works(l, middle, j, k, ticks) && line_fits(l, middle, j, k, depth)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static bool transfers_fit(const struct line *l, uint32_t i, uint32_t j, uint32_t k, int64_t ticks)
{
    int64_t both = l->cross[k][i] + l->cross[k][j];

    return l->sync != NULL ? both <= ticks : l->work[k][j] - l->work[k][i] + both <= ticks;
}

/* Is every start from i on worse than `last`? Its own transfers cannot make up for the work. */
static bool is_over(const struct line *l, const struct front *f, uint32_t last, uint32_t i)
{
    uint32_t k;

    for (k = 0; k < l->n_degrees; k++) {
        if (l->sync != NULL ? !is_free(l, f, last, k)
                            : l->work[k][i] < l->work[k][last] + l->cross[k][last]) {
            return false;
        }
    }
    return true;
}

/* All starts worth having of a stage that ends at the state's position. */
static void extend(const struct line *l, struct front *f, uint32_t parent, uint32_t k,
                   uint32_t depth, int64_t ticks)
{
    uint32_t j = f->states[parent].at, used = f->states[parent].used + l->costs->degrees[k];
    uint32_t i, last = NONE, tried = 0;

    if (used > l->max_devices) {
        return;
    }
    for (i = leftmost(l, j, k, depth, ticks); i < j; i++) {

        if (last != NONE && (l->cross == NULL || is_over(l, f, last, i))) {
            break;
        }
        if (++tried > LOOK_AHEAD) {
            *f->inexact = true;
            break;
        }
        if ((l->cross != NULL && !transfers_fit(l, i, j, k, ticks)) ||
            (last != NONE && dominates(l, f, last, i))) {
            continue;
        }
        last = i;
        if (l->least[i] > (int64_t)(l->max_devices - used) * ticks) {
            continue; /* the devices left cannot do what is left of i */
        }
        f->looks++;
        offer(l, f, (struct state){i, used, parent, k});
    }
}

/* Drops of one number of devices what `best` can do as well; best: the furthest state of no more
   stages and no more devices, then with these. */
static void settle(const struct line *l, struct front *f, struct slot *slot, uint32_t *best)
{
    uint32_t i, kept = 0;

    for (i = 0; i < slot->n; i++) {
        if (*best == NONE || !dominates(l, f, f->states[*best].at, f->states[slot->states[i]].at)) {
            slot->states[kept++] = slot->states[i];
        }
    }
    slot->n = kept;
    for (i = 0; i < slot->n; i++) {
        if (*best == NONE || f->states[slot->states[i]].at < f->states[*best].at) {
            *best = slot->states[i];
        }
    }
}

static void read_cuts(const struct line *l, const struct front *f, uint32_t state,
                      struct cuts *cuts)
{
    cuts->n = 0;
    for (; f->states[state].parent != NONE; state = f->states[state].parent) {
        cuts->first[cuts->n] = f->states[state].at;
        cuts->k[cuts->n++] = f->states[state].k;
    }
    cuts->first[cuts->n] = l->n;
}

/* A stage in front of each state of one number of devices. */
static void grow(struct probe *probe, const struct slot *slot, uint32_t depth, int64_t ticks)
{
    const struct line *l = probe->line;
    struct front *f = probe->scratch;
    uint32_t i, k;

    for (i = 0; i < slot->n; i++) {
        f->looks += (l->layered ? 16 : 1) * l->n_degrees; /* searches in prefix sums */
        for (k = 0; k < l->n_degrees; k++) {
            extend(l, f, slot->states[i], k, depth, ticks);
        }
    }
}

/* From states of depth - 1 stages to those of one more. */
static void grow_layer(struct probe *probe, uint32_t depth, int64_t ticks)
{
    const struct line *l = probe->line;
    struct front *f = probe->scratch;
    uint32_t used, best = NONE;

    for (used = 0; used <= l->max_devices; used++) {
        f->next[used].n = 0;
    }
    for (used = 0; used < l->max_devices; used++) {
        grow(probe, &f->now[used], depth, ticks);
        if (used % 64 == 0) {
            call_go_on(l->problem->host);
        }
    }
    for (used = 0; used <= l->max_devices; used++) {
        uint32_t mine = f->furthest[used];

        if (best == NONE || (mine != NONE && f->states[mine].at < f->states[best].at)) {
            best = mine;
        }
        settle(l, f, &f->next[used], &best);
        f->furthest[used] = best;
    }
}

/* Where the number of stages does not matter: states of more devices come of those of fewer. */
static void grow_all(struct probe *probe, int64_t ticks)
{
    const struct line *l = probe->line;
    struct front *f = probe->scratch;
    uint32_t used, best = NONE;

    f->next = f->now;
    for (used = 0; used <= l->max_devices; used++) {
        settle(l, f, &f->now[used], &best);
        grow(probe, &f->now[used], 0, ticks);
        if (used % 64 == 0) {
            call_go_on(l->problem->host);
        }
    }
}

static void swap(struct front *f)
{
    struct slot *slots = f->now;

    f->now = f->next;
    f->next = slots;
}

/* A state at 0 of least devices; NONE. *ret_any: is there any state at all? */
static uint32_t arrived(const struct line *l, const struct front *f, bool *ret_any)
{
    uint32_t used, i;

    *ret_any = false;
    for (used = 0; used <= l->max_devices; used++) {
        for (i = 0; i < f->now[used].n; i++) {
            *ret_any = true;
            if (f->states[f->now[used].states[i]].at == 0) {
                return f->now[used].states[i];
            }
        }
    }
    return NONE;
}

static void run(struct probe *probe, int64_t ticks, bool *ret_found, struct cuts *cuts)
{
    const struct line *l = probe->line;
    struct front *f = probe->scratch;
    uint32_t depth, used, last = NONE;
    bool any = true;

    f->n_states = 0;
    f->ticks = ticks;
    for (used = 0; used <= l->max_devices; used++) {
        f->now[used].n = 0;
        f->furthest[used] = NONE;
    }
    add_state(f, (struct state){l->n, 0, NONE, 0}, &f->now[0].states[0]);
    f->now[0].n = 1;
    if (!l->layered) {
        grow_all(probe, ticks);
        last = arrived(l, f, &any);
    }
    for (depth = 1; l->layered && any && last == NONE && depth <= l->max_stages; depth++) {
        grow_layer(probe, depth, ticks);
        swap(f);
        last = arrived(l, f, &any);
    }
    probe->stats->states += f->looks;
    f->looks = 0;
    *ret_found = last != NONE;
    if (*ret_found) {
        read_cuts(l, f, last, cuts);
    }
}

static void find_most(const struct line *l, struct front *f)
{
    uint32_t k, i;

    CALL_TAKE(f->most_cross, (size_t)l->n_degrees + 1);
    for (k = 0; k < l->n_degrees; k++) {
        for (i = 0; i <= l->n; i++) {
            if (l->cross[k][i] > f->most_cross[k]) {
                f->most_cross[k] = l->cross[k][i];
            }
        }
    }
}

void front_init(struct probe *probe, bool *ret_inexact)
{
    const struct line *l = probe->line;
    struct front *f = call_alloc(1, sizeof *f);

    probe->run = run;
    probe->scratch = f;
    *ret_inexact = false;
    f->inexact = ret_inexact;
    f->slot_max = l->cross == NULL ? 1 : SLOT_MAX;
    CALL_TAKE(f->now, (size_t)l->max_devices + 1);
    f->next = l->layered ? call_alloc((size_t)l->max_devices + 1, sizeof *f->next) : NULL;
    CALL_TAKE(f->furthest, (size_t)l->max_devices + 1);
    if (l->cross == NULL) {
        return;
    }
    find_most(l, f);
}
