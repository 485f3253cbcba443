/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutations of the instructions of any plan, whatever its mode.
 */
#ifndef TESTS_CHECK_LIST_MUTATIONS_H
#define TESTS_CHECK_LIST_MUTATIONS_H

#include "unit/prove/mutant.h"

/* Any of these may be what a moved instruction breaks. */
static inline const char *mu_order_rules(const struct mutant *m)
{
    return m->made.asynchronous
               ? "PASS1 PASS2 PASS3 PASS4 PART4 COMM1 COMM2 COMM3 WVER2 LIVE1 LIVE2 LIVE4 FORM1"
               : "PASS2 PASS3 PASS4 PASS9 PART4 COMM2 COMM3 WVER1 LIVE1 LIVE2 LIVE4";
}

/* What is there too seldom or too often. */
static inline const char *mu_count_rules(const struct pst_instr *instr)
{
    return mu_is_pass(instr)                                      ? "PASS1"
           : mu_is_transfer(instr)                                ? "COMM1"
           : instr->op == PST_I_REDUCE || instr->op == PST_I_STEP ? "PASS4 WVER2"
           : instr->op == PST_I_TIE                               ? "PART4"
                                                                  : "COMM3";
}

static inline const char *mu_drop(struct mutant *m, struct place p)
{
    struct pst_instr out = *mu_at(m, p);
    if ((out.op == PST_I_REDUCE || out.op == PST_I_STEP) && !mu_has_params(m, out.stage)) {
        return NULL;
    }
    out = mu_take_out(m, p);
    free((void *)out.waits);
    return mu_count_rules(&out);
}

static inline const char *mu_duplicate(struct mutant *m, struct place p)
{
    struct pst_instr twin = *mu_at(m, p);
    twin.waits = mu_copy(twin.waits, twin.n_waits * sizeof(uint32_t), 0);
    p.i++;
    mu_put_in(m, p, twin);
    return mu_count_rules(&twin);
}

static inline const char *mu_swap_neighbours(struct mutant *m, struct place p)
{
    rig_need(m->rig, p.i + 1 != m->n[p.part][p.d]);
    m->open = mu_relocate(m, p, p.i + 1);
    return m->open ? mu_order_rules(m) : "FORM1";
}

/* Far enough that most such plans are illegal. */
static inline const char *mu_move(struct mutant *m, struct place p)
{
    m->open = mu_relocate(m, p, rig_draw(m->rig, m->n[p.part][p.d]));
    return m->open ? mu_order_rules(m) : "FORM1";
}

/* Devices exchange their lists, as long as they name no peer. */
static inline const char *mu_swap_devices(struct mutant *m)
{
    uint32_t a = mu_pick(m, m->made.n_devices), b = (a + 1) % m->made.n_devices;
    rig_need(m->rig, a != b);
    m->open = true; /* replicas may have the same list */
    for (uint32_t part = 0; part < PST_PARTS; part++) {
        struct pst_instr *list = m->lists[part][a];
        uint32_t n = m->n[part][a];
        m->lists[part][a] = m->lists[part][b];
        m->n[part][a] = m->n[part][b];
        m->lists[part][b] = list;
        m->n[part][b] = n;
    }
    return "PASS1 FORM1 COMM1";
}

static inline const char *mu_remove_wait(struct mutant *m, struct place p)
{
    struct pst_instr *instr = mu_at(m, p);
    uint32_t at = rig_draw(m->rig, instr->n_waits), *waits = (uint32_t *)instr->waits;
    memmove(&waits[at], &waits[at + 1], (instr->n_waits - at - 1) * sizeof *waits);
    instr->n_waits--;
    m->open = true;
    return m->made.asynchronous ? mu_order_rules(m) : "PASS3 PASS4";
}

/* A wait moves to the instruction behind. */
static inline const char *mu_late_wait(struct mutant *m, struct place p)
{
    rig_need(m->rig, p.i + 1 != m->n[p.part][p.d]);
    struct pst_instr *instr = mu_at(m, p), *next = instr + 1;
    uint32_t moved = instr->waits[instr->n_waits - 1], at = next->n_waits;
    for (uint32_t w = 0; w < next->n_waits; w++) {
        if (next->waits[w] == moved) {
            return NULL;
        }
    }
    uint32_t *waits = mu_copy(next->waits, next->n_waits * sizeof *waits, sizeof *waits);
    for (; at > 0 && waits[at - 1] > moved; at--) {
        waits[at] = waits[at - 1];
    }
    waits[at] = moved;
    free((void *)next->waits);
    next->waits = waits;
    next->n_waits++;
    instr->n_waits--;
    m->open = true;
    return m->made.asynchronous ? mu_order_rules(m) : "PASS3 PASS4";
}

static inline const char *mu_retarget(struct mutant *m, struct place p)
{
    struct pst_instr *instr = mu_at(m, p);
    instr->peer = (instr->peer + 1) % m->made.n_devices;
    return instr->peer == p.d ? "FORM1" : "COMM1";
}

static inline const char *mu_wrong_samples(struct mutant *m, struct place p)
{
    struct pst_instr *instr = mu_at(m, p);
    *(rig_draw(m->rig, 2) == 0 ? &instr->n_samples : &instr->first_sample) +=
        rig_draw(m->rig, 2) == 0 ? 1u : UINT32_MAX;
    return "COMM1 FORM1";
}

static inline const char *mu_wrong_payload(struct mutant *m, struct place p)
{
    mu_at(m, p)->payload ^= 1;
    return "COMM1";
}

/* The rows of another edge. */
static inline const char *mu_wrong_edge(struct mutant *m)
{
    rig_need(m->rig, m->made.n_edges >= 2);
    struct place p = mu_draw(m, mu_is_transfer);
    mu_at(m, p)->stage = (mu_at(m, p)->stage + 1) % m->made.n_edges;
    return "COMM1";
}

static inline const char *mu_wrong_microbatch(struct mutant *m, struct place p)
{
    struct pst_instr *instr = mu_at(m, p);
    uint32_t n = m->stages[instr->stage].n_microbatches * (m->made.asynchronous ? 2 : 1);
    instr->microbatch++;
    return instr->microbatch < n ? "PASS1" : "FORM1";
}

static inline const char *mu_wrong_stage(struct mutant *m, struct place p)
{
    struct pst_instr *instr = mu_at(m, p);
    instr->stage = (instr->stage + 1) % m->made.n_stages;
    uint32_t n = m->stages[instr->stage].n_microbatches * (m->made.asynchronous ? 2 : 1);
    return m->made.n_stages == 1 ? NULL : instr->microbatch < n ? "PASS1" : "FORM1";
}

static inline const char *mu_wrong_pass(struct mutant *m, struct place p)
{
    struct pst_instr *instr = mu_at(m, p);
    instr->op = instr->op == PST_I_F ? PST_I_BW : PST_I_F;
    return "PASS1";
}

static inline const char *mu_to_other_device(struct mutant *m, struct place p)
{
    rig_need(m->rig, m->made.n_devices != 1);
    struct pst_instr out = mu_take_out(m, p);
    out.n_waits = 0;
    p.d = (p.d + 1) % m->made.n_devices;
    p.i = 0;
    mu_put_in(m, p, out);
    return "PASS1";
}

static inline const char *mu_reserved_field(struct mutant *m, struct place p)
{
    struct pst_instr *instr = mu_at(m, p);
    switch (rig_draw(m->rig, 4)) {
    case 0:
        instr->node = 1;
        break;
    case 1:
        instr->op = (uint8_t)(rig_draw(m->rig, 2) == 0 ? PST_I_COUNT : PST_I_FETCH);
        break;
    case 2:
        instr->payload = PST_PAYLOAD_COUNT;
        break;
    default:
        instr->stage = UINT32_MAX - 1;
        break;
    }
    return "FORM1 PASS6";
}

/* Before everything else of its list. */
static inline const char *mu_step_too_early(struct mutant *m, struct place p)
{
    struct pst_instr out = mu_take_out(m, p);
    out.n_waits = 0;
    p.i = 0;
    mu_put_in(m, p, out);
    m->open = m->made.asynchronous; /* over the border of a part it may come to the same */
    return m->made.asynchronous ? mu_order_rules(m) : "WVER1";
}

static struct mutation list_mutations[] = {
    MU_AT(drop, mu_is_any),
    MU_AT(duplicate, mu_is_any),
    MU_AT(swap_neighbours, mu_is_any),
    MU_AT(move, mu_is_any),
    MU(swap_devices),
    MU_AT(remove_wait, mu_has_waits),
    MU_AT(late_wait, mu_has_waits),
    MU_AT(retarget, mu_is_transfer),
    MU_AT(wrong_samples, mu_is_transfer),
    MU_AT(wrong_payload, mu_is_transfer),
    MU(wrong_edge),
    MU_AT(wrong_microbatch, mu_is_pass),
    MU_AT(wrong_stage, mu_is_pass),
    MU_AT(wrong_pass, mu_is_pass),
    MU_AT(to_other_device, mu_is_pass),
    MU_AT(reserved_field, mu_is_any),
    MU_AT(step_too_early, mu_is_step),
};
#define N_LIST_MUTATIONS (sizeof list_mutations / sizeof list_mutations[0])

#endif
