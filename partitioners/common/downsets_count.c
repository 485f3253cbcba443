/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts downsets without listing them. Unconnected parts multiply; a connected part is split at
 * one of its nodes v: downsets without v live in what is not above v, those with v in what is not
 * below. A node that is comparable with all others (a join, a layer of a chain) splits a part into
 * two that have nothing to do with each other, so chains of branches take few steps. What was
 * counted is remembered.
 */
#include "downsets.h"

#include <string.h>

enum { MAX_NODES = 4096, MAX_WORK = 400 * 1000 * 1000, TABLE = 1 << 14 };

struct entry {
    uint64_t *part; /* NULL: free */
    uint64_t count;
};

struct counter {
    const struct part_dag *dag;
    const struct pst_host *host;
    uint32_t n_words;
    uint64_t *up, *down; /* [n * n_words] nodes reachable from v, reaching v; with v */
    struct entry *table; /* [TABLE] open addressing; stops taking at half */
    uint32_t n_entries, polls;
    uint64_t work;
    bool given_up;
};

static uint32_t weight(const uint64_t *a, const uint64_t *b, uint32_t n_words)
{
    uint32_t sum = 0, w;

    for (w = 0; w < n_words; w++) {
        sum += (uint32_t)__builtin_popcountll(a[w] & b[w]);
    }
    return sum;
}

static bool in_part(const uint64_t *part, uint32_t v)
{
    return (part[v / 64] >> v % 64 & 1) != 0;
}

/* Is there work left to spend? */
static bool spend(struct counter *c, uint64_t work)
{
    c->work += work;
    if (c->work > MAX_WORK) {
        c->given_up = true;
    }
    if ((++c->polls & 0xFF) == 0) {
        call_go_on(c->host);
    }
    return !c->given_up;
}

static uint64_t times(uint64_t a, uint64_t b)
{
    return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static struct entry *lookup(struct counter *c, const uint64_t *part)
{
    uint64_t h = 0x9E3779B97F4A7C15;
    uint32_t w;

    for (w = 0; w < c->n_words; w++) {
        h = (h ^ part[w]) * 0xBF58476D1CE4E5B9;
        h ^= h >> 29;
    }
    for (;; h++) {
        struct entry *e = &c->table[h % TABLE];

        if (e->part == NULL || memcmp(e->part, part, c->n_words * sizeof *part) == 0) {
            return e;
        }
    }
}

static void remember(struct counter *c, const uint64_t *part, uint64_t count)
{
    struct entry *e = lookup(c, part);

    if (e->part != NULL || c->n_entries == TABLE / 2) {
        return;
    }
    e->part = call_alloc(c->n_words, sizeof *part);
    memcpy(e->part, part, c->n_words * sizeof *part);
    e->count = count;
    c->n_entries++;
}

/* Comparable with as many nodes of the part as possible; of equals the one in the middle. */
static uint32_t pivot(const struct counter *c, const uint64_t *part)
{
    uint32_t best = 0, most = 0, least_gap = UINT32_MAX, v;

    for (v = 0; v < c->dag->n; v++) {
        uint32_t above, below, gap;

        if (!in_part(part, v)) {
            continue;
        }
        above = weight(part, c->up + (size_t)v * c->n_words, c->n_words);
        below = weight(part, c->down + (size_t)v * c->n_words, c->n_words);
        gap = above > below ? above - below : below - above;
        if (above + below > most || (above + below == most && gap < least_gap)) {
            best = v;
            most = above + below;
            least_gap = gap;
        }
    }
    return best;
}

static uint64_t count_part(struct counter *c, const uint64_t *part);

/* A connected part with at least one node. `room` holds n_words. */
static uint64_t count_connected(struct counter *c, const uint64_t *part)
{
    struct entry *known = lookup(c, part);
    uint64_t *rest, count = 0;
    uint32_t v, w;

    if (known->part != NULL) {
        return known->count;
    }
    CALL_TAKE(rest, c->n_words);
    if (spend(c, (uint64_t)weight(part, part, c->n_words) * c->n_words * 2)) {
        v = pivot(c, part);
        for (w = 0; w < c->n_words; w++) {
            rest[w] = part[w] & ~c->up[(size_t)v * c->n_words + w];
        }
        count = count_part(c, rest);
        for (w = 0; w < c->n_words; w++) {
            rest[w] = part[w] & ~c->down[(size_t)v * c->n_words + w];
        }
        count = plus(count, count_part(c, rest));
        if (!c->given_up) {
            remember(c, part, count);
        }
    }
    call_free(rest);
    return count;
}

static void push_if_left(uint64_t *left, uint32_t *stack, uint32_t *n, uint32_t v)
{
    if (in_part(left, v)) {
        left[v / 64] &= ~(UINT64_C(1) << v % 64);
        stack[(*n)++] = v;
    }
}

/* Moves what is connected with node `first` from `left` to `ret_piece`. */
static void take_piece(const struct counter *c, uint64_t *left, uint32_t first, uint32_t *stack,
                       uint64_t *ret_piece)
{
    const struct part_dag *dag = c->dag;
    uint32_t n = 0, e;

    memset(ret_piece, 0, c->n_words * sizeof *ret_piece);
    push_if_left(left, stack, &n, first);
    while (n > 0) {
        uint32_t v = stack[--n];

        ret_piece[v / 64] |= UINT64_C(1) << v % 64;
        for (e = dag->first_out[v]; e < dag->first_out[v + 1]; e++) {
            push_if_left(left, stack, &n, dag->to[e]);
        }
        for (e = dag->first_in[v]; e < dag->first_in[v + 1]; e++) {
            push_if_left(left, stack, &n, dag->from[dag->in_edges[e]]);
        }
    }
}

static uint64_t count_part(struct counter *c, const uint64_t *part)
{
    uint64_t *left = call_alloc(2 * (size_t)c->n_words, sizeof *left), count = 1;
    uint64_t *piece = left + c->n_words;
    uint32_t *stack = call_alloc((size_t)c->dag->n + 1, sizeof *stack), v;

    memcpy(left, part, c->n_words * sizeof *left);
    for (v = 0; v < c->dag->n && !c->given_up; v++) {
        if (in_part(left, v)) {
            take_piece(c, left, v, stack, piece);
            count = times(count, count_connected(c, piece));
        }
    }
    call_free(left);
    call_free(stack);
    return count;
}

static void close_sets(struct counter *c)
{
    const struct part_dag *dag = c->dag;
    uint32_t v, e, w;

    for (v = 0; v < dag->n; v++) {
        uint64_t *down = c->down + (size_t)v * c->n_words;

        down[v / 64] |= UINT64_C(1) << v % 64;
        for (e = dag->first_in[v]; e < dag->first_in[v + 1]; e++) {
            for (w = 0; w < c->n_words; w++) {
                down[w] |= c->down[(size_t)dag->from[dag->in_edges[e]] * c->n_words + w];
            }
        }
    }
    for (v = dag->n; v-- > 0;) {
        uint64_t *up = c->up + (size_t)v * c->n_words;

        up[v / 64] |= UINT64_C(1) << v % 64;
        for (e = dag->first_out[v]; e < dag->first_out[v + 1]; e++) {
            for (w = 0; w < c->n_words; w++) {
                up[w] |= c->up[(size_t)dag->to[e] * c->n_words + w];
            }
        }
    }
}

void part_downsets_count(const struct part_dag *dag, const struct pst_host *host,
                         uint64_t *ret_count, bool *ret_exact)
{
    struct counter c = {.dag = dag, .host = host, .n_words = dag->n / 64 + 1};
    uint64_t *all = NULL;
    uint32_t v;

    *ret_count = 1;
    *ret_exact = false;
    if (dag->n > MAX_NODES) {
        return;
    }
    CALL_TAKE(c.up, (size_t)dag->n * c.n_words + 1);
    CALL_TAKE(c.down, (size_t)dag->n * c.n_words + 1);
    CALL_TAKE(c.table, TABLE);
    CALL_TAKE(all, c.n_words);
    for (v = 0; v < dag->n; v++) {
        all[v / 64] |= UINT64_C(1) << v % 64;
    }
    close_sets(&c);
    *ret_count = count_part(&c, all);
    *ret_exact = !c.given_up;
    if (!*ret_exact) {
        *ret_count = 1;
    }
    for (v = 0; v < TABLE; v++) {
        call_free(c.table[v].part);
    }
    call_free(c.table);
    call_free(c.up);
    call_free(c.down);
    call_free(all);
}
