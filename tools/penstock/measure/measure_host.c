/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the training loop that are no rank's: reading a batch, timed alone, and handing tiny
 * ones over, with the ring of batches and the ring of tasks that a run has.
 */
#include "measure/measure_host.h"

#include <stdlib.h>

#include "base/machine.h"
#include "base/memory.h"
#include "base/util.h"
#include "data/prefetch.h"
#include "exec/task_queue.h"

#define READ_NS  20000000u
#define READS    256u
#define BYTES    16777216u /* more of a batch tell no more of a sample */
#define WARM_UPS 2u
#define STEPS    400u
#define SLOTS    5u

/* Samples that can be read at least: one, or a micro-batch's sequences of slices. */
static uint32_t fewest_samples(const struct pst_session *session)
{
    uint32_t slices = session->graph->slices;

    return slices > 1 ? slices * (uint32_t)session->job->train.microbatch : 1;
}

static uint32_t enough_samples(const struct pst_sample_shape *shape, uint32_t batch,
                               uint32_t fewest)
{
    uint64_t bytes = 1;

    for (uint32_t i = 0; i < shape->n_inputs; i++) {
        bytes += shape->inputs[i].bytes;
    }
    batch = batch <= BYTES / bytes ? batch : (uint32_t)(BYTES / bytes) + 1;
    return (batch + fewest - 1) / fewest * fewest;
}

/* Reads batches, each other samples, into the same place. */
static pst_status time_reading(const struct pst_data *data, const struct pst_sample_shape *shape,
                               uint32_t batch, double *ret_sample_ns, struct pst_error *err)
{
    void *inputs[PST_MAX_INPUTS] = {NULL};
    uint64_t begin = 0, took = 0;
    uint32_t n = 0;
    pst_status status = PST_OK;

    for (uint32_t i = 0; i < shape->n_inputs; i++) {
        inputs[i] = pst_alloc(batch, shape->inputs[i].bytes);
    }
    while (status == PST_OK && n < READS && took < READ_NS) {
        begin = n == WARM_UPS ? pst_clock_ns(CLOCK_THREAD_CPUTIME_ID) : begin;
        status = pst_data_read(data, PST_SPLIT_TRAIN, (uint64_t)n * batch, batch, inputs, err);
        n++;
        took = n > WARM_UPS ? pst_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin : 0;
    }
    for (uint32_t i = 0; i < shape->n_inputs; i++) {
        free(inputs[i]);
    }
    *ret_sample_ns = n > WARM_UPS ? (double)took / (n - WARM_UPS) / batch : 0;
    return status;
}

struct rank {
    struct exec_task_queue tasks;
    uint64_t ns; /* its processor's */
};

static void *run_rank(void *argument)
{
    struct rank *rank = argument;

    for (uint32_t seen = 0; seen < STEPS;) {
        exec_tasks_next(&rank->tasks, &seen);
        exec_tasks_done(&rank->tasks, seen);
    }
    rank->ns = pst_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    return NULL;
}

/* Runs steps of the fewest samples; the rank does no work. Only the cost of handing over is
 * measured. */
static pst_status hand_over(struct pst_prefetch *batches, struct rank *rank, struct pst_error *err)
{
    const struct exec_task task = {.command = EXEC_STEP};
    void *const *inputs;
    pst_status status = PST_OK;

    for (uint32_t i = 0; i < STEPS; i++) { /* all of them, for the rank waits for them */
        PST_TRY(status, pst_prefetch_take(batches, &inputs, err));
        exec_tasks_wait(&rank->tasks, exec_tasks_post(&rank->tasks, &task, 1));
        if (status == PST_OK) {
            pst_prefetch_release(batches);
        }
    }
    return status;
}

static pst_status time_steps(const struct pst_data *data, const struct pst_sample_shape *shape,
                             uint32_t n, double *ret_step_ns, struct pst_error *err)
{
    struct pst_prefetch *batches = NULL;
    struct rank rank = {.ns = 0};
    const uint64_t begin = pst_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    pthread_t thread;
    pst_status status = pst_prefetch_create(data, shape, 0, n, STEPS, SLOTS, &batches, err);

    if (status != PST_OK) {
        return status;
    }
    exec_tasks_init(&rank.tasks, 1);
    if (pthread_create(&thread, NULL, run_rank, &rank) != 0) {
        status = pst_fail(err, PST_ERR_NOMEM, "machine.threads", "no thread could be started");
    } else {
        status = hand_over(batches, &rank, err);
        pthread_join(thread, NULL);
        *ret_step_ns = (double)(pst_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begin - rank.ns) / STEPS;
    }
    exec_tasks_finish(&rank.tasks);
    pst_prefetch_destroy(batches);
    return status;
}

pst_status pst_measure_host(const struct pst_session *session, struct pst_measured_host *ret_host,
                            struct pst_error *err)
{
    const uint32_t threads = session->device_config.threads, cores = pst_usable_cores();
    struct pst_measured_host host = {.devices = cores > threads ? cores / threads : 1};
    struct pst_sample_shape shape;
    struct pst_data *data = NULL;
    const uint32_t fewest = fewest_samples(session);
    pst_status status = pst_sample_shape_of(session->graph, &shape, err);

    PST_TRY(status, pst_data_create(session->job, session->graph, &data, err));
    PST_TRY(status,
            time_reading(data, &shape, enough_samples(&shape, session->job->train.batch, fewest),
                         &host.sample_ns, err));
    PST_TRY(status, time_steps(data, &shape, fewest, &host.step_ns, err));
    pst_data_destroy(data);
    if (status == PST_OK) {
        const double reading = host.sample_ns * fewest;

        host.step_ns = host.step_ns > reading ? host.step_ns - reading : 0;
        *ret_host = host;
    }
    return status;
}
