/* SPDX-License-Identifier: Apache-2.0
 *
 * The exact search: optima that an exhaustive search over states has proven before, and random tiny
 * instances against all orders there are, one by one.
 */
#include "schedule_rig.h"

#include "check/problem.h" /* random numbers */

struct row {
    const char *placement;
    uint32_t p, m;
    uint64_t cap, f, b, w, makespan;
};

static void test_proven_optima(void **state)
{
    static const struct row rows[] = {
        {"sequential", 2, 4, 2, 1, 1, 1, 13}, {"sequential", 3, 6, 3, 1, 1, 1, 20},
        {"sequential", 3, 6, 5, 1, 1, 1, 20}, {"sequential", 4, 8, 4, 1, 1, 1, 27},
        {"sequential", 3, 6, 2, 1, 1, 1, 25}, {"sequential", 4, 6, 3, 1, 1, 1, 24},
        {"sequential", 4, 6, 2, 1, 1, 1, 31}, {"sequential", 3, 6, 3, 2, 2, 1, 36},
        {"sequential", 3, 6, 5, 2, 2, 1, 34}, {"sequential", 3, 6, 3, 1, 2, 1, 28},
        {"sequential", 3, 6, 6, 1, 2, 1, 26}, {"vshape", 2, 4, 2, 1, 1, 1, 33},
        {"vshape", 2, 4, 3, 1, 1, 1, 27},     {"vshape", 2, 4, 4, 1, 1, 1, 25},
        {"vshape", 3, 4, 2, 1, 1, 1, 43},     {"vshape", 3, 4, 3, 1, 1, 1, 36},
        {"vshape", 3, 4, 4, 1, 1, 1, 29},     {"vshape", 3, 4, 5, 1, 1, 1, 27},
        {"vshape", 3, 4, 6, 1, 1, 1, 26},     {"vshape", 4, 4, 3, 1, 1, 1, 46},
        {"vshape", 4, 4, 4, 1, 1, 1, 35},     {"vshape", 4, 4, 5, 1, 1, 1, 32},
        {"vshape", 4, 4, 6, 1, 1, 1, 29},     {"vshape", 4, 4, 7, 1, 1, 1, 28},
        {"vshape", 4, 4, 8, 1, 1, 1, 27},     {"vshape", 4, 5, 4, 1, 1, 1, 41},
        {"vshape", 4, 5, 5, 1, 1, 1, 38},     {"vshape", 4, 5, 6, 1, 1, 1, 35},
        {"vshape", 4, 5, 7, 1, 1, 1, 34},     {"vshape", 4, 5, 8, 1, 1, 1, 33},
        {"vshape", 2, 4, 4, 2, 2, 1, 42},     {"vshape", 2, 4, 4, 2, 3, 2, 59},
        {"vshape", 3, 4, 4, 1, 2, 1, 41},     {"vshape", 3, 4, 6, 1, 2, 1, 36},
        {"looped", 2, 3, 4, 1, 1, 1, 19},     {"looped", 3, 3, 4, 1, 1, 1, 23},
        {"looped", 2, 3, 3, 1, 1, 1, 20},     {"vshape", 2, 3, 3, 1, 1, 1, 21},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *row = &rows[i];
        char options[64];
        struct schedule_run run;

        snprintf(options, sizeof options, "placement=%s", row->placement);
        run = SCHEDULE("optimal", .options = options, .p = row->p, .m = row->m, .cap = row->cap,
                       .f = row->f, .b = row->b, .w = row->w);
        if (run.makespan != row->makespan || run.answer.claim.lower_bound_ns != row->makespan) {
            fail_msg("%s, p = %u, m = %u, cap %lu: %lu, bound %lu, not %lu", row->placement, row->p,
                     row->m, (unsigned long)row->cap, (unsigned long)run.makespan,
                     (unsigned long)run.answer.claim.lower_bound_ns, (unsigned long)row->makespan);
        }
        for (uint32_t d = 0; d < row->p; d++) {
            assert_true(run.peaks[d] <= row->cap);
        }
        schedule_run_free(&run);
    }
}

/* --- all orders of a tiny chain, one stage a device, micro-batches in ascending order -----------
 */

#define P 2
#define M 3

struct tiny {
    uint64_t time[P][3], latency, bytes[P], weight_bytes[P], room[P];
};

struct sweep {
    const struct tiny *tiny;
    uint32_t n;
    uint8_t lists[2000][3 * M]; /* kinds in order: 0 F, 1 B, 2 W */
    bool fits[P][2000];
};

static void make_lists(struct sweep *sweep, uint8_t *list, uint32_t length, uint32_t counts[3])
{
    if (length == 3 * M) {
        assert_true(sweep->n < 2000);
        memcpy(sweep->lists[sweep->n++], list, 3 * M);
        return;
    }
    for (uint8_t kind = 0; kind < 3; kind++) {
        if (counts[kind] == M || (kind > 0 && counts[kind] >= counts[kind - 1])) {
            continue;
        }
        list[length] = kind;
        counts[kind]++;
        make_lists(sweep, list, length + 1, counts);
        counts[kind]--;
    }
}

static bool list_fits(const struct tiny *tiny, uint32_t d, const uint8_t *list)
{
    uint64_t held = 0;

    for (uint32_t i = 0; i < 3 * M; i++) {
        held += list[i] == 0 ? tiny->bytes[d] : 0;
        if (held > tiny->room[d]) {
            return false;
        }
        held -= list[i] == 1   ? tiny->bytes[d] - tiny->weight_bytes[d]
                : list[i] == 2 ? tiny->weight_bytes[d]
                               : 0;
    }
    return true;
}

/* Ends of a pair of lists; false where they wait for each other. */
static bool evaluate(const struct tiny *tiny, const uint8_t *const lists[P], uint64_t *ret_makespan,
                     uint64_t *ret_span)
{
    uint64_t end[P][3][M] = {{{0}}}, clock[P] = {0}, start[P] = {0};
    uint32_t at[P] = {0}, counts[P][3] = {{0}};
    bool moved = true;

    while (moved) {
        moved = false;
        for (uint32_t d = 0; d < P; d++) {
            while (at[d] < 3 * M) {
                uint8_t kind = lists[d][at[d]];
                uint32_t j = counts[d][kind], other = 1 - d;
                bool waits = kind == 0 ? d == 1 : kind == 1 && d == 0;
                uint64_t from = clock[d];

                if (waits && counts[other][kind] <= j) {
                    break;
                }
                if (waits && end[other][kind][j] + tiny->latency > from) {
                    from = end[other][kind][j] + tiny->latency;
                }
                start[d] = at[d] == 0 ? from : start[d];
                clock[d] = end[d][kind][j] = from + tiny->time[d][kind];
                counts[d][kind]++;
                at[d]++;
                moved = true;
            }
        }
    }
    *ret_makespan = clock[0] > clock[1] ? clock[0] : clock[1];
    *ret_span =
        clock[0] - start[0] > clock[1] - start[1] ? clock[0] - start[0] : clock[1] - start[1];
    return at[0] == 3 * M && at[1] == 3 * M;
}

static void sweep_all(struct sweep *sweep, uint64_t *ret_makespan, uint64_t *ret_span)
{
    *ret_makespan = *ret_span = UINT64_MAX;
    for (uint32_t d = 0; d < P; d++) {
        for (uint32_t i = 0; i < sweep->n; i++) {
            sweep->fits[d][i] = list_fits(sweep->tiny, d, sweep->lists[i]);
        }
    }
    for (uint32_t a = 0; a < sweep->n; a++) {
        for (uint32_t b = 0; sweep->fits[0][a] && b < sweep->n; b++) {
            const uint8_t *const lists[P] = {sweep->lists[a], sweep->lists[b]};
            uint64_t makespan, span;

            if (sweep->fits[1][b] && evaluate(sweep->tiny, lists, &makespan, &span)) {
                *ret_makespan = makespan < *ret_makespan ? makespan : *ret_makespan;
                *ret_span = span < *ret_span ? span : *ret_span;
            }
        }
    }
}

static void apply(struct pst_solo *solo, void *context)
{
    const struct tiny *tiny = context;

    for (uint32_t s = 0; s < P; s++) {
        solo->stages[s].forward_ns = tiny->time[s][0];
        solo->stages[s].backward_input_ns = tiny->time[s][1];
        solo->stages[s].backward_weight_ns = tiny->time[s][2];
        solo->stages[s].saved_bytes = tiny->bytes[s];
        solo->stages[s].saved_weight_bytes = tiny->weight_bytes[s];
        solo->activation_bytes[s] = tiny->room[s];
    }
    solo->links[0].transfer_ns = tiny->latency;
}

static void test_against_all_orders(void **state)
{
    static struct sweep sweep;
    uint64_t random = 7;
    uint32_t counts[3] = {0};
    uint8_t list[3 * M];

    (void)state;
    print_message("seed %lu\n", (unsigned long)random);
    make_lists(&sweep, list, 0, counts);
    assert_int_equal(sweep.n, 42); /* standard Young tableaux of 3 rows of 3 */
    for (uint32_t round = 0; round < 300; round++) {
        struct tiny tiny = {.latency = pst_random_between(&random, 0, 4)};
        uint64_t makespan, span;

        for (uint32_t d = 0; d < P; d++) {
            for (uint32_t k = 0; k < 3; k++) {
                tiny.time[d][k] = pst_random_between(&random, 1, 6);
            }
            tiny.bytes[d] = pst_random_between(&random, 2, 6);
            tiny.weight_bytes[d] =
                round % 2 == 0 ? tiny.bytes[d] : pst_random_between(&random, 0, tiny.bytes[d]);
            tiny.room[d] = pst_random_between(&random, tiny.bytes[d], 3 * tiny.bytes[d]);
        }
        sweep.tiny = &tiny;
        sweep_all(&sweep, &makespan, &span);
        for (int k = 0; k < 2; k++) {
            struct schedule_run run =
                SCHEDULE("optimal", .options = k == 0 ? "objective=makespan" : "objective=span",
                         .p = P, .m = M, .change = apply, .context = &tiny);
            uint64_t cost = k == 0 ? run.makespan : run.span, best = k == 0 ? makespan : span;

            if (cost != best || run.answer.claim.lower_bound_ns != best) {
                fail_msg("round %u, %s: %lu, bound %lu; the best of all orders has %lu", round,
                         k == 0 ? "makespan" : "span", (unsigned long)cost,
                         (unsigned long)run.answer.claim.lower_bound_ns, (unsigned long)best);
            }
            schedule_run_free(&run);
        }
    }
}

/* Cut off, it still answers, and its bound stays a bound. */
static void test_cut_off(void **state)
{
    (void)state;
    for (uint32_t nodes = 0; nodes < 3000; nodes += 97) {
        char options[64];
        struct schedule_run run;

        snprintf(options, sizeof options, "placement=vshape,max_nodes=%u", nodes);
        run = SCHEDULE("optimal", .options = options, .p = 3, .m = 4, .cap = 4);
        assert_true(run.makespan >= 29);
        assert_true(run.answer.claim.lower_bound_ns <= 29);
        schedule_run_free(&run);
    }
}

static void test_large_instances_are_answered(void **state)
{
    struct schedule_run run = SCHEDULE("optimal", .options = "placement=vshape,max_nodes=1000",
                                       .p = 16, .m = 64, .cap = 32);

    (void)state;
    assert_true(run.makespan >= run.answer.claim.lower_bound_ns);
    assert_true(run.answer.claim.lower_bound_ns >= 6 * 64 + 15);
    schedule_run_free(&run);
    /* here a search that only ever goes deeper would leave the stack */
    run = SCHEDULE("optimal", .options = "max_nodes=100000", .p = 32, .m = 64, .f = 337, .b = 571,
                   .w = 123, .c = 57);
    assert_true(run.makespan >= run.answer.claim.lower_bound_ns);
    assert_true(run.answer.claim.lower_bound_ns >= 64 * (337 + 571 + 123) + 31 * (337 + 57));
    schedule_run_free(&run);
}

static void test_too_little_memory(void **state)
{
    struct schedule_run run = SCHEDULE("optimal", .options = "placement=vshape", .p = 3, .m = 4,
                                       .cap = 1, .may_fail = true);

    (void)state;
    assert_int_equal(run.status, PST_ERR_INFEASIBLE);
    assert_non_null(strstr(run.error.message, "needs 2, which is the least that works"));
    schedule_run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_proven_optima),
        cmocka_unit_test(test_against_all_orders),
        cmocka_unit_test(test_cut_off),
        cmocka_unit_test(test_large_instances_are_answered),
        cmocka_unit_test(test_too_little_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
