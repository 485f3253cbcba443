/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk is PyTorch's own: round after round each rank runs its next pass if what this reads has
 * been made, and a send and its receive are written down at once, after the pass on its rank and
 * at the end of the receiver's row. So no two ranks ever wait for each other.
 */
#include "exchange/torch_csv.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

const char *const pst_torch_flavours[] = {"compute", "comms", "comms-waits", NULL};

/* One row while it grows. */
struct row {
    FILE *file;
    char *text;
    size_t length;
    bool begun;
};

struct writer {
    const struct pst_torch_order *order;
    enum pst_torch_flavour flavour;
    struct row *rows;
    uint32_t *at;        /* next pass of each rank */
    uint8_t *done;       /* [stage][microbatch]: bits FORWARD, BACKWARD, SENT, WAITED */
    uint32_t *n_weights; /* weight gradients of each stage that are made */
};

enum { FORWARD = 1, BACKWARD = 2, SENT_F = 4, SENT_B = 8, WAITED_F = 16 };

static void put_action(struct writer *writer, uint32_t rank, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void put_action(struct writer *writer, uint32_t rank, const char *format, ...)
{
    struct row *row = &writer->rows[rank];
    va_list args;

    fputs(row->begun ? "," : "", row->file);
    row->begun = true;
    va_start(args, format);
    vfprintf(row->file, format, args);
    va_end(args);
}

static uint8_t *state_of(const struct writer *writer, uint32_t stage, uint32_t microbatch)
{
    return &writer->done[(size_t)stage * writer->order->n_microbatches + microbatch];
}

static bool is_ready(const struct writer *writer, const struct pst_pass *pass)
{
    if (pass->op == PST_PASS_F) {
        return pass->stage == 0 ||
               (*state_of(writer, pass->stage - 1, pass->microbatch) & FORWARD) != 0;
    }
    if (pass->op == PST_PASS_B || pass->op == PST_PASS_BW) {
        return pass->stage == writer->order->n_stages - 1 ||
               (*state_of(writer, pass->stage + 1, pass->microbatch) & BACKWARD) != 0;
    }
    return true;
}

/* The send of what a pass made, and its receive, where the neighbour sits on another rank. */
static void put_transfer(struct writer *writer, uint32_t rank, const struct pst_pass *pass)
{
    const struct pst_torch_order *order = writer->order;
    bool forward = pass->op == PST_PASS_F;
    uint32_t to = forward ? pass->stage + 1 : pass->stage - 1; /* wraps at stage 0: no stage */

    if (to >= order->n_stages || order->rank_of[to] == rank) {
        return;
    }
    put_action(writer, rank, "%uSEND_%c%u", pass->stage, forward ? 'F' : 'B', pass->microbatch);
    put_action(writer, order->rank_of[to], "%uRECV_%c%u", to, forward ? 'F' : 'B',
               pass->microbatch);
    *state_of(writer, pass->stage, pass->microbatch) |= forward ? SENT_F : SENT_B;
}

/* The backward of a micro-batch proves that its activations have arrived: PyTorch waits there for
   their send. */
static void put_wait(struct writer *writer, uint32_t rank, const struct pst_pass *pass)
{
    uint8_t *state = state_of(writer, pass->stage, pass->microbatch);

    if ((pass->op == PST_PASS_B || pass->op == PST_PASS_BW) && (*state & SENT_F) != 0) {
        put_action(writer, rank, "%uWAIT_SEND_F%u", pass->stage, pass->microbatch);
        *state |= WAITED_F;
    }
}

/* The gradients of a stage are reduced after its last weight gradient. */
static void put_reduction(struct writer *writer, uint32_t rank, const struct pst_pass *pass)
{
    if ((pass->op == PST_PASS_W || pass->op == PST_PASS_BW) &&
        ++writer->n_weights[pass->stage] == writer->order->n_microbatches) {
        put_action(writer, rank, "%uREDUCE_GRAD", pass->stage);
        put_action(writer, rank, "%uWAIT_REDUCE_GRAD", pass->stage);
    }
}

static void put_pass(struct writer *writer, uint32_t rank, const struct pst_pass *pass)
{
    static const char letters[] = {
        [PST_PASS_F] = 'F', [PST_PASS_B] = 'I', [PST_PASS_W] = 'W', [PST_PASS_BW] = 'B'};

    if (pass->op == PST_PASS_R) {
        return;
    }
    put_action(writer, rank, "%u%c%u", pass->stage, letters[pass->op], pass->microbatch);
    if (pass->op != PST_PASS_W) {
        *state_of(writer, pass->stage, pass->microbatch) |=
            pass->op == PST_PASS_F ? FORWARD : BACKWARD;
    }
    if (writer->flavour == PST_TORCH_WAITS) {
        put_wait(writer, rank, pass);
    }
    if (writer->flavour != PST_TORCH_COMPUTE && pass->op != PST_PASS_W) {
        put_transfer(writer, rank, pass);
    }
    if (writer->flavour == PST_TORCH_WAITS) {
        put_reduction(writer, rank, pass);
    }
}

static pst_status walk_ranks(struct writer *writer, struct pst_error *err)
{
    const struct pst_torch_order *order = writer->order;
    uint32_t n_left = order->n_ranks;
    bool moved = true;

    while (n_left > 0 && moved) {
        moved = false;
        n_left = 0;
        for (uint32_t r = 0; r < order->n_ranks; r++) {
            const struct pst_pass *pass = &order->passes[r][writer->at[r]];

            if (writer->at[r] < order->n_passes[r] &&
                (writer->flavour == PST_TORCH_COMPUTE || is_ready(writer, pass))) {
                put_pass(writer, r, pass);
                writer->at[r]++;
                moved = true;
            }
            n_left += writer->at[r] < order->n_passes[r];
        }
    }
    return n_left == 0 ? PST_OK
                       : pst_fail(err, PST_ERR_BUG, "plan.illegal",
                                  "the order cannot be satisfied: ranks wait for each other");
}

/* Sends that nothing has waited for, in the order in which they were made. */
static void put_last_waits(struct writer *writer, uint32_t rank)
{
    const struct pst_torch_order *order = writer->order;

    for (uint32_t i = 0; i < order->n_passes[rank]; i++) {
        const struct pst_pass *pass = &order->passes[rank][i];
        uint8_t state = *state_of(writer, pass->stage, pass->microbatch);

        if (pass->op == PST_PASS_F && (state & (SENT_F | WAITED_F)) == SENT_F) {
            put_action(writer, rank, "%uWAIT_SEND_F%u", pass->stage, pass->microbatch);
        }
        if ((pass->op == PST_PASS_B || pass->op == PST_PASS_BW) && (state & SENT_B) != 0) {
            put_action(writer, rank, "%uWAIT_SEND_B%u", pass->stage, pass->microbatch);
        }
    }
}

static void rows_begin(struct writer *writer)
{
    writer->rows = pst_alloc((size_t)writer->order->n_ranks + 1, sizeof *writer->rows);
    for (uint32_t r = 0; r < writer->order->n_ranks; r++) {
        writer->rows[r].file = open_memstream(&writer->rows[r].text, &writer->rows[r].length);
        if (writer->rows[r].file == NULL) {
            pst_out_of_memory();
        }
    }
}

/* Ends the rows; one after the other. */
static char *rows_end(struct writer *writer)
{
    size_t length = 1, at = 0;
    char *text;

    for (uint32_t r = 0; r < writer->order->n_ranks; r++) {
        struct row *row = &writer->rows[r];

        fputc('\n', row->file);
        if (ferror(row->file) != 0 || fclose(row->file) != 0) {
            pst_out_of_memory();
        }
        length += row->length;
    }
    text = pst_alloc(length, 1);
    for (uint32_t r = 0; r < writer->order->n_ranks; r++) {
        memcpy(text + at, writer->rows[r].text, writer->rows[r].length);
        at += writer->rows[r].length;
        free(writer->rows[r].text);
    }
    free(writer->rows);
    return text;
}

pst_status pst_torch_csv(const struct pst_torch_order *order, enum pst_torch_flavour flavour,
                         char **ret_text, struct pst_error *err)
{
    struct writer writer = {.order = order, .flavour = flavour};
    char *text;
    pst_status status;

    rows_begin(&writer);
    writer.at = pst_alloc((size_t)order->n_ranks + 1, sizeof *writer.at);
    writer.n_weights = pst_alloc((size_t)order->n_stages + 1, sizeof *writer.n_weights);
    writer.done = pst_alloc((size_t)order->n_stages + 1, (size_t)order->n_microbatches + 1);
    status = walk_ranks(&writer, err);
    for (uint32_t r = 0; r < order->n_ranks && flavour == PST_TORCH_WAITS; r++) {
        put_last_waits(&writer, r);
    }
    text = rows_end(&writer);
    if (status == PST_OK) {
        *ret_text = text;
    } else {
        free(text);
    }
    free(writer.at);
    free(writer.n_weights);
    free(writer.done);
    return status;
}

/* --- from a plan's lists back to orders of passes, or from a scheduler's answer ----------------*/

/* what: with what would do, after a semicolon. */
static pst_status refuse_plan(struct pst_error *err, const char *what)
{
    return pst_fail(err, PST_ERR_INFEASIBLE, "output.form",
                    "PyTorch's schedule files cannot express %s", what);
}

static const char slices[] =
    "passes of slices of sequences; with scheduler.slices = 1 there are none";
static const char asynchronous[] = "asynchronous schedules, whose passes read several versions of "
                                   "weights; use a scheduler of synchronous steps";
static const char copies[] = "two copies of a model; use a scheduler of one copy";
static const char sizes[] =
    "micro-batches of different sizes; use a partitioner that gives all stages one size";

static pst_status check_plan(const struct pst_plan *plan, struct pst_error *err)
{
    if (plan->slices > 1) {
        return refuse_plan(err, slices);
    }
    if (plan->asynchronous || plan->version_rule != PST_VERSION_SYNC) {
        return refuse_plan(err, asynchronous);
    }
    if (plan->copies > 1) {
        return refuse_plan(err, copies);
    }
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        if (plan->stages[s].tensor > 1) {
            return refuse_plan(err, "replicas in parts; set parallel.tensor = 1");
        }
        if (plan->stages[s].n_ranks != 1) {
            return refuse_plan(err, "stages with replicas; use a plan with one device per stage");
        }
        if (plan->stages[s].n_microbatches != plan->stages[0].n_microbatches) {
            return refuse_plan(err, sizes);
        }
        if (plan->stages[s].weight_versions > 1) {
            return refuse_plan(err, "several versions of weights; use a scheduler of one version");
        }
    }
    for (uint32_t e = 0; e < plan->n_edges; e++) {
        if (plan->edges[e].to != plan->edges[e].from + 1) {
            pst_status status = refuse_plan(
                err, "stages that are not a chain; plan with --set partitioner.use=chain-dp --set "
                     "partitioner.chain=true, or with a partitioner that makes chains");

            pst_error_detail(err, "stage %u feeds stage %u", plan->edges[e].from,
                             plan->edges[e].to);
            return status;
        }
    }
    return plan->n_stages == 0 ? refuse_plan(err, "a plan without stages") : PST_OK;
}

static uint32_t count_dropped(const struct pst_plan *plan)
{
    uint32_t n = 0;

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        for (uint32_t i = 0; i < plan->stages[s].n_nodes; i++) {
            n += plan->stages[s].actions[i] != PST_ACTION_KEEP;
        }
    }
    return n;
}

static void collect(const struct pst_plan *plan, struct pst_arena *arena,
                    struct pst_torch_order *order)
{
    uint32_t *n_passes = pst_arena_array(arena, plan->n_devices, sizeof *n_passes);
    uint32_t *rank_of = pst_arena_array(arena, plan->n_stages, sizeof *rank_of);
    const struct pst_pass **lists =
        pst_arena_array(arena, plan->n_devices, sizeof(struct pst_pass *));

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        rank_of[s] = plan->stages[s].ranks[0];
    }
    for (uint32_t r = 0; r < plan->n_devices; r++) {
        const struct pst_plan_device *device = &plan->devices[r];
        struct pst_pass *passes = pst_arena_array(arena, device->n_instrs, sizeof *passes);
        for (uint32_t i = 0; i < device->n_instrs; i++) {
            const struct pst_instr *instr = &device->body[i];

            if (instr->op >= PST_I_F && instr->op <= PST_I_R) {
                passes[n_passes[r]++] =
                    (struct pst_pass){instr->op, instr->stage, instr->microbatch};
            }
        }
        lists[r] = passes;
    }
    *order = (struct pst_torch_order){
        plan->n_devices, plan->n_stages, plan->stages[0].n_microbatches, rank_of, lists, n_passes};
}

static uint32_t count_replays(const struct pst_torch_order *order)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < order->n_ranks; r++) {
        for (uint32_t i = 0; i < order->n_passes[r]; i++) {
            n += order->passes[r][i].op == PST_PASS_R;
        }
    }
    return n;
}

pst_status pst_torch_csv_of_plan(const struct pst_plan *plan, enum pst_torch_flavour flavour,
                                 char **ret_text, uint32_t *ret_n_dropped, struct pst_error *err)
{
    struct pst_torch_order order;
    struct pst_arena arena = {0};
    pst_status status = check_plan(plan, err);

    if (status == PST_OK) {
        collect(plan, &arena, &order);
        status = pst_torch_csv(&order, flavour, ret_text, err);
    }
    if (status == PST_OK) {
        *ret_n_dropped = count_dropped(plan) + count_replays(&order);
    }
    pst_arena_finish(&arena);
    return status;
}

static const char no_row[] =
    "stages that are not a chain; use only links from each stage to the next";

static pst_status check_answer(const struct pst_order_question *asked,
                               const struct pst_orders *answer, struct pst_error *err)
{
    uint32_t n = asked->in.n_stages;

    if (answer->asynchronous) {
        return refuse_plan(err, asynchronous);
    }
    if (pst_topology_copies(&asked->topology) > 1) {
        return refuse_plan(err, copies);
    }
    if (asked->in.slices > 1) {
        return refuse_plan(err, slices);
    }
    for (uint32_t s = 0; s < n; s++) {
        if (asked->stages[s].microbatch_size != asked->stages[0].microbatch_size ||
            asked->stages[s].n_microbatches != asked->stages[0].n_microbatches) {
            return refuse_plan(err, sizes);
        }
        if (s > 0 && (asked->stages[s].n_pred != 1 ||
                      asked->links[asked->stages[s].first_pred].from != s - 1)) {
            return refuse_plan(err, no_row);
        }
    }
    return asked->in.n_links + 1 == n ? PST_OK : refuse_plan(err, no_row);
}

pst_status pst_torch_csv_of_answer(const struct pst_order_question *asked,
                                   const struct pst_orders *answer, enum pst_torch_flavour flavour,
                                   char **ret_text, struct pst_error *err)
{
    enum { BODY = 1 };
    struct pst_arena arena = {0};
    uint32_t *rank_of = pst_arena_array(&arena, asked->in.n_stages, sizeof *rank_of);
    const struct pst_torch_order order = {.n_ranks = asked->in.n_devices,
                                          .n_stages = asked->in.n_stages,
                                          .n_microbatches = asked->stages[0].n_microbatches,
                                          .rank_of = rank_of,
                                          .passes =
                                              (const struct pst_pass *const *)answer->passes[BODY],
                                          .n_passes = answer->n_passes[BODY]};
    pst_status status = check_answer(asked, answer, err);

    for (uint32_t s = 0; s < asked->in.n_stages && status == PST_OK; s++) {
        rank_of[s] = asked->stages[s].device;
    }
    PST_TRY(status, pst_torch_csv(&order, flavour, ret_text, err));
    pst_arena_finish(&arena);
    return status;
}
