/* SPDX-License-Identifier: Apache-2.0
 *
 * What is written on figures can be read: at the width of a column of a paper and of a page no text
 * leaves the figure, none lies over another, none is smaller than 6 points.
 */
#include "test.h"

#include <stdlib.h>

#include "figures/figure_impl.h"
#include "figures/scatter.h"
#include "figures/stack.h"
#include "support.h"
#include "unit/reports/timeline_rig.h"

static const uint64_t thirds[3] = {1000000, 1000000, 1000000};
static const double widths[] = {200, 241, 320, 500, 1000};
#define N_WIDTHS (sizeof widths / sizeof widths[0])

static void expect_apart(const struct pst_texts *texts, double width, double height)
{
    for (size_t i = 0; i < texts->n; i++) {
        const struct pst_text_box *a = &texts->boxes[i];
        bool inside = a->x >= 0 && a->y >= 0 && a->x + a->width <= width + 0.01 &&
                      a->y + a->height <= height + 0.01;

        if (!inside || a->size < 5.999) {
            print_message("\"%s\" of %.1f points at %.1f, %.1f, %.1f wide, on %.0f by %.0f\n",
                          a->text, a->size, a->x, a->y, a->width, width, height);
        }
        assert_true(inside && a->size >= 5.999);
        for (size_t k = 0; k < i; k++) {
            const struct pst_text_box *b = &texts->boxes[k];
            bool over = a->x + 0.1 < b->x + b->width && b->x + 0.1 < a->x + a->width &&
                        a->y + 0.1 < b->y + b->height && b->y + 0.1 < a->y + a->height;

            if (over) {
                print_message("\"%s\" at %.1f, %.1f lies over \"%s\" at %.1f, %.1f; width %.0f\n",
                              a->text, a->x, a->y, b->text, b->x, b->y, width);
            }
            assert_false(over);
        }
    }
}

static void draw_and_look(struct pst_canvas *canvas, size_t least)
{
    struct pst_texts texts = {NULL, 0, 0};
    struct pst_error err = {0};
    unsigned char *bytes = NULL;
    size_t length;

    canvas->texts = &texts;
    assert_ok(pst_canvas_render(canvas, PST_FIGURE_SVG, &bytes, &length, &err), &err);
    assert_true(texts.n >= least);
    expect_apart(&texts, canvas->width, canvas->height);
    free(texts.boxes);
    free(bytes);
}

/* Rows, title, legend with everything in it, and curves. */
static void look_at(struct pst_timeline *timeline)
{
    for (size_t i = 0; i < N_WIDTHS; i++) {
        const struct pst_figure_options options = {
            .width_pt = widths[i], .show_memory = true, .show_title = true};
        FINISHED_BY(pst_figure_close) struct pst_figure_page page;
        struct pst_canvas canvas;
        struct pst_error err = {0};

        assert_ok(pst_figure_open(timeline, &options, &page, &canvas, &err), &err);
        draw_and_look(&canvas, timeline->n_ranks > 64 ? 20 : timeline->n_ranks);
    }
    pst_timeline_destroy(timeline);
}

TEST(one_timeline)
{
    look_at(rig_timeline(RIG_1F1B, 2, 4, thirds, 200000));
    look_at(rig_timeline(RIG_1F1B, 4, 8, thirds, 200000));
    look_at(rig_timeline(RIG_V, 4, 12, thirds, 0));
    look_at(rig_timeline(RIG_LOOPED, 8, 16, thirds, 100000));
    look_at(rig_timeline(RIG_SPLIT, 16, 64, thirds, 0));
    look_at(rig_timeline(RIG_1F1B, 64, 512, thirds, 0));
}

/* As plans name them; a title and a summary that no line has room for. */
TEST(long_names)
{
    struct pst_timeline *timeline = rig_timeline(RIG_V, 4, 6, thirds, 0);

    for (uint32_t r = 0; r < 4; r++) {
        snprintf(timeline->ranks[r].name, sizeof timeline->ranks[r].name,
                 "rank %u (stage %u, %u, replica %u of a long name)", r, r, 7 - r, r);
        timeline->ranks[r].capacity_bytes = timeline->ranks[r].peak_bytes * 2;
    }
    timeline->title = "a-scheduler-of-some-vendor/with-a-long-name, 4 devices, 6 micro-batches of "
                      "different sizes, and so on and so on without an end that a column has";
    timeline->summary = "what a figure says below its title may be long, too, and then goes on in "
                        "further lines, of which there are three at most, whatever else there is "
                        "to say about it, which is then left out, the least important first";
    look_at(timeline);
}

/* Every size of page has its own wording of the names of ranks, in full where there is room. */
TEST(names_shorten_to_what_fits)
{
    static const struct {
        double width;
        const char *name;
    } cases[] = {{1000, "rank 2 (stage 2)"}, {241, "rank 2"}};

    for (size_t i = 0; i < 2; i++) {
        const struct pst_figure_options options = {.width_pt = cases[i].width};
        struct pst_timeline *timeline = rig_timeline(RIG_1F1B, 4, 8, thirds, 0);
        struct pst_texts texts = {NULL, 0, 0};
        struct pst_figure_page page;
        struct pst_canvas canvas;
        struct pst_error err = {0};
        unsigned char *bytes = NULL;
        size_t length, n = 0;

        for (uint32_t r = 0; r < 4; r++) {
            snprintf(timeline->ranks[r].name, sizeof timeline->ranks[r].name, "rank %u (stage %u)",
                     r, r);
        }
        assert_ok(pst_figure_open(timeline, &options, &page, &canvas, &err), &err);
        canvas.texts = &texts;
        assert_ok(pst_canvas_render(&canvas, PST_FIGURE_PDF, &bytes, &length, &err), &err);
        for (size_t k = 0; k < texts.n; k++) {
            n += strcmp(texts.boxes[k].text, cases[i].name) == 0;
        }
        assert_int_equal(n, 1);
        pst_figure_close(&page);
        pst_timeline_destroy(timeline);
        free(texts.boxes);
        free(bytes);
    }
}

TEST(timelines_of_several_plans)
{
    struct pst_timeline *timelines[] = {
        rig_timeline(RIG_1F1B, 4, 8, thirds, 200000), rig_timeline(RIG_V, 4, 8, thirds, 0),
        rig_timeline(RIG_SPLIT, 8, 8, thirds, 0), rig_timeline(RIG_LOOPED, 2, 8, thirds, 0)};
    const struct pst_stack_plan plans[] = {
        {"1f1b, chain-dp, none, 4 devices, micro-batches of 2 samples, a long name", timelines[0]},
        {"v-half", timelines[1]},
        {"zb-h1", timelines[2]},
        {"interleaved", timelines[3]}};

    for (size_t i = 0; i < N_WIDTHS; i++) {
        const struct pst_figure_options options = {
            .width_pt = widths[i], .show_memory = true, .show_title = true};
        struct pst_stack *stack;
        struct pst_canvas canvas;
        struct pst_error err = {0};

        assert_ok(pst_stack_canvas(plans, 4, &options, &stack, &canvas, &err), &err);
        draw_and_look(&canvas, 18);
        for (uint32_t p = 1; p < 4; p++) { /* one axis */
            struct pst_stack_place a = pst_stack_place(stack, 0), b = pst_stack_place(stack, p);

            assert_true(a.left == b.left && a.right == b.right);
            assert_true(a.from_ns == b.from_ns && a.to_ns == b.to_ns);
        }
        pst_stack_close(stack);
    }
    for (size_t i = 0; i < 4; i++) {
        pst_timeline_destroy(timelines[i]);
    }
}

TEST(more_plans_than_a_page_holds)
{
    OWN(timeline) *timeline = rig_timeline(RIG_1F1B, 8, 8, thirds, 0);
    const struct pst_figure_options options = {.width_pt = 241, .show_title = true};
    struct pst_stack_plan plans[200];
    struct pst_error err = {0};

    for (size_t i = 0; i < 200; i++) {
        plans[i] = (struct pst_stack_plan){"plan", timeline};
    }
    assert_int_equal(
        pst_stack_write(plans, 200, support_path("x.svg"), PST_FIGURE_SVG, &options, &err),
        PST_ERR_CONFIG);
    assert_string_equal(err.kind, "config.value");
    expect_text(err.message, "200 plans are too many");
}

/* Crowded: a dozen series, equal points, all on the front. */
TEST(scatter)
{
    static const char *const names[] = {"1f1b",  "gpipe",  "interleaved", "zb-h1",  "zb-auto",
                                        "v-min", "v-half", "v-zb",        "hanayo", "2bw"};
    struct pst_scatter_point points[60];
    struct pst_scatter scatter = {points, 60, 3ull << 30, true};

    for (uint32_t i = 0; i < 60; i++) {
        points[i] = (struct pst_scatter_point){names[i % 10], names[i % 10], NULL,
                                               100 + 7 * (i % 13) + i / 20,
                                               ((uint64_t)1 << 30) + (uint64_t)(i / 2) * 30000000};
    }
    for (size_t i = 0; i < N_WIDTHS; i++) {
        struct pst_scatter_view view = {&scatter, widths[i], 0.7 * widths[i] + 40};
        struct pst_canvas canvas = {view.width, view.height, pst_scatter_draw_view, &view, NULL};

        draw_and_look(&canvas, 10);
    }
    scatter.n = 1; /* no extent */
    draw_and_look(&(struct pst_canvas){241, 200, pst_scatter_draw_view,
                                       &(struct pst_scatter_view){&scatter, 241, 200}, NULL},
                  4);
}

/* Against every pair by hand: (rate, bytes) = (3, 30), (2, 20), (2, 25), (1, 20), (3, 30). */
TEST(front)
{
    static const bool expected[] = {true, true, false, false, true};
    const struct pst_scatter_point points[] = {{"", "", NULL, 3, 30},
                                               {"", "", NULL, 2, 20},
                                               {"", "", NULL, 2, 25},
                                               {"", "", NULL, 1, 20},
                                               {"", "", NULL, 3, 30}};
    const struct pst_scatter scatter = {points, 5, UINT64_MAX, false};

    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(pst_scatter_on_front(&scatter, i), expected[i]);
    }
}

TEST_GROUP(support_begin, support_end)
