/* SPDX-License-Identifier: Apache-2.0
 *
 * For schedulers that lay out passes one after the other, looking at times and memory: clocks,
 * counts and what is held per device, all kept up to date in constant time per pass. One chunk per
 * device (stage d) or two on a V (chunk 0: stage d, chunk 1: stage 2p - 1 - d). W of a device run
 * in the order of its B.
 */
#ifndef SCHEDULERS_COMMON_GREEDY_H
#define SCHEDULERS_COMMON_GREEDY_H

#include "fixed.h"

/* Times of the passes of each stage, in nanoseconds. */
struct greedy_times {
    int64_t *f, *b, *w; /* [n_stages] */
    int64_t *link;      /* [n_stages]: from stage s to s + 1, and back */
    int64_t *work;      /* [p]: all passes of a device */
};

/* The state of a device in a run. */
struct greedy_device {
    int64_t clock, first; /* end of the last pass, start of the first; first < 0: none yet */
    int64_t idle;         /* between passes */
    int64_t load;         /* idle time, on top of what the run counts as given (GREEDY_*) */
    int64_t live, peak, cap;
    uint32_t n_f[2], n_b[2], n_w[2]; /* per chunk */
    uint32_t head, tail;             /* of the queue of W */
};

/* The load by which devices are compared when one is about to wait: waiting does no harm as long as
   another device has more load. */
enum {
    GREEDY_IDLE = 0,    /* idle time */
    GREEDY_FINISH = 1,  /* work and idle time */
    GREEDY_ABSOLUTE = 2 /* work and idle time, from time 0 on */
};

struct greedy {
    const struct pst_schedule_in *in;
    uint32_t p, v, m, n_stages;
    struct greedy_times real, median; /* median: of all stages, the same for each */
    bool mixed;                       /* stages differ */
    bool makespan;                    /* what counts; else the span */
    int64_t *saved, *saved_weight;    /* [n_stages] bytes */
    /* the run at hand */
    const struct greedy_times *times;
    uint32_t base;             /* GREEDY_* */
    struct greedy_device *dev; /* [p] */
    int64_t max_load;
    int64_t above;          /* a device that is sure to cost more ends the run */
    bool failed;            /* it ended without a complete order */
    int64_t *end_f, *end_b; /* [n_stages][m] */
    uint8_t *queue;         /* [p][v * m]: chunks of the B whose W waits */
    uint32_t *sequence;     /* [n_passes]: 8 * device + 2 * pass + chunk, in order of placing */
    uint32_t n_sequence, n_passes;
    uint32_t *counts; /* [2p]: for whoever decides what to place */
    int64_t *loads;   /* [p]: the same */
    /* the best run */
    uint32_t *best;
    int64_t least;                /* no order within the caps costs less */
    int64_t best_cost, best_peak; /* best_cost: INT64_MAX if there is none */
    uint64_t placed;              /* passes placed in all runs */
};

enum { GREEDY_F = 0, GREEDY_B = 1, GREEDY_W = 2 };

void greedy_init(struct greedy *g, const struct fixed_question *question, bool makespan);

/* Begins a run: nothing placed, caps in dev[].cap stay. */
void greedy_begin(struct greedy *g, const struct greedy_times *times, uint32_t base);
/* Ends a run: takes it if it is complete and better. Returns whether it was. `ties`: one that is as
   fast and holds less is better. */
bool greedy_end(struct greedy *g, bool ties);
/* No further run at these caps can cost less. */
static inline bool greedy_done(const struct greedy *g)
{
    return g->best_cost <= g->least;
}

/* Lists of the best run. */
void greedy_order(const struct greedy *g, struct order *order);

static inline uint32_t greedy_stage(const struct greedy *g, uint32_t d, uint32_t chunk)
{
    return chunk == 0 ? d : g->n_stages - 1 - d;
}

/* When the gradient or activation that the next pass needs arrives; -1: at once, from the device
   itself or the data; INT64_MAX: its producer is not placed. */
static inline int64_t greedy_arrival_f(const struct greedy *g, uint32_t d, uint32_t chunk)
{
    uint32_t s = greedy_stage(g, d, chunk), j = g->dev[d].n_f[chunk], from;

    if (chunk == 0 ? d == 0 : d == g->p - 1) {
        return -1;
    }
    from = chunk == 0 ? d - 1 : d + 1;
    return g->dev[from].n_f[chunk] <= j
               ? INT64_MAX
               : g->end_f[(size_t)(s - 1) * g->m + j] + g->times->link[s - 1];
}

static inline int64_t greedy_arrival_b(const struct greedy *g, uint32_t d, uint32_t chunk)
{
    uint32_t s = greedy_stage(g, d, chunk), j = g->dev[d].n_b[chunk], from;

    if (chunk == 0 ? d == g->p - 1 : d == 0) {
        return -1;
    }
    from = chunk == 0 ? d + 1 : d - 1;
    return g->dev[from].n_b[chunk] <= j ? INT64_MAX
                                        : g->end_b[(size_t)(s + 1) * g->m + j] + g->times->link[s];
}

static inline uint32_t greedy_waiting(const struct greedy *g, uint32_t d)
{
    return g->dev[d].tail - g->dev[d].head;
}

/* Returns how much longer the next W of a device takes than nothing. */
static inline int64_t greedy_next_w(const struct greedy *g, uint32_t d)
{
    const uint8_t *queue = g->queue + (size_t)d * g->v * g->m;

    return g->times->w[greedy_stage(g, d, queue[g->dev[d].head])];
}

/* Place the next pass of a kind. The run fails if it cannot be placed (not there, no room). */
void greedy_f(struct greedy *g, uint32_t d, uint32_t chunk);
void greedy_b(struct greedy *g, uint32_t d, uint32_t chunk);
void greedy_w(struct greedy *g, uint32_t d);
/* W until `bytes` more fit; fails the run if too few wait. */
void greedy_make_room(struct greedy *g, uint32_t d, int64_t bytes);

#endif
