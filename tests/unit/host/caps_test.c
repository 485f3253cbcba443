/* SPDX-License-Identifier: Apache-2.0
 *
 * Capability words: numbers, stems, who may provide what, and the one sentence of a mismatch.
 */
#include "host/caps.h"

#include "test.h"

TEST(test_words)
{
    static const char *const list[] = {"chain", "chunks=3", "placement=vshape", "weight-versions=2",
                                       NULL};
    static const char *const none[] = {NULL};

    assert_true(pst_caps_has(list, "chain"));
    assert_false(pst_caps_has(list, "chai"));
    assert_false(pst_caps_has(list, "chain2"));
    assert_true(pst_caps_has(list, "chunks=2"));
    assert_true(pst_caps_has(list, "chunks=3"));
    assert_true(pst_caps_has(list, "chunks"));
    assert_false(pst_caps_has(list, "chunks=4"));
    assert_false(pst_caps_has(list, "chunks=10")); /* numbers, not text */
    assert_true(pst_caps_has(list, "placement=vshape"));
    assert_false(pst_caps_has(list, "placement=wave"));
    assert_true(pst_caps_has(list, "weight-versions=1"));
    assert_false(pst_caps_has(list, "weight-versions=3"));
    assert_false(pst_caps_has(none, "chain"));
}

TEST(test_executor)
{
    static const char *const can[] = {
        "chain",          "dag",      "recompute",         "split-backward",
        "chunks=2",       "chunks=9", "weight-versions=2", "weight-versions=9",
        "placement=wave", "async",    "replicas",          "offload",
        "peer",           "nested"};
    static const char *const cannot[] = {"places-recompute", "magic=1"};

    for (size_t i = 0; i < sizeof can / sizeof can[0]; i++) {
        assert_true(pst_caps_executor(can[i]));
    }
    for (size_t i = 0; i < sizeof cannot / sizeof cannot[0]; i++) {
        assert_false(pst_caps_executor(cannot[i]));
    }
}

TEST(test_matching)
{
    static const char *const nothing[] = {NULL};
    static const char *const graph[] = {"dag", "places-recompute", NULL}, *const dag[] = {"dag",
                                                                                          NULL};
    static const char *const replicas[] = {"magic=1", NULL};
    struct pst_plugin partitioner = {
        .kind = "partitioner", .id = "p", .provides = replicas, .needs = graph};
    struct pst_plugin scheduler = {
        .kind = "scheduler", .id = "s", .provides = nothing, .needs = nothing};
    struct pst_plugin memopt = {.kind = "memopt", .id = "m", .provides = nothing, .needs = nothing};
    const struct pst_plugin *plugins[] = {&partitioner, &scheduler};
    const struct pst_plugin *three[] = {&partitioner, &scheduler, &memopt};
    struct pst_error err;

    assert_int_equal(pst_caps_match(plugins, 2, &err), PST_ERR_UNSUPPORTED);
    assert_string_equal(err.kind, "plan.mismatch");
    assert_int_equal(pst_error_exit_code(&err), 2);
    assert_string_equal(err.message,
                        "partitioner \"p\" needs dag, which scheduler \"s\" does not provide");
    scheduler.provides = dag;
    assert_int_equal(pst_caps_match(plugins, 2, &err), PST_ERR_UNSUPPORTED);
    assert_string_equal(err.message, "partitioner \"p\" needs places-recompute, which neither the "
                                     "other strategies of this job nor the executor provide");
    scheduler.provides = graph;
    assert_ok(pst_caps_match(plugins, 2, &err), &err);
    scheduler.needs = replicas;
    assert_ok(pst_caps_match(plugins, 2, &err), &err);
    partitioner.provides = nothing;
    assert_int_equal(pst_caps_match(plugins, 2, &err), PST_ERR_UNSUPPORTED);
    /* What a memory optimizer takes orders nothing. */
    scheduler.provides = scheduler.needs = nothing;
    partitioner.needs = dag;
    memopt.provides = dag;
    assert_int_equal(pst_caps_match(three, 3, &err), PST_ERR_UNSUPPORTED);
    assert_string_equal(err.kind, "plan.mismatch");
    /* Nobody helps himself. */
    scheduler.provides = replicas;
    scheduler.needs = replicas;
    assert_int_equal(pst_caps_match(&plugins[1], 1, &err), PST_ERR_UNSUPPORTED);
}

TEST(test_answers)
{
    static const char *const words[] = {"split-backward", "places-recompute", NULL};
    const struct pst_plugin plugin = {
        .kind = "scheduler", .id = "s", .provides = words, .needs = words};
    struct pst_error err;

    assert_ok(pst_caps_require(&plugin, "split-backward", "B and W", &err), &err);
    assert_int_equal(pst_caps_require(&plugin, "places-recompute", "nodes elsewhere", &err),
                     PST_ERR_UNSUPPORTED);
    assert_string_equal(err.kind, "plan.mismatch");
    assert_int_equal(pst_error_exit_code(&err), 2);
    assert_int_equal(pst_caps_require(&plugin, "chunks=2", "two stages on a device", &err),
                     PST_ERR_BUG);
    assert_string_equal(err.kind, "plugin.contract");
    assert_int_equal(pst_error_exit_code(&err), 3);
}
