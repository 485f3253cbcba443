/* SPDX-License-Identifier: Apache-2.0
 *
 * What an optimizer says where nothing fits: the smallest capacity that it can do with. It must be
 * one that it can do with indeed, and no smaller one may do; and every capacity above does, too.
 */
#include "planner/eval.h"

#include "test.h"

#include "memopt_rig.h"

#define PLAIN "link_target = 1.0\nslot_filter = false\nmin_swap_bytes = 0\n"

static const struct {
    const char *id, *options;
    bool complete; /* finds a plan wherever keeping and replaying have one */
    bool often;    /* asked about more stages: the answer follows from a search */
} rows[] = {
    {"none", "", false, false},
    {"full", "unit = \"stage\"", false, false},
    {"full", "unit = \"layer\"", false, false},
    {"selective", "classes = \"*\"\nauto = true", false, false},
    {"sqrt", "", false, false},
    {"rotor", "", false, false},
    {"offload", PLAIN, false, false},
    {"vpipe", "min_swap_bytes = 0", false, false},
    {"two-ended", PLAIN, true, false},
    {"dawnpiper", PLAIN "policy = \"capuchin\"", false, false},
    {"two-ended", "min_swap_bytes = 0", false, true},
    {"two-ended", "min_swap_bytes = 0\nallow = \"offload\"", false, false},
    {"two-ended", "min_swap_bytes = 0\nlink_target = 0.5", false, false},
    {"offload", "min_swap_bytes = 0", false, false},
    {"exact", "", true, false},
    {"adapipe", "", false, true},
    {"bpipe", "", false, false},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

/* Asks with every capacity from nothing to more than enough. */
static void sweep(struct pst_instance *instance, uint32_t row, struct stage *s, const char *name)
{
    uint64_t all = enumerate(s, "K").least_peak, least = enumerate(s, "KR").least_peak;
    uint64_t claim = 0, first = UINT64_MAX;

    for (uint64_t capacity = 0; capacity <= all || capacity <= claim; capacity++) {
        struct memopt_answer answer;
        char words[64];

        s->view.capacity_bytes = capacity;
        answer = ask(instance, s);
        if (answer.price.fits) {
            first = capacity < first ? capacity : first;
            continue;
        }
        claim = claim == 0 ? answer.price.peak_bytes : claim;
        snprintf(words, sizeof words, "(%llu bytes)", (unsigned long long)claim);
        if (first != UINT64_MAX || answer.price.peak_bytes != claim || claim <= capacity) {
            fail_msg("%s, %s %s: nothing at %llu, it says %llu; before %llu; it can with %llu",
                     name, rows[row].id, rows[row].options, (unsigned long long)capacity,
                     (unsigned long long)answer.price.peak_bytes, (unsigned long long)claim,
                     (unsigned long long)first);
        }
        if (answer.status != PST_OK && strstr(answer.message, words) == NULL) {
            fail_msg("%s, %s: \"%s\" lacks \"%s\"", name, rows[row].id, answer.message, words);
        }
    }
    if (claim != 0 && claim != first) {
        fail_msg("%s, %s %s: it says %llu and can with %llu", name, rows[row].id, rows[row].options,
                 (unsigned long long)claim, (unsigned long long)first);
    }
    if (rows[row].complete && first > least) {
        fail_msg("%s, %s %s: needs %llu, where %llu do", name, rows[row].id, rows[row].options,
                 (unsigned long long)first, (unsigned long long)least);
    }
}

static void sweep_rows(struct stage *s, const char *name, bool all)
{
    for (uint32_t row = 0; row < ROWS; row++) {
        struct pst_instance *instance;

        if (!all && !rows[row].often) {
            continue;
        }
        instance = open_memopt(rows[row].id, rows[row].options);
        sweep(instance, row, s, name);
        pst_instance_destroy(instance);
    }
}

static void sweep_all(struct stage *s, const char *name)
{
    sweep_rows(s, name, true);
}

TEST(test_examples)
{
    static const uint32_t mixed[4][3] = {{1, 2, 8}, {6, 12, 4}, {1, 2, 6}, {4, 8, 2}};
    struct stage s;

    for (uint32_t k = 1; k <= 4; k++) {
        stage_init(&s, k, 0, 1);
        for (uint32_t v = 0; v < 4; v++) {
            add_link(&s, 1, 2, 2);
        }
        sweep_all(&s, "equal nodes");
        for (uint32_t link = 0; link < 3; link++) {
            stage_init(&s, k, 10, 2);
            for (uint32_t v = 0; v < 4; v++) {
                add_link(&s, mixed[v][0], mixed[v][1], mixed[v][2]);
            }
            s.view.link_bytes_per_s = link * UINT64_C(500000000);
            sweep_all(&s, "mixed nodes");
        }
    }
    stage_init(&s, 2, 0, 1);
    add_link(&s, 2, 4, 3);
    add_link(&s, 1, 2, 3);
    add_link(&s, 1, 2, 3);
    add_node(&s, 2, 4, 3, 0, 0, 1 | 4);
    sweep_all(&s, "a skip");
}

/* Random chains and graphs of up to six nodes, without a link on every other; the first ones for
   everybody. */
TEST(test_random)
{
    const uint64_t seed = 20261122;
    uint64_t counter = 0;

    for (uint32_t round = 0; round < 150; round++) {
        struct stage s;
        char name[32];

        random_stage(&s, 6, seed, &counter);
        for (uint32_t v = 0; v < s.view.n_nodes; v++) {
            s.nodes[v].op = v % 2 == 0 ? "linear" : "norm";
            s.nodes[v].layer = v / 2;
        }
        s.view.link_bytes_per_s *= round % 2;
        snprintf(name, sizeof name, "round %u", round);
        sweep_rows(&s, name, round < 24);
    }
}
