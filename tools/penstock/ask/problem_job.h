/* SPDX-License-Identifier: Apache-2.0
 *
 * A problem file put to one partitioner or memory optimizer.
 */
#ifndef PST_ASK_PROBLEM_JOB_H
#define PST_ASK_PROBLEM_JOB_H

#include "ask/problem_file.h"
#include "host/apart.h"

struct pst_problem_job {
    const char *id;   /* of the plugin */
    const char *path; /* NULL: as found by id */
    const struct pst_problem *problem;
    uint64_t deadline_ns; /* of pst_now_ns, in this process; 0: none */
};

/* On the way to the plugin's process. */
void pst_problem_job_pass(struct pst_wire *w, void *job);

static inline const char *pst_problem_job_name(const struct pst_problem_job *job)
{
    return job->id != NULL ? job->id : job->path;
}

#endif
