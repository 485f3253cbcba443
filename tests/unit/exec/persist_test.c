/* SPDX-License-Identifier: Apache-2.0
 *
 * A run that goes on from copies of what outlives a step is, bit for bit, the one that was not
 * interrupted: for rules with and without several versions, bf16, replicas, ties, running
 * statistics, skipped steps; and for synchronous plans whatever the cut that goes on.
 */
#include "unit/exec/batches.h"

static const char mlp[] = "inputs=12 hidden=16 layers=4 classes=7";
static const char gpt[] = "layers=2 dim=16 heads=2 context=8 vocab=7 dropout=0.2";
static const char untied[] = "layers=2 dim=16 heads=2 context=8 vocab=7 dropout=0.2 tied=false";
static const char resnet[] = "image=8 width=4 stages=2 blocks=1 classes=7";

enum { MOST_VALUES = 400, BREAK = 4 };

/* Values that were copied out. */
struct kept {
    struct pst_state_key keys[MOST_VALUES];
    uint64_t elems[MOST_VALUES];
    float *values[MOST_VALUES];
    uint32_t n;
    uint64_t total;
};

static void note(void *context, const struct pst_state_key *key, uint64_t first, uint64_t elems)
{
    struct kept *kept = context;

    (void)first;
    for (uint32_t i = 0; i < kept->n; i++) { /* each has one that answers for it */
        assert_false(kept->keys[i].kind == key->kind && kept->keys[i].index == key->index &&
                     kept->keys[i].number == key->number);
    }
    assert_true(kept->n < MOST_VALUES);
    kept->keys[kept->n] = *key;
    kept->elems[kept->n++] = elems;
    kept->total += elems;
}

static void keep(const struct real *real, struct kept *kept)
{
    float *ranks[MOST_RANKS], *at;
    uint64_t begins[MOST_RANKS];
    struct pst_error err = {0};

    memset(kept, 0, sizeof *kept);
    for (uint32_t r = 0; r < real->n_ranks; r++) {
        begins[r] = kept->total;
        pst_exec_state_of(real->plan, real->programs[r], note, kept);
    }
    at = malloc(kept->total * sizeof *at);
    for (uint32_t r = 0; r < real->n_ranks; r++) {
        ranks[r] = at + begins[r];
    }
    MUST(pst_exec_copy_state(real->exec, ranks, &err));
    for (uint32_t i = 0; i < kept->n; i++) {
        kept->values[i] = at;
        at += kept->elems[i];
    }
}

static pst_status load(void *context, const struct pst_state_key *key, uint64_t elems,
                       float *ret_values, bool *ret_found, struct pst_error *err)
{
    const struct kept *kept = context;

    (void)err;
    for (uint32_t i = 0; i < kept->n; i++) {
        if (kept->keys[i].kind == key->kind && kept->keys[i].index == key->index &&
            kept->keys[i].number == key->number) {
            *ret_found = true;
            if (kept->elems[i] == elems) {
                memcpy(ret_values, kept->values[i], elems * sizeof *ret_values);
                return PST_OK;
            }
        }
    }
    return *ret_found ? PST_ERR_BUG : PST_OK;
}

/* Steps from..to-1, three in flight. */
static void run(struct real *real, uint32_t optimizer, const struct batches *batches, uint32_t from,
                uint32_t to, struct pst_step_result *results)
{
    struct pst_error err = {0};

    for (uint32_t done = from, n = from; done < to; done++) {
        while (n < to && pst_exec_in_flight(real->exec) < 3) {
            submit(real, batches, optimizer, n++);
        }
        if (n == to) {
            pst_exec_drain(real->exec);
        }
        MUST(pst_exec_collect(real->exec, &results[done], &err));
    }
}

static void make(struct real *real, const struct scene *scene, const struct layout *layout)
{
    const uint32_t width = scene->width > 0 ? scene->width : 1;

    real_create_with(real, scene->model, scene->settings, scene->dtype, layout,
                     scene->m * SIZE * width, slots_of(scene->optimizer), scene->clip,
                     scene->bad_step > 0);
    real_data(real, CLASSES);
}

/* Goes on with another layout, too. */
static void check(const struct scene *scene, const struct layout *first,
                  const struct layout *second)
{
    struct pst_step_result straight[STEPS], results[STEPS];
    struct pst_exec_source source = {.load = load};
    struct real whole, real;
    struct batches batches;
    struct kept kept;
    uint64_t n, m, update;
    float *expected, *values;

    make(&whole, scene, first);
    make_batches(&whole, scene->bad_step, &batches);
    run(&whole, scene->optimizer, &batches, 0, BREAK, straight);
    keep(&whole, &kept);
    update = pst_exec_updates(whole.exec);
    run(&whole, scene->optimizer, &batches, BREAK, STEPS, straight);
    expected = real_parameters(&whole, &n);
    source.context = &kept;
    real_resumes.source = &source;
    real_resumes.step = BREAK;
    real_resumes.update = update;
    make(&real, scene, second);
    memset(&real_resumes, 0, sizeof real_resumes);
    run(&real, scene->optimizer, &batches, BREAK, STEPS, results);
    values = real_parameters(&real, &m);
    for (uint32_t t = BREAK; t < STEPS; t++) {
        if (results[t].loss != straight[t].loss || results[t].grad_norm != straight[t].grad_norm ||
            results[t].skipped != straight[t].skipped) {
            fail_msg("%s, order %u, optimizer %u, step %u: loss %a, norm %a; without a break %a, "
                     "%a",
                     scene->model, first->order, scene->optimizer, t, results[t].loss,
                     results[t].grad_norm, straight[t].loss, straight[t].grad_norm);
        }
    }
    assert_int_equal(n, m);
    assert_memory_equal(values, expected, n * sizeof *values);
    assert_true(pst_exec_updates(real.exec) == pst_exec_updates(whole.exec));
    assert_true(real_eval(&real) == real_eval(&whole));
    free(kept.values[0]);
    free(expected);
    free(values);
    free_batches(&batches);
    real_destroy(&real);
    real_destroy(&whole);
}

static void check_same(const struct scene *scene, enum order order)
{
    struct layout layout = {scene->n_stages, {0, 1, 2, 3, 4, 5}, order, scene->recompute, {0}};

    for (uint32_t s = 0; s < scene->n_stages && scene->width > 1; s++) {
        layout.replicas[s] = scene->width;
    }
    check(scene, &layout, &layout);
}

/* Both rules with several versions, whose slots and micro-batches count on from where they were. */
TEST(test_versions)
{
    for (uint32_t i = 0; i < 24; i++) {
        bool tied = i % 2 == 0;

        check_same(&(struct scene){.model = i % 3 == 0 ? "mlp" : "gpt",
                                   .settings = i % 3 == 0 ? mlp
                                               : tied     ? gpt
                                                          : untied,
                                   .dtype = i / 12 == 0 ? PST_F32 : PST_BF16,
                                   .optimizer = PST_SGD + i % 4,
                                   .n_stages = 1 + i / 2 % 3,
                                   .m = 3 + i % 3},
                   tied ? ORDER_2BW : ORDER_STASHED);
    }
}

TEST(test_replicas)
{
    for (uint32_t i = 0; i < 4; i++) {
        check_same(&(struct scene){.model = "gpt",
                                   .settings = i == 3 ? untied : gpt,
                                   .dtype = PST_F32,
                                   .optimizer = PST_ADAMW,
                                   .n_stages = 2,
                                   .m = 4,
                                   .width = 2},
                   i == 0   ? ORDER_GPIPE
                   : i == 1 ? ORDER_1F1B
                   : i == 2 ? ORDER_2BW
                            : ORDER_STASHED);
    }
}

/* An update that was left out does not count for Adam's bias. */
TEST(test_skipped)
{
    for (uint32_t i = 0; i < 4; i++) {
        check_same(&(struct scene){.model = "mlp",
                                   .settings = mlp,
                                   .dtype = PST_F32,
                                   .optimizer = PST_ADAM,
                                   .n_stages = 2,
                                   .m = 3,
                                   .clip = 0.5,
                                   .bad_step = 2 + i % 2},
                   i < 2 ? ORDER_1F1B : ORDER_2BW);
    }
}

TEST(test_other_cuts)
{
    static const struct layout layouts[] = {
        {1, {0}, ORDER_GPIPE, false, {0}},
        {2, {0, 1}, ORDER_1F1B, false, {0}},
        {4, {0, 1, 2, 3}, ORDER_SPLIT, true, {0}},
        {4, {0, 1, 1, 0}, ORDER_REVERSE, false, {0}},
    };
    static const char *const models[][2] = {{"gpt", gpt}, {"resnet", resnet}, {"mlp", mlp}};

    for (uint32_t i = 0; i < 16; i++) {
        check(&(struct scene){.model = models[i % 3][0],
                              .settings = models[i % 3][1],
                              .dtype = PST_F32,
                              .optimizer = PST_ADAMW,
                              .m = 4,
                              .clip = 0.5},
              &layouts[i / 4], &layouts[i % 4]);
    }
}
