/* SPDX-License-Identifier: Apache-2.0
 *
 * A stage as a chain of layers.
 */
#include "chain.h"

#include <string.h>

/* A list of replays decides about what the host presets, too. Does it run again and leave again
 * what it leaves? Others keep it, whatever is planned. */
static bool is_free(const struct pst_stage_node *node)
{
    return (node->action == PST_ACTION_KEEP || (node->flags & PST_NODE_PRESET) != 0) &&
           (node->flags & PST_NODE_NO_RECOMPUTE) == 0;
}

static bool saves_output(const struct pst_stage_view *view, uint32_t v)
{
    return !pst_stage_node_has_output(view) || pst_stage_node_at(view, v)->output_saved != 0;
}

/* Bytes of the result, unless they are part of the saved bytes. */
static uint64_t loose_output(const struct pst_stage_view *view, uint32_t v)
{
    return saves_output(view, v) ? 0 : pst_stage_node_output(view, v);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Are all sums that are made of the stage's bytes and times far below 2^64? */
static bool is_sane(const struct pst_stage_view *view)
{
    double bytes = (double)view->input_bytes + (double)view->static_bytes, ns = 0;

    for (uint32_t v = 0; v < view->n_nodes; v++) {
        const struct pst_stage_node *node = pst_stage_node_at(view, v);

        bytes += (double)node->saved_bytes + 2.0 * (double)pst_stage_node_output(view, v);
        bytes += (double)node->forward_work_bytes + (double)node->backward_work_bytes;
        ns += (double)node->forward_ns + (double)node->backward_ns;
    }
    return view->n_nodes > 0 && bytes * ((double)view->in_flight + 2) < 0x1p61 &&
           ns * (ROTOR_MOST_LAYERS + 2.0) < 0x1p61;
}

/* --- a layer -----------------------------------------------------------------------------------*/

static void measure_forward(const struct pst_stage_view *view, const uint64_t *last,
                            struct rotor_layer *layer)
{
    uint64_t saved = 0;

    for (uint32_t v = layer->first; v <= layer->last; v++) {
        const struct pst_stage_node *node = pst_stage_node_at(view, v);
        uint64_t own = larger(node->saved_bytes + node->forward_work_bytes,
                              node->saved_bytes + loose_output(view, v));
        uint64_t loose = 0, results = 0;

        if (!is_free(node)) {
            own = node->forward_work_bytes;
        }
        for (uint32_t u = layer->first; u < v; u++) {
            if (last[u] >= v && is_free(pst_stage_node_at(view, u))) {
                loose += loose_output(view, u);
                results += pst_stage_node_output(view, u);
            }
        }
        layer->save_peak = larger(layer->save_peak, saved + loose + own);
        layer->pass_peak = larger(layer->pass_peak, results + own);
        if (is_free(node)) {
            saved += node->saved_bytes;
            layer->forward_ns += node->forward_ns;
        }
    }
    layer->x = is_free(pst_stage_node_at(view, layer->last))
                   ? pst_stage_node_output(view, layer->last)
                   : 0;
    layer->gradient = pst_stage_node_output(view, layer->last);
    layer->saved = saved + (layer->x > 0 ? loose_output(view, layer->last) : 0);
    layer->save_peak = larger(layer->save_peak, layer->saved);
    layer->pass_peak = larger(layer->pass_peak, layer->x);
}

static void measure_backward(const struct pst_stage_view *view, struct rotor_layer *layer)
{
    uint64_t saved = 0;

    for (uint32_t v = layer->first; v <= layer->last; v++) {
        const struct pst_stage_node *node = pst_stage_node_at(view, v);

        saved += is_free(node) ? node->saved_bytes : 0;
        layer->back_peak = larger(layer->back_peak, saved + node->backward_work_bytes);
        layer->backward_ns += node->backward_ns;
    }
    layer->back_peak = larger(layer->back_peak, layer->saved);
}

/* --- layers ------------------------------------------------------------------------------------*/

/* Two neighbours as one. */
static void unite(struct rotor_layer *a, const struct rotor_layer *b)
{
    a->forward_ns += b->forward_ns;
    a->backward_ns += b->backward_ns;
    a->save_peak = larger(a->save_peak, a->saved + b->save_peak);
    a->pass_peak = larger(a->pass_peak, a->x + b->pass_peak);
    a->back_peak = larger(a->back_peak, a->saved + b->back_peak);
    a->saved += b->saved;
    a->x = b->x;
    a->gradient = b->gradient;
    a->last = b->last;
}

/* Unites the two neighbours that save least together; the first of several. */
static void unite_smallest(struct rotor_chain *chain)
{
    uint32_t at = 0;

    for (uint32_t l = 1; l + 1 < chain->n; l++) {
        const struct rotor_layer *layer = &chain->layers[l], *best = &chain->layers[at];

        if (layer[0].saved + layer[1].saved < best[0].saved + best[1].saved) {
            at = l;
        }
    }
    unite(&chain->layers[at], &chain->layers[at + 1]);
    memmove(&chain->layers[at + 1], &chain->layers[at + 2],
            (chain->n - at - 2) * sizeof *chain->layers);
    chain->n--;
}

static void add_layer(struct rotor_chain *chain, const struct pst_stage_view *view,
                      const uint64_t *last, uint32_t first, uint32_t end, uint32_t most)
{
    struct rotor_layer *layer;

    if (chain->n == most) {
        unite_smallest(chain);
    }
    layer = &chain->layers[chain->n++];
    *layer = (struct rotor_layer){.first = first, .last = end};
    measure_forward(view, last, layer);
    measure_backward(view, layer);
}

/* Bytes of nodes that stay as they are, of all micro-batches, and the static bytes. */
static uint64_t fixed_bytes(const struct pst_stage_view *view)
{
    uint64_t k = view->in_flight > 0 ? view->in_flight : 1, bytes = view->static_bytes;
    uint64_t staged = view->staging_copies < k ? view->staging_copies : k;

    for (uint32_t v = 0; v < view->n_nodes; v++) {
        const struct pst_stage_node *node = pst_stage_node_at(view, v);
        uint64_t copies = node->action == PST_ACTION_OFFLOAD ? larger(staged, 1) : k;

        bytes += is_free(node) ? 0 : copies * (node->saved_bytes + loose_output(view, v));
    }
    return bytes;
}

bool rotor_chain_load(struct rotor_chain *chain, const struct pst_stage_view *view, uint32_t most,
                      uint64_t *last)
{
    uint64_t reach = 0; /* the furthest reader of anything before */
    uint32_t first = 0;

    chain->n = 0;
    if (!is_sane(view)) {
        return false;
    }
    chain->in_flight = view->in_flight > 0 ? view->in_flight : 1;
    chain->input_bytes = view->input_bytes;
    chain->fixed_bytes = fixed_bytes(view);
    chain->capacity = view->capacity_bytes;
    for (uint32_t v = 0; v < view->n_nodes; v++) {
        const struct pst_stage_node *node = pst_stage_node_at(view, v);

        last[v] = v;
        for (uint32_t j = 0; j < node->n_producers; j++) {
            last[view->producers[node->first_producer + j]] = v; /* ascending */
        }
    }
    for (uint32_t v = 0; v < view->n_nodes; v++) {
        if (reach <= v || v + 1 == view->n_nodes) {
            add_layer(chain, view, last, first, v, most);
            first = v + 1;
        }
        reach = larger(reach, last[v]);
    }
    return true;
}
