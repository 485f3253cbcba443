/* SPDX-License-Identifier: Apache-2.0
 *
 * Being asked to stop: SIGINT, SIGTERM and, unless it is ignored, SIGHUP raise a flag that searches
 * and steps look at. What has not ended by then is ended after a time of grace, whatever it is at:
 * temporary files are removed and the exit code is 128 + the signal. A second SIGINT leaves at
 * once. SIGUSR1 asks for a checkpoint. SIGPIPE and SIGCONT change nothing.
 */
#ifndef PST_BASE_SIGNALS_H
#define PST_BASE_SIGNALS_H

#include "base/error.h"

enum {
    PST_STOP_USUAL_MS = 400,    /* any command ends within a second of a signal */
    PST_STOP_REPORT_MS = 10000, /* all is saved, or has failed; what is left to say, or which of
                                   several processes says it, may be lost after that */
    PST_STOP_ORDERLY = -1, /* the caller ends soon by itself, and what it has is not to be lost */
};

/* Installs the handlers. Process-wide; call once, before threads exist. tell() prints that the
   process is ended at the end of its grace, within a handler of signals; NULL: nothing does. */
void pst_stop_install(void (*tell)(int number));

/* The time of grace from a signal on, or if one came before, from now on; 0: none. The driving
   thread. */
void pst_stop_grace(int32_t ms);

/* The signal that asked first, or 0. */
int pst_stop_signal(void);
/* Number of SIGUSR1 signals so far. */
uint64_t pst_stop_wishes(void);
/* Records a signal that another process got. */
void pst_stop_note(int number);

/* True after a signal to stop. For the planner; any thread. */
bool pst_stop_requested(void);

/* PST_ERR_CANCELLED, kind run.stopped, exit code 128 + signal. */
pst_status pst_stop_fail(struct pst_error *err);
/* Like pst_stop_fail, for signal `number` even if it has not come; 0: SIGINT. */
pst_status pst_stop_fail_by(int number, struct pst_error *err);

#endif
