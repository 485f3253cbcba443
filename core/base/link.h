/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that are symbolic links, of models, tokenizers and data.
 */
#ifndef PST_BASE_LINK_H
#define PST_BASE_LINK_H

#include <limits.h>

#include "base/error.h"

/* A link is followed if it stays in its folder, or leads from snapshots/ to blobs/ of the hub's
   cache; others may lead to what their author did not mean. ret_target (may be NULL): the file
   itself, or `path` if that is no link. Errors: PST_ERR_IO, input.path. */
pst_status pst_link_follow(const char *path, char ret_target[PATH_MAX], struct pst_error *err);

/* The folder of a file; "." if its path has none. malloc'd. */
char *pst_link_folder(const char *path);

#endif
