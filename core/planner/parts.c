/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const pass_names[] = {"?", "F", "B", "W", "BW"};

const char *pst_part_name(uint32_t part)
{
    static const char *const names[PST_PARTS] = {"fill", "body", "drain"};

    return part < PST_PARTS ? names[part] : "?";
}

/* Some batches in a row. */
struct stream {
    const struct pst_schedule_in *in;
    struct pst_pass *const *const *passes;
    const uint32_t *const *n_passes;
    uint32_t n_batches;
    uint8_t *done; /* bit per pass, by stage and micro-batch of all batches */
    size_t *base;  /* [stage] first of its micro-batches */
    char *fault;
    size_t room;
};

static uint32_t count_of(const struct stream *stream, uint32_t stage)
{
    return pst_schedule_stage_at(stream->in, stage)->n_microbatches;
}

static bool take(struct stream *stream, uint32_t part, uint32_t batch, uint32_t device,
                 const struct pst_pass *pass)
{
    uint32_t m = count_of(stream, pass->stage);
    uint64_t number = (uint64_t)batch * m + pass->microbatch;
    uint8_t bit = (uint8_t)(1u << pass->op), before, excluded;
    uint8_t *done;
    const char *what = NULL;

    if (number >= (uint64_t)stream->n_batches * m) {
        snprintf(stream->fault, stream->room,
                 "%s of device %u runs %s of micro-batch %u on stage %u, of a batch that is never "
                 "closed",
                 pst_part_name(part), device, pass_names[pass->op], pass->microbatch, pass->stage);
        return false;
    }
    done = &stream->done[stream->base[pass->stage] + number];
    before = pass->op == PST_PASS_F   ? 0
             : pass->op == PST_PASS_W ? 1u << PST_PASS_B
                                      : 1u << PST_PASS_F;
    excluded = (uint8_t)(bit | (pass->op == PST_PASS_BW  ? 1u << PST_PASS_B | 1u << PST_PASS_W
                                : pass->op != PST_PASS_F ? 1u << PST_PASS_BW
                                                         : 0));
    if ((*done & excluded) != 0) {
        what = "twice";
    } else if ((*done & before) != before) {
        what = pass->op == PST_PASS_W ? "before its B" : "before its F";
    }
    if (what != NULL) {
        snprintf(stream->fault, stream->room,
                 "%s of micro-batch %u on stage %u comes %s: in %s, after %s", pass_names[pass->op],
                 pass->microbatch, pass->stage, what, pst_part_name(part),
                 batch == 0 ? "fill" : "fill and body");
        return false;
    }
    *done |= bit;
    return true;
}

static bool run(struct stream *stream)
{
    const uint8_t fused = 1u << PST_PASS_F | 1u << PST_PASS_BW;
    const uint8_t split = 1u << PST_PASS_F | 1u << PST_PASS_B | 1u << PST_PASS_W;

    for (uint32_t d = 0; d < stream->in->n_devices; d++) {
        for (uint32_t k = 0; k <= stream->n_batches; k++) {
            uint32_t part = k == 0 ? PST_FILL : k < stream->n_batches ? PST_BODY : PST_DRAIN;

            for (uint32_t i = 0; i < stream->n_passes[part][d]; i++) {
                if (!take(stream, part, k == 0 ? 0 : k - 1, d, &stream->passes[part][d][i])) {
                    return false;
                }
            }
        }
    }
    for (uint32_t s = 0; s < stream->in->n_stages; s++) {
        uint32_t m = count_of(stream, s);

        for (uint32_t j = 0; j < m * stream->n_batches; j++) {
            uint8_t done = stream->done[stream->base[s] + j];

            if (done != fused && done != split) {
                snprintf(
                    stream->fault, stream->room,
                    "micro-batch %u of stage %u never gets its %s in batch %u of %u; asynchronous "
                    "schedules run n batches as fill, n - 1 times body, drain",
                    j % m, s,
                    done == 0                          ? "F"
                    : (done & (1u << PST_PASS_B)) != 0 ? "W"
                                                       : "backward",
                    j / m, stream->n_batches);
                return false;
            }
        }
    }
    return true;
}

pst_status pst_parts_complete(const struct pst_schedule_in *in,
                              struct pst_pass *const *const passes[PST_PARTS],
                              const uint32_t *const n_passes[PST_PARTS], char *ret_fault,
                              size_t room, bool *ret_complete)
{
    struct stream stream = {in, passes, n_passes, 0, NULL, NULL, ret_fault, room};
    size_t n = 0;
    bool complete = true;

    stream.base = calloc(in->n_stages + (size_t)1, sizeof *stream.base);
    for (uint32_t s = 0; stream.base != NULL && s < in->n_stages; s++) {
        stream.base[s] = n;
        n += 3 * (size_t)pst_schedule_stage_at(in, s)->n_microbatches;
    }
    stream.done = malloc(n + 1);
    if (stream.base == NULL || stream.done == NULL) {
        free(stream.base);
        free(stream.done);
        return PST_ERR_NOMEM;
    }
    for (stream.n_batches = 1; complete && stream.n_batches <= 3; stream.n_batches += 2) {
        memset(stream.done, 0, n);
        complete = run(&stream);
    }
    free(stream.base);
    free(stream.done);
    *ret_complete = complete;
    return PST_OK;
}
