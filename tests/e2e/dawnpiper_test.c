/* SPDX-License-Identifier: Apache-2.0
 *
 * DawnPiper from one config (configs/dawnpiper.toml): profile, plan with the profile, train. It
 * fits where everything kept does not, and trains the losses that everything kept has without a
 * limit; what it is compared with gets less far.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bits.h"

#define CONFIG   PENSTOCK_SOURCE_DIR "/configs/dawnpiper.toml"
#define CAPACITY (8 * 1024 * 1024)

/* Of the device that takes the most. */
static json_int_t planned_bytes(const char *const *sets)
{
    const char *args[SUPPORT_ARGUMENTS] = {"plan", CONFIG, "--json"};
    struct outcome o;
    json_t *root, *device;
    json_int_t most = 0;
    size_t i;

    for (uint32_t n = 0; sets[n] != NULL; n++) {
        args[3 + 2 * n] = "--set";
        args[4 + 2 * n] = sets[n];
    }
    o = support_run(args);
    expect_code(&o, 0);
    root = json_loads(o.out, 0, NULL);
    json_array_foreach(json_object_get(root, "devices"), i, device)
    {
        json_int_t bytes = json_integer_value(json_object_get(device, "arena_bytes"));

        most = bytes > most ? bytes : most;
    }
    assert_int_equal(i, 4);
    json_decref(root);
    outcome_finish(&o);
    return most;
}

static void from_profile_to_losses(void **state)
{
    static const char *const short_run[] = {"train.steps=2", "train.warmup=0", "train.sample=0",
                                            "train.eval_batches=0"};
    const char *profile = support_path("small.json");
    const char *profiled[8] = {NULL}, *whole[8] = {NULL};
    struct outcome o = penstock("profile", CONFIG, "-o", profile, "--sizes", "4", "--rounds", "3");
    struct trace first, other;
    char set[4200];

    (void)state;
    expect_code(&o, 0);
    outcome_finish(&o);
    snprintf(set, sizeof set, "profile.file=\"%s\"", profile);
    memcpy(profiled, short_run, sizeof short_run);
    memcpy(whole, short_run, sizeof short_run);
    profiled[4] = set;
    whole[4] = "memopt.use=none";
    whole[5] = "cluster.memory=0";
    assert_true(planned_bytes(profiled) <= CAPACITY);
    assert_true(planned_bytes(whole) > CAPACITY);
    bits_train(CONFIG, profiled, &first); /* peaks as planned */
    bits_train(CONFIG, whole, &other);
    assert_int_equal(first.n_steps, 2);
    assert_memory_equal(first.losses, other.losses, sizeof first.losses);
}

/* The last record is DawnPiper's. */
static void largest_batches(void **state)
{
    struct outcome o = penstock("tune", CONFIG, "--objective", "max-batch", "--json");
    json_t *root, *record;
    json_int_t largest[4];
    size_t i;

    (void)state;
    expect_code(&o, 0);
    root = json_loads(o.out, 0, NULL);
    assert_non_null(root);
    assert_int_equal(json_array_size(json_object_get(root, "records")), 4);
    json_array_foreach(json_object_get(root, "records"), i, record)
    {
        largest[i] = json_integer_value(json_object_get(record, "max_microbatch"));
        assert_true(largest[i] > 0);
        assert_true(json_is_true(json_object_get(record, "bounded")));
    }
    for (i = 0; i < 3; i++) {
        assert_true(largest[3] > largest[i]);
    }
    json_decref(root);
    outcome_finish(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_profile_to_losses),
        cmocka_unit_test(largest_batches),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
