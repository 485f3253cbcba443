/* SPDX-License-Identifier: Apache-2.0
 *
 * Records beside the fastest of their config, and beside a baseline that the user names.
 */
#ifndef PST_TUNE_BASELINE_H
#define PST_TUNE_BASELINE_H

#include "tune/tune.h"

/*
 * Is there a record for every config that the name means? It is the name of a method, the labels of
 * strategies with '/' between them (partitioner/scheduler/memopt, or only the scheduler's, which
 * other axes leave open), or the number of a record, which means the same combination of the other
 * configs. config.value with the candidates.
 */
pst_status pst_versus_check(const struct pst_record *records, uint32_t n, const char *baseline,
                            struct pst_error *err);

/* Fills `best` and `baseline` of all records; baseline NULL: the first alone. */
void pst_versus_all(struct pst_record *records, uint32_t n, const char *baseline);

#endif
