/* SPDX-License-Identifier: Apache-2.0
 *
 * Which building block suits p devices and m micro-batches best.
 */
#include "vplugin.h"

#define ALL_BLOCKS_CELLS 4096 /* p * m up to which every block is tried */

struct search {
    struct vblock block; /* that is tried */
    uint32_t m, cap;
    struct vtable best; /* p is 0 where there is none */
    uint32_t length, peak;
};

/* Keeps the schedule of this block if it is better than the one at hand. */
static void try_block(struct search *s, const struct vblock *block, uint32_t cap, enum vdrain drain)
{
    struct vtable table;
    uint32_t length, peak;

    if (!vblock_build(block, s->m, cap, drain, &table)) {
        return;
    }
    length = vtable_length(&table);
    peak = vtable_peak(&table);
    if (s->best.p == 0 || length < s->length || (length == s->length && peak < s->peak)) {
        vtable_finish(&s->best);
        s->best = table;
        s->length = length;
        s->peak = peak;
    } else {
        vtable_finish(&table);
    }
}

static void try_shape(struct search *s, uint32_t slope, uint32_t f1, uint32_t b1, uint32_t b0)
{
    const struct vshape shape = {.period = 6,
                                 .residue = {0, (uint8_t)f1, (uint8_t)b1, (uint8_t)b0},
                                 .slope = (uint8_t)slope,
                                 .slope_after = (uint8_t)slope};

    if (vblock_lay(&shape, &s->block)) {
        try_block(s, &s->block, s->cap, VDRAIN_EARLY);
    }
}

static void try_shapes(struct search *s)
{
    static const uint8_t some[][4] = {{1, 3, 2, 5}, {1, 1, 2, 3}, {1, 5, 2, 1},
                                      {2, 1, 2, 4}, {2, 4, 2, 1}, {2, 5, 3, 1}};

    if ((uint64_t)s->block.p * s->m > ALL_BLOCKS_CELLS) {
        for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
            try_shape(s, some[i][0], some[i][1], some[i][2], some[i][3]);
        }
        return;
    }
    for (uint32_t slope = 1; slope <= 2; slope++) {
        for (uint32_t code = 0; code < 125; code++) {
            try_shape(s, slope, code / 25 + 1, code / 5 % 5 + 1, code % 5 + 1);
        }
    }
}

/*
 * The shortest schedule, all passes taking one slot, among those of `published` and of many other
 * blocks at which no device holds more than `cap`, drained early. Of equally short ones, the first
 * with the lowest peak. Large problems get a short list of blocks.
 */
static struct vtable find_best(const struct vblock *published, uint32_t m, uint32_t cap)
{
    struct search s = {.block.p = published->p, .m = m, .cap = cap};

    CALL_TAKE(s.block.slots, 4 * (size_t)published->p);
    try_block(&s, published, 0, VDRAIN_PUBLISHED);
    try_block(&s, published, 0, VDRAIN_EARLY);
    try_block(&s, published, cap, VDRAIN_EARLY);
    try_shapes(&s);
    return s.best;
}

void vplugin_build(const struct fixed_question *question, const int32_t first[4],
                   const int32_t step[4], uint32_t cap, struct order *order)
{
    const struct vplugin_config *config = question->self->config;
    struct vblock block = {.p = question->p, .period = 6};
    struct vtable table;

    CALL_TAKE(block.slots, 4 * (size_t)block.p);
    for (uint32_t i = 0; i < 4 * block.p; i++) {
        block.slots[i] = (uint32_t)(first[i % 4] + step[i % 4] * (int32_t)(i / 4));
    }
    if (config->variant == VPLUGIN_IMPROVED) {
        table = find_best(&block, question->m, cap);
    } else {
        vblock_build(&block, question->m, 0, VDRAIN_PUBLISHED, &table);
    }
    vtable_order(&table, order);
}
