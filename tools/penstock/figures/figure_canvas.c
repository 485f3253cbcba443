/* SPDX-License-Identifier: Apache-2.0
 *
 * The common part of all figures: a surface of the wanted format, its bytes, the file.
 */
#include <cairo-pdf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/util.h"
#include "figures/figure_impl.h"
#include "figures/font.h"

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
        sink->capacity = (sink->length + length) * 2;
        sink->bytes = pst_resize(sink->bytes, sink->capacity, 1);
    }
    memcpy(sink->bytes + sink->length, data, length);
    sink->length += length;
    return CAIRO_STATUS_SUCCESS;
}

static cairo_surface_t *create_surface(enum pst_figure_format format, double width, double height,
                                       struct sink *sink)
{
    cairo_surface_t *surface;

    if (format == PST_FIGURE_PNG) {
        return cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)(width * PNG_SCALE),
                                          (int)(height * PNG_SCALE));
    }
    surface = cairo_pdf_surface_create_for_stream(take, sink, width, height);
    cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_CREATE_DATE, ""); /* none */
    return surface;
}

static pst_status fail_cairo(cairo_status_t status, struct pst_error *err)
{
    if (status == CAIRO_STATUS_NO_MEMORY) {
        pst_out_of_memory();
    }
    pst_heed_no_memory(); /* libpng gives no reason */
    return pst_fail(err, PST_ERR_CONFIG, "config.value", "the figure cannot be drawn: %s",
                    cairo_status_to_string(status));
}

static pst_status paint(const struct pst_canvas *canvas, enum pst_figure_format format,
                        struct sink *sink, struct pst_error *err)
{
    cairo_surface_t *surface = create_surface(format, canvas->width, canvas->height, sink);
    struct pst_pen pen = {.cr = cairo_create(surface), .texts = canvas->texts};
    cairo_t *cr = pen.cr;
    cairo_status_t status;

    if (format == PST_FIGURE_PNG) {
        cairo_scale(cr, PNG_SCALE, PNG_SCALE);
    }
    cairo_set_source_rgb(cr, 1, 1, 1);
    cairo_paint(cr);
    canvas->draw(canvas->context, &pen);
    cairo_show_page(cr);
    status = cairo_status(cr);
    cairo_destroy(cr);
    if (status == CAIRO_STATUS_SUCCESS && format == PST_FIGURE_PNG) {
        status = cairo_surface_write_to_png_stream(surface, take, sink);
    }
    cairo_surface_finish(surface);
    status = status == CAIRO_STATUS_SUCCESS ? cairo_surface_status(surface) : status;
    cairo_surface_destroy(surface);
    return status == CAIRO_STATUS_SUCCESS ? PST_OK : fail_cairo(status, err);
}

/* A surface measures text; what is drawn becomes elements. DejaVu Sans and Verdana are as wide. */
static pst_status render_svg(const struct pst_canvas *canvas, unsigned char **ret_bytes,
                             size_t *ret_length)
{
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_A8, 1, 1);
    struct pst_pen pen = {.cr = cairo_create(surface), .texts = canvas->texts, .alone = true};
    char *text = NULL;
    FILE *out = open_memstream(&text, ret_length);

    if (out == NULL) {
        pst_out_of_memory();
    }
    fprintf(out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" "
            "width=\"%gpt\" height=\"%gpt\" viewBox=\"0 0 %g %g\" font-family=\"DejaVu Sans, "
            "Verdana, sans-serif\" stroke-linejoin=\"bevel\">\n<rect width=\"100%%\" "
            "height=\"100%%\" fill=\"#ffffff\"/>\n",
            canvas->width, canvas->height, canvas->width, canvas->height);
    pst_pen_open_page(&pen, out);
    canvas->draw(canvas->context, &pen);
    pst_pen_close_page(&pen);
    fputs("</svg>\n", out);
    if (fclose(out) != 0) {
        pst_out_of_memory();
    }
    cairo_destroy(pen.cr);
    cairo_surface_destroy(surface);
    *ret_bytes = (unsigned char *)text;
    return PST_OK;
}

pst_status pst_canvas_render(const struct pst_canvas *canvas, enum pst_figure_format format,
                             unsigned char **ret_bytes, size_t *ret_length, struct pst_error *err)
{
    struct sink sink = {0};
    pst_status status;

    pst_doing("drawing", "a figure");
    status = pst_font_load(err);
    if (status != PST_OK) {
        return status;
    }
    errno = 0;
    status = format == PST_FIGURE_SVG ? render_svg(canvas, ret_bytes, ret_length)
                                      : paint(canvas, format, &sink, err);
    pst_heed_no_memory(); /* texts may have lost their widths */
    if (format == PST_FIGURE_SVG) {
        return status;
    }
    if (status == PST_OK) {
        *ret_bytes = sink.bytes;
        *ret_length = sink.length;
    } else {
        free(sink.bytes);
    }
    return status;
}

pst_status pst_canvas_write(const struct pst_canvas *canvas, enum pst_figure_format format,
                            const char *path, struct pst_error *err)
{
    unsigned char *bytes = NULL;
    size_t length = 0;
    pst_status status = pst_canvas_render(canvas, format, &bytes, &length, err);

    if (status == PST_OK) {
        status = pst_file_write(path, bytes, length, err);
        free(bytes);
    }
    return status;
}

pst_status pst_canvas_measure(pst_status (*lay_out)(void *context, struct pst_pen *pen,
                                                    struct pst_error *err),
                              void *context, struct pst_error *err)
{
    cairo_surface_t *surface;
    struct pst_pen pen = {.cr = NULL};
    pst_status status = pst_font_load(err);

    if (status != PST_OK) {
        return status;
    }
    errno = 0;
    surface = cairo_image_surface_create(CAIRO_FORMAT_A8, 1, 1);
    pen.cr = cairo_create(surface);
    status = lay_out(context, &pen, err);
    pst_heed_no_memory();
    cairo_destroy(pen.cr);
    cairo_surface_destroy(surface);
    return status;
}
