/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"

/* Numbers on this side from here on, so that the process's fixed ones can be set in any order. */
#define HIGH_FD 16

/* To the keeper. Not SIGTERM: a plugin may send that to its own group. */
#define ASK_SIGNAL SIGUSR2 /* SIGTERM to all that it keeps */
#define END_SIGNAL SIGUSR1 /* SIGKILL to all that it keeps */
#define KEEPER_MS  1000    /* in which everything ends that was killed */

extern char **environ;

void pst_process_close(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

/* Moves a descriptor to a number of at least HIGH_FD; closes the old one. */
static bool lift_descriptor(int *fd)
{
    int high = fcntl(*fd, F_DUPFD_CLOEXEC, HIGH_FD);

    if (high < 0) {
        return false;
    }
    close(*fd);
    *fd = high;
    return true;
}

/* `own` is never waited for. */
static bool make_pipe(int *ret_read, int *ret_write, const int *own)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) != 0) {
        return false;
    }
    *ret_read = fds[0];
    *ret_write = fds[1];
    return lift_descriptor(ret_read) && lift_descriptor(ret_write) &&
           fcntl(*own, F_SETFL, O_NONBLOCK) == 0;
}

static bool make_page(struct pst_process *p, int *ret_fd)
{
    void *page;

    *ret_fd = memfd_create("penstock-page", MFD_CLOEXEC);
    if (*ret_fd < 0 || !lift_descriptor(ret_fd) || ftruncate(*ret_fd, (off_t)p->page_bytes) != 0) {
        return false;
    }
    page = mmap(NULL, p->page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *ret_fd, 0);
    p->page = page == MAP_FAILED ? NULL : page;
    return p->page != NULL;
}

/* free() it; its words are others'. */
static const char **make_environment(const char *word)
{
    size_t name = strcspn(word, "=") + 1, n = 0, k = 0;
    const char **words;

    while (environ != NULL && environ[n] != NULL) {
        n++;
    }
    words = pst_alloc(n + 2, sizeof *words);
    for (size_t i = 0; i < n; i++) {
        if (strncmp(environ[i], word, name) != 0) {
            words[k++] = environ[i];
        }
    }
    words[k++] = word;
    words[k] = NULL;
    return words;
}

/* fds: by the process's number, in this side's; -1: it has none. */
static int set_up(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes,
                  const int *fds)
{
    short flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    sigset_t none, all;
    int code = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);

    for (int to = 1; code == 0 && to < PST_PROCESS_NO_FD; to++) {
        code = fds[to] < 0 ? posix_spawn_file_actions_addclose(actions, to)
                           : posix_spawn_file_actions_adddup2(actions, fds[to], to);
    }
    code = code != 0 ? code : posix_spawn_file_actions_addclosefrom_np(actions, PST_PROCESS_NO_FD);
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setflags(attributes, flags);
    posix_spawnattr_setpgroup(attributes, 0);
    posix_spawnattr_setsigmask(attributes, &none);
    posix_spawnattr_setsigdefault(attributes, &all);
    return code;
}

static int spawn_process(struct pst_process *p, char *const *argv, const char *word, const int *fds)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    const char **words = make_environment(word);
    int code = posix_spawn_file_actions_init(&actions);

    if (code == 0) {
        code = posix_spawnattr_init(&attributes);
        if (code == 0) {
            code = set_up(&actions, &attributes, fds);
            if (code == 0) {
                code = posix_spawn(&p->pid, "/proc/self/exe", &actions, &attributes, argv,
                                   (char *const *)(uintptr_t)words);
            }
            posix_spawnattr_destroy(&attributes);
        }
        posix_spawn_file_actions_destroy(&actions);
    }
    free(words);
    return code;
}

int pst_process_start(struct pst_process *p, char *const *argv, const char *word, bool talks,
                      size_t page_bytes)
{
    int fds[PST_PROCESS_NO_FD] = {-1, -1, -1, -1, -1, -1}, code;
    bool made;

    *p = (struct pst_process){
        .pid = -1, .job_fd = -1, .answer_fd = -1, .output_fd = -1, .page_bytes = page_bytes};
    made =
        make_page(p, &fds[PST_PROCESS_PAGE_FD]) && make_pipe(&p->output_fd, &fds[1], &p->output_fd);
    if (made && talks) {
        made = make_pipe(&fds[PST_PROCESS_JOB_FD], &p->job_fd, &p->job_fd) &&
               make_pipe(&p->answer_fd, &fds[PST_PROCESS_ANSWER_FD], &p->answer_fd);
    }
    code = made ? 0 : errno;
    if (made) {
        fds[2] = fds[1];
        code = spawn_process(p, argv, word, fds);
        fds[2] = -1;
    }
    for (int i = 0; i < PST_PROCESS_NO_FD; i++) {
        pst_process_close(&fds[i]);
    }
    return code;
}

bool pst_process_has_ended(const struct pst_process *p)
{
    siginfo_t info = {.si_pid = 0};

    if (waitid(P_PID, (id_t)p->pid, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) != 0) {
        return errno != EINTR;
    }
    if (info.si_pid != 0 && info.si_code == CLD_STOPPED) {
        kill(p->pid, SIGCONT); /* by a plugin: nobody else knows it */
        return false;
    }
    return info.si_pid != 0;
}

void pst_process_ask_to_end(const struct pst_process *p)
{
    kill(p->pid, ASK_SIGNAL);
}

/* The keeper ends what is left. One that cannot, since a plugin stopped it, say, is killed. */
void pst_process_end(struct pst_process *p)
{
    kill(p->pid, END_SIGNAL);
    kill(p->pid, SIGCONT);
    for (uint32_t ms = 0; ms < KEEPER_MS && !pst_process_has_ended(p); ms++) {
        poll(NULL, 0, 1);
    }
    kill(-p->pid, SIGKILL); /* not yet buried: the group still bears its number */
    while (waitpid(p->pid, &p->wait_status, 0) < 0 && errno == EINTR) {
    }
}

/* --- the keeper: the process that was started, once it has stepped behind ----------------------*/

/* To each child, and to the group that it leads, if it leads one. `own`: the one that there is in
   any case, also where the kernel keeps no list; 0: it has ended. */
static void signal_children(int number, pid_t own)
{
    char path[64], text[4096];
    ssize_t n;
    int fd;

    if (own != 0) {
        kill(-own, number);
        kill(own, number);
    }
    snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    for (char *at = text, *end; *at != '\0'; at = end) {
        const pid_t pid = (pid_t)strtol(at, &end, 10);

        if (end == at || *end == '\0') {
            break; /* the last one, or a part of a number, comes with the next reading */
        }
        end++;
        kill(-pid, number);
        kill(pid, number);
    }
    if (fd >= 0) {
        close(fd);
    }
}

/* Waits until `child` has ended and nothing that it started is left: what has lost its parent is a
   child of this process. Returns how it ended. */
static int keep_children(pid_t child, const sigset_t *heard)
{
    static const struct timespec forever = {3600, 0}, soon = {0, 10000000};
    pid_t left = child;
    bool over = false;
    int status, result = 0;

    for (uint32_t rounds = 0; rounds < KEEPER_MS / 10;) {
        pid_t pid = waitpid(-1, &status, WNOHANG);
        int number;

        if (pid == child) {
            result = status;
            over = true;
            left = 0;
        }
        if (pid > 0) {
            continue;
        }
        if (pid < 0 && errno == ECHILD) {
            break;
        }
        if (over) {
            signal_children(SIGKILL, left);
            rounds++;
        }
        number = sigtimedwait(heard, NULL, over ? &soon : &forever);
        if (number == ASK_SIGNAL) {
            signal_children(SIGTERM, left);
        }
        over = over || number == END_SIGNAL;
    }
    return result;
}

/* As the other one ended. */
static _Noreturn void end_alike(int status)
{
    sigset_t none;

    if (WIFSIGNALED(status)) {
        signal(WTERMSIG(status), SIG_DFL); /* sanitizers have handlers */
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        raise(WTERMSIG(status));
    }
    _exit(WEXITSTATUS(status));
}

bool pst_process_step_behind(pid_t parent, void (*ended)(int status))
{
    const pid_t keeper = getpid();
    sigset_t heard, old;
    pid_t pid;
    int status;

    sigemptyset(&heard);
    sigaddset(&heard, SIGCHLD);
    sigaddset(&heard, ASK_SIGNAL);
    sigaddset(&heard, END_SIGNAL);
    sigprocmask(SIG_BLOCK, &heard, &old);
    prctl(PR_SET_PDEATHSIG, END_SIGNAL);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    pid = parent != 0 && getppid() != parent ? -1 : fork(); /* no threads yet */
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a fork forgets it */
        sigprocmask(SIG_SETMASK, &old, NULL);
        return getppid() == keeper;
    }
    if (pid < 0) {
        return false;
    }
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    for (int fd = 0; fd < PST_PROCESS_NO_FD; fd++) {
        close(fd); /* the other one's alone: they end with it */
    }
    status = keep_children(pid, &heard);
    ended(status);
    end_alike(status);
}

void pst_process_finish(struct pst_process *p)
{
    pst_process_close(&p->job_fd);
    pst_process_close(&p->answer_fd);
    pst_process_close(&p->output_fd);
    if (p->page != NULL) {
        munmap(p->page, p->page_bytes);
        p->page = NULL;
    }
}

void *pst_process_page(size_t bytes)
{
    struct stat info;
    void *page;

    if (fstat(PST_PROCESS_PAGE_FD, &info) != 0 || info.st_size != (off_t)bytes) {
        return NULL;
    }
    page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, PST_PROCESS_PAGE_FD, 0);
    close(PST_PROCESS_PAGE_FD);
    return page == MAP_FAILED ? NULL : page;
}
