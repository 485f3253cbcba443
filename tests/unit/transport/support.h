/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests that need the `threads` transport: loads the module of the build tree, and runs a
 * function as many ranks at once.
 */
#ifndef PST_TEST_TRANSPORT_SUPPORT_H
#define PST_TEST_TRANSPORT_SUPPORT_H

#include <pthread.h>

#include "module.h"
#include "random.h"

#define MAX_RANKS 8

#define post_send(ops, t, rank, to, tag, data, bytes, ret_request)                                 \
    (ops)->post(t, rank, to, true, tag, (void *)(uintptr_t)(data), bytes, ret_request)
#define post_recv(ops, t, rank, from, tag, data, bytes, ret_request)                               \
    (ops)->post(t, rank, from, false, tag, data, bytes, ret_request)

static inline const struct pst_transport_ops *load_threads(void)
{
    return load_transport(PENSTOCK_PLUGIN_DIR "/transport-threads.so");
}

static inline struct pst_transport *open_threads(const struct pst_transport_ops *ops,
                                                 uint32_t n_ranks, uint64_t stall_ns)
{
    struct pst_transport_config config = {.n_ranks = n_ranks,
                                          .max_requests = 64,
                                          .max_meetings = 8,
                                          .max_rows = 8,
                                          .stall_ns = stall_ns};
    struct pst_transport *transport = NULL;
    struct pst_error err = {0};

    assert_ok(ops->open(&config, &transport, &err), &err);
    return transport;
}

/* What one rank of a test sees. Checks on other threads than the main one record, not assert. */
struct ranked {
    const struct pst_transport_ops *ops;
    struct pst_transport *transport;
    uint32_t rank, n_ranks;
    uint32_t failures;
    pst_status status;
    struct pst_error err;
    void (*body)(struct ranked *self);
};

static struct ranked ran[MAX_RANKS]; /* the ranks of what ran last */

#define CHECK(self, condition) ((self)->failures += (condition) ? 0u : 1u)

static inline void *ranked_main(void *argument)
{
    struct ranked *self = argument;

    self->body(self);
    return NULL;
}

/* Runs body on n ranks of one transport, ran[] holds what they recorded; closes the transport. */
static inline void run_ranks(uint32_t n, uint64_t stall_ns, void (*body)(struct ranked *))
{
    const struct pst_transport_ops *ops = load_threads();
    struct pst_transport *transport = open_threads(ops, n, stall_ns);
    pthread_t threads[MAX_RANKS];

    for (uint32_t i = 0; i < n; i++) {
        ran[i] = (struct ranked){
            .ops = ops, .transport = transport, .rank = i, .n_ranks = n, .body = body};
        assert_int_equal(pthread_create(&threads[i], NULL, ranked_main, &ran[i]), 0);
    }
    for (uint32_t i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
    }
    ops->close(transport);
}

static inline void expect_none_failed(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (ran[i].failures != 0) {
            fail_msg("rank %u: %u failures, %s", i, ran[i].failures, ran[i].err.message);
        }
    }
}

/* The sum of parts in place. */
static inline struct pst_meeting sum_in_place(const uint32_t *members, uint32_t n,
                                              const struct pst_meet_part *parts, uint32_t n_parts)
{
    return (struct pst_meeting){.name = "sum over replicas",
                                .members = members,
                                .n_members = n,
                                .n_src = 1,
                                .parts = parts,
                                .n_parts = n_parts};
}

/* Posts the sum of terms in this order, and waits for it. */
static inline pst_status sum_in_order(const struct pst_transport_ops *ops,
                                      struct pst_transport *transport, uint32_t rank,
                                      const uint32_t *members, uint32_t n,
                                      const uint32_t (*order)[2], uint32_t n_order, uint32_t n_src,
                                      const struct pst_meet_part *part, struct pst_error *err)
{
    const struct pst_meeting meeting = {.name = "sum of a tied gradient",
                                        .members = members,
                                        .n_members = n,
                                        .n_src = n_src,
                                        .parts = part,
                                        .n_parts = 1,
                                        .order = order,
                                        .n_order = n_order};
    pst_request request;
    pst_status status = ops->meet(transport, rank, &meeting, &request);

    return status == PST_OK ? ops->wait(transport, rank, request, err) : status;
}

#endif
