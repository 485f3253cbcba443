/* SPDX-License-Identifier: Apache-2.0
 *
 * The figure of stages: nothing on top of something else, columns by what comes behind, lines that
 * do not cross where they need not, the same bytes each time.
 */
#include "figures/stage_impl.h"

#include <math.h>
#include "test.h"

enum { MOST = 2001, ENDS = 8 };

static struct pst_stage_box boxes[MOST];
static uint32_t ends[MOST][ENDS], device[MOST];

static struct pst_stage_graph make(uint32_t n)
{
    for (uint32_t s = 0; s < n; s++) {
        device[s] = s;
        boxes[s] = (struct pst_stage_box){.first = "a\xff rather long name of the first operator",
                                          .last = "and another for the last",
                                          .n_nodes = 2,
                                          .n_devices = 1,
                                          .devices = &device[s],
                                          .successors = ends[s],
                                          .microbatch_size = 4,
                                          .in_flight_samples = 12,
                                          .time_ns = 1000 * (s + 1),
                                          .memory_bytes = 1e9 * (1 + s % 5)};
    }
    return (struct pst_stage_graph){.title = "title",
                                    .subtitle = "subtitle",
                                    .n_stages = n,
                                    .stages = boxes,
                                    .limit_bytes = 4e9};
}

static void connect(uint32_t from, uint32_t to)
{
    assert_true(boxes[from].n_successors < ENDS);
    ends[from][boxes[from].n_successors++] = to;
}

static struct pst_stage_layout lay_out(const struct pst_stage_graph *graph, struct pst_arena *arena)
{
    struct pst_stage_layout layout;
    struct pst_error err = {0};

    assert_ok(pst_stage_lay_out(graph, arena, &layout, &err), &err);
    return layout;
}

/* Every two places of a line and column are apart, every box is on the page, below the head. */
static void expect_apart(const struct pst_stage_layout *l)
{
    for (uint32_t layer = 0; layer < l->n_layers; layer++) {
        for (uint32_t i = l->first[layer]; i < l->first[layer + 1]; i++) {
            uint32_t a = l->order[i];
            double x = pst_stage_x(l, layer), y = pst_stage_y(l, a), h = l->slots[a].height / 2;

            assert_int_equal(l->slots[a].layer, layer);
            assert_true(x >= 10 && x + STAGE_BOX_W <= l->width - 10);
            assert_true(y - h >= 60 && y + h <= l->height - 10);
            if (i > l->first[layer]) {
                uint32_t b = l->order[i - 1];

                assert_true(y - h >= pst_stage_y(l, b) + l->slots[b].height / 2 + 5);
            }
        }
    }
    for (uint32_t line = 1; line < l->n_lines; line++) { /* lines below each other */
        for (uint32_t i = l->first[(line - 1) * l->columns]; i < l->first[line * l->columns]; i++) {
            uint32_t end = (line + 1) * l->columns;
            double bottom = pst_stage_y(l, l->order[i]) + l->slots[l->order[i]].height / 2;

            end = end < l->n_layers ? end : l->n_layers;
            for (uint32_t j = l->first[line * l->columns]; j < l->first[end]; j++) {
                assert_true(pst_stage_y(l, l->order[j]) - l->slots[l->order[j]].height / 2 >
                            bottom);
            }
        }
    }
    for (uint32_t i = 0; i < l->n_links; i++) {
        assert_int_equal(l->slots[l->links[i].to].layer, l->slots[l->links[i].from].layer + 1);
    }
}

static uint32_t crossings(const struct pst_stage_layout *l)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < l->n_links; i++) {
        for (uint32_t j = 0; j < i; j++) {
            const struct pst_stage_slot *a = &l->slots[l->links[i].from];
            const struct pst_stage_slot *b = &l->slots[l->links[j].from];

            n += a->layer == b->layer &&
                 (a->y - b->y) * (l->slots[l->links[i].to].y - l->slots[l->links[j].to].y) < -1e-6;
        }
    }
    return n;
}

TEST(long_chains_are_wrapped)
{
    struct pst_stage_graph graph = make(64);
    FINISHED_BY(pst_arena_finish) struct pst_arena arena = {NULL, 0, 0};
    struct pst_stage_layout l;

    for (uint32_t s = 0; s < 63; s++) {
        connect(s, s + 1);
    }
    l = lay_out(&graph, &arena);
    expect_apart(&l);
    assert_int_equal(l.n_layers, 64);
    assert_true(l.n_lines > 1 && l.width < 3 * l.height && l.height < 3 * l.width);
    for (uint32_t s = 0; s < 64; s++) {
        assert_int_equal(l.slots[s].layer, s);
    }
}

/* Four branches between two stages, numbered in turn as no drawing would do. */
TEST(branches_lie_side_by_side)
{
    struct pst_stage_graph graph = make(34);
    FINISHED_BY(pst_arena_finish) struct pst_arena arena = {NULL, 0, 0};
    struct pst_stage_layout l;

    for (uint32_t b = 0; b < 4; b++) {
        connect(0, 1 + b);
        for (uint32_t i = 0; i < 7; i++) {
            connect(1 + 4 * i + b, 1 + 4 * (i + 1) + (b + i) % 4);
        }
        connect(29 + b, 33);
    }
    l = lay_out(&graph, &arena);
    expect_apart(&l);
    assert_int_equal(l.n_layers, 10);
    assert_int_equal(crossings(&l), 0);
    for (uint32_t i = 0; i < l.n_links; i++) { /* and straight */
        uint32_t from = l.links[i].from, to = l.links[i].to;

        assert_true(from == 0 || to == 33 || fabs(l.slots[from].y - l.slots[to].y) < 0.5);
    }
}

/* Columns count from the end: a short branch stands beside the end of a long one. */
TEST(short_branches_stand_at_the_end)
{
    struct pst_stage_graph graph = make(5);
    FINISHED_BY(pst_arena_finish) struct pst_arena arena = {NULL, 0, 0};
    struct pst_stage_layout l;

    connect(0, 1);
    connect(1, 2);
    connect(2, 4);
    connect(3, 4);
    connect(0, 4); /* passes two columns */
    l = lay_out(&graph, &arena);
    expect_apart(&l);
    assert_int_equal(l.slots[3].layer, 2);
    assert_int_equal(l.n_slots, 7);
}

TEST(anything_is_laid_out)
{
    uint64_t seed = 7;

    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint32_t round = 0; round < 60; round++) {
        FINISHED_BY(pst_arena_finish) struct pst_arena arena = {NULL, 0, 0};
        struct pst_stage_layout l;
        uint32_t n = 1 + round * 2;
        struct pst_stage_graph graph = make(n);

        for (uint32_t s = 0; s + 1 < n; s++) {
            for (uint32_t i = 0; i < 3; i++) {
                uint32_t to;

                seed = seed * 6364136223846793005u + 1442695040888963407u;
                to = s + 1 + (uint32_t)(seed >> 40) % (i == 2 ? 20 : 4);
                if (to < n) {
                    connect(s, to);
                }
            }
        }
        l = lay_out(&graph, &arena);
        expect_apart(&l);
    }
}

TEST(figures_are_the_same_each_time)
{
    static const char *const begin[] = {"<?xml", "\x89PNG", "%PDF"};
    struct pst_stage_graph graph = make(12);

    for (uint32_t s = 0; s < 11; s++) {
        connect(s, s + 1);
    }
    for (int f = PST_FIGURE_SVG; f <= PST_FIGURE_PDF; f++) {
        unsigned char *once = NULL, *again = NULL;
        size_t n = 0, n_again = 0;
        struct pst_error err = {0};

        graph.limit_bytes = f == PST_FIGURE_PNG ? INFINITY : 4e9;
        assert_ok(pst_stage_figure_render(&graph, f, &once, &n, &err), &err);
        assert_ok(pst_stage_figure_render(&graph, f, &again, &n_again, &err), &err);
        assert_memory_equal(once, begin[f], strlen(begin[f]));
        assert_int_equal(n, n_again);
        assert_memory_equal(once, again, n);
        free(once);
        free(again);
    }
}

TEST(too_much_is_refused)
{
    struct pst_stage_graph graph = make(MOST);
    unsigned char *bytes = NULL;
    size_t n = 0;
    struct pst_error err = {0};

    assert_int_equal(pst_stage_figure_render(&graph, PST_FIGURE_SVG, &bytes, &n, &err),
                     PST_ERR_CONFIG);
    assert_string_equal(err.kind, "config.value");
    graph.n_stages = 1000; /* no edges: all in one column */
    assert_int_equal(pst_stage_figure_render(&graph, PST_FIGURE_SVG, &bytes, &n, &err),
                     PST_ERR_CONFIG);
    assert_non_null(strstr(err.message, "at most 14000"));
    graph.n_stages = 0;
    assert_int_equal(pst_stage_figure_render(&graph, PST_FIGURE_SVG, &bytes, &n, &err),
                     PST_ERR_CONFIG);
    assert_null(bytes);
}
