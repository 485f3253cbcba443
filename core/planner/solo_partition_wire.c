/* SPDX-License-Identifier: Apache-2.0
 *
 * A question of a problem file and a partitioner's answer on the way to its process and back.
 */
#include <float.h>
#include <stdlib.h>

#include "planner/solo_partition_state.h"

#define WORD "pst-part"

/* --- the question ------------------------------------------------------------------------------*/

/* JSON by its text, which is freed; returns what was read. */
static json_t *pass_json(struct pst_wire *w, char *text)
{
    const char *sent = text;

    pst_wire_text(w, &sent);
    free(text);
    return w->reads && sent != NULL ? json_loads(sent, 0, NULL) : NULL;
}

static void pass_options(struct pst_wire *w, json_t **options)
{
    char *text = w->reads || *options == NULL ? NULL : json_dumps(*options, JSON_COMPACT);
    json_t *read;

    w->failed |= !w->reads && *options != NULL && text == NULL;
    read = pass_json(w, text);
    *options = w->reads ? read : *options;
}

static void pass_graph(struct pst_wire *w, struct pst_costed **graph)
{
    size_t length;
    char *text = w->reads ? NULL : pst_costed_write(*graph, &length);
    json_t *read;

    w->failed |= !w->reads && text == NULL;
    read = pass_json(w, text);
    if (w->reads) {
        *graph = NULL;
        w->failed |= read == NULL || pst_costed_parse(read, "", "", graph, NULL) != PST_OK;
    }
    json_decref(read);
}

/* Its numbers as they are; what its pointers lead to, behind them. */
static void pass_problem(struct pst_wire *w, struct pst_problem *problem)
{
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
}

static void pass_job(struct pst_wire *w, struct pst_problem_job *job, struct pst_problem *problem)
{
    pst_wire_text(w, &job->id);
    pst_wire_text(w, &job->path);
    pass_problem(w, problem);
    job->problem = problem;
}

pst_status pst_problem_ask_apart(const char *word, const struct pst_problem_job *job_,
                                 const struct pst_solo_limits *limits, char **ret_reply,
                                 size_t *ret_length, struct pst_error *err)
{
    struct pst_problem problem = *job_->problem;
    struct pst_wire question = {.reads = false};
    struct pst_problem_job job = *job_;

    pst_wire_word(&question, word);
    pass_job(&question, &job, &problem);
    return pst_solo_ask_apart(limits, &question, ret_reply, ret_length, err);
}

pst_status pst_problem_take(struct pst_wire *question, struct pst_problem *problem,
                            struct pst_problem_job *ret_job, struct pst_error *err)
{
    *ret_job = (struct pst_problem_job){.id = NULL};
    pass_job(question, ret_job, problem);
    if (!pst_wire_is_read(question)) {
        return pst_fail(err, PST_ERR_BUG, "internal", "half a question");
    }
    pst_worker_started();
    return PST_OK;
}

/* --- the answer --------------------------------------------------------------------------------*/

/* Those that the scheduler of a planned problem wants, or a place a device. */
static void take_places(struct pst_wire *r, const struct pst_problem *problem, uint32_t n,
                        const uint32_t *device_of, struct pst_partition_places *places)
{
    uint32_t most = problem->n_devices;
    uint32_t *shared = calloc((size_t)most + 1, sizeof *shared);

    *places = (struct pst_partition_places){.n_places = n == 0 ? most : n,
                                            .n_stages = n,
                                            .shared = 1,
                                            .device_of = n == 0 ? NULL : device_of};
    r->failed |= shared == NULL || (n > 0 && !problem->planned);
    for (uint32_t i = 0; !r->failed && i < n; i++) {
        uint32_t d = device_of[i], now = d < most ? ++shared[d] : 0;

        places->shared = now > places->shared ? now : places->shared;
        r->failed = d >= most;
    }
    free(shared);
}

static void pass_stages(struct pst_wire *w, struct pst_partition_answer *answer)
{
    pst_wire_count(w, &answer->n_stages, 2 * sizeof(uint64_t));
    if (w->reads) {
        answer->stages = calloc((size_t)answer->n_stages + 1, sizeof *answer->stages);
        w->failed |= answer->stages == NULL || answer->n_stages == 0 ||
                     (answer->places.n_stages != 0 && answer->n_stages != answer->places.n_stages);
    }
    for (uint32_t s = 0; !w->failed && s < answer->n_stages; s++) {
        struct pst_partition_decl *stage = &answer->stages[s];

        pst_wire_uints(w, &stage->nodes, &stage->n_nodes);
        pst_wire_uints(w, &stage->ranks, &stage->n_ranks);
        pst_wire_uint(w, &stage->microbatch_size);
        pst_wire_uint(w, &stage->k);
        pst_wire_uint(w, &stage->in_flight);
        pst_wire_amount(w, &stage->compute_ns, PST_WIRE_COUNT);
        pst_wire_amount(w, &stage->memory_bytes, PST_WIRE_COUNT);
        w->failed |= w->reads && answer->planned && stage->in_flight == 0;
    }
}

static void pass_answer(struct pst_wire *w, const struct pst_problem *problem,
                        struct pst_partition_answer *answer)
{
    const uint32_t *device_of = answer->places.device_of;
    uint32_t n = device_of == NULL ? 0 : answer->places.n_places;

    pst_wire_word(w, WORD);
    pst_wire_name(w, answer->id, sizeof answer->id);
    pst_wire_name(w, answer->version, sizeof answer->version);
    pst_wire_amount(w, &answer->search_seconds, PST_WIRE_SECONDS);
    pst_wire_amount(w, &answer->step_ns, DBL_MAX);
    pst_wire_uints(w, &device_of, &n);
    if (w->reads && !w->failed) {
        take_places(w, problem, n, device_of, &answer->places);
    }
    pass_stages(w, answer);
    pst_remarks_pass(w, &answer->remarks, &answer->n_remarks);
}

void pst_partition_answer_put(struct pst_wire *w, const struct pst_partition_answer *answer)
{
    struct pst_partition_answer sent = *answer;

    pass_answer(w, NULL, &sent);
}

pst_status pst_partition_answer_take(const char *bytes, size_t length,
                                     const struct pst_problem_job *job,
                                     struct pst_partition_answer *ret_answer, struct pst_error *err)
{
    struct pst_partition_answer answer = {.planned = job->problem->planned};
    struct pst_wire r = pst_wire_read(bytes, length, &answer.arena);

    pass_answer(&r, job->problem, &answer);
    if (!pst_wire_is_read(&r)) {
        pst_partition_answer_finish(&answer);
        return pst_wire_refuse("partitioner", job->id, job->path, err);
    }
    *ret_answer = answer;
    return PST_OK;
}

/* --- the two processes -------------------------------------------------------------------------*/

static pst_status serve(struct pst_wire *question, struct pst_wire *answer, struct pst_error *err)
{
    struct pst_partition_answer found = {.n_stages = 0};
    struct pst_problem_job job;
    struct pst_problem problem;
    pst_status st = pst_problem_take(question, &problem, &job, err);

    if (st == PST_OK) {
        st = pst_partition_ask(&job, pst_worker_stopped_or_late, &found, err);
    }
    if (st == PST_OK) {
        pst_partition_answer_put(answer, &found);
    }
    return st;
}

const struct pst_worker_service pst_partition_service = {WORD, serve};

pst_status pst_partition_ask_apart(const struct pst_problem_job *job,
                                   const struct pst_solo_limits *limits,
                                   struct pst_partition_answer *ret_answer, struct pst_error *err)
{
    char *reply = NULL;
    size_t length = 0;
    pst_status st = pst_problem_ask_apart(WORD, job, limits, &reply, &length, err);

    if (st == PST_OK) {
        st = pst_partition_answer_take(reply, length, job, ret_answer, err);
    }
    free(reply);
    return st;
}
