/* SPDX-License-Identifier: Apache-2.0
 *
 * The emulated device as such: its clock, its arena without memory, how far up it says it was used,
 * what it refuses.
 */
#include "module.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"

#define MS 1000000u

static const struct pst_device_ops *ops;

/* What the device asked for last. */
static struct {
    uint32_t op, pass, samples, n_slots;
    uint64_t elems;
    bool first;
} asked;

static uint64_t kernel_ns(void *context, uint32_t rank, uint32_t op, uint32_t pass,
                          uint32_t samples, uint32_t slice)
{
    (void)rank;
    (void)slice;
    asked.op = op;
    asked.pass = pass;
    asked.samples = samples;
    return *(uint64_t *)context;
}

static uint64_t update_ns(void *context, uint32_t rank, uint64_t elems, uint32_t n_slots,
                          bool first)
{
    (void)rank;
    asked.elems = elems;
    asked.n_slots = n_slots;
    asked.first = first;
    return 3 * elems + (first ? 1000 : 0);
}

static uint64_t kernel_time;
static const struct pst_device_times times = {&kernel_time, kernel_ns, update_ns, NULL};

static int load(void **state)
{
    ops = load_device_module(PENSTOCK_PLUGIN_DIR "/device-emulated.so");
    return 0;
}

static struct pst_device *open_timed(void)
{
    struct pst_device_config config = {.threads = 1, .times = &times};
    struct pst_device *device = NULL;

    assert_int_equal(ops->open(&config, &device, NULL), PST_OK);
    ops->enter(device);
    return device;
}

static char *arena(struct pst_device *device, uint64_t bytes)
{
    void *base = NULL;

    assert_int_equal(ops->arena(device, bytes, &base, NULL), PST_OK);
    assert_int_equal((uintptr_t)base % 256, 0);
    return base;
}

/* y = x p: 3 values in, 5 out, for each sample. */
static uint32_t in[] = {0}, out[] = {1}, param[] = {0}, users[] = {0};
static struct pst_tensor tensors[] = {
    {.name = "x", .role = PST_ROLE_INPUT, .batched = true, .elems = 3, .bytes = 12},
    {.name = "y", .role = PST_ROLE_ACTIVATION, .batched = true, .elems = 5, .bytes = 20}};
static struct pst_op op = {.kind = PST_OP_LINEAR,
                           .name = "linear",
                           .n_in = 1,
                           .n_out = 1,
                           .n_param = 1,
                           .in = in,
                           .out = out,
                           .param = param};
static struct pst_parameter parameter = {.name = "w", .elems = 15, .n_users = 1, .users = users};
static const struct pst_graph graph = {.name = "one",
                                       .slices = 1,
                                       .n_ops = 1,
                                       .n_tensors = 2,
                                       .n_params = 1,
                                       .ops = &op,
                                       .tensors = tensors,
                                       .params = &parameter};

static struct pst_kernel *compile(struct pst_device *device, uint64_t ns, uint32_t samples)
{
    struct pst_kernel *kernel = NULL;

    kernel_time = ns;
    assert_int_equal(ops->compile(device, &graph, 0, PST_KERNEL_F, samples, &kernel, NULL), PST_OK);
    return kernel;
}

static void nap(uint64_t ns)
{
    const struct timespec time = {0, (long)ns};

    nanosleep(&time, NULL);
}

/* However late this machine is: ten kernels of 2 ms end 20 ms after the first began, and no sleep
   ends before the clock. */
TEST(delays_do_not_add_up)
{
    struct pst_device *device = open_timed();
    struct pst_kernel *kernel = compile(device, 2 * MS, 7);
    struct pst_call call = {0};
    void *nothing[4] = {0};
    uint64_t begin = pst_now_ns() + 5 * MS;

    assert_int_equal(asked.op, 0);
    assert_int_equal(asked.pass, PST_KERNEL_F);
    assert_int_equal(asked.samples, 7);
    call.x = call.p = call.y = call.dx = call.add = call.z = nothing;
    call.dp = call.state = (float *const *)nothing;
    ops->advance(device, begin);
    assert_true(pst_now_ns() >= begin);
    assert_int_equal(ops->now(device), begin);
    for (uint32_t i = 1; i <= 10; i++) {
        kernel->run(kernel, &call);
        assert_int_equal(ops->now(device), begin + i * 2 * MS);
        if (i % 3 == 0) {
            nap(3 * MS); /* late: the next ones have less to wait for */
        }
        ops->finish(device);
        assert_true(pst_now_ns() >= begin + i * 2 * MS);
    }
    ops->advance(device, begin); /* it never goes back */
    assert_int_equal(ops->now(device), begin + 20 * MS);
    kernel->destroy(kernel);
    ops->close(device);
}

/* A call does not sleep: work is asked for, and one finish waits for all of it. */
TEST(asking_takes_no_time)
{
    struct pst_device *device = open_timed();
    struct pst_kernel *kernel = compile(device, (uint64_t)3600 * 1000 * MS, 1);
    struct pst_call call = {0};
    void *nothing[4] = {0};

    call.x = call.p = call.y = call.dx = call.add = call.z = nothing;
    call.dp = call.state = (float *const *)nothing;
    for (uint32_t i = 0; i < 24; i++) {
        kernel->run(kernel, &call); /* a day */
    }
    assert_int_equal(ops->now(device), (uint64_t)24 * 3600 * 1000 * MS);
    kernel->destroy(kernel);
    kernel = compile(device, UINT64_MAX - 5, 1);
    kernel->run(kernel, &call);
    assert_true(ops->now(device) == UINT64_MAX); /* rather than around */
    kernel->destroy(kernel);
    ops->close(device);
}

/* The launch is paid once for all updates in a row: a stage is updated in one go. */
TEST(updates_of_a_stage_are_one)
{
    struct pst_device *device = open_timed();
    float *values = (float *)(void *)arena(device, 4096);
    struct pst_update how = {.optimizer = PST_ADAMW};

    ops->update(device, &how, values, values, values + 64, values + 128, values, PST_F32, 10);
    assert_true(asked.first);
    assert_int_equal(asked.elems, 10);
    assert_int_equal(asked.n_slots, 2);
    assert_int_equal(ops->now(device), 1030);
    ops->update(device, &how, values, values, values + 64, NULL, values, PST_F32, 20);
    assert_false(asked.first);
    assert_int_equal(asked.n_slots, 1);
    assert_int_equal(ops->now(device), 1090);
    ops->finish(device);
    ops->update(device, &how, values, values, NULL, NULL, values, PST_F32, 1);
    assert_true(asked.first);
    assert_int_equal(asked.n_slots, 0);
    assert_int_equal(ops->now(device), 1090 + 1003);
    ops->close(device);
}

TEST(reached_is_the_highest_operand)
{
    struct pst_device *device = open_timed();
    char *base = arena(device, 100000);
    struct pst_kernel *kernel = compile(device, 1, 3);
    void *x[] = {base + 1000}, *p[] = {base}, *y[] = {base + 2000}, *none[4] = {0};
    struct pst_call call = {.x = x, .p = p, .y = y, .dx = none, .add = none, .z = none};
    float value = 1;

    call.dp = call.state = (float *const *)none;
    assert_int_equal(ops->reached(device), 0);
    ops->upload(device, base + 64, &value, 40);
    assert_int_equal(ops->reached(device), 104);
    kernel->run(kernel, &call); /* y: 5 values of 3 samples */
    assert_int_equal(ops->reached(device), 2000 + 3 * 20);
    x[0] = base + 5000;
    kernel->run(kernel, &call);
    assert_int_equal(ops->reached(device), 5000 + 3 * 12);
    p[0] = base + 6000;
    kernel->run(kernel, &call);
    assert_int_equal(ops->reached(device), 6000 + 15 * 4);
    x[0] = p[0] = base; /* it does not go down again */
    kernel->run(kernel, &call);
    assert_int_equal(ops->reached(device), 6060);
    ops->touch(device, &value, sizeof value); /* not in the arena */
    ops->touch(device, NULL, 1 << 20);
    assert_int_equal(ops->reached(device), 6060);
    ops->touch(device, base + 99000, 1000);
    assert_int_equal(ops->reached(device), 100000);
    ops->touch(device, base + 99000, 1001); /* beyond: a check of the plan would see it */
    assert_int_equal(ops->reached(device), 100001);
    kernel->destroy(kernel);
    ops->close(device);
}

/* Signal that a child dies of when it reads there. */
static int signal_of_read(const volatile char *at)
{
    const pid_t child = fork();
    int status = 0;

    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* also where a sanitizer has its own handler */
        signal(SIGBUS, SIG_DFL);
        _exit(*at & 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* 64 GiB of address space cost nothing, and whoever takes it for memory is told. */
TEST(arenas_are_hollow)
{
    struct pst_device *device = open_timed();
    char *base = arena(device, (uint64_t)1 << 36);
    struct pst_error err = {0};
    float values[2] = {5, 7};
    void *again;

    ops->upload(device, base + ((uint64_t)1 << 35), values, sizeof values);
    ops->zero(device, base, (uint64_t)1 << 36);
    ops->download(device, values, base + 64, sizeof values);
    assert_true(values[0] == 0 && values[1] == 0);
    ops->accumulate(device, (float *)(void *)base, (const float *)(const void *)base, 1000);
    assert_true(ops->square_sum(device, (const float *)(const void *)base, 1000) == 0);
    assert_int_equal(ops->reached(device), (uint64_t)1 << 36);
    assert_int_not_equal(signal_of_read(base), 0);
    assert_int_equal(ops->arena(device, 64, &again, &err), PST_ERR_BUG);
    ops->close(device);
}

TEST(what_it_refuses)
{
    const struct pst_device_config untimed = {.threads = 1};
    struct pst_device *device = NULL;
    struct pst_kernel *kernel;
    struct pst_error err = {0};
    char text[200];
    void *base;

    assert_int_equal(ops->probe(text, sizeof text), PST_OK);
    ops->describe(text, sizeof text);
    assert_non_null(strstr(text, "[cluster]"));
    assert_true((ops->flags & PST_DEVICE_NO_DATA) != 0);
    assert_ok(ops->open(&untimed, &device, &err), &err);
    assert_ok(ops->supports(device, PST_F32, &err), &err);
    assert_ok(ops->supports(device, PST_BF16, &err), &err);
    assert_int_equal(ops->supports(device, PST_I32, &err), PST_ERR_UNSUPPORTED);
    assert_int_equal(ops->workspace(device, &graph, 0, PST_KERNEL_B, 4), 0);
    assert_int_equal(ops->compile(device, &graph, 0, PST_KERNEL_F, 1, &kernel, &err), PST_ERR_BUG);
    assert_int_equal(ops->arena(device, UINT64_MAX - 4096, &base, &err), PST_ERR_NOMEM);
    assert_string_equal(err.kind, "machine.memory");
    ops->close(device);
    ops->close(NULL);
}

TEST_GROUP(load, NULL)
