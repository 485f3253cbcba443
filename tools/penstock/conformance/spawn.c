/* SPDX-License-Identifier: Apache-2.0 */
#include "conformance/spawn.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "host/process.h"

enum { POLL_MS = 5 };

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

/* Until it has ended, by itself or at the limit; its whole group goes with it. */
static void watch(struct pst_process *process, uint32_t time_limit_s, bool (*cancelled)(void),
                  struct pst_child *child)
{
    uint64_t end = pst_now_ns() + (uint64_t)time_limit_s * 1000000000u;

    for (;;) {
        struct pollfd wait = {.fd = process->output_fd, .events = POLLIN};

        poll(&wait, 1, POLL_MS);
        drain(process->output_fd, child);
        if (pst_process_has_ended(process)) {
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
    pst_process_end(process);
    drain(process->output_fd, child);
}

/* malloc goes without a cache of what was freed, whose blocks count as used. */
pst_status pst_child_run(char *const *argv, uint32_t time_limit_s, bool (*cancelled)(void),
                         struct pst_child *ret_child, struct pst_error *err)
{
    struct pst_process process;
    int error = pst_process_start(&process, argv, "GLIBC_TUNABLES=glibc.malloc.tcache_count=0",
                                  false, sizeof ret_child->verdict);

    memset(ret_child, 0, sizeof *ret_child);
    if (error == 0) {
        watch(&process, time_limit_s, cancelled, ret_child);
        memcpy(&ret_child->verdict, process.page, sizeof ret_child->verdict);
        ret_child->wait_status =
            ret_child->verdict.ended != 0 ? ret_child->verdict.wait_status : process.wait_status;
        ret_child->verdict.text[sizeof ret_child->verdict.text - 1] = '\0';
    }
    pst_process_finish(&process);
    return error == 0 ? PST_OK
                      : pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                                 "cannot start a process for a test: %s", strerror(error));
}
