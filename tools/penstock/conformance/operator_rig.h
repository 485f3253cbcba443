/* SPDX-License-Identifier: Apache-2.0
 *
 * One operator of a plugin with an example of its own, and its kernels for the host: operands in
 * blocks that end before an inaccessible page, of which a pass gets those that the row names. After
 * each call the rig looks for what the kernel wrote and should not have, and for what it left out.
 */
#ifndef PST_CONFORMANCE_OPERATOR_RIG_H
#define PST_CONFORMANCE_OPERATOR_RIG_H

#include "graph/custom.h"
#include "graph/graph.h"
#include "host/plugin_host.h"

/* How parallel() splits its items. */
enum pst_rig_split {
    PST_SPLIT_NONE,    /* one range */
    PST_SPLIT_ITEMS,   /* each item by itself, from the last to the first */
    PST_SPLIT_THREADS, /* three threads */
    PST_SPLITS
};

struct pst_guarded; /* plugins/device/cpu/guard_page_arena.h */

struct pst_operand_block {
    struct pst_guarded *memory;
    unsigned char *base;   /* NULL: there is none */
    unsigned char *before; /* a copy, against which a call is held */
    uint64_t elems, bytes;
    uint32_t dtype;
};

struct pst_operator_rig {
    struct pst_instance *instance;
    struct pst_graph_builder *builder; /* has the custom operator */
    struct pst_custom *custom;
    const struct pst_operator_kernels *kernels; /* of device cpu; NULL: none for this type */
    struct pst_operator_example example;
    uint32_t number; /* of the example */
    uint32_t dtype, samples, split;
    uint64_t seed, first_sample;
    uint32_t without_dx; /* bit i: nobody wants dx[i] */
    uint32_t flags;      /* of calls; at first PST_OPERATOR_TRAINING */
    struct pst_operand_block x[PST_OPERATOR_MAX_X], dx[PST_OPERATOR_MAX_X];
    struct pst_operand_block p[PST_OPERATOR_MAX_P], dp[PST_OPERATOR_MAX_P];
    struct pst_operand_block y[PST_OPERATOR_MAX_Y], z[PST_OPERATOR_MAX_Z], dy, workspace;
};

/*
 * Example number `example` in a model of that type, with operands by the seed: those of sample i of
 * the run are the same in every rig. PST_OK with *ret_more false: there is no such example. Else an
 * error of the plugin's calls. Finish it if PST_OK and *ret_more.
 */
pst_status pst_operator_rig_init(struct pst_operator_rig *rig, struct pst_instance *instance,
                                 uint32_t example, uint32_t dtype, uint32_t samples,
                                 uint64_t first_sample, uint64_t seed, bool *ret_more,
                                 struct pst_error *err);
void pst_operator_rig_finish(struct pst_operator_rig *rig);

/* Runs a pass (enum pst_operator_pass), where there are kernels, into outputs that nobody wrote.
   The rule that it breaks, or
   "". */
const char *pst_operator_rig_run(struct pst_operator_rig *rig, uint32_t pass);
/* F, B and W; the first rule that is broken. */
const char *pst_operator_rig_run_all(struct pst_operator_rig *rig);

double pst_operand_get(const struct pst_operand_block *block, uint64_t i);
void pst_operand_put(struct pst_operand_block *block, uint64_t i, double value);

#endif
