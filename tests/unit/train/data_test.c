/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of texts and of made-up data: windows, splits, patterns of files, what is refused.
 */
#include "test.h"

#include "data/data.h"
#include "unit/graph/model_support.h"
#include "support.h"

#define CONTEXT 8

static struct pst_graph *make_gpt(void)
{
    return make_model("gpt", "layers=1 dim=8 heads=1 context=8 vocab=256", PST_F32);
}

/* Position i holds a value that tells i (0 ... 249): windows can be recognised. */
static const char *write_ramp(const char *name, int n)
{
    static char text[256];

    for (int i = 0; i < n; i++) {
        text[i] = (char)(i + 1);
    }
    text[n] = '\0';
    return support_write(name, text);
}

static struct pst_training training;

static struct pst_job text_job(const char *train, const char *valid, double fraction)
{
    struct pst_job job = {.training = &training};

    memset(&training, 0, sizeof training);
    job.training->loop.ignore_index = -1;
    job.training->data.kind = "text";
    job.training->data.train = train;
    job.training->data.valid = valid;
    job.training->data.valid_fraction = fraction;
    job.training->data.seed = 3;
    return job;
}

/* An epoch over 101 bytes: 12 windows would fit, one is given up for the offset. Each is a stretch
   of the text, targets follow by one, no two overlap in more than a border. */
TEST(test_windows)
{
    struct pst_graph *graph = make_gpt();
    struct pst_job job = text_job(write_ramp("ramp", 101), "", 0.0);
    struct pst_data *data = NULL;
    struct pst_error err = {0};
    int32_t x[CONTEXT], targets[CONTEXT];
    int first_offset = -1, offsets_differ = 0;

    assert_ok(pst_data_create(&job, graph, &data, &err), &err);
    assert_int_equal(pst_data_samples(data, PST_SPLIT_TRAIN), 11);
    assert_int_equal(pst_data_samples(data, PST_SPLIT_VALID), 0);
    for (uint64_t epoch = 0; epoch < 20; epoch++) {
        int seen[16] = {0}, offset = -1;

        for (uint64_t i = 0; i < 11; i++) {
            assert_ok(pst_data_read(data, PST_SPLIT_TRAIN, epoch * 11 + i, 1,
                                    (void *[]){x, targets}, &err),
                      &err);
            for (int t = 0; t < CONTEXT; t++) {
                assert_int_equal(x[t], x[0] + t);
                assert_int_equal(targets[t], x[t] + 1);
            }
            if (offset < 0) {
                offset = (x[0] - 1) % CONTEXT;
            }
            assert_int_equal((x[0] - 1) % CONTEXT, offset);
            assert_int_equal(seen[(x[0] - 1) / CONTEXT], 0);
            seen[(x[0] - 1) / CONTEXT] = 1;
        }
        first_offset = epoch == 0 ? offset : first_offset;
        offsets_differ |= offset != first_offset;
    }
    assert_true(offsets_differ);
    pst_data_destroy(data);
    pst_graph_destroy(graph);
}

/* One call for many samples reads what many calls for one do. */
TEST(test_function_of_index)
{
    struct pst_graph *graph = make_gpt();
    struct pst_job job = text_job(write_ramp("ramp2", 200), "", 0.0);
    struct pst_data *data = NULL;
    struct pst_error err = {0};
    int32_t x[40][CONTEXT], targets[40][CONTEXT], one_x[CONTEXT], one_targets[CONTEXT];

    assert_ok(pst_data_create(&job, graph, &data, &err), &err);
    assert_ok(pst_data_read(data, PST_SPLIT_TRAIN, 5, 40, (void *[]){x, &targets[0][0]}, &err),
              &err);
    for (uint64_t i = 40; i-- > 0;) {
        assert_ok(
            pst_data_read(data, PST_SPLIT_TRAIN, 5 + i, 1, (void *[]){one_x, one_targets}, &err),
            &err);
        assert_memory_equal(x[i], one_x, sizeof one_x);
        assert_memory_equal(targets[i], one_targets, sizeof one_targets);
    }
    pst_data_destroy(data);
    pst_graph_destroy(graph);
}

/* A fifth of 200 bytes: 40 held out, five windows less one byte: (40 - 1) / 8 = 4. Training never
   sees them. */
TEST(test_held_out)
{
    struct pst_graph *graph = make_gpt();
    struct pst_job job = text_job(write_ramp("ramp3", 200), "", 0.2);
    struct pst_data *data = NULL;
    struct pst_error err = {0};
    int32_t x[CONTEXT], targets[CONTEXT];

    assert_ok(pst_data_create(&job, graph, &data, &err), &err);
    assert_int_equal(pst_data_samples(data, PST_SPLIT_VALID), 4);
    for (uint64_t i = 0; i < 4; i++) {
        assert_ok(pst_data_read(data, PST_SPLIT_VALID, i, 1, (void *[]){x, targets}, &err), &err);
        assert_int_equal(x[0], 161 + 8 * (int)i);
    }
    for (uint64_t i = 0; i < 400; i++) {
        assert_ok(pst_data_read(data, PST_SPLIT_TRAIN, i, 1, (void *[]){x, targets}, &err), &err);
        assert_true(targets[CONTEXT - 1] <= 160);
    }
    pst_data_destroy(data);
    pst_graph_destroy(graph);
}

/* Files in sorted order whatever the list says; a link to a file and a second mention add nothing;
   a glob that matches nothing is passed over beside one that does. */
TEST(test_files)
{
    struct pst_graph *graph = make_gpt();
    char patterns[512], link_path[64];
    struct pst_job job;
    struct pst_data *data = NULL;
    struct pst_error err = {0};
    int32_t x[CONTEXT], targets[CONTEXT];

    support_write("m-b", "bbbbbbbbbb");
    support_write("m-a", "aaaaaaaaaa");
    support_write("m-empty", "");
    snprintf(link_path, sizeof link_path, "%s/m-link", support_folder);
    assert_int_equal(symlink("m-a", link_path), 0);
    snprintf(patterns, sizeof patterns, "%s/nothing-*:%s/m-*:%s/m-b", support_folder,
             support_folder, support_folder);
    /* All of it held out but one window: 20 bytes, held 11, in order and not shuffled. */
    job = text_job(patterns, "", 0.55);
    assert_ok(pst_data_create(&job, graph, &data, &err), &err);
    assert_ok(pst_data_read(data, PST_SPLIT_VALID, 0, 1, (void *[]){x, targets}, &err), &err);
    assert_int_equal(x[0], 'a');
    assert_int_equal(x[1], 'b');
    assert_int_equal(x[7], 'b');
    pst_data_destroy(data);
    pst_graph_destroy(graph);
}

static void expect_failure(struct pst_job job, const char *kind, const char *words)
{
    struct pst_graph *graph = make_gpt();
    struct pst_data *data = NULL;
    struct pst_error err = {0};

    assert_int_not_equal(pst_data_create(&job, graph, &data, &err), PST_OK);
    assert_null(data);
    assert_string_equal(err.kind, kind);
    assert_int_equal(pst_error_exit_code(&err), 2);
    if (strstr(err.message, words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.message, words);
    }
    pst_graph_destroy(graph);
}

TEST(test_errors)
{
    char pattern[64];

    expect_failure(text_job("/nonexistent/a.txt", "", 0), "input.path", "/nonexistent/a.txt");
    expect_failure(text_job("/nonexistent/*", "", 0), "input.path", "/nonexistent/*");
    expect_failure(text_job("", "", 0), "config.value", "data.train");
    expect_failure(text_job("/tmp", "", 0), "input.path", "regular");
    expect_failure(text_job(support_write("empty", ""), "", 0), "input.syntax", "empty");
    expect_failure(text_job(support_write("short", "12345678"), "", 0), "config.value", "9");
    expect_failure(text_job(support_write("split", "1234567890123456"), "", 0.5), "config.value",
                   "held out");
    snprintf(pattern, sizeof pattern, "%s/void-*", support_folder);
    support_write("void-1", "");
    expect_failure(text_job(pattern, "", 0), "input.syntax", "files are empty");
    expect_failure(text_job(write_ramp("good", 100), "/nonexistent/v", 0), "input.path",
                   "data.valid");
}

/* Labels cover the classes; two samples of a class are more alike than two of different classes. */
TEST(test_synthetic_features)
{
    struct pst_graph *graph =
        make_model("resnet", "image=8 classes=4 width=8 stages=1 blocks=1", PST_F32);
    struct pst_job job;
    struct pst_data *data = NULL;
    struct pst_error err = {0};
    enum { N = 64, ELEMS = 8 * 8 * 3 };
    static float x[N][ELEMS], again[ELEMS];
    int32_t labels[N], label;
    double same = 0, other = 0;
    int n_same = 0, n_other = 0, counts[4] = {0};

    job = text_job(NULL, NULL, 0);
    job.training->data.kind = "synthetic";
    job.training->data.seed = 11;
    assert_ok(pst_data_create(&job, graph, &data, &err), &err);
    assert_ok(pst_data_read(data, PST_SPLIT_TRAIN, 1000, N, (void *[]){x, labels}, &err), &err);
    assert_ok(pst_data_read(data, PST_SPLIT_TRAIN, 1007, 1, (void *[]){again, &label}, &err), &err);
    assert_memory_equal(again, x[7], sizeof again);
    assert_int_equal(label, labels[7]);
    assert_ok(pst_data_read(data, PST_SPLIT_VALID, 1007, 1, (void *[]){again, &label}, &err), &err);
    assert_memory_not_equal(again, x[7], sizeof again);
    for (int i = 0; i < N; i++) {
        assert_in_range(labels[i], 0, 3);
        counts[labels[i]]++;
        for (int j = 0; j < i; j++) {
            double dot = 0;

            for (int e = 0; e < ELEMS; e++) {
                dot += (double)x[i][e] * x[j][e];
            }
            same += labels[i] == labels[j] ? dot : 0;
            other += labels[i] == labels[j] ? 0 : dot;
            n_same += labels[i] == labels[j];
            n_other += labels[i] != labels[j];
        }
    }
    /* A pattern uniform in [-1, 1) has a mean square of 1/3: dot products of about 64 within a
       class. In blocks of 4 x 4 there are 12 independent values, so other classes scatter around 0.
     */
    assert_true(same / n_same > 30.0);
    assert_true(other / n_other < same / n_same / 2);
    for (int c = 0; c < 4; c++) {
        assert_true(counts[c] > 4);
    }
    pst_data_destroy(data);
    pst_graph_destroy(graph);
}

/* Tokens in range, and most follow from the one before by one rule. */
TEST(test_synthetic_tokens)
{
    struct pst_graph *graph = make_gpt();
    struct pst_job job;
    struct pst_data *data = NULL;
    struct pst_error err = {0};
    int32_t x[100][CONTEXT], targets[100][CONTEXT];
    int followed = 0;

    job = text_job(NULL, NULL, 0);
    job.training->data.kind = "synthetic";
    job.training->data.seed = 0;
    assert_ok(pst_data_create(&job, graph, &data, &err), &err);
    assert_ok(pst_data_read(data, PST_SPLIT_TRAIN, 0, 100, (void *[]){x, &targets[0][0]}, &err),
              &err);
    for (int i = 0; i < 100; i++) {
        for (int t = 0; t < CONTEXT; t++) {
            assert_in_range(x[i][t], 0, 255);
            assert_in_range(targets[i][t], 0, 255);
            if (t > 0) {
                assert_int_equal(x[i][t], targets[i][t - 1]);
            }
            followed += targets[i][t] == (5 * x[i][t] + 7) % 256;
        }
    }
    /* 7 of 8 in expectation, of 800: standard deviation 9.4. */
    assert_in_range(followed, 650, 750);
    pst_data_destroy(data);
    pst_graph_destroy(graph);
}

TEST_GROUP(support_begin, support_end)
