/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/plugin_host.h"

#include <string.h>

#include "plugin/dl.h"
#include "plugin/search.h"

static bool is_id(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-")] == '\0';
}

pst_status pst_module_load(const char *kind, const char *id, const char *symbol,
                           void **ret_function, struct pst_error *err)
{
    struct pst_arena arena = {0};
    const char *home = pst_search_home(&arena);
    struct pst_error why;
    char reason[512];
    char *path;
    const char *canonical;
    void *handle, *function;
    pst_status st;

    path =
        home != NULL && is_id(id) ? pst_arena_printf(&arena, "%s/%s-%s.so", home, kind, id) : NULL;
    if (path == NULL) {
        st = home == NULL
                 ? pst_fail_nomem(err)
                 : pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                            "no %s \"%s\"; names have lower case, digits and hyphens", kind, id);
        goto out;
    }
    st = pst_search_secure(&arena, path, &canonical, &why);
    if (st != PST_OK && strcmp(why.kind, "plugin.not-found") == 0) {
        st = pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                      "this build has no %s \"%s\" (%s)", kind, id, why.message);
        goto out;
    }
    if (st != PST_OK) {
        if (err != NULL) {
            *err = why;
        }
        goto out;
    }
    if (!pst_dl_open(canonical, &handle, reason, sizeof reason)) {
        st = pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing", "%s \"%s\" cannot be used: %s",
                      kind, id, reason);
        goto out;
    }
    function = pst_dl_symbol(handle, symbol);
    if (function == NULL) {
        st = pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                      "%s exports no %s; it belongs to another build of penstock", canonical,
                      symbol);
        goto out;
    }
    *ret_function = function;
out:
    pst_arena_finish(&arena);
    return st;
}
