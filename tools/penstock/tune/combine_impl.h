/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to combinations: what combine_read.c reads and combine.c hands out.
 */
#ifndef PST_TUNE_COMBINE_IMPL_H
#define PST_TUNE_COMBINE_IMPL_H

#include "base/memory.h"
#include "tune/combine.h"

/* What jansson made: that it made nothing is for want of memory. */
static inline void *pst_combine_made(void *value)
{
    if (value == NULL) {
        pst_out_of_memory();
    }
    return value;
}

/* What an axis is called in [compare], and where its values go. */
struct pst_axis_place {
    const char *key, *table, *entry; /* entry: NULL where the value is the whole table */
};
extern const struct pst_axis_place pst_axis_places[PST_AXES];

/* How many times an axis multiplies the combinations: strategies of methods go round together. */
uint32_t pst_combination_factor(const struct pst_combinations *set, enum pst_axis_kind axis);

#endif
