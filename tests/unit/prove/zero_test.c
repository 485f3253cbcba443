/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans whose ranks share the optimizer's state are proven, and mutants of their lists, programs
 * and square sums are refused by the rule that they break. PENSTOCK_SEED: another seed.
 */
#include "prove/internal.h"
#include "unit/prove/async_rig.h"
#include "unit/prove/legal_rig.h"
#include "unit/prove/zero_mutations.h"

static struct pst_check_report report;
static uint32_t n_cut, n_tied_cut, n_tied_whole, n_async;

/* Which kinds of plans there were. */
static void count(const struct rig *rig)
{
    for (uint32_t d = 0; d < rig->plan->n_devices; d++) {
        for (uint32_t i = 0; i < rig->programs[d]->n_params; i++) {
            const struct pst_program_param *row = &rig->programs[d]->params[i];
            const struct pst_parameter *parameter = &rig->graph->params[row->parameter];
            bool cut = row->shard.elems < parameter->elems;
            n_cut += cut;
            n_tied_cut += cut && parameter->n_users > 1;
            n_tied_whole += !cut && parameter->n_users > 1 && rig->plan->stages[0].n_ranks > 1;
        }
    }
}

static void prove(struct rig *rig, const char *name)
{
    expect_legal(rig, "%s", name);
    count(rig);
    mu_mutate_all(rig, zero_list_mutations, N_ZERO_LISTS, name);
    me_mutate_all(rig, zero_program_mutations, N_ZERO_PROGRAMS, name);
}

/* --- who has what -----------------------------------------------------------------------------*/

/* gpt in one stage or two with these numbers of ranks. */
static void plan_widths(struct rig *rig, uint32_t a, uint32_t b)
{
    static const uint32_t ranks[] = {0, 1, 2, 3, 4, 5};
    struct rig_shape shape = {.devices = 2, .chunks = 1, .batch = 6, .microbatch = 6};
    const uint32_t n = rig->graph->n_ops, first = b > 0 ? n / 2 : n;
    struct pst_error err = {0};
    uint32_t nodes[64];
    for (uint32_t v = 0; v < n; v++) {
        nodes[v] = v;
    }
    pst_plan_create(rig->graph, 6, a + b, &rig->plan);
    pst_plan_add_stage(rig->plan, nodes, first, ranks, a, 6, 1);
    if (b > 0) {
        pst_plan_add_stage(rig->plan, nodes + first, n - first, ranks + a, b, 6, 1);
    }
    rig->plan->zero = 1;
    rig->plan->optimizer_slots = 2;
    assert_ok(pst_plan_connect(rig->plan, rig->graph, &err), &err);
    rig_lower(rig, &shape);
}

/* A tied parameter is in pieces where all of its stages are as wide. */
TEST(tied_widths)
{
    static const struct {
        uint32_t a, b;
        bool cut;
    } cases[] = {{2, 0, true},  {3, 0, true},  {2, 2, true}, {3, 3, true},
                 {1, 0, false}, {2, 3, false}, {1, 2, false}};
    FINISHED_BY(rig_close) struct rig rig;
    rig_open(&rig, "gpt", "layers=1 dim=16 heads=2 context=4 vocab=600", 7);
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[32];
        snprintf(name, sizeof name, "widths %u, %u", cases[i].a, cases[i].b);
        plan_widths(&rig, cases[i].a, cases[i].b);
        const struct pst_program_param *row = rig.programs[0]->params;
        assert_true(rig.graph->params[row->parameter].n_users == 2);
        assert_true((row->shard.elems < 600 * 16) == cases[i].cut);
        for (uint32_t k = 0; k < 10; k++) {
            prove(&rig, name);
        }
        rig_drop_plan(&rig);
    }
}

/* The square sums of NORM, one left out, there twice, of another member, cut elsewhere. */
TEST(square_sums)
{
    FINISHED_BY(rig_close) struct rig rig;
    struct pst_square_tree *trees, kept;
    rig_open(&rig, "gpt", "layers=1 dim=16 heads=2 context=4 vocab=2000", 7);
    plan_widths(&rig, 3, 0);
    struct pst_check check = {.plan = rig.plan,
                              .graph = rig.graph,
                              .limits = &rig.limits,
                              .report = &report,
                              .n_batches = 1};
    memset(&report, 0, sizeof report);
    pst_check_partition(&check);
    pst_check_cuts(&check);
    const uint32_t n = pst_plan_square_trees(rig.plan, rig.graph, &check.arena, &trees);
    /* 32,000 elements are 8 blocks for 3 members: 0-2, 3-5, 6-7, which begin with the one whose
       number is 0; in aligned trees 0-1, 2; 3, 4-5; 6-7 */
    static const uint64_t firsts[] = {0, 8192, 12288, 16384, 24576};
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(trees[i].parameter, 0);
        assert_int_equal(trees[i].first, firsts[i]);
        assert_int_equal(trees[i].member, i / 2);
    }
    pst_check_trees(&check, trees, n);
    assert_int_equal(report.n_violations, 0);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t change = 0; change < 5; change++) {
            struct pst_square_tree *wrong = mu_copy(trees, n * sizeof *trees, sizeof *trees);
            uint32_t left = n;
            kept = wrong[i];
            if (change == 0) {
                memmove(&wrong[i], &wrong[i + 1], (--left - i) * sizeof *wrong);
            } else if (change == 1) {
                memmove(&wrong[i + 1], &trees[i], (n - i) * sizeof *wrong);
                left++;
            } else if (change == 2) {
                wrong[i].member = (kept.member + 1) % 3;
            } else {
                *(change == 3 ? &wrong[i].elems : &wrong[i].first) += 1;
            }
            report.n_violations = 0;
            pst_check_trees(&check, wrong, left);
            assert_true(rig_has_rule(&report, "SHARD4"));
            free(wrong);
        }
    }
    pst_arena_finish(&check.arena);
}

/* An evaluation gathers nothing. */
TEST(forward_only)
{
    FINISHED_BY(rig_close) struct rig rig;
    struct pst_error err = {0};
    rig_open(&rig, "gpt", "layers=1 dim=16 heads=2 context=4 vocab=600", 7);
    plan_widths(&rig, 2, 2);
    rig.limits.forward_only = true;
    assert_int_equal(rig_check(&rig, false, &report, &err), PST_ERR_BUG);
    assert_true(rig_has_rule(&report, "PASS10"));
}

/* --- random plans -----------------------------------------------------------------------------*/

/* Random widths, or two copies in opposite directions. */
static void check(struct rig *rig, uint32_t i, const char *name)
{
    struct rig_shape shape = rig_draw_shape(rig);
    shape.zero = 1;
    shape.two_way = i % 4 == 0;
    shape.replicas = !shape.two_way;
    shape.no_barrier = rig_draw(rig, 3) == 0;
    if (shape.two_way) {
        shape.devices = 2 + 2 * rig_draw(rig, 2);
        shape.microbatch = 2;
    } else if (shape.microbatch > 0 || shape.chunks > 1) {
        shape.batch = 6;
        shape.microbatch = 6;
    }
    rig_plan(rig, &shape);
    prove(rig, name);
}

TEST(mlp)
{
    rig_each("mlp", "inputs=40 hidden=130 layers=8 classes=3", PST_F32, 61, 120, check);
}

TEST(half)
{
    rig_each("mlp", "inputs=40 hidden=130 layers=8 classes=3", PST_BF16, 61, 60, check);
}

TEST(tied)
{
    rig_each("gpt", "layers=1 dim=16 heads=2 context=4 vocab=600", PST_F32, 61, 120, check);
}

/* Matrices are whole. */
static void check_muon(struct rig *rig, uint32_t i, const char *name)
{
    for (uint32_t p = 0; p < rig->graph->n_params; p++) {
        rig->graph->params[p].muon = rig->graph->params[p].rank == 2;
    }
    check(rig, i, name);
    for (uint32_t d = 0; d < rig->plan->n_devices; d++) {
        for (uint32_t k = 0; k < rig->programs[d]->n_params; k++) {
            const struct pst_program_param *row = &rig->programs[d]->params[k];
            const struct pst_parameter *parameter = &rig->graph->params[row->parameter];
            assert_true(parameter->muon == 0 || row->shard.elems == 0 ||
                        row->shard.elems == parameter->elems);
        }
    }
}

TEST(muon)
{
    rig_each("mlp", "inputs=40 hidden=130 layers=8 classes=3", PST_F32, 61, 60, check_muon);
}

static void check_async(struct rig *rig, uint32_t i, const char *name)
{
    struct async_shape shape = async_draw_shape(rig, i);
    shape.zero = 1;
    shape.replicas = true;
    shape.size = 6;
    if (async_plan(rig, &shape)) {
        rig->plan->optimizer_slots = rig_draw(rig, 3);
        rig_programs(rig);
        n_async++;
        prove(rig, name);
    }
}

TEST(mlp_2bw)
{
    rig_each("mlp", "inputs=40 hidden=130 layers=8 classes=3", PST_F32, 61, 40, check_async);
}

TEST(half_2bw)
{
    rig_each("mlp", "inputs=40 hidden=130 layers=8 classes=3", PST_BF16, 61, 20, check_async);
}

TEST(tied_2bw)
{
    rig_each("gpt", "layers=1 dim=16 heads=2 context=4 vocab=600", PST_F32, 61, 40, check_async);
}

TEST(every_mutation)
{
    print_message("%u pieces, %u of tied parameters, %u whole tied, %u asynchronous plans\n", n_cut,
                  n_tied_cut, n_tied_whole, n_async);
    assert_true(n_cut > 0 && n_tied_cut > 0 && n_tied_whole > 0 && n_async > 0);
    mu_print(zero_list_mutations, N_ZERO_LISTS);
    me_print(zero_program_mutations, N_ZERO_PROGRAMS);
}
