/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutations of asynchronous plans: fill, body and drain, batches, versions, accumulators.
 */
#ifndef TESTS_CHECK_PART_MUTATIONS_H
#define TESTS_CHECK_PART_MUTATIONS_H

#include "unit/prove/list_mutations.h"

static inline const char *mu_to_other_part(struct mutant *m, struct place p)
{
    struct pst_instr out = mu_take_out(m, p);
    out.n_waits = 0;
    p.part = (p.part + 1 + rig_draw(m->rig, 2)) % PST_PARTS;
    p.i = rig_draw(m->rig, m->n[p.part][p.d] + 1);
    mu_put_in(m, p, out);
    /* over the border, it may come to the same */
    m->open = !mu_is_pass(&out) && !mu_is_transfer(&out);
    if ((out.op == PST_I_REDUCE || out.op == PST_I_STEP) && !mu_has_params(m, out.stage)) {
        return NULL;
    }
    return mu_order_rules(m);
}

/* Another batch's micro-batch of the same number. */
static inline const char *mu_wrong_batch(struct mutant *m, struct place p)
{
    uint32_t n = m->stages[mu_at(m, p)->stage].n_microbatches;
    mu_at(m, p)->microbatch = (mu_at(m, p)->microbatch + n) % (2 * n);
    return "PASS1";
}

static inline const char *mu_samples_of_other_batch(struct mutant *m, struct place p)
{
    mu_at(m, p)->first_sample = (mu_at(m, p)->first_sample + m->made.batch) % (2 * m->made.batch);
    return "COMM1 FORM1";
}

/* All numbers of one part of one device belong to the batch after. */
static inline const char *mu_shift_part(struct mutant *m, struct place p)
{
    for (p.i = 0; p.i < m->n[p.part][p.d]; p.i++) {
        if (mu_is_pass(mu_at(m, p))) {
            mu_at(m, p)->microbatch += m->stages[mu_at(m, p)->stage].n_microbatches;
        }
    }
    return "PASS1 FORM1";
}

static inline const char *mu_other_accumulators(struct mutant *m)
{
    m->rig->plan->deferred_step ^= true;
    m->open = true;
    return "PASS4 WVER2";
}

static inline const char *mu_wrong_drains(struct mutant *m)
{
    m->rig->plan->config_json = "{\"train\":{\"drain_every\":3}}";
    m->rig->plan->drain_every = rig_draw(m->rig, 3);
    return "PASS5";
}

static inline const char *mu_wrong_rule(struct mutant *m)
{
    m->rig->plan->version_rule = rig_draw(m->rig, 2) == 0 ? PST_VERSION_SYNC : 4;
    return "WVER2 WVER3";
}

static inline const char *mu_lost_mode(struct mutant *m)
{
    m->rig->plan->asynchronous = false;
    return "FORM1 WVER1";
}

static struct mutation part_mutations[] = {
    MU_AT(to_other_part, mu_is_any),
    MU_AT(wrong_batch, mu_is_pass),
    {"samples_of_other", .fits = mu_is_transfer, .at = mu_samples_of_other_batch},
    MU_AT(shift_part, mu_is_pass),
    MU(other_accumulators),
    MU(wrong_drains),
    MU(wrong_rule),
    MU(lost_mode),
};
#define N_PART_MUTATIONS (sizeof part_mutations / sizeof part_mutations[0])

#endif
