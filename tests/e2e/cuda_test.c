/* SPDX-License-Identifier: Apache-2.0
 *
 * A machine without an NVIDIA driver: the module for GPUs loads where it was built, says in one
 * line what is missing, and nothing else is the worse for it.
 */
#include "test.h"

#include <dlfcn.h>
#include <unistd.h>

#include "expect_error.h"

#include "exec/device.h"

#define MODULE PENSTOCK_PLUGIN_DIR "/device-cuda.so"

/* What the module says; skips the test where it is not built, or where it has GPUs. */
static const struct pst_device_ops *refusing(char *ret_why, size_t size)
{
    void *module = NULL;
    pst_device_module_fn *entry;

    if (access(MODULE, F_OK) != 0) {
        skip();
    }
    module = dlopen(MODULE, RTLD_NOW | RTLD_LOCAL);
    if (module == NULL) {
        fail_msg("%s", dlerror());
        return NULL;
    }
    *(void **)&entry = dlsym(module, PST_DEVICE_MODULE_SYMBOL);
    assert_non_null(entry);
    if (entry()->probe(ret_why, size) == PST_OK) {
        skip();
    }
    return entry();
}

TEST(probe_says_why)
{
    char why[256] = "";
    const struct pst_device_ops *ops = refusing(why, sizeof why);
    const struct pst_device_config config = {.threads = 1, .kernels = "auto"};
    struct pst_device *device = NULL;
    struct pst_error err = {0};

    assert_true(strlen(why) > 10);
    assert_null(strchr(why, '\n'));
    assert_int_equal(ops->open(&config, &device, &err), PST_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, why));
    assert_null(device);
}

TEST(commands_say_why)
{
    char why[256] = "";
    const struct pst_device_ops *ops = refusing(why, sizeof why);
    struct outcome outcome;

    assert_string_equal(ops->id, "cuda");
    EXPECT_ERROR(4, "machine.missing", why, "train", PENSTOCK_SOURCE_DIR "/configs/quickstart.toml",
                 "--set", "run.device=cuda");
    EXPECT_ERROR(4, "machine.missing", why, "plan", PENSTOCK_SOURCE_DIR "/configs/quickstart.toml",
                 "--set", "run.device=cuda");
    EXPECT_ERROR(4, "machine.missing", why, "train", PENSTOCK_SOURCE_DIR "/configs/quickstart.toml",
                 "--set", "run.device=cuda", "--set", "run.transport=nccl");
    outcome = penstock("doctor");
    expect_code(&outcome, 0);
    assert_non_null(strstr(outcome.out, why));
    outcome_finish(&outcome);
}

/* TF32 is asked of a device that has it. */
TEST(tf32_is_refused_elsewhere)
{
    EXPECT_ERROR(4, "machine.missing", "device cpu has no TF32 products", "train",
                 PENSTOCK_SOURCE_DIR "/configs/quickstart.toml", "--set", "run.dtype=tf32");
}

/* So are graphs; where they are left to the program it does without. */
TEST(graphs_are_refused_elsewhere)
{
    const char *config = PENSTOCK_SOURCE_DIR "/configs/quickstart.toml";
    struct outcome outcome;

    EXPECT_ERROR(4, "machine.missing", "device cpu has no graphs", "train", config, "--set",
                 "run.graphs=on");
    EXPECT_ERROR(4, "machine.missing", "take run.graphs = ", "plan", config, "--set",
                 "run.graphs=on");
    EXPECT_ERROR(2, "config.value", "graphs", "plan", config, "--set", "run.graphs=yes");
    outcome = penstock("plan", config, "--set", "run.graphs=auto");
    expect_code(&outcome, 0);
    outcome_finish(&outcome);
}
