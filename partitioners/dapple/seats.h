/* SPDX-License-Identifier: Apache-2.0
 *
 * Where stages can be: a seat is the devices of a stage by how many there are and whether they are
 * on one machine, and what is taken once they are. Placement makes the seats after a seat.
 */
#ifndef DAPPLE_SEATS_H
#define DAPPLE_SEATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "map.h"
#include "place.h"

enum { DAPPLE_NO_SEAT = 0 }; /* in front of the first stage: nothing is taken */

struct dapple_seat {
    uint32_t k, machine; /* degrees[k]; UINT32_MAX: on several machines */
    uint32_t left;       /* devices that are free after it */
    bool ends;           /* on as many devices as are left for a last stage */
    bool listed;         /* first, n: known */
    uint32_t first, n;   /* of `next` */
};

struct dapple_seats {
    struct dapple_machines machines;
    const uint32_t *degrees;
    uint32_t n_degrees;
    struct dapple_seat *seats;
    uint32_t *next;  /* seats after a seat, each once */
    uint16_t *taken; /* [n_seats * n_machines] */
    uint16_t *now;   /* [n_machines] of workspace */
    size_t n_seats, n_next, room_seats, room_next, room_taken;
    struct part_map known; /* uint32_t: seat, by a number of what it is */
};

/* degrees ascending; they and machines outlive the seats. */
void dapple_seats_init(struct dapple_seats *seats, const struct dapple_machines *machines,
                       const uint32_t *degrees, uint32_t n_degrees);

/* Makes first and n of a seat. `seats->seats` may move. */
bool dapple_seats_list(struct dapple_seats *seats, uint32_t seat);

/* The devices that are taken once a stage sits there: [n_machines]. */
const uint16_t *dapple_seats_taken(const struct dapple_seats *seats, uint32_t seat);

#endif
