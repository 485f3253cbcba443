/* SPDX-License-Identifier: Apache-2.0
 *
 * The ground of the plugin ABI: version, status codes, and the rules by which structs grow.
 *
 * A struct that crosses the boundary starts with `size`, the sizeof of whoever built it, and only
 * ever grows at its end. Before touching a field that is younger than 1.0 ask PST_HAS; before
 * calling a function that may be absent ask PST_CAN. Enumerators cross as uint32_t; values are only
 * added, and a value one does not know gets PST_ERR_UNSUPPORTED.
 *
 * Thread tags used in these headers: [plan] the planning thread, one call at a time per instance,
 * may allocate and block; [any] any thread at any time.
 */
#ifndef PENSTOCK_ABI_H
#define PENSTOCK_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PST_ABI_MAJOR 1
#define PST_ABI_MINOR                                                                              \
    7 /* 1.1: pst_schedule_in.barrier, pst.fixed-shape/1, pst.claim/1;                             \
         1.2: pst.profile/1, pst.remark/1; 1.3: pst_stage_node.op;                                 \
         1.4: pst_stage_node.output_bytes, pst_replay, pst.memopt-global/1,                        \
         PST_VERSION_STASHED; 1.5: ops.h, build.h;                                                 \
         1.6: pst_plugin.url, .vendor, ids with a vendor, pst.scratch/1,                           \
         pst_topology.n_copies, .slices, pst_cluster_device.kind,                                  \
         pst_cost.compute_on, pst_stage_question.ranks, pst_figures.problem;                       \
         1.7: data.h, operator.h, pst_builder.custom, PST_NODE_PRESET,                             \
         pst_stage_decl.tensor, pst_partition_in.tensors, .tied,                                   \
         pst_stage_question.tensor */

#if defined(__GNUC__)
#define PST_EXPORT __attribute__((visibility("default")))
#else
#define PST_EXPORT
#endif

/* Does *p, as laid out by whoever built it, reach field f? And: is that function there? */
#define PST_HAS(p, f)                                                                              \
    ((size_t)((const char *)(&(p)->f + 1) - (const char *)(p)) <= (size_t)(p)->size)
#define PST_CAN(p, f) (PST_HAS(p, f) && (p)->f != NULL)

/* An index that names nothing. */
#define PST_NONE UINT32_MAX

/* The result of a call, sorted by who must act. */
typedef int32_t pst_status;
enum {
    PST_OK = 0,
    PST_ERR_CONFIG = -1,      /* the user: a wrong name, value or file */
    PST_ERR_INFEASIBLE = -2,  /* the user: a fair question without an answer, e.g. memory */
    PST_ERR_UNSUPPORTED = -3, /* this build, machine or plugin cannot */
    PST_ERR_CANCELLED = -4,   /* nobody: it was asked to stop */
    PST_ERR_NOMEM = -5,       /* the machine: host memory */
    PST_ERR_IO = -6,          /* the machine: files, sockets */
    PST_ERR_DEVICE = -7,      /* the machine: CUDA, NCCL, MPI, oneDNN */
    PST_ERR_BUG = -8          /* a contract was broken */
};

#endif
