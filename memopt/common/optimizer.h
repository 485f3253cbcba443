/* SPDX-License-Identifier: Apache-2.0
 *
 * For memory optimizers: an instance that decides about one stage, and the interface around it.
 * Linked into each plugin that wants it (penstock_add_plugin(... LINK memopt_common)); depends on
 * the plugin headers and plugins/call alone. Everything here runs on the plan thread, within a call
 * of the host, which ends where there is no memory or the host asks to stop; memory is the call's.
 *
 * A plugin's own struct begins with a struct mem_opt; it brings a description and a function that
 * decides:
 *
 *     static void decide(struct mem_opt *opt, const struct pst_stage_view *view)
 *     {
 *         ... write a plan into opt->trial ...
 *         mem_consider(opt, view);         as often as there are plans to try
 *     }
 *
 *     MEM_OPTIMIZER(struct mem_opt, decide, false)
 */
#ifndef MEMOPT_COMMON_OPTIMIZER_H
#define MEMOPT_COMMON_OPTIMIZER_H

#include "plugin_call.h"

struct mem_opt;

/*
 * Proposes plans for the stage by mem_consider, at least one. At entry trial holds what earlier
 * optimizers decided, KEEP elsewhere, and after_ns, total_ns and last are filled. Where nothing
 * that it proposed fits, the answer is the plan of least peak among them, so a good optimizer
 * proposes the one of least peak that it can make as well.
 */
typedef void mem_decide(struct mem_opt *opt, const struct pst_stage_view *view);

struct mem_opt {
    const struct pst_host *host;
    const struct pst_eval *eval;
    const void *config;
    mem_decide *decide;
    bool fixed_rule; /* nothing to choose: a plan that does not fit is set all the same, and
                        refusing it is left to the host; else plan() answers INFEASIBLE */
    /* of the call; [nodes of the view] */
    uint8_t *trial;     /* PST_ACTION_*: the plan under construction */
    uint8_t *actions;   /* the best plan so far */
    uint32_t *order;    /* for sorting positions; free to use, mem_occupy does */
    uint32_t *run;      /* scratch of mem_make_legal and mem_occupy */
    uint32_t *last;     /* largest in-stage reader of a node; itself where there is none */
    uint64_t *after_ns; /* forward + backward of all later nodes */
    uint64_t *scratch;  /* free to use, but from mem_occupy to the last mem_slot_fits */
    uint64_t total_ns;  /* forward + backward of the stage: its period without any action */
    bool has_plan;      /* of actions, with this value: */
    struct pst_stage_value value;
};

/* create() of a plugin whose struct has this size; zeroed but for the members above. Sets all but
   fixed_rule. PST_ERR_NOMEM; PST_ERR_UNSUPPORTED where the host has no evaluator. */
pst_status mem_create(const struct pst_host *host, const void *config, size_t size,
                      mem_decide *decide, void **ret_self);

/* Writes create(), destroy() and get_interface() of a plugin that is its struct `type` and its
   `decide` alone. fixed: opt->fixed_rule, by its `config`. */
#define MEM_OPTIMIZER(type, decide, fixed)                                                         \
    static pst_status create(const struct pst_host *host, const void *config, void **ret_self)     \
    {                                                                                              \
        pst_status status = mem_create(host, config, sizeof(type), decide, ret_self);              \
                                                                                                   \
        if (status == PST_OK) {                                                                    \
            ((struct mem_opt *)*ret_self)->fixed_rule = fixed;                                     \
        }                                                                                          \
        return status;                                                                             \
    }                                                                                              \
    PST_DESTROY_NOTHING                                                                            \
    PST_INTERFACE(PST_MEMOPT, struct pst_memopt, .price = mem_price, .plan = mem_plan)

/* Functions of struct pst_memopt. */
pst_status mem_price(void *self, const struct pst_stage_view *view,
                     struct pst_stage_price *ret_price);
pst_status mem_plan(void *self, const struct pst_stage_view *view, struct pst_action_out *out);

/* Trial := decisions of earlier optimizers, KEEP elsewhere. */
void mem_reset(struct mem_opt *opt, const struct pst_stage_view *view);

/* Evaluates opt->trial (left as it is) and makes it the answer if it is better than what there is:
   within the capacity before beyond it; there by less period, then peak; beyond it by less peak,
   then period. An illegal plan is no plan. */
void mem_consider(struct mem_opt *opt, const struct pst_stage_view *view);

/* mem_consider that returns the value of trial, legal or not. */
struct pst_stage_value mem_try(struct mem_opt *opt, const struct pst_stage_view *view);

/* Is there a plan that fits? */
bool mem_is_done(const struct mem_opt *opt, const struct pst_stage_view *view);

/* Does the plan of this value fit? */
bool mem_fits(const struct pst_stage_view *view, const struct pst_stage_value *value);

/* --- what may be done to a node ----------------------------------------------------------------*/

/* May this optimizer drop it? */
static inline bool mem_may_recompute(const struct pst_stage_node *node)
{
    return node->action == PST_ACTION_KEEP && (node->flags & PST_NODE_NO_RECOMPUTE) == 0;
}

/*
 * A replay may read only its own run and what is resident. Makes actions[] of the view's nodes
 * legal in this respect by keeping dropped producers outside the run of their reader (or the
 * reader, where an earlier optimizer dropped the producer for good), until nothing changes: a kept
 * node may split a run in two. run: [n_nodes] scratch.
 */
void mem_make_legal(const struct pst_stage_view *view, uint8_t *actions, uint32_t *run);

/* --- the host link -----------------------------------------------------------------------------*/

struct mem_link_rules {
    double windows;   /* round trips of free time that must be left over: 0 for FT >= 0 */
    double target;    /* part of the link's time that plans may fill: 1 for all of it */
    bool slot_filter; /* one copy's slots are free again within a period */
    uint64_t min_bytes;
};

/*
 * The plan-independent filter: the node is undecided and may leave the device, there is a link,
 * and its free time
 *
 *     FT_v = (k - 1) total + (forward + backward of all later nodes) - 2 a_v / link
 *
 * is at least windows x 2 a_v / link. (Peng et al., Capuchin, ASPLOS 2020, for one device.)
 */
bool mem_may_offload(const struct mem_opt *opt, const struct pst_stage_view *view,
                     const struct mem_link_rules *rules, uint32_t v);

/*
 * Under a plan, how long each node would occupy its place on the device when it is back: occ_v, the
 * stretch of the backward from the first reader of v (a backward, or a replay) to the end of v's
 * own, into opt->scratch, where it must stay for mem_slot_fits. Overwrites order and run, which are
 * free again then. The slot filter, for what was found so: a copy out
 * or back, and the longest that v occupies a place beside it, fit into target x total:
 *
 *     a_v / link + max(forward of v, occ_v)
 */
void mem_occupy(struct mem_opt *opt, const struct pst_stage_view *view, const uint8_t *actions);
bool mem_slot_fits(const struct mem_opt *opt, const struct pst_stage_view *view,
                   const struct mem_link_rules *rules, uint32_t v);

/* Bytes that the link moves out and back within target x period; 0 without a link. */
uint64_t mem_link_budget(const struct pst_stage_view *view, uint64_t period_ns, double target);

/* --- words -------------------------------------------------------------------------------------*/

/* "1.25 GiB", "512 bytes". Returns text. */
const char *mem_bytes_text(char text[32], uint64_t bytes);

/* Parses the parameter `allow`: "recompute", "offload", "recompute,offload", "both". PST_ERR_CONFIG
   for anything else. */
pst_status mem_allow(const struct pst_host *host, const char *list, bool *ret_recompute,
                     bool *ret_offload);

/* PST_ERR_INFEASIBLE with "stage 2 does not fit: 12.0 MiB short of ...; the smallest capacity that
   would do is 512 MiB (536870912 bytes)". peak: of the smallest plan there is. */
pst_status mem_refuse(const struct pst_host *host, const struct pst_stage_view *view,
                      uint64_t peak_bytes);

#endif
