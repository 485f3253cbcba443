/* SPDX-License-Identifier: Apache-2.0
 *
 * FORM1 on replicas of several devices: which devices they are, and that the operators of a stage
 * are shared by as many.
 */
#include "prove/internal.h"
#include "unit/prove/parts_rig.h"

static struct pst_check_report report;

static bool is_legal(struct rig *rig)
{
    return rig_check(rig, false, &report, &(struct pst_error){0}) == PST_OK;
}

static void expect_refused(struct rig *rig, const char *told)
{
    assert_false(is_legal(rig));
    assert_string_equal(report.violations[0].rule, "FORM1");
    if (strstr(report.violations[0].text, told) == NULL) {
        fail_msg("%s, not %s", report.violations[0].text, told);
    }
}

/* Two stages, each on two parts: devices 0 and 1, 2 and 3. */
static void open_two(struct rig *rig)
{
    open_parts(rig, "gpt", GPT " tied=false", 2, false, 35);
    rig_plan(rig, &(struct rig_shape){.devices = 2, .chunks = 1, .batch = 4, .microbatch = 2});
    expand(rig);
    assert_true(is_legal(rig));
    assert_int_equal(rig->plan->n_stages, 2);
    assert_int_equal(rig->plan->n_devices, 4);
}

static void set_ranks(struct rig *rig, uint32_t stage, uint32_t first, uint32_t second)
{
    uint32_t *ranks = (uint32_t *)rig->plan->stages[stage].ranks;

    ranks[0] = first;
    ranks[1] = second;
}

TEST(parts_in_a_row)
{
    FINISHED_BY(rig_close) struct rig rig;

    open_two(&rig);
    set_ranks(&rig, 0, 1, 0);
    expect_refused(&rig, "of 2 of stage 0; the parts of a replica are devices in a row");
    set_ranks(&rig, 0, 0, 2);
    expect_refused(&rig, "it is part 1 of 2 of stage 0");
    set_ranks(&rig, 0, 1, 2); /* device 1 is a first part here, a second one in the other stage */
    expect_refused(&rig, "it is part 0 of 2 of stage 1");
    set_ranks(&rig, 0, 0, 1);
    assert_true(is_legal(&rig));
}

enum { N_DEGREES = 64 };

static void fill(uint16_t *degree_of, uint16_t degree)
{
    for (uint32_t v = 0; v < N_DEGREES; v++) {
        degree_of[v] = degree;
    }
}

TEST(one_part_of_all_stages)
{
    FINISHED_BY(rig_close) struct rig rig;
    uint16_t degree_of[N_DEGREES];

    open_two(&rig);
    fill(degree_of, 2);
    rig.graph->degree_of = degree_of; /* numbers do not say which part a device is */
    assert_true(is_legal(&rig));
    set_ranks(&rig, 0, 1, 2);
    expect_refused(&rig, "it is part 0 of 2 of stage 1");
    set_ranks(&rig, 0, 0, 1);
    rig.graph->degree_of = NULL;
}

TEST(operators_of_one_degree)
{
    FINISHED_BY(rig_close) struct rig rig;
    const struct pst_plan_stage *last;
    uint16_t degree_of[N_DEGREES];

    open_two(&rig);
    last = &rig.plan->stages[1];
    fill(degree_of, 2);
    rig.graph->degree_of = degree_of;
    degree_of[rig.graph->op_of[last->nodes[last->n_nodes - 1]]] = 1;
    expect_refused(&rig, "stage 1: its operators are shared by unlike numbers of devices");
    fill(degree_of, 4);
    expect_refused(&rig, "stage 0: 2 devices in replicas of 2; a replica is one device, in all "
                         "stages, or the 4 parts of its operators");
    rig.graph->degree_of = NULL;
    rig.plan->stages[1].tensor = 1;
    expect_refused(&rig, "stage 1: 2 devices in replicas of 1");
    rig.plan->stages[1].tensor = 2;
    assert_true(is_legal(&rig));
}
