/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams, events, captures and graphs of the double of the CUDA runtime. One lock for all of them;
 * what is done holds it not. A capture takes what is asked for in order and lets nothing else be
 * done on its thread, which is stricter than CUDA: a record or a wait in it is refused, too.
 *
 * ON_HOST_STUCK=N: the N-th record of an event of this process never ends, as behind a kernel that
 * does not. Then whatever waits for a whole GPU waits for ever.
 */
#include "streams.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "faults.h"
#include "host_stream.h"

/* As on a GPU whoever asks for more waits for the stream. */
enum { MOST_PENDING = 1024 };

struct item {
    struct item *next;
    void (*body)(void *);
    size_t bytes;
    max_align_t context[];
};

struct list {
    struct item *first, **last;
};

struct CUstream_st {
    struct host_stream base; /* first */
    int gpu;                 /* the one that was chosen when it was made; so of events */
    bool threaded, quits;
    pthread_t thread;
    pthread_cond_t asked; /* there is something to do */
    struct list waiting;
    uint64_t n_put, n_done;
    struct CUgraph_st *capture; /* under way; only its thread looks at these */
    bool lost;
};

struct CUevent_st {
    int gpu;
    bool timed;
    uint32_t users; /* the owner, and items */
    uint64_t n_put, n_done;
    double ms; /* when it was recorded last; 0: never */
};

struct CUgraph_st {
    struct list items;
};

struct CUgraphExec_st {
    struct list items;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static _Thread_local struct CUstream_st *capturing;
static atomic_uint n_captured, n_launched, n_records;
static atomic_bool stuck;

/* For tests: graphs that were made and launched so far. */
__attribute__((visibility("default"))) void on_host_graphs(unsigned *ret_made,
                                                           unsigned *ret_launched);

void on_host_graphs(unsigned *ret_made, unsigned *ret_launched)
{
    *ret_made = atomic_load(&n_captured);
    *ret_launched = atomic_load(&n_launched);
}

static void put(struct list *list, void (*body)(void *), const void *context, size_t bytes)
{
    struct item *item = malloc(sizeof *item + bytes);

    if (item == NULL) {
        abort();
    }
    item->next = NULL;
    item->body = body;
    item->bytes = bytes;
    memcpy(item->context, context, bytes);
    if (list->first == NULL) {
        list->last = &list->first;
    }
    *list->last = item;
    list->last = &item->next;
}

static void clear(struct list *list)
{
    while (list->first != NULL) {
        struct item *item = list->first;

        list->first = item->next;
        free(item);
    }
}

/* Now and then a thread sleeps before it begins with something. */
static void be_late(uint32_t *state)
{
    const struct timespec nap = {.tv_nsec = 100000};

    *state = *state * 1664525u + 1013904223u;
    if (*state >> 28 == 0) {
        nanosleep(&nap, NULL);
    }
}

static void *work(void *argument)
{
    struct CUstream_st *stream = argument;
    uint32_t state = 1;

    pthread_mutex_lock(&lock);
    for (;;) {
        struct item *item = stream->waiting.first;

        if (item != NULL) {
            stream->waiting.first = item->next;
            pthread_mutex_unlock(&lock);
            be_late(&state);
            item->body(item->context);
            free(item);
            pthread_mutex_lock(&lock);
            stream->n_done++;
            pthread_cond_broadcast(&changed);
        } else if (stream->quits) {
            break;
        } else {
            pthread_cond_wait(&stream->asked, &lock);
        }
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

bool on_host_is_prompt(cudaStream_t stream)
{
    return !stream->threaded && stream->capture == NULL;
}

void on_host_enqueue(cudaStream_t stream, void (*body)(void *), void *context, size_t bytes)
{
    if (capturing == stream) {
        put(&stream->capture->items, body, context, bytes);
    } else if (stream->threaded) {
        pthread_mutex_lock(&lock);
        while (stream->n_put - stream->n_done >= MOST_PENDING) {
            pthread_cond_wait(&changed, &lock);
        }
        put(&stream->waiting, body, context, bytes);
        stream->n_put++;
        pthread_cond_signal(&stream->asked);
        pthread_mutex_unlock(&lock);
    } else {
        body(context);
    }
}

int on_host_gpu_of(cudaStream_t stream)
{
    return stream->gpu;
}

cudaError_t on_host_forbid(void)
{
    if (capturing == NULL) {
        return cudaSuccess;
    }
    capturing->lost = true;
    return cudaErrorStreamCaptureUnsupported;
}

struct request {
    void (*work)(void *argument);
    void *argument;
};

static void serve(void *context)
{
    const struct request *request = context;

    request->work(request->argument);
    free(request->argument);
}

/* What another double asks for. */
static void ask(struct host_stream *stream, void (*todo)(void *argument), void *argument)
{
    struct request request = {todo, argument};

    on_host_enqueue((cudaStream_t)stream, serve, &request, sizeof request);
}

/* --- streams ---------------------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *ret_stream, unsigned flags, int priority)
{
    const char *how = getenv("ON_HOST_STREAMS");
    struct CUstream_st *stream;

    on_host_make_context();
    stream = faulty() ? NULL : calloc(1, sizeof *stream);
    if (stream == NULL) {
        return cudaErrorMemoryAllocation;
    }
    cudaGetDevice(&stream->gpu);
    pthread_cond_init(&stream->asked, NULL);
    stream->threaded = how != NULL && strcmp(how, "threads") == 0;
    stream->base = (struct host_stream){.magic = HOST_STREAM, .ask = stream->threaded ? ask : NULL};
    if (stream->threaded && pthread_create(&stream->thread, NULL, work, stream) != 0) {
        free(stream);
        return cudaErrorMemoryAllocation;
    }
    atomic_fetch_add(&cuda_on_host()->streams, 1);
    *ret_stream = stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    const cudaError_t error = on_host_forbid();
    uint64_t n;

    pthread_mutex_lock(&lock);
    n = stream->n_put;
    while (error == cudaSuccess && stream->n_done < n && stream->threaded) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
    return broken() ? cudaErrorIllegalAddress : faulty() ? cudaErrorUnknown : error;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    atomic_fetch_sub(&cuda_on_host()->streams, 1);
    if (stream->threaded) {
        pthread_mutex_lock(&lock);
        stream->quits = true;
        pthread_cond_signal(&stream->asked);
        pthread_mutex_unlock(&lock);
        pthread_join(stream->thread, NULL);
    }
    pthread_cond_destroy(&stream->asked);
    free(stream);
    return cudaSuccess;
}

/* --- events ----------------------------------------------------------------------------------- */

struct event_item {
    struct CUevent_st *event;
    uint64_t n;
};

/* Under the lock. */
static void leave(struct CUevent_st *event)
{
    event->users--;
    if (event->users == 0) {
        free(event);
    }
}

static void stay(void)
{
    for (;;) {
        pause();
    }
}

void on_host_await_gpu(void)
{
    if (atomic_load(&stuck)) {
        stay();
    }
}

static void record(void *context)
{
    const struct event_item *item = context;
    const char *at = getenv("ON_HOST_STUCK");
    struct timespec now;

    if (at != NULL && atomic_fetch_add(&n_records, 1) + 1 == (unsigned)atoi(at)) {
        atomic_store(&stuck, true);
        stay();
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    pthread_mutex_lock(&lock);
    item->event->ms = (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6 +
                      (double)atomic_load(&cuda_on_host()->passed_ms);
    item->event->n_done = item->n;
    leave(item->event);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void follow(void *context)
{
    const struct event_item *item = context;

    pthread_mutex_lock(&lock);
    while (item->event->n_done < item->n) {
        pthread_cond_wait(&changed, &lock);
    }
    leave(item->event);
    pthread_mutex_unlock(&lock);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret_event, unsigned flags)
{
    struct CUevent_st *event;

    on_host_make_context();
    event = faulty() ? NULL : calloc(1, sizeof *event);
    if (event == NULL) {
        return cudaErrorMemoryAllocation;
    }
    cudaGetDevice(&event->gpu);
    event->timed = (flags & cudaEventDisableTiming) == 0;
    event->users = 1;
    atomic_fetch_add(&cuda_on_host()->events, 1);
    *ret_event = event;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    atomic_fetch_sub(&cuda_on_host()->events, 1);
    pthread_mutex_lock(&lock);
    leave(event);
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    struct event_item item = {.event = event};

    on_host_make_context();
    if (faulty()) {
        return cudaErrorUnknown;
    }
    if (capturing == stream) {
        return on_host_forbid();
    }
    if (event->gpu != stream->gpu) {
        return cudaErrorInvalidResourceHandle;
    }
    pthread_mutex_lock(&lock);
    event->users++;
    item.n = ++event->n_put;
    pthread_mutex_unlock(&lock);
    on_host_enqueue(stream, record, &item, sizeof item);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    struct event_item item = {.event = event};

    if (faulty()) {
        return cudaErrorUnknown;
    }
    if (capturing == stream) {
        return on_host_forbid();
    }
    pthread_mutex_lock(&lock);
    event->users++;
    item.n = event->n_put;
    pthread_mutex_unlock(&lock);
    on_host_enqueue(stream, follow, &item, sizeof item);
    return cudaSuccess;
}

struct host_call {
    cudaHostFn_t function;
    void *argument;
};

/* One at a time, as the driver does. */
static void call(void *context)
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    const struct host_call *item = context;

    pthread_mutex_lock(&one);
    item->function(item->argument);
    pthread_mutex_unlock(&one);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *argument)
{
    struct host_call item = {function, argument};

    if (capturing == stream) {
        return on_host_forbid();
    }
    on_host_enqueue(stream, call, &item, sizeof item);
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    cudaError_t error = broken() ? cudaErrorIllegalAddress : on_host_forbid();

    on_host_make_context();
    pthread_mutex_lock(&lock);
    if (error == cudaSuccess && event->n_done < event->n_put) {
        error = on_host_keep(cudaErrorNotReady);
    }
    pthread_mutex_unlock(&lock);
    return error;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    const cudaError_t error = faulty() ? cudaErrorUnknown : on_host_forbid();

    pthread_mutex_lock(&lock);
    while (error == cudaSuccess && event->n_done < event->n_put) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
    return error;
}

cudaError_t cudaEventElapsedTime(float *ret_ms, cudaEvent_t start, cudaEvent_t end)
{
    cudaError_t error = cudaSuccess;

    if (faulty()) {
        return cudaErrorUnknown;
    }
    pthread_mutex_lock(&lock);
    if (start->gpu != end->gpu || !start->timed || !end->timed || start->ms == 0 || end->ms == 0) {
        error = cudaErrorInvalidResourceHandle;
    } else if (start->n_done < start->n_put || end->n_done < end->n_put) {
        error = cudaErrorNotReady;
    } else {
        *ret_ms = (float)(end->ms - start->ms);
    }
    pthread_mutex_unlock(&lock);
    return error;
}

/* --- captures and graphs ---------------------------------------------------------------------- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    const char *how = getenv("ON_HOST_CAPTURES");

    if (faulty() || (how != NULL && strcmp(how, "none") == 0) || capturing != NULL ||
        stream->capture != NULL || mode != cudaStreamCaptureModeThreadLocal) {
        return cudaErrorIllegalState;
    }
    stream->capture = calloc(1, sizeof *stream->capture);
    if (stream->capture == NULL) {
        return cudaErrorMemoryAllocation;
    }
    stream->lost = false;
    capturing = stream;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *ret_graph)
{
    struct CUgraph_st *graph = stream->capture;

    if (capturing != stream) {
        return graph == NULL ? cudaErrorIllegalState : cudaErrorStreamCaptureWrongThread;
    }
    stream->capture = NULL;
    capturing = NULL;
    *ret_graph = NULL;
    atomic_fetch_add(&cuda_on_host()->graphs, 1);
    if (stream->lost || faulty()) {
        cudaGraphDestroy(graph);
        return cudaErrorStreamCaptureInvalidated;
    }
    *ret_graph = graph;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    atomic_fetch_sub(&cuda_on_host()->graphs, 1);
    clear(&graph->items);
    free(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *ret_exec, cudaGraph_t graph,
                                 unsigned long long flags)
{
    struct CUgraphExec_st *exec = faulty() ? NULL : calloc(1, sizeof *exec);

    if (exec == NULL || flags != 0) {
        free(exec);
        return exec == NULL ? cudaErrorMemoryAllocation : cudaErrorInvalidValue;
    }
    for (const struct item *item = graph->items.first; item != NULL; item = item->next) {
        put(&exec->items, item->body, item->context, item->bytes);
    }
    atomic_fetch_add(&n_captured, 1);
    atomic_fetch_add(&cuda_on_host()->graphs, 1);
    *ret_exec = exec;
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    return faulty() ? cudaErrorUnknown : on_host_forbid();
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    const cudaError_t error = faulty() ? cudaErrorUnknown : on_host_forbid();

    for (struct item *item = exec->items.first; error == cudaSuccess && item != NULL;
         item = item->next) {
        on_host_enqueue(stream, item->body, item->context, item->bytes);
    }
    atomic_fetch_add(&n_launched, 1);
    return error;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    atomic_fetch_sub(&cuda_on_host()->graphs, 1);
    clear(&exec->items);
    free(exec);
    return cudaSuccess;
}
