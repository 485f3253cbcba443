/* SPDX-License-Identifier: Apache-2.0
 *
 * What programs that time kernels share: a transformer block with embedding, head, loss, and
 * operands for each of its operators. Failures end the program.
 */
#ifndef PST_BENCH_BLOCK_H
#define PST_BENCH_BLOCK_H

#include "exec/device.h"

/* Samples, tokens of each, width, heads, entries of the vocabulary. */
struct block_sizes {
    uint64_t samples, length, columns, heads, vocabulary;
};

struct block_operands {
    void *x[2], *p[2], *y[3], *dx[2], *add[2], *z[2], *dp[2], *dy;
};

/* Where operands come from: make() gives a filled buffer; integers are ids of the vocabulary. */
struct block_buffers {
    const struct pst_graph *graph;
    uint64_t samples;
    void *(*make)(void *context, uint64_t elems, uint32_t dtype);
    void *context;
};

struct pst_graph *block_create(const struct block_sizes *sizes, uint32_t dtype);
/* add[] points to dx[]. */
void block_operands(const struct block_buffers *from, uint32_t op, struct block_operands *o);
/* Without a workspace. */
struct pst_call block_call(const struct block_operands *o);
/* The table of a device module. */
const struct pst_device_ops *block_load(const char *path);

void *must(void *pointer); /* exits where it is NULL */
void check(pst_status status, const struct pst_error *err);

#endif
