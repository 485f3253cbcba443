/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/memo.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static struct pst_memo_key key_of(const XXH3_state_t *state)
{
    XXH128_hash_t hash = XXH3_128bits_digest(state);

    return (struct pst_memo_key){hash.low64, hash.high64};
}

struct pst_memo_key pst_memo_key_place(const struct pst_place *place)
{
    XXH3_state_t state;
    uint32_t i;
    const uint32_t fields[] = {place->stage,           place->n_stages, place->n_microbatches,
                               place->microbatch_size, place->k,        place->n_successors};

    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, "held", 4);
    XXH3_128bits_update(&state, fields, sizeof fields);
    for (i = 0; i < place->n_successors; i++) {
        const struct pst_successor *successor = pst_place_successor(place, i);
        const uint32_t row[] = {successor->microbatch_size, successor->k, successor->in_flight};

        XXH3_128bits_update(&state, row, sizeof row);
    }
    return key_of(&state);
}

struct pst_memo_key pst_memo_key_question(const struct pst_stage_question *q)
{
    const uint32_t fields[] = {q->stage,   q->n_stages,  q->microbatch_size,
                               q->n_ranks, q->in_flight, q->weight_versions};
    XXH3_state_t state;

    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, "cost", 4);
    XXH3_128bits_update(&state, fields, sizeof fields);
    XXH3_128bits_update(&state, &q->capacity_bytes, sizeof q->capacity_bytes);
    XXH3_128bits_update(&state, q->nodes, (size_t)q->n_nodes * sizeof *q->nodes);
    if (q->ranks != NULL) {
        XXH3_128bits_update(&state, q->ranks, (size_t)q->n_ranks * sizeof *q->ranks);
    }
    return key_of(&state);
}

/* Bytes up to the end of a field: what pads a struct after it may be anything. */
#define END_OF(type, field) (offsetof(type, field) + sizeof((type *)0)->field)

struct pst_memo_key pst_memo_key_view(const struct pst_stage_view *view)
{
    const char *bytes = (const char *)view;
    uint32_t n_producers = 0;
    XXH3_state_t state;

    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, "view", 4);
    XXH3_128bits_update(&state, bytes, END_OF(struct pst_stage_view, node_size));
    XXH3_128bits_update(&state, bytes + offsetof(struct pst_stage_view, in_flight),
                        sizeof *view - offsetof(struct pst_stage_view, in_flight));
    for (uint32_t v = 0; v < view->n_nodes; v++) {
        struct pst_stage_node node = *pst_stage_node_at(view, v);

        node.node = 0;
        node.layer -= pst_stage_node_at(view, 0)->layer;
        n_producers += node.n_producers;
        XXH3_128bits_update(&state, &node, END_OF(struct pst_stage_node, output_saved));
    }
    XXH3_128bits_update(&state, view->producers, n_producers * sizeof *view->producers);
    return key_of(&state);
}

static struct pst_memo_entry *find_slot(const struct pst_memo *memo, struct pst_memo_key key)
{
    size_t i = (size_t)key.low & (memo->size - 1);

    while (memo->entries[i].used &&
           (memo->entries[i].key.low != key.low || memo->entries[i].key.high != key.high)) {
        i = (i + 1) & (memo->size - 1);
    }
    return &memo->entries[i];
}

static void grow(struct pst_memo *memo)
{
    struct pst_memo larger = {.size = memo->size == 0 ? 256 : 2 * memo->size, .used = memo->used};

    larger.entries = pst_alloc(larger.size, sizeof *larger.entries);
    for (size_t i = 0; i < memo->size; i++) {
        if (memo->entries[i].used) {
            *find_slot(&larger, memo->entries[i].key) = memo->entries[i];
        }
    }
    free(memo->entries);
    *memo = larger;
}

struct pst_memo_entry *pst_memo_find(struct pst_memo *memo, struct pst_memo_key key)
{
    if (2 * (memo->used + 1) > memo->size) {
        grow(memo);
    }
    return find_slot(memo, key);
}

void pst_memo_keep(struct pst_memo *memo, struct pst_memo_entry *entry, struct pst_memo_key key)
{
    entry->key = key;
    entry->used = true;
    memo->used++;
}

void pst_memo_finish(struct pst_memo *memo)
{
    free(memo->entries);
    memset(memo, 0, sizeof *memo);
}
