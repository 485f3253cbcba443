/* SPDX-License-Identifier: Apache-2.0
 *
 * What a problem file may say to `penstock memopt`: keys that are left out, sizes, parameters in
 * every form that a TOML table may give them, and what is refused with the place and a reason.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "partition_rig.h"

/* (1,2,8) (6,12,4) (1,2,6) (4,8,2) in a chain; static 10, input 2, a link of a byte a us. */
#define NODES                                                                                      \
    "\"graph\":{\"batch\":1,\"nodes\":["                                                           \
    "{\"name\":\"h.0.norm\",\"forward_us\":1,\"backward_input_us\":2,\"saved_bytes\":8},"          \
    "{\"name\":\"h.0.gelu\",\"forward_us\":6,\"backward_input_us\":12,\"saved_bytes\":4},"         \
    "{\"name\":\"h.1.norm\",\"forward_us\":1,\"backward_input_us\":2,\"saved_bytes\":6},"          \
    "{\"name\":\"h.1.gelu\",\"forward_us\":4,\"backward_input_us\":8,\"saved_bytes\":2}],"         \
    "\"edges\":[{\"from\":\"h.0.norm\",\"to\":\"h.0.gelu\"},{\"from\":\"h.0.gelu\",\"to\":\"h.1."  \
    "norm\"},{\"from\":\"h.1.norm\",\"to\":\"h.1.gelu\"}]},"                                       \
    "\"static_bytes\":10,\"input_bytes\":2,\"swap_bandwidth\":1e6,"

static const char *problem_of(const char *rest)
{
    static char text[4096];

    snprintf(text, sizeof text, HEAD NODES "%s}", rest);
    return support_write("stage.json", text);
}

static const char *letters_of(const json_t *root)
{
    static char plan[8];
    const json_t *actions = json_object_get(root, "actions");

    assert_int_equal(json_array_size(actions), 4);
    for (size_t v = 0; v < 4; v++) {
        const char *word = json_string_value(json_object_get(json_array_get(actions, v), "action"));

        plan[v] = strcmp(word, "keep") == 0 ? 'K' : strcmp(word, "recompute") == 0 ? 'R' : 'S';
    }
    return plan;
}

/* plan NULL: any. */
static void expect(const char *name, const char *rest, const char *plan, double extra, double peak)
{
    struct outcome o = penstock("memopt", name, "--json", "--problem", problem_of(rest));
    json_t *root;

    expect_code(&o, 0);
    root = object_of(&o);
    if (plan != NULL) {
        assert_string_equal(letters_of(root), plan);
    }
    expect_number(root, "extra_us", extra);
    expect_number(root, "peak_bytes", peak);
    json_decref(root);
    outcome_finish(&o);
}

static void expect_refusal(const char *name, const char *rest, int code, const char *words)
{
    struct outcome o = penstock("memopt", name, "--problem", problem_of(rest));

    expect_code(&o, code);
    assert_string_equal(o.out, "");
    expect_text(o.err, words);
    outcome_finish(&o);
}

/* Everything kept: 10 + k (2 + 20). The link carries both directions side by side, and two copies
   of what is offloaded have room, unless something else is said. */
static void left_out(void **state)
{
    (void)state;
    expect("none", "\"notes\":\"\"", "KKKK", 0, 10 + 22);
    expect("none", "\"micro_batches\":[3]", "KKKK", 0, 10 + 2 + 60);
    expect("none", "\"devices\":4", "KKKK", 0, 10 + 22);
    expect("none", "\"in_flight\":4", "KKKK", 0, 98);
    expect("none", "\"in_flight\":4,\"memory_bytes\":null", "KKKK", 0, 98);
    expect("exact", "\"in_flight\":4,\"memory_bytes\":58", "SSSS", 0, 58);
    expect("exact", "\"in_flight\":4,\"memory_bytes\":58,\"link_directions\":1", "SSSS", 0, 58);
    /* Both on one link: SSSS takes 40 us for a period of 36, RSSS 24 for 37:
       10 + 3 x 2 + 12 + 2 + 12. */
    expect("exact", "\"in_flight\":4,\"memory_bytes\":58,\"link_directions\":2", "RSSS", 1, 42);
}

/* A micro-batch is the first of the sizes, be it larger than the batch of the graph. */
static void sizes(void **state)
{
    (void)state;
    expect("none", "\"in_flight\":2,\"micro_batches\":[3,1]", "KKKK", 0, 10 + 2 * (2 + 60));
    expect("none", "\"in_flight\":2,\"micro_batches\":3", "KKKK", 0, 10 + 2 * (2 + 60));
    expect("none", "\"in_flight\":2,\"mini_batch\":8,\"micro_batches\":[4,2]", "KKKK", 0,
           10 + 2 * (2 + 80));
}

#define ALL "\"link_target\":1.0,\"slot_filter\":false,\"min_swap_bytes\":0"

/* How many copies have room is the stage's to say. */
static void staging(void **state)
{
    (void)state;
    for (int b = 1; b <= 3; b++) {
        char rest[256];
        double least = 10 + 3 * 2 + (b - 1) * 20 + 22; /* SSSS */

        snprintf(rest, sizeof rest,
                 "\"in_flight\":4,\"staging\":%d,\"memory_bytes\":%g,\"options\":{" ALL "}", b,
                 least);
        expect("dawnpiper", rest, "SSSS", 0, least);
        snprintf(rest, sizeof rest, "\"in_flight\":4,\"staging\":%d,\"memory_bytes\":%g", b, least);
        expect("exact", rest, "SSSS", 0, least);
    }
}

/* Lists as arrays or with commas, parts of a hundred, one number where a list may stand. */
static void forms_of_parameters(void **state)
{
    (void)state;
    expect("dawnpiper",
           "\"in_flight\":4,\"memory_bytes\":58,\"options\":{\"policy\":\"two-ended\",\"allow\":["
           "\"recompute\",\"offload\"],\"staging\":2,\"host_memory\":\"75%\"," ALL "}",
           "SSSS", 0, 58);
    expect("dawnpiper",
           "\"in_flight\":4,\"memory_bytes\":58,\"options\":{\"allow\":\"offload, recompute\"," ALL
           "}",
           "SSSS", 0, 58);
    expect("dawnpiper",
           "\"in_flight\":4,\"memory_bytes\":58,\"options\":{\"allow\":[\"recompute\"]," ALL "}",
           "RKRK", 2, 48);
    expect("exact",
           "\"in_flight\":4,\"memory_bytes\":58,\"options\":{\"allow\":\" offload , recompute \"}",
           "SSSS", 0, 58);
    expect("exact", "\"in_flight\":4,\"memory_bytes\":58,\"options\":{\"allow\":\"recompute\"}",
           "RKRK", 2, 48);
    expect("exact", "\"in_flight\":4,\"memory_bytes\":58,\"options\":{\"allow\":[\"offload\"]}",
           "SSSS", 0, 58);
    expect("exact", "\"in_flight\":4,\"memory_bytes\":58,\"options\":{\"allow\":\"both\"}", "SSSS",
           0, 58);
    /* Both norms dropped, one after the other: 10 + 3 (2 + 6) + 2 + 12. */
    expect("selective", "\"in_flight\":4,\"options\":{\"classes\":[\"norm\",\"dropout\"]}", "RKRK",
           2, 48);
    expect("vpipe", "\"in_flight\":4,\"options\":{\"mode\":\"ratio\",\"ratio\":0.5}", "KKRR", 5,
           10 + 3 * (2 + 12) + 2 + 20);
    expect("vpipe", "\"in_flight\":4,\"options\":{\"mode\":\"ratio\",\"ratio\":[0.5,1]}", "KKRR", 5,
           10 + 3 * (2 + 12) + 2 + 20);
}

/* Three nodes (1, 2, a), 2, 2, results of 50 bytes that cross cuts, two in flight; the second is
   dropped. What a node leaves is all that it leaves, unless it leaves nothing: then the replay has
   its result held. */
static void large_results(void **state)
{
    static const double peaks[][2] = {{2, 4 + 6}, {0, 52 + 54}};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char text[1024];
        struct outcome o;
        json_t *root;

        snprintf(text, sizeof text,
                 HEAD "\"in_flight\":2,\"options\":{\"classes\":\"gelu\"},\"graph\":{\"nodes\":["
                      "{\"name\":\"norm\",\"forward_us\":1,\"backward_input_us\":2,"
                      "\"saved_bytes\":%g},"
                      "{\"name\":\"gelu\",\"forward_us\":1,\"backward_input_us\":2,"
                      "\"saved_bytes\":2},"
                      "{\"name\":\"last\",\"forward_us\":1,\"backward_input_us\":2,"
                      "\"saved_bytes\":2}],"
                      "\"edges\":[{\"from\":\"norm\",\"to\":\"gelu\",\"bytes\":50},"
                      "{\"from\":\"gelu\",\"to\":\"last\",\"bytes\":50}]}}",
                 peaks[i][0]);
        o = penstock("memopt", "selective", "--json", "--problem",
                     support_write("large.json", text));
        expect_code(&o, 0);
        root = object_of(&o);
        expect_number(root, "extra_us", 1);
        expect_number(root, "peak_bytes", peaks[i][1]);
        json_decref(root);
        outcome_finish(&o);
    }
}

static void refused(void **state)
{
    static const struct {
        const char *name, *rest, *words;
    } rows[] = {
        {"none", "\"in_flight\":0", "in_flight: must be a number from 1"},
        {"none", "\"in_flight\":1.5", "in_flight: must be a whole number, not 1.5"},
        {"none", "\"in_flight\":\"4\"", "in_flight: must be a number from 1"},
        {"none", "\"in_flight\":2,\"memory_bytes\":-1", "memory_bytes: must be a number from 0"},
        {"none", "\"in_flight\":2,\"memory_bytes\":\"1 GB\"", "memory_bytes: must be a number"},
        {"none", "\"in_flight\":2,\"link_directions\":3", "link_directions: must be a number from"},
        {"none", "\"in_flight\":2,\"staging\":0", "staging: must be a number from 1"},
        {"none", "\"in_flight\":2,\"micro_batches\":[]", "micro_batches: must hold at least one"},
        {"none", "\"in_flight\":2,\"micro_batches\":[0]", "micro_batches"},
        {"none", "\"in_flight\":2,\"micro_batch\":2", "did you mean \"micro_batches\"?"},
        {"none", "\"in_flight\":2,\"mini_batch\":2,\"micro_batches\":[4]", "more than mini_batch"},
        {"none", "\"in_flight\":2,\"options\":{\"unit\":1}", "unknown key \"unit\""},
        {"dawnpiper", "\"in_flight\":2,\"options\":{\"allow\":[\"keep\"]}",
         "allow: \"keep\" must be recompute, offload"},
        {"exact", "\"in_flight\":2,\"options\":{\"allow\":\"recompute,\"}",
         "allow: \"recompute,\" must be recompute, offload"},
        {"dawnpiper", "\"in_flight\":2,\"options\":{\"allow\":\"recompute offload\"}",
         "allow: \"recompute offload\" must be recompute, offload"},
        {"exact", "\"in_flight\":2,\"options\":{\"allow\":\"both x\"}",
         "allow: \"both x\" must be recompute, offload"},
        {"dawnpiper", "\"in_flight\":2,\"options\":{\"allow\":true}",
         "\"allow\" in [[memopt]] (dawnpiper) must be a string"},
        {"dawnpiper", "\"in_flight\":2,\"options\":{\"host_memory\":\"175%\"}",
         "\"host_memory\" in [[memopt]] (dawnpiper) must be between 0 and 1, not 1.75"},
        {"vpipe", "\"in_flight\":2,\"options\":{\"mode\":\"ratio\",\"ratio\":1.5}", "ratio"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        expect_refusal(rows[i].name, rows[i].rest, 2, rows[i].words);
    }
    expect_refusal("none", "\"in_flight\":4,\"memory_bytes\":0", 1, "memory_bytes = 98 would do");
}

/* 2^56 bytes, a thousand times: more than a capacity can be. */
static void beyond_all_capacities(void **state)
{
    static const char *const names[] = {"none", "dawnpiper", "rotor"};
    const char *file = support_write(
        "stage.json", HEAD "\"graph\":{\"batch\":1,\"nodes\":[{\"name\":\"a\",\"forward_us\":1,"
                           "\"saved_bytes\":72057594037927936}]},\"in_flight\":1000,"
                           "\"input_bytes\":72057594037927936,\"memory_bytes\":1e9}");

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        EXPECT_ERROR(1, "plan.infeasible", "names no capacity that would do", "memopt", names[i],
                     "--problem", file);
    }
}

/* The same without a capacity: sums that do not fit into 64 bits are not shown. */
static void beyond_all_sums(void **state)
{
    const char *file = support_write(
        "stage.json", HEAD "\"graph\":{\"batch\":1,\"nodes\":[{\"name\":\"a\",\"forward_us\":1,"
                           "\"saved_bytes\":72057594037927936}]},\"in_flight\":1000}");

    (void)state;
    EXPECT_ERROR(2, "input.limit", "1000 micro-batches", "memopt", "none", "--problem", file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(left_out),
        cmocka_unit_test(sizes),
        cmocka_unit_test(staging),
        cmocka_unit_test(forms_of_parameters),
        cmocka_unit_test(large_results),
        cmocka_unit_test(refused),
        cmocka_unit_test(beyond_all_capacities),
        cmocka_unit_test(beyond_all_sums),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
