/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes of this machine that end before the run does, killed or crashed: their pidfds show it
 * at once, long before they count as silent, so that there is time to name them before the launcher
 * ends the others. A process's own message comes first: a moment is left for it.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "transport/mpi/module.h"

#define LOOK_NS  UINT64_C(20000000)  /* between two looks */
#define GRACE_NS UINT64_C(150000000) /* from the end of a process to the end of the run */
#define MOST_NS  (4 * GRACE_NS)      /* the same, while nobody is known to wait for it */

void mpi_self(struct mpi_self *ret_self)
{
    static const char *const file = "/proc/sys/kernel/random/boot_id";
    struct stat names;
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    ssize_t n = 0;

    memset(ret_self, 0, sizeof *ret_self);
    if (fd >= 0) {
        n = read(fd, ret_self->boot, sizeof ret_self->boot);
        close(fd);
    }
    if (n == (ssize_t)sizeof ret_self->boot && stat("/proc/self/ns/pid", &names) == 0) {
        ret_self->pid_names = names.st_ino;
        ret_self->pid = (int32_t)getpid();
    }
}

/* Numbers of processes mean the same to both. */
static bool is_near(const struct mpi_self *a, const struct mpi_self *b)
{
    return a->pid > 0 && b->pid > 0 && a->pid_names == b->pid_names &&
           memcmp(a->boot, b->boot, sizeof a->boot) == 0;
}

void mpi_gone_watch(struct world *world, uint32_t rank, const struct mpi_self *self,
                    const struct mpi_self *other)
{
    if (rank != world->rank && is_near(self, other)) {
        /* Where the kernel has none, or forbids it, the launcher and silence are left. */
        atomic_store(&world->gone[rank].fd, (int)syscall(SYS_pidfd_open, other->pid, 0));
    }
}

/* Signs of life at once, first of all: who waits for whom has changed since the last. */
static void mark(struct world *world, uint32_t rank, uint64_t now)
{
    world->gone[rank].since_ns = now;
    world->beaten_ns =
        now - GRACE_NS / 3 > world->beat_ns ? now + GRACE_NS / 3 - world->beat_ns : 0;
}

static void set_gone(struct world *world, uint32_t rank, bool is)
{
    pthread_mutex_lock(&world->mutex);
    world->gone[rank].is = is;
    pthread_mutex_unlock(&world->mutex);
}

/* On a busy machine the others take their time until they come to wait for it. */
static void end_run(struct world *world, uint32_t rank, bool at_once)
{
    struct pst_error why;

    set_gone(world, rank, true);
    if (mpi_tell_gone(world, rank, &why) || at_once) {
        mpi_abort(world, world->rank, &why);
    } else {
        set_gone(world, rank, false);
    }
}

void mpi_gone_progress(struct world *world, uint64_t now)
{
    if (now - world->gone_looked_ns < LOOK_NS) {
        return;
    }
    world->gone_looked_ns = now;
    for (uint32_t r = 0; r < world->n_ranks; r++) {
        struct gone *gone = &world->gone[r];
        struct pollfd end = {.fd = atomic_load(&gone->fd), .events = POLLIN};

        if (end.fd < 0 || gone->is) {
            continue;
        }
        if (gone->since_ns == 0 && poll(&end, 1, 0) == 1) {
            mark(world, r, now);
        }
        if (gone->since_ns != 0 && now - gone->since_ns >= GRACE_NS) {
            end_run(world, r, now - gone->since_ns >= MOST_NS);
        }
    }
}

void mpi_gone_finish(struct world *world)
{
    for (uint32_t r = 0; world->gone != NULL && r < world->n_ranks; r++) {
        int fd = atomic_load(&world->gone[r].fd);

        if (fd >= 0) {
            close(fd);
        }
    }
    free(world->gone);
}
