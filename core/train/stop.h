/* SPDX-License-Identifier: Apache-2.0
 *
 * Being asked to stop: SIGINT, SIGTERM and, unless it is ignored, SIGHUP raise a flag that is
 * looked at between steps; a second SIGINT leaves at once. SIGUSR1 asks for a checkpoint. SIGPIPE
 * and SIGCONT change nothing.
 */
#ifndef PST_TRAIN_STOP_H
#define PST_TRAIN_STOP_H

#include "base/error.h"

/* Installs the handlers. Process-wide; call once, before threads exist. */
void pst_stop_install(void);

/* The signal that asked first, or 0. */
int pst_stop_signal(void);
/* How often SIGUSR1 came. */
uint64_t pst_stop_wishes(void);
/* Another process has got it. */
void pst_stop_note(int number);

/* For the planner. Any thread. */
bool pst_stop_requested(void);

/* PST_ERR_CANCELLED, kind run.stopped, exit code 128 + signal. */
pst_status pst_stop_fail(struct pst_error *err);

#endif
