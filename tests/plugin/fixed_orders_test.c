/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedulers with fixed orders: small instances drawn by hand, tables of makespan, span and what is
 * held, and orders that PyTorch publishes.
 */
#include "schedule_rig.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

struct example {
    const char *id, *options;
    uint32_t p, m;
    uint64_t f, b, w, makespan, span;
    const char *peaks; /* of all devices */
};

static void expect_peaks(const struct schedule_run *run, const char *id, const char *expected)
{
    char text[256] = "";

    for (uint32_t d = 0; d < run->solo.in.n_devices; d++) {
        size_t used = strlen(text);

        snprintf(text + used, sizeof text - used, "%s%u", d > 0 ? "," : "",
                 (unsigned)run->peaks[d]);
    }
    if (strcmp(text, expected) != 0) {
        fail_msg("%s holds %s, expected %s", id, text, expected);
    }
}

/* Worked out apart from this code; the ones of zb-h1 and zb-h2 are those of the paper's formulas.
 */
TEST(test_examples)
{
    static const struct example examples[] = {
        {"zb-h1", NULL, 2, 2, 1, 1, 1, 7, 7, "2,2"},
        {"zb-h1", NULL, 3, 4, 1, 1, 1, 14, 14, "3,3,3"},
        {"zb-h1", NULL, 4, 8, 1, 1, 1, 27, 27, "4,4,4,4"},
        {"zb-h1", NULL, 3, 6, 2, 3, 1, 44, 44, "3,3,3"},
        {"zb-h2", NULL, 2, 4, 1, 1, 1, 13, 12, "3,3"},
        {"zb-h2", NULL, 4, 8, 1, 1, 1, 27, 24, "7,7,7,7"},
        {"interleaved", NULL, 2, 2, 1, 1, 1, 15, 15, "4,3"},
        {"interleaved", NULL, 2, 4, 1, 1, 1, 27, 27, "5,3"},
        {"interleaved", NULL, 4, 8, 1, 1, 1, 57, 57, "11,9,7,5"},
        {"interleaved", "chunks=3", 4, 8, 1, 1, 1, 81, 81, "15,13,11,9"},
        {"interleaved-zb", NULL, 2, 4, 1, 1, 1, 25, 25, "4,4"},
        {"interleaved-zb", NULL, 4, 8, 1, 1, 1, 51, 51, "8,8,8,8"},
        {"looped-bfs", NULL, 4, 8, 1, 1, 1, 57, 57, "16,16,16,16"},
        {"group-interleaved", NULL, 4, 8, 1, 1, 1, 54, 54, "8,7,6,5"},
        {"group-interleaved", "group=2", 4, 8, 1, 1, 1, 56, 56, "6,5,4,3"},
        {"zbv", NULL, 2, 3, 1, 1, 1, 19, 18, "4,4"},
        {"zbv", NULL, 4, 1, 1, 1, 1, 18, 18, "2,2,2,2"},
        {"dualpipev", NULL, 2, 4, 1, 1, 1, 25, 25, "5,5"},
    };

    for (size_t i = 0; i < COUNT(examples); i++) {
        const struct example *e = &examples[i];
        struct schedule_run run = SCHEDULE(e->id, .options = e->options, .p = e->p, .m = e->m,
                                           .f = e->f, .b = e->b, .w = e->w);

        print_message("%s %s p %u m %u\n", e->id, e->options == NULL ? "" : e->options, e->p, e->m);
        assert_int_equal(run.makespan, e->makespan);
        assert_int_equal(run.span, e->span);
        expect_peaks(&run, e->id, e->peaks);
        schedule_run_free(&run);
    }
}

TEST(test_pictures)
{
    static const struct {
        const char *id;
        uint32_t p, m;
        const char *picture;
    } pictures[] = {
        {"zb-h1", 3, 4, "FFF..BWFBWBWBW\n.FF.BFBWFBWBWW\n..FBFBFBWFBWWW\n"},
        {"zb-h2", 2, 4, "FFFBWFBWBWBW.\n.FBFBFBWFBWWW\n"},
        {"zbv", 2, 3, "FFFfBWfBWbwfBWbwbw.\n.FfFfBWFbwfBWbBbwWw\n"},
        /* One device: forward, backward of each micro-batch, nothing idle. */
        {"zb-h1", 1, 2, "FBWFBW\n"},
        {"zb-h2", 1, 2, "FBWFBW\n"},
        {"zbv", 1, 2, "FfBWFbwfBWbw\n"},
        {"1f1b-v", 1, 1, "FfXXxx\n"},
    };

    for (size_t i = 0; i < COUNT(pictures); i++) {
        struct schedule_run run = SCHEDULE(pictures[i].id, .p = pictures[i].p, .m = pictures[i].m);

        assert_string_equal(run.picture, pictures[i].picture);
        schedule_run_free(&run);
    }
}

TEST(test_orders)
{
    static const struct {
        const char *id;
        uint32_t p, m;
        const char *csv;
    } orders[] = {
        {"zb-h1", 2, 2, "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n"},
        {"zb-h1", 3, 4,
         "0F0,0F1,0F2,0I0,0W0,0F3,0I1,0W1,0I2,0W2,0I3,0W3\n"
         "1F0,1F1,1I0,1F2,1I1,1W0,1F3,1I2,1W1,1I3,1W2,1W3\n"
         "2F0,2I0,2F1,2I1,2F2,2I2,2W0,2F3,2I3,2W1,2W2,2W3\n"},
        {"looped-bfs", 2, 2, "0F0,0F1,2F0,2F1,2B1,2B0,0B1,0B0\n1F0,1F1,3F0,3F1,3B1,3B0,1B1,1B0\n"},
        {"interleaved", 2, 4,
         "0F0,0F1,2F0,2F1,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,2B2,2B3,0B2,0B3\n"
         "1F0,1F1,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,1B2,1B3\n"},
    };

    for (size_t i = 0; i < COUNT(orders); i++) {
        struct schedule_run run = SCHEDULE(orders[i].id, .p = orders[i].p, .m = orders[i].m);

        assert_string_equal(run.csv, orders[i].csv);
        schedule_run_free(&run);
    }
}

static uint64_t fnv1a(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    }
    return hash;
}

/*
 * Digests of the files dualpipev_4rank_10mb.csv and zb1p_2rank_2stagep_compute.csv that PyTorch
 * keeps with the tests of its pipelines, without idle cells, input gradients written I, pairs
 * written as forward and backward.
 */
TEST(test_orders_of_pytorch)
{
    struct schedule_run run = SCHEDULE("dualpipev", .p = 4, .m = 10);

    assert_true(fnv1a(run.csv) == 0x3a0852bc29d7806du);
    schedule_run_free(&run);
    run = SCHEDULE("interleaved-zb", .p = 2, .m = 8);
    assert_true(fnv1a(run.csv) == 0x85e0f211e4d84b65u);
    schedule_run_free(&run);
    run = SCHEDULE("interleaved-zb", .p = 2, .m = 6);
    assert_true(fnv1a(run.csv) != 0x85e0f211e4d84b65u);
    schedule_run_free(&run);
}

/* With one chunk the interleaved orders are those of one stage per device. */
TEST(test_one_chunk)
{
    static const char *const pairs[][4] = {
        {"interleaved-zb", "chunks=1", "zb-h1", NULL},
        {"interleaved", "chunks=1", "1f1b", "eager=true"},
        {"interleaved", "chunks=1,split=true", "1f1b", "eager=true,split=true"},
        {"looped-bfs", "chunks=1", "gpipe", "reverse=true"},
    };

    for (size_t i = 0; i < COUNT(pairs); i++) {
        for (uint32_t p = 1; p <= 5; p++) {
            for (uint32_t m = p; m <= 11; m++) {
                struct schedule_run a =
                    SCHEDULE(pairs[i][0], .options = pairs[i][1], .p = p, .m = m);
                struct schedule_run b =
                    SCHEDULE(pairs[i][2], .options = pairs[i][3], .p = p, .m = m);

                assert_string_equal(a.csv, b.csv);
                schedule_run_free(&a);
                schedule_run_free(&b);
            }
        }
    }
}
