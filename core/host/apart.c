/* SPDX-License-Identifier: Apache-2.0 */
#include "host/child.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/job.h"

void pst_apart_put(const struct pst_apart_kind *kind, const void *job, void *answer,
                   struct pst_wire *w)
{
    pst_wire_word(w, kind->word);
    (void)kind->pass_answer(w, job, answer, NULL);
}

uint64_t pst_worker_default_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

    return pages > 0 && size > 0 ? (uint64_t)pages / 5 * 4 * (uint64_t)size : 0;
}

struct pst_worker_task pst_worker_limits(const struct pst_job_plugins *plugins,
                                         bool (*cancelled)(void))
{
    return (struct pst_worker_task){
        .time_limit_ns = plugins->time_limit,
        .memory_limit_bytes =
            plugins->memory_limit != 0 ? plugins->memory_limit : pst_worker_default_memory(),
        .cancelled = cancelled,
    };
}

static pst_status refuse_reply(const struct pst_apart_kind *kind, const char *name,
                               struct pst_error *err)
{
    pst_status status =
        pst_fail(err, PST_ERR_BUG, "plugin.contract",
                 "%s \"%s\": its process returned an invalid reply", kind->plugin, name);
    pst_error_hint(err, "report it to its author");
    return status;
}

pst_status pst_apart_take(const struct pst_apart_kind *kind, const void *job, const char *name,
                          const char *bytes, size_t length, void *ret_answer, struct pst_error *err)
{
    struct pst_arena arena = {0};
    struct pst_wire r = pst_wire_read(bytes, length, &arena);
    pst_status status;

    memset(ret_answer, 0, kind->answer_size);
    pst_wire_word(&r, kind->word);
    status = kind->pass_answer(&r, job, ret_answer, err);
    if (status == PST_OK && !pst_wire_is_read(&r)) {
        status = refuse_reply(kind, name, err);
    }
    if (status != PST_OK) {
        kind->finish(ret_answer);
    }
    pst_arena_finish(&arena);
    return status;
}

static pst_status ask_apart(const struct pst_apart_kind *kind, const void *job, const char *name,
                            const struct pst_worker_task *limits, void *ret_answer,
                            struct pst_error *err)
{
    struct pst_arena arena = {0};
    struct pst_wire question = {.reads = false, .arena = &arena};
    void *sent = pst_arena_alloc(&arena, kind->job_size, 0);
    char *reply = NULL;
    size_t length = 0;
    pst_status status;

    memcpy(sent, job, kind->job_size);
    pst_wire_word(&question, kind->word);
    kind->pass_job(&question, sent);
    status = pst_worker_ask(limits, &question, &reply, &length, err);
    free(question.bytes);
    PST_TRY(status, pst_apart_take(kind, job, name, reply, length, ret_answer, err));
    free(reply);
    pst_arena_finish(&arena);
    return status;
}

pst_status pst_apart_ask(const struct pst_apart_kind *kind, const void *job, const char *name,
                         const struct pst_worker_task *limits, bool (*cancelled)(void),
                         void *ret_answer, struct pst_error *err)
{
    pst_status status;

    if (limits != NULL) {
        return ask_apart(kind, job, name, limits, ret_answer, err);
    }
    memset(ret_answer, 0, kind->answer_size);
    status = kind->ask(job, cancelled, ret_answer, err);
    if (status != PST_OK) {
        kind->finish(ret_answer);
    }
    return status;
}

/* Does not return: the end of the process frees what it has allocated. */
static void serve_question(const struct pst_apart_kind *kind, struct pst_wire *question)
{
    void *job = pst_arena_alloc(question->arena, kind->job_size, 0);
    void *found = pst_arena_alloc(question->arena, kind->answer_size, 0);
    struct pst_wire reply = {.reads = false};
    struct pst_error err = {0};
    pst_status status = PST_OK;

    kind->pass_job(question, job);
    if (!pst_wire_is_read(question)) {
        status = pst_fail(&err, PST_ERR_BUG, "internal", "half a question");
    } else if (kind->open != NULL) {
        status = kind->open(job, &err);
    }
    if (status == PST_OK) {
        pst_worker_started();
        status = kind->ask(job, pst_worker_stopped_or_late, found, &err);
    }
    if (status == PST_OK) {
        pst_apart_put(kind, job, found, &reply);
    }
    pst_worker_answer(status == PST_OK ? &reply : NULL, &err);
}

bool pst_apart_serve(int argc, char **argv, const struct pst_apart_kind *const *kinds, size_t n)
{
    struct pst_arena arena = {0};
    struct pst_error err;
    size_t length;
    char *job;

    if (!pst_worker_begin(argc, argv, &job, &length)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        struct pst_wire question = pst_wire_read(job, length, &arena);

        pst_wire_word(&question, kinds[i]->word);
        if (!question.failed) {
            serve_question(kinds[i], &question);
        }
    }
    pst_fail(&err, PST_ERR_BUG, "internal", "half a job");
    pst_worker_answer(NULL, &err);
}
