/* SPDX-License-Identifier: Apache-2.0
 *
 * All forwards, then all backwards, and on the way one misdeed, chosen by the DOES_* macro that it
 * is compiled with.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <penstock/penstock.h>

#if defined(DOES_CRASH_LOAD) || defined(DOES_CRASH_CREATE) || defined(DOES_CRASH_SCHEDULE) ||      \
    defined(DOES_CRASH_DESTROY) || defined(DOES_CRASH_ENTRY) || defined(DOES_CRASH_LARGE)
static volatile uintptr_t nowhere = 16; /* not a constant: compilers warn */

static void crash(void)
{
    *(volatile int *)nowhere = 1;
}
#endif

#ifdef DOES_CRASH_LOAD
__attribute__((constructor)) static void construct(void)
{
    crash();
}
#endif

#if defined(DOES_LOOP_LOAD) || defined(DOES_EXIT_LOAD)
__attribute__((constructor)) static void construct(void)
{
#ifdef DOES_EXIT_LOAD
    _exit(0);
#else
    for (volatile unsigned i = 0;; i++) {
    }
#endif
}
#endif

#ifdef DOES_LOOK
/* What of the promises about its process does not hold? */
static const char *look(void)
{
    struct rlimit limit;
    char byte;

    if (getrlimit(RLIMIT_CORE, &limit) != 0 || limit.rlim_cur != 0) {
        return "it may leave a core file";
    }
    if (getpgrp() != getpid()) {
        return "it is in somebody else's process group";
    }
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) {
        return "it may gain rights";
    }
    if (read(0, &byte, 1) != 0) {
        return "standard input is not empty";
    }
    for (int fd = 3; fd < 1024; fd++) {
        if (fd != 4 && fcntl(fd, F_GETFD) >= 0) {
            return "a descriptor was left open";
        }
    }
    return getenv("LD_BIND_NOW") != NULL ? NULL : "functions are bound late";
}
#endif

#ifdef DOES_FORGE
/* A whole message in the place of the planner's own, by a writer who knows its form. */
static void forge(void)
{
    static const struct {
        uint32_t magic, type;
        uint64_t length;
        char body[24];
    } forged = {0x50535443u, 5, 24, "{\"format\": \"forged\"}"};
    ssize_t n = write(4, &forged, sizeof forged);

    _exit(n == sizeof forged ? 0 : 1);
}
#endif

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
#if defined(DOES_CRASH_CREATE)
    crash();
#elif defined(DOES_ODD)
    return 42;
#elif defined(DOES_TALK)
    puts("the first line");
    fflush(stdout);
    for (int i = 0; i < 6000; i++) {
        fprintf(stderr, "line %d of very many lines\n", i);
    }
    printf("not\1a whole line");
#elif defined(DOES_LOOK)
    const char *fault = look();

    if (fault != NULL) {
        return pst_failf(host, PST_ERR_BUG, "%s", fault);
    }
#endif
    *ret_self = (void *)(uintptr_t)host;
    return PST_OK;
}

static void destroy(void *self)
{
#ifdef DOES_CRASH_DESTROY
    crash();
#endif
}

static pst_status topology(void *self, uint32_t n_devices, struct pst_topology *ret_topology)
{
    ret_topology->min_microbatches = 1;
    ret_topology->microbatch_multiple = 1;
    ret_topology->version_rule = PST_VERSION_SYNC;
    return PST_OK;
}

static pst_status misbehave(const struct pst_host *host)
{
#if defined(DOES_CRASH_SCHEDULE)
    crash();
#elif defined(DOES_ABORT_SCHEDULE)
    fputs("assertion of the plugin failed\n", stderr);
    abort();
#elif defined(DOES_EXIT_ZERO)
    exit(0);
#elif defined(DOES_EXIT_SEVEN)
    exit(7);
#elif defined(DOES_EXIT_MEMORY) /* as libgomp does */
    errno = ENOMEM;
    exit(1);
#elif defined(DOES_EXIT_THREADS)
    errno = EAGAIN;
    exit(1);
#elif defined(DOES_LOOP)
    for (volatile unsigned i = 0;; i++) {
    }
#elif defined(DOES_HEED)
    while (!host->cancelled(host)) {
        usleep(1000);
    }
    return PST_ERR_CANCELLED;
#elif defined(DOES_HOG)
    for (;;) {
        char *more = malloc(1 << 20);

        *(volatile char *)more = 1;
    }
#elif defined(DOES_NO_MEMORY)
    void *volatile more;

    do {
        more = malloc(1 << 20);
    } while (more != NULL);
    return PST_ERR_NOMEM;
#elif defined(DOES_CLOSE)
    for (int fd = 0; fd < 1024; fd++) {
        close(fd);
    }
#elif defined(DOES_GARBLE)
    static const char junk[4096] = "not a message";
    ssize_t n = write(4, junk, sizeof junk);

    (void)n;
#elif defined(DOES_LOG)
    for (int i = 0; i < 20000; i++) {
        host->log(host, PST_LOG_WARN, "\033[31mred\nof very \377 many lines");
    }
#elif defined(DOES_FAIL)
    return host->fail(host, PST_ERR_BUG, "\033[31mred\nof \377");
#elif defined(DOES_FORGE)
    forge();
#elif defined(DOES_SPAWN)
    if (fork() == 0) {
        for (;;) {
            sleep(1000);
        }
    }
#elif defined(DOES_CHATTER) /* out of the group, and on and on */
    if (fork() == 0) {
        alarm(30);
        setsid();
        while (write(2, "and on\n", 7) > 0) {
        }
        _exit(0);
    }
#endif
    return PST_OK;
}

static pst_status schedule(void *self, const struct pst_schedule_in *in,
                           struct pst_schedule_out *out)
{
    pst_status st = misbehave(self);

#ifdef DOES_CRASH_LARGE
    if (pst_schedule_stage_at(in, 0)->microbatch_size > 2) {
        crash();
    }
#endif
    for (uint32_t s = 0; s < in->n_stages && st == PST_OK; s++) {
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, s);

        for (uint32_t i = 0; i < 2 * stage->n_microbatches && st == PST_OK; i++) {
            bool forward = i < stage->n_microbatches;

#ifdef DOES_ILLEGAL
            forward = false;
#endif
            st = out->emit(out, stage->device, forward ? PST_PASS_F : PST_PASS_BW, s,
                           i % stage->n_microbatches);
        }
    }
    return st;
}

PST_INTERFACE(PST_SCHEDULER, struct pst_scheduler, .topology = topology, .schedule = schedule)

struct config {
    int64_t depth;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, depth, PST_PARAM_INT, "4", "1..8", "Stages looked ahead."),
};

static const char *const words[] = {"chain", NULL};
static const char *const nothing[] = {NULL};

#if defined(DOES_ESCAPE)
#define SUMMARY "Exists to \033[31mmisbehave."
#elif defined(DOES_NEWLINE)
#define SUMMARY "Exists to\nmisbehave."
#elif defined(DOES_LATIN)
#define SUMMARY "Exists to misbehave: \344."
#else
#define SUMMARY "Exists to misbehave."
#endif

static const struct pst_plugin plugin = {
    PST_PLUGIN_HEAD("scheduler", BAD_ID, "0"),
    .summary = SUMMARY,
    .reference = "none",
    .license = "Apache-2.0",
    .provides = words,
    .needs = nothing,
    PST_PLUGIN_PARAMS(params, struct config),
    PST_PLUGIN_FUNCTIONS,
};

#ifdef DOES_CRASH_ENTRY
static const struct pst_plugin *look_for(void)
{
    crash();
    return &plugin;
}
#define plugin (*look_for())
#endif

PST_PLUGIN(plugin)
