/* SPDX-License-Identifier: Apache-2.0 */
#include "steps.h"

#include <math.h>

#include "ranges.h"

/* The most work of all trials together, tenths of a second: a pass is lowered and simulated in
   about a microsecond; the buffers and transfers of an operator take some. */
#define WORK_MAX UINT64_C(200000)

/* The least work of a trial: before its first pass is timed, strategies are asked about all its
   stages, and a memory optimizer that decides about all devices at once has programs laid out. */
enum { WORK_OF_NODE = 4, WORK_LEAST = 2000 };

bool part_steps_init(struct part_steps *steps)
{
    steps->trial = steps->host->get_extension(steps->host, PST_TRIAL);
    steps->work = 2 * (uint64_t)steps->n_stages * (steps->batch / steps->size) +
                  WORK_OF_NODE * (uint64_t)steps->n;
    steps->work = steps->work < WORK_LEAST ? WORK_LEAST : steps->work;
    part_steps_refill(steps);
    return steps->trial != NULL;
}

void part_steps_refill(struct part_steps *steps)
{
    steps->left = steps->most == 0 ? WORK_MAX : steps->most * steps->work;
}

static void ask(struct part_steps *steps, const uint32_t *cuts, bool quick, double *ret_ns)
{
    struct pst_trial_value value = {.size = sizeof value, .quick = quick};
    const struct part_chain_shape shape = {steps->n_stages, steps->size, 1, false};

    call_check(steps->trial->step(steps->host, part_chain_decls(steps->n, &shape, cuts),
                                  steps->n_stages, &value));
    *ret_ns = value.fits != 0 ? (double)value.step_ns : INFINITY;
}

static bool afford(struct part_steps *steps)
{
    call_go_on(steps->host);
    if (steps->work > steps->left) {
        return false;
    }
    steps->left -= steps->work;
    return true;
}

void part_steps_value(struct part_steps *steps, const uint32_t *cuts, double *ret_ns)
{
    *ret_ns = INFINITY;
    if (afford(steps)) {
        ask(steps, cuts, false, ret_ns);
    }
}

static void guess(void *steps_, const uint32_t *cuts, double *ret_ns)
{
    const struct part_steps *steps = steps_;

    steps->guess(steps->impl, cuts, ret_ns);
}

/* Only a cut that is faster has its programs laid out, to find out if it fits. */
static void value(void *steps_, const uint32_t *cuts, double *ret_ns)
{
    struct part_steps *steps = steps_;

    *ret_ns = INFINITY;
    if (afford(steps)) {
        ask(steps, cuts, true, ret_ns);
        if (*ret_ns < *steps->best_ns) {
            ask(steps, cuts, false, ret_ns);
        }
    }
}

void part_steps_move(struct part_steps *steps, uint32_t *cuts, double *step_ns)
{
    const struct part_borders borders = {
        .n = steps->n, .n_stages = steps->n_stages, .impl = steps, .guess = guess, .step = value};

    steps->best_ns = step_ns;
    part_borders_move(&borders, cuts, step_ns);
}
