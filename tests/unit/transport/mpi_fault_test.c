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

/* What ended the run, within a while. */
static pst_status await_end(struct pst_error *err)
{
    pst_status status = PST_OK;

    for (uint32_t i = 0; i < 2000 && status == PST_OK; i++) {
        nap(5000);
        status = ops->check(transport, me, err);
    }
    return status;
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
        EXPECT(post_send(ops, transport, 0, 1, 4, &byte, 1, &request) == PST_OK);
        EXPECT(await_end(&err) == PST_ERR_CANCELLED);
        EXPECT(strcmp(err.kind, "run.aborted") == 0);
        EXPECT(err.exit_code == 4);
        EXPECT(strcmp(err.message, "rank 1 stopped the run: out of host memory") == 0);
    } else {
        EXPECT(await_end(&err) == PST_ERR_NOMEM);
        EXPECT(strcmp(err.kind, "machine.memory") == 0);
    }
}

RANKS_TEST(test_without_memory, "starved", 2)

static const struct rank_case cases[] = {{"starved", starved}, {NULL, NULL}};

RANKS_MAIN(cases)
