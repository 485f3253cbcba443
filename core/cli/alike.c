/* SPDX-License-Identifier: Apache-2.0
 *
 * Who tells listens on an abstract socket, whose name is that of the job, the user and the words.
 * Others connect, read one byte once it has told, and leave when it does: a launcher ends all when
 * the first one fails, and that must not be before all have come.
 */
#define XXH_INLINE_ALL
#include "cli/alike.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/util.h"
#include "cli/commands.h"
#include "train/stop.h"
#include "transport/launched.h"

#define MILLION  UINT64_C(1000000)
#define FIRST_NS (300 * MILLION)  /* rank 0 has that long to come first */
#define LAST_NS  (1000 * MILLION) /* for those that find the same, from when it has been told */
#define TOLD_NS  (2000 * MILLION) /* from the first byte to the end */

static void name_of(const struct pst_error *err, struct sockaddr_un *ret_name, socklen_t *ret_size)
{
    char job[128], place[64];
    const char *const words[] = {job,          place,     err->kind, err->message,
                                 err->details, err->hint, err->file};
    XXH3_state_t *state = XXH3_createState();
    uint64_t digest = 0;
    int n;

    pst_launched_job(job, sizeof job);
    snprintf(place, sizeof place, "%u:%u %d", err->line, err->column, pst_error_exit_code(err));
    if (state != NULL) {
        XXH3_64bits_reset(state);
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            XXH3_64bits_update(state, words[i], strlen(words[i]) + 1);
        }
        digest = XXH3_64bits_digest(state);
        XXH3_freeState(state);
    }
    *ret_name = (struct sockaddr_un){.sun_family = AF_UNIX};
    n = snprintf(ret_name->sun_path + 1, sizeof ret_name->sun_path - 1, "penstock-%u-%016llx",
                 (unsigned)getuid(), (unsigned long long)digest);
    *ret_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static bool is_own(int fd)
{
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t size = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == getuid();
}

/* Is there something to read before that time? */
static bool comes(int fd, uint64_t end_ns)
{
    struct pollfd wish = {.fd = fd, .events = POLLIN};
    uint64_t now = pst_now_ns();
    int n = 0;

    while (now < end_ns && !pst_stop_requested()) {
        n = poll(&wish, 1, (int)((end_ns - now) / MILLION) + 1);
        if (n > 0 || (n < 0 && errno != EINTR)) {
            break;
        }
        now = pst_now_ns();
    }
    return n > 0;
}

/* Has somebody told it? Then this returns once that one leaves. */
static bool is_told(const struct sockaddr_un *name, socklen_t size)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char byte = 0;
    bool told = false;

    if (fd >= 0 && connect(fd, (const struct sockaddr *)name, size) == 0 && is_own(fd)) {
        told = comes(fd, pst_now_ns() + TOLD_NS) && recv(fd, &byte, 1, 0) == 1;
        if (told) {
            comes(fd, pst_now_ns() + TOLD_NS);
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    return told;
}

static int listen_at(const struct sockaddr_un *name, socklen_t size)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 &&
        (bind(fd, (const struct sockaddr *)name, size) != 0 || listen(fd, SOMAXCONN) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

bool pst_alike_begin(const struct pst_error *err, struct pst_alike *ret_alike)
{
    const struct timespec pause = {0, 5 * (long)MILLION};
    uint64_t end_ns = pst_now_ns() + (strcmp(pst_launched_rank(), "0") == 0 ? 0 : FIRST_NS);
    struct sockaddr_un name;
    socklen_t size;
    bool told;

    ret_alike->fd = -1;
    if (!pst_launched_as_several()) {
        return true;
    }
    name_of(err, &name, &size);
    while (!(told = is_told(&name, size)) && pst_now_ns() < end_ns && !pst_stop_requested()) {
        nanosleep(&pause, NULL);
    }
    if (!told) {
        ret_alike->fd = listen_at(&name, size);
        told = ret_alike->fd < 0 && is_told(&name, size); /* another one was faster */
    }
    return !told;
}

void pst_alike_end(struct pst_alike *alike)
{
    uint64_t end_ns = pst_now_ns() + LAST_NS;
    unsigned long near = pst_launched_near(), n = 1;

    if (alike->fd < 0) {
        return;
    }
    /* Connections stay open to the end of the process: what is read there is that end. */
    while (n != near && comes(alike->fd, end_ns)) {
        int fd = accept4(alike->fd, NULL, NULL, SOCK_CLOEXEC);

        if (fd >= 0 && is_own(fd) && send(fd, "y", 1, MSG_NOSIGNAL) == 1) {
            n++;
        } else if (fd >= 0) {
            close(fd);
        } else if (errno != EINTR && errno != ECONNABORTED) {
            break;
        }
    }
}

int pst_cli_end_alike(pst_status st, bool json, struct pst_error *err)
{
    const char *rank = pst_launched_rank();
    struct pst_alike alike;
    char host[64] = "";
    int code;

    if (st == PST_OK) {
        return pst_cli_end(st, json, err);
    }
    if (!pst_alike_begin(err, &alike)) {
        return pst_error_exit_code(err);
    }
    if (pst_launched_as_several() && strcmp(rank, "0") != 0 &&
        strncmp(err->kind, "run.", 4) != 0) { /* these name their own */
        gethostname(host, sizeof host - 1);
        pst_error_prefix(err, "rank %s (host %s)", rank, host);
    }
    code = pst_cli_end(st, json, err);
    pst_alike_end(&alike);
    return code;
}
