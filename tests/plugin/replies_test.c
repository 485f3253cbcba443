/* SPDX-License-Identifier: Apache-2.0
 *
 * What plugins' processes send back, forged: whatever is not an answer to what was asked is refused
 * where it is read, and the plugin is named.
 */
#include <math.h>
#include "test.h"

#include "ask/problem_memopt.h"
#include "ask/problem_partition.h"
#include "commands/ask_plugin.h"

static void expect_refused(pst_status st, const char *name, const char *what,
                           const struct pst_error *err)
{
    if (st != PST_ERR_BUG || strcmp(err->kind, "plugin.contract") != 0 ||
        pst_error_exit_code(err) != 3 || strstr(err->message, name) == NULL) {
        fail_msg("%s: status %d, kind %s, exit code %d: %s", what, st, err->kind, err->exit_code,
                 err->message);
    }
}

static struct pst_problem *read_problem(const char *name)
{
    struct pst_problem *problem = NULL;
    struct pst_error err = {0};
    char path[512];

    snprintf(path, sizeof path, PENSTOCK_SOURCE_DIR "/%s", name);
    assert_ok(pst_problem_read(path, &problem, &err), &err);
    return problem;
}

/* Where `lie` is what the answer is wrong in. */
#define IS(what) (strcmp(lie, what) == 0)

/* --- partitioners ------------------------------------------------------------------------------*/

static struct pst_partition_result asked(const struct pst_problem_job *job)
{
    struct pst_partition_result answer;
    struct pst_error err = {0};

    assert_ok(pst_apart_ask(&pst_partition_kind, job, job->id, NULL, NULL, &answer, &err), &err);
    return answer;
}

/* What is read of an answer that was sent, `cut` bytes shorter and `more` longer. */
static pst_status taken(const struct pst_apart_kind *kind, const void *job, const char *name,
                        const void *answer, size_t cut, size_t more, void *back,
                        struct pst_error *err)
{
    char sent[sizeof(struct pst_partition_result) + sizeof(struct pst_schedule_result)];
    struct pst_wire w = {.reads = false};
    char *bytes, *copy;
    size_t n;
    pst_status st;

    memcpy(sent, answer, kind->answer_size);
    pst_apart_put(kind, job, sent, &w);
    bytes = w.bytes;
    n = w.n;
    assert_true(cut <= n);
    copy = calloc(1, n - cut + more + 1);
    memcpy(copy, bytes, n - cut);
    st = pst_apart_take(kind, job, name, copy, n - cut + more, back, err);
    free(copy);
    free(bytes);
    return st;
}

static pst_status sent(const struct pst_problem_job *job, const struct pst_partition_result *answer,
                       size_t cut, size_t more, struct pst_error *err)
{
    struct pst_partition_result back;
    pst_status st = taken(&pst_partition_kind, job, job->id, answer, cut, more, &back, err);

    if (st == PST_OK) {
        st = pst_partition_judge(job->problem, &back, err);
        pst_partition_result_finish(&back);
    }
    return st;
}

static const char *const partitions[] = {"none",
                                         "a device that there is not",
                                         "a place too few",
                                         "no stages",
                                         "no in flight",
                                         "a negative time",
                                         "memory that is NaN",
                                         "a step without end",
                                         "a long search",
                                         "a stage too many",
                                         "an id without an end",
                                         NULL};

/* The answer of a scheduler with places of its own, with one lie. */
static void forge_partition(struct pst_partition_result *answer, const char *lie,
                            uint32_t *device_of)
{
    memcpy(device_of, answer->places.device_of, answer->places.n * sizeof *device_of);
    device_of[1] = IS("a device that there is not") ? 4000000000u : device_of[1];
    answer->places.device_of = device_of;
    answer->places.n -= IS("a place too few");
    answer->n_stages = IS("no stages") ? 0 : answer->n_stages - IS("a stage too many");
    answer->stages[0].in_flight = IS("no in flight") ? 0 : answer->stages[0].in_flight;
    answer->stages[0].compute_ns = IS("a negative time") ? -1 : answer->stages[0].compute_ns;
    answer->stages[1].memory_bytes =
        IS("memory that is NaN") ? NAN : answer->stages[1].memory_bytes;
    answer->step_ns = IS("a step without end") ? INFINITY : answer->step_ns;
    answer->search_seconds = IS("a long search") ? 1e300 : answer->search_seconds;
    if (IS("an id without an end")) {
        memset(answer->id, 'x', sizeof answer->id);
    }
}

TEST(partitions_are_held_against_the_problem)
{
    struct pst_problem *problem = read_problem("tests/fuzz/corpus/problem/planned.json");
    const struct pst_problem_job job = {.id = "uniform", .problem = problem};
    uint32_t device_of[16];

    for (uint32_t lie = 0; partitions[lie] != NULL; lie++) {
        FINISHED_BY(pst_partition_result_finish) struct pst_partition_result answer = asked(&job);
        struct pst_error err = {0};
        pst_status st;

        assert_true(answer.places.n <= 16);
        forge_partition(&answer, partitions[lie], device_of);
        st = sent(&job, &answer, 0, 0, &err);
        if (lie == 0) {
            assert_int_equal(st, PST_OK);
            for (size_t cut = 1; cut < 300; cut++) {
                expect_refused(sent(&job, &answer, cut, 0, &err), "\"uniform\"", "half", &err);
            }
            expect_refused(sent(&job, &answer, 0, 1, &err), "\"uniform\"", "more", &err);
        } else {
            expect_refused(st, "\"uniform\"", partitions[lie], &err);
        }
    }
    pst_problem_destroy(problem);
}

/* Who has no scheduler has a place a device, and no more can be said. */
TEST(places_are_the_problems)
{
    struct pst_problem *problem = read_problem("configs/problems/two-branches.json");
    const struct pst_problem_job job = {.id = "graphpipe", .problem = problem};
    struct pst_partition_result answer = asked(&job);
    const uint32_t device_of[] = {0, 1, 2, 3, 4};
    struct pst_error err = {0};
    uint32_t ranks[] = {70000};

    assert_int_equal(sent(&job, &answer, 0, 0, &err), PST_OK);
    answer.places.device_of = device_of;
    answer.places.n = 5;
    expect_refused(sent(&job, &answer, 0, 0, &err), "\"graphpipe\"", "places", &err);
    answer.places.device_of = NULL;
    answer.places.n = 1u << 30; /* of which nothing is sent, and nothing is made */
    assert_int_equal(sent(&job, &answer, 0, 0, &err), PST_OK);
    answer.stages[0].ranks = ranks; /* one of these places, by the rules */
    assert_int_equal(sent(&job, &answer, 0, 0, &err), PST_ERR_BUG);
    assert_string_equal(err.kind, "plan.illegal");
    assert_non_null(strstr(err.message, "rank 70000"));
    pst_partition_result_finish(&answer);
    pst_problem_destroy(problem);
}

/* What a stage holds is counted in 32 bits, in samples. */
TEST(samples_in_flight_do_not_wrap)
{
    struct pst_problem *problem = read_problem("tests/fuzz/corpus/problem/planned.json");
    const struct pst_problem_job job = {.id = "uniform", .problem = problem};
    struct pst_partition_result answer = asked(&job);
    struct pst_error err = {0};

    for (uint32_t s = 0; s < answer.n_stages; s++) {
        answer.stages[s].microbatch_size = 2;
        answer.stages[s].in_flight = (1u << 31) + 1; /* 2 samples where it wraps */
    }
    assert_int_equal(sent(&job, &answer, 0, 0, &err), PST_ERR_BUG);
    assert_string_equal(err.kind, "plan.illegal");
    assert_non_null(strstr(err.message, "holds 4294967298 samples"));
    pst_partition_result_finish(&answer);
    pst_problem_destroy(problem);
}

/* --- schedulers --------------------------------------------------------------------------------*/

static pst_status schedule_sent(const struct pst_schedule_job *job,
                                const struct pst_schedule_result *result, size_t cut, size_t more,
                                struct pst_error *err)
{
    struct pst_schedule_result back;
    pst_status st = taken(&pst_schedule_kind, job, job->id, result, cut, more, &back, err);

    if (st == PST_OK) {
        assert_int_equal(back.scale, result->scale);
        assert_int_equal(back.asked.in.n_stages, result->asked.in.n_stages);
        for (uint32_t s = 0; s < result->asked.in.n_stages; s++) {
            assert_memory_equal(&back.asked.stages[s], &result->asked.stages[s],
                                sizeof *back.asked.stages);
        }
        pst_schedule_result_finish(&back);
    }
    return st;
}

static const char *const schedules[] = {"none",
                                        "a device that there is not",
                                        "other micro-batches",
                                        "another number of devices",
                                        "an unknown version rule",
                                        "no stages",
                                        "a pass twice",
                                        "a pass too few",
                                        "a stage that there is not",
                                        "a pass on another device",
                                        "twice what was asked once",
                                        NULL};

static void forge_schedule(struct pst_schedule_result *result, const char *lie)
{
    struct pst_order_question *asked = &result->asked;
    struct pst_pass *passes = result->answer.passes[1][0];

    asked->stages[1].device = IS("a device that there is not") ? 70000 : asked->stages[1].device;
    asked->stages[0].n_microbatches =
        IS("other micro-batches") ? 5 : asked->stages[0].n_microbatches;
    asked->in.n_devices = IS("another number of devices") ? 1 : asked->in.n_devices;
    asked->topology.version_rule =
        IS("an unknown version rule") ? 77 : asked->topology.version_rule;
    asked->in.n_stages = IS("no stages") ? 0 : asked->in.n_stages;
    passes[1] = IS("a pass twice") ? passes[0] : passes[1];
    result->answer.n_passes[1][0] -= IS("a pass too few");
    passes[0].stage = IS("a stage that there is not")  ? 1u << 31
                      : IS("a pass on another device") ? 1
                                                       : passes[0].stage;
    result->has_twice = result->has_twice || IS("twice what was asked once");
}

TEST(schedules_are_held_against_the_job)
{
    const struct pst_schedule_job job = {
        .id = "gpipe", .n_devices = 2, .n_microbatches = 4, .costs = pst_cli_unit_costs()};
    struct pst_schedule_job job_twice = job;

    job_twice.again = true;
    for (uint32_t lie = 0; schedules[lie] != NULL; lie++) {
        struct pst_schedule_result result, forged;
        struct pst_error err = {0};
        pst_status st;

        assert_int_equal(pst_schedule_job_run(&job_twice, NULL, NULL, &result, &err), PST_OK);
        assert_int_equal(schedule_sent(&job_twice, &result, 0, 0, &err), PST_OK);
        forged = result;
        forged.has_twice = false;
        forge_schedule(&forged, schedules[lie]);
        st = schedule_sent(&job, &forged, 0, 0, &err);
        if (lie == 0) {
            assert_int_equal(st, PST_OK);
            for (size_t cut = 1; cut < 300; cut++) {
                expect_refused(schedule_sent(&job, &forged, cut, 0, &err), "\"gpipe\"", "half",
                               &err);
            }
            expect_refused(schedule_sent(&job, &forged, 0, 1, &err), "\"gpipe\"", "more", &err);
        } else {
            expect_refused(st, "\"gpipe\"", schedules[lie], &err);
        }
        pst_schedule_result_finish(&result);
    }
}

/* --- memory optimizers -------------------------------------------------------------------------*/

/* Where things are: a first word, id, version, seconds, then numbers of 8 bytes, then actions. */
enum { ID = 9, SECONDS = ID + 64 + 32, FITS = SECONDS + 8, ACTIONS = FITS + 3 * 8 };

static pst_status adopted(const struct pst_problem_job *job, const char *bytes, size_t n,
                          struct pst_error *err)
{
    struct pst_memopt_result result;
    pst_status st = pst_apart_take(&pst_memopt_kind, job, job->path, bytes, n, &result, err);

    if (st == PST_OK) {
        st = pst_memopt_judge(&result, err);
        pst_memopt_result_finish(&result);
    }
    return st;
}

TEST(memory_plans_are_held_against_the_stage)
{
    static const struct {
        const char *what;
        size_t at;
        uint8_t byte;
    } lies[] = {{"another first word", 0, 'x'},
                {"an id with a line in it", ID + 1, '\n'},
                {"seconds beyond counting", SECONDS + 7, 0x7F},
                {"more than yes or no", FITS + 5, 1},
                {"an action that there is not", ACTIONS + 2, 9},
                {"an action of several stages", ACTIONS, PST_ACTION_PEER}};
    struct pst_problem *problem = read_problem("configs/problems/four-layers.json");
    const struct pst_problem_job job = {.path = "/x/memopt-dawnpiper.so", .problem = problem};
    const struct pst_problem_job home = {.id = "dawnpiper", .problem = problem};
    struct pst_wire w = {.reads = false};
    struct pst_memopt_result result;
    struct pst_error err = {0};
    char *bytes, *copy;
    size_t n;

    assert_int_equal(pst_apart_ask(&pst_memopt_kind, &home, home.id, NULL, NULL, &result, &err),
                     PST_OK);
    pst_apart_put(&pst_memopt_kind, &home, &result, &w);
    bytes = w.bytes;
    n = w.n;
    pst_memopt_result_finish(&result);
    copy = calloc(1, n + 1);
    assert_int_equal(adopted(&job, bytes, n, &err), PST_OK);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        memcpy(copy, bytes, n);
        copy[lies[i].at] = (char)lies[i].byte;
        expect_refused(adopted(&job, copy, n, &err), job.path, lies[i].what, &err);
    }
    memcpy(copy, bytes, n);
    for (size_t length = 0; length <= n + 1; length++) {
        if (length != n) {
            expect_refused(adopted(&job, copy, length, &err), job.path, "another length", &err);
        }
    }
    free(copy);
    free(bytes);
    pst_problem_destroy(problem);
}
