/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wire.h"

#include <string.h>

#include "base/memory.h"

struct pst_wire pst_wire_read(const char *bytes, size_t length, struct pst_arena *arena)
{
    return (struct pst_wire){.reads = true, .at = bytes, .left = length, .arena = arena};
}

bool pst_wire_is_read(const struct pst_wire *w)
{
    return !w->failed && w->left == 0;
}

static void put_bytes(struct pst_wire *w, const void *from, size_t n)
{
    size_t room = w->room > 0 ? w->room : 4096;

    while (room < w->n + n + 1) {
        room *= 2;
    }
    if (room != w->room) {
        w->bytes = pst_resize(w->bytes, room, 1);
        w->room = room;
    }
    if (n > 0) {
        memcpy(w->bytes + w->n, from, n);
    }
    w->n += n;
    w->bytes[w->n] = '\0';
}

static void take_bytes(struct pst_wire *w, void *to, size_t n)
{
    if (n == 0) {
        return;
    }
    if (w->failed || n > w->left) {
        w->failed = true;
        memset(to, 0, n);
        return;
    }
    memcpy(to, w->at, n);
    w->at += n;
    w->left -= n;
}

void pst_wire_bytes(struct pst_wire *w, void *at, size_t n)
{
    if (w->reads) {
        take_bytes(w, at, n);
    } else {
        put_bytes(w, at, n);
    }
}

void pst_wire_word(struct pst_wire *w, const char *word)
{
    size_t n = strlen(word) + 1;

    if (!w->reads) {
        put_bytes(w, word, n);
    } else if (w->failed || n > w->left || memcmp(w->at, word, n) != 0) {
        w->failed = true;
    } else {
        w->at += n;
        w->left -= n;
    }
}

void pst_wire_number(struct pst_wire *w, uint64_t *number)
{
    pst_wire_bytes(w, number, sizeof *number);
}

void pst_wire_uint(struct pst_wire *w, uint32_t *number)
{
    uint64_t wide = *number;

    pst_wire_number(w, &wide);
    w->failed |= wide > UINT32_MAX;
    *number = (uint32_t)wide;
}

void pst_wire_flag(struct pst_wire *w, bool *flag)
{
    uint64_t wide = *flag;

    pst_wire_number(w, &wide);
    *flag = wide != 0;
}

void pst_wire_amount(struct pst_wire *w, double *amount, double most)
{
    pst_wire_bytes(w, amount, sizeof *amount);
    w->failed |= w->reads && !(*amount >= 0 && *amount <= most); /* and no NaN */
}

void pst_wire_name(struct pst_wire *w, char *to, size_t size)
{
    size_t n = 0;

    pst_wire_bytes(w, to, size);
    while (n < size && (unsigned char)to[n] >= ' ' && to[n] != 0x7F) {
        n++;
    }
    if (w->reads && (n == size || to[n] != '\0')) {
        w->failed = true;
        to[0] = '\0';
    }
}

void pst_wire_count(struct pst_wire *w, uint32_t *n, size_t size)
{
    uint64_t wide = *n;

    pst_wire_number(w, &wide);
    if (w->reads && (wide > PST_WIRE_MAX || wide * size > w->left)) {
        w->failed = true;
        wide = 0;
    }
    *n = (uint32_t)wide;
}

const void *pst_wire_array(struct pst_wire *w, const void *items, size_t n, size_t size)
{
    void *copy;

    if (!w->reads) {
        put_bytes(w, items, n * size);
        return items;
    }
    copy = w->failed ? NULL : pst_arena_array(w->arena, n, size);
    if (copy != NULL) {
        take_bytes(w, copy, n * size);
    }
    return copy;
}

void pst_wire_uints(struct pst_wire *w, const uint32_t **items, uint32_t *n)
{
    pst_wire_count(w, n, sizeof **items);
    *items = pst_wire_array(w, *items, *n, sizeof **items);
}

void pst_wire_text(struct pst_wire *w, const char **text)
{
    uint64_t n = w->reads || *text == NULL ? UINT64_MAX : strlen(*text);

    pst_wire_number(w, &n);
    if (!w->reads) {
        put_bytes(w, *text, n == UINT64_MAX ? 0 : (size_t)n);
        return;
    }
    *text = NULL;
    w->failed |= n != UINT64_MAX && n > w->left;
    if (w->failed || n == UINT64_MAX) {
        return;
    }
    *text = pst_arena_strndup(w->arena, w->at, (size_t)n);
    w->at += n;
    w->left -= (size_t)n;
}
