/* SPDX-License-Identifier: Apache-2.0
 *
 * The scheduler that reads PyTorch's schedule CSV: what it takes, in both conventions, and the one
 * message that each broken file gets, with row and cell.
 */
#include "planner/emission.h"
#include "plugin_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char path[64];

static void write_file(const char *text, size_t length)
{
    FILE *out = fopen(path, "wb");

    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, length, out), length);
    assert_int_equal(fclose(out), 0);
}

static pst_status open_text(const char *text, size_t length, struct pst_instance **ret_instance,
                            struct pst_error *err)
{
    const struct pst_host_context context = {0};
    char options[96];

    write_file(text, length);
    snprintf(options, sizeof options, "file = \"%s\"", path);
    return plugin_rig_open("scheduler", "csv", options, &context, ret_instance, err);
}

/* A chain of the file's own shape, scheduled; the passes as "0F0 1B0 ..." per device. */
static void passes_of(struct pst_instance *instance, char *ret_text, size_t size)
{
    static const char *const names[] = {"?", "F", "B", "W", "BW"};
    const struct pst_fixed_shape *fixed = instance->plugin->get_interface(PST_FIXED_SHAPE);
    const struct pst_scheduler *f = instance->plugin->get_interface(PST_SCHEDULER);
    struct pst_schedule_stage stages[8] = {{.device = 0}};
    struct pst_schedule_link links[8] = {{.from = 0}};
    uint32_t out_links[8] = {0, 1, 2, 3, 4, 5, 6, 7}, p, n, m;
    uint64_t room[8];
    struct pst_topology topology = {.size = sizeof topology};
    struct pst_emission emission;
    struct pst_schedule_in in;
    size_t used = 0;

    assert_int_equal(fixed->shape(instance->self, &p, &n, &m), PST_OK);
    assert_int_equal(f->topology(instance->self, p, &topology), PST_OK);
    assert_int_equal(topology.n_stages, n);
    memset(room, 0xFF, sizeof room);
    for (uint32_t s = 0; s < n; s++) {
        stages[s] = (struct pst_schedule_stage){.device = f->device_of(instance->self, p, n, s),
                                                .microbatch_size = 1,
                                                .n_microbatches = m,
                                                .k = 1,
                                                .first_pred = s > 0 ? s - 1 : 0,
                                                .n_pred = s > 0,
                                                .first_succ = s,
                                                .n_succ = s + 1 < n};
        links[s] = (struct pst_schedule_link){.from = s, .to = s + 1};
    }
    in = (struct pst_schedule_in){.size = sizeof in,
                                  .n_devices = p,
                                  .n_stages = n,
                                  .stage_size = sizeof stages[0],
                                  .n_links = n - 1,
                                  .link_size = sizeof links[0],
                                  .stages = stages,
                                  .links = links,
                                  .out_links = out_links,
                                  .activation_bytes = room};
    pst_emission_init(&emission, &in);
    assert_int_equal(f->schedule(instance->self, &in, &emission.out), PST_OK);
    assert_true(pst_emission_complete(&emission));
    for (uint32_t d = 0; d < p; d++) {
        for (uint32_t i = 0; i < emission.n_passes[d]; i++) {
            const struct pst_pass *pass = &emission.passes[d][i];

            used += (size_t)snprintf(ret_text + used, size - used, "%u%s%u ", pass->stage,
                                     names[pass->op], pass->microbatch);
        }
        used += (size_t)snprintf(ret_text + used, size - used, "/ ");
    }
    pst_emission_finish(&emission);
}

static void expect_passes(const char *text, const char *expected)
{
    struct pst_instance *instance = NULL;
    struct pst_error err = {0};
    char got[512];

    if (open_text(text, strlen(text), &instance, &err) != PST_OK) {
        fail_msg("%s", err.message);
    }
    passes_of(instance, got, sizeof got);
    assert_string_equal(got, expected);
    pst_instance_destroy(instance);
}

#define ONE_F_ONE_B "0F0 0F1 0BW0 0BW1 / 1F0 1BW0 1F1 1BW1 / "
#define SPLIT       "0F0 0B0 0W0 / 1F0 1B0 1W0 / "

static void test_accepts(void **state)
{
    (void)state;
    expect_passes("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", ONE_F_ONE_B);
    expect_passes("0F0,0F1,0B0,0B1\r\n1F0,1B0,1F1,1B1\r\n", ONE_F_ONE_B);
    expect_passes("\xEF\xBB\xBF 0F0 ,0F1,,, 0B0,0B1\t\n,,1F0,1B0,1F1,1B1,,\n\n", ONE_F_ONE_B);
    expect_passes("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1", ONE_F_ONE_B);
    expect_passes("0F0,0I0,0W0,0REDUCE_GRAD\n1UNSHARD,1F0,1I0,1W0,1RESHARD\n", SPLIT);
    /* the older convention, told by BW and by B with W */
    expect_passes("0F0,0F1,0BW0,0BW1\n1F0,1BW0,1F1,1BW1\n", ONE_F_ONE_B);
    expect_passes("0F0,0B0,0W0\n1F0,1B0,1W0\n", SPLIT);
    /* a mixture of split and fused backwards is legal in the newer one */
    expect_passes("0F0,0I0,0W0\n1F0,1B0\n", "0F0 0B0 0W0 / 1F0 1BW0 / ");
    /* a V: stages 0 and 3 on one rank; a pair runs as F, then backward */
    expect_passes("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n", "0F0 3F0 3BW0 0BW0 / 1F0 2F0 2BW0 1BW0 / ");
    expect_passes("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n1F0,1B0,1F1,1B1\n",
                  "0F0 0F1 0BW0 0BW1 / 1F0 1BW0 1F1 1BW1 / ");
    expect_passes("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,0W0,0RECV_B1,0I1,0W1\n"
                  "1RECV_F0,1F0,1RECV_F1,1I0,1SEND_B0,1F1,1I1,1SEND_B1,1W0,1W1\n",
                  "0F0 0F1 0B0 0W0 0B1 0W1 / 1F0 1B0 1F1 1B1 1W0 1W1 / ");
}

static void expect_refusal(const char *text, size_t length, const char *where, const char *what)
{
    struct pst_instance *instance = NULL;
    struct pst_error err = {0};
    pst_status st = open_text(text, length, &instance, &err);

    if (st != PST_ERR_CONFIG || strstr(err.message, where) == NULL ||
        strstr(err.message, what) == NULL || strchr(err.message, '\n') != NULL) {
        fail_msg("\"%s\": status %d, \"%s\", not \"%s\" and \"%s\"", text, (int)st, err.message,
                 where, what);
    }
    assert_int_equal(pst_error_exit_code(&err), 2);
}

static void test_refuses(void **state)
{
    static const struct {
        const char *text, *where, *what;
    } cases[] = {
        {"0F0x,0B0\n", "row 1, cell 1", "nothing may follow"},
        {"F0\n", "row 1, cell 1", "number of a stage"},
        {"0F0,0B0\n1F0,1F,1B0\n", "row 2, cell 2", "micro-batch is missing"},
        {"0F0,0F1048576,0B0\n", "row 1, cell 2", "not below 1048576"},
        {"0F0,0Q1\n", "row 1, cell 2", "is no action"},
        {"0F0,0B0\n0F0,0B0\n", "row 2, cell 1", "on row 1 already"},
        {"0B0,0F0\n", "row 1, cell 1", "comes before 0F0"},
        {"0F0,0W0\n", "row 1, cell 2", "comes before"},
        {"0F0,0I0\n", "row 1", "weight gradient (W) of micro-batch 0"},
        {"0F0,0B0\n2F0,2B0\n", "stage 1 is on no row", "stage 2"},
        {"0F0,0B0\n1F0,1B0,1F1,1B1\n", "row 2, cell 3", "micro-batches 0 to 0"},
        {"0F0,0F1,0B0,0B1\n1F0,1B0\n", "row 2", "never runs the forward"},
        {"0F0,0F0,0B0\n", "row 1, cell 2", "comes twice"},
        {"0F0,0B0,0B0\n", "row 1, cell 3", "its backward already"},
        {"0F0,0I0,0W0,0W0\n", "row 1, cell 4", "already"},
        {"0F0,0F1,0I0,0BW1,0W0\n", "mixes two conventions", "cell 4"},
        {"0F0,0B0\n\n1F0,1B0\n", "row 2 is empty", "rank"},
        {"\n\n", "holds no action", ""},
        {"(0F0;0W0)OVERLAP_F_B\n", "row 1, cell 1", "one F and one B"},
        {"(0F0;0B0)\n", "row 1, cell 1", "OVERLAP_F_B"},
        {"99999999999F0\n", "row 1, cell 1", "below 1048576"},
        {"0F99999999999\n", "row 1, cell 1", "micro-batch"},
        {"1048575F1048575\n", "stage 0 is on no row", "1048575"},
        /* transfers */
        {"0F0,0B0\n1RECV_F0,1F0,1B0\n", "row 1: 0SEND_F0 is missing", "all of them"},
        {"0F0,0SEND_F0,0SEND_F0,0B0\n1F0,1B0\n", "row 1, cell 3", "twice"},
        {"0SEND_F0,0F0,0B0\n1RECV_F0,1F0,1B0\n", "row 1, cell 1", "before the pass"},
        {"0F0,0SEND_F0,0B0\n1F0,1RECV_F0,1B0\n", "row 2, cell 2", "after the pass"},
        {"0F0,1RECV_F0,1F0,1B0,0B0\n", "row 1, cell 2", "need no transfer"},
        {"0RECV_F0,0F0,0B0\n", "row 1, cell 1", "no stage to exchange"},
        /* rows that wait for each other: stage 0 wants the gradient of 1 before it sends 0F1 */
        {"0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n", "row 2, cell 2 (1F1)",
         "1F1 needs 0F1 (row 1, cell 3), which stands behind 0B0, which needs 1B0 (row 2, cell 3), "
         "which "
         "stands behind 1F1"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_refusal(cases[i].text, strlen(cases[i].text), cases[i].where, cases[i].what);
    }
    expect_refusal("0F0\0,0B0", 8, "NUL at byte 3", "");
}

static void test_fixes_the_instance(void **state)
{
    static const char text[] = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n";
    struct pst_topology topology = {.size = sizeof topology};
    struct pst_instance *instance = NULL;
    struct pst_error err = {0};
    const struct pst_scheduler *f;

    (void)state;
    assert_int_equal(open_text(text, strlen(text), &instance, &err), PST_OK);
    f = instance->plugin->get_interface(PST_SCHEDULER);
    assert_int_equal(f->topology(instance->self, 3, &topology), PST_ERR_CONFIG);
    assert_non_null(strstr(instance->failure.message, "2 rows"));
    pst_instance_destroy(instance);
}

/* Cut anywhere, a file is read or refused, never worse. */
static void test_truncated(void **state)
{
    static const char text[] = "0F0,(0F1;0B0)OVERLAP_F_B,0SEND_F1,0B1\r\n1F0,1B0,1F1,1B1\r\n";

    (void)state;
    for (size_t n = 0; n < sizeof text; n++) {
        struct pst_instance *instance = NULL;
        struct pst_error err = {0};

        if (open_text(text, n, &instance, &err) == PST_OK) {
            pst_instance_destroy(instance);
        } else {
            assert_true(err.message[0] != '\0');
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_fixes_the_instance),
        cmocka_unit_test(test_truncated),
    };
    int failed;

    snprintf(path, sizeof path, "/tmp/penstock-csv-test-%d.csv", (int)getpid());
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
