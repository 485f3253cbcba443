/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of a pass, and updates, that the device is asked for at once: inside of the executor.
 */
#ifndef PST_EXEC_GRAPHS_H
#define PST_EXEC_GRAPHS_H

#include "exec/exec.h"

struct exec_rank;
struct exec_list;
struct exec_task;

/* All that determines the kernels and addresses of an update. */
struct exec_update_key {
    uint32_t stage, parity, version, optimizer, decays;
};

/* Calls or an update that are asked for at once (graphs.c). */
struct exec_graph {
    uint32_t first_call, n_calls; /* in the training list; n_calls 0: an update, */
    struct exec_update_key key;   /* this one */
    uint32_t sampled; /* of the calls, one that says of which samples; PST_NONE: none does */
    bool has_run, refused;
    struct pst_replay *replay; /* NULL: not captured, or not yet */
};

enum { EXEC_GRAPHS = 256 }; /* what comes later is asked for call by call */

struct exec_graphs {
    struct exec_graph *graphs; /* NULL: there are none */
    uint32_t n;
    struct exec_graph **from; /* [call] of the training list: that begins with it, or NULL */
    bool told;                /* that a capture was refused */
};

/* An update of a stage under way. */
struct exec_update {
    struct exec_rank *rank;
    const struct exec_task *task;
    uint32_t stage;
    uint64_t number; /* of the run */
    bool finite;     /* false: weights are taken over as they are */
};

/* graphs.c: lists are bound; finds what can be asked for at once. Nothing is captured yet. */
void exec_graphs_init(struct exec_rank *rank);
/* Before kernels and device go. */
void exec_graphs_finish(struct exec_rank *rank);
/* Runs a call of a pass, of which n are left, and the *ret_n - 1 behind it that go with it. */
pst_status exec_graphs_pass(struct exec_rank *rank, struct exec_list *list, uint32_t call,
                            uint32_t n, const struct exec_task *task, uint32_t flags,
                            uint32_t *ret_n, struct pst_error *err);
pst_status exec_graphs_update(const struct exec_update *update, struct pst_error *err);

#endif
