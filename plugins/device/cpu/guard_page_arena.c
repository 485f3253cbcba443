/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cpu/guard_page_arena.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * Address space that the libraries behind kernels take once they run, as code that they make for
 * the shapes that come. Where it is not there some of them end the process with a signal; so it is
 * looked for while there still is a way to say so.
 */
#define LIBRARY_BYTES ((size_t)32 << 20)

static bool libraries_have_room(void)
{
    void *room =
        mmap(NULL, LIBRARY_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return room != MAP_FAILED && munmap(room, LIBRARY_BYTES) == 0;
}

static pst_status map_block(uint64_t bytes, struct pst_guarded *block, unsigned char **ret_end,
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
    /* rounding the base down may take up to PST_GUARDED_ALIGN - 1 bytes more */
    usable = ((size_t)bytes + PST_GUARDED_ALIGN - 1 + page - 1) / page * page;
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
    if (!libraries_have_room()) {
        munmap(mapping, usable + page);
        return pst_fail(err, PST_ERR_NOMEM, "machine.memory",
                        "no host memory for an arena of %llu bytes and %zu beside it for libraries",
                        (unsigned long long)bytes, LIBRARY_BYTES);
    }
    madvise(mapping, usable, MADV_HUGEPAGE); /* only advice */
    block->mapping = mapping;
    block->mapped_bytes = usable + page;
    *ret_end = mapping + usable;
    return PST_OK;
}

pst_status pst_guarded_init(struct pst_guarded *block, uint64_t bytes, struct pst_error *err)
{
    unsigned char *end = NULL, *base;
    pst_status status = map_block(bytes, block, &end, err);

    if (status != PST_OK) {
        return status;
    }
    memset(block->mapping, 0xFF, (size_t)(end - (unsigned char *)block->mapping));
    base = end - bytes;
    block->base = base - (uintptr_t)base % PST_GUARDED_ALIGN;
    return PST_OK;
}

void pst_guarded_finish(struct pst_guarded *block)
{
    if (block->base != NULL) {
        munmap(block->mapping, block->mapped_bytes);
        block->base = NULL;
    }
}
