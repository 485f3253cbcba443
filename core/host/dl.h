/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening shared objects. All of libltdl is behind these two functions; one mutex guards it, and
 * nothing that was opened is ever closed. What may be opened is decided elsewhere (search.h).
 */
#ifndef PST_HOST_DL_H
#define PST_HOST_DL_H

#include "base/error.h"

/*
 * Opens the file at an absolute path: symbols stay local, everything is bound at once. False with
 * the dynamic linker's own words in ret_reason. [any thread]
 */
bool pst_dl_open(const char *path, void **ret_handle, char *ret_reason, size_t reason_size);

/* NULL where the object exports no such symbol. */
void *pst_dl_symbol(void *handle, const char *name);

#endif
