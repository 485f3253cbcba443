/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the `nccl` transport: transfers and sums between the memories of GPUs, in the order of
 * their streams. No call waits for a GPU.
 *
 * A rank has lanes, a communicator and a stream of the highest priority each: one for sums, over
 * all ranks; and for transfers either one over all ranks or, with config.edges, one over two ranks
 * for each rank that it sends to and each that it gets from (edges.c). What a lane is asked for is
 * a ticket: it goes behind what the compute stream has been asked for when it is posted, and
 * whoever waits for it puts its end in front of what the compute stream is asked for later. In the
 * one lane for transfers those that are posted one right after the other are one ticket: one group
 * of NCCL, which completes as a whole. In the lane of an edge each has a ticket and a kernel of its
 * own.
 *
 * Communicators are not blocking: calls return at once and are asked until they are through. A
 * thread of its own, the watch, looks at what is under way. A lane that stands still for the stall
 * limit, or whose communicator tells of an error, ends the run: all communicators of the process
 * are aborted, their kernels end, and the ranks find out when they ask next.
 *
 * Sums of doubles on the host, and the joining and leaving of processes, are done by another
 * transport, the control: `mpi` if a launcher has started this process, else `threads`.
 *
 * Source: the NCCL 2.28 documentation (communicators, groups, fault tolerance, thread safety).
 */
#ifndef PST_TRANSPORT_NCCL_MODULE_H
#define PST_TRANSPORT_NCCL_MODULE_H

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/machine.h"
#include "exec/transport.h"
#include "transport/common/requests.h"
#include "transport/common/stall.h"

#define NCCL_WHAT      192u
#define NCCL_NOBODY    UINT32_MAX
#define NCCL_UNDER_WAY "in a transfer or sum"
#ifndef NCCL_SCRATCH_ELEMS
#define NCCL_SCRATCH_ELEMS ((uint64_t)8 << 20) /* f32 values of sums that are under way */
#endif

/* With edges LANE_TRANSFERS is the first of them. */
enum { LANE_SUMS = 0, LANE_TRANSFERS };

/* Lanes of edges that a rank can have: a GPU has 32 queues, seven of which are the rank's own. */
#define NCCL_EDGES 24u

/* A place in a lane. */
struct ticket {
    cudaEvent_t ready, done; /* on the compute stream; on the lane's */
    cudaEvent_t asked;       /* of an edge: on the compute stream, where that waits for it */
    uint32_t peer;           /* one of those that it needs */
    bool launched;           /* `done` is recorded: from then on it is the watch's, too */
    bool wanted;             /* `asked` is recorded */
    uint64_t since_ns;       /* the watch's: it has waited for its peers since then; 0: not yet */
    uint64_t posted_ns;
    char what[NCCL_WHAT]; /* for a message */
};

struct edge {
    uint32_t from, to;
};

enum { PIECES = 2 }; /* of memory that a lane's transfers name: the rank's, what sums need */

struct lane {
    void *registered[PIECES]; /* with the communicator, under the rank's mutex; NULL: not */
    uint32_t id;              /* of the transport's */
    int n, me;                /* ranks of the communicator; this one's number there */
    struct edge edge;         /* from == to: none, over all ranks */
    ncclComm_t comm;          /* NULL: none, or aborted */
    cudaStream_t stream;
    struct ticket *tickets; /* a ring; [first, next) are under way, counted through */
    uint32_t n_tickets;
    uint64_t first, next;
};

struct request {
    struct request_link link; /* in the list of free ones */
    bool used, is_send;
    uint32_t lane, peer;
    uint64_t ticket; /* counted through */
    void *data;      /* not written through by a send */
    uint64_t bytes;
};

struct rank {
    pthread_mutex_t mutex; /* of everything that the watch looks at, and of every call to NCCL */
    bool attached;
    int ordinal;
    uint32_t room; /* with edges: multiprocessors of the smallest GPU of all ranks */
    cudaStream_t compute;
    struct lane *lanes;
    uint32_t n_lanes;
    struct request *requests; /* transfers, then sums */
    struct request_link *free_transfers, *free_sums;
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
    struct edge *edges;      /* in the order in which their communicators are made; NULL: none */
    uint32_t n_edges;
    uint32_t most_edges, busiest; /* of one rank, and which */
    ncclUniqueId *ids;            /* by lane, or of the edges from LANE_TRANSFERS on */
    uint32_t n_ids;
    pthread_t watch;
    bool watches, chosen; /* chosen: the watch has a GPU */
    bool spins; /* kernels that would not end: whatever waits for a GPU might wait for ever */
    atomic_bool through;   /* the watch is: with what ends kernels where the run has failed */
    pthread_mutex_t mutex; /* of the rest */
    pthread_cond_t wake;
    bool quit;
    atomic_bool failed; /* the two below are written once, before it */
    uint32_t failed_rank;
    struct pst_error why;
};

extern const struct pst_transport_ops *nccl_control; /* NULL: it cannot be loaded */

static inline struct rank *nccl_rank(const struct pst_transport *transport, uint32_t rank)
{
    return rank - transport->first < transport->n_local ? &transport->ranks[rank - transport->first]
                                                        : NULL;
}

static inline struct ticket *nccl_ticket(struct lane *lane, uint64_t ticket)
{
    return &lane->tickets[ticket % lane->n_tickets];
}

static inline bool nccl_is_edge(const struct lane *lane)
{
    return lane->edge.from != lane->edge.to;
}

/* Is there memory that was not deregistered? Then its communicator is only to be aborted. */
static inline bool nccl_knows(const struct lane *lane)
{
    return lane->registered[0] != NULL || lane->registered[1] != NULL;
}

/* edges.c. Before there are ranks: which edges there are, and how many ids are wanted.
   PST_ERR_CONFIG: a rank has too many, or NCCL is told to put them in one order again. */
pst_status nccl_edges_find(struct pst_transport *transport, struct pst_error *err);
/* The lanes of a rank, without communicators. */
void nccl_lanes_init(const struct pst_transport *transport, uint32_t index, struct rank *rank);
void nccl_lanes_finish(struct rank *rank);
/* Where its transfers with a peer go; NCCL_NOBODY: nowhere. */
uint32_t nccl_lane_of(const struct rank *rank, uint32_t peer, bool is_send);
/* On the rank's thread, before its first communicator; collective: how large the smallest GPU is,
   and whether lanes of edges find room there. A failure ends the run. */
pst_status nccl_edges_room(struct pst_transport *transport, uint32_t index);
/* Configures a new communicator, the same way at all of its ends. */
void nccl_lane_config(const struct pst_transport *transport, uint32_t index, uint32_t which,
                      ncclConfig_t *ret_config);
bool nccl_meets(const struct pst_transport *transport, uint32_t index, uint32_t other,
                uint32_t what);

/* comm.c. On the rank's thread, once its device is open; collective. */
pst_transport_call_fn nccl_attach;
/* Returns when the lane's communicator is through with what it was asked for. */
pst_status nccl_settle(struct pst_transport *transport, uint32_t rank, uint32_t lane,
                       const char *doing);
/* Posts one group of NCCL: what `post` does in the lane. Returns like nccl_settle. */
typedef ncclResult_t nccl_post_fn(const struct lane *lane, void *of);
pst_status nccl_group(struct pst_transport *transport, uint32_t rank, uint32_t lane,
                      const char *doing, nccl_post_fn *post, void *of);
/* Ends the communicators of all local ranks in good order, as far as possible. */
void nccl_detach(struct pst_transport *transport);

/* register.c. On the rank's thread, behind its first exchanges; collective: what transfers name is
   known to NCCL, on all ranks or on none. Only what ends the run is an error. */
pst_status nccl_register(struct pst_transport *transport, uint32_t index);
/* Undoes nccl_register once nothing is in flight; an aborted lane stays registered until its
   communicator ends. False: transfers are in flight, though the run may not have failed. */
bool nccl_deregister(struct pst_transport *transport, uint32_t index);

/* abort.c: ends the kernels of all local ranks, at once; nothing can be posted from then on. Where
   they do not end before long the transport `spins`. */
void nccl_abort_all(struct pst_transport *transport);
/* Once a run that has failed is through with that: may GPUs be waited for? */
bool nccl_let_go(struct pst_transport *transport, uint32_t rank);

/* ticket.c. Between two looks of the host at something it has waited for since then: most of it is
   over soon, so at first it does not sleep. */
void nccl_pause(uint64_t since_ns);
/* A new ticket at the end of a lane, behind the compute stream: its stream waits for
   that. NULL: the run has ended. */
struct ticket *nccl_ticket_open(struct pst_transport *transport, uint32_t rank, uint32_t lane,
                                uint32_t peer);
/* Under the rank's mutex: takes what has ended out of the ring. Not success: the GPU failed. */
cudaError_t nccl_lane_retire(struct lane *lane);
/* All that belongs to it has been posted. */
pst_status nccl_ticket_launch(struct pst_transport *transport, uint32_t rank, uint32_t lane,
                              struct ticket *ticket);
/* Later work on the compute stream waits for the ticket. */
pst_status nccl_ticket_wait(struct pst_transport *transport, uint32_t rank, uint32_t lane,
                            uint64_t ticket, struct pst_error *err);

/* post.c */
pst_transport_post_fn nccl_post;
pst_transport_call_fn nccl_flush;
pst_transport_wait_fn nccl_wait;

/* sums.c */
pst_transport_meet_fn nccl_meet;

/* add.cu: dst += src behind what the stream has been asked for. */
#ifdef __cplusplus
extern "C"
#endif
    cudaError_t
    nccl_add(float *dst, const float *src, uint64_t elems, cudaStream_t stream);

/* watch.c */
bool nccl_watch_start(struct pst_transport *transport);
void nccl_watch_stop(struct pst_transport *transport);
/* The run ends because of this, unless it has ended before. */
void nccl_fail(struct pst_transport *transport, uint32_t rank, const struct pst_error *why);
/* nccl_fail after a failed call of NCCL or CUDA. */
void nccl_fail_nccl(struct pst_transport *transport, uint32_t rank, const char *doing,
                    ncclResult_t result);
void nccl_fail_cuda(struct pst_transport *transport, uint32_t rank, const char *doing,
                    cudaError_t error);
/* PST_OK while nothing has failed. */
pst_transport_call_fn nccl_check;

#endif
