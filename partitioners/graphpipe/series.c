/* SPDX-License-Identifier: Apache-2.0
 *
 * A series, from its end: the stages of which it consists, one after the other.
 *
 * Positions 2i and 2i + 1 lie before and after operator v_i, v_0 being s and v_p+1 being t. A
 * stage runs from one position to another, over whole gaps and at least one of them; or one gap
 * is a parallel block that falls into groups.
 */
#include <string.h>

#include "probe.h"

/* --- what a stage between two positions costs --------------------------------------------------*/

struct run {
    int64_t comp, sync, p2p;
};

/* One lane's numbers of a stage between two positions. */
static struct run run_of(const struct gp_costs *costs, const struct gp_class *c, uint32_t l,
                         uint32_t from, uint32_t to, const struct gp_start *start,
                         const struct gp_end *end)
{
    uint32_t n = costs->n_lanes, inside = 2 * c->n_ops + 2, to_sum = to < inside ? to : inside;
    const int64_t *comp = c->sums + (size_t)l * c->n_sums;
    struct run r = {comp[to_sum] - comp[from], 0, 0};

    if (from == 0) {
        r.comp += costs->op_classes[start->op].times[l];
    }
    if (to > inside) {
        r.comp += costs->op_classes[end->op].times[l];
    }
    if (costs->comm_model == PST_COMM_MAX) {
        const int64_t *sync = comp + (size_t)n * c->n_sums;

        r.sync = sync[to_sum] - sync[from];
        r.sync += from == 0 ? costs->op_classes[start->op].times[GP_SYNC * n + l] : 0;
        r.sync += to > inside ? costs->op_classes[end->op].times[GP_SYNC * n + l] : 0;
    }
    if (costs->links) {
        size_t at = (size_t)l * (2 * c->n_ops + 4);

        r.p2p = c->left[at + from] + c->right[at + to];
        if (from == 0) {
            const int64_t *op = costs->op_classes[start->op].times;

            r.p2p += op[GP_OUT * n + l] + op[GP_IN * n + l];
        }
        if (to > inside) {
            const int64_t *op = costs->op_classes[end->op].times;

            r.p2p += op[GP_OUT * n + l] + op[GP_IN * n + l];
        }
        if (from % 2 == 1 && to == from + 1) { /* the direct edge of a gap without its ends */
            r.p2p -= 2 * costs->classes[c->kids[from / 2]].times[GP_DIRECT * n + l];
        }
    }
    return r;
}

/* Without what a lane takes. */
static void run_load(const struct gp_probe *probe, const struct gp_class *c, uint32_t from,
                     uint32_t to, const struct gp_start *start, const struct gp_end *end,
                     struct gp_load *load)
{
    const struct gp_costs *costs = probe->costs;
    uint32_t inside = 2 * c->n_ops + 2, to_sum = to < inside ? to : inside, i;

    *load = (struct gp_load){.weight = c->weight[to_sum] - c->weight[from],
                             .saved = c->saved[to_sum] - c->saved[from]};
    for (i = from; costs->workspaces && i < to_sum; i++) {
        load->workspace = c->workspace[i] > load->workspace ? c->workspace[i] : load->workspace;
    }
    for (i = 0; i < 2; i++) {
        if (i == 0 ? from == 0 : to > inside) {
            const struct gp_load *op = &costs->op_classes[i == 0 ? start->op : end->op].load;

            load->weight += op->weight;
            load->saved += op->saved;
            load->workspace = op->workspace > load->workspace ? op->workspace : load->workspace;
        }
    }
}

void gp_run_sums(const struct gp_probe *probe, const struct gp_class *c, uint32_t from, uint32_t to,
                 const struct gp_start *start, const struct gp_end *end, int64_t *scratch,
                 struct gp_stage_sums *ret_sums)
{
    uint32_t n = probe->costs->n_lanes, l;
    struct gp_load load;

    for (l = 0; l < n; l++) {
        struct run r = run_of(probe->costs, c, l, from, to, start, end);

        scratch[l] = r.comp;
        scratch[n + l] = r.sync;
        scratch[2 * n + l] = r.p2p;
    }
    run_load(probe, c, from, to, start, end, &load);
    *ret_sums = (struct gp_stage_sums){scratch,     scratch + n, scratch + 2 * n,
                                       load.weight, load.saved,  load.workspace};
}

/* --- the walk ----------------------------------------------------------------------------------*/

struct walk {
    struct gp_probe *probe;
    const struct gp_class *c;
    const struct gp_start *start; /* NULL: not yet; then no stage begins at s */
    const struct gp_end *end;
    bool whole;              /* may one stage hold both s and t? */
    struct gp_tail *tail;    /* rows from p down to where it is solved so far */
    uint32_t n_levels, last; /* last: position after t, or before it where t is not owned */
    uint32_t *value;         /* [levels] of the stage that begins at a position, of that level */
    struct gp_pick *pick;
    int64_t *scratch; /* [3][n_lanes] */
};

static bool is_virtual(const struct walk *w, uint32_t i)
{
    return w->c->ops[i - 1] == w->probe->costs->n_op_classes - 1;
}

static const uint32_t *row(const struct walk *w, const uint32_t *rows, uint32_t i)
{
    return rows + (size_t)i * w->n_levels;
}

/* Devices for what follows a stage that ends at a position; GP_NEVER: it may not end there. */
static uint32_t rest_of(const struct walk *w, uint32_t from, uint32_t to, uint32_t level)
{
    uint32_t i = to / 2;

    if (i <= w->c->n_ops) {
        bool behind = to % 2 == 1 && !is_virtual(w, i);

        return row(w, behind ? w->tail->without : w->tail->next, i)[level];
    }
    if (to % 2 == 0) {
        return !w->end->own && gp_stage_precedes(w->probe, level, w->end) ? 0 : GP_NEVER;
    }
    if (!w->end->own || level != w->end->level || (from == 0 && !w->whole)) {
        return GP_NEVER;
    }
    return 0;
}

static bool is_stage(const struct walk *w, uint32_t from, uint32_t to)
{
    const uint32_t *real = w->c->real;
    uint32_t end = 2 * w->c->n_ops + 2;

    if (from / 2 >= to / 2) {
        return false;
    }
    return from == 0 || to > end || real[to < end ? to : end] > real[from];
}

static void offer(struct walk *w, uint32_t level, uint32_t devices, uint32_t from, uint32_t to)
{
    uint32_t rest = rest_of(w, from, to, level);

    if (rest + devices < w->value[level]) {
        w->value[level] = rest + devices;
        w->pick[level] = (struct gp_pick){.kind = GP_PICK_STAGE, .level = level, .cut = to};
    }
}

/* All levels of all groups for one run; false: no longer one will do either. */
static bool offer_run(struct walk *w, uint32_t from, uint32_t to)
{
    struct gp_probe *probe = w->probe;
    struct gp_load load;
    uint32_t g, k, x;
    bool alive = false, stage = is_stage(w, from, to);

    run_load(probe, w->c, from, to, w->start, w->end, &load);
    for (g = 0; g < probe->levels->n_groups; g++) {
        const struct gp_group *group = &probe->levels->groups[g];
        uint32_t covered = 0;

        for (k = 0; k < group->n_lanes && covered < group->n; k++) {
            uint32_t l = group->first_lane + k, d = probe->costs->lanes[l].d, fit;
            struct run r = run_of(probe->costs, w->c, l, from, to, w->start, w->end);
            int64_t ticks = gp_tps(probe->costs, r.comp, r.sync, r.p2p);

            if (d > probe->problem->n_devices) {
                break;
            }
            fit = gp_levels_fit(probe, group, d, load.weight, load.saved, load.workspace);
            alive = alive || (fit > 0 && r.comp <= probe->limit && r.sync <= probe->limit);
            if (ticks > probe->limit) {
                int64_t least = r.comp > r.sync ? r.comp : r.sync;

                /* a shorter T at which nothing changes: even more of the run may be cut off */
                ticks = least > probe->limit ? least : ticks;
                probe->next = ticks < probe->next ? ticks : probe->next;
                continue;
            }
            for (x = covered; stage && x < fit; x++) {
                offer(w, group->first + x, d, from, to);
            }
            covered = fit > covered ? fit : covered;
        }
    }
    return alive;
}

/* Values of a stage that begins at a position, by its level. */
static void begin(struct walk *w, uint32_t from)
{
    uint32_t x, to;

    for (x = 0; x < w->n_levels; x++) {
        w->value[x] = GP_NEVER;
        w->pick[x] = (struct gp_pick){.kind = GP_PICK_NONE};
    }
    for (to = from + 1; to <= w->last; to++) {
        w->probe->work++;
        if (!offer_run(w, from, to)) {
            break;
        }
    }
}

static void improve(uint32_t *value, struct gp_pick *pick, uint32_t with, struct gp_pick how)
{
    if (with < *value) {
        *value = with;
        *pick = how;
    }
}

/* The gap after v_i falls into groups; the stage of what is after it has level g. */
static void gap_at(struct walk *w, uint32_t i, const struct gp_start *start, bool own, uint32_t g,
                   uint32_t rest, uint32_t *value, struct gp_pick *pick)
{
    uint32_t p = w->c->n_ops, h;
    struct gp_end end = *w->end;
    const struct gp_sides *sides;

    if (i < p) {
        bool free_op = is_virtual(w, i + 1);

        end = (struct gp_end){.kind = free_op ? GP_END_VIRTUAL : GP_END_REAL,
                              .own = own,
                              .op = own ? w->c->ops[i] : 0,
                              .level = g};
    }
    gp_sides_of(w->probe, w->c->kids[i], start, &end, &sides);
    for (h = 0; h < w->n_levels; h++) {
        improve(&value[h], &pick[h], sides->value[h] + rest,
                (struct gp_pick){.kind = GP_PICK_GAP, .own = own, .level = g});
    }
}

static void gaps(struct walk *w, uint32_t i, const struct gp_start *start, uint32_t *value,
                 struct gp_pick *pick)
{
    uint32_t p = w->c->n_ops, own, g;

    if (w->probe->costs->classes[w->c->kids[i]].kind != GP_PARALLEL) {
        return;
    }
    if (i == p) {
        gap_at(w, i, start, w->end->own, w->end->level, 0, value, pick);
        return;
    }
    for (own = 0; own < 2; own++) {
        bool free_op = is_virtual(w, i + 1);
        const uint32_t *rest =
            row(w, own == 0 && !free_op ? w->tail->with : w->tail->without, i + 1);
        uint32_t least = w->probe->problem->n_devices;

        if (own == 1 && free_op) {
            break;
        }
        for (g = 0; g < w->n_levels; g++) {
            /* of depths, a larger one must save devices; a gap takes at least one */
            if (rest[g] >= (w->probe->levels->simple ? least : w->probe->problem->n_devices)) {
                continue;
            }
            least = rest[g];
            gap_at(w, i, start, own == 1, g, rest[g], value, pick);
        }
    }
}

/* Nothing lies in the gap after v_i, which a stage before owns. */
static void empty_gap(struct walk *w, uint32_t i, const struct gp_start *start, uint32_t *value,
                      struct gp_pick *pick)
{
    const struct gp_tail *tail = w->tail;
    uint32_t h, g;

    if (w->probe->costs->classes[w->c->kids[i]].load.n_real > 0) {
        return;
    }
    for (h = 0; h < w->n_levels; h++) {
        struct gp_pick how = {.kind = GP_PICK_EMPTY};

        if (i == w->c->n_ops) {
            if (!w->end->own && gp_precedes(w->probe, start, h, w->end)) {
                improve(&value[h], &pick[h], 0, how);
            }
        } else if (!start->is_virtual) {
            how.level = row(w, tail->next_from, i + 1)[h];
            improve(&value[h], &pick[h], row(w, tail->next, i + 1)[h], how);
        } else {
            const uint32_t *rest = row(w, is_virtual(w, i + 1) ? tail->without : tail->with, i + 1);

            for (g = 0; g < w->n_levels; g++) {
                if (gp_covers(w->probe->levels, h, g)) {
                    how.level = g;
                    improve(&value[h], &pick[h], rest[g], how);
                }
            }
        }
    }
}

/* v_i belongs to a stage before, of level h. */
static void without_op(struct walk *w, uint32_t i, const struct gp_start *start, uint32_t *value,
                       struct gp_pick *pick)
{
    uint32_t *from = gp_pool_take(&w->probe->pool, w->n_levels, sizeof *from), h;

    begin(w, 2 * i + 1);
    gp_levels_least(w->probe->levels, start->is_virtual, w->value, value, from);
    for (h = 0; h < w->n_levels; h++) {
        pick[h] = w->pick[from[h]];
    }
    empty_gap(w, i, start, value, pick);
    gaps(w, i, start, value, pick);
}

/* v_i belongs to the first stage, whose level is h. */
static void with_op(struct walk *w, uint32_t i, const struct gp_start *start, uint32_t *value,
                    struct gp_pick *pick)
{
    begin(w, 2 * i);
    memcpy(value, w->value, w->n_levels * sizeof *value);
    memcpy(pick, w->pick, w->n_levels * sizeof *pick);
    gaps(w, i, start, value, pick);
}

static void walk_init(struct walk *w, struct gp_probe *probe, uint32_t class,
                      const struct gp_start *start, const struct gp_end *end)
{
    *w = (struct walk){.probe = probe,
                       .c = &probe->costs->classes[class],
                       .start = start,
                       .end = end,
                       .n_levels = probe->levels->n};
    w->last = 2 * w->c->n_ops + 2 + end->own;
    w->value = gp_pool_take(&probe->pool, w->n_levels, sizeof *w->value);
    w->pick = gp_pool_take(&probe->pool, w->n_levels, sizeof *w->pick);
    w->scratch = gp_pool_take(&probe->pool, (size_t)3 * probe->costs->n_lanes, sizeof *w->scratch);
}

static void solve_op(struct walk *w, uint32_t i)
{
    struct gp_tail *tail = w->tail;
    size_t at = (size_t)i * w->n_levels;
    struct gp_start start = {.is_virtual = is_virtual(w, i)};

    w->start = &start;
    without_op(w, i, &start, tail->without + at, tail->pick_without + at);
    if (start.is_virtual) {
        gp_levels_least(w->probe->levels, false, tail->without + at, tail->next + at,
                        tail->next_from + at);
    } else {
        start.own = 1;
        start.op = w->c->ops[i - 1];
        with_op(w, i, &start, tail->with + at, tail->pick_with + at);
        gp_levels_least(w->probe->levels, false, tail->with + at, tail->next + at,
                        tail->next_from + at);
    }
    w->start = NULL;
    gp_probe_tick(w->probe, 2 * w->n_levels);
}

static void tail_of(struct gp_probe *probe, uint32_t class, const struct gp_end *end,
                    const struct gp_tail **ret_tail)
{
    const struct gp_class *c = &probe->costs->classes[class];
    struct gp_key key = {{0, class, end->kind, end->own, end->op, end->level, 0, 0, 0}};
    size_t n = ((size_t)c->n_ops + 1) * probe->levels->n;
    struct gp_tail *tail;
    struct walk w;
    void *state;
    bool is_new;
    uint32_t i;

    gp_memo_find(probe, &key, sizeof *tail, &state, &is_new);
    tail = state;
    *ret_tail = tail;
    if (!is_new) {
        return;
    }
    tail->without = gp_pool_take(&probe->pool, n, sizeof *tail->without);
    tail->with = gp_pool_take(&probe->pool, n, sizeof *tail->with);
    tail->next = gp_pool_take(&probe->pool, n, sizeof *tail->next);
    tail->next_from = gp_pool_take(&probe->pool, n, sizeof *tail->next_from);
    tail->pick_without = gp_pool_take(&probe->pool, n, sizeof *tail->pick_without);
    tail->pick_with = gp_pool_take(&probe->pool, n, sizeof *tail->pick_with);
    walk_init(&w, probe, class, NULL, end);
    w.tail = tail;
    for (i = c->n_ops; i > 0; i--) {
        solve_op(&w, i);
    }
}

void gp_head_of(struct gp_probe *probe, uint32_t class, const struct gp_start *start,
                const struct gp_end *end, bool whole, const struct gp_head **ret_head)
{
    struct gp_key key = {{1, class, end->kind, end->own, end->op, end->level,
                          start->is_virtual | start->own << 1 | (uint32_t)whole << 2, start->op,
                          0}};
    const struct gp_tail *tail;
    struct gp_head *head;
    struct walk w;
    void *state;
    bool is_new;

    gp_memo_find(probe, &key, sizeof *head, &state, &is_new);
    head = state;
    *ret_head = head;
    if (!is_new) {
        return;
    }
    tail_of(probe, class, end, &tail);
    head->tail = tail;
    walk_init(&w, probe, class, start, end);
    head->value = gp_pool_take(&probe->pool, w.n_levels, sizeof *head->value);
    head->pick = gp_pool_take(&probe->pool, w.n_levels, sizeof *head->pick);
    w.tail = (struct gp_tail *)tail;
    w.whole = whole;
    if (start->own) {
        with_op(&w, 0, start, head->value, head->pick);
    } else {
        without_op(&w, 0, start, head->value, head->pick);
    }
    gp_probe_tick(probe, w.n_levels);
}
