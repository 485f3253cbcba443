/* SPDX-License-Identifier: Apache-2.0
 *
 * The planner's process from the inside: limits before anything is opened, the job, records and the
 * answer.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "host/child.h"
#include "host/process.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* shadow memory takes terabytes of address space */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static struct pst_breadcrumb_page *page;
static struct pst_worker_job job_head;
static bool memory_is_limited;
static struct stat way_out; /* the pipe of the answer */
static char crash_stack[64 << 10];

/* Address space of this process; safe in a signal handler. */
static uint64_t vm_bytes(void)
{
    char text[64];
    uint64_t pages = 0;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text);

    if (fd >= 0) {
        close(fd);
    }
    for (ssize_t i = 0; i < n && text[i] >= '0' && text[i] <= '9'; i++) {
        pages = pages * 10 + (uint64_t)(text[i] - '0');
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void note_memory(void)
{
    int before = errno;

    if (memory_is_limited) {
        atomic_store(&page->vm_bytes, vm_bytes());
    }
    errno = before;
}

/* Notes how much memory there was, then dies of the same signal. */
static void on_crash(int number)
{
    note_memory();
    signal(number, SIG_DFL);
    raise(number);
}

static void watch_crashes(void)
{
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    stack_t stack = {.ss_sp = crash_stack, .ss_size = sizeof crash_stack};
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = on_crash;
    action.sa_flags = SA_ONSTACK | SA_NODEFER | SA_RESETHAND;
    sigemptyset(&action.sa_mask);
    sigaltstack(&stack, NULL);
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) {
        sigaction(fatal[i], &action, NULL);
    }
    atexit(note_memory);
}

static bool read_all(void *to, size_t n)
{
    char *at = to;

    while (n > 0) {
        ssize_t k = read(PST_PROCESS_JOB_FD, at, n);

        if (k <= 0 && !(k < 0 && errno == EINTR)) {
            return false;
        }
        at += k > 0 ? k : 0;
        n -= k > 0 ? (size_t)k : 0;
    }
    return true;
}

static bool write_all(const void *from, size_t n)
{
    const char *at = from;

    while (n > 0) {
        ssize_t k = write(PST_PROCESS_ANSWER_FD, at, n);

        if (k < 0 && errno != EINTR) {
            return false;
        }
        at += k > 0 ? k : 0;
        n -= k > 0 ? (size_t)k : 0;
    }
    return true;
}

static bool send_message(uint32_t type, const void *body, size_t length)
{
    struct pst_worker_head head = {.magic = PST_WORKER_MAGIC, .type = type, .length = length};

    return write_all(&head, sizeof head) && write_all(body, length);
}

/* One write of less than PIPE_BUF: records of several threads do not mix. */
static void send_record(uint32_t level, const char *area, const char *text)
{
    struct {
        struct pst_worker_head head;
        char body[1536];
    } record = {.head = {.magic = PST_WORKER_MAGIC, .type = PST_WORKER_LOG}};
    int n;

    memcpy(record.body, &level, sizeof level);
    n = snprintf(record.body + sizeof level, sizeof record.body - sizeof level, "%.64s%c%s", area,
                 '\0', text);
    if (n < 0) {
        return;
    }
    n = n < (int)(sizeof record.body - sizeof level) ? n : (int)(sizeof record.body - sizeof level);
    record.head.length = sizeof level + (size_t)n;
    write_all(&record, sizeof record.head + (size_t)record.head.length);
}

/* Marks the output and messages that follow as this plugin's. */
static void mark_output(uint32_t plugin)
{
    char mark[2] = {'\0', (char)('0' + (plugin < PST_BREADCRUMB_PLUGINS ? plugin : '~' - '0'))};
    struct {
        struct pst_worker_head head;
        uint32_t plugin;
    } call = {{PST_WORKER_MAGIC, PST_WORKER_CALL, sizeof plugin}, plugin};
    ssize_t n;

    write_all(&call, sizeof call.head + sizeof plugin); /* at once, as records */
    fflush(stdout);
    n = write(1, mark, sizeof mark);
    (void)n; /* a plugin closed it: then there is nothing to name */
}

/* A plugin that closes or replaces what is not its own is caught in the act. */
static void check_answer(void)
{
    struct stat now;

    if (fstat(PST_PROCESS_ANSWER_FD, &now) != 0 || now.st_dev != way_out.st_dev ||
        now.st_ino != way_out.st_ino) {
        _exit(PST_WORKER_UNSENT);
    }
}

static void note_end(int status)
{
    (void)status;
    atomic_store(&page->kept, true);
}

static bool limit_process(long parent)
{
    const struct rlimit none = {0, 0};

    if (!pst_process_step_behind((pid_t)parent, note_end)) {
        return false; /* it has died, or there is no process */
    }
    setpgid(0, 0);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    setrlimit(RLIMIT_CORE, &none);
    for (int fd = PST_PROCESS_JOB_FD; fd < PST_PROCESS_NO_FD; fd++) {
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    signal(SIGPIPE, SIG_IGN);
    return true;
}

static void limit_memory(uint64_t bytes)
{
    struct rlimit limit;

    if (SANITIZED || bytes == 0 || getrlimit(RLIMIT_AS, &limit) != 0) {
        return;
    }
    limit.rlim_cur = bytes < limit.rlim_max ? (rlim_t)bytes : limit.rlim_max;
    memory_is_limited = setrlimit(RLIMIT_AS, &limit) == 0;
}

static void answer_no_memory(void)
{
    struct pst_error err;

    note_memory(); /* watch_crashes() may have had no room */
    pst_fail_nomem(&err);
    pst_worker_answer(NULL, &err);
}

bool pst_worker_begin(int argc, char **argv, char **ret_job, size_t *ret_length)
{
    page = argc != 3 ? NULL : pst_process_page(sizeof *page);
    if (page == NULL) {
        return false;
    }
    if (!limit_process(strtol(argv[2], NULL, 10)) || !read_all(&job_head, sizeof job_head) ||
        job_head.length > PST_WORKER_JOB_BYTES) {
        _exit(PST_WORKER_UNSENT);
    }
    limit_memory(job_head.memory_limit_bytes);
    pst_on_out_of_memory(answer_no_memory);
    *ret_length = (size_t)job_head.length;
    *ret_job = pst_alloc(*ret_length + 1, 1);
    if (!read_all(*ret_job, *ret_length)) {
        _exit(PST_WORKER_UNSENT);
    }
    close(PST_PROCESS_JOB_FD);
    setvbuf(stdout, NULL, _IOLBF, 0);
    watch_crashes();
    fstat(PST_PROCESS_ANSWER_FD, &way_out);
    pst_log_set_sink(send_record);
    pst_log_set_level(PST_LOG_ERROR); /* the parent has warned about the config already */
    pst_breadcrumb_use(page, mark_output, check_answer);
    return true;
}

void pst_worker_started(void)
{
    pst_log_set_level((uint32_t)job_head.log_level);
    if (!send_message(PST_WORKER_STARTED, NULL, 0)) {
        _exit(PST_WORKER_UNSENT);
    }
}

bool pst_worker_stopped(void)
{
    return atomic_load_explicit(&page->stop, memory_order_relaxed);
}

bool pst_worker_stopped_or_late(void)
{
    return pst_worker_stopped() || atomic_load_explicit(&page->late, memory_order_relaxed);
}

void pst_worker_answer(const struct pst_wire *answer, const struct pst_error *err)
{
    bool sent;

    note_memory();
    fflush(stdout);
    sent = answer != NULL ? send_message(PST_WORKER_PLAN, answer->bytes, answer->n)
                          : send_message(PST_WORKER_ERROR, err, sizeof *err);
    /* No destructors: those of the plugins would run outside of every guard. */
    _exit(sent ? 0 : PST_WORKER_UNSENT);
}
