/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes choose a model, sizes and strategies of the tree. What comes out is a legal plan that is
 * the same read back, or a refusal that is nobody's fault.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "sessions.h"

/* Without those that search for seconds. */
static const char *const partitioners[] = {"uniform", "greedy", "chain-dp", "graphpipe",
                                           "pipedream"};
static const char *const schedulers[] = {
    "gpipe",         "1f1b",      "interleaved", "group-interleaved",
    "looped-bfs",    "zb-h1",     "zb-h2",       "zbv",
    "v-min",         "v-half",    "v-zb",        "1f1b-v",
    "2bw",           "dualpipev", "per-stage",   "pipedream",
    "interleaved-zb"};
static const char *const memopts[] = {"none",  "full",  "sqrt",    "selective", "offload",
                                      "vpipe", "rotor", "adapipe", "bpipe",     "dawnpiper"};
static const char *const models[] = {
    "use='mlp'\ninputs=3\nhidden=4\nclasses=2\nlayers=%u\n",
    "use='gpt'\ndim=8\nheads=2\ncontext=4\nvocab=7\nlayers=%u\n",
    "use='mmt'\nbranches=2\ndim=8\nheads=2\ncontext=4\nvocab=7\nlayers=%u\n",
    "use='resnet'\nimage=8\nwidth=4\nstages=2\nclasses=3\nblocks=%u\n",
};

#define ONE_OF(list, byte) (list)[(byte) % (sizeof(list) / sizeof *(list))]

enum {
    MODEL,
    LAYERS,
    DEVICES,
    MICRO,
    TIMES,
    DEGREE,
    PARTITIONER,
    SCHEDULER,
    MEMOPT,
    MEMORY,
    PARALLEL,
    N
};

void fuzz_begin(void)
{
    for (uint8_t i = 0; i < sizeof schedulers / sizeof *schedulers; i++) {
        const uint8_t bytes[N] = {i, i, i, 1, 8, i % 2, i, i, i, 0, (uint8_t)(i + 3)};

        fuzz_keep(bytes, sizeof bytes);
    }
}

static void describe(const uint8_t *b, char *text, size_t size)
{
    uint32_t micro = b[MICRO] % 4 + 1u, degree = b[DEGREE] % 2 + 1u;
    uint32_t tensor = 1u << (b[PARALLEL] % 4 / 2);
    size_t n = 0;

    n += (size_t)snprintf(text, size, "[model]\n");
    n += (size_t)snprintf(text + n, size - n, ONE_OF(models, b[MODEL]), b[LAYERS] % 3 + 1u);
    snprintf(text + n, size - n,
             "[data]\nkind='synthetic'\n[run]\ndevice='emulated'\n[plugins]\nisolate='never'\n"
             "[train]\nclip=0\non_non_finite='stop'\nmicrobatch=%u\nbatch=%u\ndegrees=[%u]\n"
             "[cluster]\nhost_bandwidth='1 GB/s'\ndevices=%u\nmemory='%u KiB'\n"
             "[parallel]\ntensor=%u\nsequence=%s\nzero=%u\n"
             "[partitioner]\nuse='%s'\n[scheduler]\nuse='%s'\n[[memopt]]\nuse='%s'\n",
             micro * degree, micro * degree * (b[TIMES] % 12 + 1u), degree,
             (b[DEVICES] % 5 + 1u) * tensor, b[MEMORY] == 0 ? 1u << 20 : 4u * b[MEMORY], tensor,
             tensor > 1 && b[PARALLEL] % 8 < 4 ? "true" : "false", b[PARALLEL] % 16 / 8,
             ONE_OF(partitioners, b[PARTITIONER]), ONE_OF(schedulers, b[SCHEDULER]),
             ONE_OF(memopts, b[MEMOPT]));
}

/* Its file is read as the same plan, and is legal. */
static void read_back(struct pst_session *session)
{
    struct pst_error err = {0};
    char *text, *again;

    if (!fuzz_judge(pst_session_predict(session, &err), &err)) {
        fuzz_fail("it cannot be timed: %s", err.message);
    }
    text = pst_plan_to_json(session->planned.plan, session->graph);
    fuzz_session_reset(session);
    if (!fuzz_judge(pst_session_plan(session, fuzz_file(text, strlen(text)), NULL, &err), &err)) {
        fuzz_fail("its plan is refused: %s\n%s", err.message, err.details);
    }
    again = pst_plan_to_json(session->planned.plan, session->graph);
    if (strstr(again, "\"stages\"") == NULL ||
        strcmp(strstr(text, "\"stages\""), strstr(again, "\"stages\"")) != 0) {
        fuzz_fail("there and back the plan is another:\n%s\n%s", text, again);
    }
    free(again);
    free(text);
    fuzz_session_reset(session);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pst_session *session;
    struct pst_error err = {0};
    char toml[1024];

    if (size != N) {
        return 0;
    }
    describe(data, toml, sizeof toml);
    session = fuzz_session_open(toml, &err);
    if (session == NULL && (pst_error_exit_code(&err) != 2 || data[PARALLEL] == 0)) {
        fuzz_fail("%s\n%s", err.message, toml);
    } else if (session == NULL) { /* a model that has no parts */
        return 0;
    }
    if (fuzz_judge(fuzz_session_search(session, &session->planned, &err), &err)) {
        read_back(session);
    } else if (pst_error_exit_code(&err) > 2) {
        fuzz_fail("exit code %d: %s\n%s\n%s", pst_error_exit_code(&err), err.message, err.details,
                  toml);
    }
    fuzz_session_close(session);
    return 0;
}
