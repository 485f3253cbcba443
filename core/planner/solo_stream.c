/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches in a row, as one order.
 */
#include <string.h>

#include "planner/solo.h"

enum { FILL, BODY, DRAIN };

/* The same question with as many micro-batches as all batches have. */
static pst_status repeat_question(const struct pst_schedule_in *in, uint32_t n_batches,
                                  struct pst_solo_stream *stream, struct pst_error *err)
{
    struct pst_schedule_stage *stages =
        pst_arena_array(&stream->arena, in->n_stages, sizeof *stages);

    if (stages == NULL) {
        return pst_fail_nomem(err);
    }
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

static void append(const struct pst_orders *answer, const struct pst_schedule_in *in, uint32_t part,
                   uint32_t device, uint32_t batch, struct pst_solo_stream *stream)
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
                                uint32_t n_batches, uint32_t device, struct pst_solo_stream *stream,
                                struct pst_error *err)
{
    uint64_t n[3], all;
    uint32_t n_body = answer->asynchronous ? n_batches - 1 : n_batches, t;

    for (uint32_t part = FILL; part <= DRAIN; part++) {
        n[part] = answer->n_passes[part] == NULL ? 0 : answer->n_passes[part][device];
    }
    all = n[FILL] + n[BODY] * n_body + n[DRAIN];
    if (all >= PST_NONE) {
        return pst_fail(err, PST_ERR_CONFIG, "config.limit", "%u batches have too many passes",
                        n_batches);
    }
    stream->passes[device] = pst_arena_array(&stream->arena, (size_t)all, sizeof **stream->passes);
    if (stream->passes[device] == NULL) {
        return pst_fail_nomem(err);
    }
    append(answer, in, FILL, device, 0, stream);
    for (t = 0; t < n_body; t++) {
        append(answer, in, BODY, device, t, stream);
    }
    append(answer, in, DRAIN, device, n_batches - 1, stream);
    return PST_OK;
}

pst_status pst_solo_unroll(const struct pst_orders *answer, const struct pst_schedule_in *in,
                           uint32_t n_batches, struct pst_solo_stream *ret_stream,
                           struct pst_error *err)
{
    struct pst_solo_stream stream = {.passes = NULL};
    pst_status st = repeat_question(in, n_batches, &stream, err);

    if (st == PST_OK) {
        stream.passes = pst_arena_array(&stream.arena, in->n_devices, sizeof *stream.passes);
        stream.n_passes = pst_arena_array(&stream.arena, in->n_devices, sizeof *stream.n_passes);
        st = stream.passes == NULL || stream.n_passes == NULL ? pst_fail_nomem(err) : PST_OK;
    }
    for (uint32_t d = 0; st == PST_OK && d < in->n_devices; d++) {
        st = repeat_device(answer, in, n_batches, d, &stream, err);
    }
    if (st != PST_OK) {
        pst_solo_stream_finish(&stream);
        return st;
    }
    *ret_stream = stream;
    return PST_OK;
}

void pst_solo_stream_finish(struct pst_solo_stream *stream)
{
    pst_arena_finish(&stream->arena);
    memset(stream, 0, sizeof *stream);
}
