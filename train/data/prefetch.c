/* SPDX-License-Identifier: Apache-2.0
 *
 * A ring of batches: the thread fills the slots from `n_read` on as long as they are free, the
 * taker has those from `n_released` to `n_taken`.
 */
#include "data/prefetch.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/memory.h"

struct slot {
    void *inputs[PST_MAX_INPUTS];
};

struct pst_prefetch {
    const struct pst_data *data;
    uint32_t n_inputs, batch, n_slots;
    uint64_t first, n_batches;
    struct slot *slots;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under the lock */
    uint64_t n_read, n_taken, n_released;
    bool stop;
    pst_status status; /* of batch n_read, where the reading ended */
    struct pst_error err;
};

/* Waits for a free slot. Returns true if there is a batch to read. */
static bool wait_for_room(struct pst_prefetch *p)
{
    bool more;

    pthread_mutex_lock(&p->lock);
    while (!p->stop && p->n_read < p->n_batches && p->n_read - p->n_released == p->n_slots) {
        pthread_cond_wait(&p->changed, &p->lock);
    }
    more = !p->stop && p->n_read < p->n_batches;
    pthread_mutex_unlock(&p->lock);
    return more;
}

static void *read_ahead(void *argument)
{
    struct pst_prefetch *p = argument;
    pst_status status = PST_OK;

    while (status == PST_OK && wait_for_room(p)) {
        uint64_t batch = p->n_read; /* nobody else writes it */
        struct pst_error err = {0};

        status = pst_data_read(p->data, PST_SPLIT_TRAIN, p->first + batch * p->batch, p->batch,
                               p->slots[batch % p->n_slots].inputs, &err);
        pthread_mutex_lock(&p->lock);
        p->status = status;
        if (status == PST_OK) {
            p->n_read++;
        } else {
            p->err = err;
        }
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}

static void free_slots(struct pst_prefetch *p)
{
    for (uint32_t i = 0; i < p->n_slots; i++) {
        for (uint32_t k = 0; k < p->n_inputs; k++) {
            free(p->slots[i].inputs[k]);
        }
    }
    free(p->slots);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* Signals are for the main thread. */
static bool start_thread(struct pst_prefetch *p)
{
    sigset_t all, old;
    bool started;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    started = pthread_create(&p->thread, NULL, read_ahead, p) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return started;
}

pst_status pst_prefetch_create(const struct pst_data *data, const struct pst_sample_shape *shape,
                               uint64_t first, uint32_t batch, uint64_t n_batches, uint32_t n_slots,
                               struct pst_prefetch **ret_prefetch, struct pst_error *err)
{
    struct pst_prefetch *p = pst_alloc(1, sizeof *p);

    *p = (struct pst_prefetch){.data = data,
                               .n_inputs = shape->n_inputs,
                               .batch = batch,
                               .n_slots = n_slots,
                               .first = first,
                               .n_batches = n_batches,
                               .slots = pst_alloc(n_slots, sizeof *p->slots)};
    for (uint32_t i = 0; i < n_slots; i++) {
        for (uint32_t k = 0; k < shape->n_inputs; k++) {
            p->slots[i].inputs[k] = pst_alloc(batch, shape->inputs[k].bytes);
        }
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    if (!start_thread(p)) {
        free_slots(p);
        return pst_fail(err, PST_ERR_NOMEM, "machine.threads",
                        "cannot start the thread that reads data");
    }
    *ret_prefetch = p;
    return PST_OK;
}

void pst_prefetch_destroy(struct pst_prefetch *p)
{
    if (p == NULL) {
        return;
    }
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    free_slots(p);
}

pst_status pst_prefetch_take(struct pst_prefetch *p, void *const **ret_inputs,
                             struct pst_error *err)
{
    pst_status status = PST_OK;

    pthread_mutex_lock(&p->lock);
    PST_ASSERT(p->n_taken < p->n_batches && p->n_taken - p->n_released + 1 < p->n_slots);
    while (p->n_read == p->n_taken && p->status == PST_OK) {
        pthread_cond_wait(&p->changed, &p->lock);
    }
    if (p->n_read > p->n_taken) {
        *ret_inputs = p->slots[p->n_taken++ % p->n_slots].inputs;
    } else {
        status = p->status;
        if (err != NULL) {
            *err = p->err;
        }
    }
    pthread_mutex_unlock(&p->lock);
    return status;
}

void pst_prefetch_release(struct pst_prefetch *p)
{
    pthread_mutex_lock(&p->lock);
    PST_ASSERT(p->n_released < p->n_taken);
    p->n_released++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}
