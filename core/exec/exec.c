/* SPDX-License-Identifier: Apache-2.0
 *
 * Creating and destroying an executor, and the calls that hand a task to its ranks.
 */
#include "exec/internal.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define DEFAULT_STALL_NS 600000000000u

/* Every rank takes part in the sum behind NORM exactly once, before its first STEP. */
static pst_status check_list(const struct pst_program *program, bool training,
                             struct pst_error *err)
{
    uint32_t n_norms = 0, n_expected = training ? 1 : 0;
    bool early = false;

    for (uint32_t i = 0; i < program->n_instrs; i++) {
        n_norms += program->instrs[i].op == PST_I_NORM;
        early = early || (program->instrs[i].op == PST_I_STEP && n_norms == 0);
    }
    if (n_norms != n_expected || early) {
        return pst_fail(err, PST_ERR_BUG, "plan.illegal",
                        "rank %u: %u NORM in the list where %u belongs, before any STEP",
                        program->rank, n_norms, n_expected);
    }
    return PST_OK;
}

static pst_status check_config(const struct pst_exec_config *config, struct pst_error *err)
{
    pst_status status = PST_OK;

    for (uint32_t i = 0; i < config->plan->n_stages; i++) {
        if (config->plan->stages[i].n_ranks != 1) {
            return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                            "stage %u has %u replicas; this executor runs one rank per stage", i,
                            config->plan->stages[i].n_ranks);
        }
    }
    if (config->eval_plan != NULL && config->eval_plan->n_devices != config->plan->n_devices) {
        return pst_fail(err, PST_ERR_BUG, "plan.illegal", "evaluation on %u ranks, training on %u",
                        config->eval_plan->n_devices, config->plan->n_devices);
    }
    for (uint32_t i = 0; i < config->plan->n_devices && status == PST_OK; i++) {
        status = check_list(config->programs[i], true, err);
        if (status == PST_OK && config->eval_plan != NULL) {
            status = check_list(config->eval_programs[i], false, err);
        }
    }
    return status;
}

static uint32_t most_parts(const struct pst_exec_config *config)
{
    uint32_t most = 1;

    for (uint32_t i = 0; i < config->plan->n_devices; i++) {
        uint32_t train = config->programs[i]->n_parts;
        uint32_t eval = config->eval_plan != NULL ? config->eval_programs[i]->n_parts : 0;

        most = train > most ? train : most;
        most = eval > most ? eval : most;
    }
    return most;
}

/* Signals are for the thread that drives the executor. */
static pst_status start_threads(struct pst_exec *exec, struct pst_error *err)
{
    sigset_t all, old;
    uint32_t i;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (i = 0; i < exec->n_ranks; i++) {
        exec->ranks[i].exec = exec;
        exec->ranks[i].index = i;
        if (pthread_create(&exec->ranks[i].thread, NULL, exec_rank_main, &exec->ranks[i]) != 0) {
            break;
        }
        exec->ranks[i].started = true;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return i == exec->n_ranks
               ? PST_OK
               : pst_fail(err, PST_ERR_NOMEM, "machine.threads",
                          "cannot start thread %u of %u: out of threads", i + 1, exec->n_ranks);
}

/* Runs exec->task on all ranks; the error of the rank that failed first. */
static pst_status run_all(struct pst_exec *exec, struct pst_error *err)
{
    uint32_t failed = atomic_load(&exec->failed);

    if (failed == 0) {
        exec_handoff_run(&exec->handoff, exec->n_ranks);
        failed = atomic_load(&exec->failed);
        if (failed == 0) {
            return PST_OK;
        }
    } else if (err != NULL) {
        *err = exec->ranks[failed - 1].error;
        pst_error_prefix(err, "the run has already failed");
        return exec->ranks[failed - 1].status;
    }
    if (err != NULL) {
        *err = exec->ranks[failed - 1].error;
    }
    return exec->ranks[failed - 1].status;
}

pst_status pst_exec_create(const struct pst_exec_config *config, struct pst_exec **ret_exec,
                           struct pst_error *err)
{
    struct pst_transport_config transport = {config->plan->n_devices, most_parts(config),
                                             config->stall_ns};
    pst_status status = check_config(config, err);
    struct pst_exec *exec;

    if (status != PST_OK) {
        return status;
    }
    if (transport.stall_ns == 0) {
        transport.stall_ns = DEFAULT_STALL_NS;
    }
    exec = calloc(1, sizeof *exec);
    if (exec == NULL) {
        return pst_fail_nomem(err);
    }
    exec->config = *config;
    exec->n_ranks = config->plan->n_devices;
    exec->ranks = calloc(exec->n_ranks, sizeof *exec->ranks);
    if (exec->ranks == NULL || !exec_handoff_init(&exec->handoff, exec->n_ranks)) {
        status = pst_fail_nomem(err);
        goto out;
    }
    status = config->transport->open(&transport, &exec->transport, err);
    if (status == PST_OK) {
        status = start_threads(exec, err);
    }
    if (status == PST_OK) {
        exec->task = (struct exec_task){.command = EXEC_SETUP};
        status = run_all(exec, err);
    }
out:
    if (status != PST_OK) {
        pst_exec_destroy(exec);
        return status;
    }
    *ret_exec = exec;
    return PST_OK;
}

void pst_exec_destroy(struct pst_exec *exec)
{
    uint32_t n_started = 0;

    if (exec == NULL) {
        return;
    }
    for (uint32_t i = 0; exec->ranks != NULL && i < exec->n_ranks; i++) {
        n_started += exec->ranks[i].started;
    }
    if (n_started > 0) {
        exec->task = (struct exec_task){.command = EXEC_QUIT};
        exec_handoff_run(&exec->handoff, n_started);
    }
    for (uint32_t i = 0; i < n_started; i++) {
        pthread_join(exec->ranks[i].thread, NULL);
    }
    if (exec->transport != NULL) {
        exec->config.transport->close(exec->transport);
    }
    exec_handoff_finish(&exec->handoff);
    free(exec->ranks);
    free(exec);
}

static pst_status fail_non_finite(const struct exec_rank *rank, uint64_t step,
                                  struct pst_error *err)
{
    bool in_loss = !__builtin_isfinite(rank->loss_sum);

    pst_fail(err, PST_ERR_CANCELLED, "run.non-finite",
             "step %llu: the %s is not finite (%s); no parameter was updated",
             (unsigned long long)step, in_loss ? "loss" : "norm of the gradient",
             __builtin_isnan(in_loss ? rank->loss_sum : rank->norm) ? "nan" : "inf");
    if (err != NULL) {
        err->exit_code = 1;
    }
    pst_error_hint(err, "lower the learning rate, clip gradients, or set on_non_finite = \"skip\"");
    return PST_ERR_CANCELLED;
}

pst_status pst_exec_step(struct pst_exec *exec, const struct pst_batch *batch,
                         const struct pst_update *update, struct pst_step_result *ret_result,
                         struct pst_error *err)
{
    const struct exec_rank *first = &exec->ranks[0];
    uint64_t start = pst_now_ns();
    pst_status status;

    exec->task = (struct exec_task){.command = EXEC_STEP, .batch = batch, .update = update};
    status = run_all(exec, err);
    if (status != PST_OK) {
        return status;
    }
    exec->n_steps++;
    if (!first->finite && !exec->config.skip_non_finite) {
        return fail_non_finite(first, update->step, err);
    }
    ret_result->loss = first->loss_sum / exec->config.plan->batch;
    ret_result->grad_norm = first->norm;
    ret_result->skipped = !first->finite;
    ret_result->ns = pst_now_ns() - start;
    return PST_OK;
}

pst_status pst_exec_eval(struct pst_exec *exec, const struct pst_batch *batch, double *ret_loss,
                         float *ret_output, uint64_t output_elems, struct pst_error *err)
{
    const struct pst_plan *plan = exec->config.eval_plan;
    uint64_t kept = 0;
    double sum = 0;
    pst_status status;

    if (plan == NULL) {
        return pst_fail(err, PST_ERR_BUG, "internal", "there is no plan for evaluation");
    }
    for (uint32_t i = 0; i < exec->n_ranks; i++) {
        kept = exec->ranks[i].eval.output != NULL ? exec->ranks[i].eval.output_elems : kept;
    }
    if (ret_output != NULL && output_elems > kept) {
        return pst_fail(err, PST_ERR_BUG, "internal",
                        "%llu elements of output wanted, the plan keeps %llu",
                        (unsigned long long)output_elems, (unsigned long long)kept);
    }
    exec->task = (struct exec_task){
        .command = EXEC_EVAL, .batch = batch, .values = ret_output, .n_values = output_elems};
    status = run_all(exec, err);
    if (status != PST_OK) {
        return status;
    }
    for (uint32_t i = 0; i < exec->n_ranks; i++) {
        sum += exec->ranks[i].loss_sum; /* 0 on all ranks but one */
    }
    *ret_loss = sum / plan->batch;
    return PST_OK;
}

void pst_exec_measured_peaks(struct pst_exec *exec, uint64_t *ret_bytes)
{
    exec->task = (struct exec_task){.command = EXEC_PEAK};
    exec_handoff_run(&exec->handoff, exec->n_ranks);
    for (uint32_t i = 0; i < exec->n_ranks; i++) {
        ret_bytes[i] = exec->ranks[i].peak;
    }
}

static pst_status get(struct pst_exec *exec, uint32_t command, uint32_t parameter,
                      float *ret_values)
{
    bool owned = false;

    for (uint32_t r = 0; r < exec->n_ranks; r++) {
        const struct pst_program *program = exec->config.programs[r];

        for (uint32_t i = 0; i < program->n_params; i++) {
            owned =
                owned || (program->params[i].parameter == parameter && program->params[i].owner);
        }
    }
    if (!owned) {
        return PST_ERR_BUG;
    }
    exec->task =
        (struct exec_task){.command = command, .parameter = parameter, .values = ret_values};
    return run_all(exec, NULL);
}

pst_status pst_exec_get_parameter(struct pst_exec *exec, uint32_t parameter, float *ret_values)
{
    return get(exec, EXEC_PARAMETER, parameter, ret_values);
}

pst_status pst_exec_get_gradient(struct pst_exec *exec, uint32_t parameter, float *ret_values)
{
    return exec->n_steps == 0 ? PST_ERR_BUG : get(exec, EXEC_GRADIENT, parameter, ret_values);
}
