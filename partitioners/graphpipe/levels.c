/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "levels.h"

#define MOST_LEVELS 2048

static uint64_t round_up(uint64_t value, uint32_t unit)
{
    return (value + unit - 1) / unit * unit;
}

uint64_t gp_in_flight(uint32_t b, uint32_t k, uint64_t next_i, uint32_t next_b, uint32_t next_k)
{
    uint64_t group = (uint64_t)b * k, next_group = (uint64_t)next_b * next_k;
    uint64_t value = next_i + (group > next_b ? group : next_b);

    if (b > next_group) {
        value += b - next_group;
    }
    return round_up(value, b);
}

static void allocate(struct gp_levels *levels, uint32_t n, uint32_t n_groups)
{
    memset(levels, 0, sizeof *levels);
    levels->n = n;
    levels->n_groups = n_groups;
    CALL_TAKE(levels->groups, n_groups);
    CALL_TAKE(levels->in_flight, n);
    CALL_TAKE(levels->group, n);
}

void gp_levels_init_depths(struct gp_levels *levels, uint32_t b, uint32_t batch, uint32_t n)
{
    uint32_t x;

    allocate(levels, n, 1);
    levels->simple = true;
    levels->groups[0] = (struct gp_group){.b = b, .k = 1, .n = n};
    for (x = 0; x < n; x++) {
        uint64_t i = (uint64_t)b * (x + 1);

        levels->in_flight[x] = i < batch ? i : batch;
    }
}

static bool may_precede(const struct gp_levels *levels, uint32_t x, uint32_t y, uint32_t batch)
{
    const struct gp_group *gx = &levels->groups[levels->group[x]];
    const struct gp_group *gy = &levels->groups[levels->group[y]];
    uint64_t need = gp_in_flight(gx->b, gx->k, levels->in_flight[y], gy->b, gy->k);
    uint64_t most = round_up(batch, gx->b);

    return (need < most ? need : most) <= levels->in_flight[x];
}

static void relate(struct gp_levels *levels, uint32_t batch)
{
    uint32_t x, y, z;

    levels->words = (levels->n + 63) / 64;
    CALL_TAKE(levels->before, levels->n * levels->words);
    CALL_TAKE(levels->covers, levels->n * levels->words);
    for (x = 0; x < levels->n; x++) {
        for (y = 0; y < levels->n; y++) {
            if (may_precede(levels, x, y, batch)) {
                levels->before[x * levels->words + y / 64] |= UINT64_C(1) << y % 64;
            }
        }
    }
    memset(levels->covers, 0xff, levels->n * levels->words * sizeof *levels->covers);
    for (x = 0; x < levels->n; x++) {
        for (z = 0; z < levels->n; z++) {
            if (gp_before(levels, z, x)) {
                for (y = 0; y < levels->words; y++) {
                    levels->covers[x * levels->words + y] &= levels->before[z * levels->words + y];
                }
            }
        }
    }
}

void gp_levels_init_general(struct gp_levels *levels, const uint32_t *sizes, uint32_t n_sizes,
                            const uint32_t *ks, uint32_t n_ks, uint32_t batch)
{
    uint32_t s, k, n_groups = 0, at = 0, g = 0;
    uint64_t n = 0, i;

    for (s = 0; s < n_sizes; s++) {
        for (k = 0; k < n_ks; k++) {
            if ((uint64_t)sizes[s] * ks[k] <= batch) {
                n_groups++;
                n += batch / sizes[s] - ks[k] + 1;
            }
        }
    }
    memset(levels, 0, sizeof *levels);
    if (n == 0 || n > MOST_LEVELS) {
        call_end(PST_ERR_UNSUPPORTED);
    }
    allocate(levels, (uint32_t)n, n_groups);
    for (s = 0; s < n_sizes; s++) {
        for (k = 0; k < n_ks; k++) {
            struct gp_group *group = &levels->groups[g];

            if ((uint64_t)sizes[s] * ks[k] > batch) {
                continue;
            }
            *group = (struct gp_group){.b = sizes[s], .k = ks[k], .first = at};
            for (i = (uint64_t)sizes[s] * ks[k]; i <= batch; i += sizes[s]) {
                levels->in_flight[at] = i;
                levels->group[at++] = g;
            }
            group->n = at - group->first;
            g++;
        }
    }
    relate(levels, batch);
}

bool gp_before(const struct gp_levels *levels, uint32_t x, uint32_t y)
{
    if (levels->simple) {
        return x > y || (x == y && x + 1 == levels->n);
    }
    return (levels->before[x * levels->words + y / 64] >> y % 64 & 1) != 0;
}

bool gp_covers(const struct gp_levels *levels, uint32_t x, uint32_t y)
{
    if (levels->simple) {
        return x >= y;
    }
    return (levels->covers[x * levels->words + y / 64] >> y % 64 & 1) != 0;
}

static void least_simple(const struct gp_levels *levels, bool covering, const uint32_t *in,
                         uint32_t *out, uint32_t *from)
{
    uint32_t x, best = GP_NEVER, at = 0;

    for (x = 0; x < levels->n; x++) {
        bool own = covering || x + 1 == levels->n;

        if (own && in[x] < best) {
            best = in[x];
            at = x;
        }
        out[x] = best;
        from[x] = at;
        if (!own && in[x] < best) {
            best = in[x];
            at = x;
        }
    }
}

void gp_levels_least(const struct gp_levels *levels, bool covering, const uint32_t *in,
                     uint32_t *out, uint32_t *from)
{
    const uint64_t *rows = covering ? levels->covers : levels->before;
    uint32_t x, w;

    if (levels->simple) {
        least_simple(levels, covering, in, out, from);
        return;
    }
    for (x = 0; x < levels->n; x++) {
        out[x] = GP_NEVER;
        from[x] = 0;
        for (w = 0; w < levels->words; w++) {
            uint64_t bits = rows[x * levels->words + w];

            for (; bits != 0; bits &= bits - 1) {
                uint32_t y = w * 64 + (uint32_t)__builtin_ctzll(bits);

                if (y < levels->n && in[y] < out[x]) {
                    out[x] = in[y];
                    from[x] = y;
                }
            }
        }
    }
}
