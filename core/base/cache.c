/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"

char *pst_cache_path(const char *name)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (cache != NULL &&
        cache[0] == '/') { /* others are to be passed over, says the Specification */
        return pst_printf("%s/penstock/%s", cache, name);
    }
    return home != NULL && home[0] == '/' ? pst_printf("%s/.cache/penstock/%s", home, name) : NULL;
}

static pst_status refuse(const char *who, const char *path, const char *why, struct pst_error *err)
{
    return pst_fail(err, PST_ERR_IO, "output.write",
                    "%s in %s: %s; set XDG_CACHE_HOME to a folder for it", who, path, why);
}

pst_status pst_cache_make(const char *path, const char *who, struct pst_error *err)
{
    pst_status st = PST_OK;
    char *part;

    if (path == NULL) {
        return refuse(who, "~/.cache", "HOME is no folder", err);
    }
    part = pst_printf("%s", path);
    for (char *at = strchr(part + 1, '/'); at != NULL && st == PST_OK; at = strchr(at + 1, '/')) {
        *at = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST) {
            st = refuse(who, part, strerror(errno), err);
        }
        *at = '/';
    }
    free(part);
    return st;
}
