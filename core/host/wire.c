/* SPDX-License-Identifier: Apache-2.0 */
#include "host/wire.h"

#include <stdlib.h>
#include <string.h>

void pst_write(struct pst_writer *w, const void *from, size_t n)
{
    size_t room = w->room > 0 ? w->room : 4096;
    char *grown;

    if (w->failed || n > SIZE_MAX / 4 || w->n > SIZE_MAX / 4) {
        w->failed = true;
        return;
    }
    while (room < w->n + n + 1) {
        room *= 2;
    }
    if (room != w->room) {
        grown = realloc(w->bytes, room);
        if (grown == NULL) {
            w->failed = true;
            return;
        }
        w->bytes = grown;
        w->room = room;
    }
    if (n > 0) {
        memcpy(w->bytes + w->n, from, n);
    }
    w->n += n;
    w->bytes[w->n] = '\0';
}

void pst_write_number(struct pst_writer *w, uint64_t number)
{
    pst_write(w, &number, sizeof number);
}

void pst_write_text(struct pst_writer *w, const char *text)
{
    pst_write_number(w, text == NULL ? UINT64_MAX : strlen(text));
    if (text != NULL) {
        pst_write(w, text, strlen(text));
    }
}

pst_status pst_write_end(struct pst_writer *w, char **ret_bytes, size_t *ret_length,
                         struct pst_error *err)
{
    if (w->failed) {
        free(w->bytes);
        return pst_fail_nomem(err);
    }
    *ret_bytes = w->bytes;
    *ret_length = w->n;
    return PST_OK;
}

void pst_read(struct pst_reader *r, void *to, size_t n)
{
    if (n == 0) {
        return;
    }
    if (r->failed || n > r->left) {
        r->failed = true;
        memset(to, 0, n);
        return;
    }
    memcpy(to, r->at, n);
    r->at += n;
    r->left -= n;
}

uint64_t pst_read_number(struct pst_reader *r)
{
    uint64_t number = 0;

    pst_read(r, &number, sizeof number);
    return number;
}

uint32_t pst_read_uint(struct pst_reader *r)
{
    uint64_t number = pst_read_number(r);

    r->failed |= number > UINT32_MAX;
    return (uint32_t)number;
}

double pst_read_amount(struct pst_reader *r, double most)
{
    double amount = 0;

    pst_read(r, &amount, sizeof amount);
    r->failed |= !(amount >= 0 && amount <= most); /* and no NaN */
    return amount;
}

void pst_read_name(struct pst_reader *r, char *to, size_t size)
{
    size_t n = 0;

    pst_read(r, to, size);
    while (n < size && (unsigned char)to[n] >= ' ' && to[n] != 0x7F) {
        n++;
    }
    if (n == size || to[n] != '\0') {
        r->failed = true;
        to[0] = '\0';
    }
}

/* A number of elements of that size that can be there at all. */
uint32_t pst_read_count(struct pst_reader *r, size_t size)
{
    uint64_t n = pst_read_number(r);

    if (n > PST_WIRE_MAX || n * size > r->left) {
        r->failed = true;
        return 0;
    }
    return (uint32_t)n;
}

void *pst_read_array(struct pst_reader *r, size_t n, size_t size)
{
    void *items = pst_arena_array(r->arena, n, size);

    if (items == NULL) {
        r->failed = true;
    } else if (n > 0) {
        pst_read(r, items, n * size);
    }
    return items;
}

const char *pst_read_text(struct pst_reader *r)
{
    uint64_t n = pst_read_number(r);
    const char *text;

    if (r->failed || n == UINT64_MAX) {
        return NULL;
    }
    if (n > r->left) {
        r->failed = true;
        return NULL;
    }
    text = pst_arena_strndup(r->arena, r->at, (size_t)n);
    r->failed = text == NULL;
    r->at += n;
    r->left -= (size_t)n;
    return text;
}

pst_status pst_wire_refuse(const char *kind, const char *id, const char *path,
                           struct pst_error *err)
{
    pst_fail(err, PST_ERR_BUG, "plugin.contract",
             "%s \"%s\": what came back from its process is no answer to what was asked", kind,
             id != NULL ? id : path);
    pst_error_hint(err, "report it to its author");
    if (err != NULL) {
        err->exit_code = 3;
    }
    return PST_ERR_BUG;
}
