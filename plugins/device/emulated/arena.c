/* SPDX-License-Identifier: Apache-2.0
 *
 * Address space in the place of memory, and how far up in it a run has come.
 */
#include "emulated.h"

#include <sys/mman.h>
#include <unistd.h>

static pst_status reserve(struct pst_emulated_space *space, uint64_t bytes, void **ret_base,
                          struct pst_error *err)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *mapping = MAP_FAILED;
    size_t mapped;

    if (space->mapping != NULL) {
        return pst_fail(err, PST_ERR_BUG, "internal", "device emulated: it has its arena already");
    }
    mapped = bytes <= SIZE_MAX / 2 ? ((size_t)bytes + page - 1) / page * page + page : 0;
    if (mapped > 0) {
        mapping = mmap(NULL, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    if (mapping == MAP_FAILED) {
        return pst_fail(err, PST_ERR_NOMEM, "machine.memory",
                        "no address space for an arena of %llu bytes", (unsigned long long)bytes);
    }
    *space = (struct pst_emulated_space){mapping, mapped};
    *ret_base = mapping;
    return PST_OK;
}

pst_status pst_emulated_arena(struct pst_device *device, uint64_t bytes, void **ret_base,
                              struct pst_error *err)
{
    pst_status status = reserve(&device->arena, bytes, ret_base, err);

    device->base = device->arena.mapping;
    device->arena_bytes = status == PST_OK ? bytes : device->arena_bytes;
    return status;
}

pst_status pst_emulated_pinned(struct pst_device *device, uint64_t bytes, void **ret_base,
                               struct pst_error *err)
{
    return reserve(&device->host, bytes, ret_base, err);
}

void pst_emulated_arena_finish(struct pst_device *device)
{
    struct pst_emulated_space *spaces[] = {&device->arena, &device->host};

    for (uint32_t i = 0; i < 2; i++) {
        if (spaces[i]->mapping != NULL) {
            munmap(spaces[i]->mapping, spaces[i]->bytes);
        }
    }
}

void pst_emulated_touch(struct pst_device *device, const void *data, uint64_t bytes)
{
    uintptr_t at = (uintptr_t)data, base = (uintptr_t)device->base;
    uint64_t end;

    if (data == NULL || device->base == NULL || at < base || at - base > device->arena_bytes) {
        return;
    }
    end = at - base + bytes;
    device->reached_bytes = end > device->reached_bytes ? end : device->reached_bytes;
}
