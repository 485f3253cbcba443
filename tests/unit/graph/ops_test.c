/* SPDX-License-Identifier: Apache-2.0
 *
 * Roofline of operators: the longer of arithmetic and traffic, one launch a pass, nothing for
 * passes that an operator does not have.
 */
#include "graph/cost.h"

#include "unit/graph/model_support.h"

/* fc: [in 4] -> [hidden 8]; one sample: 2 * 4 * 8 = 64 flops forward. */
static struct pst_graph *make(uint32_t dtype)
{
    struct pst_graph *graph = NULL;
    struct pst_error err;
    assert_ok(try_model("mlp", "inputs=4 hidden=8 layers=1 classes=3", dtype, &graph, &err), &err);
    return graph;
}

TEST(arithmetic_or_traffic)
{
    struct pst_graph *graph = make(PST_F32);
    struct pst_cluster cluster = {.flops = 1e9, .launch_overhead = 10};
    struct pst_cost_model cost = {.graph = graph, .cluster = &cluster};
    struct pst_times times;
    double flops, bytes;
    pst_op_work(graph, 0, 0, 100, &flops, &bytes);
    assert_true(flops >= 6400 && bytes > 0);

    /* memory not modelled: 1 flop is 1 ns */
    pst_cost_op(&cost, 0, 100, &times);
    assert_int_equal(times.forward_ns, (uint64_t)flops + 10);
    /* arithmetic not modelled: 1 byte is 2 ns */
    cluster.flops = 0;
    cluster.memory_bandwidth = 500000000;
    pst_cost_op(&cost, 0, 100, &times);
    assert_int_equal(times.forward_ns, (uint64_t)bytes * 2 + 10);
    /* both: the longer one */
    cluster.flops = 1e3;
    pst_cost_op(&cost, 0, 100, &times);
    assert_int_equal(times.forward_ns, (uint64_t)flops * 1000000 + 10);
    pst_graph_destroy(graph);
}

TEST(only_passes_that_exist)
{
    struct pst_graph *graph = make(PST_F32);
    struct pst_cluster cluster = {.launch_overhead = 10};
    struct pst_cost_model cost = {.graph = graph, .cluster = &cluster};
    struct pst_times times, sum;
    uint32_t ops[] = {0, 1, 2};
    assert_int_equal(graph->n_ops, 3); /* fc, head, loss */
    struct pst_times total = {0};
    for (uint32_t v = 0; v < 3; v++) {
        struct pst_op_grad grad;
        pst_op_grad_info(graph, v, &grad);
        pst_cost_op(&cost, v, 1, &times);
        assert_int_equal(times.forward_ns, 10);
        assert_int_equal(times.backward_input_ns, grad.has_b ? 10 : 0);
        assert_int_equal(times.backward_weight_ns, grad.has_w ? 10 : 0);
        total.backward_input_ns += times.backward_input_ns;
        total.backward_weight_ns += times.backward_weight_ns;
    }
    assert_int_equal(total.backward_weight_ns, 20); /* the loss has no weights */
    pst_cost_ops(&cost, ops, 3, 1, &sum);
    assert_int_equal(sum.forward_ns, 30);
    assert_int_equal(sum.backward_input_ns, total.backward_input_ns);
    assert_int_equal(sum.backward_weight_ns, 20);
    pst_graph_destroy(graph);
}

TEST(bf16_has_its_own_peak)
{
    struct pst_graph *graph = make(PST_BF16);
    struct pst_cluster cluster = {.flops = 1e3, .bf16_flops = 1e9};
    struct pst_cost_model cost = {.graph = graph, .cluster = &cluster};
    struct pst_times times;
    double flops, bytes;
    pst_op_work(graph, 1, 0, 10, &flops, &bytes);
    pst_cost_op(&cost, 1, 10, &times);
    assert_int_equal(times.forward_ns, (uint64_t)flops);
    pst_graph_destroy(graph);
}

static uint64_t four(void *context, uint32_t op, uint32_t pass, uint32_t samples)
{
    return *(uint64_t *)context + 1000 * op + 100 * pass + samples;
}

TEST(workspace_is_asked_for)
{
    uint64_t base = 40000;
    struct pst_cost_model cost = {.workspace = four, .workspace_context = &base};
    assert_int_equal(pst_cost_workspace(&cost, 3, 2, 7), 43207);
    cost.workspace = NULL;
    assert_int_equal(pst_cost_workspace(&cost, 3, 2, 7), 0);
}
