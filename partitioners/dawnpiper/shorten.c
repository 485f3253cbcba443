/* SPDX-License-Identifier: Apache-2.0
 *
 * The step of a job decides among cuts: bottlenecks say nothing of how a pipeline fills and drains.
 */
#include <math.h>

#include "dawnpiper.h"
#include "steps.h"

enum { TRIALS = 8 };

static void guess(void *pipe_, const uint32_t *cuts, double *ret_ns)
{
    struct pipe *pipe = pipe_;
    uint64_t sum_ns = 0, most_ns = 0;

    *ret_ns = INFINITY;
    for (uint32_t s = 0; s < pipe->n_stages; s++) {
        uint64_t ns, comm_ns = s == 0 ? 0 : pipe_comm(pipe, s - 1, cuts[s]);

        pipe_price(pipe, s, cuts[s], cuts[s + 1], &ns);
        if (ns == NS_NEVER) {
            return;
        }
        sum_ns += ns + 2 * comm_ns;
        most_ns = ns > most_ns ? ns : most_ns;
        most_ns = comm_ns > most_ns ? comm_ns : most_ns;
    }
    *ret_ns = (double)sum_ns + (double)(pipe->problem->batch / pipe->size - 1) * (double)most_ns;
}

void pipe_shorten(struct pipe *pipe, uint32_t *cuts)
{
    struct part_steps steps = {.host = pipe->problem->host,
                               .n = pipe->n,
                               .n_stages = pipe->n_stages,
                               .batch = pipe->problem->batch,
                               .size = pipe->size,
                               .most = TRIALS,
                               .impl = pipe,
                               .guess = guess};
    double step_ns;

    if (!part_steps_init(&steps)) {
        return;
    }
    part_steps_value(&steps, cuts, &step_ns);
    if (isinf(step_ns)) {
        return;
    }
    part_steps_move(&steps, cuts, &step_ns);
}
