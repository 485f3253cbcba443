/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan of a rig with one thing changed: own copies of lists, waits, stages, edges and ties, tools
 * to edit them, and the judgement: the checker finds one of the rules that the change breaks, or an
 * oracle that runs the lists says that they are still legal.
 */
#ifndef TESTS_CHECK_MUTANT_H
#define TESTS_CHECK_MUTANT_H

#include "unit/prove/oracle.h"

struct mutant {
    struct rig *rig;
    struct pst_instr *lists[PST_PARTS][RIG_MAX]; /* own copies; waits are copies too */
    uint32_t n[PST_PARTS][RIG_MAX];
    struct pst_plan_stage *stages;
    struct pst_plan_edge *edges;
    struct pst_plan_tie *ties;
    uint32_t *nodes; /* of a stage that is made anew, or NULL */
    uint8_t *actions;
    struct pst_plan made; /* what to go back to */
    struct pst_plan_device devices[RIG_MAX];
    uint32_t turn;     /* which place the first draw takes; PST_NONE: a random one */
    uint32_t n_places; /* that it could take */
    bool open;         /* an oracle decides whether it is legal */
};

struct place {
    uint32_t part, d, i;
};

/* Caught; still legal and accepted; refused for the order of a queue alone. */
enum { MU_CAUGHT, MU_LEGAL, MU_ORDER, MU_VERDICTS };

/* Changes something, anywhere or at an instruction that fits, and names the rules that may catch
   it; NULL, or rig_need(): nothing to change. */
struct mutation {
    const char *name;
    const char *(*apply)(struct mutant *);
    bool (*fits)(const struct pst_instr *);
    const char *(*at)(struct mutant *, struct place);
    uint32_t counts[MU_VERDICTS];
};

/* Those that are named as their functions mu_*. */
#define MU(what)                                                                                   \
    {                                                                                              \
        .name = #what, .apply = mu_##what                                                          \
    }
#define MU_AT(what, where)                                                                         \
    {                                                                                              \
        .name = #what, .fits = where, .at = mu_##what                                              \
    }

static inline void *mu_copy(const void *from, size_t bytes, size_t spare)
{
    char *to = calloc(1, bytes + spare + 1);
    if (bytes > 0) {
        memcpy(to, from, bytes);
    }
    return to;
}

static inline void mu_begin(struct mutant *m, struct rig *rig, uint32_t turn)
{
    struct pst_plan *plan = rig->plan;
    *m = (struct mutant){.rig = rig, .made = *plan, .turn = turn};
    memcpy(m->devices, plan->devices, plan->n_devices * sizeof *m->devices);
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        for (uint32_t part = 0; part < PST_PARTS; part++) {
            const struct pst_instr *list =
                pst_plan_list(&plan->devices[d], (enum pst_part)part, &m->n[part][d]);
            uint32_t n = m->n[part][d];
            m->lists[part][d] = mu_copy(list, n * sizeof *list, 2 * sizeof *list);
            for (uint32_t i = 0; i < n; i++) {
                struct pst_instr *instr = &m->lists[part][d][i];
                instr->waits = mu_copy(instr->waits, instr->n_waits * sizeof(uint32_t), 0);
            }
        }
    }
    m->stages = mu_copy(plan->stages, plan->n_stages * sizeof *plan->stages, 0);
    m->edges = mu_copy(plan->edges, plan->n_edges * sizeof *plan->edges, 0);
    m->ties = mu_copy(plan->ties, plan->n_ties * sizeof *plan->ties, 0);
}

/* The plan shows the mutated parts. */
static inline void mu_show(struct mutant *m)
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
    plan->edges = m->edges;
    plan->ties = m->ties;
}

static inline void mu_end(struct mutant *m)
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
    free(m->edges);
    free(m->ties);
    free(m->nodes);
    free(m->actions);
    *plan = m->made;
    memcpy(plan->devices, m->devices, plan->n_devices * sizeof *m->devices);
}

/* --- places ---------------------------------------------------------------------------------- */

static inline struct pst_instr *mu_at(struct mutant *m, struct place p)
{
    return &m->lists[p.part][p.d][p.i];
}

/* One of n: the first pick takes turns where the mutant says so. */
static inline uint32_t mu_pick(struct mutant *m, uint32_t n)
{
    bool first = m->n_places == 0;
    m->n_places = first ? n : m->n_places;
    return first && m->turn != PST_NONE ? m->turn % n : rig_draw(m->rig, n);
}

/* An instruction among those that fit. */
static inline struct place mu_draw(struct mutant *m, bool (*fits)(const struct pst_instr *))
{
    uint32_t n = 0, left = 0;
    for (uint32_t picked = 0; picked < 2; picked++) {
        for (uint32_t d = 0; d < m->made.n_devices; d++) {
            for (uint32_t part = 0; part < PST_PARTS; part++) {
                for (uint32_t i = 0; i < m->n[part][d]; i++) {
                    bool fit = fits(&m->lists[part][d][i]);
                    n += fit && !picked;
                    if (fit && picked && left-- == 0) {
                        return (struct place){part, d, i};
                    }
                }
            }
        }
        rig_need(m->rig, n > 0);
        left = picked ? 0 : mu_pick(m, n);
    }
    return (struct place){0, 0, 0};
}

static inline bool mu_is_any(const struct pst_instr *instr)
{
    return true;
}

static inline bool mu_is_pass(const struct pst_instr *instr)
{
    return instr->op <= PST_I_R;
}

static inline bool mu_is_transfer(const struct pst_instr *instr)
{
    return instr->op == PST_I_SEND || instr->op == PST_I_RECV;
}

static inline bool mu_is_step(const struct pst_instr *instr)
{
    return instr->op == PST_I_STEP;
}

static inline bool mu_has_waits(const struct pst_instr *instr)
{
    return instr->n_waits > 0;
}

/* A stage without parameters has nothing to reduce or update. */
static inline bool mu_has_params(const struct mutant *m, uint32_t stage)
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

/* --- editing lists --------------------------------------------------------------------------- */

/* Waits follow the instructions: those from `from` on move by `by`; a wait for `gone` is dropped.
 */
static inline void mu_renumber(struct mutant *m, struct place p, uint32_t from, int by,
                               uint32_t gone)
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

static inline struct pst_instr mu_take_out(struct mutant *m, struct place p)
{
    struct pst_instr out = *mu_at(m, p), *list = m->lists[p.part][p.d];
    uint32_t n = --m->n[p.part][p.d];
    memmove(&list[p.i], &list[p.i + 1], (n - p.i) * sizeof *list);
    mu_renumber(m, p, p.i + 1, -1, p.i);
    return out;
}

static inline void mu_put_in(struct mutant *m, struct place p, struct pst_instr instr)
{
    struct pst_instr *list = m->lists[p.part][p.d];
    mu_renumber(m, p, p.i, 1, PST_NONE);
    memmove(&list[p.i + 1], &list[p.i], (m->n[p.part][p.d] - p.i) * sizeof *list);
    list[p.i] = instr;
    m->n[p.part][p.d]++;
}

/* Puts the same instruction, without waits, after itself. */
static inline void mu_repeat(struct mutant *m, struct place p)
{
    struct pst_instr again = *mu_at(m, p);
    again.waits = NULL;
    again.n_waits = 0;
    p.i++;
    mu_put_in(m, p, again);
}

/* Where instruction i is once the one at `from` has gone to `to`. */
static inline uint32_t mu_moved(uint32_t i, uint32_t from, uint32_t to)
{
    return i == from ? to : i > from && i <= to ? i - 1 : i < from && i >= to ? i + 1 : i;
}

/* Instruction p goes to place `to` of its list, waits and all; false: somebody now waits for what
   comes later, which is not well formed. */
static inline bool mu_relocate(struct mutant *m, struct place p, uint32_t to)
{
    struct pst_instr out = *mu_at(m, p), *list = m->lists[p.part][p.d];
    bool formed = true;
    if (to > p.i) {
        memmove(&list[p.i], &list[p.i + 1], (to - p.i) * sizeof *list);
    } else {
        memmove(&list[to + 1], &list[to], (p.i - to) * sizeof *list);
    }
    list[to] = out;
    for (uint32_t i = 0; i < m->n[p.part][p.d]; i++) {
        uint32_t *waits = (uint32_t *)list[i].waits;
        for (uint32_t w = 0; w < list[i].n_waits; w++) {
            uint32_t moved = mu_moved(waits[w], p.i, to), at = w;
            for (; at > 0 && waits[at - 1] > moved; at--) {
                waits[at] = waits[at - 1];
            }
            waits[at] = moved;
        }
        formed &= list[i].n_waits == 0 || waits[list[i].n_waits - 1] < i;
    }
    return formed;
}

/* --- judging --------------------------------------------------------------------------------- */

/* Queues are first in first out, and lists stay at reductions; the oracles know neither. */
static inline bool mu_only_order(const struct pst_check_report *report)
{
    for (uint32_t i = 0; i < report->n_violations && i < PST_CHECK_MAX; i++) {
        if (strncmp(report->violations[i].rule, "LIVE", 4) != 0 &&
            strcmp(report->violations[i].rule, "COMM2") != 0) {
            return false;
        }
    }
    return report->n_violations > 0;
}

static inline void mu_judge(struct mutant *m, struct mutation *mutation, const char *rules,
                            const char *plan)
{
    static struct pst_check_report report;
    struct pst_error err = {0};
    bool accepted = rig_check(m->rig, false, &report, &err) == PST_OK;
    bool legal = m->open && oracle_legal(m->rig->plan, m->rig->graph);
    mutation->counts[!legal ? MU_CAUGHT : accepted ? MU_LEGAL : MU_ORDER]++;
    if (legal ? !accepted && !mu_only_order(&report) : accepted || !rig_has_rule(&report, rules)) {
        fail_msg("seed %llu, %s, %s at %u: %s, expected %s\n%s", (unsigned long long)m->rig->seed,
                 plan, mutation->name, m->turn, accepted ? "accepted" : "refused",
                 legal ? "to be accepted" : rules, err.details);
    }
}

static inline const char *mu_apply(struct mutant *m, const struct mutation *mutation)
{
    if (setjmp(m->rig->nothing) != 0) {
        return NULL;
    }
    return mutation->apply != NULL ? mutation->apply(m)
                                   : mutation->at(m, mu_draw(m, mutation->fits));
}

/* One mutant at a place that is drawn, or at the turn-th; how many places there are. */
static inline uint32_t mu_mutate(struct rig *rig, struct mutation *mutation, uint32_t turn,
                                 const char *plan)
{
    struct mutant m;
    mu_begin(&m, rig, turn);
    const char *rules = mu_apply(&m, mutation);
    mu_show(&m);
    if (rules != NULL) {
        mu_judge(&m, mutation, rules, plan);
    }
    mu_end(&m);
    return m.n_places;
}

static inline void mu_mutate_all(struct rig *rig, struct mutation *mutations, size_t n,
                                 const char *plan)
{
    for (size_t k = 0; k < n; k++) {
        mu_mutate(rig, &mutations[k], PST_NONE, plan);
    }
}

static inline void mu_print(const struct mutation *mutations, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        const uint32_t *counts = mutations[k].counts;

        print_message("  %-18s %5u caught, %5u for the order of a queue, %5u still legal\n",
                      mutations[k].name, counts[MU_CAUGHT], counts[MU_ORDER], counts[MU_LEGAL]);
        assert_true(counts[MU_CAUGHT] > 0);
    }
}

#endif
