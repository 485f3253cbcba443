/* SPDX-License-Identifier: Apache-2.0
 *
 * Which call into which plugin is running: written before each call, in the planner's process into
 * memory that it shares with the one that waits for it, so that whatever ends it, blame is exact.
 */
#ifndef PST_HOST_BREADCRUMB_H
#define PST_HOST_BREADCRUMB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define PST_BREADCRUMB_PLUGINS 64
#define PST_BREADCRUMB_DEPTH   4 /* a partitioner's question runs another plugin inside its call */

enum pst_plugin_call {
    PST_CRUMB_LOAD,
    PST_CRUMB_CREATE,
    PST_CRUMB_DESTROY,
    PST_CRUMB_TOPOLOGY,
    PST_CRUMB_DEVICE_OF,
    PST_CRUMB_IN_FLIGHT,
    PST_CRUMB_SCHEDULE,
    PST_CRUMB_PARTITION,
    PST_CRUMB_BOUND,
    PST_CRUMB_PRICE,
    PST_CRUMB_PLAN,
    PST_CRUMB_BUILD,
    PST_CRUMB_OPEN,
    PST_CRUMB_SAMPLES,
    PST_CRUMB_READ,
    PST_CRUMB_DESCRIBE,
    PST_CRUMB_EXAMPLE,
    PST_CRUMB_KERNEL,
    PST_CRUMB_INTERFACE,
    PST_CRUMB_END, /* of the thread or the process that called it */
    PST_CRUMB_COUNT
};

struct pst_breadcrumb_plugin {
    char kind[16], id[64], path[512];
};

struct pst_breadcrumb_call {
    uint32_t plugin, call;
    uint64_t since_ns; /* pst_now_ns */
};

/* The shared memory. The writer may be broken: a reader trusts no index and no text in it. */
struct pst_breadcrumb_page {
    struct pst_breadcrumb_plugin plugins[PST_BREADCRUMB_PLUGINS];
    struct pst_breadcrumb_call calls[PST_BREADCRUMB_DEPTH], last; /* last: the latest that ended */
    struct pst_breadcrumb_call told; /* that ran when its plugin was first told to stop */
    _Atomic uint32_t n_plugins, depth;
    _Atomic bool has_last, has_told;
    _Atomic bool stop, late;   /* set by the waiting process: the user wants the search to end; its
                                  time limit has passed */
    _Atomic bool kept;         /* the process that keeps the planner's has seen its end */
    _Atomic uint64_t vm_bytes; /* address space of the planner's process when it failed */
};

/* From now on calls are written there; `page` must stay mapped. For calls of the planner's own, not
   those inside another call: on_switch is called before one goes to another plugin than the one
   before, on_return after each, while it still counts as running. */
void pst_breadcrumb_use(struct pst_breadcrumb_page *page, void (*on_switch)(uint32_t plugin),
                        void (*on_return)(void));

/* Makes a plugin known by its file; the number that enter takes. */
uint32_t pst_breadcrumb_plugin(const char *kind, const char *id, const char *path);
/* The number of one that is known. */
uint32_t pst_breadcrumb_find(const char *kind, const char *id);

/* Around every call into a plugin. Behind it the thread has the floating-point mode of a process's
   start, with a warning where the plugin had changed it. [plan] */
void pst_breadcrumb_enter(uint32_t plugin, enum pst_plugin_call call);
void pst_breadcrumb_leave(void);

/* A search begins: nobody was told to stop it. */
void pst_breadcrumb_begin(void);
/* The plugin of the call that runs has been told to stop: the first one is to blame for the time.
 */
void pst_breadcrumb_mark_told(void);

/* A copy of what a page says about one call. */
struct pst_blame {
    bool known;   /* false: no plugin was called yet */
    bool running; /* false: the call had ended */
    bool told;    /* it was told to stop, and did */
    bool loads;   /* it runs while it is loaded */
    struct pst_breadcrumb_plugin plugin;
    const char *where; /* "in schedule()" */
    uint64_t since_ns;
    char subject[640]; /* scheduler "foo" (path): */
    char place[704];   /* in schedule() */
};

/* Reads the call that runs, or else the last one that ended. page NULL: this process's own. */
void pst_breadcrumb_read(const struct pst_breadcrumb_page *page, struct pst_blame *ret_blame);
/* After a timeout: the call whose plugin was told to stop first; else as pst_breadcrumb_read. */
void pst_breadcrumb_read_late(const struct pst_breadcrumb_page *page, struct pst_blame *ret_blame);
/* Reads this plugin, without naming one of its calls. */
void pst_breadcrumb_read_plugin(const struct pst_breadcrumb_page *page, uint32_t plugin,
                                struct pst_blame *ret_blame);
/* plugin.timeout, exit code 3: a limit of that name has passed at end_ns. */
pst_status pst_blame_timeout(const struct pst_blame *blame, uint64_t limit_ns, const char *name,
                             uint64_t end_ns, struct pst_error *err);
/* False where the page knows no such plugin. */
bool pst_breadcrumb_name(const struct pst_breadcrumb_page *page, uint32_t plugin,
                         struct pst_breadcrumb_plugin *ret_plugin);

#endif
