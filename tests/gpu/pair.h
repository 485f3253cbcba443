/* SPDX-License-Identifier: Apache-2.0
 *
 * The cuda device and the plain C kernels side by side. Without arguments on a GPU; with "on-host"
 * the same kernels compiled for the host. PENSTOCK_TEST_KERNELS: run.kernels, "auto".
 */
#ifndef TESTS_GPU_PAIR_H
#define TESTS_GPU_PAIR_H

#include "unit/device/cpu_compare.h"

static const struct pst_device_ops *cpu_ops, *cuda_ops;
static struct pst_device *plain, *cuda;
static const char *kernels = "auto";
static bool on_host;

static const struct pst_device_ops *load(const char *path)
{
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    pst_device_module_fn *entry = NULL;

    if (module == NULL) {
        print_error("%s\n", dlerror());
        return NULL;
    }
    *(void **)&entry = dlsym(module, PST_DEVICE_MODULE_SYMBOL);
    return entry == NULL ? NULL : entry();
}

static int open_both(void **state)
{
    struct pst_device_config config = {.kernels = "reference", .threads = 1};
    struct pst_error err = {0};

    if (cpu_ops->open(&config, &plain, &err) != PST_OK) {
        print_error("%s\n", err.message);
        return -1;
    }
    config.kernels = kernels;
    if (cuda_ops->open(&config, &cuda, &err) != PST_OK) {
        print_error("%s\n", err.message);
        return -1;
    }
    cpu_ops->enter(plain);
    cuda_ops->enter(cuda);
    return 0;
}

static int close_both(void **state)
{
    cpu_ops->close(plain);
    cuda_ops->close(cuda);
    return 0;
}

static void on(const struct pst_device_ops *ops, struct pst_device *device, struct rig *rig,
               uint32_t pass)
{
    rig_ops = ops;
    ops->enter(device);
    rig_pass(rig, device, pass);
}

/* expected on the other device, found on cuda; then both hold what was expected. */
static void check_pass(const struct pst_device_ops *ops, struct pst_device *device,
                       struct rig *expected, struct rig *found, uint32_t pass)
{
    on(ops, device, expected, pass);
    on(cuda_ops, cuda, found, pass);
    rig_compare_pass(expected, found, pass);
}

static void compare(const struct pst_device_ops *ops, struct pst_device *device,
                    struct rig *expected, struct rig *found)
{
    check_pass(ops, device, expected, found, PST_KERNEL_F);
    if (expected->grad.has_b) {
        check_pass(ops, device, expected, found, PST_KERNEL_B);
    }
    if (expected->grad.has_w) {
        check_pass(ops, device, expected, found, PST_KERNEL_W);
    }
}

/* The modules, by the words of the command line, and a filter of names behind them. 0, or the exit
   code. */
static int start(int argc, char **argv)
{
    char why[256] = "";

    on_host = argc >= 2 && strcmp(argv[1], "on-host") == 0;
    if (getenv("PENSTOCK_TEST_KERNELS") != NULL) {
        kernels = getenv("PENSTOCK_TEST_KERNELS");
    }
    if (argc - on_host == 2) {
        cmocka_set_test_filter(argv[1 + on_host]); /* "linear*" */
    }
    cpu_ops = load(PENSTOCK_PLUGIN_DIR "/device-cpu.so");
    cuda_ops = load(on_host ? PENSTOCK_PLUGIN_DIR "/tests/device-cuda-on-host.so"
                            : PENSTOCK_PLUGIN_DIR "/device-cuda.so");
    if (cpu_ops == NULL || cuda_ops == NULL) {
        return 1;
    }
    if (cuda_ops->probe(why, sizeof why) != PST_OK) {
        print_message("skipped: %s\n", why);
        return 77;
    }
    return 0;
}

#endif
