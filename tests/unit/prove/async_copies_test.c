/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutants of asynchronous plans that offload, and of their programs, where a micro-batch leaves in
 * one part and comes back in a later one: each is caught by the rule that it breaks.
 */
#include "unit/prove/async_rig.h"
#include "unit/prove/memory_mutant.h"

/* Four stages, four micro-batches: the first stage has its last F in a part before its BW. */
static void open_plan(struct rig *rig, uint32_t seed, bool barrier)
{
    struct async_shape shape = {.p = 4, .m = 4, .size = 1, .barrier = barrier, .offload = true};
    rig_open(rig, "mlp", "inputs=5 hidden=6 layers=9 classes=3", seed);
    assert_true(async_plan(rig, &shape));
    rig_programs(rig);
}

static struct pst_instr *list_of(struct rig *rig, uint32_t rank, enum pst_part part, uint32_t *n)
{
    return (struct pst_instr *)pst_plan_list(&rig->plan->devices[rank], part, n);
}

static void expect(struct rig *rig, const char *rule, const char *text)
{
    static struct pst_check_report report;
    struct pst_error err = {0};
    assert_int_equal(rig_check(rig, true, &report, &err), PST_ERR_BUG);
    if (!rig_has_rule(&report, rule) || (text != NULL && !me_says(&report, text))) {
        fail_msg("expected %s, %s; found %s\n%s", rule, text != NULL ? text : "", err.message,
                 err.details);
    }
}

/* Whether a mutant is found, by one of these rules. */
static bool is_refused(struct rig *rig, const char *rules)
{
    static struct pst_check_report report;
    struct pst_error err = {0};
    if (rig_check(rig, true, &report, &err) == PST_OK) {
        return false;
    }
    assert_true(rig_has_rule(&report, rules));
    return true;
}

/* A copy of one kind in a part of some rank; instructions of others before it are skipped. */
static struct pst_instr *find(struct rig *rig, enum pst_part part, uint8_t op, uint32_t *ret_rank,
                              uint32_t *ret_at)
{
    for (uint32_t d = 0; d < rig->plan->n_devices; d++) {
        uint32_t n;
        struct pst_instr *list = list_of(rig, d, part, &n);
        for (uint32_t i = 0; i < n; i++) {
            if (list[i].op == op) {
                *ret_rank = d;
                *ret_at = i;
                return &list[i];
            }
        }
    }
    return NULL;
}

/* What a part leaves or takes is missed where it is not there, though the part itself is in order.
 */
TEST(lists)
{
    uint32_t n_heads = 0;
    for (uint32_t seed = 1; seed <= 12; seed++) {
        struct pst_instr *copy, kept;
        FINISHED_BY(rig_close) struct rig rig;
        uint32_t d, at;
        open_plan(&rig, seed, seed % 2 == 0);
        if ((copy = find(&rig, PST_DRAIN, PST_I_FETCH, &d, &at)) != NULL) {
            kept = *copy;
            copy->microbatch += 1; /* comes back twice, another not at all */
            expect(&rig, "PASS6", NULL);
            *copy = kept;
            n_heads += at == 0;
        }
        if ((copy = find(&rig, PST_FILL, PST_I_OFFLOAD, &d, &at)) != NULL) {
            kept = *copy;
            copy->op = PST_I_FETCH; /* of nothing */
            expect(&rig, "PASS6 FORM1", NULL);
            *copy = kept;
            copy->at_part_head = true;
            expect(&rig, "FORM1", "a mark of lists that are made from parts");
            *copy = kept;
            copy->n_waits = 0;
            expect(&rig, "PASS6", "does not wait for the pass");
            *copy = kept;
        }
    }
    assert_true(n_heads > 0);
}

/* OFFLOAD has no place at the head of a part, FETCH none at that of fill. */
TEST(heads)
{
    static const uint8_t ops[] = {PST_I_OFFLOAD, PST_I_FETCH};
    for (uint32_t i = 0; i < 2; i++) {
        enum pst_part part = i == 0 ? PST_BODY : PST_FILL;
        struct pst_instr *list, kept;
        FINISHED_BY(rig_close) struct rig rig;
        uint32_t n;
        open_plan(&rig, 3, false);
        list = list_of(&rig, 1, part, &n);
        kept = list[0];
        list[0] =
            (struct pst_instr){.op = ops[i], .stage = 1, .node = rig.plan->stages[1].nodes[0]};
        expect(&rig, "FORM1", "a copy must directly follow a pass or another copy");
        list[0] = kept;
    }
}

/* A call that waits for a copy of an earlier part. */
static uint32_t *open_wait(struct pst_program *program)
{
    for (uint32_t s = 0; s < program->n_sections; s++) {
        const struct pst_program_section *section = &program->sections[s];
        for (uint32_t i = section->first_instr; i < section->first_instr + section->n_instrs; i++) {
            const struct pst_program_instr *list = &program->lists[i];
            for (uint32_t c = list->first_call; c < list->first_call + list->n_calls; c++) {
                const struct pst_program_call *call = &program->calls[c];
                for (uint32_t w = 0; w < call->n_copy_waits; w++) {
                    uint32_t *wait = &program->copy_waits[call->first_copy_wait + w];
                    if (program->copies[*wait].instr < section->first_instr) {
                        return wait;
                    }
                }
            }
        }
    }
    return NULL;
}

/* A FETCH whose OFFLOAD is in an earlier part. */
static struct pst_program_copy *open_fetch(struct pst_program *program)
{
    for (uint32_t s = 0; s < program->n_sections; s++) {
        const struct pst_program_section *section = &program->sections[s];
        for (uint32_t i = section->first_instr; i < section->first_instr + section->n_instrs; i++) {
            const struct pst_program_instr *list = &program->lists[i];
            for (uint32_t c = list->first_copy; c < list->first_copy + list->n_copies; c++) {
                struct pst_program_copy *copy = &program->copies[c];
                if (copy->after != PST_NONE &&
                    program->copies[copy->after].instr < section->first_instr) {
                    return copy;
                }
            }
        }
    }
    return NULL;
}

/* Another turn of the same bytes in host memory; PST_NONE: there is but one. */
static uint32_t other_turn(const struct pst_program *program, uint32_t v)
{
    const struct pst_value *self = &program->values[v];
    for (uint32_t i = 0; i < program->n_values; i++) {
        const struct pst_value *value = &program->values[i];
        if (i != v && value->kind == PST_V_HOST && value->stage == self->stage &&
            value->what == self->what && value->period == self->period) {
            return i;
        }
    }
    return PST_NONE;
}

TEST(programs)
{
    uint32_t n_waits = 0, n_turns = 0;
    for (uint32_t seed = 1; seed <= 12; seed++) {
        FINISHED_BY(rig_close) struct rig rig;
        open_plan(&rig, seed, seed % 2 == 0);
        for (uint32_t d = 0; d < rig.plan->n_devices; d++) {
            struct pst_program *program = rig.programs[d];
            struct pst_program_copy *fetch = open_fetch(program);
            uint32_t *wait = open_wait(program), kept, turn;
            if (wait != NULL && program->copies[*wait].after == PST_NONE && *wait != 0) {
                kept = *wait;
                *wait = 0; /* the first of all, long ended; another wait may do as well */
                n_waits += is_refused(&rig, "MEM2 MEM3");
                *wait = kept;
            }
            turn = fetch != NULL ? other_turn(program, fetch->host) : PST_NONE;
            if (turn != PST_NONE) {
                kept = fetch->host;
                fetch->host = turn;
                expect(&rig, "MEM2", NULL);
                fetch->host = kept;
                program->values[kept].period = 0; /* of one part only */
                expect(&rig, "MEM2", NULL);
                program->values[kept].period = program->values[turn].period;
                uint64_t offset = program->values[kept].offset;
                program->values[kept].offset = program->values[turn].offset;
                expect(&rig, "MEM3", NULL);
                program->values[kept].offset = offset;
                n_turns++;
            }
        }
    }
    print_message("%u open waits that nothing stands in for, %u turns\n", n_waits, n_turns);
    assert_true(n_waits > 0 && n_turns > 0);
}
