/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices that are not alike: [[cluster.node]] and [[cluster.device]] replace figures of
 * [cluster], for the devices of a node and for single devices. Devices with equal figures are one
 * kind.
 */
#include "graph/cluster.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

const char *const pst_cluster_tables[] = {"device", "node", NULL};

/* A table, as rows fill it. */
struct table {
    struct pst_cluster says; /* first: the rows of [cluster] fill it */
    const char *which;
};

/* One of the two forms of table. */
struct form {
    const char *key, *section, *which, *doc;
    const char *const *left_out; /* keys of [cluster] that it must not have */
};

static const char *const not_of_device[] = {"devices",           "node_size",
                                            "link_directions",   "node_link_bandwidth",
                                            "node_link_latency", "memory_factor",
                                            "uncertainty",       "collective_bandwidth",
                                            "collective_decay",  NULL};
static const char *const not_of_node[] = {"devices",       "node_size",   "link_directions",
                                          "memory_factor", "uncertainty", NULL};

static const struct form forms[] = {{"node", "[[cluster.node]]", "nodes",
                                     "Nodes that it is about: 1, \"0-2\" or [0, 2].", not_of_node},
                                    {"device", "[[cluster.device]]", "ranks",
                                     "Devices that it is about: 1, \"0-2\" or [0, 2].",
                                     not_of_device}};

struct mix {
    struct pst_cluster *cluster;
    struct pst_arena *arena;
    struct pst_error *err;
    struct pst_cluster *kinds; /* [n_kinds] */
    uint32_t n_kinds, n_devices;
    uint32_t *kind_of; /* [n_devices] */
    bool *taken;       /* [n_devices] by a table of the form at hand */
};

/* Rows of one form: ret_rows has room for those of [cluster] and two. */
static uint32_t make_rows(const struct form *form, struct pst_param *ret_rows)
{
    uint32_t n = 0;

    ret_rows[n++] = (struct pst_param)PST_PARAM(struct table, which, PST_PARAM_STRING, NULL,
                                                "0..65535", form->doc);
    ret_rows[n - 1].key = form->which;
    ret_rows[n++] = (struct pst_param)PST_PARAM(struct table, says.name, PST_PARAM_STRING, "", NULL,
                                                "What reports call such a device.");
    ret_rows[n - 1].key = "name";
    for (uint32_t i = 0; i < pst_cluster_n_params; i++) {
        if (!pst_text_is_one_of(form->left_out, pst_cluster_params[i].key)) {
            ret_rows[n++] = pst_cluster_params[i];
        }
    }
    return n;
}

bool pst_cluster_equal(const struct pst_cluster *a, const struct pst_cluster *b)
{
    return memcmp(a, b, offsetof(struct pst_cluster, kinds)) == 0;
}

static bool is_kind(const struct pst_cluster *a, const struct pst_cluster *b)
{
    return pst_cluster_equal(a, b) && strcmp(a->name, b->name) == 0;
}

/* The kind of such a device; a new one where there is none. */
static uint32_t kind_like(struct mix *mix, const struct pst_cluster *device)
{
    uint32_t k = 0;

    while (k < mix->n_kinds && !is_kind(&mix->kinds[k], device)) {
        k++;
    }
    if (k == mix->n_kinds) {
        mix->kinds[mix->n_kinds++] = *device; /* room for one more than there are devices */
    }
    return k;
}

static pst_status fail_list(const struct mix *mix, const struct pst_config_node *node,
                            const struct form *form, const char *text, const char *why)
{
    return pst_fail_at(mix->err, PST_ERR_CONFIG, "config.value", node->file, node->line,
                       node->column, "%s = \"%.40s\" in %s: %s", form->which, text, form->section,
                       why);
}

/* One part of a list, "3" or "3-5"; false: it is neither. */
static bool read_part(const char *text, const char **ret_end, uint64_t *ret_first,
                      uint64_t *ret_last)
{
    char *end;

    text += strspn(text, " ");
    if (*text < '0' || *text > '9') {
        return false;
    }
    *ret_first = *ret_last = strtoull(text, &end, 10);
    end += strspn(end, " ");
    if (*end == '-') {
        text = end + 1 + strspn(end + 1, " ");
        if (*text < '0' || *text > '9') {
            return false;
        }
        *ret_last = strtoull(text, &end, 10);
        end += strspn(end, " ");
    }
    *ret_end = end;
    return *ret_first <= *ret_last;
}

/* Replaces figures of device `rank` by those of the table. */
static pst_status change_device(struct mix *mix, struct pst_config_node *node,
                                const struct table *table, uint32_t rank)
{
    struct pst_cluster device = mix->kinds[mix->kind_of[rank]];
    pst_status status;

    for (uint32_t i = 0; i < pst_cluster_n_params; i++) {
        const struct pst_param *row = &pst_cluster_params[i];

        if (pst_config_get(node, row->key) != NULL) {
            memcpy((char *)&device + row->offset, (const char *)&table->says + row->offset,
                   sizeof(uint64_t)); /* as large as all of its fields */
        }
    }
    if (table->says.name[0] != '\0') {
        device.name = table->says.name;
    }
    status = pst_cluster_check(&device, mix->err);
    if (status != PST_OK) {
        return pst_fail_at(mix->err, status, "config.value", node->file, node->line, node->column,
                           "of device %u: the reserve leaves nothing of its memory to a plan",
                           rank);
    }
    mix->kind_of[rank] = kind_like(mix, &device);
    mix->taken[rank] = true;
    return PST_OK;
}

static pst_status take_ranks(struct mix *mix, struct pst_config_node *node, const struct form *form,
                             const struct table *table)
{
    const uint64_t size = form->left_out == not_of_node ? (uint64_t)mix->cluster->node_size : 1;
    const uint64_t n = (mix->n_devices + size - 1) / size;
    const char *at = table->which;
    pst_status status = PST_OK;
    char why[96];

    do {
        uint64_t first, last;

        if (!read_part(at, &at, &first, &last) || (*at != ',' && *at != '\0')) {
            return fail_list(mix, node, form, table->which, "it is a list such as \"0-2,5\"");
        }
        if (last >= n) {
            snprintf(why, sizeof why, "there is no %s %llu; the last is %llu", form->key,
                     (unsigned long long)last, (unsigned long long)n - 1);
            return fail_list(mix, node, form, table->which, why);
        }
        for (uint64_t r = first * size;
             status == PST_OK && r < (last + 1) * size && r < mix->n_devices; r++) {
            if (mix->taken[r]) {
                snprintf(why, sizeof why, "an earlier table describes %s %llu", form->key,
                         (unsigned long long)(r / size));
                return fail_list(mix, node, form, table->which, why);
            }
            status = change_device(mix, node, table, (uint32_t)r);
        }
    } while (status == PST_OK && *at++ == ',');
    return status;
}

static pst_status read_table(struct mix *mix, struct pst_config_node *node, const struct form *form)
{
    struct pst_param *rows =
        pst_arena_array(mix->arena, (size_t)pst_cluster_n_params + 2, sizeof *rows);
    uint32_t n_rows = make_rows(form, rows);
    struct table table = {.which = ""};
    pst_status status;

    node->used = true;
    status = pst_params_fill(rows, n_rows, sizeof *rows, node, form->section, NULL, mix->arena,
                             &table, mix->err);
    if (status == PST_OK && form->left_out == not_of_node && mix->cluster->node_size == 0) {
        return pst_fail_at(mix->err, PST_ERR_CONFIG, "config.value", node->file, node->line,
                           node->column,
                           "%s: all devices are in one node; say how many are in each with "
                           "cluster.node_size",
                           form->section);
    }
    return status == PST_OK ? take_ranks(mix, node, form, &table) : status;
}

static pst_status read_form(struct mix *mix, struct pst_config_node *section,
                            const struct form *form)
{
    struct pst_config_node *list = pst_config_get(section, form->key);
    pst_status status = PST_OK;

    memset(mix->taken, 0, mix->n_devices * sizeof *mix->taken);
    if (list == NULL) {
        return PST_OK;
    }
    list->used = true;
    if (list->kind != PST_CONFIG_ARRAY) {
        return read_table(mix, list, form);
    }
    for (uint32_t i = 0; status == PST_OK && i < list->n_children; i++) {
        status = read_table(mix, list->children[i], form);
    }
    return status;
}

/* The kinds that there are devices of, in the order of these. */
static void drop_unused(struct mix *mix)
{
    struct pst_cluster *kept = pst_arena_array(mix->arena, (size_t)mix->n_kinds + 1, sizeof *kept);
    uint32_t *number = pst_arena_array(mix->arena, (size_t)mix->n_kinds + 1, sizeof *number);
    uint32_t n = 0;

    for (uint32_t r = 0; r < mix->n_devices; r++) {
        uint32_t *of = &number[mix->kind_of[r]]; /* from 1; 0: none yet */

        if (*of == 0) {
            kept[n++] = mix->kinds[mix->kind_of[r]];
            *of = n;
        }
        mix->kind_of[r] = *of - 1;
    }
    mix->kinds = kept;
    mix->n_kinds = n;
}

static void lower_rate(uint64_t *worst, uint64_t rate) /* 0: free */
{
    *worst = rate != 0 && (rate < *worst || *worst == 0) ? rate : *worst;
}

static void raise_cost(uint64_t *worst, uint64_t ns)
{
    *worst = ns > *worst ? ns : *worst;
}

static void take_worst(struct pst_cluster *worst, const struct pst_cluster *kind)
{
    double flops = kind->flops * kind->efficiency, bf16 = kind->bf16_flops * kind->efficiency;

    /* The peaks are those that are reached, so that no two worst halves make a third. */
    worst->flops =
        flops < worst->flops * worst->efficiency ? flops / worst->efficiency : worst->flops;
    worst->bf16_flops =
        bf16 < worst->bf16_flops * worst->efficiency ? bf16 / worst->efficiency : worst->bf16_flops;
    worst->softmax_traffic = fmax(worst->softmax_traffic, kind->softmax_traffic);
    worst->loss_traffic = fmax(worst->loss_traffic, kind->loss_traffic);
    lower_rate(&worst->memory_bandwidth, kind->memory_bandwidth);
    lower_rate(&worst->link_bandwidth, kind->link_bandwidth);
    lower_rate(&worst->node_link_bandwidth, kind->node_link_bandwidth);
    lower_rate(&worst->collective_bandwidth, kind->collective_bandwidth);
    worst->collective_decay = fmax(worst->collective_decay, kind->collective_decay);
    lower_rate(&worst->host_bandwidth, kind->host_bandwidth);
    raise_cost(&worst->launch_overhead, kind->launch_overhead);
    raise_cost(&worst->host_overhead, kind->host_overhead);
    raise_cost(&worst->transfer_overhead, kind->transfer_overhead);
    raise_cost(&worst->step_overhead, kind->step_overhead);
    raise_cost(&worst->link_latency, kind->link_latency);
    raise_cost(&worst->node_link_latency, kind->node_link_latency);
}

/* Sets the memory of `worst` to that of the largest device, and what each kind lacks of it. */
static pst_status set_memory(struct mix *mix, const struct pst_config_node *section,
                             struct pst_cluster *worst)
{
    uint32_t k;

    for (k = 0; k < mix->n_kinds; k++) {
        const struct pst_cluster *kind = &mix->kinds[k];

        if ((kind->memory == 0) != (worst->memory == 0)) {
            return pst_fail_at(mix->err, PST_ERR_CONFIG, "config.value", section->file,
                               section->line, section->column,
                               "[cluster] limits the memory of some devices only; give all of them "
                               "some, with cluster.memory for those that no table names");
        }
        if (pst_cluster_capacity(kind) > pst_cluster_capacity(worst)) {
            worst->memory = kind->memory;
            worst->reserve = kind->reserve;
        }
    }
    for (k = 0; k < mix->n_kinds; k++) {
        mix->kinds[k].lacks = pst_cluster_capacity(worst) - pst_cluster_capacity(&mix->kinds[k]);
    }
    return PST_OK;
}

/* Gives every kind the list of all kinds, so that it can be used as the cluster. */
static void tie_kinds(struct pst_cluster *cluster)
{
    for (uint32_t k = 0; k < cluster->n_kinds; k++) {
        struct pst_cluster *kind = &cluster->kinds[k];

        kind->kinds = cluster->kinds;
        kind->n_kinds = cluster->n_kinds;
        kind->kind_of = cluster->kind_of;
        kind->stated = cluster->stated;
    }
}

static pst_status settle_kinds(struct mix *mix, const struct pst_config_node *section)
{
    struct pst_cluster *stated = pst_arena_array(mix->arena, 1, sizeof *stated), worst;
    pst_status status;

    *stated = *mix->cluster;
    drop_unused(mix);
    worst = mix->kinds[0];
    status = set_memory(mix, section, &worst);
    for (uint32_t k = 0; k < mix->n_kinds; k++) {
        take_worst(&worst, &mix->kinds[k]);
        if (mix->kinds[k].name[0] == '\0') {
            mix->kinds[k].name = pst_arena_printf(mix->arena, "kind %u", k);
        }
    }
    worst.kinds = mix->kinds;
    worst.n_kinds = mix->n_kinds;
    worst.kind_of = mix->kind_of;
    worst.stated = stated;
    worst.name = NULL;
    *mix->cluster = worst;
    tie_kinds(mix->cluster);
    return status;
}

pst_status pst_cluster_mix(struct pst_config_node *section, struct pst_cluster *cluster,
                           struct pst_arena *arena, struct pst_error *err)
{
    struct mix mix = {.cluster = cluster, .arena = arena, .err = err};
    pst_status status = PST_OK;

    if (section == NULL ||
        (pst_config_get(section, "device") == NULL && pst_config_get(section, "node") == NULL)) {
        return PST_OK;
    }
    cluster->name = "";
    mix.n_devices = (uint32_t)cluster->devices;
    mix.kinds = pst_arena_array(arena, 3 * (size_t)mix.n_devices + 1, sizeof *mix.kinds);
    mix.kinds[mix.n_kinds++] = *cluster;
    mix.kind_of = pst_arena_array(arena, mix.n_devices, sizeof *mix.kind_of);
    mix.taken = pst_arena_array(arena, mix.n_devices, sizeof *mix.taken);
    for (uint32_t i = 0; status == PST_OK && i < sizeof forms / sizeof *forms; i++) {
        status = read_form(&mix, section, &forms[i]);
    }
    return status == PST_OK ? settle_kinds(&mix, section) : status;
}

void pst_cluster_copy(const struct pst_cluster *cluster, struct pst_arena *arena,
                      struct pst_cluster *ret_copy)
{
    *ret_copy = *cluster;
    if (cluster->n_kinds > 0) {
        ret_copy->kinds =
            pst_arena_copy(arena, cluster->kinds, cluster->n_kinds, sizeof *ret_copy->kinds);
        tie_kinds(ret_copy);
    }
}

const struct pst_cluster *pst_cluster_on(const struct pst_cluster *cluster, const uint32_t *ranks,
                                         uint32_t n_ranks, struct pst_cluster *room)
{
    const struct pst_cluster *all = NULL;

    for (uint32_t r = 0; cluster->n_kinds > 0 && r < n_ranks; r++) {
        const struct pst_cluster *kind = pst_cluster_kind(cluster, ranks[r]);

        if (all == NULL) {
            all = kind;
        } else if (all != kind) {
            *room = all == room ? *room : *all;
            take_worst(room, kind);
            all = room;
        }
    }
    return all == NULL ? cluster : all;
}
