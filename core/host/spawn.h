/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts a process beside this one. Never by fork: the caller may have threads and devices open.
 */
#ifndef PST_HOST_SPAWN_H
#define PST_HOST_SPAWN_H

#include <stddef.h>
#include <sys/types.h>

struct pst_spawn_move {
    int from, to; /* descriptors of the caller, and of the process */
};

/* In a group of its own, with no signal blocked or caught, nothing to read, and no descriptor but
   1, 2 and those of the moves, which are made in their order and leave none below `first_free`.
   word: NAME=VALUE, takes the place of its like in the environment. Returns 0 or an errno. */
int pst_spawn(const char *program, char *const *argv, const char *word,
              const struct pst_spawn_move *moves, size_t n_moves, int first_free, pid_t *ret_pid);

#endif
