/* SPDX-License-Identifier: Apache-2.0
 *
 * Meetings of ranks. A post returns at once; each rank's posts of a lane are a queue, and a sum
 * begins when it is at the head of every member's. Whoever waits for it then takes pieces of it
 * until none is left, so a member that has better things to do holds up nobody. An element is
 * summed by one thread in the order of its terms and written into the results of those who get it:
 * the bits depend neither on who does it nor on the pieces, and no scratch is needed. A gather and
 * an exchange are the same without the sum.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "transport/common/inorder.h"
#include "transport/threads/meet.h"

void threads_meet_init(struct pst_transport *transport)
{
    size_t n_ranks = transport->n_ranks, n_sums = transport->max_meetings;
    size_t each = threads_n_posts(transport);
    struct meet *meet = pst_alloc(1, sizeof *meet);

    transport->meet = meet;
    if (pthread_mutex_init(&meet->mutex, NULL) != 0) {
        pst_out_of_memory();
    }
    meet->ranks = pst_alloc(n_ranks, sizeof *meet->ranks);
    meet->gatherings = pst_alloc(n_ranks * each, sizeof *meet->gatherings);
    requests_fill(&meet->free, meet->gatherings, n_ranks * each, sizeof *meet->gatherings);
    for (size_t r = 0; r < n_ranks; r++) {
        struct meet_rank *rank = &meet->ranks[r];

        rank->posts = pst_alloc(each, sizeof *rank->posts);
        requests_fill(&rank->lanes[PST_MEET_SUMS].free, rank->posts, n_sums, sizeof *rank->posts);
        requests_push(&rank->lanes[PST_MEET_PARTS].free, &rank->posts[n_sums]);
        requests_fill(&rank->lanes[PST_MEET_ROWS].free, &rank->posts[n_sums + 1],
                      transport->max_rows, sizeof *rank->posts);
        for (size_t i = 0; i < each; i++) {
            rank->posts[i].rank = (uint32_t)r;
        }
    }
}

void threads_meet_finish(struct pst_transport *transport)
{
    struct meet *meet = transport->meet;

    for (uint32_t r = 0; r < transport->n_ranks; r++) {
        free(meet->ranks[r].posts);
    }
    pthread_mutex_destroy(&meet->mutex);
    free(meet->ranks);
    free(meet->gatherings);
    free(meet);
}

/* --- gathering ---------------------------------------------------------------------------------*/

#define BLOCK 4096         /* bytes summed at a time: stays in the first-level cache */
#define PIECE (64 * BLOCK) /* bytes that one thread takes at a time */

static bool same_members(const struct pst_meeting *a, const struct pst_meeting *b)
{
    return a->n_members == b->n_members &&
           memcmp(a->members, b->members, a->n_members * sizeof *a->members) == 0;
}

/* Do two members mean the same? They are of one lane. */
static bool same_meeting(const struct pst_meeting *a, const struct pst_meeting *b)
{
    if (a->kind != b->kind || a->n_parts != b->n_parts || a->n_order != b->n_order ||
        !a->order != !b->order || (a->kind == PST_MEET_SUM && a->dtype != b->dtype)) {
        return false;
    }
    for (uint32_t i = 0; i < a->n_parts; i++) {
        if (!inorder_same_part(a, &a->parts[i], &b->parts[i])) {
            return false;
        }
    }
    return a->order == NULL || memcmp(a->order, b->order, a->n_order * sizeof *a->order) == 0;
}

/* The post of a rank that is next in a lane, or NULL. Under the mutex. */
static struct post *head_of(const struct meet *meet, uint32_t rank, uint32_t lane)
{
    return (struct post *)meet->ranks[rank].lanes[lane].queue.first;
}

/* Links the posts of all members, if each has this sum at its head; NULL: not yet. *ret_unlike: one
   that brings something else than `post`; or NULL. */
static struct post *gather(const struct meet *meet, const struct post *post,
                           const struct post **ret_unlike)
{
    const struct pst_meeting *meeting = &post->meeting;
    struct post *first = NULL, *last = NULL;

    *ret_unlike = NULL;
    for (uint32_t i = 0; i < meeting->n_members; i++) {
        struct post *head = head_of(meet, meeting->members[i], meeting->lane);

        if (head == NULL || !same_members(&head->meeting, meeting)) {
            return NULL;
        }
        *ret_unlike = same_meeting(meeting, &head->meeting) ? *ret_unlike : head;
        head->after = NULL;
        *(last == NULL ? &first : &last->after) = head;
        last = head;
    }
    return first;
}

static void time_sum(struct pst_transport *transport, struct gathering *gathering)
{
    const struct pst_transport_times *times = &transport->times;
    const struct post *first = gathering->first;
    const struct pst_meeting *meeting = &first->meeting;
    uint64_t start = 0;

    if (!transport->timed) {
        gathering->start_ns = gathering->end_ns = pst_now_ns(); /* the end of a sum of nothing */
        return;
    }
    for (const struct post *post = first; post != NULL; post = post->after) {
        uint64_t free_ns = transport->meet->ranks[post->rank].lanes[meeting->lane].free_ns;

        start = post->posted_ns > start ? post->posted_ns : start;
        start = free_ns > start ? free_ns : start;
    }
    gathering->start_ns = start;
    gathering->end_ns = start + times->meeting_ns(times->context, pst_meeting_bytes(meeting),
                                                  meeting->members, meeting->n_members);
    for (const struct post *post = first; post != NULL; post = post->after) {
        transport->meet->ranks[post->rank].lanes[meeting->lane].free_ns = gathering->end_ns;
    }
}

static uint64_t bytes_of(const struct pst_meeting *meeting, uint32_t part)
{
    return meeting->parts[part].elems * pst_meeting_size(meeting);
}

static uint64_t pieces_of(const struct pst_meeting *meeting, uint32_t part)
{
    return (bytes_of(meeting, part) + PIECE - 1) / PIECE;
}

static struct gathering *take_gathering(struct meet *meet, struct post *first)
{
    struct gathering *gathering = requests_pop(&meet->free);

    PST_ASSERT(gathering != NULL); /* as many as posts */
    gathering->first = first;
    gathering->n_left = first->meeting.n_members;
    gathering->n_pieces = 0;
    atomic_store_explicit(&gathering->taken, 0, memory_order_relaxed);
    atomic_store_explicit(&gathering->done, 0, memory_order_relaxed);
    return gathering;
}

static void note_unlike(struct gathering *gathering, uint32_t which, const struct post *post)
{
    gathering->unlike[which].rank = post->rank;
    gathering->unlike[which].n_terms = inorder_terms(&post->meeting);
    gathering->unlike[which].elems = pst_meeting_elems(&post->meeting);
}

/* Returns the state of its posts. */
static uint32_t start_sum(struct pst_transport *transport, struct gathering *gathering)
{
    const struct pst_meeting *meeting = &gathering->first->meeting;

    time_sum(transport, gathering);
    if (transport->apart) {
        threads_order_sum(transport, gathering->first);
    }
    for (uint32_t i = 0; i < meeting->n_parts && !transport->hollow && !transport->apart; i++) {
        gathering->n_pieces += pieces_of(meeting, i);
    }
    return gathering->n_pieces == 0 ? REQUEST_DONE : REQUEST_MOVING;
}

/* All members of the post at a rank's head are there: it begins. False: they are not. */
static bool begin(struct pst_transport *transport, uint32_t rank, uint32_t lane)
{
    struct meet *meet = transport->meet;
    const struct post *head = head_of(meet, rank, lane), *unlike;
    struct post *first = head != NULL ? gather(meet, head, &unlike) : NULL;
    struct gathering *gathering;
    uint32_t state = REQUEST_BAD;

    if (first == NULL) {
        return false;
    }
    gathering = take_gathering(meet, first);
    if (unlike != NULL) {
        note_unlike(gathering, head->rank > unlike->rank, head);
        note_unlike(gathering, head->rank < unlike->rank, unlike);
    } else {
        state = start_sum(transport, gathering);
    }
    for (struct post *post = first; post != NULL; post = post->after) {
        requests_shift(&meet->ranks[post->rank].lanes[lane].queue);
        post->gathering = gathering;
        threads_publish(transport, post->rank, &post->state, state);
    }
    return true;
}

/* Begins the rank's first sum, then those of all ranks that can begin now. */
static void begin_all(struct pst_transport *transport, uint32_t rank, uint32_t lane)
{
    bool any = begin(transport, rank, lane);

    while (any) {
        any = false;
        for (uint32_t r = 0; r < transport->n_ranks; r++) {
            any = begin(transport, r, lane) || any;
        }
    }
}

pst_status threads_meet(struct pst_transport *transport, uint32_t rank,
                        const struct pst_meeting *meeting, pst_request *ret_request)
{
    struct meet *meet = transport->meet;
    struct meet_rank *self = &meet->ranks[rank];
    struct post *post = NULL;
    uint32_t me;

    if (atomic_load_explicit(&transport->aborted, memory_order_acquire)) {
        return PST_ERR_CANCELLED;
    }
    if (inorder_takes(meeting, rank, transport->n_ranks, &me) &&
        (!transport->apart || inorder_is_f32(meeting))) { /* its device adds nothing else */
        post = requests_pop(&self->lanes[meeting->lane].free);
    }
    if (post == NULL) {
        return PST_ERR_BUG;
    }
    post->meeting = *meeting;
    post->gathering = NULL;
    post->posted_ns = transport->timed ? threads_clock(transport, rank) : 0;
    atomic_store_explicit(&post->state, REQUEST_POSTED, memory_order_relaxed);
    if (transport->apart) {
        threads_order_mark(transport, rank, post->begin);
    }
    *ret_request = transport->max_requests + (pst_request)(post - self->posts);
    pthread_mutex_lock(&meet->mutex);
    requests_append(&self->lanes[meeting->lane].queue, post);
    begin_all(transport, rank, meeting->lane);
    pthread_mutex_unlock(&meet->mutex);
    return PST_OK;
}

/* --- the sum -----------------------------------------------------------------------------------*/

static const struct post *post_at(const struct post *first, uint32_t member)
{
    for (; member > 0; member--) {
        first = first->after;
    }
    return first;
}

const struct post *threads_post_of(const struct post *first, uint32_t term)
{
    return post_at(first, inorder_member(&first->meeting, term));
}

/* Adds two terms straight into one or two results, of which each may be a term. */
static void add_two(const float *a, const float *b, float *const *results, uint32_t n_results,
                    uint64_t n)
{
    float *one = results[0], *other = results[n_results - 1];

#ifndef __clang__
#pragma GCC ivdep
#endif
    for (uint64_t i = 0; i < n; i++) {
        const float sum = a[i] + b[i];

        one[i] = sum;
        other[i] = sum;
    }
}

/* Sums bytes of a part of two members and two terms in f32. Returns false if it has others. */
static bool sum_two(const struct post *first, uint32_t part, uint64_t at, uint64_t n)
{
    const struct pst_meeting *meeting = &first->meeting;
    const float *terms[2];
    float *results[2];
    uint32_t n_results = 0, member = 0;

    if (meeting->kind != PST_MEET_SUM || meeting->dtype != PST_F32 || inorder_terms(meeting) != 2 ||
        meeting->n_members != 2) {
        return false;
    }
    for (uint32_t t = 0; t < 2; t++) {
        const struct pst_meet_part *from = &threads_post_of(first, t)->meeting.parts[part];
        const char *term = inorder_brought(from, inorder_source(meeting, t));

        terms[t] = (const float *)(term + at);
    }
    for (const struct post *post = first; post != NULL; post = post->after) {
        if (inorder_gets(meeting, part, member++)) {
            results[n_results++] = (float *)((char *)post->meeting.parts[part].dst + at);
        }
    }
    add_two(terms[0], terms[1], results, n_results, n / sizeof(float));
    return true;
}

/* Bytes [at, at + n) of a part. */
static void sum_block(const struct post *first, uint32_t part, uint64_t at, uint64_t n)
{
    const struct pst_meeting *meeting = &first->meeting;
    const uint32_t n_terms = inorder_terms(meeting);
    double sum[2 * BLOCK / sizeof(double)]; /* wide elements: at most twice as many bytes */
    const char *result = (const char *)sum;
    uint32_t member = 0;

    if (sum_two(first, part, at, n)) {
        return;
    }
    for (uint32_t t = 0; t < n_terms; t++) {
        const struct pst_meet_part *from = &threads_post_of(first, t)->meeting.parts[part];
        const char *term = inorder_brought(from, inorder_source(meeting, t));

        inorder_add(sum, term + at, t, n_terms, n / pst_meeting_size(meeting), meeting->dtype);
    }
    if (meeting->kind != PST_MEET_SUM) {
        const struct post *owner = post_at(first, meeting->parts[part].owner);

        result = (const char *)inorder_brought(&owner->meeting.parts[part], 0) + at;
    }
    for (const struct post *post = first; post != NULL; post = post->after) {
        if (inorder_gets(meeting, part, member++)) {
            memcpy((char *)post->meeting.parts[part].dst + at, result, n);
        }
    }
}

/* Where a thread's last piece was: its next one is after that. */
struct place {
    uint32_t part;
    uint64_t first; /* the part's first piece */
};

static void sum_piece(const struct gathering *gathering, uint64_t piece, struct place *place)
{
    const struct pst_meeting *meeting = &gathering->first->meeting;
    uint64_t begin, end;
    uint32_t part;

    while (piece - place->first >= pieces_of(meeting, place->part)) {
        place->first += pieces_of(meeting, place->part++);
    }
    part = place->part;
    begin = (piece - place->first) * PIECE;
    end = bytes_of(meeting, part) - begin < PIECE ? bytes_of(meeting, part) : begin + PIECE;
    for (uint64_t at = begin; at < end; at += BLOCK) {
        sum_block(gathering->first, part, at, end - at < BLOCK ? end - at : BLOCK);
    }
}

/* Takes pieces until none is left. Who ends the last one tells everybody. */
static void help(struct pst_transport *transport, struct gathering *gathering)
{
    uint64_t n = gathering->n_pieces, piece;
    struct place place = {0, 0};

    while ((piece = atomic_fetch_add_explicit(&gathering->taken, 1, memory_order_relaxed)) < n) {
        sum_piece(gathering, piece, &place);
        if (atomic_fetch_add_explicit(&gathering->done, 1, memory_order_acq_rel) + 1 < n) {
            continue;
        }
        if (!transport->timed) {
            gathering->end_ns = pst_now_ns();
        }
        pthread_mutex_lock(&transport->meet->mutex); /* all have been told that it began */
        for (struct post *post = gathering->first; post != NULL; post = post->after) {
            threads_publish(transport, post->rank, &post->state, REQUEST_DONE);
        }
        pthread_mutex_unlock(&transport->meet->mutex);
    }
}

/* The first member that has posted nothing, or if all have, the first whose next meeting is another
   one. Under the mutex. */
static uint32_t find_missing(const struct meet *meet, const struct post *post)
{
    const struct pst_meeting *meeting = &post->meeting;
    uint32_t other = post->rank;

    for (uint32_t m = 0; m < meeting->n_members; m++) {
        const struct post *head = head_of(meet, meeting->members[m], meeting->lane);

        if (head == NULL) {
            return meeting->members[m];
        }
        if (other == post->rank && !same_members(&head->meeting, meeting)) {
            other = meeting->members[m];
        }
    }
    return other;
}

/* Removes a post from its queue; false if it has begun. *ret_missing: who has not posted. */
static bool withdraw(struct pst_transport *transport, struct post *post, uint32_t *ret_missing)
{
    struct meet *meet = transport->meet;
    bool found;

    pthread_mutex_lock(&meet->mutex);
    *ret_missing = find_missing(meet, post);
    found = requests_remove(&meet->ranks[post->rank].lanes[post->meeting.lane].queue, post);
    pthread_mutex_unlock(&meet->mutex);
    return found;
}

static void leave(struct pst_transport *transport, struct post *post)
{
    struct meet *meet = transport->meet;
    struct meet_rank *self = &meet->ranks[post->rank];
    struct gathering *gathering = post->gathering;

    pthread_mutex_lock(&meet->mutex);
    if (gathering != NULL && --gathering->n_left == 0) {
        requests_push(&meet->free, gathering);
    }
    pthread_mutex_unlock(&meet->mutex);
    atomic_store_explicit(&post->state, REQUEST_FREE, memory_order_relaxed);
    requests_push(&self->lanes[post->meeting.lane].free, post);
}

static pst_status finish(struct pst_transport *transport, uint32_t rank, struct post *post,
                         struct pst_error *err)
{
    struct rank *self = &transport->ranks[rank];

    const struct gathering *met = post->gathering;

    if (atomic_load_explicit(&post->state, memory_order_acquire) == REQUEST_BAD) {
        return inorder_fail_sizes(post->meeting.name, met->unlike[0].rank, met->unlike[0].elems,
                                  met->unlike[0].n_terms, met->unlike[1].rank, met->unlike[1].elems,
                                  met->unlike[1].n_terms, err);
    }
    self->start_ns = met->start_ns;
    self->end_ns = met->end_ns;
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
        help(transport, post->gathering);
    }
    while (atomic_load_explicit(&post->state, memory_order_acquire) < REQUEST_DONE) {
        if (threads_await(transport, post->rank, &post->state, REQUEST_DONE) != OUTCOME_REACHED) {
            sched_yield();
        }
    }
}

pst_status threads_meet_wait(struct pst_transport *transport, uint32_t rank, pst_request id,
                             struct pst_error *err)
{
    struct post *post = &transport->meet->ranks[rank].posts[id];
    uint32_t missing;
    enum outcome outcome;
    pst_status status;

    if (id >= threads_n_posts(transport) ||
        atomic_load_explicit(&post->state, memory_order_relaxed) == REQUEST_FREE) {
        return stall_fail_request(rank, "meeting", id, err);
    }
    outcome = threads_await_serving(transport, rank, &post->state, REQUEST_MOVING);
    if (outcome == OUTCOME_REACHED || !withdraw(transport, post, &missing)) {
        await_end(transport, post);
        status = finish(transport, rank, post, err);
    } else if (outcome == OUTCOME_ABORTED) {
        status = threads_fail_aborted(transport, err);
    } else {
        status =
            stall_fail_waited(rank, transport->stall_ns, err, "for rank %u in a %s among %u ranks",
                              missing, post->meeting.name, post->meeting.n_members);
    }
    leave(transport, post);
    return status;
}
