/* SPDX-License-Identifier: Apache-2.0
 *
 * What reading lists and making configs from them share.
 */
#ifndef PST_TUNE_COMBINE_IMPL_H
#define PST_TUNE_COMBINE_IMPL_H

#include "tune/combine.h"

/* What jansson made: that it made nothing is for want of memory. */
void *pst_json_made(void *value) __attribute__((returns_nonnull));

/* What an axis is called in [compare], and where its values go. */
struct pst_axis_place {
    const char *key, *table, *entry; /* entry: NULL where the value is the whole table */
};
extern const struct pst_axis_place pst_axis_places[PST_AXES];

#endif
