/* SPDX-License-Identifier: Apache-2.0
 *
 * Arenas: guarded blocks, as many as are asked for, freed with the device.
 */
#include "cpu.h"

#include <stdlib.h>

#include "base/memory.h"

pst_status pst_cpu_arena_add(struct pst_device *device, uint64_t bytes, void **ret_base,
                             struct pst_error *err)
{
    struct pst_cpu_arena *arena = pst_alloc(1, sizeof *arena);
    pst_status status;

    status = pst_guarded_init(&arena->block, bytes, err);
    if (status != PST_OK) {
        free(arena);
        return status;
    }
    arena->next = device->arenas;
    device->arenas = arena;
    *ret_base = arena->block.base;
    return PST_OK;
}

void pst_cpu_arenas_finish(struct pst_device *device)
{
    while (device->arenas != NULL) {
        struct pst_cpu_arena *arena = device->arenas;

        device->arenas = arena->next;
        pst_guarded_finish(&arena->block);
        free(arena);
    }
}
