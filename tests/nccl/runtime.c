/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA runtime as far as transport-nccl calls it, on host memory: a stream is a thread with a
 * queue, and late; events are generations. So whatever is not put in order shows up as wrong bytes,
 * and to tools that look for races. Streams that a double of a device has made are asked through
 * host_stream.h; of one that ends everything before it returns they are always through, and waiting
 * on one makes the caller wait.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake.h"
#include "host_stream.h"

enum { MOST_STREAMS = 256, MOST_DEVICES = 8 };

struct task {
    struct task *next;
    void (*work)(void *argument);
    void *argument;
};

struct fake_stream {
    pthread_t thread;
    pthread_cond_t wake;
    struct task *head, *tail;
    bool quit;
    uint64_t seed;
};

/* What is left to the end of the process, because kernels spin, is no leak. */
struct kept {
    struct kept *next, *before;
};

struct fake_event {
    struct kept kept; /* first */
    uint64_t n_recorded, n_done;
};

struct fake_memory {
    struct kept kept; /* first */
    _Alignas(64) char bytes[];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct fake_stream *streams[MOST_STREAMS];
static void *(*reach_of_device)(const void *address);
static struct kept all_kept = {&all_kept, &all_kept};
static _Thread_local int chosen = -1;
static _Thread_local cudaError_t last_error; /* what is not ready is none; runtimes have kept it */

/* CUDA would make a context on the first GPU, whoever has that. */
int fake_device(void)
{
    if (chosen < 0) {
        fake_misuse("a thread that has chosen no GPU calls CUDA");
    }
    return chosen;
}

/* A new one of so many bytes; NULL: it cannot be had. */
static void *keep(size_t bytes)
{
    size_t room = (bytes + 63) / 64 * 64;
    struct kept *kept;

    fake_device();
    kept = fake_fails() ? NULL : aligned_alloc(64, room);
    if (kept == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&mutex);
    *kept = (struct kept){all_kept.next, &all_kept};
    all_kept.next->before = kept;
    all_kept.next = kept;
    pthread_mutex_unlock(&mutex);
    atomic_fetch_add(&fake_nccl.n_kept, 1);
    return kept;
}

static void forget(void *one)
{
    struct kept *kept = one;

    pthread_mutex_lock(&mutex);
    kept->next->before = kept->before;
    kept->before->next = kept->next;
    pthread_mutex_unlock(&mutex);
    free(kept);
    atomic_fetch_sub(&fake_nccl.n_kept, 1);
}

static bool is_ours(cudaStream_t stream)
{
    bool found = false;

    pthread_mutex_lock(&mutex);
    for (uint32_t i = 0; i < MOST_STREAMS; i++) {
        found = found || (stream != NULL && streams[i] == stream);
    }
    pthread_mutex_unlock(&mutex);
    return found;
}

static void be_late(struct fake_stream *stream)
{
    struct timespec nap = {0};

    stream->seed = stream->seed * 6364136223846793005u + 1442695040888963407u;
    nap.tv_nsec = (long)((stream->seed >> 33) % 20000u);
    if (nap.tv_nsec < 4000) {
        nanosleep(&nap, NULL);
    }
}

static void *run_stream(void *argument)
{
    struct fake_stream *stream = argument;

    pthread_mutex_lock(&mutex);
    for (;;) {
        struct task *task = stream->head;

        if (task == NULL && stream->quit) {
            break;
        }
        if (task == NULL) {
            pthread_cond_wait(&stream->wake, &mutex);
            continue;
        }
        stream->head = task->next;
        stream->tail = stream->head == NULL ? NULL : stream->tail;
        pthread_mutex_unlock(&mutex);
        be_late(stream);
        task->work(task->argument);
        free(task->argument);
        free(task);
        pthread_mutex_lock(&mutex);
    }
    pthread_mutex_unlock(&mutex);
    return NULL;
}

void *fake_reach(const void *address)
{
    void *(*reach)(const void *address);

    pthread_mutex_lock(&mutex);
    reach = reach_of_device;
    pthread_mutex_unlock(&mutex);
    return reach != NULL ? reach(address) : (void *)(uintptr_t)address;
}

/* Other streams than those of host_stream.h are taken for ones that are always through. */
static void ask_other(struct host_stream *stream, void (*work)(void *argument), void *argument)
{
    bool known = stream != NULL && stream->magic == HOST_STREAM;

    if (known) {
        pthread_mutex_lock(&mutex);
        reach_of_device = stream->reach;
        pthread_mutex_unlock(&mutex);
    }
    if (known && stream->ask != NULL) {
        stream->ask(stream, work, argument);
        return;
    }
    work(argument);
    free(argument);
}

void fake_stream_ask(cudaStream_t stream, void (*work)(void *argument), void *argument)
{
    struct task *task;

    if (!is_ours(stream)) {
        ask_other((struct host_stream *)(void *)stream, work, argument);
        return;
    }
    task = calloc(1, sizeof *task);
    if (task == NULL) {
        abort();
    }
    task->work = work;
    task->argument = argument;
    pthread_mutex_lock(&mutex);
    if (stream->tail == NULL) {
        stream->head = task;
    } else {
        stream->tail->next = task;
    }
    stream->tail = task;
    pthread_cond_signal(&stream->wake);
    pthread_mutex_unlock(&mutex);
}

/* --- streams --- */

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *ret_stream, unsigned flags, int priority)
{
    struct fake_stream *stream = fake_fails() ? NULL : calloc(1, sizeof *stream);
    bool kept = false;

    if (stream == NULL) {
        return cudaErrorMemoryAllocation;
    }
    pthread_mutex_lock(&mutex);
    for (uint32_t i = 0; i < MOST_STREAMS && !kept; i++) {
        if (streams[i] == NULL) {
            streams[i] = stream;
            stream->seed = i + 1;
            kept = true;
        }
    }
    pthread_mutex_unlock(&mutex);
    pthread_cond_init(&stream->wake, NULL);
    if (!kept || pthread_create(&stream->thread, NULL, run_stream, stream) != 0) {
        abort();
    }
    atomic_fetch_add(&fake_nccl.n_kept, 1);
    *ret_stream = stream;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    pthread_mutex_lock(&mutex);
    stream->quit = true;
    pthread_cond_signal(&stream->wake);
    pthread_mutex_unlock(&mutex);
    pthread_join(stream->thread, NULL);
    pthread_mutex_lock(&mutex);
    for (uint32_t i = 0; i < MOST_STREAMS; i++) {
        streams[i] = streams[i] == stream ? NULL : streams[i];
    }
    pthread_mutex_unlock(&mutex);
    pthread_cond_destroy(&stream->wake);
    free(stream);
    atomic_fetch_sub(&fake_nccl.n_kept, 1);
    return cudaSuccess;
}

/* --- events --- */

struct moment {
    struct fake_event *event;
    uint64_t generation;
};

static struct moment *make_moment(struct fake_event *event, bool record)
{
    struct moment *moment = malloc(sizeof *moment);

    if (moment == NULL) {
        abort();
    }
    pthread_mutex_lock(&mutex);
    event->n_recorded += record;
    *moment = (struct moment){event, event->n_recorded};
    pthread_mutex_unlock(&mutex);
    return moment;
}

static void reach(void *argument)
{
    const struct moment *moment = argument;

    pthread_mutex_lock(&mutex);
    if (moment->event->n_done < moment->generation) {
        moment->event->n_done = moment->generation;
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static void await(void *argument)
{
    const struct moment *moment = argument;

    pthread_mutex_lock(&mutex);
    while (moment->event->n_done < moment->generation) {
        pthread_cond_wait(&changed, &mutex);
    }
    pthread_mutex_unlock(&mutex);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret_event, unsigned flags)
{
    *ret_event = keep(sizeof **ret_event);
    if (*ret_event == NULL) {
        return cudaErrorMemoryAllocation;
    }
    (*ret_event)->n_recorded = (*ret_event)->n_done = 0;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    forget(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    fake_device();
    if (fake_fails()) {
        return cudaErrorInvalidValue;
    }
    fake_stream_ask(stream, reach, make_moment(event, true));
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    if (fake_fails()) {
        return cudaErrorInvalidValue;
    }
    fake_stream_ask(stream, await, make_moment(event, false));
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    bool done;

    fake_device();
    if (atomic_load(&fake_nccl.broken)) {
        return cudaErrorInvalidValue;
    }
    pthread_mutex_lock(&mutex);
    done = event->n_done == event->n_recorded;
    pthread_mutex_unlock(&mutex);
    last_error = done ? last_error : cudaErrorNotReady;
    return done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = last_error;

    last_error = cudaSuccess;
    return error;
}

/* --- the rest --- */

struct piece {
    void *to;
    const void *from;
    size_t bytes;
};

static struct piece *make_piece(void *to, const void *from, size_t bytes)
{
    struct piece *piece = malloc(sizeof *piece);

    if (piece == NULL) {
        abort();
    }
    *piece = (struct piece){fake_reach(to), fake_reach(from), bytes};
    return piece;
}

static void copy(void *argument)
{
    const struct piece *piece = argument;

    memcpy(piece->to, piece->from, piece->bytes);
}

static void add(void *argument)
{
    const struct piece *piece = argument;
    const float *from = piece->from;
    float *to = piece->to;

    for (size_t i = 0; i < piece->bytes / sizeof *to; i++) {
        to[i] += from[i];
    }
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    if (fake_fails()) {
        return cudaErrorInvalidValue;
    }
    fake_stream_ask(stream, copy, make_piece(to, from, bytes));
    return cudaSuccess;
}

/* In place of add.cu. */
cudaError_t nccl_add(float *dst, const float *src, uint64_t elems, cudaStream_t stream);

cudaError_t nccl_add(float *dst, const float *src, uint64_t elems, cudaStream_t stream)
{
    const cudaError_t before = cudaGetLastError(); /* a launch that failed, as add.cu has it */

    if (before != cudaSuccess) {
        return before;
    }
    if (fake_fails()) {
        return cudaErrorInvalidValue;
    }
    fake_stream_ask(stream, add, make_piece(dst, src, elems * sizeof *dst));
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **ret_memory, size_t bytes)
{
    struct fake_memory *memory = keep(sizeof *memory + bytes);

    *ret_memory = memory != NULL ? memory->bytes : NULL;
    return memory != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *memory)
{
    if (memory != NULL && fake_is_known(NULL, memory, 1)) {
        fake_misuse("memory is freed that a communicator knows");
    }
    if (memory != NULL) {
        forget((char *)memory - offsetof(struct fake_memory, bytes));
    }
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = MOST_DEVICES;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device >= MOST_DEVICES || fake_fails()) {
        return cudaErrorInvalidValue;
    }
    chosen = device;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *lowest, int *highest)
{
    if (fake_fails()) {
        return cudaErrorInvalidValue;
    }
    *lowest = 0;
    *highest = -1;
    return cudaSuccess;
}

const char *cudaGetErrorName(cudaError_t error)
{
    return error == cudaSuccess ? "cudaSuccess" : "an error";
}

const char *cudaGetErrorString(cudaError_t error)
{
    return cudaGetErrorName(error);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    if (attribute != cudaDevAttrMultiProcessorCount || device >= MOST_DEVICES || fake_fails()) {
        return cudaErrorInvalidValue;
    }
    *value = (int)(device % 2 == 1 && fake_nccl.processors_of_odd > 0 ? fake_nccl.processors_of_odd
                                                                      : fake_nccl.processors);
    return cudaSuccess;
}
