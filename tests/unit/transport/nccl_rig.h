/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks of the nccl transport over its double (tests/nccl): each with a compute stream that works
 * by itself, so that nothing is in order that was not put there.
 */
#ifndef PST_TEST_TRANSPORT_NCCL_RIG_H
#define PST_TEST_TRANSPORT_NCCL_RIG_H

#include <stdio.h>

#include "nccl/fake.h"
#include "unit/transport/support.h"

#define NCCL_MODULE PENSTOCK_PLUGIN_DIR "/tests/transport-nccl-on-host.so"

#define STALL_NS UINT64_C(20000000000)
#define SHORT_NS UINT64_C(400000000)

static const struct fake_faults no_faults = {.polls = 3, .vanished = -1, .failing = -1};

static struct fake_nccl *nccl_fake;
static cudaStream_t nccl_streams[MAX_RANKS];
static bool nccl_let_go[MAX_RANKS]; /* what detach said */
static bool nccl_edges;             /* config.edges of what is run */
static uint32_t nccl_requests = 64;
/* What ranks say that all their transfers name: everything, where set. */
static bool nccl_regions;
/* config.meets of what is run. */
static uint32_t (*nccl_meet)(void *context, uint32_t rank, uint32_t other);
static char nccl_notes[16][200];
static atomic_uint nccl_n_notes;

static inline const struct pst_transport_ops *load_nccl(void)
{
    const struct pst_transport_ops *ops = load_transport(NCCL_MODULE);
    char why[256] = "";

    nccl_fake = module_symbol(NCCL_MODULE, "fake_nccl");
    assert_int_equal(ops->probe(why, sizeof why), PST_OK);
    assert_non_null(getenv("CUDA_MODULE_LOADING")); /* no kernel is loaded beside one that spins */
    return ops;
}

/* Devices are where their stream is. */
static struct pst_device *nccl_devices[MAX_RANKS];

static inline void *nccl_stream_of(struct pst_device *device, int *ret_ordinal)
{
    cudaStream_t *stream = (cudaStream_t *)(void *)device;

    *ret_ordinal = (int)(stream - nccl_streams);
    return *stream;
}

static const struct pst_device_ops nccl_device = {.stream = nccl_stream_of};

/* Bodies keep what they name in static memory of the program, which lies in one piece. */
extern char __data_start, _end;

static inline void *nccl_region_of(void *context, uint32_t rank, uint64_t *ret_bytes)
{
    *ret_bytes = (uint64_t)(&_end - &__data_start);
    return &__data_start;
}

static inline void nccl_note(const char *text)
{
    snprintf(nccl_notes[atomic_fetch_add(&nccl_n_notes, 1) % 16], sizeof nccl_notes[0], "%s", text);
}

static inline void nccl_doing(void *context, uint32_t rank, char *ret_text, size_t size)
{
    snprintf(ret_text, size, "instruction %u, F of stage %u", 10 + rank, rank);
}

struct nccl_notice {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool there;
};

struct nccl_notice_ref {
    struct nccl_notice *notice;
};

static inline void nccl_tell(void *argument)
{
    struct nccl_notice *notice = ((struct nccl_notice_ref *)argument)->notice;

    pthread_mutex_lock(&notice->mutex);
    notice->there = true;
    pthread_cond_signal(&notice->cond);
    pthread_mutex_unlock(&notice->mutex);
}

/* Returns when the rank's compute stream has done all that it was asked for. */
static inline void nccl_join(uint32_t rank)
{
    struct nccl_notice notice = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    struct nccl_notice_ref *ref = malloc(sizeof *ref);

    if (ref == NULL) {
        abort();
    }
    ref->notice = &notice;
    nccl_fake->ask(nccl_streams[rank], nccl_tell, ref);
    pthread_mutex_lock(&notice.mutex);
    while (!notice.there) {
        pthread_cond_wait(&notice.cond, &notice.mutex);
    }
    pthread_mutex_unlock(&notice.mutex);
}

struct nccl_filling {
    float *data;
    uint64_t elems;
    float first;
};

static inline void nccl_fill_now(void *argument)
{
    const struct nccl_filling *filling = argument;

    for (uint64_t i = 0; i < filling->elems; i++) {
        filling->data[i] = filling->first + (float)i;
    }
}

/* A kernel: data[i] := first + i. */
static inline void nccl_fill(uint32_t rank, float *data, uint64_t elems, float first)
{
    struct nccl_filling *filling = malloc(sizeof *filling);

    if (filling == NULL) {
        abort();
    }
    *filling = (struct nccl_filling){data, elems, first};
    nccl_fake->ask(nccl_streams[rank], nccl_fill_now, filling);
}

static inline void *nccl_rank_main(void *argument)
{
    struct ranked *self = argument;

    self->status = self->ops->attach(self->transport, self->rank, &self->err);
    if (self->status == PST_OK) {
        self->body(self);
    }
    if (self->status != PST_OK) { /* as the executor does */
        self->ops->abort(self->transport, self->rank, &self->err);
    }
    nccl_let_go[self->rank] = self->ops->detach(self->transport, self->rank);
    nccl_join(self->rank);
    return NULL;
}

/* Runs body on n ranks; what they recorded is in ran[]. Whatever open says. */
static inline pst_status try_nccl(uint32_t n, uint64_t stall_ns, struct fake_faults faults,
                                  void (*body)(struct ranked *), struct pst_error *err)
{
    const struct pst_transport_ops *ops = load_nccl();
    const struct pst_transport_memory memory = {.region = nccl_regions ? nccl_region_of : NULL};
    struct pst_transport_config config = {.n_ranks = n,
                                          .max_requests = nccl_requests,
                                          .max_meetings = 4,
                                          .stall_ns = stall_ns,
                                          .doing = nccl_doing,
                                          .meets = nccl_meet,
                                          .edges = nccl_edges,
                                          .note = nccl_note,
                                          .device = &nccl_device,
                                          .devices = nccl_devices,
                                          .memory = &memory};
    struct pst_transport *transport = NULL;
    pthread_t threads[MAX_RANKS];
    unsigned kept = atomic_load(&nccl_fake->n_kept);
    pst_status status;

    nccl_fake->faults = (struct fake_faults){.vanished = -1, .failing = -1};
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(nccl_fake->stream_create(&nccl_streams[i], 0, 0), cudaSuccess);
        nccl_devices[i] = (struct pst_device *)(void *)&nccl_streams[i];
    }
    nccl_fake->faults = faults;
    atomic_store(&nccl_fake->n_calls, 0);
    atomic_store(&nccl_fake->n_registrations, 0);
    atomic_store(&nccl_n_notes, 0);
    nccl_fake->most_blocks = nccl_fake->most_reserved = 0;
    status = ops->open(&config, &transport, err);
    for (uint32_t i = 0; i < n && status == PST_OK; i++) {
        ran[i] = (struct ranked){
            .ops = ops, .transport = transport, .rank = i, .n_ranks = n, .body = body};
        assert_int_equal(pthread_create(&threads[i], NULL, nccl_rank_main, &ran[i]), 0);
    }
    for (uint32_t i = 0; i < n && status == PST_OK; i++) {
        pthread_join(threads[i], NULL);
    }
    if (status == PST_OK) {
        ops->close(transport);
    }
    atomic_store(&nccl_fake->broken, false);
    if (faults.hang) { /* streams and their events are left: their kernels had not ended */
        nccl_fake->let_go();
        kept = atomic_load(&nccl_fake->n_kept) - n;
    }
    for (uint32_t i = 0; i < n; i++) {
        nccl_fake->stream_destroy(nccl_streams[i]);
    }
    assert_int_equal(nccl_fake->n_comms, 0);
    assert_int_equal(atomic_load(&nccl_fake->n_registered), 0);
    assert_int_equal(atomic_load(&nccl_fake->n_kept), kept);
    return status;
}

static inline void run_nccl(uint32_t n, uint64_t stall_ns, struct fake_faults faults,
                            void (*body)(struct ranked *))
{
    struct pst_error err = {0};

    load_nccl();
    assert_ok(try_nccl(n, stall_ns, faults, body, &err), &err);
}

static inline void expect_ok(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        assert_ok(ran[i].status, &ran[i].err);
        assert_int_equal(ran[i].failures, 0);
    }
}

static inline void run_well(uint32_t n, void (*body)(struct ranked *))
{
    run_nccl(n, STALL_NS, no_faults, body);
    expect_ok(n);
}

/* --- what ranks do --- */

/* A post that comes too late says no more than that. */
static inline void posted(struct ranked *self, pst_status status)
{
    CHECK(self, status == PST_OK || status == PST_ERR_CANCELLED);
    if (status == PST_ERR_CANCELLED && self->status == PST_OK) {
        self->status = self->ops->check(self->transport, self->rank, &self->err);
    }
}

static inline void send(struct ranked *self, uint32_t to, const float *data, uint64_t elems,
                        pst_request *ret_request)
{
    posted(self, post_send(self->ops, self->transport, self->rank, to, 7, data,
                           elems * sizeof *data, ret_request));
}

static inline void recv(struct ranked *self, uint32_t from, float *data, uint64_t elems,
                        pst_request *ret_request)
{
    posted(self, post_recv(self->ops, self->transport, self->rank, from, 7, data,
                           elems * sizeof *data, ret_request));
}

static inline void flush(struct ranked *self)
{
    if (self->status == PST_OK) {
        self->status = self->ops->flush(self->transport, self->rank, &self->err);
    }
}

static inline bool wait_for(struct ranked *self, pst_request request)
{
    if (self->status == PST_OK) {
        self->status = self->ops->wait(self->transport, self->rank, request, &self->err);
    }
    return self->status == PST_OK;
}

/* What the device has done is true if the transport says so behind it. */
static inline void check(struct ranked *self)
{
    nccl_join(self->rank);
    if (self->status == PST_OK) {
        self->status = self->ops->check(self->transport, self->rank, &self->err);
    }
}

/* The first of n ranks whose failure is of that kind, which somebody's is. */
static inline const struct ranked *with_kind(uint32_t n, const char *kind)
{
    for (uint32_t i = 0; i < n; i++) {
        if (ran[i].status != PST_OK && strcmp(ran[i].err.kind, kind) == 0) {
            return &ran[i];
        }
    }
    fail_msg("no rank says %s", kind);
    return NULL;
}

static inline void nccl_rest(unsigned ms)
{
    const struct timespec moment = {ms / 1000, (long)(ms % 1000) * 1000000};

    nanosleep(&moment, NULL);
}

/* Rank 0 waits for what 1 never sends. */
static inline void nccl_waits_for_ever(struct ranked *self)
{
    static float in[1];
    pst_request request;

    if (self->rank == 0) {
        recv(self, 1, in, 1, &request);
        wait_for(self, request);
        check(self);
        return;
    }
    while (self->ops->check(self->transport, self->rank, NULL) == PST_OK) {
        nccl_rest(1);
    }
}

/* After a test that set any of the above. */
static inline int nccl_as_usual(void **state)
{
    nccl_edges = false;
    nccl_regions = false;
    nccl_requests = 64;
    nccl_meet = NULL;
    nccl_fake->processors = 132;
    nccl_fake->processors_of_odd = 0;
    return 0;
}

#endif
