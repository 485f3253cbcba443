/* SPDX-License-Identifier: Apache-2.0
 *
 * Instruction lists of a plan file.
 */
#include <string.h>

#include "plan/plan_file.h"

static uint32_t find_op(const char *name)
{
    for (uint32_t op = 1; op < PST_I_COUNT; op++) {
        if (strcmp(pst_instr_name(op), name) == 0) {
            return op;
        }
    }
    return 0;
}

static void read_transfer(struct pst_plan_reader *reader, json_t *row, struct pst_instr *instr)
{
    const char *payload = json_string_value(json_array_get(row, 2));
    uint8_t found = 0;
    while (payload != NULL && found < PST_PAYLOAD_COUNT &&
           strcmp(payload, pst_payload_name(found)) != 0) {
        found++;
    }
    if (payload == NULL || found == PST_PAYLOAD_COUNT) {
        pst_plan_fail(reader, NULL, "the payload is \"act\", \"grad\", \"evict\" or \"load\"");
        return;
    }
    instr->payload = found;
    instr->first_sample = pst_plan_u32_at(reader, row, 3);
    instr->n_samples = pst_plan_u32_at(reader, row, 4);
    instr->peer = pst_plan_u32_at(reader, row, 5);
}

static void read_copy(struct pst_plan_reader *reader, json_t *row, struct pst_instr *instr)
{
    const char *name = json_string_value(json_array_get(row, 3));
    instr->microbatch = pst_plan_u32_at(reader, row, 2);
    if (name == NULL) {
        pst_plan_fail(reader, NULL, "a copy names its operator");
    } else {
        instr->node = pst_plan_find_op(reader, name);
    }
}

static void read_waits(struct pst_plan_reader *reader, json_t *object, struct pst_instr *instr)
{
    static const char *const keys[] = {"waits", NULL};
    pst_plan_known_keys(reader, object, keys);
    json_t *waits = pst_plan_array(reader, object, "waits");
    size_t mark = pst_plan_enter(reader, "waits");
    if (reader->status == PST_OK && json_array_size(waits) == 0) {
        pst_plan_fail(reader, NULL, "empty; leave the object out");
    } else if (reader->status == PST_OK) {
        instr->n_waits = (uint32_t)json_array_size(waits);
        instr->waits = pst_plan_u32_array(reader, waits);
    }
    pst_plan_leave(reader, mark);
}

/* How many elements an instruction has, its waits left out. */
static size_t length_of(uint32_t op)
{
    switch (op) {
    case PST_I_SEND:
    case PST_I_RECV:
        return 6;
    case PST_I_OFFLOAD:
    case PST_I_FETCH:
        return 4;
    case PST_I_NORM:
        return 1;
    case PST_I_REDUCE:
    case PST_I_TIE:
    case PST_I_STEP:
        return 2;
    default:
        return 3;
    }
}

static void read_instr(struct pst_plan_reader *reader, json_t *row, struct pst_instr *instr)
{
    const char *name = json_string_value(json_array_get(row, 0));
    uint32_t op = name != NULL ? find_op(name) : 0;
    size_t n = json_array_size(row);
    if (op == 0) {
        pst_plan_fail(reader, NULL, "expected [operation, ...] with a known operation");
        return;
    }
    json_t *last = json_array_get(row, n - 1);
    if (json_is_object(last)) {
        n--;
        read_waits(reader, last, instr);
    }
    if (n != length_of(op)) {
        pst_plan_fail(reader, NULL, "%s with %zu elements, expected %zu", name, n, length_of(op));
        return;
    }
    instr->op = (uint8_t)op;
    if (op != PST_I_NORM) {
        instr->stage = pst_plan_u32_at(reader, row, 1);
    }
    if (op == PST_I_SEND || op == PST_I_RECV) {
        read_transfer(reader, row, instr);
    } else if (op == PST_I_OFFLOAD || op == PST_I_FETCH) {
        read_copy(reader, row, instr);
    } else if (op < PST_I_SEND) {
        instr->microbatch = pst_plan_u32_at(reader, row, 2);
    }
}

static const struct pst_instr *read_list(struct pst_plan_reader *reader, json_t *rows,
                                         uint32_t *ret_n)
{
    size_t n = json_array_size(rows);
    reader->n_instrs += n;
    if (reader->n_instrs > PST_PLAN_FILE_INSTRS) {
        pst_plan_fail(reader, "input.limit", "more than %u instructions", PST_PLAN_FILE_INSTRS);
        return NULL;
    }
    struct pst_instr *list = pst_arena_array(&reader->plan->arena, n, sizeof *list);
    if (list == NULL) {
        reader->status = pst_fail_nomem(reader->err);
        return NULL;
    }
    for (size_t i = 0; i < n && reader->status == PST_OK; i++) {
        size_t mark = pst_plan_enter_index(reader, i);
        read_instr(reader, json_array_get(rows, i), &list[i]);
        pst_plan_leave(reader, mark);
    }
    *ret_n = (uint32_t)n;
    return list;
}

static void read_part(struct pst_plan_reader *reader, json_t *object, const char *key,
                      const struct pst_instr **ret_list, uint32_t *ret_n)
{
    json_t *rows = pst_plan_array(reader, object, key);
    size_t mark = pst_plan_enter(reader, key);
    if (reader->status == PST_OK) {
        *ret_list = read_list(reader, rows, ret_n);
    }
    pst_plan_leave(reader, mark);
}

static void read_device(struct pst_plan_reader *reader, json_t *object, uint32_t rank)
{
    static const char *const keys[] = {"rank",       "fill",        "body",       "drain",
                                       "peak_bytes", "arena_bytes", "host_bytes", NULL};
    struct pst_plan_device *device = &reader->plan->devices[rank];
    pst_plan_known_keys(reader, object, keys);
    uint32_t stated = pst_plan_u32(reader, object, "rank");
    if (reader->status == PST_OK && stated != rank) {
        pst_plan_fail(reader, NULL, "rank: %u, expected %u: they are numbered in order", stated,
                      rank);
    }
    device->peak_bytes = pst_plan_u64(reader, object, "peak_bytes");
    device->arena_bytes = pst_plan_u64(reader, object, "arena_bytes");
    if (json_object_get(object, "host_bytes") != NULL) {
        device->host_bytes = pst_plan_u64(reader, object, "host_bytes");
    }
    read_part(reader, object, "fill", &device->fill, &device->n_fill);
    read_part(reader, object, "body", &device->body, &device->n_instrs);
    read_part(reader, object, "drain", &device->drain, &device->n_drain);
    if (!reader->plan->asynchronous && device->n_fill + (uint64_t)device->n_drain > 0) {
        pst_plan_fail(reader, "input.unsupported",
                      "fill and drain of a synchronous plan are empty");
    }
}

void pst_plan_read_devices(struct pst_plan_reader *reader, json_t *root)
{
    json_t *devices = pst_plan_array(reader, root, "devices");
    size_t mark = pst_plan_enter(reader, "devices");
    for (uint32_t d = 0; d < reader->plan->n_devices && reader->status == PST_OK; d++) {
        size_t inner = pst_plan_enter_index(reader, d);
        read_device(reader, json_array_get(devices, d), d);
        pst_plan_leave(reader, inner);
    }
    pst_plan_leave(reader, mark);
}
