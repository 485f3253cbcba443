/* SPDX-License-Identifier: Apache-2.0
 *
 * Is an order of passes complete, and does it run to its end? Each device runs its list; a pass
 * waits for what it reads. Lists are straight lines, so if one run gets stuck, every run does.
 */
#include <string.h>

#include "conformance/answer.h"
#include "conformance/verdict.h"

static const char *const names[] = {"", "F", "B", "W", "BW", "R"};

struct run {
    const struct pst_schedule_in *in;
    uint32_t *base;          /* [n_stages + 1] first row of a stage's micro-batches */
    unsigned char *forward;  /* [row] has been emitted; later: has ended */
    unsigned char *backward; /* [row] B or BW */
    unsigned char *weight;   /* [row] W or BW */
    uint32_t *first;         /* [n_devices + 1] first of `sorted` */
    uint32_t *sorted;        /* passes by device, in order */
};

static uint32_t row(const struct run *run, const struct pst_order_pass *pass)
{
    return run->base[pass->stage] + pass->microbatch;
}

/* Every micro-batch whose samples overlap those of (stage, microbatch) is done on `other`. */
static bool done_on(const struct run *run, const unsigned char *done, uint32_t stage,
                    uint32_t microbatch, uint32_t other)
{
    uint64_t size = pst_schedule_stage_at(run->in, stage)->microbatch_size;
    uint64_t theirs = pst_schedule_stage_at(run->in, other)->microbatch_size;
    uint64_t first = microbatch * size / theirs, last = ((microbatch + 1) * size - 1) / theirs;

    for (uint64_t j = first; j <= last; j++) {
        if (!done[run->base[other] + j]) {
            return false;
        }
    }
    return true;
}

/* The stage that a pass still waits for, or PST_NONE. */
static uint32_t waits_for(const struct run *run, const struct pst_order_pass *pass)
{
    const struct pst_schedule_in *in = run->in;
    const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, pass->stage);
    uint32_t k;

    if (pass->pass == PST_PASS_F) {
        for (k = 0; k < stage->n_pred; k++) {
            uint32_t from = pst_schedule_link_at(in, stage->first_pred + k)->from;

            if (!done_on(run, run->forward, pass->stage, pass->microbatch, from)) {
                return from;
            }
        }
    }
    if (pass->pass == PST_PASS_B || pass->pass == PST_PASS_BW) {
        for (k = 0; k < stage->n_succ; k++) {
            uint32_t to = pst_schedule_link_at(in, in->out_links[stage->first_succ + k])->to;

            if (!done_on(run, run->backward, pass->stage, pass->microbatch, to)) {
                return to;
            }
        }
    }
    return PST_NONE;
}

static void finish_pass(struct run *run, const struct pst_order_pass *pass)
{
    uint32_t r = row(run, pass);

    run->forward[r] |= pass->pass == PST_PASS_F;
    run->backward[r] |= pass->pass == PST_PASS_B || pass->pass == PST_PASS_BW;
    run->weight[r] |= pass->pass == PST_PASS_W || pass->pass == PST_PASS_BW;
}

static void init(struct run *run, const struct pst_schedule_in *in,
                 const struct pst_order_pass *passes, uint32_t n_passes, struct pst_arena *arena)
{
    uint32_t n_rows = 0, s, d, i, at = 0;

    run->in = in;
    run->base = pst_arena_array(arena, in->n_stages + 1, sizeof *run->base);
    run->first = pst_arena_array(arena, in->n_devices + 1, sizeof *run->first);
    run->sorted = pst_arena_array(arena, n_passes + 1, sizeof *run->sorted);
    for (s = 0; s < in->n_stages; s++) {
        run->base[s] = n_rows;
        n_rows += pst_schedule_stage_at(in, s)->n_microbatches;
    }
    run->base[s] = n_rows;
    for (d = 0; d < in->n_devices; d++) {
        run->first[d] = at;
        for (i = 0; i < n_passes; i++) {
            if (passes[i].device == d) {
                run->sorted[at++] = i;
            }
        }
    }
    run->first[d] = at;
    run->forward = pst_arena_array(arena, n_rows, 1);
    run->backward = pst_arena_array(arena, n_rows, 1);
    run->weight = pst_arena_array(arena, n_rows, 1);
}

static bool judge_complete(struct run *run, const struct pst_order_pass *passes, uint32_t n_passes,
                           struct pst_answer *answer)
{
    uint32_t s, j, i, n_rows = run->base[run->in->n_stages];

    for (i = 0; i < n_passes; i++) {
        finish_pass(run, &passes[i]);
    }
    for (s = 0; s < run->in->n_stages; s++) {
        for (j = 0; j < pst_schedule_stage_at(run->in, s)->n_microbatches; j++) {
            uint32_t r = run->base[s] + j;

            if (!run->forward[r] || !run->backward[r] || !run->weight[r]) {
                pst_answer_break(answer, "no %s pass of stage %u for micro-batch %u",
                                 !run->forward[r]    ? "F"
                                 : !run->backward[r] ? "B or BW"
                                                     : "W",
                                 s, j);
                return false;
            }
        }
    }
    memset(run->forward, 0, n_rows);
    memset(run->backward, 0, n_rows);
    memset(run->weight, 0, n_rows);
    return true;
}

static void judge_progress(struct run *run, const struct pst_order_pass *passes,
                           struct pst_arena *arena, struct pst_answer *answer)
{
    uint32_t n_devices = run->in->n_devices, d;
    uint32_t *next = pst_arena_array(arena, n_devices, sizeof *next);
    bool moved = true;

    while (moved) {
        moved = false;
        for (d = 0; d < n_devices; d++) {
            while (run->first[d] + next[d] < run->first[d + 1]) {
                const struct pst_order_pass *pass = &passes[run->sorted[run->first[d] + next[d]]];

                if (waits_for(run, pass) != PST_NONE) {
                    break;
                }
                finish_pass(run, pass);
                next[d]++;
                moved = true;
            }
        }
    }
    for (d = 0; d < n_devices; d++) {
        if (run->first[d] + next[d] < run->first[d + 1]) {
            const struct pst_order_pass *pass = &passes[run->sorted[run->first[d] + next[d]]];

            pst_answer_break(answer,
                             "the order deadlocks: on device %u, %s of stage %u for micro-batch %u "
                             "waits for stage %u, which never comes to it",
                             d, names[pass->pass], pass->stage, pass->microbatch,
                             waits_for(run, pass));
            return;
        }
    }
}

void pst_order_judge(const struct pst_schedule_in *in, const struct pst_order_pass *passes,
                     uint32_t n_passes, struct pst_answer *answer)
{
    struct pst_arena arena = {0};
    struct run run;

    init(&run, in, passes, n_passes, &arena);
    if (judge_complete(&run, passes, n_passes, answer)) {
        judge_progress(&run, passes, &arena, answer);
    }
    pst_arena_finish(&arena);
}
