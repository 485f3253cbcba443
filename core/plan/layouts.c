/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/layouts.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define MOST_VALUES (1u << 21) /* of layouts of one size */

/* All that a layout depends on, without padding: beside the room only whether the peak exceeds
   it. */
struct head {
    int64_t peak;
    uint32_t n_ticks, peak_tick, exceeds, n;
};

struct row {
    uint64_t bytes;
    uint32_t first, last;
    uint64_t is_host;
};

void pst_layouts_finish(struct pst_layouts *layouts)
{
    for (uint32_t i = 0; i < PST_LAYOUTS; i++) {
        free(layouts->kept[i].offsets);
    }
    memset(layouts, 0, sizeof *layouts);
}

static struct pst_hash digest_values(const struct pst_program *program, const struct pst_room *room)
{
    struct head head = {.peak = room->peak,
                        .n_ticks = program->n_ticks,
                        .peak_tick = program->peak_tick,
                        .exceeds = room->peak > room->bytes};
    char *all = pst_alloc(sizeof head + program->n_values * sizeof(struct row), 1);
    struct pst_hash key;

    for (uint32_t i = 0; i < program->n_values; i++) {
        const struct pst_value *value = &program->values[i];
        const struct row row = {value->bytes, value->first, value->last, value->kind == PST_V_HOST};

        if (!value->is_static) {
            memcpy(all + sizeof head + head.n++ * sizeof row, &row, sizeof row);
        }
    }
    memcpy(all, &head, sizeof head);
    key = pst_hash_of(all, sizeof head + head.n * sizeof(struct row));
    free(all);
    return key;
}

static const struct pst_layout *find_kept(const struct pst_layouts *layouts,
                                          const struct pst_hash *key, int64_t bytes)
{
    for (uint32_t i = 0; i < PST_LAYOUTS; i++) {
        const struct pst_layout *kept = &layouts->kept[i];

        if (kept->offsets != NULL && pst_hash_equal(&kept->key, key) && kept->low <= bytes &&
            bytes <= kept->high) {
            return kept;
        }
    }
    return NULL;
}

bool pst_layouts_find(struct pst_layouts *layouts, const struct pst_program *program,
                      const struct pst_room *room, struct pst_layout *ret_layout)
{
    const struct pst_hash key = digest_values(program, room);
    const struct pst_layout *kept;

    pthread_mutex_lock(&layouts->lock);
    kept = find_kept(layouts, &key, room->bytes);
    if (kept != NULL) {
        *ret_layout = *kept;
        ret_layout->offsets = pst_alloc((size_t)kept->n + 1, sizeof *kept->offsets);
        memcpy(ret_layout->offsets, kept->offsets, kept->n * sizeof *kept->offsets);
    }
    pthread_mutex_unlock(&layouts->lock);
    return kept != NULL;
}

/* Large layouts have few places, so that all take no more than some megabytes. */
static uint32_t count_places(uint32_t n_values)
{
    const uint32_t most = MOST_VALUES / (n_values + 1);

    return most == 0 ? 1 : most < PST_LAYOUTS ? most : PST_LAYOUTS;
}

void pst_layouts_keep(struct pst_layouts *layouts, const struct pst_program *program,
                      const struct pst_room *room, const struct pst_layout *layout)
{
    const struct pst_hash key = digest_values(program, room);
    uint64_t *spare = layout->offsets;

    pthread_mutex_lock(&layouts->lock);
    if (find_kept(layouts, &key, room->bytes) == NULL) { /* else another thread came first */
        struct pst_layout *kept = &layouts->kept[layouts->next++ % count_places(layout->n)];

        spare = kept->offsets;
        *kept = *layout;
        kept->key = key;
    }
    pthread_mutex_unlock(&layouts->lock);
    free(spare);
}
