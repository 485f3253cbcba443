/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutants of the plans that every scheduler of the tree makes: each mutation at many of its places,
 * all of them where there are few. The checker finds it by the rule that it breaks, or an oracle
 * that runs the lists says that it is still legal.
 */
#include "shipped_rig.h"
#include "unit/prove/part_mutations.h"
#include "unit/prove/plan_mutations.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MOST_PLACES 8
#else
#define MOST_PLACES 80
#endif

static uint32_t counts_of_one[MU_VERDICTS]; /* of the scheduler */
static uint32_t n_found;                    /* mutations that were found in some plan of it */
static bool found[N_LIST_MUTATIONS + N_PART_MUTATIONS + N_PLAN_MUTATIONS];

/* Places as far apart as the number allows, so that it is the same ones each time. */
static void mutate(struct rig *rig, struct mutation *mutation, const char *name, bool *ret_found)
{
    const uint32_t *counts = mutation->counts;
    uint32_t before[MU_VERDICTS], n = 1, step = 1;
    memcpy(before, counts, sizeof before);
    for (uint32_t turn = 0; turn < n; turn += step) {
        n = mu_mutate(rig, mutation, turn, name);
        step = (n + MOST_PLACES - 1) / MOST_PLACES;
        step = step > 0 ? step : 1;
    }
    for (uint32_t i = 0; i < MU_VERDICTS; i++) {
        counts_of_one[i] += counts[i] - before[i];
    }
    n_found += !*ret_found && counts[MU_CAUGHT] > before[MU_CAUGHT];
    *ret_found |= counts[MU_CAUGHT] > before[MU_CAUGHT];
}

static void mutate_plan(struct rig *rig, const char *name)
{
    static struct pst_check_report report;
    struct pst_error err = {0};
    bool *at = found;
    if (rig_check(rig, true, &report, &err) != PST_OK) {
        fail_msg("%s: %s\n%s", name, err.message, err.details);
    }
    if (!oracle_legal(rig->plan, rig->graph)) {
        fail_msg("%s: the checker accepts it, the oracle does not", name);
    }
    for (size_t k = 0; k < N_LIST_MUTATIONS; k++) {
        mutate(rig, &list_mutations[k], name, at++);
    }
    for (size_t k = 0; k < N_PLAN_MUTATIONS; k++) {
        mutate(rig, &plan_mutations[k], name, at++);
    }
    for (size_t k = 0; k < N_PART_MUTATIONS && rig->plan->asynchronous; k++) {
        mutate(rig, &part_mutations[k], name, at++);
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
        print_message("%-18s %u plans, %2u mutations: %5u caught, %4u for the order of a queue, "
                      "%5u still legal\n",
                      ids[i], n_plans, n_found, counts_of_one[MU_CAUGHT], counts_of_one[MU_ORDER],
                      counts_of_one[MU_LEGAL]);
        assert_true(n_plans >= 2);
        assert_true(n_found >= 28);
    }
}

TEST(every_mutation)
{
    mu_print(list_mutations, N_LIST_MUTATIONS);
    mu_print(plan_mutations, N_PLAN_MUTATIONS);
    mu_print(part_mutations, N_PART_MUTATIONS);
}
