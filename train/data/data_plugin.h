/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of a data plugin, held against the rules of <penstock/data.h>.
 */
#ifndef PST_DATA_DATA_PLUGIN_H
#define PST_DATA_DATA_PLUGIN_H

#include <penstock/data.h>

#include "job/training.h"

/* Is the job's data read by a plugin that is not penstock's own? Opens nothing. */
pst_status pst_data_is_foreign(const struct pst_job *job, bool *ret_foreign, struct pst_error *err);

/* Does penstock read data of that kind without a plugin? */
bool pst_data_is_built_in(const char *id);

/* The fault of a plugin whose calls after open() ask for what only one thread may change. */
#define PST_DATA_BEGGED "after open(), it uses host->alloc or an extension of the host"

/* Samples `first` ... of a plugin's read(), n of them: are tokens and classes in range, and numbers
   finite? Targets may also be `ignored`. Else ret_fault says which is not; it has room for 256. */
bool pst_data_judge(const struct pst_data_shape *shape, int32_t ignored, uint64_t first, uint32_t n,
                    void *const *inputs, char ret_fault[256]);

#endif
