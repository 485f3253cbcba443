/* SPDX-License-Identifier: Apache-2.0
 *
 * The cpu device as such: arenas and their guard page, what it refuses, what it says of itself.
 */
#include "cpu_rig.h"

#include <fenv.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void *arena(struct pst_device *device, uint64_t bytes)
{
    struct pst_error err = {0};
    void *base = NULL;

    assert_ok(rig_ops->arena(device, bytes, &base, &err), &err);
    return base;
}

TEST(arena_is_aligned_and_poisoned)
{
    const uint64_t sizes[] = {64, 256, 4096, 4160, 1048576, 12345664};
    struct pst_device *device = rig_open("auto", 1);

    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const unsigned char *base = arena(device, sizes[i]);

        assert_int_equal((uintptr_t)base % 256, 0);
        for (uint64_t k = 0; k < sizes[i]; k++) {
            if (base[k] != 0xFF) {
                fail_msg("byte %llu of %llu is not poisoned", (unsigned long long)k,
                         (unsigned long long)sizes[i]);
            }
        }
    }
    rig_ops->close(device);
}

/* Signal that a child dies of when it writes at p; 0 when it survives. */
static int signal_of_write(volatile unsigned char *p)
{
    const pid_t child = fork();
    int status = 0;

    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* also where a sanitizer has its own handler */
        signal(SIGBUS, SIG_DFL);
        *p = 1;
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(guard_page_is_near_the_end)
{
    const uint64_t sizes[] = {64, 192, 4096, 4352, 65536 + 64};
    struct pst_device *device = rig_open("auto", 1);

    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *base = arena(device, sizes[i]);
        /* the base is a multiple of 256 and the page ends there: less than 256 bytes of slack */
        unsigned char *guard = base + (sizes[i] + 255) / 256 * 256;

        assert_int_equal(signal_of_write(base), 0);
        assert_int_equal(signal_of_write(base + sizes[i] - 1), 0);
        assert_int_equal(signal_of_write(guard), SIGSEGV);
        assert_true(guard - (base + sizes[i]) < 256);
    }
    rig_ops->close(device);
}

TEST(close_gives_memory_back)
{
    struct pst_device *device = rig_open("auto", 1);
    const long page = sysconf(_SC_PAGESIZE);
    unsigned char *base = arena(device, 65536);
    unsigned char resident;

    base -= (uintptr_t)base % (uintptr_t)page;
    assert_int_equal(mincore(base, (size_t)page, &resident), 0);
    rig_ops->close(device);
    assert_int_not_equal(mincore(base, (size_t)page, &resident), 0); /* no longer mapped */
}

TEST(absurd_sizes_are_refused)
{
    struct pst_device *device = rig_open("auto", 1);
    struct pst_error err = {0};
    void *base = &err;

    assert_int_equal(rig_ops->arena(device, UINT64_MAX - 10, &base, &err), PST_ERR_NOMEM);
    assert_ptr_equal(base, &err);
    assert_int_equal(pst_error_exit_code(&err), 4);
    assert_int_equal(rig_ops->arena(device, 1ull << 62, &base, &err), PST_ERR_NOMEM);
    rig_ops->close(device);
}

TEST(config_is_checked)
{
    struct pst_device_config config = {.threads = 0, .kernels = "auto"};
    struct pst_device *device = NULL;
    struct pst_error err = {0};

    assert_int_equal(rig_ops->open(&config, &device, &err), PST_ERR_CONFIG);
    config.threads = 1;
    config.kernels = "fast";
    assert_int_equal(rig_ops->open(&config, &device, &err), PST_ERR_CONFIG);
    assert_non_null(strstr(err.message, "fast"));
    assert_null(device);
    config.kernels = NULL; /* auto */
    assert_ok(rig_ops->open(&config, &device, &err), &err);
    rig_ops->close(device);
    rig_ops->close(NULL);
}

/* bf16: plain kernels know it everywhere, the fast ones where the processor has it. */
TEST(dtypes_are_told)
{
    struct pst_device *fast = rig_open("auto", 1), *plain = rig_open("reference", 1);
    struct pst_error err = {0};
    char text[256] = "";
    bool capable;

    rig_ops->describe(text, sizeof text);
    capable = strstr(text, "bf16") != NULL;
    assert_ok(rig_ops->supports(fast, PST_F32, &err), &err);
    assert_ok(rig_ops->supports(plain, PST_BF16, &err), &err);
    assert_int_equal(rig_ops->supports(fast, PST_BF16, &err),
                     capable ? PST_OK : PST_ERR_UNSUPPORTED);
    if (!capable) {
        assert_int_equal(pst_error_exit_code(&err), 4);
        assert_non_null(strstr(err.message, "bf16"));
    }
    assert_int_equal(rig_ops->supports(fast, PST_F64, &err), PST_ERR_UNSUPPORTED);
    rig_ops->close(fast);
    rig_ops->close(plain);
}

TEST(table_is_complete)
{
    char why[64] = "";

    assert_int_equal(rig_ops->size, sizeof *rig_ops);
    assert_string_equal(rig_ops->id, "cpu");
    assert_int_equal(rig_ops->probe(why, sizeof why), PST_OK);
}

/* enter() takes back whatever rounding the thread had. */
TEST(enter_sets_the_float_mode)
{
    struct pst_device *device = rig_open("auto", 1);
    volatile float tiny = 0x1p-126f;

    fesetround(FE_UPWARD);
    rig_ops->enter(device);
    assert_int_equal(fegetround(), FE_TONEAREST);
#if defined(__x86_64__)
    assert_true(tiny * 0.5f == 0.0f); /* subnormal results are flushed */
#endif
    rig_ops->close(device);
}

TEST_GROUP(rig_load, NULL)
