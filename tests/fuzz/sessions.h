/* SPDX-License-Identifier: Apache-2.0
 *
 * Small planning sessions, each with another kind of plan: pipelines, replicas, chunks,
 * recomputation, offloading, guests on other devices, plans without flushes.
 */
#ifndef TESTS_FUZZ_SESSIONS_H
#define TESTS_FUZZ_SESSIONS_H

#include "session/session.h"

#define FUZZ_SESSIONS 10

extern struct pst_session *fuzz_sessions[FUZZ_SESSIONS];

/* Makes them, and a plan for each. */
void fuzz_sessions_begin(void);
/* A plan for this session, which has none; or the error. */
pst_status fuzz_session_search(struct pst_session *session, struct pst_planned *ret_planned,
                               struct pst_error *err);
/* Without a plan again. */
void fuzz_session_reset(struct pst_session *session);
/* From a config; NULL where it is refused. Never freed but by fuzz_session_close. */
struct pst_session *fuzz_session_open(const char *toml, struct pst_error *err);
void fuzz_session_close(struct pst_session *session);

#endif
