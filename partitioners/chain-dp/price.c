/* SPDX-License-Identifier: Apache-2.0 */
#include "chain_dp.h"

static uint64_t edge_bytes(const struct pst_edge *edge, uint32_t samples)
{
    return edge->batched ? edge->bytes * samples : edge->bytes;
}

uint64_t chain_incoming(struct chain *chain, uint32_t first, uint32_t end, uint32_t samples)
{
    const struct pst_graph_view *graph = chain->in->graph;
    uint64_t sum = 0;
    uint32_t v, i;

    chain->stamp++;
    for (v = first; v < end; v++) {
        const struct pst_node *node = pst_graph_node(graph, v);

        for (i = 0; i < node->n_in; i++) {
            const struct pst_edge *edge =
                pst_graph_edge(graph, graph->in_edges[node->first_in + i]);

            if (edge->from < first && chain->stamps[edge->from] != chain->stamp) {
                chain->stamps[edge->from] = chain->stamp;
                sum += edge_bytes(edge, samples);
            }
        }
    }
    return sum;
}

uint64_t chain_outgoing(const struct chain *chain, uint32_t first, uint32_t end, uint32_t samples)
{
    const struct pst_graph_view *graph = chain->in->graph;
    uint64_t sum = 0;
    uint32_t v, i;

    for (v = first; v < end; v++) {
        const struct pst_node *node = pst_graph_node(graph, v);
        uint64_t most = 0;

        for (i = 0; i < node->n_out; i++) {
            const struct pst_edge *edge =
                pst_graph_edge(graph, graph->out_edges[node->first_out + i]);

            if (edge->to >= end && edge_bytes(edge, samples) > most) {
                most = edge_bytes(edge, samples);
            }
        }
        sum += most;
    }
    return sum;
}

bool chain_is_hopeless(const struct range_price *price, uint64_t capacity, uint64_t input)
{
    return !price->fits && price->peak_bytes > input && (price->peak_bytes - input) / 2 > capacity;
}

static void add_transfers(struct chain *chain, uint32_t stage, uint32_t first, uint32_t end,
                          struct range_price *price)
{
    const uint32_t size = chain->microbatch_size;

    if (stage > 0) {
        price->in_ns = chain->cost->transfer_ns(
            chain->host, chain_incoming(chain, first, end, size), stage - 1, stage);
    }
    if (stage + 1 < chain->n_stages) {
        price->out_ns = chain->cost->transfer_ns(
            chain->host, chain_outgoing(chain, first, end, size), stage, stage + 1);
    }
}

uint64_t chain_cost(const struct range_price *price, uint32_t comm)
{
    const uint64_t link_ns = price->in_ns > price->out_ns ? price->in_ns : price->out_ns;
    uint64_t most_ns = price->period_ns;

    switch (comm) {
    case COMM_SUM:
        return price->period_ns + 2 * (price->in_ns + price->out_ns) + price->sync_ns;
    case COMM_MAX:
        most_ns = link_ns > most_ns ? link_ns : most_ns;
        return price->sync_ns > most_ns ? price->sync_ns : most_ns;
    default:
        return price->period_ns + price->sync_ns;
    }
}

void chain_price(struct chain *chain, uint32_t stage, uint32_t first, uint32_t end,
                 struct range_price *ret_price)
{
    uint64_t key = ((uint64_t)stage * chain->n + first) * chain->n + end; /* end is 1..n: never 0 */
    const struct range_price *known = part_map_find(&chain->prices, key);
    struct pst_stage_price price;

    if (known != NULL) {
        *ret_price = *known;
    } else {
        *ret_price = (struct range_price){0};
        part_asker_price(&chain->asker, stage, first, end, &price);
        ret_price->fits = price.fits != 0;
        ret_price->peak_bytes = price.peak_bytes;
        ret_price->period_ns = price.period_ns;
        ret_price->hopeless =
            !price.fits &&
            chain_is_hopeless(ret_price, part_capacity(chain->in, stage),
                              chain_incoming(chain, first, end, chain->microbatch_size) *
                                  chain->asker.in_flight[stage]);
        ret_price->skipped = chain->reach != NULL && chain->reach[first] >= end;
        ret_price->fits = ret_price->fits && !ret_price->skipped;
        add_transfers(chain, stage, first, end, ret_price);
        *(struct range_price *)part_map_put(&chain->prices, key) = *ret_price;
    }
    ret_price->cost_ns = chain_cost(ret_price, chain->comm);
}
