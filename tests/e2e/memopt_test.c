/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock memopt`: worked examples through the command, its output, and every refusal.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "partition_rig.h"

#define MAX 16

/* Rows of (forward, backward, saved); one tick is 1 us, bandwidths are bytes per tick. */
struct example {
    uint32_t n;
    double rows[MAX][3];
    const char *edges; /* "u-v ..." or NULL: a chain */
    uint32_t in_flight, fixed, input;
    double link; /* bytes per tick, full duplex; 0: none */
};

/* A problem file with `extra` ("\"key\":value,...") behind the rest; capacity 0: unlimited. */
static const char *problem_of(const struct example *e, double capacity, const char *extra)
{
    static char text[8192];
    size_t used = (size_t)snprintf(text, sizeof text, HEAD "\"graph\":{\"batch\":1,\"nodes\":[");

    for (uint32_t v = 0; v < e->n; v++) {
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s{\"name\":\"layer%u.op\",\"forward_us\":%g,"
                                 "\"backward_input_us\":%g,\"saved_bytes\":%g}",
                                 v == 0 ? "" : ",", v, e->rows[v][0], e->rows[v][1], e->rows[v][2]);
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "],\"edges\":[");
    for (uint32_t v = 1; e->edges == NULL && v < e->n; v++) {
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s{\"from\":\"layer%u.op\",\"to\":\"layer%u.op\"}",
                                 v == 1 ? "" : ",", v - 1, v);
    }
    for (const char *at = e->edges; at != NULL && *at != '\0'; at += 3 + (at[3] == ' ')) {
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s{\"from\":\"layer%c.op\",\"to\":\"layer%c.op\"}",
                                 at == e->edges ? "" : ",", at[0], at[2]);
    }
    used += (size_t)snprintf(text + used, sizeof text - used,
                             "]},\"in_flight\":%u,\"static_bytes\":%u,\"input_bytes\":%u,"
                             "\"link_directions\":1,\"swap_bandwidth\":%g",
                             e->in_flight, e->fixed, e->input, e->link * 1e6);
    if (capacity > 0) {
        used +=
            (size_t)snprintf(text + used, sizeof text - used, ",\"memory_bytes\":%.17g", capacity);
    }
    snprintf(text + used, sizeof text - used, "%s%s}", extra[0] == '\0' ? "" : ",", extra);
    return support_write("memopt.json", text);
}

/* Letters of an answer, K, R or S each. */
static const char *plan_of(const json_t *root)
{
    static char plan[MAX + 1];
    const json_t *actions = json_object_get(root, "actions");
    size_t n = json_array_size(actions);

    assert_in_range(n, 1, MAX);
    for (size_t v = 0; v < n; v++) {
        const json_t *row = json_array_get(actions, v);
        const char *word = json_string_value(json_object_get(row, "action"));
        char name[32];

        snprintf(name, sizeof name, "layer%zu.op", v);
        assert_string_equal(json_string_value(json_object_get(row, "tensor")), name);
        plan[v] = strcmp(word, "keep") == 0        ? 'K'
                  : strcmp(word, "recompute") == 0 ? 'R'
                  : strcmp(word, "offload") == 0   ? 'S'
                                                   : '?';
    }
    plan[n] = '\0';
    return plan;
}

/* plan NULL: any. */
static void expect(const struct example *e, const char *name, const char *options, double capacity,
                   const char *plan, double extra, double peak)
{
    struct outcome o = penstock("memopt", name, "--json", "--problem", problem_of(e, capacity, ""),
                                "--options", options);
    json_t *root;

    expect_code(&o, 0);
    root = object_of(&o);
    assert_string_equal(json_string_value(json_object_get(root, "memopt")), name);
    assert_true(json_is_true(json_object_get(root, "fits")));
    if (plan != NULL) {
        assert_string_equal(plan_of(root), plan);
    }
    expect_number(root, "extra_us", extra);
    expect_number(root, "peak_bytes", peak);
    expect_number(root, "peak_bytes",
                  json_number_value(json_object_get(root, "static_bytes")) +
                      json_number_value(json_object_get(root, "parked_bytes")) +
                      json_number_value(json_object_get(root, "active_bytes")));
    json_decref(root);
    outcome_finish(&o);
}

static void expect_no(const struct example *e, const char *name, const char *options,
                      double capacity, uint64_t least)
{
    struct outcome o = penstock("memopt", name, "--json", "--problem", problem_of(e, capacity, ""),
                                "--options", options);
    json_t *root, *error;

    expect_code(&o, 1);
    root = object_of(&o);
    assert_true(json_is_false(json_object_get(root, "fits")));
    error = json_object_get(root, "error");
    assert_string_equal(json_string_value(json_object_get(error, "kind")), "plan.infeasible");
    assert_int_equal(json_integer_value(json_object_get(error, "enough_bytes")), least);
    json_decref(root);
    outcome_finish(&o);
}

#define ALL  "min_windows=0,link_target=1,slot_filter=false,min_swap_bytes=0"
#define KEEP "skip_last=false" /* of full: also where the backward follows at once */

static void one_micro_batch(void **state)
{
    const struct example e = {
        .n = 4, .rows = {{1, 2, 2}, {1, 2, 2}, {1, 2, 2}, {1, 2, 2}}, .in_flight = 1, .input = 1};

    (void)state;
    expect(&e, "none", "", 0, "KKKK", 0, 9);
    expect(&e, "none", "", 9, "KKKK", 0, 9);
    expect_no(&e, "none", "", 8, 9);
    expect(&e, "full", "", 0, "KKKK", 0, 9); /* its backward follows at once */
    expect(&e, "full", KEEP, 0, "RRRR", 4, 9);
    expect_no(&e, "full", "", 8, 9);
    expect(&e, "sqrt", "", 8, NULL, 2, 7); /* every other one */
    expect_no(&e, "sqrt", "", 6, 7);
    expect_no(&e, "vpipe", "min_swap_bytes=0", 6, 7);
    expect(&e, "vpipe", "min_swap_bytes=0", 7, NULL, 1, 7);
}

static void three_in_flight(void **state)
{
    const struct example e = {
        .n = 4, .rows = {{1, 2, 2}, {1, 2, 2}, {1, 2, 2}, {1, 2, 2}}, .in_flight = 3, .input = 1};
    static const double least[][2] = {{27, 0}, {23, 1}, {21, 1}, {19, 2},
                                      {17, 2}, {15, 3}, {13, 3}, {11, 4}};

    (void)state;
    expect(&e, "none", "", 27, "KKKK", 0, 27);
    expect_no(&e, "none", "", 26, 27);
    expect(&e, "full", "", 11, "RRRR", 4, 11);
    expect_no(&e, "full", "", 10, 11);
    for (size_t i = 0; i < sizeof least / sizeof *least; i++) {
        struct outcome o =
            penstock("memopt", "vpipe", "--json", "--problem", problem_of(&e, least[i][0], ""));
        json_t *root;

        expect_code(&o, 0);
        root = object_of(&o);
        expect_number(root, "extra_us", least[i][1]); /* all plans, so few layers there are */
        json_decref(root);
        outcome_finish(&o);
    }
    expect_no(&e, "vpipe", "", 10, 11);
}

static const struct example uneven = {.n = 4,
                                      .rows = {{1, 2, 8}, {6, 12, 4}, {1, 2, 6}, {4, 8, 2}},
                                      .in_flight = 2,
                                      .fixed = 10,
                                      .input = 2};

static void uneven_nodes(void **state)
{
    (void)state;
    expect(&uneven, "none", "", 54, "KKKK", 0, 54);
    expect(&uneven, "vpipe", "", 38, "RKKK", 1, 38);
    expect(&uneven, "vpipe", "", 32, "RKRK", 2, 32);
    expect(&uneven, "vpipe", "", 30, NULL, 6, 30);
    /* A kind is the name without number and with the layer's away: all are "op" of layerN.op. */
    expect(&uneven, "selective", "classes=op", 0, "RRRR", 12, 10 + 2 * 2 + 20);
    expect(&uneven, "selective", "", 0, "KKKK", 0, 54);
}

static void links(void **state)
{
    struct example e = uneven;

    (void)state;
    e.in_flight = 4;
    e.link = 1;
    expect(&e, "none", "", 98, "KKKK", 0, 98);
    expect(&e, "offload", ALL, 58, "SSSS", 0, 58);
    expect_no(&e, "offload", ALL, 57, 58);
    expect(&e, "vpipe", "min_swap_bytes=0", 58, NULL, 0, 58);
    e.link = 0.25;
    expect(&e, "vpipe", "min_swap_bytes=0", 50, "RKSS", 1, 50);
    /* 36 us of passes hide 9 bytes of 8, 4, 6 and 2: 8, of which two of four copies leave. */
    expect_no(&e, "offload", ALL, 50, 98 - 2 * 8);
    e.link = 0;
    expect_no(&e, "offload", ALL, 97, 98);
}

static void skip_connection(void **state)
{
    const struct example e = {.n = 4,
                              .rows = {{2, 4, 3}, {1, 2, 3}, {1, 2, 3}, {2, 4, 3}},
                              .edges = "0-1 1-2 2-3 0-3",
                              .in_flight = 2,
                              .input = 1};

    (void)state;
    expect(&e, "none", "", 26, "KKKK", 0, 26);
    expect(&e, "vpipe", "", 20, "KRKK", 1, 20);
    expect(&e, "vpipe", "", 17, "KRKR", 3, 17);
    /* Units of a layer: the last node of each is kept, and there is but one in each. */
    expect(&e, "full", "unit=layer,skip_last=false", 0, "KKKK", 0, 26);
    /* Parked 1 + 6; before the last backward both dropped nodes are there: 1 + 12. */
    expect(&e, "full", "unit=layer,every=2,skip_last=false", 0, "RKRK", 3, 20);
}

/* Three layers: what two kinds of checkpointing reach at 14 bytes, not at 13. */
static void three_layers(void **state)
{
    const struct example e = {
        .n = 3, .rows = {{1, 2, 4}, {2, 4, 4}, {3, 6, 4}}, .in_flight = 1, .input = 2};
    struct outcome o;
    json_t *root;

    (void)state;
    o = penstock("memopt", "vpipe", "--json", "--problem",
                 problem_of(&e, 10, "\"notes\":\"no workspace\""));
    expect_code(&o, 0);
    root = object_of(&o);
    assert_string_equal(plan_of(root), "RKK");
    expect_number(root, "extra_us", 1);
    json_decref(root);
    outcome_finish(&o);
    expect(&e, "none", "", 14, "KKK", 0, 14); /* 18 with 4 of workspace */
    expect_no(&e, "none", "", 13, 14);
}

static void square_root(void **state)
{
    struct example e = {.n = 16, .in_flight = 1, .input = 1};

    (void)state;
    for (int v = 0; v < 16; v++) {
        e.rows[v][0] = 1;
        e.rows[v][1] = 2;
        e.rows[v][2] = 1;
    }
    expect(&e, "none", "", 17, "KKKKKKKKKKKKKKKK", 0, 17);
    /* Every third kept, five in all: 5, a segment's 2 and the input. Every fourth takes as much
       memory, and one replay more. */
    expect(&e, "sqrt", "fit=false", 0, NULL, 11, 8);
    expect_no(&e, "sqrt", "", 7, 8);
}

/* FT = 24 - a for the last node. */
static void free_time(void **state)
{
    struct example e = {.n = 2, .rows = {{2, 4, 0}, {2, 4, 24}}, .in_flight = 3, .link = 2};

    (void)state;
    expect(&e, "offload", ALL ",when=always", 0, "KS", 0, 48);
    e.rows[1][2] = 25;
    expect(&e, "offload", ALL ",when=always", 0, "KK", 0, 75);
}

static void for_people(void **state)
{
    struct example e = uneven;
    struct outcome o;

    (void)state;
    e.in_flight = 4;
    e.link = 0.25;
    o = penstock("memopt", "vpipe", "--problem",
                 problem_of(&e, 50, "\"options\":{\"min_swap_bytes\":0}"));
    expect_code(&o, 0);
    expect_text(o.out, "layer0.op");
    expect_text(o.out, "24 B for each us");
    expect_text(o.out, "peak      50 B of 50 B: 10 B static, 26 B parked, 14 B");
    expect_text(o.out, "1.00 us more (2.8 %)");
    expect_text(o.out, "capacity");
    expect_text(o.out, "backward");
    assert_string_equal(o.err, "");
    outcome_finish(&o);
    o = penstock("memopt", "none", "--problem", problem_of(&e, 50, ""));
    expect_code(&o, 1);
    assert_string_equal(o.out, "");
    expect_text(o.err, "it misses 48 B");
    expect_text(o.err, "memory_bytes = 98 would do");
    outcome_finish(&o);
    e.fixed = 60;
    o = penstock("memopt", "full", "--problem", problem_of(&e, 50, ""));
    expect_code(&o, 1);
    expect_text(o.err, "static bytes and the inputs of 4 micro-batches take 68 B");
    outcome_finish(&o);
}

/* What a dropped operator frees: of one micro-batch nothing but its own; of nothing nothing. */
static void freed(void **state)
{
    struct example e = {
        .n = 3, .rows = {{1, 2, 8}, {1, 2, 0}, {1, 2, 4}}, .in_flight = 3, .input = 2};
    struct outcome o = penstock("memopt", "full", "--problem", problem_of(&e, 0, ""));

    (void)state;
    expect_code(&o, 0);
    expect_row(o.out, "layer0.op", "recompute 8 B 16 B 1.00 us 16 B for each us");
    expect_row(o.out, "layer1.op", "recompute 0 B 0 B 1.00 us");
    expect_row(o.out, "layer2.op", "recompute 4 B 8 B 1.00 us 8 B for each us");
    outcome_finish(&o);
    e.in_flight = 1;
    o = penstock("memopt", "full", "--problem", problem_of(&e, 0, ""), "--options", KEEP);
    expect_code(&o, 0);
    expect_row(o.out, "layer0.op", "recompute 8 B 0 B 1.00 us of the active micro-batch alone");
    expect_row(o.out, "layer1.op", "recompute 0 B 0 B 1.00 us");
    outcome_finish(&o);
}

/* The shipped example, as docs/memory.md tells it. */
static void documented(void **state)
{
    static const struct {
        const char *name, *plan;
        double extra;
    } rows[] = {{"none", NULL, 0},      {"full", "RRRR", 12}, {"sqrt", "RKRR", 6},
                {"adapipe", "RKRK", 2}, {"offload", NULL, 0}, {"dawnpiper", "RKRS", 2},
                {"vpipe", "RKSS", 1},   {"exact", "RKSS", 1}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct outcome o = penstock("memopt", rows[i].name, "--json", "--problem",
                                    PENSTOCK_SOURCE_DIR "/configs/problems/four-layers.json");
        json_t *root = object_of(&o);

        expect_code(&o, rows[i].plan == NULL ? 1 : 0);
        if (rows[i].plan != NULL) {
            assert_string_equal(plan_of(root), rows[i].plan);
            expect_number(root, "extra_us", rows[i].extra);
        }
        json_decref(root);
        outcome_finish(&o);
    }
}

/* What is stated per batch of the graph, asked for another size. */
static void sizes(void **state)
{
    const struct example e = {.n = 1, .rows = {{4, 8, 6}}, .in_flight = 2, .input = 5};
    struct outcome o = penstock("memopt", "none", "--json", "--problem",
                                problem_of(&e, 0, "\"mini_batch\":8,\"micro_batches\":[2,4]"));
    json_t *root;

    (void)state;
    expect_code(&o, 0);
    root = object_of(&o);
    expect_number(root, "period_us", 24); /* two samples, of one each */
    expect_number(root, "peak_bytes", 2 * (5 + 12));
    json_decref(root);
    outcome_finish(&o);
}

static void wrong_requests(void **state)
{
    const struct example e = uneven;
    const char *problem = problem_of(&e, 0, "");
    struct outcome o;

    (void)state;
    o = penstock("memopt");
    expect_code(&o, 2);
    outcome_finish(&o);
    o = penstock("memopt", "none");
    expect_code(&o, 2);
    expect_text(o.err, "--problem is missing");
    outcome_finish(&o);
    o = penstock("memopt", "none", "--problem", problem, "--set", "memopt.use=full");
    expect_code(&o, 2);
    expect_text(o.err, "--options");
    outcome_finish(&o);
    o = penstock("memopt", "nosuch", "--problem", problem);
    expect_code(&o, 2);
    outcome_finish(&o);
    o = penstock("memopt", "full", "--problem", problem, "--options", "unitt=layer");
    expect_code(&o, 2);
    expect_text(o.err, "unit");
    outcome_finish(&o);
    o = penstock("memopt", "vpipe", "--problem", problem, "--options", "mode=ratio,ratio=\"2\"");
    expect_code(&o, 2);
    expect_text(o.err, "ratio");
    outcome_finish(&o);
    o = penstock("memopt", "none", "--problem", support_path("missing.json"));
    expect_code(&o, 2);
    outcome_finish(&o);
    o = penstock("memopt", "none", "--problem", problem_of(&e, 0, "\"stagings\":2"));
    expect_code(&o, 2);
    expect_text(o.err, "staging");
    outcome_finish(&o);
}

/* A plugin from elsewhere runs in a process of its own, and what it does wrong is its own. */
static void foreign(void **state)
{
    const struct example e = uneven;
    char copy[256], command[512];
    struct outcome o;
    json_t *root;

    (void)state;
    snprintf(copy, sizeof copy, "%s", support_path("memopt-full.so"));
    snprintf(command, sizeof command, "cp '%s/memopt-full.so' '%s'", PENSTOCK_PLUGIN_DIR, copy);
    assert_int_equal(system(command), 0);
    o = penstock("memopt", copy, "--json", "--problem", problem_of(&e, 0, ""));
    expect_code(&o, 0);
    root = object_of(&o);
    assert_string_equal(plan_of(root), "RRRR");
    json_decref(root);
    outcome_finish(&o);
    o = penstock("memopt", copy, "--json", "--problem", problem_of(&e, 30, ""));
    expect_code(&o, 1);
    expect_text(o.out, "memory_bytes = 34 would do");
    outcome_finish(&o);
}

static void liars(void **state)
{
    static const struct {
        const char *lie, *words;
    } cases[] = {
        {"lie=far", "node that does not exist"},
        {"lie=action", "an action that one stage cannot have"},
        {"lie=peer", "an action that one stage cannot have"},
        {"lie=promise", "price() promised"},
        {"lie=broken", "price"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct outcome o = penstock("memopt", GALLERY "/memopt-liar.so", "--problem",
                                    problem_of(&uneven, 0, ""), "--options", cases[i].lie);

        expect_code(&o, 3);
        expect_text(o.err, "liar");
        expect_text(o.err, cases[i].words);
        outcome_finish(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_micro_batch), cmocka_unit_test(three_in_flight),
        cmocka_unit_test(uneven_nodes),    cmocka_unit_test(links),
        cmocka_unit_test(skip_connection), cmocka_unit_test(three_layers),
        cmocka_unit_test(square_root),     cmocka_unit_test(free_time),
        cmocka_unit_test(for_people),      cmocka_unit_test(sizes),
        cmocka_unit_test(documented),      cmocka_unit_test(wrong_requests),
        cmocka_unit_test(foreign),         cmocka_unit_test(liars),
        cmocka_unit_test(freed),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
