/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the `nccl` transport: transfers and sums between the memories of GPUs, in the order of
 * their streams. No call waits for a GPU.
 *
 * A rank has two lanes, one for transfers and one for sums: a communicator over all ranks and a
 * stream of the highest priority each. What a lane is asked for is a ticket: it goes behind what
 * the compute stream has been asked for when it is posted, and whoever waits for it puts its end in
 * front of what the compute stream is asked for later. Transfers that are posted one right after
 * the other are one ticket: one group of NCCL, which completes as a whole.
 *
 * Communicators are not blocking: calls return at once and are asked until they are through. A
 * thread of its own, the watch, looks at what is under way. A lane that stands still for the stall
 * limit, or whose communicator tells of an error, ends the run: all communicators of the process
 * are aborted, their kernels end, and the ranks find out when they ask next.
 *
 * What the host does together, sums of doubles and barriers and the coming and going of processes,
 * is done by another transport, the control: `mpi` where a launcher has started this process,
 * `threads` where it has not.
 *
 * Source: the NCCL 2.28 documentation (communicators, groups, fault tolerance, thread safety).
 */
#ifndef PST_TRANSPORT_NCCL_MODULE_H
#define PST_TRANSPORT_NCCL_MODULE_H

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "transport/transport.h"

#define NCCL_WHAT   192u
#define NCCL_NOBODY UINT32_MAX
#ifndef NCCL_SCRATCH_ELEMS
#define NCCL_SCRATCH_ELEMS ((uint64_t)8 << 20) /* f32 values of sums that are under way */
#endif

enum { LANE_TRANSFERS = 0, LANE_SUMS, LANES };

/* A place in a lane. */
struct ticket {
    cudaEvent_t ready, done; /* on the compute stream; on the lane's */
    uint32_t peer;           /* one of those that it needs */
    bool launched;           /* `done` is recorded: from then on it is the watch's, too */
    uint64_t since_ns;       /* the watch's: it has waited for its peers since then; 0: not yet */
    uint64_t posted_ns;
    char what[NCCL_WHAT]; /* for a message */
};

struct lane {
    ncclComm_t comm; /* NULL: none, or aborted */
    cudaStream_t stream;
    struct ticket *tickets; /* a ring; [first, next) are under way, counted through */
    uint32_t n_tickets;
    uint64_t first, next;
};

struct request {
    uint32_t next_free; /* NCCL_NOBODY: none */
    bool used, is_send;
    uint32_t lane, peer;
    uint64_t ticket; /* counted through */
    const void *data;
    uint64_t bytes;
};

struct rank {
    pthread_mutex_t mutex; /* of everything that the watch looks at, and of every call to NCCL */
    bool attached;
    int ordinal;
    cudaStream_t compute;
    struct lane lanes[LANES];
    struct request *requests; /* transfers, then sums */
    uint32_t free_transfers, free_sums;
    uint32_t *group, n_group; /* transfers of the group that is being posted */
    float *words;             /* of each lane: one, and one of each rank */
    float *scratch;           /* NULL: nothing is summed */
    uint64_t scratch_elems;
    uint64_t start_ns, end_ns; /* of what the last wait ended, as the host saw it */
    uint32_t waits_for;        /* the watch's; NCCL_NOBODY: nobody */
};

struct pst_transport {
    struct pst_transport_config config;
    struct pst_transport_memory memory;
    const struct pst_transport_ops *control_ops;
    struct pst_transport *control;
    uint32_t first, n_local; /* ranks of this process */
    struct rank *ranks;      /* of this process */
    uint32_t n_ready;        /* of them: with a mutex */
    ncclUniqueId ids[LANES];
    pthread_t watch;
    bool watches;
    bool spins; /* kernels that would not end: whatever waits for a GPU might wait for ever */
    pthread_mutex_t mutex; /* of the rest */
    pthread_cond_t wake;
    bool quit;
    atomic_bool failed; /* the two below are written once, before it */
    uint32_t failed_rank;
    struct pst_error why;
};

extern const struct pst_transport_ops *nccl_control; /* NULL: it cannot be loaded */

static inline uint64_t nccl_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline struct rank *nccl_rank(const struct pst_transport *transport, uint32_t rank)
{
    return rank - transport->first < transport->n_local ? &transport->ranks[rank - transport->first]
                                                        : NULL;
}

static inline struct ticket *nccl_ticket(struct lane *lane, uint64_t ticket)
{
    return &lane->tickets[ticket % lane->n_tickets];
}

/* comm.c. On the rank's thread, once its device is open; collective. */
pst_status nccl_attach(struct pst_transport *transport, uint32_t rank, struct pst_error *err);
/* Returns when the lane's communicator is through with what it was asked for. */
pst_status nccl_settle(struct pst_transport *transport, uint32_t rank, uint32_t lane,
                       const char *doing);
/* Of all local ranks: ends communicators in good order, as far as they let it. */
void nccl_detach(struct pst_transport *transport);

/* abort.c: ends the kernels of all local ranks, at once; nothing can be posted from then on. Where
   they do not end before long the transport `spins`. */
void nccl_abort_all(struct pst_transport *transport);

/* ticket.c. A new ticket at the end of a lane, behind the compute stream: its stream waits for
   that. NULL: the run has ended. */
struct ticket *nccl_ticket_open(struct pst_transport *transport, uint32_t rank, uint32_t lane,
                                uint32_t peer);
/* Under the rank's mutex: takes what has ended out of the ring. */
void nccl_lane_retire(struct lane *lane);
/* All that belongs to it has been posted. */
pst_status nccl_ticket_launch(struct pst_transport *transport, uint32_t rank, uint32_t lane,
                              struct ticket *ticket);
/* What the compute stream is asked for next comes behind it. */
pst_status nccl_ticket_wait(struct pst_transport *transport, uint32_t rank, uint32_t lane,
                            uint64_t ticket, struct pst_error *err);

/* post.c */
pst_status nccl_send(struct pst_transport *transport, uint32_t rank, uint32_t to, uint64_t tag,
                     const void *data, uint64_t bytes, pst_request *ret_request);
pst_status nccl_recv(struct pst_transport *transport, uint32_t rank, uint32_t from, uint64_t tag,
                     void *data, uint64_t bytes, pst_request *ret_request);
pst_status nccl_flush(struct pst_transport *transport, uint32_t rank, struct pst_error *err);
pst_status nccl_wait(struct pst_transport *transport, uint32_t rank, pst_request request,
                     struct pst_error *err);

/* sums.c */
pst_status nccl_all_reduce(struct pst_transport *transport, uint32_t rank, const uint32_t *members,
                           uint32_t n_members, const struct pst_reduce_part *parts,
                           uint32_t n_parts, pst_request *ret_request);
pst_status nccl_reduce(struct pst_transport *transport, uint32_t rank, const uint32_t *members,
                       uint32_t n_members, const float *const *src, uint32_t n_src,
                       const uint32_t (*order)[2], uint32_t n_order, float *dst, uint64_t elems,
                       struct pst_error *err);

/* add.cu: dst += src behind what the stream has been asked for. */
#ifdef __cplusplus
extern "C"
#endif
    cudaError_t
    nccl_add(float *dst, const float *src, uint64_t elems, cudaStream_t stream);

/* watch.c */
bool nccl_watch_start(struct pst_transport *transport);
void nccl_watch_stop(struct pst_transport *transport);
void nccl_abort(struct pst_transport *transport, uint32_t rank, const char *why);
/* The run ends because of this, unless it has ended before. */
void nccl_fail(struct pst_transport *transport, uint32_t rank, const struct pst_error *why);
/* The same for a call that went wrong. */
void nccl_fail_nccl(struct pst_transport *transport, uint32_t rank, const char *doing,
                    ncclResult_t result);
void nccl_fail_cuda(struct pst_transport *transport, uint32_t rank, const char *doing,
                    cudaError_t error);
/* PST_OK while nothing has failed. */
pst_status nccl_check(struct pst_transport *transport, uint32_t rank, struct pst_error *err);

#endif
