/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches that are read ahead are those that are read at once, however far the taker is behind; a
 * fault comes at its batch.
 */
#include "test.h"

#include "support.h"
#include "data/prefetch.h"
#include "unit/graph/model_support.h"

enum { CONTEXT = 4, BATCH = 3, SLOTS = 4 };

static struct pst_graph *graph;
static struct pst_sample_shape shape;

static struct pst_data *open_tokens(uint64_t n, uint16_t last)
{
    uint16_t tokens[256];
    const char *path = support_path("tokens.bin");
    struct pst_training training = {.data = {.kind = "tokens", .train = path, .seed = 1}};
    struct pst_job job = {.training = &training};
    struct pst_data *data = NULL;
    struct pst_error err = {0};
    FILE *file = fopen(path, "wb");

    for (uint64_t i = 0; i < n; i++) {
        tokens[i] = i + 1 == n ? last : (uint16_t)i;
    }
    assert_int_equal(fwrite(tokens, 2, n, file), n);
    fclose(file);
    graph = make_model("gpt", "layers=1 dim=8 heads=1 context=4 vocab=256", PST_F32);
    assert_ok(pst_data_create(&job, graph, &data, &err), &err);
    assert_ok(pst_sample_shape_of(graph, &shape, &err), &err);
    return data;
}

static void close_tokens(struct pst_data *data)
{
    pst_data_destroy(data);
    pst_graph_destroy(graph);
}

/* Up to three batches are held, and each is what it was when it is let go. */
TEST(test_same_batches)
{
    struct pst_data *data = open_tokens(200, 0);
    struct pst_prefetch *prefetch = NULL;
    struct pst_error err = {0};
    int32_t x[BATCH * CONTEXT], targets[BATCH * CONTEXT];
    void *const *held[50];

    assert_ok(pst_prefetch_create(data, &shape, 7, BATCH, 50, SLOTS, &prefetch, &err), &err);
    for (uint64_t i = 0; i < 50 + 2; i++) {
        if (i < 50) {
            assert_ok(pst_prefetch_take(prefetch, &held[i], &err), &err);
        }
        if (i >= 2) {
            assert_ok(pst_data_read(data, PST_SPLIT_TRAIN, 7 + (i - 2) * BATCH, BATCH,
                                    (void *[]){x, targets}, &err),
                      &err);
            assert_memory_equal(held[i - 2][0], x, sizeof x);
            assert_memory_equal(held[i - 2][1], targets, sizeof targets);
            pst_prefetch_release(prefetch);
        }
    }
    pst_prefetch_destroy(prefetch);
    close_tokens(data);
}

/* The token beyond the vocabulary is in one window of an epoch: the batches before it come. */
TEST(test_fault_at_its_batch)
{
    struct pst_data *data = open_tokens(197, 256); /* the offsets do not reach the end always */
    struct pst_prefetch *prefetch = NULL;
    struct pst_error err = {0};
    int32_t x[BATCH * CONTEXT], targets[BATCH * CONTEXT];
    void *const *inputs;
    uint64_t n = 0, taken = 0;

    while (n < 1000 && pst_data_read(data, PST_SPLIT_TRAIN, n * BATCH, BATCH,
                                     (void *[]){x, targets}, &err) == PST_OK) {
        n++;
    }
    assert_in_range(n, 1, 999);
    assert_ok(pst_prefetch_create(data, &shape, 0, BATCH, 1000, SLOTS, &prefetch, &err), &err);
    while (pst_prefetch_take(prefetch, &inputs, &err) == PST_OK) {
        taken++;
        pst_prefetch_release(prefetch);
    }
    assert_int_equal(taken, n);
    assert_string_equal(err.kind, "input.syntax");
    assert_non_null(strstr(err.message, "token 196 (byte 392) is 256"));
    pst_prefetch_destroy(prefetch);
    close_tokens(data);
}

/* Ends while the thread waits for room, and while it reads. */
TEST(test_ends_early)
{
    struct pst_data *data = open_tokens(200, 0);

    for (uint32_t i = 0; i < 20; i++) {
        struct pst_prefetch *prefetch = NULL;
        struct pst_error err = {0};
        void *const *inputs;

        assert_ok(pst_prefetch_create(data, &shape, 0, BATCH, 1000, SLOTS, &prefetch, &err), &err);
        if (i % 2 == 1) {
            assert_ok(pst_prefetch_take(prefetch, &inputs, &err), &err);
        }
        pst_prefetch_destroy(prefetch);
    }
    pst_prefetch_destroy(NULL);
    close_tokens(data);
}

TEST_GROUP(support_begin, support_end)
