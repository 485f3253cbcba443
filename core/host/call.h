/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the planner: calls into a plugin that is asked something. Each leaves a breadcrumb and
 * lends the plugin a copy of the question (lend.h). They return what the plugin did, or PST_ERR_BUG
 * where it wrote into its question; pst_instance_fail knows why.
 */
#ifndef PST_HOST_CALL_H
#define PST_HOST_CALL_H

#include <penstock/memopt_global.h>

#include "host/plugin_host.h"

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

#endif
