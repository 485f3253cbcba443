/* SPDX-License-Identifier: Apache-2.0 */
#include "mem_plugin.h"
#include "methods.h"

#define NEVER UINT64_MAX

/* Least replay time from a state on; states are (next node, units kept so far), the node before it
   kept. */
struct cell {
    uint64_t ns;
    uint32_t from, end; /* of the state it came from: position; after the run dropped there */
};

struct chain {
    const struct mem_costs *c;
    int64_t unit, left; /* left: bytes for the active micro-batch */
    int64_t *units;     /* [n] */
    uint32_t total, row;
    struct cell *cells; /* [n + 1][row] */
};

bool oracle_is_chain(const struct mem_costs *costs)
{
    uint32_t v;

    for (v = 0; v < costs->n; v++) {
        if ((costs->may[v] & MEM_MAY_OFFLOAD) != 0 || costs->results[v] > 0) {
            return false;
        }
    }
    return costs->chain;
}

/* Units of all nodes, few enough. */
static void count_units(struct chain *k, uint32_t quanta)
{
    const struct mem_costs *c = k->c;
    int64_t common = 0, sum;
    uint32_t v;

    for (v = 0; v < c->n; v++) {
        common = (int64_t)mem_divisor((uint64_t)common, (uint64_t)c->bytes[v]);
    }
    common = common > 0 ? common : 1;
    for (k->unit = common;; k->unit *= 2) {
        sum = 0;
        for (v = 0; v < c->n; v++) {
            k->units[v] = (c->bytes[v] + k->unit - 1) / k->unit;
            sum += k->units[v];
        }
        if (sum <= quanta || k->unit > c->sum[c->n]) {
            break;
        }
    }
    k->total = (uint32_t)sum;
}

static struct cell *cell_at(const struct chain *k, uint32_t v, int64_t units)
{
    return &k->cells[(size_t)v * k->row + (size_t)units];
}

static void offer(struct chain *k, uint32_t v, int64_t units, struct cell cell)
{
    struct cell *to = cell_at(k, v, units);

    if (cell.ns < to->ns) {
        *to = cell;
    }
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Node v is kept after the run first..v-1 (none if first == v), `kept` bytes before that. */
static void keep_behind(struct chain *k, uint32_t first, uint32_t v, int64_t units, uint64_t ns,
                        int64_t replays)
{
    const struct mem_costs *c = k->c;
    int64_t base = units * k->unit + c->bytes[v];
    bool read = first < v && c->last[v - 1] >= v; /* the run comes back before v's backward */
    int64_t forward = base + c->forward_work[v] + (read ? c->bytes[v - 1] : 0);
    int64_t backward = base + c->backward_work[v] + (read ? c->sum[v] - c->sum[first] : 0);

    if ((c->may[v] & MEM_MAY_KEEP) == 0 || forward > k->left || backward > k->left ||
        (first < v && units * k->unit + (read ? c->bytes[v] : 0) + replays > k->left)) {
        return;
    }
    offer(k, v + 1, units + k->units[v], (struct cell){ns, first, v});
}

/* All runs that begin at v, and none. */
static void extend(struct chain *k, uint32_t v, int64_t units, uint64_t ns)
{
    const struct mem_costs *c = k->c;
    int64_t kept = units * k->unit, needs, replays = 0;
    uint32_t u;

    keep_behind(k, v, v, units, ns, 0);
    for (u = v; u < c->n && (c->may[u] & MEM_MAY_RECOMPUTE) != 0; u++) {
        int64_t run = c->sum[u + 1] - c->sum[v];
        bool read = u > v && c->last[u - 1] >= u;

        needs = most(c->bytes[u] + c->forward_work[u] + (read ? c->bytes[u - 1] : 0),
                     run + c->backward_work[u]);
        replays = most(replays, run + c->forward_work[u]);
        ns += c->forward_ns[u];
        if (kept + most(needs, replays) > k->left) {
            break;
        }
        if (u + 1 == c->n) {
            offer(k, c->n, units, (struct cell){ns, v, c->n});
        } else {
            keep_behind(k, v, u + 1, units, ns, replays);
        }
    }
}

/* Nothing is known of any cell. */
static void forget(struct chain *k)
{
    for (uint32_t v = 0; v <= k->c->n; v++) {
        call_go_on(k->c->host);
        for (size_t i = 0; i < k->row; i++) {
            cell_at(k, v, 0)[i].ns = NEVER;
        }
    }
}

/* Least time of replays if so many units are kept in all. */
static uint64_t solve(struct mem_oracle *o, struct chain *k, uint32_t units)
{
    const struct mem_costs *c = k->c;
    uint64_t parked = c->fixed + (c->held - 1) * (uint64_t)units * (uint64_t)k->unit;
    uint32_t v, p;

    if (parked > c->capacity) {
        return NEVER;
    }
    k->left =
        c->capacity - parked > INT64_MAX / 4 ? INT64_MAX / 4 : (int64_t)(c->capacity - parked);
    forget(k);
    cell_at(k, 0, 0)->ns = 0;
    for (v = 0; v < c->n && !o->stopped; v++) {
        for (p = 0; p <= units; p++) {
            uint64_t ns = cell_at(k, v, p)->ns;

            if (ns != NEVER && c->total_ns + ns < o->score.period_ns && mem_oracle_step(o)) {
                extend(k, v, p, ns);
            }
        }
    }
    return cell_at(k, c->n, units)->ns;
}

/* The plan of the cells, backwards, into the tally. */
static void read_plan(struct mem_oracle *o, const struct chain *k, uint32_t units)
{
    const struct mem_costs *c = k->c;
    uint32_t v = c->n, u;
    int64_t p = units;

    while (v > 0) {
        const struct cell *cell = cell_at(k, v, p);
        uint32_t from = cell->from, end = cell->end;

        for (u = from; u < end; u++) {
            mem_tally_set(o->tally, u, PST_ACTION_RECOMPUTE);
        }
        if (end < v) {
            mem_tally_set(o->tally, end, PST_ACTION_KEEP);
            p -= k->units[end];
        }
        v = from;
    }
    mem_oracle_note(o);
}

/* Tries every number of units kept, from the top: the more is kept, the less is replayed. */
static void solve_all(struct mem_oracle *o, struct chain *k)
{
    uint32_t units;

    for (units = k->total + 1; units-- > 0 && !o->stopped;) {
        uint64_t ns = solve(o, k, units);

        if (ns != NEVER && k->c->total_ns + ns < o->score.period_ns) {
            read_plan(o, k, units);
        }
    }
}

void oracle_chain(struct mem_oracle *oracle, uint32_t quanta)
{
    struct chain k = {.c = oracle->costs};

    CALL_TAKE(k.units, k.c->n);
    count_units(&k, quanta);
    k.row = k.total + 1;
    CALL_TAKE(k.cells, ((size_t)k.c->n + 1) * k.row);
    solve_all(oracle, &k);
}
