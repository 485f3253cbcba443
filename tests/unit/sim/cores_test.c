/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that share the cores of a machine. By hand: F of stage 0 takes 1 us, F of stage 1 3 us; a
 * transfer of 2 samples takes 2 us + 2000 ns.
 */
#include "hand_times.h"

static void run_on(uint32_t cores)
{
    rig.cost.side_by_side = cores;
    must_run();
}

/* Three ranks, two cores: the third pass waits for the core that is free first. */
TEST(passes_take_turns)
{
    const struct pst_instr brief[] = {pass(PST_I_F, 0, 0), pass(PST_I_F, 0, 1)};
    const struct pst_instr lasting[] = {pass(PST_I_F, 1, 0)};

    open_ranks(4);
    set_list(&rig, 0, lasting, 1);
    set_list(&rig, 1, brief, 2);
    set_list(&rig, 2, brief, 2);
    run_on(2);
    EXPECT(0, 0, 0, 3000);
    EXPECT(1, 0, 0, 1000);
    EXPECT(2, 0, 1000, 2000); /* asked for at 0, before rank 1 asked for its second */
    EXPECT(1, 1, 2000, 3000);
    EXPECT(2, 1, 3000, 4000);

    run_on(1);
    EXPECT(0, 0, 0, 3000);
    EXPECT(1, 0, 3000, 4000);
    EXPECT(2, 0, 4000, 5000);
    EXPECT(1, 1, 5000, 6000);
    EXPECT(2, 1, 6000, 7000);

    run_on(4);
    EXPECT(2, 1, 1000, 2000);
    run_on(0);
    EXPECT(2, 1, 1000, 2000);
    rig_close(&rig);
}

/* Who waits for a transfer leaves the core to others, and what goes over links needs none. */
TEST(waiting_takes_no_core)
{
    const uint32_t first = 0;
    const struct pst_instr sends[] = {pass(PST_I_F, 0, 0),
                                      transfer(PST_I_SEND, PST_PAYLOAD_ACT, 0, 2, 1)};
    const struct pst_instr reads[] = {transfer(PST_I_RECV, PST_PAYLOAD_ACT, 0, 2, 0),
                                      after(pass(PST_I_F, 1, 0), &first, 1)};
    const struct pst_instr other[] = {pass(PST_I_F, 0, 0), pass(PST_I_F, 1, 0),
                                      pass(PST_I_F, 0, 1)};

    open_ranks(4);
    set_list(&rig, 0, sends, 2);
    set_list(&rig, 1, reads, 2);
    set_list(&rig, 2, other, 3);
    run_on(1);
    EXPECT(0, 0, 0, 1000);
    EXPECT(0, 1, 1000, 5000);
    EXPECT(2, 0, 1000, 2000);
    EXPECT(2, 1, 2000, 5000);
    EXPECT(1, 1, 5000, 8000); /* asked for at 5000, as rank 2 did: the lower rank first */
    EXPECT(2, 2, 8000, 9000);
    rig_close(&rig);
}
