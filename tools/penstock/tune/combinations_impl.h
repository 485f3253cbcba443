/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that reading lists and making configs from them share.
 */
#ifndef PST_TUNE_COMBINATIONS_IMPL_H
#define PST_TUNE_COMBINATIONS_IMPL_H

#include "tune/combinations.h"

/* Returns `value`, which jansson made. Ends the program if it is NULL (out of memory). */
void *pst_json_made(void *value) __attribute__((returns_nonnull));

/* The key of an axis in [compare], and the place of its values in the config. */
struct pst_axis_place {
    const char *key, *table, *entry; /* entry: NULL where the value is the whole table */
};
extern const struct pst_axis_place pst_axis_places[PST_AXES];

#endif
