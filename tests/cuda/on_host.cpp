/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "device/cuda/launch.h"

#define STACK_BYTES (65536 + 192) /* tops of stacks meet in few sets of a cache */

__thread on_host_index threadIdx, blockIdx, blockDim, gridDim;

enum coroutine_state : uint8_t { RUNS, AT_WARP, AT_BLOCK, ENDED };

/* The compiler's own jumps keep five words, and may go to another stack. */
typedef void *jump[5];

struct coroutine {
    jump at;
    unsigned meeting; /* parity of those of the warp */
    alignas(ON_HOST_WORD) char handed[2][ON_HOST_WORD];
};

/* The threads of blocks that meet. Coroutines are made once for each thread of the host; one that
   has ended begins the next block. */
struct block {
    jump scheduler;
    ucontext_t first, caller; /* while a coroutine is made */
    coroutine threads[PST_THREADS];
    coroutine_state state[PST_THREADS];
    void (*body)(void *);
    void *context;
    char *stacks = NULL;

    ~block()
    {
        free(stacks);
    }
};
static thread_local block kept;
static __thread block *current; /* NULL: threads that do not meet */

void on_host_refuse(const char *what)
{
    fprintf(stderr, "on the host: %s\n", what);
    abort();
}

[[noreturn]] [[gnu::noinline]] static void enter(block *b, unsigned t)
{
    threadIdx.x = t;
    b->state[t] = RUNS;
    __builtin_longjmp(b->threads[t].at, 1);
}

/* The next lane goes on; behind the last one, the scheduler. */
[[noreturn]] [[gnu::noinline]] static void pass_on(block *b, unsigned t)
{
    if ((t + 1) % PST_WARP != 0) {
        enter(b, t + 1);
    }
    __builtin_longjmp(b->scheduler, 1);
}

static void leave(enum coroutine_state state)
{
    block *b = current;
    const unsigned t = threadIdx.x;

    b->state[t] = state;
    if (__builtin_setjmp(b->threads[t].at) == 0) {
        pass_on(b, t);
    }
}

/* Each lane of a warp, until it meets others or ends. */
static void step_warp(block *b, unsigned first)
{
    if (__builtin_setjmp(b->scheduler) == 0) {
        enter(b, first);
    }
}

static void meet(enum coroutine_state state)
{
    if (current == NULL) {
        on_host_refuse("threads meet in a kernel that is launched without");
    }
    leave(state);
}

void __syncthreads()
{
    meet(AT_BLOCK);
}

void __syncwarp()
{
    meet(AT_WARP);
}

/* Two words in turn: one is written while others still read the one before. */
const void *on_host_exchange(const void *value, size_t bytes, unsigned lane)
{
    const unsigned base = threadIdx.x / PST_WARP * PST_WARP;
    coroutine *self;
    unsigned meeting;

    if (current == NULL) {
        on_host_refuse("a shuffle in a kernel that is launched without");
    }
    self = &current->threads[threadIdx.x];
    meeting = self->meeting ^= 1;
    memcpy(self->handed[meeting], value, bytes);
    leave(AT_WARP);
    return current->threads[base + lane].handed[meeting];
}

static void start()
{
    block *b = &kept;

    if (__builtin_setjmp(b->threads[threadIdx.x].at) == 0) {
        setcontext(&b->caller);
    }
    for (;;) {
        b->body(b->context);
        leave(ENDED);
    }
}

static void make_coroutines(block *b)
{
    b->stacks = (char *)malloc((size_t)PST_THREADS * STACK_BYTES);
    for (unsigned t = 0; t < PST_THREADS; t++) {
        volatile bool made = false;

        threadIdx.x = t;
        getcontext(&b->first);
        b->first.uc_stack.ss_sp = b->stacks + (size_t)t * STACK_BYTES;
        b->first.uc_stack.ss_size = STACK_BYTES;
        b->first.uc_link = NULL;
        makecontext(&b->first, start, 0);
        getcontext(&b->caller);
        if (!made) {
            made = true;
            setcontext(&b->first);
        }
    }
}

static unsigned count(const block *b, unsigned first, unsigned n, enum coroutine_state state)
{
    unsigned found = 0;

    for (unsigned t = first; t < first + n; t++) {
        found += b->state[t] == state;
    }
    return found;
}

static void run_warp(block *b, unsigned first)
{
    do {
        step_warp(b, first);
    } while (count(b, first, PST_WARP, AT_WARP) == PST_WARP);
    if (count(b, first, PST_WARP, AT_WARP) > 0) {
        on_host_refuse("a shuffle that only some lanes of a warp reach");
    }
}

/* From barrier to barrier, until all have ended at the same time. */
static void run_block(block *b)
{
    unsigned n_ended;

    do {
        for (unsigned first = 0; first < PST_THREADS; first += PST_WARP) {
            run_warp(b, first);
        }
        n_ended = count(b, 0, PST_THREADS, ENDED);
    } while (n_ended == 0);
    if (n_ended != PST_THREADS) {
        on_host_refuse("a barrier that only some threads of a block reach");
    }
}

void on_host_launch(unsigned blocks, bool meeting, void (*body)(void *), void *context)
{
    if (blocks == 0) {
        on_host_refuse("a launch of no block");
    }
    if (meeting && kept.stacks == NULL) {
        make_coroutines(&kept);
    }
    kept.body = body;
    kept.context = context;
    current = meeting ? &kept : NULL;
    blockDim.x = PST_THREADS;
    gridDim.x = blocks;
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) {
        if (meeting) {
            run_block(&kept);
            continue;
        }
        for (threadIdx.x = 0; threadIdx.x < PST_THREADS; threadIdx.x++) {
            body(context);
        }
    }
    current = NULL;
}
