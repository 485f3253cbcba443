/* SPDX-License-Identifier: Apache-2.0 */
#include "train/stop.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

#define STACK_BYTES 65536u /* a frame has all registers: 11 KiB with AMX */

static atomic_int first_signal;
static atomic_uint n_wishes;
static pid_t owner; /* processes that it has forked say nothing */

static void on_signal(int number)
{
    static const char at_once[] = "\npenstock: ended at once by a second signal\n";
    int none = 0;

    if (!atomic_compare_exchange_strong(&first_signal, &none, number) && number == SIGINT) {
        const ssize_t told =
            getpid() == owner ? write(STDERR_FILENO, at_once, sizeof at_once - 1) : 0;

        (void)told;
        pst_file_abandon_writes();
        _exit(128 + SIGINT);
    }
}

static void on_wish(int number)
{
    (void)number;
    atomic_fetch_add(&n_wishes, 1);
}

uint64_t pst_stop_wishes(void)
{
    return atomic_load(&n_wishes);
}

/* Products of oneDNN 2.6 use the register of the stack for something else, close to the beginning
   of a heap block: what a handler puts there would overwrite what lies below. This thread gets all
   signals, the others block them. */
static void leave_stack_alone(void)
{
    static unsigned char room[STACK_BYTES];
    const stack_t stack = {.ss_sp = room, .ss_size = sizeof room};

    sigaltstack(&stack, NULL);
}

void pst_stop_install(void)
{
    struct sigaction action, before;

    owner = getpid();
    leave_stack_alone();
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART | SA_ONSTACK;
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
        sigaction(SIGHUP, &action, NULL); /* under nohup it stays ignored */
    }
    action.sa_handler = on_wish;
    sigaction(SIGUSR1, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
}

void pst_stop_note(int number)
{
    int none = 0;

    atomic_compare_exchange_strong(&first_signal, &none, number);
}

int pst_stop_signal(void)
{
    return atomic_load(&first_signal);
}

bool pst_stop_requested(void)
{
    return pst_stop_signal() != 0;
}

pst_status pst_stop_fail(struct pst_error *err)
{
    int number = pst_stop_signal();
    pst_status st = pst_fail(err, PST_ERR_CANCELLED, "run.stopped", "stopped by %s",
                             number == SIGTERM  ? "SIGTERM"
                             : number == SIGHUP ? "SIGHUP"
                                                : "SIGINT");

    if (err != NULL) {
        err->exit_code = 128 + (number == 0 ? SIGINT : number);
    }
    return st;
}
