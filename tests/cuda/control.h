/* SPDX-License-Identifier: Apache-2.0
 *
 * What a test of device-cuda-on-host can set about the machine, and what it can count. The module
 * exports one function, cuda_on_host(), that returns it; set it while no device is open. Variables
 * of the environment set the same for programs: ON_HOST_GPUS, ON_HOST_SMS, ON_HOST_DRIVER=none.
 * With ON_HOST_CAPTURES=none no capture can begin; with ON_HOST_EAGER the process ends where CUDA
 * is called before CUDA_MODULE_LOADING is set.
 */
#ifndef PST_TESTS_CUDA_CONTROL_H
#define PST_TESTS_CUDA_CONTROL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { PRODUCT_WAYS = 3 };

struct cuda_on_host {
    /* the machine */
    int n_gpus;
    uint32_t sms;         /* of a GPU */
    uint32_t least, step; /* what the driver says of parts; 0: nothing, as old ones do */
    uint32_t fewer;       /* parts that the driver makes fewer than there seem to be, of the largest
                             size that it is asked for */
    uint64_t memory_bytes, left_bytes;
    bool peers;          /* GPUs reach each other's memory */
    const char *missing; /* a function that the driver lacks; "": all; NULL: none */
    const char *refused; /* one that it has and that does nothing here; NULL: none */
    /* failures */
    atomic_int calls;  /* that could have failed so far */
    int fail_at;       /* that call fails, counted from 1; 0: none does */
    bool fail_again;   /* so does the one behind it */
    int product_fault; /* the cublasStatus_t that calls about products fail with; 0: a usual one */
    uint32_t stateless, unchecked, greedy; /* ways to make a product, a bit for each: proposed all
                                              the same; that a check refuses, finds too large */
    uint32_t unfused;                      /* that a run with an epilogue refuses */
    int product_ms[PRODUCT_WAYS];          /* that a product takes, for events */
    int break_after; /* launches that are well; waits behind one more fail. 0: none does */
    atomic_int launches;
    atomic_int kernels; /* that were put on streams, for a capture, too */
    /* what there is now */
    atomic_int contexts, streams, events, arrays, pinned, libraries, graphs;
    atomic_int descriptions; /* of products, their operands and what is preferred */
    /* what was asked for */
    atomic_int splits;       /* successful ones */
    atomic_uint peers_asked; /* a bit for each GPU whose memory was to be reached */
    atomic_uint parts;       /* a bit for each part that has had a context, by first SM / step */
    atomic_int product_sms;  /* the last target of a product */
    atomic_int summing_products; /* that ran with the sums of an operand */
    atomic_int products[PRODUCT_WAYS];
    atomic_int passed_ms; /* of those times */
    atomic_int plans;     /* of cuDNN that were compiled */
};

typedef struct cuda_on_host *cuda_on_host_fn(void);

#endif
