/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimum over all admissible cuts: by dynamic programming over (stage, position), or, where
 * periods are monotone, by letting every stage take as much as a threshold allows.
 */
#include <string.h>

#include "dawnpiper.h"

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Do `stages` stages have to compute for `limit` or longer on [a, b)? */
static bool is_too_long(const struct pipe *pipe, uint32_t a, uint32_t b, uint32_t stages,
                        uint64_t limit)
{
    return stages == 0 ? a != b : pipe_compute(pipe, a, b) / stages >= limit;
}

/*
 * So far from fitting that no range around it will. More nodes need more memory, but for two
 * things: the input of a range may shrink when it takes in the producer, and a memory optimizer may
 * find better borders. So the input does not count, and the rest must be twice what there is.
 */
static bool is_hopeless(const struct pipe *pipe, uint32_t stage, uint32_t a,
                        const struct pst_stage_price *price)
{
    double peak = (double)price->peak_bytes;

    peak -= pipe->ranges->cut_bytes[a] * pipe->size * pipe->asker.in_flight[stage];
    return price->fits == 0 && peak / 2 > pipe->problem->capacity_bytes;
}

/* before[a]: least bottleneck of stages 0 .. stage - 1 on [0, a). */
static void relax(struct pipe *pipe, uint32_t stage, uint32_t b, uint64_t limit,
                  const uint64_t *before, uint64_t *ret_after, uint32_t *ret_parent)
{
    uint64_t best = limit;
    uint32_t a;

    *ret_after = NS_NEVER;
    for (a = b; a-- > stage && pipe_compute(pipe, a, b) < best;) {
        struct pst_stage_price price;
        uint64_t ns = before[a];

        if (ns >= best || (stage > 0 && !pipe_admits(pipe, a))) {
            continue;
        }
        if (stage > 0) {
            ns = most(ns, pipe_comm(pipe, stage - 1, a));
        }
        if (ns >= best) {
            continue;
        }
        part_asker_price(&pipe->asker, stage, a, b, &price);
        if (price.fits != 0 && most(ns, price.period_ns) < best) {
            best = *ret_after = most(ns, price.period_ns);
            *ret_parent = a;
        }
        if (is_hopeless(pipe, stage, a, &price)) {
            break;
        }
    }
}

static void fill(struct pipe *pipe, uint64_t *before, uint64_t *after, uint32_t *parent,
                 uint64_t limit, uint64_t *ret_ns)
{
    uint32_t n = pipe->n, stage, b;

    memset(before, 0xFF, ((size_t)n + 1) * sizeof *before); /* NS_NEVER */
    before[0] = 0;
    for (stage = 0; stage < pipe->n_stages; stage++) {
        uint32_t rest = pipe->n_stages - 1 - stage;
        uint64_t *spare = before;

        memset(after, 0xFF, ((size_t)n + 1) * sizeof *after);
        for (b = stage + 1; b + rest <= n; b++) {
            if (is_too_long(pipe, b, n, rest, limit) || is_too_long(pipe, 0, b, stage + 1, limit)) {
                continue;
            }
            relax(pipe, stage, b, limit, before, &after[b], &parent[(size_t)stage * (n + 1) + b]);
        }
        before = after;
        after = spare;
    }
    *ret_ns = before[n];
}

void pipe_exact(struct pipe *pipe, struct found *found)
{
    size_t n = (size_t)pipe->n + 1;
    uint64_t *before = call_alloc(n, sizeof *before), *after = call_alloc(n, sizeof *after);
    uint32_t *parent = call_alloc(n * pipe->n_stages, sizeof *parent);
    uint64_t ns = NS_NEVER;
    uint32_t stage, b = pipe->n;

    fill(pipe, before, after, parent, found->ns, &ns);
    if (ns < found->ns) {
        found->ns = ns;
        found->cuts[pipe->n_stages] = b;
        for (stage = pipe->n_stages; stage-- > 0;) {
            b = parent[stage * n + b];
            found->cuts[stage] = b;
        }
    }
}

/* --- threshold ---------------------------------------------------------------------------------*/

struct asked {
    uint32_t of, a, b; /* class of stages */
    uint64_t ns;
};

/* All that was asked, to see that no range costs more than one around it. */
struct record {
    struct asked *items;
    size_t n, room;
    bool broken;
};

static void note(struct record *record, const struct asked *asked)
{
    size_t i;

    for (i = 0; i < record->n; i++) {
        const struct asked *other = &record->items[i];

        if (other->of != asked->of) {
            continue;
        }
        if (other->a == asked->a && other->b == asked->b) {
            return;
        }
        record->broken = record->broken ||
                         (other->a <= asked->a && asked->b <= other->b && asked->ns > other->ns) ||
                         (asked->a <= other->a && other->b <= asked->b && other->ns > asked->ns);
    }
    CALL_MAKE_ROOM(record->items, record->n, record->room);
    record->items[record->n++] = *asked;
}

static void ask(struct pipe *pipe, struct record *record, uint32_t stage, uint32_t a, uint32_t b,
                uint64_t *ret_ns)
{
    struct asked asked = {.of = pipe->asker.class_of[stage], .a = a, .b = b};

    pipe_price(pipe, stage, a, b, &asked.ns);
    *ret_ns = asked.ns;
    note(record, &asked);
}

/* The last position up to which a stage from a on can go below the limit; a: none. */
static void reach(struct pipe *pipe, struct record *record, uint32_t stage, uint32_t a,
                  uint64_t limit, uint32_t *ret_end)
{
    uint32_t low = a, high = pipe->n - (pipe->n_stages - 1 - stage);

    while (low < high) {
        /* [a, low) is below; beyond high nothing is */
        uint32_t middle = low + (high - low + 1) / 2;
        uint64_t ns = NS_NEVER;

        if (pipe_compute(pipe, a, middle) < limit) {

            ask(pipe, record, stage, a, middle, &ns);
        }
        if (ns < limit) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    while (low > a && low < pipe->n &&
           (!pipe_admits(pipe, low) || pipe_comm(pipe, stage, low) >= limit)) {
        low--;
    }
    *ret_end = low;
}

/* Cuts of which every stage is below the limit; *ret_ns: their bottleneck, NS_NEVER: none. */
static void probe(struct pipe *pipe, struct record *record, uint64_t limit, uint32_t *ret_cuts,
                  uint64_t *ret_ns)
{
    uint32_t stage, last = pipe->n_stages - 1;
    uint64_t ns = 0, period;

    *ret_ns = NS_NEVER;
    ret_cuts[0] = 0;
    for (stage = 0; stage < last; stage++) {
        reach(pipe, record, stage, ret_cuts[stage], limit, &ret_cuts[stage + 1]);
        if (ret_cuts[stage + 1] == ret_cuts[stage]) {
            return;
        }
        ask(pipe, record, stage, ret_cuts[stage], ret_cuts[stage + 1], &period);
        ns = most(most(ns, period), pipe_comm(pipe, stage, ret_cuts[stage + 1]));
    }
    ret_cuts[last + 1] = pipe->n;
    ask(pipe, record, last, ret_cuts[last], pipe->n, &period);
    if (most(ns, period) < limit) {
        *ret_ns = most(ns, period);
    }
}

void pipe_threshold(struct pipe *pipe, struct found *found, bool *ret_proven)
{
    struct record record = {0};
    uint32_t *cuts = call_alloc((size_t)pipe->n_stages + 1, sizeof *cuts);
    uint64_t low = pipe_compute(pipe, 0, pipe->n) / pipe->n_stages, ns = NS_NEVER;

    /* Nothing is below `low`; what is below found->ns is looked for. */
    while (low < found->ns && !record.broken) {
        uint64_t limit = found->ns == NS_NEVER ? NS_NEVER : low + (found->ns - low + 1) / 2;

        probe(pipe, &record, limit, cuts, &ns);
        if (ns < limit) {
            found->ns = ns;
            memcpy(found->cuts, cuts, ((size_t)pipe->n_stages + 1) * sizeof *cuts);
        } else if (limit == found->ns) {
            break;
        } else {
            low = limit;
        }
    }
    *ret_proven = !record.broken;
}
