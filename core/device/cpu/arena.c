/* SPDX-License-Identifier: Apache-2.0
 *
 * Arenas: a block that ends right in front of an inaccessible page, so that running over its end is
 * caught by hardware, filled with 0xFF (NaN in every float type), so that reading what nobody wrote
 * shows in the numbers. The fill also makes every page present before training starts.
 */
#include "cpu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BASE_ALIGNMENT 256u

static pst_status map_block(uint64_t bytes, struct pst_cpu_arena *arena, unsigned char **ret_end,
                            struct pst_error *err)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *mapping;
    size_t usable;

    if (bytes > SIZE_MAX / 2 - 2 * page) {
        return pst_fail(err, PST_ERR_NOMEM, "machine.memory",
                        "an arena of %llu bytes is more than a process can address",
                        (unsigned long long)bytes);
    }
    /* rounding the base down may take up to BASE_ALIGNMENT - 1 bytes more */
    usable = ((size_t)bytes + BASE_ALIGNMENT - 1 + page - 1) / page * page;
    mapping = mmap(NULL, usable + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) {
        return pst_fail(err, PST_ERR_NOMEM, "machine.memory",
                        "no host memory for an arena of %llu bytes", (unsigned long long)bytes);
    }
    if (mprotect(mapping + usable, page, PROT_NONE) != 0) {
        munmap(mapping, usable + page);
        return pst_fail(err, PST_ERR_NOMEM, "machine.memory",
                        "the guard page of an arena could not be set up");
    }
    madvise(mapping, usable, MADV_HUGEPAGE); /* only advice */
    arena->mapping = mapping;
    arena->mapped_bytes = usable + page;
    *ret_end = mapping + usable;
    return PST_OK;
}

pst_status pst_cpu_arena_add(struct pst_device *device, uint64_t bytes, void **ret_base,
                             struct pst_error *err)
{
    struct pst_cpu_arena *arena = malloc(sizeof *arena);
    unsigned char *end = NULL, *base;
    pst_status status;

    if (arena == NULL) {
        return pst_fail_nomem(err);
    }
    status = map_block(bytes, arena, &end, err);
    if (status != PST_OK) {
        free(arena);
        return status;
    }
    memset(arena->mapping, 0xFF, (size_t)(end - (unsigned char *)arena->mapping));
    base = end - bytes;
    base -= (uintptr_t)base % BASE_ALIGNMENT;
    arena->next = device->arenas;
    device->arenas = arena;
    *ret_base = base;
    return PST_OK;
}

void pst_cpu_arenas_finish(struct pst_device *device)
{
    while (device->arenas != NULL) {
        struct pst_cpu_arena *arena = device->arenas;

        device->arenas = arena->next;
        munmap(arena->mapping, arena->mapped_bytes);
        free(arena);
    }
}
