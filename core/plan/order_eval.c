/* SPDX-License-Identifier: Apache-2.0
 *
 * An order on its own: what the passes of a scheduler's answer need and take, for pst_order_run,
 * and what follows from their times.
 */
#include "plan/order_eval.h"

#include <string.h>

#include "plan/order_run.h"

enum { KINDS = 4 }; /* of passes: F, B, W, R */

/* A slot is a possible pass: (stage, microbatch, kind). */
struct work {
    const struct pst_schedule_in *in;
    const struct pst_pass *const *passes;
    const uint32_t *n_passes;
    struct pst_arena arena;
    uint64_t *first_slot; /* [n_stages] */
    uint32_t *position;   /* [slot] in the list of its device; PST_NONE: in no list */
    uint64_t n_slots;
};

static inline const struct pst_schedule_stage *stage_of(const struct work *w, uint32_t s)
{
    return pst_schedule_stage_at(w->in, s);
}

/* The slot of a pass; BW has that of B. */
static uint64_t slot_of(const struct work *w, const struct pst_pass *pass)
{
    static const uint8_t kinds[] = {
        [PST_PASS_F] = 0, [PST_PASS_B] = 1, [PST_PASS_W] = 2, [PST_PASS_BW] = 1, [PST_PASS_R] = 3};

    return w->first_slot[pass->stage] + (uint64_t)pass->microbatch * KINDS + kinds[pass->op];
}

static pst_status work_init(struct work *w, struct pst_error *err)
{
    w->first_slot = pst_arena_array(&w->arena, w->in->n_stages, sizeof *w->first_slot);
    for (uint32_t s = 0; s < w->in->n_stages; s++) {
        w->first_slot[s] = w->n_slots;
        w->n_slots += (uint64_t)stage_of(w, s)->n_microbatches * KINDS;
    }
    if (w->n_slots >= PST_NONE) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "config.limit",
                        "%llu passes are too many to time", (unsigned long long)w->n_slots);
    }
    w->position = pst_arena_none(&w->arena, w->n_slots);
    return PST_OK;
}

/* Gives every pass its slot; refuses what has none. */
static pst_status place_passes(struct work *w, struct pst_error *err)
{
    for (uint32_t d = 0; d < w->in->n_devices; d++) {
        for (uint32_t i = 0; i < w->n_passes[d]; i++) {
            const struct pst_pass *pass = &w->passes[d][i];
            uint32_t *position;

            if (pass->op < PST_PASS_F || pass->op > PST_PASS_R || pass->stage >= w->in->n_stages ||
                stage_of(w, pass->stage)->device != d ||
                pass->microbatch >= stage_of(w, pass->stage)->n_microbatches) {
                return pst_fail(err, PST_ERR_BUG, "plan.illegal",
                                "pass %u of device %u (stage %u, micro-batch %u) does not belong "
                                "there",
                                i, d, pass->stage, pass->microbatch);
            }
            position = &w->position[slot_of(w, pass)];
            if (*position != PST_NONE) {
                return pst_fail(err, PST_ERR_BUG, "plan.illegal",
                                "%s of micro-batch %u on stage %u comes twice on device %u",
                                pst_instr_name(pass->op), pass->microbatch, pass->stage, d);
            }
            *position = i;
        }
    }
    return PST_OK;
}

/* The micro-batches of `other`, from the first on, that share samples with one of `stage`. */
static uint32_t count_shared(const struct pst_schedule_stage *stage, uint32_t microbatch,
                             const struct pst_schedule_stage *other, uint32_t *ret_first)
{
    const uint64_t size = stage->microbatch_size > 0 ? stage->microbatch_size : 1;
    const uint64_t other_size = other->microbatch_size > 0 ? other->microbatch_size : 1;
    const uint64_t behind = (((uint64_t)microbatch + 1) * size - 1) / other_size + 1;
    const uint32_t end = behind < other->n_microbatches ? (uint32_t)behind : other->n_microbatches;

    *ret_first = (uint32_t)(microbatch * size / other_size);
    return end > *ret_first ? end - *ret_first : 0;
}

static struct pst_order_need need_of(const struct work *w, uint32_t op, uint32_t stage,
                                     uint32_t microbatch)
{
    const struct pst_pass pass = {(uint8_t)op, stage, microbatch};

    return (struct pst_order_need){
        .at = {stage_of(w, stage)->device, w->position[slot_of(w, &pass)]}, .pass = pass};
}

static bool is_replayed(const struct work *w, const struct pst_pass *pass)
{
    return need_of(w, PST_PASS_R, pass->stage, pass->microbatch).at.position != PST_NONE;
}

/* Need number i of a pass: its own earlier passes, then each pass beyond a link that shares samples
   with it. */
static bool find_need(const void *of, uint32_t device, const struct pst_pass *pass, uint32_t i,
                      struct pst_order_need *ret_need)
{
    const struct work *w = of;
    const struct pst_schedule_stage *stage = stage_of(w, pass->stage);
    const bool forward = pass->op == PST_PASS_F;
    const bool backward = pass->op == PST_PASS_B || pass->op == PST_PASS_BW;
    const uint32_t n_links = forward ? stage->n_pred : backward ? stage->n_succ : 0;

    if (!forward && i-- == 0) {
        *ret_need = need_of(w, pass->op == PST_PASS_W ? PST_PASS_B : PST_PASS_F, pass->stage,
                            pass->microbatch);
        return true;
    }
    if (backward && is_replayed(w, pass) && i-- == 0) {
        *ret_need = need_of(w, PST_PASS_R, pass->stage, pass->microbatch);
        return true;
    }
    for (uint32_t l = 0; l < n_links; l++) {
        const struct pst_schedule_link *link = pst_schedule_link_at(
            w->in, forward ? stage->first_pred + l : w->in->out_links[stage->first_succ + l]);
        const uint32_t other = forward ? link->from : link->to;
        uint32_t first, n = count_shared(stage, pass->microbatch, stage_of(w, other), &first);

        if (i < n) {
            *ret_need = need_of(w, forward ? PST_PASS_F : PST_PASS_B, other, first + i);
            ret_need->latency_ns = ret_need->at.device != device ? link->transfer_ns : 0;
            return true;
        }
        i -= n;
    }
    return false;
}

static uint64_t duration_of(const void *of, const struct pst_pass *pass)
{
    const struct work *w = of;
    const struct pst_schedule_stage *s = stage_of(w, pass->stage);
    uint64_t back = s->backward_input_ns;

    if (pass->op == PST_PASS_F) {
        return s->forward_ns;
    }
    if (pass->op == PST_PASS_R) {
        return s->replay_ns;
    }
    if (pass->op == PST_PASS_W) {
        return s->backward_weight_ns;
    }
    if (is_replayed(w, pass)) {
        back -= back < s->replay_ns ? back : s->replay_ns;
    }
    return pass->op == PST_PASS_B ? back : back + s->backward_weight_ns;
}

/* --- results -----------------------------------------------------------------------------------*/

static void note_times(const struct work *w, struct pst_order_eval *eval,
                       struct pst_order_place *ret_last)
{
    *ret_last = (struct pst_order_place){PST_NONE, PST_NONE};
    for (uint32_t d = 0; d < w->in->n_devices; d++) {
        uint32_t n = w->n_passes[d];
        uint64_t end, span;

        for (uint32_t i = 0; i < n; i++) {
            const uint64_t took = duration_of(w, &w->passes[d][i]);

            eval->start_ns[d][i] = eval->end_ns[d][i] - took;
            eval->busy_ns[d] += took;
        }
        if (n == 0) {
            continue;
        }
        end = eval->end_ns[d][n - 1];
        span = end - eval->start_ns[d][0];
        if (ret_last->device == PST_NONE || end > eval->makespan_ns) {
            eval->makespan_ns = end;
            *ret_last = (struct pst_order_place){d, n - 1};
        }
        eval->span_ns = span > eval->span_ns ? span : eval->span_ns;
        eval->work_ns = eval->busy_ns[d] > eval->work_ns ? eval->busy_ns[d] : eval->work_ns;
    }
}

/* Records the critical path, from the pass that ends last back to the one that starts at 0. */
static void note_critical(struct pst_order_place *const *before, struct pst_order_eval *eval,
                          struct pst_order_place last)
{
    struct pst_order_place at;
    uint32_t n = 0;

    for (at = last; at.device != PST_NONE; at = before[at.device][at.position]) {
        n++;
    }
    eval->critical = pst_arena_array(&eval->arena, n, sizeof *eval->critical);
    eval->n_critical = n;
    for (at = last; n-- > 0; at = before[at.device][at.position]) {
        eval->critical[n][0] = at.device;
        eval->critical[n][1] = at.position;
    }
}

static uint64_t peak_of(const struct work *w, uint32_t device)
{
    uint64_t live = 0, peak = 0;

    for (uint32_t i = 0; i < w->n_passes[device]; i++) {
        const struct pst_pass *pass = &w->passes[device][i];
        uint64_t more, less;

        pst_order_held(stage_of(w, pass->stage), pass->op, &more, &less);
        live += more;
        peak = live > peak ? live : peak;
        live -= less;
    }
    return peak;
}

static void eval_init(const struct work *w, const struct pst_order_run *run,
                      struct pst_order_eval *eval)
{
    uint32_t n = w->in->n_devices;

    eval->n_devices = n;
    eval->n_transfers = run->n_transfers;
    eval->end_ns = run->end_ns;
    eval->start_ns = pst_arena_array(&eval->arena, n, sizeof *eval->start_ns);
    eval->busy_ns = pst_arena_array(&eval->arena, n, sizeof *eval->busy_ns);
    eval->peak_bytes = pst_arena_array(&eval->arena, n, sizeof *eval->peak_bytes);
    for (uint32_t d = 0; d < n; d++) {
        eval->start_ns[d] = pst_arena_array(&eval->arena, w->n_passes[d], sizeof **eval->start_ns);
    }
}

pst_status pst_order_evaluate(const struct pst_schedule_in *in,
                              const struct pst_pass *const *passes, const uint32_t *n_passes,
                              struct pst_order_eval *ret_eval, struct pst_error *err)
{
    struct work w = {.in = in, .passes = passes, .n_passes = n_passes};
    struct pst_order_eval eval = {.n_devices = 0};
    struct pst_order_run run = {.n_devices = in->n_devices,
                                .passes = passes,
                                .n_passes = n_passes,
                                .of = &w,
                                .need = find_need,
                                .duration_ns = duration_of,
                                .rule = "",
                                .tells_before = true};
    struct pst_order_place last;
    pst_status status = work_init(&w, err);

    PST_TRY(status, place_passes(&w, err));
    PST_TRY(status, pst_order_run(&run, &eval.arena, err));
    if (status == PST_OK) {
        eval_init(&w, &run, &eval);
        for (uint32_t d = 0; d < in->n_devices; d++) {
            eval.peak_bytes[d] = peak_of(&w, d);
        }
        note_times(&w, &eval, &last);
        note_critical(run.before, &eval, last);
    }
    pst_arena_finish(&w.arena);
    if (status != PST_OK) {
        pst_order_eval_finish(&eval);
        return status;
    }
    *ret_eval = eval;
    return PST_OK;
}

void pst_order_eval_finish(struct pst_order_eval *eval)
{
    pst_arena_finish(&eval->arena);
    memset(eval, 0, sizeof *eval);
}
