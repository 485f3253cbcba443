/* SPDX-License-Identifier: Apache-2.0
 *
 * The pen that draws figures: paths, colours and text, onto a surface of cairo or as elements of
 * SVG, where text stays text. In a page, colours with a tone follow its theme; in a separate file
 * they keep their values, and text is as wide as it was measured, whatever font the reader has. All
 * lengths are points, y grows downwards.
 */
#ifndef PST_FIGURES_PEN_H
#define PST_FIGURES_PEN_H

#include <cairo.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The purpose of a colour. */
enum pst_tone { PST_AS_IS, PST_INK, PST_SOFT, PST_FAINT, PST_RULE, PST_BAND, PST_PAPER, PST_ALARM };

struct pst_color {
    double r, g, b;
    enum pst_tone tone;
};
extern const struct pst_color pst_ink, pst_soft, pst_faint, pst_rule, pst_band, pst_paper,
    pst_alarm;

enum pst_align { ALIGN_LEFT, ALIGN_CENTER, ALIGN_RIGHT };

/* Where a text stands. */
struct pst_text_box {
    double x, y, width, height, size;
    char text[48]; /* its beginning */
};
struct pst_texts {
    struct pst_text_box *boxes;
    size_t n, capacity;
};

struct pst_pen {
    cairo_t *cr;             /* measures text, and draws unless there is `page` */
    FILE *page;              /* elements of SVG go there; NULL: none */
    bool alone;              /* they are a file by itself, not part of a page */
    struct pst_texts *texts; /* notes of every text; NULL: not wanted */
    double size;
    bool bold;
    char look[160]; /* attributes of the last text, of the group that is open in a file */
    /* the path under construction, of a page */
    char *path;
    size_t length, capacity;
    double x, y, start_x, start_y; /* where it ends, and where its last part began */
};

void pst_pen_move(struct pst_pen *pen, double x, double y);
void pst_pen_line(struct pst_pen *pen, double x, double y);
void pst_pen_curve(struct pst_pen *pen, double x1, double y1, double x2, double y2, double x,
                   double y);
void pst_pen_close(struct pst_pen *pen);
void pst_pen_rect(struct pst_pen *pen, double x, double y, double width, double height);
void pst_pen_round_rect(struct pst_pen *pen, double x, double y, double width, double height,
                        double radius);
void pst_pen_circle(struct pst_pen *pen, double x, double y, double radius);
/* Both end the path. dash: two lengths, or NULL. */
void pst_pen_fill(struct pst_pen *pen, struct pst_color color);
void pst_pen_stroke(struct pst_pen *pen, struct pst_color color, double width, const double *dash);

void pst_pen_font(struct pst_pen *pen, double size, bool bold);
double pst_pen_width(struct pst_pen *pen, const char *text);
/* y is the middle of the digits. */
void pst_pen_text(struct pst_pen *pen, double x, double y, enum pst_align align,
                  struct pst_color color, const char *text);

/* Elements of a page that belong together, of that class. */
void pst_pen_group(struct pst_pen *pen, const char *class_name);
/* Sets the tooltip of the open group. */
void pst_pen_note(struct pst_pen *pen, const char *text);
/* A part of a page that can be enlarged along x by itself: no text there. */
void pst_pen_view(struct pst_pen *pen, double x, double y, double width, double height);
void pst_pen_end(struct pst_pen *pen, bool view);

/* Begins and ends the writing of elements; the pen must have a cr. */
void pst_pen_open_page(struct pst_pen *pen, FILE *page);
void pst_pen_close_page(struct pst_pen *pen);
/* Text with the characters of mark-up escaped; what is none becomes U+FFFD. */
void pst_put_escaped(FILE *out, const char *text);

#endif
