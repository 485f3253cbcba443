/* SPDX-License-Identifier: Apache-2.0
 *
 * graphpipe's whole answer to a generated problem, judged by the rig. Include after cmocka.
 */
#ifndef TEST_GRAPHPIPE_RIG_H
#define TEST_GRAPHPIPE_RIG_H

#include <math.h>
#include <stdlib.h>

#include "partition_check.h"
#include "solver.h"

static inline struct gp_options rig_options(void)
{
    return (struct gp_options){.sp = GP_SP_AUTO, .exact = true};
}

/* Solves and checks what is found; T in us, INFINITY: no plan. ret_answer may be NULL. */
static inline double rig_solve(const struct rig_case *c, const struct gp_options *options,
                               struct gp_answer *ret_answer)
{
    struct part_problem p;
    struct gp_answer answer;
    double best = INFINITY;

    rig_problem(c, &p);
    assert_int_equal(gp_solve(&p, options, &answer), PST_OK);
    if (answer.found) {
        uint32_t *stage_of = calloc(2 * (size_t)p.n, sizeof *stage_of), *d = stage_of + p.n;
        struct rig_case at = *c;
        struct rig_worth worth;

        assert_non_null(stage_of);
        rig_stages(&answer.plan, stage_of, d);
        best = answer.value.bottleneck_ns / 1000;
        if (answer.b != 0) {
            at.b = answer.b;
            worth = rig_judge(&at, stage_of, answer.plan.n_stages, d, false);
            assert_true(worth.legal);
            assert_true(worth.fits);
            assert_true(worth.devices <= c->devices);
            rig_close(worth.bottleneck, best);
        }
        if (answer.lower_ns > answer.value.bottleneck_ns * (1 + 1e-9)) {
            fail_msg("bound %.17g of T %.17g (%s)", answer.lower_ns, answer.value.bottleneck_ns,
                     answer.source);
        }
        free(stage_of);
    }
    if (ret_answer != NULL) {
        *ret_answer = answer;
    }
    return best;
}

#endif
