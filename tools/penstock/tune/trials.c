/* SPDX-License-Identifier: Apache-2.0
 *
 * A process is forked, not started: it needs all that is known here, and there is nothing else in
 * this one that could be in the middle of something. Where there is, nothing is forked.
 */
#include "tune/trials.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/signals.h"
#include "base/wire.h"

#define IDLE         UINT32_MAX
#define EXIT_MACHINE 4 /* of what ends a program without memory (base/memory.h) */

struct worker {
    pid_t pid;
    int fd;         /* both ways; -1: it is not there */
    uint32_t trial; /* that it is at; IDLE: none */
    uint32_t turn;  /* in the order in which trials are begun */
};

/* The outcome of one trial; its bytes follow. */
struct head {
    uint64_t length;
    pst_status status; /* of pst_trial_run */
};

/* --- the end -----------------------------------------------------------------------------------*/

/* Asked to stop: by a signal, or by whoever wanted the trials. */
static bool is_over(const struct pst_trials *trials)
{
    return trials->options.cancelled != NULL ? trials->options.cancelled() : pst_stop_requested();
}

static pst_status fail_over(struct pst_error *err)
{
    return pst_stop_requested()
               ? pst_stop_fail(err)
               : pst_fail(err, PST_ERR_CANCELLED, "run.cancelled", "the trials were ended");
}

/* The next one, where so many have been begun. */
static bool find_next(const struct pst_trials *trials, uint32_t n_begun, uint32_t *ret_i)
{
    if (trials->next != NULL) {
        return trials->next(trials->context, ret_i);
    }
    *ret_i = n_begun;
    return n_begun < trials->n;
}

/* --- a trial between two copies of the same program --------------------------------------------*/

static void code_trial(struct pst_wire *w, struct pst_trial *trial)
{
    struct pst_trial all = *trial; /* pointers mean nothing over there */
    const char *plan = trial->plan;

    pst_wire_bytes(w, &all, sizeof all);
    if (w->reads) {
        *trial = all;
        trial->arena = (struct pst_arena){0};
        w->arena = &trial->arena;
        trial->step_ns = NULL;
        plan = NULL;
    }
    trial->arena_bytes = (uint64_t *)pst_wire_array(w, trial->arena_bytes, trial->n_devices,
                                                    sizeof *trial->arena_bytes);
    pst_remarks_pass(w, &trial->remarks, &trial->n_remarks);
    pst_wire_text(w, &plan);
    if (w->reads) {
        trial->plan = plan == NULL ? NULL : pst_strdup(plan);
    }
}

static bool send_all(int fd, const void *bytes, size_t n)
{
    const char *at = bytes;

    while (n > 0) {
        ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent <= 0) {
            return false;
        }
        at += sent;
        n -= (size_t)sent;
    }
    return true;
}

static bool receive_all(int fd, void *bytes, size_t n)
{
    char *at = bytes;

    while (n > 0) {
        ssize_t got = read(fd, at, n);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        at += got;
        n -= (size_t)got;
    }
    return true;
}

/* --- the other process -------------------------------------------------------------------------*/

static pst_status try_one(const struct pst_trials *trials, uint32_t i, struct pst_trial *ret_trial,
                          struct pst_error *err)
{
    char *config = trials->config(trials->context, i);
    pst_status status = pst_trial_run(config, &trials->options, ret_trial, err);

    free(config);
    return status;
}

static _Noreturn void run_worker(const struct pst_trials *trials, int fd)
{
    uint32_t i;

    while (receive_all(fd, &i, sizeof i)) {
        struct pst_wire w = {.reads = false};
        struct pst_trial trial = {.state = PST_TRIAL_OPEN};
        struct pst_error err = {.status = PST_OK};
        struct head head = {.status = try_one(trials, i, &trial, &err)};

        if (head.status != PST_OK) {
            trial = (struct pst_trial){.why = err};
        }
        code_trial(&w, &trial);
        head.length = w.n;
        if (!send_all(fd, &head, sizeof head) || !send_all(fd, w.bytes, w.n)) {
            break;
        }
        free(w.bytes);
        pst_trial_finish(&trial);
    }
    _exit(0);
}

/* --- this one ----------------------------------------------------------------------------------*/

static bool has_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    uint32_t n = 0;

    while (tasks != NULL && readdir(tasks) != NULL) {
        n++;
    }
    if (tasks != NULL) {
        closedir(tasks);
    }
    return n != 3; /* itself, its folder and the one above */
}

static pst_status start_worker(struct worker *workers, uint32_t at, const struct pst_trials *trials,
                               struct pst_error *err)
{
    struct worker *worker = &workers[at];
    int ends[2];
    pid_t parent = getpid();

    *worker = (struct worker){.fd = -1, .trial = IDLE};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return pst_fail(err, PST_ERR_NOMEM, "machine.missing", "no process can be started: %s",
                        strerror(errno));
    }
    fflush(NULL);
    worker->pid = fork();
    if (worker->pid == 0) {
        for (uint32_t w = 0; w < trials->n_jobs; w++) {
            if (workers[w].fd >= 0) {
                close(workers[w].fd);
            }
        }
        close(ends[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(0);
        }
        run_worker(trials, ends[1]);
    }
    close(ends[1]);
    if (worker->pid < 0) {
        close(ends[0]);
        return pst_fail(err, PST_ERR_NOMEM, "machine.missing", "no process can be started: %s",
                        strerror(errno));
    }
    worker->fd = ends[0];
    return PST_OK;
}

/* Lets it end; returns how it did. */
static int end_worker(struct worker *worker)
{
    int status = 0;

    close(worker->fd);
    worker->fd = -1;
    while (waitpid(worker->pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

/* A process that ended in the middle of a trial: there was no memory, which it has told; else what
   it was trying made it end. */
static pst_status note_death(int status, struct pst_trial *ret_trial)
{
    *ret_trial = (struct pst_trial){.state = PST_TRIAL_FAILED};
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_MACHINE) {
        return pst_fail_nomem(&ret_trial->why);
    }
    if (WIFSIGNALED(status)) {
        pst_fail(&ret_trial->why, PST_ERR_BUG, "plugin.crash",
                 "signal %d (%s) ended the process that planned it", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    } else {
        pst_fail(&ret_trial->why, PST_ERR_BUG, "plugin.crash",
                 "the process that planned it exited with code %d", WEXITSTATUS(status));
    }
    pst_error_hint(&ret_trial->why, "plugins.isolate = \"always\" names the function");
    ret_trial->why.exit_code = 3;
    return PST_OK;
}

/* The state of a run over several processes. */
struct run {
    const struct pst_trials *trials;
    struct worker *workers;
    uint32_t n_begun, n_done;
    bool cut_short;
    pst_status status;
    struct pst_error *err;
    uint32_t failed; /* turn of the first trial with an error that ends it all */
};

static void fail_at(struct run *run, uint32_t turn, pst_status status, const struct pst_error *why)
{
    if (run->status == PST_OK || turn < run->failed) {
        run->status = status;
        run->failed = turn;
        if (run->err != NULL) {
            *run->err = *why;
        }
    }
}

static void hand_out(struct run *run, struct worker *worker)
{
    const struct pst_trials *trials = run->trials;
    uint32_t i;

    if (run->status != PST_OK || run->cut_short || !find_next(trials, run->n_begun, &i)) {
        return;
    }
    if (is_over(trials)) {
        run->cut_short = true;
        return;
    }
    worker->trial = i;
    worker->turn = run->n_begun++;
    if (trials->begun != NULL) {
        trials->begun(trials->context, worker->trial, run->n_done);
    }
    /* one that is not there any more is found when its answer is read */
    send_all(worker->fd, &worker->trial, sizeof worker->trial);
}

static void hand_out_all(struct run *run)
{
    for (uint32_t w = 0; w < run->trials->n_jobs; w++) {
        if (run->workers[w].fd >= 0 && run->workers[w].trial == IDLE) {
            hand_out(run, &run->workers[w]);
        }
    }
}

/* Takes what a process has to say. */
static void take_answer(struct run *run, uint32_t at)
{
    struct worker *worker = &run->workers[at];
    struct pst_trial trial = {.state = PST_TRIAL_OPEN};
    struct pst_error err = {.status = PST_OK};
    struct head head = {.status = PST_OK};
    const uint32_t i = worker->trial, turn = worker->turn;
    char *bytes = NULL;
    pst_status status;

    if (receive_all(worker->fd, &head, sizeof head)) {
        bytes = pst_alloc(head.length + 1, 1);
    }
    worker->trial = IDLE;
    if (bytes != NULL && receive_all(worker->fd, bytes, head.length)) {
        struct pst_wire w = pst_wire_read(bytes, head.length, NULL);

        code_trial(&w, &trial);
        PST_ASSERT(pst_wire_is_read(&w));
    } else {
        head.status = note_death(end_worker(worker), &trial);
        if (!is_over(run->trials)) {
            status = start_worker(run->workers, at, run->trials, &err);
            if (status != PST_OK) {
                fail_at(run, turn, status, &err);
            }
        }
    }
    free(bytes);
    if (head.status != PST_OK) {
        if (run->trials->drops == NULL || !run->trials->drops(run->trials->context, i)) {
            fail_at(run, turn, head.status, &trial.why);
        }
        pst_trial_finish(&trial);
        return;
    }
    if (is_over(run->trials) && worker->fd < 0) {
        pst_trial_finish(&trial); /* ended by the same signal */
        return;
    }
    run->n_done++;
    status = run->trials->each(run->trials->context, i, &trial, &err);
    if (status != PST_OK) {
        fail_at(run, turn, status, &err);
    }
}

/* Until some process has something to say; false: none is at anything. */
static bool wait_for_some(struct run *run, struct pollfd *polls)
{
    const uint32_t n = run->trials->n_jobs;
    bool busy = false;

    for (uint32_t w = 0; w < n; w++) {
        bool waits = run->workers[w].fd >= 0 && run->workers[w].trial != IDLE;

        polls[w] = (struct pollfd){.fd = waits ? run->workers[w].fd : -1, .events = POLLIN};
        busy |= waits;
        if (waits && is_over(run->trials)) {
            kill(run->workers[w].pid, SIGTERM); /* a signal may have come to this process alone */
        }
    }
    if (busy && poll(polls, n, 100) < 0) {
        memset(polls, 0, n * sizeof *polls);
    }
    return busy;
}

static bool is_through(const struct pst_trials *trials)
{
    return trials->through != NULL && trials->through(trials->context);
}

static pst_status run_apart(const struct pst_trials *trials, struct pst_error *err)
{
    struct worker *workers = pst_alloc(trials->n_jobs, sizeof *workers);
    struct pollfd *polls = pst_alloc(trials->n_jobs, sizeof *polls);
    struct run run = {.trials = trials, .workers = workers, .err = err};

    for (uint32_t w = 0; w < trials->n_jobs; w++) {
        workers[w].fd = -1;
    }
    for (uint32_t w = 0; w < trials->n_jobs && run.status == PST_OK; w++) {
        run.status = start_worker(workers, w, trials, err);
    }
    hand_out_all(&run);
    while (!is_through(trials) && wait_for_some(&run, polls)) {
        for (uint32_t w = 0; w < trials->n_jobs; w++) {
            if (polls[w].fd >= 0 && polls[w].revents != 0) {
                take_answer(&run, w);
            }
        }
        hand_out_all(&run);
    }
    for (uint32_t w = 0; w < trials->n_jobs; w++) {
        if (workers[w].fd >= 0 && workers[w].trial != IDLE) {
            kill(workers[w].pid, SIGTERM);
        }
        if (workers[w].fd >= 0) {
            end_worker(&workers[w]);
        }
    }
    free(polls);
    free(workers);
    run.cut_short |= trials->next == NULL && run.n_begun < trials->n;
    return run.status == PST_OK && run.cut_short ? fail_over(err) : run.status;
}

static pst_status run_here(const struct pst_trials *trials, struct pst_error *err)
{
    pst_status status = PST_OK;
    uint32_t i;

    for (uint32_t n = 0; status == PST_OK && find_next(trials, n, &i); n++) {
        struct pst_trial trial;

        if (is_over(trials)) {
            return fail_over(err);
        }
        if (trials->begun != NULL) {
            trials->begun(trials->context, i, n);
        }
        status = try_one(trials, i, &trial, err);
        PST_TRY(status, trials->each(trials->context, i, &trial, err));
    }
    return status;
}

pst_status pst_trials_run(const struct pst_trials *trials, struct pst_error *err)
{
    struct pst_trials some = *trials;
    pst_status status;

    some.n_jobs = trials->n_jobs < trials->n ? trials->n_jobs : trials->n;
    if (some.n_jobs > 1 && has_threads()) {
        pst_log(PST_LOG_INFO, "tune",
                "this process has several threads, so it starts no others to plan");
        some.n_jobs = 1;
    }
    status = some.n_jobs <= 1 ? run_here(trials, err) : run_apart(&some, err);
    if (pst_stop_requested()) {
        pst_stop_grace(PST_STOP_ORDERLY); /* the results so far are printed */
    }
    return status;
}
