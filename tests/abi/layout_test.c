/* SPDX-License-Identifier: Apache-2.0
 *
 * The plugin ABI as it was published for 64-bit little-endian Linux: sizes, offsets, values. A
 * plugin that was built then still runs. What may be done here: raise a SIZE because a field was
 * appended, with an AT for the field; add a VALUE. If anything else fails to compile, the header is
 * wrong and not this file. CONTRIBUTING.md, "The plugin ABI", has the rules.
 */
#include "layout.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

SIZE(pst_host, 56);
AT(pst_host, size, 0);
AT(pst_host, abi_major, 4);
AT(pst_host, abi_minor, 6);
AT(pst_host, impl, 8);
AT(pst_host, alloc, 16);
AT(pst_host, fail, 24);
AT(pst_host, log, 32);
AT(pst_host, cancelled, 40);
AT(pst_host, get_extension, 48);

SIZE(pst_param, 40);
AT(pst_param, key, 0);
AT(pst_param, initial, 8);
AT(pst_param, range, 16);
AT(pst_param, doc, 24);
AT(pst_param, type, 32);
AT(pst_param, offset, 36);

SIZE(pst_plugin, 120);
AT(pst_plugin, size, 0);
AT(pst_plugin, abi_major, 4);
AT(pst_plugin, abi_minor, 6);
AT(pst_plugin, kind, 8);
AT(pst_plugin, id, 16);
AT(pst_plugin, version, 24);
AT(pst_plugin, summary, 32);
AT(pst_plugin, reference, 40);
AT(pst_plugin, license, 48);
AT(pst_plugin, provides, 56);
AT(pst_plugin, needs, 64);
AT(pst_plugin, params, 72);
AT(pst_plugin, n_params, 80);
AT(pst_plugin, param_size, 84);
AT(pst_plugin, config_size, 88);
AT(pst_plugin, create, 96);
AT(pst_plugin, destroy, 104);
AT(pst_plugin, get_interface, 112);

SIZE(pst_node, 80);
AT(pst_node, name, 0);
AT(pst_node, op, 8);
AT(pst_node, layer, 16);
AT(pst_node, flags, 20);
AT(pst_node, param_bytes, 24);
AT(pst_node, saved_bytes, 32);
AT(pst_node, output_bytes, 40);
AT(pst_node, forward_work_bytes, 48);
AT(pst_node, backward_work_bytes, 56);
AT(pst_node, first_in, 64);
AT(pst_node, n_in, 68);
AT(pst_node, first_out, 72);
AT(pst_node, n_out, 76);

SIZE(pst_edge, 24);
AT(pst_edge, from, 0);
AT(pst_edge, to, 4);
AT(pst_edge, bytes, 8);
AT(pst_edge, batched, 16);

SIZE(pst_graph_view, 56);
AT(pst_graph_view, size, 0);
AT(pst_graph_view, n_nodes, 4);
AT(pst_graph_view, node_size, 8);
AT(pst_graph_view, n_edges, 12);
AT(pst_graph_view, edge_size, 16);
AT(pst_graph_view, batch, 20);
AT(pst_graph_view, nodes, 24);
AT(pst_graph_view, edges, 32);
AT(pst_graph_view, in_edges, 40);
AT(pst_graph_view, out_edges, 48);

SIZE(pst_cluster_device, 24);
AT(pst_cluster_device, memory_bytes, 0);
AT(pst_cluster_device, node, 8);
AT(pst_cluster_device, speed, 16);

SIZE(pst_cluster_view, 24);
AT(pst_cluster_view, size, 0);
AT(pst_cluster_view, n_devices, 4);
AT(pst_cluster_view, device_size, 8);
AT(pst_cluster_view, devices, 16);

SIZE(pst_partition_in, 72);
AT(pst_partition_in, size, 0);
AT(pst_partition_in, graph, 8);
AT(pst_partition_in, cluster, 16);
AT(pst_partition_in, batch, 24);
AT(pst_partition_in, micro_batches, 32);
AT(pst_partition_in, degrees, 40);
AT(pst_partition_in, n_micro_batches, 48);
AT(pst_partition_in, n_degrees, 52);
AT(pst_partition_in, n_stages, 56);
AT(pst_partition_in, n_devices, 60);
AT(pst_partition_in, capacity_bytes, 64);

SIZE(pst_stage_decl, 48);
AT(pst_stage_decl, size, 0);
AT(pst_stage_decl, nodes, 8);
AT(pst_stage_decl, n_nodes, 16);
AT(pst_stage_decl, ranks, 24);
AT(pst_stage_decl, n_ranks, 32);
AT(pst_stage_decl, microbatch_size, 36);
AT(pst_stage_decl, k, 40);

SIZE(pst_partition_out, 24);
AT(pst_partition_out, size, 0);
AT(pst_partition_out, impl, 8);
AT(pst_partition_out, stage, 16);

SIZE(pst_partitioner, 16);
AT(pst_partitioner, size, 0);
AT(pst_partitioner, partition, 8);

SIZE(pst_topology, 20);
AT(pst_topology, size, 0);
AT(pst_topology, n_stages, 4);
AT(pst_topology, version_rule, 8);
AT(pst_topology, min_microbatches, 12);
AT(pst_topology, microbatch_multiple, 16);

SIZE(pst_successor, 12);
AT(pst_successor, microbatch_size, 0);
AT(pst_successor, k, 4);
AT(pst_successor, in_flight, 8);

SIZE(pst_place, 48);
AT(pst_place, size, 0);
AT(pst_place, stage, 4);
AT(pst_place, n_stages, 8);
AT(pst_place, n_devices, 12);
AT(pst_place, n_microbatches, 16);
AT(pst_place, microbatch_size, 20);
AT(pst_place, k, 24);
AT(pst_place, n_successors, 28);
AT(pst_place, successor_size, 32);
AT(pst_place, successors, 40);

SIZE(pst_held, 12);
AT(pst_held, size, 0);
AT(pst_held, microbatches, 4);
AT(pst_held, weight_versions, 8);

SIZE(pst_schedule_stage, 88);
AT(pst_schedule_stage, device, 0);
AT(pst_schedule_stage, microbatch_size, 4);
AT(pst_schedule_stage, n_microbatches, 8);
AT(pst_schedule_stage, k, 12);
AT(pst_schedule_stage, forward_ns, 16);
AT(pst_schedule_stage, backward_input_ns, 24);
AT(pst_schedule_stage, backward_weight_ns, 32);
AT(pst_schedule_stage, replay_ns, 40);
AT(pst_schedule_stage, saved_bytes, 48);
AT(pst_schedule_stage, saved_weight_bytes, 56);
AT(pst_schedule_stage, input_bytes, 64);
AT(pst_schedule_stage, first_pred, 72);
AT(pst_schedule_stage, n_pred, 76);
AT(pst_schedule_stage, first_succ, 80);
AT(pst_schedule_stage, n_succ, 84);

SIZE(pst_schedule_link, 16);
AT(pst_schedule_link, from, 0);
AT(pst_schedule_link, to, 4);
AT(pst_schedule_link, transfer_ns, 8);

SIZE(pst_schedule_in, 64);
AT(pst_schedule_in, size, 0);
AT(pst_schedule_in, n_devices, 4);
AT(pst_schedule_in, n_stages, 8);
AT(pst_schedule_in, stage_size, 12);
AT(pst_schedule_in, n_links, 16);
AT(pst_schedule_in, link_size, 20);
AT(pst_schedule_in, stages, 24);
AT(pst_schedule_in, links, 32);
AT(pst_schedule_in, out_links, 40);
AT(pst_schedule_in, activation_bytes, 48);
AT(pst_schedule_in, barrier, 56); /* 1.1 */

SIZE(pst_fixed_shape, 16);
AT(pst_fixed_shape, size, 0);
AT(pst_fixed_shape, shape, 8);

SIZE(pst_claimed, 32);
AT(pst_claimed, size, 0);
AT(pst_claimed, minimised, 4);
AT(pst_claimed, makespan_ns, 8);
AT(pst_claimed, span_ns, 16);
AT(pst_claimed, lower_bound_ns, 24);

SIZE(pst_claim, 16);
AT(pst_claim, size, 0);
AT(pst_claim, claim, 8);

SIZE(pst_schedule_out, 40);
AT(pst_schedule_out, size, 0);
AT(pst_schedule_out, impl, 8);
AT(pst_schedule_out, emit, 16);
AT(pst_schedule_out, pair, 24);
AT(pst_schedule_out, part, 32);

SIZE(pst_scheduler, 40);
AT(pst_scheduler, size, 0);
AT(pst_scheduler, topology, 8);
AT(pst_scheduler, device_of, 16);
AT(pst_scheduler, in_flight, 24);
AT(pst_scheduler, schedule, 32);

SIZE(pst_stage_question, 56);
AT(pst_stage_question, size, 0);
AT(pst_stage_question, nodes, 8);
AT(pst_stage_question, n_nodes, 16);
AT(pst_stage_question, stage, 20);
AT(pst_stage_question, n_stages, 24);
AT(pst_stage_question, microbatch_size, 28);
AT(pst_stage_question, n_ranks, 32);
AT(pst_stage_question, in_flight, 36);
AT(pst_stage_question, weight_versions, 40);
AT(pst_stage_question, capacity_bytes, 48);

SIZE(pst_ask, 40);
AT(pst_ask, size, 0);
AT(pst_ask, topology, 8);
AT(pst_ask, in_flight, 16);
AT(pst_ask, bound, 24);
AT(pst_ask, price, 32);

SIZE(pst_figures, 56);
AT(pst_figures, size, 0);
AT(pst_figures, comm_model, 4);
AT(pst_figures, reference, 8);
AT(pst_figures, node_size, 12);
AT(pst_figures, weight_multiplier, 16);
AT(pst_figures, p2p_bytes_per_s, 24);
AT(pst_figures, allreduce_bytes_per_s, 32);
AT(pst_figures, saved_bytes, 40);
AT(pst_figures, edge_bytes, 48);

SIZE(pst_node_config, 48);
AT(pst_node_config, size, 0);
AT(pst_node_config, tensor_degree, 4);
AT(pst_node_config, name, 8);
AT(pst_node_config, ns_per_sample, 16);
AT(pst_node_config, param_bytes, 24);
AT(pst_node_config, in_flight_bytes, 32);
AT(pst_node_config, fixed_bytes, 40);

SIZE(pst_profile, 40);
AT(pst_profile, size, 0);
AT(pst_profile, node_ns, 8);
AT(pst_profile, figures, 16);
AT(pst_profile, n_configs, 24);
AT(pst_profile, config, 32);

SIZE(pst_trial, 16);
AT(pst_trial, size, 0);
AT(pst_trial, step, 8);

SIZE(pst_trial_value, 32);
AT(pst_trial_value, size, 0);
AT(pst_trial_value, quick, 4);
AT(pst_trial_value, fits, 8);
AT(pst_trial_value, step_ns, 16);
AT(pst_trial_value, peak_bytes, 24);

SIZE(pst_remark, 32);
AT(pst_remark, size, 0);
AT(pst_remark, number, 8);
AT(pst_remark, text, 16);
AT(pst_remark, flag, 24);

SIZE(pst_times, 24);
AT(pst_times, forward_ns, 0);
AT(pst_times, backward_input_ns, 8);
AT(pst_times, backward_weight_ns, 16);

SIZE(pst_cost, 32);
AT(pst_cost, size, 0);
AT(pst_cost, compute, 8);
AT(pst_cost, transfer_ns, 16);
AT(pst_cost, allreduce_ns, 24);

SIZE(pst_stage_value, 48);
AT(pst_stage_value, size, 0);
AT(pst_stage_value, legal, 4);
AT(pst_stage_value, node, 8);
AT(pst_stage_value, rule, 16);
AT(pst_stage_value, peak_bytes, 24);
AT(pst_stage_value, period_ns, 32);
AT(pst_stage_value, extra_ns, 40);

SIZE(pst_eval, 24);
AT(pst_eval, size, 0);
AT(pst_eval, evaluate, 8);
AT(pst_eval, evaluate_replays, 16);

SIZE(pst_rng, 16);
AT(pst_rng, size, 0);
AT(pst_rng, bits, 8);

VALUE(PST_ACTION_KEEP, 0);
VALUE(PST_ACTION_RECOMPUTE, 1);
VALUE(PST_ACTION_OFFLOAD, 2);
VALUE(PST_ACTION_PEER, 3);
VALUE(PST_PARAM_BOOL, 1);
VALUE(PST_PARAM_INT, 2);
VALUE(PST_PARAM_FLOAT, 3);
VALUE(PST_PARAM_STRING, 4);
VALUE(PST_PARAM_ENUM, 5);
VALUE(PST_PARAM_BYTES, 6);
VALUE(PST_PARAM_TIME, 7);
VALUE(PST_PARAM_RATE, 8);
VALUE(PST_PARAM_PATH, 9);
VALUE(PST_OK, 0);
VALUE(PST_ERR_CONFIG, -1);
VALUE(PST_ERR_INFEASIBLE, -2);
VALUE(PST_ERR_UNSUPPORTED, -3);
VALUE(PST_ERR_CANCELLED, -4);
VALUE(PST_ERR_NOMEM, -5);
VALUE(PST_ERR_IO, -6);
VALUE(PST_ERR_DEVICE, -7);
VALUE(PST_ERR_BUG, -8);
VALUE(PST_NODE_CHEAP, 1u << 0);
VALUE(PST_NODE_RNG, 1u << 1);
VALUE(PST_NODE_NO_RECOMPUTE, 1u << 2);
VALUE(PST_NODE_NO_OFFLOAD, 1u << 3);
VALUE(PST_LOG_ERROR, 0);
VALUE(PST_LOG_WARN, 1);
VALUE(PST_LOG_INFO, 2);
VALUE(PST_LOG_DEBUG, 3);
VALUE(PST_COMM_NONE, 0);
VALUE(PST_COMM_SUM, 1);
VALUE(PST_COMM_MAX, 2);
VALUE(PST_PASS_F, 1);
VALUE(PST_PASS_B, 2);
VALUE(PST_PASS_W, 3);
VALUE(PST_PASS_BW, 4);
VALUE(PST_PASS_R, 5);
VALUE(PST_VERSION_SYNC, 1);
VALUE(PST_VERSION_DELAYED, 2);
VALUE(PST_PART_FILL, 1);
VALUE(PST_PART_BODY, 2);
VALUE(PST_PART_DRAIN, 3);

/* Ids are part of the contract as well, and so is how far a struct is known. */
static void test_words(void **state)
{
    struct pst_plugin plugin = {.size = offsetof(struct pst_plugin, create)};

    (void)state;
    assert_string_equal(PST_PARTITIONER, "pst.partitioner/1");
    assert_string_equal(PST_SCHEDULER, "pst.scheduler/1");
    assert_string_equal(PST_ASK, "pst.ask/1");
    assert_string_equal(PST_COST, "pst.cost/1");
    assert_string_equal(PST_PROFILE, "pst.profile/1");
    assert_string_equal(PST_REMARK, "pst.remark/1");
    assert_string_equal(PST_EVAL, "pst.eval/1");
    assert_string_equal(PST_RNG, "pst.rng/1");
    assert_int_equal(PST_ABI_MAJOR, 1);
    assert_true(PST_HAS(&plugin, config_size));
    assert_false(PST_HAS(&plugin, create));
    assert_false(PST_CAN(&plugin, create));
    plugin.size = sizeof plugin;
    assert_true(PST_HAS(&plugin, get_interface));
    assert_false(PST_CAN(&plugin, get_interface));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_words)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
