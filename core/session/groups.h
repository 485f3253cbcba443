/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor parallelism, from the job to the plan. The model's graph becomes that of a part. Plans are
 * searched for groups, each the ranks that share the operators of a replica: strategies and what
 * lowers their answer see a group as a device. What is found becomes a plan of ranks.
 */
#ifndef PST_SESSION_GROUPS_H
#define PST_SESSION_GROUPS_H

#include "session/session.h"

/* Makes of the model's graph that of a part, unless there is one part. degree_of: [operator] the
   devices that share it; NULL: as many as the job says, where no partitioner chooses. Errors:
   config.value, at the key of [parallel]; then the graph stays. */
pst_status pst_groups_split(const struct pst_job *job, const uint16_t *degree_of,
                            struct pst_graph **graph, struct pst_error *err);

/* Can the devices and the transport of [cluster] and [run] be the groups that the session's graph
   needs? config.value, plan.mismatch; exit 2. */
pst_status pst_groups_check(const struct pst_session *session, struct pst_error *err);
/* Groups that are of unlike sizes, or begin anywhere, have no place in nodes of one size:
   plan.mismatch, exit 2, where there are several nodes. */
pst_status pst_groups_check_nodes(const struct pst_session *session, struct pst_error *err);
/* Do parts have processors whose bits agree? Asks all processes, before anybody knows how many
   parts a stage has. plan.mismatch; exit 2. */
pst_status pst_groups_check_processors(const struct pst_session *session, struct pst_error *err);

/* The cluster that plans are searched for, each of its devices a group, and the costs with it:
   where there are no parts, those of the session. cores: devices that compute at a time; 0: all. */
struct pst_groups {
    struct pst_cluster cluster;
    struct pst_cost_model cost;
};
void pst_groups_describe(const struct pst_session *session, uint32_t cores,
                         struct pst_groups *ret_groups);

/* Devices that compute at a time, in what the search compares. A plan for a description is for
   devices side by side, wherever it is made: 0; times that were measured here are of devices that
   may have to take turns. */
uint32_t pst_groups_cores(const struct pst_session *session);

/* Searches a plan of groups, and makes of it that of ranks: without programs, where there are parts
   or the session chooses. */
pst_status pst_groups_search(const struct pst_session *session, const struct pst_job *job,
                             bool (*cancelled)(void), struct pst_planned *ret_planned,
                             struct pst_error *err);
/* Makes of a plan of groups that of the session's ranks, without programs. */
void pst_groups_expand(const struct pst_session *session, struct pst_planned *planned);
/* Says what an error of the search calls a device. */
void pst_groups_explain(const struct pst_graph *graph, struct pst_error *err);

#endif
