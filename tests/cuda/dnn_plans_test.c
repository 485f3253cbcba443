/* SPDX-License-Identifier: Apache-2.0
 *
 * Every operation graph that the cuda device gives to cuDNN, given to the real library for a GPU
 * that a file describes: there is a kernel for it, the workspace that is told before it is compiled
 * is enough, and it is what it has to be. Run over a driver that does nothing, without a GPU;
 * skipped where the library is missing.
 *   dnn_plans_test GPU.json GROUP
 */
#include "test.h"

#include "device/cuda/dnn_plan.h"

static struct pst_dnn *dnn;

enum { PROPOSE = 1, COMPILE = 2 };

/* Bytes of workspace; fails the test where there is no plan. */
static uint64_t plan_bytes(const struct pst_dnn_graph *graph, int how, const char *what)
{
    char why[256] = "";
    struct pst_dnn_plan *plan = pst_dnn_plan_create(dnn, graph, why, sizeof why);
    uint64_t bytes;

    if (plan == NULL || (how == COMPILE && !pst_dnn_plan_compile(plan, why, sizeof why))) {
        pst_dnn_plan_destroy(plan);
        fail_msg("%s: %s", what, why);
    }
    bytes = pst_dnn_plan_bytes(plan);
    pst_dnn_plan_destroy(plan);
    return bytes;
}

/* --- attention ---------------------------------------------------------------------------------*/

static struct pst_dnn_attention packed(uint64_t batch, uint64_t heads, uint64_t rows,
                                       uint64_t depth)
{
    return (struct pst_dnn_attention){
        .batch = batch,
        .heads = heads,
        .kv_heads = heads,
        .rows = rows,
        .keys = rows,
        .depth = depth,
        .q_stride = 3 * heads * depth,
        .kv_stride = 3 * heads * depth,
        .o_stride = heads * depth,
        .scale = 0.125f,
        .causal = true,
        .ordered = true,
    };
}

/*
 * Forward keeps nothing of the size of the scores. Backward in order keeps their slopes, bf16, rows
 * and keys rounded up to its blocks of 128; without order nothing
 * of that size either, for sums and deltas are operands. Where heads share keys it keeps what each
 * head adds to their gradients, bf16.
 */
static void check_attention(const struct pst_dnn_attention *a, int how)
{
    const uint64_t scores =
        2 * a->batch * a->heads * ((a->rows + 127) / 128 * 128) * ((a->keys + 127) / 128 * 128);
    const uint64_t parts =
        a->heads == a->kv_heads ? 0 : 4 * a->batch * a->heads * a->keys * a->depth;
    struct pst_dnn_graph graph;
    char what[160];
    uint64_t forward, backward;

    snprintf(what, sizeof what,
             "%llu samples, %llu heads of %llu, %llu of keys, %llu rows, %llu keys, %s %llu, %s",
             (unsigned long long)a->batch, (unsigned long long)a->heads,
             (unsigned long long)a->depth, (unsigned long long)a->kv_heads,
             (unsigned long long)a->rows, (unsigned long long)a->keys,
             a->causal ? "causal" : "all keys", (unsigned long long)a->window,
             a->ordered ? "ordered" : "unordered");
    pst_dnn_attention_forward(a, &graph);
    forward = plan_bytes(&graph, how, what);
    pst_dnn_attention_backward(a, &graph);
    backward = plan_bytes(&graph, how, what);
    print_message("%s: %llu, %llu bytes\n", what, (unsigned long long)forward,
                  (unsigned long long)backward);
    assert_true(forward <= 4096);
    assert_true(backward <= parts + (a->ordered ? scores + 4096 : 4096));
}

/* What forward made is made once more where it is recomputed, so its sums have one order whatever
   those of backward have. */
TEST(attention_can_be_replayed)
{
    struct pst_dnn_attention a = packed(1, 2, 128, 64);
    struct pst_dnn_graph graph;

    for (int i = 0; i < 2; i++) {
        a.ordered = i == 0;
        pst_dnn_attention_forward(&a, &graph);
        assert_true(graph.ordered);
        pst_dnn_attention_backward(&a, &graph);
        assert_int_equal(graph.ordered, a.ordered);
    }
}

/* Compiling takes a second for each: the corners of what models have. */
TEST(attention_compiles)
{
    struct pst_dnn_attention a = packed(2, 12, 1024, 64);

    check_attention(&a, COMPILE);
}

TEST(attention_compiles_otherwise)
{
    struct pst_dnn_attention a = packed(1, 3, 1000, 40);

    a.causal = a.ordered = false;
    check_attention(&a, COMPILE);
}

/* Keys are shared by four heads; a window. */
TEST(attention_of_groups_compiles)
{
    struct pst_dnn_attention a = packed(2, 8, 1024, 128);

    a.kv_heads = 2;
    a.q_stride = a.kv_stride = (8 + 2 * 2) * 128;
    check_attention(&a, COMPILE);
    a.window = 256;
    check_attention(&a, COMPILE);
}

TEST(attention_to_others_compiles)
{
    struct pst_dnn_attention a = packed(2, 4, 128, 128);

    a.keys = 192;
    a.q_stride = a.o_stride;
    a.kv_stride = 2 * a.o_stride;
    a.causal = false;
    check_attention(&a, COMPILE);
}

/* Everything else only has to be proposed. */
TEST(attention_of_all_sizes)
{
    static const uint64_t depths[] = {32, 40, 64, 80, 96, 128};
    static const uint64_t rows[] = {128, 197, 512, 1000, 1024, 2048};
    static const uint64_t kv_heads[] = {6, 3, 1};

    for (size_t d = 0; d < sizeof depths / sizeof depths[0]; d++) {
        for (size_t s = 0; s < sizeof rows / sizeof rows[0]; s++) {
            struct pst_dnn_attention a = packed(2, 6, rows[s], depths[d]);

            a.causal = (d + s) % 2 == 0;
            a.window = a.causal && s % 3 == 1 ? 100 : 0;
            a.kv_heads = kv_heads[(d + s / 2) % 3];
            a.q_stride = a.kv_stride = (6 + 2 * a.kv_heads) * a.depth;
            a.ordered = (d / 2 + s) % 2 == 0;
            check_attention(&a, PROPOSE);
        }
    }
}

/* --- convolution -------------------------------------------------------------------------------*/

static struct pst_dnn_conv conv(uint64_t samples, uint32_t size, uint64_t in, uint64_t out,
                                uint32_t kernel, uint32_t stride)
{
    struct pst_dnn_conv c = {.samples = samples, .in = in, .out = out};

    for (uint32_t i = 0; i < 2; i++) {
        c.window.in[i] = size;
        c.window.kernel[i] = kernel;
        c.window.stride[i] = stride;
        c.window.pad[i] = kernel / 2;
        c.window.out[i] = (size + 2 * (kernel / 2) - kernel) / stride + 1;
    }
    return c;
}

static void check_conv(struct pst_dnn_conv c, uint32_t kind, int how)
{
    static const char *const names[] = {"forward", "to the input", "to the filter"};
    struct pst_dnn_graph graph;
    char what[128];

    snprintf(what, sizeof what, "%llu to %llu channels, %ux%u, %ux%u s%u, %s%s, %s",
             (unsigned long long)c.in, (unsigned long long)c.out, c.window.in[0], c.window.in[1],
             c.window.kernel[0], c.window.kernel[1], c.window.stride[0],
             c.bf16   ? "bf16"
             : c.tf32 ? "tf32"
                      : "f32",
             c.bias ? ", bias" : "", names[kind - PST_DNN_CONV]);
    pst_dnn_conv_graph(&c, kind, &graph);
    print_message("%s: %llu bytes\n", what, (unsigned long long)plan_bytes(&graph, how, what));
}

/* The windows of residual networks on photographs, and of small images. */
TEST(conv_of_all_sizes)
{
    const struct pst_dnn_conv shapes[] = {
        conv(8, 224, 3, 64, 7, 2),   conv(8, 56, 64, 64, 3, 1),     conv(8, 56, 256, 512, 1, 2),
        conv(8, 56, 128, 128, 3, 2), conv(8, 28, 128, 128, 3, 1),   conv(8, 28, 512, 1024, 1, 2),
        conv(8, 14, 256, 256, 3, 1), conv(8, 14, 1024, 2048, 1, 2), conv(8, 7, 512, 512, 3, 1),
        conv(32, 32, 3, 16, 3, 1),   conv(32, 32, 16, 16, 3, 1),    conv(5, 17, 24, 40, 5, 1),
    };

    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (uint32_t kind = PST_DNN_CONV; kind <= PST_DNN_CONV_B; kind++) {
            struct pst_dnn_conv c = shapes[i];

            check_conv(c, kind, COMPILE); /* f32: nothing of it is compiled at run time */
            c.tf32 = true;
            check_conv(c, kind, PROPOSE);
            c.tf32 = false;
            c.bf16 = true;
            if (kind != PST_DNN_CONV_B) {
                check_conv(c, kind, COMPILE);
            } else if (c.in % 8 == 0 && c.out % 8 == 0) {
                check_conv(c, kind, PROPOSE);
            }
        }
    }
}

TEST(conv_filter_compiles)
{
    struct pst_dnn_conv c = conv(8, 28, 128, 128, 3, 1);

    c.bf16 = true;
    check_conv(c, PST_DNN_CONV_B, COMPILE);
}

TEST(conv_bias_compiles)
{
    struct pst_dnn_conv c = conv(8, 28, 128, 128, 3, 1);

    c.bias = true;
    check_conv(c, PST_DNN_CONV, COMPILE);
    c.bf16 = true;
    check_conv(c, PST_DNN_CONV, COMPILE);
}

/* --- refusals ----------------------------------------------------------------------------------*/

/* What the library cannot do is told with its reason, and the next graph is none the worse. */
TEST(refusals)
{
    struct pst_dnn_attention a = packed(1, 2, 64, 20); /* heads of no multiple of 8 */
    struct pst_dnn_graph graph;
    char why[256] = "";

    pst_dnn_attention_forward(&a, &graph);
    assert_null(pst_dnn_plan_create(dnn, &graph, why, sizeof why));
    assert_true(strlen(why) > 10);
    a = packed(1, 2, 128, 64);
    check_attention(&a, PROPOSE);
}

/* Only a machine without the library, or with too old a one, may skip. */
static bool is_missing(const char *why)
{
    return (strncmp(why, "no cuDNN: ", 10) == 0 && strstr(why, "cannot open") != NULL) ||
           strstr(why, " is too old") != NULL;
}

/* 0, or the exit code where there is nothing to test with. */
static int open_gpu(const char *path)
{
    static char text[4096];
    const char *sms = getenv("PENSTOCK_TEST_SMS"); /* of a part of it */
    char why[256] = "";
    FILE *file = fopen(path, "r");

    if (file == NULL) {
        print_error("%s cannot be read\n", path);
        return 1;
    }
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    dnn = pst_dnn_open(NULL, text, sms == NULL ? 0 : (uint32_t)atoi(sms), why, sizeof why);
    if (dnn != NULL) {
        return 0;
    }
    print_error("%s%s\n", is_missing(why) ? "skipped: " : "", why);
    return is_missing(why) ? 77 : 1;
}

int main(int argc, char **argv)
{
    int failed;

    if (argc != 3) {
        print_error("usage: %s GPU.json GROUP\n", argv[0]);
        return 1;
    }
    failed = open_gpu(argv[1]);
    if (failed != 0) {
        return failed;
    }
    cmocka_set_test_filter(argv[2]);
    failed = run_own_tests(NULL, NULL);
    pst_dnn_close(dnn);
    return failed;
}
