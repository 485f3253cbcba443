/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ranks of one unique id share, in POSIX shared memory, so that ranks may be threads or
 * processes. A process that is killed or stopped leaves the others able to go on, as GPUs do: the
 * lock passes from a thread that stands still to the one that waits for it, and whoever waits sleeps
 * on a word that it looks at again before long.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"

enum { MOST = 512, PATIENCE_MS = 20000, LOOK_NS = 20000000 };

struct block {
    atomic_uint ready, changes;
    atomic_int holder; /* thread; 0: none */
    struct fake_shared shared;
};

/* Of this process. */
struct entry {
    char name[sizeof(ncclUniqueId) + 32];
    struct block *block;
    unsigned refs;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct entry entries[MOST];

void fake_misuse(const char *what)
{
    fprintf(stderr, "nccl double: %s\n", what);
    abort();
}

static struct block *block_of(struct fake_shared *shared)
{
    return (struct block *)(void *)((char *)shared - offsetof(struct block, shared));
}

/* Whoever comes first makes it; the others wait until it is whole. */
static struct block *map(const char *name)
{
    const struct timespec moment = {0, 1000000};
    int file = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    bool first = file >= 0;
    struct block *block;
    struct stat found = {.st_size = 0};

    if (first && ftruncate(file, sizeof *block) != 0) {
        fake_misuse("no room in shared memory");
    }
    for (unsigned i = 0; !first && found.st_size < (off_t)sizeof *block; i++) {
        file = file >= 0 ? file : shm_open(name, O_RDWR, 0600);
        if (i == PATIENCE_MS || (file >= 0 && fstat(file, &found) != 0)) {
            fake_misuse("shared memory that nobody made");
        }
        nanosleep(&moment, NULL);
    }
    block = mmap(NULL, sizeof *block, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (block == MAP_FAILED) {
        fake_misuse("shared memory cannot be mapped");
    }
    if (first) {
        atomic_store(&block->ready, 1); /* memory that is new is zero */
    }
    for (unsigned i = 0; atomic_load(&block->ready) == 0; i++) {
        if (i == PATIENCE_MS) {
            fake_misuse("shared memory that is never whole");
        }
        nanosleep(&moment, NULL);
    }
    return block;
}

struct fake_shared *fake_shared_get(const ncclUniqueId *id)
{
    struct entry *entry = NULL, *unused = NULL;
    char name[sizeof entries[0].name];

    snprintf(name, sizeof name, "/penstock-nccl-%.*s", (int)sizeof id->internal, id->internal);
    pthread_mutex_lock(&mutex);
    for (unsigned i = 0; i < MOST; i++) {
        if (entries[i].refs == 0) {
            unused = &entries[i];
        } else if (strcmp(entries[i].name, name) == 0) {
            entry = &entries[i];
        }
    }
    if (entry == NULL) {
        if (unused == NULL) {
            fake_misuse("too many unique ids");
        }
        entry = unused;
        memcpy(entry->name, name, sizeof name);
        entry->block = map(name);
    }
    entry->refs++;
    pthread_mutex_unlock(&mutex);
    return &entry->block->shared;
}

static struct entry *entry_of(const struct fake_shared *shared)
{
    for (unsigned i = 0; i < MOST; i++) {
        if (entries[i].refs > 0 && &entries[i].block->shared == shared) {
            return &entries[i];
        }
    }
    fake_misuse("memory that is not shared");
    return NULL;
}

void fake_shared_forget(struct fake_shared *shared)
{
    pthread_mutex_lock(&mutex);
    shm_unlink(entry_of(shared)->name);
    pthread_mutex_unlock(&mutex);
}

void fake_shared_put(struct fake_shared *shared)
{
    struct entry *entry;

    pthread_mutex_lock(&mutex);
    entry = entry_of(shared);
    if (--entry->refs == 0) {
        munmap(entry->block, sizeof *entry->block);
        entry->block = NULL;
    }
    pthread_mutex_unlock(&mutex);
}

/* The thread will not go on by itself: dead, or stopped by a signal. */
static bool stands_still(int thread)
{
    char name[32], text[256] = "";
    FILE *file;
    const char *state;

    snprintf(name, sizeof name, "/proc/%d/stat", thread);
    file = fopen(name, "re");
    if (file == NULL) {
        return true;
    }
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    state = strrchr(text, ')');
    return state == NULL || strchr("TtZX", state[2]) != NULL;
}

/* Whoever stands still is robbed of it: every state of what it guards is a good one. */
void fake_shared_lock(struct fake_shared *shared)
{
    const struct timespec moment = {0, LOOK_NS};
    atomic_int *holder = &block_of(shared)->holder;
    int self = (int)syscall(SYS_gettid), found = 0;

    while (!atomic_compare_exchange_strong(holder, &found, self)) {
        if (syscall(SYS_futex, holder, FUTEX_WAIT, found, &moment, NULL, 0) == 0 ||
            errno != ETIMEDOUT || !stands_still(found)) {
            found = 0;
        }
    }
}

void fake_shared_unlock(struct fake_shared *shared)
{
    atomic_int *holder = &block_of(shared)->holder;
    int self = (int)syscall(SYS_gettid);

    if (atomic_compare_exchange_strong(holder, &self, 0)) {
        syscall(SYS_futex, holder, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
}

void fake_shared_tell(struct fake_shared *shared)
{
    atomic_uint *word = &block_of(shared)->changes;

    atomic_fetch_add(word, 1);
    syscall(SYS_futex, word, FUTEX_WAKE, FAKE_RANKS * FAKE_RANKS, NULL, NULL, 0);
}

void fake_shared_wait(struct fake_shared *shared)
{
    const struct timespec moment = {0, LOOK_NS};
    atomic_uint *word = &block_of(shared)->changes;
    unsigned seen = atomic_load(word);

    fake_shared_unlock(shared);
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &moment, NULL, 0);
    fake_shared_lock(shared);
}

/* --- messages --- */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* As much as fits without a break; true: something moved. */
static bool fill(struct fake_channel *channel, struct fake_end *end)
{
    uint64_t at = channel->in % FAKE_RING, n = FAKE_RING - (channel->in - channel->out);

    n = least(least(n, FAKE_RING - at), end->bytes - end->moved);
    memcpy(channel->ring + at, end->data + end->moved, n);
    end->moved += n;
    channel->in += n;
    return n > 0;
}

static bool drain(struct fake_channel *channel, struct fake_end *end)
{
    uint64_t at = channel->out % FAKE_RING, n = channel->in - channel->out;

    n = least(n, FAKE_RING - at);
    memcpy(end->data + end->moved, channel->ring + at, n);
    end->moved += n;
    channel->out += n;
    return n > 0;
}

static void open_end(struct fake_channel *channel, struct fake_end *end)
{
    bool *open = end->is_send ? &channel->send_open : &channel->recv_open;

    if (*open) {
        fake_misuse("two messages at once on one channel");
    }
    *open = end->open = true;
    *(end->is_send ? &channel->send_bytes : &channel->recv_bytes) = end->bytes;
    *(end->is_send ? &channel->send_known : &channel->recv_known) = end->known;
    end->number = channel->n_over;
}

void fake_end_step(struct fake_shared *shared, struct fake_channel *channel, struct fake_end *end)
{
    bool moved = false;

    if (!end->open) {
        open_end(channel, end);
        moved = true;
    }
    if (end->is_send && channel->n_over > end->number) {
        end->done = true;
        return;
    }
    if (channel->send_open && channel->recv_open && !channel->torn) {
        if (channel->send_bytes != channel->recv_bytes) {
            fake_misuse("a send and its receive are of different sizes");
        }
        if (channel->send_known != channel->recv_known) {
            fake_misuse("one end of a message is in registered memory, the other is not");
        }
        while (end->is_send ? fill(channel, end) : drain(channel, end)) {
            moved = true;
        }
        if (!end->is_send && end->moved == end->bytes) {
            channel->send_open = channel->recv_open = false;
            channel->in = channel->out = 0;
            channel->n_over++;
            end->done = moved = true;
        }
    }
    if (moved) {
        fake_shared_tell(shared);
    }
}

void fake_end_withdraw(struct fake_channel *channel, const struct fake_end *end)
{
    if (!end->open || end->done || (end->is_send && channel->n_over > end->number)) {
        return;
    }
    channel->torn = channel->torn || channel->in > 0;
    *(end->is_send ? &channel->send_open : &channel->recv_open) = false;
}
