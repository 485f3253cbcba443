/* SPDX-License-Identifier: Apache-2.0
 *
 * Sleeping, waking and leaving. A hand-over through a condition variable costs 5 us, in a virtual
 * machine whose core has gone to rest ten times that, through a spinning reader less than one; so a
 * rank that has a core of its own looks for a while first. Where others want that core, though, to
 * look is to lose it when it is needed: a rank that was interrupted while it looked sleeps soon, in
 * the next waits, too.
 */
#include "transport/threads/threads.h"

#include <stdio.h>

#include "base/spin_pause.h"

#define LOOKS 32u /* between two looks at the clock, which take a microsecond or two */

#define INTERRUPTED_NS 30000u /* between them: something else ran */
#define BRIEF_NS       40000u
#define BRIEF_WAITS    64u

static bool aborted(const struct pst_transport *transport)
{
    return atomic_load_explicit(&transport->aborted, memory_order_acquire);
}

static struct sleeper sleeper_of(struct pst_transport *transport, uint32_t rank)
{
    struct rank *self = &transport->ranks[rank];

    return (struct sleeper){&self->mutex, &self->wake, &transport->aborted, &self->poked};
}

void threads_poke(struct pst_transport *transport, uint32_t rank)
{
    struct rank *other = &transport->ranks[rank];

    pthread_mutex_lock(&other->mutex);
    other->poked = true;
    pthread_cond_signal(&other->wake);
    pthread_mutex_unlock(&other->mutex);
}

enum outcome threads_await_due(struct pst_transport *transport, uint32_t rank,
                               const atomic_uint *word, uint32_t target, uint64_t begin_ns,
                               uint64_t due_ns)
{
    const struct sleeper sleeper = sleeper_of(transport, rank);

    return stall_sleep(&sleeper, word, target, begin_ns, transport->stall_ns, due_ns);
}

/* Looks for a while; false where that was in vain. */
static bool look_for(const struct pst_transport *transport, struct rank *self,
                     const atomic_uint *word, uint32_t target, uint64_t begin)
{
    uint64_t patience = transport->spin_ns, last = begin, now;

    if (self->brief > 0) {
        self->brief--;
        patience = patience < BRIEF_NS ? patience : BRIEF_NS;
    }
    do {
        for (uint32_t i = 0; i < LOOKS; i++) {
            if (stall_reached(word, target)) {
                return true;
            }
            pst_spin_pause();
        }
        now = pst_now_ns();
        if (now - last > INTERRUPTED_NS) {
            self->brief = BRIEF_WAITS;
            break;
        }
        last = now;
    } while (now - begin < patience);
    return stall_reached(word, target);
}

enum outcome threads_await(struct pst_transport *transport, uint32_t rank, const atomic_uint *word,
                           uint32_t target)
{
    uint64_t begin = pst_now_ns();
    enum outcome outcome;

    if (look_for(transport, &transport->ranks[rank], word, target, begin)) {
        return OUTCOME_REACHED;
    }
    do {
        outcome = threads_await_due(transport, rank, word, target, begin, UINT64_MAX);
    } while (outcome == OUTCOME_DUE);
    return outcome;
}

void threads_publish(struct pst_transport *transport, uint32_t rank, atomic_uint *word,
                     uint32_t value)
{
    const struct sleeper sleeper = sleeper_of(transport, rank);

    stall_publish(&sleeper, word, value);
}

void threads_abort(struct pst_transport *transport, uint32_t rank, const struct pst_error *why)
{
    pthread_mutex_lock(&transport->abort_mutex);
    if (!aborted(transport)) {
        transport->abort_rank = rank;
        snprintf(transport->abort_text, sizeof transport->abort_text, "%.511s", why->message);
        atomic_store_explicit(&transport->aborted, true, memory_order_release);
    }
    pthread_mutex_unlock(&transport->abort_mutex);
    for (uint32_t i = 0; i < transport->n_ranks; i++) {
        struct rank *other = &transport->ranks[i];

        pthread_mutex_lock(&other->mutex);
        pthread_cond_signal(&other->wake);
        pthread_mutex_unlock(&other->mutex);
    }
}

pst_status threads_fail_aborted(const struct pst_transport *transport, struct pst_error *err)
{
    return stall_fail_aborted(transport->abort_rank, transport->abort_text, err);
}
