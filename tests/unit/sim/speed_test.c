/* SPDX-License-Identifier: Apache-2.0
 *
 * 1F1B over 16 devices with thousands of micro-batches: checker and simulator stay linear. The
 * measure is the same work four times as long on the same machine, so a slow or busy machine does
 * not fail it.
 */
#include "sim/sim.h"


#include "unit/plan/in_turn.h"
#include "base/machine.h"

#define DEVICES 16

static uint32_t make_1f1b(struct rig *rig, uint32_t m)
{
    struct pst_error err = {0};
    struct rig_shape shape = {
        .devices = DEVICES, .chunks = 1, .batch = m, .microbatch = 1, .slots = 2};
    struct pst_pass *orders[DEVICES];
    uint32_t n_passes[DEVICES], total = 0;
    rig_cut(rig, &shape);
    for (uint32_t d = 0; d < DEVICES; d++) {
        orders[d] = calloc(2 * (size_t)m, sizeof **orders);
        n_passes[d] = in_turn(d, DEVICES, m, orders[d]);
    }
    assert_ok(pst_plan_lower(rig->plan, rig->graph, &rig->cost,
                             (const struct pst_pass *const *)orders, n_passes, true, &err),
              &err);
    for (uint32_t d = 0; d < DEVICES; d++) {
        total += rig->plan->devices[d].n_instrs;
        free(orders[d]);
    }
    return total;
}

/* Nanoseconds of this thread, for others may be busy on the machine; the fastest of five runs. */
static void measure(struct rig *rig, uint64_t *ret_check, uint64_t *ret_sim)
{
    static struct pst_check_report report;
    struct pst_error err = {0};
    uint64_t makespan;
    *ret_check = *ret_sim = UINT64_MAX;
    for (uint32_t i = 0; i < 5; i++) {
        uint64_t start = pst_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        assert_ok(rig_check(rig, false, &report, &err), &err);
        uint64_t middle = pst_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        assert_ok(pst_sim_run(rig->plan, rig->graph, &rig->cost, NULL, NULL, &makespan, &err),
                  &err);
        uint64_t end = pst_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        *ret_check = middle - start < *ret_check ? middle - start : *ret_check;
        *ret_sim = end - middle < *ret_sim ? end - middle : *ret_sim;
    }
}

TEST(linear)
{
    FINISHED_BY(rig_close) struct rig rig;
    uint64_t check_short, sim_short, check_long, sim_long;
    rig_open(&rig, "mlp", "inputs=4 hidden=4 layers=20 classes=3", 5);
    uint32_t n_short = make_1f1b(&rig, 300);
    measure(&rig, &check_short, &sim_short);
    rig_drop_plan(&rig);
    uint32_t n_long = make_1f1b(&rig, 1200);
    measure(&rig, &check_long, &sim_long);
    print_message("%u instructions: checked in %.2f ms, simulated in %.2f ms\n", n_short,
                  (double)check_short / 1e6, (double)sim_short / 1e6);
    print_message("%u instructions: checked in %.2f ms, simulated in %.2f ms\n", n_long,
                  (double)check_long / 1e6, (double)sim_long / 1e6);
    assert_true(n_long > 100000);
    /* a quadratic loop would take 16 times as long; caches and a busy machine may cost something */
    assert_true(check_long < 10 * check_short);
    assert_true(sim_long < 10 * sim_short);
}
