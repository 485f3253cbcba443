/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"

/* Numbers on this side from here on, so that the process's fixed ones can be set in any order. */
#define HIGH_FD 16

extern char **environ;

void pst_process_close(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

/* The same file under a number that is out of the way; closes the old one. */
static bool lift(int *fd)
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
    return lift(ret_read) && lift(ret_write) && fcntl(*own, F_SETFL, O_NONBLOCK) == 0;
}

static bool make_page(struct pst_process *p, int *ret_fd)
{
    void *page;

    *ret_fd = memfd_create("penstock-page", MFD_CLOEXEC);
    if (*ret_fd < 0 || !lift(ret_fd) || ftruncate(*ret_fd, (off_t)p->page_bytes) != 0) {
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

static int spawn(struct pst_process *p, char *const *argv, const char *word, const int *fds)
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
        code = spawn(p, argv, word, fds);
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

    return waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ? errno != EINTR
                                                                                : info.si_pid != 0;
}

void pst_process_signal(const struct pst_process *p, int number)
{
    kill(-p->pid, number);
}

void pst_process_end(struct pst_process *p)
{
    pst_process_signal(p, SIGKILL); /* not yet buried: the group still bears its number */
    while (waitpid(p->pid, &p->wait_status, 0) < 0 && errno == EINTR) {
    }
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
