/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/searching.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/machine.h"
#include "train/stop.h"

#define SECOND UINT64_C(1000000000)

static uint64_t begin_ns;
static atomic_ullong next_ns; /* when to draw; UINT64_MAX: never */
static atomic_bool drawn;

void pst_searching_begin(const struct pst_cli *cli)
{
    begin_ns = pst_now_ns();
    atomic_store(&drawn, false);
    atomic_store(&next_ns, cli->verbosity >= 0 && !cli->json && isatty(STDERR_FILENO) == 1
                               ? begin_ns + SECOND
                               : UINT64_MAX);
}

bool pst_searching_stops(void)
{
    unsigned long long next = atomic_load(&next_ns);
    uint64_t now = next == UINT64_MAX ? 0 : pst_now_ns();

    /* of the threads that come here one draws */
    if (now > next && atomic_compare_exchange_strong(&next_ns, &next, now + SECOND)) {
        /* back at its beginning, where a message may overwrite it */
        fprintf(stderr, "\033[Ksearching for a plan: %llu s\r",
                (unsigned long long)((now - begin_ns) / SECOND));
        fflush(stderr);
        atomic_store(&drawn, true);
    }
    return pst_stop_requested();
}

void pst_searching_end(void)
{
    atomic_store(&next_ns, UINT64_MAX);
    if (atomic_exchange(&drawn, false)) {
        fprintf(stderr, "\033[K");
        fflush(stderr);
    }
}
