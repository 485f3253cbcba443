/* SPDX-License-Identifier: Apache-2.0
 *
 * One question to one plugin: asked and held against the rules by the planner, watched by the
 * checker. Partitions, memory actions and models are asked for here.
 */
#include "conformance/answer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/float_mode.h"
#include "base/util.h"
#include "conformance/operator_rig.h"
#include "conformance/verdict.h"
#include "models/plugin/model.h"
#include "planner/optimizer.h"
#include "base/hash.h"

static struct pst_answer *current; /* that is asked for */

void pst_answer_finish(struct pst_answer *answer)
{
    free(answer->record);
    memset(answer, 0, sizeof *answer);
}

void pst_answer_break(struct pst_answer *answer, const char *format, ...)
{
    va_list args;

    if (answer->broken[0] == '\0') {
        va_start(args, format);
        vsnprintf(answer->broken, sizeof answer->broken, format, args);
        va_end(args);
    }
}

void pst_answer_record(struct pst_answer *answer, uint64_t value)
{
    while (answer->room < answer->n_record + sizeof value) {
        pst_grow(&answer->record, &answer->room, answer->n_record + sizeof value, 1);
    }
    memcpy(answer->record + answer->n_record, &value, sizeof value);
    answer->n_record += sizeof value;
}

bool pst_answer_equal(const struct pst_answer *a, const struct pst_answer *b)
{
    return a->status == b->status && a->n_record == b->n_record &&
           (a->n_record == 0 || memcmp(a->record, b->record, a->n_record) == 0);
}

const char *pst_answer_call(void)
{
    static const char in[] = "in ";
    struct pst_blame blame;

    pst_breadcrumb_read(NULL, &blame);
    return blame.where + (strncmp(blame.where, in, strlen(in)) == 0 ? strlen(in) : 0);
}

void pst_answer_watch(void)
{
    struct pst_traces after;
    const char *left;

    if (current == NULL || current->broken[0] != '\0') {
        return;
    }
    pst_traces_take(&after);
    left = pst_traces_differ(&current->before, &after, current->folder);
    if (left != NULL) {
        pst_answer_break(current, "%s leaves %s behind", pst_answer_call(), left);
        pst_float_mode_reset(); /* it is said */
    }
}

/* --- partitions --------------------------------------------------------------------------------*/

static void record_list(struct pst_answer *answer, const uint32_t *list, uint32_t n)
{
    pst_answer_record(answer, n);
    for (uint32_t i = 0; i < n; i++) {
        pst_answer_record(answer, list[i]);
    }
}

static pst_status ask_partitioner(struct pst_rig *rig, const struct pst_case *question,
                                  struct pst_answer *answer, struct pst_error *err)
{
    struct pst_partition_result result = {.n_stages = 0};
    pst_status status;

    rig->planning.planner.devices.places.n_stages =
        question->seed % 2 == 0 ? question->n_devices : 0;
    status = pst_partition_ask(&rig->planning, &rig->instance, &result, err);
    for (uint32_t s = 0; s < result.n_stages; s++) {
        const struct pst_partition_stage *stage = &result.stages[s];

        record_list(answer, stage->nodes, stage->n_nodes);
        record_list(answer, stage->ranks, stage->n_ranks);
        pst_answer_record(answer, stage->microbatch_size);
        pst_answer_record(answer, stage->k);
    }
    pst_partition_result_finish(&result);
    return status;
}

/* --- memory actions ----------------------------------------------------------------------------*/

/* The plan, as good as its price; its actions become those of the nodes. */
static pst_status ask_plan(struct pst_rig *rig, const struct pst_optimizer *memopt,
                           const struct pst_stage_view *view, struct pst_stage_node *nodes,
                           const struct pst_stage_price *price, struct pst_answer *answer,
                           struct pst_error *err)
{
    const struct pst_graph_view *graph = &rig->problem.graph->view;
    struct pst_stage_value value = {.size = sizeof value};
    struct pst_replay_list replays = {.n = 0};
    pst_status status =
        pst_optimizer_settle(memopt, graph, view, nodes, price, &replays, &value, err);

    if (status == PST_ERR_INFEASIBLE && price->fits) {
        pst_answer_break(answer, "by price() the stage fits, but plan() refuses it: %s", rig->said);
    }
    for (uint32_t i = 0; status == PST_OK && i < view->n_nodes; i++) {
        pst_answer_record(answer, nodes[i].action);
    }
    for (uint32_t i = 0; i < replays.n; i++) {
        pst_answer_record(answer, (uint64_t)replays.at[i].before << 32 | replays.at[i].first);
        pst_answer_record(answer, replays.at[i].last);
    }
    pst_replay_list_finish(&replays);
    return status;
}

static pst_status ask_memopt(struct pst_rig *rig, const struct pst_case *question,
                             struct pst_answer *answer, struct pst_error *err)
{
    const struct pst_memopt *f = rig->instance.plugin->get_interface(PST_MEMOPT);
    const struct pst_optimizer memopt = {.instance = &rig->instance,
                                         .evaluator = &rig->planning.planner.evaluator,
                                         .pending = &rig->planning.planner.pending};
    struct pst_stage_price price = {.size = sizeof price};
    struct pst_arena arena = {0};
    struct pst_stage_view view;
    struct pst_stage_node *nodes =
        pst_stage_problem_make(question, question->seed % 3 == 0, &arena, &view);
    uint64_t bound = 0;
    pst_status status = PST_OK;

    if (PST_CAN(f, bound)) {
        status = pst_optimizer_bound(&memopt, &view, &bound, err);
    }
    PST_TRY(status, pst_optimizer_price(&memopt, &view, &price, err));
    if (status == PST_OK) {
        pst_answer_record(answer, bound);
        pst_answer_record(answer, price.fits);
        pst_answer_record(answer, price.period_ns);
        pst_answer_record(answer, price.peak_bytes);
        status = ask_plan(rig, &memopt, &view, nodes, &price, answer, err);
    }
    if (status == PST_OK && price.fits && bound > price.period_ns) {
        pst_answer_break(answer, "bound() returned %llu ns, more than price()'s %llu",
                         (unsigned long long)bound, (unsigned long long)price.period_ns);
    }
    pst_arena_finish(&arena);
    return status;
}

/* --- models ------------------------------------------------------------------------------------*/

/* Asks for the model, in f32 or bf16 by the seed; the question has nothing else for it. */
static pst_status ask_model(struct pst_rig *rig, const struct pst_case *question,
                            struct pst_answer *answer, struct pst_error *err)
{
    const uint32_t dtype = question->seed % 2 == 0 ? PST_F32 : PST_BF16;
    struct pst_model_calls calls = {.n = 0};
    struct pst_graph *graph = NULL;
    pst_status status = pst_model_ask(&rig->instance, NULL, dtype, &calls, err);

    PST_TRY(status, pst_model_graph(&calls, NULL, rig->instance.plugin->id, dtype, &graph, err));
    if (status == PST_OK) {
        pst_answer_record(answer, graph->digest);
        pst_graph_destroy(graph);
    }
    pst_model_calls_finish(&calls);
    return status;
}

/* --- operators ---------------------------------------------------------------------------------*/

static void record_block(struct pst_answer *answer, const struct pst_operand_block *block)
{
    pst_answer_record(
        answer, block->bytes == 0 ? 0 : pst_fnv1a_bytes(PST_FNV1A, block->base, block->bytes));
}

/* One of the first two examples, by the seed; the question has nothing else for it. */
static pst_status ask_operator(struct pst_rig *rig, const struct pst_case *question,
                               struct pst_answer *answer, struct pst_error *err)
{
    struct pst_operator_rig tried;
    const uint32_t example = question->seed % 2 != 0;
    const char *broken;
    bool more = false;
    pst_status status = pst_operator_rig_init(&tried, &rig->instance, example, PST_F32, 3, 0,
                                              question->seed, &more, err);

    if (status != PST_OK || !more) {
        return status;
    }
    pst_answer_record(answer,
                      pst_fnv1a_bytes(PST_FNV1A, &tried.custom->row, sizeof tried.custom->row));
    broken = tried.kernels == NULL ? "" : pst_operator_rig_run_all(&tried);
    if (broken[0] != '\0') {
        pst_answer_break(answer, "%s", broken);
    }
    for (uint32_t i = 0; i < PST_OPERATOR_MAX_Y; i++) {
        record_block(answer, &tried.y[i]);
    }
    for (uint32_t i = 0; i < PST_OPERATOR_MAX_X; i++) {
        record_block(answer, &tried.dx[i]);
    }
    for (uint32_t i = 0; i < PST_OPERATOR_MAX_P; i++) {
        record_block(answer, &tried.dp[i]);
    }
    pst_operator_rig_finish(&tried);
    return PST_OK;
}

/* --- the verdict -------------------------------------------------------------------------------*/

/* Is this a status that a plugin may give, and does it explain it? */
static void judge_status(struct pst_answer *answer, const struct pst_rig *rig,
                         const struct pst_error *err)
{
    const char *call = pst_answer_call();

    switch (answer->status) {
    case PST_OK:
        return;
    case PST_ERR_NOMEM:
        if (!rig->alloc_failed) {
            pst_answer_break(answer, "%s returned PST_ERR_NOMEM, but no allocation failed", call);
        }
        return;
    case PST_ERR_CANCELLED:
        if (!rig->was_cancelled) {
            pst_answer_break(answer, "%s returned PST_ERR_CANCELLED, but it was not cancelled",
                             call);
        }
        return;
    case PST_ERR_CONFIG:
    case PST_ERR_INFEASIBLE:
    case PST_ERR_UNSUPPORTED:
        if (rig->said[0] == '\0') {
            pst_answer_break(
                answer, "%s returned status %d without a message; call host->fail with one first",
                call, (int)answer->status);
        }
        return;
    case PST_ERR_BUG:
        pst_answer_break(answer, "%s", err->message);
        return;
    default:
        pst_answer_break(answer, "%s returned status %d, which a plugin must not return", call,
                         (int)answer->status);
    }
}

void pst_ask_plugin(struct pst_rig *rig, const struct pst_case *question,
                    struct pst_answer *ret_answer)
{
    static const struct {
        const char *kind;
        pst_status (*ask)(struct pst_rig *, const struct pst_case *, struct pst_answer *,
                          struct pst_error *);
    } kinds[] = {{"partitioner", ask_partitioner}, {"scheduler", pst_ask_scheduler},
                 {"memopt", ask_memopt},           {"model", ask_model},
                 {"data", pst_ask_data},           {"operator", ask_operator}};
    struct pst_error err = {.status = PST_OK};

    memset(ret_answer, 0, sizeof *ret_answer);
    ret_answer->folder = rig->subject->folder;
    rig->said[0] = '\0';
    pst_rig_state(rig, question);
    pst_traces_take(&ret_answer->before);
    current = ret_answer;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].kind, rig->subject->plugin->kind) == 0) {
            ret_answer->status = kinds[i].ask(rig, question, ret_answer, &err);
        }
    }
    current = NULL;
    pst_answer_record(ret_answer, (uint64_t)(int64_t)ret_answer->status);
    judge_status(ret_answer, rig, &err);
    if (rig->broken[0] != '\0') {
        pst_answer_break(ret_answer, "%s: %s", pst_answer_call(), rig->broken);
    }
}
