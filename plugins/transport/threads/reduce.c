/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over replicas. A post returns at once; each rank's posts are a queue, and a sum begins when
 * it is at the head of every member's. Whoever waits for it then takes pieces of it until none is
 * left, so a member that has better things to do holds up nobody. An element is summed by one
 * thread in the order of the members and written into all their buffers: the bits depend neither on
 * who does it nor on the pieces, and no scratch is needed.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "transport/common/inorder.h"
#include "transport/threads/reduce.h"

void threads_reduce_init(struct pst_transport *transport)
{
    size_t n_ranks = transport->n_ranks, each = transport->max_reductions;
    struct reduce *reduce = pst_alloc(1, sizeof *reduce);

    transport->reduce = reduce;
    if (pthread_mutex_init(&reduce->mutex, NULL) != 0) {
        pst_out_of_memory();
    }
    reduce->ranks = pst_alloc(n_ranks, sizeof *reduce->ranks);
    reduce->meetings = pst_alloc(n_ranks * each + 1, sizeof *reduce->meetings);
    requests_fill(&reduce->free, reduce->meetings, n_ranks * each, sizeof *reduce->meetings);
    for (size_t r = 0; r < n_ranks; r++) {
        struct reduce_rank *rank = &reduce->ranks[r];

        rank->posts = pst_alloc(each + 1, sizeof *rank->posts);
        requests_fill(&rank->free, rank->posts, each, sizeof *rank->posts);
        for (size_t i = 0; i < each; i++) {
            rank->posts[i].rank = (uint32_t)r;
        }
    }
}

void threads_reduce_finish(struct pst_transport *transport)
{
    struct reduce *reduce = transport->reduce;

    for (uint32_t r = 0; r < transport->n_ranks; r++) {
        free(reduce->ranks[r].posts);
    }
    pthread_mutex_destroy(&reduce->mutex);
    free(reduce->ranks);
    free(reduce->meetings);
    free(reduce);
}

/* --- meeting -----------------------------------------------------------------------------------*/

#define BLOCK 1024         /* floats summed at a time: stays in the first-level cache */
#define PIECE (64 * BLOCK) /* floats that one thread takes at a time */

static bool same_sizes(const struct post *a, const struct post *b)
{
    if (a->n_parts != b->n_parts) {
        return false;
    }
    for (uint32_t i = 0; i < a->n_parts; i++) {
        if (a->parts[i].elems != b->parts[i].elems) {
            return false;
        }
    }
    return true;
}

/* Links the posts of all members, if each has this sum at its head; NULL: not yet. */
static struct post *gather(const struct reduce *reduce, const struct post *post, bool *ret_fits)
{
    struct post *first = NULL, *last = NULL;

    *ret_fits = true;
    for (uint32_t i = 0; i < post->n_members; i++) {
        struct post *head = (struct post *)reduce->ranks[post->members[i]].queue.first;

        if (head == NULL || head->n_members != post->n_members ||
            memcmp(head->members, post->members, post->n_members * sizeof *post->members) != 0) {
            return NULL;
        }
        *ret_fits = *ret_fits && same_sizes(post, head);
        head->after = NULL;
        if (last == NULL) {
            first = head;
        } else {
            last->after = head;
        }
        last = head;
    }
    return first;
}

static void time_sum(struct pst_transport *transport, struct meeting *meeting)
{
    const struct pst_transport_times *times = &transport->times;
    const struct post *first = meeting->first;
    uint64_t start = 0, bytes = 0;

    if (!transport->timed) {
        meeting->start_ns = meeting->end_ns = pst_now_ns(); /* the end of a sum of nothing */
        return;
    }
    for (const struct post *post = first; post != NULL; post = post->after) {
        uint64_t free_ns = transport->reduce->ranks[post->rank].free_ns;

        start = post->posted_ns > start ? post->posted_ns : start;
        start = free_ns > start ? free_ns : start;
    }
    for (uint32_t i = 0; i < first->n_parts; i++) {
        bytes += first->parts[i].elems * sizeof(float);
    }
    meeting->start_ns = start;
    meeting->end_ns =
        start + times->collective_ns(times->context, bytes, first->members, first->n_members);
    for (const struct post *post = first; post != NULL; post = post->after) {
        transport->reduce->ranks[post->rank].free_ns = meeting->end_ns;
    }
}

static uint64_t pieces_of(const struct pst_reduce_part *part)
{
    return (part->elems + PIECE - 1) / PIECE;
}

/* All members of the post at a rank's head are there: it begins. False: they are not. */
static bool begin(struct pst_transport *transport, uint32_t rank)
{
    struct reduce *reduce = transport->reduce;
    const struct post *head = (const struct post *)reduce->ranks[rank].queue.first;
    struct meeting *meeting;
    struct post *first;
    uint32_t state = REQUEST_MOVING;
    bool fits;

    first = head != NULL ? gather(reduce, head, &fits) : NULL;
    if (first == NULL) {
        return false;
    }
    meeting = requests_pop(&reduce->free);
    PST_ASSERT(meeting != NULL); /* as many as posts */
    meeting->first = first;
    meeting->n_left = first->n_members;
    meeting->n_pieces = 0;
    atomic_store_explicit(&meeting->taken, 0, memory_order_relaxed);
    atomic_store_explicit(&meeting->done, 0, memory_order_relaxed);
    if (!fits) {
        state = REQUEST_BAD;
    } else {
        time_sum(transport, meeting);
        for (uint32_t i = 0; i < first->n_parts && !transport->hollow && !transport->apart; i++) {
            meeting->n_pieces += pieces_of(&first->parts[i]);
        }
        if (transport->apart) {
            threads_order_sum(transport, first);
        }
        state = meeting->n_pieces == 0 ? REQUEST_DONE : REQUEST_MOVING;
    }
    for (struct post *post = first; post != NULL; post = post->after) {
        requests_shift(&reduce->ranks[post->rank].queue);
        post->meeting = meeting;
        threads_publish(transport, post->rank, &post->state, state);
    }
    return true;
}

/* Begins the rank's first sum, then those of all ranks that can begin now. */
static void begin_all(struct pst_transport *transport, uint32_t rank)
{
    bool any = begin(transport, rank);

    while (any) {
        any = false;
        for (uint32_t r = 0; r < transport->n_ranks; r++) {
            any = begin(transport, r) || any;
        }
    }
}

pst_status threads_all_reduce(struct pst_transport *transport, uint32_t rank,
                              const uint32_t *members, uint32_t n_members,
                              const struct pst_reduce_part *parts, uint32_t n_parts,
                              pst_request *ret_request)
{
    struct reduce *reduce = transport->reduce;
    struct reduce_rank *self = &reduce->ranks[rank];
    struct post *post;

    if (atomic_load_explicit(&transport->aborted, memory_order_acquire)) {
        return PST_ERR_CANCELLED;
    }
    for (uint32_t i = 0; i < n_members; i++) {
        if (members[i] >= transport->n_ranks) {
            return PST_ERR_BUG;
        }
    }
    post =
        inorder_position(members, n_members, rank) < n_members ? requests_pop(&self->free) : NULL;
    if (post == NULL) {
        return PST_ERR_BUG;
    }
    post->members = members;
    post->n_members = n_members;
    post->parts = parts;
    post->n_parts = n_parts;
    post->meeting = NULL;
    post->posted_ns = transport->timed ? threads_clock(transport, rank) : 0;
    atomic_store_explicit(&post->state, REQUEST_POSTED, memory_order_relaxed);
    if (transport->apart) {
        threads_order_mark(transport, rank, post->begin);
    }
    *ret_request = transport->max_requests + (pst_request)(post - self->posts);
    pthread_mutex_lock(&reduce->mutex);
    requests_append(&self->queue, post);
    begin_all(transport, rank);
    pthread_mutex_unlock(&reduce->mutex);
    return PST_OK;
}

/* --- the sum -----------------------------------------------------------------------------------*/

static void sum_block(const struct meeting *meeting, uint32_t part, uint64_t at, uint64_t n)
{
    float sum[BLOCK];

    for (const struct post *post = meeting->first; post != NULL; post = post->after) {
        inorder_add(sum, post->parts[part].data + at, post != meeting->first, n, sizeof *sum);
    }
    for (const struct post *post = meeting->first; post != NULL; post = post->after) {
        memcpy(post->parts[part].data + at, sum, n * sizeof *sum);
    }
}

static void sum_piece(const struct meeting *meeting, uint64_t piece)
{
    const struct pst_reduce_part *part = meeting->first->parts;
    uint64_t begin, end;
    uint32_t index = 0;

    for (; piece >= pieces_of(&part[index]); index++) {
        piece -= pieces_of(&part[index]);
    }
    begin = piece * PIECE;
    end = part[index].elems - begin < PIECE ? part[index].elems : begin + PIECE;
    for (uint64_t at = begin; at < end; at += BLOCK) {
        sum_block(meeting, index, at, end - at < BLOCK ? end - at : BLOCK);
    }
}

/* Takes pieces until none is left. Who ends the last one tells everybody. */
static void help(struct pst_transport *transport, struct meeting *meeting)
{
    uint64_t n = meeting->n_pieces, piece;

    while ((piece = atomic_fetch_add_explicit(&meeting->taken, 1, memory_order_relaxed)) < n) {
        sum_piece(meeting, piece);
        if (atomic_fetch_add_explicit(&meeting->done, 1, memory_order_acq_rel) + 1 < n) {
            continue;
        }
        if (!transport->timed) {
            meeting->end_ns = pst_now_ns();
        }
        pthread_mutex_lock(&transport->reduce->mutex); /* all have been told that it began */
        for (struct post *post = meeting->first; post != NULL; post = post->after) {
            threads_publish(transport, post->rank, &post->state, REQUEST_DONE);
        }
        pthread_mutex_unlock(&transport->reduce->mutex);
    }
}

/* Takes a post back; false: it has begun. */
static bool withdraw(struct pst_transport *transport, struct post *post)
{
    struct reduce_rank *self = &transport->reduce->ranks[post->rank];
    bool found;

    pthread_mutex_lock(&transport->reduce->mutex);
    found = requests_remove(&self->queue, post);
    pthread_mutex_unlock(&transport->reduce->mutex);
    return found;
}

static void leave(struct pst_transport *transport, struct post *post)
{
    struct reduce *reduce = transport->reduce;
    struct reduce_rank *self = &reduce->ranks[post->rank];
    struct meeting *meeting = post->meeting;

    pthread_mutex_lock(&reduce->mutex);
    if (meeting != NULL && --meeting->n_left == 0) {
        requests_push(&reduce->free, meeting);
    }
    pthread_mutex_unlock(&reduce->mutex);
    atomic_store_explicit(&post->state, REQUEST_FREE, memory_order_relaxed);
    requests_push(&self->free, post);
}

static pst_status finish(struct pst_transport *transport, uint32_t rank, struct post *post,
                         struct pst_error *err)
{
    struct rank *self = &transport->ranks[rank];

    if (atomic_load_explicit(&post->state, memory_order_acquire) == REQUEST_BAD) {
        return pst_fail(err, PST_ERR_BUG, "transport.size",
                        "rank %u adds up other gradients than the other %u replicas", rank,
                        post->n_members - 1);
    }
    self->start_ns = post->meeting->start_ns;
    self->end_ns = post->meeting->end_ns;
    if (transport->apart) {
        threads_order_follow(transport, rank, post->end);
        threads_order_moved(transport, rank, &post->start, &post->end);
    }
    if (transport->timed) {
        threads_advance(transport, rank, self->end_ns);
    }
    return PST_OK;
}

/* It has begun: it ends by itself, whatever becomes of the run. */
static void await_end(struct pst_transport *transport, struct post *post)
{
    if (atomic_load_explicit(&post->state, memory_order_acquire) == REQUEST_MOVING) {
        help(transport, post->meeting);
    }
    while (atomic_load_explicit(&post->state, memory_order_acquire) < REQUEST_DONE) {
        if (threads_await(transport, post->rank, &post->state, REQUEST_DONE) != OUTCOME_REACHED) {
            sched_yield();
        }
    }
}

pst_status threads_reduce_wait(struct pst_transport *transport, uint32_t rank, pst_request id,
                               struct pst_error *err)
{
    struct post *post = &transport->reduce->ranks[rank].posts[id];
    enum outcome outcome;
    pst_status status;

    if (id >= transport->max_reductions ||
        atomic_load_explicit(&post->state, memory_order_relaxed) == REQUEST_FREE) {
        return stall_fail_request(rank, "sum", id, err);
    }
    outcome = threads_await_serving(transport, rank, &post->state, REQUEST_MOVING);
    if (outcome != OUTCOME_REACHED && withdraw(transport, post)) {
        status = outcome == OUTCOME_ABORTED
                     ? threads_fail_aborted(transport, err)
                     : stall_fail_waited(rank, transport->stall_ns, err, "for a sum of %u ranks",
                                         post->n_members);
    } else {
        await_end(transport, post);
        status = finish(transport, rank, post, err);
    }
    leave(transport, post);
    return status;
}
