/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan that comes back from the planner's process, and what the partitioner remarked. The first
 * byte says for which session.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "sessions.h"
#include "train/isolate.h"

void fuzz_begin(void)
{
    fuzz_sessions_begin();
    for (uint32_t i = 0; i < FUZZ_SESSIONS; i++) {
        struct pst_planned planned;
        struct pst_error err = {0};
        char *bytes = NULL;
        size_t n = 0;

        if (!fuzz_judge(fuzz_session_search(fuzz_sessions[i], &planned, &err), &err)) {
            fuzz_fail("session %u: %s", i, err.message);
        }
        pst_isolate_answer(&planned, fuzz_sessions[i]->graph, &bytes, &n);
        fuzz_keep_behind(i, bytes, n);
        free(bytes);
        pst_planned_finish(&planned);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pst_session *session = fuzz_sessions[size == 0 ? 0 : data[0] % FUZZ_SESSIONS];
    struct pst_error err = {0};
    char *answer = size == 0 ? NULL : malloc(size);

    if (answer != NULL) {
        memcpy(answer, data + 1, size - 1);
        answer[size - 1] = '\0';
        if (!fuzz_judge(pst_isolate_adopt(session, answer, size - 1, &err), &err) &&
            err.exit_code != 3) {
            fuzz_fail("exit code %d: %s", err.exit_code, err.message);
        }
        fuzz_session_reset(session);
    }
    free(answer);
    return 0;
}
