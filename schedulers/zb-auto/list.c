/* SPDX-License-Identifier: Apache-2.0
 *
 * With too little memory the rounds of a forward and a backward per device stall: micro-batches
 * that are in flight have gone all the way before the next ones fit. Here nothing goes in rounds.
 */
#include "list.h"

#define NEVER INT64_MAX

struct rule {
    bool forward_first;  /* where a forward and a backward are both ready */
    bool make_room;      /* a weight gradient before anything else where memory is full */
    bool backward_first; /* but not before a backward that is ready */
};

struct list {
    struct greedy *g;
    struct rule rule;
    uint32_t *window; /* [p]: forwards that a device may be ahead of its backwards */
    int64_t *next;    /* [p]: when the device can begin its next pass; NEVER: not known */
};

/* The passes that a device could do next. */
struct choice {
    int64_t f, b; /* when the next forward and backward are ready */
    bool waits;   /* a weight gradient is */
    bool full;    /* no room for the next forward */
};

static struct choice choices(const struct list *l, uint32_t d)
{
    const struct greedy *g = l->g;
    const struct greedy_device *dev = &g->dev[d];
    struct choice c = {.f = NEVER, .b = NEVER, .waits = greedy_waiting(g, d) > 0};

    c.full = dev->n_f[0] < g->m && dev->live + g->saved[d] > dev->cap;
    if (dev->n_f[0] < g->m && !c.full && dev->n_f[0] - dev->n_b[0] < l->window[d]) {
        c.f = greedy_arrival_f(g, d, 0);
    }
    if (dev->n_b[0] < dev->n_f[0]) {
        c.b = greedy_arrival_b(g, d, 0);
    }
    return c;
}

static void look(struct list *l, uint32_t d)
{
    struct choice c = choices(l, d);
    int64_t clock = l->g->dev[d].clock, first = c.f < c.b ? c.f : c.b;

    first = c.waits && first > clock ? clock : first;
    l->next[d] = first > clock ? first : clock;
}

/* The next pass of device d, which begins at `now` or, where a weight gradient would be in the way
   of a pass that comes soon, a little later. */
static void place(struct list *l, uint32_t d, int64_t now)
{
    struct greedy *g = l->g;
    struct choice c = choices(l, d);
    bool f = c.f <= now, b = c.b <= now;

    if (c.waits && c.full && l->rule.make_room && !(b && l->rule.backward_first)) {
        greedy_w(g, d);
    } else if (f && (!b || l->rule.forward_first)) {
        greedy_f(g, d, 0);
    } else if (b) {
        greedy_b(g, d, 0);
    } else {
        int64_t soon = now + g->times->w[d];

        if (c.b < soon && c.b <= c.f) {
            greedy_b(g, d, 0);
        } else if (c.f < soon) {
            greedy_f(g, d, 0);
        } else {
            greedy_w(g, d);
        }
    }
}

/* The device that can begin first; of several the first one. */
static uint32_t earliest(const struct list *l)
{
    int64_t least = l->next[0];
    uint32_t first = 0, d;

    for (d = 1; d < l->g->p; d++) {
        first = l->next[d] < least ? d : first;
        least = l->next[d] < least ? l->next[d] : least;
    }
    return first;
}

static void run(struct list *l)
{
    struct greedy *g = l->g;
    uint32_t d;

    for (d = 0; d < g->p; d++) {
        look(l, d);
    }
    while (!g->failed && g->n_sequence < g->n_passes) {
        d = earliest(l);
        if (l->next[d] == NEVER) {
            return; /* memory is short: nothing can begin */
        }
        place(l, d, l->next[d]);
        look(l, d);
        if (d > 0) {
            look(l, d - 1);
        }
        if (d + 1 < g->p) {
            look(l, d + 1);
        }
    }
}

/* As many as a device at its own pace runs until the gradient of the first one is back. */
static void set_windows(const struct greedy *g, const struct greedy_times *t, uint32_t *window)
{
    int64_t away = 0;
    uint32_t d;

    for (d = g->p; d-- > 0;) {
        int64_t pace = t->f[d] + t->b[d], n = g->m;

        if (d < g->p - 1) {
            away += t->f[d + 1] + t->b[d + 1] + 2 * t->link[d];
        }
        if (pace > 0) {
            n = 1 + (away + pace - 1) / pace;
        }
        window[d] = n < (int64_t)g->m ? (uint32_t)n : g->m;
    }
}

void zb_auto_lists(struct greedy *g, const struct greedy_attempt *attempt)
{
    static const struct rule rules[] = {
        {true, false, false}, {true, true, true},    {false, true, false},
        {true, true, false},  {false, false, false}, {false, true, true},
    };
    struct list l = {.g = g, .window = g->counts, .next = g->loads};
    uint32_t i;

    set_windows(g, attempt->times, l.window);
    for (i = 0; i < sizeof rules / sizeof rules[0] && !greedy_done(g); i++) {
        l.rule = rules[i];
        g->above = g->best_cost;
        greedy_begin(g, attempt->times, attempt->base);
        run(&l);
        greedy_end(g, attempt->ties);
    }
}
