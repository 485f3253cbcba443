/* SPDX-License-Identifier: Apache-2.0 */
#include "conformance/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"

extern char **environ;

enum { POLL_MS = 5 };

/* The environment, and malloc without a cache of what was freed, whose blocks count as used; NULL:
   out of memory. free() it. */
static char **make_environment(void)
{
    static const char name[] = "GLIBC_TUNABLES=";
    static char exact[] = "GLIBC_TUNABLES=glibc.malloc.tcache_count=0";
    char **words;
    size_t n = 0, used = 0;

    while (environ[n] != NULL) {
        n++;
    }
    words = pst_alloc(n + 2, sizeof *words);
    for (size_t i = 0; i < n; i++) {
        if (strncmp(environ[i], name, strlen(name)) != 0) {
            words[used++] = environ[i];
        }
    }
    words[used++] = exact;
    words[used] = NULL;
    return words;
}

/* posix_spawn, never fork: the caller may hold threads and devices. */
static int start(char *const *argv, int page, int output, pid_t *ret_pid)
{
    char **words = make_environment();
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t signals;
    int error;

    error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        free(words);
        return error;
    }
    error = posix_spawnattr_init(&attributes);
    if (error != 0) {
        posix_spawn_file_actions_destroy(&actions);
        free(words);
        return error;
    }
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes, &signals);
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes, &signals);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF |
                                              POSIX_SPAWN_SETSIGMASK);
    error = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    error = error != 0 ? error : posix_spawn_file_actions_adddup2(&actions, output, 1);
    error = error != 0 ? error : posix_spawn_file_actions_adddup2(&actions, output, 2);
    error = error != 0 ? error : posix_spawn_file_actions_adddup2(&actions, page, PST_VERDICT_FD);
    error =
        error != 0 ? error : posix_spawn_file_actions_addclosefrom_np(&actions, PST_VERDICT_FD + 1);
    error = error != 0 ? error : posix_spawn(ret_pid, argv[0], &actions, &attributes, argv, words);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    free(words);
    return error;
}

/* Keeps the beginning of what there is to read; the rest is counted. */
static void drain(int output, struct pst_child *child)
{
    char buffer[4096];
    ssize_t n;

    while ((n = read(output, buffer, sizeof buffer)) > 0) {
        size_t kept = child->n_output < PST_SPAWN_OUTPUT ? PST_SPAWN_OUTPUT - child->n_output : 0;

        kept = kept < (size_t)n ? kept : (size_t)n;
        memcpy(child->output + (child->n_output < PST_SPAWN_OUTPUT ? child->n_output : 0), buffer,
               kept);
        child->n_output += (size_t)n;
        if (child->n_output > (size_t)1 << 24) {
            break; /* it floods: its time limit comes first */
        }
    }
}

/* Until the child has ended, by itself or at the limit; its whole group goes with it. */
static void watch(pid_t pid, int output, uint32_t time_limit_s, bool (*cancelled)(void),
                  struct pst_child *child)
{
    uint64_t end = pst_now_ns() + (uint64_t)time_limit_s * 1000000000u;
    siginfo_t info;

    for (;;) {
        struct pollfd wait = {.fd = output, .events = POLLIN};

        poll(&wait, 1, POLL_MS);
        drain(output, child);
        memset(&info, 0, sizeof info);
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
            break;
        }
        if ((wait.revents & POLLHUP) != 0) {
            poll(NULL, 0, POLL_MS); /* it has closed its output: nothing to poll for */
        }
        if (pst_now_ns() > end) {
            child->timed_out = true;
            break;
        }
        if (cancelled != NULL && cancelled()) {
            child->stopped = true;
            break;
        }
    }
    /* Not yet reaped: the group still bears its number. */
    kill(-pid, SIGKILL);
    waitpid(pid, &child->wait_status, 0);
    drain(output, child);
}

pst_status pst_child_run(char *const *argv, uint32_t time_limit_s, bool (*cancelled)(void),
                         struct pst_child *ret_child, struct pst_error *err)
{
    int page = -1, pipes[2] = {-1, -1}, error = 0;
    void *memory = MAP_FAILED;
    pid_t pid;

    memset(ret_child, 0, sizeof *ret_child);
    /* High numbers: dup2 onto itself would leave close-on-exec set. */
    page = memfd_create("penstock-verdict", MFD_CLOEXEC);
    if (page < 0 || ftruncate(page, sizeof(struct pst_verdict)) != 0 ||
        pipe2(pipes, O_CLOEXEC) != 0) {
        error = errno;
        goto out;
    }
    memory = mmap(NULL, sizeof(struct pst_verdict), PROT_READ, MAP_SHARED, page, 0);
    if (memory == MAP_FAILED || fcntl(pipes[0], F_SETFL, O_NONBLOCK) != 0) {
        error = errno;
        goto out;
    }
    error = start(argv, page, pipes[1], &pid);
    if (error != 0) {
        goto out;
    }
    close(pipes[1]);
    pipes[1] = -1;
    watch(pid, pipes[0], time_limit_s, cancelled, ret_child);
    memcpy(&ret_child->verdict, memory, sizeof ret_child->verdict);
    if (ret_child->verdict.ended != 0) {
        ret_child->wait_status = ret_child->verdict.wait_status;
    }
    ret_child->verdict.text[sizeof ret_child->verdict.text - 1] = '\0';
out:
    if (memory != MAP_FAILED) {
        munmap(memory, sizeof(struct pst_verdict));
    }
    for (int i = 0; i < 2; i++) {
        if (pipes[i] >= 0) {
            close(pipes[i]);
        }
    }
    if (page >= 0) {
        close(page);
    }
    return error == 0 ? PST_OK
                      : pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                                 "cannot start a process for a test: %s", strerror(error));
}
