/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks in other processes: what the creating threads tell each other. Tensors, sums and reductions
 * go through the transport as ever; here are results. Every process adds up all shares itself, in
 * the order of the ranks, so all of them come to the bits that one process would have come to.
 */
#include "exec/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/util.h"

int pst_exec_told(const struct pst_exec *exec)
{
    if (exec->config.stop == NULL) {
        return 0;
    }
    return exec_is_shared(exec) ? exec->signal : exec->config.stop();
}

/* An exchange whose failure ends the run. */
static pst_status exchange(struct pst_exec *exec, const void *mine, void *all, uint64_t bytes,
                           struct pst_error *err)
{
    pst_status status = exec_exchange(exec, mine, all, bytes, &exec->why);

    if (status != PST_OK) {
        exec->stopped = status;
        exec->told = true;
        pst_error_pass(err, &exec->why);
    }
    return status;
}

pst_status pst_exec_meet(struct pst_exec *exec, struct pst_error *err)
{
    char none = 0, *all;
    pst_status status;

    if (!exec_is_shared(exec)) {
        return PST_OK;
    }
    all = pst_alloc(exec->n_ranks, 1);
    status = exchange(exec, &none, all, 1, err);
    free(all);
    return status;
}

static double own_signal(const struct pst_exec *exec)
{
    return exec->config.stop != NULL ? exec->config.stop() : 0;
}

static uint64_t own_wishes(const struct pst_exec *exec)
{
    return exec->config.wishes != NULL ? exec->config.wishes() : 0;
}

uint64_t pst_exec_wishes(const struct pst_exec *exec)
{
    return exec_is_shared(exec) ? exec->wishes : own_wishes(exec);
}

static void count_signal(struct pst_exec *exec, double signal)
{
    exec->signal = exec->signal != 0 ? exec->signal : (int)signal;
}

/* --- steps -------------------------------------------------------------------------------------*/

/* Rows of exec->shared: a signal, wishes, a table; behind those of all ranks the one that this
   brings. */
static double *shared_row(const struct pst_exec *exec, uint32_t rank)
{
    return exec->shared + (size_t)rank * (exec->n_sums + EXEC_WORDS);
}

const double *exec_table_of(const struct pst_exec *exec, uint32_t rank, uint32_t slot)
{
    bool local = rank - exec->first_local < exec->n_local;

    return local ? exec->ranks[rank].results[slot].table : shared_row(exec, rank) + EXEC_WORDS;
}

pst_status exec_share_step(struct pst_exec *exec, uint32_t slot, uint64_t *ret_ended_ns,
                           struct pst_error *err)
{
    double *mine = shared_row(exec, exec->n_ranks);
    size_t bytes = (exec->n_sums + EXEC_WORDS) * sizeof *mine;
    pst_status status;

    mine[0] = own_signal(exec);
    mine[1] = (double)own_wishes(exec);
    memcpy(mine + EXEC_WORDS, exec->ranks[exec->first_local].results[slot].table,
           exec->n_sums * sizeof *mine);
    status = exchange(exec, mine, exec->shared, bytes, err);
    for (uint32_t r = 0; r < exec->n_ranks && status == PST_OK; r++) {
        const uint64_t wishes = (uint64_t)shared_row(exec, r)[1];

        count_signal(exec, shared_row(exec, r)[0]);
        exec->wishes = wishes > exec->wishes ? wishes : exec->wishes;
    }
    if (status == PST_OK) {
        *ret_ended_ns = pst_now_ns();
    }
    return status;
}

/* --- evaluations -------------------------------------------------------------------------------*/

/* One rank has the loss of a sample; the other ranks have 0. */
static pst_status share_losses(struct pst_exec *exec, uint64_t t, double *ret_loss,
                               struct pst_error *err)
{
    const struct exec_rank *rank = &exec->ranks[exec->first_local];
    uint32_t n = exec->config.eval_plan->batch;
    size_t row = (size_t)n + 1;
    float *all = pst_alloc(row * (exec->n_ranks + 1u), sizeof *all);
    float *mine = all + row * exec->n_ranks;
    double sum = 0;
    pst_status status;

    mine[0] = (float)own_signal(exec);
    if (rank->eval.has_loss) {
        memcpy(mine + 1, rank->losses + t % 2 * rank->n_losses, n * sizeof *mine);
    }
    status = exchange(exec, mine, all, row * sizeof *mine, err);
    for (uint32_t i = 0; i < row && status == PST_OK; i++) {
        for (uint32_t r = 0; r < exec->n_ranks; r++) {
            if (i == 0) {
                count_signal(exec, (double)all[r * row]);
            } else {
                sum += all[r * row + i];
            }
        }
    }
    free(all);
    if (status == PST_OK) {
        *ret_loss = sum;
    }
    return status;
}

static pst_status share_output(struct pst_exec *exec, uint64_t t, float *output, uint64_t n,
                               struct pst_error *err)
{
    float *all = pst_alloc(n * exec->n_ranks + 1, sizeof *all);
    pst_status status;

    status = exchange(exec, output, all, n * sizeof *output, err);
    for (uint32_t r = 0; r < exec->n_ranks && status == PST_OK; r++) {
        const struct exec_output of =
            exec_output_of(exec, r, exec_newest_section(exec, exec->config.eval_programs[r], t));

        for (uint64_t row = 0; row < of.n_rows; row++) {
            uint64_t first;
            const uint64_t elems = exec_output_row(&of, row, n, &first);

            if (elems > 0) {
                memcpy(output + first, all + r * n + first, elems * sizeof *output);
            }
        }
    }
    free(all);
    return status;
}

pst_status exec_share_eval(struct pst_exec *exec, uint64_t t, double *ret_loss, float *output,
                           uint64_t n_values, struct pst_error *err)
{
    pst_status status = share_losses(exec, t, ret_loss, err);

    return status == PST_OK && output != NULL ? share_output(exec, t, output, n_values, err)
                                              : status;
}

/* --- what is under way -------------------------------------------------------------------------*/

void exec_doing(void *context, uint32_t rank, char *ret_text, size_t size)
{
    const struct pst_exec *exec = context;
    const struct exec_rank *self = &exec->ranks[rank];
    uint32_t at = atomic_load_explicit(&self->at, memory_order_relaxed);
    bool evaluates = atomic_load_explicit(&self->evaluates, memory_order_relaxed);
    const struct pst_program *program;
    const struct pst_instr *instr;

    snprintf(ret_text, size, "%s", "");
    if (at == 0) { /* the lists may be gone */
        return;
    }
    program = evaluates ? exec->config.eval_programs[rank] : exec->config.programs[rank];
    if (at > program->n_instrs) {
        return;
    }
    instr = &program->instrs[at - 1];
    if (instr->op == PST_I_SEND || instr->op == PST_I_RECV) {
        bool guest = instr->payload == PST_PAYLOAD_EVICT || instr->payload == PST_PAYLOAD_LOAD;

        snprintf(ret_text, size, "instruction %u, %s of %s %u, samples %u + %u, device %u%s",
                 at - 1, pst_instr_name(instr->op), guest ? "guests of stage" : "edge",
                 instr->stage, instr->first_sample, instr->n_samples, instr->peer,
                 evaluates ? ", of an evaluation" : "");
    } else if (instr->op < PST_I_SEND) {
        snprintf(ret_text, size, "instruction %u, %s of stage %u, micro-batch %u%s", at - 1,
                 pst_instr_name(instr->op), instr->stage, instr->microbatch,
                 evaluates ? ", of an evaluation" : "");
    } else {
        snprintf(ret_text, size, "instruction %u, %s", at - 1, pst_instr_name(instr->op));
    }
}
