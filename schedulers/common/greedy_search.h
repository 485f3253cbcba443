/* SPDX-License-Identifier: Apache-2.0
 *
 * For schedulers that are driven by a cap on memory: parameters, the caps that are tried, what is
 * said when none will do.
 */
#ifndef SCHEDULERS_COMMON_GREEDY_SEARCH_H
#define SCHEDULERS_COMMON_GREEDY_SEARCH_H

#include "greedy.h"

enum { GREEDY_AUTO = 0, GREEDY_SPAN = 1, GREEDY_MAKESPAN = 2 };

struct greedy_config {
    double memory_limit;
    uint32_t objective; /* GREEDY_AUTO, ... */
};

/* `most`: what the order is made for, in words. */
#define GREEDY_LIMIT_ROW(most)                                                                     \
    PST_PARAM(struct greedy_config, memory_limit, PST_PARAM_FLOAT, "0", "0..1000000",              \
              "Micro-batches that a device may hold; 0: as many as it has room for, at most " most \
              ".")
#define GREEDY_OBJECTIVE_ROW                                                                       \
    PST_PARAM(struct greedy_config, objective, PST_PARAM_ENUM, "auto", "auto|span|makespan",       \
              "What to minimise; auto: makespan if all devices wait for each other after a step, " \
              "else span.")

/*
 * One attempt at an order within dev[].cap of each device, under one set of times and one base;
 * greedy_end after each run. `first`: the largest cap, which is worth more runs than others.
 * `ties` is for greedy_end.
 */
struct greedy_attempt {
    const struct greedy_times *times;
    uint32_t base;
    bool first, ties;
};

typedef void greedy_runs(struct greedy *g, const struct greedy_attempt *attempt);

/*
 * Fills the order with the best that `runs` finds. Caps are whole chunks, from 1 to the limit, so
 * what a larger limit finds is never worse. A chunk of a device is the larger of its stages'.
 * `tight`, if there is one, is asked too where a device holds fewer micro-batches than there are
 * devices from it to the last; what it finds is taken if it is better. Where no cap up to the limit
 * will do the call ends, and the host is told which would.
 */
void greedy_search(const struct fixed_question *question, greedy_runs *runs, greedy_runs *tight,
                   struct order *order);
/* greedy_search without `tight`. Returns false if no cap up to the limit works. */
bool greedy_find(const struct fixed_question *question, greedy_runs *runs, struct order *order);
/* Does all runs at the caps that are set in g->dev; a better order replaces g->best. */
void greedy_try_caps(struct greedy *g, greedy_runs *runs, bool first);

#endif
