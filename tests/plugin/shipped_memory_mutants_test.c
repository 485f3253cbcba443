/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutants of the programs of the plans that every scheduler of the tree makes: lives, places,
 * operands, sums, pieces, what parameters have; of asynchronous ones versions and turns, too. Each
 * mutation on every other device.
 */
#include "shipped_rig.h"
#include "unit/prove/buffer_mutations.h"
#include "unit/prove/memory_mutations.h"
#include "unit/prove/turn_mutations.h"

static uint32_t counts_of_one[2], n_found; /* of the scheduler */
static bool found[N_MEMORY_MUTATIONS + N_BUFFER_MUTATIONS + N_TURN_MUTATIONS];

static void mutate(struct rig *rig, struct memory_mutation *mutation, const char *name,
                   bool *ret_found)
{
    static uint32_t n_calls;
    const uint32_t *counts = mutation->counts, before[2] = {counts[0], counts[1]};
    for (uint32_t d = n_calls++ % 2; d < rig->plan->n_devices; d += 2) {
        me_mutate(rig, d, mutation, name);
    }
    counts_of_one[0] += counts[0] - before[0];
    counts_of_one[1] += counts[1] - before[1];
    n_found += !*ret_found && counts[0] > before[0];
    *ret_found |= counts[0] > before[0];
}

static void mutate_plan(struct rig *rig, const char *name)
{
    bool *at = found;
    for (size_t k = 0; k < N_MEMORY_MUTATIONS; k++) {
        mutate(rig, &memory_mutations[k], name, at++);
    }
    for (size_t k = 0; k < N_BUFFER_MUTATIONS; k++) {
        mutate(rig, &buffer_mutations[k], name, at++);
    }
    for (size_t k = 0; k < N_TURN_MUTATIONS && rig->plan->asynchronous; k++) {
        mutate(rig, &turn_mutations[k], name, at++);
    }
}

TEST(every_scheduler)
{
    static char ids[SHIPPED_MAX][64];
    uint32_t n = shipped_schedulers(ids);
    assert_true(n >= 20);
    for (uint32_t i = 0; i < n; i++) {
        memset(counts_of_one, 0, sizeof counts_of_one);
        memset(found, 0, sizeof found);
        n_found = 0;
        uint32_t n_plans = shipped_each(ids[i], mutate_plan);
        print_message("%-18s %u plans, %2u mutations: %5u caught, %5u still legal\n", ids[i],
                      n_plans, n_found, counts_of_one[0], counts_of_one[1]);
        assert_true(n_plans >= 2);
        assert_true(n_found >= 20);
    }
}

TEST(every_mutation)
{
    me_print(memory_mutations, N_MEMORY_MUTATIONS);
    me_print(buffer_mutations, N_BUFFER_MUTATIONS);
    me_print(turn_mutations, N_TURN_MUTATIONS);
}
