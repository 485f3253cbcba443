/* SPDX-License-Identifier: Apache-2.0 */
#include "ask/problem_job.h"

#include <math.h>
#include <stdlib.h>

/* The problem goes as a file. Two numbers follow it: memory_bytes, which may be one that a plugin
   named and beyond what a file may say; and stage_samples, which follows from an order that is
   lost. */
void pst_problem_job_pass(struct pst_wire *w, void *job_)
{
    struct pst_problem_job *job = job_;
    struct pst_problem *problem = NULL, unlimited = {.memory_bytes = 0};
    char *written = NULL;
    const char *text;

    if (!w->reads) {
        problem = (struct pst_problem *)(uintptr_t)job->problem; /* which is only read */
        unlimited = *problem;
        unlimited.memory_bytes = INFINITY;
        written = pst_problem_write(&unlimited);
    }
    text = written;
    pst_wire_text(w, &job->id);
    pst_wire_text(w, &job->path);
    pst_wire_text(w, &text);
    free(written);
    if (w->reads && (text == NULL || pst_problem_parse(text, &problem, NULL) != PST_OK)) {
        w->failed = true;
        return;
    }
    pst_wire_bytes(w, &problem->memory_bytes, sizeof problem->memory_bytes);
    pst_wire_uint(w, &problem->stage_samples);
    job->problem = problem;
}
