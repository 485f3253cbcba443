/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults on demand, for tests: PENSTOCK_FAULT names points of the program and what goes wrong
 * there.
 *
 *   [rank=K/]POINT[:N|:N+|:*][:ACTION[:ARGUMENT]][,...]      or      count
 *
 * N is the N-th time that a rank K (below PST_FAULT_RANKS) comes by (1 unless it is given), N+ from
 * then on, * always; ACTION is fail (the default; fail:EIO with that error, for calls of the
 * system), short:BYTES (a read or write takes no more), disk-full (from then on it is),
 * delay:MILLISECONDS, exit:CODE, kill, stop or segv. `count` prints how often each point was passed
 * when the program ends. Builds without PENSTOCK_FAULTS know nothing of it.
 */
#ifndef PST_BASE_FAULT_H
#define PST_BASE_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ranks below this are counted separately; others are not counted. */
enum { PST_FAULT_RANKS = 64 };

#ifdef PENSTOCK_FAULTS
/* Applies the rule for this point. Returns true if the operation that follows is to fail.
   Thread-safe. point: a literal. An invalid PENSTOCK_FAULT ends the program with exit code 2. */
bool pst_fault(const char *point, uint32_t rank);

/* Like pst_fault, for a system call of any thread; the rank is the launcher's (0 without one).
   Returns the errno that the call is to fail with (`usual` if the rule names none), or 0. With
   `usual` ENOSPC it also fails while the disk is full. Lowers *bytes to what a read or write is
   to move; bytes is NULL for other calls. */
int pst_fault_call(const char *point, int usual, size_t *bytes);
#else
static inline bool pst_fault(const char *point, uint32_t rank)
{
    (void)point;
    (void)rank;
    return false;
}
#endif

#endif
