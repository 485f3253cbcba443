/* SPDX-License-Identifier: Apache-2.0
 *
 * How each parameter is updated: the job's optimizer, learning rate and weight decay, with what
 * no_decay and [[train.group]] say by name. With Muon the matrices of blocks are orthogonalised
 * (Jordan et al., 2024); embeddings, the head, norms and biases are AdamW's, as its users do.
 */
#ifndef PST_SESSION_PARAMETER_GROUPS_H
#define PST_SESSION_PARAMETER_GROUPS_H

#include "config/job.h"
#include "exec/exec.h"

struct pst_rules {
    struct pst_exec_rule rules[PST_UPDATE_KINDS];
    uint32_t n;
};

/*
 * Gives every parameter of the graph its rule, and marks those of Muon; while nobody else has the
 * graph. config.value (exit 2): a pattern that matches nothing, too many kinds of updates.
 */
pst_status pst_rules_make(const struct pst_job *job, struct pst_graph *graph,
                          struct pst_rules *ret_rules, struct pst_error *err);

/* "adamw; 26 of 52 parameters without weight decay": one line into text, which is returned. */
const char *pst_rules_text(const struct pst_rules *rules, const struct pst_graph *graph, char *text,
                           size_t size);

#endif
