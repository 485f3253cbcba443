/* SPDX-License-Identifier: Apache-2.0
 *
 * Listed replays, booked without the evaluator: every forward, replay and backward one after the
 * other, and at each of them what is there, found anew by looking for readers. Include memopt_rig.h
 * before.
 */
#ifndef PENSTOCK_TESTS_REPLAY_LEDGER_H
#define PENSTOCK_TESTS_REPLAY_LEDGER_H

enum { LEDGER_MOST = 4096 };

struct ledger_step {
    char kind; /* 'F', 'R', 'B' */
    uint32_t node, before;
    bool runs;
};

struct replay_ledger {
    const struct stage *stage;
    struct ledger_step steps[LEDGER_MOST];
    uint32_t n;
};

static inline uint64_t ledger_part(const struct stage *s, uint32_t v, bool result)
{
    uint64_t out = s->nodes[v].output_bytes, saved = s->nodes[v].saved_bytes;

    return result ? out : saved - (s->nodes[v].output_saved ? out : 0);
}

static inline bool ledger_makes(const struct ledger_step *step, uint32_t v)
{
    return step->kind != 'B' && step->runs && step->node == v;
}

static inline bool ledger_reads(const struct stage *s, const struct ledger_step *step, uint32_t v,
                                bool result)
{
    bool own = step->node == v, behind = reads_node(s, step->node, v);

    if (!step->runs) {
        return false;
    }
    if (step->kind == 'B') {
        return result ? s->nodes[v].output_saved && (own || behind)
                      : own && ledger_part(s, v, false) > 0;
    }
    return result && behind;
}

/* Is the part of v that was there at step `from` read at step `at` or later, before it is made
   anew? */
static inline bool ledger_needed(const struct replay_ledger *l, uint32_t v, bool result,
                                 uint32_t at)
{
    for (uint32_t i = at; i < l->n; i++) {
        if (ledger_reads(l->stage, &l->steps[i], v, result)) {
            return true;
        }
        if (ledger_makes(&l->steps[i], v)) {
            return false;
        }
    }
    return false;
}

static inline bool ledger_may_replay(const struct stage *s, uint32_t v)
{
    return s->nodes[v].action == PST_ACTION_KEEP &&
           (s->nodes[v].flags & PST_NODE_NO_RECOMPUTE) == 0;
}

static inline void ledger_push(struct replay_ledger *l, char kind, uint32_t node, uint32_t before)
{
    assert_true(l->n < LEDGER_MOST);
    l->steps[l->n++] = (struct ledger_step){kind, node, before, true};
}

static inline void ledger_list(struct replay_ledger *l, const struct stage *s,
                               const struct pst_replay *replays, uint32_t n_replays)
{
    l->stage = s;
    l->n = 0;
    for (uint32_t v = 0; v < s->view.n_nodes; v++) {
        ledger_push(l, 'F', v, v);
    }
    for (uint32_t v = s->view.n_nodes; v-- > 0;) {
        for (uint32_t r = 0; r < n_replays; r++) {
            for (uint32_t u = replays[r].first; replays[r].before == v && u <= replays[r].last;
                 u++) {
                if (ledger_may_replay(s, u)) {
                    ledger_push(l, 'R', u, v);
                }
            }
        }
        ledger_push(l, 'B', v, v);
    }
    for (uint32_t i = l->n; i-- > 0;) { /* the later ones are settled */
        if (l->steps[i].kind == 'R') {
            l->steps[i].runs = ledger_needed(l, l->steps[i].node, true, i + 1) ||
                               ledger_needed(l, l->steps[i].node, false, i + 1);
        }
    }
}

/* Peak and times, from what is there at each step. */
static inline struct ledger_value ledger_of_replays(const struct stage *s,
                                                    const struct pst_replay *replays,
                                                    uint32_t n_replays)
{
    static struct replay_ledger l;
    struct ledger_value value = {.legal = true};
    uint64_t most = 0, parked = 0, k = s->view.in_flight, offloaded = 0;
    uint64_t staged = s->view.staging_copies < k ? s->view.staging_copies : k;

    ledger_list(&l, s, replays, n_replays);
    for (uint32_t i = 0; i < l.n; i++) {
        const struct pst_stage_node *node = &s->nodes[l.steps[i].node];
        uint64_t there = 0, own = 0;

        if (!l.steps[i].runs) {
            continue;
        }
        for (uint32_t v = 0; v < s->view.n_nodes; v++) {
            bool made = i > v; /* by its forward */

            for (int result = 0; result < 2; result++) {
                bool mine = ledger_makes(&l.steps[i], v);

                if (made && !mine && ledger_needed(&l, v, result, i)) {
                    there += ledger_part(s, v, result);
                }
                if (mine && ledger_needed(&l, v, result, i + 1)) {
                    own += ledger_part(s, v, result);
                }
            }
        }
        if (l.steps[i].kind == 'B') {
            there += node->backward_work_bytes;
            value.total += node->forward_ns + node->backward_ns;
        } else {
            uint64_t all = node->saved_bytes + node->forward_work_bytes;

            there += all > own ? all : own;
        }
        if (l.steps[i].kind == 'R') {
            there += s->nodes[l.steps[i].before].output_bytes;
            value.extra += node->forward_ns;
        }
        most = there > most ? there : most;
    }
    for (uint32_t v = 0; v < s->view.n_nodes; v++) {
        for (int result = 0; result < 2; result++) {
            uint64_t bytes =
                ledger_needed(&l, v, result, s->view.n_nodes) ? ledger_part(s, v, result) : 0;

            *(s->nodes[v].action == PST_ACTION_OFFLOAD ? &offloaded : &parked) += bytes;
        }
    }
    value.peak = s->view.static_bytes + k * s->view.input_bytes + (k - 1) * parked +
                 (staged - 1) * offloaded + most;
    return value;
}

#endif
