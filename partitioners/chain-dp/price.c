/* SPDX-License-Identifier: Apache-2.0 */
#include "chain_dp.h"

static uint64_t edge_bytes(const struct chain *chain, const struct pst_edge *edge)
{
    return edge->batched ? edge->bytes * chain->microbatch_size : edge->bytes;
}

/* Bytes that stage [first, end) receives for one micro-batch: every source once. */
static uint64_t incoming(struct chain *chain, uint32_t first, uint32_t end)
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
                sum += edge_bytes(chain, edge);
            }
        }
    }
    return sum;
}

/* Bytes that stage [first, end) sends for one micro-batch: every output read later, once. */
static uint64_t outgoing(const struct chain *chain, uint32_t first, uint32_t end)
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

            if (edge->to >= end && edge_bytes(chain, edge) > most) {
                most = edge_bytes(chain, edge);
            }
        }
        sum += most;
    }
    return sum;
}

/*
 * More nodes need more memory, but for two things: the input of a range may shrink when it takes in
 * the producer, and a memory optimizer may find better borders. So the input does not count here,
 * and the rest must be twice what there is before larger ranges are given up unasked.
 */
static bool is_hopeless(struct chain *chain, uint32_t stage, uint32_t first, uint32_t end,
                        const struct range_price *price)
{
    uint64_t capacity = part_capacity(chain->in, stage), input;

    if (price->fits || price->peak_bytes / 2 <= capacity) {
        return false;
    }
    input = incoming(chain, first, end) * chain->asker.in_flight[stage];
    return price->peak_bytes > input && (price->peak_bytes - input) / 2 > capacity;
}

static void add_transfers(struct chain *chain, uint32_t stage, uint32_t first, uint32_t end,
                          struct range_price *price)
{
    if (stage > 0) {
        price->in_ns =
            chain->cost->transfer_ns(chain->host, incoming(chain, first, end), stage - 1, stage);
    }
    if (stage + 1 < chain->n_stages) {
        price->out_ns =
            chain->cost->transfer_ns(chain->host, outgoing(chain, first, end), stage, stage + 1);
    }
}

static uint64_t cost_of(const struct range_price *price, uint32_t comm)
{
    uint64_t link_ns = price->in_ns > price->out_ns ? price->in_ns : price->out_ns;

    switch (comm) {
    case COMM_SUM:
        return price->period_ns + 2 * (price->in_ns + price->out_ns);
    case COMM_MAX:
        return price->period_ns > link_ns ? price->period_ns : link_ns;
    default:
        return price->period_ns;
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
        ret_price->hopeless = is_hopeless(chain, stage, first, end, ret_price);
        ret_price->skipped = chain->reach != NULL && chain->reach[first] >= end;
        ret_price->fits = ret_price->fits && !ret_price->skipped;
        add_transfers(chain, stage, first, end, ret_price);
        *(struct range_price *)part_map_put(&chain->prices, key) = *ret_price;
    }
    ret_price->cost_ns = cost_of(ret_price, chain->comm);
}
