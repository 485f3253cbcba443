/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans made with every scheduler that there is in the plugin folder pass the checker.
 * scheduler_laws_test.c has what must hold of their orders.
 */
#include "job_rig.h"
#include "schedule_rig.h"

#include "base/philox.h"
#include "prove/check.h"

enum { MAX_SCHEDULERS = 64 };

static char ids[MAX_SCHEDULERS][64];
static uint32_t n_ids;

/* What cannot be asked like the others, or not as much of it. */
static const struct {
    const char *id;
    uint32_t max_p, max_m; /* 0: not at all */
    const char *reason;
} limits[] = {
    {"csv", 0, 0, "answers the order of one file"},
    {"optimal", 3, 4, "searches exhaustively"},
    {"v-adaptive", 3, 27, "tries thousands of building blocks"},
};

/* Two directions meet in the middle of the devices. */
static bool wants_pairs(const char *id)
{
    return strcmp(id, "chimera") == 0 || strcmp(id, "dualpipe") == 0;
}

static uint32_t limit_of(const char *id, bool of_m)
{
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        if (strcmp(limits[i].id, id) == 0) {
            return of_m ? limits[i].max_m : limits[i].max_p;
        }
    }
    return 9 * (of_m ? 3 : 1);
}

static int find_schedulers(void **state)
{
    n_ids = schedule_ids(ids, MAX_SCHEDULERS);
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        print_message("%s: at most %u devices, %u micro-batches: %s\n", limits[i].id,
                      limits[i].max_p, limits[i].max_m, limits[i].reason);
    }
    return n_ids >= 2 ? 0 : -1;
}

#define JOB                                                                                        \
    "[model]\nuse = \"mlp\"\nlayers = 12\ninputs = 8\nhidden = 8\n[data]\nkind = \"synthetic\"\n"  \
    "[train]\nbatch = %u\nmicrobatch = 1\n%s"                                                      \
    "[cluster]\ndevices = %u\nflops = %u\nmemory_bandwidth = %u\nlaunch_overhead = \"%u ns\"\n"    \
    "link_bandwidth = %u\nlink_latency = \"%u ns\"\n[partitioner]\nuse = "                         \
    "\"uniform\"\n[scheduler]\nuse = \"%s\"\n%s"                                                   \
    "[[memopt]]\nuse = \"none\"\n"

/* The lists with transfers, copies and updates, for costs of devices and links drawn at random: the
   checker at rendezvous, without any buffer that would let a wrong order pass. */
static bool check_plan(const char *id, uint32_t p, uint32_t m)
{
    struct pst_philox r = pst_philox(20260, 3, 100 * p + m), q = pst_philox(20260, 4, 100 * p + m);
    struct pst_check_limits rendezvous = {0};
    struct pst_check_report *report = calloc(1, sizeof *report);
    struct pst_planned planned = {.plan = NULL};
    struct job_rig rig;
    char toml[1024];
    pst_status st;

    assert_non_null(report);
    snprintf(toml, sizeof toml, JOB, m, strcmp(id, "pipedream") == 0 ? "clip = 0\n" : "", p,
             1000000u << r.v[0] % 12, 1000000u << r.v[1] % 12, r.v[2] % 20000,
             1000000u << r.v[3] % 12, q.v[0] % 100000, id,
             strcmp(id, "seq1f1b") == 0 ? "slices = 1\n" : "");
    st = job_rig_plan(&rig, toml, &planned);
    if (st == PST_OK) {
        if (pst_plan_check(planned.plan, rig.graph, &rendezvous, NULL, report, &rig.err) !=
            PST_OK) {
            fail_msg("%s p %u m %u: %s\n%s", id, p, m, rig.err.message, rig.err.details);
        }
        pst_planned_finish(&planned);
    } else if (st != PST_ERR_INFEASIBLE && st != PST_ERR_CONFIG) {
        fail_msg("%s p %u m %u: %s\n%s", id, p, m, rig.err.message, rig.err.details);
    } else {
        print_message("no plan with %s, p %u, m %u: %s\n", id, p, m, rig.err.message);
    }
    job_rig_finish(&rig);
    free(report);
    return st == PST_OK;
}

/* A scheduler may want more micro-batches, or whole rounds of them; 4 p are enough for each. */
TEST(test_plans_pass_the_checker)
{
    for (uint32_t i = 0; i < n_ids; i++) {
        uint32_t max_m = limit_of(ids[i], true);

        for (uint32_t p = 2; p <= 4 && p <= limit_of(ids[i], false); p++) {
            uint32_t passed = check_plan(ids[i], p, p);

            if (wants_pairs(ids[i]) && p % 2 == 1) {
                assert_int_equal(passed, 0);
                continue;
            }

            if (max_m > 4) {
                passed += check_plan(ids[i], p, 2 * p + 1);
                if (!check_plan(ids[i], p, 4 * p)) {
                    fail_msg("%s: no plan for %u devices and %u micro-batches", ids[i], p, 4 * p);
                }
            } else if (passed == 0) {
                fail_msg("%s: no plan for %u devices and as many micro-batches", ids[i], p);
            }
        }
    }
}

TEST_GROUP(find_schedulers, NULL)
