/* SPDX-License-Identifier: Apache-2.0
 *
 * Training with CUDA graphs against the same training without, over the double of the CUDA runtime:
 * the same bits, whatever changes between launches; captures that are refused; how many there are.
 */
#include "unit/exec/real.h"

#include "module.h"

#include <math.h>

enum { STEPS = 4, CLASSES = 7 };

#define MODULE PENSTOCK_PLUGIN_DIR "/tests/device-cuda-on-host.so"
#define GPT    "layers=1 dim=8 heads=2 context=4 vocab=7 dropout=0.2"
#define LLAMA                                                                                      \
    "layers=1 dim=8 heads=4 kv_heads=2 ff=12 context=6 vocab=7 window=4 qk_norm=true "             \
    "rope_scaling=linear "
#define MLP "inputs=12 hidden=16 layers=4 classes=7 act=gelu"

struct graphs {
    unsigned made, launched;
};

/* What the double counted so far; of this process. */
static struct graphs counted(void)
{
    void (*count)(unsigned *, unsigned *) = NULL;
    struct graphs graphs = {0, 0};

    *(void **)&count = module_symbol(MODULE, "on_host_graphs");
    count(&graphs.made, &graphs.launched);
    return graphs;
}

struct outcome_of_run {
    double losses[STEPS], norms[STEPS], eval;
    float *parameters;
    uint64_t n;
    struct graphs graphs[STEPS]; /* after each step, since the start of the run */
};

/* Learning rates fall, so that an old one shows. */
static struct pst_update update_at(uint32_t optimizer, uint32_t step)
{
    return (struct pst_update){.optimizer = optimizer,
                               .lr = 0.02f / (float)(1 + step),
                               .momentum = 0.9f,
                               .beta1 = 0.9f,
                               .beta2 = 0.99f,
                               .eps = 1e-8f,
                               .weight_decay = 0.1f,
                               .step = step + 1};
}

static uint32_t slots_of(uint32_t optimizer)
{
    return optimizer == PST_SGD ? 0 : optimizer == PST_MOMENTUM ? 1 : 2;
}

struct training {
    const char *model, *settings;
    uint32_t dtype, optimizer;
    struct layout layout;
    double clip;
};

static struct outcome_of_run train(const struct training *t, uint32_t graphs)
{
    const struct graphs before = counted();
    struct outcome_of_run run;
    struct real real;

    real_graphs = graphs;
    real_create(&real, t->model, t->settings, t->dtype, &t->layout, 4 * SIZE,
                slots_of(t->optimizer), t->clip);
    real_data(&real, CLASSES);
    for (uint32_t i = 0; i < STEPS; i++) {
        const struct pst_update update = update_at(t->optimizer, i);
        const struct pst_step_result result = real_step(&real, &update);
        const struct graphs now = counted();

        run.losses[i] = result.loss;
        run.norms[i] = result.grad_norm;
        run.graphs[i] = (struct graphs){now.made - before.made, now.launched - before.launched};
    }
    run.eval = real_eval(&real);
    run.parameters = real_parameters(&real, &run.n);
    real_destroy(&real);
    return run;
}

static void assert_same(const struct outcome_of_run *off, const struct outcome_of_run *on)
{
    for (uint32_t i = 0; i < STEPS; i++) {
        if (memcmp(&off->losses[i], &on->losses[i], sizeof(double)) != 0 ||
            memcmp(&off->norms[i], &on->norms[i], sizeof(double)) != 0) {
            fail_msg("step %u: loss %a, norm %a; with graphs %a, %a", i, off->losses[i],
                     off->norms[i], on->losses[i], on->norms[i]);
        }
    }
    assert_memory_equal(&off->eval, &on->eval, sizeof off->eval);
    assert_int_equal(off->n, on->n);
    assert_memory_equal(off->parameters, on->parameters, off->n * sizeof *off->parameters);
}

/* Nothing is captured in the first step, which warms up, and nothing anew once all has run twice;
   what is captured is launched. */
static struct graphs check(const struct training *t)
{
    struct outcome_of_run off = train(t, PST_GRAPHS_OFF), on = train(t, PST_GRAPHS_ON);

    assert_true(isfinite(off.losses[STEPS - 1]) && off.losses[0] != off.losses[STEPS - 1]);
    assert_same(&off, &on);
    assert_int_equal(off.graphs[STEPS - 1].launched, 0);
    assert_true(on.graphs[1].made > 0);
    if (t->layout.order < ORDER_2BW) {
        assert_int_equal(on.graphs[1].made, on.graphs[STEPS - 1].made);
        assert_int_equal(on.graphs[2].launched - on.graphs[1].launched,
                         on.graphs[3].launched - on.graphs[2].launched);
    }
    free(off.parameters);
    free(on.parameters);
    return on.graphs[STEPS - 1];
}

TEST(test_dropout_clip_adamw)
{
    check(
        &(struct training){"gpt", GPT, PST_F32, PST_ADAMW, {1, {0}, ORDER_GPIPE, false, {0}}, 0.5});
    check(&(struct training){
        "gpt", GPT, PST_BF16, PST_ADAMW, {2, {0, 1}, ORDER_1F1B, false, {0}}, 0.5});
}

TEST(test_split_and_recompute)
{
    check(&(struct training){
        "gpt", GPT, PST_F32, PST_ADAM, {3, {0, 1, 2}, ORDER_SPLIT, true, {0}}, 0.5});
}

TEST(test_llama)
{
    check(&(struct training){
        "llama", LLAMA, PST_BF16, PST_ADAMW, {2, {0, 1}, ORDER_1F1B, true, {0}}, 0.5});
    check(&(struct training){"llama",
                             LLAMA "experts=3 capacity=1.5",
                             PST_F32,
                             PST_ADAMW,
                             {2, {0, 1}, ORDER_SPLIT, false, {0}},
                             0.5});
}

TEST(test_optimizers)
{
    for (uint32_t optimizer = PST_SGD; optimizer <= PST_ADAMW; optimizer++) {
        check(&(struct training){
            "mlp", MLP, PST_F32, optimizer, {2, {0, 1}, ORDER_SPLIT, false, {0}}, 0});
    }
}

TEST(test_replicas)
{
    check(&(struct training){
        "gpt", GPT, PST_F32, PST_ADAMW, {2, {0, 0}, ORDER_1F1B, false, {2, 2}}, 0.5});
}

/* Weights have several versions, gradients two buffers. */
TEST(test_delayed)
{
    check(&(struct training){"mlp", MLP, PST_F32, PST_ADAM, {2, {0, 1}, ORDER_2BW, false, {0}}, 0});
    check(&(struct training){
        "mlp", MLP, PST_BF16, PST_MOMENTUM, {3, {0, 1, 2}, ORDER_STASHED, false, {0}}, 0});
}

TEST(test_batch_norm)
{
    check(&(struct training){"resnet",
                             "image=8 width=4 stages=2 blocks=1 classes=7",
                             PST_F32,
                             PST_MOMENTUM,
                             {2, {0, 1}, ORDER_1F1B, true, {0}},
                             1.0});
}

/* One stage, nothing in flight beside: every micro-batch has the same buffers, so F, BW and the
   update are all there is. Loads and losses are not in them. */
TEST(test_slots_share)
{
    const struct training t = {"mlp", MLP, PST_F32, PST_SGD, {1, {0}, ORDER_1F1B, false, {0}}, 0};
    const struct graphs graphs = check(&t);

    /* F; BW of the first micro-batch, whose gradients are written in place, and of those behind it,
       whose are added; the update. Each may be in two where a loss or load is in between. */
    assert_in_range(graphs.made, 4, 8);
}

/* Passes wait for copies and are not captured; the update is. */
TEST(test_offloading)
{
    const struct pst_exec_copy_config copies = {0};
    const struct training t = {"mlp", MLP, PST_F32, PST_SGD, {1, {0}, ORDER_GPIPE, false, {0}}, 0};

    offloading.seed = 5;
    offloading.copies = &copies;
    assert_int_equal(check(&t).made, 1);
    offloading.seed = 0;
    offloading.copies = NULL;
}

/* --- what decides ----------------------------------------------------------------------------- */

static uint64_t predicted_ns;

static uint64_t kernel_ns(void *context, uint32_t rank, uint32_t op, uint32_t pass,
                          uint32_t samples, uint32_t slice)
{
    (void)rank;
    (void)slice;
    return predicted_ns;
}

static uint64_t update_ns(void *context, uint32_t rank, uint64_t elems, uint32_t n_slots,
                          bool first)
{
    (void)rank;
    return predicted_ns;
}

/* Graphs that `auto` makes where a kernel is predicted to take so long, 0: where nothing is known;
   and where the double has this word in its environment. The bits are those without graphs. */
static unsigned made_by_auto(uint64_t kernel, const char *variable, const char *word)
{
    const struct pst_device_times times = {NULL, kernel_ns, update_ns, NULL};
    const struct training t = {"gpt", GPT, PST_F32, PST_ADAMW, {2, {0, 1}, ORDER_1F1B, false, {0}},
                               0.5};
    struct outcome_of_run off = train(&t, PST_GRAPHS_OFF), run;
    unsigned made;

    predicted_ns = kernel;
    real_predicted = kernel != 0 ? &times : NULL;
    if (variable != NULL) {
        setenv(variable, word, 1);
    }
    run = train(&t, PST_GRAPHS_AUTO);
    if (variable != NULL) {
        unsetenv(variable);
    }
    real_predicted = NULL;
    assert_same(&off, &run);
    made = run.graphs[STEPS - 1].made;
    free(run.parameters);
    free(off.parameters);
    return made;
}

TEST(test_auto)
{
    assert_int_equal(made_by_auto(20000, NULL, NULL), 0);
    assert_true(made_by_auto(19999, NULL, NULL) > 0);
    assert_int_equal(made_by_auto(0, NULL, NULL), 0);
}

/* --- refused ---------------------------------------------------------------------------------- */

/* A library that synchronises cannot be captured: auto goes on without, and leaves no trace. What
   is left are updates, and what has no products. */
TEST(test_refused_auto)
{
    assert_in_range(made_by_auto(1000, "ON_HOST_PRODUCTS", "synchronise"), 2, 4);
}

/* One that cannot even begin: nothing is asked for twice. */
TEST(test_refused_at_once)
{
    assert_int_equal(made_by_auto(1000, "ON_HOST_CAPTURES", "none"), 0);
}

TEST(test_refused_on)
{
    const struct layout layout = {1, {0}, ORDER_GPIPE, false, {0}};
    struct pst_error err = {0};
    struct pst_batch batch = {.first_sample = 0};
    struct pst_step_result result;
    struct pst_update update = update_at(PST_SGD, 0);
    struct real real;

    real_graphs = PST_GRAPHS_ON;
    setenv("ON_HOST_PRODUCTS", "synchronise", 1);
    real_create(&real, "mlp", MLP, PST_F32, &layout, 4 * SIZE, 0, 0);
    real_data(&real, CLASSES);
    memcpy(batch.inputs, real.inputs, sizeof real.inputs);
    /* The same buffers come back within the first step, or in the second. */
    if (pst_exec_step(real.exec, &batch, &update, &result, &err) == PST_OK) {
        update = update_at(PST_SGD, 1);
        assert_int_equal(pst_exec_step(real.exec, &batch, &update, &result, &err),
                         PST_ERR_UNSUPPORTED);
    }
    unsetenv("ON_HOST_PRODUCTS");
    assert_string_equal(err.kind, "run.graph");
    assert_int_equal(err.exit_code, 1);
    assert_non_null(strstr(err.message, "rank 0: GPU 0 cannot make a graph of this: "));
    assert_non_null(strstr(err.details, "run.graphs = \"auto\" runs without graphs"));
    real_destroy(&real);
}

int main(int argc, char **argv)
{
    setenv("PENSTOCK_TEST_DEVICE", MODULE, 1);
    if (argc == 2) { /* one of them */
        cmocka_set_test_filter(argv[1]);
    }
    return run_own_tests(NULL, NULL);
}
