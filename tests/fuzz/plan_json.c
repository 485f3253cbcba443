/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan file: read, proven, timed and held against the memory. The first byte says for which
 * session.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "reports/plan_report.h"
#include "sessions.h"

static FILE *nowhere;

void fuzz_begin(void)
{
    nowhere = fopen("/dev/null", "w");
    fuzz_sessions_begin();
    for (uint32_t i = 0; i < FUZZ_SESSIONS; i++) {
        struct pst_planned planned;
        struct pst_error err = {0};
        char *text;

        if (!fuzz_judge(fuzz_session_search(fuzz_sessions[i], &planned, &err), &err)) {
            fuzz_fail("session %u: %s", i, err.message);
        }
        text = pst_plan_to_json(planned.plan, fuzz_sessions[i]->graph);
        fuzz_keep_behind(i, text, strlen(text));
        free(text);
        pst_planned_finish(&planned);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pst_session *session = fuzz_sessions[size == 0 ? 0 : data[0] % FUZZ_SESSIONS];
    struct pst_error err = {0};
    struct pst_json json = {0};

    if (size == 0) {
        return 0;
    }
    if (fuzz_judge(pst_session_plan(session, fuzz_file(data + 1, size - 1), NULL, &err), &err)) {
        pst_plan_report_print(session, NULL, false, nowhere);
        pst_plan_report_json(session, NULL, &json);
        pst_json_finish(&json);
    }
    fuzz_session_reset(session);
    return 0;
}
