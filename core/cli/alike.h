/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors of processes that a launcher has started and that have not met: a wrong word in a config
 * is found by each of them, and one of a machine is to tell it. An error that only one has, such as
 * a file that is missing on its host, it tells itself.
 *
 * The rule: who fails tells, unless another process of the same job, user and machine says that it
 * has told the very same words. Nobody is silent on a guess.
 */
#ifndef PST_CLI_ALIKE_H
#define PST_CLI_ALIKE_H

#include "base/error.h"

struct pst_alike {
    int fd; /* where others ask; -1: nobody can */
};

/* True: this process is to tell, then to call pst_alike_end. Others wait for that, at most for a
   second or two. Rank 0 is first, so that the rest waits for it for a moment. */
bool pst_alike_begin(const struct pst_error *err, struct pst_alike *ret_alike);
/* It has told. Waits for a second, at most, for those that find the same. */
void pst_alike_end(struct pst_alike *alike);

/* pst_cli_end for such processes; what is told by another rank than 0 begins with its name. */
int pst_cli_end_alike(pst_status st, bool json, struct pst_error *err);

#endif
