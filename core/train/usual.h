/* SPDX-License-Identifier: Apache-2.0
 *
 * The usual time of a step, of the measured ones.
 */
#ifndef PST_TRAIN_USUAL_H
#define PST_TRAIN_USUAL_H

#include <stdint.h>

/*
 * The median of n_steps times, as predicted steps are meant: where the pipeline runs empty every so
 * many steps (0 or 1: in each), of the means of as many, for one of them is longer. Overwrites
 * step_ns. 0: there are none.
 */
uint64_t pst_usual_step_ns(uint64_t *step_ns, uint64_t n_steps, uint64_t every);

#endif
