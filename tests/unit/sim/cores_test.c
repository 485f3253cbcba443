/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that share the cores of a machine. By hand: F of stage 0 takes 1 us, F of stage 1 3 us; a
 * transfer of 2 samples takes 2 us + 2000 ns.
 */
#include "hand.h"

#define RANKS 4

static struct times {
    uint64_t start[RANKS][4], end[RANKS][4];
} t;

static struct rig rig;

static void run(uint32_t side_by_side)
{
    uint64_t *start[RANKS], *end[RANKS], makespan;
    struct pst_error err = {0};

    memset(&t, 0, sizeof t);
    for (uint32_t d = 0; d < RANKS; d++) {
        start[d] = t.start[d];
        end[d] = t.end[d];
    }
    rig.cost.side_by_side = side_by_side;
    assert_ok(pst_sim_run(rig.plan, rig.graph, &rig.cost, start, end, &makespan, &err), &err);
}

#define EXPECT(rank, instr, from, to)                                                              \
    do {                                                                                           \
        assert_int_equal(t.start[rank][instr], from);                                              \
        assert_int_equal(t.end[rank][instr], to);                                                  \
    } while (0)

static void open_ranks(void)
{
    open_two_stages(&rig, RANKS);
    for (uint32_t d = 0; d < RANKS; d++) {
        set_list(&rig, d, NULL, 0);
    }
}

/* Three ranks, two cores: the third pass waits for the core that is free first. */
TEST(passes_take_turns)
{
    const struct pst_instr brief[] = {pass(PST_I_F, 0, 0), pass(PST_I_F, 0, 1)};
    const struct pst_instr lasting[] = {pass(PST_I_F, 1, 0)};

    open_ranks();
    set_list(&rig, 0, lasting, 1);
    set_list(&rig, 1, brief, 2);
    set_list(&rig, 2, brief, 2);
    run(2);
    EXPECT(0, 0, 0, 3000);
    EXPECT(1, 0, 0, 1000);
    EXPECT(2, 0, 1000, 2000); /* asked for at 0, before rank 1 asked for its second */
    EXPECT(1, 1, 2000, 3000);
    EXPECT(2, 1, 3000, 4000);

    run(1);
    EXPECT(0, 0, 0, 3000);
    EXPECT(1, 0, 3000, 4000);
    EXPECT(2, 0, 4000, 5000);
    EXPECT(1, 1, 5000, 6000);
    EXPECT(2, 1, 6000, 7000);

    run(RANKS);
    EXPECT(2, 1, 1000, 2000);
    run(0);
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

    open_ranks();
    set_list(&rig, 0, sends, 2);
    set_list(&rig, 1, reads, 2);
    set_list(&rig, 2, other, 3);
    run(1);
    EXPECT(0, 0, 0, 1000);
    EXPECT(0, 1, 1000, 5000);
    EXPECT(2, 0, 1000, 2000);
    EXPECT(2, 1, 2000, 5000);
    EXPECT(1, 1, 5000, 8000); /* asked for at 5000, as rank 2 did: the lower rank first */
    EXPECT(2, 2, 8000, 9000);
    rig_close(&rig);
}
