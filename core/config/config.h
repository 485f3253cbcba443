/* SPDX-License-Identifier: Apache-2.0
 *
 * A TOML file as a tree whose every key and value remembers file, line and column; `include` and
 * --set are already applied. Parsing is toml++'s, behind a C shim (toml.cpp).
 */
#ifndef PST_CONFIG_CONFIG_H
#define PST_CONFIG_CONFIG_H

#include <penstock/params.h>

#include "base/arena.h"
#include "base/error.h"

enum pst_config_kind {
    PST_CONFIG_TABLE = 1,
    PST_CONFIG_ARRAY,
    PST_CONFIG_STRING,
    PST_CONFIG_INT,
    PST_CONFIG_FLOAT,
    PST_CONFIG_BOOL
};

struct pst_config_node {
    uint32_t kind;
    const char *key;  /* NULL in arrays and at the root */
    const char *file; /* "--set" for overrides */
    uint32_t line, column, key_line, key_column;
    union {
        const char *string;
        int64_t integer;
        double number;
        bool boolean;
    } value;
    uint32_t n_children; /* tables: in file order; arrays: in order */
    struct pst_config_node **children;
    bool used;     /* set by lookups; what stays false is an unknown key */
    bool resolved; /* a path that is already relative to the current folder */
};

struct pst_config {
    struct pst_arena arena;
    const char *path; /* as given */
    struct pst_config_node *root;
};

/*
 * Reads path, then its includes, then the overrides "table.key=value" (value in TOML; a bare word
 * is a string). Errors: config.syntax, config.limit, config.key, config.value; PST_ERR_CONFIG.
 */
pst_status pst_config_load(const char *path, const char *const *sets, uint32_t n_sets,
                           struct pst_config **ret_config, struct pst_error *err);
/* From text instead of a file; `name` stands in messages, and paths are relative to its folder.
   There is no include. */
pst_status pst_config_parse(const char *text, size_t length, const char *name,
                            struct pst_config **ret_config, struct pst_error *err);
/* The overrides alone, on top of nothing. */
pst_status pst_config_from_sets(const char *const *sets, uint32_t n_sets,
                                struct pst_config **ret_config, struct pst_error *err);
/* The same from one text "key=value,key=value"; commas within quotes or brackets do not part. */
pst_status pst_config_from_list(const char *list, struct pst_config **ret_config,
                                struct pst_error *err);
pst_status pst_config_from_json(const char *json, struct pst_config **ret_config,
                                struct pst_error *err);
void pst_config_destroy(struct pst_config *config);

/* The effective config as one JSON object; free() it. pst_config_from_json reads it back. */
char *pst_config_to_json(const struct pst_config *config);
/* The same of one value, without its key. */
char *pst_config_value_json(const struct pst_config_node *node);

struct pst_wire;
/* All of it and where it stands, to or from another process. What is read lives in the wire's arena
   and is to be destroyed. */
void pst_config_pass(struct pst_wire *w, struct pst_config **config);

/* The child with that key, marked used; NULL when absent. */
struct pst_config_node *pst_config_get(struct pst_config_node *table, const char *key);

/* Gives an error without a position that of the value at section.key, where one is written.
   Returns st; PST_OK: there is no error. */
pst_status pst_config_place(const struct pst_config *config, const char *section, const char *key,
                            pst_status st, struct pst_error *err);

/* Adds which line of the config names the file that an error without a line is about; nothing where
   there is none. config may be NULL. */
void pst_config_name(const struct pst_config *config, struct pst_error *err);

/* Makes the string at that key, a path or several separated by ':', relative to the current folder
   instead of to the file that names it; a list of such strings becomes one, a line each. Nothing
   happens where it is absent or anything else. */
void pst_config_resolve(struct pst_config *config, struct pst_config_node *table, const char *key);

/*
 * Fills *ret_struct from `table` (NULL: only defaults) by the rows: type, range, default, required.
 * Strings live as long as `arena`. With strict, a key of the table that is neither in the rows nor
 * in `others` (NULL-terminated, or NULL) is config.key with the nearest valid one named. `section`
 * names the table in messages: "[train]".
 */
pst_status pst_params_fill(const struct pst_param *rows, uint32_t n_rows, size_t row_size,
                           struct pst_config_node *table, const char *section,
                           const char *const *others, struct pst_arena *arena, void *ret_struct,
                           struct pst_error *err);

/* Are the rows themselves sound (types, defaults in range, offsets inside the struct, docs)? */
pst_status pst_params_verify(const struct pst_param *rows, uint32_t n_rows, size_t row_size,
                             size_t struct_size, struct pst_error *err);

/* The closest of `candidates` within a third of the length, or NULL. */
const char *pst_nearest(const char *word, const char *const *candidates, uint32_t n_candidates);
/* The same as the end of a message: "; did you mean "WORD"?", or "". Returns text. */
const char *pst_nearest_hint(char text[96], const char *word, const char *const *candidates,
                             uint32_t n_candidates);

#endif
