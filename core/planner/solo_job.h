/* SPDX-License-Identifier: Apache-2.0
 *
 * One question to one scheduler from start to end: open it, state the instance, take its answer.
 * In this process, or in one of its own that may crash, hang or leave.
 */
#ifndef PST_PLANNER_SOLO_JOB_H
#define PST_PLANNER_SOLO_JOB_H

#include "graph/problem.h"
#include "host/child.h"
#include "planner/solo.h"

#define PST_SOLO_SCALE 1000000 /* nanoseconds and bytes of a unit of costs before division */

struct pst_solo_job {
    const char *id;          /* NULL: the file's own */
    const char *path;        /* NULL: as found by id */
    const char *options;     /* "key=value,..." or NULL */
    uint32_t n_devices;      /* 0: of the one instance that it answers */
    uint32_t n_microbatches; /* likewise */
    bool barrier;
    bool again; /* ask for twice the micro-batches as well */
    /* A chain that the scheduler places: in millionths of a unit; unused with a problem. */
    struct pst_solo_costs costs;
    /* Stages and links as they are, or NULL. A device of PST_NONE: where the scheduler wants it. */
    const struct pst_solo *problem;
};

struct pst_solo_result {
    char id[64], version[32];
    uint64_t scale; /* nanoseconds and bytes that a unit became; a problem's are as stated: 1 */
    struct pst_solo solo;
    struct pst_orders answer;
    bool has_twice; /* it answered twice the micro-batches as well */
    struct pst_solo twice;
    struct pst_orders twice_answer;
};

/* Errors: of opening and creating the plugin; of pst_solo_chain and pst_solo_schedule; usage where
   a number is missing. `cancelled` may be NULL. */
pst_status pst_solo_job_run(const struct pst_solo_job *job, bool (*cancelled)(void),
                            struct pst_solo_result *ret_result, struct pst_error *err);

/* A problem file put to one partitioner or memory optimizer. */
struct pst_problem_job {
    const char *id;   /* of the plugin */
    const char *path; /* NULL: as found by id */
    const struct pst_problem *problem;
    uint64_t deadline_ns; /* of pst_now_ns, in this process; 0: none */
};

struct pst_solo_limits {
    uint64_t time_ns, memory_bytes; /* 0: none */
    bool (*cancelled)(void);
};

/* Asks a process of its own, by the rules of pst_worker_ask; free() *ret_reply. */
pst_status pst_solo_ask_apart(const struct pst_solo_limits *limits, struct pst_wire *question,
                              char **ret_reply, size_t *ret_length, struct pst_error *err);

/* pst_solo_job_run there. */
pst_status pst_solo_job_run_apart(const struct pst_solo_job *job,
                                  const struct pst_solo_limits *limits,
                                  struct pst_solo_result *ret_result, struct pst_error *err);
void pst_solo_result_finish(struct pst_solo_result *result);

extern const struct pst_worker_service pst_solo_service; /* of that process */

/* What it sends back. */
void pst_solo_result_put(struct pst_wire *w, const struct pst_solo_result *result);
/* plugin.contract, exit code 3, where the bytes are no answer to that job. */
pst_status pst_solo_result_take(const char *bytes, size_t length, const struct pst_solo_job *job,
                                struct pst_solo_result *ret_result, struct pst_error *err);

/* What an instance has beside the job: the scheduler's word. Of n_microbatches a chain has. */
struct pst_solo_placement {
    struct pst_topology topology;
    uint32_t n_devices, n_microbatches, n_stages;
    const uint32_t *device_of; /* [n_stages] */
};

/* The instance of a placement that is sound, without the scheduler. Finish the all-zero *ret_solo
   in any case. */
pst_status pst_solo_job_restate(const struct pst_solo_job *job, const struct pst_solo_placement *at,
                                uint32_t times, uint64_t *ret_scale, struct pst_solo *ret_solo,
                                struct pst_error *err);

#endif
