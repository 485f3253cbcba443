/* SPDX-License-Identifier: Apache-2.0
 *
 * What `penstock partition` says where nothing fits: the amount that it names is accepted, one byte
 * less is refused with the same amount, and more is accepted as well.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "partition_rig.h"

/* Below n, by a linear congruential generator. */
static uint32_t draw_below(uint64_t *random, uint32_t n)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33) % n;
}

struct graph {
    uint32_t n;
    bool chain;
    uint32_t saved[16], parameters[16], work[16], from[16];
};

static struct graph draw(uint64_t *random)
{
    struct graph g = {.n = 5 + draw_below(random, 8), .chain = draw_below(random, 2) == 0};

    for (uint32_t v = 0; v < g.n; v++) {
        g.saved[v] = 1 + draw_below(random, 3000);
        g.parameters[v] = draw_below(random, 2000);
        g.work[v] = 1 + draw_below(random, 9);
        g.from[v] = v < 2 || g.chain ? v - 1 : v - 1 - draw_below(random, 2);
    }
    return g;
}

/* `rest`: of the problem, without memory_bytes. 0: no limit. */
static const char *write_problem(const struct graph *g, const char *rest, uint64_t memory)
{
    char text[8192], limit[32] = "null";
    size_t used;

    if (memory > 0) {
        snprintf(limit, sizeof limit, "%" PRIu64, memory);
    }
    used = (size_t)snprintf(text, sizeof text, HEAD "\"memory_bytes\":%s,%s,\"graph\":{\"nodes\":[",
                            limit, rest);
    for (uint32_t v = 0; v < g->n; v++) {
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s{\"name\":\"n%u\",\"forward_us\":%u,\"backward_input_us\":%u,"
                                 "\"backward_weight_us\":1,\"saved_bytes\":%u,\"param_bytes\":%u}",
                                 v > 0 ? "," : "", v, g->work[v], g->work[v], g->saved[v],
                                 g->parameters[v]);
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "],\"edges\":[");
    for (uint32_t v = 1; v < g->n; v++) {
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s{\"from\":\"n%u\",\"to\":\"n%u\",\"bytes\":8}",
                                 v > 1 ? "," : "", g->from[v], v);
    }
    snprintf(text + used, sizeof text - used, "]}}");
    return support_write("memory.json", text);
}

static uint64_t amount_in(const char *text)
{
    static const char key[] = "memory_bytes = ";
    const char *at = strstr(text, key);
    char *end;
    uint64_t bytes;

    if (at == NULL) {
        fail_msg("no amount in: %s", text);
    }
    bytes = strtoull(at + strlen(key), &end, 10);
    assert_memory_equal(end, " would do", 9);
    return bytes;
}

/* Refused with an amount, the same in words and in --json. */
static uint64_t refused(const char *partitioner, const char *path)
{
    struct outcome said = penstock("partition", partitioner, "--problem", path);
    struct outcome told = penstock("partition", partitioner, "--problem", path, "--json");
    json_t *root = object_of(&told);
    const json_t *error = json_object_get(root, "error");
    uint64_t bytes = amount_in(said.err);

    expect_code(&said, 1);
    expect_code(&told, 1);
    assert_true(json_is_false(json_object_get(root, "feasible")));
    assert_int_equal(json_integer_value(json_object_get(error, "code")), 1);
    assert_string_equal(json_string_value(json_object_get(error, "kind")), "plan.infeasible");
    assert_true(amount_in(json_string_value(json_object_get(error, "hint"))) == bytes);
    json_decref(root);
    outcome_finish(&said);
    outcome_finish(&told);
    return bytes;
}

/* With a plan of which no device takes more. */
static void accepted(const char *partitioner, const char *path, uint64_t memory)
{
    struct outcome told = penstock("partition", partitioner, "--problem", path, "--json");
    double on[8] = {0};
    size_t s, d;
    json_t *root, *stage, *device;

    expect_code(&told, 0);
    root = object_of(&told);
    json_array_foreach(json_object_get(root, "stages"), s, stage)
    {
        json_array_foreach(json_object_get(stage, "devices"), d, device)
        {
            on[json_integer_value(device)] +=
                json_number_value(json_object_get(stage, "memory_bytes"));
        }
    }
    for (d = 0; d < 8; d++) {
        assert_true(on[d] <= (double)memory);
    }
    json_decref(root);
    outcome_finish(&told);
}

static void check_amount(const char *partitioner, const struct graph *g, const char *rest)
{
    static const uint32_t percent[] = {103, 130};
    uint64_t bytes = refused(partitioner, write_problem(g, rest, 100));

    accepted(partitioner, write_problem(g, rest, bytes), bytes);
    assert_true(refused(partitioner, write_problem(g, rest, bytes - 1)) == bytes);
    for (size_t i = 0; i < sizeof percent / sizeof *percent; i++) {
        uint64_t more = bytes * percent[i] / 100;

        accepted(partitioner, write_problem(g, rest, more), more);
    }
}

static void named_amounts(void **state)
{
    static const char *const rests[] = {
        "\"devices\":3,\"mini_batch\":16,\"micro_batches\":[1,2,4]",
        "\"devices\":4,\"mini_batch\":16,\"micro_batches\":[2],\"degrees\":[1,2]",
        "\"devices\":2,\"mini_batch\":8,\"micro_batches\":[1,2],\"cost\":\"planned\","
        "\"scheduler\":\"1f1b\",\"memopt\":\"dawnpiper\"",
        "\"devices\":2,\"mini_batch\":8,\"micro_batches\":[2],\"cost\":\"planned\","
        "\"scheduler\":\"zbv\",\"memopt\":\"full\"",
    };
    static const char *const partitioners[] = {"uniform", "pipedream", "piper", "dapple",
                                               "pipedream-2bw"};
    const uint64_t seed = 20260;
    uint64_t random = seed;
    uint32_t n = 0;

    (void)state;
    print_message("seed %" PRIu64 "\n", seed);
    for (size_t p = 0; p < sizeof partitioners / sizeof *partitioners; p++) {
        for (size_t r = p % 2; r < sizeof rests / sizeof *rests; r += 2, n++) {
            struct graph g = draw(&random);

            check_amount(partitioners[p], &g, rests[r]);
        }
    }
    assert_true(n == 10);
}

/*
 * By hand: two equal nodes on two devices, one each. 4 x 10 bytes of weights; the first device
 * holds two micro-batches of one sample, 100 bytes each.
 */
static void amount_by_hand(void **state)
{
    const struct graph g = {.n = 2,
                            .chain = true,
                            .saved = {100, 100},
                            .parameters = {10, 10},
                            .work = {1, 1},
                            .from = {0, 0}};
    const char *rest = "\"devices\":2,\"mini_batch\":4,\"micro_batches\":[1]";

    (void)state;
    assert_int_equal(refused("uniform", write_problem(&g, rest, 1)), 240);
}

/* Not memory is missing: nothing is named. */
static void no_amount(void **state)
{
    const struct graph g = {.n = 2, .chain = true, .saved = {100, 100}, .work = {1, 1}};
    struct outcome told = penstock(
        "partition", "uniform", "--problem",
        write_problem(&g,
                      "\"devices\":2,\"mini_batch\":9,\"micro_batches\":[3],\"cost\":\"planned\","
                      "\"scheduler\":\"interleaved\",\"scheduler_options\":{\"chunks\":2}",
                      1));

    (void)state;
    expect_code(&told, 1);
    assert_null(strstr(told.err, "would do;"));
    expect_text(told.err, "more memory does not help");
    outcome_finish(&told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(named_amounts),
        cmocka_unit_test(amount_by_hand),
        cmocka_unit_test(no_amount),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
