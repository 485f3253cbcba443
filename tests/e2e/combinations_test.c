/* SPDX-License-Identifier: Apache-2.0
 *
 * Every scheduler with every partitioner and every memory optimizer that there is: what goes
 * together trains to the bits of one device, reaches just the memory that was predicted, and never
 * more than there is; what does not is told apart from what fails. Here each partitioner and each
 * memory optimizer meets all schedulers; with PENSTOCK_NIGHTLY set, all meet all, on the model of
 * configs/quickstart.toml too. `pipedream`, whose losses are those of the cut and which wants no
 * clipping, meets all memory optimizers on the same cut.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "support.h"

enum { MOST = 64 };

static const char model[] = "[model]\nuse = \"gpt\"\nlayers = 4\ndim = 16\nheads = 2\n"
                            "context = 16\ndropout = 0.1\n"
                            "[data]\nkind = \"text\"\n"
                            "train = \"/usr/share/common-licenses/GPL-2\"\n"
                            "[train]\nsteps = 2\nbatch = 8\nmicrobatch = 2\neval_batches = 0\n"
                            "[cluster]\ndevices = 2\nhost_bandwidth = \"4 GB/s\"\n"
                            "[partitioner]\nuse = \"uniform\"\n[scheduler]\nuse = \"gpipe\"\n"
                            "[[memopt]]\nuse = \"none\"\n";

struct ids {
    uint32_t n;
    char names[MOST][64];
};

static struct ids partitioners, schedulers, memopts;

/* What cannot answer without being told more: an order, stages by hand. */
static bool needs_more(const char *id)
{
    return strcmp(id, "csv") == 0 || strcmp(id, "manual") == 0;
}

static void add(struct ids *ids, const char *id)
{
    assert_true(ids->n < MOST);
    snprintf(ids->names[ids->n++], sizeof ids->names[0], "%s", id);
}

static int begin(void **state)
{
    struct outcome o;
    json_t *root, *row;
    size_t i;

    if (support_begin(state) != 0) {
        return -1;
    }
    o = support_run((const char *const[]){"plugins", "list", "--json", NULL});
    root = json_loads(o.out, 0, NULL);
    json_array_foreach(json_object_get(root, "plugins"), i, row)
    {
        const char *kind = json_string_value(json_object_get(row, "kind"));
        const char *id = json_string_value(json_object_get(row, "id"));

        if (!needs_more(id)) {
            add(strcmp(kind, "partitioner") == 0 ? &partitioners
                : strcmp(kind, "scheduler") == 0 ? &schedulers
                                                 : &memopts,
                id);
        }
    }
    json_decref(root);
    outcome_finish(&o);
    return partitioners.n >= 3 && schedulers.n >= 3 && memopts.n >= 2 ? 0 : -1;
}

/* compare.KEY=["...", ...] of ids [first, first + n). */
static char *list_of(const char *key, const struct ids *ids, uint32_t first, uint32_t n)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    assert_non_null(out);
    fprintf(out, "compare.%s=[", key);
    for (uint32_t i = first; i < first + n; i++) {
        fprintf(out, "%s\"%s\"", i > first ? ", " : "", ids->names[i]);
    }
    fprintf(out, "]");
    fclose(out);
    return text;
}

static json_t *compare(const char *path, char *const lists[3])
{
    struct outcome o = support_run((const char *const[]){"compare", path, "--run", "--steps", "2",
                                                         "--json", "--set", lists[0], "--set",
                                                         lists[1], "--set", lists[2], NULL});
    json_t *answer = json_loads(o.out, 0, NULL);

    if (answer == NULL || o.code != 0) {
        fail_msg("compare ended with %d: %.2000s\n%s", o.code, o.out, o.err);
    }
    outcome_finish(&o);
    return answer;
}

/* The loss of one device, by the version rule of the scheduler. */
static double loss_of_one(const char *path, const char *scheduler)
{
    char *lists[3];
    char use[96];
    json_t *answer;
    double loss;

    snprintf(use, sizeof use, "compare.schedulers=[\"%s\"]", scheduler);
    lists[0] = strdup("compare.devices=[1]");
    lists[1] = strdup(use);
    lists[2] = strdup("compare.memopts=[\"none\"]");
    answer = compare(path, lists);
    loss = json_number_value(
        json_object_get(json_array_get(json_object_get(answer, "records"), 0), "final_loss"));
    json_decref(answer);
    for (int i = 0; i < 3; i++) {
        free(lists[i]);
    }
    return loss;
}

static void check_done(const json_t *record, const char *name, double sync, double delayed)
{
    const char *scheduler = json_string_value(json_object_get(record, "scheduler"));
    bool late = strcmp(scheduler, "2bw") == 0;
    double loss = json_number_value(json_object_get(record, "final_loss"));
    uint64_t capacity = (uint64_t)json_integer_value(json_object_get(record, "capacity_bytes"));
    const json_t *bytes;
    size_t d;

    if (loss != (late ? delayed : sync)) {
        fail_msg("%s: loss %a, one device %a", name, loss, late ? delayed : sync);
    }
    if (!json_is_true(json_object_get(record, "memory_as_predicted"))) {
        fail_msg("%s: not the memory that was predicted", name);
    }
    json_array_foreach(json_object_get(record, "memory_bytes"), d, bytes)
    {
        assert_true(capacity == 0 || (uint64_t)json_integer_value(bytes) <= capacity);
    }
}

/* Returns how many ran. */
static uint32_t check_all(const json_t *answer, double sync, double delayed)
{
    const json_t *record;
    uint32_t n_done = 0;
    size_t i;

    json_array_foreach(json_object_get(answer, "records"), i, record)
    {
        const char *state = json_string_value(json_object_get(record, "state"));
        char name[256];

        snprintf(name, sizeof name, "%s x %s x %s",
                 json_string_value(json_object_get(record, "partitioner")),
                 json_string_value(json_object_get(record, "scheduler")),
                 json_string_value(json_object_get(record, "memopt")));
        if (strcmp(state, "done") == 0) {
            check_done(record, name, sync, delayed);
            n_done++;
        } else if (strcmp(state, "incompatible") != 0) {
            fail_msg(
                "%s: %s: %s", name, state,
                json_string_value(json_object_get(json_object_get(record, "error"), "message")));
        }
    }
    return n_done;
}

/* Each partitioner and each memory optimizer once or more, with all schedulers. */
static uint32_t meet_some(const char *path, double sync, double delayed)
{
    uint32_t n = partitioners.n > memopts.n ? partitioners.n : memopts.n, n_done = 0;

    for (uint32_t i = 0; i < n; i++) {
        char *lists[3] = {list_of("partitioners", &partitioners, i % partitioners.n, 1),
                          list_of("memopts", &memopts, i % memopts.n, 1),
                          list_of("schedulers", &schedulers, 0, schedulers.n)};
        json_t *answer = compare(path, lists);

        n_done += check_all(answer, sync, delayed);
        json_decref(answer);
        for (int k = 0; k < 3; k++) {
            free(lists[k]);
        }
    }
    return n_done;
}

/* All with all, a partitioner at a time, for a command may take no longer than two minutes. */
static uint32_t meet_all(const char *path, double sync, double delayed)
{
    uint32_t n_done = 0;

    for (uint32_t p = 0; p < partitioners.n; p++) {
        for (uint32_t m = 0; m < memopts.n; m++) {
            char *lists[3] = {list_of("partitioners", &partitioners, p, 1),
                              list_of("memopts", &memopts, m, 1),
                              list_of("schedulers", &schedulers, 0, schedulers.n)};
            json_t *answer = compare(path, lists);

            n_done += check_all(answer, sync, delayed);
            json_decref(answer);
            for (int k = 0; k < 3; k++) {
                free(lists[k]);
            }
        }
    }
    return n_done;
}

static void test_small(void **state)
{
    const char *path = support_write("small.toml", model);
    double sync = loss_of_one(path, "gpipe"), delayed = loss_of_one(path, "2bw");
    bool nightly = getenv("PENSTOCK_NIGHTLY") != NULL;
    uint32_t n = nightly ? meet_all(path, sync, delayed) : meet_some(path, sync, delayed);

    (void)state;
    printf("%u combinations\n", n);
    assert_true(sync != delayed);
    assert_true(n >= (nightly ? 500 : 100));
}

static void test_quickstart(void **state)
{
    const char *path = PENSTOCK_SOURCE_DIR "/configs/quickstart.toml";
    double sync, delayed;
    uint32_t n;

    (void)state;
    if (getenv("PENSTOCK_NIGHTLY") == NULL) {
        skip();
    }
    sync = loss_of_one(path, "gpipe");
    delayed = loss_of_one(path, "2bw");
    n = meet_all(path, sync, delayed);
    printf("%u combinations\n", n);
    assert_true(n >= 500);
}

/* Updates after every micro-batch: what is kept, and how, changes no loss. */
static void test_stashed(void **state)
{
    char text[sizeof model + 64], *lists[3];
    const char *tied = strstr(model, "[data]"), *clip = strstr(model, "[cluster]");
    uint32_t n_done = 0;
    const json_t *record;
    json_t *answer;
    double loss = 0;
    size_t i;

    (void)state;
    snprintf(text, sizeof text, "%.*stied = false\n%.*sclip = 0\n%s", (int)(tied - model), model,
             (int)(clip - tied), tied, clip);
    lists[0] = strdup("compare.partitioners=[\"uniform\"]");
    lists[1] = list_of("memopts", &memopts, 0, memopts.n);
    lists[2] = strdup("compare.schedulers=[\"pipedream\"]");
    answer = compare(support_write("stashed.toml", text), lists);
    json_array_foreach(json_object_get(answer, "records"), i, record)
    {
        const char *memopt = json_string_value(json_object_get(record, "memopt"));

        if (strcmp(json_string_value(json_object_get(record, "state")), "done") != 0) {
            assert_string_equal(memopt, "bpipe"); /* of synchronous schedules alone */
            continue;
        }
        loss = n_done++ == 0 ? json_number_value(json_object_get(record, "final_loss")) : loss;
        check_done(record, memopt, loss, loss);
    }
    assert_int_equal(n_done, memopts.n - 1);
    json_decref(answer);
    for (int k = 0; k < 3; k++) {
        free(lists[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stashed),
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_quickstart),
    };

    return cmocka_run_group_tests(tests, begin, support_end);
}
