/* SPDX-License-Identifier: Apache-2.0
 *
 * What the lists of a rank have open at once: so that a transport which copies through the host has
 * room for it before the first step. Of an asynchronous plan what one part leaves open is added to
 * what any other has open itself.
 */
#include "exec/internal.h"

struct open {
    uint32_t transfers, sums;
};

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static void widen(uint64_t *most, uint64_t bytes)
{
    *most = bytes > *most ? bytes : *most;
}

/* Sizes, of all instructions. */
static void measure(const struct exec_list *list, struct pst_transport_needs *needs)
{
    for (uint32_t i = 0; i < list->program->n_parts; i++) {
        widen(&needs->transfer_bytes, list->parts[i].bytes);
    }
    for (uint32_t i = 0; i < list->program->n_instrs; i++) {
        const struct exec_reduce *reduce = list->instrs[i].reduce;
        const struct exec_tie *tie = list->instrs[i].tie;
        uint64_t elems = 0;

        for (uint32_t p = 0; reduce != NULL && p < reduce->n_parts; p++) {
            elems += reduce->parts[p].elems;
        }
        widen(&needs->sum_bytes, elems * sizeof(float));
        needs->sum_buffers = larger(needs->sum_buffers, reduce != NULL ? reduce->n_parts : 0);
        if (tie != NULL) {
            widen(&needs->sum_bytes, (tie->n_src + UINT64_C(1)) * tie->elems * sizeof(float));
            needs->sum_buffers = larger(needs->sum_buffers, tie->n_src);
        }
    }
}

static void end(struct exec_instr *instr, struct open *open)
{
    if (instr->pending) {
        instr->pending = false;
        *(instr->reduce != NULL ? &open->sums : &open->transfers) -=
            instr->reduce != NULL ? 1 : instr->n_parts;
    }
}

static void begin(struct exec_instr *instr, struct open *open)
{
    if (instr->op == PST_I_SEND || instr->op == PST_I_RECV) {
        open->transfers += instr->n_parts;
        instr->pending = true;
    } else if (instr->reduce != NULL) {
        open->sums++;
        instr->pending = true;
    }
}

/* As the step loop posts and waits; what is pending is as it was when this returns. */
static void walk(struct exec_list *list, const struct pst_program_section *section,
                 struct open *most, struct open *left)
{
    const uint32_t first = section->first_instr, n = section->n_instrs;
    struct open open = {0, 0};

    for (uint32_t i = first; i < first + n; i++) {
        struct exec_instr *instr = &list->instrs[i];
        const bool sums = instr->op == PST_I_TIE || instr->op == PST_I_NORM;

        for (uint32_t w = 0; w < instr->n_waits; w++) {
            end(&list->instrs[instr->waits[w]], &open);
        }
        for (uint32_t s = first; sums && s < i; s++) {
            if (list->instrs[s].reduce != NULL) {
                end(&list->instrs[s], &open);
            }
        }
        begin(instr, &open);
        most->transfers = larger(most->transfers, open.transfers);
        most->sums = larger(most->sums, open.sums + (instr->tie != NULL));
    }
    left->transfers = larger(left->transfers, open.transfers);
    left->sums = larger(left->sums, open.sums);
    for (uint32_t i = first; i < first + n; i++) {
        end(&list->instrs[i], &open);
    }
}

static void count(struct exec_list *list, struct pst_transport_needs *needs)
{
    struct open most = {0, 0}, left = {0, 0};

    if (list->program == NULL) {
        return;
    }
    measure(list, needs);
    for (uint32_t s = 0; s < list->program->n_sections; s++) {
        walk(list, &list->program->sections[s], &most, &left);
    }
    if (!list->plan->asynchronous) {
        left = (struct open){0, 0};
    }
    needs->transfers = larger(needs->transfers, most.transfers + left.transfers);
    needs->sums = larger(needs->sums, most.sums + left.sums);
}

/* Running statistics go to other replicas one after the other. */
static void count_state(const struct exec_rank *rank, struct pst_transport_needs *needs)
{
    const struct pst_exec_config *config = &rank->exec->config;
    const struct pst_program *program = config->programs[rank->index];

    for (uint32_t s = 0; s < config->plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &config->plan->stages[s];
        const bool here = stage->n_ranks > 1 && pst_plan_replica(stage, rank->index) != PST_NONE;

        for (uint32_t n = 0; here && n < stage->n_nodes; n++) {
            for (uint32_t i = 0; i < config->graph->ops[stage->nodes[n]].n_state; i++) {
                const uint32_t value = program->state_values[2 * (size_t)stage->nodes[n] + i];

                widen(&needs->transfer_bytes, program->values[value].bytes);
                needs->transfers = larger(needs->transfers, 1);
            }
        }
    }
}

struct pst_transport_needs exec_needs(void *context, uint32_t index)
{
    struct pst_exec *exec = context;
    struct exec_rank *rank = &exec->ranks[index];
    struct pst_transport_needs needs = {0};

    count(&rank->train, &needs);
    count(&rank->eval, &needs);
    count_state(rank, &needs);
    return needs;
}
