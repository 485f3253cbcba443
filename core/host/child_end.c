/* SPDX-License-Identifier: Apache-2.0
 *
 * How the planner's process ended, and what that means for the user.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/util.h"
#include "host/child.h"

/* Address space that counts as used up: the allocation that failed is missing from it. */
static bool is_used_up(uint64_t bytes, uint64_t limit)
{
    return limit > 0 && bytes >= limit - limit / 8;
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
    return pst_fail(err, st, blame->known ? kind : "internal", "%s", message);
}

static pst_status fail_timeout(const struct pst_worker_task *task, const struct pst_worker_end *end,
                               const struct pst_breadcrumb_page *page, struct pst_error *err)
{
    const char *name = task->time_limit_name != NULL ? task->time_limit_name : "plugins.time_limit";
    struct pst_blame blame;
    char limit[32];

    if (end->killed) {
        pst_breadcrumb_read(page, &blame);
    } else {
        pst_breadcrumb_read_late(page, &blame);
    }
    if (!task->describes) {
        return pst_blame_timeout(&blame, task->time_limit_ns, name, end->end_ns, err);
    }
    pst_format_ns(limit, task->time_limit_ns);
    return fail(err, &blame, PST_ERR_CANCELLED, "plugin.timeout",
                "%s said nothing of itself for %s, %s", blame.subject, limit, blame.place);
}

static pst_status fail_memory(const struct pst_worker_task *task, const struct pst_blame *blame,
                              struct pst_error *err)
{
    char limit[32];

    if (!blame->known) {
        return pst_fail_nomem(err);
    }
    return fail(err, blame, PST_ERR_NOMEM, "plugin.memory", "%s took more memory than %s%s, %s",
                blame->subject, pst_format_bytes(limit, task->memory_limit_bytes),
                task->describes ? "" : ", the plugins.memory_limit", blame->place);
}

static pst_status fail_crash(const struct pst_worker_end *end,
                             const struct pst_worker_reader *reader, const struct pst_blame *blame,
                             struct pst_error *err)
{
    const char *kind = "plugin.crash", *subject = blame->subject, *where = blame->place;
    int signal = WIFSIGNALED(end->wait_status) ? WTERMSIG(end->wait_status) : 0;
    int status = WEXITSTATUS(end->wait_status);

    if (reader->broken) {
        fail(err, blame, PST_ERR_BUG, "plugin.contract", "%s garbled the planner's answer",
             subject);
    } else if (signal != 0) {
        const char *name = sigabbrev_np(signal);

        fail(err, blame, PST_ERR_BUG, kind, "%s %s with SIG%s %s", subject,
             signal == SIGKILL ? "was killed" : "crashed", name != NULL ? name : "?", where);
    } else if (status == PST_WORKER_UNSENT && !blame->known) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                        "the process that plans cannot read its job or send its answer; memory or "
                        "descriptors may be exhausted");
    } else if (status == PST_WORKER_UNSENT) {
        fail(err, blame, PST_ERR_BUG, kind, "%s closed the planner's way out %s", subject, where);
    } else {
        fail(err, blame, PST_ERR_BUG, kind, "%s ended the planner with exit status %d %s", subject,
             status, where);
    }
    if (signal == SIGKILL && !reader->broken) {
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
    bool left = end->wait_status == 0 && !reader->broken;
    bool used_up = is_used_up(atomic_load(&page->vm_bytes), task->memory_limit_bytes);
    struct pst_blame blame;
    pst_status st;

    if (left && reader->plan != NULL) {
        return PST_OK;
    }
    if (reader->broken) {
        pst_breadcrumb_read_plugin(page, reader->plugin, &blame);
    } else {
        pst_breadcrumb_read(page, &blame);
    }
    if (left && reader->has_error) {
        if (task->memory_limit_bytes > 0 && strcmp(reader->error.kind, "machine.memory") == 0) {
            return fail_memory(task, &blame, err); /* the host's own was missing there */
        }
        if (end->stop == PST_WORKER_TIMED_OUT && strcmp(reader->error.kind, "run.cancelled") == 0) {
            return fail_timeout(task, end, page, err);
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
        st = fail_timeout(task, end, page, err);
    } else if (used_up) {
        st = fail_memory(task, &blame, err);
    } else {
        st = fail_crash(end, reader, &blame, err);
    }
    pst_worker_output_tail(output, err);
    return st;
}
