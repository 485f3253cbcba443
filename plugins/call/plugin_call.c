/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a call stands in a list, so that a jump out of the call loses none of it.
 */
#include "plugin_call.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct block {
    struct block *next, **link; /* link: what points here; NULL: outside of a call */
    struct call_scope *scope;
    _Alignas(max_align_t) unsigned char bytes[];
};

struct call_scope {
    pthread_mutex_t lock;
    struct block *first;
};

/* Where this thread is. */
static _Thread_local struct call_scope *scope_now;
static _Thread_local jmp_buf *way_out;
static _Thread_local pst_status end_status;

static void enlist(struct block *block)
{
    struct call_scope *scope = block->scope;

    if (scope != NULL) {
        pthread_mutex_lock(&scope->lock);
        block->next = scope->first;
        block->link = &scope->first;
        if (block->next != NULL) {
            block->next->link = &block->next;
        }
        scope->first = block;
        pthread_mutex_unlock(&scope->lock);
    }
}

static void strike(struct block *block)
{
    struct call_scope *scope = block->scope;

    if (scope != NULL) {
        pthread_mutex_lock(&scope->lock);
        *block->link = block->next;
        if (block->next != NULL) {
            block->next->link = block->link;
        }
        pthread_mutex_unlock(&scope->lock);
    }
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
    block->scope = scope_now;
    enlist(block);
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
    size_t bytes = size_of(count, size);

    if (block == NULL) {
        return call_alloc(count, size);
    }
    strike(block);
    larger = bytes == 0 ? NULL : realloc(block, bytes);
    enlist(larger == NULL ? block : larger);
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

void call_end(pst_status status)
{
    if (way_out == NULL) {
        abort();
    }
    end_status = status;
    longjmp(*way_out, 1);
}

struct call_scope *call_now(void)
{
    return scope_now;
}

pst_status call_join(struct call_scope *scope, pst_status (*run)(void *context), void *context)
{
    struct call_scope *const scope_before = scope_now;
    jmp_buf *const way_before = way_out;
    jmp_buf here;
    pst_status status;

    scope_now = scope;
    way_out = &here;
    status = setjmp(here) == 0 ? run(context) : end_status;
    scope_now = scope_before;
    way_out = way_before;
    return status;
}

pst_status call_run(pst_status (*run)(void *context), void *context)
{
    struct call_scope scope = {.lock = PTHREAD_MUTEX_INITIALIZER};
    pst_status status = call_join(&scope, run, context);

    while (scope.first != NULL) {
        call_free(scope.first->bytes);
    }
    pthread_mutex_destroy(&scope.lock);
    return status;
}
