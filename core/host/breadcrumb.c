/* SPDX-License-Identifier: Apache-2.0 */
#include "host/breadcrumb.h"

#include <stdio.h>
#include <string.h>

#include "base/float_mode.h"
#include "base/log.h"
#include "base/text.h"
#include "base/util.h"

static _Thread_local struct pst_breadcrumb_page own; /* jobs may be planned side by side */
static struct pst_breadcrumb_page *shared;           /* with the parent; NULL: own */
static void (*current_switch)(uint32_t plugin);
static void (*current_return)(void);
static uint32_t switched_to = PST_NONE;

static struct pst_breadcrumb_page *page_of(void)
{
    return shared != NULL ? shared : &own;
}

void pst_breadcrumb_use(struct pst_breadcrumb_page *page, void (*on_switch)(uint32_t plugin),
                        void (*on_return)(void))
{
    shared = page;
    current_switch = on_switch;
    current_return = on_return;
    switched_to = PST_NONE;
}

uint32_t pst_breadcrumb_plugin(const char *kind, const char *id, const char *path)
{
    struct pst_breadcrumb_page *page = page_of();
    uint32_t i, n = atomic_load(&page->n_plugins);

    for (i = 0; i < n && i < PST_BREADCRUMB_PLUGINS; i++) {
        if (strcmp(page->plugins[i].path, path) == 0) {
            return i;
        }
    }
    if (i == PST_BREADCRUMB_PLUGINS) {
        return PST_NONE;
    }
    snprintf(page->plugins[i].kind, sizeof page->plugins[i].kind, "%s", kind);
    snprintf(page->plugins[i].id, sizeof page->plugins[i].id, "%s", id);
    snprintf(page->plugins[i].path, sizeof page->plugins[i].path, "%s", path);
    atomic_store(&page->n_plugins, i + 1);
    return i;
}

uint32_t pst_breadcrumb_find(const char *kind, const char *id)
{
    const struct pst_breadcrumb_page *page = page_of();
    uint32_t i, n = atomic_load(&page->n_plugins);

    for (i = 0; i < n && i < PST_BREADCRUMB_PLUGINS; i++) {
        if (strcmp(page->plugins[i].kind, kind) == 0 && strcmp(page->plugins[i].id, id) == 0) {
            return i;
        }
    }
    return PST_NONE;
}

void pst_breadcrumb_enter(uint32_t plugin, enum pst_plugin_call call)
{
    struct pst_breadcrumb_page *page = page_of();
    uint32_t depth = atomic_load(&page->depth);

    if (depth == 0) {
        pst_float_mode_reset(); /* a device sets it for its kernels: no plugin is to blame */
    }
    if (depth < PST_BREADCRUMB_DEPTH) {
        page->calls[depth] = (struct pst_breadcrumb_call){plugin, call, pst_now_ns()};
    }
    atomic_store(&page->depth, depth + 1);
    if (depth == 0 && current_switch != NULL && plugin != switched_to) {
        switched_to = plugin;
        current_switch(plugin);
    }
}

void pst_breadcrumb_begin(void)
{
    struct pst_breadcrumb_page *page = page_of();

    atomic_store(&page->has_told, false);
    atomic_store(&page->has_last, false);
}

void pst_breadcrumb_mark_told(void)
{
    struct pst_breadcrumb_page *page = page_of();
    uint32_t depth = atomic_load(&page->depth);

    if (depth > 0 && depth <= PST_BREADCRUMB_DEPTH && !atomic_load(&page->has_told)) {
        page->told = page->calls[depth - 1];
        atomic_store(&page->has_told, true);
    }
}

static void copy_text(char *to, const char *from, size_t size)
{
    memcpy(to, from, size);
    to[size - 1] = '\0';
    pst_text_make_plain(to);
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

/* "scheduler "foo" (path):" and "in schedule()". */
static void describe(struct pst_blame *blame)
{
    const struct pst_breadcrumb_plugin *plugin = &blame->plugin;

    if (!blame->known) {
        snprintf(blame->subject, sizeof blame->subject, "the planner's process");
        snprintf(blame->place, sizeof blame->place, "before it opened a plugin");
    } else if (blame->running) {
        snprintf(blame->subject, sizeof blame->subject, "%s \"%s\" (%s):", plugin->kind, plugin->id,
                 plugin->path);
        snprintf(blame->place, sizeof blame->place, "%s", blame->where);
    } else {
        /* Perhaps memory that a plugin wrote over was used only now. */
        snprintf(blame->subject, sizeof blame->subject, "the planner's process");
        snprintf(blame->place, sizeof blame->place,
                 "between calls of plugins; the last one was %s \"%s\" (%s) %s", plugin->kind,
                 plugin->id, plugin->path, blame->where);
    }
}

static void blame_call(const struct pst_breadcrumb_page *page, struct pst_breadcrumb_call call,
                       bool running, struct pst_blame *ret_blame)
{
    static const char *const where[PST_CRUMB_COUNT] = {
        [PST_CRUMB_LOAD] = "while it was loaded",
        [PST_CRUMB_CREATE] = "in create()",
        [PST_CRUMB_DESTROY] = "in destroy()",
        [PST_CRUMB_TOPOLOGY] = "in topology()",
        [PST_CRUMB_DEVICE_OF] = "in device_of()",
        [PST_CRUMB_IN_FLIGHT] = "in in_flight()",
        [PST_CRUMB_SCHEDULE] = "in schedule()",
        [PST_CRUMB_PARTITION] = "in partition()",
        [PST_CRUMB_BOUND] = "in bound()",
        [PST_CRUMB_PRICE] = "in price()",
        [PST_CRUMB_PLAN] = "in plan()",
        [PST_CRUMB_BUILD] = "in build()",
        [PST_CRUMB_OPEN] = "in open()",
        [PST_CRUMB_SAMPLES] = "in samples()",
        [PST_CRUMB_READ] = "in read()",
        [PST_CRUMB_DESCRIBE] = "in describe()",
        [PST_CRUMB_EXAMPLE] = "in example()",
        [PST_CRUMB_KERNEL] = "in a kernel",
        [PST_CRUMB_INTERFACE] = "in get_interface()",
        [PST_CRUMB_END] = "when a thread or the process ends",
    };

    memset(ret_blame, 0, sizeof *ret_blame);
    ret_blame->known = pst_breadcrumb_name(page, call.plugin, &ret_blame->plugin);
    ret_blame->running = running;
    ret_blame->loads = running && call.call == PST_CRUMB_LOAD;
    ret_blame->where = call.call < PST_CRUMB_COUNT ? where[call.call] : "in a call";
    ret_blame->since_ns = call.since_ns;
    describe(ret_blame);
}

void pst_breadcrumb_read(const struct pst_breadcrumb_page *page, struct pst_blame *ret_blame)
{
    struct pst_breadcrumb_call call = {.plugin = PST_NONE};
    uint32_t depth;

    page = page == NULL ? page_of() : page;
    depth = atomic_load(&page->depth);
    depth = depth < PST_BREADCRUMB_DEPTH ? depth : PST_BREADCRUMB_DEPTH;
    if (depth > 0) {
        call = page->calls[depth - 1];
    } else if (atomic_load(&page->has_last)) {
        call = page->last;
    }
    blame_call(page, call, depth > 0, ret_blame);
}

/* The host's own arithmetic, such as a training step, must not depend on a plugin's mode. */
static void warn_of_float_mode(const struct pst_breadcrumb_page *page)
{
    struct pst_blame blame;
    char text[sizeof blame.subject + 128];

    pst_breadcrumb_read(page, &blame);
    snprintf(text, sizeof text,
             "%s changed the floating-point mode %s, such as rounding or flush-to-zero; penstock "
             "has set it back",
             blame.subject, blame.where);
    pst_log_once(PST_LOG_WARN, "plugin", text);
}

void pst_breadcrumb_leave(void)
{
    struct pst_breadcrumb_page *page = page_of();
    uint32_t depth = atomic_load(&page->depth);

    if (depth == 0) {
        return; /* somebody wrote over the page */
    }
    if (depth == 1 && current_return != NULL) {
        current_return();
    }
    if (pst_float_mode_reset()) {
        warn_of_float_mode(page);
    }
    if (depth <= PST_BREADCRUMB_DEPTH) {
        page->last = page->calls[depth - 1];
        atomic_store(&page->has_last, true);
    }
    atomic_store(&page->depth, depth - 1);
}

void pst_breadcrumb_read_late(const struct pst_breadcrumb_page *page, struct pst_blame *ret_blame)
{
    page = page == NULL ? page_of() : page;
    if (!atomic_load(&page->has_told)) {
        pst_breadcrumb_read(page, ret_blame);
        return;
    }
    blame_call(page, page->told, true, ret_blame);
    ret_blame->told = true;
}

void pst_breadcrumb_read_plugin(const struct pst_breadcrumb_page *page, uint32_t plugin,
                                struct pst_blame *ret_blame)
{
    blame_call(page, (struct pst_breadcrumb_call){.plugin = plugin, .call = PST_CRUMB_COUNT}, true,
               ret_blame);
}

pst_status pst_blame_timeout(const struct pst_blame *blame, uint64_t limit_ns, const char *name,
                             uint64_t end_ns, struct pst_error *err)
{
    char limit[32], since[32];

    pst_format_ns(limit, limit_ns);
    pst_format_ns(since, end_ns > blame->since_ns ? end_ns - blame->since_ns : 0);
    if (blame->known && blame->loads) {
        pst_fail(err, PST_ERR_CANCELLED, "plugin.timeout",
                 "%s loading it did not end within %s, the %s", blame->subject, limit, name);
    } else if (blame->known && blame->running && !blame->told) {
        pst_fail(err, PST_ERR_CANCELLED, "plugin.timeout",
                 "%s made no plan in %s, the %s; it was %s for %s and ignored cancelled()",
                 blame->subject, limit, name, blame->place, since);
    } else {
        pst_fail(err, PST_ERR_CANCELLED, blame->known ? "plugin.timeout" : "internal",
                 "%s made no plan in %s, the %s; it was %s", blame->subject, limit, name,
                 blame->place);
    }
    if (blame->known) {
        pst_error_hint(err, "raise the limit, or use another %s", blame->plugin.kind);
    }
    return PST_ERR_CANCELLED;
}
