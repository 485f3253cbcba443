/* SPDX-License-Identifier: Apache-2.0 */
#include "figures/figure.h"

#include "base/util.h"
#include "figures/figure_impl.h"

pst_status pst_figure_check_size(const struct pst_figure_options *options, struct pst_error *err)
{
    if ((options->width_pt != 0 && !(options->width_pt >= 200 && options->width_pt <= 14000)) ||
        (options->height_pt != 0 && !(options->height_pt >= 100 && options->height_pt <= 14000))) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "a figure of %g by %g points: the width must be 200 to 14000, the height "
                        "100 to 14000",
                        options->width_pt, options->height_pt);
    }
    return PST_OK;
}

static void draw(void *context, struct pst_pen *pen)
{
    struct pst_figure_page *page = context;

    page->pen = pen;
    pst_figure_draw_head(page, true);
    pst_figure_draw_rows(page);
    pst_figure_draw_boxes(page);
    if (page->memory_bottom > page->memory_top) {
        pst_figure_memory_heading(page, page->rows_bottom + 0.6 * FIGURE_FONT, true);
    }
    pst_figure_draw_memory(page);
    pst_figure_draw_time_axis(page, page->memory_bottom);
    page->pen = NULL;
}

static pst_status lay_out(void *context, struct pst_pen *pen, struct pst_error *err)
{
    struct pst_figure_page *page = context;
    pst_status status;

    page->pen = pen;
    status = pst_figure_layout(page, err);
    page->pen = NULL;
    return status;
}

pst_status pst_figure_open(const struct pst_timeline *timeline,
                           const struct pst_figure_options *options, struct pst_figure_page *page,
                           struct pst_canvas *ret_canvas, struct pst_error *err)
{
    pst_status status;

    *page = (struct pst_figure_page){.timeline = timeline};
    page->options = options != NULL
                        ? *options
                        : (struct pst_figure_options){.show_memory = true, .show_title = true};
    status = pst_figure_check_size(&page->options, err);
    PST_TRY(status, pst_canvas_measure(lay_out, page, err));
    *ret_canvas =
        (struct pst_canvas){page->options.width_pt, page->options.height_pt, draw, page, NULL};
    return status;
}

void pst_figure_close(struct pst_figure_page *page)
{
    pst_arena_finish(&page->arena);
}

pst_status pst_figure_render(const struct pst_timeline *timeline, enum pst_figure_format format,
                             const struct pst_figure_options *options, unsigned char **ret_bytes,
                             size_t *ret_length, struct pst_error *err)
{
    struct pst_figure_page page;
    struct pst_canvas canvas;
    pst_status status = pst_figure_open(timeline, options, &page, &canvas, err);

    PST_TRY(status, pst_canvas_render(&canvas, format, ret_bytes, ret_length, err));
    pst_figure_close(&page);
    return status;
}

pst_status pst_figure_write(const struct pst_timeline *timeline, const char *path,
                            enum pst_figure_format format, const struct pst_figure_options *options,
                            struct pst_error *err)
{
    struct pst_figure_page page;
    struct pst_canvas canvas;
    pst_status status = pst_figure_open(timeline, options, &page, &canvas, err);

    PST_TRY(status, pst_canvas_write(&canvas, format, path, err));
    pst_figure_close(&page);
    return status;
}
