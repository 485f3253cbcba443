/* SPDX-License-Identifier: Apache-2.0
 *
 * A save goes through phases: the copies are made; every process writes its shard; they gather the
 * sums; the first one commits; all hear how it ended. The thread has one task at a time, and while
 * it has one the job is its own.
 */
#include "checkpoint/saver_impl.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/random.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/util.h"

enum { MOST_FAILURES = 3, RUN_ID = 17, FIRST_AUTO = 3 };

enum task { TASK_NONE = 0, TASK_SHARD, TASK_COMMIT, TASK_BOTH, TASK_QUIT };

/* How far a process is, for the others. */
struct word {
    uint32_t busy, failed;
    uint64_t bytes, next; /* of the first process: of all files; the step to save at by auto */
    char message[512];
};

/* The thread that writes. The job is the caller's while there is no task; `task` and what follows
   it are written under the mutex. */
struct worker {
    struct saver_job job;
    pthread_t thread;
    bool started;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    enum task task;
    pst_status status; /* of the last task */
    struct pst_error error;
    uint64_t ended_ns;
};

struct pst_saver {
    struct worker worker;
    struct pst_saver_config config;
    const struct pst_team *team;
    struct saver_layout layout;
    char run[RUN_ID];
    float *values, **ranks; /* copies; where those of each local rank are */
    int lock;
    struct pst_exec *exec;

    bool active, gathered; /* a save is under way; the sums of its shards are here */
    uint64_t begun_ns, blocked_ns;
    uint32_t n_failed;          /* in a row */
    struct pst_error failed;    /* why, of the last of them */
    uint64_t copy_ns, write_ns; /* of the last save; 0: none ended yet */
    uint64_t next;              /* the step to save at by auto; 0: not known yet */
};

/* --- the thread ------------------------------------------------------------------------------- */

static void *run_thread(void *argument)
{
    struct worker *w = argument;

    pthread_mutex_lock(&w->mutex);
    for (;;) {
        struct pst_error err = {0};
        pst_status status = PST_OK;
        enum task task;

        while (w->task == TASK_NONE) {
            pthread_cond_wait(&w->changed, &w->mutex);
        }
        task = w->task;
        pthread_mutex_unlock(&w->mutex);
        if (task == TASK_QUIT) {
            return NULL;
        }
        if (task != TASK_COMMIT) {
            status = saver_write_shard(&w->job, &err);
        }
        if (task != TASK_SHARD && status == PST_OK) {
            status = saver_commit(&w->job, &err);
        }
        pthread_mutex_lock(&w->mutex);
        w->status = status;
        w->error = err;
        w->ended_ns = pst_now_ns();
        w->task = TASK_NONE;
        pthread_cond_broadcast(&w->changed);
    }
}

static void give_task(struct worker *w, enum task task)
{
    pthread_mutex_lock(&w->mutex);
    w->task = task;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->mutex);
}

static bool is_busy(struct worker *w)
{
    bool busy;

    pthread_mutex_lock(&w->mutex);
    busy = w->task != TASK_NONE;
    pthread_mutex_unlock(&w->mutex);
    return busy;
}

static void await_thread(struct worker *w)
{
    pthread_mutex_lock(&w->mutex);
    while (w->task != TASK_NONE) {
        pthread_cond_wait(&w->changed, &w->mutex);
    }
    pthread_mutex_unlock(&w->mutex);
}

/* Signals are for the main thread. */
static pst_status start_thread(struct worker *w, struct pst_error *err)
{
    sigset_t all, old;

    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->changed, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    w->started = pthread_create(&w->thread, NULL, run_thread, w) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return w->started ? PST_OK
                      : pst_fail(err, PST_ERR_NOMEM, "machine.threads",
                                 "cannot start the thread that writes checkpoints");
}

/* --- creating --------------------------------------------------------------------------------- */

/* Makes the id of the run; all processes get the first one's. */
static pst_status name_run(struct pst_saver *saver, struct pst_error *err)
{
    uint64_t number = pst_now_ns() ^ (uint64_t)getpid() << 32;

    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number) {
        number ^= (uint64_t)(uintptr_t)saver << 16;
    }
    snprintf(saver->run, sizeof saver->run, "%016llx", (unsigned long long)number);
    return saver->team->ops != NULL
               ? saver->team->ops->broadcast(saver->run, sizeof saver->run, err)
               : PST_OK;
}

/* All memory that saving takes. */
static void allocate(struct pst_saver *saver)
{
    struct saver_layout *layout = &saver->layout;
    const struct pst_plan *plan = saver->config.session->planned.plan;
    const uint32_t process = layout->n_processes > 1 ? saver->team->rank : 0;
    const uint32_t n_local = layout->n_processes > 1 ? 1 : plan->n_devices;

    saver->values = pst_alloc(layout->elems[process] + 1, sizeof *saver->values);
    saver->ranks = pst_alloc(n_local, sizeof(float *));
    for (uint32_t i = 0; i < n_local; i++) {
        saver->ranks[i] =
            saver->values + layout->rank_offset[layout->n_processes > 1 ? process : i];
    }
    saver->worker.job = (struct saver_job){
        .config = &saver->config,
        .layout = layout,
        .folder = saver->config.session->job->training->checkpoint.folder,
        .run = saver->run,
        .process = process,
        .values = saver->values,
        .sums = pst_arena_array(&layout->arena, layout->n_processes, layout->sums_bytes),
        .moment = {.step = saver->config.first_step}};
}

static uint64_t total_bytes(const struct saver_layout *layout)
{
    uint64_t elems = 0;

    for (uint32_t p = 0; p < layout->n_processes; p++) {
        elems += layout->elems[p];
    }
    return elems * sizeof(float);
}

pst_status pst_saver_create(const struct pst_saver_config *config, struct pst_saver **ret_saver,
                            struct pst_error *err)
{
    struct pst_saver *saver = pst_alloc(1, sizeof *saver);
    pst_status status;

    saver->config = *config;
    saver->team = &config->session->team;
    saver->lock = -1;
    saver_layout_make(&saver->layout, config->session);
    status = name_run(saver, err);
    if (status == PST_OK && pst_team_is_first(saver->team)) {
        status = saver_take_folder(config, total_bytes(&saver->layout), &saver->lock, err);
    }
    if (status == PST_OK) {
        allocate(saver);
        status = start_thread(&saver->worker, err);
    }
    if (status != PST_OK) {
        pst_saver_destroy(saver);
        return status;
    }
    *ret_saver = saver;
    return PST_OK;
}

void pst_saver_destroy(struct pst_saver *saver)
{
    if (saver == NULL) {
        return;
    }
    if (saver->worker.started) {
        await_thread(&saver->worker);
        if (saver->active && (saver->layout.n_processes > 1 || saver->worker.status != PST_OK)) {
            saver_remove_partial(&saver->worker.job);
        }
        give_task(&saver->worker, TASK_QUIT);
        pthread_join(saver->worker.thread, NULL);
        pthread_mutex_destroy(&saver->worker.mutex);
        pthread_cond_destroy(&saver->worker.changed);
    }
    if (saver->lock >= 0) {
        close(saver->lock);
    }
    pst_arena_finish(&saver->layout.arena);
    free(saver->layout.tensors);
    free(saver->layout.pieces);
    free(saver->values);
    free(saver->ranks);
    free(saver);
}

/* --- when ------------------------------------------------------------------------------------- */

pst_status pst_saver_begin(struct pst_saver *saver, struct pst_exec *exec, struct pst_error *err)
{
    uint64_t begin;
    pst_status status;

    saver->exec = exec;
    memset(saver->values, 0xFF,
           saver->layout.elems[saver->worker.job.process] * sizeof *saver->values);
    begin = pst_now_ns();
    status = pst_exec_copy_state(exec, saver->ranks, err);
    saver->copy_ns = pst_now_ns() - begin;
    return status;
}

/* So many steps that a save blocks the run for save_budget of their time, and that the last one is
   written when the next is due. */
static uint64_t auto_interval(const struct pst_saver *saver, uint64_t step_ns)
{
    const double budget = saver->config.session->job->training->checkpoint.save_budget;
    const double step = step_ns > 0 ? (double)step_ns : 1;
    const double blocked = ceil((double)saver->copy_ns / (budget * step));
    const double written = ceil((double)saver->write_ns / step);
    const double steps = blocked > written ? blocked : written;

    return steps < 1 ? 1 : steps > 1e12 ? (uint64_t)1e12 : (uint64_t)steps;
}

static void tell_interval(const struct pst_saver *saver, uint64_t interval, uint64_t step_ns)
{
    const struct pst_job_checkpoint *rules = &saver->config.session->job->training->checkpoint;
    const double young = sqrt(2.0 * (double)saver->copy_ns * (double)rules->mtbf);
    char copy[32], step[32];

    pst_log(PST_LOG_INFO, "checkpoint",
            "one every %llu steps: saving blocks the run for %s, a step takes %s; Young's interval "
            "is %.0f steps",
            (unsigned long long)interval, pst_format_ns(copy, saver->copy_ns),
            pst_format_ns(step, step_ns), ceil(young / (double)(step_ns > 0 ? step_ns : 1)));
}

/* On the first process, whose clock is the one that counts. */
static void set_next(struct pst_saver *saver, const struct pst_save_moment *moment)
{
    const uint64_t interval = auto_interval(saver, moment->step_ns);

    saver->next = moment->step + interval;
    tell_interval(saver, interval, moment->step_ns);
}

bool pst_saver_is_due(const struct pst_saver *saver, uint64_t step)
{
    const struct pst_job_checkpoint *rules = &saver->config.session->job->training->checkpoint;

    return rules->automatic ? saver->next > 0 && step >= saver->next
                            : rules->every > 0 && step % rules->every == 0;
}

/* --- how it goes on --------------------------------------------------------------------------- */

pst_status pst_saver_lost(const struct pst_saver *saver, struct pst_error *err)
{
    if (saver->n_failed == 0) {
        return PST_OK;
    }
    if (err != NULL) {
        *err = saver->failed;
    }
    if (saver->n_failed >= MOST_FAILURES) {
        pst_error_prefix(err, "%u checkpoints in a row were not saved; the last", saver->n_failed);
    } else {
        pst_error_prefix(err, "the last checkpoint was not saved");
    }
    return PST_ERR_IO;
}

/* Tells how the save ended. */
static pst_status end_save(struct pst_saver *saver, const char *failed, struct pst_error *err)
{
    char *path = pst_checkpoint_path(saver->worker.job.folder, saver->worker.job.moment.step);
    struct pst_save_report report = {.step = saver->worker.job.moment.step,
                                     .path = path,
                                     .bytes = saver->worker.job.written_bytes,
                                     .blocked_ns = saver->blocked_ns,
                                     .ns = saver->worker.ended_ns - saver->begun_ns};
    pst_status status = PST_OK;

    saver->active = false;
    saver->write_ns = report.ns;
    saver->n_failed = failed == NULL ? 0 : saver->n_failed + 1;
    if (failed != NULL) {
        pst_fail_at(&saver->failed, PST_ERR_IO, "output.write", path, 0, 0, "%s", failed);
        saver->failed.exit_code = 1;
        report.failed = &saver->failed;
        if (pst_team_is_first(saver->team)) {
            saver_remove_partial(&saver->worker.job);
            pst_log(PST_LOG_WARN, "checkpoint", "checkpoint of step %llu was not saved in %s: %s",
                    (unsigned long long)report.step, saver->worker.job.folder, failed);
        }
    }
    if (saver->config.saved != NULL) {
        saver->config.saved(saver->config.context, &report);
    }
    if (saver->n_failed == MOST_FAILURES) {
        status = pst_saver_lost(saver, err);
    }
    free(path);
    return status;
}

/* The checkpoint and its folder are named beside the text: here only a file in it. */
static void describe_failure(const struct pst_saver *saver, char *text, size_t size)
{
    const struct pst_error *err = &saver->worker.error;
    const char *slash = strrchr(err->file, '/');
    const char *name = strcmp(err->file, saver->worker.job.folder) == 0 ? ""
                       : slash != NULL                                  ? slash + 1
                                                                        : err->file;

    snprintf(text, size, "%.60s%s%.440s", name, name[0] != '\0' ? ": " : "", err->message);
}

/* One process alone: the thread does all of it. */
static pst_status check_thread(struct pst_saver *saver, struct pst_error *err)
{
    char text[512];

    if (!saver->active || is_busy(&saver->worker)) {
        return PST_OK;
    }
    describe_failure(saver, text, sizeof text);
    return end_save(saver, saver->worker.status == PST_OK ? NULL : text, err);
}

/* The sums of all processes. */
static pst_status gather_sums(struct pst_saver *saver, struct pst_error *err)
{
    const size_t bytes = saver->layout.sums_bytes;
    char *mine = pst_alloc(1, bytes);
    pst_status status;

    memcpy(mine, saver_sums_of(&saver->worker.job, saver->worker.job.process), bytes);
    status = saver->team->ops->exchange(mine, saver->worker.job.sums, bytes, err);
    saver->gathered = status == PST_OK;
    free(mine);
    return status;
}

/* Words of all processes: goes on with the save, or hears how it ended. */
static pst_status hear_processes(struct pst_saver *saver, const struct word *all,
                                 struct pst_error *err)
{
    const uint32_t n = saver->layout.n_processes, last = saver->gathered ? 1 : n;
    pst_status status;

    for (uint32_t p = 0; p < last; p++) {
        if (all[p].busy) {
            return PST_OK;
        }
    }
    for (uint32_t p = 0; p < last; p++) {
        if (all[p].failed) {
            return end_save(saver, all[p].message, err);
        }
    }
    if (saver->gathered) {
        saver->worker.job.written_bytes = all[0].bytes;
        return end_save(saver, NULL, err);
    }
    status = gather_sums(saver, err);
    if (status == PST_OK && saver->worker.job.process == 0) {
        give_task(&saver->worker, TASK_COMMIT);
    }
    return status;
}

/* Several processes: a word from each, as long as there is something to hear. */
static pst_status exchange_words(struct pst_saver *saver, struct pst_error *err)
{
    struct word own = {.next = saver->next}, *all;
    pst_status status;

    own.busy = saver->active && is_busy(&saver->worker);
    if (saver->active && !own.busy) {
        own.failed = saver->worker.status != PST_OK;
        own.bytes = saver->worker.job.written_bytes;
        describe_failure(saver, own.message, sizeof own.message);
    }
    all = pst_alloc(saver->layout.n_processes, sizeof *all);
    status = saver->team->ops->exchange(&own, all, sizeof own, err);
    if (status == PST_OK) {
        saver->next = all[0].next;
        status = saver->active ? hear_processes(saver, all, err) : PST_OK;
    }
    free(all);
    return status;
}

pst_status pst_saver_poll(struct pst_saver *saver, const struct pst_save_moment *moment,
                          struct pst_error *err)
{
    const bool automatic = saver->config.session->job->training->checkpoint.automatic;
    const bool first = pst_team_is_first(saver->team);
    const bool wants = automatic && saver->next == 0 && !saver->active &&
                       moment->step >= saver->config.first_step + FIRST_AUTO;

    if (wants && first) {
        set_next(saver, moment);
    }
    if (saver->team->ops == NULL) {
        return check_thread(saver, err);
    }
    return saver->active || wants ? exchange_words(saver, err) : PST_OK;
}

uint64_t pst_saver_last(const struct pst_saver *saver)
{
    return saver->worker.job.moment.step;
}

bool pst_saver_can_resume(const struct pst_saver *saver, uint64_t *ret_step)
{
    uint64_t *steps = NULL;
    uint32_t n = 0;
    bool found = false;

    if (pst_checkpoint_list(saver->worker.job.folder, &steps, &n, NULL) != PST_OK) {
        return false;
    }
    while (n > 0 && !found) {
        char *path = pst_checkpoint_path(saver->worker.job.folder, *ret_step = steps[--n]);
        struct pst_checkpoint *checkpoint = NULL;

        found = pst_checkpoint_open(path, &checkpoint, NULL) == PST_OK;
        pst_checkpoint_close(checkpoint);
        free(path);
    }
    free(steps);
    return found;
}

pst_status pst_saver_finish(struct pst_saver *saver, struct pst_error *err)
{
    pst_status status = PST_OK;

    while (saver->active && status == PST_OK) {
        await_thread(&saver->worker);
        status = saver->team->ops == NULL ? check_thread(saver, err) : exchange_words(saver, err);
    }
    return status;
}

pst_status pst_saver_save(struct pst_saver *saver, const struct pst_save_moment *moment, bool must,
                          struct pst_error *err)
{
    const struct pst_job_checkpoint *rules = &saver->config.session->job->training->checkpoint;
    const uint64_t begin = pst_now_ns();
    pst_status status = PST_OK;

    saver->next = 0;
    if (saver->active && !must && rules->busy == PST_BUSY_SKIP) {
        if (pst_team_is_first(saver->team)) {
            pst_log(PST_LOG_WARN, "checkpoint",
                    "step %llu is not saved: the last checkpoint is still being written",
                    (unsigned long long)moment->step);
        }
        return PST_OK;
    }
    status = pst_saver_finish(saver, err);
    if (status == PST_OK && pst_fault("ckpt.snapshot", saver->worker.job.process)) {
        status = pst_fail(err, PST_ERR_DEVICE, "run.device", "PENSTOCK_FAULT at ckpt.snapshot");
        status = PST_ERR_DEVICE;
    }
    PST_TRY(status, pst_exec_copy_state(saver->exec, saver->ranks, err));
    if (status != PST_OK) {
        return status;
    }
    saver->worker.job.moment = *moment;
    saver->worker.job.moment.updates = pst_exec_updates(saver->exec);
    saver->begun_ns = begin;
    saver->blocked_ns = saver->copy_ns = pst_now_ns() - begin;
    saver->active = true;
    saver->gathered = false;
    give_task(&saver->worker, saver->team->ops == NULL ? TASK_BOTH : TASK_SHARD);
    return PST_OK;
}
