/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ranges.h"

/* In-flight counts of a chain, from the sink up: a stage may be told about its successor. */
static pst_status ask_in_flight(struct part_asker *asker)
{
    const struct pst_host *host = asker->problem->host;
    uint32_t s;

    for (s = asker->n_stages; s-- > 0;) {
        bool last = s + 1 == asker->n_stages;
        struct pst_successor successor = {
            .microbatch_size = asker->size,
            .k = 1,
            .in_flight = last ? 0 : asker->in_flight[s + 1],
        };
        struct pst_place place = {
            .size = sizeof place,
            .stage = s,
            .n_stages = asker->n_stages,
            .n_devices = asker->problem->in->n_devices,
            .n_microbatches = asker->problem->batch / asker->size,
            .microbatch_size = asker->size,
            .k = 1,
            .n_successors = last ? 0 : 1,
            .successor_size = sizeof successor,
            .successors = &successor,
        };
        struct pst_held held = {.size = sizeof held};
        pst_status status = asker->ask->in_flight(host, &place, &held);

        if (status != PST_OK) {
            return status;
        }
        asker->in_flight[s] = held.microbatches;
        asker->versions[s] = held.weight_versions;
    }
    return PST_OK;
}

uint64_t part_capacity(const struct pst_partition_in *in, uint32_t device)
{
    return device < in->cluster->n_devices
               ? pst_cluster_device_at(in->cluster, device)->memory_bytes
               : in->capacity_bytes;
}

static void ask_price(struct part_asker *asker, uint32_t stage, uint32_t first, uint32_t end,
                      struct pst_stage_price *ret_price)
{
    struct pst_stage_question question = {
        .size = sizeof question,
        .nodes = asker->nodes + first,
        .n_nodes = end - first,
        .stage = stage,
        .n_stages = asker->n_stages,
        .microbatch_size = asker->size,
        .n_ranks = asker->replicas,
        .in_flight = asker->in_flight[stage],
        .weight_versions = asker->versions[stage],
        .capacity_bytes = asker->placed ? part_capacity(asker->problem->in, stage)
                                        : asker->problem->in->capacity_bytes,
        .ranks = asker->placed ? &stage : NULL,
    };

    *ret_price = (struct pst_stage_price){.size = sizeof *ret_price};
    call_go_on(asker->problem->host);
    call_check(asker->ask->price(asker->problem->host, &question, ret_price));
}

/* Is what the same nodes cost the same on both stages? Beside the counts that a partitioner knows
   of there is what only the host knows: passes that wait, what layouts took beyond estimates. It
   goes with the stage, so a few ranges tell. */
static void are_alike(struct part_asker *asker, uint32_t s, uint32_t t, bool *ret_alike)
{
    uint32_t n = asker->problem->n;
    const uint32_t ranges[][2] = {{0, n}, {0, n / 2}, {n / 2, n}};

    *ret_alike =
        asker->in_flight[s] == asker->in_flight[t] && asker->versions[s] == asker->versions[t];
    for (size_t i = 0; *ret_alike && i < sizeof ranges / sizeof *ranges; i++) {
        struct pst_stage_price of_s, of_t;

        if (ranges[i][0] == ranges[i][1]) {
            continue;
        }
        ask_price(asker, s, ranges[i][0], ranges[i][1], &of_s);
        ask_price(asker, t, ranges[i][0], ranges[i][1], &of_t);
        *ret_alike = of_s.fits == of_t.fits && of_s.period_ns == of_t.period_ns &&
                     of_s.peak_bytes == of_t.peak_bytes;
    }
}

/* The ends have rules of their own, and no range in common with another stage. */
void part_asker_share(struct part_asker *asker)
{
    uint32_t s, t;

    for (s = 0; s < asker->n_stages; s++) {
        bool alike = false;

        for (t = s == 0 || s + 1 == asker->n_stages ? s : 1; t < s && !alike; t++) {
            if (asker->class_of[t] == t) {
                are_alike(asker, s, t, &alike);
            }
        }
        asker->class_of[s] = alike ? t - 1 : s;
    }
}

pst_status part_asker_init(const struct part_problem *problem, uint32_t n_stages, uint32_t size,
                           uint32_t replicas, struct part_asker *ret_asker)
{
    struct part_asker *asker = ret_asker;
    uint32_t v, s;

    memset(asker, 0, sizeof *asker);
    asker->problem = problem;
    asker->n_stages = n_stages;
    asker->size = size;
    asker->replicas = replicas;
    asker->prices.value_size = sizeof(struct pst_stage_price);
    asker->ask = problem->host->get_extension(problem->host, PST_ASK);
    if (asker->ask == NULL) {
        return pst_failf(problem->host, PST_ERR_UNSUPPORTED, "the host lacks %s", PST_ASK);
    }
    CALL_TAKE(asker->nodes, problem->n);
    CALL_TAKE(asker->in_flight, n_stages);
    CALL_TAKE(asker->versions, n_stages);
    CALL_TAKE(asker->class_of, n_stages);
    for (v = 0; v < problem->n; v++) {
        asker->nodes[v] = v;
    }
    for (s = 0; s < n_stages; s++) {
        asker->class_of[s] = s;
    }
    return ask_in_flight(asker);
}

void part_asker_price(struct part_asker *asker, uint32_t stage, uint32_t first, uint32_t end,
                      struct pst_stage_price *ret_price)
{
    uint64_t n = asker->problem->n;
    uint32_t of = asker->class_of[stage];
    uint64_t key = (of * (n + 1) + first) * (n + 1) + end; /* end >= 1: never 0 */
    const struct pst_stage_price *known = part_map_find(&asker->prices, key);
    struct pst_stage_price *made;

    if (known != NULL) {
        *ret_price = *known;
        return;
    }
    ask_price(asker, of, first, end, ret_price);
    made = part_map_put(&asker->prices, key);
    *made = *ret_price;
}

/* The node that needs most as a stage of its own, the last one: there the least is in flight. */
static pst_status explain_node(struct part_asker *asker)
{
    const struct part_problem *problem = asker->problem;
    uint32_t v, at = 0;
    uint64_t most = 0;
    char needs[64], has[64];

    for (v = 0; v < problem->n; v++) {
        struct pst_stage_price price;

        part_asker_price(asker, asker->n_stages - 1, v, v + 1, &price);
        if (price.peak_bytes > most) {
            most = price.peak_bytes;
            at = v;
        }
    }
    return pst_failf(problem->host, PST_ERR_INFEASIBLE,
                     "no cut into %u stages fits at micro-batch size %u: node \"%s\" alone is "
                     "charged %s, a device has %s",
                     asker->n_stages, asker->size, part_node_name(problem, at),
                     part_size_text(needs, most), part_size_text(has, problem->in->capacity_bytes));
}

pst_status part_asker_explain(struct part_asker *asker, const uint32_t *cuts)
{
    const struct part_problem *problem = asker->problem;
    uint32_t s;
    char needs[64], has[64];

    for (s = 0; cuts != NULL && s < asker->n_stages; s++) {
        struct pst_stage_price price;

        part_asker_price(asker, s, cuts[s], cuts[s + 1], &price);
        if (price.fits == 0) {
            return pst_failf(
                problem->host, PST_ERR_INFEASIBLE,
                "no cut into %u stages was found to fit at micro-batch size %u: stage %u from node "
                "\"%s\" to \"%s\" is charged %s, a device has %s",
                asker->n_stages, asker->size, s, part_node_name(problem, cuts[s]),
                part_node_name(problem, cuts[s + 1] - 1), part_size_text(needs, price.peak_bytes),
                part_size_text(has, problem->in->capacity_bytes));
        }
    }
    return explain_node(asker);
}
