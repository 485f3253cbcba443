/* SPDX-License-Identifier: Apache-2.0 */
#include "conformance/rig.h"

#include <stdio.h>
#include <string.h>

#include "conformance/verdict.h"
#include "host/caps.h"

enum { MEMORY_LIMIT = 1 << 30 };

static struct pst_rig *rig_of(const struct pst_host *host)
{
    return host->impl;
}

static void *host_alloc(const struct pst_host *host, size_t bytes, size_t align)
{
    struct pst_rig *rig = rig_of(host);
    const struct pst_manners *manners = &rig->manners;

    if ((align & (align - 1)) != 0 || align > 4096) {
        snprintf(rig->broken, sizeof rig->broken, "host->alloc was asked for an alignment of %zu",
                 align);
        return NULL;
    }
    rig->n_allocs++;
    if (manners->fail_at != 0 && (rig->n_allocs == manners->fail_at ||
                                  (manners->fail_on && rig->n_allocs > manners->fail_at))) {
        rig->alloc_failed = true;
        return NULL;
    }
    if (bytes > MEMORY_LIMIT || rig->arena.total > MEMORY_LIMIT - bytes) {
        snprintf(rig->broken, sizeof rig->broken,
                 "it asked for %zu bytes on top of %zu, for a small problem", bytes,
                 rig->arena.used);
        return NULL;
    }
    return pst_arena_alloc(&rig->arena, bytes, align);
}

static pst_status host_fail(const struct pst_host *host, pst_status code, const char *msg)
{
    snprintf(rig_of(host)->said, sizeof rig_of(host)->said, "%s", msg != NULL ? msg : "");
    return code;
}

static void host_log(const struct pst_host *host, uint32_t level, const char *msg)
{
    struct pst_rig *rig = rig_of(host);

    if (msg == NULL || level > PST_LOG_DEBUG) {
        snprintf(rig->broken, sizeof rig->broken,
                 msg == NULL ? "host->log was given no message"
                             : "host->log was given an unknown level");
    }
}

static bool host_cancelled(const struct pst_host *host)
{
    struct pst_rig *rig = rig_of(host);
    bool cancelled = rig->manners.cancels && rig->n_asked >= rig->manners.cancel_at;

    rig->n_asked++;
    rig->was_cancelled |= cancelled;
    return cancelled;
}

static const void *host_extension(const struct pst_host *host, const char *id)
{
    const struct pst_rig *rig = rig_of(host);

    return rig->manners.bare ? NULL : pst_rig_extension(rig, id);
}

static void fill_config(struct pst_rig *rig)
{
    static const char *const others[] = {"use", "path", NULL};
    const struct pst_plugin *plugin = rig->subject->plugin;
    struct pst_error err = {0};
    pst_status st;

    rig->config =
        pst_arena_alloc(&rig->arena, plugin->config_size != 0 ? plugin->config_size : 1, 0);
    st = pst_params_fill(plugin->params, plugin->n_params, plugin->param_size,
                         rig->subject->parameters, plugin->kind, others, &rig->arena, rig->config,
                         &err);
    if (st != PST_OK) {
        pst_verdict_refuse("%s (--set key=value gives a parameter)", err.message);
    }
}

pst_status pst_rig_init(struct pst_rig *rig, const struct pst_subject *subject,
                        const struct pst_manners *manners)
{
    struct pst_host *host = &rig->table.host;
    pst_status st;

    memset(rig, 0, sizeof *rig);
    memset(rig->table.bytes, 0xA5, sizeof rig->table.bytes);
    rig->subject = subject;
    rig->manners = *manners;
    *host = (struct pst_host){
        .size = manners->newer ? sizeof rig->table : sizeof *host,
        .abi_major = PST_ABI_MAJOR,
        .abi_minor = (uint16_t)(PST_ABI_MINOR + manners->newer),
        .impl = rig,
        .alloc = host_alloc,
        .fail = host_fail,
        .log = host_log,
        .cancelled = host_cancelled,
        .get_extension = host_extension,
    };
    fill_config(rig);
    pst_verdict_call("create()");
    st = subject->plugin->create(host, rig->config, &rig->self);
    pst_verdict_call(NULL);
    if (rig->broken[0] != '\0') {
        pst_verdict_fail("create(): %s", rig->broken);
    }
    if (st != PST_OK && rig->self != NULL) {
        pst_verdict_fail("create() failed with status %d and wrote *ret_self all the same",
                         (int)st);
    }
    if (st != PST_OK) {
        pst_arena_finish(&rig->arena);
    }
    return st;
}

void pst_rig_finish(struct pst_rig *rig)
{
    pst_verdict_call("destroy()");
    rig->subject->plugin->destroy(rig->self);
    pst_verdict_call(NULL);
    pst_evaluator_finish(&rig->evaluator);
    pst_arena_finish(&rig->arena);
}

const void *pst_subject_interface(const struct pst_subject *subject)
{
    const struct pst_plugin *plugin = subject->plugin;
    char id[32];

    snprintf(id, sizeof id, "pst.%s/1", plugin->kind);
    return plugin->get_interface(id);
}

bool pst_subject_provides(const struct pst_subject *subject, const char *word)
{
    return pst_caps_has(subject->plugin->provides, word);
}
