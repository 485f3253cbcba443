/* SPDX-License-Identifier: Apache-2.0
 *
 * A hash table of states by 128 bits of hash; it grows up to a limit and then takes no more.
 */
#include <string.h>

#include "exact.h"

enum { FIRST = 1 << 14, LAST = 1 << 24 };

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static bool allocate(struct visited *visited, size_t slots)
{
    *visited = (struct visited){.keys = call_try_alloc(slots, sizeof *visited->keys),
                                .times = call_try_alloc(slots, sizeof *visited->times),
                                .mask = slots - 1};
    if (visited->keys == NULL || visited->times == NULL) {
        visited_finish(visited);
        return false;
    }
    return true;
}

void visited_init(struct visited *visited)
{
    if (!allocate(visited, FIRST)) {
        call_end(PST_ERR_NOMEM);
    }
}

void visited_finish(struct visited *visited)
{
    call_free(visited->keys);
    call_free(visited->times);
    memset(visited, 0, sizeof *visited);
}

static size_t slot_of(const struct visited *visited, const uint64_t key[2])
{
    size_t at = (size_t)key[0] & visited->mask;

    while (visited->keys[at][1] != 0 &&
           (visited->keys[at][0] != key[0] || visited->keys[at][1] != key[1])) {
        at = (at + 1) & visited->mask;
    }
    return at;
}

static void grow(struct visited *visited)
{
    struct visited old = *visited;

    if (!allocate(visited, 2 * (old.mask + 1))) {
        *visited = old;
        return;
    }
    for (size_t i = 0; i <= old.mask; i++) {
        if (old.keys[i][1] != 0) {
            size_t at = slot_of(visited, old.keys[i]);

            memcpy(visited->keys[at], old.keys[i], sizeof old.keys[i]);
            visited->times[at] = old.times[i];
            visited->n++;
        }
    }
    visited_finish(&old);
}

bool visited_before(struct visited *visited, const uint64_t *words, size_t n, uint64_t now)
{
    uint64_t key[2] = {0x9e3779b97f4a7c15u, 0xd1b54a32d192ed03u};
    size_t at;

    for (size_t i = 0; i < n; i++) {
        key[0] = (key[0] ^ words[i]) * 0xbf58476d1ce4e5b9u;
        key[0] ^= key[0] >> 32;
        key[1] = (key[1] + words[i]) * 0x2545f4914f6cdd1du;
        key[1] ^= key[1] >> 29;
    }
    key[0] = mix(key[0]);
    key[1] |= 1; /* 0 marks a free slot */
    at = slot_of(visited, key);
    if (visited->keys[at][1] != 0) {
        if (visited->times[at] <= now) {
            return true;
        }
        visited->times[at] = now;
        return false;
    }
    if (2 * visited->n > visited->mask) {
        if (visited->mask + 1 < LAST) {
            grow(visited);
        }
        if (2 * visited->n > visited->mask) {
            return false; /* full: the state is searched again when it comes again */
        }
        at = slot_of(visited, key);
    }
    visited->keys[at][0] = key[0];
    visited->keys[at][1] = key[1];
    visited->times[at] = now;
    visited->n++;
    return false;
}
