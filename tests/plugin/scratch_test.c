/* SPDX-License-Identifier: Apache-2.0
 *
 * pst.scratch/1: what a call was given goes when it returns, whatever else the instance keeps.
 */
#include "host/call.h"
#include "test.h"

OWNER(instance)

TEST(test_scratch)
{
    static const struct pst_host_context nothing;
    const struct pst_place place = {.size = sizeof place,
                                    .n_stages = 1,
                                    .n_devices = 1,
                                    .n_microbatches = 3,
                                    .microbatch_size = 1,
                                    .k = 1,
                                    .successor_size = sizeof(struct pst_successor)};
    const struct pst_plugin *plugin = NULL;
    OWN(instance) *instance = NULL;
    struct pst_error err = {0};
    size_t kept;

    assert_int_equal(pst_plugin_open(SCRATCH, "scheduler", "lab/scratch", &plugin, &err), PST_OK);
    assert_string_equal(pst_plugin_vendor(plugin), "The Lab");
    assert_int_equal(pst_instance_create(plugin, NULL, &nothing, &instance, &err), PST_OK);
    kept = instance->arena.total;
    for (int i = 0; i < 20; i++) {
        struct pst_held held = {.size = sizeof held};

        assert_int_equal(pst_call_in_flight(instance, &place, &held), PST_OK);
        assert_int_equal(held.microbatches, 3);
        assert_int_equal(instance->scratch.total, 0);
    }
    assert_int_equal(instance->arena.total, kept);
}

/* While it runs, it is there: the one who asks another strategy keeps its own. */
TEST(test_nested)
{
    static const struct pst_host_context nothing;
    const struct pst_plugin *plugin = NULL;
    OWN(instance) *outer = NULL, *inner = NULL;
    const struct pst_scratch *scratch;
    struct pst_error err = {0};
    unsigned char *mine;

    assert_int_equal(pst_plugin_open(SCRATCH, "scheduler", "lab/scratch", &plugin, &err), PST_OK);
    assert_int_equal(pst_instance_create(plugin, NULL, &nothing, &outer, &err), PST_OK);
    assert_int_equal(pst_instance_create(plugin, NULL, &nothing, &inner, &err), PST_OK);
    pst_instance_enter(outer, PST_CRUMB_PARTITION);
    scratch = outer->host.get_extension(&outer->host, PST_SCRATCH);
    mine = scratch->alloc(&outer->host, 4096, 64);
    assert_non_null(mine);
    assert_int_equal((uintptr_t)mine % 64, 0);
    assert_null(scratch->alloc(&outer->host, SIZE_MAX / 2 + 1, 0));
    pst_instance_enter(inner, PST_CRUMB_IN_FLIGHT);
    assert_non_null(scratch->alloc(&inner->host, 4096, 0));
    pst_instance_leave(inner);
    assert_int_equal(inner->scratch.total, 0);
    assert_true(outer->scratch.total >= 4096);
    mine[4095] = 1;
    pst_instance_leave(outer);
    assert_int_equal(outer->scratch.total, 0);
}

TEST_GROUP(NULL, NULL)
