/* SPDX-License-Identifier: Apache-2.0
 *
 * Muon's update against torch.optim.Muon in double (tests/data/torch/muon.json).
 */
#include <jansson.h>

#include "cpu_rig.h"

enum { MOST = 128 };

static void read_numbers(const json_t *array, uint64_t n, float *ret_values)
{
    assert_int_equal(json_array_size(array), n);
    for (uint64_t i = 0; i < n; i++) {
        ret_values[i] = (float)json_number_value(json_array_get(array, i));
    }
}

static double number(const json_t *json, const char *key)
{
    return json_number_value(json_object_get(json, key));
}

/* Outputs are columns here. */
static float factor_of(const json_t *json, double rows, double columns)
{
    const char *adjust = json_string_value(json_object_get(json, "adjust"));

    return (float)(strcmp(adjust, "original") == 0 ? sqrt(fmax(1, columns / rows))
                                                   : 0.2 * sqrt(fmax(rows, columns)));
}

/*
 * Each of the five steps multiplies an error by the slope at 0, 3.4445, at most, and adds about ten
 * roundings: 3.4445^5 * 10 / 2^24 of the update, for three updates.
 */
static void check_case(struct pst_device *device, const json_t *json)
{
    const json_t *grads = json_object_get(json, "grads"), *steps = json_object_get(json, "steps");
    struct pst_update update = {.optimizer = PST_MUON,
                                .lr = (float)number(json, "lr"),
                                .momentum = (float)number(json, "momentum"),
                                .weight_decay = (float)number(json, "weight_decay"),
                                .grad_scale = 1,
                                .rows = (uint64_t)number(json, "rows"),
                                .columns = (uint64_t)number(json, "columns")};
    const uint64_t n = update.rows * update.columns;
    const uint64_t floats = pst_muon_room(update.rows, update.columns).floats;
    float weights[MOST], grad[MOST], slot[MOST] = {0}, working[MOST], expected[MOST];
    float *room = aligned_alloc(64, (floats * sizeof *room + 127) / 64 * 64);
    double bound;

    assert_true(n <= MOST);
    room[floats] = 42; /* nothing is written behind it */
    update.factor = factor_of(json, (double)update.rows, (double)update.columns);
    update.room = room;
    bound = 3 * pow(3.4445, 5) * 10 / 0x1p24 * (double)(update.lr * update.factor) + 0x1p-22;
    read_numbers(json_object_get(json, "weights"), n, weights);
    for (size_t t = 0; t < json_array_size(steps); t++) {
        update.step = t + 1;
        read_numbers(json_array_get(grads, t), n, grad);
        read_numbers(json_array_get(steps, t), n, expected);
        rig_ops->update(device, &update, weights, grad, slot, NULL, working, PST_F32, n);
        for (uint64_t i = 0; i < n; i++) {
            if (!(fabs((double)weights[i] - (double)expected[i]) <= bound)) {
                fail_msg("%s, step %zu, %llu: expected %.9g, found %.9g",
                         json_string_value(json_object_get(json, "name")), t, (unsigned long long)i,
                         (double)expected[i], (double)weights[i]);
            }
            assert_true(working[i] == weights[i]);
        }
    }
    assert_true(room[floats] == 42);
    free(room);
}

TEST(test_recorded)
{
    json_error_t why;
    json_t *root = json_load_file(PENSTOCK_SOURCE_DIR "/tests/data/torch/muon.json", 0, &why);
    const json_t *cases = json_object_get(root, "cases");

    assert_int_equal(json_array_size(cases), 6);
    for (uint32_t i = 0; i < 3; i++) {
        struct pst_device *device = rig_open(i == 0 ? "reference" : "auto", 1 + i / 2);

        rig_ops->enter(device);
        for (size_t c = 0; c < json_array_size(cases); c++) {
            check_case(device, json_array_get(cases, c));
        }
        rig_ops->close(device);
    }
    json_decref(root);
}

/* A gradient of zeros leaves zeros, not NaN. */
TEST(test_no_gradient)
{
    struct pst_device *device = rig_open("auto", 1);
    float weights[6] = {1, 2, 3, 4, 5, 6}, grad[6] = {0}, slot[6] = {0}, room[128];
    const struct pst_update update = {.optimizer = PST_MUON,
                                      .lr = 1,
                                      .momentum = 0.9f,
                                      .grad_scale = 1,
                                      .step = 1,
                                      .rows = 2,
                                      .columns = 3,
                                      .factor = 1,
                                      .room = room};

    assert_true(pst_muon_room(2, 3).floats <= 128);
    rig_ops->update(device, &update, weights, grad, slot, NULL, NULL, PST_F32, 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_true(weights[i] == (float)(i + 1));
    }
    rig_ops->close(device);
}

TEST_GROUP(rig_load, NULL)
