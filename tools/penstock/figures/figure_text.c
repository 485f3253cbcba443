/* SPDX-License-Identifier: Apache-2.0
 *
 * Text on the figure. Hinting is off, so that a text is as wide in every format.
 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "figures/figure_impl.h"

void pst_figure_source(cairo_t *cr, struct pst_color color)
{
    cairo_set_source_rgb(cr, color.r, color.g, color.b);
}

void pst_figure_font(cairo_t *cr, double size, bool bold)
{
    cairo_font_options_t *options = cairo_font_options_create();

    cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_NONE);
    cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
    cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
    cairo_set_font_options(cr, options);
    cairo_font_options_destroy(options);
    cairo_select_font_face(cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cr, size);
}

double pst_figure_text_width(cairo_t *cr, const char *text)
{
    cairo_text_extents_t extents;

    cairo_text_extents(cr, text, &extents);
    return extents.x_advance;
}

void pst_figure_text(cairo_t *cr, double x, double y, enum pst_align align, const char *text)
{
    cairo_text_extents_t digit;

    cairo_text_extents(cr, "0", &digit);
    if (align != ALIGN_LEFT) {
        x -= pst_figure_text_width(cr, text) * (align == ALIGN_CENTER ? 0.5 : 1.0);
    }
    cairo_move_to(cr, x, y - digit.y_bearing - digit.height / 2);
    cairo_show_text(cr, text);
}

/* Cairo refuses text that is no UTF-8. */
static void clean(char *text)
{
    for (size_t i = 0; text[i] != '\0';) {
        size_t length = pst_utf8_length(text + i);

        if (length == 0 || (unsigned char)text[i] < 0x20) {
            text[i++] = '?';
        } else {
            i += length;
        }
    }
}

void pst_figure_shorten(cairo_t *cr, char *text, size_t room, double width)
{
    static const char dots[] = "\xE2\x80\xA6";
    size_t n;

    clean(text);
    n = strlen(text);
    if (pst_figure_text_width(cr, text) <= width) {
        return;
    }
    n = n + sizeof dots > room ? room - sizeof dots : n;
    while (n > 0) {
        do {
            n--;
        } while (n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80);
        while (n > 0 && (text[n - 1] == ' ' || text[n - 1] == ',')) {
            n--;
        }
        memcpy(text + n, dots, sizeof dots);
        if (pst_figure_text_width(cr, text) <= width) {
            return;
        }
    }
    text[0] = '\0';
}

void pst_figure_short_name(const struct pst_timeline *timeline, uint32_t rank, char *text,
                           size_t room)
{
    const char *name = timeline->ranks[rank].name;
    char whole[sizeof timeline->ranks[0].name];

    if (name[0] == '\0') {
        snprintf(text, room, "rank %u", rank);
        return;
    }
    memcpy(whole, name, sizeof whole);
    whole[sizeof whole - 1] = '\0';
    whole[strcspn(whole, "(")] = '\0';
    for (size_t n = strlen(whole); n > 0 && whole[n - 1] == ' '; n--) {
        whole[n - 1] = '\0';
    }
    clean(whole);
    snprintf(text, room, "%s", whole);
}

/* In the largest of the n units, each `factor` times the one before, of which there is one, give or
   take half of the last digit; in a unit of the user's own (per_unit > 0) without its name. */
static void format_scaled(double value, double per_unit, const char *const *units, uint32_t n,
                          double factor, char *text, size_t room)
{
    uint32_t i = 0;

    if (per_unit > 0) {
        value /= per_unit;
    } else {
        for (; i + 1 < n && value >= factor - 0.5; i++) {
            value /= factor;
        }
    }
    snprintf(text, room, "%.*f%s%s",
             value >= 100 || value == (double)(long)value ? 0
             : value >= 10                                ? 1
                                                          : 2,
             value, per_unit > 0 ? "" : " ", per_unit > 0 ? "" : units[i]);
}

void pst_figure_format_time(const struct pst_timeline *timeline, uint64_t ns, char *text,
                            size_t room)
{
    static const char *const units[] = {"ns", "\xC2\xB5s", "ms", "s"};

    format_scaled((double)ns, timeline->ns_per_unit, units, 4, 1000, text, room);
}

void pst_figure_format_memory(const struct pst_timeline *timeline, uint64_t bytes, char *text,
                              size_t room)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};

    format_scaled((double)bytes, timeline->bytes_per_unit, units, 5, 1024, text, room);
}
