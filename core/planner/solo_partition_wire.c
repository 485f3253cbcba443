/* SPDX-License-Identifier: Apache-2.0
 *
 * A partitioner's question and answer as bytes. The graph goes as its file would. What comes back
 * is held against its own counts and the problem's here, and against the rules by whoever judges
 * it.
 */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "planner/solo_partition_state.h"
#include "host/wire.h"

#define MAGIC "pst-part"

/* --- the question ------------------------------------------------------------------------------*/

static void put_text_of(struct pst_writer *w, char *text)
{
    w->failed |= text == NULL;
    pst_write_text(w, text);
    free(text);
}

static void put_options(struct pst_writer *w, const json_t *options)
{
    pst_write_number(w, options != NULL);
    if (options != NULL) {
        put_text_of(w, json_dumps(options, JSON_COMPACT));
    }
}

static void put_sizes(struct pst_writer *w, const uint32_t *sizes, uint32_t n)
{
    pst_write_number(w, n);
    pst_write(w, sizes, n * sizeof *sizes);
}

pst_status pst_partition_job_pack(const struct pst_partition_job *job, char **ret_bytes,
                                  size_t *ret_length, struct pst_error *err)
{
    const struct pst_problem *problem = job->problem;
    struct pst_writer w = {.bytes = NULL};
    size_t length;

    pst_write(&w, MAGIC, sizeof MAGIC);
    pst_write_text(&w, job->id);
    pst_write_text(&w, job->path);
    pst_write(&w, problem, sizeof *problem); /* its numbers; pointers are replaced below */
    put_sizes(&w, problem->micro_batches, problem->n_micro_batches);
    put_sizes(&w, problem->degrees, problem->n_degrees);
    pst_write_text(&w, problem->scheduler);
    pst_write_text(&w, problem->memopt);
    put_options(&w, problem->options);
    put_options(&w, problem->scheduler_options);
    put_options(&w, problem->memopt_options);
    put_text_of(&w, pst_costed_write(problem->graph, &length));
    return pst_write_end(&w, ret_bytes, ret_length, err);
}

bool pst_partition_solo_is(const char *text, size_t length)
{
    return length >= sizeof MAGIC && memcmp(text, MAGIC, sizeof MAGIC) == 0;
}

static json_t *take_options(struct pst_reader *r)
{
    const char *text = pst_read_number(r) != 0 ? pst_read_text(r) : NULL;

    return text == NULL ? NULL : json_loads(text, 0, NULL);
}

static pst_status take_graph(struct pst_reader *r, struct pst_costed **ret_graph,
                             struct pst_error *err)
{
    const char *text = pst_read_text(r);
    json_t *object = text == NULL ? NULL : json_loads(text, 0, NULL);
    pst_status st = object == NULL ? pst_fail(err, PST_ERR_BUG, "internal", "half a question")
                                   : pst_costed_parse(object, "", "", ret_graph, err);

    json_decref(object);
    return st;
}

pst_status pst_partition_job_unpack(const char *bytes, size_t length, struct pst_arena *arena,
                                    struct pst_problem *ret_problem,
                                    struct pst_partition_job *ret_job, struct pst_error *err)
{
    struct pst_reader r = {
        .at = bytes + sizeof MAGIC, .left = length - sizeof MAGIC, .arena = arena};
    struct pst_problem *problem = ret_problem;

    ret_job->id = pst_read_text(&r);
    ret_job->path = pst_read_text(&r);
    ret_job->problem = problem;
    pst_read(&r, problem, sizeof *problem);
    problem->n_micro_batches = pst_read_count(&r, sizeof *problem->micro_batches);
    problem->micro_batches =
        pst_read_array(&r, problem->n_micro_batches, sizeof *problem->micro_batches);
    problem->n_degrees = pst_read_count(&r, sizeof *problem->degrees);
    problem->degrees = pst_read_array(&r, problem->n_degrees, sizeof *problem->degrees);
    memset(&problem->arena, 0, sizeof problem->arena);
    problem->path = NULL;
    problem->graph = NULL;
    problem->scheduler = pst_read_text(&r);
    problem->memopt = pst_read_text(&r);
    problem->options = take_options(&r);
    problem->scheduler_options = take_options(&r);
    problem->memopt_options = take_options(&r);
    return take_graph(&r, &problem->graph, err);
}

/* --- the answer --------------------------------------------------------------------------------*/

pst_status pst_partition_answer_pack(const struct pst_partition_answer *answer, char **ret_bytes,
                                     size_t *ret_length, struct pst_error *err)
{
    struct pst_writer w = {.bytes = NULL};

    pst_write(&w, MAGIC, sizeof MAGIC);
    pst_write(&w, answer->id, sizeof answer->id);
    pst_write(&w, answer->version, sizeof answer->version);
    pst_write(&w, &answer->search_seconds, sizeof answer->search_seconds);
    pst_write(&w, &answer->step_ns, sizeof answer->step_ns);
    put_sizes(&w, answer->places.device_of,
              answer->places.device_of == NULL ? 0 : answer->places.n_places);
    pst_write_number(&w, answer->n_stages);
    for (uint32_t s = 0; s < answer->n_stages; s++) {
        const struct pst_partition_decl *stage = &answer->stages[s];

        put_sizes(&w, stage->nodes, stage->n_nodes);
        put_sizes(&w, stage->ranks, stage->n_ranks);
        pst_write_number(&w, stage->microbatch_size);
        pst_write_number(&w, stage->k);
        pst_write_number(&w, stage->in_flight);
        pst_write(&w, &stage->compute_ns, sizeof stage->compute_ns);
        pst_write(&w, &stage->memory_bytes, sizeof stage->memory_bytes);
    }
    pst_remarks_write(&w, answer->remarks, answer->n_remarks);
    return pst_write_end(&w, ret_bytes, ret_length, err);
}

/* Those that the scheduler of a planned problem wants, or a place a device. */
static void take_places(struct pst_reader *r, const struct pst_problem *problem,
                        struct pst_partition_places *places)
{
    uint32_t n = pst_read_count(r, sizeof(uint32_t)), most = problem->n_devices;
    uint32_t *device_of = pst_read_array(r, n, sizeof *device_of);
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

static void take_stages(struct pst_reader *r, struct pst_partition_answer *answer)
{
    uint32_t n = pst_read_count(r, 2 * sizeof(uint64_t));

    answer->stages = calloc((size_t)n + 1, sizeof *answer->stages);
    r->failed |= answer->stages == NULL;
    for (uint32_t s = 0; !r->failed && s < n; s++) {
        struct pst_partition_decl *stage = &answer->stages[s];

        stage->n_nodes = pst_read_count(r, sizeof *stage->nodes);
        stage->nodes = pst_read_array(r, stage->n_nodes, sizeof *stage->nodes);
        stage->n_ranks = pst_read_count(r, sizeof *stage->ranks);
        stage->ranks = pst_read_array(r, stage->n_ranks, sizeof *stage->ranks);
        stage->microbatch_size = pst_read_uint(r);
        stage->k = pst_read_uint(r);
        stage->in_flight = pst_read_uint(r);
        stage->compute_ns = pst_read_amount(r, PST_WIRE_COUNT);
        stage->memory_bytes = pst_read_amount(r, PST_WIRE_COUNT);
        r->failed |= answer->planned && stage->in_flight == 0;
    }
    answer->n_stages = n;
    r->failed |= n == 0 || (answer->places.n_stages != 0 && n != answer->places.n_stages);
}

pst_status pst_partition_answer_unpack(const char *bytes, size_t length,
                                       const struct pst_partition_job *job,
                                       struct pst_partition_answer *ret_answer,
                                       struct pst_error *err)
{
    struct pst_partition_answer answer = {.planned = job->problem->planned};
    struct pst_reader r = {.at = bytes, .left = length, .arena = &answer.arena};
    char magic[sizeof MAGIC];

    pst_read(&r, magic, sizeof magic);
    r.failed |= memcmp(magic, MAGIC, sizeof magic) != 0;
    pst_read_name(&r, answer.id, sizeof answer.id);
    pst_read_name(&r, answer.version, sizeof answer.version);
    answer.search_seconds = pst_read_amount(&r, PST_WIRE_SECONDS);
    answer.step_ns = pst_read_amount(&r, DBL_MAX);
    if (!r.failed) {
        take_places(&r, job->problem, &answer.places);
    }
    if (!r.failed) {
        take_stages(&r, &answer);
    }
    if (!r.failed) {
        answer.n_remarks = pst_remarks_read(&r, &answer.remarks);
    }
    if (r.failed || r.left > 0) {
        pst_partition_answer_finish(&answer);
        return pst_wire_refuse("partitioner", job->id, job->path, err);
    }
    *ret_answer = answer;
    return PST_OK;
}
