/* SPDX-License-Identifier: Apache-2.0
 *
 * The goals of a search, and which of two trials is nearer to a goal.
 */
#ifndef PST_TUNE_OBJECTIVE_H
#define PST_TUNE_OBJECTIVE_H

#include "tune/trial.h"

enum pst_objective {
    PST_THROUGHPUT = 0,
    PST_MAX_BATCH,
    PST_LEAST_MEMORY, /* of the device that holds the most */
    PST_FEWEST_DEVICES
};

/* Their names, in that order; NULL ends them. */
extern const char *const pst_objective_names[];

struct pst_goal {
    enum pst_objective objective;
    double floor; /* samples per second that must be reached; 0: any will do */
};

enum { PST_SCORE_NONE = 0, PST_SCORE_NO_FIT, PST_SCORE_BELOW_FLOOR, PST_SCORE_GOOD };

/* The larger the better, the first that differs counts. */
struct pst_score {
    uint32_t state;
    double first, second;
};

struct pst_score pst_goal_score(const struct pst_goal *goal, const struct pst_trial *trial);
/* Above 0: a is better. */
int pst_score_compare(const struct pst_score *a, const struct pst_score *b);

#endif
