/* SPDX-License-Identifier: Apache-2.0
 *
 * The structs of memory optimizers as they were published. What may be done here: layout_test.c.
 */
#include "layout.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

SIZE(pst_stage_node, 88);
AT(pst_stage_node, node, 0);
AT(pst_stage_node, layer, 4);
AT(pst_stage_node, flags, 8);
AT(pst_stage_node, action, 12);
AT(pst_stage_node, forward_ns, 16);
AT(pst_stage_node, backward_ns, 24);
AT(pst_stage_node, saved_bytes, 32);
AT(pst_stage_node, forward_work_bytes, 40);
AT(pst_stage_node, backward_work_bytes, 48);
AT(pst_stage_node, first_producer, 56);
AT(pst_stage_node, n_producers, 60);
AT(pst_stage_node, op, 64);
AT(pst_stage_node, output_bytes, 72);
AT(pst_stage_node, output_saved, 80);

SIZE(pst_stage_view, 104);
AT(pst_stage_view, size, 0);
AT(pst_stage_view, stage, 4);
AT(pst_stage_view, n_stages, 8);
AT(pst_stage_view, n_nodes, 12);
AT(pst_stage_view, node_size, 16);
AT(pst_stage_view, nodes, 24);
AT(pst_stage_view, producers, 32);
AT(pst_stage_view, in_flight, 40);
AT(pst_stage_view, weight_versions, 44);
AT(pst_stage_view, staging_copies, 48);
AT(pst_stage_view, link_directions, 52);
AT(pst_stage_view, capacity_bytes, 56);
AT(pst_stage_view, static_bytes, 64);
AT(pst_stage_view, input_bytes, 72);
AT(pst_stage_view, host_capacity_bytes, 80);
AT(pst_stage_view, link_bytes_per_s, 88);
AT(pst_stage_view, slack_ns, 96);

SIZE(pst_stage_price, 24);
AT(pst_stage_price, size, 0);
AT(pst_stage_price, fits, 4);
AT(pst_stage_price, period_ns, 8);
AT(pst_stage_price, peak_bytes, 16);

SIZE(pst_replay, 12);
AT(pst_replay, before, 0);
AT(pst_replay, first, 4);
AT(pst_replay, last, 8);

SIZE(pst_action_out, 32);
AT(pst_action_out, size, 0);
AT(pst_action_out, impl, 8);
AT(pst_action_out, set, 16);
AT(pst_action_out, sequence, 24);

SIZE(pst_memopt, 32);
AT(pst_memopt, size, 0);
AT(pst_memopt, bound, 8);
AT(pst_memopt, price, 16);
AT(pst_memopt, plan, 24);

SIZE(pst_global_pass, 40);
AT(pst_global_pass, op, 0);
AT(pst_global_pass, stage, 4);
AT(pst_global_pass, microbatch, 8);
AT(pst_global_pass, start_ns, 16);
AT(pst_global_pass, end_ns, 24);
AT(pst_global_pass, live_bytes, 32);

SIZE(pst_global_device, 24);
AT(pst_global_device, capacity_bytes, 0);
AT(pst_global_device, first_pass, 8);
AT(pst_global_device, n_passes, 12);
AT(pst_global_device, n_ranks, 16);

SIZE(pst_global_stage, 32);
AT(pst_global_stage, device, 0);
AT(pst_global_stage, n_microbatches, 4);
AT(pst_global_stage, view, 8);
AT(pst_global_stage, keepers, 16);
AT(pst_global_stage, move_bytes, 24);

SIZE(pst_global_link, 16);
AT(pst_global_link, bytes_per_s, 0);
AT(pst_global_link, latency_ns, 8);

SIZE(pst_global_in, 80);
AT(pst_global_in, size, 0);
AT(pst_global_in, n_devices, 4);
AT(pst_global_in, n_stages, 8);
AT(pst_global_in, n_passes, 12);
AT(pst_global_in, device_size, 16);
AT(pst_global_in, stage_size, 20);
AT(pst_global_in, pass_size, 24);
AT(pst_global_in, link_size, 28);
AT(pst_global_in, devices, 32);
AT(pst_global_in, stages, 40);
AT(pst_global_in, passes, 48);
AT(pst_global_in, links, 56);
AT(pst_global_in, impl, 64);
AT(pst_global_in, stay, 72);

SIZE(pst_global_move, 32);
AT(pst_global_move, size, 0);
AT(pst_global_move, stage, 4);
AT(pst_global_move, microbatch, 8);
AT(pst_global_move, device, 12);
AT(pst_global_move, n_positions, 16);
AT(pst_global_move, positions, 24);

SIZE(pst_global_out, 24);
AT(pst_global_out, size, 0);
AT(pst_global_out, impl, 8);
AT(pst_global_out, move, 16);

SIZE(pst_memopt_global, 16);
AT(pst_memopt_global, size, 0);
AT(pst_memopt_global, plan, 8);

static void test_ids(void **state)
{
    (void)state;
    assert_string_equal(PST_MEMOPT, "pst.memopt/1");
    assert_string_equal(PST_MEMOPT_GLOBAL, "pst.memopt-global/1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ids)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
