/* SPDX-License-Identifier: Apache-2.0
 *
 * For programs that read jobs and are not penstock: the modules that [run] means where it names
 * none, and the sections of training.
 */
#ifndef PST_TESTS_JOB_DEFAULTS_H
#define PST_TESTS_JOB_DEFAULTS_H

#include "job/training.h"

__attribute__((constructor)) static void tell_job_defaults(void)
{
    pst_job_set_defaults("cpu", "threads");
    pst_job_set_training(&pst_training_rows);
}

#endif
