/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock memopt rotor`: three layers worked out by hand, under capacities from ample to too
 * little, as tables and as JSON; the plan that model files give has its replays listed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "partition_rig.h"

#define PROBLEM PENSTOCK_SOURCE_DIR "/configs/problems/three-layers.json"

/* The problem with another capacity, in MB. */
static const char *problem_with(uint32_t megabytes)
{
    json_t *root = json_load_file(PROBLEM, 0, NULL);
    const char *path;
    char *text;

    assert_non_null(root);
    json_object_set_new(root, "memory_bytes", json_integer((json_int_t)megabytes * 1000000));
    text = json_dumps(root, 0);
    path = support_write("three.json", text);
    free(text);
    json_decref(root);
    return path;
}

/* "1:0-1 0:0-0": before which backward which operators run again. */
static void expect_sequence(const json_t *root, const char *expected)
{
    char text[256] = "";
    size_t used = 0, i;
    json_t *row;

    json_array_foreach(json_object_get(root, "sequence"), i, row)
    {
        const char *before = json_string_value(json_object_get(row, "before"));
        const char *first = json_string_value(json_object_get(row, "first"));
        const char *last = json_string_value(json_object_get(row, "last"));

        used += (size_t)snprintf(text + used, sizeof text - used, "%s%c:%c-%c", i > 0 ? " " : "",
                                 before[5], first[5], last[5]);
    }
    assert_string_equal(text, expected);
}

static void three_layers(void **state)
{
    static const struct {
        uint32_t megabytes;
        double extra, peak;
        const char *sequence;
    } rows[] = {{19, 0, 18, ""},
                {18, 0, 18, ""},
                {17, 1, 16, "0:0-0"},
                {16, 1, 16, "0:0-0"},
                {15, 3, 14, NULL},
                {14, 3, 14, NULL},
                {13, 4, 12, "1:0-1 0:0-0"},
                {12, 4, 12, "1:0-1 0:0-0"}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct outcome o =
            penstock("memopt", "rotor", "--json", "--problem", problem_with(rows[i].megabytes));
        json_t *root;

        expect_code(&o, 0);
        root = object_of(&o);
        expect_number(root, "extra_us", rows[i].extra);
        expect_number(root, "peak_bytes", rows[i].peak * 1e6);
        expect_number(root, "recompute_us", rows[i].extra);
        if (rows[i].sequence != NULL) {
            expect_sequence(root, rows[i].sequence);
        }
        json_decref(root);
        outcome_finish(&o);
    }
}

static void too_little(void **state)
{
    struct outcome o = penstock("memopt", "rotor", "--problem", problem_with(11));

    (void)state;
    expect_code(&o, 1);
    expect_text(o.err, "memory_bytes = 12000000 would do");
    outcome_finish(&o);
}

/* Of one micro-batch: the first layer runs again twice. */
static void table(void **state)
{
    struct outcome o = penstock("memopt", "rotor", "--problem", PROBLEM);

    (void)state;
    expect_code(&o, 0);
    expect_row(o.out, "layer0.op",
               "recompute 3.81 MiB 0 B 2.00 us of the active micro-batch alone");
    expect_row(o.out, "layer1.op",
               "recompute 3.81 MiB 0 B 2.00 us of the active micro-batch alone");
    expect_text(o.out, "layer0.op to layer1.op before the backward of layer1.op");
    expect_text(o.out, "layer0.op to layer0.op before the backward of layer0.op");
    outcome_finish(&o);
}

/* Two in flight in 20 MB. The input, the result of layer 1, which layer 2 reads, and all that layer
   2 saves are parked, 2 + 2 + 4 MB; so replays free 4 MB of layer 0 and 2 MB of layer 1. */
static void parked(void **state)
{
    json_t *root = json_load_file(PROBLEM, 0, NULL);
    struct outcome o;
    const char *path;
    char *text;

    (void)state;
    assert_non_null(root);
    json_object_set_new(root, "in_flight", json_integer(2));
    json_object_set_new(root, "memory_bytes", json_integer(20000000));
    text = json_dumps(root, 0);
    path = support_write("two.json", text);
    o = penstock("memopt", "rotor", "--problem", path);
    expect_code(&o, 0);
    expect_row(o.out, "layer0.op", "recompute 3.81 MiB 3.81 MiB 2.00 us 1.91 MiB for each us");
    expect_row(o.out, "layer1.op", "recompute 3.81 MiB 1.91 MiB 2.00 us 977 KiB for each us");
    expect_text(o.out, "0 B static, 7.63 MiB parked, 11.4 MiB of the active");
    outcome_finish(&o);
    free(text);
    json_decref(root);
}

/* Passes have the colours of schedules: replays 0xB668A2, backward passes as wholes 0xD9642B, none
   for inputs alone, 0xE8A020. */
static void picture(void **state)
{
    const char *path = support_path("memory.svg");
    struct outcome o = penstock("memopt", "rotor", "--problem", PROBLEM, "--svg", path);
    char *figure;

    (void)state;
    expect_code(&o, 0);
    figure = support_read(path);
    assert_non_null(figure);
    expect_text(figure, "rgb(71.372549%,40.784314%,63.529412%)");
    expect_text(figure, "rgb(85.098039%,39.215686%,16.862745%)");
    assert_null(strstr(figure, "rgb(90.980392%,"));
    free(figure);
    outcome_finish(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_layers), cmocka_unit_test(too_little), cmocka_unit_test(table),
        cmocka_unit_test(parked),       cmocka_unit_test(picture),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
