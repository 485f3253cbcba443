/* SPDX-License-Identifier: Apache-2.0
 *
 * The schedulers that there are, whichever the plugin folder holds, each with the quickstart job in
 * small: four devices, eight micro-batches, AdamW, clipping, an evaluation in the middle and one at
 * the end, a few letters of text. Include cmocka before.
 */
#ifndef PENSTOCK_TESTS_SCHEDULERS_H
#define PENSTOCK_TESTS_SCHEDULERS_H

#include "bits.h"

enum { MAX_SCHEDULERS = 64, MAX_SETTINGS = 3 };

static const char quickstart[] = "include = \"" PENSTOCK_SOURCE_DIR "/configs/quickstart.toml\"\n"
                                 "[model]\ndim = 16\nheads = 2\ncontext = 8\ndropout = 0.1\n"
                                 "[data]\ntrain = \"/usr/share/common-licenses/GPL-2\"\n"
                                 "[train]\nsteps = 3\nbatch = 16\nmicrobatch = 2\n"
                                 "eval_every = 2\neval_batches = 1\nsample = 5\n"
                                 "[partitioner]\nuse = \"uniform\"\n"; /* a chain: exported */

static char ids[MAX_SCHEDULERS][64];
static uint32_t n_ids;
static char *config;         /* of all runs */
static char order_file[128]; /* CSV of a zero-bubble order on a V */
static struct trace gpipe;
static bool stashed; /* the plan that was written last updates stages one by one */

/* What must be said to schedulers that do not answer the quickstart job as it is. */
static const struct {
    const char *id, *set;
} needs[] = {
    {"csv", "scheduler.file="},               /* the order file */
    {"optimal", "scheduler.max_nodes=20000"}, /* or they search for seconds */
    {"v-adaptive", "scheduler.exact=20000"},
    {"pipedream", "train.clip=0"}, /* its stages update on their own */
    {"pipedream", "model.tied=false"},
};

static inline void find_schedulers(void)
{
    struct outcome o = penstock("plugins", "list", "--json");
    json_t *root = json_loads(o.out, 0, NULL), *row;
    size_t i;

    expect_code(&o, 0);
    assert_non_null(root);
    json_array_foreach(json_object_get(root, "plugins"), i, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "kind")), "scheduler") == 0) {
            assert_string_equal(json_string_value(json_object_get(row, "state")), "ok");
            assert_true(n_ids < MAX_SCHEDULERS);
            snprintf(ids[n_ids++], sizeof ids[0], "%s",
                     json_string_value(json_object_get(row, "id")));
        }
    }
    json_decref(root);
    outcome_finish(&o);
}

static inline int schedulers_begin(void **state)
{
    static const char *const plain[] = {"scheduler.use=gpipe", NULL};
    struct outcome o;

    if (support_begin(state) != 0) {
        return -1;
    }
    find_schedulers();
    config = strdup(support_write("quickstart.toml", quickstart));
    snprintf(order_file, sizeof order_file, "%s", support_path("order.csv"));
    o = penstock("export", "pytorch-csv", config, "--set", "scheduler.use=zbv", "-o", order_file);
    expect_code(&o, 0);
    outcome_finish(&o);
    bits_train(config, plain, &gpipe);
    return n_ids >= 2 ? 0 : -1;
}

static inline int schedulers_end(void **state)
{
    free(config);
    return support_end(state);
}

/* The settings of a scheduler; up to NULL. */
static inline void settings(const char *id, char (*texts)[192], const char **ret_sets)
{
    uint32_t n = 1; /* up to MAX_SETTINGS */

    snprintf(texts[0], sizeof texts[0], "scheduler.use=%s", id);
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
        if (strcmp(needs[i].id, id) == 0) {
            snprintf(texts[n++], sizeof texts[0], "%s%s", needs[i].set,
                     strcmp(id, "csv") == 0 ? order_file : "");
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        ret_sets[i] = texts[i];
    }
    ret_sets[n] = NULL;
}

/* Bytes of host memory over all devices of the plan file, and how many copies there are. */
static inline json_int_t host_bytes(const char *path, uint32_t *ret_copies)
{
    json_t *root = json_load_file(path, 0, NULL), *device, *instr;
    json_int_t bytes = 0;
    size_t d, i;

    assert_non_null(root);
    *ret_copies = 0;
    json_array_foreach(json_object_get(root, "devices"), d, device)
    {
        bytes += json_integer_value(json_object_get(device, "host_bytes"));
        json_array_foreach(json_object_get(device, "body"), i, instr)
        {
            const char *op = json_string_value(json_array_get(instr, 0));

            *ret_copies += strcmp(op, "OFFLOAD") == 0 || strcmp(op, "FETCH") == 0;
        }
    }
    json_decref(root);
    return bytes;
}

/* Writes the plan; is it asynchronous? */
static inline bool write_plan(const char *const *sets, const char *path)
{
    const char *args[SUPPORT_ARGUMENTS] = {"plan", config, "-o", path};
    struct outcome o;
    json_t *root;
    bool asynchronous;

    for (uint32_t i = 0; sets[i] != NULL; i++) {
        args[4 + 2 * i] = "--set";
        args[5 + 2 * i] = sets[i];
    }
    o = support_run(args);
    expect_code(&o, 0);
    outcome_finish(&o);
    root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    asynchronous = strcmp(json_string_value(json_object_get(root, "mode")), "sync") != 0;
    stashed = strcmp(json_string_value(json_object_get(json_object_get(root, "versions"), "rule")),
                     "stashed") == 0;
    json_decref(root);
    return asynchronous;
}

/* Of the run with gpipe. */
static inline void check_reference(void)
{
    assert_int_equal(gpipe.n_steps, 3);
    assert_int_equal(gpipe.n_evals, 2);
    assert_int_not_equal(strlen(gpipe.sample), 0);
    assert_string_not_equal(gpipe.losses[0], gpipe.losses[1]);
}

/* An asynchronous schedule computes something else from the second batch on (delayed_test.c says
   what), or from the second micro-batch (unit/exec/stashed_test.c), the others the same bits as
   gpipe. */
static inline void check_bits(const char *id, const struct trace *trace, bool asynchronous)
{
    if (stashed) {
        assert_int_equal(trace->n_steps, gpipe.n_steps);
        assert_int_equal(trace->n_evals, gpipe.n_evals);
        assert_false(bits_steps_are_same(trace, &gpipe, 1));
    } else if (asynchronous) {
        assert_true(bits_steps_are_same(trace, &gpipe, 1));
        assert_false(bits_steps_are_same(trace, &gpipe, 2));
    } else {
        bits_expect_same(id, trace, &gpipe);
    }
}

#endif
