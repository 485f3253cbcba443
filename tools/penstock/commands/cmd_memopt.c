/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock memopt NAME --problem FILE`: a memory optimizer on its own, on a costed graph.
 */
#include <stdio.h>

#include "ask/problem_memopt.h"
#include "base/signals.h"
#include "base/util.h"
#include "commands/ask_plugin.h"
#include "commands/commands.h"
#include "commands/outputs.h"
#include "commands/searching.h"
#include "plan/plan.h"
#include "reports/memopt_report.h"
#include "session/isolate.h"
#include "sim/timeline.h"

/* After a refusal with *err that says how much would do: asks again with that, and takes it back
   where it does not. Returns err->status; PST_ERR_CANCELLED. */
static pst_status confirm(const struct pst_problem_job *job, const struct pst_worker_task *limits,
                          struct pst_error *err)
{
    struct pst_problem problem = *job->problem;
    const struct pst_problem_job asked = {.id = job->id, .path = job->path, .problem = &problem};
    struct pst_memopt_result result;
    struct pst_error why;
    pst_status status;

    if (err->enough_bytes == 0) {
        return err->status;
    }
    problem.memory_bytes = (double)err->enough_bytes;
    status = pst_problem_memopt(&asked, limits, pst_stop_requested, &result, &why);
    if (status == PST_OK) {
        pst_memopt_result_finish(&result);
    } else if (status == PST_ERR_CANCELLED) {
        *err = why;
    } else {
        pst_error_hint(err, "the optimizer names a capacity that does not suffice");
        err->enough_bytes = 0;
    }
    return err->status;
}

static pst_status ask(const struct pst_cli_problem_request *request,
                      struct pst_memopt_result *ret_result, struct pst_error *err)
{
    const struct pst_problem_job job = {
        .id = request->id, .path = request->path, .problem = request->problem};
    const struct pst_worker_task limits = pst_cli_limits(request->time_limit_ns);
    bool foreign = false;
    pst_status status = pst_plugin_is_foreign("memopt", request->id, request->path, NULL,
                                              request->time_limit_ns, &foreign, err);

    if (status == PST_OK) {
        status =
            pst_problem_memopt(&job, foreign ? &limits : NULL, pst_stop_requested, ret_result, err);
    }
    return status == PST_ERR_INFEASIBLE ? confirm(&job, foreign ? &limits : NULL, err) : status;
}

/* Static bytes and what is parked for other micro-batches are in every event, so one kind is all.
 */
static void add_point(struct pst_timeline *timeline, uint64_t ns, uint64_t bytes)
{
    uint64_t kinds[PST_MEM_KINDS] = {0};

    kinds[PST_MEM_ACTIVATIONS] = bytes;
    pst_timeline_memory(timeline, 0, ns, kinds);
}

static void add_events(const struct pst_memopt_result *result, struct pst_timeline *timeline)
{
    static const uint32_t ops[] = {[PST_MEMORY_FORWARD] = PST_I_F,
                                   [PST_MEMORY_REPLAY] = PST_I_R,
                                   [PST_MEMORY_BACKWARD] = PST_I_BW};
    uint64_t now = 0, start = 0;

    for (uint32_t i = 0; i < result->n_events; i++) {
        const struct pst_memory_event *event = &result->events[i];
        bool ends = i + 1 == result->n_events || result->events[i + 1].pass != event->pass;

        add_point(timeline, now, event->bytes);
        now += event->ns;
        if (ends) {
            const struct pst_span span = {
                .start_ns = start,
                .end_ns = now,
                .instr = PST_NONE,
                .to_stage = PST_NONE,
                .peer = PST_NONE,
                .microbatch = PST_NONE,
                .op = ops[event->pass],
                .lane = PST_LANE_COMPUTE,
            };

            pst_timeline_add(timeline, &span);
            start = now;
        }
    }
}

static void describe(const struct pst_memopt_result *result, struct pst_timeline *timeline)
{
    struct pst_timeline_rank *rank = &timeline->ranks[0];
    char period[32], more[32], peak[32];

    timeline->title =
        pst_arena_printf(&timeline->arena, "memopt %s, a stage of %u operators, %u in flight",
                         result->id, result->view.n_nodes, result->view.in_flight);
    timeline->summary = pst_arena_printf(
        &timeline->arena, "period %s, %s more than with everything kept   peak memory %s",
        pst_format_ns(period, result->value.period_ns), pst_format_ns(more, result->value.extra_ns),
        pst_format_bytes(peak, result->value.peak_bytes));
    timeline->kind = "evaluation";
    timeline->n_stages = timeline->n_steps = 1;
    snprintf(rank->name, sizeof rank->name, "stage");
    rank->capacity_bytes = result->view.capacity_bytes;
}

/* The memory of a stage over one micro-batch, as a timeline for figures: the forward pass, replays
   and backward passes above, the bytes of the device below. */
static void make_timeline(const struct pst_memopt_result *result,
                          struct pst_timeline **ret_timeline)
{
    struct pst_timeline *timeline = NULL;

    pst_timeline_create(1, &timeline);
    describe(result, timeline);
    add_events(result, timeline);
    pst_timeline_finish_build(timeline);
    *ret_timeline = timeline;
}

/* The request of the command line. */
struct request {
    struct pst_cli_problem_request asked;
    struct pst_cli_outputs outputs;
};

static void answer(struct pst_cli *cli, const struct request *request,
                   const struct pst_memopt_result *result)
{
    struct pst_timeline *timeline = NULL;

    make_timeline(result, &timeline);
    pst_cli_write_outputs(cli, &request->outputs, timeline, NULL);
    pst_timeline_destroy(timeline);
    if (cli->json) {
        pst_memopt_report_json(result, &cli->answer);
    } else {
        pst_memopt_report_print(result, cli->color, stdout);
    }
}

static void memopt(struct pst_cli *cli, void *asked)
{
    struct request *request = asked;
    struct pst_memopt_result result = {.n_events = 0};
    pst_status status;

    pst_cli_problem_read(cli, &request->asked, "the memory optimizer");
    pst_searching_begin(cli, "asking the memory optimizer");
    status = ask(&request->asked, &result, &cli->err);
    pst_searching_end();
    if (pst_cli_problem_solved(cli, &request->asked, status, "memopt", "fits")) {
        answer(cli, request, &result);
    }
    pst_memopt_result_finish(&result);
    pst_problem_destroy(request->asked.problem);
}

static const struct pst_option options[] = {
    PST_CLI_PROBLEM_OPTIONS(asked, "costed graph and memory of its stage", "memory optimizer",
                            "an optimizer"),
    PST_CLI_FIGURE_OPTIONS(outputs, "", "draw the memory of the stage as SVG"),
};

const struct pst_command pst_cmd_memopt = {
    .name = "memopt",
    .arguments = "NAME|FILE",
    .summary = "Runs a memory optimizer alone and shows its choices",
    .text = "The costed graph of a problem file is one stage with the memory that the file states. "
            "Shows\nfor each operator whether the bytes that it saves for the backward pass are "
            "kept,\nrecomputed or offloaded, and the cost. A NAME is an id, a FILE a path that "
            "ends in .so or\nbegins with / or a dot.",
    .asks = "memopt",
    .words = {1, 1},
    PST_CLI_OPTIONS(options, struct request),
    .handles_signals = true,
    .run = memopt,
};
