/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists written by hand, and when each of their instructions begins and ends.
 */
#ifndef TESTS_SIM_HAND_TIMES_H
#define TESTS_SIM_HAND_TIMES_H

#include "hand.h"

enum { HAND_RANKS = 6 };

static struct hand_times {
    uint64_t start[HAND_RANKS][16], end[HAND_RANKS][16], makespan;
} t;

static struct rig rig;
static struct pst_error err;

static inline pst_status run(void)
{
    uint64_t *start[HAND_RANKS], *end[HAND_RANKS];
    memset(&t, 0, sizeof t);
    for (uint32_t d = 0; d < HAND_RANKS; d++) {
        start[d] = t.start[d];
        end[d] = t.end[d];
    }
    return pst_sim_run(rig.plan, rig.graph, &rig.cost, start, end, &t.makespan, &err);
}

static inline void must_run(void)
{
    assert_ok(run(), &err);
}

#define EXPECT(rank, instr, from, to)                                                              \
    do {                                                                                           \
        assert_int_equal(t.start[rank][instr], from);                                              \
        assert_int_equal(t.end[rank][instr], to);                                                  \
    } while (0)

/* Two stages, and ranks that do nothing yet. */
static inline void open_ranks(uint32_t n)
{
    open_two_stages(&rig, n);
    for (uint32_t d = 0; d < n; d++) {
        set_list(&rig, d, NULL, 0);
    }
}

#endif
