/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/objective.h"

const char *const pst_objective_names[] = {"throughput", "max-batch", "memory", "devices", NULL};

struct pst_score pst_goal_score(const struct pst_goal *goal, const struct pst_trial *trial)
{
    const double rate = pst_trial_samples_per_second(trial);

    if (trial->state != PST_TRIAL_DONE) {
        return (struct pst_score){
            trial->state == PST_TRIAL_NO_FIT ? PST_SCORE_NO_FIT : PST_SCORE_NONE, 0, 0};
    }
    if (rate < goal->floor) {
        return (struct pst_score){PST_SCORE_BELOW_FLOOR, rate, 0};
    }
    switch (goal->objective) {
    case PST_MAX_BATCH:
        return (struct pst_score){PST_SCORE_GOOD, trial->batch, rate};
    case PST_LEAST_MEMORY:
        return (struct pst_score){PST_SCORE_GOOD, -(double)pst_trial_most_bytes(trial), rate};
    case PST_FEWEST_DEVICES:
        return (struct pst_score){PST_SCORE_GOOD, -(double)trial->sim.n_used, rate};
    default:
        return (struct pst_score){PST_SCORE_GOOD, rate, 0};
    }
}

int pst_score_compare(const struct pst_score *a, const struct pst_score *b)
{
    if (a->state != b->state) {
        return a->state > b->state ? 1 : -1;
    }
    if (a->first != b->first) {
        return a->first > b->first ? 1 : -1;
    }
    return a->second > b->second ? 1 : a->second < b->second ? -1 : 0;
}
