/* SPDX-License-Identifier: Apache-2.0
 *
 * Does anything fit? Stage by stage, from the few positions that lie furthest, every stage takes as
 * much as it can. Where what fits still fits with fewer nodes this finds a plan if there is one, at
 * a small part of the prices that trying all cuts would take.
 */

#include "dawnpiper.h"

/* Where stages may end, furthest first. */
struct front {
    uint32_t n;
    uint32_t at[REACH_WIDE], parent[REACH_WIDE];
};

static void fits(struct pipe *pipe, uint32_t stage, uint32_t a, uint32_t b, bool *ret_fits)
{
    uint64_t ns = NS_NEVER;

    pipe_price(pipe, stage, a, b, &ns);
    *ret_fits = ns != NS_NEVER;
}

/* The last position up to which the stage can go from a on; a: none. */
static void furthest(struct pipe *pipe, uint32_t stage, uint32_t a, uint32_t *ret_end)
{
    uint32_t low = a, high = pipe->n - (pipe->n_stages - 1 - stage), step = 1;
    bool found = true;

    while (low < high && found) {
        /* in growing steps, so that ranges stay small */
        uint32_t next = high - low > step ? low + step : high;

        fits(pipe, stage, a, next, &found);
        low = found ? next : low;
        high = found ? high : next - 1;
        step *= 2;
    }
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;

        fits(pipe, stage, a, middle, &found);
        low = found ? middle : low;
        high = found ? high : middle - 1;
    }
    *ret_end = low;
}

/* Positions at most `most` down to `least` that the stage reaches from some of `from`. */
static void collect(struct pipe *pipe, uint32_t stage, const struct front *from,
                    const uint32_t *ends, uint32_t wide, struct front *to)
{
    uint32_t most = 0, b;

    for (uint32_t i = 0; i < from->n; i++) {
        most = ends[i] > most ? ends[i] : most;
    }
    to->n = 0;
    for (b = most; b > stage && b + 2 * wide > most && to->n < wide; b--) {
        bool ok = false;

        for (uint32_t i = 0; pipe_admits(pipe, b) && !ok && i < from->n; i++) {
            if (from->at[i] < b && b <= ends[i]) {
                fits(pipe, stage, from->at[i], b, &ok);
                to->parent[to->n] = i;
            }
        }
        if (ok) {
            to->at[to->n++] = b;
        }
    }
}

static void step(struct pipe *pipe, uint32_t stage, const struct front *from, uint32_t wide,
                 struct front *to)
{
    uint32_t ends[REACH_WIDE] = {0};

    for (uint32_t i = 0; i < from->n; i++) {
        furthest(pipe, stage, from->at[i], &ends[i]);
    }
    collect(pipe, stage, from, ends, wide, to);
}

/* fronts[s]: where stage s may begin; reads the cuts back from one that can end at n. */
static void finish(struct pipe *pipe, const struct front *fronts, struct found *found)
{
    uint32_t last = pipe->n_stages - 1, i = 0, s;
    uint64_t ns = 0;
    bool ok = false;

    for (i = 0; i < fronts[last].n && !ok; i++) {
        fits(pipe, last, fronts[last].at[i], pipe->n, &ok);
    }
    if (!ok) {
        return;
    }
    found->cuts[pipe->n_stages] = pipe->n;
    for (i--, s = last + 1; s-- > 0; i = fronts[s].parent[i]) {
        found->cuts[s] = fronts[s].at[i];
    }
    for (s = 0; s <= last; s++) {
        uint64_t here, comm = s < last ? pipe_comm(pipe, s, found->cuts[s + 1]) : 0;

        pipe_price(pipe, s, found->cuts[s], found->cuts[s + 1], &here);
        ns = here > ns ? here : ns;
        ns = comm > ns ? comm : ns;
    }
    found->ns = ns;
}

void pipe_reach(struct pipe *pipe, uint32_t wide, struct found *found)
{
    struct front *fronts = call_alloc(pipe->n_stages, sizeof *fronts);

    fronts[0].n = 1;
    for (uint32_t s = 0; s + 1 < pipe->n_stages; s++) {
        call_go_on(pipe->problem->host);
        step(pipe, s, &fronts[s], wide, &fronts[s + 1]);
    }
    finish(pipe, fronts, found);
}
