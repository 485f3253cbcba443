/* SPDX-License-Identifier: Apache-2.0
 *
 * Partitioners ask whether they are to stop: the more there is to do, the more often; and once they
 * are told so, at whichever time, they end with PST_ERR_CANCELLED. Nor do they go on where there is
 * no memory left. Either way they give everything back.
 */
#include "test.h"
#include <link.h>

#include "ask_rig.h"

static unsigned polls, stop_at; /* stop_at 0: never */

static bool is_cancelled(void)
{
    polls++;
    return stop_at != 0 && polls >= stop_at;
}

/* --- memory of modules, refused from one allocation on ---------------------------------------- */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS_MEMORY 1
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void __libc_free(void *memory);

static unsigned taken, fail_at; /* fail_at 0: never */
static int held;                /* blocks */

/* Asked at every allocation: dladdr() would also look for the symbol, among all of the file. */
static bool is_partitioner(void *caller)
{
    struct dl_find_object found;

    return _dl_find_object(caller, &found) == 0 &&
           strstr(found.dlfo_link_map->l_name, "partitioner-") != NULL;
}

static bool is_refused(void)
{
    taken++;
    return fail_at != 0 && taken >= fail_at;
}

void *calloc(size_t count, size_t size)
{
    if (is_partitioner(__builtin_return_address(0))) {
        if (is_refused()) {
            return NULL;
        }
        held++;
    }
    return __libc_calloc(count, size);
}

void *malloc(size_t size)
{
    if (is_partitioner(__builtin_return_address(0))) {
        if (is_refused()) {
            return NULL;
        }
        held++;
    }
    return __libc_malloc(size);
}

void *realloc(void *memory, size_t size)
{
    if (is_partitioner(__builtin_return_address(0))) {
        if (is_refused()) {
            return NULL;
        }
        held += memory == NULL;
    }
    return __libc_realloc(memory, size);
}

void free(void *memory)
{
    if (memory != NULL && is_partitioner(__builtin_return_address(0))) {
        held--;
    }
    __libc_free(memory);
}
#endif

static const struct planner {
    const char *id, *options, *more; /* more: options where there is much to do, or the same */
    uint32_t branches;               /* side by side; 0: a chain */
    uint32_t few, many;              /* operators */
    bool tight;                      /* memory: a quarter of what the whole model needs */
} planners[] = {
    {"uniform", "{}", NULL, 0, 500, 3000, false},
    {"greedy", "{}", NULL, 0, 500, 3000, false},
    {"chain-dp", "{}", NULL, 0, 300, 3000, false},
    {"chain-dp", "{\"order\": \"best\"}", NULL, 3, 3, 60, false},
    {"stage-graph", "{}", NULL, 3, 30, 90, false},
    {"graphpipe", "{\"refine\": true, \"refine_steps\": 1000}",
     "{\"refine\": true, \"refine_steps\": 200000}", 3, 30, 30, false},
    {"graphpipe", "{\"refine\": true, \"refine_steps\": 1000}",
     "{\"refine\": true, \"refine_steps\": 200000}", 3, 30, 30, true},
    {"pipedream", "{}", NULL, 0, 200, 1000, false},
    {"pipedream", "{\"states\": \"downsets\"}", NULL, 3, 15, 36, false},
    {"pipedream", "{\"objective\": \"reference\", \"states\": \"downsets\"}", NULL, 3, 15, 30,
     false},
    {"pipedream", "{\"objective\": \"reference\"}", NULL, 0, 200, 1000, false},
    {"piper", "{}", NULL, 3, 12, 18, false},
    {"dapple", "{}", NULL, 0, 60, 400, false},
    {"dapple", "{\"beam\": 0}", NULL, 0, 60, 400, false},
    {"pipedream-2bw", "{}", NULL, 0, 100, 600, false},
    {"vpipe", "{}", NULL, 0, 50, 200, true},
    {"tideline", "{}", NULL, 0, 50, 200, false},
};

static void make_graph(struct rig_graph *g, const struct planner *planner, uint32_t n)
{
    uint32_t lens[8];
    uint64_t rng = 44;

    if (planner->branches == 0) {
        rig_chain(g, n);
    } else {
        for (uint32_t i = 0; i < planner->branches; i++) {
            lens[i] = n / planner->branches;
        }
        rig_branches(g, planner->branches, lens, 1, 1, false);
    }
    rig_costs(g, RIG_UNIFORM, &rng);
}

/* much: what takes long; at: the poll that says stop, 0: none does. */
static pst_status run(const struct planner *planner, bool much, unsigned at)
{
    static const uint32_t sizes[] = {4, 8}, degrees[] = {1, 2, 4};
    struct pst_partition_result result;
    struct pst_error err;
    struct rig_graph g;
    struct rig_case c;
    pst_status st;

    make_graph(&g, planner, much ? planner->many : planner->few);
    c = rig_case_of(&g);
    rig_case_choose(&c, 8, 64, sizes, 2, degrees, 3);
    c.comm = PST_COMM_SUM;
    c.p2p = 4;
    c.allreduce = 1;
    if (planner->tight) {
        c.memory = (c.multiplier * ask_total(g.weight, g.n) + ask_total(g.saved, g.n) * 8) / 4;
    }
    polls = 0;
    stop_at = at;
    st = ask_rig(&c, planner->id, much && planner->more != NULL ? planner->more : planner->options,
                 is_cancelled, &result, &err);
    if (st == PST_OK) {
        pst_partition_result_finish(&result);
    } else if (st != PST_ERR_CANCELLED && st != PST_ERR_NOMEM) {
        fail_msg("%s %s: %s", planner->id, planner->options, err.message);
    }
    rig_graph_finish(&g);
    return st;
}

/* Told to stop from one poll on, it asks no more. */
static void expect_stop(const struct planner *planner, unsigned at, unsigned all)
{
    pst_status st = run(planner, true, at);

    if (st != PST_ERR_CANCELLED || polls != at) {
        fail_msg("%s %s ends with %d when it is told to stop from the %u-th time on; it asked %u "
                 "times, %u times when nobody told it",
                 planner->id, planner->options, st, at, polls, all);
    }
}

TEST(test_stops)
{
    for (size_t i = 0; i < sizeof planners / sizeof *planners; i++) {
        const struct planner *planner = &planners[i];
        unsigned few, all;

        assert_int_equal(run(planner, false, 0), PST_OK);
        few = polls;
        assert_int_equal(run(planner, true, 0), PST_OK);
        all = polls;
        if (few < 1 || all <= few) {
            fail_msg("%s %s asks %u times with little to do, %u times with much", planner->id,
                     planner->options, few, all);
        }
        expect_stop(planner, 1, all);
        expect_stop(planner, all / 3, all);
        expect_stop(planner, all - all / 8, all);
        expect_stop(planner, all, all);
    }
}

#ifdef COUNTS_MEMORY
/* From some allocation on there is no memory: up to 40 of all that there are. */
TEST(test_ends_without_memory)
{
    for (size_t i = 0; i < sizeof planners / sizeof *planners; i++) {
        const struct planner *planner = &planners[i];
        unsigned all;

        taken = 0;
        assert_int_equal(run(planner, false, 0), PST_OK);
        all = taken;
        assert_true(all > 0);
        for (unsigned at = 1; at <= all; at += 1 + all / 40) {
            int before = held;
            pst_status st;

            taken = 0;
            fail_at = at;
            st = run(planner, false, 0);
            fail_at = 0;
            if (st != PST_ERR_NOMEM || held != before) {
                fail_msg("%s %s ends with %d without memory from allocation %u of %u on, and keeps "
                         "%d blocks",
                         planner->id, planner->options, st, at, all, held - before);
            }
        }
    }
}
#endif
