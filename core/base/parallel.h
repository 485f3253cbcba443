/* SPDX-License-Identifier: Apache-2.0
 *
 * Independent pieces of work on all processors, for long computations without an order of their
 * own.
 */
#ifndef PST_BASE_PARALLEL_H
#define PST_BASE_PARALLEL_H

#include <stdint.h>

/*
 * Calls work(context, i) once for every i < n, on the caller's thread and at most as many others as
 * there are processors left; they have ended when it returns. Calls come in any order, several at a
 * time, so each may write what belongs to its i alone. Where no thread can be started the caller
 * does all of it.
 */
void pst_parallel(uint32_t n, void (*work)(void *context, uint32_t i), void *context);

#endif
