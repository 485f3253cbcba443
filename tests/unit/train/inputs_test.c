/* SPDX-License-Identifier: Apache-2.0
 *
 * Data of models with more than tokens and targets: hidden tokens, segments, targets that go in
 * shifted, several tensors to learn from, numbers as targets.
 */
#include "data/data_impl.h"
#include "unit/graph/graph_support.h"

#include <math.h>

#define N 400

/* Samples 0 ... N - 1 of a model; buffers[i] of input i. */
struct samples {
    struct pst_data *data;
    const struct pst_sample_shape *shape;
    void *buffers[PST_MAX_INPUTS];
};

static struct samples read_ignoring(const struct pst_graph *graph, int32_t ignored)
{
    struct pst_training training = {.loop = {.sample = 0}};
    struct pst_job job = {.training = &training};
    struct pst_error err = {0};
    struct samples samples = {0};

    job.training->loop.ignore_index = ignored;
    job.training->data.kind = "synthetic";
    job.training->data.seed = 5;
    assert_ok(pst_data_create(&job, graph, &samples.data, &err), &err);
    samples.shape = &samples.data->shape;
    for (uint32_t i = 0; i < samples.shape->n_inputs; i++) {
        samples.buffers[i] = malloc(N * samples.shape->inputs[i].bytes);
    }
    assert_ok(pst_data_read(samples.data, PST_SPLIT_TRAIN, 0, N, samples.buffers, &err), &err);
    return samples;
}

static struct samples read_samples(const struct pst_graph *graph)
{
    return read_ignoring(graph, -1);
}

static void finish_samples(struct samples *samples)
{
    for (uint32_t i = 0; i < samples->shape->n_inputs; i++) {
        free(samples->buffers[i]);
    }
    pst_data_destroy(samples->data);
}

/* The text behind the masks is the walk 5 t + 7 in seven of eight places. */
TEST(hidden_tokens)
{
    enum { T = 20, V = 97 };
    struct pst_graph *graph =
        make_model("bert", "context=20 vocab=97 layers=1 dim=8 heads=1", PST_F32);
    struct samples samples = read_samples(graph);
    const int32_t *tokens = samples.buffers[0], *targets = samples.buffers[2];
    uint32_t hidden = 0, masked = 0, same = 0, follows = 0;

    for (uint32_t i = 0; i < N; i++) {
        uint32_t here = 0;

        for (uint32_t t = 0; t < T; t++) {
            const uint32_t at = i * T + t;
            int32_t text = targets[at] < 0 ? tokens[at] : targets[at];

            assert_true(tokens[at] >= 0 && tokens[at] < V && targets[at] < V);
            here += targets[at] >= 0;
            masked += targets[at] >= 0 && tokens[at] == V - 1;
            same += targets[at] >= 0 && tokens[at] == targets[at];
            if (t > 0) {
                int32_t last = targets[at - 1] < 0 ? tokens[at - 1] : targets[at - 1];

                follows += text == (5 * last + 7) % V;
            }
            assert_int_equal(((int32_t *)samples.buffers[1])[at], t >= T / 2);
        }
        assert_true(here > 0);
        hidden += here;
    }
    /* 15 % and what is forced (about 0.85 of one in 20): five standard deviations or more */
    assert_true(fabs(hidden / (double)(N * T) - 0.1925) < 0.025);
    assert_true(fabs(masked / (double)hidden - 0.8) < 0.06);
    assert_true(fabs(same / (double)hidden - 0.1) < 0.04);
    assert_true(fabs(follows / (double)(N * (T - 1)) - 0.876) < 0.02);
    finish_samples(&samples);
    pst_graph_destroy(graph);
}

/* Hidden tokens are targets: a reader gives none that is no class. */
TEST(hidden_tokens_are_classes)
{
    enum { V = 97, CLASSES = 50 };
    struct pst_graph *graph =
        make_model("bert", "context=1 vocab=97 layers=1 dim=8 heads=1", PST_F32);
    struct pst_tensor *logits = &graph->tensors[graph->logits];
    struct samples samples;

    logits->dims[logits->rank - 1] = CLASSES;
    samples = read_samples(graph);
    assert_int_equal(samples.shape->vocab, V);
    for (uint32_t i = 0; i < N; i++) {
        assert_in_range(((int32_t *)samples.buffers[2])[i], 0, CLASSES - 1);
    }
    finish_samples(&samples);
    pst_graph_destroy(graph);
}

/* Targets of the class that counts nothing in the loss go in as they are. */
TEST(shifted_targets)
{
    struct pst_graph *graph =
        make_model("t5", "context=12 targets=10 vocab=50 layers=1 dim=8 heads=1", PST_F32);
    struct samples all = read_samples(graph), samples = read_ignoring(graph, 7);
    const struct pst_sample_shape *shape = samples.shape;
    const int32_t *tokens = all.buffers[pst_sample_input(shape, shape->target)];
    const int32_t *targets = samples.buffers[pst_sample_input(shape, shape->target)];
    const int32_t *shifted = samples.buffers[pst_sample_input(shape, shape->shifted)];
    uint32_t n_ignored = 0;

    for (uint32_t i = 0; i < N * 10; i++) {
        assert_int_equal(shifted[i], i % 10 == 0 ? 0 : tokens[i - 1]);
        assert_int_equal(targets[i], tokens[i] == 7 ? -1 : tokens[i]);
        n_ignored += targets[i] < 0;
    }
    assert_true(n_ignored > 0);
    finish_samples(&all);
    finish_samples(&samples);
    pst_graph_destroy(graph);
}

/* Each dense input has its own pattern per class; a table's tokens lean to the class's eight. */
TEST(many_inputs)
{
    struct pst_graph *graph =
        make_model("dlrm", "dense=2 sparse=2 features=6 entries=64 bag_size=4 classes=3", PST_F32);
    struct samples samples = read_samples(graph);
    const int32_t *labels = samples.buffers[4];
    double means[2][3][6] = {{{0}}}, apart = 0;
    uint32_t counts[3] = {0}, own[2] = {0}, equal = 0;

    assert_int_equal(samples.shape->n_inputs, 5);
    assert_int_equal(samples.shape->classes, 3);
    assert_int_equal(samples.shape->vocabs[1], 64);
    for (uint32_t i = 0; i < N; i++) {
        counts[labels[i]]++;
        for (uint32_t k = 0; k < 2; k++) {
            for (uint32_t e = 0; e < 6; e++) {
                means[k][labels[i]][e] += (double)((float *)samples.buffers[2 * k])[i * 6 + e];
            }
            for (uint32_t t = 0; t < 4; t++) {
                int32_t token = ((int32_t *)samples.buffers[2 * k + 1])[i * 4 + t];

                assert_true(token >= 0 && token < 64);
                own[k] += token / 8 == labels[i];
            }
        }
        equal += memcmp((int32_t *)samples.buffers[1] + i * 4,
                        (int32_t *)samples.buffers[3] + i * 4, 16) == 0;
    }
    assert_true(equal < N / 20); /* tables do not see the same tokens */
    for (uint32_t k = 0; k < 2; k++) {
        double difference = 0;

        /* half are the class's, and an eighth of the others */
        assert_true(fabs(own[k] / (4.0 * N) - 0.5625) < 0.07);
        for (uint32_t e = 0; e < 6; e++) {
            difference += fabs(means[k][0][e] / counts[0] - means[k][1][e] / counts[1]);
        }
        assert_true(difference > 0.5);
    }
    for (uint32_t e = 0; e < 6; e++) {
        apart += fabs(means[0][0][e] - means[1][0][e]) / counts[0];
    }
    assert_true(apart > 0.5);
    finish_samples(&samples);
    pst_graph_destroy(graph);
}

/* Sixteen levels, each a noisy number; features tell the level. */
TEST(numbers)
{
    struct pst_graph *graph = make_model("candle-uno", "drugs=1 rnaseq=5", PST_F32);
    struct samples samples = read_samples(graph);
    const uint32_t target = pst_sample_input(samples.shape, samples.shape->target);
    const float *values = samples.buffers[target];
    double sum[16] = {0};
    uint32_t counts[16] = {0};

    assert_int_equal(samples.shape->classes, 0);
    assert_int_equal(samples.shape->rows, 1);
    for (uint32_t i = 0; i < N; i++) {
        const double level = floor(((double)values[i] + 1) * 8);

        assert_true(level >= 0 && level < 16);
        /* a quarter of the level's width around its middle */
        assert_true(fabs((double)values[i] - ((level + 0.5) / 8 - 1)) <= 0.25 / 8 + 1e-6);
        counts[(int)level]++;
        sum[(int)level] += (double)((float *)samples.buffers[2])[i * 5];
    }
    for (uint32_t i = 0; i < 16; i++) {
        assert_true(counts[i] > 0);
        assert_true(fabs(sum[i] / counts[i]) < 1.7); /* pattern in [-1, 1), noise of mean 0 */
    }
    finish_samples(&samples);
    pst_graph_destroy(graph);
}

/* Whole batches and single samples are the same. */
TEST(samples_stand_alone)
{
    struct pst_graph *graph = make_model("dlrm", "", PST_F32);
    struct samples samples = read_samples(graph);
    struct pst_error err = {0};
    void *one[PST_MAX_INPUTS];

    for (uint32_t i = 0; i < samples.shape->n_inputs; i++) {
        one[i] = malloc(samples.shape->inputs[i].bytes);
    }
    assert_ok(pst_data_read(samples.data, PST_SPLIT_TRAIN, 7, 1, one, &err), &err);
    for (uint32_t i = 0; i < samples.shape->n_inputs; i++) {
        uint64_t bytes = samples.shape->inputs[i].bytes;

        assert_memory_equal(one[i], (char *)samples.buffers[i] + 7 * bytes, bytes);
        free(one[i]);
    }
    finish_samples(&samples);
    pst_graph_destroy(graph);
}
