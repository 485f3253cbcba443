/* SPDX-License-Identifier: Apache-2.0 */
#include "host/plugin_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <inttypes.h>
#include <stdatomic.h>

#include "base/memory.h"
#include "base/saturate.h"
#include "base/text.h"
#include "base/log.h"

/* --- what plugins log while one plan is made --------------------------------------------------*/

static _Atomic uint64_t logged, dropped; /* bytes, since the plan was begun */
static _Atomic uint64_t refused;         /* remarks */

void pst_host_log_begin(void)
{
    atomic_store(&logged, 0);
    atomic_store(&dropped, 0);
    atomic_store(&refused, 0);
}

void pst_host_log_end(void)
{
    uint64_t n = atomic_exchange(&dropped, 0), more = atomic_exchange(&refused, 0);

    if (more > PST_HOST_REFUSALS) {
        pst_log(PST_LOG_WARN, "plugin", "%" PRIu64 " more remarks of plugins are left out",
                more - PST_HOST_REFUSALS);
    }
    if (n > 0) {
        pst_log(PST_LOG_WARN, "plugin", "%" PRIu64 " bytes of what plugins logged are left out", n);
    }
}

static void log_text(const char *id, uint32_t level, const char *text)
{
    uint64_t n = strlen(text) + 1;

    if (level > pst_log_level()) {
        return;
    }
    if (atomic_fetch_add(&logged, n) + n > PST_HOST_LOG_BYTES) {
        atomic_fetch_add(&dropped, n);
    } else {
        pst_log(level, id, "%s", text);
    }
}

void pst_host_refuse_remark(const struct pst_instance *instance, const char *why)
{
    if (atomic_fetch_add(&refused, 1) < PST_HOST_REFUSALS) {
        pst_log(PST_LOG_WARN, instance->plugin->id, "%s", why);
    }
}

/* --- the host of an instance ------------------------------------------------------------------*/

struct pst_instance *pst_host_instance(const struct pst_host *host)
{
    return host->impl;
}

bool pst_instance_may_ask(struct pst_instance *instance)
{
    if (instance->concurrent) {
        atomic_store(&instance->begged, true);
    }
    return !instance->concurrent;
}

static void *host_alloc(const struct pst_host *host, size_t bytes, size_t align)
{
    struct pst_instance *instance = pst_host_instance(host);

    return pst_instance_may_ask(instance) ? pst_arena_try(&instance->arena, bytes, align) : NULL;
}

static void *host_scratch(const struct pst_host *host, size_t bytes, size_t align)
{
    struct pst_instance *instance = pst_host_instance(host);

    return pst_instance_may_ask(instance) ? pst_arena_try(&instance->scratch, bytes, align) : NULL;
}

static const struct pst_scratch scratch_functions = {.size = sizeof scratch_functions,
                                                     .alloc = host_scratch};

static pst_status host_fail(const struct pst_host *host, pst_status code, const char *msg)
{
    struct pst_error *failure = &pst_host_instance(host)->failure;

    pst_fail(failure, code, "plugin.contract", "%s", msg != NULL ? msg : "");
    pst_text_make_plain(failure->message);
    return code;
}

static void host_log(const struct pst_host *host, uint32_t level, const char *msg)
{
    log_text(pst_host_instance(host)->plugin->id, level, msg != NULL ? msg : "");
}

static bool host_cancelled(const struct pst_host *host)
{
    const struct pst_host_context *context = &pst_host_instance(host)->context;

    if (context->cancelled == NULL || !context->cancelled(context->impl)) {
        return false;
    }
    pst_breadcrumb_mark_told();
    return true;
}

static pst_status host_claim(const struct pst_host *host, const struct pst_claimed *claimed)
{
    struct pst_claimed *claim = &pst_host_instance(host)->claim;
    size_t size = claimed->size < sizeof *claim ? claimed->size : sizeof *claim;

    memset(claim, 0, sizeof *claim);
    memcpy(claim, claimed, size);
    claim->size = sizeof *claim;
    return PST_OK;
}

static const struct pst_claim claim_functions = {.size = sizeof claim_functions,
                                                 .claim = host_claim};

/* Each kind gets what it may ask, and nothing else: so questions never nest. */
static const void *host_extension(const struct pst_host *host, const char *id)
{
    struct pst_instance *instance = pst_host_instance(host);
    const struct pst_host_context *context = &instance->context;
    const char *kind = instance->plugin->kind;
    const struct {
        const char *id, *kind; /* kind NULL: everybody */
        const void *table;
    } extensions[] = {{PST_COST, NULL, context->cost},
                      {PST_RNG, NULL, context->rng},
                      {PST_REMARK, NULL, &pst_remark_functions},
                      {PST_SCRATCH, NULL, &scratch_functions},
                      {PST_ASK, "partitioner", context->ask},
                      {PST_PROFILE, "partitioner", context->profile},
                      {PST_TRIAL, "partitioner", context->trial},
                      {PST_EVAL, "memopt", context->eval},
                      {PST_CLAIM, "scheduler", &claim_functions}};
    size_t i;

    if (!pst_instance_may_ask(instance)) {
        return NULL;
    }
    for (i = 0; i < sizeof extensions / sizeof extensions[0]; i++) {
        if (strcmp(extensions[i].id, id) == 0) {
            bool allowed = extensions[i].kind == NULL || strcmp(extensions[i].kind, kind) == 0;

            return allowed ? extensions[i].table : NULL;
        }
    }
    return NULL;
}

/* A key that the plugin does not know may be meant for the one that --set put in its place. */
static void explain_key(const struct pst_plugin *plugin, struct pst_config_node *table,
                        struct pst_error *err)
{
    const struct pst_config_node *use = table == NULL ? NULL : pst_config_get(table, "use");
    bool repeats = strcmp(plugin->kind, "memopt") == 0;

    if (err != NULL && use != NULL && strcmp(err->kind, "config.key") == 0 &&
        strcmp(use->file, "--set") == 0 && strcmp(err->file, "--set") != 0) {
        pst_error_hint(err, "--set '%s=%s{use = \"%s\"}%s' replaces the whole table", plugin->kind,
                       repeats ? "[" : "", plugin->id, repeats ? "]" : "");
    }
}

static pst_status fill_config(struct pst_instance *instance, struct pst_config_node *table,
                              struct pst_error *err)
{
    static const char *const others[] = {"use", "path", NULL};
    static const char *const of_model[] = {"use", "path", "operators", NULL};
    static const char *const of_operator[] = {NULL}; /* attributes, which no table of a job holds */
    const struct pst_plugin *plugin = instance->plugin;
    bool repeats = strcmp(plugin->kind, "memopt") == 0;
    const char *section;
    pst_status status;

    instance->config =
        pst_arena_alloc(&instance->arena, plugin->config_size != 0 ? plugin->config_size : 1, 0);
    section = pst_arena_printf(&instance->arena, repeats ? "[[%s]] (%s)" : "[%s] (%s)",
                               plugin->kind, plugin->id);
    status = pst_params_fill(plugin->params, plugin->n_params, plugin->param_size, table, section,
                             strcmp(plugin->kind, "model") == 0      ? of_model
                             : strcmp(plugin->kind, "operator") == 0 ? of_operator
                                                                     : others,
                             &instance->arena, instance->config, err);
    if (status != PST_OK) {
        explain_key(plugin, table, err);
    }
    return status;
}

pst_status pst_instance_check(const struct pst_plugin *plugin, struct pst_config_node *table,
                              struct pst_error *err)
{
    struct pst_instance *instance = pst_alloc(1, sizeof *instance);
    pst_status status;

    instance->plugin = plugin;
    status = fill_config(instance, table, err);
    pst_arena_finish(&instance->arena);
    free(instance);
    return status;
}

pst_status pst_instance_prepare(struct pst_instance *instance, const struct pst_plugin *plugin,
                                struct pst_config_node *table,
                                const struct pst_host_context *context, struct pst_error *err)
{
    instance->plugin = plugin;
    instance->crumb = pst_breadcrumb_find(plugin->kind, plugin->id);
    instance->context = *context;
    instance->host = (struct pst_host){
        .size = sizeof instance->host,
        .abi_major = PST_ABI_MAJOR,
        .abi_minor = PST_ABI_MINOR,
        .impl = instance,
        .alloc = host_alloc,
        .fail = host_fail,
        .log = host_log,
        .cancelled = host_cancelled,
        .get_extension = host_extension,
    };
    return fill_config(instance, table, err);
}

void pst_instance_enter(struct pst_instance *instance, enum pst_plugin_call call)
{
    pst_breadcrumb_enter(instance->crumb, call);
}

void pst_instance_leave(struct pst_instance *instance)
{
    pst_breadcrumb_leave();
    pst_arena_finish(&instance->scratch);
}

pst_status pst_instance_create(const struct pst_plugin *plugin, struct pst_config_node *table,
                               const struct pst_host_context *context,
                               struct pst_instance **ret_instance, struct pst_error *err)
{
    struct pst_instance *instance = pst_alloc(1, sizeof *instance);
    pst_status status = pst_instance_prepare(instance, plugin, table, context, err);

    if (status == PST_OK) {
        pst_instance_enter(instance, PST_CRUMB_CREATE);
        status = plugin->create(&instance->host, instance->config, &instance->self);
        pst_instance_leave(instance);
        if (status != PST_OK) {
            instance->self = NULL;
            status = pst_instance_fail(instance, status, "create", err);
        }
    }
    if (status != PST_OK) {
        pst_instance_destroy(instance);
        return status;
    }
    *ret_instance = instance;
    return PST_OK;
}

void pst_instance_destroy(struct pst_instance *instance)
{
    if (instance == NULL) {
        return;
    }
    pst_instance_enter(instance, PST_CRUMB_DESTROY);
    instance->plugin->destroy(instance->self);
    pst_instance_leave(instance);
    pst_arena_finish(&instance->arena);
    free(instance);
}

/* A status that a plugin may return, with its error kind and its words for the user. */
struct meaning {
    pst_status status;
    const char *kind, *words;
};

static const struct meaning *meaning_of(pst_status status)
{
    static const struct meaning meanings[] = {
        {PST_ERR_CONFIG, "config.value", "refuses its parameters"},
        {PST_ERR_INFEASIBLE, "plan.infeasible", "found no answer"},
        {PST_ERR_UNSUPPORTED, "plan.mismatch", "cannot do this"},
        {PST_ERR_CANCELLED, "run.cancelled", "was stopped"},
        {PST_ERR_NOMEM, "plugin.memory", "ran out of memory"},
        {PST_ERR_IO, "input.path", "could not read or write a file"},
        {PST_ERR_DEVICE, "machine.missing", "could not use a device"},
    };
    size_t i;

    for (i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        if (meanings[i].status == status) {
            return &meanings[i];
        }
    }
    return NULL;
}

pst_status pst_instance_fail(struct pst_instance *instance, pst_status status, const char *function,
                             struct pst_error *err)
{
    const struct pst_plugin *plugin = instance->plugin;
    const struct meaning *meaning = meaning_of(status);
    const char *said = instance->failure.message;

    if (strcmp(instance->failure.kind, "machine.memory") == 0) { /* the host's own, not its */
        memset(&instance->failure, 0, sizeof instance->failure);
        return pst_fail_nomem(err);
    }
    if (meaning != NULL) {
        pst_fail(err, status, meaning->kind, "%s \"%s\": %s", plugin->kind, plugin->id,
                 said[0] != '\0' ? said : meaning->words);
    } else if (said[0] != '\0') {
        pst_fail(err, PST_ERR_BUG, "plugin.contract", "%s \"%s\" broke its contract in %s(): %s",
                 plugin->kind, plugin->id, function, said);
    } else if (status == PST_ERR_BUG) {
        pst_fail(err, PST_ERR_BUG, "plugin.contract",
                 "%s \"%s\" broke its contract: %s() itself reports a bug; report it to its author",
                 plugin->kind, plugin->id, function);
    } else {
        pst_fail(err, PST_ERR_BUG, "plugin.contract",
                 "%s \"%s\" broke its contract: %s() returned the unknown status %d", plugin->kind,
                 plugin->id, function, (int)status);
    }
    memset(&instance->failure, 0, sizeof instance->failure);
    return meaning != NULL ? status : PST_ERR_BUG;
}

/* Whatever is kept, recomputed and at work at once; UINT64_MAX: beyond counting. */
static uint64_t most_bytes(const struct pst_stage_view *view)
{
    uint64_t kept = view->input_bytes, work = 0;

    for (uint32_t v = 0; v < view->n_nodes; v++) {
        const struct pst_stage_node *node = pst_stage_node_at(view, v);

        kept = pst_sat_add(kept, pst_sat_add(node->saved_bytes, pst_stage_node_output(view, v)));
        work = pst_sat_add(work, pst_sat_add(node->forward_work_bytes, node->backward_work_bytes));
    }
    return pst_sat_add(view->static_bytes, pst_sat_add(pst_sat_mul(kept, view->in_flight), work));
}

/* Sum of the times of all passes, each counted once. */
static uint64_t passes_ns(const struct pst_stage_view *view)
{
    uint64_t ns = 0;

    for (uint32_t v = 0; v < view->n_nodes; v++) {
        const struct pst_stage_node *node = pst_stage_node_at(view, v);

        ns = pst_sat_add(ns, pst_sat_add(node->forward_ns, node->backward_ns));
    }
    return ns;
}

/* Returns false, and the reason in ret_fault, if the price breaks a rule. */
static bool price_holds(const struct pst_stage_view *view, const struct pst_stage_price *price,
                        char *ret_fault, size_t room)
{
    const uint64_t alone_ns = price->fits != 0 ? passes_ns(view) : 0;

    ret_fault[0] = '\0';
    if (price->size != sizeof *price) {
        snprintf(ret_fault, room, "price() changed the size of ret_price");
    } else if (price->fits == 0) {
        return true;
    } else if (price->period_ns < alone_ns) {
        snprintf(ret_fault, room, "price() promised %llu ns, but its passes alone take %llu ns",
                 (unsigned long long)price->period_ns, (unsigned long long)alone_ns);
    } else if (price->peak_bytes > view->capacity_bytes) {
        snprintf(ret_fault, room, "price() states that %llu bytes fit into %llu",
                 (unsigned long long)price->peak_bytes, (unsigned long long)view->capacity_bytes);
    } else if (price->period_ns == UINT64_MAX && alone_ns != UINT64_MAX) {
        snprintf(ret_fault, room, "price() states that it fits but gives no period");
    } else if (price->peak_bytes == UINT64_MAX && most_bytes(view) != UINT64_MAX) {
        snprintf(ret_fault, room, "price() states that it fits but gives no peak");
    }
    return ret_fault[0] == '\0';
}

pst_status pst_instance_judge_price(const struct pst_instance *memopt,
                                    const struct pst_stage_view *view,
                                    const struct pst_stage_price *price, struct pst_error *err)
{
    char fault[160];

    return price_holds(view, price, fault, sizeof fault)
               ? PST_OK
               : pst_fail(err, PST_ERR_BUG, "plugin.contract",
                          "memopt \"%s\" broke its contract: for stage %u %s", memopt->plugin->id,
                          view->stage, fault);
}
