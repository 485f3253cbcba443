/* SPDX-License-Identifier: Apache-2.0
 *
 * Queues of a device. The one of kernels is the device's own thread, which does what it is asked
 * for at once; each other one that is opened has a thread and a ring of requests. All that anybody
 * waits for are turns of marks, which only grow.
 */
#include "cpu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/machine.h"
#include "base/memory.h"


struct pst_mark {
    struct pst_mark *next;
    struct pst_device *device;
    uint64_t n_set, n_passed, ns; /* under the device's mutex */
};

enum { MOVE, MARK, FOLLOW, CALL };

struct request {
    uint32_t kind;
    void *dst; /* of a call: its context */
    const void *src;
    uint64_t bytes;
    struct pst_mark *mark;
    uint64_t turn; /* of the mark */
    void (*work)(void *context);
};

struct pst_cpu_queue {
    struct pst_device *device;
    pthread_t thread;
    bool started;
    struct request *ring;
    uint64_t n_ring, n_asked, n_done; /* under the device's mutex */
};

static void pass(struct pst_mark *mark, uint64_t turn)
{
    pthread_mutex_lock(&mark->device->mutex);
    mark->n_passed = turn > mark->n_passed ? turn : mark->n_passed;
    mark->ns = pst_now_ns();
    pthread_cond_broadcast(&mark->device->changed);
    pthread_mutex_unlock(&mark->device->mutex);
}

static void await_turn(struct pst_mark *mark, uint64_t turn)
{
    pthread_mutex_lock(&mark->device->mutex);
    while (mark->n_passed < turn) {
        pthread_cond_wait(&mark->device->changed, &mark->device->mutex);
    }
    pthread_mutex_unlock(&mark->device->mutex);
}

static void work_on(const struct request *request)
{
    switch (request->kind) {
    case MOVE:
        memcpy(request->dst, request->src, (size_t)request->bytes);
        break;
    case MARK:
        pass(request->mark, request->turn);
        break;
    case FOLLOW:
        await_turn(request->mark, request->turn);
        break;
    default:
        request->work(request->dst);
        break;
    }
}

/* The thread of a queue; it finishes all requests before it exits. */
static void *work_off(void *argument)
{
    struct pst_cpu_queue *queue = argument;
    struct pst_device *device = queue->device;

    prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul); /* calls may sleep to the point */
    pthread_mutex_lock(&device->mutex);
    for (;;) {
        while (queue->n_done == queue->n_asked && !device->quit) {
            pthread_cond_wait(&device->changed, &device->mutex);
        }
        if (queue->n_done == queue->n_asked) {
            break;
        }
        pthread_mutex_unlock(&device->mutex);
        work_on(&queue->ring[queue->n_done % queue->n_ring]);
        pthread_mutex_lock(&device->mutex);
        queue->n_done++;
    }
    pthread_mutex_unlock(&device->mutex);
    return NULL;
}

/* --- their life ------------------------------------------------------------------------------- */

void pst_cpu_queues_init(struct pst_device *device)
{
    pthread_condattr_t attributes;

    if (pthread_mutex_init(&device->mutex, NULL) != 0 || pthread_condattr_init(&attributes) != 0 ||
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) != 0 ||
        pthread_cond_init(&device->changed, &attributes) != 0) {
        pst_out_of_memory();
    }
    pthread_condattr_destroy(&attributes);
}

void pst_cpu_queues_finish(struct pst_device *device)
{
    pthread_mutex_lock(&device->mutex);
    device->quit = true;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->mutex);
    for (uint32_t q = 0; q < PST_QUEUES; q++) {
        struct pst_cpu_queue *queue = device->queues[q];

        if (queue != NULL && queue->started) {
            pthread_join(queue->thread, NULL);
        }
        if (queue != NULL) {
            free(queue->ring);
        }
        free(queue);
    }
    while (device->marks != NULL) {
        struct pst_mark *mark = device->marks;

        device->marks = mark->next;
        free(mark);
    }
    pthread_cond_destroy(&device->changed);
    pthread_mutex_destroy(&device->mutex);
}

pst_status pst_cpu_queue_open(struct pst_device *device, uint32_t index, uint64_t most,
                              struct pst_error *err)
{
    struct pst_cpu_queue *queue = pst_alloc(1, sizeof *queue);

    device->queues[index] = queue;
    queue->device = device;
    queue->n_ring = most + 1;
    queue->ring = pst_alloc(queue->n_ring, sizeof *queue->ring);
    queue->started = pthread_create(&queue->thread, NULL, work_off, queue) == 0;
    return queue->started ? PST_OK
                          : pst_fail(err, PST_ERR_NOMEM, "machine.threads",
                                     "cannot start a thread for copies: out of threads");
}

pst_status pst_cpu_mark_create(struct pst_device *device, bool timed, struct pst_mark **ret_mark,
                               struct pst_error *err)
{
    struct pst_mark *mark = pst_alloc(1, sizeof *mark);

    (void)timed;
    (void)err;
    mark->device = device;
    mark->next = device->marks;
    device->marks = mark;
    *ret_mark = mark;
    return PST_OK;
}

/* --- asking ----------------------------------------------------------------------------------- */

/* A queue without a thread is worked off here and now. */
static void ask(struct pst_device *device, uint32_t index, const struct request *request)
{
    struct pst_cpu_queue *queue = device->queues[index];

    if (queue == NULL) {
        work_on(request);
        return;
    }
    pthread_mutex_lock(&device->mutex);
    PST_ASSERT(queue->n_asked - queue->n_done < queue->n_ring);
    queue->ring[queue->n_asked % queue->n_ring] = *request;
    queue->n_asked++;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->mutex);
}

void pst_cpu_mark(struct pst_device *device, uint32_t queue, struct pst_mark *mark)
{
    struct request request = {.kind = MARK, .mark = mark};

    pthread_mutex_lock(&device->mutex);
    request.turn = ++mark->n_set;
    pthread_mutex_unlock(&device->mutex);
    ask(device, queue, &request);
}

void pst_cpu_follow(struct pst_device *device, uint32_t queue, struct pst_mark *mark)
{
    struct request request = {.kind = FOLLOW, .mark = mark};

    pthread_mutex_lock(&mark->device->mutex);
    request.turn = mark->n_set;
    pthread_mutex_unlock(&mark->device->mutex);
    ask(device, queue, &request);
}

bool pst_cpu_wait(struct pst_device *device, struct pst_mark *mark, uint64_t ns)
{
    const uint64_t end = ns > 0 ? pst_now_ns() + ns : 0;
    const struct timespec until = pst_timespec(end);
    bool passed, late = ns == 0;

    (void)device;
    pthread_mutex_lock(&mark->device->mutex);
    while (!(passed = mark->n_passed == mark->n_set) && !late) {
        late = pthread_cond_timedwait(&mark->device->changed, &mark->device->mutex, &until) != 0;
    }
    pthread_mutex_unlock(&mark->device->mutex);
    return passed;
}

uint64_t pst_cpu_mark_ns(struct pst_device *device, struct pst_mark *mark)
{
    uint64_t ns;

    pthread_mutex_lock(&device->mutex);
    ns = mark->ns;
    pthread_mutex_unlock(&device->mutex);
    return ns;
}

void pst_cpu_move(struct pst_device *device, uint32_t queue, void *dst, const void *src,
                  uint64_t bytes)
{
    ask(device, queue, &(struct request){.kind = MOVE, .dst = dst, .src = src, .bytes = bytes});
}

void pst_cpu_call(struct pst_device *device, uint32_t queue, void (*work)(void *context),
                  void *context)
{
    ask(device, queue, &(struct request){.kind = CALL, .work = work, .dst = context});
}
