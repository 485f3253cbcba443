/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists written by hand.
 */
#ifndef TESTS_SIM_HAND_H
#define TESTS_SIM_HAND_H

#include "sim/sim.h"

#include "unit/prove/rig.h"

OWNER(timeline)

/*
 * A machine on which everything that is computed takes as long as its launches: peak and bandwidth
 * are not modelled, one launch is 1 us. Links: 2 us + 1 ns per byte.
 */
static inline void open_hand(struct rig *rig, const char *settings)
{
    rig_open(rig, "mlp", settings, 1);
    rig->cluster = (struct pst_cluster){.devices = RIG_MAX,
                                        .launch_overhead = 1000,
                                        .link_bandwidth = 1000000000,
                                        .link_latency = 2000};
}

static inline struct pst_instr pass(uint8_t op, uint32_t stage, uint32_t microbatch)
{
    return (struct pst_instr){.op = op, .stage = stage, .microbatch = microbatch};
}

static inline struct pst_instr transfer(uint8_t op, uint8_t payload, uint32_t first, uint32_t n,
                                        uint32_t peer)
{
    return (struct pst_instr){
        .op = op, .payload = payload, .first_sample = first, .n_samples = n, .peer = peer};
}

static inline struct pst_instr after(struct pst_instr instr, const uint32_t *waits, uint32_t n)
{
    instr.waits = waits;
    instr.n_waits = n;
    return instr;
}

static inline void set_list(struct rig *rig, uint32_t rank, const struct pst_instr *list,
                            uint32_t n)
{
    rig->plan->devices[rank].body = list;
    rig->plan->devices[rank].n_instrs = n;
}

/* mlp of 3 linear operators and the loss on n ranks, cut after the first: stage 0 is one operator,
   F 1 us, stage 1 the others, F 3 us. The edge carries 1000 bytes a sample; micro-batches of 2. */
static inline void open_two_stages(struct rig *rig, uint32_t n_ranks)
{
    struct pst_error err = {0};
    const uint32_t rank[] = {0, 1}, nodes[] = {0, 1, 2, 3};
    open_hand(rig, "inputs=4 hidden=250 layers=2 classes=3");
    assert_int_equal(rig->graph->n_ops, 4);
    pst_plan_create(rig->graph, 4, n_ranks, &rig->plan);
    pst_plan_add_stage(rig->plan, nodes, 1, &rank[0], 1, 2, 1);
    pst_plan_add_stage(rig->plan, nodes + 1, 3, &rank[1], 1, 2, 1);
    assert_int_equal(pst_plan_connect(rig->plan, rig->graph, &err), PST_OK);
}

#endif
