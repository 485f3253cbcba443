/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to pipedream-2bw: equi-replicated pipelines of w replicas and d stages, what each costs,
 * and the best of them. Times are nanoseconds in double, bytes double.
 */
#ifndef TWOBW_H
#define TWOBW_H

#include "answer.h"
#include "ranges.h"

enum { TRANSFERS_PAPER = 0, TRANSFERS_PER_BOUNDARY = 1 };
enum { PLACE_STAGE_MAJOR = 0, PLACE_PIPELINE_MAJOR = 1 };
enum { SCHEDULE_2BW = 0, SCHEDULE_FLUSH = 1, SCHEDULE_GPIPE = 2, SCHEDULE_BEST = 3 };

struct config {
    int64_t node_size;
    uint64_t bandwidth_high, bandwidth_low;
    double allreduce_coefficient, c_extra;
    bool allow_idle, strict_width, even;
    uint32_t transfers, placement, schedule;
    int64_t places;
};

/* One way to run. b: samples of a micro-batch on one device. */
struct candidate {
    uint32_t w, d, b, m; /* m: micro-batches of a batch, per pipeline */
    uint32_t schedule;   /* SCHEDULE_*, but for BEST */
    bool recompute, pipeline;
    double t_ns;       /* of one micro-batch, in steady state or on average over a batch */
    double bytes;      /* of the device that holds most */
    double throughput; /* samples per nanosecond; 0: does not fit */
};

struct twobw {
    const struct part_problem *problem;
    const struct config *config;
    struct part_ranges ranges;
    struct part_span span;
    bool equal;         /* a chain of equal blocks: closed forms hold */
    uint32_t node_size; /* G */
    double high, low;   /* bytes per ns; 0: free */
    double *sum_ns;     /* [n + 1] F + B + W before a position, for b samples */
    uint32_t times_of;  /* that b; 0: none yet */
    uint32_t version_rule, n_wanted, least, multiple; /* of the job's scheduler, when planning */
    /* long models: stages end at place[n_places + 1] alone, ranges and sum_ns are those of runs
       between them, crossing[end][first] what comes in and goes out; NULL: everywhere */
    uint32_t n_places, *place;
    double *crossing;
    /* dynamic programming over (stage, position) */
    double *best;     /* [2 * (n + 1)] */
    uint32_t *parent; /* [(d + 1) * (n + 1)] where stage s - 1 begins */
    /* the answer */
    struct candidate *tried; /* those that fit */
    uint32_t n_tried, n_seen, tried_room;
    uint64_t polls;
    double fastest;            /* throughput of the best of them */
    double bound_ns;           /* what dynamic programming needs to stay below to matter */
    struct candidate smallest; /* that needs least where none fits; d = 0: none */
};

void twobw_init(const struct part_problem *problem, const struct config *config,
                struct twobw *ret_search);

/* Asks the job's scheduler which topology it requires of so many logical devices. */
void twobw_ask_topology(struct twobw *search, uint32_t n_devices);
/* Where there are more nodes than config->places. After everything else. */
void twobw_choose_places(struct twobw *search);
/* Sums before nodes become sums before places; nothing happens where all places are. */
void twobw_sample(const struct twobw *search, double *sums);
/* part_span_grow by what lies between two places. */
void twobw_grow(struct twobw *search);
/* sum_ns for b samples. */
void twobw_times(struct twobw *search, uint32_t b);

/* Bytes per ns between neighbouring stages and among replicas; 0: free. `boundary`: between stages
   boundary and boundary + 1; PST_NONE: by depth alone, as the paper has it. */
double twobw_pipe_rate(const struct twobw *search, uint32_t w, uint32_t d, uint32_t boundary);
uint32_t twobw_rank(const struct twobw *search, uint32_t w, uint32_t d, uint32_t stage,
                    uint32_t replica);

/* Nanoseconds of the all-reduce of `weight` bytes. */
double twobw_ring_ns(const struct twobw *search, uint32_t w, uint32_t d, uint32_t stage,
                     double weight);
/* Bytes kept per parameter byte, and micro-batches that stage s holds. */
double twobw_copies(const struct twobw *search, const struct candidate *c);
uint32_t twobw_held(const struct candidate *c, uint32_t stage);
/* From the slowest stage (with transfers) and the longest all-reduce to t, for pipelines. */
double twobw_period(const struct candidate *c, double slowest_ns, double ring_ns);

/* Bytes that a device of each stage of a cut holds: ret_bytes[d]. The first stage of equal blocks
   counts an input as all others do, as in the paper. */
void twobw_stage_bytes(struct twobw *search, const struct candidate *c, const uint32_t *cuts,
                       double *ret_bytes);
/* Equal blocks: fills t and bytes. */
void twobw_closed(const struct twobw *search, struct candidate *c);
/* Unequal blocks: the best cut. ret_cuts[d + 1] may be NULL. *ret_found: a cut fits. */
void twobw_cut(struct twobw *search, struct candidate *c, uint32_t *ret_cuts, bool *ret_found);
/* twobw_cut by the answers of scheduler and memory optimizer. */
void twobw_cut_planned(struct twobw *search, struct candidate *c, uint32_t *ret_cuts,
                       bool *ret_found);

/* The cost of span->first .. span->end as stage s, for dynamic programming. */
struct twobw_cost {
    double ns;     /* what max (or, for no-pipeline, sum) goes over; INFINITY: does not fit */
    bool hopeless; /* nor does any longer range with this end */
};
typedef void twobw_cost_fn(struct twobw *search, const struct candidate *c, void *impl,
                           uint32_t stage, struct twobw_cost *ret_cost);
/* Least max (add: sum) over all cuts into c->d stages; INFINITY: none, or none that would be as
   fast as the best so far. Parents are kept. */
void twobw_solve(struct twobw *search, const struct candidate *c, bool add, twobw_cost_fn *cost,
                 void *impl, double *ret_ns);
void twobw_cuts(const struct twobw *search, uint32_t d, uint32_t *ret_cuts);

/* Tries everything. *ret_best: of the fastest (within rounding) no recompute, smaller d, w, b,
   pipeline, earlier schedule, in this order. *ret_any: something fits. */
void twobw_search(struct twobw *search, bool *ret_any, struct candidate *ret_best);

#endif
