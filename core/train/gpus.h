/* SPDX-License-Identifier: Apache-2.0
 *
 * Some transports have one rank on each GPU and say so late, when they are attached. Here it is
 * found out before a plan is searched. Others copy within a GPU and are asked for nothing.
 */
#ifndef PST_TRAIN_GPUS_H
#define PST_TRAIN_GPUS_H

#include "base/error.h"

struct pst_session;
struct pst_team;

/* Of a run in one process; nothing is checked where ranks are processes. machine.missing (exit 4)
   says which two ranks meet, and what to set. */
pst_status pst_session_check_gpus(const struct pst_session *session, struct pst_error *err);
/* The same where ranks are processes; nothing is checked in a team of one. Collective. */
pst_status pst_team_check_gpus(const struct pst_team *team, const struct pst_session *session,
                               struct pst_error *err);

#endif
