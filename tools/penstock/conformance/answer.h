/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking a plugin one question in the planner's way, and judging what it does: whatever the kind,
 * an answer is a status, a record of everything that was answered, and the first rule that it
 * breaks.
 */
#ifndef PST_CONFORMANCE_ANSWER_H
#define PST_CONFORMANCE_ANSWER_H

#include "conformance/rig.h"
#include "conformance/traces.h"

struct pst_answer {
    pst_status status;
    char broken[1024]; /* the rule that the answer breaks, or "" */
    uint8_t *record;   /* what was answered, in order */
    size_t n_record, room;
    struct pst_traces before; /* the first call */
    const char *folder;       /* where no file may be */
};

void pst_answer_finish(struct pst_answer *answer);

/* The first one counts. */
void pst_answer_break(struct pst_answer *answer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void pst_answer_record(struct pst_answer *answer, uint64_t value);
bool pst_answer_equal(const struct pst_answer *a, const struct pst_answer *b);

/* Asks by the plugin's kind. The answer is empty before and to be finished afterwards. */
void pst_ask_plugin(struct pst_rig *rig, const struct pst_case *question,
                    struct pst_answer *ret_answer);
/* "schedule()": the plugin's function that was called last. */
const char *pst_answer_call(void);
/* Behind each call of a plugin: what it left in the process breaks the answer that is asked for. */
void pst_answer_watch(void);

/* answer_schedule.c: a scheduler's orders, asked for and run. */
pst_status pst_ask_scheduler(struct pst_rig *rig, const struct pst_case *question,
                             struct pst_answer *answer, struct pst_error *err);
/* answer_data.c: samples of a data plugin, read in several ways. */
pst_status pst_ask_data(struct pst_rig *rig, const struct pst_case *question,
                        struct pst_answer *answer, struct pst_error *err);

#endif
