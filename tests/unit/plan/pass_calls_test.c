/* SPDX-License-Identifier: Apache-2.0
 *
 * What passes call, held against the programs of random plans: the same kernels in the same order;
 * the first call that reads what a kept node left, by the operands; and the last that does.
 */
#include "base/philox.h"
#include "plan/pass_calls.h"
#include "plan/program.h"

#include "unit/graph/model_support.h"

enum { STAGES = 2 };

struct setup {
    struct pst_graph *graph;
    struct pst_cluster cluster;
    struct pst_cost_model cost;
    struct pst_plan *plan;
    struct pst_program *programs[STAGES];
};

static uint32_t emit(bool split, uint32_t stage, struct pst_pass *order)
{
    order[0] = (struct pst_pass){PST_PASS_F, stage, 0};
    order[1] = (struct pst_pass){split ? PST_PASS_B : PST_PASS_BW, stage, 0};
    order[2] = (struct pst_pass){PST_PASS_W, stage, 0};
    return split ? 3 : 2;
}

static void make_plan(struct setup *s, uint64_t seed, bool split)
{
    struct pst_error err = {0};
    struct pst_pass orders[STAGES][3];
    const struct pst_pass *lists[STAGES];
    uint32_t n_passes[STAGES], n = s->graph->n_ops, *nodes = calloc(n, sizeof *nodes);
    uint32_t cut = 1 + pst_philox(seed, 0, 0).v[0] % (n - 1);

    for (uint32_t v = 0; v < n; v++) {
        nodes[v] = v;
    }
    pst_plan_create(s->graph, 2, STAGES, &s->plan);
    for (uint32_t d = 0; d < STAGES; d++) {
        uint32_t first = d == 0 ? 0 : cut, take = d == 0 ? cut : n - cut;
        uint32_t percent = pst_philox(seed, d, 1).v[0] % 100;

        pst_plan_add_stage(s->plan, nodes + first, take, &d, 1, 2, 1);
        for (uint32_t i = 0; i < take; i++) {
            if (pst_philox(seed, d, 2 + i).v[0] % 100 < percent) {
                ((uint8_t *)s->plan->stages[d].actions)[i] = PST_ACTION_RECOMPUTE;
            }
        }
        n_passes[d] = emit(split, d, orders[d]);
        lists[d] = orders[d];
    }
    assert_int_equal(pst_plan_connect(s->plan, s->graph, &err), PST_OK);
    assert_int_equal(pst_plan_lower(s->plan, s->graph, &s->cost, lists, n_passes, true, &err),
                     PST_OK);
    for (uint32_t d = 0; d < STAGES; d++) {
        assert_int_equal(pst_program_create(s->plan, s->graph, &s->cost, d, &s->programs[d], &err),
                         PST_OK);
    }
    free(nodes);
}

static void drop_plan(struct setup *s)
{
    for (uint32_t d = 0; d < STAGES; d++) {
        pst_program_destroy(s->programs[d]);
    }
    pst_plan_destroy(s->plan);
}

/* The value that F of the node made for its output i. */
static uint32_t made(const struct setup *s, const struct pst_program *program, uint32_t op,
                     uint32_t output)
{
    for (uint32_t v = 0; v < program->n_values; v++) {
        if (program->values[v].kind == PST_V_ACT &&
            program->values[v].what == s->graph->ops[op].out[output]) {
            return v;
        }
    }
    fail_msg("no value of operator %u", op);
    return PST_NONE;
}

/* Calls that read: x of a replay, x and y of B and W. The z of B and W are no results. */
static bool reads(const struct setup *s, const struct pst_program *program,
                  const struct pst_program_call *call, uint32_t value)
{
    struct pst_operands at = pst_operands_of(&s->graph->ops[call->op]);
    const uint32_t *operands = &program->operands[call->first_operand];

    for (uint32_t k = 0; k < at.dy; k++) {
        bool is_x = k < at.p, is_y = k >= at.y;

        if (operands[k] == value && (is_x || (is_y && call->pass > 0))) {
            return true;
        }
    }
    return false;
}

static void check_reads(const struct setup *s, const struct pst_plan_stage *stage,
                        const struct pst_program *program, const struct pst_program_call *const *in,
                        const struct pst_pass_calls *pass)
{
    for (uint32_t node = 0; node < stage->n_nodes; node++) {
        const struct pst_op *op = &s->graph->ops[stage->nodes[node]];
        uint32_t first = PST_NONE;

        if (stage->actions[node] != PST_ACTION_KEEP) {
            continue;
        }
        for (uint32_t c = 0; c < pass->n_calls; c++) {
            for (uint32_t i = 0; i < op->n_out; i++) {
                if (reads(s, program, in[c], made(s, program, stage->nodes[node], i))) {
                    first = c < first ? c : first;
                    assert_true(c < pass->behind[node]);
                }
            }
        }
        assert_int_equal(pass->first_read[node], first);
    }
}

static void check_pass(const struct setup *s, uint32_t stage, uint32_t instr,
                       const struct pst_pass_calls *pass, bool forward)
{
    const struct pst_program *program = s->programs[stage];
    const struct pst_program_instr *list = &program->lists[instr];
    const struct pst_program_call *in[512];
    uint32_t n = 0;

    for (uint32_t c = list->first_call; c < list->first_call + list->n_calls; c++) {
        if (program->calls[c].kind == PST_C_KERNEL) {
            assert_in_range(n, 0, 511);
            in[n++] = &program->calls[c];
        }
    }
    assert_int_equal(n, pass->n_calls);
    for (uint32_t c = 0; c < n; c++) {
        assert_int_equal(in[c]->op, s->plan->stages[stage].nodes[pass->calls[c].node]);
        assert_int_equal(in[c]->pass, pass->calls[c].pass);
        assert_int_equal(in[c]->replay, pass->calls[c].replay);
    }
    if (!forward) {
        check_reads(s, &s->plan->stages[stage], program, in, pass);
    }
    for (uint32_t node = 0; forward && node < n; node++) {
        assert_int_equal(pass->behind[node], node + 1);
        assert_int_equal(pass->first_read[node], PST_NONE);
    }
}

static void check_model(const char *id, const char *settings)
{
    struct setup s = {.cluster = {.devices = STAGES,
                                  .flops = 1e9,
                                  .bf16_flops = 1e9,
                                  .memory_bandwidth = 1000000000,
                                  .link_bandwidth = 1000000000}};
    struct pst_error err = {0};

    assert_int_equal(try_model(id, settings, PST_F32, &s.graph, &err), PST_OK);
    s.cost = (struct pst_cost_model){.graph = s.graph, .cluster = &s.cluster};
    for (uint64_t seed = 1; seed <= 60; seed++) {
        print_message("%s seed %u\n", id, (unsigned)seed);
        make_plan(&s, seed, seed % 2 == 0);
        for (uint32_t d = 0; d < STAGES; d++) {
            FINISHED_BY(pst_arena_finish) struct pst_arena arena = {0};
            struct pst_pass_calls passes[PST_I_BW + 1];

            pst_pass_calls_init(&s.plan->stages[d], s.graph, &arena, passes);
            for (uint32_t i = 0; i < s.programs[d]->n_instrs; i++) {
                uint32_t op = s.programs[d]->instrs[i].op;

                if (op <= PST_I_BW) {
                    check_pass(&s, d, i, &passes[op], op == PST_I_F);
                }
            }
        }
        drop_plan(&s);
    }
    pst_graph_destroy(s.graph);
}

TEST(chain)
{
    check_model("gpt", "layers=2 dim=16 heads=2 context=8 vocab=11 dropout=0.1");
}

TEST(branches)
{
    check_model("mmt", "");
    check_model("resnet", "");
}
