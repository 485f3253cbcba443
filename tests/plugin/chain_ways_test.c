/* SPDX-License-Identifier: Apache-2.0
 *
 * chain-dp with tensor degrees against enumeration of all stages, replicas and degrees, with a host
 * whose prices the test makes up: meetings that take the longer the more devices there are,
 * operators that cannot be shared, degrees that the model cannot have, tied nodes, nodes of
 * devices.
 */
#include <math.h>

#include <penstock/ext/profile.h>

#include "plugin_rig.h"

#include "test.h"

#include "base/philox.h"
#include "partition_world.h"

enum { MOST_STAGES = 6 };

struct stages {
    uint32_t n, first[MOST_STAGES + 1], rank[MOST_STAGES], replicas[MOST_STAGES],
        tensor[MOST_STAGES];
};

/* The world, and what it knows of degrees. */
struct shared {
    struct world world;
    uint32_t tensors[3], degrees[2], tied[MAX_NODES], size, comm, node_size, meeting_ns;
    bool whole[MAX_NODES]; /* no device computes less of it */
    uint32_t refused;      /* a degree */
    bool chain;            /* no stage feeds one that is not the next */
    uint32_t passes_each;  /* micro-batches that a row needs for each stage */
    struct pst_figures figures;
    struct stages answer;
    uint32_t n_remarks;
};

static struct shared *shared_of(const struct pst_host *host)
{
    return pst_host_instance(host)->context.impl;
}

/* --- the host ----------------------------------------------------------------------------------*/

static uint64_t period_of(const struct shared *s, uint32_t first, uint32_t end, uint32_t samples,
                          uint32_t tensor)
{
    uint64_t ns = s->world.detour_ns * ((first * 7 + end * 3 + tensor) % 5);

    for (uint32_t v = first; v < end; v++) {
        ns += s->whole[v] || tensor == 1
                  ? 12 * samples * s->world.time_ns[v]
                  : 12 / tensor * samples * s->world.time_ns[v] + (tensor - 1) * s->meeting_ns;
    }
    return ns;
}

static uint64_t peak_of(const struct shared *s, uint32_t first, uint32_t end, uint32_t samples,
                        uint32_t tensor, uint32_t in_flight)
{
    uint64_t bytes = in_flight * samples * comes_in(&s->world, first, end);

    for (uint32_t v = first; v < end; v++) {
        const struct pst_node *node = &s->world.nodes[v];

        bytes += (node->param_bytes + in_flight * samples * node->saved_bytes) /
                 (s->whole[v] ? 1 : tensor);
    }
    return bytes;
}

static pst_status price_shared(const struct pst_host *host, const struct pst_stage_question *q,
                               struct pst_stage_price *ret_price)
{
    struct shared *s = shared_of(host);
    const uint32_t first = q->nodes[0], end = first + q->n_nodes, samples = s->size / q->n_ranks;

    assert_int_equal(q->microbatch_size, s->size);
    assert_int_equal(s->size % q->n_ranks, 0);
    assert_null(q->ranks);
    assert_true(q->tensor > 0 && q->in_flight > 0);
    ret_price->period_ns = period_of(s, first, end, samples, q->tensor);
    ret_price->peak_bytes = peak_of(s, first, end, samples, q->tensor, q->in_flight);
    ret_price->fits = ret_price->peak_bytes <= q->capacity_bytes;
    if (q->tensor == s->refused) {
        *ret_price = (struct pst_stage_price){ret_price->size, 0, UINT64_MAX, UINT64_MAX};
    }
    return PST_OK;
}

/* Without what makes periods other than sums. */
static pst_status bound_shared(const struct pst_host *host, const struct pst_stage_question *q,
                               uint64_t *ret_period_ns)
{
    const struct shared *s = shared_of(host);
    const uint32_t first = q->nodes[0], end = first + q->n_nodes;

    *ret_period_ns = q->tensor == s->refused
                         ? UINT64_MAX
                         : period_of(s, first, end, s->size / q->n_ranks, q->tensor) -
                               s->world.detour_ns * ((first * 7 + end * 3 + q->tensor) % 5);
    return PST_OK;
}

static pst_status topology_shared(const struct pst_host *host, uint32_t n_devices,
                                  struct pst_topology *ret_topology)
{
    ret_topology->min_microbatches = shared_of(host)->passes_each * n_devices;
    ret_topology->min_microbatches += ret_topology->min_microbatches == 0;
    ret_topology->microbatch_multiple = 1;
    return PST_OK;
}

static uint64_t transfer_shared(const struct pst_host *host, uint64_t bytes, uint32_t from,
                                uint32_t to)
{
    const struct shared *s = shared_of(host);
    const uint64_t slow = from / s->node_size == to / s->node_size ? 1 : 3;

    assert_true(to < s->world.in.n_devices && from < to);
    return slow * (s->world.latency_ns + bytes * 4);
}

static pst_status node_ns(const struct pst_host *host, uint32_t node, uint32_t samples,
                          double ret_ns[3])
{
    ret_ns[0] = ret_ns[1] = ret_ns[2] = 0;
    return PST_OK;
}

static const struct pst_figures *figures_of(const struct pst_host *host)
{
    return &shared_of(host)->figures;
}

static uint32_t no_configs(const struct pst_host *host, uint32_t node)
{
    return 0;
}

static pst_status keep_shared(struct pst_partition_out *out, const struct pst_stage_decl *decl)
{
    struct shared *s = out->impl;
    struct stages *a = &s->answer;

    assert_true(a->n < MOST_STAGES && decl->n_nodes > 0 && decl->n_ranks % decl->tensor == 0);
    for (uint32_t i = 0; i < decl->n_nodes; i++) {
        assert_int_equal(decl->nodes[i], a->first[a->n] + i);
    }
    for (uint32_t i = 0; i < decl->n_ranks; i++) {
        assert_int_equal(decl->ranks[i], decl->ranks[0] + i);
    }
    assert_int_equal(decl->microbatch_size, s->size);
    a->rank[a->n] = decl->ranks[0];
    a->tensor[a->n] = decl->tensor;
    a->replicas[a->n] = decl->n_ranks / decl->tensor;
    a->first[a->n + 1] = a->first[a->n] + decl->n_nodes;
    a->n++;
    return PST_OK;
}

static pst_status run_shared(struct shared *s, const char *options, struct pst_error *err)
{
    static const struct pst_cost cost = {sizeof cost, compute, transfer_shared, allreduce_ns, NULL};
    static const struct pst_ask ask = {sizeof ask, topology_shared, in_flight, bound_shared,
                                       price_shared};
    static const struct pst_profile profile = {sizeof profile, node_ns, figures_of, no_configs,
                                               NULL};
    const struct pst_host_context context = {
        .cost = &cost, .ask = &ask, .profile = &profile, .impl = s, .cancelled = cancelled};
    const struct pst_partitioner *f;
    struct pst_instance *instance = NULL;
    pst_status st = plugin_rig_open("partitioner", "chain-dp", options, &context, &instance, err);

    assert_ok(st, err);
    memset(&s->answer, 0, sizeof s->answer);
    f = instance->plugin->get_interface(PST_PARTITIONER);
    st = f->partition(instance->self, &s->world.in, &s->world.out);
    s->n_remarks = instance->remarks.n;
    *err = instance->failure;
    pst_instance_destroy(instance);
    return st;
}

/* --- what stages cost --------------------------------------------------------------------------*/

static bool is_far(const struct shared *s, uint32_t a, uint32_t b)
{
    return a / s->node_size != b / s->node_size;
}

static uint64_t send_ns(const struct shared *s, uint64_t bytes, uint32_t tensor, bool far)
{
    return (far ? 3 : 1) * (s->world.latency_ns + 4 * bytes * (far ? tensor : 1));
}

static uint64_t sum_ns(const struct shared *s, const struct stages *a, uint32_t i)
{
    const uint32_t r = a->replicas[i], t = a->tensor[i];
    double bytes = 0;

    for (uint32_t v = a->first[i]; v < a->first[i + 1]; v++) {
        bytes += (double)s->world.nodes[v].param_bytes;
    }
    bytes /= r * t > s->figures.node_size && s->figures.node_size > 0 ? 1 : t;
    return r == 1 || s->figures.allreduce_bytes_per_s <= 0
               ? 0
               : (uint64_t)(2.0 * (r - 1) / r * bytes / s->figures.allreduce_bytes_per_s * 1e9 *
                                s->size / s->world.in.batch +
                            0.5);
}

static uint64_t stage_ns(const struct shared *s, const struct stages *a, uint32_t i)
{
    const uint32_t r = a->replicas[i], t = a->tensor[i], samples = s->size / r;
    const uint32_t last = a->rank[i] + r * t - 1, first = a->first[i], end = a->first[i + 1];
    const uint64_t period = period_of(s, first, end, samples, t), sync = sum_ns(s, a, i);
    uint64_t in = 0, out = 0, most = period;

    if (i > 0) {
        in = send_ns(s, samples * comes_in(&s->world, first, end), t,
                     is_far(s, a->rank[i] - 1, last));
    }
    if (i + 1 < a->n) {
        out = send_ns(s, samples * goes_out(&s->world, first, end), t,
                      is_far(s, a->rank[i], last + 1));
    }
    if (s->comm == 0) {
        return period + sync;
    }
    if (s->comm == 1) {
        return period + 2 * (in + out) + sync;
    }
    most = in > most ? in : most;
    most = out > most ? out : most;
    return sync > most ? sync : most;
}

struct value {
    double step_ns;
    uint64_t bytes;
};

/* INFINITY: it breaks a rule. */
static struct value value_of(const struct shared *s, const struct stages *a)
{
    const struct value none = {INFINITY, UINT64_MAX};
    const uint32_t m = s->world.in.batch / s->size;
    struct value value = {0, 0};
    uint64_t sum = 0, longest = 0;

    if (m < s->passes_each * a->n) {
        return none;
    }
    for (uint32_t i = 0; i < a->n; i++) {
        const uint32_t r = a->replicas[i], t = a->tensor[i], k = in_flight_of(&s->world, i, a->n);
        const uint64_t peak = peak_of(s, a->first[i], a->first[i + 1], s->size / r, t, k),
                       ns = stage_ns(s, a, i);

        if (peak > s->world.in.capacity_bytes || t == s->refused || a->rank[i] % t != 0) {
            return none;
        }
        for (uint32_t p = 0; p < r; p++) {
            if (is_far(s, a->rank[i] + p * t, a->rank[i] + p * t + t - 1)) {
                return none;
            }
        }
        for (uint32_t j = 0; j < i; j++) {
            const uint32_t u = a->tensor[j];

            if (t % u != 0 && u % t != 0) {
                return none;
            }
            for (uint32_t v = a->first[i]; v < a->first[i + 1] && u != t; v++) {
                for (uint32_t w = a->first[j]; w < a->first[j + 1]; w++) {
                    if (s->tied[v] == s->tied[w]) {
                        return none;
                    }
                }
            }
        }
        sum += ns;
        longest = ns > longest ? ns : longest;
        value.bytes += peak * r * t;
    }
    value.step_ns = (double)sum + (m - 1.0) * (double)longest;
    return value;
}

/* Does an edge lead over one of the stages? */
static bool is_skipped(const struct shared *s, const struct stages *a)
{
    for (uint32_t e = 0; e < s->world.graph.n_edges; e++) {
        for (uint32_t i = 0; i < a->n; i++) {
            if (s->world.edges[e].from < a->first[i] && s->world.edges[e].to >= a->first[i + 1]) {
                return true;
            }
        }
    }
    return false;
}

static void try_all(const struct shared *s, struct stages *a, uint32_t i, uint32_t free_rank,
                    struct value *best)
{
    const struct pst_partition_in *in = &s->world.in;
    const uint32_t n = s->world.graph.n_nodes;

    if (i == a->n) {
        const struct value value = value_of(s, a);

        if (a->first[i] == n && !(s->chain && is_skipped(s, a)) &&
            (value.step_ns < best->step_ns ||
             (value.step_ns == best->step_ns && value.bytes < best->bytes))) {
            *best = value;
        }
        return;
    }
    for (uint32_t way = 0; way < in->n_tensors * in->n_degrees; way++) {
        const uint32_t t = in->tensors[way / in->n_degrees], r = in->degrees[way % in->n_degrees];

        a->rank[i] = (free_rank + t - 1) / t * t;
        a->tensor[i] = t;
        a->replicas[i] = r;
        if (a->rank[i] + r * t > in->n_devices || s->size % r != 0) {
            continue;
        }
        for (a->first[i + 1] = a->first[i] + 1; a->first[i + 1] <= n; a->first[i + 1]++) {
            try_all(s, a, i + 1, a->rank[i] + r * t, best);
        }
    }
}

/* --- worlds ------------------------------------------------------------------------------------*/

static const double zeros[4 * MAX_NODES];
static uint64_t seed = 77, draws;

static uint32_t below(uint32_t n)
{
    return pst_philox(seed, 1, draws++).v[0] % n;
}

static void draw_graph(struct shared *s)
{
    struct world *w = &s->world;
    const uint32_t n = 1 + below(6);

    for (uint32_t v = 0; v < n; v++) {
        world_node(w, below(8), below(40), below(6));
        s->whole[v] = below(4) == 0;
        s->tied[v] = v > 0 && below(5) == 0 ? s->tied[below(v)] : v;
        for (uint32_t u = 0; u < v; u++) {
            if (u + 1 == v || below(6) == 0) {
                world_edge(w, u, v, 1 + u % 4);
            }
        }
    }
    world_finish(w);
    w->in.tied = s->tied;
    w->in.n_tied = n;
}

static void draw_world(struct shared *s)
{
    static const uint32_t lists[][3] = {{1, 2}, {2, 1}, {1, 2, 4}, {4, 1, 2}, {1, 2, 3}, {3, 2}};
    static const uint32_t counts[] = {2, 2, 3, 3, 3, 2};
    const uint32_t list = below(6), m = 1 + below(6), n_devices = 1 + below(MOST_STAGES);
    struct world *w = &s->world;

    memset(s, 0, sizeof *s);
    world_init(w, n_devices, m);
    draw_graph(s);
    memcpy(s->tensors, lists[list], sizeof s->tensors);
    s->degrees[0] = 1;
    s->degrees[1] = 2;
    s->size = 1 + below(2);
    s->comm = below(3);
    s->meeting_ns = below(6);
    s->node_size = below(2) == 0 ? 64 : 2 * (1 + below(2));
    s->refused = below(6) == 0 ? s->tensors[1] : 0;
    s->passes_each = below(5) == 0;
    s->chain = below(4) == 0;
    s->figures = (struct pst_figures){.size = sizeof s->figures,
                                      .comm_model = PST_COMM_MAX,
                                      .node_size = s->node_size,
                                      .allreduce_bytes_per_s = below(3) == 0 ? 0 : 1e9,
                                      .saved_bytes = zeros,
                                      .edge_bytes = zeros};
    for (uint32_t d = 0; d < n_devices; d++) {
        w->devices[d] =
            (struct pst_cluster_device){.memory_bytes = UINT64_MAX, .node = d / s->node_size};
    }
    w->cluster = (struct pst_cluster_view){.size = sizeof w->cluster,
                                           .n_devices = n_devices,
                                           .device_size = sizeof *w->devices,
                                           .devices = w->devices};
    w->out = (struct pst_partition_out){sizeof w->out, s, keep_shared};
    w->sizes[0] = s->size;
    w->latency_ns = below(4);
    w->detour_ns = below(3) == 0 ? 3 : 0;
    w->in.batch = m * s->size;
    w->in.capacity_bytes = below(3) == 0 ? UINT64_MAX : 20 + below(150);
    w->in.degrees = s->degrees;
    w->in.n_degrees = 1 + below(2);
    w->in.tensors = s->tensors;
    w->in.n_tensors = counts[list];
}

TEST(test_every_answer)
{
    static const char *const comms[] = {"none", "sum", "max"};
    enum { ROUNDS = 3000 };
    uint32_t feasible = 0, unlike = 0, replicated = 0;

    for (uint32_t round = 0; round < ROUNDS; round++) {
        static struct shared s;
        struct value best = {INFINITY, UINT64_MAX}, own;
        struct stages all = {0};
        struct pst_error err;
        char options[64];
        pst_status st;

        draw_world(&s);
        snprintf(options, sizeof options, "comm = \"%s\"\nchain = %s", comms[s.comm],
                 s.chain ? "true" : "false");
        for (all.n = 1; all.n <= s.world.in.n_devices; all.n++) {
            try_all(&s, &all, 0, 0, &best);
        }
        st = run_shared(&s, options, &err);
        if (isinf(best.step_ns)) {
            assert_int_equal(st, PST_ERR_INFEASIBLE);
            continue;
        }
        assert_ok(st, &err);
        own = value_of(&s, &s.answer);
        assert_false(s.chain && is_skipped(&s, &s.answer));
        assert_int_equal(s.answer.first[s.answer.n], s.world.graph.n_nodes);
        if (own.step_ns != best.step_ns || own.bytes != best.bytes) {
            fail_msg("round %u: step %g, %llu bytes; the best is %g, %llu bytes", round,
                     own.step_ns, (unsigned long long)own.bytes, best.step_ns,
                     (unsigned long long)best.bytes);
        }
        feasible++;
        for (uint32_t i = 1; i < s.answer.n; i++) {
            unlike += s.answer.tensor[i] != s.answer.tensor[i - 1];
            replicated += s.answer.replicas[i] > 1;
        }
    }
    print_message("%u feasible of %u, %u times a degree unlike the one before, %u replicated\n",
                  feasible, ROUNDS, unlike, replicated);
    assert_true(feasible > 1000 && feasible < ROUNDS - 50 && unlike > 200 && replicated > 100);
}

/* Too many groups of tied nodes for all choices: they get one degree, which is said. */
TEST(test_many_tied_nodes)
{
    static struct shared s;
    struct pst_error err;

    draw_world(&s);
    s.world.graph.n_nodes = s.world.graph.n_edges = 0;
    memset(s.world.nodes, 0, sizeof s.world.nodes);
    s.refused = s.chain = 0;
    for (uint32_t v = 0; v < 14; v++) {
        world_node(&s.world, 1 + v, 1, 1);
        s.tied[v] = v % 7;
        s.whole[v] = v < 7;
    }
    world_finish(&s.world);
    s.world.in.n_tied = 14;
    s.world.in.n_tensors = 2;
    s.tensors[0] = 1;
    s.tensors[1] = 2;
    s.world.in.capacity_bytes = UINT64_MAX;
    s.passes_each = 0;
    assert_ok(run_shared(&s, "", &err), &err);
    for (uint32_t i = 1; i < s.answer.n; i++) {
        assert_int_equal(s.answer.tensor[i], s.answer.tensor[0]);
    }
    assert_int_equal(s.n_remarks, 1);
    s.world.in.n_tied = 0; /* a host that ties none */
    assert_ok(run_shared(&s, "", &err), &err);
    assert_int_equal(s.n_remarks, 0);
}
