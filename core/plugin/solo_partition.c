/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/solo_partition.h"

#include <stdlib.h>
#include <string.h>

#include "plugin/child.h"
#include "plugin/solo_partition_state.h"

pst_status pst_partition_solo_run(const struct pst_partition_job *job, bool (*cancelled)(void),
                                  struct pst_partition_result *ret_result, struct pst_error *err)
{
    struct pst_partition_answer answer = {.n_stages = 0};
    pst_status st = pst_partition_ask(job, cancelled, &answer, err);

    if (st == PST_OK) {
        st = pst_partition_judge(job, &answer, ret_result, err);
    }
    pst_partition_answer_finish(&answer);
    return st;
}

pst_status pst_partition_solo_run_apart(const struct pst_partition_job *job,
                                        const struct pst_solo_limits *limits,
                                        struct pst_partition_result *ret_result,
                                        struct pst_error *err)
{
    struct pst_partition_answer answer = {.n_stages = 0};
    struct pst_worker_task task = {.time_limit_ns = limits->time_ns,
                                   .memory_limit_bytes = limits->memory_bytes,
                                   .cancelled = limits->cancelled,
                                   .time_limit_name = "--time-limit"};
    char *question = NULL, *reply = NULL;
    size_t length = 0;
    pst_status st = pst_partition_job_pack(job, &question, &task.job_length, err);

    if (st == PST_OK) {
        task.job = question;
        st = pst_worker_run(&task, &reply, &length, err);
    }
    if (st == PST_OK) {
        st = pst_partition_answer_unpack(reply, length, &answer, err);
    }
    if (st == PST_OK) {
        st = pst_partition_judge(job, &answer, ret_result, err);
    }
    pst_partition_answer_finish(&answer);
    free(reply);
    free(question);
    return st;
}

void pst_partition_solo_serve(const char *text, size_t length)
{
    struct pst_partition_answer answer = {.n_stages = 0};
    struct pst_arena arena = {0};
    struct pst_error err = {0};
    struct pst_partition_job job;
    struct pst_problem problem;
    char *bytes = NULL;
    size_t n = 0;
    pst_status st = pst_partition_job_unpack(text, length, &arena, &problem, &job, &err);

    if (st == PST_OK) {
        pst_worker_started();
        st = pst_partition_ask(&job, pst_worker_stopped, &answer, &err);
    }
    if (st == PST_OK) {
        st = pst_partition_answer_pack(&answer, &bytes, &n, &err);
    }
    pst_worker_answer(st == PST_OK ? bytes : NULL, n, &err);
}

void pst_partition_result_finish(struct pst_partition_result *result)
{
    pst_arena_finish(&result->arena);
    memset(result, 0, sizeof *result);
}
