/* SPDX-License-Identifier: Apache-2.0
 *
 * Forty small schedules with their makespan, span and peaks, as the papers' own generators or an
 * independent event simulator gave them; the first dozen can be drawn by hand, and some are: as
 * pictures and as orders. What is known of the optima that an exhaustive search over states proves:
 * which schedulers reach them, and by how much the papers' blocks miss them.
 */
#include "schedule_rig.h"

#define ANY 999999 /* a figure that the source does not give */

struct row {
    int number;
    const char *id, *options;
    uint32_t p, m;
    uint64_t f, b, w, c, cap;
    uint64_t makespan, span;
    uint64_t peaks[8]; /* up to the first 0; a single one: on all devices */
    uint32_t batches;
};

static const struct row rows[] = {
    {1, "gpipe", "", 2, 3, 1, 1, 1, 0, 0, 12, 12, {3, 3}, 1},
    {2, "1f1b", "", 2, 3, 1, 1, 1, 0, 0, 12, 12, {2, 1}, 1},
    {3, "1f1b", "", 4, 2, 1, 1, 1, 0, 0, 15, 15, {2, 2, 2, 1}, 1},
    {4, "zb-h1", "", 2, 2, 1, 1, 1, 0, 0, 7, 7, {2, 2}, 1},
    {5, "zb-h1", "", 3, 4, 1, 1, 1, 0, 0, 14, 14, {3, 3, 3}, 1},
    {6, "zb-h2", "", 2, 4, 1, 1, 1, 0, 0, 13, 12, {3, 3}, 1},
    {7, "interleaved", "chunks=2", 2, 2, 1, 1, 1, 0, 0, 15, 15, {4, 3}, 1},
    {8, "interleaved", "chunks=2", 2, 4, 1, 1, 1, 0, 0, 27, 27, {5, 3}, 1},
    {9, "interleaved-zb", "chunks=2", 2, 4, 1, 1, 1, 0, 0, 25, 25, {4, 4}, 1},
    {10, "zbv", "", 2, 3, 1, 1, 1, 0, 0, 19, 18, {4, 4}, 1},
    {10, "v-zb", "", 2, 3, 1, 1, 1, 0, 0, 19, 18, {4, 4}, 1},
    {11, "v-half", "", 2, 3, 1, 1, 1, 0, 0, 19, 19, {4, 4}, 1},
    {12, "v-min", "", 3, 4, 1, 1, 1, 0, 0, 29, 29, {4, 4, 4}, 1},
    {13, "gpipe", "", 4, 8, 1, 1, 1, 0, 0, 33, 33, {8}, 1},
    {14, "1f1b", "", 4, 8, 1, 1, 1, 0, 0, 33, 33, {4, 3, 2, 1}, 1},
    {15, "1f1b", "split=true", 4, 8, 1, 1, 1, 0, 0, 30, 30, {4, 3, 2, 1}, 1},
    {16, "1f1b", "", 4, 8, 1, 1, 1, 1, 0, 49, 49, {4, 3, 2, 1}, 1},
    {17, "1f1b", "eager=true", 4, 8, 1, 1, 1, 1, 0, 39, ANY, {7, 5, 3, 1}, 1},
    {18, "interleaved", "chunks=2", 4, 8, 1, 1, 1, 0, 0, 57, 57, {11, 9, 7, 5}, 1},
    {19, "interleaved", "chunks=3", 4, 8, 1, 1, 1, 0, 0, 81, 81, {15, 13, 11, 9}, 1},
    {20, "looped-bfs", "chunks=2", 4, 8, 1, 1, 1, 0, 0, 57, 57, {16}, 1},
    {21, "zb-h1", "", 4, 8, 1, 1, 1, 0, 0, 27, 27, {4}, 1},
    {22, "zb-h1", "", 3, 6, 2, 3, 1, 0, 0, 44, 44, {3}, 1},
    {23, "zb-h2", "", 4, 8, 1, 1, 1, 0, 0, 27, 24, {7}, 1},
    {24, "zb-auto", "", 4, 8, 1, 1, 1, 0, 4, 27, 27, {4}, 1},
    {24, "zb-auto", "", 4, 8, 1, 1, 1, 0, 8, 27, 24, {8}, 1},
    {25, "interleaved-zb", "chunks=2", 4, 8, 1, 1, 1, 0, 0, 51, 51, {8}, 1},
    {26, "v-zb", "", 4, 8, 1, 1, 1, 0, 0, 51, 48, {8}, 1},
    {27, "v-zb", "", 4, 5, 1, 1, 1, 0, 0, 33, 32, {8}, 1},
    {28, "v-min", "", 4, 4, 1, 1, 1, 0, 0, 35, 35, {4}, 1},
    {29, "v-min", "", 4, 8, 1, 1, 1, 0, 0, 59, 59, {4}, 1},
    {30, "v-min", "", 8, 16, 1, 1, 1, 0, 0, 123, 123, {7, 8, 8, 8, 8, 8, 8, 8}, 1},
    {31, "v-half", "", 3, 4, 1, 1, 1, 0, 0, 29, 29, {4}, 1},
    {32, "v-half", "", 4, 8, 1, 1, 1, 0, 0, 53, 53, {6}, 1},
    {33, "v-half", "", 8, 16, 1, 1, 1, 0, 0, 113, 113, {10}, 1},
    {34, "v-half", "", 4, 16, 3, 4, 2, 0, 0, 317, 317, {6}, 1},
    {35, "v-min", "", 4, 16, 3, 4, 2, 0, 0, 418, 418, {4}, 1},
    {36, "v-adaptive", "", 4, 4, 1, 1, 1, 0, 6, 29, 29, {5, 6, 6, 6}, 1},
    {37, "dualpipev", "", 2, 4, 1, 1, 1, 0, 0, 25, 25, {5, 5}, 1},
    /* the pairs of this DualPipe run their members one after the other: 3m + (p - 2) / 2 instead of
       3m + p - 2 */
    {38, "dualpipe", "", 4, 8, 1, 1, 1, 0, 0, 25, 25, {5}, 1},
    {39, "2bw", "", 4, 4, 1, 1, 1, 0, 0, 45, 45, {4, 3, 2, 1}, 3},
    {39, "pipedream", "", 4, 4, 1, 1, 1, 0, 0, 45, 45, {4, 3, 2, 1}, 3},
    {40, "per-stage", "", 3, 16, 1, 1, 1, 0, 0, 66, ANY, {10, 8, 4}, 1},
    /* from here on not of that list */
    {41, "gpipe", "", 4, 8, 1, 1, 1, 1, 0, 39, ANY, {8}, 1},
    {41, "1f1b", "", 4, 8, 1, 1, 1, 0, 0, 132, 132, {4, 3, 2, 1}, 4},
    {41, "group-interleaved", "", 4, 8, 1, 1, 1, 0, 0, 54, 54, {8, 7, 6, 5}, 1},
    {41, "group-interleaved", "group=2", 4, 8, 1, 1, 1, 0, 0, 56, 56, {6, 5, 4, 3}, 1},
    {41, "zbv", "", 4, 1, 1, 1, 1, 0, 0, 18, 18, {2}, 1},
    {41, "v-adaptive", "", 1, 3, 3, 4, 2, 0, 0, 54, ANY, {2}, 1},
    /* small instances of zb-auto at every cap; fewer micro-batches held than devices, too */
    {42, "zb-auto", "objective=span", 4, 12, 5, 6, 4, 0, 4, ANY, 201, {ANY}, 1},
    {42, "zb-auto", "objective=span", 4, 12, 5, 6, 4, 0, 6, ANY, 193, {ANY}, 1},
    {42, "zb-auto", "objective=span", 4, 12, 5, 6, 4, 0, 8, ANY, 186, {ANY}, 1},
    {42, "zb-auto", "objective=span", 4, 12, 1, 1, 1, 0, 4, 39, 39, {ANY}, 1},
    {42, "zb-auto", "objective=span", 4, 12, 1, 1, 1, 0, 5, 39, 38, {ANY}, 1},
    {42, "zb-auto", "objective=span", 4, 12, 1, 1, 1, 0, 6, 39, 37, {ANY}, 1},
    {42, "zb-auto", "objective=span", 4, 12, 1, 1, 1, 0, 7, 39, 36, {ANY}, 1},
    {42, "zb-auto", "objective=span", 4, 12, 1, 1, 1, 0, 8, 39, 36, {ANY}, 1},
    {43, "zb-auto", "objective=makespan", 4, 6, 2, 2, 1, 0, 2, 57, ANY, {ANY}, 1},
    {43, "zb-auto", "objective=makespan", 4, 6, 2, 2, 1, 0, 3, 44, ANY, {ANY}, 1},
    {43, "zb-auto", "objective=makespan", 4, 6, 3, 4, 2, 0, 2, 101, ANY, {ANY}, 1},
    {43, "zb-auto", "objective=makespan", 4, 6, 3, 4, 2, 0, 3, 78, ANY, {ANY}, 1},
    {43, "zb-auto", "objective=makespan", 4, 3, 1, 1, 2, 0, 2, 20, ANY, {ANY}, 1},
    {43, "zb-auto", "objective=makespan", 3, 6, 2, 3, 2, 0, 2, 60, ANY, {ANY}, 1},
};

/* Row 40: micro-batches of 1, 2 and 4 samples; memory counts in samples. */
static void sizes_one_two_four(struct pst_order_question *asked, void *context)
{
    for (uint32_t s = 0; s < 3; s++) {
        struct pst_schedule_stage *stage = &asked->stages[s];

        stage->microbatch_size = 1u << s;
        stage->n_microbatches = 16u >> s;
        stage->k = s < 2 ? 2 : 1;
        stage->forward_ns = stage->backward_input_ns = stage->backward_weight_ns = 1u << s;
        stage->saved_bytes = stage->saved_weight_bytes = 1u << s;
    }
}

static uint64_t peak_of_row(const struct row *row, uint32_t device)
{
    return row->peaks[1] == 0 ? row->peaks[0] : row->peaks[device];
}

/* Prints what is wrong; the number of faults. */
static int check_row(const struct row *row)
{
    struct schedule_run r =
        SCHEDULE(row->id, .options = row->options, .p = row->p, .m = row->m, .f = row->f,
                 .b = row->b, .w = row->w, .c = row->c, .cap = row->cap, .batches = row->batches,
                 .change = row->number == 40 ? sizes_one_two_four : NULL);
    int faults = 0;

    if (row->makespan != ANY && r.makespan != row->makespan) {
        print_error("row %d, %s: makespan %llu, not %llu\n", row->number, row->id,
                    (unsigned long long)r.makespan, (unsigned long long)row->makespan);
        faults++;
    }
    if (row->span != ANY && r.span != row->span) {
        print_error("row %d, %s: span %llu, not %llu\n", row->number, row->id,
                    (unsigned long long)r.span, (unsigned long long)row->span);
        faults++;
    }
    for (uint32_t d = 0; d < row->p; d++) {
        uint64_t peak = peak_of_row(row, d);

        if ((peak != ANY && r.peaks[d] != peak) || (row->cap > 0 && r.peaks[d] > row->cap)) {
            print_error("row %d, %s: device %u holds %llu, not %llu\n", row->number, row->id, d,
                        (unsigned long long)r.peaks[d], (unsigned long long)peak);
            faults++;
        }
    }
    if (r.bounds.makespan_ns > r.makespan_ns || r.bounds.span_ns > r.span_ns) {
        print_error("row %d, %s: below a lower bound\n", row->number, row->id);
        faults++;
    }
    schedule_run_free(&r);
    return faults;
}

TEST(test_rows)
{
    int faults = 0;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        faults += check_row(&rows[i]);
    }
    assert_int_equal(faults, 0);
}

/* Rows 5, 6, 10, 11, 12 and 32 as pictures, a character a unit. */
TEST(test_pictures)
{
    static const struct {
        const char *id;
        uint32_t p, m;
        const char *picture;
    } pictures[] = {
        {"zb-h1", 3, 4, "FFF..BWFBWBWBW\n.FF.BFBWFBWBWW\n..FBFBFBWFBWWW\n"},
        {"zb-h2", 2, 4, "FFFBWFBWBWBW.\n.FBFBFBWFBWWW\n"},
        {"v-zb", 2, 3, "FFFfBWfBWbwfBbWbww.\n.FfFfBWFbwfBbBbWwWw\n"},
        {"zbv", 2, 3, "FFFfBWfBWbwfBWbwbw.\n.FfFfBWFbwfBWbBbwWw\n"},
        /* One device: forward, backward of each micro-batch, nothing idle. */
        {"zb-h1", 1, 2, "FBWFBW\n"},
        {"zb-h2", 1, 2, "FBWFBW\n"},
        {"zbv", 1, 2, "FfBWFbwfBWbw\n"},
        {"1f1b-v", 1, 1, "FfXXxx\n"},
        {"gpipe", 2, 3, "FFF...XXXXXX\n.FFFXXXXXX..\n"},
        {"v-half", 2, 3, "FFFfBWf.bBWfBbWbwww\n.FfFfBWbwFfBbBbWWww\n"},
        {"v-min", 3, 4,
         "FFF..fBWf..bBWwfFbBWwfBbWw.bw\n.FF.f.fBW.bFwBfWbFwBfWbBWwbw.\n"
         "..FfFf..BbWwFfBbWwFfBbWwBbWw.\n"},
        {"v-half", 4, 8,
         "FFFFF..fBWfBWf..bBWfwFbBWfwFbBWfwFbBWfBWbwwfBbWbww.bw\n"
         ".FFFF.f.fBWfBW.bwFfBWbwFfBWbwFfBWbFwfBWbBWfwbBbWwwbw.\n"
         "..FFFf.f.fBWFBbWwfF.bBWfwFbBWfwFbBWfwFbBWfBbWbBWwbwww\n"
         "...FfFfFf..BWbwFfBWbwFfBWbwFfBWbFwfBbWFwfBbBbWWBbWwww\n"},
    };

    for (size_t i = 0; i < sizeof pictures / sizeof pictures[0]; i++) {
        OWN_RUN r = SCHEDULE(pictures[i].id, .p = pictures[i].p, .m = pictures[i].m);

        assert_string_equal(r.picture, pictures[i].picture);
    }
}

/* Rows 5 and 8 as lists, and others of few micro-batches. */
TEST(test_orders)
{
    static const struct {
        const char *id, *options;
        uint32_t p, m;
        const char *csv;
    } orders[] = {
        {"zb-h1", "", 3, 4,
         "0F0,0F1,0F2,0I0,0W0,0F3,0I1,0W1,0I2,0W2,0I3,0W3\n"
         "1F0,1F1,1I0,1F2,1I1,1W0,1F3,1I2,1W1,1I3,1W2,1W3\n"
         "2F0,2I0,2F1,2I1,2F2,2I2,2W0,2F3,2I3,2W1,2W2,2W3\n"},
        {"interleaved", "", 2, 4,
         "0F0,0F1,2F0,2F1,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,2B2,2B3,0B2,0B3\n"
         "1F0,1F1,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,1B2,1B3\n"},
        {"looped-bfs", "", 2, 2,
         "0F0,0F1,2F0,2F1,2B1,2B0,0B1,0B0\n1F0,1F1,3F0,3F1,3B1,3B0,1B1,1B0\n"},
        {"zb-h1", "", 2, 2, "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n"},
        {"gpipe", "", 2, 3, "0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1F1,1F2,1B0,1B1,1B2\n"},
        {"gpipe", "reverse=true", 2, 3, "0F0,0F1,0F2,0B2,0B1,0B0\n1F0,1F1,1F2,1B2,1B1,1B0\n"},
        {"gpipe", "split=true", 2, 2, "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1F1,1I0,1W0,1I1,1W1\n"},
        {"1f1b", "", 2, 2, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"},
        {"1f1b", "", 3, 4,
         "0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3\n1F0,1F1,1B0,1F2,1B1,1F3,1B2,1B3\n"
         "2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3\n"},
        {"1f1b", "split=true", 3, 4,
         "0F0,0F1,0F2,0I0,0W0,0F3,0I1,0W1,0I2,0W2,0I3,0W3\n"
         "1F0,1F1,1I0,1W0,1F2,1I1,1W1,1F3,1I2,1W2,1I3,1W3\n"
         "2F0,2I0,2W0,2F1,2I1,2W1,2F2,2I2,2W2,2F3,2I3,2W3\n"},
        {"1f1b", "eager=true", 3, 4,
         "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n1F0,1F1,1F2,1B0,1F3,1B1,1B2,1B3\n"
         "2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3\n"},
    };

    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        OWN_RUN r = SCHEDULE(orders[i].id, .options = orders[i].options, .p = orders[i].p,
                             .m = orders[i].m);

        assert_string_equal(r.csv, orders[i].csv);
    }
}

struct optimum {
    const char *placement;
    uint32_t p, m;
    uint64_t cap, f, b, w, makespan;
    const char *reached_by; /* besides those that search every instance */
};

/* Least makespans of any order, as an exhaustive search over states proves. */
static const struct optimum optima[] = {
    {"sequential", 2, 4, 2, 1, 1, 1, 13, "zb-h1"}, {"sequential", 3, 6, 3, 1, 1, 1, 20, "zb-h1"},
    {"sequential", 3, 6, 5, 1, 1, 1, 20, NULL},    {"sequential", 4, 8, 4, 1, 1, 1, 27, "zb-h1"},
    {"sequential", 3, 6, 2, 1, 1, 1, 25, NULL},    {"sequential", 4, 6, 3, 1, 1, 1, 24, NULL},
    {"sequential", 4, 6, 2, 1, 1, 1, 31, NULL},    {"sequential", 3, 6, 3, 2, 2, 1, 36, "zb-h1"},
    {"sequential", 3, 6, 5, 2, 2, 1, 34, NULL},    {"sequential", 3, 6, 3, 1, 2, 1, 28, NULL},
    {"sequential", 3, 6, 6, 1, 2, 1, 26, NULL},    {"vshape", 2, 4, 2, 1, 1, 1, 33, NULL},
    {"vshape", 2, 4, 3, 1, 1, 1, 27, NULL},        {"vshape", 2, 4, 4, 1, 1, 1, 25, "v-zb"},
    {"vshape", 3, 4, 2, 1, 1, 1, 43, NULL},        {"vshape", 3, 4, 3, 1, 1, 1, 36, NULL},
    {"vshape", 3, 4, 4, 1, 1, 1, 29, NULL},        {"vshape", 3, 4, 5, 1, 1, 1, 27, NULL},
    {"vshape", 3, 4, 6, 1, 1, 1, 26, "v-zb"},      {"vshape", 4, 4, 3, 1, 1, 1, 46, NULL},
    {"vshape", 4, 4, 4, 1, 1, 1, 35, NULL},        {"vshape", 4, 4, 5, 1, 1, 1, 32, NULL},
    {"vshape", 4, 4, 6, 1, 1, 1, 29, NULL},        {"vshape", 4, 4, 7, 1, 1, 1, 28, NULL},
    {"vshape", 4, 4, 8, 1, 1, 1, 27, "v-zb"},      {"vshape", 4, 5, 4, 1, 1, 1, 41, NULL},
    {"vshape", 4, 5, 5, 1, 1, 1, 38, NULL},        {"vshape", 4, 5, 6, 1, 1, 1, 35, NULL},
    {"vshape", 4, 5, 7, 1, 1, 1, 34, NULL},        {"vshape", 4, 5, 8, 1, 1, 1, 33, "v-zb"},
    {"vshape", 2, 4, 4, 2, 2, 1, 42, "v-zb"},      {"vshape", 2, 4, 4, 2, 3, 2, 59, "v-zb"},
    {"vshape", 2, 4, 4, 1, 2, 1, 34, "v-zb"},      {"vshape", 3, 4, 4, 1, 2, 1, 41, NULL},
    {"vshape", 3, 4, 6, 1, 2, 1, 36, "v-zb"},      {"vshape", 2, 3, 3, 1, 1, 1, 21, NULL},
    {"looped", 2, 3, 4, 1, 1, 1, 19, NULL},        {"looped", 3, 3, 4, 1, 1, 1, 23, NULL},
    {"looped", 2, 3, 3, 1, 1, 1, 20, NULL},
};

static int check_optimum(const struct optimum *row, const char *id, const char *options)
{
    struct schedule_run r =
        SCHEDULE(id, .options = options, .p = row->p, .m = row->m, .cap = row->cap, .f = row->f,
                 .b = row->b, .w = row->w, .barrier = true);
    uint64_t proven = r.answer.claim.lower_bound_ns;
    bool wrong = r.makespan != row->makespan || r.bounds.makespan_ns > row->makespan ||
                 (strcmp(id, "optimal") == 0 && proven != row->makespan);

    if (wrong) {
        print_error("%s, p %u, m %u, cap %llu (%u,%u,%u): makespan %llu, bound %llu, not %llu\n",
                    id, row->p, row->m, (unsigned long long)row->cap, (unsigned)row->f,
                    (unsigned)row->b, (unsigned)row->w, (unsigned long long)r.makespan,
                    (unsigned long long)proven, (unsigned long long)row->makespan);
    }
    for (uint32_t d = 0; d < row->p; d++) {
        assert_true(r.peaks[d] <= row->cap);
    }
    schedule_run_free(&r);
    return wrong;
}

TEST(test_optima)
{
    int faults = 0;

    for (size_t i = 0; i < sizeof optima / sizeof optima[0]; i++) {
        const struct optimum *row = &optima[i];
        char placement[32];

        snprintf(placement, sizeof placement, "placement=%s", row->placement);
        faults += check_optimum(row, "optimal", placement);
        if (strcmp(row->placement, "sequential") == 0) {
            faults += check_optimum(row, "zb-auto", "");
        } else if (strcmp(row->placement, "vshape") == 0) {
            faults += check_optimum(row, "v-adaptive", "");
        }
        if (row->reached_by != NULL) {
            faults += check_optimum(row, row->reached_by, "");
        }
    }
    assert_int_equal(faults, 0);
}

/* By how much the papers' blocks miss the optimum. */
TEST(test_blocks_that_miss)
{
    static const struct optimum blocks[] = {
        {"v-min", 2, 4, 4, 1, 1, 1, 27, NULL},  {"v-half", 4, 4, 6, 1, 1, 1, 34, NULL},
        {"v-half", 5, 5, 6, 1, 1, 1, 44, NULL}, {"v-half", 3, 4, 4, 1, 2, 1, 44, NULL},
        {"v-min", 3, 4, 4, 1, 2, 1, 51, NULL},
    };
    int faults = 0;

    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        faults += check_optimum(&blocks[i], blocks[i].placement, "");
    }
    assert_int_equal(faults, 0);
}
