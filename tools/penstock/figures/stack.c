/* SPDX-License-Identifier: Apache-2.0 */
#include "figures/stack.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "figures/figure_impl.h"

#define AXIS_H (4 + 2.6 * FIGURE_FONT)
#define GAP    (1.2 * FIGURE_FONT)

struct pst_stack {
    const struct pst_stack_plan *plans;
    uint32_t n;
    struct pst_figure_options options;
    struct pst_figure_page *pages; /* each as if it began at y = 0 */
    struct pst_figure_page head;   /* what occurs in any of them */
    double head_h;
};

/* --- layout ------------------------------------------------------------------------------------*/

/* The scale of times, of memory and the columns that suit all. */
static void agree_on_scales(struct pst_stack *stack)
{
    struct pst_figure_page all = stack->pages[0];

    for (uint32_t i = 0; i < stack->n; i++) {
        const struct pst_figure_page *page = &stack->pages[i];

        all.from_ns = page->from_ns < all.from_ns ? page->from_ns : all.from_ns;
        all.to_ns = page->to_ns > all.to_ns ? page->to_ns : all.to_ns;
        all.left = fmax(all.left, page->left);
        all.n_rank_colors = page->timeline->n_ranks > all.n_rank_colors ? page->timeline->n_ranks
                                                                        : all.n_rank_colors;
        for (uint32_t r = 0; r < page->timeline->n_ranks; r++) {
            uint64_t peak = page->timeline->ranks[r].peak_bytes;

            all.memory_peak = peak > all.memory_peak ? peak : all.memory_peak;
        }
    }
    for (uint32_t i = 0; i < stack->n; i++) {
        struct pst_figure_page *page = &stack->pages[i];

        page->from_ns = all.from_ns;
        page->to_ns = all.to_ns;
        page->left = all.left;
        page->head_left = page->margin;
        page->memory_peak = all.memory_peak > 0 ? all.memory_peak : 1;
        page->n_rank_colors = all.n_rank_colors;
    }
}

static void size_panel(struct pst_figure_page *page, bool named)
{
    double n = page->timeline->n_ranks == 0 ? 1 : page->timeline->n_ranks;
    double most = (page->narrow ? 1.3 : 1.7) * FIGURE_FONT;
    bool memory = page->options.show_memory && pst_figure_memory_known(page->timeline);

    page->row_h = fmin(most, fmax(160 / n, n > 256 ? 1.5 : 3));
    page->lane_h = fmax(1.5, 0.2 * page->row_h);
    page->pitch = page->row_h + page->lane_h * page->n_lanes + fmax(0.5, 0.2 * page->row_h);
    page->header_h = named ? pst_figure_draw_summary(page, 0, false) + 0.3 * FIGURE_FONT : 0;
    page->rows_top = page->header_h + 3;
    page->rows_bottom = page->memory_top = page->rows_top + n * page->pitch;
    page->memory_bottom = page->memory_top;
    if (memory) {
        page->memory_top += 0.7 * FIGURE_FONT;
        page->memory_bottom = page->memory_top + (page->narrow ? 40 : 64);
    }
}

/* A page has many timelines: as many columns as keep them small. */
static double column_width(uint32_t n_ranks)
{
    return fmin(fmax(1.5, 1.5 * n_ranks / 16), 8);
}

static void collect_head(struct pst_stack *stack)
{
    struct pst_figure_page *head = &stack->head;

    *head = stack->pages[0];
    for (uint32_t i = 0; i < stack->n; i++) {
        const struct pst_figure_page *page = &stack->pages[i];

        head->n_chunks = page->n_chunks > head->n_chunks ? page->n_chunks : head->n_chunks;
        head->timeline =
            page->timeline->n_ranks > head->timeline->n_ranks ? page->timeline : head->timeline;
        for (uint32_t k = 0; k < FIGURE_KINDS; k++) {
            head->occurs[k] |= page->occurs[k];
        }
    }
}

static double draw_head(const struct pst_stack *stack, double y, bool draw)
{
    y = pst_figure_draw_legend(&stack->head, y, draw);
    if (stack->options.show_memory && pst_figure_memory_known(stack->head.timeline)) {
        if (draw) {
            pst_pen_group(stack->head.pen, "curves");
        }
        y = pst_figure_memory_heading(&stack->head, y + 0.2 * FIGURE_FONT, draw);
        if (draw) {
            pst_pen_end(stack->head.pen, false);
        }
    }
    return y + 0.4 * FIGURE_FONT;
}

static void lay_out(struct pst_stack *stack, struct pst_pen *pen)
{
    stack->pages = pst_alloc(stack->n, sizeof *stack->pages);
    for (uint32_t i = 0; i < stack->n; i++) {
        struct pst_figure_page *page = &stack->pages[i];

        *page = (struct pst_figure_page){.pen = pen,
                                         .timeline = stack->plans[i].timeline,
                                         .options = stack->options,
                                         .name = stack->plans[i].name};
        pst_figure_prepare(page);
        pst_figure_choose_columns(page);
    }
    agree_on_scales(stack);
    for (uint32_t i = 0; i < stack->n; i++) {
        pst_figure_choose_content(&stack->pages[i]);
        stack->pages[i].memory_column = stack->pages[i].dense_column =
            column_width(stack->pages[i].timeline->n_ranks);
        stack->pages[i].dense |= stack->pages[i].n_passes > PST_STACK_PASSES;
        size_panel(&stack->pages[i], stack->options.show_title);
    }
    collect_head(stack);
    stack->head_h = draw_head(stack, 0, false);
}

struct pst_stack *pst_stack_open(const struct pst_stack_plan *plans, uint32_t n,
                                 const struct pst_figure_options *options, struct pst_pen *pen)
{
    struct pst_stack *stack = pst_alloc(1, sizeof *stack);

    *stack = (struct pst_stack){.plans = plans, .n = n, .options = *options};
    if (stack->options.width_pt == 0) {
        stack->options.width_pt = 90 * FIGURE_FONT;
    }
    lay_out(stack, pen);
    return stack;
}

void pst_stack_close(struct pst_stack *stack)
{
    for (uint32_t i = 0; stack != NULL && i < stack->n; i++) {
        pst_arena_finish(&stack->pages[i].arena);
    }
    if (stack != NULL) {
        free(stack->pages);
    }
    free(stack);
}

double pst_stack_width(const struct pst_stack *stack)
{
    return stack->options.width_pt;
}

double pst_stack_head_height(const struct pst_stack *stack)
{
    return stack->head_h;
}

double pst_stack_panel_height(const struct pst_stack *stack, uint32_t plan)
{
    return stack->pages[plan].memory_bottom + AXIS_H;
}

struct pst_stack_place pst_stack_place(const struct pst_stack *stack, uint32_t plan)
{
    const struct pst_figure_page *page = &stack->pages[plan];

    return (struct pst_stack_place){
        .left = page->left,
        .right = page->right,
        .rows_top = page->rows_top,
        .row_height = page->row_h,
        .pitch = page->pitch,
        .bottom = page->memory_bottom,
        .from_ns = page->from_ns,
        .to_ns = page->to_ns,
        .ns_per_unit = page->ns_per_unit,
        .unit = page->unit,
        .dense = page->dense,
    };
}

struct pst_color pst_stack_color(const struct pst_stack *stack, uint32_t plan,
                                 const struct pst_span *span)
{
    const struct pst_figure_page *page = &stack->pages[plan];
    uint32_t index = pst_figure_color_index(page, span);

    return pst_figure_color(index / page->n_chunks, index % page->n_chunks, page->n_chunks);
}

/* --- drawing -----------------------------------------------------------------------------------*/

void pst_stack_draw_head(struct pst_stack *stack, struct pst_pen *pen)
{
    stack->head.pen = pen;
    draw_head(stack, 0, true);
}

static void draw_panel(struct pst_figure_page *page, struct pst_pen *pen, bool axis)
{
    page->pen = pen;
    if (page->header_h > 0) {
        pst_figure_draw_summary(page, page->rows_top - 3 - page->header_h, true);
    }
    pst_figure_draw_rows(page);
    pst_figure_draw_boxes(page);
    pst_figure_draw_memory(page);
    if (axis) {
        pst_figure_draw_time_axis(page, page->memory_bottom);
    }
}

void pst_stack_draw_panel(struct pst_stack *stack, struct pst_pen *pen, uint32_t plan)
{
    draw_panel(&stack->pages[plan], pen, true);
}

static void shift_page(struct pst_figure_page *page, double by)
{
    page->rows_top += by;
    page->rows_bottom += by;
    page->memory_top += by;
    page->memory_bottom += by;
}

static void draw_stack(void *context, struct pst_pen *pen)
{
    struct pst_stack *stack = context;
    double y = stack->head.margin;

    stack->head.pen = pen;
    y = draw_head(stack, y, true);
    for (uint32_t i = 0; i < stack->n; i++) {
        struct pst_figure_page *page = &stack->pages[i];

        shift_page(page, y);
        draw_panel(page, pen, i + 1 == stack->n);
        y = page->memory_bottom + GAP;
    }
}

struct opening {
    const struct pst_stack_plan *plans;
    uint32_t n;
    const struct pst_figure_options *options;
    struct pst_stack *stack;
};

static pst_status open_stack(void *context, struct pst_pen *pen, struct pst_error *err)
{
    struct opening *opening = context;

    (void)err;
    opening->stack = pst_stack_open(opening->plans, opening->n, opening->options, pen);
    return PST_OK;
}

pst_status pst_stack_canvas(const struct pst_stack_plan *plans, uint32_t n,
                            const struct pst_figure_options *options, struct pst_stack **ret_stack,
                            struct pst_canvas *ret_canvas, struct pst_error *err)
{
    struct opening opening = {plans, n, options, NULL};
    pst_status status = pst_figure_check_size(options, err);
    double height = AXIS_H;

    *ret_stack = NULL;
    if (status != PST_OK) {
        return status;
    }
    status = pst_canvas_measure(open_stack, &opening, err);
    *ret_stack = opening.stack;
    if (status != PST_OK) {
        return status;
    }
    height += opening.stack->head.margin * 1.5 + opening.stack->head_h;
    for (uint32_t i = 0; i < n; i++) {
        height += opening.stack->pages[i].memory_bottom + (i + 1 < n ? GAP : 0);
    }
    *ret_canvas = (struct pst_canvas){opening.stack->options.width_pt, ceil(height), draw_stack,
                                      opening.stack, NULL};
    if (height > 14000) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "%u plans are too many for one figure: it would be %.0f points high", n,
                        height);
    }
    return status;
}

pst_status pst_stack_write(const struct pst_stack_plan *plans, uint32_t n, const char *path,
                           enum pst_figure_format format, const struct pst_figure_options *options,
                           struct pst_error *err)
{
    struct pst_stack *stack;
    struct pst_canvas canvas;
    pst_status status = pst_stack_canvas(plans, n, options, &stack, &canvas, err);

    PST_TRY(status, pst_canvas_write(&canvas, format, path, err));
    pst_stack_close(stack);
    return status;
}
