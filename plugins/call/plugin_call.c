/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a call stands in a list, so that a jump out of the call loses none of it.
 */
#include "plugin_call.h"

#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>

struct block {
    struct block *next, **link; /* link: what points here */
    struct call_region *region;
    _Alignas(max_align_t) unsigned char bytes[];
};

/* Memory that is allocated outside of any call, by tests, is never freed. */
static _Thread_local struct call_region outside;

/* Where this thread is: the innermost region, that of its call, and the way out of that. */
static _Thread_local struct call_region *region_now, *region_of_call;
static _Thread_local jmp_buf *way_out;
static _Thread_local pst_status end_status;

static void enlist(struct block *block, struct call_region *region)
{
    block->region = region;
    block->next = region->first;
    block->link = &region->first;
    if (block->next != NULL) {
        block->next->link = &block->next;
    }
    region->first = block;
}

static void strike(struct block *block)
{
    *block->link = block->next;
    if (block->next != NULL) {
        block->next->link = block->link;
    }
}

static struct call_region *here(void)
{
    return region_now == NULL ? &outside : region_now;
}

static void empty(struct call_region *region)
{
    struct block *block = region->first, *next;

    for (; block != NULL; block = next) {
        next = block->next;
        free(block);
    }
    region->first = NULL;
}

static struct block *block_of(void *memory)
{
    return (struct block *)((unsigned char *)memory - offsetof(struct block, bytes));
}

/* 0: more than there can be. */
static size_t size_of(size_t count, size_t size)
{
    size_t bytes;

    return __builtin_mul_overflow(count, size, &bytes) ||
                   __builtin_add_overflow(bytes, sizeof(struct block), &bytes) ||
                   bytes > PTRDIFF_MAX
               ? 0
               : bytes;
}

void *call_try_alloc(size_t count, size_t size)
{
    size_t bytes = size_of(count, size);
    struct block *block = bytes == 0 ? NULL : calloc(bytes, 1);

    if (block == NULL) {
        return NULL;
    }
    enlist(block, here());
    return block->bytes;
}

void *call_alloc(size_t count, size_t size)
{
    void *memory = call_try_alloc(count, size);

    if (memory == NULL) {
        call_end(PST_ERR_NOMEM);
    }
    return memory;
}

void *call_resize(void *old, size_t count, size_t size)
{
    struct block *block = old == NULL ? NULL : block_of(old), *larger;
    struct call_region *region;
    size_t bytes = size_of(count, size);

    if (block == NULL) {
        return call_alloc(count, size);
    }
    region = block->region;
    strike(block);
    larger = bytes == 0 ? NULL : realloc(block, bytes);
    enlist(larger == NULL ? block : larger, region);
    if (larger == NULL) {
        call_end(PST_ERR_NOMEM);
    }
    return larger->bytes;
}

void call_free(void *memory)
{
    if (memory != NULL) {
        strike(block_of(memory));
        free(block_of(memory));
    }
}

void call_enter(struct call_region *region)
{
    *region = (struct call_region){.outer = region_now};
    region_now = region;
}

void call_leave(struct call_region *region)
{
    empty(region);
    region_now = region->outer;
}

void call_keep(void *memory)
{
    if (memory != NULL) {
        strike(block_of(memory));
        enlist(block_of(memory), here()->outer == NULL ? &outside : here()->outer);
    }
}

void call_end(pst_status status)
{
    if (way_out == NULL) {
        abort();
    }
    while (region_now != region_of_call) {
        call_leave(region_now);
    }
    end_status = status;
    longjmp(*way_out, 1);
}

static pst_status run_in(struct call_region *region, pst_status (*run)(void *context),
                         void *context)
{
    struct call_region *const now_before = region_now, *const call_before = region_of_call;
    jmp_buf *const way_before = way_out;
    jmp_buf back;
    pst_status status;

    region_now = region_of_call = region;
    way_out = &back;
    status = setjmp(back) == 0 ? run(context) : end_status;
    region_now = now_before;
    region_of_call = call_before;
    way_out = way_before;
    return status;
}

pst_status call_run(pst_status (*run)(void *context), void *context)
{
    struct call_region region = {0};
    pst_status status = run_in(&region, run, context);

    empty(&region);
    return status;
}

pst_status call_try(pst_status (*run)(void *context), void *context)
{
    return run_in(region_now, run, context);
}
