/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "conformance/problem.h"

/* Links between stages, sorted by `to`, then `from`. */
static uint32_t make_links(const struct pst_case *question, uint32_t n_stages, uint64_t *random,
                           uint32_t (*pairs)[2])
{
    uint32_t n = 0, to, from;

    for (to = 1; to < n_stages; to++) {
        uint32_t other = question->shape == PST_SHAPE_CHAIN
                             ? to - 1
                             : (uint32_t)pst_random_between(random, 0, to - 1);

        for (from = 0; from < to; from++) {
            bool linked = from == other;

            if (question->shape == PST_SHAPE_DIAMOND) {
                /* base parts into +1 and +2, which meet in +3 */
                linked = (to - 1) % 3 == 2 ? from + 2 >= to : from == (to - 1) / 3 * 3;
            } else if (question->shape == PST_SHAPE_RANDOM) {
                linked |= from + 1 == to && pst_random(random) % 2 == 0;
            }
            if (linked) {
                pairs[n][0] = from;
                pairs[n++][1] = to;
            }
        }
    }
    return n;
}

static bool attach_links(const struct pst_case *question, uint32_t n_stages, uint64_t *random,
                         struct pst_region *region, struct pst_schedule_in *in)
{
    uint32_t(*pairs)[2] = pst_region_alloc(region, 3 * (size_t)n_stages * sizeof *pairs);
    uint32_t size = (uint32_t)sizeof(struct pst_schedule_link) + question->extra;
    uint32_t n, n_out = 0, n_in = 0, k, s, *out;
    char *links;

    if (pairs == NULL) {
        return false;
    }
    n = make_links(question, n_stages, random, pairs);
    links = pst_region_alloc(region, (size_t)n * size);
    out = pst_region_alloc(region, n * sizeof *out);
    if (links == NULL || out == NULL) {
        return false;
    }
    in->n_links = n;
    in->link_size = size;
    in->links = links;
    in->out_links = out;
    for (k = 0; k < n; k++) {
        struct pst_schedule_link *link = (void *)(links + (size_t)k * size);
        uint32_t from = pairs[k][0], to = pairs[k][1];

        *link = (struct pst_schedule_link){.from = from, .to = to};
        if (pst_schedule_stage_at(in, from)->device != pst_schedule_stage_at(in, to)->device) {
            link->transfer_ns = pst_random_between(random, 0, 100);
        }
    }
    for (s = 0; s < n_stages; s++) {
        struct pst_schedule_stage *stage = (void *)(uintptr_t)pst_schedule_stage_at(in, s);

        stage->first_pred = n_in;
        stage->first_succ = n_out;
        for (k = 0; k < n; k++) {
            n_in += pairs[k][1] == s;
            if (pairs[k][0] == s) {
                out[n_out++] = k;
            }
        }
        stage->n_pred = n_in - stage->first_pred;
        stage->n_succ = n_out - stage->first_succ;
    }
    return true;
}

bool pst_schedule_problem_make(const struct pst_case *question, uint32_t n_stages,
                               const uint32_t *devices, const uint32_t *sizes, uint32_t batch,
                               struct pst_region *region, struct pst_schedule_in **ret_in)
{
    struct pst_schedule_in *in = pst_region_alloc(region, sizeof *in);
    uint32_t size = (uint32_t)sizeof(struct pst_schedule_stage) + question->extra, s;
    char *stages = pst_region_alloc(region, (size_t)n_stages * size);
    uint64_t *room = pst_region_alloc(region, question->n_devices * sizeof *room);
    uint64_t most = question->huge ? (uint64_t)1 << 50 : 1000, random = question->seed;

    if (in == NULL || stages == NULL || room == NULL) {
        return false;
    }
    *in = (struct pst_schedule_in){.size = sizeof *in,
                                   .n_devices = question->n_devices,
                                   .n_stages = n_stages,
                                   .stage_size = size,
                                   .stages = stages,
                                   .activation_bytes = room};
    for (s = 0; s < question->n_devices; s++) {
        room[s] = question->memory == PST_MEMORY_NONE ? 1 : UINT64_MAX;
    }
    for (s = 0; s < n_stages; s++) {
        struct pst_schedule_stage *stage = (void *)(stages + (size_t)s * size);

        *stage = (struct pst_schedule_stage){.device = devices[s],
                                             .microbatch_size = sizes[s],
                                             .n_microbatches = batch / sizes[s],
                                             .k = 1};
        stage->forward_ns = pst_random_between(&random, 1, most);
        stage->backward_input_ns = pst_random_between(&random, 0, most);
        stage->backward_weight_ns = pst_random_between(&random, 0, most);
        stage->input_bytes = pst_random_between(&random, 1, most);
        stage->saved_bytes = stage->input_bytes + pst_random_between(&random, 0, most);
        stage->saved_weight_bytes = stage->saved_bytes / 2;
    }
    if (!attach_links(question, n_stages, &random, region, in)) {
        return false;
    }
    *ret_in = in;
    return true;
}
