/* SPDX-License-Identifier: Apache-2.0 */
#include "knapsack.h"

#include "mem_plugin.h"

static uint64_t unit_bytes(const struct unit *units, uint32_t n, uint64_t budget, uint32_t quanta)
{
    uint64_t common = 0, least = budget / quanta + 1;
    uint32_t i;

    for (i = 0; i < n; i++) {
        common = mem_divisor(common, units[i].bytes);
    }
    return common > 0 && budget / common <= quanta ? common : least;
}

/* most[w]: most time in w quanta; taken: rows of one bit per quantum, for the way back. */
static void fill(const struct pst_host *host, const struct unit *units, uint32_t n,
                 uint64_t quantum, uint64_t room, uint64_t *most, uint8_t *taken)
{
    uint64_t w;
    uint32_t i;

    for (i = 0; i < n; i++) {
        uint64_t size = units[i].bytes / quantum + (units[i].bytes % quantum != 0);
        uint8_t *row = taken + (size_t)i * (room / 8 + 1);

        call_go_on(host);
        for (w = room + 1; w-- > size;) {
            uint64_t with = most[w - size] + units[i].ns;

            if (with > most[w]) {
                most[w] = with;
                row[w / 8] |= (uint8_t)(1u << w % 8);
            }
        }
    }
}

void knapsack(const struct pst_host *host, struct unit *units, uint32_t n, uint64_t budget,
              uint32_t quanta)
{
    uint64_t quantum = unit_bytes(units, n, budget, quanta), room = budget / quantum, w = room;
    uint64_t *most = call_alloc(room + 1, sizeof *most);
    uint8_t *taken = call_alloc((size_t)n + 1, (size_t)room / 8 + 1);

    fill(host, units, n, quantum, room, most, taken);
    for (uint32_t i = n; i-- > 0;) {
        units[i].saved =
            units[i].bytes == 0 || (taken[(size_t)i * (room / 8 + 1) + w / 8] >> w % 8 & 1) != 0;
        if (units[i].saved) {
            w -= units[i].bytes / quantum + (units[i].bytes % quantum != 0);
        }
    }
    call_free(most);
    call_free(taken);
}
