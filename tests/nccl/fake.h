/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the double of NCCL and its runtime: streams that work by themselves, in order, late
 * (runtime.c); what ranks share, be they threads or processes (shared.c).
 */
#ifndef PST_TESTS_NCCL_FAKE_H
#define PST_TESTS_NCCL_FAKE_H

#include <nccl.h>
#include <stdatomic.h>

/* Has the stream run work(argument) once it is there, then free the argument. On a stream of
   another double: host_stream.h. */
void fake_stream_ask(cudaStream_t stream, void (*work)(void *argument), void *argument);
/* The device that the calling thread has chosen. */
int fake_device(void);
/* Where on the host an address is that a call names. */
void *fake_reach(const void *address);

/* --- what ranks share --- */

enum { FAKE_RANKS = 16, FAKE_RING = 16384 };

/* From one rank to another: one message at a time, which moves once both ends are there, through a
   ring. A send is over when all of it has been taken out. */
struct fake_channel {
    bool send_open, recv_open, torn; /* torn: an end was taken back halfway */
    uint64_t send_bytes, recv_bytes; /* of the message */
    bool send_known, recv_known;     /* from and to memory that is registered */
    uint64_t in, out;                /* of them, into the ring and out */
    uint64_t n_over;                 /* messages before this */
    unsigned char ring[FAKE_RING];
};

/* Of one unique id, in shared memory; under its mutex. */
struct fake_shared {
    int n, n_joined, n_alive; /* alive: not freed */
    int blocks, clusters;     /* what its ranks ask for, all of them the same */
    bool joined[FAKE_RANKS];
    bool met[FAKE_RANKS][FAKE_RANKS]; /* [a][b] a has had to do with b */
    struct fake_channel channels[FAKE_RANKS][FAKE_RANKS];
};

/* One end of a message. */
struct fake_end {
    bool is_send, open, done, known;
    char *data;
    uint64_t bytes, moved, number;
};

/* Makes it, or finds it among those of this process and of others, and goes away when the last one
   here lets go. Ends the process where there is no such memory. */
struct fake_shared *fake_shared_get(const ncclUniqueId *id);
void fake_shared_put(struct fake_shared *shared);
/* Nobody else has to find it. */
void fake_shared_forget(struct fake_shared *shared);
void fake_shared_lock(struct fake_shared *shared);
void fake_shared_unlock(struct fake_shared *shared);
/* Under the mutex: something has changed; waits a while for that, without the mutex. */
void fake_shared_tell(struct fake_shared *shared);
void fake_shared_wait(struct fake_shared *shared);
/* Under the mutex: goes on with a message; tells of it. Taken back: it is not to be. */
void fake_end_step(struct fake_shared *shared, struct fake_channel *channel, struct fake_end *end);
void fake_end_withdraw(struct fake_channel *channel, const struct fake_end *end);

/* Is all of it in memory that was registered with the communicator? NULL: with any. */
bool fake_is_known(const struct fake_comm *comm, const void *memory, uint64_t bytes);
/* The communicator ends; how many pieces it still knew. */
unsigned fake_forget(const struct fake_comm *comm);
/* The rank among all that the calling thread is. */
int fake_own_rank(void);

/* Do the communicators of this rank among all tell of an error? */
bool fake_is_failing(int rank);
/* Blocks of a kernel: NCCL rounds the channels of transfers up to a power of two. */
unsigned fake_blocks(const ncclConfig_t *config);

/* Is the call that asks this the one to fail? */
bool fake_fails(void);

/* Aborts that hang go on and end, before it returns. */
void fake_let_aborts_go(void);

/* Ends the process. */
void fake_misuse(const char *what);

/* --- what a test sets --- */

/* Processes find them in PENSTOCK_FAKE_NCCL="polls vanished failing". */
struct fake_faults {
    unsigned polls; /* how often a communicator says that it is not through */
    int vanished;   /* rank whose groups never begin; -1: none */
    int failing;    /* rank whose communicators tell of an error; -1: none */
    int unknown;    /* 1 + rank whose memory cannot be registered; 0: none */
    unsigned fails; /* this call from now on fails, of all that can; 0: none. One that is past that
                       many fails no more */
    bool hang;      /* aborts do not end */
};
/* What a test looks up in the module, as `fake_nccl`. */
struct fake_nccl {
    struct fake_faults faults;   /* set while nothing is open */
    unsigned n_groups, n_comms;  /* groups that ended, communicators that exist; of this process */
    atomic_uint n_registered;    /* pieces of memory that communicators know, */
    atomic_uint n_registrations; /* and that they ever knew */
    unsigned n_made;             /* communicators that were ever made */
    atomic_uint n_kept;          /* streams, events and pieces of memory that exist */
    atomic_uint n_calls;         /* that could have failed, since the faults were set */
    atomic_ullong n_bytes;       /* that were ever sent */
    unsigned most_blocks;        /* that a device ran at once, since the faults were set */
    unsigned most_reserved;     /* that the communicators of a rank might run at once, since then */
    unsigned processors;        /* of a device; each block of a kernel takes one while it runs */
    unsigned processors_of_odd; /* of devices of odd number, where they have others; 0: the same */
    atomic_bool broken;         /* events tell of an error instead of when they are through */
    /* Aborts that hang go on and end, before it returns. */
    void (*let_go)(void);
    /* From now on this rank's communicators tell of an error. */
    void (*break_rank)(int rank);
    /* A stream like those of the transport, for what computes. */
    cudaError_t (*stream_create)(cudaStream_t *ret_stream, unsigned flags, int priority);
    cudaError_t (*stream_destroy)(cudaStream_t stream);
    void (*ask)(cudaStream_t stream, void (*work)(void *argument), void *argument);
};
extern struct fake_nccl fake_nccl;

#endif
