/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BENCH_MEMOPT_H
#define PENSTOCK_BENCH_MEMOPT_H

#include <stdint.h>

/* What one operator of a transformer layer costs: microseconds, bytes of one sample. */
struct operation {
    const char *name;
    double forward_us, backward_us;
    uint64_t saved, output, params;
    uint32_t reads_back; /* it also reads the output of the operation so many before; 0: none */
};

enum { N_OPERATIONS = 13 };

/* The operators of layer `layer` of width 1024, 512 tokens, 16 heads, 16-bit, one sample, on a
   device of 40 TFLOP/s and 800 GB/s; times and bytes jittered by layer, within 20 %. */
void layer_operations(uint32_t layer, struct operation ret_operations[N_OPERATIONS]);

/* A problem file of n operators in layers for `penstock partition`: 1F1B, 4 micro-batches a device,
   a host link of 12 GB/s. memory in bytes. Returns the text; to be freed. NULL: no memory. */
char *layers_problem(uint32_t n, uint32_t devices, double memory, const char *memopt,
                     const char *options);

/* Stages of `least` to least + 8 such operators, at most 64: plans and prices against exact's. */
void measure_quality(uint32_t least);

#endif
