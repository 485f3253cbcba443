/* SPDX-License-Identifier: Apache-2.0
 *
 * Handing steps out and taking their results in. Where the lists have no NORM, loss and norm are
 * put together here from what each rank found: the same sums in the same order, so the same bits.
 */
#include "exec/state.h"

#include "base/util.h"

uint32_t pst_exec_in_flight(const struct pst_exec *exec)
{
    return (uint32_t)(exec->n_submitted - exec->n_collected);
}

/* Hands out a part that closes batch t (fill: begins it). */
static void post_part(struct pst_exec *exec, enum pst_part part, uint64_t t)
{
    struct exec_flight *flight = &exec->flights[t % PST_EXEC_IN_FLIGHT];
    const struct exec_flight *next = &exec->flights[(t + 1) % PST_EXEC_IN_FLIGHT];
    struct exec_task task = {.command = EXEC_STEP,
                             .part = part,
                             .t = t,
                             .batches = {flight->batch, next->batch},
                             .update = flight->update,
                             .slot = t % PST_EXEC_IN_FLIGHT,
                             .epoch = exec->epoch};

    flight->generation = exec_tasks_post(&exec->tasks, &task, exec->n_local);
    flight->closed = part != PST_FILL;
}

pst_status pst_exec_submit(struct pst_exec *exec, const struct pst_batch *batch,
                           const struct pst_update *update, struct pst_error *err)
{
    uint64_t t = exec->n_submitted;
    struct exec_flight *flight = &exec->flights[t % PST_EXEC_IN_FLIGHT];

    /* A failure that the caller does not know of yet is for the step in flight that met it. */
    if (pst_exec_in_flight(exec) == 0 || exec->told) {
        pst_status status = exec_failure(exec, err);

        if (status != PST_OK) {
            return status;
        }
    }
    if (pst_exec_in_flight(exec) == PST_EXEC_IN_FLIGHT) {
        return pst_fail(err, PST_ERR_BUG, "internal", "%u steps are in flight", PST_EXEC_IN_FLIGHT);
    }
    *flight =
        (struct exec_flight){.submitted_ns = pst_now_ns(), .batch = *batch, .update = *update};
    exec->n_submitted++;
    if (!exec->config.plan->asynchronous) {
        post_part(exec, PST_BODY, t);
        return PST_OK;
    }
    if (exec->open) {
        post_part(exec, PST_BODY, t - 1);
        flight->generation = exec->flights[(t - 1) % PST_EXEC_IN_FLIGHT].generation;
    } else {
        post_part(exec, PST_FILL, t);
    }
    exec->open = true;
    return PST_OK;
}

void pst_exec_drain(struct pst_exec *exec)
{
    if (exec->open) {
        exec->open = false;
        post_part(exec, PST_DRAIN, exec->n_submitted - 1);
    }
}

/* Waits for everything in flight and forgets it. */
static void drop_flights(struct pst_exec *exec)
{
    exec->open = false;
    for (; exec->n_collected < exec->n_submitted; exec->n_collected++) {
        exec_tasks_wait(&exec->tasks,
                        exec->flights[exec->n_collected % PST_EXEC_IN_FLIGHT].generation);
    }
}

/* The table of the step, summed over the ranks in their order: what NORM does, and its bits. */
static void merge_sums(struct pst_exec *exec, uint32_t slot, double *ret_norm)
{
    for (uint32_t i = 0; i < exec->n_sums; i++) {
        uint32_t first = exec->has_norm ? exec->first_local : 0;
        double sum = exec_table_of(exec, first, slot)[i];

        for (uint32_t r = 1; r < exec->n_ranks && !exec->has_norm; r++) {
            sum += exec_table_of(exec, r, slot)[i];
        }
        exec->table[i] = sum;
    }
    *ret_norm = exec_norm_of(exec, exec->table);
}

static bool is_done(const struct pst_exec *exec, uint32_t slot)
{
    bool done = true;

    for (uint32_t r = 0; r < exec->n_local; r++) {
        done = done && exec->ranks[exec->first_local + r].results[slot].done;
    }
    return done;
}

static bool is_finite(const struct pst_exec *exec, uint32_t parameter)
{
    bool finite = true;

    for (uint32_t t = 0; t < exec->n_trees; t++) {
        finite =
            finite && (exec->trees[t].parameter != parameter || __builtin_isfinite(exec->table[t]));
    }
    return finite;
}

/* Returns the last stage whose gradient is not finite: it is the nearest to the loss, and earlier
   stages got theirs from it. */
static uint32_t find_stage(const struct pst_exec *exec)
{
    uint32_t stage = 0;

    for (uint32_t r = 0; r < exec->n_ranks; r++) {
        const struct pst_program *program = exec->config.programs[r];

        for (uint32_t i = 0; i < program->n_params; i++) {
            const struct pst_program_param *param = &program->params[i];

            if (param->owner && param->stage > stage && !is_finite(exec, param->parameter)) {
                stage = param->stage;
            }
        }
    }
    return stage;
}

static pst_status fail_non_finite(const struct pst_exec *exec, uint64_t step, double norm,
                                  struct pst_error *err)
{
    double loss = exec_loss_of(exec, exec->table);
    bool in_loss = !__builtin_isfinite(loss);
    const char *kind = __builtin_isnan(in_loss ? loss : norm) ? "nan" : "inf";

    if (in_loss || exec->has_norm) {
        pst_fail(err, PST_ERR_CANCELLED, "run.non-finite", "step %llu: the %s is not finite (%s)%s",
                 (unsigned long long)step, in_loss ? "loss" : "norm of the gradient", kind,
                 exec->has_norm ? "; no parameter was updated" : "");
    } else {
        pst_fail(err, PST_ERR_CANCELLED, "run.non-finite",
                 "step %llu: the gradient of stage %u is not finite (%s)", (unsigned long long)step,
                 find_stage(exec), kind);
    }
    if (err != NULL) {
        err->exit_code = 1;
    }
    pst_error_hint(err, "lower train.lr, set train.clip, or train.on_non_finite = \"skip\"");
    return PST_ERR_CANCELLED;
}

/* With NORM the ranks have passed over what is in flight behind the step, which left its update
   undone, and the next step starts from there. Without it some stages have moved on, and in an
   asynchronous plan the passes of the next batch are lost. */
static pst_status stop_at(struct pst_exec *exec, uint64_t step, double norm, struct pst_error *err)
{
    drop_flights(exec);
    exec->epoch++;
    if (!exec->has_norm || exec->config.plan->asynchronous) {
        exec->stopped = fail_non_finite(exec, step, norm, &exec->why);
        return exec_failure(exec, err);
    }
    return fail_non_finite(exec, step, norm, err);
}

/* The oldest step in flight has ended on all ranks. */
static pst_status take_result(struct pst_exec *exec, uint32_t slot, uint64_t ended_ns,
                              struct pst_step_result *ret_result, struct pst_error *err)
{
    const struct exec_flight *flight = &exec->flights[slot];
    uint64_t begin_ns =
        flight->submitted_ns > exec->ended_ns ? flight->submitted_ns : exec->ended_ns;
    double norm, loss;
    bool finite;

    merge_sums(exec, slot, &norm);
    loss = exec_loss_of(exec, exec->table);
    finite = __builtin_isfinite(norm) && __builtin_isfinite(loss);
    exec->ended_ns = ended_ns;
    exec->n_collected++;
    exec->n_steps++;
    if (!finite && !exec->config.skip_non_finite) {
        return stop_at(exec, flight->update.step, norm, err);
    }
    *ret_result = (struct pst_step_result){.loss = loss / exec->config.plan->batch,
                                           .grad_norm = norm,
                                           .skipped = !finite,
                                           .ns = ended_ns - begin_ns};
    return PST_OK;
}

pst_status pst_exec_collect(struct pst_exec *exec, struct pst_step_result *ret_result,
                            struct pst_error *err)
{
    uint32_t slot = exec->n_collected % PST_EXEC_IN_FLIGHT;
    uint64_t ended_ns;
    pst_status status;

    if (pst_exec_in_flight(exec) == 0) {
        status = exec_failure(exec, err);
        return status != PST_OK ? status
                                : pst_fail(err, PST_ERR_BUG, "internal", "no step is in flight");
    }
    if (!exec->flights[slot].closed) {
        return pst_fail(err, PST_ERR_BUG, "internal",
                        "the step ends with the next one or when the pipeline is drained");
    }
    ended_ns = exec_tasks_wait(&exec->tasks, exec->flights[slot].generation);
    if (!is_done(exec, slot)) {
        drop_flights(exec);
        return exec_failure(exec, err);
    }
    if (exec_is_shared(exec)) {
        status = exec_share_step(exec, slot, &ended_ns, err);
        if (status != PST_OK) {
            drop_flights(exec);
            return status;
        }
    }
    return take_result(exec, slot, ended_ns, ret_result, err);
}

pst_status pst_exec_step(struct pst_exec *exec, const struct pst_batch *batch,
                         const struct pst_update *update, struct pst_step_result *ret_result,
                         struct pst_error *err)
{
    pst_status status = exec_failure(exec, err);

    if (status == PST_OK && pst_exec_in_flight(exec) > 0) {
        status = pst_fail(err, PST_ERR_BUG, "internal", "%u steps are in flight",
                          pst_exec_in_flight(exec));
    }
    PST_TRY(status, pst_exec_submit(exec, batch, update, err));
    if (status != PST_OK) {
        return status;
    }
    pst_exec_drain(exec);
    return pst_exec_collect(exec, ret_result, err);
}
