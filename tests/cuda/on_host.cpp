/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include "device/cuda/launch.h"

#define STACK_BYTES 65536

/* Those of a thread, kept between launches. */
struct stacks {
    char *memory = NULL;

    char *get()
    {
        if (memory == NULL) {
            memory = (char *)malloc((size_t)PST_THREADS * STACK_BYTES);
        }
        return memory;
    }
    ~stacks()
    {
        free(memory);
    }
};
static thread_local stacks kept;

thread_local on_host_index threadIdx, blockIdx, blockDim, gridDim;

struct coroutine {
    ucontext_t context;
    bool ended;
};

struct block {
    ucontext_t scheduler;
    coroutine threads[PST_THREADS];
    char *stacks;
    void (*body)(void *);
    void *context;
    bool meeting;
    unsigned n_ended; /* of the threads */
};

static thread_local block *current;

void __syncthreads()
{
    const unsigned self = threadIdx.x;

    if (current == NULL || !current->meeting) {
        fprintf(stderr, "__syncthreads() in a kernel that is launched without\n");
        abort();
    }
    swapcontext(&current->threads[self].context, &current->scheduler);
}

static void start()
{
    block *b = current;
    const unsigned self = threadIdx.x;

    b->body(b->context);
    b->threads[self].ended = true;
    swapcontext(&b->threads[self].context, &b->scheduler);
}

/* From barrier to barrier, until all have ended at the same time. */
static void run_block(block *b)
{
    b->n_ended = 0;
    for (unsigned t = 0; t < PST_THREADS; t++) {
        coroutine *self = &b->threads[t];

        getcontext(&self->context);
        self->context.uc_stack.ss_sp = b->stacks + (size_t)t * STACK_BYTES;
        self->context.uc_stack.ss_size = STACK_BYTES;
        self->context.uc_link = NULL;
        self->ended = false;
        makecontext(&self->context, start, 0);
    }
    while (b->n_ended == 0) {
        for (unsigned t = 0; t < PST_THREADS; t++) {
            threadIdx.x = t;
            swapcontext(&b->scheduler, &b->threads[t].context);
            b->n_ended += b->threads[t].ended;
        }
    }
    if (b->n_ended != PST_THREADS) {
        fprintf(stderr, "a barrier that only %u of %u threads reach\n", PST_THREADS - b->n_ended,
                PST_THREADS);
        abort();
    }
}

void on_host_launch(unsigned blocks, bool meeting, void (*body)(void *), void *context)
{
    block b;

    if (blocks == 0) {
        fprintf(stderr, "a launch of no block\n");
        abort();
    }
    b.body = body;
    b.context = context;
    b.meeting = meeting;
    b.stacks = meeting ? kept.get() : NULL;
    current = &b;
    blockDim.x = PST_THREADS;
    gridDim.x = blocks;
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) {
        if (meeting) {
            run_block(&b);
            continue;
        }
        for (threadIdx.x = 0; threadIdx.x < PST_THREADS; threadIdx.x++) {
            body(context);
        }
    }
    current = NULL;
}
