/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the job lists tensor degrees: contiguous stages of the model's order, each with a number of
 * replicas r and a degree t, on r t ranks from the next multiple of t on. Stages may be fewer than
 * ranks, and ranks may stay idle.
 *
 *     order   |  a b c  |  d e f g h  |  i j   |
 *     ranks   |    0    |   2 3 4 5   |  6 7   |      r, t: 1, 1; 2, 2; 1, 2; rank 1 is idle
 *
 * What counts is the step: every stage once, the longest one for each other micro-batch.
 */
#include <math.h>

#include "answer.h"
#include "ways.h"

#define MOST_CHOICES 64 /* of degrees for tied nodes that are searched one by one */

/* --- degrees -----------------------------------------------------------------------------------*/

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
        ways_improve(w);
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
        struct pst_stage_question question = ways_question(w, &alone, way, v, v + 1);
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
            bool possible = w->chain.microbatch_size % in->degrees[r] == 0;

            if (possible) { /* too wide a way is asked about, too: the host says why it is none */
                *way = (struct way){in->degrees[r], in->tensors[t], (uint32_t)width, t, NULL, NULL};
                bound_nodes(w, way, &possible);
            }
            w->n_ways += possible && width <= w->n_ranks;
        }
    }
}

/* Finds times and bytes that no plan goes below. */
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
        ways_add_row(w, n);
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
    char needs[64], has[64], why[256] = "";

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

            ways_ask(w, &alone, &w->ways[i], v, v + 1, &price);
            least = price.peak_bytes < least ? price.peak_bytes : least;
        }
        at = least > most ? v : at;
        most = least > most ? least : most;
    }
    if (most > w->chain.in->capacity_bytes) {
        snprintf(why, sizeof why,
                 "; the largest node, \"%.120s\", is charged %s alone, a device has %s",
                 part_node_name(w->problem, at), part_size_text(needs, most),
                 part_size_text(has, w->chain.in->capacity_bytes));
    }
    return pst_failf(host, PST_ERR_INFEASIBLE,
                     "no stages on %u devices%s fit at micro-batch size %u, whatever their tensor "
                     "degrees%s",
                     w->n_ranks, w->chain.reach == NULL ? "" : " that form a chain",
                     w->chain.microbatch_size, why);
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
