/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutants of programs: lives, offsets, sizes, operands, order of sums, pieces, waits that only
 * buffers need. Each is caught by its rule; where none can be (a wait that nothing needs), that is
 * proven.
 */
#include "unit/check/rig.h"

struct scene {
    struct rig *rig;
    struct pst_program *program; /* a rank's, drawn */
    struct pst_plan_device *device;
    bool open;        /* may be legal: harmless() decides */
    const char *text; /* some violation must say this */
    uint32_t instr, wait;
};

/* A value drawn among those that fit; PST_NONE if there is none. */
static uint32_t draw_value(struct scene *scene,
                           bool (*fits)(const struct scene *, const struct pst_value *))
{
    uint32_t n = 0, drawn = PST_NONE;
    for (uint32_t v = 0; v < scene->program->n_values; v++) {
        if (fits(scene, &scene->program->values[v]) && rig_draw(scene->rig, ++n) == 0) {
            drawn = v;
        }
    }
    return drawn;
}

static bool is_any(const struct scene *scene, const struct pst_value *value)
{
    (void)scene;
    return value->bytes > 0;
}

static bool is_lasting(const struct scene *scene, const struct pst_value *value)
{
    (void)scene;
    return !value->is_static && value->first < value->last;
}

static bool is_static(const struct scene *scene, const struct pst_value *value)
{
    (void)scene;
    return value->is_static;
}

static bool is_plain(const struct scene *scene, const struct pst_value *value)
{
    (void)scene;
    return value->kind != PST_V_WORKSPACE;
}

/* --- mutations: the rules that may catch it, NULL: not here ---------------------------------- */

static const char *die_early(struct scene *scene)
{
    uint32_t v = draw_value(scene, is_lasting);
    if (v == PST_NONE) {
        return NULL;
    }
    scene->program->values[v].last--;
    return "MEM2";
}

static const char *live_late(struct scene *scene)
{
    uint32_t v = draw_value(scene, is_lasting);
    if (v == PST_NONE) {
        return NULL;
    }
    scene->program->values[v].first++;
    return "MEM2";
}

/* Two that live together; one moves onto a part of the other. */
static const char *overlap(struct scene *scene)
{
    uint32_t a = draw_value(scene, is_any), n = 0, b = PST_NONE;
    for (uint32_t v = 0; a != PST_NONE && v < scene->program->n_values; v++) {
        const struct pst_value *x = &scene->program->values[v], *y = &scene->program->values[a];
        if (v != a && x->bytes > 0 && x->is_static == y->is_static && x->first <= y->last &&
            y->first <= x->last && rig_draw(scene->rig, ++n) == 0) {
            b = v;
        }
    }
    if (b == PST_NONE) {
        return NULL;
    }
    struct pst_value *x = &scene->program->values[b];
    const struct pst_value *y = &scene->program->values[a];
    uint64_t steps = (y->bytes - 1) / PST_VALUE_ALIGN + 1;
    uint64_t back = (x->bytes - 1) / PST_VALUE_ALIGN * PST_VALUE_ALIGN;
    if (rig_draw(scene->rig, 2) == 0 && back <= y->offset) {
        x->offset = y->offset - back; /* its end in the other's beginning */
    } else {
        x->offset = y->offset + rig_draw(scene->rig, (uint32_t)steps) * PST_VALUE_ALIGN;
    }
    scene->text = "overlaps buffer";
    return "MEM3";
}

static const char *misalign(struct scene *scene)
{
    uint32_t v = draw_value(scene, is_any);
    scene->program->values[v].offset += 4;
    return "MEM3";
}

static const char *too_small(struct scene *scene)
{
    uint32_t v = draw_value(scene, is_plain);
    scene->program->values[v].bytes -= 2;
    return "MEM3 MEM2"; /* a piece that no longer fits comes first */
}

static const char *static_dies(struct scene *scene)
{
    uint32_t v = draw_value(scene, is_static);
    if (v == PST_NONE || scene->program->n_ticks < 2) {
        return NULL;
    }
    scene->program->values[v].last--;
    return "MEM3";
}

static const char *shrink_capacity(struct scene *scene)
{
    scene->rig->plan->capacity_bytes = scene->program->arena_bytes - 1;
    return "MEM1";
}

static const char *wrong_peak(struct scene *scene)
{
    if (rig_draw(scene->rig, 2) == 0) {
        scene->device->peak_bytes++;
    } else {
        scene->program->arena_bytes += 256;
    }
    return "MEM3";
}

/* A call drawn; its operands in [*ret_first, + *ret_n). */
static struct pst_program_call *draw_call(struct scene *scene, uint32_t kind, uint32_t *ret_first,
                                          uint32_t *ret_n)
{
    struct pst_program_call *drawn = NULL;
    uint32_t n = 0;
    for (uint32_t c = 0; c < scene->program->n_calls; c++) {
        struct pst_program_call *call = &scene->program->calls[c];
        if (call->kind == kind && rig_draw(scene->rig, ++n) == 0) {
            drawn = call;
            *ret_first = call->first_operand;
            *ret_n = kind == PST_C_KERNEL
                         ? pst_operands_of(&scene->rig->graph->ops[call->op]).workspace
                         : 3;
        }
    }
    return drawn;
}

static const char *lose_operand(struct scene *scene)
{
    uint32_t first = 0, n = 0, at, tries = 0;
    struct pst_program_call *call = draw_call(scene, PST_C_KERNEL, &first, &n);
    if (call == NULL) {
        return NULL;
    }
    const struct pst_op *op = &scene->rig->graph->ops[call->op];
    struct pst_operands layout = pst_operands_of(op);
    do {
        at = rig_draw(scene->rig, n);
    } while ((scene->program->operands[first + at] == PST_NONE || at >= layout.state ||
              (at >= layout.add && at < layout.z)) &&
             ++tries < 200);
    if (tries == 200) {
        return NULL;
    }
    scene->program->operands[first + at] = PST_NONE;
    return "MEM2";
}

static const char *wrong_operand(struct scene *scene)
{
    uint32_t first = 0, n = 0, at, tries = 0;
    struct pst_program_call *call = draw_call(scene, PST_C_KERNEL, &first, &n);
    uint32_t other = draw_value(scene, is_any);
    if (call == NULL || call->pass == 1) {
        return NULL; /* gradients of one shape are alike; the walk of dy is checked by bytes */
    }
    struct pst_operands layout = pst_operands_of(&scene->rig->graph->ops[call->op]);
    do {
        at = rig_draw(scene->rig, n);
    } while ((scene->program->operands[first + at] == PST_NONE || at >= layout.state ||
              at == layout.dy) &&
             ++tries < 200);
    if (tries == 200 || scene->program->operands[first + at] == other) {
        return NULL;
    }
    /* the same tensor of the same micro-batch, replayed or received, would be right */
    const struct pst_value *a = &scene->program->values[scene->program->operands[first + at]];
    const struct pst_value *b = &scene->program->values[other];
    if (a->what == b->what && a->microbatch == b->microbatch) {
        return NULL;
    }
    scene->program->operands[first + at] = other;
    return "MEM2";
}

/* Two additions to one accumulator change places. */
static const char *reorder_sums(struct scene *scene)
{
    uint32_t first = 0, n = 0;
    struct pst_program_call *a = draw_call(scene, PST_C_ACCUMULATE, &first, &n);
    for (uint32_t c = 0; a != NULL && c < scene->program->n_calls; c++) {
        struct pst_program_call *b = &scene->program->calls[c];
        if (b != a && b->kind == PST_C_ACCUMULATE &&
            scene->program->operands[b->first_operand] == scene->program->operands[first]) {
            uint32_t *x = &scene->program->operands[first + 1];
            uint32_t *y = &scene->program->operands[b->first_operand + 1], kept = *x;
            *x = *y;
            *y = kept;
            return "NUM1";
        }
    }
    return NULL;
}

static const char *lose_sum(struct scene *scene)
{
    uint32_t first = 0, n = 0;
    struct pst_program_call *call = draw_call(scene, PST_C_ACCUMULATE, &first, &n);
    if (call == NULL) {
        return NULL;
    }
    call->kind = PST_C_LOSS; /* reads something else instead */
    call->op = scene->rig->graph->loss;
    return "NUM1";
}

static const char *wrong_piece(struct scene *scene)
{
    struct pst_program *program = scene->program;
    if (program->n_parts == 0) {
        return NULL;
    }
    struct pst_transfer_part *part = &program->parts[rig_draw(scene->rig, program->n_parts)];
    if (rig_draw(scene->rig, 2) == 0) {
        part->bytes -= 4;
        return "COMM1 MEM2";
    }
    for (uint32_t i = 0; i < program->n_instrs; i++) {
        uint32_t index = (uint32_t)(part - program->parts);
        if (program->instrs[i].op == PST_I_RECV && index >= program->lists[i].first_part &&
            index < program->lists[i].first_part + program->lists[i].n_parts) {
            part->begin += 4;
            return "MEM2";
        }
    }
    return NULL;
}

static const char *wrong_samples(struct scene *scene)
{
    uint32_t first = 0, n = 0;
    struct pst_program_call *call = draw_call(scene, PST_C_KERNEL, &first, &n);
    if (call == NULL) {
        return NULL;
    }
    call->first_sample += 1;
    return "MEM2";
}

/* A wait for a SEND goes. The plan's lists are the program's, too. */
static const char *forget_send(struct scene *scene)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < scene->device->n_instrs; i++) {
        const struct pst_instr *instr = &scene->device->body[i];
        for (uint32_t w = 0; w < instr->n_waits; w++) {
            if (scene->device->body[instr->waits[w]].op == PST_I_SEND &&
                rig_draw(scene->rig, ++n) == 0) {
                scene->instr = i;
                scene->wait = w;
            }
        }
    }
    if (n == 0) {
        return NULL;
    }
    struct pst_instr *instr = (struct pst_instr *)&scene->device->body[scene->instr];
    uint32_t *waits = (uint32_t *)instr->waits, gone = waits[scene->wait];
    memmove(&waits[scene->wait], &waits[scene->wait + 1],
            (instr->n_waits - scene->wait - 1) * sizeof *waits);
    waits[instr->n_waits - 1] = gone; /* for undoing */
    instr->n_waits--;
    scene->wait = gone;
    scene->open = true;
    return "MEM2";
}

/* A kernel of a pass between a SEND and the end of its wait writes into what is sent. */
static const char *write_to_sent(struct scene *scene)
{
    struct pst_program *program = scene->program;
    for (uint32_t i = 0; i + 1 < program->n_instrs; i++) {
        const struct pst_program_instr *send = &program->lists[i], *next = send + 1;
        bool waits = false;
        for (uint32_t w = 0; w < program->instrs[i + 1].n_waits; w++) {
            waits |= program->instrs[i + 1].waits[w] == i;
        }
        if (program->instrs[i].op == PST_I_SEND && program->instrs[i + 1].op == PST_I_F && !waits) {
            const struct pst_program_call *call =
                &program->calls[next->first_call + next->n_calls - 1];
            call -= call->kind == PST_C_LOSS; /* the kernel before it */
            uint32_t at = pst_operands_of(&scene->rig->graph->ops[call->op]).y;
            program->operands[call->first_operand + at] = program->parts[send->first_part].value;
            scene->text = "is written while it is sent";
            return "MEM2";
        }
    }
    return NULL;
}

static void undo_wait(struct scene *scene)
{
    struct pst_instr *instr = (struct pst_instr *)&scene->device->body[scene->instr];
    uint32_t *waits = (uint32_t *)instr->waits, at = instr->n_waits++;
    for (; at > 0 && waits[at - 1] > scene->wait; at--) {
        waits[at] = waits[at - 1];
    }
    waits[at] = scene->wait;
}

/* Nobody writes to what is sent, and nothing else lies there, until the next wait or the end. */
static bool harmless(const struct scene *scene)
{
    const struct pst_program *program = scene->program;
    uint32_t tick = 0, until = program->n_ticks, posted = 0;
    for (uint32_t i = 0; i < program->n_instrs; i++) {
        posted = i == scene->wait ? tick : posted;
        for (uint32_t w = 0; w < program->instrs[i].n_waits; w++) {
            if (program->instrs[i].waits[w] == scene->wait && until == program->n_ticks) {
                until = tick;
            }
        }
        tick += program->lists[i].n_calls > 0 ? program->lists[i].n_calls : 1;
    }
    const struct pst_program_instr *send = &program->lists[scene->wait];
    for (uint32_t p = send->first_part; p < send->first_part + send->n_parts; p++) {
        const struct pst_value *sent = &program->values[program->parts[p].value];
        for (uint32_t v = 0; v < program->n_values; v++) {
            const struct pst_value *other = &program->values[v];
            if (other != sent && other->first > posted && other->first < until &&
                other->offset < sent->offset + sent->bytes &&
                sent->offset < other->offset + other->bytes) {
                return false;
            }
        }
        if (sent->last + 1 < until) {
            return false; /* it would be free while it is sent */
        }
    }
    return true;
}

struct mutation {
    const char *name;
    const char *(*apply)(struct scene *);
};

#define MUTATION(f)                                                                                \
    {                                                                                              \
#f, f                                                                                      \
    }
static const struct mutation mutations[] = {
    MUTATION(die_early),     MUTATION(live_late),       MUTATION(overlap),
    MUTATION(misalign),      MUTATION(too_small),       MUTATION(static_dies),
    MUTATION(wrong_peak),    MUTATION(shrink_capacity), MUTATION(lose_operand),
    MUTATION(wrong_operand), MUTATION(reorder_sums),    MUTATION(lose_sum),
    MUTATION(wrong_piece),   MUTATION(wrong_samples),   MUTATION(forget_send),
    MUTATION(write_to_sent),
};
#define N_MUTATIONS (sizeof mutations / sizeof mutations[0])

static bool says(const struct pst_check_report *report, const char *text)
{
    for (uint32_t i = 0; i < report->n_violations && i < PST_CHECK_MAX; i++) {
        if (text == NULL || strstr(report->violations[i].text, text) != NULL) {
            return true;
        }
    }
    return false;
}

static bool found_one_of(const struct pst_check_report *report, const char *rules)
{
    for (uint32_t i = 0; i < report->n_violations && i < PST_CHECK_MAX; i++) {
        if (strstr(rules, report->violations[i].rule) != NULL) {
            return true;
        }
    }
    return false;
}

static void mutate(struct rig *rig, const struct mutation *mutation, uint32_t index,
                   uint32_t counts[2])
{
    static struct pst_check_report report;
    struct pst_error err = {0};
    uint32_t d = rig_draw(rig, rig->plan->n_devices);
    struct scene scene = {
        .rig = rig, .program = rig->programs[d], .device = &rig->plan->devices[d]};
    if (scene.program->n_values == 0 || scene.program->n_calls == 0) {
        return;
    }
    const char *rules = mutation->apply(&scene);
    if (rules != NULL) {
        bool accepted = rig_check(rig, true, &report, &err) == PST_OK;
        bool legal = scene.open && harmless(&scene);
        counts[legal]++;
        if (legal != accepted ||
            (!accepted && (!found_one_of(&report, rules) || !says(&report, scene.text)))) {
            fail_msg("seed %llu, plan %u, %s: %s, expected %s\n%s", (unsigned long long)rig->seed,
                     index, mutation->name, accepted ? "accepted" : "refused",
                     legal ? "to be accepted" : rules, err.details);
        }
        if (scene.open) {
            undo_wait(&scene);
        }
    }
    rig->plan->capacity_bytes = UINT64_MAX;
    rig_programs(rig);
}

static void check_model(const char *model, const char *settings, uint32_t n_plans)
{
    struct rig rig;
    static uint32_t counts[N_MUTATIONS][2];
    const char *seed = getenv("PENSTOCK_SEED");
    memset(counts, 0, sizeof counts);
    rig_open(&rig, model, settings, seed != NULL ? strtoull(seed, NULL, 10) : 53);
    print_message("%s: seed %llu\n", model, (unsigned long long)rig.seed);
    for (uint32_t i = 0; i < n_plans; i++) {
        struct rig_shape shape = rig_draw_shape(&rig);
        rig_plan(&rig, &shape);
        for (size_t k = 0; k < N_MUTATIONS; k++) {
            mutate(&rig, &mutations[k], i, counts[k]);
        }
        rig_drop_plan(&rig);
    }
    for (size_t k = 0; k < N_MUTATIONS; k++) {
        print_message("  %-16s %4u caught, %4u still legal\n", mutations[k].name, counts[k][0],
                      counts[k][1]);
        assert_true(counts[k][0] + counts[k][1] > 0);
    }
    rig_close(&rig);
}

static void mlp(void **state)
{
    (void)state;
    check_model("mlp", "inputs=4 hidden=4 layers=6 classes=3", 200);
}

static void gpt(void **state)
{
    (void)state;
    check_model("gpt", "layers=2 dim=8 heads=2 context=4 vocab=7 dropout=0.1", 150);
}

static void mmt(void **state)
{
    (void)state;
    check_model("mmt", "", 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mlp),
        cmocka_unit_test(gpt),
        cmocka_unit_test(mmt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
