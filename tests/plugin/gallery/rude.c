/* SPDX-License-Identifier: Apache-2.0
 *
 * A scheduler that does what no plugin may do, chosen by the RUDE_* macro that it is compiled with;
 * its answers are legal otherwise (all forwards, then all backwards).
 */
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "gallery.h"

struct rude {
    const struct pst_host *host;
    uint32_t n_calls;
};

static void *sleeper(void *unused)
{
    pause();
    return unused;
}

/* A constructor is run before anybody can object. */
#if defined(RUDE_CONSTRUCTOR_PRINTS) || defined(RUDE_CONSTRUCTOR_CRASHES) ||                       \
    defined(RUDE_CONSTRUCTOR_THREAD) || defined(RUDE_CONSTRUCTOR_FILE) ||                          \
    defined(RUDE_CONSTRUCTOR_CHDIR) || defined(RUDE_CONSTRUCTOR_SLOW) ||                           \
    defined(RUDE_CONSTRUCTOR_OPENS) || defined(RUDE_CONSTRUCTOR_LIMIT)
static void __attribute__((constructor)) begin(void)
{
#if defined(RUDE_CONSTRUCTOR_PRINTS)
    puts("thank you for loading me");
    fflush(stdout);
#elif defined(RUDE_CONSTRUCTOR_CRASHES)
    raise(SIGSEGV);
#elif defined(RUDE_CONSTRUCTOR_FILE)
    fclose(fopen("rude.log", "w"));
#elif defined(RUDE_CONSTRUCTOR_OPENS)
    (void)!fopen("/dev/null", "r");
#elif defined(RUDE_CONSTRUCTOR_LIMIT)
    const struct rlimit none = {0, 0};

    setrlimit(RLIMIT_NOFILE, &none);
#elif defined(RUDE_CONSTRUCTOR_CHDIR)
    syscall(SYS_chdir, "/"); /* by number: the name would be found in its imports */
#elif defined(RUDE_CONSTRUCTOR_SLOW)
    const struct timespec long_time = {30, 0};

    nanosleep(&long_time, NULL);
#else
    pthread_t thread;

    pthread_create(&thread, NULL, sleeper, NULL);
#endif
}
#endif

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    struct rude *self;

#if defined(RUDE_CREATE_CRASHES)
    *(volatile int *)((uintptr_t)host->abi_major << 4) = 1;
#elif defined(RUDE_CREATE_FAILS)
    return pst_failf(host, PST_ERR_UNSUPPORTED, "I only work on Sundays");
#elif defined(RUDE_CREATE_LEAKS)
    memset(malloc(100), 1, 100);
#elif defined(RUDE_CREATE_ABORTS)
    abort();
#elif defined(RUDE_CREATE_HANDLER)
    signal(SIGUSR1, SIG_IGN);
#elif defined(RUDE_CREATE_HOG)
    if (host->alloc(host, (size_t)2 << 30, 16) == NULL) {
        return PST_ERR_NOMEM;
    }
#endif
    self = host->alloc(host, sizeof *self, _Alignof(struct rude));
#ifndef RUDE_IGNORES_NOMEM
    if (self == NULL) {
#ifdef RUDE_NOMEM_IS_BUG
        return PST_ERR_BUG;
#else
        return PST_ERR_NOMEM;
#endif
    }
#endif
    self->host = host;
    *ret_self = self;
    return PST_OK;
}

static void destroy(void *self)
{
#ifdef RUDE_DESTROY_NULL
    ((struct rude *)self)->n_calls = 0;
#endif
}

static pst_status topology(void *self, uint32_t n_devices, struct pst_topology *ret_topology)
{
    ret_topology->n_stages = 0;
    ret_topology->version_rule = PST_VERSION_SYNC;
    ret_topology->min_microbatches = 1;
#ifdef RUDE_MULTIPLE_ZERO
    ret_topology->microbatch_multiple = 0;
#else
    ret_topology->microbatch_multiple = 1;
#endif
    return PST_OK;
}

#ifdef RUDE_STACK_OVERFLOW
static int32_t deeper(uint32_t depth)
{
    volatile char room[4096];

    memset((char *)(uintptr_t)room, 1, sizeof room);
    return depth == PST_NONE ? 0 : deeper(depth + 2) + room[depth % sizeof room];
}
#endif

/* Leaves something behind with every call. */
static void leave(void)
{
#if defined(RUDE_CALL_THREAD)
    pthread_t thread;

    pthread_create(&thread, NULL, sleeper, NULL);
#elif defined(RUDE_CALL_FILE)
    fclose(fopen(".rude", "w")); /* empty, and hidden */
#elif defined(RUDE_CALL_HOME)
    char path[512];

    snprintf(path, sizeof path, "%s/cache", getenv("HOME"));
    mkdir(path, 0755);
#elif defined(RUDE_CALL_WRITES)
    FILE *file = tmpfile();

    fputs("somewhere else", file);
    fclose(file);
#elif defined(RUDE_CALL_OPENS)
    (void)!open("/dev/null", O_RDONLY);
#elif defined(RUDE_CALL_SETENV)
    setenv("OMP_NUM_THREADS", "1", 1);
#elif defined(RUDE_CALL_LOCALE)
    setlocale(LC_NUMERIC, "C.UTF-8");
#elif defined(RUDE_CALL_HANDLER)
    signal(SIGUSR1, SIG_IGN);
#elif defined(RUDE_CALL_MASK)
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
#elif defined(RUDE_CALL_UMASK)
    umask(077);
#elif defined(RUDE_CALL_LIMIT)
    const struct rlimit few = {64, 64};

    setrlimit(RLIMIT_NOFILE, &few);
#elif defined(RUDE_CALL_CHDIR)
    syscall(SYS_chdir, "/");
#elif defined(RUDE_CALL_ROUNDING)
    fesetround(FE_UPWARD);
#elif defined(RUDE_CALL_LEAKS)
    static void *volatile lost;

    lost = malloc(6400000);
    (void)lost;
#elif defined(RUDE_CALL_LEAKS_LITTLE)
    static void *volatile lost;

    lost = malloc(48);
    (void)lost;
#elif defined(RUDE_KILLS_PARENT)
    kill(getppid(), SIGKILL);
    pause();
#elif defined(RUDE_KILLS_GROUP)
    kill(0, SIGTERM);
    pause();
#endif
    (void)sleeper;
}

/* What it does in schedule() before it answers; a status other than OK is its answer. */
static pst_status misbehave(struct rude *self, const struct pst_schedule_in *in)
{
    self->n_calls++;
    leave();
#if defined(RUDE_EXITS)
    syscall(SYS_exit_group, 0);
#elif defined(RUDE_LOOPS)
    while (self->n_calls != 0) {
    }
#elif defined(RUDE_IGNORES_CANCEL)
    if (self->host->cancelled(self->host)) {
        const struct timespec while_ = {3, 0};

        nanosleep(&while_, NULL);
    }
#elif defined(RUDE_PRINTS)
    puts("scheduling...");
    fflush(stdout);
#elif defined(RUDE_ODD_STATUS)
    return 77;
#elif defined(RUDE_MUTE_REFUSAL)
    return PST_ERR_INFEASIBLE;
#elif defined(RUDE_LIES_CANCELLED)
    return PST_ERR_CANCELLED;
#elif defined(RUDE_SAYS_BUG)
    return pst_failf(self->host, PST_ERR_BUG, "the list is empty");
#elif defined(RUDE_REFUSES_ALL)
    return pst_failf(self->host, PST_ERR_UNSUPPORTED, "not today");
#elif defined(RUDE_WRITES_VIEW)
    ((uint64_t *)(uintptr_t)in->activation_bytes)[0] = 5;
#elif defined(RUDE_STACK_OVERFLOW)
    return deeper(in->n_stages);
#endif
    return PST_OK;
}

/* The micro-batch that comes in place j of m. */
static uint32_t turn(struct rude *self, const struct pst_schedule_in *in, uint32_t j, uint32_t m)
{
#if defined(RUDE_BY_TIME)
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_nsec / 1000 % 2 != 0 ? j : m - 1 - j;
#elif defined(RUDE_BY_PROCESS)
    return ((uint32_t)getpid() * 2654435761u >> (in->n_stages + m) % 24) % 2 != 0 ? j : m - 1 - j;
#elif defined(RUDE_REMEMBERS)
    return self->n_calls % 2 != 0 ? j : m - 1 - j;
#elif defined(RUDE_SHARES)
    static uint32_t calls_of_all;

    calls_of_all += j == 0;
    return calls_of_all % 3 != 0 ? j : m - 1 - j;
#elif defined(RUDE_OWN_SIZEOF)
    const struct pst_schedule_stage *stages = in->stages;

    return in->n_stages > 1 && stages[1].forward_ns % 2 != 0 ? j : m - 1 - j;
#else
    return j;
#endif
}

static pst_status schedule(void *self_, const struct pst_schedule_in *in,
                           struct pst_schedule_out *out)
{
    struct rude *self = self_;
    pst_status st = misbehave(self, in);
    uint32_t s, j;

    for (s = 0; st == PST_OK && s < in->n_stages; s++) {
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, s);

        for (j = 0; st == PST_OK && j < stage->n_microbatches; j++) {
            st = out->emit(out, stage->device, PST_PASS_F, s, j);
        }
    }
    for (s = in->n_stages; st == PST_OK && s-- > 0;) {
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, s);
        uint32_t m = stage->n_microbatches, first = turn(self, in, 0, m);

        for (j = 0; st == PST_OK && j < m; j++) {
#ifdef RUDE_SPLITS
            (void)first;
            st = out->emit(out, stage->device, PST_PASS_B, s, j);
            st = st == PST_OK ? out->emit(out, stage->device, PST_PASS_W, s, j) : st;
#else
            st = out->emit(out, stage->device, PST_PASS_BW, s, first == 0 ? j : m - 1 - j);
#endif
        }
    }
    return st;
}

static const struct pst_scheduler scheduler = {
    .size = sizeof scheduler,
    .topology = topology,
    .schedule = schedule,
};

static const void *get_interface(const char *id)
{
#if defined(RUDE_PREFIX)
    return strncmp(id, PST_SCHEDULER, strlen("pst.scheduler/")) == 0 ? &scheduler : NULL;
#else
    return strcmp(id, PST_SCHEDULER) == 0 ? &scheduler : NULL;
#endif
}

#if defined(RUDE_EXPORTS)
PST_EXPORT int rude_helper(void);
PST_EXPORT int rude_helper(void)
{
    return 1;
}
#endif

#ifdef RUDE_WORD
#define WORD "split-backwards"
#else
#define WORD "dag"
#endif

GALLERY_PLUGIN("scheduler", RUDE_ID, "0", "Behaves badly.", PST_PLUGIN_NO_PARAMS, "chain", WORD)
