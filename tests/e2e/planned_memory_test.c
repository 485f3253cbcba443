/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock partition dawnpiper` with the memory optimizer dawnpiper behind it: pipelines of two
 * and of four stages that were worked out by enumeration.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "partition_rig.h"

#define PLAIN "\"slot_filter\":false,\"link_target\":1.0,\"min_swap_bytes\":0,\"host_memory\":1.0"

/* Forward and backward in microseconds, saved bytes, bytes of the output, parameter bytes. */
struct row {
    uint32_t forward, backward, saved, output, params;
};

struct question {
    const struct row *rows; /* [n], or one for all */
    uint32_t n, devices, capacity;
    bool equal, offload;
    const char *scheduler, *memopt;
};

/* A chain, eight micro-batches of one sample, one copy beside each weight, an input of one byte, a
   host link of a byte per microsecond. */
static const char *problem(const struct question *q)
{
    static char text[16384];
    size_t used = (size_t)snprintf(
        text, sizeof text,
        HEAD "\"cost\":\"planned\",\"mini_batch\":8,\"micro_batches\":[1],\"weight_multiplier\":2,"
             "\"input_bytes\":1,\"devices\":%u,\"memory_bytes\":%u,\"swap_bandwidth\":%s,"
             "\"link_directions\":1,\"scheduler\":\"%s\",\"memopt\":\"%s\","
             "\"memopt_options\":{%s},\"graph\":{\"nodes\":[",
        q->devices, q->capacity, q->offload ? "1e6" : "0", q->scheduler, q->memopt,
        strcmp(q->memopt, "dawnpiper") == 0 ? PLAIN : "");

    for (uint32_t i = 0; i < q->n; i++) {
        const struct row *r = &q->rows[q->equal ? 0 : i];

        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s{\"name\":\"n%u\",\"forward_us\":%u,\"backward_input_us\":%u,"
                                 "\"backward_weight_us\":0,\"saved_bytes\":%u,\"param_bytes\":%u}",
                                 i > 0 ? "," : "", i, r->forward, r->backward, r->saved, r->params);
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "],\"edges\":[");
    for (uint32_t i = 0; i + 1 < q->n; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s{\"from\":\"n%u\",\"to\":\"n%u\",\"bytes\":%u}",
                                 i > 0 ? "," : "", i, i + 1, q->rows[q->equal ? 0 : i].output);
    }
    snprintf(text + used, sizeof text - used, "]}}");
    return support_write("problem.json", text);
}

/* Stage `s` begins with node `first`. */
static void expect_begin(const json_t *stages, uint32_t s, uint32_t first)
{
    uint32_t before = 0;

    for (uint32_t i = 0; i < s; i++) {
        before += (uint32_t)json_array_size(json_object_get(json_array_get(stages, i), "nodes"));
    }
    assert_int_equal(before, first);
}

/* bottleneck 0: nothing fits. cuts: first nodes of the stages but the first, up to a 0. */
static void expect(const struct question *q, double bottleneck, const uint32_t *cuts)
{
    struct outcome o = penstock("partition", "dawnpiper", "--json", "--problem", problem(q));
    json_t *root;

    expect_code(&o, bottleneck == 0 ? 1 : 0);
    if (bottleneck > 0) {
        root = object_of(&o);
        expect_number(root, "bottleneck_us_per_sample", bottleneck);
        for (uint32_t i = 0; cuts != NULL && cuts[i] != 0; i++) {
            expect_begin(json_object_get(root, "stages"), i + 1, cuts[i]);
        }
        json_decref(root);
    }
    outcome_finish(&o);
}

static void expect_both(struct question q, double bottleneck, const uint32_t *cuts)
{
    q.memopt = "dawnpiper";
    expect(&q, bottleneck, cuts);
    q.memopt = "exact";
    expect(&q, bottleneck, cuts);
}

static const struct row unit = {1, 2, 2, 1, 1};

/* Six equal nodes: RKK / KKK and so on. */
static void test_two_stages(void **state)
{
    static const struct {
        uint32_t capacity;
        double bottleneck;
    } table[] = {{20, 9}, {17, 10}, {16, 10}, {14, 11}, {13, 0}};
    static const uint32_t cuts[] = {3, 0};

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct question q = {&unit, 6, 2, table[i].capacity, true, false, "1f1b", NULL};

        expect_both(q, table[i].bottleneck, cuts);
    }
}

static void test_uneven(void **state)
{
    static const struct row moves[] = {
        {2, 4, 1, 1, 2}, {1, 2, 4, 1, 1}, {4, 8, 4, 1, 1}, {2, 4, 1, 1, 0}, {2, 4, 1, 1, 1}};
    static const struct row margin[] = {
        {3, 6, 6, 1, 0}, {2, 4, 1, 1, 1}, {4, 8, 4, 1, 0}, {3, 6, 6, 1, 0}, {2, 4, 6, 1, 1}};
    static const struct row outside[] = {
        {4, 8, 1, 1, 0}, {3, 6, 1, 1, 0}, {4, 8, 4, 4, 1}, {1, 2, 1, 1, 1}, {2, 4, 1, 1, 2}};
    static const uint32_t two[] = {2, 0}, three[] = {3, 0};
    struct question q = {moves, 5, 2, 22, false, false, "1f1b", NULL};

    (void)state;
    expect_both(q, 24, two);
    q.rows = margin;
    q.capacity = 16;
    expect_both(q, 30, three);
    q.rows = outside;
    q.capacity = 12;
    expect_both(q, 37, three);
}

/* Eight equal nodes on four stages, replays alone and with a link. */
static void test_four_stages(void **state)
{
    static const uint32_t capacity[] = {26, 24, 22, 20, 18, 16, 14, 12};
    static const double replay[] = {6, 6, 7, 7, 7, 8, 8, 8};
    static const double hybrid[] = {6, 6, 6, 6, 6, 6, 7, 8};
    static const uint32_t cuts[] = {2, 4, 6, 0};

    (void)state;
    for (size_t i = 0; i < 8; i++) {
        struct question q = {&unit, 8, 4, capacity[i], true, false, "1f1b", "dawnpiper"};

        expect(&q, replay[i], cuts);
        q.offload = true;
        expect(&q, hybrid[i], cuts);
    }
}

/* One stage costs what the best plan of it costs, six stages of six nodes what the dearest does. */
static void test_ends(void **state)
{
    static const uint32_t each[] = {1, 2, 3, 4, 5, 0};
    /* Six nodes, an input of a byte, 2 bytes for each of parameters: 12 + 1 + 12 kept. */
    struct question q = {&unit, 6, 1, 25, true, false, "1f1b", NULL};

    (void)state;
    expect_both(q, 18, NULL);
    q.capacity = 23; /* one dropped inside: 2 bytes less while it is away */
    expect_both(q, 19, NULL);
    q.devices = 6;
    q.capacity = 20; /* stage 0 holds six: 2 + 6 (1 + 2) */
    expect_both(q, 3, each);
    q.capacity = 19; /* dropped: 2 + 6 + 2; so is that of stage 1 where 17 are there */
    expect_both(q, 4, each);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_stages),
        cmocka_unit_test(test_uneven),
        cmocka_unit_test(test_four_stages),
        cmocka_unit_test(test_ends),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
