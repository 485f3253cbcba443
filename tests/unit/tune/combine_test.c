/* SPDX-License-Identifier: Apache-2.0
 *
 * [compare]: what it lists becomes configs; what it does not list stays; what is wrong is named.
 */
#include "test.h"

#include "tune/combinations.h"
#include "job_defaults.h"

#define BASE                                                                                       \
    "[model]\nuse = 'gpt'\n[train]\nbatch = 24\nmicrobatch = 4\nlr = 0.25\n"                       \
    "[cluster]\ndevices = 4\n[partitioner]\nuse = 'greedy'\n"                                      \
    "[scheduler]\nuse = 'interleaved'\nchunks = 3\n[[memopt]]\nuse = 'full'\nunit = 'layer'\n"

static struct rig {
    struct pst_config *config;
    struct pst_job job;
    struct pst_combinations set;
} rig;

static struct pst_error err;

static pst_status read_whole(const char *text)
{
    memset(&rig, 0, sizeof rig);
    memset(&err, 0, sizeof err);
    assert_ok(pst_config_parse(text, strlen(text), "test.toml", &rig.config, &err), &err);
    assert_ok(pst_job_read(rig.config, &rig.job, &err), &err);
    return pst_combinations_read(&rig.job, &rig.set, &err);
}

static pst_status read(const char *compare)
{
    char text[2048];

    snprintf(text, sizeof text, "%s%s", BASE, compare);
    return read_whole(text);
}

static void finish(void)
{
    pst_combinations_finish(&rig.set);
    pst_job_finish(&rig.job);
    pst_config_destroy(rig.config);
}

static json_t *config_of(uint32_t i, uint32_t microbatch, uint32_t batch)
{
    char *text = pst_combination_config(&rig.set, i, microbatch, batch);
    json_t *config;

    assert_non_null(text);
    config = json_loads(text, 0, NULL);
    assert_non_null(config);
    free(text);
    return config;
}

/* The value at a path such as "scheduler.chunks", as compact JSON. */
static void expect_at(const json_t *config, const char *path, const char *should)
{
    char copy[64], *rest = copy, *part, *is;

    snprintf(copy, sizeof copy, "%s", path);
    while ((part = strsep(&rest, ".")) != NULL) {
        config = json_is_array(config) ? json_array_get(config, (size_t)atoi(part))
                                       : json_object_get(config, part);
    }
    is = config == NULL ? strdup("nothing") : json_dumps(config, JSON_ENCODE_ANY | JSON_COMPACT);
    assert_string_equal(is, should);
    free(is);
}

TEST(test_without_lists)
{
    json_t *config;

    assert_ok(read(""), &err);
    assert_int_equal(rig.set.n, 1);
    assert_string_equal(pst_combination_label(&rig.set, 0, PST_AXIS_SCHEDULER),
                        "interleaved chunks=3");
    assert_string_equal(pst_combination_label(&rig.set, 0, PST_AXIS_MEMOPT), "full unit=layer");
    assert_string_equal(pst_combination_label(&rig.set, 0, PST_AXIS_DEVICES), "4");
    assert_string_equal(pst_combination_label(&rig.set, 0, PST_AXIS_MICROBATCH), "4");
    assert_string_equal(pst_combination_label(&rig.set, 0, PST_AXIS_ZERO), "0");
    config = config_of(0, 0, 0);
    expect_at(config, "parallel", "nothing");
    expect_at(config, "train.lr", "0.25");
    expect_at(config, "scheduler.chunks", "3");
    expect_at(config, "train.microbatch", "4");
    json_decref(config);
    finish();
}

/* The last list goes round fastest, and every pair of values is met once. */
TEST(test_product)
{
    static const char *const partitioners[] = {"uniform", "greedy"};
    static const char *const sizes[] = {"1", "2", "3"};

    assert_ok(read("[compare]\nmicrobatches = [1, 2, 3]\npartitioners = ['uniform', 'greedy']\n"),
              &err);
    assert_int_equal(rig.set.n, 6);
    for (uint32_t i = 0; i < 6; i++) {
        json_t *config = config_of(i, 0, 0);
        char quoted[32];

        snprintf(quoted, sizeof quoted, "\"%s\"", partitioners[i / 3]);
        assert_string_equal(pst_combination_label(&rig.set, i, PST_AXIS_PARTITIONER),
                            partitioners[i / 3]);
        expect_at(config, "partitioner.use", quoted);
        expect_at(config, "train.microbatch", sizes[i % 3]);
        expect_at(config, "compare", "nothing");
        json_decref(config);
    }
    finish();
}

/* Without a list it has the config's value. */
TEST(test_zero)
{
    static const char *const values[] = {"0", "1"};

    assert_ok(read("[compare]\nzero = [0, 1]\nreplicas = [1, 2]\n"), &err);
    assert_int_equal(rig.set.n, 4);
    for (uint32_t i = 0; i < 4; i++) {
        json_t *config = config_of(i, 0, 0);

        assert_string_equal(pst_combination_label(&rig.set, i, PST_AXIS_ZERO), values[i % 2]);
        expect_at(config, "parallel.zero", values[i % 2]);
        expect_at(config, "train.degrees", i < 2 ? "1" : "2");
        json_decref(config);
    }
    finish();
    for (uint32_t zero = 1; zero < 4; zero++) {
        char text[32], label[8];

        snprintf(label, sizeof label, "%u", zero);
        snprintf(text, sizeof text, "[parallel]\nzero = %u\n", zero);
        assert_ok(read(text), &err);
        assert_string_equal(pst_combination_label(&rig.set, 0, PST_AXIS_ZERO), label);
        finish();
    }
}

/* It is the fastest axis. */
TEST(test_tensor)
{
    static const char *const values[] = {"1", "2"};

    assert_ok(read("[compare]\nzero = [0, 1]\ntensor = [1, 2]\n"), &err);
    assert_int_equal(rig.set.n, 4);
    for (uint32_t i = 0; i < 4; i++) {
        json_t *config = config_of(i, 0, 0);

        assert_string_equal(pst_combination_label(&rig.set, i, PST_AXIS_TENSOR), values[i % 2]);
        expect_at(config, "parallel.tensor", values[i % 2]);
        expect_at(config, "parallel.zero", i < 2 ? "0" : "1");
        json_decref(config);
    }
    finish();
    assert_ok(read("[parallel]\ntensor = 4\n"), &err);
    assert_string_equal(pst_combination_label(&rig.set, 0, PST_AXIS_TENSOR), "4");
    finish();
}

/* A bare name of the config's own strategy keeps its parameters, another has none. */
TEST(test_parameters)
{
    json_t *config;

    assert_ok(
        read(
            "[compare]\nschedulers = ['interleaved', '1f1b', { use = 'interleaved', chunks = 2 }]\n"
            "memopts = ['none', 'full', ['full', { use = 'none' }]]\ndevices = [2]\n"),
        &err);
    assert_int_equal(rig.set.n, 9);
    config = config_of(0, 0, 0);
    expect_at(config, "scheduler.chunks", "3");
    expect_at(config, "memopt", "[{\"use\":\"none\"}]");
    expect_at(config, "cluster.devices", "2");
    json_decref(config);
    config = config_of(4, 7, 35);
    expect_at(config, "scheduler", "{\"use\":\"1f1b\"}");
    expect_at(config, "memopt.0.unit", "\"layer\"");
    expect_at(config, "train.microbatch", "7");
    expect_at(config, "train.batch", "35");
    json_decref(config);
    config = config_of(8, 0, 0);
    expect_at(config, "scheduler.chunks", "2");
    expect_at(config, "memopt.1", "{\"use\":\"none\"}");
    assert_string_equal(pst_combination_label(&rig.set, 8, PST_AXIS_MEMOPT),
                        "full unit=layer + none");
    json_decref(config);
    finish();
}

/* Strategies of a method go round together, with every number of devices. */
TEST(test_methods)
{
    static const struct {
        const char *method, *partitioner, *scheduler, *memopt, *devices;
    } should[] = {
        {"old", "\"uniform\"", "\"gpipe\"", "\"full\"", "2"},
        {"old", "\"uniform\"", "\"gpipe\"", "\"full\"", "3"},
        {"new", "\"greedy\"", "\"interleaved\"", "\"none\"", "2"},
        {"new", "\"greedy\"", "\"interleaved\"", "\"none\"", "3"},
    };

    assert_ok(read("[compare]\ndevices = [2, 3]\n"
                   "methods = [{ name = 'old', partitioner = 'uniform', "
                   "scheduler = 'gpipe' }, { name = 'new', memopt = ['none'] }]\n"),
              &err);
    assert_int_equal(rig.set.n, 4);
    for (uint32_t i = 0; i < 4; i++) {
        json_t *config = config_of(i, 0, 0);

        assert_string_equal(pst_combination_method(&rig.set, i), should[i].method);
        expect_at(config, "partitioner.use", should[i].partitioner);
        expect_at(config, "scheduler.use", should[i].scheduler);
        expect_at(config, "memopt.0.use", should[i].memopt);
        expect_at(config, "cluster.devices", should[i].devices);
        json_decref(config);
    }
    assert_string_equal(pst_combination_label(&rig.set, 2, PST_AXIS_SCHEDULER),
                        "interleaved chunks=3");
    finish();
}

TEST(test_sizes)
{
    assert_ok(read("[compare]\ndevices = [1, 2]\n"), &err);
    pst_combinations_all_sizes(&rig.set, 24);
    assert_int_equal(rig.set.n, 8); /* 1, 2, 4, 8 divide 24 */
    assert_string_equal(pst_combination_label(&rig.set, 3, PST_AXIS_MICROBATCH), "8");
    pst_combinations_one_size(&rig.set);
    assert_int_equal(rig.set.n, 2);
    finish();
    assert_ok(read("[compare]\nmicrobatches = [3]\n"), &err);
    pst_combinations_all_sizes(&rig.set, 24);
    assert_int_equal(rig.set.n, 1);
    finish();
}

TEST(test_faults)
{
    static const struct {
        const char *compare, *kind, *words;
    } cases[] = {
        {"scheduler = ['1f1b']", "config.key", "\"scheduler\""},
        {"schedulers = '1f1b'", "config.value", "\"schedulers\""},
        {"schedulers = []", "config.value", "\"schedulers\""},
        {"schedulers = [3]", "config.value", "\"schedulers\""},
        {"partitioners = [{ chunks = 2 }]", "config.value", "\"partitioners\""},
        {"memopts = ['none', [['none']]]", "config.value", "\"memopts\""},
        {"devices = [0]", "config.value", "\"devices\""},
        {"microbatches = [1.5]", "config.value", "\"microbatches\""},
        {"zero = [4]", "config.value", "numbers from 0 to 3"},
        {"zero = [-1]", "config.value", "\"zero\""},
        {"zero = [true]", "config.value", "\"zero\""},
        {"zero = [1, 1]", "config.value", "\"1\" twice"},
        {"tensor = [0]", "config.value", "numbers from 1 to 1024"},
        {"methods = [{ partitioner = 'uniform' }]", "config.value", "\"methods\""},
        {"methods = [{ name = 'a', devices = 2 }]", "config.key", "\"devices\""},
        {"methods = [{ name = 'a' }]\nmemopts = ['none']", "config.value", "\"methods\""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[128];

        snprintf(text, sizeof text, "[compare]\n%s\n", cases[i].compare);
        assert_int_equal(read(text), PST_ERR_CONFIG);
        assert_string_equal(err.kind, cases[i].kind);
        assert_non_null(strstr(err.message, cases[i].words));
        assert_string_equal(err.file, "test.toml");
        assert_true(err.line > 0);
        finish();
    }
}

TEST(test_too_many)
{
    char text[8192] = "[compare]\n";

    for (int list = 0; list < 2; list++) {
        strcat(text, list == 0 ? "devices = [1" : "microbatches = [1");
        for (int i = 2; i <= 320; i++) {
            sprintf(text + strlen(text), ",%d", i);
        }
        strcat(text, "]\n");
    }
    assert_int_equal(read_whole(text), PST_ERR_CONFIG);
    assert_string_equal(err.kind, "config.limit");
    finish();
}
