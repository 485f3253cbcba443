/* SPDX-License-Identifier: Apache-2.0 */
#include "report/figure.h"

#include <cairo-pdf.h>
#include <cairo-svg.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "report/figure_impl.h"

#define PNG_SCALE 2.0

/* Bytes that cairo hands over. */
struct sink {
    unsigned char *bytes;
    size_t length, capacity;
};

static cairo_status_t take(void *closure, const unsigned char *data, unsigned int length)
{
    struct sink *sink = closure;

    if (length > sink->capacity - sink->length) {
        size_t capacity = (sink->length + length) * 2;
        unsigned char *grown = realloc(sink->bytes, capacity);

        if (grown == NULL) {
            return CAIRO_STATUS_WRITE_ERROR;
        }
        sink->bytes = grown;
        sink->capacity = capacity;
    }
    memcpy(sink->bytes + sink->length, data, length);
    sink->length += length;
    return CAIRO_STATUS_SUCCESS;
}

struct pst_figure_options pst_figure_defaults(void)
{
    return (struct pst_figure_options){.show_memory = true, .show_title = true};
}

static pst_status settle_options(struct pst_figure_options *options, struct pst_error *err)
{
    options->font_pt = options->font_pt == 0 ? 8 : options->font_pt;
    if ((options->width_pt != 0 && !(options->width_pt >= 200 && options->width_pt <= 14000)) ||
        (options->height_pt != 0 && !(options->height_pt >= 100 && options->height_pt <= 14000))) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "a figure of %g by %g points: the width must be 200 to 14000, the height "
                        "100 to 14000",
                        options->width_pt, options->height_pt);
    }
    if (!(options->font_pt >= 4 && options->font_pt <= 24)) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value", "text of %g points: must be 4 to 24",
                        options->font_pt);
    }
    return PST_OK;
}

static cairo_surface_t *create_surface(enum pst_figure_format format, double width, double height,
                                       struct sink *sink)
{
    cairo_surface_t *surface;

    if (format == PST_FIGURE_PNG) {
        return cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)(width * PNG_SCALE),
                                          (int)(height * PNG_SCALE));
    }
    if (format == PST_FIGURE_SVG) {
        return cairo_svg_surface_create_for_stream(take, sink, width, height);
    }
    surface = cairo_pdf_surface_create_for_stream(take, sink, width, height);
    cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_CREATE_DATE, ""); /* none */
    return surface;
}

static pst_status draw(struct pst_figure_page *page, struct pst_error *err)
{
    pst_status st;

    pst_figure_draw_head(page, true);
    pst_figure_draw_rows(page);
    st = pst_figure_draw_boxes(page, err);
    if (st == PST_OK && page->dense) {
        st = pst_figure_draw_dense(page, err);
    }
    if (st == PST_OK) {
        st = pst_figure_draw_memory(page, err);
    }
    pst_figure_draw_time_axis(page, page->memory_bottom);
    return st;
}

/* The layout needs the widths of texts: a page that nobody sees. */
static pst_status lay_out(struct pst_figure_page *page, struct pst_error *err)
{
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_A8, 1, 1);
    pst_status st;

    page->cr = cairo_create(surface);
    st = pst_figure_layout(page, err);
    cairo_destroy(page->cr);
    cairo_surface_destroy(surface);
    page->cr = NULL;
    return st;
}

static pst_status fail_cairo(cairo_status_t status, struct pst_error *err)
{
    if (status == CAIRO_STATUS_NO_MEMORY || status == CAIRO_STATUS_WRITE_ERROR) {
        return pst_fail_nomem(err);
    }
    return pst_fail(err, PST_ERR_CONFIG, "config.value", "the figure cannot be drawn: %s",
                    cairo_status_to_string(status));
}

static pst_status paint(struct pst_figure_page *page, enum pst_figure_format format,
                        struct sink *sink, struct pst_error *err)
{
    double width = page->options.width_pt, height = page->options.height_pt;
    cairo_surface_t *surface = create_surface(format, width, height, sink);
    cairo_status_t status;
    pst_status st;

    page->cr = cairo_create(surface);
    if (format == PST_FIGURE_PNG) {
        cairo_scale(page->cr, PNG_SCALE, PNG_SCALE);
    }
    cairo_set_source_rgb(page->cr, 1, 1, 1);
    cairo_paint(page->cr);
    st = draw(page, err);
    cairo_show_page(page->cr);
    status = cairo_status(page->cr);
    cairo_destroy(page->cr);
    page->cr = NULL;
    if (status == CAIRO_STATUS_SUCCESS && format == PST_FIGURE_PNG) {
        status = cairo_surface_write_to_png_stream(surface, take, sink);
    }
    cairo_surface_finish(surface);
    status = status == CAIRO_STATUS_SUCCESS ? cairo_surface_status(surface) : status;
    cairo_surface_destroy(surface);
    return st == PST_OK && status != CAIRO_STATUS_SUCCESS ? fail_cairo(status, err) : st;
}

/* Cairo numbers the surfaces of a process, and writes the number: id="surface12". */
static void forget_surface_number(struct sink *sink)
{
    static const char mark[] = "id=\"surface";
    size_t n = sizeof mark - 1, to = 0;

    for (size_t from = 0; from < sink->length;) {
        if (sink->length - from > n && memcmp(sink->bytes + from, mark, n) == 0) {
            memmove(sink->bytes + to, sink->bytes + from, n);
            from += n;
            to += n;
            while (from < sink->length && sink->bytes[from] >= '0' && sink->bytes[from] <= '9') {
                from++;
            }
        } else {
            sink->bytes[to++] = sink->bytes[from++];
        }
    }
    sink->length = to;
}

pst_status pst_figure_render(const struct pst_timeline *timeline, enum pst_figure_format format,
                             const struct pst_figure_options *options, unsigned char **ret_bytes,
                             size_t *ret_length, struct pst_error *err)
{
    struct pst_figure_page page = {.timeline = timeline};
    struct sink sink = {0};
    pst_status st;

    page.options = options == NULL ? pst_figure_defaults() : *options;
    st = settle_options(&page.options, err);
    if (st == PST_OK) {
        st = lay_out(&page, err);
    }
    if (st == PST_OK) {
        st = paint(&page, format, &sink, err);
    }
    if (st == PST_OK && format == PST_FIGURE_SVG) {
        forget_surface_number(&sink);
    }
    if (st == PST_OK) {
        *ret_bytes = sink.bytes;
        *ret_length = sink.length;
    } else {
        free(sink.bytes);
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
