/* SPDX-License-Identifier: Apache-2.0
 *
 * A question to one plugin that is answered here, or in a process of its own that may crash, hang
 * or leave. What goes over is said once for each kind of question, for both directions (wire.h).
 */
#ifndef PST_HOST_APART_H
#define PST_HOST_APART_H

#include "host/child.h"

struct pst_apart_kind {
    const char *word;   /* before questions and answers */
    const char *plugin; /* its kind */
    size_t job_size, answer_size;
    void (*pass_job)(struct pst_wire *w, void *job);
    /* `answer` is all zero before and finished behind, whatever this returns. */
    pst_status (*ask)(const void *job, bool (*cancelled)(void), void *answer,
                      struct pst_error *err);
    /* A wire that reads fills an answer that is all zero. Errors: what comes breaks a rule; else a
       failed wire tells that it is no answer. */
    pst_status (*pass_answer)(struct pst_wire *w, const void *job, void *answer,
                              struct pst_error *err);
    void (*finish)(void *answer);
};

/* name: the plugin's id, or its file. limits: those of the process; NULL: in this one, where
   `cancelled` may be NULL as well. Errors: as ask() and pst_worker_ask; plugin.contract, exit code
   3, where what came back is no answer to that job. */
pst_status pst_apart_ask(const struct pst_apart_kind *kind, const void *job, const char *name,
                         const struct pst_worker_task *limits, bool (*cancelled)(void),
                         void *ret_answer, struct pst_error *err);

/* What the process sends back, and how that is read. */
void pst_apart_put(const struct pst_apart_kind *kind, const void *job, void *answer,
                   struct pst_wire *w);
pst_status pst_apart_take(const struct pst_apart_kind *kind, const void *job, const char *name,
                          const char *bytes, size_t length, void *ret_answer,
                          struct pst_error *err);

/* The process: where the job begins with the kind's word, it answers and leaves. */
void pst_apart_serve(const struct pst_apart_kind *kind, const char *job, size_t length);

#endif
