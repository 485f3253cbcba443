/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/judge.h"

#include "prove/check.h"
#include "sim/sim.h"

const struct pst_judge pst_judge = {
    .check = pst_plan_check,
    .steps = pst_sim_steps,
    .quick = pst_sim_quick,
};
