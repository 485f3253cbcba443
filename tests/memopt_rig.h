/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages of a few nodes for tests of memory plans: built by hand or at random, evaluated by the
 * evaluator and by a ledger that books every tensor one event at a time, enumerated, and put to a
 * plugin. Plans are written as letters, one per node: K keep, R recompute, S offload ("swap").
 * A tick is one nanosecond, a link of 1 byte per tick has 1e9 bytes/s.
 */
#ifndef PENSTOCK_TESTS_MEMOPT_RIG_H
#define PENSTOCK_TESTS_MEMOPT_RIG_H

#include "test.h"

#include "base/philox.h"
#include "planner/eval_replays.h"
#include "plugin_rig.h"

OWNER(instance)

#define MAX_NODES 64

struct stage {
    struct pst_stage_view view;
    struct pst_stage_node nodes[MAX_NODES];
    uint32_t producers[MAX_NODES * MAX_NODES];
    uint32_t n_producers;
};

/* --- building ----------------------------------------------------------------------------------*/

static inline void stage_init(struct stage *s, uint32_t k, uint64_t static_bytes,
                              uint64_t input_bytes)
{
    memset(s, 0, sizeof *s);
    s->view.size = sizeof s->view;
    s->view.node_size = sizeof s->nodes[0];
    s->view.nodes = s->nodes;
    s->view.producers = s->producers;
    s->view.n_stages = 1;
    s->view.in_flight = k;
    s->view.weight_versions = 1;
    s->view.static_bytes = static_bytes;
    s->view.input_bytes = input_bytes;
    s->view.staging_copies = 2;
    s->view.link_directions = 1;
    s->view.capacity_bytes = UINT64_MAX;
}

/* A node that reads the positions of the mask. */
static inline struct pst_stage_node *add_node(struct stage *s, uint64_t tf, uint64_t tb, uint64_t a,
                                              uint64_t wf, uint64_t wb, uint64_t reads)
{
    uint32_t v = s->view.n_nodes++;
    struct pst_stage_node *node = &s->nodes[v];

    assert_true(v < MAX_NODES);
    node->node = v;
    node->forward_ns = tf;
    node->backward_ns = tb;
    node->saved_bytes = a;
    node->forward_work_bytes = wf;
    node->backward_work_bytes = wb;
    node->first_producer = s->n_producers;
    for (uint32_t u = 0; u < v; u++) {
        if (reads >> u & 1) {
            s->producers[s->n_producers++] = u;
            node->n_producers++;
        }
    }
    return node;
}

/* A node that reads the one before it. */
static inline struct pst_stage_node *add_link(struct stage *s, uint64_t tf, uint64_t tb, uint64_t a)
{
    uint32_t v = s->view.n_nodes;

    return add_node(s, tf, tb, a, 0, 0, v == 0 ? 0 : UINT64_C(1) << (v - 1));
}

static inline uint32_t draw(uint64_t seed, uint64_t *counter, uint32_t below)
{
    return pst_philox(seed, 1, (*counter)++).v[0] % below;
}

/* 1 to n nodes, half of them chains, with workspace, k from 1 to 5, a link of 1 byte per tick. */
static inline void random_stage(struct stage *s, uint32_t most, uint64_t seed, uint64_t *counter)
{
    uint32_t n = 1 + draw(seed, counter, most);
    bool chain = draw(seed, counter, 2) == 0;

    stage_init(s, 1 + draw(seed, counter, 5), draw(seed, counter, 50), draw(seed, counter, 9));
    s->view.staging_copies = 1 + draw(seed, counter, 3);
    s->view.link_bytes_per_s = 1000000000;
    for (uint32_t v = 0; v < n; v++) {
        uint64_t mask = v == 0 ? 0 : UINT64_C(1) << (chain ? v - 1 : draw(seed, counter, v));

        if (!chain && v > 0 && draw(seed, counter, 2) == 0) {
            mask |= UINT64_C(1) << draw(seed, counter, v);
        }
        add_node(s, draw(seed, counter, 9), draw(seed, counter, 9), draw(seed, counter, 20),
                 draw(seed, counter, 6), draw(seed, counter, 6), mask);
    }
}

/* Every third node has a result that no backward pass reads. */
static inline void random_results(struct stage *s, uint64_t seed, uint64_t *counter)
{
    for (uint32_t v = 0; v < s->view.n_nodes; v++) {
        s->nodes[v].output_bytes = draw(seed, counter, 3) == 0 ? draw(seed, counter, 12) : 0;
    }
}

/* Returns the time of a micro-batch if everything is kept. */
static inline uint64_t total_ns(const struct stage *s)
{
    uint64_t ns = 0;

    for (uint32_t v = 0; v < s->view.n_nodes; v++) {
        ns += s->nodes[v].forward_ns + s->nodes[v].backward_ns;
    }
    return ns;
}

/* --- plans -------------------------------------------------------------------------------------*/

static inline void letters(const char *text, uint8_t *actions)
{
    for (; *text != '\0'; text++) {
        *actions++ = *text == 'R'   ? PST_ACTION_RECOMPUTE
                     : *text == 'S' ? PST_ACTION_OFFLOAD
                                    : PST_ACTION_KEEP;
    }
}

static inline struct pst_stage_value value_of(const struct stage *s, const uint8_t *actions)
{
    struct pst_evaluator evaluator = {0};
    struct pst_stage_value value = {.size = sizeof value};

    pst_evaluate(&evaluator, &s->view, actions, &value);
    pst_evaluator_finish(&evaluator);
    return value;
}

static inline struct pst_stage_value value_of_letters(const struct stage *s, const char *plan)
{
    uint8_t actions[MAX_NODES] = {0};

    letters(plan, actions);
    return value_of(s, actions);
}

/* --- the ledger: another evaluator, event by event ---------------------------------------------*/

static inline bool reads_node(const struct stage *s, uint32_t v, uint32_t u)
{
    for (uint32_t i = 0; i < s->nodes[v].n_producers; i++) {
        if (s->producers[s->nodes[v].first_producer + i] == u) {
            return true;
        }
    }
    return false;
}

static inline uint32_t last_reader(const struct stage *s, uint32_t u)
{
    uint32_t last = u;

    for (uint32_t v = u + 1; v < s->view.n_nodes; v++) {
        last = reads_node(s, v, u) ? v : last;
    }
    return last;
}

/* What a node holds for the replays of others beside its saved bytes. */
static inline uint64_t for_replays(const struct stage *s, const char *plan, uint32_t u)
{
    uint64_t bytes = 0;

    for (uint32_t v = u + 1; v < s->view.n_nodes; v++) {
        bytes = plan[u] != 'R' && plan[v] == 'R' && reads_node(s, v, u)
                    ? pst_stage_node_result(&s->view, u)
                    : bytes;
    }
    return bytes;
}

static inline uint64_t resident(const struct stage *s, const char *plan, const bool *here)
{
    uint64_t sum = 0;

    for (uint32_t v = 0; v < s->view.n_nodes; v++) {
        sum += here[v] ? s->nodes[v].saved_bytes + for_replays(s, plan, v) : 0;
    }
    return sum;
}

/* Replays, before the backward of v, the runs that it or an earlier node wants first. */
static inline uint64_t ledger_replay(const struct stage *s, const char *plan, uint32_t v,
                                     bool *here)
{
    uint64_t most = 0;

    for (uint32_t q = s->view.n_nodes; q-- > 0;) { /* runs that end at q, later ones first */
        uint32_t p = q, t = q;

        if (plan[q] != 'R' || (q + 1 < s->view.n_nodes && plan[q + 1] == 'R')) {
            continue;
        }
        while (p > 0 && plan[p - 1] == 'R') {
            p--;
        }
        for (uint32_t u = p; u <= q; u++) {
            t = last_reader(s, u) > t ? last_reader(s, u) : t;
        }
        for (uint32_t u = p; t == v && u <= q; u++) {
            uint64_t now;

            here[u] = true;
            now = resident(s, plan, here) + s->nodes[u].forward_work_bytes;
            most = now > most ? now : most;
        }
    }
    return most;
}

/* Books the active micro-batch; the largest sum it sees. */
static inline uint64_t ledger(const struct stage *s, const char *plan)
{
    uint32_t n = s->view.n_nodes;
    bool here[MAX_NODES] = {false};
    uint64_t most = 0, now;

    for (uint32_t v = 0; v < n; v++) {
        uint64_t work = s->nodes[v].forward_work_bytes, own = for_replays(s, plan, v);

        here[v] = true;
        now = resident(s, plan, here) + (work > own ? work - own : 0); /* the result is in both */
        most = now > most ? now : most;
        for (uint32_t u = 0; u <= v; u++) {
            if (plan[u] == 'R' && last_reader(s, u) <= v) {
                here[u] = false;
            }
        }
    }
    for (uint32_t v = n; v-- > 0;) {
        now = ledger_replay(s, plan, v, here);
        most = now > most ? now : most;
        now = resident(s, plan, here) + s->nodes[v].backward_work_bytes;
        most = now > most ? now : most;
        here[v] = false;
    }
    return most;
}

static inline bool ledger_legal(const struct stage *s, const char *plan)
{
    for (uint32_t v = 0; v < s->view.n_nodes; v++) {
        for (uint32_t u = 0; u < v; u++) {
            bool same = true;

            for (uint32_t i = u; i <= v; i++) {
                same = same && plan[i] == 'R';
            }
            if (plan[v] == 'R' && plan[u] == 'R' && reads_node(s, v, u) && !same) {
                return false;
            }
        }
    }
    return true;
}

struct ledger_value {
    bool legal;
    uint64_t peak, total, extra; /* extra: time beyond total, which is that of all kept */
};

/* Peak and times of a plan, without the evaluator. */
static inline struct ledger_value ledger_value_of(const struct stage *s, const char *plan)
{
    struct ledger_value value = {.legal = ledger_legal(s, plan)};
    uint64_t kept = 0, offloaded = 0, replay = 0, link = 0;
    uint64_t k = s->view.in_flight > 0 ? s->view.in_flight : 1; /* the active one is there */
    uint64_t staged = k < s->view.staging_copies ? k : s->view.staging_copies;

    if (!value.legal) {
        return value;
    }
    for (uint32_t v = 0; v < s->view.n_nodes; v++) {
        uint64_t held = s->nodes[v].saved_bytes + for_replays(s, plan, v);

        kept += plan[v] == 'K' ? held : 0;
        offloaded += plan[v] == 'S' ? held : 0;
        replay += plan[v] == 'R' ? s->nodes[v].forward_ns : 0;
        value.total += s->nodes[v].forward_ns + s->nodes[v].backward_ns;
    }
    if (offloaded > 0) {
        uint64_t bits = offloaded * s->view.link_directions * 1000000000u;

        link = (bits + s->view.link_bytes_per_s - 1) / s->view.link_bytes_per_s;
    }
    value.legal = s->view.host_capacity_bytes == 0 || k * offloaded <= s->view.host_capacity_bytes;
    value.peak = s->view.static_bytes + k * s->view.input_bytes + (k - 1) * kept +
                 (staged - 1) * offloaded + ledger(s, plan);
    value.extra = value.total + replay > link ? replay : link - value.total;
    return value;
}

/* --- enumeration -------------------------------------------------------------------------------*/

/* Room in time for one trip out and one back between a node's forward and its backward. */
static inline bool may_offload(const struct stage *s, uint32_t v)
{
    int64_t room = 0, total = 0;

    if (s->view.link_bytes_per_s == 0 || (s->nodes[v].flags & PST_NODE_NO_OFFLOAD) != 0) {
        return false;
    }
    for (uint32_t u = 0; u < s->view.n_nodes; u++) {
        int64_t t = (int64_t)(s->nodes[u].forward_ns + s->nodes[u].backward_ns);

        total += t;
        room += u > v ? t : 0;
    }
    room += (s->view.in_flight - 1) * total;
    return (double)room >=
           2.0 * (double)s->nodes[v].saved_bytes * 1e9 / (double)s->view.link_bytes_per_s;
}

/* May a plan have this letter there? Decided nodes keep theirs. */
static inline bool letter_allowed(const struct stage *s, uint32_t v, char letter)
{
    const struct pst_stage_node *node = &s->nodes[v];

    if (node->action != PST_ACTION_KEEP) {
        return letter == "KRS"[node->action];
    }
    return letter == 'K' ||
           (letter == 'R' ? (node->flags & PST_NODE_NO_RECOMPUTE) == 0 : may_offload(s, v));
}

struct optimum {
    bool fits;           /* a plan does */
    uint64_t extra;      /* the least, of those that fit */
    uint64_t least_peak; /* of all legal plans */
    uint32_t n_best;     /* plans with that extra */
    char plan[MAX_NODES + 1];
};

/* All legal plans over an alphabet such as "KR" or "KRS", by the ledger. n <= 9 or so. */
static inline struct optimum enumerate(const struct stage *s, const char *alphabet)
{
    struct optimum best = {.extra = UINT64_MAX, .least_peak = UINT64_MAX};
    uint32_t base = (uint32_t)strlen(alphabet), n_plans = 1;

    for (uint32_t v = 0; v < s->view.n_nodes; v++) {
        n_plans *= base;
    }
    for (uint32_t code = 0; code < n_plans; code++) {
        char plan[MAX_NODES + 1] = {0};
        bool allowed = true;
        uint32_t rest = code;
        struct ledger_value value;

        for (uint32_t v = 0; v < s->view.n_nodes; v++, rest /= base) {
            plan[v] = alphabet[rest % base];
            allowed = allowed && letter_allowed(s, v, plan[v]);
        }
        value = allowed ? ledger_value_of(s, plan) : (struct ledger_value){.legal = false};
        if (!value.legal) {
            continue;
        }
        best.least_peak = value.peak < best.least_peak ? value.peak : best.least_peak;
        if (value.peak <= s->view.capacity_bytes && value.extra <= best.extra) {
            best.n_best = value.extra < best.extra ? 1 : best.n_best + 1;
            best.extra = value.extra;
            best.fits = true;
            memcpy(best.plan, plan, sizeof plan);
        }
    }
    return best;
}

/* --- plugins -----------------------------------------------------------------------------------*/

static inline pst_status rig_evaluate(const struct pst_host *host,
                                      const struct pst_stage_view *view, const uint8_t *actions,
                                      struct pst_stage_value *ret_value)
{
    struct pst_evaluator evaluator = {0};

    pst_evaluate(&evaluator, view, actions, ret_value);
    pst_evaluator_finish(&evaluator);
    return PST_OK;
}

static inline pst_status rig_evaluate_replays(const struct pst_host *host,
                                              const struct pst_stage_view *view,
                                              const struct pst_replay *replays, uint32_t n_replays,
                                              struct pst_stage_value *ret_value)
{
    pst_evaluate_replays(view, replays, n_replays, ret_value, NULL);
    return PST_OK;
}

/* options: lines of the table; destroy it. */
static inline struct pst_instance *open_memopt(const char *id, const char *options)
{
    static const struct pst_eval eval = {sizeof eval, rig_evaluate, rig_evaluate_replays};
    const struct pst_host_context context = {.eval = &eval};
    struct pst_instance *instance = NULL;
    struct pst_error err = {0};

    assert_ok(plugin_rig_open("memopt", id, options, &context, &instance, &err), &err);
    return instance;
}

struct memopt_answer {
    struct pst_stage_price price;
    pst_status status;  /* of plan() */
    char message[1024]; /* what it failed with */
    char plan[MAX_NODES + 1];
    struct pst_stage_value value; /* of the plan */
    struct pst_replay replays[MAX_NODES];
    uint32_t n_replays; /* where there are any, the plan is not looked at */
};

struct rig_collection {
    const struct stage *stage;
    struct memopt_answer *answer;
};

static inline pst_status rig_set(struct pst_action_out *out, uint32_t position, uint32_t action)
{
    struct rig_collection *c = out->impl;

    assert_in_range(position, 0, c->stage->view.n_nodes - 1);
    assert_in_range(action, PST_ACTION_KEEP, PST_ACTION_OFFLOAD);
    c->answer->plan[position] = "KRS"[action];
    return PST_OK;
}

static inline pst_status rig_sequence(struct pst_action_out *out, const struct pst_replay *replays,
                                      uint32_t n_replays)
{
    struct rig_collection *c = out->impl;

    assert_in_range(n_replays, 1, c->stage->view.n_nodes);
    memcpy(c->answer->replays, replays, n_replays * sizeof *replays);
    c->answer->n_replays = n_replays;
    return PST_OK;
}

/* Asks price() and plan() and holds them against each other: a plan is legal by evaluator and
   ledger, worth what both say, and no worse than its price. */
static inline struct memopt_answer ask(struct pst_instance *instance, struct stage *s)
{
    const struct pst_memopt *f = instance->plugin->get_interface(PST_MEMOPT);
    struct memopt_answer answer = {.price = {.size = sizeof answer.price}};
    struct rig_collection c = {s, &answer};
    struct pst_action_out out = {sizeof out, &c, rig_set, rig_sequence};
    struct ledger_value booked;

    for (uint32_t v = 0; v < s->view.n_nodes; v++) {
        answer.plan[v] = "KRS"[s->nodes[v].action];
    }
    assert_int_equal(f->price(instance->self, &s->view, &answer.price), PST_OK);
    answer.status = f->plan(instance->self, &s->view, &out);
    if (answer.status != PST_OK) {
        assert_int_equal(answer.status, PST_ERR_INFEASIBLE);
        assert_false(answer.price.fits);
        snprintf(answer.message, sizeof answer.message, "%s", instance->failure.message);
        return answer;
    }
    assert_int_equal(answer.price.fits, answer.price.peak_bytes <= s->view.capacity_bytes);
    if (answer.n_replays > 0) {
        answer.value.size = sizeof answer.value;
        pst_evaluate_replays(&s->view, answer.replays, answer.n_replays, &answer.value, NULL);
        assert_true(answer.value.legal);
        assert_true(answer.value.period_ns <= answer.price.period_ns);
        assert_true(answer.value.peak_bytes <= answer.price.peak_bytes);
        return answer;
    }
    answer.value = value_of_letters(s, answer.plan);
    booked = ledger_value_of(s, answer.plan);
    if (!answer.value.legal || !booked.legal) {
        fail_msg("illegal plan %s: %s", answer.plan, answer.value.rule);
    }
    assert_int_equal(answer.value.peak_bytes, booked.peak);
    assert_int_equal(answer.value.extra_ns, booked.extra);
    assert_true(answer.value.period_ns <= answer.price.period_ns);
    assert_true(answer.value.peak_bytes <= answer.price.peak_bytes);
    return answer;
}

/* The same with an instance of its own. */
static inline struct memopt_answer ask_once(const char *id, const char *options, struct stage *s)
{
    struct pst_instance *instance = open_memopt(id, options);
    struct memopt_answer answer = ask(instance, s);

    pst_instance_destroy(instance);
    return answer;
}

#endif
