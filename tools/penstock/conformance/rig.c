/* SPDX-License-Identifier: Apache-2.0
 *
 * The checker's host: the planner's own, with manners.
 */
#include "conformance/rig.h"

#include <stdio.h>
#include <string.h>

#include "conformance/verdict.h"
#include "host/caps.h"

enum { MEMORY_LIMIT = 1 << 30, WIDER = 24 };

static struct pst_rig *rig_of(const struct pst_host *host)
{
    return host->impl;
}

/* May so much be had from this memory of the instance? */
static bool grants(struct pst_rig *rig, const char *who, const struct pst_arena *arena,
                   size_t bytes, size_t align)
{
    const struct pst_manners *manners = &rig->manners;

    if (!pst_instance_may_ask(&rig->instance)) {
        return false;
    }
    if ((align & (align - 1)) != 0 || align > 4096) {
        snprintf(rig->broken, sizeof rig->broken, "%s was asked for an alignment of %zu", who,
                 align);
        return false;
    }
    rig->n_allocs++;
    if (manners->fail_at != 0 && (rig->n_allocs == manners->fail_at ||
                                  (manners->fail_on && rig->n_allocs > manners->fail_at))) {
        rig->alloc_failed = true;
        return false;
    }
    if (bytes > MEMORY_LIMIT || arena->total > MEMORY_LIMIT - bytes) {
        snprintf(rig->broken, sizeof rig->broken,
                 "it asked for %zu bytes on top of %zu, for a small problem", bytes, arena->used);
        return false;
    }
    return true;
}

static void *host_alloc(const struct pst_host *host, size_t bytes, size_t align)
{
    struct pst_rig *rig = rig_of(host);

    return grants(rig, "host->alloc", &rig->instance.arena, bytes, align)
               ? rig->instance.host.alloc(host, bytes, align)
               : NULL;
}

static void *host_scratch(const struct pst_host *host, size_t bytes, size_t align)
{
    struct pst_rig *rig = rig_of(host);
    const struct pst_scratch *scratch =
        rig->instance.host.get_extension(&rig->instance.host, PST_SCRATCH);

    return grants(rig, "pst.scratch/1", &rig->instance.scratch, bytes, align)
               ? scratch->alloc(host, bytes, align)
               : NULL;
}

static const struct pst_scratch scratch_functions = {.size = sizeof scratch_functions,
                                                     .alloc = host_scratch};

/* The planner's functions say through it what is wrong with a question. */
static pst_status host_fail(const struct pst_host *host, pst_status code, const char *msg)
{
    struct pst_rig *rig = rig_of(host);

    snprintf(rig->said, sizeof rig->said, "%s", msg != NULL ? msg : "");
    if (code == PST_ERR_BUG) {
        snprintf(rig->broken, sizeof rig->broken, "%.250s", rig->said);
    }
    return (rig->instance.host.fail)(host, code, msg);
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
    struct pst_rig *rig = rig_of(host);

    if (rig->manners.bare || !pst_instance_may_ask(&rig->instance)) {
        return NULL;
    }
    return strcmp(id, PST_SCRATCH) == 0 ? (const void *)&scratch_functions
                                        : rig->instance.host.get_extension(host, id);
}

void pst_rig_state(struct pst_rig *rig, const struct pst_case *question)
{
    if (rig->problem.graph != NULL) {
        pst_planner_finish(&rig->planning.planner);
        pst_graph_problem_finish(&rig->problem);
    }
    pst_graph_problem_make(question, pst_subject_provides(rig->subject, "per-stage-microbatch"),
                           pst_subject_provides(rig->subject, "replicas"), &rig->problem);
    pst_problem_planner_init(&rig->planning, &rig->problem, NULL);
}

/* Its parameters, and a host table that is the planner's but for the manners. */
static void prepare(struct pst_rig *rig)
{
    static const struct pst_case none = {.n_nodes = 1, .n_devices = 1, .n_microbatches = 1};
    const struct pst_subject *subject = rig->subject;
    bool newer = rig->manners.newer;
    struct pst_host_context context;
    struct pst_error err = {0};

    pst_rig_state(rig, &none);
    pst_questions_context(&rig->planning.planner, &context);
    if (pst_instance_prepare(&rig->instance, subject->plugin, subject->parameters, &context,
                             &err) != PST_OK) {
        pst_verdict_refuse("%s (--set key=value gives a parameter)", err.message);
    }
    rig->instance.wider = newer ? WIDER : 0;
    memset(rig->table.bytes, 0xA5, sizeof rig->table.bytes);
    rig->table.host = (struct pst_host){
        .size = newer ? sizeof rig->table : sizeof rig->table.host,
        .abi_major = PST_ABI_MAJOR,
        .abi_minor = (uint16_t)(PST_ABI_MINOR + newer),
        .impl = &rig->instance,
        .alloc = host_alloc,
        .fail = host_fail,
        .log = host_log,
        .cancelled = host_cancelled,
        .get_extension = host_extension,
    };
}

static void free_all(struct pst_rig *rig)
{
    pst_planner_finish(&rig->planning.planner);
    pst_graph_problem_finish(&rig->problem);
    pst_arena_finish(&rig->instance.arena);
}

pst_status pst_rig_init(struct pst_rig *rig, const struct pst_subject *subject,
                        const struct pst_manners *manners)
{
    struct pst_instance *instance = &rig->instance;
    pst_status status;

    memset(rig, 0, sizeof *rig);
    rig->subject = subject;
    rig->manners = *manners;
    prepare(rig);
    pst_instance_enter(instance, PST_CRUMB_CREATE);
    status = subject->plugin->create(&rig->table.host, instance->config, &instance->self);
    pst_instance_leave(instance);
    if (rig->broken[0] != '\0') {
        pst_verdict_fail("create(): %s", rig->broken);
    }
    if (status != PST_OK && instance->self != NULL) {
        pst_verdict_fail("create() failed with status %d and wrote *ret_self all the same",
                         (int)status);
    }
    if (status != PST_OK) {
        free_all(rig);
    }
    return status;
}

void pst_rig_finish(struct pst_rig *rig)
{
    pst_instance_enter(&rig->instance, PST_CRUMB_DESTROY);
    rig->subject->plugin->destroy(rig->instance.self);
    pst_instance_leave(&rig->instance);
    free_all(rig);
}

bool pst_subject_provides(const struct pst_subject *subject, const char *word)
{
    return pst_caps_has(subject->plugin->provides, word);
}
