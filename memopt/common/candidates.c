/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the search begins: cheap replays dropped and dear ones offloaded, and plans that keep nodes
 * at regular distances.
 */
#include "search.h"

static void reset(struct mem_search *s)
{
    mem_search_load(s, s->costs->first);
}

static bool may(const struct mem_search *s, uint32_t v, uint8_t action)
{
    return (s->costs->may[v] & (1u << action)) != 0;
}

static bool undecided(const struct mem_search *s, uint32_t v)
{
    return (s->costs->may[v] & MEM_MAY_KEEP) != 0;
}

static bool fits(const struct mem_search *s)
{
    return mem_tally_legal(&s->tally) && mem_tally_peak(&s->tally) <= s->costs->capacity;
}

/* Recursion is as deep as such nodes follow each other. */
void mem_search_drop_sources(struct mem_search *s, uint32_t v)
{
    const struct mem_costs *c = s->costs;
    uint32_t i;

    for (i = c->first_source[v]; c->any_results && i < c->first_source[v + 1]; i++) {
        uint32_t u = c->sources[i];

        if (mem_tally_holds(&s->tally, u) && s->tally.actions[u] == PST_ACTION_KEEP &&
            may(s, u, PST_ACTION_RECOMPUTE) &&
            !mem_tally_breaks(&s->tally, u, PST_ACTION_RECOMPUTE)) {
            mem_tally_set(&s->tally, u, PST_ACTION_RECOMPUTE);
            mem_search_drop_sources(s, u);
        }
    }
}

/* Drops from the cheap end until it fits. Legal plans only: what would break the rule of replays
   is left for later, when its surroundings may have been dropped. */
static void drop_legally(struct mem_search *s)
{
    const struct mem_costs *c = s->costs;
    bool changed = true;
    uint32_t i;

    for (i = 0; i < c->n_order; i++) {
        s->skipped[i] = true;
    }
    while (changed) {
        changed = false;
        for (i = 0; i < c->n_order; i++) {
            uint32_t v = c->order[i];

            if (!s->skipped[i] || s->tally.actions[v] != PST_ACTION_KEEP ||
                !may(s, v, PST_ACTION_RECOMPUTE) ||
                mem_tally_breaks(&s->tally, v, PST_ACTION_RECOMPUTE)) {
                continue;
            }
            mem_tally_set(&s->tally, v, PST_ACTION_RECOMPUTE);
            s->skipped[i] = false;
            changed = true;
            mem_search_drop_sources(s, v);
            mem_search_note(s);
            if (fits(s)) {
                return;
            }
        }
    }
}

/* Drops nodes until it fits, even if illegal: a legal plan may come after illegal ones. */
static void drop_anyway(struct mem_search *s)
{
    const struct mem_costs *c = s->costs;
    uint32_t i;

    for (i = 0; i < c->n_order && !fits(s); i++) {
        uint32_t v = c->order[i];

        if (s->tally.actions[v] == PST_ACTION_KEEP && may(s, v, PST_ACTION_RECOMPUTE)) {
            mem_tally_set(&s->tally, v, PST_ACTION_RECOMPUTE);
            mem_search_drop_sources(s, v);
            mem_search_note(s);
        }
    }
}

/* Offloads the `count` dearest that may be. */
static void offload_dearest(struct mem_search *s, uint32_t count)
{
    uint32_t i;

    for (i = s->costs->n_order; i-- > 0 && count > 0;) {
        if (may(s, s->costs->order[i], PST_ACTION_OFFLOAD)) {
            mem_tally_set(&s->tally, s->costs->order[i], PST_ACTION_OFFLOAD);
            count--;
        }
    }
}

static void try_ends(struct mem_search *s)
{
    const struct mem_costs *c = s->costs;
    uint32_t n_offload = 0, i, tries;

    for (i = 0; i < c->n_order; i++) {
        n_offload += may(s, c->order[i], PST_ACTION_OFFLOAD);
    }
    tries = n_offload < s->effort.suffixes ? n_offload : s->effort.suffixes;
    for (i = 0; i <= tries; i++) {
        uint32_t count = tries == 0 ? 0 : (uint32_t)((uint64_t)n_offload * i / tries);

        call_go_on(c->host);
        reset(s);
        offload_dearest(s, count);
        mem_search_note(s);
        drop_anyway(s);
        if (s->met_illegal) {
            reset(s);
            offload_dearest(s, count);
            drop_legally(s);
        }
    }
}

/* Keeps or drops v as `kept` says; offload: v goes to the host instead of staying. */
static void place(struct mem_search *s, uint32_t v, bool kept, bool offload)
{
    uint8_t action = PST_ACTION_KEEP;

    if (!undecided(s, v)) {
        return;
    }
    if (!kept && may(s, v, PST_ACTION_RECOMPUTE)) {
        action = PST_ACTION_RECOMPUTE;
    } else if (offload && may(s, v, PST_ACTION_OFFLOAD)) {
        action = PST_ACTION_OFFLOAD;
    }
    mem_tally_set(&s->tally, v, action);
}

static void note_legal(struct mem_search *s)
{
    mem_search_legalize(s);
    mem_search_note(s);
}

static void segments_of(struct mem_search *s, uint32_t distance, uint32_t offset)
{
    uint32_t v, offload;

    for (offload = 0; offload < (s->costs->any_offload ? 2u : 1u); offload++) {
        for (v = 0; v < s->costs->n; v++) {
            place(s, v, v % distance == offset, offload == 1);
        }
        note_legal(s);
    }
}

/* A node is kept when so many bytes have come together since the last. */
static void segments_by_bytes(struct mem_search *s, int64_t bytes)
{
    int64_t since = 0;
    uint32_t v;

    for (v = 0; v < s->costs->n; v++) {
        bool kept = since + s->costs->bytes[v] > bytes;

        since = kept ? 0 : since + s->costs->bytes[v];
        place(s, v, kept, false);
    }
    note_legal(s);
}

static void try_segments(struct mem_search *s)
{
    const struct mem_costs *c = s->costs;
    uint32_t distance, step, offset;
    int64_t bytes = c->sum[c->n];

    reset(s);
    for (distance = 2; distance <= c->n && distance <= 2 * s->effort.segments; distance += step) {
        step = s->effort.segments > c->n || distance < 8 ? 1 : distance / 4;
        for (offset = 0; offset < distance; offset += c->n <= 32 ? 1 : (distance + 1) / 2) {
            call_go_on(c->host);
            segments_of(s, distance, offset);
        }
    }
    for (step = 0; step < 16 && bytes > 0; step++, bytes -= bytes / 3 + 1) {
        call_go_on(c->host);
        segments_by_bytes(s, bytes);
    }
    for (uint32_t v = 0; v < c->n; v++) {
        place(s, v, false, false);
    }
    note_legal(s);
}

void mem_search_candidates(struct mem_search *search)
{
    try_ends(search);
    if (search->n_starts == 0 || search->starts[0].score.over > 0 ||
        search->effort.segments > search->costs->n) {
        try_segments(search);
    }
}
