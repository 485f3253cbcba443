/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of the cuda device at the sizes of GPT-2 and of Llama 3 against the plain C kernels;
 * attention also against the simple way on the same device.
 */
#define RIG_FAR_BYTES (512u << 20)
#include "pair.h"

/* ids: how many tokens there are, 0: any of the table. */
struct size_case {
    struct rig_case test;
    uint64_t ids;
};

#define SIZE(title, n, inputs, params, sum, ...)                                                   \
    {                                                                                              \
        .test = {                                                                                  \
            .name = title,                                                                         \
            .op = {__VA_ARGS__},                                                                   \
            .samples = n,                                                                          \
            .in = inputs,                                                                          \
            .param = params,                                                                       \
            .depth = sum                                                                           \
        }                                                                                          \
    }
#define TOKENS(title, n_ids)                                                                       \
    {                                                                                              \
        .test = {.name = title,                                                                    \
                 .op = {.kind = PST_OP_EMBEDDING},                                                 \
                 .samples = 16,                                                                    \
                 .in = "1024",                                                                     \
                 .param = "50304x256, 1024x256",                                                   \
                 .depth = 16384},                                                                  \
        .ids = n_ids                                                                               \
    }

static const struct size_case cases[] = {
    SIZE("layernorm 16384x768", 16, "1024x768", "768, 768", 16384, .kind = PST_OP_LAYERNORM,
         .eps = 1e-5f),
    SIZE("layernorm 1100x4096", 1, "1100x4096", "4096, 4096", 4096, .kind = PST_OP_LAYERNORM,
         .eps = 1e-5f),
    SIZE("rmsnorm 16384x768", 16, "1024x768", "768", 16384, .kind = PST_OP_RMSNORM, .eps = 1e-6f),
    SIZE("cross-entropy 8x50304", 2, "4x50304, 4", "", 50304, .kind = PST_OP_CROSS_ENTROPY),
    SIZE("cross-entropy 8x50257", 2, "4x50257, 4", "", 50257, .kind = PST_OP_CROSS_ENTROPY),
    TOKENS("embedding, any token", 0),
    TOKENS("embedding, 7 tokens", 7),
    TOKENS("embedding, 1 token", 1),
    SIZE("attention 1x2x1024x64", 1, "1024x384", "", 1088, .kind = PST_OP_ATTENTION, .heads = 2,
         .causal = true),
    SIZE("attention 1x4x512x64, 1 key head, window of 300", 1, "512x384", "", 2112,
         .kind = PST_OP_ATTENTION, .heads = 4, .kv_heads = 1, .causal = true, .window = 300),
    SIZE("rotary 2048x40x128 of 6144", 1, "2048x6144", "", 2, .kind = PST_OP_ROTARY, .heads = 40,
         .head_dim = 128, .rope = {PST_ROPE_LLAMA3, 500000, 8, 1, 4, 8192}),
    SIZE("qknorm 2048x40x128 of 6144", 1, "2048x6144", "128, 128", 65536, .kind = PST_OP_QKNORM,
         .heads = 32, .kv_heads = 8, .eps = 1e-6f),
    SIZE("glu 512x14336", 1, "512x28672", "", 2, .kind = PST_OP_GLU, .act = PST_ACT_SILU),
    SIZE("router, 8 of 128", 2, "1024x128", "", 128, .kind = PST_OP_ROUTER, .experts_per_token = 8,
         .normalize = true, .capacity = 1, .aux_loss = 0.01f),
    SIZE("experts, 2 of 8", 1, "256x256, 256x8", "8x256x384, 8x192x256", 384,
         .kind = PST_OP_EXPERTS, .experts_per_token = 2, .act = PST_ACT_SILU),
};

/* All heads of a micro-batch of GPT-2; where a card's cores are imitated, a piece of them. */
static const struct rig_case whole = {.name = "attention 16x12x1024x64",
                                      .op = {.kind = PST_OP_ATTENTION, .heads = 12, .causal = true},
                                      .samples = 16,
                                      .in = "1024x2304",
                                      .param = "",
                                      .depth = 1088};

enum { N_CASES = sizeof cases / sizeof cases[0] };

static void prepare(struct rig *rig, const struct size_case *size, uint32_t dtype)
{
    rig_init(rig, &size->test, dtype, 20240229);
    for (uint64_t i = 0; size->ids > 0 && i < rig->x[0].elems; i++) {
        const uint64_t entries = rig->graph->params[rig->op->param[0]].dims[0];

        rig_set(&rig->x[0], i,
                (double)(pst_philox(1, 2, i).v[0] % size->ids * (entries / size->ids)));
    }
}

static void check(const struct size_case *size, uint32_t dtype)
{
    struct rig expected, found;

    prepare(&expected, size, dtype);
    prepare(&found, size, dtype);
    expected.with_add = found.with_add = dtype == PST_BF16;
    compare(cpu_ops, plain, &expected, &found);
    rig_finish(&expected);
    rig_finish(&found);
}

static void f32(void **state)
{
    check(*state, PST_F32);
}

static void bf16(void **state)
{
    check(*state, PST_BF16);
}

/* The same call twice makes the same bits. */
static void again(void **state)
{
    struct rig first, second;

    rig_ops = cuda_ops;
    prepare(&first, *state, PST_BF16);
    prepare(&second, *state, PST_BF16);
    rig_run(&first, cuda);
    rig_run(&second, cuda);
    assert_true(rig_same_bits(&first, &second));
    rig_finish(&first);
    rig_finish(&second);
}

static void simple(void **state)
{
    const struct pst_device_config config = {.threads = 1, .kernels = "simple"};
    struct pst_device *other = NULL;
    struct rig expected, found;
    struct rig_case test = whole;

    if (on_host) {
        test.samples = 2;
        test.in = "1024x192";
        test.op.heads = 1;
    }
    assert_int_equal(cuda_ops->open(&config, &other, NULL), PST_OK);
    rig_init(&expected, &test, PST_BF16, 3);
    rig_init(&found, &test, PST_BF16, 3);
    compare(cuda_ops, other, &expected, &found);
    rig_finish(&expected);
    rig_finish(&found);
    cuda_ops->close(other);
    cuda_ops->enter(cuda);
}

int main(int argc, char **argv)
{
    void (*const functions[])(void **) = {f32, bf16, again};
    const char *const suffixes[] = {"f32", "bf16", "twice"};
    static struct CMUnitTest tests[3 * N_CASES + 1];
    static char names[3 * N_CASES][64];
    const int code = start(argc, argv);
    size_t n = 0;

    if (code != 0) {
        return code;
    }
    for (; n < 3 * N_CASES; n++) {
        snprintf(names[n], sizeof names[n], "%s, %s", cases[n / 3].test.name, suffixes[n % 3]);
        tests[n] = (struct CMUnitTest){names[n], functions[n % 3], NULL, NULL,
                                       (void *)(uintptr_t)&cases[n / 3]};
    }
    tests[n++] = (struct CMUnitTest){"attention, the simple way", simple, NULL, NULL, NULL};
    return _cmocka_run_group_tests("cuda kernels at real sizes", tests, n, open_both, close_both);
}
