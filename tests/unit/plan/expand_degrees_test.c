/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans of groups of unlike sizes, and the plans of ranks that come of them: who sends to whom, and
 * what waits for it, by hand; ranks, groups and meetings by their definition. The graphs are whole
 * ones that are said to be in parts.
 */
#include "unit/plan/groups.h"
#include "unit/prove/rig.h"

#define MOST 64

static const char mlp[] = "inputs=12 hidden=16 layers=6 classes=5";

struct degrees {
    struct rig rig;
    struct pst_plan *ranks;
};

static void close_degrees(struct degrees *d)
{
    pst_plan_destroy(d->ranks);
    rig_close(&d->rig);
}

/* Each operator is its own one of the whole graph, and has the degree of its stage. */
static void divide(struct degrees *d, const uint32_t *degree_of_stage)
{
    struct pst_graph *graph = d->rig.graph;
    const struct pst_plan *plan = d->rig.plan;
    uint32_t *op_of = pst_arena_array(&graph->arena, graph->n_ops, sizeof *op_of);
    uint16_t *degree_of = pst_arena_array(&graph->arena, graph->n_ops, sizeof *degree_of);

    graph->parts = 1;
    for (uint32_t v = 0; v < graph->n_ops; v++) {
        op_of[v] = v;
    }
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        graph->parts = degree_of_stage[s] > graph->parts ? degree_of_stage[s] : graph->parts;
        for (uint32_t i = 0; i < plan->stages[s].n_nodes; i++) {
            degree_of[plan->stages[s].nodes[i]] = (uint16_t)degree_of_stage[s];
        }
    }
    graph->op_of = op_of;
    graph->degree_of = degree_of;
}

/* --- by hand -----------------------------------------------------------------------------------*/

static const uint32_t none[] = {0}, first[] = {0}, second[] = {1}, third[] = {2}, fourth[] = {3},
                      fifth[] = {4}, sends[] = {1, 3};

/* A buffer for both micro-batches, the second of which nothing sends back. */
static const struct pst_instr maker[] = {
    {.op = PST_I_F, .waits = none},
    {.op = PST_I_SEND, .peer = 1, .n_samples = 1, .n_waits = 1, .waits = first},
    {.op = PST_I_F, .microbatch = 1, .n_waits = 1, .waits = second},
    {.op = PST_I_SEND, .peer = 1, .first_sample = 1, .n_samples = 1, .n_waits = 1, .waits = third},
    {.op = PST_I_RECV, .payload = PST_PAYLOAD_GRAD, .peer = 1, .n_samples = 1},
    {.op = PST_I_BW, .n_waits = 1, .waits = fifth},
    {.op = PST_I_NORM, .n_waits = 2, .waits = sends},
};
static const struct pst_instr reader[] = {
    {.op = PST_I_RECV, .n_samples = 1},
    {.op = PST_I_F, .stage = 1, .n_waits = 1, .waits = first},
    {.op = PST_I_BW, .stage = 1},
    {.op = PST_I_SEND, .payload = PST_PAYLOAD_GRAD, .n_samples = 1, .n_waits = 1, .waits = third},
    {.op = PST_I_NORM, .n_waits = 1, .waits = fourth},
};

static void open_pair(struct degrees *d, uint32_t maker_degree, uint32_t reader_degree)
{
    static const uint32_t groups[] = {0, 1};
    const uint32_t degrees[] = {maker_degree, reader_degree};
    struct pst_error err = {0};
    uint32_t nodes[MOST], n;

    memset(d, 0, sizeof *d);
    rig_open(&d->rig, "mlp", mlp, 1);
    n = d->rig.graph->n_ops;
    assert_true(n <= MOST);
    for (uint32_t v = 0; v < n; v++) {
        nodes[v] = v;
    }
    pst_plan_create(d->rig.graph, 2, 2, &d->rig.plan);
    pst_plan_add_stage(d->rig.plan, nodes, n / 2, groups, 1, 1, 1);
    pst_plan_add_stage(d->rig.plan, nodes + n / 2, n - n / 2, groups + 1, 1, 1, 1);
    assert_ok(pst_plan_connect(d->rig.plan, d->rig.graph, &err), &err);
    d->rig.plan->devices[0].body = maker;
    d->rig.plan->devices[0].n_instrs = sizeof maker / sizeof *maker;
    d->rig.plan->devices[1].body = reader;
    d->rig.plan->devices[1].n_instrs = sizeof reader / sizeof *reader;
    divide(d, degrees);
    pst_plan_expand(d->rig.plan, d->rig.graph, maker_degree + reader_degree, &d->ranks);
}

/* Ranks without stages make groups like those with stages, where these are alike, and else of one.
 */
TEST(ranks_without_stages)
{
    static const struct {
        uint32_t n_ranks, first[2], size[2], group_of[8];
    } cases[] = {
        {8, {0, 4}, {2, 2}, {0, 0, 1, 1, 2, 2, 3, 3}},
        {5, {0, 2}, {2, 2}, {0, 0, 1, 1, 2}},    /* one is left */
        {6, {1, 3}, {2, 2}, {0, 1, 1, 2, 2, 3}}, /* at no multiple */
        {6, {1, 2}, {1, 2}, {0, 1, 2, 2, 3, 4}}, /* unlike */
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FINISHED_BY(close_degrees) struct degrees d = {0};
        const uint32_t n_ranks = cases[i].n_ranks, *begin = cases[i].first;
        uint32_t group_of[8], nodes[MOST], n;

        rig_open(&d.rig, "mlp", mlp, 1);
        n = d.rig.graph->n_ops;
        for (uint32_t v = 0; v < n; v++) {
            nodes[v] = v;
        }
        pst_plan_create(d.rig.graph, 2, cases[i].group_of[n_ranks - 1] + 1, &d.rig.plan);
        for (uint32_t s = 0; s < 2; s++) {
            pst_plan_add_stage(d.rig.plan, nodes + n / 2 * s, s == 0 ? n / 2 : n - n / 2,
                               &cases[i].group_of[begin[s]], 1, 1, 1);
        }
        divide(&d, cases[i].size);
        pst_plan_expand(d.rig.plan, d.rig.graph, n_ranks, &d.ranks);
        for (uint32_t s = 0; s < 2; s++) {
            assert_int_equal(d.ranks->stages[s].ranks[0], begin[s]);
        }
        assert_int_equal(pst_plan_groups(d.ranks, group_of), d.rig.plan->n_devices);
        assert_memory_equal(group_of, cases[i].group_of, n_ranks * sizeof *group_of);
    }
}

/* "SEND 2 (0), F (1)": peers of transfers, and in brackets what is waited for. */
static void expect_rank(const struct degrees *d, uint32_t rank, const char *expected)
{
    const struct pst_plan_device *device = &d->ranks->devices[rank];
    char text[512] = "";
    size_t n = 0;

    for (uint32_t i = 0; i < device->n_instrs; i++) {
        const struct pst_instr *instr = &device->body[i];

        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", i > 0 ? ", " : "",
                              pst_instr_name(instr->op));
        if (instr->op == PST_I_SEND || instr->op == PST_I_RECV) {
            n += (size_t)snprintf(text + n, sizeof text - n, " %u", instr->peer);
        } else {
            assert_int_equal(instr->peer, 0);
        }
        for (uint32_t w = 0; w < instr->n_waits; w++) {
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%u%s", w == 0 ? " (" : " ",
                                  instr->waits[w], w + 1 == instr->n_waits ? ")" : "");
        }
        assert_true(n < sizeof text);
    }
    assert_string_equal(text, expected);
}

TEST(one_to_four)
{
    FINISHED_BY(close_degrees) struct degrees d;

    open_pair(&d, 1, 4);
    expect_rank(&d, 0,
                "F, SEND 1 (0), SEND 2 (0), SEND 3 (0), SEND 4 (0), F (1 2 3 4), SEND 1 (5), "
                "SEND 2 (5), SEND 3 (5), SEND 4 (5), RECV 1, BW (10), NORM (1 2 3 4 6 7 8 9)");
    expect_rank(&d, 1, "RECV 0, F (0), BW, SEND 0 (2), NORM (3)");
    for (uint32_t part = 1; part < 4; part++) {
        expect_rank(&d, 1 + part, "RECV 0, F (0), BW, NORM");
    }
    assert_int_equal(d.ranks->devices[0].body[8].first_sample, 1);
}

TEST(four_to_one)
{
    FINISHED_BY(close_degrees) struct degrees d;

    open_pair(&d, 4, 1);
    expect_rank(&d, 0, "F, SEND 4 (0), F (1), SEND 4 (2), RECV 4, BW (4), NORM (1 3)");
    for (uint32_t part = 1; part < 4; part++) {
        expect_rank(&d, part, "F, F, RECV 4, BW (2), NORM");
    }
    expect_rank(&d, 4,
                "RECV 0, F (0), BW, SEND 0 (2), SEND 1 (2), SEND 2 (2), SEND 3 (2), "
                "NORM (3 4 5 6)");
}

TEST(four_to_two)
{
    FINISHED_BY(close_degrees) struct degrees d;

    open_pair(&d, 4, 2);
    expect_rank(&d, 0, "F, SEND 4 (0), F (1), SEND 4 (2), RECV 4, BW (4), NORM (1 3)");
    expect_rank(&d, 1, "F, F, RECV 4, BW (2), NORM");
    expect_rank(&d, 2, "F, SEND 5 (0), F (1), SEND 5 (2), RECV 5, BW (4), NORM (1 3)");
    expect_rank(&d, 3, "F, F, RECV 5, BW (2), NORM");
    expect_rank(&d, 4, "RECV 0, F (0), BW, SEND 0 (2), SEND 1 (2), NORM (3 4)");
    expect_rank(&d, 5, "RECV 2, F (0), BW, SEND 2 (2), SEND 3 (2), NORM (3 4)");
}

TEST(two_to_four)
{
    FINISHED_BY(close_degrees) struct degrees d;

    open_pair(&d, 2, 4);
    expect_rank(&d, 0,
                "F, SEND 2 (0), SEND 3 (0), F (1 2), SEND 2 (3), SEND 3 (3), RECV 2, BW (6), "
                "NORM (1 2 4 5)");
    expect_rank(&d, 1,
                "F, SEND 4 (0), SEND 5 (0), F (1 2), SEND 4 (3), SEND 5 (3), RECV 4, BW (6), "
                "NORM (1 2 4 5)");
    expect_rank(&d, 2, "RECV 0, F (0), BW, SEND 0 (2), NORM (3)");
    expect_rank(&d, 3, "RECV 0, F (0), BW, NORM");
    expect_rank(&d, 4, "RECV 1, F (0), BW, SEND 1 (2), NORM (3)");
    expect_rank(&d, 5, "RECV 1, F (0), BW, NORM");
}

/* --- by definition -----------------------------------------------------------------------------*/

/* Degrees of 1, 2 and 4, those of stages of one group alike. */
static void open_random(struct degrees *d, uint64_t seed)
{
    struct rig_shape shape;
    uint32_t of_device[4], degrees[8];

    memset(d, 0, sizeof *d);
    rig_open(&d->rig, "mlp", mlp, seed);
    shape = rig_draw_shape(&d->rig);
    shape.two_way = false;
    shape.zero = rig_draw(&d->rig, 2);
    rig_plan(&d->rig, &shape);
    for (uint32_t i = 0; i < shape.devices; i++) {
        of_device[i] = 1u << rig_draw(&d->rig, 3);
    }
    for (uint32_t s = 0; s < d->rig.plan->n_stages; s++) {
        degrees[s] = of_device[s % shape.devices];
    }
    divide(d, degrees);
    expand_groups(d->rig.plan, d->rig.graph, &d->ranks);
    assert_true(d->ranks->n_devices <= MOST);
}

/* Group g has the ranks behind those of the groups before it. */
TEST(groups_and_parts)
{
    for (uint32_t i = 0; i < 60; i++) {
        FINISHED_BY(close_degrees) struct degrees d;
        uint32_t group_of[MOST], size[RIG_MAX] = {0}, begin[RIG_MAX + 1] = {0};

        open_random(&d, 100 + i);
        assert_int_equal(pst_plan_groups(d.ranks, group_of), d.rig.plan->n_devices);
        for (uint32_t r = 0; r < d.ranks->n_devices; r++) {
            assert_true(r == 0 || group_of[r] >= group_of[r - 1]);
            size[group_of[r]]++;
        }
        for (uint32_t g = 0; g < d.rig.plan->n_devices; g++) {
            begin[g + 1] = begin[g] + size[g];
        }
        for (uint32_t s = 0; s < d.ranks->n_stages; s++) {
            const struct pst_plan_stage *of = &d.rig.plan->stages[s], *stage = &d.ranks->stages[s];

            assert_int_equal(stage->tensor, d.rig.graph->degree_of[stage->nodes[0]]);
            assert_int_equal(pst_plan_replicas(stage), of->n_ranks);
            for (uint32_t p = 0; p < stage->n_ranks; p++) {
                const uint32_t group = of->ranks[p / stage->tensor];

                assert_int_equal(size[group], stage->tensor);
                assert_int_equal(stage->ranks[p], begin[group] + p % stage->tensor);
            }
        }
    }
}

/* It does not matter whether parts are made before or after. */
TEST(twins)
{
    for (uint32_t i = 0; i < 60; i++) {
        FINISHED_BY(close_degrees) struct degrees d;
        struct pst_plan *groups, *after, *before;
        struct pst_hash a, b;
        struct pst_error err = {0};

        open_random(&d, 200 + i);
        assert_ok(pst_plan_forward_twin(d.rig.plan, d.rig.graph, &d.rig.cost, 12, 0, &groups, &err),
                  &err);
        pst_plan_expand(groups, d.rig.graph, d.ranks->n_devices, &after);
        assert_ok(pst_plan_forward_twin(d.ranks, d.rig.graph, &d.rig.cost, 12, 0, &before, &err),
                  &err);
        a = pst_plan_digest(before);
        b = pst_plan_digest(after);
        assert_true(pst_hash_equal(&a, &b));
        pst_plan_destroy(groups);
        pst_plan_destroy(after);
        pst_plan_destroy(before);
    }
}

/* Equal parts of the replicas of a stage meet; MERGE: the parts of one replica. */
static bool should_meet(const struct pst_plan *plan, const struct pst_instr *instr, uint32_t rank,
                        uint32_t other)
{
    const struct pst_plan_stage *stage = &plan->stages[instr->stage];
    const uint32_t own = pst_plan_place(stage, rank), its = pst_plan_place(stage, other);

    return instr->op == PST_I_NORM ||
           (its != PST_NONE &&
            (instr->op == PST_I_MERGE ? own / stage->tensor == its / stage->tensor
                                      : own % stage->tensor == its % stage->tensor));
}

static void expect_meeting(const struct pst_plan *plan, const struct pst_instr *instr,
                           uint32_t rank, uint32_t (*seen)[MOST + 1])
{
    const uint32_t number = pst_plan_meeting_of(plan, instr, rank);
    uint32_t members[MOST + 1] = {0}, n = 0, n_members;

    assert_true(number < pst_plan_n_meetings(plan) && number < 1024);
    n_members = pst_plan_members(plan, instr, rank, members);
    for (uint32_t r = 0; r < plan->n_devices; r++) {
        if (should_meet(plan, instr, rank, r)) {
            assert_int_equal(members[n++], r);
        }
    }
    assert_int_equal(n_members, n);
    members[MOST] = 1 + (instr->op << 16 | instr->stage);
    if (seen[number][MOST] > 0) { /* one number: one meeting */
        assert_memory_equal(seen[number], members, sizeof members);
    }
    memcpy(seen[number], members, sizeof members);
}

TEST(meetings)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < 60; i++) {
        FINISHED_BY(close_degrees) struct degrees d;
        uint32_t(*seen)[MOST + 1] = calloc(1024, sizeof *seen);

        open_random(&d, 300 + i);
        for (uint32_t r = 0; r < d.ranks->n_devices; r++) {
            for (uint32_t s = 0; s < d.ranks->n_stages; s++) {
                const struct pst_instr merge = {.op = PST_I_MERGE, .stage = s};

                if (pst_plan_place(&d.ranks->stages[s], r) != PST_NONE) {
                    expect_meeting(d.ranks, &merge, r, seen);
                }
            }
            for (uint32_t at = 0; at < d.ranks->devices[r].n_instrs; at++) {
                const struct pst_instr *instr = &d.ranks->devices[r].body[at];

                if (instr->op == PST_I_REDUCE || instr->op == PST_I_GATHER ||
                    instr->op == PST_I_NORM) {
                    expect_meeting(d.ranks, instr, r, seen);
                    n++;
                }
            }
        }
        free(seen);
    }
    assert_true(n > 500);
}

/* A parameter that is split counts once for each of its own parts. */
TEST(square_trees)
{
    for (uint32_t i = 0; i < 60; i++) {
        FINISHED_BY(close_degrees) struct degrees d;
        struct pst_arena arena = {0};
        struct pst_square_tree *trees;
        uint64_t elems[MOST][4] = {{0}};
        uint32_t n;

        open_random(&d, 400 + i);
        for (uint32_t p = 0; p < d.rig.graph->n_params; p += 2) {
            d.rig.graph->params[p].box.parts =
                d.rig.graph->degree_of[d.rig.graph->params[p].users[0]];
        }
        n = pst_plan_square_trees(d.ranks, d.rig.graph, &arena, &trees);
        for (uint32_t t = 0; t < n; t++) {
            elems[trees[t].parameter][trees[t].part] += trees[t].elems;
        }
        for (uint32_t p = 0; p < d.rig.graph->n_params; p++) {
            const struct pst_parameter *parameter = &d.rig.graph->params[p];

            for (uint32_t part = 0; part < 4; part++) {
                const bool counts = part == 0 || part < parameter->box.parts;

                assert_int_equal(elems[p][part], counts ? parameter->elems : 0);
            }
        }
        pst_arena_finish(&arena);
    }
}
