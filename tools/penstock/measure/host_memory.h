/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host has left.
 */
#ifndef PST_MEASURE_HOST_MEMORY_H
#define PST_MEASURE_HOST_MEMORY_H

#include <stdint.h>

/* Bytes that can be had without swapping, as the kernel estimates; UINT64_MAX where it does not. */
uint64_t pst_host_available_bytes(void);

#endif
