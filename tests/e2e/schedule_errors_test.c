/* SPDX-License-Identifier: Apache-2.0
 *
 * What is said to requests that a scheduler cannot serve: the numbers it names do work, and less
 * does not; files with schedules are refused with row and cell.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "expect_error.h"

/* --- memory ------------------------------------------------------------------------------------*/

struct need {
    const char *id, *options, *p, *m;
    const char *refused, *smallest, *less; /* --memory-limit; `less` is one unit below */
};

/* Peaks by the schedules' own papers or constructions; those that search need one micro-batch,
   which every device holds on all its stages before the first backward. A limit has six decimals.
 */
static const struct need needs[] = {
    {"1f1b", NULL, "4", "8", "1", "4", "3"},           /* p */
    {"1f1b", "eager=true", "4", "8", "3.5", "7", "6"}, /* 2p - 1 */
    {"gpipe", NULL, "4", "8", "2", "8", "7"},          /* m */
    {"2bw", NULL, "4", "8", "2", "4", "3"},            /* p */
    {"per-stage", NULL, "4", "8", "0", "4", "3"},      /* p */
    {"zb-h1", NULL, "4", "8", "0.5", "4", "3"},        /* p */
    {"zb-h2", NULL, "4", "8", "6.999999", "7", "6"},   /* 2p - 1 */
    {"interleaved", NULL, "4", "8", "3", "5.5", "5"},  /* (v - 1) p + 2 (p - 1) + 1 chunks */
    {"interleaved", "chunks=3", "3", "6", "1", "3.666667", "3.666666"}, /* 11 thirds */
    {"interleaved-zb", NULL, "4", "8", "1", "4", "3.5"},                /* v p chunks */
    {"group-interleaved", NULL, "4", "8", "2.5", "4", "3.5"},           /* v p chunks */
    {"looped-bfs", NULL, "4", "8", "7.5", "8", "7.5"},                  /* m */
    {"zbv", NULL, "4", "8", "0", "4", "3.5"},                           /* 2p chunks */
    {"1f1b-v", NULL, "4", "8", "1", "3", "2.5"},                        /* (4p + 2) / 3 chunks */
    {"v-half", NULL, "4", "8", "2", "3", "2.5"},      /* 2 floor((p + 2) / 2) chunks */
    {"v-min", NULL, "4", "8", "1", "2", "1.5"},       /* 2 floor((p + 4) / 3) chunks */
    {"dualpipev", NULL, "4", "8", "4.4", "4.5", "4"}, /* 2p + 1 chunks */
    {"v-zb", NULL, "4", "8", "1.5", "4", "3.5"},      /* 2p chunks */
    {"zb-auto", NULL, "4", "8", "0", "1", "0.999999"},
    {"v-adaptive", "effort=0", "4", "8", "0.5", "1", "0.999999"},
    {"optimal", "max_nodes=1000", "3", "4", "0.25", "1", "0.999999"},
};

static struct outcome limited(const struct need *need, const char *limit)
{
    return penstock("schedule", need->id, "-d", need->p, "-m", need->m, "--memory-limit", limit,
                    need->options == NULL ? "--quiet" : "--options",
                    need->options == NULL ? "--quiet" : need->options);
}

static void expect_refused(const struct need *need, const char *limit)
{
    struct outcome o = limited(need, limit);
    char words[64];

    snprintf(words, sizeof words, "the smallest that works is %s\n", need->smallest);
    expect_code(&o, 1);
    expect_text(o.err, need->id);
    expect_text(o.err, "--memory-limit ");
    expect_text(o.err, words);
    assert_string_equal(o.out, "");
    outcome_finish(&o);
}

static void test_smallest_limit(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
        struct outcome o = limited(&needs[i], needs[i].smallest);

        expect_code(&o, 0);
        outcome_finish(&o);
        expect_refused(&needs[i], needs[i].refused);
        expect_refused(&needs[i], needs[i].less);
    }
}

/* One device; parts of activations that are no halves; a limit as a parameter beside it. */
static void test_limits_otherwise(void **state)
{
    (void)state;
    EXPECT_ERROR(1, "plan.infeasible", "of 1 micro-batch on 1 device within --memory-limit 0.5; ",
                 "schedule", "v-half", "-d", "1", "-m", "1", "--memory-limit", "0.5");
    /* ZB-H1's last device: 1 + (p - 1) AW, its first p */
    EXPECT_ERROR(1, "plan.infeasible", "the smallest that works is 4", "schedule", "zb-h1", "-d",
                 "4", "-m", "8", "--aw", "0.333333", "--memory-limit", "3.9");
    EXPECT_ERROR(1, "plan.infeasible", "memory_limit = 0.5 is too little for zb-auto", "schedule",
                 "zb-auto", "-d", "4", "-m", "8", "--memory-limit", "3", "-o", "memory_limit=0.5");
    EXPECT_ERROR(1, "plan.infeasible",
                 "memory_limit = 0.5 is too little for v-adaptive; the "
                 "smallest that works is 1",
                 "schedule", "v-adaptive", "-d", "4", "-m", "8", "-o", "memory_limit=0.5");
    /* too few micro-batches stays the reason, whatever the limit */
    EXPECT_ERROR(1, "plan.infeasible", "needs at least 8 micro-batches, not 5", "schedule",
                 "dualpipev", "-d", "4", "-m", "5", "--memory-limit", "1");
}

static void test_limit_of_a_problem(void **state)
{
    const char *text =
        "{\"format\": \"penstock-schedule-problem\", \"version\": 1, \"samples\": 4, "
        "\"memory_bytes\": 15, \"stages\": ["
        "{\"forward_us\": 1, \"backward_input_us\": 1, \"backward_weight_us\": 1, "
        "\"saved_bytes\": 10},"
        "{\"forward_us\": 1, \"backward_input_us\": 1, \"backward_weight_us\": 1, "
        "\"saved_bytes\": 5}]}";
    const char *file = support_write("problem.json", text);

    (void)state;
    EXPECT_ERROR(1, "plan.infeasible",
                 "holds 20 bytes on device 0, more than its memory_bytes, 15; another scheduler",
                 "schedule", "1f1b", "--problem", file);
    EXPECT_ERROR(1, "plan.infeasible", "device 0 would hold 20 bytes", "schedule", "zb-h1",
                 "--problem", file);
}

/* --- numbers of micro-batches and chunks, parameters -------------------------------------------*/

static void expect_works(const char *id, const char *p, const char *m)
{
    struct outcome o = penstock("schedule", id, "-d", p, "-m", m);

    expect_code(&o, 0);
    outcome_finish(&o);
}

static void test_micro_batches(void **state)
{
    static const struct {
        const char *id, *p, *m, *words, *enough[2];
    } rows[] = {
        {"2bw", "4", "3", "needs at least 4 micro-batches, not 3", {"4", "5"}},
        {"dualpipev", "3", "5", "needs at least 6 micro-batches, not 5", {"6", "7"}},
        {"interleaved", "4", "9", "8 or 10 would do", {"8", "10"}},
        {"interleaved-zb", "3", "7", "6 or 8 would do", {"6", "8"}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        EXPECT_ERROR(1, "plan.infeasible", rows[i].words, "schedule", rows[i].id, "-d", rows[i].p,
                     "-m", rows[i].m);
        expect_works(rows[i].id, rows[i].p, rows[i].enough[0]);
        expect_works(rows[i].id, rows[i].p, rows[i].enough[1]);
    }
    expect_works("v-half", "1", "1");
    expect_works("dualpipev", "1", "2");
}

static const char config[] = "[model]\nuse = \"mlp\"\n\n"
                             "[data]\nkind = \"synthetic\"\n\n"
                             "[train]\nbatch = 12\nmicrobatch = 4\n\n"
                             "[cluster]\ndevices = 4\n\n"
                             "[partitioner]\nuse = \"uniform\"\n\n"
                             "[scheduler]\nuse = \"2bw\"\n\n"
                             "[[memopt]]\nuse = \"none\"\n";

static void test_micro_batches_of_a_job(void **state)
{
    const char *job = support_write("job.toml", config), *plan = support_path("plan.json");
    const char *csv = support_write("two.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
    char use[160];

    (void)state;
    EXPECT_ERROR(
        2, "config.value",
        "needs at least 4 micro-batches, but batch 12 in micro-batches of 4 gives 3; raise "
        "train.batch or lower train.microbatch",
        "plan", job, "-o", plan);
    snprintf(use, sizeof use, "scheduler={use=\"csv\", file=\"%s\"}", csv);
    EXPECT_ERROR(2, "config.value", "a multiple of 2, but batch 12 in micro-batches of 4 gives 3",
                 "plan", job, "-o", plan, "--set", use, "--set", "cluster.devices=2");
    EXPECT_ERROR(2, "config.value", "has 2 rows, one per device, but there are 4 devices", "plan",
                 job, "-o", plan, "--set", use);
    assert_null(support_read(plan));
}

#define OPTIONS(kind, words, id, text)                                                             \
    EXPECT_ERROR(2, kind, words, "schedule", id, "-d", "4", "-m", "8", "-o", text)

static void test_options(void **state)
{
    (void)state;
    OPTIONS("config.value", "between 1 and 64, not 0", "interleaved", "chunks=0");
    OPTIONS("config.value", "between 1 and 64, not 65", "looped-bfs", "chunks=65");
    OPTIONS("config.value", "must be an integer, not a float", "interleaved-zb", "chunks=1.5");
    OPTIONS("config.value", "chunks=", "interleaved", "chunks=");
    OPTIONS("config.key", "did you mean", "group-interleaved", "chunk=2");
    OPTIONS("config.value", "group = 5 on 4 devices; a group has 1 to 4", "group-interleaved",
            "group=5");
    OPTIONS("config.value", "must be sequential, looped or vshape", "optimal", "placement=vee");
    OPTIONS("config.value", "must be published or improved", "v-half", "variant=better");
    OPTIONS("config.value", "between 0 and 1000000, not -1", "zb-auto", "memory_limit=-1");
    OPTIONS("config.key", "is no parameter; NAME says which", "1f1b", "use=gpipe");
    OPTIONS("config.key", "is no parameter; NAME says which", "1f1b", "path=x.so");
}

/* --- files -------------------------------------------------------------------------------------*/

static void test_files(void **state)
{
    static const struct {
        const char *text, *where, *why;
    } rows[] = {
        /* stage 1 wants micro-batch 1 first, stage 0 sends it only when 0 is back */
        {"0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n", "row 2, cell 1 (1F1)",
         "1F1 needs 0F1 (row 1, cell 3), which stands behind 0B0, which needs 1B0 (row 2, cell 4)"},
        {"0F0,0SEND_F0,0RECV_B0,0B0,0F1,0SEND_F1,0RECV_B1,0B1\n"
         "1RECV_F1,1F1,1B1,1SEND_B1,1RECV_F0,1F0,1B0,1SEND_B0\n",
         "row 2, cell 1 (1RECV_F1)", "0SEND_F1 (row 1, cell 6)"},
        {"0F0,0F1,0B0,0B1\n1F0,1X0,1F1,1B1\n", "row 2, cell 2",
         "is no action: behind the stage comes F, I, B, W"},
        {"0F0,0B0\n1F0,hello\n", "row 2, cell 2", "begins with the number of a stage"},
        {"0F0,0B0\n1F0,1B\n", "row 2, cell 2", "the number of a micro-batch is missing"},
        {"0F0,0B0\n1F0,1B0,,1F9999999\n", "row 2, cell 4", "not below 1048576"},
        {"0F0,0B0\n1F0,1B0x\n", "row 2, cell 2", "nothing may follow the action"},
        {"0F0,0B0\n2F0,2B0\n", "bad.csv: ", "stage 1 is on no row, though there is a stage 2"},
        {"0F0,0B0\n\n1F0,1B0\n", "row 2 is empty", "each rank has a stage"},
        {"0F0,0B0,1F0\n1F0,1B0\n", "row 2, cell 1 (1F0)", "stage 1 is on row 1 already"},
        {"0F0,0B0\n1F0,1B0,1F0\n", "row 2, cell 3 (1F0)", "comes twice"},
        {"0F0,0B0,0B0\n1F0,1B0\n", "row 1, cell 3 (0B0)", "has its backward already"},
        {"0F0,0B0\n1B0,1F0\n", "row 2, cell 1 (1B0)", "comes before 1F0 on its row"},
        {"0F0,0F1,0B0,0B1\n1F0,1B0,1F1\n", "row 2", "never runs the backward of micro-batch 1"},
        {"0F0,0F1,0B0,0B1\n1F0,1B0\n", "row 2", "never runs the forward (F) of micro-batch 1"},
        {"0F0,0I0\n1F0,1I0,1W0\n", "row 1", "never runs the weight gradient (W) of micro-batch 0"},
        {"0F0,0B0\n1F0,1B0,1F1,1B1\n", "row 2, cell 3 (1F1)", "micro-batches 0 to 0 only"},
        {"0F0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n", "row 1", "0RECV_B0 is missing"},
        {"0F0,(0F1;0F2)OVERLAP_F_B\n", "row 1, cell 2", "a pair holds one F and one B"},
        {"0F0,0I0,0W0\n1F0,1BW0\n", "row 1, cell 2 uses I", "row 2, cell 2 uses BW"},
        {",,\n,\n", "bad.csv ", "holds no action"},
        {"", "bad.csv ", "holds no action"},
    };
    char option[160];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *file = support_write("bad.csv", rows[i].text);

        snprintf(option, sizeof option, "file=\"%s\"", file);
        EXPECT_ERROR(2, "config.value", rows[i].where, "import", "pytorch-csv", file);
        EXPECT_ERROR(2, "config.value", rows[i].why, "schedule", "csv", "-o", option);
    }
}

/* Rows of different lengths and idle cells are no fault. */
static void test_ragged_file(void **state)
{
    const char *file = support_write("ragged.csv", "0F0,0F1,,0B0,0B1,,,\n1F0,1B0,1F1,1B1\n\n");
    struct outcome o = penstock("import", "pytorch-csv", file);

    (void)state;
    expect_code(&o, 0);
    expect_text(o.out, "lower bound");
    outcome_finish(&o);
}

static void test_file_and_numbers(void **state)
{
    const char *file = support_write("two.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
    char option[160];

    (void)state;
    snprintf(option, sizeof option, "file=\"%s\"", file);
    EXPECT_ERROR(2, "config.value", "has 2 rows, one per device, but there are 3 devices",
                 "schedule", "csv", "-o", option, "-d", "3");
    EXPECT_ERROR(2, "plan.mismatch", "2 devices and 2 micro-batches, not for 2 and 4", "schedule",
                 "csv", "-o", option, "-m", "4");
    EXPECT_ERROR(1, "plan.infeasible",
                 "holds 2 on device 0, more than --memory-limit 1; the smallest that works is 2",
                 "schedule", "csv", "-o", option, "--memory-limit", "1");
    EXPECT_ERROR(2, "config.key", "needs the key", "schedule", "csv", "-d", "2", "-m", "2");
    EXPECT_ERROR(2, "input.path", "No such file", "schedule", "csv", "-o", "file=/nonexistent.csv");
    EXPECT_ERROR(2, "input.path", "Is a directory", "schedule", "csv", "-o", "file=/tmp");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smallest_limit),
        cmocka_unit_test(test_limits_otherwise),
        cmocka_unit_test(test_limit_of_a_problem),
        cmocka_unit_test(test_micro_batches),
        cmocka_unit_test(test_micro_batches_of_a_job),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_ragged_file),
        cmocka_unit_test(test_file_and_numbers),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
