/* SPDX-License-Identifier: Apache-2.0
 *
 * Rehearsals: the described devices and links of a session, in the form that devices without data
 * and a transport with times need. The numbers are those of the simulator.
 */
#ifndef PST_LOOP_EMULATE_H
#define PST_LOOP_EMULATE_H

#include "exec/exec.h"
#include "session/session.h"

struct pst_emulation {
    const struct pst_cost_model *cost;
    const struct pst_plan *plan;
    double scale; /* the time of this machine is so many times that of the described one */
    struct pst_device_times device;
    struct pst_exec_links links;
};

/* The enum pst_exec_graphs that run.graphs selects; OFF if the transport rules graphs out. */
uint32_t pst_session_graphs(const struct pst_session *session);

/*
 * scale 0: as large as this machine needs, at least 1: every instruction of a step costs it the
 * waking of a thread or two, so a step takes at least 100 us for each of them and core. Of devices
 * that are there the scale is 1, and the tables are what the cost model predicts. Call
 * after pst_session_plan; session and emulation outlive what uses the tables.
 */
void pst_emulation_init(struct pst_emulation *emulation, const struct pst_session *session,
                        double scale);

#endif
