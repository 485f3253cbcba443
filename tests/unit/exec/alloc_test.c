/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps and evaluations allocate nothing: this program's malloc counts, for all threads. Once with
 * the fake device, where only the executor could, once with a model on the cpu device. oneDNN's own
 * allocations (its GEMM packs operands into buffers of its own, through C++'s new) are told apart
 * by the library that calls and not counted: penstock cannot hand it memory for them.
 */
#include <dlfcn.h>
#include <errno.h>

#include "exec/record.h"

#include "unit/exec/fake.h"
#include "unit/exec/toy.h"
#include "unit/exec/real.h" /* last: cmocka has a macro called fail */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTING 0 /* the sanitizer's own malloc is in place */
#else
#define COUNTING 1
#endif

static atomic_uint n_allocations;

#if COUNTING
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

static void count(const void *caller)
{
    static const char *const others[] = {"libdnnl", "libstdc++", "libgomp"};
    Dl_info info;

    if (dladdr(caller, &info) != 0 && info.dli_fname != NULL) {
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            if (strstr(info.dli_fname, others[i]) != NULL) {
                return;
            }
        }
    }
    atomic_fetch_add(&n_allocations, 1);
}

void *malloc(size_t bytes)
{
    count(__builtin_return_address(0));
    return __libc_malloc(bytes);
}

void *calloc(size_t count_of, size_t size)
{
    count(__builtin_return_address(0));
    return __libc_calloc(count_of, size);
}

void *realloc(void *old, size_t bytes)
{
    count(__builtin_return_address(0));
    return __libc_realloc(old, bytes);
}

int posix_memalign(void **ret_memory, size_t align, size_t bytes)
{
    count(__builtin_return_address(0));
    *ret_memory = __libc_memalign(align, bytes);
    return *ret_memory == NULL ? ENOMEM : 0;
}

void *aligned_alloc(size_t align, size_t bytes)
{
    count(__builtin_return_address(0));
    return __libc_memalign(align, bytes);
}
#endif

TEST(test_no_allocation)
{
    static struct toy toy;
    const float x[4] = {1, 2, 3, 4}, t[4] = {2, 0, 3, 6};
    struct pst_batch batch = {.inputs = {x, t}};
    struct pst_update update = {.optimizer = PST_SGD, .lr = 0.001f, .step = 1};
    struct pst_step_result result;
    struct pst_exec *exec;
    struct pst_exec_config config;
    pst_status status = PST_OK;
    unsigned before, after;
    double loss;

    if (!COUNTING) {
        skip();
    }
    toy_init(&toy, true);
    config = toy_config(&toy, &fake_device, load_threads());
    config.eval_plan = &toy.eval_plan;
    config.eval_programs = toy.eval_programs;
    config.clip = 1;
    before = n_allocations;
    assert_int_equal(pst_exec_create(&config, &exec, NULL), PST_OK);
    assert_true(n_allocations > before); /* the counter counts, on all threads */
    before = n_allocations;
    for (uint32_t i = 0; i < 3 && status == PST_OK; i++) {
        status = pst_exec_step(exec, &batch, &update, &result, NULL);
    }
    if (status == PST_OK) {
        status = pst_exec_eval(exec, &batch, &loss, NULL, 0, NULL);
    }
    after = n_allocations;
    assert_int_equal(status, PST_OK);
    assert_int_equal(after - before, 0);
    pst_exec_destroy(exec);
}

/* Emulated devices, links with times, and a recorder that wraps around. */
static uint64_t some_ns(void *context, uint32_t rank, uint32_t op, uint32_t pass, uint32_t samples,
                        uint32_t slice)
{
    (void)rank;
    (void)slice;
    return (uint64_t)(op + pass + samples) * 10000;
}

static uint64_t update_ns(void *context, uint32_t rank, uint64_t elems, uint32_t n_slots,
                          bool first)
{
    (void)rank;
    return n_slots + (first ? 1000 : 0);
}

static uint64_t link_ns(void *context, uint64_t bytes, uint32_t from, uint32_t to)
{
    return bytes;
}

static uint64_t ring_ns(void *context, struct pst_meet_bytes bytes, const uint32_t *ranks,
                        uint32_t n_ranks)
{
    return bytes.added * n_ranks;
}

static uint32_t no_node(void *context, uint32_t rank)
{
    return 0;
}

TEST(test_emulated)
{
    static struct toy toy;
    const float x[4] = {1, 2, 3, 4}, t[4] = {2, 0, 3, 6};
    struct pst_batch batch = {.inputs = {x, t}};
    struct pst_update update = {.optimizer = PST_SGD, .step = 1};
    struct pst_device_times times = {NULL, some_ns, update_ns, NULL};
    struct pst_exec_links links = {NULL, link_ns, ring_ns, no_node, NULL};
    struct pst_exec_config config = toy_config(&toy, load_device("emulated"), load_threads());
    struct pst_step_result result;
    struct pst_exec *exec;
    pst_status status = PST_OK;
    unsigned before, after;

    if (!COUNTING) {
        skip();
    }
    toy_init(&toy, true);
    config.device_config.times = &times;
    config.links = &links;
    config.recorder = pst_recorder_create(&toy.graph, &toy.plan, toy.programs, 2);
    assert_int_equal(pst_exec_create(&config, &exec, NULL), PST_OK);
    before = n_allocations;
    for (uint32_t i = 0; i < 5 && status == PST_OK; i++) {
        status = pst_exec_step(exec, &batch, &update, &result, NULL);
    }
    after = n_allocations;
    assert_int_equal(status, PST_OK);
    assert_int_equal(after - before, 0);
    pst_exec_destroy(exec);
    pst_recorder_destroy(config.recorder);
}

/* Copies beside passes, slowed down and looked at. */
TEST(test_offload)
{
    static const struct layout layout = {3, {0, 1, 2}, ORDER_1F1B, false, {0}};
    const struct pst_exec_copy_config copies = {.check = true, .bytes_per_s = 1000000000};
    struct pst_update update = {.optimizer = PST_SGD, .lr = 0.01f, .step = 1};
    FINISHED_BY(real_destroy) struct real real;
    unsigned before, after;

    if (!COUNTING) {
        skip();
    }
    offloading = (struct offloading){.seed = 2, .copies = &copies};
    real_create(&real, "gpt", "layers=2 dim=16 heads=2 context=8 vocab=7", PST_F32, &layout,
                8 * SIZE, 2, 1);
    offloading = (struct offloading){.seed = 0};
    real_data(&real, 7);
    real_step(&real, &update);
    before = n_allocations;
    for (update.step = 2; update.step <= 4; update.step++) {
        real_step(&real, &update);
    }
    after = n_allocations;
    assert_int_equal(after - before, 0);
}

TEST(test_model)
{
    static const struct layout layout = {3, {0, 1, 0}, ORDER_GPIPE, true, {0}};
    struct pst_update update = real_adamw(1);
    FINISHED_BY(real_destroy) struct real real;
    unsigned before, after;

    if (!COUNTING) {
        skip();
    }
    real_create(&real, "gpt", "layers=2 dim=16 heads=2 context=8 vocab=7 dropout=0.2", PST_F32,
                &layout, 4 * SIZE, 2, 1);
    real_data(&real, 7);
    real_step(&real, &update); /* the first run of a thread makes the libraries' own thread data */
    real_eval(&real);
    before = n_allocations;
    for (update.step = 2; update.step <= 4; update.step++) {
        real_step(&real, &update);
    }
    real_eval(&real);
    after = n_allocations;
    assert_int_equal(after - before, 0);
}
