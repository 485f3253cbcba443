/* SPDX-License-Identifier: Apache-2.0
 *
 * The plugin ABI as it was published for 64-bit little-endian Linux: sizes, offsets, values. A
 * plugin that was built then still runs. What may be done here: raise a SIZE because a field was
 * appended, with the field and its offset; add a VALUE. If anything else fails to compile, the
 * header is wrong and not this file. CONTRIBUTING.md, "The plugin ABI", has the rules.
 */
#include "layout.h"

#include "test.h"

LAYOUT(pst_host, 56, size, 0, abi_major, 4, abi_minor, 6, impl, 8, alloc, 16, fail, 24, log, 32,
       cancelled, 40, get_extension, 48);
LAYOUT(pst_param, 40, key, 0, initial, 8, range, 16, doc, 24, type, 32, offset, 36);
LAYOUT(pst_plugin, 136, size, 0, abi_major, 4, abi_minor, 6, kind, 8, id, 16, version, 24, summary,
       32, reference, 40, license, 48, provides, 56, needs, 64, params, 72, n_params, 80,
       param_size, 84, config_size, 88, create, 96, destroy, 104, get_interface, 112);
AT(pst_plugin, url, 120);
AT(pst_plugin, vendor, 128);
LAYOUT(pst_node, 80, name, 0, op, 8, layer, 16, flags, 20, param_bytes, 24, saved_bytes, 32,
       output_bytes, 40, forward_work_bytes, 48, backward_work_bytes, 56, first_in, 64, n_in, 68,
       first_out, 72, n_out, 76);
LAYOUT(pst_edge, 24, from, 0, to, 4, bytes, 8, batched, 16);
LAYOUT(pst_graph_view, 56, size, 0, n_nodes, 4, node_size, 8, n_edges, 12, edge_size, 16, batch, 20,
       nodes, 24, edges, 32, in_edges, 40, out_edges, 48);
LAYOUT(pst_cluster_device, 32, memory_bytes, 0, node, 8, speed, 16, kind, 24);
LAYOUT(pst_cluster_view, 24, size, 0, n_devices, 4, device_size, 8, devices, 16);
LAYOUT(pst_partition_in, 96, size, 0, graph, 8, cluster, 16, batch, 24, micro_batches, 32, degrees,
       40, n_micro_batches, 48, n_degrees, 52, n_stages, 56, n_devices, 60, capacity_bytes, 64,
       tensors, 72, n_tensors, 80, n_tied, 84, tied, 88);
LAYOUT(pst_stage_decl, 56, size, 0, nodes, 8, n_nodes, 16, ranks, 24, n_ranks, 32, microbatch_size,
       36, k, 40, unused, 44, tensor, 48);
LAYOUT(pst_partition_out, 24, size, 0, impl, 8, stage, 16);
LAYOUT(pst_partitioner, 16, size, 0, partition, 8);
LAYOUT(pst_topology, 28, size, 0, n_stages, 4, version_rule, 8, min_microbatches, 12,
       microbatch_multiple, 16, n_copies, 20, slices, 24);
LAYOUT(pst_successor, 12, microbatch_size, 0, k, 4, in_flight, 8);
LAYOUT(pst_place, 48, size, 0, stage, 4, n_stages, 8, n_devices, 12, n_microbatches, 16,
       microbatch_size, 20, k, 24, n_successors, 28, successor_size, 32, successors, 40);
LAYOUT(pst_held, 12, size, 0, microbatches, 4, weight_versions, 8);
LAYOUT(pst_schedule_stage, 88, device, 0, microbatch_size, 4, n_microbatches, 8, k, 12, forward_ns,
       16, backward_input_ns, 24, backward_weight_ns, 32, replay_ns, 40, saved_bytes, 48,
       saved_weight_bytes, 56, input_bytes, 64, first_pred, 72, n_pred, 76, first_succ, 80, n_succ,
       84);
LAYOUT(pst_schedule_link, 16, from, 0, to, 4, transfer_ns, 8);
LAYOUT(pst_schedule_in, 64, size, 0, n_devices, 4, n_stages, 8, stage_size, 12, n_links, 16,
       link_size, 20, stages, 24, links, 32, out_links, 40, activation_bytes, 48, barrier, 56,
       slices, 60);
LAYOUT(pst_fixed_shape, 16, size, 0, shape, 8);
LAYOUT(pst_claimed, 32, size, 0, minimised, 4, makespan_ns, 8, span_ns, 16, lower_bound_ns, 24);
LAYOUT(pst_claim, 16, size, 0, claim, 8);
LAYOUT(pst_schedule_out, 40, size, 0, impl, 8, emit, 16, pair, 24, part, 32);
LAYOUT(pst_scheduler, 40, size, 0, topology, 8, device_of, 16, in_flight, 24, schedule, 32);
LAYOUT(pst_stage_question, 72, size, 0, nodes, 8, n_nodes, 16, stage, 20, n_stages, 24,
       microbatch_size, 28, n_ranks, 32, in_flight, 36, weight_versions, 40, capacity_bytes, 48,
       ranks, 56, tensor, 64);
LAYOUT(pst_ask, 40, size, 0, topology, 8, in_flight, 16, bound, 24, price, 32);
LAYOUT(pst_figures, 64, size, 0, comm_model, 4, reference, 8, node_size, 12, weight_multiplier, 16,
       p2p_bytes_per_s, 24, allreduce_bytes_per_s, 32, saved_bytes, 40, edge_bytes, 48, problem,
       56);
LAYOUT(pst_node_config, 48, size, 0, tensor_degree, 4, name, 8, ns_per_sample, 16, param_bytes, 24,
       in_flight_bytes, 32, fixed_bytes, 40);
LAYOUT(pst_profile, 40, size, 0, node_ns, 8, figures, 16, n_configs, 24, config, 32);
LAYOUT(pst_trial, 16, size, 0, step, 8);
LAYOUT(pst_trial_value, 32, size, 0, quick, 4, fits, 8, step_ns, 16, peak_bytes, 24);
LAYOUT(pst_remark, 32, size, 0, number, 8, text, 16, flag, 24);
LAYOUT(pst_times, 24, forward_ns, 0, backward_input_ns, 8, backward_weight_ns, 16);
LAYOUT(pst_cost, 40, size, 0, compute, 8, transfer_ns, 16, allreduce_ns, 24, compute_on, 32);
LAYOUT(pst_stage_value, 48, size, 0, legal, 4, node, 8, rule, 16, peak_bytes, 24, period_ns, 32,
       extra_ns, 40);
LAYOUT(pst_eval, 24, size, 0, evaluate, 8, evaluate_replays, 16);
LAYOUT(pst_rng, 16, size, 0, bits, 8);
LAYOUT(pst_scratch, 16, size, 0, alloc, 8);
/* Memory optimizers. */

LAYOUT(pst_stage_node, 88, node, 0, layer, 4, flags, 8, action, 12, forward_ns, 16, backward_ns, 24,
       saved_bytes, 32, forward_work_bytes, 40, backward_work_bytes, 48, first_producer, 56,
       n_producers, 60, op, 64, output_bytes, 72, output_saved, 80);
LAYOUT(pst_stage_view, 104, size, 0, stage, 4, n_stages, 8, n_nodes, 12, node_size, 16, nodes, 24,
       producers, 32, in_flight, 40, weight_versions, 44, staging_copies, 48, link_directions, 52,
       capacity_bytes, 56, static_bytes, 64, input_bytes, 72, host_capacity_bytes, 80,
       link_bytes_per_s, 88, slack_ns, 96);
LAYOUT(pst_stage_price, 24, size, 0, fits, 4, period_ns, 8, peak_bytes, 16);
LAYOUT(pst_replay, 12, before, 0, first, 4, last, 8);
LAYOUT(pst_action_out, 32, size, 0, impl, 8, set, 16, sequence, 24);
LAYOUT(pst_memopt, 32, size, 0, bound, 8, price, 16, plan, 24);
LAYOUT(pst_global_pass, 40, op, 0, stage, 4, microbatch, 8, start_ns, 16, end_ns, 24, live_bytes,
       32);
LAYOUT(pst_global_device, 24, capacity_bytes, 0, first_pass, 8, n_passes, 12, n_ranks, 16);
LAYOUT(pst_global_stage, 32, device, 0, n_microbatches, 4, view, 8, keepers, 16, move_bytes, 24);
LAYOUT(pst_global_link, 16, bytes_per_s, 0, latency_ns, 8);
LAYOUT(pst_global_in, 80, size, 0, n_devices, 4, n_stages, 8, n_passes, 12, device_size, 16,
       stage_size, 20, pass_size, 24, link_size, 28, devices, 32, stages, 40, passes, 48, links, 56,
       impl, 64, stay, 72);
LAYOUT(pst_global_move, 32, size, 0, stage, 4, microbatch, 8, device, 12, n_positions, 16,
       positions, 24);
LAYOUT(pst_global_out, 24, size, 0, impl, 8, move, 16);
LAYOUT(pst_memopt_global, 16, size, 0, plan, 8);

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
VALUE(PST_NODE_PRESET, 1u << 4);
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
TEST(test_words)
{
    struct pst_plugin plugin = {.size = offsetof(struct pst_plugin, create)};

    assert_string_equal(PST_PARTITIONER, "pst.partitioner/1");
    assert_string_equal(PST_SCHEDULER, "pst.scheduler/1");
    assert_string_equal(PST_ASK, "pst.ask/1");
    assert_string_equal(PST_COST, "pst.cost/1");
    assert_string_equal(PST_PROFILE, "pst.profile/1");
    assert_string_equal(PST_REMARK, "pst.remark/1");
    assert_string_equal(PST_EVAL, "pst.eval/1");
    assert_string_equal(PST_RNG, "pst.rng/1");
    assert_string_equal(PST_SCRATCH, "pst.scratch/1");
    assert_string_equal(PST_MEMOPT, "pst.memopt/1");
    assert_string_equal(PST_MEMOPT_GLOBAL, "pst.memopt-global/1");
    assert_int_equal(PST_ABI_MAJOR, 1);
    assert_true(PST_HAS(&plugin, config_size));
    assert_false(PST_HAS(&plugin, create));
    assert_false(PST_CAN(&plugin, create));
    plugin.size = sizeof plugin;
    assert_true(PST_HAS(&plugin, get_interface));
    assert_false(PST_CAN(&plugin, get_interface));
}
