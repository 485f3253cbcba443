/* SPDX-License-Identifier: Apache-2.0 */
#include "sessions.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "job_defaults.h"
#include "session/groups.h"

/* A session and what it borrows. */
struct owned {
    struct pst_config *config;
    struct pst_job job;
    struct pst_session *session;
};

#define MLP                "use='mlp'\ninputs=3\nhidden=4\nlayers=4\nclasses=2\n"
#define GPT                "use='gpt'\ndim=8\nheads=2\ncontext=4\nvocab=7\nlayers=2\n"
#define JOB(devices, rest) MODEL_JOB(MLP, devices, rest)
#define MODEL_JOB(model, devices, rest)                                                            \
    "[model]\n" model                                                                              \
    "[data]\nkind='synthetic'\n[run]\ndevice='emulated'\n[plugins]\nisolate='never'\n"             \
    "[partitioner]\nuse='uniform'\n[cluster]\nhost_bandwidth='1 GB/s'\ndevices=" devices "\n" rest

static const char *const jobs[FUZZ_SESSIONS] = {
    JOB("2", "[train]\nbatch=4\nmicrobatch=1\n[scheduler]\nuse='1f1b'\n"),
    JOB("4", "[train]\nbatch=4\nmicrobatch=2\ndegrees=[2]\n[scheduler]\nuse='gpipe'\n"),
    JOB("2", "[train]\nbatch=4\nmicrobatch=1\n[scheduler]\nuse='interleaved'\nchunks=2\n"
             "[[memopt]]\nuse='full'\n"),
    JOB("2", "[train]\nbatch=2\nmicrobatch=1\n[scheduler]\nuse='zb-h1'\n[[memopt]]\n"
             "use='offload'\n"),
    JOB("2", "[train]\nbatch=4\nmicrobatch=2\n[scheduler]\nuse='2bw'\n"),
    JOB("2", "[train]\nbatch=2\nmicrobatch=1\nclip=0\non_non_finite='stop'\n[scheduler]\nuse='"
             "pipedream'\n"),
    JOB("1", "[train]\nbatch=2\nmicrobatch=1\nclip=1\n[scheduler]\nuse='gpipe'\n[[memopt]]\n"
             "use='rotor'\n"),
    JOB("4", "[train]\nbatch=8\nmicrobatch=1\n[scheduler]\nuse='1f1b'\n[[memopt]]\nuse='bpipe'\n"),
    JOB("4", "[train]\nbatch=4\nmicrobatch=1\n[parallel]\ntensor=2\n[scheduler]\nuse='1f1b'\n"),
    MODEL_JOB(GPT, "8",
              "[train]\nbatch=4\nmicrobatch=2\ndegrees=[2]\n[parallel]\ntensor=2\nsequence=true\n"
              "zero=1\n[scheduler]\nuse='zb-h1'\n"),
};

struct pst_session *fuzz_sessions[FUZZ_SESSIONS];

struct pst_session *fuzz_session_open(const char *toml, struct pst_error *err)
{
    struct owned *owned = calloc(1, sizeof *owned);
    pst_status st = owned == NULL
                        ? PST_ERR_NOMEM
                        : pst_config_parse(toml, strlen(toml), "fuzz.toml", &owned->config, err);

    if (st == PST_OK) {
        st = pst_job_read(owned->config, &owned->job, err);
        owned->job.advice = PST_ADVICE_NONE;
        if (st == PST_OK) {
            st = pst_session_create_for_planning(&owned->job, &owned->session, err);
        }
        if (st == PST_OK) {
            return owned->session;
        }
        pst_job_finish(&owned->job);
        pst_config_destroy(owned->config);
    }
    free(owned);
    fuzz_judge(st, err);
    return NULL;
}

void fuzz_session_close(struct pst_session *session)
{
    struct owned *owned =
        (struct owned *)(uintptr_t)((const char *)session->job - offsetof(struct owned, job));

    pst_session_destroy(session);
    pst_job_finish(&owned->job);
    pst_config_destroy(owned->config);
    free(owned);
}

pst_status fuzz_session_search(struct pst_session *session, struct pst_planned *ret_planned,
                               struct pst_error *err)
{
    struct pst_groups groups;
    pst_status st;

    pst_groups_describe(session, 0, &groups);
    st = pst_planner_run(session->job, session->graph, &groups.cluster, &groups.cost,
                         pst_predict_step, NULL, ret_planned, err);
    if (st == PST_OK) {
        pst_groups_expand(session, ret_planned);
    }
    return st;
}

void fuzz_session_reset(struct pst_session *session)
{
    pst_planned_finish(&session->planned);
    session->predicted_ns = 0;
    session->judged = false;
}

void fuzz_sessions_begin(void)
{
    for (uint32_t i = 0; i < FUZZ_SESSIONS; i++) {
        struct pst_error err = {0};

        fuzz_sessions[i] = fuzz_session_open(jobs[i], &err);
        if (fuzz_sessions[i] == NULL) {
            fuzz_fail("session %u: %s", i, err.message);
        }
    }
}
