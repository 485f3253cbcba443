/* SPDX-License-Identifier: Apache-2.0
 *
 * One search for a plan, and what follows it: a second opinion on a plan that keeps host links
 * busy, another way of strategies that know two, and what to tell a user whose job does not fit.
 */
#ifndef PST_PLANNER_ADVISE_H
#define PST_PLANNER_ADVISE_H

#include "planner/planner.h"

/* What is searched for, and until when. */
struct pst_search {
    const struct pst_job *job;
    struct pst_graph *graph;
    const struct pst_cluster *cluster;
    const struct pst_cost_model *cost;
    bool (*cancelled)(void);  /* may be NULL */
    pst_planner_clock *clock; /* may be NULL */
    uint64_t deadline_ns;     /* UINT64_MAX: none */
    uint64_t work_end_ns;     /* the same as time that this thread has worked; 0: none */
    bool brief;               /* fewer attempts: what they do not find is not said to be enough */
    bool rival;               /* the job's tables are those of its strategies' rivals */
    bool tightest;            /* the plan that takes least is wanted, whatever there is */
    uint64_t fit_bytes;       /* then: a faster one that takes no more than this is better */
    bool few;                 /* a plan may take long: the one that takes least is sought in a
                                 single round */
    uint64_t *least_bytes;    /* [operators of the graph] room for a figure per stage of the plan
                                 found: what its memory optimizers could do with; NULL: not wanted */
    uint64_t worth_bytes;     /* of a plan made for less memory: one that takes no more than this is
                                 an answer, too; 0: what does not fit is none */
    uint64_t bar_ns;          /* of a plan that is there: one whose step is clearly longer is not
                                 refined; 0: none is */
};

/* One search, without advice. Errors as of pst_planner_run. *ret_need, written in any case: what
   the best plan takes on its largest device, also if that is too much; 0: there was no plan. */
pst_status pst_planner_try(const struct pst_search *search, struct pst_planned *ret_planned,
                           uint64_t *ret_need, struct pst_error *err);

/* probe.c: a plan with that much memory, 0: any amount, or search->worth_bytes where that is
   more, by the strategies or their rivals. brief: fewer attempts, no rivals, and of schedulers that
   search for long an order in haste. */
bool pst_planner_probe(const struct pst_search *search, uint64_t memory, bool brief,
                       struct pst_planned *ret_planned);
/* How many plans a search for the least memory may make; 0: this job is too large for one. */
uint32_t pst_planner_probes(const struct pst_search *search);
/*
 * The least bytes per device with which a plan was found; need: what the plan without a limit
 * takes. The amounts of memory that are tried depend on the job alone, and the search ends early
 * with a plan that fits into what there is: then *ret_planned, zeroed before, has it. Otherwise
 * planning with as much as is returned finds a plan, and where probes suffice with one byte less
 * none. A stop or the deadline ends the search: then it finds one at once with as much.
 */
uint64_t pst_planner_smallest(const struct pst_search *search, uint64_t need,
                              struct pst_planned *ret_planned);

/* Time of a plan's step; UINT64_MAX: there is no clock, or it does not say. */
uint64_t pst_planner_step(const struct pst_search *search, const struct pst_planned *planned);

/* Of a plan whose copies to host memory take most of its stages' time: plans again, as though the
   links were slower, and keeps the plan of the shorter step. Failure leaves the plan as it is. */
void pst_planner_lighten(const struct pst_search *search, struct pst_planned *planned);

/* Plans once more as the strategies' rivals would (rival.c). *found: *planned is a plan; the one of
   the shorter step takes its place, and any if there was none. PST_ERR_CANCELLED, with *err as of
   pst_planner_run: there is none, and the search for one was stopped; else PST_OK. */
pst_status pst_planner_rival(const struct pst_search *search, bool *found,
                             struct pst_planned *planned, struct pst_error *err);

/* The job's scheduler as it is when its order matters little, where it says how (rival.c). */
void pst_planner_hasten(struct pst_arena *arena, struct pst_job *job);

/*
 * After a search that was refused with *err, with `found` as its *ret_need: if memory is what is
 * missing, adds a table of what takes the space to err->details, where there is none yet, and to
 * err->hint how much would be enough, and which memory optimizer helps. Returns err->status;
 * PST_ERR_CANCELLED, when the user stops it; or PST_OK and a plan, where planning with another
 * amount found one that fits after all.
 */
pst_status pst_planner_advise(const struct pst_search *search, uint64_t found,
                              struct pst_planned *ret_planned, struct pst_error *err);

#endif
