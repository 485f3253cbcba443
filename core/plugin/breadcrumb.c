/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/breadcrumb.h"

#include <stdio.h>
#include <string.h>

#include "base/util.h"

static struct pst_breadcrumb_page *current;
static void (*current_switch)(uint32_t plugin);
static void (*current_return)(void);
static uint32_t switched_to = PST_NONE;

void pst_breadcrumb_use(struct pst_breadcrumb_page *page, void (*on_switch)(uint32_t plugin),
                        void (*on_return)(void))
{
    current = page;
    current_switch = on_switch;
    current_return = on_return;
    switched_to = PST_NONE;
}

uint32_t pst_breadcrumb_plugin(const char *kind, const char *id, const char *path)
{
    uint32_t i, n;

    if (current == NULL) {
        return PST_NONE;
    }
    n = atomic_load(&current->n_plugins);
    for (i = 0; i < n && i < PST_BREADCRUMB_PLUGINS; i++) {
        if (strcmp(current->plugins[i].path, path) == 0) {
            return i;
        }
    }
    if (i == PST_BREADCRUMB_PLUGINS) {
        return PST_NONE;
    }
    snprintf(current->plugins[i].kind, sizeof current->plugins[i].kind, "%s", kind);
    snprintf(current->plugins[i].id, sizeof current->plugins[i].id, "%s", id);
    snprintf(current->plugins[i].path, sizeof current->plugins[i].path, "%s", path);
    atomic_store(&current->n_plugins, i + 1);
    return i;
}

uint32_t pst_breadcrumb_find(const char *kind, const char *id)
{
    uint32_t i, n = current == NULL ? 0 : atomic_load(&current->n_plugins);

    for (i = 0; i < n && i < PST_BREADCRUMB_PLUGINS; i++) {
        if (strcmp(current->plugins[i].kind, kind) == 0 &&
            strcmp(current->plugins[i].id, id) == 0) {
            return i;
        }
    }
    return PST_NONE;
}

void pst_breadcrumb_enter(uint32_t plugin, enum pst_plugin_call call)
{
    uint32_t depth;

    if (current == NULL) {
        return;
    }
    depth = atomic_load(&current->depth);
    if (depth < PST_BREADCRUMB_DEPTH) {
        current->calls[depth] = (struct pst_breadcrumb_call){plugin, call, pst_now_ns()};
    }
    atomic_store(&current->depth, depth + 1);
    if (depth == 0 && plugin != switched_to) {
        switched_to = plugin;
        current_switch(plugin);
    }
}

void pst_breadcrumb_leave(void)
{
    uint32_t depth;

    if (current == NULL) {
        return;
    }
    depth = atomic_load(&current->depth);
    if (depth == 0) {
        return; /* somebody wrote over the page */
    }
    if (depth == 1) {
        current_return();
    }
    if (depth <= PST_BREADCRUMB_DEPTH) {
        current->last = current->calls[depth - 1];
        atomic_store(&current->has_last, true);
    }
    atomic_store(&current->depth, depth - 1);
}

static void copy_text(char *to, const char *from, size_t size)
{
    memcpy(to, from, size);
    to[size - 1] = '\0';
    for (char *c = to; *c != '\0'; c++) {
        *c = (unsigned char)*c < 0x20 || *c == 0x7F ? '?' : *c;
    }
}

bool pst_breadcrumb_name(const struct pst_breadcrumb_page *page, uint32_t plugin,
                         struct pst_breadcrumb_plugin *ret_plugin)
{
    const struct pst_breadcrumb_plugin *p;

    if (plugin >= PST_BREADCRUMB_PLUGINS || plugin >= atomic_load(&page->n_plugins)) {
        return false;
    }
    p = &page->plugins[plugin];
    copy_text(ret_plugin->kind, p->kind, sizeof p->kind);
    copy_text(ret_plugin->id, p->id, sizeof p->id);
    copy_text(ret_plugin->path, p->path, sizeof p->path);
    return true;
}

void pst_breadcrumb_read(const struct pst_breadcrumb_page *page, struct pst_blame *ret_blame)
{
    static const char *const where[PST_CRUMB_COUNT] = {
        [PST_CRUMB_LOAD] = "while it was loaded", [PST_CRUMB_CREATE] = "in create()",
        [PST_CRUMB_DESTROY] = "in destroy()",     [PST_CRUMB_TOPOLOGY] = "in topology()",
        [PST_CRUMB_DEVICE_OF] = "in device_of()", [PST_CRUMB_IN_FLIGHT] = "in in_flight()",
        [PST_CRUMB_SCHEDULE] = "in schedule()",   [PST_CRUMB_PARTITION] = "in partition()",
        [PST_CRUMB_BOUND] = "in bound()",         [PST_CRUMB_PRICE] = "in price()",
        [PST_CRUMB_PLAN] = "in plan()",
    };
    uint32_t depth = atomic_load(&page->depth);
    struct pst_breadcrumb_call call;

    memset(ret_blame, 0, sizeof *ret_blame);
    if (depth == 0 && !atomic_load(&page->has_last)) {
        return;
    }
    depth = depth < PST_BREADCRUMB_DEPTH ? depth : PST_BREADCRUMB_DEPTH;
    call = depth > 0 ? page->calls[depth - 1] : page->last;
    ret_blame->known = pst_breadcrumb_name(page, call.plugin, &ret_blame->plugin);
    ret_blame->running = depth > 0;
    ret_blame->where = call.call < PST_CRUMB_COUNT ? where[call.call] : "in a call";
    ret_blame->since_ns = call.since_ns;
}
