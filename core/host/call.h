/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls into a plugin that is asked something. Each leaves a breadcrumb and lends the plugin a copy
 * of the question and of all that this leads to: what the plugin writes there reaches nothing that
 * the host computes with, and is found.
 */
#ifndef PST_HOST_CALL_H
#define PST_HOST_CALL_H

#include <penstock/ext/profile.h>
#include <penstock/memopt_global.h>

#include "host/plugin_host.h"

/* These return what the plugin did, or PST_ERR_BUG where it wrote into its question;
   pst_instance_fail knows why. */
pst_status pst_call_in_flight(struct pst_instance *scheduler, const struct pst_place *place,
                              struct pst_held *ret_held);
pst_status pst_call_schedule(struct pst_instance *scheduler, const struct pst_schedule_in *in,
                             struct pst_schedule_out *out);
pst_status pst_call_partition(struct pst_instance *partitioner, const struct pst_partition_in *in,
                              struct pst_partition_out *out);
pst_status pst_call_bound(struct pst_instance *memopt, const struct pst_stage_view *view,
                          uint64_t *ret_period_ns);
pst_status pst_call_price(struct pst_instance *memopt, const struct pst_stage_view *view,
                          struct pst_stage_price *ret_price);
pst_status pst_call_plan(struct pst_instance *memopt, const struct pst_stage_view *view,
                         struct pst_action_out *out);
pst_status pst_call_global(struct pst_instance *memopt, const struct pst_global_in *in,
                           struct pst_global_out *out);

/* Memory that a plugin may read and must not write: a bump allocator in one block, compared with a
   copy of itself. */
struct pst_region {
    char *bytes, *copy;
    size_t used, room;
};

void pst_region_finish(struct pst_region *region);
bool pst_region_intact(const struct pst_region *region);

struct pst_lending; /* a copy on its way */

/* Copies a question; the first thing that it puts is the question itself. */
typedef void pst_lend_copy(struct pst_lending *lending, const void *question);

pst_lend_copy pst_lend_place, pst_lend_schedule;   /* struct pst_place, pst_schedule_in */
pst_lend_copy pst_lend_partition, pst_lend_global; /* struct pst_partition_in, pst_global_in */
pst_lend_copy pst_lend_stage_view;                 /* struct pst_stage_view */

/* *ret_copy is for the plugin, and stays until the region is finished. Rows whose size the question
   states are longer by `wider` bytes, as those of a newer host are. */
void pst_lend(pst_lend_copy *copy, const void *question, uint32_t wider, struct pst_region *region,
              const void **ret_copy);

/* The figures of a graph of so many nodes and edges, as a partitioner gets them: the first thing in
   the region. */
void pst_lend_figures(const struct pst_figures *figures, uint32_t n_nodes, uint32_t n_edges,
                      struct pst_region *region);

#endif
