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
/* Returns true if text is one line of well-formed UTF-8 without such characters. */
bool pst_text_is_plain(const char *text);
/* Makes text plain, in place: bytes of such characters become spaces, invalid bytes '?'. */
void pst_text_make_plain(char *text);

/* Appends to a text; cuts off what does not fit in `size`. */
void pst_text_append(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Writes the dimensions of a shape, such as "[3, 4]", into text; returns text. */
char *pst_shape_text(char *text, size_t size, uint32_t rank, const uint64_t *dims);

/* Copies what a shell reads as one word that is `word`: in single quotes, unless it needs none.
   Text that does not fit is cut. Returns text. */
#define PST_SHELL_TEXT 320
char *pst_text_for_shell(char text[PST_SHELL_TEXT], const char *word);

bool pst_text_ends(const char *text, const char *end);
/* Is it one of these, which NULL ends? words may be NULL. */
bool pst_text_is_one_of(const char *const *words, const char *word);

/* The next item of a list such as "a, b*", without the spaces around it; its end is not marked.
   NULL: there are no more. */
const char *pst_list_next(const char **list, size_t *ret_length);
/* Does one of the patterns, such as "*.bias", match the name? */
bool pst_list_matches(const char *patterns, const char *name);

/* Prints text so that it cannot control a terminal: control characters other than newline and tab,
   and invalid UTF-8, become U+FFFD; direction marks become their number, as in \u{202e}. */
void pst_text_print(FILE *out, const char *text);
/* Like pst_text_print, on one line: newline and tab become \n and \t. */
void pst_text_print_line(FILE *out, const char *text);
/* Like fprintf, in lines that the format's newlines end; each goes through pst_text_print_line. */
void pst_text_printf(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
