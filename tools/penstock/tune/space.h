/* SPDX-License-Identifier: Apache-2.0
 *
 * The combinations that a search may choose from: what [tune] lists; without it what [compare]
 * lists. Where there is neither, and for what [tune] does not list: every plugin that there is,
 * with the values that its parameters may have, every smaller number of devices and size of
 * micro-batches that is a power of two, as many replicas, and `parallel.zero` 0 to 3.
 */
#ifndef PST_TUNE_SPACE_H
#define PST_TUNE_SPACE_H

#include "tune/combinations.h"

#define PST_SPACE_MOST 1000000000u /* combinations */

/* Errors: those of pst_combinations_read_lists. */
pst_status pst_space_read(const struct pst_job *job, struct pst_combinations *ret_set,
                          struct pst_error *err);

/* Reads the lists of [tune], else of [compare]; an axis without a list has the config's value. */
pst_status pst_space_read_listed(const struct pst_job *job, struct pst_combinations *ret_set,
                                 struct pst_error *err);

/* Returns true if nothing of the combination has replicas, so that the planner refuses its zero,
   if not 0, at once, and the same with zero = 0 is in the set. */
bool pst_space_shares_nothing(const struct pst_combinations *set, uint32_t i);
/* The combination that is the config's own, or the nearest to it. */
uint32_t pst_space_start(const struct pst_job *job, const struct pst_combinations *set);
/* For each value of an axis the first one of the same strategies: in the arena of the set. */
const uint32_t *pst_space_groups(struct pst_combinations *set, enum pst_axis_kind axis);

#endif
