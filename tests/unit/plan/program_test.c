/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowering and programs on real models, cut everywhere: lists run to their end under blocking
 * transfers, buffers that live together never overlap, nothing is read before it is written, and
 * the gradient of every parameter is summed once per micro-batch in ascending order.
 */
#include "base/philox.h"
#include "plan/program.h"

#include "unit/graph/model_support.h"

enum { SEQUENCE_GPIPE, SEQUENCE_1F1B, SEQUENCE_SPLIT, SEQUENCE_REVERSE, SEQUENCES };

struct setup {
    struct pst_graph *graph;
    struct pst_cluster cluster;
    struct pst_cost_model cost;
    struct pst_plan *plan;
    struct pst_program *programs[16];
};

/* A size that no other buffer has, so that a wrong look-up shows. */
static uint64_t workspace(void *context, uint32_t op, uint32_t pass, uint32_t samples)
{
    return op % 3 == pass ? 64 + 4 * (uint64_t)samples + op : 0;
}

static uint32_t emit_order(uint32_t kind, uint32_t d, uint32_t p, uint32_t m,
                           struct pst_pass *order)
{
    uint32_t n = 0, warm = kind == SEQUENCE_GPIPE || kind == SEQUENCE_REVERSE ? m : p - 1 - d;
    uint32_t f = 0, b = 0;

    warm = warm > m ? m : warm;
    for (; f < warm; f++) {
        order[n++] = (struct pst_pass){PST_PASS_F, d, f};
    }
    for (; b < m; b++) {
        uint32_t j = kind == SEQUENCE_REVERSE ? m - 1 - b : b;

        if (f < m) {
            order[n++] = (struct pst_pass){PST_PASS_F, d, f++};
        }
        if (kind == SEQUENCE_SPLIT) {
            order[n++] = (struct pst_pass){PST_PASS_B, d, j};
            if (b >= 1) { /* W one micro-batch late */
                order[n++] = (struct pst_pass){PST_PASS_W, d, j - 1};
            }
        } else {
            order[n++] = (struct pst_pass){PST_PASS_BW, d, j};
        }
    }
    if (kind == SEQUENCE_SPLIT) {
        order[n++] = (struct pst_pass){PST_PASS_W, d, m - 1};
    }
    return n;
}

/* Cuts at random places; every third stage recomputes everything. */
static void make_plan(struct setup *s, uint32_t p, uint32_t m, uint32_t kind, uint64_t seed,
                      bool recompute)
{
    struct pst_error err = {0};
    struct pst_pass *orders[16];
    uint32_t n_passes[16], n = s->graph->n_ops, at = 0;
    uint32_t *nodes = calloc(n, sizeof *nodes);

    pst_plan_create(s->graph, m * 2, p, &s->plan);
    for (uint32_t v = 0; v < n; v++) {
        nodes[v] = v;
    }
    for (uint32_t d = 0; d < p; d++) {
        uint32_t left = n - at - (p - d - 1);
        uint32_t take =
            d + 1 == p ? n - at : 1 + pst_philox(seed, d, 0).v[0] % (2 * left / (p - d));

        take = take > left ? left : take;
        pst_plan_add_stage(s->plan, nodes + at, take, &d, 1, 2, 1);
        if (recompute && d % 3 != 1) {
            memset((uint8_t *)s->plan->stages[d].actions, PST_ACTION_RECOMPUTE, take);
        }
        at += take;
        orders[d] = calloc(3 * (size_t)m, sizeof **orders);
        n_passes[d] = emit_order(kind, d, p, m, orders[d]);
    }
    s->plan->optimizer_slots = 2;
    assert_int_equal(pst_plan_connect(s->plan, s->graph, &err), PST_OK);
    assert_ok(pst_plan_lower(s->plan, s->graph, &s->cost, (const struct pst_pass *const *)orders,
                             n_passes, true, &err),
              &err);
    for (uint32_t d = 0; d < p; d++) {
        assert_ok(pst_program_create(s->plan, s->graph, &s->cost, d, &s->programs[d], &err), &err);
        free(orders[d]);
    }
    free(nodes);
}

static void drop_plan(struct setup *s)
{
    for (uint32_t d = 0; d < s->plan->n_devices; d++) {
        pst_program_destroy(s->programs[d]);
    }
    pst_plan_destroy(s->plan);
}

static void check_layout(const struct pst_program *program)
{
    uint64_t top = 0;

    for (uint32_t i = 0; i < program->n_values; i++) {
        const struct pst_value *x = &program->values[i];

        assert_int_equal(x->offset % PST_VALUE_ALIGN, 0);
        assert_true(x->bytes > 0 && x->first <= x->last && x->last < program->n_ticks);
        top = x->offset + x->bytes > top ? x->offset + x->bytes : top;
        for (uint32_t j = 0; j < i; j++) {
            const struct pst_value *y = &program->values[j];
            bool together = x->first <= y->last && y->first <= x->last;
            bool overlap = x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;

            assert_false(together && overlap);
        }
    }
    assert_int_equal(top, program->arena_bytes);
    assert_true(program->peak_bytes <= program->arena_bytes);
}

/* Operands that a kernel call writes: y in F; dx, z in B; dp in W. */
static void check_kernel(const struct pst_program *program, const struct pst_graph *graph,
                         const struct pst_program_call *call, bool *written)
{
    const struct pst_op *op = &graph->ops[call->op];
    struct pst_operands at = pst_operands_of(op);

    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t k = 0; k < at.count; k++) {
            uint32_t value = program->operands[call->first_operand + k];
            bool writes =
                (call->pass == 0 && k >= at.y && k < at.dy) ||
                (call->pass == 1 && ((k >= at.dx && k < at.add) || (k >= at.z && k < at.dp))) ||
                (call->pass == 2 && k >= at.dp && k < at.state) || k >= at.state;

            if (value == PST_NONE) {
                continue;
            }
            if (pass == 0 && !writes && !written[value]) {
                fail_msg("%s pass %u reads operand %u before it is written", op->name, call->pass,
                         k);
            }
            if (pass == 1 && writes) {
                written[value] = true;
            }
        }
    }
}

static void check_order(const struct pst_program *program, const struct pst_graph *graph)
{
    bool *written = calloc(program->n_values, sizeof *written);
    uint32_t tick = 0;

    for (uint32_t i = 0; i < program->n_values; i++) {
        const struct pst_value *value = &program->values[i];

        written[i] = value->kind == PST_V_WEIGHT || value->kind == PST_V_WORKING ||
                     value->kind == PST_V_STATE;
    }
    for (uint32_t i = 0; i < program->n_instrs; i++) {
        const struct pst_program_instr *list = &program->lists[i];

        for (uint32_t p = list->first_part; p < list->first_part + list->n_parts; p++) {
            uint32_t value = program->parts[p].value;

            if (program->instrs[i].op == PST_I_RECV) {
                written[value] = true;
            }
            assert_true(written[value]);
            assert_true(program->values[value].first <= tick &&
                        tick <= program->values[value].last);
        }
        for (uint32_t c = list->first_call; c < list->first_call + list->n_calls; c++, tick++) {
            const struct pst_program_call *call = &program->calls[c];
            const uint32_t *operands = &program->operands[call->first_operand];

            if (call->kind == PST_C_KERNEL) {
                check_kernel(program, graph, call, written);
            } else {
                for (uint32_t k = 1; k < 3; k++) {
                    assert_true(operands[k] == PST_NONE || written[operands[k]]);
                }
                if (operands[0] != PST_NONE) {
                    assert_true(call->kind != PST_C_ACCUMULATE || written[operands[0]]);
                    written[operands[0]] = true;
                }
            }
        }
        tick += list->n_calls == 0;
    }
    assert_int_equal(tick, program->n_ticks);
    free(written);
}

/* Every accumulator: written by micro-batch 0, then added to for 1, 2, ... in this order. */
static void check_sums(const struct setup *s, const struct pst_program *program, uint32_t m)
{
    uint32_t *next = calloc(program->n_values, sizeof *next);

    for (uint32_t c = 0; c < program->n_calls; c++) {
        const struct pst_program_call *call = &program->calls[c];
        const uint32_t *operands = &program->operands[call->first_operand];

        if (call->kind == PST_C_ACCUMULATE) {
            const struct pst_value *from = &program->values[operands[1]];

            assert_int_equal(from->kind, PST_V_SCRATCH);
            assert_int_equal(from->microbatch, next[operands[0]]);
            next[operands[0]]++;
        } else if (call->kind == PST_C_KERNEL && call->pass == 2) {
            struct pst_operands at = pst_operands_of(&s->graph->ops[call->op]);

            for (uint32_t k = at.dp; k < at.state; k++) {
                if (operands[k] != PST_NONE && program->values[operands[k]].kind == PST_V_GRAD) {
                    assert_int_equal(next[operands[k]]++, 0);
                    assert_int_equal(call->first_sample, 0);
                }
            }
        }
    }
    for (uint32_t r = 0; r < program->n_params; r++) {
        for (uint32_t i = 0; i < program->params[r].n_grads; i++) {
            assert_int_equal(next[program->params[r].grads[i]], m);
        }
    }
    free(next);
}

static void check_model(const char *id, const char *settings)
{
    struct setup s = {.cluster = {.devices = 8,
                                  .flops = 1e9,
                                  .bf16_flops = 1e9,
                                  .memory_bandwidth = 1000000000,
                                  .launch_overhead = 1000,
                                  .link_bandwidth = 1000000000,
                                  .link_latency = 1000}};
    struct pst_error err = {0};
    uint64_t peaks[SEQUENCES] = {0};

    assert_int_equal(try_model(id, settings, PST_F32, &s.graph, &err), PST_OK);
    s.cost =
        (struct pst_cost_model){.graph = s.graph, .cluster = &s.cluster, .workspace = workspace};
    for (uint64_t seed = 1; seed <= 6; seed++) {
        for (uint32_t kind = 0; kind < SEQUENCES; kind++) {
            uint32_t p = 1 + (uint32_t)(seed + kind) % 5, m = 1 + (uint32_t)seed % 7;

            print_message("%s seed %u order %u: %u stages, %u micro-batches\n", id, (uint32_t)seed,
                          kind, p, m);
            make_plan(&s, p, m, kind, seed, seed % 2 == 0);
            for (uint32_t d = 0; d < p; d++) {
                check_layout(s.programs[d]);
                check_order(s.programs[d], s.graph);
                check_sums(&s, s.programs[d], m);
            }
            drop_plan(&s);
        }
    }
    for (uint32_t kind = 0; kind < SEQUENCES; kind++) {
        make_plan(&s, 4, 8, kind, 3, false);
        peaks[kind] = s.programs[0]->peak_bytes;
        drop_plan(&s);
    }
    /* 1F1B holds 4 micro-batches on its first device where GPipe holds 8. */
    assert_true(peaks[SEQUENCE_1F1B] < peaks[SEQUENCE_GPIPE]);
    pst_graph_destroy(s.graph);
}

TEST(test_mlp)
{
    check_model("mlp", "inputs=12 hidden=16 layers=6 classes=5");
}

TEST(test_gpt)
{
    check_model("gpt", "layers=3 dim=16 heads=2 context=8 vocab=11 dropout=0.1");
}

TEST(test_mmt)
{
    check_model("mmt", "");
}

TEST(test_resnet)
{
    check_model("resnet", "");
}

/* Device 0 runs a backward before its forward, and device 1 waits for that forward. */
TEST(test_stuck)
{
    struct setup s = {.cluster = {.devices = 2,
                                  .flops = 1e9,
                                  .memory_bandwidth = 1000000000,
                                  .link_bandwidth = 1000000000}};
    struct pst_error err = {0};
    struct pst_pass first[] = {{PST_PASS_BW, 0, 0}, {PST_PASS_F, 0, 0}};
    struct pst_pass second[] = {{PST_PASS_F, 1, 0}, {PST_PASS_BW, 1, 0}};
    const struct pst_pass *orders[] = {first, second};
    uint32_t n_passes[] = {2, 2}, nodes[64], ranks[] = {0, 1};

    assert_int_equal(try_model("mlp", "layers=2", PST_F32, &s.graph, &err), PST_OK);
    s.cost = (struct pst_cost_model){.graph = s.graph, .cluster = &s.cluster};
    for (uint32_t v = 0; v < s.graph->n_ops; v++) {
        nodes[v] = v;
    }
    pst_plan_create(s.graph, 2, 2, &s.plan);
    pst_plan_add_stage(s.plan, nodes, 1, &ranks[0], 1, 2, 1);
    pst_plan_add_stage(s.plan, nodes + 1, s.graph->n_ops - 1, &ranks[1], 1, 2, 1);
    assert_int_equal(pst_plan_connect(s.plan, s.graph, &err), PST_OK);
    assert_int_equal(pst_plan_lower(s.plan, s.graph, &s.cost, orders, n_passes, true, &err),
                     PST_ERR_BUG);
    assert_string_equal(err.kind, "plan.illegal");
    assert_non_null(strstr(err.message, "LIVE1: "));
    assert_string_equal(err.details,
                        "device 0: B of micro-batch 0 on stage 0 waits for F of micro-batch "
                        "0 on stage 0 on device 0, where it comes later\n");
    pst_plan_destroy(s.plan);
    pst_graph_destroy(s.graph);
}
