/* SPDX-License-Identifier: Apache-2.0
 *
 * Token files, arrays and images by their formats: what comes out of files that are written here
 * byte by byte, what is held out, how sources take turns, and what is refused, with its place.
 */
#include "test.h"

#include <math.h>

#include "support.h"
#include "data/data_impl.h"
#include "unit/graph/model_support.h"

#define CONTEXT 4

static struct pst_graph *graph;
static struct pst_training training;

static struct pst_job job_of(const char *kind, const char *train)
{
    struct pst_job job = {.training = &training};

    training = (struct pst_training){.data = {.kind = kind, .train = train, .seed = 5},
                                     .loop = {.ignore_index = -1}};
    return job;
}

static struct pst_data *open_data(const char *model, const char *options, const struct pst_job *job)
{
    struct pst_data *data = NULL;
    struct pst_error err = {0};

    graph = make_model(model, options, PST_F32);
    assert_ok(pst_data_create(job, graph, &data, &err), &err);
    return data;
}

static struct pst_data *open_gpt(const char *kind, const char *train, double fraction)
{
    struct pst_job job = job_of(kind, train);

    job.training->data.valid_fraction = fraction;
    return open_data("gpt", "layers=1 dim=8 heads=1 context=4 vocab=500", &job);
}

static void close_data(struct pst_data *data)
{
    pst_data_destroy(data);
    pst_graph_destroy(graph);
}

static void read_samples(const struct pst_data *data, uint32_t split, uint64_t first, uint32_t n,
                         void *x, void *targets)
{
    struct pst_error err = {0};

    assert_ok(pst_data_read(data, split, first, n, (void *[]){x, targets}, &err), &err);
}

static const char *write_bytes(const char *name, const void *bytes, size_t n)
{
    const char *path = support_path(name);
    FILE *file = fopen(path, "wb");

    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
    return path;
}

static void expect_failure(const struct pst_job *job, const char *model, const char *options,
                           const char *kind, const char *words)
{
    struct pst_graph *own = make_model(model, options, PST_F32);
    struct pst_data *data = NULL;
    struct pst_error err = {0};

    assert_int_not_equal(pst_data_create(job, own, &data, &err), PST_OK);
    assert_null(data);
    assert_string_equal(err.kind, kind);
    assert_int_equal(pst_error_exit_code(&err), 2);
    if (strstr(err.message, words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.message, words);
    }
    pst_graph_destroy(own);
}

/* --- tokens ----------------------------------------------------------------------------------- */

/* 40 tokens from `first` on, as numbers of `width` bytes behind a header; returns all bytes. */
static size_t put_tokens(unsigned char *bytes, size_t header, uint32_t width, uint32_t first)
{
    for (uint32_t i = 0; i < 40; i++) {
        for (uint32_t b = 0; b < width; b++) {
            bytes[header + i * width + b] = (unsigned char)((uint64_t)(first + i) >> 8 * b);
        }
    }
    return header + 40 * (size_t)width;
}

static void put_u64(unsigned char *to, uint64_t value, uint32_t width)
{
    for (uint32_t b = 0; b < width; b++) {
        to[b] = (unsigned char)(value >> 8 * b);
    }
}

/* Windows of a rising stream, from any offset: all of an epoch lie in it, none twice. */
static void expect_ramp(const struct pst_data *data, int32_t first, uint64_t n)
{
    int32_t x[CONTEXT], targets[CONTEXT];
    bool seen[64] = {false};

    assert_int_equal(pst_data_samples(data, PST_SPLIT_TRAIN), n);
    for (uint64_t i = 0; i < n; i++) {
        read_samples(data, PST_SPLIT_TRAIN, i, 1, x, targets);
        for (int32_t t = 0; t < CONTEXT; t++) {
            assert_int_equal(x[t], x[0] + t);
            assert_int_equal(targets[t], x[t] + 1);
        }
        assert_true(x[0] >= first && !seen[(x[0] - first) / CONTEXT]);
        seen[(x[0] - first) / CONTEXT] = true;
    }
}

/* Two files of 40: (80 - 1) / 4 windows less one, across the border too. */
TEST(test_raw_tokens)
{
    unsigned char bytes[512];
    struct pst_data *data;
    struct pst_job job;
    char patterns[128];

    write_bytes("raw-a.bin", bytes, put_tokens(bytes, 0, 2, 300));
    write_bytes("raw-b.bin", bytes, put_tokens(bytes, 0, 2, 340));
    snprintf(patterns, sizeof patterns, "%s/raw-*.bin", support_folder);
    data = open_gpt("tokens", patterns, 0);
    expect_ramp(data, 300, 18);
    close_data(data);

    job = job_of("tokens", write_bytes("wide.bin", bytes, put_tokens(bytes, 0, 4, 300)));
    job.training->data.dtype = 1;
    data = open_data("gpt", "layers=1 dim=8 heads=1 context=4 vocab=500", &job);
    expect_ramp(data, 300, 8);
    close_data(data);

    job = job_of("tokens", write_bytes("odd.bin", bytes, 41));
    expect_failure(&job, "gpt", "layers=1 dim=8 heads=1 context=4 vocab=500", "input.syntax",
                   "41 bytes");
}

/* More files than are kept open. */
TEST(test_many_files)
{
    unsigned char bytes[128];
    struct pst_data *data;
    char name[32], patterns[128];

    for (uint32_t i = 0; i < 140; i++) {
        snprintf(name, sizeof name, "many-%03u.bin", i);
        put_tokens(bytes, 0, 2, 2 * i);
        write_bytes(name, bytes, 4);
    }
    snprintf(patterns, sizeof patterns, "%s/many-*.bin", support_folder);
    data = open_gpt("tokens", patterns, 0);
    assert_int_equal(data->stores[0].stream.parts.parts[139].file.fd, -1);
    assert_true(data->stores[0].stream.parts.parts[0].file.fd >= 0);
    for (uint64_t i = 0; i < 60; i++) {
        int32_t x[CONTEXT], targets[CONTEXT];

        read_samples(data, PST_SPLIT_TRAIN, i, 1, x, targets);
        assert_int_equal(targets[CONTEXT - 1], x[0] + CONTEXT);
    }
    close_data(data);
}

/* interop: 256 numbers of a header, then tokens. */
TEST(test_llmc)
{
    static unsigned char bytes[2048];
    struct pst_data *data;
    struct pst_job job;

    put_u64(bytes, 20240520, 4);
    put_u64(bytes + 4, 1, 4);
    put_u64(bytes + 8, 40, 4);
    data = open_gpt("llmc", write_bytes("gpt2.bin", bytes, put_tokens(bytes, 1024, 2, 300)), 0);
    expect_ramp(data, 300, 8);
    close_data(data);
    put_u64(bytes, 20240801, 4);
    put_u64(bytes + 4, 7, 4);
    data = open_gpt("llmc", write_bytes("llama.bin", bytes, put_tokens(bytes, 1024, 4, 300)), 0);
    expect_ramp(data, 300, 8);
    close_data(data);

    job = job_of("llmc", write_bytes("cut.bin", bytes, 1024 + 159));
    expect_failure(&job, "gpt", "layers=1 dim=8 heads=1 context=4", "input.syntax", "byte 8");
    job = job_of("llmc", write_bytes("short.bin", bytes, 1000));
    expect_failure(&job, "gpt", "layers=1 dim=8 heads=1 context=4", "input.syntax", "1000 bytes");
    bytes[4] = 2;
    job = job_of("llmc", write_bytes("version.bin", bytes, 1024 + 160));
    expect_failure(&job, "gpt", "layers=1 dim=8 heads=1 context=4", "input.syntax", "20240520");
}

/* Three sequences of 20, 15 and 5 tokens. */
static size_t put_index(unsigned char *bytes, uint8_t dtype, uint32_t width)
{
    static const uint32_t lengths[] = {20, 15, 5};
    uint64_t begin = 0;

    memcpy(bytes, "MMIDIDX\0\0", 9);
    put_u64(bytes + 9, 1, 8);
    bytes[17] = dtype;
    put_u64(bytes + 18, 3, 8);
    put_u64(bytes + 26, 4, 8);
    for (uint32_t i = 0; i < 3; i++) {
        put_u64(bytes + 34 + 4 * i, lengths[i], 4);
        put_u64(bytes + 46 + 8 * i, begin, 8);
        begin += (uint64_t)lengths[i] * width;
    }
    for (uint32_t i = 0; i < 4; i++) {
        put_u64(bytes + 70 + 8 * i, i, 8);
    }
    return 102;
}

/* By the name of either file, of both, or without an ending. */
TEST(test_megatron)
{
    unsigned char bytes[512];
    const char *names[] = {"m.bin", "m.idx", "m", "m.*"};
    static const uint8_t dtypes[][2] = {{8, 2}, {3, 2}, {4, 4}, {5, 8}};

    for (uint32_t k = 0; k < 4; k++) {
        struct pst_data *data;

        write_bytes("m.idx", bytes, put_index(bytes, dtypes[k][0], dtypes[k][1]));
        write_bytes("m.bin", bytes, put_tokens(bytes, 0, dtypes[k][1], 300));
        data = open_gpt("megatron", support_path(names[k]), 0);
        expect_ramp(data, 300, 8);
        close_data(data);
    }
}

/* The vector of the format's description: [1,2,3] and [4,5] as uint16. */
TEST(test_megatron_vector)
{
    static const unsigned char index[] =
        "MMIDIDX\0\0\1\0\0\0\0\0\0\0\10\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\3\0\0\0\2\0\0\0"
        "\0\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0";
    struct pst_data *data;
    int32_t x[CONTEXT], targets[CONTEXT];

    assert_int_equal(sizeof index, 82);
    write_bytes("v.idx", index, sizeof index);
    data = open_gpt("megatron", write_bytes("v.bin", "\1\0\2\0\3\0\4\0\5\0", 10), 0);
    read_samples(data, PST_SPLIT_TRAIN, 0, 1, x, targets);
    assert_int_equal(x[0], 1);
    assert_int_equal(targets[3], 5);
    close_data(data);
}

static void expect_bad_index(size_t at, uint8_t byte, size_t length, const char *words)
{
    unsigned char bytes[512], old;
    struct pst_job job = job_of("megatron", support_path("b.bin"));
    size_t n = put_index(bytes, 8, 2);

    old = bytes[at];
    bytes[at] = byte;
    write_bytes("b.idx", bytes, length == 0 ? n : length);
    bytes[at] = old;
    write_bytes("b.bin", bytes, put_tokens(bytes, 0, 2, 300));
    expect_failure(&job, "gpt", "layers=1 dim=8 heads=1 context=4 vocab=500", "input.syntax",
                   words);
}

TEST(test_bad_index)
{
    unsigned char bytes[512];
    struct pst_job job;

    expect_bad_index(0, 'N', 0, "byte 0");
    expect_bad_index(9, 2, 0, "byte 0");
    expect_bad_index(0, 'M', 20, "byte 0");
    expect_bad_index(17, 7, 0, "byte 17");
    expect_bad_index(25, 255, 0, "byte 18"); /* 2^63 sequences */
    expect_bad_index(26, 3, 0, "byte 18");
    expect_bad_index(0, 'M', 101, "byte 18");
    expect_bad_index(34, 21, 0, "byte 54: sequence 1 does not begin");
    expect_bad_index(45, 255, 0, "byte 42: sequence 2 is longer"); /* 2^32 - 2^24 */
    expect_bad_index(42, 4, 0, "80 bytes do not match its index: 39 tokens");
    job = job_of("megatron", write_bytes("alone.bin", bytes, put_tokens(bytes, 0, 2, 300)));
    expect_failure(&job, "gpt", "layers=1 dim=8 heads=1 context=4", "input.path", "cannot open");
}

/* A token that the model lacks, and a file that gets shorter, are told with file and place. */
TEST(test_bad_tokens)
{
    unsigned char bytes[512];
    const char *path;
    struct pst_data *data;
    struct pst_error err = {0};
    int32_t x[9][CONTEXT], targets[9][CONTEXT];
    void *inputs[] = {x, targets};

    put_tokens(bytes, 0, 2, 300);
    put_u64(bytes + 2 * 17, 500, 2);
    data = open_gpt("tokens", write_bytes("beyond.bin", bytes, 80), 0);
    assert_int_not_equal(pst_data_read(data, PST_SPLIT_TRAIN, 0, 8, inputs, &err), PST_OK);
    assert_string_equal(err.kind, "input.syntax");
    assert_non_null(strstr(err.file, "beyond.bin"));
    assert_non_null(strstr(err.message, "token 17 (byte 34) is 500, but the model has 500"));
    close_data(data);

    put_u64(bytes + 2 * 17, 499, 2);
    path = write_bytes("shrinks.bin", bytes, 80);
    data = open_gpt("tokens", path, 0);
    assert_ok(pst_data_read(data, PST_SPLIT_TRAIN, 0, 8, inputs, &err), &err);
    assert_int_equal(truncate(path, 40), 0);
    assert_int_not_equal(pst_data_read(data, PST_SPLIT_TRAIN, 0, 8, inputs, &err), PST_OK);
    assert_string_equal(err.kind, "input.syntax");
    assert_non_null(strstr(err.message, "has 40 bytes, but had 80"));
    close_data(data);
}

/* The end of a stream is held out; with 25 % of 40 tokens that is 10: two windows. */
TEST(test_tokens_held_out)
{
    unsigned char bytes[512];
    struct pst_data *data =
        open_gpt("tokens", write_bytes("held.bin", bytes, put_tokens(bytes, 0, 2, 300)), 0.25);
    int32_t x[CONTEXT], targets[CONTEXT];

    assert_int_equal(pst_data_samples(data, PST_SPLIT_VALID), 2);
    for (uint64_t i = 0; i < 2; i++) {
        read_samples(data, PST_SPLIT_VALID, i, 1, x, targets);
        assert_int_equal(x[0], 330 + 4 * (int)i);
    }
    for (uint64_t i = 0; i < 100; i++) {
        read_samples(data, PST_SPLIT_TRAIN, i, 1, x, targets);
        assert_true(targets[CONTEXT - 1] < 330);
    }
    close_data(data);
}

/* --- sources ---------------------------------------------------------------------------------- */

/* Megatron-LM's build_blending_indices, as published, for a cycle's worth of samples. */
TEST(test_blend)
{
    static const double sets[][3] = {
        {0.7, 0.3, 0}, {0.5, 0.3, 0.2}, {1, 1, 1}, {0.125, 0.5, 0.375}};
    struct pst_error err = {0};

    for (uint32_t k = 0; k < 4; k++) {
        uint32_t n = sets[k][2] > 0 ? 3 : 2, taken[3] = {0};
        double sum = sets[k][0] + sets[k][1] + sets[k][2];
        struct pst_blend blend = {.length = 0};

        assert_ok(pst_blend_init(&blend, sets[k], n, &err), &err);
        assert_int_equal(blend.length, k < 2 ? 10 : k == 2 ? 3 : 8);
        for (uint32_t i = 0; i < blend.length; i++) {
            uint32_t best = 0;
            double most = -1e9;

            for (uint32_t s = 0; s < n; s++) {
                double behind = sets[k][s] / sum * (i > 1 ? i : 1) - taken[s];

                best = behind > most + 1e-12 ? s : best;
                most = behind > most + 1e-12 ? behind : most;
            }
            assert_int_equal(blend.source[i], best);
            assert_int_equal(blend.before[i], taken[best]++);
        }
        pst_blend_finish(&blend);
    }
}

/* Weights that no short cycle has are kept to one part in 65536. */
TEST(test_long_blend)
{
    double weights[] = {sqrt(2), 1, 0.001};
    struct pst_blend blend = {.length = 0};
    struct pst_error err = {0};
    uint32_t counts[3] = {0};

    assert_ok(pst_blend_init(&blend, weights, 3, &err), &err);
    assert_int_equal(blend.length, 65536);
    for (uint32_t i = 0; i < blend.length; i++) {
        assert_int_equal(blend.before[i], counts[blend.source[i]]++);
        for (uint32_t s = 0; s < 3; s++) { /* never far from the weights */
            assert_true(fabs(counts[s] - (i + 1) * weights[s] / (sqrt(2) + 1.001)) < 2);
        }
    }
    pst_blend_finish(&blend);
    weights[2] = 1e-6;
    assert_int_not_equal(pst_blend_init(&blend, weights, 3, &err), PST_OK);
    assert_string_equal(err.kind, "config.value");
}

/* Two sources, 3 to 1: each in its own order of epochs, and each with its own held-out end. */
TEST(test_sources)
{
    unsigned char bytes[512];
    struct pst_job job;
    struct pst_data *data;
    char train[256];
    int32_t x[CONTEXT], targets[CONTEXT];
    uint32_t of_first = 0;
    int seen[2][8] = {{0}}, order[2][24], n[2] = {0};

    write_bytes("s-a.bin", bytes, put_tokens(bytes, 0, 2, 100));
    write_bytes("s-b.bin", bytes, put_tokens(bytes, 0, 2, 400));
    snprintf(train, sizeof train, "%s/s-a.bin\n%s/s-b.bin", support_folder, support_folder);
    job = job_of("tokens", train);
    job.training->data.weights = "3,1";
    job.training->data.valid_fraction = 0.25; /* 10 of each; 30 make 6 windows */
    data = open_data("gpt", "layers=1 dim=8 heads=1 context=4 vocab=500", &job);
    assert_int_equal(pst_data_samples(data, PST_SPLIT_TRAIN), 12);
    assert_int_equal(pst_data_samples(data, PST_SPLIT_VALID), 4);
    for (uint64_t i = 0; i < 24; i++) {
        read_samples(data, PST_SPLIT_TRAIN, i, 1, x, targets);
        assert_true(x[0] < 130 || (x[0] >= 400 && x[0] < 430));
        of_first += x[0] < 400;
        seen[x[0] >= 400][(x[0] - (x[0] < 400 ? 100 : 400)) / CONTEXT]++;
        order[x[0] >= 400][n[x[0] >= 400]++] = (x[0] - (x[0] < 400 ? 100 : 400)) / CONTEXT;
    }
    assert_memory_not_equal(order[0], order[1], 6 * sizeof order[0][0]); /* of equal length */
    assert_int_equal(of_first, 18); /* three epochs of the first, one of the second */
    for (uint32_t w = 0; w < 6; w++) {
        assert_in_range(seen[0][w], 2, 4);
        assert_in_range(seen[1][w], 0, 2);
    }
    for (uint64_t i = 0; i < 4; i++) {
        read_samples(data, PST_SPLIT_VALID, i, 1, x, targets);
        assert_int_equal(x[0], (i < 2 ? 130 : 430) + 4 * (int)(i % 2));
    }
    close_data(data);
    job.training->data.weights = "3";
    expect_failure(&job, "gpt", "layers=1 dim=8 heads=1 context=4 vocab=500", "config.value",
                   "2 numbers");
    job.training->data.weights = "3,0";
    expect_failure(&job, "gpt", "layers=1 dim=8 heads=1 context=4 vocab=500", "config.value",
                   "above 0");
}

/* --- arrays ----------------------------------------------------------------------------------- */

static const char *write_npy(const char *name, int version, const char *header, const void *values,
                             size_t size)
{
    unsigned char bytes[4096] = "\x93NUMPY";
    size_t from = version == 1 ? 10 : 12, length = strlen(header);

    bytes[6] = (unsigned char)version;
    put_u64(bytes + 8, length, version == 1 ? 2 : 4);
    memcpy(bytes + from, header, length);
    memcpy(bytes + from + length, values, size);
    return write_bytes(name, bytes, from + length + size);
}

static struct pst_job npy_job(const char *train, const char *labels)
{
    struct pst_job job = job_of("npy", train);

    job.training->data.train_labels = labels;
    return job;
}

#define MLP      "inputs=3 hidden=4 layers=1 classes=5"
#define X_HEADER "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3), }\n"
#define Y_HEADER "{'descr': '<i8', 'fortran_order': False, 'shape': (4,), }\n"

static const float x_values[4][3] = {{0, 1, 2}, {10, 11, 12}, {20, 21, 22}, {30, 31, 32}};
static const int64_t y_values[4] = {0, 1, 2, -100};

/* Versions 1 and 2, f4 and f8 and whole numbers; every record once an epoch, with its label. */
TEST(test_npy)
{
    static const double wide[4][3] = {{0, 1, 2}, {10, 11, 12}, {20, 21, 22}, {30, 31, 32}};
    static const unsigned char small[4][3] = {{0, 1, 2}, {10, 11, 12}, {20, 21, 22}, {30, 31, 32}};
    const char *labels = write_npy("y.npy", 1, Y_HEADER, y_values, sizeof y_values);
    const char *files[] = {
        write_npy("x1.npy", 1, X_HEADER, x_values, sizeof x_values),
        write_npy("x2.npy", 2, "{'descr': '<f8', 'fortran_order': False, 'shape': (4, 3)}", wide,
                  sizeof wide),
        write_npy("x3.npy", 3, "{\"shape\":(4,3),\"descr\":\"|u1\",\"fortran_order\":False}", small,
                  sizeof small)};

    for (uint32_t k = 0; k < 3; k++) {
        struct pst_job job = npy_job(files[k], labels);
        struct pst_data *data = open_data("mlp", MLP, &job);
        uint32_t seen = 0;

        assert_int_equal(pst_data_samples(data, PST_SPLIT_TRAIN), 4);
        for (uint64_t i = 0; i < 4; i++) {
            float x[3];
            int32_t target;
            int record;

            read_samples(data, PST_SPLIT_TRAIN, i, 1, x, &target);
            record = (int)x[0] / 10;
            assert_memory_equal(x, x_values[record], sizeof x);
            assert_int_equal(target, record == 3 ? -1 : record);
            seen |= 1u << record;
        }
        assert_int_equal(seen, 15);
        close_data(data);
    }
}

/* (value - mean) / deviation, one for all or one for each. */
TEST(test_normalization)
{
    struct pst_job job = npy_job(write_npy("x.npy", 1, X_HEADER, x_values, sizeof x_values),
                                 write_npy("y.npy", 1, Y_HEADER, y_values, sizeof y_values));
    struct pst_data *data;
    float x[3];
    int32_t target;

    job.training->data.mean = "1, 2, 3";
    job.training->data.std = "2";
    data = open_data("mlp", MLP, &job);
    read_samples(data, PST_SPLIT_TRAIN, 0, 1, x, &target);
    for (int e = 0; e < 3; e++) {
        int record = target < 0 ? 3 : target;

        assert_true(x[e] == (x_values[record][e] - (float)(e + 1)) / 2);
    }
    close_data(data);
    job.training->data.mean = "1,2";
    expect_failure(&job, "mlp", MLP, "config.value", "data.mean");
    job.training->data.mean = "";
    job.training->data.std = "0";
    expect_failure(&job, "mlp", MLP, "config.value", "data.std");
    job.training->data.std = "2, -1";
    expect_failure(&job, "mlp", MLP, "config.value", "data.std");
}

static void expect_bad_npy(const char *header, const char *kind, const char *words)
{
    struct pst_job job = npy_job(write_npy("bad.npy", 1, header, x_values, sizeof x_values),
                                 write_npy("y.npy", 1, Y_HEADER, y_values, sizeof y_values));

    expect_failure(&job, "mlp", MLP, kind, words);
}

#define NPY(descr, order, shape)                                                                   \
    "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }"

TEST(test_bad_npy)
{
    struct pst_job job;
    char patterns[128];

    expect_bad_npy(NPY("'<f4'", "True", "(4, 3)"), "input.syntax", "Fortran");
    expect_bad_npy(NPY("'|O'", "False", "(4, 3)"), "input.syntax", "|O");
    expect_bad_npy(NPY("'>f4'", "False", "(4, 3)"), "input.syntax", ">f4");
    expect_bad_npy(NPY("'<f4'", "False", "()"), "input.syntax", "one number");
    expect_bad_npy(NPY("'<f4'", "False", "(5, 3)"), "input.syntax", "byte ");
    expect_bad_npy(NPY("'<f4'", "False", "(4294967296, 4294967296, 4294967296)"), "input.syntax",
                   "byte ");
    expect_bad_npy(NPY("'<f4'", "False", "(0, 3)"), "input.syntax", "byte ");
    expect_bad_npy(NPY("'<f4'", "False", "(4, -3)"), "input.syntax", "header");
    expect_bad_npy(NPY("'<f4'", "False", "(4 3)"), "input.syntax", "header");
    expect_bad_npy(NPY("[('a', '<f4')]", "False", "(4, 3)"), "input.syntax", "header");
    expect_bad_npy("{'descr': '<f4', 'shape': (4, 3)}", "input.syntax", "header");
    expect_bad_npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (4, 3)}",
                   "input.syntax", "header");
    expect_bad_npy(NPY("'<f4'", "False", "(6, 2)"), "input.syntax",
                   "a record is 2, but the model's input x is 3");
    job = npy_job(write_bytes("no.npy", "\x93NUMPY\1\0\377\377", 10), "");
    expect_failure(&job, "mlp", MLP, "input.syntax", "byte 0");
    job = npy_job(write_bytes("no.npy", "\x93NUMPY\1\0\377\377{}", 12), "");
    expect_failure(&job, "mlp", MLP, "input.syntax", "byte 8");
    job = npy_job(write_npy("x.npy", 1, X_HEADER, x_values, sizeof x_values), "");
    expect_failure(&job, "mlp", MLP, "config.value", "data.train_labels");
    job.training->data.train_labels =
        write_npy("y3.npy", 1, NPY("'<i8'", "False", "(3,)"), y_values, 24);
    expect_failure(&job, "mlp", MLP, "input.syntax", "it has 3 labels");
    write_npy("y2-a.npy", 1, NPY("'<i8'", "False", "(2,)"), y_values, 16);
    write_npy("y2-b.npy", 1, NPY("'<i8'", "False", "(2,)"), y_values, 16);
    snprintf(patterns, sizeof patterns, "%s/y2-*.npy", support_folder);
    job.training->data.train_labels = patterns;
    expect_failure(&job, "mlp", MLP, "config.value", "1 files and data.train_labels has 2");
    job.training->data.train_labels =
        write_npy("yf.npy", 1, NPY("'<f8'", "False", "(4,)"), y_values, 32);
    expect_failure(&job, "mlp", MLP, "input.syntax", "whole numbers");
}

/* A class that the model lacks: file, record, byte. */
TEST(test_bad_class)
{
    static const int64_t labels[4] = {5, 5, 5, 5};
    struct pst_job job = npy_job(write_npy("x.npy", 1, X_HEADER, x_values, sizeof x_values),
                                 write_npy("y5.npy", 1, Y_HEADER, labels, sizeof labels));
    struct pst_data *data = open_data("mlp", MLP, &job);
    struct pst_error err = {0};
    float x[3];
    int32_t target;
    char words[64];

    assert_int_not_equal(pst_data_read(data, PST_SPLIT_TRAIN, 0, 1, (void *[]){x, &target}, &err),
                         PST_OK);
    assert_non_null(strstr(err.file, "y5.npy"));
    snprintf(words, sizeof words, "record %d (byte %zu): 5 ", (int)x[0] / 10,
             10 + strlen(Y_HEADER) + 8 * (size_t)((int)x[0] / 10));
    assert_non_null(strstr(err.message, "0 to 4"));
    assert_non_null(strstr(err.message, words));
    close_data(data);
    job.training->loop.ignore_index = 5; /* unless it is the one that counts nothing */
    data = open_data("mlp", MLP, &job);
    read_samples(data, PST_SPLIT_TRAIN, 0, 1, x, &target);
    assert_int_equal(target, -1);
    close_data(data);
}

/* A third of 12 records: eight to train on and four to evaluate, all of them once, whatever the
   seed; and records held out are not the last ones. */
TEST(test_records_held_out)
{
    float values[12][3];
    int64_t labels[12] = {0};
    struct pst_job job;
    uint32_t held[2] = {0};

    for (int i = 0; i < 12; i++) {
        values[i][0] = values[i][1] = values[i][2] = (float)i;
    }
    job = npy_job(write_npy("x12.npy", 1, NPY("'<f4'", "False", "(12, 3)"), values, sizeof values),
                  write_npy("y12.npy", 1, NPY("'<i8'", "False", "(12,)"), labels, sizeof labels));
    job.training->data.valid_fraction = 0.34;
    for (uint32_t k = 0; k < 2; k++) {
        struct pst_data *data;
        uint32_t seen = 0;
        float x[3];
        int32_t target;

        job.training->data.seed = 5 + k;
        data = open_data("mlp", MLP, &job);
        assert_int_equal(pst_data_samples(data, PST_SPLIT_TRAIN), 8);
        assert_int_equal(pst_data_samples(data, PST_SPLIT_VALID), 4);
        for (uint64_t i = 0; i < 4; i++) {
            read_samples(data, PST_SPLIT_VALID, i, 1, x, &target);
            held[k] |= 1u << (int)x[0];
        }
        for (uint64_t i = 0; i < 80; i++) {
            read_samples(data, PST_SPLIT_TRAIN, i, 1, x, &target);
            seen |= 1u << (int)x[0];
        }
        assert_int_equal(seen ^ held[k], 4095);
        assert_int_equal(seen & held[k], 0);
        close_data(data);
    }
    assert_int_equal(held[0], held[1]);
    assert_int_not_equal(held[0], 4095 ^ 255);
}

/* --- images ----------------------------------------------------------------------------------- */

#define RESNET32 "image=32 classes=10 width=8 stages=1 blocks=1"

/* Planes become pixels; PyTorch's ToTensor and Normalize with the usual constants. */
TEST(test_cifar)
{
    static unsigned char bytes[2 * 3073];
    static float x[32][32][3];
    static const float mean[3] = {0.4914f, 0.4822f, 0.4465f}, std[3] = {0.2470f, 0.2435f, 0.2616f};
    struct pst_job job;
    struct pst_data *data;
    int32_t target;

    for (int r = 0; r < 2; r++) {
        bytes[3073 * r] = (unsigned char)(3 + r);
        for (int i = 0; i < 3072; i++) {
            bytes[3073 * r + 1 + i] = (unsigned char)(i * 7 + i / 256 + r);
        }
    }
    job = job_of("cifar10", write_bytes("data_batch_1.bin", bytes, sizeof bytes));
    data = open_data("resnet", RESNET32, &job);
    for (uint64_t i = 0; i < 2; i++) {
        read_samples(data, PST_SPLIT_TRAIN, i, 1, x, &target);
        for (int p = 0; p < 1024; p++) {
            for (int c = 0; c < 3; c++) {
                float value = (float)bytes[3073 * (target - 3) + 1 + c * 1024 + p] / 255.0f;

                assert_true(x[p / 32][p % 32][c] == (value - mean[c]) / std[c]);
            }
        }
    }
    close_data(data);
    job = job_of("cifar10", write_bytes("cut.bin", bytes, 3000));
    expect_failure(&job, "resnet", RESNET32, "input.syntax", "3073");
    job = job_of("cifar10", support_path("data_batch_1.bin"));
    expect_failure(&job, "resnet", "image=16 classes=10 width=8 stages=1 blocks=1", "input.syntax",
                   "a record is 3 x 32 x 32, but the model's input image is 16 x 16 x 3");
    job.training->data.train_labels = "labels";
    expect_failure(&job, "resnet", RESNET32, "config.value", "data.train_labels");
}

/* CIFAR-100 has a coarse label before the fine one; a perceptron gets the pixels in a row. */
TEST(test_cifar100)
{
    static unsigned char bytes[3074] = {7, 42};
    static float x[3072];
    struct pst_job job;
    struct pst_data *data;
    int32_t target;

    for (int i = 0; i < 3072; i++) {
        bytes[2 + i] = (unsigned char)(i / 1024 * 50 + 50); /* 50, 100, 150 by channel */
    }
    job = job_of("cifar100", write_bytes("train.bin", bytes, sizeof bytes));
    job.training->data.mean = "0";
    job.training->data.std = "1";
    data = open_data("mlp", "inputs=3072 hidden=4 layers=1 classes=100", &job);
    read_samples(data, PST_SPLIT_TRAIN, 0, 1, x, &target);
    assert_int_equal(target, 42);
    assert_true(x[0] == 50 / 255.0f && x[1] == 100 / 255.0f && x[3071] == 150 / 255.0f);
    close_data(data);
}

static void write_mnist(uint32_t n)
{
    static unsigned char images[16 + 4 * 784] = {0, 0, 8, 3, [11] = 28, [15] = 28};
    unsigned char labels[8 + 4] = {0, 0, 8, 1};

    images[7] = labels[7] = (unsigned char)n;
    for (uint32_t i = 0; i < n * 784; i++) {
        images[16 + i] = (unsigned char)(i * 11 + i / 784);
    }
    for (uint32_t i = 0; i < n; i++) {
        labels[8 + i] = (unsigned char)(i + 5);
    }
    write_bytes("train-images-idx3-ubyte", images, 16 + n * 784);
    write_bytes("train-labels-idx1-ubyte", labels, 8 + n);
}

/* Labels lie beside the images. A grey image fills all channels of a larger, black one. */
TEST(test_mnist)
{
    struct pst_job job;
    struct pst_data *data;
    static float flat[784], image[32][32][3];
    int32_t target;

    write_mnist(2);
    job = job_of("mnist", support_path("train-images-idx3-ubyte"));
    data = open_data("mlp", "inputs=784 hidden=4 layers=1 classes=10", &job);
    read_samples(data, PST_SPLIT_TRAIN, 0, 1, flat, &target);
    assert_in_range(target, 5, 6);
    for (int i = 0; i < 784; i++) {
        float value = (float)(unsigned char)((i + 784 * (target - 5)) * 11 + target - 5) / 255.0f;

        assert_true(flat[i] == (value - 0.1307f) / 0.3081f);
    }
    close_data(data);
    data = open_data("resnet", RESNET32, &job);
    read_samples(data, PST_SPLIT_TRAIN, 0, 1, image, &target);
    for (int row = 0; row < 32; row++) {
        for (int column = 0; column < 32; column++) {
            bool inside = row >= 2 && row < 30 && column >= 2 && column < 30;
            int i = (row - 2) * 28 + column - 2 + 784 * (target - 5);
            float value = inside ? (float)(unsigned char)(i * 11 + target - 5) / 255.0f : 0.0f;

            for (int c = 0; c < 3; c++) {
                assert_true(image[row][column][c] == (value - 0.1307f) / 0.3081f);
            }
        }
    }
    close_data(data);
}

TEST(test_bad_mnist)
{
    static unsigned char bytes[16 + 784] = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 28};
    const char *mlp = "inputs=784 hidden=4 layers=1 classes=10";
    struct pst_job job;

    write_mnist(2);
    job = job_of("mnist", write_bytes("cut-images-idx3", bytes, sizeof bytes - 1));
    expect_failure(&job, "mlp", mlp, "input.syntax", "byte 16");
    job = job_of("mnist", write_bytes("z-images-idx3", "\x1F\x8B\x08\x00", 4));
    expect_failure(&job, "mlp", mlp, "input.syntax", "gzip file");
    bytes[2] = 0x0D;
    job = job_of("mnist", write_bytes("f-images-idx3", bytes, sizeof bytes));
    expect_failure(&job, "mlp", mlp, "input.syntax", "byte 0");
    bytes[2] = 8;
    bytes[4] = 255;
    job = job_of("mnist", write_bytes("n-images-idx3", bytes, sizeof bytes));
    expect_failure(&job, "mlp", mlp, "input.syntax", "byte 16");
    bytes[4] = 0;
    job = job_of("mnist", write_bytes("images", bytes, sizeof bytes));
    expect_failure(&job, "mlp", mlp, "config.value", "data.train_labels");
    job.training->data.train_labels = support_path("train-labels-idx1-ubyte");
    expect_failure(&job, "mlp", mlp, "input.syntax", "it has 2 labels");
    job = job_of("mnist", write_bytes("lone-images-idx3", bytes, sizeof bytes));
    expect_failure(&job, "mlp", mlp, "input.path", "cannot open");
}

/* --- which model, which keys ------------------------------------------------------------------ */

TEST(test_misfits)
{
    unsigned char bytes[512];
    struct pst_job job =
        job_of("tokens", write_bytes("t.bin", bytes, put_tokens(bytes, 0, 2, 300)));

    expect_failure(&job, "mlp", MLP, "config.value", "data.kind = \"tokens\"");
    job.training->data.mean = "1";
    expect_failure(&job, "gpt", "layers=1 dim=8 heads=1 context=4", "config.value", "data.mean");
    job = npy_job(write_npy("x.npy", 1, X_HEADER, x_values, sizeof x_values),
                  write_npy("y.npy", 1, Y_HEADER, y_values, sizeof y_values));
    expect_failure(&job, "dlrm", "", "config.value", "one input");
    job.training->data.tokenizer = "t.json";
    expect_failure(&job, "mlp", MLP, "config.value", "data.tokenizer");
    job.training->data.kind = "synthetic"; /* needs nothing and minds nothing */
    close_data(open_data("mlp", MLP, &job));
}

/* Text by a tokenizer: the tokens are those of the recorded cases ("a" and a newline). */
TEST(test_tokenized_text)
{
    struct pst_job job = job_of("text", support_write("t.txt", "aaaa\n"));
    struct pst_data *data;
    int32_t x[CONTEXT], targets[CONTEXT];

    job.training->data.tokenizer = PENSTOCK_SOURCE_DIR "/tests/data/tokenizer/gpt2.json";
    data = open_data("gpt", "layers=1 dim=8 heads=1 context=4 vocab=500", &job);
    assert_int_equal(pst_data_samples(data, PST_SPLIT_TRAIN), 1);
    read_samples(data, PST_SPLIT_TRAIN, 0, 1, x, targets);
    for (int t = 0; t < CONTEXT; t++) {
        assert_int_equal(x[t], 66);
        assert_int_equal(targets[t], t < 3 ? 66 : 200);
    }
    assert_ptr_equal(pst_data_tokenizer(data), data->tokenizer);
    close_data(data);
    expect_failure(&job, "gpt", "layers=1 dim=8 heads=1 context=4 vocab=300", "config.value",
                   "332 tokens");
    job.training->data.train = support_write("u.txt", "aaa\xFF");
    expect_failure(&job, "gpt", "layers=1 dim=8 heads=1 context=4 vocab=500", "input.syntax",
                   "byte 3 is not UTF-8");
}

TEST_GROUP(support_begin, support_end)
