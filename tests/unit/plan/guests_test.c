/* SPDX-License-Identifier: Apache-2.0
 *
 * Guests: what micro-batches leave for their backward passes, on another device meanwhile. Random
 * plans are legal and go through files; broken ones are found; under 1F1B the memory of both
 * devices is what counting micro-batches says.
 */
#include "unit/plan/in_turn.h"

static uint32_t count_guests(const struct pst_plan *plan)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        n += plan->stages[s].n_guests * plan->stages[s].n_ranks;
    }
    return n;
}

static uint32_t count_moves(const struct pst_plan *plan, uint32_t op, uint32_t payload)
{
    uint32_t n = 0;
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        for (uint32_t i = 0; i < plan->devices[d].n_instrs; i++) {
            const struct pst_instr *instr = &plan->devices[d].body[i];
            n += instr->op == op && instr->payload == payload;
        }
    }
    return n;
}

static void draw_plan(struct rig *rig, uint32_t seed)
{
    rig_open(rig, models[seed % MODELS][0], models[seed % MODELS][1], seed);
    struct rig_shape shape = rig_draw_shape(rig);
    shape.recompute = seed % 3 == 0;
    shape.offload = seed % 3 == 1;
    shape.guests = true;
    shape.two_way = false;
    rig_plan(rig, &shape);
}

/* Rendezvous, both queues: no cycle, every buffer the right one. */
TEST(test_legal)
{
    uint32_t n = 0;
    for (uint32_t seed = 5000; seed < 5400; seed++) {
        FINISHED_BY(rig_close) struct rig rig;
        draw_plan(&rig, seed);
        expect_legal(&rig, "%s", models[seed % MODELS][0]);
        uint32_t guests = count_guests(rig.plan);
        for (uint32_t op = PST_I_SEND; op <= PST_I_RECV; op++) {
            assert_int_equal(count_moves(rig.plan, op, PST_PAYLOAD_EVICT), guests);
            assert_int_equal(count_moves(rig.plan, op, PST_PAYLOAD_LOAD), guests);
        }
        n += guests;
    }
    print_message("%u guests\n", n);
    assert_true(n > 300);
}

TEST(test_file)
{
    uint32_t n = 0;
    for (uint32_t seed = 5400; seed < 5460; seed++) {
        FINISHED_BY(rig_close) struct rig rig;
        draw_plan(&rig, seed);
        struct pst_plan *read = reread(&rig, seed);
        n += count_guests(read);
        assert_int_equal(count_guests(read), count_guests(rig.plan));
        pst_plan_destroy(read);
    }
    assert_true(n > 20);
}

/* --- broken ones -------------------------------------------------------------------------------*/

static struct pst_instr *find_move(const struct pst_plan *plan, uint32_t op, uint32_t payload,
                                   uint32_t *ret_rank)
{
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        for (uint32_t i = 0; i < plan->devices[d].n_instrs; i++) {
            const struct pst_instr *instr = &plan->devices[d].body[i];
            if (instr->op == op && instr->payload == payload) {
                *ret_rank = d;
                return (struct pst_instr *)instr;
            }
        }
    }
    return NULL;
}

/* Whatever waits for an instruction does so no more. */
static void forget_waits(struct pst_plan_device *device, const struct pst_instr *instr)
{
    uint32_t at = (uint32_t)(instr - device->body);
    for (uint32_t i = 0; i < device->n_instrs; i++) {
        struct pst_instr *other = (struct pst_instr *)&device->body[i];
        uint32_t *waits = (uint32_t *)other->waits, n = 0;
        for (uint32_t w = 0; w < other->n_waits; w++) {
            if (waits[w] != at) {
                waits[n++] = waits[w];
            }
        }
        other->n_waits = n;
    }
}

enum {
    DROP_GUEST,
    WRONG_RANK,
    WRONG_SAMPLES,
    WRONG_PAYLOAD,
    NO_ACTION,
    NO_ARRIVAL,
    NO_RETURN,
    NO_SENT,
    BREAKS
};

static const char *const rules[BREAKS] = {"COMM1", "COMM1", "COMM1", "COMM1",
                                          "FORM1", "PASS7", "PASS7", "MEM2"};

/* False: the plan has nothing to break so. */
static bool break_plan(struct rig *rig, uint32_t kind)
{
    uint32_t rank = 0;
    struct pst_instr *instr = find_move(rig->plan, PST_I_SEND, PST_PAYLOAD_EVICT, &rank);
    if (instr == NULL) {
        return false;
    }
    struct pst_plan_stage *stage = &rig->plan->stages[instr->stage];
    switch (kind) {
    case DROP_GUEST:
        return --stage->n_guests > 0;
    case WRONG_RANK:
        for (uint32_t s = 0; s < rig->plan->n_stages; s++) {
            const struct pst_plan_stage *other = &rig->plan->stages[s];
            if (other->n_ranks == stage->n_ranks && other->ranks[0] != stage->ranks[0] &&
                other->ranks[0] != stage->guests[0].rank) {
                ((struct pst_plan_guest *)stage->guests)[0].rank = other->ranks[0];
                return true;
            }
        }
        return false;
    case WRONG_SAMPLES:
        if (instr->n_samples < 2) {
            return false;
        }
        instr->n_samples--;
        return true;
    case WRONG_PAYLOAD:
        instr->payload = PST_PAYLOAD_LOAD;
        return true;
    case NO_ACTION: /* nothing is left to be moved */
        for (uint32_t i = 0; i < stage->n_nodes; i++) {
            uint8_t *action = (uint8_t *)&stage->actions[i];
            *action = *action == PST_ACTION_PEER ? PST_ACTION_KEEP : *action;
        }
        return true;
    case NO_ARRIVAL:
        instr = find_move(rig->plan, PST_I_RECV, PST_PAYLOAD_EVICT, &rank);
        break;
    case NO_RETURN:
        instr = find_move(rig->plan, PST_I_RECV, PST_PAYLOAD_LOAD, &rank);
        break;
    default:
        break;
    }
    forget_waits(&rig->plan->devices[rank], instr);
    return true;
}

TEST(test_broken)
{
    static struct pst_check_report report;
    uint32_t found[BREAKS] = {0};
    for (uint32_t seed = 5500; seed < 5500 + 40 * BREAKS; seed++) {
        struct pst_error err = {0};
        uint32_t kind = seed % BREAKS;
        FINISHED_BY(rig_close) struct rig rig;
        draw_plan(&rig, seed);
        if (break_plan(&rig, kind)) {
            if (rig_check(&rig, true, &report, &err) == PST_OK ||
                !rig_has_rule(&report, rules[kind])) {
                fail_msg("seed %u: %s expected, found: %s\n%s", seed, rules[kind], err.message,
                         err.details);
            }
            found[kind]++;
        }
    }
    for (uint32_t kind = 0; kind < BREAKS; kind++) {
        assert_true(found[kind] > 1);
    }
}

/* --- 1F1B --------------------------------------------------------------------------------------*/

/* p equal stages of a chain and m micro-batches; `away`: of stage 0 the last device keeps those
   micro-batches, ascending, that are named. */
static void plan_in_turn(struct rig *rig, uint32_t p, uint32_t m, const uint32_t *away,
                         uint32_t n_away)
{
    struct pst_plan_guest *guests;
    in_turn_stages(rig, p, m);
    if (n_away > 0) {
        memset((uint8_t *)rig->plan->stages[0].actions, PST_ACTION_PEER,
               rig->plan->stages[0].n_nodes);
        guests = pst_arena_array(&rig->plan->arena, n_away, sizeof *guests);
        for (uint32_t i = 0; i < n_away; i++) {
            guests[i] = (struct pst_plan_guest){away[i], p - 1};
        }
        rig->plan->stages[0].guests = guests;
        rig->plan->stages[0].n_guests = n_away;
    }
    in_turn_lists(rig);
}

/* Bytes that one micro-batch of stage 0 leaves. */
static uint64_t moved_bytes(const struct rig *rig)
{
    const struct pst_plan_stage *stage = &rig->plan->stages[0];
    uint32_t *tensors, n;
    pst_plan_guest_tensors(stage, rig->graph, &rig->plan->arena, &tensors, &n);
    return pst_plan_guest_bytes(stage, rig->graph, tensors, n);
}

/* Four stages: stage 0 holds four micro-batches, at the begin of the steady state 0, 1, 2 and 3.
   With micro-batches 1, 3, 5, ... away in turn, and the sixth of eight for the end, it holds three
   at most, those that leave or come back counted. */
TEST(test_four_become_three)
{
    static const uint32_t away[] = {1, 3, 5, 6};
    static struct pst_check_report report;
    struct pst_error err = {0};
    FINISHED_BY(rig_close) struct rig rig;
    uint64_t before;
    rig_open(&rig, "mlp", "inputs=32 hidden=32 layers=8 classes=32", 1);
    plan_in_turn(&rig, 4, 8, NULL, 0);
    before = rig.programs[0]->peak_bytes;
    rig_drop_plan(&rig);
    plan_in_turn(&rig, 4, 8, away, 4);
    assert_true(moved_bytes(&rig) > 0);
    assert_int_equal(rig.programs[0]->peak_bytes, before - moved_bytes(&rig));
    assert_ok(rig_check(&rig, true, &report, &err), &err);
}

/* No passes between forward and backward: refused, with the reason. */
TEST(test_no_time)
{
    struct pst_error err = {0};
    const struct pst_pass order[2][2] = {{{PST_PASS_F, 0, 0}, {PST_PASS_BW, 0, 0}},
                                         {{PST_PASS_F, 1, 0}, {PST_PASS_BW, 1, 0}}};
    const struct pst_pass *lists[2] = {order[0], order[1]};
    const uint32_t n_passes[2] = {2, 2};
    const struct pst_plan_guest guest = {0, 1};
    struct rig_shape shape = {.devices = 2, .chunks = 1, .batch = 2, .microbatch = 2};
    FINISHED_BY(rig_close) struct rig rig;
    rig_open(&rig, models[0][0], models[0][1], 3);
    rig_cut(&rig, &shape);
    rig.plan->stages[0].guests = &guest;
    rig.plan->stages[0].n_guests = 1;
    assert_int_equal(pst_plan_lower(rig.plan, rig.graph, &rig.cost, lists, n_passes, true, &err),
                     PST_ERR_UNSUPPORTED);
    assert_string_equal(err.kind, "plan.mismatch");
    assert_non_null(strstr(err.message, "cannot be a guest"));
}
