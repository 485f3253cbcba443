/* SPDX-License-Identifier: Apache-2.0
 *
 * What a range costs as a stage with replicas and a tensor degree, and which stages of which rows
 * cost the same.
 */
#include "ways.h"

/* --- prices ------------------------------------------------------------------------------------*/

struct pst_stage_question ways_question(const struct ways *w, const struct place *place,
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

void ways_ask(const struct ways *w, const struct place *place, const struct way *way,
              uint32_t first, uint32_t end, struct pst_stage_price *ret_price)
{
    const struct pst_stage_question question = ways_question(w, place, way, first, end);

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

const struct known *ways_price(struct ways *w, uint32_t place, uint32_t way_, uint32_t first,
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
    ways_ask(w, &w->places[place], way, first, end, &price);
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

uint32_t ways_node(const struct ways *w, uint32_t rank)
{
    return pst_cluster_device_at(w->chain.in->cluster, rank)->node;
}

/* Between nodes all parts of a replica send at a time. */
static uint64_t link_ns(const struct ways *w, const struct way *way, uint64_t bytes, uint32_t from,
                        uint32_t to)
{
    const uint64_t n = ways_node(w, from) != ways_node(w, to) ? way->tensor : 1;

    return w->chain.cost->transfer_ns(w->chain.host, bytes * n, from, to);
}

/* A neighbour is in another node unless all ranks of the stage are in that of the neighbour. */
uint64_t ways_cost(const struct ways *w, const struct place *place, const struct way *way,
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

        ways_ask(w, a, &w->ways[0], ranges[i][0], ranges[i][1], &of_a);
        ways_ask(w, b, &w->ways[0], ranges[i][0], ranges[i][1], &of_b);
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

void ways_add_row(struct ways *w, uint32_t n_stages)
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
