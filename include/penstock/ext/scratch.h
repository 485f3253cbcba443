/* SPDX-License-Identifier: Apache-2.0
 *
 * pst.scratch/1: memory for one call, which the host takes back when that call into the plugin has
 * returned, however it did. For tables of a price or a search: host->alloc would keep them for as
 * long as the instance lives. Since 1.6.
 */
#ifndef PENSTOCK_EXT_SCRATCH_H
#define PENSTOCK_EXT_SCRATCH_H

#include "../host.h"

#define PST_SCRATCH "pst.scratch/1"

struct pst_scratch {
    uint32_t size;
    /*
     * Zeroed memory until the call of this instance in which it was asked for returns: create(),
     * destroy() or a function of an interface. align is a power of two up to 4096; 0: that of any
     * type. NULL when there is none. Each instance has its own: a question to another strategy
     * (pst.ask/1) takes nothing back from who asks.
     * [plan], from the thread that was called: not from threads that the plugin started
     */
    void *(*alloc)(const struct pst_host *host, size_t bytes, size_t align);
};

#endif
