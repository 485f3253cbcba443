/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to partitioners/common: what the two ways of listing downsets share.
 */
#ifndef PARTITIONERS_COMMON_DOWNSETS_IMPL_H
#define PARTITIONERS_COMMON_DOWNSETS_IMPL_H

#include "downsets.h"

/* Renumbers: smaller sets first. */
void downsets_sort(struct part_downsets *sets);

#endif
