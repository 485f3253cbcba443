/* SPDX-License-Identifier: Apache-2.0 */
#include "host/caps.h"

#include <stdlib.h>
#include <string.h>

/* Not yet: places-recompute. */
static const char *const executor[] = {"chain",
                                       "dag",
                                       "recompute",
                                       "nested",
                                       "offload",
                                       "peer",
                                       "split-backward",
                                       "chunks",
                                       "placement",
                                       "weight-versions",
                                       "per-stage-microbatch",
                                       "async",
                                       "replicas",
                                       "ways",
                                       "two-way",
                                       "sequence-slices",
                                       NULL};

static size_t stem_length(const char *word)
{
    return strcspn(word, "=");
}

static bool is_number(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

static bool satisfies(const char *offer, const char *word)
{
    size_t n = stem_length(word);
    const char *wanted, *offered;

    if (stem_length(offer) != n || strncmp(offer, word, n) != 0) {
        return false;
    }
    if (offer[n] == '\0' || word[n] == '\0') {
        return true;
    }
    wanted = word + n + 1;
    offered = offer + n + 1;
    if (is_number(wanted) && is_number(offered)) {
        return strtoul(offered, NULL, 10) >= strtoul(wanted, NULL, 10);
    }
    return strcmp(wanted, offered) == 0;
}

bool pst_caps_has(const char *const *list, const char *word)
{
    for (; *list != NULL; list++) {
        if (satisfies(*list, word)) {
            return true;
        }
    }
    return false;
}

bool pst_caps_executor(const char *word)
{
    return pst_caps_has(executor, word);
}

/* Stages in any graph: the executor runs them, but the scheduler has to order them. */
static bool is_for_scheduler(const char *word)
{
    return strcmp(word, "dag") == 0;
}

static bool meets_need(const struct pst_plugin *plugin, const char *need)
{
    return (!is_for_scheduler(need) || strcmp(plugin->kind, "scheduler") == 0) &&
           pst_caps_has(plugin->provides, need);
}

static pst_status refuse_need(const struct pst_plugin *const *plugins, uint32_t n_plugins,
                              const struct pst_plugin *plugin, const char *need,
                              struct pst_error *err)
{
    const char *scheduler = NULL;

    for (uint32_t i = 0; i < n_plugins; i++) {
        scheduler = strcmp(plugins[i]->kind, "scheduler") == 0 ? plugins[i]->id : scheduler;
    }
    if (is_for_scheduler(need) && scheduler != NULL) {
        pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                 "%s \"%s\" needs %s, which scheduler \"%s\" does not provide", plugin->kind,
                 plugin->id, need, scheduler);
        pst_error_hint(err, "\"penstock plugins info NAME\" shows what another scheduler provides");
        return PST_ERR_UNSUPPORTED;
    }
    return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                    "%s \"%s\" needs %s, which neither the other strategies of this job nor the "
                    "executor provide",
                    plugin->kind, plugin->id, need);
}

static pst_status match_one(const struct pst_plugin *const *plugins, uint32_t n_plugins,
                            uint32_t who, struct pst_error *err)
{
    const struct pst_plugin *plugin = plugins[who];
    const char *const *need;
    uint32_t i;

    for (need = plugin->needs; *need != NULL; need++) {
        bool met = !is_for_scheduler(*need) && pst_caps_executor(*need);

        for (i = 0; !met && i < n_plugins; i++) {
            met = i != who && meets_need(plugins[i], *need);
        }
        if (!met) {
            return refuse_need(plugins, n_plugins, plugin, *need, err);
        }
    }
    return PST_OK;
}

pst_status pst_caps_match(const struct pst_plugin *const *plugins, uint32_t n_plugins,
                          struct pst_error *err)
{
    uint32_t i;
    pst_status status = PST_OK;

    for (i = 0; status == PST_OK && i < n_plugins; i++) {
        status = match_one(plugins, n_plugins, i, err);
    }
    return status;
}

pst_status pst_caps_require(const struct pst_plugin *plugin, const char *word, const char *what,
                            struct pst_error *err)
{
    if (!pst_caps_has(plugin->provides, word)) {
        return pst_fail(err, PST_ERR_BUG, "plugin.contract",
                        "%s \"%s\" made a plan with %s but does not provide %s", plugin->kind,
                        plugin->id, what, word);
    }
    if (!pst_caps_executor(word)) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                        "%s \"%s\" made a plan with %s, which needs %s: this penstock cannot "
                        "execute that yet",
                        plugin->kind, plugin->id, what, word);
    }
    return PST_OK;
}
