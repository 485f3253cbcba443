/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the `mpi` transport: ranks are processes. One thread of a process, the communicator,
 * makes every call to MPI, from MPI_Init_thread to MPI_Finalize, and never a blocking one; it asks
 * for no more than MPI_THREAD_FUNNELED. The rank's thread and the thread that drives the run leave
 * their wishes in lists and sleep until these are done.
 *
 * Transfers are matched by 64-bit tags that no MPI tag can hold. So a send is two messages: a
 * header with the tag, the size and a number, then the bytes under an MPI tag made of that number.
 * The receiver looks for the receive that the header is for, and only then asks for the bytes.
 *
 * Fields of the communicator's thread alone are marked so; all others are under the mutex, or
 * atomic.
 */
#ifndef PST_TRANSPORT_MPI_MODULE_H
#define PST_TRANSPORT_MPI_MODULE_H

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/machine.h"
#include "exec/transport.h"
#include "transport/common/inorder.h"
#include "transport/common/requests.h"
#include "transport/common/stall.h"

#define MPI_NO_RANK UINT32_MAX
#define MPI_PIECE   ((uint64_t)1 << 30) /* bytes of a message at most: MPI counts in int */
#define MPI_NUMBERS (1u << 24)          /* numbers of messages at most */
#define MPI_INLINE  8192u               /* bytes of a meeting that travel with its head */
#define MPI_WHY     (sizeof((struct pst_error *)NULL)->message)

/* MPI tags. */
enum {
    TAG_HEADER = 1,
    TAG_BEAT,
    TAG_ABORT,
    TAG_EXCHANGE,
    TAG_SETTLE,
    TAG_LEAVE,
    TAG_CLOCK,
    TAG_MEET_HEAD = 16, /* plus the lane */
    TAG_MEET = 24,      /* plus the lane */
    TAG_DATA = 1024     /* plus the number */
};

struct header {
    uint64_t tag, bytes;
    uint32_t number, unused;
};

/* Host memory in place of a device's. Pinned memory belongs to the device; buffers that do not fit
   there are in memory of this process, which grows. */
struct stage {
    char *bytes;
    uint64_t room;
    bool pinned;
};

struct request {
    struct request_link
        link; /* in the list of free ones, the inbox, or that of expected receives */
    void *data;
    uint64_t bytes, moved;
    uint64_t peer_bytes; /* with REQUEST_BAD */
    uint32_t peer, number;
    bool is_send;
    struct header header;
    MPI_Request header_request, data_request;
    uint64_t posted_ns, start_ns, end_ns;
    atomic_uint state;
    struct stage stage; /* in place of `data` of a device; `far` is where that is */
    void *far;
};

/* A header whose receive has not been posted. */
struct arrival {
    struct request_link link;
    struct header header;
    uint64_t at_ns;
};

/* The communicator's, one for each other process. */
struct peer {
    struct request_queue expected; /* receives without a header */
    struct request_queue arrived;
    struct header header; /* the next one lands here */
    MPI_Request header_request;
    uint32_t n_sent; /* messages so far */
};

/* The header that members exchange before a meeting begins. */
struct sum_head {
    uint64_t elems, shape; /* of all parts together; digest of what must be equal */
    uint32_t n_terms, unused;
};

#define MPI_HEAD (sizeof(struct sum_head) + MPI_INLINE)

enum sum_phase { SUM_HEADS, SUM_TERMS, SUM_RESULTS };

/* A meeting, of whatever kind; or a sum of doubles of all ranks. */
struct sum {
    struct request_link link; /* in a list of free ones, the inbox, or the queue of its lane */
    struct pst_meeting meeting;
    uint32_t me, n_terms, n_mine; /* me: number among the members; n_mine: terms of this rank */
    struct pst_meet_part values;  /* of doubles: the only part */
    uint64_t elems;
    size_t size; /* of an element */
    /* the communicator's */
    enum sum_phase phase;
    struct inorder_round round;
    uint64_t start_ns, end_ns;
    atomic_uint missing;          /* a rank from which something has not come */
    uint32_t peer;                /* with REQUEST_BAD: who disagrees, */
    struct sum_head mine, theirs; /* and what is told */
    atomic_uint state;
    /* Where buffers are a device's: host memory in place of them, and where they are. */
    struct stage stage, stage_table;
    const struct pst_meet_part *far;
};

/* The state that a rank reports, each second. */
struct beat {
    uint32_t rank;
    uint32_t waits_for; /* rank, or MPI_NO_RANK */
    uint32_t misses;    /* where all meet, outside of a step: rank, or MPI_NO_RANK */
    uint64_t since_ns;  /* it has done so, or what it does, for that long */
    char doing[112];
};

struct abort_message {
    uint32_t rank;
    int32_t exit_code;
    char why[MPI_WHY];
};

/* Identifies a process of a machine, if its number is known. */
struct mpi_self {
    char boot[36];      /* the machine's, since it started */
    int32_t pid;        /* 0: not known */
    uint64_t pid_names; /* of the namespace that the number is of */
};

/* Tracks the end of another process. */
struct gone {
    atomic_int fd;     /* its pidfd, -1: none */
    uint64_t since_ns; /* the communicator's: when it was found to have ended, 0: it has not */
    bool is;           /* the communicator sets it, under the mutex */
};

/* The exchange that the driving thread waits for. */
struct team_job {
    uint32_t number; /* a thread that ends the run takes the place of the one that drives it */
    int tag;
    bool to_all; /* else from rank 0 */
    bool final;  /* goes on after an abort, to the deadline */
    char *mine, *all;
    size_t room_mine, room_all;
    int bytes;
    uint64_t deadline_ns;
    bool *present;
    bool begun;            /* the communicator's */
    MPI_Request *requests; /* receives, then sends */
    atomic_uint state;
    atomic_uint missing; /* a rank that has not come to it, MPI_NO_RANK: none is known */
};

/* The communicator's room for the sums of a lane; it grows with the first steps. */
struct staging {
    char *bytes;
    size_t room;
    char *heads; /* of all members: head and inline bytes */
    MPI_Request *requests;
    uint32_t n_requests, n_room;
};

/* The communicator's: sums that wait for the first of them. */
struct sum_lane {
    struct request_queue queue;
    bool begun; /* the first has */
    struct staging staging;
};

struct pst_transport {
    uint32_t max_requests, max_meetings, max_rows;
    uint64_t stall_ns;
    struct request *requests;
    struct sum *sums; /* max_meetings, one for calls that wait at once, that of PST_MEET_PARTS,
                         max_rows */
    struct request_link *free, *free_sums[PST_MEET_LANES];
    uint32_t *all;             /* 0 .. n_ranks - 1 */
    uint64_t start_ns, end_ns; /* of what the last wait ended */
    void (*doing)(void *context, uint32_t rank, char *ret_text, size_t size);
    void *doing_context;
    void (*note)(const char *text);
    bool apart; /* buffers are a device's */
    bool hangs; /* the communicator, or MPI, may still look at all of this */
    struct pst_transport *kept_before;
    struct pst_transport_memory memory;
    const struct pst_device_ops *device;
    struct pst_device *const *devices;
};

/* One per process, from join to leave. */
struct world {
    uint32_t rank, n_ranks, n_near; /* near: processes of this host */
    uint64_t stall_ns, beat_ns;
    atomic_bool steps; /* the rank has waited for another one: from then on stall_ns counts */
    char (*hosts)[64];
    struct {
        bool *shared; /* [rank] reads the clock that rank 0 reads */
        bool wanted;  /* is to be measured, under the mutex */
        int64_t ahead_ns;
        uint64_t uncertain_ns;
    } clock;
    bool spins;
    uint32_t n_numbers; /* of messages, until they begin anew */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;                 /* the communicator */
    pthread_cond_t rank_wake, team_wake; /* the two others */
    bool rung;                           /* there is something new for the communicator */
    struct pst_transport *transport;     /* NULL: none is open */
    struct request_queue inbox, sum_inbox;
    bool closing, closed; /* the transport's requests are to be given up; they are */
    bool keeps;           /* but for some that MPI does not give back */
    struct team_job job;
    atomic_bool aborted;
    atomic_bool stood; /* this process was stopped until it was told of the abort */
    bool abort_wanted, abort_sent;
    struct abort_message abort;
    struct pst_error abort_error; /* where it is this process that ended the run */
    /* what the rank waits for: its peer, MPI_NO_RANK: nothing or a sum; and since when */
    atomic_uint waits_for;
    atomic_uint_fast64_t waits_since_ns;
    struct sum *_Atomic waits_sum;
    struct beat *beats; /* the last of each rank */
    uint64_t *heard_ns; /* and when it came; of a process itself: 0 */
    struct gone *gone;
    int quit; /* 1: MPI_Finalize, 2: MPI_Abort */
    int exit_code;
    bool ready, failed, left; /* of the communicator: is in the loop; has no MPI; is gone */
    char why[256];
    /* the communicator's */
    MPI_Comm comm;
    struct peer *peers;
    struct request **active;
    uint32_t n_active;
    struct sum_lane lanes[PST_MEET_LANES];
    struct request_link *free_arrivals;
    struct beat beat_in, *beats_out; /* one for each rank: a send may take its time */
    struct abort_message abort_in;
    MPI_Request beat_request, abort_request;
    MPI_Request *beat_sends, *abort_sends;
    uint64_t turned_ns, stood_ns; /* the communicator's last turn; one that came late */
    uint64_t beaten_ns, gone_looked_ns;
    bool open, told; /* there is a transport; a beat had something to tell of */
};

extern struct world *mpi_world; /* NULL: nobody has joined */

static inline uint32_t mpi_n_sums(const struct pst_transport *transport)
{
    return transport->max_meetings + 2 + transport->max_rows;
}

static inline const char *mpi_host_of(const struct world *world, uint32_t rank)
{
    return world->hosts[rank][0] != '\0' ? world->hosts[rank] : "not known yet";
}

/* communicator.c: its thread; argument is the world. */
void *mpi_communicator(void *argument);
/* Under the mutex: there is something new. */
void mpi_ring(struct world *world);
/* For the communicator: a call to MPI went wrong; false then, and the run is aborted. */
bool mpi_ok(struct world *world, int code, const char *what);
/* Has it ended? Tells and forgets; true where there is none. */
bool mpi_ended(struct world *world, MPI_Request *request);
/* Takes a receive back, or waits for it no more; false: MPI may still look at its memory. */
bool mpi_drop(struct world *world, MPI_Request *request, bool is_receive);
/* Sets a state for the rank's thread and wakes it. */
void mpi_publish(struct world *world, atomic_uint *word, uint32_t value);

/* transfers.c: the communicator's side; all return whether something moved. */
bool mpi_transfers_take(struct world *world, struct request_queue *inbox);
bool mpi_transfers_progress(struct world *world);
/* False: MPI may still look at what they were about. */
bool mpi_transfers_drop(struct world *world);

/* sums.c: the communicator's side. */
void mpi_sums_take(struct world *world, struct request_queue *inbox);
bool mpi_sums_progress(struct world *world);
bool mpi_sums_drop(struct world *world);

/* sum_bytes.c: elements of one of this rank's terms; writing of the result. */
void mpi_sum_read(const struct sum *sum, uint32_t term, struct inorder_cursor cursor, char *to);
/* Copies the elements that this rank sends a member in an exchange. Returns how many bytes. */
uint64_t mpi_sum_pick(struct inorder_cursor cursor, uint32_t member, char *to);
void mpi_sum_write(const struct sum *sum, struct inorder_cursor cursor, const char *from);
uint32_t mpi_terms_of(const struct sum *sum, uint32_t member);

/* team.c: the communicator's side of what the driving thread waits for. */
bool mpi_team_progress(struct world *world);
extern const struct pst_transport_processes mpi_processes;
/* The driving thread sleeps until its team_wake, at most to that time. Under the mutex. */
void mpi_sleep_until(struct world *world, uint64_t ns);

/* join.c: coming; *ret_n_ranks is 0 unless the processes have met, also where it fails. */
pst_status mpi_join(const char *transport, uint64_t stall_ns, uint64_t room, uint32_t *ret_rank,
                    uint32_t *ret_n_ranks, struct pst_error *err);
void mpi_world_destroy(struct world *world);
/* The communicator does not come back from MPI_Init: nothing but the end of the process ends it. */
extern bool mpi_hangs;

/* watch.c: beats and aborts, the communicator's side; who waits for whom. */
bool mpi_watch_begin(struct world *world);
bool mpi_watch_progress(struct world *world);
void mpi_watch_end(struct world *world);
void mpi_abort(struct world *world, uint32_t rank, const struct pst_error *why);
/* The communicator cannot go on; for want of memory. */
void mpi_give_up(struct world *world, const char *kind, const char *why);
void mpi_give_up_memory(struct world *world);
pst_status mpi_fail_aborted(struct world *world, struct pst_error *err);
/* run.stalled: this rank has waited too long for `peer`; `what` says for what. */
pst_status mpi_fail_stalled(struct world *world, uint32_t peer, const char *what,
                            struct pst_error *err);
/* gone.c: processes of this machine that end before the run does. */
void mpi_self(struct mpi_self *ret_self);
void mpi_gone_watch(struct world *world, uint32_t rank, const struct mpi_self *self,
                    const struct mpi_self *other);
/* The communicator's. */
void mpi_gone_progress(struct world *world, uint64_t now);
void mpi_gone_finish(struct world *world);
/* Describes a process that has ended and those that wait for it. Returns false if none does. */
bool mpi_tell_gone(struct world *world, uint32_t rank, struct pst_error *ret_why);
/* How long a process may be silent: the stall limit, or if that is less, a start's time before the
   first step. */
uint64_t mpi_patience(const struct world *world);
/* A process that was not heard of for that long, or MPI_NO_RANK. */
uint32_t mpi_silent(struct world *world);

/* clock.c: which clock a process reads; the communicator's part; a call of the table. */
struct mpi_clock_id {
    char boot[40]; /* of the running system; "": unknown */
    uint64_t space;
};
void mpi_clock_identify(struct mpi_clock_id *ret_id);
void mpi_clock_measure(struct world *world);
pst_status mpi_clock(int64_t *ret_ahead_ns, uint64_t *ret_uncertain_ns, struct pst_error *err);

/* absent.c: processes that do not come to MPI_Init. This thread is about to call it; has called. */
void mpi_absent_mark(bool joining);
/* Who has not come, as far as this machine can know; false: it is none of its own. */
bool mpi_absent_tell(char *ret_text, size_t size);

/* post.c: the rank's side. */
pst_transport_post_fn mpi_post;
pst_transport_wait_fn mpi_wait;
enum outcome mpi_await(struct world *world, const atomic_uint *word, uint64_t stall_ns);

/* staged.c: the rank's side of buffers that are a device's, on its thread. MPI of most builds knows
   nothing of GPUs, so everything goes through host memory: pinned, and made before the first post,
   as far as it is known what there will be. The first two of each are for a post, the last for a
   wait that ended well. */
pst_transport_call_fn mpi_attach;
void mpi_stage_transfer(struct pst_transport *transport, struct request *request);
void mpi_unstage_transfer(struct pst_transport *transport, const struct request *request);
void mpi_stage_sum(struct pst_transport *transport, struct sum *sum);
void mpi_unstage_sum(struct pst_transport *transport, const struct sum *sum);
/* Forgets pinned buffers, because the device is about to be closed; frees all others. */
void mpi_stages_forget(struct pst_transport *transport);
void mpi_stages_free(struct pst_transport *transport);

/* collective.c: the rank's side. */
pst_transport_meet_fn mpi_meet;
pst_status mpi_sum_wait(struct pst_transport *transport, struct sum *sum, struct pst_error *err);
pst_status mpi_sum(struct pst_transport *transport, uint32_t rank, double *values, uint32_t n,
                   struct pst_error *err);

#endif
