/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of a linear layer's bias, on the host: it comes out of the product that makes the
 * gradient of the weights where the library is asked for it and gives it, else of the device's own
 * kernel; calls of the library that fail are told and leave nothing behind. The
 * double adds up in another order than the kernel does, so that bits tell who was at work.
 */
#include "unit/device/cpu_cases.h"
#include "unit/device/cpu_compare.h"

#include "cuda/open.h"

static struct cuda_on_host *host;

static const struct rig_case cases[] = {
    CASE("[in, out]", 3, "33x13", "13x7, 7", 99, .kind = PST_OP_LINEAR),
    CASE("[out, in]", 3, "33x13", "7x13, 7", 99, .kind = PST_OP_LINEAR, .transposed = true),
    CASE("gelu, [in, out]", 2, "65x16", "16x24, 24", 130, .kind = PST_OP_LINEAR,
         .act = PST_ACT_GELU),
    CASE("gelu, [out, in]", 2, "65x16", "24x16, 24", 130, .kind = PST_OP_LINEAR,
         .act = PST_ACT_GELU, .transposed = true),
    CASE("relu, [in, out]", 5, "30x9", "9x17, 17", 150, .kind = PST_OP_LINEAR, .act = PST_ACT_RELU),
};
enum { N_CASES = sizeof cases / sizeof cases[0], N_RIGS = 2 * N_CASES };

/* Open all the while: the rig knows a device's memory by the device's address. */
static struct pst_device *device, *usual, *simple, *rounding, *refused, *plain;

static struct pst_device *open_with(const char *kernels, bool tf32)
{
    const struct pst_device_config config = {.threads = 1, .kernels = kernels, .tf32 = tf32};
    struct pst_device *on = NULL;
    struct pst_error err = {0};

    assert_ok(rig_ops->open(&config, &on, &err), &err);
    rig_ops->enter(on);
    return on;
}

static int open_all(void **state)
{
    cuda_on_host_open(&rig_ops, &host);
    device = open_with("fused_sums", false);
    usual = open_with("auto", false);
    simple = open_with("simple", false);
    rounding = open_with("auto+fused_sums", true);
    refused = open_with("fused_sums", false);
    plain = open_with("simple", false);
    return 0;
}

static int close_all(void **state)
{
    rig_ops->close(device);
    rig_ops->close(usual);
    rig_ops->close(simple);
    rig_ops->close(rounding);
    rig_ops->close(refused);
    rig_ops->close(plain);
    return 0;
}

/* All passes; how many products summed an operand, those that were tried before not counted. */
static int run(struct rig *rig, const struct rig_case *test, uint32_t dtype, struct pst_device *on)
{
    int before;

    rig_ops->enter(on);
    rig_init(rig, test, dtype, 20251122);
    rig_run(rig, on);
    rig_finish(rig);
    before = atomic_load(&host->summing_products);
    rig_init(rig, test, dtype, 20251122);
    rig_run(rig, on);
    return atomic_load(&host->summing_products) - before;
}

static uint32_t dtype_of(uint32_t rig)
{
    return rig % 2 == 0 ? PST_F32 : PST_BF16;
}

/* Every case in both types. */
static void run_all(struct rig *rigs, struct pst_device *on, int n_sums)
{
    for (uint32_t i = 0; i < N_RIGS; i++) {
        assert_int_equal(run(&rigs[i], &cases[i / 2], dtype_of(i), on), n_sums);
    }
}

static void finish_all(struct rig *rigs)
{
    for (uint32_t i = 0; i < N_RIGS; i++) {
        rig_finish(&rigs[i]);
    }
}

static bool same(const struct rig_buffer *a, const struct rig_buffer *b)
{
    return memcmp(a->data, b->data, a->bytes) == 0;
}

/* The gradient of the bias adds up what the layer's result is told, behind its activation. */
static void check_sums(const struct rig *rig)
{
    const struct rig_buffer *dh = rig->op->act == PST_ACT_NONE ? &rig->dy : &rig->z[0];
    const uint64_t n = rig->dp[1].elems, rows = dh->elems / n;

    for (uint64_t i = 0; i < n; i++) {
        double sum = 0, magnitude = 0;

        for (uint64_t r = 0; r < rows; r++) {
            sum += rig_value(dh, r * n + i);
            magnitude += fabs(rig_value(dh, r * n + i));
        }
        /* Each of the additions rounds to half a unit at most. */
        if (!(fabs(rig_value(&rig->dp[1], i) - sum) <= (double)rows * 0x1p-24 * magnitude)) {
            fail_msg("%s, dtype %u: gradient %llu of the bias is %a, expected %a", rig->test->name,
                     rig->dtype, (unsigned long long)i, rig_value(&rig->dp[1], i), sum);
        }
    }
}

TEST(sums_come_with_the_product)
{
    struct rig with[N_RIGS], own[N_RIGS];
    int other_order = 0;

    run_all(with, device, 1);
    run_all(own, simple, 0);
    for (uint32_t i = 0; i < N_RIGS; i++) {
        check_sums(&with[i]);
        check_sums(&own[i]);
        assert_true(same(&with[i].dp[0], &own[i].dp[0]));
        other_order += !same(&with[i].dp[1], &own[i].dp[1]);
    }
    assert_true(other_order >= N_CASES);
    finish_all(with);
    finish_all(own);
}

/* Of bf16 operands only where one asks for it. */
TEST(who_sums_by_itself)
{
    struct rig by_itself, own;

    for (uint32_t i = 0; i < N_RIGS; i++) {
        assert_int_equal(run(&by_itself, &cases[i / 2], dtype_of(i), usual),
                         dtype_of(i) == PST_F32);
        run(&own, &cases[i / 2], dtype_of(i), simple);
        check_sums(&by_itself);
        if (dtype_of(i) == PST_BF16) {
            assert_true(same(&by_itself.dp[1], &own.dp[1]));
        }
        rig_finish(&by_itself);
        rig_finish(&own);
    }
}

/* The device's own kernel then makes the sums, with the bits of "simple". */
TEST(the_library_refuses)
{
    struct rig without[N_RIGS], own[N_RIGS];

    setenv("ON_HOST_PLAIN_PRODUCTS", "1", 1);
    run_all(without, refused, 0);
    run_all(own, plain, 0);
    unsetenv("ON_HOST_PLAIN_PRODUCTS");
    for (uint32_t i = 0; i < N_RIGS; i++) {
        assert_true(same(&without[i].dp[1], &own[i].dp[1]));
    }
    finish_all(without);
    finish_all(own);
}

/* What is rounded for a product shall not be for a sum; bf16 is not rounded. */
TEST(tf32_rounds_no_sums)
{
    struct rig rig;

    for (uint32_t i = 0; i < N_RIGS; i++) {
        assert_int_equal(run(&rig, &cases[i / 2], dtype_of(i), rounding), dtype_of(i) == PST_BF16);
        check_sums(&rig);
        rig_finish(&rig);
    }
}

/* One of the two gradients alone. */
TEST(only_one_is_wanted)
{
    rig_ops->enter(device);
    for (uint32_t missing = 0; missing < 2; missing++) {
        struct rig both, one;
        int before;

        rig_init(&one, &cases[3], PST_F32, 20251122);
        free(one.dp[missing].data);
        one.dp[missing].data = NULL;
        assert_int_equal(run(&both, &cases[3], PST_F32, device), 1);
        before = atomic_load(&host->summing_products);
        rig_run(&one, device);
        assert_int_equal(atomic_load(&host->summing_products) - before, 0);
        if (missing == 0) {
            check_sums(&one);
        } else {
            assert_true(same(&one.dp[0], &both.dp[0]));
        }
        rig_finish(&both);
        rig_finish(&one);
    }
}

/* --- failures --- */

static pst_status compile(struct pst_device *on, const struct rig *rig,
                          struct pst_kernel **ret_kernel, struct pst_error *err)
{
    return rig_ops->compile(on, rig->graph, rig->index, PST_KERNEL_W, rig->samples, ret_kernel,
                            err);
}

/* One that has tried nothing and allocated what B needs, too: for norms. */
static struct pst_device *open_fresh(const struct rig *rig)
{
    struct pst_device *on = open_with("fused_sums", false);
    struct pst_kernel *kernel = NULL;
    struct pst_error err = {0};

    assert_ok(
        rig_ops->compile(on, rig->graph, rig->index, PST_KERNEL_B, rig->samples, &kernel, &err),
        &err);
    kernel->destroy(kernel);
    atomic_store(&host->calls, 0);
    return on;
}

enum {
    BLAS_ALLOC_FAILED = 3,
    BLAS_INVALID_VALUE = 7,
    BLAS_ARCH_MISMATCH = 8,
    BLAS_INTERNAL = 14,
    BLAS_NOT_SUPPORTED = 15
}; /* as NVIDIA numbers them */

/* Each call that a kernel takes fails in turn, those about products with this status; how many
   kernels there were all the same. */
static int compile_failing(const struct rig *rig, int status, int n)
{
    int n_made = 0;

    host->product_fault = status;
    for (int i = 1; i <= n; i++) {
        struct pst_error err = {0};
        struct pst_kernel *kernel = NULL;
        struct pst_device *on = open_fresh(rig);

        host->fail_at = i;
        if (compile(on, rig, &kernel, &err) == PST_OK) {
            kernel->destroy(kernel);
            n_made++;
        } else if (err.status == PST_ERR_UNSUPPORTED) {
            assert_non_null(strstr(err.message, "cuBLASLt has no product of 24 x 16 x 130: "));
        } else if (strstr(err.message, "cuBLASLt failed at a product of 24 x 16 x 130: ") != NULL) {
            assert_int_equal(strstr(err.hint, "cluster.reserve") != NULL,
                             status == BLAS_ALLOC_FAILED);
        } else if (strstr(err.message, "device cuda, room to try products: ") == NULL &&
                   strstr(err.message, "device cuda, trying a product: ") == NULL) {
            fail_msg("failure %d of %d, status %d: %s", i, n, status, err.message);
        }
        assert_int_equal(host->descriptions, 0);
        host->fail_at = 0;
        rig_ops->close(on);
    }
    host->product_fault = 0;
    return n_made;
}

/* A failure is no refusal: the sums would then have another order in this run than in the next.
   Nobody needs room to try a product. Of a refusal there is a kernel, as long as it is not of what
   that takes itself. */
TEST(every_description_fails)
{
    static const int failures[] = {BLAS_ALLOC_FAILED, BLAS_INTERNAL},
                     refusals[] = {BLAS_NOT_SUPPORTED, BLAS_INVALID_VALUE, BLAS_ARCH_MISMATCH};
    struct rig rig;
    struct pst_error err = {0};
    struct pst_kernel *kernel = NULL;
    struct pst_device *on;
    int n;

    rig_init(&rig, &cases[3], PST_BF16, 1);
    on = open_fresh(&rig);
    assert_ok(compile(on, &rig, &kernel, &err), &err);
    n = atomic_load(&host->calls);
    assert_true(n > 15);
    kernel->destroy(kernel);
    rig_ops->close(on);
    assert_int_equal(host->descriptions, 0);
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        assert_int_equal(compile_failing(&rig, failures[i], n), 1);
    }
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        assert_true(compile_failing(&rig, refusals[i], n) > 1);
    }
    rig_finish(&rig);
}

/* One call of W on operands of zeros, of which the given call of the library fails; 0: none. */
static pst_status run_failing(const struct rig *rig, int fail_at, int *ret_calls,
                              struct pst_error *err)
{
    struct pst_device *on = open_with("fused_sums", false);
    struct pst_kernel *kernel = NULL;
    void *base, *o[5];
    pst_status status;

    assert_ok(rig_ops->arena(on, 1 << 20, &base, err), err);
    assert_ok(compile(on, rig, &kernel, err), err);
    assert_true(kernel->workspace_bytes <= 1 << 19);
    rig_ops->zero(on, base, 1 << 20);
    for (uint32_t i = 0; i < 5; i++) {
        o[i] = (char *)base + (1 << 19) + i * (1 << 16);
    }
    atomic_store(&host->calls, 0);
    host->fail_at = fail_at;
    kernel->run(kernel, &(struct pst_call){.x = (void *const[]){o[0]},
                                           .dy = o[1],
                                           .z = (void *const[]){o[2]},
                                           .dp = (float *const[]){o[3], o[4]},
                                           .workspace = base,
                                           .flags = PST_CALL_TRAINING});
    *ret_calls = atomic_load(&host->calls);
    host->fail_at = 0;
    status = rig_ops->sync(on, err);
    kernel->destroy(kernel);
    rig_ops->close(on);
    return status;
}

TEST(every_launch_fails)
{
    struct rig rig;
    struct pst_error err = {0};
    int n, calls;

    rig_init(&rig, &cases[3], PST_BF16, 1);
    assert_ok(run_failing(&rig, 0, &n, &err), &err);
    assert_int_equal(n, 2); /* where the sums go; the product */
    for (int i = 1; i <= n; i++) {
        memset(&err, 0, sizeof err);
        assert_int_not_equal(run_failing(&rig, i, &calls, &err), PST_OK);
        assert_non_null(strstr(err.message, "op")); /* the operator */
        assert_int_equal(host->descriptions, 0);
    }
    rig_finish(&rig);
}

TEST_GROUP(open_all, close_all)
