/* SPDX-License-Identifier: Apache-2.0
 *
 * Offloading on the cpu device: whatever is moved, however late it comes, losses and parameters are
 * those of the plan that keeps everything; what changes in host memory is found; a link that stands
 * still ends the run, and one rank's failure that of the others.
 */
#include "unit/exec/real.h"

enum { BATCH = 16, STEPS = 3 };

#define GPT "layers=2 dim=16 heads=2 context=8 vocab=11 dropout=0.1"

static const struct pst_update update = {
    .optimizer = PST_ADAM, .lr = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .step = 1};

struct job {
    struct layout layout;
    struct offloading offloading;
};

struct outcome {
    double loss[STEPS];
    float *parameters;
    uint64_t n;
};

static uint64_t bytes_of(const struct pst_program *program, bool out)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < program->n_copies; i++) {
        bytes += program->copies[i].out == out ? program->copies[i].bytes : 0;
    }
    return bytes;
}

static uint64_t check_counts(struct real *real, uint64_t n_steps)
{
    uint64_t sum = 0;

    for (uint32_t r = 0; r < real->n_ranks; r++) {
        struct pst_exec_copies copied;

        assert_int_equal(pst_exec_copied(real->exec, r, &copied, NULL), PST_OK);
        for (uint32_t d = 0; d < 2; d++) {
            assert_int_equal(copied.bytes[d], n_steps * bytes_of(real->programs[r], d == 0));
            assert_true(copied.bytes[d] == 0 || copied.ns[d] > 0);
        }
        sum += copied.bytes[0];
    }
    return sum;
}

static struct outcome run(const char *model, const char *settings, const struct job *job,
                          uint64_t *ret_bytes)
{
    struct outcome outcome;
    struct real real;
    struct pst_update own = update;

    offloading = job->offloading;
    real_create(&real, model, settings, PST_F32, &job->layout, BATCH, 2, 1.0);
    real_data(&real, 5);
    for (uint32_t i = 0; i < STEPS; i++) {
        own.step = i + 1;
        outcome.loss[i] = real_step(&real, &own).loss;
        real_eval(&real);
    }
    *ret_bytes = check_counts(&real, STEPS);
    outcome.parameters = real_parameters(&real, &outcome.n);
    real_destroy(&real);
    return outcome;
}

static void compare(const char *model, const char *settings, const struct job *jobs, uint32_t n)
{
    struct job plain = {.layout = {.n_stages = 2, .ranks = {0, 1}, .order = ORDER_GPIPE}};
    uint64_t bytes;
    struct outcome expected = run(model, settings, &plain, &bytes);

    assert_int_equal(bytes, 0);
    for (uint32_t i = 0; i < n; i++) {
        struct outcome got = run(model, settings, &jobs[i], &bytes);

        print_message("%s, layout %u: %" PRIu64 " bytes to host memory\n", model, i, bytes);
        assert_true(bytes > 0);
        assert_memory_equal(got.loss, expected.loss, sizeof got.loss);
        assert_int_equal(got.n, expected.n);
        assert_memory_equal(got.parameters, expected.parameters, got.n * sizeof(float));
        free(got.parameters);
    }
    free(expected.parameters);
}

TEST(the_same_bits)
{
    static const struct pst_exec_copy_config checked = {.check = true};
    static const struct pst_exec_copy_config shared = {.check = true, .shared_link = true};
    static const struct pst_exec_copy_config slow = {.check = true, .bytes_per_s = 20000000};
    static const struct pst_exec_copy_config unchecked = {.shared_link = true};
    static const struct job jobs[] = {
        {{.n_stages = 2, .ranks = {0, 1}, .order = ORDER_GPIPE}, {.seed = 1, .copies = &checked}},
        {{.n_stages = 3, .ranks = {0, 1, 2}, .order = ORDER_1F1B}, {.seed = 2, .copies = &shared}},
        {{.n_stages = 3, .ranks = {0, 1, 2}, .order = ORDER_SPLIT},
         {.seed = 3, .copies = &checked}},
        {{.n_stages = 4, .ranks = {0, 1, 0, 1}, .order = ORDER_REVERSE},
         {.seed = 4, .copies = &shared}},
        {{.n_stages = 3, .ranks = {0, 1, 2}, .order = ORDER_1F1B}, {.seed = 5, .copies = &slow}},
        {{.n_stages = 1, .ranks = {0}, .order = ORDER_GPIPE}, {.seed = 6}},
        /* where nobody looks and nothing is slow, devices of their own copy by themselves */
        {{.n_stages = 3, .ranks = {0, 1, 2}, .order = ORDER_SPLIT}, {.seed = 7}},
        {{.n_stages = 4, .ranks = {0, 1, 0, 1}, .order = ORDER_REVERSE},
         {.seed = 8, .copies = &unchecked}},
    };

    compare("gpt", GPT, jobs, sizeof jobs / sizeof *jobs);
    compare("mmt", "", jobs, 2);
}

/* --- what goes wrong -------------------------------------------------------------------------- */

static void spoil(void *context, uint32_t rank, void *host, uint64_t bytes)
{
    atomic_uint *left = context;

    if (rank == 1 && atomic_fetch_sub(left, 1) == 1) {
        ((unsigned char *)host)[bytes / 2] ^= 0x10;
    }
}

static pst_status try_step(struct real *real, struct pst_error *err)
{
    struct pst_batch batch = {.first_sample = 0};
    struct pst_step_result result;

    memcpy(batch.inputs, real->inputs, sizeof real->inputs);
    return pst_exec_step(real->exec, &batch, &update, &result, err);
}

TEST(a_changed_bit)
{
    atomic_uint left = 3;
    struct pst_exec_copy_config copies = {.check = true, .hook = spoil, .context = &left};
    const struct layout layout = {.n_stages = 3, .ranks = {0, 1, 2}, .order = ORDER_1F1B};
    struct pst_error err = {0};
    FINISHED_BY(real_destroy) struct real real;

    offloading = (struct offloading){.seed = 2, .copies = &copies};
    real_create(&real, "gpt", GPT, PST_F32, &layout, BATCH, 2, 1.0);
    real_data(&real, 5);
    assert_int_equal(try_step(&real, &err), PST_ERR_BUG);
    assert_string_equal(err.kind, "run.copy");
    assert_int_equal(pst_error_exit_code(&err), 1);
    assert_non_null(strstr(err.message, "rank 1, FETCH of operator "));
    assert_non_null(strstr(err.message, "has changed"));
    assert_int_not_equal(try_step(&real, &err), PST_OK);
    real_destroy(&real);

    /* nobody looks: the step is made, with other bits */
    atomic_store(&left, 3);
    copies.check = false;
    real_create(&real, "gpt", GPT, PST_F32, &layout, BATCH, 2, 1.0);
    real_data(&real, 5);
    assert_int_equal(try_step(&real, &err), PST_OK);
}

/* One byte a second. */
TEST(a_dead_link)
{
    struct pst_exec_copy_config copies = {.bytes_per_s = 1};
    const struct layout layout = {.n_stages = 2, .ranks = {0, 1}, .order = ORDER_1F1B};
    struct pst_error err = {0};
    FINISHED_BY(real_destroy) struct real real;

    offloading = (struct offloading){.seed = 2, .copies = &copies, .stall_ns = 200000000};
    real_create(&real, "gpt", GPT, PST_F32, &layout, BATCH, 2, 1.0);
    real_data(&real, 5);
    assert_int_equal(try_step(&real, &err), PST_ERR_CANCELLED);
    assert_string_equal(err.kind, "run.stalled");
}
