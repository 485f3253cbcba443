/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PST_SIM_JUDGE_H
#define PST_SIM_JUDGE_H

#include "plan/judge.h"

/* The proof and the simulator, as core asks them. */
extern const struct pst_judge pst_judge;

#endif
