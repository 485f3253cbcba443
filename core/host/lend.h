/* SPDX-License-Identifier: Apache-2.0
 *
 * What a plugin is asked, as it gets it: a copy of the question and of all that this leads to, for
 * one call. What the plugin writes there reaches nothing that the host computes with, and is found.
 */
#ifndef PST_HOST_LEND_H
#define PST_HOST_LEND_H

#include <penstock/ext/profile.h>
#include <penstock/memopt_global.h>
#include <penstock/penstock.h>

#include "host/region.h"

struct pst_lending; /* a copy on its way */

/* Copies a question; the first thing that it puts is the question itself. */
typedef void pst_lend_copy(struct pst_lending *lending, const void *question);

pst_lend_copy pst_lend_place, pst_lend_schedule;   /* struct pst_place, pst_schedule_in */
pst_lend_copy pst_lend_partition, pst_lend_global; /* struct pst_partition_in, pst_global_in */
pst_lend_copy pst_lend_stage_view;                 /* struct pst_stage_view */

/* *ret_copy is for the plugin, and stays until the region is finished. Rows whose size the question
   states are longer by `wider` bytes, as those of a newer host are. */
void pst_lend(pst_lend_copy *copy, const void *question, uint32_t wider, struct pst_region *region,
              const void **ret_copy);

/* The figures of a graph of so many nodes and edges, as a partitioner gets them: the first thing in
   the region. */
void pst_lend_figures(const struct pst_figures *figures, uint32_t n_nodes, uint32_t n_edges,
                      struct pst_region *region);

#endif
