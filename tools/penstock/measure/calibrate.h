/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures a model's operators and this machine before the first plan for them, and keeps that
 * (measure/calibration.h) for all later ones.
 */
#ifndef PST_MEASURE_CALIBRATE_H
#define PST_MEASURE_CALIBRATE_H

#include "session/session.h"

struct pst_calibrate_listener {
    void *context; /* of them all; each may be NULL */
    void (*begins)(void *context, const struct pst_session *session, double seconds);
    void (*progress)(void *context, uint64_t done, uint64_t all, uint32_t size);
    /* Why nothing was measured, in one line; */
    void (*skipped)(void *context, const char *why);
    /* it was, but other processes took this part of the machine; where it is kept, or NULL; */
    void (*disturbed)(void *context, double share, const char *file);
    /* it was, for this process alone, and why. */
    void (*unkept)(void *context, const char *why);
    bool (*cancelled)(void);
};

/*
 * Where measured times are wanted and those of the session do not reach up to `samples` of a
 * micro-batch, measures on this thread and gives them to the session. What takes too long to be
 * measured or finds no room is left out, and the listener told. Errors: PST_ERR_CANCELLED.
 */
pst_status pst_calibrate(struct pst_session *session, uint32_t samples,
                         const struct pst_calibrate_listener *listener, struct pst_error *err);

#endif
