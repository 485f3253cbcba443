/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a planner's process: sends the job, takes answers and output as they come, keeps time, and
 * leaves nothing behind.
 */
#include "host/child.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>

#include "base/memory.h"
#include "base/log.h"
#include "base/util.h"
#include "host/process.h"
#include "host/shipped.h"

/* --- how it ended, and what that means for the user -------------------------------------------*/

/* Address space that counts as used up: the allocation that failed is missing from it. */
static bool is_used_up(uint64_t bytes, uint64_t limit)
{
    return limit > 0 && bytes >= limit - limit / 8;
}

/* Exit code 3; 70 where no plugin was called yet. */
#define fail(err, blame, status, kind, ...)                                                        \
    pst_fail(err, status, (blame)->known ? (kind) : "internal", __VA_ARGS__)

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

#define NO_UNIT 1024 /* nobody means so few bytes: the unit is missing, as in memory_limit = 16 */

/* The planner itself had no room, before or between calls of plugins. */
static pst_status fail_own_memory(const struct pst_worker_task *task, bool used_up,
                                  struct pst_error *err)
{
    const uint64_t bytes = task->memory_limit_bytes;
    char limit[32];

    if (!used_up || task->describes || bytes == pst_worker_default_memory()) {
        return pst_fail_nomem(err); /* the user has set no such limit */
    }
    pst_fail(err, PST_ERR_CONFIG, "config.value",
             "plugins.memory_limit is %s, too little for the planner itself",
             pst_format_bytes(limit, bytes));
    if (bytes < NO_UNIT) {
        pst_error_hint(err, "is \"%llu GiB\" meant?", (unsigned long long)bytes);
    }
    return PST_ERR_CONFIG;
}

static pst_status fail_memory(const struct pst_worker_task *task, const struct pst_blame *blame,
                              bool used_up, struct pst_error *err)
{
    char limit[32];

    if (!blame->known) {
        return fail_own_memory(task, used_up, err);
    }
    return fail(err, blame, PST_ERR_NOMEM, "plugin.memory", "%s took more memory than %s%s, %s",
                blame->subject, pst_format_bytes(limit, task->memory_limit_bytes),
                task->describes ? "" : ", the plugins.memory_limit", blame->place);
}

/* Plugins of that process that did not come with the program, or NULL; free() it. */
static char *list_foreign(const struct pst_breadcrumb_page *page)
{
    struct pst_breadcrumb_plugin plugin;
    char *list = NULL;

    for (uint32_t i = 0; pst_breadcrumb_name(page, i, &plugin); i++) {
        struct pst_shipped shipped;
        char *longer;

        pst_shipped_find(plugin.path, &shipped);
        if (shipped.is) {
            continue;
        }
        longer = pst_printf("%s%s%s \"%s\" (%s)", list == NULL ? "" : list,
                            list == NULL ? "" : ", ", plugin.kind, plugin.id, plugin.path);
        free(list);
        list = longer;
    }
    return list;
}

/* The plugin that was called last may have done nothing: the call that did it has returned. */
static void fail_keeper(const struct pst_breadcrumb_page *page, struct pst_error *err)
{
    char *foreign = list_foreign(page);

    pst_fail(err, PST_ERR_BUG, "plugin.crash",
             "the process that keeps the planner's was killed with SIGKILL%s%s",
             foreign == NULL ? "" : ", perhaps by a plugin: ", foreign == NULL ? "" : foreign);
    free(foreign);
}

static pst_status fail_crash(const struct pst_worker_end *end,
                             const struct pst_worker_reader *reader, const struct pst_blame *blame,
                             const struct pst_breadcrumb_page *page, struct pst_error *err)
{
    const char *kind = "plugin.crash", *subject = blame->subject, *where = blame->place;
    int signal = WIFSIGNALED(end->wait_status) ? WTERMSIG(end->wait_status) : 0;
    int status = WEXITSTATUS(end->wait_status);

    if (reader->broken) {
        fail(err, blame, PST_ERR_BUG, "plugin.contract", "%s garbled the planner's answer",
             subject);
    } else if (signal == SIGKILL && !atomic_load(&page->kept) && blame->known) {
        fail_keeper(page, err);
    } else if (signal != 0) {
        const char *name = sigabbrev_np(signal);

        fail(err, blame, PST_ERR_BUG, kind, "%s %s with SIG%s %s", subject,
             signal == SIGKILL ? "was killed" : "crashed", name != NULL ? name : "?", where);
    } else if (status == PST_WORKER_UNSENT && !blame->known) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "machine.process",
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
    pst_status status;

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
            return fail_memory(task, &blame, used_up, err); /* the host's own was missing there */
        }
        if (end->stop == PST_WORKER_TIMED_OUT && strcmp(reader->error.kind, "run.cancelled") == 0) {
            return fail_timeout(task, end, page, err);
        }
        return pst_error_pass(err, &reader->error);
    }
    if (end->stop == PST_WORKER_CANCELLED) {
        return pst_fail(err, PST_ERR_CANCELLED, "run.cancelled", "planning was stopped");
    }
    if (end->stop == PST_WORKER_TIMED_OUT && end->killed) {
        status = fail_timeout(task, end, page, err);
    } else if (used_up) {
        status = fail_memory(task, &blame, true, err);
    } else {
        status = fail_crash(end, reader, &blame, page, err);
    }
    pst_worker_output_tail(output, err);
    return status;
}

/* --- the run ----------------------------------------------------------------------------------*/

#define SECOND_NS   ((uint64_t)1000000000)
#define TERM_NS     (2 * SECOND_NS) /* from the time limit to SIGTERM */
#define KILL_NS     (5 * SECOND_NS) /* from the time limit to SIGKILL */
#define TICK_MS     50
#define CHUNK_BYTES ((size_t)64 << 10) /* as many as a pipe holds */

struct run {
    const struct pst_worker_task *task;
    struct pst_process process;
    struct pst_breadcrumb_page *page;
    struct pst_worker_reader reader;
    struct pst_worker_output *output;
    struct pst_worker_end end;
    char *job; /* head, then text */
    size_t job_length, job_sent;
    uint64_t started_ns, stop_ns; /* 0: not yet */
    int last_signal;
    int pipe_errno; /* why the process could not be talked to; 0: it could */
    char *chunk;    /* [CHUNK_BYTES] */
};

static bool offered;

void pst_worker_offer(void)
{
    offered = true;
}

static pst_status make_job(struct run *run, const struct pst_wire *question, struct pst_error *err)
{
    const struct pst_worker_job job = {.length = question->n,
                                       .memory_limit_bytes = run->task->memory_limit_bytes,
                                       .log_level = pst_log_level()};

    if (job.length > PST_WORKER_JOB_BYTES) {
        return pst_fail(err, PST_ERR_CONFIG, "config.limit", "the job is too large");
    }
    run->job_length = sizeof job + question->n;
    run->job = pst_alloc(run->job_length, 1);
    run->output = pst_alloc(1, sizeof *run->output);
    run->chunk = pst_alloc(CHUNK_BYTES, 1);
    run->output->plugin = PST_NONE;
    memcpy(run->job, &job, sizeof job);
    memcpy(run->job + sizeof job, question->bytes, question->n);
    return PST_OK;
}

/* LD_BIND_NOW: a function that is missing is found when a plugin is loaded, not when it is called.
 */
static pst_status start_process(struct run *run, struct pst_error *err)
{
    char name[] = "penstock", flag[] = PST_WORKER_FLAG, parent[24];
    char *argv[] = {name, flag, parent, NULL};
    int code;

    snprintf(parent, sizeof parent, "%ld", (long)getpid());
    code = pst_process_start(&run->process, argv, "LD_BIND_NOW=1", true, sizeof *run->page);
    run->page = run->process.page;
    if (code != 0) {
        pst_fail(err, PST_ERR_UNSUPPORTED, "machine.process",
                 "no process for planning can be started: %s", strerror(code));
        pst_error_hint(err, "plugins.isolate = \"never\" plans without one");
        return PST_ERR_UNSUPPORTED;
    }
    return PST_OK;
}

/* Has a pipe ended? EPIPE: at the other side, whose own affair that is. */
static bool has_broken(struct run *run, ssize_t n)
{
    if (n >= 0 || errno == EAGAIN || errno == EINTR) {
        return false;
    }
    run->pipe_errno = errno == EPIPE ? run->pipe_errno : errno;
    return true;
}

static void send_job(struct run *run)
{
    ssize_t n =
        write(run->process.job_fd, run->job + run->job_sent, run->job_length - run->job_sent);

    if (n > 0) {
        run->job_sent += (size_t)n;
    }
    if (has_broken(run, n) || run->job_sent == run->job_length) {
        pst_process_close(&run->process.job_fd);
    }
}

/* Takes what is there; false when there is nothing more for now. */
static bool receive(struct run *run, int *fd)
{
    ssize_t n = read(*fd, run->chunk, CHUNK_BYTES);

    if (n == 0 || has_broken(run, n)) {
        pst_process_close(fd);
        return false;
    }
    if (n > 0 && fd == &run->process.answer_fd) {
        pst_worker_reader_take(&run->reader, run->chunk, (size_t)n);
    } else if (n > 0) {
        pst_worker_output_take(run->output, run->chunk, (size_t)n);
    }
    return n > 0;
}

static void exchange(struct run *run)
{
    struct pst_process *p = &run->process;
    struct pollfd fds[] = {{.fd = p->job_fd, .events = POLLOUT},
                           {.fd = p->answer_fd, .events = POLLIN},
                           {.fd = p->output_fd, .events = POLLIN}};
    bool silent = p->answer_fd < 0 && p->output_fd < 0; /* it is about to end */

    if (poll(fds, 3, silent ? 1 : TICK_MS) <= 0) {
        return;
    }
    if (fds[0].revents != 0) {
        send_job(run);
    }
    if (fds[1].revents != 0) {
        receive(run, &p->answer_fd);
    }
    if (fds[2].revents != 0) {
        receive(run, &p->output_fd);
    }
    if (run->reader.started && run->started_ns == 0) {
        run->started_ns = pst_now_ns();
    }
}

/* While it is loaded, a plugin has nothing that tells it to end. */
static bool cannot_heed(const struct run *run)
{
    struct pst_blame blame;

    pst_breadcrumb_read(run->page, &blame);
    return run->task->describes || blame.loads;
}

static void keep_time(struct run *run)
{
    const struct pst_worker_task *task = run->task;
    uint64_t now = pst_now_ns(), passed;

    if (run->end.stop != PST_WORKER_CANCELLED && task->cancelled != NULL && task->cancelled()) {
        run->end.stop = PST_WORKER_CANCELLED;
        run->stop_ns = run->stop_ns != 0 ? run->stop_ns : now;
        atomic_store(&run->page->stop, true);
    } else if (run->stop_ns == 0 && task->time_limit_ns > 0 && run->started_ns > 0 &&
               now - run->started_ns >= task->time_limit_ns) {
        run->end.stop = PST_WORKER_TIMED_OUT;
        run->stop_ns = now;
        atomic_store(&run->page->late, true);
    }
    passed = run->stop_ns == 0 ? 0 : cannot_heed(run) ? KILL_NS : now - run->stop_ns;
    if (passed >= KILL_NS) {
        run->last_signal = SIGKILL;
    } else if (passed >= TERM_NS && run->last_signal == 0) {
        run->last_signal = SIGTERM;
        pst_process_ask_to_end(&run->process);
    }
}

/* Reads what is left in a pipe, which is at most two chunks. Does not wait for descendants that
   have left the process group and still write. */
static void drain(struct run *run, int *fd)
{
    for (int i = 0; i < 2 && *fd >= 0 && receive(run, fd); i++) {
    }
}

static void watch(struct run *run)
{
    struct pst_process *process = &run->process;

    while (!pst_process_has_ended(process) && run->last_signal != SIGKILL && !run->reader.broken) {
        keep_time(run);
        exchange(run);
    }
    run->end.end_ns = pst_now_ns();
    run->end.killed = run->last_signal != 0;
    pst_process_end(process);
    run->end.wait_status = process->wait_status;
    drain(run, &process->answer_fd);
    drain(run, &process->output_fd);
}

static void finish_run(struct run *run)
{
    pst_process_finish(&run->process);
    pst_worker_reader_finish(&run->reader);
    free(run->output);
    free(run->chunk);
    free(run->job);
}

pst_status pst_worker_ask(const struct pst_worker_task *task, const struct pst_wire *question,
                          char **ret_answer, size_t *ret_length, struct pst_error *err)
{
    struct run run = {.task = task,
                      .process = {.job_fd = -1, .answer_fd = -1, .output_fd = -1},
                      .reader = {.plugin = PST_NONE},
                      .end = {.stop = PST_WORKER_RUNS}};
    pst_status status;

    if (!offered) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "machine.process",
                        "this program cannot plan in a process of its own; set plugins.isolate = "
                        "\"never\"");
    }
    status = make_job(&run, question, err);
    PST_TRY(status, start_process(&run, err));
    if (status == PST_OK) {
        watch(&run);
        pst_worker_output_log(run.output, run.page);
        status = pst_worker_judge(task, &run.end, &run.reader, run.page, run.output, err);
    }
    if (status != PST_OK && run.pipe_errno != 0) {
        status =
            pst_fail(err, PST_ERR_UNSUPPORTED, "machine.process",
                     "the process that plans cannot be talked to: %s", strerror(run.pipe_errno));
    }
    if (status == PST_OK) {
        *ret_answer = run.reader.plan;
        *ret_length = run.reader.plan_length;
        run.reader.plan = NULL;
    }
    finish_run(&run);
    return status;
}
