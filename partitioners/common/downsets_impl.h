/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to partitioners/common: what the two ways of listing downsets share.
 */
#ifndef PARTITIONERS_COMMON_DOWNSETS_IMPL_H
#define PARTITIONERS_COMMON_DOWNSETS_IMPL_H

#include "downsets.h"

/* Arrays for sets->n_sets sets, but for bits. */
void downsets_room(struct part_downsets *sets, size_t n_added);
/* Renumbers: smaller sets first. */
void downsets_sort(struct part_downsets *sets);

#endif
