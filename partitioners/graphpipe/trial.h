/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to graphpipe: plans held against the host's simulation of the job's step.
 */
#ifndef GRAPHPIPE_TRIAL_H
#define GRAPHPIPE_TRIAL_H

#include "solver.h"

/* A neighbour is not simulated if the model of the step says that it takes so much longer: of 95
   neighbours that the simulation said were faster, the model was wrong about none by more. */
#define GP_MARGIN 1.05

struct gp_trials {
    const struct part_problem *problem;
    const struct pst_trial *trial; /* NULL: of problem files the host simulates nothing */
    bool guess;                    /* the model of common/ tells the step for now */
    uint64_t left;                 /* passes that may still be simulated */
    uint32_t n;                    /* plans that were */
    uint32_t looks;                /* neighbours of a plan that are simulated before giving up */
    bool ahead;                    /* then also neighbours of neighbours */
    bool chain;                    /* only plans that cut the model's order into runs */
};

/* The step by the model of common/, which knows no queues at links; INFINITY where the plan does
   not fit. Where the host simulates nothing this is all that is known, and counts as a trial;
   else it counts as a few of its passes. */
void gp_trials_guess(struct gp_trials *trials, const struct part_plan *plan, double *ret_step_ns);

/* About the step; INFINITY where the plan does not fit or the rest of the trials does not suffice
   for it. What is near the limit of memory is laid out, which takes most of the time, if its step
   is below `below_ns` alone. */
void gp_trials_step(struct gp_trials *trials, const struct part_plan *plan, double below_ns,
                    double *ret_step_ns);

/* Better plans around one that takes *step_ns: single operators and runs of them in a neighbouring
   stage, stages in one or cut in two, devices given to another stage; whatever the simulation says
   is faster, until nothing is. */
void gp_climb(struct gp_trials *trials, struct part_plan *plan, double *step_ns);

/* A plan a few random neighbours away, for gp_climb to start from. */
void gp_stray(struct gp_trials *trials, struct part_plan *plan, uint64_t *seed,
              double *ret_step_ns);

/* Better cuts of the model's order with the degrees of this one, whose stages have one size. */
void gp_move_borders(struct gp_trials *trials, struct part_plan *plan, double *step_ns);

/* The fastest of the answer's plan and its candidates, and what climbing from there gives, becomes
   the answer's plan, its step the simulated one; *ret_found: false where the host simulates
   nothing or no plan fits. chain: of cuts of the model's order alone. */
void gp_trial_best(struct part_problem *problem, bool chain, struct gp_answer *answer,
                   bool *ret_found);

/* Does every stage hold consecutive operators of the model's order? */
bool gp_is_chain(const struct part_plan *plan);

#endif
