/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of device-cuda-on-host without the executor: its table, the machine that it is on, and
 * what it has left behind.
 */
#ifndef PENSTOCK_TESTS_CUDA_MODULE_RIG_H
#define PENSTOCK_TESTS_CUDA_MODULE_RIG_H

#include "unit/graph/model_support.h"

#include "cuda/open.h"

static const struct pst_device_ops *ops;
static struct cuda_on_host *host;

static inline int reset(void **state)
{
    host->n_gpus = 1;
    host->sms = 132;
    host->least = host->step = 8;
    host->fewer = 0;
    host->memory_bytes = host->left_bytes = UINT64_C(80) << 30;
    host->peers = true;
    host->missing = NULL;
    host->refused = NULL;
    host->fail_at = host->break_after = 0;
    atomic_store(&host->calls, 0);
    atomic_store(&host->launches, 0);
    atomic_store(&host->splits, 0);
    atomic_store(&host->peers_asked, 0);
    atomic_store(&host->parts, 0);
    atomic_store(&host->product_sms, 0);
    return 0;
}

static inline void nothing_is_left(const char *after)
{
    const struct {
        const char *name;
        int n;
    } left[] = {
        {"green contexts", host->contexts}, {"streams", host->streams},
        {"events", host->events},           {"arrays", host->arrays},
        {"pinned arrays", host->pinned},    {"cuBLASLt handles", host->libraries},
        {"graphs", host->graphs},           {"descriptions of products", host->descriptions},
    };

    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
        if (left[i].n != 0) {
            fail_msg("after %s: %d %s", after, left[i].n, left[i].name);
        }
    }
}

/* One of the ranks of a process, which are all; of one: a process for each. */
static inline struct pst_device_config rank_of(uint32_t share, uint32_t rank, uint32_t n_ranks)
{
    return (struct pst_device_config){.threads = 1,
                                      .kernels = "auto",
                                      .index = rank,
                                      .share = share,
                                      .first_rank = n_ranks == 1 ? rank : 0,
                                      .n_ranks = n_ranks};
}

static inline struct pst_device *open_rank(uint32_t share, uint32_t rank, uint32_t n_ranks)
{
    const struct pst_device_config config = rank_of(share, rank, n_ranks);
    struct pst_device *device = NULL;
    struct pst_error err = {0};

    assert_ok(ops->open(&config, &device, &err), &err);
    return device;
}

static inline void refuses(pst_status status, const struct pst_error *err, const char *words)
{
    assert_int_not_equal(status, PST_OK);
    if (strstr(err->message, words) == NULL) {
        fail_msg("\"%s\" is missing in: %s", words, err->message);
    }
    assert_int_equal(pst_error_exit_code(err), 4);
}

/* Fills the two above. */
static inline int load(void **state)
{
    cuda_on_host_open(&ops, &host);
    return 0;
}

TEST_GROUP(load, NULL)

#endif
