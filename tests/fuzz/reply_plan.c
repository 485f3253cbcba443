/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan that comes back from the planner's process, and what the partitioner remarked. The first
 * byte says for which session.
 */
#include "fuzz.h"
#include "sessions.h"
#include "session/isolate.h"

void fuzz_begin(void)
{
    fuzz_sessions_begin();
    for (uint32_t i = 0; i < FUZZ_SESSIONS; i++) {
        const struct pst_plan_job job = {.session = fuzz_sessions[i]};

        fuzz_keep_answer(i, &pst_plan_kind, &job);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pst_session *session = fuzz_sessions[size == 0 ? 0 : data[0] % FUZZ_SESSIONS];
    const struct pst_plan_job job = {.session = session};
    struct pst_error err = {0};

    if (size > 0 &&
        !fuzz_judge(pst_apart_take(&pst_plan_kind, &job, "", (const char *)data + 1, size - 1,
                                   &session->planned, &err),
                    &err) &&
        err.exit_code != 3) {
        fuzz_fail("exit code %d: %s", err.exit_code, err.message);
    }
    fuzz_session_reset(session);
    return 0;
}
