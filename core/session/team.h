/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes of a run, where ranks are processes: they agree on what they run before the first
 * step, take the plan of rank 0, and end together with one error, which one of them prints. A run
 * in one process is a team of one, of which nothing here has anything to do.
 */
#ifndef PST_SESSION_TEAM_H
#define PST_SESSION_TEAM_H

#include <string.h>

#include "config/job.h"
#include "exec/transport.h"

struct pst_session;

struct pst_team {
    const struct pst_transport_processes *ops;  /* NULL: one process has all ranks */
    const struct pst_transport_processes *left; /* to be left, though they may not have met */
    uint32_t rank, n;
    bool fails_alike; /* every process fails in this way, before they have met */
};

static inline bool pst_team_is_first(const struct pst_team *team)
{
    return team->rank == 0;
}

/* Are two ranks on one host? */
static inline bool pst_team_are_near(const struct pst_team *team, uint32_t a, uint32_t b)
{
    return team->ops == NULL || strcmp(team->ops->host(a), team->ops->host(b)) == 0;
}

/*
 * Where a launcher has started several processes and the config names no transport, job->run gets
 * one between processes; a transport of one process is then config.value (exit 2). Finds the other
 * processes, where run.transport is one of processes, and makes sure that all run the same version
 * on the same config and are as many as there are devices (with a plan, from plan_file or the job:
 * of which pst_team_plan makes sure). Collective. Errors: machine.missing (exit 4), config.value
 * (exit 2); what processes disagree about they all return.
 */
pst_status pst_team_join(struct pst_job *job, const char *plan_file, struct pst_team *ret_team,
                         struct pst_error *err);

/* Is this the process that prints an error which all processes of the launcher have, before they
   have met? Another process returns late, so that its end does not end the one that prints. */
bool pst_team_prints_alike(void);

/* The team of this process, from joining until leaving; NULL: it has none. */
struct pst_team *pst_team_joined(void);

/* Processes compute; config.value (exit 2) for a device that only keeps a clock. */
pst_status pst_team_check_device(const struct pst_team *team, const struct pst_session *session,
                                 struct pst_error *err);

/* pst_session_plan on rank 0; the others take what came out. Collective. */
pst_status pst_team_plan(const struct pst_team *team, struct pst_session *session,
                         const char *plan_file, bool (*cancelled)(void), struct pst_error *err);

/* config.value unless `digest` of `what` ("training data") is the same everywhere. Collective. */
pst_status pst_team_compare(const struct pst_team *team, uint64_t digest, const char *what,
                            struct pst_error *err);

/*
 * The end of the run with this outcome: where it is a failure the others are told to stop. All
 * processes come to the same outcome, and to the error of the one whose failure was the cause.
 * Where some do not come it waits for a few seconds. *ret_prints: this process is the one to tell.
 */
pst_status pst_team_settle(struct pst_team *team, pst_status status, struct pst_error *err,
                           bool *ret_prints);
/* The last of all, with the exit code of the process. */
void pst_team_leave(struct pst_team *team, int exit_code);

#endif
