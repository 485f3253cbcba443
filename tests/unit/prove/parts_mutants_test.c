/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutants of programs of random plans of ranks whose replicas have parts. PENSTOCK_SEED: another
 * seed.
 */
#include "prove/internal.h"
#include "unit/prove/buffer_mutations.h"
#include "unit/prove/memory_mutations.h"
#include "unit/prove/parts_rig.h"
#include "unit/prove/zero_mutations.h"

/* Without mutants of waits, as no list is another one than those of the other parts; and without
   batch norms. */
enum { N_MEMORY = N_MEMORY_MUTATIONS - 2, N_BUFFERS = N_BUFFER_MUTATIONS - 1 };
/* The mutant of programs that only plans with two accumulators have. */
enum { ASYNCHRONOUS = 6 };

static struct pst_check_report report;

static void check(struct rig *rig, const char *name)
{
    struct rig_shape shape = rig_draw_shape(rig);
    struct pst_error err = {0};

    shape.devices = shape.devices % 2 + 1;
    shape.two_way = shape.two_way && shape.devices == 2;
    shape.zero = shape.replicas && rig_draw(rig, 2) == 0;
    rig_plan(rig, &shape);
    expand(rig);
    assert_ok(rig_check(rig, true, &report, &err), &err);
    me_mutate_all(rig, memory_mutations, N_MEMORY, name);
    me_mutate_all(rig, buffer_mutations, N_BUFFERS, name);
    if (shape.zero) {
        mu_mutate_all(rig, zero_list_mutations, N_ZERO_LISTS, name);
        me_mutate_all(rig, zero_program_mutations, N_ZERO_PROGRAMS, name);
    }
    rig_drop_plan(rig);
}

static void check_all(const char *model, const char *settings, uint32_t n)
{
    const char *other = getenv("PENSTOCK_SEED");
    FINISHED_BY(rig_close) struct rig rig;

    open_parts(&rig, model, settings, 2, other != NULL ? strtoull(other, NULL, 10) : 35);
    print_message("%s: seed %llu\n", model, (unsigned long long)rig.seed);
    for (uint32_t i = 0; i < n; i++) {
        char name[32];

        snprintf(name, sizeof name, "plan %u", i);
        check(&rig, name);
    }
}

TEST(gpt)
{
    check_all("gpt", GPT " vocab=600", 90);
}

TEST(llama)
{
    check_all("llama", LLAMA, 30);
}

TEST(every_mutation)
{
    me_print(memory_mutations, N_MEMORY);
    me_print(buffer_mutations, N_BUFFERS);
    mu_print(zero_list_mutations, N_ZERO_LISTS);
    me_print(zero_program_mutations, ASYNCHRONOUS);
    me_print(zero_program_mutations + ASYNCHRONOUS + 1, N_ZERO_PROGRAMS - ASYNCHRONOUS - 1);
}
