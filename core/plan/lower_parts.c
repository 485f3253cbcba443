/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowering of an asynchronous plan: some batches in a row are timed like one large step, which
 * proves the order complete and free of cycles; then the parts are cut where the optimizer step
 * goes: the ranks of the unrolled lists halt before some pass, transfers meet at both ends, each
 * queue first in, first out; where all stand then, a meeting of all can be put.
 */
#include <string.h>
#include "plan/lower.h"

/* So many batches are timed. By the third the pipeline runs evenly; the step of that is placed
   among the passes of the fourth, and the fifth is the drain. */
#define TIMED_BATCHES 5u
#define PLACED_BATCH  2u

struct cutter {
    struct pst_plan *plan;
    struct pst_lowering low; /* over the timed batches */
    struct pst_plan view;    /* the plan with so many batches; shares everything else */
    const struct pst_pass *const *const *passes; /* [part][rank] as the scheduler gave them */
    const uint32_t *const *n_passes;
    struct pst_pass **cut[PST_PARTS]; /* as they are written */
    uint32_t *n_cut[PST_PARTS];
};

static struct pst_pass shift_pass(const struct pst_plan *plan, struct pst_pass pass,
                                  uint32_t batches)
{
    pass.microbatch += batches * plan->stages[pass.stage].n_microbatches;
    return pass;
}

/* Where every micro-batch makes an update, those of a batch are made by the part that closes it. */
static pst_status check_updates(const struct cutter *c, struct pst_error *err)
{
    const struct pst_plan *plan = c->plan;

    for (uint32_t i = 0;
         plan->version_rule == PST_VERSION_STASHED && i < PST_PARTS * plan->n_devices; i++) {
        const uint32_t part = i / plan->n_devices, r = i % plan->n_devices;

        for (uint32_t p = 0; p < c->n_passes[part][r]; p++) {
            const struct pst_pass *pass = &c->passes[part][r][p];

            if (pass->op >= PST_PASS_W &&
                (part == PST_FILL ||
                 pass->microbatch >= plan->stages[pass->stage].n_microbatches)) {
                return pst_fail(err, PST_ERR_BUG, "plan.illegal",
                                "PASS1: device %u, part %u, pass %u: stage %u, micro-batch %u; "
                                "a part makes updates of the batch that it closes alone",
                                r, part, p, pass->stage, pass->microbatch);
            }
        }
    }
    return PST_OK;
}

/* Fill, bodies and drain of a rank, one behind the other. */
static uint32_t copy_all(const struct cutter *c, uint32_t rank, struct pst_pass *to)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k <= TIMED_BATCHES; k++) {
        uint32_t part = k == 0 ? PST_FILL : k < TIMED_BATCHES ? PST_BODY : PST_DRAIN;
        uint32_t batch = k == 0 ? 0 : k - 1;

        for (uint32_t i = 0; i < c->n_passes[part][rank]; i++) {
            to[n++] = shift_pass(c->plan, c->passes[part][rank][i], batch);
        }
    }
    return n;
}

/* The view, and the order of all its passes. */
static pst_status make_view(struct cutter *c, struct pst_error *err)
{
    struct pst_plan *plan = c->plan;
    struct pst_arena *arena = &c->low.arena;
    struct pst_pass **orders = pst_arena_array(arena, plan->n_devices, sizeof *orders);
    uint32_t *n_passes = pst_arena_array(arena, plan->n_devices, sizeof *n_passes);

    if ((uint64_t)plan->batch * (TIMED_BATCHES + 1) > UINT32_MAX / 2) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                        "a batch of %u samples is too large for an asynchronous plan", plan->batch);
    }
    pst_plan_view(plan, TIMED_BATCHES, arena, &c->view);
    for (uint32_t r = 0; r < plan->n_devices; r++) {
        size_t n = (size_t)c->n_passes[PST_FILL][r] + c->n_passes[PST_DRAIN][r] +
                   (TIMED_BATCHES - 1) * (size_t)c->n_passes[PST_BODY][r];

        orders[r] = pst_arena_array(arena, n, sizeof **orders);
        n_passes[r] = copy_all(c, r, orders[r]);
    }
    c->low.plan = &c->view;
    c->low.orders = (const struct pst_pass *const *)orders;
    c->low.n_passes = n_passes;
    return PST_OK;
}

/* --- where the step goes -----------------------------------------------------------------------*/

/* An update after every micro-batch leaves no time to meet anybody. */
static pst_status check_stashed(const struct pst_plan *plan, const struct pst_graph *graph,
                                struct pst_error *err)
{
    if (plan->version_rule != PST_VERSION_STASHED) {
        return PST_OK;
    }
    if (plan->barrier) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                        "each stage updates its weights after every micro-batch, so there is no "
                        "norm of the whole gradient; set train.clip = 0 and train.on_non_finite = "
                        "\"stop\", or use another scheduler");
    }
    for (uint32_t t = 0; t < plan->n_ties; t++) {
        if (plan->ties[t].n_stages > 1) {
            return pst_fail(
                err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                "each stage updates its weights after every micro-batch, but %s belongs "
                "to stages %u and %u, which are never at the same one; set model.tied = "
                "false, or use another scheduler",
                graph->params[plan->ties[t].parameter].name, plan->ties[t].stages[0],
                plan->ties[t].stages[1]);
        }
    }
    for (uint32_t s = 1; s < plan->n_stages; s++) {
        if (plan->stages[s].n_microbatches != plan->stages[0].n_microbatches) {
            return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                            "stages that update their weights after every micro-batch have "
                            "micro-batches of one size, not of %u and %u samples",
                            plan->stages[0].microbatch_size, plan->stages[s].microbatch_size);
        }
    }
    return PST_OK;
}

/* Returns true if a STEP waits for other stages. */
static bool needs_others(const struct pst_plan *plan)
{
    for (uint32_t t = 0; t < plan->n_ties; t++) {
        if (plan->ties[t].n_stages > 1) {
            return true;
        }
    }
    return plan->barrier;
}

/* When the last stage ends the placed batch. */
static uint64_t end_of_batch(const struct cutter *c)
{
    uint64_t end = 0;

    for (uint32_t r = 0; r < c->plan->n_devices; r++) {
        for (uint32_t i = 0; i < c->low.n_passes[r]; i++) {
            const struct pst_pass *pass = &c->low.orders[r][i];
            const uint64_t ns = c->low.end_ns[r][i];

            if (pass->op >= PST_PASS_W && ns > end &&
                pass->microbatch / c->plan->stages[pass->stage].n_microbatches == PLACED_BATCH) {
                end = ns;
            }
        }
    }
    return end;
}

/* Number of passes of a rank before the body in which the step is placed. */
static uint32_t passes_before(const struct cutter *c, uint32_t rank)
{
    return c->n_passes[PST_FILL][rank] + (PLACED_BATCH + 1) * c->n_passes[PST_BODY][rank];
}

/*
 * How many passes of its body a rank runs before the step: those that have begun by time_ns, as far
 * as they are none of the batch that reads the step's weights.
 */
static uint32_t place_step(const struct cutter *c, uint32_t rank, uint64_t time_ns)
{
    uint32_t n = c->n_passes[PST_BODY][rank], cut = 0;
    uint32_t base = passes_before(c, rank);

    for (; cut < n; cut++) {
        const struct pst_pass *pass = &c->passes[PST_BODY][rank][cut];
        uint64_t begin = c->low.end_ns[rank][base + cut] - pst_lowering_pass_ns(&c->low, pass);

        if (pass->microbatch >= c->plan->stages[pass->stage].n_microbatches || begin >= time_ns) {
            break;
        }
    }
    return cut;
}

/* Appends passes first ... end - 1 of a part, some batches on, to a list that is written. */
static void append_passes(struct cutter *c, uint32_t rank, uint32_t to, uint32_t from,
                          uint32_t first, uint32_t end, uint32_t batches)
{
    for (uint32_t i = first; i < end; i++) {
        c->cut[to][rank][c->n_cut[to][rank]++] =
            shift_pass(c->plan, c->passes[from][rank][i], batches);
    }
}

/* Moves the first `cut` passes of body and drain into the parts before them. */
static pst_status cut_rank(struct cutter *c, uint32_t rank, uint32_t cut, struct pst_error *err)
{
    const struct pst_pass *body = c->passes[PST_BODY][rank], *drain = c->passes[PST_DRAIN][rank];

    for (uint32_t i = 0; i < cut; i++) {
        if (i >= c->n_passes[PST_DRAIN][rank] || !pst_pass_same(&body[i], &drain[i])) {
            return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                            "device %u: drain must begin as body does, up to the first pass of the "
                            "next batch; pass %u differs",
                            rank, i);
        }
    }
    for (uint32_t part = 0; part < PST_PARTS; part++) {
        c->cut[part][rank] = pst_arena_array(&c->low.arena, (size_t)c->n_passes[part][rank] + cut,
                                             sizeof(struct pst_pass));
    }
    append_passes(c, rank, PST_FILL, PST_FILL, 0, c->n_passes[PST_FILL][rank], 0);
    append_passes(c, rank, PST_FILL, PST_BODY, 0, cut, 0);
    append_passes(c, rank, PST_BODY, PST_BODY, cut, c->n_passes[PST_BODY][rank], 0);
    append_passes(c, rank, PST_BODY, PST_BODY, 0, cut, 1);
    append_passes(c, rank, PST_DRAIN, PST_DRAIN, cut, c->n_passes[PST_DRAIN][rank], 0);
    return PST_OK;
}

/* Cuts every rank behind `cuts` passes of its body and writes the lists. */
static pst_status write_cut(struct cutter *c, const uint32_t *cuts, bool bare,
                            struct pst_error *err)
{
    struct pst_parts parts = {.plan = c->plan, .low = &c->low, .bare = bare};
    uint32_t n = c->plan->n_devices;
    pst_status status = PST_OK;

    for (uint32_t part = 0; part < PST_PARTS; part++) {
        c->cut[part] = pst_arena_array(&c->low.arena, n, sizeof **c->cut);
        c->n_cut[part] = pst_arena_array(&c->low.arena, n, sizeof **c->n_cut);
    }
    for (uint32_t r = 0; status == PST_OK && r < n; r++) {
        status = cut_rank(c, r, cuts[r], err);
    }
    for (uint32_t part = 0; part < PST_PARTS; part++) {
        parts.passes[part] = (const struct pst_pass *const *)c->cut[part];
        parts.n_passes[part] = c->n_cut[part];
    }
    return status == PST_OK ? pst_lowering_write(&parts, err) : status;
}

static pst_status refuse_skips(struct pst_error *err)
{
    return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                    "rows that skip stages arrive too early for the order of passes: devices would "
                    "wait for each other; use a partition whose stages are a chain, or more "
                    "micro-batches");
}

/* The ranks of a logical device run the same list, so they are cut where the first of them is.
   Whether that changed something. */
static bool align_replicas(const struct pst_plan *plan, uint32_t *cuts)
{
    bool changed = false;

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &plan->stages[s];
        uint32_t least = cuts[stage->ranks[0]];

        for (uint32_t r = 1; r < stage->n_ranks; r++) {
            least = cuts[stage->ranks[r]] < least ? cuts[stage->ranks[r]] : least;
        }
        for (uint32_t r = 0; r < stage->n_ranks; r++) {
            changed |= cuts[stage->ranks[r]] != least;
            cuts[stage->ranks[r]] = least;
        }
    }
    return changed;
}

/* --- how far the ranks get ---------------------------------------------------------------------*/

struct rank {
    const struct pst_instr *list;
    bool *done;
    uint32_t halt, pc, send, recv;
    uint32_t n_passes; /* before pc */
};

/* The first instruction after pass n - 1 and its sends. */
static uint32_t end_of_pass(const struct pst_plan_device *device, uint32_t n)
{
    uint32_t i = 0, passes = 0;

    for (; i < device->n_instrs && passes < n; i++) {
        passes += device->body[i].op <= PST_I_R;
    }
    while (n > 0 && i < device->n_instrs && device->body[i].op != PST_I_RECV &&
           device->body[i].op > PST_I_R) {
        i++;
    }
    return n > 0 ? i : 0;
}

static bool advance_rank(struct rank *rank)
{
    uint32_t before = rank->pc;

    for (; rank->pc < rank->halt; rank->pc++) {
        const struct pst_instr *instr = &rank->list[rank->pc];

        for (uint32_t w = 0; w < instr->n_waits; w++) {
            if (!rank->done[instr->waits[w]]) {
                return rank->pc > before;
            }
        }
        rank->done[rank->pc] = instr->op != PST_I_SEND && instr->op != PST_I_RECV;
        rank->n_passes += instr->op <= PST_I_R;
    }
    return rank->pc > before;
}

/* The first open transfer of a kind; pc: none. */
static uint32_t first_open(const struct rank *rank, uint32_t from, uint8_t op)
{
    while (from < rank->pc && (rank->list[from].op != op || rank->done[from])) {
        from++;
    }
    return from;
}

static bool match_transfers(struct rank *ranks, uint32_t r)
{
    struct rank *self = &ranks[r], *peer;
    const struct pst_instr *send, *recv;

    self->send = first_open(self, self->send, PST_I_SEND);
    if (self->send == self->pc) {
        return false;
    }
    send = &self->list[self->send];
    peer = &ranks[send->peer];
    peer->recv = first_open(peer, peer->recv, PST_I_RECV);
    if (peer->recv == peer->pc) {
        return false;
    }
    recv = &peer->list[peer->recv];
    if (recv->peer != r || recv->stage != send->stage || recv->payload != send->payload ||
        recv->first_sample != send->first_sample) {
        return false;
    }
    self->done[self->send] = peer->done[peer->recv] = true;
    return true;
}

/* io_passes[rank] is the pass number before which a rank of an unrolled plan halts; it becomes the
   number of passes that the rank then completes. */
static void run_until(const struct pst_plan *unrolled, uint32_t *io_passes)
{
    struct pst_arena arena = {0};
    struct rank *ranks = pst_arena_array(&arena, unrolled->n_devices, sizeof *ranks);
    bool moved = true;

    for (uint32_t r = 0; r < unrolled->n_devices; r++) {
        const struct pst_plan_device *device = &unrolled->devices[r];

        ranks[r].list = device->body;
        ranks[r].halt = end_of_pass(device, io_passes[r]);
        ranks[r].done = pst_arena_array(&arena, device->n_instrs, sizeof *ranks[r].done);
    }
    while (moved) {
        moved = false;
        for (uint32_t r = 0; r < unrolled->n_devices; r++) {
            moved |= advance_rank(&ranks[r]);
            while (match_transfers(ranks, r)) {
                moved = true;
            }
        }
    }
    for (uint32_t r = 0; r < unrolled->n_devices; r++) {
        io_passes[r] = ranks[r].n_passes;
    }
    pst_arena_finish(&arena);
}

/* --- the cuts ----------------------------------------------------------------------------------*/

/*
 * Takes cuts back to where the ranks can all get before any of them goes on. *ret_reached false:
 * some do not get to the end of the batch. `passes` is room for one number a rank.
 */
static void reach_cuts(const struct cutter *c, const struct pst_plan *unrolled, uint32_t *passes,
                       uint32_t *io_cuts, bool *ret_reached)
{
    uint32_t n = c->plan->n_devices;
    bool again = true;

    align_replicas(c->plan, io_cuts);
    while (again) {
        *ret_reached = true;
        for (uint32_t r = 0; r < n; r++) {
            passes[r] = passes_before(c, r) + io_cuts[r];
        }
        run_until(unrolled, passes);
        for (uint32_t r = 0; r < n; r++) {
            uint32_t before = passes_before(c, r);

            *ret_reached &= passes[r] >= before;
            io_cuts[r] = passes[r] >= before ? passes[r] - before : 0;
        }
        again = *ret_reached && align_replicas(c->plan, io_cuts);
    }
}

/* Fails unless all lists run to their end, for plans in which ranks need not meet at a STEP. */
static pst_status run_through(const struct cutter *c, const struct pst_plan *unrolled,
                              uint32_t *passes, struct pst_error *err)
{
    pst_status status = PST_OK;

    memcpy(passes, c->low.n_passes, c->plan->n_devices * sizeof *passes);
    run_until(unrolled, passes);
    for (uint32_t r = 0; status == PST_OK && r < c->plan->n_devices; r++) {
        status = passes[r] < c->low.n_passes[r] ? refuse_skips(err) : PST_OK;
    }
    return status;
}

/*
 * In a chain every cut by time is reached: what the passes before it send is received by passes
 * before it. Rows that skip stages are received later, and replicas are not cut by their own times
 * alone. So the lists are tried, halting at the cut by time, and if that is too early for some
 * rank, as late as can be.
 */
static pst_status find_cuts(struct cutter *c, uint32_t *cuts, struct pst_error *err)
{
    const uint64_t times[] = {end_of_batch(c), UINT64_MAX};
    bool deferred = c->plan->deferred_step, reached = !deferred;
    uint32_t n = c->plan->n_devices;
    uint32_t *passes = pst_arena_array(&c->low.arena, n, sizeof *passes);
    struct pst_plan *unrolled = NULL;
    pst_status status;

    status = write_cut(c, cuts, true, err);
    PST_TRY(status, pst_plan_unroll(c->plan, TIMED_BATCHES, 0, &unrolled, err));
    PST_TRY(status, run_through(c, unrolled, passes, err));
    for (uint32_t i = 0; status == PST_OK && !reached && i < 2; i++) {
        for (uint32_t r = 0; r < n; r++) {
            cuts[r] = place_step(c, r, times[i]);
        }
        reach_cuts(c, unrolled, passes, cuts, &reached);
    }
    pst_plan_destroy(unrolled);
    return status == PST_OK && !reached ? refuse_skips(err) : status;
}

pst_status pst_plan_lower_parts(struct pst_plan *plan, const struct pst_graph *graph,
                                const struct pst_cost_model *cost,
                                const struct pst_pass *const *const passes[PST_PARTS],
                                const uint32_t *const n_passes[PST_PARTS], struct pst_error *err)
{
    struct cutter c = {.plan = plan,
                       .low = {.graph = graph, .cost = cost, .training = true},
                       .passes = passes,
                       .n_passes = n_passes};
    uint32_t *cuts = NULL;
    pst_status status = pst_lowering_no_guests(plan, err);

    PST_TRY(status, check_stashed(plan, graph, err));
    PST_TRY(status, check_updates(&c, err));
    PST_TRY(status, make_view(&c, err));
    PST_TRY(status, pst_lowering_prepare(&c.low, err));
    if (status == PST_OK) {
        plan->asynchronous = true;
        plan->version_rule =
            plan->version_rule == PST_VERSION_SYNC ? PST_VERSION_DELAYED : plan->version_rule;
        plan->deferred_step = needs_others(plan);
        cuts = pst_arena_array(&c.low.arena, plan->n_devices, sizeof *cuts);
        status = find_cuts(&c, cuts, err);
    }
    PST_TRY(status, write_cut(&c, cuts, false, err));
    pst_arena_finish(&c.low.arena);
    return status;
}
