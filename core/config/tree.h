/* SPDX-License-Identifier: Apache-2.0
 *
 * Construction of a config's tree. Internal to this folder; everything lives in the arena of the
 * config.
 */
#ifndef PST_CONFIG_TREE_H
#define PST_CONFIG_TREE_H

#include "config/config.h"

#define PST_CONFIG_MAX_BYTES   (1024u * 1024u)
#define PST_CONFIG_MAX_LINE    4096u
#define PST_CONFIG_MAX_NESTING 32u
#define PST_CONFIG_MAX_PARTS   32u /* of a dotted key */
#define PST_CONFIG_MAX_STRING  (64u * 1024u)
#define PST_CONFIG_MAX_VALUES  10000u /* keys and array elements, over all files */
#define PST_CONFIG_MAX_INCLUDE 8u     /* deep */
#define PST_CONFIG_MAX_FILES   64u

#define PST_CONFIG_TOO_DEEP "nested more than 32 deep (each part of a dotted key counts)"

/* One config being read. */
struct pst_config_reader {
    struct pst_config *config;
    struct pst_arena *arena; /* &config->arena */
    uint32_t n_values, n_files;
    const char *open_files[PST_CONFIG_MAX_INCLUDE + 1]; /* real paths, outermost first */
    uint32_t n_open;
};

/* A node of that kind with a copy of key (may be NULL). */
struct pst_config_node *pst_tree_node(struct pst_arena *arena, uint32_t kind, const char *key);

/* Appends child to a table or array. */
void pst_tree_append(struct pst_arena *arena, struct pst_config_node *parent,
                     struct pst_config_node *child);

/* The member with that key, not marked used; or NULL. */
struct pst_config_node *pst_tree_find(const struct pst_config_node *table, const char *key);

/* Members of `over` win over those of `table`: tables merge, everything else is replaced. `over`
   must not be used afterwards. */
void pst_tree_merge(struct pst_arena *arena, struct pst_config_node *table,
                    struct pst_config_node *over);

/* Column, from 1 and in code points, of a place in the line that begins there. */
static inline uint32_t pst_tree_column(const char *line, const char *at)
{
    uint32_t column = 1;

    for (; line < at; line++) {
        column += ((unsigned char)*line & 0xC0) != 0x80;
    }
    return column;
}

/* Checks the limits that must hold before the text is parsed: size, lines, dotted keys, brackets.
 */
pst_status pst_tree_scan(const char *text, size_t length, const char *name, struct pst_error *err);

/* From here on "new" of C++, of libraries too, gets memory as pst_alloc does. For programs. */
void pst_new_share_memory(void);

/* TOML text to a tree. `depth`: nesting it already has. `name` must outlive the config. */
pst_status pst_tree_from_toml(struct pst_config_reader *reader, const char *text, size_t length,
                              const char *name, uint32_t depth, struct pst_config_node **ret_root,
                              struct pst_error *err);

/* Applies the override with index i (from 0): "a.b=value". */
pst_status pst_tree_set(struct pst_config_reader *reader, const char *text, uint32_t i,
                        struct pst_error *err);

#endif
