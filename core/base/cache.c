/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cache.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

static pst_status refuse_folder(const char *who, const char *path, const char *why,
                                struct pst_error *err)
{
    return pst_fail(err, PST_ERR_IO, "output.write",
                    "%s in %s: %s; set XDG_CACHE_HOME to a folder for it", who, path, why);
}

pst_status pst_cache_make(const char *path, const char *who, struct pst_error *err)
{
    pst_status status = PST_OK;
    char *part;

    if (path == NULL) {
        return refuse_folder(who, "~/.cache", "HOME is not a folder", err);
    }
    part = pst_printf("%s", path);
    for (char *at = strchr(part + 1, '/'); at != NULL && status == PST_OK;
         at = strchr(at + 1, '/')) {
        *at = '\0';
        if (mkdir(part, 0755) != 0 && errno != EEXIST) {
            status = refuse_folder(who, part, strerror(errno), err);
        }
        *at = '/';
    }
    free(part);
    return status;
}

/* --- a folder that stands in -------------------------------------------------------------------*/

static char *stand_in; /* or NULL */
static pid_t owner;    /* a fork leaves it alone */

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)kind;
    (void)at;
    remove(path);
    return 0;
}

void pst_cache_abandon(void)
{
    if (stand_in != NULL && getpid() == owner) {
        nftw(stand_in, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    }
}

void pst_cache_abandon_at_once(void)
{
    char *const words[] = {(char *)"rm", (char *)"-rf", stand_in, NULL};

    if (stand_in != NULL && getpid() == owner && vfork() == 0) {
        execv("/bin/rm", words);
        _exit(1);
    }
}

pst_status pst_cache_stand_in(struct pst_error *err)
{
    const char *below = getenv("TMPDIR");
    char *folder;

    if (stand_in != NULL) {
        return PST_OK;
    }
    folder = pst_printf("%s/penstock-XXXXXX", below != NULL && below[0] == '/' ? below : "/tmp");
    if (mkdtemp(folder) == NULL || setenv("XDG_CACHE_HOME", folder, 1) != 0) {
        pst_status status = pst_fail(err, PST_ERR_IO, "output.write", "cannot make a folder %s: %s",
                                     folder, strerror(errno));

        free(folder);
        return status;
    }
    stand_in = folder;
    owner = getpid();
    atexit(pst_cache_abandon);
    return PST_OK;
}

bool pst_cache_stands_in(void)
{
    return stand_in != NULL;
}
