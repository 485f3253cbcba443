/* SPDX-License-Identifier: Apache-2.0
 *
 * Every kernel of the cuda device against the plain C kernels, and the work around the step against
 * the cpu device, bit by bit.
 */
#include "pair.h"
#include "unit/device/cpu_cases.h"

/* --- operators ---------------------------------------------------------------------------------*/

static void check(const struct rig_case *test, uint32_t dtype, uint32_t flags, bool with_add)
{
    struct rig expected, found;

    rig_init(&expected, test, dtype, 20240229);
    rig_init(&found, test, dtype, 20240229);
    expected.flags = found.flags = flags;
    expected.with_add = found.with_add = with_add;
    expected.add_in_place = found.add_in_place = with_add && dtype == PST_BF16;
    compare(cpu_ops, plain, &expected, &found);
    rig_finish(&expected);
    rig_finish(&found);
}

static void f32(void **state)
{
    check(*state, PST_F32, PST_CALL_TRAINING, false);
}

static void bf16(void **state)
{
    check(*state, PST_BF16, PST_CALL_TRAINING, true);
}

static void evaluation(void **state)
{
    check(*state, PST_F32, 0, true);
}

/* Of operators that do something else then. */
static bool has_modes(const struct rig_case *test)
{
    return test->op.p > 0 || test->op.kind == PST_OP_BATCHNORM;
}

/* The same call twice makes the same bits. */
static void again(void **state)
{
    struct rig first, second;

    for (uint32_t dtype = PST_F32; dtype <= PST_BF16; dtype++) {
        rig_ops = cuda_ops;
        rig_init(&first, *state, dtype, 4);
        rig_init(&second, *state, dtype, 4);
        rig_run(&first, cuda);
        rig_run(&second, cuda);
        assert_true(rig_same_bits(&first, &second));
        rig_finish(&first);
        rig_finish(&second);
    }
}

/* Tokens that are out of range have no gradient. */
static void no_entry(void **state)
{
    static const struct rig_case test =
        CASE("no entry", 2, "150", "3x8", 300, .kind = PST_OP_EMBEDDING);
    struct rig expected, found;

    rig_init(&expected, &test, PST_F32, 6);
    rig_init(&found, &test, PST_F32, 6);
    for (uint64_t i = 0; i < expected.x[0].elems; i += 7) {
        rig_set(&expected.x[0], i, i % 2 == 0 ? -1 : 3);
        rig_set(&found.x[0], i, i % 2 == 0 ? -1 : 3);
    }
    check_pass(cpu_ops, plain, &expected, &found, PST_KERNEL_W);
    rig_finish(&expected);
    rig_finish(&found);
}

enum { LONG = 1024, NARROW = 64 }; /* of the sums; of the results */

/* The largest error of a product, in parts of the sum of the magnitudes of its terms. */
static double worst_error(const struct rig *rig, uint32_t pass)
{
    const bool forward = pass == PST_KERNEL_F;
    const float *a = rig->x[0].data, *b = forward ? rig->p[0].data : rig->dy.data;
    const float *found = forward ? rig->y[0].data : rig->dp[0].data;
    double worst = 0;

    for (uint64_t i = 0; i < LONG * NARROW; i++) {
        const uint64_t row = i / NARROW, c = i % NARROW;
        double sum = 0, most = 0;

        for (uint64_t k = 0; k < LONG; k++) {
            const double term =
                (double)a[forward ? row * LONG + k : k * LONG + row] * (double)b[k * NARROW + c];

            sum += term;
            most += fabs(term);
        }
        worst = fmax(worst, fabs(sum - (double)found[i]) / most);
    }
    return worst;
}

/* What stands before a gelu is kept for training only; the result has the same bits without. */
static void not_kept(void **state)
{
    static const struct rig_case test =
        CASE("not kept", 2, "37x24", "24x16, 16", 24, .kind = PST_OP_LINEAR, .act = PST_ACT_GELU);
    struct rig training, evaluating;
    void *kept;

    rig_init(&training, &test, PST_BF16, 3);
    rig_init(&evaluating, &test, PST_BF16, 3);
    kept = evaluating.y[1].data;
    evaluating.y[1].data = NULL;
    on(cuda_ops, cuda, &training, PST_KERNEL_F);
    on(cuda_ops, cuda, &evaluating, PST_KERNEL_F);
    assert_true(rig_same(&training.y[0], &evaluating.y[0]));
    evaluating.y[1].data = kept;
    rig_finish(&training);
    rig_finish(&evaluating);
}

/* A row for each: NaN is no largest value, -inf counts nothing, a row without a target nothing at
   all, whatever its logits are; a target that is no class makes the loss NaN. */
enum { N_SPECIAL = 6, N_CLASSES = 301 };

static void set_special(struct rig *rig)
{
    for (uint32_t row = 0; row < N_SPECIAL; row++) {
        rig_set(&rig->x[1], row, row == 3 ? -1 : row == 4 ? N_CLASSES : 7);
    }
    rig_set(&rig->x[0], 5, (double)NAN);
    rig_set(&rig->x[0], N_CLASSES + 8, (double)-INFINITY);
    for (uint32_t c = 0; c < N_CLASSES; c++) {
        rig_set(&rig->x[0], 2 * N_CLASSES + c, c == 7 ? 1 : (double)-INFINITY);
    }
    rig_set(&rig->x[0], 3 * N_CLASSES + 300, (double)NAN);
    rig_set(&rig->x[0], 5 * N_CLASSES, (double)INFINITY);
}

static void same_special(const struct rig *rig, const char *what, const struct rig_buffer *expected,
                         const struct rig_buffer *found)
{
    for (uint64_t i = 0; i < expected->elems; i++) {
        const double e = rig_value(expected, i), f = rig_value(found, i);

        if (isnan(e) != isnan(f) || isinf(e) != isinf(f) ||
            fabs(e - f) > rig_tolerance(rig, expected) * fmax(1, fabs(e))) {
            fail_msg("%s[%llu]: expected %g, found %g", what, (unsigned long long)i, e, f);
        }
    }
}

static void special(void **state)
{
    static const struct rig_case test =
        CASE("special logits", N_SPECIAL, "1x301, 1", "", 301, .kind = PST_OP_CROSS_ENTROPY);
    struct rig expected, found;

    for (uint32_t dtype = PST_F32; dtype <= PST_BF16; dtype++) {
        rig_init(&expected, &test, dtype, 5);
        rig_init(&found, &test, dtype, 5);
        set_special(&expected);
        set_special(&found);
        on(cpu_ops, plain, &expected, PST_KERNEL_F);
        on(cuda_ops, cuda, &found, PST_KERNEL_F);
        same_special(&expected, "loss", &expected.y[0], &found.y[0]);
        same_special(&expected, "log of the sum", &expected.y[1], &found.y[1]);
        on(cpu_ops, plain, &expected, PST_KERNEL_B);
        on(cuda_ops, cuda, &found, PST_KERNEL_B);
        same_special(&expected, "gradient", &expected.dx[0], &found.dx[0]);
        rig_finish(&expected);
        rig_finish(&found);
    }
}

/* Operands of products are rounded to 11 bits, half a unit of the last at most, and only there: a
   sum of K terms of two such is off by K units at worst. */
static void tf32(void **state)
{
    static const struct rig_case test =
        CASE("tf32", 2, "512x1024", "1024x64", LONG, .kind = PST_OP_LINEAR);
    const struct pst_device_config config = {.threads = 1, .kernels = "auto", .tf32 = true};
    struct pst_device *rounding = NULL;
    struct rig rig;

    assert_int_equal(cuda_ops->open(&config, &rounding, NULL), PST_OK);
    rig_init(&rig, &test, PST_F32, 77);
    for (uint32_t pass = PST_KERNEL_F; pass <= PST_KERNEL_W; pass += PST_KERNEL_W) {
        double exact, rounded;

        on(cuda_ops, cuda, &rig, pass);
        exact = worst_error(&rig, pass);
        on(cuda_ops, rounding, &rig, pass);
        rounded = worst_error(&rig, pass);
        assert_true(rounded <= 0x1p-10);
        assert_true(rounded > 16 * exact); /* else it was not TF32 */
    }
    rig_finish(&rig);
    cuda_ops->close(rounding);
    cuda_ops->enter(cuda);
}

/* --- a sum and the norm of it ------------------------------------------------------------------*/

/* Where the norm goes: somewhere else, where the sum's second operand was, there but one value on;
   its standard deviations into an operand. */
enum place { ELSEWHERE, THERE, BESIDE, INTO, PLACES };

struct pair {
    struct rig sum, norm;
    char *x[2], *s, *p[2], *y[3]; /* on the device */
    struct pst_kernel *kernels[2];
};

static char *put(char **at, const struct rig_buffer *buffer)
{
    char *far = *at;

    if (buffer->data != NULL) {
        cuda_ops->upload(cuda, far, buffer->data, buffer->bytes);
        *at += (buffer->bytes + 255) / 256 * 256 + 256;
    }
    return far;
}

static void put_all(struct pair *pair, enum place place)
{
    char *at = rig_far_arena(cuda_ops, cuda);

    for (uint32_t i = 0; i < 2; i++) {
        pair->x[i] = put(&at, &pair->sum.x[i]);
        pair->p[i] = put(&at, &pair->norm.p[i]);
    }
    pair->s = put(&at, &pair->sum.y[0]);
    for (uint32_t i = 0; i < pair->norm.op->n_out; i++) {
        pair->y[i] = put(&at, &pair->norm.y[i]);
    }
    assert_true((uint64_t)(at - rig_far_arena(cuda_ops, cuda)) <= RIG_FAR_BYTES);
    if (place == THERE || place == BESIDE) {
        pair->y[0] = pair->x[1] + (place == BESIDE ? 256 : 0);
    } else if (place == INTO) {
        pair->y[pair->norm.op->n_out - 1] = pair->x[0];
    }
}

static struct pst_kernel *compiled(struct pst_device *device, const struct rig *rig)
{
    struct pst_kernel *kernel = NULL;
    struct pst_error err = {0};

    assert_ok(cuda_ops->compile(device, rig->graph, rig->index, PST_KERNEL_F, rig->samples, &kernel,
                                &err),
              &err);
    return kernel;
}

static void init_pair(struct pair *pair, const struct rig_case *sum, const struct rig_case *norm,
                      uint32_t dtype)
{
    memset(pair, 0, sizeof *pair);
    rig_init(&pair->sum, sum, dtype, 1);
    rig_init(&pair->norm, norm, dtype, 2);
    pair->kernels[0] = compiled(cuda, &pair->sum);
    pair->kernels[1] = compiled(cuda, &pair->norm);
}

static void finish_pair(struct pair *pair)
{
    for (uint32_t i = 0; i < 2; i++) {
        pair->kernels[i]->destroy(pair->kernels[i]);
    }
    rig_finish(&pair->sum);
    rig_finish(&pair->norm);
}

/* Whether the device did both at once, where that is asked for; x: of the norm. */
static bool run_pair(struct pair *pair, enum place place, bool both, uint32_t flags, void *x)
{
    struct pst_call sum = {.seed = 1, .flags = flags}, norm = sum;
    struct pst_error err = {0};
    bool done = false;

    put_all(pair, place);
    sum.x = (void *const *)pair->x;
    sum.y = (void *const *)&pair->s;
    norm.x = x == NULL ? sum.y : &x;
    norm.p = (void *const *)pair->p;
    norm.y = (void *const *)pair->y;
    if (both) {
        done = pair->kernels[0]->run_both(pair->kernels[0], &sum, pair->kernels[1], &norm);
    } else {
        pair->kernels[0]->run(pair->kernels[0], &sum);
        pair->kernels[1]->run(pair->kernels[1], &norm);
    }
    assert_ok(cuda_ops->sync(cuda, &err), &err);
    return done;
}

static void take(const struct pair *pair, uint32_t i, struct rig_buffer *ret_values)
{
    const struct rig_buffer *of = i == 0 ? &pair->sum.y[0] : &pair->norm.y[i - 1];

    *ret_values = rig_buffer(of->elems, of->dtype);
    cuda_ops->download(cuda, ret_values->data, i == 0 ? pair->s : pair->y[i - 1], of->bytes);
}

/* The same bits as one after the other, wherever results go; or nothing was done. */
static void check_pair(struct pair *pair, enum place place, uint32_t flags)
{
    const uint32_t n = 1 + pair->norm.op->n_out;
    struct rig_buffer expected[4], found;
    bool same = true;

    run_pair(pair, place, false, flags, NULL);
    for (uint32_t i = 0; i < n; i++) {
        take(pair, i, &expected[i]);
    }
    assert_true(run_pair(pair, place, true, flags, NULL) == (place <= THERE));
    for (uint32_t i = 0; i < n; i++) {
        take(pair, i, &found);
        same = same && memcmp(found.data, expected[i].data, found.bytes) == 0;
        if (place > THERE && i == 0) {
            assert_memory_equal(found.data, pair->sum.y[0].data, found.bytes);
        }
        free(found.data);
        free(expected[i].data);
    }
    assert_true(same == (place <= THERE));
}

#define ADDED(text, ...) OPERATOR("sum", 3, text ", " text, "", .kind = PST_OP_ADD, __VA_ARGS__)
#define NORMED(text, width, norm, params)                                                          \
    OPERATOR("norm", 3, text, params, .kind = norm, .eps = 1e-5f)
#define BOTH(rows, width)                                                                          \
    {ADDED(#rows "x" #width, .p = 0),                                                              \
     NORMED(#rows "x" #width, width, PST_OP_LAYERNORM, #width ", " #width)},                       \
    {                                                                                              \
        ADDED(#rows "x" #width, .p = 0), NORMED(#rows "x" #width, width, PST_OP_RMSNORM, #width)   \
    }

/* A warp has the row, or a block; it is held, or is too long, or odd; there are more rows than
   blocks at a time. */
static const struct rig_case both[][2] = {BOTH(111, 768), BOTH(37, 1600), BOTH(5, 5120),
                                          BOTH(3, 12288), BOTH(47, 13),   BOTH(3, 1027),
                                          BOTH(180, 2304)};

static void pairs(void **state)
{
    struct pair pair;

    rig_ops = cuda_ops;
    cuda_ops->enter(cuda);
    for (uint32_t i = 0; i < 2 * sizeof both / sizeof both[0]; i++) {
        init_pair(&pair, &both[i / 2][0], &both[i / 2][1], i % 2 == 0 ? PST_F32 : PST_BF16);
        for (enum place place = ELSEWHERE; place < PLACES && strcmp(kernels, "simple") != 0;
             place++) {
            check_pair(&pair, place, PST_CALL_TRAINING);
        }
        finish_pair(&pair);
    }
}

/* The norm of something else, of heads; what is dropped, which is nothing without training; where
   one asks for two kernels. */
static void no_pairs(void **state)
{
    static const struct rig_case sum = ADDED("5x64", .p = 0), drops = ADDED("5x64", .p = 0.5f),
                                 norm = NORMED("5x64", 64, PST_OP_RMSNORM, "64"),
                                 heads = OPERATOR("heads", 3, "5x64", "8, 8", .kind = PST_OP_QKNORM,
                                                  .heads = 4, .kv_heads = 2, .eps = 1e-5f);
    static const char *const apart[] = {"unpaired", "simple", "timed+unpaired"};
    struct pair pair;

    rig_ops = cuda_ops;
    cuda_ops->enter(cuda);
    init_pair(&pair, &sum, &norm, PST_BF16);
    if (strcmp(kernels, "simple") != 0) {
        assert_true(run_pair(&pair, ELSEWHERE, true, 0, NULL));
        assert_false(run_pair(&pair, ELSEWHERE, true, 0, pair.x[0]));
    }
    for (uint32_t i = 0; i < 3; i++) {
        const struct pst_device_config config = {.threads = 1, .kernels = apart[i]};
        struct pst_device *device = NULL;
        struct pst_kernel *kernel;

        assert_int_equal(cuda_ops->open(&config, &device, NULL), PST_OK);
        kernel = compiled(device, &pair.sum);
        assert_null(kernel->run_both);
        kernel->destroy(kernel);
        cuda_ops->close(device);
        cuda_ops->enter(cuda);
    }
    assert_null(pair.kernels[1]->run_both);
    finish_pair(&pair);
    if (strcmp(kernels, "simple") == 0) {
        return;
    }
    init_pair(&pair, &sum, &heads, PST_F32);
    assert_false(run_pair(&pair, ELSEWHERE, true, 0, NULL));
    finish_pair(&pair);
    init_pair(&pair, &drops, &norm, PST_F32);
    assert_false(run_pair(&pair, ELSEWHERE, true, PST_CALL_TRAINING, NULL));
    check_pair(&pair, ELSEWHERE, 0);
    finish_pair(&pair);
}

/* --- around the step ---------------------------------------------------------------------------*/

enum { MOST = 300000 };

static float *random_floats(uint64_t n, uint64_t stream, float low)
{
    float *values = malloc(n * sizeof *values);

    assert_non_null(values);
    for (uint64_t i = 0; i < n; i++) {
        values[i] = low + (1 - low) * pst_uniform(pst_philox(11, stream, i).v[0]);
    }
    return values;
}

static void *far_floats(const void *values, uint64_t bytes)
{
    static uint64_t used;
    char *base = rig_far_arena(cuda_ops, cuda);

    used = used + bytes + 256 > RIG_FAR_BYTES ? 0 : used;
    used = (used + bytes + 255) / 256 * 256;
    cuda_ops->upload(cuda, base + used - (bytes + 255) / 256 * 256, values, bytes);
    return base + used - (bytes + 255) / 256 * 256;
}

static void expect_same(void *far, const void *expected, uint64_t bytes, const char *what,
                        uint64_t n)
{
    void *found = malloc(bytes);

    assert_non_null(found);
    cuda_ops->download(cuda, found, far, bytes);
    if (memcmp(found, expected, bytes) != 0) {
        fail_msg("%s of %llu elements differ", what, (unsigned long long)n);
    }
    free(found);
}

static const uint64_t sizes[] = {1, 3, 127, 128, 4095, 4096, 4097, 12289, 65536, 200001};

/* norms need scratch, which compiling any kernel of a graph makes for its parameters. */
static void reserve(void)
{
    static const struct rig_case big =
        OPERATOR("big", 1, "1", "13900000x1", .kind = PST_OP_EMBEDDING);
    struct rig rig;

    rig_ops = cuda_ops;
    rig_init(&rig, &big, PST_F32, 1);
    rig_pass(&rig, cuda, PST_KERNEL_F);
    rig_finish(&rig);
}

static void sums(void **state)
{
    rig_ops = cuda_ops;
    reserve();
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        const uint64_t n = sizes[s], bytes = n * sizeof(float);
        float *a = random_floats(n, 1, -1), *b = random_floats(n, 2, -1);
        void *far_a = far_floats(a, bytes), *far_b = far_floats(b, bytes);

        assert_true(cpu_ops->square_sum(plain, a, n) == cuda_ops->square_sum(cuda, far_a, n));
        cpu_ops->accumulate(plain, a, b, n);
        cuda_ops->accumulate(cuda, far_a, far_b, n);
        expect_same(far_a, a, bytes, "sums", n);
        cpu_ops->accumulate(plain, a + 1, b + 1, n - 1); /* where nothing is aligned */
        cuda_ops->accumulate(cuda, (float *)far_a + 1, (float *)far_b + 1, n - 1);
        expect_same(far_a, a, bytes, "sums from the second on", n);
        cpu_ops->sum(plain, b, a, b, n, PST_F32);
        cuda_ops->sum(cuda, far_b, far_a, far_b, n, PST_F32);
        expect_same(far_b, b, bytes, "sums of two", n);
        cpu_ops->refresh(plain, b, a, PST_BF16, n);
        cuda_ops->refresh(cuda, far_b, far_a, PST_BF16, n);
        cpu_ops->sum(plain, b, b, b, n, PST_BF16);
        cuda_ops->sum(cuda, far_b, far_b, far_b, n, PST_BF16);
        expect_same(far_b, b, n * 2, "bf16 sums", n);
        free(a);
        free(b);
    }
}

/* More than one launch takes; the last has more chunks than a block adds up at once. */
static void norms(void **state)
{
    enum { N = 200, LARGE = 2049 * 4096 - 5 };
    struct pst_squared list[N];
    double expected[N];
    float *values = random_floats(LARGE, 3, -1);
    double *found = NULL;

    rig_ops = cuda_ops;
    reserve();
    for (uint64_t i = 0; i < LARGE; i++) { /* so that the order of a sum shows */
        values[i] *= (float)(1 + i / 4096 % 1000);
    }
    assert_int_equal(cuda_ops->pinned(cuda, sizeof expected, (void **)&found, NULL), PST_OK);
    for (uint32_t i = 0; i < N; i++) {
        const uint64_t n = i + 1 == N ? LARGE - i : i % 20 == 1 ? 400000 + i : 1 + i * 977 % 9000;

        list[i] = (struct pst_squared){far_floats(values + i, n * sizeof *values), n, &found[i]};
        expected[i] = cpu_ops->square_sum(plain, values + i, n);
    }
    cuda_ops->squares(cuda, list, N);
    assert_int_equal(cuda_ops->sync(cuda, NULL), PST_OK);
    for (uint32_t i = 0; i < N; i++) {
        if (expected[i] != found[i]) {
            fail_msg("norm %u: %.17g, not %.17g", i, found[i], expected[i]);
        }
    }
    free(values);
}

static void updates(void **state)
{
    rig_ops = cuda_ops;
    for (uint32_t optimizer = PST_SGD; optimizer <= PST_ADAMW; optimizer++) {
        const struct pst_update how = {.optimizer = optimizer,
                                       .lr = 0.01f,
                                       .momentum = 0.9f,
                                       .beta1 = 0.9f,
                                       .beta2 = 0.95f,
                                       .eps = 1e-8f,
                                       .weight_decay = 0.1f,
                                       .step = 3,
                                       .grad_scale = 0.7f};
        const uint64_t n = 4099, bytes = n * sizeof(float);
        float *host[5];
        void *far[5];

        for (uint32_t i = 0; i < 5; i++) { /* weights, gradient, state, rounded */
            host[i] = random_floats(n, 5 + i, i == 3 ? 0.1f : -1);
            far[i] = far_floats(host[i], bytes);
        }
        cpu_ops->update(plain, &how, host[0], host[1], optimizer > PST_SGD ? host[2] : NULL,
                        optimizer > PST_MOMENTUM ? host[3] : NULL, host[4], PST_BF16, n);
        cuda_ops->update(cuda, &how, far[0], far[1], optimizer > PST_SGD ? far[2] : NULL,
                         optimizer > PST_MOMENTUM ? far[3] : NULL, far[4], PST_BF16, n);
        for (uint32_t i = 0; i < 5; i++) {
            expect_same(far[i], host[i], i == 4 ? n * 2 : bytes, "updated values", n);
            free(host[i]);
        }
    }
}

static float *downloaded(void *far, uint64_t n)
{
    float *values = malloc(n * sizeof *values);

    assert_non_null(values);
    cuda_ops->download(cuda, values, far, n * sizeof *values);
    return values;
}

/* Of a matrix whose products the device has made. Products add in another order: the bound of
   unit/device/muon_test.c, for one update. */
static void muon_of(const struct rig *rig)
{
    const struct pst_parameter *parameter = &rig->graph->params[rig->op->param[0]];
    const uint64_t n = parameter->elems, floats = pst_parameter_room(parameter) / sizeof(float);
    struct pst_update how = {.optimizer = PST_MUON,
                             .lr = 0.02f,
                             .momentum = 0.9f,
                             .weight_decay = 0.1f,
                             .step = 1,
                             .grad_scale = 0.7f,
                             .rows = parameter->dims[0],
                             .columns = parameter->dims[1],
                             .factor = parameter->muon};
    const double bound = pow(3.4445, 5) * 10 / 0x1p24 * (double)(how.lr * how.factor) + 0x1p-22;
    float *host[4], *room = random_floats(floats, 9, -1), *found;
    uint16_t *rounded = malloc(n * sizeof *rounded);
    void *far[4];

    for (uint32_t i = 0; i < 4; i++) { /* weights, gradient, momentum, rounded */
        host[i] = random_floats(n, 5 + i, -1);
        far[i] = far_floats(host[i], n * sizeof(float));
    }
    how.room = far_floats(room, floats * sizeof *room);
    cuda_ops->update(cuda, &how, far[0], far[1], far[2], NULL, far[3], PST_BF16, n);
    assert_int_equal(cuda_ops->sync(cuda, NULL), PST_OK);
    how.room = room;
    cpu_ops->update(plain, &how, host[0], host[1], host[2], NULL, NULL, PST_F32, n);
    expect_same(far[2], host[2], n * sizeof(float), "momentum", n);
    found = downloaded(far[0], n);
    for (uint64_t i = 0; i < n; i++) {
        if (!(fabs((double)found[i] - (double)host[0][i]) <= bound)) {
            fail_msg("%llu of %llu x %llu: expected %.9g, found %.9g", (unsigned long long)i,
                     (unsigned long long)how.rows, (unsigned long long)how.columns,
                     (double)host[0][i], (double)found[i]);
        }
    }
    cpu_ops->refresh(plain, rounded, found, PST_BF16, n);
    expect_same(far[3], rounded, n * sizeof *rounded, "rounded weights", n);
    for (uint32_t i = 0; i < 4; i++) {
        free(host[i]);
    }
    free(rounded);
    free(found);
    free(room);
}

/* Wide, tall, square; too small for a workspace of products, and large enough for the double's. */
static void muon(void **state)
{
    static const struct rig_case cases[] = {
        OPERATOR("wide", 1, "1x5", "5x37", .kind = PST_OP_LINEAR),
        OPERATOR("tall", 1, "1x37", "37x5", .kind = PST_OP_LINEAR),
        OPERATOR("square", 1, "1x16", "16x16", .kind = PST_OP_LINEAR),
        OPERATOR("column", 1, "1x19", "19x1", .kind = PST_OP_LINEAR),
        OPERATOR("large", 1, "1x40", "40x101", .kind = PST_OP_LINEAR),
    };

    rig_ops = cuda_ops;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float factors[8] = {0}; /* none of the norm before it */
        struct rig rig;

        rig_init(&rig, &cases[i], PST_F32, 1);
        assert_true(rig.graph->n_params <= 8);
        factors[rig.op->param[0]] = 0.5f;
        pst_graph_set_muon(rig.graph, factors);
        rig_pass(&rig, cuda, PST_KERNEL_F);
        muon_of(&rig);
        rig_finish(&rig);
    }
}

int main(int argc, char **argv)
{
    void (*const functions[])(void **) = {f32, bf16, evaluation, again};
    const char *const suffixes[] = {"f32", "bf16", "evaluation", "twice"};
    static struct CMUnitTest tests[4 * N_CPU_CASES + 10];
    static char names[4 * N_CPU_CASES][64];
    const int code = start(argc, argv);
    size_t n = 0;

    if (code != 0) {
        return code;
    }
    for (uint32_t i = 0; i < N_CPU_CASES - N_HERE_ONLY; i++) {
        for (uint32_t k = 0; k < 4; k++) {
            if ((functions[k] == evaluation && !has_modes(&cpu_cases[i])) ||
                (functions[k] == again && strcmp(kernels, "unordered") == 0)) {
                continue;
            }
            snprintf(names[n], sizeof names[n], "%s, %s", cpu_cases[i].name, suffixes[k]);
            tests[n] = (struct CMUnitTest){names[n], functions[k], NULL, NULL,
                                           (void *)(uintptr_t)&cpu_cases[i]};
            n++;
        }
    }
    tests[n++] = (struct CMUnitTest){"no entry", no_entry, NULL, NULL, NULL};
    tests[n++] = (struct CMUnitTest){"gelu, not kept", not_kept, NULL, NULL, NULL};
    tests[n++] = (struct CMUnitTest){"layernorm of a sum", pairs, NULL, NULL, NULL};
    tests[n++] = (struct CMUnitTest){"layernorm of no sum", no_pairs, NULL, NULL, NULL};
    tests[n++] = (struct CMUnitTest){"sums", sums, NULL, NULL, NULL};
    tests[n++] = (struct CMUnitTest){"norms", norms, NULL, NULL, NULL};
    tests[n++] = (struct CMUnitTest){"updates", updates, NULL, NULL, NULL};
    tests[n++] = (struct CMUnitTest){"muon", muon, NULL, NULL, NULL};
    tests[n++] = (struct CMUnitTest){"special logits", special, NULL, NULL, NULL};
    tests[n++] = (struct CMUnitTest){"tf32", tf32, NULL, NULL, NULL};
    return _cmocka_run_group_tests("cuda kernels", tests, n, open_both, close_both);
}
