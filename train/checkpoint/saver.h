/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes checkpoints while a run continues. At a step boundary the state is copied into memory that
 * was reserved for it; a separate thread does the rest. If ranks are processes, each writes its
 * shard; they exchange results on the main thread, at step boundaries.
 *
 * All calls but destroy are collective, from the thread that drives the executor.
 */
#ifndef PST_CHECKPOINT_SAVER_H
#define PST_CHECKPOINT_SAVER_H

#include "checkpoint/checkpoint.h"
#include "exec/exec.h"
#include "job/training.h"
#include "session/session.h"

struct pst_saver;

/* One save that has ended. */
struct pst_save_report {
    uint64_t step;
    const char *path;               /* of the folder */
    uint64_t bytes;                 /* of all files */
    uint64_t blocked_ns, ns;        /* that the run waited; until the save was complete */
    const struct pst_error *failed; /* NULL: it is complete */
};

struct pst_saver_config {
    const struct pst_session *session; /* with its plan; outlives the saver */
    uint64_t data_digest;
    uint64_t first_step; /* the run resumes from it; 0: a new run */
    void *context;
    void (*saved)(void *context, const struct pst_save_report *report); /* NULL: nobody listens */
};

/* The state of the run after a step. */
struct pst_save_moment {
    uint64_t step, samples, epoch, updates;
    uint32_t skipped; /* of the last steps, in a row */
    struct pst_checkpoint_counts counts;
    uint64_t step_ns; /* what a step takes */
    bool drained;     /* where the rule would not have */
};

/*
 * Takes the folder of [checkpoint] for this run, which it makes if need be: locks it, removes what
 * was left half-written, sees that there is room on the disk. Errors: output.locked, output.write
 * (exit 2), config.value where the folder has later steps than the run begins with,
 * machine.threads.
 */
pst_status pst_saver_create(const struct pst_saver_config *config, struct pst_saver **ret_saver,
                            struct pst_error *err);
/* Finishes the save that is being written if it needs no other process, else removes it. */
void pst_saver_destroy(struct pst_saver *saver); /* accepts NULL */

/* Once, before the first step: touches the memory for copies and measures how long copying takes.
 */
pst_status pst_saver_begin(struct pst_saver *saver, struct pst_exec *exec, struct pst_error *err);

/* Called after a step: continues the save that is being written, and reports a save that has ended.
   output.write (exit 1) after three failures in a row. */
pst_status pst_saver_poll(struct pst_saver *saver, const struct pst_save_moment *moment,
                          struct pst_error *err);
/* Shall the state after this step be saved, by save_every? */
bool pst_saver_is_due(const struct pst_saver *saver, uint64_t step);

/* Copies the state; nothing is in flight. Where the last save is still being written it waits for
   it, or with checkpoint.busy = "skip" leaves this one out and says so; `must`: it waits. */
pst_status pst_saver_save(struct pst_saver *saver, const struct pst_save_moment *moment, bool must,
                          struct pst_error *err);
/* The step of the last copies; if there are none, the step that the run resumed from. */
uint64_t pst_saver_last(const struct pst_saver *saver);
/* Waits for what is being written. */
pst_status pst_saver_finish(struct pst_saver *saver, struct pst_error *err);
/* The last save that ended failed: output.write (exit 1), with the folder and the reason. */
pst_status pst_saver_lost(const struct pst_saver *saver, struct pst_error *err);
/* The newest step that --resume auto can load; false: there is none. Nothing is being written. */
bool pst_saver_can_resume(const struct pst_saver *saver, uint64_t *ret_step);

#endif
