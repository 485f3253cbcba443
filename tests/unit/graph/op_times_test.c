/* SPDX-License-Identifier: Apache-2.0
 *
 * Roofline of operators: the longer of arithmetic and traffic, one launch a pass, no less than the
 * host takes, nothing for passes that an operator does not have.
 */
#include "graph/cost.h"
#include "graph/split.h"

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
    OWN(graph) *graph = make(PST_F32);
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
}

TEST(only_passes_that_exist)
{
    OWN(graph) *graph = make(PST_F32);
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
}

/* The host issues the kernels of a pass ahead of a device that has more to do than it: the pass
   takes the longer of two sums, and each operator its share. */
TEST(host_or_device)
{
    OWN(graph) *graph = make(PST_F32);
    const uint32_t ops[] = {0, 1, 2};
    struct pst_cluster cluster = {.flops = 1e9, .launch_overhead = 10};
    struct pst_cost_model cost = {.graph = graph, .cluster = &cluster};
    struct pst_times device, times, share;
    struct pst_pass_scale scale;
    uint64_t forward_ns = 0;

    pst_cost_stage(&cost, ops, 3, 1, &device);
    cluster.host_overhead = device.forward_ns / 3; /* three operators, two of which have weights */
    pst_cost_stage(&cost, ops, 3, 1, &times);
    assert_int_equal(times.forward_ns, device.forward_ns);
    assert_int_equal(times.backward_weight_ns, device.backward_weight_ns);
    cluster.host_overhead = 2 * device.forward_ns;
    pst_cost_stage(&cost, ops, 3, 1, &times);
    assert_int_equal(times.forward_ns, 6 * device.forward_ns);
    assert_int_equal(times.backward_weight_ns, 4 * device.forward_ns);
    scale = pst_cost_host_scale(&cost, ops, 3, 1);
    for (uint32_t i = 0; i < 3; i++) {
        pst_cost_share(&cost, &scale, ops[i], 1, &share);
        pst_cost_op(&cost, ops[i], 1, &device);
        assert_int_equal(share.forward_ns, 6 * device.forward_ns);
        forward_ns += share.forward_ns;
    }
    assert_int_equal(forward_ns, times.forward_ns);
    assert_int_equal(share.backward_weight_ns, 0); /* the loss has no weights */
}

/* Two heads of 4 x 4 scores of 2 bytes; 4 tokens of 16 logits, of which a loss makes f32. */
TEST(softmax_through_memory)
{
    struct pst_graph *graph =
        make_model("gpt", "layers=1 dim=8 heads=2 context=4 vocab=16", PST_BF16);
    struct pst_cluster cluster = {.memory_bandwidth = 1000000000};
    struct pst_cost_model cost = {.graph = graph, .cluster = &cluster};
    const char *const names[] = {"h.0.attn", "loss", "lm_head"};
    const uint64_t bytes[] = {2 * 4 * 4 * 2, 4 * 16 * 4, 0};

    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t op = find_op(graph, names[i]);
        struct pst_times fused, times;

        double *const own = i == 1 ? &cluster.loss_traffic : &cluster.softmax_traffic;
        double *const other = i == 1 ? &cluster.softmax_traffic : &cluster.loss_traffic;

        *own = 0;
        *other = 7; /* of another kind of operator */
        pst_cost_op(&cost, op, 5, &fused);
        *own = 3;
        pst_cost_op(&cost, op, 5, &times);
        assert_int_equal(times.forward_ns - fused.forward_ns, 3 * 5 * bytes[i]);
        assert_int_equal(times.backward_input_ns - fused.backward_input_ns, 3 * 5 * bytes[i]);
        assert_int_equal(times.backward_weight_ns, fused.backward_weight_ns);
    }
    pst_graph_destroy(graph);
}

TEST(bf16_has_its_own_peak)
{
    OWN(graph) *graph = make(PST_BF16);
    struct pst_cluster cluster = {.flops = 1e3, .bf16_flops = 1e9};
    struct pst_cost_model cost = {.graph = graph, .cluster = &cluster};
    struct pst_times times;
    double flops, bytes;
    pst_op_work(graph, 1, 0, 10, &flops, &bytes);
    pst_cost_op(&cost, 1, 10, &times);
    assert_int_equal(times.forward_ns, (uint64_t)flops);
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

static struct pst_op conversion = {.kind = PST_OP_CONVERT, .name = "conversion", .parts = 4};

/* A whole tensor of 25 MB over four parts, latency 10 us, 25 GB/s. A ring takes three steps of 10
   us + 6.25 MB for a gather and as many again for a sum. An exchange takes three of 10 us + 1.5625
   MB: what each part has for one other. */
TEST(parts_meet)
{
    static const struct {
        enum pst_convert convert;
        uint64_t x_elems, y_elems, forward_us2, backward_us2; /* halves of us */
    } cases[] = {
        {PST_CONVERT_SUM, 6250000, 6250000, 3120, 0},
        {PST_CONVERT_JOIN, 1562500, 6250000, 1560, 0},
        {PST_CONVERT_CUT, 6250000, 1562500, 0, 1560},
        {PST_CONVERT_EXCHANGE, 1562500, 1562500, 435, 435},
    };
    struct pst_cluster cluster = {.link_latency = 10000, .link_bandwidth = 25000000000};
    uint32_t in = 0, out = 1;

    conversion.in = &in;
    conversion.out = &out;
    conversion.n_in = conversion.n_out = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pst_tensor tensors[2] = {
            {.producer = PST_NONE, .dtype = PST_F32, .batched = true, .elems = cases[i].x_elems},
            {.dtype = PST_F32, .batched = true, .elems = cases[i].y_elems}};
        struct pst_graph graph = {.ops = &conversion,
                                  .n_ops = 1,
                                  .tensors = tensors,
                                  .n_tensors = 2,
                                  .slices = 1,
                                  .parts = 4};
        struct pst_cost_model cost = {.graph = &graph, .cluster = &cluster};
        struct pst_times times;

        conversion.convert = cases[i].convert;
        for (uint32_t t = 0; t < 2; t++) {
            tensors[t].bytes = tensors[t].elems * sizeof(float);
            tensors[t].needs_grad = true;
        }
        pst_cost_op(&cost, 0, 1, &times);
        assert_int_equal(times.forward_ns, cases[i].forward_us2 * 500);
        assert_int_equal(times.backward_input_ns, cases[i].backward_us2 * 500);
        assert_int_equal(times.backward_weight_ns, 0);
    }
}
