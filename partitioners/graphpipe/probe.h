/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to graphpipe: can the blocks be cut into stages, none slower than T? The dynamic program
 * over blocks. A state is a block (by class), whether it owns its ends s and t, and the level of
 * the stage that owns t; its value, for every level of the stage that owns s, is the least number
 * of devices. (Levels: levels.h; asked the other way round, for the least level with so many
 * devices, sums of devices would have to be enumerated.) What owns t is cut before what owns s,
 * since a stage's samples in flight follow from those of its successors.
 *
 * Stages are made by three rules: all operators that a block owns are one stage; a series is cut
 * at an operator, which goes left or right; the branches of a parallel block fall into groups, one
 * of which owns s and one t, as the block did.
 */
#ifndef GRAPHPIPE_PROBE_H
#define GRAPHPIPE_PROBE_H

#include "answer.h"
#include "costs.h"
#include "levels.h"
#include "map.h"
#include "pool.h"

enum { GP_CONTIGUOUS = 0, GP_SORTED = 1, GP_ANY = 2 };

/* Where a block ends. */
enum { GP_END_SINK = 0, GP_END_REAL = 1, GP_END_VIRTUAL = 2 };

struct gp_end {
    uint32_t kind, own, op; /* op: class, where owned */
    uint32_t level;         /* of the stage that owns t; virtual: one that covers what follows */
};

struct gp_start {
    uint32_t is_virtual, own, op;
};

/* How a value came about. */
enum { GP_PICK_NONE = 0, GP_PICK_STAGE = 1, GP_PICK_GAP = 2, GP_PICK_EMPTY = 3 };

struct gp_pick {
    uint32_t kind : 2, own : 1; /* gap: it owns the operator after it */
    uint32_t level : 29;        /* stage: its own; gap, empty: that of the next stage */
    uint32_t cut;               /* stage: position where it ends */
};

/* Values of a series from each of its operators on; rows of levels.n. */
struct gp_tail {
    uint32_t *without, *with;   /* [p + 1][levels] v_i belongs to a stage before; to the rest */
    uint32_t *next, *next_from; /* [p + 1][levels] least with[i] that a level may precede; where */
    struct gp_pick *pick_without, *pick_with;
};

/* Values for every level of the stage of s. */
struct gp_head {
    uint32_t *value;
    struct gp_pick *pick;
    const struct gp_tail *tail;
};

/* One group of branches. */
struct gp_share {
    uint32_t rest;  /* state after it */
    uint32_t level; /* of the group as a stage that owns neither end */
    uint32_t s : 1, t : 1, valid : 1;
};

struct gp_sides {
    uint32_t n_states; /* 0: nothing is left; the last one: all branches */
    uint32_t *value;
    /* [4 x states][levels] by (what is left, s still to be owned, t still to be owned) */
    struct gp_share *share;
    const uint32_t *order; /* of branches, of which as many as the state says are left; NULL: a
                              state is a number of each kind */
    const uint8_t *sorted; /* [levels] of two orders: which one; NULL: the first */
    struct gp_share *other;
    const uint32_t *other_order;
};

struct gp_probe {
    const struct gp_costs *costs;
    const struct gp_levels *levels;
    const struct part_problem *problem;
    uint32_t grouping;
    uint64_t max_states;
    uint32_t max_depth; /* levels of first stages from here on are not asked for; 0: all are */
    bool (*stop)(void *context); /* asked now and then: give up */
    void *stop_context;
    bool limited; /* does memory count? */
    /* of the probe */
    int64_t limit; /* T */
    int64_t next;  /* least T above at which anything may change */
    struct gp_pool pool;
    struct part_map memo;     /* states by what they are asked for */
    uint64_t n_states;        /* in all probes so far */
    uint32_t countdown, work; /* to the next question whether to stop; done since the last tick */
};

void gp_probe_init(struct gp_probe *probe, const struct gp_costs *costs,
                   const struct gp_levels *levels, uint32_t grouping);

/*
 * *ret_found: there is a plan with T <= limit on the problem's devices. Otherwise there is none
 * below probe->next either. Ends with PST_ERR_CANCELLED where stop() says so or max_states is
 * spent.
 */
void gp_probe_run(struct gp_probe *probe, int64_t limit, bool *ret_found);

/* The plan of the last run that found one, of the least level of the first stages, and its T. */
void gp_probe_plan(struct gp_probe *probe, struct part_plan *ret_plan, int64_t *ret_ticks);

/* ---- parts of the dynamic program ---- */

/* A set of operators as a stage. */
struct gp_stage_sums {
    const int64_t *comp, *sync, *p2p; /* [n_lanes] */
    double weight, saved, workspace;
};

/* Least degree at which these operators are a stage of that level; 0: none. */
uint32_t gp_degree(struct gp_probe *probe, const struct gp_stage_sums *sums, uint32_t level,
                   int64_t *ret_ticks);
/* Returns how many of a group's levels leave room enough on d devices. */
uint32_t gp_levels_fit(const struct gp_probe *probe, const struct gp_group *group, uint32_t d,
                       double weight, double saved, double workspace);

/* May the stage of s, of this level, come directly before the end? */
bool gp_precedes(const struct gp_probe *probe, const struct gp_start *start, uint32_t level,
                 const struct gp_end *end);
bool gp_stage_precedes(const struct gp_probe *probe, uint32_t level, const struct gp_end *end);

void gp_head_of(struct gp_probe *probe, uint32_t class, const struct gp_start *start,
                const struct gp_end *end, bool whole, const struct gp_head **ret_head);
void gp_sides_of(struct gp_probe *probe, uint32_t class, const struct gp_start *start,
                 const struct gp_end *end, const struct gp_sides **ret_sides);

/* Numbers of operators from cut `from` to cut `to` of a series, as a stage. `scratch`: 3 rows. */
void gp_run_sums(const struct gp_probe *probe, const struct gp_class *c, uint32_t from, uint32_t to,
                 const struct gp_start *start, const struct gp_end *end, int64_t *scratch,
                 struct gp_stage_sums *ret_sums);

/* A group of branches as a stage: sums of what is inside, and the ends that it owns. */
struct gp_group_sums {
    int64_t *comp, *sync, *out, *in; /* [n_lanes] */
    double weight, saved, workspace;
    uint32_t n_real;
};
void gp_group_clear(struct gp_group_sums *group, uint32_t n_lanes);
/* So many branches of a class more. */
void gp_group_add(const struct gp_costs *costs, uint32_t class, uint32_t count,
                  struct gp_group_sums *group);
void gp_share_sums(const struct gp_probe *probe, const struct gp_group_sums *group,
                   const struct gp_start *start, const struct gp_end *end, bool s, bool t,
                   int64_t *scratch, struct gp_stage_sums *ret_sums);
/* values[levels] of a group as one stage (or none, where it owns nothing); level of a stage that
   owns neither end, per level of s. */
void gp_share_values(struct gp_probe *probe, const struct gp_group_sums *group,
                     const struct gp_start *start, const struct gp_end *end, bool s, bool t,
                     uint32_t *values, uint32_t *levels);
/* values of one branch on its own. */
void gp_branch_values(struct gp_probe *probe, uint32_t class, const struct gp_start *start,
                      const struct gp_end *end, bool s, bool t, const uint32_t **ret_values);

/* The state of this probe that is asked for so: memory of its own, new and zeroed where ret_new. */
struct gp_key {
    uint32_t words[9];
};
void gp_memo_find(struct gp_probe *probe, const struct gp_key *key, size_t size, void **ret,
                  bool *ret_new);
/* Counts a state; ends the search when it is time to stop. */
void gp_probe_tick(struct gp_probe *probe, uint32_t work);

/* Kinds of branches of a class: how many of each. A state has a digit of that radix for each. */
struct gp_kinds {
    uint32_t n, n_states;
    uint32_t *class, *count, *radix; /* [n] */
};
void gp_kinds_of(struct gp_probe *probe, const struct gp_class *c, struct gp_kinds *kinds,
                 bool *ret_small);

#endif
