/* SPDX-License-Identifier: Apache-2.0
 *
 * Plugins that write into what they are asked, or answer and ask with numbers at the ends of their
 * ranges: in a job, with the command of their kind, and behind a problem of cost "planned". Each is
 * refused with code 3, by a message that names the plugin.
 */
#include "test.h"

#include "job_expect.h"
#include "planner/solo_job.h"
#include "planner/problem_memopt.h"
#include "planner/problem_partition.h"
#include "support.h"

/* Where a lie can be told. */
enum { JOB = 1, SOLO = 2, PLANNED = 4, ALL = JOB | SOLO | PLANNED };

struct row {
    const char *kind, *lie;
    uint32_t ways;
    const char *words; /* of each message */
};

#define WROTE "it wrote into its input"

static const struct row rows[] = {
    {"scheduler", "times", ALL, "broke its contract in schedule(): " WROTE},
    {"scheduler", "link", ALL, WROTE},
    {"scheduler", "room", ALL, WROTE},
    {"scheduler", "place", JOB | PLANNED, "broke its contract in in_flight(): " WROTE},
    {"scheduler", "stages-most", ALL, "topology() wants 4294967295 stages"},
    {"scheduler", "rule-most", ALL, "the unknown version rule 4294967295"},
    {"scheduler", "least-none", ALL, "at least 0 micro-batches"},
    {"scheduler", "multiple-none", ALL, "a multiple of 0"},
    {"scheduler", "device-other", ALL,
     "stage 0 is placed on device 1, but topology() leaves the number of stages open, and stage 0 "
     "sits on device 0 then"},
    {"scheduler", "device-most", ALL, "stage 0 is placed on device 4294967295, but there are 2"},
    {"scheduler", "held-none", JOB | PLANNED, "holds 0 micro-batches"},
    {"scheduler", "versions-most", JOB | PLANNED, "4294967295 weight versions"},
    {"scheduler", "pass-most", ALL, "there is no pass 4294967295"},
    {"scheduler", "stage-most", ALL, "F of stage 4294967295, but there are 2 stages"},
    {"scheduler", "microbatch-most", ALL, "F of micro-batch 4294967295 on stage 0"},
    {"scheduler", "emit-most", ALL, "emitted on device 4294967295"},
    {"scheduler", "part-most", ALL, "there is no part 4294967295"},
    {"scheduler", "pair-most", ALL, "a pair of F and pass 4294967295"},
    {"partitioner", "name", ALL, "broke its contract in partition(): " WROTE},
    {"partitioner", "op", ALL, WROTE},
    {"partitioner", "edge", ALL, WROTE},
    {"partitioner", "batch", ALL, WROTE},
    {"partitioner", "memory", ALL, WROTE},
    {"partitioner", "degree", ALL, WROTE},
    {"partitioner", "figures", ALL, WROTE},
    {"partitioner", "k-most", ALL, "stage 1 has k = 4294967295; it is at least 1, and k"},
    {"partitioner", "k-none", ALL, "stage 1 has k = 0; it is at least 1"},
    {"partitioner", "size-most", ALL, "stage 1 has micro-batches of 4294967295 samples"},
    {"partitioner", "size-none", ALL, "stage 1 has micro-batches of 0 samples"},
    {"partitioner", "node-most", ALL, "stage 1 has node 4294967295"},
    {"partitioner", "rank-most", ALL, "stage 1 is on rank 4294967295"},
    {"partitioner", "rank-twice", ALL, "stage 1 is on rank 0, which has a stage already"},
    {"partitioner", "null-nodes", ALL, "stage 1 has no nodes or no ranks"},
    {"partitioner", "null-ranks", ALL, "stage 1 has no nodes or no ranks"},
    {"partitioner", "no-size", ALL, "stage 1 has no nodes or no ranks"},
    {"partitioner", "many-ranks", ALL, "stage 1 has 4294967295 replicas"},
    {"partitioner", "many-nodes", ALL, "stage 1 has 4294967295 nodes"},
    {"partitioner", "silent", ALL, "is in no stage"},
    {"partitioner", "ask-stages", ALL, "ask.in_flight: neither nodes nor devices suffice"},
    {"partitioner", "ask-microbatches", ALL, "no such number of micro-batches"},
    {"partitioner", "ask-devices", ALL, "ask.topology: there are not so many devices"},
    {"partitioner", "ask-no-devices", ALL, "ask.topology: there are not so many devices"},
    {"partitioner", "ask-null", ALL, "a stage has at least one node"},
    {"partitioner", "ask-early", JOB, "in create(): pst.ask/1 was asked outside of partition()"},
    {"memopt", "price", ALL, "broke its contract in price(): " WROTE},
    {"memopt", "plan", ALL, "broke its contract in plan(): " WROTE},
    {"memopt", "kind", ALL, WROTE},
    {"memopt", "producer", ALL, WROTE},
    {"memopt", "period-none", ALL, "price() promised 0 ns"},
    {"memopt", "period-most", ALL, "price() says that it fits and gives no period"},
    {"memopt", "peak-most", ALL, "price() says that it fits and gives no peak"},
    {"memopt", "position-most", ALL, ""},
    {"memopt", "action-most", ALL, ""},
    {"memopt", "null-replays", ALL, ""},
    {"memopt", "replays-most", ALL, ""},
    {"memopt", "passes", JOB, "broke its contract in plan(): " WROTE},
    {"memopt", "move-stage", JOB, "stage 4294967295, micro-batch 0 to device 1"},
    {"memopt", "move-microbatch", JOB, "stage 0, micro-batch 4294967295 to device 1"},
    {"memopt", "move-device", JOB, "stage 0, micro-batch 0 to device 4294967295"},
    {"memopt", "move-null", JOB, "there are no positions"},
    {"memopt", "move-size", JOB, "a move whose size is not set"},
};

static bool is(const struct row *row, const char *kind)
{
    return strcmp(row->kind, kind) == 0;
}

static pst_status run_job(const struct row *row, struct pst_error *ret_err)
{
    char toml[1024], liar[128];

    snprintf(liar, sizeof liar, "use = \"extreme\"\nlie = \"%s\"\n", row->lie);
    snprintf(toml, sizeof toml, "%s[partitioner]\n%s[scheduler]\n%s%s%s", MODEL TRAIN TWO,
             is(row, "partitioner") ? liar : "use = \"chain-dp\"\n",
             is(row, "scheduler") ? liar : "use = \"1f1b\"\n",
             is(row, "memopt") ? "[[memopt]]\n" : "", is(row, "memopt") ? liar : "");
    return try(toml, ret_err);
}

static pst_status run_schedule(const struct row *row, struct pst_error *ret_err)
{
    char options[64];
    const struct pst_solo_job job = {.id = "extreme",
                                     .options = options,
                                     .n_devices = 2,
                                     .n_microbatches = 4,
                                     .costs = {.forward_ns = 10,
                                               .backward_input_ns = 10,
                                               .backward_weight_ns = 10,
                                               .saved_bytes = 10,
                                               .limit_bytes = UINT64_MAX}};
    struct pst_solo_result result = {.scale = 0};
    pst_status st;

    snprintf(options, sizeof options, "lie=%s", row->lie);
    st = pst_solo_job_run(&job, NULL, NULL, &result, ret_err);
    pst_solo_result_finish(&result);
    return st;
}

/* A chain of four nodes, cut for two devices, or the one stage of a memory optimizer. */
static struct pst_problem *read_problem(const char *keys)
{
    const char *path = support_path("problem.json");
    struct pst_problem *problem = NULL;
    struct pst_error err = {0};
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs("{\"format\": \"penstock-problem\", \"version\": 1, \"graph\": {\"batch\": 1, "
          "\"nodes\": [",
          file);
    for (int i = 0; i < 4; i++) {
        fprintf(file,
                "%s{\"name\": \"n%d\", \"op\": \"linear\", \"forward_us\": 3, "
                "\"backward_input_us\": 5, \"saved_bytes\": 100}",
                i == 0 ? "" : ", ", i);
    }
    fputs("], \"edges\": [", file);
    for (int i = 0; i < 3; i++) {
        fprintf(file, "%s{\"from\": \"n%d\", \"to\": \"n%d\", \"bytes\": 8}", i == 0 ? "" : ", ", i,
                i + 1);
    }
    fprintf(file, "]}, %s}", keys);
    fclose(file);
    if (pst_problem_read(path, &problem, &err) != PST_OK) {
        fail_msg("%s: %s", keys, err.message);
    }
    return problem;
}

#define CUT "\"devices\": 2, \"mini_batch\": 8, \"micro_batches\": [2], \"p2p_bandwidth\": 1e9"

static pst_status run_partition(const struct row *row, bool planned, struct pst_error *ret_err)
{
    const bool cuts = is(row, "partitioner");
    struct pst_problem_job job = {.id = cuts ? "extreme" : "chain-dp"};
    struct pst_partition_result result = {.n_stages = 0};
    struct pst_problem *problem;
    char keys[512];
    pst_status st;

    snprintf(keys, sizeof keys, CUT "%s", planned ? ", \"cost\": \"planned\"" : "");
    snprintf(keys + strlen(keys), sizeof keys - strlen(keys), ", \"%s%s\": {\"lie\": \"%s\"}",
             cuts ? "" : row->kind, cuts ? "options" : "_options", row->lie);
    if (!cuts) {
        snprintf(keys + strlen(keys), sizeof keys - strlen(keys), ", \"%s\": \"extreme\"",
                 row->kind);
    }
    job.problem = problem = read_problem(keys);
    st = pst_problem_partition(&job, NULL, NULL, &result, ret_err);
    if (st == PST_OK) {
        pst_partition_result_finish(&result);
    }
    pst_problem_destroy(problem);
    return st;
}

static pst_status run_memopt(const struct row *row, struct pst_error *ret_err)
{
    struct pst_memopt_result result;
    struct pst_problem *problem;
    char keys[128];
    pst_status st;

    snprintf(keys, sizeof keys, "\"in_flight\": 2, \"options\": {\"lie\": \"%s\"}", row->lie);
    problem = read_problem(keys);
    st = pst_problem_memopt(&(struct pst_problem_job){.id = "extreme", .problem = problem}, NULL,
                            NULL, &result, ret_err);
    if (st == PST_OK) {
        pst_memopt_result_finish(&result);
    }
    pst_problem_destroy(problem);
    return st;
}

static pst_status run(const struct row *row, uint32_t way, struct pst_error *ret_err)
{
    memset(ret_err, 0, sizeof *ret_err);
    switch (way) {
    case JOB:
        return run_job(row, ret_err);
    case PLANNED:
        return run_partition(row, true, ret_err);
    default:
        return is(row, "scheduler")     ? run_schedule(row, ret_err)
               : is(row, "partitioner") ? run_partition(row, false, ret_err)
                                        : run_memopt(row, ret_err);
    }
}

static void expect_refusal(const struct row *row, uint32_t way)
{
    struct pst_error err;
    char name[64];

    snprintf(name, sizeof name, "%s \"extreme\"", row->kind);
    if (run(row, way, &err) == PST_OK) {
        fail_msg("%s, lie %s, way %u: taken for an answer", row->kind, row->lie, way);
    }
    if (pst_error_exit_code(&err) != 3 || strstr(err.message, name) == NULL ||
        strstr(err.message, row->words) == NULL) {
        fail_msg("%s, lie %s, way %u: code %d: %s", row->kind, row->lie, way,
                 pst_error_exit_code(&err), err.message);
    }
}

TEST(test_lies)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (uint32_t way = JOB; way <= PLANNED; way *= 2) {
            if ((rows[i].ways & way) != 0) {
                expect_refusal(&rows[i], way);
            }
        }
    }
}

/* Without a lie the same plugins have their answers taken: the lies are what is found. */
TEST(test_honesty)
{
    static const struct row honest[] = {{"scheduler", "none", ALL, ""},
                                        {"partitioner", "none", ALL, ""},
                                        {"memopt", "none", ALL, ""},
                                        /* more than there are is all there are */
                                        {"scheduler", "held-most", ALL, ""}};

    for (size_t i = 0; i < sizeof honest / sizeof *honest; i++) {
        for (uint32_t way = JOB; way <= PLANNED; way *= 2) {
            struct pst_error err;

            if (run(&honest[i], way, &err) != PST_OK) {
                fail_msg("%s, lie %s, way %u: %s", honest[i].kind, honest[i].lie, way, err.message);
            }
        }
    }
}

/* Times that a scheduler halves are no figures of `penstock schedule`: 4 + 1 micro-batches of 3. */
TEST(test_figures)
{
    struct outcome o =
        penstock("schedule", "extreme", "--devices", "2", "--microbatches", "4", "--json");

    expect_code(&o, 0);
    expect_text(o.out, "\"makespan\":15");
    outcome_finish(&o);
    o = penstock("schedule", "extreme", "--devices", "2", "--microbatches", "4", "--options",
                 "lie=times");
    expect_code(&o, 3);
    expect_text(o.err, "scheduler \"extreme\" broke its contract in schedule(): " WROTE);
    assert_string_equal(o.out, "");
    outcome_finish(&o);
}

static int begin(void **state)
{
    return support_begin(state) != 0 ? -1 : with_gallery(state);
}

static int end(void **state)
{
    return without_gallery(state) != 0 ? -1 : support_end(state);
}

TEST_GROUP(begin, end)
