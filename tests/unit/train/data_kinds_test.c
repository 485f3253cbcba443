/* SPDX-License-Identifier: Apache-2.0
 *
 * The kinds of data: those of the config's row are those of the table; samples of plugins are
 * judged.
 */
#include "test.h"

#include <math.h>

#include "data/data_impl.h"
#include "data/data_plugin.h"

/* The row of data.kind lists what is built in (train/job cannot see the table). */
TEST(test_words_of_the_config)
{
    const struct pst_job_section *section = pst_training_rows.sections;
    char words[256], *save = NULL;
    uint32_t n = 0;

    assert_string_equal(section->name, "data");
    assert_string_equal(section->rows[0].key, section->names_plugin);
    snprintf(words, sizeof words, "%s", section->rows[0].range);
    for (char *at = strtok_r(words, "|", &save); at != NULL; at = strtok_r(NULL, "|", &save)) {
        assert_string_equal(pst_data_kind_of(at)->id, at);
        assert_int_equal(pst_data_is_built_in(at), strcmp(at, "synthetic") != 0);
        n++;
    }
    assert_int_equal(n, 9);
    assert_null(pst_data_kind_of("mine")->id);
    assert_false(pst_data_is_built_in("mine"));
}

/* Every position of an epoch has one number, each number once; held out they are in order. */
TEST(test_shuffle)
{
    enum { N = 37 };
    bool seen[N] = {false};
    uint32_t moved = 0;

    for (uint64_t i = 0; i < N; i++) {
        const uint64_t at = pst_data_shuffle(3, PST_SPLIT_TRAIN, N, 5 * N + i);

        assert_true(at < N && !seen[at]);
        seen[at] = true;
        moved += at != pst_data_shuffle(3, PST_SPLIT_TRAIN, N, 6 * N + i);
        assert_int_equal(pst_data_shuffle(3, PST_SPLIT_VALID, N, 2 * N + i), i);
    }
    assert_true(moved > N / 2);
}

/* x is f32 [2], targets are classes of 4; two samples. */
static bool judge(const float *x, const int32_t *targets, int32_t ignored, char fault[256])
{
    const struct pst_data_input inputs[] = {
        {.name = "x", .field = PST_FIELD_X, .dtype = PST_F32, .elems = 2, .bytes = 8},
        {.name = "y",
         .field = PST_FIELD_TARGET,
         .dtype = PST_I32,
         .elems = 1,
         .bytes = 4,
         .range = 4}};
    const struct pst_data_shape shape = {
        .size = sizeof shape, .n_inputs = 2, .input_size = sizeof *inputs, .inputs = inputs};

    return pst_data_judge(&shape, ignored, 10, 2, (void *[]){(void *)x, (void *)targets}, fault);
}

TEST(test_judge)
{
    const float x[] = {0, 1, 2, 3}, holes[] = {0, 1, NAN, 3}, ends[] = {0, INFINITY, 2, 3};
    const int32_t y[] = {0, 3}, free_of_loss[] = {-1, 3}, beyond[] = {0, 4}, below[] = {-2, 0};
    char fault[256];

    assert_true(judge(x, y, -1, fault));
    assert_true(judge(x, free_of_loss, -1, fault));
    assert_true(judge(x, beyond, 4, fault));
    assert_false(judge(x, beyond, -1, fault));
    assert_string_equal(fault, "read() gave 4 at index 0 of y of sample 11, but the model has 4 "
                               "values: 0 to 3");
    assert_false(judge(x, below, -1, fault));
    assert_false(judge(holes, y, -1, fault));
    assert_string_equal(fault,
                        "read() gave a number that is not finite at index 0 of x of sample 11");
    assert_false(judge(ends, y, -1, fault));
}

/* bf16: infinities and NaN have all exponent bits; the largest number does not. */
TEST(test_judge_bf16)
{
    const struct pst_data_input input = {
        .name = "x", .field = PST_FIELD_X, .dtype = PST_BF16, .elems = 1, .bytes = 2};
    const struct pst_data_shape shape = {
        .size = sizeof shape, .n_inputs = 1, .input_size = sizeof input, .inputs = &input};
    const struct {
        uint16_t bits;
        bool finite;
    } cases[] = {{0x3F80, true}, {0xFF7F, true}, {0x7F80, false}, {0xFFC0, false}};
    char fault[256];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(
            pst_data_judge(&shape, -1, 0, 1, (void *[]){(void *)&cases[i].bits}, fault),
            cases[i].finite);
    }
}
