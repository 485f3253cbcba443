/* SPDX-License-Identifier: Apache-2.0
 *
 * Text that comes from elsewhere, such as file names, configs, what a model writes.
 */
#ifndef PST_BASE_TEXT_H
#define PST_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Bytes of the well-formed UTF-8 character (RFC 3629) at `text`, which ends in NUL; 0 where there
   is none. */
size_t pst_utf8_length(const char *text);
/* Bytes that one U+FFFD stands for where there is none: as many as begin a character, at least one
   (Unicode 3.9, substitution of maximal subparts). */
size_t pst_utf8_subpart(const char *text);

/* The code of the character at `text` if it is one that must not reach a terminal: a control
   character, a direction mark, or a separator that is no newline; else 0. */
uint32_t pst_text_hidden(const char *text);
/* One line of well-formed UTF-8 without such characters? */
bool pst_text_is_plain(const char *text);
/* Makes it one, in place: their bytes become spaces, a byte that is no UTF-8 a '?'. */
void pst_text_make_plain(char *text);

/* Writes behind the text that is there; what has no room in `size` is cut off. */
void pst_text_append(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with "[3, 4]", the numbers of a shape, in place of what is there; returns text. */
char *pst_shape_text(char *text, size_t size, uint32_t rank, const uint64_t *dims);

bool pst_text_ends(const char *text, const char *end);

/* Writes text that cannot drive a terminal: control characters but newline and tab, and what is
   no UTF-8, become U+FFFD, direction marks their number as in \u{202e}. */
void pst_text_print(FILE *out, const char *text);
/* The same on one line: newline and tab become \n and \t. */
void pst_text_print_line(FILE *out, const char *text);
/* As fprintf; the whole goes through pst_text_print. */
void pst_text_printf(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
