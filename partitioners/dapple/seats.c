/* SPDX-License-Identifier: Apache-2.0 */
#include "seats.h"

#include <string.h>

const uint16_t *dapple_seats_taken(const struct dapple_seats *s, uint32_t seat)
{
    return s->taken + (size_t)seat * s->machines.n_machines;
}

/* Never 0. */
static uint64_t number_of(const uint16_t *taken, uint32_t n, uint32_t k, uint32_t machine)
{
    uint64_t h = (k + 1) * 0x9E3779B97F4A7C15 ^ machine;
    uint32_t i;

    for (i = 0; i < n; i++) {
        h = (h ^ taken[i]) * 0xBF58476D1CE4E5B9;
        h ^= h >> 29;
    }
    return h | 1;
}

/* The seat with s->now taken. */
static uint32_t find_seat(struct dapple_seats *s, uint32_t k, uint32_t machine, uint32_t left,
                          bool ends)
{
    uint32_t n = s->machines.n_machines, *at;
    uint64_t number = number_of(s->now, n, k, machine);

    for (; (at = part_map_find(&s->known, number)) != NULL; number += 2) {
        const struct dapple_seat *found = &s->seats[*at];

        if (found->k == k && found->machine == machine &&
            memcmp(dapple_seats_taken(s, *at), s->now, n * sizeof *s->now) == 0) {
            return *at;
        }
    }
    part_grow(&s->seats, sizeof *s->seats, s->n_seats + 1, &s->room_seats);
    part_grow(&s->taken, n * sizeof *s->taken, s->n_seats + 1, &s->room_taken);
    at = part_map_put(&s->known, number);
    *at = (uint32_t)s->n_seats;
    memcpy(s->taken + s->n_seats * n, s->now, n * sizeof *s->now);
    s->seats[s->n_seats] =
        (struct dapple_seat){.k = k, .machine = machine, .left = left, .ends = ends};
    return (uint32_t)s->n_seats++;
}

/* Appends what one degree and policy lead to. */
static bool add(struct dapple_seats *s, uint32_t seat, uint32_t k, uint32_t policy, bool ends)
{
    uint32_t machine, found, left = s->seats[seat].left - s->degrees[k];
    size_t i;

    dapple_place(&s->machines, dapple_seats_taken(s, seat), s->degrees[k], policy, s->now,
                 &machine);
    found = find_seat(s, k, machine, left, ends);
    part_grow(&s->next, sizeof *s->next, s->n_next + 1, &s->room_next);
    for (i = s->seats[seat].first; i < s->n_next; i++) {
        if (s->next[i] == found) {
            return true;
        }
    }
    s->next[s->n_next++] = found;
    return true;
}

bool dapple_seats_list(struct dapple_seats *s, uint32_t seat)
{
    uint32_t k, policy, n = s->n_degrees;

    if (s->seats[seat].listed) {
        return true;
    }
    s->seats[seat].first = (uint32_t)s->n_next;
    while (n > 0 && s->degrees[n - 1] > s->seats[seat].left) {
        n--;
    }
    for (k = 0; k < n; k++) {
        for (policy = 0; policy < DAPPLE_POLICIES; policy++) {
            if (!add(s, seat, k, policy, k + 1 == n)) {
                return false;
            }
        }
    }
    s->seats[seat].n = (uint32_t)s->n_next - s->seats[seat].first;
    s->seats[seat].listed = true;
    return true;
}

void dapple_seats_init(struct dapple_seats *s, const struct dapple_machines *machines,
                       const uint32_t *degrees, uint32_t n_degrees)
{
    memset(s, 0, sizeof *s);
    s->machines = *machines;
    s->degrees = degrees;
    s->n_degrees = n_degrees;
    s->known.value_size = sizeof(uint32_t);
    CALL_TAKE(s->now, (size_t)machines->n_machines + 1);
    part_grow(&s->seats, sizeof *s->seats, 1, &s->room_seats);
    part_grow(&s->taken, machines->n_machines * sizeof *s->taken, 1, &s->room_taken);
    s->seats[0] = (struct dapple_seat){.left = machines->n_devices};
    memset(s->taken, 0, machines->n_machines * sizeof *s->taken);
    s->n_seats = 1;
}
