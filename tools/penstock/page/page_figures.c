/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of a page, and the same as files: plans as points, timelines on one axis, stages.
 */
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/util.h"
#include "figures/figure_impl.h"
#include "figures/scatter.h"
#include "figures/stack.h"
#include "page/page_impl.h"

#define WIDTH          760.0
#define SCATTER_H      380.0
#define TICKS          2000000u
#define MOST_BASELINES 8u /* beyond the fastest */

static void begin_svg(const struct pst_sheet *sheet, const char *class_name, double width,
                      double height)
{
    fprintf(sheet->out, "<svg class=\"figure %s\" viewBox=\"0 0 %.0f %.0f\"", class_name,
            ceil(width), ceil(height));
}

/* --- plans as points ---------------------------------------------------------------------------*/

static struct pst_scatter_point *points_of(struct pst_sheet *sheet, bool in_page, uint32_t *ret_n,
                                           uint64_t *ret_capacity)
{
    const struct pst_compare_result *result = sheet->page->result;
    uint32_t n = sheet->n < PST_PAGE_ROWS ? sheet->n : PST_PAGE_ROWS;
    struct pst_scatter_point *points =
        pst_arena_array(&sheet->arena, (size_t)n + 1, sizeof *points);

    *ret_capacity = UINT64_MAX;
    for (uint32_t place = 0; place < n; place++) {
        uint32_t i = sheet->order[place];
        const struct pst_trial *trial = &result->records[i].trial;
        char rate[32], bytes[32];

        points[place] = (struct pst_scatter_point){
            .series = sheet->series[i],
            .label = in_page ? pst_arena_printf(&sheet->arena, "%u", place + 1) : sheet->names[i],
            .note = in_page ? pst_arena_printf(&sheet->arena, "%u: %s\n%s samples/s, %s", place + 1,
                                               sheet->names[i], pst_sheet_rate(trial, rate),
                                               pst_format_bytes(bytes, pst_trial_most_bytes(trial)))
                            : NULL,
            .rate = pst_trial_samples_per_second(trial),
            .bytes = pst_trial_most_bytes(trial),
        };
        *ret_capacity =
            trial->capacity_bytes < *ret_capacity ? trial->capacity_bytes : *ret_capacity;
    }
    *ret_n = n;
    return points;
}

void pst_sheet_scatter(struct pst_sheet *sheet, struct pst_pen *pen)
{
    struct pst_scatter scatter = {.label_all = true};

    scatter.points = points_of(sheet, true, &scatter.n, &scatter.capacity_bytes);
    fputs("<section id=\"memory\">\n<h2>Throughput against memory</h2>\n<figure>\n<div "
          "class=\"scroll\">",
          sheet->out);
    begin_svg(sheet, "scatter", 600, SCATTER_H);
    fputs(
        " role=\"img\" aria-label=\"Plans as points: samples per second against the memory of the "
        "fullest device. The table of results has the same figures.\">\n",
        sheet->out);
    pst_pen_open_page(pen, sheet->out);
    pst_scatter_draw(&scatter, 600, SCATTER_H, pen);
    pst_pen_close_page(pen);
    fputs("</svg></div>\n<figcaption>The numbers are those of the results. The line is the Pareto "
          "front: no other plan is faster with as much memory.",
          sheet->out);
    if (scatter.capacity_bytes != UINT64_MAX) {
        char bytes[32];

        fprintf(sheet->out, " A device has %s.", pst_format_bytes(bytes, scatter.capacity_bytes));
    }
    fputs("</figcaption>\n</figure>\n</section>\n", sheet->out);
}

pst_status pst_page_write_scatter(const struct pst_page *page, const char *path,
                                  enum pst_figure_format format,
                                  const struct pst_figure_options *options, struct pst_error *err)
{
    struct pst_scatter scatter = {.label_all = false};
    struct pst_sheet sheet;
    pst_status status = PST_OK;

    pst_sheet_open(page, NULL, &sheet);
    if (sheet.n > 0) {
        scatter.points = points_of(&sheet, false, &scatter.n, &scatter.capacity_bytes);
        status = pst_scatter_write(&scatter, path, format, options, err);
    }
    pst_sheet_close(&sheet);
    return status;
}

/* --- timelines ---------------------------------------------------------------------------------*/

/* The fastest of which there is a timeline, and baselines. places: their places in the order of
 * results. */
static struct pst_stack_plan *plans_of(struct pst_sheet *sheet, uint32_t most, uint32_t *places,
                                       uint32_t *ret_n)
{
    struct pst_stack_plan *plans =
        pst_arena_array(&sheet->arena, (size_t)most + MOST_BASELINES, sizeof *plans);
    uint32_t n = 0;

    for (uint32_t place = 0; place < sheet->n && n < most + MOST_BASELINES; place++) {
        const struct pst_exhibit *exhibit = pst_sheet_exhibit(sheet, sheet->order[place]);

        if (exhibit != NULL && exhibit->timeline != NULL &&
            (n < most || sheet->is_baseline[sheet->order[place]])) {
            places[n] = place;
            plans[n++] =
                (struct pst_stack_plan){sheet->names[sheet->order[place]], exhibit->timeline};
        }
    }
    *ret_n = n;
    return plans;
}

pst_status pst_page_write_timelines(const struct pst_page *page, uint32_t most, const char *path,
                                    enum pst_figure_format format,
                                    const struct pst_figure_options *options, struct pst_error *err)
{
    struct pst_sheet sheet;
    struct pst_stack_plan *plans;
    uint32_t *places, n;
    pst_status status = PST_OK;

    pst_sheet_open(page, NULL, &sheet);
    places = pst_arena_array(&sheet.arena, (size_t)most + MOST_BASELINES, sizeof *places);
    plans = plans_of(&sheet, most, places, &n);
    if (n > 0) {
        status = pst_stack_write(plans, n, path, format, options, err);
    }
    pst_sheet_close(&sheet);
    return status;
}

/* Twice the kind, and one more where its number is written in black. */
static int code_of(const struct pst_stack *stack, uint32_t panel, const struct pst_span *span)
{
    return 2 * (int)pst_figure_kind_of(span) +
           (pst_figure_ink(pst_stack_color(stack, panel, span)).r < 0.5);
}

/* Writes the passes for the script, rank by rank: kind, stage, micro-batch, gap before and
   duration, times in ticks. */
static void put_passes(const struct pst_sheet *sheet, const struct pst_stack *stack, uint32_t panel,
                       const struct pst_timeline *timeline)
{
    const struct pst_stack_place where = pst_stack_place(stack, panel), *place = &where;
    double tick = fmax(1, ceil((double)(timeline->end_ns - place->from_ns) / TICKS));
    uint32_t n = 0;

    for (uint32_t i = 0; i < timeline->n_spans; i++) {
        n += timeline->spans[i].lane == PST_LANE_COMPUTE;
    }
    if (n > PST_STACK_PASSES) {
        return;
    }
    fprintf(sheet->out,
            "<script type=\"application/json\" class=\"passes\">{\"from\":%.0f,\"tick\":%.0f,"
            "\"kinds\":[",
            (double)place->from_ns, tick);
    for (uint32_t kind = 0; kind < FIGURE_KINDS; kind++) {
        fprintf(sheet->out, "%s\"%s\"", kind > 0 ? "," : "", pst_figure_kind_name(kind));
    }
    fputs("],\"rows\":[", sheet->out);
    for (uint32_t r = 0; r < timeline->n_ranks; r++) {
        const struct pst_timeline_rank *rank = &timeline->ranks[r];
        double at = 0; /* ticks */
        bool first = true;

        fputs(r > 0 ? ",[" : "[", sheet->out);
        for (uint32_t lane = 0; lane < 2; lane++) {
            for (uint32_t i = rank->first; i < rank->first + rank->n_spans; i++) {
                const struct pst_span *span = &timeline->spans[i];
                double start = round((double)(span->start_ns - place->from_ns) / tick);
                double end = round((double)(span->end_ns - place->from_ns) / tick);

                if (span->lane != (lane == 0 ? PST_LANE_COMPUTE : PST_LANE_OPTIMIZER) ||
                    start < at) {
                    continue;
                }
                fprintf(sheet->out, "%s%d,%d,%d,%.0f,%.0f", first ? "" : ",",
                        code_of(stack, panel, span),
                        span->stage == PST_NONE ? -1 : (int)span->stage,
                        span->microbatch == PST_NONE ? -1 : (int)span->microbatch, start - at,
                        end - start);
                at = end;
                first = false;
            }
        }
        fputc(']', sheet->out);
    }
    fputs("]}</script>\n", sheet->out);
}

static void put_stages(const struct pst_sheet *sheet, struct pst_pen *pen,
                       const struct pst_stage_graph *stages)
{
    double width, height;

    if (!pst_stage_figure_draw(stages, pen, &width, &height)) {
        return;
    }
    fputs("<details open class=\"graph\">\n<summary>Stages</summary>\n<div class=\"scroll\">",
          sheet->out);
    begin_svg(sheet, "stages", width, height);
    fprintf(
        sheet->out,
        " width=\"%.0f\" role=\"img\" aria-label=\"Stages of the plan: operators, devices, time "
        "and memory of each\">\n",
        ceil(width));
    pst_pen_open_page(pen, sheet->out);
    pst_stage_figure_draw(stages, pen, &width, &height);
    pst_pen_close_page(pen);
    fputs("</svg></div>\n</details>\n", sheet->out);
}

static void put_panel(struct pst_sheet *sheet, struct pst_pen *pen, struct pst_stack *stack,
                      uint32_t panel, const struct pst_stack_plan *plan)
{
    struct pst_stack_place place = pst_stack_place(stack, panel);

    begin_svg(sheet, "timeline", pst_stack_width(stack), pst_stack_panel_height(stack, panel));
    fprintf(sheet->out,
            " role=\"img\" aria-label=\"Timeline: a row per device, memory below\" "
            "data-left=\"%.2f\" data-right=\"%.2f\" data-top=\"%.2f\" data-pitch=\"%.4f\" "
            "data-height=\"%.2f\" data-bottom=\"%.2f\" data-from=\"%.0f\" data-to=\"%.0f\" "
            "data-per=\"%.0f\" data-unit=\"%s\">\n",
            place.left, place.right, place.rows_top, place.pitch, place.row_height, place.bottom,
            (double)place.from_ns, (double)place.to_ns, place.ns_per_unit, place.unit);
    pst_pen_open_page(pen, sheet->out);
    pst_stack_draw_panel(stack, pen, panel);
    pst_pen_close_page(pen);
    fputs("</svg>", sheet->out);
    put_passes(sheet, stack, panel, plan->timeline);
}

static void put_plan(struct pst_sheet *sheet, struct pst_pen *pen, struct pst_stack *stack,
                     uint32_t panel, uint32_t place, const struct pst_stack_plan *plan)
{
    uint32_t i = sheet->order[place];
    const struct pst_trial *trial = &sheet->page->result->records[i].trial;
    uint64_t step = trial->ran ? trial->measured_ns : trial->sim.period_ns;
    char rate[32], time[32], bytes[32];

    fprintf(sheet->out, "<details open class=\"plan%s\" id=\"t%u\">\n<summary><b>%u&#8194;",
            sheet->is_baseline[i] ? " baseline" : "", place + 1, place + 1);
    pst_sheet_text(sheet, plan->name);
    fprintf(sheet->out,
            "</b><span>%s samples/s</span><span>step %s</span><span>%s allocated</span>",
            pst_sheet_rate(trial, rate), pst_format_ns(time, step),
            pst_format_bytes(bytes, pst_trial_most_bytes(trial)));
    if (plan->timeline->drains) {
        fprintf(sheet->out, "<span>shown: %s with fill and drain</span>",
                pst_format_ns(time, plan->timeline->end_ns - plan->timeline->begin_ns));
    }
    fprintf(sheet->out, "%s</summary>\n", sheet->is_baseline[i] ? "<span>baseline</span>" : "");
    fputs("<div class=\"scroll\">", sheet->out);
    put_panel(sheet, pen, stack, panel, plan);
    fputs("</div>\n", sheet->out);
    put_stages(sheet, pen, &pst_sheet_exhibit(sheet, i)->stages);
    fputs("</details>\n", sheet->out);
}

static void put_tools(struct pst_sheet *sheet, uint32_t n)
{
    bool with_baselines = false;

    for (uint32_t i = 0; i < sheet->page->result->n; i++) {
        with_baselines |= sheet->is_baseline[i];
    }
    fprintf(sheet->out,
            "<p class=\"note\">One simulated step of %s, on one axis of time and one of memory: a "
            "row per device, how busy it is at the right; its live memory below. Of asynchronous "
            "plans fill and drain are shown, too; their step and idle time are those of the "
            "steady state.</p>\n",
            n == 1         ? "the plan"
            : n < sheet->n ? pst_arena_printf(&sheet->arena, "%u plans, the fastest%s", n,
                                              with_baselines ? " and the baselines" : "")
                           : "every plan");
    fputs("<div class=\"tools\" id=\"choose\" hidden>", sheet->out);
    if (n > 4) {
        fputs("<span>Show</span><button type=\"button\" value=\"few\">the first 4</button>"
              "<button type=\"button\" value=\"all\">all</button>"
              "<button type=\"button\" value=\"none\">none</button>",
              sheet->out);
    }
    fputs("<button type=\"button\" value=\"whole\">whole step</button><span id=\"shown\" "
          "aria-live=\"polite\"></span>"
          "<span>Drag over a timeline to enlarge a part, Ctrl and wheel for more or less; on the "
          "keyboard + \xE2\x88\x92 0 \xE2\x86\x90 \xE2\x86\x92.</span></div>\n",
          sheet->out);
}

void pst_sheet_timelines(struct pst_sheet *sheet, struct pst_pen *pen)
{
    static const struct pst_figure_options options = {.width_pt = WIDTH, .show_memory = true};
    uint32_t places[PST_PAGE_TIMELINES + MOST_BASELINES], n;
    struct pst_stack_plan *plans = plans_of(sheet, PST_PAGE_TIMELINES, places, &n);
    struct pst_stack *stack;

    if (n == 0) {
        return;
    }
    stack = pst_stack_open(plans, n, &options, pen);
    fputs("<section id=\"timelines\">\n<h2>Timelines</h2>\n", sheet->out);
    put_tools(sheet, n);
    fputs("<div class=\"scroll\">", sheet->out);
    begin_svg(sheet, "legend", WIDTH, pst_stack_head_height(stack));
    fputs(" role=\"img\" aria-label=\"Legend\">\n", sheet->out);
    pst_pen_open_page(pen, sheet->out);
    pst_stack_draw_head(stack, pen);
    pst_pen_close_page(pen);
    fputs("</svg></div>\n", sheet->out);
    for (uint32_t i = 0; i < n; i++) {
        put_plan(sheet, pen, stack, i, places[i], &plans[i]);
    }
    fputs("</section>\n", sheet->out);
    pst_stack_close(stack);
}
