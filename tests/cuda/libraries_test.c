/* SPDX-License-Identifier: Apache-2.0
 *
 * What the device asks of cuBLASLt and cuDNN, over their doubles: words of run.kernels, algorithms
 * that are proposed and do not serve, those that are timed and kept, plans of one device that the
 * next one takes over.
 */
#include "cuda/module_rig.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

static char told[1024];

static void tell(const char *text)
{
    snprintf(told, sizeof told, "%s", text);
}

static int begin(void **state)
{
    reset(state);
    host->stateless = host->unchecked = host->greedy = host->unfused = 0;
    memset(host->product_ms, 0, sizeof host->product_ms);
    told[0] = '\0';
    return 0;
}

static struct pst_device_config config_of(const char *kernels, uint32_t share)
{
    struct pst_device_config config = rank_of(share, 0, share == 0 ? 1 : share);

    config.kernels = kernels;
    config.note = tell;
    return config;
}

static pst_status open_kernels(const char *kernels, struct pst_device **ret_device,
                               struct pst_error *err)
{
    const struct pst_device_config config = config_of(kernels, 0);

    *ret_device = NULL;
    memset(err, 0, sizeof *err);
    return ops->open(&config, ret_device, err);
}

/* --- words --- */

static void refuses_words(const char *words, const char *why)
{
    struct pst_device *device;
    struct pst_error err;

    assert_int_equal(open_kernels(words, &device, &err), PST_ERR_CONFIG);
    assert_non_null(strstr(err.message, why));
    assert_non_null(
        strstr(err.message, "known are auto, simple, unordered, fused_sums, timed and unpaired"));
}

TEST_WITH(words, begin, NULL)
{
    static const char *const
        good[] = {"auto",           "simple",          "unordered",     "fused_sums",
                  "auto+unordered", "auto+fused_sums", "simple+simple", "fused_sums+auto+unordered",
                  "unpaired",       "timed+unpaired"},
        *const unknown[] = {"",      "fast",         "auto+",  "+auto",       "aut",
                            "autos", "auto++simple", "onednn", "auto, simple"},
        *const opposed[] = {"auto+simple", "simple+unordered", "fused_sums+simple",
                            "unpaired+simple"};
    struct pst_device *device;
    struct pst_error err;

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_ok(open_kernels(good[i], &device, &err), &err);
        ops->close(device);
    }
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        refuses_words(unknown[i], "\"; known are");
    }
    for (size_t i = 0; i < sizeof opposed / sizeof opposed[0]; i++) {
        refuses_words(opposed[i], "\", simple can be joined with timed only; known are");
    }
    nothing_is_left("words");
}

/* --- algorithms --- */

static struct pst_graph *graph;

static int begin_products(void **state)
{
    graph = make_model("mlp", "inputs=8 hidden=8 layers=2 classes=4", PST_F32);
    return begin(state);
}

static int end_products(void **state)
{
    pst_graph_destroy(graph);
    return 0;
}

static pst_status compile(struct pst_device *device, struct pst_kernel **ret_kernel,
                          struct pst_error *err)
{
    ops->enter(device);
    return ops->compile(device, graph, 0, PST_KERNEL_F, 2, ret_kernel, err);
}

/* One call on zeros; the way of its product. Closes the device. */
static int way_of(struct pst_device *device)
{
    int before[PRODUCT_WAYS], found = -1;
    struct pst_kernel *kernel = NULL;
    struct pst_error err = {0};
    void *base;
    char *at;

    assert_ok(compile(device, &kernel, &err), &err);
    assert_ok(ops->arena(device, 1 << 16, &base, &err), &err);
    ops->zero(device, base, 1 << 16);
    at = base;
    for (int i = 0; i < PRODUCT_WAYS; i++) {
        before[i] = atomic_load(&host->products[i]);
    }
    kernel->run(kernel, &(struct pst_call){.x = (void *const[]){at},
                                           .p = (void *const[]){at + 8192, at + 8192},
                                           .y = (void *const[]){at + 16384, at + 24576},
                                           .workspace = at + 32768,
                                           .flags = PST_CALL_TRAINING});
    assert_ok(ops->sync(device, &err), &err);
    for (int i = 0; i < PRODUCT_WAYS; i++) {
        const int n = atomic_load(&host->products[i]) - before[i];

        assert_true(n == 0 || (n == 1 && found < 0));
        found = n == 1 ? i : found;
    }
    kernel->destroy(kernel);
    ops->close(device);
    return found;
}

static struct pst_device *open_one(const char *kernels)
{
    struct pst_device *device;
    struct pst_error err;

    assert_ok(open_kernels(kernels, &device, &err), &err);
    return device;
}

TEST_WITH(a_proposal_is_no_promise, begin_products, end_products)
{
    struct pst_device *device;
    struct pst_kernel *kernel;
    struct pst_error err = {0};
    uint32_t *const sets[] = {&host->stateless, &host->unchecked, &host->greedy, &host->unfused};

    assert_int_equal(way_of(open_one("auto")), 0);
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        *sets[i] = 1u << 0;
        assert_int_equal(way_of(open_one("auto")), 1);
        *sets[i] = 1u << 0 | 1u << 1;
        assert_int_equal(way_of(open_one("auto")), 2);
        *sets[i] = 0;
    }
    host->stateless = 1u << 0;
    host->unfused = 1u << 1;
    assert_int_equal(way_of(open_one("auto")), 2);
    /* None does with the bias: it goes without, where that one need not run to be taken. */
    host->stateless = 0;
    host->unfused = 7;
    assert_int_equal(way_of(open_one("auto")), 0);
    host->unfused = 0;
    host->unchecked = 7;
    device = open_one("auto");
    assert_int_equal(compile(device, &kernel, &err), PST_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "cuBLASLt has no product of 2 x 8 x 8"));
    ops->close(device);
    nothing_is_left("a refusal");
}

/* Of the library and the runtime, that could fail. */
static int calls_of_compile(const char *kernels)
{
    struct pst_device *device = open_one(kernels);
    struct pst_kernel *kernel = NULL;
    struct pst_error err = {0};
    int n;

    atomic_store(&host->calls, 0);
    assert_ok(compile(device, &kernel, &err), &err);
    n = atomic_load(&host->calls);
    kernel->destroy(kernel);
    ops->close(device);
    return n;
}

/* Each product that fails is an error, not a refusal; but nobody needs room to try one. */
TEST_WITH(trials_fail, begin_products, end_products)
{
    struct pst_kernel *kernel = NULL;
    struct pst_error err = {0};
    struct pst_device *device;
    const int n = calls_of_compile("auto");
    int n_told = 0;

    for (int i = 2; i <= n; i++) { /* the first is the choice of the GPU */
        memset(&err, 0, sizeof err);
        told[0] = '\0';
        device = open_one("auto");
        atomic_store(&host->calls, 0);
        host->fail_at = i;
        if (compile(device, &kernel, &err) == PST_OK) {
            assert_non_null(strstr(told, "a product of 2 x 8 x 8 is not tried: GPU 0 has no "));
            kernel->destroy(kernel);
            n_told++;
        } else {
            assert_int_not_equal(err.message[0], '\0');
        }
        host->fail_at = 0;
        ops->close(device);
        nothing_is_left("a trial that fails");
    }
    assert_int_equal(n_told, 1);
}

/* Whether compiling the layer behind the embedding of a GPT is told. */
static bool tells_of(const char *settings, uint32_t dtype, const char *words)
{
    struct pst_graph *gpt = make_model("gpt", settings, dtype);
    struct pst_device *device = open_one("auto");
    struct pst_kernel *kernel = NULL;
    struct pst_error err = {0};
    uint32_t last = gpt->n_ops;

    do {
        last--;
    } while (gpt->ops[last].kind != PST_OP_LINEAR);
    told[0] = '\0';
    ops->enter(device);
    assert_ok(ops->compile(device, gpt, last, PST_KERNEL_F, 1, &kernel, &err), &err);
    kernel->destroy(kernel);
    ops->close(device);
    pst_graph_destroy(gpt);
    return strstr(told, words) != NULL;
}

TEST_WITH(odd_vocabularies, begin, NULL)
{
    static const char odd[] = "layers=1 dim=64 heads=2 context=8 vocab=16385";

    assert_true(tells_of(odd, PST_BF16, "bf16 weights of 64 x 16385 are multiplied slowly"));
    assert_non_null(strstr(told, "set model.vocab = 16448"));
    assert_false(tells_of(odd, PST_F32, "weights"));
    assert_false(tells_of("layers=1 dim=64 heads=2 context=8 vocab=16448", PST_BF16, "weights"));
    assert_false(tells_of("layers=1 dim=64 heads=2 context=8 vocab=1001", PST_BF16, "weights"));
    nothing_is_left("vocabularies");
}

/* --- times --- */

static char folder[] = "/tmp/penstock-libraries-XXXXXX", file[128];

static int begin_timed(void **state)
{
    strcpy(strrchr(folder, '-'), "-XXXXXX");
    assert_non_null(mkdtemp(folder));
    setenv("XDG_CACHE_HOME", folder, 1);
    snprintf(file, sizeof file, "%s/penstock/products-the-host-0", folder);
    return begin_products(state);
}

static int end_timed(void **state)
{
    char path[160];

    unlink(file);
    snprintf(path, sizeof path, "%s.lock", file);
    unlink(path);
    snprintf(path, sizeof path, "%s/penstock", folder);
    rmdir(path);
    rmdir(folder);
    unsetenv("XDG_CACHE_HOME");
    return end_products(state);
}

static void take_ms(int first, int second, int third)
{
    host->product_ms[0] = first;
    host->product_ms[1] = second;
    host->product_ms[2] = third;
}

static int runs(void)
{
    int n = 0;

    for (int i = 0; i < PRODUCT_WAYS; i++) {
        n += atomic_load(&host->products[i]);
    }
    return n;
}

TEST_WITH(the_fastest_is_kept, begin_timed, end_timed)
{
    struct pst_device *early, *other;
    int before;

    take_ms(300, 100, 200);
    assert_int_equal(way_of(open_one("auto")), 0); /* nobody asked for times */
    assert_int_equal(access(file, F_OK), -1);
    early = open_one("timed");
    other = open_one("timed");
    assert_int_equal(way_of(open_one("auto+timed")), 1);
    take_ms(100, 300, 300);
    before = runs();
    assert_int_equal(way_of(open_one("timed+unordered")), 1);
    assert_int_equal(runs() - before, 1); /* nothing is timed again */
    /* Both began before there was a file, as processes that race do. */
    assert_int_equal(way_of(early), 1);
    unlink(file);
    assert_int_equal(way_of(other), 0);
    assert_int_equal(way_of(open_one("timed")), 0);
    assert_string_equal(told, "");
    nothing_is_left("times");
}

static void *compile_one(void *context)
{
    struct pst_kernel *kernel = NULL;
    struct pst_error err = {0};

    if (compile(context, &kernel, &err) != PST_OK) {
        return NULL;
    }
    kernel->destroy(kernel);
    return context;
}

/* They wait for each other, and one of them times it. */
TEST_WITH(many_at_a_time, begin_timed, end_timed)
{
    struct pst_device *devices[4];
    pthread_t threads[4];
    int before;

    for (int i = 0; i < 4; i++) {
        devices[i] = open_one("timed");
    }
    before = runs();
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, compile_one, devices[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *compiled = NULL;

        pthread_join(threads[i], &compiled);
        assert_non_null(compiled);
    }
    /* A trial and 5 runs each, with the bias and without. */
    assert_int_equal(runs() - before, 2 * PRODUCT_WAYS * 6);
    for (int i = 0; i < 4; i++) {
        ops->close(devices[i]);
    }
    nothing_is_left("many at a time");
}

/* What the library proposes and refuses is not timed. */
TEST_WITH(only_what_serves_is_timed, begin_timed, end_timed)
{
    take_ms(300, 200, 100);
    host->unfused = 1u << 2;
    assert_int_equal(way_of(open_one("timed")), 1);
    nothing_is_left("times");
}

/* Products are chosen for a part of a GPU as such. */
TEST_WITH(parts_have_their_own, begin_timed, end_timed)
{
    const struct pst_device_config config = config_of("timed", 2);
    struct pst_device *part = NULL;
    struct pst_error err = {0};

    take_ms(300, 100, 200);
    assert_int_equal(way_of(open_one("timed")), 1);
    take_ms(300, 200, 100);
    assert_ok(ops->open(&config, &part, &err), &err);
    assert_int_equal(way_of(part), 2);
    assert_int_equal(way_of(open_one("timed")), 1);
    nothing_is_left("times");
}

static void damage(const char *how, long at)
{
    FILE *stream = fopen(file, how);

    assert_non_null(stream);
    fseek(stream, at, SEEK_SET);
    fputc('#', stream);
    fclose(stream);
}

TEST_WITH(a_damaged_file_is_ignored, begin_timed, end_timed)
{
    struct stat whole;

    take_ms(300, 100, 200);
    assert_int_equal(way_of(open_one("timed")), 1);
    assert_int_equal(stat(file, &whole), 0);
    take_ms(100, 300, 300);
    for (long at = -1; at < whole.st_size; at++) {
        told[0] = '\0';
        damage(at < 0 ? "w" : "r+", at < 0 ? 0 : at); /* no longer what it was, and cut */
        assert_int_equal(way_of(open_one("timed")), 0);
        assert_non_null(strstr(told, "is ignored: it is damaged; products are timed again"));
    }
    told[0] = '\0';
    assert_int_equal(way_of(open_one("timed")), 0);
    assert_string_equal(told, "");
}

TEST_WITH(nowhere_to_keep_them, begin_timed, end_timed)
{
    struct pst_device *device;
    struct pst_error err;

    setenv("XDG_CACHE_HOME", "/dev/null/there", 1);
    assert_int_not_equal(open_kernels("timed", &device, &err), PST_OK);
    assert_non_null(strstr(err.message, "run.kernels timed keeps its choices in /dev/null"));
    nothing_is_left("no folder");
}

/* Whatever fails, no choice is made by chance: there is a kernel only where it has failed outside
   of it. */
TEST_WITH(timing_fails, begin_timed, end_timed)
{
    struct pst_kernel *kernel = NULL;
    struct pst_error err = {0};
    struct pst_device *device;
    int n;

    take_ms(300, 100, 200);
    n = calls_of_compile("timed");
    for (int i = 2; i <= n; i++) { /* the first is the choice of the GPU */
        memset(&err, 0, sizeof err);
        unlink(file);
        device = open_one("timed");
        atomic_store(&host->calls, 0);
        host->fail_at = i;
        if (compile(device, &kernel, &err) == PST_OK) {
            fail_msg("failure %d of %d is not told", i, n);
        }
        host->fail_at = 0;
        ops->close(device);
        nothing_is_left("timing that fails");
        assert_int_equal(way_of(open_one("timed")), 1);
    }
}

/* --- plans of cuDNN --- */

static uint32_t attention_of(const struct pst_graph *of)
{
    uint32_t i = 0;

    while (of->ops[i].kind != PST_OP_ATTENTION) {
        i++;
    }
    return i;
}

/* Plans that it compiles on the way. */
static int plans_of(struct pst_device *device, const struct pst_graph *gpt)
{
    const int before = atomic_load(&host->plans);
    struct pst_kernel *kernel = NULL;
    struct pst_error err = {0};
    void *base;
    char *at;

    ops->enter(device);
    assert_ok(ops->compile(device, gpt, attention_of(gpt), PST_KERNEL_F, 2, &kernel, &err), &err);
    assert_ok(ops->arena(device, 1 << 18, &base, &err), &err);
    ops->zero(device, base, 1 << 18);
    at = base;
    kernel->run(kernel, &(struct pst_call){.x = (void *const[]){at},
                                           .y = (void *const[]){at + 65536, at + 98304},
                                           .workspace = at + 131072,
                                           .flags = PST_CALL_TRAINING});
    assert_ok(ops->sync(device, &err), &err);
    kernel->destroy(kernel);
    return atomic_load(&host->plans) - before;
}

TEST_WITH(plans_outlive_a_device, begin, NULL)
{
    struct pst_graph *gpt =
        make_model("gpt", "layers=1 dim=32 heads=2 context=8 vocab=16", PST_BF16);
    struct pst_device *device = open_rank(0, 0, 1), *beside;

    assert_int_equal(plans_of(device, gpt), 1);
    assert_int_equal(plans_of(device, gpt), 0);
    beside = open_rank(0, 0, 1);
    assert_int_equal(plans_of(beside, gpt), 1); /* no two have the same */
    ops->close(device);
    ops->close(beside);
    for (int i = 0; i < 3; i++) { /* on a stream that is another one each time */
        device = open_rank(0, 0, 1);
        assert_int_equal(plans_of(device, gpt), 0);
        ops->close(device);
    }
    device = open_rank(2, 0, 2); /* on fewer multiprocessors */
    assert_int_equal(plans_of(device, gpt), 1);
    ops->close(device);
    host->n_gpus = 2;
    device = open_rank(0, 1, 2);
    assert_int_equal(plans_of(device, gpt), 1);
    ops->close(device);
    nothing_is_left("plans");
    pst_graph_destroy(gpt);
}
