/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults on demand, for tests: PENSTOCK_FAULT names points of the program and what goes wrong
 * there.
 *
 *   [rank=K/]POINT[:N|:N+|:*][:ACTION[:ARGUMENT]][,...]      or      count
 *
 * N is the N-th time that a rank K (below PST_FAULT_RANKS) comes by (1 unless it is given), N+ from
 * then on, * always; ACTION
 * is fail (the default), delay:MILLISECONDS, exit:CODE, kill, stop or segv. `count` prints how
 * often each point was passed when the program ends. Builds without PENSTOCK_FAULTS know nothing of
 * it.
 */
#ifndef PST_BASE_FAULT_H
#define PST_BASE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

/* By how far ranks are told apart; others pass points uncounted. */
enum { PST_FAULT_RANKS = 64 };

/* Called where something may go wrong. Does what is asked for here; true: what follows is to fail.
   Thread-safe. point: a literal. A text that cannot be read ends the program with exit code 2. */
bool pst_fault(const char *point, uint32_t rank);

#endif
