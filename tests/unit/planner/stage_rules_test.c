/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensor degree that a partitioner declares for a stage: what plugins of older minors left
 * where it stands now, and what is none that was offered.
 */
#include <string.h>

#include "base/error.h"
#include "planner/stage_rules.h"

#include "test.h"

static const uint32_t one[] = {1}, both[] = {1, 2}, sizes[] = {4};

struct taken {
    uint32_t n, tensor[2];
};

static void take(void *self, const struct pst_stage_decl *stage)
{
    struct taken *taken = self;

    taken->tensor[taken->n++] = pst_stage_tensor(stage);
}

/* Two operators without edges, on four ranks. */
static pst_status declare(const uint32_t *tensors, uint32_t n_tensors,
                          const struct pst_stage_decl *const stages[2], struct taken *taken,
                          struct pst_error *err)
{
    static const struct pst_node nodes[2] = {{.name = "a", .op = "linear"},
                                             {.name = "b", .op = "linear"}};
    const struct pst_graph_view graph = {
        .size = sizeof graph, .n_nodes = 2, .node_size = sizeof *nodes, .nodes = nodes};
    const struct pst_partition_in in = {.size = sizeof in,
                                        .graph = &graph,
                                        .batch = 8,
                                        .micro_batches = sizes,
                                        .n_micro_batches = 1,
                                        .degrees = one,
                                        .n_degrees = 1,
                                        .n_devices = 4,
                                        .tensors = tensors,
                                        .n_tensors = n_tensors};
    struct pst_stage_intake intake = {.partitioner = "p", .take = take, .self = taken};

    memset(taken, 0, sizeof *taken);
    memset(err, 0, sizeof *err);
    pst_stage_intake_begin(&intake, &in);
    for (uint32_t s = 0; s < 2; s++) {
        (void)intake.out.stage(&intake.out, stages[s]);
    }
    return pst_stage_intake_end(&intake, err);
}

static const uint32_t node_a[] = {0}, node_b[] = {1}, ranks[] = {0, 1, 2, 3}, apart[] = {0, 2};

#define STAGE(node, first, n, degree)                                                              \
    {                                                                                              \
        .size = sizeof(struct pst_stage_decl), .nodes = (node), .n_nodes = 1, .ranks = (first),    \
        .n_ranks = (n), .microbatch_size = 4, .k = 1, .tensor = (degree)                           \
    }

TEST(a_struct_of_an_older_minor_has_degree_1_whatever_its_padding_is)
{
    union {
        struct pst_stage_decl decl;
        unsigned char bytes[sizeof(struct pst_stage_decl)];
    } old[2] = {{STAGE(node_a, ranks, 1, 0)}, {STAGE(node_b, ranks + 1, 1, 0)}};
    const struct pst_stage_decl *const stages[2] = {&old[0].decl, &old[1].decl};
    struct taken taken;
    struct pst_error err;

    for (uint32_t s = 0; s < 2; s++) {
        old[s].decl.size = 48;
        memset(old[s].bytes + 44, 0xFF, sizeof old[s].bytes - 44);
    }
    assert_int_equal(declare(both, 2, stages, &taken, &err), PST_OK);
    assert_int_equal(taken.n, 2);
    assert_int_equal(taken.tensor[0], 1);
    assert_int_equal(taken.tensor[1], 1);
}

TEST(a_degree_is_one_that_was_offered_and_0_is_1)
{
    const struct pst_stage_decl none = STAGE(node_a, ranks, 1, 0),
                                two = STAGE(node_b, ranks + 1, 2, 2);
    const struct pst_stage_decl *const stages[2] = {&none, &two};
    struct taken taken;
    struct pst_error err;

    assert_int_equal(declare(both, 2, stages, &taken, &err), PST_OK);
    assert_int_equal(taken.tensor[0], 1);
    assert_int_equal(taken.tensor[1], 2);
    assert_int_not_equal(declare(one, 1, stages, &taken, &err), PST_OK);
    assert_string_equal(err.kind, "plugin.contract");
    assert_non_null(
        strstr(err.message, "the tensor degree of stage 1 is 2, which was not offered"));
    assert_int_equal(pst_error_exit_code(&err), 3);
}

TEST(parts_of_a_replica_are_ranks_in_a_row)
{
    const struct pst_stage_decl a = STAGE(node_a, apart, 2, 2), b = STAGE(node_b, ranks + 3, 1, 1),
                                odd = STAGE(node_b, ranks + 1, 3, 2),
                                first = STAGE(node_a, ranks, 1, 1);
    const struct pst_stage_decl *const torn[2] = {&a, &b}, *const halved[2] = {&first, &odd};
    struct taken taken;
    struct pst_error err;

    assert_int_not_equal(declare(both, 2, torn, &taken, &err), PST_OK);
    assert_string_equal(err.kind, "plan.illegal");
    assert_non_null(strstr(err.message, "stage 0 has rank 2"));
    assert_int_not_equal(declare(both, 2, halved, &taken, &err), PST_OK);
    assert_non_null(strstr(err.message, "stage 1 has 3 ranks"));
}
