/* SPDX-License-Identifier: Apache-2.0
 *
 * The question to a scheduler from plain numbers.
 */
#include "planner/order_question.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/util.h"
#include "planner/state.h"
#include "planner/topology.h"

pst_status pst_order_question_shape(struct pst_instance *scheduler, bool *ret_fixed,
                                    struct pst_order_question_shape *ret_shape,
                                    struct pst_error *err)
{
    const struct pst_fixed_shape *f = scheduler->plugin->get_interface(PST_FIXED_SHAPE);
    struct pst_order_question_shape shape = {0, 0, 0};
    pst_status status;

    *ret_fixed = f != NULL && PST_CAN(f, shape);
    if (!*ret_fixed) {
        return PST_OK;
    }
    pst_instance_enter(scheduler, PST_CRUMB_TOPOLOGY);
    status = f->shape(scheduler->self, &shape.n_devices, &shape.n_stages, &shape.n_microbatches);
    pst_instance_leave(scheduler);
    if (status != PST_OK) {
        return pst_instance_fail(scheduler, status, "shape", err);
    }
    *ret_shape = shape;
    return PST_OK;
}

void pst_order_question_alloc(struct pst_order_question *asked, uint32_t n_devices,
                              uint32_t n_stages, uint32_t n_links)
{
    asked->stages = pst_arena_array(&asked->arena, n_stages, sizeof *asked->stages);
    asked->links = pst_arena_array(&asked->arena, n_links, sizeof *asked->links);
    asked->out_links = pst_arena_array(&asked->arena, n_links, sizeof *asked->out_links);
    asked->activation_bytes =
        pst_arena_array(&asked->arena, n_devices, sizeof *asked->activation_bytes);
    memset(asked->activation_bytes, 0xFF, n_devices * sizeof *asked->activation_bytes);
    asked->topology = (struct pst_topology){
        .size = sizeof asked->topology,
        .version_rule = PST_VERSION_SYNC,
        .min_microbatches = 1,
        .microbatch_multiple = 1,
        .n_copies = 1,
        .slices = 1,
    };
    asked->in = (struct pst_schedule_in){
        .size = sizeof asked->in,
        .n_devices = n_devices,
        .n_stages = n_stages,
        .stage_size = sizeof *asked->stages,
        .n_links = n_links,
        .link_size = sizeof *asked->links,
        .stages = asked->stages,
        .links = asked->links,
        .out_links = asked->out_links,
        .activation_bytes = asked->activation_bytes,
    };
}

static int compare_links(const void *a_, const void *b_)
{
    const struct pst_schedule_link *a = a_, *b = b_;

    return PST_COMPARE_KEYS({a->to, b->to}, {a->from, b->from});
}

/* Rows by their origin, counted; within one origin they stay in order of `to`. */
void pst_order_question_connect(struct pst_order_question *asked)
{
    uint32_t n = asked->in.n_links, s, i, at = 0;

    if (n > 0) {
        qsort(asked->links, n, sizeof *asked->links, compare_links);
    }
    for (s = 0; s < asked->in.n_stages; s++) {
        asked->stages[s].n_pred = asked->stages[s].n_succ = 0;
    }
    for (i = 0; i < n; i++) {
        struct pst_schedule_stage *to = &asked->stages[asked->links[i].to];

        to->first_pred = to->n_pred++ == 0 ? i : to->first_pred;
        asked->stages[asked->links[i].from].n_succ++;
    }
    for (s = 0; s < asked->in.n_stages; s++) {
        asked->stages[s].first_succ = at;
        at += asked->stages[s].n_succ;
        asked->stages[s].n_succ = 0;
        asked->stages[s].first_pred =
            asked->stages[s].n_pred == 0 ? 0 : asked->stages[s].first_pred;
    }
    for (i = 0; i < n; i++) {
        struct pst_schedule_stage *from = &asked->stages[asked->links[i].from];

        asked->out_links[from->first_succ + from->n_succ++] = i;
    }
}

struct pst_order_question pst_order_question_line(uint32_t n_devices, uint32_t n_stages,
                                                  const uint32_t *device_of,
                                                  uint32_t n_microbatches,
                                                  const struct pst_order_question_costs *costs)
{
    struct pst_order_question asked = {.stages = NULL};
    uint32_t s, copies = costs->copies > 1 ? costs->copies : 1, n_links = 0;

    pst_order_question_alloc(&asked, n_devices, n_stages, n_stages - copies);
    for (s = 0; s < n_stages; s++) {
        asked.stages[s] = (struct pst_schedule_stage){
            .device = device_of == NULL ? s : device_of[s],
            .microbatch_size = 1,
            .n_microbatches = n_microbatches / copies,
            .k = 1,
            .forward_ns = costs->forward_ns,
            .backward_input_ns = costs->backward_input_ns,
            .backward_weight_ns = costs->backward_weight_ns,
            .saved_bytes = costs->saved_bytes,
            .saved_weight_bytes = costs->saved_weight_bytes,
        };
    }
    for (s = 0; s + 1 < n_stages; s++) {
        bool apart = asked.stages[s].device != asked.stages[s + 1].device;

        if ((s + 1) % (n_stages / copies) != 0) {
            asked.links[n_links++] = (struct pst_schedule_link){
                .from = s, .to = s + 1, .transfer_ns = apart ? costs->latency_ns : 0};
        }
    }
    for (s = 0; s < n_devices; s++) {
        asked.activation_bytes[s] = costs->limit_bytes;
    }
    asked.in.barrier = costs->barrier;
    pst_order_question_connect(&asked);
    return asked;
}

struct pst_order_question pst_order_question_shares(uint32_t n_devices, uint32_t n_stages,
                                                    const uint32_t *device_of,
                                                    uint32_t n_microbatches,
                                                    const struct pst_order_question_costs *costs)
{
    struct pst_order_question asked =
        pst_order_question_line(n_devices, n_stages, device_of, n_microbatches, costs);
    uint32_t *counts = pst_alloc(n_devices, sizeof *counts); /* stages of each device */

    for (uint32_t s = 0; s < n_stages; s++) {
        counts[asked.stages[s].device]++;
    }
    for (uint32_t s = 0; s < n_stages; s++) {
        struct pst_schedule_stage *stage = &asked.stages[s];
        uint32_t n = counts[stage->device] / (costs->copies > 1 ? costs->copies : 1);

        stage->forward_ns /= n;
        stage->backward_input_ns /= n;
        stage->backward_weight_ns /= n;
        stage->saved_bytes /= n;
        stage->saved_weight_bytes /= n;
    }
    free(counts);
    return asked;
}

pst_status pst_order_question_check_microbatches(const struct pst_instance *scheduler,
                                                 const struct pst_topology *topology, uint32_t n,
                                                 struct pst_error *err)
{
    uint32_t least = topology->min_microbatches, multiple = topology->microbatch_multiple;
    uint32_t copies = pst_topology_copies(topology);

    if (n % copies != 0) {
        return pst_fail(err, PST_ERR_INFEASIBLE, "plan.infeasible",
                        "scheduler \"%s\" sends as many micro-batches one way as the other, so "
                        "their number must be even, not %u",
                        scheduler->plugin->id, n);
    }
    if (n < least) {
        return pst_fail(err, PST_ERR_INFEASIBLE, "plan.infeasible",
                        "scheduler \"%s\" needs at least %u micro-batches, not %u",
                        scheduler->plugin->id, least, n);
    }
    if (multiple > 1 && n % multiple != 0) {
        return pst_fail(err, PST_ERR_INFEASIBLE, "plan.infeasible",
                        "scheduler \"%s\" needs a number of micro-batches that is a multiple of "
                        "%u, such as %llu, not %u",
                        scheduler->plugin->id, multiple, (n / multiple + 1ull) * multiple, n);
    }
    return PST_OK;
}

pst_status pst_order_question_check_shape(struct pst_instance *scheduler, uint32_t n_devices,
                                          uint32_t n_microbatches, struct pst_error *err)
{
    struct pst_order_question_shape shape;
    bool fixed;
    pst_status status = pst_order_question_shape(scheduler, &fixed, &shape, err);

    if (status == PST_OK && fixed &&
        (shape.n_devices != n_devices || shape.n_microbatches != n_microbatches)) {
        status =
            pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                     "scheduler \"%s\" holds an order for %u devices and %u micro-batches, not "
                     "for %u and %u",
                     scheduler->plugin->id, shape.n_devices, shape.n_microbatches, n_devices,
                     n_microbatches);
    }
    return status;
}

void pst_order_question_finish(struct pst_order_question *asked)
{
    pst_arena_finish(&asked->arena);
    memset(asked, 0, sizeof *asked);
}

/* --- batches in a row, as one order ------------------------------------------------------------*/

/* Copies the question with as many micro-batches as all batches have. */
static pst_status repeat_question(const struct pst_schedule_in *in, uint32_t n_batches,
                                  struct pst_batches *stream, struct pst_error *err)
{
    struct pst_schedule_stage *stages =
        pst_arena_array(&stream->arena, in->n_stages, sizeof *stages);

    for (uint32_t s = 0; s < in->n_stages; s++) {
        stages[s] = *pst_schedule_stage_at(in, s);
        if ((uint64_t)stages[s].n_microbatches * n_batches >= PST_NONE) {
            return pst_fail(err, PST_ERR_CONFIG, "config.limit",
                            "%u batches of %u micro-batches are too many", n_batches,
                            stages[s].n_microbatches);
        }
        stages[s].n_microbatches *= n_batches;
    }
    stream->in = *in;
    stream->in.stages = stages;
    stream->in.stage_size = sizeof *stages;
    return PST_OK;
}

static void append_batch(const struct pst_orders *answer, const struct pst_schedule_in *in,
                         uint32_t part, uint32_t device, uint32_t batch, struct pst_batches *stream)
{
    struct pst_pass *to = stream->passes[device] + stream->n_passes[device];
    uint32_t n = answer->n_passes[part] == NULL ? 0 : answer->n_passes[part][device];

    for (uint32_t i = 0; i < n; i++) {
        to[i] = answer->passes[part][device][i];
        to[i].microbatch += batch * pst_schedule_stage_at(in, to[i].stage)->n_microbatches;
    }
    stream->n_passes[device] += n;
}

static pst_status repeat_device(const struct pst_orders *answer, const struct pst_schedule_in *in,
                                uint32_t n_batches, uint32_t device, struct pst_batches *stream,
                                struct pst_error *err)
{
    uint64_t n[PST_PARTS], all;
    uint32_t n_body = answer->asynchronous ? n_batches - 1 : n_batches, t;

    for (uint32_t part = PST_FILL; part <= PST_DRAIN; part++) {
        n[part] = answer->n_passes[part] == NULL ? 0 : answer->n_passes[part][device];
    }
    all = n[PST_FILL] + n[PST_BODY] * n_body + n[PST_DRAIN];
    if (all >= PST_NONE) {
        return pst_fail(err, PST_ERR_CONFIG, "config.limit", "%u batches have too many passes",
                        n_batches);
    }
    stream->passes[device] = pst_arena_array(&stream->arena, (size_t)all, sizeof **stream->passes);
    append_batch(answer, in, PST_FILL, device, 0, stream);
    for (t = 0; t < n_body; t++) {
        append_batch(answer, in, PST_BODY, device, t, stream);
    }
    append_batch(answer, in, PST_DRAIN, device, n_batches - 1, stream);
    return PST_OK;
}

pst_status pst_batches_unroll(const struct pst_orders *answer, const struct pst_schedule_in *in,
                              uint32_t n_batches, struct pst_batches *ret_stream,
                              struct pst_error *err)
{
    struct pst_batches stream = {.passes = NULL};
    pst_status status = repeat_question(in, n_batches, &stream, err);

    stream.passes = pst_arena_array(&stream.arena, in->n_devices, sizeof *stream.passes);
    stream.n_passes = pst_arena_array(&stream.arena, in->n_devices, sizeof *stream.n_passes);
    for (uint32_t d = 0; status == PST_OK && d < in->n_devices; d++) {
        status = repeat_device(answer, in, n_batches, d, &stream, err);
    }
    if (status != PST_OK) {
        pst_batches_finish(&stream);
        return status;
    }
    *ret_stream = stream;
    return PST_OK;
}

void pst_batches_finish(struct pst_batches *stream)
{
    pst_arena_finish(&stream->arena);
    memset(stream, 0, sizeof *stream);
}

pst_status pst_batches_evaluate(const struct pst_orders *answer, const struct pst_schedule_in *in,
                                uint32_t n_batches, struct pst_batches *ret_stream,
                                struct pst_order_eval *ret_eval, struct pst_error *err)
{
    pst_status status = pst_batches_unroll(answer, in, n_batches, ret_stream, err);

    return status == PST_OK ? pst_order_evaluate(&ret_stream->in,
                                                 (const struct pst_pass *const *)ret_stream->passes,
                                                 ret_stream->n_passes, ret_eval, err)
                            : status;
}
