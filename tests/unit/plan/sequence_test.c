/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages that list their replays: what runs again, held against a look for readers step by step;
 * the programs of random lists, which the checker proves; the plan file; lists that break a rule.
 */
#include "plan/sequence.h"
#include "unit/prove/rig.h"

enum { MOST_STEPS = 8192, MOST_NODES = 128 };

/* --- another way to what runs ------------------------------------------------------------------*/

struct step {
    char kind; /* 'F', 'R', 'B' */
    uint32_t before, node;
    bool runs;
};

struct story {
    const struct pst_graph *graph;
    const struct pst_plan_stage *stage;
    struct step steps[MOST_STEPS];
    uint32_t n;
};

static bool makes(const struct story *story, const struct step *step, uint32_t tensor)
{
    const struct pst_op *op = &story->graph->ops[story->stage->nodes[step->node]];
    bool made = false;

    for (uint32_t k = 0; step->kind != 'B' && step->runs && k < op->n_out; k++) {
        made |= op->out[k] == tensor;
    }
    return made;
}

static bool reads(const struct story *story, const struct step *step, uint32_t tensor)
{
    const struct pst_op *op = &story->graph->ops[story->stage->nodes[step->node]];
    struct pst_op_grad grad;
    uint64_t x = UINT64_MAX, y = 0;
    bool read = false;

    if (step->kind == 'B') {
        pst_op_grad_info(story->graph, story->stage->nodes[step->node], &grad);
        x = (grad.has_b ? grad.b_reads_x : 0) | (grad.has_w ? grad.w_reads_x : 0);
        y = (grad.has_b ? grad.b_reads_y : 0) | (grad.has_w ? grad.w_reads_y : 0);
    }
    for (uint32_t k = 0; step->runs && k < op->n_in; k++) {
        read |= op->in[k] == tensor && (x >> k & 1) != 0;
    }
    for (uint32_t k = 0; step->runs && k < op->n_out; k++) {
        read |= op->out[k] == tensor && (y >> k & 1) != 0;
    }
    return read;
}

/* Is something that the node made before step `at` read then, before it is made anew? */
static bool is_needed(const struct story *story, uint32_t node, uint32_t at)
{
    const struct pst_op *op = &story->graph->ops[story->stage->nodes[node]];

    for (uint32_t k = 0; k < op->n_out; k++) {
        for (uint32_t i = at; i < story->n; i++) {
            if (reads(story, &story->steps[i], op->out[k])) {
                return true;
            }
            if (makes(story, &story->steps[i], op->out[k])) {
                break;
            }
        }
    }
    return false;
}

static void push(struct story *story, char kind, uint32_t before, uint32_t node)
{
    assert_true(story->n < MOST_STEPS);
    story->steps[story->n++] = (struct step){kind, before, node, true};
}

static void tell(struct story *story, const struct pst_graph *graph,
                 const struct pst_plan_stage *stage)
{
    story->graph = graph;
    story->stage = stage;
    story->n = 0;
    for (uint32_t v = 0; v < stage->n_nodes; v++) {
        push(story, 'F', v, v);
    }
    for (uint32_t v = stage->n_nodes; v-- > 0;) {
        for (uint32_t r = 0; r < stage->n_replays; r++) {
            const struct pst_replay *replay = &stage->replays[r];

            for (uint32_t u = replay->first; replay->before == v && u <= replay->last; u++) {
                push(story, 'R', v, u);
            }
        }
        push(story, 'B', v, v);
    }
    for (uint32_t i = story->n; i-- > 0;) { /* those behind are settled */
        struct step *step = &story->steps[i];

        if (step->kind == 'R') {
            step->runs = stage->actions[step->node] != PST_ACTION_OFFLOAD &&
                         is_needed(story, step->node, i + 1);
        }
    }
}

/* --- random lists ------------------------------------------------------------------------------*/

static void draw_list(struct rig *rig, struct pst_plan_stage *stage, struct pst_replay *replays)
{
    uint8_t *actions = (uint8_t *)stage->actions;
    uint32_t n = 0;

    for (uint32_t v = stage->n_nodes; v-- > 0;) {
        while (n < stage->n_nodes && rig_draw(rig, 4) == 0) {
            uint32_t last = rig_draw(rig, 2) == 0 ? v : rig_draw(rig, v + 1);

            replays[n++] = (struct pst_replay){v, rig_draw(rig, last + 1), last};
        }
        actions[v] = actions[v] == PST_ACTION_RECOMPUTE ? PST_ACTION_KEEP : actions[v];
    }
    stage->replays = replays;
    stage->n_replays = n;
    stage->n_replays = pst_sequence_prune(stage, rig->graph, replays);
    pst_sequence_actions(stage, rig->graph, actions);
}

static void check_actions(const struct story *story)
{
    const struct pst_plan_stage *stage = story->stage;

    for (uint32_t v = 0; v < stage->n_nodes; v++) {
        bool named = false;

        for (uint32_t r = 0; r < stage->n_replays; r++) {
            named |= stage->replays[r].first <= v && v <= stage->replays[r].last;
        }
        if (stage->actions[v] != PST_ACTION_OFFLOAD) {
            assert_int_equal(stage->actions[v] == PST_ACTION_RECOMPUTE,
                             named && !is_needed(story, v, stage->n_nodes));
        }
    }
}

/* The replays of every backward pass of the program, in their order. */
static void check_program(const struct pst_program *program, uint32_t stage,
                          const struct story *story)
{
    for (uint32_t i = 0; i < program->n_instrs; i++) {
        const struct pst_program_instr *list = &program->lists[i];
        uint32_t at = 0;

        if (program->instrs[i].stage != stage ||
            (program->instrs[i].op != PST_I_B && program->instrs[i].op != PST_I_BW)) {
            continue;
        }
        for (uint32_t c = list->first_call; c < list->first_call + list->n_calls; c++) {
            const struct pst_program_call *call = &program->calls[c];

            if (call->kind != PST_C_KERNEL || !call->replay) {
                continue;
            }
            while (at < story->n && !(story->steps[at].kind == 'R' && story->steps[at].runs)) {
                at++;
            }
            assert_true(at < story->n);
            assert_int_equal(call->op, story->stage->nodes[story->steps[at].node]);
            at++;
        }
        for (; at < story->n; at++) {
            assert_false(story->steps[at].kind == 'R' && story->steps[at].runs);
        }
    }
}

TEST(random_lists)
{
    static struct story story;
    uint32_t n_again = 0;

    for (uint64_t seed = 1; seed <= 60; seed++) {
        static struct pst_replay replays[RIG_MAX][MOST_NODES];
        struct pst_check_report report;
        struct pst_error err = {0};
        struct rig_shape shape;
        FINISHED_BY(rig_close) struct rig rig;

        rig_open(&rig, seed % 2 == 0 ? "gpt" : "mmt",
                 seed % 2 == 0 ? "layers=2 dim=8 heads=2 context=4 vocab=7"
                               : "branches=2 layers=1 dim=8 heads=2 context=4",
                 seed);
        shape = rig_draw_shape(&rig);
        shape.offload = seed % 3 == 0;
        shape.guests = seed % 3 == 1;
        shape.two_way &= !shape.guests;
        rig_cut(&rig, &shape);
        for (uint32_t s = 0; s < rig.plan->n_stages; s++) {
            assert_true(rig.plan->stages[s].n_nodes <= MOST_NODES);
            draw_list(&rig, &rig.plan->stages[s], replays[s]);
        }
        rig_lower(&rig, &shape);
        if (rig_check(&rig, true, &report, &err) != PST_OK) {
            fail_msg("seed %u: %s\n%s", (unsigned)seed, err.message, err.details);
        }
        for (uint32_t s = 0; s < rig.plan->n_stages; s++) {
            const struct pst_plan_stage *stage = &rig.plan->stages[s];
            uint32_t times[MOST_NODES];

            tell(&story, rig.graph, stage);
            check_actions(&story);
            for (uint32_t r = 0; r < stage->n_ranks && stage->n_replays > 0; r++) {
                check_program(rig.programs[stage->ranks[r]], s, &story);
            }
            pst_plan_replayed(stage, rig.graph, times);
            for (uint32_t v = 0; v < stage->n_nodes && stage->n_replays > 0; v++) {
                uint32_t counted = 0;

                for (uint32_t i = 0; i < story.n; i++) {
                    const struct step *step = &story.steps[i];

                    counted += step->kind == 'R' && step->runs && step->node == v;
                }
                assert_int_equal(times[v], counted);
                n_again += counted > 1;
            }
        }
    }
    assert_true(n_again > 100);
}

/* --- the plan file -----------------------------------------------------------------------------*/

static void open_chain(struct rig *rig)
{
    struct rig_shape shape = {.devices = 1, .chunks = 1, .batch = 4, .microbatch = 2};

    rig_open(rig, "mlp", "inputs=4 hidden=8 layers=3 classes=3 act=relu", 1);
    rig_plan(rig, &shape);
    assert_true(rig->plan->stages[0].n_nodes >= 4);
}

static void set_list(struct rig *rig, const struct pst_replay *replays, uint32_t n)
{
    rig->plan->stages[0].replays = replays;
    rig->plan->stages[0].n_replays = n;
}

/* text with the first `old` replaced; free() it. */
static char *with(const char *text, const char *old, const char *new)
{
    const char *at = strstr(text, old);
    size_t room = strlen(text) + strlen(new) + 1;
    char *copy = malloc(room);

    assert_non_null(at);
    snprintf(copy, room, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    return copy;
}

TEST(plan_file)
{
    static const struct pst_replay list[] = {{2, 0, 2}, {1, 0, 1}};
    struct pst_plan *plan = NULL;
    struct pst_error err = {0};
    FINISHED_BY(rig_close) struct rig rig;
    char sequence[512], bad[512], *text, *again;
    const char *names[4];

    open_chain(&rig);
    for (uint32_t i = 0; i < 4; i++) {
        names[i] = rig.graph->ops[i].name;
    }
    text = pst_plan_to_json(rig.plan, rig.graph);
    assert_null(strstr(text, "sequence")); /* most files have none */
    free(text);
    set_list(&rig, list, 2);
    text = pst_plan_to_json(rig.plan, rig.graph);
    snprintf(sequence, sizeof sequence,
             "\"sequence\":[[\"%s\",\"%s\",\"%s\"],[\"%s\",\"%s\",\"%s\"]]", names[2], names[0],
             names[2], names[1], names[0], names[1]);
    assert_non_null(strstr(text, sequence));
    assert_int_equal(pst_plan_parse("x", text, strlen(text), rig.graph, &plan, &err), PST_OK);
    again = pst_plan_to_json(plan, rig.graph);
    assert_string_equal(text, again);
    assert_int_equal(plan->stages[0].n_replays, 2);
    assert_memory_equal(plan->stages[0].replays, list, sizeof list);
    pst_plan_destroy(plan);
    free(again);
    for (uint32_t i = 0; i < 8; i++) {
        static const uint32_t wrong[][4] = {{1, 0, 2, 0}, {2, 2, 1, 0}, {1, 0, 1, 0}};
        static const char *const texts[] = {"[[]]", "[7]", "[[\"no\",\"no\",\"no\"]]", "7", "[[]"};

        if (i < 3) { /* behind the next backward; empty; ascending */
            snprintf(bad, sizeof bad,
                     "\"sequence\":[[\"%s\",\"%s\",\"%s\"],[\"%s\",\"%s\",\"%s\"]]",
                     names[wrong[i][0]], names[wrong[i][1]], names[wrong[i][2]], names[2], names[0],
                     names[0]);
        } else {
            snprintf(bad, sizeof bad, "\"sequence\":%s", texts[i - 3]);
        }
        again = with(text, sequence, bad);
        err = (struct pst_error){0};
        assert_int_equal(pst_plan_parse("x", again, strlen(again), rig.graph, &plan, &err),
                         PST_ERR_CONFIG);
        assert_string_equal(err.kind, "input.syntax");
        if (i < 7) {
            assert_non_null(strstr(err.message, "stages[0].sequence"));
        }
        free(again);
    }
    free(text);
}

/* --- rules -------------------------------------------------------------------------------------*/

static void expect_violation(struct rig *rig, const char *rule, const char *text)
{
    struct pst_check_report report;
    struct pst_error err = {0};

    assert_int_equal(rig_check(rig, false, &report, &err), PST_ERR_BUG);
    assert_int_equal(report.n_violations, 1);
    assert_string_equal(report.violations[0].rule, rule);
    assert_non_null(strstr(report.violations[0].text, text));
}

TEST(rules)
{
    static const struct pst_replay list[] = {{2, 0, 2}, {1, 0, 1}}, late[] = {{1, 1, 1}};
    static const struct pst_replay doubled[][3] = {{{2, 0, 2}, {2, 0, 2}, {1, 0, 1}},
                                                   {{2, 0, 2}, {1, 0, 1}, {1, 0, 1}}};
    struct pst_replay pruned[3];
    static const struct pst_replay behind[] = {{1, 0, 2}}, ascends[] = {{0, 0, 0}, {2, 0, 0}};
    struct pst_check_report report;
    struct pst_error err = {0};
    FINISHED_BY(rig_close) struct rig rig;
    uint8_t *actions;

    open_chain(&rig);
    actions = (uint8_t *)rig.plan->stages[0].actions;
    set_list(&rig, list, 2);
    pst_sequence_actions(&rig.plan->stages[0], rig.graph, actions);
    assert_int_equal(actions[0], PST_ACTION_RECOMPUTE);
    assert_int_equal(actions[1], PST_ACTION_RECOMPUTE);
    rig_programs(&rig);
    assert_int_equal(rig_check(&rig, true, &report, &err), PST_OK);
    for (uint32_t i = 0; i < 2; i++) { /* an entry that is there twice: the later one makes all */
        set_list(&rig, doubled[i], 3);
        expect_violation(&rig, "PASS8", "begins a replay that makes nothing");
        memcpy(pruned, doubled[i], sizeof pruned);
        set_list(&rig, pruned, 3);
        assert_int_equal(pst_sequence_prune(&rig.plan->stages[0], rig.graph, pruned), 2);
        assert_memory_equal(pruned, list, sizeof list);
    }
    set_list(&rig, behind, 1);
    expect_violation(&rig, "FORM1", "stage 0, replay 0");
    set_list(&rig, ascends, 2);
    expect_violation(&rig, "FORM1", "stage 0, replay 1");
    memset(actions, PST_ACTION_KEEP, rig.plan->stages[0].n_nodes);
    actions[0] = PST_ACTION_RECOMPUTE; /* and late does not name it */
    set_list(&rig, late, 1);
    expect_violation(&rig, "PASS8", "in no replay");
    actions[0] = PST_ACTION_KEEP;
    actions[1] = PST_ACTION_RECOMPUTE; /* the backward of 2 reads it, which comes first */
    expect_violation(&rig, "PASS8", "read before a replay makes it");
}
