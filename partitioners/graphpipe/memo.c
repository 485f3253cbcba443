/* SPDX-License-Identifier: Apache-2.0
 *
 * States of one probe, by what they are asked for.
 */
#include <string.h>

#include "classes.h"
#include "probe.h"

struct slot {
    struct gp_key key;
    uint32_t used; /* number of the probe that put it there */
    void *state;
};

struct gp_memo {
    struct slot *slots;
    size_t n_slots, n_used;
    uint32_t run;
};

void gp_memo_create(struct gp_memo **ret_memo)
{
    struct gp_memo *memo = call_alloc(1, sizeof *memo);

    memo->n_slots = 1024;
    memo->run = 1;
    CALL_TAKE(memo->slots, memo->n_slots);
    *ret_memo = memo;
}

void gp_memo_clear(struct gp_memo *memo)
{
    memo->n_used = 0;
    if (++memo->run == 0) {
        memset(memo->slots, 0, memo->n_slots * sizeof *memo->slots);
        memo->run = 1;
    }
}

static struct slot *slot_of(struct slot *slots, size_t n, uint32_t run, const struct gp_key *key)
{
    size_t at = gp_hash(1, key, sizeof *key) & (n - 1);

    while (slots[at].used == run && memcmp(&slots[at].key, key, sizeof *key) != 0) {
        at = (at + 1) & (n - 1);
    }
    return &slots[at];
}

static void grow(struct gp_memo *memo)
{
    struct slot *slots = call_alloc(2 * memo->n_slots, sizeof *slots);
    size_t i;

    for (i = 0; i < memo->n_slots; i++) {
        if (memo->slots[i].used == memo->run) {
            *slot_of(slots, 2 * memo->n_slots, memo->run, &memo->slots[i].key) = memo->slots[i];
        }
    }
    call_free(memo->slots);
    memo->slots = slots;
    memo->n_slots *= 2;
}

void gp_memo_find(struct gp_probe *probe, const struct gp_key *key, size_t size, void **ret,
                  bool *ret_new)
{
    struct gp_memo *memo = probe->memo;
    struct slot *slot;

    if (2 * memo->n_used >= memo->n_slots) {
        grow(memo);
    }
    slot = slot_of(memo->slots, memo->n_slots, memo->run, key);
    *ret_new = slot->used != memo->run;
    if (*ret_new) {
        slot->state = gp_pool_take(&probe->pool, 1, size);
        memset(slot->state, 0, size);
        slot->key = *key;
        slot->used = memo->run;
        memo->n_used++;
    }
    *ret = slot->state;
}
