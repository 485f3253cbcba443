/* SPDX-License-Identifier: Apache-2.0
 *
 * Where plugins and modules are looked for, and whether a file found there may be trusted.
 */
#ifndef PST_HOST_SEARCH_H
#define PST_HOST_SEARCH_H

#include "base/arena.h"
#include "base/error.h"

/* The folder of the binary's own plugins and modules: the build's or the installation's; absolute.
 */
const char *pst_search_home(struct pst_arena *arena);
/* The folder of that name of what is installed as data: in <prefix>/share/penstock, or beside a
   folder `plugins`, as in a build. */
const char *pst_search_data(struct pst_arena *arena, const char *name);

/* All folders in search order: the n_first ones that `first` names, parted by ':' or newlines
   (NULL: none), then absolute ones; PENSTOCK_PLUGIN_PATH is not read with raised rights. */
void pst_search_folders(struct pst_arena *arena, const char *first, const char ***ret_folders,
                        uint32_t *ret_n_first, uint32_t *ret_n_folders);

/* Where a plugin is named: is it a file, not an id? It ends in ".so", or begins with "/", "./" or
   "../": an id with a vendor has a slash as well. */
bool pst_search_is_file(const char *name);

/* Lower case, digits and hyphens, and once at most a slash between two words: "zb-h1",
   "lab/zb-h1". */
bool pst_search_is_id(const char *id);

/* "scheduler", "lab/zb-h1" -> "scheduler-lab.zb-h1.so". */
char *pst_search_join(struct pst_arena *arena, const char *kind, const char *id);
/* And back. False if it is no name of a plugin. */
bool pst_search_split(struct pst_arena *arena, const char *file_name, const char **ret_kind,
                      const char **ret_id);

/*
 * A regular file (no link) that nobody but root and the effective user can exchange: neither it nor
 * a folder above it belongs to somebody else, or is writable by all or by a group that is not that
 * user's own, where a sticky folder such as /tmp counts as writable only if it holds the file
 * itself. `own_home`: the program's own plugin folder is trusted as the program is. `use` is for
 * messages: "plugins are loaded". ret_path: absolute, folders resolved. plugin.not-found,
 * plugin.insecure: exit code 2.
 */
pst_status pst_search_trusted(struct pst_arena *arena, const char *path, const char *use,
                              bool own_home, const char **ret_path, struct pst_error *err);
/* pst_search_trusted for a plugin, with the program's own folder trusted. */
pst_status pst_search_secure(struct pst_arena *arena, const char *path, const char **ret_path,
                             struct pst_error *err);

#endif
