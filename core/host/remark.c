/* SPDX-License-Identifier: Apache-2.0 */
#include "host/remark.h"

#include <stdio.h>
#include <string.h>

#include "host/plugin_host.h"

/* Is it a word of a-z, 0-9 and _ of at most 63 characters? */
static bool key_is_sound(const char *key)
{
    size_t n = key == NULL ? 0 : strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789_");

    return n > 0 && n < 64 && key[n] == '\0';
}

const struct pst_partition_remark *pst_remarks_find(const struct pst_partition_remark *items,
                                                    uint32_t n, const char *key, uint32_t type)
{
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(items[i].key, key) == 0) {
            return items[i].type == type ? &items[i] : NULL;
        }
    }
    return NULL;
}

bool pst_remarks_flag(const struct pst_partition_remark *items, uint32_t n, const char *key)
{
    const struct pst_partition_remark *flag = pst_remarks_find(items, n, key, PST_REMARK_FLAG);

    return flag != NULL && flag->number != 0;
}

/* The last word on a key counts. */
static void keep_remark(const struct pst_host *host, const char *key,
                        struct pst_partition_remark remark)
{
    struct pst_instance *instance = pst_host_instance(host);
    struct pst_remarks *remarks = &instance->remarks;
    char why[128];
    uint32_t i = 0;

    if (!pst_instance_may_ask(instance)) {
        return;
    }
    if (!key_is_sound(key)) {
        pst_host_refuse_remark(instance, "remark without a sound key is left out");
        return;
    }
    while (i < remarks->n && strcmp(remarks->items[i].key, key) != 0) {
        i++;
    }
    if (i == PST_REMARKS_MAX) {
        snprintf(why, sizeof why, "remark \"%s\" is one too many", key);
        pst_host_refuse_remark(instance, why);
        return;
    }
    remark.key = i < remarks->n ? remarks->items[i].key : pst_arena_strdup(&instance->arena, key);
    remark.text = pst_arena_strdup(&instance->arena, remark.text);
    remarks->n += i == remarks->n;
    remarks->items[i] = remark;
}

static void say_number(const struct pst_host *host, const char *key, double value)
{
    keep_remark(host, key,
                (struct pst_partition_remark){.type = PST_REMARK_NUMBER, .number = value});
}

static void say_text(const struct pst_host *host, const char *key, const char *value)
{
    if (value == NULL) {
        pst_host_refuse_remark(pst_host_instance(host), "remark without a text is left out");
        return;
    }
    keep_remark(host, key, (struct pst_partition_remark){.type = PST_REMARK_TEXT, .text = value});
}

static void say_flag(const struct pst_host *host, const char *key, bool value)
{
    keep_remark(host, key,
                (struct pst_partition_remark){.type = PST_REMARK_FLAG, .number = value ? 1 : 0});
}

const struct pst_remark pst_remark_functions = {
    .size = sizeof pst_remark_functions,
    .number = say_number,
    .text = say_text,
    .flag = say_flag,
};

void pst_remarks_copy(const struct pst_remarks *remarks, struct pst_arena *arena,
                      struct pst_partition_remark **ret_items)
{
    struct pst_partition_remark *items = pst_arena_array(arena, remarks->n, sizeof *items);

    for (uint32_t i = 0; i < remarks->n; i++) {
        items[i] = remarks->items[i];
        items[i].key = pst_arena_strdup(arena, items[i].key);
        items[i].text = pst_arena_strdup(arena, items[i].text);
    }
    *ret_items = items;
}

void pst_remarks_pass(struct pst_wire *w, struct pst_partition_remark **items, uint32_t *n)
{
    pst_wire_count(w, n, 2 * sizeof(uint64_t));
    w->failed |= *n > PST_REMARKS_MAX;
    if (w->reads) {
        *items = w->failed ? NULL : pst_arena_array(w->arena, *n, sizeof **items);
        w->failed |= *items == NULL;
    }
    for (uint32_t i = 0; !w->failed && i < *n; i++) {
        struct pst_partition_remark *item = &(*items)[i];

        pst_wire_text(w, &item->key);
        pst_wire_uint(w, &item->type);
        pst_wire_bytes(w, &item->number, sizeof item->number);
        pst_wire_text(w, &item->text);
        w->failed |= w->reads && (!key_is_sound(item->key) || item->type > PST_REMARK_FLAG ||
                                  (item->type == PST_REMARK_TEXT) != (item->text != NULL));
    }
    *n = w->failed ? 0 : *n;
}
