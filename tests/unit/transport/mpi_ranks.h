/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of the `mpi` transport: a program that starts itself under the launcher, as so many
 * ranks, each of which goes through the case that it is told. Include it first.
 */
#ifndef PST_TEST_TRANSPORT_MPI_RANKS_H
#define PST_TEST_TRANSPORT_MPI_RANKS_H

#include "unit/transport/support.h"

#include <time.h>
#include <unistd.h>

static char own_path[512];
#undef PENSTOCK_BINARY
#define PENSTOCK_BINARY own_path
#include "../../support.h"

#include "mpi_rig.h"

#define SECOND UINT64_C(1000000000)

static const struct pst_transport_ops *ops;
static struct pst_transport *transport;
static uint32_t me, n_ranks;
static uint32_t failures;

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            failures++;                                                                            \
            fprintf(stderr, "rank %u: %s:%d: %s\n", me, __FILE__, __LINE__, #condition);           \
        }                                                                                          \
    } while (0)

static inline void reopen(uint64_t stall_ns, uint32_t max_meetings)
{
    struct pst_transport_config config = {.n_ranks = n_ranks,
                                          .max_requests = 64,
                                          .max_meetings = max_meetings,
                                          .max_rows = 8,
                                          .stall_ns = stall_ns};
    struct pst_error err = {0};

    ops->close(transport);
    transport = NULL;
    if (ops->open(&config, &transport, &err) != PST_OK) {
        fprintf(stderr, "rank %u: %s\n", me, err.message);
        exit(1);
    }
}

static inline void nap(uint64_t us)
{
    struct timespec time = {0, (long)(us * 1000)};

    nanosleep(&time, NULL);
}

/* What a rank does; a NULL name ends a list. */
struct rank_case {
    const char *name;
    void (*body)(void);
};

/* --- a rank, and the program --- */

static inline int rank_main(const char *name, const struct rank_case *cases)
{
    uint64_t stall_ns = strcmp(name, "stall") == 0 ? 4 * SECOND : 60 * SECOND;
    const uint8_t *all;
    const bool *present;
    bool complete = true;
    uint8_t own;
    struct pst_error err = {0};

    ops = load_transport(PENSTOCK_PLUGIN_DIR "/transport-mpi.so");
    if (ops->processes->join("mpi", stall_ns, 1, &me, &n_ranks, &err) != PST_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    for (uint32_t i = 0; cases[i].name != NULL; i++) {
        if (strcmp(cases[i].name, name) == 0) {
            cases[i].body();
        }
    }
    ops->close(transport);
    own = failures > 0;
    all = ops->processes->settle(&own, 1, 5 * SECOND, &present);
    for (uint32_t r = 0; r < n_ranks; r++) {
        complete = complete && present[r];
        failures += !present[r] || all[r] != 0;
    }
    ops->processes->leave(failures > 0, complete);
    return failures > 0;
}

static inline void run_case(const char *name, uint32_t n)
{
    const char *args[] = {name, NULL};
    struct outcome outcome;

    mpi_rig_launch(n);
    outcome = support_run(args);
    expect_code(&outcome, 0);
    outcome_finish(&outcome);
}

/* A test that starts a case as n ranks. */
#define RANKS_TEST(test, name, n)                                                                  \
    TEST(test)                                                                                     \
    {                                                                                              \
        run_case(name, n);                                                                         \
    }

/* Under the launcher: the case; otherwise the tests, where there is MPI. */
#define RANKS_MAIN(cases)                                                                          \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        if (argc > 1) {                                                                            \
            return rank_main(argv[1], cases);                                                      \
        }                                                                                          \
        assert_true(readlink("/proc/self/exe", own_path, sizeof own_path - 1) > 0);                \
        return mpi_rig_is_here() ? run_own_tests(NULL, NULL) : MPI_RIG_SKIP;                       \
    }

#endif
