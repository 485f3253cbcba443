/* SPDX-License-Identifier: Apache-2.0
 *
 * What meetings of two threads cost on the `threads` transport, in the lane of parts, beside
 * copies:
 *
 *   bench-meet [KIB [ROUNDS]]     a tensor of 1 MiB
 *
 * In a sum each thread reads half of what both bring and writes half of what both get; so the
 * copies that it is held against are two of half the tensor on each thread, from and to the same
 * places, which wait for nobody. As in a step, a thread has written what it brings right before,
 * and has read what it got. Rounds alternate; times are medians, of threads that begin at once.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spin_pause.h"
#include "base/util.h"
#include "exec/transport.h"

enum { MEMBERS = 2, REPEATS = 200, MAX_ROUNDS = 1000, WAYS = 4 };

static const char *const way_names[WAYS] = {"two copies of half", "sum", "scatter", "gather"};

struct bench {
    const struct pst_transport_ops *ops;
    struct pst_transport *transport;
    uint64_t bytes;
    uint32_t rounds;
    float *src[MEMBERS], *dst[MEMBERS];
    atomic_uint arrived; /* how often a member has */
    double us[WAYS][MEMBERS * MAX_ROUNDS];
};

struct member {
    struct bench *bench;
    uint32_t rank;
};

static void check(pst_status status, const struct pst_error *err)
{
    if (status != PST_OK) {
        fprintf(stderr, "bench-meet: %s\n", err->message);
        exit(1);
    }
}

static void copy_halves(const struct bench *bench, uint32_t half)
{
    const uint64_t n = bench->bytes / 2 / sizeof(float);

    for (uint32_t m = 0; m < MEMBERS; m++) {
        memcpy(bench->dst[m] + half * n, bench->src[m] + half * n, n * sizeof(float));
    }
}

/* A sum that both get, one of which each gets half, or what each has half of. */
static void meet(const struct bench *bench, uint32_t rank, uint32_t way)
{
    static const uint32_t members[MEMBERS] = {0, 1};
    const uint64_t elems = bench->bytes / sizeof(float);
    const bool sums = way != 3, whole = way == 1;
    struct pst_meet_part parts[MEMBERS];
    const void *sources[MEMBERS];
    struct pst_meeting meeting = {.kind = sums ? PST_MEET_SUM : PST_MEET_GATHER,
                                  .lane = PST_MEET_PARTS,
                                  .dtype = PST_F32,
                                  .name = "meeting",
                                  .members = members,
                                  .n_members = MEMBERS,
                                  .n_parts = whole ? 1 : MEMBERS,
                                  .n_src = 1,
                                  .parts = parts};
    struct pst_error err = {.message = "a meeting is refused"};
    pst_request request = 0;

    for (uint32_t p = 0; p < meeting.n_parts; p++) {
        sources[p] = bench->src[rank] + p * (elems / MEMBERS);
        parts[p] = (struct pst_meet_part){.src = sums ? &sources[p] : NULL,
                                          .dst = bench->dst[rank] + p * (elems / MEMBERS),
                                          .elems = bench->bytes / meeting.n_parts /
                                                   pst_meeting_size(&meeting),
                                          .owner = whole ? PST_NONE : p};
    }
    check(bench->ops->meet(bench->transport, rank, &meeting, &request), &err);
    check(bench->ops->wait(bench->transport, rank, request, &err), &err);
}

/* Returns when both are there, within the time of a cache line. */
static void begin_at_once(struct bench *bench, uint32_t turn)
{
    atomic_fetch_add(&bench->arrived, 1);
    while (atomic_load(&bench->arrived) < MEMBERS * turn) {
        pst_spin_pause();
    }
}

/* A kernel writes the operand before a meeting and reads the result after it. Both are then in the
   cache of its core. */
static void touch(const struct bench *bench, uint32_t rank)
{
    const volatile float *got = bench->dst[rank];

    memset(bench->src[rank], 0, bench->bytes);
    for (uint64_t i = 0; i < bench->bytes / sizeof *got; i += 16) {
        (void)got[i];
    }
}

static void *run_member(void *argument)
{
    const struct member *self = argument;
    struct bench *bench = self->bench;
    uint32_t turn = 0;

    for (uint32_t i = 0; i < (bench->rounds + 1) * WAYS; i++) { /* the first round warms up */
        const uint32_t way = i % WAYS, round = i / WAYS;
        uint64_t spent = 0, begin;

        for (uint32_t k = 0; k < REPEATS; k++) {
            touch(bench, self->rank);
            begin_at_once(bench, ++turn);
            begin = pst_now_ns();
            if (way == 0) {
                copy_halves(bench, self->rank);
            } else {
                meet(bench, self->rank, way);
            }
            spent += pst_now_ns() - begin;
            begin_at_once(bench, ++turn); /* nobody touches what the other copies */
        }
        if (round > 0) {
            bench->us[way][MEMBERS * (round - 1) + self->rank] = (double)spent / REPEATS * 1e-3;
        }
    }
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void open_transport(struct bench *bench)
{
    const struct pst_transport_config config = {
        .n_ranks = MEMBERS, .max_requests = 1, .max_meetings = 1, .stall_ns = 30000000000};
    void *module = dlopen(PENSTOCK_PLUGIN_DIR "/transport-threads.so", RTLD_NOW | RTLD_LOCAL);
    pst_transport_module_fn *entry = NULL;
    struct pst_error err = {0};

    if (module != NULL) {
        *(void **)&entry = dlsym(module, PST_TRANSPORT_MODULE_SYMBOL);
    }
    if (entry == NULL) {
        fprintf(stderr, "bench-meet: %s\n", dlerror());
        exit(4);
    }
    bench->ops = entry();
    check(bench->ops->open(&config, &bench->transport, &err), &err);
}

static void run(struct bench *bench)
{
    struct member members[MEMBERS];
    pthread_t threads[MEMBERS];

    for (uint32_t m = 0; m < MEMBERS; m++) {
        bench->src[m] = pst_alloc(bench->bytes, 1);
        bench->dst[m] = pst_alloc(bench->bytes, 1);
        members[m] = (struct member){bench, m};
        if (pthread_create(&threads[m], NULL, run_member, &members[m]) != 0) {
            fprintf(stderr, "bench-meet: no thread\n");
            exit(4);
        }
    }
    for (uint32_t m = 0; m < MEMBERS; m++) {
        pthread_join(threads[m], NULL);
    }
    for (uint32_t m = 0; m < MEMBERS; m++) {
        free(bench->src[m]);
        free(bench->dst[m]);
    }
}

int main(int argc, char **argv)
{
    static struct bench bench;
    const uint64_t kib = argc > 1 ? strtoull(argv[1], NULL, 10) : 1024;
    const uint64_t rounds = argc > 2 ? strtoull(argv[2], NULL, 10) : 21;

    if (argc > 3 || kib == 0 || kib > 1 << 20 || rounds == 0 || rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: bench-meet [KIB [ROUNDS]]\n");
        return 2;
    }
    bench.bytes = kib * 1024;
    bench.rounds = (uint32_t)rounds;
    open_transport(&bench);
    run(&bench);
    bench.ops->close(bench.transport);
    printf("%-20s %10s %10s\n", "of 2 threads", "us", "of copies");
    for (uint32_t way = 0; way < WAYS; way++) {
        qsort(bench.us[way], MEMBERS * rounds, sizeof bench.us[way][0], by_value);
        printf("%-20s %10.1f %10.2f\n", way_names[way], bench.us[way][rounds],
               bench.us[way][rounds] / bench.us[0][rounds]);
    }
    return 0;
}
