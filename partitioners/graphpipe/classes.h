/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to graphpipe's costs: making classes.
 */
#ifndef GRAPHPIPE_CLASSES_H
#define GRAPHPIPE_CLASSES_H

#include "costs.h"

uint64_t gp_hash(uint64_t seed, const void *bytes, size_t n);

void gp_classes_of_ops(struct gp_costs *costs);
void gp_classes_of_blocks(struct gp_costs *costs);
/* Sums over the items of a new series; its ops, kids, load and times are set. */
void gp_class_sums(struct gp_costs *costs, struct gp_class *c);

#endif
