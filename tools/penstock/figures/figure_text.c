/* SPDX-License-Identifier: Apache-2.0
 *
 * Words on the figure: shortened, names of ranks, times and sizes.
 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "figures/figure_impl.h"

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

void pst_figure_shorten(struct pst_pen *pen, char *text, size_t room, double width)
{
    static const char dots[] = "\xE2\x80\xA6";
    size_t n;

    clean(text);
    n = strlen(text);
    if (pst_pen_width(pen, text) <= width) {
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
        if (pst_pen_width(pen, text) <= width) {
            return;
        }
    }
    text[0] = '\0';
}

void pst_figure_name(const struct pst_timeline *timeline, uint32_t rank, uint32_t form, char *text,
                     size_t room)
{
    const char *name = timeline->ranks[rank].name;
    char whole[sizeof timeline->ranks[0].name];

    if (name[0] == '\0' && form < 2) {
        snprintf(text, room, "rank %u", rank);
        return;
    }
    memcpy(whole, name, sizeof whole);
    whole[sizeof whole - 1] = '\0';
    if (form > 0) {
        whole[strcspn(whole, "(")] = '\0';
    }
    for (size_t n = strlen(whole); n > 0 && whole[n - 1] == ' '; n--) {
        whole[n - 1] = '\0';
    }
    clean(whole);
    if (form == 2) {
        snprintf(text, room, "%u", rank);
    } else {
        snprintf(text, room, "%s", whole);
    }
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
