/* SPDX-License-Identifier: Apache-2.0 */
#include "steps.h"

#include <math.h>

#include "ranges.h"

/* Of all trials together, tenths of a second: a pass is lowered and simulated in about a
   microsecond, what an operator keeps and sends takes some. */
#define WORK_MAX UINT64_C(200000)

/* Of a trial at least: before its first pass is timed, strategies are asked about all its stages,
   and a memory optimizer that decides about all devices at once has their programs laid out. */
enum { WORK_OF_NODE = 4, WORK_LEAST = 2000 };

bool part_steps_init(struct part_steps *steps)
{
    steps->trial = steps->host->get_extension(steps->host, PST_TRIAL);
    steps->work = 2 * (uint64_t)steps->n_stages * (steps->batch / steps->size) +
                  WORK_OF_NODE * (uint64_t)steps->n;
    steps->work = steps->work < WORK_LEAST ? WORK_LEAST : steps->work;
    steps->left = steps->most == 0 ? WORK_MAX : steps->most * steps->work;
    return steps->trial != NULL;
}

void part_steps_value(struct part_steps *steps, const uint32_t *cuts, double *ret_ns)
{
    struct pst_trial_value value = {.size = sizeof value};
    const struct part_chain_shape shape = {steps->n_stages, steps->size, 1, false};

    *ret_ns = INFINITY;
    if (steps->work > steps->left) {
        return;
    }
    call_go_on(steps->host);
    steps->left -= steps->work;
    call_check(steps->trial->step(steps->host, part_chain_decls(steps->n, &shape, cuts),
                                  steps->n_stages, &value));
    if (value.fits != 0) {
        *ret_ns = (double)value.step_ns;
    }
}

static void guess(void *steps_, const uint32_t *cuts, double *ret_ns)
{
    const struct part_steps *steps = steps_;

    steps->guess(steps->impl, cuts, ret_ns);
}

static void value(void *steps, const uint32_t *cuts, double *ret_ns)
{
    part_steps_value(steps, cuts, ret_ns);
}

void part_steps_move(struct part_steps *steps, uint32_t *cuts, double *step_ns)
{
    const struct part_borders borders = {
        .n = steps->n, .n_stages = steps->n_stages, .impl = steps, .guess = guess, .step = value};

    part_borders_move(&borders, cuts, step_ns);
}
