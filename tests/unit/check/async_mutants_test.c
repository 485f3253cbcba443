/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutants of legal asynchronous plans: fill, body and drain. Each is caught by the rule that it
 * breaks; where a mutation may leave a legal plan, an oracle that runs batches decides.
 * PENSTOCK_SEED: another seed.
 */
#include "unit/check/async_oracle.h"
#include "unit/check/async_rig.h"

/* Any of these may be what a moved instruction breaks. */
#define ORDER "PASS1 PASS2 PASS3 PASS4 PART4 COMM1 COMM2 COMM3 WVER2 LIVE1 LIVE2 LIVE4 FORM1"

struct mutant {
    struct rig *rig;
    struct pst_instr *lists[PST_PARTS][RIG_MAX]; /* own copies; waits too, with room for more */
    uint32_t n[PST_PARTS][RIG_MAX];
    struct pst_plan_stage *stages;
    struct pst_plan made; /* what to go back to */
    struct pst_plan_device devices[RIG_MAX];
    bool open; /* an oracle decides whether it is legal */
};

static uint32_t *copy_waits(const struct pst_instr *instr)
{
    uint32_t *waits = calloc(instr->n_waits + 1, sizeof *waits);
    if (instr->n_waits > 0) {
        memcpy(waits, instr->waits, instr->n_waits * sizeof *waits);
    }
    return waits;
}

static void begin(struct mutant *m, struct rig *rig)
{
    struct pst_plan *plan = rig->plan;
    *m = (struct mutant){.rig = rig, .made = *plan};
    memcpy(m->devices, plan->devices, plan->n_devices * sizeof *m->devices);
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        for (uint32_t part = 0; part < PST_PARTS; part++) {
            const struct pst_instr *list =
                pst_plan_list(&plan->devices[d], (enum pst_part)part, &m->n[part][d]);
            uint32_t n = m->n[part][d];
            m->lists[part][d] = calloc(n + 2, sizeof(struct pst_instr));
            for (uint32_t i = 0; i < n; i++) {
                m->lists[part][d][i] = list[i];
                m->lists[part][d][i].waits = copy_waits(&list[i]);
            }
        }
    }
    m->stages = calloc(plan->n_stages, sizeof *m->stages);
    memcpy(m->stages, plan->stages, plan->n_stages * sizeof *m->stages);
}

static void show(struct mutant *m)
{
    struct pst_plan *plan = m->rig->plan;
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        struct pst_plan_device *device = &plan->devices[d];
        device->fill = m->lists[PST_FILL][d];
        device->n_fill = m->n[PST_FILL][d];
        device->body = m->lists[PST_BODY][d];
        device->n_instrs = m->n[PST_BODY][d];
        device->drain = m->lists[PST_DRAIN][d];
        device->n_drain = m->n[PST_DRAIN][d];
    }
    plan->stages = m->stages;
}

static void end(struct mutant *m)
{
    struct pst_plan *plan = m->rig->plan;
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        for (uint32_t part = 0; part < PST_PARTS; part++) {
            for (uint32_t i = 0; i < m->n[part][d]; i++) {
                free((void *)m->lists[part][d][i].waits);
            }
            free(m->lists[part][d]);
        }
    }
    free(m->stages);
    *plan = m->made;
    memcpy(plan->devices, m->devices, plan->n_devices * sizeof *m->devices);
}

/* --- editing lists --------------------------------------------------------------------------- */

struct place {
    uint32_t part, d, i;
};

static struct pst_instr *at(struct mutant *m, struct place p)
{
    return &m->lists[p.part][p.d][p.i];
}

/* Waits follow the instructions: those from `from` on move by `by`; a wait for `gone` is dropped.
 */
static void renumber(struct mutant *m, struct place p, uint32_t from, int by, uint32_t gone)
{
    for (uint32_t i = 0; i < m->n[p.part][p.d]; i++) {
        struct pst_instr *instr = &m->lists[p.part][p.d][i];
        uint32_t *waits = (uint32_t *)instr->waits, kept = 0;
        for (uint32_t w = 0; w < instr->n_waits; w++) {
            if (waits[w] != gone) {
                waits[kept++] = waits[w] >= from ? waits[w] + (uint32_t)by : waits[w];
            }
        }
        instr->n_waits = kept;
    }
}

static struct pst_instr take_out(struct mutant *m, struct place p)
{
    struct pst_instr out = *at(m, p), *list = m->lists[p.part][p.d];
    uint32_t n = --m->n[p.part][p.d];
    memmove(&list[p.i], &list[p.i + 1], (n - p.i) * sizeof *list);
    renumber(m, p, p.i + 1, -1, p.i);
    return out;
}

static void put_in(struct mutant *m, struct place p, struct pst_instr instr)
{
    struct pst_instr *list = m->lists[p.part][p.d];
    renumber(m, p, p.i, 1, PST_NONE);
    memmove(&list[p.i + 1], &list[p.i], (m->n[p.part][p.d] - p.i) * sizeof *list);
    list[p.i] = instr;
    m->n[p.part][p.d]++;
}

static bool is_any(const struct pst_instr *instr)
{
    (void)instr;
    return true;
}

static bool is_pass(const struct pst_instr *instr)
{
    return instr->op <= PST_I_R;
}

static bool is_transfer(const struct pst_instr *instr)
{
    return instr->op == PST_I_SEND || instr->op == PST_I_RECV;
}

static bool is_step(const struct pst_instr *instr)
{
    return instr->op == PST_I_STEP;
}

static bool has_waits(const struct pst_instr *instr)
{
    return instr->n_waits > 0;
}

static bool draw(struct mutant *m, bool (*fits)(const struct pst_instr *), struct place *ret)
{
    uint32_t n = 0;
    for (uint32_t d = 0; d < m->made.n_devices; d++) {
        for (uint32_t part = 0; part < PST_PARTS; part++) {
            for (uint32_t i = 0; i < m->n[part][d]; i++) {
                if (fits(&m->lists[part][d][i]) && rig_draw(m->rig, ++n) == 0) {
                    *ret = (struct place){part, d, i};
                }
            }
        }
    }
    return n > 0;
}

static bool has_params(const struct mutant *m, uint32_t stage)
{
    for (uint32_t n = 0; n < m->stages[stage].n_nodes; n++) {
        const struct pst_op *op = &m->rig->graph->ops[m->stages[stage].nodes[n]];
        for (uint32_t i = 0; i < op->n_param; i++) {
            if (op->param[i] != PST_NONE) {
                return true;
            }
        }
    }
    return false;
}

/* --- mutations: each changes something and names the rules that may catch it; NULL: not here ----
 */

static const char *rules_of(const struct pst_instr *instr)
{
    return is_pass(instr)                                         ? "PASS1"
           : is_transfer(instr)                                   ? "COMM1"
           : instr->op == PST_I_REDUCE || instr->op == PST_I_STEP ? "PASS4 WVER2"
           : instr->op == PST_I_TIE                               ? "PART4"
                                                                  : "COMM3";
}

static const char *drop(struct mutant *m)
{
    struct place p;
    draw(m, is_any, &p);
    struct pst_instr out = *at(m, p);
    if ((out.op == PST_I_REDUCE || out.op == PST_I_STEP) && !has_params(m, out.stage)) {
        return NULL; /* nothing to reduce or update */
    }
    out = take_out(m, p);
    free((void *)out.waits);
    return rules_of(&out);
}

static const char *duplicate(struct mutant *m)
{
    struct place p;
    draw(m, is_any, &p);
    struct pst_instr twin = *at(m, p);
    twin.waits = copy_waits(&twin);
    p.i++;
    put_in(m, p, twin);
    return rules_of(&twin);
}

/* To another place of the same part. */
static const char *move_within(struct mutant *m)
{
    struct place p;
    draw(m, is_any, &p);
    struct pst_instr out = take_out(m, p);
    p.i = rig_draw(m->rig, m->n[p.part][p.d] + 1);
    put_in(m, p, out);
    m->open = true;
    for (uint32_t w = 0; w < out.n_waits; w++) {
        m->open &= out.waits[w] < p.i;
    }
    return ORDER;
}

static const char *swap_neighbours(struct mutant *m)
{
    struct place p;
    draw(m, is_any, &p);
    if (p.i + 1 == m->n[p.part][p.d]) {
        return NULL;
    }
    struct pst_instr *next = at(m, p) + 1;
    if (next->n_waits > 0 && next->waits[next->n_waits - 1] == p.i) {
        return NULL; /* it waits for its neighbour: not well formed */
    }
    struct pst_instr out = take_out(m, p);
    p.i++;
    put_in(m, p, out);
    m->open = true;
    return ORDER;
}

static const char *to_other_part(struct mutant *m)
{
    struct place p;
    draw(m, is_any, &p);
    struct pst_instr out = take_out(m, p);
    out.n_waits = 0;
    p.part = (p.part + 1 + rig_draw(m->rig, 2)) % PST_PARTS;
    p.i = rig_draw(m->rig, m->n[p.part][p.d] + 1);
    put_in(m, p, out);
    m->open = !is_pass(&out) && !is_transfer(&out); /* over the border, it may come to the same */
    if ((out.op == PST_I_REDUCE || out.op == PST_I_STEP) && !has_params(m, out.stage)) {
        return NULL;
    }
    return ORDER;
}

static const char *remove_wait(struct mutant *m)
{
    struct place p;
    draw(m, has_waits, &p);
    struct pst_instr *instr = at(m, p);
    uint32_t w = rig_draw(m->rig, instr->n_waits), *waits = (uint32_t *)instr->waits;
    memmove(&waits[w], &waits[w + 1], (instr->n_waits - w - 1) * sizeof *waits);
    instr->n_waits--;
    m->open = true;
    return ORDER;
}

static const char *wrong_microbatch(struct mutant *m)
{
    struct place p;
    draw(m, is_pass, &p);
    at(m, p)->microbatch++;
    return "PASS1 FORM1";
}

/* Another batch's micro-batch of the same number. */
static const char *wrong_batch(struct mutant *m)
{
    struct place p;
    draw(m, is_pass, &p);
    uint32_t n = m->stages[at(m, p)->stage].n_microbatches;
    at(m, p)->microbatch = (at(m, p)->microbatch + n) % (2 * n);
    return "PASS1";
}

static const char *wrong_samples(struct mutant *m)
{
    struct place p;
    if (!draw(m, is_transfer, &p)) {
        return NULL;
    }
    at(m, p)->first_sample = (at(m, p)->first_sample + m->made.batch) % (2 * m->made.batch);
    return "COMM1 FORM1";
}

static const char *wrong_peer(struct mutant *m)
{
    struct place p;
    if (!draw(m, is_transfer, &p)) {
        return NULL;
    }
    at(m, p)->peer = (at(m, p)->peer + 1) % m->made.n_devices;
    return "COMM1 FORM1";
}

/* All numbers of one part of one device belong to the batch after. */
static const char *shift_part(struct mutant *m)
{
    struct place p;
    draw(m, is_pass, &p);
    for (p.i = 0; p.i < m->n[p.part][p.d]; p.i++) {
        if (is_pass(at(m, p))) {
            at(m, p)->microbatch += m->stages[at(m, p)->stage].n_microbatches;
        }
    }
    return "PASS1 FORM1";
}

/* The step of a body comes first: what it sums is not there, unless it is that of the batch before,
   which the first body has none of. */
static const char *early_step(struct mutant *m)
{
    struct place p;
    draw(m, is_step, &p);
    if (p.part != PST_BODY) {
        return NULL;
    }
    struct pst_instr out = take_out(m, p);
    free((void *)out.waits);
    out.waits = NULL;
    out.n_waits = 0;
    p.i = 0;
    put_in(m, p, out);
    m->open = true;
    return ORDER;
}

static const char *other_accumulators(struct mutant *m)
{
    m->rig->plan->deferred_step ^= true;
    m->open = true;
    return "PASS4";
}

static const char *other_barrier(struct mutant *m)
{
    m->rig->plan->barrier ^= true;
    return "COMM3 PASS4";
}

static const char *wrong_drains(struct mutant *m)
{
    m->rig->plan->config_json = "{\"train\":{\"drain_every\":3}}";
    m->rig->plan->drain_every = rig_draw(m->rig, 3);
    return "PASS5";
}

static const char *wrong_versions(struct mutant *m)
{
    m->stages[rig_draw(m->rig, m->made.n_stages)].weight_versions =
        rig_draw(m->rig, 2) == 0 ? 1 : 3;
    return "WVER2";
}

static const char *wrong_rule(struct mutant *m)
{
    m->rig->plan->version_rule = rig_draw(m->rig, 2) == 0 ? PST_VERSION_SYNC : 3;
    return "WVER2 WVER3";
}

static const char *lost_mode(struct mutant *m)
{
    m->rig->plan->asynchronous = false;
    return "FORM1 WVER1";
}

static const struct mutation {
    const char *name;
    const char *(*apply)(struct mutant *);
} mutations[] = {
    {"drop", drop},
    {"duplicate", duplicate},
    {"move_within", move_within},
    {"swap_neighbours", swap_neighbours},
    {"to_other_part", to_other_part},
    {"remove_wait", remove_wait},
    {"wrong_microbatch", wrong_microbatch},
    {"wrong_batch", wrong_batch},
    {"wrong_samples", wrong_samples},
    {"wrong_peer", wrong_peer},
    {"shift_part", shift_part},
    {"early_step", early_step},
    {"other_accumulators", other_accumulators},
    {"other_barrier", other_barrier},
    {"wrong_drains", wrong_drains},
    {"wrong_versions", wrong_versions},
    {"wrong_rule", wrong_rule},
    {"lost_mode", lost_mode},
};
#define N_MUTATIONS (sizeof mutations / sizeof mutations[0])

/* --- judging --------------------------------------------------------------------------------- */

static bool found_one_of(const struct pst_check_report *report, const char *rules)
{
    for (uint32_t i = 0; i < report->n_violations && i < PST_CHECK_MAX; i++) {
        if (strstr(rules, report->violations[i].rule) != NULL) {
            return true;
        }
    }
    return false;
}

/* Queues are first in first out, and lists stay at reductions; the oracle knows neither. */
static bool only_order(const struct pst_check_report *report)
{
    for (uint32_t i = 0; i < report->n_violations && i < PST_CHECK_MAX; i++) {
        if (strncmp(report->violations[i].rule, "LIVE", 4) != 0 &&
            strcmp(report->violations[i].rule, "COMM2") != 0) {
            return false;
        }
    }
    return report->n_violations > 0;
}

static void judge(struct mutant *m, const struct mutation *mutation, const char *rules,
                  uint32_t index, uint32_t *counts)
{
    static struct pst_check_report report;
    struct pst_error err = {0};
    bool accepted = rig_check(m->rig, false, &report, &err) == PST_OK;
    bool legal = m->open && async_oracle(m->rig->plan, m->rig->graph);
    counts[legal]++;
    if (legal ? !accepted && !only_order(&report) : accepted || !found_one_of(&report, rules)) {
        fail_msg("seed %llu, plan %u, %s: %s, expected %s\n%s", (unsigned long long)m->rig->seed,
                 index, mutation->name, accepted ? "accepted" : "refused",
                 legal ? "to be accepted" : rules, err.details);
    }
}

static void mutate(struct rig *rig, uint32_t index, uint32_t (*counts)[2])
{
    for (size_t k = 0; k < N_MUTATIONS; k++) {
        struct mutant m;
        begin(&m, rig);
        const char *rules = mutations[k].apply(&m);
        show(&m);
        if (rules != NULL) {
            judge(&m, &mutations[k], rules, index, counts[k]);
        }
        end(&m);
    }
}

static void check_model(const char *model, const char *settings, uint32_t n_plans)
{
    struct rig rig;
    uint32_t counts[N_MUTATIONS][2];
    const char *seed = getenv("PENSTOCK_SEED");
    memset(counts, 0, sizeof counts);
    rig_open(&rig, model, settings, seed != NULL ? strtoull(seed, NULL, 10) : 97);
    print_message("%s: seed %llu\n", model, (unsigned long long)rig.seed);
    for (uint32_t i = 0; i < n_plans; i++) {
        struct async_shape shape = {.p = 2 + rig_draw(&rig, 3),
                                    .m = 1 + rig_draw(&rig, 5),
                                    .size = 1 + rig_draw(&rig, 2),
                                    .barrier = rig_draw(&rig, 2) == 0};
        if (async_plan(&rig, &shape)) {
            assert_true(async_oracle(rig.plan, rig.graph));
            mutate(&rig, i, counts);
        }
        rig_drop_plan(&rig);
    }
    for (size_t k = 0; k < N_MUTATIONS; k++) {
        print_message("  %-18s %4u caught, %4u still legal\n", mutations[k].name, counts[k][0],
                      counts[k][1]);
        assert_true(counts[k][0] > 0);
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
    check_model("gpt", "layers=2 dim=8 heads=2 context=4 vocab=7", 150);
}

static void mmt(void **state)
{
    (void)state;
    check_model("mmt", "branches=2 layers=1 dim=8 heads=1 context=4 vocab=7", 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(mlp), cmocka_unit_test(gpt),
                                       cmocka_unit_test(mmt)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
