/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/schedule_request.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "commands/commands.h"
#include "commands/solo.h"

#define MAX_UNITS 1e9

/* A number of units as millionths, to the nearest; what is not 0 does not become 0. `up`: to the
   next, so that thirds of a limit are room for thirds. */
static pst_status read_units(const struct pst_cli *cli, const char *option, const char *text,
                             bool up, uint64_t *ret_millionths, struct pst_error *err)
{
    long double value, scaled;
    const char *end;

    if (text == NULL) {
        return PST_OK;
    }
    if (!pst_number_parse_long(text, &end, &value) || *end != '\0' || value < 0 ||
        value > MAX_UNITS) {
        return pst_cli_usage(cli, err, "%s must be a number from 0 to %.0f, not \"%s\"", option,
                             MAX_UNITS, text);
    }
    scaled = value * PST_SOLO_SCALE;
    *ret_millionths = (uint64_t)llroundl(scaled);
    *ret_millionths += up && scaled - (long double)*ret_millionths > 1e-3L ? 1 : 0;
    if (*ret_millionths == 0 && value > 0) {
        return pst_cli_usage(cli, err,
                             "%s %s is less than a millionth of a unit; choose a smaller unit",
                             option, text);
    }
    return PST_OK;
}

/* "f=1,b=2.5": those that are not named stay as they are. */
static pst_status read_cost(const struct pst_cli *cli, const char *text,
                            struct pst_solo_costs *costs, struct pst_error *err)
{
    struct pst_arena arena = {0};
    char *part, *rest = pst_arena_strdup(&arena, text == NULL ? "" : text);
    pst_status st = PST_OK;

    while (st == PST_OK && *rest != '\0') {
        char *comma = strchr(rest, ',');
        uint64_t *cost;

        part = rest;
        rest = comma == NULL ? rest + strlen(rest) : comma + 1;
        if (comma != NULL) {
            *comma = '\0';
        }
        cost = strncmp(part, "f=", 2) == 0   ? &costs->forward_ns
               : strncmp(part, "b=", 2) == 0 ? &costs->backward_input_ns
               : strncmp(part, "w=", 2) == 0 ? &costs->backward_weight_ns
                                             : NULL;
        st = cost == NULL
                 ? pst_cli_usage(
                       cli, err,
                       "--cost is a list such as f=1,b=1,w=1, and \"%s\" is no part of one", part)
                 : read_units(cli, "--cost", part + 2, false, cost, err);
    }
    pst_arena_finish(&arena);
    return st;
}

static pst_status read_chain(const struct pst_cli *cli, struct pst_schedule_request *r,
                             struct pst_error *err)
{
    struct pst_solo_costs *costs = &r->job.costs;
    pst_status st;

    *costs = pst_cli_unit_costs();
    r->job.n_devices = r->n_devices;
    r->job.n_microbatches = r->n_microbatches;
    st = read_cost(cli, r->cost, costs, err);
    if (st == PST_OK) {
        st = read_units(cli, "--comm", r->comm, false, &costs->latency_ns, err);
    }
    if (st == PST_OK) {
        st = read_units(cli, "--memory-limit", r->memory_limit, true, &costs->limit_bytes, err);
    }
    if (st == PST_OK) {
        st = read_units(cli, "--aw", r->aw, false, &costs->saved_weight_bytes, err);
    }
    if (st == PST_OK && costs->saved_weight_bytes > PST_SOLO_SCALE) {
        st = pst_cli_usage(cli, err, "--aw is a part of an activation, from 0 to 1, not %s", r->aw);
    }
    return st;
}

static pst_status read_problem(const struct pst_cli *cli, struct pst_schedule_request *r,
                               struct pst_error *err)
{
    const struct {
        const char *name;
        bool given;
    } others[] = {{"--devices", r->n_devices > 0}, {"--microbatches", r->n_microbatches > 0},
                  {"--cost", r->cost != NULL},     {"--comm", r->comm != NULL},
                  {"--aw", r->aw != NULL},         {"--memory-limit", r->memory_limit != NULL}};
    pst_status st;

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (others[i].given) {
            return pst_cli_usage(cli, err, "--problem and %s exclude each other: the file says it",
                                 others[i].name);
        }
    }
    st = pst_schedule_problem_read(r->problem_file, &r->problem, err);
    if (st == PST_OK) {
        r->job.problem = &r->problem.solo;
        r->job.n_devices = r->problem.solo.in.n_devices;
        r->job.n_microbatches = r->problem.solo.stages[0].n_microbatches;
    }
    return st;
}

pst_status pst_schedule_request_read(struct pst_schedule_request *request,
                                     const struct pst_cli *cli, struct pst_error *err)
{
    pst_status st =
        pst_cli_read_solo(cli, "the scheduler", request->time_limit, &request->time_limit_ns,
                          &request->job.id, &request->job.path, err);

    request->job.options = request->options;
    request->job.barrier = request->barrier;
    request->job.again = true;
    request->n_steps = request->n_steps == 0 ? 1 : request->n_steps;
    if (st == PST_OK) {
        st = request->problem_file != NULL ? read_problem(cli, request, err)
                                           : read_chain(cli, request, err);
    }
    return st;
}

void pst_schedule_request_finish(struct pst_schedule_request *request)
{
    pst_schedule_problem_finish(&request->problem);
}

void pst_schedule_request_units(const struct pst_schedule_request *request,
                                const struct pst_solo_result *result,
                                struct pst_schedule_units *ret_units, char *title, size_t size)
{
    bool problem = request->problem_file != NULL;
    int n = snprintf(title, size, "%s: %u devices, ", result->id, result->solo.in.n_devices);

    n += problem ? snprintf(title + n, size - (size_t)n, "%llu samples",
                            (unsigned long long)request->problem.samples)
                 : snprintf(title + n, size - (size_t)n, "%u micro-batches",
                            result->solo.stages[0].n_microbatches);
    if (request->n_steps > 1) {
        snprintf(title + n, size - (size_t)n, ", %u %s", request->n_steps,
                 result->answer.asynchronous ? "batches" : "steps");
    }
    ret_units->ns = problem ? 1000.0 : (double)result->scale;
    ret_units->bytes = !problem ? (double)result->scale : request->problem.has_bytes ? 0 : 1;
    ret_units->title = title;
}
