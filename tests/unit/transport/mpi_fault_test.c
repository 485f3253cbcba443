/* SPDX-License-Identifier: Apache-2.0
 *
 * A process for which there is no memory any more: its own failure says so, the others leave with
 * the same exit code, and all come together to the end.
 */
#include "unit/transport/mpi_ranks.h"

#include <stdatomic.h>

static atomic_bool starving;

/* In the place of the one that reads PENSTOCK_FAULT: modules ask for it by its name. */
int pst_fault_call(const char *point, int usual, size_t *bytes);

int pst_fault_call(const char *point, int usual, size_t *bytes)
{
    (void)bytes;
    return atomic_load(&starving) && strcmp(point, "alloc") == 0 ? usual : 0;
}

/* The communicator of rank 1 has to keep a message for which nobody waits yet. */
static void starved(void)
{
    struct pst_error err = {0};
    pst_request request;
    uint8_t byte = 0, all[MAX_RANKS];

    reopen(20 * SECOND, 0);
    atomic_store(&starving, me == 1);
    EXPECT(ops->processes->exchange(&byte, all, 1, &err) == PST_OK);
    if (me == 0) {
        EXPECT(ops->send(transport, 0, 1, 4, &byte, 1, &request) == PST_OK);
        EXPECT(ops->recv(transport, 0, 1, 5, &byte, 1, &request) == PST_OK);
        EXPECT(ops->wait(transport, 0, request, &err) == PST_ERR_CANCELLED);
        EXPECT(strcmp(err.kind, "run.aborted") == 0);
        EXPECT(err.exit_code == 4);
        EXPECT(strcmp(err.message, "rank 1 stopped the run: out of host memory") == 0);
    } else {
        EXPECT(ops->recv(transport, 1, 0, 6, &byte, 1, &request) == PST_OK);
        EXPECT(ops->wait(transport, 1, request, &err) == PST_ERR_NOMEM);
        EXPECT(strcmp(err.kind, "machine.memory") == 0);
    }
}

RANKS_TEST(test_without_memory, "starved", 2)

static const struct rank_case cases[] = {{"starved", starved}, {NULL, NULL}};

RANKS_MAIN(cases)
