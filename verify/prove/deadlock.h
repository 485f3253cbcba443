/* SPDX-License-Identifier: Apache-2.0
 *
 * One maximal run of the lists, without times. Lists are straight lines and every receive names its
 * source, so what one order of events reaches, every order reaches: one run decides.
 *
 * Lists: one stays at an instruction until all that it waits for has ended; at a pass or STEP, and
 * at TIE and NORM unless those are asynchronous, until it has ended; it posts transfers, REDUCE,
 * MERGE and GATHER and moves on. A pass in which the parts of a replica, or all ranks of a stage,
 * may meet begins when all have come to it. A real run needs at most these meetings, so it ends
 * whatever this one ends.
 *
 * Queues: sends, receives and reductions of a rank, each first in first out: only the head may go.
 * Ordered: one queue of transfers, of which adjacent ones form a group that goes as one. In a
 * channel the k-th SEND from a to b goes with the k-th RECV there: when both are heads, or earlier
 * while the channel holds fewer messages than its capacity.
 *
 * Private to prove.
 */
#ifndef PST_PROVE_DEADLOCK_H
#define PST_PROVE_DEADLOCK_H

#include "prove/internal.h"

/* The queues of a rank, and its list. */
enum pst_live_queue {
    PST_LIVE_LIST,
    PST_LIVE_SENDS,
    PST_LIVE_RECVS,
    PST_LIVE_SUMS,
    PST_LIVE_QUEUES
};

static inline enum pst_live_queue pst_live_queue_of(uint32_t op)
{
    return op == PST_I_SEND             ? PST_LIVE_SENDS
           : op == PST_I_RECV           ? PST_LIVE_RECVS
           : pst_check_is_reduction(op) ? PST_LIVE_SUMS
                                        : PST_LIVE_LIST;
}

struct pst_live_rank {
    const struct pst_instr *list;
    uint8_t *open;            /* [instr] its op, 0 once it has ended */
    uint32_t *partner;        /* [instr] of transfers: the other end, PST_NONE: none */
    uint32_t *sequence, *row; /* [instr] of sends: position on the channel; row of recvs that
                                 is (or would be) its RECV */
    uint32_t n, pc;
    uint32_t n_waited;                     /* waits of list[pc] that have ended */
    uint32_t head[PST_LIVE_QUEUES];        /* nothing open of the queue before */
    uint32_t reductions_until;             /* reductions before this place are posted */
    bool arrived;                          /* the head reduction is counted at its meeting */
    bool at_pass;                          /* the list has come to a pass of several ranks */
    uint32_t group, group_end, group_left; /* ordered: the head group */
    bool group_active;
    bool queued;
};

struct pst_live_recv {
    uint32_t rank, instr;
};

/* The ranks that meet in a reduction. */
struct pst_live_meeting {
    const uint32_t *ranks;
    uint32_t n, arrived;
};

struct pst_live {
    struct pst_check *check;
    const struct pst_plan *plan;
    uint32_t capacity;
    bool ordered, async_reductions;
    struct pst_live_rank *ranks;
    struct pst_live_recv *recvs; /* by sender, then in order of receiver and list */
    uint32_t n_recvs;
    uint32_t n_meetings, n_parts; /* n_parts: the most of a stage; each has as many numbers */
    /* part by part REDUCE of each stage, GATHER of each, TIE of each tie or of each of its pieces;
       NORM */
    struct pst_live_meeting *meetings;
    uint32_t *tie_first, *merge_first; /* [tie] its first meeting, [n_ties] NORM; [stage] */
    uint32_t *worklist, first, n_queued;
    uint64_t n_done;
};

/* Tables that do not change between runs. */
void pst_live_prepare(struct pst_live *live, struct pst_check *check);
/* LIVE4: what every blocked queue waits for, and the cycle. */
void pst_live_report(struct pst_live *live);

/* Which meeting a reduction of a rank is. */
uint32_t pst_live_meeting_of(const struct pst_live *live, const struct pst_instr *instr,
                             uint32_t rank);
/* Have both lists come to the same pass, which their ranks begin together? */
bool pst_live_together(const struct pst_live *live, uint32_t rank, uint32_t other);
/* The first rank, from this one on in a circle, whose list has not come to the pass at which the
   list of this one is; PST_NONE: all have. */
uint32_t pst_live_awaited(const struct pst_live *live, uint32_t rank);
/* The head of a queue: posted and not ended; PST_NONE: none. */
uint32_t pst_live_head(struct pst_live_rank *rank, enum pst_live_queue queue);
static inline bool pst_live_is_transfer(uint32_t op)
{
    return op == PST_I_SEND || op == PST_I_RECV;
}

#endif
