/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the planner: whose fault it is that there is no plan.
 */
#ifndef PST_PLANNER_BLAME_H
#define PST_PLANNER_BLAME_H

#include "host/plugin_host.h"

/* Turns the status of a call into `instance` into an error. *pending: the error of a host function
   that the plugin called, which goes first if it has that status; cleared. NULL: none. */
pst_status pst_instance_blame(struct pst_instance *instance, struct pst_error *pending,
                              pst_status status, const char *function, struct pst_error *err);
/* A plan that breaks a rule: plan.illegal, exit code 3, naming the plugin. Returns PST_ERR_BUG. */
pst_status pst_plan_illegal(struct pst_error *err, const char *kind, const char *id,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));
#define pst_planner_illegal(err, instance, ...)                                                    \
    pst_plan_illegal(err, (instance)->plugin->kind, (instance)->plugin->id, __VA_ARGS__)
/* Adds the scheduler and exit code 3 to an error that is plan.illegal. Returns status. */
pst_status pst_scheduler_blame(const char *id, pst_status status, struct pst_error *err);

#endif
