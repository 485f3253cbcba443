/* SPDX-License-Identifier: Apache-2.0
 *
 * The queues of the device that stands apart: a thread for each, marks between them, pinned memory.
 * Nothing but marks orders two queues. Whoever follows a mark waits for it as it stood when that
 * was asked for, though it may have been set again since, as an event of CUDA.
 *
 * With PENSTOCK_APART_DEAF in the environment nothing follows marks: a test of these tests. With
 * PENSTOCK_APART_SLOW each piece of work beside the kernels takes as long as there, at least.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "apart.h"

#define LATE_NS 30000u   /* at most, before each piece of work */
#define SLOW_NS 2000000u /* of queues beside that of the kernels, where they are slow */

struct pst_mark {
    struct pst_mark *next;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t n_set, n_passed;
    bool timed;
    uint64_t ns; /* when it was passed last */
};

struct pinned {
    struct pinned *next;
    char bytes[];
};

/* aside: not the queue of kernels. */
static void be_late(struct queue *queue, bool aside)
{
    struct timespec nap = {0};

    if (aside && (getenv("PENSTOCK_APART_DEAF") != NULL || getenv("PENSTOCK_APART_SLOW") != NULL)) {
        nap.tv_nsec = SLOW_NS;
        nanosleep(&nap, NULL);
        return;
    }

    queue->seed = queue->seed * 6364136223846793005u + 1442695040888963407u;
    nap.tv_nsec = (long)((queue->seed >> 33) % LATE_NS);
    if (nap.tv_nsec < (long)LATE_NS / 8) { /* not each: the tests shall end */
        nanosleep(&nap, NULL);
    }
}

static void *work_off(void *argument)
{
    struct queue *queue = argument;
    struct pst_device *device = queue->device;

    apart_cpu->enter(device->cpu);
    pthread_mutex_lock(&device->mutex);
    for (;;) {
        struct work *work = queue->head;

        if (work == NULL && device->quit) {
            break;
        }
        if (work == NULL) {
            pthread_cond_wait(&queue->wake, &device->mutex);
            continue;
        }
        queue->head = work->next;
        queue->tail = queue->head == NULL ? NULL : queue->tail;
        pthread_mutex_unlock(&device->mutex);
        if (work->mark == NULL) {
            be_late(queue, queue != &device->queues[PST_QUEUE_COMPUTE]);
        }
        work->run(device, work);
        free(work);
        pthread_mutex_lock(&device->mutex);
        queue->n_done++;
        if (queue->head == NULL) {
            pthread_cond_signal(&device->changed); /* one thread waits for a queue: the device's */
        }
    }
    pthread_mutex_unlock(&device->mutex);
    return NULL;
}

void apart_queues_open(struct pst_device *device)
{
    static uint64_t seed;

    pthread_mutex_init(&device->mutex, NULL);
    pthread_cond_init(&device->changed, NULL);
    for (uint32_t q = 0; q < PST_QUEUES; q++) {
        device->queues[q].device = device;
        pthread_cond_init(&device->queues[q].wake, NULL);
        device->queues[q].seed = __atomic_add_fetch(&seed, 1, __ATOMIC_RELAXED);
        if (pthread_create(&device->queues[q].thread, NULL, work_off, &device->queues[q]) != 0) {
            abort();
        }
    }
}

void apart_queues_close(struct pst_device *device)
{
    pthread_mutex_lock(&device->mutex);
    device->quit = true;
    for (uint32_t q = 0; q < PST_QUEUES; q++) {
        pthread_cond_signal(&device->queues[q].wake);
    }
    pthread_mutex_unlock(&device->mutex);
    for (uint32_t q = 0; q < PST_QUEUES; q++) {
        pthread_join(device->queues[q].thread, NULL);
        pthread_cond_destroy(&device->queues[q].wake);
    }
    while (device->marks != NULL) {
        struct pst_mark *mark = device->marks;

        device->marks = mark->next;
        pthread_cond_destroy(&mark->changed);
        pthread_mutex_destroy(&mark->mutex);
        free(mark);
    }
    while (device->pinned != NULL) {
        struct pinned *block = device->pinned;

        device->pinned = block->next;
        free(block);
    }
    pthread_mutex_destroy(&device->mutex);
    pthread_cond_destroy(&device->changed);
}

struct work *apart_work(void (*run)(struct pst_device *device, struct work *work))
{
    struct work *work = calloc(1, sizeof *work);

    if (work == NULL) {
        abort();
    }
    work->run = run;
    return work;
}

void apart_ask_in(struct pst_device *device, uint32_t index, struct work *work)
{
    struct queue *queue = &device->queues[index];

    if (index == PST_QUEUE_COMPUTE &&
        (!device->owned || !pthread_equal(device->owner, pthread_self()))) {
        fprintf(stderr, "device apart: asked by a thread that did not enter it\n");
        abort();
    }
    pthread_mutex_lock(&device->mutex);
    if (queue->tail == NULL) {
        queue->head = work;
    } else {
        queue->tail->next = work;
    }
    queue->tail = work;
    queue->n_asked++;
    pthread_cond_signal(&queue->wake);
    pthread_mutex_unlock(&device->mutex);
}

void apart_ask(struct pst_device *device, struct work *work)
{
    apart_ask_in(device, PST_QUEUE_COMPUTE, work);
}

void apart_await(struct pst_device *device)
{
    struct queue *queue = &device->queues[PST_QUEUE_COMPUTE];

    pthread_mutex_lock(&device->mutex);
    while (queue->n_done < queue->n_asked) {
        pthread_cond_wait(&device->changed, &device->mutex);
    }
    pthread_mutex_unlock(&device->mutex);
}

struct other {
    void (*work)(void *argument);
    void *argument;
};

static void run_other(struct pst_device *device, struct work *work)
{
    struct other *other = work->dst;

    other->work(other->argument);
    free(other->argument);
    free(other);
}

void apart_ask_other(struct host_stream *stream, void (*work)(void *argument), void *argument)
{
    struct pst_device *device =
        (struct pst_device *)(void *)((char *)stream - offsetof(struct pst_device, compute));
    struct work *piece = apart_work(run_other);
    struct other *other = malloc(sizeof *other);

    if (other == NULL) {
        abort();
    }
    *other = (struct other){work, argument};
    piece->dst = other;
    apart_ask(device, piece);
}

/* --- marks ------------------------------------------------------------------------------------ */

pst_status apart_mark_create(struct pst_device *device, bool timed, struct pst_mark **ret_mark,
                             struct pst_error *err)
{
    struct pst_mark *mark = calloc(1, sizeof *mark);

    if (mark == NULL) {
        return pst_fail_nomem(err);
    }
    pthread_mutex_init(&mark->mutex, NULL);
    pthread_cond_init(&mark->changed, NULL);
    mark->timed = timed;
    mark->next = device->marks;
    device->marks = mark;
    *ret_mark = mark;
    return PST_OK;
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t apart_mark_ns(struct pst_device *device, struct pst_mark *mark)
{
    uint64_t ns;

    pthread_mutex_lock(&mark->mutex);
    if (!mark->timed || mark->n_passed < mark->n_set || mark->ns == 0) {
        fprintf(stderr, "device apart: the time of a mark that is not known\n");
        abort();
    }
    ns = mark->ns;
    pthread_mutex_unlock(&mark->mutex);
    return ns;
}

static void pass_now(struct pst_device *device, struct work *work)
{
    pthread_mutex_lock(&work->mark->mutex);
    if (work->turn > work->mark->n_passed) {
        work->mark->n_passed = work->turn;
        work->mark->ns = now_ns();
    }
    pthread_cond_broadcast(&work->mark->changed);
    pthread_mutex_unlock(&work->mark->mutex);
}

void apart_mark(struct pst_device *device, uint32_t queue, struct pst_mark *mark)
{
    struct work *work = apart_work(pass_now);

    work->mark = mark;
    pthread_mutex_lock(&mark->mutex);
    work->turn = ++mark->n_set;
    apart_ask_in(device, queue, work);
    pthread_mutex_unlock(&mark->mutex);
}

static void follow_now(struct pst_device *device, struct work *work)
{
    pthread_mutex_lock(&work->mark->mutex);
    while (work->mark->n_passed < work->turn) {
        pthread_cond_wait(&work->mark->changed, &work->mark->mutex);
    }
    pthread_mutex_unlock(&work->mark->mutex);
}

void apart_follow(struct pst_device *device, uint32_t queue, struct pst_mark *mark)
{
    struct work *work;

    if (getenv("PENSTOCK_APART_DEAF") != NULL) {
        return;
    }
    work = apart_work(follow_now);
    work->mark = mark;
    pthread_mutex_lock(&mark->mutex);
    work->turn = mark->n_set;
    apart_ask_in(device, queue, work);
    pthread_mutex_unlock(&mark->mutex);
}

bool apart_wait(struct pst_device *device, struct pst_mark *mark, uint64_t ns)
{
    const struct timespec nap = {.tv_nsec = 20000};
    const uint64_t end = now_ns() + ns;
    bool passed;

    for (;;) {
        pthread_mutex_lock(&mark->mutex);
        passed = mark->n_passed == mark->n_set;
        pthread_mutex_unlock(&mark->mutex);
        if (passed || now_ns() >= end) {
            return passed;
        }
        nanosleep(&nap, NULL);
    }
}

/* --- memory ----------------------------------------------------------------------------------- */

pst_status apart_pinned(struct pst_device *device, uint64_t bytes, void **ret_base,
                        struct pst_error *err)
{
    struct pinned *block = calloc(1, sizeof *block + bytes);

    if (block == NULL) {
        return pst_fail_nomem(err);
    }
    memset(block->bytes, 0xFF, bytes);
    block->next = device->pinned;
    device->pinned = block;
    *ret_base = block->bytes;
    return PST_OK;
}

void apart_copy_now(struct pst_device *device, struct work *work)
{
    memcpy(work->dst, work->a, work->bytes);
}

void apart_move(struct pst_device *device, uint32_t queue, void *dst, const void *src,
                uint64_t bytes)
{
    struct work *work = apart_work(apart_copy_now);

    work->dst = apart_reach(dst);
    work->a = apart_reach(src);
    work->bytes = bytes;
    apart_ask_in(device, queue, work);
}

static void call_now(struct pst_device *device, struct work *work)
{
    work->call_host(work->dst);
}

void apart_call(struct pst_device *device, uint32_t queue, void (*call)(void *context),
                void *context)
{
    struct work *work = apart_work(call_now);

    work->call_host = call;
    work->dst = context;
    apart_ask_in(device, queue, work);
}

static void add_now(struct pst_device *device, struct work *work)
{
    apart_cpu->accumulate(device->cpu, work->dst, work->a, work->bytes);
}

void apart_add(struct pst_device *device, uint32_t queue, float *dst, const float *src,
               uint64_t elems)
{
    struct work *work = apart_work(add_now);

    work->dst = apart_near(dst);
    work->a = apart_near(src);
    work->bytes = elems;
    apart_ask_in(device, queue, work);
}
