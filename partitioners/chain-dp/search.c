/* SPDX-License-Identifier: Apache-2.0
 *
 * The least bottleneck T for which positions 0 = c0 < c1 < ... < cD = n exist such that every range
 * fits as its stage and costs at most T. Whether a T will do is answered by reachability: which
 * positions can the first i stages end at? That assumes little about prices: none is below the
 * compute time of its nodes, and what needs more than twice the memory there is does not come to
 * fit with yet more nodes. This bounds the windows. T is found by bisection, since raising it only
 * adds ranges.
 */
#include <string.h>

#include "chain_dp.h"

struct search {
    struct chain *chain;
    uint32_t
        *parent;    /* [(n_stages + 1) * (n + 1)] where stage i - 1 begins, PST_NONE: not reached */
    uint64_t *best; /* the same shape: least sum of peaks from there on */
    uint32_t *reached; /* [n + 1] positions, ascending, that a stage can begin at */
    uint32_t *least;   /* [n_stages + 1] least position from which the rest can be done in time */
};

static uint32_t *parent_at(const struct search *search, uint32_t i, uint32_t position)
{
    return &search->parent[(size_t)i * (search->chain->n + 1) + position];
}

static uint64_t compute_ns(const struct chain *chain, uint32_t stage, uint32_t first, uint32_t end)
{
    return chain->prefix_ns[stage][end] - chain->prefix_ns[stage][first];
}

/* All nodes on the slowest device. */
static uint64_t most_ns(const struct chain *chain)
{
    uint64_t most = 0;

    for (uint32_t s = 0; s < chain->n_stages; s++) {
        uint64_t ns = compute_ns(chain, s, 0, chain->n);

        most = ns > most ? ns : most;
    }
    return most;
}

/* Can one of the first n_stages take the node? */
static bool some_takes(const struct chain *chain, uint32_t n_stages, uint32_t node, uint64_t limit)
{
    uint32_t s = 0;

    while (s < n_stages && compute_ns(chain, s, node, node + 1) > limit) {
        s++;
    }
    return s < n_stages;
}

/* least[i]: below it, stages i.. would have to compute longer than T, or there are too few nodes. A
   node that takes too long on the device of a stage is left to an earlier one. */
static bool set_least(const struct search *search, uint64_t limit)
{
    const struct chain *chain = search->chain;
    uint32_t i, position = chain->n;

    search->least[chain->n_stages] = chain->n;
    for (i = chain->n_stages; i-- > 0;) {
        uint32_t end = position;

        while (compute_ns(chain, i, end - 1, end) > limit) {
            if (end == chain->n || !some_takes(chain, i, end - 1, limit)) {
                return false;
            }
            end++;
        }
        position = end;
        while (position > i && compute_ns(chain, i, position - 1, end) <= limit) {
            position--;
        }
        if (position == end) {
            return false; /* too few nodes */
        }
        search->least[i] = position;
    }
    return position == 0;
}

/* The least T that compute times alone allow. */
static uint64_t lower_bound(const struct search *search)
{
    const struct chain *chain = search->chain;
    uint64_t low = 0, high = most_ns(chain);

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (set_least(search, middle)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* Fills `reached` with the positions that stage i can begin at; how many. */
static uint32_t list_reached(const struct search *search, uint32_t i)
{
    uint32_t position, n = 0, last = search->chain->n - (search->chain->n_stages - i);

    for (position = search->least[i]; position <= last; position++) {
        if (*parent_at(search, i, position) != PST_NONE) {
            search->reached[n++] = position;
        }
    }
    return n;
}

/* The shortest range that ends there, of those that begin where stage i can, and will do. */
static void reach(const struct search *search, uint32_t i, uint32_t n_before, uint32_t end,
                  uint64_t limit, bool *ret_any)
{
    struct chain *chain = search->chain;
    uint32_t x;

    for (x = n_before; x-- > 0 && compute_ns(chain, i, search->reached[x], end) <= limit;) {
        struct range_price price;

        chain_price(chain, i, search->reached[x], end, &price);
        if (price.fits && price.cost_ns <= limit) {
            *parent_at(search, i + 1, end) = search->reached[x];
            *ret_any = true;
            break;
        }
        if (price.hopeless) {
            break;
        }
    }
}

/* Where can stage i end, if stages before it reached what `parent` says? */
static void extend(const struct search *search, uint32_t i, uint64_t limit, bool *ret_any)
{
    struct chain *chain = search->chain;
    uint32_t last = chain->n - (chain->n_stages - 1 - i), n = list_reached(search, i), before = 0;
    uint32_t end = search->least[i + 1] > i + 1 ? search->least[i + 1] : i + 1;

    *ret_any = false;
    for (; end <= last; end++) {
        while (before < n && search->reached[before] < end) {
            before++;
        }
        if (before == n && n > 0 && compute_ns(chain, i, search->reached[n - 1], end) > limit) {
            break;
        }
        reach(search, i, before, end, limit, ret_any);
    }
}

/* Fills `parent`; ret_stages: how many stages could be placed, n_stages if T will do. */
static void probe(const struct search *search, uint64_t limit, uint32_t *ret_stages)
{
    const struct chain *chain = search->chain;
    uint32_t i;

    *ret_stages = 0;
    if (!set_least(search, limit)) {
        return;
    }
    memset(search->parent, 0xFF,
           (size_t)(chain->n_stages + 1) * (chain->n + 1) * sizeof *search->parent);
    *parent_at(search, 0, 0) = 0;
    for (i = 0; i < chain->n_stages; i++) {
        bool any;

        extend(search, i, limit, &any);
        if (!any) {
            break;
        }
        *ret_stages = i + 1;
    }
}

/* The largest cost along the parents of a successful probe: T may as well be that. */
static void bottleneck(const struct search *search, uint64_t *ret_limit)
{
    struct chain *chain = search->chain;
    uint32_t i, end = chain->n;
    uint64_t most = 0;

    for (i = chain->n_stages; i-- > 0;) {
        uint32_t first = *parent_at(search, i + 1, end);
        struct range_price price;

        chain_price(chain, i, first, end, &price);
        most = price.cost_ns > most ? price.cost_ns : most;
        end = first;
    }
    *ret_limit = most;
}

/* The least T, or ret_stages < n_stages where there is none. */
static void least_limit(const struct search *search, uint64_t *ret_limit, uint32_t *ret_stages)
{
    const struct chain *chain = search->chain;
    uint64_t low = lower_bound(search), high = low, step = low / 64 + 1;

    /* Strides that double, so that a tight T is found without pricing wide windows. */
    for (;;) {
        probe(search, high, ret_stages);
        if (*ret_stages == chain->n_stages || high == UINT64_MAX) {
            break;
        }
        low = high + 1;
        high = high > 4 * most_ns(chain) ? UINT64_MAX : high + step;
        step *= 2;
    }
    if (*ret_stages < chain->n_stages) {
        return;
    }
    bottleneck(search, &high);
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        uint32_t stages;

        probe(search, middle, &stages);
        if (stages == chain->n_stages) {
            bottleneck(search, &high);
        } else {
            low = middle + 1;
        }
    }
    *ret_limit = high;
}

/* best[i][first] := least sum of peaks of stages i.., parent[i][first] := where stage i ends then.
 */
static void relax(const struct search *search, uint32_t i, uint32_t first, uint64_t limit)
{
    struct chain *chain = search->chain;
    uint64_t *best = &search->best[(size_t)i * (chain->n + 1) + first];
    uint32_t end = i + 1 == chain->n_stages ? chain->n : first + 1;

    *best = UINT64_MAX;
    for (; end <= chain->n && compute_ns(chain, i, first, end) <= limit; end++) {
        uint64_t rest = search->best[(size_t)(i + 1) * (chain->n + 1) + end];
        struct range_price price;

        if (rest == UINT64_MAX) {
            continue;
        }
        chain_price(chain, i, first, end, &price);
        if (price.fits && price.cost_ns <= limit && price.peak_bytes < *best &&
            rest < *best - price.peak_bytes) {
            *best = rest + price.peak_bytes;
            *parent_at(search, i, first) = end;
        }
        if (price.hopeless) {
            break;
        }
    }
}

/* Among all cuts within T the one with the least sum of peaks, and of those the earliest cuts. */
static void choose(const struct search *search, uint64_t limit, uint32_t *ret_cuts)
{
    const struct chain *chain = search->chain;
    size_t n_cells = (size_t)(chain->n_stages + 1) * (chain->n + 1);
    uint32_t i, first, stages;
    size_t cell;

    probe(search, limit, &stages);
    for (cell = 0; cell < n_cells; cell++) {
        search->best[cell] = UINT64_MAX;
    }
    search->best[n_cells - 1] = 0;
    for (i = chain->n_stages; i-- > 0;) {
        for (first = i; first < chain->n; first++) {
            if (*parent_at(search, i, first) != PST_NONE) {
                relax(search, i, first, limit);
            }
        }
    }
    for (i = 0, first = 0; i < chain->n_stages; i++) {
        ret_cuts[i] = first;
        first = *parent_at(search, i, first);
    }
    ret_cuts[chain->n_stages] = chain->n;
}

/* Says which stage could not be placed, and what it would have to hold at the very least. */
static pst_status explain(const struct search *search, uint32_t stage)
{
    struct chain *chain = search->chain;
    const struct pst_graph_view *graph = chain->in->graph;
    bool last = stage + 1 == chain->n_stages;
    uint64_t need = UINT64_MAX, capacity = part_capacity(chain->in, stage);
    uint32_t first, at = 0;
    char needs[64], has[64];

    for (first = stage; first < chain->n; first++) {
        struct range_price price;

        if (*parent_at(search, stage, first) == PST_NONE) {
            continue;
        }
        chain_price(chain, stage, first, last ? chain->n : first + 1, &price);
        if (price.peak_bytes < need) {
            need = price.peak_bytes;
            at = first;
        }
    }
    if (need <= capacity && chain->reach != NULL) {
        return pst_failf(chain->host, PST_ERR_INFEASIBLE,
                         "chain = true: no cut into %u stages is a chain; wherever stage %u begins "
                         "and ends, an edge leads over it or it does not fit: use fewer stages",
                         chain->n_stages, stage);
    }
    return pst_failf(
        chain->host, PST_ERR_INFEASIBLE,
        "stage %u of %u does not fit: node \"%s\"%s is charged %s, a device has %s, at "
        "micro-batch size %u with %u in flight",
        stage, chain->n_stages, pst_graph_node(graph, at)->name,
        last ? " with all nodes after it" : " alone", part_size_text(needs, need),
        part_size_text(has, capacity), chain->microbatch_size, chain->asker.in_flight[stage]);
}

pst_status chain_search(struct chain *chain, struct chain_answer *ret_answer)
{
    size_t n_cells = (size_t)(chain->n_stages + 1) * (chain->n + 1);
    struct search search = {.chain = chain};
    uint32_t i, stages;
    pst_status status = PST_OK;

    CALL_TAKE(search.parent, n_cells);
    CALL_TAKE(search.best, n_cells);
    CALL_TAKE(search.least, chain->n_stages + 1);
    CALL_TAKE(search.reached, (size_t)chain->n + 1);
    least_limit(&search, &ret_answer->bottleneck_ns, &stages);
    if (stages < chain->n_stages) {
        status = explain(&search, stages);
    }
    if (status == PST_OK) {
        choose(&search, ret_answer->bottleneck_ns, ret_answer->cuts);
    }
    ret_answer->sum_ns = 0;
    for (i = 0; status == PST_OK && i < chain->n_stages; i++) {
        struct range_price price;

        chain_price(chain, i, ret_answer->cuts[i], ret_answer->cuts[i + 1], &price);
        ret_answer->sum_ns += price.cost_ns;
    }
    return status;
}
