/* SPDX-License-Identifier: Apache-2.0
 *
 * The largest size that something can do, where what it can do is known by trying alone and need
 * not end at the first size that it cannot: planners may fail at some sizes and not at larger ones.
 */
#ifndef PST_TUNE_LARGEST_H
#define PST_TUNE_LARGEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct pst_largest {
    uint32_t limit; /* largest size that is tried; at least 1 */
    pst_status (*try_size)(void *context, uint32_t size, bool *ret_fits); /* errors end all */
    void *context;
};

/*
 * Doubles from 1 to the first size that does not fit, halves the interval between it and the last
 * that does, and looks beyond: at six sizes up to twice the largest, a factor of 2^(1/6) apart,
 * largest first. If one fits, the interval above it is halved, and so on until none does. No size
 * is tried twice, and none above one that does not fit where nothing smaller does.
 * *ret_size: the largest that was seen to fit, 0: none. *ret_bounded: one more does not.
 */
pst_status pst_largest_search(const struct pst_largest *search, uint32_t *ret_size,
                              bool *ret_bounded);

#endif
