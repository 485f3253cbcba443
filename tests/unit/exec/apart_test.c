/* SPDX-License-Identifier: Apache-2.0
 *
 * A device whose memory is not the host's and that works on its own: the bits of the cpu device,
 * what happens when it breaks, and with a transport that cannot reach it. The other tests of the
 * executor run on it as they are (tests/apart).
 */
#include "unit/exec/real.h"

#include "exec/record.h"
#include "loop/run_timeline.h"

#define MODULE PENSTOCK_PLUGIN_DIR "/tests/device-apart.so"
#define GPT    "layers=2 dim=16 heads=2 context=8 vocab=7 dropout=0.2"

static void same_bits(const char *model, const char *settings)
{
    static const struct layout layouts[] = {{1, {0}, ORDER_GPIPE, false, {0}},
                                            {3, {0, 1, 2}, ORDER_SPLIT, true, {0}},
                                            {2, {0, 1}, ORDER_1F1B, false, {2, 1}}};

    for (uint32_t k = 0; k < sizeof layouts / sizeof layouts[0]; k++) {
        struct real_run cpu, apart;

        real_on_cpu = true;
        cpu = real_train(model, settings, PST_F32, &layouts[k]);
        real_on_cpu = false;
        apart = real_train(model, settings, PST_F32, &layouts[k]);
        real_same(&cpu, &apart, model, k);
        free(cpu.parameters);
    }
}

TEST(test_bits)
{
    same_bits("mlp", "inputs=12 hidden=16 layers=4 classes=7");
    same_bits("gpt", GPT);
    same_bits("resnet", "image=8 width=4 stages=2 blocks=1 classes=7");
}

/* The step fails, says at what, and so does whatever comes after. */
TEST(test_breaks)
{
    const struct layout layout = {2, {0, 1}, ORDER_1F1B, false, {0}};
    struct pst_update update = real_adamw(1);
    struct pst_step_result result;
    struct pst_batch batch = {0};
    struct pst_error err = {0};
    FINISHED_BY(real_destroy) struct real real;
    char expected[128];
    pst_status status;

    real_create(&real, "gpt", GPT, PST_F32, &layout, 4 * SIZE, 2, 0.5);
    real_data(&real, REAL_CLASSES);
    memcpy(batch.inputs, real.inputs, sizeof real.inputs);
    snprintf(expected, sizeof expected, "rank 1: device apart failed at %s",
             real.graph->ops[real.graph->n_ops - 1].name);
    setenv("PENSTOCK_APART_FAILS", real.graph->ops[real.graph->n_ops - 1].name, 1);
    status = pst_exec_step(real.exec, &batch, &update, &result, &err);
    unsetenv("PENSTOCK_APART_FAILS");
    assert_int_equal(status, PST_ERR_UNSUPPORTED);
    assert_string_equal(err.kind, "run.device");
    assert_non_null(strstr(err.message, expected));
    assert_int_equal(pst_exec_step(real.exec, &batch, &update, &result, &err), PST_ERR_UNSUPPORTED);
}

/* The tests on this device see a dependency that is missing: where no queue follows a mark, what
   comes from other ranks is not there yet. */
TEST(test_deaf)
{
    const struct layout layout = {2, {0, 1}, ORDER_1F1B, false, {0}};
    struct pst_update update = real_adamw(1);
    struct pst_step_result heard = {0}, deaf = {0};
    struct pst_batch batch = {0};
    struct pst_error err = {0};
    struct real real;
    pst_status status;

#ifdef __SANITIZE_THREAD__
    skip(); /* what it provokes is a race */
#endif
    for (uint32_t i = 0; i < 2; i++) {
        if (i == 1) {
            setenv("PENSTOCK_APART_DEAF", "1", 1);
        }
        real_create(&real, "mlp", "inputs=12 hidden=16 layers=4 classes=7", PST_F32, &layout,
                    4 * SIZE, 2, 0.5);
        real_data(&real, REAL_CLASSES);
        memcpy(batch.inputs, real.inputs, sizeof real.inputs);
        status = pst_exec_step(real.exec, &batch, &update, i == 0 ? &heard : &deaf, &err);
        real_destroy(&real);
        unsetenv("PENSTOCK_APART_DEAF");
        assert_true(i == 1 || (status == PST_OK && isfinite(heard.loss)));
    }
    assert_true(status != PST_OK || heard.loss != deaf.loss || heard.grad_norm != deaf.grad_norm);
}

/* --- times ------------------------------------------------------------------------------------ */

/* ret_copies: of rank 0; NULL: they are not asked for. */
static struct pst_timeline *record(struct real *real, uint32_t n_steps,
                                   struct pst_exec_copies *ret_copies)
{
    struct pst_exec_config config = {.graph = real->graph,
                                     .plan = real->plan,
                                     .programs = (const struct pst_program *const *)real->programs,
                                     .device = real->device_ops,
                                     .device_config = {.threads = 1, .kernels = "auto"},
                                     .transport = load_threads(),
                                     .stall_ns = 60000000000u};
    struct pst_batch batch = {.first_sample = 0};
    struct pst_timeline *timeline = NULL;
    struct pst_error err = {0};

    pst_exec_destroy(real->exec);
    config.recorder = pst_recorder_create(real->graph, real->plan, config.programs, n_steps);
    MUST(pst_exec_create(&config, &real->exec, &err));
    memcpy(batch.inputs, real->inputs, sizeof real->inputs);
    for (uint32_t i = 0; i < n_steps; i++) {
        struct pst_update update = real_adamw(i + 1);
        struct pst_step_result result;

        MUST(pst_exec_step(real->exec, &batch, &update, &result, &err));
    }
    if (ret_copies != NULL) {
        MUST(pst_exec_copied(real->exec, 0, ret_copies, &err));
    }
    MUST(pst_run_timeline(config.recorder, 1, &timeline, &err));
    pst_exec_destroy(real->exec);
    real->exec = NULL;
    pst_recorder_destroy(config.recorder);
    return timeline;
}

static const struct pst_span *find_pass(const struct pst_timeline *timeline, uint32_t op,
                                        uint32_t step, uint32_t stage, uint32_t microbatch)
{
    for (uint32_t i = 0; i < timeline->n_spans; i++) {
        const struct pst_span *span = &timeline->spans[i];

        if (span->op == op && span->step == step && span->stage == stage &&
            span->microbatch == microbatch) {
            return span;
        }
    }
    fail_msg("pass %u of stage %u, micro-batch %u was not recorded", op, stage, microbatch);
    return NULL;
}

/* What is recorded are times of the device: no pass begins before what it reads is there, though
   the host asks for all of them long before that. */
TEST(test_times)
{
    const struct layout layout = {3, {0, 1, 2}, ORDER_1F1B, false, {0}};
    struct pst_timeline *timeline;
    FINISHED_BY(real_destroy) struct real real;
    uint32_t n_transfers = 0;

    real_create(&real, "mlp", "inputs=12 hidden=16 layers=4 classes=7", PST_F32, &layout, 4 * SIZE,
                2, 0.5);
    real_data(&real, REAL_CLASSES);
    timeline = record(&real, REAL_STEPS, NULL);
    for (uint32_t t = 0; t < REAL_STEPS; t++) {
        for (uint32_t j = 0; j < 4; j++) {
            for (uint32_t s = 0; s + 1 < 3; s++) {
                const struct pst_span *f = find_pass(timeline, PST_I_F, t, s, j);
                const struct pst_span *next = find_pass(timeline, PST_I_F, t, s + 1, j);
                const struct pst_span *b = find_pass(timeline, PST_I_BW, t, s, j);

                assert_true(f->start_ns < f->end_ns && f->end_ns <= next->start_ns);
                assert_true(find_pass(timeline, PST_I_BW, t, s + 1, j)->end_ns <= b->start_ns);
            }
        }
    }
    for (uint32_t i = 0; i < timeline->n_spans; i++) {
        const struct pst_span *span = &timeline->spans[i];

        if (span->op == PST_I_RECV && span->to_stage == span->stage + 1) {
            const struct pst_span *f =
                find_pass(timeline, PST_I_F, span->step, span->stage, span->first_sample / SIZE);

            n_transfers++;
            assert_true(f->end_ns <= span->start_ns && span->start_ns <= span->end_ns);
        }
    }
    assert_int_equal(n_transfers, REAL_STEPS * 2 * 4);
    pst_timeline_destroy(timeline);
}

/* A pass that waits for a copy stands still, and how long is told as where threads copy. Of the
   copies from host memory, each of which takes SLOW_NS of the double and more, kernels of a
   microsecond hide nearly nothing. */
TEST(test_stalls)
{
    static const struct pst_exec_copy_config copies = {0};
    const struct layout layout = {1, {0}, ORDER_GPIPE, false, {0}};
    struct pst_exec_copies copied = {{0}, {0}, 0};
    struct pst_timeline *timeline;
    uint64_t stall_ns = 0;
    FINISHED_BY(real_destroy) struct real real;

    offloading = (struct offloading){.seed = 6, .copies = &copies};
    real_create(&real, "gpt", GPT, PST_F32, &layout, 4 * SIZE, 2, 0.5);
    real_data(&real, REAL_CLASSES);
    setenv("PENSTOCK_APART_SLOW", "1", 1);
    timeline = record(&real, 2, &copied);
    unsetenv("PENSTOCK_APART_SLOW");
    for (uint32_t i = 0; i < timeline->n_spans; i++) {
        const struct pst_span *span = &timeline->spans[i];

        assert_true(span->stall_ns <= span->end_ns - span->start_ns);
        assert_true(span->stall_ns == 0 || span->op <= PST_I_R);
        stall_ns += span->stall_ns;
    }
    print_message("stood still for %" PRIu64 " ns, of copies that took %" PRIu64 "\n", stall_ns,
                  copied.ns[1]);
    assert_true(copied.bytes[1] > 0 && stall_ns >= 2000000 && stall_ns <= copied.stall_ns);
    offloading = (struct offloading){.seed = 0};
    pst_timeline_destroy(timeline);
}

/* One that would copy with the processor is refused before anything is opened. */
TEST(test_transport)
{
    const struct layout layout = {2, {0, 1}, ORDER_1F1B, false, {0}};
    struct pst_transport_ops blind = *load_threads();
    struct pst_exec_config config = {0};
    struct pst_exec *exec = NULL;
    struct pst_error err = {0};
    FINISHED_BY(real_destroy) struct real real;

    real_create(&real, "mlp", "inputs=12 hidden=16 layers=4 classes=7", PST_F32, &layout, 4 * SIZE,
                0, 0);
    blind.takes_memory = false;
    config.graph = real.graph;
    config.plan = real.plan;
    config.programs = (const struct pst_program *const *)real.programs;
    config.device = real.device_ops;
    config.device_config = (struct pst_device_config){.threads = 1, .kernels = "auto"};
    config.transport = &blind;
    config.clip = 0;
    assert_int_equal(pst_exec_create(&config, &exec, &err), PST_ERR_UNSUPPORTED);
    assert_string_equal(err.kind, "machine.missing");
    assert_non_null(strstr(err.message, "cannot reach the memory of device apart"));
}

int main(void)
{
    setenv("PENSTOCK_TEST_DEVICE", MODULE, 1);
    return run_own_tests(NULL, NULL);
}
