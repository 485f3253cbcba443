/* SPDX-License-Identifier: Apache-2.0
 *
 * A scheduler whose answers are legal, and which changes something of its process in a chosen call;
 * with MEDDLER_LOADS, flush-to-zero while it is loaded, as -ffast-math does.
 */
#include <fcntl.h>
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "gallery.h"

struct config {
    uint32_t what, when;
};

#define WHATS                                                                                      \
    "none|ftz|round|trap|x87|fsize|affinity|nice|timer|alarm|posix-timer|key|atexit|"              \
    "endless-exit|exit-code|group|replace|daemon|kill-parent|stop-parent|remarks|"                 \
    "close|stack"
enum {
    NONE,
    FTZ,
    ROUND,
    TRAP,
    X87,
    FSIZE,
    AFFINITY,
    NICE,
    TIMER,
    ALARM,
    POSIX_TIMER,
    KEY,
    ATEXIT,
    ENDLESS_EXIT,
    EXIT_CODE,
    GROUP,
    REPLACE,
    DAEMON,
    KILL_PARENT,
    STOP_PARENT,
    REMARKS,
    CLOSE,
    STACK
};
enum { CREATE, SCHEDULE, DESTROY };

static const struct pst_param params[] = {
    PST_PARAM(struct config, what, PST_PARAM_ENUM, "none", WHATS, "What it changes."),
    PST_PARAM(struct config, when, PST_PARAM_ENUM, "schedule", "create|schedule|destroy", "When."),
};

struct meddler {
    const struct pst_host *host;
    const struct config *config;
};

static void change_floats(uint32_t what)
{
    if (what == ROUND) {
        fesetround(FE_UPWARD);
    } else if (what == TRAP) {
        feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_INEXACT);
    }
#if defined(__x86_64__)
    const uint16_t single = 0x007F; /* results of 24 bits */

    if (what == FTZ) {
        _mm_setcsr(_mm_getcsr() | 0x8040u);
    } else if (what == X87) {
        __asm__ volatile("fldcw %0" : : "m"(single));
    }
#endif
}

static void do_nothing(void)
{
}

static void wait_forever(void)
{
    for (;;) {
        pause();
    }
}

static void end_at_once(void)
{
    _exit(0);
}

static void crash(void *value)
{
    *(volatile int *)value = 1;
}

static void take_key(void)
{
    pthread_key_t key;

    pthread_key_create(&key, crash);
    pthread_setspecific(key, (void *)16);
}

static void start_timer(uint32_t what)
{
    const struct itimerval later = {{0, 0}, {1000, 0}};
    const struct itimerspec at = {{0, 0}, {1000, 0}};
    struct sigevent none = {.sigev_notify = SIGEV_NONE};
    timer_t timer;

    if (what == TIMER) {
        setitimer(ITIMER_REAL, &later, NULL);
    } else if (what == ALARM) {
        alarm(1000);
    } else if (timer_create(CLOCK_MONOTONIC, &none, &timer) == 0) {
        timer_settime(timer, 0, &at, NULL);
    }
}

/* Out of the group, without a parent, its intermediate one waited for by nobody. */
static void start_daemon(void)
{
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            prctl(PR_SET_NAME, "meddler-daemon");
            alarm(60);
            for (;;) {
                pause();
            }
        }
        _exit(0);
    }
}

static void change_process(uint32_t what)
{
    static char bytes[1 << 16];
    const stack_t stack = {.ss_sp = bytes, .ss_size = sizeof bytes};
    const struct rlimit none = {0, 0};
    cpu_set_t one;

    switch (what) {
    case FSIZE:
        setrlimit(RLIMIT_FSIZE, &none);
        break;
    case AFFINITY:
        sched_getaffinity(0, sizeof one, &one);
        for (int i = 0; CPU_COUNT(&one) > 1; i++) {
            CPU_CLR(i, &one);
        }
        sched_setaffinity(0, sizeof one, &one);
        break;
    case NICE:
        (void)!nice(1);
        break;
    case GROUP:
        setpgid(0, getpgrp() == getpid() ? getppid() : 0);
        break;
    case REPLACE:
        for (int fd = 0; fd < 16; fd++) {
            dup2(open("/dev/null", O_RDWR | O_CLOEXEC), fd);
        }
        break;
    case CLOSE:
        for (int fd = 3; fd < 64; fd++) {
            close(fd);
        }
        break;
    case STACK:
        sigaltstack(&stack, NULL);
        break;
    case DAEMON:
        start_daemon();
        break;
    case KILL_PARENT:
        kill(getppid(), SIGKILL);
        break;
    case STOP_PARENT:
        kill(getppid(), SIGSTOP);
        break;
    default:
        break;
    }
}

static void say_much(const struct pst_host *host)
{
    const struct pst_remark *remark = host->get_extension(host, PST_REMARK);

    for (uint32_t i = 0; i < 100000 && remark != NULL; i++) {
        remark->text(host, "\033[31mno key", "");
    }
}

static void meddle(struct meddler *self, uint32_t when)
{
    static void (*const handlers[])(void) = {do_nothing, wait_forever, end_at_once};
    const uint32_t what = self->config->when == when ? self->config->what : NONE;

    if (what >= FTZ && what <= X87) {
        change_floats(what);
    } else if (what >= TIMER && what <= POSIX_TIMER) {
        start_timer(what);
    } else if (what == KEY) {
        take_key();
    } else if (what >= ATEXIT && what <= EXIT_CODE) {
        atexit(handlers[what - ATEXIT]);
    } else if (what == REMARKS) {
        say_much(self->host);
    } else {
        change_process(what);
    }
}

#ifdef MEDDLER_LOADS
static void __attribute__((constructor)) load(void)
{
    change_floats(FTZ);
}
#endif

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    struct meddler *self = host->alloc(host, sizeof *self, _Alignof(struct meddler));

    if (self == NULL) {
        return PST_ERR_NOMEM;
    }
    *self = (struct meddler){.host = host, .config = config};
    *ret_self = self;
    meddle(self, CREATE);
    return PST_OK;
}

static void destroy(void *self)
{
    if (self != NULL) {
        meddle(self, DESTROY);
    }
}

static pst_status topology(void *self, uint32_t n_devices, struct pst_topology *ret_topology)
{
    ret_topology->n_stages = 0;
    ret_topology->version_rule = PST_VERSION_SYNC;
    ret_topology->min_microbatches = 1;
    ret_topology->microbatch_multiple = 1;
    return PST_OK;
}

static pst_status schedule(void *self, const struct pst_schedule_in *in,
                           struct pst_schedule_out *out)
{
    pst_status st = PST_OK;

    meddle(self, SCHEDULE);
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < in->n_stages; i++) {
            const uint32_t s = pass == 0 ? i : in->n_stages - 1 - i;
            const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, s);

            for (uint32_t j = 0; st == PST_OK && j < stage->n_microbatches; j++) {
                st = out->emit(out, stage->device, pass == 0 ? PST_PASS_F : PST_PASS_BW, s, j);
            }
        }
    }
    return st;
}

PST_INTERFACE(PST_SCHEDULER, struct pst_scheduler, .topology = topology, .schedule = schedule)

GALLERY_PLUGIN("scheduler", MEDDLER_ID, "0", "Changes its process.",
               PST_PLUGIN_PARAMS(params, struct config), "chain", "dag")
