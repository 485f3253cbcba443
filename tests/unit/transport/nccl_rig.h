/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks of the nccl transport over its double (tests/nccl): each with a compute stream that works
 * by itself, so that nothing is in order that was not put there. Include support.h before.
 */
#ifndef PST_TEST_TRANSPORT_NCCL_RIG_H
#define PST_TEST_TRANSPORT_NCCL_RIG_H

#include <stdio.h>

#include "nccl/fake.h"

#define NCCL_MODULE PENSTOCK_PLUGIN_DIR "/tests/transport-nccl-on-host.so"

static struct fake_nccl *nccl_fake;
static cudaStream_t nccl_streams[MAX_RANKS];

static inline const struct pst_transport_ops *load_nccl(void)
{
    void *module = dlopen(NCCL_MODULE, RTLD_NOW | RTLD_LOCAL);
    pst_transport_module_fn *function;
    char why[256] = "";

    if (module == NULL) {
        fail_msg("%s", dlerror());
        return NULL;
    }
    *(void **)&function = dlsym(module, PST_TRANSPORT_MODULE_SYMBOL);
    nccl_fake = dlsym(module, "fake_nccl");
    assert_non_null(function);
    assert_non_null(nccl_fake);
    assert_int_equal(function()->probe(why, sizeof why), PST_OK);
    return function();
}

static inline void *nccl_stream_of(void *context, uint32_t rank, int *ret_ordinal)
{
    (void)context;
    *ret_ordinal = (int)rank;
    return nccl_streams[rank];
}

static inline void nccl_doing(void *context, uint32_t rank, char *ret_text, size_t size)
{
    (void)context;
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
        self->ops->abort(self->transport, self->rank, self->err.message);
    }
    nccl_join(self->rank);
    return NULL;
}

/* Runs body on n ranks; what they recorded is in ranks[]. */
static inline void run_nccl(uint32_t n, uint64_t stall_ns, struct fake_faults faults, void *data,
                            void (*body)(struct ranked *), struct ranked *ranks)
{
    const struct pst_transport_ops *ops = load_nccl();
    const struct pst_transport_memory memory = {.stream = nccl_stream_of};
    struct pst_transport_config config = {.n_ranks = n,
                                          .max_requests = 64,
                                          .max_reductions = 4,
                                          .stall_ns = stall_ns,
                                          .doing = nccl_doing,
                                          .memory = &memory};
    struct pst_transport *transport = NULL;
    pthread_t threads[MAX_RANKS];
    struct pst_error err = {0};

    nccl_fake->faults = faults;
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(nccl_fake->stream_create(&nccl_streams[i], 0, 0), cudaSuccess);
    }
    if (ops->open(&config, &transport, &err) != PST_OK) {
        fail_msg("%s", err.message);
    }
    for (uint32_t i = 0; i < n; i++) {
        ranks[i] = (struct ranked){.ops = ops,
                                   .transport = transport,
                                   .rank = i,
                                   .n_ranks = n,
                                   .data = data,
                                   .body = body};
        assert_int_equal(pthread_create(&threads[i], NULL, nccl_rank_main, &ranks[i]), 0);
    }
    for (uint32_t i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
    }
    ops->close(transport);
    for (uint32_t i = 0; i < n; i++) {
        nccl_fake->stream_destroy(nccl_streams[i]);
    }
    assert_int_equal(nccl_fake->n_comms, 0);
}

#endif
