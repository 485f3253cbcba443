/* SPDX-License-Identifier: Apache-2.0
 *
 * The same kernel on the same operands gives the same bits: twice, on threads that run at the same
 * time, wherever the operands lie, under every instruction set (own routines), and for any number
 * of threads where the library is not involved.
 */
#include "cpu_cases.h"
#include "cpu_compare.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/util.h"

#define SEED 4711u

static struct rig ran(const struct rig_case *test, struct pst_device *device)
{
    struct rig rig;

    rig_init(&rig, test, PST_F32, SEED);
    rig.with_add = true;
    rig_run(&rig, device);
    return rig;
}

/* --- two threads at once ---------------------------------------------------------------------- */

struct worker {
    pthread_t thread;
    struct pst_device *device;
    struct rig rig[N_CPU_CASES];
};

/* Kernels are made and run on the thread; cmocka's checks are safe while they hold. */
static void *work(void *context)
{
    struct worker *worker = context;

    rig_ops->enter(worker->device);
    for (uint32_t i = 0; i < N_CPU_CASES; i++) {
        rig_run(&worker->rig[i], worker->device);
    }
    return NULL;
}

TEST(threads_side_by_side_agree)
{
    static struct worker workers[2];

    for (uint32_t w = 0; w < 2; w++) {
        workers[w].device = rig_open("auto", 1);
        for (uint32_t i = 0; i < N_CPU_CASES; i++) {
            rig_init(&workers[w].rig[i], &cpu_cases[i], PST_F32, SEED);
        }
    }
    for (uint32_t w = 0; w < 2; w++) {
        assert_int_equal(pthread_create(&workers[w].thread, NULL, work, &workers[w]), 0);
    }
    for (uint32_t w = 0; w < 2; w++) {
        assert_int_equal(pthread_join(workers[w].thread, NULL), 0);
    }
    for (uint32_t i = 0; i < N_CPU_CASES; i++) {
        if (!rig_same_bits(&workers[0].rig[i], &workers[1].rig[i])) {
            fail_msg("%s: two threads, two results", cpu_cases[i].name);
        }
    }
    for (uint32_t w = 0; w < 2; w++) {
        for (uint32_t i = 0; i < N_CPU_CASES; i++) {
            rig_finish(&workers[w].rig[i]);
        }
        rig_ops->close(workers[w].device);
    }
}

/* --- addresses -------------------------------------------------------------------------------- */

static void move(struct rig_buffer *b, uint64_t by)
{
    unsigned char *data;

    if (b->data == NULL) {
        return;
    }
    data = aligned_alloc(4096, (b->bytes + by + 8191) / 4096 * 4096);
    assert_non_null(data);
    memcpy(data + by, b->data, b->bytes);
    b->data = data + by;
}

/* Operands at other multiples of 64 within the page. What is moved is not freed. */
TEST(addresses_do_not_matter)
{
    struct pst_device *device = rig_open("auto", 1);

    for (uint32_t i = 0; i < N_CPU_CASES; i++) {
        struct rig first = ran(&cpu_cases[i], device), second;
        struct rig saved;

        rig_init(&second, &cpu_cases[i], PST_F32, SEED);
        second.with_add = true;
        saved = second;
        for (uint32_t k = 0; k < 2; k++) {
            move(&second.x[k], 64 + 128 * k);
            move(&second.p[k], 192 * k);
            move(&second.y[k], 320);
            move(&second.dx[k], 1024 + 64);
            move(&second.z[k], 448);
        }
        move(&second.dy, 704);
        rig_run(&second, device);
        if (!rig_same_bits(&first, &second)) {
            fail_msg("%s: other addresses, other bits", cpu_cases[i].name);
        }
        for (uint32_t k = 0; k < 2; k++) {
            free((void *)((uintptr_t)second.x[k].data & ~(uintptr_t)4095));
            free((void *)((uintptr_t)second.p[k].data & ~(uintptr_t)4095));
            free((void *)((uintptr_t)second.y[k].data & ~(uintptr_t)4095));
            free((void *)((uintptr_t)second.dx[k].data & ~(uintptr_t)4095));
            free((void *)((uintptr_t)second.z[k].data & ~(uintptr_t)4095));
        }
        free((void *)((uintptr_t)second.dy.data & ~(uintptr_t)4095));
        saved.graph = NULL;
        rig_finish(&saved);
        pst_graph_destroy(second.graph);
        rig_finish(&first);
    }
    rig_ops->close(device);
}

/* --- threads per device ----------------------------------------------------------------------- */

static bool uses_products(const struct rig_case *test)
{
    return test->op.kind == PST_OP_LINEAR || test->op.kind == PST_OP_CONV2D ||
           test->op.kind == PST_OP_MATMUL;
}

TEST(own_kernels_ignore_the_split)
{
    struct pst_device *one = rig_open("auto", 1), *three = rig_open("auto", 3);

    for (uint32_t i = 0; i < N_CPU_CASES; i++) {
        if (!uses_products(&cpu_cases[i])) {
            struct rig a, b;

            rig_ops->enter(one);
            a = ran(&cpu_cases[i], one);
            rig_ops->enter(three);
            b = ran(&cpu_cases[i], three);
            if (!rig_same_bits(&a, &b)) {
                fail_msg("%s: three threads, other bits", cpu_cases[i].name);
            }
            rig_finish(&a);
            rig_finish(&b);
        }
    }
    rig_ops->close(one);
    rig_ops->close(three);
}

/* --- instruction sets ------------------------------------------------------------------------- */

static uint64_t hash_of(const struct rig *rig)
{
    uint64_t hash = 0xCBF29CE484222325u;

    for (uint32_t i = 0; i < RIG_MAX; i++) {
        hash = pst_fnv1a_bytes(hash, rig->y[i].data, rig->y[i].bytes);
        hash = pst_fnv1a_bytes(hash, rig->dx[i].data, rig->dx[i].bytes);
    }
    for (uint32_t i = 0; i < 2; i++) {
        hash = pst_fnv1a_bytes(hash, rig->z[i].data, rig->z[i].bytes);
        hash = pst_fnv1a_bytes(hash, rig->dp[i].data, rig->dp[i].bytes);
    }
    return hash;
}

/* Prints a hash per case; the test program calls itself for that. */
static int print_hashes(void)
{
    struct pst_device *device;

    if (rig_load(NULL) != 0) {
        return 1;
    }
    device = rig_open("auto", 1);
    for (uint32_t i = 0; i < N_CPU_CASES; i++) {
        if (!uses_products(&cpu_cases[i]) && cpu_cases[i].op.kind != PST_OP_ATTENTION &&
            cpu_cases[i].op.kind != PST_OP_EXPERTS) {
            struct rig rig = ran(&cpu_cases[i], device);

            printf("%s %016llx\n", cpu_cases[i].name, (unsigned long long)hash_of(&rig));
            rig_finish(&rig);
        }
    }
    rig_ops->close(device);
    return 0;
}

static void hashes_under(const char *isa, char *text, size_t size)
{
    char command[128];
    FILE *pipe;
    size_t used;

    assert_int_equal(setenv("ONEDNN_MAX_CPU_ISA", isa, 1), 0);
    snprintf(command, sizeof command, "/proc/%d/exe --hashes", (int)getpid());
    pipe = popen(command, "r");
    assert_non_null(pipe);
    used = fread(text, 1, size - 1, pipe);
    text[used] = '\0';
    assert_int_equal(pclose(pipe), 0);
    assert_true(used > 0);
    unsetenv("ONEDNN_MAX_CPU_ISA");
}

TEST(instruction_sets_agree)
{
    static char best[8192], text[8192];
    const char *const isas[] = {"AVX2", "SSE41"};

    hashes_under("ALL", best, sizeof best);
    for (uint32_t i = 0; i < 2; i++) {
        hashes_under(isas[i], text, sizeof text);
        assert_string_equal(best, text);
    }
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--hashes") == 0) {
        return print_hashes();
    }
    return run_own_tests(rig_load, NULL);
}
