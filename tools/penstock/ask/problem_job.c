/* SPDX-License-Identifier: Apache-2.0 */
#include "ask/problem_job.h"

#include <stdlib.h>

#include "base/json.h"
#include "models/costed/costed_file.h"

/* JSON by its text. */
static void pass_options(struct pst_wire *w, json_t **options)
{
    char *written = w->reads || *options == NULL ? NULL : pst_json_text(*options);
    const char *text = written;

    pst_wire_text(w, &text);
    free(written);
    if (w->reads) {
        *options = text == NULL ? NULL : json_loads(text, 0, NULL);
    }
}

static void pass_graph(struct pst_wire *w, struct pst_costed **graph)
{
    size_t length;
    char *written = w->reads ? NULL : pst_costed_write(*graph, &length);
    const char *text = written;
    json_t *read;

    pst_wire_text(w, &text);
    free(written);
    if (w->reads) {
        read = text == NULL ? NULL : json_loads(text, 0, NULL);
        *graph = NULL;
        w->failed |= read == NULL || pst_costed_parse(read, "", "", graph, NULL) != PST_OK;
        json_decref(read);
    }
}

/* Its numbers as they are; what its pointers lead to, behind them. */
void pst_problem_job_pass(struct pst_wire *w, void *job_)
{
    struct pst_problem_job *job = job_;
    struct pst_problem *problem = pst_arena_alloc(w->arena, sizeof *problem, 0);

    pst_wire_text(w, &job->id);
    pst_wire_text(w, &job->path);
    if (!w->reads) {
        *problem = *job->problem;
    }
    pst_wire_bytes(w, problem, sizeof *problem);
    if (w->reads) {
        problem->arena = (struct pst_arena){NULL, 0, 0};
        problem->path = NULL;
    }
    pst_wire_uints(w, &problem->micro_batches, &problem->n_micro_batches);
    pst_wire_uints(w, &problem->degrees, &problem->n_degrees);
    pst_wire_text(w, &problem->scheduler);
    pst_wire_text(w, &problem->memopt);
    pass_options(w, &problem->options);
    pass_options(w, &problem->scheduler_options);
    pass_options(w, &problem->memopt_options);
    pass_graph(w, &problem->graph);
    job->problem = problem;
}
