/* SPDX-License-Identifier: Apache-2.0
 *
 * How the planner's process ended, and what that means for the user.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "plugin/child_run.h"

/* Address space that counts as used up: the allocation that failed is missing from it. */
static bool is_used_up(uint64_t bytes, uint64_t limit)
{
    return limit > 0 && bytes >= limit - limit / 8;
}

struct text {
    char subject[640]; /* scheduler "foo" (path): */
    char where[704];   /* in schedule() */
};

static void describe(const struct pst_blame *blame, struct text *ret_text)
{
    if (!blame->known) {
        snprintf(ret_text->subject, sizeof ret_text->subject, "the planner's process");
        snprintf(ret_text->where, sizeof ret_text->where, "before it opened a plugin");
        return;
    }
    if (blame->running) {
        snprintf(ret_text->subject, sizeof ret_text->subject, "%s \"%s\" (%s):", blame->plugin.kind,
                 blame->plugin.id, blame->plugin.path);
        snprintf(ret_text->where, sizeof ret_text->where, "%s", blame->where);
        return;
    }
    /* Perhaps memory that a plugin wrote over was used only now. */
    snprintf(ret_text->subject, sizeof ret_text->subject, "the planner's process");
    snprintf(ret_text->where, sizeof ret_text->where,
             "between calls of plugins; the last one was %s \"%s\" (%s) %s", blame->plugin.kind,
             blame->plugin.id, blame->plugin.path, blame->where);
}

/* Exit code 3; 70 where no plugin was called yet. */
static pst_status fail(struct pst_error *err, const struct pst_blame *blame, pst_status st,
                       const char *kind, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
static pst_status fail(struct pst_error *err, const struct pst_blame *blame, pst_status st,
                       const char *kind, const char *format, ...)
{
    char message[sizeof err->message];
    va_list args;

    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    pst_fail(err, st, blame->known ? kind : "internal", "%s", message);
    if (err != NULL) {
        err->exit_code = blame->known ? 3 : 70;
    }
    return st;
}

static pst_status fail_timeout(const struct pst_worker_task *task, const struct pst_worker_end *end,
                               const struct pst_blame *blame, const struct text *text,
                               struct pst_error *err)
{
    const char *name = task->time_limit_name != NULL ? task->time_limit_name : "plugins.time_limit";
    char limit[32], since[32];

    pst_format_ns(limit, task->time_limit_ns);
    pst_format_ns(since, end->end_ns > blame->since_ns ? end->end_ns - blame->since_ns : 0);
    if (blame->known && blame->running) {
        return fail(err, blame, PST_ERR_CANCELLED, "plugin.timeout",
                    "%s made no plan in %s, the %s; it had been %s for %s and did not heed "
                    "cancelled()",
                    text->subject, limit, name, text->where, since);
    }
    return fail(err, blame, PST_ERR_CANCELLED, "plugin.timeout",
                "%s made no plan in %s, the %s; it was %s", text->subject, limit, name,
                text->where);
}

static pst_status fail_memory(const struct pst_worker_task *task, const struct pst_blame *blame,
                              const struct text *text, struct pst_error *err)
{
    char limit[32];

    return fail(err, blame, PST_ERR_NOMEM, "plugin.memory",
                "%s took more memory than %s, the plugins.memory_limit, %s", text->subject,
                pst_format_bytes(limit, task->memory_limit_bytes), text->where);
}

static pst_status fail_crash(const struct pst_worker_end *end,
                             const struct pst_worker_reader *reader, const struct pst_blame *blame,
                             const struct text *text, struct pst_error *err)
{
    const char *kind = "plugin.crash", *subject = text->subject, *where = text->where;

    if (reader->broken) {
        fail(err, blame, PST_ERR_BUG, "plugin.contract", "%s garbled the planner's answer %s",
             subject, where);
    } else if (end->code != CLD_EXITED) {
        const char *name = sigabbrev_np(end->status);

        fail(err, blame, PST_ERR_BUG, kind, "%s %s with SIG%s %s", subject,
             end->status == SIGKILL ? "was killed" : "crashed", name != NULL ? name : "?", where);
    } else if (end->status == PST_WORKER_UNSENT) {
        fail(err, blame, PST_ERR_BUG, kind, "%s closed the planner's way out %s", subject, where);
    } else {
        fail(err, blame, PST_ERR_BUG, kind, "%s ended the planner with exit status %d %s", subject,
             end->status, where);
    }
    if (end->code != CLD_EXITED && end->status == SIGKILL && !reader->broken) {
        pst_error_hint(err, "a system without memory kills processes; plugins.memory_limit sets a "
                            "limit before that");
    } else {
        pst_error_hint(err, "report it to %s",
                       blame->known ? "its author" : "the authors of penstock");
    }
    return PST_ERR_BUG;
}

pst_status pst_worker_judge(const struct pst_worker_task *task, const struct pst_worker_end *end,
                            const struct pst_worker_reader *reader,
                            const struct pst_breadcrumb_page *page,
                            const struct pst_worker_output *output, struct pst_error *err)
{
    bool left = end->code == CLD_EXITED && end->status == 0 && !reader->broken;
    bool used_up = is_used_up(atomic_load(&page->vm_bytes), task->memory_limit_bytes);
    struct pst_blame blame;
    struct text text;
    pst_status st;

    if (left && reader->plan != NULL) {
        return PST_OK;
    }
    if (reader->no_memory) {
        return pst_fail_nomem(err);
    }
    pst_breadcrumb_read(page, &blame);
    describe(&blame, &text);
    if (left && reader->has_error) {
        if (used_up && strcmp(reader->error.kind, "machine.memory") == 0) {
            return fail_memory(task, &blame, &text, err);
        }
        if (err != NULL) {
            *err = reader->error;
        }
        return reader->error.status;
    }
    if (end->stop == PST_WORKER_CANCELLED) {
        return pst_fail(err, PST_ERR_CANCELLED, "run.cancelled", "planning was stopped");
    }
    if (end->stop == PST_WORKER_TIMED_OUT && end->killed) {
        st = fail_timeout(task, end, &blame, &text, err);
    } else if (used_up) {
        st = fail_memory(task, &blame, &text, err);
    } else {
        st = fail_crash(end, reader, &blame, &text, err);
    }
    pst_worker_output_tail(output, err);
    return st;
}
