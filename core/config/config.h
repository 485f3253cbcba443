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
/* Like pst_config_load, from text; `name` is used in messages, and paths are relative to its
   folder. Includes are not read. */
pst_status pst_config_parse(const char *text, size_t length, const char *name,
                            struct pst_config **ret_config, struct pst_error *err);
/* Makes a config of overrides alone. */
pst_status pst_config_from_sets(const char *const *sets, uint32_t n_sets,
                                struct pst_config **ret_config, struct pst_error *err);
/* Like pst_config_from_sets, from a text "key=value,..."; values may quote or bracket commas. */
pst_status pst_config_from_list(const char *list, struct pst_config **ret_config,
                                struct pst_error *err);
pst_status pst_config_from_json(const char *json, struct pst_config **ret_config,
                                struct pst_error *err);
void pst_config_destroy(struct pst_config *config);

/* The effective config as one JSON object; free() it. pst_config_from_json reads it back. */
char *pst_config_to_json(const struct pst_config *config);
/* One value as JSON, without its key; free() it. */
char *pst_config_value_json(const struct pst_config_node *node);

struct pst_wire;
/* Passes the config, with its file positions, to or from another process. A received config lives
   in the wire's arena and must be destroyed. */
void pst_config_pass(struct pst_wire *w, struct pst_config **config);

/* The child with that key, marked used; NULL when absent. */
struct pst_config_node *pst_config_get(struct pst_config_node *table, const char *key);

/* Adds the position of the value at section.key, if the config has it, to an error without one.
   Returns status; PST_OK: there is no error. */
pst_status pst_config_place(const struct pst_config *config, const char *section, const char *key,
                            pst_status status, struct pst_error *err);

/* Like pst_config_place, for an item of the list at section.key. */
pst_status pst_config_place_item(const struct pst_config *config, const char *section,
                                 const char *key, uint32_t item, pst_status status,
                                 struct pst_error *err);

/* If the config names the file of an error that has no line, adds the line that names it. config
   may be NULL. */
void pst_config_name(const struct pst_config *config, struct pst_error *err);

/* Makes the path at that key relative to the current folder instead of to the file that names it.
   Does nothing if it is absent, empty or not a string. */
void pst_config_resolve(struct pst_config *config, struct pst_config_node *table, const char *key);
void pst_config_resolve_node(struct pst_config *config, struct pst_config_node *node);
/* Like pst_config_resolve, for paths separated by ':'; a list becomes a string, a line an entry. */
void pst_config_resolve_all(struct pst_config *config, struct pst_config_node *table,
                            const char *key);

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

/* Is it one of the words "a|b|c" of a row's range? Then its index. */
bool pst_params_word(const char *words, const char *text, uint32_t *ret_index);

/* Checks the rows themselves: types, defaults in range, offsets inside the struct, docs. */
pst_status pst_params_verify(const struct pst_param *rows, uint32_t n_rows, size_t row_size,
                             size_t struct_size, struct pst_error *err);

/* The closest of `candidates` within a third of the length, or NULL. */
const char *pst_nearest(const char *word, const char *const *candidates, uint32_t n_candidates);
/* Writes the nearest word as a message's end, "; did you mean "WORD"?", or "". Returns text. */
const char *pst_nearest_hint(char text[96], const char *word, const char *const *candidates,
                             uint32_t n_candidates);

#endif
