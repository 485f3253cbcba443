/* SPDX-License-Identifier: Apache-2.0 */
#include "host/remark.h"

#include <string.h>

#include "base/log.h"
#include "host/plugin_host.h"

bool pst_remark_key_is_sound(const char *key)
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

/* The key's place; NULL: it is refused, for which a line in the log does, as nothing depends on a
   remark. */
static struct pst_partition_remark *place_of(struct pst_instance *instance, const char *key)
{
    struct pst_remarks *remarks = &instance->remarks;
    struct pst_partition_remark *remark;

    if (!pst_remark_key_is_sound(key)) {
        pst_log(PST_LOG_WARN, instance->plugin->id, "remark without a sound key is left out");
        return NULL;
    }
    for (uint32_t i = 0; i < remarks->n; i++) {
        if (strcmp(remarks->items[i].key, key) == 0) {
            return &remarks->items[i];
        }
    }
    if (remarks->n == PST_REMARKS_MAX) {
        pst_log(PST_LOG_WARN, instance->plugin->id, "remark \"%s\" is one too many", key);
        return NULL;
    }
    remark = &remarks->items[remarks->n];
    remark->key = pst_arena_strdup(&instance->arena, key);
    remarks->n++;
    return remark;
}

static void say_number(const struct pst_host *host, const char *key, double value)
{
    struct pst_partition_remark *remark = place_of(pst_host_instance(host), key);

    if (remark != NULL) {
        remark->type = PST_REMARK_NUMBER;
        remark->number = value;
        remark->text = NULL;
    }
}

static void say_text(const struct pst_host *host, const char *key, const char *value)
{
    struct pst_instance *instance = pst_host_instance(host);
    struct pst_partition_remark *remark;

    if (value == NULL) {
        pst_log(PST_LOG_WARN, instance->plugin->id, "remark without a text is left out");
        return;
    }
    remark = place_of(instance, key);
    if (remark != NULL) {
        remark->type = PST_REMARK_TEXT;
        remark->number = 0;
        remark->text = pst_arena_strdup(&instance->arena, value);
    }
}

static void say_flag(const struct pst_host *host, const char *key, bool value)
{
    struct pst_partition_remark *remark = place_of(pst_host_instance(host), key);

    if (remark != NULL) {
        remark->type = PST_REMARK_FLAG;
        remark->number = value ? 1 : 0;
        remark->text = NULL;
    }
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
        w->failed |=
            w->reads && (!pst_remark_key_is_sound(item->key) || item->type > PST_REMARK_FLAG ||
                         (item->type == PST_REMARK_TEXT) != (item->text != NULL));
    }
    *n = w->failed ? 0 : *n;
}
