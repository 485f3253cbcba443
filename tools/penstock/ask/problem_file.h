/* SPDX-License-Identifier: Apache-2.0
 *
 * A penstock-problem file: a costed graph, devices, and a question to one plugin. The whole input
 * of `penstock partition` (and of `penstock memopt`).
 */
#ifndef PST_ASK_PROBLEM_FILE_H
#define PST_ASK_PROBLEM_FILE_H

#include <jansson.h>

#include "graph/costed.h"

struct pst_problem {
    struct pst_arena arena;
    const char *path; /* for messages */
    struct pst_costed *graph;
    uint32_t n_devices;  /* >= 1 */
    bool no_devices;     /* neither "devices" nor "in_flight": no question to a partitioner */
    uint32_t node_size;  /* devices of a node; 0: all in one */
    double memory_bytes; /* of a device; INFINITY: unlimited */
    uint32_t mini_batch; /* samples of a step; default: the graph's batch */
    uint32_t n_micro_batches, n_degrees;
    const uint32_t *micro_batches; /* ascending, at most mini_batch (the last micro-batch may be
                                      smaller then); default: all powers of two that divide it */
    const uint32_t *degrees;       /* ascending; default: 1 */
    double weight_multiplier;      /* default 4 */
    double p2p_bandwidth, allreduce_bandwidth;            /* bytes/s; 0: free (null in the file) */
    uint32_t comm_model;                                  /* PST_COMM_* */
    bool planned;                                         /* cost = "planned" */
    const char *scheduler, *memopt;                       /* for planned; NULL: none named */
    json_t *scheduler_options, *memopt_options, *options; /* objects or NULL; owned */
    /* of `penstock memopt` alone */
    uint32_t stage_samples; /* of a micro-batch: micro_batches[0]; default the graph's batch */
    uint32_t in_flight;
    double static_bytes;                /* default: weight_multiplier x all parameters */
    double input_bytes, swap_bandwidth; /* 0; 0: no swap */
    uint32_t link_directions, staging;  /* 1, 2 */
};

/* Errors (PST_ERR_CONFIG): those of pst_costed_read; config.key with the nearest key,
   config.value: a count of 0, a size that does not divide the mini-batch, a bandwidth of 0 or
   below. graph_file is relative to the problem's folder and stays inside it.
   What is no error here: no_devices. "scheduler" and "memopt" with their options
   want "cost": "planned". */
pst_status pst_problem_read(const char *path, struct pst_problem **ret_problem,
                            struct pst_error *err);
/* A problem as a file with its graph inside, and the problem of such a text: all of it but path and
   stage_samples. free() the text. */
char *pst_problem_write(const struct pst_problem *problem);
pst_status pst_problem_parse(const char *text, struct pst_problem **ret_problem,
                             struct pst_error *err);
void pst_problem_destroy(struct pst_problem *problem);

#endif
