/* SPDX-License-Identifier: Apache-2.0
 *
 * A transport's interface to the executor: point-to-point transfers that are posted and waited for,
 * and small collectives. Private. A module is transport-<id>.so exporting pst_transport_module().
 *
 * A transfer completes when both ends have posted it; payloads are matched by (from, to, tag) and
 * their sizes must agree. Every wait has a deadline and ends early when the transport is aborted.
 * Calls with the same `rank` come from one thread.
 */
#ifndef PST_EXEC_TRANSPORT_H
#define PST_EXEC_TRANSPORT_H

#include "exec/device.h"
#include "graph/cost.h"

struct pst_transport;

/* Time of one transfer, until its bytes have arrived: they leave the link a latency before.
   follows: it is part of the same message as the transfer before it on this link and starts when
   the bytes of that one have left. */
struct pst_transfer_time {
    uint64_t ns, latency_ns;
    bool follows;
};

/*
 * Links of a described machine, whose times the transport keeps. A transfer starts when both its
 * ends are at the heads of their rank's queue of sends and of receives and its link direction is
 * free; it occupies the link while its bytes leave, and no rank's thread. Two ranks of one node
 * have a link of their own; others share the way out of one node and the way into the other, first
 * come, first served, at equal times the lower sender. A collective starts when the last member has
 * come. All of it is counted on the clocks of the ranks' devices: a post counts from its rank's
 * clock, and a wait puts that forward to the end. Buffers of hollow devices are neither read nor
 * written.
 */
struct pst_transport_times {
    void *context;
    /* These are pure. */
    struct pst_transfer_time (*transfer)(void *context, uint32_t from, uint32_t to, uint64_t tag,
                                         uint64_t bytes);
    uint64_t (*meeting_ns)(void *context, struct pst_meet_bytes bytes, const uint32_t *ranks,
                           uint32_t n_ranks);
    uint32_t (*node)(void *context, uint32_t rank); /* below n_ranks */
};

/* The most that the lists of a rank have open at once. */
struct pst_transport_needs {
    uint32_t transfers, meetings;
    uint64_t transfer_bytes;  /* of the largest transfer */
    uint64_t meeting_bytes;   /* of all sources and results of a meeting, the most */
    uint64_t meeting_buffers; /* how many these are, the most */
};

/* Passed if buffers are in the arenas of devices, which copy and add them, not in host memory. */
struct pst_transport_memory {
    void *context;
    /* The block of device memory that holds every buffer of the rank's transfers and sums, from
       attach() to detach(). NULL: unknown. */
    void *(*region)(void *context, uint32_t rank, uint64_t *ret_bytes);
    bool timed; /* marks are, and swap() will be asked for them */
    /* Valid from attach() on. NULL: unknown. */
    struct pst_transport_needs (*needs)(void *context, uint32_t rank);
};

enum { PST_MEETS_TRANSFER = 1u << 0, PST_MEETS_SUM = 1u << 1 };

struct pst_transport_config {
    uint32_t n_ranks;
    uint32_t max_requests; /* per rank, in flight at once: transfers */
    uint32_t max_meetings; /* the same of meetings in the lane of sums */
    uint32_t max_rows;     /* and in that of rows */
    uint64_t stall_ns;     /* longest wait before PST_ERR_CANCELLED with kind run.stalled */
    /* Writes what a rank of this process is doing, for messages ("F of stage 2, micro-batch 5"), or
       "" if it does nothing. Called by any thread at any time. NULL: unknown. */
    void (*doing)(void *context, uint32_t rank, char *ret_text, size_t size);
    void *doing_context;
    /* Returns what two ranks do with each other, PST_MEETS_*, the same from both sides; for a rank
       and itself, the sums it makes alone. Pure; any thread. NULL: everything. */
    uint32_t (*meets)(void *context, uint32_t rank, uint32_t other);
    void *meets_context;
    /* Transfers of each pair of ranks, in each direction, wait for no others. False: those of a
       rank may be one queue. Transports that always work like this ignore it. */
    bool edges;
    /* A line for the log, at its lowest level; any thread. NULL: nobody reads it. */
    void (*note)(const char *text);
    /* The devices of the ranks of this process, by rank: a rank's from attach() on, or from its
       first call. For who has times or memory. */
    const struct pst_device_ops *device;
    struct pst_device *const *devices;
    const struct pst_transport_times *times;   /* copied; NULL: as fast as this machine moves it */
    const struct pst_transport_memory *memory; /* copied; NULL: buffers are the host's */
};

typedef uint32_t pst_request;

/* Elements that a member brings to a meeting, and the same elements of what it takes from it. */
struct pst_meet_part {
    const void *const *src; /* [n_src] what it brings, none of it `dst`; NULL: `dst` holds it */
    void *dst;
    uint64_t elems;
    uint32_t owner; /* number of the member that a sum goes to. What is in `dst` of the others is
                       undefined then; if `src` is set they need no `dst`, and the sum does not
                       write it. PST_NONE: to all. Of a gather and an exchange: the member that
                       brings the part */
    uint32_t to;    /* of an exchange: number of the member that gets it, which may be the owner.
                       Others than these two need no buffer */
};

/* The queues that meetings of a rank wait in; those of one know nothing of the other. */
enum pst_meet_lane {
    PST_MEET_SUMS = 0,  /* of gradients, weights, norms */
    PST_MEET_PARTS = 1, /* of parts inside passes, at most one at a time */
    PST_MEET_ROWS = 2,  /* of replicas inside passes: of gradients and weights of a layer */
    PST_MEET_LANES
};

/*
 * A collective over ranks. PST_MEET_SUM: every part becomes the sum of its terms, left to right, in
 * f32 or f64, bit for bit equal on all members that take it; bf16 is added in f32 and rounded
 * once. A term is a source of a member. With owners it is a reduce-scatter. PST_MEET_GATHER: every
 * part becomes what its owner has, in all members' `dst`; its elements are bytes, and src is NULL.
 * PST_MEET_EXCHANGE: the same in the `dst` of one member, from the one source of the owner; on
 * others src is NULL. Parts have equal sizes, owners and receivers on all members; n_src is the
 * member's own, and 1 where it brings what is in `dst`.
 */
struct pst_meeting {
    uint8_t kind;            /* enum pst_meet_kind, the same on all members */
    uint8_t lane;            /* enum pst_meet_lane, the same on all members */
    uint32_t dtype;          /* of a sum: PST_F32, PST_BF16, PST_F64 */
    const char *name;        /* for messages */
    const uint32_t *members; /* distinct ranks, the same on each */
    uint32_t n_members, n_parts, n_src;
    const struct pst_meet_part *parts;
    const uint32_t (*order)[2]; /* [n_order] terms: (number of the member, source), with sources
                                   apart from `dst`; NULL: one source of each member in turn */
    uint32_t n_order;
};

static inline uint32_t pst_meeting_terms(const struct pst_meeting *meeting)
{
    return meeting->order != NULL ? meeting->n_order : meeting->n_members;
}

static inline uint32_t pst_meeting_size(const struct pst_meeting *meeting)
{
    return meeting->kind == PST_MEET_SUM ? pst_dtype_bytes(meeting->dtype) : 1;
}

static inline uint64_t pst_meeting_elems(const struct pst_meeting *meeting)
{
    uint64_t elems = 0;

    for (uint32_t p = 0; p < meeting->n_parts; p++) {
        elems += meeting->parts[p].elems;
    }
    return elems;
}

/* Bytes of the whole buffers: added up; sent to all by who has them. A byte of an exchange goes to
   one of n members, and is an n-th of one that goes to all. */
static inline struct pst_meet_bytes pst_meeting_bytes(const struct pst_meeting *meeting)
{
    struct pst_meet_bytes bytes = {0, 0};

    if (meeting->kind == PST_MEET_EXCHANGE) {
        bytes.copied = (pst_meeting_elems(meeting) + meeting->n_members - 1) / meeting->n_members;
        return bytes;
    }
    for (uint32_t p = 0; p < meeting->n_parts; p++) {
        const struct pst_meet_part *part = &meeting->parts[p];
        const uint64_t n = part->elems * pst_meeting_size(meeting);

        bytes.added += meeting->kind == PST_MEET_SUM ? n : 0;
        bytes.copied += meeting->kind == PST_MEET_GATHER || part->owner == PST_NONE ? n : 0;
    }
    return bytes;
}

/* How many buffers of each part's size a member has. */
static inline uint32_t pst_meet_buffers(const struct pst_meeting *meeting, uint32_t part)
{
    return meeting->parts[part].src != NULL ? meeting->n_src + 1 : 1;
}

/*
 * For a transport whose ranks are processes started by a launcher. One thread of a process makes
 * these calls, and all processes make the collective ones in the same order. A wait ends early
 * when the run is aborted anywhere or when a process has not been heard of for the stall limit,
 * and for no other reason: other processes may compute for as long as they like.
 */
struct pst_transport_processes {
    /* Once, before everything else: finds the other processes. `transport` is what run.transport
       is, for messages. Errors: config.value (exit 2) where no launcher has started this one,
       run.device where the library fails, run.stalled where they do not come within the limit.
       *ret_n_ranks is 0 where it fails before they have met; else abort, settle and leave end
       them together. Settling allocates nothing: each has `room` bytes for it from then on. */
    pst_status (*join)(const char *transport, uint64_t stall_ns, uint64_t room, uint32_t *ret_rank,
                       uint32_t *ret_n_ranks, struct pst_error *err);
    const char *(*host)(uint32_t rank);
    /* The rank that join returned. */
    uint32_t (*rank)(void);
    /* Collective, with nothing under way: what this process must now add to its CLOCK_MONOTONIC to
       get that of rank 0, and by how much that may be off; UINT64_MAX: it could not be measured.
       Processes that read the same clock get 0 and 0. */
    pst_status (*clock)(int64_t *ret_ahead_ns, uint64_t *ret_uncertain_ns, struct pst_error *err);
    /* Collective: all[r * bytes] := what process r brought. */
    pst_status (*exchange)(const void *mine, void *all, uint64_t bytes, struct pst_error *err);
    /* Collective: what rank 0 has to all. */
    pst_status (*broadcast)(void *data, uint64_t bytes, struct pst_error *err);
    /* Ends the waits of all processes, here and above; the first error is kept. */
    void (*abort)(const struct pst_error *why);
    /* For a transport beside this one. waits: the rank waits for `peer`, UINT32_MAX: for none.
       stalled: makes the error run.stalled; `what` says what the rank waits for. Any thread. */
    void (*waits)(uint32_t peer);
    pst_status (*stalled)(uint32_t peer, const char *what, struct pst_error *err);
    /* The last exchange of a run, aborted or not, of at most the room of join: all[r * bytes] is
       what process r brought. limit_ns bounds it where it was aborted: of processes that do not
       come present[r] is false. Both stay until leave. */
    const void *(*settle)(const void *mine, uint64_t bytes, uint64_t limit_ns,
                          const bool **ret_present);
    /* Nothing may be called behind it; also of processes that have not met. Not `orderly`, or where
       the others do not come: ends all processes with this exit code, and may not return. */
    void (*leave)(int exit_code, bool orderly);
};

/* Calls of the table below, so that a transport can declare its own by type. */
typedef pst_status pst_transport_call_fn(struct pst_transport *transport, uint32_t rank,
                                         struct pst_error *err);
typedef pst_status pst_transport_post_fn(struct pst_transport *transport, uint32_t rank,
                                         uint32_t peer, bool is_send, uint64_t tag, void *data,
                                         uint64_t bytes, pst_request *ret_request);
typedef pst_status pst_transport_wait_fn(struct pst_transport *transport, uint32_t rank,
                                         pst_request request, struct pst_error *err);
typedef pst_status pst_transport_meet_fn(struct pst_transport *transport, uint32_t rank,
                                         const struct pst_meeting *meeting,
                                         pst_request *ret_request);

struct pst_transport_ops {
    uint32_t size;
    const char *id;
    bool takes_memory; /* open heeds config->memory */
    /* With config->memory: a post takes its place behind what the rank's device was asked for so
       far, and a wait returns once what the device is asked for from then on comes behind the
       transfer or sum; neither waits for the device. Otherwise posts are of buffers that are whole
       and wait returns when they have changed. */
    bool ordered;
    pst_status (*probe)(char *ret_why, size_t why_size); /* NULL: always PST_OK */
    pst_status (*open)(const struct pst_transport_config *config,
                       struct pst_transport **ret_transport, struct pst_error *err);
    void (*close)(struct pst_transport *transport);
    /* With config->memory: on the thread of each rank of this process, once its device is open and
       before anything is posted. NULL: there is nothing to do. */
    pst_transport_call_fn *attach;
    /* On the thread of each rank of this process, before its device is closed and once it posts no
       more, whether or not attach went well. From then on nothing reads or writes what is the
       device's, nor what memory->pinned gave; abort and close alone may follow.
       False: something still does (a kernel that spins, a library that hangs) and closing the
       device might wait for ever, so that it is to be left as it is. NULL: always true. */
    bool (*detach)(struct pst_transport *transport, uint32_t rank);
    /* Neither blocks nor allocates; a send does not write `data`. The buffer belongs to the
       transport until wait returns. A transport that is not ordered may copy what a device's memory
       holds, which that device ends at once; it allocates if that is more than memory->needs told
       of. */
    pst_transport_post_fn *post;
    /* Starts the posted transfers, as one group; a rank calls it before it does something else.
     * NULL: they start by themselves. */
    pst_transport_call_fn *flush;
    pst_transport_wait_fn *wait;
    /* values[n] := sum over all ranks; every rank calls it in the same order. Exact where at most
       one rank contributes a non-zero to an element. */
    pst_status (*sum)(struct pst_transport *transport, uint32_t rank, double *values, uint32_t n,
                      struct pst_error *err);
    /*
     * Posts a meeting. Blocks and allocates as post does; *meeting is copied, what it points to
     * belongs to the transport until wait returns. Meetings of one rank in a lane are a queue: each
     * begins once it is first in those of all its members, after the one before it has ended.
     * PST_ERR_BUG: the rank is no member, a term does not exist, too many are under way, or the
     * transport cannot add up that type or has no such lane (devices add f32 alone).
     */
    pst_transport_meet_fn *meet;
    /* Wakes every waiter with an error; the first caller's is kept. Where ranks are processes it is
       that of the rank itself; others get run.aborted with its message and its exit code. */
    void (*abort)(struct pst_transport *transport, uint32_t rank, const struct pst_error *why);
    /* Returns why the run ended, else PST_OK. With an ordered transport data after a wait is valid
       only if it returns PST_OK once the device has passed it. Any thread. NULL: waits fail. */
    pst_transport_call_fn *check;
    /* When the transfers of this rank's last wait or sum began to move (all ends had
       arrived), and when they ended; CLOCK_MONOTONIC, or with times the clock of the link. */
    void (*span)(const struct pst_transport *transport, uint32_t rank, uint64_t *ret_start_ns,
                 uint64_t *ret_end_ns);
    /* For an ordered transport with memory->timed: swaps the two marks given for those before and
       after the transfers of this rank's last wait. NULL: span() returns their times, as
       for other transports. */
    void (*swap)(struct pst_transport *transport, uint32_t rank, struct pst_mark **start,
                 struct pst_mark **end);
    /* NULL: all ranks are threads of one process, and open may be called at any time. Otherwise
       this process has the one rank that join told, and the calls above are for that. */
    const struct pst_transport_processes *processes;
};

typedef const struct pst_transport_ops *pst_transport_module_fn(void);
#define PST_TRANSPORT_MODULE_SYMBOL "pst_transport_module"

#endif
