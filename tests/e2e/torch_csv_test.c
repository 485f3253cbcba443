/* SPDX-License-Identifier: Apache-2.0
 *
 * Every synchronous scheduler of the tree, written as PyTorch's CSV and loaded by PyTorch itself
 * (PENSTOCK_TORCH_PYTHON, or /opt/torch/bin/python). Skipped where there is none.
 */
#include "exchange/torch_csv.h"

#include "test.h"

#include <glob.h>

#include "ask/schedule_job.h"
#include "support.h"

static const char *python;
static FILE *list;
static unsigned n_written;

static void write_flavours(const char *name, const struct pst_schedule_result *result)
{
    for (int f = PST_TORCH_COMPUTE; f <= PST_TORCH_WAITS; f++) {
        struct pst_error err = {0};
        char *text = NULL, file[96];

        assert_int_equal(pst_torch_csv_of_answer(&result->asked, &result->answer, f, &text, &err),
                         PST_OK);
        snprintf(file, sizeof file, "%s.%s.csv", name, pst_torch_flavours[f]);
        support_write(file, text);
        free(text);
    }
    fprintf(list, "%s %u %u %u\n", support_path(name), result->asked.in.n_devices,
            result->asked.in.n_stages, result->asked.stages[0].n_microbatches);
    n_written++;
}

static void ask(const char *path, const char *id, uint32_t n_devices, uint32_t n_microbatches)
{
    const struct pst_schedule_job job = {.path = path,
                                         .n_devices = n_devices,
                                         .n_microbatches = n_microbatches,
                                         .costs = {PST_SCHEDULE_SCALE, PST_SCHEDULE_SCALE,
                                                   PST_SCHEDULE_SCALE, 0, PST_SCHEDULE_SCALE,
                                                   PST_SCHEDULE_SCALE, UINT64_MAX, false}};
    struct pst_schedule_result result = {.scale = 1};
    struct pst_error err = {0};
    char name[64];

    if (pst_schedule_job_run(&job, NULL, NULL, &result, &err) != PST_OK) {
        print_message("%s on %u devices: left out: %s\n", id, n_devices, err.message);
    } else if (result.answer.asynchronous) {
        print_message("%s: left out: asynchronous\n", id);
    } else if (result.asked.in.slices > 1) {
        print_message("%s: left out: slices of sequences\n", id);
    } else if (pst_topology_copies(&result.asked.topology) > 1) {
        print_message("%s: left out: two copies of a model\n", id);
    } else {
        snprintf(name, sizeof name, "%s-%u", id, n_devices);
        write_flavours(name, &result);
    }
    pst_schedule_result_finish(&result);
}

TEST(all_schedulers)
{
    char command[512];
    glob_t found;

    list = fopen(support_path("list"), "w");
    assert_non_null(list);
    assert_int_equal(glob(PENSTOCK_PLUGIN_DIR "/scheduler-*.so", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *name = strrchr(found.gl_pathv[i], '/') + sizeof "/scheduler-" - 1;
        char id[64];

        snprintf(id, sizeof id, "%.*s", (int)(strlen(name) - 3), name);
        ask(found.gl_pathv[i], id, 2, 8);
        ask(found.gl_pathv[i], id, 4, 8);
    }
    globfree(&found);
    assert_int_equal(fclose(list), 0);
    assert_true(n_written >= 4); /* two schedulers at the least */
    snprintf(command, sizeof command, "'%s' '%s' '%s' 2>&1", python,
             PENSTOCK_SOURCE_DIR "/tests/e2e/torch_load.py", support_path("list"));
    assert_int_equal(system(command), 0);
}

int main(void)
{
    python = getenv("PENSTOCK_TORCH_PYTHON");
    python = python == NULL ? "/opt/torch/bin/python" : python;
    if (access(python, X_OK) != 0) {
        printf("skipped: no PyTorch: %s cannot be run; PENSTOCK_TORCH_PYTHON names another\n",
               python);
        return 77;
    }
    return run_own_tests(support_begin, support_end);
}
