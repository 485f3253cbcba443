/* SPDX-License-Identifier: Apache-2.0 */
#include "conformance/answer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "conformance/verdict.h"

#define REGION_BYTES ((size_t)4 << 20) /* more than the largest question takes */

void pst_answer_finish(struct pst_answer *answer)
{
    free(answer->record);
    memset(answer, 0, sizeof *answer);
}

void pst_answer_break(struct pst_answer *answer, const char *format, ...)
{
    va_list args;

    if (answer->broken[0] == '\0') {
        va_start(args, format);
        vsnprintf(answer->broken, sizeof answer->broken, format, args);
        va_end(args);
    }
}

void pst_answer_record(struct pst_answer *answer, uint64_t value)
{
    while (answer->room < answer->n_record + sizeof value) {
        if (!pst_grow(&answer->record, &answer->room, answer->n_record + sizeof value, 1)) {
            pst_verdict_skip("the checker ran out of memory");
        }
    }
    memcpy(answer->record + answer->n_record, &value, sizeof value);
    answer->n_record += sizeof value;
}

bool pst_answer_equal(const struct pst_answer *a, const struct pst_answer *b)
{
    return a->status == b->status && a->n_record == b->n_record &&
           (a->n_record == 0 || memcmp(a->record, b->record, a->n_record) == 0);
}

void pst_ask_begin(struct pst_answer *answer, const char *function)
{
    snprintf(answer->call, sizeof answer->call, "%s", function);
    pst_traces_take(&answer->before);
    pst_verdict_call(function);
}

/* Is this a status that a plugin may give, and does it explain it? */
static void judge_status(struct pst_answer *answer, const struct pst_rig *rig)
{
    switch (answer->status) {
    case PST_OK:
        return;
    case PST_ERR_NOMEM:
        if (!rig->alloc_failed) {
            pst_answer_break(answer, "%s says that there is no memory, but there is", answer->call);
        }
        return;
    case PST_ERR_CANCELLED:
        if (!rig->was_cancelled) {
            pst_answer_break(answer, "%s says that it was cancelled, but it was not", answer->call);
        }
        return;
    case PST_ERR_CONFIG:
    case PST_ERR_INFEASIBLE:
    case PST_ERR_UNSUPPORTED:
        if (rig->said[0] == '\0') {
            pst_answer_break(answer,
                             "%s refuses with status %d and does not say why; call host->fail "
                             "with a message first",
                             answer->call, (int)answer->status);
        }
        return;
    case PST_ERR_BUG:
        pst_answer_break(answer, "%s reports a bug%s%s", answer->call,
                         rig->said[0] != '\0' ? ": " : "", rig->said);
        return;
    default:
        pst_answer_break(answer, "%s returned the status %d, which is none for a plugin",
                         answer->call, (int)answer->status);
    }
}

bool pst_ask_end(struct pst_answer *answer, const struct pst_rig *rig,
                 const struct pst_region *region, pst_status status)
{
    struct pst_traces after;
    const char *left;

    pst_verdict_call(NULL);
    pst_traces_take(&after);
    left = pst_traces_differ(&answer->before, &after, rig->subject->folder);
    answer->status = status;
    pst_answer_record(answer, (uint64_t)(int64_t)status);
    if (!pst_region_intact(region)) {
        pst_answer_break(answer, "%s wrote into its input", answer->call);
    }
    if (rig->broken[0] != '\0') {
        pst_answer_break(answer, "%s: %s", answer->call, rig->broken);
    }
    if (left != NULL) {
        pst_answer_break(answer, "%s leaves %s behind", answer->call, left);
    }
    judge_status(answer, rig);
    return status == PST_OK && answer->broken[0] == '\0';
}

void pst_ask_plugin(struct pst_rig *rig, const struct pst_case *question,
                    struct pst_answer *ret_answer)
{
    static const struct {
        const char *kind;
        void (*ask)(struct pst_rig *, const struct pst_case *, struct pst_region *,
                    struct pst_answer *);
    } kinds[] = {{"partitioner", pst_ask_partitioner},
                 {"scheduler", pst_ask_scheduler},
                 {"memopt", pst_ask_memopt}};
    struct pst_region region;

    memset(ret_answer, 0, sizeof *ret_answer);
    rig->said[0] = '\0';
    pst_region_init(&region, REGION_BYTES);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].kind, rig->subject->plugin->kind) == 0) {
            kinds[i].ask(rig, question, &region, ret_answer);
        }
    }
    rig->graph = NULL;
    pst_region_finish(&region);
}
