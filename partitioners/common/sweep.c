/* SPDX-License-Identifier: Apache-2.0
 *
 * Is there a cut at T without memory limit (or with one, where depths are said)? f(j), the least
 * devices that the prefix j needs, is the least over degrees d of d + f(i) over those i from which
 * [i, j) stays within T. Transfers over both ends of a range are added even where an edge spans all
 * of it, so the answer is exact for orders whose edges join neighbours only, and safe for others.
 */
#include <string.h>

#include "chain_line.h"

#define BLOCK 64u

struct sweep {
    uint32_t *devices; /* [n + 1] f */
    uint32_t *from;    /* [n + 1] where the last stage of the prefix begins */
    uint32_t *degree;  /* [n + 1] and its degree index */
    uint32_t *left;    /* [degrees] leftmost start that compute and all-reduce allow */
    /* transfers that add up */
    int64_t *reach;      /* [degrees][D + 1] most of work - cross over starts with f <= l */
    uint32_t *reach_at;  /* where */
    uint32_t *hint, top; /* [degrees] last answer; most devices of any position */
    /* transfers that overlap */
    uint32_t *relaxed;       /* [n + 1] f with transfers free */
    uint32_t good;           /* the last position that the devices suffice for */
    uint64_t looks;          /* starts looked at */
    uint32_t *block_devices; /* [n / BLOCK + 1] least f of a block */
    int64_t *block_min;      /* [degrees][n / BLOCK + 1] least cross of a block */
};

static void read_cuts(const struct line *l, const struct sweep *s, struct cuts *cuts)
{
    uint32_t at, n = 0, i;

    for (at = l->n; at > 0; at = s->from[at]) {
        n++;
    }
    cuts->n = n;
    cuts->first[n] = l->n;
    for (at = l->n, i = n; at > 0; at = s->from[at]) {
        cuts->k[--i] = s->degree[at];
        cuts->first[i] = s->from[at];
    }
}

static void move_left(const struct line *l, struct sweep *s, uint32_t j, uint32_t k, int64_t ticks)
{
    while (s->left[k] < j && (!line_works(l, s->left[k], j, k, ticks) ||
                              (l->memory && !line_fits(l, s->left[k], j, k, 0)))) {
        s->left[k]++;
    }
}

/* f never falls along the order then, so the leftmost start is best. */
static void free_transfers(const struct line *l, struct sweep *s, uint32_t j, int64_t ticks)
{
    uint32_t k, best = UINT32_MAX;

    for (k = 0; k < l->n_degrees; k++) {
        uint32_t i;

        move_left(l, s, j, k, ticks);
        i = s->left[k];
        if (i < j && s->devices[i] < best && s->devices[i] + l->costs->degrees[k] < best) {
            best = s->devices[i] + l->costs->degrees[k];
            s->from[j] = i;
            s->degree[j] = k;
        }
    }
    s->devices[j] = best;
}

/* The least l with a start of at most l devices that is far enough along: near the last answer. */
static uint32_t find_reach(const struct sweep *s, const int64_t *reach, uint32_t hint, int64_t need)
{
    if (hint > s->top) {
        hint = s->top;
    }
    while (hint > 0 && reach[hint - 1] >= need) {
        hint--;
    }
    while (hint <= s->top && reach[hint] < need) {
        hint++;
    }
    return hint;
}

static void note_reach(const struct line *l, struct sweep *s, uint32_t j)
{
    size_t width = (size_t)l->max_devices + 1;
    uint32_t f = s->devices[j], k, at, top = f > s->top ? f : s->top;

    for (k = 0; k < l->n_degrees; k++) {
        int64_t *reach = s->reach + k * width, value = l->work[k][j] - l->cross[k][j];
        uint32_t *where = s->reach_at + k * width;

        for (at = s->top + 1; at <= top; at++) {
            reach[at] = reach[s->top];
            where[at] = where[s->top];
        }
        for (at = f; at <= top && reach[at] < value; at++) {
            reach[at] = value;
            where[at] = j;
        }
    }
    s->top = top;
}

static void added_transfers(const struct line *l, struct sweep *s, uint32_t j, int64_t ticks)
{
    size_t width = (size_t)l->max_devices + 1;
    uint32_t k, best = UINT32_MAX;

    for (k = 0; k < l->n_degrees; k++) {
        int64_t need = l->work[k][j] + l->cross[k][j] - ticks;
        uint32_t at = find_reach(s, s->reach + k * width, s->hint[k], need);

        s->hint[k] = at;
        if (at <= s->top && at + l->costs->degrees[k] < best) {
            best = at + l->costs->degrees[k];
            s->from[j] = s->reach_at[k * width + at];
            s->degree[j] = k;
        }
    }
    s->devices[j] = best <= l->max_devices ? best : UINT32_MAX;
    if (best <= l->max_devices) {
        note_reach(l, s, j);
    }
}

/* The next start from i on whose transfers are within `most` and which needs less than `below`
   devices; j: none. Blocks that hold none are skipped. */
static uint32_t next_start(const struct line *l, const struct sweep *s, uint32_t k, uint32_t i,
                           uint32_t j, int64_t most, uint32_t below)
{
    const int64_t *blocks = s->block_min + k * ((size_t)l->n / BLOCK + 1);

    while (i < j && s->relaxed[i] < below) { /* never falls, and f is not less */
        if (i % BLOCK == 0 && (blocks[i / BLOCK] > most || s->block_devices[i / BLOCK] >= below)) {
            i += BLOCK;
        } else if (l->cross[k][i] > most || s->devices[i] >= below) {
            i++;
        } else {
            break;
        }
    }
    return i < j && s->relaxed[i] < below ? i : j;
}

/* Least devices of each block of positions so far. */
static void note_devices(struct sweep *s, uint32_t j)
{
    uint32_t *least = &s->block_devices[j / BLOCK];

    if (j % BLOCK == 0 || s->devices[j] < *least) {
        *least = s->devices[j];
    }
}

/* A start must need less than this to be better. */
static uint32_t room(uint32_t best, uint32_t d)
{
    return best > d ? best - d : 0;
}

/* What transfers allow of the window; with them free, f is never more, which ends the search. */
static void side_by_side(const struct line *l, struct sweep *s, uint32_t j, int64_t ticks)
{
    uint32_t k, best = UINT32_MAX, relaxed = UINT32_MAX, i;

    for (k = 0; k < l->n_degrees; k++) {
        uint32_t d = l->costs->degrees[k];
        int64_t most = ticks - l->cross[k][j];

        move_left(l, s, j, k, ticks);
        i = s->left[k];
        if (i < j && s->relaxed[i] != UINT32_MAX && s->relaxed[i] + d < relaxed) {
            relaxed = s->relaxed[i] + d;
        }
        for (i = next_start(l, s, k, i, j, most, room(best, d)); i < j;
             i = next_start(l, s, k, i + 1, j, most, room(best, d))) {
            s->looks++;
            best = s->devices[i] + d;
            s->from[j] = i;
            s->degree[j] = k;
        }
    }
    s->relaxed[j] = relaxed;
    s->devices[j] = best <= l->max_devices ? best : UINT32_MAX;
    s->good = best <= l->max_devices ? j : s->good;
    note_devices(s, j);
}

/* No stage can begin at a position that can be reached any more. */
static bool is_over(const struct line *l, const struct sweep *s)
{
    uint32_t k;

    for (k = 0; k < l->n_degrees; k++) {
        if (s->left[k] <= s->good) {
            return false;
        }
    }
    return true;
}

static void reset(const struct line *l, struct sweep *s)
{
    size_t i, width = (size_t)l->max_devices + 1;
    uint32_t k;

    memset(s->left, 0, l->n_degrees * sizeof *s->left);
    s->devices[0] = 0;
    if (l->cross == NULL) {
        return;
    }
    s->relaxed[0] = 0;
    note_devices(s, 0);
    s->top = 0;
    s->good = 0;
    memset(s->hint, 0, l->n_degrees * sizeof *s->hint);
    for (i = 0; i < l->n_degrees * width; i++) {
        s->reach[i] = INT64_MIN;
    }
    for (k = 0; k < l->n_degrees; k++) {
        s->reach[k * width] = l->work[k][0] - l->cross[k][0];
        s->reach_at[k * width] = 0;
    }
}

static void run(struct probe *probe, int64_t ticks, bool *ret_found, struct cuts *cuts)
{
    const struct line *l = probe->line;
    struct sweep *s = probe->scratch;
    uint32_t j;

    reset(l, s);
    *ret_found = false;
    for (j = 1; j <= l->n; j++) {
        if (j % 1024 == 0) {
            part_poll(l->problem);
        }
        if (l->cross == NULL) {
            free_transfers(l, s, j, ticks);
            if (s->devices[j] > l->max_devices) {
                probe->stats->states += j;
                return;
            }
        } else if (l->sync == NULL) {
            added_transfers(l, s, j, ticks);
        } else {
            side_by_side(l, s, j, ticks);
            if (is_over(l, s)) {
                break;
            }
        }
    }
    probe->stats->states += (j < l->n ? j : l->n) + s->looks;
    s->looks = 0;
    if (j <= l->n) {
        return;
    }
    if (s->devices[l->n] <= l->max_devices) {
        *ret_found = true;
        read_cuts(l, s, cuts);
    }
}

static void fill_blocks(const struct line *l, struct sweep *s)
{
    size_t n_blocks = (size_t)l->n / BLOCK + 1;
    uint32_t k, i;

    for (k = 0; k < l->n_degrees; k++) {
        for (i = 0; i <= l->n; i++) {
            int64_t *least = &s->block_min[k * n_blocks + i / BLOCK];

            if (i % BLOCK == 0 || l->cross[k][i] < *least) {
                *least = l->cross[k][i];
            }
        }
    }
}

void sweep_init(struct probe *probe)
{
    const struct line *l = probe->line;
    struct sweep *s = part_alloc(1, sizeof *s);
    size_t n = (size_t)l->n + 1, k = (size_t)l->n_degrees + 1, width = (size_t)l->max_devices + 1;

    probe->run = run;
    probe->scratch = s;
    s->devices = part_alloc(n, sizeof *s->devices);
    s->from = part_alloc(n, sizeof *s->from);
    s->degree = part_alloc(n, sizeof *s->degree);
    s->left = part_alloc(k, sizeof *s->left);
    if (l->cross == NULL) {
        return;
    }
    s->reach = part_alloc(k * width, sizeof *s->reach);
    s->reach_at = part_alloc(k * width, sizeof *s->reach_at);
    s->hint = part_alloc(k, sizeof *s->hint);
    s->relaxed = part_alloc(n, sizeof *s->relaxed);
    s->block_min = part_alloc(k * (n / BLOCK + 1), sizeof *s->block_min);
    s->block_devices = part_alloc(n / BLOCK + 1, sizeof *s->block_devices);
    fill_blocks(l, s);
}
