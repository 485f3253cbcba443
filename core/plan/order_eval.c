/* SPDX-License-Identifier: Apache-2.0
 *
 * Eager evaluation of an order: a device runs until a pass lacks something, then sleeps at the pass
 * that makes it; who ends that pass wakes it. Every need is looked at once, so time is linear.
 *
 * Of an order that cannot be satisfied the way is shown from a device that waits to the one that it
 * waits for, until a device comes again or what is needed is in no list.
 */
#include "plan/order_eval.h"

#include <stdio.h>
#include <string.h>

enum { KIND_F, KIND_B, KIND_W, KIND_R, KINDS }; /* BW counts as B */

/* Where a device stands within what its next pass needs. */
struct front {
    uint32_t position;
    uint32_t range, offset; /* of the needs of that pass */
    uint32_t decisive;      /* the need that came last; PST_NONE: no need yet */
    uint64_t ready_ns, clock_ns;
    uint32_t waits_for; /* slot, or PST_NONE */
    uint32_t next;      /* device that sleeps at the same slot, or PST_NONE */
};

/* A slot is a possible pass: (stage, microbatch, kind). A node is a pass in a list. */
struct work {
    const struct pst_schedule_in *in;
    const struct pst_pass *const *passes;
    const uint32_t *n_passes;
    struct pst_arena arena;
    uint64_t *first_slot; /* [n_stages] */
    uint32_t *node_of;    /* [slot]; PST_NONE: in no list */
    uint32_t *sleeper;    /* [slot] the first device that sleeps there */
    uint64_t *done_ns;    /* [slot]; UINT64_MAX: not yet */
    uint32_t *first_node; /* [n_devices + 1] */
    uint32_t *before;     /* [node] the node whose end let it start, or PST_NONE */
    uint32_t *device_of;  /* [node] */
    struct front *fronts; /* [n_devices] */
    uint32_t *awake;      /* devices to go on with */
    uint32_t n_awake;
    uint64_t n_slots;
};

static inline const struct pst_schedule_stage *stage_of(const struct work *w, uint32_t s)
{
    return pst_schedule_stage_at(w->in, s);
}

static inline uint64_t slot_of(const struct work *w, uint32_t stage, uint32_t microbatch,
                               uint32_t kind)
{
    return w->first_slot[stage] + (uint64_t)microbatch * KINDS + kind;
}

/* By PST_PASS_*. */
static const uint8_t kind_of_op[] = {
    [PST_PASS_F] = KIND_F,  [PST_PASS_B] = KIND_B, [PST_PASS_W] = KIND_W,
    [PST_PASS_BW] = KIND_B, [PST_PASS_R] = KIND_R,
};

/* Passes of one stage, of successive micro-batches. */
struct range {
    uint32_t stage, kind, first, last;
    uint64_t latency_ns;
    bool crosses; /* comes from another device */
};

static pst_status work_init(struct work *w, struct pst_error *err)
{
    const struct pst_schedule_in *in = w->in;
    uint64_t n_nodes = 0, slot;
    uint32_t s, d;

    w->first_slot = pst_arena_array(&w->arena, in->n_stages, sizeof *w->first_slot);
    w->first_node = pst_arena_array(&w->arena, (size_t)in->n_devices + 1, sizeof *w->first_node);
    w->fronts = pst_arena_array(&w->arena, in->n_devices, sizeof *w->fronts);
    w->awake = pst_arena_array(&w->arena, in->n_devices, sizeof *w->awake);
    for (s = 0; s < in->n_stages; s++) {
        w->first_slot[s] = w->n_slots;
        w->n_slots += (uint64_t)stage_of(w, s)->n_microbatches * KINDS;
    }
    for (d = 0; d < in->n_devices; d++) {
        w->first_node[d] = (uint32_t)n_nodes;
        n_nodes += w->n_passes[d];
    }
    if (n_nodes >= PST_NONE || w->n_slots >= PST_NONE) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "config.limit",
                        "%llu passes are too many to time", (unsigned long long)n_nodes);
    }
    w->first_node[d] = (uint32_t)n_nodes;
    w->node_of = pst_arena_array(&w->arena, w->n_slots, sizeof *w->node_of);
    w->sleeper = pst_arena_array(&w->arena, w->n_slots, sizeof *w->sleeper);
    w->done_ns = pst_arena_array(&w->arena, w->n_slots, sizeof *w->done_ns);
    w->before = pst_arena_array(&w->arena, n_nodes, sizeof *w->before);
    w->device_of = pst_arena_array(&w->arena, n_nodes, sizeof *w->device_of);
    for (slot = 0; slot < w->n_slots; slot++) {
        w->node_of[slot] = PST_NONE;
        w->sleeper[slot] = PST_NONE;
        w->done_ns[slot] = UINT64_MAX;
    }
    return PST_OK;
}

/* Gives every pass its slot; refuses what has none. */
static pst_status place_passes(struct work *w, struct pst_error *err)
{
    for (uint32_t d = 0; d < w->in->n_devices; d++) {
        for (uint32_t i = 0; i < w->n_passes[d]; i++) {
            const struct pst_pass *pass = &w->passes[d][i];
            uint32_t *node;

            if (pass->op < PST_PASS_F || pass->op > PST_PASS_R || pass->stage >= w->in->n_stages ||
                stage_of(w, pass->stage)->device != d ||
                pass->microbatch >= stage_of(w, pass->stage)->n_microbatches) {
                return pst_fail(err, PST_ERR_BUG, "plan.illegal",
                                "pass %u of device %u (stage %u, micro-batch %u) does not belong "
                                "there",
                                i, d, pass->stage, pass->microbatch);
            }
            node = &w->node_of[slot_of(w, pass->stage, pass->microbatch, kind_of_op[pass->op])];
            if (*node != PST_NONE) {
                return pst_fail(err, PST_ERR_BUG, "plan.illegal",
                                "%s of micro-batch %u on stage %u comes twice on device %u",
                                pst_instr_name(pass->op), pass->microbatch, pass->stage, d);
            }
            *node = w->first_node[d] + i;
            w->device_of[*node] = d;
        }
    }
    return PST_OK;
}

/* The micro-batches of `other` that share samples with one of `stage`. */
static void overlap(const struct pst_schedule_stage *stage, uint32_t microbatch,
                    const struct pst_schedule_stage *other, struct range *range)
{
    uint64_t size = stage->microbatch_size > 0 ? stage->microbatch_size : 1;
    uint64_t other_size = other->microbatch_size > 0 ? other->microbatch_size : 1;

    range->first = (uint32_t)(microbatch * size / other_size);
    range->last = (uint32_t)((((uint64_t)microbatch + 1) * size - 1) / other_size);
    if (range->last >= other->n_microbatches) {
        range->last = other->n_microbatches - 1;
    }
}

/* Range number i of what a pass needs; false: there are no more. */
static bool range_at(const struct work *w, const struct pst_pass *pass, uint32_t i,
                     struct range *ret_range)
{
    const struct pst_schedule_stage *stage = stage_of(w, pass->stage);
    bool forward = pass->op == PST_PASS_F;
    const struct pst_schedule_stage *other;
    const struct pst_schedule_link *link;

    *ret_range = (struct range){.stage = pass->stage,
                                .kind = pass->op == PST_PASS_W ? KIND_B : KIND_F,
                                .first = pass->microbatch,
                                .last = pass->microbatch};
    if (!forward && i-- == 0) {
        return true;
    }
    if (pass->op == PST_PASS_B || pass->op == PST_PASS_BW) {
        /* a replay of its own comes first */
        if (w->node_of[slot_of(w, pass->stage, pass->microbatch, KIND_R)] != PST_NONE) {
            ret_range->kind = KIND_R;
            if (i-- == 0) {
                return true;
            }
        }
    } else if (!forward) {
        return false;
    }
    if (i >= (forward ? stage->n_pred : stage->n_succ)) {
        return false;
    }
    link = pst_schedule_link_at(w->in, forward ? stage->first_pred + i
                                               : w->in->out_links[stage->first_succ + i]);
    ret_range->stage = forward ? link->from : link->to;
    ret_range->kind = forward ? KIND_F : KIND_B;
    other = stage_of(w, ret_range->stage);
    overlap(stage, pass->microbatch, other, ret_range);
    ret_range->crosses = other->device != stage->device;
    ret_range->latency_ns = ret_range->crosses ? link->transfer_ns : 0;
    return true;
}

static uint64_t duration(const struct work *w, const struct pst_pass *pass)
{
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
    if (w->node_of[slot_of(w, pass->stage, pass->microbatch, KIND_R)] != PST_NONE) {
        back -= back < s->replay_ns ? back : s->replay_ns;
    }
    return pass->op == PST_PASS_B ? back : back + s->backward_weight_ns;
}

/* Goes on through the needs of the next pass; false: the device sleeps now. */
static bool gather(struct work *w, uint32_t device, uint32_t *n_transfers)
{
    struct front *front = &w->fronts[device];
    const struct pst_pass *pass = &w->passes[device][front->position];
    struct range range;

    for (; range_at(w, pass, front->range, &range); front->range++, front->offset = 0) {
        for (; range.first + front->offset <= range.last; front->offset++) {
            uint64_t slot = slot_of(w, range.stage, range.first + front->offset, range.kind);

            if (w->done_ns[slot] == UINT64_MAX) {
                front->waits_for = (uint32_t)slot;
                front->next = w->sleeper[slot];
                w->sleeper[slot] = device;
                return false;
            }
            *n_transfers += range.crosses;
            if (front->decisive == PST_NONE ||
                w->done_ns[slot] + range.latency_ns > front->ready_ns) {
                front->ready_ns = w->done_ns[slot] + range.latency_ns;
                front->decisive = w->node_of[slot];
            }
        }
    }
    return true;
}

static void wake(struct work *w, uint64_t slot)
{
    uint32_t d = w->sleeper[slot];

    while (d != PST_NONE) {
        uint32_t next = w->fronts[d].next;

        w->fronts[d].waits_for = PST_NONE;
        w->awake[w->n_awake++] = d;
        d = next;
    }
    w->sleeper[slot] = PST_NONE;
}

static void run_pass(struct work *w, uint32_t device, struct pst_order_eval *eval)
{
    struct front *front = &w->fronts[device];
    const struct pst_pass *pass = &w->passes[device][front->position];
    uint32_t node = w->first_node[device] + front->position;
    uint64_t slot = slot_of(w, pass->stage, pass->microbatch, kind_of_op[pass->op]);
    uint64_t start = front->clock_ns > front->ready_ns ? front->clock_ns : front->ready_ns;

    if (front->ready_ns > front->clock_ns) {
        w->before[node] = front->decisive;
    } else {
        w->before[node] = front->position > 0 ? node - 1 : front->decisive;
    }
    eval->start_ns[device][front->position] = start;
    front->clock_ns = start + duration(w, pass);
    eval->end_ns[device][front->position] = front->clock_ns;
    eval->busy_ns[device] += front->clock_ns - start;
    w->done_ns[slot] = front->clock_ns;
    front->position++;
    front->range = front->offset = 0;
    front->ready_ns = 0;
    front->decisive = PST_NONE;
    wake(w, slot);
}

static void run_all(struct work *w, struct pst_order_eval *eval)
{
    for (uint32_t d = w->in->n_devices; d-- > 0;) {
        w->fronts[d].waits_for = w->fronts[d].next = w->fronts[d].decisive = PST_NONE;
        w->awake[w->n_awake++] = d;
    }
    while (w->n_awake > 0) {
        uint32_t d = w->awake[--w->n_awake];

        while (w->fronts[d].position < w->n_passes[d] && gather(w, d, &eval->n_transfers)) {
            run_pass(w, d, eval);
        }
    }
}

/* --- orders that cannot be satisfied ----------------------------------------------------------*/

static void name_slot(const struct work *w, uint64_t slot, char *text, size_t size)
{
    static const char *const kinds[KINDS] = {"F", "B", "W", "R"};
    uint32_t s = 0;

    while (s + 1 < w->in->n_stages && w->first_slot[s + 1] <= slot) {
        s++;
    }
    slot -= w->first_slot[s];
    snprintf(text, size, "%s of micro-batch %u on stage %u", kinds[slot % KINDS],
             (uint32_t)(slot / KINDS), s);
}

/* The device that holds up `device`; PST_NONE: what it needs is in no list. */
static uint32_t blocker(const struct work *w, uint32_t device)
{
    uint32_t node = w->node_of[w->fronts[device].waits_for];

    return node == PST_NONE ? PST_NONE : w->device_of[node];
}

static pst_status fail_stuck(const struct work *w, struct pst_error *err)
{
    char needed[96], own[96];
    uint32_t d = 0, first, i;
    pst_status st = pst_fail(err, PST_ERR_BUG, "plan.illegal",
                             "the order of passes can never be satisfied: devices wait for each "
                             "other in a circle");

    while (w->fronts[d].waits_for == PST_NONE) {
        d++;
    }
    /* Everyone who waits is followed by one other; after n steps it is within a circle. */
    for (i = 0; i < w->in->n_devices && blocker(w, d) != PST_NONE; i++) {
        d = blocker(w, d);
    }
    first = d;
    do {
        const struct front *front = &w->fronts[d];
        const struct pst_pass *pass = &w->passes[d][front->position];

        name_slot(w, front->waits_for, needed, sizeof needed);
        name_slot(w, slot_of(w, pass->stage, pass->microbatch, kind_of_op[pass->op]), own,
                  sizeof own);
        if (blocker(w, d) == PST_NONE) {
            pst_fail(err, PST_ERR_BUG, "plan.illegal",
                     "the order of passes can never be satisfied: %s waits for %s, which is in no "
                     "list",
                     own, needed);
            break;
        }
        pst_error_detail(err, "device %u: %s waits for %s on device %u, which has that behind\n", d,
                         own, needed, blocker(w, d));
        d = blocker(w, d);
    } while (d != first);
    return st;
}

/* --- results -----------------------------------------------------------------------------------*/

static void note_times(const struct work *w, struct pst_order_eval *eval, uint32_t *ret_last)
{
    *ret_last = PST_NONE;
    for (uint32_t d = 0; d < w->in->n_devices; d++) {
        uint32_t n = w->n_passes[d];
        uint64_t end, span;

        if (n == 0) {
            continue;
        }
        end = eval->end_ns[d][n - 1];
        span = end - eval->start_ns[d][0];
        if (*ret_last == PST_NONE || end > eval->makespan_ns) {
            eval->makespan_ns = end;
            *ret_last = w->first_node[d] + n - 1;
        }
        eval->span_ns = span > eval->span_ns ? span : eval->span_ns;
        eval->work_ns = eval->busy_ns[d] > eval->work_ns ? eval->busy_ns[d] : eval->work_ns;
    }
}

/* Records the critical path, from the pass that ends last back to the one that starts at 0. */
static void note_critical(const struct work *w, struct pst_order_eval *eval, uint32_t last)
{
    uint32_t n = 0, node, i;

    for (node = last; node != PST_NONE; node = w->before[node]) {
        n++;
    }
    eval->critical = pst_arena_array(&eval->arena, n, sizeof *eval->critical);
    eval->n_critical = n;
    for (node = last, i = n; node != PST_NONE; node = w->before[node]) {
        uint32_t d = w->device_of[node];

        i--;
        eval->critical[i][0] = d;
        eval->critical[i][1] = node - w->first_node[d];
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

static void eval_init(const struct work *w, struct pst_order_eval *eval)
{
    uint32_t n = w->in->n_devices;

    memset(eval, 0, sizeof *eval);
    eval->n_devices = n;
    eval->start_ns = pst_arena_array(&eval->arena, n, sizeof *eval->start_ns);
    eval->end_ns = pst_arena_array(&eval->arena, n, sizeof *eval->end_ns);
    eval->busy_ns = pst_arena_array(&eval->arena, n, sizeof *eval->busy_ns);
    eval->peak_bytes = pst_arena_array(&eval->arena, n, sizeof *eval->peak_bytes);
    for (uint32_t d = 0; d < n; d++) {
        eval->start_ns[d] = pst_arena_array(&eval->arena, w->n_passes[d], sizeof **eval->start_ns);
        eval->end_ns[d] = pst_arena_array(&eval->arena, w->n_passes[d], sizeof **eval->end_ns);
    }
}

static bool is_stuck(const struct work *w)
{
    for (uint32_t d = 0; d < w->in->n_devices; d++) {
        if (w->fronts[d].position < w->n_passes[d]) {
            return true;
        }
    }
    return false;
}

pst_status pst_order_evaluate(const struct pst_schedule_in *in,
                              const struct pst_pass *const *passes, const uint32_t *n_passes,
                              struct pst_order_eval *ret_eval, struct pst_error *err)
{
    struct work w = {.in = in, .passes = passes, .n_passes = n_passes};
    struct pst_order_eval eval = {.n_devices = 0};
    uint32_t last;
    pst_status st = work_init(&w, err);

    if (st == PST_OK) {
        st = place_passes(&w, err);
    }
    if (st == PST_OK) {
        eval_init(&w, &eval);
    }
    if (st == PST_OK) {
        run_all(&w, &eval);
        st = is_stuck(&w) ? fail_stuck(&w, err) : PST_OK;
    }
    if (st == PST_OK) {
        for (uint32_t d = 0; d < in->n_devices; d++) {
            eval.peak_bytes[d] = peak_of(&w, d);
        }
        note_times(&w, &eval, &last);
        note_critical(&w, &eval, last);
    }
    pst_arena_finish(&w.arena);
    if (st != PST_OK) {
        pst_order_eval_finish(&eval);
        return st;
    }
    *ret_eval = eval;
    return PST_OK;
}

void pst_order_eval_finish(struct pst_order_eval *eval)
{
    pst_arena_finish(&eval->arena);
    memset(eval, 0, sizeof *eval);
}
