/* SPDX-License-Identifier: Apache-2.0
 *
 * The only door to toml++ (C++): a text goes in, a sequence of events comes out. Nothing of C++
 * crosses it, neither types nor exceptions.
 */
#ifndef PST_CONFIG_TOML_H
#define PST_CONFIG_TOML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum pst_toml_kind {
    PST_TOML_TABLE = 1, /* its members follow, then PST_TOML_END; in no particular order */
    PST_TOML_ARRAY,     /* its elements follow in order, then PST_TOML_END */
    PST_TOML_END,
    PST_TOML_STRING,
    PST_TOML_INT,
    PST_TOML_FLOAT,
    PST_TOML_BOOL,
    PST_TOML_OTHER /* dates and times */
};

/* Texts live during the call and are not terminated. Lines and columns count from 1, columns in
   code points. The first event is the document's table. */
struct pst_toml_event {
    enum pst_toml_kind kind;
    const char *key; /* NULL in arrays, at the root and at PST_TOML_END */
    size_t key_length;
    uint32_t line, column, key_line, key_column;
    size_t count; /* members or elements of a table or array */
    const char *string;
    size_t string_length;
    int64_t integer;
    double number;
    bool boolean;
};

struct pst_toml_fault {
    uint32_t line, column;
    char message[256]; /* one line */
};

/* Return false to stop. */
typedef bool pst_toml_visit(void *self, const struct pst_toml_event *event);

enum pst_toml_result { PST_TOML_OK = 0, PST_TOML_SYNTAX, PST_TOML_STOPPED, PST_TOML_NO_MEMORY };

/* *ret_fault is written for PST_TOML_SYNTAX only. Nesting of dotted keys costs stack: bound the
   length of lines before. */
enum pst_toml_result pst_toml_read(const char *text, size_t length, pst_toml_visit *visit,
                                   void *self, struct pst_toml_fault *ret_fault);

#ifdef __cplusplus
}
#endif

#endif
