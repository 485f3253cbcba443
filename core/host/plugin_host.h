/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding, loading and refusing plugins, and an instance of one with its parameters filled. All of
 * libltdl is behind dl.h; modules of the core (devices, transports) are loaded through it as well.
 */
#ifndef PST_HOST_PLUGIN_HOST_H
#define PST_HOST_PLUGIN_HOST_H

#include <penstock/ext/claim.h>
#include <penstock/penstock.h>

#include "base/arena.h"
#include "base/error.h"
#include "config/config.h"
#include "host/breadcrumb.h"
#include "host/remark.h"

struct pst_region; /* call.h */

/* A file that could be a plugin, as discovery sees it. */
struct pst_plugin_file {
    const char *kind, *id, *path;
    const char *shadowed_by; /* path of the file that wins, or NULL */
    /* After pst_plugin_file_describe: */
    const struct pst_plugin *plugin; /* to be read, not called; NULL: refused */
    struct pst_error refusal;        /* why */
    bool shipped;                    /* the program's own */
    const char *why_not_shipped;
};

static inline const struct pst_param *pst_plugin_param(const struct pst_plugin *plugin, uint32_t i)
{
    return (const struct pst_param *)(const void *)((const char *)plugin->params +
                                                    (size_t)i * plugin->param_size);
}

/* Texts that plugins before 1.6 do not have; NULL: it says none. */
static inline const char *pst_plugin_url(const struct pst_plugin *plugin)
{
    return PST_HAS(plugin, url) ? plugin->url : NULL;
}

static inline const char *pst_plugin_vendor(const struct pst_plugin *plugin)
{
    return PST_HAS(plugin, vendor) ? plugin->vendor : NULL;
}

struct pst_plugin_list {
    struct pst_arena arena;
    uint32_t n_files;
    struct pst_plugin_file *files; /* sorted by kind, id, search order */
    uint32_t n_folders;
    const char **folders; /* searched, in order */
};

/* Looks in `folders` (those of [plugins] path, parted by ':' or newlines, which must be there;
 * NULL: none), then PENSTOCK_PLUGIN_PATH, then the build or install folder next to the binary.
 * Opens nothing. */
pst_status pst_plugin_list_create(const char *folders, struct pst_plugin_list **ret_list,
                                  struct pst_error *err);
void pst_plugin_list_destroy(struct pst_plugin_list *list);
/* Asks a file of the list what it is (describe.h). Refusal is no error. */
void pst_plugin_file_describe(struct pst_plugin_list *list, struct pst_plugin_file *file);

/* Opens exactly this file and checks everything that needs no configuration, in this order: file,
   ELF, entry symbol, struct size, ABI major, minor, kind, name against file name, parameter rows,
   interface. kind and id may be NULL (taken from the file name). Errors: plugin.load, plugin.abi,
   plugin.descriptor with exit code 3; plugin.not-found, plugin.insecure with 2. */
pst_status pst_plugin_open(const char *path, const char *kind, const char *id,
                           const struct pst_plugin **ret_plugin, struct pst_error *err);

/* The file that <kind> "<id>" is; "": there is none. */
const char *pst_plugin_where(struct pst_arena *arena, const char *kind, const char *id,
                             const char *folders);

/* Finds <kind>-<id>.so in `folders` and the search path (or takes `path` if not NULL) and opens it.
 */
pst_status pst_plugin_find(const char *kind, const char *id, const char *path, const char *folders,
                           const struct pst_plugin **ret_plugin, struct pst_error *err);

/* Is there a file of a <kind> that `use` names, a string of the config? Else config.value at its
   place, which lists these and what is built in: n_own words. Opens nothing. */
pst_status pst_plugin_is_known(const char *kind, const struct pst_config_node *use,
                               const char *folders, const char *const *own, uint32_t n_own,
                               struct pst_error *err);

/* Does the file that find would open come from elsewhere than the program itself? Then it sets
 *ret_foreign, and logs why. Warns of another file of that name, which it hides. Such a file is
 * loaded in a process apart, for whoever opens it keeps no time: plugin.timeout where that does not
 * end; most_ns as in describe.h. What else is wrong with it, or that there is none, is left to
 *find.
 */
pst_status pst_plugin_is_foreign(const char *kind, const char *id, const char *path,
                                 const char *folders, uint64_t most_ns, bool *ret_foreign,
                                 struct pst_error *err);

/* Traits of a module, whether or not this build has it. */
enum pst_module_trait {
    PST_MODULE_USUAL = 1u << 0,     /* used where the job names none; every build has it */
    PST_MODULE_SHARES = 1u << 1,    /* a transport that copies within a device that ranks share */
    PST_MODULE_PROCESSES = 1u << 2, /* a transport between processes */
    /* A transport whose transfers wait for each other on the device, in the order of a stream: in
       one queue, unless each edge has one. A rank has a device for itself, and no kernel is loaded
       beside them. */
    PST_MODULE_IN_STREAMS = 1u << 3,
    PST_MODULE_ALONE = 1u << 4, /* a device whose ranks do not meet inside passes */
    /* A transport that moves the bytes of meetings in host memory while ranks wait for these. */
    PST_MODULE_MEETS_IN_WAITS = 1u << 5
};

/* A module that a user may ask for. */
struct pst_module_known {
    const char *kind, *id;
    const char *serves; /* why one wants it; NULL: every build has it */
    const char *device; /* of a transport: that it is for alone; NULL: for all */
    uint32_t traits;
};

/* The program's, ended by a NULL kind; it outlives all. Core knows none before. The usual ones
   become the defaults of [run]. */
void pst_modules_set(const struct pst_module_known *known);
const struct pst_module_known *pst_modules_told(void);
/* Returns true if a module is known to have a trait. */
bool pst_module_has(const char *kind, const char *id, uint32_t trait);
/* The id of the transport between processes for a device, or "". */
const char *pst_module_between(const char *device);

/* A core module: device-<id>.so or transport-<id>.so from the folder next to the binary only.
   machine.missing (exit 4) where this build lacks it or it cannot be loaded, with the linker's
   words; config.value where nothing of that name is known. */
pst_status pst_module_load(const char *kind, const char *id, const char *symbol,
                           void **ret_function, struct pst_error *err);

/* Is there such a module, here or in some build? Else config.value. Loads nothing. */
pst_status pst_module_check(const char *kind, const char *id, struct pst_error *err);

/* Tables and data of the host extensions; the planner fills it. Any member may be NULL. */
struct pst_host_context {
    const struct pst_cost *cost;
    const struct pst_ask *ask;
    const struct pst_eval *eval;
    const struct pst_rng *rng;
    const struct pst_profile *profile;
    const struct pst_region *figures; /* that pst.profile/1 gives out */
    const struct pst_trial *trial;
    void *impl; /* for the functions of these tables: host->impl leads to it */
    bool (*cancelled)(void *impl);
};

/* Around the making of a plan: the first 64 KiB of what plugins log show, then how much more there
   was. Of the remarks that are refused the first three show, then how many more there were. */
#define PST_HOST_LOG_BYTES ((uint64_t)64 << 10)
#define PST_HOST_REFUSALS  3
void pst_host_log_begin(void);
void pst_host_log_end(void);

struct pst_instance;
void pst_host_refuse_remark(const struct pst_instance *instance, const char *why);

/* An instance: plugin + config struct + host table. */
struct pst_instance {
    const struct pst_plugin *plugin;
    uint32_t crumb; /* its number in the breadcrumb page */
    struct pst_host host;
    struct pst_arena arena;
    struct pst_host_context context;
    struct pst_error failure; /* what host->fail recorded */
    struct pst_claimed claim; /* what a scheduler said of its answer; size 0: nothing */
    struct pst_remarks remarks;
    struct pst_arena scratch; /* until the call that runs returns */
    void *config, *self;
    /* Its calls run on several threads at once from now on, so the host gives it no memory and no
       extension. `begged`: it asked for one of these. */
    bool concurrent;
    _Atomic bool begged;
    uint32_t wider; /* bytes by which rows of its questions are longer than this header says */
};

/* `table` is the strategy's TOML table (NULL: defaults); "use" and "path" are skipped. */
pst_status pst_instance_create(const struct pst_plugin *plugin, struct pst_config_node *table,
                               const struct pst_host_context *context,
                               struct pst_instance **ret_instance, struct pst_error *err);
void pst_instance_destroy(struct pst_instance *instance);
/* Around every call into an instance: it leaves a breadcrumb, and its scratch memory goes. */
void pst_instance_enter(struct pst_instance *instance, enum pst_plugin_call call);
void pst_instance_leave(struct pst_instance *instance);
/* The first step of that, into an instance that is all zero: its parameters, and a host table that
   leads to it. The caller creates it. */
pst_status pst_instance_prepare(struct pst_instance *instance, const struct pst_plugin *plugin,
                                struct pst_config_node *table,
                                const struct pst_host_context *context, struct pst_error *err);
/* Could it be made of this table, as far as rows say? config.key, config.value at their place. */
pst_status pst_instance_check(const struct pst_plugin *plugin, struct pst_config_node *table,
                              struct pst_error *err);

/* Checks the rules of <penstock/memopt.h> on a price, on which partitioners may rely. If one is
   broken: plugin.contract, naming the plugin. */
pst_status pst_instance_judge_price(const struct pst_instance *memopt,
                                    const struct pst_stage_view *view,
                                    const struct pst_stage_price *price, struct pst_error *err);
/* Turns what a plugin call returned into an error that names the plugin: its own words if it gave
   any; PST_ERR_BUG or an unknown status is plugin.contract, exit 3. */
pst_status pst_instance_fail(struct pst_instance *instance, pst_status status, const char *function,
                             struct pst_error *err);

/* May the plugin ask for memory and extensions? If not, `begged` is set. */
bool pst_instance_may_ask(struct pst_instance *instance);

/* The context behind a host table, for extension functions. */
struct pst_instance *pst_host_instance(const struct pst_host *host);

#endif
