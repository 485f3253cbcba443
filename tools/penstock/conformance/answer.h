/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking a plugin one question, and judging what it says: whatever the kind, an answer is a status,
 * a record of everything that was answered, and the first rule that it breaks.
 */
#ifndef PST_CONFORMANCE_ANSWER_H
#define PST_CONFORMANCE_ANSWER_H

#include "conformance/rig.h"
#include "conformance/traces.h"

struct pst_answer {
    pst_status status;
    bool asynchronous; /* a scheduler whose answers come in parts */
    char call[32];     /* the function that gave the status: "schedule()" */
    char broken[320];  /* the rule that the answer breaks, or "" */
    uint8_t *record;   /* what was answered, in order */
    size_t n_record, room;
    struct pst_traces before; /* the call in progress */
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

/* Begin and end of one call: who is to blame, and what came back. */
void pst_ask_begin(struct pst_answer *answer, const char *function);
bool pst_ask_end(struct pst_answer *answer, const struct pst_rig *rig,
                 const struct pst_region *region, pst_status status);

/* One per kind. */
void pst_ask_partitioner(struct pst_rig *rig, const struct pst_case *question,
                         struct pst_region *region, struct pst_answer *answer);
void pst_ask_scheduler(struct pst_rig *rig, const struct pst_case *question,
                       struct pst_region *region, struct pst_answer *answer);
void pst_ask_memopt(struct pst_rig *rig, const struct pst_case *question, struct pst_region *region,
                    struct pst_answer *answer);

#endif
