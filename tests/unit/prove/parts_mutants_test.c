/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutants of programs of random plans of ranks whose replicas have parts. PENSTOCK_SEED: another
 * seed.
 */
#include "prove/internal.h"
#include "unit/prove/buffer_mutations.h"
#include "unit/prove/legal_rig.h"
#include "unit/prove/memory_mutations.h"
#include "unit/prove/merge_mutations.h"
#include "unit/prove/parts_rig.h"
#include "unit/prove/zero_mutations.h"

enum { N_MEMORY = N_MEMORY_MUTATIONS, N_BUFFERS = N_BUFFER_MUTATIONS };

static void check(struct rig *rig, const char *name)
{
    struct rig_shape shape = rig_draw_shape(rig);

    shape.devices = shape.devices % 2 + 1;
    shape.two_way = shape.two_way && shape.devices == 2;
    shape.zero = shape.replicas;
    shape.slots = shape.zero ? 2 : shape.slots;
    rig_plan(rig, &shape);
    expand(rig);
    expect_legal(rig, "%s", name);
    me_mutate_all(rig, memory_mutations, N_MEMORY, name);
    me_mutate_all(rig, buffer_mutations, N_BUFFERS, name);
    if (shape.zero) {
        mu_mutate_all(rig, zero_list_mutations, N_ZERO_LISTS, name);
    }
    if (rig->graph->sequence) {
        mu_mutate_all(rig, merge_mutations, N_MERGES, name);
    }
    if (shape.zero || rig->graph->sequence) {
        me_mutate_all(rig, zero_program_mutations, N_ZERO_PROGRAMS, name);
    }
    rig_drop_plan(rig);
}

static void check_all(const char *model, const char *settings, bool sequence, uint32_t n)
{
    const char *other = getenv("PENSTOCK_SEED");
    FINISHED_BY(rig_close) struct rig rig;

    open_parts(&rig, model, settings, 2, sequence, other != NULL ? strtoull(other, NULL, 10) : 35);
    print_message("%s: seed %llu\n", model, (unsigned long long)rig.seed);
    for (uint32_t i = 0; i < n; i++) {
        char name[32];

        snprintf(name, sizeof name, "plan %u", i);
        check(&rig, name);
    }
}

TEST(gpt)
{
    check_all("gpt", GPT " vocab=600", false, 60);
}

TEST(llama)
{
    check_all("llama", LLAMA, false, 30);
}

TEST(mlp)
{
    check_all("mlp", "inputs=40 hidden=260 layers=8 classes=4", false, 120);
}

TEST(rows)
{
    check_all("gpt", GPT, true, 30);
    check_all("llama", LLAMA " qk_norm=true", true, 30);
}

/* Each kind of them is known from its own test to be found where it is made. */
TEST(enough_mutants)
{
    uint32_t n = 0, n_zero = 0;

    for (uint32_t k = 0; k < N_MEMORY; k++) {
        n += memory_mutations[k].counts[0];
    }
    for (uint32_t k = 0; k < N_BUFFERS; k++) {
        n += buffer_mutations[k].counts[0];
    }
    for (uint32_t k = 0; k < N_ZERO_PROGRAMS; k++) {
        n_zero += zero_program_mutations[k].counts[0];
    }
    for (uint32_t k = 0; k < N_MERGES; k++) {
        assert_true(merge_mutations[k].counts[0] > 0);
    }
    print_message("%u mutants, %u of meetings and pieces\n", n, n_zero);
    assert_true(n > 2000 && n_zero > 300);
}
