/* SPDX-License-Identifier: Apache-2.0 */
#include "figures/figure.h"

#include <stdlib.h>

#include "base/util.h"
#include "figures/figure_impl.h"

static pst_status check_options(const struct pst_figure_options *options, struct pst_error *err)
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

static void draw(void *context, cairo_t *cr)
{
    struct pst_figure_page *page = context;

    page->cr = cr;
    pst_figure_draw_head(page, true);
    pst_figure_draw_rows(page);
    pst_figure_draw_boxes(page);
    if (page->dense) {
        pst_figure_draw_dense(page);
    }
    pst_figure_draw_memory(page);
    pst_figure_draw_time_axis(page, page->memory_bottom);
    page->cr = NULL;
}

static pst_status lay_out(void *context, cairo_t *cr, struct pst_error *err)
{
    struct pst_figure_page *page = context;
    pst_status st;

    page->cr = cr;
    st = pst_figure_layout(page, err);
    page->cr = NULL;
    return st;
}

pst_status pst_figure_render(const struct pst_timeline *timeline, enum pst_figure_format format,
                             const struct pst_figure_options *options, unsigned char **ret_bytes,
                             size_t *ret_length, struct pst_error *err)
{
    struct pst_figure_page page = {.timeline = timeline};
    struct pst_canvas canvas = {.draw = draw, .context = &page};
    pst_status st;

    page.options = options != NULL
                       ? *options
                       : (struct pst_figure_options){.show_memory = true, .show_title = true};
    st = check_options(&page.options, err);
    if (st == PST_OK) {
        st = pst_canvas_measure(lay_out, &page, err);
    }
    if (st == PST_OK) {
        canvas.width = page.options.width_pt;
        canvas.height = page.options.height_pt;
        st = pst_canvas_render(&canvas, format, ret_bytes, ret_length, err);
    }
    pst_arena_finish(&page.arena);
    return st;
}

pst_status pst_figure_write(const struct pst_timeline *timeline, const char *path,
                            enum pst_figure_format format, const struct pst_figure_options *options,
                            struct pst_error *err)
{
    unsigned char *bytes = NULL;
    size_t length = 0;
    pst_status st = pst_figure_render(timeline, format, options, &bytes, &length, err);

    if (st == PST_OK) {
        st = pst_file_write(path, bytes, length, err);
        free(bytes);
    }
    return st;
}
