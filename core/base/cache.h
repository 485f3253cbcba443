/* SPDX-License-Identifier: Apache-2.0
 *
 * Where penstock keeps what it measured, for all later runs: $XDG_CACHE_HOME/penstock, or
 * ~/.cache/penstock (XDG Base Directory Specification).
 */
#ifndef PST_BASE_CACHE_H
#define PST_BASE_CACHE_H

#include "base/error.h"

/* Of a file there; free() it. NULL: no such folder is known. */
char *pst_cache_path(const char *name);

/* Makes the folders above the path; NULL is none. `who`, what keeps something there, begins the
   message: PST_ERR_IO, output.write. */
pst_status pst_cache_make(const char *path, const char *who, struct pst_error *err);

/* Where nothing can be kept: from now on another folder, below $TMPDIR, for this process and those
   that it starts; it goes when this one exits. Before threads that ask for the environment. */
pst_status pst_cache_stand_in(struct pst_error *err);
bool pst_cache_stands_in(void);
/* Before _exit(), which ends without that; not for handlers of signals. */
void pst_cache_abandon(void);
/* The same in a handler of signals, where memory may not be touched: another process does it. */
void pst_cache_abandon_at_once(void);

#endif
