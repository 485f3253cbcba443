/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutants of plans that offload, and of their programs: each is caught by the rule that it breaks.
 * PENSTOCK_SEED: another seed.
 */
#include "unit/check/memory_mutant.h"
#include "unit/check/mutant.h"

/* --- lists ----------------------------------------------------------------------------------- */

static bool is_out(const struct pst_instr *instr)
{
    return instr->op == PST_I_OFFLOAD;
}

static bool is_in(const struct pst_instr *instr)
{
    return instr->op == PST_I_FETCH;
}

static bool is_copy(const struct pst_instr *instr)
{
    return is_out(instr) || is_in(instr);
}

static void drop_wait(struct pst_instr *instr, uint32_t wait)
{
    uint32_t *waits = (uint32_t *)instr->waits, kept = 0;
    for (uint32_t w = 0; w < instr->n_waits; w++) {
        if (waits[w] != wait) {
            waits[kept++] = waits[w];
        }
    }
    assert_true(kept < instr->n_waits);
    instr->n_waits = kept;
}

static void add_wait(struct pst_instr *instr, uint32_t wait)
{
    uint32_t *waits = mu_copy(instr->waits, instr->n_waits * sizeof *waits, sizeof *waits);
    uint32_t at = instr->n_waits++;
    for (; at > 0 && waits[at - 1] > wait; at--) {
        waits[at] = waits[at - 1];
    }
    waits[at] = wait;
    free((void *)instr->waits);
    instr->waits = waits;
}

/* The OFFLOAD of a FETCH, which it waits for. */
static uint32_t out_of(struct mutant *m, struct place p)
{
    const struct pst_instr *in = mu_at(m, p), *list = m->lists[p.part][p.d];
    for (uint32_t w = 0; w < in->n_waits; w++) {
        if (is_out(&list[in->waits[w]])) {
            return in->waits[w];
        }
    }
    fail_msg("a FETCH without OFFLOAD");
    return 0;
}

/* The first instruction from `from` on that waits for `wait`, or PST_NONE. */
static uint32_t waiter_of(const struct mutant *m, struct place p, uint32_t from, uint32_t wait)
{
    for (uint32_t i = from; i < m->n[p.part][p.d]; i++) {
        const struct pst_instr *instr = &m->lists[p.part][p.d][i];
        for (uint32_t w = 0; w < instr->n_waits; w++) {
            if (instr->waits[w] == wait) {
                return i;
            }
        }
    }
    return PST_NONE;
}

static const char *without(struct mutant *m, bool (*fits)(const struct pst_instr *))
{
    struct place p;
    if (!mu_draw(m, fits, &p)) {
        return NULL;
    }
    free((void *)mu_take_out(m, p).waits);
    return "PASS6";
}

static const char *no_fetch(struct mutant *m)
{
    return without(m, is_in);
}

static const char *no_offload(struct mutant *m)
{
    return without(m, is_out);
}

static const char *twice(struct mutant *m)
{
    struct place p;
    if (!mu_draw(m, is_copy, &p)) {
        return NULL;
    }
    struct pst_instr twin = *mu_at(m, p);
    twin.waits = mu_copy(twin.waits, twin.n_waits * sizeof(uint32_t), 0);
    p.i++;
    mu_put_in(m, p, twin);
    return "PASS6";
}

/* FETCH stands where its OFFLOAD stood, which comes right behind. */
static const char *too_early(struct mutant *m)
{
    struct place p;
    if (!mu_draw(m, is_in, &p)) {
        return NULL;
    }
    uint32_t out = out_of(m, p);
    drop_wait(mu_at(m, p), out);
    while (mu_at(m, p)->n_waits > 0) {
        drop_wait(mu_at(m, p), mu_at(m, p)->waits[0]);
    }
    assert_true(mu_relocate(m, p, out));
    return "PASS6";
}

static const char *in_before_out_ends(struct mutant *m)
{
    struct place p;
    if (!mu_draw(m, is_in, &p)) {
        return NULL;
    }
    drop_wait(mu_at(m, p), out_of(m, p));
    return "PASS6";
}

static const char *reader_does_not_wait(struct mutant *m)
{
    struct place p;
    if (!mu_draw(m, is_in, &p)) {
        return NULL;
    }
    drop_wait(&m->lists[p.part][p.d][waiter_of(m, p, p.i + 1, p.i)], p.i);
    return "PASS6";
}

/* Another pass waits for it first. */
static const char *other_reader(struct mutant *m)
{
    struct place p;
    if (!mu_draw(m, is_in, &p)) {
        return NULL;
    }
    uint32_t reader = waiter_of(m, p, p.i + 1, p.i), next = reader + 1;
    while (next < m->n[p.part][p.d] && !mu_is_pass(&m->lists[p.part][p.d][next])) {
        next++;
    }
    if (next == m->n[p.part][p.d]) {
        return NULL;
    }
    const struct pst_instr *list = m->lists[p.part][p.d];
    if (list[next].stage == list[reader].stage &&
        list[next].microbatch == list[reader].microbatch) {
        return NULL; /* its W: MEM2 tells */
    }
    drop_wait(&m->lists[p.part][p.d][reader], p.i);
    add_wait(&m->lists[p.part][p.d][next], p.i);
    return "PASS6";
}

static const char *out_before_forward(struct mutant *m)
{
    struct place p;
    if (!mu_draw(m, is_out, &p)) {
        return NULL;
    }
    drop_wait(mu_at(m, p), mu_at(m, p)->waits[0]);
    return "PASS6";
}

/* OFFLOAD behind a later pass. */
static const char *behind_another(struct mutant *m)
{
    struct place p;
    if (!mu_draw(m, is_out, &p)) {
        return NULL;
    }
    uint32_t to = p.i + 1;
    while (to < m->n[p.part][p.d] && !mu_is_pass(&m->lists[p.part][p.d][to])) {
        to++;
    }
    return to == m->n[p.part][p.d] ? NULL : mu_relocate(m, p, to) ? "PASS6" : "FORM1";
}

static const char *kept(struct mutant *m)
{
    struct place p;
    if (!mu_draw(m, is_copy, &p)) {
        return NULL;
    }
    struct pst_plan_stage *stage = &m->stages[mu_at(m, p)->stage];
    m->actions = mu_copy(stage->actions, stage->n_nodes, 0);
    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        if (stage->nodes[i] == mu_at(m, p)->node) {
            m->actions[i] = PST_ACTION_KEEP;
        }
    }
    stage->actions = m->actions;
    return "PASS6";
}

static const char *other_node(struct mutant *m)
{
    struct place p;
    if (!mu_draw(m, is_copy, &p)) {
        return NULL;
    }
    struct pst_instr *copy = mu_at(m, p);
    copy->node += rig_draw(m->rig, 2) == 0 ? 1 : m->rig->graph->n_ops;
    return copy->node < m->rig->graph->n_ops ? "PASS6" : "FORM1";
}

static const char *other_microbatch(struct mutant *m)
{
    struct place p;
    if (!mu_draw(m, is_copy, &p)) {
        return NULL;
    }
    struct pst_instr *copy = mu_at(m, p);
    copy->microbatch++;
    return copy->microbatch < m->stages[copy->stage].n_microbatches ? "PASS6" : "FORM1";
}

static bool waits_not_for_copies(const struct pst_instr *instr)
{
    return instr->op > PST_I_R && !is_copy(instr);
}

static const char *transfer_waits_for_copy(struct mutant *m)
{
    struct place p, q;
    if (!mu_draw(m, is_copy, &p) || !mu_draw(m, waits_not_for_copies, &q) || q.d != p.d ||
        q.i < p.i) {
        return NULL;
    }
    add_wait(mu_at(m, q), p.i);
    return "FORM1";
}

static const char *copy_waits_for_transfer(struct mutant *m)
{
    struct place p, q;
    if (!mu_draw(m, is_copy, &p) || !mu_draw(m, mu_is_transfer, &q) || q.d != p.d || q.i > p.i) {
        return NULL;
    }
    add_wait(mu_at(m, p), q.i);
    return "FORM1";
}

static const char *behind_no_pass(struct mutant *m)
{
    struct place p, q;
    if (!mu_draw(m, is_copy, &p) || !mu_draw(m, waits_not_for_copies, &q) || q.d != p.d) {
        return NULL;
    }
    struct pst_instr twin = *mu_at(m, p);
    twin.n_waits = 0;
    twin.waits = NULL;
    q.i++;
    mu_put_in(m, q, twin);
    return "FORM1";
}

static const struct mutation list_mutations[] = {
    {"no FETCH", no_fetch},
    {"no OFFLOAD", no_offload},
    {"twice", twice},
    {"FETCH too early", too_early},
    {"FETCH alone", in_before_out_ends},
    {"reader goes on", reader_does_not_wait},
    {"other reader", other_reader},
    {"OFFLOAD alone", out_before_forward},
    {"behind another", behind_another},
    {"kept", kept},
    {"other node", other_node},
    {"other micro-batch", other_microbatch},
    {"waits for a copy", transfer_waits_for_copy},
    {"copy waits", copy_waits_for_transfer},
    {"behind no pass", behind_no_pass},
};

/* --- programs -------------------------------------------------------------------------------- */

static struct pst_program_copy *draw_copy(struct scene *scene, bool out)
{
    struct pst_program_copy *drawn = NULL;
    uint32_t n = 0;
    for (uint32_t c = 0; c < scene->program->n_copies; c++) {
        if (scene->program->copies[c].out == out && rig_draw(scene->rig, ++n) == 0) {
            drawn = &scene->program->copies[c];
        }
    }
    return drawn;
}

static const char *source_dies(struct scene *scene)
{
    struct pst_program_copy *copy = draw_copy(scene, true);
    if (copy == NULL) {
        return NULL;
    }
    struct pst_value *value = &scene->program->values[copy->value];
    value->last = scene->program->lists[copy->instr].first_tick - 1;
    scene->text = "its copy may run";
    return "MEM2";
}

static const char *room_too_late(struct scene *scene)
{
    struct pst_program_copy *copy = draw_copy(scene, false);
    if (copy == NULL) {
        return NULL;
    }
    struct pst_value *value = &scene->program->values[copy->value];
    if (value->first == value->last) {
        return NULL;
    }
    value->first++;
    scene->text = "its copy may run";
    return "MEM2";
}

static const char *host_dies(struct scene *scene)
{
    struct pst_program_copy *copy = draw_copy(scene, rig_draw(scene->rig, 2) == 0);
    if (copy == NULL) {
        return NULL;
    }
    struct pst_value *host = &scene->program->values[copy->host];
    if (host->first == host->last) {
        return NULL;
    }
    host->first += copy->out;
    host->last -= !copy->out;
    scene->text = "its copy may run";
    return "MEM2";
}

/* A call stays for the way out in place of the way back. */
static const char *stays_too_short(struct scene *scene)
{
    struct pst_program *program = scene->program;
    uint32_t n = 0, drawn = PST_NONE;
    for (uint32_t w = 0; w < program->n_copy_waits; w++) {
        if (!program->copies[program->copy_waits[w]].out && rig_draw(scene->rig, ++n) == 0) {
            drawn = w;
        }
    }
    if (drawn == PST_NONE) {
        return NULL;
    }
    program->copy_waits[drawn] = program->copies[program->copy_waits[drawn]].after;
    return "MEM2";
}

static const char *begins_too_early(struct scene *scene)
{
    struct pst_program_copy *copy = draw_copy(scene, true);
    if (copy == NULL) {
        return NULL;
    }
    const struct pst_program_call *call = &scene->program->calls[copy->start_call];
    copy->start_call = call == scene->program->calls || rig_draw(scene->rig, 2) == 0
                           ? PST_NONE
                           : copy->start_call - 1;
    return "MEM2";
}

static const char *comes_after_nothing(struct scene *scene)
{
    struct pst_program_copy *copy = draw_copy(scene, false);
    if (copy == NULL) {
        return NULL;
    }
    copy->after = PST_NONE;
    scene->text = "before it is in host memory";
    return "MEM2";
}

static const char *other_buffer(struct scene *scene)
{
    struct pst_program_copy *copy = draw_copy(scene, rig_draw(scene->rig, 2) == 0);
    uint32_t other = me_draw_value(scene, me_is_plain);
    if (copy == NULL || other == copy->value || other == copy->host) {
        return NULL;
    }
    *(rig_draw(scene->rig, 2) == 0 ? &copy->value : &copy->host) = other;
    return "MEM2";
}

static const char *other_bytes(struct scene *scene)
{
    struct pst_program_copy *copy = draw_copy(scene, rig_draw(scene->rig, 2) == 0);
    if (copy == NULL) {
        return NULL;
    }
    copy->bytes += rig_draw(scene->rig, 2) == 0 ? 1u : UINT64_MAX;
    return "MEM2";
}

static bool is_host(const struct scene *scene, const struct pst_value *value)
{
    (void)scene;
    return value->kind == PST_V_HOST;
}

static bool is_fetched(const struct scene *scene, const struct pst_value *value)
{
    (void)scene;
    return value->kind == PST_V_FETCHED;
}

/* A slot is taken while something is in it. */
static const char *same_place(struct scene *scene, uint32_t v)
{
    struct pst_program *program = scene->program;
    for (uint32_t i = 0; v != PST_NONE && i < program->n_values; i++) {
        const struct pst_value *value = &program->values[v], *other = &program->values[i];
        if (i != v && (value->kind == PST_V_HOST) == (other->kind == PST_V_HOST) &&
            !other->is_static && other->first <= value->last && value->first <= other->last &&
            rig_draw(scene->rig, 3) == 0) {
            program->values[v].offset = other->offset;
            scene->text = "overlaps buffer";
            return "MEM3";
        }
    }
    return NULL;
}

static const char *host_slot_taken(struct scene *scene)
{
    return same_place(scene, me_draw_value(scene, is_host));
}

static const char *device_slot_taken(struct scene *scene)
{
    return same_place(scene, me_draw_value(scene, is_fetched));
}

static const char *host_bytes(struct scene *scene)
{
    scene->program->host_bytes += 1;
    return "MEM3";
}

static const char *stated_host_bytes(struct scene *scene)
{
    scene->device->host_bytes += 1;
    return "MEM3";
}

static const char *byte_too_many(struct scene *scene)
{
    scene->rig->plan->capacity_bytes = scene->device->arena_bytes - 1;
    return "MEM1";
}

/* A kernel reads what went to the host, or what is there, in place of what came back. */
static const char *reads_the_wrong_one(struct scene *scene)
{
    struct pst_program_copy *copy = draw_copy(scene, false);
    if (copy == NULL) {
        return NULL;
    }
    const struct pst_program_copy *out = &scene->program->copies[copy->after];
    const struct pst_value *values = scene->program->values;
    bool gone = values[out->value].last < values[copy->value].first;
    for (uint32_t o = 0; o < scene->program->n_operands; o++) {
        if (scene->program->operands[o] == copy->value) {
            scene->program->operands[o] =
                gone && rig_draw(scene->rig, 2) == 0 ? out->value : out->host;
            return "MEM2";
        }
    }
    return NULL;
}

static const char *no_such_row(struct scene *scene)
{
    struct pst_program_copy *copy = draw_copy(scene, rig_draw(scene->rig, 2) == 0);
    if (copy == NULL) {
        return NULL;
    }
    switch (rig_draw(scene->rig, 5)) {
    case 0:
        copy->value = scene->program->n_values;
        break;
    case 1:
        copy->host = UINT32_MAX;
        break;
    case 2:
        copy->start_call = scene->program->n_calls;
        break;
    case 3:
        copy->after = (uint32_t)(copy - scene->program->copies);
        break;
    default:
        copy->out = !copy->out;
    }
    return "MEM2";
}

static const struct memory_mutation program_mutations[] = {
    {"source dies", source_dies},
    {"room too late", room_too_late},
    {"host dies", host_dies},
    {"stays too short", stays_too_short},
    {"begins too early", begins_too_early},
    {"after nothing", comes_after_nothing},
    {"other buffer", other_buffer},
    {"other bytes", other_bytes},
    {"host slot taken", host_slot_taken},
    {"slot taken", device_slot_taken},
    {"host bytes", host_bytes},
    {"stated host bytes", stated_host_bytes},
    {"a byte too many", byte_too_many},
    {"reads another", reads_the_wrong_one},
    {"no such row", no_such_row},
};

/* --------------------------------------------------------------------------------------------- */

#define N_LISTS    (sizeof list_mutations / sizeof list_mutations[0])
#define N_PROGRAMS (sizeof program_mutations / sizeof program_mutations[0])

static uint32_t list_counts[N_LISTS][MU_VERDICTS], program_counts[N_PROGRAMS][2];

static void check_model(const char *model, const char *settings, uint32_t n_plans)
{
    const char *seed = getenv("PENSTOCK_SEED");
    struct rig rig;
    rig_open(&rig, model, settings, seed != NULL ? strtoull(seed, NULL, 10) : 29);
    print_message("%s: seed %llu\n", model, (unsigned long long)rig.seed);
    for (uint32_t i = 0; i < n_plans; i++) {
        struct rig_shape shape = rig_draw_shape(&rig);
        char name[32];
        shape.recompute = false;
        shape.offload = true;
        rig_plan(&rig, &shape);
        snprintf(name, sizeof name, "plan %u", i);
        for (size_t k = 0; k < N_LISTS; k++) {
            mu_mutate(&rig, &list_mutations[k], PST_NONE, name, list_counts[k]);
        }
        for (size_t k = 0; k < N_PROGRAMS; k++) {
            me_mutate(&rig, rig_draw(&rig, rig.plan->n_devices), &program_mutations[k], name,
                      program_counts[k]);
        }
        rig_drop_plan(&rig);
    }
    rig_close(&rig);
}

static void mlp(void **state)
{
    (void)state;
    check_model("mlp", "inputs=4 hidden=4 layers=6 classes=3", 100);
}

static void gpt(void **state)
{
    (void)state;
    check_model("gpt", "layers=2 dim=8 heads=2 context=4 vocab=7 dropout=0.1", 60);
}

static void every_mutation(void **state)
{
    (void)state;
    mu_print(list_mutations, N_LISTS, list_counts);
    me_print(program_mutations, N_PROGRAMS, program_counts);
}

/* Copies are for training in whole steps. */
static void other_modes(void **state)
{
    static struct pst_check_report report;
    struct pst_error err = {0};
    struct rig_shape shape = {.devices = 1, .chunks = 1, .batch = 4, .microbatch = 1};
    struct rig rig;
    (void)state;
    rig_open(&rig, "mlp", "inputs=4 hidden=4 layers=6 classes=3", 5);
    shape.offload = true;
    rig_plan(&rig, &shape);
    rig.limits.forward_only = true;
    assert_int_equal(rig_check(&rig, false, &report, &err), PST_ERR_BUG);
    assert_true(me_says(&report, "a copy in a plan for evaluation"));
    rig.limits.forward_only = false;
    rig.plan->asynchronous = true;
    assert_int_equal(rig_check(&rig, false, &report, &err), PST_ERR_BUG);
    assert_true(me_says(&report, "not available in asynchronous plans") ||
                me_says(&report, "in synchronous plans, offload"));
    rig.plan->asynchronous = false;
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mlp),
        cmocka_unit_test(gpt),
        cmocka_unit_test(every_mutation),
        cmocka_unit_test(other_modes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
