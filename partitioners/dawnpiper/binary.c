/* SPDX-License-Identifier: Apache-2.0
 *
 * Binary partition: a group of stages is cut in the middle of its stages, at one of few positions,
 * and each half likewise. What is known of a group is remembered; what cannot come below the best
 * so far is not looked at. Where nothing in the interval fits, the interval grows. Of wide
 * intervals only the neighbourhood of the position where both halves take equally long is tried.
 */
#include "dawnpiper.h"

#define WIDE 24 /* cuts; what is wider is bisected */
#define NEAR 3  /* cuts tried on both sides of where that ends */

/* Groups are halves of halves: i, a and b tell j, given how deep they are. */
static uint64_t key_of(const struct pipe *pipe, uint32_t i, uint32_t j, uint32_t a, uint32_t b)
{
    uint64_t n = (uint64_t)pipe->n + 1, stages = pipe->n_stages;

    return ((i * stages + j) * n + a) * n + b;
}

/* One group while it is solved. */
struct group {
    uint32_t i, j, mid, a, b, center;
    uint64_t limit;
    uint64_t best; /* NS_NEVER: none yet */
    uint32_t cut;
    bool fits;        /* some cut fits, be it above the limit */
    bool unknown;     /* some cut was left out by its bound */
    bool left, right; /* that direction is done */
    bool left_heavy;  /* of the last cut tried: its left half is what takes longer */
};

static void solve(struct pipe *pipe, uint32_t i, uint32_t j, uint32_t a, uint32_t b, uint64_t limit,
                  uint64_t *ret_ns);

static uint64_t bound_of(const struct group *g)
{
    return g->best < g->limit ? g->best : g->limit;
}

static uint64_t per_stage(uint64_t ns, uint32_t stages)
{
    return ns / stages + (ns % stages != 0);
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint32_t least_of(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Could cut c come below? If its own side is too long already, so is every cut beyond it. */
static bool is_pruned(const struct pipe *pipe, struct group *g, uint32_t c, uint64_t comm)
{
    uint64_t before = per_stage(pipe_compute(pipe, g->a, c), g->mid - g->i + 1);
    uint64_t after = per_stage(pipe_compute(pipe, c, g->b), g->j - g->mid);
    uint64_t bound = bound_of(g);

    g->left = g->left || (c <= g->center && after >= bound);
    g->right = g->right || (c >= g->center && before >= bound);
    g->left_heavy = before >= after;
    return before >= bound || after >= bound || comm >= bound;
}

static void try_cut(struct pipe *pipe, struct group *g, uint32_t c)
{
    uint64_t comm = pipe_comm(pipe, g->mid, c), before, after;

    if (is_pruned(pipe, g, c, comm)) {
        g->unknown = true;
        return;
    }
    g->left_heavy = true;
    solve(pipe, g->i, g->mid, g->a, c, bound_of(g), &before);
    if (before == NS_NEVER) {
        return;
    }
    if (before >= bound_of(g)) {
        g->unknown = true;
        return;
    }
    solve(pipe, g->mid + 1, g->j, c, g->b, bound_of(g), &after);
    g->left_heavy = before >= after;
    if (after == NS_NEVER) {
        return;
    }
    if (after >= bound_of(g)) {
        g->unknown = true;
        g->fits = g->fits || after != NS_ABOVE;
        return;
    }
    g->fits = true;
    g->best = most(most(before, after), comm);
    g->cut = c;
}

/* Which cuts are candidates. */
struct interval {
    uint32_t low, high;
    double least_bytes, most_bytes; /* of what crosses: more than the first, at most the second */
};

static bool is_candidate(const struct pipe *pipe, const struct interval *of, uint32_t c)
{
    double bytes = pipe->ranges->cut_bytes[c];

    return pipe_admits(pipe, c) && bytes > of->least_bytes && bytes <= of->most_bytes;
}

/* Every candidate, nearest to the centre first. */
static void try_all(struct pipe *pipe, struct group *g, const struct interval *of)
{
    uint32_t distance;

    g->left = g->right = false;
    for (distance = 0; (!g->left || !g->right); distance++) {
        uint32_t side;

        g->left = g->left || g->center < of->low + distance;
        g->right = g->right || g->center + distance > of->high;
        for (side = 0; side < (distance == 0 ? 1u : 2u); side++) {
            uint32_t c = side == 0 ? g->center - distance : g->center + distance;

            if (!(side == 0 ? g->left : g->right) && is_candidate(pipe, of, c)) {
                try_cut(pipe, g, c);
            }
        }
    }
}

/* Tries middles, and goes on in the half towards which the longer side shrinks. */
static void bisect(struct pipe *pipe, struct group *g, const struct interval *of)
{
    struct interval rest = *of;

    while (rest.high > rest.low && rest.high - rest.low > 2 * NEAR) {
        uint32_t c = rest.low + (rest.high - rest.low) / 2;

        while (c < rest.high && !is_candidate(pipe, of, c)) {
            c++;
        }
        if (!is_candidate(pipe, of, c)) {
            rest.high = rest.low + (rest.high - rest.low) / 2; /* there is none in that half */
            continue;
        }
        try_cut(pipe, g, c);
        if (g->left_heavy) {
            rest.high = c - 1;
        } else {
            rest.low = c + 1;
        }
    }
    rest.low = least_of(rest.low, rest.high);
    g->center = rest.low + (rest.high - rest.low) / 2;
    rest.low = g->center > of->low + NEAR ? g->center - NEAR : of->low;
    rest.high = of->high - g->center > NEAR ? g->center + NEAR : of->high;
    try_all(pipe, g, &rest);
}

static void try_interval(struct pipe *pipe, struct group *g, const struct interval *of)
{
    if (of->high - of->low < WIDE) {
        try_all(pipe, g, of);
        return;
    }
    bisect(pipe, g, of);
}

/* Nothing fits inside: one position after the other on both sides, until one does. */
static void extend(struct pipe *pipe, struct group *g, struct interval of)
{
    struct interval all = {g->a + (g->mid - g->i + 1), g->b - (g->j - g->mid), -1, 1e300};

    if (g->fits || g->best != NS_NEVER) {
        return;
    }
    if (all.high - all.low >= WIDE) {
        bisect(pipe, g, &all);
        return;
    }
    g->left = g->right = false;
    while (!g->fits) {
        g->left = g->left || of.low <= all.low;
        g->right = g->right || of.high >= all.high;
        if (g->left && g->right) {
            break;
        }
        if (!g->left && pipe_admits(pipe, --of.low)) {
            try_cut(pipe, g, of.low);
        }
        if (!g->right && pipe_admits(pipe, ++of.high)) {
            try_cut(pipe, g, of.high);
        }
    }
}

static double volume_limit(const struct pipe *pipe, uint32_t low, uint32_t high)
{
    double factor = pipe->config->volume_factor, least = -1;
    uint32_t c;

    for (c = low; factor > 0 && c <= high; c++) {
        if (pipe_admits(pipe, c) && (least < 0 || pipe->ranges->cut_bytes[c] < least)) {
            least = pipe->ranges->cut_bytes[c];
        }
    }
    return factor > 0 && least >= 0 ? factor * least : 1e300;
}

static void solve_group(struct pipe *pipe, struct group *g)
{
    uint32_t least = g->a + (g->mid - g->i + 1), last = g->b - (g->j - g->mid), low, high;
    struct interval of = {.least_bytes = -1};
    struct pivots p = {0};

    pipe->n_groups++;
    call_go_on(pipe->problem->host);
    if (!pipe_pivots(pipe, g->i, g->j, g->a, g->b, &p)) {
        return;
    }
    g->center = p.compute;
    low = least_of(p.compute, least_of(p.memory, p.irreducible));
    high = p.compute > p.memory ? p.compute : p.memory;
    high = high > p.irreducible ? high : p.irreducible;
    of.low = low > least + pipe->margin ? low - pipe->margin : least;
    of.high = last - high > pipe->margin ? high + pipe->margin : last;
    of.most_bytes = volume_limit(pipe, of.low, of.high);
    try_interval(pipe, g, &of);
    if (of.most_bytes < 1e300 && g->best == NS_NEVER && !g->fits) {
        struct interval over = {of.low, of.high, of.most_bytes, 1e300};

        g->center = p.compute;
        try_interval(pipe, g, &over);
    }
    g->center = p.compute;
    extend(pipe, g, of);
}

static void remember(struct pipe *pipe, const struct group *g, uint64_t *ret_ns)
{
    struct solved *solved = part_map_put(&pipe->memo, key_of(pipe, g->i, g->j, g->a, g->b));

    *ret_ns = g->best != NS_NEVER ? g->best : g->fits || g->unknown ? NS_ABOVE : NS_NEVER;
    *solved = (struct solved){.ns = *ret_ns, .limit = g->limit, .cut = g->cut};
}

/* Recursion is as deep as halving the stages takes. */
static void solve(struct pipe *pipe, uint32_t i, uint32_t j, uint32_t a, uint32_t b, uint64_t limit,
                  uint64_t *ret_ns)
{
    struct group g = {.i = i, .j = j, .mid = (i + j) / 2, .a = a, .b = b, .limit = limit};
    const struct solved *known;

    if (i == j) {
        pipe_price(pipe, i, a, b, ret_ns);
        return;
    }
    known = part_map_find(&pipe->memo, key_of(pipe, i, j, a, b));
    if (known != NULL && (known->ns != NS_ABOVE || limit <= known->limit)) {
        *ret_ns = known->ns;
        return;
    }
    g.best = NS_NEVER;
    solve_group(pipe, &g);
    remember(pipe, &g, ret_ns);
}

static void read_cuts(const struct pipe *pipe, uint32_t i, uint32_t j, uint32_t a, uint32_t b,
                      uint32_t *ret_cuts)
{
    const struct solved *known;

    ret_cuts[i] = a;
    ret_cuts[j + 1] = b;
    if (i == j) {
        return;
    }
    known = part_map_find(&pipe->memo, key_of(pipe, i, j, a, b));
    read_cuts(pipe, i, (i + j) / 2, a, known->cut, ret_cuts);
    read_cuts(pipe, (i + j) / 2 + 1, j, known->cut, b, ret_cuts);
}

static void run_pass(struct pipe *pipe, uint32_t interval, uint32_t margin, struct found *found)
{
    uint64_t ns;

    pipe->interval = interval;
    pipe->margin = margin;
    part_map_clear(&pipe->memo);
    solve(pipe, 0, pipe->n_stages - 1, 0, pipe->n, NS_ABOVE, &ns);
    if (ns < found->ns && ns != NS_ABOVE) {
        found->ns = ns;
        read_cuts(pipe, 0, pipe->n_stages - 1, 0, pipe->n, found->cuts);
    }
}

/* Each pass on its own terms, so that the answer is never worse than any of them alone. */
void pipe_binary(struct pipe *pipe, struct found *found)
{
    uint32_t margin = (uint32_t)pipe->config->margin;

    run_pass(pipe, INTERVAL_PAPER, margin, found);
    if (pipe->config->interval == INTERVAL_PIVOT3) {
        run_pass(pipe, INTERVAL_PIVOT3, margin, found);
        if (margin > 0) {
            run_pass(pipe, INTERVAL_PAPER, 0, found);
        }
    }
}
