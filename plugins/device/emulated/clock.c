/* SPDX-License-Identifier: Apache-2.0
 *
 * The clock of a device. It is put forward by what the device does, never by how late this machine
 * woke it up: a pass that began late still ends in time where it can, so errors do not add up.
 */
#include "emulated.h"

#include <errno.h>

#include "base/machine.h"

void pst_emulated_spend(struct pst_device *device, uint64_t ns)
{
    if (__builtin_add_overflow(device->clock_ns, ns, &device->clock_ns)) {
        device->clock_ns = UINT64_MAX;
    }
}

void pst_emulated_finish(struct pst_device *device)
{
    const struct timespec end = pst_timespec(device->clock_ns);

    device->in_update = false;
    if (pst_now_ns() >= device->clock_ns) {
        return;
    }
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR) {
    }
}

uint64_t pst_emulated_now(struct pst_device *device)
{
    return device->clock_ns;
}

void pst_emulated_advance(struct pst_device *device, uint64_t ns)
{
    device->clock_ns = ns > device->clock_ns ? ns : device->clock_ns;
    pst_emulated_finish(device);
}
