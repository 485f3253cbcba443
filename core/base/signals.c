/* SPDX-License-Identifier: Apache-2.0 */
#include "base/signals.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/util.h"

#define STACK_BYTES 65536u /* a frame has all registers: 11 KiB with AMX */

static atomic_int first_signal;
static atomic_uint n_wishes;
static atomic_int grace_ms = PST_STOP_USUAL_MS;
static void (*last_words)(int number);
static pid_t owner; /* processes that it has forked say nothing */

static void end_process(void)
{
    const int number = pst_stop_signal();

    if (getpid() == owner) {
        pst_file_abandon_writes();
        if (last_words != NULL) {
            last_words(number);
        }
    }
    _exit(128 + number);
}

/* In a handler or not. */
static void start_clock(int32_t ms)
{
    const struct itimerval after = {
        .it_value = {.tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000}};

    if (ms == 0) {
        end_process();
    }
    if (ms > 0) {
        setitimer(ITIMER_REAL, &after, NULL);
    }
}

static void on_alarm(int number)
{
    (void)number;
    if (pst_stop_requested() && atomic_load(&grace_ms) != PST_STOP_ORDERLY) {
        end_process();
    }
}

void pst_stop_grace(int32_t ms)
{
    atomic_store(&grace_ms, ms);
    if (pst_stop_requested() && getpid() == owner) {
        start_clock(ms);
    }
}

static void on_signal(int number)
{
    static const char at_once[] = "\npenstock: ended at once by a second signal\n";
    int none = 0;

    if (atomic_compare_exchange_strong(&first_signal, &none, number)) {
        start_clock(getpid() == owner ? atomic_load(&grace_ms) : 0);
    } else if (number == SIGINT) {
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

void pst_stop_install(void (*tell)(int number))
{
    struct sigaction action, before;

    owner = getpid();
    last_words = tell;
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
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
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

pst_status pst_stop_fail_by(int number, struct pst_error *err)
{
    pst_status status = pst_fail(err, PST_ERR_CANCELLED, "run.stopped", "stopped by %s",
                                 number == SIGTERM  ? "SIGTERM"
                                 : number == SIGHUP ? "SIGHUP"
                                                    : "SIGINT");

    if (err != NULL) {
        err->exit_code = 128 + (number == 0 ? SIGINT : number);
    }
    return status;
}

pst_status pst_stop_fail(struct pst_error *err)
{
    return pst_stop_fail_by(pst_stop_signal(), err);
}
