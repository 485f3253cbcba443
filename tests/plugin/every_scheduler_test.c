/* SPDX-License-Identifier: Apache-2.0
 *
 * What every scheduler must keep, whichever there are in the plugin folder: orders are complete and
 * can be satisfied, never shorter than a lower bound, scale with their costs, waste nothing on one
 * device; more memory never costs; plans made with them pass the checker; the CSV of an order reads
 * back as that order.
 */
#include "job_rig.h"
#include "schedule_rig.h"

#include <unistd.h>

#include "base/philox.h"
#include "prove/check.h"
#include "exchange/torch_csv.h"

enum { MAX_SCHEDULERS = 64 };

static char ids[MAX_SCHEDULERS][64];
static uint32_t n_ids;

/* What cannot be asked like the others, or not as much of it. */
static const struct {
    const char *id;
    uint32_t max_p, max_m; /* 0: not at all */
    const char *reason;
} limits[] = {
    {"csv", 0, 0, "answers the order of one file; read back below"},
    {"optimal", 3, 4, "searches exhaustively"},
    {"v-adaptive", 3, 27, "tries thousands of building blocks"},
};

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
    struct pst_plugin_list *list;
    struct pst_error err;

    (void)state;
    if (pst_plugin_list_create(&list, &err) != PST_OK) {
        return -1;
    }
    for (uint32_t i = 0; i < list->n_files && n_ids < MAX_SCHEDULERS; i++) {
        if (strcmp(list->files[i].kind, "scheduler") == 0 && list->files[i].shadowed_by == NULL) {
            snprintf(ids[n_ids++], sizeof ids[0], "%s", list->files[i].id);
        }
    }
    pst_plugin_list_destroy(list);
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        print_message("%s: at most %u devices, %u micro-batches: %s\n", limits[i].id,
                      limits[i].max_p, limits[i].max_m, limits[i].reason);
    }
    return n_ids >= 2 ? 0 : -1;
}

/* Costs of every stage, link and device drawn at random, times `factor`. */
struct costs {
    uint64_t seed, factor;
    bool links;
};

static void draw_costs(struct pst_solo *solo, void *context)
{
    const struct costs *c = context;

    for (uint32_t s = 0; s < solo->in.n_stages; s++) {
        struct pst_philox r = pst_philox(c->seed, 1, s);
        struct pst_schedule_stage *stage = &solo->stages[s];

        stage->forward_ns = (1 + r.v[0] % 9) * c->factor;
        stage->backward_input_ns = (1 + r.v[1] % 9) * c->factor;
        stage->backward_weight_ns = (1 + r.v[2] % 9) * c->factor;
        stage->saved_bytes = 1 + r.v[3] % 5;
        stage->saved_weight_bytes = r.v[3] / 7 % (stage->saved_bytes + 1);
    }
    for (uint32_t i = 0; c->links && i < solo->in.n_links; i++) {
        struct pst_schedule_link *link = &solo->links[i];

        if (solo->stages[link->from].device != solo->stages[link->to].device) {
            link->transfer_ns = pst_philox(c->seed, 2, i).v[0] % 4 * c->factor;
        }
    }
}

static struct schedule_run run_random(const char *id, uint32_t p, uint32_t m, uint64_t seed,
                                      uint64_t factor, bool barrier)
{
    struct costs costs = {seed, factor, true};

    return SCHEDULE(id, .p = p, .m = m, .barrier = barrier, .may_fail = true, .change = draw_costs,
                    .context = &costs);
}

/* A scheduler may refuse an instance, in words; nothing else may go wrong. */
static bool refused(const struct schedule_run *run, const char *id, uint32_t p, uint32_t m)
{
    if (run->status == PST_OK) {
        return false;
    }
    if ((run->status != PST_ERR_INFEASIBLE && run->status != PST_ERR_UNSUPPORTED) ||
        strlen(run->error.message) < strlen(id) + 10) {
        fail_msg("%s p %u m %u: %s: %s\n%s", id, p, m, run->error.kind, run->error.message,
                 run->error.details);
    }
    return true;
}

static void check_bounds(const struct schedule_run *run, const char *id, uint32_t p, uint32_t m,
                         uint64_t seed)
{
    if (run->makespan_ns < run->bounds.makespan_ns || run->span_ns < run->bounds.span_ns) {
        fail_msg("%s p %u m %u seed %llu: makespan %llu span %llu, below the bounds %llu and %llu",
                 id, p, m, (unsigned long long)seed, (unsigned long long)run->makespan_ns,
                 (unsigned long long)run->span_ns, (unsigned long long)run->bounds.makespan_ns,
                 (unsigned long long)run->bounds.span_ns);
    }
}

/* Unit costs, and random ones with the same instance seven times as slow. */
static bool check_instance(const char *id, uint32_t p, uint32_t m, uint64_t seed)
{
    struct schedule_run unit = SCHEDULE(id, .p = p, .m = m, .may_fail = true);
    struct schedule_run plain = run_random(id, p, m, seed, 1, false);
    struct schedule_run slow = run_random(id, p, m, seed, 7, false);
    bool answered = !refused(&unit, id, p, m);

    assert_int_equal(refused(&slow, id, p, m), refused(&plain, id, p, m));
    if (answered) {
        check_bounds(&unit, id, p, m, 0);
    }
    if (plain.status == PST_OK) {
        check_bounds(&plain, id, p, m, seed);
        if (slow.makespan_ns != 7 * plain.makespan_ns || slow.span_ns != 7 * plain.span_ns) {
            fail_msg("%s p %u m %u seed %llu: %llu, but with costs seven times as high %llu", id, p,
                     m, (unsigned long long)seed, (unsigned long long)plain.makespan_ns,
                     (unsigned long long)slow.makespan_ns);
        }
    }
    if (answered && p == 1) {
        assert_int_equal(unit.makespan_ns, unit.work);
        assert_int_equal(unit.eval.n_transfers, 0);
    }
    schedule_run_free(&unit);
    schedule_run_free(&plain);
    schedule_run_free(&slow);
    return answered;
}

static void test_legal_and_bounded(void **state)
{

    const uint64_t seed = 20260;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint32_t i = 0; i < n_ids; i++) {
        uint32_t answered = 0, asked = 0;

        for (uint32_t p = 1; p <= limit_of(ids[i], false); p++) {
            const uint32_t sizes[] = {1, 2, 3, p - 1, p, p + 1, 2 * p - 1, 2 * p, 3 * p};

            for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
                if (sizes[k] == 0 || sizes[k] > limit_of(ids[i], true) ||
                    (k > 2 && sizes[k] <= 3)) {
                    continue;
                }
                asked++;
                answered += check_instance(ids[i], p, sizes[k], seed + p * 100 + k);
            }
        }
        print_message("%-18s %u of %u instances answered\n", ids[i], answered, asked);
        assert_true(asked == 0 || answered > 0);
    }
}

/* Of those that heed their memory: each step of room more gives a cost that is no larger. Does room
   make a difference at all? */
static bool check_monotone(const char *id, uint32_t p, uint32_t m, bool barrier, uint64_t seed)
{
    uint64_t costs[64], caps[64];
    uint32_t n = 0;
    bool heeds = true;

    for (uint64_t cap = 1; cap <= 2 * (uint64_t)p + 2 && n < 64; cap++) {
        struct schedule_run run =
            SCHEDULE(id, .p = p, .m = m, .cap = cap, .barrier = barrier, .may_fail = true,
                     .f = 2 + seed % 3, .b = 2 + seed % 2, .w = 1 + seed % 2);

        if (!refused(&run, id, p, m)) {
            for (uint32_t d = 0; d < p; d++) {
                heeds = heeds && run.peaks[d] <= cap;
            }
            if (heeds) {
                check_bounds(&run, id, p, m, seed);
            }
            caps[n] = cap;
            costs[n++] = barrier ? run.makespan_ns : run.span_ns;
        }
        schedule_run_free(&run);
    }
    for (uint32_t i = 1; heeds && i < n; i++) {
        if (costs[i] > costs[i - 1]) {
            fail_msg("%s p %u m %u%s: room for %u costs %llu, room for %u costs %llu", id, p, m,
                     barrier ? " with a barrier" : "", (unsigned)caps[i - 1],
                     (unsigned long long)costs[i - 1], (unsigned)caps[i],
                     (unsigned long long)costs[i]);
        }
    }
    return heeds && n > 1 && costs[0] > costs[n - 1];
}

static void test_more_room_never_costs(void **state)
{
    uint32_t n_driven = 0;

    (void)state;
    for (uint32_t i = 0; i < n_ids; i++) {
        bool driven = false;

        for (uint32_t p = 2; p <= 4 && p <= limit_of(ids[i], false); p++) {
            for (uint64_t seed = 0; seed < 3; seed++) {
                uint32_t m = limit_of(ids[i], true) < 2 * p ? limit_of(ids[i], true) : 2 * p;

                driven |= check_monotone(ids[i], p, m, false, seed);
                driven |= check_monotone(ids[i], p, m, true, seed);
            }
        }
        if (driven) {
            print_message("%s makes use of room\n", ids[i]);
        }
        n_driven += driven;
    }
    assert_true(n_driven >= 2);
}

#define JOB                                                                                        \
    "[model]\nuse = \"mlp\"\nlayers = 12\ninputs = 8\nhidden = 8\n[data]\nkind = \"synthetic\"\n"  \
    "[train]\nbatch = %u\nmicrobatch = 1\n%s"                                                      \
    "[cluster]\ndevices = %u\nflops = %u\nmemory_bandwidth = %u\nlaunch_overhead = \"%u ns\"\n"    \
    "link_bandwidth = %u\nlink_latency = \"%u ns\"\n[partitioner]\nuse = "                         \
    "\"uniform\"\n[scheduler]\nuse = \"%s\"\n"                                                     \
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
             1000000u << r.v[3] % 12, q.v[0] % 100000, id);
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
static void test_plans_pass_the_checker(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < n_ids; i++) {
        uint32_t max_m = limit_of(ids[i], true);

        for (uint32_t p = 2; p <= 4 && p <= limit_of(ids[i], false); p++) {
            uint32_t passed = check_plan(ids[i], p, p);

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

/* Written as PyTorch's file, and read by the scheduler that takes such files. */
static void check_csv(const char *id, uint32_t p, uint32_t m)
{
    struct schedule_run run = SCHEDULE(id, .p = p, .m = m, .may_fail = true), back;
    uint32_t *rank_of = calloc(run.n_stages + 1, sizeof *rank_of);
    char path[] = "/tmp/penstock-order-XXXXXX", options[64], *text = NULL;
    struct pst_torch_order order;
    int fd;

    assert_non_null(rank_of);
    if (run.status == PST_OK && !run.answer.asynchronous) {
        for (uint32_t s = 0; s < run.n_stages; s++) {
            rank_of[s] = run.solo.stages[s].device;
        }
        order = (struct pst_torch_order){
            .n_ranks = p,
            .n_stages = run.n_stages,
            .n_microbatches = m,
            .rank_of = rank_of,
            .passes = (const struct pst_pass *const *)run.stream.passes,
            .n_passes = run.stream.n_passes,
        };
        assert_int_equal(pst_torch_csv(&order, PST_TORCH_COMPUTE, &text, &run.error), PST_OK);
        assert_string_equal(text, run.csv);
        fd = mkstemp(path);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        close(fd);
        snprintf(options, sizeof options, "file=\"%s\"", path);
        back = SCHEDULE("csv", .options = options, .p = p, .m = m);
        assert_string_equal(back.csv, run.csv);
        assert_int_equal(back.makespan, run.makespan);
        schedule_run_free(&back);
        unlink(path);
    }
    free(text);
    free(rank_of);
    schedule_run_free(&run);
}

static void test_csv_reads_back(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < n_ids; i++) {
        if (limit_of(ids[i], false) > 0) {
            check_csv(ids[i], 2, 4);
            check_csv(ids[i], 3, limit_of(ids[i], true) < 6 ? limit_of(ids[i], true) : 6);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_legal_and_bounded),
        cmocka_unit_test(test_more_room_never_costs),
        cmocka_unit_test(test_plans_pass_the_checker),
        cmocka_unit_test(test_csv_reads_back),
    };

    return cmocka_run_group_tests(tests, find_schedulers, NULL);
}
