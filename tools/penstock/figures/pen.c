/* SPDX-License-Identifier: Apache-2.0 */
#include "figures/pen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "figures/font.h"

const struct pst_color pst_ink = {0.10, 0.10, 0.10, PST_INK};
const struct pst_color pst_soft = {0.35, 0.35, 0.35, PST_SOFT};
const struct pst_color pst_faint = {0.45, 0.45, 0.45, PST_FAINT};
const struct pst_color pst_rule = {0.88, 0.88, 0.88, PST_RULE};
const struct pst_color pst_band = {0.955, 0.955, 0.955, PST_BAND};
const struct pst_color pst_paper = {1, 1, 1, PST_PAPER};
const struct pst_color pst_alarm = {0.72, 0.11, 0.11, PST_ALARM};

#define COLOR_TEXT 32
#define SHORT_TEXT 3 /* bytes of a text that is about as wide in any font */

static const char *tone_name(enum pst_tone tone)
{
    static const char *const names[] = {"",     "ink",  "soft",  "faint",
                                        "rule", "band", "paper", "alarm"};

    return names[tone];
}

/* --- numbers and text of a page ----------------------------------------------------------------*/

/* Hundredths of a point, as short as can be. */
static const char *number(char text[40], double value)
{
    size_t n = (size_t)snprintf(text, 40, "%.2f", value);

    while (text[n - 1] == '0') {
        text[--n] = '\0';
    }
    if (text[n - 1] == '.') {
        text[--n] = '\0';
    }
    if (n == 0 || strcmp(text, "-") == 0 || strcmp(text, "-0") == 0) {
        strcpy(text, "0");
    }
    return strncmp(text, "0.", 2) == 0 ? text + 1 : text;
}

static void put_number(FILE *out, double value)
{
    char text[40];

    fputs(number(text, value), out);
}

static double rounded(double value)
{
    return round(100 * value) / 100;
}

/* XML 1.0, section 2.2: U+FFFE and U+FFFF are no characters of a document. */
static bool is_no_character(const char *text)
{
    return strncmp(text, "\xEF\xBF\xBE", 3) == 0 || strncmp(text, "\xEF\xBF\xBF", 3) == 0;
}

void pst_put_escaped(FILE *out, const char *text)
{
    while (*text != '\0') {
        static const char marks[] = "<>&\"";
        const char *at = strchr(marks, *text);
        size_t n = pst_utf8_length(text);

        if (at != NULL) {
            static const char *const names[] = {"&lt;", "&gt;", "&amp;", "&quot;"};

            fputs(names[at - marks], out);
        } else if (n == 0 || is_no_character(text) ||
                   (*text != '\n' && pst_text_hidden(text) != 0)) {
            fputs("\xEF\xBF\xBD", out);
        } else {
            fwrite(text, 1, n, out);
        }
        text += n == 0 ? pst_utf8_subpart(text) : n;
    }
}

/* fill="#123456", or within a page the class of a tone. */
static const char *color_text(const struct pst_pen *pen, char text[COLOR_TEXT], const char *what,
                              struct pst_color color)
{
    if (color.tone != PST_AS_IS && !pen->alone) {
        snprintf(text, COLOR_TEXT, " class=\"%s-%s\"", what, tone_name(color.tone));
    } else {
        snprintf(text, COLOR_TEXT, " %s=\"#%02x%02x%02x\"", what, (unsigned)lround(255 * color.r),
                 (unsigned)lround(255 * color.g), (unsigned)lround(255 * color.b));
    }
    return text;
}

/* Ends a group of texts that look alike. */
static void end_texts(struct pst_pen *pen)
{
    if (pen->alone && pen->look[0] != '\0') {
        fputs("</g>\n", pen->page);
        pen->look[0] = '\0';
    }
}

/* --- paths -------------------------------------------------------------------------------------*/

static void add(struct pst_pen *pen, const char *text)
{
    size_t n = strlen(text);

    if (pen->length + n + 1 > pen->capacity) {
        pen->capacity = 2 * (pen->length + n + 1);
        pen->path = pst_resize(pen->path, pen->capacity, 1);
    }
    memcpy(pen->path + pen->length, text, n + 1);
    pen->length += n;
}

static void add_number(struct pst_pen *pen, double value)
{
    char text[40];

    add(pen, number(text, value));
}

/* One step of a path in relative coordinates, which are short; the pen stands where the rounded
   numbers lead, so that errors do not add up. */
static void step_to(struct pst_pen *pen, const char *letter, double x, double y)
{
    double dx = rounded(x - pen->x), dy = rounded(y - pen->y);

    if (*letter == 'l' && dy == 0) {
        add(pen, "h");
        add_number(pen, dx);
    } else if (*letter == 'l' && dx == 0) {
        add(pen, "v");
        add_number(pen, dy);
    } else {
        add(pen, letter);
        add_number(pen, dx);
        add(pen, dy < 0 ? "" : " ");
        add_number(pen, dy);
    }
    pen->x = rounded(pen->x + dx);
    pen->y = rounded(pen->y + dy);
    if (*letter == 'm') {
        pen->start_x = pen->x;
        pen->start_y = pen->y;
    }
}

void pst_pen_move(struct pst_pen *pen, double x, double y)
{
    if (pen->page == NULL) {
        cairo_move_to(pen->cr, x, y);
    } else {
        step_to(pen, "m", x, y);
    }
}

void pst_pen_line(struct pst_pen *pen, double x, double y)
{
    if (pen->page == NULL) {
        cairo_line_to(pen->cr, x, y);
    } else {
        step_to(pen, "l", x, y);
    }
}

void pst_pen_curve(struct pst_pen *pen, double x1, double y1, double x2, double y2, double x,
                   double y)
{
    const double points[] = {x1, y1, x2, y2, x, y};

    if (pen->page == NULL) {
        cairo_curve_to(pen->cr, x1, y1, x2, y2, x, y);
        return;
    }
    add(pen, "C");
    for (int i = 0; i < 6; i++) {
        add(pen, i > 0 ? " " : "");
        add_number(pen, points[i]);
    }
    pen->x = rounded(x);
    pen->y = rounded(y);
}

void pst_pen_close(struct pst_pen *pen)
{
    if (pen->page == NULL) {
        cairo_close_path(pen->cr);
    } else {
        add(pen, "z");
        pen->x = pen->start_x;
        pen->y = pen->start_y;
    }
}

void pst_pen_rect(struct pst_pen *pen, double x, double y, double width, double height)
{
    if (pen->page == NULL) {
        cairo_rectangle(pen->cr, x, y, width, height);
        return;
    }
    step_to(pen, "m", x, y);
    add(pen, "h");
    add_number(pen, width);
    add(pen, "v");
    add_number(pen, height);
    add(pen, "h");
    add_number(pen, -width);
    add(pen, "z"); /* back at the corner */
}

void pst_pen_round_rect(struct pst_pen *pen, double x, double y, double w, double h, double r)
{
    double k = r * (1 - 0.5522847498); /* of a quarter of a circle */

    pst_pen_move(pen, x + w - r, y);
    pst_pen_curve(pen, x + w - k, y, x + w, y + k, x + w, y + r);
    pst_pen_line(pen, x + w, y + h - r);
    pst_pen_curve(pen, x + w, y + h - k, x + w - k, y + h, x + w - r, y + h);
    pst_pen_line(pen, x + r, y + h);
    pst_pen_curve(pen, x + k, y + h, x, y + h - k, x, y + h - r);
    pst_pen_line(pen, x, y + r);
    pst_pen_curve(pen, x, y + k, x + k, y, x + r, y);
    pst_pen_close(pen);
}

void pst_pen_circle(struct pst_pen *pen, double x, double y, double radius)
{
    pst_pen_round_rect(pen, x - radius, y - radius, 2 * radius, 2 * radius, radius);
}

/* The path so far, once; "" where there is none. */
static const char *take_path(struct pst_pen *pen)
{
    const char *path = pen->length > 0 ? pen->path : "";

    pen->length = 0;
    pen->x = pen->y = 0;
    return path;
}

void pst_pen_fill(struct pst_pen *pen, struct pst_color color)
{
    const char *path;

    if (pen->page == NULL) {
        cairo_set_source_rgb(pen->cr, color.r, color.g, color.b);
        cairo_fill(pen->cr);
        return;
    }
    path = take_path(pen);
    if (path[0] != '\0') {
        char text[COLOR_TEXT];

        end_texts(pen);
        fprintf(pen->page, "<path%s d=\"%s\"/>\n", color_text(pen, text, "fill", color), path);
    }
}

void pst_pen_stroke(struct pst_pen *pen, struct pst_color color, double width, const double *dash)
{
    const char *path;

    if (pen->page == NULL) {
        cairo_set_source_rgb(pen->cr, color.r, color.g, color.b);
        cairo_set_line_width(pen->cr, width);
        cairo_set_line_join(pen->cr, CAIRO_LINE_JOIN_BEVEL);
        cairo_set_dash(pen->cr, dash, dash == NULL ? 0 : 2, 0);
        cairo_stroke(pen->cr);
        return;
    }
    path = take_path(pen);
    if (path[0] != '\0') {
        char text[COLOR_TEXT];

        end_texts(pen);
        fprintf(pen->page, "<path fill=\"none\"%s stroke-width=\"",
                color_text(pen, text, "stroke", color));
        put_number(pen->page, width);
        if (dash != NULL) {
            fprintf(pen->page, "\" stroke-dasharray=\"%g %g", dash[0], dash[1]);
        }
        fprintf(pen->page, "\" d=\"%s\"/>\n", path);
    }
}

/* --- text: hinting is off, so that it is as wide in every format -------------------------------*/

void pst_pen_font(struct pst_pen *pen, double size, bool bold)
{
    cairo_font_options_t *options = cairo_font_options_create();

    cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_NONE);
    cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
    cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
    cairo_set_font_options(pen->cr, options);
    cairo_font_options_destroy(options);
    cairo_set_font_face(pen->cr, pst_font_face(bold));
    cairo_set_font_size(pen->cr, size);
    pen->size = size;
    pen->bold = bold;
}

double pst_pen_width(struct pst_pen *pen, const char *text)
{
    cairo_text_extents_t extents;

    cairo_text_extents(pen->cr, text, &extents);
    return extents.x_advance;
}

static void note_text(struct pst_pen *pen, double x, double y, double width, const char *text)
{
    struct pst_texts *texts = pen->texts;
    struct pst_text_box *box;

    if (texts->n == texts->capacity) {
        texts->capacity = 2 * texts->capacity + 64;
        texts->boxes = pst_resize(texts->boxes, texts->capacity, sizeof *texts->boxes);
    }
    box = &texts->boxes[texts->n++];
    *box = (struct pst_text_box){x, y - 0.45 * pen->size, width, 0.9 * pen->size, pen->size, ""};
    snprintf(box->text, sizeof box->text, "%s", text);
}

/* How the next text looks. Those of a file that look alike and follow each other share a group. */
static void begin_text(struct pst_pen *pen, const char *anchor, struct pst_color color)
{
    char look[sizeof pen->look], size[40], text[COLOR_TEXT];

    snprintf(look, sizeof look, " font-size=\"%s\"%s%s%s", number(size, pen->size), anchor,
             pen->bold ? " font-weight=\"bold\"" : "", color_text(pen, text, "fill", color));
    if (pen->alone && strcmp(look, pen->look) != 0) {
        end_texts(pen);
        fprintf(pen->page, "<g%s>\n", look);
    }
    memcpy(pen->look, look, sizeof look);
}

void pst_pen_text(struct pst_pen *pen, double x, double y, enum pst_align align,
                  struct pst_color color, const char *text)
{
    static const char *const anchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
    double width = pst_pen_width(pen, text);
    double left = x - width * (align == ALIGN_CENTER ? 0.5 : align == ALIGN_RIGHT ? 1 : 0);
    cairo_text_extents_t digit;

    if (text[0] == '\0') {
        return;
    }
    if (pen->texts != NULL) {
        note_text(pen, left, y, width, text);
    }
    cairo_text_extents(pen->cr, "0", &digit);
    y -= digit.y_bearing + digit.height / 2;
    if (pen->page == NULL) {
        cairo_set_source_rgb(pen->cr, color.r, color.g, color.b);
        cairo_move_to(pen->cr, left, y);
        cairo_show_text(pen->cr, text);
        cairo_new_path(pen->cr);
        return;
    }
    begin_text(pen, anchors[align], color);
    fputs("<text x=\"", pen->page);
    put_number(pen->page, x);
    fputs("\" y=\"", pen->page);
    put_number(pen->page, y);
    fputs("\"", pen->page);
    if (!pen->alone) {
        fputs(pen->look, pen->page);
    } else if (strlen(text) > SHORT_TEXT) {
        fputs(" textLength=\"", pen->page);
        put_number(pen->page, width);
        fputs("\" lengthAdjust=\"spacingAndGlyphs\"", pen->page);
    }
    fputc('>', pen->page);
    pst_put_escaped(pen->page, text);
    fputs("</text>\n", pen->page);
}

/* --- elements of a page ------------------------------------------------------------------------*/

static bool within_page(const struct pst_pen *pen)
{
    return pen->page != NULL && !pen->alone;
}

void pst_pen_group(struct pst_pen *pen, const char *class_name)
{
    if (within_page(pen)) {
        fprintf(pen->page, "<g class=\"%s\">\n", class_name);
    }
}

void pst_pen_note(struct pst_pen *pen, const char *text)
{
    if (within_page(pen)) {
        fputs("<title>", pen->page);
        pst_put_escaped(pen->page, text);
        fputs("</title>\n", pen->page);
    }
}

void pst_pen_view(struct pst_pen *pen, double x, double y, double width, double height)
{
    const double box[] = {x, y, width, height};

    if (!within_page(pen)) {
        return;
    }
    fputs("<svg class=\"view\" preserveAspectRatio=\"none\"", pen->page);
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = {"x", "y", "width", "height"};

        fprintf(pen->page, " %s=\"", names[i]);
        put_number(pen->page, box[i]);
        fputc('"', pen->page);
    }
    fputs(" viewBox=\"", pen->page);
    for (int i = 0; i < 4; i++) {
        fputs(i > 0 ? " " : "", pen->page);
        put_number(pen->page, box[i]);
    }
    fputs("\">\n", pen->page);
}

void pst_pen_end(struct pst_pen *pen, bool view)
{
    if (within_page(pen)) {
        fputs(view ? "</svg>\n" : "</g>\n", pen->page);
    }
}

void pst_pen_open_page(struct pst_pen *pen, FILE *page)
{
    pen->page = page;
    pen->x = pen->y = 0;
}

void pst_pen_close_page(struct pst_pen *pen)
{
    end_texts(pen);
    free(pen->path);
    pen->page = NULL;
    pen->path = NULL;
    pen->length = pen->capacity = 0;
}
