/* SPDX-License-Identifier: Apache-2.0
 *
 * Several ranks on one GPU, on the host: how multiprocessors are split, by whom, and what is said
 * where they cannot be; peers; room for all arenas.
 */
#include "cuda/module_rig.h"

static void refuses_to_open(const struct pst_device_config *config, const char *words)
{
    struct pst_device *device = NULL;
    struct pst_error err = {0};

    refuses(ops->open(config, &device, &err), &err, words);
    assert_null(device);
    nothing_is_left(words);
}

static int ordinal_of(struct pst_device *device)
{
    int ordinal = -1;

    assert_non_null(ops->stream(device, &ordinal));
    return ordinal;
}

static void says(struct pst_device *device, const char *words)
{
    char text[256] = "unset";

    ops->sharing(device, text, sizeof text);
    assert_string_equal(text, words);
}

/* 132 multiprocessors in multiples of 8: 4 x 32 and 8 x 16 with 4 left, 3 x 40 with 12 left, 2 x 64
   with 4 left. */
TEST_WITH(parts_are_equal, reset, NULL)
{
    static const struct {
        uint32_t share, sms;
    } cases[] = {{2, 64}, {3, 40}, {4, 32}, {8, 16}, {16, 8}};

    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct pst_device *devices[16];
        char words[96];

        reset(state);
        snprintf(words, sizeof words, "%u ranks per GPU, each on %u of its 132 multiprocessors",
                 cases[c].share, cases[c].sms);
        for (uint32_t r = 0; r < cases[c].share; r++) {
            devices[r] = open_rank(cases[c].share, r, cases[c].share);
            says(devices[r], words);
            assert_int_equal(ordinal_of(devices[r]), 0);
        }
        /* One split for all; each has a part of its own. */
        assert_int_equal(host->splits, 1);
        assert_int_equal(host->contexts, cases[c].share);
        assert_int_equal(host->parts, (1u << cases[c].share) - 1);
        for (uint32_t r = 0; r < cases[c].share; r++) {
            ops->close(devices[r]);
        }
        nothing_is_left(words);
    }
}

/* Units of several sizes, so that there are fewer parts of a size than there seem to be: the next
   smaller one is taken. Drivers that know nothing of sizes get multiples of 8. */
TEST_WITH(parts_get_smaller, reset, NULL)
{
    struct pst_device *device;

    host->fewer = 1;
    device = open_rank(4, 3, 4);
    says(device, "4 ranks per GPU, each on 24 of its 132 multiprocessors");
    ops->close(device);
    host->fewer = host->least = host->step = 0;
    device = open_rank(4, 0, 4);
    says(device, "4 ranks per GPU, each on 32 of its 132 multiprocessors");
    ops->close(device);
    host->least = host->step = 16;
    device = open_rank(3, 0, 3);
    says(device, "3 ranks per GPU, each on 32 of its 132 multiprocessors");
    ops->close(device);
    nothing_is_left("parts of several sizes");
}

/* The device that plans has part 0, too: the same context, until both are gone. */
TEST_WITH(parts_are_counted, reset, NULL)
{
    struct pst_device *planning = open_rank(2, 0, 0), *first = open_rank(2, 0, 2);
    struct pst_device *second = open_rank(2, 1, 2);

    assert_int_equal(host->contexts, 2);
    assert_int_equal(host->splits, 1);
    ops->close(planning);
    assert_int_equal(host->contexts, 2);
    ops->close(second);
    assert_int_equal(host->contexts, 1);
    ops->close(first);
    nothing_is_left("closing");
    ops->close(open_rank(2, 1, 2));
    assert_int_equal(host->splits, 2);
    nothing_is_left("another one");
}

TEST_WITH(too_many_for_a_gpu, reset, NULL)
{
    struct pst_device_config config = rank_of(17, 0, 17);

    refuses_to_open(&config, "cannot be split into 17 equal parts of 8 or more");
}

TEST_WITH(where_ranks_go, reset, NULL)
{
    static const struct {
        uint32_t share, rank, n_ranks;
        int gpu;
    } cases[] = {
        {0, 0, 5, 0}, {0, 1, 5, 1}, {0, 4, 5, 1}, /* modulo 3 */
        {2, 0, 5, 0}, {2, 1, 5, 0}, {2, 2, 5, 1}, {2, 4, 5, 2},
        {1, 2, 3, 2}, {4, 7, 8, 1}, {1, 4, 1, 1}, /* one process each: modulo */
    };
    struct pst_device_config config = rank_of(2, 6, 7);

    host->n_gpus = 3;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct pst_device *device = open_rank(cases[c].share, cases[c].rank, cases[c].n_ranks);

        assert_int_equal(ordinal_of(device), cases[c].gpu);
        ops->close(device);
    }
    refuses_to_open(&config, "run.share = 2 puts rank 6 on GPU 3, but there are 3");
}

/* What is whole is not split, and says nothing. */
TEST_WITH(alone, reset, NULL)
{
    for (uint32_t share = 0; share < 2; share++) {
        struct pst_device *device = open_rank(share, 0, 1);

        says(device, "");
        assert_int_equal(host->splits, 0);
        assert_int_equal(host->contexts, 0);
        ops->close(device);
    }
}

TEST_WITH(drivers_without, reset, NULL)
{
    static const char *const missing[] = {
        "cuDeviceGetDevResource", "cuDevSmResourceSplitByCount", "cuDevResourceGenerateDesc",
        "cuGreenCtxCreate",       "cuGreenCtxDestroy",           "cuGreenCtxStreamCreate"};
    char words[160], text[512];
    struct pst_device *device;

    ops->describe(text, sizeof text);
    assert_non_null(strstr(text, "run.share by green contexts"));
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++) {
        host->missing = missing[i];
        device = open_rank(4, 1, 4);
        snprintf(words, sizeof words, "4 ranks per GPU on plain streams: the driver has no %s",
                 missing[i]);
        says(device, words);
        assert_int_equal(host->contexts, 0);
        ops->describe(text, sizeof text);
        snprintf(words, sizeof words, "the driver has no %s: run.share by plain streams",
                 missing[i]);
        assert_non_null(strstr(text, words));
        ops->close(device);
        nothing_is_left(missing[i]);
    }
}

/* The driver has all functions, and refuses what they are for; but not of a GPU that others have
   parts of. */
TEST_WITH(gpus_without, reset, NULL)
{
    static const char *const refused[][2] = {
        {"cuDeviceGetDevResource", "asking for multiprocessors: CUDA_ERROR_OF_TEST (801)"},
        {"cuDevSmResourceSplitByCount", "splitting the GPU: CUDA_ERROR_OF_TEST (801)"},
        {"cuDevResourceGenerateDesc", "describing a part of the GPU: CUDA_ERROR_OF_TEST (801)"},
        {"cuGreenCtxCreate", "making a green context: CUDA_ERROR_OF_TEST (800)"}};
    const struct pst_device_config second = rank_of(4, 1, 4);
    struct pst_device *device = NULL;
    struct pst_error err = {0};
    char words[160];

    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        host->refused = refused[i][0];
        device = open_rank(4, 1, 4);
        snprintf(words, sizeof words, "4 ranks per GPU on plain streams: the driver refuses %s",
                 refused[i][1]);
        says(device, words);
        ops->close(device);
        nothing_is_left(refused[i][0]);
    }
    host->refused = NULL;
    device = open_rank(4, 0, 4);
    for (size_t i = 2; i < sizeof refused / sizeof refused[0]; i++) {
        struct pst_device *beside = NULL;

        host->refused = refused[i][0];
        refuses(ops->open(&second, &beside, &err), &err, refused[i][1]);
    }
    ops->close(device);
    nothing_is_left("refusals beside another rank");
}

/* Only GPUs that ranks of this process have. */
TEST_WITH(peers, reset, NULL)
{
    struct pst_device_config config;

    host->n_gpus = 4;
    ops->close(open_rank(0, 1, 1)); /* a process for each GPU */
    ops->close(open_rank(0, 0, 0)); /* the device that plans */
    ops->close(open_rank(4, 3, 4)); /* all on GPU 0 */
    assert_int_equal(host->peers_asked, 0);
    ops->close(open_rank(0, 0, 2));
    assert_int_equal(host->peers_asked, 1u << 1);
    atomic_store(&host->peers_asked, 0);
    ops->close(open_rank(2, 2, 6)); /* GPU 1 of 0, 1, 2 */
    assert_int_equal(host->peers_asked, 1u << 0 | 1u << 2);
    host->peers = false;
    ops->close(open_rank(0, 1, 1));
    config = rank_of(2, 2, 6);
    refuses_to_open(&config, "GPU 1 cannot read the memory of GPU 0");
}

TEST_WITH(ranks_find_room, reset, NULL)
{
    const uint64_t gib = UINT64_C(1) << 30;
    const uint64_t bytes[] = {20 * gib, 30 * gib, 25 * gib, 10 * gib, 1 * gib};
    struct pst_device_config config = rank_of(2, 0, 5);
    struct pst_error err = {0};

    host->n_gpus = 2;
    refuses(ops->fits(&config, NULL, &err), &err,
            "5 ranks, 2 for each GPU, need 3 GPUs, but there are 2");
    config.n_ranks = 4;
    assert_ok(ops->fits(&config, NULL, &err), &err);
    assert_ok(ops->fits(&config, bytes, &err), &err);
    host->left_bytes = 40 * gib;
    refuses(ops->fits(&config, bytes, &err), &err,
            "GPU 0 has 40.00 of its 80.00 GiB left, the arenas on it take 50.00 GiB together "
            "(rank 0 20.00, rank 1 30.00)");
    assert_string_equal(err.kind, "machine.memory");
    assert_non_null(strstr(err.hint, "cluster.reserve"));
    /* In turn: 0, 2 and 4 on the first, 46 GiB; 1 and 3 on the second, 40. */
    config.share = 0;
    config.n_ranks = 5;
    refuses(ops->fits(&config, bytes, &err), &err, "(rank 0 20.00, rank 2 25.00, rank 4 1.00)");
    host->left_bytes = 46 * gib;
    assert_ok(ops->fits(&config, bytes, &err), &err);
}
