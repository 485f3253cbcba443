/* SPDX-License-Identifier: Apache-2.0
 *
 * A made-up host that prices stages of a chain exactly under keep and recompute, by trying every
 * plan: whole runs of dropped nodes are replayed once, just before the first backward that needs
 * one of them. For tests of partitioners that ask. Include once, after cmocka.
 */
#ifndef TEST_EXACT_MEMORY_H
#define TEST_EXACT_MEMORY_H

#include "partition_world.h"

#include <penstock/ext/profile.h>

struct t_node {
    uint32_t tf, tb;
    uint64_t a, o, w; /* left behind, output as a message, parameters */
};

struct t_world {
    struct world w; /* first: world_of leads here */
    struct t_node nodes[MAX_NODES];
    uint64_t x_0;    /* bytes of the model's input */
    uint32_t copies; /* of parameter bytes beside the versions: gradients, optimizer state */
    bool stashing;   /* PipeDream: as many versions as micro-batches in flight */
    bool simple;     /* period = times, peak = parameters + in flight x all: no plans are tried */
    struct pst_figures figures;
    uint64_t known[16][16][17]; /* [in flight][first][end] period + 1; UINT64_MAX: never; 0: open */
    uint64_t prefix_t[MAX_NODES + 1], prefix_a[MAX_NODES + 1], prefix_w[MAX_NODES + 1];
};

static struct t_world *t_world_of(const struct pst_host *host)
{
    return (struct t_world *)world_of(host);
}

static uint32_t t_held(const struct t_world *t, uint32_t stage, uint32_t n_stages)
{
    return t->stashing ? n_stages - stage : in_flight_of(&t->w, stage, n_stages);
}

static uint32_t t_versions(const struct t_world *t, uint32_t stage, uint32_t n_stages)
{
    return t->stashing ? n_stages - stage : 1;
}

static uint64_t t_input(const struct t_world *t, uint32_t first)
{
    return first == 0 ? t->x_0 : t->nodes[first - 1].o;
}

/* Bit i of drop: node i of these is recomputed. The most that one micro-batch keeps at any time,
   backward workspace aside. Node i + 1 reads i. */
static uint64_t t_residency(const struct t_node *v, uint32_t n, uint32_t drop)
{
    uint32_t back[16] = {0}; /* a dropped node is there again from before the backward of back[u] */
    uint64_t most = 0;

    for (uint32_t u = n; u-- > 0;) {
        bool joins = u + 1 < n && drop >> (u + 1) & 1;

        back[u] = joins ? back[u + 1] : u + 1 < n ? u + 1 : u;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint64_t forward = v[i].a, backward = 0;

        for (uint32_t u = 0; u < i; u++) {
            bool reads = u + 1 == i;

            forward += !(drop >> u & 1) || reads ? v[u].a : 0;
        }
        for (uint32_t u = 0; u <= i; u++) {
            backward += !(drop >> u & 1) || back[u] >= i ? v[u].a : 0;
        }
        most = forward > most ? forward : most;
        most = backward > most ? backward : most;
    }
    for (uint32_t u = 0; u < n; u++) { /* all of u's run is back, nothing behind it is gone yet */
        uint64_t replay = 0;

        for (uint32_t x = 0; drop >> u & 1 && x <= back[u]; x++) {
            replay += !(drop >> x & 1) || back[x] == back[u] ? v[x].a : 0;
        }
        most = replay > most ? replay : most;
    }
    return most;
}

/* Least period of nodes [first, end) as a stage that holds k micro-batches; UINT64_MAX: no plan
   fits. ret_keep_peak: what it needs if everything is kept; may be NULL. */
static uint64_t t_period(const struct t_world *t, uint32_t first, uint32_t end, uint32_t k,
                         uint32_t versions, uint64_t *ret_keep_peak)
{
    uint32_t n = end - first;
    uint64_t fixed = 0, base = 0, best = UINT64_MAX;

    for (uint32_t i = first; i < end; i++) {
        fixed += t->nodes[i].w * (versions + t->copies);
        base += t->nodes[i].tf + t->nodes[i].tb;
    }
    for (uint32_t drop = 0; drop < 1u << n; drop++) {
        uint64_t kept = 0, ns = base, peak;

        for (uint32_t i = 0; i < n; i++) {
            kept += drop >> i & 1 ? 0 : t->nodes[first + i].a;
            ns += drop >> i & 1 ? t->nodes[first + i].tf : 0;
        }
        if (ns >= best) {
            continue;
        }
        peak = fixed + (k - 1) * (t_input(t, first) + kept) + t_input(t, first) +
               t_residency(&t->nodes[first], n, drop);
        if (drop == 0 && ret_keep_peak != NULL) {
            *ret_keep_peak = peak;
        }
        if (peak <= t->w.in.capacity_bytes) {
            best = ns;
        }
    }
    return best;
}

static uint64_t t_bytes(const struct t_world *t, uint32_t first, uint32_t end, uint32_t k,
                        uint32_t versions)
{
    return (t->prefix_w[end] - t->prefix_w[first]) * (versions + t->copies) +
           k * (t->prefix_a[end] - t->prefix_a[first]);
}

/* The same, remembered; or what `simple` says. */
static uint64_t t_stage(struct t_world *t, uint32_t first, uint32_t end, uint32_t k,
                        uint32_t versions)
{
    uint64_t *known;

    if (t->simple) {
        uint64_t bytes = t_bytes(t, first, end, k, versions);

        return bytes <= t->w.in.capacity_bytes ? t->prefix_t[end] - t->prefix_t[first] : UINT64_MAX;
    }
    known = &t->known[k][first][end];
    if (*known == 0) {
        uint64_t ns = t_period(t, first, end, k, versions, NULL);

        *known = ns == UINT64_MAX ? ns : ns + 1;
    }
    return *known == UINT64_MAX ? *known : *known - 1;
}

/* --- the host ----------------------------------------------------------------------------------*/

static pst_status t_topology(const struct pst_host *host, uint32_t n_devices,
                             struct pst_topology *ret_topology)
{
    ret_topology->n_stages = 0;
    ret_topology->version_rule = PST_VERSION_SYNC;
    ret_topology->min_microbatches = ret_topology->microbatch_multiple = 1;
    return PST_OK;
}

static pst_status t_in_flight(const struct pst_host *host, const struct pst_place *place,
                              struct pst_held *ret_held)
{
    const struct t_world *t = t_world_of(host);

    ret_held->microbatches = t_held(t, place->stage, place->n_stages);
    ret_held->weight_versions = t_versions(t, place->stage, place->n_stages);
    return PST_OK;
}

static pst_status t_price(const struct pst_host *host, const struct pst_stage_question *question,
                          struct pst_stage_price *ret_price)
{
    struct t_world *t = t_world_of(host);
    uint32_t first = question->nodes[0];
    uint64_t ns = t_stage(t, first, first + question->n_nodes, question->in_flight,
                          question->weight_versions);

    t->w.n_prices++;
    ret_price->fits = ns != UINT64_MAX;
    ret_price->period_ns = ret_price->fits ? ns : 0;
    ret_price->peak_bytes = ret_price->fits ? 0 : t->w.in.capacity_bytes + 1;
    if (t->simple) {
        ret_price->peak_bytes = t_bytes(t, first, first + question->n_nodes, question->in_flight,
                                        question->weight_versions);
    }
    return PST_OK;
}

static pst_status t_node_ns(const struct pst_host *host, uint32_t node, uint32_t samples,
                            double ret_ns[3])
{
    const struct t_node *v = &t_world_of(host)->nodes[node];

    ret_ns[0] = (double)v->tf * samples;
    ret_ns[1] = (double)v->tb * samples;
    ret_ns[2] = 0;
    return PST_OK;
}

static const struct pst_figures *t_figures(const struct pst_host *host)
{
    return &t_world_of(host)->figures;
}

static uint32_t t_n_configs(const struct pst_host *host, uint32_t node)
{
    return 0;
}

/* Lays the chain t->nodes[0..n) out for n_stages stages of one micro-batch size. */
static void t_finish(struct t_world *t, uint32_t n, uint32_t n_stages, uint32_t microbatches,
                     uint64_t capacity)
{
    world_init(&t->w, n_stages, microbatches);
    memset(t->known, 0, sizeof t->known);
    for (uint32_t i = 0; i < n; i++) {
        const struct t_node *v = &t->nodes[i];

        world_node(&t->w, v->tf + v->tb, v->w, v->a);
        t->prefix_t[i + 1] = t->prefix_t[i] + v->tf + v->tb;
        t->prefix_a[i + 1] = t->prefix_a[i] + v->a;
        t->prefix_w[i + 1] = t->prefix_w[i] + v->w;
        if (i > 0) {
            world_edge(&t->w, i - 1, i, t->nodes[i - 1].o);
        }
    }
    world_finish(&t->w);
    t->w.in.capacity_bytes = capacity;
    t->figures =
        (struct pst_figures){.size = sizeof t->figures, .weight_multiplier = 1 + t->copies};
}

/* Asks; what was remarked lies in *ret_remarks until the next call. */
static pst_status t_ask(struct t_world *t, const char *id, const char *options,
                        struct pst_remarks *ret_remarks, struct pst_error *err)
{
    static const struct pst_cost cost = {sizeof cost, compute, transfer_ns, allreduce_ns,
                                         compute_on};
    static const struct pst_ask ask = {
        .size = sizeof ask, .topology = t_topology, .in_flight = t_in_flight, .price = t_price};
    static const struct pst_profile profile = {.size = sizeof profile,
                                               .node_ns = t_node_ns,
                                               .figures = t_figures,
                                               .n_configs = t_n_configs};
    static struct pst_arena arena;
    const struct pst_host_context context = {
        .cost = &cost, .ask = &ask, .profile = &profile, .impl = t, .cancelled = cancelled};
    struct pst_instance *instance = NULL;
    struct pst_partition_remark *items;
    const struct pst_partitioner *f;
    pst_status st = plugin_rig_open("partitioner", id, options, &context, &instance, err);

    assert_ok(st, err);
    t->w.n_cut = 0;
    t->w.n_prices = 0;
    f = instance->plugin->get_interface(PST_PARTITIONER);
    st = f->partition(instance->self, &t->w.in, &t->w.out);
    *err = instance->failure;
    pst_arena_finish(&arena);
    pst_remarks_copy(&instance->remarks, &arena, &items);
    ret_remarks->n = instance->remarks.n;
    memcpy(ret_remarks->items, items, instance->remarks.n * sizeof *items);
    pst_instance_destroy(instance);
    return st;
}

/* Bottleneck of a cut: periods and one way over each boundary. UINT64_MAX: does not fit. */
static uint64_t t_bottleneck(struct t_world *t, const uint32_t *cuts)
{
    uint32_t n = t->w.n_stages;
    uint64_t most = 0;

    for (uint32_t s = 0; s < n; s++) {
        uint64_t ns = t_stage(t, cuts[s], cuts[s + 1], t_held(t, s, n), t_versions(t, s, n));
        uint64_t link = t->w.link_bytes_per_ns;
        uint64_t comm = s == 0 || link == 0 ? 0 : (t_input(t, cuts[s]) + link - 1) / link;

        most = ns > most ? ns : most;
        most = comm > most ? comm : most;
    }
    return most;
}

/* The least over all cuts; the first of them in ret_cuts. */
static uint64_t t_optimum(struct t_world *t, uint32_t *ret_cuts)
{
    uint32_t n = t->w.graph.n_nodes, stages = t->w.n_stages, cuts[17] = {0};
    uint64_t best = UINT64_MAX;

    for (uint32_t s = 0; s <= stages; s++) {
        cuts[s] = s == stages ? n : s;
    }
    for (;;) {
        uint64_t ns = t_bottleneck(t, cuts);
        uint32_t s = stages;

        if (ns < best) {
            best = ns;
            memcpy(ret_cuts, cuts, (stages + 1) * sizeof *cuts);
        }
        while (--s > 0 && cuts[s] + (stages - s) >= n) {
        }
        if (s == 0) {
            return best;
        }
        for (cuts[s]++; s + 1 < stages; s++) {
            cuts[s + 1] = cuts[s] + 1;
        }
    }
}

#endif
