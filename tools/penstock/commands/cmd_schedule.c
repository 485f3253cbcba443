/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock schedule NAME`: a scheduler on its own, on numbers instead of a model.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/signals.h"
#include "base/util.h"
#include "commands/ask_plugin.h"
#include "commands/commands.h"
#include "commands/outputs.h"
#include "commands/schedule_problem.h"
#include "commands/searching.h"

/* The request of the command line. */
struct request {
    /* As written; NULL or 0: not given. */
    uint32_t n_devices, n_microbatches, n_steps;
    const char *cost, *comm, *aw, *memory_limit, *options, *problem_file, *time_limit;
    struct pst_cli_outputs outputs;
    const char *csv;
    bool barrier;
    /* As read. */
    struct pst_schedule_job job;
    uint64_t time_limit_ns;
    struct pst_schedule_problem problem;
};

#define MAX_UNITS 1e9

/* A number of units as millionths, to the nearest; what is not 0 does not become 0. `up`: to the
   next, so that thirds of a limit are room for thirds. */
static void read_units(struct pst_cli *cli, const char *option, const char *text, bool up,
                       uint64_t *ret_millionths)
{
    long double value, scaled;
    const char *end;

    if (text == NULL) {
        return;
    }
    if (!pst_number_parse_long(text, &end, &value) || *end != '\0' || value < 0 ||
        value > MAX_UNITS) {
        pst_cli_usage(cli, "%s must be a number from 0 to %.0f, not \"%s\"", option, MAX_UNITS,
                      text);
    }
    scaled = value * PST_SCHEDULE_SCALE;
    *ret_millionths = (uint64_t)llroundl(scaled);
    *ret_millionths += up && scaled - (long double)*ret_millionths > 1e-3L ? 1 : 0;
    if (*ret_millionths == 0 && value > 0) {
        pst_cli_usage(cli, "%s %s is less than a millionth of a unit; choose a smaller unit",
                      option, text);
    }
}

/* "f=1,b=2.5": those that are not named stay as they are. */
static void read_cost(struct pst_cli *cli, const char *text, struct pst_order_question_costs *costs)
{
    struct pst_arena arena = {0};
    char *part, *rest = pst_arena_strdup(&arena, text == NULL ? "" : text);

    while (*rest != '\0') {
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
        if (cost == NULL) {
            pst_cli_usage(
                cli,
                "--cost must be a list such as f=1,b=1,w=1, and \"%s\" is not an element of one",
                part);
        }
        read_units(cli, "--cost", part + 2, false, cost);
    }
    pst_arena_finish(&arena);
}

static void read_chain(struct pst_cli *cli, struct request *r)
{
    struct pst_order_question_costs *costs = &r->job.costs;

    *costs = pst_cli_unit_costs();
    r->job.n_devices = r->n_devices;
    r->job.n_microbatches = r->n_microbatches;
    read_cost(cli, r->cost, costs);
    read_units(cli, "--comm", r->comm, false, &costs->latency_ns);
    read_units(cli, "--memory-limit", r->memory_limit, true, &costs->limit_bytes);
    read_units(cli, "--aw", r->aw, false, &costs->saved_weight_bytes);
    if (costs->saved_weight_bytes > PST_SCHEDULE_SCALE) {
        pst_cli_usage(cli, "--aw must be a fraction of an activation, from 0 to 1, not %s", r->aw);
    }
}

static void read_problem(struct pst_cli *cli, struct request *r)
{
    const struct {
        const char *name;
        bool given;
    } others[] = {{"--devices", r->n_devices > 0}, {"--microbatches", r->n_microbatches > 0},
                  {"--cost", r->cost != NULL},     {"--comm", r->comm != NULL},
                  {"--aw", r->aw != NULL},         {"--memory-limit", r->memory_limit != NULL}};

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (others[i].given) {
            pst_cli_usage(cli, "--problem and %s exclude each other: the file has this setting",
                          others[i].name);
        }
    }
    pst_cli_must_read_problem(cli,
                              pst_schedule_problem_read(r->problem_file, &r->problem, &cli->err));
    r->job.problem = &r->problem.asked;
    r->job.n_devices = r->problem.asked.in.n_devices;
    r->job.n_microbatches = r->problem.asked.stages[0].n_microbatches;
}

static void read_request(struct pst_cli *cli, struct request *request)
{
    pst_cli_read_plugin(cli, "the scheduler", request->time_limit, &request->time_limit_ns,
                        &request->job.id, &request->job.path);
    request->job.options = request->options;
    request->job.barrier = request->barrier;
    request->job.again = true;
    request->n_steps = request->n_steps == 0 ? 1 : request->n_steps;
    (request->problem_file != NULL ? read_problem : read_chain)(cli, request);
}

/* How the answer's figures are to be shown; `title` is where the units' title stands then. */
static void choose_units(const struct request *request, const struct pst_schedule_result *result,
                         struct pst_schedule_units *ret_units, char *title, size_t size)
{
    bool problem = request->problem_file != NULL;
    int n = snprintf(title, size, "%s: %u devices, ", result->id, result->asked.in.n_devices);

    n += problem ? snprintf(title + n, size - (size_t)n, "%llu samples",
                            (unsigned long long)request->problem.samples)
                 : snprintf(title + n, size - (size_t)n, "%u micro-batches",
                            pst_order_question_microbatches(&result->asked));
    if (request->n_steps > 1) {
        snprintf(title + n, size - (size_t)n, ", %u %s", request->n_steps,
                 result->answer.asynchronous ? "batches" : "steps");
    }
    ret_units->ns = problem ? 1000.0 : (double)result->scale;
    ret_units->bytes = !problem ? (double)result->scale : request->problem.has_bytes ? 0 : 1;
    ret_units->title = title;
}

/* --- --memory-limit: is it kept, and if not, which would do? -----------------------------------*/

/* The scheduler's answer under some limit. */
struct trial {
    bool works;
    char id[64];
    uint32_t n_devices, n_microbatches;
    uint64_t peak;  /* bytes */
    uint64_t grain; /* every peak is a multiple of so many bytes */
    uint64_t parts; /* bytes of a millionth of a unit */
    uint64_t least; /* what is sought: millionths of a unit; UINT64_MAX: not known */
};

static pst_status note_peak(const struct request *request, const struct pst_schedule_result *result,
                            struct trial *trial, struct pst_error *err)
{
    uint32_t n_batches = result->answer.asynchronous ? request->n_steps : 1, d;
    struct pst_batches stream = {.passes = NULL};
    struct pst_order_eval eval = {.n_devices = 0};
    pst_status status =
        pst_batches_evaluate(&result->answer, &result->asked.in, n_batches, &stream, &eval, err);

    trial->peak = 0;
    for (d = 0; d < eval.n_devices; d++) {
        trial->peak = eval.peak_bytes[d] > trial->peak ? eval.peak_bytes[d] : trial->peak;
    }
    pst_order_eval_finish(&eval);
    pst_batches_finish(&stream);
    return status;
}

static void note_instance(const struct pst_schedule_result *result, struct trial *trial)
{
    trial->n_devices = result->asked.in.n_devices;
    trial->n_microbatches = pst_order_question_microbatches(&result->asked);
    trial->parts = result->scale / PST_SCHEDULE_SCALE;
    trial->grain = 0;
    for (uint32_t s = 0; s < result->asked.in.n_stages; s++) {
        const struct pst_schedule_stage *stage = &result->asked.stages[s];

        trial->grain = pst_gcd(trial->grain, stage->saved_bytes);
        trial->grain = pst_gcd(trial->grain, stage->saved_weight_bytes);
    }
    snprintf(trial->id, sizeof trial->id, "%s", result->id);
}

/* `limit`: millionths; UINT64_MAX: none. Not to work is no error. */
static pst_status attempt(const struct request *request, uint64_t limit, struct trial *trial,
                          struct pst_error *err)
{
    struct pst_schedule_result result = {.scale = 1};
    struct pst_schedule_job job = request->job;
    pst_status status;

    job.costs.limit_bytes = limit;
    job.again = false;
    trial->works = false;
    status = pst_cli_schedule_run(&job, request->time_limit_ns, &result, err);
    if (pst_stop_requested()) { /* some then answer with what they have */
        pst_schedule_result_finish(&result);
        return pst_stop_fail(err);
    }
    if (status == PST_OK) {
        note_instance(&result, trial);
        status = note_peak(request, &result, trial, err);
        trial->works = status == PST_OK &&
                       (limit >= UINT64_MAX / trial->parts || trial->peak <= limit * trial->parts);
    }
    pst_schedule_result_finish(&result);
    return status == PST_ERR_INFEASIBLE ? PST_OK : status;
}

static uint64_t limit_of(const struct trial *trial, uint64_t n_grains)
{
    return (n_grains * trial->grain + trial->parts - 1) / trial->parts;
}

/* Less than this no order needs: every device holds one micro-batch on all its stages when the last
   stage has it. */
static uint64_t floor_of(const struct request *request)
{
    uint64_t refused = request->job.costs.limit_bytes;

    return refused < PST_SCHEDULE_SCALE ? PST_SCHEDULE_SCALE : refused;
}

/* In grains: above what fails ever further until something works, then between the two. A fixed
   order fails just below its peak, so that comes first. */
static pst_status narrow_memory(const struct request *request, struct trial *trial,
                                struct pst_error *err)
{
    uint64_t low = floor_of(request) * trial->parts / trial->grain, works = 0, step = 1;
    uint64_t next = trial->peak / trial->grain;
    uint64_t most =
        (uint64_t)trial->n_microbatches * trial->parts * PST_SCHEDULE_SCALE / trial->grain;
    pst_status status = PST_OK;

    while (status == PST_OK && next > low && next <= most) {
        bool first = works == 0;

        status = attempt(request, limit_of(trial, next), trial, err);
        works = trial->works ? next : works;
        low = trial->works ? low : next;
        if (works == 0) {
            next += step;
            step *= 2;
        } else {
            next = first ? works - 1 : low + (works - low) / 2;
        }
    }
    trial->least = status == PST_OK && works != 0 ? limit_of(trial, works) : UINT64_MAX;
    return status;
}

static pst_status find_least(const struct request *request, struct trial *trial,
                             struct pst_error *err)
{
    pst_status status = PST_OK;

    trial->least = UINT64_MAX;
    if (request->job.costs.limit_bytes < PST_SCHEDULE_SCALE) {
        status = attempt(request, PST_SCHEDULE_SCALE, trial, err);
        if (status == PST_OK && trial->works) {
            trial->least = PST_SCHEDULE_SCALE;
            return PST_OK;
        }
    }
    PST_TRY(status, attempt(request, UINT64_MAX, trial, err));
    return status == PST_OK && trial->works && trial->grain != 0
               ? narrow_memory(request, trial, err)
               : status;
}

static bool is_asked(const struct request *request)
{
    return request->problem_file == NULL && request->job.costs.limit_bytes != UINT64_MAX;
}

static double units(uint64_t millionths)
{
    return (double)millionths / PST_SCHEDULE_SCALE;
}

/*
 * After a refusal, PST_ERR_INFEASIBLE in *err: where memory is the reason, the message becomes one
 * that names --memory-limit and the smallest that works, found by asking the scheduler again. With
 * another reason, or without the option, *err is left alone.
 */
static pst_status explain_limit(const struct request *request, struct pst_error *err)
{
    struct trial found = {.least = UINT64_MAX};
    struct pst_error why = {.status = PST_OK};
    pst_status status = PST_OK;

    if (is_asked(request)) {
        status = find_least(request, &found, &why);
    }
    if (status == PST_ERR_CANCELLED) {
        *err = why;
        return status;
    }
    if (status != PST_OK || found.least == UINT64_MAX) {
        return PST_ERR_INFEASIBLE;
    }
    pst_fail(err, PST_ERR_INFEASIBLE, "plan.infeasible",
             "scheduler \"%s\" finds no order of %u micro-batch%s on %u device%s within "
             "--memory-limit %.15g; the smallest that works is %.15g",
             found.id, found.n_microbatches, found.n_microbatches == 1 ? "" : "es", found.n_devices,
             found.n_devices == 1 ? "" : "s", units(request->job.costs.limit_bytes),
             units(found.least));
    err->enough_memory_limit = units(found.least);
    return PST_ERR_INFEASIBLE;
}

static pst_status fail_over(const struct request *request, const struct pst_schedule_figures *f,
                            uint32_t device, struct pst_error *err)
{
    uint64_t room = f->stream.in.activation_bytes[device], peak = f->eval.peak_bytes[device];
    double unit = f->bytes_per_unit > 0 ? f->bytes_per_unit : 1;
    struct trial found = {.least = UINT64_MAX};
    char what[64] = "another scheduler may need less";
    pst_status status = is_asked(request) ? find_least(request, &found, err) : PST_OK;

    if (status == PST_ERR_CANCELLED) {
        return status;
    }
    if (status == PST_OK && found.least != UINT64_MAX) {
        snprintf(what, sizeof what, "the smallest that works is %.15g", units(found.least));
    }
    pst_fail(err, PST_ERR_INFEASIBLE, "plan.infeasible",
             "scheduler \"%s\" holds %.15g%s on device %u, more than %s %.15g; %s", f->result->id,
             (double)peak / unit,
             request->problem_file == NULL ? ""
             : request->problem.has_bytes  ? " bytes"
                                           : " samples",
             device, is_asked(request) ? "--memory-limit" : "its memory_bytes,",
             (double)room / unit, what);
    err->enough_memory_limit = found.least == UINT64_MAX ? 0 : units(found.least);
    return PST_ERR_INFEASIBLE;
}

/* A scheduler may not heed the limit. plan.infeasible: device and peak, and what would do. */
static pst_status check_limit(const struct request *request,
                              const struct pst_schedule_figures *figures, struct pst_error *err)
{
    uint64_t most = 0;
    uint32_t device = PST_NONE;

    for (uint32_t d = 0; d < figures->eval.n_devices; d++) {
        uint64_t peak = figures->eval.peak_bytes[d];

        if (peak > figures->stream.in.activation_bytes[d] && peak > most) {
            most = peak;
            device = d;
        }
    }
    return device == PST_NONE ? PST_OK : fail_over(request, figures, device, err);
}

/* --- the command -------------------------------------------------------------------------------*/

static void answer_order(struct pst_cli *cli, const struct request *request,
                         const struct pst_schedule_result *result)
{
    struct pst_schedule_page page = pst_cli_schedule_page(cli);
    struct pst_schedule_figures figures;
    struct pst_schedule_units units;
    char title[160];

    page.in_samples = request->problem_file != NULL;
    choose_units(request, result, &units, title, sizeof title);
    pst_cli_must(cli,
                 pst_schedule_figures_init(result, request->n_steps, &units, &figures, &cli->err));
    pst_cli_must(cli, check_limit(request, &figures, &cli->err));
    pst_cli_write_outputs(cli, &request->outputs, figures.timeline, NULL);
    if (request->csv != NULL) {
        pst_cli_write_order(cli, request->csv, result);
    }
    if (cli->json) {
        pst_json_stream(&cli->answer, stdout);
        pst_schedule_report_json(&figures, page.in_samples, &cli->answer);
    } else {
        pst_schedule_report_print(&figures, &page, stdout);
    }
    pst_schedule_figures_finish(&figures);
}

static void schedule(struct pst_cli *cli, void *asked)
{
    struct request *request = asked;
    struct pst_schedule_result result = {.scale = 1};
    pst_status status;

    read_request(cli, request);
    pst_searching_begin(cli, "asking the scheduler");
    status = pst_cli_schedule_run(&request->job, request->time_limit_ns, &result, &cli->err);
    status = status == PST_ERR_INFEASIBLE ? explain_limit(request, &cli->err) : status;
    pst_searching_end();
    pst_cli_must(cli, status);
    answer_order(cli, request, &result);
    pst_schedule_result_finish(&result);
    pst_schedule_problem_finish(&request->problem);
}

static const struct pst_option options[] = {
    {"devices", 'd', "P", "devices", PST_AT(n_devices), 65536},
    {"microbatches", 'm', "M", "micro-batches of a step", PST_AT(n_microbatches), 1000000},
    {"cost", 0, "LIST", "cost of one device's share of the model: f=1,b=1,w=1", PST_AT(cost), 0},
    {"comm", 0, "C", "latency between two devices; 0", PST_AT(comm), 0},
    {"aw", 0, "X", "fraction of a saved activation that only W needs; 1", PST_AT(aw), 0},
    {"memory-limit", 0, "X", "maximum activations of a device, in micro-batches of its share",
     PST_AT(memory_limit), 0},
    {"options", 'O', "LIST", "parameters of the scheduler: key=value,...", PST_AT(options), 0},
    {"steps", 'n', "N", "number of steps, or of batches of an asynchronous schedule; 1",
     PST_AT(n_steps), 100000},
    {"barrier", 0, NULL, "steps do not overlap: a step costs its makespan", PST_AT(barrier), 0},
    {"problem", 0, "FILE", "stages and links, instead of equal shares", PST_AT(problem_file), 0},
    {"time-limit", 0, "TIME", "time limit of a scheduler not shipped with penstock; 10 min",
     PST_AT(time_limit), 0},
    PST_CLI_TIMELINE_OPTIONS(outputs),
    {"csv" /* the form */, 'o', "FILE", "write the order as PyTorch's schedule CSV", PST_AT(csv),
     0},
};

const struct pst_command pst_cmd_schedule = {
    .name = "schedule",
    .arguments = "NAME|FILE",
    .summary = "Runs a scheduler alone and shows its order",
    .text = "Prints makespan, span, bubble, peaks and a timeline for equal shares of a model on P "
            "devices.\nA cost is that of one micro-batch's pass through a device's whole share: "
            "with v stages on a\ndevice, each stage costs 1/v of it. A NAME is an id, a FILE a "
            "path that ends in .so or\nbegins with / or a dot.",
    .asks = "scheduler",
    .words = {1, 1},
    PST_CLI_OPTIONS(options, struct request),
    .handles_signals = true,
    .run = schedule,
};
