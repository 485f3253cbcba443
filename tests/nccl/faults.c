/* SPDX-License-Identifier: Apache-2.0
 *
 * What a test sets and reads of the double of NCCL, which calls fail; version, ids, error texts.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"

static void fail_rank(int rank);

__attribute__((visibility("default"))) struct fake_nccl fake_nccl = {
    .faults = {.polls = 2, .vanished = -1, .failing = -1},
    .processors = 132,
    .let_go = fake_let_aborts_go,
    .break_rank = fail_rank,
    .stream_create = cudaStreamCreateWithPriority,
    .stream_destroy = cudaStreamDestroy,
    .ask = fake_stream_ask,
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of the above and this */
static unsigned n_ids;

__attribute__((constructor)) static void read_faults(void)
{
    const char *text = getenv("PENSTOCK_FAKE_NCCL");
    struct fake_faults *faults = &fake_nccl.faults;

    if (text != NULL &&
        sscanf(text, "%u %d %d", &faults->polls, &faults->vanished, &faults->failing) != 3) {
        fake_misuse("PENSTOCK_FAKE_NCCL is \"polls vanished failing\"");
    }
}

static void fail_rank(int rank)
{
    pthread_mutex_lock(&mutex);
    fake_nccl.faults.failing = rank;
    pthread_mutex_unlock(&mutex);
}

bool fake_is_failing(int rank)
{
    bool failing;

    pthread_mutex_lock(&mutex);
    failing = fake_nccl.faults.failing == rank;
    pthread_mutex_unlock(&mutex);
    return failing;
}

bool fake_fails(void)
{
    unsigned call = atomic_fetch_add(&fake_nccl.n_calls, 1) + 1;

    return call == fake_nccl.faults.fails;
}

ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION(2, 28, 9);
    return ncclSuccess;
}

unsigned fake_blocks(const ncclConfig_t *config)
{
    unsigned blocks = 1;

    while (blocks < (unsigned)config->maxCTAs) {
        blocks *= 2;
    }
    return blocks;
}

/* One that no other process of this machine makes. */
ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    const char *whose = getenv("PENSTOCK_FAKE_WHOSE"); /* by which a test knows its own */
    struct timespec now;
    unsigned number;

    if (fake_fails()) {
        return ncclInternalError;
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    pthread_mutex_lock(&mutex);
    number = ++n_ids;
    pthread_mutex_unlock(&mutex);
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "%ld-%lld-%ld-%u-%.40s", (long)getpid(),
             (long long)now.tv_sec, now.tv_nsec, number, whose == NULL ? "" : whose);
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclRemoteError ? "remote process exited" : "an error";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    return "";
}
