/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the planner: takes in what a scheduler emits and refuses what is out of bounds or out
 * of order on its own device at once, then counts what the lists hold. What depends on other
 * devices is found when the plan is lowered.
 */
#ifndef PST_PLANNER_EMISSION_H
#define PST_PLANNER_EMISSION_H

#include <penstock/ext/claim.h>

#include "plan/plan.h"
#include "host/plugin_host.h"

struct pst_emission {
    struct pst_schedule_out out;
    const struct pst_schedule_in *in;
    bool asynchronous;        /* part() was called: passes come in fill, body and drain */
    struct pst_pass **passes; /* [n_devices] growing; asynchronous: of body */
    uint32_t *n_passes;
    struct pst_pass **parts[PST_PARTS]; /* fill, body (= passes), drain */
    uint32_t *n_parts[PST_PARTS];
    size_t *room[PST_PARTS];
    uint32_t part;   /* that emit adds to */
    uint8_t *done;   /* [base[stage] + microbatch] bit per pass, over a few batches */
    size_t *base;    /* [n_stages + 1] */
    bool any, split; /* there is a pass; a B or W */
    char fault[256]; /* the first rule that was broken, or "" */
};

/* `in` must outlive it. */
void pst_emission_init(struct pst_emission *emission, const struct pst_schedule_in *in);
void pst_emission_finish(struct pst_emission *emission);

/*
 * Asks a scheduler's schedule() for the passes of `in`, complete. asynchronous: whether they must
 * come in parts; NULL: as the scheduler likes. pending: as in pst_instance_blame, or NULL. Call
 * finish in any case. Errors: as the scheduler fails; plan.illegal for an answer that breaks a
 * rule.
 */
pst_status pst_emission_ask(struct pst_emission *emission, struct pst_instance *scheduler,
                            const struct pst_schedule_in *in, const bool *asynchronous,
                            struct pst_error *pending, struct pst_error *err);

/* Has every micro-batch of every stage run forward and backward? Else says so in fault. */
bool pst_emission_complete(struct pst_emission *emission);

/* What each stage holds, from F to W or BW; of an asynchronous answer over several batches. */
struct pst_emission_count {
    uint32_t *most;    /* micro-batches, at any time */
    uint32_t *at_peak; /* when its device first holds most bytes, by saved_bytes of the stages */
    uint32_t *late;    /* those of them that are between B and W */
};
struct pst_emission_count pst_emission_count(const struct pst_emission *emission,
                                             struct pst_arena *arena);

/* The lists of a complete emission, and what the scheduler said of them. */
struct pst_orders {
    struct pst_arena arena;
    uint32_t n_devices;
    struct pst_pass **passes[PST_PARTS]; /* [fill, body, drain][device][position] */
    uint32_t *n_passes[PST_PARTS];       /* NULL: it has no such part; synchronous: but for body */
    bool asynchronous;
    bool split; /* there is a B or W */
    bool claimed;
    struct pst_claimed claim;
};

struct pst_orders pst_orders_take(const struct pst_emission *emission,
                                  const struct pst_claimed *claim);
void pst_orders_finish(struct pst_orders *orders);

/* Warns in the log of what differs, and of a lower bound above the answer's own cost; times are
   told in units. `claim` of size 0 claims nothing. */
void pst_claim_check(const char *scheduler, const struct pst_claimed *claim, uint64_t makespan_ns,
                     uint64_t span_ns, double ns_per_unit);

#endif
