/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the job lists tensor degrees: contiguous stages of the model's order, each with a number of
 * replicas r and a degree t, on r t ranks from the next multiple of t on. Stages may be fewer than
 * ranks, and ranks may stay idle.
 *
 *     order   |  a b c  |  d e f g h  |  i j   |
 *     ranks   |    0    |   2 3 4 5   |  6 7   |      r, t: 1, 1; 2, 2; 1, 2; rank 1 is idle
 *
 * What counts is the step: every stage once, the longest one for each other micro-batch. Below a
 * limit for the longest one, the least sum over stages is found by dynamic programming over (stage,
 * position, rank), exactly. The limit comes down from the first that will do, each time to just
 * below the longest stage of the answer, until no lower one can give a shorter step.
 */
#include <math.h>

#include "answer.h"
#include "chain_dp.h"

#define MOST_CHOICES 64 /* of degrees for tied nodes that are searched one by one */
#define NO_LIMIT     (UINT64_MAX / 4)

/* What a stage may have. */
struct way {
    uint32_t replicas, tensor, width; /* width: ranks, the product */
    uint32_t at;                      /* in in->tensors */
    uint64_t *least_ns; /* [n + 1] time of the nodes before a position, whatever is replayed */
    uint32_t *others;   /* [n + 1] how many of these have another degree by now */
};

/* A stage in its row; stages of other rows may be one place, whose prices are the same. */
struct place {
    uint32_t stage, n_stages, in_flight, versions;
};

/* The best of all ways to go on from a position and a rank. */
struct cell {
    uint64_t sum_ns, bytes; /* of this stage and those after it; UINT64_MAX: there is no way */
    uint32_t way, end, round;
};

/* The rest of a row from a place on; rows that end alike share it. */
struct tail {
    uint32_t place, next, n_stages;
    struct cell *cells; /* [(n + 1) * (n_ranks + 1)] by first node and first rank that is free */
};

struct plan {
    uint32_t n, size, *first, *rank; /* [n] first node and rank of each stage */
    const struct way **way;
    uint64_t longest_ns, sum_ns, bytes;
    double step_ns; /* INFINITY: there is no plan */
};

struct ways {
    struct chain chain; /* whose prices are struct known */
    const struct part_problem *problem;
    const struct pst_ask *ask;
    struct part_asker asker; /* of the row that is being made */
    uint32_t *nodes;         /* [n] 0, 1, 2, ... */
    uint32_t n_ranks, n_ways, n_places, n_tails, n_rows, round;
    struct way *ways;
    struct place *places;
    struct tail *tails;
    uint32_t *rows;        /* each the tail that is all of it */
    double *weight;        /* [n + 1] bytes of parameters before a position */
    uint64_t *work;        /* [n + 1] least time times ranks of the nodes before a position */
    uint64_t least_sum_ns; /* of all stages */
    uint64_t least_ns;     /* of the longest stage */
    uint64_t limit_ns;
    bool *allowed; /* [n_tensors] degrees that divide each other, in this search */
    uint32_t *group, n_groups, *degree_of; /* [n] of tied nodes, else PST_NONE; [n_groups] */
    struct plan best, found;
};

/* --- prices ------------------------------------------------------------------------------------*/

/* Whatever rank a stage begins on. */
struct known {
    uint64_t period_ns, peak_bytes, sync_ns, in_bytes, out_bytes;
    bool fits, hopeless;
};

static struct pst_stage_question ask_about(const struct ways *w, const struct place *place,
                                           const struct way *way, uint32_t first, uint32_t end)
{
    call_go_on(w->chain.host);
    return (struct pst_stage_question){
        .size = sizeof(struct pst_stage_question),
        .nodes = w->nodes + first,
        .n_nodes = end - first,
        .stage = place->stage,
        .n_stages = place->n_stages,
        .microbatch_size = w->chain.microbatch_size,
        .n_ranks = way->replicas,
        .in_flight = place->in_flight,
        .weight_versions = place->versions,
        .capacity_bytes = w->chain.in->capacity_bytes,
        .tensor = way->tensor,
    };
}

static void ask_price(const struct ways *w, const struct place *place, const struct way *way,
                      uint32_t first, uint32_t end, struct pst_stage_price *ret_price)
{
    const struct pst_stage_question question = ask_about(w, place, way, first, end);

    *ret_price = (struct pst_stage_price){.size = sizeof *ret_price};
    call_check(w->ask->price(w->chain.host, &question, ret_price));
}

/* Sums of gradients over replicas, as though all parameters were divided. Those of all parts go by
   the link of a node at a time. */
static uint64_t sync_ns(const struct ways *w, const struct way *way, uint32_t first, uint32_t end)
{
    const struct part_problem *p = w->problem;
    const double rate = part_sync_rate(p, way->width);
    const bool far = p->figures.node_size > 0 && way->width > p->figures.node_size;
    const double bytes = (w->weight[end] - w->weight[first]) / (far ? 1 : way->tensor);

    return rate <= 0 ? 0
                     : (uint64_t)(2.0 * (way->replicas - 1) / way->replicas * bytes / rate * 1e9 *
                                      w->chain.microbatch_size / p->batch +
                                  0.5);
}

static const struct known *look_up(struct ways *w, uint32_t place, uint32_t way_, uint32_t first,
                                   uint32_t end)
{
    const uint64_t n = w->chain.n;
    const uint64_t key = (((uint64_t)place * w->n_ways + way_) * n + first) * (n + 1) + end;
    const struct way *way = &w->ways[way_];
    const uint32_t samples = w->chain.microbatch_size / way->replicas;
    struct known *known = part_map_find(&w->chain.prices, key);
    struct pst_stage_price price;
    struct range_price range;

    if (known != NULL) {
        return known;
    }
    ask_price(w, &w->places[place], way, first, end, &price);
    known = part_map_put(&w->chain.prices, key);
    *known = (struct known){.period_ns = price.period_ns,
                            .peak_bytes = price.peak_bytes,
                            .sync_ns = sync_ns(w, way, first, end),
                            .in_bytes = chain_incoming(&w->chain, first, end, samples),
                            .out_bytes = chain_outgoing(&w->chain, first, end, samples)};
    range = (struct range_price){.fits = price.fits != 0, .peak_bytes = price.peak_bytes};
    known->hopeless = chain_is_hopeless(&range, w->chain.in->capacity_bytes,
                                        known->in_bytes * w->places[place].in_flight);
    known->fits = range.fits && (w->chain.reach == NULL || w->chain.reach[first] < end);
    return known;
}

static uint32_t node_of(const struct ways *w, uint32_t rank)
{
    return pst_cluster_device_at(w->chain.in->cluster, rank)->node;
}

/* Between nodes all parts of a replica send at a time. */
static uint64_t link_ns(const struct ways *w, const struct way *way, uint64_t bytes, uint32_t from,
                        uint32_t to)
{
    const uint64_t n = node_of(w, from) != node_of(w, to) ? way->tensor : 1;

    return w->chain.cost->transfer_ns(w->chain.host, bytes * n, from, to);
}

/* Of the way's first rank `rank`. A neighbour is in another node unless all ranks are in its. */
static uint64_t cost_ns(const struct ways *w, const struct place *place, const struct way *way,
                        const struct known *known, uint32_t rank)
{
    struct range_price price = {.period_ns = known->period_ns, .sync_ns = known->sync_ns};

    if (place->stage > 0) {
        price.in_ns = link_ns(w, way, known->in_bytes, rank - 1, rank + way->width - 1);
    }
    if (place->stage + 1 < place->n_stages) {
        price.out_ns = link_ns(w, way, known->out_bytes, rank, rank + way->width);
    }
    return chain_cost(&price, w->chain.comm);
}

/* --- rows of stages ----------------------------------------------------------------------------*/

/* Beside counts there is what only the host knows, and a few ranges tell (part_asker_share). */
static bool are_alike(const struct ways *w, const struct place *a, const struct place *b)
{
    const uint32_t n = w->chain.n, ranges[][2] = {{0, n}, {0, (n + 1) / 2}, {n / 2, n}};
    bool alike = a->in_flight == b->in_flight && a->versions == b->versions &&
                 (a->stage == 0) == (b->stage == 0) &&
                 (a->stage + 1 == a->n_stages) == (b->stage + 1 == b->n_stages);

    for (size_t i = 0; alike && i < sizeof ranges / sizeof *ranges; i++) {
        struct pst_stage_price of_a, of_b;

        ask_price(w, a, &w->ways[0], ranges[i][0], ranges[i][1], &of_a);
        ask_price(w, b, &w->ways[0], ranges[i][0], ranges[i][1], &of_b);
        alike = of_a.fits == of_b.fits && of_a.period_ns == of_b.period_ns &&
                of_a.peak_bytes == of_b.peak_bytes;
    }
    return alike;
}

static uint32_t find_place(struct ways *w, const struct place *place)
{
    uint32_t i = 0;

    while (i < w->n_places && !are_alike(w, &w->places[i], place)) {
        i++;
    }
    w->places[i] = i == w->n_places ? *place : w->places[i];
    w->n_places += i == w->n_places;
    return i;
}

static uint32_t find_tail(struct ways *w, uint32_t place, uint32_t next, uint32_t n_stages)
{
    const size_t n_cells =
        w->places[place].stage == 0 ? 1 : (w->chain.n + (size_t)1) * (w->n_ranks + 1);
    uint32_t i = 0;

    while (i < w->n_tails && (w->tails[i].place != place || w->tails[i].next != next)) {
        i++;
    }
    if (i == w->n_tails) {
        w->tails[w->n_tails++] =
            (struct tail){place, next, n_stages, call_alloc(n_cells, sizeof *w->tails[i].cells)};
    }
    return i;
}

static void add_row(struct ways *w, uint32_t n_stages)
{
    const uint32_t m = w->problem->batch / w->chain.microbatch_size;
    struct pst_topology topology = {.size = sizeof topology};
    uint32_t tail = PST_NONE;

    call_check(w->ask->topology(w->chain.host, n_stages, &topology));
    if (m < topology.min_microbatches || m % topology.microbatch_multiple != 0) {
        return;
    }
    call_check(part_asker_init(w->problem, n_stages, w->chain.microbatch_size, 1, &w->asker));
    for (uint32_t s = n_stages; s-- > 0;) {
        const struct place place = {s, n_stages, w->asker.in_flight[s], w->asker.versions[s]};

        tail = find_tail(w, find_place(w, &place), tail, n_stages - s);
    }
    w->rows[w->n_rows++] = tail;
}

/* --- the search below a limit ------------------------------------------------------------------*/

static const struct cell *solve(struct ways *w, uint32_t tail_, uint32_t first, uint32_t rank);

/* A stage of nodes [first, end) from this rank on, and the best for the rest. */
static void consider(struct ways *w, const struct tail *tail, struct cell *cell, uint32_t way_,
                     const uint32_t range[2], uint32_t rank)
{
    const struct known known = *look_up(w, tail->place, way_, range[0], range[1]);
    static const struct cell none;
    const struct way *way = &w->ways[way_];
    const uint64_t ns = cost_ns(w, &w->places[tail->place], way, &known, rank);
    const struct cell *rest = &none;
    uint64_t sum_ns, bytes;

    if (!known.fits || ns > w->limit_ns) {
        return;
    }
    if (tail->next != PST_NONE) {
        rest = solve(w, tail->next, range[1], rank + way->width);
    }
    if (__builtin_add_overflow(rest->sum_ns, ns, &sum_ns)) {
        return;
    }
    bytes = rest->bytes + known.peak_bytes * way->width;
    if (sum_ns < cell->sum_ns || (sum_ns == cell->sum_ns && bytes < cell->bytes)) {
        *cell = (struct cell){sum_ns, bytes, way_, range[1], w->round};
    }
}

static void try_way(struct ways *w, const struct tail *tail, struct cell *cell, uint32_t way_,
                    uint32_t first, uint32_t free_rank)
{
    const struct way *way = &w->ways[way_];
    const uint32_t n = w->chain.n, left = tail->n_stages - 1;
    const uint32_t rank = (free_rank + way->tensor - 1) / way->tensor * way->tensor;
    const uint64_t after = (uint64_t)rank + way->width;

    if (!w->allowed[way->at] || after + left > w->n_ranks) {
        return;
    }
    for (uint32_t i = 0; i < way->width; i += way->tensor) {
        if (node_of(w, rank + i) != node_of(w, rank + i + way->tensor - 1)) {
            return;
        }
    }
    for (uint32_t end = left == 0 ? n : first + 1; end + left <= n; end++) {
        const uint64_t rest = w->work[n] - w->work[end], n_rest = w->n_ranks - after;

        if (way->least_ns[end] - way->least_ns[first] > w->limit_ns ||
            way->others[end] > way->others[first]) {
            return;
        }
        if (end < n && rest / n_rest > w->limit_ns) {
            continue;
        }
        if (look_up(w, tail->place, way_, first, end)->hopeless) {
            return;
        }
        consider(w, tail, cell, way_, (const uint32_t[]){first, end}, rank);
    }
}

static const struct cell *solve(struct ways *w, uint32_t tail_, uint32_t first, uint32_t rank)
{
    const struct tail *tail = &w->tails[tail_];
    struct cell *cell = &tail->cells[first * ((size_t)w->n_ranks + 1) + rank];

    if (cell->round != w->round) {
        *cell = (struct cell){.sum_ns = UINT64_MAX, .bytes = UINT64_MAX, .round = w->round};
        for (uint32_t i = 0; i < w->n_ways; i++) {
            try_way(w, tail, cell, i, first, rank);
        }
    }
    return cell;
}

static double step_ns(const struct ways *w, uint64_t longest_ns, uint64_t sum_ns)
{
    return part_chain_score(w->problem, w->chain.microbatch_size, (double)longest_ns,
                            (double)sum_ns);
}

static void trace(struct ways *w, uint32_t tail_, struct plan *plan)
{
    uint32_t first = 0, rank = 0;

    plan->n = 0;
    plan->size = w->chain.microbatch_size;
    plan->longest_ns = 0;
    for (uint32_t at = tail_; at != PST_NONE; at = w->tails[at].next) {
        const struct tail *tail = &w->tails[at];
        const struct cell *cell = solve(w, at, first, rank);
        const struct way *way = &w->ways[cell->way];
        uint64_t ns;

        rank = (rank + way->tensor - 1) / way->tensor * way->tensor;
        ns = cost_ns(w, &w->places[tail->place], way,
                     look_up(w, tail->place, cell->way, first, cell->end), rank);
        plan->longest_ns = ns > plan->longest_ns ? ns : plan->longest_ns;
        plan->first[plan->n] = first;
        plan->rank[plan->n] = rank;
        plan->way[plan->n++] = way;
        first = cell->end;
        rank += way->width;
    }
}

/* Fills w->found with the least sum of all rows. */
static void search_below(struct ways *w, uint64_t limit_ns, bool *ret_found)
{
    const struct cell *best = NULL;
    uint32_t row = 0;

    w->limit_ns = limit_ns;
    w->round++;
    for (uint32_t i = 0; i < w->n_rows; i++) {
        const struct cell *cell = solve(w, w->rows[i], 0, 0);

        if (cell->sum_ns != UINT64_MAX &&
            (best == NULL || cell->sum_ns < best->sum_ns ||
             (cell->sum_ns == best->sum_ns && cell->bytes < best->bytes))) {
            best = cell;
            row = w->rows[i];
        }
    }
    *ret_found = best != NULL;
    if (best != NULL) {
        trace(w, row, &w->found);
        w->found.sum_ns = best->sum_ns;
        w->found.bytes = best->bytes;
        w->found.step_ns = step_ns(w, w->found.longest_ns, best->sum_ns);
    }
}

/* --- limits ------------------------------------------------------------------------------------*/

static void keep_better(struct ways *w)
{
    if (w->found.step_ns < w->best.step_ns ||
        (w->found.step_ns == w->best.step_ns && w->found.bytes < w->best.bytes)) {
        const struct plan best = w->best;

        w->best = w->found;
        w->found = best;
    }
}

/* A step no longer than the best has no longer stage: other micro-batches wait for it, and all
   stages together take no less than it, nor less than the least sum. */
static uint64_t limit_of_best(const struct ways *w)
{
    const double m = (double)w->problem->batch / w->chain.microbatch_size;
    const double rest = m > 1 ? (w->best.step_ns - (double)w->least_sum_ns) / (m - 1) : INFINITY;

    return (uint64_t)fmin(fmin(w->best.step_ns / m, rest) + 1, NO_LIMIT);
}

/* The first limit that will do; strides double, so that it is found without pricing wide ranges. */
static void find_first(struct ways *w, bool *ret_found)
{
    uint64_t limit = w->least_ns, step = limit / 64 + 1;

    search_below(w, limit, ret_found);
    while (!*ret_found && limit < NO_LIMIT) {
        limit = limit + step < NO_LIMIT ? limit + step : NO_LIMIT;
        step *= 2;
        search_below(w, limit, ret_found);
    }
}

/* With the degrees that tied nodes have now. */
static void improve(struct ways *w)
{
    bool found;

    for (uint32_t i = 0; i < w->n_ways; i++) {
        struct way *way = &w->ways[i];

        for (uint32_t v = 0; v < w->chain.n; v++) {
            way->others[v + 1] =
                way->others[v] + (w->group[v] != PST_NONE && w->degree_of[w->group[v]] != way->at);
        }
    }
    if (isinf(w->best.step_ns)) {
        find_first(w, &found);
    } else {
        search_below(w, limit_of_best(w), &found);
    }
    while (found) {
        const uint64_t longest_ns = w->found.longest_ns;
        const bool is_last = longest_ns <= w->least_ns ||
                             step_ns(w, w->least_ns, w->found.sum_ns) >= w->best.step_ns;

        keep_better(w);
        if (is_last) {
            break; /* lower limits only make sums larger */
        }
        search_below(w, limit_of_best(w) < longest_ns ? limit_of_best(w) : longest_ns - 1, &found);
    }
}

/* Every choice of degrees for groups of tied nodes from `group` on. */
static void choose_tied(struct ways *w, uint32_t group)
{
    for (uint32_t i = 0; group < w->n_groups && i < w->chain.in->n_tensors; i++) {
        if (w->allowed[i]) {
            w->degree_of[group] = i;
            choose_tied(w, group + 1);
        }
    }
    if (group == w->n_groups) {
        improve(w);
    }
}

/* Does one degree go before the other in a row of divisors, with none between them? */
static bool precedes(const struct pst_partition_in *in, uint32_t before, uint32_t after)
{
    const uint32_t a = in->tensors[before], b = in->tensors[after];
    bool next = a < b && b % a == 0;

    for (uint32_t i = 0; next && i < in->n_tensors; i++) {
        const uint32_t c = in->tensors[i];

        next = c == a || c == b || c % a != 0 || b % c != 0;
    }
    return next;
}

/* Stages that feed each other need degrees of which one divides the other: every longest row of
   divisors is searched. last: the degree that it has reached. */
static void choose_degrees(struct ways *w, uint32_t last)
{
    const struct pst_partition_in *in = w->chain.in;
    bool ends = last != PST_NONE;

    for (uint32_t i = 0; i < in->n_tensors; i++) {
        bool next = last == PST_NONE || precedes(in, last, i);

        for (uint32_t k = 0; last == PST_NONE && k < in->n_tensors; k++) {
            next = next && !precedes(in, k, i);
        }
        if (next) {
            w->allowed[i] = true;
            choose_degrees(w, i);
            w->allowed[i] = false;
            ends = false;
        }
    }
    if (ends) {
        choose_tied(w, 0);
    }
}

/* --- a size of micro-batches -------------------------------------------------------------------*/

/* Sets least_ns; false: the model cannot be shared by so many. Without a limit of memory no bound
   is more than the sum of times, so bounds of nodes add up. */
static void bound_nodes(const struct ways *w, struct way *way, bool *ret_possible)
{
    const struct place alone = {0, 1, 1, 1};

    *ret_possible = true;
    CALL_TAKE(way->least_ns, (size_t)w->chain.n + 1);
    CALL_TAKE(way->others, (size_t)w->chain.n + 1);
    for (uint32_t v = 0; *ret_possible && v < w->chain.n; v++) {
        struct pst_stage_question question = ask_about(w, &alone, way, v, v + 1);
        uint64_t ns = 0;

        question.capacity_bytes = UINT64_MAX;
        call_check(w->ask->bound(w->chain.host, &question, &ns));
        *ret_possible = ns < NO_LIMIT;
        way->least_ns[v + 1] = way->least_ns[v] + ns;
    }
}

static void list_ways(struct ways *w)
{
    const struct pst_partition_in *in = w->chain.in;

    CALL_TAKE(w->ways, (size_t)in->n_tensors * in->n_degrees);
    for (uint32_t t = 0; t < in->n_tensors; t++) {
        for (uint32_t r = 0; r < in->n_degrees; r++) {
            const uint64_t width = (uint64_t)in->degrees[r] * in->tensors[t];
            struct way *way = &w->ways[w->n_ways];
            bool possible = w->chain.microbatch_size % in->degrees[r] == 0 && width <= w->n_ranks;

            if (possible) {
                *way = (struct way){in->degrees[r], in->tensors[t], (uint32_t)width, t, NULL, NULL};
                bound_nodes(w, way, &possible);
            }
            w->n_ways += possible;
        }
    }
}

/* What no plan goes below. */
static void find_least(struct ways *w)
{
    CALL_TAKE(w->work, (size_t)w->chain.n + 1);
    CALL_TAKE(w->weight, (size_t)w->chain.n + 1);
    for (uint32_t v = 0; v < w->chain.n; v++) {
        uint64_t least = UINT64_MAX, work = UINT64_MAX;

        for (uint32_t i = 0; i < w->n_ways; i++) {
            const struct way *way = &w->ways[i];
            const uint64_t ns = way->least_ns[v + 1] - way->least_ns[v];

            least = ns < least ? ns : least;
            work = ns * way->width < work ? ns * way->width : work;
        }
        w->least_sum_ns += least;
        w->least_ns = least > w->least_ns ? least : w->least_ns;
        w->work[v + 1] = w->work[v] + work;
        w->weight[v + 1] = w->weight[v] + w->problem->weight_bytes[v];
    }
    w->least_ns = w->work[w->chain.n] / w->n_ranks > w->least_ns ? w->work[w->chain.n] / w->n_ranks
                                                                 : w->least_ns;
}

static void find_groups(struct ways *w)
{
    const struct pst_partition_in *in = w->chain.in;
    const uint32_t n = w->chain.n, n_tied = PST_HAS(in, tied) ? in->n_tied : 0;
    double choices = 1;

    CALL_TAKE(w->group, n);
    CALL_TAKE(w->degree_of, n);
    for (uint32_t v = 0; v < n; v++) {
        w->group[v] = PST_NONE;
        if (v < n_tied && in->tied[v] < v) {
            uint32_t *first = &w->group[in->tied[v]];

            choices *= *first == PST_NONE ? in->n_tensors : 1;
            *first = *first == PST_NONE ? w->n_groups++ : *first;
            w->group[v] = *first;
        }
    }
    for (uint32_t v = 0; choices > MOST_CHOICES && v < n; v++) {
        w->group[v] = w->group[v] == PST_NONE ? PST_NONE : 0;
    }
    if (choices > MOST_CHOICES) {
        w->n_groups = 1;
        part_remark_text(w->problem, "tied", "all operators that share parameters got one degree");
    }
}

static void init_plan(struct plan *plan, uint32_t most)
{
    plan->step_ns = INFINITY;
    CALL_TAKE(plan->first, most);
    CALL_TAKE(plan->rank, most);
    CALL_TAKE(plan->way, most);
}

/* best: of other sizes, or NULL. */
static void begin(struct ways *w, const struct part_problem *problem, uint32_t comm, bool chain,
                  uint32_t size, const struct plan *best)
{
    const struct pst_host *host = problem->host;
    const uint32_t n = problem->n;
    const uint32_t most = n < problem->in->n_devices ? n : problem->in->n_devices;
    const size_t n_places = ((size_t)most + 1) * most / 2;

    *w = (struct ways){.chain = {.host = host,
                                 .cost = host->get_extension(host, PST_COST),
                                 .in = problem->in,
                                 .comm = comm,
                                 .n = n,
                                 .microbatch_size = size,
                                 .prices = {.value_size = sizeof(struct known)}},
                       .problem = problem,
                       .ask = host->get_extension(host, PST_ASK),
                       .n_ranks = problem->in->n_devices};
    CALL_TAKE(w->chain.stamps, n);
    CALL_TAKE(w->allowed, problem->in->n_tensors);
    CALL_TAKE(w->places, n_places);
    CALL_TAKE(w->tails, n_places);
    CALL_TAKE(w->rows, most);
    CALL_TAKE(w->nodes, n);
    for (uint32_t v = 0; v < n; v++) {
        w->nodes[v] = v;
    }
    init_plan(&w->found, most);
    if (best == NULL) {
        init_plan(&w->best, most);
    } else {
        w->best = *best;
    }
    if (chain) {
        chain_find_reach(&w->chain);
    }
}

static void search_size(struct ways *w)
{
    list_ways(w);
    find_least(w);
    find_groups(w);
    for (uint32_t n = 1; n <= w->chain.n && n <= w->n_ranks && w->n_ways > 0; n++) {
        add_row(w, n);
    }
    choose_degrees(w, PST_NONE);
}

/* --- the answer --------------------------------------------------------------------------------*/

/* The node that needs most, however it is shared, alone on a device, with one micro-batch. */
static pst_status explain(const struct ways *w)
{
    const struct place alone = {0, 1, 1, 1};
    const struct pst_host *host = w->chain.host;
    uint64_t most = 0;
    uint32_t at = 0;
    char needs[64], has[64];

    if (w->n_rows == 0) {
        return pst_failf(host, PST_ERR_INFEASIBLE,
                         "at micro-batch size %u no number of replicas, or no number of stages, is "
                         "possible on %u devices",
                         w->chain.microbatch_size, w->n_ranks);
    }
    for (uint32_t v = 0; v < w->chain.n; v++) {
        uint64_t least = UINT64_MAX;

        for (uint32_t i = 0; i < w->n_ways; i++) {
            struct pst_stage_price price;

            ask_price(w, &alone, &w->ways[i], v, v + 1, &price);
            least = price.peak_bytes < least ? price.peak_bytes : least;
        }
        at = least > most ? v : at;
        most = least > most ? least : most;
    }
    return pst_failf(host, PST_ERR_INFEASIBLE,
                     "no stages on %u devices fit at micro-batch size %u, whatever their tensor "
                     "degrees%s: node \"%s\" alone is charged %s, a device has %s",
                     w->n_ranks, w->chain.microbatch_size,
                     w->chain.reach == NULL ? "" : " (chain = true)",
                     part_node_name(w->problem, at), part_size_text(needs, most),
                     part_size_text(has, w->chain.in->capacity_bytes));
}

static void answer(const struct ways *w, struct pst_partition_out *out)
{
    const struct plan *plan = &w->best;
    uint32_t *ranks;

    CALL_TAKE(ranks, w->n_ranks);
    for (uint32_t r = 0; r < w->n_ranks; r++) {
        ranks[r] = r;
    }
    for (uint32_t s = 0; s < plan->n; s++) {
        const uint32_t end = s + 1 < plan->n ? plan->first[s + 1] : w->chain.n;
        const struct pst_stage_decl stage = {.size = sizeof stage,
                                             .nodes = w->nodes + plan->first[s],
                                             .n_nodes = end - plan->first[s],
                                             .ranks = ranks + plan->rank[s],
                                             .n_ranks = plan->way[s]->width,
                                             .microbatch_size = plan->size,
                                             .k = 1,
                                             .tensor = plan->way[s]->tensor};

        call_check(out->stage(out, &stage));
    }
}

/* Prices of a degree are those of a part on any device. */
static pst_status check_devices(const struct pst_host *host, const struct pst_cluster_view *cluster)
{
    for (uint32_t i = 1; i < cluster->n_devices; i++) {
        if (pst_cluster_kind_at(cluster, i) != pst_cluster_kind_at(cluster, 0)) {
            return pst_failf(host, PST_ERR_UNSUPPORTED,
                             "a tensor degree for each stage needs equal devices, but those of "
                             "[[cluster.device]] differ; set parallel.tensor to one number");
        }
    }
    return PST_OK;
}

pst_status chain_by_ways(const struct pst_host *host, const struct pst_partition_in *in,
                         uint32_t comm, bool chain, uint32_t size, struct pst_partition_out *out)
{
    struct part_problem problem;
    struct ways *w = NULL;
    pst_status status = check_devices(host, in->cluster);

    if (status != PST_OK) {
        return status;
    }
    part_problem_read(host, in, &problem);
    for (uint32_t i = 0; i < in->n_micro_batches; i++) {
        if (size == 0 || in->micro_batches[i] == size) {
            const struct plan *best = w == NULL ? NULL : &w->best;

            CALL_TAKE(w, 1);
            begin(w, &problem, comm, chain, in->micro_batches[i], best);
            search_size(w);
        }
    }
    if (isinf(w->best.step_ns)) {
        return explain(w);
    }
    answer(w, out);
    return PST_OK;
}
