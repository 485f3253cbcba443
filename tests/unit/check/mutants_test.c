/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutants of legal plans: lists, stages, ties, samples. Each is caught by the rule that it breaks;
 * where a mutation may leave a legal plan, an oracle that runs the lists decides. PENSTOCK_SEED:
 * another seed.
 */
#include "unit/check/oracle.h"

struct mutant {
    struct rig *rig;
    struct pst_instr *lists[RIG_MAX]; /* own copies; waits are copies too */
    uint32_t n[RIG_MAX];
    struct pst_plan_stage *stages;
    struct pst_plan_tie *ties;
    struct pst_plan made; /* what to go back to */
    struct pst_plan_device devices[RIG_MAX];
    bool open; /* an oracle decides whether it is legal */
};

static void *copy(const void *from, size_t bytes, size_t spare)
{
    char *to = calloc(1, bytes + spare + 1);
    if (bytes > 0) {
        memcpy(to, from, bytes);
    }
    return to;
}

static void begin(struct mutant *m, struct rig *rig)
{
    struct pst_plan *plan = rig->plan;
    *m = (struct mutant){.rig = rig, .made = *plan};
    memcpy(m->devices, plan->devices, plan->n_devices * sizeof *m->devices);
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        m->n[d] = plan->devices[d].n_instrs;
        m->lists[d] =
            copy(plan->devices[d].body, m->n[d] * sizeof **m->lists, 2 * sizeof **m->lists);
        for (uint32_t i = 0; i < m->n[d]; i++) {
            struct pst_instr *instr = &m->lists[d][i];
            instr->waits = copy(instr->waits, instr->n_waits * sizeof(uint32_t), 0);
        }
    }
    m->stages = copy(plan->stages, plan->n_stages * sizeof *plan->stages, 0);
    m->ties = copy(plan->ties, plan->n_ties * sizeof *plan->ties, 0);
}

/* The plan shows the mutated parts. */
static void show(struct mutant *m)
{
    struct pst_plan *plan = m->rig->plan;
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        plan->devices[d].body = m->lists[d];
        plan->devices[d].n_instrs = m->n[d];
    }
    plan->stages = m->stages;
    plan->ties = m->ties;
}

static void end(struct mutant *m)
{
    struct pst_plan *plan = m->rig->plan;
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        for (uint32_t i = 0; i < m->n[d]; i++) {
            free((void *)m->lists[d][i].waits);
        }
        free(m->lists[d]);
    }
    free(m->stages);
    free(m->ties);
    struct pst_plan_device *devices = m->made.devices;
    *plan = m->made;
    memcpy(devices, m->devices, plan->n_devices * sizeof *devices);
}

/* --- editing lists --------------------------------------------------------------------------- */

/* Waits follow the instructions: those of `from` on move by `by`; a wait for `gone` is dropped. */
static void renumber(struct mutant *m, uint32_t d, uint32_t from, int by, uint32_t gone)
{
    for (uint32_t i = 0; i < m->n[d]; i++) {
        struct pst_instr *instr = &m->lists[d][i];
        uint32_t *waits = (uint32_t *)instr->waits, kept = 0;
        for (uint32_t w = 0; w < instr->n_waits; w++) {
            if (waits[w] != gone) {
                waits[kept++] = waits[w] >= from ? waits[w] + (uint32_t)by : waits[w];
            }
        }
        instr->n_waits = kept;
    }
}

static struct pst_instr take_out(struct mutant *m, uint32_t d, uint32_t at)
{
    struct pst_instr out = m->lists[d][at];
    m->n[d]--;
    memmove(&m->lists[d][at], &m->lists[d][at + 1], (m->n[d] - at) * sizeof **m->lists);
    renumber(m, d, at + 1, -1, at);
    return out;
}

static void put_in(struct mutant *m, uint32_t d, uint32_t at, struct pst_instr instr)
{
    renumber(m, d, at, 1, PST_NONE);
    memmove(&m->lists[d][at + 1], &m->lists[d][at], (m->n[d] - at) * sizeof **m->lists);
    m->lists[d][at] = instr;
    m->n[d]++;
}

/* An instruction drawn among those that fit; false if there is none. */
static bool draw_instr(struct mutant *m, bool (*fits)(const struct pst_instr *), uint32_t *ret_d,
                       uint32_t *ret_i)
{
    uint32_t n = 0;
    for (uint32_t d = 0; d < m->made.n_devices; d++) {
        for (uint32_t i = 0; i < m->n[d]; i++) {
            if (fits(&m->lists[d][i]) && rig_draw(m->rig, ++n) == 0) {
                *ret_d = d;
                *ret_i = i;
            }
        }
    }
    return n > 0;
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

/* --- mutations: each changes something and names the rules that may catch it; NULL: not here ----
 */

static const char *rules_of(const struct pst_instr *instr)
{
    return is_pass(instr)                                         ? "PASS1"
           : is_transfer(instr)                                   ? "COMM1"
           : instr->op == PST_I_REDUCE || instr->op == PST_I_STEP ? "PASS4"
           : instr->op == PST_I_TIE                               ? "PART4"
                                                                  : "COMM3";
}

static bool stage_has_params(const struct mutant *m, const struct pst_instr *instr)
{
    const struct pst_plan_stage *stage = &m->stages[instr->stage];
    for (uint32_t n = 0; n < stage->n_nodes; n++) {
        const struct pst_op *op = &m->rig->graph->ops[stage->nodes[n]];
        for (uint32_t i = 0; i < op->n_param; i++) {
            if (op->param[i] != PST_NONE) {
                return true;
            }
        }
    }
    return false;
}

static const char *drop(struct mutant *m)
{
    uint32_t d, i;
    draw_instr(m, is_any, &d, &i);
    struct pst_instr out = m->lists[d][i];
    if ((out.op == PST_I_REDUCE || out.op == PST_I_STEP) && !stage_has_params(m, &out)) {
        return NULL; /* nothing to reduce or update */
    }
    out = take_out(m, d, i);
    free((void *)out.waits);
    return rules_of(&out);
}

static const char *duplicate(struct mutant *m)
{
    uint32_t d, i;
    draw_instr(m, is_any, &d, &i);
    struct pst_instr twin = m->lists[d][i];
    twin.waits = copy(twin.waits, twin.n_waits * sizeof(uint32_t), 0);
    put_in(m, d, i + 1, twin);
    return rules_of(&twin);
}

static const char *swap_neighbours(struct mutant *m)
{
    uint32_t d = rig_draw(m->rig, m->made.n_devices);
    if (m->n[d] < 2) {
        return NULL;
    }
    uint32_t i = rig_draw(m->rig, m->n[d] - 1);
    struct pst_instr *a = &m->lists[d][i], *b = &m->lists[d][i + 1];
    if (b->n_waits > 0 && b->waits[b->n_waits - 1] == i) {
        ((uint32_t *)b->waits)[b->n_waits - 1] = i + 1; /* now for itself */
        m->open = false;
    } else {
        m->open = true;
    }
    struct pst_instr kept = *a;
    *a = *b;
    *b = kept;
    for (uint32_t k = i + 2; k < m->n[d]; k++) {
        uint32_t *waits = (uint32_t *)m->lists[d][k].waits, n = m->lists[d][k].n_waits;
        for (uint32_t w = 0; w < n; w++) {
            bool both = waits[w] == i && w + 1 < n && waits[w + 1] == i + 1;
            if (both) {
                break; /* it waits for the two of them */
            }
            if (waits[w] == i || waits[w] == i + 1) {
                waits[w] = 2 * i + 1 - waits[w];
                break;
            }
        }
    }
    return m->open ? "PASS2 PASS3 PASS4 PART4 COMM2 COMM3 WVER1 LIVE1 LIVE2 LIVE4" : "FORM1";
}

/* Far enough that most such plans are illegal. */
static const char *move(struct mutant *m)
{
    uint32_t d, i;
    draw_instr(m, is_any, &d, &i);
    struct pst_instr out = take_out(m, d, i);
    uint32_t at = rig_draw(m->rig, m->n[d] + 1);
    put_in(m, d, at, out);
    m->open = true;
    for (uint32_t w = 0; w < out.n_waits; w++) {
        m->open &= out.waits[w] < at;
    }
    return m->open ? "PASS2 PASS3 PASS4 PART4 COMM2 COMM3 WVER1 LIVE1 LIVE2 LIVE4" : "FORM1";
}

static const char *remove_wait(struct mutant *m)
{
    uint32_t d, i;
    if (!draw_instr(m, has_waits, &d, &i)) {
        return NULL;
    }
    struct pst_instr *instr = &m->lists[d][i];
    uint32_t at = rig_draw(m->rig, instr->n_waits), *waits = (uint32_t *)instr->waits;
    memmove(&waits[at], &waits[at + 1], (instr->n_waits - at - 1) * sizeof *waits);
    instr->n_waits--;
    m->open = true;
    return "PASS3 PASS4";
}

/* A wait moves to the instruction behind. */
static const char *late_wait(struct mutant *m)
{
    uint32_t d, i;
    if (!draw_instr(m, has_waits, &d, &i) || i + 1 == m->n[d]) {
        return NULL;
    }
    struct pst_instr *instr = &m->lists[d][i], *next = instr + 1;
    uint32_t moved = instr->waits[--instr->n_waits], at = next->n_waits;
    uint32_t *waits = calloc((size_t)next->n_waits + 1, sizeof *waits);
    for (uint32_t w = 0; w < next->n_waits; w++) {
        if (next->waits[w] == moved) {
            free(waits);
            instr->n_waits++;
            return NULL;
        }
        waits[w] = next->waits[w];
    }
    for (; at > 0 && waits[at - 1] > moved; at--) {
        waits[at] = waits[at - 1];
    }
    waits[at] = moved;
    free((void *)next->waits);
    next->waits = waits;
    next->n_waits++;
    m->open = true;
    return "PASS3 PASS4";
}

static const char *retarget(struct mutant *m)
{
    uint32_t d, i;
    if (!draw_instr(m, is_transfer, &d, &i)) {
        return NULL;
    }
    struct pst_instr *instr = &m->lists[d][i];
    instr->peer = (instr->peer + 1) % m->made.n_devices;
    return instr->peer == d ? "FORM1" : "COMM1";
}

static const char *wrong_samples(struct mutant *m)
{
    uint32_t d, i;
    if (!draw_instr(m, is_transfer, &d, &i)) {
        return NULL;
    }
    struct pst_instr *instr = &m->lists[d][i];
    if (rig_draw(m->rig, 2) == 0) {
        instr->n_samples += rig_draw(m->rig, 2) == 0 ? 1u : UINT32_MAX;
    } else {
        instr->first_sample += rig_draw(m->rig, 2) == 0 ? 1u : UINT32_MAX;
    }
    return "COMM1 FORM1";
}

static const char *wrong_payload(struct mutant *m)
{
    uint32_t d, i;
    if (!draw_instr(m, is_transfer, &d, &i)) {
        return NULL;
    }
    m->lists[d][i].payload ^= 1;
    return "COMM1";
}

static const char *wrong_microbatch(struct mutant *m)
{
    uint32_t d, i;
    draw_instr(m, is_pass, &d, &i);
    struct pst_instr *instr = &m->lists[d][i];
    instr->microbatch++;
    return instr->microbatch < m->stages[instr->stage].n_microbatches ? "PASS1" : "FORM1";
}

static const char *wrong_stage(struct mutant *m)
{
    uint32_t d, i;
    draw_instr(m, is_pass, &d, &i);
    struct pst_instr *instr = &m->lists[d][i];
    instr->stage = (instr->stage + 1) % m->made.n_stages;
    return m->made.n_stages == 1                                        ? NULL
           : instr->microbatch < m->stages[instr->stage].n_microbatches ? "PASS1"
                                                                        : "FORM1";
}

static const char *wrong_pass(struct mutant *m)
{
    uint32_t d, i;
    draw_instr(m, is_pass, &d, &i);
    struct pst_instr *instr = &m->lists[d][i];
    instr->op = instr->op == PST_I_F ? PST_I_BW : PST_I_F;
    return "PASS1";
}

static const char *to_other_device(struct mutant *m)
{
    uint32_t d, i;
    draw_instr(m, is_pass, &d, &i);
    if (m->made.n_devices == 1) {
        return NULL;
    }
    struct pst_instr out = take_out(m, d, i);
    out.n_waits = 0;
    put_in(m, (d + 1) % m->made.n_devices, 0, out);
    return "PASS1";
}

static const char *stage_elsewhere(struct mutant *m)
{
    static const uint32_t ranks[] = {0, 1, 2, 3};
    struct pst_plan_stage *stage = &m->stages[rig_draw(m->rig, m->made.n_stages)];
    if (m->made.n_devices == 1) {
        return NULL;
    }
    stage->ranks = &ranks[(stage->ranks[0] + 1) % m->made.n_devices];
    return "PASS1 PART5"; /* it may come to a neighbour of another size */
}

static const char *no_device(struct mutant *m)
{
    m->stages[rig_draw(m->rig, m->made.n_stages)].n_ranks = 0;
    return "PART3";
}

static const char *one_replica_twice(struct mutant *m)
{
    static const uint32_t ranks[] = {0, 0, 1, 1, 2, 2, 3, 3};
    struct pst_plan_stage *stage = &m->stages[rig_draw(m->rig, m->made.n_stages)];
    stage->ranks = &ranks[2 * stage->ranks[0]];
    stage->n_ranks = 2;
    return "PART3";
}

static const char *break_tie(struct mutant *m)
{
    if (m->made.n_ties == 0) {
        return NULL;
    }
    struct pst_plan_tie *tie = &m->ties[rig_draw(m->rig, m->made.n_ties)];
    switch (rig_draw(m->rig, 3)) {
    case 0:
        tie->parameter = (tie->parameter + 1) % m->rig->graph->n_params;
        return "PART4";
    case 1:
        tie->n_stages--;
        return tie->n_stages == 0 ? "FORM1" : "PART4";
    default:
        m->rig->plan->n_ties--;
        return "PART4 FORM1"; /* TIE instructions name what is not there */
    }
}

static const char *lose_node(struct mutant *m)
{
    struct pst_plan_stage *stage = &m->stages[rig_draw(m->rig, m->made.n_stages)];
    stage->n_nodes--;
    return stage->n_nodes == 0 ? "FORM1" : "PART1";
}

static const char *move_node(struct mutant *m)
{
    uint32_t s = rig_draw(m->rig, m->made.n_stages);
    if (s + 1 == m->made.n_stages || m->stages[s].n_nodes < 2) {
        return NULL;
    }
    m->stages[s].n_nodes--;
    m->stages[s + 1].nodes = &m->stages[s].nodes[m->stages[s].n_nodes];
    uint32_t *nodes = pst_arena_array(&m->rig->plan->arena, m->stages[s + 1].n_nodes + 1, 4);
    uint8_t *actions = pst_arena_array(&m->rig->plan->arena, m->stages[s + 1].n_nodes + 1, 1);
    nodes[0] = m->stages[s].nodes[m->stages[s].n_nodes];
    memcpy(nodes + 1, m->made.stages[s + 1].nodes, m->stages[s + 1].n_nodes * sizeof *nodes);
    m->stages[s + 1].nodes = nodes;
    m->stages[s + 1].actions = actions;
    m->stages[s + 1].n_nodes++;
    m->made.arena = m->rig->plan->arena;
    return "PART2 PART4";
}

static const char *swap_stages(struct mutant *m)
{
    if (m->made.n_stages < 2) {
        return NULL;
    }
    uint32_t s = rig_draw(m->rig, m->made.n_stages - 1);
    struct pst_plan_stage kept = m->stages[s];
    m->stages[s].nodes = m->stages[s + 1].nodes;
    m->stages[s].n_nodes = m->stages[s + 1].n_nodes;
    m->stages[s].actions = m->stages[s + 1].actions;
    m->stages[s + 1].nodes = kept.nodes;
    m->stages[s + 1].n_nodes = kept.n_nodes;
    m->stages[s + 1].actions = kept.actions;
    return "PART2";
}

static const char *wrong_size(struct mutant *m)
{
    struct pst_plan_stage *stage = &m->stages[rig_draw(m->rig, m->made.n_stages)];
    if (rig_draw(m->rig, 2) == 0) {
        stage->microbatch_size++;
    } else {
        stage->n_microbatches++;
    }
    return "PART5";
}

/* A neighbour on the same device gets half the size, and twice as many micro-batches. */
static const char *unlike_neighbours(struct mutant *m)
{
    const struct pst_plan *plan = m->rig->plan;
    for (uint32_t e = 0; e < plan->n_edges; e++) {
        struct pst_plan_stage *from = &m->stages[plan->edges[e].from];
        struct pst_plan_stage *to = &m->stages[plan->edges[e].to];
        if (from->ranks[0] == to->ranks[0] && to->microbatch_size % 2 == 0) {
            to->microbatch_size /= 2;
            to->n_microbatches *= 2;
            return "PART5";
        }
    }
    return NULL;
}

static const char *uneven_replicas(struct mutant *m)
{
    static const uint32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    struct pst_plan_stage *stage = &m->stages[rig_draw(m->rig, m->made.n_stages)];
    if (m->made.n_devices <= stage->microbatch_size) {
        return NULL;
    }
    stage->ranks = ranks;
    stage->n_ranks = stage->microbatch_size + 1;
    return "PART6";
}

static const char *wrong_digest(struct mutant *m)
{
    m->rig->plan->graph_digest ^= 1ull << rig_draw(m->rig, 64);
    return "FORM2";
}

static const char *wrong_versions(struct mutant *m)
{
    if (rig_draw(m->rig, 2) == 0) {
        m->rig->plan->version_rule = PST_VERSION_DELAYED;
    } else {
        m->stages[rig_draw(m->rig, m->made.n_stages)].weight_versions = 2;
    }
    return "WVER1";
}

static const char *reserved_field(struct mutant *m)
{
    uint32_t d, i;
    draw_instr(m, is_any, &d, &i);
    struct pst_instr *instr = &m->lists[d][i];
    switch (rig_draw(m->rig, 4)) {
    case 0:
        instr->node = 1;
        break;
    case 1:
        instr->op = (uint8_t)(rig_draw(m->rig, 2) == 0 ? PST_I_COUNT : PST_I_FETCH);
        break;
    case 2:
        instr->payload = 2;
        break;
    default:
        instr->stage = UINT32_MAX - 1;
        break;
    }
    return "FORM1";
}

static const char *step_too_early(struct mutant *m)
{
    uint32_t d, i;
    draw_instr(m, is_step, &d, &i);
    struct pst_instr out = take_out(m, d, i);
    out.n_waits = 0;
    put_in(m, d, 0, out);
    return "WVER1";
}

static const char *wrong_edge_bytes(struct mutant *m)
{
    if (m->made.n_edges == 0) {
        return NULL;
    }
    m->rig->plan->edges[rig_draw(m->rig, m->made.n_edges)].bytes_per_sample ^= 1024;
    return "PART2";
}

struct mutation {
    const char *name;
    const char *(*apply)(struct mutant *);
};

#define MUTATION(f)                                                                                \
    {                                                                                              \
#f, f                                                                                      \
    }
static const struct mutation mutations[] = {
    MUTATION(drop),
    MUTATION(duplicate),
    MUTATION(swap_neighbours),
    MUTATION(move),
    MUTATION(remove_wait),
    MUTATION(late_wait),
    MUTATION(retarget),
    MUTATION(wrong_samples),
    MUTATION(wrong_payload),
    MUTATION(wrong_microbatch),
    MUTATION(wrong_stage),
    MUTATION(wrong_pass),
    MUTATION(to_other_device),
    MUTATION(stage_elsewhere),
    MUTATION(no_device),
    MUTATION(one_replica_twice),
    MUTATION(break_tie),
    MUTATION(lose_node),
    MUTATION(move_node),
    MUTATION(unlike_neighbours),
    MUTATION(swap_stages),
    MUTATION(wrong_size),
    MUTATION(uneven_replicas),
    MUTATION(wrong_digest),
    MUTATION(wrong_versions),
    MUTATION(reserved_field),
    MUTATION(step_too_early),
    MUTATION(wrong_edge_bytes),
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

/* Queues and channels are first in first out; the oracle matches by name and lets all overtake. */
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
    pst_status status = rig_check(m->rig, false, &report, &err);
    bool legal = m->open && oracle_legal(m->rig->plan, m->rig->graph);
    bool accepted = status == PST_OK;
    counts[legal ? 1 : 0]++;
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
    static uint32_t counts[N_MUTATIONS][2];
    const char *seed = getenv("PENSTOCK_SEED");
    memset(counts, 0, sizeof counts);
    rig_open(&rig, model, settings, seed != NULL ? strtoull(seed, NULL, 10) : 97);
    print_message("%s: seed %llu\n", model, (unsigned long long)rig.seed);
    for (uint32_t i = 0; i < n_plans; i++) {
        struct rig_shape shape = rig_draw_shape(&rig);
        rig_plan(&rig, &shape);
        assert_true(oracle_legal(rig.plan, rig.graph));
        mutate(&rig, i, counts);
        rig_drop_plan(&rig);
    }
    for (size_t k = 0; k < N_MUTATIONS; k++) {
        print_message("  %-18s %4u caught, %4u still legal\n", mutations[k].name, counts[k][0],
                      counts[k][1]);
    }
    rig_close(&rig);
}

static void mlp(void **state)
{
    (void)state;
    check_model("mlp", "inputs=4 hidden=4 layers=6 classes=3", 400);
}

static void gpt(void **state)
{
    (void)state;
    check_model("gpt", "layers=2 dim=8 heads=2 context=4 vocab=7", 300);
}

static void mmt(void **state)
{
    (void)state;
    check_model("mmt", "", 40);
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
