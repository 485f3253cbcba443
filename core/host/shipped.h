/* SPDX-License-Identifier: Apache-2.0
 *
 * Which files are the program's own: those in its plugin folder that are, byte for byte, on the
 * list that its build or installation wrote there. All others are somebody else's, wherever they
 * lie: they are opened in a process apart.
 */
#ifndef PST_HOST_SHIPPED_H
#define PST_HOST_SHIPPED_H

#include "base/error.h"

/* The list, beside the plugins: lines of xxh128sum, "<pst_hash_file>  <file name>". The build's
   list_shipped writes it. */
#define PST_SHIPPED_LIST "shipped.xxh128"

struct pst_shipped {
    bool is;
    char why_not[640]; /* "is not ...", or "" */
};

/* A file that cannot be found counts as the program's own: opening it reports the error. */
void pst_shipped_find(const char *file, struct pst_shipped *ret_shipped);

#endif
