/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache of measurements, for all later runs: $XDG_CACHE_HOME/penstock, or
 * ~/.cache/penstock (XDG Base Directory Specification).
 */
#ifndef PST_BASE_CACHE_H
#define PST_BASE_CACHE_H

#include "base/error.h"

/* The path of a file there; free() it. NULL: neither variable names an absolute path. */
char *pst_cache_path(const char *name);

/* Makes the folders above the path; NULL is none. `who`, what keeps something there, begins the
   message: PST_ERR_IO, output.write. */
pst_status pst_cache_make(const char *path, const char *who, struct pst_error *err);

/* For machines where the cache cannot be written: replaces it by a folder below $TMPDIR, for this
   process and its children, removed at exit. Call it before threads read the environment. */
pst_status pst_cache_stand_in(struct pst_error *err);
bool pst_cache_stands_in(void);
/* Removes that folder before _exit(), which does not; not for signal handlers. */
void pst_cache_abandon(void);
/* Like pst_cache_abandon, for signal handlers, which must not allocate: starts `rm` to do it. */
void pst_cache_abandon_at_once(void);

#endif
